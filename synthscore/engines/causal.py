"""Causal language models of transformers as engines: exact label log-probabilities, and texts. The only torch so far.

Three ways to run the same numbers, tried in this order:

- tree: prompts that share beginnings are packed into one token tree (trie.py), which one forward reads with a mask that
  shows each token its ancestors only. For models in which a mask and positions say everything about attention.
- padded: sequences of similar length side by side, padded on the right, where a causal model does not look.
- single: one sequence a forward, nothing else.

A check at load compares each way with the plain forward, and takes the first that agrees; all but the first are warned
about. The way is part of the signature.
"""

from __future__ import annotations

import hashlib
import inspect
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging as hf_logging

from ..errors import EngineError, LabelError
from ..types import FloatArray, Generation, LabelLogProbs, Prompt, Rival, Sampling, Signature
from .base import Progress
from .tokens import Ids, LabelForms, PromptTokenizer
from .trie import chunk, pack

Backend = Literal["tree", "padded", "single"]
BACKENDS: tuple[Backend, ...] = ("tree", "padded", "single")

_NOT_NUMBERS = "the model answers with NaN, expected numbers. Try dtype float32"
_MAX_ROWS = 16  # sequences side by side: bounds the logits, (rows, places, vocabulary)


class SynthscoreWarning(UserWarning):
    """Something works, but not as one would expect."""


