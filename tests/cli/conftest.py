"""Every verb runs in process, in a folder of its own, with an engine that reads quality from the text."""

import pytest

from synthscore import engines
from synthscore.ladders.references import References
from tests.cli.given import CONTEXTS, ladder, quality_judge
from tests.fakes import FakeEngine


@pytest.fixture
def engine(monkeypatch):
    engine = FakeEngine(quality_judge)
    monkeypatch.setattr(engines, "open_engine", lambda name, **options: engine)
    return engine


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Every test in a folder of its own, with a store of its own."""
    monkeypatch.setenv("SYNTHSCORE_STORE", str(tmp_path / "answers.sqlite"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def references(folder):
    """Good ladders of coherence, for every context, in ladders/."""
    References([ladder(context_id) for context_id in CONTEXTS]).save(folder / "ladders")
