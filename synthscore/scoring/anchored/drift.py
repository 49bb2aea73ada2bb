"""Scores with their verdicts -> are judge, ladders and texts still what they were when a scale was fitted? No files.

Each context is placed anew, by the answers about its texts alone, under priors so wide that the answers decide. A
statistic is a ratio of sums over contexts, with the error of such a ratio: the unit is the context, whose texts are
alike. A run is compared with the fit by Welch's t, all statistics together by Holm. docs/anchored.md has the figures.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import numpy as np

from ...signature import Signature
from ...types import FloatArray, IntArray, Score, grouped
from .model import JudgeModel, Posterior, SoftAnswers, centred_levels, margin, variance
from .positions import log_odds_at, solve
from .scale import Scale, Statistic, three_way

ALPHA = 0.05  # probability of an alarm where nothing has changed, over all statistics together
RATIOS = ("sharpness", "noise", "ties")  # statistics that are compared by their logarithms
OF_TEXTS = ("texts", "score", "kept")  # statistics that say something about the texts, not about the judge
_FEWEST = 2.5  # effective number of contexts below which there is no statistic
_REWEIGHTED = 2  # times that answers get new weights


class StatisticChange(NamedTuple):
    """A statistic at the fit and now.

    p : probability of such a difference where nothing has changed, corrected for all statistics (Holm)
    """

    name: str
    was: Statistic
    now: Statistic
    p: float

    @property
    def words(self) -> str:
        was = self.was.value
        now = self.now.value
        if self.name.startswith("rung"):
            return f"{self.name} is seen at {now:.2f}, and was at {was:.2f}"
        if self.name in RATIOS:
            ratio = now / was if was else math.inf
            if self.name == "noise":  # The statistic is a variance, and its root says how far answers scatter.
                return f"its answers scatter {math.sqrt(ratio):.2g} times as far as they did"
            return {
                "sharpness": f"the judge is {ratio:.2g} times as sharp as it was, or ladders are so much longer",
                "ties": f"it says Similar {ratio:.2g} times as often as it did",
            }[self.name]
        direction = "higher" if now > was else "lower"
        return {
            "bias": f"its position bias is {now:+.2f} nats, and was {was:+.2f}",
            "texts": f"texts stand {abs(now - was):.2f} rungs {direction} than they did",
            "score": f"the mean score is {now:.2f}, and was {was:.2f}",
            "kept": f"{100 * now:.0f} % of the texts reach the threshold, and {100 * was:.0f} % did",
        }[self.name]


@dataclass(frozen=True, slots=True, eq=False)
class Drift:
    """What has changed since a scale was fitted, or a certificate made.

    origin : the scale or the certificate, in words. remedy : what to do about a change of the judge
    changes : one for each statistic that could be compared
    lacking : the statistics of the fit that this run does not have
    """

    origin: str
    remedy: str
    changes: tuple[StatisticChange, ...]
    lacking: tuple[str, ...]
    n_contexts: int

    @property
    def changed(self) -> list[StatisticChange]:
        return [change for change in self.changes if change.p < ALPHA]

    @property
    def verdict(self) -> Literal["judge", "texts", "none", "unknown"]:
        """What has changed: the judge (or the ladders), texts alone, nothing; or nothing could be compared."""
        if not self.changes:
            return "unknown"
        names = {change.name for change in self.changed}
        if names.difference(OF_TEXTS):
            return "judge"
        return "texts" if names else "none"

    @property
    def holds(self) -> bool:
        """Whether the scores, or the decisions, of this run mean what they did. A scale may be used on other texts."""
        return self.verdict == "none" or (self.verdict == "texts" and not self._promised)

    @property
    def _promised(self) -> bool:
        return any(change.name in ("score", "kept") for change in self.changes)

    @property
    def words(self) -> str:
        """The verdict in a sentence or two."""
        if self.verdict == "unknown":
            why = f"it does not hold what was seen when it was made. To have this check, {self.remedy}"
            if self.lacking:
                why = (
                    f"of {', '.join(self.lacking)} this run says nothing. It needs verdicts (score --verdicts) on "
                    "texts of 3 contexts at least, asked about in full"
                )
            return f"drift from {self.origin} is not known: {why}"
        compared = f"{len(self.changes)} statistics of {self.n_contexts} contexts"
        if self.lacking:
            compared += f" (not compared: {', '.join(self.lacking)})"
        if self.verdict == "none":
            return f"no drift from {self.origin}: {compared}"
        differences = "; ".join(change.words for change in sorted(self.changed, key=lambda change: change.p))
        if self.verdict == "judge":
            remedy = f"Its numbers are of another judge: {self.remedy}"
            return f"drift from {self.origin}: {differences}. Of {compared}. {remedy}"
        end = "the judge answers as it did"
        if self._promised:
            end = f"what was promised was promised of texts drawn like those: {self.remedy}"
        return f"the texts are not like those of {self.origin}: {differences}. Of {compared}; {end}"


@dataclass(slots=True, eq=False)
class Watch:
    """The statistics of a run, added up a batch of scores at a time, to be compared with those of a fit.

    signature : of the fit; only scores of its task and attribute count
    judge : of the fit; None: only scores are looked at, not their verdicts
    statistics : at the fit. keep_from : of a certificate
    """

    origin: str
    remedy: str
    signature: Signature
    judge: JudgeModel | None
    statistics: Mapping[str, Statistic] = field(default_factory=dict)
    keep_from: float | None = None
    _sums: dict[str, dict[str, FloatArray]] = field(default_factory=dict)  # statistic, context -> above, below

    @classmethod
    def scale(cls, scale: Scale) -> Watch:
        """For a run that is placed on this scale."""
        return cls(
            origin=f"the scale {scale.task}/{scale.attribute} of {scale.n_rungs} rungs",
            remedy="fit the scale anew (--save-scale)",
            signature=scale.signature,
            judge=scale.judge if scale.judge.rungs_rise else None,
            statistics=scale.statistics,
        )

    def add(self, scored: Iterable[tuple[Score, Signature]]) -> None:
        """Scores of other tasks and attributes are left out. Verdicts count on ladders of the judge's length alone,
        values on any."""
        by_signature = grouped((signature, score) for score, signature in scored)
        by_protocol: dict[str, list[Score]] = {}
        for signature, scores in by_signature.items():
            if not {"task", "attribute"} & self.signature.differs(signature).keys():
                by_protocol.setdefault(signature.part("protocol"), []).extend(scores)
        n = self.judge.n_rungs if self.judge else 0
        for protocol, scores in by_protocol.items():
            for score in scores:
                if self.keep_from is not None and score.value is not None:
                    self._count("score", score.context_id, score.value, 1)
                    self._count("kept", score.context_id, score.value >= self.keep_from, 1)
            # Adaptive questions depend on the answers before: with them, 19 % of the runs without a change raised an
            # alarm.
            judged = [s for s in scores if s.verdicts and "questions" not in s.details and count_rungs(s) == n]
            if judged:
                self.observe(*read_answers(judged, n, protocol))

    def observe(self, answers: SoftAnswers, contexts: Sequence[str]) -> Watch:
        """Add what these answers about texts say of each statistic. Answers about two rungs are left out, because runs
        on a kept scale have none.

        contexts : of each ladder, its id
        """
        if (judge := self.judge) is None:
            return self
        n = answers.n_rungs
        answers = answers.take(answers.first >= n)
        uneven = judge.rung_sd[2]
        wide = replace(judge, context_sd=0.0, target_sd=2 * judge.text_sd, rung_sd=(0.01, 1.0, uneven))
        posterior, difference_vars = solve(answers, wide)
        for _ in range(_REWEIGHTED):
            posterior, difference_vars = solve(answers, wide, posterior)
        ratios = {
            **_position_ratios(answers, wide, posterior),
            **_answer_ratios(answers, wide, posterior, difference_vars),
        }
        for ladder in np.unique(answers.ladder).tolist():
            for name, (above, below) in ratios.items():
                self._count(name, contexts[ladder], above[ladder], below[ladder])
        return self

    def _count(self, name: str, context: str, above: float, below: float) -> None:
        sums = self._sums.setdefault(name, {})
        sums[context] = sums.get(context, 0.0) + np.array([above, below], dtype=np.float64)

    def now(self) -> dict[str, Statistic]:
        """The statistics of what was added; those that rest on too few contexts are missing."""
        statistics = {}
        for name, sums in self._sums.items():
            above, below = np.array(list(sums.values())).T
            above = above[below > 0]
            below = below[below > 0]
            n = below.sum() ** 2 / (below @ below) if len(below) else 0.0
            if n < _FEWEST:
                continue
            value = float(above.sum() / below.sum())
            off = above - value * below
            stderr = math.sqrt(off @ off * n / (n - 1)) / float(below.sum())
            statistics[name] = Statistic(value, stderr, float(n))
        return statistics

    def drift(self) -> Drift:
        """The statistics of what was added, compared with those at the fit."""
        now = self.now()
        compared = [name for name in self.statistics if name in now]
        p = {name: _p_value(name, self.statistics[name], now[name]) for name in compared}
        least = 0.0
        adjusted = {}
        for rank, name in enumerate(sorted(p, key=lambda name: p[name])):
            least = max(least, min(1.0, p[name] * (len(p) - rank)))
            adjusted[name] = least
        changes = [StatisticChange(name, self.statistics[name], now[name], adjusted[name]) for name in compared]
        contexts = {context for sums in self._sums.values() for context in sums}
        return Drift(
            origin=self.origin,
            remedy=self.remedy,
            changes=tuple(changes),
            lacking=tuple(name for name in self.statistics if name not in now),
            n_contexts=len(contexts),
        )


Ratios = dict[str, tuple[FloatArray, FloatArray]]
"""Name of a statistic -> numerators and denominators, to be summed over contexts, both of shape (n_ladders,)."""


def _position_ratios(answers: SoftAnswers, wide: JudgeModel, posterior: Posterior) -> Ratios:
    """Of the statistics that positions show: sharpness, texts, and the rungs.

    Priors shrink each difference from what they expect. `retained` (1 - posterior variance / prior variance) is the
    part that is left: dividing by it undoes the shrinkage.
    """
    n = wide.n_rungs
    uneven = wide.rung_sd[2]
    level = centred_levels(n)
    norm2 = level @ level
    slope = posterior.rungs @ level / norm2
    retained = 1 - np.einsum("n,cnm,m->c", level, posterior.rung_cov, level) / (norm2**2 + uneven**2 * norm2)
    ratios = {"sharpness": (slope - 1 + retained, retained)}
    retained_texts = 1 - (posterior.sd / wide.target_sd) ** 2
    middle = (n + 1) / 2
    off = posterior.mean - wide.target_mean + (wide.target_mean - middle) * retained_texts
    numerator = _sum_by(answers.target_ladder, off, answers.n_ladders)
    # The judge's rungs are slope long.
    denominator = _sum_by(answers.target_ladder, retained_texts, answers.n_ladders) * slope
    ratios["texts"] = numerator + middle * denominator, denominator
    if n > 2:
        flat = np.eye(n) - 1 / n - np.outer(level, level) / norm2  # projects off the line through the rungs
        retained = 1 - np.einsum("kn,cnm,km->ck", flat, posterior.rung_cov, flat) / (uneven**2 * np.diag(flat))
        off = posterior.rungs @ flat
        for k in range(n):
            position = off[:, k] + retained[:, k] * (k + 1)
            ratios[f"rung {k + 1}"] = position, retained[:, k]
    return ratios


def _answer_ratios(answers: SoftAnswers, wide: JudgeModel, posterior: Posterior, difference_vars: FloatArray) -> Ratios:
    """Of the statistics that answers show beside positions: bias, noise and ties.

    difference_vars : as `solve` returns them
    """
    n_ladders = answers.n_ladders
    expected = wide.probs(log_odds_at(answers, wide, posterior))
    var = variance(expected)
    weight = wide.weight(expected, answers.sampling)
    residual = answers.margin - margin(expected)
    ratios = {}
    if len(set(answers.sign.tolist())) > 1:
        info = _sum_by(answers.ladder, weight * var, n_ladders)
        lean = _sum_by(answers.ladder, weight * answers.sign * residual, n_ladders)
        ratios["bias"] = lean + wide.position_bias * info, info
        residual = residual - lean.sum() / info.sum() * answers.sign * var
    hidden = (var * wide.discrimination) ** 2 * difference_vars
    above = _sum_by(answers.ladder, residual**2, n_ladders)
    ratios["noise"] = above, _sum_by(answers.ladder, var / weight - hidden, n_ladders)
    if np.isfinite(wide.log_tie):
        above = _sum_by(answers.ladder, answers.probs[:, 2], n_ladders)
        ratios["ties"] = above, _sum_by(answers.ladder, expected[:, 2], n_ladders)
    return ratios


def _sum_by(group: IntArray, values: FloatArray, n_groups: int) -> FloatArray:
    return np.bincount(group, values, n_groups).astype(np.float64)


def _p_value(name: str, was: Statistic, now: Statistic) -> float:
    """Two-sided, by Welch's test; contexts are taken to differ now by no less than they did at the fit."""
    from scipy.special import stdtr

    off = now.value - was.value
    squares = np.array([was.stderr**2, now.stderr**2])
    if name in RATIOS and min(was.value, now.value) > 0:
        off = math.log(now.value / was.value)
        squares = squares / np.array([was.value, now.value]) ** 2
    squares[1] = max(squares[1], squares[0] * was.n / now.n)  # A few contexts may be similar by chance.
    if not squares.sum():
        return float(off == 0)
    freedom = squares.sum() ** 2 / (squares**2 / (np.array([was.n, now.n]) - 1)).sum()
    return float(2 * stdtr(freedom, -abs(off) / math.sqrt(squares.sum())))


