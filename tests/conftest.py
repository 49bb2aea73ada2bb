"""Examples are not timed, for the machine may be busy. Every run draws the same ones, so that a failure is of what was
changed; `make fuzz`, which sets SYNTHSCORE_FUZZ, draws new ones.
"""

import os

import pytest
from hypothesis import settings

settings.register_profile("same examples", deadline=None, derandomize=True)
settings.register_profile("new examples", deadline=None)
settings.load_profile("new examples" if os.environ.get("SYNTHSCORE_FUZZ") else "same examples")


@pytest.fixture(autouse=True)
def own_store(monkeypatch, tmp_path_factory):
    """No test asks, or fills, the user's store."""
    monkeypatch.setenv("SYNTHSCORE_STORE", str(tmp_path_factory.getbasetemp() / f"{os.urandom(8).hex()}.sqlite"))
