"""Comparisons by several judges -> one order, the mean of theirs. No labels.

    >>> sets = ComparisonSets.load("comparisons.jsonl")  # with a column `judge`
    >>> found = rank_jury(sets, "poe-bt")

Each judge's comparisons are ranked on their own. Its scores, centred inside each context, are divided by their standard
deviation over all contexts of an attribute: a judge that is surer of itself, or repeats its answers, is not worth more
for it, and a context whose texts are alike stays one. Then all have equal weights (scoring/votes.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from itertools import chain
from typing import Any

import numpy as np

from ..errors import InputError
from ..scoring.votes import Jury, TextPair, Vote, find_alike, mean_of_members, mean_of_votes, share_votes
from ..signature import Signature
from ..types import FloatArray, IntArray
from .comparisons import Comparisons
from .methods import default_method, rank
from .result import Ranking, Rankings
from .sets import JUDGE, ComparisonSets, Group

CONFIDENCE = 0.9
"""One-sided, that a judge's correlation with the mean of the others is above 0: else it has no vote."""


def rank_jury(sets: ComparisonSets, method: str | None = None, **options: Any) -> Rankings:
    """One order a group, of the comparisons of all its judges.

    sets : `by` holds "judge". method, options : as of `rank`, for each judge by itself
    Scores have mean zero and the unit of the method, that of the judges' mean. Where one judge has no ranking of a
    group, the others make it; where none has, the reasons are said. `Rankings.juries` says who votes.
    raises : InputError for comparisons by one judge; as `rank`
    """
    if len(sets.judges) < 2:
        seen = f"of one judge, {sets.judges[0]!r}" if sets.judges else "without a column judge"
        raise InputError(f"the comparisons are {seen}, expected two judges or more for a jury", field=JUDGE)
    method = method or default_method(sets)
    place = sets.by.index(JUDGE)
    by = sets.by[:place] + sets.by[place + 1 :]
    calls: dict[str, dict[Group, Comparisons]] = {name: {} for name in sets.judges}
    ids: dict[Group, dict[str, None]] = {}
    for full_group, its_calls in sets.sets.items():
        group = full_group[:place] + full_group[place + 1 :]
        calls[full_group[place]][group] = its_calls
        ids.setdefault(group, {}).update(dict.fromkeys(its_calls.ids))
    alone = {name: rank(ComparisonSets(by, its_sets), method, **options) for name, its_sets in calls.items()}
    questions: dict[Group, list[Group]] = {}
    for group in ids:
        question = tuple(value for name, value in zip(by, group, strict=True) if name != "context_id")
        questions.setdefault(question, []).append(group)
    signature = Signature.merged(rankings.signature for rankings in alone.values())
    signature = signature.with_(comparisons=sets.fingerprint, method=f"jury,{method}")
    together: dict[Group, Ranking | str] = {}
    juries: dict[Group, Jury] = {}
    for question, groups in questions.items():
        asked = {name: rankings for name, rankings in alone.items() if not set(groups).isdisjoint(rankings.of)}
        alike = find_alike({name: _log_odds(calls[name], groups) for name in asked})
        tables = [_tabulate(asked, group, list(ids[group])) for group in groups]
        jury, means = _take_means(list(asked), tables, alike)
        juries[question] = jury._replace(lacking=_find_lacking(asked, groups))
        voting = set(chain.from_iterable(jury.votes))
        for group, (mean, stderr) in zip(groups, means, strict=True):
            rankings = {name: each.of[group] for name, each in alone.items() if group in each.of}
            together[group] = _rank_group(rankings, voting, tuple(ids[group]), mean, stderr, signature)
    ordered = {group: together[group] for group in ids}
    names = {group: tuple(its_ids) for group, its_ids in ids.items()}
    return Rankings(by, ordered, names, signature, left_out=sets.left_out, juries=juries)


def _log_odds(sets: Mapping[Group, Comparisons], groups: Sequence[Group]) -> dict[TextPair, float]:
    """Of a judge's mean answers about each pair, nats; the two texts of a pair in the order of their ids."""
    log_odds: dict[TextPair, float] = {}
    for group in groups:
        if group not in sets:
            continue
        means = sets[group].averaged()
        p = np.clip(means.probabilities, 1e-9, 1 - 1e-9)
        columns = means.first, means.second, np.log(p) - np.log1p(-p)
        for i, j, odds in zip(*(column.tolist() for column in columns), strict=True):
            first, second = means.ids[i], means.ids[j]
            if first > second:
                first, second, odds = second, first, -odds
            log_odds[(group, first), (group, second)] = odds
    return log_odds


def _find_lacking(asked: Mapping[str, Rankings], groups: Sequence[Group]) -> dict[str, str]:
    """Which judges' comparisons make no ranking in some groups."""
    lacking = {}
    for name, rankings in asked.items():
        reasons = [ranking for group in groups if isinstance(ranking := rankings.of.get(group), str)]
        if reasons:
            lacking[name] = f"has no ranking of its own in {len(reasons)} of {len(groups)}: {reasons[0]}"
    return lacking


