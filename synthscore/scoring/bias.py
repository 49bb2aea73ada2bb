"""Verdicts -> what a judge favours besides quality: a position, a length. Pure NumPy.

Every effect is a mean over contexts' texts with a standard error that takes contexts as what was sampled. None of them
is taken out of any score here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..ladders.references import References
from ..types import FloatArray, IntArray, Ladder, Score


@dataclass(frozen=True, slots=True)
class Effect:
    """stderr : over contexts; None for fewer than 3 of them. n : verdicts or texts that it is of."""

    value: float
    stderr: float | None
    n: int


@dataclass(frozen=True, slots=True)
class JudgeBias:
    """What was found on one attribute; None where the answers cannot tell it.

    position : (better - worse) of the text asked about, beyond what it gets asked the other way round, halved; in
        -1..1, positive where the judge favours the text asked about. None without both orders
    position_by_rung, position_trend : the same by rung, 1..N, and its rise for each rung
    similar_by_rung : share of "similar" by rung; empty for protocols without that label
    length : of two rungs of the same level, how far the judge puts one that is twice as long above the other, in rungs.
        Both were made to be equally good: what is left is the length, or what goes with it
    """

    position: Effect | None
    position_by_rung: tuple[Effect | None, ...]
    position_trend: Effect | None
    similar_by_rung: tuple[float | None, ...]
    length: Effect | None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


def judge_bias(scores: Sequence[Score], references: References, *, task: str) -> JudgeBias:
    """scores : of one attribute of this task; those without verdicts are left out. Lengths are counted in words."""
    scored = [score for score in scores if score.verdicts and score.value is not None]
    names = {name: index for index, name in enumerate(dict.fromkeys(score.context_id for score in scored))}
    flat = [(i, v) for i, score in enumerate(scored) for v in score.verdicts]
    of = np.array([i for i, _ in flat], dtype=np.int64)
    level = np.array([v.level for _, v in flat], dtype=np.int64)
    swapped = np.array([v.swapped for _, v in flat], dtype=bool)
    margin = np.array([v.better - v.worse for _, v in flat], dtype=np.float64)
    similar = np.array([v.similar for _, v in flat], dtype=np.float64)
    context = np.array([names[score.context_id] for score in scored], dtype=np.int64)
    n = int(level.max(initial=0))

    pairs: dict[tuple[int, int], dict[bool, int]] = {}  # (text, rung) -> its verdicts, in both orders
    for row, key in enumerate(zip(of.tolist(), level.tolist(), strict=True)):
        pairs.setdefault(key, {})[bool(swapped[row])] = row
    both = np.array([(p[False], p[True]) for p in pairs.values() if len(p) == 2], dtype=np.int64).reshape(-1, 2)
    favour = (margin[both[:, 0]] - margin[both[:, 1]]) / 2
    at, there = level[both[:, 0]], context[of[both[:, 0]]]
    ladders = [references.find(name, scored[0].attribute, task) for name in names]
    return JudgeBias(
        position=_mean(favour, there),
        position_by_rung=tuple(_mean(favour[at == k], there[at == k]) for k in range(1, n + 1)),
        position_trend=_slope(favour - favour.mean(), at - at.mean(), there) if len(at) else None,
        similar_by_rung=_shares(similar, level, n),
        length=_length_at_equal_rung(margin, level, context[of], ladders) if ladders else None,
    )


def _shares(similar: FloatArray, level: IntArray, n: int) -> tuple[float | None, ...]:
    if not similar.any():
        return ()
    by_rung = (similar[level == k] for k in range(1, n + 1))
    return tuple(float(each.mean()) if len(each) else None for each in by_rung)


def _length_at_equal_rung(
    margin: FloatArray, level: IntArray, context: IntArray, ladders: Sequence[Ladder]
) -> Effect | None:
    """Rungs by how often texts lose to them, against their lengths, without what a ladder or a level has in common.

    context : of each verdict, index in ladders
    """
    n = int(level.max())
    size = len(ladders) * n
    at = context * n + level - 1
    count = np.bincount(at, minlength=size)
    rows = np.flatnonzero(count)
    strength = -np.bincount(at, margin, size)[rows] / count[rows]
    ladder, rung = rows // n, rows % n
    texts = {index * n + each.level - 1: each.text for index, one in enumerate(ladders) for each in one.usable}
    words = np.log2([len(texts[row].split()) for row in rows.tolist()])
    rise = _slope(_inside(strength, ladder), _inside(rung.astype(np.float64), ladder), ladder)
    fitted = len(np.unique(ladder)) + len(np.unique(rung)) - 1
    effect = _slope(_inside(strength, ladder, rung), _inside(words, ladder, rung), ladder, fitted)
    if rise is None or effect is None or rise.value <= 0:  # the rungs do not rise: there is no unit
        return None
    stderr = None if effect.stderr is None else effect.stderr / rise.value
    return Effect(effect.value / rise.value, stderr, len(rows))


def _inside(values: FloatArray, *groups: IntArray) -> FloatArray:
    """Without the means of the groups, of each kind of groups."""
    left = values.astype(np.float64)
    for _ in range(1 if len(groups) == 1 else 50):  # two kinds that overlap: in turn, until nothing is left of either
        for group in groups:
            left = left - (np.bincount(group, left) / np.maximum(np.bincount(group), 1))[group]
    return left


def _mean(values: FloatArray, context: IntArray) -> Effect | None:
    return _slope(values, np.ones(len(values)), context)


def _slope(y: FloatArray, x: FloatArray, context: IntArray, n_fitted: int = 0) -> Effect | None:
    """Least squares through 0; the error is that of independent contexts (Liang and Zeger, 1986).

    n_fitted : means that were taken out of y before, for which the error is made larger
    """
    squares = float(x @ x)
    if squares < 1e-12:
        return None
    slope = float(x @ y) / squares
    scores = np.bincount(context, x * (y - slope * x))
    n = len(np.unique(context))
    free = len(y) - n_fitted - 1
    if n < 3 or free < 1:
        return Effect(slope, None, len(y))
    error = np.sqrt((scores @ scores) * n / (n - 1) * (len(y) - 1) / free) / squares
    return Effect(slope, float(error), len(y))
