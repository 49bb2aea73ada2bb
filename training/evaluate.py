"""A finished judge -> the numbers of its card, measured on texts that it was not trained on.

    python -m training.evaluate --model data/nano --corpora ../corpora --benchmarks ../benchmarks

Writes one JSON object to --out, where parts that were measured before stay. Parts: `damage` (each kind against the
undamaged text), `pairs` (graded groups: sign accuracy by severity gap, calibration, antisymmetry, position), `apart`
(are attributes told apart?), `surface` (does the look of a text change its verdict?), `speed`, `facts`
(true and false summaries of articles of our own), `filter` (the scores of good and bad summaries of these articles, and
what a threshold keeps), `people` (per-context Spearman on human ratings, beside floors that cost nothing, with paired
intervals).

Recipes are chosen on --half choose of the documents and of the rated contexts; --half report is looked at once.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from synthscore.degrade.damage import damage_path, damages
from synthscore.degrade.edits import Material
from synthscore.degrade.reading import sentences
from synthscore.engine import Engine, label_log_probs
from synthscore.engines import open_engine
from synthscore.engines.counts import SourceText
from synthscore.engines.isolated import IsolatedEngine
from synthscore.errors import DegradeError
from synthscore.evaluation.agreement import agreement, difference
from synthscore.evaluation.methods import Tools, method
from synthscore.evaluation.ratings import RatedText, Ratings
from synthscore.judging.asking import Asking, Pair, Verdicts, ask
from synthscore.judging.templates import load_task
from synthscore.ladders.degraded import DegradedWriter
from synthscore.ladders.references import References
from synthscore.ladders.write import generate_ladders
from synthscore.scoring.scorer import Scorer
from synthscore.types import Context, IntArray, Target

from .corpora import HALVES, heldout
from .examples import templates_of_tasks
from .groups import Group, groups
from .phrases import surface
from .weights import begins

RATED = {"summeval": "summarization", "topicalchat": "dialogue"}  # benchmark -> task
SPEED_TEXT = "the river rose after the rain and people of the town left their houses before night"
FACTS = Path("tests/data/facts.jsonl")  # articles, true and false summaries of them: nothing was ever trained on these
PARTS = ("pairs", "apart", "surface", "speed", "damage", "facts", "filter", "people")
OF_GROUPS = ("pairs", "apart", "surface", "damage")  # parts about groups of held-out documents
KEPT = 3.5  # rungs: the threshold of `filter`
GAPS = ((0.0, 0.3), (0.3, 0.6), (0.6, 1.01))


class Judge:
    """An engine with the templates of every task."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.templates = templates_of_tasks()

    def __call__(self, task: str, pairs: Sequence[Pair], **options: Any) -> Verdicts:
        return ask(pairs, self.engine, self.templates[task], Asking(min_mass=0.0, **options))


def heldout_groups(corpora: Path, n: int, half: str) -> list[Group]:
    """Up to n groups of each (task, attribute), from held-out documents."""
    made: dict[tuple[str, str], list[Group]] = defaultdict(list)
    for seed in range(8):  # the held-out documents are few: pass over them again with other draws
        for group in groups(heldout(corpora, half), np.random.default_rng(1000 + seed)):
            key = (group.task, group.attribute)
            if len(made[key]) < n:
                made[key].append(group)
    return [group for key in sorted(made) for group in made[key]]


@dataclass(frozen=True, slots=True, eq=False)
class LabelledPairs:
    """What the judge said of pairs whose severities are known; rows 2k and 2k + 1 are a pair in its two orders.

    probs : float64, shape (n, 3), of Better, Worse, Similar. gap : shape (n,), how much less damage the text asked
        about has. mass : label mass. n_failed : pairs left out, because one order could not be asked
    """

    probs: np.ndarray
    gap: np.ndarray
    mass: np.ndarray
    n_failed: int

    @property
    def truth(self) -> np.ndarray:
        """The right label's place, shape (n,)."""
        return np.where(self.gap > 0, 0, np.where(self.gap < 0, 1, 2))

    @property
    def margin(self) -> np.ndarray:
        """P(Better) - P(Worse), shape (n,)."""
        return np.asarray(self.probs[:, 0] - self.probs[:, 1])

    @property
    def right(self) -> np.ndarray:
        """Does the margin have the gap's sign? Shape (n,)."""
        return np.asarray(np.sign(self.margin) == np.sign(self.gap))


