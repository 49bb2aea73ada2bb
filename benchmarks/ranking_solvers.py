"""How long do scores take, against choix and evalica, and at the sizes that only sparse solvers reach?

    OMP_NUM_THREADS=1 python benchmarks/ranking_solvers.py [--repeats 7] [--quick]

Hard Bradley-Terry without prior: all sides get the same answers, either as indices or as names, and are compared with
each other (largest difference of scores; largest derivative of the log-likelihood left, computed here for all). Then
soft Bradley-Terry and PoE-g, with adding up to pairs, at 1,056 candidates and 200,000 calls (the largest pooled set in
the literature) and at 100,000 candidates and 1,000,000 calls. Times are medians of interleaved runs, of the processor,
not the clock: everything runs in one thread, and the machine may be shared.
Ceiling: what Newton's method cannot do without, measured alone: one exponential, one lookup and one sum over
candidates for each pair and iteration, and the sort of calls into pairs.
Needs choix and evalica. Results: benchmarks/results/ranking_solvers.txt and .json
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import time
import warnings
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import choix
import evalica
import numpy as np
from scipy import sparse

from synthscore.ranking.bradley_terry import bradley_terry, soft_bradley_terry
from synthscore.ranking.closed_form import gaussian
from synthscore.ranking.comparisons import Comparisons

RESULTS = Path(__file__).parent / "results"


def interleaved(sides: dict[str, Callable[[], Any]], repeats: int) -> dict[str, list[float]]:
    """Processor seconds of every run; the sides take turns, so that a busy moment hits them all."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(repeats):
        for name, run in sides.items():
            start = time.process_time()
            run()
            times[name].append(time.process_time() - start)
    return times


