"""Does anything that is killed while it works lose or spoil something, ask twice, or end otherwise when it is repeated?

    python -m benchmarks.kills [--kills 100] [--questions 40000] [--only NAME]

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

from tests.kills import kill_often
from tests.verb_kills import VERBS, kill_verb

RESULT = Path(__file__).parent / "results" / "kills.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100, help="of the verbs together, and of the store")
    parser.add_argument("--questions", type=int, default=40_000, help="of each kind; more than can be written")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=[*VERBS, "store"], help="one of them; the kept result of the others stays")
    args = parser.parse_args()
    for name in [args.only] if args.only else [*VERBS, "store"]:
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            if name == "store":
                counts = kill_often(Path(folder) / "answers.sqlite", args.kills, args.questions, args.seed)
                gains = [now - before for before, now in zip([0, *counts], counts, strict=False)]
                told = f"{args.kills} kills, {counts[-1]:,} answers stored, {min(gains)} to {max(gains)} between two"
            else:
                n_killed, n_stored = kill_verb(name, Path(folder), args.kills // len(VERBS), args.seed)
                asked = f"; {n_stored:,} answers were stored by then, none was asked again" if n_stored else ""
                told = f"{n_killed} kills, each run again: the same bytes{asked}"
        print(f"{name}: {told}", flush=True)
        found = json.loads(RESULT.read_text()) if RESULT.exists() else {}
        found[name] = {"told": told, "seconds": round(time.perf_counter() - start, 1)}
        found[name] |= {"sqlite": sqlite3.sqlite_version, "machine": platform.machine()}
        RESULT.write_text(json.dumps(found, indent=1) + "\n")
        lines = [f"{each}: {of['told']}" for each, of in found.items()]
        lines += ["lost 0, wrong 0, asked twice 0 (the first fault ends the run)"]
        RESULT.with_suffix(".txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
