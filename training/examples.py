"""A group of texts of known damage -> one tree of prompts, and the answer that each prompt should get.

All ordered pairs of a group share the instructions and the context; all pairs with the same first text share that too.
They are rendered with the package's own templates, packed into one token tree, and answered in one forward pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from transformers import PreTrainedTokenizerBase

from synthscore.engines.trie import Packed, pack
from synthscore.prompts import Templates
from synthscore.types import Context, FloatArray, IntArray

from .groups import Group

PROTOCOLS = ("compare", "yes_no", "choose")
LABELS = {"compare": ("Better", "Worse", "Similar"), "yes_no": ("Yes", "No"), "choose": ("A", "B")}
SMOOTHING = 0.02  # probability kept for the labels that are not the right one: verdicts stay short of certainty


@dataclass(frozen=True, slots=True, eq=False)
class Example:
    """One packed tree and its answers.

    protocol : which labels are answered
    answers : float64, shape (n_prompts, n_labels), rows sum to 1
    nodes : int64, shape (n_nodes,): the tree's tokens that belong to one of the texts
    severities, weights : float64, shape (n_nodes,): the damage of that text, in [0, 1], and how much of the text has
        been read at this token, in (0, 1]
    damaged : float64, shape (n_nodes,): 1 where the token's word is where the damage lies, else 0; NaN: not known
    opposite : int64, shape (n_prompts,): the prompt that asks about the same two texts in the other order
    """

    protocol: str
    packed: Packed
    answers: FloatArray
    gaps: FloatArray
    nodes: IntArray
    severities: FloatArray
    weights: FloatArray
    damaged: FloatArray
    opposite: IntArray


def prompts(group: Group, protocol: str, templates: Templates, *, worse: bool = False) -> list[tuple[int, int, str]]:
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
    worse: bool = False,
    max_tokens: int = 1024,
) -> Example | None:
    """The group as one tree, or None when a prompt would be longer than max_tokens (nothing is ever cut)."""
    worse = worse and protocol == "yes_no"  # the other protocols ask in one way only
    triples = prompts(group, protocol, templates, worse=worse)
    ids: Sequence[Sequence[int]] = tokenizer([text for _, _, text in triples], add_special_tokens=False)["input_ids"]
    if max(map(len, ids)) >= max_tokens:
        return None
    gaps = [group.severities[j] - group.severities[i] for i, j, _ in triples]
    packed = pack(ids)
    shown = [(j, i) if protocol == "choose" else (i, j) for i, j, _ in triples]  # second, first
    nodes, severities, weights, damaged = _text_nodes(packed, shown, group, templates, tokenizer)
    places = {(i, j): prompt for prompt, (i, j, _) in enumerate(triples)}
    return Example(
        protocol=protocol,
        packed=packed,
        answers=np.array([answer(gap, protocol, worse=worse) for gap in gaps]),
        gaps=np.array(gaps),
        nodes=nodes,
        severities=severities,
        weights=weights,
        damaged=damaged,
        opposite=np.array([places[j, i] for i, j, _ in triples]),
    )


def _text_nodes(
    packed: Packed,
    shown: Sequence[tuple[int, int]],
    group: Group,
    templates: Templates,
    tokenizer: PreTrainedTokenizerBase,
) -> tuple[IntArray, FloatArray, FloatArray, FloatArray]:
    """The tokens of the texts: counted back from each prompt's end, over the cue, the second text and its heading."""

    def n_tokens(text: str) -> int:
        return len(tokenizer(text, add_special_tokens=False)["input_ids"])

    cue, heading = n_tokens("Verdict:"), n_tokens(f"{templates.task.text_noun} 2:")
    damaged_words = group.damaged or (None,) * len(group.texts)
    marks = [_token_marks(text, words, tokenizer) for text, words in zip(group.texts, damaged_words, strict=True)]
    lengths = [len(of_text) for of_text in marks]
    found: dict[int, tuple[float, float, float]] = {}  # a token that two texts begin with counts for one of them
    for prompt, (second, first) in enumerate(shown):
        node = int(packed.ends[prompt])
        for text, skipped in ((second, cue), (first, heading)):
            for _ in range(skipped):
                node = int(packed.parents[node])
            for left in range(lengths[text], 0, -1):
                found.setdefault(node, (group.severities[text], left / lengths[text], marks[text][left - 1]))
                node = int(packed.parents[node])
    severities, weights, damaged = np.array(list(found.values())).T
    return np.fromiter(found, dtype=np.int64), severities, weights, damaged


def _token_marks(text: str, words: Sequence[bool] | None, tokenizer: PreTrainedTokenizerBase) -> list[float]:
    """Of each token: is its word marked? NaN where the marks are not known."""
    spans = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    if words is None:
        return [np.nan] * len(spans)
    word_of = np.cumsum([char.isspace() and not text[i - 1].isspace() for i, char in enumerate(text)])
    return [float(words[word_of[start]]) for start, _ in spans]
