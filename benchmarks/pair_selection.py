"""How long does choosing pairs greedily take, and what is gained over random ones?

    OMP_NUM_THREADS=1 python benchmarks/pair_selection.py [--repeats 5]

1,056 candidates and 10 N pairs: the largest pooled set in the literature. Each pick is a search over all pairs.

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

from synthscore.ranking import designs as selection

N = 1056
N_PAIRS = 10 * N


def log_det(pairs: np.ndarray) -> float:
    """Of the information about the scores, one of them at 0."""
    laplacian = np.zeros((N, N))
    np.subtract.at(laplacian, (pairs[:, 0], pairs[:, 1]), 1.0)
    laplacian += laplacian.T
    np.fill_diagonal(laplacian, -laplacian.sum(axis=1))
    return float(np.linalg.slogdet(laplacian[1:, 1:])[1])


def any_pairs(rng: np.random.Generator) -> np.ndarray:
    return selection.numbered_calls(N, rng.choice(N * (N - 1) // 2, N_PAIRS, replace=False))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    if os.environ.get("OMP_NUM_THREADS") != "1":
        sys.exit("CPU times of several threads add up: set OMP_NUM_THREADS=1")
    rng = np.random.default_rng(0)

    times = []
    for _ in range(args.repeats):
        start = time.process_time()
        pairs = selection.greedy(N, N_PAIRS, rng, both_orders=False)
        times.append(time.process_time() - start)
    n_picks = N_PAIRS - N + 1
    greedy_det = log_det(pairs)
    random_det = statistics.median(log_det(any_pairs(rng)) for _ in range(5))
    spread = f"({min(times):.1f}-{max(times):.1f}), median of {args.repeats}"
    print(f"greedy pairs: N = {N:,}, {N_PAIRS:,} pairs ({n_picks:,} picks after the chain), CPU time")
    print(f"greedy                 {statistics.median(times):6.1f} s {spread}")
    print(f"log-det                {greedy_det:.1f}; of random pairs {random_det:.1f}")
    print(
        json.dumps(
            {
                "n": N, "n_pairs": N_PAIRS, "seconds": times, "log_det": greedy_det, "log_det_random": random_det,
                "machine": platform.machine(), "numpy": np.__version__, "scipy": scipy.__version__,
            }
        )
    )  # fmt: skip


if __name__ == "__main__":
    main()
