"""The paper's score: a text's verdicts against its ladder's rungs -> their weighted sum, on the scale of the rungs.

The functions take whole arrays of targets, pure NumPy; a rung without a verdict is NaN, and so is the score then: a sum
without it would count the rung as a tie.
Source: arXiv:2509.05440, section 2; the rung scale is ours (docs/equations.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Literal

import numpy as np
import numpy.typing as npt

from ..errors import InputError, require_kind, unusable
from ..judging.verdicts import Verdicts
from ..signature import text_hash
from ..types import FloatArray, Ladder, Score
from .texts import UNREPORTED, OnLadder, unscored


@dataclass(frozen=True)
class Paper:
    """Scores by the paper's sum over the rungs. Checked when made: InputError.

    A score's `value` is the rung equivalent. A text that lacks some verdicts, or for which a server did not report all
    labels, has `low` and `high`, the least and the greatest value that what is missing could still give it.
    `details` hold `raw` (the paper's sum) and `unit` (raw / its bound, in [-1, 1]), both of scored texts alone, and
    `label_mass` (the least over its comparisons; NaN, null in a file, where the judge does not report it).
    """

    n_samples: int | None = None
    """Score from so many labels drawn from the probabilities (arXiv:2509.05440, Table 2); None: from the exact ones.
    What is drawn for a text depends on seed and on the text's ids alone; without an id, on its words."""

    seed: int = 0
    """Of what is drawn."""

    partial: Literal["report", "rescale"] = "report"
    """Where a rung has no verdict: no score, but low and high; or the others' sum, stretched by (all rung weights /
    used rung weights), status "partial"."""

    rung_values: tuple[float, ...] | None = None
    """Weights other than 1..N, worst rung first; the value is then the weighted sum itself."""

    def __post_init__(self) -> None:
        if self.n_samples is not None:
            require_kind("n_samples", self.n_samples, Integral, "a whole number, or None for exact probabilities")
            if self.n_samples < 1:
                raise unusable("n_samples", self.n_samples, "at least 1, or None for exact probabilities")
        require_kind("seed", self.seed, Integral, "a whole number from 0")
        if self.seed < 0:
            raise unusable("seed", self.seed, "a whole number from 0")
        if self.partial not in ("report", "rescale"):
            raise unusable("partial", self.partial, "'report' or 'rescale'")
        if self.rung_values is not None:
            try:
                values = np.array(self.rung_values, dtype=np.float64)
            except (TypeError, ValueError):
                values = np.array(np.nan)
            if values.ndim != 1 or not np.isfinite(values).all() or not values.any():
                raise unusable("rung_values", self.rung_values, "finite numbers, one a rung, not all 0")
            object.__setattr__(self, "rung_values", tuple(values.tolist()))

    @property
    def name(self) -> str:
        """What a signature says of it."""
        name = "paper" if self.n_samples is None else f"paper,samples={self.n_samples},seed={self.seed}"
        name += ",rescaled" if self.partial == "rescale" else ""
        if self.rung_values:
            name += f",rung_values={'/'.join(f'{value:g}' for value in self.rung_values)}"
        return name

    def refuse(self, ladder: Ladder) -> str:
        """Why the ladder cannot be used: never. raises : InputError where it has another number of rungs than
        rung_values"""
        if self.rung_values is not None and ladder.n_rungs != len(self.rung_values):
            raise InputError(
                f"cannot score on ladder {ladder.context_id}/{ladder.attribute}: rung_values are "
                f"{len(self.rung_values)} numbers, expected {ladder.n_rungs}, one a rung, worst first. Give as "
                "many, or score ladders of each length by themselves",
                field="rung_values",
                value=self.rung_values,
            )
        return ""

    def score(self, text: OnLadder, attribute: str, verdicts: Verdicts) -> Score:
        """verdicts : of all pairs of the call"""
        n = text.ladder.n_rungs
        pairs, levels = np.array(text.pairs), np.array(text.levels) - 1
        probs = np.stack([verdicts.better[pairs], verdicts.worse[pairs], verdicts.similar[pairs]], axis=-1)
        if self.n_samples is not None:
            probs = self._sampled(probs, text, attribute, verdicts.protocol)
        better, worse, unreported = np.full(n, np.nan), np.full(n, np.nan), np.ones(n)
        better[levels], worse[levels], unreported[levels] = probs[:, 0], probs[:, 1], verdicts.unreported[pairs]
        known = ~np.isnan(better)
        unreported[~known] = 1  # a margin that is missing lies anywhere within [-1, 1]
        missing = text.missing(verdicts, (np.flatnonzero(known) + 1).tolist())
        if not known.any():
            return unscored(text.target, attribute, missing[0])
        weights = np.arange(1.0, n + 1) if self.rung_values is None else np.array(self.rung_values)
        bound = paper_bound(n, weights)
        raw = float(paper_sum(better[None, known], worse[None, known], weights[known])[0])
        notes = [UNREPORTED] if unreported[known].any() else []
        low, high = None, None
        if missing or notes:
            below, above = _reach(np.where(known, better - worse, 0.0), unreported, weights)
            low, high = self._value(raw - below, n), self._value(raw + above, n)
        scored = not missing or (self.partial == "rescale" and bool(weights[known].any()))
        if missing and scored:
            raw *= bound / float(np.abs(weights[known]).sum())
        return Score(
            id=text.target.id,
            context_id=text.target.context_id,
            attribute=attribute,
            value=self._value(raw, n) if scored else None,
            low=low,
            high=high,
            n_comparisons=int(known.sum()),
            status="ok" if not missing else "partial" if scored else "unscored",
            reason="; ".join([*missing, *notes]),
            details={
                **({"raw": raw, "unit": raw / bound} if scored else {}),
                "label_mass": float(np.fmin.reduce(verdicts.label_mass[pairs])),
            },
            verdicts=text.verdicts(verdicts),
        )

    def _value(self, raw: float, n_rungs: int) -> float:
        return raw if self.rung_values else float(rung_equivalent([raw], n_rungs)[0])

    def _sampled(self, probs: FloatArray, text: OnLadder, attribute: str, protocol: str) -> FloatArray:
        """By random numbers of each text's own, so that a sampled score does not depend on its neighbours."""
        assert self.n_samples is not None
        name = text_hash(text.target.drawn_by, text.target.context_id, attribute)
        rng = np.random.default_rng([self.seed, int(name[:16], 16)])
        if protocol != "yes_no_two_sided":
            return sample_verdicts(probs, self.n_samples, rng)
        sides = np.stack([probs[:, :2], 1 - probs[:, :2]], axis=-1)  # two questions, each with its own yes and no
        return sample_verdicts(sides, self.n_samples, rng)[..., 0]


def paper_sum(better: npt.ArrayLike, worse: npt.ArrayLike, rung_values: npt.ArrayLike | None = None) -> FloatArray:
    """The paper's score: how clearly the target beats each rung, high rungs counting more.

        s = sum over rungs i of  v_i * (p(Better | i) - p(Worse | i))

    better, worse : shape (n_targets, n_rungs); probabilities that the target is better (worse) than rung i; p(Similar)
        has weight 0. NaN where there is no verdict.
    rung_values : shape (n_rungs,); v_i, worst rung first. Default 1..N, the formula as printed.
    returns : shape (n_targets,); within +-sum(v), +-N(N+1)/2 by default. NaN where a rung has no verdict.
    raises : InputError for shapes that do not match or values outside [0, 1].
    """
    better, worse = np.asarray(better, dtype=np.float64), np.asarray(worse, dtype=np.float64)
    if better.ndim != 2 or better.shape != worse.shape:
        raise InputError(f"better has shape {better.shape}, worse {worse.shape}, expected one (n_targets, n_rungs)")
    if any(((p < 0) | (p > 1 + 1e-9)).any() for p in (better, worse)):
        raise InputError("a probability is outside [0, 1]")
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
    raises : InputError for a score outside +-N(N+1)/2.
    """
    scores = np.asarray(scores, dtype=np.float64)
    bound = paper_bound(n_rungs)
    if (np.abs(scores) > bound * (1 + 1e-9)).any():
        raise InputError(f"a score is outside +-{bound}, the range for {n_rungs} rungs")
    # Rounding may carry a score of -bound just below it; the check above has let nothing else through.
    shifted: FloatArray = np.maximum(scores + bound, 0.0)
    return np.sqrt(shifted)


def sample_verdicts(probs: npt.ArrayLike, n: int, rng: np.random.Generator) -> FloatArray:
    """What asking n times would give: frequencies of n labels drawn from the stored probabilities, without a model.

    probs : shape (..., n_labels), sums to 1 over the last axis; rows of NaN stay NaN
    returns : same shape; multiples of 1/n; unbiased, and exact in the limit
    """
    probs = np.asarray(probs, dtype=np.float64)
    known = ~np.isnan(probs).any(axis=-1)
    counts = np.full(probs.shape, np.nan)
    rows = probs[known]
    counts[known] = rng.multinomial(n, rows / rows.sum(axis=-1, keepdims=True)) if len(rows) else rows
    return counts / n


def _rung_values(n_rungs: int, rung_values: npt.ArrayLike | None) -> FloatArray:
    values = np.asarray(np.arange(1, n_rungs + 1) if rung_values is None else rung_values, dtype=np.float64)
    if values.shape != (n_rungs,):
        raise InputError(f"rung_values has shape {values.shape}, expected ({n_rungs},)")
    return values


def _reach(margins: FloatArray, unreported: FloatArray, weights: FloatArray) -> tuple[float, float]:
    """How much a weighted sum of margins may be too high and too low: each is off by up to 2 x unreported, and lies
    within [-1, 1]."""
    down, up = np.minimum(2 * unreported, 1 + margins), np.minimum(2 * unreported, 1 - margins)
    heavy = np.abs(weights)
    below, above = np.where(weights < 0, up, down) @ heavy, np.where(weights < 0, down, up) @ heavy
    return float(below), float(above)
