"""Options that verbs share which read people's labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cyclopts import Parameter

from ..integrations import Labels
from .messages import UsageError

if TYPE_CHECKING:
    from ..io.files import Source


@Parameter(name="*", group="labels")
@dataclass(frozen=True, kw_only=True)
class LabelOptions:
    """Where people's labels are, and what they mean."""

    labels: str | None = None
    "labels in a file of their own; the rows are then only scores"
    labels_from: Labels | None = None
    "the tool whose export --labels is (see `synthscore export`); human is then the mean rating"
    good_from: float | None = None
    "good is whose human is at least this (default: whose label is true)"

    def __post_init__(self) -> None:
        if self.labels_from and self.labels is None:
            raise UsageError("--labels-from says of which tool --labels FILE is: name that file too")

    def read(self, encoding: str) -> Source | None:
        """The file, or its rows where it is another tool's; None where labels are in the rows of scores."""
        from ..integrations.formats import read_form

        if self.labels is None or self.labels_from is None:
            return self.labels
        return list(read_form(self.labels, self.labels_from, encoding))
