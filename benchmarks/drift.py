"""How often is drift from a kept scale, or a certificate, reported where there is none, and how often where there is?

A judge whose truth is known: a scale is fitted on 40 contexts of 16 texts, or a certificate made of 200 labelled texts
of a context each. A run of other contexts follows: by the same judge (an alarm is any p below .05, after Holm), or by
one that is twice or half as sharp (1.2 nats a rung before), whose noise is 2 nats instead of 1, whose position bias is
-.8 nats instead of +.8, or on texts of which 10 % are good instead of 50 %. Good texts are spread by .7 around 4, bad
ones around 2; ladders are shifted (.3), stretched (20 %), uneven (.35), a third has two rungs the wrong way round.
Before and after, "uneven" judges differ in sharpness by context (sd .25, of its logarithm), "heavy" ones have noise of
Student's t with 3 degrees of freedom, "partial" ones a bias for each text (sd .8). "adaptive" runs ask about a text
until it is clear on which side of 3.5 it is: such runs are not compared, and this row is why. Reported: the share of
repetitions with an alarm of the judge, with any alarm, its standard error, and with that statistic that should tell.
The last line is JSON.

    python -m benchmarks.drift [--repetitions 200]     of runs without a change; a quarter of them with each change
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from benchmarks.anchored import paper, write
from synthscore.scoring.anchored import Anchors, Scale, SoftAnswers, fit, positions
from synthscore.scoring.anchored.adaptive import SameDecision, ask_in_rounds
from synthscore.scoring.anchored.drift import Drift, Watch
from synthscore.signature import Signature
from synthscore.thresholds.calibrate import calibrate
from synthscore.thresholds.certificate import Guarantee
from synthscore.thresholds.labels import Labelled
from synthscore.types import FloatArray, Score, Verdict

CHANGES: dict[str, tuple[dict[str, float], str]] = {
    "none": ({}, ""),
    "sharpness x 2": ({"sharpness": 2.4}, "sharpness"),
    "sharpness x .5": ({"sharpness": 0.6}, "sharpness"),
    "noise x 2": ({"noise": 2.0}, "noise"),
    "bias turned round": ({"bias": -0.8}, "bias"),
    "50 -> 10 % good": ({"good": 0.1}, "texts"),
}
SIGNATURE = Signature.of(model="simulated", task="task", attribute="attribute")


def changes(seed: int, judge: str = "") -> list[str]:
    """Those of one repetition."""
    return ["none"] if judge or seed % 4 else list(CHANGES)


class Run(NamedTuple):
    """contexts, texts : of the run, on ladders of n_rungs. judge : what is unusual of it, before and after"""

    contexts: int
    texts: int
    n_rungs: int = 5
    orders: int = 2
    adaptive: bool = False
    judge: str = ""


RUNS = [
    *(Run(n, 16) for n in (3, 5, 10, 40)), Run(40, 4), Run(200, 1), Run(40, 16, n_rungs=3), Run(40, 16, orders=1),
    Run(40, 16, adaptive=True), Run(40, 16, judge="uneven"), Run(40, 16, judge="heavy"), Run(40, 16, judge="partial"),
]  # fmt: skip


def simulate(
    rng: np.random.Generator, run: Run, sharpness: float = 1.2, noise: float = 1.0, bias: float = 0.8, good: float = 0.5
) -> tuple[SoftAnswers, FloatArray]:
    """Answers about texts, in run.orders orders, and about rungs against each other; and which texts are good."""
    size, n = run.contexts, run.n_rungs
    text = np.arange(size * run.texts)
    level = 4 * np.linspace(0, 1, n) - 2
    rungs = 3 + 0.3 * rng.normal(size=(size, 1)) + level * np.exp(0.2 * rng.normal(size=(size, 1)))
    rungs += 0.35 * rng.normal(size=rungs.shape)
    for ladder in np.flatnonzero(rng.random(size) < 1 / 3):
        k = rng.integers(n - 1)
        rungs[ladder, [k, k + 1]] = rungs[ladder, [k + 1, k]]
    is_good = rng.random(len(text)) < good
    truth = np.where(is_good, 4.0, 2.0) + 0.7 * rng.normal(size=len(text))
    order, target, rung = (a.ravel() for a in np.meshgrid([1.0, -1.0][: run.orders], text, np.arange(n), indexing="ij"))
    ladder, one, other = (a.ravel() for a in np.meshgrid(np.arange(size), np.arange(n), np.arange(n), indexing="ij"))
    among = one != other
    places = np.concatenate([target // run.texts, ladder[among]])
    first, second = np.concatenate([n + target, one[among]]), np.concatenate([rung, other[among]])
    sign = np.concatenate([order, np.ones(among.sum())])
    of_text = np.maximum(first - n, 0)
    asked = np.where(first < n, rungs[places, np.minimum(first, n - 1)], truth[of_text])
    slope = sharpness * np.exp(0.25 * rng.normal(size=size) * (run.judge == "uneven"))
    lean = bias + 0.8 * rng.normal(size=len(text)) * (run.judge == "partial")
    off = rng.standard_t(3, size=len(first)) / np.sqrt(3) if run.judge == "heavy" else rng.normal(size=len(first))
    d = slope[places] * (asked - rungs[places, second]) + np.where(first < n, bias, lean[of_text]) * sign + noise * off
    probs = np.exp(np.stack([d / 2, -d / 2, np.full(len(d), 0.3)], axis=1))
    probs /= probs.sum(axis=1, keepdims=True)
    return SoftAnswers(size, n, text // run.texts, places, first, second, sign, probs), is_good


def in_rounds(answers: SoftAnswers, scale: Scale) -> SoftAnswers:
    """Those that would have been asked for, on ladders that the scale lacks."""
    n, about = answers.n_rungs, answers.first >= answers.n_rungs
    none = np.zeros(0, dtype=np.int64)
    found = positions(replace(answers.take(~about), target_ladder=none), scale.judge)
    ladders = {str(k): Anchors(found.rungs[k], found.rung_cov[k]) for k in range(answers.n_ladders)}
    own = answers.take(about)
    probs = np.full((answers.n_targets, 2, n, 3), np.nan)
    at = own.first - n, (own.sign < 0).astype(int), own.second
    probs[at] = own.probs
    contexts = [str(k) for k in answers.target_ladder.tolist()]
    rounds = ask_in_rounds(
        replace(scale, ladders=ladders),
        contexts,
        lambda t, level, s: probs[t, s.astype(int), level - 1],
        SameDecision(3.5),
    )
    return own.take(~np.isnan(rounds.probs[at]).any(axis=1))


@cache
def fitted(run: Run, seed: int) -> Scale:
    answers, _ = simulate(np.random.default_rng([seed, 0]), run)
    scale = Scale(fit(answers)[0], {}, "task", "attribute", SIGNATURE)
    return replace(scale, statistics=Watch.scale(scale).observe(answers, list(map(str, range(run.contexts)))).now())


def on_scales(run: Run, seed: int, changed: list[str]) -> dict[str, Drift]:
    """By change."""
    rng = np.random.default_rng([seed, 1, run.contexts, run.texts])
    scale = fitted(run._replace(contexts=40, texts=16, adaptive=False), seed)
    found = {}
    for change in changed:
        answers, _ = simulate(rng, run, **CHANGES[change][0])
        answers = in_rounds(answers, scale) if run.adaptive else answers
        found[change] = Watch.scale(scale).observe(answers, list(map(str, range(run.contexts)))).drift()
    return found


def scores_of(answers: SoftAnswers, verdicts: bool) -> list[Score]:
    """The paper's scores of texts, with their verdicts."""
    values, n = paper(answers), answers.n_rungs
    told: list[list[Verdict]] = [[] for _ in values]
    about = answers.first >= n
    rows = zip(
        answers.first[about] - n, answers.second[about], answers.sign[about] < 0, answers.probs[about], strict=True
    )
    for target, rung, swapped, probs in rows if verdicts else ():
        told[target].append(Verdict(int(rung) + 1, bool(swapped), *probs.tolist()))
    of = answers.target_ladder.tolist()
    return [
        Score(str(k), str(c), "attribute", v, verdicts=tuple(t))
        for k, (c, v, t) in enumerate(zip(of, values, told, strict=True))
    ]


