"""What several judges make of the same texts -> where the texts stand, and what each judge is worth. No labels.

Texts come in contexts of n; judge m sees text i of a context at t, and says of it what its errors leave:

    t[m, i] = slope[m] s[i] + u[m, i],    s ~ N(0, 1),    u ~ N(0, own[m])

`own` is what a judge makes of a text that the others do not, however sure it is of it: without it, a judge who never
contradicts itself would be taken at its word. All arrays have the axes (judge, context, text), as far as they need
them. Knows nothing of how judges are asked. NumPy; SciPy for a chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..types import FloatArray

_FEW = 10.0  # texts that "all judges are equally good" counts as
_LEAST = 1e-6  # of a judge's variance that is its own: the system stays regular


class Juror(NamedTuple):
    """What a judge of a jury is worth.

    slope : by how much its scores differ where the jury's differ by 1; 0: it follows the jury in nothing
    bias : towards what is asked about, or shown first; in the units of its answers. NaN where the scores are without
    noise : variance of its answers about a pair, in a coin's where answers are probabilities. NaN as bias
    own : standard deviation of what it makes of a text and the others do not, in the units of its answers
    agreement : correlation of where its answers alone would place texts, and where they stand
    share : of all information about where the texts stand; those of a jury sum to 1
    n_texts : that it has said something of
    """

    name: str
    slope: float
    bias: float
    noise: float
    own: float
    agreement: float
    share: float
    n_texts: int


class Seen(NamedTuple):
    """What each judge has said: log-likelihoods of t, -1/2 t'Ht + r't.

    information : H, shape (m, c, n, n). pull : r, shape (m, c, n)
    """

    information: FloatArray
    pull: FloatArray


class Bench(NamedTuple):
    """What the judges are like. slope, own : shape (m,), >= 0; their sum of squares and variance is that of t"""

    slope: FloatArray
    own: FloatArray

    @property
    def covariance(self) -> FloatArray:
        """Of t over judges, shape (m, m)."""
        return np.outer(self.slope, self.slope) + np.diag(self.own)


class Belief(NamedTuple):
    """Normal distributions: of s, mean and cov of shapes (c, n) and (c, n, n); of t, at and at_cov with judges first.

    moments : of t over judges, summed over texts, shape (m, m)
    worth : information of each judge about s, summed over texts, shape (m,)
    """

    mean: FloatArray
    cov: FloatArray
    at: FloatArray
    at_cov: FloatArray
    moments: FloatArray
    worth: FloatArray


def believe(seen: Seen, bench: Bench) -> Belief:
    """Where the texts stand, for judges like these. Given s, judges are independent: their information adds up.

    B = (1 + own H)^-1;   cov = (1 + sum of slope^2 B H)^-1;   mean = cov sum of slope B r
    """
    slope, own = bench.slope[:, None, None], bench.own[:, None, None]
    one = np.eye(seen.pull.shape[-1])
    b = np.linalg.inv(one + own[..., None] * seen.information)
    known = b @ seen.information
    cov = np.linalg.inv(one + np.einsum("m,mcij->cij", bench.slope**2, known))
    told = (b @ seen.pull[..., None])[..., 0]
    mean = np.einsum("cij,mcj->ci", cov, slope * told)
    at = slope * mean + own * (told - slope * (known @ mean[..., None])[..., 0])
    shared = slope[..., None] * b @ cov  # of t and s
    at_cov = shared @ b * slope[..., None] + own[..., None] * b
    moments = np.einsum("mci,lci->ml", at, at) + np.einsum("mcij,lcij->ml", shared, slope[..., None] * b)
    moments += np.diag(bench.own * np.einsum("mcii->m", b))
    return Belief(mean, cov, at, at_cov, moments, bench.slope**2 * np.einsum("mcii->m", known))


def refit(bench: Bench, moments: FloatArray, n_texts: float) -> Bench:
    """The judges under whom these moments are most probable; a judge is never read backwards, so slopes are >= 0.

    Two judges cannot tell whose the difference is: their own parts are then the same share of both.
    source : factor analysis by EM, Rubin and Thayer (1982), with _FEW texts on which all judges agree alike
    """
    n_judges = len(moments)
    sd = np.sqrt(np.diag(moments) / n_texts)
    agree = moments / n_texts / np.outer(sd, sd)
    common = float(np.clip((agree.sum() - n_judges) / (n_judges * (n_judges - 1)), 0.0, 1 - _LEAST))
    if n_judges == 2:
        return Bench(sd * np.sqrt(common), sd**2 * (1 - common))
    alike = np.full_like(agree, common)
    np.fill_diagonal(alike, 1.0)
    agree = (n_texts * agree + _FEW * alike) / (n_texts + _FEW)
    slope, own = bench.slope / sd, bench.own / sd**2
    for _ in range(100):
        weights = slope / own / (1 + (slope**2 / own).sum())  # E(s | t) is weights @ t
        told = agree @ weights
        left = 1 - weights @ slope + weights @ told  # E(s^2)
        slope = np.maximum(told / left, 0.0)
        own = np.maximum(1 - 2 * slope * told + slope**2 * left, _LEAST)
    return Bench(slope * sd, own * sd**2)


def jurors(
    names: Sequence[str],
    bench: Bench,
    seen: Sequence[Seen],
    beliefs: Sequence[Belief],
    bias: FloatArray,
    noise: FloatArray,
    n_texts: float,
) -> tuple[Juror, ...]:
    """What each judge is worth. seen, beliefs : of all contexts, those of one size together; n_texts : of all"""
    worth = np.sum([belief.worth for belief in beliefs], axis=0)
    share = worth / worth.sum()
    alone = worth / n_texts
    n_seen = np.sum([(np.einsum("mcii->mci", each.information) > 0).sum(axis=(1, 2)) for each in seen], axis=0)
    slope = bench.slope / (share @ bench.slope)
    columns = slope, bias, noise, np.sqrt(bench.own), np.sqrt(alone / (1 + alone)), share, n_seen
    numbers = [column.tolist() for column in columns]
    return tuple(Juror(*of) for of in zip(names, *numbers, strict=True))


def disagreement(seen: Seen, bench: Bench) -> FloatArray:
    """The chance that judges like these, with their errors, disagree so much about a text; shape (c, n).

    From each judge alone, where it sees the text, less what one s explains best: chi-squared, one degree of freedom
    for each judge more than one that has said something. NaN for a text of one judge.
    """
    from scipy.special import chdtrc

    spread = bench.slope**2 + bench.own
    one = np.eye(seen.pull.shape[-1])
    alone = np.linalg.inv(one + spread[:, None, None, None] * seen.information)
    at = spread[:, None, None] * (alone @ seen.pull[..., None])[..., 0]
    seeing = bench.slope[:, None, None, None] * (one - alone)
    covariance = np.einsum("mcij,lcji->ciml", seeing, seeing)
    known = np.einsum("mcii->cim", one - alone)
    judges = np.arange(len(spread))
    covariance[..., judges, judges] = spread * known
    there = known > 1e-9
    covariance[..., judges, judges] += ~there  # says nothing: at is 0
    at, level = np.moveaxis(at, 0, -1), bench.slope * known
    inverse = np.linalg.inv(covariance)
    together = (inverse @ at[..., None])[..., 0]
    along = (inverse @ level[..., None])[..., 0]
    explained = (along * at).sum(-1) ** 2 / np.maximum((along * level).sum(-1), 1e-300)
    free = there.sum(axis=-1) - 1.0
    chance = chdtrc(np.maximum(free, 1.0), np.maximum((together * at).sum(-1) - explained, 0.0))
    return np.where(free > 0, chance, np.nan)
