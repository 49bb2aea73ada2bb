"""Do five comparisons beat one placement, with the same judge and the same number of questions?

    python -m benchmarks.place --model MODEL [--tasks dialogue] [--store FILE] [--dtype bfloat16] [--out FOLDER]

The targets of data/demo on the first 24 curated ladders: three texts a context, by design careful, hasty and broken, on
two attributes each. Figures: of the pairs of two texts of one context and attribute, the share that is put in that
order (a tie counts half), with its standard error over contexts and attributes; and the values' mean and standard
deviation, which say whether the judge answers the same whatever it is shown. Chance is .50.
"""

from __future__ import annotations

import argparse
import json
import time
from contextlib import nullcontext
from itertools import combinations
from pathlib import Path

import numpy as np

from synthscore.engine import Progress, capabilities_of
from synthscore.engines import open_engine
from synthscore.evaluation.methods import method
from synthscore.evaluation.methods.base import Tools
from synthscore.evaluation.ratings import RatedText, Ratings
from synthscore.ladders.references import References
from synthscore.resources import resource
from synthscore.store.engine import StoredEngine
from synthscore.store.file import Store

ORDER = ("broken", "hasty", "careful")
METHODS = {
    "place": 1,
    "place:orders=2": 2,
    "place:orders=5": 5,
    "ladder": 5,
    "ladder:protocol=yes_no": 5,
    "place:orders=10": 10,
    "ladder:both_orders=yes": 10,
    "ladder:both_orders=yes,protocol=yes_no": 10,
    "g-eval": 1,
}
"""Spec -> questions about a text."""


class Counting:
    """An engine that counts what it is asked."""

    def __init__(self, engine: object) -> None:
        self.engine, self.signature = engine, engine.signature  # type: ignore[attr-defined]
        self.capabilities = capabilities_of(engine)  # type: ignore[arg-type]
        self.n = self.tokens = 0

    def answer(self, questions: object, progress: Progress | None = None) -> object:
        found = self.engine.answer(questions, progress)  # type: ignore[attr-defined]
        self.n, self.tokens = self.n + len(found.rows), self.tokens + found.usage.n_computed
        return found


def pairs_in_order(values: dict[tuple[str, str, str], float]) -> tuple[float, float, int]:
    """(context, attribute, system) -> value; the share of pairs in order, its standard error over ladders, pairs."""
    by_ladder: dict[tuple[str, str], dict[str, float]] = {}
    for (context, attribute, system), value in values.items():
        by_ladder.setdefault((context, attribute), {})[system] = value
    shares, n = [], 0
    for found in by_ladder.values():
        pairs = [(found[low], found[high]) for low, high in combinations(ORDER, 2) if low in found and high in found]
        if pairs:
            n += len(pairs)
            shares.append(np.mean([(high > low) + 0.5 * (high == low) for low, high in pairs]))
    return float(np.mean(shares)), float(np.std(shares, ddof=1) / np.sqrt(len(shares))), n


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--name", default="")
    parser.add_argument("--tasks", nargs="+", default=["dialogue"])
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--dtype")
    parser.add_argument("--store", type=Path)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    args = parser.parse_args()
    references = References.load(resource("data/references/curated/first24"))
    rows = [json.loads(line) for line in (resource("data/demo") / "targets.jsonl").read_text("utf-8").splitlines()]
    engine = open_engine(args.model, **({"dtype": args.dtype} if args.dtype else {}))
    counting = Counting(engine)
    results = []
    with Store(args.store) if args.store else nullcontext() as store:
        judge = StoredEngine(counting, store) if store else counting
        for spec in args.methods:
            values: dict[tuple[str, str, str], float] = {}
            before, tokens, began, failed = counting.n, counting.tokens, time.perf_counter(), ""
            for task in args.tasks:
                for attribute in references.filter(task=task).attributes:
                    ladders = references.filter(task=task, attribute=attribute)
                    contexts = {ladder.context_id: ladder.context for ladder in ladders}
                    own = [row for row in rows if row["task"] == task and row["context_id"] in contexts]
                    texts = [RatedText(r["id"], r["context_id"], r["system"], r["text"], {}) for r in own]
                    ratings = Ratings("demo", tuple(texts), (attribute,), contexts, task)
                    try:
                        scores = method(spec)(ratings, attribute, Tools(judge, ladders))
                    except Exception as error:
                        failed = str(error)[:200]
                        continue
                    for text, score in zip(own, scores, strict=True):
                        if score.value is not None:
                            values[text["context_id"], attribute, text["system"]] = score.value
            line = {"method": spec, "questions": METHODS.get(spec), "texts": len(values), "failed": failed}
            if values:
                share, error, n = pairs_in_order(values)
                found = list(values.values())
                line |= {"in_order": share, "stderr": error, "pairs": n, "mean": np.mean(found), "sd": np.std(found)}
            line |= {"asked": counting.n - before, "tokens": counting.tokens - tokens}
            line["seconds"] = time.perf_counter() - began
            results.append(line)
            print(json.dumps(line, default=float), flush=True)
    name = args.name or Path(args.model).name
    out = {"model": str(engine.signature), "tasks": args.tasks, "results": results}
    (args.out / f"place-{name}.json").write_text(json.dumps(out, indent=1, default=float) + "\n", "utf-8")


if __name__ == "__main__":
    main()
