"""How texts look, and what two that are nearly alike differ in: the phrase that was replaced, the words damaged."""

from __future__ import annotations

import re
from difflib import SequenceMatcher

from synthscore.degrade.reading import to_ptb

SURFACES = ("raw", "lower", "ptb", "ptb-cased")


def surface(text: str, style: str) -> str:
    """The text in another look: as it is, lower-cased, or spaced (and lower-cased) like benchmark systems' outputs."""
    spaced = to_ptb(text) if style.startswith("ptb") else text
    return spaced.lower() if style in ("lower", "ptb") else spaced


def damaged_words(sound: str, text: str) -> tuple[bool, ...]:
    """Of each word of the text: does the sound text not have it here? What is missing shows at the word after it, or,
    at the end, at the last word."""
    before, words = sound.split(), text.split()
    marks = [False] * len(words)
    for step, _, _, start, stop in SequenceMatcher(None, before, words, autojunk=False).get_opcodes():
        if step == "delete":
            marks[min(start, len(words) - 1)] = True
        elif step != "equal":
            marks[start:stop] = [True] * (stop - start)
    return tuple(marks)


def replaced_phrase(before: str, after: str) -> tuple[str, str] | None:
    """The run of words in whose place another one stands, and that one, if nothing else differs."""
    words, others = before.split(), after.split()
    steps = [step for step in SequenceMatcher(None, words, others, autojunk=False).get_opcodes() if step[0] != "equal"]
    if len(steps) != 1 or steps[0][0] != "replace":
        return None
    _, start, stop, other_start, other_stop = steps[0]
    old, new = (
        re.sub(r"'s$", "", " ".join(run).strip('.,;:!?"()'))
        for run in (words[start:stop], others[other_start:other_stop])
    )
    return (old, new) if old and new and old.lower() != new.lower() else None


def _spoken(phrase: str) -> str:
    """A pattern for the phrase as whole words, in triples, too."""
    return rf"(?<![^\W_]){re.escape(phrase)}(?![^\W_])".replace(r"\ ", "[ _]")


def once(phrase: str, text: str) -> bool:
    """Whether the phrase stands in the text, and in one place only."""
    return len(re.findall(_spoken(phrase), text)) == 1


def exchanged(text: str, one: str, other: str) -> str:
    """The text with each of two phrases in the place of the other."""

    def put(match: re.Match[str]) -> str:
        new = other if match[0].replace("_", " ") == one else one
        return new.replace(" ", "_") if "_" in match[0] else new

    return re.sub(f"{_spoken(one)}|{_spoken(other)}", put, text)
