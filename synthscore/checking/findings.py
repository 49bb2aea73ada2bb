"""Ladders -> what is wrong with them: by their texts alone, and by what a judge says of their rungs. Pure; asks nobody.

A finding names its ladder and rungs, its kind and evidence, what to do, and which rungs writing again might mend. It is
*flagged*, or only noted where it is usual for who wrote the rungs: damage leaves neighbours alike and endings cut.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache
from itertools import combinations, pairwise
from typing import Literal

import numpy as np

from ..errors import TaskError
from ..judging.tasks import load_task
from ..ladders.prompted import clean
from ..ladders.write import schedule
from ..scoring.anchored.model import JudgeModel, variance
from ..scoring.anchored.scale import Scale
from ..scoring.anchored.scores import Asked, fitted
from ..signature import Signature
from ..types import BoolArray, FloatArray, IntArray, Ladder, Rung
from .rungs import LadderCheck, RungVerdicts

Kind = Literal[
    "failed",
    "near-duplicate",
    "copied",
    "refusal",
    "meta-text",
    "unfinished",
    "length",
    "inverted",
    "level",
    "cycle",
    "unanswered",
    "own-judge",
]

MEANING: dict[str, tuple[str, str]] = {
    "failed": ("a rung has no text", "repair it, or generate shorter ladders"),
    "near-duplicate": ("two rungs have nearly the same words", "repair it, or generate shorter ladders"),
    "copied": ("a rung is copied from the context", "repair it, or take a model that follows instructions better"),
    "refusal": ("a rung is a refusal", "repair it, or take another writer"),
    "meta-text": ("a rung talks about itself or its task", "repair it, or take another writer"),
    "unfinished": ("a rung does not end with a sentence", "repair it, or generate with more --max-new-tokens"),
    "length": (
        "length alone tells the rungs apart",
        "a judge that likes length sees it rise: score with --debias length, or generate with another writer",
    ),
    "inverted": ("the judge finds a higher rung worse", "repair it, read it (references show), or take another judge"),
    "level": ("the judge hardly tells two neighbours apart", "repair it, or generate shorter ladders"),
    "cycle": ("the judge finds A better than B, B than C, and C than A", "repair it, or take a stronger judge"),
    "unanswered": ("the judge could not answer", "see the reason: synthscore doctor shows the prompt"),
    "own-judge": (
        "the judge wrote the rungs that it judges",
        "models tend to favour their own words: judge with another model",
    ),
}
"""Kind of finding -> what it means, and what to do."""

ALIKE = 0.9  # share of words in common, in order, above which two rungs are near-duplicates
COPIED = 0.8  # share of a rung's runs of _RUN words that are in the context, above which it counts as copied
EVEN = 0.05  # margin up to which a judge counts as finding two rungs equally good
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


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong, or worth knowing, about a ladder.

    levels : the rungs that it is about; empty for the ladder as a whole
    evidence : what was seen, in words
    flagged : False where it is only noted
    rewrite : the rungs that, written again, might mend it
    amount : how bad it is, to compare findings of one kind on the same rungs
    """

    task: str
    context_id: str
    attribute: str
    levels: tuple[int, ...]
    kind: Kind
    evidence: str
    flagged: bool = True
    rewrite: tuple[int, ...] = ()
    amount: float = 1.0

    @property
    def advice(self) -> str:
        return MEANING[self.kind][1]

    def __str__(self) -> str:
        rungs = f" {'-'.join(map(str, self.levels))}" if self.levels else ""
        return f"{self.kind}{rungs}: {self.evidence}"


def text_findings(ladder: Ladder, judge: str = "") -> list[Finding]:
    """What the texts alone show. judge : name of the model that judges, "" for none"""
    found = [
        *(_finding(ladder, (r.level,), "failed", r.reason, rewrite=(r.level,)) for r in ladder.rungs if not r.text),
        *_alike(ladder),
        *(finding for rung in ladder.usable for finding in _of_rung(ladder, rung)),
        *_lengths(ladder),
        *_own_judge(ladder, judge),
    ]
    return sorted(found, key=lambda finding: finding.levels)


