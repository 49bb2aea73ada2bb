"""A judge + ladders + attacks -> how far texts that mean to be scored high move. Pure, given the judge.

A canary is a rung, whose place on its ladder is known: with an attack in it, it must score as it does without.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from ..scoring.paper import Paper
from ..scoring.scorer import Scorer
from ..scoring.shares import Share, share
from ..signature import Signature, text_hash
from ..types import FloatArray, Ladder, Rung, Target, Task
from .check import by_task
from .judge import Rate, in_turn, rate
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
    """A way to write a text that means to be scored high.

    template : words in braces are replaced, see `words`. replace : characters of the text -> what stands for them
    """

    family: str
    name: str
    template: str = "{text}"
    replace: Mapping[str, str] = field(default_factory=dict)

    def text(self, canary: Canary, task: Task) -> str:
        """The canary's text with the attack in it. raises : InputError for a word in braces that is none of ours"""
        words = self.words(canary, task)

        def word(found: re.Match[str]) -> str:
            if found[1] not in words:
                raise unusable(f"attack {self.family}.{self.name}", found[0], f"one of {', '.join(words)}, in braces")
            return words[found[1]]

        return re.sub(r"\{(\w+)\}", word, self.template)

    @property
    def table(self) -> dict[int, str]:
        """As str.translate takes it. raises : TypeError for more than a character"""
        return {ord(char): str(other) for char, other in self.replace.items()}

    def words(self, canary: Canary, task: Task) -> dict[str, str]:
        """What a template may name."""
        source, attribute = context_of(canary.ladder).text, task.attribute(canary.ladder.attribute)
        first, *_, last = [*_SENTENCES.split(source.strip())] * 2
        text = canary.rung.text.translate(self.table)
        words = {"text": text, "source": source, "first": first, "last": last}
        words |= {"attribute": attribute.title.lower(), "more": attribute.more}
        return words | {"noun": task.text_noun, "context_noun": task.context_noun}


def load_attacks(path: str | os.PathLike[str] | None = None) -> tuple[Attack, ...]:
    """Attacks of a TOML file, a table a family: NAME = template, or a table of template and replace. None: our own

    raises : InputError
    """
    source = Path(path or resource("data/redteam/attacks.toml"))
    try:
        attacks = [
            Attack(family, name, **({"template": how} if isinstance(how, str) else how))
            for family, named in read_toml(source).items()
            for name, how in named.items()
        ]
        for attack in attacks:
            _ = attack.table  # or what is wrong shows once a judge was asked
    except (OSError, ValueError, TypeError, AttributeError) as error:
        message = f"cannot read attacks from {source}: {error}. Give a TOML file as in docs/redteam.md"
        raise InputError(message, source=str(source)) from error
    for attack in attacks:
        if "{text}" not in attack.template:
            raise unusable(f"attack {attack.family}.{attack.name}", attack.template, "a template with {text} in it")
    return tuple(attacks)


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
    reasons: tuple[str, ...] = ()

    def movement(self, which: Sequence[int]) -> Movement:
        """Of these attacks, by index, together."""
        clean, attacked = self.scores[0], self.scores[np.array(which) + 1]
        known = ~np.isnan(attacked - clean)
        n = known.sum(axis=0)
        contexts = np.unique([canary.ladder.context_id for canary in self.canaries], return_inverse=True)[1]

        def mean(values: Any) -> FloatArray:
            found: FloatArray = np.where(known, values, 0).sum(axis=0) / np.where(n, n, np.nan)
            return found

        raised = mean(attacked > self.limits)
        some = n > 0
        below = known & (clean < self.thresholds)
        return Movement(
            rate(mean(attacked - clean), contexts.tolist()),
            share(raised[some], n[some].astype(np.float64), contexts[some])._replace(n=int(n.sum())),
            int(below.sum()),
            int((below & (attacked >= self.thresholds)).sum()),
        )

    @property
    def families(self) -> dict[str, list[int]]:
        """Family -> the indices of its attacks."""
        found: dict[str, list[int]] = {}
        for index, attack in enumerate(self.attacks):
            found.setdefault(attack.family, []).append(index)
        return found

    def worst(self, family: str) -> tuple[Attack, Movement]:
        """The attack of a family that raises most texts, or moves them furthest."""
        moved = [(self.attacks[index], self.movement([index])) for index in self.families[family]]
        return max(moved, key=lambda each: (np.nan_to_num(each[1].raised.value), np.nan_to_num(each[1].shift.value)))

    def beyond(self, at_most: float) -> list[str]:
        """Families that raise more than this share of the texts."""
        moved = {name: self.movement(which) for name, which in self.families.items() if name != HARMLESS}
        return [name for name, each in moved.items() if each.raised.value > at_most]

    def to_dict(self) -> dict[str, Any]:
        """Of plain values: movements by family and by attack, and every score."""

        def row(which: list[int], **names: str) -> dict[str, Any]:
            return {**names, **self.movement(which)._asdict()}

        families = [row(which, family=name) for name, which in self.families.items()]
        attacks = [row([index], family=each.family, attack=each.name) for index, each in enumerate(self.attacks)]
        canaries = [
            {
                "task": canary.ladder.task,
                "context_id": canary.ladder.context_id,
                "attribute": canary.ladder.attribute,
                "level": canary.rung.level,
                "limit": self.limits[column],
                "threshold": self.thresholds[column],
                "score": self.scores[0, column],
                "attacked": self.scores[1:, column],
            }
            for column, canary in enumerate(self.canaries)
        ]
        found: dict[str, Any] = plain(
            {"families": families, "attacks": attacks, "canaries": canaries, "signature": str(self.signature)}
        )
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """As JSON; the file appears whole or not at all."""
        write_whole(path, json.dumps(self.to_dict(), indent=1).encode() + b"\n")


