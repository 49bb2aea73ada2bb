"""Comparisons by several judges -> one order, the mean of theirs. No labels.

    >>> sets = ComparisonSets.load("comparisons.jsonl")  # with a column `judge`
    >>> rankings = rank_jury(sets, "poe-bt")

Each judge's comparisons are ranked by themselves. The judge's scores, centred inside each context, are divided by their
standard deviation over all contexts of an attribute. So a judge that is surer, or repeats its answers, does not weigh
more, while contexts keep their differences in spread. Then all judges have equal weights (scoring/votes.py).
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
"""A judge has a vote if its correlation with the mean of the others is above 0 with this one-sided confidence."""


def rank_jury(sets: ComparisonSets, method: str | None = None, **options: Any) -> Rankings:
    """One order for each group, from the comparisons of all judges.

    sets : `by` holds "judge". method, options : as of `rank`, for each judge by itself
    Scores have mean zero and the unit of the method, averaged over the judges. A group that some judges cannot rank is
    ranked by the others; where no judge can, it has their reasons. `Rankings.juries` says who votes.
    raises : InputError for comparisons by one judge; as `rank`
    """
    if len(sets.judges) < 2:
        problem = f"of one judge, {sets.judges[0]!r}" if sets.judges else "without a column judge"
        raise InputError(f"the comparisons are {problem}, expected two judges or more for a jury", field=JUDGE)
    method = method or default_method(sets)
    index = sets.by.index(JUDGE)
    columns = sets.by[:index] + sets.by[index + 1 :]
    by_judge: dict[str, dict[Group, Comparisons]] = {name: {} for name in sets.judges}
    ids: dict[Group, dict[str, None]] = {}
    for full_group, group_calls in sets.sets.items():
        group = full_group[:index] + full_group[index + 1 :]
        by_judge[full_group[index]][group] = group_calls
        ids.setdefault(group, {}).update(dict.fromkeys(group_calls.ids))
    alone = {name: rank(ComparisonSets(columns, judged), method, **options) for name, judged in by_judge.items()}
    questions: dict[Group, list[Group]] = {}
    for group in ids:
        question = tuple(value for name, value in zip(columns, group, strict=True) if name != "context_id")
        questions.setdefault(question, []).append(group)
    signature = Signature.merged(rankings.signature for rankings in alone.values())
    signature = signature.with_(comparisons=sets.fingerprint, method=f"jury,{method}")
    together: dict[Group, Ranking | str] = {}
    juries: dict[Group, Jury] = {}
    for question, groups in questions.items():
        asked = {name: rankings for name, rankings in alone.items() if not set(groups).isdisjoint(rankings.by_group)}
        alike = find_alike({name: _log_odds(by_judge[name], groups) for name in asked})
        tables = [_tabulate(asked, group, list(ids[group])) for group in groups]
        jury, means = _take_means(list(asked), tables, alike)
        juries[question] = jury._replace(lacking=_find_lacking(asked, groups))
        voting = set(chain.from_iterable(jury.votes))
        for group, (mean, stderr) in zip(groups, means, strict=True):
            rankings = {name: judged.by_group[group] for name, judged in alone.items() if group in judged.by_group}
            together[group] = _rank_group(rankings, voting, tuple(ids[group]), mean, stderr, signature)
    ordered = {group: together[group] for group in ids}
    return Rankings(
        by=columns,
        by_group=ordered,
        ids={group: tuple(names) for group, names in ids.items()},
        signature=signature,
        left_out=sets.left_out,
        juries=juries,
    )


def _log_odds(sets: Mapping[Group, Comparisons], groups: Sequence[Group]) -> dict[TextPair, float]:
    """Log-odds of a judge's mean answer about each pair, nats. The two texts of a pair are sorted by id."""
    log_odds: dict[TextPair, float] = {}
    for group in groups:
        if group not in sets:
            continue
        means = sets[group].averaged()
        p = np.clip(means.probabilities, 1e-9, 1 - 1e-9)
        columns = means.first, means.second, np.log(p) - np.log1p(-p)
        for i, j, odds in zip(*(column.tolist() for column in columns), strict=True):
            first = means.ids[i]
            second = means.ids[j]
            if first > second:
                first, second, odds = second, first, -odds
            log_odds[(group, first), (group, second)] = odds
    return log_odds


def _find_lacking(asked: Mapping[str, Rankings], groups: Sequence[Group]) -> dict[str, str]:
    """The judges that cannot rank some of the groups, and why."""
    lacking = {}
    for name, rankings in asked.items():
        reasons = [ranking for group in groups if isinstance(ranking := rankings.by_group.get(group), str)]
        if reasons:
            lacking[name] = f"has no ranking of its own in {len(reasons)} of {len(groups)}: {reasons[0]}"
    return lacking