def labelled_pairs(judge: Judge, made: Sequence[Group], task: str, attribute: str) -> LabelledPairs:
    """All pairs of texts of each group of this task and attribute, in both orders, asked with `compare`."""
    pairs, gaps = [], []
    for group in made:
        if (group.task, group.attribute) != (task, attribute):
            continue
        context = Context("group", group.context, group.facts)
        for i, j in combinations(range(len(group.texts)), 2):
            for a, b in ((i, j), (j, i)):
                pairs.append(Pair(context, attribute, group.texts[a], group.texts[b]))
                gaps.append(group.severities[b] - group.severities[a])
    said = judge(task, pairs)
    whole = np.repeat(~np.isnan(said.better).reshape(-1, 2).any(axis=1), 2)
    probs = np.stack([said.better, said.worse, said.similar], axis=1)
    n_failed = len({row // 2 for row in said.failures})
    return LabelledPairs(probs[whole], np.array(gaps)[whole], said.label_mass[whole], n_failed)


def pairs_part(judge: Judge, made: Sequence[Group]) -> dict[str, Any]:
    """Graded groups: by task and attribute, and all together."""
    out: dict[str, Any] = {}
    found: list[LabelledPairs] = []
    for task, attribute in sorted({(group.task, group.attribute) for group in made}):
        said = labelled_pairs(judge, made, task, attribute)
        row: dict[str, float] = {"n": len(said.gap), "failed": said.n_failed}
        for low, high in GAPS:
            inside = (np.abs(said.gap) > max(low, 1e-9)) & (np.abs(said.gap) <= high)
            row[f"sign@{low}-{min(high, 1.0)}"] = _mean(said.right[inside])
        row["sign"] = _mean(said.right[said.gap != 0])
        row["sign_at_gap_half_or_more"] = _mean(said.right[np.abs(said.gap) >= 0.5])
        row["three_way"] = _mean(said.probs.argmax(1) == said.truth)
        row["antisymmetry"] = antisymmetry(said.margin)
        row["position"] = float(said.margin.mean())  # 0: what is asked about is favoured as often as the other
        out[f"{task}/{attribute}"] = row
        found.append(said)
    together = LabelledPairs(
        *(np.concatenate([getattr(said, name) for said in found]) for name in ("probs", "gap", "mass")), 0
    )
    return {
        "by_attribute": out,
        "antisymmetry": antisymmetry(together.margin),
        "position": float(together.margin.mean()),
        "sign_at_gap_half_or_more": _mean(together.right[np.abs(together.gap) >= 0.5]),
        "label_mass_mean": float(together.mass.mean()),
        "label_mass_min": float(together.mass.min()),
        "calibration_error": calibration_error(together.probs, together.truth),
        "reliability": reliability(together.probs, together.truth),
        "n": len(together.gap),
    }


def antisymmetry(margin: np.ndarray) -> float:
    """Correlation of the verdict with the negative of the verdict in the other order."""
    return float(np.corrcoef(margin[::2], -margin[1::2])[0, 1])


def reliability(probs: np.ndarray, truth: np.ndarray, bins: int = 10) -> list[tuple[float, float, int]]:
    """(mean probability of the most probable label, share of it being right, number) of each equal-width bin."""
    confidence, right = probs.max(1), probs.argmax(1) == truth
    place = np.minimum((confidence * bins).astype(int), bins - 1)
    return [
        (float(confidence[place == b].mean()), float(right[place == b].mean()), int((place == b).sum()))
        for b in np.unique(place)
    ]


def calibration_error(probs: np.ndarray, truth: np.ndarray) -> float:
    """Expected calibration error: what confidence and share right differ by, over the bins of `reliability`."""
    return sum(abs(said - right) * n for said, right, n in reliability(probs, truth)) / len(truth)


def apart_part(judge: Judge, made: Sequence[Group], n: int) -> dict[str, dict[str, float]]:
    """Correlation between what the judge says of two attributes of a task, over the same pairs of texts: the best and
    the worst of n groups of each attribute, in both orders, averaged. 1: it cannot tell the attributes apart."""
    out: dict[str, dict[str, float]] = {}
    for task in sorted({group.task for group in made}):
        names = sorted({group.attribute for group in made if group.task == task})
        chosen = [group for name in names for group in [g for g in made if (g.task, g.attribute) == (task, name)][:n]]
        margins = []
        for name in names:
            pairs = []
            for group in chosen:
                context = Context("group", group.context, group.facts)
                good, bad = (group.texts[int(at)] for at in (np.argmin(group.severities), np.argmax(group.severities)))
                pairs += [Pair(context, name, good, bad), Pair(context, name, bad, good)]
            verdicts = judge(task, pairs)
            both = (verdicts.better - verdicts.worse).reshape(-1, 2)
            margins.append((both[:, 0] - both[:, 1]) / 2)
        known = ~np.isnan(margins).any(axis=0)
        found = np.corrcoef(np.array(margins)[:, known])
        out[task] = {
            f"{names[i]}/{names[j]}": round(float(found[i, j]), 3) for i in range(len(names)) for j in range(i)
        }
    return out


def speed_part(engine: Engine, lengths: Sequence[int] = (500, 2000, 8000), n_rungs: int = 5) -> dict[str, Any]:
    """Contexts of so many words, eight texts of sixty against five rungs: verdicts, and tokens that are run over, in a
    second of processor time (not by the clock: that is the machine's, too)."""
    rng = np.random.default_rng(0)
    words = SPEED_TEXT.split()
    out = {}
    for n_words in (100, *lengths):  # the first to warm up
        context, *texts = [
            " ".join(words[int(i)] for i in rng.integers(len(words), size=n))
            for n in (n_words, *([60] * (n_rungs + 8)))
        ]
        pairs = [(text, rung) for text in texts[n_rungs:] for rung in texts[:n_rungs]]
        templates = templates_of_tasks()["summarization"]
        prompts = [
            templates.compare(Context("x", context), templates.task.attribute("coherence"), target=one, reference=other)
            for one, other in pairs
        ]
        began = time.process_time()
        said = label_log_probs(engine, prompts, ("Better", "Worse", "Similar"))
        seconds = time.process_time() - began
        out[f"{n_words}"] = {
            "verdicts_per_second": round(len(prompts) / seconds, 1),
            "tokens_per_second": round(said.usage.n_computed / seconds),
            "unscored": len(said.failures),
        }
    return {length: row for length, row in out.items() if length != "100"}


def damage_part(judge: Judge, made: Sequence[Group], n: int) -> dict[str, Any]:
    """Each kind of damage: one edit against the undamaged text, and half of the full severity; share ranked right."""
    out = {}
    for name, damage in damages().items():
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
                        path = list(damage_path(good, [name], rng, material))
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


def benchmark(file: Path, half: str, n_contexts: int | None) -> list[dict[str, Any]]:
    """Rated texts of the first contexts (by id) of the half: to choose on the first half of all, to report the rest."""
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    ids = sorted({row["context_id"] for row in rows})
    middle = len(ids) // 2
    chosen = set((ids[:middle] if half == "choose" else ids[middle:])[:n_contexts])
    return [row for row in rows if row["context_id"] in chosen and row["text"].strip()]


def people_part(judge: Judge, folder: Path, name: str, task: str, half: str, n_contexts: int | None) -> dict[str, Any]:
    """Per-context Spearman of the judge, all pairs, and of floors that cost nothing; and how much the judge is above
    each of them, with a 95 % interval over contexts, paired."""
    rows = benchmark(folder / f"{name}.jsonl.gz", half, n_contexts)
    ids = [row["context_id"] for row in rows]
    contexts = {row["context_id"]: Context(row["context_id"], row["context"], row.get("facts") or "") for row in rows}
    out: dict[str, Any] = {"n_contexts": len(contexts), "n_texts": len(rows), "half": half}
    for attribute in [name for name in rows[0]["human"] if name in load_task(task).attributes]:
        human = [row["human"][attribute] for row in rows]
        methods: dict[str, Sequence[float]] = {
            "nano": all_pairs(judge, task, attribute, rows, contexts),
            **floors(judge, task, attribute, rows, contexts),
        }
        out[attribute] = {}
        for way, values in methods.items():
            said, above = agreement(values, human, ids), difference(methods["nano"], values, human, ids)
            out[attribute][way] = {"spearman": said.value, "stderr": said.stderr, "contexts": said.n_contexts}
            out[attribute][way] |= {"unscored": int(np.isnan(values).sum())}
            if way != "nano":
                out[attribute][way] |= {"nano_above": above.value, "low": above.low, "high": above.high}
        print(name, attribute, {key: round(value["spearman"], 2) for key, value in out[attribute].items()}, flush=True)
    return out


def floors(
    judge: Judge, task: str, attribute: str, rows: Sequence[dict[str, Any]], contexts: Mapping[str, Context]
) -> dict[str, list[float]]:
    """What costs nothing: the counts that the judge itself leans by, alone; and the floors of `evaluate`."""
    texts = tuple(
        RatedText(f"{i}", row["context_id"], row["system"], row["text"], row["human"]) for i, row in enumerate(rows)
    )
    ratings = Ratings("rated", texts, (attribute,), contexts)
    found = {"counts": counts_alone(judge, task, attribute, rows)}
    for name in ("copied-span", "overlap:words=letters", "length", "type-token-ratio", "random"):
        found[name.partition(":")[0]] = method(name)(ratings, attribute, Tools(judge.engine)).values.tolist()
    return found


def counts_alone(judge: Judge, task: str, attribute: str, rows: Sequence[dict[str, Any]]) -> list[float]:
    """What counts say of each text, nats; 0 of all where the judge has no weights."""
    engine = judge.engine
    if not isinstance(engine, IsolatedEngine):
        return [0.0] * len(rows)

    def ids(text: str) -> IntArray:
        return np.array(engine.prompts.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"], dtype=int)

    weights = engine.counted.weights(ids(begins(task, attribute)))
    sources: dict[str, SourceText] = {}
    found = []
    for row in rows:
        if row["context_id"] not in sources:
            text = f"{row['context']}\n{row.get('facts') or ''}"
            sources[row["context_id"]] = SourceText(ids(text), engine.counted.vocabulary)
        counts = sources[row["context_id"]].counts(ids(row["text"]))
        found.append(0.0 if weights is None else float(weights @ counts))
    return found


def facts_part(judge: Judge, file: Path) -> dict[str, dict[str, list[float]]]:
    """Articles of our own: [share in order, pairs] of a true summary against its false twin, by what is turned round;
    against the article's words in no order; and of a good summary against a copy of the article's first sentence."""
    margins: dict[str, list[float]] = defaultdict(list)
    rng = np.random.default_rng(0)

    def add(kind: str, attribute: str, context: Context, good: str, bad: str) -> None:
        said = judge("summarization", [Pair(context, attribute, good, bad), Pair(context, attribute, bad, good)])
        margins[kind].append(float((said.better - said.worse) @ [0.5, -0.5]))

    with open(file, encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            context, words = Context(row["id"], row["document"]), row["document"].split()
            for pair in row["pairs"]:
                salad = " ".join(words[int(i)] for i in rng.permutation(len(words))[: len(pair["true"].split())])
                add(f"true and false: {pair['kind']}", "consistency", context, pair["true"], pair["false"])
                add("true and word salad", "consistency", context, pair["true"], salad)
            for attribute in load_task("summarization").attributes:
                add(f"good and first sentence: {attribute}", attribute, context, row["good"], row["copied"])
    return {kind: [round(float(np.mean(np.array(said) > 0)), 3), len(said)] for kind, said in sorted(margins.items())}


def lead(document: str, n_words: int) -> str:
    """The document's first sentences, as many as it takes to have n_words words or more."""
    copied: list[str] = []
    for sentence in sentences(document):
        if len(" ".join(copied).split()) >= n_words:
            break
        copied.append(sentence.strip())
    return " ".join(copied)


def summaries(row: Mapping[str, Any], other: Mapping[str, Any], rng: np.random.Generator) -> list[tuple[str, str]]:
    """Kinds of summaries of an article of our own, and their texts: a good one, that of another article, the article's
    lead and a word salad as long as the good one, and sentences about the article, true and false."""
    words = row["document"].split()
    n_words = len(row["good"].split())
    salad = " ".join(words[int(place)] for place in rng.permutation(len(words))[:n_words])
    found = [("good", row["good"]), ("off topic", other["good"])]
    found += [("copied lead", lead(row["document"], n_words)), ("word salad", salad)]
    for pair in row["pairs"]:
        found += [("true sentence", pair["true"]), ("false sentence", pair["false"])]
    return found


def filter_part(engine: Engine, file: Path, threshold: float = KEPT) -> dict[str, Any]:
    """Articles of our own, and the ladders that `generate` makes of them without a model: by attribute the scores of
    kinds of summaries, what the threshold keeps of them, and where a copied lead is above a good summary."""
    with open(file, encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    task = load_task("summarization")
    contexts = [Context(row["id"], row["document"]) for row in rows]
    references = References(generate_ladders(contexts, task, list(task.attributes), DegradedWriter(), n_rungs=5))
    rng = np.random.default_rng(0)
    named = [
        (row["id"], kind, text)
        for row, other in zip(rows, [*rows[1:], rows[0]], strict=True)
        for kind, text in summaries(row, other, rng)
    ]
    targets = [Target(f"{number}", context_id, text) for number, (context_id, _, text) in enumerate(named)]
    out: dict[str, Any] = {"threshold": threshold}
    for attribute in task.attributes:
        scores = Scorer(references, engine, task="summarization", attribute=attribute).score(targets)
        by_kind: dict[str, list[float]] = defaultdict(list)
        for (_, kind, _), score in zip(named, scores, strict=True):
            by_kind[kind].append(np.nan if score.value is None else score.value)
        table: dict[str, Any] = {}
        for kind, listed in by_kind.items():
            values = np.array(listed)
            known = values[~np.isnan(values)]
            table[kind] = {
                "texts": len(values),
                "unscored": len(values) - len(known),
                "mean": round(float(known.mean()), 2),
                "kept": int((known >= threshold).sum()),
            }
        above = np.array(by_kind["copied lead"]) - np.array(by_kind["good"])
        above = above[~np.isnan(above)]
        out[attribute] = {"kinds": table, "lead_above_good": [int((above > 0).sum()), len(above)]}
    return out


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


def begun(out: Path, model: str, half: str) -> dict[str, Any]:
    """The report that is there already, or a new one; an error if it is of another judge or half."""
    new: dict[str, Any] = {"model": model, "half": half, "groups": {}}
    if not out.exists():
        return new
    found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    for key in ("model", "half"):
        if found[key] != new[key]:
            raise SystemExit(f"{out} has {key} {found[key]!r}, expected {new[key]!r}: take another --out")
    return new | found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="nano")
    parser.add_argument("--corpora", type=Path, required=True)
    parser.add_argument("--benchmarks", type=Path)
    parser.add_argument("--half", choices=HALVES, default="choose")
    parser.add_argument("--groups", type=int, default=20, help="held-out groups an attribute")
    parser.add_argument("--contexts", type=int, default=None, help="benchmark contexts of the half; default all")
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=PARTS)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    judge = Judge(open_engine(args.model, dtype="float32"))  # as open_engine("nano") does
    made = heldout_groups(args.corpora, args.groups, args.half) if set(args.parts) & set(OF_GROUPS) else []
    report = begun(args.out, str(judge.engine.signature), args.half)
    measures: dict[str, Callable[[], Any]] = {
        "pairs": lambda: pairs_part(judge, made),
        "apart": lambda: apart_part(judge, made, 10),
        "surface": lambda: surface_part(judge, made, 15),
        "speed": lambda: speed_part(judge.engine),
        "damage": lambda: damage_part(judge, made, 12),
        "facts": lambda: facts_part(judge, FACTS),
        "filter": lambda: filter_part(judge.engine, FACTS),
        "people": lambda: {
            name: people_part(judge, args.benchmarks, name, task, args.half, args.contexts)
            for name, task in RATED.items()
        },
    }
    for part in args.parts:
        if part == "people" and not args.benchmarks:
            continue
        report[part] = measures[part]()
        if part in OF_GROUPS:
            report["groups"][part] = args.groups
        if part != "people":  # which prints as it goes
            print(part, json.dumps(report[part]), flush=True)
        args.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
