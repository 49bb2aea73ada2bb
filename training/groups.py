"""Documents of corpora -> groups: a few texts for one context, whose damage in one attribute is known.

Of each document, `groups` chooses what is needed most (`_Tally`: task and attribute) and takes a good text that the
document itself offers (good_texts.py). All other texts of the group are made from that one:

    severity 0    edits that keep the meaning, and damage to *other* attributes
    above 0       damage to the attribute asked about (synthscore.degrade.damage, machine_text.py)

A group is kept where the lengths of its texts do not tell which is better (`_Balance`). Knows nothing of files,
prompts, tokens or models.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from typing import NamedTuple

from numpy.random import Generator

from synthscore.degrade.damage import DamagedText, attributes, damage_path, damages, damages_for
from synthscore.degrade.edits import Material

from .good_texts import BUILDERS, LIMITS, Base, Reasons, reworded
from .machine_text import Source, machine_path, machines_for
from .phrases import SURFACES, damaged_words, exchanged, once, replaced_phrase, surface

CARELESS = frozenset({"RasaHQ/STAR"})  # too many slips of the pen to stand as good texts
WEIGHTS = {"summarization": 0.43, "dialogue": 0.38, "story": 0.12, "data_to_text": 0.05, "question": 0.02}
SOURCES = {
    "article": ("summarization", "data_to_text", "question", "dialogue"),
    "dialogue": ("dialogue",),
    "story": ("story",),
}
FROM_ARTICLES = {(task, name) for task in SOURCES["article"] for name in attributes()[task] if task != "dialogue"}
FROM_ARTICLES.add(("dialogue", "groundedness"))  # Of dialogue, articles give this attribute alone.
STYLES = {  # share of groups that are raw, in benchmark look, and mixed
    "summarization": (0.25, 0.50, 0.25),
    "dialogue": (0.35, 0.50, 0.15),
    "story": (0.50, 0.30, 0.20),
    "data_to_text": (0.45, 0.40, 0.15),
    "question": (0.70, 0.15, 0.15),
}
ONE_TEXT = ("data_to_text", "question")  # tasks with one good text for all attributes of a document
SMALLEST = 0.1  # severity worth a verdict
CLOSE = 1e-9  # Severities that differ by less are equal.
LONGER_WINS = {  # how much more often the longer text may be the better one: here length is part of what is asked
    ("summarization", "relevance"): 0.4,
    ("dialogue", "engagingness"): 0.55,
    ("dialogue", "overall"): 0.5,
    ("dialogue", "groundedness"): 0.5,
    ("dialogue", "coherence"): 0.45,
    ("dialogue", "naturalness"): 0.35,
    ("dialogue", "understandability"): 0.3,
}
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
NO_FULL_STOP = 0.25  # of the replies: it is no damage
OF_OTHERS = 0.65  # of the good texts, where the context has others of another length that are as good
_DULL = frozenset({"generic-reply", "shortened-reply", "echoed-turn", "dropped-facts"})
UNSURE = {  # dull replies are rated lower in these as well, whatever their wording
    ("dialogue", "naturalness"): _DULL,
    ("dialogue", "understandability"): _DULL,
}
LEFT_OUT = {  # share of the documents: replies of one line, old novels and bookings would be most of all
    "jfainberg/self_dialogue_corpus": 0.85,
    "COST-ELTeC/ELTeC-eng": 0.5,
    "xenotaur/LCATS": 0.5,
    "facebookresearch/accentor": 0.9,
    "google-research-datasets/dstc8-schema-guided-dialogue": 0.9,
    "google-research-datasets/Taskmaster": 0.9,
    "kushalchawla/CaSiNo": 0.8,
    "abachaa/MTS-Dialog": 0.8,
    "eth-nlped/mathdial": 0.8,
}
RICH = frozenset({"alexa/Topical-Chat"})  # long conversations about facts: as many groups as there are attributes
MIN_GAP = 0.3  # between severities that come from different kinds of damage
GRADED, FINE = 0.45, 0.3  # shares of groups whose worse texts are more and more damaged, or one that is hardly damaged
TWO_BAD = 0.35  # share of groups with two texts that are equally bad
OTHER_DAMAGE_GOOD, OTHER_DAMAGE_WORSE = 0.4, 0.25  # shares of good and of worse texts with damage to another attribute
REWORDED = 0.85  # share of the further good texts that are reworded


@dataclass(frozen=True, slots=True)
class Shares:
    """How much of each kind of data there is.

    crossed : of the groups, where two attributes can be damaged apart: the same texts are asked about both
    turned : of the groups, where damage can be turned (TURNED): the same texts are asked about under two contexts
    two_looks : of the groups: one of the texts stands there twice, in two looks
    machine : of the paths of damage, where machines damage the attribute at all
    long : of the contexts: 220 words or more
    """

    crossed: float = 0.35
    turned: float = 0.4
    two_looks: float = 0.25
    machine: float = 0.4
    long: float = 0.15


@dataclass(frozen=True, slots=True)
class Group:
    """Texts for one context. Severity is known damage in the attribute, in [0, 1]; equal severities mean Similar."""

    task: str
    attribute: str
    context: str
    facts: str
    texts: tuple[str, ...]
    severities: tuple[float, ...]
    kinds: tuple[str, ...]  # per text: "good", edits that keep the meaning, or kinds of damage; joined by "+"
    damaged: tuple[tuple[bool, ...] | None, ...] = ()  # per text, its words: where the damage is; None: not known

    def __post_init__(self) -> None:
        if not 2 <= len(self.texts) == len(self.severities) == len(self.kinds):
            raise ValueError(f"{len(self.texts)} texts, {len(self.severities)} severities, {len(self.kinds)} kinds")
        if len(set(self.texts)) < len(self.texts):
            raise ValueError(f"{self.task}/{self.attribute}: texts of a group must differ")


def groups(
    documents: Iterator[Mapping[str, str]],
    rng: Generator,
    *,
    tasks: Mapping[str, float] = WEIGHTS,
    max_words: int = 500,
    per_document: int = 4,
    shares: Shares | None = None,
    weak_replies: Sequence[str] = (),
    reasons: Reasons | None = None,
) -> Iterator[Group]:
    """Groups in the proportions of `tasks`, as far as the kinds of documents allow.

    max_words : of a context
    per_document : attempts at each document, each of which gives up to two groups; rich sources have one for each
        attribute
    shares : of the kinds of data
    weak_replies : that a weak language model wrote (weak_replies.py): damaged ones beside people's
    reasons : counts why a document or an attempt gave no group
    """
    shares = shares or Shares()
    reasons = Counter() if reasons is None else reasons
    pools: dict[str, deque[str]] = {kind: deque(maxlen=32) for kind in SOURCES}
    triples: deque[str] = deque(maxlen=32)
    tally = _Tally(tasks)
    balance = _Balance()
    for document in documents:
        kind = document["kind"]
        text = document["text"]
        source = document.get("source", "")
        if why := _why_left_out(kind, source, rng):
            reasons[f"{kind}: {why}"] += 1
            continue
        # Other documents of the kind lend their words to damage, so that the first ones give no groups.
        pool = pools[kind]
        open_tasks = [task for task in SOURCES[kind] if tasks.get(task, 0) > 0]
        if len(pool) < 3 or not open_tasks:
            reasons[f"{kind}: {'first documents' if open_tasks else 'no task'}"] += 1
            pool.append(text)
            continue
        options = tally.options(kind, open_tasks)
        rich = source in RICH
        most_groups = len(attributes()["dialogue"]) if rich else per_document
        for _ in range(most_groups):
            kinds_so_far = [name for name in pools if pools[name]]
            reachable = [task for task in tasks if any(task in SOURCES[name] for name in kinds_so_far)]
            task, enough = tally.choose_task(options, reachable)
            if not task:
                reasons[f"{kind}: all tried"] += 1
                break
            if enough and not rich:
                reasons[f"{kind}: enough of {task}"] += 1
                break
            attribute = tally.choose_attribute(task, options[task], rng)
            options[task].remove(attribute)
            foreign = tuple(pool[int(index)] for index in rng.choice(len(pool), 3, replace=False))
            if task == "data_to_text":
                foreign += tuple(triples)[:4]
            n_words = _context_words(rng, attribute, max_words, shares.long)
            base = BUILDERS[task](text, attribute, rng, n_words, foreign, reasons)
            if base is None:
                if task in ONE_TEXT:  # It cannot be made for another attribute, either.
                    options[task] = []
                continue
            if len(base.context.split()) > max_words:
                reasons[f"{task}: context too long"] += 1
                continue
            material = Source(Material(base.context, base.facts, foreign), weak_replies, shares.machine)
            for group in _groups(base, task, attribute, rng, material, shares, balance, reasons):
                tally.count(task, group.attribute)
                if task == "data_to_text":
                    triples.append(group.context)
                yield group
        pool.append(text)


def _why_left_out(kind: str, source: str, rng: Generator) -> str:
    """Why a document is not used; "" where it is."""
    if source in CARELESS:
        return "carelessly written source"
    if kind == "dialogue" and rng.random() < LEFT_OUT.get(source, 0.0):
        return "enough of this source"
    return ""


class _Tally:
    """How many groups were made of each task and attribute, and which should come next."""

    def __init__(self, weights: Mapping[str, float]) -> None:
        self.weights = weights
        self.by_task: Counter[str] = Counter()
        self.by_attribute: Counter[tuple[str, str]] = Counter()

    def count(self, task: str, attribute: str) -> None:
        self.by_task[task] += 1
        self.by_attribute[task, attribute] += 1

    def options(self, kind: str, tasks: Sequence[str]) -> dict[str, list[str]]:
        """Task -> the attributes that a document of this kind can be used for."""
        options = {}
        for task in tasks:
            names = sorted(attributes()[task])
            if kind == "article":
                names = [name for name in names if (task, name) in FROM_ARTICLES]
            options[task] = names
        # Of dialogue, articles give groundedness alone, which should not be more than a sixth.
        if kind == "article" and self.by_attribute["dialogue", "groundedness"] > self.by_task["dialogue"] / 6:
            options.pop("dialogue", None)
        return options

    def choose_task(self, options: Mapping[str, Sequence[str]], reachable: Sequence[str]) -> tuple[str, bool]:
        """The task with most groups missing, "" where none has attributes left; and whether even it has enough."""
        total = sum(self.by_task[task] for task in reachable) + 1
        weight = sum(self.weights[task] for task in reachable)
        missing = {}
        for task, names in options.items():
            if names:
                missing[task] = self.weights[task] / weight * total - self.by_task[task]
        if not missing:
            return "", False
        task = max(missing, key=lambda name: missing[name])
        allowed_excess = 2 + 0.01 * total
        return task, missing[task] < -allowed_excess

    def choose_attribute(self, task: str, names: Sequence[str], rng: Generator) -> str:
        """The attribute with fewest groups, or in a quarter of the cases any."""
        if rng.random() < 0.75:
            return min(names, key=lambda name: self.by_attribute[task, name])
        return names[int(rng.integers(len(names)))]


# ------------------------------------------------------------------------------------------- a group from a good text


@dataclass(frozen=True, slots=True)
class _Item:
    """A text of a group, before its looks. kind : as in Group.kinds

    sound : the text without the damage in the attribute asked about; None where more was done to it than that damage
    """

    text: str
    severity: float
    kind: str
    sound: str | None = None


class _Balance:
    """Keeps the longer text the better one in half of the pairs of an attribute, or more where LONGER_WINS says so."""

    def __init__(self) -> None:
        # (Task, attribute) -> pairs won by the longer text less pairs won by the shorter, in characters and in words.
        self.net: dict[tuple[str, str], tuple[int, int]] = {}
        self.pairs: Counter[tuple[str, str]] = Counter()

    def takes(self, key: tuple[str, str], texts: Sequence[str], severities: Sequence[float]) -> bool:
        """Whether the group keeps the balance; it is counted if so. A group may lessen an excess that is too large."""
        n_pairs = sum(one != other for one, other in combinations(severities, 2))
        in_characters, in_words = self.net.get(key, (0, 0))
        more_characters = _net_longer([len(text) for text in texts], severities)
        more_words = _net_longer([len(text.split()) for text in texts], severities)
        total = self.pairs[key] + n_pairs
        low = -max(4, 0.03 * total)
        high = max(-low, LONGER_WINS.get(key, 0.0) * total)
        for old, more in ((in_characters, more_characters), (in_words, more_words)):
            new = old + more
            if (new > high and more >= 0) or (new < low and more <= 0):
                return False
        self.net[key] = (in_characters + more_characters, in_words + more_words)
        self.pairs[key] += n_pairs
        return True


def _net_longer(lengths: Sequence[int], severities: Sequence[float]) -> int:
    """Pairs of texts of which the longer one is the better, less those of which the shorter one is."""
    net = 0
    for (length, severity), (other_length, other_severity) in combinations(zip(lengths, severities, strict=True), 2):
        if length == other_length or severity == other_severity:
            continue
        longer_is_better = (length > other_length) == (severity < other_severity)
        net += 1 if longer_is_better else -1
    return net


@dataclass(frozen=True, slots=True)
class _Side:
    """What is asked about the texts of a group, under which context, and how bad they then are."""

    attribute: str
    context: str
    facts: str
    items: Sequence[_Item]


def _groups(
    base: Base,
    task: str,
    attribute: str,
    rng: Generator,
    source: Source,
    shares: Shares,
    balance: _Balance,
    reasons: Reasons,
) -> list[Group]:
    """One group, or two of the same texts, which ask about two attributes or under two contexts; none where no damage
    fits."""
    why = "no damage fits"
    for _ in range(5):
        sides = _sides(base, task, attribute, rng, source, shares)
        if not sides:
            continue
        order = _choose_texts(task, sides, rng)
        if not order:
            why = "text too long or too short"
            continue
        if task == "dialogue":
            sides = _drop_full_stops(sides, rng)
        looks, context_look = _looks(task, len(order), rng)
        if len(order) < 5 and rng.random() < shares.two_looks:  # Looks have nothing to do with quality.
            order, looks = _shown_twice(order, looks, rng)
        shown = [sides[0].items[index].text for index in order]
        texts = tuple(surface(text, look) for text, look in zip(shown, looks, strict=True))
        if len(set(texts)) < len(texts):
            why = "texts alike"
            continue
        made = []
        for side in sides:
            items = [side.items[index] for index in order]
            severities = tuple(round(item.severity, 4) for item in items)
            if not balance.takes((task, side.attribute), texts, severities):
                why = "length would tell"
                continue
            group = Group(
                task=task,
                attribute=side.attribute,
                context=surface(side.context, context_look),
                facts=surface(side.facts, context_look),
                texts=texts,
                severities=severities,
                kinds=tuple(item.kind for item in items),
                damaged=_mark_damage(items, looks, texts),
            )
            made.append(group)
        if made:
            return made
    reasons[f"{task}/{attribute}: {why}"] += 1
    return []


def _choose_texts(task: str, sides: Sequence[_Side], rng: Generator) -> list[int]:
    """Up to five texts of a length that the task allows, in random order; none where too few fit, or no side tells them
    apart."""
    low, high = LIMITS[task]
    items = sides[0].items
    fitting = [index for index, item in enumerate(items) if low <= len(item.text.split()) <= high]
    order = [fitting[int(index)] for index in rng.permutation(len(fitting))[:5]]
    if len(order) < 3:
        return []
    for side in sides:
        severities = {side.items[index].severity for index in order}
        if len(severities) < 2:
            return []
    return order


def _mark_damage(
    items: Sequence[_Item], looks: Sequence[str], texts: Sequence[str]
) -> tuple[tuple[bool, ...] | None, ...]:
    """Group.damaged of these texts in these looks."""
    damaged: list[tuple[bool, ...] | None] = []
    for item, look, text in zip(items, looks, texts, strict=True):
        if item.sound is None:
            damaged.append(None)
        else:
            damaged.append(damaged_words(surface(item.sound, look), text))
    return tuple(damaged)


def _drop_full_stops(sides: Sequence[_Side], rng: Generator) -> list[_Side]:
    """Some of the texts without the full stop at their end, as people chat."""
    without = rng.random(len(sides[0].items)) < NO_FULL_STOP

    def end(item: _Item, bare: bool) -> _Item:
        one_word = " " not in item.text
        if not bare or one_word or item.text.endswith(".."):
            return item
        sound = item.sound
        if sound is not None:
            sound = sound.removesuffix(".")
        return replace(item, text=item.text.removesuffix("."), sound=sound)

    ended = []
    for side in sides:
        items = [end(item, bool(bare)) for item, bare in zip(side.items, without, strict=True)]
        ended.append(replace(side, items=items))
    return ended


def _shown_twice(order: list[int], looks: list[str], rng: Generator) -> tuple[list[int], list[str]]:
    """One of the texts once more, in another look."""
    chosen = int(rng.integers(len(order)))
    others = [look for look in SURFACES if look != looks[chosen]]
    other_look = others[int(rng.integers(len(others)))]
    return [*order, order[chosen]], [*looks, other_look]


def _sides(base: Base, task: str, attribute: str, rng: Generator, source: Source, shares: Shares) -> Sequence[_Side]:
    """Texts of known severity, asked about in one attribute or two, under the context or under two; empty: none."""
    if (task, attribute) in TURNED and rng.random() < shares.turned:
        return _turned(base, task, attribute, rng, source)
    # The attributes that damage can lower without lowering this one, and the other way round.
    apart = []
    for other in sorted(attributes()[task]):
        if _only(task, attribute, other) and _only(task, other, attribute):
            apart.append(other)
    if apart and rng.random() < shares.crossed:
        other = apart[int(rng.integers(len(apart)))]
        crossed = _crossed(base, task, (attribute, other), rng, source)
        return [_Side(name, base.context, base.facts, items) for name, items in crossed.items()]
    items = _items(base, task, attribute, rng, source)
    if not items:
        return ()
    return [_Side(attribute, base.context, base.facts, items)]


def _turned(base: Base, task: str, attribute: str, rng: Generator, source: Source) -> Sequence[_Side]:
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
        items = [_Item(text, 0.0, "good", text) for text in good]
        items.append(_Item(bad[0], exchange.step.severity, exchange.step.kind, good[0]))
        # Which words of a reworded text are damaged is not known.
        items += [_Item(text, exchange.step.severity, exchange.step.kind) for text in bad[1:]]
        sides.append(_Side(attribute, context, facts, sorted(items, key=lambda item: item.text)))
    return sides


class _Exchange(NamedTuple):
    """Damage that replaces the phrase `old` by `new`, and context and facts in which both are exchanged."""

    step: DamagedText
    old: str
    new: str
    context: str
    facts: str


def _exchange(base: Base, kinds: Sequence[str], rng: Generator, source: Source) -> _Exchange | None:
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


def _crossed(base: Base, task: str, asked: tuple[str, str], rng: Generator, source: Source) -> dict[str, list[_Item]]:
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
    sides: dict[str, list[_Item]] = {name: [_Item(text, 0.0, kind, text) for text, kind in good] for name in asked}
    for name, other in (asked, asked[::-1]):
        start = sides[name][int(rng.integers(len(good)))]
        severities = ((SMALLEST,), (0.5,), (SMALLEST, 0.6))
        targets = severities[int(rng.integers(len(severities)))]
        for item in _path(start, task, name, rng, source, targets, _only(task, name, other)):
            sides[name].append(item)
            sides[other].append(_Item(item.text, 0.0, item.kind, item.text))
    return sides


def _items(base: Base, task: str, attribute: str, rng: Generator, source: Source) -> list[_Item] | None:
    """Texts of known severity: some as good as the base, some worse, on one or two paths of damage."""
    good = [_Item(base.text, 0.0, "good", base.text)]
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
        worse.append(_Item(other_words, item.severity, item.kind))
    worse = [_with_other_damage(item, task, attribute, rng, source.material, OTHER_DAMAGE_WORSE) for item in worse]
    # Of equal texts the first counts. The order decides which texts a group takes, and nano's data depend on it.
    unique = {item.text: item for item in reversed([*good, *worse])}
    return list(reversed(unique.values()))


def _as_good(base: Base, task: str, attribute: str, rng: Generator, material: Material) -> _Item:
    """A text that is as good as the base in this attribute, if not in all."""
    text = base.text
    kind = "good"
    if base.twins and rng.random() < OF_OTHERS:
        text = base.twins[int(rng.integers(len(base.twins)))]
    if rng.random() < REWORDED:
        text, kind = reworded(text, rng)
    item = _Item(text, 0.0, kind, text)
    return _with_other_damage(item, task, attribute, rng, material, OTHER_DAMAGE_GOOD)


def _with_other_damage(
    item: _Item, task: str, attribute: str, rng: Generator, material: Material, share: float
) -> _Item:
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
        return _Item(step.text, item.severity, f"{item.kind}+{kind}")
    return _Item(step.text, 0.0, kind, step.text)


def _path(
    start: _Item,
    task: str,
    attribute: str,
    rng: Generator,
    source: Source,
    targets: Sequence[float],
    every: Sequence[str] = (),
) -> list[_Item]:
    """Steps on one path of damage, the first at or above each target severity (or the last of all).

    every : kinds to choose from; default: all that lower the attribute
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
        path: list[_Item] = []
        wanted = list(targets)
        if machines and rng.random() < source.machines:
            steps = machine_path(start.text, machines, rng, source)
        else:
            steps = damage_path(start.text, kinds, rng, source.material)
        for step in steps:
            if step.kind not in used:
                used.append(step.kind)
            if step.severity >= wanted[0] - CLOSE:
                path.append(_Item(step.text, step.severity, "+".join(used), start.text))
                wanted = [target for target in wanted if target > step.severity + CLOSE]
            if not wanted:
                break
        if path:
            return path
    return []


def _looks(task: str, n_texts: int, rng: Generator) -> tuple[list[str], str]:
    """How each text looks, all alike or (some groups) each in its own way; and how the context and the facts do."""
    raw, spaced, _ = STYLES[task]
    draw = rng.random()
    looks = ["raw"] * n_texts
    if draw >= raw:
        options = ("ptb", "ptb", "ptb", "ptb-cased", "lower")
        if task == "data_to_text":
            options = ("ptb", "lower", "lower")
        look = options[int(rng.integers(len(options)))]
        looks = [look if draw < raw + spaced or rng.random() < 0.5 else "raw" for _ in looks]
    context_look = "raw"
    if task == "dialogue" and rng.random() < 0.7:
        context_look = looks[0]
    return looks, context_look


def _context_words(rng: Generator, attribute: str, max_words: int, long: float) -> int:
    """How long a context should be. Most are short, to learn much from few tokens; some are as long as real ones."""
    about_language = attribute in ("fluency", "grammar", "naturalness", "complexity")
    if rng.random() < long:
        low, high = 220, 500
    elif about_language:
        low, high = 50, 130
    else:
        low, high = 60, 220
    return min(max_words, int(rng.integers(low, high)))
