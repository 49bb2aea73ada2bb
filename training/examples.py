"""A group of texts of known damage -> the plan of its prompts, and the answer that each prompt should get.

All ordered pairs of a group share the instructions and the context, and each text is read once as first and once as
second text. They are rendered with the package's own templates, and answered in one forward pass.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
from transformers import PreTrainedTokenizerBase

from synthscore.engines import isolated
from synthscore.engines.counts import Counted, leanings
from synthscore.engines.isolated import Marks, ParagraphPlan, plan, split_paragraphs
from synthscore.judging.templates import Templates, load_task, task_names
from synthscore.types import Context, FloatArray, IntArray

from .groups import Group

BREAK = "\n\n"  # between paragraphs: a token of its own
SETTINGS = {"paragraph_end": BREAK, "texts": [["1", "a"], ["2", "b"]], "longest": 512}  # of the model's config.json
ALONE = "alone"
PROTOCOLS = ("compare", "yes_no", "choose")
LABELS = {"compare": ("Better", "Worse", "Similar"), "yes_no": ("Yes", "No"), "choose": ("A", "B")}
SMOOTHING = 0.02  # probability kept for the labels that are not the right one: verdicts stay short of certainty


@dataclass(frozen=True, slots=True, eq=False)
class Example:
    """Prompts in one plan, and their answers.

    protocol : which labels are answered, or ALONE: texts are only read, each by itself, and nothing is asked
    leanings : float64, shape (n_prompts,): by how much counts are for the second text (counts.leanings)
    answers : float64, shape (n_prompts, n_labels), rows sum to 1
    gaps : float64, shape (n_prompts,): by how much the damage of the text asked about is less than that of the other
    opposite : int64, shape (n_prompts,): the prompt that asks about the same two texts in the other order
    ends, severities : int64 and float64, shape (n_ends,): where a text has been read, which is the token of the empty
        line behind it, and its damage, in [0, 1]
    nodes, damaged : int64 and float64, shape (n_nodes,): the tokens of the texts; 1 where the token's word is where the
        damage lies, else 0; NaN: not known
    found : float64, shape (n_nodes, 2): 1 where the token's word stands in the context or the facts, and where it does
        so behind the same word; NaN: not a word
    """

    protocol: str
    plan: ParagraphPlan
    leanings: FloatArray
    answers: FloatArray
    gaps: FloatArray
    opposite: IntArray
    ends: IntArray
    severities: FloatArray
    nodes: IntArray
    damaged: FloatArray
    found: FloatArray


def templates_of_tasks() -> dict[str, Templates]:
    """Those of each built-in task, by its name."""
    return {name: Templates(load_task(name)) for name in task_names()}


def prompts(
    group: Group,
    protocol: str,
    templates: Templates,
    *,
    worse: bool = False,
) -> list[tuple[int, int, str]]:
    """All ordered pairs of the group as (index asked about, index of the other, prompt text)."""
    context = Context(id="group", text=group.context, facts=group.facts)
    attribute = templates.task.attribute(group.attribute)
    made = []
    for i, target in enumerate(group.texts):
        for j, reference in enumerate(group.texts):
            if i == j:
                continue
            if protocol == "compare":
                prompt = templates.compare(context, attribute, target=target, reference=reference)
            elif protocol == "yes_no":
                prompt = templates.yes_no(context, attribute, target=target, reference=reference, worse=worse)
            else:
                prompt = templates.choose(context, attribute, first=target, second=reference)
            made.append((i, j, prompt.text))
    return made


def answer(gap: float, protocol: str, *, worse: bool = False) -> list[float]:
    """What the judge should say of a text whose severity is lower than the other's by `gap`."""
    if protocol == "compare":
        right = 0 if gap > 0 else 1 if gap < 0 else 2
        return [1 - 2 * SMOOTHING if label == right else SMOOTHING for label in range(3)]
    if gap == 0:
        return [0.5, 0.5]
    yes = (gap > 0) != worse
    return [1 - SMOOTHING, SMOOTHING] if yes else [SMOOTHING, 1 - SMOOTHING]


