"""Does drawing n scores from a judge reach the expectation of its probabilities, as n grows?

    synthscore store import FOLDER/judge_outputs/summeval_score_distributions.jsonl.gz \\
        --benchmark summeval --data FOLDER -o published.sqlite
    python -m benchmarks.sampled_judges --data FOLDER --store published.sqlite

Published judges on SummEval, replayed without a model: Spearman's correlation with people inside each article, mean of
four attributes, mean and standard deviation of 5 trials; beside it the expectation itself with its interval over
articles, and the floors. In arXiv:2509.05440 (Table 2) the same rises from 9.4 at n = 1 to 36.4 at n = 1000, against
37.4: fewer different values tie more texts.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from synthscore.engines import open_engine
from synthscore.evaluation.agreement import agreement
from synthscore.evaluation.benchmarks import load_benchmark
from synthscore.evaluation.methods import method
from synthscore.evaluation.methods.base import Tools
from synthscore.evaluation.ratings import Ratings

JUDGES = ("model:GPT-4o|prompt:theirs/0", "model:Qwen2.5-72B-Instruct|prompt:theirs/0")
DRAWS = (1, 3, 10, 100, 1000)
N_TRIALS = 5


def mean_agreement(ratings: Ratings, spec: str, tools: Tools) -> float:
    """Over the attributes."""
    found = []
    for attribute in ratings.attributes:
        values = method(spec)(ratings, attribute, tools).values
        found.append(agreement(values, ratings.human(attribute), ratings.context_ids).value)
    return float(np.mean(found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--store", required=True)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    args = parser.parse_args()
    ratings = load_benchmark("summeval", args.data)
    lines = [f"SummEval, {len(set(ratings.context_ids))} articles, Spearman inside articles"]
    lines.append(f"{'':28}" + "".join(f"{name:>20}" for name in ratings.attributes) + f"{'mean':>8}")
    results: dict[str, object] = {}

    def row(label: str, spec: str, tools: Tools) -> None:
        cells = []
        for attribute in ratings.attributes:
            values = method(spec)(ratings, attribute, tools).values
            cells.append(agreement(values, ratings.human(attribute), ratings.context_ids))
        lines.append(
            f"{label:28}"
            + "".join(f"{f'{cell.value:.3f} [{cell.low:.2f}, {cell.high:.2f}]':>20}" for cell in cells)
            + f"{np.mean([cell.value for cell in cells]):8.3f}"
        )
        results[label] = [[cell.value, cell.low, cell.high] for cell in cells]

    for name in ("length", "overlap"):
        row(name, name, Tools())
    sampled = []
    for judge in JUDGES:
        tools = Tools(judge=open_engine(f"recorded:{args.store}#{judge}"))
        short = judge.split("|")[0].removeprefix("model:")
        row(f"{short} g-eval", "g-eval", tools)
        row(f"{short} direct", "direct", tools)
        cells = []
        for n in DRAWS:
            trials = [mean_agreement(ratings, f"g-eval:samples={n},seed={seed}", tools) for seed in range(N_TRIALS)]
            cells.append((float(np.mean(trials)), float(np.std(trials, ddof=1))))
        exact = mean_agreement(ratings, "g-eval", tools)
        results[f"{short} sampled"] = {"n": DRAWS, "mean_sd": cells, "exact": exact}
        said = "".join(f"{f'{mean:.3f} ±{sd:.3f}':>14}" for mean, sd in cells)
        sampled.append(f"{short:28}{said}{exact:12.3f}")
    lines += ["", f"{'draws a text':28}" + "".join(f"{n:>14}" for n in DRAWS) + f"{'expectation':>12}", *sampled]
    text = "\n".join([*lines, json.dumps(results)])
    print(text)
    (args.out / "sampled_judges.txt").write_text(text + "\n")


if __name__ == "__main__":
    main()
