"""Targets + references + judge -> Scores: every target is asked about against every rung of its ladder.

scoring="paper" is the paper's sum; scoring="anchored" places targets by a model of the judge
(synthscore.scoring.anchored).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from ..engine import Engine, Progress
from ..errors import InputError, LadderError
from ..io.scores import Scores
from ..judging.asking import Asking, Inquiry, ask
from ..judging.tasks import load_task
from ..judging.templates import Templates
from ..judging.verdicts import Pair, Verdicts
from ..ladders.references import References
from ..signature import Signature, text_hash
from ..types import FloatArray, Ladder, Score, Target, Verdict
from .anchored.adaptive import Stop
from .anchored.questions import ask_adaptively, grouped
from .anchored.scale import Scale
from .anchored.scores import LEVEL, UNSETTLED, fitted, placed, why_none
from .paper import paper_bound, paper_sum, rung_equivalent, sample_verdicts


class Scorer:
    """Scores texts on the scale of their ladders' rungs: 1 is as good as the worst rung, N as the best.

    references : the ladders (References). attribute, task : which of them; may be left out where they hold one.
    judge : an engine (open_engine). asking : how it is asked, and what counts as an answer.
    n_samples : None for exact probabilities; n to score from n labels drawn from them (arXiv:2509.05440, Table 2).
        What is drawn for a text depends on seed and on the text's ids alone; without an id, on its words.
    partial : what to do where a rung has no verdict. "report": the text is unscored, with low and high; "rescale": its
        score is the sum over the other rungs, stretched by (all rung weights / used rung weights), status "partial".
    rung_values : weights other than 1..N, worst rung first; the value is then the weighted sum itself.
    scoring : "paper", or "anchored": positions on the rung scale with errors (docs/anchored.md). n_samples, partial and
        rung_values are of "paper" alone.
    scale : for "anchored": scales fitted before, of this task and attribute, one for each length of ladder; each text
        is then placed alone. None: the scale is fitted to the texts of each call, which should be many.
    rungs_too : for "anchored": also ask about the rungs of each ladder against each other, N (N - 1) questions.
    targets_too : for "anchored" without a scale: also ask about each text against so many others of its context, drawn
        by seed; scores then depend on each other.
    debias : for "anchored": "length" takes out what the judge makes of length, as rungs of one level tell it.
    adaptive : for "anchored" with a scale: Narrow, Sure or SameDecision (synthscore.scoring.anchored.adaptive); each
        text is asked about in rounds, until it is met. `details` then hold `questions`, of its ladder `questions_full`,
        and `met`, 0.0 where the questions ran out before. On a scale that does not see the rungs rise, nothing is
        asked.

    An anchored score is a posterior mean; `stderr` and `low` to `high` (90 %) say how sure it is; a rung without a
    verdict only makes it less sure: status "ok", the reason names the rung. `details` hold `n_rungs`, `label_mass` and
    `extrapolated`, 1.0 where the value lies outside 1..N. `scales` are those of the last call of `score`.

    A paper score's `value` is the rung equivalent. A text that lacks some verdicts, or for which a server did not tell
    all labels, has `low` and `high`, the least and the greatest value that what is missing could still give it.
    `details` hold `raw` (the paper's sum) and `unit` (raw / its bound, in [-1, 1]), both of scored texts alone, and
    `label_mass` (the least over its comparisons).
    """

    def __init__(
        self,
        references: References,
        judge: Engine,
        *,
        attribute: str | None = None,
        task: str | None = None,
        asking: Asking = Asking(),
        n_samples: int | None = None,
        seed: int = 0,
        partial: Literal["report", "rescale"] = "report",
        rung_values: Sequence[float] | None = None,
        scoring: Literal["paper", "anchored"] = "paper",
        scale: Scale | Sequence[Scale] | None = None,
        rungs_too: bool = True,
        targets_too: int = 0,
        debias: Literal["length"] | None = None,
        adaptive: Stop | None = None,
    ) -> None:
        if partial not in ("report", "rescale"):
            raise ValueError(f"partial is {partial!r}, expected 'report' or 'rescale'")
        if n_samples is not None and n_samples < 1:
            raise ValueError(f"n_samples is {n_samples}, expected at least 1, or None for exact probabilities")
        if scoring not in ("paper", "anchored"):
            raise ValueError(f"scoring is {scoring!r}, expected 'paper' or 'anchored'")
        if scoring == "anchored" and (n_samples is not None or partial == "rescale" or rung_values is not None):
            raise ValueError("n_samples, partial='rescale' and rung_values are of scoring='paper', not of 'anchored'")
        if debias not in (None, "length"):
            raise ValueError(f"debias is {debias!r}, expected 'length' or None")
        if scoring == "paper" and (scale is not None or debias is not None):
            raise ValueError("a scale and debias are for scoring='anchored', not for 'paper'")
        self.references = references
        self.judge = judge
        self.task = load_task(_only(task, references.tasks, "task"))
        self.attribute = _only(attribute, references.attributes, "attribute")
        self.task.attribute(self.attribute)
        self.asking = asking
        self.templates = Templates(self.task, asking.prompts)
        self.n_samples, self.seed, self.partial = n_samples, seed, partial
        self.rung_values = None if rung_values is None else tuple(map(float, rung_values))
        self.scoring, self.rungs_too, self.debias = scoring, rungs_too, debias
        _check_asking(scoring, scale is not None, adaptive, targets_too)
        self.adaptive, self.targets_too = adaptive, targets_too
        self.scale = self._own([scale] if isinstance(scale, Scale) else scale)
        self.scales: tuple[Scale, ...] = ()

    @property
    def signature(self) -> Signature:
        """What the scores' numbers depend on."""
        return self._signed(self.asking.signature(self.judge, self.templates))

    def score(self, targets: Sequence[Target | Mapping[str, Any]], progress: Progress | None = None) -> Scores:
        """One Score a target, in the order given. A target that cannot be scored is "unscored", with the reason.

        targets : Targets, or mappings with id, context_id, text (and system)
        raises : InputError for a mapping that is no target, or a ladder with another number of rungs than rung_values,
            before anything is asked; LabelError, TemplateError
        """
        texts = [target if isinstance(target, Target) else _target(target) for target in targets]
        ladders = [self._ladder(target) for target in texts]
        self._check_rung_values(ladders)
        pairs: list[Pair] = []
        by_target: dict[int, list[tuple[int, int]]] = {}  # place in pairs, level from 0
        for index, (target, ladder) in enumerate(zip(texts, ladders, strict=True)):
            if isinstance(ladder, str):
                continue
            assert ladder.context is not None
            for rung in ladder.usable:
                by_target.setdefault(index, []).append((len(pairs), rung.level - 1))
                pairs.append(Pair(ladder.context, self.attribute, target.text, rung.text))
        if self.scoring == "anchored":
            return self._anchored(texts, ladders, pairs, by_target, progress)
        verdicts = ask(pairs, self.judge, self.templates, self.asking, progress)
        rows = []
        for index, (target, ladder) in enumerate(zip(texts, ladders, strict=True)):
            if isinstance(ladder, str):
                rows.append(self._unscored(target, ladder))
            else:
                rows.append(self._row(target, ladder, by_target.get(index, []), verdicts))
        return Scores(tuple(rows), self._signed(verdicts.signature))

    def _ladder(self, target: Target) -> Ladder | str:
        """The target's ladder, or why there is none."""
        try:
            ladder = self.references.find(target.context_id, self.attribute, self.task.name)
        except LadderError as error:
            return str(error)
        if ladder.context is None:
            return f"ladder {ladder.context_id}/{ladder.attribute} does not carry its context's text"
        if not ladder.usable:
            return f"ladder {ladder.context_id}/{ladder.attribute}: all rungs failed. {ladder.rungs[0].reason}"
        return self._off_scale(ladder) or ladder

    def _check_rung_values(self, ladders: Sequence[Ladder | str]) -> None:
        """raises : InputError where a ladder has another number of rungs"""
        if self.rung_values is None:
            return
        for ladder in ladders:
            if isinstance(ladder, Ladder) and ladder.n_rungs != len(self.rung_values):
                raise InputError(
                    f"cannot score on ladder {ladder.context_id}/{ladder.attribute}: rung_values are "
                    f"{len(self.rung_values)} numbers, expected {ladder.n_rungs}, one a rung, worst first. Give as "
                    "many, or score ladders of each length apart",
                    field="rung_values",
                    value=self.rung_values,
                )

    def _row(
        self,
        target: Target,
        ladder: Ladder,
        asked: list[tuple[int, int]],
        verdicts: Verdicts,
    ) -> Score:
        rng = self._rng(target) if self.n_samples is not None else None
        better, worse = np.full(ladder.n_rungs, np.nan), np.full(ladder.n_rungs, np.nan)
        slack = np.ones(ladder.n_rungs)
        for pair, level in asked:
            probs = np.array([verdicts.better[pair], verdicts.worse[pair], verdicts.similar[pair]])
            if rng is not None:
                probs = self._sampled(probs, rng)
            better[level], worse[level] = probs[:2]
            if not np.isnan(probs[0]):
                slack[level] = verdicts.unreported[pair]
        known = ~np.isnan(better)
        missing = [self._why(ladder, level, asked, verdicts) for level in np.flatnonzero(~known).tolist()]
        if not known.any():
            return self._unscored(target, missing[0])
        weights = np.arange(1.0, ladder.n_rungs + 1) if self.rung_values is None else np.array(self.rung_values)
        bound = paper_bound(ladder.n_rungs, weights)
        raw = float(paper_sum(better[None, known], worse[None, known], weights[known])[0])
        untold = ["the server did not report all labels"] if slack[known].any() else []
        low, high = None, None
        if missing or untold:  # a margin that is missing lies anywhere within [-1, 1]: its slack is 1
            below, above = _open(np.where(known, better - worse, 0.0), slack, weights)
            low, high = self._value(raw - below, ladder), self._value(raw + above, ladder)
        scored = not missing or self.partial == "rescale"
        if missing and scored:
            raw *= bound / float(np.abs(weights[known]).sum())
        return Score(
            id=target.id,
            context_id=target.context_id,
            attribute=self.attribute,
            value=self._value(raw, ladder) if scored else None,
            low=low,
            high=high,
            n_comparisons=int(known.sum()),
            status="ok" if not missing else "partial" if scored else "unscored",
            reason="; ".join([*missing, *untold]),
            details={
                **({"raw": raw, "unit": raw / bound} if scored else {}),
                "label_mass": float(np.nanmin([verdicts.label_mass[pair] for pair, _ in asked])),
            },
            verdicts=_said(asked, verdicts),
        )

    def _value(self, raw: float, ladder: Ladder) -> float:
        return raw if self.rung_values else float(rung_equivalent([raw], ladder.n_rungs)[0])

    def _rng(self, target: Target) -> np.random.Generator:
        """Its own for every text, so that a sampled score does not depend on its neighbours."""
        name = text_hash(target.drawn_by, target.context_id, self.attribute)
        return np.random.default_rng([self.seed, int(name[:16], 16)])

    def _sampled(self, probs: FloatArray, rng: np.random.Generator) -> FloatArray:
        assert self.n_samples is not None
        if self.asking.protocol == "yes_no_two_sided":  # two questions, each with its own yes and no
            sides = np.stack([probs[:2], 1 - probs[:2]], axis=-1)
            return np.append(sample_verdicts(sides, self.n_samples, rng)[:, 0], 0.0)
        return sample_verdicts(probs, self.n_samples, rng)

    def _why(self, ladder: Ladder, level: int, asked: list[tuple[int, int]], verdicts: Verdicts) -> str:
        rung = ladder.rungs[level]
        if rung.status == "failed":
            return f"rung {rung.level} has no text: {rung.reason}"
        pair = next(pair for pair, place in asked if place == level)
        return f"rung {rung.level}: {verdicts.failures[pair]}"

    def _unscored(self, target: Target, reason: str, details: Mapping[str, float] | None = None) -> Score:
        name = (target.id, target.context_id, self.attribute)
        return Score(*name, None, status="unscored", reason=reason, details=details or {})

    # ------------------------------------------------------------------------------------------------- anchored

    def _own(self, scales: Sequence[Scale] | None) -> dict[int, Scale] | None:
        """Length of ladder -> its scale. raises : InputError where none is of this task and attribute"""
        if scales is None:
            return None
        own = {s.n_rungs: s for s in scales if (s.task, s.attribute) == (self.task.name, self.attribute)}
        if not own:
            names = ", ".join(sorted({f"{s.task}/{s.attribute}" for s in scales})) or "none at all"
            raise InputError(
                f"there is no scale of {self.task.name}/{self.attribute} among those given, expected one. They are of: "
                f"{names}. Fit one with --save-scale"
            )
        for each in own.values():
            if (each.judge.length_effect is not None) != (self.debias == "length"):
                without = "without" if self.debias else "with"
                raise InputError(
                    f"the scale of {self.task.name}/{self.attribute} was fitted {without} debias='length', expected "
                    "what is asked for now. Use it as it was fitted, or fit one anew",
                    field="debias",
                )
        return own

    def _off_scale(self, ladder: Ladder) -> str:
        """Why the ladder cannot be used with the scale given; "" where it can."""
        if self.scale is None:
            return ""
        name = f"ladder {ladder.context_id}/{ladder.attribute}"
        if ladder.n_rungs not in self.scale:
            lengths = ", ".join(map(str, sorted(self.scale)))
            return f"{name} has {ladder.n_rungs} rungs, and there is only a scale for {lengths}. Fit one for its length"
        anchors = self.scale[ladder.n_rungs].ladders.get(ladder.context_id)
        if anchors is not None and anchors.ladder not in ("", ladder.hash):
            return f"{name} is not the one that the scale was fitted on: its texts have changed. Fit the scale anew"
        return ""

    def _anchored(
        self,
        texts: Sequence[Target],
        ladders: Sequence[Ladder | str],
        pairs: list[Pair],
        by_target: Mapping[int, list[tuple[int, int]]],
        progress: Progress | None,
    ) -> Scores:
        """pairs : of targets and rungs; those among rungs, and among targets, are added"""
        groups = grouped(texts, ladders, by_target, self.debias is not None)
        known, both = self.scale or {}, self.asking.both_orders
        for group in groups:
            if self.rungs_too:
                there = known[group.n_rungs].ladders if known else ()
                pairs += group.among_rungs(self.attribute, there, len(pairs), both)
            pairs += group.among_targets(
                self.attribute, self.targets_too, self.seed, len(pairs), self.asking.both_orders
            )
        inquiry = Inquiry(pairs, self.judge, self.templates, self.asking)
        for group in groups if known else ():
            known[group.n_rungs].check(inquiry.signature.with_(task=self.task.name, attribute=self.attribute))
        met: dict[int, bool] = {}
        if self.adaptive is None:
            inquiry.ask_all(progress)
        else:
            met = ask_adaptively(inquiry, groups, known, self.adaptive, progress)
        verdicts = inquiry.verdicts()
        rows = {i: self._unscored(texts[i], reason) for i, reason in enumerate(ladders) if isinstance(reason, str)}
        scales = []
        for group in groups:
            if self.adaptive is not None and (none := why_none(known[group.n_rungs])):  # nothing was asked
                scales.append(known[group.n_rungs])
                rows |= {index: self._unscored(texts[index], none) for index in group.members}
                continue
            judged = group.asked(verdicts)
            if known:
                scale, posterior = placed(judged, group.ladders, known[group.n_rungs])
            else:
                scale, posterior = fitted(judged, group.ladders, self.task.name, self.attribute, verdicts.signature)
            scales.append(scale)
            low, high = posterior.interval(LEVEL)
            numbers = np.stack([posterior.mean, posterior.sd, low, high, posterior.extrapolated()], axis=1).tolist()
            settled = posterior.settled if known else posterior.settled[group.place]  # on a scale, each has a ladder
            for index, target, values, still in zip(group.members, group.texts, numbers, settled.tolist(), strict=True):
                ladder = group.ladders[target.context_id]
                questions = self._questions(by_target[index], verdicts, met[index]) if index in met else {}
                notes = [] if still else [UNSETTLED]
                rows[index] = self._position(
                    target, ladder, by_target[index], verdicts, values, why_none(scale), questions, notes
                )
        self.scales = tuple(scales)
        return Scores(tuple(rows[index] for index in range(len(texts))), self._signed(verdicts.signature))

    def _position(
        self,
        target: Target,
        ladder: Ladder,
        asked: list[tuple[int, int]],
        verdicts: Verdicts,
        values: Sequence[float],
        none: str,
        questions: Mapping[str, float],
        notes: Sequence[str],
    ) -> Score:
        """none : why nothing can be placed, or "". notes : what else the score's reason says"""
        said = _said(asked, verdicts)
        known = {verdict.level - 1 for verdict in said}
        open_ = {level for pair, level in asked if pair not in verdicts.failures}  # perhaps never asked about
        missing = [self._why(ladder, k, asked, verdicts) for k in range(ladder.n_rungs) if k not in known | open_]
        if none or not known:
            return self._unscored(target, none or missing[0], questions)
        untold = any(verdicts.unreported[pair] > 0 for pair, level in asked if level in known)
        mass = verdicts.answers.label_mass.reshape(-1, len(verdicts))
        value, stderr, low, high, extrapolated = values
        return Score(
            id=target.id,
            context_id=target.context_id,
            attribute=self.attribute,
            value=value,
            stderr=stderr,
            low=low,
            high=high,
            n_comparisons=len(known),
            reason="; ".join([*missing, *["the server did not report all labels"] * untold, *notes]),
            details={
                "n_rungs": float(ladder.n_rungs),
                "extrapolated": extrapolated,
                "label_mass": float(np.nanmin(mass[:, [pair for pair, _ in asked]])),
                **questions,
            },
            verdicts=said,
        )

    def _questions(self, asked: list[tuple[int, int]], verdicts: Verdicts, met: bool) -> dict[str, float]:
        """How much was asked about a target in rounds. asked : (pair, level from 0) of each rung"""
        assert verdicts.asked is not None
        were = verdicts.asked[:, [pair for pair, _ in asked]]
        n_sides = len(verdicts.answers) // max(verdicts.asked.size, 1)
        return {"questions": int(were.sum()) * n_sides, "questions_full": were.size * n_sides, "met": float(met)}

    def _signed(self, asked: Signature) -> Signature:
        """asked : of the verdicts"""
        scoring = "paper" if self.n_samples is None else f"paper,samples={self.n_samples},seed={self.seed}"
        if self.scoring == "anchored":
            scales = self.scales if self.scale is None else tuple(self.scale.values())
            debiased = f",debias={self.debias}" if self.debias else ""
            adaptive = "" if self.adaptive is None else f",adaptive={self.adaptive!r}".replace(" ", "")
            others = f",targets_too={self.targets_too},seed={self.seed}" if self.targets_too else ""
            name = f"anchored{debiased}{others}{adaptive}"
            scoring = ",scale=".join([name, *sorted(scale.hash[:12] for scale in scales)])
        if self.partial == "rescale":
            scoring += ",rescaled"
        if self.rung_values:
            scoring += f",rung_values={'/'.join(f'{value:g}' for value in self.rung_values)}"
        return asked.with_(
            task=self.task.name, attribute=self.attribute, references=self.references.hash[:12], scoring=scoring
        )


def _check_asking(scoring: str, has_scale: bool, adaptive: Stop | None, targets_too: int) -> None:
    """raises : InputError for ways of asking that do not exist together"""
    if adaptive is not None and not callable(getattr(adaptive, "met", None)):
        raise InputError(
            f"adaptive is {adaptive!r}, expected a stop rule. Take Narrow, Sure or SameDecision of "
            "synthscore.scoring.anchored.adaptive",
            field="adaptive",
            value=adaptive,
        )
    if adaptive is not None and not (scoring == "anchored" and has_scale):
        given = "no scale" if scoring == "anchored" else f"scoring={scoring!r}"
        raise InputError(
            f"adaptive is {adaptive!r} with {given}, expected scoring='anchored' and a scale: without one, the first "
            "answers do not say where a text stands. Score some texts in full with scoring='anchored', keep the scale "
            "(`scales`, --save-scale), and give it as scale",
            field="scale",
        )
    if targets_too < 0 or targets_too != int(targets_too):
        raise InputError(
            f"targets_too is {targets_too!r}, expected 0 or the number of texts that each is held against. Give it so",
            field="targets_too",
            value=targets_too,
        )
    if targets_too and (scoring != "anchored" or has_scale):
        given = "a scale" if has_scale else f"scoring={scoring!r}"
        raise InputError(
            f"targets_too is {targets_too} with {given}, expected scoring='anchored' without a scale: on a scale each "
            "text is placed alone, whatever the others are. Leave one of them out",
            field="targets_too",
            value=targets_too,
        )


def _said(asked: Sequence[tuple[int, int]], verdicts: Verdicts) -> tuple[Verdict, ...]:
    """What was said of a target, by rung and order. asked : (pair, level from 0) of each rung"""
    return tuple(
        Verdict(level + 1, bool(order), *said)
        for pair, level in asked
        for order, said in enumerate(verdicts.by_order[:, pair].tolist())
        if not np.isnan(said[0])
    )


def _open(margins: FloatArray, slack: FloatArray, weights: FloatArray) -> tuple[float, float]:
    """How much a weighted sum of margins, each off by up to 2 x slack within [-1, 1], may be too high and too low."""
    down, up = np.minimum(2 * slack, 1 + margins), np.minimum(2 * slack, 1 - margins)
    heavy = np.abs(weights)
    below, above = np.where(weights < 0, up, down) @ heavy, np.where(weights < 0, down, up) @ heavy
    return float(below), float(above)


def _only(name: str | None, names: Sequence[str], what: str) -> str:
    if name is not None:
        return name
    if len(names) != 1:
        raise LadderError(f"the references hold {len(names)} {what}s ({', '.join(names)}): say which, {what}=...")
    return names[0]


def _target(row: Mapping[str, Any]) -> Target:
    try:
        return Target(**row)
    except TypeError as error:
        message = f"target {dict(row)!r:.120}: {error}. Expected id, context_id, text and maybe system"
        raise InputError(message) from error
