"""How many tokens does a judge read for a decision, "is this text above the threshold"? From recorded answers.

    python -m benchmarks.cost            # of all of benchmarks/answers/cost-*.npz, which `benchmarks.cost_record` makes

Each text is kept or dropped by where its whole ladder, in both orders, puts it; "same" is the share of texts that a
cheaper way puts on the same side. The scale of a text is fitted on every second text of its context, others than it
(both halves in turn). Tokens are those of the prompts in Qwen's tokenizer, with its chat template, as a model runs
over them: "alone", where each text is the only one of its context, and "together", where all 16 are there.

one prompt at a time    as the papers' code does: every prompt as a whole
batched                 16 prompts, padded to the longest, in the order of the texts
shared prefixes         every distinct beginning once (docs/engines.md)
adaptive                in rounds (docs/adaptive.md); what is read of a context is kept from one to the next
place                   all rungs in one prompt, one question a text. "Same" is of as many texts kept
reward model            article and text, once, each text by itself; without the rungs, and what it would decide was
                        not measured

Bar: 20 times fewer tokens than one prompt at a time at 98 % same decisions. The last line is JSON.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.adaptive import EPS, QUARTILES, THRESHOLDS, Data, halves, place
from synthscore.judging.labels import TURNED, both_in_one
from synthscore.scoring.anchored import SoftAnswers
from synthscore.scoring.anchored.adaptive import SameDecision, ask_in_rounds
from synthscore.scoring.paper import paper_sum, rung_equivalent
from synthscore.types import BoolArray, FloatArray, IntArray

ANSWERS, RESULTS = Path(__file__).parent / "answers", Path(__file__).parent / "results"
BATCH = 16


@dataclass(frozen=True, eq=False)
class Prompts:
    """What prompts share, without the prompts.

    rank : of each prompt, its place among all in the order of their tokens
    shared : by place: with how many tokens it begins like the one before. length : of each prompt, tokens
    """

    rank: IntArray
    shared: IntArray
    length: IntArray

    @classmethod
    def read(cls, recorded: Any, name: str) -> Prompts:
        order, shared, length = (recorded[f"{name}_{key}"].astype(np.int64) for key in ("order", "shared", "length"))
        return cls(np.argsort(order), shared, length)

    def whole(self, chosen: IntArray) -> int:
        return int(self.length[chosen].sum())

    def padded(self, chosen: IntArray) -> int:
        batches = [self.length[chosen[k : k + BATCH]] for k in range(0, len(chosen), BATCH)]
        return sum(int(batch.max()) * len(batch) for batch in batches)

    def distinct(self, chosen: IntArray) -> int:
        """Tokens of the tree of these prompts: two of them share the least that neighbours between them do."""
        if not len(chosen):
            return 0
        rank = np.unique(self.rank[chosen])
        between = np.minimum.reduceat(self.shared[: rank[-1] + 1], rank[:-1] + 1) if len(rank) > 1 else np.zeros(0, int)
        lengths = self.length[np.unique(chosen)]
        return int(lengths.sum() - between.sum())


@dataclass(frozen=True, eq=False)
class Recorded:
    """What a judge said of texts on ladders.

    ladder : of each text. attributes : of each ladder
    said : shape (n_texts, N, 2 orders, 3); better, worse, similar, of the text
    places : the rung that each text is most like, an expectation; None where that was not asked
    """

    name: str
    ladder: IntArray
    attributes: list[str]
    said: FloatArray
    places: FloatArray | None
    prompts: dict[str, Prompts]

    @classmethod
    def read(cls, path: Path) -> Recorded:
        with np.load(path) as recorded:
            log_probs = recorded["log_probs"].astype(np.float64)
            said = _normalised(log_probs)
            said[:, :, 1] = said[:, :, 1][..., TURNED]
            places = None
            if "places" in recorded:
                places = _normalised(recorded["places"].astype(np.float64)) @ np.arange(1, log_probs.shape[1] + 1)
            prompts = {name: Prompts.read(recorded, name) for name in ("compare", "place", "reward")}
            ladder = recorded["ladder"].astype(np.int64)
            return cls(path.stem, ladder, recorded["attributes"].tolist(), said, places, prompts)

    @property
    def n_each(self) -> int:
        """Questions about a text."""
        return 2 * self.said.shape[1]

    def questions(self, text: IntArray, level: IntArray, swapped: IntArray) -> IntArray:
        """Indices among the prompts of `compare`."""
        questions: IntArray = text * self.n_each + 2 * (level - 1) + swapped
        return questions


def _normalised(log_probs: FloatArray) -> FloatArray:
    probs = np.exp(log_probs - log_probs.max(axis=-1, keepdims=True))
    normalised: FloatArray = probs / probs.sum(axis=-1, keepdims=True)
    return normalised


@dataclass(frozen=True, eq=False)
class Half:
    """Texts, and a scale that they were not fitted on. texts : which of all texts they are"""

    data: Data
    texts: IntArray


def both_halves(recorded: Recorded, attribute: str) -> list[Half]:
    """Every second text of each ladder, and the others."""
    of = [k for k, name in enumerate(recorded.attributes) if name == attribute]
    texts = np.flatnonzero(np.isin(recorded.ladder, of))
    found = []
    for turn in (0, 1):
        chosen = texts[np.arange(len(texts)) ^ turn]  # neighbours change places: `halves` measures the odd ones
        said = recorded.said[chosen]
        ladder = np.unique(recorded.ladder[chosen], return_inverse=True)[1]
        target, rung, order = np.nonzero(np.ones(said.shape[:3], dtype=bool))
        n = said.shape[1]
        sign = np.where(order == 1, -1.0, 1.0)
        answers = SoftAnswers(len(of), n, ladder, ladder[target], n + target, rung, sign, said[target, rung, order])
        found.append(Half(halves(answers, None), chosen[1::2]))
    return found


def in_rounds(recorded: Recorded, half: Half, threshold: float, eps: float) -> tuple[BoolArray, IntArray]:
    """Which texts are above the threshold, and the questions."""
    rounds: list[IntArray] = []

    def ask(target: IntArray, level: IntArray, swapped: BoolArray) -> FloatArray:
        rounds.append(recorded.questions(half.texts[target], level, swapped.astype(np.int64)))
        return half.data.ask(target, level, swapped)

    found = ask_in_rounds(half.data.scale, half.data.contexts, ask, SameDecision(threshold, eps))
    above: BoolArray = found.posterior.mean >= threshold
    return above, np.concatenate(rounds)


def measure(recorded: Recorded, attribute: str, *, quartiles: bool) -> list[dict[str, Any]]:
    """A row for each way and threshold: tokens a decision, alone and together, questions a decision, and the same.

    Nothing adaptive for a judge that does not see the rungs rise; its whole ladders give the paper's score.
    """
    both = both_halves(recorded, attribute)
    rise = all(half.data.scale.judge.rungs_rise for half in both)
    every = [whole_ladders(half.data) if rise else paper_scores(half.data) for half in both]
    at = np.quantile(np.concatenate(every), QUARTILES).tolist() if quartiles else list(THRESHOLDS)
    texts = np.concatenate([half.texts for half in both])
    found = []
    for k, threshold in enumerate(at):
        whole = [scores >= threshold for scores in every]
        share = np.concatenate(whole).mean()
        row = {"threshold": k, "commoner": float(max(share, 1 - share))}
        for eps in EPS if rise else ():
            parts = [in_rounds(recorded, half, threshold, eps) for half in both]
            same = np.concatenate([above == as_whole for (above, _), as_whole in zip(parts, whole, strict=True)])
            cost = adaptive_way(recorded, np.concatenate([asked for _, asked in parts]), len(texts))
            found.append({**row, **cost, "way": f"adaptive, eps {eps:g}", "same": float(same.mean())})
        known = {"place": placed_same(recorded, texts, np.concatenate(whole)), "reward model": None}
        found += [{**row, **cost, "way": way, "same": known.get(way, 1.0)} for way, cost in fixed_ways(recorded, texts)]
    return found


def whole_ladders(data: Data) -> FloatArray:
    return place(data, tuple(range(1, data.said.shape[1] + 1)), 2).mean


def paper_scores(data: Data) -> FloatArray:
    better, worse, _ = np.moveaxis(both_in_one(np.moveaxis(data.said, 2, 0), "compare", "log-odds"), -1, 0)
    return rung_equivalent(paper_sum(better, worse), data.said.shape[1])


def adaptive_way(recorded: Recorded, asked: IntArray, n_texts: int) -> dict[str, float]:
    prompts, asked = recorded.prompts["compare"], np.sort(asked)
    text = asked // recorded.n_each

    def read(of: IntArray) -> int:
        return sum(map(prompts.distinct, np.split(asked, np.flatnonzero(np.diff(of)) + 1)))

    return _a_text(len(asked), read(text), read(recorded.ladder[text]), n_texts)


def fixed_ways(recorded: Recorded, texts: IntArray) -> list[tuple[str, dict[str, float]]]:
    """What does not depend on answers."""
    texts = np.sort(texts)
    n, n_each, compare = len(texts), recorded.n_each, recorded.prompts["compare"]
    asked = texts[:, None] * n_each + np.arange(n_each)
    each, every = sum(map(compare.distinct, asked)), asked.ravel()
    ways = [
        ("one prompt at a time", _a_text(len(every), compare.whole(every), compare.whole(every), n)),
        ("batched", _a_text(len(every), compare.padded(every), compare.padded(every), n)),
        ("shared prefixes", _a_text(len(every), each, compare.distinct(every), n)),
    ]
    placing, read = recorded.prompts["place"], recorded.prompts["reward"].whole(texts)
    ways.append(("place", _a_text(n, placing.whole(texts), placing.distinct(texts), n)))
    return [*ways, ("reward model", _a_text(n, read, read, n))]


def _a_text(n_questions: int, alone: int, together: int, n_texts: int) -> dict[str, float]:
    return {"questions": n_questions / n_texts, "alone": alone / n_texts, "together": together / n_texts}


def placed_same(recorded: Recorded, texts: IntArray, kept: BoolArray) -> float | None:
    """Where `place`, which has a scale of its own, keeps as many texts as whole ladders do. None: it was not asked."""
    if recorded.places is None:
        return None
    by_place = np.argsort(np.argsort(recorded.places[texts])) >= len(texts) - kept.sum()
    return float((by_place == kept).mean())


def rows_of(recorded: Recorded, *, quartiles: bool) -> list[dict[str, Any]]:
    """A row for each way: means over thresholds and attributes."""
    of = dict.fromkeys(recorded.attributes)
    found = [row for attribute in of for row in measure(recorded, attribute, quartiles=quartiles)]
    rows = []
    for way in dict.fromkeys(row["way"] for row in found):
        own = [row for row in found if row["way"] == way]
        row: dict[str, Any] = {"way": way}
        for key in ("questions", "alone", "together", "same", "commoner"):
            known = [each[key] for each in own if each[key] is not None]
            row[key] = float(np.mean(known)) if known else None
        rows.append(row)
    first = next(row for row in rows if row["way"] == "one prompt at a time")
    for row in rows:
        row["times alone"], row["times together"] = first["alone"] / row["alone"], first["together"] / row["together"]
    return rows


def main() -> None:
    lines: list[str] = []
    results: dict[str, Any] = {}

    def show(line: str) -> None:
        lines.append(line)
        print(line, flush=True)

    for path in sorted(ANSWERS.glob("cost-*.npz")):
        recorded = Recorded.read(path)
        for quartiles, where in enumerate(("at 2.5, 3, 3.5, 4", "at the quartiles")):
            rows = results[f"{recorded.name} {where}"] = rows_of(recorded, quartiles=bool(quartiles))
            show(
                f"\n{recorded.name}, {len(recorded.ladder)} texts on {len(recorded.attributes)} ladders, {where}; "
                f"commoner side {100 * rows[0]['commoner']:.0f} %"
            )
            show(f"{'':26s} questions  alone: tokens  times   together: tokens  times   same %")
            for row in sorted(rows, key=lambda row: -row["together"]):
                same = "" if row["same"] is None else f"{100 * row['same']:8.1f}"
                show(
                    f"{row['way']:26s} {row['questions']:9.1f} {row['alone']:14,.0f} {row['times alone']:6.1f} "
                    f"{row['together']:18,.0f} {row['times together']:6.1f} {same}"
                )
    (RESULTS / "cost.txt").write_text("\n".join(lines).lstrip() + "\n")
    (RESULTS / "cost.json").write_text(json.dumps(results) + "\n")
    print(json.dumps(results))


if __name__ == "__main__":
    main()
