"""data/demo -> data/references: the first release of ladders, made again with one command.

    python -m training.references

`degraded`: ladders of the degraded writer for every demo context and every attribute of its task.
`handwritten`: the ladders that a person wrote, of known order; a fixture for any judge.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from synthscore.io.contexts import read_contexts
from synthscore.judging.tasks import load_task
from synthscore.ladders.degraded import DegradedWriter
from synthscore.ladders.references import References
from synthscore.ladders.write import generate_ladders
from synthscore.resources import resource
from synthscore.types import Ladder, Rung

TASKS = ("summarization", "dialogue", "story")
N_RUNGS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=resource("data") / "references")
    args = parser.parse_args()
    demo = resource("data/demo")
    contexts = {}
    degraded: list[Ladder] = []
    for name in TASKS:
        found, errors = read_contexts(demo / f"{name}.jsonl")
        if errors:
            raise errors[0]
        contexts |= {context.id: context for context in found}
        task = load_task(name)
        degraded += generate_ladders(found, task, list(task.attributes), DegradedWriter(), n_rungs=N_RUNGS)
    handwritten = []
    for line in (demo / "handwritten.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        rungs = tuple(
            Rung(level, (level - 1) / (len(row["rungs"]) - 1), text, provenance={"writer": "person"})
            for level, text in enumerate(row["rungs"], start=1)
        )
        handwritten.append(Ladder(row["context_id"], row["task"], row["attribute"], rungs, contexts[row["context_id"]]))
    References(degraded).save(
        args.out / "degraded",
        licence="CC0-1.0",
        description="Ladders made from good texts by controlled damage of known kind and severity. Their order is "
        "known by construction; no model wrote or judged them.",
        release="demo-1",
        overwrite=True,
    )
    References(handwritten).save(
        args.out / "handwritten",
        licence="CC0-1.0",
        description="Ladders written by hand: a fixture of known order for trying judges. The order is the author's; "
        "no other reader has confirmed it.",
        release="demo-1",
        overwrite=True,
    )
    failed = sum(rung.status == "failed" for ladder in degraded for rung in ladder.rungs)
    print(f"{len(degraded)} degraded ladders ({failed} rungs failed), {len(handwritten)} hand-written ladders")


if __name__ == "__main__":
    main()
