"""What the curated ladders are, counted from the files that are released: the figures of their card.

    python -m benchmarks.curated [FOLDER] [--write]
    python -m benchmarks.curated --hands nano        results/curated_hands.txt

Prints them as Markdown; --write puts them into the folder's README.md, between its marks, and into figures.json.
--hands: how far the scores of the same texts move, by this judge, from one hand's ladder to another's.

The blind reading: somebody who had not written a ladder saw its five texts shuffled, as A to E, with the context and
the attribute, and put them in order. A line of blind.jsonl is one reading: `shown` are the levels of A to E, `order`
the letters, worst first; `guess` is the attribute as told, where it was hidden; `hash` is the ladder's, so that no
reading counts for other texts than those that were read.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from scipy.stats import spearmanr

from benchmarks import ladder_counts
from synthscore.checking.counts import words_of
from synthscore.engine import Engine
from synthscore.engines import open_judge
from synthscore.judging.asking import Asking
from synthscore.ladders.references import References
from synthscore.scoring.scorer import Scorer
from synthscore.types import Ladder, Target

FOLDER = Path(__file__).parents[1] / "data/references/curated"
RESULTS = Path(__file__).parent / "results"
BEGIN, END = "<!-- figures: python -m benchmarks.curated --write -->\n", "<!-- end of the figures -->\n"
CEILING = 0.15  # of a count's mean Spearman with the rung, in a task
ABOUT = {  # attributes that a count is about, and may go with: their ladders are apart in the task's mean of it
    ("summarization", "coherence"): ("runs in the source's order",),  # the order of telling
    ("summarization", "relevance"): ("place of the runs",),  # news and reports begin with what matters
    ("support_replies", "resolution"): ("place of the runs", "pairs of the source's end"),  # the agent's facts are last
}
HARDLY, WELL = 0.6, 0.8  # shares of pairs that counts order
SPREAD = 0.10  # of a rung's length, from its ladder's mean
GROUP_COLUMNS = {
    "task": "task", "attribute": "attribute", "ladders": "ladders", "train": "train", "test": "test",
    "second_and_third": "2nd, 3rd hand", "words": "words", "read_blind": "read blind", "tau_mean": "tau, mean",
    "tau_lowest": "lowest", "counts_order": "counts",
}  # fmt: skip
FORMS = {"words": "{:.0f}", "tau_mean": "{:.3f}", "tau_lowest": "{:.1f}",
         "counts_order": "{:.0%}", "length_spread_mean": "{:.1%}", "length_spread_largest": "{:.1%}"}  # fmt: skip
TEXT = """\
**{ladders} ladders** ({texts} texts) on {contexts} contexts: {train} in `train`, {test} in `test`, {second_and_third}
by second and third hands on {contexts_with_more_hands} of the test contexts.

**Blind reading**: {read_blind} ladders were read, {unread} not. Kendall's tau with the order as written is
{tau_mean} in the mean, {tau_lowest} at the lowest; {read_as_written} were put in the very order. **Of
{ladders_with_a_remark} of them ({remarked:.0%}) the reader remarked that something else differs too** (`blind.jsonl`,
`other`): this is what those readers found, who are language models, and no count.
{attribute_hidden} readings, of ladders drawn at
random, were made with the attribute hidden among those of the task: it was told in {attribute_guessed}.

**Counts order {counts_order} of all pairs of rungs**: the 21 counts of `synthscore doctor` (length of words and
sentences, punctuation, function words, what is copied), weighed by a regression that was fitted on the ladders of
other contexts, attribute by attribute; half is chance. Column `counts`: the share by attribute.
They order less than {hardly:.0%} in {counts_weak}.
In {counts_strong} they order {well:.0%} and more.

**Length**: the rung furthest from its ladder's mean is {length_spread_mean} of the mean away, in the mean over ladders,
and {length_spread_largest} in the worst; {ladders_beyond_10_percent} ladders are beyond 10 %.

{groups}

**Counts**: mean Spearman of each count with the rung, by task; a star: beyond {ceiling}, the ceiling that was set.
In brackets: without the attributes that the count is about ({about}); the star is theirs.
`together`: all counts weighed by a ridge regression, fitted on the ladders of other contexts, attribute by attribute.

{counts}

Single counts beyond the ceiling:

