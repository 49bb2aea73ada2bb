"""Rows + references + judge -> one Score for each row and attribute, in the order of the rows.

Nothing is lost on the way: a row that holds no target, or has no ladder, gets an unscored Score with the reason.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from ..anchored.scale import Scale, load_scales
from ..data import target_from_row
from ..errors import InputError, LadderError
from ..judge_bias import JudgeBias, judge_bias
from ..references import References, load_references
from ..rows import Row, read_rows
from ..scorer import Scorer
from ..tasks import load_task
from ..types import Score, Signature, Target
from .common import UsageError, Watched, bar, counted, fields, reasons

Held = Mapping[str, Sequence[str]]
"""Task -> the attributes to judge on, in order."""


@dataclass(frozen=True, slots=True)
class Item:
    """One row of the input, and the target that it holds or the reason why it holds none.

    row : as it was read, under its own column names. task, attribute, context : what the row's columns of these names
    say, or ""
    """

    row: Row | InputError
    target: Target | InputError
    task: str = ""
    attribute: str = ""
    context: str = ""

    @property
    def known(self) -> Mapping[str, Any]:
        """What identifies the target, as far as the row says."""
        if isinstance(self.target, Target):
            return {"id": self.target.id, "context_id": self.target.context_id}
        return vars(self.target)


@dataclass(frozen=True, slots=True)
class Judged:
    """scores[i] are those of item i, one an attribute; signatures[i] go with them."""

    scores: list[list[Score]]
    signatures: list[list[Signature]]
    shape: tuple[int, int, int]  # targets asked about, attributes, rungs of each ladder (0: ladders differ)
    n_questions: int
    cost: list[str]  # what the model was asked, in a line; none where the store held all
    scales: list[Scale]  # that the scores are on, with --scoring anchored

    @property
    def rows(self) -> Iterable[tuple[Score, Signature]]:
        for scores, signatures in zip(self.scores, self.signatures, strict=True):
            yield from zip(scores, signatures, strict=True)

    @property
    def signature(self) -> str:
        """One line for all numbers: where they differ in a part, its values are listed."""
        merged: dict[str, dict[str, None]] = {}
        for score, signature in self.rows:
            for key, value in signature.parts if score.status != "unscored" else ():
                merged.setdefault(key, {})[value] = None
        return "|".join(f"{key}:{','.join(values)}" for key, values in merged.items())


def add_scoring(parser: argparse.ArgumentParser) -> None:
    """The options of anchored scoring."""
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


def read_items(args: argparse.Namespace, *, unique: bool = False) -> list[Item]:
    """The rows of args.targets. unique : a second row of the same id (and attribute) holds no target."""
    items: list[Item] = []
    seen: dict[tuple[str, str], int] = {}
    for row in read_rows(args.targets, encoding=args.encoding):
        try:
            if isinstance(row, InputError):
                raise row
            ours = _renamed(row, fields(args))
            item = Item(row, _target(ours), *(_word(ours, name) for name in ("task", "attribute", "context")))
            if unique and isinstance(item.target, Target):
                first = seen.setdefault((item.target.id, item.attribute), row.number)
                if first != row.number:
                    message = (
                        f"{row.source} row {row.number}: target id {item.target.id!r} was already used by row {first}. "
                        "Give each target an id of its own in a column named id"
                    )
                    error = InputError(message, source=row.source, row=row.number, field="id", **item.known)
                    item = replace(item, target=error)
        except InputError as error:
            item = Item(row, error)
        items.append(item)
    return items


def load(args: argparse.Namespace) -> tuple[References, Held]:
    """The references, and what of them is to be judged on.

    raises : UsageError for options that do nothing together; LadderError for a task or attribute of which the
        references hold no ladder
    """
    if args.seed is not None and args.samples is None:
        raise UsageError(
            f"--seed {args.seed} changes nothing without --samples N: scores from the exact probabilities are not "
            "drawn. Leave it out, or add --samples"
        )
    _check_scoring(args)
    references = load_references(args.references, revision=args.revision)
    if not len(references):
        raise LadderError(f"{args.references} holds no ladders at all. Make some with `synthscore generate`")
    held: dict[str, dict[str, None]] = {}
    for ladder in references:
        held.setdefault(ladder.task, {})[ladder.attribute] = None
    if args.task:
        task = load_task(args.task).name
        if task not in held:
            raise LadderError(f"{args.references} holds no ladders of task {task!r}, but of: {', '.join(held)}")
        held = {task: held[task]}
    for name in args.attribute or ():
        if not any(name in attributes for attributes in held.values()):
            there = ", ".join(dict.fromkeys(name for attributes in held.values() for name in attributes))
            raise LadderError(
                f"{args.references} holds no ladders for attribute {name!r}, but for: {there}. Name one of them, or "
                f"make the ladders with `synthscore generate ... --attribute {name}`",
                attribute=name,
            )
    chosen = {
        task: [name for name in args.attribute or attributes if name in attributes] for task, attributes in held.items()
    }
    return references, {task: attributes for task, attributes in chosen.items() if attributes}


def _check_scoring(args: argparse.Namespace) -> None:
    anchored = getattr(args, "scoring", "paper") == "anchored"
    for name in ("samples",) if anchored else ("scale", "save_scale", "debias"):
        if getattr(args, name, None) is not None:
            option = f"--{name.replace('_', '-')}"
            other = "paper" if anchored else "anchored"
            raise UsageError(f"{option} changes nothing without --scoring {other}. Leave it out, or add that")
    if anchored and args.partial == "rescale":
        raise UsageError("--partial rescale stretches the paper's sum. Leave it out with --scoring anchored")


def judge(
    args: argparse.Namespace, items: Sequence[Item], references: References, held: Held, engine: Watched
) -> Judged:
    """Score every item on every attribute that it is to be judged on."""
    scores: list[list[Score]] = []
    signatures: list[list[Signature]] = []
    groups: dict[tuple[str, str], list[tuple[int, int]]] = {}  # (task, attribute) -> places in scores
    by_context = _tasks_by_context(references, held)
    for index, item in enumerate(items):
        plan = _plan(args, item, held, by_context)
        scores.append([])
        signatures.append([])
        for place, (task, attribute, reason) in enumerate(plan):
            reason = reason or _other_context(item, task, attribute, references)
            scores[index].append(_unscored(item, attribute, reason))
            signatures[index].append(engine.signature)
            if not reason:
                groups.setdefault((task, attribute), []).append((index, place))
    scoring: Literal["paper", "anchored"] = getattr(args, "scoring", "paper")
    known = load_scales(args.scale) if scoring == "anchored" and args.scale else None
    scales: list[Scale] = []
    before, (shape, n_pairs, n_among) = engine.n_judged, _shape(items, groups, references, known)
    n_among *= (scoring == "anchored") * (2 if args.protocol == "yes_no_two_sided" else 1)
    with bar(args, n_among + n_pairs * _per_pair(args), "questions", engine.meter) as progress:
        for (task, attribute), places in groups.items():
            scorer = Scorer(
                references,
                engine,
                attribute=attribute,
                task=args.task or task,
                templates=args.prompts,
                protocol=args.protocol,
                both_orders=args.both_orders,
                n_samples=args.samples,
                seed=args.seed or 0,
                partial=args.partial,
                min_mass=args.min_mass,
                scoring=scoring,
                scale=known,
                debias=getattr(args, "debias", None),
            )
            targets = [target for index, _ in places if isinstance(target := items[index].target, Target)]
            result = scorer.score(targets, progress)
            scales += scorer.scales
            for (index, place), score in zip(places, result, strict=True):
                scores[index][place], signatures[index][place] = score, result.signature
    cost = [engine.meter.cost] if engine.meter.cost else []
    return Judged(scores, signatures, shape, engine.n_judged - before, cost, scales)


def biases(judged: Judged, items: Sequence[Item], references: References) -> dict[str, JudgeBias]:
    """ "task/attribute" -> what the judge favoured, of all that were scored."""
    groups: dict[tuple[str, str], list[tuple[Score, Target]]] = {}
    models: dict[tuple[str, str], str] = {}
    for item, scores, signatures in zip(items, judged.scores, judged.signatures, strict=True):
        for score, signature in zip(scores, signatures, strict=True):
            if score.verdicts and isinstance(item.target, Target):
                parts = dict(signature.parts)
                key = parts["task"], score.attribute
                groups.setdefault(key, []).append((score, item.target))
                models[key] = parts.get("model", "")
    return {
        "/".join(key): judge_bias(
            [score for score, _ in group], [target for _, target in group], references, task=key[0], judge=models[key]
        )
        for key, group in groups.items()
    }


def summary(args: argparse.Namespace, judged: Judged) -> str:
    """What was asked and what came of it."""
    n_targets, n_attributes, n_rungs = judged.shape
    factors = [(n_targets, "target", ""), (n_attributes, "attribute", ""), (n_rungs, "rung", "")]
    factors += [
        (2 if args.both_orders else 1, "order", ""),
        (2 if args.protocol == "yes_no_two_sided" else 1, "side", ""),
    ]
    product = 1
    for n, _, _ in factors:
        product *= n
    questions = counted(judged.n_questions, "question")
    if product == judged.n_questions and product:
        shown = [counted(n, noun) for n, noun, _ in factors if n > 1 or noun in ("target", "rung")]
        asked = f"{' x '.join(shown)} = {questions}"
    else:
        asked = f"{counted(n_targets, 'target')}, {counted(n_attributes, 'attribute')}: {questions}"
    count = Counter[str](score.status for score, _ in judged.rows)
    parts = [f"{count['ok']} scored"] + [
        f"{count[status]} {status}" for status in ("partial", "unscored") if count[status]
    ]
    return f"{asked}; {', '.join(parts)}"


def why(heading: str, scores: Iterable[Score]) -> list[str]:
    """The reasons of scores that are not whole, under a heading; nothing where there are none."""
    lines = reasons(reason for score in scores for reason in re.split(r"; (?=rung \d)", score.reason))
    return [f"{heading}:", *lines] if lines else []


def _renamed(row: Row, renaming: Mapping[str, str]) -> Row:
    """The row under our names; its own are kept elsewhere, to be written again unchanged."""
    for renamed in read_rows([row.values], fields=renaming):
        if isinstance(renamed, Row):
            return replace(renamed, number=row.number, source=row.source)
        raise renamed
    raise AssertionError("one row in, one row out")


def _target(row: Row) -> Target | InputError:
    try:
        return target_from_row(row)
    except InputError as error:
        return error


def _word(row: Row, name: str) -> str:
    value = row.values.get(name)
    return value.strip() if isinstance(value, str) else ""


def _tasks_by_context(references: References, held: Held) -> Mapping[str, set[str]]:
    tasks: dict[str, set[str]] = {}
    for ladder in references:
        if ladder.attribute in held.get(ladder.task, ()):
            tasks.setdefault(ladder.context_id, set()).add(ladder.task)
    return tasks


def _plan(
    args: argparse.Namespace, item: Item, held: Held, by_context: Mapping[str, set[str]]
) -> list[tuple[str, str, str]]:
    """(task, attribute, reason) of every score that the item gets; a reason says why it is not asked about."""
    broken = str(item.target) if isinstance(item.target, InputError) else ""
    task = item.task if item.task and not args.task else ""
    context_id = str(item.known.get("context_id", ""))
    if task and task not in held:
        reason = (
            f"the row's task is {task!r}, and there are only ladders of {', '.join(held)}. To overrule it: --task NAME"
        )
        return [("", item.attribute, broken or reason)]
    if not task:
        among = list(held) if len(held) == 1 else sorted(by_context.get(context_id, ()))
        if len(among) != 1:
            which = f"ladders of {', '.join(among)}: say which with --task" if among else "no ladder"
            return [("", item.attribute, broken or f"context {context_id!r} has {which}")]
        task = among[0]
    if item.attribute and not args.attribute:
        if item.attribute in held[task]:
            return [(task, item.attribute, broken)]
        reason = (
            f"the row's attribute is {item.attribute!r}, and there are only ladders for {', '.join(held[task])}. "
            "To overrule it: --attribute NAME"
        )
        return [("", item.attribute, broken or reason)]
    return [(task, attribute, broken) for attribute in held[task]]


def _other_context(item: Item, task: str, attribute: str, references: References) -> str:
    """Why the ladder is not for this row: it was made for another text of the context's id. "" where it is."""
    try:
        ladder = references.find(str(item.known["context_id"]), attribute, task)
    except LadderError:
        return ""  # the scorer will say so
    made_for = ladder.context.text.strip() if ladder.context else ""
    if not (item.context and made_for) or item.context == made_for:
        return ""
    return (
        f"the ladder of context {ladder.context_id!r} was made for another text of that id: it is "
        f"{made_for[:40]!r}, the row's is {item.context[:40]!r}. Generate ladders for this file, or give its contexts "
        "other ids"
    )


