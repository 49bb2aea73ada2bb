"""Token sequences -> log-probabilities of the token after each, by any causal model of transformers.

Two ways to run the same numbers:

- cascade: sequences that share beginnings are one token tree (trie.py), which is read in chunks, each token attending
  to its ancestors (plan.py, cascade.py). For models whose attention can be replaced.
- exact: one sequence a forward and nothing else, so that a number depends on its own sequence alone, to the last bit.

A check at load compares the cascade with the plain forward. Where they differ, exact is taken, with a warning.
"""

from __future__ import annotations

import ctypes
import inspect
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import torch

from ...engine import KEPT
from ...errors import EngineError, SynthscoreWarning
from ...types import FloatArray
from ..loading import choose_backend, disagreement
from ..local import MOST_LOGITS, NOT_NUMBERS, TokenIds, chosen, log_softmax
from .cascade import Memory, Pass, cascading
from .plan import plan
from .trie import Packed, grow, pack

Backend = Literal["cascade", "exact"]
BACKENDS: dict[Backend, str] = {
    "cascade": "as a tree",
    "exact": "one at a time and do not share their beginnings, which is slower",
}
"""In the order in which they are tried -> how prompts are then run."""

MOST_KEPT = 2**30
"""Bytes of keys and values of calls that belong together; beyond, all is forgotten."""


@dataclass(slots=True)
class Read:
    """A tree whose tokens were read, and their keys and values: what a later call goes on from."""

    tree: Packed = field(default_factory=lambda: pack([]))
    memory: Memory = field(default_factory=dict)


