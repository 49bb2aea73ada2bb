"""Do shards that are killed, run again alone and merged write what one machine writes?

    python -m benchmarks.shard_kills [--kills 50] [--rows 12000]

`synthscore filter`, kept and dropped rows, over made-up rows and a judge whose answers are in a file (recorded:FILE).
A shard of 1, 2 or 7 starts and is killed (SIGKILL) at a random moment of the time that it takes; then it runs again to
its end. After all shards of a size the files are merged, and compared, byte for byte, with those of one machine. The
ceiling is 0 faults.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from synthscore.engine import Answers, LabelAnswer
from synthscore.io.write import write_rows
from synthscore.ladders.references import References
from synthscore.scoring.items import read_items
from synthscore.scoring.rows import RowScorer
from synthscore.signature import Signature, text_hash
from synthscore.store.engine import StoredEngine
from synthscore.store.file import Store
from synthscore.types import Context, Ladder, Rung

ROOT = Path(__file__).parents[1]


class Arithmetic:
    """Answers that follow from the prompt, at no cost."""

    signature = Signature.of(model="arithmetic@1", backend="none")

    def answer(self, questions, progress=None) -> Answers:
        bytes_ = [bytes.fromhex(text_hash(question.prompt.text))[:3] for question in questions]
        drawn = [np.frombuffer(three, np.uint8) + 1.0 for three in bytes_]
        return Answers([LabelAnswer(np.log(each / each.sum() * 0.99)) for each in drawn])


def make(folder: Path, n_rows: int, n_contexts: int = 300) -> None:
    """rows.jsonl, ladders/ and answers.sqlite with the answers to all that is asked about them."""
    words = "The council met again on Monday, and spoke of the bridge that is closed"
    ladders = []
    for k in range(n_contexts):
        rungs = tuple(Rung(level, (level - 1) / 4, f"{words}, {level} times in week {k}.") for level in range(1, 6))
        ladders.append(Ladder(f"c{k}", "summarization", "coherence", rungs, Context(f"c{k}", f"Minutes {k}. {words}.")))
    references = References(tuple(ladders)).save(folder / "ladders")
    draw = np.random.default_rng(0)
    of = draw.integers(n_contexts, size=n_rows).tolist()
    rows = ({"id": str(i), "context_id": f"c{k}", "text": f"Text {i}. {words}."} for i, k in enumerate(of))
    write_rows(rows, folder / "rows.jsonl")
    with Store(folder / "answers.sqlite") as store:
        RowScorer(references, StoredEngine(Arithmetic(), store)).score(read_items(folder / "rows.jsonl"))


def run(folder: Path, name: str, shard: str | None = None) -> subprocess.Popen[bytes]:
    """Start `filter`, which writes NAME.kept.jsonl and NAME.dropped.jsonl."""
    command = [sys.executable, "-m", "synthscore", "filter", "rows.jsonl", "--references", "ladders"]
    command += ["--min-score", "3", "--model", "recorded:answers.sqlite", "--quiet", "-o", f"{name}.kept.jsonl"]
    command += ["--dropped", f"{name}.dropped.jsonl", *(["--shard", shard] if shard else [])]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def finish(process: subprocess.Popen[bytes]) -> None:
    _, errors = process.communicate()
    assert process.returncode == 0, errors.decode()


def kill_often(folder: Path, n_kills: int, n_rows: int, sizes: tuple[int, ...] = (7, 2, 1), seed: int = 0) -> list[str]:
    """What was there at each kill: "none", "part" (a .partial), "done" (it had ended already)."""
    make(folder, n_rows)
    finish(run(folder, "whole"))
    draw, found = np.random.default_rng(seed), []
    while len(found) < n_kills:
        for size in sizes:
            start = time.perf_counter()
            finish(run(folder, f"shard-1-of-{size}", f"1/{size}"))
            seconds = time.perf_counter() - start
            for i in range(1, size + 1):
                name, shard = f"shard-{i}-of-{size}", f"{i}/{size}"
                if len(found) < n_kills:
                    process = run(folder, name, shard)
                    time.sleep(draw.uniform(0.5, 1) * seconds)
                    process.kill()
                    process.communicate()
                    done = (folder / f"{name}.dropped.jsonl.shard").exists()
                    part = bool(list(folder.glob(f"{name}*.partial")))
                    found.append("done" if done else "part" if part else "none")
                finish(run(folder, name, shard))
            for rows in ("kept", "dropped"):
                parts = [f"shard-{i}-of-{size}.{rows}.jsonl" for i in range(1, size + 1)]
                merged = f"merged.{rows}.jsonl"
                command = [sys.executable, "-m", "synthscore", "merge", *parts, "-o", merged, "--quiet"]
                finish(subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE))
                assert (folder / merged).read_bytes() == (folder / f"whole.{rows}.jsonl").read_bytes()
                assert (folder / merged).stat().st_size > 0
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--rows", type=int, default=12_000)
    args = parser.parse_args()
    start = time.perf_counter()
    with TemporaryDirectory() as folder:
        found = kill_often(Path(folder), args.kills, args.rows)
    counts = ", ".join(f"{found.count(name)} {words}" for name, words in WORDS.items())
    print(f"{args.kills} kills of shards of 1, 2 and 7 over {args.rows:,} rows: {counts}")
    print("merged files that are not, byte for byte, those of one machine: 0 (the first fault ends the run)")
    print(f"{time.perf_counter() - start:.0f} s")


WORDS = {"none": "before any row was written", "part": "with rows half written", "done": "after the end"}

if __name__ == "__main__":
    main()
