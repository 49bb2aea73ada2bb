"""Models that read two texts as isolated segments: exact label log-probabilities. They judge and do not write.

Such a model is an encoder. It reads each paragraph of a prompt in both directions, and each paragraph sees certain
others (ParagraphPlan):

    instructions, article, question     each sees the first one, and up to REACH tokens before it
    text 1  |  text 2                   each sees all of these, and up to REACH tokens before it in the same text
    the cue at the end                  sees all

and itself. What a token is read as depends on what it sees alone, and is the same in all prompts that have it: of m
texts compared with n others, m + n texts are read, and m x n cues. In a prompt without texts under headings, all
paragraphs are as in the first line.

- together: prompts that share paragraphs are read in one forward, each paragraph once. Paragraphs that come again in
  later forwards, such as a context and its rungs, are not read again (KeptStates).
- single: one prompt a forward, so that a number depends on its own prompt alone.

A check at load compares them. Such a model's config.json has a part "synthscore" (marks_of).
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby
from threading import Lock
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa
from transformers import AttentionInterface, AutoModelForMaskedLM

from ..engine import Kind, Prompt
from ..types import IntArray
from .counts import Counted, Path, lean, leanings, says_of
from .loading import choose_backend, disagreement
from .local import LocalEngine, Questions, log_softmax
from .tokens import PromptTokenizer

Backend = Literal["together", "single"]
_BACKENDS: dict[Backend, str] = {"together": "together", "single": "one at a time, which is slower"}

ATTENTION = "synthscore_apart"
N_QUERIES = 160  # of one block: few enough that most keys of other prompts are never touched

Block = tuple[int, int, torch.Tensor, torch.Tensor]
"""A run of queries: the first, the last + 1; the numbers of the keys that any of them sees, shape (n_keys,); what is
added to the scores, shape (n_queries, n_keys): 0 where the query sees the key, -1e9 where not."""

MOST_TOKENS = 65_536  # of a prompt: memory grows with it
KEPT_BYTES = 2**28  # of keys and values: with nano those of 14,500 tokens, which is 20 contexts with their rungs
KEPT_KEYS = 2**16  # paragraphs that are remembered, with keys and values or without: 15 MB
REACH = 1024  # tokens of the same part, before a paragraph, that it sees at most

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
        self._kept = KeptStates(self.model)
        return choose_backend(self.name, backend, _BACKENDS, self._problem)

    @property
    def kept(self) -> KeptStates | None:
        """Keys and values that the model as it is now has made. None below float32: rounding is in the second digit
        there, and an answer would depend on what was asked long before."""
        if self.model.dtype != torch.float32:
            return None
        if not self._kept.are_of(self.model):
            self._kept = KeptStates(self.model)
        return self._kept

    def _next_log_probs(self, asked: Questions) -> Iterator[tuple[Sequence[int], torch.Tensor, int]]:
        """A label of several tokens is read with its beginning as the end of the prompt's last paragraph."""
        sequences = [split_paragraphs(sequence, self._marks) for sequence in asked.sequences]
        if self.backend == "single":
            for index, sequence in enumerate(sequences):
                yield [index], *self._run([sequence])
            return
        for group in chunks(sequences, self.max_tokens):
            yield group, *self._run([sequences[index] for index in group], self.kept)

    def _run(self, sequences: Sequence[Paragraphs], kept: KeptStates | None = None) -> tuple[torch.Tensor, int]:
        """Log-probabilities of the token after each sequence, float32, shape (n_sequences, vocabulary), and the number
        of tokens that were read. kept : keys and values to go on from, and to add to; None: all is read"""
        known, again = kept.look_up(sequences) if kept else ({}, set())
        together = plan(sequences, known)
        carried = Carried(together, known, again)
        leaning = torch.from_numpy(leanings(together.asked, together.ids_of, self.counted))
        with torch.inference_mode():
            hidden = last_hidden(self.model.base_model, [together], self.model.dtype, carried)
            logits = self.model.cls(hidden[torch.from_numpy(together.ends - together.n_known)])
            lean(logits, leaning, self._says)
        if kept:
            kept.keep(carried.left)
        return log_softmax(logits).cpu(), together.n_tokens - together.n_known

    def _problem(self, backend: Backend) -> str:
        """Why this way of reading cannot be used: it and `single` disagree. "" where it can.

        The prompts are read three times: what is kept the second time is used the third.
        """
        if backend == "single":
            return ""
        texts = [np.array(self.prompts.encode(Prompt(text)), dtype=np.int32) for text in _CHECK_TEXTS]
        sequences = [split_paragraphs(text, self._marks) for text in texts]
        alone = torch.cat([self._run([sequence])[0] for sequence in sequences])
        together = torch.cat([self._run(sequences, self.kept)[0] for _ in range(3)])
        return disagreement(together, alone.repeat(3, 1), self.model.dtype)


