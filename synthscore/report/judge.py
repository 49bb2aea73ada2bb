"""Verdicts, label mass and lengths -> the sections that show how the judge judges."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..types import FloatArray
from . import figures as draw
from .figures import Mark
from .layout import CARDS, ROWS, Card, Section, Table, clip, counted, cut, number, percent, points, spaced
from .numbers import Group, LengthEffect, RungVerdicts, length_effect, overall
from .read import Run
from .scores import score_marks, titles

RUNGS = 24  # of a figure
POINTS = 2000  # of all scatter figures


def verdicts(groups: Sequence[Group]) -> Section | str:
    shown = [group for group in groups if group.by_rung]
    if not shown:
        return "No verdicts in the run: those against each rung are not shown (synthscore score --verdicts)."
    section = Section("verdicts", "Verdicts by rung", [
        "The verdicts on the texts, compared with each rung: the mean of the judge's probabilities. Where it tells "
        "rungs apart, better shrinks from the worst rung to the best. A tie is an answer with similar on top."
    ])  # fmt: skip
    section.legend = (("fill-a", "better"), ("fill-c", "similar"), ("fill-b", "worse"))
    return section.add_cards(shown, _by_rung)


def _by_rung(group: Group) -> Card:
    rows = [
        (str(r.level), spaced(r.n), percent(r.better), percent(r.similar), percent(r.worse), percent(r.ties))
        for r in group.by_rung
    ]
    table = Table(("rung", "texts", "better", "similar", "worse", "ties"), rows, "Numbers", words=0, folded=True)
    bars = [(f"rung {r.level}", r.better, r.similar, r.worse) for r in group.by_rung[:RUNGS]]
    ties = float(np.average([r.ties for r in group.by_rung], weights=[r.n for r in group.by_rung]))
    figure = draw.shares(bars, label="mean over texts", title=f"Verdicts by rung, {group.attribute}")
    return Card(*titles(group), figure, [f"{percent(ties)} ties"], table)


def position_bias(groups: Sequence[Group]) -> Section | str:
    shown = [(group, both) for group in groups if (both := [rung for rung in group.by_rung if rung.n_both])]
    if not shown:
        return "No verdicts in both orders: position bias is not shown (synthscore score --both-orders --verdicts)."
    section = Section("bias", "Position bias", [
        "The judge was asked about each pair twice: about the text and, the other way round, about the rung. A judge "
        "without a favour for a position gives the same verdict both times. The favour is half of the difference: what "
        "it gives to whichever text the question is about. Scores average it away."
    ])  # fmt: skip
    section.legend = (("fill-a", "P(better), asked about the text"), ("ring", "P(better), asked about the rung"))
    return section.add_cards(shown, lambda pair: _bias(*pair))


def _bias(group: Group, both: Sequence[RungVerdicts]) -> Card:
    rows = [
        (
            str(r.level), spaced(r.n_both), percent(r.as_asked), percent(r.swapped), points(r.favour),
            percent(r.changed),
        )
        for r in both
    ]  # fmt: skip
    headers = ("rung", "pairs", "text asked", "rung asked", "favour, points", "another verdict")
    favour, changed = overall(both)
    figure = draw.dumbbells(
        [(f"rung {r.level}", r.as_asked, r.swapped) for r in both[:RUNGS]],
        label="P(better), mean over texts",
        title=f"Position bias, {group.attribute}",
    )
    notes = [f"mean favour {points(favour)} points", f"{percent(changed)} of pairs get another verdict"]
    return Card(*titles(group), figure, notes, Table(headers, rows, "Numbers", words=0, folded=True))


def label_mass(run: Run) -> Section | str:
    by_name = {
        name: [(mass, score) for score, _ in rows if (mass := score.details.get("label_mass")) is not None]
        for name, rows in run.scores.items()
    }
    known = sorted(
        ((mass, name, score) for name, own in by_name.items() for mass, score in own), key=lambda one: one[0]
    )
    if not known:
        return "No label mass in the run: how sure it is that the judge answered at all is not shown."
    section = Section("mass", "Label mass", [
        "The probability that the judge's answer is one of the labels at all, the least over a text's rungs. Near 0 "
        "it would rather have given another answer: the wrong template, labels or model."
    ])  # fmt: skip
    rows = [
        (clip(score.id, 60), score.attribute, name, f"{mass:.4g}", number(score.value))
        for mass, name, score in known[:ROWS]
    ]
    caption = cut("text", ROWS, len(known), "lowest") or f"{counted(len(known), 'text')}, lowest first"
    headers = ("id", "attribute", "scores", "label mass", "score")
    section.tables.append(Table(headers, rows, caption.capitalize(), 3, folded=True))
    shown = [(name, np.array([mass for mass, _ in own])) for name, own in by_name.items() if own]
    return section.add_cards(shown, lambda pair: _mass(*pair), "file")


def _mass(name: str, own: FloatArray) -> Card:
    marks = [Mark(at, f"{at:g}") for at in (0, 0.25, 0.5, 0.75, 1)]
    title = f"Label mass, {name}"
    figure = draw.histogram(own, own[:0], (0.0, 1.0), marks, n_bins=20, label="label mass", title=title)
    notes = [f"least {own.min():.3g}, median {np.median(own):.3g}; {spaced(int((own < 0.5).sum()))} below 0.5"]
    return Card(name, counted(len(own), "text"), figure, notes)


def length(run: Run, groups: Sequence[Group]) -> Section | str:
    if not run.texts:
        return "No texts in the run: the effect of length is not shown (--targets FILE)."
    most = POINTS // max(min(len(groups), CARDS), 1)
    shown = [(group, effect) for group in groups if (effect := length_effect(group, run.texts, most))]
    if not shown:
        return "Fewer than three scored texts of any group can be read: the effect of length is not shown."
    section = Section("length", "Length", [
        "Do longer texts score higher? Spearman's correlation of score and words, over all texts and inside contexts "
        "(mean). The line goes through the middle of equal parts of the texts."
    ])  # fmt: skip
    return section.add_cards(shown, lambda pair: _length(*pair))


def _length(group: Group, effect: LengthEffect) -> Card:
    title = f"Score by length, {group.attribute}"
    words, values = effect.words.tolist(), effect.values.tolist()
    figure = draw.scatter(words, values, effect.bins, group.span, score_marks(group), title=title)
    notes = [f"all texts {number(effect.pooled)}, inside contexts {number(effect.inside)}"]
    if len(words) < effect.n:
        notes.append(f"{spaced(len(words))} of {counted(effect.n, 'text')} drawn, spread over the lengths")
    return Card(*titles(group, scored=True), figure, notes)
