"""What a model wrote -> a text that can be a rung, or what is wrong with it.

`clean` takes off what surrounds the text and names the first fault; `faults` names all. Who writes ladders and who
checks them use the same rules.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from ..types import Context, Task

ALIKE = 0.9  # share of words in common, in order, above which two rungs are near-duplicates
COPIED = 0.8  # share of a text's runs of _RUN words that are in the context, from which on it counts as copied
_COVERED = 0.5  # share of the context that the best rung must not have, which may be made of its sentences
_RUN = 8


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a text cannot be a rung. kind : of `checking.findings.MEANING`. amount : how bad it is"""

    kind: str
    evidence: str
    amount: float = 1.0


def clean(
    text: str,
    task: Task | None = None,
    context: Context | None = None,
    *,
    finish_reason: str = "stop",
    others: Sequence[str] = (),
    best: bool = False,
) -> str | Fault:
    """What a model wrote, without what surrounds it; or the first fault that it has.

    Takes off white space, a block of thinking, one leading line that only announces the text ("Here is the summary:"),
    one label before it ("Summary:", the name of who speaks), a last line that is only a cue ("The text between them:"),
    and one pair of quotation marks around the whole. The rest is left as it is: a first line that names no kind of text
    ("Sure, bring these:"), or a quotation inside, belongs to the text.

    task : its word for a text and its length; None: not known. others : the ladder's other texts, which it must not
    nearly repeat. best : the best rung may be made of sentences of the context, if they are less than half of it
    A genuine text that opens like a refusal ("I'm sorry, but ...") is lost too; that costs one more attempt.
    """
    body = bare(text, task, context)
    for fault in faults(body, task, context, best=best):
        return fault
    if finish_reason == "length" and not ends(body):
        return Fault("unfinished", "it was cut before a sentence ended")
    if any(similarity(body, other) > ALIKE for other in others):
        return Fault("near-duplicate", "it is the same as another rung of the ladder")
    return body


def bare(text: str, task: Task | None = None, context: Context | None = None) -> str:
    """The text without what `clean` takes off."""
    noun = re.escape(task.text_noun if task else "text")
    body = _without_announcement(_THOUGHT.sub("", text).strip(), f"(?:{_NOUNS}|{noun})")
    label = rf"(?:{_cue(noun)}|(?:{_speakers(context)}):)"
    body = re.sub(rf"^[*_#\s]*{label}[*_]*\s+(?=\S)", "", body, count=1, flags=re.I)
    body = re.sub(rf"\n[*_#\s]*{_cue(f'(?:{_NOUNS}|{noun})')}[*_\s]*$", "", body, flags=re.I)
    return _unquoted(body.strip())


def faults(body: str, task: Task | None, context: Context | None, *, best: bool = False) -> Iterator[Fault]:
    """All that is wrong with a bare text by itself."""
    plain = body.replace("’", "'")
    if not any(character.isalnum() for character in body):
        yield Fault("failed", "it is empty")
        return
    if _REFUSAL.match(plain.lstrip('"“*_ ')):
        yield Fault("refusal", "it is a refusal")
        return
    if meta := _META.search(plain):
        yield Fault("meta-text", f"it says {meta.group().strip()!r}")
    if turn := re.search(rf"(?:^|\n|[.!?…\"”]\s)[\"“*_\s]*((?:{_speakers(context)}):)\s", body):
        yield Fault("second-turn", f"somebody else speaks: {turn.group(1)!r}")
    share = 0.0
    if context:
        share = copied(body, f"{context.text}\n{context.facts}")
    if context and share >= COPIED and (not best or copied(context.text, body) >= _COVERED):
        yield Fault("copied", f"{100 * share:.0f} % of it is copied from the context", share)
    if task and task.words:
        least, most = task.words
        n = len(body.split())
        evidence = f"it has {n} words, expected {least} to {most}"
        if n < least:
            yield Fault("short", evidence, least / n)
        elif n > most:
            yield Fault("long", evidence, n / most)


# ------------------------------------------------------------------------------------------------- two texts


def similarity(a: str, b: str) -> float:
    """Share of words that two texts have in common, in the same order; letter case and punctuation aside. 0 where it is
    ALIKE at most for certain."""
    matcher = SequenceMatcher(None, _words(a), _words(b), autojunk=False)
    # Both are upper bounds of the ratio, and much faster.
    near = matcher.real_quick_ratio() > ALIKE and matcher.quick_ratio() > ALIKE
    if not near:
        return 0.0
    return matcher.ratio()


def copied(text: str, source: str) -> float:
    """Share of a text's runs of eight words that are in the source too; 0 for a text that has none."""
    runs = _runs(text)
    if not runs:
        return 0.0
    return len(runs & _runs(source)) / len(runs)


def _words(text: str) -> list[str]:
    return re.findall(r"\w+(?:[.,'’]\w+)*", text.casefold())


def _runs(text: str) -> set[tuple[str, ...]]:
    words = _words(text)
    return {tuple(words[i : i + _RUN]) for i in range(len(words) - _RUN + 1)}


# ------------------------------------------------------------------------------------------------- one text

