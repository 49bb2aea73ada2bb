"""What `score` and `filter` share: how texts are scored, and what is reported of the scores."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from cyclopts import Parameter

from ..judging.asking import Asking
from .exits import UsageError, usage
from .jury import jury_lines
from .messages import Messages
from .options import Count, Positive, given
from .talk import counted, spaced

if TYPE_CHECKING:
    from ..scoring.anchored import Scale
    from ..scoring.anchored.adaptive import Stop
    from ..scoring.anchored.drift import Drift
    from ..scoring.ladder import Scoring
    from ..scoring.method import Method
    from ..scoring.scored import Counts, LadderKind
    from ..scoring.votes import Jury


@Parameter(name="*", group="scoring")
@dataclass(frozen=True, kw_only=True)
class ScoringOptions:
    """How verdicts become scores."""

    scoring: Literal["paper", "anchored"] = "paper"
    "the paper's sum, or positions on the rung scale with errors, by a model of the judge"
    samples: Positive | None = None
    "with paper: score from so many labels drawn from the probabilities (default: from the exact probabilities)"
    scale: str | None = None
    "with anchored: file that --save-scale wrote; each text is placed alone (default: fitted to the texts at hand)"
    save_scale: str | None = None
    "with anchored: file to write the judge and ladders to, JSON"
    seed: Count | None = None
    "of --samples (default: 0)"
    adaptive: bool = False
    """with --scale and --min-score: ask about each text in rounds, until the rest of its ladder would hardly take its
    score to the other side (docs/adaptive.md)"""

    def make_scoring(self, min_score: float | None = None, alpha: float | None = None) -> Scoring:
        """The scoring that the options name. min_score, alpha : what --adaptive is to make clear

        raises : UsageError for options that do nothing together; InputError for a file that holds no scales
        """
        from ..scoring.anchored import Anchored
        from ..scoring.paper import Paper

        other = "paper" if self.scoring == "anchored" else "anchored"
        idle = [(option, f"--scoring {other}") for option in given(self) if option in _ONLY[other]]
        if self.seed is not None and self.samples is None:
            idle.append((f"--seed {self.seed}", "--samples N"))
        if idle:
            raise UsageError(f"{idle[0][0]} changes nothing without {idle[0][1]}. Leave it out, or add that")
        if self.save_scale and self.scale:
            raise UsageError("--save-scale would write what --scale names. Leave one of them out")
        if self.adaptive and not self.scale:
            raise UsageError(
                "--adaptive needs to know the judge and the ladders: --scoring anchored --scale FILE. Make the file "
                "from some of the texts, asked in full: synthscore score SOME --scoring anchored --save-scale FILE"
            )
        if self.scoring == "anchored":
            return Anchored(self.scale, stop=self._stop(min_score, alpha))
        with usage():
            return Paper(self.samples, self.seed or 0)

    def _stop(self, min_score: float | None, alpha: float | None) -> Stop | None:
        """When --adaptive is done with a text."""
        from ..scoring.anchored.adaptive import SameDecision, Sure

        if not self.adaptive:
            return None
        if min_score is None:
            raise UsageError("--adaptive needs a threshold, on one side of which each text is. Give --min-score X")
        with usage():
            return SameDecision(min_score) if alpha is None else Sure(min_score, alpha)


@Parameter(name="*", group="scoring")
@dataclass(frozen=True, kw_only=True)
class MethodOptions(ScoringOptions):
    """How texts get their scores."""

    method: str = "ladder"
    """how texts get their scores, NAME or NAME:OPTION=VALUE,...: ladder, place, decision-score, direct, g-eval, or one
    that is installed (docs/methods.md); the other options here are of ladder. To order texts: rank --method"""

    def make_method(
        self,
        asking: Asking,
        min_score: float | None = None,
        alpha: float | None = None,
        *,
        n_judges: int,
        sharded: bool,
    ) -> Method:
        """The method that the options name.

        n_judges : that score together. sharded : whether some of the contexts are scored alone
        raises : UsageError for options that do nothing together; InputError; MethodError
        """
        from ..scoring.jury import require_fitted_errors
        from ..scoring.scorer import make_method

        own = [option for option in given(self) if option != "--method"]
        if own and self.method.partition(":")[0] != "ladder":
            raise UsageError(f"{own[0]} changes nothing with --method {self.method}. Leave one of them out")
        method = make_method(self.method, self.make_scoring(min_score, alpha))
        if not method.asks_pairs and (asking.both_orders or asking.protocol != Asking().protocol):
            option = "--both-orders" if asking.both_orders else f"--protocol {asking.protocol}"
            raise UsageError(f"{option} changes nothing with --method {self.method}, which compares no two texts")
        if self.save_scale and n_judges > 1:
            raise UsageError("--save-scale is of one judge, and several are named. Leave one of them out")
        with usage():
            if n_judges > 1:
                require_fitted_errors(method)
            if sharded:
                method.require_alone()
        return method


_ONLY = {"paper": ("--samples",), "anchored": ("--scale", "--save-scale")}
"""Options that change nothing without this scoring."""


# ------------------------------------------------------------------------------------------------- what is reported


def asked_line(asking: Asking, counts: Counts) -> str:
    """What was asked and what came of it."""
    factors = {"target": counts.n_targets, "attribute": counts.n_attributes, "rung": counts.n_rungs}
    factors |= {"order": asking.n_orders, "side": asking.n_sides}
    asked = counted(counts.n_questions, "question")
    if counts.n_questions and math.prod(factors.values()) == counts.n_questions:
        shown = [counted(n, noun) for noun, n in factors.items() if n > 1 or noun in ("target", "rung")]
        asked = f"{' x '.join(shown)} = {asked}"
    else:
        asked = f"{counted(counts.n_targets, 'target')}, {counted(counts.n_attributes, 'attribute')}: {asked}"
    if full := counts.n_full:
        saved = f"{100 - 100 * counts.n_in_rounds / full:.0f} % saved"
        asked += f", {spaced(counts.n_in_rounds)} of {spaced(full)} about texts ({saved})"
    n_unscored = counts.statuses["unscored"]
    found = f"{counts.statuses['ok']} scored" + f", {n_unscored} unscored" * (n_unscored > 0)
    unmet = f"; the rule is not met by {counted(counts.n_unmet, 'score')} on which all was asked"
    return f"{asked}; {found}{unmet * (counts.n_unmet > 0)}"


def tell_drift(drifts: Sequence[Drift], messages: Messages) -> None:
    """What has changed since a scale or certificate was made: a warning where scores or decisions do not hold."""
    for drift in drifts:
        if drift.holds or drift.verdict == "unknown":
            messages.note(drift.words)
        else:
            messages.warn(drift.words)


def ladder_jury_lines(juries: Mapping[LadderKind, Jury]) -> Iterator[str]:
    """Who votes where several judges score."""
    return jury_lines({(attribute, f"{n_rungs} rungs"): jury for (_, attribute, n_rungs), jury in juries.items()})


def judge_lines(scales: Sequence[Scale]) -> list[str]:
    """What each judge is like, by the scales that it was fitted for."""
    shown = []
    models = [dict(scale.signature.parts).get("model", "") for scale in scales]
    for scale, model in zip(scales, models, strict=True):
        judge = scale.judge
        name = f"{scale.attribute}, {scale.n_rungs} rungs"
        if len(set(models)) > 1:
            name = f"{model}: {name}"
        if why := scale.useless:
            shown.append(f"{name}: {why}")
            continue
        better, worse, similar = judge.probs(np.array(judge.position_bias))
        ties = f"{100 * judge.probs(np.array(0.0))[2]:.0f} % similar for equal texts" if similar else "no ties"
        bias = (
            f"position bias {judge.position_bias:+.2f} nats (better {better:.2f}, worse {worse:.2f} for equal texts)"
            if judge.bias_known
            else "position bias not known (one order, no rungs against rungs), taken as 0"
        )
        shift, stretch, uneven = judge.rung_sd
        shown.append(f"{name}: judge tells {judge.discrimination:.2f} nats a rung, {ties}; {bias}")
        shown.append(
            f"  {judge.n_ladders} ladders: single rungs are off by {uneven:.2f}; their lengths differ by "
            f"{100 * stretch:.0f} %, or the judge's sharpness by {100 * judge.sharpness_sd:.0f} % (texts tell one from "
            f"the other to {100 * judge.sharpness_told:.0f} %, the rest is shared); what sets contexts apart: ladders "
            f"{shift:.2f}, texts {judge.context_sd:.2f} rungs"
            + ("" if judge.converged else "; the fit did NOT converge")
        )
        shown.append(
            f"  correlation of the noise: {judge.pair_correlation:.2f} between answers about the same two texts, "
            f"{judge.rung_correlation:.2f} between those about neighbouring rungs"
        )
        if scale.falling:
            shown.append(
                f"  the judge puts {scale.falling_words} upside down: look at these ladders (references check). "
                "Texts are placed on them as they are seen"
            )
        rungs = judge.bias_sd / judge.discrimination
        if dict(scale.signature.parts).get("orders") == "1" and rungs >= 0.1:
            shown.append(
                f"  the position bias differs by {judge.bias_sd:.2f} nats from text to text, in one order a score "
                f"by {rungs:.2f} rungs: the errors count that, and --both-orders takes it out"
            )
    return shown
