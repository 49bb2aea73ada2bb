"""`make docs`: everything that the site is made of, laid out in build/docs, where zensical (mkdocs.yml) finds it.

Pages of docs/ as they are, the README as the first page, cards and other pages from beside docs/, notebooks with their
plots, a page of --help for each verb, the public names. Links keep working: one to a page that moved goes where it is
now, one to a file that is no page becomes its name. Nothing is written by hand that the package says itself.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import yaml
from cyclopts import App
from nbconvert import MarkdownExporter

import synthscore
from synthscore.cli.app import GROUPS, VERBS, build_app

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "build" / "docs"

BESIDE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "data/nano/README.md": "cards/nano.md",
    "data/references/curated/README.md": "cards/curated.md",
    "data/references/degraded/README.md": "cards/degraded.md",
    "data/references/generated/README.md": "cards/generated.md",
    "training/README.md": "cards/training.md",
}
"""Pages that stand beside docs/, and where the site has them."""

LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#]*)(#[^)\s]*)?\)")
FENCED = re.compile(r"(```.*?```)", re.DOTALL)
FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)


def main() -> None:
    shutil.rmtree(OUT, ignore_errors=True)
    shown = places()
    for source, place in shown.items():
        if place.endswith(".md"):
            page = (ROOT / source).read_text(encoding="utf-8")
            _write(place, linked(FRONT_MATTER.sub("", page), source, shown))
        else:
            (OUT / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / source, OUT / place)
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        _write_notebook(path, shown)
    for verb, text in helps().items():
        _write(f"commands/{verb}.md", text)
    _write("python.md", python_page())
    _write("llms.txt", llms())


def places() -> dict[str, str]:
    """Where the site has each file of the repository that it shows."""
    docs = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*") if path.suffix in PAGES}
    pages = {path: path.removeprefix("docs/").replace("decisions/README.md", "decisions/index.md") for path in docs}
    return {**pages, **BESIDE}


PAGES = {".md", ".svg", ".png", ".css"}


def linked(page: str, source: str, places: dict[str, str]) -> str:
    """The page with its links as the site has them. places : of the site, by path in the repository"""
    here = places[source]

    def moved(link: re.Match[str]) -> str:
        image, text, target, anchor = link.groups()
        if not target or "://" in target or (image and source.endswith(".ipynb")):  # a plot of its own
            return link[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        path = path if path in places else posixpath.join(path, "README.md")
        if path.startswith("notebooks"):
            place = "notebooks/01_ladder.md"
        elif path not in places:  # a file, not a page
            return f"`{posixpath.normpath(posixpath.join(posixpath.dirname(source), target))}`" if "/" in text else text
        else:
            place = places[path]
        return f"{image}[{text}]({posixpath.relpath(place, posixpath.dirname(here) or '.')}{anchor or ''})"

    pieces = FENCED.split(page)  # every second one is a block of code
    return "".join(piece if index % 2 else LINK.sub(moved, piece) for index, piece in enumerate(pieces))


def _write_notebook(path: Path, shown: dict[str, str]) -> None:
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    body, resources = MarkdownExporter().from_notebook_node(notebook, {"output_files_dir": path.stem})
    source, place = path.relative_to(ROOT).as_posix(), f"notebooks/{path.stem}.md"
    _write(place, linked(body, source, {**shown, source: place}))
    for name, data in resources["outputs"].items():
        (OUT / "notebooks" / name).parent.mkdir(parents=True, exist_ok=True)
        (OUT / "notebooks" / name).write_bytes(data)


def helps() -> dict[str, str]:
    """What --help says, by verb; the actions of a verb are on its page."""
    app = build_app()
    pages = {}
    for verb in VERBS:
        lines = [f"# synthscore {verb}", ""]
        for command in ([verb], *([verb, action] for action in _actions(app, verb))):
            title = [] if len(command) == 1 else [f"## {' '.join(command)}", ""]
            lines += [*title, "```text", _help(command), "```", ""]
        pages[verb] = "\n".join(lines)
    return pages


def _actions(app: App, verb: str) -> list[str]:
    return [name for name in app[verb] if not name.startswith("-")] if verb in GROUPS else []


def _help(command: list[str]) -> str:
    """As a terminal of 80 columns shows it."""
    environment = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"}
    words = [sys.executable, "-m", "synthscore", *command, "--help", "all"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    return "\n".join(line.rstrip() for line in done.stdout.strip().splitlines())


def python_page() -> str:
    """The public names, each with its docstring, as mkdocstrings reads it from the source."""
    intro = (
        "# Python\n\n`import synthscore as ss`. These names are what the package promises; each room has more "
        "([architecture](architecture.md)).\n"
    )
    names = [name for name in synthscore.__all__ if not name.startswith("_")]
    return "\n".join([intro, *(f"\n## {name}\n\n::: synthscore.{name}\n" for name in names)])


def llms() -> str:
    """The site for a language model: what the package is, and each page with a line on it (llmstxt.org)."""
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8").replace("!!python/name:", "#"))
    lines = [f"# {config['site_name']}", "", f"> {config['site_description']}"]
    for section in config["nav"]:
        ((title, entries),) = section.items()
        lines += ["", f"## {title}", ""]
        for entry in entries if isinstance(entries, list) else [section]:
            ((name, place),) = entry.items()
            lines.append(f"- [{name}]({place})")
    return "\n".join([*lines, ""])


def _write(place: str, text: str) -> None:
    (OUT / place).parent.mkdir(parents=True, exist_ok=True)
    (OUT / place).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
