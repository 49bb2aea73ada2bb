"""The wheel carries all that the program needs: prompts, demo data, references and the embedded model."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

SCRIPT = """
import synthscore as ss
from synthscore.cli.app import main
from synthscore.resources import resource
assert "site" in str(resource("prompts")), resource("prompts")
references = ss.References.load(resource("data/references/curated/first24"))
assert len(ss.References.load(resource("data/references/curated/dialogue/test.parquet")))
context = references.find("sum-01", "coherence").context
scorer = ss.Scorer(references, ss.open_engine("nano"), task="summarization", attribute="coherence")
scores = scorer.score([ss.Target("t", "sum-01", "The ferry lost power and was towed in.")])
assert scores[0].status == "ok", scores[0]
assert ss.generate_ladders([context], ss.load_task("summarization"), ["fluency"], ss.DegradedWriter())[0].usable
raise SystemExit(main(["references", "list", str(resource("data/references/degraded"))]))
"""


@pytest.mark.slow
def test_an_installed_wheel_works_from_another_folder(tmp_path):
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", tmp_path, ROOT]
    subprocess.run([str(part) for part in build], check=True)
    [wheel] = tmp_path.glob("synthscore-*.whl")
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert (site / "synthscore/_resources/data/nano/NOTICE").is_file()
    assert (site / "synthscore/report/page.html.jinja").is_file()
