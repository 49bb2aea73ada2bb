"""Causal language models of transformers as engines: exact label log-probabilities, and texts.

Three ways to run the same numbers. Sequences that share beginnings are one token tree (trie.py) in the first two:

- cascade: the tree is read in chunks, each token attending to its ancestors (plan.py, cascade.py). For models whose
  attention can be replaced.
- branches: what sequences share is read once, and its cache copied for each way on (branches.py). For models that keep
  a cache, whatever is in it.
- exact: one sequence a forward and nothing else, so that a number depends on its own sequence alone, to the last bit.

A check at load compares them with the plain forward. The first that gives the same is taken, with a warning that says
what is wrong with those before it.
"""

from __future__ import annotations

import ctypes
import inspect
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
)

from ...engine import KEPT, Answer, Sampling
from ...errors import EngineError, SynthscoreWarning, in_short
from ...types import FloatArray, IntArray
from ..loading import CHECK_TEXT, choose_backend, disagreement, max_length, stop_ids
from ..local import (
    MAX_ROWS,
    MOST_LOGITS,
    NOT_NUMBERS,
    LocalEngine,
    Questions,
    Readings,
    TokenIds,
    chosen,
    log_softmax,
)
from ..tokens import PromptTokenizer
from . import writing
from .branches import BLOCK, MOST_REREAD, Kept, Passing, steps
from .cascade import Memory, Pass, cascading
from .check import few_layers, long_sequences, n_same, short_sequences
from .plan import plan
from .trie import Packed, grow, pack

BACKENDS = {
    "cascade": "as a tree",
    "branches": "from the model's own cache behind what they share",
    "exact": "one at a time and do not share their beginnings, which is slower",
}
"""In the order in which they are tried -> how prompts are then run."""

_WRITTEN = {"together": "side by side to write texts", "single": "one at a time to write texts, which is slower"}

MOST_KEPT = 2**30
"""Bytes of keys and values of calls that belong together; beyond, all is forgotten."""


@dataclass(slots=True)
class Read:
    """A tree whose tokens were read, and their keys and values: what a later call goes on from."""

    tree: Packed
    memory: Memory


Group = tuple[list[int], torch.Tensor, int]
"""Indices of sequences; logits or log-probabilities of the token after each, shape (n, vocabulary); tokens run over."""


class _LanguageModel:
    """Reads a causal language model; of a model that reads images too all of it, of which texts reach the language
    model alone."""

    @staticmethod
    def from_pretrained(place: str, *, config: Any, **options: Any) -> Any:
        found = AutoModelForCausalLM
        if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
            found = AutoModelForImageTextToText
            if type(config) not in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING:
                raise NotImplementedError(
                    f"transformers opens {config.model_type} as no such model; name one that writes text"
                )
        return found.from_pretrained(place, config=config, **options)


