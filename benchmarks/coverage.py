"""Do 90 % intervals of ranking scores hold the truth in 90 % of cases?

Ceiling: 90 %. Above it, intervals are wider than they need be; below, they promise too much. 16 candidates, all pairs
in both orders (240 calls) unless said otherwise, 200 repetitions, score +- 1.645 stderr, share of the 16 intervals
that hold the truth, and its standard error. Where the model is true, 88 to 92 is asked for.
The unit is the pair; the usual budgets and judges are in benchmarks/default_errors.py.

    python benchmarks/coverage.py [--repetitions 200]      writes benchmarks/results/coverage.txt and .json
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from synthscore.errors import RankingError
from synthscore.ranking.bradley_terry import bradley_terry, soft_bradley_terry
from synthscore.ranking.closed_form import gaussian
from synthscore.ranking.comparisons import Comparisons
from synthscore.ranking.methods import RESAMPLES, bootstrap
from synthscore.ranking.result import Ranking

N = 16
IDS = tuple(f"c{place}" for place in range(N))
TRUTH = np.linspace(-1.5, 1.5, N)  # nats; mean zero
FIRST, SECOND = np.nonzero(~np.eye(N, dtype=bool))
D = TRUTH[FIRST] - TRUTH[SECOND]
RESULTS = Path(__file__).parent / "results"

Draw = Callable[[np.random.Generator], tuple[Comparisons, np.ndarray]]


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def calls(p: np.ndarray, copies: int = 1) -> Comparisons:
    rows = np.repeat(np.arange(len(p)), copies)
    return Comparisons.from_probabilities(IDS, FIRST[rows], SECOND[rows], p[rows])


def coins(rng: np.random.Generator) -> tuple[Comparisons, np.ndarray]:
    """Each call's answer is a coin with P(first) = sigma(d)."""
    return calls((rng.random(len(D)) < sigmoid(D)).astype(float)), TRUTH


