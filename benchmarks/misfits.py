"""Do 90 % intervals of anchored scores hold where a judge, or its ladders, are not what the model says?

    python -m benchmarks.misfits [--draws 8] [--only WORDS] [--before FILE]

Simulated: contexts of texts (sd 1.2 around 3 on the scale 1..5), ladders moved as wholes (sd .3), stretched (20 %),
each rung by itself (.3). The judge's log-odds are 1.2 nats a rung of N = 5, .8 nats for the text that is asked about,
and noise: of the call, of the pair (the same in both orders; of two rungs, too), and more, as `Judge` says. It says
Better or Worse where logistic noise carries the log-odds over .8 nats, else Similar: thresholds, not the ties of the
model that is fitted. Errors are in rungs of N = 5, after the best line through all scores of a run, as the unit of the
paper's sum is another one (rung equivalent); order is Spearman inside contexts. --before: a former output, whose share
of held texts is shown, too. The last line is JSON.
Ceiling: what all answers about a text have in common cannot be told from its quality, nor with one text a context a
sharp judge from a long ladder, nor the bias of a text in one order.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.anchored import paper, spearman
from synthscore.scoring.anchored import SoftAnswers, fit
from synthscore.types import FloatArray

THRESHOLD = 0.8  # nats


class Judge(NamedTuple):
    """call_noise, pair_noise, text_noise : standard deviations, nats, of what an answer, both answers about a text and
        a rung, and all answers about a text have for themselves
    neighbours : correlation of the noise of the pair (or of the call, where there is none of the pair) between
        neighbouring rungs of a text
    freedom : of Student's t, by which the noise of the call is spread; inf: normal
    sharpness_sd, sharpness_by_text : of its log, between contexts, between texts
    bias_sd, bias_by_context : of the position bias, between texts and between contexts, nats; rungs are texts, too,
        unless not rungs_biased
    most : nats that its log-odds come near and do not pass
    spread_sd : of the log of the spread that a context's texts have. context_sd : between contexts' mean texts, rungs
    uneven : of single rungs. reversed, shuffled : probability that a ladder is upside down, or in random order
    """

    call_noise: float = 0.7
    pair_noise: float = 0.0
    text_noise: float = 0.0
    neighbours: float = 0.0
    freedom: float = np.inf
    sharpness_sd: float = 0.0
    sharpness_by_text: float = 0.0
    bias_sd: float = 0.0
    bias_by_context: float = 0.0
    rungs_biased: bool = True
    most: float = np.inf
    spread_sd: float = 0.0
    context_sd: float = 0.0
    uneven: float = 0.3
    reversed: float = 0.0
    shuffled: float = 0.0
    n_rungs: int = 5
    n_contexts: int = 30
    n_texts: int = 16
    both_orders: bool = True


def of_the_pair(sd: float, n_rungs: int, both_orders: bool = True) -> Judge:
    return Judge(call_noise=0.0, pair_noise=sd, n_rungs=n_rungs, both_orders=both_orders)


JUDGES = {
    "noise of the call .7": Judge(),
    "noise of the call 1.2": Judge(1.2),
    **{
        f"noise of the pair {sd}, N = {n}, {'both orders' if both else 'one order'}": of_the_pair(sd, n, both)
        for sd in (0.7, 1.2)
        for n in (2, 3, 5, 9)
        for both in (True, False)
    },
    "noise of the pair .7, of the call .7": Judge(0.7, 0.7),
    "sharpness .1": Judge(sharpness_sd=0.1),
    "sharpness .25": Judge(sharpness_sd=0.25),
    "sharpness .5": Judge(sharpness_sd=0.5),
    "sharpness 1": Judge(sharpness_sd=1.0),
    "sharpness .5, one order": Judge(sharpness_sd=0.5, both_orders=False),
    "sharpness .25, spreads of texts .4": Judge(sharpness_sd=0.25, spread_sd=0.4),
    "spreads of texts .4": Judge(spread_sd=0.4),
    "sharpness .25, 6 contexts": Judge(sharpness_sd=0.25, n_contexts=6),
    "sharpness .25, 4 texts": Judge(sharpness_sd=0.25, n_texts=4),
    "sharpness .25, 1 text": Judge(sharpness_sd=0.25, n_texts=1),
    "sharpness .5, 1 text, 60 contexts": Judge(sharpness_sd=0.5, n_texts=1, n_contexts=60),
    "1 text": Judge(n_texts=1),
    "9 rungs": Judge(n_rungs=9),
    "3 rungs": Judge(n_rungs=3),
    "3 contexts": Judge(n_contexts=3),
    "1 context": Judge(n_contexts=1),
    "heavy tails (t of 2)": Judge(freedom=2),
    "heavy tails, one order": Judge(freedom=2, both_orders=False),
    "bias .8 by context": Judge(bias_by_context=0.8),
    "bias .8 by context, one order": Judge(bias_by_context=0.8, both_orders=False),
    "bias .8 by text": Judge(bias_sd=0.8),
    "bias .8 by text, one order": Judge(bias_sd=0.8, both_orders=False),
    "ladders shuffled, 30 %": Judge(shuffled=0.3),
    "ladders reversed, 15 %": Judge(reversed=0.15),
    "ladders reversed, 30 %": Judge(reversed=0.3),
    "contexts differ by 1 rung": Judge(context_sd=1.0),
    "log-odds saturate at 2.5 nats": Judge(most=2.5),
    "neighbouring rungs correlate .7, pair": Judge(0.0, 0.7, neighbours=0.7),
    "neighbouring rungs correlate .7, call": Judge(0.7, neighbours=0.7),
    "neighbours .7, pair .7, call .7": Judge(0.7, 0.7, neighbours=0.7),
    "neighbours .7, one order": Judge(0.7, neighbours=0.7, both_orders=False),
    "neighbours .7, N = 3": Judge(0.0, 0.7, neighbours=0.7, n_rungs=3),
    "neighbours .7, N = 9": Judge(0.0, 0.7, neighbours=0.7, n_rungs=9),
    "sharpness by text .3": Judge(sharpness_by_text=0.3),
    "error common to a text .5": Judge(text_noise=0.5),
    "error common to a text 1": Judge(text_noise=1.0),
    "bias .8 by text, one order, not of rungs": Judge(bias_sd=0.8, both_orders=False, rungs_biased=False),
}


def simulate(rng: np.random.Generator, judge: Judge) -> tuple[SoftAnswers, FloatArray]:
    """Answers, and where texts stand, 1..N."""
    n, n_contexts, unit = judge.n_rungs, judge.n_contexts, 4 / (judge.n_rungs - 1)
    each, targets = np.arange(n_contexts), np.arange(n_contexts * judge.n_texts)
    context_of, level = targets // judge.n_texts, (np.arange(n) - (n - 1) / 2) * unit
    rungs = 3 + rng.normal(0, 0.3, (n_contexts, 1)) + level * np.exp(rng.normal(0, 0.2, (n_contexts, 1)))
    rungs = rungs + rng.normal(0, judge.uneven, (n_contexts, n))
    for share, turned in ((judge.reversed, lambda row: row[::-1]), (judge.shuffled, rng.permutation)):
        for ladder in np.flatnonzero(rng.random(n_contexts) < share):
            rungs[ladder] = turned(rungs[ladder].copy())
    truth = 1.2 * rng.normal(size=len(targets)) * np.exp(rng.normal(0, judge.spread_sd, n_contexts))[context_of]
    truth = 3 + truth + rng.normal(0, judge.context_sd, n_contexts)[context_of]
    sharp = 1.2 * np.exp(rng.normal(0, judge.sharpness_sd, n_contexts))
    sharp_text = np.exp(rng.normal(0, judge.sharpness_by_text, len(targets)))
    of_contexts = rng.normal(0.8, judge.bias_by_context, n_contexts)
    bias = of_contexts[context_of] + rng.normal(0, judge.bias_sd, len(targets))
    of_rungs = of_contexts[:, None] + judge.bias_sd * judge.rungs_biased * rng.normal(size=rungs.shape)
    parts = [
        (context_of, n + targets, np.full(len(targets), rung), np.full(len(targets), sign))
        for sign in ((1.0, -1.0) if judge.both_orders else (1.0,))
        for rung in range(n)
    ]
    parts += [
        (each, np.full(n_contexts, one), np.full(n_contexts, other), np.ones(n_contexts))
        for one in range(n)
        for other in range(n)
        if one != other
    ]
    ladder, first, second, sign = map(np.concatenate, zip(*parts, strict=True))
    is_rung = first < n
    rung, text = np.where(is_rung, first, 0), np.where(is_rung, 0, first - n)
    x = np.where(is_rung, rungs[ladder, rung], truth[text])
    favour = np.where(is_rung, of_rungs[ladder, rung], bias[text])
    by_text = np.where(is_rung, 1.0, sharp_text[text])
    d = sharp[ladder] * by_text * (x - rungs[ladder, second])
    d += np.where(is_rung, 0.0, judge.text_noise * rng.normal(size=len(targets))[text])

    def noise(neighbours: float) -> FloatArray:
        """Of each text and rung, as far as neighbours have it in common; of two rungs, against each other."""
        drawn = rng.normal(size=(len(targets), n))
        for k in range(1, n):
            drawn[:, k] = neighbours * drawn[:, k - 1] + np.sqrt(1 - neighbours**2) * drawn[:, k]
        of_pairs = rng.normal(size=(n_contexts, n, n))
        of_pairs = np.triu(of_pairs, 1) - np.triu(of_pairs, 1).swapaxes(1, 2)
        return np.where(is_rung, of_pairs[ladder, rung, second], drawn[text, second])

    d += judge.pair_noise * noise(judge.neighbours)
    if judge.neighbours and not judge.pair_noise:
        d += judge.call_noise * np.where(sign > 0, noise(judge.neighbours), noise(judge.neighbours))
    elif np.isinf(judge.freedom):
        d += judge.call_noise * rng.normal(size=len(sign))
    else:
        d += judge.call_noise * rng.standard_t(judge.freedom, len(sign))
    d = d if np.isinf(judge.most) else judge.most * np.tanh(d / judge.most)
    d += favour * sign
    better, worse = 1 / (1 + np.exp(THRESHOLD - d)), 1 / (1 + np.exp(THRESHOLD + d))
    probs = np.stack([better, worse, np.maximum(1 - better - worse, 0.0)], axis=1)
    return SoftAnswers(n_contexts, n, context_of, ladder, first, second, sign, probs), 1 + (truth - 1) / unit


def run(seed: int, judge: Judge) -> dict[str, float]:
    """What one draw shows; of a fit that is refused nothing but that (rises), of one text a context no order."""
    answers, truth = simulate(np.random.default_rng(seed), judge)
    model, posterior = fit(answers)
    if not model.rungs_rise:
        return {"rises": 0.0}
    low, high = posterior.interval(0.9)
    found = {"holds": float(((low <= truth) & (truth <= high)).mean())}
    for name, values in (("anchored", posterior.mean), ("paper", paper(answers))):
        found[f"{name} error"] = off_line(values, truth) * 4 / (judge.n_rungs - 1)
        if judge.n_texts > 1:
            contexts = zip(values.reshape(-1, judge.n_texts), truth.reshape(-1, judge.n_texts), strict=True)
            found[f"{name} order"] = float(np.mean([spearman(*context) for context in contexts]))
    return found | {"converged": float(model.converged), "rises": 1.0}


def off_line(scores: FloatArray, truth: FloatArray) -> float:
    """Root mean square of what the best line through the scores leaves of the truth."""
    design = np.stack([scores, np.ones_like(scores)], axis=1)
    left = truth - design @ np.linalg.lstsq(design, truth, rcond=None)[0]
    return float(np.sqrt((left**2).mean()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=8)
    parser.add_argument("--only", default="", help="rows whose name holds these words")
    parser.add_argument("--before", type=Path, help="a former output: its share of held texts is shown, too")
    args = parser.parse_args()
    former = {}
    if args.before:
        former = {row["judge"]: row["mean"] for row in json.loads(args.before.read_text().splitlines()[-1])["rows"]}
    print(f"{args.draws} draws, +- standard errors; error and order: anchored / the paper's sum")
    print(f"{'judge':48s} before  {'90 % holds':14s} {'error':11s}  {'order':11s}  converged rises")
    rows = []
    for name, judge in JUDGES.items():
        if args.only not in name:
            continue
        found = [run(seed, judge) for seed in range(args.draws)]
        keys = max(found, key=len)
        of = {key: [row[key] for row in found if key in row] for key in keys}
        mean = {key: float(np.mean(values)) for key, values in of.items()}
        error = {key: float(np.std(values, ddof=1) / len(values) ** 0.5) for key, values in of.items()}
        was = f"{former[name]['holds']:.3f}" if name in former else "-"
        order = "/".join(f"{mean[key]:.3f}" for key in ("anchored order", "paper order") if key in mean)
        print(
            f"{name:48s} {was:>6s}  {mean['holds']:.3f} +- {error['holds']:.3f} "
            f"{mean['anchored error']:.3f}/{mean['paper error']:.3f} {order or '-':>12s} "
            f"{mean['converged']:10.2f} {mean['rises']:5.2f}",
            flush=True,
        )
        rows.append({"judge": name, "mean": mean, "standard_error": error})
    print(json.dumps({"draws": args.draws, "rows": rows}))


if __name__ == "__main__":
    main()
