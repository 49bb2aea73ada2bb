"""Rows + judges + a method -> scores, some rows at a time, and what became of them. What `score` and `filter` share.

In flat memory, unless the scores follow from all texts together: then all rows are held at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from ..engine import Engine, Progress
from ..errors import Reasons
from ..io.texts import ItemBatch
from ..signature import Signature
from .anchored.drift import Drift, Watch
from .anchored.scale import Scale
from .jury import score_by_jury
from .leaning import Leaning
from .method import Method
from .scored import Counts, LadderKind, Scored, ScoredBatch
from .scorer import Check, Planned, Scorer
from .votes import Jury

Judges = Mapping[str, AbstractContextManager[Engine]]
"""Engines by name, each opened when it is asked and closed afterwards. Several are a jury."""


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
class Tally:
    """What became of rows so far, in flat memory.

    counts : what was asked, and the statuses of the scores. why_unscored : reasons
    signatures : of what was asked about. scales : that scores are on. juries : of several judges, who votes
    watches : for drift, each by what it watches
    """

    counts: Counts = field(default_factory=Counts)
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
            if score.status == "unscored":
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
