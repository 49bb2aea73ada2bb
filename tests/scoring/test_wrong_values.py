"""Values that a caller got wrong are named before anything is asked, by synthscore's own errors."""

import numpy as np
import pytest

import synthscore as ss
from synthscore.errors import InputError
from synthscore.resources import resource

REFERENCES = resource("data/references/degraded")


@pytest.mark.parametrize("make", [lambda: ss.Paper(np.int64(20), np.int32(1)), lambda: ss.MinScore(np.float32(3.5))])
def test_numbers_of_numpy_are_numbers(make):
    assert make() is not None


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: ss.Paper(n_samples="a"), "n_samples is 'a'"),
        (lambda: ss.Paper(n_samples=1.5), "n_samples is 1.5"),
        (lambda: ss.Paper(n_samples=True), "n_samples is True"),
        (lambda: ss.Paper(n_samples=2, seed=1.5), "seed is 1.5"),
        (lambda: ss.MinScore("a"), "threshold is 'a'"),
        (lambda: ss.AtLeast(3, "a"), "alpha is 'a'"),
        (lambda: ss.References.load(5), "references is 5"),
        (lambda: ss.Scorer(REFERENCES, 5, task="story", attribute="coherence"), "judge is 5"),
        (lambda: ss.Scorer(REFERENCES, None, task="story", attribute="coherence"), "judge is None"),
        (lambda: ss.Scorer(REFERENCES, "nano", asking="compare"), "asking is 'compare'"),
        (lambda: ss.Scorer(REFERENCES, "nano", scoring="paper"), "scoring is 'paper'"),
        (lambda: ss.Scorer(REFERENCES, "nano", scoring=ss.Paper), "scoring is <class"),
        (lambda: ss.filter([], REFERENCES, "nano", "3"), "threshold is '3'"),
        (lambda: ss.filter([], REFERENCES, "nano", None), "threshold is None"),
        (lambda: ss.filter([], REFERENCES, "nano", 3.5, kept="kept.xyz"), "cannot write kept.xyz"),
    ],
)
def test_a_value_of_the_wrong_kind_is_named(make, told):
    with pytest.raises(InputError, match=told):
        make()
