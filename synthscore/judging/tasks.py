"""prompts/<task>/task.toml -> Task. A user's own task is a folder with a task.toml, maybe with templates."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ..errors import TaskError
from ..resources import read_toml, resource
from ..types import Attribute, Task

_REQUIRED = ("name", "context_noun", "text_noun", "texts_noun", "length")
_OPTIONAL = ("facts_noun", "paper_context", "max_new_tokens", "words")


def task_names() -> list[str]:
    """The built-in tasks."""
    return sorted(path.parent.name for path in resource("prompts").glob("*/task.toml"))


def load_task(name: str | Path) -> Task:
    """A built-in task by name, or a user's own by the path of its folder.

    raises : TaskError for a name that is neither, a task.toml that does not parse, or a key that is missing or unknown.
    """
    own = str(name) not in task_names()
    folder = Path(name) if own else resource("prompts") / name
    file = folder / "task.toml"
    if not os.path.isfile(file):  # also of a name that is longer than any file's
        raise TaskError(
            f"no task {str(name)!r}: it is neither one of {', '.join(task_names())} nor a folder with a task.toml",
            task=str(name),
        )
    try:
        table = read_toml(file)
    except ValueError as error:
        raise TaskError(f"{file} does not parse as TOML: {error}") from error
    return _task(table, file, str(folder.resolve()) if own else "")


def _task(table: dict[str, Any], file: Path, folder: str) -> Task:
    attributes = table.pop("attributes", None)
    if not isinstance(attributes, dict):
        raise TaskError(f"{file}: expected at least one [attributes.NAME] table")
    _check_keys(table, _REQUIRED, _OPTIONAL, str(file))
    made = {}
    for name, fields in attributes.items():
        _check_keys(fields, ("description", "more", "better", "worse"), (), f"{file} [attributes.{name}]")
        made[name] = Attribute(name=name, **fields)
    return Task(attributes=made, folder=folder, **table)


def _check_keys(table: Any, required: tuple[str, ...], optional: tuple[str, ...], where: str) -> None:
    if not isinstance(table, dict):
        raise TaskError(f"{where}: expected a table, got {table!r}")
    missing = [key for key in required if key not in table]
    unknown = [key for key in table if key not in required + optional]
    if missing or unknown:
        raise TaskError(
            f"{where}: missing {missing}, unknown {unknown}. It must have {', '.join(required)}"
            + (f" and may have {', '.join(optional)}" if optional else "")
        )
