"""`synthscore schema`: what the columns of a kind of row are, as JSON Schema."""

from __future__ import annotations

import json
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

Kind = Literal["target", "context", "score", "ranking", "comparison", "ladder"]

_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", NoneType: "null"}
_DETAILS = [
    "raw",
    "unit",
    "label_mass",
    "n_rungs",
    "extrapolated",
    "questions",
    "questions_full",
    "met",
    "disagreement",
]


def schema(kind: Kind, /) -> int:
    """The columns of a kind of row, as JSON Schema.

    For example:
      $ synthscore schema score > score.schema.json

    Prints a JSON Schema (draft 2020-12) of a row that commands read (target, context) or write (score, ranking,
    comparison, and ladder: a rung, in ladders.parquet). It comes from the nouns and tables that rows are made of.
    Columns that it does not name are allowed: they are your own.

    Args:
        kind: of row
    """
    print(json.dumps(row_schema(kind), indent=1))
    return 0


def row_schema(kind: Kind) -> dict[str, Any]:
    """Of a row as JSON."""
    about, columns, optional = _rows()[kind]
    known: dict[str, Any] = {"required": [name for name in columns if name not in optional]}
    if kind in ("target", "context"):  # whose columns may have one of two names
        known["anyOf"] = [{"required": [name]} for name in optional[:2]]
    found = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": kind, "description": about}
    return {**found, "type": "object", "properties": {name: _of(hint) for name, hint in columns.items()}, **known}


def _rows() -> dict[Kind, tuple[str, dict[str, Any], list[str]]]:
    """Of each kind: what a row is, its columns with their types, and which there need not be."""
    from ..ladders.release import COLUMNS, NEEDED, PROVENANCE
    from ..ranking.sets import LABELS
    from ..types import Context, Score, Target

    text, number = get_type_hints(Target), float | None
    context = {"context": str, "text": str, "context_id": str, **get_type_hints(Context), "references": list[str]}
    rung = {name: hint | None for name, hint in (COLUMNS | PROVENANCE | {"extra": str}).items()}
    score = {"score" if name == "value" else name: hint for name, hint in get_type_hints(Score).items()}
    score |= {"verdicts": list[list[float]], "signature": str, **dict.fromkeys(_DETAILS, number)}
    del score["details"]
    place = {name: score[name] for name in ("id", "context_id", "attribute", "score", "stderr", "reason", "signature")}
    place |= {"rank": number, "n_comparisons": float, "status": Literal["ok", "unconverged", "unscored"]}
    pair = {"first": str, "second": str, **dict.fromkeys(LABELS, float | Literal["-inf"]), "weight": float}
    pair |= {"context_id": str, "attribute": str, "signature": str}
    of = ["context_id", "attribute"]
    return {
        "target": (
            "a text to judge, with the id of its context or the context itself",
            text | dict.fromkeys(("context", "task", "attribute"), str),
            ["context_id", "context", "id", "system", "task", "attribute"],
        ),
        "context": ("what texts are written for", context, [*context]),
        "score": ("a text's score", score, ["verdicts", *_DETAILS]),
        "ranking": ("a candidate's place in an order", place | {"disagreement": number}, [*of, "disagreement"]),
        "comparison": ("what a judge answered about two texts: log-probabilities, nats", pair, of),
        "ladder": ("a rung of a ladder", rung, [name for name in rung if name not in NEEDED]),
    }


def _of(hint: Any) -> dict[str, Any]:
    """A type, as JSON Schema says it."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"enum": list(inner)}
    if origin in (Union, UnionType):
        return {"anyOf": [_of(each) for each in inner]}
    if origin in (tuple, list):
        return {"type": "array", "items": _of(inner[0])}
    return {"type": _TYPES[hint]}
