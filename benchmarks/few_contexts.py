"""Are p-values and intervals of agreement with people right from two contexts on?

    python -m benchmarks.few_contexts [--draws 1000]

Simulated: two methods see the quality of 8 texts a context through noise whose size differs from context to context
(sd of its log .5); people rate with noise, in whole numbers. Without a true difference between the methods, at most .05
of the differences should have p < .05; 95 % intervals should hold the agreement that many contexts have.
The last line is JSON. Ceiling: chance alone moves a share of n draws by sqrt(.05 .95 / n).
"""

from __future__ import annotations

import argparse
import json

import numpy as np

from synthscore.evaluation.agreement import agreement, difference, measure
from synthscore.types import FloatArray

N_TEXTS = 8


def draw(rng: np.random.Generator, n_contexts: int) -> tuple[FloatArray, FloatArray, FloatArray, list[str]]:
    """Scores of two methods, ratings, contexts."""
    shape = (n_contexts, N_TEXTS)
    quality = rng.normal(size=shape) + rng.normal(0, 0.5, (n_contexts, 1))
    human = np.round(quality + rng.normal(0, 0.5, shape))
    spread = np.exp(rng.normal(0, 0.5, (n_contexts, 1)))
    one, other = (quality + spread * rng.normal(size=shape) for _ in range(2))
    return one.ravel(), other.ravel(), human.ravel(), [f"c{k}" for k in range(n_contexts) for _ in range(N_TEXTS)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=1000)
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    many = draw(rng, 5_000)
    rows = []
    print(f"{'level':12s} {'contexts':>8s} {'p < .05':>8s} {'95 % interval holds':>20s}   of {args.draws} draws")
    for level in ("per_context", "pooled"):
        truth = measure(many[0], *many[2:], None, level=level, statistic="spearman").agreement.value
        for n_contexts in (2, 3, 5, 10, 20, 50):
            false, held = 0, 0
            for _ in range(args.draws):
                one, other, human, contexts = draw(rng, n_contexts)
                p = difference(one, other, human, contexts, level=level).p
                found = agreement(one, human, contexts, level=level)
                false += p is not None and p < 0.05
                held += found.low is not None and found.high is not None and found.low <= truth <= found.high
            rows.append({"level": level, "contexts": n_contexts, "false": false, "held": held, "draws": args.draws})
            print(f"{level:12s} {n_contexts:8d} {false / args.draws:8.3f} {held / args.draws:20.3f}", flush=True)
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
