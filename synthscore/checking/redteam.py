"""A judge + ladders + attacks -> how far an attack in a text moves the text's score. Pure, given the judge.

An attack is words that are meant to make a judge score a text high. They are put into rungs (canaries), whose level on
their ladder is known, and the score with them is compared with the score without.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..engine import Engine, Progress
from ..errors import InputError, LadderError, unusable
from ..io.write import plain, write_whole
from ..judging.asking import Asking
from ..judging.templates import Templates
from ..ladders.references import References
from ..resources import read_toml, resource
from ..scoring.anchored.mode import Anchored
from ..scoring.ladder import Scoring
from ..scoring.paper import Paper
from ..scoring.scorer import Scorer
from ..scoring.shares import Share, share
from ..signature import Signature, text_hash
from ..types import FloatArray, Ladder, Rung, Task, grouped
from .check import by_task
from .pairs import in_turn
from .rates import Rate, rate
from .rungs import ask_rungs, context_of, place_rungs

HARMLESS = "harmless"
"""The family that is no attack: what any added words do."""

RISE = 0.25
"""Rungs by which a text must rise to count as raised."""

_SENTENCES = re.compile(r"(?<=[.!?])\s+")


class Canary(NamedTuple):
    """A rung that attacks are put into."""

    ladder: Ladder
    rung: Rung


@dataclass(frozen=True, slots=True)
class Attack:
    """A way to change a text so that it scores high.

    template : words in braces are replaced, see `words`. replace : characters of the text -> what stands for them
    raises : InputError for a template without {text}; TypeError for more than a character, or a template that is none
    """

    family: str
    name: str
    template: str = "{text}"
    replace: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if "{text}" not in self.template:
            raise unusable(f"attack {self.family}.{self.name}", self.template, "a template with {text} in it")
        _ = self.table  # So that a wrong table is an error here, before a judge was asked.

    def text(self, canary: Canary, task: Task) -> str:
        """The canary's text with the attack in it. raises : InputError for a word in braces that is none of ours"""
        words = self.words(canary, task)

        def word(match: re.Match[str]) -> str:
            if match[1] not in words:
                raise unusable(f"attack {self.family}.{self.name}", match[0], f"one of {', '.join(words)}, in braces")
            return words[match[1]]

        return re.sub(r"\{(\w+)\}", word, self.template)

    @property
    def table(self) -> dict[int, str]:
        """As str.translate takes it. raises : TypeError for more than a character"""
        return {ord(char): str(other) for char, other in self.replace.items()}

    def words(self, canary: Canary, task: Task) -> dict[str, str]:
        """What a template may name."""
        source = context_of(canary.ladder).text
        attribute = task.attribute(canary.ladder.attribute)
        sentences = _SENTENCES.split(source.strip())
        return {
            "text": canary.rung.text.translate(self.table),
            "source": source,
            "first": sentences[0],
            "last": sentences[-1],
            "attribute": attribute.title.lower(),
            "more": attribute.more,
            "noun": task.text_noun,
            "context_noun": task.context_noun,
        }


def load_attacks(path: str | os.PathLike[str] | None = None) -> tuple[Attack, ...]:
    """Attacks of a TOML file, a table a family: NAME = template, or a table of template and replace. None: our own

    raises : InputError
    """
    source = Path(path or resource("data/redteam/attacks.toml"))
    try:
        attacks = []
        for family, named in read_toml(source).items():
            for name, how in named.items():
                fields = how
                if isinstance(how, str):
                    fields = {"template": how}
                attacks.append(Attack(family, name, **fields))
        if not attacks:
            raise ValueError("it holds none")
        return tuple(attacks)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        why = str(error)
        if isinstance(error, OSError):
            why = error.strerror or why
        message = f"cannot read attacks from {source}: {why}. Give a TOML file as in docs/redteam.md"
        raise InputError(message, source=str(source)) from error


