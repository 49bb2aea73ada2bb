"""data/demo -> data/references/degraded, made again with one command.

    python -m training.references

Ladders of the degraded writer for every demo context and every attribute of its task.
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
    "\n\nFor trying the program at once, without a model, and for tests. Weak as examples, and as a test of judges: "
    "damage in one attribute often harms another, that of fluency is mild, phrases recur, a rung may differ from the "
    "next by one word, and counts of words tell the rungs (weighed together, by a Spearman of .80 to .94; in story "
    "coherence length alone by -.84). A judge that does well here may only have counted: take data/references/curated."
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
    References(degraded).save(
        args.out / "degraded",
        licence="CC0-1.0",
        description=ABOUT,
        release="demo-1",
        overwrite=True,
    )
    failed = sum(rung.status == "failed" for ladder in degraded for rung in ladder.rungs)
    print(f"{len(degraded)} degraded ladders ({failed} rungs failed)")


if __name__ == "__main__":
    main()
