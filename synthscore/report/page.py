"""A run -> one HTML page that needs nothing else.

page.html.jinja lays it out and has its words. What comes from outside is only ever a value there, which it escapes.
Equal runs give equal pages.
"""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import numpy as np

from .._version import __version__
from ..signature import Signature
from ..types import grouped
from . import pictures, words
from .agreement import Agreements, agreements, best_first
from .changes import changes, signature_changes
from .ladders import LIKELY, POSSIBLE, VIEW, extremes, interval, ladder_views
from .numbers import failures, groups, length_effect, masses
from .read import Run
from .systems import LEVEL, compare_systems
from .verdicts import overall

CARDS = 24  # of a section
READ = 4  # groups whose best and worst texts are shown


def page(
    run: Run,
    *,
    title: str | None = None,
    min_score: float | None = None,
    context_id: str | None = None,
    rows: str = "",
) -> str:
    """The report, as HTML.

    min_score : a threshold to draw and to count by
    context_id : whose ladders are shown; None: the one ladder that shows most
    rows : address of the page that all rows begin on (`row_pages`); "": there is none
    """
    found = groups(run, min_score)
    if run.sides:
        found.sort(key=lambda group: (group.n_rungs is None, group.attribute))  # both runs beside each other
    scored = [group for group in found if group.scored.any()]
    lengths = [(group, effect) for group in found if (effect := length_effect(group, run.texts))]
    signatures = list(dict.fromkeys(row.signature for row in run.rows if row.signature.parts))
    return template("page.html.jinja").render(
        rows=rows,
        title=title or f"Scores of {run.name}",
        run=run,
        groups=found,
        min_score=min_score,
        context_id=context_id,
        scored=scored,
        with_errors=any(row.score.stderr is not None and "n_rungs" in row.score.details for row in run.rows),
        changes=changes(run, min_score),
        signature_changes=signature_changes(run),
        comparisons=compare_systems(found, run.systems),
        extremes=[one for group in scored[:READ] if (one := extremes(group)).best],
        views=ladder_views(run, found, context_id),
        other_ladders=_other_ladders(run),
        judged=[group for group in found if group.by_rung],
        both_orders=[(group, both) for group in found if (both := [rung for rung in group.by_rung if rung.n_both])],
        masses=masses(run),
        lengths=lengths,
        failures=failures(run),
        agreement=_agreement(run),
        signatures=signatures,
        merged=Signature.merged(signatures),
    )


def template(name: str) -> jinja2.Template:
    """A template of this folder. It escapes whatever is put into it."""
    return _environment().get_template(name)


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    names = ("spaced", "counted", "cut", "clip", "whole", "number", "within", "points", "percent", "span")
    written = {name: getattr(words, name) for name in names}
    environment.filters |= written | {"interval": interval, "overall": overall}
    environment.globals |= written | {
        "version": __version__, "draw": pictures, "CARDS": CARDS, "VIEW": VIEW, "READ": READ, "SURE": LEVEL,
        "LIKELY": LIKELY, "POSSIBLE": POSSIBLE, "math": math, "np": np,
    }  # fmt: skip
    return environment


def _other_ladders(run: Run) -> list[str]:
    """What the signatures name, where these are not the ladders of the run."""
    named = {row.signature.part("references") for row in run.rows} - {""}
    return [] if run.references is None else sorted(named - {run.references.hash[:12]})


def _agreement(run: Run) -> dict[str, Any]:
    """all : every figure. cards : for each level and attribute, the methods, the best first

    ends : of the scale, which is one for all cards, so that they can be compared
    """
    found = run.evaluation or (agreements(run.ratings, run.scores) if run.ratings else Agreements())
    drawn = grouped(
        ((figure.level, figure.attribute), figure) for figure in found.figures if figure.statistic == found.statistic
    )
    numbers = [end for own in drawn.values() for figure in own for end in figure[4:7]]
    ends = (*numbers, *found.ceilings.values(), 0.0, 0.5)
    known = [end for end in ends if not math.isnan(end)]
    cards = [sorted(own, key=best_first) for own in drawn.values()]
    return {"all": found, "cards": cards, "ends": (min(known), max(known))}
