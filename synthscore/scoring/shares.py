"""A share of texts, or of pairs, with its interval. Pure NumPy."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..types import FloatArray, IntArray

_Z = 1.959963984540054  # 95 %


class Share(NamedTuple):
    """A mean of numbers in [0, 1] over n calls or pairs, with a 95 % interval; NaN for n = 0."""

    value: float
    low: float
    high: float
    n: int


def share(values: FloatArray, weights: FloatArray, clusters: IntArray) -> Share:
    """Weighted mean of values in [0, 1], Wilson's interval at the number of independent values (see PositionBias).

    clusters : int64, shape (n,), 0-based; values of one cluster are not independent
    source : Wilson (1927); effective size as for cluster samples, Korn & Graubard (1998)
    """
    if not len(values):
        return Share(np.nan, np.nan, np.nan, 0)
    total = weights.sum()
    mean = float(np.clip(weights @ values / total, 0.0, 1.0))  # rounding only
    cluster_sums = np.bincount(clusters, weights * (values - mean))
    variance = float((cluster_sums**2).sum()) / total**2
    n = total**2 / (weights @ weights)  # the number of values, where all weigh the same
    if variance > 1e-18:
        n = min(n, mean * (1 - mean) / variance)
    shrink = 1 + _Z**2 / n
    centre = (mean + _Z**2 / (2 * n)) / shrink
    half_width = _Z / shrink * np.sqrt(mean * (1 - mean) / n + _Z**2 / (4 * n**2))
    return Share(
        value=mean,
        low=float(min(centre - half_width, mean)),
        high=float(max(centre + half_width, mean)),
        n=len(values),
    )
