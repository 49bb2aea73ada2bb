"""Damage to a story: to its feelings, its end, its pace and its language."""

from __future__ import annotations

import re
from collections.abc import Sequence

from numpy.random import Generator

from ..reading import bare, core, like, plain, sentences
from ..words import word_list, word_map, word_set
from .base import Material, NoPlaceError, change_one, edit, exchange_one, join, mend_articles, pick, require, stock

_CLAUSES = (
    re.compile(r"(?<=\w)\s?,\s[^,.;:!?\"`]{8,90}\s?,(?=\s[a-z])"),
    re.compile(
        r"\s?,\s(?:who|which|where|while|as|when|although|though|because|with|like|for)\s[^,.;!?\"`]+?(?=\s?[.!?])"
    ),
    re.compile(r"\s\([^()]*\)"),
    re.compile(
        r"(?<!\bso)(?<!long|soon|such|same|just|that|even|only)(?<!and|not|but|far|the)(?:\s?,)?"
        r"\s(?:as|when|while|because|until|before|after|where)\s[^,.;!?\"`]{10,90}?(?=\s?[.!?])"
    ),
)


@edit
def flattened_emotion(text: str, rng: Generator, material: Material) -> str:
    return exchange_one(text, rng, word_map("feelings"), core)


@edit
def spoiled_ending(text: str, rng: Generator, material: Material) -> str:
    """The end is told at the start, and again (or no more) at the end."""
    parts, spoilers = list(sentences(text)), word_list("spoilers")
    openings = tuple(like(spoiler.split("{")[0], text).strip() for spoiler in spoilers)
    require(len(parts) > 2 and not text.startswith(openings))
    last = parts[-1] if rng.random() < 0.5 else parts.pop()
    return join([like(pick(rng, spoilers).format(last), text), *parts])


@edit
def predictable_ending(text: str, rng: Generator, material: Material) -> str:
    parts = sentences(text)
    shown = [like(ending, text) for ending in word_list("stock_endings")]
    require(len(parts) > 1 and not any(part in shown for part in parts))
    return join([*(parts[:-1] if rng.random() < 0.7 else parts), pick(rng, shown)])


@edit
def dull_sentence(text: str, rng: Generator, material: Material) -> str:
    return stock(text, word_list("dull_sentences"), rng, 0.85)


@edit
def plain_words(text: str, rng: Generator, material: Material) -> str:
    """One adjective or adverb less."""

    def fits(words: Sequence[str], i: int) -> bool:
        if not 0 < i < len(words) - 1:
            return False
        word, before, after = words[i], words[i - 1], bare(words[i + 1])
        ornament = word in word_set("ornaments") or (word.endswith("ly") and len(word) > 5 and plain(word))
        leads = plain(after) and after not in word_set("stopwords")
        bound = before in word_set("bound") or (before, word) == ("a", "little")
        return ornament and leads and not bound

    def change(words: list[str], i: int) -> None:
        del words[i]
        mend_articles(words, i)

    return change_one(text, rng, fits, change)


@edit
def dropped_clause(text: str, rng: Generator, material: Material) -> str:
    found = [match.span() for clause in _CLAUSES for match in clause.finditer(text)]
    start, end = pick(rng, found)
    require(text[:start] + text[end:])
    return text[:start] + text[end:]


@edit
def other_story(text: str, rng: Generator, material: Material) -> str:
    """A passage of another text, of about the same length."""
    n_words = len(text.split())
    for _ in range(3):
        parts = sentences(pick(rng, material.foreign))
        start, size, made = int(rng.integers(max(1, len(parts) // 2))), 0, []
        for part in parts[start:]:
            if size and abs(size + len(part.split()) - n_words) > abs(size - n_words):
                break
            made.append(part)
            size += len(part.split())
        passage = like(join(made), text)
        if abs(size - n_words) < 0.35 * n_words and passage != text:
            return passage
    raise NoPlaceError
