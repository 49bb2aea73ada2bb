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
from .model import JudgeModel, SoftAnswers, centred_levels, margin, variance
from .positions import log_odds_at, solve
from .scale import Scale, Statistic, three_way

ALPHA = 0.05  # probability of an alarm where nothing has changed, over all statistics together
RATIOS = ("sharpness", "noise", "ties")  # compared by their logarithms
OF_TEXTS = ("texts", "score", "kept")
_FEWEST = 2.5  # contexts, counted by weight: of fewer, nothing can be said
_REWEIGHTED = 2


class StatisticChange(NamedTuple):
    """A statistic at the fit and now. p : of no change, over all statistics together (Holm)"""

    name: str
    was: Statistic
    now: Statistic
    p: float

    @property
    def words(self) -> str:
        was, now, off = self.was.value, self.now.value, self.now.value - self.was.value
        if self.name.startswith("rung"):
            return f"{self.name} is seen at {now:.2f}, and was at {was:.2f}"
        if self.name in RATIOS:
            ratio = now / was if was else math.inf
            ratio = math.sqrt(ratio) if self.name == "noise" else ratio
            return {
                "sharpness": f"the judge is {ratio:.2g} times as sharp as it was, or ladders are so much longer",
                "noise": f"its answers scatter {ratio:.2g} times as far as they did",
                "ties": f"it says Similar {ratio:.2g} times as often as it did",
            }[self.name]
        return {
            "bias": f"its position bias is {now:+.2f} nats, and was {was:+.2f}",
            "texts": f"texts stand {abs(off):.2f} rungs {'higher' if off > 0 else 'lower'} than they did",
            "score": f"the mean score is {now:.2f}, and was {was:.2f}",
            "kept": f"{100 * now:.0f} % of the texts reach the threshold, and {100 * was:.0f} % did",
        }[self.name]


