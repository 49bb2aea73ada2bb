"""Models that read two texts as isolated segments: exact label log-probabilities. They judge and do not write.

Such a model is an encoder. It reads each paragraph of a prompt in both directions, and each paragraph sees certain
others (ParagraphPlan):

    instructions, article, question     see what stands before them
    text 1  |  text 2                   see these, and themselves; not each other
    the cue at the end                  sees all

What a token is read as depends on what it sees alone, and is the same in all prompts that have it: of m texts compared
with n others, m + n texts are read, and m x n cues, and a text as an encoder was trained to read it. A prompt without
two texts under headings is paragraphs that see what stands before them.

- together: prompts that share paragraphs are read in one forward, each paragraph once.
- single: one prompt a forward, so that a number depends on its own prompt alone.

A check at load compares them. Such a model's config.json has a part "synthscore" (marks_of).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa
from transformers import AttentionInterface, AutoModelForMaskedLM

from ..engine import Kind, Prompt
from ..types import FloatArray, IntArray
from .loading import choose_backend, disagreement
from .local import LocalEngine, Questions, TokenIds, log_softmax
from .reading_order import CUE, SHARED, Pieces, reading_order, sizes_of
from .tokens import PromptTokenizer

Backend = Literal["together", "single"]
_BACKENDS: dict[Backend, str] = {"together": "together", "single": "one at a time, which is slower"}

ATTENTION = "synthscore_apart"
N_QUERIES = 160  # of one block: few enough that most keys of other prompts are never touched

Block = tuple[int, int, torch.Tensor, torch.Tensor]
"""Queries from, to; their keys; what is added to the scores, shape (n_queries, n_keys)."""

Path = tuple[int, ...]
MOST_TOKENS = 65_536  # of a prompt: memory grows with it
REACH = 1024  # tokens before a piece of the context, or of a text, that it sees of the same
HEADING = 3  # tokens: a word, a name and a colon

_CONTEXT = "Article:\nA storm closed the harbour on Monday, and forty boats stayed in port. Nobody was hurt.\n\n"
_CHECK_TEXTS = [
    f"{_CONTEXT}Text 1:\n{one}\n\nText 2:\n{other}\n\nVerdict:"
    for one in ("The harbour is closed.", "It rained.")
    for other in ("Boats stayed in port after a storm.", "Forty boats sank.")
]


class IsolatedEngine(LocalEngine):
    """A model that reads two texts as isolated segments, and judges. It does not write."""

    auto_class = AutoModelForMaskedLM
    kind = "a model that reads isolated segments"
    alone = "single"
    usual = 4096
    cannot: ClassVar[Mapping[Kind, str]] = {"text": "write a text", "tokens": "say how probable a text is"}

    def _prepare(self, tokenizer: Any, backend: str) -> str:
        self.model.set_attn_implementation(ATTENTION)
        self.prompts = PromptTokenizer(tokenizer, MOST_TOKENS)
        self._marks = marks_of(self.model.config, tokenizer)
        self.counted = Counted(self.model.config.synthscore.get("counts", []), tokenizer)
        self._says = says_of(tokenizer)
        return choose_backend(self.name, backend, _BACKENDS, self._problem)

    def _next_log_probs(self, asked: Questions) -> Iterator[tuple[Sequence[int], torch.Tensor, int]]:
        """A label of several tokens is read with its beginning as the end of the prompt's last paragraph."""
        for group in self._groups(asked.sequences):
            yield group, *self._run([asked.sequences[index] for index in group])

    def _groups(self, sequences: Sequence[TokenIds]) -> list[list[int]]:
        if self.backend == "single":
            return [[place] for place in range(len(sequences))]
        return chunks(sequences, self._marks, self.max_tokens)

    def _run(self, sequences: Sequence[TokenIds]) -> tuple[torch.Tensor, int]:
        """Log-probabilities of the token after each sequence, float32, shape (n_sequences, vocabulary), and the number
        of tokens run over."""
        together = plan(sequences, self._marks)
        leaning = torch.from_numpy(leanings(together, self.counted))
        with torch.inference_mode():
            read = states(self.model.base_model, [together], self.model.dtype)
            logits = self.model.cls(read[torch.from_numpy(together.ends)])
            lean(logits, leaning, self._says)
        return log_softmax(logits).cpu(), together.n_tokens

    def _problem(self, backend: Backend) -> str:
        if backend == "single":
            return ""
        sequences = [np.array(self.prompts.encode(Prompt(text)), dtype=np.int32) for text in _CHECK_TEXTS]
        alone = torch.cat([self._run([sequence])[0] for sequence in sequences])
        return disagreement(self._run(sequences)[0], alone, self.model.dtype)


