"""Absolute quality scores for generated texts: a judge compares each text with a ladder of synthetic references.

    >>> import synthscore as ss
    >>> scorer = ss.Scorer("ladders/", "nano", attribute="coherence")
    >>> scores = scorer.score([{"id": "1", "context_id": "news-7", "text": "..."}])
    >>> scores[0].value, scores[0].status

Names are loaded when they are first used, so that `import synthscore` costs nothing. Each room of the package has more
of them (docs/architecture.md).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__ as __version__

if TYPE_CHECKING:
    from .checking.check import check as check
    from .engines import open_engine as open_engine
    from .errors import SynthscoreError as SynthscoreError
    from .evaluation import evaluate as evaluate
    from .evaluation.ratings import Ratings as Ratings
    from .io.scores import Scores as Scores
    from .judging.asking import Asking as Asking
    from .judging.templates import load_task as load_task
    from .ladders.degraded import DegradedWriter as DegradedWriter
    from .ladders.prompted import PromptedWriter as PromptedWriter
    from .ladders.references import References as References
    from .ladders.write import generate_ladders as generate_ladders
    from .ranking import ComparisonSets as ComparisonSets
    from .ranking import Selection as Selection
    from .ranking import compare as compare
    from .ranking import rank as rank
    from .scoring.anchored import Anchored as Anchored
    from .scoring.anchored import Scales as Scales
    from .scoring.methods import register_method as register_method
    from .scoring.paper import Paper as Paper
    from .scoring.scorer import Scorer as Scorer
    from .store.engine import StoredEngine as StoredEngine
    from .store.file import Store as Store
    from .thresholds.calibrate import calibrate as calibrate
    from .thresholds.certificate import Certificate as Certificate
    from .thresholds.certificate import Guarantee as Guarantee
    from .thresholds.filter import filter as filter
    from .thresholds.labels import Labelled as Labelled
    from .thresholds.rules import AtLeast as AtLeast
    from .thresholds.rules import MinScore as MinScore
    from .types import Context as Context
    from .types import Ladder as Ladder
    from .types import Rung as Rung
    from .types import Score as Score
    from .types import Target as Target

_HOMES = {
    "checking.check": ("check",),
    "engines": ("open_engine",),
    "errors": ("SynthscoreError",),
    "evaluation": ("evaluate",),
    "evaluation.ratings": ("Ratings",),
    "io.scores": ("Scores",),
    "judging.asking": ("Asking",),
    "judging.templates": ("load_task",),
    "ladders.degraded": ("DegradedWriter",),
    "ladders.prompted": ("PromptedWriter",),
    "ladders.references": ("References",),
    "ladders.write": ("generate_ladders",),
    "ranking": ("ComparisonSets", "Selection", "compare", "rank"),
    "scoring.anchored": ("Anchored", "Scales"),
    "scoring.methods": ("register_method",),
    "scoring.paper": ("Paper",),
    "scoring.scorer": ("Scorer",),
    "store.engine": ("StoredEngine",),
    "store.file": ("Store",),
    "thresholds.calibrate": ("calibrate",),
    "thresholds.certificate": ("Certificate", "Guarantee"),
    "thresholds.filter": ("filter",),
    "thresholds.labels": ("Labelled",),
    "thresholds.rules": ("AtLeast", "MinScore"),
    "types": ("Context", "Ladder", "Rung", "Score", "Target"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = sorted([*_HOME, "__version__"])


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'synthscore' has no attribute {name!r}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)


def __dir__() -> list[str]:
    return __all__
