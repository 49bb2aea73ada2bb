"""A target on its ladder, and its pairs with the rungs: what every scoring starts from."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from ..judging.verdicts import Verdicts
from ..types import Ladder, Score, Target, Verdict

UNREPORTED = "the server did not report all labels"


@dataclass(frozen=True, slots=True)
class OnLadder:
    """pairs : indices among the pairs of a call, one a rung that has a text, worst first"""

    target: Target
    ladder: Ladder
    pairs: range

    @property
    def levels(self) -> list[int]:
        """Of the rungs that have a text, 1..N; as `pairs`."""
        return [rung.level for rung in self.ladder.usable]

    def verdicts(self, verdicts: Verdicts) -> tuple[Verdict, ...]:
        """On the target, by rung and order, as far as there are any."""
        return tuple(
            Verdict(level, bool(order), *probs)
            for pair, level in zip(self.pairs, self.levels, strict=True)
            for order, probs in enumerate(verdicts.by_order[:, pair].tolist())
            if not np.isnan(probs[0])
        )

    def missing(self, verdicts: Verdicts, known: Collection[int]) -> list[str]:
        """Why rungs have no verdict, one reason each. known : levels that have. What was not asked has no reason"""
        pair_of = dict(zip(self.levels, self.pairs, strict=True))
        reasons = []
        for rung in self.ladder.rungs:
            if rung.level not in known and rung.status == "failed":
                reasons.append(f"rung {rung.level} has no text: {rung.reason}")
            elif rung.level not in known and pair_of[rung.level] in verdicts.failures:
                reasons.append(f"rung {rung.level}: {verdicts.failures[pair_of[rung.level]]}")
        return reasons


def unscored(target: Target, attribute: str, reason: str, details: Mapping[str, float] | None = None) -> Score:
    """The score of a target that has none."""
    return Score(target.id, target.context_id, attribute, None, status="unscored", reason=reason, details=details or {})
