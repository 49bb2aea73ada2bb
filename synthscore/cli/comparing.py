"""Where `synthscore rank` has its comparisons from: a file, or a judge that is asked. And people's ratings."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..errors import InputError
from ..evaluation.agreement import per_context
from ..io.fields import Row, check_number, require_number, row_error
from ..io.files import read_rows
from ..io.nouns import context_from_row, read_contexts, target_from_row, target_names
from ..io.write import write_rows
from ..judging.asking import Asking
from ..judging.tasks import load_task
from ..judging.templates import Templates
from ..ranking import selection
from ..ranking.asking import ask_in_rounds, merge_sort
from ..ranking.comparisons import Comparisons, Ranking, joint_signature
from ..ranking.judge import Judge, Problem
from ..ranking.rows import GROUPS, Group, comparison_rows, read_comparisons
from ..types import Context, FloatArray, IntArray, Target
from .common import counted, open_model, reasons, warn


@dataclass(slots=True)
class Found:
    """by : the columns that tell groups apart. left_out : rows of candidates that are in no group, with the reason.
    lines : what was done, in words. complete : every row was read and every call answered."""

    by: tuple[str, ...]
    groups: dict[Group, Comparisons]
    left_out: list[tuple[dict[str, Any], str]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    complete: bool = True


# ------------------------------------------------------------------------------------------------- from a file


def stored(args: argparse.Namespace) -> Found:
    """The comparisons of a file."""
    by = None if args.by is None else tuple(name for name in args.by if name != "none")
    names: dict[str, list[str]] | None = _names(args) if args.candidates else None

    def candidates(group: Mapping[str, str]) -> Iterable[str]:
        assert names is not None
        if "context_id" in group:
            return names.get(group["context_id"], ())
        return [name for of_context in names.values() for name in of_context]

    read = read_comparisons(
        args.comparisons,
        encoding=args.encoding,
        fields=_fields(args),
        by=by,
        candidates=None if names is None else candidates,
    )
    judges = joint_signature(read.groups.values())
    if judges and judges.mixed:
        differ = ", ".join(f"{name} ({values})" for name, values in judges.mixed)
        warn(
            f"the comparisons are not all by one judge: they differ in {differ}, and so does the signature of what is "
            "made of them. For an order by each judge, keep a file for each"
        )
    n_calls = sum(len(calls) for calls in read.groups.values())
    n_texts = sum(calls.n_candidates for calls in read.groups.values())
    found = Found(read.by, read.groups, complete=not read.errors)
    found.lines = [
        f"{counted(n_calls, 'comparison')} of {counted(n_texts, 'candidate')} in {counted(len(read.groups), 'group')}"
    ]
    if read.errors:
        found.lines += [f"{counted(len(read.errors), 'row')} left out:", *reasons(map(str, read.errors))]
    if names is not None and "context_id" in read.by:
        compared = {group[read.by.index("context_id")] for group in read.groups}
        for context_id, of_context in names.items():
            if context_id not in compared:
                reason = "there are no comparisons of its context"
                found.left_out += [({"id": name, "context_id": context_id}, reason) for name in of_context]
        found.complete = found.complete and not found.left_out
    return found


def _fields(args: argparse.Namespace) -> dict[str, str]:
    """Columns of what is ranked; those of --human are apart."""
    return {name: column for name, column in args.field if name != "human"}


def _names(args: argparse.Namespace) -> dict[str, list[str]]:
    """Context id ("" for none) -> ids of its candidates."""
    names: dict[str, dict[str, None]] = {}
    for row in read_rows(args.candidates, encoding=args.encoding):
        if isinstance(row, InputError):
            raise row
        if row.has("context_id"):
            known = target_names(row)
            names.setdefault(known["context_id"], {})[known["id"]] = None
        else:
            names.setdefault("", {})[target_names(_in_context(row))["id"]] = None
    return {context_id: list(of_context) for context_id, of_context in names.items()}


def _in_context(row: Row) -> Row:
    return Row(row.number, {**row.values, "context_id": "all"}, row.source, row.fields)


# ------------------------------------------------------------------------------------------------- from a judge


def judged(args: argparse.Namespace) -> Found:
    """The answers of a judge about the candidates of a file."""
    task = load_task(args.task)
    attributes = [task.attribute(name).name for name in dict.fromkeys(args.attribute)]
    templates = Templates(task, args.prompts)
    found = Found(GROUPS, {})
    problems, designs = _planned(args, _problems(args, attributes, found), found)
    args.model = args.model or "nano"
    with open_model(args) as engine:
        protocol = args.protocol or ("compare" if args.method == "bt-ties" else "choose")
        mass = 0.01 if args.min_mass is None else args.min_mass
        judge = Judge(problems, engine, templates, Asking(protocol, prompts=args.prompts, min_mass=mass))
        if args.method == "pairs":
            merge_sort(
                [problem.ids for problem in problems],
                judge,
                gap=args.gap or 0.0,
                beam_size=args.beam_size or 1,
                calibrate=_both_orders(args),
                seed=args.seed or 0,
            )
        elif args.selection == "sequential":
            budgets = [min(args.budget, len(p.ids) * (len(p.ids) - 1)) for p in problems]
            ask_in_rounds(
                [p.ids for p in problems], judge, budgets, [problem.rng(args.seed or 0) for problem in problems]
            )
        else:
            judge([(k, i, j) for k, calls in enumerate(designs) for i, j in calls.tolist()])
        cost = engine.meter.cost
    how = ",".join(
        [
            "pairs" if args.method == "pairs" else _selection(args),
            *([f"budget={args.budget}"] if args.budget else []),
            "both-orders" if _both_orders(args) else "one-order",
            f"seed={args.seed or 0}",
        ]
    )
    signature = judge.signature.with_(selection=how)
    for problem, calls in zip(problems, judge.comparisons(), strict=True):
        found.groups[problem.context.id, problem.attribute] = replace(calls, signature=signature)
    n_calls = sum(len(calls) for calls in found.groups.values())
    asked = f"{counted(len(problems), 'ranking')} of {counted(sum(len(p.ids) for p in problems), 'candidate')}"
    found.lines.append(f"{asked}: {counted(n_calls + len(judge.failures), 'call')} ({how}), {n_calls} answered")
    if judge.failures:
        found.lines += ["not answered:", *reasons(failure.reason for failure in judge.failures)]
        found.complete = False
    if cost:
        found.lines.append(cost)
    if args.save_comparisons:
        write_rows(comparison_rows(found.by, found.groups), args.save_comparisons)
    return found


def _selection(args: argparse.Namespace) -> str:
    return args.selection or ("greedy" if args.budget else "all")


def _both_orders(args: argparse.Namespace) -> bool:
    """Whether each pair is asked about in both; a sort does so only when told."""
    if args.method == "pairs":
        return bool(args.orders == "both")
    return _selection(args) == "symmetric" or (_selection(args) in ("all", "greedy") and args.orders != "one")


def _planned(
    args: argparse.Namespace, problems: Sequence[Problem], found: Found
) -> tuple[list[Problem], list[IntArray]]:
    """The problems that can be asked about with this budget, and what to ask; the others are left out."""
    if args.method == "pairs":
        return list(problems), []
    planned: list[tuple[Problem, IntArray]] = []
    n_small = 0
    for problem in problems:
        kind = "greedy" if _selection(args) == "sequential" else _selection(args)  # which begins like it
        rng, both = problem.rng(args.seed or 0), _both_orders(args)
        try:
            calls = selection.design(kind, len(problem.ids), args.budget, rng, both_orders=both)
            planned.append((problem, calls))
            n_small += len(calls) < (args.budget or 0)
        except InputError as error:
            names = {"context_id": problem.context.id, "attribute": problem.attribute}
            found.left_out += [({"id": name, **names}, str(error)) for name in problem.ids]
            found.complete = False
    if n_small:
        found.lines.append(f"{counted(n_small, 'ranking')} cannot have {args.budget} calls: all there are were asked")
    return [problem for problem, _ in planned], [calls for _, calls in planned]


def _problems(args: argparse.Namespace, attributes: Sequence[str], found: Found) -> list[Problem]:
    """The candidates of each context, on each attribute; rows that hold none are left out, with the reason."""
    contexts = _contexts(args) if args.contexts else None
    by_context: dict[str, tuple[Context, list[Target]]] = {}
    seen: dict[str, int] = {}
    for row in read_rows(args.candidates, encoding=args.encoding, fields=_fields(args)):
        try:
            if isinstance(row, InputError):
                raise row
            target = target_from_row(row)
            context = context_from_row(row) if contexts is None else _context(row, target, contexts)
            known, texts = by_context.setdefault(target.context_id, (context, []))
            if context != known:
                raise _refused(row, f"context {context.id!r} has another text, facts or references in an earlier row")
            if seen.setdefault(target.id, row.number) != row.number:
                raise _refused(row, f"target id {target.id!r} was already used by row {seen[target.id]}")
            texts.append(target)
        except InputError as error:
            about = vars(error)
            names = {name: about[name] for name in GROUPS if name in about}
            found.left_out.append(({"id": about.get("id", f"row {about.get('row')}"), **names}, str(error)))
            found.complete = False
    problems = []
    for context, texts in by_context.values():
        for attribute in attributes:
            if len(texts) > 1:
                ids, words = zip(*((target.id, target.text) for target in texts), strict=True)
                problems.append(Problem(context, attribute, ids, words))
                continue
            names = {"id": texts[0].id, "context_id": context.id, "attribute": attribute} if texts else {}
            if texts:
                found.left_out.append(
                    (names, "it is the only candidate of its context, expected at least 2 to compare")
                )
                found.complete = False
    if not problems:
        warn(f"{args.candidates} holds no context with two candidates")
    return problems


def _contexts(args: argparse.Namespace) -> dict[str, Context]:
    contexts, errors = read_contexts(args.contexts, encoding=args.encoding)
    for error in errors:
        warn(str(error))
    return {context.id: context for context in contexts}


def _context(row: Row, target: Target, contexts: Mapping[str, Context]) -> Context:
    if target.context_id not in contexts:
        raise _refused(row, f"its context {target.context_id!r} is not in the file of contexts")
    return contexts[target.context_id]


def _refused(row: Row, seen: str) -> InputError:
    known = target_names(row)
    return row_error(row, "id", known["id"], seen, "Mend or remove the row", **known)


# ------------------------------------------------------------------------------------------------- people


Ratings = Mapping[tuple[str | None, str], list[Any]]
"""(context id, name of a candidate) -> what people said: a number, or one an attribute. The context id is "" where a
row names none; under None are all rows, whatever their context."""


def read_ratings(args: argparse.Namespace) -> Ratings:
    """Ratings of a file. A candidate goes by its id, its system, or both its context's id and its system."""
    ratings: dict[tuple[str | None, str], list[Any]] = {}
    renamed = {name: column for name, column in args.field if name == "human"}
    for row in read_rows(args.human, encoding=args.encoding, fields=renamed):
        if isinstance(row, InputError):
            raise row
        human = row.values.get("human")
        if isinstance(human, str) and human.lstrip().startswith("{"):
            human = json.loads(human)
        expected, remedy = "a number, or a number for each attribute", "Name the column with --field human=COLUMN"
        if isinstance(human, Mapping):
            human = {name: check_number(row, "human", one, expected, remedy=remedy) for name, one in human.items()}
        else:
            human = require_number(row, "human", expected, remedy=remedy)
        has_context = row.has("context_id")
        known = target_names(row if has_context else _in_context(row))
        for name in {known["id"], known["system"]} - {None}:
            for context_id in (known["context_id"] if has_context else "", None):
                ratings.setdefault((context_id, name), []).append(human)
    return ratings


