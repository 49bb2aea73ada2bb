"""Does a store that is killed while it is written to lose or spoil anything, or have anything asked twice?

    python -m benchmarks.store_kill [--kills 100] [--questions 40000]

A process asks verdicts and texts through a StoredEngine and is killed (SIGKILL) at a random moment, up to 0.1 s after
its first batch; the next one goes on with the same file. After each kill: SQLite's integrity check, every stored answer
against the truth, every question against its key, the number of answers against what the writer had told was stored,
and the first batch that a rerun asks against the first that is missing; at the end, all that a rerun asks against all
that is missing. The ceiling is 0 faults.
"""

from __future__ import annotations

import argparse
import json
import platform
import sqlite3
import tempfile
import time
from pathlib import Path

from tests.kills import kill_often


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--questions", type=int, default=40_000, help="of each kind; more than can be written")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        counts = kill_often(Path(folder) / "answers.sqlite", args.kills, args.questions, args.seed)
    gains = [now - before for before, now in zip([0, *counts], counts, strict=False)]
    seconds = time.perf_counter() - start
    print(f"{args.kills} kills, {counts[-1]:,} answers stored, {min(gains)} to {max(gains)} between two kills")
    print("lost 0, wrong 0, asked twice 0 (the first fault ends the run)")
    print(
        json.dumps(
            {
                "kills": args.kills, "answers": counts[-1], "gains": gains, "lost": 0, "wrong": 0, "asked_twice": 0,
                "seconds": round(seconds, 1), "sqlite": sqlite3.sqlite_version, "machine": platform.machine(),
            }
        )
    )  # fmt: skip


if __name__ == "__main__":
    main()
