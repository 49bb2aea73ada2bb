"""How fast does `synthscore filter` go over rows whose verdicts are stored, in how much memory, and through kills?

    python -m benchmarks.filter [--rows 1000000] [--kills 20] [--no-times]

Synthetic rows (an id, a context id and a text of about 100 characters) on 1 000 ladders of 5 rungs. A first run gets
its verdicts from a random number generator in place of a judge, and stores them; its files are the truth. Then the same
command runs with a judge that fails when it is asked: a process of its own, one core (taskset), from its start to its
end, its output compared with the truth byte for byte. What no filter can save is reading and parsing each line; that
ceiling is timed beside it. MB: the largest resident memory of the process (VmHWM); CPU: of the process.

Kills: over a tenth of the rows (at least 20 000), a run is killed (SIGKILL) at a random moment, and run again, out of
the store. Its files must be those of the truth.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from synthscore import engines
from synthscore.cli.app import main as synthscore
from synthscore.ladders.references import References
from synthscore.scoring.ladder import LadderPlan
from synthscore.scoring.paper import paper_sum, rung_equivalent
from synthscore.signature import Signature
from synthscore.types import Context, Ladder, Rung, Score, Verdict

N_LADDERS, N_RUNGS = 1000, 5
RNG = np.random.default_rng(0)


class Judge:
    """Is not to be asked."""

    signature = Signature.of(model="none@0", backend="benchmark")

    def answer(self, questions, progress=None):  # type: ignore[no-untyped-def]
        sys.exit(f"{len(questions)} questions were asked; expected none")


def draw(plan: LadderPlan, progress: object = None) -> list[Score]:
    """In place of LadderPlan.score: verdicts from no judge, kept as those of a judge are."""
    probs = RNG.dirichlet((1.0, 1.0, 1.0), (len(plan.texts_on_ladders), N_RUNGS))
    values = rung_equivalent(paper_sum(probs[..., 0], probs[..., 1]), N_RUNGS).tolist()
    scores: dict[int, Score] = {}
    for (index, text), value, own_probs in zip(plan.texts_on_ladders.items(), values, probs.tolist(), strict=True):
        scores[index] = Score(
            id=text.item.id,
            context_id=text.item.context_id,
            attribute=text.attribute,
            value=value,
            n_comparisons=N_RUNGS,
            verdicts=tuple(Verdict(level, False, *of_rung) for level, of_rung in enumerate(own_probs, 1)),
        )
    assert plan.complete_texts
    plan.complete_texts.keep({index: (text.item, text.chosen) for index, text in plan.texts_on_ladders.items()}, scores)
    scores |= plan.scores  # found: a text of the shared ladder's own context was compared with it before
    return [scores[index] for index in range(len(scores))]


def make(folder: Path, n_rows: int) -> None:
    rng = random.Random(0)
    words = [f"word{i}" for i in range(500)]

    def text(n: int) -> str:
        return " ".join(rng.choices(words, k=n))

    ladders = []
    for i in range(N_LADDERS):
        rungs = tuple(Rung(k + 1, k / (N_RUNGS - 1), f"{text(15)} {k}") for k in range(N_RUNGS))
        ladders.append(Ladder(f"c{i}", "summarization", "coherence", rungs, Context(f"c{i}", text(800))))
    References(ladders).save(folder / "ladders")
    with (folder / "rows.jsonl").open("w") as file:
        for i in range(n_rows):
            row = {"id": f"t{i}", "context_id": f"c{rng.randrange(N_LADDERS)}", "text": text(14)}
            file.write(json.dumps(row) + "\n")


def command(folder: Path, rows: str, suffix: str, dropped: bool) -> list[str]:
    argv = ["filter", str(folder / rows), "--references", str(folder / "ladders"), "--min-score", "3.9"]
    argv += ["--store", str(folder / "answers.sqlite"), "-o", str(folder / f"kept{suffix}")]
    return argv + (["--dropped", str(folder / f"dropped{suffix}")] if dropped else [])


def child(argv: list[str], *, fill: bool) -> int:
    """One run in this process; prints its memory, kB, and CPU seconds."""
    engines.open_engine = lambda name, **options: Judge()  # type: ignore[assignment]
    if fill:
        LadderPlan.score = draw  # type: ignore[method-assign]
    code = synthscore(argv)
    status = Path("/proc/self/status").read_text()
    print(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")), time.process_time())
    return code


def start(argv: list[str], *how: str) -> subprocess.Popen[str]:
    run = ["taskset", "-c", "0", sys.executable, "-m", "benchmarks.filter", "--child", *how, *argv]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(run, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def timed(argv: list[str], *how: str) -> tuple[dict[str, float], str]:
    """Seconds, MB; and what was printed."""
    began = time.perf_counter()
    process = start(argv, *how)
    out, err = process.communicate()
    if process.returncode:
        sys.exit(f"{' '.join(argv)}\n{err}")
    seconds, (memory, cpu) = time.perf_counter() - began, out.split()[-2:]
    return {"seconds": seconds, "CPU": float(cpu), "MB": int(memory) / 1000}, err


def parse_only(path: Path) -> dict[str, float]:
    began, cpu = time.perf_counter(), time.process_time()
    with path.open() as lines:
        for line in lines:
            json.loads(line)
    return {"seconds": time.perf_counter() - began, "CPU": time.process_time() - cpu}


def contents(folder: Path, suffix: str) -> list[bytes]:
    return [(folder / f"{name}{suffix}").read_bytes() for name in ("kept", "dropped")]


def kill_often(folder: Path, n_kills: int) -> int:
    """How many of the runs were killed before they ended."""
    argv = command(folder, "some.jsonl", ".jsonl", True)
    whole, _ = timed(argv)
    truth = contents(folder, ".jsonl")
    rng = random.Random(0)
    n = 0
    for _ in range(n_kills):
        process = start(argv)
        try:
            process.wait(rng.uniform(0, whole["seconds"]))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        process.communicate()
        n += process.returncode == -signal.SIGKILL
        timed(argv)
        if contents(folder, ".jsonl") != truth or any(".partial" in path.name for path in folder.iterdir()):
            sys.exit(f"after {n} kills the files differ")
        for name in ("kept", "dropped"):
            (folder / f"{name}.jsonl").unlink()
    return n


def time_all(folder: Path, truth: list[bytes], results: dict[str, dict[str, float]]) -> None:
    results["ceiling: lines read and parsed"] = parse_only(folder / "rows.jsonl")
    for what, suffix, dropped in (
        ("JSONL -> JSONL", ".jsonl", False),
        ("JSONL -> JSONL, dropped too", ".jsonl", True),
        ("JSONL -> CSV", ".csv", False),
        ("JSONL -> Parquet", ".parquet", False),
    ):
        results[what], told = timed(command(folder, "rows.jsonl", suffix, dropped))
        if dropped and contents(folder, suffix) != truth:
            sys.exit(f"{what}: the files differ from those of the first run")
    print(told.splitlines()[1])
    to_parquet(folder)
    argv = command(folder, "rows.parquet", ".parquet", True)
    results["Parquet -> Parquet, dropped too"], _ = timed(argv)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--no-times", action="store_true", help="only kills")
    args = parser.parse_args()
    results: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder, args.rows)
        results["first run: drawn and stored"], _ = timed(command(folder, "rows.jsonl", ".jsonl", True), "--fill")
        truth = contents(folder, ".jsonl")
        size = (folder / "answers.sqlite").stat().st_size
        print(f"{args.rows:,} rows, {(folder / 'rows.jsonl').stat().st_size / 1e6:.0f} MB; store {size / 1e6:.0f} MB")
        if not args.no_times:
            time_all(folder, truth, results)
        for what, result in results.items():
            result |= {"rows/s": args.rows / result["seconds"], "rows/CPU s": args.rows / result["CPU"]}
            memory_ = f"{result['MB']:6.0f} MB" if "MB" in result else ""
            wall = f"{result['seconds']:6.1f} s {result['rows/s']:9,.0f} rows/s"
            print(f"{what:32} {wall}   CPU {result['CPU']:6.1f} s {result['rows/CPU s']:9,.0f} rows/s {memory_}")
        n_some = max(args.rows // 10, min(args.rows, 20_000))
        with (folder / "rows.jsonl").open() as rows, (folder / "some.jsonl").open("w") as some:
            some.writelines(line for line, _ in zip(rows, range(n_some), strict=False))
        n_kills = kill_often(folder, args.kills)
        if n_kills:
            print(f"{n_kills} kills over {n_some:,} rows, each run again: all files as they should be, byte for byte")
    machine = {"machine": platform.machine(), "python": platform.python_version()}
    print(json.dumps({"rows": args.rows, "store_bytes": size, "kills": n_kills, **machine, **results}))


def to_parquet(folder: Path) -> None:
    import pyarrow.json as pj
    import pyarrow.parquet as pq

    pq.write_table(pj.read_json(folder / "rows.jsonl"), folder / "rows.parquet", row_group_size=1 << 16)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        inner = argparse.ArgumentParser()
        inner.add_argument("--fill", action="store_true")
        options, rest = inner.parse_known_args(sys.argv[2:])
        sys.exit(child(rest, fill=options.fill))
    main()
