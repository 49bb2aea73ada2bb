"""`synthscore generate`: contexts -> ladders."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter, Token
from cyclopts.validators import Number

from ..engine import Sampling
from ..errors import InputError
from ..signature import Signature
from ..types import Ladder, Task
from .messages import ERROR, OK, Messages, UsageError, counted, exit_code, reasons
from .options import (
    Count,
    DryRun,
    FileIn,
    Input,
    Limit,
    OneShard,
    Opening,
    Output,
    Positive,
    RowsIn,
    given,
)
from .panels import FIRST

if TYPE_CHECKING:
    from ..ladders.references import References


def _rungs(_: Any, tokens: Sequence[Token]) -> int | str:
    text = tokens[0].value
    if text == "auto":
        return text
    try:
        n_rungs = int(text)
    except ValueError:
        raise ValueError(f"{text} is no whole number, and not auto") from None
    if n_rungs < 2:
        raise ValueError("Must be >= 2.")
    return n_rungs


@Parameter(name="*", group="writing")
@dataclass(frozen=True, kw_only=True)
class Writing:
    """Who writes, and how."""

    rungs: Annotated[int | Literal["auto"], Parameter(converter=_rungs, n_tokens=1, accepts_keys=False)] = "auto"
    """texts in a ladder, 2 or more; auto: 5, or by damage as many as a short text allows, so that none is lost: scores
    are on 1..5 all the same"""
    seed: Annotated[Count, Parameter(show_default=True)] = 0
    "another seed, other texts"
    temperature: Annotated[float | None, Parameter(validator=Number(gte=0, lt=math.inf))] = None
    "0 always takes the likeliest token (default: 0.7)"
    max_new_tokens: Positive | None = None
    "tokens in a text (default: the task's)"
    prompts: str = "default"
    "template set: default, paper, or a folder with templates of your own"

    def sampling(self, task: Task) -> Sampling:
        most = self.max_new_tokens or task.max_new_tokens
        return Sampling(most) if self.temperature is None else Sampling(most, self.temperature)


def generate(
    contexts: RowsIn,
    /,
    *,
    output: Output,
    task: Annotated[str, Parameter(group=FIRST)],
    attribute: Annotated[list[str], Parameter(name=["--attribute", "-a"], group=FIRST)],
    limit: Limit = None,
    shard: OneShard = None,
    dry_run: DryRun = False,
    findings: FileIn | None = None,
    writing: Writing = Writing(),
    model: Annotated[str | None, Parameter(group=FIRST)] = None,
    opening: Opening = Opening(),
    rows: Input = Input(),
    messages: Messages = Messages(),
) -> int:
    """Contexts -> ladders of texts of rising quality.

    For example:
      $ synthscore generate contexts.jsonl --task summarization --attribute coherence -o ladders/
      $ synthscore generate contexts.jsonl --task story -a all --model Qwen/Qwen3-8B -o ladders/
      $ synthscore generate contexts.jsonl --task summarization -a coherence -o ladders/ --findings checks.jsonl

    Writes a ladder for every context and attribute: texts of rising quality, the worst first. A row needs a
    column text (or context), and may have id (or context_id), facts and references. Two writers:

      prompt    with --model: the model writes them, the best and the worst first, then those between
      degrade   without: takes the row's first reference (or, for summaries, central sentences) as
                the best, and damages it more and more in the attribute: the order is known by construction.
                A text too short for five rungs gets four, three or two, and it is said how many

    The folder is then a dataset with a card, which `synthscore score --references` and datasets.load_dataset
    read. Ladders that it holds already stay, those for the same task, context and attribute are replaced.
    A ladder of which no text could be written is left out. The exit code is 3 where a rung failed, 1 where all did.
    A killed run is simply repeated: what the model wrote is in the store.

    With --findings the ladders that the folder holds stay, but for the rungs that the file flags: these, and
    those that were written from them, are written again, with new seeds. A ladder of which a text would be
    lost stays as it was, and so do texts by another writer, and ladders that have changed since they were
    checked; the exit code is then 3.

    Args:
        output: the references folder to write or add to
        task: response (to any prompt), summarization, dialogue, story, data_to_text, question, support_replies,
            product_descriptions, or a folder with a task.toml
        attribute: may be repeated; all: every one of the task
        findings: what `synthscore references check ladders/ -o FILE` wrote: the rungs to be written again
        model: the writer: a model on the hub, or a folder
    """
    from ..io.contexts import read_contexts
    from ..io.files import some_contexts
    from ..judging.templates import load_task
    from ..ladders.degraded import DegradedWriter
    from ..ladders.prompted import PromptedWriter
    from ..ladders.references import References, held_by
    from ..ladders.rewrite import read_findings, redraft
    from ..ladders.write import MOST_RUNGS, Writer, draft_ladders, fit_rungs, write_rungs

    kind = load_task(task)
    names = list(kind.attributes) if "all" in attribute else list(dict.fromkeys(attribute))
    of_models = (*given(writing), *given(opening))
    unused = [name for name in of_models if name not in ("--rungs", "--seed")]
    if unused and not model:
        raise UsageError(f"{', '.join(unused)} changes nothing without a model that writes. Name one: --model M")
    path = Path(output)
    held = held_by(path)  # before anything is asked
    found, errors = read_contexts(contexts, encoding=rows.encoding, fields=rows.fields)
    if errors:
        messages.warn(f"{counted(len(errors), 'row')} of {contexts} left out:")
        for line in reasons(map(str, errors)):
            messages.warn(line)
    if not found:
        raise InputError(f"{contexts} holds no context that ladders could be written for", source=contexts)
    chosen = some_contexts((context.id for context in found), limit)
    found = [context for context in found if context.id in chosen]
    ours = [context for context in found if shard.owns(context.id)] if shard else found
    drafts = draft_ladders(ours, kind, names, MOST_RUNGS if writing.rungs == "auto" else writing.rungs)
    kept: list[str] = []
    if findings:
        name = PromptedWriter.name if model else DegradedWriter.name
        drafts, kept = redraft(drafts, kind.name, held, read_findings(findings), name)
    writer: Writer = DegradedWriter(seed=writing.seed, lenders=found)  # so that rungs do not depend on the shard
    if writing.rungs == "auto" and not model:
        fit_rungs(kind, drafts, writer)
    n_rungs = sum(len(draft.levels) for draft in drafts)
    with ExitStack() as stack:
        signature = Signature.of(writer="degrade", seed=writing.seed)
        if model is not None:
            engine = stack.enter_context(opening.open(model, messages, dry_run=dry_run))
            engine.expected = n_rungs
            options: dict[str, Any] = {"templates": writing.prompts, "seed": writing.seed}
            signature = engine.signature.with_(writer="prompt", **options)
            writer = PromptedWriter(engine, sampling=writing.sampling(kind), **options)
        progress = stack.enter_context(messages.bar(n_rungs, "rungs"))
        if dry_run and model is None:
            print(f"{counted(n_rungs, 'rung')} by damage, which asks nothing")
            return OK
        write_rungs(kind, drafts, writer, progress)
        if dry_run:
            print(*engine.cost, sep="\n")
            return OK
        cost = engine.cost if model else []
    ladders = [draft.ladder(kind) for draft in drafts]
    usable = References([ladder for ladder in ladders if ladder.usable], tasks=[kind])
    kept += [f"{draft.context.id}/{draft.attribute.name}: {draft.lost}" for draft in drafts if draft.lost]
    n_gone = 0 if findings else held.n_differing(usable)
    rungs = [draft.rungs[level] for draft in drafts if not draft.lost for level in draft.levels]
    failed = [rung.reason for rung in rungs if rung.status == "failed"]
    n_written = len(rungs) - len(failed)
    work = f"{counted(len(ours), 'context')} x {counted(len(names), 'attribute')}"
    counts = f"{counted(n_written, 'rung')} written, {len(failed)} failed"
    if findings:
        line = f"{work}, {counted(len(drafts), 'ladder')} of them missing or at fault: {counts}"
    else:
        lengths = {ladder.n_rungs for ladder in ladders}
        each = "".join(f" x {counted(n, 'rung')}" for n in lengths) if len(lengths) == 1 else ""
        line = f"{work}{each}: {counts}"
        if model:
            line += f", in {counted(sum(rung.provenance.get('attempt', 0) for rung in rungs), 'attempt')}"
    messages.note(
        line,
        *reasons(failed),
        *shorter(ladders),
        *(["kept as they were:", *reasons(kept)] if kept else []),
        *look_at(usable, output),
        *cost,
    )
    n_left_out = len(ladders) - len(usable)
    if n_left_out:
        messages.warn(
            f"{counted(n_left_out, 'ladder')} of {len(ladders)} left out: not one text of theirs could be written"
        )
    if len(usable) or not ladders:
        total = usable.save(path, merge=True)
        messages.note(
            now_holds(output, total, n_gone),
            *changed_tasks(held, total),
            signature=f"{signature}|references:{total.hash[:12]}",
        )
    if ladders and not n_written:
        messages.warn("not one rung could be written")
        return ERROR
    return exit_code(not (failed or kept or errors or n_left_out))


def shorter(ladders: Sequence[Ladder]) -> Iterator[str]:
    """How many ladders have fewer rungs than were wanted."""
    lengths = Counter(ladder.n_rungs for ladder in ladders if ladder.wanted)
    if lengths:
        named = ", ".join(f"{n} of {n_rungs}" for n_rungs, n in sorted(lengths.items(), reverse=True))
        wanted = max(ladder.wanted or 0 for ladder in ladders)
        yield (
            f"{lengths.total()} of {counted(len(ladders), 'ladder')} have fewer than {wanted} rungs, because their "
            f"texts allow no more damage: {named}; scores on them are on 1..{wanted} all the same"
        )


def now_holds(folder: str, total: References, n_gone: int) -> str:
    """n_gone : ladders that the folder held before, and others were written in the place of"""
    gone = f"; {n_gone} that it held for the same task, context and attribute, of other texts, gone" if n_gone else ""
    return f"{folder} now holds {counted(len(total), 'ladder')}{gone}"


def changed_tasks(held: References, total: References) -> Iterator[str]:
    """Which tasks the folder now carries in other words than it held, or for the first time.

    held, total : what the folder held, and holds
    """
    from ..judging.task_files import task_hash

    for name, task in total.carried_tasks.items():
        before = held.carried_tasks.get(name)
        if before != task:
            gone = f", in place of another ({task_hash(before)})" if before else ""
            yield f"the task {name} ({task_hash(task)}) is kept with the ladders{gone}: {task.folder}"


def look_at(ladders: References, folder: str) -> Iterator[str]:
    """What a check of their texts would flag."""
    from ..checking.findings import text_findings

    tasks = ladders.carried_tasks
    findings = [text_findings(ladder, task=tasks.get(ladder.task)) for ladder in ladders]
    found = [{finding.kind for finding in of_one if finding.flagged} for of_one in findings]
    if wrong := [kinds for kinds in found if kinds]:
        counts = Counter(kind for kinds in wrong for kind in kinds)
        named = ", ".join(f"{kind} in {n}" for kind, n in counts.most_common())
        yield f"findings in {len(wrong)} of {counted(len(found), 'ladder')}: {named}"
        yield f"To see them: synthscore references check {folder} --no-judge"
