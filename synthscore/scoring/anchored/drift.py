"""Scores with their verdicts -> are judge, ladders and texts still what they were when a scale was fitted? No files.

`Watch` adds up the statistics of a run, a batch of scores at a time, and `Watch.drift` compares them with those at the
fit. The statistics are

    sharpness     how far apart the judge sees the rungs of a ladder, relative to the scale's
    rung 1, 2..   where it sees each rung on its ladder, rungs of the scale
    bias          its position bias, nats
    noise, ties   the variance of its answers, and how often it says Similar, relative to what is expected
    texts         the mean position of the texts, rungs of the scale
    score, kept   of a certificate: the mean score, and the share of texts that reach the threshold

Each is a ratio of sums over contexts, with the error of such a ratio, because texts of one context are alike. Positions
are found anew in each context, from the answers about its texts alone, under priors so wide that the answers decide.
Welch's t compares a run with the fit, Holm's method corrects for the number of statistics. docs/anchored.md has how
often this raises a false alarm.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import numpy as np

from ...signature import Signature
from ...types import FloatArray, IntArray, Score, grouped
from .model import JudgeModel, Posterior, SoftAnswers, centred_levels, half_margin, variance
from .positions import log_odds_at, solve
from .scale import Scale, Statistic, three_way

ALPHA = 0.05  # probability of an alarm where nothing has changed, over all statistics together
RATIOS = ("sharpness", "noise", "ties")  # statistics that are compared by their logarithms
OF_CERTIFICATE = ("score", "kept")  # statistics of a certificate, which promises something about texts like its own
OF_TEXTS = ("texts", *OF_CERTIFICATE)  # statistics that say something about the texts, not about the judge
_FEWEST = 2.5  # effective number of contexts below which there is no statistic
_REWEIGHTED = 2  # times that answers get new weights at the positions found with the former ones
_NO_SHIFT = 0.01  # rungs; so narrow a prior keeps ladders from shifting, and texts take up what sets contexts apart
_WIDE_STRETCH = 1.0  # relative; a prior so wide leaves the length of a ladder to its answers
_WIDE_TEXTS = 2.0  # times the standard deviation of texts at the fit; so wide a prior leaves texts to their answers


class StatisticChange(NamedTuple):
    """A statistic at the fit and now.

    was, now : at the fit, and in this run
    p : probability of so large a difference where nothing has changed, corrected for all statistics (Holm)
    """

    name: str
    was: Statistic
    now: Statistic
    p: float

    @property
    def words(self) -> str:
        """What has changed, as a clause of a sentence."""
        was = self.was.value
        now = self.now.value
        direction = "higher" if now > was else "lower"
        ratio = now / was if was else math.inf
        match self.name:
            case "sharpness":
                return f"the judge is {ratio:.2g} times as sharp as it was, or ladders are so much longer"
            case "noise":  # The statistic is a variance, and its root says how far answers scatter.
                return f"its answers scatter {math.sqrt(ratio):.2g} times as far as they did"
            case "ties":
                return f"it says Similar {ratio:.2g} times as often as it did"
            case "bias":
                return f"its position bias is {now:+.2f} nats, and was {was:+.2f}"
            case "texts":
                return f"texts stand {abs(now - was):.2f} rungs {direction} than they did"
            case "score":
                return f"the mean score is {now:.2f}, and was {was:.2f}"
            case "kept":
                return f"{100 * now:.0f} % of the texts reach the threshold, and {100 * was:.0f} % did"
            case rung:
                return f"{rung} is seen at {now:.2f}, and was at {was:.2f}"


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
        """Whether the statistics are of a certificate, which promises nothing about texts unlike its own."""
        return any(change.name in OF_CERTIFICATE for change in self.changes)

    @property
    def words(self) -> str:
        """The verdict, with its evidence and what to do, in a sentence or two."""
        if self.verdict == "unknown":
            why = f"it does not hold what was seen when it was made. To have this check, {self.remedy}"
            if self.lacking:  # The fit has statistics, and this run does not.
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

    origin, remedy : as of Drift
    signature : of the fit; only scores of its task and attribute count
    judge : of the fit; None: only scores are looked at, not their verdicts
    statistics : at the fit, by name
    keep_from : the threshold of a certificate, rungs; None where there is none
    """

    origin: str
    remedy: str
    signature: Signature
    judge: JudgeModel | None
    statistics: Mapping[str, Statistic] = field(default_factory=dict)
    keep_from: float | None = None
    _sums: dict[str, dict[str, FloatArray]] = field(default_factory=dict)
    """Name of a statistic -> id of a context -> its numerator and denominator."""

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
        by_protocol: dict[str, list[Score]] = {}
        for signature, scores in grouped((signature, score) for score, signature in scored).items():
            if not {"task", "attribute"} & self.signature.differs(signature).keys():
                by_protocol.setdefault(signature.part("protocol"), []).extend(scores)
        for protocol, scores in by_protocol.items():
            self._count_values(scores)
            judged = [score for score in scores if self._shows_judge(score)]
            if judged and self.judge is not None:
                answers, contexts = read_answers(judged, self.judge.n_rungs, protocol)
                self.observe(answers, contexts)

    def _count_values(self, scores: Iterable[Score]) -> None:
        """Add these scores to the statistics of a certificate."""
        if self.keep_from is None:
            return
        for score in scores:
            if score.value is not None:
                self._count("score", score.context_id, score.value, 1)
                self._count("kept", score.context_id, score.value >= self.keep_from, 1)

    def _shows_judge(self, score: Score) -> bool:
        """Whether the statistics of the judge can be computed from this score's verdicts.

        Which questions an adaptive run asks depends on the answers before: such scores are left out, because with them
        19 % of the runs without a change raised an alarm.
        """
        if self.judge is None or not score.verdicts:
            return False
        adaptive = "questions" in score.details
        return not adaptive and count_rungs(score) == self.judge.n_rungs

    def observe(self, answers: SoftAnswers, contexts: Sequence[str]) -> Watch:
        """Add what these answers about texts say of each statistic. Answers about two rungs are left out, because runs
        on a kept scale have none.

        contexts : of each ladder, its id
        """
        judge = self.judge
        if judge is None:
            return self
        about_texts = answers.first >= answers.n_rungs
        answers = answers.take(about_texts)
        uneven = judge.rung_sd[2]
        # Texts and the lengths of ladders have priors so wide that the answers decide. Ladders as a whole cannot shift,
        # since their texts take that up, and single rungs are as uneven as when the judge was fitted.
        wide = replace(
            judge,
            context_sd=0.0,
            target_sd=_WIDE_TEXTS * judge.text_sd,
            rung_sd=(_NO_SHIFT, _WIDE_STRETCH, uneven),
        )
        posterior, difference_vars = solve(answers, wide)
        for _ in range(_REWEIGHTED):
            posterior, difference_vars = solve(answers, wide, posterior)
        ratios = _position_ratios(answers, wide, posterior)
        ratios |= _answer_ratios(answers, wide, posterior, difference_vars)
        for ladder in np.unique(answers.ladder).tolist():
            for name, (numerator, denominator) in ratios.items():
                self._count(name, contexts[ladder], numerator[ladder], denominator[ladder])
        return self

    def _count(self, name: str, context: str, numerator: float, denominator: float) -> None:
        """Add to both sums of a statistic, in one context."""
        sums = self._sums.setdefault(name, {})
        sums[context] = sums.get(context, 0.0) + np.array([numerator, denominator], dtype=np.float64)

    def now(self) -> dict[str, Statistic]:
        """The statistics of what was added; those that rest on too few contexts are missing.

            value = sum of numerators a / sum of denominators b
            stderr^2 = n / (n - 1) sum of (a - value b)^2 / (sum of b)^2        n = (sum of b)^2 / sum of b^2

        where the sums are over contexts, and n is the number of equal contexts that these are worth.
        """
        statistics = {}
        for name, sums in self._sums.items():
            numerators, denominators = np.array(list(sums.values())).T
            tells = denominators > 0
            if not tells.any():
                continue
            numerators = numerators[tells]
            denominators = denominators[tells]
            total = denominators.sum()
            n = total**2 / (denominators @ denominators)
            if n < _FEWEST:
                continue
            value = float(numerators.sum() / total)
            residuals = numerators - value * denominators
            stderr = math.sqrt(residuals @ residuals * n / (n - 1)) / float(total)
            statistics[name] = Statistic(value, stderr, float(n))
        return statistics

    def drift(self) -> Drift:
        """The statistics of what was added, compared with those at the fit."""
        now = self.now()
        compared = [name for name in self.statistics if name in now]
        p_values = {name: _p_value(name, self.statistics[name], now[name]) for name in compared}
        adjusted = _correct_for_number(p_values)
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
    """Numerators and denominators of the statistics that positions show: sharpness, texts, and the rungs.

    A prior pulls positions towards what it expects, so only a share of each difference is left in them,

        retained = 1 - posterior variance / prior variance

    To undo the pull, a difference from the expected value is divided by that share. Summed over contexts,

        value = expected + sum of differences / sum of retained
              = sum of (difference + expected * retained) / sum of retained

    wide : the judge with the wide priors under which the positions were found
    """
    ratios = {"sharpness": _slope_ratio(wide, posterior), "texts": _text_ratio(answers, wide, posterior)}
    if wide.n_rungs > 2:
        ratios |= _rung_ratios(wide, posterior)
    return ratios


