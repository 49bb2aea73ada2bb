"""The dataset card of a release: ladders to Markdown that people read and the Hugging Face Hub understands.

The words are in card.md.jinja, the numbers here.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ..types import Ladder, Rung, grouped
from .release import DATA, SPLIT


def card_text(
    ladders: Sequence[Ladder],
    references_hash: str,
    *,
    release: str,
    licence: str,
    description: str,
    tasks: Sequence[tuple[str, str]] = (),
) -> str:
    """Markdown with the YAML head that `datasets.load_dataset` and the Hub read. Depends on its arguments alone.

    tasks : name and hash of those that come with the ladders
    """
    import jinja2

    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, keep_trailing_newline=True, autoescape=False
    )
    environment.filters["json"] = lambda value: json.dumps(value, ensure_ascii=False)
    environment.filters["cell"] = lambda value: " ".join(str(value).replace("|", "\\|").split())
    rungs = [rung for ladder in ladders for rung in ladder.rungs]
    failed = [rung for rung in rungs if rung.status == "failed"]
    highest = max((rung.level for ladder in ladders for rung in ladder.usable), default=0)
    levels = range(1, 1 + highest)
    counts = [(*names, *_count(group)) for names, group in _group(ladders, "task", "attribute")]
    lengths = []
    for (task, attribute, _), group in _group(ladders, "task", "attribute", "n_rungs"):
        lengths.append((task, attribute, *_lengths(group, levels)))
    source = Path(__file__).with_name("card.md.jinja").read_text(encoding="utf-8")
    template = environment.from_string(source)
    return template.render(
        title=release or "Synthetic reference ladders",
        licence=licence,
        identifier=re.fullmatch(r"[A-Za-z0-9.+-]+", licence),  # such as CC-BY-4.0; the Hub writes it in lower case
        description=description,
        split=SPLIT,
        data=DATA,
        hash=references_hash[:12],
        tasks=tasks,
        n_ladders=len(ladders),
        n_rungs=len(rungs),
        n_failed=len(failed),
        counts=counts,
        levels=levels,
        lengths=lengths,
        writers=_writers(ladders),
        reasons=Counter(rung.reason for rung in failed).most_common(10),
    )


def _group(ladders: Sequence[Ladder], *names: str) -> list[tuple[tuple[Any, ...], list[Ladder]]]:
    """By these of their attributes, sorted."""
    groups = grouped((tuple(getattr(ladder, name) for name in names), ladder) for ladder in ladders)
    return sorted(groups.items())


def _count(group: Sequence[Ladder]) -> tuple[int, ...]:
    """Contexts, ladders, rungs, failed rungs."""
    n_rungs = sum(ladder.n_rungs for ladder in group)
    n_usable = sum(len(ladder.usable) for ladder in group)
    return len({ladder.context_id for ladder in group}), len(group), n_rungs, n_rungs - n_usable


def _lengths(group: Sequence[Ladder], levels: Iterable[int]) -> list[str]:
    """Mean words by level."""
    words = grouped((rung.level, len(rung.text.split())) for ladder in group for rung in ladder.usable)
    shown = []
    for level in levels:
        mean = ""
        if level in words:
            mean = f"{sum(words[level]) / len(words[level]):.0f}"
        shown.append(mean)
    return shown


def _made_by(rung: Rung) -> tuple[str, str]:
    return str(rung.provenance.get("writer", "")), str(rung.provenance.get("model", ""))


def _writers(ladders: Sequence[Ladder]) -> list[tuple[str, str, int, int]]:
    """Writer, model, rungs, and failed rungs."""
    rungs = [rung for ladder in ladders for rung in ladder.rungs]
    failed = grouped((_made_by(rung), rung.status == "failed") for rung in rungs)
    rows = []
    for (writer, model), failures in sorted(failed.items()):
        shown_model = f"`{model}`" if model else ""
        rows.append((writer or "not stated", shown_model, len(failures), sum(failures)))
    return rows