@dataclass(frozen=True, slots=True, eq=False)
class Drift:
    """What has changed since a scale was fitted, or a certificate made.

    origin : which of them, in words. remedy : what to do about a change of the judge
    changes : one for each statistic that could be compared. lacking : those of the fit that the run does not tell
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
        return "judge" if names.difference(OF_TEXTS) else "texts" if names else "none"

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
            return f"drift from {self.origin} is not known: " + (
                f"of {', '.join(self.lacking)} this run says nothing. It needs verdicts (score --verdicts) on texts of "
                "3 contexts at least, asked about in full"
                if self.lacking
                else f"it does not hold what was seen when it was made. To have this check, {self.remedy}"
            )
        without = f" (not compared: {', '.join(self.lacking)})" if self.lacking else ""
        compared = f"{len(self.changes)} statistics of {self.n_contexts} contexts{without}"
        if self.verdict == "none":
            return f"no drift from {self.origin}: {compared}"
        seen = "; ".join(change.words for change in sorted(self.changed, key=lambda change: change.p))
        if self.verdict == "judge":
            return f"drift from {self.origin}: {seen}. Of {compared}. Its numbers are of another judge: {self.remedy}"
        end = "the judge answers as it did"
        if self._promised:
            end = f"what was promised was promised of texts drawn like those: {self.remedy}"
        return f"the texts are not like those of {self.origin}: {seen}. Of {compared}; {end}"


@dataclass(slots=True, eq=False)
class Watch:
    """What a run says of the statistics of a fit, added up a batch of scores at a time.

    signature : of the fit; scores of its task and attribute count. judge : of the fit; None: only scores are looked at
    keep_from : of a certificate. seen : at the fit
    """

    origin: str
    remedy: str
    signature: Signature
    judge: JudgeModel | None
    seen: Mapping[str, Statistic] = field(default_factory=dict)
    keep_from: float | None = None
    _sums: dict[str, dict[str, FloatArray]] = field(default_factory=dict)  # statistic, context -> above, below

    @classmethod
    def scale(cls, scale: Scale) -> Watch:
        """Of what is placed on a scale that is kept."""
        return cls(
            origin=f"the scale {scale.task}/{scale.attribute} of {scale.n_rungs} rungs",
            remedy="fit the scale anew (--save-scale)",
            signature=scale.signature,
            judge=scale.judge if scale.judge.rungs_rise else None,
            seen=scale.seen,
        )

    def add(self, scored: Iterable[tuple[Score, Signature]]) -> None:
        """Scores of other tasks, attributes and lengths of ladder are left alone."""
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
            # Answers that were chosen by those before are others: in rounds, 19 % of the alarms were false.
            judged = [s for s in scores if s.verdicts and "questions" not in s.details and n_rungs(s) == n]
            if judged:
                self.observe(*answers_of(judged, n, protocol))

    def observe(self, answers: SoftAnswers, contexts: Sequence[str]) -> Watch:
        """contexts : of each ladder, its id. Answers about rungs alone are left out: known ladders have none."""
        if (judge := self.judge) is None:
            return self
        n = answers.n_rungs
        size = answers.n_ladders
        answers = answers.take(answers.first >= n)
        uneven = judge.rung_sd[2]
        level = centred_levels(n)
        wide = replace(judge, context_sd=0.0, target_sd=2 * judge.text_sd, rung_sd=(0.01, 1.0, uneven))
        posterior, differences = solve(answers, wide)
        for _ in range(_REWEIGHTED):
            posterior, differences = solve(answers, wide, posterior)
        expected = wide.probs(log_odds_at(answers, wide, posterior))
        var = variance(expected)
        weight = wide.weight(expected, answers.sampling)
        residual = answers.margin - margin(expected)

        def over(values: FloatArray, at: IntArray = answers.ladder) -> FloatArray:
            return np.bincount(at, values, size).astype(np.float64)

        # What the priors still draw towards themselves of a value is left out of what it is divided by.
        long = level @ level
        slope = posterior.rungs @ level / long
        told = 1 - np.einsum("n,cnm,m->c", level, posterior.rung_cov, level) / (long**2 + uneven**2 * long)
        found = {"sharpness": (slope - 1 + told, told)}
        if len(set(answers.sign.tolist())) > 1:
            info = over(weight * var)
            lean = over(weight * answers.sign * residual)
            found["bias"] = lean + judge.position_bias * info, info
            residual = residual - lean.sum() / info.sum() * answers.sign * var
        hidden = (var * judge.discrimination) ** 2 * differences
        found["noise"] = over(residual**2), over(var / weight - hidden)
        if np.isfinite(judge.log_tie):
            found["ties"] = over(answers.probs[:, 2]), over(expected[:, 2])
        told = 1 - (posterior.sd / wide.target_sd) ** 2
        middle = (n + 1) / 2
        off = over(posterior.mean - judge.target_mean + (judge.target_mean - middle) * told, answers.target_ladder)
        below = over(told, answers.target_ladder) * slope  # in rungs of the ladder as it is seen
        found["texts"] = off + middle * below, below
        if n > 2:
            flat = np.eye(n) - 1 / n - np.outer(level, level) / long  # off the line through the rungs
            told = 1 - np.einsum("kn,cnm,km->ck", flat, posterior.rung_cov, flat) / (uneven**2 * np.diag(flat))
            off = posterior.rungs @ flat
            found |= {f"rung {k + 1}": (off[:, k] + told[:, k] * (k + 1), told[:, k]) for k in range(n)}
        for ladder in np.unique(answers.ladder).tolist():
            for name, (above, below) in found.items():
                self._count(name, contexts[ladder], above[ladder], below[ladder])
        return self

    def _count(self, name: str, context: str, above: float, below: float) -> None:
        sums = self._sums.setdefault(name, {})
        sums[context] = sums.get(context, 0.0) + np.array([above, below], dtype=np.float64)

    def now(self) -> dict[str, Statistic]:
        """The statistics of what was added; those of which too few contexts tell are missing."""
        found = {}
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
            found[name] = Statistic(value, stderr, float(n))
        return found

    def drift(self) -> Drift:
        now = self.now()
        p = {name: _p(name, was, now[name]) for name, was in self.seen.items() if name in now}
        least = 0.0
        adjusted = {}
        for rank, (name, value) in enumerate(sorted(p.items(), key=lambda item: item[1])):
            least = adjusted[name] = max(least, min(1.0, value * (len(p) - rank)))
        return Drift(
            origin=self.origin,
            remedy=self.remedy,
            changes=tuple(StatisticChange(name, self.seen[name], now[name], adjusted[name]) for name in p),
            lacking=tuple(name for name in self.seen if name not in now),
            n_contexts=len({context for sums in self._sums.values() for context in sums}),
        )


def _p(name: str, was: Statistic, now: Statistic) -> float:
    """Of no difference, two-sided: Welch's, where contexts differ now by no less than they did at the fit."""
    from scipy.special import stdtr

    off = now.value - was.value
    squares = np.array([was.stderr**2, now.stderr**2])
    if name in RATIOS and min(was.value, now.value) > 0:
        off = math.log(now.value / was.value)
        squares = squares / np.array([was.value, now.value]) ** 2
    squares[1] = max(squares[1], squares[0] * was.n / now.n)  # few contexts may be alike by chance
    if not squares.sum():
        return float(off == 0)
    freedom = squares.sum() ** 2 / (squares**2 / (np.array([was.n, now.n]) - 1)).sum()
    return float(2 * stdtr(freedom, -abs(off) / math.sqrt(squares.sum())))


def n_rungs(score: Score) -> int:
    """Of the text's ladder: as the score says, or that of its highest verdict."""
    return int(score.details.get("n_rungs") or max((verdict.level for verdict in score.verdicts), default=0))


def answers_of(scores: Sequence[Score], n_rungs: int, protocol: str) -> tuple[SoftAnswers, list[str]]:
    """The answers about texts that their verdicts are, and the contexts that their ladders are of."""
    contexts = {name: index for index, name in enumerate(dict.fromkeys(score.context_id for score in scores))}
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
    """Which score, level, whether swapped, better, worse, similar, number of samples (inf: exact), of each verdict;
    shape (n_verdicts, 7)."""
    rows = [
        (k, v.level, v.swapped, v.better, v.worse, v.similar, v.n_samples or math.inf)
        for k, score in enumerate(scores)
        for v in score.verdicts
    ]
    return np.array(rows, dtype=np.float64).reshape(-1, 7)