{missed}
"""


@dataclass(frozen=True)
class Released:
    """A ladder as it is released. tau : of its blind readings, the mean; None where it was not read"""

    ladder: Ladder
    split: str
    hand: int
    tau: float | None
    where: tuple[tuple[str, ...], ...]

    @property
    def key(self) -> tuple[str, str, str, int]:
        return self.ladder.task, self.ladder.context_id, self.ladder.attribute, self.hand

    @property
    def spread(self) -> float:
        """How far a rung's length is from the ladder's mean, at most: a share of the mean."""
        n = np.array([len(words_of(rung.text)) for rung in self.ladder.rungs])
        return float(np.abs(n / n.mean() - 1).max())


def released(folder: Path) -> list[Released]:
    found = []
    for path in sorted(set(folder.glob("*/*.parquet")) - set(folder.glob("first24/*"))):
        rows: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
        for row in pq.read_table(path).to_pylist():
            rows.setdefault((row["task"], row["context_id"], row["attribute"]), []).append(row)
        for ladder in References.load(path):
            own = sorted(rows[ladder.task, ladder.context_id, ladder.attribute], key=lambda row: row["level"])
            where = tuple(tuple(row["where"]) for row in own)
            found.append(Released(ladder, own[0]["split"], own[0]["hand"], own[0]["kendall_tau"], where))
    return found


def readings(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "blind.jsonl").read_text(encoding="utf-8").splitlines()]


def _ladder_of(reading: dict[str, Any]) -> tuple[str, ...]:
    return tuple(str(reading[name]) for name in ("task", "context_id", "attribute", "hand"))


def tau(reading: dict[str, Any]) -> float:
    """Kendall's tau of the order as read with the order as written, 1: the same."""
    levels = [reading["shown"]["ABCDE".index(letter)] for letter in reading["order"]]
    pairs = [1 if worse < better else -1 for worse, better in combinations(levels, 2)]
    return sum(pairs) / len(pairs)


def figures(folder: Path) -> dict[str, Any]:
    """All that the card says in numbers."""
    ladders, read = released(folder), readings(folder)
    counts = ladder_counts.figures([one.ladder for one in ladders])
    in_order = {key: values[ladder_counts.IN_ORDER] for key, values in counts.items()}
    groups: dict[tuple[str, str], list[Released]] = defaultdict(list)
    for one in ladders:
        groups[one.ladder.task, one.ladder.attribute].append(one)
        groups[one.ladder.task, ""].append(one)
    hands: dict[str, set[int]] = defaultdict(set)
    for one in ladders:
        hands[one.ladder.context_id].add(one.hand)
    hidden = [reading for reading in read if reading["guess"]]
    return {
        "contexts": len(hands),
        "contexts_with_more_hands": sum(len(own) > 1 for own in hands.values()),
        **_figures_of(ladders),
        "attribute_hidden": len(hidden),
        "attribute_guessed": sum(reading["guess"] == reading["attribute"] for reading in hidden),
        "ladders_with_a_remark": len({_ladder_of(reading) for reading in read if reading["other"]}),
        "counts_order": float(np.average([in_order[key] for key in groups if not key[1]],
                                         weights=[len(own) for key, own in groups.items() if not key[1]])),
        "groups": [{"task": task, "attribute": attribute, **_figures_of(own), "counts_order": in_order[task, attribute],
                    "counts": {name: value for name, value in counts[task, attribute].items()
                               if name != ladder_counts.IN_ORDER},
                    "held": {} if attribute else _held(counts, task)}
                   for (task, attribute), own in sorted(groups.items())],
    }  # fmt: skip


def _figures_of(ladders: Sequence[Released]) -> dict[str, Any]:
    taus = [one.tau for one in ladders if one.tau is not None]
    words = [len(words_of(rung.text)) for one in ladders for rung in one.ladder.rungs]
    return {
        "ladders": len(ladders),
        "train": sum(one.split == "train" for one in ladders),
        "test": sum(one.split == "test" and one.hand == 1 for one in ladders),
        "second_and_third": sum(one.hand > 1 for one in ladders),
        "words": float(np.mean(words)),
        "length_spread_mean": float(np.mean([one.spread for one in ladders])),
        "length_spread_largest": max(one.spread for one in ladders),
        "ladders_beyond_10_percent": sum(one.spread > SPREAD for one in ladders),
        "read_blind": len(taus),
        "tau_mean": float(np.mean(taus)) if taus else None,
        "tau_lowest": min(taus, default=None),
        "read_as_written": sum(value == 1 for value in taus),
    }


def _held(counts: Mapping[tuple[str, str], Mapping[str, float]], task: str) -> dict[str, float]:
    """Each count's mean over the ladders of the task's attributes that it is not about."""
    own = {attribute: values for (of, attribute), values in counts.items() if of == task and attribute}
    found = {}
    for name in next(iter(own.values())):
        if name == ladder_counts.IN_ORDER:
            continue
        rest = [values for attribute, values in own.items() if name not in ABOUT.get((task, attribute), ())]
        found[name] = float(np.average([each[name] for each in rest], weights=[each["ladders"] for each in rest]))
    return found


def misses(found: dict[str, Any]) -> dict[str, list[str]]:
    """task -> the counts that go with the rung further than they may, `together` aside"""
    return {
        group["task"]: [
            name
            for name, value in group["held"].items()
            if name not in ("ladders", "together") and abs(value) > CEILING
        ]
        for group in found["groups"]
        if not group["attribute"]
    }


