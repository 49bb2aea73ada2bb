"""Texts that a judge has compared with all rungs before -> their paper scores, by one look into the store each.

Without it, each rung costs a prompt, its hash and its answer again, although nothing is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..engine import Engine, capabilities_of
from ..io.fields import Item
from ..judging.asking import Asking, mean_of_orders
from ..judging.labels import both_in_one
from ..signature import Signature
from ..store.engine import StoredVerdicts
from ..store.file import Store
from ..types import ChosenLadder, FloatArray, Score

Texts = Mapping[int, tuple[Item, ChosenLadder]]
WholeValues = Callable[[FloatArray], FloatArray | None]


_OF_LADDERS = ("references", "ladder", "ladders", "scoring", "rungs")
"""Parts of a signature that a text's key need not say: its ladder is in the key itself."""

N_BEGUN = 4096  # contexts whose part of the key is remembered


class WholeTextStore:
    """A store's verdicts on whole texts, of any judge and any way to ask."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._by_signature: dict[Signature, WholeTexts] = {}

    def texts(self, judge: Engine, asked: Signature, values: WholeValues, asking: Asking) -> WholeTexts:
        """As WholeTexts takes them; the same for every batch of rows."""
        if asked not in self._by_signature:
            self._by_signature[asked] = WholeTexts(self.store, judge, asked, values, asking)
        return self._by_signature[asked]


class WholeTexts:
    """The verdicts on whole texts that a store holds, of one judge that is asked in one way about one attribute.

    asked : the signature of the scores. values : as Scoring.whole_values; where it gives None, nothing is found or kept
    """

    def __init__(self, store: Store, judge: Engine, asked: Signature, values: WholeValues, asking: Asking) -> None:
        parts = {name: value for name, value in asked.parts if name not in _OF_LADDERS}
        how = Signature.of(**parts, min_mass=asking.min_mass, max_unreported=asking.max_unreported)
        self.values = values
        self.asking = asking
        self.read_only = store.read_only
        self._mean = mean_of_orders(judge)
        self._stored = StoredVerdicts(store, judge.signature, str(how))
        self._begun: dict[tuple[str, str, str], Any] = {}  # a ladder and a context -> what a key begins with
        in_words = capabilities_of(judge).answers == "words"  # whose number of samples would be lost
        self._usable = values(np.ones((0, 2, 3))) is not None and not in_words

    def find(self, texts: Texts, attribute: str) -> dict[int, Score]:
        """The scores of those that are stored, to the last bit as from their answers, but without verdicts.

        attribute : as it is scored
        """
        scores: dict[int, Score] = {}
        if not self._usable:
            return scores
        for n_rungs, keys in self._keys(texts).items():
            verdicts = self._stored.get_many(list(keys.values()), n_rungs, self.asking.n_orders)
            hits = [index for index, key in keys.items() if key in verdicts]
            if not hits:
                continue
            stored = np.stack([verdicts[keys[index]] for index in hits])
            by_order = np.ascontiguousarray(np.moveaxis(stored, 2, 0))
            values = self.values(both_in_one(by_order, self.asking.protocol, self._mean))
            assert values is not None
            details = {"n_rungs": float(n_rungs)}
            for index, value in zip(hits, values.tolist(), strict=True):
                if np.isnan(value):  # orders that exclude each other, which an earlier version averaged: asked anew
                    continue
                item, _ = texts[index]
                scores[index] = Score(
                    id=item.id,
                    context_id=item.context_id,
                    attribute=attribute,
                    value=value,
                    n_comparisons=n_rungs,
                    details=details,
                )
        return scores

    def keep(self, texts: Texts, scores: Mapping[int, Score]) -> None:
        """Store the verdicts that the scores were computed from, where anything can be stored."""
        if self.read_only or not self._usable:
            return
        for n_rungs, keys in self._keys(texts).items():
            by_key = {key: scores[index] for index, key in keys.items()}
            self._stored.put_many(by_key, n_rungs, self.asking.n_orders)

    def _keys(self, texts: Texts) -> dict[int, dict[int, bytes]]:
        """Number of rungs -> index of a text -> its key."""
        keys: dict[int, dict[int, bytes]] = {}
        for index, (item, chosen) in texts.items():
            ladder = chosen.ladder
            context = chosen.context
            names = (ladder.context_id, context.text, context.facts)
            if names not in self._begun:
                if len(self._begun) == N_BEGUN:  # as many contexts as there are texts, on a shared ladder
                    self._begun.clear()
                self._begun[names] = self._stored.begun(ladder, context)
            key = StoredVerdicts.key(self._begun[names], item.require_target().text)
            keys.setdefault(ladder.n_rungs, {})[index] = key
        return keys