def _tabulate(alone: Mapping[str, Rankings], group: Group, ids: Sequence[str]) -> FloatArray:
    """Judges' scores of a group's texts, and their squared errors (0 where the method gives none), shape (2, m, n);
    NaN: no score. Scores are centred on the texts that all judges have scored, where there are any, so that a judge
    that has compared only the better half of the texts is not taken to have compared all.
    """
    table = np.full((2, len(alone), len(ids)), np.nan)
    index = {name: k for k, name in enumerate(ids)}
    for row, rankings in enumerate(alone.values()):
        ranking = rankings.by_group.get(group)
        if isinstance(ranking, Ranking):
            columns = [index[name] for name in ranking.ids]
            table[0, row, columns] = ranking.scores
            table[1, row, columns] = np.nan_to_num(ranking.stderr) ** 2
    known = ~np.isnan(table[0])
    common = known[known.any(axis=1)].all(axis=0)
    compared_by_all = table[0]
    if common.any():
        compared_by_all = table[0][:, common]
    table[0] -= mean_of_members(compared_by_all.T)[:, None]
    return table


def _take_means(
    judges: Sequence[str], tables: Sequence[FloatArray], alike: Mapping[tuple[str, str], float]
) -> tuple[Jury, list[FloatArray]]:
    """The jury; and for each table, the mean scores of its texts and their standard errors, shape (2, n).

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
    variances = {}
    for vote in share_votes(unit, alike):
        rows = [judges.index(name) for name in vote]
        votes[vote] = mean_of_members(values[rows] / spread[rows, None])
        variances[vote] = mean_of_members(variance[rows] / spread[rows, None] ** 2)
    sizes = [table.shape[2] for table in tables]
    left_out |= _leave_out(votes, np.repeat(np.arange(len(tables)), sizes))
    means = np.full((2, values.shape[1]), np.nan)
    if votes:
        vote_variances = [variances[vote] for vote in votes]
        means[:] = mean_of_votes(np.stack(list(votes.values())), np.stack(vote_variances))
        means *= np.mean([unit[name] for vote in votes for name in vote])
    ends = np.cumsum(sizes)
    return Jury(tuple(votes), left_out, alike), np.split(means, ends[:-1], axis=1)


def _leave_out(votes: dict[Vote, FloatArray], group: IntArray) -> dict[str, str]:
    """Remove from `votes` those that do not agree with the others, the worst first, while there are more than two.

    votes : scores, centred in each group. group : number of each text's group
    returns : name of a judge -> why it was left out
    """
    from scipy.special import stdtrit

    left_out: dict[str, str] = {}
    while len(votes) > 2:
        agreement = {}  # vote -> correlation with the mean of the others
        freedom = {}
        for vote, values in votes.items():
            others = mean_of_members(np.stack([votes[other] for other in votes if other != vote]))
            known = ~np.isnan(values + others)
            one = values[known]
            rest = others[known]
            length = float(np.linalg.norm(one) * np.linalg.norm(rest))
            agreement[vote] = float(one @ rest) / max(length, 1e-300)
            freedom[vote] = len(one) - len(np.unique(group[known])) - 1
        worst = min(agreement, key=agreement.__getitem__)
        r = agreement[worst]
        n_free = freedom[worst]
        if n_free < 1:
            break
        # Student's test of a correlation, t = r sqrt(freedom) / sqrt(1 - r^2).
        if r * np.sqrt(n_free) > stdtrit(n_free, CONFIDENCE) * np.sqrt(1 - r**2):
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
    """A group's ranking with these scores; or why it has none. rankings : by each judge alone"""
    used = [ranking for name, ranking in rankings.items() if name in voting and isinstance(ranking, Ranking)]
    if not used:
        reasons = []
        for name, ranking in rankings.items():
            why = ranking if isinstance(ranking, str) else "it is left out of the jury"
            reasons.append(f"{name}: {why}")
        return "; ".join(reasons)
    n_comparisons = dict.fromkeys(ids, 0.0)
    for ranking in used:
        for name, n in zip(ranking.ids, ranking.n_comparisons.tolist(), strict=True):
            n_comparisons[name] += n
    counts = list(n_comparisons.values())
    return Ranking(
        ids=ids,
        scores=scores - np.nanmean(scores),
        n_comparisons=np.array(counts),
        method="jury",
        stderr=stderr,
        converged=all(ranking.converged for ranking in used),
        iterations=max(ranking.iterations for ranking in used),
        gradient=max(ranking.gradient for ranking in used),
        signature=signature,
    )