# -------------------------------------------------------------------------------------------- how a BERT reads a plan


def marks_of(config: Any, tokenizer: Any) -> Marks:
    """What a model's config.json says: {"synthscore": {"paragraph_end": .., "texts": [[..], [..]], "longest": ..}}."""
    marks = config.synthscore
    first, second = (frozenset(map(int, tokenizer.convert_tokens_to_ids(names))) for names in marks["texts"])
    end, colon = tokenizer.convert_tokens_to_ids([marks["paragraph_end"], ":"])
    longest = marks.get("longest") or config.max_position_embeddings
    return Marks(end=int(end), names=(first, second), colon=int(colon), longest=longest)


def leanings(planned: ParagraphPlan, counted: Counted) -> FloatArray:
    """By how many nats the counts of each sequence's two texts are for the second one, shape (n_sequences,); 0 where it
    is no question about two texts, or about an attribute without weights."""
    sources: dict[Path, SourceText] = {}
    counts: dict[tuple[Path, Path], FloatArray] = {}
    leaning = np.zeros(len(planned.paths))

    def ids_of(paragraphs: Path) -> IntArray:
        return planned.ids[planned.places(paragraphs)]

    for index in range(len(leaning)):
        shared, *texts = (planned.paragraphs_of(index, part) for part in (SHARED, 1, 2))
        weights = counted.weights(ids_of(shared[-1:])) if shared and all(texts) else None
        if weights is None:
            continue
        if shared not in sources:
            sources[shared] = SourceText(ids_of(shared[1:-1]), counted.vocabulary)
        for text in texts:
            if (shared, text) not in counts:
                counts[shared, text] = sources[shared].counts(ids_of(text)[HEADING:-1])
        first, second = (counts[shared, text] for text in texts)
        leaning[index] = weights @ (second - first)
    return leaning


def blocks_of(plans: Sequence[ParagraphPlan], dtype: torch.dtype, device: Any = "cpu") -> list[Block]:
    """Of plans that stand side by side in one sequence."""
    blocks, offset = [], 0
    for planned in plans:
        for start, stop, keys, seen in planned.blocks(N_QUERIES):
            bias = torch.zeros(seen.shape, dtype=dtype).masked_fill_(torch.from_numpy(~seen), -1e9)
            places = torch.from_numpy(keys + offset).to(device)
            blocks.append((offset + start, offset + stop, places, bias.to(device)))
        offset += planned.n_tokens
    return blocks


def attention(
    module: Any, query: Any, key: Any, value: Any, mask: None, scaling: float, *, blocks: Sequence[Block], **_: Any
) -> tuple[torch.Tensor, None]:
    """Block by block of queries, each with the keys that any of the block sees. Shapes (1, heads, n_tokens, size)."""
    outputs = []
    with torch.autocast(query.device.type, enabled=False):
        for start, stop, keys, bias in blocks:
            queries = query[:, :, start:stop]
            seen_keys, seen_values = key.index_select(2, keys), value.index_select(2, keys)
            outputs.append(sdpa(queries, seen_keys, seen_values, attn_mask=bias, scale=scaling))
    return torch.cat(outputs, dim=2).transpose(1, 2), None


AttentionInterface.register(ATTENTION, attention)


def states(model: Any, plans: Sequence[ParagraphPlan], dtype: torch.dtype) -> torch.Tensor:
    """Last hidden states of plans side by side, in one forward, shape (n_tokens of all, hidden_size).

    model : a BertModel with the attention of this module. dtype : that it computes attention in
    """

    def joined(name: str) -> torch.Tensor:
        rows = np.concatenate([getattr(planned, name) for planned in plans])
        return torch.from_numpy(rows)[None].to(model.device)

    read = model(
        input_ids=joined("ids"),
        position_ids=joined("positions"),
        token_type_ids=joined("kinds"),
        blocks=blocks_of(plans, dtype, model.device),
    )
    hidden: torch.Tensor = read.last_hidden_state[0]
    return hidden


# -------------------------------------------------------------------------------------------- what is read once


@dataclass(frozen=True, slots=True)
class Marks:
    """The tokens that say where a paragraph ends, and that it begins a text.

    end : behind a paragraph: the empty line
    names : ids that name the first text ("1", "a"), and those that name the second
    colon : what stands behind such a name. A heading is a word, a name and a colon
    longest : tokens that are read as one paragraph; a longer one is cut into equal pieces
    """

    end: int
    names: tuple[frozenset[int], frozenset[int]]
    colon: int
    longest: int

    def text(self, paragraph: IntArray) -> int:
        """1 or 2, if the paragraph begins this text; else 0."""
        if len(paragraph) < 3 or paragraph[2] != self.colon:
            return SHARED
        return next((n for n, names in enumerate(self.names, 1) if int(paragraph[1]) in names), SHARED)


