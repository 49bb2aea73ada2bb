"""Scores -> does the judge say the same whatever it is shown? From the verdicts that it gave anyway."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..types import Score

DROWNED = 0.75  # share of contradictions from which a judge says the same whatever is shown
ENOUGH, NEARLY_ALL = 30, 0.98  # verdicts that are enough to speak of, and the share of them that is nearly all


def leaning(scores: Iterable[Score]) -> str:
    """What speaks for a judge that says the same whatever it is shown; "" where nothing does, or verdicts are few.

    Of pairs asked in both orders: that it contradicts itself. In one order: that nearly all verdicts are the same,
    which may also be the texts.
    """
    contradicts: list[bool] = []
    alone: list[float] = []
    for score in scores:
        signs: dict[int, dict[bool, float]] = {}
        for verdict in score.verdicts:
            signs.setdefault(verdict.level, {})[verdict.swapped] = float(np.sign(verdict.better - verdict.worse))
        contradicts += [asked[False] * asked[True] < 0 for asked in signs.values() if len(asked) == 2]
        alone += [asked[False] for asked in signs.values() if list(asked) == [False]]
    if len(contradicts) >= ENOUGH and (share := float(np.mean(contradicts))) > DROWNED:
        return (
            f"the judge contradicts itself in {share:.0%} of {len(contradicts)} pairs: asked about either text, it "
            "says the same, so that scores rest on small differences. See what it can with `synthscore doctor`"
        )
    for sign, name in ((1, "better"), (-1, "worse")):
        if len(alone) >= ENOUGH and (share := float(np.mean(np.equal(alone, sign)))) >= NEARLY_ALL:
            return (
                f"{share:.0%} of {len(alone)} verdicts find the text the {name} one: the texts are beyond their "
                "ladders, or the judge says so whatever it is shown. Ask with --both-orders, or see `synthscore doctor`"
            )
    return ""
