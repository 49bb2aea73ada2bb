"""benchmarks/cost.py: tokens of shared prompts without the prompts, and the table in docs from recorded answers."""

import json

import numpy as np
import pytest

from benchmarks.cost import ANSWERS, RESULTS, Prompts, Recorded, rows_of
from benchmarks.cost_record import lengths
from synthscore.engines.tree.trie import pack


def test_tokens_of_any_prompts_are_those_of_the_tree_that_the_engine_makes_of_them():
    rng = np.random.default_rng(0)
    sequences = [rng.integers(0, 2, rng.integers(1, 12)).tolist() for _ in range(60)]
    recorded = {f"x_{key}": values for key, values in lengths(sequences).items()}
    prompts = Prompts.read(recorded, "x")
    for n in (1, 2, 10, 60):
        chosen = rng.choice(60, n, replace=False)
        assert prompts.distinct(chosen) == pack([sequences[k] for k in chosen]).n_tokens
        assert prompts.whole(chosen) == sum(len(sequences[k]) for k in chosen)
    assert prompts.distinct(np.array([3, 3])) == len(sequences[3])
    assert prompts.padded(np.arange(20)) == 16 * max(map(len, sequences[:16])) + 4 * max(map(len, sequences[16:20]))


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(ANSWERS.glob("cost-*.npz")), ids=lambda path: path.stem)
def test_recorded_answers_give_the_numbers_that_are_kept(path):
    kept = json.loads((RESULTS / "cost.json").read_text())[f"{path.stem} at the quartiles"]
    for row, as_kept in zip(rows_of(Recorded.read(path), quartiles=True), kept, strict=True):
        assert row == pytest.approx(as_kept)