_THOUGHT = re.compile(r"^.*</think(?:ing)?>", re.S)  # templates may write the opening one
_QUOTES = (('"', '"'), ("“", "”"), ("«", "»"), ("'", "'"), ("‘", "’"))
_NOUNS = "text|version|summary|summaries|story|response|description|paragraph|draft|rewrite"
_YES = r"(?:sure|certainly|of course|absolutely|okay|ok)"
_OPENING = re.compile(rf"(?:{_YES}|here(?:'s| is| are)?)\b", re.I)  # announces a text if it also names a kind of text,
_BARE = re.compile(rf"(?:{_YES}\W*)?(?:here (?:it is|you go|you are))?:", re.I)  # or if nothing else is in the line
_CANNOT = r"i(?:'m unable to| am unable to|'m not able to| am not able to| cannot| can't| can not| won't| will not)"
_SERVE = (
    r"(?:help(?! (?:it|but|\w+ing|myself)\b)|assist|comply|provide|write|generate|create|produce|complete|answer"
    r"|respond|summari[sz]e|fulfil|offer|engage|continue|do (?:this|that|it|so))"
)
_REFUSAL = re.compile(
    r"(?:i'm|i am) (?:very |so |really )?sorry, but\b"
    r"|as an? (?:ai|artificial intelligence|large language model|language model)\b"
    rf"|(?:(?:i'm |i am )?sorry[,.]? |(?:i apologi[sz]e|my apologies|sorry), but )?"
    rf"{_CANNOT}(?: (?:\w+ )?{_SERVE}\w*\b|[.,]|$)",
    re.I,
)
_META = re.compile(  # a model on its own text or its task: what nobody writes into a summary, a story or a reply
    r"\b(?:worse|worst|better|best|improved|lower-quality|higher-quality|in-between) (?:summary|draft|rewrite)\b"
    r"|\bthis (?:version|summary|story|response|reply|text|draft|rewrite) (?:is|was|has been) "
    r"(?:intentionally|deliberately|purposely|meant to be)\b"
    r"|\bi(?: have|'ve) (?:rewritten|written (?:this|the) (?:version|summary|story|response|reply|text|draft))\b"
    r"|\b(?:an?|the|this) (?:good |full |short )?(?:summary|rewrite) (?:of the (?:entire|whole|full) \w+ )?"
    r"(?:would|should|could|needs?|must)\b"
    r"|\b(?:added|add) to the (?:summary|rewrite)\b"
    r"|\bnot supported by the (?:original|article|text|source|passage)\b"
    r"|\bthe main points? of the (?:article|conversation|dialogue|text|passage) (?:is|are|was|were)\b"
    r"|\bno heading, no introduction\b|\bremarks? about its quality\b|\bending on a full sentence\b|\ba full sentence:"
    r"|\bhere(?:'s| is) (?:the|a) (?:corrected|revised|rewritten|improved) (?:version|summary|response|story|text)\b"
    r"|\bmake the (?:summary|response|text|rewrite) (?:even )?more\b"
    r"|\[(?:your|insert|customer|company|name)\b[^\]\n]*\]"
    r"|</?think(?:ing)?>"
    r"|^\W*(?:note|explanation|rationale|word count)\b\W*:"
    r"|\bthe (?:new )?(?:summary|response|reply|text) (?:in )?between them\b",
    re.I | re.M,
)
_USUAL = r"(?i:user|assistant|human|bot|(?:person|speaker|agent|user) ?[a-d1-4])"
_TURN = re.compile(r"([^\W\d_][\w .'-]{0,24}):\s")


def _cue(noun: str) -> str:
    """A pattern for a line that only names the text: "The worst possible summary:"."""
    return rf"(?:(?:the|my|an?) )?(?:[\w-]+ ){{0,2}}{noun}(?: (?:in )?between(?: them)?)?:"


def _speakers(context: Context | None) -> str:
    """A pattern for who speaks in a conversation: the usual names, and those at the beginning of the context's lines,
    if some of them come back, as those of a list of facts do not."""
    if context is None:
        return _USUAL
    lines = [line for line in context.text.splitlines() if line.strip()]
    speakers = [match.group(1) for line in lines if (match := _TURN.match(line))]
    names = set(speakers)
    mostly_turns = 2 * len(speakers) > len(lines) > 1
    is_talk = mostly_turns and (len(names) < len(speakers) or max(map(len, names)) == 1)
    if not is_talk:
        return _USUAL
    return "|".join([_USUAL, *map(re.escape, sorted(names))])


def ends(text: str) -> bool:
    """Whether it ends with a sentence, or with a picture, which can end a message as well."""
    text = text.rstrip().rstrip("\"'”’»)]*_").rstrip()
    while text and unicodedata.category(text[-1]) in ("Mn", "Cf", "Sk"):  # Such characters change or join pictures.
        text = text[:-1]
    return text.endswith(tuple(".!?…。！？।॥؟۔")) or unicodedata.category(text[-1:] or " ") == "So"


def _without_announcement(text: str, nouns: str) -> str:
    line, _, rest = text.partition("\n")
    line = line.strip(" \t\r*_#").replace("’", "'")
    if not rest.strip() or not line.endswith(":") or len(line) > 120:
        return text
    names_text = _BARE.fullmatch(line) or re.search(rf"\b{nouns}\b", line, re.I)
    announces = _OPENING.match(line) and names_text
    if announces or re.fullmatch(_cue(nouns), line, re.I):
        return rest.strip()
    return text


def _unquoted(text: str) -> str:
    for opening, closing in _QUOTES:
        if len(text) > 2 and text.startswith(opening) and text.endswith(closing):
            inner = text[1:-1]
            quotes = re.sub(r"(?<=\w)['’](?=\w)", "", inner)  # an apostrophe is no quotation mark
            if opening not in quotes and closing not in quotes:
                return inner.strip()
    return text
