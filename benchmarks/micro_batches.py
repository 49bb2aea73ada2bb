"""What do texts cost that are asked for one at a time, concurrently, beside one call of all of them?

    python -m benchmarks.micro_batches [--rows 256] [--repeats 5] [--judge nano]

Both ways score the same texts on ladders of 5 rungs, in turn. A judge whose answers are there at once leaves the cost
of waiting and gathering bare: the ratio is then at its worst. nano shows what is left of it where a model works. It is
asked on 4 contexts of data/references/degraded, without a store. The bar of the ratio is 1.3.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import statistics
import time
from collections.abc import Sequence

from synthscore import References, Scorer
from synthscore.engine import Answers, LabelAnswer, Question
from synthscore.engines import open_judge
from synthscore.resources import resource
from synthscore.signature import Signature


class AtOnce:
    """Answers the same to everything, in no time."""

    signature = Signature.of(model="at-once@0", backend="benchmark")

    def answer(self, questions: Sequence[Question], progress: object = None) -> Answers:
        return Answers([LabelAnswer([-0.5, -1.5, -2.5]) for _ in questions])


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--judge", default="at once")
    options = parser.parse_args(argv)
    judge = AtOnce() if options.judge == "at once" else open_judge(options.judge, "none")
    references = References.load(resource("data/references/degraded"))
    scorer = Scorer(references, judge, task="summarization", attribute="consistency")
    contexts = [ladder.context_id for ladder in references if ladder.attribute == "consistency"][:4]
    times: dict[str, list[float]] = {"one call": [], "single calls": []}

    async def singly(rows: Sequence[dict[str, str]]) -> list[float | None]:
        return [score.value for score in await asyncio.gather(*map(scorer.score_one, rows))]

    for turn in range(options.repeats + 1):  # the first warms up
        rows = [
            {"id": str(k), "context_id": contexts[k % 4], "text": f"The ferry came in, {turn} times {k}."}
            for k in range(options.rows)
        ]
        began = time.perf_counter()
        together = [score.value for score in scorer.score(rows)]
        between = time.perf_counter()
        alone = asyncio.run(singly(rows))
        ended = time.perf_counter()
        worst = max(abs(a - b) for a, b in zip(together, alone, strict=True) if a is not None and b is not None)
        if worst > 1e-4 or None in together:
            raise SystemExit(f"the scores differ by {worst}")
        if turn:
            times["one call"].append(between - began)
            times["single calls"].append(ended - between)
    print(f"{options.rows} texts x 5 rungs, judge {options.judge}, {platform.machine()}, median of {options.repeats}")
    for name, seconds in times.items():
        spread = f"({min(seconds):.3f} to {max(seconds):.3f})"
        print(f"{name:14}{statistics.median(seconds):8.3f} s  {spread}")
    ratio = statistics.median(times["single calls"]) / statistics.median(times["one call"])
    print(f"ratio         {ratio:8.2f}    bar 1.3")
    print(json.dumps({"judge": options.judge, "rows": options.rows, "ratio": round(ratio, 3), **times}))


if __name__ == "__main__":
    main()
