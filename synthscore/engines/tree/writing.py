"""Prompts -> texts, by transformers' own generation, many side by side, each drawn with its own seed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np
import torch
from transformers import GenerationConfig

from ...engine import Generation, Sampling
from ...errors import EngineError, SynthscoreWarning
from ...types import BoolArray
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

    def written(
        self, prompts: Sequence[TokenIds], sampling: Sampling, seeds: Sequence[int]
    ) -> Iterator[tuple[list[int], list[Generation | Exception]]]:
        """Every prompt once, some side by side: which they are, and their texts."""
        model, max_length = self._forward.model, self._forward.max_length
        for batch in self._batches(prompts, sampling.max_new_tokens):
            beside = [prompts[index] for index in batch]
            limits = [min(sampling.max_new_tokens, max_length - len(ids)) for ids in beside]
            chosen, inputs = [seeds[index] for index in batch], _side_by_side(beside, model.device)
            yield batch, write(model, inputs, limits, sampling, chosen, self._stop_ids, self._decode)

    def _batches(self, prompts: Sequence[TokenIds], max_new_tokens: int) -> list[list[int]]:
        """Which prompts to write to side by side: those that begin alike, within the budget of memory."""
        if not self._n_rows and prompts:
            self._check()
        order = sorted(range(len(prompts)), key=lambda row: prompts[row].astype(">i4").tobytes())
        batches: list[list[int]] = []
        for row in order:
            n_tokens = max_new_tokens + max(
                len(prompts[other]) for other in ([*batches[-1], row] if batches else [row])
            )
            n_rows = min(self._n_rows, 4 * self._forward.max_tokens // n_tokens)
            if n_tokens > self._forward.max_length:
                n_rows = 1  # beside others, a finished text would run past the end of the context
            if batches and len(batches[-1]) < n_rows:
                batches[-1].append(row)
            else:
                batches.append([row])
        return sorted(batches, key=lambda rows: -max(len(prompts[row]) for row in rows))  # memory fails early

    def _check(self) -> None:
        """Find out how texts may be written: one at a time, if padding on the left or the cache changes the numbers."""
        forward = self._forward
        prompts = forward.check_sequences[::2]
        token = int(prompts[0][0])
        longer = [np.append(prompt, np.int32(token)) for prompt in prompts]
        plain = forward.table([*prompts, *longer], "exact")

        def problem() -> str:
            try:
                inputs = _side_by_side(prompts, forward.model.device)
                logits = _generated(forward.model, inputs, 2, lambda ids, scores: [token] * len(ids)).logits
                return disagreement(torch.cat(logits).log_softmax(-1), plain, forward.model.dtype)
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


def write(
    model: Any,
    inputs: Mapping[str, Any],
    limits: Sequence[int],
    sampling: Sampling,
    seeds: Sequence[int],
    stop_ids: frozenset[int],
    decode: Callable[[Sequence[int]], str],
) -> list[Generation | Exception]:
    """One text a row. One uniform number a token decides: rows do not depend on each other beyond rounding.

    inputs : of the model's `generate`
    limits : tokens that each may have
    """
    generators = [torch.Generator().manual_seed(seed % 2**63) for seed in seeds]
    written: list[list[int]] = [[] for _ in seeds]
    results: dict[int, Generation | Exception] = {}

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

    def choose(ids: torch.Tensor, logits: torch.Tensor) -> list[int]:
        uniform = torch.stack([torch.rand((), generator=generator, dtype=torch.float64) for generator in generators])
        numbers = (~logits.isnan().any(dim=-1)).tolist()
        tokens = draw(logits.nan_to_num().float(), sampling, uniform)
        for row, (token, is_number) in enumerate(zip(tokens, numbers, strict=True)):
            written[row].append(token)
            if row not in results:
                result = ended(written[row], limits[row]) if is_number else EngineError(NOT_NUMBERS)
                if result:
                    results[row] = result
        return tokens

    _generated(model, inputs, max(limits), choose, lambda: np.array([row in results for row in range(len(seeds))]))
    return [results[row] for row in range(len(seeds))]


def _side_by_side(prompts: Sequence[TokenIds], device: Any) -> dict[str, torch.Tensor]:
    """Padded on the left; a single prompt is left as it is, for any model."""
    width = max(map(len, prompts))
    padded = np.stack([np.pad(prompt, (width - len(prompt), 0)) for prompt in prompts]).astype(np.int64)
    inputs = {"input_ids": torch.from_numpy(padded).to(device)}
    if len(prompts) > 1:
        lengths = torch.tensor([len(prompt) for prompt in prompts])
        inputs["attention_mask"] = (torch.arange(width) >= width - lengths[:, None]).long().to(device)
    return inputs


@torch.inference_mode()
def _generated(
    model: Any,
    inputs: Mapping[str, Any],
    n_tokens: int,
    choose: Callable[[torch.Tensor, torch.Tensor], list[int]],
    ended: Callable[[], BoolArray] | None = None,
) -> Any:
    """What transformers' generate gives, with its `logits` before each token.

    choose : ids so far, logits -> the next token of each row. ended : which rows are; None: only after n_tokens
    """

    def only_chosen(ids: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
        tokens = torch.tensor(choose(ids, logits), device=logits.device)
        return torch.full_like(logits, -torch.inf).scatter_(1, tokens[:, None], 0.0)

    def stops(ids: torch.Tensor, scores: object, **_: object) -> torch.Tensor:
        return torch.from_numpy(ended() if ended else np.zeros(len(ids), dtype=bool)).to(ids.device)

    start = inputs["decoder_input_ids"][0, 0].item() if "decoder_input_ids" in inputs else None
    how = GenerationConfig(
        max_new_tokens=n_tokens,
        do_sample=False,
        decoder_start_token_id=start,
        return_dict_in_generate=True,
        output_logits=ended is None,
    )
    plain = copy(model)  # the same weights, without the model's own penalties, forced tokens and samplers
    plain.generation_config = GenerationConfig()
    return plain.generate(**inputs, generation_config=how, logits_processor=[only_chosen], stopping_criteria=[stops])


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
