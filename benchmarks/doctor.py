"""How often does `doctor` say "can" of a judge that draws lots, and "cannot" of one that is right three times in four?

    python -m benchmarks.doctor [--draws 4000]

Simulated: a judge has a share of pairs in order, which differs from ladder to ladder so that two pairs of a ladder are
alike by a correlation (a beta distribution over ladders); an attribute has 4, 5 or 9 ladders of ten pairs. It is looked
after 12, 24 and 48 pairs, or at all there are, as `checking.rates.decide` has it, and asking ends when it decides.

A judge with position bias answers with certainty and prefers the first place: where the texts differ by less than its
bias, it contradicts itself, which both orders make a tie. It is as good, ties being half.
Ceiling: a coin passes in at most 5 % of the runs, and a judge with 75 % is told "cannot" in at most 10 %, at every
correlation up to .3. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from functools import cache
from statistics import NormalDist

import numpy as np

from synthscore.checking.rates import LOOKS, decide
from synthscore.types import FloatArray

PAIRS_OF_A_LADDER = 10
SHARES = (0.5, 0.6, 0.67, 0.75, 0.85)
ALIKE = (0.0, 0.1, 0.2, 0.3)
LADDERS = (4, 5, 9)
TIES = 0.4  # of a judge with position bias, about


def draw(rng: np.random.Generator, share: float, alike: float, n_ladders: int) -> FloatArray:
    """1 for a pair in order, else 0; float64, shape (10, n_ladders)."""
    of_ladders = np.full(n_ladders, share)
    if alike:
        weight = (1 - alike) / alike
        of_ladders = rng.beta(share * weight, (1 - share) * weight, n_ladders)
    return (rng.random((PAIRS_OF_A_LADDER, n_ladders)) < of_ladders).astype(float)


def draw_biased(rng: np.random.Generator, share: float, alike: float, n_ladders: int) -> FloatArray:
    """The same of a judge that says what stands first is better unless the texts differ by more than its bias.

    The difference that it sees is normal, of variance 1, of which `alike` is the ladder's.
    """
    bias, mean = _bias_and_mean(share)
    seen = mean + np.sqrt(alike) * rng.normal(size=n_ladders)
    seen = seen + np.sqrt(1 - alike) * rng.normal(size=(PAIRS_OF_A_LADDER, n_ladders))
    return (np.sign(seen + bias) + np.sign(seen - bias)) / 4 + 0.5


@cache
def _bias_and_mean(share: float) -> tuple[float, float]:
    """The least bias at which TIES of the pairs are ties, and the mean difference at which the share is in order."""
    for bias in np.arange(0, 3, 0.01).tolist():
        low, high = 0.0, 10.0
        for _ in range(50):
            mean = (low + high) / 2
            seen = NormalDist(mean)
            low, high = (mean, high) if 1 - (seen.cdf(bias) + seen.cdf(-bias)) / 2 < share else (low, mean)
        if seen.cdf(bias) - seen.cdf(-bias) >= TIES:
            return bias, mean
    raise ValueError(f"no bias makes {TIES:.0%} ties")


def doctor(in_order: FloatArray) -> tuple[str, int]:
    """What is decided, and after how many pairs. in_order : shape (pairs of a ladder, ladders); asked row by row"""
    values = in_order.ravel()
    ladders = np.tile(np.arange(in_order.shape[1]), len(in_order)).tolist()
    decision, asked = "cannot tell yet", 0
    for look in LOOKS:
        asked = min(look, len(values))
        decision = decide(values[:asked], ladders[:asked])
        if decision != "cannot tell yet":
            break
    return decision, asked


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=4000)
    args = parser.parse_args()
    rng = np.random.default_rng(34)
    rows = []
    print(f"{'judge':14} {'alike':>5} {'ladders':>7} {'can':>6} {'cannot':>6} {'not yet':>7} {'pairs':>5}")
    cells = [(f"{share:.0%}", draw, share, alike) for share in SHARES for alike in ALIKE]
    cells += [(f"{share:.0%}, biased", draw_biased, share, alike) for share in (0.5, 0.75) for alike in (0.0, 0.2)]
    for name, drawn, share, alike in cells:
        for n_ladders in LADDERS:
            runs = [doctor(drawn(rng, share, alike, n_ladders)) for _ in range(args.draws)]
            found = Counter(decision for decision, _ in runs)
            rates = {decision: found[decision] / args.draws for decision in ("can", "cannot", "cannot tell yet")}
            pairs = float(np.mean([asked for _, asked in runs]))
            row = {"judge": name, "share": share, "alike": alike, "ladders": n_ladders, **rates, "pairs": pairs}
            rows.append(row)
            shown = " ".join(f"{rate:{width}.3f}" for rate, width in zip(rates.values(), (6, 6, 7), strict=True))
            print(f"{name:14} {alike:5.1f} {n_ladders:7d} {shown} {pairs:5.0f}", flush=True)
    for share, decision, most in ((0.5, "can", 0.05), (0.75, "cannot", 0.1)):
        worst = max(row[decision] for row in rows if row["share"] == share)
        print(f'{share:.0%} told "{decision}": {worst:.3f} at most, expected {most:.2f} or less')
    print(json.dumps({"draws": args.draws, "rows": rows}))


if __name__ == "__main__":
    main()
