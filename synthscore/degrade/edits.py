"""The material that edits draw on, their register, and the steps that they share; and the edits of wording. Edits of
claims are in `claims`, those of whole sentences and turns in `whole`.

An edit: text + rng + material -> a slightly worse text, or None where nothing fits. Which attributes it lowers, and by
how much, stands in data/degrade/damages.toml, under its name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TypeVar

from numpy.random import Generator

from ..types import IntArray
from .reading import bare, core, like, plain, sentences, starts_sentence, word_list, word_map, word_set


@dataclass(frozen=True, slots=True)
class Material:
    """What damage may draw on, besides the text itself."""

    context: str = ""  # source article, dialogue history (a turn a line), story idea, triples ("s | p | o", one a line)
    facts: str = ""
    foreign: tuple[str, ...] = ()  # texts of other contexts: foreign sentences, turns, names and values come from here


Edit = Callable[[str, Generator, Material], "str | None"]

EDITS: dict[str, Edit] = {}
"""Name -> edit: `dropped_word` is "dropped-word". It gives None where there is nothing that it could damage."""

T = TypeVar("T")


class NoPlaceError(Exception):
    """There is nothing here that the edit could damage."""


def edit(function: Callable[[str, Generator, Material], str]) -> Edit:
    """Put the function, which raises NoPlaceError where it finds no place, into the register."""

    @wraps(function)
    def made(text: str, rng: Generator, material: Material) -> str | None:
        try:
            return function(text, rng, material)
        except NoPlaceError:
            return None

    EDITS[function.__name__.replace("_", "-")] = made
    return made


def require(place: object) -> None:
    """raises : NoPlaceError"""
    if not place:
        raise NoPlaceError


def pick(rng: Generator, options: Sequence[T]) -> T:
    """raises : NoPlaceError for no options"""
    require(options)
    return options[int(rng.integers(len(options)))]


def about_as_long(rng: Generator, options: Sequence[str], n_words: int, tries: int = 3) -> str:
    """Of a few options drawn, the one whose number of words is nearest."""
    drawn = [pick(rng, options) for _ in range(tries)]
    return min(drawn, key=lambda option: abs(len(option.split()) - n_words))


def shuffled(rng: Generator, n: int, tries: int) -> IntArray:
    """An order of 0..n-1 in which no number follows the one before it; any, after so many tries."""
    order = rng.permutation(n)
    for _ in range(tries):
        if all(order[i + 1] != order[i] + 1 for i in range(n - 1)):
            break
        order = rng.permutation(n)
    return order


def join(parts: Sequence[str]) -> str:
    return " ".join(part for part in parts if part)


def put(word: str, new: str) -> str:
    """`new` in place of the word's letters; marks before and after, and a capital, are kept."""
    match = re.match(r"^(\W*)(.*?)(\W*)$", word, re.DOTALL)
    before, core, after = match.groups() if match else ("", word, "")
    if core[:1].isupper() and core != "I":
        new = new[:1].upper() + new[1:]
    return before + new + after


def mend_articles(words: list[str], index: int) -> None:
    """a / an before words[index], after that word has changed."""
    if 0 < index < len(words) and words[index - 1].lower() in ("a", "an"):
        vowel = words[index].lstrip("\"'`(")[:1].lower() in tuple("aeio")
        words[index - 1] = put(words[index - 1], "an" if vowel else "a")


def change_one(
    text: str,
    rng: Generator,
    fits: Callable[[list[str], int], object],
    change: Callable[[list[str], int], str],
) -> str:
    """The text with one word changed, of those that fit. change : gives what stands in its place, "" for nothing; it
    may mend the words around it"""
    words = text.split()
    index = pick(rng, [i for i in range(len(words)) if fits(words, i)])
    words[index] = change(words, index)
    return join(words)


def exchange_one(text: str, rng: Generator, table: Mapping[str, str], read: Callable[[str], str] = bare) -> str:
    """The text with one word exchanged by the table. read : a word as the table spells it"""

    def change(words: list[str], i: int) -> str:
        words[i] = put(words[i], table[read(words[i])])
        mend_articles(words, i)
        return words[i]

    return change_one(text, rng, lambda words, i: read(words[i]) in table, change)


def place(parts: Sequence[str], index: int, new: str, replace: bool) -> str:
    """The sentences with a new one in place of that at the index, or after it."""
    before = parts[:index]
    if not replace:
        before = parts[: index + 1]
    return join([*before, new, *parts[index + 1 :]])


def ready_made(name: str, text: str) -> list[str]:
    """The sentences of a list of words.toml, in the look of the text."""
    return [like(sentence, text) for sentence in word_list(name)]


def stock(text: str, name: str, rng: Generator, share: float) -> str:
    """A ready-made sentence of a list between the sentences, or (a share of the times) in place of one of them."""
    parts = sentences(text)
    shown = ready_made(name, text)
    free = [sentence for sentence in shown if sentence not in parts]
    index = pick(rng, [i for i, part in enumerate(parts) if part not in shown])
    require(free)
    if rng.random() < share:
        new = about_as_long(rng, free, len(parts[index].split()), 2)
        return place(parts, index, new, replace=True)
    return place(parts, index, pick(rng, free), replace=False)


# ------------------------------------------------------------------------------------------------- wording


@edit
def dropped_word(text: str, rng: Generator, material: Material) -> str:
    def fits(words: Sequence[str], i: int) -> bool:
        if not 0 < i < len(words) - 1:
            return False
        after_article = words[i - 1] in ("the", "a", "an")
        before_preposition = words[i + 1] in word_list("prepositions")
        noun = after_article and plain(words[i]) and before_preposition
        return words[i] in word_set("droppable") or noun

    return change_one(text, rng, fits, lambda words, i: "")


