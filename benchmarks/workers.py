"""Shards as units of datatrove and of Ray, on this machine: throughput beside plain processes, memory, a kill.

    python -m benchmarks.workers FOLDER --make                    # 100,000 rows, their ladders and all answers
    python -m benchmarks.workers FOLDER --by plain --workers 2
    python -m benchmarks.workers FOLDER --by datatrove --workers 8 [--kill 10]
    python -m benchmarks.workers FOLDER --by ray --workers 8 [--kill 10]

A unit is a shard: `synthscore filter --shard i/n --model recorded:answers.sqlite`, in its worker's own process. Prints
the seconds from start to end, the processors' seconds of the units and of all processes (which other work on the
machine does not change much), the largest memory of a worker, and whether the parts hold the lines of other runs in the
folder. --kill : after so many seconds one worker of Ray dies, whose unit Ray starts again; or all of datatrove's
processes, and the same executor is run again.

datatrove and ray are no dependencies; with PYTHONPATH they may come from another environment.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Units = tuple[list[dict[str, float]], float]
"""What the units used; and the processors' seconds of all processes."""


def unit(folder: str, i: int, n: int) -> dict[str, float]:
    """Do a shard; what its process has used by then: processor's seconds, and the most memory in MB."""
    from synthscore.cli.app import main as synthscore

    os.chdir(folder)
    command = ["filter", "rows.jsonl", "--references", "ladders", "--min-score", "3", "--quiet"]
    command += ["--model", "recorded:answers.sqlite", "-o", f"part-{i}-of-{n}.jsonl", "--shard", f"{i}/{n}"]
    if status := synthscore(command):
        raise RuntimeError(f"shard {i}/{n} ended with status {status}")
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {"shard": i, "cpu": used.ru_utime + used.ru_stime, "mb": used.ru_maxrss / 1000}


def by_plain(folder: str, n: int, kill: float | None) -> Units:
    code = "import json, sys; from benchmarks.workers import unit; "
    code += "print(json.dumps(unit(sys.argv[1], *map(int, sys.argv[2:]))))"
    command = [sys.executable, "-c", code, folder]
    at_work = [subprocess.Popen([*command, str(i), str(n)], stdout=subprocess.PIPE) for i in range(1, n + 1)]
    return [json.loads(process.communicate()[0]) for process in at_work], sum(os.times()[:4])


def by_datatrove(folder: str, n: int, kill: float | None) -> Units:
    """In a process of its own, which can be killed with all that it started."""
    shutil.rmtree(f"{folder}/logs-{n}", ignore_errors=True)
    command = [sys.executable, "-m", "benchmarks.workers", folder, "--datatrove", str(n)]
    for again in (False, True) if kill else (False,):
        process = subprocess.Popen(command, start_new_session=True)
        if kill and not again:
            time.sleep(kill)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            done = len(list(Path(folder).glob(f"logs-{n}/completions/*")))
            print(f"all processes killed after {kill:g} s, {done} of {n} shards done")
        elif process.wait():
            raise RuntimeError("the executor failed")
    units = [json.loads(Path(folder, f"unit-{rank}.json").read_text()) for rank in range(n)]
    return units, sum(os.times()[:4])


def run_datatrove(folder: str, n: int) -> None:
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.base import PipelineStep

    import synthscore.cli.filter
    import synthscore.store.engine
    import synthscore.thresholds.filter  # noqa: F401 (all once, before the workers are forked)

    class Shard(PipelineStep):
        name = "synthscore"

        def run(self, data: Any, rank: int = 0, world_size: int = 1) -> Any:
            done = unit(folder, rank + 1, world_size)
            Path(folder, f"unit-{rank}.json").write_text(json.dumps(done))
            yield from data or ()

    LocalPipelineExecutor([Shard()], tasks=n, workers=n, logging_dir=f"{folder}/logs-{n}", start_method="fork").run()


def by_ray(folder: str, n: int, kill: float | None) -> Units:
    import psutil
    import ray

    ray.init(num_cpus=n, include_dashboard=False, log_to_driver=False, object_store_memory=100 << 20)
    jobs = [ray.remote(unit).options(max_retries=3).remote(folder, i, n) for i in range(1, n + 1)]
    if kill:
        time.sleep(kill)
        at_work = [each for each in psutil.process_iter(["name"]) if each.info["name"] == "ray::unit"]
        at_work[0].kill()
        print(f"one of {len(at_work)} workers killed after {kill:g} s")
    found = ray.get(jobs)
    processes = psutil.Process().children(recursive=True)
    idle = [each for each in processes if not each.name().startswith("ray::")]
    print(f"Ray's own processes: {sum(each.memory_info().rss for each in idle) / 1e6:,.0f} MB in {len(idle)}")
    seconds = sum(sum(each.cpu_times()[:4]) for each in [psutil.Process(), *processes])
    ray.shutdown()
    return found, seconds


BY: dict[str, Callable[[str, int, float | None], Units]] = {
    "plain": by_plain,
    "datatrove": by_datatrove,
    "ray": by_ray,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--make", action="store_true")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--by", choices=BY, default="plain")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--kill", type=float)
    parser.add_argument("--datatrove", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    from benchmarks.shard_kills import make, sorted_lines

    folder, n = Path(args.folder).resolve(), args.workers
    if args.make:
        make(folder, args.rows, args.rows // 100)
        return
    if args.datatrove:
        run_datatrove(str(folder), args.datatrove)
        return
    start = time.perf_counter()
    units, total = BY[args.by](str(folder), n, args.kill)
    seconds = time.perf_counter() - start
    with open(folder / "rows.jsonl", "rb") as lines:
        n_rows = sum(1 for _ in lines)
    print(
        f"{args.by}, {n} workers: {n_rows:,} rows in {seconds:.1f} s; processors: units "
        f"{sum(each['cpu'] for each in units):.1f} s, all {total:.1f} s: {n_rows / total:,.0f} rows a second of one; "
        f"largest worker {max(each['mb'] for each in units):.0f} MB"
    )
    joined = sorted_lines(*(folder / f"part-{i}-of-{n}.jsonl" for i in range(1, n + 1)))
    (folder / f"joined-{args.by}-{n}.jsonl").write_bytes(b"".join(line + b"\n" for line in joined))
    bodies = [path.read_bytes() for path in folder.glob("joined-*.jsonl")]
    print(f"joined files in the folder: {len(bodies)}, different ones: {len(set(bodies))}")


if __name__ == "__main__":
    main()
