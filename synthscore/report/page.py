"""A run -> one HTML page that needs nothing else.

What comes from outside is only ever a value in page.html.jinja, which escapes it. Equal runs give equal pages.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import jinja2

from .._version import __version__
from ..evaluation.agreement import ALIASES, Level
from . import figures as draw
from . import judge
from .agreement import Agreements, Figure, agreements
from .layout import ROWS, Card, Section, Table, clip, counted, cut, number, percent, points, spaced, span
from .numbers import Group, failures, groups, overall
from .read import Run
from .scores import CHARACTERS, VIEW, ladder, scores

GROUPS, FILES, LINES = 100, 200, 50  # of the tables at the top and at the end
FIGURES = 600  # of the table of agreements


def page(run: Run, *, title: str | None = None, min_score: float | None = None, context_id: str | None = None) -> str:
    """The report, as HTML.

    min_score : a threshold to draw and to count by
    context_id : whose ladders are shown; None: the one ladder that shows most
    """
    found = groups(run, min_score)
    made = (
        scores(run, found),
        ladder(run, found, min_score, context_id),
        judge.verdicts(found),
        judge.position_bias(found),
        judge.label_mass(run),
        judge.length(run, found),
        _failures(run),
        _agreement(run),
        _signature(run),
    )
    files = [(file.name, file.holds, spaced(file.n_rows), spaced(file.n_left_out)) for file in run.files[:FILES]]
    return _template().render(
        title=title or f"Scores of {run.name}",
        version=__version__,
        short=_short(run, found),
        summary=_summary(found),
        sections=[section for section in made if isinstance(section, Section)],
        missing=[line for line in made if isinstance(line, str)],
        files=Table(("file", "holds", "rows", "left out"), files, cut("file", FILES, len(run.files)), words=2),
        unused=run.unused[:LINES],
        left_out=[clip(line, 500) for line in run.left_out[:LINES]],
        n_left_out=len(run.left_out),
    )


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(Path(__file__).with_name("page.html.jinja").read_text(encoding="utf-8"))


# ------------------------------------------------------------------------------------------------- at the top


def _short(run: Run, found: Sequence[Group]) -> list[str]:
    """What the page says, in a few sentences."""
    scored = [group for group in found if group.scored.any()]
    if not scored:
        return [f"{counted(sum(len(group.rows) for group in found), 'text')}, none of them scored."] if found else []
    total = sum(len(group.rows) for group in found)
    whole, partial, unscored = (sum(group.count[of] for group in found) for of in ("ok", "partial", "unscored"))
    names = list(dict.fromkeys(group.attribute for group in found))
    of = f" in {len(run.scores)} files or methods" if len(run.scores) > 1 else ""
    on = f" on {names[0]}" if len(names) == 1 and names[0] else f" on {len(names)} attributes" if names[1:] else ""
    lines = [
        f"{counted(total, 'score')}{of}{on}: {spaced(whole)} whole, {spaced(partial)} partial, "
        f"{spaced(unscored)} unscored."
    ]
    sizes = {group.n_rungs for group in scored}
    if len(sizes) == 1 and (n_rungs := sizes.pop()):
        medians = span([group.median for group in scored], number, "between {} and {}")
        lines.append(f"The median is {medians}, where 1 is as good as the worst rung and {n_rungs} as the best.")
    at = [(group.decide(group.min_score), len(group.rows)) for group in found if group.min_score is not None]
    if at:
        kept, undecided, n = sum(d.kept for d, _ in at), sum(d.undecided for d, _ in at), sum(n for _, n in at)
        of = "" if n == total else " of those on a scale of rungs"
        may = f"; {spaced(undecided)} more may or may not" if undecided else ""
        lines.append(f"{spaced(kept)} ({percent(kept, n)}){of} reach {at[0][0].threshold:g}{may}.")
    both = [pair for group in found if not math.isnan((pair := overall(group.by_rung))[0])]
    if both:
        lines.append(
            f"Position bias: to be the text that the question is about is worth "
            f"{span([favour for favour, _ in both], points)} points of P(better); "
            f"{span([changed for _, changed in both], percent)} of pairs get another verdict in the other order."
        )
    return lines


def _summary(found: Sequence[Group]) -> Table:
    headers = ["attribute", "scores", "texts", "whole", "partial", "unscored", "median"]
    thresholds = [group.min_score for group in found if group.min_score is not None]
    headers += [f"≥ {threshold:g}" for threshold in thresholds[:1]]
    rows = []
    for group in found[:GROUPS]:
        row = [group.attribute or "–", group.name, spaced(len(group.rows))]
        row += [spaced(group.count[status]) for status in ("ok", "partial", "unscored")]
        row.append(number(group.median))
        if group.min_score is not None:
            row.append(percent(group.decide(group.min_score).kept, len(group.rows)))
        elif thresholds:
            row.append("–")
        rows.append(row)
    return Table(headers, rows, cut("group", GROUPS, len(found)), words=2)


# ------------------------------------------------------------------------------------------------- failures


def _failures(run: Run) -> Section | str:
    found = failures(run)
    if not found:
        return "Nothing failed: every score is whole." if run.scores else "No scores in the run."
    rows = [
        (
            spaced(one.n), one.status, clip(one.reason, 300) or "no reason given", one.name,
            ", ".join(clip(id_, 40) for id_ in one.ids) + (", …" if one.n > len(one.ids) else ""),
        )
        for one in found[:ROWS]
    ]  # fmt: skip
    about = "Texts whose score is not whole, by reason. Reasons that differ only in names and numbers are one."
    headers = ("texts", "status", "reason", "scores", "such as")
    section = Section("failures", "What failed", [about])
    section.tables.append(Table(headers, rows, cut("reason", ROWS, len(found)), words=5))
    return section


# ------------------------------------------------------------------------------------------------- people

_LEVELS: Mapping[Level, str] = {
    "per_context": "inside each context, then the mean",
    "pooled": "over all texts at once",
    "system": "between the means of systems",
}


def _agreement(run: Run) -> Section | str:
    found = run.evaluation or (agreements(run.ratings, run.scores) if run.ratings else Agreements())
    if not found.figures:
        what = "No ratings in the run" if run.ratings is None else "No ratings of the texts that are scored"
        return " ".join([f"{what}: agreement with people is not shown (--human FILE).", *found.lines[:1]])
    about = "Correlation of scores with people's ratings, and its 95 % interval over contexts."
    section = Section("agreement", "Agreement with people", [about])
    if found.ceilings:
        section.intro.append("Dashed: what a method without error would reach, for people do not agree either.")
    for level, meaning in _LEVELS.items():
        if any(figure.level == level for figure in found.figures):
            aliases = "; ".join(f"{name} by {paper}" for paper, name in ALIASES[level].items())
            section.intro.append(f"{level}: {meaning}. Called {aliases}.")
    if found.lines:
        left_out = "; ".join(clip(line, 200) for line in found.lines[:5])
        section.intro.append(f"Left out: {left_out}{'' if left_out.endswith('.') else '.'}")
    rows = [
        (clip(f.method, 60), *f[1:4], number(f.value), number(f.low), number(f.high), spaced(f.n), spaced(f.skipped))
        for f in found.figures[:FIGURES]
    ]
    headers = ("method", "attribute", "level", "statistic", "agreement", "low", "high", "n", "contexts skipped")
    n = len(found.figures)
    caption = cut("figure", FIGURES, n).capitalize() or f"All {counted(n, 'figure')}"
    section.tables.append(Table(headers, rows, caption, 4, folded=True))
    statistics = {figure.statistic for figure in found.figures}
    first = "spearman" if "spearman" in statistics else min(statistics)
    drawn: dict[tuple[str, str], list[Figure]] = {}
    for figure in found.figures:
        if figure.statistic == first:
            drawn.setdefault((figure.level, figure.attribute), []).append(figure)
    ends = [end for own in drawn.values() for figure in own for end in (figure.value, figure.low, figure.high)]
    known = [end for end in (*ends, *found.ceilings.values(), 0.0, 0.5) if not math.isnan(end)]
    all_ends = min(known), max(known)  # one scale, so that figures can be compared
    return section.add_cards(
        list(drawn.values()),
        lambda own: _with_people(own, all_ends, found.ceilings.get(own[0][1:4], math.nan)),
        "figure",
    )


def _with_people(own: Sequence[Figure], ends: tuple[float, float], ceiling: float) -> Card:
    """All methods at one level on one attribute, the best first. ceiling : NaN where it is not known"""
    shown = sorted(own, key=lambda figure: math.inf if math.isnan(figure.value) else -figure.value)[:VIEW]
    level, attribute = own[0].level, own[0].attribute
    picture = draw.dots(
        [draw.Dot(figure.method, figure.value, figure.low, figure.high) for figure in shown],
        ends, draw.number_marks(*ends), label=f"{own[0].statistic}, {level}",
        title=f"Agreement with people, {attribute}, {level}", class_="grid", cut=ceiling,
    )  # fmt: skip
    n = span([figure.n for figure in shown], lambda n: spaced(int(n)))
    notes = [f"{n} {'systems' if level == 'system' else 'texts'}", cut("method", VIEW, len(own), "best")]
    notes.append("" if math.isnan(ceiling) else f"a method without error: {number(ceiling)}")
    return Card(attribute, level, picture, [note for note in notes if note])


# ------------------------------------------------------------------------------------------------- signature


def _signature(run: Run) -> Section | str:
    signatures = list(dict.fromkeys(row.signature for row in run.rows if row.signature.parts))
    if not signatures:
        return "No signature in the run: nothing says what the numbers depend on."
    about = "Everything that can change these numbers. Scores can be compared where it is the same."
    section = Section("signature", "Signature", [about])
    parts: dict[str, dict[str, None]] = {}
    for name, value in (part for signature in signatures for part in signature.parts):
        parts.setdefault(name, {})[value] = None
    rows = [(name, clip(", ".join(values), CHARACTERS)) for name, values in parts.items()]
    section.tables.append(Table(("part", "value"), rows, words=2))
    n = len(signatures)
    heading = cut("signature", ROWS, n).capitalize() or f"{counted(n, 'signature')}, in full"
    section.code.append((heading, [clip(str(signature), CHARACTERS) for signature in signatures[:ROWS]]))
    return section
