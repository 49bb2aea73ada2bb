"""What `training.evaluate` measured -> the card of the embedded judge.

    python -m training.card training/nano-v4.json > data/nano/README.md

Also draws docs/figures/nano-reliability.svg.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from papers.plot import Line, Panel, draw_curves
from synthscore.signature import Signature

from .written import written_rows

IN_DOMAIN = {"topicalchat": " (in domain: other conversations of Topical-Chat are training texts)"}
HEAD = """---
license: apache-2.0
base_model: sentence-transformers/all-MiniLM-L6-v2
language: en
tags: [llm-as-a-judge, evaluation, synthscore]
---

# nano v4: the embedded judge of synthscore

An encoder (BertForMaskedLM, 6 layers of 384, 22.9 million parameters, bfloat16, {size:.0f} MB) that answers synthscore's own
questions: Better / Worse / Similar, Yes / No, A / B, for every attribute of every built-in task, with the `default`
templates. It exists so that the package runs anywhere, offline, on a CPU. It is **weak**: the numbers below say how weak,
beside floors that cost nothing. It is finished: v4 stays what it is, and no more is trained.

**What it cannot do**, in numbers further down (True and false, As a filter):

- It does not tell a false statement from a true one that uses the same words.
- A threshold does not hold back everything that is bad: at 3.5 word salad passes in consistency and relevance.
- It prefers sentences that are copied from the beginning of an article to a good summary, in consistency and fluency nearly always.
- It cannot see casing, read other languages than English, or write.

What it can: tell a summary of another article in consistency and relevance (in coherence mostly), and broken sentences in fluency.

- Starts from all-MiniLM-L6-v2 (Apache-2.0; NOTICE in this folder), 1,024 positions. It reads the two texts of a prompt apart
  (docs/decisions/0008), longer paragraphs in pieces, so that nothing is cut off. Load it with `open_engine("nano")`: what loads it as
  an ordinary BERT reads the prompt in another way, and its answers mean nothing.
- Trained on controlled damage to good texts: encyclopedic and government articles, textbooks, fiction, conversations (CC BY,
  CC BY-SA, CC0, public domain, BSD, MIT, CDLA-Sharing), and on replies that a weak language model wrote after reading
  such conversations. No text of theirs is in this folder, and no human rating was used. Each source with its licence: training/SOURCES.md.
- Trained on, since v1: texts that a large language model wrote and graded for it (training/texts, {n_written} groups: ladders, true and
  false sentences that no count tells apart) or rated, many of them by SmolLM2-135M-Instruct and Qwen2.5-Coder-0.5B-Instruct (Apache-2.0);
  invented reports with true and false statements (training/relations.jsonl); the half `train` of the curated ladders; and captions with what
  follows from them (SNLI, CC BY-SA 4.0). Of damaged summaries and replies it learnt what v2 says. Its weights are the mean of v2's (.15)
  and of what came of that (.85); one temperature was fitted on held-out damage.
- To the log-odds of its verdict it adds what 13 counts of the two texts beside their context say (shares of words, of word pairs and of
  copied runs, their order, numbers that the context lacks, length: engines/counts.py), each with a weight of the attribute
  (config.json), half as strong as fitted, on the same groups and on known damage. An attribute of your own has none: then the encoder judges alone.
- What counts and written texts are worth, each left out, over two seeds: training/LOG.md, Ablation. Without counts word salad passes, and SummEval
  falls by .08.
- Measured on works that nothing was trained on, and on published human ratings, which were never trained on either. Both are
  halved: recipes were chosen on one half, and the numbers here are of the other. **TopicalChat is in domain**: other conversations of
  Topical-Chat are training texts. SummEval is not.
- English only. Its vocabulary has no capitals, so it cannot see casing errors.
- Made again by `training/` (README and LOG there; the numbers of v0 to v3, too).

Every number here: `python -m training.evaluate`, kept in `training/nano-v4.json` for `{model}`.
"""


def table(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    head = list(head)
    lines = ["| " + " | ".join(head) + " |", "|" + "|".join("---" for _ in head) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(map(_cell, row)) + " |" for row in rows)]) + "\n"


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.2f}"
    return str(value)


def verdicts(pairs: dict[str, Any], n_groups: int) -> str:
    rows = []
    for name, row in pairs["by_attribute"].items():
        gaps = (row["sign@0.0-0.3"], row["sign@0.3-0.6"], row["sign@0.6-1.0"], row["sign_at_gap_half_or_more"])
        rows.append(
            (*name.split("/"), row["n"], *gaps, row["three_way"], row["antisymmetry"], f"{row['position']:+.3f}")
        )
    head = "task|attribute|questions|gap to .3|to .6|to 1|.5 or more|three-way|antisymmetry|position".split("|")
    sure = [(f"{said:.2f}", f"{right:.2f}", n) for said, right, n in pairs["reliability"]]
    return f"""
## Verdicts on held-out texts of known damage

Up to {n_groups} groups of three to five texts an attribute. Share of pairs whose order is right (chance .50), by how different
their known severities are (0 to 1); right among Better, Worse and Similar; correlation of the verdict with the negative of
the verdict when the texts change places; and the mean of p(Better) - p(Worse) over both orders (0: no favour for the text
that is asked about).

{table(head, rows)}
Over all {pairs["n"]} questions: order right at a difference of .5 or more **{pairs["sign_at_gap_half_or_more"]:.2f}**;
antisymmetry r **{pairs["antisymmetry"]:.3f}**; position {pairs["position"]:+.3f}; label mass **{pairs["label_mass_mean"]:.4f}**
in the mean, {pairs["label_mass_min"]:.4f} at least.

Is it as sure as it is right? Mean probability of its verdict, share of these verdicts that are right, questions; expected
calibration error **{pairs["calibration_error"]:.3f}**.

