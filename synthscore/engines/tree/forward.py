"""Token sequences -> log-probabilities of the token after each, by any causal model of transformers.

Five ways to run the same numbers:

- cascade: sequences that share beginnings are one token tree (trie.py), which is read in chunks, each token attending
  to its ancestors (plan.py, cascade.py). For models whose attention can be replaced.
- tree: the same tree, by a mask that shows each token its ancestors only; its attention is quadratic in the chunk. For
  models in which a mask and positions say everything about attention.
- padded: sequences of similar length side by side, padded on the right, where a causal model does not look.
- single: one sequence a forward, with whatever begins it read along the way.
- exact: one sequence a forward and nothing else, so that a number depends on its own sequence alone, to the last bit.

A check at load compares a way with the plain forward. The first that agrees is taken; all but the first are warned
about, and `exact` is taken only when asked for.
"""

from __future__ import annotations

import ctypes
import inspect
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch

from ...errors import EngineError, SynthscoreWarning
from ...types import FloatArray, IntArray
from ..labels import NOT_NUMBERS, Questions, TokenIds
from .cascade import Memory, Pass, Whole, cascading
from .plan import plan
from .trie import Packed, chunk, pack

Backend = Literal["cascade", "tree", "padded", "single", "exact"]
BACKENDS: tuple[Backend, ...] = ("cascade", "tree", "padded", "single")
"""In the order in which they are tried."""

_SLOWER = {
    "tree": "as a tree with a mask, which is slower in large chunks",
    "padded": "side by side and do not share their beginnings, which is slower",
    "single": "one at a time, which is slow",
}

try:
    _LIBC: Any = ctypes.CDLL(None)
except (OSError, TypeError):  # not on Windows
    _LIBC = None

MAX_ROWS = 16  # sequences side by side: bounds the logits, (rows, places, vocabulary)
MOST_LOGITS = 2**25  # at once, where they are read at many places: 128 MiB in float32

Answer = tuple[list[int], torch.Tensor, int]
"""Indices of sequences; log-probabilities of the token after each, float32, shape (n, vocabulary); tokens run over."""