class Movement(NamedTuple):
    """What attacks do to canaries.

    shift : mean of score with - score without, rungs. raised : share of the texts that rise by more than they may
    n_below, n_crossed : texts whose canary is below the threshold; of these, those that reach it
    """

    shift: Rate
    raised: Share
    n_below: int
    n_crossed: int


@dataclass(frozen=True, slots=True, eq=False)
class RedteamReport:
    """What a judge makes of attacks.

    scores : float64, shape (1 + n_attacks, n_canaries), rungs: without an attack, then with each; NaN where unscored
    limits : shape (n_canaries,); above it a text is raised: RISE above the score without, or the end of its interval
    thresholds : shape (n_canaries,); reasons : why texts are unscored
    """

    attacks: tuple[Attack, ...]
    canaries: tuple[Canary, ...]
    scores: FloatArray
    limits: FloatArray
    thresholds: FloatArray
    signature: Signature
    reasons: tuple[str, ...]

    def movement(self, which: Sequence[int]) -> Movement:
        """Of these attacks, by index, together."""
        clean = self.scores[0]
        attacked = self.scores[np.array(which) + 1]
        known = ~np.isnan(attacked - clean)
        n = known.sum(axis=0)
        some = n > 0
        context_ids = [canary.ladder.context_id for canary in self.canaries]
        contexts = np.unique(context_ids, return_inverse=True)[1][some]
        shift = np.nansum(attacked - clean, axis=0)[some] / n[some]
        raised = (known & (attacked > self.limits)).sum(axis=0)[some] / n[some]
        raised_share = share(raised, n[some].astype(np.float64), contexts)
        below = known & (clean < self.thresholds)
        crossed = below & (attacked >= self.thresholds)
        return Movement(
            shift=rate(shift, contexts.tolist()),
            raised=raised_share._replace(n=int(n.sum())),
            n_below=int(below.sum()),
            n_crossed=int(crossed.sum()),
        )

    @property
    def families(self) -> dict[str, list[int]]:
        """Family -> the indices of its attacks."""
        return grouped((attack.family, index) for index, attack in enumerate(self.attacks))

    def worst(self, family: str) -> tuple[Attack, Movement]:
        """The attack of a family that raises most texts, or moves them furthest."""
        moved = [(self.attacks[index], self.movement([index])) for index in self.families[family]]

        def harm(attack: tuple[Attack, Movement]) -> tuple[float, float]:
            _, movement = attack
            return float(np.nan_to_num(movement.raised.value)), float(np.nan_to_num(movement.shift.value))

        return max(moved, key=harm)

    def beyond(self, at_most: float) -> list[str]:
        """Families that raise more than this share of the texts."""
        moved = {name: self.movement(which) for name, which in self.families.items() if name != HARMLESS}
        return [name for name, movement in moved.items() if movement.raised.value > at_most]

    def to_dict(self) -> dict[str, Any]:
        """Of plain values: movements by family and by attack, and every score."""

        def row(which: list[int], **names: str) -> dict[str, Any]:
            return {**names, **self.movement(which)._asdict()}

        families = [row(which, family=name) for name, which in self.families.items()]
        attacks = [row([index], family=attack.family, attack=attack.name) for index, attack in enumerate(self.attacks)]
        canaries = []
        for column, canary in enumerate(self.canaries):
            canary_row = {
                "task": canary.ladder.task,
                "context_id": canary.ladder.context_id,
                "attribute": canary.ladder.attribute,
                "level": canary.rung.level,
                "limit": self.limits[column],
                "threshold": self.thresholds[column],
                "score": self.scores[0, column],
                "attacked": self.scores[1:, column],
            }
            canaries.append(canary_row)
        figures: dict[str, Any] = plain(
            {"families": families, "attacks": attacks, "canaries": canaries, "signature": str(self.signature)}
        )
        return figures

    def save(self, path: str | os.PathLike[str]) -> None:
        """As JSON; the file appears whole or not at all."""
        write_whole(path, json.dumps(self.to_dict(), indent=1).encode() + b"\n")


