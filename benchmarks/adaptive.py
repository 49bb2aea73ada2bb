"""How many questions does a decision need? The same texts kept and dropped as by whole ladders, for how many of them.

Each text is asked about in rounds, until the rule stops, with answers that are there: of a judge whose truth is known
(that of benchmarks/anchored.py, noise 1 nat), or of any judge, from a file of verdicts. The scale is fitted on half of
the texts of each context, and the other half is measured. "Same": share of texts that the score by the questions asked
puts on the same side of the threshold as the score by all of them. "Fixed": the best subset of rungs, the same for all
texts. Thresholds are at 2.5, 3, 3.5 and 4 on the scale 1..5, and each row is the mean over them; verdicts from a file
also at the quartiles of the whole ladders' scores, where most is to be decided. "Commoner side": what one would have
who asks nothing and knows which side more texts are on. Bar: 98 % same with half of the questions. The last line is
JSON.

    python -m benchmarks.adaptive [--seeds 5]
    python -m benchmarks.adaptive --verdicts scores.jsonl     # of `synthscore score --verdicts --both-orders`
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.anchored import simulate
from synthscore.io.fields import Row
from synthscore.io.files import read_rows
from synthscore.scoring.anchored import Anchors, Posterior, Scale, SoftAnswers, fit
from synthscore.scoring.anchored.adaptive import (
    NODES,
    WEIGHTS,
    SameDecision,
    Stop,
    Sure,
    ask_in_rounds,
    information,
)
from synthscore.signature import Signature
from synthscore.types import BoolArray, FloatArray, IntArray

RESULTS = Path(__file__).parent / "results"
THRESHOLDS = (2.5, 3.0, 3.5, 4.0)
QUARTILES = (0.25, 0.5, 0.75)
EPS = (0.01, 0.02, 0.05, 0.1, 0.2)  # of SameDecision; of Sure, alpha


@dataclass(frozen=True, eq=False)
class Data:
    """A scale, texts that it was not fitted on, and what the judge says of them: shape (n_texts, N, 2 orders, 3), NaN
    where there is no answer. truth : on 1..N, or None"""

    scale: Scale
    contexts: list[str]
    said: FloatArray
    truth: FloatArray | None

    @property
    def usable(self) -> BoolArray:
        usable: BoolArray = ~np.isnan(self.said).any(axis=(2, 3))
        return usable

    def ask(self, target: IntArray, level: IntArray, swapped: BoolArray) -> FloatArray:
        answers: FloatArray = self.said[target, level - 1, swapped.astype(int)]
        return answers


def halves(answers: SoftAnswers, truth: FloatArray | None) -> Data:
    """A scale of every second text, and the others."""
    n, targets = answers.n_rungs, np.arange(answers.n_targets)
    about = answers.first - n  # the target, where there is one
    in_fit = (about < 0) | (about % 2 == 0)
    judge, posterior = fit(_without_odd_targets(answers.take(in_fit)))
    ladders = {str(k): Anchors(posterior.rungs[k], posterior.rung_cov[k]) for k in range(answers.n_ladders)}
    scale = Scale(judge, ladders, "summarization", "coherence", Signature.of(judge="replayed"))
    odd = targets % 2 == 1
    said = np.full((len(targets), n, 2, 3), np.nan)
    of_targets = about >= 0
    order = (answers.sign < 0).astype(int)
    said[about[of_targets], answers.second[of_targets], order[of_targets]] = answers.probs[of_targets]
    contexts = [str(k) for k in answers.target_ladder[odd].tolist()]
    return Data(scale, contexts, said[odd], None if truth is None else truth[odd])


def _without_odd_targets(answers: SoftAnswers) -> SoftAnswers:
    n = answers.n_rungs
    first = np.where(answers.first < n, answers.first, n + (answers.first - n) // 2)
    texts = (answers.n_ladders, n, answers.target_ladder[::2])
    return SoftAnswers(*texts, answers.ladder, first, answers.second, answers.sign, answers.probs)


def simulated(seed: int, n_rungs: int) -> Data:
    made = simulate(np.random.default_rng(seed), 50, n_rungs, n_texts=32, noise=1.0)
    return halves(made.answers, 1 + (made.truth - 1) * (n_rungs - 1) / 4)


def recorded(path: str) -> Iterator[tuple[str, Data]]:
    """Of each attribute; verdicts of rungs against each other are not in the file."""
    rows = [dict(row.values) for row in read_rows(path) if isinstance(row, Row)]
    for attribute in dict.fromkeys(row["attribute"] for row in rows):
        own = [row for row in rows if row["attribute"] == attribute]
        places = {name: place for place, name in enumerate(dict.fromkeys(row["context_id"] for row in own))}
        ladder_of = np.array([places[row["context_id"]] for row in own])
        flat = [(k, *verdict) for k, row in enumerate(own) for verdict in row["verdicts"]]
        target, level, swapped = (np.array([int(each[i]) for each in flat]) for i in range(3))
        probs = np.array([each[3:] for each in flat], dtype=float)
        n, sign = int(level.max()), np.where(swapped == 1, -1.0, 1.0)
        texts = (len(places), n, ladder_of)
        answers = SoftAnswers(
            *texts, ladder_of[target], n + target, level - 1, sign, probs / probs.sum(1, keepdims=True)
        )
        yield attribute, halves(answers, None)


def place(data: Data, levels: tuple[int, ...], orders: int) -> Posterior:
    """By these rungs of every text."""
    chosen = np.isin(np.arange(data.said.shape[1]) + 1, levels)[:, None] & (np.arange(2) < orders)
    target, rung, order = np.nonzero(chosen & data.usable[:, :, None])
    said = data.said[target, rung, order]
    return data.scale.place(data.contexts, target, rung + 1, order == 1, said)


@dataclass(frozen=True, slots=True)
class Rungs:
    """Which rungs to ask about. levels : 1..N, rising. sd : of a target's position, root mean square over targets."""

    levels: tuple[int, ...]
    both_orders: bool
    sd: float

    @property
    def n_questions(self) -> int:
        return len(self.levels) * (1 + self.both_orders)


