"""Rows + references + judge -> one Score for each row and attribute, in the order of the rows.

Nothing is lost on the way: a row that holds no target, or has no ladder, gets an unscored Score with the reason.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from ..errors import InputError, LadderError
from ..io.fields import Row
from ..io.files import read_rows
from ..io.nouns import target_from_row
from ..judging.asking import Asking
from ..judging.tasks import load_task
from ..ladders.references import References
from ..scoring.anchored.adaptive import Narrow, SameDecision, Stop, Sure
from ..scoring.anchored.questions import n_among_targets
from ..scoring.anchored.scale import Scale, load_scales
from ..scoring.bias import JudgeBias, judge_bias
from ..scoring.paper import paper_sum, rung_equivalent
from ..scoring.scorer import Scorer
from ..signature import Signature
from ..store.engine import StoredEngine, StoredVerdicts
from ..types import FloatArray, Ladder, Score, Target
from .common import UsageError, Watched, bar, counted, fields, number, reasons, spaced, whole

Held = Mapping[str, Sequence[str]]
"""Task -> the attributes to judge on, in order."""


Shape = tuple[int, int, int]
"""Targets asked about, attributes, rungs of each ladder (0: ladders differ)."""


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
    shape: Shape
    n_questions: int
    cost: list[str]  # what the model was asked, in a line; none where the store held all
    scales: list[Scale]  # that the scores are on, with --scoring anchored

    @property
    def rows(self) -> Iterable[tuple[Score, Signature]]:
        for scores, signatures in zip(self.scores, self.signatures, strict=True):
            yield from zip(scores, signatures, strict=True)

    @property
    def statuses(self) -> Counter[str]:
        return Counter(score.status for score, _ in self.rows)

    @property
    def saved(self) -> tuple[int, int]:
        """Questions asked about texts, and of their whole ladders; 0 and 0 without --adaptive."""
        details = [score.details for scores in self.scores for score in scores if score.details]
        done, full = (sum(each.get(name, 0) for each in details) for name in ("questions", "questions_full"))
        return int(done), int(full)

    @property
    def n_unmet(self) -> int:
        """Scores that do not meet the rule of --adaptive, though all was asked."""
        return sum(score.status != "unscored" and not score.details.get("met", 1) for score, _ in self.rows)

    @property
    def used(self) -> tuple[Signature, ...]:
        """The signatures of what was compared, each once."""
        same = {id(signature): signature for score, signature in self.rows if score.n_comparisons}
        return tuple(dict.fromkeys(same.values()))

    @property
    def signature(self) -> str:
        return merged(self.used)


def merged(signatures: Iterable[Signature]) -> str:
    """One line for all numbers: where they differ in a part, its values are listed."""
    values: dict[str, dict[str, None]] = {}
    for signature in signatures:
        for key, value in signature.parts:
            values.setdefault(key, {})[value] = None
    return "|".join(f"{key}:{','.join(each)}" for key, each in values.items())


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


def read_items(args: argparse.Namespace, *, unique: bool = False) -> list[Item]:
    """The rows of args.targets. unique : a second row of the same id (and attribute) holds no target."""
    items: list[Item] = []
    seen: dict[tuple[str, str], int] = {}
    for row in read_rows(args.targets, encoding=args.encoding):
        item = read_item(row, args)
        if unique and isinstance(item.target, Target) and isinstance(row, Row):
            first = seen.setdefault((item.target.id, item.attribute), row.number)
            if first != row.number:
                message = (
                    f"{row.source} row {row.number}: target id {item.target.id!r} was already used by row {first}. "
                    "Give each target an id of its own in a column named id"
                )
                error = InputError(message, source=row.source, row=row.number, field="id", **item.known)
                item = replace(item, target=error)
        items.append(item)
    return items


def read_item(row: Row | InputError, args: argparse.Namespace) -> Item:
    if isinstance(row, InputError):
        return Item(row, row)
    try:
        ours = _renamed(row, fields(args)) if args.field else row
    except InputError as error:
        return Item(row, error)
    return Item(row, _target(ours), _word(ours, "task"), _word(ours, "attribute"), _word(ours, "context"))


def load(args: argparse.Namespace) -> tuple[References, Held]:
    """The references, and what of them is to be judged on.

    raises : UsageError for options that do nothing together; LadderError for a task or attribute of which the
        references hold no ladder
    """
    if args.seed is not None and args.samples is None and not getattr(args, "targets_too", None):
        option, why = "--samples N", "scores from the exact probabilities are not drawn"
        if getattr(args, "scoring", "paper") == "anchored":
            option, why = "--targets-too K", "nothing else is drawn with --scoring anchored"
        raise UsageError(f"--seed {args.seed} changes nothing without {option}: {why}. Leave it out, or add that")
    _check_scoring(args)
    references = References.load(args.references, revision=args.revision)
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
    for name in ("samples",) if anchored else ("scale", "save_scale", "debias", "targets_too"):
        if getattr(args, name, None) is not None:
            option = f"--{name.replace('_', '-')}"
            other = "paper" if anchored else "anchored"
            raise UsageError(f"{option} changes nothing without --scoring {other}. Leave it out, or add that")
    if anchored and args.partial == "rescale":
        raise UsageError("--partial rescale stretches the paper's sum. Leave it out with --scoring anchored")
    stop(args)


def stop(args: argparse.Namespace) -> Stop | None:
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


def judge(
    args: argparse.Namespace, items: Sequence[Item], references: References, held: Held, engine: Watched
) -> Judged:
    """Score every item on every attribute that it is to be judged on."""
    return Judging(args, references, held, engine).judge(items)


class Place(NamedTuple):
    """Where rows of one context go, with what their text's hash begins with (StoredVerdicts)."""

    task: str
    attribute: str
    made_for: str
    n_rungs: int
    begun: Any


