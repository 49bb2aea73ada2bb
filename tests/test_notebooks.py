"""The notebooks run, offline and on data that comes along, and what they show is kept with them.

The judge that they open gives the answers of nano that are recorded (test_numbers_stand), and no preference where none
is: what is tested is their code. Asked itself, nano would take minutes.
"""

import ast
import json
import os
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
MOST_BYTES = 300_000
MOST_SECONDS = 600  # for a cell on a machine that is busy; a whole notebook takes seconds on an idle one

JUDGE = """
from synthscore import engines
from tests.fakes import FakeEngine
from tests.test_numbers_stand import RecordedJudge, load_answers

engines.open_engine = lambda name, **options: FakeEngine(RecordedJudge(load_answers()), name=name)
"""

if not NOTEBOOKS:
    pytest.skip(f"{FOLDER} is not there", allow_module_level=True)


def code_cells(path):
    return [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_first_to_last_cell(path, tmp_path, monkeypatch):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "MPLCONFIGDIR"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(name, str(tmp_path / name))
    startup = tmp_path / "IPYTHONDIR/profile_default/startup/judge.py"
    startup.parent.mkdir(parents=True)
    startup.write_text(JUDGE, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(FOLDER.parent), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.delenv("SYNTHSCORE_BENCHMARKS", raising=False)
    notebook = nbformat.read(path, as_version=4)
    here = tmp_path / "here"
    here.mkdir()
    client = nbclient.NotebookClient(
        notebook, timeout=MOST_SECONDS, kernel_name="python3", resources={"metadata": {"path": str(here)}}
    )
    client.execute()
    assert not list(here.iterdir())  # it leaves nothing behind


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_imports_nothing_of_the_repository_but_the_package_that_is_installed(path):
    code = "\n".join("".join(cell["source"]) for cell in code_cells(path))
    imports = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Import | ast.ImportFrom)]
    named = {name for node in imports for name in [getattr(node, "module", None), *(each.name for each in node.names)]}
    assert "synthscore" in {name.split(".")[0] for name in named if name}
    beside = {folder.name for folder in FOLDER.parent.iterdir() if (folder / "__init__.py").exists()} - {"synthscore"}
    assert "papers" in beside
    assert not {name for name in named if name and name.split(".")[0] in beside}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_with_all_that_it_shows_and_nothing_else(path):
    assert path.stat().st_size < MOST_BYTES
    cells = code_cells(path)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert {output["output_type"] for output in outputs} <= {"stream", "display_data"}
    said = "".join("".join(output["text"]) for output in outputs if output["output_type"] == "stream")
    assert {output["name"] for output in outputs if output["output_type"] == "stream"} <= {"stdout"}
    assert not {home for home in ("/home/", "/root/", "/tmp/", "site-packages", "\\Users\\") if home in said}
