"""Controlled damage: text + attribute + severity + rng -> a worse text. No model, no clock.

A damage is a small function that makes ONE edit, or finds nothing to damage and returns None. `damage_path` chains
edits, each on top of the one before; `degrade` takes the first part of that chain. So with the same seed a higher
severity is the lower severity's text with more edits.

English only. All functions take raw text and also text in the look of benchmark systems ("it ca n't , he said .").
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from numpy.random import Generator

from ..errors import DegradeError
from ..io.fields import shorten
from ..resources import read_toml, resource
from . import claims, whole  # noqa: F401  their edits enter the register
from .edits import EDITS, Edit, Material
from .reading import sentences, word_pairs


@dataclass(frozen=True, slots=True)
class Damage:
    """A kind of damage.

    lowers : task -> attributes that it surely lowers
    also : task -> attributes that it may lower as well: no verdict about these should be learnt from it
    share, unit : one edit is share / (number of units in the text) of the full severity, at most 1. Units are
        "text" (one), "sentence", "word", or "fact" (lines of the context)
    apply : ONE edit; None where it finds nothing to damage
    """

    name: str
    lowers: Mapping[str, frozenset[str]]
    also: Mapping[str, frozenset[str]]
    share: float
    unit: str
    apply: Edit

    def severity(self, text: str, material: Material) -> float:
        """How much of the full severity one edit of this kind is, in a text of this length."""
        match self.unit:
            case "text":
                n_units = 1
            case "sentence":
                n_units = max(2, len(sentences(text)))
            case "word":
                n_units = len(text.split())
            case "fact":
                n_units = len([line for line in material.context.splitlines() if line.strip()])
            case unit:
                raise ValueError(
                    f"the unit of the damage {self.name} is {unit!r}, expected text, sentence, word or fact"
                )
        return min(1.0, self.share / max(1, n_units))


@dataclass(frozen=True, slots=True)
class DamagedText:
    """A text on a path of growing damage: the last edit's kind, and the severity reached, in [0, 1]."""

    text: str
    kind: str
    severity: float


# Which damage this is; part of the key of every rung that it writes. Raise it (to any other 12 hex digits) when the
# same seed gives another text, and only then: moving, renaming or tidying code leaves every rung as it is. The tests
# compare the texts that come out.
REVISION = "2cd5176fbea6"

NOTHING = Material()


@cache
def attributes() -> Mapping[str, frozenset[str]]:
    """Task -> the attributes that some damage lowers."""
    return {task: frozenset(names) for task, names in _file()["attributes"].items()}


@cache
def damages() -> Mapping[str, Damage]:
    """Name -> kind of damage, in an order that counts: seeds choose by it."""
    kinds = {}
    for name, row in _file()["damages"].items():
        kinds[name] = Damage(
            name=name,
            lowers=_named(row["lowers"]),
            also=_named(row["also"]),
            share=row["share"],
            unit=row["unit"],
            apply=EDITS[name],
        )
    return kinds


@cache
def _file() -> dict[str, Any]:
    return read_toml(resource("data/degrade/damages.toml"))


def _named(table: Mapping[str, str]) -> dict[str, frozenset[str]]:
    """task = "fluency grammar", or "all" -> {task: attributes}"""
    named = {}
    for task, names in table.items():
        named[task] = frozenset(names.split())
        if names == "all":
            named[task] = attributes()[task]
    return named


@cache
def damages_for(task: str, attribute: str) -> tuple[str, ...]:
    """The kinds of damage that surely lower this attribute of this task."""
    return tuple(name for name, damage in damages().items() if attribute in damage.lowers.get(task, ()))


def damage_path(
    text: str,
    kinds: Sequence[str],
    rng: Generator,
    material: Material = NOTHING,
    *,
    least: int = 1,
    longest: int | None = None,
) -> Iterator[DamagedText]:
    """Ever worse versions of the text, until severity 1 and `least` edits, or until nothing more can be damaged.

    May be empty. No edit makes the text longer than `longest` words. An edit counts only if it takes the text further
    from the original (in adjacent word pairs), so that no edit undoes another one.
    """
    original = word_pairs(text)
    current = text
    distance = 0
    severity = 0.0
    n_edits = 0
    while severity < 1 - 1e-9 or n_edits < least:
        twice = [*rng.permutation(len(kinds)), *rng.permutation(len(kinds))]  # an edit may fail by bad luck
        for index in twice:
            damage = damages()[kinds[index]]
            made = damage.apply(current, rng, material)
            if made is None or not made.strip():
                continue
            if longest is not None and len(made.split()) > max(longest, len(current.split())):
                continue
            made_distance = _distance(original, made)
            if made_distance > distance:
                current = made
                distance = made_distance
                n_edits += 1
                severity = min(1.0, severity + damage.severity(text, material))
                yield DamagedText(current, damage.name, severity)
                break
        else:
            return