def count_rungs(score: Score) -> int:
    """The rungs of the text's ladder: as the score says, or the level of its highest verdict."""
    return int(score.details.get("n_rungs") or max((verdict.level for verdict in score.verdicts), default=0))


def read_answers(scores: Sequence[Score], n_rungs: int, protocol: str) -> tuple[SoftAnswers, list[str]]:
    """The verdicts of scores as answers, and the context of each ladder."""
    names = dict.fromkeys(score.context_id for score in scores)
    contexts = {name: index for index, name in enumerate(names)}
    target_ladder = np.array([contexts[score.context_id] for score in scores], dtype=np.int64)
    table = verdict_table(scores)
    target, level = table[:, :2].astype(np.int64).T
    answers = SoftAnswers(
        n_ladders=len(contexts),
        n_rungs=n_rungs,
        target_ladder=target_ladder,
        ladder=target_ladder[target],
        first=n_rungs + target,
        second=level - 1,
        sign=np.where(table[:, 2], -1.0, 1.0),
        probs=three_way(table[:, 3:6], protocol),
        n_samples=table[:, 6],
    )
    return answers, list(contexts)


def verdict_table(scores: Iterable[Score]) -> FloatArray:
    """One row a verdict: index of the score, level, swapped, better, worse, similar, number of samples (inf: exact
    probabilities); shape (n_verdicts, 7)."""
    rows = [
        (k, v.level, v.swapped, v.better, v.worse, v.similar, v.n_samples or math.inf)
        for k, score in enumerate(scores)
        for v in score.verdicts
    ]
    return np.array(rows, dtype=np.float64).reshape(-1, 7)
