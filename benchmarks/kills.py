"""Does anything that is killed while it works lose or spoil something, ask twice, or end otherwise when it is repeated?

    python -m benchmarks.kills [--kills 100] [--questions 40000] [--only NAME]

Verbs: score, filter, generate, calibrate and references import run in a process that is killed (SIGKILL) at a random
moment of its run, and are then run again, a fifth of the kills each. The rerun must end well, write byte for byte what
a run does that was never killed, and ask everything but what was stored.

The store: a process asks verdicts and texts through a StoredEngine and is killed up to 0.1 s after its first batch; the
next one goes on with the same file. After each kill: SQLite's integrity check, every stored answer against the truth,
every question against its key, the number of answers against what the writer had told was stored, and the first batch
that a rerun asks against the first that is missing; at the end, all that a rerun asks against all that is missing.

The client: 200 questions to a server that takes .1 to .5 s for a reply, 16 in flight, stopped at a random moment by
Ctrl-C or kill -9, 10 times each. Replies that had left the server and are not in the store are lost: at most those
in flight, and with kill -9 16 besides (parts.PART_N).

The ceiling is 0 faults; the first one ends the run.
"""

from __future__ import annotations

import argparse
import json
import platform
import signal
import sqlite3
import tempfile
import time
from pathlib import Path

from synthscore.store.parts import PART_N
from tests.client_kills import IN_FLIGHT, stop_client
from tests.kills import kill_often
from tests.verb_kills import VERBS, kill_verb

RESULT = Path(__file__).parent / "results" / "kills.json"


def stop_clients(folder: Path, n: int, seed: int) -> str:
    """Half of them by Ctrl-C. What was lost, in words."""
    told = []
    for how in (signal.SIGINT, signal.SIGKILL):
        found = [stop_client(folder / f"{how}-{k}.sqlite", how, seed=seed + k) for k in range(n // 2)]
        for lost in found:
            held = IN_FLIGHT + (PART_N if how == signal.SIGKILL else 0)
            assert lost.n_lost <= held, f"{how}: {lost}"
            assert not lost.n_again, f"{how}: {lost}"
            assert how == signal.SIGKILL or f": {lost.n_stored} answers of this run" in lost.line, lost
        n_sent, most = sum(lost.n_sent for lost in found), max(lost.n_lost for lost in found)
        told.append(f"{how.name} {len(found)} times: {n_sent} replies had left the server, at most {most} lost a time")
    return "; ".join(told) + "; nothing that was stored is asked again"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100, help="of the verbs together, and of the store")
    parser.add_argument("--questions", type=int, default=40_000, help="of each kind; more than can be written")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--only", choices=[*VERBS, "store", "client"], help="one of them; the kept result of the others stays"
    )
    args = parser.parse_args()
    for name in [args.only] if args.only else [*VERBS, "store", "client"]:
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            if name == "client":
                told = stop_clients(Path(folder), args.kills // 5, args.seed)
            elif name == "store":
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
