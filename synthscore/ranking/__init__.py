"""Texts compared with each other -> scores and an order.

    >>> from synthscore import ranking
    >>> calls = ranking.Comparisons.of([("a", "b", 0.9), ("b", "c", 0.6), ("c", "a", 0.2)])
    >>> found = ranking.rank(calls, "poe-bt")
    >>> [found.ids[k] for k in found.order]
    ['a', 'b', 'c']

`compare` asks a judge, and alone knows of models; `rank` applies a method of the table METHODS, by NumPy and SciPy.
Names are loaded when they are first used: to list the methods, SciPy is not needed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .bias import mean_debiasing, median_debiasing, pool, position_bias
    from .comparisons import Comparisons
    from .judge import Judge, Problem, ask_judge, compare
    from .methods import METHODS, Method, rank
    from .result import Ranking, Rankings
    from .selection import Selection
    from .sets import ComparisonSets
    from .uncertainty import bootstrap

_HOMES = {
    "bias": ("mean_debiasing", "median_debiasing", "pool", "position_bias"),
    "comparisons": ("Comparisons",),
    "judge": ("Judge", "Problem", "ask_judge", "compare"),
    "methods": ("METHODS", "Method", "rank"),
    "result": ("Ranking", "Rankings"),
    "selection": ("Selection",),
    "sets": ("ComparisonSets",),
    "uncertainty": ("bootstrap",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "METHODS",
    "ComparisonSets",
    "Comparisons",
    "Judge",
    "Method",
    "Problem",
    "Ranking",
    "Rankings",
    "Selection",
    "ask_judge",
    "bootstrap",
    "compare",
    "mean_debiasing",
    "median_debiasing",
    "pool",
    "position_bias",
    "rank",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'synthscore.ranking' has no attribute {name!r}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)
