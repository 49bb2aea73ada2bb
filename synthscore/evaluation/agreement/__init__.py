"""Scores + human ratings -> how far they agree, with intervals; and how far people agree with each other.

    >>> from synthscore.evaluation.agreement import agreement, draw_contexts
    >>> values, human, contexts = [1, 2, 3, 2, 1, 3], [1, 2, 3, 1, 2, 3], ["a", "a", "a", "b", "b", "b"]
    >>> found = agreement(values, human, contexts, draws=draw_contexts(contexts, np.random.default_rng(0)))
    >>> found.value, found.low, found.high
    (0.75, 0.5, 1.0)

NumPy and SciPy: no models, no files.
"""

from .bootstrap import CORRECTIONS, Correction, Draws, adjusted, draw_contexts
from .correlation import STATISTICS, Statistic, kendall, pearson, spearman
from .levels import (
    ALIASES,
    LEVELS,
    NAN_POLICIES,
    Agreement,
    Difference,
    Level,
    NanPolicy,
    agreement,
    difference,
    per_context,
)
from .people import Reliability, krippendorff_alpha, reliability

__all__ = [
    "ALIASES",
    "CORRECTIONS",
    "LEVELS",
    "NAN_POLICIES",
    "STATISTICS",
    "Agreement",
    "Correction",
    "Difference",
    "Draws",
    "Level",
    "NanPolicy",
    "Reliability",
    "Statistic",
    "adjusted",
    "agreement",
    "difference",
    "draw_contexts",
    "kendall",
    "krippendorff_alpha",
    "pearson",
    "per_context",
    "reliability",
    "spearman",
]
