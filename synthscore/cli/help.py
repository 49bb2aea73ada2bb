"""Help that fits the terminal: paragraphs flow to its width, and examples stay commands that can be copied.

A verb's help shows what is most used and what only this verb has; `--help all` shows every option.
"""

from __future__ import annotations

import re
import textwrap
from typing import Any

from cyclopts.help import DefaultFormatter
from rich.text import Text

from .panels import ORDER, SHORT


class Flowing(DefaultFormatter):
    """Shows a verb's docstring so, and its options as cyclopts does. everything : in all panels, not those of SHORT"""

    def __init__(self, *, everything: bool = True) -> None:
        super().__init__()
        self.everything = everything

    def __call__(self, console: Any, options: Any, panel: Any) -> None:
        if not self.everything and panel.title not in SHORT:
            return
        panel.entries.sort(key=_place)
        for entry in panel.entries:
            if isinstance(text := getattr(entry.description, "primary_renderable", None), Text):
                entry.description.primary_renderable = Text(" ".join(text.plain.split()))
        super().__call__(console, options, panel)

    def render_description(self, console: Any, options: Any, description: Any) -> None:
        text = getattr(description, "primary_renderable", "")
        console.print(flowing(str(text), console.width), markup=False, highlight=False, soft_wrap=True)
        console.print()


def _place(entry: Any) -> int:
    names = [name for name in entry.positive_names if name in ORDER]
    return ORDER.index(names[0]) if names else len(ORDER)


def flowing(text: str, width: int) -> str:
    """Paragraphs joined and broken anew; an indented line stands for itself, broken as a shell reads it.

        $ synthscore score targets.jsonl --references ladders/ \\
            --attribute coherence
    """
    lines: list[str] = []
    for paragraph in text.split("\n\n"):
        joined = re.sub(r"^(\S.*)\n(?=\S)", r"\1 ", paragraph.strip("\n"), flags=re.M)
        for line in joined.split("\n"):
            command = line.startswith("  $")
            hanging = "      " if command else re.sub(r"^( *(\S+ {2,})?).*", lambda m: " " * len(m[1]), line)
            broken = textwrap.wrap(line, width - 2 * command, subsequent_indent=hanging, break_on_hyphens=False)
            lines.append((" \\\n" if command else "\n").join(broken))
        lines.append("")
    return "\n".join(lines[:-1])
