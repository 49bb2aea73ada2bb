"""Verdicts against a ladder -> scores. Pure NumPy: no model, no files, no text.

Every function takes whole arrays of targets and returns arrays of the same length; a rung without a verdict is NaN, and
so is the score then: a sum without it would count the rung as a tie.
Source: arXiv:2509.05440, section 2; the rung scale is ours (docs/equations.md).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..types import FloatArray


def paper_sum(better: npt.ArrayLike, worse: npt.ArrayLike, rung_values: npt.ArrayLike | None = None) -> FloatArray:
    """The paper's score: how clearly the target beats each rung, high rungs counting more.

        s = sum over rungs i of  v_i * (p(Better | i) - p(Worse | i))

    better, worse : shape (n_targets, n_rungs); probabilities that the target is better (worse) than rung i; p(Similar)
        has weight 0. NaN where there is no verdict.
    rung_values : shape (n_rungs,); v_i, worst rung first. Default 1..N, the formula as printed.
    returns : shape (n_targets,); within +-sum(v), +-N(N+1)/2 by default. NaN where a rung has no verdict.
    raises : ValueError for shapes that do not match or values outside [0, 1].
    """
    better, worse = _probabilities(better), _probabilities(worse)
    if better.shape != worse.shape:
        raise ValueError(f"better has shape {better.shape}, worse {worse.shape}: expected the same")
    values = _rung_values(better.shape[1], rung_values)
    total: FloatArray = ((better - worse) * values).sum(axis=1)
    return total


def paper_bound(n_rungs: int, rung_values: npt.ArrayLike | None = None) -> float:
    """The largest possible |score|: N(N+1)/2 for rung values 1..N."""
    return float(np.abs(_rung_values(n_rungs, rung_values)).sum())


def rung_equivalent(scores: npt.ArrayLike, n_rungs: int) -> FloatArray:
    """The paper's sum on the scale of the rungs: a text that an ideal judge finds equal to rung k gets exactly k.

        r = sqrt(s + N(N+1)/2),        since such a text has s = k^2 - N(N+1)/2

    Strictly increasing, so no order changes. 0: worse than all rungs. sqrt(N(N+1)), 5.48 for N = 5: better than all.
    Defined for rung values 1..N only.
    raises : ValueError for a score outside +-N(N+1)/2.
    """
    scores = np.asarray(scores, dtype=np.float64)
    bound = paper_bound(n_rungs)
    if (np.abs(scores) > bound * (1 + 1e-9)).any():
        raise ValueError(f"a score is outside +-{bound}, the range for {n_rungs} rungs")
    # Rounding may carry a score of -bound just below it; the check above has let nothing else through.
    shifted: FloatArray = np.maximum(scores + bound, 0.0)
    return np.sqrt(shifted)


def sample_verdicts(probs: npt.ArrayLike, n: int, rng: np.random.Generator) -> FloatArray:
    """What asking n times would give: frequencies of n labels drawn from the stored probabilities, without a model.

    probs : shape (..., n_labels), sums to 1 over the last axis; rows of NaN stay NaN
    returns : same shape; multiples of 1/n; unbiased, and exact in the limit
    """
    probs = np.asarray(probs, dtype=np.float64)
    if n < 1:
        raise ValueError(f"n is {n}, expected at least 1 draw")
    known = ~np.isnan(probs).any(axis=-1)
    counts = np.full(probs.shape, np.nan)
    rows = probs[known]
    counts[known] = rng.multinomial(n, rows / rows.sum(axis=-1, keepdims=True)) if len(rows) else rows
    return counts / n


def _probabilities(p: npt.ArrayLike) -> FloatArray:
    p = np.asarray(p, dtype=np.float64)
    if p.ndim != 2:
        raise ValueError(f"probabilities have shape {p.shape}, expected (n_targets, n_rungs)")
    if ((p < 0) | (p > 1 + 1e-9)).any():
        raise ValueError("a probability is outside [0, 1]")
    return p


def _rung_values(n_rungs: int, rung_values: npt.ArrayLike | None) -> FloatArray:
    values = np.asarray(np.arange(1, n_rungs + 1) if rung_values is None else rung_values, dtype=np.float64)
    if values.shape != (n_rungs,):
        raise ValueError(f"rung_values has shape {values.shape}, expected ({n_rungs},)")
    return values
