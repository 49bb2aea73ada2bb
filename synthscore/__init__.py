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
    from .engines import open_engine
    from .errors import SynthscoreError
    from .ladder import DegradedWriter, PromptedWriter, generate_ladders
    from .prompts import Templates
    from .references import References, load_references, save_references
    from .scorer import Scorer
    from .store import Store
    from .stored import StoredEngine
    from .tasks import load_task, task_names
    from .types import Attribute, Context, Ladder, Rung, Sampling, Score, Scores, Signature, Target, Task
    from .verdicts import Pair, Verdicts, ask

_HOMES = {
    "engines": ("open_engine",),
    "errors": ("SynthscoreError",),
    "ladder": ("DegradedWriter", "PromptedWriter", "generate_ladders"),
    "prompts": ("Templates",),
    "references": ("References", "load_references", "save_references"),
    "scorer": ("Scorer",),
    "store": ("Store",),
    "stored": ("StoredEngine",),
    "tasks": ("load_task", "task_names"),
    "types": ("Attribute", "Context", "Ladder", "Rung", "Sampling", "Score", "Scores", "Signature", "Target", "Task"),
    "verdicts": ("Pair", "Verdicts", "ask"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Attribute",
    "Context",
    "DegradedWriter",
    "Ladder",
    "Pair",
    "PromptedWriter",
    "References",
    "Rung",
    "Sampling",
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
    "Verdicts",
    "__version__",
    "ask",
    "generate_ladders",
    "load_references",
    "load_task",
    "open_engine",
    "ranking",
    "save_references",
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
