"""Corpora -> groups: a few texts for one context, whose damage in one attribute is known.

A good text is one that the corpus itself offers (good_texts.py). Everything else is made from it by
synthscore.degrade.damage, machine_text.py and rewording.py: meaning-preserving edits and damage to *other* attributes
(severity 0), and damage to the attribute asked about. Knows nothing of files, prompts, tokens or models.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations

from numpy.random import Generator

from synthscore.degrade.damage import attributes, damage_path, damages, damages_for
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
FROM_ARTICLES = {(task, name) for task in SOURCES["article"] for name in attributes()[task] if task != "dialogue"} | {
    ("dialogue", "groundedness")
}
STYLES = {  # share of groups that are raw, in benchmark look, and mixed
    "summarization": (0.25, 0.50, 0.25),
    "dialogue": (0.35, 0.50, 0.15),
    "story": (0.50, 0.30, 0.20),
    "data_to_text": (0.45, 0.40, 0.15),
    "question": (0.70, 0.15, 0.15),
}
SMALLEST = 0.1  # severity worth a verdict
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
        if document.get("source") in CARELESS:
            reasons[f"{kind}: carelessly written source"] += 1
            continue
        if kind == "dialogue" and rng.random() < LEFT_OUT.get(document.get("source", ""), 0.0):
            reasons[f"{kind}: enough of this source"] += 1
            continue
        pool = pools[kind]
        open_tasks = [task for task in SOURCES[kind] if tasks.get(task, 0) > 0]
        if len(pool) < 3 or not open_tasks:
            reasons[f"{kind}: {'first documents' if open_tasks else 'no task'}"] += 1
            pool.append(text)
            continue
        options = tally.options(kind, open_tasks)
        rich = document.get("source") in RICH
        most_groups = len(attributes()["dialogue"]) if rich else per_document
        for _ in range(most_groups):
            reachable = [task for task in tasks if any(task in SOURCES[name] for name in pools if pools[name])]
            task, enough = tally.choose_task(options, reachable)
            if not task:
                reasons[f"{kind}: all tried"] += 1
                break
            if enough and not rich:
                reasons[f"{kind}: enough of {task}"] += 1
                break
            attribute = tally.choose_attribute(task, options[task], rng)
            options[task].remove(attribute)
            foreign = tuple(pool[int(i)] for i in rng.choice(len(pool), 3, replace=False))
            if task == "data_to_text":
                foreign += tuple(triples)[:4]
            n_words = _context_words(rng, attribute, max_words, shares.long)
            base = BUILDERS[task](text, attribute, rng, n_words, foreign, reasons)
            if base is None and task in ("data_to_text", "question"):
                options[task] = []  # These tasks have one text for all attributes, and it cannot be made.
            if base is not None and len(base.context.split()) > max_words:
                reasons[f"{task}: context too long"] += 1
                base = None
            if base is None:
                continue
            source = Source(Material(base.context, base.facts, foreign), weak_replies, shares.machine)
            for group in _groups(base, task, attribute, rng, source, shares, balance, reasons):
                tally.count(task, group.attribute)
                if task == "data_to_text":
                    triples.append(group.context)
                yield group
        pool.append(text)


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
        missing = {task: self.weights[task] / weight * total - self.by_task[task] for task in options if options[task]}
        task = max(missing, key=lambda name: missing[name], default="")
        return task, bool(task) and missing[task] < -2 - 0.01 * total

    def choose_attribute(self, task: str, names: Sequence[str], rng: Generator) -> str:
        """The attribute with fewest groups, or in a quarter of the cases any."""
        if rng.random() < 0.75:
            return min(names, key=lambda name: self.by_attribute[task, name])
        return names[int(rng.integers(len(names)))]


# ------------------------------------------------------------------------------------------- a group from a good text


@dataclass(frozen=True, slots=True)
class _Item:
    text: str
    severity: float
    kind: str
    sound: str | None = None  # the text without the damage in the attribute asked about, if that is all that was done


class _Balance:
    """Keeps the longer text the better one in half of the pairs of an attribute, or more where LONGER_WINS says so."""

    def __init__(self) -> None:
        # (Task, attribute) -> pairs won by the longer text less pairs won by the shorter, in characters and in words.
        self.net: dict[tuple[str, str], tuple[int, int]] = {}
        self.pairs: Counter[tuple[str, str]] = Counter()

    def takes(self, key: tuple[str, str], texts: Sequence[str], severities: Sequence[float]) -> bool:
        """Whether the group keeps the balance; it is counted if so."""
        n_pairs = sum(severities[i] != severities[j] for i, j in combinations(range(len(texts)), 2))
        before = self.net.get(key, (0, 0))
        after = (
            before[0] + _net_longer([len(text) for text in texts], severities),
            before[1] + _net_longer([len(text.split()) for text in texts], severities),
        )
        total = self.pairs[key] + n_pairs
        low = -max(4, 0.03 * total)
        high = max(-low, LONGER_WINS.get(key, 0.0) * total)
        for new, old in zip(after, before, strict=True):
            if (new > high and new >= old) or (new < low and new <= old):
                return False
        self.net[key] = after
        self.pairs[key] += n_pairs
        return True


def _net_longer(lengths: Sequence[int], severities: Sequence[float]) -> int:
    """Pairs of texts of which the longer one is the better, less those of which the shorter one is."""
    net = 0
    for i, j in combinations(range(len(lengths)), 2):
        longer = lengths[i] - lengths[j]
        better = severities[j] - severities[i]
        if longer and better:
            net += 1 if (longer > 0) == (better > 0) else -1
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
        low, high = LIMITS[task]
        fitting = [i for i, item in enumerate(sides[0].items) if low <= len(item.text.split()) <= high]
        order = [fitting[int(i)] for i in rng.permutation(len(fitting))[:5]]
        if len(order) < 3 or any(len({side.items[i].severity for i in order}) < 2 for side in sides):
            why = "text too long or too short"
            continue
        if task == "dialogue":
            sides = _drop_full_stops(sides, rng)
        looks, context_look = _looks(task, len(order), rng)
        if len(order) < 5 and rng.random() < shares.two_looks:  # Looks have nothing to do with quality.
            order, looks = _shown_twice(order, looks, rng)
        texts = tuple(surface(sides[0].items[i].text, look) for i, look in zip(order, looks, strict=True))
        if len(set(texts)) < len(texts):
            why = "texts alike"
            continue
        made = []
        for side in sides:
            items = [side.items[i] for i in order]
            severities = tuple(round(item.severity, 4) for item in items)
            if not balance.takes((task, side.attribute), texts, severities):
                why = "length would tell"
                continue
            damaged = tuple(
                None if item.sound is None else damaged_words(surface(item.sound, look), text)
                for item, look, text in zip(items, looks, texts, strict=True)
            )
            group = Group(
                task=task,
                attribute=side.attribute,
                context=surface(side.context, context_look),
                facts=surface(side.facts, context_look),
                texts=texts,
                severities=severities,
                kinds=tuple(item.kind for item in items),
                damaged=damaged,
            )
            made.append(group)
        if made:
            return made
    reasons[f"{task}/{attribute}: {why}"] += 1
    return []


def _drop_full_stops(sides: Sequence[_Side], rng: Generator) -> list[_Side]:
    """Some of the texts without the full stop at their end, as people chat."""
    without = rng.random(len(sides[0].items)) < NO_FULL_STOP

    def end(item: _Item, bare: bool) -> _Item:
        if not bare or item.text.endswith("..") or " " not in item.text:
            return item
        sound = None if item.sound is None else item.sound.removesuffix(".")
        return replace(item, text=item.text.removesuffix("."), sound=sound)

    return [
        replace(side, items=[end(item, bool(bare)) for item, bare in zip(side.items, without, strict=True)])
        for side in sides
    ]


def _shown_twice(order: list[int], looks: list[str], rng: Generator) -> tuple[list[int], list[str]]:
    """One of the texts once more, in another look."""
    chosen = int(rng.integers(len(order)))
    others = [look for look in SURFACES if look != looks[chosen]]
    return [*order, order[chosen]], [*looks, others[int(rng.integers(len(others)))]]


def _sides(base: Base, task: str, attribute: str, rng: Generator, source: Source, shares: Shares) -> Sequence[_Side]:
    """Texts of known severity, asked about in one attribute or two, under the context or under two; empty: none."""
    if (task, attribute) in TURNED and rng.random() < shares.turned:
        return _turned(base, task, attribute, rng, source)
    others = [
        other for other in sorted(attributes()[task]) if _only(task, attribute, other) and _only(task, other, attribute)
    ]
    if others and rng.random() < shares.crossed:
        crossed = _crossed(base, task, (attribute, others[int(rng.integers(len(others)))]), rng, source)
        return [_Side(name, base.context, base.facts, items) for name, items in crossed.items()]
    items = _items(base, task, attribute, rng, source)
    return [_Side(attribute, base.context, base.facts, items)] if items else ()


def _turned(base: Base, task: str, attribute: str, rng: Generator, source: Source) -> Sequence[_Side]:
    """A good text and one with a word or name changed, under the context, and under one in which it is changed as well:
    what was wrong is then right. Nothing but the context tells."""
    for i in rng.permutation(len(TURNED[task, attribute])):
        kinds = (TURNED[task, attribute][int(i)],)
        path = damage_path(base.text, kinds, rng, source.material)
        step = next(path, None)
        change = None if step is None else replaced_phrase(base.text, step.text)
        if step is None or change is None or not once(change[0], base.text) or not once(change[1], step.text):
            continue
        turned = [exchanged(text, *change) for text in (base.context, base.facts)]
        if turned != [base.context, base.facts]:
            break
    else:
        return ()
    versions = [[base.text], [step.text]]
    for texts, phrase in zip(versions, change, strict=True):
        made, _ = reworded(texts[0], rng)
        if made != texts[0] and once(phrase, made):
            texts.append(made)
    sides = []
    for which, (context, facts) in enumerate(((base.context, base.facts), turned)):
        right, wrong = versions[which], versions[1 - which]
        items = [_Item(text, 0.0, "good", text) for text in right]
        items += [_Item(text, step.severity, step.kind, right[0] if text == wrong[0] else None) for text in wrong]
        sides.append(_Side(attribute, context, facts, sorted(items, key=lambda item: item.text)))
    return sides


def _only(task: str, attribute: str, other: str) -> tuple[str, ...]:
    """Kinds of damage that surely lower the attribute, and surely not the other one."""
    return tuple(kind for kind in damages_for(task, attribute) if kind in _neutral(task, other))


@cache
def neutral_for(task: str, attribute: str) -> tuple[str, ...]:
    """The kinds of damage that lower some attribute of this task, and surely not this one."""
    return tuple(
        name
        for name, damage in damages().items()
        if damage.lowers.get(task) and attribute not in damage.lowers[task] | damage.also.get(task, frozenset())
    )


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
        targets = ((SMALLEST,), (0.5,), (SMALLEST, 0.6))[int(rng.integers(3))]
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
    targets = (SMALLEST, 0.5, 1.0) if shape < 0.45 else (SMALLEST, 0.35)
    steps = _path(start, task, attribute, rng, source, targets)
    if not steps:
        return None
    if shape < 0.45:  # Graded: more and more damage on one path.
        worse = steps
    elif shape < 0.75:  # Fine: the least damage there is.
        worse = steps[:1]
    else:  # Two kinds of damage, whose severities are far apart.
        first = steps[int(rng.integers(len(steps)))]
        other = _path(good[0], task, attribute, rng, source, (min(1.0, first.severity + MIN_GAP), 1.0))
        worse = [first, *(step for step in other if step.severity >= first.severity + MIN_GAP - 1e-9)]
    if rng.random() < 0.35:  # Two texts that are equally bad.
        item = worse[int(rng.integers(len(worse)))]
        # Which words of the reworded text are damaged is not known.
        worse.append(_Item(reworded(item.text, rng)[0], item.severity, item.kind))
    worse = [_with_other_damage(item, task, attribute, rng, source.material, 0.25) for item in worse]
    unique = {item.text: item for item in [*worse[::-1], *good[::-1]]}
    return list(unique.values())[::-1]


def _as_good(base: Base, task: str, attribute: str, rng: Generator, material: Material) -> _Item:
    """A text that is as good as the base in this attribute, if not in all."""
    text, kind = base.text, "good"
    if base.twins and rng.random() < OF_OTHERS:
        text = base.twins[int(rng.integers(len(base.twins)))]
    if rng.random() < 0.85:
        text, kind = reworded(text, rng)
    return _with_other_damage(_Item(text, 0.0, kind, text), task, attribute, rng, material, 0.4)


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
    keep = item.kind if item.severity else ""
    sound = None if item.severity else step.text
    return _Item(step.text, item.severity, "+".join(filter(None, (keep, kind))), sound)


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
        used: list[str] = [start.kind] if start.kind in _neutral(task, attribute) else []
        path: list[_Item] = []
        wanted = list(targets)
        if machines and rng.random() < source.machines:
            steps = machine_path(start.text, machines, rng, source)
        else:
            steps = damage_path(start.text, kinds, rng, source.material)
        for step in steps:
            if step.kind not in used:
                used.append(step.kind)
            if step.severity >= wanted[0] - 1e-9:
                path.append(_Item(step.text, step.severity, "+".join(used), start.text))
                wanted = [target for target in wanted if target > step.severity + 1e-9]
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
    if rng.random() >= long:
        low, high = (50, 130) if attribute in ("fluency", "grammar", "naturalness", "complexity") else (60, 220)
    else:
        low, high = 220, 500
    return min(max_words, int(rng.integers(low, high)))
