"""`synthscore report`: results -> one page to look at."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from .messages import INCOMPLETE, OK, Messages, UsageError, counted, reasons
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
    title: str | None = None,
    messages: Messages = Messages(),
) -> int:
    """Results -> one HTML page to look at.

    For example:
      $ synthscore report run/
      $ synthscore report old/ new/ -o changes.html
      $ synthscore report scores.jsonl --targets targets.jsonl --references ladders/ -o report.html

    Writes one HTML page with what is in a folder of results, or in the files named: how scores are distributed
    and what a threshold keeps, one ladder with its texts to read, verdicts by rung, position bias, label mass,
    the effect of length, what failed and why, agreement with people, the signature. What is not there is
    named. Files are known by their columns: rows of `synthscore score` (with --verdicts for verdicts by rung,
    with --both-orders for position bias), `filter`, `rank` and `evaluate`, texts, people's ratings, ladders.
    The page opens without a network, holds no script, and can be printed.
    The exit code is 3 where something was left out while reading; the page says what.

    Args:
        source: a folder of results, or a file of scores (- for JSONL on stdin)
        other: a second run: the page shows both side by side, and what changed
        output: - for stdout (default: report.html, in the folder or, of a file or of two runs, where you are)
        targets: the texts, to read and to count words of
        references: the ladders, folder or hub id (default: those in the folder)
        human: people's ratings (default: those in the folder)
        min_score: a threshold to draw and to count by, in rungs
        context: whose ladder is shown (default: one with many texts, all of them scored)
        title: of the page (default: the name of the folder or file)
    """
    from ..io.write import write_whole
    from ..report import page, read_run, side_by_side

    if output not in (None, "-") and not output.endswith(".html"):
        raise UsageError(f"--output is {output!r}, expected a page: a name that ends in .html, or - for stdout")
    read = partial(read_run, targets=targets, references=references, human=human)
    found = read(source) if other is None else side_by_side(read(source), read(other))
    html = page(found, title=title, min_score=min_score, context_id=context)
    data = html.encode("utf-8", "backslashreplace")  # an id may hold half a surrogate pair
    folder = Path(source) if other is None and Path(source).is_dir() else Path()
    path = output or folder / "report.html"
    write_whole(path, data)
    messages.note(f"{path}: {len(data) / 1000:.0f} kB, from {counted(len(found.files), 'file')}")
    if found.left_out:
        messages.note("left out while reading:", *reasons(found.left_out))
    return INCOMPLETE if found.left_out else OK
