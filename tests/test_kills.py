"""Verbs that are killed and repeated; benchmarks/kills.py does it a hundred times."""

import signal

import pytest

from tests.verb_kills import ASKS, VERBS, kill_verb


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs kill -9")
@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_that_was_killed_ends_as_if_it_had_not_been_and_asks_nothing_twice(verb, tmp_path):
    n_killed, n_stored = kill_verb(verb, tmp_path, n_kills=3, seed=1)
    assert n_killed == 3
    assert (n_stored > 0) <= (verb in ASKS)
