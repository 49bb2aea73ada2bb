"""Numbers, reasons and tables as lines for people."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

from ..errors import Reasons


def visible(text: str) -> str:
    """Control characters as their escapes, line breaks and tabs aside: no text changes what a terminal shows."""
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", lambda match: repr(match[0])[1:-1], text)


def counted(n: int, noun: str, plural: str = "") -> str:
    """1 rung, 2 rungs, 12 000 rungs."""
    return f"{spaced(n)} " + (noun if n == 1 else plural or f"{noun}s")


def spaced(n: int) -> str:
    return f"{n:,}".replace(",", " ")


def reasons(texts: Iterable[str], most: int = 5) -> list[str]:
    """Lines of reasons, the most frequent first; those alike but for names and numbers are one, shown by its first."""
    found = Reasons()
    found.add(*texts)
    return found.lines(most)


def table(rows: Iterable[Sequence[object]], headers: Sequence[str], width: int = 100) -> str:
    """Columns of text, numbers to the right; the last column is cut to what is left of the width."""
    cells = [list(headers)] + [[_cell(value) for value in row] for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(headers))]
    right = [
        len(cells) > 1 and all(re.fullmatch(r"[-+]?[\d. ]*\d%?|-|", row[column]) for row in cells[1:])
        for column in range(len(headers))
    ]
    last = len(headers) - 1
    widths[last] = min(widths[last], max(width - sum(widths[:last]) - 2 * last, 20))
    return "\n".join(
        "  ".join(
            (clip(text, size).rjust if right[column] else clip(text, size).ljust)(size)
            for column, (text, size) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    )


def clip(text: str, size: int) -> str:
    """The text on one line, cut at `size` characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= size else flat[: max(size - 3, 0)].rstrip() + "..."


def _cell(value: object) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    return f"{value:.2f}" if isinstance(value, float) else str(value)
