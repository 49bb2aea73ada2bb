"""Corpora -> groups: a few texts for one context, whose damage in one attribute is known.

A good text is one that the corpus itself offers: an article's lead (for the body without it), its central sentences,
the next turn, the next passage, sentences that say a set of facts. Everything else is made from it by
synthscore.degrade: meaning-preserving edits and damage to *other* attributes (severity 0), and damage to the attribute
asked about. Knows nothing of files, prompts, tokens or models.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from numpy.random import Generator

from synthscore.degrade import (
    ATTRIBUTES,
    DAMAGES,
    Material,
    centrality,
    content_words,
    damage_path,
    damages_for,
    names,
    neutral_for,
    preserve_path,
    sentences,
    surface,
)
from synthscore.degrade_words import FEELINGS, STOPWORDS

from .machine_text import machine_path, machines_for

CARELESS = frozenset({"RasaHQ/STAR"})  # too many slips of the pen to stand as good texts
WEIGHTS = {"summarization": 0.55, "dialogue": 0.25, "story": 0.10, "data_to_text": 0.07, "question": 0.03}
SOURCES = {
    "article": ("summarization", "data_to_text", "question", "dialogue"),
    "dialogue": ("dialogue",),
    "story": ("story",),
}
FROM_ARTICLES = {(task, name) for task in SOURCES["article"] for name in ATTRIBUTES[task] if task != "dialogue"} | {
    ("dialogue", "groundedness")
}
LIMITS = {  # words of every text of a group, damaged ones too
    "summarization": (20, 90),
    "dialogue": (4, 40),
    "story": (40, 110),
    "data_to_text": (5, 60),
    "question": (5, 60),
}
STYLES = {  # share of groups that are raw, in benchmark look, and mixed
    "summarization": (0.25, 0.50, 0.25),
    "dialogue": (0.50, 0.35, 0.15),
    "story": (0.75, 0.10, 0.15),
    "data_to_text": (0.45, 0.40, 0.15),
    "question": (0.80, 0.10, 0.10),
}
SMALLEST = 0.1  # severity worth a verdict
CROSSED = 0.35  # of the groups, where two attributes can be damaged apart: the same texts are asked about both
LONG_SHARE = 0.15  # of the contexts, 220 words or more
MACHINE_SHARE = 0.2  # of the paths of damage, where machines damage the attribute at all
LONGER_WINS = {  # how much more often the longer text may be the better one: here length is part of what is asked
    ("summarization", "relevance"): 0.4,
    ("dialogue", "engagingness"): 0.4,
    ("dialogue", "overall"): 0.4,
    ("dialogue", "groundedness"): 0.4,
}
MIN_GAP = 0.3  # between severities that come from different kinds of damage


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


@dataclass(frozen=True, slots=True)
class Base:
    """A good text with its context. `twins` are other texts that are as good in the attribute asked about."""

    context: str
    facts: str
    text: str
    twins: tuple[str, ...] = ()


Reasons = Counter[str]


def groups(
    documents: Iterator[Mapping[str, str]],
    rng: Generator,
    *,
    tasks: Mapping[str, float] = WEIGHTS,
    max_words: int = 500,
    per_document: int = 4,
    reasons: Reasons | None = None,
) -> Iterator[Group]:
    """Groups in the proportions of `tasks`, as far as the kinds of documents allow.

    max_words : of a context
    per_document : at most so many groups are made from one document
    reasons : counts why a document or an attempt gave no group
    """
    reasons = Counter() if reasons is None else reasons
    pools: dict[str, deque[str]] = {kind: deque(maxlen=32) for kind in SOURCES}
    triples: deque[str] = deque(maxlen=32)
    made: Counter[str] = Counter()
    made_attributes: Counter[tuple[str, str]] = Counter()
    balance = _Balance()
    for document in documents:
        kind, text = document["kind"], document["text"]
        if document.get("source") in CARELESS:
            reasons[f"{kind}: carelessly written source"] += 1
            continue
        pool = pools[kind]
        open_tasks = [task for task in SOURCES[kind] if tasks.get(task, 0) > 0]
        if len(pool) < 3 or not open_tasks:
            reasons[f"{kind}: {'no task' if not open_tasks else 'first documents'}"] += 1
            pool.append(text)
            continue
        options = {
            task: [name for name in sorted(ATTRIBUTES[task]) if kind != "article" or (task, name) in FROM_ARTICLES]
            for task in open_tasks
        }
        for _ in range(per_document):
            seen = {task for name in pools if pools[name] for task in SOURCES[name]} & set(tasks)
            total, weight = sum(made[task] for task in seen) + 1, sum(tasks[task] for task in seen)
            lack = {task: tasks[task] / weight * total - made[task] for task in options if options[task]}
            task = max(lack, key=lambda name: lack[name], default="")
            if not task or lack[task] < -2 - 0.01 * total:
                reasons[f"{kind}: enough of {task}" if task else f"{kind}: all tried"] += 1
                break
            if rng.random() < 0.75:
                attribute = min(options[task], key=lambda name: made_attributes[task, name])
            else:
                attribute = options[task][int(rng.integers(len(options[task])))]
            options[task].remove(attribute)
            foreign = tuple(pool[int(i)] for i in rng.choice(len(pool), 3, replace=False))
            if task == "data_to_text":
                foreign += tuple(triples)[:4]
            base = BUILDERS[task](text, attribute, rng, _context_words(rng, attribute, max_words), foreign, reasons)
            if base is None and task in ("data_to_text", "question"):
                options[task] = []  # it would be the same for all attributes
            if base is not None and len(base.context.split()) > max_words:
                reasons[f"{task}: context too long"] += 1
                base = None
            for group in _groups(base, task, attribute, rng, foreign, balance, reasons) if base else ():
                made[task] += 1
                made_attributes[task, group.attribute] += 1
                if task == "data_to_text":
                    triples.append(group.context)
                yield group
        pool.append(text)


# ------------------------------------------------------------------------------------------- a group from a good text


@dataclass(frozen=True, slots=True)
class _Item:
    text: str
    severity: float
    kind: str
    sound: str | None = None  # the text without the damage in the attribute asked about, if that is all that was done


class _Balance:
    """Keeps "the longer text is better" at half of the pairs of each attribute, or as LONGER_WINS says."""

    def __init__(self) -> None:
        self.net: dict[tuple[str, str], tuple[int, int]] = {}  # by characters, by words
        self.pairs: Counter[tuple[str, str]] = Counter()

    def takes(self, key: tuple[str, str], texts: Sequence[str], severities: Sequence[float]) -> bool:
        """Whether the group keeps the balance; it is counted if so."""
        lengths = [(len(text), len(text.split())) for text in texts]
        net, n_pairs = [0, 0], 0
        for i in range(len(texts)):
            for j in range(i):
                better = severities[j] - severities[i]
                if not better:
                    continue
                n_pairs += 1
                for unit in range(2):
                    longer = lengths[i][unit] - lengths[j][unit]
                    net[unit] += 0 if not longer else 1 if (longer > 0) == (better > 0) else -1
        before = self.net.get(key, (0, 0))
        after = (before[0] + net[0], before[1] + net[1])
        total = self.pairs[key] + n_pairs
        low = -max(4, 0.03 * total)
        high = max(-low, LONGER_WINS.get(key, 0.0) * total)
        for new, old in zip(after, before, strict=True):
            if (new > high and new >= old) or (new < low and new <= old):
                return False
        self.net[key] = after
        self.pairs[key] += n_pairs
        return True


def _groups(
    base: Base,
    task: str,
    attribute: str,
    rng: Generator,
    foreign: tuple[str, ...],
    balance: _Balance,
    reasons: Reasons,
) -> list[Group]:
    """One group, or two of the same texts that ask about two attributes; none where no damage fits."""
    why = "no damage fits"
    others = [
        other for other in sorted(ATTRIBUTES[task]) if _only(task, attribute, other) and _only(task, other, attribute)
    ]
    for _ in range(5):
        material = Material(base.context, base.facts, foreign)
        if others and rng.random() < CROSSED:
            sides = _crossed(base, task, (attribute, others[int(rng.integers(len(others)))]), rng, material)
        else:
            items = _items(base, task, attribute, rng, material)
            sides = {} if items is None else {attribute: items}
        if not sides:
            continue
        low, high = LIMITS[task]
        fitting = [i for i, item in enumerate(next(iter(sides.values()))) if low <= len(item.text.split()) <= high]
        order = [fitting[int(i)] for i in rng.permutation(len(fitting))[:5]]
        chosen = {asked: [items[i] for i in order] for asked, items in sides.items()}
        if len(order) < 3 or any(len({item.severity for item in items}) < 2 for items in chosen.values()):
            why = "text too long or too short"
            continue
        looks, context, facts = _looks(task, len(order), base, rng)
        texts = tuple(surface(item.text, look) for item, look in zip(chosen[attribute], looks, strict=True))
        if len(set(texts)) < len(texts):
            why = "texts alike"
            continue
        found = []
        for asked, items in chosen.items():
            severities = tuple(round(item.severity, 4) for item in items)
            if not balance.takes((task, asked), texts, severities):
                why = "length would tell"
                continue
            damaged = tuple(
                None if item.sound is None else damaged_words(surface(item.sound, look), text)
                for item, look, text in zip(items, looks, texts, strict=True)
            )
            kinds = tuple(item.kind for item in items)
            found.append(Group(task, asked, context, facts, texts, severities, kinds, damaged))
        if found:
            return found
    reasons[f"{task}/{attribute}: {why}"] += 1
    return []


def _only(task: str, attribute: str, other: str) -> tuple[str, ...]:
    """Kinds of damage that surely lower the attribute, and surely not the other one."""
    return tuple(kind for kind in damages_for(task, attribute) if kind in neutral_for(task, other))


def _crossed(
    base: Base, task: str, asked: tuple[str, str], rng: Generator, material: Material
) -> dict[str, list[_Item]]:
    """The same texts for two attributes: a good one or two, some with damage to one attribute alone, and some to the
    other alone. What tells the texts apart in the one is of no matter in the other."""
    good = [(base.text, "good")]
    kept = _kept(base.text, rng)
    good += [kept] * (kept[0] != base.text)
    sides: dict[str, list[_Item]] = {name: [_Item(text, 0.0, kind, text) for text, kind in good] for name in asked}
    for name, other in (asked, asked[::-1]):
        start = sides[name][int(rng.integers(len(good)))]
        targets = ((SMALLEST,), (0.5,), (SMALLEST, 0.6))[int(rng.integers(3))]
        for item in _path(start, task, name, rng, material, targets, _only(task, name, other)):
            sides[name].append(item)
            sides[other].append(_Item(item.text, 0.0, item.kind, item.text))
    return sides


def damaged_words(sound: str, text: str) -> tuple[bool, ...]:
    """Of each word of the text: does the sound text not have it here? What is missing shows at the word after it, or,
    at the end, at the last word."""
    before, words = sound.split(), text.split()
    marks = [False] * len(words)
    for step, _, _, start, stop in SequenceMatcher(None, before, words, autojunk=False).get_opcodes():
        if step == "delete":
            marks[min(start, len(words) - 1)] = True
        elif step != "equal":
            marks[start:stop] = [True] * (stop - start)
    return tuple(marks)


def _items(base: Base, task: str, attribute: str, rng: Generator, material: Material) -> list[_Item] | None:
    """Texts of known severity: some as good as the base, some worse, on one or two paths of damage."""
    good = [_Item(base.text, 0.0, "good", base.text)]
    for _ in range(int(rng.integers(1, 3))):
        good.append(_as_good(base, task, attribute, rng, material))
    shape = rng.random()
    start = good[int(rng.integers(len(good)))]
    steps = _path(start, task, attribute, rng, material, (SMALLEST, 0.5, 1.0) if shape < 0.45 else (SMALLEST, 0.35))
    if not steps:
        return None
    if shape < 0.45:  # graded: one path, ever more of it
        worse = steps
    elif shape < 0.75:  # fine: as little damage as can be
        worse = steps[:1]
    else:  # two paths, far apart
        first = steps[int(rng.integers(len(steps)))]
        other = _path(good[0], task, attribute, rng, material, (min(1.0, first.severity + MIN_GAP), 1.0))
        worse = [first, *(step for step in other if step.severity >= first.severity + MIN_GAP - 1e-9)]
    if rng.random() < 0.35:  # two that are equally bad
        item = worse[int(rng.integers(len(worse)))]
        worse.append(_Item(_kept(item.text, rng)[0], item.severity, item.kind))  # where its damage lies is not known
    worse = [_with_other_damage(item, task, attribute, rng, material, 0.25) for item in worse]
    unique = {item.text: item for item in [*worse[::-1], *good[::-1]]}
    return list(unique.values())[::-1]


def _as_good(base: Base, task: str, attribute: str, rng: Generator, material: Material) -> _Item:
    """A text that is as good as the base in this attribute, if not in all."""
    text, kind = base.text, "good"
    if base.twins and rng.random() < 0.5:
        text = base.twins[int(rng.integers(len(base.twins)))]
    if rng.random() < 0.85:
        text, kind = _kept(text, rng)
    return _with_other_damage(_Item(text, 0.0, kind, text), task, attribute, rng, material, 0.4)


def _kept(text: str, rng: Generator) -> tuple[str, str]:
    """The text after one to three edits that keep the meaning, and their names."""
    steps = list(preserve_path(text, rng, int(rng.integers(1, 4))))
    return (steps[-1].text, "+".join(step.kind for step in steps)) if steps else (text, "good")


def _with_other_damage(
    item: _Item, task: str, attribute: str, rng: Generator, material: Material, share: float
) -> _Item:
    """In this share of cases: the text with one or two edits that hurt another attribute, and surely not this one."""
    kinds = neutral_for(task, attribute)
    if item.severity:  # no edit that could take the damage away again
        kinds = tuple(kind for kind in kinds if DAMAGES[kind].unit == "word" and kind != "cut-off-ending")
    if not kinds or rng.random() >= share:
        return item
    kind = kinds[int(rng.integers(len(kinds)))]
    path = damage_path(item.text, task=task, attribute=attribute, rng=rng, material=material, kinds=(kind,))
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
    material: Material,
    targets: Sequence[float],
    every: Sequence[str] = (),
) -> list[_Item]:
    """Steps on one path of damage, the first at or above each target severity (or the last of all).

    every : kinds to choose from; default: all that lower the attribute
    """
    machines = () if every else machines_for(task, attribute)
    every = every or damages_for(task, attribute)
    for _ in range(4):
        size = min(len(every), 1 + int(rng.integers(3)))
        kinds = tuple(every[int(i)] for i in rng.choice(len(every), size, replace=False))
        used: list[str] = [start.kind] if start.kind in neutral_for(task, attribute) else []
        found: list[_Item] = []
        wanted = list(targets)
        if machines and rng.random() < MACHINE_SHARE:
            steps = machine_path(start.text, machines, rng, material)
        else:
            steps = damage_path(start.text, task=task, attribute=attribute, rng=rng, material=material, kinds=kinds)
        for step in steps:
            used += [step.kind] if step.kind not in used else []
            if step.severity >= wanted[0] - 1e-9:
                found.append(_Item(step.text, step.severity, "+".join(used), start.text))
                wanted = [target for target in wanted if target > step.severity + 1e-9]
            if not wanted:
                break
        if found:
            return found
    return []


def _looks(task: str, n_texts: int, base: Base, rng: Generator) -> tuple[list[str], str, str]:
    """How each text looks, all alike or (some groups) each in its own way; context and facts in theirs."""
    raw, spaced, _ = STYLES[task]
    draw = rng.random()
    looks = ["raw"] * n_texts
    if draw >= raw:
        names_ = ("ptb", "ptb", "ptb", "ptb-cased", "lower") if task != "data_to_text" else ("ptb", "lower", "lower")
        one = names_[int(rng.integers(len(names_)))]
        looks = [one if draw < raw + spaced or rng.random() < 0.5 else "raw" for _ in looks]
    if looks[0] != "raw" and task == "dialogue" and rng.random() < 0.7:
        return looks, surface(base.context, looks[0]), surface(base.facts, looks[0])
    return looks, base.context, base.facts


def _context_words(rng: Generator, attribute: str, max_words: int) -> int:
    """How long a context should be. Most are short, to learn much from few tokens; some are as long as real ones."""
    if rng.random() >= LONG_SHARE:
        low, high = (50, 130) if attribute in ("fluency", "grammar", "naturalness", "complexity") else (60, 220)
    else:
        low, high = 220, 500
    return min(max_words, int(rng.integers(low, high)))


# --------------------------------------------------------------------------------------- good texts: summaries

_HOLES = re.compile(  # what extraction leaves where a number, a foreign word or a link was
    r"^[,;.)]|[a-z]\.[A-Z][a-z]|\(\s*[,;)]|\s[,;]|\(\)|,,|\.,|\[\w*\]|[=|<>{}]|\.\.\s|\s\.\s|\b(?:the|an?|of|from|with)[.,;]"
    r"|\b(?:the|an?|of|from) (?:the )?(?:that|which|was|is|were|and|or|of|in|by|to|for|with)\b"
)
_PARENTHESIS = re.compile(r"\s?\([^()]*\)")
_LABEL = re.compile(r"[A-Z][\w ]{2,40}: ")
_OPENERS = re.compile(r"^(?:However|Also|In addition|Moreover|Furthermore|Additionally|For example|Thus|Therefore), ")
_LEANING = (  # words that point back when they open a sentence
    " he she it they his her its their this that these those him them such both another other also then but and or so "
    "however there here we i you who which as while one some "
)


def _paragraphs(text: str) -> list[str]:
    """Paragraphs of whole sentences, without holes, headings or lists."""
    whole = [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]
    return [p for p in whole if len(p.split()) >= 12 and p[-1] in ".!?\"'" and not _HOLES.search(p)]


def _compressed(sentence: str) -> str:
    sentence = re.sub(r"\s?\([^()]*\),(?= (?:is|was|were|are)\b)", "", sentence)
    sentence = _OPENERS.sub("", _PARENTHESIS.sub("", sentence))
    return sentence[:1].upper() + sentence[1:]


def _leans(sentence: str) -> bool:
    """Whether the sentence leans on the one before: it opens with a pronoun or a connecting word."""
    words = sentence.split()
    return not words or f" {words[0].strip(',').lower()} " in _LEANING or sentence[:1] in "\"'"


def _whole(sentence: str) -> bool:
    """A sentence as it should be: begins with a capital, ends with a mark, its quotes and brackets are closed."""
    return (
        (sentence[:1].isupper() or sentence[:1].isdigit() or sentence[:1] == '"')
        and sentence[-1:] in '.!?"'
        and sentence.count('"') % 2 == 0
        and sentence.count("(") == sentence.count(")")
        and 4 <= len(sentence.split()) <= 45
        and not _LABEL.match(sentence)
    )


def _first_words(parts: Sequence[str], n_words: int) -> list[str]:
    """The first whole sentences, up to about so many words."""
    made: list[str] = []
    size = 0
    for part in parts:
        size += len(part.split())
        if made and size > n_words:
            break
        made.append(part)
    return made


def _supported(sentence: str, context: str) -> bool:
    """Whether the names, the numbers and much of the wording of a sentence are found in the context."""
    known = {word.strip(".,;:!?\"'()").lower() for word in context.replace("'s", "").split()}
    numbers = re.findall(r"\d[\d,.]*\d|\d", sentence)
    if any(number not in context for number in numbers):
        return False
    own = names("x " + sentence)
    found = [any(word.lower() in known for word in name.text.split() if len(word) > 2) for name in own]
    if found and sum(found) < 0.75 * len(found):
        return False
    words, stems = {word[:6] for word in content_words(sentence)}, {word[:6] for word in known}
    return len(words & stems) >= 0.45 * len(words)


def _summary_base(
    text: str, attribute: str, rng: Generator, n_words: int, foreign: tuple[str, ...], reasons: Reasons
) -> Base | None:
    paragraphs = _paragraphs(text)
    parts = [list(sentences(paragraph)) for paragraph in paragraphs]
    if sum(map(len, parts)) < 6:
        reasons["summarization: article too short"] += 1
        return None
    base = None
    if rng.random() < 0.6:
        base = _lead(parts, attribute, rng, n_words, reasons)
    return base or _extract(parts, attribute, rng, n_words, reasons)


def _lead(parts: list[list[str]], attribute: str, rng: Generator, n_words: int, reasons: Reasons) -> Base | None:
    """The first sentences as the summary of what follows them."""
    n_lead = min(len(parts[0]), int(rng.integers(1, 4)))
    n_lead = max(n_lead, 2) if attribute == "coherence" else n_lead
    lead, body = parts[0][:n_lead], [parts[0][n_lead:], *parts[1:]]
    chunks = [chunk for paragraph in body for chunk in _chunks(paragraph)]
    wanted = {word[:6] for sentence in lead for word in content_words(sentence)}
    near = sorted(range(len(chunks)), key=lambda i: -_overlap(chunks[i], wanted))
    chosen: list[int] = []
    size = 0
    for i in near:
        if size >= n_words:
            break
        chosen.append(i)
        size += len(chunks[i].split())
    context = " ".join(chunks[i] for i in sorted(chosen))
    if size < 40:
        reasons["summarization: no body"] += 1
        return None
    kept = [_compressed(sentence) for sentence in lead if _whole(sentence) and _supported(sentence, context)]
    summary = " ".join(kept)
    if not kept or _leans(kept[0]) or (attribute == "coherence" and len(kept) < 2):
        reasons["summarization: lead unsupported"] += 1
        return None
    if not _fits(summary, "summarization"):
        reasons["summarization: lead too long or too short"] += 1
        return None
    twins: tuple[str, ...] = ()
    if attribute in ("consistency", "fluency"):
        twin = _central(list(sentences(context)), context, rng)
        twins = (twin,) if twin else ()
        if twin and rng.random() < 0.3:
            summary, twins = twin, (summary,)
    return Base(context, "", summary, twins)


def _chunks(paragraph: Sequence[str], n_words: int = 50) -> list[str]:
    """Runs of whole sentences of up to about so many words."""
    made: list[list[str]] = []
    size = n_words
    for sentence in paragraph:
        if size >= n_words:
            made.append([])
            size = 0
        made[-1].append(sentence)
        size += len(sentence.split())
    return [" ".join(chunk) for chunk in made]


def _overlap(chunk: str, wanted: set[str]) -> float:
    own = {word[:6] for word in content_words(chunk)}
    return len(own & wanted) / (len(own) + 8)


def _fits(text: str, task: str) -> bool:
    low, high = LIMITS[task]
    return low <= len(text.split()) <= high


def _central(parts: Sequence[str], context: str, rng: Generator) -> str | None:
    """Two to four central sentences, in order, lightly compressed."""
    options = [i for i, part in enumerate(parts) if _whole(part) and 7 <= len(part.split()) <= 36]
    options.sort(key=lambda i: -centrality(parts[i], context))
    for n_parts in (int(rng.integers(2, 5)), 2, 1):
        chosen = sorted(options[:n_parts])
        if chosen and _leans(parts[chosen[0]]):
            firm = [i for i in options if not _leans(parts[i])]
            chosen = sorted({*firm[:1], *(i for i in chosen if firm and i > firm[0])})
        # a sentence that leans on the one before stays only right behind it
        chosen = [i for k, i in enumerate(chosen) if not _leans(parts[i]) or (k and chosen[k - 1] == i - 1)]
        summary = " ".join(_compressed(parts[i]) for i in chosen)
        if chosen and _fits(summary, "summarization"):
            return summary
    return None


def _extract(parts: list[list[str]], attribute: str, rng: Generator, n_words: int, reasons: Reasons) -> Base | None:
    """Sentences of the article itself: central ones, or (to be put in disorder) some that follow one another."""
    first = _first_words([sentence for paragraph in parts for sentence in paragraph], n_words)
    context = " ".join(first)
    if attribute == "coherence" or (attribute == "fluency" and rng.random() < 0.3):
        summary = _passage(first, rng)
    else:
        summary = _central(first, context, rng)
    if summary is None or len(context.split()) < max(40, 1.4 * len(summary.split())):
        reasons["summarization: no extract fits"] += 1
        return None
    if rng.random() < 0.5:
        summary = _kept(summary, rng)[0]
    return Base(context, "", summary) if _fits(summary, "summarization") else None


def _passage(parts: Sequence[str], rng: Generator) -> str | None:
    """Three to five sentences that follow one another."""
    starts = [i for i, part in enumerate(parts[:-2]) if not _leans(part)]
    for i in rng.permutation(len(starts))[:4]:
        for size in (int(rng.integers(3, 6)), 3):
            run = parts[starts[i] : starts[i] + size]
            passage = " ".join(_PARENTHESIS.sub("", part) for part in run)
            if len(run) >= 3 and all(map(_whole, run)) and _fits(passage, "summarization"):
                return passage
    return None


# ----------------------------------------------------------------------------------------- good texts: replies


def _reply_base(
    text: str, attribute: str, rng: Generator, n_words: int, foreign: tuple[str, ...], reasons: Reasons
) -> Base | None:
    if attribute == "groundedness" and not re.match(r"A: ", text):
        return _knowing_reply(text, rng, reasons)
    turns = [line for line in text.splitlines() if re.match(r"^[AB]: \S", line)]
    low = 9 if attribute in ("engagingness", "groundedness") else 5
    fitting = [
        i
        for i in range(2, len(turns))
        if low <= len(turns[i].split()) - 1 <= 38 and turns[i][-1] in ".!?\"'" and turns[i][3:4].isalnum()
    ]
    if attribute == "groundedness":
        fitting = [i for i in fitting if names("x " + turns[i][3:]) or re.search(r"\d", turns[i])]
    if not fitting:
        reasons["dialogue: no turn fits"] += 1
        return None
    i = fitting[int(rng.integers(len(fitting)))]
    start = i
    size = 0
    while start > 0 and size + len(turns[start - 1].split()) <= max(40, n_words):
        start -= 1
        size += len(turns[start].split())
    history = turns[start:i]
    if size < 12 or len(history) < 2:
        reasons["dialogue: history too short"] += 1
        return None
    reply = turns[i][3:]
    if rng.random() < 0.5:
        history = [turn[3:] for turn in history]
    facts = ""
    if attribute == "groundedness":
        facts = _facts_of(reply, foreign, rng)
        if not facts:
            reasons["dialogue: no facts"] += 1
            return None
    return Base("\n".join(history), facts, reply)


def _facts_of(reply: str, foreign: tuple[str, ...], rng: Generator) -> str:
    """What the reply says, in slightly other words, among statements that have nothing to do with it."""
    said = [s for s in sentences(reply) if not s.endswith("?") and len(content_words(s)) >= 3]
    if not said:
        return ""
    facts = [_kept(said[int(rng.integers(len(said)))], rng)[0]]
    for other in foreign[: int(rng.integers(1, 3))]:
        turns = [s[3:] if s[1:3] == ": " else s for s in sentences(other)]
        turns = [s for s in turns if 6 <= len(s.split()) <= 24 and not s.endswith("?")]
        facts += turns[:1]
    return "\n".join(facts[int(i)] for i in rng.permutation(len(facts)))


_CHATS = (
    ("Hi! How are you today?", "Fine, thanks. I was just reading about {}.", "Oh, what does it say about {}?"),
    (
        "Do you read a lot?",
        "Yes, mostly about things like {}.",
        "That sounds interesting. Tell me something about {}.",
    ),
    ("Hello there. Have you heard of {}?", "I have. Why do you ask?", "I am curious. What do you know about it?"),
    ("What are you up to?", "Not much, I came across something on {}.", "Really? I know nothing about that. Go on."),
)
_LEAD_INS = (
    "{}",
    "{}",
    "Well, here is something. {}",
    "I found this interesting. {}",
    "{} Did you know that?",
    "{} I had no idea.",
    "Sure. {} What do you think about that?",
    "I read about that. {}",
)


def _knowing_reply(text: str, rng: Generator, reasons: Reasons) -> Base | None:
    """A chat about the subject of an article, with sentences of the article as facts and one of them in the reply."""
    paragraphs = _paragraphs(text)
    parts = [s for p in paragraphs[:3] for s in sentences(p) if _whole(s)]
    topic = next((name.text for name in names("x " + parts[0])), "") if parts else ""
    parts = [_compressed(s) for s in parts[:8]]
    usable = [s for s in parts if 8 <= len(s.split()) <= 24 and not _leans(s) and '"' not in s]
    if not topic or not usable or len(parts) < 3:
        reasons["dialogue: no facts in the article"] += 1
        return None
    fact = usable[int(rng.integers(len(usable)))]
    others = [s for s in parts if s != fact and len(s.split()) < 36][: int(rng.integers(1, 4))]
    facts = [fact, *others]
    facts = [facts[int(i)] for i in rng.permutation(len(facts))]
    reply = _LEAD_INS[int(rng.integers(len(_LEAD_INS)))].format(_kept(fact, rng)[0])
    chat = [turn.format(topic) for turn in _CHATS[int(rng.integers(len(_CHATS)))]]
    if rng.random() < 0.5:
        chat = [f"{'AB'[i % 2]}: {turn}" for i, turn in enumerate(chat)]
    return Base("\n".join(chat), "\n".join(facts), reply)


# ----------------------------------------------------------------------------------------- good texts: stories


_UNCLEAN = re.compile(r"[.,!?]'(?:\s|$)|(?:^|\s)'[A-Z]|[a-z]\. [a-z]|_")


def _quotes_close(text: str) -> bool:
    """Ends on a sentence, and its quotes open before they close."""
    opens = re.search(r'"', text)
    if _UNCLEAN.search(text):  # also speech in single quotes, which cannot be told from apostrophes
        return False
    return (
        text[-1] in '.!?"'
        and text.count('"') % 2 == 0
        and (opens is None or not re.match(r'"(?:\s|$)', text[opens.start() :]))
    )


def _story_base(
    text: str, attribute: str, rng: Generator, n_words: int, foreign: tuple[str, ...], reasons: Reasons
) -> Base | None:
    """The next passage, for an opening of a few sentences or for the passage before."""
    parts = [sentence for paragraph in text.split("\n\n") for sentence in sentences(" ".join(paragraph.split()))]
    for _ in range(4):
        opening = rng.random() < 0.6
        start = 0 if opening or len(parts) < 12 else int(rng.integers(len(parts) // 3))
        before = _first_words(parts[start:], int(rng.integers(20, 60)) if opening else min(n_words, 150))
        after = _first_words(parts[start + len(before) :], int(rng.integers(50, 95)))
        context, story = " ".join(before), " ".join(after)
        fits = 3 <= len(after) <= len(story.split()) / 7 and _fits(story, "story") and len(context.split()) >= 12
        if not fits or not _quotes_close(context) or not _quotes_close(story):
            continue
        if attribute == "empathy" and sum(word.strip(".,;!?\"'").lower() in FEELINGS for word in story.split()) < 2:
            continue
        if attribute in ("empathy", "engagement", "complexity", "surprise") and rng.random() < 0.3:
            story = _kept(story, rng)[0]
        return Base(context, "", story) if _fits(story, "story") else None
    reasons[f"story/{attribute}: no passage fits"] += 1
    return None


# ----------------------------------------------------------------------------- good texts: sentences that say facts

_PARTICIPLE = r"(?:\w+ed|born|known|built|held|made|written|led|won|sold|set|found|given|taken|seen|run|located)"
_ADVERB = r"(?:also|first|originally|now|later|[a-z]+ly)"
_CLAUSE = re.compile(
    r"^(?P<subject>(?:The |A |An )?[A-Z][\w'.-]*(?: (?:of |de |van |the )?[A-Z0-9][\w'.-]*){0,4}|He|She|It|They"
    r"|The [a-z]+(?: (?!is\b|was\b|are\b|were\b|has\b|had\b)[a-z]+)?)"
    rf" (?P<verb>(?:is|was|are|were|has been|have been|had been)(?: (?:{_ADVERB} )?{_PARTICIPLE})?"
    r"|has|had|became|won|wrote|led|began|held|made|took|ran|grew|left|built|sold|lies|contains|includes|lives|plays"
    r"|covers|serves|wins|married|\w+ed)"
    r"(?P<link> (?:in|at|on|by|to|for|with|as|from|of|near|into))? (?P<object>[^,;:()\"]{2,110})\.$"
)
_TAIL = re.compile(
    r"^(?P<object>.+?) (?P<link>in|on|at|from|by|for|near|during|until|since) "
    r"(?P<value>(?:the )?(?:[A-Z][\w'-]*(?: [A-Z0-9][\w'-]*)*|\d[\d,]*)(?: \d+)?)$"
)


def _is_open(value: str) -> bool:
    return re.match(r"(?:also|not|never|first|originally|no|been|to)\b", value) is not None


def _facts_in(sentence: str, subject: str) -> list[tuple[str, str, str]] | None:
    """The triples that the sentence says, if it says nothing else."""
    match = _CLAUSE.match(sentence)
    if match is None or len(sentence.split()) > 26:
        return None
    who = match["subject"]
    if who in ("He", "She", "It", "They"):
        who = subject
    if who[:4] == "The " and who[4:5].islower():
        who = who[4:]
    if not who or who.lower() in STOPWORDS or _is_open(match["object"]):
        return None
    relation, value = match["verb"] + (match["link"] or ""), match["object"]
    found: list[tuple[str, str, str]] = []
    tail = _TAIL.match(value)
    if tail is not None:
        value = tail["object"]
        made = re.match(r"(.+) (\w+ed|written|built|made|held)$", value)
        by_verb = tail["link"] in ("in", "on", "at", "near", "during", "since", "until")
        if made is None and not by_verb and " " not in match["verb"]:
            return None
        verb = match["verb"]
        if made is not None:
            value, verb = made[1], made[2]
        found.append((who, f"{verb} {tail['link']}", tail["value"]))
    last = value.split()[-1]
    if last in STOPWORDS or last.endswith("ly") or last == "be":  # the value goes on in words that were cut away
        return None
    if len(value.split()) > 10 or re.search(r"\band (?:also|has|had|is|was|are|were|later|then|\w+ed)\b", value):
        return None
    if re.search(r"\b(?:is|was|are|were|has|had|who|which|that|because|when|while|where|but|if|so|not)\b", value):
        return None
    return [(who, relation, value), *found]


def _triple_base(
    text: str, attribute: str, rng: Generator, n_words: int, foreign: tuple[str, ...], reasons: Reasons
) -> Base | None:
    parts = [made for p in _paragraphs(text) for s in sentences(p) if (made := _compressed(s))]
    head = (
        re.match(r"(?:The |A )?([A-Z][\w'.-]*(?: [\w'.-]+){0,5}?),? (?:is|was|are|were) ", parts[0]) if parts else None
    )
    subject = head[1] if head else ""
    openers = Counter(part.split()[0] for part in parts if part.split()[0] in ("He", "She", "It", "They"))
    usual = openers.most_common(1)[0][0] if openers else ""
    parts = [part for part in parts if part.split()[0] not in openers or part.split()[0] == usual]
    found = [(part, facts) for part in parts[:40] if (facts := _facts_in(part, subject))]
    if not found:
        reasons["data_to_text: no plain sentence"] += 1
        return None
    start = int(rng.integers(len(found)))
    said, triples = [], []
    for part, facts in found[start : start + int(rng.integers(1, 4))]:
        opener = part.split()[0]
        if not said and opener in ("He", "She", "It", "They"):
            part = f"{subject} {part[len(opener) + 1 :]}"
        if len(" ".join([*said, part]).split()) <= 50 and (not said or facts[0][0] == triples[0][0]):
            said.append(part)
            triples += facts
    good = " ".join(said)
    few = len(triples) < (1 if triples and triples[0][0][:1].isupper() else 2)
    if len(good.split()) < 8 or few:
        reasons["data_to_text: too few facts"] += 1
        return None
    camel = rng.random() < 0.5
    lines = []
    for subject_, relation, value in triples:
        relation = re.sub(
            rf"^(?:is|was|are|were|has been|have been|had been) (?:{_ADVERB} )?(?={_PARTICIPLE}\b)", "", relation
        )
        if camel:
            words = relation.split()
            relation = words[0].lower() + "".join(word.capitalize() for word in words[1:])
            subject_, value = subject_.replace(" ", "_"), re.sub(r"^(?:the|a|an) ", "", value).replace(" ", "_")
        lines.append(f"{subject_} | {relation} | {value}")
    return Base("\n".join(lines[int(i)] for i in rng.permutation(len(lines))), "", good)


# --------------------------------------------------------------------------------------- good texts: questions

_HARD = (
    "How is {x} connected with {y}, going by what the passage tells?",
    "What can one conclude about {x} from what is said about {y}?",
    "Why might {x} have mattered for {y}?",
    "Which matters more for the point of the passage, {x} or {y}, and why?",
    "What would have been different for {x} without {y}?",
    "In what way does the part about {y} change how one should see {x}?",
    "What do {x} and {y} have in common, although the passage does not say so?",
    "Taking the whole passage together, what explains the role of {x} with regard to {y}, and which of its statements "
    "would you use to support that view?",
    "How would you defend the claim that {x} depended on {y}, and what in the passage speaks against it?",
)


def _question_base(
    text: str, attribute: str, rng: Generator, n_words: int, foreign: tuple[str, ...], reasons: Reasons
) -> Base | None:
    parts = [s for p in _paragraphs(text) for s in sentences(p)]
    context = " ".join(_first_words(parts, max(60, min(n_words, 160))))
    things = sorted({name.text for name in names("x " + context) if name.kind in ("other", "place")})
    things += sorted(
        {f"the {word}" for word in re.findall(r"(?<=[Tt]he )[a-z]{5,}(?= (?:of|is|was|in|and)\b)", context)}
    )
    if len(things) < 3 or len(context.split()) < 40:
        reasons["question: too few things to ask about"] += 1
        return None
    made = []
    for i in rng.choice(len(_HARD), 3, replace=False):
        x, y = (things[int(j)] for j in rng.choice(len(things), 2, replace=False))
        made.append(_HARD[int(i)].format(x=x, y=y))
    return Base(context, "", made[0], tuple(made[1:]))


Builder = Callable[[str, str, Generator, int, tuple[str, ...], Reasons], "Base | None"]
BUILDERS: dict[str, Builder] = {
    "summarization": _summary_base,
    "dialogue": _reply_base,
    "story": _story_base,
    "data_to_text": _triple_base,
    "question": _question_base,
}
