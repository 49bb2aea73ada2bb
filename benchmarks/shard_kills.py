"""Do shards that are killed and run again alone write, together, what one machine writes?

    python -m benchmarks.shard_kills [--kills 50] [--rows 12000] [--sizes 7 2 1] [--model nano]

`synthscore filter`, kept and dropped rows, over made-up rows and a judge whose answers are in a file (recorded:FILE),
or one that has to think, each shard with a store of its own.
A shard of 1, 2 or 7 starts and is killed (SIGKILL) at a random moment of the time that it takes, or, of a model that
thinks, as soon as its first answers are stored; then it runs again to its end. After all shards of a size their files
are joined, and the lines, sorted, are compared with those of one machine. The ceiling is 0 faults.
"""

from __future__ import annotations

import argparse
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from synthscore.engine import Answers, LabelAnswer
from synthscore.io.write import write_rows
from synthscore.ladders.references import References
from synthscore.scoring.scorer import Scorer
from synthscore.signature import Signature, text_hash
from synthscore.store.engine import StoredEngine
from synthscore.store.file import Store
from synthscore.types import Context, Ladder, Rung

RECORDED = "recorded:answers.sqlite"
ROWS = ("kept", "dropped")


class Arithmetic:
    """Answers that follow from the prompt, at no cost."""

    signature = Signature.of(model="arithmetic@1", backend="none")

    def answer(self, questions, progress=None) -> Answers:
        bytes_ = [bytes.fromhex(text_hash(question.prompt.text))[:3] for question in questions]
        drawn = [np.frombuffer(three, np.uint8) + 1.0 for three in bytes_]
        return Answers([LabelAnswer(np.log(each / each.sum() * 0.99)) for each in drawn])


def make(folder: Path, n_rows: int, n_contexts: int = 300, *, answered: bool = True) -> None:
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
    if answered:
        with Store(folder / "answers.sqlite") as store:
            Scorer(references, StoredEngine(Arithmetic(), store)).score(folder / "rows.jsonl")


def run(folder: Path, name: str, shard: str | None = None, model: str = RECORDED) -> subprocess.Popen[bytes]:
    """Start `filter`, which writes NAME.kept.jsonl and NAME.dropped.jsonl."""
    command = [sys.executable, "-m", "synthscore", "filter", "rows.jsonl", "--references", "ladders"]
    command += ["--min-score", "3", "--model", model, "--quiet", "-o", f"{name}.kept.jsonl"]
    command += ["--dropped", f"{name}.dropped.jsonl", *(["--shard", shard] if shard else [])]
    command += [] if model == RECORDED else ["--store", f"{name}.sqlite"]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def finish(process: subprocess.Popen[bytes]) -> None:
    _, errors = process.communicate()
    assert process.returncode == 0, errors.decode()


def n_stored(path: Path) -> int:
    """Answers in a store; 0 where there is none."""
    if not path.exists() or not path.stat().st_size:
        return 0
    with closing(sqlite3.connect(path)) as store:
        there = store.execute("select count(*) from sqlite_master where name = 'answers'").fetchone()[0]
        return int(store.execute("select count(*) from answers").fetchone()[0]) if there else 0


def sorted_lines(*paths: Path) -> list[bytes]:
    """Of all these files together."""
    return sorted(line for path in paths for line in path.read_bytes().splitlines())


def kill_often(
    folder: Path, n_kills: int, n_rows: int, sizes: Sequence[int] = (7, 2, 1), seed: int = 0, model: str = RECORDED
) -> list[str]:
    """What was there at each kill: "none", "stored" (answers, where the model is to think), "part" (a .partial), "done"
    (it had ended already)."""
    make(folder, n_rows, min(n_rows // 3, 300), answered=model == RECORDED)
    finish(run(folder, "whole", model=model))
    draw, found = np.random.default_rng(seed), []
    while len(found) < n_kills:
        for size in sizes:
            seconds = 0.0
            if model == RECORDED:
                start = time.perf_counter()
                finish(run(folder, f"shard-1-of-{size}", f"1/{size}"))
                seconds = time.perf_counter() - start
            for i in range(1, size + 1):
                name, shard = f"shard-{i}-of-{size}", f"{i}/{size}"
                if len(found) < n_kills:
                    for path in [*folder.glob(f"{name}.sqlite*"), *folder.glob(f"{name}.*.jsonl")]:
                        path.unlink()
                    process = run(folder, name, shard, model)
                    time.sleep(draw.uniform(0.5, 1) * seconds)
                    while model != RECORDED and process.poll() is None and not n_stored(folder / f"{name}.sqlite"):
                        time.sleep(0.05)
                    process.kill()
                    process.communicate()
                    done = all((folder / f"{name}.{rows}.jsonl").exists() for rows in ROWS)
                    part = bool(list(folder.glob(f"{name}*.partial")))
                    stored = n_stored(folder / f"{name}.sqlite")
                    found.append("done" if done else "stored" if stored else "part" if part else "none")
                finish(run(folder, name, shard, model))
            for rows in ROWS:
                parts = [folder / f"shard-{i}-of-{size}.{rows}.jsonl" for i in range(1, size + 1)]
                joined = sorted_lines(*parts)
                assert joined == sorted_lines(folder / f"whole.{rows}.jsonl")
                assert joined or model != RECORDED  # which keeps some, and drops some
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--rows", type=int, default=12_000)
    parser.add_argument("--sizes", type=int, nargs="+", default=[7, 2, 1])
    parser.add_argument("--model", default=RECORDED)
    args = parser.parse_args()
    start = time.perf_counter()
    with TemporaryDirectory() as folder:
        found = kill_often(Path(folder), args.kills, args.rows, args.sizes, model=args.model)
    counts = ", ".join(f"{found.count(name)} {words}" for name, words in WORDS.items())
    sizes = ", ".join(map(str, sorted(args.sizes)))
    print(f"{args.model}: {args.kills} kills of shards of {sizes} over {args.rows:,} rows: {counts}")
    print("files whose lines, joined, are not those of one machine: 0 (the first fault ends the run)")
    print(f"{time.perf_counter() - start:.0f} s")


WORDS = {
    "none": "before any row was written",
    "stored": "with answers stored",
    "part": "with rows half written",
    "done": "after the end",
}

if __name__ == "__main__":
    main()
