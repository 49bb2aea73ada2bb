"""Verdicts on targets, and on rungs against each other -> anchored scores, and the scales that they are on.

Ladders of different lengths have scales of their own. Asks nobody: the verdicts are there.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ...errors import SynthscoreWarning
from ...signature import Signature
from ...types import FloatArray, IntArray, Ladder
from .drift import Watch
from .fit import fit
from .model import Posterior, SoftAnswers
from .positions import positions
from .scale import Anchors, Scale, three_way

LEVEL = 0.9
"""Probability of the interval from low to high."""

UNSETTLED = "its position still moved when the steps ran out, so that its error may be larger than it says"


def gather_answers(
    n_rungs: int,
    n_ladders: int,
    ladder_of: IntArray,
    compared: IntArray,
    by_order: FloatArray,
    protocol: str,
    n_samples: FloatArray | None = None,
) -> SoftAnswers:
    """The answers that were given about pairs of texts, on ladders of one length; failed ones are left out.

    ladder_of : of each target, its ladder, shape (n_targets,)
    compared : shape (n_pairs, 3); ladder, text asked about, rung it was compared with, numbered as in SoftAnswers
    by_order : shape (n_orders, n_pairs, 3), as in Verdicts; NaN where there is no answer
    protocol : how they were asked
    n_samples : shape (n_orders, n_pairs), as in Verdicts; None: exact probabilities
    """
    n_orders, n_pairs = by_order.shape[:2]
    probs = by_order.reshape(-1, 3)
    known = ~np.isnan(probs).any(axis=1)
    ladder, first, second = np.tile(compared, (n_orders, 1))[known].T
    sign = np.repeat([1.0, -1.0][:n_orders], n_pairs)[known]
    if n_samples is not None:
        n_samples = n_samples.ravel()[known]
    return SoftAnswers(
        n_ladders=n_ladders,
        n_rungs=n_rungs,
        target_ladder=ladder_of,
        ladder=ladder,
        first=first,
        second=second,
        sign=sign,
        probs=three_way(probs[known], protocol),
        n_samples=n_samples,
    )


def fit_scale(
    answers: SoftAnswers, ladders: Mapping[str, Ladder], task: str, attribute: str, signature: Signature
) -> tuple[Scale, Posterior]:
    """The scale that these answers make, and where their targets stand on it. ladders : by context id, in order"""
    judge, posterior = fit(answers)
    anchors = _anchors(posterior, ladders)
    scale = Scale(
        judge=judge,
        ladders=anchors,
        task=task,
        attribute=attribute,
        signature=signature.with_(task=task, attribute=attribute),
    )
    watch = Watch.scale(scale).observe(answers, list(ladders))
    return replace(scale, statistics=watch.now()), posterior


def add_ladders(answers: SoftAnswers, ladders: Mapping[str, Ladder], scale: Scale) -> Scale:
    """The scale with the ladders that it lacks, which are placed by the verdicts on their rungs."""
    contexts = list(ladders)
    lacking = [index for index, name in enumerate(contexts) if name not in scale.ladders]
    if not lacking:
        return scale
    none = np.zeros(0, dtype=np.int64)
    rungs = replace(answers.take(answers.first < answers.n_rungs), target_ladder=none)
    posterior = positions(rungs, scale.judge)
    unsettled = [contexts[index] for index in lacking if not posterior.settled[index]]
    if unsettled:
        warnings.warn(
            f"scale {scale.task}/{scale.attribute}: of {len(lacking)} ladders that it lacked, {len(unsettled)} (the "
            f"first: context {unsettled[0]!r}) still moved when the steps ran out, expected all to come to rest. Look "
            "at what the judge says of their rungs (references check), or fit the scale anew",
            SynthscoreWarning,
            stacklevel=2,
        )
    return replace(scale, ladders={**_anchors(posterior, ladders), **scale.ladders})


def _anchors(posterior: Posterior, ladders: Mapping[str, Ladder]) -> dict[str, Anchors]:
    anchors = {}
    for index, (name, ladder) in enumerate(ladders.items()):
        anchors[name] = Anchors(
            mean=posterior.rungs[index],
            cov=posterior.rung_cov[index],
            ladder=ladder.hash,
            sharpness=float(posterior.sharpness[index]),
            sharpness_sd=float(posterior.sharpness_sd[index]),
        )
    return anchors


def place_targets(answers: SoftAnswers, ladders: Mapping[str, Ladder], scale: Scale) -> tuple[Scale, Posterior]:
    """The scale with the ladders that it lacks; and where targets stand on it, each by its own answers alone."""
    scale = add_ladders(answers, ladders, scale)
    about = answers.take(answers.first >= answers.n_rungs)
    names = list(ladders)
    posterior = scale.place(
        contexts=[names[index] for index in answers.target_ladder.tolist()],
        target=about.first - answers.n_rungs,
        level=about.second + 1,
        swapped=about.sign < 0,
        verdicts=about.probs,
        n_samples=about.n_samples,
    )
    return scale, posterior
