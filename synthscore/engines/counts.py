"""Two texts and what they are held against, as token ids -> counts of words; and how far these lean to one of the two.

What a reader who has a text and its source side by side would count: words, their pairs and the runs that the text has
in common with the source; no model, and no attribute. What counts are worth for an attribute, weights say (Counted),
which a model's config.json has.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ..types import FloatArray, IntArray

FUNCTION_WORDS = frozenset(
    re.findall(
        r"\w+",
        """
        a about after again all also an and any are as at be been before being both but by can could did do does for
        from had has have he her here him his how i if in into is it its just may me more most my no nor not now of
        off on once only or other our out over own s same she should so some such t than that the their them then
        there these they this those through to too under until up us very was we were what when where which while
        who whom why will with would you your
        """,
    )
)
Path = tuple[int, ...]
"""Numbers of paragraphs, as isolated.ParagraphPlan has them."""

HEADING = 3  # tokens: a word, a name and a colon

SAYS = {1: ("better", "yes", "b"), -1: ("worse", "no", "a")}
"""Labels that are for the second text, and for the first."""

NONE, FUNCTION, CONTENT, NUMBER = range(4)
NEAR_THE_END = 40  # words of the source that count as its end
MOST_PLACES = 50  # of a word pair in the source that are looked at: so time grows with the text alone
COUNTS = (
    "pairs held", "content held", "copied span", "longest run", "density of runs", "unsupported numbers",
    "order of runs", "repeated pairs", "length", "closed", "pairs of the end", "place of runs",
    "pairs apart",
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """kinds : uint8, shape (n_tokens,): NONE for what is no word, else its kind. closing : ids that close a text"""

    kinds: npt.NDArray[np.uint8]
    closing: frozenset[int]

    @classmethod
    def of(cls, tokenizer: Any) -> Vocabulary:
        kinds = np.full(len(tokenizer), NONE, dtype=np.uint8)
        for token, index in tokenizer.get_vocab().items():
            word = token.removeprefix("##")
            if word.isalnum():
                kinds[index] = NUMBER if word[0].isdigit() else FUNCTION if token in FUNCTION_WORDS else CONTENT
        return cls(kinds, frozenset(tokenizer.convert_tokens_to_ids([".", "!", "?", '"', "'"])))

    def words(self, ids: IntArray) -> list[int]:
        found: list[int] = ids[self.kinds[ids] != NONE].tolist()
        return found


class SourceText:
    """What texts are held against, from its token ids."""

    def __init__(self, ids: IntArray, vocabulary: Vocabulary) -> None:
        self.vocabulary, self.words = vocabulary, vocabulary.words(ids)
        self.known = frozenset(self.words)
        self.places: dict[tuple[int, int], list[int]] = defaultdict(list)
        for place, pair in enumerate(pairwise(self.words)):
            if len(self.places[pair]) < MOST_PLACES:
                self.places[pair].append(place)
        self.ending = frozenset(pairwise(self.words[-NEAR_THE_END:]))

    def counts(self, text: IntArray) -> FloatArray:
        """Of a text's token ids, in the order of COUNTS, float64. Shares are of its words, of its word pairs, or of its
        words that are no function words; places and lengths are in words."""
        words = self.vocabulary.words(text)
        pairs = list(pairwise(words))
        kinds = self.vocabulary.kinds
        content = [word for word in words if kinds[word] != FUNCTION]
        strange = [word for word in content if word not in self.known]
        runs = self.runs(words)
        sizes = np.array([size for size, _ in runs] or [0])
        places = [place for _, place in runs]
        forward = [later > sooner for sooner, later in pairwise(places)]
        apart = [pair for pair in pairs if pair not in self.places and self.known.issuperset(pair)]
        n, n_pairs = max(1, len(words)), max(1, len(pairs))
        counts: dict[str, float] = {
            "pairs held": sum(pair in self.places for pair in pairs) / n_pairs,
            "content held": 1 - len(strange) / max(1, len(content)),
            "copied span": sizes.max() / n,
            "longest run": np.log1p(sizes.max()),
            "density of runs": np.log1p((sizes**2).sum() / n),
            "unsupported numbers": sum(kinds[word] == NUMBER for word in strange) / n,
            "order of runs": float(np.mean(forward)) if forward else 0.0,
            "repeated pairs": (len(pairs) - len(set(pairs))) / n_pairs,
            "length": np.log(n),
            "closed": len(text) > 0 and int(text[-1]) in self.vocabulary.closing,
            "pairs of the end": sum(pair in self.ending for pair in pairs) / n_pairs,
            "place of runs": float(np.mean(places)) / len(self.words) if places else 0.0,
            "pairs apart": len(apart) / n_pairs,
        }
        return np.array([counts[name] for name in COUNTS], dtype=np.float64)

    def runs(self, words: Sequence[int]) -> list[tuple[int, int]]:
        """(length, place in the source) of the maximal runs of two or more words that the source holds, left to right:
        at each word the longest one; where the source holds it twice, the first."""
        found, at = [], 0
        while at < len(words) - 1:
            size, start = 1, 0
            for place in self.places.get((words[at], words[at + 1]), ()):
                n, most = 2, min(len(words) - at, len(self.words) - place)
                while n < most and words[at + n] == self.words[place + n]:
                    n += 1
                if n > size:
                    size, start = n, place
            found += [(size, start)] * (size > 1)
            at += size
        return found


class Counted:
    """How far counts alone lean to one of two texts, by the attribute that is asked about.

    A question's attribute is told by how its last shared paragraph begins; a question that begins otherwise has no
    weights, and counts say nothing. It asks for the worse text where it holds the attribute's words for that.
    """

    def __init__(self, attributes: Sequence[dict[str, Any]], tokenizer: Any) -> None:
        """attributes : {"begins": .., "worse": .., "weights": of COUNTS} of each"""

        def ids(text: str) -> str:
            return _spaced(tokenizer(text, add_special_tokens=False)["input_ids"])

        self.vocabulary = Vocabulary.of(tokenizer)
        self._attributes = [(ids(one["begins"]), ids(one["worse"]), np.array(one["weights"])) for one in attributes]

    def weights(self, question: IntArray) -> FloatArray | None:
        """Of the attribute that a paragraph asks about, for the better text or (turned round) the worse."""
        asked = _spaced(question.tolist())
        for begins, worse, weights in self._attributes:
            if asked.startswith(begins):
                return -weights if worse in asked else weights
        return None


def _spaced(ids: Sequence[int]) -> str:
    return f" {' '.join(map(str, ids))} "


def leanings(asked: Sequence[Sequence[Path]], ids_of: Callable[[Path], IntArray], counted: Counted) -> FloatArray:
    """By how many nats what is counted in two texts speaks for the second one, shape (n_sequences,). 0 where it is no
    question about two texts, or about an attribute without weights.

    asked : of each sequence the numbers of its shared paragraphs, of text 1 and of text 2
    ids_of : the tokens of paragraphs, by these numbers
    """
    sources: dict[Path, SourceText] = {}
    counts: dict[tuple[Path, Path], FloatArray] = {}
    leaning = np.zeros(len(asked))
    # Of the shared paragraphs, the first are the instructions, the last is the question. The source is between them.
    for index, (shared, *texts) in enumerate(asked):
        if not shared or not all(texts):
            continue
        weights = counted.weights(ids_of(shared[-1:]))
        if weights is None:
            continue
        if shared not in sources:
            sources[shared] = SourceText(ids_of(shared[1:-1]), counted.vocabulary)
        for text in texts:
            if (shared, text) not in counts:
                counts[shared, text] = sources[shared].counts(ids_of(text)[HEADING:-1])  # without the empty line
        first, second = (counts[shared, text] for text in texts)
        leaning[index] = weights @ (second - first)
    return leaning


def says_of(tokenizer: Any) -> dict[int, list[int]]:
    """The labels that are for the second text (1) and for the first (-1), as tokens."""
    return {sign: tokenizer.convert_tokens_to_ids(list(labels)) for sign, labels in SAYS.items()}


def lean(logits: torch.Tensor, leaning: torch.Tensor, says: Mapping[int, list[int]]) -> None:
    """Add half of each leaning to the logits of the labels for the second text, and subtract half from those for the
    first, in place. logits : shape (n_sequences, vocabulary). leaning : shape (n_sequences,), nats"""
    for sign, tokens in says.items():
        logits[:, tokens] += sign / 2 * leaning[:, None].to(logits)
