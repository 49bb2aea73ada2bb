"""An evaluation as lines for people: tables of agreement, and below each what its figures leave out."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from ..evaluation.agreement import Agreement
from ..evaluation.intervals import LEAST_CONTEXTS
from ..evaluation.result import AUC, Evaluation
from ..signature import Signature
from .messages import clip, counted, format_number, reasons

WIDTH = 100  # of a table
_NAME = 34  # characters of a method's name
_LEVELS = {
    "per_context": "mean over contexts of the correlation inside each",
    "pooled": "one correlation over all texts",
    "system": "one correlation over the means of systems",
}


def lines(evaluation: Evaluation, levels: Sequence[str], statistics: Sequence[str]) -> Iterator[str]:
    """A table for each level and statistic; what its figures leave out; and what was left out before."""
    for line in _lines(evaluation, levels, statistics):
        indent = " " * (len(line) - len(line.lstrip()) + 2)
        wrapped = textwrap.wrap(line, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
        yield from wrapped or [""]


def _lines(e: Evaluation, levels: Sequence[str], statistics: Sequence[str]) -> Iterator[str]:
    n_systems = len(set(e.ratings.systems) - {""})
    systems = f" by {counted(n_systems, 'system')}" if n_systems else ""
    yield f"{e.ratings.name}: {counted(len(e.ratings), 'text')} of {_contexts(e)}{systems}"
    kinds = list(product(levels, statistics))
    if "pooled" in levels and e.good_from:
        kinds.append(("pooled", AUC))
    for kind in kinds:
        yield ""
        yield from _heading(e, *kind)
        yield from _table(e, *kind)
        yield from _notes(e, *kind)
        yield from _contrasts(e, *kind)
    yield from _unscored(e)
    if e.left_out:
        yield from ("", "left out:", *(f"  {line}" for line in e.left_out))


def _heading(e: Evaluation, level: str, statistic: str) -> Iterator[str]:
    if statistic == AUC:
        ratings = ", ".join(f"{rating:.3g} ({attribute})" for attribute, rating in e.good_from.items())
        yield f"AUC, {level}: P(a text that people rate at least {ratings} scores higher than another, of any context)"
    else:
        yield f"{statistic.capitalize()}, {level}: {_LEVELS[level]}"
    yield f"  [95 % interval over {_contexts(e)}]"


def _table(e: Evaluation, level: str, statistic: str) -> Iterator[str]:
    """A row a method, and people's ceiling below them; a column an attribute.

    There is a column of means where there are several attributes, and one of the share of ratings with a score where
    the rows do not rest on the same texts.
    """
    shares_scored = {method: _share_scored(e, method) for method in e.methods}
    with_mean = len(e.attributes) > 1
    with_share = len(set(shares_scored.values())) > 1
    heads = list(e.attributes)
    if with_mean:
        heads.append("mean")
    if with_share:
        heads.append("scored")
    rows = []
    for method in e.methods:
        figures = [e.find_agreement(method, attribute, level, statistic) for attribute in e.attributes]
        cells = [_cell(figure.value, figure.low, figure.high) for figure in figures]
        if with_mean:
            cells.append(_number(e.means[method, level, statistic].value))
        if with_share:
            cells.append(shares_scored[method])
        rows.append((method, cells))
    people = [e.people.get((attribute, level, statistic)) for attribute in e.attributes]
    if any(people):
        cells = []
        for figure in people:
            cells.append("-" if figure is None else _cell(figure.ceiling, figure.low, figure.high))
        empty = [""] * (len(heads) - len(cells))
        rows.append(("people's ceiling", cells + empty))
    yield from _blocks(heads, rows)


def _share_scored(e: Evaluation, method: str) -> str:
    """The share of ratings that the method has a score beside."""
    n_rated = n_both = 0
    for attribute in e.attributes:
        rated = ~np.isnan(e.ratings.human(attribute))
        scored = ~np.isnan(e.scores[method, attribute].values)
        n_rated += rated.sum()
        n_both += (rated & scored).sum()
    return f"{n_both / max(n_rated, 1):.1%}"


def _blocks(heads: Sequence[str], rows: Sequence[tuple[str, Sequence[str]]], width: int = WIDTH) -> Iterator[str]:
    """Columns that do not fit beside each other come below each other, with the names again."""
    name_size = max(len(clip(name, _NAME)) for name, _ in rows)
    sizes = [max(map(len, column)) for column in zip(heads, *(cells for _, cells in rows), strict=True)]
    blocks: list[list[int]] = [[]]
    for index, size in enumerate(sizes):
        if blocks[-1] and name_size + sum(sizes[i] + 2 for i in blocks[-1]) + size + 2 > width:
            blocks.append([])
        blocks[-1].append(index)
    for block in blocks:
        yield ""
        for name, cells in (("", heads), *rows):
            shown = "".join(f"  {cells[index]:>{sizes[index]}}" for index in block)
            yield f"{clip(name, _NAME):<{name_size}}{shown}".rstrip()


def _cell(value: float, low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return _number(value)
    return f"{_number(value)} [{_number(low)}, {_number(high)}]"


def _number(value: float) -> str:
    """Two decimals, without the 0 before them: no correlation is more than 1."""
    return format_number(value).replace("0.", ".", 1).replace("-.00", ".00")


def _notes(e: Evaluation, level: str, statistic: str) -> Iterator[str]:
    """What the figures of a table leave out or make up; once for all attributes and methods that it is true of."""
    methods_by_note: dict[str, dict[str, list[str]]] = {}  # note -> attribute -> methods
    for method, attribute in product(e.methods, e.attributes):
        if e.scores[method, attribute].n_unscored < len(e.ratings):
            for note in _left_out(e, e.find_agreement(method, attribute, level, statistic), level):
                methods_by_note.setdefault(note, {}).setdefault(attribute, []).append(method)
    yield from _ceilings(e, level, statistic)
    for note, methods_by_attribute in methods_by_note.items():
        for methods in dict.fromkeys(map(tuple, methods_by_attribute.values())):
            attributes = [name for name, others in methods_by_attribute.items() if tuple(others) == methods]
            where = "" if attributes == list(e.attributes) else f"{', '.join(attributes)}: "
            whose = "" if methods == e.methods else f" ({', '.join(methods)})"
            yield f"  {where}{note}{whose}"


def _ceilings(e: Evaluation, level: str, statistic: str) -> Iterator[str]:
    """Why people have no ceiling, and which methods are above it."""
    notes: dict[str, list[str]] = {}  # note -> attributes
    for attribute in e.attributes:
        people = e.people.get((attribute, level, statistic))
        if people is None:
            continue
        if people.note:
            notes.setdefault(people.note, []).append(attribute)
        lows = {method: e.find_agreement(method, attribute, level, statistic).low for method in e.methods}
        above = [method for method, low in lows.items() if low is not None and low > people.ceiling]
        if above:
            note = f"{', '.join(above)} above it, interval and all: take it for no bound (docs/benchmarks.md)"
            notes.setdefault(note, []).append(attribute)
    for note, attributes in notes.items():
        yield f"  people's ceiling, {', '.join(attributes)}: {note}"


def _left_out(e: Evaluation, figure: Agreement, level: str) -> Iterator[str]:
    inside_contexts = level == "per_context"
    if figure.n_skipped:
        why = "no text has both"
        if inside_contexts:
            why = "fewer than two texts have both score and rating, or all that do are rated alike"
        yield f"{figure.n_skipped} of {_contexts(e)} skipped, where {why}"
    if figure.n_constant and inside_contexts:
        yield f"{figure.n_constant} of {_contexts(e)} where all scores are equal count 0"
    all_skipped = inside_contexts and not figure.n_contexts
    if figure.note and not all_skipped:
        yield figure.note


def _contrasts(e: Evaluation, level: str, statistic: str) -> Iterator[str]:
    """How much better each method is than the one that it is compared with."""
    gaps = {}
    for place, gap in e.contrasts.items():
        if (place.level, place.statistic) == (level, statistic):
            gaps[place] = gap
    if not gaps:
        return
    yield ""
    yield f"More than {e.settings.against}, over texts that both score; * p < .05, Holm's correction for {len(gaps)}"
    rows: dict[str, list[str]] = {}
    for place, gap in gaps.items():
        significant = gap.p_holm is not None and gap.p_holm < 0.05
        cell = _cell(gap.value, gap.low, gap.high) + ("*" if significant else " ")
        rows.setdefault(place.method, []).append(cell)
    yield from _blocks([f"{attribute} " for attribute in e.attributes], list(rows.items()))
    too_few = [gap.n_contexts for gap in gaps.values() if 1 < gap.n_contexts < LEAST_CONTEXTS]
    if too_few:
        n = min(too_few)
        yield f"  no * here: from fewer than {LEAST_CONTEXTS} contexts ({n}) no difference can be told from chance"
    n_left_out = sum(gap.n_left_out for gap in gaps.values())
    if n_left_out:
        yield f"  {counted(n_left_out, 'score')} not used: only one of the two methods scores that text"


def _unscored(e: Evaluation) -> Iterator[str]:
    if any(score.status != "ok" for scores in e.scores.values() for score in scores):
        yield ""
    n = len(e.attributes) * len(e.ratings)
    for method in e.methods:
        scores = [score for attribute in e.attributes for score in e.scores[method, attribute]]
        n_partial = sum(score.status == "partial" for score in scores)
        reasons_unscored = [score.reason for score in scores if score.status == "unscored"]
        if n_partial:
            yield f"{method}: {counted(n_partial, 'score')} of {n} partial"
        if reasons_unscored:
            yield f"{method}: {counted(len(reasons_unscored), 'score')} of {n} missing"
            yield from reasons(reasons_unscored)


def _contexts(e: Evaluation) -> str:
    return counted(len(set(e.ratings.context_ids)), "context")


def signatures(e: Evaluation) -> Iterator[str]:
    """A line a method; where attributes differ in a part, all its values are there."""
    for method in e.methods:
        signatures_of_method = {e.scores[method, attribute].signature for attribute in e.attributes}
        merged = Signature.merged(signature for signature in signatures_of_method if signature.parts)
        yield f"{method}: {merged if merged.parts else 'no signature'}"
