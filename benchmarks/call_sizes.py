"""Does a text cost nano the same, however many texts are in a call?

    OMP_NUM_THREADS=1 python -m benchmarks.call_sizes [--contexts 2] [--texts 256] [--repeats 2]

Texts of data/references/degraded, with words of their own in front, on the ladders of some contexts (5 rungs), the
texts of a context one behind the other, without a store of answers. Contexts beyond the twelve that are there are these
with words of their own in front. For each size of a call:

    tokens     read for a text: what it needs itself, and its share of the context, its rungs and what is read again
               where a call is parted; exact, whatever else the machine does
    a second   texts in a second of processor time, one thread, the best of the repeats

Each size begins with an engine that has read nothing. A context and its rungs are read in the first two calls that ask
about them; then their states are kept (engines/isolated.py: KeptStates). So no size must cost much more than the best.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace

import torch

from synthscore import References, Scorer
from synthscore.engine import Answers, EngineAround, Progress, Question
from synthscore.engines import open_judge
from synthscore.engines.isolated import KeptStates
from synthscore.resources import resource
from synthscore.types import Ladder

SIZES = (1, 16, 64, 128, 256)


class Counting(EngineAround):
    """Adds up the tokens that were run over."""

    n_tokens = 0

    def answer(self, questions: list[Question], progress: Progress | None = None) -> Answers:
        answers = self.engine.answer(questions, progress)
        self.n_tokens += answers.usage.n_computed
        return answers


def numbered(ladder: Ladder, n: int) -> Ladder:
    """The same ladder for another context; for its own, where n is 0."""
    if not n:
        return ladder
    context = replace(ladder.context, id=f"{n}-{ladder.context_id}", text=f"Report {n}. {ladder.context.text}")
    return replace(ladder, context_id=context.id, context=context)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--contexts", type=int, default=2)
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    parser.add_argument("--texts", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(1)
    there = [each for each in References.load(resource("data/references/degraded")) if each.attribute == "consistency"]
    ladders = [numbered(there[n % len(there)], n // len(there)) for n in range(options.contexts)]
    references = References(ladders)
    engine = open_judge("nano", "none")
    judge = Counting(engine)
    scorer = Scorer(references, judge, task="summarization", attribute="consistency")
    rows = [
        {
            "id": str(k),
            "context_id": ladders[k * options.contexts // options.texts].context_id,
            "text": f"In the end, as number {k} told it, {there[k % 6].rungs[k % 5].text}",
        }
        for k in range(options.texts)
    ]
    scores = [score.value for score in scorer.score(rows[:16])]  # which warms up
    tokens: dict[int, float] = {}
    best: dict[int, float] = {}
    for _ in range(options.repeats):
        for size in options.sizes:
            engine._kept = KeptStates(engine.model)
            judge.n_tokens, began = 0, time.process_time()
            found = [score for start in range(0, len(rows), size) for score in scorer.score(rows[start : start + size])]
            rate = len(rows) / (time.process_time() - began)
            best[size] = max(best.get(size, 0.0), rate)
            tokens[size] = judge.n_tokens / len(rows)
            worst = max(abs(one - (other.value or 0)) for one, other in zip(scores, found, strict=False) if one)
            if worst > 1e-4:
                raise SystemExit(f"the scores differ by {worst}")
    print(f"{options.texts} texts, {options.contexts} contexts, nano, best of {options.repeats}")
    print(f"{'a call':>8}{'tokens':>10}{'a second':>10}{'of the best':>13}")
    for size in options.sizes:
        print(f"{size:8}{tokens[size]:10.1f}{best[size]:10.1f}{best[size] / max(best.values()):13.2f}")
    print(json.dumps({"contexts": options.contexts, "texts": options.texts, "tokens": tokens, "texts_per_cpu_s": best}))


if __name__ == "__main__":
    main()
