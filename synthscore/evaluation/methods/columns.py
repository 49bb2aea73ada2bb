"""A column of scores out of a file -> a method: what any other tool said of the texts, in the same tables.

    file:PATH                          columns score, id or context_id and system, and attribute
    file:PATH:score=COLUMN,id=COLUMN   where they have other names

Rows without a column attribute count on every attribute. Higher is better: `zsum(-1*file:PATH)` turns a column round.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..._version import __version__
from ...errors import InputError
from ...io.scores import Scores
from ...signature import Signature
from ..ratings.join import Joined, join
from ..ratings.types import Ratings
from .base import Method, MethodError, Tools, scored

COLUMNS = ("score", "id", "context_id", "system", "attribute")


def column(said: str) -> Method:
    """The method of a spec's text behind "file:".

    raises : MethodError for a path that is no file, or an option that is not there
    """
    path, options = re.fullmatch(r"(.*?)(?::(\w+=.*))?", said.strip(), re.DOTALL).groups()  # type: ignore[union-attr]
    fields = {}
    for option in options.split(",") if options else ():
        name, _, theirs = (part.strip() for part in option.partition("="))
        if name not in COLUMNS or not theirs or name in fields:
            raise MethodError(
                f"cannot read file:{said}: it says {option!r}, expected NAME=COLUMN, each name once, out of: "
                f"{', '.join(COLUMNS)}",
                spec=f"file:{said}",
            )
        fields[name] = theirs
    if not Path(path).is_file():
        raise MethodError(
            f"cannot read the scores file:{said}: there is no file {path!r}. Check the path", spec=f"file:{said}"
        )
    return FileColumn(Path(path), fields)


@dataclass(frozen=True, slots=True)
class FileColumn:
    """Scores out of a file. fields : our name -> the file's column, where they differ

    raises : InputError where two rows are about one text and attribute, or none is about a rated text
    """

    path: Path
    fields: Mapping[str, str]

    def __call__(self, ratings: Ratings, attribute: str, tools: Tools) -> Scores:
        found = join(ratings, self.path, fields=self.fields, attribute=attribute)
        if attribute not in found.values:
            raise MethodError(
                f"{self.path} holds no scores on {attribute}, only on {', '.join(found.values)}. Leave it or the "
                "file out",
                attribute=attribute,
            )
        return scored(ratings, attribute, self._of_each(ratings, attribute, found), self._signed(attribute, found))

    def _of_each(self, ratings: Ratings, attribute: str, found: Joined) -> Iterator[float | str]:
        lost = f"no row of {self.path.name} is about this text"
        if found.unmatched_scores:
            lost += (
                f"; {len(found.unmatched_scores)} are about none that was rated, such as {found.unmatched_scores[0]}"
            )
        if found.errors:
            lost += f"; {len(found.errors)} hold no score, such as: {found.errors[0]}"
        without = set(found.without_score[attribute])
        for text, value in zip(ratings, found.values[attribute].tolist(), strict=True):
            yield lost if text.id in without else found.unscored[attribute].get(text.id, value)

    def _signed(self, attribute: str, found: Joined) -> Signature:
        """The file's hash and, where its rows have one signature, the parts of that: file.model:..."""
        digest = hashlib.sha256(self.path.read_bytes()).hexdigest()[:12]
        parts = Signature.of(
            synthscore=__version__, method="file", file=f"{self.path.name}@{digest}", **self.fields
        ).parts
        try:
            (line,) = found.signatures[attribute]
            parts += tuple((f"file.{key}", value) for key, value in Signature.parse(line).parts)
        except (ValueError, InputError):  # none, several, or not ours: the file's hash stands for them
            pass
        return Signature(parts)