GRADES = 8  # edits that a text is given at least, where it allows them: enough for a ladder of nine
LONGEST = 1.3  # times the words of the text, or SPARE more words: length must not give the damage away
SPARE = 15


def degrade(
    text: str, *, task: str, attribute: str, severity: float, rng: Generator, material: Material = NOTHING
) -> tuple[str, tuple[str, ...]]:
    """The text with this share of all the damage planned for it, and the kind of each edit that was made: 0 is the text
    itself, without one; 1 is as bad as it gets.

    raises : DegradeError for a severity outside [0, 1], an attribute that no damage lowers, or a text in which nothing
        can be damaged.
    """
    if not 0 <= severity <= 1:
        raise DegradeError(f"cannot degrade to severity {severity}: expected a number in [0, 1]", severity=severity)
    if severity == 0:
        return text, ()
    plan = plan_damage(text, task=task, attribute=attribute, rng=rng, material=material)
    return at_severity(text, plan, severity)


def at_severity(text: str, plan: Sequence[DamagedText], severity: float) -> tuple[str, tuple[str, ...]]:
    """As `degrade`, by a plan that was made before.

    The texts at N evenly spaced severities from 0 to 1 all differ if the plan has N - 1 edits or more.
    """
    if severity == 0:
        return text, ()
    done = plan[: max(1, int(severity * len(plan) + 0.5))]
    return done[-1].text, tuple(step.kind for step in done)


def plan_damage(
    text: str, *, task: str, attribute: str, rng: Generator, material: Material = NOTHING
) -> tuple[DamagedText, ...]:
    """All the damage planned for a text, an edit a step, one or more.

    The plan has GRADES edits or more where the text allows it, small ones first; what replaces the whole text at once
    comes last, if at all.
    raises : DegradeError for an attribute that no damage lowers, or a text in which nothing can be damaged
    """
    kinds = damages_for(task, attribute)
    if not kinds:
        known = attributes().get(task)
        instead = f"attributes of it: {', '.join(sorted(known))}" if known else f"tasks: {', '.join(attributes())}"
        message = f"cannot damage {attribute!r} of {task!r}: no kind of damage is known for it, but for the {instead}"
        raise DegradeError(message, task=task, attribute=attribute)
    plan = _plan(text, kinds, rng, material)
    if not plan:
        raise DegradeError(
            f"cannot lower the {attribute} of the {task} text {shorten(text)}: found nothing to damage with "
            f"{', '.join(kinds)}. Give a longer text, or more material (context, facts, foreign)",
            task=task,
            attribute=attribute,
        )
    return plan


def _plan(text: str, kinds: Sequence[str], rng: Generator, material: Material) -> tuple[DamagedText, ...]:
    """The planned edits."""
    at_once = [kind for kind in kinds if damages()[kind].unit == "text"]
    small = [kind for kind in kinds if kind not in at_once]
    n_words = len(text.split())
    longest = int(max(LONGEST * n_words, n_words + SPARE))

    def path(start: str, some: Sequence[str], least: int) -> Iterator[DamagedText]:
        return damage_path(start, some, rng, material, least=least, longest=longest)

    if not small:
        return tuple(path(text, kinds, GRADES))
    plan = tuple(path(text, small, GRADES))
    worst = plan[-1].text if plan else text
    original = word_pairs(text)
    for made in path(worst, at_once, 1):
        if _distance(original, made.text) > _distance(original, worst):
            return (*plan, made)
    return plan


def _distance(original: Counter[tuple[str, str]], text: str) -> int:
    """Adjacent word pairs that only one of the two has."""
    pairs = word_pairs(text)
    return (pairs - original).total() + (original - pairs).total()
