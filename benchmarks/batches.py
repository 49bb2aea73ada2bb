"""How fast, and in how much memory, are questions written to files for a batch service, and its answers read back?

    OMP_NUM_THREADS=1 python -m benchmarks.batches [--questions 100000]

The questions are those of benchmarks/store.py: prompts of about 4,000 characters, 500 of them their own, each asked for
a label in words. They go through a store that lacks all of them, as a command's do. The answers come back in OpenAI's
form in another order, as services return them. Every stored answer is compared with the one that was given.

    write    questions per second into files and manifest; the files are in the order of the prompts, none too long
    read     answers per second from a file into the store
    peak     the most memory that the process of each had, the interpreter included (ru_maxrss)
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.store import LABELS, Questions
from synthscore.engine import Generation, Question, Sampling
from synthscore.engines import open_engine
from synthscore.engines.batch.add import add_answers
from synthscore.engines.batch.manifest import Manifest
from synthscore.engines.batch.write import MOST_BYTES, MOST_LINES, QuestionFile
from synthscore.store.engine import StoredEngine, look_up
from synthscore.store.file import Store

AT_ONCE = 2048  # questions in a call
MOST_S, MOST_MB = 60, 300


def asked(n: int) -> Iterator[list[Question]]:
    made = Questions(n)
    how = Sampling(4096, 1.0, 1.0)
    for start in range(0, n, AT_ONCE):
        prompts = made.prompts(start, min(start + AT_ONCE, n))
        yield [Question(prompt, LABELS, how) for prompt in prompts]


def write(folder: Path, n: int) -> None:
    with QuestionFile(folder / "q.jsonl") as file, Store(folder / "a.sqlite") as store:
        engine = StoredEngine(open_engine("batch:m", questions=file), store)
        for questions in asked(n):
            engine.answer(questions)
        assert file.n == n
        file.save()


def read(folder: Path, n: int) -> None:
    with Store(folder / "a.sqlite") as store:
        added = add_answers(store, [folder / "out.jsonl"], [folder / "q.jsonl.manifest"])
    assert added.fates == {"stored": n}, added.words


def answer(folder: Path) -> None:
    """Each line, in another order, by its id."""
    lines = [
        json.dumps({"id": "b", "custom_id": line_id, "response": {"status_code": 200, "body": body_of(line_id)}})
        for path in sorted(folder.glob("q*.jsonl"))
        for line_id in ids_of(path)
    ]
    random.Random(0).shuffle(lines)
    (folder / "out.jsonl").write_text("\n".join(lines) + "\n", "utf-8")


def ids_of(path: Path) -> list[str]:
    """Of a file, of which it is seen that it is as it should be."""
    texts, ids = [], []
    with path.open("rb") as file:
        for raw in file:
            line = json.loads(raw)
            texts.append(line["body"]["messages"][0]["content"])
            ids.append(line["custom_id"])
    assert texts == sorted(texts), path
    assert len(texts) <= MOST_LINES, path
    assert path.stat().st_size <= MOST_BYTES, path
    return ids


def body_of(line_id: str) -> dict[str, object]:
    choice = {"message": {"role": "assistant", "content": text_of(line_id)}, "finish_reason": "stop"}
    return {"model": "m", "choices": [choice], "usage": {"completion_tokens": 9}}


def text_of(line_id: str) -> str:
    label = random.Random(line_id).choice(LABELS)
    return json.dumps({"verdict": label})


def check(folder: Path, n: int) -> None:
    """Every question has the answer that its line was given."""
    from synthscore.engines.batch.ids import custom_id, stem_of

    signature = Manifest(folder / "q.jsonl.manifest").asked.signature
    capabilities = open_engine("batch:m").capabilities  # type: ignore[attr-defined]
    with Store(folder / "a.sqlite") as store:
        for questions in asked(n):
            keys = [question.key(signature) for question in questions]
            found = look_up(store, keys, questions, capabilities)
            for key in keys:
                assert found[key] == Generation(text_of(custom_id(stem_of(key), 0)), "stop", 9)


def timed(step: str, folder: Path, n: int) -> tuple[float, float, float]:
    """Seconds, CPU seconds, and MB at most, of a step in a process of its own."""
    argv = [sys.executable, "-m", "benchmarks.batches", "--step", step, "--folder", str(folder), "--questions", str(n)]
    out = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    seconds, cpu, peak = json.loads(out.splitlines()[-1])
    return seconds, cpu, peak


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=100_000)
    parser.add_argument("--step")
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    n = given.questions
    if given.step:
        start, cpu = time.perf_counter(), time.process_time()
        {"write": write, "read": read}[given.step](given.folder, n)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
        print(json.dumps([time.perf_counter() - start, time.process_time() - cpu, peak]))
        return 0
    load = os.getloadavg()[0]
    print(
        f"batches: {n:,} questions in words, of 4,000 characters; {os.cpu_count()} vCPU, shared; load before {load:.1f}"
    )
    found = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found["write"] = timed("write", folder, n)
        parts = sorted(folder.glob("q*.jsonl"))
        size = sum(path.stat().st_size for path in parts) / 1e6
        manifest = (folder / "q.jsonl.manifest").stat().st_size / n
        answer(folder)
        found["read"] = timed("read", folder, n)
        check(folder, n)
    for step, (seconds, cpu, peak) in found.items():
        print(f"  {step:<6} {n / seconds:>9,.0f}/s  {seconds:6.1f} s  {cpu:6.1f} s of CPU  peak {peak:5.0f} MB")
    print(f"  {len(parts)} files of {size:,.0f} MB together, {manifest:.0f} bytes of manifest a question")
    held = all(seconds <= MOST_S * n / 100_000 and peak <= MOST_MB for seconds, _, peak in found.values())
    print(f"  at most {MOST_S} s a 100,000 and {MOST_MB} MB each: {'yes' if held else 'no'}")
    print(
        json.dumps({step: dict(zip(("s", "cpu_s", "peak_mb"), values, strict=True)) for step, values in found.items()})
    )
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
