"""How labelled texts were drawn from all, by what their rows say and by their scores. Labels of texts that were chosen
by score say nothing about the other texts, whoever chose them.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
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
    if chosen := [row for row in rows if _how(row) == CHOSEN]:
        problem = f"text {read_names(chosen[0]).id!r}, as {len(chosen)} of {len(rows)}, was chosen by its score"
        remedy = "Labels speak for texts drawn at random: label some of all texts (synthscore export --sample N)"
        raise row_error(chosen[0], DRAWN, CHOSEN, f"{problem}, expected only texts drawn at random", remedy)
    hows = set()
    for row in rows:
        how = _how(row)
        n_texts = read_number(row, DRAWN_FROM)
        if n_texts is not None and n_texts < n_scored:
            problem = f"text {read_names(row).id!r} was drawn from {n_texts:.0f} texts, but {n_scored} have a score"
            remedy = "Draw from all that are scored (synthscore export --sample N), or give only the scores of those"
            raise row_error(row, DRAWN_FROM, n_texts, f"{problem}, expected that all could be drawn", remedy)
        if n_texts is None or (how == "all" and n_texts != len(rows)):
            how = "not known"
        hows.add(how)
    if hows == {"all"}:
        return "all"
    if hows and hows <= {"all", "random"}:
        return "random"
    return "not known"


def _how(row: Row) -> str:
    """What the row says, as a person or a spreadsheet may write it."""
    return str(row.values.get(DRAWN, "")).strip().lower()


def compare_scores(values: FloatArray, labelled: BoolArray, contexts: IntArray) -> float:
    """The p-value of the difference between scores of labelled and other texts: labelled ones may be drawn at random.

    The difference of the two mean ranks among all scores is divided by its standard error, which takes account of
    contexts (ClusteredMean), and compared with Student's t.

    values : shape (n_texts,), NaN where unscored: such texts take no part
    returns : NaN where either side has scores of fewer than two contexts
    """
    from scipy.special import binom
    from scipy.stats import rankdata

    scored = ~np.isnan(values)
    ranks = rankdata(values[scored])
    labelled = labelled[scored]
    contexts = contexts[scored]
    n_contexts = int(contexts.max(initial=-1)) + 1
    ours = ClusteredMean.estimate(ranks[labelled], contexts[labelled], n_contexts)
    others = ClusteredMean.estimate(ranks[~labelled], contexts[~labelled], n_contexts)
    if ours.stderr == others.stderr == 0 and ours.value != others.value:
        return float(1 / binom(ours.n_contexts + others.n_contexts, ours.n_contexts))
    return ours.plus(others, -1.0).p_value


def require_like_scores(
    values: FloatArray, labelled: BoolArray, contexts: IntArray, systems: Mapping[str, BoolArray] | None = None
) -> None:
    """Refuse, or doubt, labels of texts whose scores differ from the other texts' more than by chance.

    systems : name -> which texts are of it; each is looked at alone. None: all texts together
    warns : SynthscoreWarning below p = DOUBTED, each p times the number of systems
    raises : InputError below p = REFUSED
    """
    systems = systems or {"": np.ones(len(values), dtype=bool)}
    p_values: dict[str, float] = {}
    for name, texts in systems.items():
        p = compare_scores(values[texts], labelled[texts], contexts[texts])
        if not np.isnan(p):
            p_values[name] = p
    system = min(p_values, key=lambda name: p_values[name], default=None)
    if system is None or (p := len(systems) * p_values[system]) >= DOUBTED:
        return
    ours = systems[system] & labelled
    others = systems[system] & ~labelled
    which = f"of system {system!r} " if system else ""
    means = f"mean {np.nanmean(values[ours]):.2f} and {np.nanmean(values[others]):.2f}"
    difference = (
        f"{which}the {ours.sum()} labelled texts score otherwise than the {others.sum()} others ({means}, "
        f"p = {p:.2g} by their ranks)"
    )
    if p < REFUSED:
        raise InputError(
            f"{difference}, expected texts drawn at random, whatever their score. Label some of all texts (synthscore "
            "export --sample N), or give only the scores of those that labels were drawn from",
            field="label",
            value=p,
        )
    warnings.warn(f"{difference}: were they drawn at random?", SynthscoreWarning, stacklevel=3)
