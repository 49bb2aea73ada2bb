"""The short form of benchmarks/shard_kills.py."""

import pytest

from benchmarks.shard_kills import kill_often


@pytest.mark.slow
def test_shards_that_are_killed_and_run_again_write_the_rows_of_one_machine(tmp_path):
    assert len(kill_often(tmp_path, 2, 300, sizes=(2,))) == 2
