"""What the generated ladders are, counted from the files that are released: the figures of their card.

    python -m benchmarks.generated [--write]

Prints them as Markdown; --write puts them into the card, between its marks.

The blind reading, blind.jsonl: somebody saw the rungs of a ladder shuffled, as A, B, ..., with context and attribute,
and put them in order. `shown` are the levels of A, B, ...; `order` the letters, worst first; `hash` is the ladder's.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import spearmanr

from benchmarks.ladder_counts import IN_ORDER, spearman
from benchmarks.ladder_counts import figures as count_figures
from synthscore.checking.counts import words_of
from synthscore.ladders.references import References
from synthscore.types import Ladder, grouped
from training.generated import OWN, SETS

FOLDER = Path(__file__).parents[1] / "data/references/generated"
BLIND = "blind.jsonl"
BEGIN, END = "<!-- figures: python -m benchmarks.generated --write -->\n", "<!-- end of the figures -->\n"
N_READ = 40
CEILING = 0.2  # of the mean Spearman of length and rung in a task
TEXT = """\
{n_ladders} ladders, {n_rungs:,} rungs, {n_failed} of them failed; {n_nines} ladders have nine rungs, {n_fives} five.
{n_again} rungs were asked for a second time, because the first text was refused.

{sets}

**Blind reading.** {n_read} ladders, {n_read_rungs} rungs: Spearman's correlation of the order as read with the order
as written is {rho_mean:.3f} in the mean, {rho_lowest:.2f} at the lowest; {n_as_written} were put in the very order;
{n_in_order} of {n_pairs} pairs of rungs ({in_order:.1%}) are in order, of neighbours {n_steps_in_order} of {n_steps}.

**Length.** Mean over ladders of Spearman's correlation of words and rung; a star: beyond {ceiling}, the ceiling that
was set. It was missed in {n_long} of {n_tasks} tasks.

{lengths}

**Counts.** The same for counts of words beside the context, on the project's own contexts; a star: beyond
{ceiling}. `together`: all counts weighed by a ridge regression that was fitted on the ladders of other contexts.
`pairs in order`: the share of pairs of rungs that the 21 counts of `synthscore doctor` order, fitted in the same way.

