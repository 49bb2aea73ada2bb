"""The nouns of anchored scores: what was answered, what this judge is like, and where texts stand. Pure NumPy.

The model says how likely a judge is to call a text at x better than a rung at r,

    d = discrimination * (x - r) + bias,        P(better, worse, similar) ~ exp(d/2), exp(-d/2), nu

where positions x and r are in rungs: the median ladder of a run has its rungs at 1..N. `fit.py` finds the judge,
`positions.py` the texts. docs/anchored.md has the whole model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ...types import BoolArray, FloatArray, IntArray

_COLUMNS = ("ladder", "first", "second", "sign", "probs", "n_samples")
_LARGEST = 1e12  # No number of a real judge comes near this.
_MOST_RUNGS = 1000  # of a scale that is read from a file


@dataclass(frozen=True, slots=True, eq=False)
class SoftAnswers:
    """Soft answers of one judge on one attribute, about texts on ladders of n_rungs rungs each.

    target_ladder : int64, shape (n_targets,); which ladder each target stands on
    ladder : int64, shape (n_answers,)
    first : int64, shape (n_answers,); the text that the answer is about: 0..n_rungs - 1 is a rung of the ladder,
        n_rungs + k is target k
    second : int64, shape (n_answers,); the rung that it was compared with, 0..n_rungs - 1
    sign : float64, shape (n_answers,); +1 where the question asked whether `first` is better, -1 where it asked whether
        `second` is (the other order of the two texts), and the answer was turned round
    probs : float64, shape (n_answers, 3); that `first` is better, worse, similar; sum to 1
    n_samples : float64, shape (n_answers,); how many sampled answers `probs` are the frequencies of, inf for exact
        probabilities; None: all are exact
    raises : InputError for numbers that are no probabilities, or samples fewer than one
    """

    n_ladders: int
    n_rungs: int
    target_ladder: IntArray
    ladder: IntArray
    first: IntArray
    second: IntArray
    sign: FloatArray
    probs: FloatArray
    n_samples: FloatArray | None = None

    def __post_init__(self) -> None:
        sums_to_1 = np.abs(self.probs.sum(axis=1) - 1) < 1e-6  # False for NaN, too
        wrong = ~sums_to_1 | (self.probs < 0).any(axis=1)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise InputError(f"answer {row} has probabilities {self.probs[row].tolist()}, expected three that sum to 1")
        if self.n_samples is None:
            return
        too_few = ~(self.n_samples >= 1)
        if too_few.any():
            row = int(np.argmax(too_few))
            raise InputError(
                f"answer {row} is of {self.n_samples[row]:g} samples, expected 1 or more, inf for exact probabilities",
                value=float(self.n_samples[row]),
            )

    def __len__(self) -> int:
        return len(self.ladder)

    @property
    def n_targets(self) -> int:
        return len(self.target_ladder)

    @property
    def half_margin(self) -> FloatArray:
        """(p(better) - p(worse)) / 2, shape (n_answers,): half of what a verdict's margin is elsewhere."""
        return half_margin(self.probs)

    @property
    def sampling(self) -> FloatArray | None:
        """1 / n_samples, shape (n_answers,): 0 for exact probabilities. None: all are exact"""
        if self.n_samples is None or np.isinf(self.n_samples).all():
            return None
        return 1 / self.n_samples

    def take(self, rows: npt.NDArray[Any]) -> SoftAnswers:
        """Some of the answers, over the same ladders and targets."""
        columns = {name: getattr(self, name) for name in _COLUMNS}
        chosen = {name: values[rows] for name, values in columns.items() if values is not None}
        return replace(self, **chosen)