def markdown(found: dict[str, Any]) -> str:
    """The figures as the card has them."""
    own = [group for group in found["groups"] if group["attribute"]]
    tasks = [group for group in found["groups"] if not group["attribute"]]
    numbers = {name: _cell(value, FORMS.get(name, "{}")) for name, value in found.items() if name != "groups"}
    texts, unread = f"{5 * found['ladders']:,}", found["ladders"] - found["read_blind"]
    rows = ([_cell(group[name], FORMS.get(name, "{}")) for name in GROUP_COLUMNS] for group in own)
    of_count = (
        [name, *(_held_cell(group, name) for group in tasks)] for name in tasks[0]["counts"] if name != "ladders"
    )
    weak, strong = (
        ", ".join(f"{group['task']}/{group['attribute']}" for group in own if chosen(group["counts_order"]))
        for chosen in (lambda share: share < HARDLY, lambda share: share >= WELL)
    )
    missed = (f"- {task}: {', '.join(names) or 'none'}" for task, names in misses(found).items())
    return TEXT.format(
        **numbers,
        remarked=found["ladders_with_a_remark"] / found["read_blind"],
        counts_weak=weak,
        counts_strong=strong,
        hardly=HARDLY,
        well=WELL,
        texts=texts,
        unread=unread,
        ceiling=CEILING,
        about="; ".join(f"{' and '.join(names)}: {task}/{attribute}" for (task, attribute), names in ABOUT.items()),
        groups=_table(list(GROUP_COLUMNS.values()), rows),
        counts=_table(["count", *(group["task"] for group in tasks)], of_count),
        missed="\n".join(missed),
    )


def _cell(value: object, form: str) -> str:
    return "" if value is None else form.format(value)


def _held_cell(group: dict[str, Any], name: str) -> str:
    value, held = group["counts"][name], group["held"][name]
    apart = any(name in names for (task, _), names in ABOUT.items() if task == group["task"])
    return f"{value:+.2f}{f' ({held:+.2f})' if apart else ''}{'*' if abs(held) > CEILING else ''}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows))


def with_figures(card: str, found: dict[str, Any]) -> str:
    """The card with these figures in the place of those that it has."""
    before, rest = card.split(BEGIN)
    return before + BEGIN + "\n" + markdown(found) + "\n" + END + rest.split(END)[1]


def movement(ladders: Sequence[Released], judge: Engine) -> str:
    """Of the texts of each hand, scored on the ladders of the two others: a table by task.

    moved: mean distance of a text's two scores; as one: mean size of the mean difference of a ladder's five texts;
    spread: standard deviation of all scores; rungs. same order: Spearman's correlation of the five texts' two scores.
    +-: standard error over contexts.
    """
    hands: dict[tuple[str, str, str], dict[int, Ladder]] = defaultdict(dict)
    for one in ladders:
        hands[one.key[:3]][one.hand] = one.ladder
    found: dict[str, dict[str, list[np.ndarray]]] = defaultdict(lambda: defaultdict(list))
    for (task, context_id, attribute), own in hands.items():
        for hand in own if len(own) == 3 else ():
            texts = [Target(f"{rung.level}", context_id, rung.text) for rung in own[hand].rungs]
            pair = [References((ladder,)) for other, ladder in own.items() if other != hand]
            asking = Asking(both_orders=True)
            both = [Scorer(on, judge, task=task, attribute=attribute, asking=asking).score(texts) for on in pair]
            values = np.array([[np.nan if score.value is None else score.value for score in of] for of in both])
            found[task][context_id].append(values)
    rows = []
    for task, contexts in sorted(found.items()):
        means = np.array([np.mean([moved(values) for values in own], axis=0) for own in contexts.values()])
        of_all = [values for own in contexts.values() for values in own]
        error = f"{means[:, 0].std(ddof=1) / len(means) ** 0.5:.2f}" if len(means) > 1 else "-"
        distance, as_one, same = means.mean(axis=0)
        n = 5 * len(of_all)
        cells = (f"{distance:.2f}", error, f"{as_one:.2f}", f"{np.std(of_all):.2f}", f"{same:+.2f}")
        rows.append((task, str(len(means)), str(n), *cells))
    return _table(("task", "contexts", "texts", "moved", "+-", "as one", "spread", "same order"), rows)


def moved(values: np.ndarray) -> tuple[float, float, float]:
    """Mean distance of the texts' two scores, size of their mean difference, Spearman's correlation; shape (2, n)."""
    difference = values[0] - values[1]
    same = float(spearmanr(values[0], values[1]).statistic)
    return float(np.abs(difference).mean()), float(abs(difference.mean())), same


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=FOLDER)
    parser.add_argument("--write", action="store_true", help="into the folder's README.md and figures.json")
    parser.add_argument("--hands", metavar="JUDGE", help="how far scores move from one hand's ladder to another's")
    args = parser.parse_args()
    if args.hands:
        table = movement(released(args.folder), open_judge(args.hands))
        print(table)
        (RESULTS / "curated_hands.txt").write_text(f"{args.hands}, both orders\n\n{table}\n", encoding="utf-8")
        return
    found = figures(args.folder)
    print(markdown(found), end="")
    if args.write:
        (args.folder / "figures.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        card = args.folder / "README.md"
        card.write_text(with_figures(card.read_text(encoding="utf-8"), found), encoding="utf-8")


if __name__ == "__main__":
    main()
