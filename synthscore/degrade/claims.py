"""Damage to what is claimed: names, numbers, roles, given facts; and questions that are made easier."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

from numpy.random import Generator

from .edits import Material, NoPlaceError, change_one, edit, join, mend_articles, pick, put, require
from .reading import (
    Name,
    bare,
    content_words,
    core,
    like,
    names,
    plain,
    sentences,
    starts_sentence,
    word_list,
    word_map,
    word_set,
)

NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


@lru_cache(maxsize=512)
def _known(material: Material) -> str:
    """Context and facts as running text; triples without their bars and underscores."""
    text = f"{material.context} {material.facts}"
    if "|" not in text:
        return text
    return text.replace("_", " ").replace(" | ", " , ").replace("\n", " . ")


def _renamed(words: Sequence[str], name: Name, new: str) -> str:
    """The text with another name, or a pronoun, in place of this one; the marks around it stay."""
    first = words[name.start]
    last = words[name.end - 1]
    before = first[: len(first) - len(first.lstrip("\"'`(["))]
    match = re.search(r"(?:'s)?[,;:!?\"')\]]*(?:(?<=\w\w\w)\.)?[\"')]*$", last)
    after = match.group(0) if match else ""
    if " ".join(words) == " ".join(words).lower():
        new = new.lower()
    made = [*words[: name.start], before + new + after, *words[name.end :]]
    mend_articles(made, name.start)
    return join(made)


def _other_name(name: Name, options: Sequence[Name], rng: Generator) -> str:
    """A name of the same kind that shares no word with this one."""
    if name.kind in ("month", "day"):
        others = [word for word in word_list(f"{name.kind}s") if word.lower() != name.text.lower()]
        return pick(rng, others)
    options = [other for other in options if not name.words & other.words]
    fitting = [other.text for other in options if other.kind == name.kind]
    if not fitting and name.kind in ("place", "other"):
        fitting = [other.text for other in options if other.kind in ("place", "other")]
    near = [text for text in fitting if len(text.split()) == len(name.text.split())]
    return pick(rng, sorted(set(near or fitting)))


def _entity(text: str, rng: Generator, options: Sequence[Name], known: str) -> str:
    name = pick(rng, names(text, known))
    return _renamed(text.split(), name, _other_name(name, options, rng))


@edit
def entity_same_document(text: str, rng: Generator, material: Material) -> str:
    """A name becomes another one of the same context: all names are familiar, the claim is wrong."""
    return _entity(text, rng, names(_known(material)), _known(material))


@edit
def entity_other_document(text: str, rng: Generator, material: Material) -> str:
    """A name becomes one that the context does not mention."""
    known = _known(material)
    other_text = _known(Material(pick(rng, material.foreign)))
    options = [name for name in names(other_text) if name.text not in known]
    return _entity(text, rng, options, known)


@edit
def swapped_roles(text: str, rng: Generator, material: Material) -> str:
    """Two names of one sentence change places: who did what to whom is turned around."""
    words = text.split()

    def fits(left: Name, right: Name) -> bool:
        between = words[left.end : right.start]
        listed = all(word in ("and", "or", ",", "&", "the") for word in between)
        joined = listed or (len(between) == 1 and between[0] in word_set("stopwords"))
        ends = any(re.search(r"[.!?]$", word) for word in words[left.start : right.start])
        of_a_kind = left.kind == right.kind and not (joined or ends or left.words & right.words)
        apart = right.start > left.end and left.text != right.text
        return apart and (of_a_kind or (left.kind, right.kind) == ("other", "place"))

    pairs = [(left, right) for left, right in pairwise(names(text, _known(material))) if fits(left, right)]
    left, right = pick(rng, pairs)
    # The right one first, because the other one's place does not change by it.
    with_left_twice = _renamed(words, right, left.text)
    return _renamed(with_left_twice.split(), left, right.text)


@edit
def dangling_reference(text: str, rng: Generator, material: Material) -> str:
    """A name at its first mention becomes a pronoun, so that one cannot tell who or what is meant."""
    words = text.split()
    first: dict[str, Name] = {}
    for name in names(text, _known(material)):
        after_the = words[name.start - 1] in ("The", "the")
        if name.kind == "other" and starts_sentence(words, name.start - after_the):
            first.setdefault(name.text.split()[-1].lower(), name)
    name = pick(rng, list(first.values())[:2])
    pronoun = _pronoun(text)
    last = words[name.end - 1]
    spaced = words[name.end : name.end + 1] == ["'s"]
    if spaced or re.search(r"'s\W*$", last):
        pronoun = {"he": "his", "she": "her", "it": "its"}[pronoun]
        del words[name.end : name.end + spaced]
        words[name.end - 1] = re.sub(r"'s(\W*)$", r"\1", last)
    start = name.start
    if start and words[start - 1].lower().rstrip(".") in word_set("titles") | {"the"}:
        start -= 1
    if words[start][:1].isupper() and starts_sentence(words, start):
        pronoun = pronoun.capitalize()
    return _renamed(words, Name(start, name.end, name.text, name.kind), pronoun)


def _pronoun(text: str) -> str:
    """The one that the text uses most; "it" in a text about nobody."""
    low = f" {text.lower()} "
    if not re.search(r" (?:he|she|his|her) ", low):
        return "it"
    n_she = low.count(" she ") + low.count(" her ")
    n_he = low.count(" he ") + low.count(" his ")
    return "she" if n_she > n_he else "he"


@edit
def number_changed(text: str, rng: Generator, material: Material) -> str:
    groups = (word_list("number_words"), word_list("big_numbers"), word_list("ordinals"))
    spelled = {word for group in groups for word in group}

    def fits(words: list[str], i: int) -> bool:
        return bool(NUMBER.search(words[i])) or bare(words[i]) in spelled

    def change(words: list[str], i: int) -> str:
        if NUMBER.search(words[i]):
            return NUMBER.sub(lambda match: _other_number(match.group(), rng), words[i], count=1)
        group = next(group for group in groups if bare(words[i]) in group)
        others = [word for word in group if word != bare(words[i])]
        return put(words[i], pick(rng, others))

    return change_one(text, rng, fits, change)


def _other_number(old: str, rng: Generator) -> str:
    """One of as many digits; a year moves by 2 to 29 years."""
    if re.fullmatch(r"1\d\d\d|20[0-2]\d", old):
        years = int(rng.integers(2, 30))
        if rng.random() < 0.7 or old > "1995":
            years = -years
        return str(int(old) + years)
    digits = []
    for char in old:
        if char.isdigit() and rng.random() < 0.5:
            char = str(rng.integers(10))
        digits.append(char)
    step = int(rng.integers(1, 9))
    digits[0] = _next_digit(old[0], step)
    new = "".join(digits)
    if new != old:
        return new
    return _next_digit(old[0], 1) + new[1:]


def _next_digit(digit: str, step: int) -> str:
    """The digit so many steps further on the ring of 1..9, so that no number begins with 0."""
    return str((int(digit) + step - 1) % 9 + 1)


def _denial(words: Sequence[str], i: int) -> str:
    """How the statement can be turned at this word: add, remove, opposite or never; "" where it cannot."""
    word = words[i]
    before = words[i - 1] if i else ""
    after = words[i + 1] if i + 1 < len(words) else "."
    perfect = word in ("has", "have", "had") and re.fullmatch(r"been|\w+ed|\w+en", after)
    verb_follows = after != "not" and after[:1].isalnum()
    if (word in word_set("auxiliaries") or perfect) and verb_follows and not starts_sentence(words, i):
        return "add"
    if word == "not" or re.fullmatch(r"\w+n't", word) or (word == "n't" and i):
        return "remove"
    if core(word) in word_map("antonyms") and not (i and core(word) in ("up", "first", "down", "last")):
        return "opposite"
    past = word.endswith("ed") and plain(word) and len(word) > 4
    after_subject = before.lower() in ("he", "she", "it", "they", "i", "we") or before[:1].isupper()
    if past and i and after_subject:
        return "never"
    return ""


@edit
def negation(text: str, rng: Generator, material: Material) -> str:
    """A statement becomes its contrary: "not" or "never" put in or taken out, or a word replaced by its opposite."""

    def change(words: list[str], i: int) -> str:
        how = _denial(words, i)
        word = words[i]
        if how == "add":
            return f"{word} not"
        if how == "never":
            return f"never {word}"
        if how == "opposite":
            words[i] = put(word, word_map("antonyms")[core(word)])
            mend_articles(words, i)
            return words[i]
        if word in ("not", "n't"):
            return ""
        return put(word, {"can't": "can", "won't": "will"}.get(word.lower(), word[:-3]))

    return change_one(text, rng, _denial, change)


def _ending(word: str) -> str:
    """Its suffix, of those that tell what kind of word it is; "" for none."""
    for suffix in ("ing", "ed", "ly", "tion", "ies", "s", "er", "al"):
        if word.endswith(suffix):
            return suffix
    return ""


@edit
def content_word_replaced(text: str, rng: Generator, material: Material) -> str:
    words = text.split()
    content = content_words(text)
    fitting = []
    for i, word in enumerate(map(bare, words)):
        if len(word) > 4 and plain(word) and word in content:
            fitting.append(i)
    index = -1
    if fitting:
        index = pick(rng, fitting)
    # Drawn even where nothing fits, so that what is drawn for the next edit stays the same.
    source = pick(rng, (material.context, *material.foreign))
    require(fitting)
    old = bare(words[index])
    options = []
    for word in sorted(set(content_words(source))):
        other_word = len(word) > 4 and plain(word) and word[:4] != old[:4]
        like_old = other_word and _ending(word) == _ending(old)
        # A word that is not in the source after a space is a name in lower case.
        if like_old and word not in text and f" {word}" in source:
            options.append(word)
    words[index] = put(words[index], pick(rng, options))
    mend_articles(words, index)
    return join(words)


# ------------------------------------------------------------------------------------------------- facts as triples

Triple = tuple[str, str, str]


def _triples(context: str) -> list[Triple]:
    triples = []
    for line in context.splitlines():
        parts = [part.strip().replace("_", " ") for part in line.split("|")]
        if len(parts) == 3 and all(parts):
            triples.append((parts[0], parts[1], parts[2]))
    return triples


def find(text: str, value: str) -> int:
    """Where the text first says the value, as whole words; -1 where it does not."""
    match = re.search(rf"(?<!\w){re.escape(value.lower())}(?!\w)", text.lower())
    return match.start() if match else -1


@edit
def dropped_triple(text: str, rng: Generator, material: Material) -> str:
    """One fact is no longer told: its sentence goes, or the words that end in its value."""
    values = [value for _, _, value in _triples(material.context) if find(text, value) >= 0]
    parts = sentences(text)
    for i in rng.permutation(len(values)):
        value = values[i]
        with_value = [index for index, part in enumerate(parts) if find(part, value) >= 0]
        if with_value and len(parts) > 1:
            index = with_value[0]
            return join(parts[:index] + parts[index + 1 :])
        words = r"(?:,? (?:and|which|who|where)\b[^.,]*?|,? (?:in|on|at|by|from|with|for|to|of|as)) (?:the |an? )?"
        end = r"(?=\s?(?:[.,]|and\b|$))"
        made = re.sub(words + re.escape(value) + end, "", text, count=1, flags=re.IGNORECASE)
        if made != text and len(made.split()) > 2:
            return made
    raise NoPlaceError


@edit
def wrong_value(text: str, rng: Generator, material: Material) -> str:
    """A value (or the subject) becomes that of another fact."""
    triples = _triples(material.context)
    values = sorted({value for _, _, value in triples if find(text, value) >= 0})
    value = pick(rng, values)
    start = find(text, value)
    others = {subject for subject, _, _ in triples}
    for foreign in material.foreign:
        others.update(other for _, _, other in _triples(foreign) if find(material.context, other) < 0)
    fitting = sorted(other for other in others if other.lower() != value.lower() and _look(other) == _look(value))
    if NUMBER.search(value) and (not fitting or rng.random() < 0.5):
        new = number_changed(value, rng, material) or value
    else:
        new = pick(rng, fitting)
    require(new and new != value)
    return text[:start] + like(new, text) + text[start + len(value) :]


def _look(value: str) -> tuple[bool, bool]:
    """Whether it begins with a digit, or with a capital."""
    return value[:1].isdigit(), value[:1].isupper()


@edit
def joined_fragments(text: str, rng: Generator, material: Material) -> str:
    """The facts as a bare list in one breath: nothing is wrong with what is said."""
    parts = [_spoken(triple) for triple in _triples(material.context)]
    between = ". "
    if rng.random() < 0.5:
        between = " and "
    made = between.join(parts) + "."
    require(parts and made not in text)
    return like(made, text)


def _spoken(triple: Triple) -> str:
    relation = re.sub("([a-z])([A-Z])", r"\1 \2", triple[1]).lower()
    return f"{triple[0]} {relation} {triple[2]}"


# ------------------------------------------------------------------------------------------------- questions

_QUOTED = "the passage says:"
_YES_NO = "is it true that"
_ANSWERED = ("the answer is", "is the answer")
_LOOKED_UP = ("how does this sentence go on:", "which word fills the gap:")


def _has(text: str, *marks: str) -> bool:
    return any(mark in text.lower().replace(" :", ":") for mark in marks)


def _statements(material: Material, shortest: int, longest: int) -> list[str]:
    whole = sentences(material.context)
    return [s for s in whole if shortest <= len(s.split()) <= longest and not s.endswith("?")]


def _source_sentence(question: str, material: Material) -> str:
    """The sentence of the context that the question is about. raises : NoPlaceError"""
    wanted = {word[:6] for word in content_words(question)}
    options = _statements(material, 5, 30)
    require(options)
    return max(options, key=lambda sentence: len(wanted & {word[:6] for word in content_words(sentence)}))


@edit
def quoted_source(text: str, rng: Generator, material: Material) -> str:
    source = _source_sentence(text, material)
    require(not _has(text, _QUOTED))
    quote = f'The passage says: "{source}"'
    if rng.random() < 0.5:
        return f"{quote} {text}"
    return f"{text} {quote}"


@edit
def yes_no(text: str, rng: Generator, material: Material) -> str:
    source = _source_sentence(text, material)
    require(not _has(text, _QUOTED, _YES_NO, *_ANSWERED))
    first = source.split()[0]
    name_starts = [name.text.split()[0] for name in names(f"x {material.context}")]
    low = source
    if first != "I" and first not in name_starts:
        low = first.lower() + source[len(first) :]
    return f"Is it true that {low.rstrip('.!')}?"


@edit
def given_answer(text: str, rng: Generator, material: Material) -> str:
    """The question tells its own answer."""
    require(not _has(text, *_ANSWERED))
    if _has(text, _YES_NO):
        return f"{text} The answer is yes."
    source = _source_sentence(text, material)
    values = [name.text for name in names(source)] + NUMBER.findall(source)
    known = [value for value in values if find(text, value) < 0]
    answer = " ".join(source.rstrip(".!").split()[-4:])
    if known:
        answer = pick(rng, known)
    if rng.random() < 0.6:
        return f"{text} The answer is {answer}."
    return f"{text} Is the answer {answer}?"


@edit
def simple_lookup(text: str, rng: Generator, material: Material) -> str:
    """A question that asks for the rest of one sentence, in place of one that asks for thought."""
    options = _statements(material, 6, 26)
    require(not _has(text, _QUOTED, _YES_NO, *_ANSWERED, *_LOOKED_UP))
    source = pick(rng, options)
    words = source.rstrip(".!").split()
    if rng.random() < 0.5:
        start = int(rng.integers(max(1, len(words) // 2), len(words)))
        return f'How does this sentence go on: "{" ".join(words[:start])} ..."?'
    content = content_words(source)
    index = pick(rng, [i for i, word in enumerate(words) if i and bare(word) in content])
    words[index] = put(words[index].lower(), "___")
    return f'Which word fills the gap: "{" ".join(words)}"?'
