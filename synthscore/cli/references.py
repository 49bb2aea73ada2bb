"""`synthscore references`: look at ladders, check them, compare them."""

from __future__ import annotations

import argparse
import textwrap
from collections import Counter

from ..ladders.compare import diff, verify
from ..ladders.references import References
from ..types import Ladder
from . import references_check, references_repair
from .common import ERROR, OK, Commands, add_command, add_messages, counted, note, table
from .references_check import chosen_ladders

TEXT = """
Examples:
  $ synthscore references list ladders/
  $ synthscore references show ladders/ news-7 --attribute coherence
  $ synthscore references check ladders/ --model nano
  $ synthscore references repair ladders/ --model nano

Looks at ladders: list counts them, show prints one to read, check looks for what is wrong with them,
repair has the rungs at fault written again, verify compares them with their hashes, diff compares two
folders, card prints the dataset card. Each has a --help of its own.
"""

LIST = """
Example:
  $ synthscore references list ladders/

Prints a table: how many ladders and rungs there are for each task and attribute, how many rungs failed,
and who wrote them.
"""

SHOW = """
Examples:
  $ synthscore references show ladders/ news-7
  $ synthscore references show ladders/ news-7 --attribute coherence

Prints the ladders of one context to read, the worst rung first. A failed rung is shown with its reason.
"""

VERIFY = """
Example:
  $ synthscore references verify ladders/

Compares every text with its hash, the files with the manifest, and every ladder with the rules for
ladders. Prints the problems, one a line; the exit code is then 1.
"""

DIFF = """
Example:
  $ synthscore references diff ladders/ ladders-2/

Prints how the ladders of B differ from those of A. The exit code is 0 whether they do or not.
"""

CARD = """
Example:
  $ synthscore references card ladders/ > README.md

Prints the dataset card: what the ladders are, how they were made, how to read them.
"""


def add(commands: Commands) -> None:
    parser = add_command(
        commands,
        "references",
        run_list,
        "references list|show|check|repair|verify|diff|card ...",
        "look at ladders, check them",
        TEXT,
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)

    add_command(actions, "list", run_list, "references list REFERENCES", "a table of the ladders", LIST)
    show = add_command(
        actions, "show", run_show, "references show REFERENCES CONTEXT_ID", "print ladders to read", SHOW
    )
    references_check.add(actions)
    references_repair.add(actions)
    check = add_command(
        actions, "verify", run_verify, "references verify REFERENCES", "compare ladders with their hashes", VERIFY
    )
    difference = add_command(actions, "diff", run_diff, "references diff A B", "compare two sets of ladders", DIFF)
    add_command(actions, "card", run_card, "references card REFERENCES", "print the dataset card", CARD)
    for name, action in actions.choices.items():
        if name not in ("diff", "repair", "verify"):
            action.add_argument("references", metavar="REFERENCES", help="references folder, or id of a hub dataset")
            action.add_argument("--revision", metavar="R", help="commit, tag or branch of a hub dataset")
    for action in (check, actions.choices["repair"]):
        action.add_argument("references", metavar="REFERENCES", help="references folder")
    difference.add_argument("a", metavar="A", help="references folder, or id of a hub dataset")
    difference.add_argument("b", metavar="B", help="another")

    show.add_argument("context_id", metavar="CONTEXT_ID", help="whose ladders; `references list --contexts` names them")
    show.add_argument("--history", action="store_true", help="also what `references repair` replaced or did not take")
    actions.choices["list"].add_argument("--contexts", action="store_true", help="name the contexts too")
    for action in (show, actions.choices["check"], actions.choices["repair"]):
        action.add_argument("-a", "--attribute", metavar="A", help="only this one (default: all)")
        action.add_argument(
            "--task", metavar="T", help="only this one; a folder with a task.toml for a task of your own"
        )
    for action in actions.choices.values():
        add_messages(action)


def run_list(args: argparse.Namespace) -> int:
    references = References.load(args.references, revision=args.revision)
    groups: dict[tuple[str, str], list[Ladder]] = {}
    for ladder in references:
        groups.setdefault((ladder.task, ladder.attribute), []).append(ladder)
    rows = []
    for (task, attribute), ladders in groups.items():
        rungs = [rung for ladder in ladders for rung in ladder.rungs]
        sizes = sorted({ladder.n_rungs for ladder in ladders})
        writers = Counter(str(rung.provenance.get("writer", "unknown")) for rung in rungs)
        rows.append(
            (
                task,
                attribute,
                len(ladders),
                "/".join(map(str, sizes)),
                sum(rung.status == "failed" for rung in rungs),
                ", ".join(writers),
            )
        )
    print(table(rows, ("task", "attribute", "ladders", "rungs each", "failed rungs", "written by")))
    if args.contexts:
        for task in references.tasks:
            ids = dict.fromkeys(ladder.context_id for ladder in references if ladder.task == task)
            print(f"\n{task}: {', '.join(ids)}")
    note(args, counted(len(references), "ladder"), signature=f"references:{references.hash[:12]}")
    return OK


def run_show(args: argparse.Namespace) -> int:
    chosen = chosen_ladders(args, args.context_id)
    for number, ladder in enumerate(chosen):
        print("\n" * bool(number) + f"{ladder.task} / {ladder.context_id} / {ladder.attribute}")
        if number == 0 and ladder.context:
            print(_indented(ladder.context.text, "   "))
        for rung in ladder.rungs:
            best = " (worst)" if rung.level == 1 else " (best)" if rung.level == ladder.n_rungs else ""
            print(f"\n  {rung.level}{best}" + (f" failed: {rung.reason}" if rung.status == "failed" else ""))
            if rung.text:
                print(_indented(rung.text, "     "))
            for entry in rung.provenance.get("history", ()) if args.history else ():
                print("\n" + _indented(f"{entry['what']} {entry['at']}: {entry['why']}", "     "))
                print(_indented(entry["text"] or f"(failed: {entry['reason']})", "       "))
    return OK


def run_verify(args: argparse.Namespace) -> int:
    problems = verify(args.references)
    for problem in problems:
        print(problem)
    note(args, f"{args.references}: {counted(len(problems), 'problem')}")
    return ERROR if problems else OK


def run_diff(args: argparse.Namespace) -> int:
    changes = diff(References.load(args.a), References.load(args.b))
    for change in changes:
        print(change)
    note(args, counted(len(changes), "difference"))
    return OK


def run_card(args: argparse.Namespace) -> int:
    print(References.load(args.references, revision=args.revision).card())
    return OK


def _indented(text: str, indent: str) -> str:
    """Wrapped at 100 columns; the text's own line breaks stay."""
    lines = text.splitlines() or [""]
    return "\n".join(
        textwrap.fill(line, 100, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
        for line in lines
    )
