"""What README and docs show is what happens: every block of code runs, and prints what its page says."""

from __future__ import annotations

import pkgutil
import re
import shutil
from pathlib import Path

import pytest

from .follow import FROM_NOTHING, follow
from .pages import blocks, indented_code, page_paths, steps
from .sandbox import RELEASED, Models, entered, fill
from .shell import REPOSITORY

PAGES = page_paths(REPOSITORY)

if len(PAGES) < 2:
    pytest.skip(f"{REPOSITORY / 'docs'} is not there", allow_module_level=True)


@pytest.fixture(scope="session")
def models() -> Models:
    return Models()


@pytest.fixture(scope="session")
def beginning(tmp_path_factory, models) -> Path:
    """The folder that every page begins with."""
    folder = tmp_path_factory.mktemp("beginning")
    with entered(folder, models):
        fill(folder, models)
    return folder


@pytest.fixture
def sandbox(tmp_path, beginning, models):
    folder = tmp_path / "here"
    shutil.copytree(beginning, folder)
    with entered(folder, models):
        yield folder


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
        defined = rf"^ *((async )?def |class )?{name.rpartition('.')[2]}\b *[(:=\[]"
        assert re.search(defined, home.read_text(encoding="utf-8"), re.MULTILINE), name
    for name in re.findall(r"[`(](synthscore(?:\.\w+)+)[`()]", page):
        pkgutil.resolve_name(name)


@pytest.mark.slow
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_page_prints_what_it_says(path, sandbox):
    left_out = []
    if path.name in FROM_NOTHING:
        for given in sandbox.iterdir():
            shutil.rmtree(given) if given.is_dir() else given.unlink()
    for done in follow(path, sandbox):
        if not done.as_shown:
            pytest.fail(f"{path.name}, {done}", pytrace=False)
        if done.printed is None:
            left_out.append(str(done.step.line))
    if left_out:
        pytest.skip(f"{path.name} ran but for lines {', '.join(left_out)}: {RELEASED}, or a tool, is not there")


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
def test_a_page_that_says_something_else_fails(true, wrong, tmp_path, sandbox):
    path = tmp_path / "page.md"
    path.write_text(PAGE, encoding="utf-8")
    assert all(done.as_shown for done in follow(path, sandbox))
    shutil.rmtree(sandbox / "benchmarks")
    path.write_text(PAGE.replace(true, wrong), encoding="utf-8")
    assert [done.as_shown for done in follow(path, sandbox)].count(False) == 1


@pytest.mark.parametrize("page", ["```\nx\n```\n", "```text\nx\n", "```console\nsynthscore demo\n```\n"])
def test_a_block_that_is_none_of_the_known_kinds_is_an_error(page):
    with pytest.raises(ValueError, match=r"line [12]"):
        list(steps(blocks(page)))
