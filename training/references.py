"""data/demo -> data/references/degraded, made again with one command.

    python -m training.references

Ladders of the degraded writer for every demo context and every attribute of its task, those that have all their rungs:
where a good text is too short to be damaged four times, there is none.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from synthscore.io.contexts import read_contexts
from synthscore.judging.templates import load_task
from synthscore.ladders.degraded import DegradedWriter
from synthscore.ladders.references import References
from synthscore.ladders.write import generate_ladders
from synthscore.resources import resource
from synthscore.types import Ladder

TASKS = ("summarization", "dialogue", "story")
N_RUNGS = 5
ABOUT = (
    "Ladders made from good texts by damage of known kind and severity: `kinds` names each edit that was made to a "
    "rung, in order, and none for the best one. Their order is known by construction; no model wrote or judged them."
    "\n\nWhole ladders alone: of 191 that were tried, the 183 that have all five rungs. Eight replies are too short to "
    "be made less engaging four times."
    "\n\nFor trying the program at once, without a model, and for tests. Weak as examples, and as a test of judges: "
    "damage in one attribute often harms another, that of fluency is mild, phrases recur, a rung may differ from the "
    "next by one word, and counts of words order 80 to 92 % of the pairs of rungs, by task (`python -m "
    "benchmarks.ladder_counts data/references/degraded`; in story coherence length alone goes with the rung by -.84). "
    "A judge that does well here may only have counted: take data/references/curated."
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=resource("data") / "references")
    args = parser.parse_args()
    demo = resource("data/demo")
    degraded: list[Ladder] = []
    for name in TASKS:
        found, errors = read_contexts(demo / f"{name}.jsonl")
        if errors:
            raise errors[0]
        task = load_task(name)
        degraded += generate_ladders(found, task, list(task.attributes), DegradedWriter(), n_rungs=N_RUNGS)
    whole = [ladder for ladder in degraded if all(rung.status == "ok" for rung in ladder.rungs)]
    References(whole).save(
        args.out / "degraded",
        licence="CC0-1.0",
        description=ABOUT,
        release="demo-2",
        overwrite=True,
    )
    print(f"{len(whole)} degraded ladders; {len(degraded) - len(whole)} lack a rung, and are left out")


if __name__ == "__main__":
    main()
