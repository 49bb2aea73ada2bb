"""How damage reads a text: its sentences, names and central words, and the look it has. English.

Works on raw text and on the look of benchmark systems' outputs ("it ca n't , he said ."), without a model.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any

from ..resources import read_toml, resource


@cache
def word_set(name: str) -> frozenset[str]:
    return frozenset(_tables()["sets"][name])


@cache
def word_list(name: str) -> tuple[str, ...]:
    """Words, or ready-made sentences, in an order that counts."""
    return tuple(_tables()["lists"][name])


@cache
def word_map(name: str) -> Mapping[str, str]:
    """A word -> what may replace it; in a table of both ways, each word of a pair may replace the other."""
    tables = _tables()
    words: Mapping[str, str] | None = tables["maps"].get(name)
    if words is not None:
        return words
    return both_ways(tables["both_ways"][name])


def both_ways(pairs: Mapping[str, str]) -> dict[str, str]:
    """Each word of a pair -> the other; the first mention of a word counts."""
    table: dict[str, str] = {}
    for left, right in pairs.items():
        table.setdefault(left, right)
        table.setdefault(right, left)
    return table


@cache
def _tables() -> dict[str, dict[str, Any]]:
    return read_toml(resource("data/degrade/words.toml"))


_SENTENCE_END = re.compile(r"(?:[.!?]+|\s[.!?]+)(?:\s?(?:''|[\"')\]]|-rrb-))*(?:\s+|$)")


@lru_cache(maxsize=4096)
def sentences(text: str) -> tuple[str, ...]:
    """The sentences of a text, without the space between them. A line break ends a sentence as well."""
    lower = text == text.lower()
    parts: list[str] = []
    for line in text.splitlines():
        start = 0
        for match in _SENTENCE_END.finditer(line):
            if match.end() >= len(line):
                break
            if _ends_here(line[start : match.end()], line[match.end() :], lower):
                parts.append(line[start : match.end()].strip())
                start = match.end()
        parts.append(line[start:].strip())
    return tuple(sentence for sentence in parts if sentence)


def _ends_here(before: str, after: str, lower: bool) -> bool:
    """Whether a mark like a full stop, at the end of `before`, ends a sentence. `lower`: the text has no capitals."""
    words = before.split()
    end = words[-1].rstrip("\"')]")
    if end in ("''", "", "-rrb-"):
        end = words[-2] if len(words) > 1 else ""
    spaced = end in (".", "!", "?", "...")  # tokenised text, in which abbreviations keep their full stop
    if end.endswith(".") and not spaced:
        last = end.lower().strip(".\"'([")
        if last in ("no", "nos") and after[:1].isdigit():
            return False
        if last in word_set("abbreviations") or (len(last) == 1 and last.isalpha() and last != "i"):
            return False
        if re.fullmatch(r"(?:[a-z]\.)+[a-z]", last):
            return after[:1].isupper() and after.split()[0].lower() in word_set("stopwords")
    first = after.lstrip("\"'`([")[:1]
    return first.isupper() or first.isdigit() or (lower and first.isalpha()) or (spaced and bool(first))


def core(word: str) -> str:
    return word.strip(".,;:!?\"'()[]`—-")


def bare(word: str) -> str:
    return core(word).lower()


def plain(word: str) -> bool:
    """A word of lower-case letters without any mark on it."""
    return word.isalpha() and word.islower()


def starts_sentence(words: Sequence[str], index: int) -> bool:
    if index == 0:
        return True
    before = words[index - 1]
    return before in ("``", '"') or before.rstrip("\"')]").endswith((".", "!", "?", ":"))


def word_pairs(text: str) -> Counter[tuple[str, str]]:
    words = ["", *text.split(), ""]
    return Counter(pairwise(words))


def like(sentence: str, text: str) -> str:
    """The sentence in the look of the text: lower-cased and spaced if the text is."""
    if text != text.lower():
        return sentence
    if re.search(r"\w [.,!?]( |$)", text):
        sentence = to_ptb(sentence)
    return sentence.lower()


@lru_cache(maxsize=4096)
def content_words(text: str) -> tuple[str, ...]:
    """The words that carry the content, lower-cased, in order."""
    words = map(bare, text.replace("'s", "").split())
    return tuple(word for word in words if len(word) > 2 and word not in word_set("stopwords"))


@lru_cache(maxsize=512)
def _counts(text: str) -> Counter[str]:
    return Counter(word[:6] for word in content_words(text))


def centrality(sentence: str, context: str) -> float:
    """How often the sentence's content words occur in the context, on average; short sentences are held back."""
    counts = _counts(context)
    words = content_words(sentence)
    return sum(min(counts[word[:6]], 8) for word in words) / (len(words) + 3)


