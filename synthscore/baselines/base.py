"""A method is anything that gives each text a number: a judge in some protocol, a metric, a count of words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from ..engines.base import Engine
from ..errors import SynthscoreError
from ..ratings.types import Ratings
from ..references import References
from ..types import Scores


class MethodError(SynthscoreError):
    """A method that is not known, or that lacks something: a judge, ladders, references by people, a package."""


@dataclass(frozen=True, slots=True)
class Tools:
    """What methods may ask for.

    judge : the model that is asked, behind its store. references : ladders. templates : a set, or a folder
    """

    judge: Engine | None = None
    references: References | None = None
    templates: str = "default"


class Method(Protocol):
    """Scores of all texts on one attribute, in the order of ratings.texts; higher is better.

    A text that cannot be scored is unscored, with the reason; it is never left out.
    raises : MethodError where nothing can be scored at all
    """

    def __call__(self, ratings: Ratings, attribute: str, tools: Tools) -> Scores: ...


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of method, as it is listed and made: "g-eval", or "g-eval:samples=20" with an option.

    make : keyword options -> the method. summary : one line for a list. uses : what of Tools it needs
    """

    make: Callable[..., Method]
    summary: str
    uses: tuple[str, ...] = ()
    options: Mapping[str, Callable[[str], object]] | None = None  # name -> parser of its text