Answer = tuple[list[int], torch.Tensor, int]
"""Indices of sequences; logits or log-probabilities of the token after each, shape (n, vocabulary); tokens run over."""


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
        backend: str = "auto",
    ) -> None:
        self.model, self.name, self.max_length, self.max_tokens = model, name, max_length, max_tokens
        self._keeps_logits = "logits_to_keep" in inspect.signature(model.forward).parameters
        self._n_layers: int = getattr(model.config.get_text_config(), "num_hidden_layers", 0)
        self._n_same = _n_same_positions(model.config)
        self._warned_of_length = False
        self.check_sequences = _check_sequences(check_ids, max_length)
        self._check_causal()
        self.backend: Backend = choose_backend(name, backend, BACKENDS, self._problem)

    def next_log_probs(self, sequences: Sequence[TokenIds], backend: Backend | None = None) -> Iterator[Answer]:
        """Every sequence once, in groups, in any order. raises : EngineError, when memory does not suffice."""
        backend = backend or self.backend
        ways: dict[Backend, list[int]] = {"cascade": [], "exact": []}
        for index, sequence in enumerate(sequences):
            ways[backend if len(sequence) <= self._n_same else "exact"].append(index)
        if ways["exact"] and backend != "exact" and not self._warned_of_length:
            self._warned_of_length = True
            warnings.warn(
                f"{self.name}: prompts of more than {self._n_same} tokens are run one at a time, which is slower, "
                "because the model then computes positions in another way",
                SynthscoreWarning,
                stacklevel=4,
            )
        for way, indices in ways.items():
            if indices:
                run = self._run_cascade if way == "cascade" else self._run_exact
                for group, logits, n_tokens in run([sequences[index] for index in indices]):
                    yield [indices[index] for index in group], log_softmax(logits), n_tokens

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
            yield from zip(together, self._read_cascade([sequences[index] for index in together], starts), strict=True)
        for index, shared in enumerate(shares):
            if not shared:
                ids, n_start = sequences[index].astype(np.int64), n_starts[index]
                logits = self._logits(torch.from_numpy(ids[None]), torch.arange(n_start - 1, len(ids) - 1))
                yield index, chosen(logits[0], np.arange(len(ids) - n_start), ids[n_start:])

    def _read_cascade(self, sequences: Sequence[TokenIds], n_starts: Sequence[int]) -> list[FloatArray]:
        """Their tree without their last tokens, read at the places that the others are followed from."""
        tree = pack([ids[:-1] for ids in sequences])
        nodes: list[int] = []  # of the tree: where each token that is asked for is read
        for end, ids, n_start in zip(tree.ends, sequences, n_starts, strict=True):
            way = [int(end)]
            while len(way) < len(ids) - n_start:
                way.append(int(tree.parents[way[-1]]))
            nodes += way[::-1]
        tokens = np.concatenate([ids[n:] for ids, n in zip(sequences, n_starts, strict=True)]).astype(np.int64)
        reads, rows = np.unique(nodes, return_inverse=True)
        values = np.empty(len(nodes))
        most = min(self.max_tokens, MOST_LOGITS // self.model.config.get_text_config().vocab_size)
        for group, logits, _ in self.cascade(replace(tree, ends=reads), most):
            if group:
                asked = np.flatnonzero((group[0] <= rows) & (rows <= group[-1]))
                values[asked] = chosen(logits, rows[asked] - group[0], tokens[asked])
        return np.split(values, np.cumsum([len(ids) - n for ids, n in zip(sequences, n_starts, strict=True)])[:-1])

    # -------------------------------------------------------------------------------------------- the two ways

    def _run_cascade(self, sequences: Sequence[TokenIds]) -> Iterator[Answer]:
        """Where calls belong together (engine.together), without what an earlier one has read."""
        kept = KEPT.get()
        if kept is None:
            return self.cascade(pack(sequences))
        read = kept.setdefault(self, Read())
        return self.cascade(grow(read.tree, sequences), read=read)

    @torch.inference_mode()
    def cascade(self, tree: Packed, max_tokens: int | None = None, read: Read | None = None) -> Iterator[Answer]:
        """The chunks of a tree: sequences that end in it, their logits, its number of tokens.

        max_tokens : of a chunk, instead of the usual
        read : what the tree has grown from, and need not be read again; it becomes what is read now
        """
        order = np.argsort(tree.ends, kind="stable")
        ends = tree.ends[order]
        start, memory = (read.tree.n_tokens, read.memory) if read else (0, {})
        keeps = read is not None
        for part in plan(tree, max_tokens or self.max_tokens, start):
            keeps &= sum(k.nbytes + v.nbytes for pieces in memory.values() for _, k, v in pieces) <= MOST_KEPT
            first, last = np.searchsorted(ends, [part.start, part.stop])
            reads, back = np.unique(ends[first:last] - part.start, return_inverse=True)
            current = Pass(tree, part, reads, memory, n_layers=self._n_layers, keeps_all=keeps)
            with cascading(self.model, current):
                logits = self._logits(
                    torch.from_numpy(tree.ids[part.start : part.stop])[None],
                    torch.from_numpy(reads if len(reads) else np.zeros(1, dtype=np.int64)),
                    position_ids=torch.from_numpy(tree.positions[part.start : part.stop])[None].to(self.model.device),
                )
            memory = current.next_memory
            _give_back()
            logits = logits[0]
            if not np.array_equal(back, np.arange(len(logits))):
                logits = logits[torch.from_numpy(back)]
            yield order[first:last].tolist(), logits, len(part)
        if read:
            read.tree, read.memory = (tree, memory) if keeps else (pack([]), {})

    def _run_exact(self, sequences: Sequence[TokenIds]) -> Iterator[Answer]:
        for index, sequence in enumerate(sequences):
            ids = torch.from_numpy(sequence.astype(np.int64))[None]
            yield [index], self._logits(ids, torch.tensor([len(sequence) - 1]))[0], len(sequence)

    @torch.inference_mode()
    def _logits(self, ids: torch.Tensor, places: torch.Tensor, **arguments: Any) -> torch.Tensor:
        """Logits at the given places (ascending, all different) of each row, shape (n_rows, n_places, vocabulary)."""
        device = self.model.device
        places = places.to(device)
        if self._keeps_logits:
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

    def _problem(self, backend: Backend) -> str:
        """Why a backend must not be used with this model; "" if it may."""
        if backend == "exact":
            return ""
        plain, before = self.table(self.check_sequences, "exact"), self.max_tokens
        try:
            for self.max_tokens in (before, 16):  # in small chunks, too, so that keys are kept from one to the next
                if problem := disagreement(self.table(self.check_sequences, backend), plain, self.model.dtype):
                    return problem
        finally:
            self.max_tokens = before
        return ""

    def _check_causal(self) -> None:
        """raises : EngineError, if the plain forward gives NaN, or what follows a token changes the logits there."""
        prompt = torch.from_numpy(self.check_sequences[0].astype(np.int64))[None]
        n = max(1, prompt.shape[1] // 2)
        alone, followed = (log_softmax(self._logits(ids, torch.tensor([n - 1]))[0]) for ids in (prompt[:, :n], prompt))
        if alone.isnan().any() or followed.isnan().any():
            raise EngineError(f"{self.name}: {NOT_NUMBERS}", model=self.name)
        if problem := disagreement(followed, alone, self.model.dtype):
            raise EngineError(
                f"{self.name} looks ahead: {problem}. Expected a causal model. "
                "For a BERT checkpoint trained as one, set is_decoder to true in its config.json",
                model=self.name,
            )


def _give_back() -> None:
    """Free memory back to the system: glibc's heap would grow with the number of chunks."""
    with suppress(OSError, TypeError, AttributeError):  # another system's C library
        ctypes.CDLL(None).malloc_trim(0)


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