def rated(
    args: argparse.Namespace, by: Sequence[str], group: Group, ids: Sequence[str], ratings: Ratings
) -> FloatArray:
    """People's ratings of a group's candidates, means over rows, NaN where there are none.

    A group of one context has the ratings of that context, or else those that name none: never another context's. A
    group over contexts has all.
    """
    names = dict(zip(by, group, strict=True))
    attribute = names.get("attribute") or (args.attribute[0] if args.attribute else None)
    means = []
    for name in ids:
        said = ratings.get((names.get("context_id"), name)) or ratings.get(("", name), [])
        values = [rating for human in said if (rating := _rating(human, attribute, args.human)) is not None]
        means.append(float(np.mean(values)) if values else np.nan)
    return np.array(means)


def _rating(human: Any, attribute: str | None, source: str) -> float | None:
    if not isinstance(human, Mapping):
        return human
    if attribute is None and len(human) == 1:
        return next(iter(human.values()))
    if attribute not in human:
        raise InputError(
            f"{source} rates {', '.join(map(repr, human))}, and {attribute!r} was asked for. Name one with --attribute"
        )
    return human[attribute]


def agreement(
    args: argparse.Namespace, found: Found, ranked: Mapping[Group, Ranking | str], ratings: Ratings
) -> list[str]:
    """Lines: Spearman's correlation inside each group, its mean over groups, for each attribute."""
    by_attribute: dict[str, list[tuple[Group, FloatArray, FloatArray]]] = {}
    for group, result in ranked.items():
        ids = found.groups[group].ids
        scores = np.full(len(ids), np.nan) if isinstance(result, str) else np.round(result.scores, 9)
        attribute = dict(zip(found.by, group, strict=True)).get("attribute", "")
        by_attribute.setdefault(attribute, []).append((group, scores, rated(args, found.by, group, ids, ratings)))
    lines = []
    for attribute, rows in by_attribute.items():
        names = ["/".join(group) for group, scores, _ in rows for _ in scores]
        found_ = per_context(np.concatenate([r[1] for r in rows]), np.concatenate([r[2] for r in rows]), names)
        text = f"agreement with people{f', {attribute}' if attribute else ''}: Spearman {found_.value:.3f}"
        text += f" ± {found_.stderr:.3f}" if found_.n_contexts > 1 else ""
        text += f", {counted(found_.n_contexts, 'group')}"
        text += f", {found_.n_skipped} skipped" if found_.n_skipped else ""
        lines.append(text)
    return lines
