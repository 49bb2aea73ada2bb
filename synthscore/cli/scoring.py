"""What `score` and `filter` share: how texts are scored, and what is reported of the scores."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from cyclopts import Parameter

from ..errors import InputError
from ..judging.asking import Asking
from .options import UsageError, given
from .talk import counted, spaced

if TYPE_CHECKING:
    from ..scoring.anchored import Anchored, Scale
    from ..scoring.anchored.adaptive import Stop
    from ..scoring.paper import Paper
    from ..scoring.rows import Counts
    from ..signature import Signature

AskingOptions = Annotated[Asking, Parameter(name="*", group="judging")]


@Parameter(name="*", group="scoring")
@dataclass(frozen=True, kw_only=True)
class Scoring:
    """How verdicts become scores."""

    scoring: Literal["paper", "anchored"] = "paper"
    "the paper's sum, or positions on the rung scale with errors, by a model of the judge"
    samples: int | None = None
    "with paper: score from so many labels drawn from the probabilities (default: from the exact probabilities)"
    scale: str | None = None
    "with anchored: file that --save-scale wrote; each text is placed alone (default: fitted to the texts at hand)"
    save_scale: str | None = None
    "with anchored: file to write the judge and ladders to, JSON"
    debias: Literal["length"] | None = None
    "with anchored: take out what the judge makes of a text's length, as rungs of one level tell it"
    seed: int | None = None
    "of --samples (default: 0)"
    adaptive: bool = False
    "with --scale: ask about each text in rounds, until it is clear enough (docs/adaptive.md)"
    eps: float | None = None
    "with --adaptive --min-score: a text is done when its whole ladder would take its score to the other side of the "
    "threshold with at most this probability (default: 0.02)"

    def mode(
        self, min_score: float | None = None, alpha: float | None = None, width: float | None = None, ends: str = ""
    ) -> Paper | Anchored:
        """The scoring that the options name.

        min_score, alpha, width : when --adaptive is done with a text. ends : the options that say so
        raises : UsageError for options that do nothing together; InputError for a file that holds no scales
        """
        from ..scoring.anchored import Anchored
        from ..scoring.paper import Paper

        if self.seed is not None and self.samples is None:
            raise UsageError(f"--seed {self.seed} changes nothing without --samples N. Leave it out, or add that")
        other = "paper" if self.scoring == "anchored" else "anchored"
        for option in given(self):
            if option in _ONLY[other]:
                raise UsageError(f"{option} changes nothing without --scoring {other}. Leave it out, or add that")
        if self.scale and self.save_scale:
            raise UsageError("--save-scale would write what --scale names. Leave one of them out")
        with usage():
            stop = self._stop(min_score, alpha, width, ends)
            paper = Paper(self.samples, self.seed or 0)
        if self.scoring == "paper":
            return paper
        return Anchored(self.scale, debias=self.debias, stop=stop)

    def _stop(self, min_score: float | None, alpha: float | None, width: float | None, ends: str) -> Stop | None:
        """When --adaptive is done with a text; None without it."""
        from ..scoring.anchored.adaptive import Narrow, SameDecision, Sure

        if not self.adaptive:
            if self.eps is not None:
                raise UsageError("--eps changes nothing without --adaptive. Leave it out, or add that")
            return None
        if self.scoring != "anchored" or not self.scale:
            raise UsageError(
                "--adaptive needs to know the judge and the ladders: --scoring anchored --scale FILE. Make the file "
                "from some of the texts, asked in full: synthscore score SOME --scoring anchored --save-scale FILE"
            )
        if (width is None) == (min_score is None):
            raise UsageError(f"--adaptive needs one way to know when it is done with a text. Give {ends}")
        if sum(each is not None for each in (width, alpha, self.eps)) > 1:
            raise UsageError(
                "--width, --alpha and --eps each say when --adaptive is done with a text. Give one of them"
            )
        if width is not None:
            return Narrow(width)
        assert min_score is not None
        if alpha is not None:
            return Sure(min_score, alpha)
        return SameDecision(min_score) if self.eps is None else SameDecision(min_score, self.eps)


_ONLY = {"paper": ("--samples",), "anchored": ("--scale", "--save-scale", "--debias")}
"""Options that change nothing without this scoring."""


@contextmanager
def usage() -> Iterator[None]:
    """Nouns made of options. raises : UsageError for what they refuse"""
    try:
        yield
    except InputError as error:
        field = str(getattr(error, "field", "")).replace("_", "-")
        raise UsageError(str(error).replace(f"{field} is", f"--{field} is", 1) if field else str(error)) from error


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
    found = [f"{counts.statuses['ok']} scored"]
    found += [f"{n} {status}" for status in ("partial", "unscored") if (n := counts.statuses[status])]
    unmet = f"; the rule is not met by {counted(counts.n_unmet, 'score')} on which all was asked"
    return f"{asked}; {', '.join(found)}{unmet * (counts.n_unmet > 0)}"


def merged(signatures: Iterable[Signature]) -> str:
    """One line for all numbers: where they differ in a part, its values are listed."""
    values: dict[str, dict[str, None]] = {}
    for signature in signatures:
        for key, value in signature.parts:
            values.setdefault(key, {})[value] = None
    return "|".join(f"{key}:{','.join(each)}" for key, each in values.items())


def judge_lines(scales: Sequence[Scale]) -> list[str]:
    """What the judge is like, by the scales that it was fitted for."""
    shown = []
    for scale in scales:
        judge = scale.judge
        name = f"{scale.attribute}, {scale.n_rungs} rungs"
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
            f"  {judge.n_ladders} ladders: single rungs are off by {uneven:.2f}, lengths by {100 * stretch:.0f} %; "
            f"what sets contexts apart: ladders {shift:.2f}, texts {judge.context_sd:.2f} rungs"
            + ("" if judge.converged else "; the fit did NOT converge")
        )
        if judge.length_effect is not None and judge.length_stderr is not None:
            shown.append(
                f"  taken out: {judge.length_effect:+.2f} +- {judge.length_stderr:.2f} rungs for texts twice as long"
            )
    return shown
