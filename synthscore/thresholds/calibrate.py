"""Labelled scores -> a certificate: thresholds at which a promise holds with a stated confidence. No model, no files
but the rows that it is given.

Learn then Test (Angelopoulos et al. 2021, arXiv:2110.01052): each threshold is a hypothesis "the promise does not hold
here", with an exact binomial p-value; they are tested in an order that is fixed beforehand, up to the first that cannot
be rejected. All that are rejected hold together with the confidence asked for, however many there are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..errors import CertificateError, InputError
from ..scoring.anchored.drift import answers_of, n_rungs
from ..scoring.anchored.fit import fit
from ..scoring.anchored.model import JudgeModel
from ..types import FloatArray, IntArray
from .certificate import Certificate, Certified, Guarantee, Kind, thresholds_of
from .labels import Labelled

STEP = 0.01  # thresholds are multiples of this: they must not depend on the scores that they are tested on
_FIRST = 20  # the strictest threshold tested for precision keeps 1 / _FIRST of the scores, or what its test needs


def needed(guarantee: Guarantee, confidence: float) -> int:
    """How many texts (kept, good or bad ones, as the guarantee is about) its test needs, if it finds no fault in any.

    The least n with (1 - tolerated share of faults)^n <= 1 - confidence.
    """
    n = math.ceil(math.log(1 - confidence) / math.log(_least(guarantee)) - 1e-9)
    return max(n, 1)


def calibrate(
    labelled: Labelled,
    guarantees: Sequence[Guarantee],
    confidence: float = 0.9,
    *,
    step: float = STEP,
    start: float | None = None,
) -> Certificate:
    """Thresholds at which all guarantees hold, with probability `confidence` over draws of the labelled texts.

    Of precision and fpr the lowest threshold that can be certified is taken, of recall the highest; what lies between
    them is unsure. Several guarantees share 1 - confidence equally.

    start : threshold at which testing for precision begins, chosen without looking at these scores. None: the first
        that keeps a twentieth of the scores, and as many as the test needs. The guarantee is then exact if texts that
        score higher are not less often good; see docs/thresholds.md
    raises : CertificateError, with `needed` and `seen` where there are too few labels; InputError
    """
    if not 0 < confidence < 1 or not 0 < step < math.inf:
        raise InputError(
            f"confidence is {confidence} and step is {step}, expected confidence in (0, 1), such as 0.9, and step > 0",
            field="confidence",
            value=confidence,
        )
    if not guarantees or len({each.kind for each in guarantees}) < len(guarantees):
        raise InputError(
            f"guarantees are {', '.join(map(str, guarantees)) or 'none'}, expected one or more, each of another kind",
            field="guarantee",
            value=tuple(map(str, guarantees)),
        )
    n_good = int(labelled.good.sum())
    if n_good in (0, len(labelled)):
        raise CertificateError(
            f"cannot calibrate: of {len(labelled)} labelled texts {n_good} are good, expected some good and some bad. "
            "Label more texts, or draw the line between good and bad elsewhere (--good-from)",
            seen=n_good,
        )
    level = 1 - (1 - confidence) / len(guarantees)
    tested = [_certify(labelled, guarantee, level, step, start) for guarantee in guarantees]
    certified = tuple(each for each, _ in tested)
    keep_from, drop_below = thresholds_of(certified)
    for each, strictest in tested:
        if each.guarantee.kind == "precision" and keep_from > strictest:
            raise CertificateError(
                f"cannot certify all of {', '.join(map(str, guarantees))}: together they keep from {keep_from:g}, "
                f"where too few labelled texts are kept to test {each.guarantee}, expected {strictest:g} or "
                "less. Label more texts, or promise less"
            )
    made = Certificate(
        certified=certified,
        confidence=confidence,
        keep_from=keep_from,
        drop_below=drop_below,
        n_rows=len(labelled),
        n_good=n_good,
        n_unscored=int((~labelled.scored).sum()),
        signature=labelled.signature,
        judge=_judge(labelled),
    )
    watch = made.watch
    watch.add((score, labelled.signature) for score in labelled.scores)
    return replace(made, seen={name: seen for name, seen in watch.now().items() if name != "texts"})  # scores tell it


def _judge(labelled: Labelled) -> JudgeModel | None:
    """The judge of the labelled texts, by their verdicts; None where there are none, or it does not see rungs rise."""
    if not (told := [score for score in labelled.scores if score.verdicts]):
        return None
    n = max(map(n_rungs, told))
    protocol = labelled.signature.part("protocol")
    judge, _ = fit(answers_of([score for score in told if n_rungs(score) == n], n, protocol)[0])
    return judge if judge.rungs_rise else None


def _certify(
    labelled: Labelled, guarantee: Guarantee, level: float, step: float, start: float | None
) -> tuple[Certified, float]:
    """What is certified, and the first threshold that was tested: it holds at this and all between."""
    kind = guarantee.kind
    least = _least(guarantee)
    delta = 1 - level
    value = labelled.value[labelled.scored]
    seen = {"precision": len(value), "recall": int(labelled.good.sum()), "fpr": int((~labelled.good).sum())}[kind]
    enough = needed(guarantee, level)
    if seen < enough or not len(value):
        noun = {"precision": "scored", "recall": "good", "fpr": "bad"}[kind]
        raise CertificateError(
            f"cannot certify {guarantee}: {seen} labelled texts are {noun}, expected at least {enough}, which is how "
            f"many it needs at confidence {level:g} where none of them is wrong. Label more texts, or promise less",
            needed=enough,
            seen=seen,
        )
    # For each score the highest multiple of step that keeps it, and one that keeps none, strictest first: between two
    # of these no multiple keeps others than the higher of them does, so that testing these is testing all.
    multiples = np.unique(np.floor(value / step))
    thresholds = np.round(np.append(multiples, multiples[-1] + 1)[::-1] * step, 12).astype(np.float64)
    if kind == "recall":
        thresholds = thresholds[::-1]  # each lower threshold misses no more: from the safest on, as with the others
    elif kind == "precision" and start is not None:
        thresholds = np.concatenate([[start], thresholds[thresholds < start]])
    n, n_faultless = _tally(labelled, kind, thresholds)
    if kind == "precision" and start is None:
        first = int(np.argmax(n >= max(enough, math.ceil(len(value) / _FIRST))))
        thresholds = thresholds[first:]
        n = n[first:]
        n_faultless = n_faultless[first:]
    failed = np.flatnonzero(by_chance(n_faultless, n, least) > delta * (1 + 1e-9))  # 1 - 0.9 is not quite 0.1
    at = int(failed[0]) - 1 if len(failed) else len(n) - 1
    if at < 0:
        raise CertificateError(_refusal(guarantee, level, thresholds, n, n_faultless), needed=enough, seen=int(n[0]))
    n_hit = int(n[at] - n_faultless[at]) if kind == "fpr" else int(n_faultless[at])
    return Certified(guarantee, float(thresholds[at]), int(n[at]), n_hit, level), float(thresholds[0])


def _least(guarantee: Guarantee) -> float:
    """The least share without fault: good ones of the kept, kept ones of the good, or not kept ones of the bad."""
    return 1 - guarantee.bound if guarantee.kind == "fpr" else guarantee.bound


def _tally(labelled: Labelled, kind: Kind, thresholds: FloatArray) -> tuple[IntArray, IntArray]:
    """At each threshold: how many texts the share is of, and how many of these are without fault."""
    good, bad = labelled.good, ~labelled.good
    scored = (np.sort(labelled.value[which & labelled.scored]) for which in (good, bad))
    n_good, n_bad = (len(each) - np.searchsorted(each, thresholds, side="left") for each in scored)
    if kind == "precision":
        return n_good + n_bad, n_good
    if kind == "recall":
        return np.full(len(thresholds), good.sum()), n_good
    return np.full(len(thresholds), bad.sum()), int(bad.sum()) - n_bad


def _refusal(guarantee: Guarantee, level: float, thresholds: FloatArray, n: IntArray, n_faultless: IntArray) -> str:
    of = {"precision": "kept texts are good", "recall": "good texts are kept", "fpr": "bad texts are not kept"}
    least = _least(guarantee)
    wanted = np.flatnonzero(by_chance(np.arange(n[0] + 1), np.full(n[0] + 1, n[0]), least) <= 1 - level)
    expected = f"at least {wanted[0]}" if len(wanted) else f"at least {needed(guarantee, level)}, all without fault"
    return (
        f"cannot certify {guarantee} at confidence {level:g}: at a threshold of {thresholds[0]:g}, where testing "
        f"begins, {n_faultless[0]} of {n[0]} {of[guarantee.kind]}, expected {expected}. Label more texts, promise "
        "less, or use a judge that tells them apart better"
    )


# ------------------------------------------------------------------------------------------------- exact binomials


def by_chance(hits: IntArray, n: IntArray, share: float) -> FloatArray:
    """P(at least `hits` of n) where the true share is no more than `share`: the p-value of "it is more", shape (n,)."""
    from scipy.special import bdtrc

    return np.asarray(bdtrc(hits - 1, n, share))