@edit
def doubled_word(text: str, rng: Generator, material: Material) -> str:
    def fits(words: list[str], i: int) -> bool:
        return words[i].isalpha() and words[i].lower() not in word_set("harmless")

    return change_one(text, rng, fits, lambda words, i: f"{words[i]} {words[i].lower()}")


def _phrases(words: Sequence[str], size: int) -> list[slice]:
    """All runs of so many words without a mark between them."""
    starts = range(len(words) - size + 1)
    return [slice(i, i + size) for i in starts if all(word.isalnum() for word in words[i : i + size])]


@edit
def repeated_phrase(text: str, rng: Generator, material: Material) -> str:
    words = text.split()
    phrase = pick(rng, _phrases(words, int(rng.integers(2, 5))))
    copy = words[phrase]
    if starts_sentence(words, phrase.start):
        copy[0] = copy[0].lower()
    return join(words[: phrase.stop] + copy + words[phrase.stop :])


@edit
def shuffled_window(text: str, rng: Generator, material: Material) -> str:
    words = text.split()
    phrase = pick(rng, _phrases(words, int(rng.integers(3, 6))) or _phrases(words, 3))
    window = words[phrase]
    made = [window[i] for i in shuffled(rng, len(window), 4)]
    require(made != window)
    return join(words[: phrase.start] + made + words[phrase.stop :])


@edit
def wrong_function_word(text: str, rng: Generator, material: Material) -> str:
    confused = word_map("confused")

    def fits(words: list[str], i: int) -> bool:
        return words[i].isalpha() and words[i].lower() in confused

    def change(words: list[str], i: int) -> str:
        options = confused[words[i].lower()].split()
        return put(words[i], pick(rng, options))

    return change_one(text, rng, fits, change)


@edit
def agreement(text: str, rng: Generator, material: Material) -> str:
    """They was; he run."""
    words = text.split()
    forms = word_map("agreement")
    after_person = [i for i in range(1, len(words)) if words[i - 1].lower() in ("he", "she", "it")]
    verbs = [i for i in after_person if re.fullmatch(r"[a-z]{3,}[^s\W]s", words[i])]
    listed = [i for i, word in enumerate(words) if word in forms]
    index = pick(rng, listed + [i for i in verbs if words[i] not in word_set("stopwords")])
    words[index] = forms.get(words[index], words[index][:-1])
    return join(words)


def _wrong_form(words: Sequence[str], index: int) -> str:
    """A form of the word that is wrong here; "" where none is known."""
    word = words[index]
    before = words[index - 1].lower() if index else ""
    if not plain(word):
        return ""
    if word in word_map("wrong_forms"):
        return word_map("wrong_forms")[word]
    if before in (*word_set("plural_before"), *word_list("number_words")) and re.fullmatch(r"\w{3,}[^s]s", word):
        return word[:-1]
    if len(word) > 4 and word.endswith("ed") and word not in word_set("not_past"):
        if word.endswith("ied"):
            return word[:-3] + "ying"
        return word[:-2] + "ing"
    adverb = len(word) > 5 and word.endswith("ly") and not word.endswith(("ily", "bly", "ply"))
    if adverb and index + 1 < len(words):
        return word[:-2]
    return ""


@edit
def wrong_inflection(text: str, rng: Generator, material: Material) -> str:
    return change_one(text, rng, _wrong_form, _wrong_form)


@edit
def cut_off_ending(text: str, rng: Generator, material: Material) -> str:
    whole = sentences(text)
    require(whole)
    words = whole[-1].split()
    require(len(words) > 5 and re.search(r"[.!?][\"')\]]*$", text.rstrip()))
    ends = range(max(3, len(words) - 7), len(words) - 1)
    after_function = [end for end in ends if words[end - 1].lower() in word_set("stopwords")]
    end = pick(rng, after_function or ends)
    return join([*whole[:-1], " ".join(words[:end]).rstrip(",;:.")])


# ------------------------------------------------------------------------------------------------- language


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
def stilted(text: str, rng: Generator, material: Material) -> str:
    try:
        return exchange_one(text, rng, word_map("stilted"))
    except NoPlaceError:
        shown = ready_made("stilted_closings", text)
        require(not any(sentence in text for sentence in shown))
        return join([text, pick(rng, shown)])


@edit
def plain_words(text: str, rng: Generator, material: Material) -> str:
    """One adjective or adverb less."""

    def fits(words: Sequence[str], i: int) -> bool:
        if not 0 < i < len(words) - 1:
            return False
        word = words[i]
        before = words[i - 1]
        after = bare(words[i + 1])
        ornament = word in word_set("ornaments") or (word.endswith("ly") and len(word) > 5 and plain(word))
        leads = plain(after) and after not in word_set("stopwords")
        bound = before in word_set("bound") or (before, word) == ("a", "little")
        return ornament and leads and not bound

    def change(words: list[str], i: int) -> str:
        del words[i]
        mend_articles(words, i)
        return words[i]  # the word after it

    return change_one(text, rng, fits, change)


@edit
def dropped_clause(text: str, rng: Generator, material: Material) -> str:
    clauses = [match.span() for clause in _CLAUSES for match in clause.finditer(text)]
    start, end = pick(rng, clauses)
    made = text[:start] + text[end:]
    require(made)
    return made
