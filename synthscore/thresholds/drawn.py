"""How labelled texts were drawn from all: what their rows say, and what their scores say. Labels of texts that were
chosen by score say nothing of the others, whoever chose them.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal

import numpy as np

from ..errors import InputError, SynthscoreWarning
from ..io.fields import Row, read_names, read_number, row_error
from ..types import BoolArray, FloatArray, IntArray
from .clustered import ClusteredMean

Drawn = Literal["random", "all", "not known"]
DRAWN = "drawn"
DRAWN_FROM = "drawn_from"
CHOSEN = "chosen"
"""The columns that say how a text came to be labelled, and from how many; and what stands in the first where it was
chosen by its score."""

NOT_KNOWN = "how rows were drawn is not known: what follows holds if it was at random, whatever their score"

REFUSED, DOUBTED = 1e-3, 0.05
"""Labelled texts are refused, or doubted, where by chance their scores would differ so from the others' less often."""


def stamp(how: str, n_texts: int) -> Mapping[str, Any]:
    """The columns of a text to label. how : "random", "all" or CHOSEN. n_texts : from so many texts"""
    return {DRAWN: how, DRAWN_FROM: n_texts}


def read_stamps(rows: Collection[Row], n_scored: int) -> Drawn:
    """How labelled texts were drawn, as their rows say. n_scored : how many texts have a score

    "not known" where a row does not say it, or only some of "all" are labelled: nobody knows who chose these.
    raises : InputError where texts were chosen by their score, or drawn from fewer than are scored
    """
    if chosen := [row for row in rows if row.values.get(DRAWN) == CHOSEN]:
        seen = f"text {read_names(chosen[0]).id!r}, as {len(chosen)} of {len(rows)}, was chosen by its score"
        remedy = "Labels speak for texts drawn at random: label some of all texts (synthscore export --sample N)"
        raise row_error(chosen[0], DRAWN, CHOSEN, f"{seen}, expected only texts drawn at random", remedy)
    hows = set()
    for row in rows:
        how, n_texts = row.values.get(DRAWN), read_number(row, DRAWN_FROM)
        if n_texts is not None and n_texts < n_scored:
            seen = f"text {read_names(row).id!r} was drawn from {n_texts:.0f} texts, but {n_scored} have a score"
            remedy = "Draw from all that are scored (synthscore export --sample N), or give only the scores of those"
            raise row_error(row, DRAWN_FROM, n_texts, f"{seen}, expected that all could be drawn", remedy)
        hows.add("not known" if n_texts is None or (how == "all" and n_texts != len(rows)) else how)
    if hows == {"all"}:
        return "all"
    return "random" if hows and hows <= {"all", "random"} else "not known"


def compare_scores(values: FloatArray, labelled: BoolArray, contexts: IntArray) -> float:
    """The probability that scores of labelled and other texts differ so where the labelled ones were drawn at random.

    The difference of the two sides' mean ranks among all scores, over its standard error, which knows that texts of one
    context are alike (ClusteredMean); by Student's t.

    values : shape (n_texts,), NaN where unscored: such texts take no part
    returns : NaN where either side has scores of fewer than two contexts
    """
    from scipy.special import binom
    from scipy.stats import rankdata

    scored = ~np.isnan(values)
    ranks = rankdata(values[scored])
    labelled, contexts = labelled[scored], contexts[scored]
    n_contexts = int(contexts.max(initial=-1)) + 1
    ours, others = (
        ClusteredMean.estimate(ranks[which], contexts[which], n_contexts) for which in (labelled, ~labelled)
    )
    if ours.stderr == others.stderr == 0 and ours.value != others.value:
        return float(1 / binom(ours.n_contexts + others.n_contexts, ours.n_contexts))
    return ours.plus(others, -1.0).p_value


def require_like_scores(
    values: FloatArray, labelled: BoolArray, contexts: IntArray, groups: Collection[BoolArray] = ()
) -> None:
    """Labelled texts score as the others do, in each group of texts that is spoken of (default: in all).

    warns : SynthscoreWarning below p = DOUBTED, each p times the number of groups
    raises : InputError below p = REFUSED
    """
    groups = groups or (np.ones(len(values), dtype=bool),)
    p = len(groups) * min(_comparable(values, labelled, contexts, groups), default=1.0)
    if p >= DOUBTED:
        return
    means = [np.nanmean(values[which]) for which in (labelled, ~labelled)]
    seen = (
        f"the {labelled.sum()} labelled texts score otherwise than the {(~labelled).sum()} others (mean {means[0]:.2f} "
        f"and {means[1]:.2f}, p = {p:.2g} by their ranks)"
    )
    if p < REFUSED:
        raise InputError(
            f"{seen}, expected texts drawn at random, whatever their score. Label some of all texts (synthscore export "
            "--sample N), or give only the scores of those that labels were drawn from",
            field="label",
            value=p,
        )
    warnings.warn(f"{seen}: were they drawn at random?", SynthscoreWarning, stacklevel=3)


def _comparable(
    values: FloatArray, labelled: BoolArray, contexts: IntArray, groups: Collection[BoolArray]
) -> Iterator[float]:
    for group in groups:
        p = compare_scores(values[group], labelled[group], contexts[group])
        if not np.isnan(p):
            yield p
