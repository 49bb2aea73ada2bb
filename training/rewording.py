"""Edits that keep the meaning and the quality of a text: what no verdict should turn on. English.

Each makes ONE edit at random, or finds no place for it and returns None. The words stand in rewording.toml.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from numpy.random import Generator

from synthscore.degrade.damage import DamagedText
from synthscore.degrade.edits import Edit, Material, pick, put
from synthscore.degrade.reading import both_ways, word_list
from synthscore.resources import read_toml

_WORDS = read_toml(Path(__file__).with_suffix(".toml"))
_CONTRACTIONS = _WORDS["contractions"]
_NUMBERS = {word: str(number) for number, word in enumerate(word_list("number_words"), start=2)}


def preserve_path(text: str, rng: Generator, n: int = 2) -> Iterator[DamagedText]:
    """Up to n edits of different kinds that keep meaning and quality, each on top of the one before; severity 0."""
    names = list(EDITS)
    for index in rng.permutation(len(names)):
        if n <= 0:
            return
        made = EDITS[names[index]](text, rng, Material())
        if made is not None and made != text:
            text, n = made, n - 1
            yield DamagedText(text, names[index], 0.0)


def _sub(pattern: str, new: str | Callable[[re.Match[str]], str], flags: int = 0) -> Edit:
    """An edit that replaces one match, at random."""
    compiled = re.compile(pattern, flags)

    def edit(text: str, rng: Generator, material: Material) -> str | None:
        found = list(compiled.finditer(text))
        if not found:
            return None
        match = pick(rng, found)
        made = new(match) if callable(new) else match.expand(new)
        return text[: match.start()] + made + text[match.end() :]

    return edit


def _any_of(*edits: Edit) -> Edit:
    def edit(text: str, rng: Generator, material: Material) -> str | None:
        for i in rng.permutation(len(edits)):
            made = edits[int(i)](text, rng, material)
            if made is not None and made != text:
                return made
        return None

    return edit


def _word_table(words: Mapping[str, str]) -> Edit:
    """An edit that exchanges one word or phrase by the table. Names, and parts of words, are left alone."""
    by_first: dict[str, list[str]] = {}
    for phrase in sorted(words, key=lambda phrase: (-len(phrase), phrase)):
        by_first.setdefault(phrase.split()[0], []).append(phrase)
    token = re.compile(r"[\w'-]+")

    def edit(text: str, rng: Generator, material: Material) -> str | None:
        found: list[tuple[int, str]] = []
        low = text.lower()
        for match in token.finditer(low):
            for phrase in by_first.get(match.group(0), ()):
                start, end = match.start(), match.start() + len(phrase)
                if not low.startswith(phrase, start) or re.match(r"[\w'-]", low[end : end + 1]):
                    continue
                before = text[:start].rstrip("\"'`( ")
                if text[start].islower() or phrase.startswith("i ") or before[-1:] in (".", "!", "?", ""):
                    found.append((start, phrase))
                break
        if not found:
            return None
        start, phrase = pick(rng, found)
        new = words[phrase]
        new = new[:1].upper() + new[1:] if text[start].isupper() else new
        if text == low:
            new = new.lower()
        head = text[:start].split(" ")
        if len(head) > 1 and head[-1] == "" and head[-2].lower() in ("a", "an"):
            head[-2] = put(head[-2], "an" if new[:1].lower() in tuple("aeio") else "a")
        return " ".join(head) + new + text[start + len(phrase) :]

    return edit


_SHORT = {long.lower(): short for long, short in _CONTRACTIONS.items()}
_AFTER_HAVE = r"(?= (?:been|got|seen|heard|never|always|\w+ed) )"  # "I've a house" would be another register
_CONTRACT = _sub(
    r"\b(" + "|".join(long + (_AFTER_HAVE if long.endswith("have") else "") for long in _SHORT) + r")(?= [a-z])",
    lambda match: _as_in(match.group(1), _SHORT[match.group(1).lower()]),
    re.IGNORECASE,
)


def _capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]


def _as_in(old: str, new: str) -> str:
    return new[:1].upper() + new[1:] if old[:1].isupper() else new[:1].lower() + new[1:]


_LONG = {short: long for long, short in _CONTRACTIONS.items() if short.endswith(("n't", "'m", "'ve", "'re", "'ll"))}
_EXPAND = _sub(r"(?<![\w'])(" + "|".join(map(re.escape, _LONG)) + r")(?= [a-z])", lambda match: _LONG[match.group(1)])
_DIGITS = {digits: word for word, digits in _NUMBERS.items()}
_WHEN = (
    r"(?:[Yy]esterday|[Tt]oday|[Ll]ast (?:week|month|year|night)|[Ii]n (?:"
    + "|".join(word_list("months"))
    + r")(?: \d{4})?|"
    r"[Ii]n (?:1[5-9]|20)\d\d|[Oo]n (?:"
    + "|".join(word_list("days"))
    + r")|[Aa]t (?:the same|that) time|[Dd]uring this time)"
)
_LINKED = r"[^.]*\b(?:that|which|who|whom|where|and|but|when|while|after|before|until|since|because|of)\b"
_MAY_BE_LOWERED = "The|He|She|It|They|We|A|An|This|These|His|Her|Their|Its|Our|My|Some|Many|Several|All"
_MOVED_BACK = _sub(
    rf"(?:^|(?<=[.!?] ))({_WHEN}), ((?!{_LINKED})[A-Za-z][^,;:.!?\"()]{{12,90}})\.(?= [A-Z\"]|$)",
    lambda m: f"{_capitalised(m.group(2))} {m.group(1)[:1].lower()}{m.group(1)[1:]}.",
)
_MOVED_FRONT = _sub(
    rf"(?:^|(?<=[.!?] ))({_MAY_BE_LOWERED}) ((?!{_LINKED})[^,;:.!?\"()]{{10,90}}) ({_WHEN})\.(?= [A-Z\"]|$)",
    lambda m: f"{_capitalised(m.group(3))}, {m.group(1)[:1].lower()}{m.group(1)[1:]} {m.group(2)}.",
)
_TWO_NAMES = r"([A-Z][a-z]+ [A-Z][a-z]+)"


EDITS: dict[str, Edit] = {
    "contraction": _CONTRACT,
    "expansion": _EXPAND,
    "synonym": _word_table(_WORDS["synonyms"]),
    "second-synonym": _word_table(_WORDS["synonyms"]),
    "spelling": _word_table(both_ways(_WORDS["spellings"])),
    "number-form": _any_of(
        _sub(
            r"(?<![\w.,$£€:/-])("
            + "|".join(_DIGITS)
            + r")(?= [a-z]{3,})(?! (?:percent|per|million|billion|degrees|am|pm))",
            lambda m: _DIGITS[m.group(1)],
        ),
        _sub(
            r"(?<=[a-z] )(" + "|".join(_NUMBERS) + r")(?= [a-z]{3,}s\b)",
            lambda m: _NUMBERS[m.group(1)],
        ),
    ),
    "speaking-verb": _any_of(
        _sub(r"\bsaid that\b", "stated that"),
        _sub(
            r"(?<=[a-z] )said(?= (?:he|she|it|they|there|the \w+) (?:was|were|had|would|could|is|are|will)\b)",
            "stated that",
        ),
        _sub(r"\b(?:stated|noted) that\b", "said that"),
    ),
    "optional-that": _any_of(
        _sub(
            r"\b(said|says|think|thought|believe|believed|hope|know|knew) that (?=(?:he|she|it|they|we|I|you)\b)",
            r"\1 ",
        ),
        _sub(
            r"\b(said|says|thought|believe|believed|knew) (?=(?:he|she|they|we) (?:was|were|had|would|could|is|are)\b)",
            r"\1 that ",
        ),
    ),
    "moved-adverbial": _any_of(_MOVED_BACK, _MOVED_FRONT),
    "which-that": _sub(
        r"\b(the (?!fact|idea|belief|view|claim|day|time|way)[a-z]{4,}) that (?=(?:is|was|are|were|has|had|can)\b)",
        r"\1 which ",
    ),
    "list-order": _any_of(
        _sub(rf"(?<=[a-z] ){_TWO_NAMES} and {_TWO_NAMES}(?= [a-z]|[.,;]|$)", r"\2 and \1"),
        _sub(r"\bboth ([a-z]{4,}) and ([a-z]{4,})\b", r"both \2 and \1"),
    ),
    "punctuation": _any_of(
        _sub(r"(\w+, \w+), (and|or) (?=\w)", r"\1 \2 "),
        _sub(r"(, \w+, \w+) (and|or) (?=\w+[.])", r"\1, \2 "),
        _sub(r"((?:^|[.!?] )In (?:1[5-9]|20)\d\d), (?=[a-zA-Z])", r"\1 "),
        _sub(r"((?:^|[.!?] )In (?:1[5-9]|20)\d\d) (?=(?:the|he|she|it|they)\b)", r"\1, "),
        lambda text, rng, material: text.replace("—", " - ") if "—" in text else None,
        _sub(r"(?<=\d)%", " percent"),
        _sub(r"(?<=\d) per ?cent\b", "%"),
        _sub(r"\bU\.S\.(?= \w)", "US"),
        _sub(r"(?<=\w) & (?=\w)", " and "),
        _sub(r"!(?=\s|$)", "."),
        _sub(r"(?<=[a-z]); (?=(?:he|she|it|they|the|this|there)\b)", lambda m: ", and "),
    ),
}
