"""`synthscore references`: bring ladders in, look at them, check them."""

from __future__ import annotations

import textwrap

from cyclopts import App

from .messages import OK, Messages, counted, table, visible
from .options import OneTask, OnlyAttributes, Revision, Source
from .panels import ARGUMENTS, OPTIONS
from .references_check import check
from .references_import import import_

HELP = """
Bring your own ladders, look at ladders, check them.

For example:
  $ synthscore references import mine.jsonl --task summarization --attribute coherence -o ladders/
  $ synthscore references list ladders/
  $ synthscore references show ladders/ news-7 --attribute coherence
  $ synthscore references check ladders/ --model nano
"""

references = App(name="references", help=HELP, help_epilogue="", group_arguments=ARGUMENTS, group_parameters=OPTIONS)
references.command(import_, name="import", help_epilogue="")
references.command(check, help_epilogue="")


@references.command(name="list")
def list_(
    source: Source, /, *, revision: Revision = None, contexts: bool = False, messages: Messages = Messages()
) -> int:
    """A table of the ladders.

    For example:
      $ synthscore references list ladders/

    Prints how many ladders and rungs there are for each task and attribute, how many rungs failed, and who wrote
    them.

    Args:
        contexts: name the contexts too
    """
    from ..ladders.references import References

    found = References.load(source, revision=revision)
    rows = []
    named = [(task, attribute) for task, attributes in found.attributes_by_task.items() for attribute in attributes]
    for task, attribute in named:
        ladders = found.filter(task=task, attribute=attribute)
        sizes = "/".join(map(str, ladders.lengths))
        rungs = [rung for ladder in ladders for rung in ladder.rungs]
        failed = sum(rung.status == "failed" for rung in rungs)
        writers = dict.fromkeys(str(rung.provenance.get("writer", "unknown")) for rung in rungs)
        rows.append((task, attribute, len(ladders), sizes, failed, ", ".join(writers)))
    print(table(rows, ("task", "attribute", "ladders", "rungs each", "failed rungs", "written by")))
    for task in found.tasks if contexts else ():
        print(f"\n{task}: {', '.join(found.filter(task=task).context_ids)}")
    messages.note(counted(len(found), "ladder"), signature=f"references:{found.hash[:12]}")
    return OK


@references.command
def show(
    source: Source,
    context_id: str,
    /,
    *,
    revision: Revision = None,
    history: bool = False,
    attribute: OnlyAttributes = None,
    task: OneTask = None,
    messages: Messages = Messages(),
) -> int:
    """Print ladders to read.

    For example:
      $ synthscore references show ladders/ news-7
      $ synthscore references show ladders/ news-7 --attribute coherence

    Prints the ladders of one context, the worst rung first. A failed rung is shown with its reason.

    Args:
        context_id: whose ladders; `references list --contexts` names them
        history: also what `generate --findings` replaced or did not take
    """
    from ..ladders.references import References

    chosen = References.load(source, revision=revision).select(task=task, attribute=attribute, context_id=context_id)
    for number, ladder in enumerate(chosen):
        if number:
            print()
        print(f"{ladder.task} / {ladder.context_id} / {ladder.attribute}")
        if number == 0 and ladder.context:
            print(_indented(ladder.context.text, "   "))
        for rung in ladder.rungs:
            end = {1: " (worst)", ladder.n_rungs: " (best)"}.get(rung.level, "")
            failed = f" failed: {rung.reason}" if rung.status == "failed" else ""
            print(f"\n  {rung.level}{end}{failed}")
            if rung.text:
                print(_indented(rung.text, "     "))
            for entry in rung.provenance.get("history", ()) if history else ():
                print("\n" + _indented(f"{entry['what']}: {entry['why']}", "     "))
                print(_indented(entry["text"] or f"(failed: {entry['reason']})", "       "))
    return OK


def _indented(text: str, indent: str) -> str:
    """Wrapped at 100 columns; the text's own line breaks stay."""
    return "\n".join(
        textwrap.fill(visible(line), 100, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
        for line in text.splitlines() or [""]
    )
