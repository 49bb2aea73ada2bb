"""Options as they are written behind a name, "g-eval:samples=20,seed=1", and the values that they stand for."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

from ..errors import InputError


class Span(NamedTuple):
    """The numbers that an option takes, both ends included."""

    low: float
    high: float = math.inf


Count = Annotated[int, Span(1)]
Seed = Annotated[int, Span(0)]
Share = Annotated[float, Span(0, 1)]


def given_options(text: str, known: Iterable[str] | None = None) -> dict[str, str]:
    """Of "decisions=per_call,prior=none", the value of each name. known : the names there are. raises : InputError"""
    options: dict[str, str] = {}
    if not text:
        return options
    for part in text.split(","):
        name, _, value = (piece.strip() for piece in part.partition("="))
        if not (name and value) or name in options or (known is not None and name not in known):
            problem = repr(part)
            if name in options:
                problem = f"{name!r} twice"
            expected = "options as NAME=VALUE, each once"
            if known is not None:
                expected += f", out of: {', '.join(known) or 'none'}"
            raise InputError(f"it says {problem}. Expected {expected}", value=text)
        options[name] = value
    return options


def read_option(name: str, kind: Any, text: str) -> object:
    """The value of an option. kind : its type. raises : InputError"""
    if type(None) in get_args(kind):  # no value is what it has without being named
        kind = next(inner for inner in get_args(kind) if inner is not type(None))
    span = Span(-math.inf)
    if get_origin(kind) is Annotated:
        kind, span = get_args(kind)
    if get_origin(kind) is Literal or kind is bool:
        choices: Mapping[str, object] = {choice: choice for choice in get_args(kind)} or {"yes": True, "no": False}
        if text in choices:
            return choices[text]
        expected = f"one of {', '.join(choices)}"
        if kind is bool:
            expected = "yes or no"
    elif kind not in (int, float):
        return kind(text)
    else:
        with suppress(ValueError):
            if span.low <= (number := kind(text)) <= span.high and math.isfinite(number):
                return number
        expected = {int: "a whole number", float: "a number"}[kind] + _words(span)
    raise InputError(f"{name} is {text!r}, expected {expected}. Change it", value=text)


def _words(span: Span) -> str:
    if span.high < math.inf:
        return f" from {span.low:g} to {span.high:g}"
    if span.low > -math.inf:
        return f" of {span.low:g} or more"
    return ""