@dataclass(frozen=True, slots=True)
class JudgeModel:
    """What a judge's answers on one (task, attribute) are worth, pooled over contexts.

        d = discrimination * (x_first - x_second) + sign * position_bias
        P(better, worse, similar) ~ exp(d/2), exp(-d/2), nu

    n_rungs : of the ladders that it was fitted on; positions are on 1..n_rungs
    discrimination : nats for each rung of difference, > 0
    position_bias : nats in favour of the text that the question asked about; negative: against it
    log_tie : log nu, nats; -inf for protocols without Similar
    noise, spread : with V the variance of one answer drawn from P, the half_margin of exact probabilities has the
        variance (noise + spread * V) * V, and so weighs as much as 1 / (noise + spread * V) drawn answers (`weight`,
        also of sampled answers). This spread has nothing to do with spread_sd
    pair_correlation : correlation of the noise of two answers about the same two texts, in either order or asked again
    rung_correlation : correlation of the noise of two answers about a text, one on each of two neighbouring rungs
    rung_sd : (shift, stretch, uneven), standard deviations of ladders: of the position of a whole ladder, in rungs; of
        its length, relative to the median one; of a single rung, in rungs
    target_mean : mean position of the targets, rungs
    target_sd : standard deviation of the positions of targets within a context, rungs; `text_sd` adds context_sd
    n_answers, n_ladders, n_targets : how many it was fitted on
    bias_known : False where the questions could not tell the bias, which then counts as 0
    noise_known : False where the answers are too few to tell noise and spread, which then are those of the prior
    converged : whether the last round changed no parameter by more than 1e-4, and all positions came to rest
    context_sd : standard deviation between contexts of the mean quality of their texts, in rungs
    sharpness_sd : standard deviation between contexts of the log of the discrimination
    spread_sd : standard deviation between contexts of the log of target_sd; not of `spread`
    sharpness_told : how far the texts could tell sharp contexts from long ladders: from 0, not at all (each is given
        half of the difference), to 1
    bias_sd : standard deviation between texts of the position bias, nats; measured on ladders of three or more rungs
    rungs_rise : False where the judge sees the median ladder upside down, or sees no more difference between its rungs
        than chance would make: positions by such a judge mean nothing, and fitting stopped there
    """

    n_rungs: int
    discrimination: float
    position_bias: float
    log_tie: float
    noise: float
    spread: float
    rung_sd: tuple[float, float, float]
    target_mean: float
    target_sd: float
    n_answers: int = 0
    n_ladders: int = 0
    n_targets: int = 0
    bias_known: bool = True
    noise_known: bool = True
    converged: bool = True
    rungs_rise: bool = True
    context_sd: float = 0.0
    sharpness_sd: float = 0.0
    spread_sd: float = 0.0
    sharpness_told: float = 0.0
    bias_sd: float = 0.0
    pair_correlation: float = 0.0
    rung_correlation: float = 0.0

    @property
    def text_sd(self) -> float:
        """Standard deviation of a text's position where nothing is known of its context, in rungs."""
        return math.hypot(self.target_sd, self.context_sd)

    @property
    def equally_sharp(self) -> JudgeModel:
        """The judge as if it were equally sharp on all contexts: their differences count as stretch of the ladders."""
        shift, stretch, uneven = self.rung_sd
        whole_stretch = math.hypot(stretch, self.sharpness_sd)
        return replace(self, rung_sd=(shift, whole_stretch, uneven), sharpness_sd=0.0)

    def probs(self, d: FloatArray) -> FloatArray:
        """P(better, worse, similar), shape (*d.shape, 3). d : log-odds of better against worse"""
        return label_probs(d, self.log_tie)

    def dispersion(self, var: FloatArray, sampling: FloatArray | None = None) -> FloatArray:
        """Variance of an answer's half_margin, in units of V, the variance of one answer drawn from P; shape of var.

            exact probabilities:   m = noise + spread V
            n samples:             1/n + (1 - 1/n) m

        By the law of total variance: all n samples share the judge's opinion, whose variance is m V. The rest of V, by
        which samples differ from that opinion, is divided by n.
        var : V. sampling : 1/n, shape of var; None: 0
        """
        of_opinion: FloatArray = self.noise + self.spread * var
        if sampling is None:
            return of_opinion
        return sampling + (1 - sampling) * of_opinion

    def weight(self, probs: FloatArray, sampling: FloatArray | None = None) -> FloatArray:
        """How many answers drawn from P an answer is worth, 1 / `dispersion`; shape of all but the last axis."""
        return 1 / self.dispersion(variance(probs), sampling)

    def for_samples(self, n_samples: float) -> JudgeModel:
        """The judge whose exact probabilities weigh as much as n samples of this judge; this judge where n is inf.

        Only the opinion's share of the noise is correlated between answers (correlation.py), so that both correlations
        are multiplied by it. The share depends on V; here it is that of V = 1/5, an answer that is neither sure nor
        evenly split.
        """
        if math.isinf(n_samples):
            return self
        sampling = 1 / n_samples
        noise = sampling + (1 - sampling) * self.noise
        spread = (1 - sampling) * self.spread
        opinion_var = self.noise + self.spread / 5
        share = min(opinion_var / (noise + spread / 5), 1.0)
        return replace(
            self,
            noise=noise,
            spread=spread,
            pair_correlation=share * self.pair_correlation,
            rung_correlation=share * self.rung_correlation,
        )

    def rung_precision(self) -> FloatArray:
        """Inverse covariance of a ladder's rungs around 1..N, shape (N, N)."""
        shift, stretch, uneven = self.rung_sd
        level = centred_levels(self.n_rungs)
        by_stretch = stretch**2 * np.outer(level, level)
        by_unevenness = uneven**2 * np.eye(self.n_rungs)
        covariance: FloatArray = shift**2 + by_stretch + by_unevenness
        return np.linalg.inv(covariance).astype(np.float64)

    def prior(self, n_ladders: int, sharpness: FloatArray | None = None) -> Prior:
        """What is known of ladders before any answer. sharpness : as in Prior; None: 0 for all contexts"""
        n = self.n_rungs
        levels = np.arange(1.0, n + 1)
        if sharpness is None:
            sharpness = np.zeros(n_ladders)
        return Prior(
            rungs=np.broadcast_to(levels, (n_ladders, n)),
            precision=np.broadcast_to(self.rung_precision(), (n_ladders, n, n)),
            sharpness=sharpness,
            sharpness_sd=np.full(n_ladders, self.sharpness_sd),
        )

    def scale_variance(self, x: FloatArray) -> FloatArray:
        """Variance of the scale itself at positions x, rungs squared.

        The scale is that of the median of n_ladders, and the median of n normal variables has pi/2 times the variance
        of their mean.
        """
        shift, stretch, _ = self.rung_sd
        off_middle = x - (self.n_rungs + 1) / 2
        variance: FloatArray = (shift**2 + stretch**2 * off_middle**2) * math.pi / 2
        return variance / max(self.n_ladders, 1)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; log_tie is null where there is no Similar."""
        values = asdict(self)
        if not math.isfinite(self.log_tie):
            values["log_tie"] = None
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> JudgeModel:
        """From `to_dict`. raises : ValueError, and its like, for what cannot be a judge"""
        log_tie = values["log_tie"]
        if log_tie is None:
            log_tie = -math.inf
        made = cls(**{**values, "log_tie": log_tie, "rung_sd": tuple(values["rung_sd"])})
        shift, stretch, uneven = made.rung_sd
        between = (made.context_sd, made.sharpness_sd, made.spread_sd, made.bias_sd)
        deviations = (shift, stretch, uneven, made.target_sd, *between)
        numbers = asdict(made)
        del numbers["rung_sd"]  # among deviations
        if values["log_tie"] is None:
            del numbers["log_tie"]  # is infinite
        plausible = all(abs(number) < _LARGEST for number in (*deviations, *numbers.values()))
        if not plausible or type(made.n_rungs) is not int or not 2 <= made.n_rungs <= _MOST_RUNGS:
            raise ValueError(f"its judge is {made}, expected numbers, and 2 to {_MOST_RUNGS} rungs")
        positive = made.discrimination > 0 and made.noise > 0
        not_negative = made.spread >= 0 and min(deviations) >= 0
        if made.rungs_rise and not (positive and not_negative):
            raise ValueError(
                f"its judge is {made}, expected discrimination and noise > 0, spread and all deviations 0 or more"
            )
        if not (-1 < made.pair_correlation <= 1 and 0 <= made.rung_correlation <= 1):
            raise ValueError(f"its judge is {made}, expected correlations of pairs above -1 and of rungs from 0, to 1")
        return made


@dataclass(frozen=True, slots=True, eq=False)
class Prior:
    """Where rungs are expected before any answer: normal distributions on the rung scale. (Targets: see JudgeModel.)

    rungs, precision : float64, shape (n_ladders, N) and (n_ladders, N, N); mean and inverse covariance
    sharpness, sharpness_sd : float64, shape (n_ladders,); log of the judge's discrimination on this context, divided by
        JudgeModel.discrimination (0: as sharp as usual), and how uncertain that is
    """

    rungs: FloatArray
    precision: FloatArray
    sharpness: FloatArray
    sharpness_sd: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Posterior:
    """Where texts stand by their answers: normal distributions on the rung scale.

    mean, sd : float64, shape (n_targets,), rungs
    rungs, rung_cov : float64, shape (n_ladders, N) and (n_ladders, N, N); the estimated positions of the rungs, and
        their covariance
    n_answers : int64, shape (n_targets,); answers about each target; where 0, mean and sd are those of the prior
    settled : bool, shape (n_ladders,); False where the positions of a ladder and its targets still moved when the steps
        ran out
    sharpness, sharpness_sd : float64, shape (n_ladders,); as in Prior
    """

    mean: FloatArray
    sd: FloatArray
    rungs: FloatArray
    rung_cov: FloatArray
    n_answers: IntArray
    settled: BoolArray
    sharpness: FloatArray
    sharpness_sd: FloatArray

    def interval(self, level: float = 0.9) -> tuple[FloatArray, FloatArray]:
        """Lower and upper end of each target's central interval of this probability, shape (n_targets,) each, rungs."""
        from scipy.special import ndtri

        width = float(ndtri((1 + level) / 2)) * self.sd
        return self.mean - width, self.mean + width

    def extrapolated(self) -> npt.NDArray[np.bool_]:
        """Whether each target's mean lies outside 1..N, where there is no rung, so that the scale is a guess."""
        outside: npt.NDArray[np.bool_] = (self.mean < 1) | (self.mean > self.rungs.shape[1])
        return outside


