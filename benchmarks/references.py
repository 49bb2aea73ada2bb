"""What does it cost to open many ladders: memory and time?

    python -m benchmarks.references [--ladders 20000] [--shards 8]

Ladders of five rungs, 2.7 kB of text each with their context, one context a ladder, as `References.save` writes them.
One fresh process each for: loading them and finding one; finding those of one shard in eight; reading all in turn with
the hash that goes into signatures; finding all in a random order, in batches, and some one by one. Seconds are of CPU;
MB are the peak resident memory of the whole process, with the interpreter and its imports. The floor is what a process
holds that has imported Parquet and opened nothing. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from synthscore.io.shards import Shard
from synthscore.ladders.references import References
from synthscore.types import Context, Ladder, Rung

WORDS = [f"{first}{last}" for first in "bcdfghjklmnprst" for last in ("an", "elor", "ithe", "oud", "umber", "y")]
N_RUNGS = 5
BATCH = 2_000  # ladders that are asked for together
ONE_BY_ONE = 200
RUNG_LENGTH, CONTEXT_LENGTH = 300, 1_200  # characters


def make_ladder(number: int) -> Ladder:
    """A ladder of made-up words, with a provenance as `synthscore generate` writes it."""
    rng = random.Random(number)
    context_id = f"context-{number:07d}"
    rungs = []
    for level in range(1, N_RUNGS + 1):
        provenance = {
            "writer": "prompt",
            "model": "model:made-up|dtype:bfloat16",
            "template": "between",
            "seed": number,
            "temperature": 0.7,
            "attempt": 1,
            "n_tokens": 60,
        }
        text = made_up_text(rng, RUNG_LENGTH)
        rungs.append(Rung(level, (level - 1) / (N_RUNGS - 1), text, provenance=provenance))
    context = Context(context_id, made_up_text(rng, CONTEXT_LENGTH))
    return Ladder(context_id, "summarization", "coherence", tuple(rungs), context)


def made_up_text(rng: random.Random, length: int) -> str:
    return " ".join(rng.choices(WORDS, k=length // 4))[:length].strip()


def open_nothing(folder: str) -> int:
    import pyarrow.parquet

    return len(pyarrow.parquet.__name__) * 0


def find_one(folder: str) -> int:
    references = References.load(folder)
    references.find("context-0000005", "coherence")
    return len(references)


def find_a_shard(folder: str) -> int:
    """As `score --shard 1/8` does: in the order of the contexts."""
    references = References.load(folder)
    own = [context_id for context_id in references.context_ids if Shard(1, 8).owns(context_id)]
    for context_id in own:
        references.find(context_id, "coherence")
    return len(own)


def read_all(folder: str) -> int:
    references = References.load(folder)
    n = sum(len(ladder.rungs) > 0 for ladder in references)
    print(references.hash)
    return n


def find_all_shuffled(folder: str) -> int:
    references = References.load(folder)
    numbers = list(range(len(references)))
    random.Random(0).shuffle(numbers)
    for start in range(0, len(numbers), BATCH):
        batch = numbers[start : start + BATCH]
        references.find_all([(f"context-{number:07d}", "coherence", None) for number in batch])
    return len(numbers)


def find_some_one_by_one(folder: str) -> int:
    references = References.load(folder)
    for number in random.Random(0).sample(range(len(references)), ONE_BY_ONE):
        references.find(f"context-{number:07d}", "coherence")
    return ONE_BY_ONE


WAYS: dict[str, Callable[[str], int]] = {
    "open nothing": open_nothing,
    "load, find one": find_one,
    "find shard 1/8": find_a_shard,
    "read all, hash": read_all,
    "find all, shuffled": find_all_shuffled,
    "find some one by one": find_some_one_by_one,
}


def measure(way: str, folder: str) -> dict[str, float]:
    start = time.process_time()
    n_ladders = WAYS[way](folder)
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"ladders": n_ladders, "mb": round(peak, 1), "seconds": round(seconds, 2)}


def save_ladders(folder: Path, n_ladders: int, n_shards: int) -> None:
    """One folder; or a folder of folders, as `generate --shard i/n` on many machines leaves it."""
    ladders = [make_ladder(number) for number in range(n_ladders)]
    if not n_shards:
        References(tuple(ladders)).save(folder)
    for index in range(1, n_shards + 1):
        own = [ladder for ladder in ladders if Shard(index, n_shards).owns(ladder.context_id)]
        References(tuple(own)).save(folder / f"shard-{index}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ladders", type=int, default=20_000)
    parser.add_argument("--shards", type=int, default=0, help="as a folder of so many folders; 0: one folder")
    parser.add_argument("--folder", type=Path, help="where the ladders are, or are to be kept")
    parser.add_argument("--way", choices=["make", *WAYS], help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    args = parser.parse_args()
    if args.way == "make":
        save_ladders(args.folder, args.ladders, args.shards)
        return
    if args.way:
        print(json.dumps(measure(args.way, str(args.folder))))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or Path(temporary) / "ladders"
        program = [sys.executable, "-m", "benchmarks.references", "--folder", str(folder)]
        if not folder.exists():  # made by another process: a child's peak is never below what its parent holds
            sizes = ["--ladders", str(args.ladders), "--shards", str(args.shards)]
            subprocess.run([*program, *sizes, "--way", "make"], check=True)
        found = {}
        for way in WAYS:
            output = subprocess.run([*program, "--way", way], check=True, capture_output=True, text=True).stdout
            found[way] = json.loads(output.splitlines()[-1])
    lines = [f"{args.ladders} ladders of {N_RUNGS} rungs; peak MB resident, one process each"]
    for way, row in found.items():
        lines.append(f"{way:<22}{row['ladders']:>8} ladders{row['mb']:>8.0f} MB{row['seconds']:>8.2f} s")
    text = "\n".join([*lines, json.dumps(found)])
    print(text)
    args.out.mkdir(parents=True, exist_ok=True)
    name = f"references-{args.ladders}" + (f"-in-{args.shards}" if args.shards else "")
    (args.out / f"{name}.txt").write_text(text + "\n")


if __name__ == "__main__":
    main()