class Forward:
    """Runs one model.

    model : a causal language model of transformers
    name : for messages
    max_length : tokens that the model takes
    max_tokens : tokens in one forward; bounds memory. A longer sequence is read in pieces where it can be
    check_ids : some hundred token ids of ordinary text, to check with
    raises : EngineError, when the wanted backend is wrong for the model, or the model is not causal
    """

    def __init__(
        self,
        model: Any,
        *,
        name: str,
        max_length: int,
        max_tokens: int,
        check_ids: Sequence[int],
        backend: Backend | Literal["auto"] = "auto",
    ) -> None:
        self.model, self.name, self.max_length, self.max_tokens = model, name, max_length, max_tokens
        arguments = inspect.signature(model.forward).parameters
        self.keeps_logits = "logits_to_keep" in arguments
        self.takes_positions = "position_ids" in arguments
        self._n_layers: int = getattr(model.config.get_text_config(), "num_hidden_layers", 0)
        self._n_same = _n_same_positions(model.config)
        self._warned_of_length = False
        self.check_sequences = _check_sequences(check_ids, max_length)
        self.backend: Backend = self._choose(backend)

    def next_log_probs(self, sequences: Sequence[TokenIds], backend: Backend | None = None) -> Iterator[Answer]:
        """Every sequence once, in groups, in any order. raises : EngineError, when memory does not suffice."""
        backend = backend or self.backend
        short = [i for i, sequence in enumerate(sequences) if len(sequence) <= self._n_same]
        long = [i for i, sequence in enumerate(sequences) if len(sequence) > self._n_same]
        if long and backend != "exact" and not self._warned_of_length:
            self._warned_of_length = True
            warnings.warn(
                f"{self.name}: prompts of more than {self._n_same} tokens are run one at a time, which is slower, "
                "because the model then computes positions in another way",
                SynthscoreWarning,
                stacklevel=4,
            )
        for indices, how in ((short, backend), (long, "exact")):
            if not indices:
                continue
            run = {
                "cascade": self._run_cascade,
                "tree": self._run_tree,
                "padded": self._run_padded,
                "single": self._run_single,
                "exact": self._run_exact,
            }[how]
            for group, logits, n_tokens in run([sequences[i] for i in indices]):
                # float32: neighbouring bfloat16 logits near 20 are 0.125 apart
                yield [indices[i] for i in group], logits.float().log_softmax(-1), n_tokens

    def table(self, sequences: Sequence[TokenIds], backend: Backend) -> torch.Tensor:
        """The log-probabilities of all sequences in order, shape (n_sequences, vocabulary)."""
        rows: dict[int, torch.Tensor] = {}
        for group, log_probs, _ in self.next_log_probs(sequences, backend):
            rows.update(zip(group, log_probs, strict=True))
        return torch.stack([rows[index] for index in range(len(sequences))])

    def token_log_probs(
        self, sequences: Sequence[TokenIds], n_starts: Sequence[int]
    ) -> Iterator[tuple[int, FloatArray]]:
        """Every sequence once, in any order: its index, and the log-probabilities of its tokens from n_start (>= 1) on.

        A cascade runs over what sequences begin with in common once; any other way, over one sequence a forward.
        """
        shares = [self.backend == "cascade" and len(sequence) <= self._n_same for sequence in sequences]
        together = [index for index, shared in enumerate(shares) if shared]
        if together:
            starts = [n_starts[index] for index in together]
            for index, log_probs in self._read_cascade([sequences[index] for index in together], starts):
                yield together[index], log_probs
        for index, shared in enumerate(shares):
            if not shared:
                ids, n_start = sequences[index].astype(np.int64), n_starts[index]
                logits = self._logits(torch.from_numpy(ids[None]), torch.arange(n_start - 1, len(ids) - 1))
                yield index, chosen(logits[0], np.arange(len(ids) - n_start), ids[n_start:])

    def _read_cascade(self, sequences: Sequence[TokenIds], n_starts: Sequence[int]) -> Iterator[tuple[int, FloatArray]]:
        """Their tree without their last tokens, read at the places that the others are followed from."""
        tree = pack([ids[:-1] for ids in sequences])
        bounds = np.cumsum([0, *(len(ids) - n for ids, n in zip(sequences, n_starts, strict=True))])
        nodes = np.empty(bounds[-1], dtype=np.int64)  # of the tree: where each token that is asked for is read
        for end, first, last in zip(tree.ends, bounds, bounds[1:], strict=False):
            node = end
            for place in range(last - 1, first - 1, -1):
                nodes[place], node = node, tree.parents[node]
        tokens = np.concatenate([ids[n:] for ids, n in zip(sequences, n_starts, strict=True)]).astype(np.int64)
        reads, rows = np.unique(nodes, return_inverse=True)
        order, by_end = np.argsort(rows, kind="stable"), np.argsort(tree.ends, kind="stable")
        ordered = rows[order]
        vocabulary = self.model.config.get_text_config().vocab_size
        values = np.empty(len(nodes))
        n_told = 0
        for group, logits, _, _ in self.cascade(
            replace(tree, ends=reads), keep_all=False, max_tokens=min(self.max_tokens, MOST_LOGITS // vocabulary)
        ):
            if not group:
                continue
            asked = order[np.searchsorted(ordered, group[0]) : np.searchsorted(ordered, group[-1], "right")]
            values[asked] = chosen(logits, rows[asked] - group[0], tokens[asked])
            while n_told < len(by_end) and tree.ends[by_end[n_told]] <= reads[group[-1]]:
                index = by_end[n_told]
                yield int(index), values[bounds[index] : bounds[index + 1]]
                n_told += 1

    # -------------------------------------------------------------------------------------------- the five ways

    def _run_cascade(self, sequences: Sequence[TokenIds]) -> Iterator[Answer]:
        tree = pack(sequences)
        for group, logits, n_tokens, _ in self.cascade(tree, keep_all=False):
            yield group, logits, n_tokens

    @torch.inference_mode()
    def cascade(
        self, tree: Packed, *, keep_all: bool, max_tokens: int | None = None
    ) -> Iterator[tuple[list[int], torch.Tensor, int, Whole]]:
        """The chunks of a tree: sequences that end in it, their logits, its number of tokens, keys and values.

        keep_all : give the keys and values of the whole chunk, by attention module
        max_tokens : of a chunk, instead of the usual
        """
        order = np.argsort(tree.ends, kind="stable")
        ends = tree.ends[order]
        memory: Memory = {}
        for n_chunks, part in enumerate(plan(tree, max_tokens or self.max_tokens)):
            first, last = np.searchsorted(ends, [part.start, part.stop])
            reads, back = np.unique(ends[first:last] - part.start, return_inverse=True)
            current = Pass(tree, part, reads, memory, self._n_layers, keep_all)
            with cascading(self.model, current):
                logits = self._logits(
                    torch.from_numpy(tree.ids[part.start : part.stop])[None],
                    torch.from_numpy(reads if len(reads) else np.zeros(1, dtype=np.int64)),
                    position_ids=torch.from_numpy(tree.positions[part.start : part.stop])[None].to(self.model.device),
                )
            memory = current.next_memory
            if n_chunks % 4 == 3:
                _give_back()
            logits = logits[0]
            if not np.array_equal(back, np.arange(len(logits))):
                logits = logits[torch.from_numpy(back)]
            yield order[first:last].tolist(), logits, len(part), current.whole

    def _run_tree(self, sequences: Sequence[TokenIds]) -> Iterator[Answer]:
        budget = self.max_tokens
        if self.model.device.type == "cpu":
            # The mask is dense, so attention is quadratic: beyond this a small model loses what the sharing saves
            # (6 layers x 384, 180-token prompts: 3.5 s at 1024 tokens, 4.4 s at 2048; 7.1 s unshared).
            budget = min(budget, max(1024, 2 * max(map(len, sequences), default=0)))
        for group in chunk(sequences, budget):
            packed = pack([sequences[index] for index in group])
            hidden = ~torch.from_numpy(packed.mask())
            # Added to the scores, never boolean: eager attention would add True and False as 1 and 0.
            mask = torch.zeros(hidden.shape, dtype=self.model.dtype)
            mask.masked_fill_(hidden, torch.finfo(self.model.dtype).min)
            places, back = np.unique(packed.ends, return_inverse=True)
            logits = self._logits(
                torch.from_numpy(packed.ids)[None],
                torch.from_numpy(places),
                attention_mask=mask[None, None].to(self.model.device),
                position_ids=torch.from_numpy(packed.positions)[None].to(self.model.device),
            )
            yield group, logits[0, torch.from_numpy(back)], packed.n_tokens

    def _run_padded(self, sequences: Sequence[TokenIds]) -> Iterator[Answer]:
        hosts = _hosts(sequences)
        order = sorted(hosts, key=lambda host: len(sequences[host]))
        while order:
            width = len(sequences[order[-1]])
            n_rows = max(1, min(MAX_ROWS, self.max_tokens // width))
            batch, order = order[-n_rows:], order[:-n_rows]
            # No position_ids: with padding on the right, every model's own are right, wherever it counts from.
            ids = torch.zeros((len(batch), width), dtype=torch.long)
            mask = torch.zeros((len(batch), width), dtype=torch.long)
            for row, host in enumerate(batch):
                ids[row, : len(sequences[host])] = torch.from_numpy(sequences[host].astype(np.int64))
                mask[row, : len(sequences[host])] = 1
            group = [index for host in batch for index in hosts[host]]
            rows = [row for row, host in enumerate(batch) for _ in hosts[host]]
            places, back = np.unique([len(sequences[index]) - 1 for index in group], return_inverse=True)
            logits = self._logits(ids, torch.from_numpy(places), attention_mask=mask.to(self.model.device))
            yield group, logits[torch.tensor(rows), torch.from_numpy(back)], ids.numel()

    def _run_single(self, sequences: Sequence[TokenIds]) -> Iterator[Answer]:
        for host, group in _hosts(sequences).items():
            ids = torch.from_numpy(sequences[host].astype(np.int64))[None]
            places = torch.tensor(sorted(len(sequences[index]) - 1 for index in group))
            group = sorted(group, key=lambda index: len(sequences[index]))
            yield group, self._logits(ids, places)[0], ids.numel()

    def _run_exact(self, sequences: Sequence[TokenIds]) -> Iterator[Answer]:
        for index, sequence in enumerate(sequences):
            ids = torch.from_numpy(sequence.astype(np.int64))[None]
            yield [index], self._logits(ids, torch.tensor([len(sequence) - 1]))[0], len(sequence)

    @torch.inference_mode()
    def _logits(self, ids: torch.Tensor, places: torch.Tensor, **arguments: Any) -> torch.Tensor:
        """Logits at the given places (ascending, all different) of each row, shape (n_rows, n_places, vocabulary)."""
        device = self.model.device
        places = places.to(device)
        if self.keeps_logits:
            arguments["logits_to_keep"] = places
        try:
            logits: torch.Tensor = self.model(input_ids=ids.to(device), use_cache=False, **arguments).logits
        except torch.cuda.OutOfMemoryError as error:
            raise EngineError(
                f"out of memory with {ids.numel()} tokens in one forward. Take a smaller max_tokens (now "
                f"{self.max_tokens}), dtype bfloat16, or a smaller model"
            ) from error
        return logits if logits.shape[1] == len(places) else logits[:, places]

    # -------------------------------------------------------------------------------------------- checks at load

    def _choose(self, wanted: Backend | Literal["auto"]) -> Backend:
        self._check_causal()
        problems: list[str] = []
        for backend in BACKENDS if wanted == "auto" else (wanted,):
            problem = self._problem(backend)
            if problem and wanted != "auto":
                raise EngineError(f"{self.name}: backend {backend!r} cannot be used: {problem}. Try backend 'auto'")
            if not problem:
                if problems:
                    warnings.warn(
                        f"{self.name}: prompts are run {_SLOWER[backend]}, because as {', '.join(problems)}",
                        SynthscoreWarning,
                        stacklevel=5,
                    )
                return backend
            problems.append(f"{backend}, {problem}")
        raise AssertionError("the plain forward agrees with itself")

    def _problem(self, backend: Backend) -> str:
        """Why a backend must not be used with this model; "" if it may."""
        if backend == "tree" and (window := window_of(self.model.config, self.max_length)):
            return f"its layers do not all see the whole prompt ({window})"
        before = self.max_tokens
        try:
            found = [self.table(self.check_sequences, backend)]
            if backend == "cascade":  # in small chunks, so that keys are kept from one to the next
                self.max_tokens = 16
                found.append(self.table(self.check_sequences, backend))
        except Exception as error:  # a forward that does not take our arguments fails in its own way
            return f"its forward fails on {backend} input ({type(error).__name__}: {str(error)[:200]})"
        finally:
            self.max_tokens = before
        plain = self.table(self.check_sequences, "exact")
        return next((problem for table in found if (problem := disagreement(table, plain, self.model.dtype))), "")

    def _check_causal(self) -> None:
        """raises : EngineError, if the plain forward gives NaN, or what follows a token changes the logits there."""
        prompt = self.check_sequences[0]
        start = prompt[: max(1, len(prompt) // 2)]
        if self.table([prompt], "exact").isnan().any():
            raise EngineError(f"{self.name}: {NOT_NUMBERS}", model=self.name)
        found, plain = self.table([start, prompt], "single")[:1], self.table([start], "exact")
        problem = disagreement(found, plain, self.model.dtype)
        if problem:
            raise EngineError(
                f"{self.name} looks ahead: {problem}. Expected a causal model. "
                "For a BERT checkpoint trained as one, set is_decoder to true in its config.json",
                model=self.name,
            )


def _give_back() -> None:
    """Free memory back to the system: glibc's heap would grow with the number of chunks."""
    trim = getattr(_LIBC, "malloc_trim", None)
    if trim is not None:
        trim(0)


def tell(questions: Questions, group: Sequence[int], log_probs: torch.Tensor, n_tokens: int) -> None:
    """Answer a group of sequences. log_probs : of the token after each, shape (n_sequences, vocabulary)"""
    rows, tokens, n_top = questions.needed(group)
    best = log_probs.topk(min(n_top, log_probs.shape[-1]))
    questions.add(
        group,
        log_probs[torch.tensor(rows), torch.tensor(tokens)].tolist(),
        zip(best.indices.tolist(), best.values.tolist(), strict=True),
        n_tokens,
    )


def chosen(logits: torch.Tensor, rows: IntArray, tokens: IntArray) -> FloatArray:
    """log P of tokens[i] by logits[rows[i]], nats. In blocks: the logits in float32 would take as much memory again."""
    found = []
    for start in range(0, len(rows), _BLOCK):
        row, token = (torch.from_numpy(all_[start : start + _BLOCK]).to(logits.device) for all_ in (rows, tokens))
        found.append(logits[row].float().log_softmax(-1).gather(-1, token[:, None])[:, 0])
    values: FloatArray = torch.cat(found).double().cpu().numpy()
    return values


_BLOCK = 64  # rows


def disagreement(found: torch.Tensor, plain: torch.Tensor, dtype: torch.dtype) -> str:
    """In words, if log-probabilities differ by more than rounding; "" if they do not.

    Looks at the 50 most probable tokens of each row. Rounding is below 1e-4 nats in float32. Below float32 it grows
    with the numbers, 5 % of the largest at most; a wrong mask or position changes log-probabilities by nats.
    """
    top = plain.topk(min(50, plain.shape[-1])).indices
    found, plain = found.gather(-1, top), plain.gather(-1, top)
    difference = float((found - plain).abs().max())
    tolerance = 1e-4 if dtype == torch.float32 else max(0.1, 0.05 * float(plain.abs().max()))
    if difference <= tolerance:
        return ""
    return f"log-probabilities differ by {difference:.2g} nats from the plain forward, expected {tolerance:.2g}"


def _check_sequences(ids: Sequence[int], max_length: int) -> list[TokenIds]:
    """Three prompts of about 40 tokens that share beginnings of different lengths, each with and without a label."""
    n = min(40, max_length - 1)
    text = np.array((list(ids) * 200)[: 3 * n] if len(ids) else [0] * (3 * n), dtype=np.int32)
    prompts = (
        text[:n],
        np.concatenate([text[: n * 3 // 4], text[n : n + n // 4]]),
        np.concatenate([text[: n // 2], text[2 * n : 2 * n + n // 3]]),
    )
    return [np.concatenate([prompt, prompt[:m]]) for prompt in prompts for m in (0, 1)]


def _hosts(sequences: Sequence[TokenIds]) -> dict[int, list[int]]:
    """Sequences that are not the beginning of another -> themselves and the beginnings that are read along the way."""
    hosts: dict[int, list[int]] = {}
    last = -1
    keys = [sequence.astype(">i4").tobytes() for sequence in sequences]  # compare like the ids
    for index in sorted(range(len(keys)), key=keys.__getitem__, reverse=True):
        if last < 0 or not keys[last].startswith(keys[index]):
            last = index
            hosts[last] = []
        hosts[last].append(index)
    return hosts


def window_of(config: Any, max_length: int) -> str:
    """The setting by which a layer sees less than the whole prompt; "" if there is none."""
    text = config.get_text_config()
    kinds = set(getattr(text, "layer_types", None) or ()) | set(getattr(text, "attention_layers", None) or ())
    if others := kinds - {"full_attention", "attention", "global"}:
        return f"layers {', '.join(sorted(map(str, others)))}"
    for name in ("sliding_window", "attention_window", "window_size", "attention_chunk_size", "local_attention"):
        value = getattr(text, name, None)
        if value and not (isinstance(value, int) and value >= max_length):
            return f"{name} {value}"
    return ""


def _n_same_positions(config: Any) -> int:
    """Sequences up to this length have positions that do not depend on what is run beside them."""
    text = config.get_text_config()
    rope = getattr(text, "rope_parameters", None) or getattr(text, "rope_scaling", None) or {}
    kinds = [rope, *(value for value in rope.values() if isinstance(value, dict))]
    changing = [kind for kind in kinds if kind.get("rope_type", kind.get("type")) in ("dynamic", "longrope")]
    if not changing:
        return 10**9
    original = [kind.get("original_max_position_embeddings") for kind in changing]
    original += [getattr(text, "original_max_position_embeddings", None), text.max_position_embeddings]
    return min(int(value) for value in original if value)


def position_grid(tree: Packed, rows: Sequence[int]) -> IntArray:
    """Tokens of the tree on the way to the ends of some sequences, as rows that end together; -1 before their start."""
    width = int(tree.positions[tree.ends[list(rows)]].max()) + 1
    grid = np.full((len(rows), width), -1, dtype=np.int64)
    for row, sequence in enumerate(rows):
        token = int(tree.ends[sequence])
        for place in range(width - 1, width - 2 - int(tree.positions[token]), -1):
            grid[row, place] = token
            token = int(tree.parents[token])
    return grid
