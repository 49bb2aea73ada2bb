"""Texts that come in contexts -> means with errors that allow for texts of one context being alike. NumPy and SciPy."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..types import FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class ClusteredMean:
    """A mean over texts, or a sum of several, and what each context adds to its error.

    influence : shape (n_all_contexts,); stderr^2 is the sum of its squares. 0 for a context that takes no part
    n_contexts : those that take part; in a sum, of the mean with the fewest
    freedom : degrees of freedom: the effective number of contexts, which unequal sizes lower, less one
    """

    value: float
    influence: FloatArray
    n_contexts: int
    freedom: float

    @classmethod
    def estimate(cls, values: FloatArray, contexts: IntArray, n_all_contexts: int) -> ClusteredMean:
        """The mean of some texts.

            influence of c = sqrt((G - 1) / G) / (n - n_c)  sum over the texts of c (value - mean)
            freedom = n^2 / sum n_c^2 - 1

        with n texts of G contexts, n_c of c: the jackknife that leaves out a context. A large context draws the mean
        to itself, so that its own residuals are too small. Where each text is a context, stderr is the usual one of a
        mean. With fewer than two contexts nothing is known of the error, and the influence is NaN.

        values : shape (n_texts,). contexts : shape (n_texts,), numbers below n_all_contexts
        source : Bell and McCaffrey (2002), for a mean; Carter, Schnepel and Steigerwald (2017) for freedom
        """
        n = len(values)
        n_contexts = len(np.unique(contexts))
        mean = float(values.mean()) if n else math.nan
        if n_contexts < 2:
            unknown = np.full(n_all_contexts, np.nan)
            return cls(value=mean, influence=unknown, n_contexts=n_contexts, freedom=math.nan)
        sizes = np.bincount(contexts, minlength=n_all_contexts)
        sums = np.bincount(contexts, values - mean, n_all_contexts)
        sums[np.abs(sums) <= 1e-12 * n * np.abs(values).max()] = 0.0  # Such sums are rounding errors.
        influence = math.sqrt((n_contexts - 1) / n_contexts) / (n - sizes) * sums
        freedom = n**2 / float(sizes @ sizes) - 1
        return cls(value=mean, influence=influence, n_contexts=n_contexts, freedom=freedom)

    def plus(self, other: ClusteredMean, weight: float = 1.0) -> ClusteredMean:
        """This mean and `weight` times another one over the same contexts; their covariance enters the error."""
        return ClusteredMean(
            value=self.value + weight * other.value,
            influence=self.influence + weight * other.influence,
            n_contexts=min(self.n_contexts, other.n_contexts),
            freedom=min(self.freedom, other.freedom),
        )

    @property
    def stderr(self) -> float:
        return float(np.sqrt((self.influence**2).sum()))

    def t_quantile(self, confidence: float) -> float:
        """How many standard errors an interval of this confidence reaches, by Student's t."""
        from scipy.special import stdtrit

        return float(stdtrit(self.freedom, (1 + confidence) / 2))

    @property
    def p_value(self) -> float:
        """P(a value as far from 0) where the truth is 0, by Student's t; NaN where the error is 0, or not known."""
        from scipy.special import stdtr

        stderr = self.stderr
        if not stderr > 0:
            return math.nan
        return float(2 * stdtr(self.freedom, -abs(self.value) / stderr))
