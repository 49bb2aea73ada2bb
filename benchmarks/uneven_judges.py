"""Do anchored scores hold where the judge is sharper on one context than on another, or its bias differs by text?

    python -m benchmarks.uneven_judges [--draws 30]

Simulated: 30 contexts of 16 texts (sd 1.2 around 3), ladders of 5 rungs moved as wholes (sd .3), stretched (20 %), each
rung by itself (.3). The judge's log-odds are 1.2 nats a rung, times exp(sd z) for each context; .8 nats for the text
that is asked about, rungs too, and what is this text's own; and noise of .7 nats in every answer. It says Better or
Worse where logistic noise carries the log-odds over .8 nats, else Similar: thresholds, not the ties of the model that
is fitted. Errors are in rungs: as they are, and after the best line through all scores of a run, for the paper's sum,
whose unit is another one (rung equivalent). The last line is JSON.
Ceiling: with one text a context nothing tells a sharp judge from a long ladder; nor does anything tell the bias of a
text in one order.
"""

from __future__ import annotations

import argparse
import json
from typing import NamedTuple

import numpy as np

from benchmarks.anchored import paper, spearman
from synthscore.scoring.anchored import SoftAnswers, fit
from synthscore.types import FloatArray

N, CONTEXTS = 5, 30
THRESHOLD = 0.8  # nats


class Judge(NamedTuple):
    """sharpness_sd : of its log, between contexts. bias_sd : between texts, nats; rungs are texts, too

    spread_sd : of the log of the spread that a context's texts have.
    """

    sharpness_sd: float = 0.0
    bias_sd: float = 0.0
    both_orders: bool = True
    rungs_too: bool = True
    n_texts: int = 16
    spread_sd: float = 0.0


JUDGES = {
    "sharpness 0": Judge(),
    "sharpness .1": Judge(0.1),
    "sharpness .25": Judge(0.25),
    "sharpness .5": Judge(0.5),
    "sharpness .5, one order": Judge(0.5, both_orders=False),
    "sharpness .25, spreads of texts .4": Judge(0.25, spread_sd=0.4),
    "sharpness 0, spreads of texts .4": Judge(spread_sd=0.4),
    "sharpness .25, 1 text": Judge(0.25, n_texts=1),
    "sharpness 0, 1 text": Judge(n_texts=1),
    "bias .8, both orders": Judge(bias_sd=0.8),
    "bias .8, one order": Judge(bias_sd=0.8, both_orders=False),
    "bias .8, one order, not of rungs": Judge(bias_sd=0.8, both_orders=False, rungs_too=False),
}


def simulate(rng: np.random.Generator, judge: Judge) -> tuple[SoftAnswers, FloatArray]:
    """Answers, and where texts stand, 1..N."""
    each, targets = np.arange(CONTEXTS), np.arange(CONTEXTS * judge.n_texts)
    own, level = targets // judge.n_texts, np.arange(N) - (N - 1) / 2
    rungs = 3 + rng.normal(0, 0.3, (CONTEXTS, 1)) + level * np.exp(rng.normal(0, 0.2, (CONTEXTS, 1)))
    rungs = rungs + rng.normal(0, 0.3, (CONTEXTS, N))
    truth = 3 + 1.2 * rng.normal(size=len(targets)) * np.exp(rng.normal(0, judge.spread_sd, CONTEXTS))[own]
    sharp = 1.2 * np.exp(rng.normal(0, judge.sharpness_sd, CONTEXTS))
    bias = 0.8 + judge.bias_sd * rng.normal(size=len(targets))
    of_rungs = 0.8 + judge.bias_sd * judge.rungs_too * rng.normal(size=rungs.shape)
    parts = [
        (own, N + targets, np.full(len(targets), rung), np.full(len(targets), sign))
        for sign in ((1.0, -1.0) if judge.both_orders else (1.0,))
        for rung in range(N)
    ]
    parts += [
        (each, np.full(CONTEXTS, one), np.full(CONTEXTS, other), np.ones(CONTEXTS))
        for one in range(N)
        for other in range(N)
        if one != other
    ]
    ladder, first, second, sign = map(np.concatenate, zip(*parts, strict=True))
    is_rung = first < N
    rung, text = np.where(is_rung, first, 0), np.where(is_rung, 0, first - N)
    x = np.where(is_rung, rungs[ladder, rung], truth[text])
    favour = np.where(is_rung, of_rungs[ladder, rung], bias[text])
    d = sharp[ladder] * (x - rungs[ladder, second]) + favour * sign + 0.7 * rng.normal(size=len(sign))
    better, worse = 1 / (1 + np.exp(THRESHOLD - d)), 1 / (1 + np.exp(THRESHOLD + d))
    probs = np.stack([better, worse, 1 - better - worse], axis=1)
    return SoftAnswers(CONTEXTS, N, own, ladder, first, second, sign, probs), truth


def run(seed: int, judge: Judge) -> dict[str, float]:
    answers, truth = simulate(np.random.default_rng(seed), judge)
    model, posterior = fit(answers)
    low, high = posterior.interval(0.9)
    scores = {"anchored": posterior.mean, "paper": paper(answers)}
    return {
        "holds": float(((low <= truth) & (truth <= high)).mean()),
        "error": float(np.sqrt(((posterior.mean - truth) ** 2).mean())),
        **{f"{name} line": off_line(values, truth) for name, values in scores.items()},
        **{f"{name} pooled": spearman(values, truth) for name, values in scores.items()},
        "converged": float(model.converged),
    }


def off_line(scores: FloatArray, truth: FloatArray) -> float:
    """Root mean square of what the best line through the scores leaves of the truth."""
    design = np.stack([scores, np.ones_like(scores)], axis=1)
    left = truth - design @ np.linalg.lstsq(design, truth, rcond=None)[0]
    return float(np.sqrt((left**2).mean()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=30)
    args = parser.parse_args()
    print(f"{args.draws} draws, +- standard errors; anchored / the paper's sum")
    print(f"{'judge':34s} {'90 % holds':14s} {'error':6s} {'after a line':29s} {'Spearman':14s} converged")
    rows = []
    for name, judge in JUDGES.items():
        found = [run(seed, judge) for seed in range(args.draws)]
        mean = {key: float(np.mean([row[key] for row in found])) for key in found[0]}
        error = {key: float(np.std([row[key] for row in found], ddof=1) / args.draws**0.5) for key in found[0]}
        print(
            f"{name:34s} {mean['holds']:.3f} +- {error['holds']:.3f} {mean['error']:.3f} "
            f"{mean['anchored line']:.3f} +- {error['anchored line']:.3f} / "
            f"{mean['paper line']:.3f} +- {error['paper line']:.3f}"
            f" {mean['anchored pooled']:.3f} / {mean['paper pooled']:.3f}  {mean['converged']:.2f}",
            flush=True,
        )
        rows.append({"judge": name, **judge._asdict(), "mean": mean, "standard_error": error})
    print(json.dumps({"draws": args.draws, "rows": rows}))


if __name__ == "__main__":
    main()
