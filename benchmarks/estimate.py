"""Do the intervals of `estimate` hold, and how many labels do scores save?

Simulated texts, of which everything is known: quality q ~ N(0, 1); people rate round(3 + q) from 1 to 5; the judge's
score is 3 + r q + sqrt(1 - r^2) noise, with r = .8 (good), 0 (useless) or -.8 (adversarial). Where texts come 8 to a
context, half of the variance of q and of noise is the context's. Labels are drawn

    each own      30 or 100 of 1000 texts, each of a context of its own
    any           30 or 100 of 1200 texts, 8 to a context
    whole         all 8 texts of 20 contexts of 150
    two of each   2 texts of 20 contexts of 150

and what is estimated is the mean rating; the share of the best half, fifth or tenth (people and judge alike draw the
line there); and the difference of two systems with the same contexts, of which one is .3 better.

Bar: of 90 % intervals .875 to .925 hold the truth, in 2000 draws (standard error .007). Never is one wider than by
labels alone by more than 2 %. Then: how often labels that were drawn at random are doubted (p < .05) and refused
(p < .001), and labels of the best 30 % by score.

With --data: labels that GPT-4o's published grades of SummEval save (the first of its prompts, mean grade by its
log-probabilities): 1 - (width / width by labels alone)^2, mean of 500 draws. Bar: 12 % of the labels, mean over
attributes.

    OMP_NUM_THREADS=1 python -m benchmarks.estimate [--draws 2000] [--data benchmarks/]

Writes benchmarks/results/estimate.txt and .json.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from synthscore.estimating.estimate import Estimate, make_estimate
from synthscore.estimating.prediction_powered import Means, mean_labels
from synthscore.thresholds.drawn import DOUBTED, REFUSED, compare_scores
from synthscore.types import BoolArray, FloatArray, IntArray

CONFIDENCE = 0.9
BETTER = 0.3
RESULTS = Path(__file__).parent / "results"
JUDGES = {"good": 0.8, "useless": 0.0, "adversarial": -0.8}
DRAWS = {
    "each own, 30": (1000, 1, None, 30),
    "each own, 100": (1000, 1, None, 100),
    "any, 30": (150, 8, None, 30),
    "any, 100": (150, 8, None, 100),
    "whole, 20 x 8": (150, 8, 20, 8),
    "two of each, 20 x 2": (150, 8, 20, 2),
}
"""Contexts, texts a context, contexts that are labelled (None: any texts are), and labels, of each or of all."""
SHARES = (0.5, 0.2, 0.1)


def draw_texts(n_contexts: int, per_context: int, r: float, rng: np.random.Generator) -> tuple[FloatArray, ...]:
    """Quality and score of each text."""

    def alike() -> FloatArray:
        each = rng.normal(size=n_contexts * per_context)
        if per_context == 1:
            return each
        return math.sqrt(0.5) * (np.repeat(rng.normal(size=n_contexts), per_context) + each)

    q = alike()
    return q, 3 + r * q + math.sqrt(1 - r * r) * alike()


def draw_labelled(design: str, rng: np.random.Generator) -> BoolArray:
    n_contexts, per_context, n_labelled, n = DRAWS[design]
    labelled = np.zeros(n_contexts * per_context, dtype=bool)
    if n_labelled is None:
        labelled[rng.choice(len(labelled), n, False)] = True
    else:
        for context in rng.choice(n_contexts, n_labelled, False):
            labelled[context * per_context + rng.choice(per_context, n, False)] = True
    return labelled


def rate(q: FloatArray) -> FloatArray:
    return np.clip(np.round(3 + q), 1, 5)


def mean_rating(better: float = 0.0) -> float:
    """Of all texts."""
    return 1 + sum(1 - float(ndtr(line - better)) for line in (-1.5, -0.5, 0.5, 1.5))


def _means(q: FloatArray, scores: FloatArray, labelled: BoolArray, contexts: IntArray, share: float | None) -> Means:
    if share is None:
        labels = rate(q)
    else:
        line = -float(ndtri(share))
        labels, scores = (q > line).astype(float), (scores > 3 + line).astype(float)
    return mean_labels(np.where(labelled, labels, np.nan), scores, contexts, int(contexts.max()) + 1)


def estimate_once(design: str, judge: str, what: float | str, rng: np.random.Generator) -> Estimate:
    """what : a share, "mean" or "difference" """
    n_contexts, per_context, *_ = DRAWS[design]
    contexts = np.repeat(np.arange(n_contexts), per_context)
    share = what if isinstance(what, float) else None
    q, scores = draw_texts(n_contexts, per_context, JUDGES[judge], rng)
    labelled = draw_labelled(design, rng)
    counts = {"n_labels": int(labelled.sum()), "n_texts": len(q)}
    if what != "difference":
        means = _means(q, scores, labelled, contexts, share)
        return make_estimate("", "", means, counts, CONFIDENCE, share=share is not None)[0]
    shared = draw_texts(n_contexts, 1, 0.0, rng)[0].repeat(per_context) * math.sqrt(0.5)
    both = []
    for better in (BETTER, 0.0):
        q = better + shared + math.sqrt(0.5) * rng.normal(size=len(q))
        r = JUDGES[judge]
        scores = 3 + r * q + math.sqrt(1 - r * r) * rng.normal(size=len(q))
        labelled = draw_labelled(design, rng)
        means = _means(q, scores, labelled, contexts, None)
        both.append(make_estimate("", "", means, counts, CONFIDENCE, share=False)[1])
    return make_estimate("one", "other", both[0].minus(both[1]), counts, CONFIDENCE, share=False)[0]


def measure(draws: int) -> Iterator[dict[str, Any]]:
    truths = {"mean": mean_rating(), "difference": mean_rating(BETTER) - mean_rating(), **{s: s for s in SHARES}}
    for what, truth in truths.items():
        for design in DRAWS:
            for judge in JUDGES:
                rng = np.random.default_rng(1)
                found = [estimate_once(design, judge, what, rng) for _ in range(draws)]
                given = [each for each in found if each.value.width > 0]
                ratios = np.array([each.value.width / each.labels_alone.width for each in given])
                yield {
                    "what": what if isinstance(what, str) else f"share of {what:g}",
                    "labels": design,
                    "judge": judge,
                    "without": 1 - len(given) / draws,
                    "holds": float(np.mean([each.value.low <= truth <= each.value.high for each in given])),
                    "holds_labels": float(
                        np.mean([each.labels_alone.low <= truth <= each.labels_alone.high for each in given])
                    ),
                    "width": float(ratios.mean()),
                    "widest": float(ratios.max()),
                }


def measure_draws(draws: int) -> Iterator[dict[str, Any]]:
    """How often labelled texts are doubted and refused."""
    for chosen in (False, True):
        for design, (n_contexts, per_context, *_) in DRAWS.items():
            rng = np.random.default_rng(2)
            p = []
            for _ in range(draws):
                _, scores = draw_texts(n_contexts, per_context, 0.8, rng)
                contexts = np.repeat(np.arange(n_contexts), per_context)
                labelled = draw_labelled(design, rng)
                if chosen:
                    best = np.argsort(-scores)[: round(0.3 * len(scores))]
                    n_labels = int(labelled.sum())
                    labelled = np.zeros(len(scores), dtype=bool)
                    labelled[rng.choice(best, n_labels, False)] = True
                p.append(compare_scores(scores, labelled, contexts))
            yield {
                "texts": "of the best 30 % by score" if chosen else "at random",
                "labels": design,
                "doubted": float(np.mean(np.array(p) < DOUBTED)),
                "refused": float(np.mean(np.array(p) < REFUSED)),
            }


# ------------------------------------------------------------------------------------------------- SummEval


def _read(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def _grade(row: dict[str, Any]) -> float:
    """Mean grade; NaN where no grade was reported."""
    mass = np.array([math.exp(p) if (p := row["logprobs"][grade]) is not None else 0.0 for grade in "12345"])
    return float(mass @ np.arange(1, 6) / mass.sum()) if mass.any() else math.nan


def measure_summeval(folder: Path, draws: int) -> Iterator[dict[str, Any]]:
    texts = {(row["context_id"], row["system"]): row["human"] for row in _read(folder / "summeval.jsonl.gz")}
    graded = {
        (row["attribute"], row["context_id"], row["system"]): _grade(row)
        for row in _read(folder / "judge_outputs" / "summeval_score_distributions.jsonl.gz")
        if row["judge"] == "GPT-4o" and row["prompt_index"] == 0
    }
    names = {name: number for number, name in enumerate(dict.fromkeys(context for context, _ in texts))}
    contexts = np.array([names[context] for context, _ in texts])
    for n in (30, 60, 100, 200):
        for attribute in next(iter(texts.values())):
            human = np.array([each[attribute] for each in texts.values()], dtype=float)
            scores = np.array([graded[(attribute, *key)] for key in texts])
            rng = np.random.default_rng(3)
            saved = []
            for _ in range(draws):
                labelled = np.zeros(len(human), dtype=bool)
                labelled[rng.choice(len(human), n, False)] = True
                means = mean_labels(np.where(labelled, human, np.nan), scores, contexts, len(names))
                counts = {"n_labels": n, "n_texts": len(human)}
                found = make_estimate("", "", means, counts, CONFIDENCE, share=False)[0]
                ratio = found.value.width / found.labels_alone.width
                saved.append(0.0 if math.isnan(ratio) else 1 - ratio**2)  # NaN: labels do not differ between contexts
            known = ~np.isnan(scores)
            yield {
                "attribute": attribute,
                "labels": n,
                "texts": len(human),
                "r": float(np.corrcoef(human[known], scores[known])[0, 1]),
                "saved": float(np.mean(saved)),
            }


# ------------------------------------------------------------------------------------------------- results


def lines(measured: dict[str, list[dict[str, Any]]], draws: int) -> Iterator[str]:
    yield f"{draws} draws a row, {CONFIDENCE:.0%} intervals; * beyond .875 to .925"
    yield ""
    yield f"{'what':12} {'labels':19} {'judge':11}  holds    by labels  width widest   none"
    for row in measured["intervals"]:
        mark = " " if 0.875 <= row["holds"] <= 0.925 else "*"
        yield (
            f"{row['what']:12} {row['labels']:19} {row['judge']:11} {row['holds']:6.3f} {mark} "
            f"{row['holds_labels']:9.3f} {row['width']:6.3f} {row['widest']:6.3f} {row['without']:6.3f}"
        )
    yield ""
    yield f"{'labelled texts':28} {'labels':19} {'doubted':>8} {'refused':>8}"
    for row in measured["draws"]:
        yield f"{row['texts']:28} {row['labels']:19} {row['doubted']:8.3f} {row['refused']:8.4f}"
    if measured["summeval"]:
        yield ""
        yield f"{'SummEval, GPT-4o':18} {'labels':>6} {'of':>5} {'r':>5} {'saved':>6}"
        for row in measured["summeval"]:
            yield f"{row['attribute']:18} {row['labels']:6} {row['texts']:5} {row['r']:5.2f} {row['saved']:6.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--data", type=Path, help="folder of the benchmarks' files")
    args = parser.parse_args()
    measured = {
        "intervals": list(measure(args.draws)),
        "draws": list(measure_draws(args.draws)),
        "summeval": list(measure_summeval(args.data, 500)) if args.data else [],
    }
    text = "\n".join(lines(measured, args.draws)) + "\n"
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "estimate.txt").write_text(text)
    (RESULTS / "estimate.json").write_text(json.dumps({"draws": args.draws, **measured}, indent=1) + "\n")
    print(text, end="")
    holds = [row["holds"] for row in measured["intervals"]]
    saved = [row["saved"] for row in measured["summeval"]]
    widest = max(row["widest"] for row in measured["intervals"])
    print(json.dumps({"holds": [min(holds), max(holds)], "widest": widest, "saved": float(np.mean(saved or [0]))}))


if __name__ == "__main__":
    main()