class CausalEngine(LocalEngine):
    """A causal language model that judges and writes.

    max_tokens : tokens in one forward; bounds memory. A longer sequence is read in pieces where it can be
    """

    auto_class = _LanguageModel
    kind = "a causal language model"
    alone = "exact"
    usual = 2048

    def _prepare(self, tokenizer: Any, backend: str) -> str:
        model, config = self.model, self.model.config
        self.prompts = PromptTokenizer(tokenizer, max_length(config, tokenizer))
        self._stop_ids = stop_ids(model, tokenizer)
        self._keeps_logits = "logits_to_keep" in inspect.signature(model.forward).parameters
        self._n_layers: int = getattr(config.get_text_config(), "num_hidden_layers", 0)
        self._n_same = n_same(config, self.prompts.max_length)
        self._most_reread = MOST_REREAD
        self._block = 1
        check_ids = tokenizer(CHECK_TEXT, add_special_tokens=False)["input_ids"]
        longest = min(self._n_same, self.prompts.max_length)
        self._short = short_sequences(check_ids, self.prompts.max_length)
        self._long = long_sequences(check_ids, config, longest)
        self._plain_long: torch.Tensor | None = None  # by the plain forward, once for all backends that are checked
        self._check_causal()
        return choose_backend(self.name, backend, BACKENDS, self._problem)

    def _next_log_probs(self, asked: Questions) -> Iterator[Group]:
        return self.run(asked.sequences, self.backend)

    def run(self, sequences: Sequence[TokenIds], backend: str) -> Iterator[Group]:
        """Log-probabilities after every sequence, in groups, in any order. raises : EngineError, when memory does not
        suffice."""
        together, alone = self._parted(sequences, backend)
        if alone and backend != "exact":
            warnings.warn(
                f"{self.name}: prompts of more than {self._n_same} tokens are run one at a time, which is slower, "
                "because the model then computes positions in another way, attends in one that is not checked, or "
                "chooses among equal tokens what it attends to",
                SynthscoreWarning,
                stacklevel=4,
            )
        share = self._run_cascade if backend == "cascade" else self._run_branches
        for way, indices in ((share, together), (self._run_exact, alone)):
            if indices:
                for group, logits, n_tokens in way([sequences[index] for index in indices]):
                    yield [indices[index] for index in group], log_softmax(logits), n_tokens

    def _parted(self, sequences: Sequence[TokenIds], backend: str) -> tuple[list[int], list[int]]:
        """Which sequences share their beginnings, and which are read one at a time."""
        longest = 0 if backend == "exact" else self._n_same
        together = [index for index, sequence in enumerate(sequences) if len(sequence) <= longest]
        return together, [index for index, sequence in enumerate(sequences) if len(sequence) > longest]

    def _table(self, sequences: Sequence[TokenIds], backend: str) -> torch.Tensor:
        """The log-probabilities of all sequences in order, shape (n_sequences, vocabulary)."""
        rows: dict[int, torch.Tensor] = {}
        for group, log_probs, _ in self.run(sequences, backend):
            rows.update(zip(group, log_probs, strict=True))
        return torch.stack([rows[index] for index in range(len(sequences))])

    def _token_log_probs(self, asked: Readings) -> Iterator[tuple[int, FloatArray]]:
        """What sequences begin with in common is run over once, except as exact: then one sequence a forward."""
        sequences, n_starts = asked.sequences, asked.n_starts
        together, alone = self._parted(sequences, self.backend)
        if together:
            starts = [n_starts[index] for index in together]
            yield from zip(together, self._read_shared([sequences[index] for index in together], starts), strict=True)
        for index in alone:
            ids, n_start = sequences[index].astype(np.int64), n_starts[index]
            logits = self._logits(torch.from_numpy(ids[None]), torch.arange(n_start - 1, len(ids) - 1))
            yield index, chosen(logits[0], np.arange(len(ids) - n_start), ids[n_start:])

    def _read_shared(self, sequences: Sequence[TokenIds], n_starts: Sequence[int]) -> list[FloatArray]:
        """Their tree without their last tokens, read at the places that the others are followed from."""
        tree = pack([ids[:-1] for ids in sequences])
        asked_for = [ids[n_start:] for ids, n_start in zip(sequences, n_starts, strict=True)]
        nodes: list[int] = []  # of the tree: where each token that is asked for is read
        for end, ids in zip(tree.ends, asked_for, strict=True):
            way = [int(end)]
            while len(way) < len(ids):
                way.append(int(tree.parents[way[-1]]))
            nodes += way[::-1]
        tokens = np.concatenate(asked_for).astype(np.int64)
        reads, rows = np.unique(nodes, return_inverse=True)
        values = np.empty(len(nodes))
        most = min(self.max_tokens, MOST_LOGITS // self.model.config.get_text_config().vocab_size)
        walk = self.cascade if self.backend == "cascade" else self.branches
        for group, logits, _ in walk(replace(tree, ends=reads), most):
            row_of = np.full(len(reads), -1)  # of the group, for each place that is read
            row_of[group] = np.arange(len(group))
            asked = np.flatnonzero(row_of[rows] >= 0)
            if len(asked):
                values[asked] = chosen(logits, row_of[rows[asked]], tokens[asked])
        return np.split(values, np.cumsum([len(ids) for ids in asked_for])[:-1])

    # -------------------------------------------------------------------------------------------- the three ways

    def _run_cascade(self, sequences: Sequence[TokenIds]) -> Iterator[Group]:
        """Where calls belong together (engine.together), without what an earlier one has read."""
        kept = KEPT.get()
        if kept is None:
            return self.cascade(pack(sequences))
        read = kept.setdefault(self, Read(pack([]), {}))
        return self.cascade(grow(read.tree, sequences), read=read)

    @torch.inference_mode()
    def cascade(self, tree: Packed, max_tokens: int | None = None, read: Read | None = None) -> Iterator[Group]:
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

    def _run_branches(self, sequences: Sequence[TokenIds]) -> Iterator[Group]:
        return self.branches(pack(sequences))

    @torch.inference_mode()
    def branches(self, tree: Packed, max_tokens: int | None = None) -> Iterator[Group]:
        """The forwards that read a tree, as of `cascade`, each going on from a kept cache."""
        max_tokens = max_tokens or self.max_tokens
        ending: dict[int, list[int]] = {}  # last token -> sequences
        for index, end in enumerate(tree.ends.tolist()):
            ending.setdefault(end, []).append(index)
        kept: dict[int, Kept | None] = {-1: None}
        passing = Passing()
        most = max(self._block, max_tokens // self._block * self._block)  # of one row at once
        for step in steps(tree, max_tokens, MAX_ROWS, self._most_reread, self._block):
            stem = kept[step.stem] if step.stem < 0 or not step.last else kept.pop(step.stem)
            width = max(map(len, step.rows))
            if stem and not (step.last and len(step.rows) == 1):
                stem = stem.branched(len(step.rows), None if step.keeps or width > most else passing)
            ids = np.stack([np.pad(tree.ids[row], (0, width - len(row)), mode="edge") for row in step.rows])
            for start in range(0, width, most):
                stop = min(start + most, width)
                reads = [(row, place - start) for row, place in step.reads if start <= place < stop]
                logits, stem = self._go_on(ids[:, start:stop], reads, stem, keeps=step.keeps or stop < width)
                groups = [ending[int(step.rows[row][start + place])] for row, place in reads]
                again = [k for k, group in enumerate(groups) for _ in group]
                n_tokens = sum(min(len(row), stop) - min(len(row), start) for row in step.rows)
                _give_back()
                yield [index for group in groups for index in group], logits[again], n_tokens
            if step.keeps:
                kept[int(step.rows[0][-1])] = stem

    def _go_on(
        self, ids: IntArray, reads: Sequence[tuple[int, int]], stem: Kept | None, *, keeps: bool
    ) -> tuple[torch.Tensor, Kept | None]:
        """Logits at the (row, place) of rows that go on from a cache, which is written to, shape (n_reads, vocabulary);
        and the cache behind them, if it is kept."""
        places, columns = np.unique([place for _, place in reads] or [0], return_inverse=True)
        where = ([row for row, _ in reads] or [0], columns.tolist())
        arguments = {stem.name: stem.cache} if stem else {}

        def spare(module: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...] | None:
            """The head runs over what is read alone, not over every row at every place that is read in some row."""
            if inputs[0].shape[:-1] != (len(ids), len(places)):
                return None
            return (inputs[0][where][None], *inputs[1:])

        head = self.model.get_output_embeddings() if len(ids) > 1 else None
        hook = head.register_forward_pre_hook(spare) if head is not None else None
        try:
            use_cache = keeps or stem is not None
            output, logits = self._forward(
                torch.from_numpy(ids), torch.from_numpy(places), use_cache=use_cache, **arguments
            )
        finally:
            if hook:
                hook.remove()
        read = logits[0] if logits.shape[:-1] == (1, len(where[0])) else logits[where]
        return read[: len(reads)], Kept.of(output) if keeps else None

    def _run_exact(self, sequences: Sequence[TokenIds]) -> Iterator[Group]:
        for index, sequence in enumerate(sequences):
            ids = torch.from_numpy(sequence.astype(np.int64))[None]
            yield [index], self._logits(ids, torch.tensor([len(sequence) - 1]))[0], len(sequence)

    def _logits(self, ids: torch.Tensor, places: torch.Tensor, **arguments: Any) -> torch.Tensor:
        """Logits at the given places (ascending, all different) of each row, shape (n_rows, n_places, vocabulary)."""
        return self._forward(ids, places, use_cache=False, **arguments)[1]

    @torch.inference_mode()
    def _forward(self, ids: torch.Tensor, places: torch.Tensor, **arguments: Any) -> tuple[Any, torch.Tensor]:
        """What the model returns, and its logits at the given places."""
        device = self.model.device
        places = places.to(device)
        if self._keeps_logits:
            arguments["logits_to_keep"] = places
        try:
            output = self.model(input_ids=ids.to(device), **arguments)
        except torch.cuda.OutOfMemoryError as error:
            raise EngineError(
                f"out of memory with {ids.numel()} tokens in one forward. Take a smaller max_tokens (now "
                f"{self.max_tokens}), dtype bfloat16, or a smaller model"
            ) from error
        logits: torch.Tensor = output.logits
        return output, logits[:, places] if logits.shape[:2] == ids.shape else logits

    # -------------------------------------------------------------------------------------------- texts

    def _written(
        self, prompts: Sequence[TokenIds], sampling: Sampling, seeds: Sequence[int]
    ) -> Iterator[tuple[list[int], Sequence[Answer]]]:
        most, longest = sampling.max_new_tokens, self.prompts.max_length

        def n_rows(n_tokens: int) -> int:
            """Beside others, a finished text would run past the end of the context, or be computed in another way."""
            n_tokens += most
            return 1 if n_tokens > min(longest, self._n_same) else min(self._n_rows, 4 * self.max_tokens // n_tokens)

        for batch in writing.batches(prompts, n_rows):
            beside = [prompts[row] for row in batch]
            limits = [min(most, longest - len(ids)) for ids in beside]
            inputs = writing.side_by_side(beside, left=True)
            own = [seeds[row] for row in batch]
            decode = (self.thinking or self.prompts).decode
            yield batch, writing.write(self.model, inputs, limits, sampling, own, self._stop_ids, decode)

    @cached_property
    def _n_rows(self) -> int:
        """Texts side by side: one, if padding on the left or the cache changes the numbers."""
        wanted = "single" if self.backend == "exact" else "auto"
        return MAX_ROWS if choose_backend(self.name, wanted, _WRITTEN, self._writing_problem) == "together" else 1

    def _writing_problem(self, way: str) -> str:
        if way == "single":
            return ""
        prompts = self._short[::3]
        token = int(prompts[0][0])
        plain = self._table([*prompts, *(np.append(prompt, np.int32(token)) for prompt in prompts)], "exact")
        found: list[torch.Tensor] = []

        def choose(logits: torch.Tensor) -> list[int]:
            found.append(logits)
            return [token] * len(logits)

        inputs = writing.side_by_side(prompts, left=True)
        writing.generate(self.model, inputs, 2, choose, lambda: np.zeros(len(prompts), dtype=bool))
        return disagreement(log_softmax(torch.cat(found)), plain, self.model.dtype)

    # -------------------------------------------------------------------------------------------- checks at load

    def _problem(self, backend: str) -> str:
        """Why a backend must not be used with this model; "" if it may."""
        if backend == "exact":
            return ""
        before = self.max_tokens
        settings = [(before, MOST_REREAD), (16, 0)]  # in small chunks, too, so that much is kept from one to the next
        if backend == "branches":
            settings.insert(1, (before, 0))
        try:
            plain = self._table(self._short, "exact")
            for self.max_tokens, self._most_reread in settings:
                if problem := disagreement(self._table(self._short, backend), plain, self.model.dtype):
                    return problem
            self.max_tokens = before
            if backend == "branches":  # the short prompts branch before the first block ends
                self._block = self._states_block()
            return self._long_problem(backend)
        finally:
            self.max_tokens, self._most_reread = before, MOST_REREAD

    def _long_problem(self, backend: str) -> str:
        """The same, of prompts that are longer than the model's windows, in as few layers as show it."""
        if not self._long:
            return ""
        whole = self._n_layers
        try:
            with few_layers(self.model, whole) as self._n_layers:
                if self._plain_long is None:
                    self._plain_long = self._table(self._long, "exact")
                problem = disagreement(self._table(self._long, backend), self._plain_long, self.model.dtype)
        finally:
            self._n_layers = whole
        longest = max(map(len, self._long))
        return f"in prompts of {longest:,} tokens {problem}" if problem else ""

    def _states_block(self) -> int:
        """Behind multiples of how many tokens caches are kept.

        A recurrence whose config names no chunk reads BLOCK tokens at once, and in float32 rounds as the plain forward
        does only where it goes on from a whole number of these.
        """
        config = self.model.config.get_text_config().to_dict()
        names_chunk = any(value and ("chunk" in name or name == "block_size") for name, value in config.items())
        if names_chunk or self.model.dtype != torch.float32:
            return 1
        ids = torch.from_numpy(self._short[0].astype(np.int64))[None]
        output, _ = self._forward(ids, torch.tensor([0]), use_cache=True)
        return BLOCK if Kept.of(output).recurs else 1

    def _check_causal(self) -> None:
        """raises : EngineError, if the plain forward gives NaN, or what follows a token changes the logits there."""
        prompt = torch.from_numpy(self._short[0].astype(np.int64))[None]
        n = max(1, prompt.shape[1] // 2)
        try:
            both = [self._logits(ids, torch.tensor([n - 1]))[0] for ids in (prompt[:, :n], prompt)]
        except EngineError:
            raise
        except Exception as error:  # what a model that needs more than text raises is its own
            raise EngineError(
                f"{self.name} does not read text alone here ({in_short(error, 80)}); a model for images can be served, "
                "with vLLM for one (docs/servers.md)",
                model=self.name,
            ) from error
        alone, followed = map(log_softmax, both)
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
