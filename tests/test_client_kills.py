"""A client of a slow server that is stopped; benchmarks/kills.py does it twenty times."""

import signal

import pytest

from synthscore.store.parts import PART_N
from tests.client_kills import IN_FLIGHT, stop_client


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs kill -9")
def test_a_client_that_is_killed_loses_few_replies_and_one_that_is_interrupted_what_is_in_flight(tmp_path):
    killed = stop_client(tmp_path / "killed.sqlite", signal.SIGKILL, seed=1)
    assert killed.n_lost <= PART_N + IN_FLIGHT
    assert (killed.n_stored > 0, killed.n_again) == (True, 0)
    stopped = stop_client(tmp_path / "stopped.sqlite", signal.SIGINT, seed=2)
    assert stopped.n_lost <= IN_FLIGHT
    assert stopped.line.endswith(f": {stopped.n_stored} answers of this run are in the store")
    assert stopped.n_again == 0
