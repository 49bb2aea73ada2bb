"""A task as files -> Task -> a task as one file. Knows nothing of prompts.

A folder holds task.toml, and may hold templates, each in a file NAME.jinja. A task.toml may also hold them itself, in a
table [templates]: so a task is one file, which appears whole or not at all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from ..errors import TaskError
from ..resources import parse_toml
from ..signature import text_hash
from ..types import Attribute, Task

TASK_FILE = "task.toml"
_REQUIRED = ("name", "context_noun", "text_noun", "texts_noun", "length")
_OPTIONAL = ("facts_noun", "paper_context", "max_new_tokens", "words", "labels", "yes_no")
_PHRASES = ("description", "more", "better", "worse")


def read_task_folder(folder: Path) -> Task:
    """A user's own task. raises : TaskError where its task.toml, or a template beside it, cannot be used"""
    beside = {file.stem: _read(file) for file in sorted(folder.glob("*.jinja")) if file.is_file()}
    return parse_task(_read(folder / TASK_FILE), folder / TASK_FILE, beside=beside, folder=str(folder.resolve()))


def _read(file: Path) -> str:
    """raises : TaskError"""
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise TaskError(f"{file} is not UTF-8: {error}. Save it as UTF-8") from error
    except OSError as error:
        raise TaskError(f"cannot read {file}: {error.strerror}. Check the file") from error


def parse_task(
    text: str, file: Path, *, beside: Mapping[str, str] | None = None, folder: str = "", carried_by: str = ""
) -> Task:
    """What a task.toml says.

    text : of the file. beside : name -> source of the templates in files of their own. folder, carried_by : as of Task
    raises : TaskError for what is no TOML, for a key that is missing or unknown, for a template that is there twice
    """
    try:
        table = parse_toml(text)
    except ValueError as error:
        hint = "" if text.isascii() else '. A name with other letters than a to z needs quotes: [attributes."größe"]'
        raise TaskError(f"{file} does not parse as TOML: {error}. Mend it{hint}") from error
    attributes = table.pop("attributes", None)
    if not isinstance(attributes, dict):
        raise TaskError(f"{file}: there is no attribute, expected at least one [attributes.NAME] table. Add one")
    templates = _templates(table.pop("templates", {}), file)
    if twice := sorted(templates.keys() & (beside or {}).keys()):
        raise TaskError(
            f"{file}: the template {twice[0]} is in [templates] and in {twice[0]}.jinja. Remove one of them"
        )
    _check_keys(table, _REQUIRED, _OPTIONAL, str(file))
    for name, phrases in attributes.items():
        _check_keys(phrases, _PHRASES, (), f"{file} [attributes.{name}]")
    all_templates = {**templates, **(beside or {})}
    try:
        made = {name: Attribute(name=name, **phrases) for name, phrases in attributes.items()}
        return Task(attributes=made, templates=all_templates, folder=folder, carried_by=carried_by, **table)
    except TaskError as error:
        raise TaskError(f"{file}: {error}. Mend the file") from error


def _templates(table: Any, file: Path) -> dict[str, str]:
    """raises : TaskError"""
    if not isinstance(table, dict):
        raise TaskError(f"{file}: templates is {table!r}, expected a table [templates]. Mend the file")
    for name, source in table.items():
        if not re.fullmatch(r"[\w-]+", name) or not isinstance(source, str):
            raise TaskError(
                f"{file} [templates]: {name!r} is {source!r:.60}, expected the name of a template and its text. Mend "
                "the file"
            )
    return table


def _check_keys(table: Any, required: tuple[str, ...], optional: tuple[str, ...], where: str) -> None:
    if not isinstance(table, dict):
        raise TaskError(f"{where} is {table!r}, expected a table. Mend the file")
    missing = [key for key in required if key not in table]
    unknown = [key for key in table if key not in required + optional]
    if missing or unknown:
        wrong = []
        if missing:
            wrong.append(f"missing {', '.join(map(repr, missing))}")
        if unknown:
            wrong.append(f"unknown {', '.join(map(repr, unknown))}")
        expected = f"It must have {', '.join(required)}"
        if optional:
            expected += f" and may have {', '.join(optional)}"
        raise TaskError(f"{where}: {' and '.join(wrong)}. {expected}")


# ------------------------------------------------------------------------------------------------- one file


def task_toml(task: Task) -> str:
    """The task as one task.toml, its templates in it: `parse_task` makes an equal task of it. What is as it is without
    a word is left out, so that a key that is added one day changes no file."""
    defaults = {column.name: column.default for column in fields(Task) if column.default is not MISSING}
    lines = []
    for key in (*_REQUIRED, *_OPTIONAL):
        value = getattr(task, key)
        if key not in defaults or value != defaults[key]:
            lines.append(f"{key} = {_toml(value)}")
    for attribute in task.attributes.values():
        lines += ["", f"[attributes.{_quoted(attribute.name)}]"]
        lines += [f"{key} = {_toml(getattr(attribute, key))}" for key in _PHRASES]
    if task.templates:
        lines += ["", "[templates]"]
        lines += [f"{name} = {_toml(source)}" for name, source in sorted(task.templates.items())]
    return "\n".join(lines) + "\n"


def task_hash(task: Task) -> str:
    """12 hex digits that change when anything in the task does: its words, its attributes, its own templates."""
    return text_hash(task_toml(task))[:12]


_LITERAL = re.compile(r"(?!.*''')[^\x00-\x08\x0b-\x1f\x7f]*(?<!')", re.DOTALL)
"""What can stand between ''' and ''', as it is."""


def _toml(value: Any) -> str:
    if isinstance(value, int):
        return str(value)
    if not isinstance(value, str):
        return f"[{', '.join(map(_toml, value))}]"
    if "\n" in value and _LITERAL.fullmatch(value):
        return f"'''\n{value}'''"
    return _quoted(value)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")
