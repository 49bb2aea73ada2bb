"""Texts + judge -> the probability that it says Yes to a question about each: UniEval (arXiv:2210.07197).

    score = P(Yes) / (P(Yes) + P(No))          of each piece of a text, then the mean or the sum over its pieces

What a piece is, and what is shown beside it, depends on the attribute (LAYOUTS). The question is a template of ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from synthscore.degrade.reading import sentences
from synthscore.engine import Prompt, label_log_probs
from synthscore.evaluation.methods.base import by_context, scored, signed, task_of, why_not_asked
from synthscore.evaluation.ratings import RatedText, Ratings
from synthscore.io.scores import Scores
from synthscore.io.settings import Share
from synthscore.judging.labels import unanswered, unreported_note
from synthscore.judging.templates import Templates
from synthscore.scoring.method import Tools
from synthscore.scoring.methods import MethodKind
from synthscore.types import Attribute, FloatArray, Score

LABELS = ("Yes", "No")


@dataclass(frozen=True, slots=True)
class Layout:
    """What is asked about, and what is shown beside it.

    shown : of "source" (the context's text), "knowledge" (its facts) and "reference" (its first)
    by_sentence : whether each sentence is asked about by itself. total : "mean" or "sum" over the sentences
    """

    shown: tuple[str, ...] = ("source", "knowledge")
    by_sentence: bool = False
    total: str = "mean"


LAYOUTS: Mapping[tuple[str, str], Layout] = {
    ("summarization", "coherence"): Layout(("source",)),
    ("summarization", "consistency"): Layout(("source",), by_sentence=True),
    ("summarization", "fluency"): Layout((), by_sentence=True),
    ("summarization", "relevance"): Layout(("reference",)),
    ("dialogue", "naturalness"): Layout(()),
    ("dialogue", "understandability"): Layout(()),
    ("dialogue", "coherence"): Layout(("source",)),
    ("dialogue", "engagingness"): Layout(by_sentence=True, total="sum"),
    ("dialogue", "groundedness"): Layout(("knowledge",)),
    ("data_to_text", "fluency"): Layout(()),
    ("data_to_text", "grammar"): Layout(()),
}
"""(task, attribute) -> layout; of all others the text is asked about as a whole, beside its context and facts."""


@dataclass(frozen=True, slots=True)
class YesNo:
    """Asks about all pieces in one call. min_mass, max_unreported : what counts as an answer, as in Asking

    A text of which one piece has no answer is unscored. `details` hold n_pieces and label_mass, the least over them.
    Where a server did not report both labels, `low` and `high` are the least and the greatest that the value can be.
    """

    min_mass: Share = 0.01
    max_unreported: Share = 0.02

    def __call__(self, ratings: Ratings, attribute: str, tools: Tools) -> Scores:
        judge = tools.require_judge()
        task, asked = task_of(ratings, attribute, tools.references)
        templates = Templates(task, tools.asking.prompts)
        layout = LAYOUTS.get((task.name, asked.name), Layout())
        found: list[float | str | Score] = [*why_not_asked(ratings)]
        prompts: list[Prompt] = []
        pieces: dict[int, slice] = {}  # of each text that can be asked about: its prompts
        for row in by_context(ratings, range(len(ratings))):
            if not found[row]:
                made = _prompts(ratings.texts[row], ratings, templates, asked, layout)
                if isinstance(made, str):
                    found[row] = made
                else:
                    pieces[row] = slice(len(prompts), len(prompts) + len(made))
                    prompts += made
        answers = label_log_probs(judge, prompts, LABELS)
        failures = unanswered(answers, self.min_mass, self.max_unreported)
        yes, unreported, mass = answers.probs[:, 0], answers.unreported, answers.label_mass
        for row, places in pieces.items():
            text = ratings.texts[row]
            why = next((failures[place] for place in range(places.start, places.stop) if place in failures), "")
            if why:
                found[row] = why
                continue
            answer = _total(layout, yes[places], unreported[places])
            details = {"n_pieces": float(places.stop - places.start), "label_mass": float(mass[places].min())}
            found[row] = Score(text.id, text.context_id, attribute, **answer, details=details)
        pieces_are = f"{layout.total} of sentences" if layout.by_sentence else "text"
        signature = signed(
            judge,
            template=f"{templates.name}/boolean@{templates.hash('boolean')}",
            labels=",".join(LABELS),
            task=task.name,
            attribute=asked.name,
            scoring=f"unieval,{pieces_are} beside {'+'.join(layout.shown) or 'nothing'}",
        )
        return scored(ratings, attribute, found, signature)


def _prompts(
    text: RatedText, ratings: Ratings, templates: Templates, attribute: Attribute, layout: Layout
) -> list[Prompt] | str:
    """A question about each piece of a text, or why there is none."""
    context = ratings.contexts[text.context_id]
    first = next(iter(ratings.references(text)), "")
    all_ = {"source": context.text, "knowledge": context.facts, "reference": first}
    shown = {name: text if name in layout.shown else "" for name, text in all_.items()}
    if layout.shown and not any(shown.values()):
        noun = {"knowledge": templates.task.facts_noun, "reference": "reference"}[layout.shown[0]]
        return f"its context {context.id!r} has no {noun}, beside which {attribute.name} is asked about"
    pieces = sentences(text.text) if layout.by_sentence else (text.text,)
    noun = "sentence" if layout.by_sentence else templates.task.text_noun
    return [templates.render("boolean", context, attribute, text=piece, noun=noun, **shown) for piece in pieces]


def _total(layout: Layout, yes: FloatArray, unreported: FloatArray) -> dict[str, Any]:
    """What a Score is made of. unreported : by which each of yes may be off"""
    total = np.sum if layout.total == "sum" else np.mean
    found: dict[str, Any] = {"value": float(total(yes))}
    if unreported.any():
        low, high = np.maximum(yes - unreported, 0), np.minimum(yes + unreported, 1)
        found |= {"low": float(total(low)), "high": float(total(high))}
        found["reason"] = unreported_note(unreported)
    return found


UNIEVAL = MethodKind(YesNo, "P(Yes) to a question about the text", ("judge",))