{table(("sure", "right", "questions"), sure)}
The same as a picture, with 95 % intervals: docs/figures/nano-reliability.svg.
"""


def diagram(found: Sequence[tuple[float, float, int]]) -> str:
    """The table of `verdicts` as a picture: an SVG, with 95 % intervals."""
    sure, right, n = (list(column) for column in zip(*found, strict=True))
    half = [1.96 * math.sqrt(share * (1 - share) / count) for share, count in zip(right, n, strict=True)]
    low, high = ([share + sign * h for share, h in zip(right, half, strict=True)] for sign in (-1, 1))
    lines = [Line("nano", sure, right, low, high), Line("as sure as right", sure, sure, sure, sure)]
    return draw_curves(
        [Panel("Is it as sure as it is right?", lines, "probability of its verdict", "share that is right")]
    )


def apart(found: dict[str, dict[str, float]]) -> str:
    rows = []
    for task, pairs in found.items():
        if pairs:
            most = max(pairs, key=lambda name: pairs[name])
            rows.append((task, sum(pairs.values()) / len(pairs), f"{most.replace('/', ', ')} {pairs[most]:.2f}"))
    return f"""
## Are attributes told apart?

Correlation between its verdicts on two attributes of the same pairs of texts, damaged in one of them; 1: the attribute that
is asked about makes no difference. Mean over pairs of attributes, and the largest.

{table(("task", "mean", "largest"), rows)}"""


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


def filtering(found: dict[str, Any]) -> str:
    attributes = [name for name in found if name != "threshold"]
    kinds = list(found[attributes[0]]["kinds"])
    rows = []
    for kind in kinds:
        cells = [found[attribute]["kinds"][kind] for attribute in attributes]
        rows.append((kind, cells[0]["texts"], *(f"{cell['mean']:.2f}, {cell['kept']}" for cell in cells)))
    above = [found[attribute]["lead_above_good"] for attribute in attributes]
    rows.append(("copied lead above good", above[0][1], *(n for n, _ in above)))
    n_unscored = sum(cell["unscored"] for name in attributes for cell in found[name]["kinds"].values())
    return f"""
## As a filter

The same articles, their ladders as `synthscore generate` makes them without a model: mean score, and how many texts a
threshold of {found["threshold"]} keeps. Off topic: the good summary of another article. The lead is the article's first sentences, until they are as long as the good summary; word
salad is the article's words in no order, as many. Unscored: {n_unscored}.

{table(("", "texts", *attributes), rows)}"""


def people(found: dict[str, Any]) -> str:
    parts = [
        "\n## Agreement with people\n\nSpearman's correlation inside each context, mean over contexts ± standard error: nano, "
        "from its verdicts on all pairs of texts in both orders, beside what costs nothing. `counts`: nano's own, without the "
        "encoder. Behind a comma: how much nano is above it, with a 95 % interval over contexts, paired.\n"
    ]
    for name, rows in found.items():
        attributes = {key: value for key, value in rows.items() if isinstance(value, dict)}
        methods = list(next(iter(attributes.values())))
        cells = [(attribute, *(_agreement(row[method]) for method in methods)) for attribute, row in attributes.items()]
        means = [
            f"{sum(row[method]['spearman'] for row in attributes.values()) / len(attributes):.2f}" for method in methods
        ]
        unscored = sum(row["nano"]["unscored"] for row in attributes.values())
        parts.append(
            f"**{name}**{IN_DOMAIN.get(name, '')}, {rows['n_contexts']} contexts, {rows['n_texts']} texts; "
            f"unscored by nano: {unscored}.\n\n"
            f"{table(('', *methods), [*cells, ('mean', *means)])}"
        )
    return "\n".join(parts)


def _agreement(row: dict[str, Any]) -> str:
    shown = f"{row['spearman']:.2f} ± {row['stderr']:.2f}"
    if row.get("low") is None:
        return shown
    return f"{shown}, {row['nano_above']:+.2f} [{row['low']:+.2f}, {row['high']:+.2f}]"


def facts(found: dict[str, Any]) -> str:
    return f"""
## True and false

Twenty articles that were written for this (tests/data/facts.jsonl), on which nothing was trained: share of pairs in which the
first is preferred. True and false summaries, and word salad (the article's words in no order), asked about in consistency.

{table(("first and second", "share", "pairs"), [(kind, share, n) for kind, (share, n) in found.items()])}"""


def speed(found: dict[str, Any]) -> str:
    rows = [
        (length, row["verdicts_per_second"], row["tokens_per_second"], row["unscored"]) for length, row in found.items()
    ]
    return f"""
## Lengths and speed

Eight texts of 60 words against five rungs, in float32, one thread; in a second of processor time.

{table(("words of the context", "verdicts", "tokens that are run over", "unscored"), rows)}"""


def main() -> None:
    file = Path(sys.argv[1])
    report = json.loads(file.read_text(encoding="utf-8"))
    model = dict(Signature.parse(report["model"]).parts)["model"]
    weights = Path("data/nano/model.safetensors")
    Path("docs/figures/nano-reliability.svg").write_text(diagram(report["pairs"]["reliability"]), encoding="utf-8")
    sections: dict[str, Callable[[Any], str]] = {
        "pairs": lambda found: verdicts(found, report["groups"]["pairs"]),
        "apart": apart,
        "damage": damage,
        "facts": facts,
        "filter": filtering,
        "surface": surface,
        "speed": speed,
        "people": people,
    }
    head = HEAD.format(size=weights.stat().st_size / 1e6, model=model, n_written=len(written_rows()))
    parts = [head, *(section(report[name]) for name, section in sections.items() if name in report)]
    print("".join(parts).rstrip())


if __name__ == "__main__":
    main()