@dataclass(frozen=True, slots=True, eq=False)
class ParagraphPlan:
    """Paragraphs, each once, a paragraph behind those that it sees; their tokens are side by side.

    ids, positions, kinds : int64, shape (n_tokens,): token ids; places inside their paragraphs; 1 in second texts,
        else 0
    starts : int64, shape (n_paragraphs + 1,): each paragraph's first token, and n_tokens
    sees : of each paragraph: the paragraphs that it sees, itself included
    paths : of each sequence, in the order given: its paragraphs
    parts : likewise: what each of them is: SHARED, text 1 or 2, or CUE
    """

    ids: IntArray
    positions: IntArray
    kinds: IntArray
    starts: IntArray
    sees: tuple[Path, ...]
    paths: tuple[Path, ...]
    parts: tuple[Path, ...]

    @property
    def n_tokens(self) -> int:
        return len(self.ids)

    @property
    def ends(self) -> IntArray:
        """Index of each sequence's last token, shape (n_sequences,)."""
        return self.starts[[path[-1] + 1 for path in self.paths]] - 1

    def paragraphs_of(self, sequence: int, part: int) -> Path:
        """The paragraphs of one part of a sequence."""
        numbered = zip(self.paths[sequence], self.parts[sequence], strict=True)
        return tuple(paragraph for paragraph, part_of_it in numbered if part_of_it == part)

    def places(self, paragraphs: Sequence[int]) -> IntArray:
        """Indices of the tokens of paragraphs."""
        ranges = [np.arange(self.starts[paragraph], self.starts[paragraph + 1]) for paragraph in paragraphs]
        return np.concatenate([np.arange(0), *ranges])

    def blocks(self, n_queries: int) -> Iterator[tuple[int, int, IntArray, npt.NDArray[np.bool_]]]:
        """Runs of whole paragraphs, of up to n_queries tokens where they are no longer themselves: first token, last
        token + 1, the tokens that any of them sees, and which of these each sees, shape (n_queries, n_keys)."""
        first, sizes = 0, np.diff(self.starts)
        while first < len(self.sees):
            last = first + 1
            while last < len(self.sees) and self.starts[last + 1] - self.starts[first] <= n_queries:
                last += 1
            seen = sorted(set().union(*self.sees[first:last]))
            column = {paragraph: place for place, paragraph in enumerate(seen)}
            by_paragraph = np.zeros((last - first, len(seen)), dtype=np.bool_)
            for row, paths in enumerate(self.sees[first:last]):
                by_paragraph[row, [column[paragraph] for paragraph in paths]] = True
            by_key = np.repeat(by_paragraph, sizes[seen], axis=1)
            by_token = np.repeat(by_key, sizes[first:last], axis=0)
            yield int(self.starts[first]), int(self.starts[last]), self.places(seen), by_token
            first = last


def plan(sequences: Sequence[npt.ArrayLike], marks: Marks) -> ParagraphPlan:
    """What to read so that all sequences are. raises : ValueError for an empty sequence"""
    cut = [_cut(sequence, marks) for sequence in sequences]
    places: dict[tuple[Path, int, bytes], int] = {}
    texts: list[IntArray] = []
    sees: list[Path] = []
    kinds: list[int] = []
    paths: list[Path] = [()] * len(cut)
    cues: list[int] = []

    def placed(paragraph: IntArray, part: int, seen: Path) -> int:
        """The paragraph's number; a new one, where nothing equal that sees the same has one."""
        key = (seen, part, paragraph.tobytes())
        if key not in places:
            places[key] = len(texts)
            texts.append(paragraph)
            sees.append((*seen, places[key]))
            kinds.append(int(part == 2))
        return places[key]

    for index in range(len(cut)):
        path: list[int] = []
        by_part: dict[int, list[int]] = defaultdict(list)
        for part, paragraph in cut[index]:
            if part == CUE:
                cues.append(index)  # behind all texts: then those of many prompts are side by side
                break
            shared = by_part[SHARED][:1] if part == SHARED else by_part[SHARED]
            seen = dict.fromkeys([*shared, *_near(by_part[part], texts)])
            path.append(placed(paragraph, part, tuple(seen)))
            by_part[part].append(path[-1])
        paths[index] = tuple(path)
    for index in cues:
        paths[index] += (placed(cut[index][-1][1], CUE, paths[index]),)
    sizes = np.array([len(text) for text in texts], dtype=np.int64)
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    numbers = np.repeat(np.arange(len(texts)), sizes)
    ids = np.concatenate([np.arange(0), *texts])
    positions = np.arange(len(ids)) - starts[numbers]
    parts_of_each = tuple(tuple(part for part, _ in pieces) for pieces in cut)
    is_second = np.array(kinds, dtype=np.int64)[numbers]
    return ParagraphPlan(
        ids=ids,
        positions=positions,
        kinds=is_second,
        starts=starts,
        sees=tuple(sees),
        paths=tuple(paths),
        parts=parts_of_each,
    )


