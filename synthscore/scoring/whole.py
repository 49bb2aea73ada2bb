"""Texts that a judge has compared with all rungs before -> their paper scores, by one look into the store each.

Without it, each rung costs a prompt, its hash and its answer again, although nothing is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..engine import Engine
from ..judging.asking import ProtocolName, both_in_one
from ..signature import Signature
from ..store.engine import StoredVerdicts
from ..store.file import Store
from ..types import FloatArray, Ladder, Score, Target
from .paper import paper_sum, rung_equivalent
from .scorer import Scorer


def paper_values(probs: FloatArray, protocol: ProtocolName) -> FloatArray:
    """Scores as Paper computes them. probs : of each rung in each order, shape (n_targets, n_rungs, n_orders, 3)"""
    together = both_in_one(np.ascontiguousarray(np.moveaxis(probs, 2, 0)), protocol)
    return rung_equivalent(paper_sum(together[..., 0], together[..., 1]), probs.shape[1])


class Wanted(NamedTuple):
    """A target, its ladder, which carries its context, and who would ask about them."""

    target: Target
    ladder: Ladder
    scorer: Scorer


class WholeTexts:
    """The verdicts on whole texts that a store holds, of one judge."""

    def __init__(self, store: Store, judge: Engine) -> None:
        self.store, self.judge = store, judge
        self._signatures: dict[Scorer, tuple[Signature, StoredVerdicts]] = {}
        self._begun: dict[tuple[Scorer, str], Any] = {}  # scorer, context -> what a key's hash begins with

    def find(self, wanted: Mapping[int, Wanted]) -> dict[int, tuple[Score, Signature]]:
        """The scores of those that are stored, to the last bit as from their answers, without details and verdicts."""
        found = {}
        for (scorer, n_rungs), keys in self._keys(wanted).items():
            signature, stored = self._stored(scorer)
            verdicts = stored.get_many(list(keys.values()), n_rungs, scorer.asking.n_orders)
            hits = [index for index, key in keys.items() if key in verdicts]
            if not hits:
                continue
            values = paper_values(np.stack([verdicts[keys[index]] for index in hits]), scorer.asking.protocol)
            for index, value in zip(hits, values.tolist(), strict=True):
                target = wanted[index].target
                score = Score(target.id, target.context_id, scorer.attribute, value, n_comparisons=n_rungs)
                found[index] = score, signature
        return found

    def keep(self, wanted: Mapping[int, Wanted], scores: Mapping[int, Score]) -> None:
        """Store the verdicts that the scores were computed from, where anything can be stored."""
        if self.store.read_only:
            return
        for (scorer, n_rungs), keys in self._keys(wanted).items():
            by_key = {key: scores[index] for index, key in keys.items()}
            self._stored(scorer)[1].put_many(by_key, n_rungs, scorer.asking.n_orders)

    def _keys(self, wanted: Mapping[int, Wanted]) -> dict[tuple[Scorer, int], dict[int, bytes]]:
        keys: dict[tuple[Scorer, int], dict[int, bytes]] = {}
        for index, (target, ladder, scorer) in wanted.items():
            at = scorer, ladder.context_id
            if at not in self._begun:
                self._begun[at] = self._stored(scorer)[1].begun(ladder)
            keys.setdefault((scorer, ladder.n_rungs), {})[index] = StoredVerdicts.key(self._begun[at], target.text)
        return keys

    def _stored(self, scorer: Scorer) -> tuple[Signature, StoredVerdicts]:
        if scorer not in self._signatures:
            signature, asking = scorer.signature, scorer.asking
            parts = {name: value for name, value in signature.parts if name not in ("references", "scoring")}
            asked = Signature.of(**parts, min_mass=asking.min_mass, max_unreported=asking.max_unreported)
            self._signatures[scorer] = signature, StoredVerdicts(self.store, self.judge.signature, str(asked))
        return self._signatures[scorer]
