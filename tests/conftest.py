"""Examples are not timed, for the machine may be busy. In CI every run draws the same ones, so that a failure is the
change's; elsewhere each run draws new ones.
"""

import os

import pytest
from hypothesis import settings

settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")


@pytest.fixture(autouse=True)
def own_store(monkeypatch, tmp_path_factory):
    """No test asks, or fills, the user's store."""
    monkeypatch.setenv("SYNTHSCORE_STORE", str(tmp_path_factory.getbasetemp() / f"{os.urandom(8).hex()}.sqlite"))
