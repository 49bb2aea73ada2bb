"""`synthscore references import`: texts that a person wrote -> ladders."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from ..errors import InputError
from .generate import changed_tasks, look_at, now_holds
from .messages import Messages, counted, exit_code, reasons
from .options import AnyTask, Input, Output, RowsIn
from .panels import FIRST


def import_(
    source: RowsIn,
    /,
    *,
    output: Output,
    task: AnyTask = None,
    attribute: Annotated[str | None, Parameter(name=["--attribute", "-a"], group=FIRST)] = None,
    contexts: str | None = None,
    shared: bool = False,
    input: Input = Input(),
    messages: Messages = Messages(),
) -> int:
    """Ladders that you wrote yourself.

    For example:
      $ synthscore references import mine.jsonl --task summarization -a coherence -o ladders/
      $ synthscore references import texts/ --task support_replies -a politeness -o ladders/

    Takes texts that a person wrote, from the worst to the best, as ladders: checked, hashed and marked as
    hand-written. A row is a ladder, with its texts as a list in rungs or in columns rung_1 (the worst), rung_2, ...;
    or a rung, with its level (1 is the worst) and text. A row carries its context, or the id of one in --contexts.
    A folder holds a folder for each context, with context.txt, 1.txt, 2.txt, ... (docs/own_ladders.md).

    What cannot be used is left out and named, with exit code 3. Ladders that the output holds already stay,
    those for the same task, context and attribute are replaced.

    Args:
        output: the references folder to write or add to
        task: of the texts; a folder with a task.toml for a task of your own (default: the rows' column task)
        attribute: in which they rise (default: the rows' column attribute)
        contexts: file of contexts, for rows that say context_id alone
        shared: texts of all contexts are to be compared with these ladders, one an attribute (docs/shared_ladder.md)
    """
    from ..io.contexts import read_contexts
    from ..ladders.handwritten import read_ladders
    from ..ladders.references import held_by

    held = held_by(output)
    known, errors = read_contexts(contexts, encoding=input.encoding) if contexts else ([], [])
    ladders, left_out = read_ladders(
        source,
        task=task,
        attribute=attribute,
        contexts=known,
        shared=shared,
        encoding=input.encoding,
        fields=input.fields,
    )
    why = reasons(map(str, [*errors, *left_out]))
    if not len(ladders):
        raise InputError(f"{source} holds no ladders: {'; '.join(why) or 'it is empty'}", source=source)
    n_gone = held.n_differing(ladders)
    total = ladders.save(output, merge=True)
    if why:
        messages.warn(f"{counted(len(errors) + len(left_out), 'row or ladder', 'rows or ladders')} left out:")
        for line in why:
            messages.warn(line)
    messages.note(
        f"{counted(len(ladders), 'ladder')} of {counted(sum(each.n_rungs for each in ladders), 'rung')} imported",
        *look_at(ladders, output),
        now_holds(output, total, n_gone),
        *changed_tasks(held, total),
        signature=f"references:{total.hash[:12]}",
    )
    return exit_code(not why)
