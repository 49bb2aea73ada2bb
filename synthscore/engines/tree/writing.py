"""Prompts -> texts, by a causal model of transformers, many side by side, each drawn with its own seed.

Equal prompts are read once; then each text goes on by itself from its own keys and values.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import torch

from ...engine import Generation, Sampling
from ...errors import EngineError, SynthscoreWarning
from ..labels import MAX_ROWS, NOT_NUMBERS, TokenIds, disagreement
from .forward import Forward


class Writer:
    """Writes with one model.

    stop_ids : tokens that end a text
    decode : token ids -> text
    """

    def __init__(self, forward: Forward, stop_ids: frozenset[int], decode: Callable[[Sequence[int]], str]) -> None:
        self._forward, self._stop_ids, self._decode = forward, stop_ids, decode
        self._n_rows = 0  # texts side by side: found out when first asked

    def batches(self, prompts: Sequence[TokenIds], max_new_tokens: int) -> list[list[int]]:
        """Which prompts to write to side by side: those that begin alike, within the budget of memory."""
        if not self._n_rows and prompts:
            self._check()
        order = sorted(range(len(prompts)), key=lambda row: prompts[row].astype(">i4").tobytes())
        batches: list[list[int]] = []
        for row in order:
            longest = max(len(prompts[other]) for other in ([*batches[-1], row] if batches else [row]))
            n_rows = 4 * self._forward.max_tokens // (longest + max_new_tokens)
            if batches and len(batches[-1]) < min(self._n_rows, n_rows):
                batches[-1].append(row)
            else:
                batches.append([row])
        return sorted(batches, key=lambda rows: -max(len(prompts[row]) for row in rows))  # memory fails early

    @torch.inference_mode()
    def write(
        self, prompts: Sequence[TokenIds], sampling: Sampling, seeds: Sequence[int]
    ) -> list[Generation | Exception]:
        """One text a prompt, all side by side; see `write`."""
        limits = [min(sampling.max_new_tokens, self._forward.max_length - len(ids)) for ids in prompts]
        rows = _Rows(self._forward, prompts)
        return write(rows, rows.start(), limits, sampling, seeds, self._stop_ids, self._decode)

    @torch.inference_mode()
    def _check(self) -> None:
        """Find out how texts may be written: one at a time, if padding on the left or the cache changes the numbers."""
        forward = self._forward
        prompts = forward.check_sequences[::2]
        token = int(prompts[0][0])
        longer = [np.append(prompt, np.int32(token)) for prompt in prompts[1:]]
        plain = forward.table([*prompts, *longer], "exact")

        def problem() -> str:
            try:
                rows = _Rows(forward, prompts)
                steps = [rows.start()]
                rows.keep([1, 2])
                steps.append(rows.step([token] * 2))
                return disagreement(torch.cat(steps).float().log_softmax(-1), plain, forward.model.dtype)
            except Exception as error:
                return f"its forward fails on them ({type(error).__name__}: {str(error)[:200]})"

        self._n_rows = 1
        if forward.backend == "exact":
            return
        if not (reason := problem()):
            self._n_rows = MAX_ROWS
        else:
            warnings.warn(
                f"{forward.name}: texts are written one at a time, which is slower, because side by side {reason}",
                SynthscoreWarning,
                stacklevel=5,
            )


class Rows(Protocol):
    """Texts side by side, as far as they are written."""

    def keep(self, rows: list[int]) -> None:
        """Go on with these rows only."""
        ...

    def step(self, tokens: Sequence[int]) -> torch.Tensor:
        """Logits of the token after these, shape (n_rows, vocabulary)."""
        ...


def write(
    rows: Rows,
    logits: torch.Tensor,
    limits: Sequence[int],
    sampling: Sampling,
    seeds: Sequence[int],
    stop_ids: frozenset[int],
    decode: Callable[[Sequence[int]], str],
) -> list[Generation | Exception]:
    """One text a row. One uniform number a token decides: rows do not depend on each other beyond rounding.

    logits : of the first token of each text, shape (n_rows, vocabulary)
    limits : tokens that each may have
    """

    def ended(tokens: list[int], limit: int) -> Generation | None:
        """The text, if it ends here: at a token that ends it, at a stop string, or cut at its limit."""
        if tokens[-1] in stop_ids:
            return Generation(decode(tokens[:-1]), "stop", len(tokens))
        if sampling.stop:
            text = decode(tokens)
            places = [place for word in sampling.stop if (place := text.find(word)) >= 0]
            if places:
                return Generation(text[: min(places)], "stop", len(tokens))
        return Generation(decode(tokens), "length", len(tokens)) if len(tokens) == limit else None

    generators = [torch.Generator().manual_seed(seed % 2**63) for seed in seeds]
    written: list[list[int]] = [[] for _ in seeds]
    results: dict[int, Generation | Exception] = {}
    open_rows = list(range(len(seeds)))
    while True:
        uniform = torch.stack([torch.rand((), generator=generators[row], dtype=torch.float64) for row in open_rows])
        numbers = (~logits.isnan().any(dim=-1)).tolist()
        tokens = draw(logits.nan_to_num().float(), sampling, uniform)
        for row, token, is_number in zip(open_rows, tokens, numbers, strict=True):
            written[row].append(token)
            result = ended(written[row], limits[row]) if is_number else EngineError(NOT_NUMBERS)
            if result:
                results[row] = result
        if len(results) == len(seeds):
            return [results[row] for row in range(len(seeds))]
        still_open = [place for place, row in enumerate(open_rows) if row not in results]
        if len(still_open) < len(open_rows):  # a finished row would run past the end of the context
            rows.keep(still_open)
        logits = rows.step([tokens[place] for place in still_open])
        open_rows = [open_rows[place] for place in still_open]


class _Rows:
    """Next-token logits of prompts side by side, one token at a time, with the model's own cache.

    Prompts are padded on the left with positions to match; a single one is left as it is, for any model.
    """

    def __init__(self, forward: Forward, prompts: Sequence[TokenIds]) -> None:
        self._forward, self._device = forward, forward.model.device
        width = max(map(len, prompts))
        different = {prompt.tobytes(): prompt for prompt in prompts}
        places = {key: place for place, key in enumerate(different)}
        self._places = [places[prompt.tobytes()] for prompt in prompts]  # of each text's prompt among the different
        prompts = list(different.values())
        padded = np.stack([np.pad(prompt, (width - len(prompt), 0)) for prompt in prompts])
        self._ids = torch.from_numpy(padded.astype(np.int64)).to(self._device)
        self._arguments: dict[str, Any] = {"logits_to_keep": 1} if forward.keeps_logits else {}
        self._mask: torch.Tensor | None = None
        self._cache: Any = None
        if len(prompts) > 1:
            lengths = torch.tensor([len(prompt) for prompt in prompts], device=self._device)
            self._mask = (torch.arange(width, device=self._device) >= width - lengths[:, None]).long()

    def start(self) -> torch.Tensor:
        """Logits of the first token of each text, shape (n_prompts, vocabulary)."""
        logits = self._run(self._ids)
        if len(self._places) > len(self._ids):
            logits = logits[torch.tensor(self._places, device=logits.device)]
            self.keep(self._places)
        return logits

    def step(self, tokens: Sequence[int]) -> torch.Tensor:
        """Logits of the token after these."""
        new = torch.tensor(tokens, device=self._device)[:, None]
        self._ids = torch.cat([self._ids, new], dim=1)
        if self._mask is not None:
            self._mask = torch.cat([self._mask, torch.ones_like(new)], dim=1)
        return self._run(self._ids if self._cache is None else new)

    def keep(self, rows: list[int]) -> None:
        """Go on with these rows only."""
        places = torch.tensor(rows, device=self._device)
        self._ids = self._ids[places]
        if self._mask is not None:
            self._mask = self._mask[places]
        if self._cache is not None:
            self._cache.batch_select_indices(places)

    def _run(self, ids: torch.Tensor) -> torch.Tensor:
        arguments = dict(self._arguments)
        if self._mask is not None:
            arguments["attention_mask"] = self._mask
            if self._forward.takes_positions:
                positions = (self._mask.cumsum(dim=1) - 1).clamp(min=0)
                arguments["position_ids"] = positions[:, -ids.shape[1] :]
        if self._cache is not None:
            arguments["past_key_values"] = self._cache
        output = self._forward.model(input_ids=ids, use_cache=True, **arguments)
        self._cache = getattr(output, "past_key_values", None)  # None: a model without, which reads all of it again
        logits: torch.Tensor = output.logits[:, -1]
        return logits


def draw(logits: torch.Tensor, sampling: Sampling, uniform: torch.Tensor) -> list[int]:
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