def _tabulate(alone: Mapping[str, Rankings], group: Group, ids: Sequence[str]) -> FloatArray:
    """Judges' scores of a group's texts, and their errors squared (0 where the method gives none), shape (2, m, n);
    NaN: no score. Scores are centred on the texts that all judges have scored, where there are any, so that who has
    seen the better half of the texts does not take it for the whole.
    """
    table = np.full((2, len(alone), len(ids)), np.nan)
    place = {name: k for k, name in enumerate(ids)}
    for row, rankings in enumerate(alone.values()):
        ranking = rankings.of.get(group)
        if isinstance(ranking, Ranking):
            columns = [place[name] for name in ranking.ids]
            table[0, row, columns] = ranking.scores
            table[1, row, columns] = np.nan_to_num(ranking.stderr) ** 2
    known = ~np.isnan(table[0])
    common = known[known.any(axis=1)].all(axis=0)
    some = table[0][:, common] if common.any() else table[0]
    table[0] -= mean_of_members(some.T)[:, None]
    return table


def _take_means(
    judges: Sequence[str], tables: Sequence[FloatArray], alike: Mapping[tuple[str, str], float]
) -> tuple[Jury, list[FloatArray]]:
    """Who votes; and of each table, the mean scores of its texts and their errors, shape (2, n).

    tables : of the groups, as `_tabulate` makes them
    """
    values, variance = np.concatenate(tables, axis=2)
    spread = np.sqrt(np.nan_to_num(mean_of_members(values.T**2)))
    unit = {name: sd for name, sd in zip(judges, spread.tolist(), strict=True) if sd > 1e-9}
    left_out = {}
    for name, scores in zip(judges, values, strict=True):
        if name not in unit:
            left_out[name] = "it has no ranking" if np.isnan(scores).all() else "it puts no text above another"
    votes = {}
    own = {}
    for vote in share_votes(unit, alike):
        rows = [judges.index(name) for name in vote]
        votes[vote] = mean_of_members(values[rows] / spread[rows, None])
        own[vote] = mean_of_members(variance[rows] / spread[rows, None] ** 2)
    left_out |= _leave_out(votes, np.repeat(np.arange(len(tables)), [table.shape[2] for table in tables]))
    means = np.full((2, values.shape[1]), np.nan)
    if votes:
        errors = [own[vote] for vote in votes]
        means[:] = mean_of_votes(np.stack(list(votes.values())), np.stack(errors))
        means *= np.mean([unit[name] for vote in votes for name in vote])
    ends = np.cumsum([table.shape[2] for table in tables])
    return Jury(tuple(votes), left_out, alike), np.split(means, ends[:-1], axis=1)


def _leave_out(votes: dict[Vote, FloatArray], group: IntArray) -> dict[str, str]:
    """Take out of the votes who does not agree with the others, the worst first, while there are more than two; and say
    why. votes : scores, centred in each group. group : the number of each text's
    """
    from scipy.special import stdtrit

    left_out: dict[str, str] = {}
    while len(votes) > 2:
        agreement, freedom = {}, {}
        for vote, values in votes.items():
            others = mean_of_members(np.stack([votes[other] for other in votes if other != vote]))
            known = ~np.isnan(values + others)
            one, rest = values[known], others[known]
            length = float(np.linalg.norm(one) * np.linalg.norm(rest))
            agreement[vote] = float(one @ rest) / max(length, 1e-300)
            freedom[vote] = len(one) - len(np.unique(group[known])) - 1
        worst = min(agreement, key=agreement.__getitem__)
        r, left = agreement[worst], freedom[worst]
        if left < 1 or r * np.sqrt(left) > stdtrit(left, CONFIDENCE) * np.sqrt(1 - r**2):
            break
        del votes[worst]
        reason = f"its order agrees with the mean of the others no more than by chance (r = {r:.2f})"
        left_out |= dict.fromkeys(worst, reason)
    return left_out


def _rank_group(
    rankings: Mapping[str, Ranking | str],
    voting: Set[str],
    ids: tuple[str, ...],
    scores: FloatArray,
    stderr: FloatArray,
    signature: Signature,
) -> Ranking | str:
    """A group's ranking, of these scores; or why it has none. rankings : by each judge alone"""
    used = [ranking for name, ranking in rankings.items() if name in voting and isinstance(ranking, Ranking)]
    if not used:
        left_out = "it is left out of the jury"
        return "; ".join(f"{name}: {why if isinstance(why, str) else left_out}" for name, why in rankings.items())
    n_comparisons = dict.fromkeys(ids, 0.0)
    for ranking in used:
        for name, n in zip(ranking.ids, ranking.n_comparisons.tolist(), strict=True):
            n_comparisons[name] += n
    return Ranking(
        ids=ids,
        scores=scores - np.nanmean(scores),
        n_comparisons=np.array(list(n_comparisons.values())),
        method="jury",
        stderr=stderr,
        converged=all(ranking.converged for ranking in used),
        iterations=max(ranking.iterations for ranking in used),
        gradient=max(ranking.gradient for ranking in used),
        signature=signature,
    )
