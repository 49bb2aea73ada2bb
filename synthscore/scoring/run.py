"""Rows + judges + a method -> scores, some rows at a time, and what became of them. What `score` and `filter` share.

In flat memory, unless the scores follow from all texts together: then all rows are held at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from ..engine import Engine, Progress
from ..errors import Reasons
from ..io.files import ItemBatch
from ..signature import Signature
from ..types import Score
from .anchored.drift import Drift, Watch
from .anchored.scale import Scale
from .jury import score_by_jury
from .method import Method
from .scorer import Check, Counts, LadderKind, Planned, Scored, ScoredBatch, Scorer
from .votes import Jury

Judges = Mapping[str, AbstractContextManager[Engine]]
"""Engines by name, each opened when it is asked and closed afterwards. Several are a jury."""

CONTRADICTIONS = 0.75
"""Share of contradictions from which a judge says the same whatever is shown."""

ENOUGH, NEARLY_ALL = 30, 0.98
"""Verdicts that are enough to speak of, and the share of them that is nearly all."""


def score_rows(
    batches: Iterable[ItemBatch],
    judges: Judges,
    make_scorer: Callable[[Engine], Scorer],
    *,
    check: Check | None = None,
    planned: Planned | None = None,
    progress: Progress | None = None,
) -> Iterator[ScoredBatch]:
    """The scores of all rows, in their order, a batch at a time; of several judges, who score together, all at once.

    check, planned : as of Scorer.score_batches
    raises : as Scorer.score_batches; InputError where several judges score by a method that gives no errors
    """
    opened = {name: _open_scorer(engine, make_scorer) for name, engine in judges.items()}
    if len(opened) > 1:
        yield score_by_jury(batches, opened, check, planned, progress)
        return
    ((_, only_judge),) = opened.items()
    with only_judge as scorer:
        yield from scorer.score_batches(batches, check, planned, progress)


@contextmanager
def _open_scorer(engine: AbstractContextManager[Engine], make_scorer: Callable[[Engine], Scorer]) -> Iterator[Scorer]:
    with engine as judge:
        yield make_scorer(judge)


@dataclass(slots=True)
class Leaning:
    """Counts of verdicts, added up a batch of scores at a time.

    n_both, n_contradicting : pairs asked in both orders, and those in which the judge said the same both times
    n_one, n_better, n_worse : pairs asked in one order, and what was said of the text
    """

    n_both: int = 0
    n_contradicting: int = 0
    n_one: int = 0
    n_better: int = 0
    n_worse: int = 0

    def add(self, scores: Iterable[Score]) -> None:
        for score in scores:
            margins: dict[int, dict[bool, float]] = {}  # level of a rung -> swapped -> better - worse
            for verdict in score.verdicts:
                margins.setdefault(verdict.level, {})[verdict.swapped] = verdict.better - verdict.worse
            for by_order in margins.values():
                if len(by_order) == 2:
                    self.n_both += 1
                    self.n_contradicting += min(by_order.values()) < 0 < max(by_order.values())
                elif False in by_order:
                    self.n_one += 1
                    self.n_better += by_order[False] > 0
                    self.n_worse += by_order[False] < 0

    @property
    def words(self) -> str:
        """What speaks for a judge that says the same whatever it is shown; "" where nothing does, or verdicts are few.

        Of pairs asked in both orders: that it contradicts itself. In one order: that nearly all verdicts are the same,
        which may also be the texts.
        """
        if self.n_both >= ENOUGH and self.n_contradicting > CONTRADICTIONS * self.n_both:
            share = self.n_contradicting / self.n_both
            return (
                f"the judge contradicts itself in {share:.0%} of {self.n_both} pairs: asked about either text, it "
                "says the same, so that scores rest on small differences. See what it can with `synthscore doctor`"
            )
        for n_same, name in ((self.n_better, "better"), (self.n_worse, "worse")):
            if self.n_one >= ENOUGH and n_same >= NEARLY_ALL * self.n_one:
                return (
                    f"{n_same / self.n_one:.0%} of {self.n_one} verdicts find the text the {name} one: the texts are "
                    "beyond their ladders, or the judge says so whatever it is shown. Ask with --both-orders, or see "
                    "`synthscore doctor`"
                )
        return ""


@dataclass(slots=True)
class Tally:
    """What became of rows so far, in flat memory.

    counts : what was asked, and the statuses of the scores. why_partial, why_unscored : reasons
    signatures : of what was asked about. scales : that scores are on. juries : of several judges, who votes
    watches : for drift, each by what it watches
    """

    counts: Counts = field(default_factory=Counts)
    why_partial: Reasons = field(default_factory=Reasons)
    why_unscored: Reasons = field(default_factory=Reasons)
    signatures: dict[Signature, None] = field(default_factory=dict)
    scales: Sequence[Scale] = ()
    juries: Mapping[LadderKind, Jury] = field(default_factory=dict)
    leaning: Leaning = field(default_factory=Leaning)
    watches: dict[object, Watch] = field(default_factory=dict)

    def add(self, scored: Scored, method: Method) -> None:
        """Count some scores, which this method gave."""
        self.counts += scored.counts
        self.signatures |= dict.fromkeys(scored.used)
        self.scales = scored.scales
        self.juries = scored.juries
        if method.alone:  # on scales that were kept
            for scale in scored.scales:
                self.watches.setdefault(scale.n_rungs, Watch.scale(scale))
        for watch in self.watches.values():
            watch.add(scored)
        for score, _ in scored:
            if score.status == "partial":
                self.why_partial.add(*score.reasons)
            elif score.status == "unscored":
                self.why_unscored.add(*score.reasons)
        self.leaning.add(score for score, _ in scored)

    @property
    def signature(self) -> Signature:
        """Of all that was asked about."""
        return Signature.merged(self.signatures)

    @property
    def drifts(self) -> list[Drift]:
        """What has changed since the scales, or a certificate, were made."""
        return [watch.drift() for watch in self.watches.values()]
