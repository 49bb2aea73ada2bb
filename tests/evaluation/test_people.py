"""How far people agree with each other, and what that allows of anyone else."""

from functools import partial

import numpy as np
import pytest

from synthscore.errors import InputError
from synthscore.evaluation.agreement import LEVELS, agreement
from synthscore.evaluation.correlation import STATISTICS, correlation
from synthscore.evaluation.people import reliability
from synthscore.evaluation.ratings import RatedText, Ratings
from tests.evaluation.test_agreement import rows_of

NAN = float("nan")
pearson = partial(correlation, statistic="pearson")


def ratings_of(single, contexts=None, known=True):
    """single : for each text, what people said of it. Attribute "a"; six texts a context where none is given."""
    texts = []
    for k, said in enumerate(single):
        context = contexts[k] if contexts else f"c{k // 6}"
        human = {"a": float(np.mean(said))} if len(said) else {}
        texts.append(RatedText(str(k), context, f"s{k % 6}", "text", human, {"a": tuple(said)} if known else {}))
    return Ratings("made up", tuple(texts), ("a",))


def simulated(rng, n_contexts, n_texts, n_people, noise, rounded=False):
    """Quality of each text, and the ratings of people who see it through noise."""
    quality = rng.normal(size=(n_contexts * n_texts, 1))
    single = quality + noise * rng.normal(size=(len(quality), n_people))
    if rounded:
        single = np.clip(np.round(3 + single), 1, 5)
    return quality[:, 0], ratings_of(single.tolist(), [f"c{k // n_texts}" for k in range(len(quality))])


# ------------------------------------------------------------------------------------------------- reliability


def test_three_people_and_four_texts_are_as_computed_by_hand():
    single = [[1, 2, 1], [2, 2, 4], [3, 5, 3], [5, 4, 4]]
    columns = np.array(single, dtype=float).T
    r = np.mean([pearson(columns[j], np.delete(columns, j, axis=0).mean(axis=0)) for j in range(3)])
    found = reliability(ratings_of(single, "dddd"), "a", level="pooled", statistic="pearson")
    assert found.one_against_others == pytest.approx(r)
    one = (r**2 + np.sqrt(r**4 + 8 * r**2)) / 4  # r^2 (1 + q) = 2 q^2
    assert found.reliability == pytest.approx(3 * one / (1 + 2 * one))
    assert found.ceiling == pytest.approx(np.sqrt(3 * one / (1 + 2 * one)))
    assert (found.n_texts, found.n_single, found.n_people, found.n_contexts) == (4, 0, 3, 1)


def test_two_people_are_stepped_up_as_spearman_and_brown_do():
    single = [[1, 2], [2, 1], [3, 3], [4, 5], [5, 4]]
    r = pearson(*zip(*single, strict=True))
    found = reliability(ratings_of(single, "ccccc"), "a", statistic="pearson")
    assert found.one_against_others == pytest.approx(r)
    assert found.reliability == pytest.approx(2 * r / (1 + r))


