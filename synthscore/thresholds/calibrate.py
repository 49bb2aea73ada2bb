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
from ..scoring.anchored.drift import count_rungs, read_answers
from ..scoring.anchored.fit import fit
from ..scoring.anchored.model import JudgeModel
from ..types import FloatArray, IntArray
from .certificate import Certificate, Certified, Guarantee, Kind, thresholds_of
from .labels import Labelled

STEP = 0.01  # Thresholds are multiples of this, since they must not depend on the scores that they are tested on.
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
    if not guarantees or len({guarantee.kind for guarantee in guarantees}) < len(guarantees):
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
    certified = tuple(one for one, _ in tested)
    keep_from, drop_below = thresholds_of(certified)
    for one, strictest in tested:
        if one.guarantee.kind == "precision" and keep_from > strictest:
            raise CertificateError(
                f"cannot certify all of {', '.join(map(str, guarantees))}: together they keep from {keep_from:g}, "
                f"where too few labelled texts are kept to test {one.guarantee}, expected {strictest:g} or "
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
        drawn=labelled.drawn,
    )
    watch = made.watch
    watch.add((score, labelled.signature) for score in labelled.scores)
    statistics = watch.now()
    statistics.pop("texts", None)  # The statistic "score" says the same.
    return replace(made, statistics=statistics)


def _judge(labelled: Labelled) -> JudgeModel | None:
    """The judge of the labelled texts, by their verdicts; None where there are none, or it does not see rungs rise."""
    judged = [score for score in labelled.scores if score.verdicts]
    if not judged:
        return None
    n = max(map(count_rungs, judged))
    on_longest = [score for score in judged if count_rungs(score) == n]
    answers, _ = read_answers(on_longest, n, labelled.signature.part("protocol"))
    judge, _ = fit(answers)
    if not judge.rungs_rise:
        return None
    return judge


def _certify(
    labelled: Labelled, guarantee: Guarantee, level: float, step: float, start: float | None
) -> tuple[Certified, float]:
    """What is certified, and the first threshold tested: the guarantee holds at all thresholds between these two."""
    kind = guarantee.kind
    least = _least(guarantee)
    delta = 1 - level
    value = labelled.value[labelled.scored]
    n_good = int(labelled.good.sum())
    n_labelled = {"precision": len(value), "recall": n_good, "fpr": len(labelled.good) - n_good}[kind]
    enough = needed(guarantee, level)
    if n_labelled < enough or not len(value):
        noun = {"precision": "scored", "recall": "good", "fpr": "bad"}[kind]
        raise CertificateError(
            f"cannot certify {guarantee}: {n_labelled} labelled texts are {noun}, expected at least {enough}, which is "
            f"how many it needs at confidence {level:g} where none of them is wrong. Label more texts, or promise less",
            needed=enough,
            seen=n_labelled,
        )
    # Tested are, strictest first, a threshold that keeps no text, and for each score the highest multiple of step that
    # keeps it. A multiple between two of these keeps the same texts as the higher one, and need not be tested.
    multiples = np.unique(np.floor(value / step))
    thresholds = np.round(np.append(multiples, multiples[-1] + 1)[::-1] * step, 12).astype(np.float64)
    if kind == "recall":
        thresholds = thresholds[::-1]  # For recall the lowest threshold is the safest, and tested first.
    elif kind == "precision" and start is not None:
        thresholds = np.concatenate([[start], thresholds[thresholds < start]])
    n, n_faultless = _tally(labelled, kind, thresholds)
    if kind == "precision" and start is None:
        first = int(np.argmax(n >= max(enough, math.ceil(len(value) / _FIRST))))
        thresholds = thresholds[first:]
        n = n[first:]
        n_faultless = n_faultless[first:]
    fails = by_chance(n_faultless, n, least) > delta * (1 + 1e-9)  # In floats, 1 - 0.9 is not quite 0.1.
    last = int(np.append(fails, True).argmax()) - 1  # before the first that fails
    if last < 0:
        raise CertificateError(_refusal(guarantee, level, thresholds, n, n_faultless), needed=enough, seen=int(n[0]))
    n_hit = n_faultless[last]
    if kind == "fpr":
        n_hit = n[last] - n_hit
    certified = Certified(
        guarantee=guarantee,
        threshold=float(thresholds[last]),
        n=int(n[last]),
        n_hit=int(n_hit),
        level=level,
    )
    return certified, float(thresholds[0])


def _least(guarantee: Guarantee) -> float:
    """The least share without fault: good ones of the kept, kept ones of the good, or not kept ones of the bad."""
    if guarantee.kind == "fpr":
        return 1 - guarantee.bound
    return guarantee.bound


def _tally(labelled: Labelled, kind: Kind, thresholds: FloatArray) -> tuple[IntArray, IntArray]:
    """At each threshold: of how many texts the share is taken, and how many of these are without fault."""
    good = labelled.good
    bad = ~labelled.good
    n_good_kept = _count_kept(labelled.value[good & labelled.scored], thresholds)
    n_bad_kept = _count_kept(labelled.value[bad & labelled.scored], thresholds)
    if kind == "precision":
        return n_good_kept + n_bad_kept, n_good_kept
    if kind == "recall":
        return np.full(len(thresholds), good.sum()), n_good_kept
    return np.full(len(thresholds), bad.sum()), int(bad.sum()) - n_bad_kept


def _count_kept(values: FloatArray, thresholds: FloatArray) -> IntArray:
    """How many of the values reach each threshold."""
    return np.asarray(len(values) - np.searchsorted(np.sort(values), thresholds, side="left"))


def _refusal(guarantee: Guarantee, level: float, thresholds: FloatArray, n: IntArray, n_faultless: IntArray) -> str:
    names = {"precision": "kept texts are good", "recall": "good texts are kept", "fpr": "bad texts are not kept"}
    least = _least(guarantee)
    counts = np.arange(n[0] + 1)
    enough = by_chance(counts, np.full(n[0] + 1, n[0]), least) <= 1 - level
    wanted = np.flatnonzero(enough)
    expected = f"at least {needed(guarantee, level)}, all without fault"
    if len(wanted):
        expected = f"at least {wanted[0]}"
    return (
        f"cannot certify {guarantee} at confidence {level:g}: at a threshold of {thresholds[0]:g}, where testing "
        f"begins, {n_faultless[0]} of {n[0]} {names[guarantee.kind]}, expected {expected}. Label more texts, promise "
        "less, or use a judge that tells them apart better"
    )


# ------------------------------------------------------------------------------------------------- exact binomials


def by_chance(hits: IntArray, n: IntArray, share: float) -> FloatArray:
    """P(at least `hits` of n) where the true share is no more than `share`: the p-value of "it is more", shape (n,)."""
    from scipy.special import bdtrc

    return np.asarray(bdtrc(hits - 1, n, share))