def on_certificates(verdicts: bool, seed: int, changed: list[str]) -> dict[str, Drift]:
    """By change; 200 labelled texts, and a run of 200, of a context each."""
    rng = np.random.default_rng(seed)
    answers, good = simulate(rng, Run(200, 1))
    scores = scores_of(answers, verdicts)
    values = np.array([score.value for score in scores], dtype=np.float64)
    labelled = Labelled(values, good, SIGNATURE, 200, scores=tuple(scores))
    certificate = calibrate(labelled, [Guarantee("recall", 0.8)])
    found = {}
    for change in changed:
        watch = certificate.watch
        watch.add(
            (score, SIGNATURE) for score in scores_of(simulate(rng, Run(200, 1), **CHANGES[change][0])[0], verdicts)
        )
        found[change] = watch.drift()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=200)
    n = parser.parse_args().repetitions
    lines: list[str] = []
    rows: list[dict[str, Any]] = []

    def show(line: str) -> None:
        lines.append(line)
        print(line, flush=True)

    def row(name: str, change: str, found: list[Drift]) -> None:
        tells = {"texts", "score"} if CHANGES[change][1] == "texts" else {CHANGES[change][1]}
        shares = {
            "judge": [drift.verdict == "judge" for drift in found],
            "any": [drift.verdict in ("judge", "texts") for drift in found],
            "told": [bool(tells & {each.name for each in drift.changed}) for drift in found],
        }
        means = {key: float(np.mean(values)) for key, values in shares.items()}
        error = float(np.sqrt(means["any"] * (1 - means["any"]) / len(found)))
        show(f"{name:45} {change:18} {means['judge']:6.3f} {means['any']:6.3f} +- {error:.3f} {means['told']:6.3f}")
        rows.append({"run": name, "change": change, **means, "error": error, "repetitions": len(found)})

    show(f"{n} repetitions (standard error of the alarms by chance, .05: {np.sqrt(0.05 * 0.95 / n):.3f})")
    show(f"{'run':45} {'change':18} {'judge':>6} {'any':>6}          {'told':>6}")
    for run in RUNS:
        drifts = [on_scales(run, seed, changes(seed, run.judge)) for seed in range(n)]
        name = f"{run.contexts} x {run.texts}, N = {run.n_rungs}, {run.orders} orders"
        name += ", adaptive" * run.adaptive + f", {run.judge}" * bool(run.judge)
        for change in drifts[0]:
            row(f"scale, {name}", change, [each[change] for each in drifts if change in each])
    for verdicts in (True, False):
        drifts = [on_certificates(verdicts, seed, changes(seed)) for seed in range(n)]
        for change in drifts[0]:
            found = [each[change] for each in drifts if change in each]
            row(f"certificate, {'with' if verdicts else 'without'} verdicts", change, found)
    write("drift", lines, json.dumps({"repetitions": n, "rows": rows}))


if __name__ == "__main__":
    main()