def best_rungs(scale: Scale, budget: int, *, both_orders: bool = True) -> Rungs:
    """The rungs to ask about where all targets are asked the same: those that leave the least expected variance.

    Expected over targets as the scale expects them, and over its ladders (one as judge.rung_sd says, where it has
    none). All subsets are looked at for N <= 9, else rungs are added one by one. The scale's own error is not in sd.

    budget : questions a target; one rung is two of them in both orders
    """
    n, each = scale.n_rungs, 1 + both_orders
    size = min(budget // each, n)
    judge = scale.judge
    anchors = list(scale.ladders.values())
    unknown = judge.prior(1)
    rungs = np.array([one.mean for one in anchors]) if anchors else unknown.rungs
    cov = np.array([one.cov for one in anchors]) if anchors else np.linalg.inv(unknown.precision)
    x = judge.target_mean + judge.text_sd * NODES
    info = np.zeros((len(rungs), len(x), n))
    for sign in (1.0, -1.0)[:each]:
        info += information(judge, x[None, :, None] - rungs[:, None], sign, cov.diagonal(0, 1, 2)[:, None])

    def expected(levels: tuple[int, ...]) -> float:
        at = np.array(levels)
        noise = cov[:, at[:, None], at][:, None] + np.eye(len(at)) / info[:, :, at][..., None]
        told = np.linalg.inv(noise).sum(axis=(-2, -1))
        return float((1 / (judge.text_sd**-2.0 + told)).mean(axis=0) @ WEIGHTS)

    if n <= 9:
        chosen = min(combinations(range(n), size), key=expected)
    else:
        chosen = ()
        for _ in range(size):
            chosen = min(((*chosen, k) for k in range(n) if k not in chosen), key=expected)
    return Rungs(tuple(sorted(k + 1 for k in chosen)), both_orders, math.sqrt(expected(chosen)))


def on_rungs(threshold: float, n: int) -> float:
    """Of the scale 1..5."""
    return 1 + (threshold - 1) * (n - 1) / 4


def measure(data: Data, quartiles: bool = False) -> list[dict[str, Any]]:
    """A row for each way to ask and threshold; `right`, `rmse` and `cover` where the truth is known."""
    n = data.scale.n_rungs
    every = place(data, tuple(range(1, n + 1)), 2)
    n_full = 2 * data.usable.sum()
    at = [on_rungs(threshold, n) for threshold in THRESHOLDS]
    if quartiles:
        at = np.quantile(every.mean, QUARTILES).tolist()
    found: list[dict[str, Any]] = []

    def add(what: str, by: float, k: int, posterior: Posterior, asked: float, rounds: int) -> None:
        above, whole = posterior.mean >= at[k], every.mean >= at[k]
        row = {"what": what, "by": by, "threshold": k, "asked": asked, "rounds": rounds}
        row |= {"same": float((above == whole).mean()), "commoner": float(max(whole.mean(), 1 - whole.mean()))}
        if data.truth is not None:
            off = posterior.mean - data.truth
            row["right"] = float((above == (data.truth >= at[k])).mean())
            row["rmse"] = float(np.sqrt((off**2).mean())) * 4 / (n - 1)
            row["cover"] = float((np.abs(off) <= 1.6449 * posterior.sd).mean())
        found.append(row)

    def in_rounds(what: str, by: float, stop: Stop, k: int) -> None:
        rounds = ask_in_rounds(data.scale, data.contexts, data.ask, stop, usable=data.usable)
        add(what, by, k, rounds.posterior, rounds.n_asked.sum() / rounds.n_full.sum(), rounds.n_rounds)

    for eps in EPS:
        for k, t in enumerate(at):
            in_rounds("sure", eps, Sure(t, eps), k)
            in_rounds("same decision", eps, SameDecision(t, eps), k)
    for budget in (2, n - n % 2, n + n % 2):
        for orders in (1, 2):
            if budget <= n * orders:
                best = best_rungs(data.scale, budget, both_orders=orders == 2)
                asked = data.usable[:, np.array(best.levels) - 1].sum() * orders / n_full
                for k in range(len(at)):
                    add(f"fixed, {orders} of 2 orders", budget, k, place(data, best.levels, orders), asked, 1)
    for k in range(len(at)):
        add("whole ladders", 2 * n, k, every, 1.0, 1)
    return found


def mean_rows(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Means over thresholds and draws; `worst` is `same` at the threshold where it is least."""
    rows = []
    for what, by in dict.fromkeys((row["what"], row["by"]) for row in found):
        own = [row for row in found if (row["what"], row["by"]) == (what, by)]
        row = {
            key: float(np.mean([each[key] for each in own])) for key in own[0] if key not in ("what", "by", "threshold")
        }
        thresholds = {each["threshold"] for each in own}
        worst = min(float(np.mean([each["same"] for each in own if each["threshold"] == k])) for k in thresholds)
        rows.append({"what": what, "by": by, **row, "worst": worst})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--verdicts", help="a file of `synthscore score --verdicts --both-orders`")
    parser.add_argument("--results", help="name of the files of results (default: adaptive, or adaptive_verdicts)")
    args = parser.parse_args()
    lines: list[str] = []
    results: dict[str, list[dict[str, Any]]] = {}

    def show(line: str) -> None:
        lines.append(line)
        print(line, flush=True)

    def table(name: str, found: list[dict[str, Any]]) -> None:
        results[name] = mean_rows(found)
        show(f"\n{name}; commoner side {100 * results[name][0]['commoner']:.1f} %")
        known = "  right %  RMSE  90 % cover" if "right" in found[0] else ""
        show(f"{'':30s}  asked %   same %  at the worst threshold %  rounds{known}")
        for row in results[name]:
            known = f" {100 * row['right']:8.1f} {row['rmse']:5.2f} {100 * row['cover']:11.1f}" if known else ""
            show(
                f"{row['what']:24s} {row['by']:5g}  {100 * row['asked']:7.1f}  {100 * row['same']:7.2f} "
                f"{100 * row['worst']:25.2f} {row['rounds']:7.1f}{known}"
            )

    if args.verdicts:
        every: dict[str, list[dict[str, Any]]] = {"at 2.5, 3, 3.5, 4": [], "at the quartiles": []}
        for attribute, data in recorded(args.verdicts):
            judge = data.scale.judge
            show(
                f"{attribute}: {len(data.contexts)} texts, {len(data.scale.ladders)} ladders, N = {judge.n_rungs}, "
                f"{judge.discrimination:.2f} nats a rung; rungs rise: {judge.rungs_rise}"
            )
            for quartiles, where in enumerate(every):
                if judge.rungs_rise:
                    found = measure(data, bool(quartiles))
                    table(f"{attribute} {where}", found)
                    every[where] += found
        for where, found in every.items():
            table(f"all attributes {where}", found)
    else:
        show(f"{args.seeds} draws of 50 contexts x 16 texts, on a scale fitted on 16 others; noise 1 nat")
        for n in (5, 9):
            draws = [simulated(seed, n) for seed in range(args.seeds)]
            for budget in (2, 4, 6, n - n % 2):
                both = [best_rungs(draws[0].scale, budget, both_orders=orders) for orders in (False, True)]
                named = [f"{best.levels} (sd {best.sd:.2f})" for best in both if best.n_questions == budget]
                show(f"N = {n}: best rungs for {budget} questions, in one order and in both: {', '.join(named)}")
            table(f"N = {n}", [row for data in draws for row in measure(data)])
    name = args.results or ("adaptive_verdicts" if args.verdicts else "adaptive")
    (RESULTS / f"{name}.txt").write_text("\n".join(lines) + "\n")
    (RESULTS / f"{name}.json").write_text(json.dumps(results) + "\n")
    print(json.dumps(results))


if __name__ == "__main__":
    main()