class Judging:
    """The judge and its ladders, for some items at a time.

    brief : for one attribute: paper scores of texts that were judged before come from the verdicts stored for the whole
        text. They are the same to the last bit, but hold no details and no verdicts
    """

    def __init__(
        self, args: argparse.Namespace, references: References, held: Held, engine: Watched, *, brief: bool = False
    ) -> None:
        self.args, self.references, self.held, self.engine = args, references, held, engine
        self.scoring: Literal["paper", "anchored"] = getattr(args, "scoring", "paper")
        self.known_scales = load_scales(args.scale) if self.scoring == "anchored" and args.scale else None
        self._by_context = _tasks_by_context(references, held)
        self._scorers: dict[tuple[str, str], Scorer] = {}
        self._signed: dict[tuple[str, str], Signature] = {}
        self._stored: dict[tuple[str, str], StoredVerdicts] = {}
        self._places: dict[tuple[str, str, str], Place | None] = {}
        brief = brief and self.scoring == "paper" and args.samples is None and isinstance(engine.engine, StoredEngine)
        self._ladders = {_of(ladder): ladder for ladder in references} if brief else {}
        self._n_orders = 2 if args.both_orders else 1

    def judge(self, items: Sequence[Item]) -> Judged:
        """Score every item on every attribute that it is to be judged on."""
        found, shape, n_found = self._from_store(items)
        rest = [index for index in range(len(items)) if index not in found]
        judged = self._judge([items[index] for index in rest])
        if not found:
            return judged
        scores: list[list[Score]] = [[] for _ in items]
        signatures: list[list[Signature]] = [[] for _ in items]
        for index, (score, signature) in found.items():
            scores[index], signatures[index] = [score], [signature]
        for index, own, signed in zip(rest, judged.scores, judged.signatures, strict=True):
            scores[index], signatures[index] = own, signed
        shape = joined(shape, judged.shape)
        return replace(
            judged, scores=scores, signatures=signatures, shape=shape, n_questions=judged.n_questions + n_found
        )

    def _judge(self, items: Sequence[Item]) -> Judged:
        args, engine = self.args, self.engine
        scores: list[list[Score]] = []
        signatures: list[list[Signature]] = []
        groups: dict[tuple[str, str], list[tuple[int, int]]] = {}  # (task, attribute) -> places in scores
        for index, item in enumerate(items):
            plan = _plan(args, item, self.held, self._by_context)
            scores.append([])
            signatures.append([])
            for place, (task, attribute, reason) in enumerate(plan):
                reason = reason or _other_context(item, task, attribute, self.references)
                scores[index].append(_unscored(item, attribute, reason))
                signatures[index].append(engine.signature)
                if not reason:
                    groups.setdefault((task, attribute), []).append((index, place))
        scales: list[Scale] = []
        before = engine.n_judged
        scorers = [self._scorer(*of) for of in groups]  # what one of them refuses shows before anything is asked
        shape, n_pairs, n_among = _shape(args, items, groups, self.references, self.known_scales)
        n_among *= (self.scoring == "anchored") * (2 if args.protocol == "yes_no_two_sided" else 1)
        with bar(args, n_among + n_pairs * _per_pair(args), "questions", engine.meter) as progress:
            for scorer, places in zip(scorers, groups.values(), strict=True):
                targets = [target for index, _ in places if isinstance(target := items[index].target, Target)]
                result = scorer.score(targets, progress)
                scales += scorer.scales
                for (index, place), score in zip(places, result, strict=True):
                    scores[index][place], signatures[index][place] = score, result.signature
        self._keep(items, scores)
        cost = [engine.meter.cost] if engine.meter.cost else []
        return Judged(scores, signatures, shape, engine.n_judged - before, cost, scales)

    def _scorer(self, task: str, attribute: str) -> Scorer:
        if (task, attribute) not in self._scorers:
            args = self.args
            self._scorers[task, attribute] = Scorer(
                self.references,
                self.engine,
                attribute=attribute,
                task=args.task or task,
                asking=Asking(args.protocol, args.both_orders, args.prompts, args.min_mass),
                n_samples=args.samples,
                seed=args.seed or 0,
                partial=args.partial,
                scoring=self.scoring,
                scale=self.known_scales,
                targets_too=getattr(args, "targets_too", None) or 0,
                debias=getattr(args, "debias", None),
                adaptive=stop(args),
            )
        return self._scorers[task, attribute]

    # --------------------------------------------------------------------------------------------- whole texts

    def _from_store(self, items: Sequence[Item]) -> tuple[dict[int, tuple[Score, Signature]], Shape, int]:
        """Scores of the items whose verdicts are stored, by place; what they are of; and how many answers that is."""
        wanted: dict[tuple[str, str, int], list[tuple[int, bytes]]] = {}
        for index, item in enumerate(items) if self._ladders else ():
            if (place := self._place(item)) is not None and isinstance(item.target, Target):
                key = StoredVerdicts.key(place.begun, item.target.text)
                wanted.setdefault((place.task, place.attribute, place.n_rungs), []).append((index, key))
        scores: dict[int, tuple[Score, Signature]] = {}
        shape, n_answers = (0, 0, 0), 0
        for (task, attribute, n_rungs), places in wanted.items():
            stored = self._stored[task, attribute]
            verdicts = stored.get_many([key for _, key in places], n_rungs, self._n_orders)
            hits = [(index, verdicts[key]) for index, key in places if key in verdicts]
            if not hits:
                continue
            values = _paper_values(np.stack([said for _, said in hits]))
            for (index, _), value in zip(hits, values.tolist(), strict=True):
                target = items[index].target
                assert isinstance(target, Target)
                score = Score(target.id, target.context_id, attribute, value, n_comparisons=n_rungs)
                scores[index] = score, self._signed[task, attribute]
            shape = joined(shape, (len(hits), 1, n_rungs))
            n_answers += len(hits) * n_rungs * _per_pair(self.args)
        return scores, shape, n_answers

    def _place(self, item: Item) -> Place | None:
        """None for what is to be judged from its answers."""
        if not isinstance(item.target, Target):
            return None
        known = item.target.context_id, item.task, item.attribute
        if known not in self._places:
            [(task, attribute, _)] = _plan(self.args, item, self.held, self._by_context)
            ladder = self._ladders.get((task, attribute, item.target.context_id))
            if ladder is None:
                return None
            self._places[known] = self._new_place(ladder)
        place = self._places[known]
        if place is not None and item.context and place.made_for and item.context != place.made_for:
            return None
        return place

    def _new_place(self, ladder: Ladder) -> Place | None:
        of = ladder.task, ladder.attribute
        if of not in self._stored:
            assert isinstance(self.engine.engine, StoredEngine)
            scorer = self._scorer(*of)
            self._signed[of] = scorer.signature
            parts = {name: value for name, value in scorer.signature.parts if name not in ("references", "scoring")}
            asked = Signature.of(**parts, min_mass=scorer.asking.min_mass, max_unreported=scorer.asking.max_unreported)
            self._stored[of] = StoredVerdicts(self.engine.engine.store, self.engine.signature, str(asked))
        begun = self._stored[of].begun(ladder)
        if begun is None or ladder.context is None:
            return None
        return Place(*of, ladder.context.text.strip(), ladder.n_rungs, begun)

    def _keep(self, items: Sequence[Item], scores: Sequence[Sequence[Score]]) -> None:
        """Store the verdicts on whole texts."""
        whole: dict[tuple[str, str, int], dict[bytes, Score]] = {}
        for item, [score, *_] in zip(items, scores, strict=True) if self._ladders else ():
            if (place := self._place(item)) is not None and isinstance(item.target, Target):
                key = StoredVerdicts.key(place.begun, item.target.text)
                whole.setdefault((place.task, place.attribute, place.n_rungs), {})[key] = score
        for (task, attribute, n_rungs), of in whole.items():
            self._stored[task, attribute].put_many(of, n_rungs, self._n_orders)


