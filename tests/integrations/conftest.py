"""Ladders in a folder, and a judge by the name of "q" that reads quality from the texts: what every mount is given."""

import pytest

import synthscore.integrations.mount as mount
from synthscore import engines
from tests import factories
from tests.fakes import FakeEngine
from tests.scoring.test_scorer import ladder, soft_judge


@pytest.fixture
def judge(monkeypatch):
    """The engine that is opened, whatever its name."""
    engine = FakeEngine(soft_judge)
    monkeypatch.setattr(engines, "open_engine", lambda name, **options: engine)
    monkeypatch.setattr(mount, "_LOADED", {})
    return engine


@pytest.fixture
def ladders(tmp_path):
    folder = tmp_path / "ladders"
    factories.references(ladder("c1"), ladder("c2")).save(folder)
    return str(folder)


def text(quality):
    return f"text q={quality} ."