class Residuals(NamedTuple):
    """The differences between answers and what the positions lead one to expect; shape (n_answers,) unless given.

    probs : P of each answer by the positions, shape (n_answers, 3)
    variance : V, the variance of one answer drawn from P (`variance`)
    residual : half_margin of the answer less that of P
    sampling : as SoftAnswers.sampling
    hidden : variance that the log-odds of P have because the positions are uncertain, nats squared
    """

    probs: FloatArray
    variance: FloatArray
    residual: FloatArray
    sampling: FloatArray | None
    hidden: FloatArray


def label_probs(d: FloatArray, log_tie: float) -> FloatArray:
    """P(better, worse, similar), shape (*d.shape, 3). d : log-odds of better against worse. log_tie : JudgeModel's"""
    half = d / 2
    top = np.maximum(np.abs(half), log_tie)  # is subtracted, so that no exponential overflows
    probs: FloatArray = np.empty((*d.shape, 3))
    for column, logit in enumerate((half, -half, log_tie)):
        np.exp(logit - top, out=probs[..., column])
    total = probs[..., 0] + probs[..., 1] + probs[..., 2]
    probs /= total[..., None]
    return probs


def half_margin(probs: FloatArray) -> FloatArray:
    """(p(better) - p(worse)) / 2, the mean of a variable that is 1/2 for better, -1/2 for worse, 0 for similar; shape
    of all but the last axis."""
    return (probs[..., 0] - probs[..., 1]) / 2


def variance(probs: FloatArray) -> FloatArray:
    """Variance of the variable of `half_margin`; shape of all but the last axis."""
    return (probs[..., 0] + probs[..., 1]) / 4 - half_margin(probs) ** 2


def centred_levels(n_rungs: int) -> FloatArray:
    """Levels 1..N less their mean, shape (N,)."""
    return np.arange(n_rungs, dtype=np.float64) - (n_rungs - 1) / 2
