"""How a BERT reads a plan: each token sees what the plan says (plan.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from transformers import AttentionInterface

from .plan import Marks, Plan

ATTENTION = "synthscore_apart"
N_QUERIES = 320  # of one block: few enough that most keys of other prompts are never touched

Block = tuple[int, int, torch.Tensor, torch.Tensor]
"""Queries from, to; their keys; what is added to the scores, shape (n_queries, n_keys)."""


def marks_of(config: Any, tokenizer: Any) -> Marks:
    """What a model's config.json says: {"synthscore": {"paragraph_end": .., "texts": [[..], [..]]}}."""
    marks = config.synthscore
    first, second = (frozenset(map(int, tokenizer.convert_tokens_to_ids(names))) for names in marks["texts"])
    end, colon = tokenizer.convert_tokens_to_ids([marks["paragraph_end"], ":"])
    return Marks(int(end), (first, second), int(colon))


def blocks_of(plans: Sequence[Plan], dtype: torch.dtype, device: Any = "cpu") -> list[Block]:
    """Of plans that stand side by side in one sequence."""
    blocks, offset = [], 0
    for each in plans:
        for start, stop, keys, seen in each.blocks(N_QUERIES):
            bias = torch.zeros(seen.shape, dtype=dtype).masked_fill_(torch.from_numpy(~seen), -1e9)
            blocks.append((offset + start, offset + stop, torch.from_numpy(keys + offset).to(device), bias.to(device)))
        offset += each.n_tokens
    return blocks


def attention(
    module: Any, query: Any, key: Any, value: Any, mask: None, scaling: float, *, blocks: Sequence[Block], **_: Any
) -> tuple[torch.Tensor, None]:
    """Block by block of queries, each with the keys that any of the block sees. Shapes (1, heads, n_tokens, size)."""
    outputs = []
    with torch.autocast(query.device.type, enabled=False):
        for start, stop, keys, bias in blocks:
            scores = (query[:, :, start:stop] * scaling) @ key[:, :, keys].transpose(2, 3)
            outputs.append((scores + bias).softmax(-1) @ value[:, :, keys])
    return torch.cat(outputs, dim=2).transpose(1, 2), None


AttentionInterface.register(ATTENTION, attention)


def states(model: Any, plans: Sequence[Plan], dtype: torch.dtype) -> torch.Tensor:
    """Last hidden states of plans side by side, in one forward, shape (n_tokens of all, hidden_size).

    model : a BertModel with the attention of this module. dtype : that it computes attention in
    """

    def joined(name: str) -> torch.Tensor:
        return torch.from_numpy(np.concatenate([getattr(each, name) for each in plans]))[None].to(model.device)

    found: torch.Tensor = model(
        input_ids=joined("ids"),
        position_ids=joined("positions"),
        token_type_ids=joined("kinds"),
        blocks=blocks_of(plans, dtype, model.device),
    ).last_hidden_state[0]
    return found
