"""With a real model: what a server leaves unreported never puts the score of the model itself outside low..high."""

import numpy as np
import pytest

from benchmarks.routes import scored
from synthscore.engines import open_engine
from synthscore.scoring.paper import rung_top
from tests.real.conftest import in_short

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def route(server):
    """Opens the model behind a server, by method and number of tokens."""
    return lambda method, top_k=None: open_engine(server.url, method=method, top_k=top_k, tokenizer=server.root)


@pytest.fixture(scope="module")
def here(smollm):
    """The scores of 8 short texts by 80 questions, in this process."""
    scores = scored(smollm, *in_short())
    assert sum(len(score.verdicts) for score in scores) == 80
    assert np.ptp([score.value for score in scores]) > 0.5
    return scores


def test_where_all_labels_are_reported_a_server_gives_the_scores_of_the_model_here(route, here):
    there = scored(route("ids"), *in_short())
    assert all(score.low is None for score in there)
    np.testing.assert_allclose([score.value for score in there], [score.value for score in here], atol=1e-3)


@pytest.mark.parametrize(("top_k", "n_scored"), [(20, 0), (100, 0), (1000, 0), (3000, 4), (10000, 8)])
def test_the_score_of_the_model_here_is_between_low_and_high_in_every_row(top_k, n_scored, route, here):
    """This judge says Better with .99 whatever it is shown: what is left in both orders rests on rare labels."""
    there = scored(route("topk", top_k), *in_short())
    assert sum(score.value is not None for score in there) == n_scored
    for bounded, exact in zip(there, here, strict=True):
        if bounded.value is not None and bounded.low is None:  # all was reported
            assert bounded.value == pytest.approx(exact.value, abs=1e-3)
        low, high = (0.0, rung_top(5)) if bounded.low is None else (bounded.low, bounded.high)
        assert low - 1e-3 <= exact.value <= high + 1e-3
    widths = [score.high - score.low for score in there if score.low is not None]
    assert top_k != 1000 or (len(widths) == 8 and np.mean(widths) < 0.6)
