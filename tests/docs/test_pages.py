"""What README and docs show is what happens: every block of code runs, and prints what its page says."""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

import pytest

from papers.benchmarks import BENCHMARKS

from .pages import Block, Step, blocks, indented_code, page_paths, parse, steps
from .sandbox import MADE_UP, RELEASED, Models, fill, link_benchmarks, make_benchmarks
from .shell import REPOSITORY, run

PAGES = page_paths(REPOSITORY)
FAST = ("README.md",)
RELEASED_BENCHMARKS = (
    "benchmarks.md",
    "evaluation.md",
    "ranking.md",
)  # pages with numbers of the benchmarks' own files
NEEDS_RELEASED = re.compile(r"benchmarks/|judges\.sqlite|\.jsonl\.gz")

if len(PAGES) < 2:
    pytest.skip(f"{REPOSITORY / 'docs'} is not there", allow_module_level=True)


def named(path: Path):
    return pytest.param(path, id=path.name, marks=() if path.name in FAST else pytest.mark.slow)


@pytest.fixture(scope="session")
def models() -> Models:
    return Models()


@pytest.fixture(scope="session")
def beginning(tmp_path_factory, models) -> Path:
    """The folder that every page begins with."""
    folder = tmp_path_factory.mktemp("beginning")
    with pytest.MonkeyPatch.context() as patch:
        enter(folder, models, patch)
        fill(folder, models)
    return folder


def enter(folder: Path, models: Models, patch: pytest.MonkeyPatch) -> None:
    patch.chdir(folder)
    patch.setenv("SYNTHSCORE_STORE", str(folder / ".answers.sqlite"))
    patch.setenv("HF_HUB_OFFLINE", "1")
    patch.setenv("COLUMNS", "120")
    for name in MADE_UP:  # which have a few texts here
        patch.setitem(BENCHMARKS, name, replace(BENCHMARKS[name], size=None))
    patch.setattr("synthscore.engines.open_engine", models.open)
    patch.setattr("papers.__main__.open_engine", models.open)


@pytest.fixture
def sandbox(tmp_path, beginning, models, monkeypatch) -> Path:
    folder = tmp_path / "here"
    shutil.copytree(beginning, folder)
    (folder / ".answers.sqlite").unlink(missing_ok=True)
    enter(folder, models, monkeypatch)
    return folder


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_block_of_a_page_has_a_language(path):
    page = path.read_text(encoding="utf-8")
    blocks(page)
    assert not indented_code(page), "lines of indented code: put them between ```language and ```"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_files_and_functions_that_a_page_names_are_there(path):
    page = path.read_text(encoding="utf-8")
    linked = [link for link in re.findall(r"\]\(([^)#\s]+)", page) if "://" not in link]
    assert not [link for link in linked if not (path.parent / link).exists()]
    for file, name in re.findall(r"`([\w/]+\.py): ([\w.]+)`", page):
        home = next(root / file for root in (REPOSITORY, REPOSITORY / "synthscore") if (root / file).is_file())
        assert re.search(rf"^ *((async )?def |class )?{name.rpartition('.')[2]}\b *[(:=\[]", home.read_text(), re.M), (
            name
        )


@pytest.mark.parametrize("path", [named(path) for path in PAGES])
def test_a_page_prints_what_it_says(path, sandbox):
    left_out = follow(path, sandbox)
    if left_out:
        pytest.skip(f"all ran but {len(left_out)} of {path.name}: {RELEASED} is not there ({', '.join(left_out)})")


PAGE = """
```csv title="two.csv"
a,b
```

```console
$ cat two.csv    # a file
a,...
$ synthscore references list nowhere/ | head -n 1 > none.txt    # NOTE
ReferencesError: cannot load nowhere: ...
```

```python
print(1 + 1)
```

```text
2
```
"""


@pytest.mark.parametrize(
    ("true", "wrong"),
    [("a,...", "b,..."), ("cannot load nowhere", "cannot load"), ("\n2\n", "\n3\n"), ("NOTE", "exit code 3")],
)
def test_a_page_that_says_something_else_fails(true, wrong, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "page.md"
    path.write_text(PAGE, encoding="utf-8")
    follow(path, tmp_path)
    shutil.rmtree(tmp_path / "benchmarks")
    assert true in PAGE
    path.write_text(PAGE.replace(true, wrong), encoding="utf-8")
    with pytest.raises(pytest.fail.Exception, match=r"page.md, line \d+"):
        follow(path, tmp_path)


@pytest.mark.parametrize("page", ["```\nx\n```\n", "```text\nx\n", "```console\nsynthscore demo\n```\n"])
def test_a_block_that_is_none_of_the_known_kinds_is_an_error(page):
    with pytest.raises(ValueError, match=r"line [12]"):
        [list(todo(block, None)) for block in blocks(page)]


def follow(path: Path, folder: Path) -> list[str]:
    """Do what the page says, from its first line to its last. What was left out for want of benchmarks."""
    page = blocks(path.read_text(encoding="utf-8"))
    released = path.name in RELEASED_BENCHMARKS
    if released and RELEASED.is_dir():
        link_benchmarks(folder)
    elif not released:
        make_benchmarks(folder)
    for block in page:
        if block.title:
            (folder / block.title).parent.mkdir(parents=True, exist_ok=True)
            (folder / block.title).write_text(block.text + "\n", encoding="utf-8")
    namespace: dict[str, object] = {}
    left_out = []
    for block, after in zip_longest(page, page[1:]):
        for step in todo(block, after):
            if released and NEEDS_RELEASED.search(step.source) and not RELEASED.is_dir():
                left_out.append(f"line {step.line}")
            elif block.language == "python":
                compare(path, step, *run_python(path, step, namespace))
            else:
                compare(path, step, *run(step.source))
    return left_out


def todo(block: Block, after: Block | None) -> Iterator[Step]:
    if block.language == "python":
        shown = after is not None and after.follows and after.language == "text"
        yield Step(block.line, block.text, after.text.rstrip() if shown else None)
    elif block.language == "console":
        yield from steps(block)
    elif block.language != "text":
        parse(block.language, block.text)


def run_python(path: Path, step: Step, namespace: dict[str, object]) -> tuple[int, str]:
    printed = io.StringIO()
    code = compile("\n" * step.line + step.source, str(path), "exec")
    with contextlib.redirect_stdout(printed):
        exec(code, namespace)
    return 0, printed.getvalue()


def compare(path: Path, step: Step, code: int, printed: str) -> None:
    got = "\n".join(line.rstrip() for line in printed.splitlines()).rstrip() + "\n"
    want = got if step.prints is None else step.prints + "\n"
    if SHOW:
        print(f"$ {step.source}\n{got}(exit code {code})\n", file=sys.stderr)
        return
    if code != step.code or not doctest.OutputChecker().check_output(want, got, doctest.ELLIPSIS):
        pytest.fail(
            f"{path.name}, line {step.line}: {step.source}\n"
            f"--- the page (exit code {step.code})\n{want}\n--- here (exit code {code})\n{got}",
            pytrace=False,
        )


SHOW = False
