"""What people said of texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from ...errors import InputError
from ...types import Context, FloatArray


@dataclass(frozen=True, slots=True)
class RatedText:
    """A text, and what people said of it. It may be empty: some systems wrote nothing, and people rated that.

    human : attribute -> mean rating, never rounded; without the attributes on which nobody rated it
    annotators : attribute -> the ratings of single people, where they are known
    """

    id: str
    context_id: str
    system: str
    text: str
    human: Mapping[str, float]
    annotators: Mapping[str, tuple[float, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ratings:
    """Texts with people's ratings, on one or more attributes: a benchmark, or a user's own.

    task : name of the task whose templates ask about these texts; "" where nothing is to be asked
    contexts : context id -> context; without those whose text is not known
    attributes : in the order in which tables show them
    scales : attribute -> (lowest, highest) possible rating
    asked_as : attribute -> the task's attribute of the same meaning, where their names differ
    source : what the ratings were read from, with a hash
    left_out : what the source holds that is not here, and why; one line a reason, with a count
    raises : InputError, for two texts of one id
    """

    name: str
    texts: tuple[RatedText, ...]
    attributes: tuple[str, ...]
    contexts: Mapping[str, Context] = field(default_factory=dict)
    task: str = ""
    scales: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    asked_as: Mapping[str, str] = field(default_factory=dict)
    source: str = ""
    left_out: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for text in self.texts:
            if text.id in seen:
                raise InputError(
                    f"{self.name}: two texts have the id {text.id!r}, expected each id once. Give each text an id of "
                    "its own, or each context and system one row",
                    value=text.id,
                )
            seen.add(text.id)

    def __len__(self) -> int:
        return len(self.texts)

    def __iter__(self) -> Iterator[RatedText]:
        return iter(self.texts)

    @property
    def context_ids(self) -> tuple[str, ...]:
        """Of each text."""
        return tuple(text.context_id for text in self.texts)

    @property
    def systems(self) -> tuple[str, ...]:
        """Of each text."""
        return tuple(text.system for text in self.texts)

    def human(self, attribute: str) -> FloatArray:
        """Mean rating of each text, shape (n_texts,); NaN where nobody rated it."""
        return np.array([text.human.get(attribute, np.nan) for text in self.texts], dtype=np.float64)