def judged_findings(ladder: Ladder, check: LadderCheck) -> list[Finding]:
    """What a judge's comparisons of the rungs show. check : of this ladder"""
    found = []
    neighbours = set(pairwise(check.levels))
    for (lower, higher), margin in check.pairs.items():
        levels, rewrite = (lower, higher), (last_written(ladder.n_rungs, (lower, higher)),)
        said = f"margin {margin:+.2f} of rung {higher} against rung {lower}"
        if margin < -EVEN:
            found.append(_finding(ladder, levels, "inverted", said, rewrite=rewrite, amount=-margin))
        elif margin <= EVEN and levels in neighbours:
            found.append(_finding(ladder, levels, "level", said, flagged=False, rewrite=rewrite))
    for a, b, c in check.cycles:
        one, other = (f"{c} beats {b}, {b} beats {a}", f"{a} beats {c}")
        if check.pairs[a, b] < 0:
            one, other = (f"{a} beats {b}, {b} beats {c}", f"{c} beats {a}")
        clear = min(abs(check.pairs[pair]) for pair in combinations((a, b, c), 2)) > EVEN
        said, rewrite = f"{one}, and {other}", (last_written(ladder.n_rungs, (a, b, c)),)
        found.append(_finding(ladder, (a, b, c), "cycle", said, flagged=clear, rewrite=rewrite))
    if check.reason:
        found.append(_finding(ladder, (), "unanswered", check.reason, amount=check.n_unanswered))
    return found


# ------------------------------------------------------------------------------------------------- positions


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """Where a judge puts the rungs of all ladders of one attribute and one length.

    scale : the judge and the positions
    gaps : context id -> float64, shape (N - 1,), nats; by how much the judge tells each rung from the one below it,
        discrimination x distance. NaN beside a rung without a text, and for a ladder of which nothing was answered
    information : context id -> what the ladder tells of a text that stands anywhere on 1..N, relative to an even ladder
        (see `information`)
    trouble : why the positions mean nothing, in a sentence; gaps and information are then NaN. "" where they do
    """

    scale: Scale
    gaps: Mapping[str, FloatArray]
    information: Mapping[str, float]
    trouble: str = ""


def place_rungs(said: RungVerdicts) -> list[Placed]:
    """Positions of the rungs under the judge, pooled over the ladders of one attribute and length (docs/anchored.md).

    said : all of one task. Ladders of which nothing was answered are expected at 1..N, with the error of that.
    """
    groups: dict[tuple[str, int], list[int]] = {}
    for index, ladder in enumerate(said.ladders):
        groups.setdefault((ladder.attribute, ladder.n_rungs), []).append(index)
    placed = []
    for (attribute, n_rungs), members in sorted(groups.items()):
        ladders = {said.ladders[index].context_id: said.ladders[index] for index in members}
        place = np.full(len(said.ladders), -1)
        place[members] = np.arange(len(members))
        rows = np.flatnonzero(place[said.places[:, 0]] >= 0)
        pair = said.places[rows]
        pair[:, 0] = place[pair[:, 0]]
        none = np.zeros(0, dtype=np.int64)
        asked = Asked(n_rungs, tuple(ladders), none, pair, said.verdicts.by_order[:, rows], said.verdicts.protocol)
        task = said.ladders[members[0]].task
        scale, _ = fitted(asked, ladders, task, attribute, said.verdicts.signature)
        by_order: BoolArray = np.logical_not(np.isnan(asked.by_order).any(axis=2))
        answered, trouble = set(pair[by_order.any(axis=0), 0].tolist()), _trouble(pair, by_order, scale)
        gaps, worth = {}, {}
        for index, (name, ladder) in enumerate(ladders.items()):
            known = np.array([rung.status == "ok" and index in answered and not trouble for rung in ladder.rungs])
            at = np.where(known, scale.ladders[name].mean, np.nan)
            gaps[name] = scale.judge.discrimination * np.diff(at)
            worth[name] = information(scale.judge, at[~np.isnan(at)])
        placed.append(Placed(scale, gaps, worth, trouble))
    return placed


