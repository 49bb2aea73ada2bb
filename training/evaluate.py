"""A finished judge -> the numbers of its card, measured on texts that it was not trained on.

    python -m training.evaluate --model data/nano --corpora ../corpora --benchmarks ../benchmarks

Prints one JSON object and writes it to --out. Parts: `damage` (each kind of damage against the undamaged text),
`pairs` (graded groups: sign accuracy by severity gap, calibration, antisymmetry, position), `surface` (does the look
of a text change its verdict?), `people` (per-context Spearman on human ratings, beside floors that cost nothing).
"""

from __future__ import annotations

import argparse
import gzip
import json
import lzma
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from synthscore.agreement import per_context
from synthscore.baselines.floors import source_overlap
from synthscore.degrade import DAMAGES, Material, damage_path, surface
from synthscore.engines import open_engine
from synthscore.engines.base import Engine
from synthscore.errors import DegradeError
from synthscore.ladder import DegradedWriter, generate_ladders
from synthscore.prompts import Templates
from synthscore.references import References
from synthscore.scorer import Scorer
from synthscore.tasks import load_task, task_names
from synthscore.types import Context, Target
from synthscore.verdicts import Pair, Verdicts, ask

from .groups import Group, groups

GAPS = ((0.0, 0.3), (0.3, 0.6), (0.6, 1.01))


