"""Do scores and their 90 % intervals hold where some pairs were asked more often than others?

Ceiling: intervals that hold the truth in 90 %, as where all pairs are asked once; and scores no further from the truth
than by the better of two rules: every answer counts (right for coins), every pair counts (right for a judge that
repeats itself).

    python -m benchmarks.uneven_pairs [--repetitions 400]       writes benchmarks/results/uneven_pairs.txt and .json

14 candidates, truth evenly spaced over 3 nats; 28 pairs, chosen greedily, or all 91.

once      every pair is asked once
missing   both orders, of which the second is missing for 40 % of the pairs
three     one pair in three is asked three times, the others once
eight     one pair in four is asked eight times, the others once

repeats   what the judge says of a pair once, it says again
half      half of an answer's error is the pair's, half the answer's own
calls     each answer has an error of its own
coins     each answer is a coin's flip, P(first) = sigma(d)
decided   for methods on who won: each pair is decided by one coin's flip, and then repeated

Errors are Beta around sigma(d) (poe-bt), Gaussian around 1/2 + d / 10 (poe-g). poe-g-hard decides with 1/2 + d / 8.
rho: mean of what was measured; nan: nothing to weigh. hold: share of the 14 intervals, score +- 1.645 stderr, that
hold the truth; t: the same by Student's t, where the method names degrees of freedom. error: root mean square of
score - truth, nats. every answer alike: the published formula, in which an answer weighs as much as another.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import stats

from synthscore.errors import RankingError
from synthscore.ranking import METHODS, Comparisons, Ranking
from synthscore.ranking.designs import all_pairs, greedy
from synthscore.types import FloatArray, IntArray

N = 14
IDS = tuple(f"c{place}" for place in range(N))
TRUTH = np.linspace(-1.5, 1.5, N)  # nats; mean zero
UNITS = {"poe-g": 10.0, "poe-g-hard": 8.0}  # nats in one unit of score
ASKED = ("once", "missing", "three", "eight")
JUDGES = {
    "poe-bt": ("repeats", "half", "calls", "coins"),
    "poe-g": ("repeats", "half", "calls"),
    "poe-g-hard": ("decided",),
    "bt": ("decided",),
}
SPREAD = 0.05  # of the Gaussian errors
RESULTS = Path(__file__).parent / "results"


def draw_pairs(rng: np.random.Generator, n_pairs: int, asked: str) -> tuple[IntArray, IntArray]:
    """Pairs, shape (n_pairs, 2), and how often each is asked."""
    pairs = all_pairs(N, both_orders=False) if n_pairs == 91 else greedy(N, n_pairs, rng, both_orders=False)
    if asked == "missing":
        return pairs, np.where(rng.random(n_pairs) < 0.4, 1, 2)
    share, often = {"once": (0.0, 1), "three": (1 / 3, 3), "eight": (1 / 4, 8)}[asked]
    return pairs, np.where(rng.random(n_pairs) < share, often, 1)


def draw(rng: np.random.Generator, method: str, judge: str, n_pairs: int, asked: str) -> Comparisons:
    pairs, times = draw_pairs(rng, n_pairs, asked)
    difference = TRUTH[pairs[:, 0]] - TRUTH[pairs[:, 1]]
    unit = UNITS.get(method)
    mean = 0.5 + difference / unit if unit else 1 / (1 + np.exp(-difference))
    call = np.repeat(np.arange(n_pairs), times)

    def beta(around: FloatArray, sharpness: float) -> FloatArray:
        return np.clip(rng.beta(sharpness * around, sharpness * (1 - around)), 1e-9, 1 - 1e-9)

    def noise(size: int) -> FloatArray:
        return rng.normal(0, SPREAD, size)

    if judge == "decided":
        p = (rng.random(n_pairs) < mean).astype(float)[call]
    elif judge == "coins":
        p = (rng.random(len(call)) < mean[call]).astype(float)
    elif unit:
        shared = {"repeats": 1.0, "half": 0.5, "calls": 0.0}[judge]
        p = np.clip(mean[call] + np.sqrt(shared) * noise(n_pairs)[call] + np.sqrt(1 - shared) * noise(len(call)), 0, 1)
    else:
        p = {
            "repeats": lambda: beta(mean, 3)[call],
            "half": lambda: beta(beta(mean, 5)[call], 9),
            "calls": lambda: beta(mean[call], 3),
        }[judge]()
    return Comparisons.from_probabilities(IDS, pairs[call, 0], pairs[call, 1], p)


class Row(NamedTuple):
    """What was found in one design; - or NaN where it does not apply."""

    method: str
    judge: str
    n_pairs: int
    asked: str
    rho: float
    held: float
    held_by_t: float
    error: float
    held_as_calls: float
    error_as_calls: float
    n_without_scores: int


def measure(method: str, judge: str, n_pairs: int, asked: str, repetitions: int) -> Row:
    rng = np.random.default_rng(1)
    unit = UNITS.get(method, 1.0)
    ways = {"weighed": METHODS[method], "as calls": METHODS[method].formula}
    held: dict[str, list[float]] = {name: [] for name in ways}
    squares: dict[str, list[float]] = {name: [] for name in ways}
    by_t, rho = [], []
    n_without_scores = 0
    for _ in range(repetitions):
        calls = draw(rng, method, judge, n_pairs, asked)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                rankings: dict[str, Ranking] = {name: way(calls) for name, way in ways.items()}
        except RankingError:  # certain answers without finite scores
            n_without_scores += 1
            continue
        for name, ranking in rankings.items():
            off = ranking.scores - TRUTH / unit
            held[name].append(float(np.mean(np.abs(off) <= stats.norm.ppf(0.95) * ranking.stderr)))
            squares[name].append(float(np.mean((unit * off) ** 2)))
        settings = rankings["weighed"].settings
        off = np.abs(rankings["weighed"].scores - TRUTH / unit)
        if freedom := settings.get("degrees_of_freedom"):
            by_t.append(float(np.mean(off <= stats.t.ppf(0.95, freedom) * rankings["weighed"].stderr)))
        rho += [settings["rho"]] if "rho" in settings else []
    errors = {name: float(np.sqrt(np.mean(values))) for name, values in squares.items()}
    return Row(
        method,
        judge,
        n_pairs,
        asked,
        rho=float(np.mean(rho)) if rho else float("nan"),
        held=float(np.mean(held["weighed"])),
        held_by_t=float(np.mean(by_t)) if by_t else float("nan"),
        error=errors["weighed"],
        held_as_calls=float(np.mean(held["as calls"])),
        error_as_calls=errors["as calls"],
        n_without_scores=n_without_scores,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=400)
    repetitions = parser.parse_args().repetitions
    lines = [
        f"{repetitions} repetitions, seed 1; share of 90 % intervals that hold, and root mean square error, nats",
        f"{'':34s} {'weighed by rho':>27s}   {'every answer alike':>18s}",
        f"{'method':11s} {'judge':8s} {'pairs':>5s} {'asked':8s} {'rho':>5s} {'hold':>6s} {'t':>6s} {'error':>6s}"
        f"   {'hold':>10s} {'error':>7s}",
    ]
    print(*lines, sep="\n")
    rows = []
    designs = [
        (method, judge, n, asked) for method in JUDGES for judge in JUDGES[method] for n in (28, 91) for asked in ASKED
    ]
    for design in designs:
        row = measure(*design, repetitions)
        rows.append(row)
        lines.append(
            f"{row.method:11s} {row.judge:8s} {row.n_pairs:5d} {row.asked:8s} {row.rho:5.2f} {row.held:6.3f} "
            f"{row.held_by_t:6.3f} {row.error:6.3f}   {row.held_as_calls:10.3f} {row.error_as_calls:7.3f}"
            + (f"   {row.n_without_scores} draws without finite scores" if row.n_without_scores else "")
        )
        print(lines[-1], flush=True)
    result = json.dumps(
        {"repetitions": repetitions, "candidates": N, "level": 90, "rows": [row._asdict() for row in rows]}
    )
    (RESULTS / "uneven_pairs.txt").write_text("\n".join(lines) + "\n")
    (RESULTS / "uneven_pairs.json").write_text(result + "\n")
    print(result)


if __name__ == "__main__":
    main()
