"""The job files of docs/machines/: what they run is understood, and a shard that is not done is not taken for one."""

import re
import subprocess
from pathlib import Path

import pytest

from synthscore.cli.app import build_app

FILES = sorted((Path(__file__).parents[2] / "docs" / "machines").glob("*.*"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_job_file_runs_a_command_that_there_is(path):
    text = path.read_text(encoding="utf-8")
    subprocess.run(["bash", "-n"], input=text if path.suffix == ".slurm" else "", text=True, check=True)
    [command] = re.findall(r"synthscore (filter .*?) \|\|", text.replace("\\\n", ""), re.DOTALL)
    words = re.sub(r"\$i\b", "17", command.replace("$SHARDS", "64")).replace('"', "").split()
    verb, given, _ = build_app().parse_args(words, exit_on_error=False, print_error=False)
    assert (verb.__name__, str(given.arguments["shard"])) == ("filter", "17/64")
    outputs = [given.arguments[name] for name in ("output", "dropped")]
    [done] = re.findall(r"^ *(\[ -e .*) && exit 0", text, re.MULTILINE)
    assert re.findall(r'-e "(.*?)" \]', done.replace("$i", "17")) == outputs


def test_there_are_a_job_for_slurm_and_one_for_kubernetes():
    assert {".yaml", ".slurm"} <= {path.suffix for path in FILES}