def calls(rng: np.random.Generator, n: int, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """first, second, true log-odds; qualities have a standard deviation of 1.2 nats."""
    quality = 1.2 * rng.normal(size=n)
    first = rng.integers(0, n, k)
    second = (first + rng.integers(1, n, k)) % n
    return first, second, quality[first] - quality[second]


def derivative(scores: np.ndarray, first: np.ndarray, second: np.ndarray, p: np.ndarray) -> float:
    """The largest |derivative of the log-likelihood|, call by call."""
    slope = p - 1 / (1 + np.exp(scores[second] - scores[first]))
    n = len(scores)
    return float(np.abs(np.bincount(first, slope, n) - np.bincount(second, slope, n)).max())


def ceiling(n: int, k: int, iterations: int, repeats: int) -> float:
    rng = np.random.default_rng(0)
    x, scores, place = rng.normal(size=k), rng.normal(size=n), rng.integers(0, n, k)
    ones, starts = np.ones(n), np.linspace(0, k, n + 1).astype(np.int32)
    matrix = sparse.csr_array((x, place.astype(np.int32), starts), shape=(n, n))
    by_row = sparse.csr_array((np.ones(k, np.int8), place.astype(np.int32), np.arange(k + 1, dtype=np.int32)))

    def iteration() -> None:
        np.exp(x)
        scores[place]
        matrix @ ones

    def sort() -> None:
        by_row.tocsc()

    times = interleaved({"iteration": iteration, "sort": sort}, repeats)
    return iterations * statistics.median(times["iteration"]) + 2 * statistics.median(times["sort"])


def hard(n: int, k: int, repeats: int, slow: bool) -> list[dict[str, Any]]:
    rng = np.random.default_rng(1)
    first, second, d = calls(rng, n, k)
    won = rng.random(k) < 1 / (1 + np.exp(-d))
    names = [f"system-{place}" for place in range(n)]
    p = won.astype(float)
    # What each side is given, made beforehand: lists of Python objects for those that take them.
    x_names, y_names = [names[i] for i in first], [names[j] for j in second]
    records = list(zip(x_names, y_names, p.tolist(), strict=True))
    winners = [evalica.Winner.X if w else evalica.Winner.Y for w in won.tolist()]
    i_list, j_list, weights = first.tolist(), second.tolist(), [1.0] * k
    duels = [(i, j) if w else (j, i) for i, j, w in zip(i_list, j_list, won.tolist(), strict=True)]
    ours = partial(bradley_terry, prior=None, decisions="per_call", stderr=None)

    def evalica_indices() -> np.ndarray:
        scores, _ = evalica._brzo.bradley_terry(
            xs=i_list, ys=j_list, winners=winners, weights=weights, total=n, win_weight=1.0, tie_weight=0.5,
            tolerance=1e-8, limit=10_000,
        )  # fmt: skip
        return np.log(scores)

    def evalica_names() -> np.ndarray:
        found = evalica.bradley_terry(x_names, y_names, winners, tolerance=1e-8, limit=10_000)
        return np.log(found.scores.reindex(names).to_numpy())

    sides: dict[str, Callable[[], np.ndarray]] = {
        "synthscore, indices": lambda: ours(Comparisons.from_probabilities(names, first, second, p)).scores,
        "evalica, indices (compiled solver alone)": evalica_indices,
        "choix ilsr, indices": lambda: choix.ilsr_pairwise(n, duels),
        "synthscore, names": lambda: ours(Comparisons.from_records(records, ids=names)).scores,
        "evalica, names": evalica_names,
    }
    if slow:
        sides["choix mm, indices"] = lambda: choix.mm_pairwise(n, duels)
        sides["choix opt (Newton-CG), indices"] = lambda: choix.opt_pairwise(n, duels, alpha=0.0, tol=1e-8)
    answers = {}
    for name, run in sides.items():
        scores = run()
        answers[name] = scores - scores.mean()
    reference = answers["synthscore, indices"]
    times = interleaved(sides, repeats)
    fast = statistics.median(times["synthscore, indices"])
    rows = []
    for name, runs in times.items():
        rows.append(
            {
                "side": name,
                "candidates": n,
                "calls": k,
                "median_ms": 1e3 * statistics.median(runs),
                "min_ms": 1e3 * min(runs),
                "max_ms": 1e3 * max(runs),
                "times_ours": statistics.median(runs)
                / (statistics.median(times["synthscore, names"]) if "names" in name else fast),
                "max_difference": float(np.abs(answers[name] - reference).max()),
                "derivative_left": derivative(answers[name], first, second, p),
            }
        )
    return rows


def soft(n: int, k: int, repeats: int) -> tuple[list[dict[str, Any]], float]:
    rng = np.random.default_rng(2)
    first, second, d = calls(rng, n, k)
    p = 1 / (1 + np.exp(-d - 0.5 * rng.normal(size=k)))
    ids = [str(place) for place in range(n)]
    c = Comparisons.from_probabilities(ids, first, second, p)
    fit = soft_bradley_terry(c, stderr=None)
    sides: dict[str, Callable[[], Any]] = {
        "making Comparisons": lambda: Comparisons.from_probabilities(ids, first, second, p),
        "adding up to pairs": c.pairs,
        "poe-bt, pairs and scores": lambda: soft_bradley_terry(c, stderr=None),
        "poe-g, pairs and scores": lambda: gaussian(c, stderr=None),
    }
    if n <= 3000:
        sides["poe-bt, with standard errors"] = lambda: soft_bradley_terry(c)
        sides["bt with prior on all pairs"] = lambda: bradley_terry(c, stderr=None)
    rows = []
    for name, runs in interleaved(sides, repeats).items():
        row = {"side": name, "candidates": n, "calls": k, "median_ms": 1e3 * statistics.median(runs)}
        row |= {"min_ms": 1e3 * min(runs), "max_ms": 1e3 * max(runs)}
        if name == "poe-bt, pairs and scores":
            row |= {"derivative_left": derivative(fit.scores, first, second, p), "iterations": fit.iterations}
        rows.append(row)
    return rows, ceiling(n, k, fit.iterations + 1, repeats)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="without the largest sizes; writes nothing")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # choix divides by zero on its way
    lines = [
        f"ranking solvers: {platform.processor() or platform.machine()}, threads {os.environ.get('OMP_NUM_THREADS')}, "
        f"Python {platform.python_version()}, NumPy {np.__version__}, choix {version('choix')}, "
        f"evalica {version('evalica')}, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores at the start; "
        f"processor time, medians of {arguments.repeats} (min-max)"
    ]
    results: list[dict[str, Any]] = []

    def show(title: str, rows: list[dict[str, Any]]) -> None:
        lines.append(f"\n{title}")
        for row in rows:
            line = f"  {row['side']:42s} {row['median_ms']:9.1f} ms ({row['min_ms']:.1f}-{row['max_ms']:.1f})"
            if "times_ours" in row:
                line += f"   {row['times_ours']:7.1f}x   max |diff| {row['max_difference']:.0e}"
            if "derivative_left" in row:
                line += f"   derivative left {row['derivative_left']:.0e}"
            lines.append(line)
        results.extend(rows)
        print("\n".join(lines[-len(rows) - 1 :]), flush=True)

    sizes = [(100, 5_000, True)] if arguments.quick else [(100, 5_000, True), (1056, 200_000, False)]
    print(lines[0])
    for n, k, slow in sizes:
        rows = hard(n, k, arguments.repeats, slow)
        worst = max(row["max_difference"] for row in rows if "mm" not in row["side"] and "opt" not in row["side"])
        if worst > 1e-6:
            raise SystemExit(f"the sides do not give the same scores: {worst:.1e}, expected at most 1e-6")
        show(f"hard Bradley-Terry, {n:,} candidates, {k:,} calls; x times synthscore given the same form", rows)
    for n, k in sizes_soft(arguments.quick):
        rows, floor = soft(n, k, arguments.repeats)
        show(f"soft, {n:,} candidates, {k:,} calls; ceiling for poe-bt {1e3 * floor:.0f} ms", rows)
        results.append({"side": "ceiling", "candidates": n, "calls": k, "median_ms": 1e3 * floor})
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    lines.append(f"\nlargest memory of the whole run {memory:.2f} GB")
    lines.append(
        "largest size: evalica keeps dense N x N matrices (80 GB each at 100,000 candidates); choix loops over "
        "calls in\nPython, or hold N x N: neither was run beyond the sizes above"
    )
    print(lines[-2], lines[-1], sep="\n")
    result = json.dumps({"repeats": arguments.repeats, "memory_gb": memory, "rows": results})
    print(result)
    if not arguments.quick:
        (RESULTS / "ranking_solvers.txt").write_text("\n".join(lines) + "\n")
        (RESULTS / "ranking_solvers.json").write_text(result + "\n")


def sizes_soft(quick: bool) -> list[tuple[int, int]]:
    return [(1056, 200_000)] if quick else [(1056, 200_000), (100_000, 1_000_000)]


if __name__ == "__main__":
    main()
