"""How fast are answers stored with their questions and read back, and how much room does one take?

    OMP_NUM_THREADS=1 python benchmarks/store.py [--answers 1000000] [--batches 256,4096] [--repeats 1]

The questions are prompts of about 4,000 characters that share all but 500, as those on one article do. Every answer is
compared with what was written before anything is timed in earnest: the rates are of runs whose content was checked.

    write    answers per second into the file, their questions compressed, the file closed
    read     answers per second by key, in the order of writing, from a store opened anew (in the system's cache)
    through  the same by way of a StoredEngine over an engine that knows its answers: with the hashes of the questions
    raw      the ceiling: the same rows, ready made, into the same tables by SQLite alone (executemany, a transaction
             a batch); and read by SQLite alone
    file     the same bytes written to a plain file, one flush a batch

CPU seconds of this process are printed beside the wall clock's, because the machine may be shared.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from synthscore.engine import Answers, LabelAnswer, OtherToken, Prompt, Question, label_log_probs
from synthscore.signature import Signature
from synthscore.store.engine import StoredEngine
from synthscore.store.file import Store, Stored, batch_rows
from synthscore.store.packing import crc

LABELS = ("Better", "Worse", "Similar")
SIGNATURE = Signature.of(
    model="organisation/model@0123456789ab", dtype="float32", backend="cascade", chat="0123456789ab", torch="2.13.0"
)
N_SHARED, N_OWN = 3500, 500  # characters


class Questions:
    """Question i, and its answer."""

    def __init__(self, n: int) -> None:
        rng = random.Random(0)
        syllables = [a + b for a in "bcdfghklmnprstvw" for b in ("a", "e", "i", "o", "u", "an", "en", "or", "is", "ul")]
        words = ["".join(rng.choices(syllables, k=rng.choice((1, 2, 2, 3, 4)))) for _ in range(20_000)]
        weights = [1 / (rank + 3) for rank in range(len(words))]  # as frequent as words are
        self._words = " ".join(rng.choices(words, weights, k=400_000))
        self._starts = rng.choices(range(len(self._words) - N_SHARED), k=n)
        self.log_probs = np.log(np.random.default_rng(0).dirichlet([1, 1, 1], size=n))

    def prompt(self, i: int) -> Prompt:
        first = self._starts[i - i % 320]  # 320 questions an article: 64 texts, 5 rungs
        article, own = (
            self._words[first : first + N_SHARED],
            self._words[self._starts[i] : self._starts[i] + N_OWN - 10],
        )
        return Prompt(f"{article}\n{own} {i:09d}\nAnswer:")

    def prompts(self, start: int, stop: int) -> list[Prompt]:
        return [self.prompt(i) for i in range(start, stop)]

    def value(self, i: int) -> dict[str, object]:
        return {"log_probs": self.log_probs[i].tolist(), "rival": ["The", -3.0625]}

    def answers(self, start: int, stop: int) -> list[Stored]:
        questions = [Question(prompt, LABELS) for prompt in self.prompts(start, stop)]
        engine = str(SIGNATURE)
        return [Stored(q.key(engine), "labels", self.value(i), engine, q) for i, q in enumerate(questions, start)]


class KnownEngine:
    """Answers the next questions in order, at no cost."""

    signature = SIGNATURE

    def __init__(self, log_probs: np.ndarray) -> None:
        self.log_probs, self.n_asked = log_probs, 0

    def answer(self, questions, progress=None) -> Answers:  # type: ignore[no-untyped-def]
        start, self.n_asked = self.n_asked, self.n_asked + len(questions)
        other = OtherToken("The", -3.0625)
        return Answers([LabelAnswer(row, other) for row in self.log_probs[start : self.n_asked].tolist()])


class Clock:
    """Adds up wall and CPU seconds of what is called through it."""

    def __init__(self) -> None:
        self.wall = self.cpu = 0.0

    def __call__(self, function: Callable, *arguments):  # type: ignore[no-untyped-def,type-arg]
        wall, cpu = time.perf_counter(), time.process_time()
        result = function(*arguments)
        self.wall += time.perf_counter() - wall
        self.cpu += time.process_time() - cpu
        return result


def steps(n: int, batch: int) -> list[tuple[int, int]]:
    return [(start, min(start + batch, n)) for start in range(0, n, batch)]


def run(questions: Questions, n: int, batch: int, folder: Path) -> dict[str, tuple[Clock, float]]:
    """What is timed -> its seconds, and bytes an answer."""
    clocks = {
        name: Clock() for name in ("write", "read", "through, new", "through, again", "raw write", "raw read", "file")
    }
    keys: list[bytes] = []
    path = folder / "write.sqlite"
    store = Store(path)
    for start, stop in steps(n, batch):
        answers = questions.answers(start, stop)
        keys += [answer.key for answer in answers]
        clocks["write"](store.put_many, answers)
    clocks["write"](store.close)
    store = Store(path)
    for start, stop in steps(n, batch):
        found = clocks["read"](store.get_many, keys[start:stop])
        if [found.get(key) for key in keys[start:stop]] != [questions.value(i) for i in range(start, stop)]:
            sys.exit(f"answers {start} to {stop} differ from what was written; not timed further")
    some = store.batches()[len(store.batches()) // 2]
    if [a.question for a in store.read(some)] != [a.question for a in questions.answers(*steps(n, batch)[some.id - 1])]:
        sys.exit("questions differ from what was written; not timed further")
    store.close()
    size = path.stat().st_size / n
    os.remove(path)

    for name in ("through, new", "through, again"):
        with Store(folder / "through.sqlite") as store:
            inner = KnownEngine(questions.log_probs)
            engine = StoredEngine(inner, store)
            for start, stop in steps(n, batch):
                asked = questions.prompts(start, stop)
                got = clocks[name](label_log_probs, engine, asked, LABELS)
                if not np.array_equal(got.log_probs, questions.log_probs[start:stop]):
                    sys.exit(f"{name}: answers {start} to {stop} differ; not timed further")
            if inner.n_asked != (n if name == "through, new" else 0):
                sys.exit(f"{name}: {inner.n_asked} questions were asked")
    os.remove(folder / "through.sqlite")

    raw(questions, n, batch, folder, keys, clocks)
    return {name: (clock, size) for name, clock in clocks.items()}


def raw(questions: Questions, n: int, batch: int, folder: Path, keys: list[bytes], clocks: dict[str, Clock]) -> None:
    Store(folder / "raw.sqlite").close()
    db = sqlite3.connect(folder / "raw.sqlite", isolation_level=None)
    db.execute("PRAGMA synchronous=NORMAL")
    db.execute("PRAGMA wal_autocheckpoint=16384")
    db.execute("PRAGMA cache_size=-65536")

    def insert(id_: int, common: tuple[object, ...], rows: list[tuple[object, ...]]) -> None:
        db.execute("BEGIN")
        db.execute("INSERT INTO batches VALUES (?, ?, ?, ?, ?)", (id_, *common))
        db.executemany("INSERT INTO answers VALUES (?, ?, ?, ?, ?)", rows)
        db.execute("COMMIT")

    def append(data: bytes) -> None:
        file.write(data)
        file.flush()

    with open(folder / "plain", "wb") as file:
        for id_, (start, stop) in enumerate(steps(n, batch), 1):
            made = batch_rows("labels", str(SIGNATURE), 0, questions.answers(start, stop))
            rows = [(id_, place, key, value, crc(id_, place, key, value.encode())) for place, key, value in made.rows]
            clocks["raw write"](insert, id_, (made.kind, made.engine, 0, made.questions), rows)
            data = b"".join(key + value.encode() for _, key, value in made.rows)
            clocks["file"](append, data + (made.questions or b""))
    for start, stop in steps(n, batch):
        for first in range(start, stop, 500):
            part = keys[first : min(first + 500, stop)]
            query = f"SELECT batch, place, key, value, checksum FROM answers WHERE key IN ({','.join('?' * len(part))})"
            clocks["raw read"](lambda query=query, part=part: db.execute(query, part).fetchall())
    db.close()
    os.remove(folder / "raw.sqlite")
    os.remove(folder / "plain")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=int, default=1_000_000)
    parser.add_argument("--batches", default="256,4096")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--folder", help="where the files are made (default: the system's folder for such)")
    args = parser.parse_args()
    n, questions = args.answers, Questions(args.answers)
    load = os.getloadavg()[0]
    print(f"store: {n:,} answers with questions of {N_SHARED + N_OWN:,} characters, {N_OWN} of them their own")
    print(f"{os.cpu_count()} vCPU, shared; load before {load:.1f}; {args.repeats} run(s), median")
    results = []
    for batch in map(int, args.batches.split(",")):
        runs = []
        for _ in range(args.repeats):
            with tempfile.TemporaryDirectory(dir=args.folder) as folder:
                runs.append(run(questions, n, batch, Path(folder)))
        print(f"\nbatches of {batch:,}   {runs[0]['write'][1]:.0f} bytes an answer, question included")
        for name in runs[0]:
            wall, cpu = (statistics.median(getattr(r[name][0], unit) for r in runs) for unit in ("wall", "cpu"))
            spread = [n / r[name][0].wall for r in runs]
            print(f"  {name:<15}{n / wall:>10,.0f}/s   {wall:6.1f} s   {cpu:6.1f} s of CPU ({n / cpu:,.0f}/s)")
            results.append({"batch": batch, "what": name, "per_s": round(n / wall), "cpu_s": round(cpu, 2),
                            "per_s_all": [round(x) for x in spread], "bytes": round(runs[0][name][1], 1)})  # fmt: skip
    print(
        json.dumps(
            {
                "answers": n, "results": results, "load_before": load, "cpus": os.cpu_count(),
                "machine": platform.machine(), "python": platform.python_version(), "sqlite": sqlite3.sqlite_version,
            }
        )
    )  # fmt: skip


if __name__ == "__main__":
    main()