@dataclass(frozen=True, slots=True)
class Name:
    """A run of capitalised words: words[start:end] of the text."""

    start: int
    end: int
    text: str
    kind: str  # month, day, people, place or other

    @property
    def words(self) -> set[str]:
        return set(self.text.lower().split())


@lru_cache(maxsize=1024)
def names(text: str, known: str = "") -> tuple[Name, ...]:
    """The names in a text. In a text without capitals, those of `known` that occur in it."""
    words = text.split()
    if text == text.lower():
        if known == known.lower():
            return ()
        return _lower_names(words, known)
    capital = []
    for i, word in enumerate(words):
        has_capital = word.lstrip("\"'`([")[:1].isupper()
        is_may = i > 0 and core(word) == "May"
        capital.append(has_capital and (bare(word) not in word_set("stopwords") or is_may))
    common = {word for word in words if word.islower()}
    inside = {bare(word) for i, word in enumerate(words) if capital[i] and not starts_sentence(words, i)}
    all_names = []
    i = 0
    while i < len(words):
        if not capital[i] or not bare(words[i]) or (words[i].isupper() and len(bare(words[i])) == 1):
            i += 1
            continue
        if starts_sentence(words, i) and i + 1 < len(words) and capital[i + 1] and _common(words[i], common):
            i += 1
        end = i + 1
        while end < len(words) and not re.search(r"[,;:!?\"')]$|'s$|\w{3,}\.$", words[end - 1]):
            if capital[end] and words[end][:1] not in "\"'`(":
                end += 1
            elif (
                (words[end] in word_set("name_joiners") or (words[end][:1].isupper() and words[end] != "I"))
                and end + 1 < len(words)
                and capital[end + 1]
            ):
                end += 2
            else:
                break
        if not starts_sentence(words, i) or end > i + 1 or bare(words[i]) in inside:
            all_names.append(Name(i, end, _name_text(words[i:end]), _name_kind(words, i, end)))
        i = end
    return tuple(name for name in all_names if name.text)


def _common(word: str, common: set[str]) -> bool:
    """Whether a word has its capital only from opening the sentence."""
    return bare(word) in common or bare(word).endswith("ly") or bare(word) in ("later", "today", "yesterday", "dear")


def _lower_names(words: list[str], known: str) -> tuple[Name, ...]:
    spelled = {name.text.lower(): name for name in names(known)}
    lower_names: list[Name] = []
    for i in range(len(words)):
        for size in (3, 2, 1):
            text = " ".join(words[i : i + size]).strip(".,;:!?\"'()")
            if len(words) >= i + size and text in spelled and (not lower_names or lower_names[-1].end <= i):
                lower_names.append(Name(i, i + size, text, spelled[text].kind))
                break
    return tuple(lower_names)


def _name_text(words: Sequence[str]) -> str:
    text = " ".join(words).strip(",;:!?\"'()[]`")
    text = text.removesuffix("'s")
    if re.search(r"\w{3,}\.$", text):
        return text[:-1]
    return text


def _name_kind(words: Sequence[str], start: int, end: int) -> str:
    word = _name_text(words[start:end])
    if word in word_list("months"):
        return "month"
    if word in word_list("days"):
        return "day"
    if end == start + 1 and re.search(r"(?:ese|ish|ian|ean|ican)s?$", word):
        return "people"
    if start and bare(words[start - 1]) in word_set("place_words"):
        return "place"
    return "other"


_PTB = tuple(
    (re.compile(pattern), new)
    for pattern, new in (
        (r'(^|[\s(\[])"(?=\S)', r"\1`` "),
        (r'"', " '' "),
        (r"\.\.\.+", " ... "),
        (r"([;!?%$&#])", r" \1 "),
        (r",(?!\d)|(?<!\d),", " , "),
        (r":(?!\d)", " : "),
        (r"\(", " -lrb- "),
        (r"\)", " -rrb- "),
        (r"—|--", " -- "),
        (r"(?i)\bcannot\b", "can not"),
        (r"(?i)n't\b", " n't"),
        (r"(?i)(?<=\w)'(s|re|ve|ll|d|m)\b", r" '\1"),
        (r"(?<=s)'(?=\s)", " '"),
    )
)
_PTB_PERIOD = re.compile(r"(?<![\s.])\.(?=\s*(?:''|-rrb-)?\s*$)")


def to_ptb(text: str) -> str:
    """Penn-Treebank spacing, as tokenised benchmark texts have it: `He ca n't , he said .`"""
    return "\n".join(map(_line_to_ptb, text.split("\n")))


def _line_to_ptb(line: str) -> str:
    made = []
    for part in sentences(line):
        for pattern, new in _PTB:
            part = pattern.sub(new, part)
        made.append(_PTB_PERIOD.sub(" .", part))
    return " ".join(" ".join(made).split())
