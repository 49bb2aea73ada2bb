"""Absolute quality scores for generated texts: a judge compares each text with a ladder of synthetic references.

    >>> import synthscore as ss
    >>> references = ss.load_references("ladders/")
    >>> scorer = ss.Scorer(references, ss.open_engine("nano"), attribute="coherence")
    >>> scores = scorer.score([{"id": "1", "context_id": "news-7", "text": "..."}])
    >>> scores[0].value, scores[0].status

Names are loaded when they are first used, so that `import synthscore` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from . import ranking
    from .anchored import Scale, load_scales, save_scales
    from .baselines import Tools, method
    from .calibration import calibrate
    from .engines import open_engine
    from .errors import SynthscoreError
    from .evaluation import evaluate
    from .labelled import read_labelled
    from .ladder import DegradedWriter, PromptedWriter, generate_ladders
    from .prompts import Templates
    from .ratings import Ratings, load_benchmark, read_ratings
    from .references import References, load_references, save_references
    from .scorer import Scorer
    from .store import Store
    from .stored import StoredEngine
    from .tasks import load_task, task_names
    from .thresholds import AtLeast, Certificate, Guarantee, MinScore
    from .types import Attribute, Context, Ladder, Rung, Sampling, Score, Scores, Signature, Target, Task
    from .verdicts import Pair, Verdicts, ask

_HOMES = {
    "anchored": ("Scale", "load_scales", "save_scales"),
    "baselines": ("Tools", "method"),
    "calibration": ("calibrate",),
    "engines": ("open_engine",),
    "errors": ("SynthscoreError",),
    "evaluation": ("evaluate",),
    "labelled": ("read_labelled",),
    "ladder": ("DegradedWriter", "PromptedWriter", "generate_ladders"),
    "prompts": ("Templates",),
    "ratings": ("Ratings", "load_benchmark", "read_ratings"),
    "references": ("References", "load_references", "save_references"),
    "scorer": ("Scorer",),
    "store": ("Store",),
    "stored": ("StoredEngine",),
    "tasks": ("load_task", "task_names"),
    "thresholds": ("AtLeast", "Certificate", "Guarantee", "MinScore"),
    "types": ("Attribute", "Context", "Ladder", "Rung", "Sampling", "Score", "Scores", "Signature", "Target", "Task"),
    "verdicts": ("Pair", "Verdicts", "ask"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "AtLeast",
    "Attribute",
    "Certificate",
    "Context",
    "DegradedWriter",
    "Guarantee",
    "Ladder",
    "MinScore",
    "Pair",
    "PromptedWriter",
    "Ratings",
    "References",
    "Rung",
    "Sampling",
    "Scale",
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
    "generate_ladders",
    "load_benchmark",
    "load_references",
    "load_scales",
    "load_task",
    "method",
    "open_engine",
    "ranking",
    "read_labelled",
    "read_ratings",
    "save_references",
    "save_scales",
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