@pytest.mark.slow
@pytest.mark.parametrize(("n_people", "n_texts"), [(2, 12), (3, 6), (6, 12)])
@pytest.mark.parametrize("rounded", [False, True])
def test_the_ceiling_is_what_a_method_without_error_reaches(n_people, n_texts, rounded):
    quality, ratings = simulated(np.random.default_rng(n_people), 3600 // n_texts, n_texts, n_people, 1.0, rounded)
    tolerance = {"pearson": 0.02, "spearman": 0.02, "kendall": 0.03}  # of the normal theory, and of 300 contexts
    for level in ("per_context", "pooled"):
        for statistic in STATISTICS:
            if level == "pooled":
                reached = correlation(quality, ratings.human("a"), statistic)
            else:
                reached = agreement(quality, ratings.human("a"), ratings.context_ids, statistic=statistic).value
            found = reliability(ratings, "a", level=level, statistic=statistic)
            assert found.ceiling == pytest.approx(reached, abs=tolerance[statistic])
    assert found.n_people == pytest.approx(n_people)


def test_the_ceiling_holds_where_texts_have_different_numbers_of_people():
    rng = np.random.default_rng(0)
    quality, ratings = simulated(rng, 400, 10, 5, 1.0)
    some = ratings_of([text.annotators["a"][: rng.integers(2, 6)] for text in ratings], ratings.context_ids)
    reached = pearson(quality, some.human("a"))
    assert reliability(some, "a", level="pooled", statistic="pearson").ceiling == pytest.approx(reached, abs=0.015)


def test_each_place_in_the_lists_weighs_as_many_texts_as_have_it():
    single = [[1, 2, 1], [2, 2, 4], [3, 5, 3], [5, 4, 4], [1, 3], [4, 4], [2, 1], [5, 5]]
    found = reliability(ratings_of(single, "c" * 8), "a", level="pooled", statistic="pearson")
    sides = [
        ([1, 2, 3, 5, 1, 4, 2, 5], [1.5, 3, 4, 4, 3, 4, 1, 5]),
        ([2, 2, 5, 4, 3, 4, 1, 5], [1, 3, 3, 4.5, 1, 4, 2, 5]),
        ([1, 4, 3, 4], [1.5, 2, 4, 4.5]),
    ]
    assert found.one_against_others == pytest.approx(np.dot([8, 8, 4], [pearson(*side) for side in sides]) / 20)
    assert found.n_people == pytest.approx(8 / (4 / 3 + 4 / 2))
    m = 8 / (4 / 2 + 4 / 1)
    q = found.reliability / (found.n_people - (found.n_people - 1) * found.reliability)
    assert q * np.sqrt(m / (1 + (m - 1) * q)) == pytest.approx(found.one_against_others)


def test_means_of_others_that_differ_by_rounding_alone_are_tied():
    tenths = [[10, 1, 2, 3], [20, 3, 2, 1], [30, 4, 5, 6], [10, 6, 5, 4]]
    assert 0.1 + 0.2 + 0.3 != 0.3 + 0.2 + 0.1
    one, other = (reliability(ratings_of(np.array(tenths) / by, "cccc"), "a").one_against_others for by in (1, 10))
    assert one == pytest.approx(other)


@pytest.mark.slow
def test_reliability_is_the_correlation_with_as_many_other_people():
    _, ratings = simulated(np.random.default_rng(0), 400, 10, 8, 1.5)
    half = ratings_of([text.annotators["a"][:4] for text in ratings], ratings.context_ids)
    others = ratings_of([text.annotators["a"][4:] for text in ratings], ratings.context_ids)
    for statistic in STATISTICS:
        seen = correlation(half.human("a"), others.human("a"), statistic)
        found = reliability(half, "a", level="pooled", statistic=statistic).reliability
        assert found == pytest.approx(seen, abs=0.02)


def test_a_person_who_gives_a_point_more_changes_nothing():
    _, ratings = simulated(np.random.default_rng(0), 5, 6, 3, 1.0)
    lenient = ratings_of([[a + 1, b, c] for a, b, c in (text.annotators["a"] for text in ratings)])
    for level in LEVELS:
        one, other = (reliability(each, "a", level=level) for each in (ratings, lenient))
        assert one.ceiling == pytest.approx(other.ceiling)


def test_people_of_one_mind_leave_the_ceiling_at_1():
    for level in LEVELS:
        found = reliability(ratings_of([[k % 5, k % 5] for k in range(12)]), "a", level=level)
        assert (found.one_against_others, found.reliability, found.ceiling) == pytest.approx((1, 1, 1))


def test_the_ceiling_has_an_interval_of_contexts():
    _, ratings = simulated(np.random.default_rng(0), 30, 6, 3, 1.0)
    for level in LEVELS:
        found = reliability(ratings, "a", level=level)
        assert found.low < found.ceiling < found.high
    one = reliability(ratings_of([[1, 2], [2, 1], [3, 3]]), "a")
    assert (one.low, one.high, one.note) == (
        None,
        None,
        "no interval: it takes two contexts or more",
    )


def test_contexts_that_people_rate_alike_are_left_out_and_a_constant_person_agrees_with_nobody():
    single = [[1, 2], [2, 1], [1, 3], [3, 1], [2, 4], [3, 4], [4, 4]]
    contexts = list("aabbccc")  # a, b: equal means; c: the second person says 4 of all
    found = reliability(ratings_of(single, contexts), "a")
    assert (found.n_contexts, found.one_against_others, found.ceiling) == (1, 0, 0)
    whole = ratings_of([*single, [1, 2], [2, 3]], [*contexts, "d", "d"])
    assert reliability(whole, "a").one_against_others == pytest.approx(0.5)


def test_people_who_agree_less_than_by_chance_have_no_ceiling_and_it_is_said():
    found = reliability(ratings_of([[1, 3], [2, 2.5], [3, 1]], "ccc"), "a")
    assert found.one_against_others == pytest.approx(-1)
    assert np.isnan([found.reliability, found.ceiling]).all()
    assert found.note == "no ceiling: people agree less than by chance, with -1.000"


def test_texts_that_one_person_rated_are_left_out_and_counted():
    single = [[1, 2], [2, 3], [3, 4], [5], []]
    found = reliability(ratings_of(single, "ccccc"), "a")
    assert (found.n_texts, found.n_single) == (3, 1)
    for nothing in (ratings_of([[1], [2]]), ratings_of([[1, 2], [2, 3]], known=False), ratings_of([])):
        with pytest.raises(InputError, match="no text of made up has the ratings of two people") as error:
            reliability(nothing, "a")
        assert error.value.value == "a"
    found = reliability(ratings_of([[1, 1], [1, 1]]), "a")
    assert np.isnan([found.one_against_others, found.ceiling]).all()
    assert found.note.startswith("in no context do two texts have different mean ratings")


# ------------------------------------------------------------------------------------------------- published data


def benchmark(name):
    texts = []
    for row in rows_of(name):
        single = row["human_raw"] or {}
        single = single.get("expert", single)
        names = row["context_id"], row["system"]
        texts.append(RatedText("/".join(names), *names, row["text"], row["human"], single))
    return Ratings(name, tuple(texts), tuple(texts[0].human))


def test_people_agree_on_summeval_as_was_found():
    ratings = benchmark("summeval")
    found = {name: reliability(ratings, name) for name in ratings.attributes}
    assert {name: round(each.ceiling, 3) for name, each in found.items()} == {
        "coherence": 0.898, "consistency": 0.903, "fluency": 0.855, "relevance": 0.797,
    }  # fmt: skip
    assert [found["consistency"].n_contexts, found["coherence"].n_texts, found["coherence"].n_single] == [48, 600, 200]


def test_groundedness_of_topicalchat_can_be_judged_in_54_contexts():
    ratings = benchmark("topicalchat")
    assert reliability(ratings, "groundedness").n_contexts == 54
