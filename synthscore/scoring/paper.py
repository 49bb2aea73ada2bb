"""The paper's score: a text's verdicts against its ladder's rungs -> their weighted sum, on the scale of the rungs.

The functions take whole arrays of targets, pure NumPy. A rung without a verdict is NaN, and so is then the sum, since
leaving the rung out would count it as a tie. Where one inner rung is missing, its neighbours limit what it could add.
Source: arXiv:2509.05440, section 2; the rung scale is ours (docs/equations.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import InputError, require_kind, unusable
from ..judging.asking import Verdicts
from ..judging.labels import unreported_note
from ..signature import seeded_rng
from ..types import BoolArray, FloatArray, Score, Status
from .frequencies import SumError, error_on_rungs, variance_of_sum
from .ladder import OnLadder, TextScoring
from .method import Limits

MOST_SAMPLES = 10**9  # With so many, frequencies are the exact probabilities to four digits.


class _Rungs(NamedTuple):
    """A text against each rung, worst first; all of shape (n_rungs,).

    better, worse : probabilities; 0 where there is no verdict
    known : bool, whether there is a verdict
    least, most : limits of better - worse; -1 and 1 where nothing is known
    """

    better: FloatArray
    worse: FloatArray
    known: BoolArray
    least: FloatArray
    most: FloatArray


@dataclass(frozen=True)
class Paper(TextScoring):
    """Scores by the paper's sum over the rungs. Checked when made: InputError.

    A score's `value` is the rung equivalent. Where verdicts are missing, or a server did not report all labels, `low`
    and `high` are the least and the greatest value that the text could have with what is missing.
    A text that lacks the verdict on one inner rung alone is "partial": its value is the middle of the values that it
    has with the margins of the two neighbouring rungs. A text that lacks the worst or the best rung, or two others, is
    unscored.
    A text whose verdicts are frequencies of sampled answers, and complete, has a `stderr`; `low` and `high` are then
    the 90 % interval (frequencies.py) of the score that infinitely many samples of these questions would give.
    `details` hold `raw` (the paper's sum) and `unit` (raw / its bound, in [-1, 1]), both of texts with all verdicts,
    and `label_mass` (the least over its comparisons; NaN, null in a file, where the judge does not report it).
    """

    n_samples: int | None = None
    """Score from this many labels drawn from the probabilities (arXiv:2509.05440, Table 2); None: from the exact ones.
    The draws for a text depend only on the seed, the text, its context's id and the attribute."""

    seed: int = 0
    """Of the random draws."""

    on_rungs = True

    def __post_init__(self) -> None:
        if self.n_samples is not None:
            require_kind("n_samples", self.n_samples, Integral, "a whole number, or None for exact probabilities")
            if not 1 <= self.n_samples <= MOST_SAMPLES:
                raise unusable("n_samples", self.n_samples, f"1 to {MOST_SAMPLES:,}, or None for exact probabilities")
        require_kind("seed", self.seed, Integral, "a whole number from 0")
        if self.seed < 0:
            raise unusable("seed", self.seed, "a whole number from 0")

    @property
    def name(self) -> str:
        """Its name in signatures."""
        if self.n_samples is None:
            return "paper"
        return f"paper,samples={self.n_samples},seed={self.seed}"

    def limits(self, n_rungs: int) -> Limits:
        high = rung_top(n_rungs)
        words = (
            f"outside the rung scale, which for ladders of {n_rungs} rungs is 0 (worse than all) to sqrt(N(N+1)) = "
            f"{high:.2f} (better than all): 1 is as good as the worst rung, {n_rungs} as the best"
        )
        return Limits(low=0.0, high=high, words=words)

    def whole_values(self, verdicts: FloatArray) -> FloatArray | None:
        if self.n_samples is not None:
            return None
        return rung_equivalent(paper_sum(verdicts[..., 0], verdicts[..., 1]), verdicts.shape[1])

    def score_text(self, text: OnLadder, verdicts: Verdicts) -> Score:
        """The score by this text's verdicts. verdicts : of all pairs of the call"""
        n = text.ladder.n_rungs
        better, worse, known, least, most = self._read_rungs(text, verdicts)
        missing = text.missing(verdicts, (np.flatnonzero(known) + 1).tolist())
        nothing_known = (most - least == 2).all()
        if nothing_known:
            return text.unscored(missing[0])
        gaps = np.flatnonzero(~known)
        details = {"n_rungs": float(n)}
        value: float | None = None
        status: Status = "unscored"
        if not len(gaps):
            raw = float(paper_sum(better[None], worse[None])[0])
            value = float(rung_equivalent([raw], n)[0])
            status = "ok"
            details |= {"raw": raw, "unit": raw / paper_bound(n)}
        elif len(gaps) == 1 and 0 < gaps[0] < n - 1:
            gap = int(gaps[0])
            value = value_between(better - worse, gap, (least[gap], most[gap]))
            status = "partial"
        low = None
        high = None
        if (least < most).any():
            weights = np.arange(1.0, n + 1)
            sums = [(least * weights).sum(), (most * weights).sum()]
            low, high = rung_equivalent(sums, n).tolist()
        stderr = None
        if not len(gaps) and low is None:
            stderr, low, high = self._sampling_error(raw, text, verdicts)
        note = ""
        if known.any():
            note = unreported_note((most - least)[known] / 2)
        details["label_mass"] = float(np.fmin.reduce(verdicts.label_mass[np.array(text.pairs)]))
        return Score(
            id=text.target.id,
            context_id=text.target.context_id,
            attribute=text.attribute,
            value=value,
            stderr=stderr,
            low=low,
            high=high,
            n_comparisons=int(known.sum()),
            status=status,
            reason="; ".join(filter(None, [*missing, note])),
            details=details,
            verdicts=text.verdicts(verdicts),
        )

    def _read_rungs(self, text: OnLadder, verdicts: Verdicts) -> _Rungs:
        """What the verdicts say of the text against each rung, of labels that are drawn if this scoring draws them."""
        n = text.ladder.n_rungs
        pairs = np.array(text.pairs)
        rungs = np.array(text.levels) - 1
        exact = np.stack([verdicts.better[pairs], verdicts.worse[pairs], verdicts.similar[pairs]], axis=-1)
        probs = exact
        if self.n_samples is not None:
            probs = self._sampled(exact, text, verdicts.protocol)
        known = np.zeros(n, dtype=bool)
        known[rungs] = ~np.isnan(probs[:, 0])
        better = np.zeros(n)
        worse = np.zeros(n)
        better[rungs] = np.nan_to_num(probs[:, 0])
        worse[rungs] = np.nan_to_num(probs[:, 1])
        # Drawing labels moves the limits of a margin by as much as the margin; without draws, by 0.
        margin = probs[:, 0] - probs[:, 1]
        exact_margin = exact[:, 0] - exact[:, 1]
        moved = np.nan_to_num(margin - exact_margin)
        least = np.full(n, -1.0)
        most = np.ones(n)
        least[rungs] = np.maximum(verdicts.margin_low[pairs] + moved, -1)
        most[rungs] = np.minimum(verdicts.margin_high[pairs] + moved, 1)
        return _Rungs(better, worse, known, least, most)

    def _sampling_error(self, raw: float, text: OnLadder, verdicts: Verdicts) -> SumError | tuple[None, None, None]:
        """Standard error and 90 % interval of a complete score, on the rung scale, by how many of the judge's answers
        each verdict is a frequency of. None where verdicts are exact, or where this scoring draws labels itself.

        raw : the paper's sum of a text with a verdict on every rung
        """
        pairs = np.array(text.pairs)
        answers_per_verdict = verdicts.n_samples[:, pairs]
        if self.n_samples is not None or np.isinf(answers_per_verdict).all():
            return None, None, None
        better, worse, _ = np.moveaxis(verdicts.by_order[:, pairs], -1, 0)
        two_sided = verdicts.protocol == "yes_no_two_sided"
        variance = variance_of_sum(better, worse, answers_per_verdict, two_sided=two_sided)
        return error_on_rungs(raw, variance, len(pairs))

    def _sampled(self, probs: FloatArray, text: OnLadder, protocol: str) -> FloatArray:
        """Frequencies of labels that are drawn from `probs`. The random numbers depend on the text alone, and so does
        its score, whatever other texts there are.

        probs : shape (n_pairs, 3): better, worse, similar
        """
        assert self.n_samples is not None
        rng = seeded_rng(self.seed, text.target.text, text.target.context_id, text.ladder.attribute)
        if protocol != "yes_no_two_sided":
            return sample_verdicts(probs, self.n_samples, rng)
        sides = np.stack([probs[:, :2], 1 - probs[:, :2]], axis=-1)  # yes and no, of each of the two questions
        return sample_verdicts(sides, self.n_samples, rng)[..., 0]


def paper_sum(better: npt.ArrayLike, worse: npt.ArrayLike) -> FloatArray:
    """The paper's score: how clearly the target beats each rung, high rungs counting more.

        s = sum over rungs i of  i * (p(Better | i) - p(Worse | i))

    better, worse : shape (n_targets, n_rungs); probabilities that the target is better (worse) than rung i; p(Similar)
        has weight 0. NaN where there is no verdict.
    returns : shape (n_targets,); within +-N(N+1)/2. NaN where a rung has no verdict.
    raises : InputError for shapes that do not match or values outside [0, 1].
    """
    better = np.asarray(better, dtype=np.float64)
    worse = np.asarray(worse, dtype=np.float64)
    if better.ndim != 2 or better.shape != worse.shape:
        raise InputError(f"better has shape {better.shape}, worse {worse.shape}, expected one (n_targets, n_rungs)")
    for probs in (better, worse):
        if ((probs < 0) | (probs > 1 + 1e-9)).any():
            raise InputError("a probability is outside [0, 1]")
    weights = np.arange(1.0, better.shape[1] + 1)
    total: FloatArray = ((better - worse) * weights).sum(axis=1)
    return total


def value_between(margins: FloatArray, gap: int, limits: tuple[float, float] = (-1.0, 1.0)) -> float:
    """The rung equivalent of a text that lacks the verdict on one inner rung.

    Margins fall from the worst rung to the best, so that the missing one lies between those of its neighbours. The
    value is the middle between the two extremes:

        r = 1/2 [ r(m[gap] = m[gap - 1]) + r(m[gap] = m[gap + 1]) ]

    margins : shape (n_rungs,), p(Better) - p(Worse) against each rung; what stands at the gap is not looked at
    gap : index of the rung, 1..n_rungs - 2
    limits : the least and the greatest that the margin there can be, where some of its labels were reported
    returns : on the rung scale
    """
    ends = np.stack([margins, margins])
    ends[:, gap] = np.clip(margins[[gap - 1, gap + 1]], *limits)
    sums = (ends * np.arange(1.0, len(margins) + 1)).sum(axis=1)
    return float(rung_equivalent(sums, len(margins)).mean())


def rung_top(n_rungs: int) -> float:
    """The score of a text that is better than all rungs, sqrt(N(N+1)): 5.48 for N = 5."""
    return math.sqrt(n_rungs * (n_rungs + 1))


def paper_bound(n_rungs: int) -> float:
    """The largest possible |sum|: N(N+1)/2."""
    return n_rungs * (n_rungs + 1) / 2


def rung_equivalent(sums: npt.ArrayLike, n_rungs: int) -> FloatArray:
    """The paper's sum on the scale of the rungs: a text that an ideal judge finds equal to rung k gets exactly k.

        r = sqrt(s + N(N+1)/2),        since such a text has s = k^2 - N(N+1)/2

    Strictly increasing, so no order changes. 0: worse than all rungs. sqrt(N(N+1)), 5.48 for N = 5: better than all.
    raises : InputError for a sum outside +-N(N+1)/2.
    """
    sums = np.asarray(sums, dtype=np.float64)
    bound = paper_bound(n_rungs)
    if (np.abs(sums) > bound * (1 + 1e-9)).any():
        raise InputError(f"a sum is outside +-{bound}, the range for {n_rungs} rungs")
    # A sum of -bound may be just below it by rounding, which the check above lets through.
    shifted: FloatArray = np.maximum(sums + bound, 0.0)
    return np.sqrt(shifted)


def sample_verdicts(probs: npt.ArrayLike, n: int, rng: np.random.Generator) -> FloatArray:
    """Frequencies of n labels drawn from the stored probabilities, as if the judge had been asked n times.

    probs : shape (..., n_labels), sums to 1 over the last axis; rows of NaN stay NaN
    returns : same shape; multiples of 1/n; unbiased, and exact in the limit
    """
    probs = np.asarray(probs, dtype=np.float64)
    known = ~np.isnan(probs).any(axis=-1)
    counts = np.full(probs.shape, np.nan)
    rows = probs[known]
    if len(rows):
        counts[known] = rng.multinomial(n, rows / rows.sum(axis=-1, keepdims=True))
    return counts / n
