"""`synthscore report`: results -> one page to look at."""

from __future__ import annotations

from functools import partial
from itertools import chain
from pathlib import Path
from urllib.parse import quote

from .messages import Messages, UsageError, counted, exit_code, reasons
from .options import FileIn, LaddersIn, Output


def report(
    source: FileIn,
    other: str | None = None,
    /,
    *,
    output: Output | None = None,
    targets: str | None = None,
    references: LaddersIn = None,
    human: str | None = None,
    min_score: float | None = None,
    context: str | None = None,
    store: str | None = None,
    title: str | None = None,
    messages: Messages = Messages(),
) -> int:
    """Results -> one HTML page to look at.

    For example:
      $ synthscore report run/
      $ synthscore report old/ new/ -o changes.html
      $ synthscore report scores.jsonl --targets targets.jsonl --references ladders/ -o report.html

    Writes one HTML page with what is in a folder of results, or in the files named: which system is best, and
    whether that is sure; how scores are distributed and what a threshold keeps, one ladder with its texts to
    read, verdicts by rung, position bias, label mass, the effect of length, what failed and why, agreement with
    people, the signature. What is not there is named. In a folder beside it (report-rows/) stand all rows, by
    score, with their texts. Files are known by their columns: rows of `synthscore score` (with --verdicts for
    verdicts by rung, with --both-orders for position bias), `filter`, `rank` and `evaluate`, texts, people's
    ratings, ladders. The pages open without a network, hold no script, and can be printed.
    The exit code is 3 where something was left out while reading; the page says what.

    Args:
        source: a folder of results, or a file of scores (- for JSONL on stdin)
        other: a second run: the page shows both side by side, and what changed
        output: - for stdout, without the rows (default: report.html, in the folder or, of a file or of two runs, where
            you are)
        targets: the texts, to read and to count words of
        references: the ladders, folder or hub id (default: those in the folder)
        human: people's ratings (default: those in the folder)
        min_score: a threshold to draw and to count by, in rungs
        context: whose ladder is shown (default: one with many texts, all of them scored)
        store: answers, to show with each row what the judge was asked and what it answered; they are only read
        title: of the page (default: the name of the folder or file)
    """
    from ..io.write import write_whole
    from ..report import page, read_run, row_pages, rows_folder, side_by_side, write_pages

    if output not in (None, "-") and not output.endswith(".html"):
        raise UsageError(f"--output is {output!r}, expected a page: a name that ends in .html, or - for stdout")
    if output == "-" and store is not None:
        raise UsageError("--store is for the pages of rows, and --output - has none. Leave one of them out")
    folder = Path(source) if other is None and Path(source).is_dir() else Path()
    path = output or str(folder / "report.html")
    beside = None if path == "-" else rows_folder(path)
    read = partial(read_run, targets=targets, references=references, human=human)
    found = read(source) if other is None else side_by_side(read(source), read(other))
    rows = row_pages(found, title=title, report=f"../{quote(Path(path).name)}", store=store) if beside else iter(())
    first = next(rows, None)  # what is wrong with the store shows before anything is written
    address = f"{quote(beside.name)}/{first[0]}" if beside and first else ""
    html = page(found, title=title, min_score=min_score, context_id=context, rows=address)
    data = html.encode("utf-8", "backslashreplace")  # an id may hold half a surrogate pair
    write_whole(path, data)
    messages.note(f"{path}: {len(data) / 1000:.0f} kB, from {counted(len(found.files), 'file')}")
    if beside and first:
        n_bytes = write_pages(beside, chain([first], rows))
        messages.note(f"{beside}/: {n_bytes / 1000:.0f} kB, every row")
    if found.left_out:
        messages.note("left out while reading:", *reasons(found.left_out))
    return exit_code(not found.left_out)