def _trouble(pair: IntArray, answered: BoolArray, scale: Scale) -> str:
    """Why the answers place no rung. pair : as in Asked. answered : shape (n_orders, n_pairs)"""
    name = f"the ladders of {scale.task}/{scale.attribute} ({scale.n_rungs} rungs)"
    if not answered.any():
        return f"The judge answered nothing about {name}, so that nothing says where their rungs stand."
    if answered.any(axis=1).sum() == 1 and not _circles(pair[answered.any(axis=0)]):
        return (
            f"Of {name} neighbours alone were asked about, and in one order: whether the judge favours a place or sees "
            "a distance cannot be told apart. Ask in both orders, or about all pairs of three rungs or more."
        )
    if not scale.judge.rungs_rise:
        return (
            f"The judge does not see {name} rise, so that they are no scale: take another judge, or write other "
            "ladders."
        )
    return ""


def _circles(pair: IntArray) -> bool:
    """Whether questions about a ladder's rungs close a circle, so that distances must add up. pair : as in Asked"""
    rungs = np.unique(np.concatenate([pair[:, [0, 1]], pair[:, [0, 2]]]), axis=0)
    n_rungs, n_pairs = np.bincount(rungs[:, 0]), np.bincount(pair[:, 0])
    return bool((n_pairs >= np.maximum(n_rungs, 1)).any())  # a tree of n rungs has n - 1 pairs


def information(judge: JudgeModel, rungs: FloatArray) -> float:
    """What rungs at these positions tell of a text, relative to an even ladder, 1..N: 1.0 is as much.

        mean_x 1 / I(x; 1..N)  /  mean_x 1 / I(x; rungs)      I = sum over rungs and orders  w a^2 V      x even on 1..N

    1 / I is the variance of a text's estimated position; a, w, V are the judge's discrimination, and the weight and the
    variance of an answer. NaN for no rungs. Positions count as known: two rungs in the wrong order cost nothing here,
    since an anchored scale knows it; the paper's sum does not.
    """
    if not len(rungs):
        return float("nan")
    even = np.arange(1.0, judge.n_rungs + 1)
    return _mean_variance(judge, even) / _mean_variance(judge, rungs)


def _mean_variance(judge: JudgeModel, rungs: FloatArray) -> float:
    x = np.linspace(1.0, judge.n_rungs, 101)
    d = judge.discrimination * (x[:, None] - rungs)
    probs = judge.probs(d[..., None] + judge.position_bias * np.array([1.0, -1.0]))
    told = (judge.weight(probs) * variance(probs)).sum(axis=(1, 2)) * judge.discrimination**2
    return float((1 / told).mean())


# ------------------------------------------------------------------------------------------------- details


@cache
def _order(n_rungs: int) -> dict[int, int]:
    """Level -> place in the order of writing; the worst rung before the best."""
    return {step.level: place for place, step in enumerate(step for wave in schedule(n_rungs) for step in wave)}


def last_written(n_rungs: int, levels: Iterable[int]) -> int:
    """The one that fewest others are written from; of the two extremes, the worst: damage can be done again."""
    order = _order(n_rungs)
    inner = [level for level in levels if level not in (1, n_rungs)]
    return max(inner, key=order.__getitem__) if inner else min(levels)


def n_words(text: str) -> int:
    return len(text.split())


def _finding(
    ladder: Ladder,
    levels: tuple[int, ...],
    kind: Kind,
    evidence: str,
    *,
    flagged: bool = True,
    rewrite: tuple[int, ...] = (),
    amount: float = 1.0,
) -> Finding:
    return Finding(ladder.task, ladder.context_id, ladder.attribute, levels, kind, evidence, flagged, rewrite, amount)


