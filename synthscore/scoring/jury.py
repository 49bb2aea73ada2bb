"""Anchored scores of the same rows by several judges -> one score each, the mean. No labels.

Each judge has its own model and scale (scoring/anchored/). For each of them the median ladder stands at 1..N, so that
all scores are on the rung scale already, and their mean is. A judge that does not see the ladders rise has no vote.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import reduce
from math import log
from operator import add

import numpy as np

from ..engine import Progress
from ..errors import InputError
from ..io.files import ItemBatch
from ..signature import Signature
from ..types import FloatArray, Score
from .method import Method
from .scorer import Check, LadderKind, Planned, Scored, ScoredBatch, Scorer, Slot
from .votes import Jury, TextPair, Vote, find_alike, mean_of_members, mean_of_votes, share_votes

_Z90 = 1.6448536269514722
_LEAST = 1e-9  # a probability of 0 counts as this, so that it has log-odds


def require_fitted_errors(method: Method) -> None:
    """raises : InputError for scores without errors of their own, or on a scale of one judge"""
    if method.alone or not method.gives_errors:
        raise InputError(
            "several judges score together by anchored scoring, where each has a scale and errors that are fitted to "
            "these texts. Take --scoring anchored without --scale, or one judge",
            field="scoring",
        )


def score_by_jury(
    batches: Iterable[ItemBatch],
    scorers: Mapping[str, AbstractContextManager[Scorer]],
    check: Check | None = None,
    planned: Planned | None = None,
    progress: Progress | None = None,
) -> ScoredBatch:
    """The scores of all rows by several judges together. Judges are opened and closed one after another.

    scorers : by the name of the judge. check, planned : as of Scorer.score_batches
    raises : InputError as `require_fitted_errors`; as Scorer.score
    """
    held = list(batches)
    items = [item for batch in held for item in batch.items]
    by_judge: dict[str, Scored] = {}
    for name, opened in scorers.items():
        with opened as scorer:
            require_fitted_errors(scorer.method)
            plan = scorer.plan(items)
            if planned is not None:
                planned(plan.n_questions, len(items), more=False)
            by_judge[name] = plan.score(progress)
    together = score_together(by_judge)
    if check is not None:
        for signature in together.used:
            check(signature)
    return ScoredBatch(held, together)


def score_together(scored: Mapping[str, Scored]) -> Scored:
    """One score for each row and attribute.

    scored : name of a judge -> its anchored scores of the same items
    A text that some judges have not scored is scored by the others.
    raises : InputError for fewer than two judges
    """
    if len(scored) < 2:
        raise InputError(f"there is one judge, {', '.join(scored)}, expected two or more for a jury", field="judge")
    judges = list(scored.values())
    rows = [list(row) for row in judges[0].rows]
    slots: dict[LadderKind, list[Slot]] = {}  # of the scores that some judge gives
    for index, row in enumerate(rows):
        for place, (score, _) in enumerate(row):
            kind = None
            reasons = []
            signatures = []
            for name, judge in scored.items():
                its_score, its_signature = judge.rows[index][place]
                reasons.append(f"{name}: {its_score.reason}")
                signatures.append(its_signature)
                if kind is None and its_score.stderr is not None:
                    kind = _kind(its_score, its_signature)
            # What no judge has scored stays so; all others get their score below.
            row[place] = replace(score, reason="; ".join(reasons)), Signature.merged(signatures)
            if kind is not None:
                slots.setdefault(kind, []).append((index, place))
    juries: dict[LadderKind, Jury] = {}
    for kind, its_slots in slots.items():
        texts: dict[str, list[Score]] = {}
        for name, judge in scored.items():
            texts[name] = [judge.rows[index][place][0] for index, place in its_slots]
        why_useless = {name: _why_useless(judge, kind) for name, judge in scored.items()}
        useless = {name: reason for name, reason in why_useless.items() if reason}
        together, juries[kind] = _mean_scores(texts, useless)
        for (index, place), score in zip(its_slots, together, strict=True):
            rows[index][place] = score, rows[index][place][1]
    counts = replace(
        reduce(add, (judge.counts for judge in judges)),
        statuses=Counter(score.status for row in rows for score, _ in row),
        n_rows=judges[0].counts.n_rows,
        n_targets=judges[0].counts.n_targets,
    )
    scales = [scale for judge in judges for scale in judge.scales]
    return Scored(rows, counts, scales, juries)


def _kind(score: Score, signature: Signature) -> LadderKind:
    return dict(signature.parts)["task"], score.attribute, int(score.details["n_rungs"])


def _why_useless(judge: Scored, kind: LadderKind) -> str:
    """Why the judge places nothing on ladders of this kind; "" where it does."""
    for scale in judge.scales:
        if (scale.task, scale.attribute, scale.n_rungs) == kind:
            return str(scale.useless)
    return ""


def _mean_scores(texts: Mapping[str, Sequence[Score]], useless: Mapping[str, str]) -> tuple[list[Score], Jury]:
    """texts : name of a judge -> its scores of the same texts. useless : of some judges, why they place nothing"""
    alike = find_alike({name: _log_odds(scores) for name, scores in texts.items()})
    voting = {name: scores for name, scores in texts.items() if name not in useless}
    votes = share_votes(voting, alike)
    values = {name: _numbers(score.value for score in scores) for name, scores in voting.items()}
    variances = {name: _numbers(score.stderr for score in scores) ** 2 for name, scores in voting.items()}
    values_of_votes = np.stack([_vote(values, vote) for vote in votes])
    variances_of_votes = np.stack([_vote(variances, vote) for vote in votes])
    mean, stderr = mean_of_votes(values_of_votes, variances_of_votes)
    together = []
    for index, (value, error) in enumerate(zip(mean.tolist(), stderr.tolist(), strict=True)):
        by_judge = {name: scores[index] for name, scores in voting.items()}
        together.append(_mean_score(by_judge, value, error))
    return together, Jury(votes, useless, alike)


def _numbers(values: Iterable[float | None]) -> FloatArray:
    return np.array([np.nan if value is None else value for value in values])


def _vote(columns: Mapping[str, FloatArray], vote: Vote) -> FloatArray:
    return mean_of_members(np.stack([columns[name] for name in vote]))


def _log_odds(scores: Sequence[Score]) -> dict[TextPair, float]:
    """Of a judge's verdicts on texts and rungs, the mean of both orders."""
    by_pair: dict[TextPair, list[float]] = {}
    for index, score in enumerate(scores):
        for verdict in score.verdicts:
            rung = (score.context_id, verdict.level)
            odds = log(max(verdict.better, _LEAST)) - log(max(verdict.worse, _LEAST))
            by_pair.setdefault((index, rung), []).append(odds)
    return {pair: sum(odds) / len(odds) for pair, odds in by_pair.items()}


def _mean_score(by_judge: Mapping[str, Score], value: float, error: float) -> Score:
    """The score of a text. by_judge : its scores by those who vote. value, error : of their mean"""
    known = [score for score in by_judge.values() if score.stderr is not None]
    scale = {name: known[0].details[name] for name in ("n_rungs", "scale") if name in known[0].details}
    notes = [f"{name}: {score.reason}" for name, score in by_judge.items() if score.reason]
    details = {
        **scale,
        "extrapolated": float(not 1 <= value <= scale.get("scale", scale["n_rungs"])),
        "label_mass": min(score.details["label_mass"] for score in known),
    }
    return replace(
        known[0],
        value=value,
        stderr=error,
        low=value - _Z90 * error,
        high=value + _Z90 * error,
        n_comparisons=sum(score.n_comparisons for score in known),
        reason="; ".join(notes),
        details=details,
        verdicts=(),
    )
