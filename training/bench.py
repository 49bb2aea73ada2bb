"""Checkpoints of short runs -> what their helpers know, in a minute: which kinds of data are worth their tokens?

    python -m training.train --corpora CORPORA --weak-replies FILE --work runs/plain --steps 500
    python -m training.train --corpora CORPORA --weak-replies FILE --work runs/no-machine --steps 500 --without machine
    python -m training.bench runs/plain runs/no-machine --corpora CORPORA --benchmarks BENCHMARKS

The first thousands of groups only teach what texts are worth, with no question asked (train.ALONE_FIRST). So this
reads each text once, as a first text, and takes what the merit helper says of it: the share of held-out pairs that it
puts in the right order, and its Spearman with people inside contexts (the half for choosing). Both are of the helper,
which a finished judge does not have.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from synthscore.engines.isolated import last_hidden
from synthscore.evaluation.agreement import agreement
from synthscore.judging.templates import load_task

from .evaluate import RATED, benchmark, heldout_groups
from .examples import alone, templates_of_tasks
from .groups import Group
from .train import MAX_TOKENS, Trained, fresh


class Bench:
    """A checkpoint of training."""

    def __init__(self, work: Path) -> None:
        model, self.tokenizer, _ = fresh()
        self.trained = Trained(model)
        state = torch.load(work / "checkpoint.pt", weights_only=True)
        self.step = state["step"]
        self.trained.load_state_dict(state["model"])
        self.trained.eval()
        self.templates = templates_of_tasks()

    def merits(self, group: Group) -> np.ndarray | None:
        """Of each text, float64, shape (n_texts,); None where a prompt is too long."""
        made = alone(group, self.templates[group.task], self.tokenizer, max_tokens=MAX_TOKENS)
        if made is None:
            return None
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            read = last_hidden(self.trained.model.bert, [made.plan], torch.bfloat16)
            return np.asarray(self.trained.merit(read[torch.from_numpy(made.plan.ends)]).double()[:, 0])

    def damage(self, groups: Sequence[Group]) -> dict[str, float]:
        """Share of pairs of different severity in the right order, for each task/attribute."""
        right: dict[str, list[bool]] = defaultdict(list)
        for group in groups:
            merits = self.merits(group)
            if merits is not None:
                severities = np.array(group.severities)
                better, worse = np.nonzero(severities[:, None] < severities)
                right[f"{group.task}/{group.attribute}"] += (merits[better] > merits[worse]).tolist()
        return {name: float(np.mean(hits)) for name, hits in sorted(right.items())}

    def people(self, rows: Sequence[dict[str, Any]], task: str) -> dict[str, float]:
        """Spearman inside contexts, for each attribute."""
        by_context: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for row in rows:
            if row["text"] not in {other["text"] for other in by_context[row["context_id"]]}:
                by_context[row["context_id"]].append(row)
        found = {}
        for attribute in rows[0]["human"]:
            if attribute not in load_task(task).attributes:
                continue
            said: list[float] = []
            human: list[float] = []
            ids: list[str] = []
            for name, texts in by_context.items():
                first = texts[0]
                group = Group(
                    task,
                    attribute,
                    first["context"],
                    first.get("facts") or "",
                    tuple(row["text"] for row in texts),
                    (0.0,) * len(texts),
                    ("good",) * len(texts),
                )
                merits = self.merits(group)
                if merits is not None:
                    said += merits.tolist()
                    human += [row["human"][attribute] for row in texts]
                    ids += [name] * len(texts)
            found[attribute] = agreement(said, human, ids).value
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", nargs="+", type=Path, help="folders of checkpoints")
    parser.add_argument("--corpora", type=Path, required=True)
    parser.add_argument("--benchmarks", type=Path, required=True)
    parser.add_argument("--groups", type=int, default=12, help="held-out groups an attribute")
    parser.add_argument("--contexts", type=int, default=None, help="rated contexts of the half; default all")
    args = parser.parse_args()
    groups = heldout_groups(args.corpora, args.groups, "choose")
    for work in args.work:
        bench = Bench(work)
        row: dict[str, Any] = {"work": str(work), "step": bench.step, "damage": bench.damage(groups)}
        for name, task in RATED.items():
            rows = benchmark(args.benchmarks / f"{name}.jsonl.gz", "choose", args.contexts)
            row[name] = bench.people(rows, task)
        for part in ("damage", *RATED):
            row[part] = {"mean": float(np.mean(list(row[part].values())))} | row[part]
            row[part] = {name: round(value, 3) for name, value in row[part].items()}
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
