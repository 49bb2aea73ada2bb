"""People's ratings of candidates, by id or system, and by context."""

import numpy as np
import pytest

from papers.candidates import CandidateRatings
from synthscore.errors import InputError

FLUENCY = list(zip("abc", (2, 1, 3), strict=True))


def of(rows, context=None, attribute=None):
    by, group = (("context_id",), (context,)) if context else ((), ())
    return CandidateRatings.load(rows).of("abc", by, group, attribute).tolist()


@pytest.mark.parametrize(
    "rows",
    [
        [{"id": name, "human": h} for name, h in FLUENCY],
        [{"system": name, "context_id": "any", "human": {"fluency": h}} for name, h in FLUENCY],
        [{"id": n, "human": h} for n, h in (("a", 1), ("a", 3), ("b", 0), ("b", 2), ("c", 3))],  # means
        [{"id": name, "human": f'{{"fluency": {h}}}'} for name, h in FLUENCY],
    ],
)
def test_ratings_are_found_by_id_or_system(rows):
    assert CandidateRatings.load(rows).of("abc", (), ()).tolist() == [2, 1, 3]


def test_a_context_is_not_rated_by_what_people_said_in_another():
    rated = [{"id": name, "context_id": "c1", "human": h} for name, h in FLUENCY]
    found = CandidateRatings.load([*rated, {"id": "a", "context_id": "c2", "human": 1}])
    np.testing.assert_array_equal(found.of("abc", ("context_id",), ("c2",)), [1, np.nan, np.nan])


@pytest.mark.parametrize("nothing", [{}, {"context_id": None}, {"context_id": ""}])
def test_a_rating_that_names_no_context_counts_in_all_that_have_none_of_their_own(nothing):
    rated = [{"id": name, "human": h} | nothing for name, h in FLUENCY]
    own = [{"id": name, "context_id": "c2", "human": h} for name, h in zip("abc", (7, 8, 9), strict=True)]
    assert [of([*rated, *own], context) for context in ("c1", "c2")] == [[2, 1, 3], [7, 8, 9]]


def test_a_rating_that_is_none_is_an_error():
    with pytest.raises(InputError, match="row 1: human is None, expected a number"):
        CandidateRatings.load([{"id": "a", "human": None}])
    with pytest.raises(InputError, match="rates 'x', 'y', and None was asked for"):
        of([{"id": "a", "human": {"x": 1, "y": 2}}])
