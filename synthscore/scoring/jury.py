"""Anchored scores of the same rows by several judges -> one score each, and what each judge is worth. No labels.

Each judge has its own model and scale (scoring/anchored/); its scores, their errors and the spread of its texts are the
likelihood of where it sees a text, and scoring/opinions.py weighs these. Rungs are shared: for each judge the median
ladder stands at 1..N, so that the jury's scores are on the rung scale, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import add

import numpy as np

from ..errors import InputError
from ..signature import Signature
from ..types import Score
from .anchored.mode import Anchored
from .anchored.scale import Scale
from .opinions import Bench, Juror, Seen, believe, disagreement, jurors, refit
from .paper import Paper
from .rows import RowScores

_ROUNDS, _TOLERANCE = 500, 1e-5
_Z90 = 1.6448536269514722

Question = tuple[str, str, int]
"""Task, attribute, length of ladder."""


def require_anchored(scoring: Paper | Anchored) -> None:
    """raises : InputError for scores without errors of their own, or on a scale of one judge"""
    if isinstance(scoring, Paper) or scoring.scale is not None:
        raise InputError(
            "several judges score together by anchored scoring, whose errors say what each is worth, each on a scale "
            "that is fitted to these texts. Take --scoring anchored without --scale, or one judge",
            field="scoring",
        )


def require_alone(scoring: Paper | Anchored) -> None:
    """raises : InputError for scores that follow from all texts together, of which a shard has some"""
    if not isinstance(scoring, Paper) and scoring.scale is None:
        raise InputError(
            "anchored scores without a scale are fitted to all texts, and a shard has not all. Fit a scale to some of "
            "them first (--save-scale), and give it to each shard (--scale)",
            field="shard",
        )


def score_together(scored: Mapping[str, RowScores]) -> tuple[RowScores, dict[Question, tuple[Juror, ...]]]:
    """One score for each row and attribute; and what each judge is worth, for each question.

    scored : name of a judge -> its anchored scores of the same items
    A text that some judges have not scored is scored by the others. Details of a score hold `disagreement`: the chance
    that such judges disagree so much about the text (NaN-free: missing where one judge alone has scored it).
    raises : InputError for fewer than two judges, or scores without a scale
    """
    if len(scored) < 2:
        raise InputError(f"there is one judge, {', '.join(scored)}, expected two or more for a jury", field="judge")
    names, judges = list(scored), list(scored.values())
    found = [list(row) for row in judges[0].rows]
    places: dict[Question, list[tuple[int, int]]] = {}
    for index, row in enumerate(found):
        for place in range(len(row)):
            each = [judge.rows[index][place] for judge in judges]
            known = [(score, signature) for score, signature in each if score.stderr is not None]
            signature = Signature.merged(signature for _, signature in each)
            if not known:
                reason = "; ".join(f"{name}: {score.reason}" for name, (score, _) in zip(names, each, strict=True))
                row[place] = replace(row[place][0], reason=reason), signature
                continue
            score, of = known[0]
            question = dict(of.parts)["task"], score.attribute, int(score.details["n_rungs"])
            places.setdefault(question, []).append((index, place))
            row[place] = score, signature
    worth = {}
    for question, where in places.items():
        scales = [
            next((s for s in judge.scales if (s.task, s.attribute, s.n_rungs) == question and not s.useless), None)
            for judge in judges
        ]
        texts = [[judge.rows[index][place][0] for index, place in where] for judge in judges]
        together, worth[question] = _weighed(names, texts, scales)
        for (index, place), score in zip(where, together, strict=True):
            found[index][place] = score, found[index][place][1]
    counts = replace(
        reduce(add, (judge.counts for judge in judges)),
        statuses=Counter(score.status for row in found for score, _ in row),
        n_targets=judges[0].counts.n_targets,
    )
    return RowScores(found, counts, [scale for judge in judges for scale in judge.scales]), worth


def _weighed(
    names: Sequence[str], texts: Sequence[Sequence[Score]], scales: Sequence[Scale | None]
) -> tuple[list[Score], tuple[Juror, ...]]:
    m, n = len(names), len(texts[0])
    mean = np.array([0.0 if scale is None else scale.judge.target_mean for scale in scales])
    sd = np.array([1.0 if scale is None else scale.judge.text_sd for scale in scales])
    values, precision, common = np.zeros((3, m, n))
    for k, (scale, row) in enumerate(zip(scales, texts, strict=True)):
        for i, score in enumerate(row):
            if scale is not None and score.value is not None and score.stderr is not None:
                # Where the ladder stands as a whole is as unknown to all judges alike: it sets none of them apart.
                shift = min(float(scale.ladders[score.context_id].cov.mean()), 0.9 * score.stderr**2)
                values[k, i], precision[k, i], common[k, i] = score.value, 1 / (score.stderr**2 - shift), shift
    # What the answers say, without what was expected before them.
    pull = precision * (values - mean[:, None])
    information = np.maximum(precision - sd[:, None] ** -2, 0.0)
    seen = Seen(information[..., None, None], np.where(information > 0, pull, 0.0)[..., None])
    bench = Bench(sd * np.sqrt(0.5), sd**2 / 2)
    for _ in range(_ROUNDS):
        before, bench = bench, refit(bench, believe(seen, bench).moments, n)
        if max(np.abs(after - earlier).max() for after, earlier in zip(bench, before, strict=True)) < _TOLERANCE:
            break
    belief = believe(seen, bench)
    if not belief.worth.sum():
        reason = f"the judges {', '.join(names)} do not agree on which texts are better: nothing says whom to believe"
        return [
            replace(_best(row), value=None, stderr=None, low=None, high=None, status="unscored", reason=reason)
            for row in zip(*texts, strict=True)
        ], ()
    bias = np.array([np.nan if scale is None else scale.judge.position_bias for scale in scales])
    worth = jurors(names, bench, [seen], [belief], bias, np.full(m, np.nan), n)
    share = np.array([each.share for each in worth])
    unit, origin = float(share @ bench.slope), float(share @ mean)
    value = origin + unit * belief.mean[:, 0]
    error = np.sqrt(unit**2 * belief.cov[:, 0, 0] + common.max(axis=0))
    chance = disagreement(seen, bench)[:, 0]
    rows = zip(zip(*texts, strict=True), value.tolist(), error.tolist(), chance.tolist(), strict=True)
    return [_score(names, *row) for row in rows], worth


def _best(row: Sequence[Score]) -> Score:
    return next(score for score in row if score.stderr is not None)


def _score(names: Sequence[str], row: Sequence[Score], value: float, error: float, chance: float) -> Score:
    some = _best(row)
    masses = [score.details["label_mass"] for score in row if score.stderr is not None]
    notes = [f"{name}: {score.reason}" for name, score in zip(names, row, strict=True) if score.reason]
    return replace(
        some,
        value=value,
        stderr=error,
        low=value - _Z90 * error,
        high=value + _Z90 * error,
        n_comparisons=sum(score.n_comparisons for score in row),
        reason="; ".join(notes),
        details={
            "n_rungs": some.details["n_rungs"],
            "extrapolated": float(not 1 <= value <= some.details["n_rungs"]),
            "label_mass": min(masses),
            **({} if np.isnan(chance) else {"disagreement": chance}),
        },
        verdicts=(),
    )
