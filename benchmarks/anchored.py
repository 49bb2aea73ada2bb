"""Does anchored inference say where texts stand, and how sure it is? A judge whose truth is known; the paper's sum.

Contexts of 16 texts each. On the scale 1..5 the texts are spread by 1.2 around 3; a ladder's rungs are at 1..5, moved
as a whole (sd 0.3), stretched (20 %), each by itself (0.35), and in a third of the ladders two neighbours are inverted.
The judge's log-odds are 1.2 nats for each unit of difference, 0.8 nats for the text that is asked about, and noise of
its own for every question, of 0.5 or 1 nat: were all rungs known, the error could still not be much below
noise / (1.2 sqrt(answers)). The last line is JSON.

    python -m benchmarks.anchored [--seeds 20] [--contexts 50]
    python -m benchmarks.anchored --speed      100,000 texts on 1,000 ladders of 5 rungs, processor time
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import rankdata

from synthscore.scoring.anchored import Anchors, Scale, SoftAnswers, fit
from synthscore.scoring.paper import paper_sum, rung_equivalent
from synthscore.signature import Signature
from synthscore.types import FloatArray

RESULTS = Path(__file__).parent / "results"


class Simulated(NamedTuple):
    """answers : of a judge. truth, rungs : positions on the scale 1..5, of targets and of each ladder's rungs"""

    answers: SoftAnswers
    truth: FloatArray
    rungs: FloatArray


def simulate(
    rng: np.random.Generator,
    n_contexts: int,
    n_rungs: int,
    *,
    n_texts: int = 16,
    noise: float = 1.0,
    both_orders: bool = True,
    rungs_too: bool = True,
    inverted: float = 1 / 3,
    discrimination: float = 1.2,
    position_bias: float = 0.8,
    log_tie: float = 0.3,
) -> Simulated:
    n, targets = n_rungs, np.arange(n_contexts * n_texts)
    level = 4 * np.linspace(0, 1, n) - 2
    stretch = np.exp(0.2 * rng.normal(size=(n_contexts, 1)))
    rungs = 3 + 0.3 * rng.normal(size=(n_contexts, 1)) + level * stretch + 0.35 * rng.normal(size=(n_contexts, n))
    for ladder in np.flatnonzero(rng.random(n_contexts) < inverted) if n > 2 else ():
        k = rng.integers(n - 1)
        rungs[ladder, [k, k + 1]] = rungs[ladder, [k + 1, k]]
    truth = 3 + 1.2 * rng.normal(size=len(targets))
    ladder_of = targets // n_texts
    parts = []  # ladder, first, second, sign
    for sign in (1, -1) if both_orders else (1,):
        for k in range(n):
            parts.append((ladder_of, n + targets, np.full(len(targets), k), np.full(len(targets), float(sign))))
    for a in range(n) if rungs_too else ():
        for b in range(n):
            if a != b:
                each = np.arange(n_contexts)
                parts.append((each, np.full(n_contexts, a), np.full(n_contexts, b), np.ones(n_contexts)))
    ladder, first, second, sign = map(np.concatenate, zip(*parts, strict=True))
    asked = np.where(first < n, rungs[ladder, np.minimum(first, n - 1)], truth[np.maximum(first - n, 0)])
    d = discrimination * (asked - rungs[ladder, second]) + position_bias * sign + noise * rng.normal(size=len(first))
    logits = np.stack([d / 2, -d / 2, np.full(len(d), log_tie)], axis=1)
    probs = np.exp(logits - logits.max(axis=1, keepdims=True))
    probs /= probs.sum(axis=1, keepdims=True)
    return Simulated(SoftAnswers(n_contexts, n, ladder_of, ladder, first, second, sign, probs), truth, rungs)


def paper(answers: SoftAnswers) -> FloatArray:
    """The paper's sum, both orders averaged, as a rung equivalent."""
    n = answers.n_rungs
    rows = answers.first >= n
    at = (answers.first[rows] - n) * n + answers.second[rows]
    size = answers.n_targets * n
    count = np.bincount(at, minlength=size)
    better, worse = ((np.bincount(at, answers.probs[rows, k], size) / count).reshape(-1, n) for k in range(2))
    return rung_equivalent(paper_sum(np.minimum(better, 1), np.minimum(worse, 1)), n)


def spearman(one: FloatArray, other: FloatArray) -> float:
    return float(np.corrcoef(rankdata(one), rankdata(other))[0, 1])


