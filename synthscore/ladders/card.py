"""The dataset card of a release: ladders to Markdown that people read and the Hugging Face Hub understands."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from ..types import Ladder

_NOT = """\
- Not written or rated by people, unless the writers above say so. A rung's level is what its writer was asked for: that
  it is better than the rung below is to be checked with the judge that will use it (`synthscore references check`).
- Not training data for models that it will be used to compare: one that has seen the rungs is no longer measured.
- Not free of what the contexts and the writers carry: their errors, their biases, their rights.
- Not comparable with scores against other ladders: name the hash above when you report a score."""

_COLUMNS = """\
Columns: what the rung is for (`release`, `task`, `context_id`, `context`, `facts`, `references`, `attribute`); where it
stands (`n_rungs`, `level`, `fraction` from 0 to 1); its `text`, `status` and `reason`; how to make it again (`parents`,
`writer`, `model`, `template_hash`, `prompt_sha256`, decoding, `seed`, `key`, ...; what has no column is in `extra`, as
JSON). `parents` are the `text_sha256` of the two rungs that it was written between. The `..._sha256` of a text is the
sha256 of its length in UTF-8 bytes, a colon, and the text; `synthscore references verify FOLDER` checks them all."""


def card_text(
    ladders: Sequence[Ladder],
    references_hash: str,
    data: str,
    split: str,
    *,
    release: str = "",
    licence: str = "",
    description: str = "",
) -> str:
    """Markdown with the YAML head that `datasets.load_dataset` and the Hub read. Depends on its arguments alone."""
    title = release or "Synthetic reference ladders"
    head = ["---", f"pretty_name: {json.dumps(title, ensure_ascii=False)}", *_licence_lines(licence)]
    head += ["tags:", "- synthscore", "- llm-as-a-judge", "- synthetic", "configs:", "- config_name: default"]
    head += ["  data_files:", f"  - split: {split}", f"    path: {data}", "---"]
    failed = [rung for ladder in ladders for rung in ladder.rungs if rung.status == "failed"]
    n_rungs = sum(ladder.n_rungs for ladder in ladders)
    parts = [
        "\n".join(head),
        f"# {title}",
        description,
        "Ladders of synthetic references: for each context and attribute, texts of rising quality, rung 1 the worst. "
        "A judge compares a text with every rung, and so places it on a scale. One row is one rung.",
        f"{len(ladders)} ladders, {n_rungs} rungs, {len(failed)} of them failed (no text, and the reason why). "
        f"Hash of all texts: `{references_hash[:12]}`.",
        "## What is in it",
        _counts(ladders),
        "Mean length in words, by level:",
        _lengths(ladders),
        "## Writers",
        _writers(ladders),
        *(["Reasons for failed rungs:", _reasons(rung.reason for rung in failed)] if failed else []),
        "## Load",
        "```python\nimport synthscore\nreferences = synthscore.References.load(\"FOLDER or Hub id\")\n\n"
        f'import datasets\nrows = datasets.load_dataset("FOLDER or Hub id", split="{split}")\n```',
        _COLUMNS,
        "## Licence",
        licence or "None stated: ask the publisher before you pass it on. Contexts keep the rights of their authors.",
        "## What it is not",
        _NOT,
    ]  # fmt: skip
    return "\n\n".join(part for part in parts if part) + "\n"


def _licence_lines(licence: str) -> list[str]:
    if not licence:
        return []
    if re.fullmatch(r"[A-Za-z0-9.+-]+", licence):  # an identifier such as CC-BY-4.0; the Hub writes it in lower case
        return [f"license: {licence.lower()}"]
    return ["license: other", f"license_name: {json.dumps(licence, ensure_ascii=False)}"]


def _table(head: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_cell(value) for value in line) + " |" for line in lines)


def _cell(value: object) -> str:
    return " ".join(str(value).replace("|", "\\|").split())


def _counts(ladders: Sequence[Ladder]) -> str:
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    contexts = defaultdict(set)
    for ladder in ladders:
        key = (ladder.task, ladder.attribute)
        contexts[key].add(ladder.context_id)
        counts[key].update(ladders=1, rungs=ladder.n_rungs, failed=ladder.n_rungs - len(ladder.usable))
    rows = [
        (*key, len(contexts[key]), count["ladders"], count["rungs"], count["failed"])
        for key, count in sorted(counts.items())
    ]
    return _table(["task", "attribute", "contexts", "ladders", "rungs", "failed"], rows)


def _lengths(ladders: Sequence[Ladder]) -> str:
    words: dict[tuple[str, str, int], dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for ladder in ladders:
        for rung in ladder.usable:
            words[ladder.task, ladder.attribute, ladder.n_rungs][rung.level].append(len(rung.text.split()))
    most = max((key[2] for key in words), default=0)
    rows = [
        (*key[:2], *(f"{sum(w) / len(w):.0f}" if (w := levels.get(level)) else "" for level in range(1, most + 1)))
        for key, levels in sorted(words.items())
    ]
    return _table(["task", "attribute", *range(1, most + 1)], rows)


def _writers(ladders: Sequence[Ladder]) -> str:
    made, failed = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for rung in (rung for ladder in ladders for rung in ladder.rungs):
        by = str(rung.provenance.get("writer", "")), str(rung.provenance.get("model", ""))
        made[by] += 1
        failed[by] += rung.status == "failed"
    rows = [(by[0] or "not stated", f"`{by[1]}`" if by[1] else "", made[by], failed[by]) for by in sorted(made)]
    return _table(["writer", "model", "rungs", "failed"], rows)


def _reasons(reasons: Iterable[str]) -> str:
    return _table(["reason", "rungs"], Counter(reasons).most_common(10))
