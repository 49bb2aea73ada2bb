"""Texts that a judge has compared with all rungs before -> their paper scores, by one look into the store each.

Without it, each rung costs a prompt, its hash and its answer again, although nothing is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..judging.asking import Asking, ProtocolName, both_in_one
from ..signature import Signature
from ..store.engine import StoredVerdicts
from ..store.file import Store
from ..types import FloatArray, Ladder, Score, Target
from .paper import paper_sum, rung_equivalent

Texts = Mapping[int, tuple[Target, Ladder]]


def paper_values(probs: FloatArray, protocol: ProtocolName) -> FloatArray:
    """Scores as Paper computes them. probs : of each rung in each order, shape (n_targets, n_rungs, n_orders, 3)"""
    together = both_in_one(np.ascontiguousarray(np.moveaxis(probs, 2, 0)), protocol)
    return rung_equivalent(paper_sum(together[..., 0], together[..., 1]), probs.shape[1])


class WholeTexts:
    """The verdicts on whole texts that a store holds, of one judge that is asked in one way about one attribute.

    asked : the signature of the scores
    """

    def __init__(self, store: Store, judge: Signature, asked: Signature, asking: Asking) -> None:
        parts = {name: value for name, value in asked.parts if name not in ("references", "scoring")}
        how = Signature.of(**parts, min_mass=asking.min_mass, max_unreported=asking.max_unreported)
        self.asking, self.read_only = asking, store.read_only
        self._stored = StoredVerdicts(store, judge, str(how))
        self._begun: dict[str, Any] = {}  # context -> what a key's hash begins with

    def find(self, texts: Texts) -> dict[int, Score]:
        """The scores of those that are stored, to the last bit as from their answers, without details and verdicts."""
        found = {}
        for n_rungs, keys in self._keys(texts).items():
            verdicts = self._stored.get_many(list(keys.values()), n_rungs, self.asking.n_orders)
            if hits := [index for index, key in keys.items() if key in verdicts]:
                values = paper_values(np.stack([verdicts[keys[index]] for index in hits]), self.asking.protocol)
                for index, value in zip(hits, values.tolist(), strict=True):
                    target, ladder = texts[index]
                    names = target.id, target.context_id, ladder.attribute
                    found[index] = Score(*names, value, n_comparisons=n_rungs)
        return found

    def keep(self, texts: Texts, scores: Mapping[int, Score]) -> None:
        """Store the verdicts that the scores were computed from, where anything can be stored."""
        for n_rungs, keys in self._keys(texts).items() if not self.read_only else ():
            by_key = {key: scores[index] for index, key in keys.items()}
            self._stored.put_many(by_key, n_rungs, self.asking.n_orders)

    def _keys(self, texts: Texts) -> dict[int, dict[int, bytes]]:
        """By the length of the ladder."""
        keys: dict[int, dict[int, bytes]] = {}
        for index, (target, ladder) in texts.items():
            if ladder.context_id not in self._begun:
                self._begun[ladder.context_id] = self._stored.begun(ladder)
            key = StoredVerdicts.key(self._begun[ladder.context_id], target.text)
            keys.setdefault(ladder.n_rungs, {})[index] = key
        return keys