def _by_plan(*rungs: Rung) -> bool:
    return all(rung.provenance.get("writer") in _PLAIN for rung in rungs)


def _alike(ladder: Ladder) -> Iterator[Finding]:
    words = {rung.level: rung.text.casefold().split() for rung in ladder.usable}
    for a, b in combinations(ladder.usable, 2):
        matcher = SequenceMatcher(None, words[a.level], words[b.level], autojunk=False)
        if matcher.real_quick_ratio() <= ALIKE or matcher.quick_ratio() <= ALIKE or matcher.ratio() <= ALIKE:
            continue
        levels, ratio = (a.level, b.level), matcher.ratio()
        said = f"{100 * ratio:.0f} % of the words of rungs {a.level} and {b.level} are the same, in the same order"
        yield _finding(
            ladder, levels, "near-duplicate", said, flagged=not _by_plan(a, b), amount=ratio,
            rewrite=(last_written(ladder.n_rungs, levels),),
        )  # fmt: skip


def _of_rung(ladder: Ladder, rung: Rung) -> Iterator[Finding]:
    where, rewrite = (rung.level,), (rung.level,)
    noun = _noun(ladder.task)
    body, reason = clean(rung.text, "stop", text_noun=noun)
    text = rung.text.strip()
    if body is None:
        kind: Kind = "refusal" if "refusal" in reason else "failed"
        yield _finding(ladder, where, kind, f"{reason}: {_opening(text)}", rewrite=rewrite)
    elif meta := _META.search(text.replace("’", "'")):
        yield _finding(ladder, where, "meta-text", f"it says {meta.group().strip()!r}", rewrite=rewrite)
    elif body != text:
        said = f"something stands around the text: {_opening(text)}"
        yield _finding(ladder, where, "meta-text", said, flagged=not _by_plan(rung), rewrite=rewrite)
    if not _ends(text):
        yield _finding(
            ladder, where, "unfinished", f"it ends: ...{text[-40:]!r}", flagged=not _by_plan(rung), rewrite=rewrite
        )
    if ladder.context:
        own, source = _runs(text), _runs(f"{ladder.context.text}\n{ladder.context.facts}")
        whole = _runs(ladder.context.text)
        copied = len(own & source) / len(own) if own else 0.0
        if copied >= COPIED:
            covered = len(own & whole) / len(whole) if whole else 0.0
            said = f"{100 * copied:.0f} % of it is copied from the context, {100 * covered:.0f} % of which it has"
            yield _finding(ladder, where, "copied", said, flagged=covered >= _COVERED, rewrite=rewrite, amount=covered)


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
    lengths = [n_words(rung.text) for rung in ladder.usable]
    if len(lengths) < 2 or max(lengths) <= _TIMES * min(lengths):
        return
    ways = {(b > a) - (b < a) for a, b in pairwise(lengths)}
    if len(ways) == 1:
        said = f"the rungs have {', '.join(map(str, lengths))} words"
        yield _finding(ladder, (), "length", said, amount=max(lengths) / min(lengths))


def _own_judge(ladder: Ladder, judge: str) -> Iterator[Finding]:
    models = {model_name(rung) for rung in ladder.usable} - {""}
    if judge and _bare(judge) in models:
        said = f"{judge} is the judge, and wrote rungs of this ladder"
        yield _finding(ladder, (), "own-judge", said, flagged=False)


def model_name(rung: Rung) -> str:
    """The model that wrote it, without its revision, in lower case; "" where none did or is named."""
    model = str(rung.provenance.get("model") or "")
    return _bare(dict(Signature.of_any(model).parts).get("model", model))


def _bare(model: str) -> str:
    return model.partition("@")[0].strip().lower()


@cache
def _noun(task: str) -> str:
    try:
        return load_task(task).text_noun
    except TaskError:  # a task of one's own, whose folder is not at hand
        return "text"


def _opening(text: str) -> str:
    return repr(text[:60] + ("..." if len(text) > 60 else ""))


def flagged(findings: Sequence[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.flagged]