def _slopes(posterior: Posterior) -> FloatArray:
    """The slope of each ladder's rungs over their levels, by least squares, shape (n_ladders,); 1 is expected."""
    level = centred_levels(posterior.rungs.shape[1])
    return posterior.rungs @ level / (level @ level)


def _slope_ratio(wide: JudgeModel, posterior: Posterior) -> tuple[FloatArray, FloatArray]:
    """Of sharpness: the slope of ladders, of which the prior expects 1."""
    level = centred_levels(wide.n_rungs)
    norm2 = level @ level
    uneven = wide.rung_sd[2]
    # Of level @ rungs, which is norm2 times the slope.
    prior_var = (_WIDE_STRETCH * norm2) ** 2 + uneven**2 * norm2
    posterior_var = np.einsum("n,cnm,m->c", level, posterior.rung_cov, level)
    retained = 1 - posterior_var / prior_var
    return _slopes(posterior) - 1 + retained, retained


def _text_ratio(answers: SoftAnswers, wide: JudgeModel, posterior: Posterior) -> tuple[FloatArray, FloatArray]:
    """Of texts: their mean position, in rungs as long as this judge now sees them.

        value = middle + sum of distances from the middle / sum of (retained * slope)
        distance = difference from target_mean + (target_mean - middle) * retained

    The slope makes the rung that this judge sees the unit of the distances. The fraction's numerator, plus middle times
    its denominator, is the numerator here.
    """
    retained = 1 - (posterior.sd / wide.target_sd) ** 2
    middle = (wide.n_rungs + 1) / 2
    off_middle = posterior.mean - wide.target_mean + (wide.target_mean - middle) * retained
    numerator = _sum_by(answers.target_ladder, off_middle, answers.n_ladders)
    denominator = _sum_by(answers.target_ladder, retained, answers.n_ladders) * _slopes(posterior)
    return numerator + middle * denominator, denominator


