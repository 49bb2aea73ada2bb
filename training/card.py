"""What `training.evaluate` measured -> the card of the embedded judge.

python -m training.card training/nano-v0.json > data/nano/README.md
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

HEAD = """---
license: apache-2.0
base_model: sentence-transformers/all-MiniLM-L6-v2
language: en
tags: [llm-as-a-judge, evaluation, synthscore]
---

# nano v0: the embedded judge of synthscore

A causal language model (BertLMHeadModel with `is_decoder`, 6 layers of 384, 22.9 million parameters, bfloat16, {size:.0f} MB)
that answers synthscore's own questions: Better / Worse / Similar, Yes / No, A / B, for every attribute of every built-in
task, with the `default` templates. It exists so that the package runs anywhere, offline, on a CPU. It is **weak**: the
numbers below say how weak, beside floors that cost nothing. It cannot write.

- Starts from all-MiniLM-L6-v2 (Apache-2.0; NOTICE in this folder) under a causal mask, 1,024 positions.
- Trained on controlled damage to good texts: encyclopedic and government articles, textbooks, fiction, conversations (CC BY,
  CC BY-SA, CC0, public domain, BSD, MIT, CDLA-Sharing). No text of theirs is in this folder, and no human rating was used.
- Measured on works that nothing was trained on, and on published human ratings, which were never trained on either.
- English only. Its vocabulary has no capitals, so it cannot see casing errors.
- Made again by `training/` (README and LOG there).

Every number here: `python -m training.evaluate`, kept in `training/nano-v0.json` for `{model}`.
"""


def table(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    head = list(head)
    lines = ["| " + " | ".join(head) + " |", "|" + "|".join("---" for _ in head) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(map(_cell, row)) + " |" for row in rows)]) + "\n"


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.2f}"
    return str(value)


def verdicts(pairs: dict[str, Any]) -> str:
    rows = []
    for name, row in pairs["by_attribute"].items():
        gaps = (row["sign@0.0-0.3"], row["sign@0.3-0.6"], row["sign@0.6-1.0"], row["sign"])
        rows.append(
            (*name.split("/"), row["n"], *gaps, row["three_way"], row["antisymmetry"], f"{row['position']:+.3f}")
        )
    head = "task|attribute|questions|gap to .3|to .6|to 1|all|three-way|antisymmetry|position".split("|")
    return f"""
## Verdicts on held-out texts of known damage

Share of pairs whose order is right (chance .50), by how different their known severities are (0 to 1); right among Better,
Worse and Similar; correlation of the verdict with the negative of the verdict when the texts change places; and the mean
of p(Better) - p(Worse) over both orders (0: no favour for the text that is asked about).

{table(head, rows)}
Over all {pairs["n"]} questions: order right at a difference of .5 or more **{pairs["sign_at_gap_half_or_more"]:.2f}**;
antisymmetry r **{pairs["antisymmetry"]:.3f}**; position {pairs["position"]:+.3f}; label mass **{pairs["label_mass_mean"]:.4f}**
in the mean, {pairs["label_mass_min"]:.4f} at least; expected calibration error {pairs["calibration_error"]:.3f}.
"""


def damage(found: dict[str, Any]) -> str:
    kinds: dict[str, list[tuple[str, float, float, int]]] = {}
    for name, row in found.items():
        kind, task, attribute = name.split("/")
        kinds.setdefault(kind, []).append((f"{task}/{attribute}", row["one"], row["half"], row["n"]))
    rows, missed = [], []
    for kind, cases in sorted(kinds.items()):
        n = sum(case[3] for case in cases)
        one, half = (sum(case[place] * case[3] for case in cases) / n for place in (1, 2))
        worst = min(cases, key=lambda case: case[2])
        rows.append((kind, n, one, half, f"{worst[0]} {worst[2]:.2f}"))
        if half < 0.8:
            missed.append(kind)
    return f"""
## Which damage it sees

The damaged text against the undamaged one, both orders averaged: share of texts where the undamaged one is preferred, after
one edit and after half of the full damage, over all tasks and attributes that this kind lowers.

{table(("damage", "texts", "one edit", "half", "least, at half"), rows)}
Below .80 at half of the full damage: {", ".join(missed) or "none"}.
"""


def surface(found: dict[str, float]) -> str:
    worst = max(found, key=lambda name: abs(found[name]))
    return f"""
## Surface

The same text against itself in lower case with spaced punctuation, as many systems' outputs look; p(Better) - p(Worse), both
orders averaged, should be 0. Mean over attributes {sum(abs(v) for v in found.values()) / len(found):.3f} in absolute
value; the largest is {found[worst]:+.3f} ({worst}). Casing alone changes nothing: the vocabulary has none.
"""


def people(found: dict[str, Any]) -> str:
    parts = [
        "\n## Agreement with people\n\nSpearman's correlation inside each context, mean over contexts ± standard error. The "
        "floors: the text's length in words, and the share of its word pairs that the source holds.\n"
    ]
    for name, rows in found.items():
        attributes = {key: value for key, value in rows.items() if isinstance(value, dict)}
        methods = list(dict.fromkeys(method for value in attributes.values() for method in value))
        cells = [
            (attribute, *(f"{row[method]['spearman']:.2f} ± {row[method]['stderr']:.2f}" for method in methods))
            for attribute, row in attributes.items()
        ]
        parts.append(
            f"**{name}**, {rows['n_contexts']} contexts, {rows['n_texts']} texts:\n\n{table(('', *methods), cells)}"
        )
    return "\n".join(parts)


def main() -> None:
    file = Path(sys.argv[1])
    report = json.loads(file.read_text(encoding="utf-8"))
    model = next(part for part in report["model"].split("|") if part.startswith("model:")).removeprefix("model:")
    weights = Path("data/nano/model.safetensors")
    parts = [
        HEAD.format(size=weights.stat().st_size / 1e6, model=model),
        verdicts(report["pairs"]),
        damage(report["damage"]),
        surface(report["surface"]),
        people(report["people"]),
    ]
    print("".join(parts).rstrip())


if __name__ == "__main__":
    main()
