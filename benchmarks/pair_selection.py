"""How long does choosing pairs greedily take, and does the fast search choose what the plain one chooses?

    OMP_NUM_THREADS=1 python benchmarks/pair_selection.py [--plain-picks 9505] [--repeats 5]

1,056 candidates and 10 N pairs: the largest pooled set in the literature. Plain: Sherman-Morrison on the inverse and a
search over all pairs for each pick, O(N^2) a pick. The picks of both are compared first, then both are timed, one after
the other. Floor: applying the picks to the N x N resistances, 2 N^2 flops a pick, at the speed of this machine's matrix
product.

Times are seconds of CPU, so that other work on the machine does not count: run it with one thread.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time

import numpy as np
import scipy

from papers.designs import no_repeat
from synthscore.ranking import designs as selection

N = 1056
N_PAIRS = 10 * N


def plain(n: int, n_picks: int) -> tuple[np.ndarray, float]:
    """The chain and n_picks more pairs, and the seconds that a pick took."""
    place = np.arange(1, n)
    inverse = np.pad(np.minimum.outer(place, place).astype(float), ((1, 0), (1, 0)))
    shut = np.tril(np.ones((n, n), dtype=bool))
    shut[np.arange(n - 1), np.arange(1, n)] = True
    gain = np.empty((n, n))
    picks = []
    start = time.process_time()
    for _ in range(n_picks):
        variance = np.diagonal(inverse)
        np.multiply(inverse, -2, out=gain)
        gain += variance
        gain += variance[:, None]
        gain[shut] = -np.inf
        i, j = divmod(int(np.argmax(gain >= gain.max() * (1 - selection._TIE))), n)
        column = inverse[:, i] - inverse[:, j]
        inverse -= np.outer(column, column / (1 + gain[i, j]))
        shut[i, j] = True
        picks.append((i, j))
    seconds = (time.process_time() - start) / n_picks
    chain = np.stack([np.arange(n - 1), np.arange(1, n)], axis=1)
    return np.concatenate([chain, np.array(picks)]), seconds


def floor() -> float:
    """Seconds that the products of matrices alone take: every pick's rank-one change, 64 at a time."""
    a, c = np.random.default_rng(0).normal(size=(64, N)), np.zeros((N, N))
    times = []
    for _ in range(20):
        start = time.process_time()
        np.matmul(a.T, a, out=c)
        times.append(time.process_time() - start)
    return statistics.median(times) * (N_PAIRS - N + 1) / 64


def log_det(pairs: np.ndarray) -> float:
    """Of the information about the scores, one of them at 0."""
    laplacian = np.zeros((N, N))
    np.subtract.at(laplacian, (pairs[:, 0], pairs[:, 1]), 1.0)
    laplacian += laplacian.T
    np.fill_diagonal(laplacian, -laplacian.sum(axis=1))
    return float(np.linalg.slogdet(laplacian[1:, 1:])[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plain-picks", type=int, default=500, help="picks of the plain search; 9505 are all")
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    if os.environ.get("OMP_NUM_THREADS") != "1":
        sys.exit("CPU times of several threads add up: set OMP_NUM_THREADS=1")
    rng = np.random.default_rng(0)

    fast_pairs = selection._greedy_pairs(N, N_PAIRS)
    plain_pairs, plain_s = plain(N, args.plain_picks)
    same = int((fast_pairs[: len(plain_pairs)] == plain_pairs).all(axis=1).sum())
    fast_det, plain_det = (log_det(p) for p in (fast_pairs[: len(plain_pairs)], plain_pairs))
    if abs(fast_det - plain_det) > 1e-6:
        sys.exit(f"log-determinants differ: {fast_det} and {plain_det}; not timed")

    times, floors = [], []
    for _ in range(args.repeats):
        start = time.process_time()
        selection.greedy(N, N_PAIRS, rng, both_orders=False)
        times.append(time.process_time() - start)
        floors.append(floor())
    n_picks = N_PAIRS - N + 1
    all_plain = plain_s * n_picks
    how = "measured" if args.plain_picks == n_picks else f"extrapolated from {args.plain_picks:,} picks"
    fast = statistics.median(times)
    greedy_det = log_det(fast_pairs)
    random_det = statistics.median(log_det(no_repeat(N, N_PAIRS, rng)) for _ in range(5))
    spread = f"({min(times):.2f}-{max(times):.2f}), median of {args.repeats}"
    print(f"greedy pairs: N = {N:,}, {N_PAIRS:,} pairs ({n_picks:,} picks after the chain), CPU time")
    print(
        f"equal picks            {same:,} of {len(plain_pairs):,}; |log-det difference| {abs(fast_det - plain_det):.1e}"
    )
    print(f"plain search           {all_plain:6.2f} s ({how})   1.0x")
    print(f"selection.greedy       {fast:6.2f} s {spread}   {all_plain / fast:.1f}x")
    print(f"floor, products only   {statistics.median(floors):6.2f} s")
    print(f"log-det                {greedy_det:.1f}; of random pairs {random_det:.1f}")
    print(
        json.dumps(
            {
                "n": N, "n_pairs": N_PAIRS, "seconds": times, "plain_seconds": all_plain, "plain_how": how,
                "equal_picks": same, "of_picks": len(plain_pairs), "log_det_difference": abs(fast_det - plain_det),
                "floor_seconds": floors, "log_det": greedy_det, "log_det_random": random_det,
                "machine": platform.machine(), "numpy": np.__version__, "scipy": scipy.__version__,
            }
        )
    )  # fmt: skip


if __name__ == "__main__":
    main()
