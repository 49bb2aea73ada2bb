"""Comparisons -> scores and an order. NumPy and SciPy: no model, no files.

    >>> from synthscore import ranking
    >>> calls = ranking.Comparisons.of([("a", "b", 0.9), ("b", "c", 0.6), ("c", "a", 0.2)])
    >>> found = ranking.soft_bradley_terry(calls)
    >>> [found.ids[place] for place in found.order]
    ['a', 'b', 'c']

Which comparisons to ask for: `ranking.selection`, `ranking.asking`. Whom: `ranking.judge`, which alone knows of models.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..evaluation.curves import efficiency_curves
from . import selection
from .accuracy import pairwise_accuracy, self_consistency
from .asking import ask_in_rounds, merge_sort, stored_merge_sort
from .bias import mean_debiasing, median_debiasing, pool, position_bias
from .bradley_terry import bradley_terry, bradley_terry_ties, soft_bradley_terry
from .comparisons import Comparisons, Ranking
from .counts import average_probability, colley, win_ratio
from .gaussian import fit_table, gaussian, hard_gaussian
from .likelihood import likelihood_ranking
from .pairs import pairs_search, rank_many
from .uncertainty import bootstrap

__all__ = [
    "METHODS",
    "Comparisons",
    "Ranking",
    "ask_in_rounds",
    "average_probability",
    "bootstrap",
    "bradley_terry",
    "bradley_terry_ties",
    "colley",
    "efficiency_curves",
    "fit_table",
    "gaussian",
    "hard_gaussian",
    "likelihood_ranking",
    "mean_debiasing",
    "median_debiasing",
    "merge_sort",
    "pairs_search",
    "pairwise_accuracy",
    "pool",
    "position_bias",
    "rank_many",
    "selection",
    "self_consistency",
    "soft_bradley_terry",
    "stored_merge_sort",
    "win_ratio",
]

METHODS: Mapping[str, Callable[..., Ranking]] = {
    "win-ratio": win_ratio,
    "average-probability": average_probability,
    "colley": colley,
    "bt": bradley_terry,
    "poe-bt": soft_bradley_terry,
    "bt-ties": bradley_terry_ties,
    "poe-g": gaussian,
    "poe-g-hard": hard_gaussian,
    "likelihood": likelihood_ranking,
    "pairs": stored_merge_sort,
}
"""Name of a method -> the function that makes a Ranking of Comparisons."""
