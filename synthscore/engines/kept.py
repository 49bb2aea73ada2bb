"""Paragraphs that a model has read (isolated.py) -> their keys and values, kept for later calls.

What a paragraph is read as depends on what it sees alone, by which it is named (`Paragraph.key`). So a paragraph that
comes again need not be read again, where its keys and values are still there (`KeptStates`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

import torch

from ..types import IntArray

KEPT_BYTES = 2**28  # of keys and values: with nano those of 14,500 tokens, which is 20 contexts with their rungs
KEPT_KEYS = 2**16  # paragraphs that are remembered, with keys and values or without: 15 MB


@dataclass(frozen=True, slots=True, eq=False)
class Paragraph:
    """A paragraph of a sequence; or a piece of one that is longer than Marks.longest.

    part : what it is part of: SHARED, text 1 or 2, or CUE (isolated.py)
    ids : int64, shape (n_tokens,)
    sees : keys of the paragraphs before it that it sees
    key : hash of its tokens, its part and `sees`: two paragraphs with one key get the same states
    """

    part: int
    ids: IntArray
    sees: tuple[bytes, ...]
    key: bytes


Paragraphs = Sequence[Paragraph]


class KeptStates:
    """The states of paragraphs that were met before: their keys and values in all layers, shape (n_layers, 2, n_heads,
    n_tokens, size), by Paragraph.key. Such are a context and its rungs, which later calls ask about with other texts.
    Safe to use from several threads.

    A paragraph's states are kept when it is read for the second time, so that texts which come once take no memory. The
    paragraphs met longest ago are given up beyond KEPT_BYTES of states, or KEPT_KEYS paragraphs.
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
    """Each weight, and how often torch has counted that it was changed in place. As long as they are held, no other
    weights can come to lie at their address."""
    return [(weights.detach(), weights._version) for weights in model.parameters()]
