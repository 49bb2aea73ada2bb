"""Documents of corpora -> groups: a few texts for one context, whose damage in one attribute is known.

Of each document, `groups` chooses what is needed most (`_Tally`: task and attribute) and takes a good text that the
document itself offers (good_texts.py). All other texts of the group are made from that one (sides.py):

    severity 0    edits that keep the meaning, and damage to *other* attributes
    above 0       damage to the attribute asked about (synthscore.degrade.damage, machine_text.py)

A group is kept where the lengths of its texts do not tell which is better (`_Balance`). Knows nothing of files,
prompts, tokens or models. Words:

    side       what is asked about the texts of a group: an attribute, under a context. Each side becomes a Group
    crossed    two sides in two attributes, of which each damage lowers one alone
    turned     two sides under two contexts: what is wrong under the one is right under the other
    look       how a text is spaced, and its capitals, which say nothing of quality: raw, or as in benchmarks (SURFACES)
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from numpy.random import Generator

from synthscore.degrade.damage import attributes
from synthscore.degrade.edits import Material

from .good_texts import BUILDERS, LIMITS, Base, Reasons
from .machine_text import DamageSource
from .phrases import SURFACES, damaged_words, surface
from .sides import Item, Side, make_sides

CARELESS = frozenset({"RasaHQ/STAR"})  # corpora with too many slips of the pen to stand as good texts
WEIGHTS = {"summarization": 0.43, "dialogue": 0.38, "story": 0.12, "data_to_text": 0.05, "question": 0.02}
TASKS_OF_KIND = {  # that a document of each kind can be used for
    "article": ("summarization", "data_to_text", "question", "dialogue"),
    "dialogue": ("dialogue",),
    "story": ("story",),
}
FROM_ARTICLES = {(task, name) for task in TASKS_OF_KIND["article"] for name in attributes()[task] if task != "dialogue"}
FROM_ARTICLES.add(("dialogue", "groundedness"))  # Of dialogue, articles give this attribute alone.
STYLES = {  # shares of groups whose texts are all raw, all in one look of benchmarks, and some of each
    "summarization": (0.25, 0.50, 0.25),
    "dialogue": (0.35, 0.50, 0.15),
    "story": (0.50, 0.30, 0.20),
    "data_to_text": (0.45, 0.40, 0.15),
    "question": (0.70, 0.15, 0.15),
}
ONE_TEXT = ("data_to_text", "question")  # tasks with one good text for all attributes of a document
# The most that (pairs won by the longer text - pairs won by the shorter) / pairs may be, where length is part of what
# is asked; 0.5: the longer text is the better one in 75 of 100 pairs. Of attributes that are not named: about 0.
LONGER_WINS = {
    ("summarization", "relevance"): 0.4,
    ("dialogue", "engagingness"): 0.55,
    ("dialogue", "overall"): 0.5,
    ("dialogue", "groundedness"): 0.5,
    ("dialogue", "coherence"): 0.45,
    ("dialogue", "naturalness"): 0.35,
    ("dialogue", "understandability"): 0.3,
}
NO_FULL_STOP = 0.25  # share of the replies that lose the full stop at their end, which is no damage
DIALOGUE_LEFT_OUT = {  # share of a corpus' dialogues: replies of one line, old novels and bookings would be most
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


@dataclass(frozen=True, slots=True)
class Shares:
    """How much of each kind of data there is.

    crossed : of the groups, where two attributes can be damaged apart: the same texts are asked about both
    turned : of the groups, where damage can be turned (TURNED): the same texts are asked about under two contexts
    two_looks : of the groups: one of the texts is there twice, in two looks
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
    per_document : attempts at each document, each of which gives up to two groups; a document of a rich corpus (RICH)
        has one for each attribute
    shares : of the kinds of data
    weak_replies : that a weak language model wrote (weak_replies.py): damaged ones beside people's
    reasons : counts why a document or an attempt gave no group
    """
    shares = shares or Shares()
    reasons = Counter() if reasons is None else reasons
    pools: dict[str, deque[str]] = {kind: deque(maxlen=32) for kind in TASKS_OF_KIND}
    triples: deque[str] = deque(maxlen=32)
    tally = _Tally(tasks)
    balance = _Balance()
    for document in documents:
        kind = document["kind"]
        text = document["text"]
        corpus = document.get("source", "")
        if why := _why_left_out(kind, corpus, rng):
            reasons[f"{kind}: {why}"] += 1
            continue
        # Other documents of the kind lend their words to damage, so that the first ones give no groups.
        pool = pools[kind]
        open_tasks = [task for task in TASKS_OF_KIND[kind] if tasks.get(task, 0) > 0]
        if len(pool) < 3 or not open_tasks:
            reasons[f"{kind}: {'first documents' if open_tasks else 'no task'}"] += 1
            pool.append(text)
            continue
        options = tally.options(kind, open_tasks)
        rich = corpus in RICH
        n_attempts = len(attributes()["dialogue"]) if rich else per_document
        for _ in range(n_attempts):
            kinds_so_far = [name for name in pools if pools[name]]
            reachable = [task for task in tasks if any(task in TASKS_OF_KIND[name] for name in kinds_so_far)]
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
            damage_source = DamageSource(Material(base.context, base.facts, foreign), weak_replies, shares.machine)
            for group in _groups(base, task, attribute, rng, damage_source, shares, balance, reasons):
                tally.count(task, group.attribute)
                if task == "data_to_text":
                    triples.append(group.context)
                yield group
        pool.append(text)


def _why_left_out(kind: str, corpus: str, rng: Generator) -> str:
    """Why a document is not used; "" where it is."""
    if corpus in CARELESS:
        return "carelessly written source"
    if kind == "dialogue" and rng.random() < DIALOGUE_LEFT_OUT.get(corpus, 0.0):
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
        """The task that lacks most groups, "" where none has attributes left; and whether even it has clearly too many.

        options : as of `options`. reachable : the tasks that the documents so far can be used for
        """
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
        """Of these attributes of the task the one with fewest groups, or in a quarter of the cases any."""
        if rng.random() < 0.75:
            return min(names, key=lambda name: self.by_attribute[task, name])
        return names[int(rng.integers(len(names)))]


# ------------------------------------------------------------------------------------------- a group from a good text


class _Balance:
    """Keeps the longer text the better one in about half of the pairs of an attribute, or in more of them, up to what
    LONGER_WINS allows."""

    def __init__(self) -> None:
        # (Task, attribute) -> pairs won by the longer text - pairs won by the shorter; longer in characters, in words.
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
    """Pairs of texts of which the longer one is the better, minus those of which the shorter one is.

    lengths, severities : of each text, in one order; pairs of equal length or severity count 0
    """
    net = 0
    for (length, severity), (other_length, other_severity) in combinations(zip(lengths, severities, strict=True), 2):
        if length == other_length or severity == other_severity:
            continue
        longer_is_better = (length > other_length) == (severity < other_severity)
        net += 1 if longer_is_better else -1
    return net


def _groups(
    base: Base,
    task: str,
    attribute: str,
    rng: Generator,
    damage_source: DamageSource,
    shares: Shares,
    balance: _Balance,
    reasons: Reasons,
) -> list[Group]:
    """The groups from one good text: one a side, so one, or two of the same texts. Of these, each is kept only if the
    balance takes it. None where five tries give none, and `reasons` counts why."""
    why = "no damage fits"
    for _ in range(5):
        sides = make_sides(base, task, attribute, rng, damage_source, turned=shares.turned, crossed=shares.crossed)
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


def _choose_texts(task: str, sides: Sequence[Side], rng: Generator) -> list[int]:
    """Indices of up to five items of a length that the task allows, in random order; none where fewer than three fit,
    or all are equally bad on one side."""
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
    items: Sequence[Item], looks: Sequence[str], texts: Sequence[str]
) -> tuple[tuple[bool, ...] | None, ...]:
    """Group.damaged of these texts in these looks."""
    damaged: list[tuple[bool, ...] | None] = []
    for item, look, text in zip(items, looks, texts, strict=True):
        if item.sound is None:
            damaged.append(None)
        else:
            damaged.append(damaged_words(surface(item.sound, look), text))
    return tuple(damaged)


def _drop_full_stops(sides: Sequence[Side], rng: Generator) -> list[Side]:
    """Some of the texts without the full stop at their end, as people chat."""
    without = rng.random(len(sides[0].items)) < NO_FULL_STOP

    def end(item: Item, bare: bool) -> Item:
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


def _looks(task: str, n_texts: int, rng: Generator) -> tuple[list[str], str]:
    """A look for each text, and one for context and facts.

    By the shares of STYLES all texts are raw, all have the same look of benchmarks, or each is raw or in that look.
    """
    raw, benchmark, _ = STYLES[task]
    draw = rng.random()
    looks = ["raw"] * n_texts
    if draw >= raw:
        options = ("ptb", "ptb", "ptb", "ptb-cased", "lower")
        if task == "data_to_text":
            options = ("ptb", "lower", "lower")
        look = options[int(rng.integers(len(options)))]
        looks = [look if draw < raw + benchmark or rng.random() < 0.5 else "raw" for _ in looks]
    context_look = "raw"
    if task == "dialogue" and rng.random() < 0.7:
        context_look = looks[0]
    return looks, context_look


def _context_words(rng: Generator, attribute: str, max_words: int, long: float) -> int:
    """How many words a context should have. Most have few, to learn much from few tokens; some as many as real ones.

    long : share of long ones, as Shares.long
    """
    about_language = attribute in ("fluency", "grammar", "naturalness", "complexity")
    if rng.random() < long:
        low, high = 220, 500
    elif about_language:
        low, high = 50, 130
    else:
        low, high = 60, 220
    return min(max_words, int(rng.integers(low, high)))
