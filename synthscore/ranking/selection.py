"""Which questions a judge is asked about candidates: a choice that can be named, checked and signed."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import InputError

DESIGNS = ("all", "random", "no-repeat", "symmetric", "greedy")
_EITHER = ("all", "greedy")  # ask about a pair in one order or in both


@dataclass(frozen=True, slots=True)
class Selection:
    """Which questions are asked about the candidates of each ranking.

    design : "all" pairs; "greedy": those that tell most; "random": any calls; random pairs in one order, "no-repeat",
        or both, "symmetric" (see designs). Default: "greedy" with a budget, else "all"
    budget : questions; a pair in both orders is two
    orders : in which a pair is asked, "both" or "one"; of all and greedy (default: both)
    seed : of what is drawn
    raises : InputError for settings that contradict each other
    """

    design: str = ""
    budget: int | None = None
    orders: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.design:
            object.__setattr__(self, "design", "all" if self.budget is None else "greedy")
        name, budget = self.design, self.budget
        wrong = {
            f"design is {name!r}, expected one of {', '.join(DESIGNS)}": name not in DESIGNS,
            f"orders is {self.orders!r}, expected one of both, one": self.orders not in (None, "both", "one"),
            "design=all asks all that it needs: leave the budget out": name == "all" and budget is not None,
            f"design={name} needs a number of calls: give it a budget": name != "all" and budget is None,
            f"budget is {budget}, expected 1 or more": budget is not None and budget < 1,
            f"design={name} decides the orders itself: leave orders out": self.orders and name not in _EITHER,
            f"seed is {self.seed}, expected 0 or more": self.seed < 0,
        }
        for what, holds in wrong.items():
            if holds:
                raise InputError(f"cannot choose what to ask: {what}")

    @property
    def both_orders(self) -> bool:
        """Whether each pair is asked about in both."""
        default = "both" if self.design in ("symmetric", "all", "greedy") else "one"
        return (self.orders or default) == "both"

    def __str__(self) -> str:
        """For signatures."""
        budget = "" if self.budget is None else f",budget={self.budget}"
        return f"{self.design}{budget},{'both-orders' if self.both_orders else 'one-order'},seed={self.seed}"
