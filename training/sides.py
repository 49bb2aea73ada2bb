"""A good text -> texts of known severity, and what is asked about them.

`make_sides` makes all texts of a group from one good text: some as good, in other words or with damage to *other*
attributes, and some with damage to the attribute asked about, on paths of growing severity. The same texts may be asked
about on two sides: in two attributes, of which each damage lowers one alone (crossed), or under two contexts, in which
what is wrong under the one is right under the other (turned).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from numpy.random import Generator

from synthscore.degrade.damage import DamagedText, attributes, damage_path, damages, damages_for
from synthscore.degrade.edits import Material

from .good_texts import Base, reworded
from .machine_text import DamageSource, machine_path, machines_for
from .phrases import exchanged, once, replaced_phrase

SMALLEST = 0.1  # severity worth a verdict
CLOSE = 1e-9  # Severities that differ by less are equal.
TURNED = {  # damage that replaces a word or a name; asked about under the context as it is, and with both exchanged
    ("summarization", "consistency"): (
        "entity-same-document",
        "entity-other-document",
        "number-changed",
        "content-word-replaced",
    ),
    ("data_to_text", "semantics"): ("wrong-value", "entity-other-document", "number-changed", "content-word-replaced"),
    ("dialogue", "groundedness"): ("ungrounded-fact",),
}
FACT_DAMAGE = ("swapped-roles", "entity-same-document", "negation", "number-changed")
FACTS_FIRST = 0.6  # of the paths of damage where one of these lowers the attribute: what counts of words cannot see
OF_OTHERS = (
    0.65  # share of the further good texts that are another one of the context's (Base.twins), where it has some
)
_DULL = frozenset({"generic-reply", "shortened-reply", "echoed-turn", "dropped-facts"})
UNSURE = {  # dull replies are rated lower in these as well, whatever their wording
    ("dialogue", "naturalness"): _DULL,
    ("dialogue", "understandability"): _DULL,
}
MIN_GAP = 0.3  # least difference between severities that come from different kinds of damage
GRADED, FINE = 0.45, 0.3  # shares of groups with ever more damaged worse texts, and with one that is hardly damaged
TWO_BAD = 0.35  # share of groups with two texts that are equally bad
OTHER_DAMAGE_GOOD, OTHER_DAMAGE_WORSE = 0.4, 0.25  # shares of good and of worse texts with damage to another attribute
REWORDED = 0.85  # share of the further good texts that are reworded


@dataclass(frozen=True, slots=True)
class Item:
    """A text of a group, before its looks. kind : as in Group.kinds

    sound : the text without the damage in the attribute asked about; None where more was done to it than that damage
    """

    text: str
    severity: float
    kind: str
    sound: str | None = None


@dataclass(frozen=True, slots=True)
class Side:
    """What is asked about the texts of a group, under which context, and how bad they then are."""

    attribute: str
    context: str
    facts: str
    items: Sequence[Item]


def make_sides(
    base: Base, task: str, attribute: str, rng: Generator, source: DamageSource, *, turned: float, crossed: float
) -> Sequence[Side]:
    """Texts of known severity, asked about in one attribute or two, under the context or under two; empty: none.

    source : what the damage takes its words from
    turned, crossed : probability that the same texts are asked about on two sides, where they can be
    """
    if (task, attribute) in TURNED and rng.random() < turned:
        return _turned(base, task, attribute, rng, source)
    # The attributes that damage can lower without lowering this one, and the other way round.
    apart = []
    for other in sorted(attributes()[task]):
        if _only(task, attribute, other) and _only(task, other, attribute):
            apart.append(other)
    if apart and rng.random() < crossed:
        other = apart[int(rng.integers(len(apart)))]
        by_attribute = _crossed(base, task, (attribute, other), rng, source)
        return [Side(name, base.context, base.facts, items) for name, items in by_attribute.items()]
    items = _items(base, task, attribute, rng, source)
    if not items:
        return ()
    return [Side(attribute, base.context, base.facts, items)]


def _turned(base: Base, task: str, attribute: str, rng: Generator, source: DamageSource) -> Sequence[Side]:
    """A good text and one with a word or name changed, under the context, and under one in which it is changed as well:
    what was wrong is then right. Nothing but the context tells."""
    exchange = _exchange(base, TURNED[task, attribute], rng, source)
    if exchange is None:
        return ()
    right = _with_reworded(base.text, exchange.old, rng)
    wrong = _with_reworded(exchange.step.text, exchange.new, rng)
    sides = []
    for context, facts, good, bad in (
        (base.context, base.facts, right, wrong),
        (exchange.context, exchange.facts, wrong, right),
    ):
        items = [Item(text, 0.0, "good", text) for text in good]
        items.append(Item(bad[0], exchange.step.severity, exchange.step.kind, good[0]))
        # Which words of a reworded text are damaged is not known.
        items += [Item(text, exchange.step.severity, exchange.step.kind) for text in bad[1:]]
        sides.append(Side(attribute, context, facts, sorted(items, key=lambda item: item.text)))
    return sides


class _Exchange(NamedTuple):
    """Damage that replaces the phrase `old` by `new`, and context and facts in which both are exchanged."""

    step: DamagedText
    old: str
    new: str
    context: str
    facts: str


def _exchange(base: Base, kinds: Sequence[str], rng: Generator, source: DamageSource) -> _Exchange | None:
    """The first damage, of these kinds in random order, that replaces a phrase which context or facts have as well."""
    for index in rng.permutation(len(kinds)):
        path = damage_path(base.text, (kinds[int(index)],), rng, source.material)
        step = next(path, None)
        if step is None:
            continue
        change = replaced_phrase(base.text, step.text)
        if change is None:
            continue
        old, new = change
        if not once(old, base.text) or not once(new, step.text):
            continue
        context = exchanged(base.context, old, new)
        facts = exchanged(base.facts, old, new)
        if (context, facts) != (base.context, base.facts):
            return _Exchange(step=step, old=old, new=new, context=context, facts=facts)
    return None


def _with_reworded(text: str, phrase: str, rng: Generator) -> list[str]:
    """The text, and the same in other words where these leave the phrase alone."""
    other, _ = reworded(text, rng)
    if other != text and once(phrase, other):
        return [text, other]
    return [text]


def _only(task: str, attribute: str, other: str) -> tuple[str, ...]:
    """Kinds of damage that surely lower the attribute, and surely not the other one."""
    return tuple(kind for kind in damages_for(task, attribute) if kind in _neutral(task, other))


@cache
def neutral_for(task: str, attribute: str) -> tuple[str, ...]:
    """The kinds of damage that lower some attribute of this task, and surely not this one."""
    neutral = []
    for name, damage in damages().items():
        lowered = damage.lowers.get(task)
        if not lowered:
            continue
        perhaps_lowered = damage.also.get(task, frozenset())
        if attribute not in lowered | perhaps_lowered:
            neutral.append(name)
    return tuple(neutral)


def _neutral(task: str, attribute: str) -> tuple[str, ...]:
    """Kinds of damage that surely do not lower the attribute."""
    return tuple(kind for kind in neutral_for(task, attribute) if kind not in UNSURE.get((task, attribute), ()))


def _crossed(
    base: Base, task: str, asked: tuple[str, str], rng: Generator, source: DamageSource
) -> dict[str, list[Item]]:
    """The same texts for two attributes: a good one or two, some with damage to one attribute alone, and some to the
    other alone. What tells the texts apart in the one is of no matter in the other."""
    good = [(base.text, "good")]
    others = [twin for twin in base.twins if twin != base.text]
    if others and rng.random() < OF_OTHERS:
        as_good = (others[int(rng.integers(len(others)))], "good")
    else:
        as_good = reworded(base.text, rng)
    if as_good[0] != base.text:
        good.append(as_good)
    sides: dict[str, list[Item]] = {name: [Item(text, 0.0, kind, text) for text, kind in good] for name in asked}
    for name, other in (asked, asked[::-1]):
        start = sides[name][int(rng.integers(len(good)))]
        severities = ((SMALLEST,), (0.5,), (SMALLEST, 0.6))
        targets = severities[int(rng.integers(len(severities)))]
        for item in _path(start, task, name, rng, source, targets, _only(task, name, other)):
            sides[name].append(item)
            sides[other].append(Item(item.text, 0.0, item.kind, item.text))
    return sides


def _items(base: Base, task: str, attribute: str, rng: Generator, source: DamageSource) -> list[Item] | None:
    """Texts of known severity: some as good as the base, some worse, on one or two paths of damage."""
    good = [Item(base.text, 0.0, "good", base.text)]
    for _ in range(int(rng.integers(1, 3))):
        good.append(_as_good(base, task, attribute, rng, source.material))
    shape = rng.random()
    start = good[int(rng.integers(len(good)))]
    targets: tuple[float, ...] = (SMALLEST, 0.35)
    if shape < GRADED:
        targets = (SMALLEST, 0.5, 1.0)
    steps = _path(start, task, attribute, rng, source, targets)
    if not steps:
        return None
    if shape < GRADED:
        worse = steps
    elif shape < GRADED + FINE:
        worse = steps[:1]
    else:  # Two kinds of damage, whose severities are far apart.
        first = steps[int(rng.integers(len(steps)))]
        least = first.severity + MIN_GAP
        other = _path(good[0], task, attribute, rng, source, (min(1.0, least), 1.0))
        worse = [first, *(step for step in other if step.severity >= least - CLOSE)]
    if rng.random() < TWO_BAD:
        item = worse[int(rng.integers(len(worse)))]
        other_words, _ = reworded(item.text, rng)
        # Which words of the reworded text are damaged is not known.
        worse.append(Item(other_words, item.severity, item.kind))
    worse = [_with_other_damage(item, task, attribute, rng, source.material, OTHER_DAMAGE_WORSE) for item in worse]
    # Of equal texts the first counts. The order decides which texts a group takes, and nano's data depend on it.
    unique = {item.text: item for item in reversed([*good, *worse])}
    return list(reversed(unique.values()))


def _as_good(base: Base, task: str, attribute: str, rng: Generator, material: Material) -> Item:
    """A text that is as good as the base in this attribute, if not in all."""
    text = base.text
    kind = "good"
    if base.twins and rng.random() < OF_OTHERS:
        text = base.twins[int(rng.integers(len(base.twins)))]
    if rng.random() < REWORDED:
        text, kind = reworded(text, rng)
    item = Item(text, 0.0, kind, text)
    return _with_other_damage(item, task, attribute, rng, material, OTHER_DAMAGE_GOOD)


def _with_other_damage(item: Item, task: str, attribute: str, rng: Generator, material: Material, share: float) -> Item:
    """In this share of cases: the text with one or two edits that hurt another attribute, and surely not this one."""
    kinds = _neutral(task, attribute)
    if item.severity:  # Only edits that leave the damage where it is.
        kinds = tuple(kind for kind in kinds if damages()[kind].unit == "word" and kind != "cut-off-ending")
    if not kinds or rng.random() >= share:
        return item
    kind = kinds[int(rng.integers(len(kinds)))]
    path = damage_path(item.text, (kind,), rng, material)
    step = next(path, None)
    if step is None:
        return item
    if step.severity < 0.2 and rng.random() < 0.4:
        step = next(path, step)
    if item.severity:
        return Item(step.text, item.severity, f"{item.kind}+{kind}")
    return Item(step.text, 0.0, kind, step.text)


def _path(
    start: Item,
    task: str,
    attribute: str,
    rng: Generator,
    source: DamageSource,
    targets: Sequence[float],
    every: Sequence[str] = (),
) -> list[Item]:
    """Steps on one path of damage: for each target severity the first step that reaches it, as far as the path goes.

    targets : rising severities
    every : kinds to choose from; default: all that lower the attribute
    returns : none where four paths reached no target
    """
    machines = () if every else machines_for(task, attribute, source)
    every = every or damages_for(task, attribute)
    of_facts = [kind for kind in FACT_DAMAGE if kind in every]
    if of_facts and rng.random() < FACTS_FIRST:
        machines = ()
        every = of_facts
    for _ in range(4):
        size = min(len(every), 1 + int(rng.integers(3)))
        kinds = tuple(every[int(i)] for i in rng.choice(len(every), size, replace=False))
        used: list[str] = []
        if start.kind in _neutral(task, attribute):
            used.append(start.kind)
        path: list[Item] = []
        wanted = list(targets)
        if machines and rng.random() < source.machines:
            steps = machine_path(start.text, machines, rng, source)
        else:
            steps = damage_path(start.text, kinds, rng, source.material)
        for step in steps:
            if step.kind not in used:
                used.append(step.kind)
            if step.severity >= wanted[0] - CLOSE:
                path.append(Item(step.text, step.severity, "+".join(used), start.text))
                wanted = [target for target in wanted if target > step.severity + CLOSE]
            if not wanted:
                break
        if path:
            return path
    return []