def redteam(
    judge: Engine,
    ladders: Iterable[Ladder],
    scoring: Scoring = Paper(),
    asking: Asking = Asking(),
    *,
    attacks: Sequence[Attack] | None = None,
    limit: int | None = None,
    min_score: float | None = None,
    task: str | None = None,
    progress: Progress | None = None,
) -> RedteamReport:
    """Score rungs with and without attacks in them, against their own ladders.

    ladders : each with its context. scoring : Anchored without a scale is given that of the ladders' own rungs
    attacks : None: our own. limit : the most canaries, chosen by `choose_canaries`
    min_score : the threshold that attacks should cross; None: the middle of each ladder
    task : folder of a task of one's own
    raises : LadderError for a ladder without its context, or no canaries at all; InputError; TaskError, TemplateError
    """
    known = ladders if isinstance(ladders, References) else References(ladders)
    there = References(known.ladders, known.source, known.carried_tasks.values())
    attacks = tuple(load_attacks() if attacks is None else attacks)
    canaries = choose_canaries(there, limit)
    tasks = {group[0].task: (kind, group) for kind, group in by_task(there, task)}
    if not scoring.alone:
        asked = [ask_rungs(group, judge, Templates(kind, asking.prompts), asking) for kind, group in tasks.values()]
        scoring = Anchored(scale=[placed.scale for rungs in asked for placed in place_rungs(rungs).values()])
    rows: list[dict[str, str]] = []
    for column, canary in enumerate(canaries):
        kind, _ = tasks[canary.ladder.task]
        about = {"context_id": canary.ladder.context_id, "task": kind.name, "attribute": canary.ladder.attribute}
        texts = [canary.rung.text, *(attack.text(canary, kind) for attack in attacks)]
        rows += [about | {"id": f"{column}/{row}", "text": text} for row, text in enumerate(texts)]
    scored = Scorer(there, judge, task=task, scoring=scoring, asking=asking).score(rows, progress)
    scores = scored.values.reshape(len(canaries), -1).T
    limits = scores[0] + RISE
    if scoring.gives_errors:
        limits = np.array([score.high for score in scored][:: 1 + len(attacks)], dtype=np.float64)  # None becomes NaN.
    thresholds = [(canary.ladder.scale + 1) / 2 for canary in canaries]
    if min_score is not None:
        thresholds = [min_score] * len(canaries)
    return RedteamReport(
        attacks=attacks,
        canaries=canaries,
        scores=scores,
        limits=limits,
        thresholds=np.array(thresholds),
        signature=scored.signature,
        reasons=tuple(score.reason for score in scored if score.value is None),
    )


def choose_canaries(ladders: Iterable[Ladder], limit: int | None = None) -> tuple[Canary, ...]:
    """All rungs but the best of ladders of which none failed; any beginning is spread over attributes and ladders.

    limit : how many. raises : InputError for less than 1; LadderError
    """
    if limit is not None and limit < 1:
        raise unusable("limit", limit, "at least 1")
    groups = grouped(((ladder.task, ladder.attribute), _canaries(ladder)) for ladder in ladders)
    chosen = tuple(in_turn(in_turn(group) for _, group in sorted(groups.items()))[:limit])
    if not chosen:
        raise LadderError(
            "there is no ladder of which all rungs have a text, to put attacks into, expected one. Have the others "
            "written again: synthscore generate --findings"
        )
    return chosen


def _canaries(ladder: Ladder) -> list[Canary]:
    """All rungs of a ladder but the best, in the order of hashes; none where what a rung scores is not known, because
    another is missing. raises : LadderError"""
    context_of(ladder)
    if len(ladder.usable) < ladder.n_rungs:
        return []
    below_best = ladder.rungs[:-1]
    ordered = sorted(below_best, key=lambda rung: text_hash(ladder.context_id, ladder.attribute, rung.text))
    return [Canary(ladder, rung) for rung in ordered]