def _rung_ratios(wide: JudgeModel, posterior: Posterior) -> Ratios:
    """Where each rung stands on its ladder: rung k at k + its distance from the straight line through its ladder,
    the pull of the prior undone.

    The line, by least squares, is subtracted with its slope and height. So only the shape of a ladder counts here, not
    how long it is or where it stands. Two rungs are always on their line, and tell nothing.
    """
    n = wide.n_rungs
    uneven = wide.rung_sd[2]
    level = centred_levels(n)
    off_line = np.eye(n) - 1 / n - np.outer(level, level) / (level @ level)  # projects rungs to what is off their line
    posterior_var = np.einsum("kn,cnm,km->ck", off_line, posterior.rung_cov, off_line)
    retained = 1 - posterior_var / (uneven**2 * np.diag(off_line))
    distance = posterior.rungs @ off_line
    ratios = {}
    for index in range(n):
        rung = index + 1
        ratios[f"rung {rung}"] = distance[:, index] + retained[:, index] * rung, retained[:, index]
    return ratios


def _answer_ratios(answers: SoftAnswers, wide: JudgeModel, posterior: Posterior, difference_vars: FloatArray) -> Ratios:
    """Numerators and denominators of the statistics that answers show beside positions: bias, noise and ties.

        bias     bias at the fit + step; in nats
        noise    squared residuals / variances that the judge at the fit would give them
        ties     probabilities of Similar / those that the judge at the fit would give

    difference_vars : as `solve` returns them
    """

    def sum_by_ladder(values: FloatArray) -> FloatArray:
        return _sum_by(answers.ladder, values, answers.n_ladders)

    expected = wide.probs(log_odds_at(answers, wide, posterior))
    var = variance(expected)
    weight = wide.weight(expected, answers.sampling)
    residual = answers.half_margin - half_margin(expected)
    ratios = {}
    both_orders = len(set(answers.sign.tolist())) > 1
    if both_orders:
        # One step of Newton's method from the bias at the fit; residuals then lose what the change of bias explains.
        info = sum_by_ladder(weight * var)
        lean = sum_by_ladder(weight * answers.sign * residual)
        ratios["bias"] = lean + wide.position_bias * info, info
        residual = residual - lean.sum() / info.sum() * answers.sign * var
    # Positions are fitted to the same answers, which hides the part of the noise that they took up.
    hidden = (var * wide.discrimination) ** 2 * difference_vars
    ratios["noise"] = sum_by_ladder(residual**2), sum_by_ladder(var / weight - hidden)
    if np.isfinite(wide.log_tie):
        ratios["ties"] = sum_by_ladder(answers.probs[:, 2]), sum_by_ladder(expected[:, 2])
    return ratios


