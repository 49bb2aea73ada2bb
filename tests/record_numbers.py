"""`python -m tests.record_numbers [--ask-all]`: record anew what test_numbers_stand compares, and print what changed.

--ask-all : ask nano everything again (some minutes), not only what is not recorded
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from synthscore import engines
from tests.test_numbers_stand import GOLDEN, READERS, RecordedJudge, changes, load, load_answers, machine, numbers_of


def main() -> None:
    GOLDEN.mkdir(exist_ok=True)
    known = (GOLDEN / "answers.json.gz").exists() and "--ask-all" not in sys.argv
    judge = RecordedJudge(load_answers() if known else {})
    try:
        with tempfile.TemporaryDirectory() as folder:
            numbers = numbers_of(Path(folder), judge, engines.open_engine("nano"))
        judge.answers = {key: judge.answers[key] for key in sorted(judge.asked)}
    finally:  # what nano has answered is kept, whatever went wrong after
        answers = json.dumps(judge.answers, separators=(",", ":"))
        (GOLDEN / "answers.json.gz").write_bytes(gzip.compress(answers.encode(), mtime=0))
    for what in READERS:
        before = load(what) if (GOLDEN / f"{what}.json").exists() else {}
        for name in dict.fromkeys([*before, *numbers[what]]):
            if lines := changes(before.get(name, {}), numbers[what].get(name, {})):
                print(f"{what} {name}: {len(lines)} changed\n  " + "\n  ".join(lines[:5]))
        write(f"{what}.json", lines_of(numbers[what]))
    write("machine.json", json.dumps(machine()))


def lines_of(runs: dict[str, dict[str, Any]]) -> str:
    """JSON with a row a line, so that a change can be read in a diff."""
    parts = []
    for name, rows in runs.items():
        inner = ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in rows.items())
        parts.append(f" {json.dumps(name)}: {{\n{inner}\n }}")
    return "{\n" + ",\n".join(parts) + "\n}"


def write(name: str, text: str) -> None:
    (GOLDEN / name).write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
