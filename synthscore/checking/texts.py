"""Ladders -> what is wrong with them by their texts alone: no judge, no files."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from difflib import SequenceMatcher
from functools import cache
from itertools import combinations, pairwise

from ..errors import TaskError
from ..judging.tasks import load_task
from ..ladders.prompted import clean
from ..signature import Signature
from ..types import Ladder, Rung
from .findings import Finding, last_written

ALIKE = 0.9  # share of words in common, in order, above which two rungs are near-duplicates
COPIED = 0.8  # share of a rung's runs of _RUN words that are in the context, above which it counts as copied
_COVERED = 0.5  # share of the context that a copy of it has at least
_RUN = 8
_TIMES = 2.0  # longest rung / shortest
_PLAIN = ("degrade", "person")  # writers whose rungs differ by little, or end early, on purpose
_ENDS = (".", "!", "?", "…", "。", "！", "？", "।", "॥", "؟", "۔")
_CLOSING = "\"'”’»)]*_"
_META = re.compile(  # a model on its own text: what nobody writes into a summary, a story or a reply
    r"\b(?:worse|worst|better|best|improved|lower-quality|higher-quality|in-between) (?:summary|draft|rewrite)\b"
    r"|\bthis (?:version|summary|story|response|reply|text|draft|rewrite) (?:is|was|has been) "
    r"(?:intentionally|deliberately|purposely|meant to be)\b"
    r"|\bi(?: have|'ve) (?:rewritten|written (?:this|the) (?:version|summary|story|response|reply|text|draft))\b"
    r"|^\W*(?:note|explanation|rationale|word count)\b\W*:",
    re.I | re.M,
)


def text_findings(ladder: Ladder, judge: str = "") -> list[Finding]:
    """What the texts alone show. judge : name of the model that judges, "" for none"""
    found = [
        *(Finding((r.level,), "failed", r.reason, rewrite=(r.level,)) for r in ladder.rungs if not r.text),
        *_alike(ladder),
        *(found for rung in ladder.usable for found in _of_rung(ladder, rung)),
        *_lengths(ladder),
        *_own_judge(ladder, judge),
    ]
    return sorted(found, key=lambda each: each.levels)


def _on_purpose(*rungs: Rung) -> bool:
    return all(rung.provenance.get("writer") in _PLAIN for rung in rungs)


def _alike(ladder: Ladder) -> Iterator[Finding]:
    words = {rung.level: rung.text.casefold().split() for rung in ladder.usable}
    for a, b in combinations(ladder.usable, 2):
        matcher = SequenceMatcher(None, words[a.level], words[b.level], autojunk=False)
        if matcher.real_quick_ratio() <= ALIKE or matcher.quick_ratio() <= ALIKE or matcher.ratio() <= ALIKE:
            continue
        levels, ratio = (a.level, b.level), matcher.ratio()
        seen = f"{100 * ratio:.0f} % of the words of rungs {a.level} and {b.level} are the same, in the same order"
        yield Finding(
            levels, "near-duplicate", seen, flagged=not _on_purpose(a, b), amount=ratio,
            rewrite=(last_written(ladder.n_rungs, levels),),
        )  # fmt: skip


def _of_rung(ladder: Ladder, rung: Rung) -> Iterator[Finding]:
    where, rewrite = (rung.level,), (rung.level,)
    noun = _noun(ladder.task)
    body, reason = clean(rung.text, "stop", text_noun=noun)
    text = rung.text.strip()
    if body is None:
        kind = "refusal" if "refusal" in reason else "failed"
        yield Finding(where, kind, f"{reason}: {_opening(text)}", rewrite=rewrite)
    elif meta := _META.search(text.replace("’", "'")):
        yield Finding(where, "meta-text", f"it says {meta.group().strip()!r}", rewrite=rewrite)
    elif body != text:
        seen = f"something stands around the text: {_opening(text)}"
        yield Finding(where, "meta-text", seen, flagged=not _on_purpose(rung), rewrite=rewrite)
    if not _ends(text):
        yield Finding(
            where, "unfinished", f"it ends: ...{text[-40:]!r}", flagged=not _on_purpose(rung), rewrite=rewrite
        )
    if ladder.context:
        own, source = _runs(text), _runs(f"{ladder.context.text}\n{ladder.context.facts}")
        whole = _runs(ladder.context.text)
        copied = len(own & source) / len(own) if own else 0.0
        if copied >= COPIED:
            covered = len(own & whole) / len(whole) if whole else 0.0
            seen = f"{100 * copied:.0f} % of it is copied from the context, {100 * covered:.0f} % of which it has"
            yield Finding(where, "copied", seen, flagged=covered >= _COVERED, rewrite=rewrite, amount=covered)


def _ends(text: str) -> bool:
    """With a sentence, or with a picture, which ends a message as well."""
    text = text.rstrip(_CLOSING).rstrip()
    while text and unicodedata.category(text[-1]) in ("Mn", "Cf", "Sk"):  # what pictures are changed and joined by
        text = text[:-1]
    return text.endswith(_ENDS) or unicodedata.category(text[-1:] or " ") == "So"


def _runs(text: str) -> set[tuple[str, ...]]:
    """All runs of _RUN words, letter case and punctuation aside."""
    words = re.findall(r"\w+", text.casefold())
    return {tuple(words[i : i + _RUN]) for i in range(len(words) - _RUN + 1)}


def _lengths(ladder: Ladder) -> Iterator[Finding]:
    lengths = [len(rung.text.split()) for rung in ladder.usable]
    if len(lengths) < 2 or max(lengths) <= _TIMES * min(lengths):
        return
    ways = {(b > a) - (b < a) for a, b in pairwise(lengths)}
    if len(ways) == 1:
        seen = f"the rungs have {', '.join(map(str, lengths))} words"
        yield Finding((), "length", seen, amount=max(lengths) / min(lengths))


def _own_judge(ladder: Ladder, judge: str) -> Iterator[Finding]:
    writers = (str(rung.provenance.get("model") or "") for rung in ladder.usable)
    if judge and _bare(judge) in {_bare(dict(Signature.of_any(name).parts).get("model", name)) for name in writers}:
        seen = f"{judge} is the judge, and wrote rungs of this ladder"
        yield Finding((), "own-judge", seen, flagged=False)


def _bare(model: str) -> str:
    """Without its revision, in lower case."""
    return model.partition("@")[0].strip().lower()


@cache
def _noun(task: str) -> str:
    try:
        return load_task(task).text_noun
    except TaskError:  # a task of one's own, whose folder is not at hand
        return "text"


def _opening(text: str) -> str:
    return repr(text[:60] + ("..." if len(text) > 60 else ""))
