"""Absolute quality scores for generated texts: a judge compares each text with a ladder of synthetic references.

    >>> import synthscore as ss
    >>> references = ss.References.load("ladders/")
    >>> scorer = ss.Scorer(references, ss.open_engine("nano"), attribute="coherence")
    >>> scores = scorer.score([{"id": "1", "context_id": "news-7", "text": "..."}])
    >>> scores[0].value, scores[0].status

Names are loaded when they are first used, so that `import synthscore` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from . import ranking
    from .engine import Sampling
    from .engines import open_engine
    from .errors import SynthscoreError
    from .evaluation import evaluate
    from .evaluation.methods import Tools, method
    from .evaluation.ratings import Ratings
    from .io.scores import Scores
    from .judging.asking import Asking, ask
    from .judging.tasks import load_task, task_names
    from .judging.templates import Templates
    from .judging.verdicts import Pair, Verdicts
    from .ladders.degraded import DegradedWriter
    from .ladders.prompted import PromptedWriter
    from .ladders.references import References
    from .ladders.write import generate_ladders
    from .scoring.anchored import Anchored, Scale, Scales
    from .scoring.paper import Paper
    from .scoring.scorer import Scorer
    from .signature import Signature
    from .store.engine import StoredEngine
    from .store.file import Store
    from .thresholds.calibrate import calibrate
    from .thresholds.certificate import Certificate, Guarantee
    from .thresholds.filter import filter
    from .thresholds.labels import Labelled
    from .thresholds.rules import AtLeast, MinScore
    from .types import Attribute, Context, Ladder, Rung, Score, Target, Task

_HOMES = {
    "io.scores": ("Scores",),
    "engine": ("Sampling",),
    "engines": ("open_engine",),
    "errors": ("SynthscoreError",),
    "evaluation": ("evaluate",),
    "evaluation.methods": ("Tools", "method"),
    "evaluation.ratings": ("Ratings",),
    "judging.tasks": ("load_task", "task_names"),
    "judging.templates": ("Templates",),
    "judging.asking": ("Asking", "ask"),
    "judging.verdicts": ("Pair", "Verdicts"),
    "ladders.references": ("References",),
    "ladders.degraded": ("DegradedWriter",),
    "ladders.prompted": ("PromptedWriter",),
    "ladders.write": ("generate_ladders",),
    "scoring.paper": ("Paper",),
    "scoring.anchored": ("Anchored", "Scale", "Scales"),
    "scoring.scorer": ("Scorer",),
    "signature": ("Signature",),
    "store.engine": ("StoredEngine",),
    "store.file": ("Store",),
    "thresholds.calibrate": ("calibrate",),
    "thresholds.filter": ("filter",),
    "thresholds.labels": ("Labelled",),
    "thresholds.certificate": ("Certificate", "Guarantee"),
    "thresholds.rules": ("AtLeast", "MinScore"),
    "types": ("Attribute", "Context", "Ladder", "Rung", "Score", "Target", "Task"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Anchored",
    "Asking",
    "AtLeast",
    "Attribute",
    "Certificate",
    "Context",
    "DegradedWriter",
    "Guarantee",
    "Labelled",
    "Ladder",
    "MinScore",
    "Pair",
    "Paper",
    "PromptedWriter",
    "Ratings",
    "References",
    "Rung",
    "Sampling",
    "Scale",
    "Scales",
    "Score",
    "Scorer",
    "Scores",
    "Signature",
    "Store",
    "StoredEngine",
    "SynthscoreError",
    "Target",
    "Task",
    "Templates",
    "Tools",
    "Verdicts",
    "__version__",
    "ask",
    "calibrate",
    "evaluate",
    "filter",
    "generate_ladders",
    "load_task",
    "method",
    "open_engine",
    "ranking",
    "task_names",
]


def __getattr__(name: str) -> Any:
    if name == "ranking":
        return import_module(".ranking", __name__)
    if name not in _HOME:
        raise AttributeError(f"module 'synthscore' has no attribute {name!r}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)


def __dir__() -> list[str]:
    return __all__