def _unscored(item: Item, attribute: str, reason: str) -> Score:
    known = item.known
    number = item.row.number if isinstance(item.row, Row) else known.get("row", "?")
    return Score(
        id=str(known.get("id", f"row {number}")),
        context_id=str(known.get("context_id", "")),
        attribute=attribute,
        value=None,
        status="unscored",
        reason=reason or "not asked yet",
    )


def _shape(
    items: Sequence[Item],
    groups: Mapping[tuple[str, str], Sequence[tuple[int, int]]],
    references: References,
    scales: Sequence[Scale] | None,
) -> tuple[tuple[int, int, int], int, int]:
    """Targets, attributes and rungs (0: ladders differ) that are asked about; pairs of target and rung; and pairs of
    rungs, each in both orders, of ladders that are not on a scale yet."""
    targets, attributes, rungs = set(), set(), Counter[int]()
    placed = {(s.task, s.attribute, s.n_rungs, name) for s in scales or () for name in s.ladders}
    among: dict[tuple[str, str, str], int] = {}
    for (task, attribute), places in groups.items():
        for index, _ in places:
            try:
                ladder = references.find(str(items[index].known["context_id"]), attribute, task)
            except LadderError:
                continue
            targets.add(index)
            attributes.add(attribute)
            n = len(ladder.usable)
            rungs[n] += 1
            new = (task, attribute, ladder.n_rungs, ladder.context_id) not in placed
            among[task, attribute, ladder.context_id] = n * (n - 1) * new
    shape = (len(targets), len(attributes), next(iter(rungs)) if len(rungs) == 1 else 0)
    return shape, sum(size * count for size, count in rungs.items()), sum(among.values())


def _per_pair(args: argparse.Namespace) -> int:
    """Questions about each target and rung."""
    return (2 if args.both_orders else 1) * (2 if args.protocol == "yes_no_two_sided" else 1)