def _of(ladder: Ladder) -> tuple[str, str, str]:
    return ladder.task, ladder.attribute, ladder.context_id


def _paper_values(said: FloatArray) -> FloatArray:
    """Scores as Scorer computes them from its verdicts. said : shape (n_targets, n_rungs, n_orders, 3)"""
    mean = said.sum(axis=2) / said.shape[2]
    return rung_equivalent(paper_sum(mean[..., 0], mean[..., 1]), said.shape[1])


def joined(one: Shape, other: Shape) -> Shape:
    """Of the items of both, judged on the same attributes."""
    if not (one[0] and other[0]):
        return one if one[0] else other
    return one[0] + other[0], max(one[1], other[1]), one[2] if one[2] == other[2] else 0


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
    return summed_up(args, judged.shape, judged.n_questions, judged.statuses, judged.saved, judged.n_unmet)


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
    args: argparse.Namespace,
    items: Sequence[Item],
    groups: Mapping[tuple[str, str], Sequence[tuple[int, int]]],
    references: References,
    scales: Sequence[Scale] | None,
) -> tuple[tuple[int, int, int], int, int]:
    """Targets, attributes and rungs (0: ladders differ) that are asked about; pairs of target and rung, and of
    targets; and pairs of rungs, each in both orders, of ladders that are not on a scale yet."""
    targets, attributes, rungs = set(), set(), Counter[int]()
    together = Counter[tuple[str, str, str]]()  # targets of one context
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
            among[_of(ladder)] = n * (n - 1) * new
            together[_of(ladder)] += 1
    shape = (len(targets), len(attributes), next(iter(rungs)) if len(rungs) == 1 else 0)
    n_pairs = sum(size * count for size, count in rungs.items())
    if number := getattr(args, "targets_too", None):
        n_pairs += sum(n_among_targets(n, number, args.both_orders) for n in together.values())
    return shape, n_pairs, sum(among.values())


def _per_pair(args: argparse.Namespace) -> int:
    """Questions about each target and rung."""
    return (2 if args.both_orders else 1) * (2 if args.protocol == "yes_no_two_sided" else 1)
