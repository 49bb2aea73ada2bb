"""An evaluation as lines for people: tables of agreement, and below each what its figures leave out."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from ..evaluation.agreement import Agreement
from ..evaluation.intervals import LEAST_CONTEXTS
from ..evaluation.result import Evaluation
from ..signature import Signature
from .talk import clip, counted, reasons

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
    for kind in product(levels, statistics):
        yield ""
        yield from _heading(e, *kind)
        yield from _table(e, *kind)
        yield from _notes(e, *kind)
        yield from _contrasts(e, *kind)
    yield from _unscored(e)
    if e.left_out:
        yield from ("", "left out:", *(f"  {line}" for line in e.left_out))


def _heading(e: Evaluation, level: str, statistic: str) -> Iterator[str]:
    yield f"{statistic.capitalize()}, {level}: {_LEVELS[level]}"
    yield f"  [95 % interval over {_contexts(e)}]"


def _table(e: Evaluation, level: str, statistic: str) -> Iterator[str]:
    several = len(e.attributes) > 1
    uneven = len({_scored(e, method) for method in e.methods}) > 1  # then the rows do not rest on the same texts
    heads = [*e.attributes, *(["mean"] if several else []), *(["scored"] if uneven else [])]
    rows = []
    for method in e.methods:
        found = [e.at(method, attribute, level, statistic) for attribute in e.attributes]
        mean = [_number(e.means[method, level, statistic].value)] if several else []
        rests = [_scored(e, method)] if uneven else []
        rows.append((method, [*(_cell(each.value, each.low, each.high) for each in found), *mean, *rests]))
    people = [e.people.get((attribute, level, statistic)) for attribute in e.attributes]
    if any(people):
        ceilings = ["-" if each is None else _cell(each.ceiling, each.low, each.high) for each in people]
        rows.append(("people's ceiling", [*ceilings, *([""] * (several + uneven))]))
    yield from _blocks(heads, rows)


def _scored(e: Evaluation, method: str) -> str:
    """The share of ratings that the method has a score beside."""
    found = [~np.isnan([e.scores[method, name].values, e.ratings.human(name)]) for name in e.attributes]
    return f"{sum(both.all(axis=0).sum() for both in found) / max(sum(both[1].sum() for both in found), 1):.1%}"


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
    return _number(value) if low is None or high is None else f"{_number(value)} [{_number(low)}, {_number(high)}]"


def _number(value: float) -> str:
    """Two decimals, without the 0 before them: no correlation is more than 1."""
    return "-" if math.isnan(value) else f"{value:.2f}".replace("0.", ".", 1).replace("-.00", ".00")


def _notes(e: Evaluation, level: str, statistic: str) -> Iterator[str]:
    """What the figures of a table leave out or make up; once for all attributes and methods that it is true of."""
    seen: dict[str, dict[str, list[str]]] = {}  # what -> attribute -> methods
    for method, attribute in product(e.methods, e.attributes):
        if e.scores[method, attribute].n_unscored < len(e.ratings):
            for what in _left_out(e, e.at(method, attribute, level, statistic), level):
                seen.setdefault(what, {}).setdefault(attribute, []).append(method)
    yield from _ceilings(e, level, statistic)
    for what, found in seen.items():
        for names in dict.fromkeys(map(tuple, found.values())):
            attributes = [attribute for attribute, methods in found.items() if tuple(methods) == names]
            where = "" if attributes == list(e.attributes) else f"{', '.join(attributes)}: "
            yield f"  {where}{what}" + ("" if names == e.methods else f" ({', '.join(names)})")


def _ceilings(e: Evaluation, level: str, statistic: str) -> Iterator[str]:
    """Why people have no ceiling, and which methods are above it."""
    notes: dict[str, list[str]] = {}
    for attribute in e.attributes:
        people = e.people.get((attribute, level, statistic))
        if people is None:
            continue
        if people.note:
            notes.setdefault(people.note, []).append(attribute)
        lows = {method: e.at(method, attribute, level, statistic).low for method in e.methods}
        if above := [method for method, low in lows.items() if low is not None and low > people.ceiling]:
            said = f"{', '.join(above)} above it, interval and all: take it for no bound (docs/benchmarks.md)"
            notes.setdefault(said, []).append(attribute)
    for note, attributes in notes.items():
        yield f"  people's ceiling, {', '.join(attributes)}: {note}"


def _left_out(e: Evaluation, found: Agreement, level: str) -> Iterator[str]:
    of = f"of {_contexts(e)}"
    if found.n_skipped:
        few = "fewer than two texts have both score and rating, or all that do are rated alike"
        yield f"{found.n_skipped} {of} skipped, where {few if level == 'per_context' else 'no text has both'}"
    if found.n_constant and level == "per_context":
        yield f"{found.n_constant} {of} where all scores are equal count 0"
    if found.note and (found.n_contexts or level != "per_context"):  # or else all contexts were skipped
        yield found.note


def _contrasts(e: Evaluation, level: str, statistic: str) -> Iterator[str]:
    """How much better each method is than the one that it is compared with."""
    found = {place: each for place, each in e.contrasts.items() if place[2:] == (level, statistic)}
    if not found:
        return
    yield ""
    yield f"More than {e.settings.against}, over texts that both score; * p < .05, Holm's correction for {len(found)}"
    rows: dict[str, list[str]] = {}
    for place, each in found.items():
        star = "*" if each.p_holm is not None and each.p_holm < 0.05 else " "
        cell = _cell(each.value, each.low, each.high)
        rows.setdefault(place.method, []).append(cell + star)
    yield from _blocks([f"{attribute} " for attribute in e.attributes], list(rows.items()))
    if few := sorted({each.n_contexts for each in found.values() if 1 < each.n_contexts < LEAST_CONTEXTS}):
        yield f"  no * here: from fewer than {LEAST_CONTEXTS} contexts ({few[0]}) no difference can be told from chance"
    if n_left_out := sum(each.n_left_out for each in found.values()):
        yield f"  {counted(n_left_out, 'score')} not used: only one of the two methods scores that text"


def _unscored(e: Evaluation) -> Iterator[str]:
    if any(score.status != "ok" for scores in e.scores.values() for score in scores):
        yield ""
    n = len(e.attributes) * len(e.ratings)
    for method in e.methods:
        found = [score for attribute in e.attributes for score in e.scores[method, attribute]]
        why = [score.reason for score in found if score.status == "unscored"]
        if n_partial := sum(score.status == "partial" for score in found):
            yield f"{method}: {counted(n_partial, 'score')} of {n} partial"
        if why:
            yield f"{method}: {counted(len(why), 'score')} of {n} missing"
            yield from reasons(why)


def _contexts(e: Evaluation) -> str:
    return counted(len(set(e.ratings.context_ids)), "context")


def signatures(e: Evaluation) -> Iterator[str]:
    """A line a method; where attributes differ in a part, all its values are there."""
    for method in e.methods:
        found = {e.scores[method, attribute].signature for attribute in e.attributes}
        merged = Signature.merged(signature for signature in found if signature.parts)
        yield f"{method}: {merged if merged.parts else 'no signature'}"
