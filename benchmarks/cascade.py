"""Does it pay to ask a stronger judge about the texts on which a cheap one is unsure, or to ask the cheap one more?

A cascade: the cheap judge scores all texts; a share of them, those nearest to the threshold, goes to the strong judge,
whose decision stands. It is compared at equal cost with the cheap judge asked more often (by other prompts, or in the
other order), and with the cheap and the strong judge alone. Answers are stored ones of SummEval: published grades of
GPT-4o (five prompts) and Qwen2.5-72B, and scores of nano, if a file of them is given.

A text is good where people rate it at or above the median of its attribute. Thresholds are those of the best accuracy
on half of the articles; figures are of the other half, means over 20 such halves. A question to the strong judge costs
RATIO times one to the cheap judge, from which the share that may be asked about follows. The 90 % interval of the
difference is of the jackknife over articles.

    python -m benchmarks.cascade --data ../shared/benchmarks [--nano scores.jsonl]
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from scipy.stats import t as student

from synthscore.types import BoolArray, FloatArray

ATTRIBUTES = ("coherence", "consistency", "fluency", "relevance")
RATIOS = (5, 10, 20)
N_HALVES = 20

Key = tuple[str, str, str]
"""Article, system, attribute."""


def read_jsonl(path: Path) -> list[dict]:
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    return [json.loads(line) for line in text.splitlines()]


def published(folder: Path) -> dict[tuple[str, int], dict[Key, float]]:
    """Expected grades by judge and number of the prompt."""
    grades: dict[tuple[str, int], dict[Key, float]] = {}
    for row in read_jsonl(folder / "judge_outputs" / "summeval_score_distributions.jsonl.gz"):
        probs = {int(grade): math.exp(p) for grade, p in row["logprobs"].items() if p is not None}
        if probs:
            expected = sum(grade * p for grade, p in probs.items()) / sum(probs.values())
            key = (row["context_id"], row["system"], row["attribute"])
            grades.setdefault((row["judge"], row.get("prompt_index") or 0), {})[key] = expected
    return grades


def best_threshold(scores: FloatArray, good: BoolArray) -> float:
    """Of those between scores, the one with most right decisions."""
    order = np.argsort(scores)
    ranked = good[order]
    n_right = np.concatenate([[ranked.sum()], ranked.sum() + np.cumsum(1 - 2 * ranked.astype(int))])
    cuts = np.concatenate([[-np.inf], (scores[order][1:] + scores[order][:-1]) / 2, [np.inf]])
    return float(cuts[int(n_right.argmax())])


def accuracies(
    cheap: FloatArray, more: FloatArray, strong: FloatArray, good: BoolArray, train: BoolArray, share: float
) -> tuple[float, float, float, float]:
    """Of the cheap judge, the cheap judge asked more, the strong judge and the cascade, on the texts that are not
    `train`. share : of texts that go to the strong judge"""
    test = ~train
    cuts = [best_threshold(scores[train], good[train]) for scores in (cheap, more, strong)]
    decided = [scores[test] >= cut for scores, cut in zip((cheap, more, strong), cuts, strict=True)]
    distance = np.abs(cheap[test] - (cuts[0] if math.isfinite(cuts[0]) else np.median(cheap[train])))
    n_asked = round(share * test.sum())
    asked = np.zeros(test.sum(), dtype=bool)
    asked[np.argsort(distance)[:n_asked]] = True
    cascade = np.where(asked, decided[2], decided[0])
    one, three, best = (float((decision == good[test]).mean()) for decision in decided)
    return one, three, best, float((cascade == good[test]).mean())


def figures(
    values: Sequence[FloatArray], good: BoolArray, articles: Sequence[str], share: float, seed: int = 0
) -> tuple[FloatArray, float]:
    """Mean accuracies of the four, and half the width of the 90 % interval of cascade - cheap asked more."""
    names = np.array(articles)
    unique = np.unique(names)

    def means(kept: BoolArray) -> FloatArray:
        rng = np.random.default_rng(seed)
        there = np.unique(names[kept])
        rows = []
        for _ in range(N_HALVES):
            half = rng.permutation(there)[: len(there) // 2]
            train = np.isin(names[kept], half)
            cheap, more, strong = (value[kept] for value in values)
            rows.append(accuracies(cheap, more, strong, good[kept], train, share))
        return np.array(rows).mean(axis=0)

    everything = means(np.ones(len(names), dtype=bool))
    left_out = np.array([np.subtract(*means(names != name)[[3, 1]]) for name in unique])
    n = len(unique)
    error = math.sqrt((n - 1) / n * ((left_out - left_out.mean()) ** 2).sum())
    return everything, float(student.ppf(0.95, n - 1)) * error


def compare(
    title: str,
    judges: Callable[[str], tuple[dict[Key, float], dict[Key, float], dict[Key, float]]],
    human: dict[Key, float],
    n_times: int,
) -> None:
    """A row an attribute and ratio. n_times : what the cheap judge asked more costs, in its questions"""
    print(f"\n{title}\n{'':13s} ratio  asked  cheap  cheap x{n_times}  strong  cascade  cascade - cheap x{n_times}")
    for attribute in ATTRIBUTES:
        three = judges(attribute)
        keys = [key for key in human if key[2] == attribute and all(key in scores for scores in three)]
        if not keys:
            continue
        ratings = np.array([human[key] for key in keys])
        good = ratings >= np.median(ratings)
        values = [np.array([scores[key] for key in keys]) for scores in three]
        for ratio in RATIOS:
            share = min((n_times - 1) / ratio, 1.0)
            (one, more, best, cascade), half_width = figures(values, good, [key[0] for key in keys], share)
            difference = cascade - more
            sign = "*" if abs(difference) > half_width else ""
            print(
                f"{attribute:13s} {ratio:5d}  {share:5.2f}  {one:5.3f}  {more:8.3f}  {best:6.3f}  {cascade:7.3f}  "
                f"{difference:+.3f} +- {half_width:.3f}{sign}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--nano", type=Path, help="scores of nano in both orders, with verdicts")
    given = parser.parse_args()
    grades = published(given.data)
    human: dict[Key, float] = {}
    for row in read_jsonl(given.data / "summeval.jsonl.gz"):
        for attribute in ATTRIBUTES:
            human[row["context_id"], row["system"], attribute] = row["human"][attribute]
    gpt = [grades["GPT-4o", index] for index in range(5)]
    (qwen_name,) = {judge for judge, _ in grades if judge != "GPT-4o"}
    qwen = grades[qwen_name, 0]

    def mean(*several: dict[Key, float]) -> dict[Key, float]:
        shared = set.intersection(*(set(scores) for scores in several))
        return {key: float(np.mean([scores[key] for scores in several])) for key in shared}

    compare(
        f"GPT-4o by one prompt, then {qwen_name}",
        lambda _: (gpt[0], mean(*gpt[:3]), qwen),
        human,
        3,
    )
    compare("GPT-4o by one prompt, then by the mean of five", lambda _: (gpt[0], mean(*gpt[:3]), mean(*gpt)), human, 3)
    if given.nano:
        from synthscore.scoring.paper import paper_sum

        one: dict[Key, float] = {}
        both: dict[Key, float] = {}
        for row in read_jsonl(given.nano):
            by_order = [[v for v in row.get("verdicts") or () if v[1] == order] for order in (0, 1)]
            if len(by_order[0]) == len(by_order[1]) == row["n_rungs"]:
                article, system = row["id"].rsplit("/", 1)
                sums = [
                    float(paper_sum([[v[2] for v in verdicts]], [[v[3] for v in verdicts]])[0]) for verdicts in by_order
                ]
                one[article, system, row["attribute"]] = sums[0]
                both[article, system, row["attribute"]] = sum(sums) / 2
        compare("nano in one order, then GPT-4o by one prompt", lambda _: (one, both, gpt[0]), human, 2)
        compare(f"nano in one order, then {qwen_name}", lambda _: (one, both, qwen), human, 2)


if __name__ == "__main__":
    main()
