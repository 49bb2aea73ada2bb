"""A column of scores out of a file, so that what any other tool gives the texts stands in the same tables.

    file:PATH                          columns score, id or context_id and system, and attribute
    file:PATH:score=COLUMN,id=COLUMN   where they have other names

Rows without a column attribute count on every attribute. A higher score is better.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from pathlib import Path

from ...io.scores import Scores
from ...scoring.method import MethodError, Tools
from ...scoring.methods import MethodKind
from ...signature import Signature, file_hash
from ..join import NO_ROW, join
from ..ratings import Ratings
from .base import SetMethod, scored, signed


def file_column(name: str) -> SetMethod:
    """The method of a spec's text behind "file:".

    raises : MethodError for a path that is no file, or an option that is not there
    """
    path, options = re.fullmatch(r"(.*?)(?::(\w+=.*))?", name.strip(), re.DOTALL).groups()  # type: ignore[union-attr]
    if not Path(path).is_file():
        raise MethodError(
            f"cannot read the scores file:{name}: there is no file {path!r}. Check the path", spec=f"file:{name}"
        )
    column: SetMethod = MethodKind(partial(_file, Path(path)), "").make_method(f"file:{name}", options or "")
    return column


def _file(
    path: Path,
    score: str = "score",
    id: str = "id",
    context_id: str = "context_id",
    system: str = "system",
    attribute: str = "attribute",
) -> SetMethod:
    """Signed with the file's hash and, where its rows have one signature, the parts of that: file.model:...

    raises : InputError where two rows are about one text and attribute, or none is about a rated text
    """
    given = {"score": score, "id": id, "context_id": context_id, "system": system, "attribute": attribute}
    fields = {name: column for name, column in given.items() if column != name}

    def column(ratings: Ratings, attribute: str, tools: Tools) -> Scores:
        joined = join(ratings, path, fields=fields, attribute=attribute)
        if attribute not in joined.scores:
            raise MethodError(
                f"{path} holds no scores on {attribute}, only on {', '.join(joined.scores)}. Leave it or the file out",
                attribute=attribute,
            )
        scores = joined.scores[attribute]
        why_lost = "; ".join([NO_ROW, *joined.left_out])
        rows = [replace(score, reason=why_lost) if score.reason == NO_ROW else score for score in scores]
        parts = signed(method="file", file=f"{path.name}@{file_hash(path)}", **fields).parts
        if not scores.signature.mixed:
            parts += tuple((f"file.{key}", value) for key, value in scores.signature.parts)
        return scored(ratings, attribute, rows, Signature(parts))

    return column
