"""Anchored scoring as a value: verdicts -> positions on the rung scale with errors, by a model of the judge.

`Anchored.score` fits a scale to the texts of a call (scores.py), or places each text alone on one that was fitted
before; then it may ask in rounds (questions.py). docs/anchored.md has the model.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...engine import Progress
from ...errors import InputError, unusable
from ...judging.asking import Asking, Pair, Verdicts
from ...judging.labels import unreported_note
from ...types import Ladder, Score
from ..ladder import LadderPlan, OnLadder, Scoring
from ..method import Limits
from .adaptive import Stop
from .questions import LengthGroup, ask_adaptively, group_by_length
from .scale import Scale, Scales
from .scores import LEVEL, UNSETTLED, fit_scale, place_targets


@dataclass(frozen=True)
class Anchored(Scoring):
    """Scores by positions on the rung scale. Checked when made: InputError.

    An anchored score is a posterior mean; `stderr` and `low` to `high` (90 %) say how sure it is; a rung without a
    verdict only makes it less sure: status "ok", the reason names the rung. `details` hold `n_rungs`, `label_mass` and
    `extrapolated`, 1.0 where the value lies outside 1..N; with `stop` also `questions`, of its ladder `questions_full`,
    and `met`, 0.0 where the questions ran out before. On a scale that does not see the rungs rise, nothing is asked.
    """

    scale: Scale | Sequence[Scale] | str | os.PathLike[str] | None = None
    """Scales fitted before, one for each length of ladder, or the file that holds them; each text is then placed alone.
    None: the scale is fitted to the texts of each call, which should be many."""

    stop: Stop | None = None
    """With a scale: Sure or SameDecision; each text is asked about in rounds, until it is met."""

    def __post_init__(self) -> None:
        if isinstance(self.scale, str | os.PathLike):
            object.__setattr__(self, "scale", Scales.load(self.scale))
        elif self.scale is not None:
            object.__setattr__(self, "scale", Scales([self.scale] if isinstance(self.scale, Scale) else self.scale))
        if self.stop is not None and not isinstance(self.stop, Stop):
            raise unusable("stop", self.stop, "a stop rule", "Take Sure or SameDecision")
        if self.stop is not None and self.scale is None:
            expected = "a scale with it: without one, the first answers do not say where a text stands"
            remedy = "Score some texts in full, keep the scale (Scorer.scales, --save-scale), and give it as scale"
            raise unusable("stop", self.stop, expected, remedy)

    gives_errors = True
    on_rungs = True

    @property
    def alone(self) -> bool:  # type: ignore[override]
        return self.scale is not None

    @property
    def name(self) -> str:
        return self.name_with(())

    def limits(self, n_rungs: int) -> Limits:
        low = 1.0 - n_rungs
        high = 2.0 * n_rungs  # further from the rungs than a ladder is long: surely a slip
        return Limits(
            low=low,
            high=high,
            words=(
                f"far outside the anchored scale, whose rungs stand at 1..{n_rungs}: expected {low:g} to {high:g}; "
                f"1 is as good as the worst rung, {n_rungs} as the best"
            ),
            likely_low=1.0,
            likely_high=float(n_rungs),
            likely_words=(
                f"outside 1..{n_rungs}, where anchored scores are extrapolated: no rung is there to tell texts apart. "
                "Choose one between the rungs, or trust such decisions less"
            ),
        )

    def require_alone(self) -> None:
        if self.scale is None:
            raise InputError(
                "anchored scores without a scale are fitted to all texts of a call, and here not all are there at "
                "once. Give a scale that was fitted before (--save-scale FILE, then --scale FILE; in Python "
                "Anchored(scale=...)), or score all texts in one call",
                field="scale",
            )

    @property
    def scales(self) -> tuple[Scale, ...]:
        """The scales that were given."""
        return self.scale if isinstance(self.scale, tuple) else ()

    @property
    def known(self) -> Mapping[int, Scale]:
        """Length of ladder -> the scale given for it."""
        return {scale.n_rungs: scale for scale in self.scales}

    def for_question(self, task: str, attribute: str) -> Anchored:
        """With the scales of this task and attribute. raises : InputError where none of those given is"""
        if self.scale is None:
            return self
        scales = tuple(scale for scale in self.scales if scale.task == task and scale.attribute == attribute)
        if not scales:
            given = {f"{scale.task}/{scale.attribute}" for scale in self.scales}
            names = ", ".join(sorted(given)) or "none at all"
            raise InputError(
                f"there is no scale of {task}/{attribute} among those given, expected one. They are of: "
                f"{names}. Fit one with --save-scale"
            )
        return replace(self, scale=scales)

    def refuse(self, ladder: Ladder) -> str:
        """Why the ladder cannot be used with the scale given; "" where it can."""
        name = f"ladder {ladder.context_id}/{ladder.attribute}"
        if ladder.context is None:
            return f"{name} does not carry its context's text, which the judge is shown with two of its rungs"
        if self.scale is None:
            return ""
        if ladder.n_rungs not in self.known:
            lengths = ", ".join(map(str, sorted(self.known)))
            return f"{name} has {ladder.n_rungs} rungs, and there is only a scale for {lengths}. Fit one for its length"
        anchors = self.known[ladder.n_rungs].ladders.get(ladder.context_id)
        if anchors is not None and anchors.ladder not in ("", ladder.hash):
            return f"{name} is not the one that the scale was fitted on: its texts have changed. Fit the scale anew"
        return ""

    def name_with(self, scales: Sequence[Scale]) -> str:
        """What a signature says of it. scales : that the scores are on, where none were given"""
        name = "anchored"
        if self.stop is not None:
            name += f",adaptive={self.stop!r}".replace(" ", "")
        hashes = sorted(scale.hash[:12] for scale in self.scales or scales)
        return ",scale=".join([name, *hashes])

    def prepare(
        self, texts: Mapping[int, OnLadder], pairs: list[Pair], attribute: str, asking: Asking
    ) -> list[LengthGroup]:
        """The texts by length of ladder; the pairs among rungs are added to those of texts and rungs."""
        return group_by_length(
            texts=texts,
            pairs=pairs,
            attribute=attribute,
            scales=self.known,
            both_orders=asking.n_orders == 2,
        )

    def score(self, plan: LadderPlan, progress: Progress | None) -> tuple[dict[int, Score], Scales]:
        parts = dict(plan.signature.parts)
        task = parts["task"]
        attribute = parts["attribute"]
        texts = plan.texts_on_ladders
        inquiry = plan.inquiry
        groups: Sequence[LengthGroup] = plan.prepared
        known = self.known
        if known:
            for group in groups:
                known[group.n_rungs].check(inquiry.signature.with_(task=task, attribute=attribute))
        met: Mapping[int, bool] = {}
        if self.stop is None:
            inquiry.ask_all(progress)
        else:
            met = ask_adaptively(inquiry, groups, known, self.stop, progress)
        verdicts = inquiry.verdicts()
        rows: dict[int, Score] = {}
        scales = []
        for group in groups:
            if not known:
                scale, posterior = fit_scale(
                    group.answers(verdicts), group.ladders, task, attribute, verdicts.signature
                )
                settled = posterior.settled[group.ladder_of]
            elif (scale := known[group.n_rungs]).judge.rungs_rise:
                scale, posterior = place_targets(group.answers(verdicts), group.ladders, scale)
                settled = posterior.settled  # Scale.place gives each target a ladder for itself.
            scales.append(scale)
            # A scale that was given and does not see the rungs rise is useless, and nothing was placed on it.
            if scale.useless:
                rows |= {index: texts[index].unscored(scale.useless) for index in group.members}
                continue
            low, high = posterior.interval(LEVEL)
            columns = [posterior.mean, posterior.sd, low, high, posterior.extrapolated()]
            numbers = np.stack(columns, axis=1).tolist()
            for index, values, at_rest in zip(group.members, numbers, settled.tolist(), strict=True):
                note = "" if at_rest else UNSETTLED
                rows[index] = _score_text(texts[index], verdicts, values, met.get(index), note)
        return rows, Scales(scales)


def _score_text(text: OnLadder, verdicts: Verdicts, values: Sequence[float], met: bool | None, note: str) -> Score:
    """values : mean, sd, low, high, extrapolated. met : whether the stop rule was met; None: there is none"""
    pairs = list(text.pairs)
    questions: dict[str, float] = {}
    if met is not None:
        asked = verdicts.asked[:, pairs]
        n_sides = len(verdicts.answers) // max(verdicts.asked.size, 1)
        questions = {"questions": int(asked.sum()) * n_sides, "questions_full": asked.size * n_sides, "met": float(met)}
    given = text.verdicts(verdicts)
    known = {verdict.level for verdict in given}
    missing = text.missing(verdicts, known)
    if not known:
        return text.unscored(missing[0], questions)
    known_pairs = [pair for pair, level in zip(pairs, text.levels, strict=True) if level in known]
    unreported = unreported_note(np.nanmax(verdicts.unreported[:, known_pairs]))
    mass = verdicts.answers.label_mass.reshape(-1, len(verdicts))
    value, stderr, low, high, extrapolated = values
    details = {
        "n_rungs": float(text.ladder.n_rungs),
        "extrapolated": extrapolated,
        "label_mass": float(np.fmin.reduce(mass[:, pairs], axis=None)),
    }
    return Score(
        id=text.target.id,
        context_id=text.target.context_id,
        attribute=text.attribute,
        value=value,
        stderr=stderr,
        low=low,
        high=high,
        n_comparisons=len(known),
        reason="; ".join(filter(None, [*missing, unreported, note])),
        details=details | questions,
        verdicts=given,
    )
