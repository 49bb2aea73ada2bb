"""Relations (relations.jsonl) -> groups of statements under reports, true and turned round.

A relation is a situation in several wordings, with slots for names, numbers and things: {"kind", "slots": {name: a type
of FILLINGS, or choices}, "swap": the two slots that turn it round, "context": wordings as a report has them, "says":
others, which follow from each of these}. One of kind "polarity" has no "swap", but its opposite: "context_not" and
"says_not". True and false statements are drawn alike, and half of the reports are turned round: what stands in a
statement alone says nothing about it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.random import Generator

from .groups import Group

FILE = Path(__file__).with_name("relations.jsonl")
FALSE, HALF_FALSE = 0.75, 0.5  # severities: as of written statements; of two statements of which one is false
MOST = 4  # relations that a report tells; two of them are asked about
STATEMENTS = 6  # of a relation, if it has so many wordings
LOOKED_UP = 0.4  # of the relations are stated in the very words of the report, too, true and turned round
SAME_WORDS = 0.6  # of the false statements are the true one before turned round
TWO = 0.2  # of the texts say two things, where the report tells two
INVENTED = 0.1  # of the false statements get another name or number than the relation's
AMID = 0.3  # of the reports stand between paragraphs of a document
TRIES = 100  # to fill a slot with what is not used
MOVED = "\x01"  # stands before each word of a slot that turning round moves, until the text is finished

WORDS = {
    name: words.split()
    for name, words in {
        "first": """
            Adela Bruno Callum Dora Edith Farid Greta Hugo Imani Jonas Katrin Liam Mona Nils Odile Priya Quentin
            Rosa Stefan Tilda Umar Vera Wendell Ximena Yusuf Zofia Anders Beatrix Conrad Dinah Emil Freya Gordon
            Hester Ivo Judith Kofi Leda Marcus Noor Oscar Paula Rafael Signe Tobias Ulla Victor Wilma Xavier Yvonne
            Zack Amara Basil Celia Dmitri Elsa Felix Ginger Harold Inez
            """,
        "last": """
            Abbot Barros Castel Dekker Eastman Falk Garrick Holm Ibsen Jarvis Kessler Lindqvist Marlow Norwood
            Okafor Pryce Quill Rennie Sandoval Thorne Ulrich Vance Whitlock Yates Zeller Ashby Bellamy Crane Duarte
            Ellery Fenwick Greer Hadley Irwin Jessop Keane Lowry Mercer Nakamura Osborne Pascal Ridley Sorensen
            Tully Underhill Vickers Wexler Yorke Zamora Arden Birch Cotter Drummond Esposito Forsyth Gantry Hale
            Iqbal Joyner Kimura Lambert Moss Novak Orwin Petrov Rask Stroud Talbot Usher Vidal Webb Yoder
            """,
        "towns": """
            Aldmoor Brinwick Castleford Dunholm Elmsby Farrow Granton Helmsdale Ingleby Jorvale Kelwick Lowmere
            Marston Northolt Oakham Penrith Quarley Redhill Stanmore Thurso Upwell Varnley Westbrook Yarrow Zeldon
            Ashcombe Bexhill Corley Dovedale Easton Fleet Harwick
            """,
        "countries": """
            Norway Chile Kenya Portugal Vietnam Canada Morocco Poland Peru Jordan Ireland Greece Malaysia Ghana
            Austria Finland Mexico Nepal Turkey Uruguay Iceland Belgium Tunisia Hungary
            """,
        "companies": """
            Altrix Borealis Corvane Deltora Emberline Fennick Glasson Harbinger Inverness Juniper Kestrel Lumen
            Meridian Northway Orbis Pinnacle Quarry Ridgeline Solway Tern Umbra Vantage Wrenfield Zenith
            """,
        "trades": "Foods Energy Motors Systems Shipping Holdings Textiles Labs",
        "bodies": "Trust Council Institute Society Federation Board Union Foundation Commission Association",
        "sides": "Rovers United Wanderers Hawks Bears Lions Rangers Athletic City Foxes",
        "months": "January February March April May June July August September October November December",
        "days": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
    }.items()
}


def _one(rng: Generator, choices: Sequence[str]) -> str:
    return choices[int(rng.integers(len(choices)))]


def _money(rng: Generator) -> str:
    amount, currency = int(rng.integers(2, 100)), _one(rng, "£$€")
    return f"{currency}{amount} million" if rng.random() < 0.3 else f"{currency}{amount * 10 ** rng.integers(1, 4):,}"


FILLINGS = {
    "person": lambda rng: f"{_one(rng, WORDS['first'])} {_one(rng, WORDS['last'])}",
    "surname": lambda rng: _one(rng, WORDS["last"]),
    "company": lambda rng: f"{_one(rng, WORDS['companies'])} {_one(rng, WORDS['trades'])}",
    "organisation": lambda rng: f"the {_one(rng, WORDS['towns'])} {_one(rng, WORDS['bodies'])}",
    "team": lambda rng: f"{_one(rng, WORDS['towns'])} {_one(rng, WORDS['sides'])}",
    "town": lambda rng: _one(rng, WORDS["towns"]),
    "country": lambda rng: _one(rng, WORDS["countries"]),
    "month": lambda rng: _one(rng, WORDS["months"]),
    "weekday": lambda rng: _one(rng, WORDS["days"]),
    "year": lambda rng: str(rng.integers(1880, 2024)),
    "number": lambda rng: str(rng.integers(2, 100)),
    "large": lambda rng: f"{rng.integers(1100, 90000):,}",
    "percent": lambda rng: f"{rng.integers(2, 96)} per cent",
    "money": _money,
}


@dataclass(frozen=True, slots=True)
class Text:
    """words of `marked` that are false are those with MOVED before them; of a true text, none"""

    marked: str
    is_true: bool

    @property
    def text(self) -> str:
        text = self.marked.replace(MOVED, "")
        return text[0].upper() + text[1:]

    @property
    def false_words(self) -> tuple[bool, ...] | None:
        """Of each word; None: not known."""
        found = tuple(not self.is_true and MOVED in word for word in self.marked.split())
        return found if self.is_true or any(found) else None


class Told:
    """A relation as a report tells it: with names and numbers, and the one way round or the other."""

    def __init__(self, relation: Mapping[str, Any], used: set[str], rng: Generator) -> None:
        self.relation, self.rng, self.values = relation, rng, dict[str, str]()
        for name, kind in relation["slots"].items():
            self.values[name] = self._filling(kind, used)
            used.add(self.values[name])
        self.turned = bool(rng.random() < 0.5)
        self.wording = int(rng.integers(self._n_wordings("context")))
        self.order = [("says", int(i)) for i in rng.permutation(self._n_wordings("says"))]
        if rng.random() < LOOKED_UP:
            self.order = [("context", self.wording)] * 2 + self.order

    def report(self) -> str:
        return Text(self._said("context", self.wording, self.turned, self.values), True).text

    def statements(self, n: int) -> list[Text]:
        """n of them, if there are so many wordings: true and false in turns."""
        found = []
        for k, wording in enumerate(self.order[:n]):
            if k % 2 == 0:
                found.append(Text(self._said(*wording, self.turned, self.values), True))
                continue
            same = self.order[k - 1] if self.rng.random() < SAME_WORDS else wording
            values = self._invented() if self.rng.random() < INVENTED else self.values
            found.append(Text(self._said(*same, not self.turned, values), False))
        return found

    def _n_wordings(self, kind: str) -> int:
        return min(len(self.relation[side]) for side in (kind, f"{kind}_not") if side in self.relation)

    def _said(self, kind: str, index: int, turned: bool, values: Mapping[str, str]) -> str:
        if "swap" not in self.relation:
            return str(self.relation[f"{kind}_not" if turned else kind][index].format(**values))
        a, b = self.relation["swap"]
        moved = {a: _marked(values[b if turned else a]), b: _marked(values[a if turned else b])}
        return str(self.relation[kind][index].format(**{**values, **moved}))

    def _invented(self) -> Mapping[str, str]:
        """The values, one of those that turning round moves another one."""
        if "swap" not in self.relation:
            return self.values
        name = _one(self.rng, self.relation["swap"])
        return self.values | {name: self._filling(self.relation["slots"][name], set(self.values.values()))}

    def _filling(self, kind: str | Sequence[str], used: set[str]) -> str:
        """What may stand in a slot of this type, or of these choices, and is not used; StopIteration: there is hardly
        anything left."""
        found = (FILLINGS[kind](self.rng) if isinstance(kind, str) else _one(self.rng, kind) for _ in range(TRIES))
        return next(value for value in found if value not in used)


def _marked(value: str) -> str:
    return " ".join(f"{MOVED}{word}" for word in value.split())


def of_file(file: Path = FILE) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def of_relations(
    every: Sequence[Mapping[str, Any]], documents: Iterator[Mapping[str, Any]], rng: Generator
) -> Iterator[Group]:
    """An endless stream of groups; some of the reports stand amid a document."""
    while True:
        used: set[str] = set()
        drawn = rng.choice(len(every), size=int(rng.integers(1, MOST + 1)), replace=False)
        try:
            told = [Told(every[int(i)], used, rng) for i in drawn]
        except StopIteration:  # eight weekdays, say
            continue
        report = " ".join(told[int(i)].report() for i in rng.permutation(len(told)))
        context = amid(report, next(documents)["text"], rng) if rng.random() < AMID else report
        texts: dict[str, tuple[float, str, tuple[bool, ...] | None]] = {}
        for one, other in zip(told[:2], [*told[1:], told[0]], strict=False):
            for said in one.statements(STATEMENTS):
                also = other.statements(2)[int(rng.integers(2))] if len(told) > 1 and rng.random() < TWO else None
                texts.setdefault(*_text(said, also))
        yield Group("summarization", "consistency", context, "", tuple(texts), *zip(*texts.values(), strict=True))


def _text(said: Text, also: Text | None) -> tuple[str, tuple[float, str, tuple[bool, ...] | None]]:
    """Of one statement or two: its words, and severity, kind and false words as a Group has them."""
    parts = [said] if also is None else [said, also]
    n_false = sum(not part.is_true for part in parts)
    severity = 0.0 if n_false == 0 else FALSE if n_false == len(parts) else HALF_FALSE
    marks = [part.false_words for part in parts]
    known = None if None in marks else tuple(mark for words in marks if words for mark in words)
    return " ".join(part.text for part in parts), (severity, "false" if n_false else "true", known)


def amid(report: str, document: str, rng: Generator) -> str:
    """The report behind a paragraph of the document, and before the next one."""
    paragraphs = [one for one in document.split("\n\n") if 30 <= len(one.split()) <= 90]
    if len(paragraphs) < 2:
        return report
    at = int(rng.integers(len(paragraphs) - 1))
    return " ".join((paragraphs[at], report, paragraphs[at + 1]))