{counts}
"""


class Reading(NamedTuple):
    """levels : of the rungs in the order as read, worst first"""

    ladder: Ladder
    levels: list[int]


def released(folder: Path = FOLDER) -> dict[str, tuple[Ladder, ...]]:
    """The ladders of each set."""
    return {name: References.load(folder / name).ladders for name in SETS}


def drawn(sets: dict[str, tuple[Ladder, ...]], n: int = N_READ) -> list[tuple[str, Ladder]]:
    """The ladders that were read blind: those whose names have the lowest hashes."""

    def place(one: tuple[str, Ladder]) -> str:
        name, ladder = one
        return sha256("/".join(("blind", name, ladder.task, ladder.context_id, ladder.attribute)).encode()).hexdigest()

    return sorted(((name, ladder) for name, ladders in sets.items() for ladder in ladders), key=place)[:n]


def readings(folder: Path, sets: dict[str, tuple[Ladder, ...]]) -> list[Reading]:
    """raises : KeyError for a reading of other texts than those that are released"""
    by_hash = {ladder.hash: ladder for ladders in sets.values() for ladder in ladders}
    rows = [json.loads(line) for line in (folder / BLIND).read_text(encoding="utf-8").splitlines()]
    return [
        Reading(by_hash[row["hash"]], [row["shown"]["ABCDEFGHI".index(letter)] for letter in row["order"]])
        for row in rows
    ]


def length_figures(ladders: Iterable[Ladder]) -> float:
    """Mean Spearman of words and rung."""
    return float(np.mean([spearman(np.array([len(words_of(rung.text)) for rung in each.usable])) for each in ladders]))


def figures(folder: Path = FOLDER) -> dict[str, Any]:
    """All that the card says in numbers."""
    sets = released(folder)
    ladders = [ladder for each in sets.values() for ladder in each]
    rungs = [rung for ladder in ladders for rung in ladder.rungs]
    read = readings(folder, sets)
    rhos = [float(spearmanr(range(len(each.levels)), each.levels).statistic) for each in read]
    pairs = [worse < better for each in read for worse, better in combinations(each.levels, 2)]
    steps = [each.levels.index(low) < each.levels.index(low + 1) for each in read for low in sorted(each.levels)[:-1]]
    by_task = grouped(((name, ladder.task), ladder) for name, each in sets.items() for ladder in each)
    by_attribute = grouped(
        ((name, ladder.task, ladder.attribute), ladder) for name, each in sets.items() for ladder in each
    )
    return {
        "n_ladders": len(ladders),
        "n_rungs": len(rungs),
        "n_failed": sum(rung.status == "failed" for rung in rungs),
        "n_nines": sum(ladder.n_rungs == 9 for ladder in ladders),
        "n_fives": sum(ladder.n_rungs == 5 for ladder in ladders),
        "n_again": sum(rung.provenance["attempt"] > 1 for rung in rungs),
        "sets": {name: _set_figures(each) for name, each in sets.items()},
        "n_read": len(read),
        "n_read_rungs": sum(len(each.levels) for each in read),
        "rho_mean": float(np.mean(rhos)),
        "rho_lowest": min(rhos),
        "n_as_written": sum(each.levels == sorted(each.levels) for each in read),
        "n_pairs": len(pairs),
        "n_in_order": sum(pairs),
        "in_order": float(np.mean(pairs)),
        "n_steps": len(steps),
        "n_steps_in_order": sum(steps),
        "length_by_task": {key: length_figures(each) for key, each in by_task.items()},
        "length_by_attribute": {key: length_figures(each) for key, each in by_attribute.items()},
        "counts": count_figures(sets[OWN]),
    }


def _set_figures(ladders: Sequence[Ladder]) -> tuple[int, int, int, int]:
    """Contexts, ladders, rungs, ladders of nine."""
    contexts = {(ladder.task, ladder.context_id) for ladder in ladders}
    n_nines = sum(ladder.n_rungs == 9 for ladder in ladders)
    return len(contexts), len(ladders), sum(ladder.n_rungs for ladder in ladders), n_nines


def markdown(found: dict[str, Any]) -> str:
    """The figures as the card has them."""
    sets = [(f"`{name}`", SETS[name], *map(str, counts)) for name, counts in found["sets"].items()]
    lengths = []
    for (name, task), value in found["length_by_task"].items():
        of_task = {key[2]: rho for key, rho in found["length_by_attribute"].items() if key[:2] == (name, task)}
        ranked = sorted(of_task.items(), key=lambda pair: -abs(pair[1]))
        lengths.append((name, task, _starred(value), ", ".join(f"{each} {_starred(rho)}" for each, rho in ranked)))
    tasks = {task: values for (task, attribute), values in found["counts"].items() if not attribute}
    names = next(iter(tasks.values()))
    counts = [(name, *(FORMS.get(name, _starred)(values[name]) for values in tasks.values())) for name in names]
    return TEXT.format(
        **{key: value for key, value in found.items() if key not in ("sets", "counts")},
        ceiling=CEILING,
        n_long=sum(abs(rho) > CEILING for rho in found["length_by_task"].values()),
        n_tasks=len(found["length_by_task"]),
        sets=_table(("set", "contexts of", "contexts", "ladders", "rungs", "of nine"), sets),
        lengths=_table(("set", "task", "length", "by attribute"), lengths),
        counts=_table(("count", *tasks), counts),
    )


def _starred(value: float) -> str:
    return f"{value:+.2f}{'*' * (abs(value) > CEILING)}"


FORMS = {"ladders": "{:.0f}".format, IN_ORDER: "{:.2f}".format}


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows))


def with_figures(card: str, found: dict[str, Any]) -> str:
    """The card with these figures in the place of those that it has."""
    before, rest = card.split(BEGIN)
    return before + BEGIN + "\n" + markdown(found) + "\n" + END + rest.split(END)[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="into the card")
    args = parser.parse_args()
    found = figures()
    print(markdown(found), end="")
    if args.write:
        card = FOLDER / "README.md"
        card.write_text(with_figures(card.read_text(encoding="utf-8"), found), encoding="utf-8")


if __name__ == "__main__":
    main()
