"""Do 90 % intervals hold the truth where each pair is asked in both orders, and the second answer repeats the first?

    python -m benchmarks.default_errors [--repetitions 1000]

16 candidates, greedy pairs, both orders, each method as it comes. Judges:
decided     one coin's flip a pair, P(i) = sigma(d) (poe-g-hard: 1/2 + d / 8), the same answer in both orders
calibrated  a soft P of the pair with mean sigma(d) (Beta, 4 times less variance than a coin), the same in both orders
noisy       a pair's own P, Beta around sigma(d), and around it one for each order; all means right
by pair, by half, by call   poe-g: 1/2 + d / 10 + Gaussian noise that is all, half, not at all the pair's
Shares of the 16 intervals: score +- 1.645 stderr, and with Student's t at the degrees of freedom that settings name
(-: phi is known, not measured). +-: standard error over repetitions. Ceiling: .90, or .866 for 1.645 at 9 degrees.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from scipy import stats

from synthscore.errors import RankingError
from synthscore.ranking import METHODS, Comparisons
from synthscore.ranking.designs import greedy
from synthscore.types import FloatArray

N = 16
IDS = tuple(f"c{place}" for place in range(N))
TRUTH = np.linspace(-1.5, 1.5, N)  # nats; mean zero
UNITS = {"poe-g": 10.0, "poe-g-hard": 8.0}  # nats in one unit of score
CASES = (
    ("bt", "decided"),
    ("poe-bt", "decided"),
    ("poe-bt", "calibrated"),
    ("poe-bt", "noisy"),
    ("poe-g", "by pair"),
    ("poe-g", "by half"),
    ("poe-g", "by call"),
    ("poe-g-hard", "decided"),
)


def draw(rng: np.random.Generator, method: str, judge: str, n_calls: int) -> Comparisons:
    asked = greedy(N, n_calls, rng)
    first, second = asked[:, 0], asked[:, 1]
    keys, pair = np.unique(np.minimum(first, second) * N + np.maximum(first, second), return_inverse=True)
    d = TRUTH[keys // N] - TRUTH[keys % N]
    unit = UNITS.get(method)
    mean = 0.5 + d / unit if unit else 1 / (1 + np.exp(-d))

    def beta(about: FloatArray, sharpness: float) -> FloatArray:
        return np.clip(rng.beta(sharpness * about, sharpness * (1 - about)), 1e-9, 1 - 1e-9)

    if judge == "decided":
        p = (rng.random(len(d)) < mean).astype(float)[pair]
    elif judge == "calibrated":
        p = beta(mean, 3)[pair]
    elif judge == "noisy":
        p = beta(beta(mean, 5)[pair], 9)
    else:
        share = {"by pair": 1.0, "by half": 0.5, "by call": 0.0}[judge]
        own, shared = rng.normal(0, 0.05, len(pair)), rng.normal(0, 0.05, len(d))
        p = np.clip(mean[pair] + np.sqrt(share) * shared[pair] + np.sqrt(1 - share) * own, 0, 1)
    return Comparisons.from_probabilities(IDS, first, second, np.where(first < second, p, 1 - p))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=1000)
    repetitions = parser.parse_args().repetitions
    print(
        f"{repetitions} repetitions, seed 1\n{'method':11s} {'judge':11s} {'K':>4s} {'1.645':>6s} {'+-':>5s} {'t':>6s}"
    )
    for method, judge in CASES:
        for n_calls in (48, 240):
            rng, inside, by_t = np.random.default_rng(1), [], []
            for _ in range(repetitions):
                calls = draw(rng, method, judge, n_calls)
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        found = METHODS[method](calls)
                except RankingError:  # hard answers without finite scores
                    continue
                off = np.abs(found.scores - TRUTH / UNITS.get(method, 1.0))
                inside.append(np.mean(off <= stats.norm.ppf(0.95) * found.stderr))
                if freedom := found.settings.get("degrees_of_freedom"):
                    by_t.append(np.mean(off <= stats.t.ppf(0.95, freedom) * found.stderr))
            if not inside:
                print(f"{method:11s} {judge:11s} {n_calls:4d} no draw has finite scores")
                continue
            error = np.std(inside) / np.sqrt(len(inside))
            shown = f"{np.mean(by_t):6.3f}" if by_t else "     -"
            left_out = f"   {repetitions - len(inside)} draws without finite scores" * (len(inside) < repetitions)
            print(
                f"{method:11s} {judge:11s} {n_calls:4d} {np.mean(inside):6.3f} {error:5.3f} {shown}{left_out}",
                flush=True,
            )


if __name__ == "__main__":
    main()
