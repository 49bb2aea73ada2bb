"""Does the same judge give the same scores in process and behind a server?

    python -m llama_cpp.server --model MODEL.gguf --model_alias MODEL --n_ctx 2048 --port 8123
    python -m benchmarks.routes MODEL.gguf http://127.0.0.1:8123/v1 --store answers.sqlite

20 texts of the demo, one for each of the first 20 curated ladders, against 5 rungs in both orders: 200 questions. The
first judge is the one that the others are compared with: in one order, in both, and in both with whatever is known of
labels (max_unreported 1). Ceiling: no difference, where the arithmetic is the same; but llama.cpp rounds what it
multiplies its quantised weights with, which the first judge does not.

    scored      texts that have a value
    within      of the texts with limits, those of which the first judge's score lies within low..high, as it must where
                labels that are not reported are all that differs. width : of low..high, mean and largest, in rungs
    Spearman    of the scores with the first judge's. largest : difference, in rungs. sd : of the scores
    averaged    Spearman, were both orders averaged in probability for both judges
    labels      largest difference of a probability in one order
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

import synthscore as ss
from synthscore.engine import Engine
from synthscore.engines import open_engine
from synthscore.io.write import plain
from synthscore.judging.asking import Asking
from synthscore.ladders.references import References
from synthscore.resources import resource
from synthscore.scoring.paper import paper_sum, rung_equivalent
from synthscore.store.engine import StoredEngine
from synthscore.store.file import Store
from synthscore.types import FloatArray, Score

N_TEXTS = 20
QUALITIES = ("careful", "hasty", "broken")
CURATED = References.load(resource("data/references/curated/first24"))
BOTH = Asking(both_orders=True)
WAYS = {"one order": Asking(), "both orders": BOTH, "both orders, all": replace(BOTH, max_unreported=1.0)}


def texts(n: int = N_TEXTS) -> list[dict[str, Any]]:
    """One for each of the first n ladders, careful, hasty and broken ones in turn."""
    ladders = list(CURATED)[:n]
    lines = Path(resource("data/demo/targets.jsonl")).read_text(encoding="utf-8").splitlines()
    rows = {row["id"]: row for row in map(json.loads, lines)}
    return [
        {**rows[f"{ladder.context_id}/{QUALITIES[k % 3]}"], "id": f"t{k}", "attribute": ladder.attribute}
        for k, ladder in enumerate(ladders)
    ]


def scored(
    engine: Engine, rows: Sequence[dict[str, Any]], references: References = CURATED, asking: Asking = BOTH
) -> list[Score]:
    """Against the ladders of their contexts."""
    return list(ss.Scorer(references, engine, asking=asking).score(rows))


def averaged(scores: Sequence[Score]) -> FloatArray:
    """The scores, were the orders' probabilities averaged."""
    better, worse, _ = np.moveaxis(by_order(scores).mean(axis=2), -1, 0)
    return rung_equivalent(paper_sum(better, worse), better.shape[1])


def by_order(scores: Sequence[Score]) -> FloatArray:
    """Better, worse, similar; shape (n_texts, n_rungs, n_orders, 3). All must be there."""
    said = [sorted((v.level, v.swapped, v.better, v.worse, v.similar) for v in score.verdicts) for score in scores]
    n_orders = 1 + said[0][-1][1]
    return np.array(said)[..., 2:].reshape(len(scores), -1, n_orders, 3)


def figures(first: Sequence[Score], other: Sequence[Score]) -> dict[str, float]:
    """Of two judges' scores of the same texts; of the first, all texts have one."""
    both = [(one, two) for one, two in zip(first, other, strict=True) if two.value is not None]
    ones, others = [one for one, _ in both], [two for _, two in both]
    here, there = (np.array([score.value for score in scores], dtype=np.float64) for scores in (ones, others))
    limits = np.array(
        [(one.value, two.low, two.high) for one, two in zip(first, other, strict=True) if two.low is not None]
    )
    value, low, high = limits.T if len(limits) else np.zeros((3, 0))
    enough = len(both) > 2
    return {
        "scored": len(both),
        "limited": len(limits),
        "within": int(((low <= value) & (value <= high)).sum()),
        "width": float((high - low).mean()) if len(limits) else 0.0,
        "widest": float((high - low).max(initial=0)),
        "spearman": float(spearmanr(here, there).statistic) if enough else math.nan,
        "largest": float(np.abs(here - there).max(initial=0)),
        "sd": float(there.std()) if enough else math.nan,
        "averaged": float(spearmanr(averaged(ones), averaged(others)).statistic) if enough else math.nan,
        "labels": float(np.abs(by_order(ones) - by_order(others)).max()) if both else math.nan,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("judges", nargs="+", help="as for --model: a file, a server, or recorded:FILE#PART")
    parser.add_argument("--store", help="where answers are kept and taken from")
    parser.add_argument("--top-k", type=int, help="tokens that servers are asked for")
    args = parser.parse_args()
    rows = texts()
    first: dict[str, list[Score]] = {}
    found = {}
    with Store(args.store) if args.store else nullcontext() as store:
        for judge in args.judges:
            engine = open_engine(judge, **({"top_k": args.top_k} if args.top_k and "://" in judge else {}))
            print(engine.signature)
            asked = engine if store is None else StoredEngine(engine, store)
            by_way = {way: scored(asked, rows, asking=asking) for way, asking in WAYS.items()}
            first = first or by_way
            told = {way: figures(first["both orders" if "both" in way else way], by_way[way]) for way in WAYS}
            if by_way is first:
                continue
            found[str(engine.signature)] = told
            for way, each in told.items():
                print(
                    f"  {way:<17} scored {each['scored']:2} of {len(rows)}   within {each['within']:2} of "
                    f"{each['limited']:2}   width {each['width']:.3f} ({each['widest']:.3f})   Spearman "
                    f"{each['spearman']:+.2f}   largest {each['largest']:.3f}   sd {each['sd']:.3f}   averaged "
                    f"{each['averaged']:+.2f}   labels {each['labels']:.4f}"
                )
    print(json.dumps(plain(found)))


if __name__ == "__main__":
    main()
