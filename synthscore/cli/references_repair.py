"""`synthscore references repair`: rungs that are at fault, written again by their own writer."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .exits import INCOMPLETE, OK
from .messages import Messages
from .options import OneAttribute, OneTask, Positive, Source
from .references_check import Judging
from .talk import counted, reasons, spaced, table

if TYPE_CHECKING:
    from ..checking.repair import RepairReport


def repair(
    source: Source,
    /,
    *,
    attempts: Positive = 3,
    writer_model: str | None = None,
    attribute: OneAttribute = None,
    task: OneTask = None,
    judging: Judging = Judging(),
    messages: Messages = Messages(),
) -> int:
    """Have bad rungs written again.

    For example:
      $ synthscore references repair ladders/
      $ synthscore references repair ladders/ --model Qwen/Qwen3-8B --attempts 5

    Checks the ladders, and has every rung at fault written again by its own writer, with the same model and
    decoding and the next seed; and the rungs that are written from it. A new text is taken only if what was
    wrong is gone and nothing else of the ladder has become worse; otherwise the old one stays. What was
    replaced or refused is kept with the rung ("history"). Saves after each round; a killed run is simply
    repeated. The exit code is 3 where something is still flagged.

    Args:
        attempts: how often a rung is written again, at most
        writer_model: who writes the rungs that a model wrote (default: that model)
    """
    from ..checking.repair import repair as repair_ladders

    with ExitStack() as stack:
        judge = stack.enter_context(judging.engine(messages))

        def open_writer(name: str) -> Any:
            if judge is not None and name == judging.model:
                return judge
            # Options of the judge's server are not for a model that runs here.
            own = judging if "://" in name else replace(judging, top_k=None, tokenizer=None, in_flight=None)
            return stack.enter_context(own.open(name, messages))

        report = repair_ladders(
            source,
            judge,
            open_writer,
            judging.asking(judging.protocol, both_orders=True),
            writer_model=writer_model,
            task=task,
            attribute=attribute,
            attempts=attempts,
        )
    for warning in report.warnings:
        messages.warn(warning)
    _print(report)
    taken = [each for each in report.repairs if not each.refused]
    also = sum(len(each.also) for each in taken)
    messages.note(
        f"{counted(report.n_ladders, 'ladder')}: {counted(len(taken), 'rung')} written again and taken"
        f"{f', and {spaced(also)} that are written from them' if also else ''}; "
        f"{counted(len(report.left), 'ladder')} still flagged",
        signature=f"references:{report.references.hash[:12]}",
    )
    return INCOMPLETE if report.left else OK


def _print(report: RepairReport) -> None:
    rows = []
    for key in dict.fromkeys((each.task, each.attribute) for each in report.repairs):
        group = [each for each in report.repairs if (each.task, each.attribute) == key]
        tried = {(each.context_id, each.level) for each in group}
        taken = {(each.context_id, each.level) for each in group if not each.refused}
        left = sum(len(found) for (task, _, name), found in report.left.items() if (task, name) == key)
        rows.append((*key, len(tried), len(taken), len(tried - taken), left))
    if not rows:
        print("No rung is to be written again.")
        return
    print(table(rows, ("task", "attribute", "rungs at fault", "mended", "kept as they were", "findings left")))
    refused = [each.refused for each in report.repairs if each.refused]
    if refused:
        print("\nWhy new texts were not taken:")
        print("\n".join(reasons(refused)))
