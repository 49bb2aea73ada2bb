"""Verdicts of a run -> does the judge say the same whatever it is shown?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ..types import Score

CONTRADICTIONS = 0.75
"""Share of contradictions from which a judge says the same whatever is shown."""

ENOUGH, NEARLY_ALL = 30, 0.98
"""Verdicts that are enough to speak of, and the share of them that is nearly all."""


@dataclass(slots=True)
class Leaning:
    """Counts of verdicts, added up a batch of scores at a time.

    n_both, n_contradicting : pairs asked in both orders, and those in which the judge said the same both times
    n_one, n_better, n_worse : pairs asked in one order, and what was said of the text
    """

    n_both: int = 0
    n_contradicting: int = 0
    n_one: int = 0
    n_better: int = 0
    n_worse: int = 0

    def add(self, scores: Iterable[Score]) -> None:
        for score in scores:
            signs: dict[int, dict[bool, float]] = {}
            for verdict in score.verdicts:
                signs.setdefault(verdict.level, {})[verdict.swapped] = float(np.sign(verdict.better - verdict.worse))
            for asked in signs.values():
                if len(asked) == 2:
                    self.n_both += 1
                    self.n_contradicting += asked[False] * asked[True] < 0
                elif False in asked:
                    self.n_one += 1
                    self.n_better += asked[False] > 0
                    self.n_worse += asked[False] < 0

    @property
    def words(self) -> str:
        """What speaks for a judge that says the same whatever it is shown; "" where nothing does, or verdicts are few.

        Of pairs asked in both orders: that it contradicts itself. In one order: that nearly all verdicts are the same,
        which may also be the texts.
        """
        if self.n_both >= ENOUGH and self.n_contradicting > CONTRADICTIONS * self.n_both:
            share = self.n_contradicting / self.n_both
            return (
                f"the judge contradicts itself in {share:.0%} of {self.n_both} pairs: asked about either text, it "
                "says the same, so that scores rest on small differences. See what it can with `synthscore doctor`"
            )
        for n_same, name in ((self.n_better, "better"), (self.n_worse, "worse")):
            if self.n_one >= ENOUGH and n_same >= NEARLY_ALL * self.n_one:
                return (
                    f"{n_same / self.n_one:.0%} of {self.n_one} verdicts find the text the {name} one: the texts are "
                    "beyond their ladders, or the judge says so whatever it is shown. Ask with --both-orders, or see "
                    "`synthscore doctor`"
                )
        return ""