# -------------------------------------------------------------------------------------------- how a BERT reads a plan


def marks_of(config: Any, tokenizer: Any) -> Marks:
    """What a model's config.json says: {"synthscore": {"paragraph_end": .., "texts": [[..], [..]], "longest": ..}}."""
    marks = config.synthscore
    first, second = (frozenset(map(int, tokenizer.convert_tokens_to_ids(names))) for names in marks["texts"])
    end, colon = tokenizer.convert_tokens_to_ids([marks["paragraph_end"], ":"])
    longest = marks.get("longest") or config.max_position_embeddings
    return Marks(end=int(end), names=(first, second), colon=int(colon), longest=longest)


def blocks_of(plans: Sequence[ParagraphPlan], dtype: torch.dtype, device: Any = "cpu") -> list[Block]:
    """The blocks of plans that stand side by side in one sequence. Queries are numbered without the tokens that are
    known, which are not read; keys with them."""
    blocks, offset = [], 0
    for planned in plans:
        first = offset - planned.n_known
        for start, stop, keys, seen in planned.blocks(N_QUERIES):
            bias = torch.zeros(seen.shape, dtype=dtype).masked_fill_(torch.from_numpy(~seen), -1e9)
            places = torch.from_numpy(keys + offset).to(device)
            blocks.append((first + start, first + stop, places, bias.to(device)))
        offset += planned.n_tokens
    return blocks


def attention(
    module: Any, query: Any, key: Any, value: Any, mask: None, scaling: float, *, blocks: Sequence[Block], **_: Any
) -> tuple[torch.Tensor, None]:
    """What transformers calls for each layer: attention by blocks of queries, each with the keys that any of it sees.

    query, key, value : shape (1, n_heads, n_tokens, size)
    returns : shape (1, n_tokens, n_heads, size); and None, where others give the weights
    """
    outputs = []
    with torch.autocast(query.device.type, enabled=False):
        for start, stop, keys, bias in blocks:
            queries = query[:, :, start:stop]
            seen_keys, seen_values = key.index_select(2, keys), value.index_select(2, keys)
            outputs.append(sdpa(queries, seen_keys, seen_values, attn_mask=bias, scale=scaling))
    return torch.cat(outputs, dim=2).transpose(1, 2), None


AttentionInterface.register(ATTENTION, attention)


def last_hidden(
    model: Any, plans: Sequence[ParagraphPlan], dtype: torch.dtype, carried: Carried | None = None
) -> torch.Tensor:
    """The output of the last layer for the tokens of plans that stand side by side, in one forward, shape (tokens that
    are read, hidden_size).

    model : a BertModel with the attention of this module
    dtype : that it computes attention in
    carried : keys and values of the tokens that are known, where there is one plan alone
    """

    def joined(name: str) -> torch.Tensor:
        rows = np.concatenate([getattr(planned, name)[planned.n_known :] for planned in plans])
        return torch.from_numpy(rows)[None].to(model.device)

    read = model(
        input_ids=joined("ids"),
        position_ids=joined("positions"),
        token_type_ids=joined("kinds"),
        past_key_values=carried,
        blocks=blocks_of(plans, dtype, model.device),
    )
    hidden: torch.Tensor = read.last_hidden_state[0]
    return hidden


