"""Numbers and names as a page writes them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

LONGEST = 4000  # characters of a text to read


def spaced(n: float) -> str:
    return f"{n:,.0f}".replace(",", "\N{NO-BREAK SPACE}")


def counted(n: int, noun: str) -> str:
    return f"{spaced(n)} {noun}{'' if n == 1 else 's'}"


def cut(noun: str, shown: int, n: int, which: str = "first") -> str:
    """How a list was cut: "the first 20 of 1 203 texts"; "" where it was not."""
    if n <= shown:
        return ""
    return f"the {which} {spaced(shown)} of {counted(n, noun)}"


def clip(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def clip_middle(text: str, most: int) -> str:
    """As `clip`, with both ends of the text: names often differ in the last letters."""
    if len(text) <= most:
        return text
    n_first = most // 2
    return f"{text[:n_first]}…{text[n_first + 1 - most :]}"


def whole(text: str) -> str:
    """A text to read; of a longer one, its beginning."""
    if len(text) <= LONGEST:
        return text
    return f"{text[:LONGEST]} … ({spaced(LONGEST)} of {spaced(len(text))} characters)"


def number(value: float | None) -> str:
    return "–" if value is None or math.isnan(value) else f"{value:.2f}".replace("-", "−")


def within(value: float, low: float, high: float) -> str:
    """A value with its interval, where there is one."""
    if math.isnan(low) or math.isnan(high):
        return number(value)
    return f"{number(value)} [{number(low)}, {number(high)}]"


def points(value: float) -> str:
    """Percentage points, with their sign."""
    return f"{value:+.1f}".replace("-", "−")


def percent(part: float, whole: float = 1.0) -> str:
    if not whole or math.isnan(part):
        return "–"
    return f"{100 * part / whole:.0f}\N{NO-BREAK SPACE}%"


def span(values: Sequence[float], show: Callable[[float], str], words: str = "{} to {}") -> str:
    """One value, or the least and the greatest."""
    least, most = show(min(values)), show(max(values))
    return least if least == most else words.format(least, most)
