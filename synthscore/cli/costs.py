"""What a command's models take: counted while it runs, stopped at a limit, and said in words."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

from .messages import PROGRESS_ENDS, UsageError, spaced

if TYPE_CHECKING:
    from ..store.budget import Budget

BUDGET: ContextVar[Budget | None] = ContextVar("synthscore_budget", default=None)
"""Of this command, with all models that it has opened; None where it has opened none."""


def command_budget(price: str | None, cost_limit: float | None, max_questions: int | None) -> Budget:
    """The one of this command. price : file of prices. raises : UsageError; InputError for what is wrong with them"""
    from ..store.budget import Budget, Prices

    budget = BUDGET.get()
    if budget is None:
        if cost_limit is not None and price is None:
            raise UsageError("--cost-limit needs --price: a file of your prices. Add it, or take --max-questions")
        prices = None if price is None else Prices.load(price)
        budget = Budget(prices, max_questions=max_questions, max_cost=cost_limit)
        BUDGET.set(budget)
        PROGRESS_ENDS.set(spent_so_far)
    return budget


def interrupted_line() -> str:
    """What is left of what was asked, when somebody stops the command."""
    budget = BUDGET.get()
    if budget is None or not budget.n_kept:
        return "interrupted, and no answer of this run is in a store. Run the same command again"
    are = "answer of this run is" if budget.n_kept == 1 else "answers of this run are"
    return f"interrupted. Run the same command again to go on: {spaced(budget.n_kept)} {are} in the store"


def spent_so_far() -> str:
    """For a line of progress: tokens, and what they cost; "" where nothing is known."""
    budget = BUDGET.get()
    if budget is None or not (budget.usage.n_in or budget.usage.n_out):
        return ""
    words = f"{_short(budget.usage.n_in)} in, {_short(budget.usage.n_out)} out"
    return words if budget.cost is None else f"{words}, cost {budget.cost:.4g}"


def _short(n: int) -> str:
    """1234567 -> 1.2M"""
    for unit, size in (("M", 1_000_000), ("k", 1_000)):
        if n >= size:
            return f"{n / size:.3g}{unit}"
    return str(n)