def measure(values: FloatArray, simulated: Simulated) -> dict[str, float]:
    """On the scale 1..5. values : positions on 1..N"""
    n, ladder = simulated.answers.n_rungs, simulated.answers.target_ladder
    off = 1 + (values - 1) * 4 / (n - 1) - simulated.truth
    inside = [spearman(values[ladder == k], simulated.truth[ladder == k]) for k in np.unique(ladder)]
    pooled = spearman(values, simulated.truth)
    return {"rmse": float(np.sqrt((off**2).mean())), "per_context": float(np.mean(inside)), "pooled": pooled}


def run(seed: int, n_contexts: int, n_rungs: int, **options: Any) -> dict[str, float]:
    simulated = simulate(np.random.default_rng(seed), n_contexts, n_rungs, **options)
    judge, posterior = fit(simulated.answers)
    low, high = posterior.interval(0.9)
    truth = 1 + (simulated.truth - 1) * (n_rungs - 1) / 4  # on 1..N
    row = {f"anchored {name}": value for name, value in measure(posterior.mean, simulated).items()}
    row |= {f"paper {name}": value for name, value in measure(paper(simulated.answers), simulated).items()}
    row["cover"] = float(((low <= truth) & (truth <= high)).mean())
    row["converged"] = float(judge.converged)
    return row


def write(name: str, lines: list[str], result: str) -> None:
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.txt").write_text("\n".join(lines) + "\n")
    (RESULTS / f"{name}.json").write_text(result + "\n")
    print(result)


def speed() -> None:
    simulated = simulate(np.random.default_rng(0), 1000, 5, n_texts=100, both_orders=False)
    answers, start = simulated.answers, time.process_time()
    judge, posterior = fit(answers)
    together = time.process_time() - start
    anchors = {str(k): Anchors(posterior.rungs[k], posterior.rung_cov[k]) for k in range(1000)}
    scale = Scale(judge, anchors, "task", "attribute", Signature.of(judge="simulated"))
    rows = np.flatnonzero((answers.first >= 5) & (answers.first < 5 + 20_000))
    some, start = answers.take(rows), time.process_time()
    scale.place(
        list(map(str, answers.target_ladder[:20_000])), some.first - 5, some.second + 1, some.sign < 0, some.probs
    )
    alone = time.process_time() - start
    print(f"{len(answers)} answers: judge fitted and 100000 texts placed in {together:.1f} s")
    print(f"20000 texts placed on a scale in {alone:.2f} s")
    print(json.dumps({"fit_s": together, "texts_per_s_on_a_scale": 20_000 / alone}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--contexts", type=int, default=50)
    parser.add_argument("--speed", action="store_true")
    args = parser.parse_args()
    if args.speed:
        speed()
        return
    rows: list[dict[str, Any]] = []
    lines: list[str] = []

    def show(line: str) -> None:
        lines.append(line)
        print(line, flush=True)

    show(f"{args.seeds} seeds, {args.contexts} contexts x 16 texts; means over seeds, +- standard error for the cover")
    show("noise orders  N   RMSE anchored paper   per context anchored paper   pooled anchored paper   90 % cover")
    for noise in (0.5, 1.0):
        for both in (True, False):
            for n in (2, 3, 5, 9):
                found = [run(seed, args.contexts, n, noise=noise, both_orders=both) for seed in range(args.seeds)]
                mean = {name: float(np.mean([row[name] for row in found])) for name in found[0]}
                error = float(np.std([row["cover"] for row in found], ddof=1) / np.sqrt(len(found)))
                show(
                    f"{noise:4.1f}  {1 + both:5d} {n:3d}   {mean['anchored rmse']:13.3f} {mean['paper rmse']:.3f}"
                    f"   {mean['anchored per_context']:20.3f} {mean['paper per_context']:.3f}"
                    f"   {mean['anchored pooled']:15.3f} {mean['paper pooled']:.3f}"
                    f"   {100 * mean['cover']:5.1f} +- {100 * error:.1f}"
                )
                rows.append({"noise": noise, "orders": 1 + both, "n_rungs": n, **mean, "cover_error": error})
    show("N = 3 anchored against N = 5 by the paper's sum (6 answers a text and 6 a ladder, against 10):")
    for noise in (0.5, 1.0):
        for orders in (2, 1):
            three, five = (
                next(row for row in rows if (row["noise"], row["orders"], row["n_rungs"]) == (noise, orders, n))
                for n in (3, 5)
            )
            shown = [f"{name} {three[f'anchored {name}']:.3f} against {five[f'paper {name}']:.3f}"
                     for name in ("rmse", "per_context", "pooled")]  # fmt: skip
            show(f"noise {noise}, orders {orders}: {', '.join(shown)}")
    write("anchored", lines, json.dumps({"seeds": args.seeds, "contexts": args.contexts, "rows": rows}))


if __name__ == "__main__":
    main()
