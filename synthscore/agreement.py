"""Scores + human ratings -> rank correlation inside each context, averaged over contexts. Pure NumPy and SciPy.

This is the level that DS calls sample-level and most others call summary-level; here it is `per_context`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .types import FloatArray


@dataclass(frozen=True, slots=True)
class Agreement:
    """A mean over contexts. value is NaN where no context could be used.

    stderr : standard error of the mean over contexts (NaN for fewer than 2)
    n_skipped : contexts in which the human ratings are all equal, or fewer than two texts have a score
    n_constant : contexts counted as 0 because the scores are all equal while the ratings are not
    """

    value: float
    stderr: float
    n_contexts: int
    n_skipped: int
    n_constant: int


def spearman(values: npt.ArrayLike, human: npt.ArrayLike) -> float:
    """Pearson correlation of the mid-ranks, in [-1, 1]; NaN where either side is constant."""
    from scipy.stats import rankdata

    x, y = (rankdata(np.asarray(side, dtype=np.float64)) for side in (values, human))
    x, y = x - x.mean(), y - y.mean()
    norm = np.sqrt((x @ x) * (y @ y))
    return float(x @ y / norm) if norm > 0 else float("nan")


def per_context(values: npt.ArrayLike, human: npt.ArrayLike, contexts: Sequence[str]) -> Agreement:
    """Spearman's correlation inside each context, and its plain mean over contexts.

    values, human : shape (n,); a NaN value (an unscored text) leaves that text out
    contexts : length n; which context each text was written for
    A context whose ratings are all equal is skipped: no order to agree with. One whose scores are all equal counts as
    0: skipping it would reward a scorer that cannot tell texts apart.
    """
    values, human = np.asarray(values, dtype=np.float64), np.asarray(human, dtype=np.float64)
    if not len(values) == len(human) == len(contexts):
        raise ValueError(f"{len(values)} values, {len(human)} ratings and {len(contexts)} contexts: expected as many")
    rows: dict[str, list[int]] = {}
    for row, context in enumerate(contexts):
        if not np.isnan(values[row]) and not np.isnan(human[row]):
            rows.setdefault(context, []).append(row)
    found: list[float] = []
    n_skipped = len(set(contexts)) - len(rows)
    n_constant = 0
    for places in rows.values():
        if len(places) < 2 or np.ptp(human[places]) == 0:
            n_skipped += 1
        elif np.ptp(values[places]) == 0:
            found.append(0.0)
            n_constant += 1
        else:
            found.append(spearman(values[places], human[places]))
    mean, stderr = _mean(np.array(found))
    return Agreement(mean, stderr, len(found), n_skipped, n_constant)


def _mean(found: FloatArray) -> tuple[float, float]:
    mean = float(found.mean()) if len(found) else float("nan")
    return mean, float(found.std(ddof=1) / np.sqrt(len(found))) if len(found) > 1 else float("nan")
