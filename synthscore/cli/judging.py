"""The options of `filter` about scores."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import fields

from ..judging.asking import Asking
from ..ladders.references import References
from ..scoring.anchored.mode import Anchored
from ..scoring.paper import Paper
from ..scoring.rows import Item, RowScorer, RowScores, Shape
from ..store.engine import StoredEngine
from .common import Watched, bar, number, whole
from .scoring import Scoring, asked_line, merged

__all__ = ["add_scoring", "merged", "row_scorer", "score_rows", "scoring_of", "summed_up"]


def add_scoring(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """The options of anchored scoring; returns their group."""
    group = parser.add_argument_group("scoring")
    group.add_argument(
        "--scoring",
        choices=("paper", "anchored"),
        default="paper",
        help="the paper's sum, or positions on the rung scale with errors, by a model of the judge (default: paper)",
    )
    group.add_argument(
        "--scale",
        metavar="FILE",
        help="with anchored: the judge and ladders that --save-scale wrote; each text is then placed alone "
        "(default: fitted to the texts at hand)",
    )
    group.add_argument("--save-scale", metavar="FILE", help="with anchored: write the judge and ladders, JSON")
    group.add_argument(
        "--debias",
        choices=("length",),
        help="with anchored: take out what the judge makes of a text's length, as rungs of one level tell it",
    )
    group.add_argument(
        "--targets-too",
        type=whole(1),
        metavar="K",
        help="with anchored, without --scale: also ask about each text against K others of its context",
    )
    group.add_argument(
        "--adaptive",
        action="store_true",
        help="with --scale: ask about each text in rounds, until it is clear enough (docs/adaptive.md)",
    )
    group.add_argument(
        "--eps",
        type=number(0, 0.5),
        metavar="E",
        help="with --adaptive --min-score: a text is done when its whole ladder would take its score to the other side "
        "of the threshold with a probability of at most E (default: 0.02)",
    )
    return group


def scoring_of(args: argparse.Namespace) -> Paper | Anchored:
    """How verdicts become scores, by the options. raises : UsageError for those that do nothing together"""
    options = {each.name: getattr(args, each.name) for each in fields(Scoring)}
    return Scoring(**options).mode(args.min_score, args.alpha, ends="--min-score X")


def asking_of(args: argparse.Namespace) -> Asking:
    """How the judge is asked, by the options."""
    return Asking(args.protocol, args.both_orders, args.prompts, args.min_mass)


def row_scorer(
    args: argparse.Namespace, references: References, engine: Watched, scoring: Paper | Anchored, *, brief: bool = False
) -> RowScorer:
    """By the options. brief : texts that the store knows as wholes need no verdicts"""
    store = engine.engine.store if brief and isinstance(engine.engine, StoredEngine) else None
    return RowScorer(
        references,
        engine,
        task=args.task,
        attributes=args.attribute,
        scoring=scoring,
        asking=asking_of(args),
        store=store,
    )


def score_rows(args: argparse.Namespace, scorer: RowScorer, items: Sequence[Item], engine: Watched) -> RowScores:
    """Their scores, under one progress bar."""
    plan = scorer.plan(items)
    with bar(args, plan.n_questions, "questions", engine.meter) as progress:
        return plan.score(progress)


def summed_up(
    args: argparse.Namespace,
    shape: Shape,
    n_questions: int,
    statuses: Mapping[str, int],
    saved: tuple[int, int],
    n_unmet: int,
) -> str:
    """What was asked and what came of it."""
    return asked_line(asking_of(args), shape, n_questions, statuses, saved, n_unmet)
