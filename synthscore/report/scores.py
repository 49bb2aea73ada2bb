"""Scores -> the sections that show them: their distribution, and one ladder to read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from ..scoring.anchored.scores import LEVEL
from ..thresholds.calibrate import expected_counts
from ..types import Score
from . import figures as draw
from .figures import Mark
from .layout import ROWS, Card, Section, Step, Table, View, clip, counted, cut, number, percent, spaced
from .numbers import Group, LadderView, ladder_views, rung_top
from .read import Run

VIEW = 40  # texts on one ladder
CHARACTERS, REASON = 4000, 600  # of a text to read, of a reason


def titles(group: Group, *, scored: bool = False) -> tuple[str, str]:
    """Of a card about all texts of the group, or about those that have a score."""
    n, known = len(group.rows), int(group.scored.sum())
    texts = f"{spaced(known)} of {counted(n, 'text')}" if scored and known < n else counted(n, "text")
    return group.attribute or "no attribute", f"{group.name}, {texts}"


def score_marks(group: Group) -> list[Mark]:
    return draw.number_marks(*group.span) if group.n_rungs is None else draw.rung_marks(group.n_rungs)


# ------------------------------------------------------------------------------------------------- distribution


def scores(run: Run, groups: Sequence[Group]) -> Section | str:
    shown = [group for group in groups if group.scored.any()]
    if not shown:
        return "No text has a score: no distribution is shown."
    section = Section("scores", "Scores", [])
    sizes = sorted({group.n_rungs for group in shown if group.n_rungs is not None})
    if sizes:
        n = sizes[0]
        best, blind = (str(n), number(math.sqrt(n * (n + 1) / 2))) if len(sizes) == 1 else ("N", "√(N(N+1)/2)")
        about = f"A score of 1 is as good as the worst rung of the ladder, {best} as the best."
        if not any(row.part("scoring").startswith("anchored") for row in run.rows):
            about += f" 0 is worse than all; a judge that cannot tell texts apart gives {blind}."
        section.intro.append(about)
    if any(group.count["partial"] for group in shown):
        section.legend = (("fill-a", "whole"), ("fill-a part", "partial: some verdicts are missing, and made up for"))
    return section.add_cards(shown, _distribution)


def _distribution(group: Group) -> Card:
    n_rungs, (low, high) = group.n_rungs, group.span
    figure = draw.histogram(
        group.values[group.scored & ~group.partial],
        group.values[group.scored & group.partial],
        group.span,
        score_marks(group),
        n_bins=20 if n_rungs is None or n_rungs > 6 else max(4, round((high - low) * 4)),
        label="score" if n_rungs is None else f"score, in rungs (1 worst, {n_rungs} best)",
        cut=group.min_score,
        title=f"Distribution of scores, {group.attribute}",
    )
    quarters = np.quantile(group.values[group.scored], (0.25, 0.75)).tolist()
    notes = [f"median {number(group.median)}, middle half {number(quarters[0])} to {number(quarters[1])}"]
    if group.min_score is not None:
        at = group.decide(group.min_score)
        undecided = f", {spaced(at.undecided)} undecided" if at.undecided else ""
        notes.append(f"{percent(at.kept, len(group.rows))} reach {at.threshold:g}: {spaced(at.kept)}{undecided}")
    return Card(*titles(group, scored=True), figure, notes, _kept(group))


def _kept(group: Group) -> Table:
    headers = ["threshold", "kept", "of all", "undecided", "below"]
    caption = "How many a threshold keeps"
    rows = []
    for at in group.thresholds:
        of_all = percent(at.kept, len(group.rows))
        rows.append([f"{at.threshold:.4g}", spaced(at.kept), of_all, spaced(at.undecided), spaced(at.below)])
    if not np.isnan(group.stderr[group.scored]).any():
        headers.append("expected")
        caption += ", and how many are expected to be that good, by the scores' errors"
        expected = expected_counts(group.values, group.stderr, [at.threshold for at in group.thresholds])
        rows = [[*row, f"{one.n_expected:.1f}"] for row, one in zip(rows, expected, strict=True)]
    return Table(headers, rows, caption, words=0, folded=True)


# ------------------------------------------------------------------------------------------------- one ladder


def ladder(run: Run, groups: Sequence[Group], min_score: float | None, context_id: str | None) -> Section | str:
    if run.references is None:
        return "No ladders in the run: no ladder is shown (--references FOLDER)."
    views = ladder_views(run, groups, context_id)
    if not views:
        of = "" if context_id is None else f" of context {context_id!r}"
        return f"No score{of} is of a text on a ladder of the run: no ladder is shown."
    section = Section("ladder", "One ladder", ["Where texts stand between the rungs of the ladder of their context."])
    named = {row.part("references") for row in run.rows} - {""}
    if named and run.references.hash[:12] not in named:
        section.intro.append(
            f"These are not the ladders of the scores: their hash is {run.references.hash[:12]}, the signatures name "
            f"{', '.join(sorted(named)[:3])}."
        )
    shown = [score for view in views for score, _ in view.rows]
    section.intro += line_means(shown)
    if any(score.verdicts for score in shown):
        section.intro.append("The columns beside a text show the verdicts on it against each rung, worst first.")
        section.legend = (("fill-a", "better"), ("fill-c", "similar"), ("fill-b", "worse"))
    section.views = [_view(run, view, min_score) for view in views]
    return section


def _view(run: Run, view: LadderView, min_score: float | None) -> View:
    n_rungs, of = view.ladder.n_rungs, f"{view.ladder.context_id}, {view.ladder.attribute}"
    scored = [(score.value, score) for score, _ in view.rows if score.value is not None]
    unscored = [score for score, _ in view.rows if score.value is None]
    shown = scored if len(scored) <= VIEW else [*scored[: VIEW // 2], *scored[-VIEW // 2 :]]
    bounded = [score for score in unscored if not math.isnan(ends(score)[0])]
    dots = [draw.Dot(_short(score), value, *ends(score)) for value, score in shown]
    dots += [draw.Dot(_short(score), math.nan, *ends(score)) for score in bounded[: VIEW - len(dots)]]
    known = [end for dot in dots for end in dot[1:] if not math.isnan(end)]
    figure = draw.dots(
        dots,
        (min([0.0, *known]), max([rung_top(n_rungs), *known])),
        draw.rung_marks(n_rungs),
        label=f"score, in rungs (1 worst, {n_rungs} best)",
        title=f"Texts on the ladder {of}",
        class_="rule",
        cut=math.nan if min_score is None else min_score,
    )
    steps = [(float(level), 0, _rung(view, level)) for level in range(1, n_rungs + 1)]
    steps += [(value, 1, _text(run, score, number(value), n_rungs)) for value, score in shown]
    return View(
        of,
        f"{view.name}, {counted(len(view.rows), 'text')}",
        figure,
        _clipped(view.ladder.context.text) if view.ladder.context else "",
        [step for *_, step in sorted(steps, key=lambda step: step[:2], reverse=True)]
        + [_text(run, score, "unscored", n_rungs) for score in unscored[:ROWS]],
        cut("text", VIEW, len(scored), "best and worst,"),
    )


def ends(score: Score) -> tuple[float, float]:
    """The 90 % interval of a score with an error, or else the least and the greatest that it can be; NaN: not known."""
    if score.stderr is not None and score.value is not None:
        half = NormalDist().inv_cdf((1 + LEVEL) / 2) * score.stderr
        return score.value - half, score.value + half
    if score.low is not None and score.high is not None:
        return score.low, score.high
    return math.nan, math.nan


def line_means(scores: Sequence[Score]) -> list[str]:
    """What the line of a text stands for, a sentence for each kind that there is."""
    kinds = {_has_error(score) for score in scores if not math.isnan(ends(score)[0])}
    sentences = {
        True: f"The line of a text is the {100 * LEVEL:.0f} % interval of its score, by its error.",
        False: "The line of a text without an error goes from the least to the greatest score that what is missing "
        "(verdicts, or labels that were not reported) could give it.",
    }
    return [sentence for kind, sentence in sentences.items() if kind in kinds]


def _has_error(score: Score) -> bool:
    return score.stderr is not None and score.value is not None


def _rung(view: LadderView, level: int) -> Step:
    rung = view.ladder.rungs[level - 1]
    end = " (worst)" if level == 1 else " (best)" if level == view.ladder.n_rungs else ""
    return Step(f"rung {level}{end}", str(level), _clipped(rung.text), True, clip(rung.reason, REASON))


def _text(run: Run, score: Score, place: str, n_rungs: int) -> Step:
    title = f"Verdicts on {score.id} against each rung"
    figure = draw.verdict_columns(score.verdicts, n_rungs, title=title) if score.verdicts else None
    low, high = ends(score)
    kind = f"{100 * LEVEL:.0f} % interval:" if _has_error(score) else "whatever is missing:"
    can_be = "" if math.isnan(low) else f"{kind} between {number(low)} and {number(high)}"
    note = "; ".join(part for part in (can_be, clip(score.reason, REASON)) if part)
    text = _clipped(run.texts[score.id].text) if score.id in run.texts else ""
    return Step(clip(_short(score), 100), place, text, False, note, figure)


def _short(score: Score) -> str:
    """A text's id without that of its context, under which it is shown."""
    return score.id.removeprefix(f"{score.context_id}/") or score.id


def _clipped(text: str) -> str:
    if len(text) <= CHARACTERS:
        return text
    return f"{text[:CHARACTERS]} … ({spaced(CHARACTERS)} of {spaced(len(text))} characters)"
