"""A corpus document -> a good text with its context: what everything else in a group is made from.

One builder a task: an article's lead for the body without it, or its central sentences; the next turn; the next
passage; sentences that say a set of facts; questions that ask for thought. Knows nothing of damage.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from numpy.random import Generator

from synthscore.degrade.reading import centrality, content_words, names, sentences, word_map, word_set

from .rewording import preserve_path

LIMITS = {  # words of every text of a group, damaged ones too
    "summarization": (20, 90),
    "dialogue": (4, 40),
    "story": (40, 110),
    "data_to_text": (5, 60),
    "question": (5, 60),
}
WITH_FACTS = 0.6  # of the dialogues, where what is asked is not about facts
BRACKETS = 0.5  # of the summaries keep what stands in brackets: it is no damage

Reasons = Counter[str]


@dataclass(frozen=True, slots=True)
class Base:
    """A good text with its context. `twins` are other texts that are as good in the attribute asked about."""

    context: str
    facts: str
    text: str
    twins: tuple[str, ...] = ()


def reworded(text: str, rng: Generator) -> tuple[str, str]:
    """The text after one to three edits that keep the meaning, and their names."""
    steps = list(preserve_path(text, rng, int(rng.integers(1, 4))))
    return (steps[-1].text, "+".join(step.kind for step in steps)) if steps else (text, "good")


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


def _compressed(sentence: str, brackets: bool = False) -> str:
    """Without what introduces it, and without what stands in brackets, unless those are to stay."""
    if not brackets:
        sentence = re.sub(r"\s?\([^()]*\),(?= (?:is|was|were|are)\b)", "", sentence)
        sentence = _PARENTHESIS.sub("", sentence)
    sentence = _OPENERS.sub("", sentence)
    return sentence[:1].upper() + sentence[1:]


def leans(sentence: str) -> bool:
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
    brackets = bool(rng.random() < BRACKETS)
    kept = [_compressed(sentence, brackets) for sentence in lead if _whole(sentence) and _supported(sentence, context)]
    summary = " ".join(kept)
    if not kept or leans(kept[0]) or (attribute == "coherence" and len(kept) < 2):
        reasons["summarization: lead unsupported"] += 1
        return None
    if not _fits(summary, "summarization"):
        reasons["summarization: lead too long or too short"] += 1
        return None
    twins: tuple[str, ...] = ()
    if attribute in ("consistency", "fluency"):
        twins = tuple(_extracts(list(sentences(context)), context, attribute, rng))
        if twins and rng.random() < 0.3:
            summary, twins = twins[0], (summary, *twins[1:])
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
    brackets = bool(rng.random() < BRACKETS)
    for n_parts in (int(rng.integers(2, 5)), 2, 1):
        chosen = sorted(options[:n_parts])
        if chosen and leans(parts[chosen[0]]):
            firm = [i for i in options if not leans(parts[i])]
            chosen = sorted({*firm[:1], *(i for i in chosen if firm and i > firm[0])})
        # a sentence that leans on the one before stays only right behind it
        chosen = [i for k, i in enumerate(chosen) if not leans(parts[i]) or (k and chosen[k - 1] == i - 1)]
        summary = " ".join(_compressed(parts[i], brackets) for i in chosen)
        if chosen and _fits(summary, "summarization"):
            return summary
    return None


def _extract(parts: list[list[str]], attribute: str, rng: Generator, n_words: int, reasons: Reasons) -> Base | None:
    """Sentences of the article itself, and others of another length and place that are as good."""
    first = _first_words([sentence for paragraph in parts for sentence in paragraph], n_words)
    context = " ".join(first)
    found = [
        made for made in _extracts(first, context, attribute, rng) if len(context.split()) >= 1.4 * len(made.split())
    ]
    if not found or len(context.split()) < 40:
        reasons["summarization: no extract fits"] += 1
        return None
    if rng.random() < 0.5:
        found[0] = reworded(found[0], rng)[0]
    return Base(context, "", found[0], tuple(found[1:])) if _fits(found[0], "summarization") else None


def _extracts(parts: Sequence[str], context: str, attribute: str, rng: Generator) -> list[str]:
    """Up to four extracts, in random order: the central sentences, the first ones, or (where it is of no matter what is
    said) some that follow one another."""
    makers = {"coherence": (_passage, _opening), "relevance": (_central, _opening)}.get(
        attribute, (_central, _opening, _passage)
    )
    found: dict[str, None] = {}
    for _ in range(2):
        for maker in makers:
            made = maker(parts, context, rng)
            if made:
                found[made] = None
    texts = list(found)
    return [texts[int(i)] for i in rng.permutation(len(texts))[:4]]


def _opening(parts: Sequence[str], context: str, rng: Generator) -> str | None:
    """The first two to four sentences: articles begin with what matters most."""
    brackets = bool(rng.random() < BRACKETS)
    run = parts[: int(rng.integers(2, 5))]
    opening = " ".join(part if brackets else _PARENTHESIS.sub("", part) for part in run)
    return opening if all(map(_whole, run)) and not leans(run[0]) and _fits(opening, "summarization") else None


def _passage(parts: Sequence[str], context: str, rng: Generator) -> str | None:
    """Two to five sentences that follow one another."""
    brackets = bool(rng.random() < BRACKETS)
    starts = [i for i, part in enumerate(parts[:-2]) if not leans(part)]
    for i in rng.permutation(len(starts))[:4]:
        for size in (int(rng.integers(2, 6)), 3):
            run = parts[starts[i] : starts[i] + size]
            passage = " ".join(part if brackets else _PARENTHESIS.sub("", part) for part in run)
            if len(run) >= 2 and all(map(_whole, run)) and _fits(passage, "summarization"):
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
    elif rng.random() < WITH_FACTS:
        facts = _facts_beside(turns[i + 1 :], foreign, rng)
        if rng.random() < 0.6:  # people use facts that they are given, and so do machines
            facts = "\n".join(filter(None, (facts, _facts_of(reply, (), rng))))
    twins: tuple[str, ...] = ()
    if attribute in ("naturalness", "understandability"):  # other turns are as well said, be they right here or not
        others = [turns[j][3:] for j in fitting if j != i]
        twins = tuple(others[int(j)] for j in rng.permutation(len(others))[:3])
    return Base("\n".join(history), facts, reply, twins)


def _facts_of(reply: str, foreign: tuple[str, ...], rng: Generator) -> str:
    """What the reply says, in slightly other words, among statements that have nothing to do with it."""
    said = [s for s in sentences(reply) if not s.endswith("?") and len(content_words(s)) >= 3]
    if not said:
        return ""
    facts = [reworded(said[int(rng.integers(len(said)))], rng)[0]]
    for other in foreign[: int(rng.integers(1, 3))] if foreign else ():
        turns = [s[3:] if s[1:3] == ": " else s for s in sentences(other)]
        turns = [s for s in turns if 6 <= len(s.split()) <= 24 and not s.endswith("?")]
        facts += turns[:1]
    return "\n".join(facts[int(i)] for i in rng.permutation(len(facts)))


def _facts_beside(later: Sequence[str], foreign: tuple[str, ...], rng: Generator) -> str:
    """Statements of later turns and of other dialogues, which the reply does not use."""
    told = [s for turn in later for s in sentences(turn[3:])][:6]
    for other in foreign[: int(rng.integers(1, 4))]:
        told += [s[3:] if s[1:3] == ": " else s for s in sentences(other)][:3]
    told = [s for s in told if 6 <= len(s.split()) <= 30 and not s.endswith("?")]
    return "\n".join(told[int(i)] for i in rng.permutation(len(told)))


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
    usable = [s for s in parts if 8 <= len(s.split()) <= 24 and not leans(s) and '"' not in s]
    if not topic or not usable or len(parts) < 3:
        reasons["dialogue: no facts in the article"] += 1
        return None
    fact = usable[int(rng.integers(len(usable)))]
    others = [s for s in parts if s != fact and len(s.split()) < 36][: int(rng.integers(1, 4))]
    facts = [fact, *others]
    facts = [facts[int(i)] for i in rng.permutation(len(facts))]
    reply = _LEAD_INS[int(rng.integers(len(_LEAD_INS)))].format(reworded(fact, rng)[0])
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
        if (
            attribute == "empathy"
            and sum(word.strip(".,;!?\"'").lower() in word_map("feelings") for word in story.split()) < 2
        ):
            continue
        if attribute in ("empathy", "engagement", "complexity", "surprise") and rng.random() < 0.3:
            story = reworded(story, rng)[0]
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
    if not who or who.lower() in word_set("stopwords") or _is_open(match["object"]):
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
    if (
        last in word_set("stopwords") or last.endswith("ly") or last == "be"
    ):  # the value goes on in words that were cut away
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