class Carried:
    """The keys and values that a forward begins with, and those that it leaves; for the forward, a cache.

    planned : what is read
    known : keys and values of its first paragraphs, which are not read, in their order
    wanted : keys (Paragraph.key) of the paragraphs whose keys and values are to be left
    left : the keys (0) and values (1) of each paragraph in `wanted`, shape (n_layers, 2, n_heads, n_tokens, size), once
        the forward is over
    """

    def __init__(self, planned: ParagraphPlan, known: Mapping[bytes, torch.Tensor], wanted: Collection[bytes]) -> None:
        self._known = list(known.values())
        self._places = {
            one.key: slice(start - planned.n_known, start - planned.n_known + len(one.ids))
            for one, start in zip(planned.paragraphs, planned.starts[:-1].tolist(), strict=True)
            if one.key in wanted
        }
        self._layers: dict[bytes, list[torch.Tensor]] = {key: [] for key in self._places}

    @property
    def left(self) -> dict[bytes, torch.Tensor]:
        return {key: torch.stack(layers) for key, layers in self._layers.items()}

    def get_seq_length(self) -> int:
        return 0  # as each token's position is given

    def update(self, key: torch.Tensor, value: torch.Tensor, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of the tokens that are read -> those of all that are seen, the known ones first. Shapes (1,
        n_heads, n_tokens, size)."""
        both = torch.cat([key, value])  # as a batch of two
        for name, places in self._places.items():
            self._layers[name].append(both[:, :, places].clone())
        if self._known:
            both = torch.cat([*(states[layer] for states in self._known), both], dim=2)
        return both[:1], both[1:]


# -------------------------------------------------------------------------------------------- what is kept


class KeptStates:
    """Keys and values, in all layers, of paragraphs that were met before, such as a context and its rungs: shape
    (n_layers, 2, n_heads, n_tokens, size), by Paragraph.key. Safe to use from several threads.

    They are kept when a paragraph is read for the second time: texts that come once take no memory. Beyond KEPT_BYTES,
    or KEPT_KEYS paragraphs, those met longest ago are given up.
    """

    def __init__(self, model: Any) -> None:
        self._weights = _weights_of(model)
        self._token_bytes = 2 * model.config.num_hidden_layers * model.config.hidden_size * model.dtype.itemsize
        self._lock = Lock()
        self._by_key: OrderedDict[bytes, torch.Tensor | None] = OrderedDict()  # None: met once
        self.n_bytes = 0

    def are_of(self, model: Any) -> bool:
        """Whether the model has the weights that it had, unchanged, in the same dtype and place. A change in place
        through `.data`, which torch does not count, is not seen."""
        was, now = ([(each.data_ptr(), n) for each, n in weights] for weights in (self._weights, _weights_of(model)))
        return was == now

    def look_up(self, sequences: Sequence[Paragraphs]) -> tuple[dict[bytes, torch.Tensor], set[bytes]]:
        """The states that are kept of their paragraphs; and the keys of those that were met before without being kept,
        and are to be kept now, as far as KEPT_BYTES can hold them. From now on all of them count as met.

        The last paragraph of a sequence is left aside: its output is asked for, which is not kept, so it must be read.
        """
        ends = {sequence[-1].key for sequence in sequences}
        known: dict[bytes, torch.Tensor] = {}
        again: set[bytes] = set()
        new_bytes = 0
        sizes = {one.key: len(one.ids) for sequence in sequences for one in sequence if one.key not in ends}
        with self._lock:
            for key, n_tokens in sizes.items():
                states = self._by_key.get(key)
                if states is not None:
                    known[key] = states
                elif key in self._by_key:
                    # All that is new may fill KEPT_BYTES, since what was kept before can be given up for it. After the
                    # first paragraph that does not fit, no other is kept either.
                    new_bytes += n_tokens * self._token_bytes
                    if new_bytes <= KEPT_BYTES:
                        again.add(key)
                self._by_key[key] = states
                self._by_key.move_to_end(key)
            self._give_up()
        return known, again

    def keep(self, states: Mapping[bytes, torch.Tensor]) -> None:
        """states : by Paragraph.key, as Carried.left"""
        with self._lock:
            for key, new in states.items():
                old = self._by_key.pop(key, None)
                self.n_bytes += new.nbytes - (0 if old is None else old.nbytes)
                self._by_key[key] = new
            self._give_up()

    def _give_up(self) -> None:
        """Those that were met longest ago, until the rest is within the limits."""
        while self.n_bytes > KEPT_BYTES or len(self._by_key) > KEPT_KEYS:
            _, states = self._by_key.popitem(last=False)
            self.n_bytes -= 0 if states is None else states.nbytes


def _weights_of(model: Any) -> list[tuple[torch.Tensor, int]]:
    """Each weight, held so that no other comes to lie at its address, and how often torch saw it changed in place."""
    return [(weights.detach(), weights._version) for weights in model.parameters()]


# -------------------------------------------------------------------------------------------- what is read once


SHARED, CUE = 0, -1
"""Parts of a sequence beside text 1 and text 2: what both texts see, and what is read behind them."""


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
        """Which text begins with this paragraph, 1 or 2; SHARED (0) if none does."""
        if len(paragraph) < 3 or paragraph[2] != self.colon:
            return SHARED
        return next((n for n, names in enumerate(self.names, 1) if int(paragraph[1]) in names), SHARED)


@dataclass(frozen=True, slots=True, eq=False)
class Paragraph:
    """A paragraph of a sequence; or a piece of one that is longer than Marks.longest.

    part : what it is part of: SHARED, text 1 or 2, or CUE
    ids : int64, shape (n_tokens,)
    sees : keys of the paragraphs before it that it sees
    key : hash of its tokens, its part and `sees`: two paragraphs with one key get the same states
    """

    part: int
    ids: IntArray
    sees: tuple[bytes, ...]
    key: bytes


Paragraphs = Sequence[Paragraph]


def split_paragraphs(sequence: npt.ArrayLike, marks: Marks) -> list[Paragraph]:
    """The paragraphs of a prompt, in their order, with the paragraphs before them that each sees.

    A paragraph ends behind a mark. What stands before the first heading of a text is SHARED; from a heading on,
    paragraphs are that text's. The last one of a prompt with a text 2 is the CUE, unless it has a heading. One of
    more than `longest` tokens is cut into pieces, which count as paragraphs. They see

        SHARED       the first shared one, and shared ones of the last REACH tokens before
        text 1, 2    all shared ones, and those of the same text of the last REACH tokens before
        CUE          all

    and each sees itself.

    sequence : token ids, shape (n_tokens,)
    raises : ValueError for an empty sequence
    """
    ids = np.asarray(sequence, dtype=np.int64)
    if not len(ids):
        raise ValueError("a sequence is empty, expected one token or more")
    whole = [tokens for tokens in np.split(ids, np.flatnonzero(ids == marks.end) + 1) if len(tokens)]
    paragraphs: list[Paragraph] = []
    by_part: dict[int, list[Paragraph]] = defaultdict(list)
    part = SHARED
    for n, tokens in enumerate(whole, 1):
        begun = marks.text(tokens)
        part = begun or part
        if n == len(whole) and by_part[2] and not begun:
            part = CUE
        for piece in np.array_split(tokens, -(-len(tokens) // marks.longest)):
            shared = by_part[SHARED][:1] if part == SHARED else by_part[SHARED]
            seen = paragraphs if part == CUE else [*shared, *_near(by_part[part])]
            sees = tuple(dict.fromkeys(one.key for one in seen))
            key = sha256(b"".join([*sees, part.to_bytes(1, signed=True), piece.tobytes()])).digest()
            paragraph = Paragraph(part, piece, sees, key)
            paragraphs.append(paragraph)
            by_part[part].append(paragraph)
    return paragraphs


def _near(before: Paragraphs) -> Paragraphs:
    """The last of these, together of REACH tokens at most: else time would grow with the square of a length."""
    sizes = np.cumsum([len(one.ids) for one in reversed(before)])
    return before[len(before) - int(np.searchsorted(sizes, REACH, side="right")) :]


@dataclass(frozen=True, slots=True, eq=False)
class ParagraphPlan:
    """What is read in one forward: the paragraphs of some sequences, each once, their tokens side by side.

    paragraphs : first those whose keys and values are known; then those to be read, with all cues, side by side, at
        the end
    ids, positions, kinds : int64, shape (n_tokens,): token ids; places inside their paragraphs; 1 in second texts,
        else 0
    starts : int64, shape (n_paragraphs + 1,): each paragraph's first token, and n_tokens
    sees : of each paragraph: the numbers of those that it sees, itself included
    paths : of each sequence, in the order given: the numbers of its paragraphs
    n_known : number of tokens, the first ones, that need not be read
    """

    paragraphs: tuple[Paragraph, ...]
    ids: IntArray
    positions: IntArray
    kinds: IntArray
    starts: IntArray
    sees: tuple[Path, ...]
    paths: tuple[Path, ...]
    n_known: int

    @property
    def n_tokens(self) -> int:
        return len(self.ids)

    @property
    def ends(self) -> IntArray:
        """Index of each sequence's last token, shape (n_sequences,)."""
        return self.starts[[path[-1] + 1 for path in self.paths]] - 1

    def paragraphs_of(self, sequence: int, part: int) -> Path:
        """The numbers of the paragraphs of one part of a sequence."""
        return tuple(number for number in self.paths[sequence] if self.paragraphs[number].part == part)

    @property
    def asked(self) -> list[list[Path]]:
        """Of each sequence the numbers of its shared paragraphs, of text 1 and of text 2."""
        return [[self.paragraphs_of(index, part) for part in (SHARED, 1, 2)] for index in range(len(self.paths))]

    def ids_of(self, paragraphs: Path) -> IntArray:
        return self.ids[self.places(paragraphs)]

    def places(self, paragraphs: Sequence[int]) -> IntArray:
        """Indices of the tokens of these paragraphs, shape (n,)."""
        ranges = [np.arange(self.starts[paragraph], self.starts[paragraph + 1]) for paragraph in paragraphs]
        return np.concatenate([np.arange(0), *ranges])

    def blocks(self, n_queries: int) -> Iterator[tuple[int, int, IntArray, npt.NDArray[np.bool_]]]:
        """Runs of whole paragraphs, of up to n_queries tokens where they are no longer themselves: first token, last
        token + 1, the tokens that any of them sees, and which of these each sees, shape (n_queries, n_keys)."""
        first, sizes = int(np.searchsorted(self.starts, self.n_known)), np.diff(self.starts)
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


def plan(sequences: Sequence[Paragraphs], known: Collection[bytes] = ()) -> ParagraphPlan:
    """What to read, each paragraph once, to have read all sequences.

    known : keys of paragraphs that need not be read; they come first in the plan, in this order
    """
    every = {one.key: one for sequence in sequences for one in sequence}
    order = [*known, *sorted((key for key in every if key not in known), key=lambda key: every[key].part == CUE)]
    paragraphs = tuple(every[key] for key in order)
    number = {key: n for n, key in enumerate(order)}
    sizes = np.array([len(one.ids) for one in paragraphs], dtype=np.int64)
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    numbers = np.repeat(np.arange(len(sizes)), sizes)
    ids = np.concatenate([one.ids for one in paragraphs])
    is_second = np.array([one.part == 2 for one in paragraphs], dtype=np.int64)
    return ParagraphPlan(
        paragraphs=paragraphs,
        ids=ids,
        positions=np.arange(len(ids)) - starts[numbers],
        kinds=is_second[numbers],
        starts=starts,
        sees=tuple((*(number[key] for key in one.sees), number[one.key]) for one in paragraphs),
        paths=tuple(tuple(number[one.key] for one in sequence) for sequence in sequences),
        n_known=int(starts[len(known)]),
    )


def chunks(sequences: Sequence[Paragraphs], max_tokens: int) -> list[list[int]]:
    """Group the sequences so that each group's plan has at most max_tokens tokens, and those that share stay together.

    Sequences with the same shared paragraphs begin a group of their own where they do not all fit into what is left of
    one, since what they share would be read in both. A group may also have twice as many tokens as its first sequence:
    what long sequences share is long, and is then read once.
    returns : lists of indices into sequences; every index occurs once
    """
    groups: list[list[int]] = []
    held: set[bytes] = set()
    n_tokens, most = 0, 0  # of the last group: those it has, and those it may have
    for alike in reading_order(sequences, max_tokens // 2):
        starts_new_group = n_tokens + _n_tokens(one for index in alike for one in sequences[index]) > most
        for index in alike:
            n_new = _n_tokens(one for one in sequences[index] if one.key not in held)
            if starts_new_group or n_tokens + n_new > most:
                starts_new_group = False
                groups.append([])
                held.clear()
                n_tokens, n_new = 0, _n_tokens(sequences[index])
                most = max(max_tokens, 2 * n_new)
            groups[-1].append(index)
            n_tokens += n_new
            held.update(one.key for one in sequences[index])
    return groups


def _n_tokens(paragraphs: Iterable[Paragraph]) -> int:
    """How many tokens these have, each paragraph counted once."""
    return sum({one.key: len(one.ids) for one in paragraphs}.values())


def reading_order(sequences: Sequence[Paragraphs], n_band: int) -> list[list[int]]:
    """Indices of sequences, those with the same shared paragraphs in one list, in an order that may be cut anywhere and
    has few texts on both sides of a cut.

    Of a sequence's two texts, one is in more sequences: a rung, where few rungs are compared with many targets. Such
    texts are taken in bands of about n_band tokens. In a band, sequences with the same other text are neighbours: so
    the band alone is read again behind a cut, and the other texts once a band, however many they are.
    """
    numbers: dict[tuple[bytes, ...], int] = {}

    def number(sequence: Paragraphs, part: int) -> int:
        """A number for the paragraphs of this part, the same for all sequences that have the same ones."""
        return numbers.setdefault(tuple(one.key for one in sequence if one.part == part), len(numbers))

    parts = [[number(sequence, part) for part in (SHARED, 1, 2)] for sequence in sequences]
    uses = Counter(text for _, *texts in parts for text in texts)
    n_before: Counter[tuple[int, int]] = Counter()  # tokens of the texts that were given a band
    bands: dict[int, int] = {}
    places = []
    for sequence, (shared, first, second) in zip(sequences, parts, strict=True):
        part, common, other = (1, first, second) if uses[first] > uses[second] else (2, second, first)
        if common not in bands:
            bands[common] = n_before[shared, part] // n_band
            n_before[shared, part] += sum(len(one.ids) for one in sequence if one.part == part)
        places.append((shared, part, bands[common], other, common))
    order = sorted(range(len(sequences)), key=places.__getitem__)
    return [list(alike) for _, alike in groupby(order, key=lambda index: places[index][0])]
