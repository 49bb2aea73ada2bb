"""Do anchored scores order summaries as people do, better than the paper's sum of the same verdicts?

Spearman with the mean of three experts, inside articles and with all articles put together; differences are paired,
with 95 % intervals over articles drawn with replacement. The last line is JSON.

    synthscore score summeval.jsonl --references ladders/ --both-orders --verdicts --scoring anchored -o anchored.jsonl
    python -m benchmarks.anchored_summeval anchored.jsonl summeval.jsonl
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from synthscore.evaluation.agreement import agreement, difference
from synthscore.io.fields import Row
from synthscore.io.files import read_rows
from synthscore.scoring.paper import paper_sum
from synthscore.types import FloatArray

RESULTS = Path(__file__).parent / "results"


def paper(verdicts: list[list[float]], n: int) -> float:
    """The paper's sum: both orders averaged; a rung that has not got all of them adds nothing."""
    margins: dict[int, list[float]] = {}
    for level, _, better, worse, _ in verdicts:
        margins.setdefault(int(level), []).append(better - worse)
    orders = max(map(len, margins.values()))
    gap = np.full((1, n), np.nan)
    for level, found in margins.items():
        if len(found) == orders:
            gap[0, level - 1] = np.mean(found)
    return float(paper_sum((1 + gap) / 2, (1 - gap) / 2)[0])


def values(path: str) -> list[dict[str, Any]]:
    return [dict(row.values) for row in read_rows(path) if isinstance(row, Row)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scores", nargs="+", help="of `synthscore score --verdicts --scoring anchored`")
    parser.add_argument("ratings", help="rows with human, by attribute")
    args = parser.parse_args()
    people = values(args.ratings)
    lines = ["Spearman, anchored - the paper's sum of the same verdicts = difference [95 %]"]
    found = []
    rows = [row for path in args.scores for row in values(path)]
    for attribute in dict.fromkeys(row["attribute"] for row in rows):
        # Scores are in the order of the ratings: one row for each of them and attribute.
        own = [row for row in rows if row["attribute"] == attribute]
        both = [
            (row, each["human"][attribute]) for row, each in zip(own, people, strict=True) if row["score"] is not None
        ]
        contexts = [row["context_id"] for row, _ in both]
        human = [value for _, value in both]
        anchored: FloatArray = np.array([row["score"] for row, _ in both])
        summed: FloatArray = np.array([paper(row["verdicts"], int(row["n_rungs"])) for row, _ in both])
        for level in ("per_context", "pooled"):
            one = agreement(anchored, human, contexts, level=level).value
            other = agreement(summed, human, contexts, level=level).value
            gap = difference(anchored, summed, human, contexts, level=level)
            lines.append(
                f"{attribute:12s} {level:12s} {one:6.3f} - {other:6.3f} = {gap.value:+.3f} "
                f"[{gap.low:+.3f}, {gap.high:+.3f}]   {len(both)} texts, {len(set(contexts))} contexts"
            )
            found.append(
                {"attribute": attribute, "level": level, "anchored": one, "paper": other, "difference": gap.value,
                 "low": gap.low, "high": gap.high, "n": len(both), "signature": own[0]["signature"]}
            )  # fmt: skip
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "anchored_summeval.txt").write_text("\n".join(lines) + "\n")
    (RESULTS / "anchored_summeval.json").write_text(json.dumps(found) + "\n")
    print("\n".join(lines))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