def posterior(rng: np.random.Generator, share: int = 1) -> tuple[Comparisons, np.ndarray]:
    """Any soft answers; the truth is then drawn from the product of their experts, exactly up to resampling.

    4,000 draws from a multivariate t around the maximum, one of them taken with probability density / proposal.
    """
    c = calls(sigmoid(D + rng.normal(0, 1, len(D))))
    c = c.subset(np.sort(rng.permutation(len(c))[: len(c) // share]))
    try:
        fit = soft_bradley_terry(c)
    except RankingError:  # not linked: draw again
        return posterior(rng, share)
    slope = sigmoid(fit.scores[c.first] - fit.scores[c.second])
    rows = np.eye(N)[c.first] - np.eye(N)[c.second]
    covariance = np.linalg.pinv(rows.T @ ((slope * (1 - slope))[:, None] * rows))
    root = np.linalg.cholesky(covariance[1:, 1:])  # the last N - 1 determine the first
    freedom = 8
    z = rng.standard_normal((4000, N - 1)) / np.sqrt(rng.chisquare(freedom, 4000) / freedom)[:, None]
    rest = fit.scores[1:] + z @ root.T
    s = np.column_stack([-rest.sum(axis=1), rest])
    d = s[:, c.first] - s[:, c.second]
    log_density = d @ c.probabilities - np.logaddexp(0, d).sum(axis=1)
    log_proposal = -(freedom + N - 1) / 2 * np.log1p((z**2).sum(axis=1) / freedom)
    weights = np.exp(log_density - log_proposal - (log_density - log_proposal).max())
    return c, s[rng.choice(len(s), p=weights / weights.sum())]


def soft_with_the_right_mean(rng: np.random.Generator) -> tuple[Comparisons, np.ndarray]:
    """p ~ Beta with mean sigma(d) and four times less variance than a coin."""
    mean = sigmoid(D)
    return calls(np.clip(rng.beta(3 * mean, 3 * (1 - mean)), 1e-12, 1 - 1e-12)), TRUTH


def repeated(rng: np.random.Generator) -> tuple[Comparisons, np.ndarray]:
    """The judge is asked four times in a row, and always repeats its first answer."""
    return calls((rng.random(len(D)) < sigmoid(D)).astype(float), copies=4), TRUTH


def overconfident(rng: np.random.Generator) -> tuple[Comparisons, np.ndarray]:
    """Log-odds are twice what they should be."""
    return calls(sigmoid(2 * D + rng.normal(0, 1, len(D)))), TRUTH


def underconfident(rng: np.random.Generator) -> tuple[Comparisons, np.ndarray]:
    """Log-odds are half of what they should be."""
    return calls(sigmoid(D / 2 + rng.normal(0, 1, len(D)))), TRUTH


def gaussian_noise(rng: np.random.Generator) -> tuple[Comparisons, np.ndarray]:
    """p = 1/2 + d / 10 + noise."""
    return calls(np.clip(0.5 + D / 10 + rng.normal(0, 0.04, len(D)), 0, 1)), TRUTH


def gaussian_pair_effect(rng: np.random.Generator) -> tuple[Comparisons, np.ndarray]:
    """Half of the noise's variance is what the judge thinks of the pair, the same in both orders."""
    effect = rng.normal(0, 0.04, (N, N))
    effect = (effect - effect.T) / np.sqrt(2)
    p = 0.5 + D / 10 + effect[FIRST, SECOND] + rng.normal(0, 0.04, len(D))
    return calls(np.clip(p, 0, 1)), TRUTH


hard = partial(bradley_terry, prior=None, decisions="per_call")


def linear(comparisons: Comparisons, **options: Any) -> Ranking:
    """poe-g on the scale of the truth, of which p is a tenth."""
    found = gaussian(comparisons, **options)
    return replace(found, scores=10 * found.scores, stderr=10 * found.stderr)


CASES: list[tuple[str, bool, Draw, Callable[..., Ranking]]] = [
    ("bt, hard answers from the model", True, coins, hard),
    ("poe-bt, hard answers from the model", True, coins, soft_bradley_terry),
    ("poe-bt, truth from the posterior", False, posterior, soft_bradley_terry),
    ("poe-bt, the same from 48 calls", False, partial(posterior, share=5), soft_bradley_terry),
    ("poe-bt, soft answers, right mean", True, soft_with_the_right_mean, soft_bradley_terry),
    ("poe-bt, every answer four times", True, repeated, soft_bradley_terry),
    ("poe-bt, overconfident judge", False, overconfident, soft_bradley_terry),
    ("poe-bt, underconfident judge", False, underconfident, soft_bradley_terry),
    ("poe-g, Gaussian noise", True, gaussian_noise, linear),
    ("poe-g, half of the noise by pair", True, gaussian_pair_effect, linear),
]


def coverage(draw: Draw, method: Callable[..., Ranking], repetitions: int) -> dict[str, float]:
    """Percent of intervals that hold the truth, by "model" and by "bootstrap"; what could not be ranked is counted."""
    rng = np.random.default_rng(1)
    inside: dict[str, list[float]] = {"model": [], "bootstrap": []}
    width = stats.norm.ppf(0.95)
    infinite = 0
    for _ in range(repetitions):
        c, truth = draw(rng)
        for kind, shares in inside.items():
            try:
                ranked = method(c, stderr="model")
            except RankingError:
                infinite += kind == "model"
                continue
            stderr = ranked.stderr
            if kind == "bootstrap":
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # resamples that are not linked are left out
                    stderr, _ = bootstrap(partial(method, stderr=None), c, RESAMPLES, rng)
            if np.isfinite(stderr).all():
                shares.append(float(np.mean(np.abs(ranked.scores - truth) <= width * stderr)))
    result = {kind: 100 * float(np.mean(shares)) for kind, shares in inside.items()}
    result["error"] = 100 * float(np.std(inside["model"]) / np.sqrt(len(inside["model"])))
    result["not_ranked"] = infinite
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=200)
    repetitions = parser.parse_args().repetitions
    lines = [
        f"coverage of 90 % intervals, percent; {repetitions} repetitions, {N} candidates",
        f"{'':45s} {'model is true':>13s} {'model':>7s} {'bootstrap':>9s} {'+-':>5s}",
    ]
    rows = []
    for name, true, draw, method in CASES:
        row = {"case": name, "model_is_true": true, **coverage(draw, method, repetitions)}
        rows.append(row)
        lines.append(
            f"{name:45s} {'yes' if true else 'no':>13s} {row['model']:7.1f} {row['bootstrap']:9.1f} {row['error']:5.2f}"
            + (f"   {row['not_ranked']} draws without finite scores" if row["not_ranked"] else "")
        )
        print(lines[-1], flush=True)
    result = json.dumps({"repetitions": repetitions, "candidates": N, "level": 90, "cases": rows})
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "coverage.txt").write_text("\n".join(lines) + "\n")
    (RESULTS / "coverage.json").write_text(result + "\n")
    print(result)


if __name__ == "__main__":
    main()
