"""A page, from its first line to its last: what each step prints, beside what the page says that it prints."""

from __future__ import annotations

import contextlib
import doctest
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from .pages import Step, blocks, steps
from .sandbox import RELEASED, link_benchmarks, make_benchmarks
from .shell import run

NEEDS_RELEASED = re.compile(r"benchmarks/|judges\.sqlite|\.jsonl\.gz")
TOOL = re.compile(r"^(?:from|import) (trl|inspect_ai|deepeval|mlflow|datatrove|ray)\b", re.MULTILINE)
"""Tools that blocks of docs/integrations.md need; each is in an environment of its own (make test-integrations)."""
SHOW_RELEASED = ("benchmarks.md", "evaluation.md", "ranking.md")
"""Pages with numbers of the benchmarks' own files; the others make do with a dozen texts."""
FROM_NOTHING = ("README.md", "tutorial.md", "guide.md")
"""Pages that a stranger types from top to bottom in an empty folder: they make every file that they use."""


@dataclass(frozen=True)
class Done:
    """printed : stdout and stderr; None where the step was left out, because the benchmarks' own files, or a tool,
    are not there"""

    step: Step
    code: int = 0
    printed: str | None = None

    @property
    def as_shown(self) -> bool:
        """Whether the page tells the truth."""
        want = self.printed if self.step.prints is None else f"{self.step.prints}\n"
        alike = doctest.OutputChecker().check_output(want or "", self.printed or "", doctest.ELLIPSIS)
        return self.printed is None or (alike and self.code == self.step.code)

    def __str__(self) -> str:
        shown = "" if self.step.prints is None else f"--- the page\n{self.step.prints}\n--- here\n"
        codes = f"exit code {self.code}, on the page {self.step.code}"
        return f"line {self.step.line}: {self.step.source}\n{shown}{self.printed}({codes})\n"


def follow(path: Path, folder: Path) -> Iterator[Done]:
    """The steps of the page, each done when it is asked for, in this folder, which was entered."""
    page = blocks(path.read_text(encoding="utf-8"))
    released = path.name in SHOW_RELEASED
    if released and RELEASED.is_dir():
        link_benchmarks(folder)
    elif not released and path.name not in FROM_NOTHING:
        make_benchmarks(folder)
    for block in page:
        if block.title:
            (folder / block.title).parent.mkdir(parents=True, exist_ok=True)
            (folder / block.title).write_text(f"{block.text}\n", encoding="utf-8")
    namespace: dict[str, object] = {}
    for step in steps(page):
        if released and NEEDS_RELEASED.search(step.source) and not RELEASED.is_dir():
            yield Done(step)
            continue
        if (tool := TOOL.search(step.source)) and find_spec(tool[1]) is None:
            yield Done(step)
            continue
        code, printed = _python(step, path, namespace) if step.language == "python" else run(step.source)
        yield Done(step, code, "".join(f"{line.rstrip()}\n" for line in printed.rstrip().splitlines()))


def _python(step: Step, path: Path, namespace: dict[str, object]) -> tuple[int, str]:
    printed = io.StringIO()
    code = compile("\n" * step.line + step.source, str(path), "exec")
    with contextlib.redirect_stdout(printed):
        exec(code, namespace)
    return 0, printed.getvalue()