def example(
    group: Group,
    protocol: str,
    templates: Templates,
    tokenizer: PreTrainedTokenizerBase,
    *,
    counted: Counted | None = None,
    worse: bool = False,
    max_tokens: int = 1024,
) -> Example | None:
    """The group in one plan, or None when a prompt would be longer than max_tokens (nothing is ever cut)."""
    worse = worse and protocol == "yes_no"  # the other protocols ask in one way only
    triples = prompts(group, protocol, templates, worse=worse)
    ids: Sequence[Sequence[int]] = tokenizer([text for _, _, text in triples], add_special_tokens=False)["input_ids"]
    if max(map(len, ids)) >= max_tokens:
        return None
    gaps = [group.severities[j] - group.severities[i] for i, j, _ in triples]
    marks = marks_of(tokenizer)
    planned = plan([split_paragraphs(each, marks) for each in ids])
    shown = [(j, i) if protocol == "choose" else (i, j) for i, j, _ in triples]  # second, first
    places = {(i, j): prompt for prompt, (i, j, _) in enumerate(triples)}
    return Example(
        protocol,
        planned,
        leanings(planned.asked, planned.ids_of, counted) if counted else np.zeros(len(triples)),
        np.array([answer(gap, protocol, worse=worse) for gap in gaps]),
        np.array(gaps),
        np.array([places[j, i] for i, j, _ in triples]),
        *_of_texts(planned, [{1: first, 2: second} for second, first in shown], group, tokenizer),
    )


def alone(
    group: Group, templates: Templates, tokenizer: PreTrainedTokenizerBase, *, max_tokens: int = 1024
) -> Example | None:
    """Each text of the group as the first one of a question, which ends behind it; None where that is too long."""
    context = Context(id="group", text=group.context, facts=group.facts)
    attribute = templates.task.attribute(group.attribute)
    texts = []
    for text in group.texts:
        asked = templates.compare(context, attribute, target="x", reference=text).text
        texts.append(asked[: asked.rindex(f"{BREAK}{templates.task.text_noun.capitalize()} 2:") + len(BREAK)])
    ids: Sequence[Sequence[int]] = tokenizer(texts, add_special_tokens=False)["input_ids"]
    if max(map(len, ids)) >= max_tokens:
        return None
    marks = marks_of(tokenizer)
    planned = plan([split_paragraphs(each, marks) for each in ids])
    none = np.empty(0)
    return Example(
        ALONE,
        planned,
        none,
        np.empty((0, 3)),
        none,
        none.astype(np.int64),
        *_of_texts(planned, [{1: index} for index in range(len(texts))], group, tokenizer),
    )


def marks_of(tokenizer: PreTrainedTokenizerBase) -> Marks:
    return isolated.marks_of(SimpleNamespace(synthscore=SETTINGS), tokenizer)


def _of_texts(
    planned: ParagraphPlan, shown: Sequence[Mapping[int, int]], group: Group, tokenizer: PreTrainedTokenizerBase
) -> tuple[IntArray, FloatArray, IntArray, FloatArray, FloatArray]:
    """Where texts end and where their tokens are, with what is known of both: Example's ends to found.

    shown : of each prompt: which text of the group stands first (1) and second (2)
    """
    damaged_words = group.damaged or (None,) * len(group.texts)
    source = words_in(f"{group.context}\n{group.facts}")
    known = set(pairwise(source)) | {(word,) for word in source}
    marks = [
        _token_marks(text, words, known, tokenizer) for text, words in zip(group.texts, damaged_words, strict=True)
    ]
    ends: dict[int, float] = {}
    nodes: dict[int, tuple[float, float, float]] = {}
    for prompt, texts in enumerate(shown):
        for part, text in texts.items():
            tokens = planned.places(planned.paragraphs_of(prompt, part)).tolist()
            ends[tokens[-1]] = group.severities[text]
            nodes.update(zip(tokens[-1 - len(marks[text]) : -1], marks[text], strict=True))
    told = np.array(list(nodes.values()))
    return (
        np.fromiter(ends, dtype=np.int64),
        np.array(list(ends.values())),
        np.fromiter(nodes, dtype=np.int64),
        told[:, 0],
        told[:, 1:],
    )


_WORD = re.compile(r"\w+")


def words_in(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _token_marks(
    text: str, damaged: Sequence[bool] | None, known: Set[tuple[str, ...]], tokenizer: PreTrainedTokenizerBase
) -> list[tuple[float, float, float]]:
    """Of each token: is its word damaged, is the word known, is the pair of it and the word before? NaN: not known."""
    spans = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    piece_of = np.cumsum([char.isspace() and not text[i - 1].isspace() for i, char in enumerate(text)])
    found: dict[int, tuple[float, float]] = {}
    before = ""
    for match in _WORD.finditer(text):
        word = match[0].lower()
        told = (float((word,) in known), float((before, word) in known) if before else np.nan)
        found.update(dict.fromkeys(range(*match.span()), told))
        before = word
    return [
        (np.nan if damaged is None else float(damaged[piece_of[start]]), *found.get(start, (np.nan, np.nan)))
        for start, _ in spans
    ]
