"""A page of Markdown -> its code blocks -> the steps that a reader would take, and what the page says that they print.

console   lines `$ command` (goes on behind a \\ at its end), and below each what it prints, if the page shows that
python    the blocks of a page one after the other; a text block right below is what one prints
text      formulas and drawings, where it is not right below python: not run
json, jsonl, toml, csv, jinja: data; with title="PATH" it is a file that the page's commands find
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal

import jinja2

try:
    import tomllib
except ModuleNotFoundError:
    import tomli as tomllib

FENCE = re.compile(r'^(?P<indent> *)```(?P<language>\S*)(?: title="(?P<title>[^"]+)")?\s*$')
SAYS_CODE = re.compile(r"#.*exit code (\d+)")


@dataclass(frozen=True)
class Block:
    """line : of the fence, from 1; follows : only blank lines lie between it and the block before"""

    line: int
    language: str
    title: str | None
    text: str
    follows: bool


@dataclass(frozen=True)
class Step:
    """What to run, and what it must print; None where the page does not say. code : the exit code that is expected"""

    line: int
    language: Literal["console", "python"]
    source: str
    prints: str | None
    code: int = 0


def blocks(page: str) -> list[Block]:
    """raises : ValueError, for a fence without a language, or one that is not closed"""
    found: list[Block] = []
    lines = page.splitlines()
    row, blank_since_block = 0, False
    while row < len(lines):
        fence = FENCE.match(lines[row])
        if fence is None:
            blank_since_block &= not lines[row].strip()
            row += 1
            continue
        indent = fence["indent"]
        try:
            end = next(at for at in range(row + 1, len(lines)) if lines[at].rstrip() == f"{indent}```")
        except StopIteration:
            raise ValueError(f"line {row + 1}: a block that is not closed") from None
        if not fence["language"]:
            raise ValueError(f"line {row + 1}: a block without a language")
        text = "\n".join(line.removeprefix(indent) for line in lines[row + 1 : end])
        found.append(Block(row + 1, fence["language"], fence["title"], text, blank_since_block))
        row, blank_since_block = end + 1, True
    return found


def indented_code(page: str) -> list[int]:
    """Lines outside of fences that Markdown shows as code because they are indented."""
    lines, inside, found = page.splitlines(), False, []
    for row, line in enumerate(lines, start=1):
        if FENCE.match(line):
            inside = not inside
        elif not inside and line.startswith("    ") and (row == 1 or not lines[row - 2].strip()):
            found.append(row)
    return found


def steps(page: Sequence[Block]) -> Iterator[Step]:
    """From the first line to the last. raises : ValueError, for a block that is none of the known kinds"""
    for block, after in zip_longest(page, page[1:]):
        if block.language == "console":
            yield from _commands(block)
        elif block.language == "python":
            shown = after is not None and after.follows and after.language == "text"
            yield Step(block.line, "python", block.text, after.text.rstrip() if shown else None)
        elif block.language != "text":
            parse(block.language, block.text)


def _commands(block: Block) -> Iterator[Step]:
    """raises : ValueError, where the block does not begin with a command"""
    lines = block.text.splitlines()
    row = 0
    while row < len(lines):
        start, command = row, lines[row]
        if not command.startswith("$ "):
            raise ValueError(f"line {block.line + 1 + row}: expected a command, '$ ...'")
        while lines[row].endswith("\\"):
            row += 1
            command += "\n" + lines[row]
        row += 1
        end = next((at for at in range(row, len(lines)) if lines[at].startswith("$ ")), len(lines))
        shown = "\n".join(lines[row:end]).rstrip()
        said = SAYS_CODE.search(command)
        code = int(said[1]) if said else 0
        yield Step(block.line + 1 + start, "console", command[2:], shown or None, code)
        row = end


def parse(language: str, text: str) -> Any:
    """Data as its parser reads it. raises : ValueError, for what is none, and for a language that nobody knows"""
    if language == "jinja":
        return jinja2.Environment().parse(text)
    if language == "csv":
        rows = list(csv.reader(io.StringIO(text)))
        if len({len(row) for row in rows}) != 1:
            raise ValueError("rows of a table must be equally long")
        return rows
    if language == "jsonl":
        return [json.loads(line) for line in text.splitlines()]
    if language in ("json", "toml"):
        return json.loads(text) if language == "json" else tomllib.loads(text)
    raise ValueError(f"a block of {language!r}: expected console, python, text, json, jsonl, toml, csv or jinja")


def page_paths(repository: Path) -> list[Path]:
    return [repository / "README.md", *sorted((repository / "docs").glob("*.md"))]
