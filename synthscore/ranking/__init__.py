"""Texts compared with each other -> scores and an order.

    >>> from synthscore import ranking
    >>> calls = ranking.Comparisons.from_records([("a", "b", 0.9), ("b", "c", 0.6), ("c", "a", 0.2)])
    >>> found = ranking.rank(calls, "poe-bt")
    >>> [found.ids[k] for k in found.order]
    ['a', 'b', 'c']

`compare` asks a judge, and alone knows of models; `rank` applies a method of the table METHODS, by NumPy and SciPy.
SciPy is loaded when something is ranked: to list the methods, it is not needed.
"""

from .bias import mean_debiasing, median_debiasing, pool, position_bias
from .comparisons import Comparisons
from .designs import Selection
from .judge import PairJudge, Problem, ask_judge, compare
from .jury import rank_jury
from .methods import METHODS, RankingMethod, rank
from .result import Ranking, Rankings
from .sets import ComparisonSets

__all__ = [
    "METHODS",
    "ComparisonSets",
    "Comparisons",
    "PairJudge",
    "Problem",
    "Ranking",
    "RankingMethod",
    "Rankings",
    "Selection",
    "ask_judge",
    "compare",
    "mean_debiasing",
    "median_debiasing",
    "pool",
    "position_bias",
    "rank",
    "rank_jury",
]
