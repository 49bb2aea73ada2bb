"""Pairs of texts + engine + how it is asked -> Verdicts. The one place that asks a judge about pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .._version import __version__
from ..engine import Engine, LabelLogProbs, OtherToken, Progress, Prompt, label_log_probs
from ..errors import unusable
from ..signature import Signature
from ..types import BoolArray, FloatArray, IntArray
from .templates import Templates
from .verdicts import PROTOCOLS, TURNED, Pair, ProtocolName, Verdicts, read_verdicts, unanswered


@dataclass(frozen=True)
class Asking:
    """How a judge is asked about pairs of texts, and what counts as an answer. Checked when made: InputError."""

    protocol: ProtocolName = "compare"
    """compare: better, worse or similar; yes_no: better or not; yes_no_two_sided: and worse or not; choose: which"""

    both_orders: bool = False
    """ask about every pair in both orders and average: twice the questions, no position bias"""

    prompts: str = "default"
    """template set: default, paper, or a folder with templates of your own"""

    min_mass: float = 0.01
    """least probability, 0 to 1, that the labels have together for an answer to count"""

    max_unreported: float = 0.02
    """the most by which labels that a server did not report may change a probability for an answer to count"""

    def __post_init__(self) -> None:
        if self.protocol not in PROTOCOLS:
            raise unusable("protocol", self.protocol, f"one of {', '.join(PROTOCOLS)}")
        if not isinstance(self.both_orders, bool):
            raise unusable("both_orders", self.both_orders, "True or False")
        for name in ("min_mass", "max_unreported"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
                raise unusable(name, value, "a number from 0 to 1")

    @property
    def n_orders(self) -> int:
        return 2 if self.both_orders else 1

    @property
    def n_sides(self) -> int:
        """Questions about a pair in one order."""
        return 2 if self.protocol == "yes_no_two_sided" else 1

    @property
    def n_questions(self) -> int:
        """Questions about a pair."""
        return self.n_orders * self.n_sides

    def signature(self, engine: Engine, templates: Templates) -> Signature:
        """What verdicts depend on."""
        template = "yes_no" if self.protocol == "yes_no_two_sided" else self.protocol
        return Signature.of(synthscore=__version__, **dict(engine.signature.parts)).with_(
            template=f"{templates.name}/{template}@{templates.hash(template)}",
            protocol=self.protocol,
            labels=",".join(PROTOCOLS[self.protocol]),
            orders=self.n_orders,
        )

    def unanswered(self, answers: LabelLogProbs) -> dict[int, str]:
        """Row -> why it counts as no answer."""
        return unanswered(answers, self.min_mass, self.max_unreported)


def ask(
    pairs: Sequence[Pair],
    engine: Engine,
    templates: Templates,
    asking: Asking = Asking(),
    progress: Progress | None = None,
) -> Verdicts:
    """Ask the judge about every pair.

    templates : the prompts; of another set than asking.prompts if the caller wants
    raises : TemplateError, TaskError, LabelError. A prompt that is too long fails its pair alone.
    """
    inquiry = Inquiry(pairs, engine, templates, asking)
    inquiry.ask_all(progress)
    return inquiry.verdicts()


class Inquiry:
    """Pairs that are asked about in several calls: each question once, some of them perhaps never."""

    def __init__(self, pairs: Sequence[Pair], engine: Engine, templates: Templates, asking: Asking = Asking()) -> None:
        self.pairs, self.engine, self.templates, self.asking = pairs, engine, templates, asking
        self._calls: list[tuple[IntArray, LabelLogProbs]] = []  # rows of Verdicts.answers, and what was answered

    @property
    def signature(self) -> Signature:
        return self.asking.signature(self.engine, self.templates)

    @property
    def n_asked(self) -> int:
        """Questions so far."""
        return sum(len(rows) for rows, _ in self._calls)

    def ask_all(self, progress: Progress | None = None) -> None:
        """Every question about every pair."""
        n_orders, n_pairs = self.asking.n_orders, len(self.pairs)
        self.ask(np.tile(np.arange(n_pairs), n_orders), np.repeat([False, True][:n_orders], n_pairs), progress)

    def ask(self, pair: IntArray, swapped: BoolArray, progress: Progress | None = None) -> FloatArray:
        """The verdicts on these pairs' targets: better, worse, similar, shape (n, 3); NaN where there is no answer.

        pair : indices in `pairs`. swapped : ask about the reference instead
        raises : as `ask`
        """
        protocol, n_sides = self.asking.protocol, self.asking.n_sides
        sides = np.arange(n_sides)[:, None]
        rows = ((swapped.astype(np.int64) * n_sides + sides) * len(self.pairs) + pair).ravel()
        prompts = [
            prompt_of(self.pairs[k], self.templates, protocol, swapped=turned, worse=bool(side))
            for side in range(n_sides)
            for k, turned in zip(pair.tolist(), swapped.tolist(), strict=True)
        ]
        answers = label_log_probs(self.engine, prompts, PROTOCOLS[protocol], progress)
        self._calls.append((rows, answers))
        probs = answers.probs
        probs[list(self.asking.unanswered(answers))] = np.nan
        verdicts = read_verdicts(protocol, probs.reshape(n_sides, len(pair), len(answers.labels)))[0]
        turned_back: FloatArray = np.where(swapped[:, None], verdicts[:, TURNED], verdicts)
        return turned_back

    def verdicts(self) -> Verdicts:
        """On all that was asked."""
        n_orders, n_sides, n_pairs = self.asking.n_orders, self.asking.n_sides, len(self.pairs)
        answers, asked = self._together()
        failures = self.asking.unanswered(answers)
        probs, unreported = answers.probs, answers.unreported.reshape(n_orders * n_sides, n_pairs)
        probs[list(failures)] = np.nan
        by_order = read_verdicts(self.asking.protocol, probs.reshape(*unreported.shape, len(answers.labels)))
        by_order[1:] = by_order[1:, :, TURNED]
        better, worse, similar = (by_order.sum(axis=0) / n_orders).T  # NaN where one order has no answer
        known = ~np.isnan(unreported)
        return Verdicts(
            better=better,
            worse=worse,
            similar=similar,
            by_order=by_order,
            label_mass=answers.label_mass.reshape(unreported.shape).min(axis=0),
            unreported=np.where(known, unreported, 0).sum(axis=0)
            / np.where(known.any(axis=0), known.sum(axis=0), np.nan),
            answers=answers,
            signature=self.signature,
            failures={row % n_pairs: reason for row, reason in sorted(failures.items(), reverse=True) if asked[row]},
            asked=asked.reshape(n_orders, n_sides, n_pairs)[:, 0],
        )

    def _together(self) -> tuple[LabelLogProbs, BoolArray]:
        """The answers to all calls, one row a question, and which of them were asked."""
        labels = PROTOCOLS[self.asking.protocol]
        n_rows = self.asking.n_questions * len(self.pairs)
        asked, log_probs = np.zeros(n_rows, dtype=bool), np.full((n_rows, len(labels)), np.nan)
        others: list[OtherToken | None] = [None] * n_rows
        failures: dict[int, str] = {}
        censored, floors = np.zeros(log_probs.shape, dtype=bool), np.full(log_probs.shape, -np.inf)
        for rows, answers in self._calls:
            asked[rows], log_probs[rows] = True, answers.log_probs
            for row, other in zip(rows.tolist(), answers.other_tokens, strict=False):  # some engines report none
                others[row] = other
            failures |= {int(rows[row]): reason for row, reason in answers.failures.items()}
            if answers.censored is not None:
                censored[rows] = answers.censored
                floors[rows] = -np.inf if answers.floors is None else answers.floors
        failures |= dict.fromkeys(np.flatnonzero(~asked).tolist(), "not asked")
        naive, computed = (sum(getattr(a, f"tokens_{name}") for _, a in self._calls) for name in ("naive", "computed"))
        limits = (censored, floors) if censored.any() else (None, None)
        reported = all(answers.mass_reported for _, answers in self._calls)
        return LabelLogProbs(labels, log_probs, tuple(others), failures, naive, computed, *limits, reported), asked


def prompt_of(
    pair: Pair, templates: Templates, protocol: ProtocolName, *, swapped: bool = False, worse: bool = False
) -> Prompt:
    """What the judge is asked about a pair. swapped : about the reference; worse : whether it is worse (yes_no)"""
    attribute = templates.task.attribute(pair.attribute)
    target, reference = (pair.reference, pair.target) if swapped else (pair.target, pair.reference)
    if protocol == "choose":
        return templates.choose(pair.context, attribute, first=reference, second=target)
    if protocol == "compare":
        return templates.compare(pair.context, attribute, target=target, reference=reference)
    return templates.yes_no(pair.context, attribute, target=target, reference=reference, worse=worse)