def _sum_by(group: IntArray, values: FloatArray, n_groups: int) -> FloatArray:
    return np.bincount(group, values, n_groups).astype(np.float64)


def _p_value(name: str, was: Statistic, now: Statistic) -> float:
    """Probability of so large a difference, in either direction, where nothing has changed: Welch's test, of logarithms
    for RATIOS."""
    from scipy.special import stdtr

    difference = now.value - was.value
    variances = np.array([was.stderr**2, now.stderr**2])
    if name in RATIOS and min(was.value, now.value) > 0:
        difference = math.log(now.value / was.value)
        variances = variances / np.array([was.value, now.value]) ** 2
    # A few contexts may be similar by chance: they are taken to differ now by no less than they did at the fit.
    variances[1] = max(variances[1], variances[0] * was.n / now.n)
    total = variances.sum()
    if not total:
        return float(difference == 0)
    n_contexts = np.array([was.n, now.n])
    freedom = total**2 / (variances**2 / (n_contexts - 1)).sum()
    return float(2 * stdtr(freedom, -abs(difference) / math.sqrt(total)))


def _correct_for_number(p_values: Mapping[str, float]) -> dict[str, float]:
    """Holm's method: the smallest p-value times their number n, the next times n - 1, and so on, never falling."""
    corrected = {}
    largest = 0.0
    for rank, name in enumerate(sorted(p_values, key=lambda name: p_values[name])):
        largest = max(largest, min(1.0, p_values[name] * (len(p_values) - rank)))
        corrected[name] = largest
    return corrected


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
    rows = []
    for index, score in enumerate(scores):
        for verdict in score.verdicts:
            probs = (verdict.better, verdict.worse, verdict.similar)
            rows.append((index, verdict.level, verdict.swapped, *probs, verdict.n_samples or math.inf))
    return np.array(rows, dtype=np.float64).reshape(-1, 7)
