"""The parts that a page is made of, and numbers as words. Knows no runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from markupsafe import Markup

T = TypeVar("T")

CARDS = 24  # of a section
ROWS = 20  # of a table of texts


@dataclass(frozen=True, slots=True)
class Table:
    """words : leading columns that are words; the others are numbers. folded : behind its caption"""

    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    words: int = 1
    folded: bool = False


@dataclass(frozen=True, slots=True)
class Card:
    """A figure, with what it shows and the numbers behind it."""

    title: str
    about: str
    figure: Markup
    notes: Sequence[str] = ()
    table: Table | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """A rung, or a text that stands between rungs, at `place`. figure : its verdicts"""

    name: str
    place: str
    text: str
    is_rung: bool
    note: str = ""
    figure: Markup | None = None


@dataclass(frozen=True, slots=True)
class View:
    """A ladder to read: its rungs and the texts between them, best first."""

    title: str
    about: str
    figure: Markup
    context: str
    steps: Sequence[Step]
    more: str = ""


@dataclass(slots=True)
class Section:
    """legend : classes of colours, and what they stand for. code : a heading, and lines under it"""

    id: str
    title: str
    intro: list[str]
    legend: Sequence[tuple[str, str]] = ()
    cards: list[Card] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    views: list[View] = field(default_factory=list)
    code: list[tuple[str, Sequence[str]]] = field(default_factory=list)

    def add_cards(self, items: Sequence[T], card: Callable[[T], Card], noun: str = "group") -> Section:
        """A card each, up to CARDS of them."""
        self.cards += map(card, items[:CARDS])
        if more := cut(noun, CARDS, len(items)):
            self.intro.append(f"Shown: {more}.")
        return self


def spaced(n: int) -> str:
    return f"{n:,}".replace(",", "\N{NO-BREAK SPACE}")


def counted(n: int, noun: str) -> str:
    return f"{spaced(n)} {noun}{'' if n == 1 else 's'}"


def cut(noun: str, shown: int, n: int, which: str = "first") -> str:
    """How a list was cut: "the first 20 of 1 203 texts"; "" where it was not."""
    return "" if n <= shown else f"the {which} {spaced(shown)} of {counted(n, noun)}"


def clip(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def clip_middle(text: str, most: int) -> str:
    """As `clip`, with both ends of the text: names often differ in the last letters."""
    return text if len(text) <= most else f"{text[: most // 2]}…{text[-(most - 1 - most // 2) :]}"


def number(value: float | None, digits: int = 2) -> str:
    return "–" if value is None or math.isnan(value) else f"{value:.{digits}f}".replace("-", "−")


def points(value: float) -> str:
    """Percentage points, with their sign."""
    return f"{value:+.1f}".replace("-", "−")


def percent(part: float, whole: float = 1.0) -> str:
    return "–" if not whole or math.isnan(part) else f"{100 * part / whole:.0f} %"


def span(values: Sequence[float], show: Callable[[float], str], words: str = "{} to {}") -> str:
    """One value, or the least and the greatest."""
    least, most = show(min(values)), show(max(values))
    return least if least == most else words.format(least, most)
