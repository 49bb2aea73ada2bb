"""What one command's models take, in tokens and in money, and when it has asked enough."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ..errors import InputError, Unasked, unusable, why_unreadable
from ..resources import read_toml
from ..signature import Signature
from ..types import Usage
from .runs import Spent

_PER = 1e6  # tokens that a price is of


@dataclass(frozen=True, slots=True)
class Price:
    """Of a million tokens: read, read from a cache, written (reasoning included). In any one currency."""

    read: float
    cached: float
    written: float

    def cost(self, usage: Usage) -> float:
        n_read = usage.n_in - usage.n_cached
        return (n_read * self.read + usage.n_cached * self.cached + usage.n_out * self.written) / _PER


@dataclass(frozen=True, slots=True)
class Prices:
    """The user's own prices, by model. source : the file"""

    by_model: Mapping[str, Price]
    source: str

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Prices:
        """From TOML or JSON: {MODEL: {in: .., out: .., cached: ..}}; without cached, that is as dear as in.

        raises : InputError, with the model and what is wrong
        """
        source = str(path)
        try:
            file = Path(path)
            models = json.loads(file.read_text(encoding="utf-8")) if file.suffix == ".json" else read_toml(file)
        except (OSError, ValueError) as error:  # TOML's and JSON's errors are ValueErrors, and so is UnicodeDecodeError
            message = f"cannot read the prices {source}: {why_unreadable(error)}. Mend it, or name another file"
            raise InputError(message, source=source) from None
        if not isinstance(models, dict) or not models:
            raise _wrong(source, "it", models, "a table for each model")
        return cls({name: _price(source, name, numbers) for name, numbers in models.items()}, source)

    def price_of(self, *names: str) -> Price:
        """The price of a model that may have any of these names. raises : InputError where none has a price"""
        price = next((self.by_model[name] for name in names if name in self.by_model), None)
        if price is None:
            raise InputError(
                f"{self.source} has no price of {names[0]!r}, only of {', '.join(self.by_model)}. Add a table of that "
                "name",
                source=self.source,
                value=names[0],
            )
        return price


def _price(source: str, name: str, numbers: Any) -> Price:
    """raises : InputError for what is no price"""
    names = {"in", "cached", "out"}
    if not isinstance(numbers, dict) or not set(numbers) <= names or not {"in", "out"} <= set(numbers):
        raise _wrong(source, name, numbers, "the numbers in and out, and maybe cached")
    for which, value in numbers.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 <= value < math.inf:
            raise _wrong(source, f"{name}: {which}", value, "the price of a million tokens, 0 or more")
    read: float = numbers["in"]
    return Price(read=read, cached=numbers.get("cached", read), written=numbers["out"])


def _wrong(source: str, what: str, value: object, expected: str) -> InputError:
    message = f"in the prices {source}, {what} is {value!r:.80}, expected {expected}. Mend the file"
    return InputError(message, source=source, value=value)


class Spender(Protocol):
    """An engine that counts. spent : what was asked, and what it took. n_kept : answers stored"""

    n_kept: int

    @property
    def spent(self) -> Spent: ...


class Budget:
    """What the engines of one command took so far, and whether they may go on.

    prices : None: not known
    max_questions : the most that may be asked by this command
    max_cost : in the currency of the prices; replies that are on their way when it is reached are paid, too
    """

    def __init__(
        self, prices: Prices | None = None, *, max_questions: int | None = None, max_cost: float | None = None
    ) -> None:
        if max_cost is not None and prices is None:
            raise unusable("max_cost", max_cost, "prices beside it", "Name a file of prices")
        self.prices = prices
        self.max_questions = max_questions
        self.max_cost = max_cost
        self._engines: list[tuple[Spender, Price | None]] = []

    def watch(self, engine: Spender, *names: str) -> None:
        """Count what an engine takes, of the model with these names. raises : InputError where that has no price"""
        price = self.prices.price_of(*names) if self.prices else None
        self._engines.append((engine, price))

    @property
    def n_asked(self) -> int:
        """Questions so far, answered or not."""
        return sum(engine.spent.n_asked for engine, _ in self._engines)

    @property
    def n_kept(self) -> int:
        """Answers that came now and are stored."""
        return sum(engine.n_kept for engine, _ in self._engines)

    @property
    def cost(self) -> float | None:
        """None where prices are not known."""
        if self.prices is None:
            return None
        return sum(self.cost_of(engine) or 0.0 for engine, _ in self._engines)

    def cost_of(self, engine: Spender) -> float | None:
        """Of one of the engines."""
        price = next((price for watched, price in self._engines if watched is engine), None)
        return None if price is None else price.cost(engine.spent.usage)

    @property
    def usage(self) -> Usage:
        return sum((engine.spent.usage for engine, _ in self._engines), Usage())

    def room(self, n: int) -> int:
        """How many of n questions may be asked."""
        if self._is_spent:
            return 0
        if self.max_questions is None:
            return n
        return min(n, max(self.max_questions - self.n_asked, 0))

    def require_more(self, n_unasked: int) -> None:
        """raises : Unasked, where the cost limit is reached, and questions of this call are left"""
        if n_unasked and self._is_spent:
            raise self.stop(n_unasked)

    def stop(self, n_unasked: int) -> Unasked:
        """Why so many questions of a call are not asked."""
        why = f"{self.max_questions} questions, as many as should be asked now at most"
        if self._is_spent:
            why = f"{self.cost:.4g} spent, by {self.prices.source if self.prices else ''}, of at most {self.max_cost:g}"
        return Unasked(
            f"{why}. {self.n_asked} were asked now, and what was answered is stored; at least {n_unasked} more are "
            "unasked. Run the same command again to go on",
            n_asked=self.n_asked,
            n_unasked=n_unasked,
        )

    @property
    def _is_spent(self) -> bool:
        return self.max_cost is not None and (self.cost or 0.0) >= self.max_cost


def model_names(signature: Signature, opened: str) -> list[str]:
    """What a model may be called in a file of prices: as it signs its answers, without the revision, and as it was
    opened, with and without a server's address."""
    signed = signature.part("model")
    return list(dict.fromkeys([signed, signed.partition("@")[0], opened.rpartition("#")[2], opened]))