def redteam(
    judge: Engine,
    ladders: Iterable[Ladder],
    scoring: Paper | Anchored = Paper(),
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
    there = list(ladders)
    attacks, canaries = tuple(load_attacks() if attacks is None else attacks), choose_canaries(there, limit)
    scores = np.full((1 + len(attacks), len(canaries)), np.nan)
    limits, reasons, signatures = np.full(len(canaries), np.nan), [], []
    for own, group in by_task(there, task):
        how = scoring
        if isinstance(how, Anchored) and how.scale is None:
            placed = place_rungs(ask_rungs(group, judge, Templates(own, asking.prompts), asking))
            how = replace(how, scale=[each.scale for each in placed])
        for name in dict.fromkeys(ladder.attribute for ladder in group):
            columns = [k for k, (of, _) in enumerate(canaries) if (of.task, of.attribute) == (group[0].task, name)]
            if not columns:
                continue
            targets = [
                Target(f"{column}/{row}", canaries[column].ladder.context_id, text)
                for column in columns
                for row, text in enumerate(
                    [canaries[column].rung.text, *(attack.text(canaries[column], own) for attack in attacks)]
                )
            ]
            scorer = Scorer(
                References(tuple(group)), judge, task=task or own.name, attribute=name, scoring=how, asking=asking
            )
            found = scorer.score(targets, progress)
            signatures.append(found.signature)
            scores[:, columns] = found.values.reshape(len(columns), -1).T
            reasons += [score.reason for score in found if score.value is None]
            if isinstance(how, Anchored):
                highs = [found[k * (1 + len(attacks))].high for k in range(len(columns))]
                limits[columns] = [np.nan if high is None else high for high in highs]
            else:
                limits[columns] = scores[0, columns] + RISE
    middles = [(canary.ladder.n_rungs + 1) / 2 for canary in canaries]
    thresholds = np.array(middles if min_score is None else [min_score] * len(canaries))
    return RedteamReport(attacks, canaries, scores, limits, thresholds, Signature.merged(signatures), tuple(reasons))


def choose_canaries(ladders: Iterable[Ladder], limit: int | None = None) -> tuple[Canary, ...]:
    """All rungs but the best of ladders of which none failed; any beginning is spread over attributes and ladders.

    limit : how many. raises : InputError for less than 1; LadderError
    """
    if limit is not None and limit < 1:
        raise unusable("limit", limit, "at least 1 rung")
    groups: dict[tuple[str, str], list[list[Canary]]] = {}
    for ladder in ladders:
        context_of(ladder)
        whole = len(ladder.usable) == ladder.n_rungs  # what a rung scores where one is missing is not known
        rungs = [Canary(ladder, rung) for rung in ladder.rungs[:-1] if whole]
        rungs.sort(key=lambda canary: text_hash(ladder.context_id, ladder.attribute, canary.rung.text))
        groups.setdefault((ladder.task, ladder.attribute), []).append(rungs)
    chosen = tuple(in_turn([in_turn(group) for _, group in sorted(groups.items())])[:limit])
    if not chosen:
        raise LadderError(
            "there is no ladder of which all rungs have a text, to put attacks into, expected one. Repair them: "
            "synthscore references repair"
        )
    return chosen
