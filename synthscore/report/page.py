"""A run -> one HTML page that needs nothing else.

page.html.jinja lays it out and has its words. What comes from outside is only ever a value there, which it escapes.
Equal runs give equal pages.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import numpy as np

from .._version import __version__
from ..evaluation.agreement import ALIASES
from ..signature import Signature
from ..types import Score
from . import pictures, words
from .agreement import Agreements, Figure, agreements
from .ladders import LIKELY, POSSIBLE, VIEW, interval, ladder_views
from .numbers import Group, failures, groups, length_effect, masses
from .read import Run
from .verdicts import overall
from .words import counted, number, percent, points, spaced, span

CARDS = 24  # of a section
POINTS = 2000  # of all scatter figures


def page(run: Run, *, title: str | None = None, min_score: float | None = None, context_id: str | None = None) -> str:
    """The report, as HTML.

    min_score : a threshold to draw and to count by
    context_id : whose ladders are shown; None: the one ladder that shows most
    """
    found = groups(run, min_score)
    views = ladder_views(run, found, context_id)
    most = POINTS // max(min(len(found), CARDS), 1)
    lengths = [(group, effect) for group in found if (effect := length_effect(group, run.texts, most))]
    signatures = list(dict.fromkeys(row.signature for row in run.rows if row.signature.parts))
    return _template().render(
        title=title or f"Scores of {run.name}",
        run=run,
        groups=found,
        short=_short(run, found),
        min_score=min_score,
        context_id=context_id,
        scored=[group for group in found if group.scored.any()],
        anchored=any(row.part("scoring").startswith("anchored") for row in run.rows),
        views=views,
        line_means=line_means([score for view in views for score in view.scores]),
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


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    filters = ("spaced", "clip", "whole", "number", "points", "percent")
    environment.filters |= {name: getattr(words, name) for name in filters}
    environment.globals |= {
        "version": __version__, "draw": pictures, "counted": counted, "cut": words.cut, "span": span, "spaced": spaced,
        "CARDS": CARDS, "VIEW": VIEW, "ALIASES": ALIASES, "interval": interval,
        "overall": overall, "array": np.array, "average": np.average, "median": np.median, "isnan": math.isnan,
        "nan": math.nan, "sqrt": math.sqrt,
    }  # fmt: skip
    return environment.from_string(Path(__file__).with_name("page.html.jinja").read_text(encoding="utf-8"))


def _short(run: Run, found: Sequence[Group]) -> list[str]:
    """What the page says, in a few sentences."""
    scored = [group for group in found if group.scored.any()]
    total = sum(len(group.rows) for group in found)
    if not scored:
        return [f"{counted(total, 'text')}, none of them scored."] if found else []
    whole, partial, unscored = (sum(group.count[of] for group in found) for of in ("ok", "partial", "unscored"))
    names = list(dict.fromkeys(group.attribute for group in found))
    of = f" in {len(run.scores)} files or methods" if len(run.scores) > 1 else ""
    on = f" on {names[0]}" if len(names) == 1 and names[0] else f" on {len(names)} attributes" if names[1:] else ""
    counts = f"{spaced(whole)} whole, {spaced(partial)} partial, {spaced(unscored)} unscored"
    lines = [f"{counted(total, 'score')}{of}{on}: {counts}."]
    sizes = {group.n_rungs for group in scored}
    if len(sizes) == 1 and (n_rungs := sizes.pop()):
        medians = span([group.quarters[1] for group in scored], number, "between {} and {}")
        lines.append(f"The median is {medians}, where 1 is as good as the worst rung and {n_rungs} as the best.")
    if at := [(group.chosen, len(group.rows)) for group in found if group.chosen]:
        kept, undecided, n = sum(d.kept for d, _ in at), sum(d.undecided for d, _ in at), sum(n for _, n in at)
        of = "" if n == total else " of those on a scale of rungs"
        may = f"; {spaced(undecided)} more may or may not" if undecided else ""
        lines.append(f"{spaced(kept)} ({percent(kept, n)}){of} reach {at[0][0].threshold:g}{may}.")
    if both := [pair for group in found if not math.isnan((pair := overall(group.by_rung))[0])]:
        favours, changed = zip(*both, strict=True)
        lines.append(
            f"Position bias: to be the text that the question is about is worth {span(favours, points)} points of "
            f"P(better); {span(changed, percent)} of pairs get another verdict in the other order."
        )
    return lines


def _other_ladders(run: Run) -> list[str]:
    """What the signatures name, where these are not the ladders of the run."""
    named = {row.part("references") for row in run.rows} - {""}
    return [] if run.references is None or run.references.hash[:12] in named else sorted(named)


def line_means(scores: Sequence[Score]) -> list[str]:
    """What the line of a text on the ladder stands for, a sentence for each kind that there is."""
    sentences = {
        LIKELY: f"The line of a text is the {LIKELY} of its score, by its error.",
        POSSIBLE: "The line of a text without an error goes from the least to the greatest score that what is missing "
        "(verdicts, or labels that were not reported) could give it.",
    }
    kinds = {interval(score).kind for score in scores}
    return [sentence for kind, sentence in sentences.items() if kind in kinds]


def _agreement(run: Run) -> dict[str, Any]:
    """all : every figure. cards : for each level and attribute, the methods by one statistic, the best first

    ends : of the scale, which is one for all cards, so that they can be compared
    """
    found = run.evaluation or (agreements(run.ratings, run.scores) if run.ratings else Agreements())
    statistics = {figure.statistic for figure in found.figures}
    first = "spearman" if "spearman" in statistics else min(statistics, default="")
    drawn: dict[tuple[str, str], list[Figure]] = {}
    for figure in found.figures:
        if figure.statistic == first:
            drawn.setdefault((figure.level, figure.attribute), []).append(figure)
    numbers = [end for own in drawn.values() for figure in own for end in figure[4:7]]
    known = [end for end in (*numbers, *found.ceilings.values(), 0.0, 0.5) if not math.isnan(end)]
    cards = [sorted(own, key=lambda f: math.inf if math.isnan(f.value) else -f.value) for own in drawn.values()]
    return {"all": found, "cards": cards, "ends": (min(known), max(known))}
