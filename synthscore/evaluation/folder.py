"""The folder of a run: scores/METHOD.jsonl, ratings.jsonl, evaluation.json. `synthscore report` reads it, and the next
run goes on from it: scores are read back where nothing that they depend on has changed.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .._version import __version__
from ..io.fields import Row
from ..io.files import read_rows
from ..io.scores import Scores, score_row
from ..io.write import plain, replacing, write_rows
from ..resources import resource
from ..signature import text_hash
from .methods.base import Tools
from .ratings.types import Ratings
from .result import Evaluation

Rows = Sequence[Mapping[str, Any]]


class RunFolder:
    """Where a run writes, and what of an earlier run still holds.

    Scores hold as long as the ratings' texts and numbers, the judge, the ladders, the templates and the version of this
    package are the same, and every text was scored: what failed is tried again. Into folders that a method's options
    name, nobody looks: remove its file of scores where one has changed.
    """

    def __init__(self, path: Path, ratings: Ratings) -> None:
        self.path = path
        self._task = ratings.task
        self._ids = [text.id for text in ratings]
        self._ratings = ratings_hash(ratings)
        self._rows: dict[str, dict[str, Rows]] = {}  # method -> attribute -> rows
        write_rows(_rating_rows(ratings), path / "ratings.jsonl")

    def state(self, tools: Tools) -> str:
        """What scores depend on, beside their method and attribute."""
        return text_hash(self._ratings, _tools_hash(tools, self._task), __version__)

    def scores(self, method: str, attribute: str, state: str) -> Rows | None:
        """The rows of an earlier run, where they hold."""
        if "file:" in method:  # the file may have changed, and is read in no time
            return None
        rows = self._of(method, state).get(attribute, ())
        return rows if rows and all(row["status"] == "ok" for row in rows) else None

    def add(self, method: str, attribute: str, state: str, rows: Rows) -> None:
        """Write what a method says of an attribute beside what it says of the others."""
        held = self._of(method, state)
        held[attribute] = [{**row, "inputs": _inputs(method, attribute, state)} for row in rows]
        write_rows((row for of_attribute in held.values() for row in of_attribute), self._file(method))

    def write(self, evaluation: Evaluation) -> None:
        text = json.dumps(evaluation.to_json(), indent=1, ensure_ascii=False, allow_nan=False)
        with replacing(self.path / "evaluation.json") as file:
            file.write(text.encode() + b"\n")

    def _file(self, method: str) -> Path:
        """Named after the method; a name that is no file's name on every system gets a hash besides."""
        name = re.sub(r"[^\w.,+-]+", "_", method)[:100]
        return self.path / "scores" / (f"{name}.jsonl" if name == method else f"{name}-{text_hash(method)[:6]}.jsonl")

    def _of(self, method: str, state: str) -> dict[str, Rows]:
        """What the method's file holds, of each attribute for which it is still true."""
        if method not in self._rows:
            found: dict[str, list[Mapping[str, Any]]] = {}
            file = self._file(method)
            for row in read_rows(file) if file.exists() else ():
                if isinstance(row, Row):
                    found.setdefault(str(row.values.get("attribute")), []).append(row.values)
            self._rows[method] = {
                attribute: rows
                for attribute, rows in found.items()
                if {row.get("inputs") for row in rows} == {_inputs(method, attribute, state)}
                and [row.get("id") for row in rows] == self._ids
            }
        return self._rows[method]


def _inputs(method: str, attribute: str, state: str) -> str:
    return text_hash(method, attribute, state)[:12]


def score_rows(method: str, scores: Scores, ratings: Ratings, *, verdicts: bool) -> Iterator[dict[str, Any]]:
    """Rows of scores as `synthscore score` writes them, with the method and the system."""
    for score, text in zip(scores, ratings, strict=True):
        row = score_row(score, scores.signature, verdicts=verdicts and bool(score.verdicts))
        yield {"method": method, "id": row.pop("id"), "context_id": text.context_id, "system": text.system, **row}


def ratings_hash(ratings: Ratings) -> str:
    """12 hex digits that change with any text, context or rating."""
    contexts = [[c.id, c.text, c.facts, *c.references] for c in ratings.contexts.values()]
    return text_hash(json.dumps([list(_rating_rows(ratings)), contexts, ratings.task, dict(ratings.asked_as)]))[:12]


def _rating_rows(ratings: Ratings) -> Iterator[dict[str, Any]]:
    for text in ratings:
        row: dict[str, Any] = {"id": text.id, "context_id": text.context_id, "system": text.system, "text": text.text}
        row |= {"human": plain(text.human)}
        yield row | ({"human_raw": plain(text.annotators)} if text.annotators else {})


def _tools_hash(tools: Tools, task: str) -> str:
    """Changes with the judge, the ladders and the wording of any prompt, which a user's own task may have, too."""
    digest = hashlib.sha256()
    for root in (resource("prompts"), Path(tools.templates), Path(task or "-")):
        for file in sorted(root.rglob("*")) if root.is_dir() else ():
            if file.suffix in (".jinja", ".toml"):
                digest.update(str(file.relative_to(root)).encode() + b"\0" + file.read_bytes())
    judge = str(tools.judge.signature) if tools.judge else ""
    references = tools.references.hash if tools.references else ""
    return text_hash(judge, references, tools.templates, digest.hexdigest())
