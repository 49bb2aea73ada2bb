"""How long does `synthscore evaluate` take, and how much memory, where all answers are stored?

    OMP_NUM_THREADS=1 python -m benchmarks.evaluate FOLDER [--repeats 3]

FOLDER holds summeval.jsonl.gz: 50 articles, 16 summaries of each, 4 attributes. A judge that draws its answers from the
hash of the prompt fills a store: ladders of 5 rungs (16 000 questions), grades (3 200), all pairs in both orders
(48 000). Then each command is a process of its own that asks nothing, with 9 figures an attribute and their intervals
over the articles. Floor: `synthscore --version`. A second run must give the same JSON.

Writes benchmarks/results/evaluate.txt and .json.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from synthscore.engine import Answers, LabelAnswer, Progress, Question
from synthscore.evaluation.benchmarks import load_benchmark
from synthscore.evaluation.methods import Tools, method
from synthscore.evaluation.ratings import Ratings
from synthscore.ladders.references import References
from synthscore.signature import Signature
from synthscore.store.engine import StoredEngine
from synthscore.store.file import Store
from synthscore.types import Ladder, Rung

RESULTS = Path(__file__).parent / "results"
RUNS = ("length,overlap,type-token-ratio", "ladder", "g-eval,direct", "poe-bt", "ladder,g-eval,direct,poe-bt")
MEASURE = (
    "import resource, subprocess, sys; done = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, check=True); "
    "used = resource.getrusage(resource.RUSAGE_CHILDREN); "
    "print(used.ru_utime + used.ru_stime, used.ru_maxrss, file=sys.stderr); sys.stdout.buffer.write(done.stdout)"
)


class HashJudge:
    """Answers with the hash of the prompt."""

    signature = Signature.of(model="hash", backend="none")

    def answer(self, questions: Sequence[Question], progress: Progress | None = None) -> Answers:
        rows = []
        for question in questions:
            digest = hashlib.sha256(question.prompt.text.encode()).digest()
            weights = np.frombuffer(digest, np.uint16)[: len(question.labels)] + 1.0
            rows.append(LabelAnswer(np.log(0.9 * weights / weights.sum()).tolist()))
        return Answers(rows)


def ladders(ratings: Ratings) -> References:
    return References(
        tuple(
            Ladder(
                c.id, ratings.task, a, tuple(Rung(k, (k - 1) / 4, f"{k} {a}: {c.text[:300]}") for k in range(1, 6)), c
            )
            for c in ratings.contexts.values()
            for a in ratings.attributes
        )
    )


def timed(command: Sequence[str]) -> tuple[float, float, float, bytes]:
    """Seconds, seconds of CPU, peak MB, and what it printed."""
    began = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", MEASURE, *command], capture_output=True, check=True)
    cpu, peak = done.stderr.decode().splitlines()[-1].split()
    return time.perf_counter() - began, float(cpu), int(peak) / 1024, done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", metavar="FOLDER")
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    load = os.getloadavg()[0]
    lines = [
        "evaluate: SummEval, 50 articles x 16 summaries x 4 attributes, answers stored",
        f"{os.cpu_count()} vCPU, shared; load before {load:.1f}; median of {args.repeats} runs (range)",
        "",
    ]
    results = []
    with tempfile.TemporaryDirectory() as folder:
        ratings = load_benchmark("summeval", args.data)
        references, store = f"{folder}/ladders", f"{folder}/store.sqlite"
        References(ladders(ratings)).save(references)
        with Store(store) as answers:
            tools = Tools(StoredEngine(HashJudge(), answers), ladders(ratings))
            for spec in ("ladder", "g-eval", "poe-bt"):
                for attribute in ratings.attributes:
                    method(spec)(ratings, attribute, tools)
        for methods in ("", *RUNS):
            command = [sys.executable, "-m", "synthscore"]
            command += (
                ["evaluate", "--benchmark", "summeval", "--data", args.data, "--json"] if methods else ["--version"]
            )
            command += ["--methods", methods] if methods else []
            command += ["--references", references] if "ladder" in methods else []
            command += ["--model", f"recorded:{store}"] if methods in RUNS[1:] else []
            runs = [timed(command) for _ in range(args.repeats)]
            assert len({printed for *_, printed in runs}) == 1, "two runs gave different figures"
            wall, cpu, peak = (statistics.median(run[k] for run in runs) for k in range(3))
            spread = f"({min(run[0] for run in runs):.1f}-{max(run[0] for run in runs):.1f})"
            name = methods or "synthscore --version"
            lines.append(f"{name:<32}{wall:6.1f} s {spread:<12}{cpu:6.1f} s of CPU{peak:8.0f} MB")
            results.append({"what": name, "s": round(wall, 2), "cpu_s": round(cpu, 2), "peak_mb": round(peak)})
    print("\n".join(lines))
    found = {"results": results, "load_before": load, "cpus": os.cpu_count(), "python": platform.python_version()}
    print(json.dumps(found))
    (RESULTS / "evaluate.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (RESULTS / "evaluate.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
