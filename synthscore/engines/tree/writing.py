"""Prompts -> texts, by transformers' own generation, many side by side, each drawn with its own seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np
import torch
from transformers import GenerationConfig

from ...engine import Generation, Sampling
from ...errors import EngineError
from ...types import BoolArray
from ..local import NOT_NUMBERS, TokenIds


def batches(prompts: Sequence[TokenIds], n_rows: Callable[[int], int]) -> Iterator[list[int]]:
    """Which prompts to read side by side: those of similar length, the longest first, because memory fails early.

    n_rows : tokens of the longest -> how many
    """
    order = sorted(range(len(prompts)), key=lambda row: -len(prompts[row]))
    while order:
        n = max(1, n_rows(len(prompts[order[0]])))
        yield order[:n]
        order = order[n:]


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

    def choose(logits: torch.Tensor) -> list[int]:
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

    generate(model, inputs, max(limits), choose, lambda: np.array([row in results for row in range(len(seeds))]))
    return [results[row] for row in range(len(seeds))]


def side_by_side(prompts: Sequence[TokenIds], *, left: bool) -> dict[str, Any]:
    """Padded on the left or the right, with a mask; None where there is no padding, for then attention is faster."""
    lengths = torch.tensor([[len(prompt)] for prompt in prompts])
    width = int(lengths.max())
    missing = [(width - len(prompt), 0) if left else (0, width - len(prompt)) for prompt in prompts]
    ids = np.stack([np.pad(prompt, n) for prompt, n in zip(prompts, missing, strict=True)]).astype(np.int64)
    places = torch.arange(width)
    mask = places >= width - lengths if left else places < lengths
    return {"input_ids": torch.from_numpy(ids), "attention_mask": None if mask.all() else mask.long()}


@torch.inference_mode()
def generate(
    model: Any,
    inputs: Mapping[str, Any],
    n_tokens: int,
    choose: Callable[[torch.Tensor], list[int]],
    ended: Callable[[], BoolArray],
) -> None:
    """Transformers' generate, of n_tokens at most.

    choose : logits -> the next token of each row. ended : which rows are
    """

    def only_chosen(ids: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
        tokens = torch.tensor(choose(logits), device=logits.device)
        return torch.full_like(logits, -torch.inf).scatter_(1, tokens[:, None], 0.0)

    def stops(ids: torch.Tensor, scores: object, **_: object) -> torch.Tensor:
        return torch.from_numpy(ended()).to(ids.device)

    inputs = {name: each.to(model.device) for name, each in inputs.items() if each is not None}
    start = inputs["decoder_input_ids"][0, 0].item() if "decoder_input_ids" in inputs else None
    how = GenerationConfig(max_new_tokens=n_tokens, do_sample=False, decoder_start_token_id=start)
    plain = copy(model)  # the same weights, without the model's own penalties, forced tokens and samplers
    plain.generation_config = GenerationConfig()
    plain.generate(**inputs, generation_config=how, logits_processor=[only_chosen], stopping_criteria=[stops])


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
