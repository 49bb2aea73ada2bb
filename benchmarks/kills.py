"""Does anything that is killed while it works lose or spoil something, ask twice, or end otherwise when it is repeated?

    python -m benchmarks.kills [--kills 100] [--questions 40000]

Verbs: score, filter, generate, calibrate and references import run in a process that is killed (SIGKILL) at a random
moment of its run, and are then run again, a fifth of the kills each. The rerun must end well, write byte for byte what
a run does that was never killed, and ask everything but what was stored.

The store: a process asks verdicts and texts through a StoredEngine and is killed up to 0.1 s after its first batch; the
next one goes on with the same file. After each kill: SQLite's integrity check, every stored answer against the truth,
every question against its key, the number of answers against what the writer had told was stored, and the first batch
that a rerun asks against the first that is missing; at the end, all that a rerun asks against all that is missing.

The ceiling is 0 faults; the first one ends the run.
"""

from __future__ import annotations

import argparse
import json
import platform
import sqlite3
import tempfile
import time
from pathlib import Path

from tests.kills import VERBS, kill_often, kill_verb

RESULT = Path(__file__).parent / "results" / "kills"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100, help="of the verbs together, and of the store")
    parser.add_argument("--questions", type=int, default=40_000, help="of each kind; more than can be written")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    told, found = [], {}
    for verb in VERBS:
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            n_killed, n_stored = kill_verb(verb, Path(folder), args.kills // len(VERBS), args.seed)
        asked = f"; {n_stored:,} answers were stored by then, none was asked again" if n_stored else ""
        told.append(f"{verb}: {n_killed} kills, each run again: the same bytes{asked}")
        found[verb] = {"kills": n_killed, "stored": n_stored, "seconds": round(time.perf_counter() - start, 1)}
        print(told[-1], flush=True)
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        counts = kill_often(Path(folder) / "answers.sqlite", args.kills, args.questions, args.seed)
    gains = [now - before for before, now in zip([0, *counts], counts, strict=False)]
    told.append(f"store: {args.kills} kills, {counts[-1]:,} answers stored, {min(gains)} to {max(gains)} between two")
    told.append("lost 0, wrong 0, asked twice 0 (the first fault ends the run)")
    print("\n".join(told[-2:]))
    found["store"] = {"kills": args.kills, "answers": counts[-1], "gains": gains}
    found["store"]["seconds"] = round(time.perf_counter() - start, 1)
    machine = {"sqlite": sqlite3.sqlite_version, "machine": platform.machine()}
    RESULT.with_suffix(".txt").write_text("\n".join(told) + "\n")
    RESULT.with_suffix(".json").write_text(json.dumps(found | machine) + "\n")


if __name__ == "__main__":
    main()