class Judge:
    """An engine with the templates of every task."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.templates = {name: Templates(load_task(name)) for name in task_names()}

    def __call__(self, task: str, pairs: Sequence[Pair], **options: Any) -> Verdicts:
        return ask(pairs, self.engine, self.templates[task], min_mass=0.0, **options)


def heldout(corpora: Path) -> Iterator[dict[str, Any]]:
    with lzma.open(corpora / "heldout.jsonl.xz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    order = np.random.default_rng(7).permutation(len(rows))
    for index in order:
        yield rows[index]


def heldout_groups(corpora: Path, n: int) -> list[Group]:
    """Up to n groups of each (task, attribute), from documents of which nothing was trained on."""
    made: dict[tuple[str, str], list[Group]] = defaultdict(list)
    for seed in range(4):  # the held-out documents are few: pass over them again with other draws
        for group in groups(heldout(corpora), np.random.default_rng(1000 + seed)):
            key = (group.task, group.attribute)
            if len(made[key]) < n:
                made[key].append(group)
    return [group for key in sorted(made) for group in made[key]]


def pairs_part(judge: Judge, made: Sequence[Group]) -> dict[str, Any]:
    """Graded groups, every ordered pair asked with `compare`."""
    out: dict[str, Any] = {}
    everything: dict[str, list[Any]] = defaultdict(list)
    for key in sorted({(group.task, group.attribute) for group in made}):
        pairs, gaps = [], []
        for group in made:
            if (group.task, group.attribute) != key:
                continue
            context = Context("group", group.context, group.facts)
            for i in range(len(group.texts)):
                for j in range(len(group.texts)):
                    if i < j:
                        for a, b in ((i, j), (j, i)):
                            pairs.append(Pair(context, group.attribute, group.texts[a], group.texts[b]))
                            gaps.append(group.severities[b] - group.severities[a])
        verdicts = judge(key[0], pairs)
        n_failed = len({row // 2 for row in verdicts.failures})
        whole = np.repeat(~np.isnan(verdicts.better).reshape(-1, 2).any(axis=1), 2)  # both orders were answered
        better, worse, similar = verdicts.better[whole], verdicts.worse[whole], verdicts.similar[whole]
        margin = better - worse
        gap = np.array(gaps)[whole]
        swapped = margin.reshape(-1, 2)
        right = np.sign(margin) == np.sign(gap)
        labels = np.stack([better, worse, similar], axis=1)
        truth = np.where(gap > 0, 0, np.where(gap < 0, 1, 2))
        row: dict[str, float] = {"n": len(gap), "failed": n_failed}
        for low, high in GAPS:
            inside = (np.abs(gap) > max(low, 1e-9)) & (np.abs(gap) <= high)
            row[f"sign@{low}-{min(high, 1.0)}"] = _mean(right[inside])
        row["sign"] = _mean(right[gap != 0])
        row["three_way"] = _mean(labels.argmax(1) == truth)
        row["antisymmetry"] = float(np.corrcoef(swapped[:, 0], -swapped[:, 1])[0, 1])
        row["position"] = float(swapped.mean())  # 0: what is asked about is favoured as often as the other
        out["/".join(key)] = row
        everything["labels"].append(labels)
        everything["truth"].append(truth)
        everything["mass"].append(verdicts.label_mass[whole])
        everything["swapped"].append(swapped)
        everything["right"].append(right[np.abs(gap) >= 0.5])
    labels, truth = np.concatenate(everything["labels"]), np.concatenate(everything["truth"])
    swapped, mass = np.concatenate(everything["swapped"]), np.concatenate(everything["mass"])
    return {
        "by_attribute": out,
        "antisymmetry": float(np.corrcoef(swapped[:, 0], -swapped[:, 1])[0, 1]),
        "position": float(swapped.mean()),
        "sign_at_gap_half_or_more": _mean(np.concatenate(everything["right"])),
        "label_mass_mean": float(mass.mean()),
        "label_mass_min": float(mass.min()),
        "calibration_error": calibration_error(labels, truth),
        "n": len(truth),
    }


def calibration_error(probs: np.ndarray, truth: np.ndarray, bins: int = 10) -> float:
    """Expected calibration error of the most probable label, equal-width bins."""
    confidence, right = probs.max(1), probs.argmax(1) == truth
    place = np.minimum((confidence * bins).astype(int), bins - 1)
    return float(
        sum(abs(confidence[place == b].mean() - right[place == b].mean()) * (place == b).mean() for b in set(place))
    )


def damage_part(judge: Judge, made: Sequence[Group], n: int) -> dict[str, Any]:
    """Each kind of damage: one edit against the undamaged text, and half of the full severity; share ranked right."""
    out = {}
    for name, damage in DAMAGES.items():
        for task, attributes in sorted(damage.lowers.items()):
            for attribute in sorted(attributes):
                rows: dict[str, list[Pair]] = {"one": [], "half": []}
                for index, group in enumerate(made):
                    if group.task != task or group.attribute != attribute or len(rows["one"]) >= 2 * n:
                        continue
                    good = group.texts[int(np.argmin(group.severities))]
                    rng = np.random.default_rng(index)
                    material = Material(group.context, group.facts, _foreign(made, index))
                    try:
                        path = list(
                            damage_path(good, task=task, attribute=attribute, rng=rng, material=material, kinds=[name])
                        )
                    except DegradeError:
                        continue
                    if not path:
                        continue
                    context = Context("group", group.context, group.facts)
                    half = next((step for step in path if step.severity >= 0.5), path[-1])
                    for size, bad in (("one", path[0].text), ("half", half.text)):
                        rows[size] += [Pair(context, attribute, good, bad), Pair(context, attribute, bad, good)]
                if not rows["one"]:
                    continue
                row: dict[str, float] = {"n": len(rows["one"]) // 2}
                for size, pairs in rows.items():
                    verdicts = judge(task, pairs)
                    margin = (verdicts.better - verdicts.worse).reshape(-1, 2)
                    margin = (margin[:, 0] - margin[:, 1]) / 2
                    margin = margin[~np.isnan(margin)]  # a prompt that is too long cannot be asked
                    row[size] = _mean(np.where(margin == 0, 0.5, margin > 0))
                    row[f"{size}_margin"] = float(margin.mean())
                out[f"{name}/{task}/{attribute}"] = row
    return out


def _foreign(made: Sequence[Group], index: int, n: int = 12) -> tuple[str, ...]:
    """Good texts of the same task, written for other contexts."""
    group = made[index]
    others = [
        other
        for other in [*made[index + 1 :], *made[:index]]
        if other.task == group.task and other.context != group.context and not set(other.texts) & set(group.texts)
    ]
    return tuple(other.texts[int(np.argmin(other.severities))] for other in others[:n])


def surface_part(judge: Judge, made: Sequence[Group], n: int) -> dict[str, Any]:
    """The same text raw and in another look (lower case, spaced punctuation): the margin should be 0."""
    out = {}
    for key in sorted({(group.task, group.attribute) for group in made}):
        pairs = []
        for group in made:
            if (group.task, group.attribute) == key and len(pairs) < 2 * n:
                good = group.texts[int(np.argmin(group.severities))]
                other = surface(good, "ptb")
                if other == good:  # the group has that look already
                    continue
                context = Context("group", group.context, group.facts)
                pairs += [Pair(context, key[1], good, other), Pair(context, key[1], other, good)]
        if not pairs:
            continue
        margin = judge(key[0], pairs)
        both = (margin.better - margin.worse).reshape(-1, 2)
        out["/".join(key)] = round(float(np.nanmean((both[:, 0] - both[:, 1]) / 2)), 4)
    return out


# ------------------------------------------------------------------------------------------------ people


def benchmark(file: Path, n_contexts: int | None) -> list[dict[str, Any]]:
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    chosen = sorted({row["context_id"] for row in rows})[:n_contexts]
    return [row for row in rows if row["context_id"] in set(chosen)]


def people_part(judge: Judge, folder: Path, name: str, task: str, n_contexts: int | None) -> dict[str, Any]:
    """Per-context Spearman of ladders (where there are reference texts) or of all pairs, and of the floors."""
    rows = benchmark(folder / f"{name}.jsonl.gz", n_contexts)
    rows = [row for row in rows if row["text"].strip()]
    ids = [row["context_id"] for row in rows]
    contexts = {
        row["context_id"]: Context(row["context_id"], row["context"], row.get("facts") or "", tuple(row["references"]))
        for row in rows
    }
    out: dict[str, Any] = {"n_contexts": len(contexts), "n_texts": len(rows)}
    for attribute in [name for name in rows[0]["human"] if name in load_task(task).attributes]:
        human = [row["human"][attribute] for row in rows]
        methods = {
            "floor: length": [len(row["text"].split()) for row in rows],
            "floor: bigram overlap": [
                source_overlap(row["text"], f"{row['context']} {row.get('facts') or ''}", words="spaces")
                for row in rows
            ],
        }
        if rows[0]["references"]:
            methods["nano: ladders"] = ladder_scores(judge, task, attribute, rows, contexts)
        else:  # a ladder by rule needs a good text
            methods["nano: all pairs"] = all_pairs(judge, task, attribute, rows, contexts)
        out[attribute] = {}
        for method, values in methods.items():
            found = per_context(values, human, ids)
            out[attribute][method] = {
                "spearman": round(found.value, 3),
                "stderr": round(found.stderr, 3),
                "contexts": found.n_contexts,
                "skipped": found.n_skipped,
            }
        print(name, attribute, {key: value["spearman"] for key, value in out[attribute].items()}, flush=True)
    return out


def ladder_scores(
    judge: Judge, task: str, attribute: str, rows: Sequence[dict[str, Any]], contexts: dict[str, Context]
) -> list[float]:
    ladders = generate_ladders(list(contexts.values()), load_task(task), [attribute], DegradedWriter(), n_rungs=5)
    scorer = Scorer(References(tuple(ladders)), judge.engine, attribute=attribute)
    targets = [Target(f"{i}", row["context_id"], row["text"]) for i, row in enumerate(rows)]
    return scorer.score(targets).values.tolist()


def all_pairs(
    judge: Judge, task: str, attribute: str, rows: Sequence[dict[str, Any]], contexts: dict[str, Context]
) -> list[float]:
    """Mean probability margin of each text against all others of its context, both orders."""
    places: dict[str, list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        places[row["context_id"]].append(index)
    order = [(i, j) for group in places.values() for i in group for j in group if i != j]
    pairs = [Pair(contexts[rows[i]["context_id"]], attribute, rows[i]["text"], rows[j]["text"]) for i, j in order]
    verdicts = judge(task, pairs)
    total, count = np.zeros(len(rows)), np.zeros(len(rows))
    for (i, j), margin in zip(order, verdicts.better - verdicts.worse, strict=True):
        if not np.isnan(margin):
            total[i] += margin
            total[j] -= margin
            count[[i, j]] += 1
    return np.where(count > 0, total / np.maximum(count, 1), np.nan).tolist()


def _mean(values: np.ndarray) -> float:
    return round(float(np.mean(values)), 3) if len(values) else float("nan")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="nano")
    parser.add_argument("--corpora", type=Path, required=True)
    parser.add_argument("--benchmarks", type=Path)
    parser.add_argument("--groups", type=int, default=20, help="held-out groups an attribute")
    parser.add_argument("--contexts", type=int, default=None, help="benchmark contexts; default all")
    parser.add_argument("--out", type=Path, default=Path("training/nano-v0.json"))
    args = parser.parse_args()
    began = time.time()
    judge = Judge(open_engine(args.model))
    made = heldout_groups(args.corpora, args.groups)
    report: dict[str, Any] = {"model": str(judge.engine.signature)}
    report["pairs"] = pairs_part(judge, made)
    print(json.dumps(report["pairs"]), flush=True)
    report["surface"] = surface_part(judge, made, 15)
    report["damage"] = damage_part(judge, made, 12)
    if args.benchmarks:
        report["people"] = {
            "summeval": people_part(judge, args.benchmarks, "summeval", "summarization", args.contexts),
            "topicalchat": people_part(judge, args.benchmarks, "topicalchat", "dialogue", args.contexts),
        }
    report["minutes"] = round((time.time() - began) / 60, 1)
    args.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(report))


if __name__ == "__main__":
    main()