def _near(path: Sequence[int], texts: Sequence[IntArray]) -> Path:
    """The last paragraphs of a path, of REACH tokens at most: else time would grow with the square of a length."""
    sizes = np.cumsum([len(texts[p]) for p in reversed(path)])
    return tuple(path[len(path) - int(np.searchsorted(sizes, REACH, side="right")) :])


def chunks(sequences: Sequence[npt.ArrayLike], marks: Marks, max_tokens: int) -> list[list[int]]:
    """Group the sequences so that each group's plan has at most max_tokens tokens, and those that share stay together.

    Sequences with the same shared paragraphs begin a group of their own where they do not all fit into what is left of
    one, since what they share would be read in both. Behind a sequence that is longer than half of max_tokens, as much
    again: what it shares is long, and is read once.
    returns : lists of indices into sequences; every index occurs once
    """
    cut = [_cut(sequence, marks) for sequence in sequences]
    groups: list[list[int]] = []
    n_tokens, most = 0, 0
    for alike in reading_order(cut, max_tokens // 2):
        sizes = [sizes_of(cut[index]) for index in alike]
        n_alike = sum({key: n for its_sizes in sizes for key, n in its_sizes.items()}.values())
        held: set[tuple[int, bytes]] = set()  # texts that see something else are read anew
        if n_tokens + n_alike > most:
            most = 0
        for index, its_sizes in zip(alike, sizes, strict=True):
            n_new = sum(n for key, n in its_sizes.items() if key not in held)
            if n_tokens + n_new > most:
                groups.append([])
                held, n_tokens, n_new = set(), 0, sum(its_sizes.values())
                most = max(max_tokens, 2 * n_new)
            groups[-1].append(index)
            n_tokens += n_new
            held |= its_sizes.keys()
    return groups


def _cut(sequence: npt.ArrayLike, marks: Marks) -> Pieces:
    ids = np.asarray(sequence, dtype=np.int64)
    if not len(ids):
        raise ValueError("a sequence is empty, expected one token or more")
    paragraphs = [part for part in np.split(ids, np.flatnonzero(ids == marks.end) + 1) if len(part)]
    pieces: Pieces = []
    part = SHARED
    for n, paragraph in enumerate(paragraphs, 1):
        part = marks.text(paragraph) or part
        if n == len(paragraphs) and any(each == 2 for each, _ in pieces) and not marks.text(paragraph):
            part = CUE
        pieces += [(part, piece) for piece in np.array_split(paragraph, -(-len(paragraph) // marks.longest))]
    return pieces


# -------------------------------------------------------------------------------------------- what words count for


# What a reader who has a text and its source side by side would count: words, their pairs and the runs that the text
# has in common with the source; no model, and no attribute. What counts are worth for an attribute, weights say
# (Counted), which a model's config.json has.

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
NONE, FUNCTION, CONTENT, NUMBER = range(4)
NEAR_THE_END = 40  # words of the source that count as its end
MOST_PLACES = 50  # of a word pair in the source that are looked at: so time grows with the text alone
COUNTS = (
    "pairs held", "content held", "copied span", "longest run", "density of runs", "unsupported numbers",
    "order of runs", "repeated pairs", "length", "closed", "pairs of the end", "place of runs",
    "pairs apart",
)  # fmt: skip

SAYS = {1: ("better", "yes", "b"), -1: ("worse", "no", "a")}
"""Labels that are for the second text, and for the first."""


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


def says_of(tokenizer: Any) -> dict[int, list[int]]:
    """The labels that are for the second text (1) and for the first (-1), as tokens."""
    return {sign: tokenizer.convert_tokens_to_ids(list(labels)) for sign, labels in SAYS.items()}


def lean(logits: torch.Tensor, leaning: torch.Tensor, says: Mapping[int, list[int]]) -> None:
    """Add leanings, shape (n_sequences,), to logits, in place: half to the labels for the second text, and half off
    those for the first."""
    for sign, tokens in says.items():
        logits[:, tokens] += sign / 2 * leaning[:, None].to(logits)


def _spaced(ids: Sequence[int]) -> str:
    return f" {' '.join(map(str, ids))} "
