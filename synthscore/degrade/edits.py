"""The single edits that damage a text: text + rng + material -> a slightly worse text, or None.

Which attribute an edit lowers, and by how much, stands in degrade.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from numpy.random import Generator

from . import words as table
from .reading import (
    Name,
    bare,
    centrality,
    choose,
    content_words,
    core,
    join,
    like,
    mend_articles,
    names,
    other_name,
    pick,
    plain,
    put,
    replace_name,
    sentences,
    starts_sentence,
)


@dataclass(frozen=True, slots=True)
class Material:
    """What damage may draw on, besides the text itself."""

    context: str = ""  # source article, dialogue history (a turn a line), story idea, triples ("s | p | o", one a line)
    facts: str = ""
    foreign: tuple[str, ...] = ()  # texts of other contexts: foreign sentences, turns, names and values come from here


Edit = Callable[[str, Generator, Material], "str | None"]


# ---------------------------------------------------------------------------------------- damage to the wording


def dropped_word(text: str, rng: Generator, material: Material) -> str | None:
    words = text.split()
    options = []
    for i in range(1, len(words) - 1):
        function = words[i] in table.DROPPABLE
        noun = words[i - 1] in ("the", "a", "an") and plain(words[i]) and words[i + 1] in table.PREPOSITIONS
        if function or noun:
            options.append(i)
    index = pick(rng, options)
    return None if index is None else join(words[:index] + words[index + 1 :])


def doubled_word(text: str, rng: Generator, material: Material) -> str | None:
    words = text.split()
    harmless = ("very", "had", "that", "so", "no", "yes", "bye", "ha", "really")
    index = pick(rng, [i for i, word in enumerate(words) if word.isalpha() and word.lower() not in harmless])
    return None if index is None else join([*words[: index + 1], words[index].lower(), *words[index + 1 :]])


def _phrase(words: Sequence[str], rng: Generator, shortest: int, longest: int) -> tuple[int, int] | None:
    """A random run of words without a mark between them."""
    size = int(rng.integers(shortest, longest + 1))
    starts = [i for i in range(len(words) - size + 1) if all(w.isalnum() for w in words[i : i + size])]
    start = pick(rng, starts)
    return None if start is None else (start, start + size)


def repeated_phrase(text: str, rng: Generator, material: Material) -> str | None:
    words = text.split()
    span = _phrase(words, rng, 2, 4)
    if span is None:
        return None
    copy = list(words[span[0] : span[1]])
    if starts_sentence(words, span[0]):
        copy[0] = copy[0].lower()
    return join(words[: span[1]] + copy + words[span[1] :])


def shuffled_window(text: str, rng: Generator, material: Material) -> str | None:
    words = text.split()
    span = _phrase(words, rng, 3, 5) or _phrase(words, rng, 3, 3)
    if span is None:
        return None
    window = words[span[0] : span[1]]
    shift = rng.permutation(len(window))
    for _ in range(4):
        if all(shift[i + 1] != shift[i] + 1 for i in range(len(window) - 1)):
            break
        shift = rng.permutation(len(window))
    made = [window[int(i)] for i in shift]
    return None if made == window else join(words[: span[0]] + made + words[span[1] :])


def wrong_function_word(text: str, rng: Generator, material: Material) -> str | None:
    words = text.split()
    index = pick(rng, [i for i, word in enumerate(words) if word.isalpha() and word.lower() in table.CONFUSED])
    if index is None:
        return None
    words[index] = put(words[index], choose(rng, table.CONFUSED[words[index].lower()]))
    return join(words)


def agreement(text: str, rng: Generator, material: Material) -> str | None:
    words = text.split()
    options = [i for i, word in enumerate(words) if word in table.AGREEMENT]
    options += [
        i
        for i in range(1, len(words))
        if words[i - 1].lower() in ("he", "she", "it")
        and re.fullmatch(r"[a-z]{3,}[^s\W]s", words[i])
        and words[i] not in table.STOPWORDS
    ]
    index = pick(rng, options)
    if index is None:
        return None
    words[index] = table.AGREEMENT.get(words[index], words[index][:-1])
    return join(words)


_PLURAL_BEFORE = frozenset((*table.NUMBER_WORDS, "many", "several", "these", "those", "few", "both"))
_NOT_PAST = frozenset(
    [
        "hundred",
        "indeed",
        "need",
        "speed",
        "seed",
        "breed",
        "succeed",
        "proceed",
        "exceed",
        "bleed",
        "freed",
        "agreed",
    ]
)


def _wrong_form(words: Sequence[str], index: int) -> str | None:
    word = words[index]
    if not plain(word):
        return None
    if word in table.WRONG_FORMS:
        return table.WRONG_FORMS[word]
    if index and words[index - 1].lower() in _PLURAL_BEFORE and re.fullmatch(r"\w{3,}[^s]s", word):
        return word[:-1]
    if len(word) > 4 and word.endswith("ed") and word not in _NOT_PAST:
        return word[:-3] + "ying" if word.endswith("ied") else word[:-2] + "ing"
    if len(word) > 5 and word.endswith("ly") and index + 1 < len(words) and not word.endswith(("ily", "bly", "ply")):
        return word[:-2]
    return None


def wrong_inflection(text: str, rng: Generator, material: Material) -> str | None:
    words = text.split()
    index = pick(rng, [i for i in range(len(words)) if _wrong_form(words, i)])
    if index is None:
        return None
    words[index] = _wrong_form(words, index) or words[index]
    return join(words)


def cut_off_ending(text: str, rng: Generator, material: Material) -> str | None:
    whole = sentences(text)
    words = whole[-1].split() if whole else []
    if len(words) < 6 or not re.search(r"[.!?][\"')\]]*$", text.rstrip()):
        return None
    ends = range(max(3, len(words) - 7), len(words) - 1)
    after_function = [end for end in ends if words[end - 1].lower() in table.STOPWORDS]
    end = pick(rng, after_function or list(ends))
    return join([*whole[:-1], " ".join(words[:end]).rstrip(",;:.")])


# ------------------------------------------------------------------------------- damage to the order of sentences


def swapped_neighbours(text: str, rng: Generator, material: Material) -> str | None:
    parts = list(sentences(text))
    if len(parts) < 2:
        return None
    i = int(rng.integers(len(parts) - 1))
    parts[i], parts[i + 1] = parts[i + 1], parts[i]
    return join(parts)


def reversed_sentences(text: str, rng: Generator, material: Material) -> str | None:
    parts = sentences(text)
    return join(parts[::-1]) if len(parts) > 2 else None


def shuffled_sentences(text: str, rng: Generator, material: Material) -> str | None:
    parts = sentences(text)
    if len(parts) < 3:
        return None
    shift = rng.permutation(len(parts))
    for _ in range(6):
        if all(shift[i + 1] != shift[i] + 1 for i in range(len(parts) - 1)):
            break
        shift = rng.permutation(len(parts))
    made = tuple(parts[int(i)] for i in shift)
    return None if made == parts else join(made)


def repeated_sentence(text: str, rng: Generator, material: Material) -> str | None:
    """A sentence is said again: right after itself, later, or in place of a later one."""
    parts = list(sentences(text))
    if not parts or len(set(parts)) < len(parts) - 1:
        return None
    i = int(rng.integers(len(parts)))
    later = int(rng.integers(i + 1, len(parts) + 1))
    in_place = later < len(parts) and len(parts) > 2 and rng.random() < 0.6
    return join([*parts[:later], parts[i], *parts[later + in_place :]])


def _foreign_sentences(material: Material, rng: Generator, shortest: int = 6, longest: int = 32) -> list[str]:
    if not material.foreign:
        return []
    for i in rng.permutation(len(material.foreign)):
        whole = [re.sub(r"^[AB]: ", "", sentence) for sentence in sentences(material.foreign[int(i)])]
        found = [part for part in whole if shortest <= len(part.split()) <= longest and "|" not in part]
        if found:
            return found
    return []


def _nearest(options: Sequence[str], n_words: int) -> str:
    return min(options, key=lambda option: abs(len(option.split()) - n_words))


def foreign_sentence(text: str, rng: Generator, material: Material) -> str | None:
    """A sentence of another text, between the sentences or in place of one of them."""
    parts, options = list(sentences(text)), _foreign_sentences(material, rng, 4)
    if not parts or not options:
        return None
    own = [i for i, part in enumerate(parts) if not any(part in other for other in material.foreign)]
    index = pick(rng, own)
    if index is None:
        return None
    if rng.random() < 0.75 and len(parts) > 1:
        parts[index] = like(_nearest([choose(rng, options) for _ in range(3)], len(parts[index].split())), text)
    else:
        parts.insert(index + 1, like(choose(rng, options), text))
    return join(parts)


def dangling_reference(text: str, rng: Generator, material: Material) -> str | None:
    """A name at its first mention becomes a pronoun, so that one cannot tell who or what is meant."""
    words = text.split()
    found = [
        name
        for name in names(text, _known(material))
        if name.kind == "other" and (starts_sentence(words, name.start) or words[name.start - 1] in ("The", "the"))
    ]
    first: dict[str, Name] = {}
    for name in found:
        if starts_sentence(words, name.start - (words[name.start - 1] in ("The", "the"))):
            first.setdefault(name.text.split()[-1].lower(), name)
    which = pick(rng, range(min(2, len(first))))
    if which is None:
        return None
    name = list(first.values())[which]
    last = words[name.end - 1]
    low = f" {text.lower()} "
    person = "she" if low.count(" she ") + low.count(" her ") > low.count(" he ") + low.count(" his ") else "he"
    pronoun = person if re.search(r" (?:he|she|his|her) ", low) else "it"
    if re.search(r"'s\W*$", last) or (name.end < len(words) and words[name.end] == "'s"):
        pronoun = {"he": "his", "she": "her", "it": "its"}[pronoun]
        if name.end < len(words) and words[name.end] == "'s":
            del words[name.end]
        words[name.end - 1] = re.sub(r"'s(\W*)$", r"\1", last)
    start = name.start
    if start and words[start - 1].lower().rstrip(".") in table.TITLES | {"the"}:
        start -= 1
    if words[start][:1].isupper() and (starts_sentence(words, start)):
        pronoun = pronoun.capitalize()
    return replace_name(words, Name(start, name.end, name.text, name.kind), pronoun)


# --------------------------------------------------------------------------------------------- damage to the facts


@lru_cache(maxsize=512)
def _known(material: Material) -> str:
    """Context and facts as running text; triples without their bars and underscores."""
    text = f"{material.context} {material.facts}"
    return text.replace("_", " ").replace(" | ", " , ").replace("\n", " . ") if "|" in text else text


def _entity(text: str, rng: Generator, options: Sequence[Name], known: str) -> str | None:
    own = names(text, known)
    index = pick(rng, range(len(own)))
    other = None if index is None else other_name(own[index], options, rng)
    return None if index is None or other is None else replace_name(text.split(), own[index], other)


def entity_same_document(text: str, rng: Generator, material: Material) -> str | None:
    """A name becomes another one of the same context: all names are familiar, the claim is wrong."""
    return _entity(text, rng, names(_known(material)), _known(material))


def entity_other_document(text: str, rng: Generator, material: Material) -> str | None:
    """A name becomes one that the context does not mention."""
    if not material.foreign:
        return None
    known = _known(material)
    options = [name for name in names(_known(Material(choose(rng, material.foreign)))) if name.text not in known]
    return _entity(text, rng, options, known)


_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


def number_changed(text: str, rng: Generator, material: Material) -> str | None:
    words = text.split()
    numbers = (table.NUMBER_WORDS, table.BIG_NUMBERS, ("second", "third", "fourth", "fifth", "sixth", "seventh"))
    options = [
        i for i, word in enumerate(words) if _NUMBER.search(word) or any(bare(word) in group for group in numbers)
    ]
    index = pick(rng, options)
    if index is None:
        return None
    match = _NUMBER.search(words[index])
    if match is None:
        group = next(group for group in numbers if bare(words[index]) in group)
        words[index] = put(words[index], choose(rng, [word for word in group if word != bare(words[index])]))
        return join(words)
    old = match.group(0)
    if re.fullmatch(r"1\d\d\d|20[0-2]\d", old):
        new = str(int(old) + int(rng.integers(2, 30)) * (-1 if rng.random() < 0.7 or old > "1995" else 1))
    else:
        digits = [str(rng.integers(10)) if char.isdigit() and rng.random() < 0.5 else char for char in old]
        digits[0] = str((int(old[0]) + int(rng.integers(1, 9)) - 1) % 9 + 1)
        new = "".join(digits)
        if new == old:
            new = str((int(old[0]) % 9) + 1) + new[1:]
    words[index] = words[index][: match.start()] + new + words[index][match.end() :]
    return join(words)


_BE = frozenset(["is", "are", "was", "were", "will", "would", "can", "could", "should"])


def _negatable(words: Sequence[str], i: int) -> bool:
    word, after = words[i], words[i + 1] if i + 1 < len(words) else "."
    if starts_sentence(words, i) or after == "not" or not after[:1].isalnum():
        return False
    return word in _BE or (word in ("has", "have", "had") and re.fullmatch(r"been|\w+ed|\w+en", after) is not None)


def negation(text: str, rng: Generator, material: Material) -> str | None:
    """A statement becomes its contrary: "not" or "never" put in or taken out, or a word replaced by its opposite."""
    words = text.split()
    options = []
    for i, word in enumerate(words):
        past = word.endswith("ed") and plain(word) and len(word) > 4 and i > 0
        if _negatable(words, i):
            options.append((i, "add"))
        elif word == "not" or re.fullmatch(r"\w+n't", word) or (word == "n't" and i):
            options.append((i, "remove"))
        elif core(word) in table.ANTONYMS and not (i and core(word) in ("up", "first", "down", "last")):
            options.append((i, "opposite"))
        elif past and (words[i - 1].lower() in ("he", "she", "it", "they", "i", "we") or words[i - 1][:1].isupper()):
            options.append((i, "never"))
    which = pick(rng, range(len(options)))
    if which is None:
        return None
    i, how = options[which]
    if how == "add":
        words.insert(i + 1, "not")
    elif how == "never":
        words.insert(i, "never")
    elif how == "opposite":
        words[i] = put(words[i], table.ANTONYMS[core(words[i])])
        mend_articles(words, i)
    elif words[i] in ("not", "n't"):
        del words[i]
    else:
        positive = {"can't": "can", "won't": "will"}
        words[i] = put(words[i], positive.get(words[i].lower(), words[i][:-3]))
    return join(words)


def _ending(word: str) -> str:
    return next((end for end in ("ing", "ed", "ly", "tion", "ies", "s", "er", "al") if word.endswith(end)), "")


def content_word_replaced(text: str, rng: Generator, material: Material) -> str | None:
    words = text.split()
    index = pick(
        rng,
        [i for i, w in enumerate(words) if len(bare(w)) > 4 and plain(bare(w)) and bare(w) in content_words(text)],
    )
    source = choose(rng, (material.context, *material.foreign)) if material.foreign else material.context
    if index is None:
        return None
    old = bare(words[index])
    options = sorted(
        {
            word
            for word in content_words(source)
            if len(word) > 4 and plain(word) and _ending(word) == _ending(old) and word[:4] != old[:4]
        }
    )
    options = [word for word in options if word not in text and f" {word}" in source]  # not a name in lower case
    if not options:
        return None
    words[index] = put(words[index], choose(rng, options))
    mend_articles(words, index)
    return join(words)


def swapped_roles(text: str, rng: Generator, material: Material) -> str | None:
    """Two names of one sentence change places: who did what to whom is turned around."""
    own, words = names(text, _known(material)), text.split()
    options = []
    for i, (left, right) in enumerate(pairwise(own)):
        between = words[left.end : right.start]
        joined = all(word in ("and", "or", ",", "&", "the") for word in between)
        ends = any(re.search(r"[.!?]$", word) for word in words[left.start : right.start])
        joined = joined or not between or (len(between) == 1 and between[0] in table.STOPWORDS)
        same = set(left.text.lower().split()) & set(right.text.lower().split())
        if (not (joined or ends or same) and left.kind == right.kind) or (left.kind, right.kind) == (
            "other",
            "place",
        ):
            options.append(i)
    options = [i for i in options if not (own[i + 1].start <= own[i].end or own[i].text == own[i + 1].text)]
    index = pick(rng, options)
    if index is None:
        return None
    left, right = own[index], own[index + 1]
    made = replace_name(words, right, left.text)
    return replace_name(made.split(), left, right.text)


# --------------------------------------------------------------------------------------- damage to what is selected


def peripheral_sentences(text: str, rng: Generator, material: Material) -> str | None:
    """The most central sentence gives way to a sentence of the context that hardly matters."""
    parts = list(sentences(text))
    options = [s for s in sentences(material.context) if 6 <= len(s.split()) <= 36]
    if not parts or len(options) < 4:
        return None
    options = sorted(options, key=lambda option: centrality(option, material.context))[: max(2, len(options) // 3)]
    shown = {like(option, text) for option in options}
    own = [part for part in parts if part not in shown]
    options = [option for option in options if like(option, text) not in parts]
    if not own or not options:
        return None
    central = max(own, key=lambda part: centrality(part, material.context))
    minor = _nearest([choose(rng, options) for _ in range(3)], len(central.split()))
    if centrality(minor, material.context) > 0.8 * centrality(central, material.context):
        return None
    parts[parts.index(central)] = like(minor, text)
    return join(parts)


def dropped_central_sentence(text: str, rng: Generator, material: Material) -> str | None:
    parts = list(sentences(text))
    if len(parts) < 2:
        return None
    parts.remove(max(parts, key=lambda part: centrality(part, material.context or text)))
    return join(parts)


def _stock(text: str, stock: Sequence[str], rng: Generator, replace: float) -> str | None:
    """A stock sentence between the sentences, or (with this probability) in place of one of them."""
    parts = list(sentences(text))
    shown = {like(sentence, text): sentence for sentence in stock}
    own = [i for i, part in enumerate(parts) if part not in shown]
    free = [sentence for sentence in shown if sentence not in parts]
    index = pick(rng, own)
    if index is None or not free:
        return None
    if rng.random() < replace:
        parts[index] = _nearest([choose(rng, free) for _ in range(2)], len(parts[index].split()))
    else:
        parts.insert(index + 1, choose(rng, free))
    return join(parts)


def generic_filler(text: str, rng: Generator, material: Material) -> str | None:
    return _stock(text, table.FILLERS, rng, 0.7)


# ------------------------------------------------------------------------------------------- damage to a reply


def _turns(text: str) -> list[str]:
    return [turn for turn in (re.sub(r"^(?:[A-Z]|\w+): ", "", line).strip() for line in text.splitlines()) if turn]


def generic_reply(text: str, rng: Generator, material: Material) -> str | None:
    shown = [like(reply, text) for reply in table.GENERIC_REPLIES]
    return None if text in shown else choose(rng, shown)


def wrong_next_turn(text: str, rng: Generator, material: Material) -> str | None:
    if not material.foreign or text in {like(turn, text) for other in material.foreign for turn in _turns(other)}:
        return None
    turns = [turn for turn in _turns(choose(rng, material.foreign)) if 4 <= len(turn.split()) <= 60]
    if not turns:
        return None
    return like(_nearest([choose(rng, turns) for _ in range(3)], len(text.split())), text)


def echoed_turn(text: str, rng: Generator, material: Material) -> str | None:
    turns = [like(turn, text) for turn in _turns(material.context) if len(turn.split()) >= 4]
    if not turns or text in turns:
        return None
    return turns[-1 - int(rng.integers(min(4, len(turns))))]


def stilted(text: str, rng: Generator, material: Material) -> str | None:
    words = text.split()
    index = pick(rng, [i for i, word in enumerate(words) if bare(word) in table.STILTED])
    if index is not None:
        words[index] = put(words[index], table.STILTED[bare(words[index])])
        mend_articles(words, index)
        return join(words)
    shown = [like(sentence, text) for sentence in table.STILTED_CLOSINGS]
    return None if any(sentence in text for sentence in shown) else join([text, choose(rng, shown)])


def shortened_reply(text: str, rng: Generator, material: Material) -> str | None:
    parts = sentences(text)
    if len(parts) > 1:
        return join(parts[:-1])
    match = re.match(r"^(.{12,}?\w)(?: ,|,| because| but| so| and| when| if| since)\s", text)
    return (
        None if match is None or len(match.group(1).split()) < 3 else match.group(1) + (" ." if " ." in text else ".")
    )


def _said(text: str) -> set[str]:
    """What a text says, as a bag: its content words and its numbers."""
    return {*content_words(text), *_NUMBER.findall(text)}


def ungrounded_fact(text: str, rng: Generator, material: Material) -> str | None:
    """A number, name or word that the text has from the facts is changed."""
    known = _said(material.facts)
    kinds = (number_changed, entity_other_document, entity_same_document)
    for kind in (*(kinds[int(i)] for i in rng.permutation(len(kinds))), content_word_replaced):
        made = kind(text, rng, material) if known else None
        if made is not None and known & (_said(text) - _said(made)):
            return made
    return None


def dropped_facts(text: str, rng: Generator, material: Material) -> str | None:
    """The sentence that uses the facts most is dropped, or gives way to a generic one."""
    parts, known = list(sentences(text)), set(content_words(material.facts))
    shared = [len(known & set(content_words(part))) for part in parts]
    if not parts or max(shared) < 2:
        return None
    index = shared.index(max(shared))
    if len(parts) > 1 and rng.random() < 0.4:
        del parts[index]
    else:
        shown = [like(reply, text) for reply in table.GENERIC_REPLIES]
        parts[index] = _nearest([choose(rng, shown) for _ in range(3)], len(parts[index].split()))
    return join(parts)


# -------------------------------------------------------------------------------------------- damage to a story


def flattened_emotion(text: str, rng: Generator, material: Material) -> str | None:
    words = text.split()
    index = pick(rng, [i for i, word in enumerate(words) if core(word) in table.FEELINGS])
    if index is None:
        return None
    words[index] = put(words[index], table.FEELINGS[core(words[index])])
    mend_articles(words, index)
    return join(words)


def spoiled_ending(text: str, rng: Generator, material: Material) -> str | None:
    """The end is told at the start, and again (or no more) at the end."""
    parts = list(sentences(text))
    openings = tuple(like(spoiler.split("{")[0], text).strip() for spoiler in table.SPOILERS)
    if len(parts) < 3 or text.startswith(openings):
        return None
    last = parts[-1] if rng.random() < 0.5 else parts.pop()
    return join([like(choose(rng, table.SPOILERS).format(last), text), *parts])


def predictable_ending(text: str, rng: Generator, material: Material) -> str | None:
    parts = list(sentences(text))
    shown = [like(ending, text) for ending in table.STOCK_ENDINGS]
    if len(parts) < 2 or any(part in shown for part in parts):
        return None
    return join([*(parts[:-1] if rng.random() < 0.7 else parts), choose(rng, shown)])


def dull_sentence(text: str, rng: Generator, material: Material) -> str | None:
    return _stock(text, table.DULL_SENTENCES, rng, 0.85)


def plain_words(text: str, rng: Generator, material: Material) -> str | None:
    """One adjective or adverb less."""
    words = text.split()
    bound = frozenset(
        [
            "is",
            "was",
            "were",
            "are",
            "be",
            "been",
            "so",
            "how",
            "as",
            "more",
            "most",
            "too",
            "very",
            "the",
            "not",
            "seemed",
            "looked",
            "felt",
            "grew",
        ]
    )
    options = []
    for i in range(1, len(words) - 1):
        ornament = words[i] in table.ORNAMENTS or (words[i].endswith("ly") and len(words[i]) > 5 and plain(words[i]))
        leads = plain(bare(words[i + 1])) and bare(words[i + 1]) not in table.STOPWORDS
        if ornament and leads and (words[i - 1] not in bound or words[i - 1] == "the"):
            options.append(i)
    options = [i for i in options if not (words[i] == "little" and words[i - 1] == "a")]
    index = pick(rng, options)
    if index is None:
        return None
    del words[index]
    mend_articles(words, index)
    return join(words)


_CLAUSES = (
    re.compile(r"(?<=\w)\s?,\s[^,.;:!?\"`]{8,90}\s?,(?=\s[a-z])"),
    re.compile(
        r"\s?,\s(?:who|which|where|while|as|when|although|though|because|with|like|for)\s[^,.;!?\"`]+?(?=\s?[.!?])"
    ),
    re.compile(r"\s\([^()]*\)"),
    re.compile(
        r"(?<!\bso)(?<!long|soon|such|same|just|that|even|only)(?<!and|not|but|far|the)(?:\s?,)?\s(?:as|when|while|because|until|before|after|where)\s[^,.;!?\"`]{10,90}?(?=\s?[.!?])"
    ),
)


def dropped_clause(text: str, rng: Generator, material: Material) -> str | None:
    found = [match.span() for clause in _CLAUSES for match in clause.finditer(text)]
    index = pick(rng, range(len(found)))
    if index is None:
        return None
    start, end = found[index]
    return text[:start] + text[end:] or None


def other_story(text: str, rng: Generator, material: Material) -> str | None:
    """A passage of another text, of about the same length."""
    n_words = len(text.split())
    for _ in range(3):
        if not material.foreign:
            break
        parts = sentences(choose(rng, material.foreign))
        start, size, made = int(rng.integers(max(1, len(parts) // 2))), 0, []
        for part in parts[start:]:
            if size and abs(size + len(part.split()) - n_words) > abs(size - n_words):
                break
            made.append(part)
            size += len(part.split())
        passage = like(join(made), text)
        if abs(size - n_words) < 0.35 * n_words and passage != text:
            return passage
    return None


# ---------------------------------------------------------------------------- damage to a text about given facts


def _triples(material: Material) -> list[tuple[str, str, str]]:
    rows = [tuple(part.strip().replace("_", " ") for part in line.split("|")) for line in material.context.splitlines()]
    return [(row[0], row[1], row[2]) for row in rows if len(row) == 3 and all(row)]


def _find(text: str, value: str) -> int:
    match = re.search(rf"(?<!\w){re.escape(value.lower())}(?!\w)", text.lower())
    return match.start() if match else -1


def dropped_triple(text: str, rng: Generator, material: Material) -> str | None:
    """One fact is no longer said: its sentence goes, or the words that end in its value."""
    said = [value for _, _, value in _triples(material) if _find(text, value) >= 0]
    parts = list(sentences(text))
    for i in rng.permutation(len(said)):
        value = said[int(i)]
        index = next((j for j, part in enumerate(parts) if _find(part, value) >= 0), None)
        if index is not None and len(parts) > 1:
            return join(parts[:index] + parts[index + 1 :])
        words = r"(?:,? (?:and|which|who|where)\b[^.,]*?|,? (?:in|on|at|by|from|with|for|to|of|as)) (?:the |an? )?"
        made = re.sub(words + re.escape(value) + r"(?=\s?(?:[.,]|and\b|$))", "", text, count=1, flags=re.IGNORECASE)
        if made != text and len(made.split()) > 2:
            return made
    return None


def wrong_value(text: str, rng: Generator, material: Material) -> str | None:
    """A value (or the subject) becomes that of another fact."""
    own = _triples(material)
    said = sorted({value for _, _, value in own if _find(text, value) >= 0})
    others = [
        value
        for other in material.foreign
        for _, _, value in _triples(Material(other))
        if _find(material.context, value) < 0
    ]
    others += [subject for subject, _, _ in own]
    index = pick(rng, range(len(said)))
    if index is None:
        return None
    value = said[index]
    at = _find(text, value)
    fitting = [
        other
        for other in others
        if other.lower() != value.lower()
        and other[:1].isdigit() == value[:1].isdigit()
        and other[:1].isupper() == value[:1].isupper()
    ]
    if _NUMBER.search(value) and (not fitting or rng.random() < 0.5):
        new = number_changed(value, rng, material)
    else:
        new = choose(rng, sorted(set(fitting))) if fitting else None
    return None if not new or new == value else text[:at] + like(new, text) + text[at + len(value) :]


def joined_fragments(text: str, rng: Generator, material: Material) -> str | None:
    """The facts as a bare list in one breath: nothing is wrong with what is said."""
    parts = [_spoken(triple) for triple in _triples(material)]
    made = " and ".join(parts) + "." if rng.random() < 0.5 else ". ".join(parts) + "."
    return None if not parts or made in text else like(made, text)


def _spoken(triple: tuple[str, str, str]) -> str:
    relation = re.sub("([a-z])([A-Z])", r"\1 \2", triple[1]).lower()
    return f"{triple[0]} {relation} {triple[2]}"


# --------------------------------------------------------------------------------------- making a question easier

_QUOTED, _YES_NO = "the passage says:", "is it true that"
_ANSWERED = ("the answer is", "is the answer")
_LOOKED_UP = ("how does this sentence go on:", "which word fills the gap:")


def _has(text: str, *marks: str) -> bool:
    return any(mark in text.lower().replace(" :", ":") for mark in marks)


def _source_sentence(question: str, rng: Generator, material: Material) -> str | None:
    """The sentence of the context that the question is about."""
    wanted = {word[:6] for word in content_words(question)}
    options = [s for s in sentences(material.context) if 5 <= len(s.split()) <= 30 and not s.endswith("?")]
    if not options:
        return None
    return max(options, key=lambda s: len(wanted & {word[:6] for word in content_words(s)}))


def quoted_source(text: str, rng: Generator, material: Material) -> str | None:
    source = _source_sentence(text, rng, material)
    if source is None or _has(text, _QUOTED):
        return None
    return f'The passage says: "{source}" {text}' if rng.random() < 0.5 else f'{text} The passage says: "{source}"'


def yes_no(text: str, rng: Generator, material: Material) -> str | None:
    source = _source_sentence(text, rng, material)
    if source is None or _has(text, _QUOTED, _YES_NO, *_ANSWERED):
        return None
    first = source.split()[0]
    known = names(f"x {material.context}")
    low = (
        source
        if any(first == name.text.split()[0] for name in known) or first == "I"
        else first.lower() + source[len(first) :]
    )
    return f"Is it true that {low.rstrip('.!')}?"


def given_answer(text: str, rng: Generator, material: Material) -> str | None:
    """The question tells its own answer."""
    if _has(text, *_ANSWERED):
        return None
    if _has(text, _YES_NO):
        return f"{text} The answer is yes."
    source = _source_sentence(text, rng, material)
    if source is None:
        return None
    known = [name.text for name in names(source) if _find(text, name.text) < 0] + _NUMBER.findall(source)
    known = [value for value in known if _find(text, value) < 0]
    answer = choose(rng, known) if known else " ".join(source.rstrip(".!").split()[-4:])
    return f"{text} The answer is {answer}." if rng.random() < 0.6 else f"{text} Is the answer {answer}?"


def simple_lookup(text: str, rng: Generator, material: Material) -> str | None:
    """A question that asks for the rest of one sentence, in place of one that asks for thought."""
    options = [s for s in sentences(material.context) if 6 <= len(s.split()) <= 26 and not s.endswith("?")]
    if not options or _has(text, _QUOTED, _YES_NO, *_ANSWERED, *_LOOKED_UP):
        return None
    source = choose(rng, options)
    words = source.rstrip(".!").split()
    if rng.random() < 0.5:
        start = int(rng.integers(max(1, len(words) // 2), len(words)))
        return f'How does this sentence go on: "{" ".join(words[:start])} ..."?'
    index = pick(rng, [i for i, word in enumerate(words) if i and bare(word) in content_words(source)])
    if index is None:
        return None
    words[index] = put(words[index].lower(), "___")
    return f'Which word fills the gap: "{" ".join(words)}"?'
