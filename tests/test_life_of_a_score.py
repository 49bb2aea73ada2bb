"""One text's way to its score, as a list of files: those of the package that are entered, in their order.

docs/architecture.md tells the same way in words. A file more is a thing more to know for whoever follows a score, so
the two counts may fall, and rise only with a reason.
"""

import json
import sys
from pathlib import Path

import pytest

import synthscore
from synthscore import Scorer
from synthscore.cli.app import main
from synthscore.engines import open_engine
from synthscore.ladders.references import References
from synthscore.resources import resource

pytestmark = pytest.mark.slow  # a profiler's hook on every call

PACKAGE = Path(synthscore.__file__).parent
LADDERS = str(resource("data/references/degraded"))

MOST_OF_A_COMMAND = 40
"""Files that `synthscore score` enters, from the command line to the file of scores; one counts nano's words, one reads
what a task.toml says, and one looks for a task that came with the ladders."""

MOST_OF_A_ROW = 17
"""Files from a row to its score, in Python, where references and judge are open already and this is not the first."""


def entered(function):
    """{file: its functions that are called}, in the order in which they are entered."""
    files: dict[str, dict[str, None]] = {}

    def hook(frame, event, argument):
        code = frame.f_code
        path = Path(code.co_filename)
        if event == "call" and code.co_name != "<module>" and path.is_relative_to(PACKAGE):
            files.setdefault(str(path.relative_to(PACKAGE)), {})[code.co_name] = None

    before = sys.getprofile()
    sys.setprofile(hook)
    try:
        function()
    finally:
        sys.setprofile(before)
    return files


def listed(files):
    return "\n".join(
        f"{n:2} {file}: {', '.join(name for name in names if name[0] != '<')}"
        for n, (file, names) in enumerate(files.items(), 1)
    )


@pytest.fixture
def row():
    return json.loads(resource("data/demo/targets.jsonl").read_text(encoding="utf-8").splitlines()[0])


def test_the_life_of_a_score_is_short(row):
    scorer = Scorer(References.load(LADDERS), open_engine("nano"), task="summarization", attribute="coherence")
    assert scorer.score([row])[0].status == "ok"  # whatever is imported on the way is now imported
    files = entered(lambda: scorer.score([row]))
    assert len(files) <= MOST_OF_A_ROW, "\n" + listed(files)


def test_the_life_of_a_command_is_short(row, tmp_path):
    rows, scores = tmp_path / "targets.jsonl", tmp_path / "scores.jsonl"
    rows.write_text(json.dumps(row), encoding="utf-8")
    argv = ["score", str(rows), "--references", LADDERS, "-a", "coherence", "-o", str(scores), "--store"]
    assert main([*argv, "none"]) == 0  # whatever is imported on the way is now imported
    files = entered(lambda: main([*argv, str(tmp_path / "answers.sqlite")]))
    assert json.loads(scores.read_text(encoding="utf-8"))["status"] == "ok"
    assert len(files) <= MOST_OF_A_COMMAND, "\n" + listed(files)
