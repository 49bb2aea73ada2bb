"""Scores of many texts and labels of some -> the mean label of all such texts. NumPy: no files, no rows.

Prediction-powered inference with a tuned weight of the scores (PPI++: Angelopoulos, Duchi and Zrnic 2023,
arXiv:2311.01453), for texts that come in contexts. Whatever the scores are, the mean is right: good scores make its
interval shorter, and useless ones get no weight.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..thresholds.clustered import ClusteredMean
from ..types import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class IntervalEstimate:
    """A number with its interval; NaN where there is none."""

    value: float = math.nan
    stderr: float = math.nan
    low: float = math.nan
    high: float = math.nan

    @property
    def width(self) -> float:
        return self.high - self.low


@dataclass(frozen=True, slots=True)
class Means:
    """The mean label, estimated in three ways; `weight` is that of the scores in the corrected mean."""

    corrected: ClusteredMean
    labels_alone: ClusteredMean
    scores_alone: ClusteredMean
    weight: float

    def minus(self, other: Means) -> Means:
        """The differences of two systems' means, in which effects of shared contexts cancel. Their weight is NaN."""
        return Means(
            corrected=self.corrected.plus(other.corrected, -1.0),
            labels_alone=self.labels_alone.plus(other.labels_alone, -1.0),
            scores_alone=self.scores_alone.plus(other.scores_alone, -1.0),
            weight=math.nan,
        )

    def by_labels_alone(self) -> Means:
        return Means(self.labels_alone, self.labels_alone, self.scores_alone, 0.0)


def mean_labels(labels: FloatArray, scores: FloatArray, contexts: IntArray, n_all_contexts: int) -> Means:
    """The mean label of texts like these, some of which are labelled, drawn at random:

        corrected = mean(labels) + weight (mean(scores of the others) - mean(scores of the labelled))

    A text without a score is taken to have the mean score: it counts, and only its label says how good it is.

    labels, scores : float64, shape (n_texts,); NaN where a text is not labelled, or not scored
    contexts : shape (n_texts,), numbers below n_all_contexts
    """
    labelled = ~np.isnan(labels)
    scored = ~np.isnan(scores)
    mean_score = 0.0
    if scored.any():
        mean_score = scores[scored].mean()
    predictions = np.where(scored, scores, mean_score)

    def mean(values: FloatArray, which: np.ndarray) -> ClusteredMean:
        return ClusteredMean.estimate(values[which], contexts[which], n_all_contexts)

    labels_alone = mean(labels, labelled)
    weight = tune_weight(labels[labelled], predictions[labelled], predictions[~labelled])
    corrected = labels_alone
    if weight:
        excess = mean(predictions, labelled).plus(mean(predictions, ~labelled), -1.0)
        corrected = labels_alone.plus(excess, -weight)
    return Means(corrected, labels_alone, mean(scores, scored), weight)


def tune_weight(labels: FloatArray, scores: FloatArray, scores_of_others: FloatArray) -> float:
    """lambda, the weight of the scores at which the corrected mean varies least, as ppi-python estimates it:

        lambda = cov(labels, scores) / ((1 + n / N) var(all scores)),  from 0 to 1

    with n labelled texts and N others; cov is over n, var over n + N - 1. 0 where there are no others.
    """
    n = len(labels)
    n_others = len(scores_of_others)
    if not n or not n_others:
        return 0.0
    variance = float(np.var(np.concatenate([scores, scores_of_others]), ddof=1))
    if not variance:
        return 0.0
    covariance = float(np.mean((labels - labels.mean()) * (scores - scores.mean())))
    best = covariance / ((1 + n / n_others) * variance)
    return min(max(best, 0.0), 1.0)


def t_interval(mean: ClusteredMean, confidence: float) -> IntervalEstimate:
    """value +- t stderr, by Student's t with mean.freedom degrees. None where stderr is 0: labels that do not differ
    between contexts do not say how labels vary."""
    if not mean.stderr > 0:
        return IntervalEstimate(mean.value)
    reach = mean.t_quantile(confidence) * mean.stderr
    return IntervalEstimate(
        value=mean.value,
        stderr=mean.stderr,
        low=mean.value - reach,
        high=mean.value + reach,
    )


def share_interval(mean: ClusteredMean, confidence: float, variance: float) -> IntervalEstimate:
    """The interval of a share: all p with

        (value - p)^2 <= t^2 p (1 - p) / n,     n = variance / stderr^2

    where n is the effective number of independent texts. value +- t stderr would be too short where few texts are good,
    or few are bad. Where all labels are equal, they do not show how they vary, and n is the number of contexts, since a
    context tells at least as much as one label.

    variance : of one label, p (1 - p) of the share by labels alone
    returns : no interval where the share is below 0 or above 1, as a corrected one can be, or where it is between them
        and its stderr is 0
    source : Wilson (1927), with Student's t for the normal
    """
    if 0 <= mean.value <= 1 and mean.stderr > 0 and variance > 0:
        n = variance / mean.stderr**2
    elif mean.value in (0, 1) and mean.stderr == 0:
        n = float(mean.n_contexts)
    else:
        return IntervalEstimate(mean.value)
    spread = mean.t_quantile(confidence) ** 2 / n
    good, bad = mean.value, 1 - mean.value
    reach = spread / 2 + math.sqrt(spread * good * bad + spread**2 / 4)
    low = good**2 / (good + reach)
    high = 1 - bad**2 / (bad + reach)
    return IntervalEstimate(value=mean.value, stderr=mean.stderr, low=low, high=high)
