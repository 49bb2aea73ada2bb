"""Ladders that `synthscore generate --model` wrote -> data/references/generated.

    python -m training.generated FOLDER

FOLDER holds a references folder for each set: own, summeval, topicalchat and webnlg. What is released of the benchmarks
is what was written for this project: the rungs, and the hashes of the contexts without their texts and facts. Nothing
else of a rung is changed.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from synthscore.ladders.references import References
from synthscore.resources import resource

OWN = "own"
SETS = {
    OWN: "contexts of this project (data/references/curated, data/demo)",
    "summeval": "25 articles of SummEval",
    "topicalchat": "15 conversations of Topical-Chat as rated for USR",
    "webnlg": "15 sets of triples of the human evaluation of WebNLG 2017",
}
ABOUT = (
    "Ladders for {contexts}, written by a large language model (version not recorded) through the recursive templates: "
    "the worst and the best text first, then the texts between. Part of data/references/generated, whose card says how "
    "they were made, who checked what, and what they are not: read it first.{without}"
)
WITHOUT = (
    "\n\nThe contexts are not here: `context` and `facts` are empty, `context_sha256` is the hash of the text. Get the "
    "benchmark from its authors, and give each row its context's text and the id that its ladder has."
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=resource("data") / "references/generated")
    args = parser.parse_args()
    for name, contexts in SETS.items():
        ladders = References.load(args.folder / name).ladders
        if name != OWN:
            ladders = tuple(replace(ladder, context=None) for ladder in ladders)
        saved = References(ladders).save(
            args.out / name,
            licence="CC0-1.0",
            description=ABOUT.format(contexts=contexts, without=WITHOUT * (name != OWN)),
            release="generated-1",
            overwrite=True,
        )
        print(saved)


if __name__ == "__main__":
    main()
