"""What `score` and `filter` share: their options, and what they say of scores."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence

from ..errors import InputError
from ..judging.asking import Asking
from ..ladders.references import References
from ..scoring.anchored.adaptive import Narrow, SameDecision, Stop, Sure
from ..scoring.anchored.mode import Anchored
from ..scoring.paper import Paper
from ..scoring.rows import Item, RowScorer, RowScores, Shape
from ..signature import Signature
from ..store.engine import StoredEngine
from ..types import Score
from .common import UsageError, Watched, bar, counted, number, reasons, spaced, whole


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
    if args.seed is not None and args.samples is None and not getattr(args, "targets_too", None):
        option, why = "--samples N", "scores from the exact probabilities are not drawn"
        if getattr(args, "scoring", "paper") == "anchored":
            option, why = "--targets-too K", "nothing else is drawn with --scoring anchored"
        raise UsageError(f"--seed {args.seed} changes nothing without {option}: {why}. Leave it out, or add that")
    anchored = getattr(args, "scoring", "paper") == "anchored"
    for name in ("samples",) if anchored else ("scale", "save_scale", "debias", "targets_too"):
        if getattr(args, name, None) is not None:
            option = f"--{name.replace('_', '-')}"
            other = "paper" if anchored else "anchored"
            raise UsageError(f"{option} changes nothing without --scoring {other}. Leave it out, or add that")
    if anchored and args.partial == "rescale":
        raise UsageError("--partial rescale stretches the paper's sum. Leave it out with --scoring anchored")
    rule = _stop(args)
    if not anchored:
        return Paper(args.samples, args.seed or 0, args.partial)
    return Anchored(args.scale, True, args.targets_too or 0, args.seed or 0, args.debias, rule)


def _stop(args: argparse.Namespace) -> Stop | None:
    """When --adaptive is done with a text; None without it. raises : UsageError for options that do not go together"""
    width, eps, alpha = (getattr(args, name, None) for name in ("width", "eps", "alpha"))
    if not getattr(args, "adaptive", False):
        if eps is not None:
            raise UsageError("--eps changes nothing without --adaptive. Leave it out, or add that")
        return None
    if args.scoring != "anchored" or not args.scale:
        raise UsageError(
            "--adaptive needs to know the judge and the ladders: --scoring anchored --scale FILE. Make the file from "
            "some of the texts, asked about in full: synthscore score SOME --scoring anchored --save-scale FILE"
        )
    if width is None and args.min_score is None:
        names = "--min-score X or --width W" if hasattr(args, "width") else "--min-score X"
        raise UsageError(f"--adaptive needs to know when it is done with a text. Give {names}")
    if width is not None and args.min_score is not None:
        raise UsageError("--min-score and --width both say when --adaptive is done with a text. Give one, not both")
    if eps is not None and (alpha is not None or width is not None):
        raise UsageError(
            "--eps goes with --min-score alone: --alpha and --width say otherwise when to stop. Leave it out"
        )
    if width is not None and alpha is not None:
        raise UsageError("--alpha goes with --min-score, not with --width. Leave one of them out")
    try:
        if width is not None:
            return Narrow(width)
        if alpha is not None:
            return Sure(args.min_score, alpha)
        return SameDecision(args.min_score) if eps is None else SameDecision(args.min_score, eps)
    except InputError as error:  # which names what the options are called by
        raise UsageError(f"--{error}") from error


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


def merged(signatures: Iterable[Signature]) -> str:
    """One line for all numbers: where they differ in a part, its values are listed."""
    values: dict[str, dict[str, None]] = {}
    for signature in signatures:
        for key, value in signature.parts:
            values.setdefault(key, {})[value] = None
    return "|".join(f"{key}:{','.join(each)}" for key, each in values.items())


def summed_up(
    args: argparse.Namespace,
    shape: Shape,
    n_questions: int,
    statuses: Mapping[str, int],
    saved: tuple[int, int],
    n_unmet: int,
) -> str:
    """saved, n_unmet : of Judged"""
    n_targets, n_attributes, n_rungs = shape
    factors = [(n_targets, "target", ""), (n_attributes, "attribute", ""), (n_rungs, "rung", "")]
    factors += [
        (2 if args.both_orders else 1, "order", ""),
        (2 if args.protocol == "yes_no_two_sided" else 1, "side", ""),
    ]
    product = 1
    for n, _, _ in factors:
        product *= n
    questions = counted(n_questions, "question")
    if product == n_questions and product:
        shown = [counted(n, noun) for n, noun, _ in factors if n > 1 or noun in ("target", "rung")]
        asked = f"{' x '.join(shown)} = {questions}"
    else:
        asked = f"{counted(n_targets, 'target')}, {counted(n_attributes, 'attribute')}: {questions}"
    done, full = saved
    if full:
        asked += f", {spaced(done)} of {spaced(full)} about texts ({100 - 100 * done / full:.0f} % saved)"
    parts = [f"{statuses.get('ok', 0)} scored"] + [
        f"{statuses[status]} {status}" for status in ("partial", "unscored") if statuses.get(status)
    ]
    unmet = f"; the rule is not met by {counted(n_unmet, 'score')} on which all was asked"
    return f"{asked}; {', '.join(parts)}{unmet * (n_unmet > 0)}"


def why(heading: str, scores: Iterable[Score]) -> list[str]:
    """The reasons of scores that are not whole, under a heading; nothing where there are none."""
    lines = reasons(reason for score in scores for reason in score.reasons)
    return [f"{heading}:", *lines] if lines else []