class CausalEngine:
    """A causal language model that judges and writes. `CausalEngine.load` makes one from a folder or a hub id.

    name, revision : for the signature
    max_tokens : tokens in one forward; bounds memory, and a longer prompt still gets a forward of its own
    backend : "auto" takes the first that the model gets right; a named one is taken, or EngineError
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        name: str,
        revision: str = "unknown",
        max_tokens: int = 2048,
        backend: Backend | Literal["auto"] = "auto",
    ) -> None:
        self.model = model.eval()
        self.name, self.revision, self.max_tokens = name, revision, max_tokens
        self.prompts = PromptTokenizer(tokenizer, _max_length(model.config, tokenizer))
        self._keeps_logits = "logits_to_keep" in inspect.signature(model.forward).parameters
        self._takes_positions = "position_ids" in inspect.signature(model.forward).parameters
        self._stop_ids = _stop_ids(model, tokenizer)
        self._n_write_rows = 0  # texts written side by side; found out when first asked to write
        self._warned_of_boundary = False
        self.backend: Backend = self._choose(backend)

    @classmethod
    def load(
        cls,
        path_or_id: str | Path,
        *,
        name: str | None = None,
        revision: str | None = None,
        dtype: Literal["auto", "float32", "bfloat16"] = "auto",
        device: str | None = None,
        device_map: Any = None,
        max_tokens: int = 2048,
        backend: Backend | Literal["auto"] = "auto",
    ) -> CausalEngine:
        """A model from a local folder or the hub.

        dtype : "auto" is bfloat16 on a GPU that has it, float32 elsewhere
        device : "cuda" where there is one, else "cpu"; device_map spreads a model over devices instead
        raises : EngineError, when it cannot be loaded or is not a causal language model
        """
        device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        if dtype == "auto":
            on_gpu = device_map is not None or torch.device(device).type == "cuda"
            dtype = "bfloat16" if on_gpu and torch.cuda.is_available() and torch.cuda.is_bf16_supported() else "float32"
        source = str(path_or_id)
        show_progress = hf_logging.is_progress_bar_enabled()
        hf_logging.disable_progress_bar()
        try:
            tokenizer = AutoTokenizer.from_pretrained(source, revision=revision)
            model, info = AutoModelForCausalLM.from_pretrained(
                source,
                revision=revision,
                dtype=getattr(torch, dtype),
                device_map=device_map,
                output_loading_info=True,
            )
        except Exception as error:  # the libraries raise OSError, ValueError, KeyError, ImportError, RuntimeError, ...
            raise EngineError(
                f"cannot load model {source!r} as a causal language model: {error} "
                "Expected a folder with config.json, weights and tokenizer, or a hub id (organisation/model) "
                "that is reachable or already downloaded",
                model=source,
            ) from error
        finally:
            if show_progress:
                hf_logging.enable_progress_bar()
        if info["missing_keys"]:
            raise EngineError(
                f"model {source!r} lacks weights of {type(model).__name__}: {sorted(info['missing_keys'])[:3]}. "
                "They would be random. Take a checkpoint that was trained as a causal language model",
                model=source,
            )
        if device_map is None:
            model = model.to(device)
        found = getattr(model.config, "_commit_hash", None)
        return cls(
            model,
            tokenizer,
            name=name or (Path(source).resolve().name if Path(source).is_dir() else source),
            revision=found[:12] if found else _folder_hash(Path(source)),
            max_tokens=max_tokens,
            backend=backend,
        )

    @property
    def signature(self) -> Signature:
        """Model, revision, dtype, backend, rendered chat template and library versions.

        max_tokens is part of it below float32, where the way sequences are packed shows in the second digit.
        """
        dtype = str(self.model.dtype).removeprefix("torch.")
        parts = {"model": f"{self.name}@{self.revision}", "dtype": dtype, "backend": self.backend}
        if dtype != "float32":
            parts["max_tokens"] = str(self.max_tokens)
        parts["chat"] = self.prompts.template_hash
        if self.prompts.boundary == "separate":
            parts["boundary"] = "separate"
        return Signature.of(**parts, transformers=transformers.__version__, torch=torch.__version__)

    # -------------------------------------------------------------------------------------------- judging

    def label_log_probs(
        self, prompts: Sequence[Prompt], labels: Sequence[str], progress: Progress | None = None
    ) -> LabelLogProbs:
        """log P(label | prompt), the whole label, summed over its surface forms, over the full vocabulary.

            log P(label) = log sum_form exp( sum_t log p(form_t | prompt, form_<t) )

        returns : rows in the order of prompts; a prompt that is too long is a failure with its reason
        raises : LabelError, when labels collide or cannot be said
        """
        failures: dict[int, str] = {}
        questions: dict[_Question, list[int]] = {}  # and the rows that ask it
        tokens_naive = 0
        for row, prompt in enumerate(prompts):
            try:
                question = self._question(prompt, labels)
            except LabelError:
                raise
            except EngineError as error:
                failures[row] = str(error)
            else:
                questions.setdefault(question, []).append(row)
                tokens_naive += len(question.ids)
        if progress and failures:
            progress(len(failures))

        log_probs = np.full((len(prompts), len(labels)), np.nan)
        rivals: list[Rival | None] = [None] * len(prompts)
        answers = _Answers(list(questions))
        tokens_computed = 0
        for group, next_log_probs, n_tokens in self._next_log_probs(answers.sequences, self.backend):
            done = answers.add(group, next_log_probs)
            tokens_computed += n_tokens
            if progress and done:
                progress(sum(len(questions[question]) for question in done))
        for question, rows in questions.items():
            answer = answers.log_probs(question)
            if np.isnan(answer).any():
                failures.update(dict.fromkeys(rows, _NOT_NUMBERS))
                continue
            token, log_prob = answers.rival(question)
            log_probs[rows] = answer
            for row in rows:
                rivals[row] = Rival(self.prompts.tokenizer.decode([token]), log_prob)
        return LabelLogProbs(tuple(labels), log_probs, tuple(rivals), failures, tokens_naive, tokens_computed)

    def _question(self, prompt: Prompt, labels: Sequence[str]) -> _Question:
        ids = self.prompts.encode(prompt)
        forms = self.prompts.label_forms(prompt, labels, ids)
        self.prompts.check_room(len(ids), forms.n_longest)
        if forms.boundary == "separate" and not self._warned_of_boundary:
            self._warned_of_boundary = True
            warnings.warn(
                f"{self.name}: the tokenizer merges the labels {list(labels)} with the end of the prompt "
                f"({self.prompts.render(prompt)[-16:]!r}), so they are tokenised by themselves",
                SynthscoreWarning,
                stacklevel=3,
            )
        return _Question(tuple(ids), forms)

    # -------------------------------------------------------------------------------------------- writing

    def generate(
        self, prompts: Sequence[Prompt], sampling: Sampling, seeds: Sequence[int], progress: Progress | None = None
    ) -> list[Generation | Exception]:
        """One text a prompt, drawn with seeds[row] alone: one uniform number a token, so that rows do not depend on
        each other beyond rounding. A row is cut ("length") at max_new_tokens or where the model's context ends.
        """
        results: list[Generation | Exception] = [EngineError("not written")] * len(prompts)
        encoded: dict[int, Ids] = {}
        for row, prompt in enumerate(prompts):
            try:
                encoded[row] = tuple(self.prompts.encode(prompt))
            except EngineError as error:
                results[row] = error
        if progress and len(encoded) < len(prompts):
            progress(len(prompts) - len(encoded))
        if encoded and not self._n_write_rows:
            self._n_write_rows = self._choose_write_rows()

        rows = sorted(encoded, key=lambda row: len(encoded[row]))
        while rows:
            width = len(encoded[rows[-1]]) + sampling.max_new_tokens  # the longest first: memory fails early
            n_rows = max(1, min(self._n_write_rows, 4 * self.max_tokens // width))
            batch, rows = rows[-n_rows:], rows[:-n_rows]
            texts = self._write([encoded[row] for row in batch], sampling, [seeds[row] for row in batch])
            for row, text in zip(batch, texts, strict=True):
                results[row] = text
            if progress:
                progress(len(batch))
        return results

    @torch.inference_mode()
    def _write(self, prompts: list[Ids], sampling: Sampling, seeds: list[int]) -> list[Generation | Exception]:
        limits = [min(sampling.max_new_tokens, self.prompts.max_length - len(ids)) for ids in prompts]
        generators = [torch.Generator().manual_seed(seed % 2**63) for seed in seeds]
        written: list[list[int]] = [[] for _ in prompts]
        results: dict[int, Generation | Exception] = {}
        decoder = _Decoder(self, prompts)
        logits = decoder.start()
        open_rows = list(range(len(prompts)))
        while True:
            uniform = torch.stack([torch.rand((), generator=generators[row], dtype=torch.float64) for row in open_rows])
            numbers = (~logits.isnan().any(dim=-1)).tolist()
            tokens = _draw(logits.nan_to_num().float(), sampling, uniform)
            for row, token, is_number in zip(open_rows, tokens, numbers, strict=True):
                written[row].append(token)
                if not is_number:
                    results[row] = EngineError(_NOT_NUMBERS)
                elif token in self._stop_ids:
                    results[row] = Generation(self.prompts.decode(written[row][:-1]), "stop", len(written[row]))
                elif len(written[row]) == limits[row]:
                    results[row] = Generation(self.prompts.decode(written[row]), "length", len(written[row]))
            if len(results) == len(prompts):
                return [results[row] for row in range(len(prompts))]
            still_open = [place for place, row in enumerate(open_rows) if row not in results]
            if len(still_open) < len(open_rows):  # a finished row would run past the end of the context
                decoder.keep(still_open)
            logits = decoder.step([tokens[place] for place in still_open])
            open_rows = [open_rows[place] for place in still_open]

    # -------------------------------------------------------------------------------------------- running the model

    def _next_log_probs(
        self, sequences: Sequence[Ids], backend: Backend
    ) -> Iterator[tuple[list[int], torch.Tensor, int]]:
        """Sequences in groups: their indices; log-probabilities of the token after each, float32, shape
        (n, vocabulary); the number of tokens that were run over."""
        run = {"tree": self._run_tree, "padded": self._run_padded, "single": self._run_single}[backend]
        for group, logits, n_tokens in run(sequences):
            # float32: neighbouring bfloat16 logits near 20 are 0.125 apart
            yield group, logits.float().log_softmax(-1), n_tokens

    def _run_tree(self, sequences: Sequence[Ids]) -> Iterator[tuple[list[int], torch.Tensor, int]]:
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

    def _run_padded(self, sequences: Sequence[Ids]) -> Iterator[tuple[list[int], torch.Tensor, int]]:
        hosts = _hosts(sequences)
        order = sorted(hosts, key=lambda host: len(sequences[host]))
        while order:
            width = len(sequences[order[-1]])
            n_rows = max(1, min(_MAX_ROWS, self.max_tokens // width))
            batch, order = order[-n_rows:], order[:-n_rows]
            # No position_ids: with padding on the right, every model's own are right, wherever it counts from.
            ids = torch.zeros((len(batch), width), dtype=torch.long)
            mask = torch.zeros((len(batch), width), dtype=torch.long)
            for row, host in enumerate(batch):
                ids[row, : len(sequences[host])] = torch.tensor(sequences[host])
                mask[row, : len(sequences[host])] = 1
            group = [index for host in batch for index in hosts[host]]
            rows = [row for row, host in enumerate(batch) for _ in hosts[host]]
            places, back = np.unique([len(sequences[index]) - 1 for index in group], return_inverse=True)
            logits = self._logits(ids, torch.from_numpy(places), attention_mask=mask.to(self.model.device))
            yield group, logits[torch.tensor(rows), torch.from_numpy(back)], ids.numel()

    def _run_single(self, sequences: Sequence[Ids]) -> Iterator[tuple[list[int], torch.Tensor, int]]:
        for host, group in _hosts(sequences).items():
            places = torch.tensor(sorted(len(sequences[index]) - 1 for index in group))
            group = sorted(group, key=lambda index: len(sequences[index]))
            yield group, self._logits(torch.tensor([sequences[host]]), places)[0], len(sequences[host])

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

    def _choose(self, wanted: Backend | Literal["auto"]) -> Backend:
        """The first way to run the model that agrees with the plain forward. raises : EngineError if none is right."""
        prompts = self._check_prompts()
        self._check_causal(prompts[0])
        for backend in BACKENDS if wanted == "auto" else (wanted,):
            problem = self._problem(backend, prompts)
            if not problem:
                return backend
            if wanted != "auto":
                raise EngineError(f"{self.name}: backend {backend!r} cannot be used: {problem}. Try backend 'auto'")
            warnings.warn(
                f"{self.name}: prompts do not share their beginnings and are run "
                f"{'side by side' if backend == 'tree' else 'one at a time'}, which is slower, because {problem}",
                SynthscoreWarning,
                stacklevel=4,
            )
        raise AssertionError("the plain forward agrees with itself")

    def _problem(self, backend: Backend, prompts: list[Ids]) -> str:
        """Why a backend must not be used with this model; "" if it may."""
        if backend == "tree" and (window := _window(self.model.config, self.prompts.max_length)):
            return f"its layers do not all see the whole prompt ({window})"
        sequences = [prompt + label for prompt in prompts for label in ((), prompt[:1])]
        try:
            found = self._table(sequences, backend)
        except Exception as error:  # a forward that does not take our arguments fails in its own way
            return f"its forward fails on {backend} input ({type(error).__name__}: {str(error)[:200]})"
        return self._disagreement(found, self._table(sequences, "single"))

    def _table(self, sequences: list[Ids], backend: Backend) -> torch.Tensor:
        """Log-probabilities of the token after each sequence, in order, shape (n_sequences, vocabulary)."""
        rows: dict[int, torch.Tensor] = {}
        for group, log_probs, _ in self._next_log_probs(sequences, backend):
            rows.update(zip(group, log_probs, strict=True))
        return torch.stack([rows[index] for index in range(len(sequences))])

    def _disagreement(self, found: torch.Tensor, plain: torch.Tensor) -> str:
        """In words, if log-probabilities differ by more than rounding; "" if they do not.

        Looks at the 50 most probable tokens of each row. Rounding is below 1e-4 nats in float32. Below float32 it grows
        with the numbers, 5 % of the largest at most; a wrong mask or position changes log-probabilities by nats.
        """
        top = plain.topk(min(50, plain.shape[-1])).indices
        found, plain = found.gather(-1, top), plain.gather(-1, top)
        difference = float((found - plain).abs().max())
        tolerance = 1e-4 if self.model.dtype == torch.float32 else max(0.1, 0.05 * float(plain.abs().max()))
        if difference <= tolerance:
            return ""
        return f"log-probabilities differ by {difference:.2g} nats from the plain forward, expected {tolerance:.2g}"

    def _check_prompts(self) -> list[Ids]:
        """Three prompts of about 40 tokens that share beginnings of different lengths."""
        tokenizer = self.prompts.tokenizer
        ids: list[int] = tokenizer(_CHECK_TEXT, add_special_tokens=False)["input_ids"]
        n = min(40, self.prompts.max_length - 1)
        ids = (ids * 200)[: 3 * n] if ids else [0] * (3 * n)
        first = ids[:n]
        second = ids[: n * 3 // 4] + ids[n : n + n // 4]
        third = ids[: n // 2] + ids[2 * n : 2 * n + n // 3]
        return [tuple(prompt) for prompt in (first, second, third)]

    def _check_causal(self, prompt: Ids) -> None:
        """raises : EngineError, if the plain forward gives NaN, or what follows a token changes the logits there."""
        start = prompt[: max(1, len(prompt) // 2)]
        if self._table([prompt], "single").isnan().any():
            raise EngineError(f"{self.name} answers with NaN, expected numbers. Try dtype float32", model=self.name)
        problem = self._disagreement(self._table([start, prompt], "single")[:1], self._table([start], "single"))
        if problem:
            raise EngineError(
                f"{self.name} looks ahead: {problem}. Expected a causal model. "
                "For a BERT checkpoint trained as one, set is_decoder to true in its config.json",
                model=self.name,
            )

    @torch.inference_mode()
    def _choose_write_rows(self) -> int:
        """How many texts may be written side by side: 1, if padding on the left or the cache changes the numbers."""
        prompts = self._check_prompts()
        token = prompts[0][0]
        plain = self._table(prompts + [(*prompt, token) for prompt in prompts[1:]], "single")
        try:
            decoder = _Decoder(self, prompts)
            steps = [decoder.start()]
            decoder.keep([1, 2])
            steps.append(decoder.step([token] * 2))
            problem = self._disagreement(torch.cat(steps).float().log_softmax(-1), plain)
        except Exception as error:
            problem = f"its forward fails on them ({type(error).__name__}: {str(error)[:200]})"
        if not problem:
            return _MAX_ROWS
        warnings.warn(
            f"{self.name}: texts are written one at a time, which is slower, because side by side {problem}",
            SynthscoreWarning,
            stacklevel=4,
        )
        return 1


_CHECK_TEXT = """
Which of two summaries is better? A storm closed the harbour on Monday, and forty boats stayed in port. The mayor said
that repairs would take 3 weeks; fishermen expect to lose a third of their income. Nobody was hurt. Schools open again.
Summary 1: The harbour is closed after a storm. Summary 2: It rained. Answer with one word, "Better" or "Worse".
"""


# ------------------------------------------------------------------------------------------------- one call's data


@dataclass(frozen=True, slots=True)
class _Question:
    """Which label follows these ids?"""

    ids: Ids
    forms: LabelForms


class _Answers:
    """What to ask the model so that all questions can be answered, and what it said.

    sequences : every prompt, and every prompt with the beginning of a label of several tokens; all different
    """

    def __init__(self, questions: list[_Question]) -> None:
        self._places: dict[Ids, int] = {}
        self._tokens: list[set[int]] = []  # after each sequence: the tokens whose log-probability is needed
        self._asked_at: dict[int, list[_Question]] = {}
        self._values: dict[tuple[int, int], float] = {}
        self._top: dict[int, list[tuple[int, float]]] = {}
        for question in questions:
            for form in question.forms.all:
                for n in range(len(form)):
                    place = self._places.setdefault(question.ids + form[:n], len(self._places))
                    if place == len(self._tokens):
                        self._tokens.append(set())
                    self._tokens[place].add(form[n])
            self._asked_at.setdefault(self._places[question.ids], []).append(question)
        self.sequences = list(self._places)

    def add(self, group: list[int], next_log_probs: torch.Tensor) -> list[_Question]:
        """Keep what is needed of the log-probabilities after some sequences. returns : the questions asked there."""
        pairs = [(row, token) for row, place in enumerate(group) for token in sorted(self._tokens[place])]
        rows, tokens = torch.tensor(pairs, device=next_log_probs.device).T
        for (row, token), value in zip(pairs, next_log_probs[rows, tokens].tolist(), strict=True):
            self._values[group[row], token] = value
        k = 1 + max(len(self._tokens[place]) for place in group)  # the best of k is none of the k - 1 that begin labels
        best = next_log_probs.topk(min(k, next_log_probs.shape[-1]))
        for place, top_tokens, values in zip(group, best.indices.tolist(), best.values.tolist(), strict=True):
            self._top[place] = list(zip(top_tokens, values, strict=True))
        return [question for place in group for question in self._asked_at.get(place, ())]

    def log_probs(self, question: _Question) -> FloatArray:
        """log P(label), float64, shape (n_labels,)."""
        return np.array(
            [
                np.logaddexp.reduce([self._log_prob(question.ids, form) for form in forms])
                for forms in question.forms.forms
            ]
        )

    def _log_prob(self, ids: Ids, form: Ids) -> float:
        return sum(self._values[self._places[ids + form[:n]], token] for n, token in enumerate(form))

    def rival(self, question: _Question) -> tuple[int, float]:
        """The most probable token that begins no label, and its log-probability."""
        top = self._top[self._places[question.ids]]
        return next(((token, value) for token, value in top if token not in question.forms.starts), (0, -np.inf))


class _Decoder:
    """Next-token logits of prompts side by side, one token at a time, with the model's own cache.

    Prompts are padded on the left with positions to match; a single one is left as it is, for any model.
    """

    def __init__(self, engine: CausalEngine, prompts: list[Ids]) -> None:
        self._engine = engine
        device = engine.model.device
        width = max(map(len, prompts))
        self._ids = torch.tensor([[0] * (width - len(ids)) + list(ids) for ids in prompts], device=device)
        self._arguments: dict[str, Any] = {"logits_to_keep": 1} if engine._keeps_logits else {}
        self._mask: torch.Tensor | None = None
        self._cache: Any = None
        if len(prompts) > 1:
            self._mask = torch.tensor([[0] * (width - len(ids)) + [1] * len(ids) for ids in prompts], device=device)

    def start(self) -> torch.Tensor:
        """Logits of the first token of each text, shape (n_prompts, vocabulary)."""
        return self._run(self._ids)

    def step(self, tokens: Sequence[int]) -> torch.Tensor:
        """Logits of the token after these."""
        new = torch.tensor(tokens, device=self._ids.device)[:, None]
        self._ids = torch.cat([self._ids, new], dim=1)
        if self._mask is not None:
            self._mask = torch.cat([self._mask, torch.ones_like(new)], dim=1)
        return self._run(self._ids if self._cache is None else new)

    def keep(self, rows: list[int]) -> None:
        """Go on with these rows only."""
        places = torch.tensor(rows, device=self._ids.device)
        self._ids = self._ids[places]
        if self._mask is not None:
            self._mask = self._mask[places]
        if self._cache is not None:
            self._cache.batch_select_indices(places)

    def _run(self, ids: torch.Tensor) -> torch.Tensor:
        arguments = dict(self._arguments)
        if self._mask is not None:
            arguments["attention_mask"] = self._mask
            if self._engine._takes_positions:
                positions = (self._mask.cumsum(dim=1) - 1).clamp(min=0)
                arguments["position_ids"] = positions[:, -ids.shape[1] :]
        if self._cache is not None:
            arguments["past_key_values"] = self._cache
        output = self._engine.model(input_ids=ids, use_cache=True, **arguments)
        self._cache = getattr(output, "past_key_values", None)  # None: a model without, which reads all of it again
        logits: torch.Tensor = output.logits[:, -1]
        return logits


def _draw(logits: torch.Tensor, sampling: Sampling, uniform: torch.Tensor) -> list[int]:
    """One token a row, from the most probable ones that together reach top_p, by inverting their distribution.

    logits : float32, shape (n_rows, vocabulary); uniform : float64 in [0, 1), shape (n_rows,)
    """
    if sampling.temperature == 0:
        return list(logits.argmax(dim=-1).tolist())
    probs, tokens = (logits.double() / sampling.temperature).softmax(dim=-1).sort(dim=-1, descending=True, stable=True)
    before = probs.cumsum(dim=-1) - probs
    reached = (probs * (before < sampling.top_p)).cumsum(dim=-1)
    goal = uniform.to(logits.device)[:, None] * reached[:, -1:]
    places = (reached <= goal).sum(dim=-1, keepdim=True).clamp(max=logits.shape[-1] - 1)
    return list(tokens.gather(-1, places)[:, 0].tolist())


# ------------------------------------------------------------------------------------------------- facts about a model


def _hosts(sequences: Sequence[Ids]) -> dict[int, list[int]]:
    """Sequences that are not the beginning of another -> themselves and the beginnings that are read along the way."""
    hosts: dict[int, list[int]] = {}
    last = -1
    for index in sorted(range(len(sequences)), key=lambda index: sequences[index], reverse=True):
        if last < 0 or sequences[last][: len(sequences[index])] != sequences[index]:
            last = index
            hosts[last] = []
        hosts[last].append(index)
    return hosts


def _max_length(config: Any, tokenizer: Any) -> int:
    """Tokens that the model takes: what its config says; else its tokenizer; else a million."""
    text = config.get_text_config()
    for name in ("max_position_embeddings", "n_positions", "max_sequence_length", "max_seq_len", "seq_length"):
        value = getattr(text, name, None)
        if isinstance(value, int) and value > 0:
            return value
    return int(min(tokenizer.model_max_length, 1_000_000))


def _window(config: Any, max_length: int) -> str:
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


def _stop_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    """Tokens that end a text, wherever they are named: generation config, config, tokenizer."""
    found: set[int] = set()
    for owner in (getattr(model, "generation_config", None), model.config, tokenizer):
        value = getattr(owner, "eos_token_id", None)
        found.update(value if isinstance(value, Iterable) else [] if value is None else [value])
    return frozenset(found)


def _folder_hash(folder: Path) -> str:
    """12 hex digits that change with the content of a local model: its config, tokenizer and weights."""
    digest = hashlib.sha256()
    kinds = ("*.json", "*.safetensors", "*.bin", "*.txt", "*.model", "*.jinja")
    for path in sorted({path for kind in kinds for path in folder.glob(kind)}):
        digest.update(f"{path.name}:{path.stat().st_size}:".encode())
        with open(path, "rb") as file:
            while block := file.read(1 << 24):
                digest.update(block)
    return digest.hexdigest()[:12]
