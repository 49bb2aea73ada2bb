"""Scores against worked examples, closed forms, slow and obvious solvers, and choix and evalica."""

import warnings
from functools import partial

import choix
import evalica
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from synthscore.errors import InputError, RankingError, SynthscoreWarning
from synthscore.ranking import bradley_terry as newton
from synthscore.ranking import graph as graph_module
from synthscore.ranking.bradley_terry import (
    Davidson,
    Logistic,
    bradley_terry,
    bradley_terry_ties,
    maximise,
    soft_bradley_terry,
)
from synthscore.ranking.closed_form import average_probability, colley, gaussian, hard_gaussian, win_ratio
from synthscore.ranking.comparisons import Comparisons
from synthscore.ranking.graph import Graph, Information
from synthscore.ranking.methods import rank
from synthscore.ranking.sets import ComparisonSets
from tests.factories import turned

EXACT = 1e-12  # of a solver's gradient for each comparison, where the answer is compared to 1e-8
soft = soft_bradley_terry
hard = partial(bradley_terry, decisions="per_call")
ALL_METHODS = [win_ratio, average_probability, colley, hard, soft, bradley_terry_ties, gaussian, hard_gaussian]


@pytest.fixture(autouse=True, scope="module")
def _exact():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(newton, "TOLERANCE", EXACT)
        yield


def sigmoid(x):
    return 1 / (1 + np.exp(-np.asarray(x)))


def linked(rng, n, k, three=False, low=0.02):
    """A random set of calls that links everybody: a chain in random order, and k more."""
    order = rng.permutation(n)
    first = np.append(order[:-1], rng.integers(0, n, k))
    second = np.append(order[1:], (first[n - 1 :] + rng.integers(1, n, k)) % n)
    ids = [f"c{place}" for place in range(n)]
    weights = rng.integers(1, 4, len(first)).astype(float)
    if three:
        return Comparisons(tuple(ids), first, second, np.log(rng.dirichlet(np.ones(3), len(first))), weights)
    return Comparisons.from_probabilities(ids, first, second, rng.uniform(low, 1 - low, len(first)), weights)


@st.composite
def sets(draw, three=False):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return linked(rng, draw(st.integers(2, 9)), draw(st.integers(0, 30)), three)


def full(rng, n, p=None, both_orders=True):
    """Every pair, in both orders, or in one."""
    first, second = np.nonzero(~np.eye(n, dtype=bool)) if both_orders else np.triu_indices(n, 1)
    p = rng.uniform(0.02, 0.98, len(first)) if p is None else p(first, second)
    return Comparisons.from_probabilities([f"c{place}" for place in range(n)], first, second, p)


# ------------------------------------------------------------------------------------------------- slow and obvious


def wins_matrix(c):
    w = np.zeros((c.n_candidates, c.n_candidates))
    np.add.at(w, (c.first, c.second), c.weights * c.probabilities)
    np.add.at(w, (c.second, c.first), c.weights * (1 - c.probabilities))
    return w


def log_likelihood(w, s):
    return float(-(w * np.logaddexp(0, s[None, :] - s[:, None])).sum())


def zermelo(w, rounds=20_000):
    n = w + w.T
    s, history = np.zeros(len(w)), []
    for _ in range(rounds):
        pi = np.exp(s)
        new = np.log(w.sum(axis=1) / (n / (pi[:, None] + pi[None, :])).sum(axis=1))
        new -= new.mean()
        history.append(log_likelihood(w, s))
        if np.abs(new - s).max() < 1e-15:
            break
        s = new
    return new, history


def newman(w, rounds=5_000):
    pi = np.ones(len(w))
    for _ in range(rounds):
        before = pi.copy()
        for i in range(len(w)):  # in turn: all at once, a star or a chain oscillates for ever
            total = pi[i] + pi
            pi[i] = (w[i] * pi / total).sum() / (w[:, i] / total).sum()
        pi /= np.exp(np.log(pi).mean())
        if np.abs(np.log(pi / before)).max() < 1e-14:
            break
    return np.log(pi)


def quasi_newton(w):
    def loss(s):
        d = s[:, None] - s[None, :]
        return -log_likelihood(w, s), -(w * sigmoid(-d)).sum(axis=1) + (w.T * sigmoid(d)).sum(axis=1)

    found = optimize.minimize(loss, np.zeros(len(w)), jac=True, method="L-BFGS-B", options={"ftol": 0, "gtol": 1e-11})
    return found.x - found.x.mean()


# ------------------------------------------------------------------------------------------------- all methods


@settings(max_examples=15)
@given(sets(three=True), st.randoms(use_true_random=False))
def test_the_order_of_candidates_and_calls_does_not_matter(c, random):
    names, rows = list(range(c.n_candidates)), list(range(len(c)))
    random.shuffle(names)
    random.shuffle(rows)
    place = np.argsort(names)
    moved = Comparisons(
        tuple(c.ids[k] for k in names), place[c.first[rows]], place[c.second[rows]], c.log_probs[rows], c.weights[rows]
    )
    for method in ALL_METHODS:
        ours, theirs = method(c), method(moved)
        np.testing.assert_allclose(theirs.scores, ours.scores[names], atol=1e-8, err_msg=ours.method)
        np.testing.assert_allclose(theirs.stderr, ours.stderr[names], rtol=1e-6, atol=1e-9, err_msg=ours.method)


@settings(max_examples=15)
@given(sets(three=True))
def test_a_weight_is_a_row_that_is_repeated(c):
    repeated = c.subset(np.repeat(np.arange(len(c)), c.weights.astype(int)))
    repeated = Comparisons(c.ids, repeated.first, repeated.second, repeated.log_probs, np.ones(len(repeated)))
    for method in ALL_METHODS:
        ours, theirs = method(c), method(repeated)
        np.testing.assert_allclose(theirs.scores, ours.scores, atol=1e-8, err_msg=ours.method)
        np.testing.assert_allclose(theirs.stderr, ours.stderr, rtol=1e-6, atol=1e-9, err_msg=ours.method)
        np.testing.assert_allclose(theirs.n_comparisons, ours.n_comparisons)
        np.testing.assert_allclose(theirs.log_likelihood, ours.log_likelihood, rtol=1e-9, atol=1e-9)


@settings(max_examples=15)
@given(sets(three=True))
def test_reversing_calls_changes_nothing_without_a_bias(c):
    for method in ALL_METHODS:
        np.testing.assert_allclose(method(turned(c)).scores, method(c).scores, atol=1e-8)


@settings(max_examples=15)
@given(sets())
def test_asking_everything_twice_changes_no_score(c):
    twice = Comparisons(c.ids, c.first, c.second, c.log_probs, 2 * c.weights)
    for method in (win_ratio, average_probability, soft, gaussian, hard_gaussian, partial(soft, bias="mle")):
        try:
            once = method(c)
        except RankingError:  # "mle" needs more than a chain
            continue
        np.testing.assert_allclose(method(twice).scores, once.scores, atol=1e-8)


@settings(max_examples=15)
@given(sets(three=True))
def test_scores_known_up_to_a_shift_have_mean_zero_and_every_comparison_is_counted_twice(c):
    for method in (hard, soft, bradley_terry_ties, gaussian, hard_gaussian):
        ranked = method(c)
        assert ranked.converged
        assert abs(ranked.scores.sum()) < 1e-9
        assert ranked.n_comparisons.sum() == pytest.approx(2 * c.weights.sum())


def test_a_result_says_who_judged_and_by_which_method():
    names = [method(linked(np.random.default_rng(0), 5, 20)).method for method in ALL_METHODS]
    assert names == [
        "win-ratio",
        "average-probability",
        "colley",
        "bt",
        "poe-bt",
        "bt-ties",
        "poe-g",
        "poe-g-hard",
    ]


# ------------------------------------------------------------------------------------------------- counts


def test_win_ratio_counts_calls_or_the_mean_of_a_pair():
    c = Comparisons.from_records([("a", "b", 0.9), ("b", "a", 0.6), ("a", "c", 0.5)], ids=["a", "b", "c", "d"])
    per_call, averaged = win_ratio(c, decisions="per_call"), win_ratio(c)
    np.testing.assert_array_equal(per_call.scores, [0.5, 0.5, 0.5, np.nan])  # a wins once, loses once, draws once
    np.testing.assert_allclose(averaged.scores, [2.5 / 3, 0, 0.5, np.nan])  # (0.9 + 0.4) / 2: a wins both
    assert averaged.n_comparisons.tolist() == [3, 2, 1, 0]
    assert averaged.ranks.tolist() == [1, 3, 2, 0]
    with pytest.raises(InputError, match="per_call"):
        win_ratio(c, decisions="mean")


@settings(max_examples=25)
@given(sets(three=True))
def test_shares_lie_in_0_to_1_and_their_wins_sum_to_the_calls(c):
    for method in (win_ratio, partial(win_ratio, decisions="per_call"), average_probability):
        ranked = method(c)
        assert ((ranked.scores >= 0) & (ranked.scores <= 1)).all()
        assert ranked.scores @ ranked.n_comparisons == pytest.approx(c.weights.sum())


def test_average_probability_is_the_mean_of_p_and_averages_one_half_where_all_meet_equally_often():
    c = Comparisons.from_records([("a", "b", 0.9), ("c", "a", 0.7), ("b", "c", 0.2)])
    np.testing.assert_allclose(average_probability(c).scores, [0.6, 0.15, 0.75])
    assert average_probability(full(np.random.default_rng(1), 7)).scores.mean() == pytest.approx(0.5)


def test_colley_solves_its_equations():
    c = linked(np.random.default_rng(2), 6, 20)
    w = wins_matrix(c.hard())
    games = w + w.T
    matrix = 2 * np.eye(6) + np.diag(games.sum(axis=1)) - games
    right = 1 + (w.sum(axis=1) - w.sum(axis=0)) / 2
    np.testing.assert_allclose(colley(c, decisions="per_call").scores, np.linalg.solve(matrix, right), atol=1e-12)


def test_colley_and_counts_do_without_links():
    c = Comparisons.from_records([("a", "b", 1.0), ("c", "d", 1.0)], ids=["a", "b", "c", "d", "e"])
    np.testing.assert_allclose(colley(c).scores, [0.625, 0.375, 0.625, 0.375, 0.5])
    nobody = Comparisons.from_records([], ids=["a", "b"])
    assert np.isnan(win_ratio(nobody).scores).all()
    assert np.isnan(average_probability(nobody).scores).all()
    np.testing.assert_allclose(colley(nobody).scores, [0.5, 0.5])
    assert bradley_terry(nobody).scores.tolist() == [0.0, 0.0]


# ------------------------------------------------------------------------------------------------- Bradley-Terry


@settings(max_examples=10)
@given(st.integers(0, 2**32 - 1))
def test_four_solvers_give_one_answer(seed):
    rng = np.random.default_rng(seed)
    c = linked(rng, int(rng.integers(3, 8)), 25, low=0.1)
    scores, w = soft(c).scores, wins_matrix(c)
    np.testing.assert_allclose(scores, zermelo(w)[0], atol=1e-8)
    np.testing.assert_allclose(scores, newman(w), atol=1e-8)
    np.testing.assert_allclose(scores, quasi_newton(w), atol=1e-6)  # stops on the change of the value


@settings(max_examples=10)
@given(sets())
def test_the_likelihood_never_falls_along_zermelo_and_ends_at_ours(c):
    history = np.array(zermelo(wins_matrix(c), rounds=300)[1])
    assert (np.diff(history) >= -1e-10 * np.abs(history[:-1])).all()
    assert soft(c).log_likelihood >= history[-1] - 1e-9 * abs(history[-1])


@settings(max_examples=25)
@given(sets(three=True))
def test_every_candidate_wins_as_often_as_its_score_expects(c):
    ranked, w = soft(c), wins_matrix(c)
    expected = ((w + w.T) * sigmoid(ranked.scores[:, None] - ranked.scores[None, :])).sum(axis=1)
    np.testing.assert_allclose(w.sum(axis=1), expected, atol=1e-9 * c.weights.sum())
    assert ranked.gradient <= 1e-10 * c.weights.sum()
    assert ranked.log_likelihood == pytest.approx(log_likelihood(w, ranked.scores))


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1), st.integers(2, 40), st.floats(0.1, 3))
def test_a_judge_that_follows_the_model_is_recovered_exactly_even_from_a_chain(seed, n, spread):
    rng = np.random.default_rng(seed)
    truth, order = spread * rng.normal(size=n), rng.permutation(n)
    first, second = order[:-1], order[1:]
    p = sigmoid(truth[first] - truth[second])
    c = Comparisons.from_probabilities([str(k) for k in range(n)], first, second, p)
    np.testing.assert_allclose(soft(c).scores, truth - truth.mean(), atol=1e-6)


@pytest.mark.parametrize("n", [2, 100, 1000])
def test_stars_and_long_chains_converge(n):
    """Bipartite: where simultaneous updates oscillate. Long: where conjugate gradients need as many steps as links."""
    rng = np.random.default_rng(n)
    truth = rng.normal(size=n)
    for first, second in ((np.zeros(n - 1, dtype=int), np.arange(1, n)), (np.arange(n - 1), np.arange(1, n))):
        p = sigmoid(truth[first] - truth[second])
        ranked = soft(Comparisons.from_probabilities([str(k) for k in range(n)], first, second, p), stderr=None)
        assert ranked.converged
        np.testing.assert_allclose(ranked.scores, truth - truth.mean(), atol=1e-6)


def test_ordinary_comparisons_take_few_iterations():
    """From the log-odds of their wins, candidates that many others met are nearly there."""
    _, c = judge_with_a_lead(np.random.default_rng(18), 200, 8000, 0.0, noise=0.5)
    assert soft_bradley_terry(c, stderr=None).iterations <= 5


def test_three_wins_to_one_are_log_3_apart():
    c = Comparisons.from_records([("a", "b", 1.0, 3.0), ("a", "b", 0.0, 1.0)])
    np.testing.assert_allclose(hard(c, prior=None).scores, [np.log(3) / 2, -np.log(3) / 2], atol=1e-12)
    np.testing.assert_allclose(hard(c).scores, [np.log(2) / 2, -np.log(2) / 2], atol=1e-12)  # 4 to 2 with the prior
    np.testing.assert_allclose(hard(c, prior="observed").scores, hard(c).scores, atol=1e-12)  # one pair: the same
    assert bradley_terry(c).scores[0] == pytest.approx(np.log(5) / 2)  # averaged: the pair is won, 4 to 0, 5 to 1


@settings(max_examples=15)
@given(sets())
def test_soft_and_hard_are_one_for_certain_answers(c):
    certain = c.hard()
    try:
        expected = hard(c, prior=None).scores
    except RankingError:
        with pytest.raises(RankingError):
            soft(certain)
    else:
        np.testing.assert_allclose(soft(certain).scores, expected, atol=1e-8)


@settings(max_examples=15)
@given(st.integers(0, 2**32 - 1), st.integers(2, 12))
def test_on_all_pairs_soft_bradley_terry_orders_as_the_average_probability_does(seed, n):
    c = full(np.random.default_rng(seed), n)
    assert soft(c).ranks.tolist() == average_probability(c).ranks.tolist()


# ------------------------------------------------------------------------------------------------- the prior


@settings(max_examples=15)
@given(sets())
def test_the_prior_on_all_pairs_is_a_pseudo_win_each_way_on_every_pair(c):
    n = c.n_candidates
    w = wins_matrix(c.hard()) + (1 - np.eye(n)) / (n - 1)
    np.testing.assert_allclose(hard(c).scores, newman(w), atol=1e-8)
    w = wins_matrix(c.hard())
    w += (w + w.T > 0) / (n - 1)
    np.testing.assert_allclose(hard(c, prior="observed").scores, newman(w), atol=1e-8)


def test_pseudo_wins_are_no_comparisons():
    c = linked(np.random.default_rng(17), 5, 10)
    for prior in ("all", "observed"):
        assert hard(c, prior=prior).n_comparisons.sum() == pytest.approx(2 * c.weights.sum())


def test_the_prior_on_all_pairs_ranks_anything():
    for records in ([("a", "b", 1.0)], [("a", "b", 1.0), ("c", "d", 1.0)], [("a", "b", 1.0, 1e6)]):
        ranked = bradley_terry(Comparisons.from_records(records, ids=["a", "b", "c", "d", "e"]))
        assert ranked.converged
        assert np.isfinite(ranked.scores).all()
        assert np.isfinite(ranked.stderr).all()


# ------------------------------------------------------------------------------------------------- position


def judge_with_a_lead(rng, n, k, lead, noise=0.0):
    truth = rng.normal(size=n)
    first = rng.integers(0, n, k)
    second = (first + rng.integers(1, n, k)) % n
    p = sigmoid(truth[first] - truth[second] + lead + noise * rng.normal(size=k))
    return truth - truth.mean(), Comparisons.from_probabilities([str(i) for i in range(n)], first, second, p)


def test_a_judge_that_prefers_the_first_text_has_a_negative_gamma():
    truth, c = judge_with_a_lead(np.random.default_rng(5), 16, 200, 1.2, noise=0.3)
    error = {}
    w = c.probabilities.mean()
    mean = -np.log(w / (1 - w))
    for name, bias in (("none", None), ("mean", mean), ("opposite", -mean), ("mle", "mle")):
        error[name] = np.sqrt(np.mean((soft(c, bias=bias).scores - truth) ** 2))
    assert error["mle"] < error["mean"] < error["none"] < error["opposite"]
    assert -1.2 < mean < -0.6  # too near 0, because the candidates differ


def test_the_effect_of_place_is_recovered_exactly_with_the_scores():
    truth, c = judge_with_a_lead(np.random.default_rng(6), 12, 60, 1.2)
    ranked = soft(c, bias="mle")
    assert ranked.settings["gamma"] == pytest.approx(-1.2, abs=1e-8)
    assert ranked.settings["gamma_stderr"] > 0
    np.testing.assert_allclose(ranked.scores, truth, atol=1e-8)
    np.testing.assert_allclose(soft(c, bias=-1.2).scores, truth, atol=1e-8)


@settings(max_examples=15)
@given(st.integers(0, 2**32 - 1))
def test_reversing_all_calls_turns_the_sign_of_the_bias_and_keeps_the_scores(seed):
    c = full(np.random.default_rng(seed), 5)
    ours, theirs = soft(c, bias="mle"), soft(turned(c), bias="mle")
    np.testing.assert_allclose(theirs.scores, ours.scores, atol=1e-8)
    assert theirs.settings["gamma"] == pytest.approx(-ours.settings["gamma"], abs=1e-8)
    np.testing.assert_allclose(soft(turned(c), bias=-0.7).scores, soft(c, bias=0.7).scores, atol=1e-8)
    np.testing.assert_allclose(gaussian(turned(c), bias=0.4).scores, gaussian(c, bias=0.6).scores, atol=1e-10)


def test_a_place_that_decides_is_refused_just_where_a_linear_programme_says_so():
    rng, outcomes = np.random.default_rng(13), set()
    for _ in range(250):
        n = int(rng.integers(2, 7))
        k = int(rng.integers(2, 4 * n))
        first = rng.integers(0, n, k)
        second = (first + rng.integers(1, n, k)) % n
        p = np.where(rng.random(k) < 0.75, (rng.random(k) < 0.5).astype(float), rng.random(k))
        c = Comparisons.from_probabilities([str(i) for i in range(n)], first, second, p)
        lead = np.column_stack([np.eye(n)[first] - np.eye(n)[second], -np.ones(k)])
        against = np.vstack([-lead[p > 0], lead[p < 1]])
        way_out = optimize.linprog(against.sum(axis=0), against, np.zeros(len(against)), bounds=(-1, 1)).fun < -1e-9
        known = np.linalg.matrix_rank(lead) == n
        try:
            assert soft(c, bias="mle").converged
            found = "finite"
        except RankingError as error:
            found = "place" if "the place decides: no finite gamma" in str(error) else "other"
        assert (found == "finite") == (known and not way_out)
        outcomes.add(found)
    assert outcomes == {"finite", "place", "other"}


@pytest.mark.parametrize(("winner", "preferred"), [("second", "the second"), ("first", "the first")])
def test_a_group_in_which_the_place_decides_is_unscored_alone(winner, preferred):
    rows = [{"context_id": "place", "first": a, "second": b, "outcome": winner} for a, b in ("ab", "ba")]
    rows += [{"context_id": "fine", "first": a, "second": b, "probability": 0.6} for a, b in ("ab", "ba")]
    found = rank(ComparisonSets.load(rows), "poe-bt", debias="mle").by_group
    assert f"no finite gamma, since {preferred} text wins" in found["place",]
    assert found["fine",].converged


def test_the_joint_maximum_is_where_a_generic_optimiser_finds_it():
    _, c = judge_with_a_lead(np.random.default_rng(7), 6, 40, 0.8, noise=0.7)

    def loss(x):
        d = x[c.first] - x[c.second] - x[-1]
        p = c.probabilities
        return float((p * np.logaddexp(0, -d) + (1 - p) * np.logaddexp(0, d)).sum())

    found = optimize.minimize(loss, np.zeros(7), method="BFGS", options={"gtol": 1e-7})
    ranked = soft(c, bias="mle")
    np.testing.assert_allclose(ranked.scores, found.x[:6] - found.x[:6].mean(), atol=1e-5)
    assert ranked.settings["gamma"] == pytest.approx(found.x[-1], abs=1e-5)
    assert ranked.log_likelihood == pytest.approx(-found.fun, abs=1e-8)


def test_a_bias_that_scores_could_explain_is_refused():
    chain = Comparisons.from_records([("a", "b", 0.7), ("b", "c", 0.6)])
    with pytest.raises(RankingError, match="do not tell the effect of the position"):
        soft(chain, bias="mle")


# ------------------------------------------------------------------------------------------------- ties


@settings(max_examples=8)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_davidsons_model_is_where_a_generic_optimiser_finds_it(seed, certain):
    rng = np.random.default_rng(seed)
    c = linked(rng, 5, 40, three=True)
    if certain:
        answer = np.eye(3)[rng.integers(0, 3, 3 * len(c))]
        rows = np.tile(np.arange(len(c)), 3)
        with np.errstate(divide="ignore"):
            c = Comparisons(c.ids, c.first[rows], c.second[rows], np.log(answer), np.ones(len(rows)))

    def loss(x):
        d, log_nu = x[c.first] - x[c.second], x[-1]
        terms = np.stack([d / 2, -d / 2, np.full_like(d, np.log(2) + log_nu)], -1)
        return float(-(c.weights[:, None] * np.exp(c.log_probs) * stats_log_softmax(terms)).sum())

    found = optimize.minimize(loss, np.zeros(6), method="BFGS", options={"gtol": 1e-6})
    try:
        ranked = bradley_terry_ties(c)
    except RankingError:
        assert certain
        return
    np.testing.assert_allclose(ranked.scores, found.x[:5] - found.x[:5].mean(), atol=2e-4)
    assert ranked.settings["nu"] == pytest.approx(np.exp(found.x[-1]), rel=1e-3)
    assert ranked.log_likelihood >= -found.fun - 1e-9


def stats_log_softmax(x):
    return x - np.logaddexp.reduce(x, axis=-1, keepdims=True)


def test_equal_candidates_are_similar_as_often_as_they_were():
    c = Comparisons(("a", "b"), np.array([0]), np.array([1]), np.log([[0.35, 0.35, 0.3]]), np.ones(1) * 10)
    ranked = bradley_terry_ties(c)
    np.testing.assert_allclose(ranked.scores, 0, atol=1e-9)
    nu = ranked.settings["nu"]
    assert nu / (1 + nu) == pytest.approx(0.3)
    assert ranked.settings["log_nu_stderr"] == pytest.approx(1 / np.sqrt(10 * 0.3 * 0.7))


def test_whoever_is_only_ever_similar_to_another_is_its_equal():
    log_probs = np.array([[0, -np.inf, -np.inf], [-np.inf, 0, -np.inf], [-np.inf, -np.inf, 0.0]])
    rows = [0, 0, 1, 2]
    c = Comparisons(("a", "b", "c"), np.array([0, 0, 0, 1]), np.array([1, 1, 1, 2]), log_probs[rows], np.ones(4))
    ranked = bradley_terry_ties(c)
    assert ranked.scores[0] > ranked.scores[1] + 0.5
    assert ranked.scores[2] == pytest.approx(ranked.scores[1], abs=1e-8)


def test_without_similar_answers_ties_have_no_part():
    c = linked(np.random.default_rng(8), 6, 20)
    ranked = bradley_terry_ties(c)
    assert ranked.settings["nu"] == 0.0
    np.testing.assert_allclose(ranked.scores, soft(c).scores, atol=1e-8)


def test_nothing_but_similar_answers_are_refused():
    c = Comparisons(("a", "b"), np.array([0]), np.array([1]), np.array([[-np.inf, -np.inf, 0.0]]), np.ones(1))
    with pytest.raises(RankingError, match="all comparisons are similar"):
        bradley_terry_ties(c)


# ------------------------------------------------------------------------------------------------- Gaussian


def w_tilde(c, mean, sigma, anchor, sigma_0):
    """PoE's formula, with its design matrix written out."""
    rows = np.zeros((len(c) + 1, c.n_candidates))
    rows[np.arange(len(c)), c.first], rows[np.arange(len(c)), c.second] = 1, -1
    rows[-1, anchor] = 1
    precision = np.append(c.weights / sigma**2, 1 / sigma_0**2)
    covariance = np.linalg.inv(rows.T @ (precision[:, None] * rows))
    return covariance @ rows.T @ (precision * np.append(mean, 0.0)), covariance


@settings(max_examples=15)
@given(sets(), st.integers(0, 1), st.floats(0.1, 10))
def test_the_anchor_is_of_no_effect(c, anchor, sigma_0):
    p = c.probabilities
    scores, covariance = w_tilde(c, p - 0.5, np.full(len(c), 0.2), anchor, sigma_0)
    ranked = gaussian(c)
    np.testing.assert_allclose(ranked.scores, scores - scores.mean(), atol=1e-9)
    if freedom := ranked.settings["degrees_of_freedom"]:
        pairs = c.averaged()
        left = pairs.probabilities - 0.5 - (ranked.scores[pairs.first] - ranked.scores[pairs.second])
        phi = 0.0 if (np.abs(left) < 1e-12).all() else pairs.weights @ left**2 / freedom
        centre = np.eye(c.n_candidates) - 1 / c.n_candidates
        expected = centre @ covariance @ centre * phi / 0.2**2
        np.testing.assert_allclose(ranked.stderr**2, np.diag(expected), atol=1e-9)


@pytest.mark.parametrize("both_orders", [True, False])
def test_on_all_pairs_the_gaussian_is_the_average_probability_on_another_scale(both_orders):
    n = 9
    c = full(np.random.default_rng(9), n, both_orders=both_orders)
    expected = (n - 1) / n * (average_probability(c).scores - 0.5)
    np.testing.assert_allclose(gaussian(c).scores, expected, atol=1e-12)
    expected = (n - 1) / n * (win_ratio(c).scores - 0.5)
    np.testing.assert_allclose(hard_gaussian(c).scores, expected, atol=1e-12)
    assert hard_gaussian(c).ranks.tolist() == win_ratio(c).ranks.tolist()


def test_beta_cancels_where_every_pair_is_judged_in_both_orders():
    c = full(np.random.default_rng(10), 6)
    np.testing.assert_allclose(gaussian(c, bias=0.8).scores, gaussian(c).scores, atol=1e-12)
    one = full(np.random.default_rng(10), 6, both_orders=False)
    assert np.abs(gaussian(one, bias=0.8).scores - gaussian(one).scores).max() > 1e-3
    assert gaussian(one, bias=0.8).settings["beta"] == 0.8


def test_a_tree_of_single_calls_leaves_no_residuals_and_no_errors():
    ranked = gaussian(Comparisons.from_records([("a", "b", 0.9), ("b", "c", 0.6)]))
    np.testing.assert_allclose(ranked.scores, [0.3, -0.1, -0.2], atol=1e-12)
    assert ranked.settings["degrees_of_freedom"] == 0
    assert np.isnan(ranked.stderr).all()


def test_a_perfect_fit_has_no_errors():
    p = [0.7 + 0.2, 0.9, 1 - 0.1]  # the same up to rounding
    ranked = gaussian(Comparisons.from_records([("a", "b", p[0]), ("b", "c", 0.5), ("a", "c", p[1]), ("a", "c", p[2])]))
    assert ranked.stderr.tolist() == [0, 0, 0]


# ------------------------------------------------------------------------------------------------- existence


@pytest.mark.parametrize("method", [soft, partial(hard, prior=None), bradley_terry_ties, gaussian, hard_gaussian])
def test_candidates_that_nothing_links_are_named_group_by_group(method):
    c = Comparisons.from_records([("a", "b", 0.6), ("b", "a", 0.7), ("c", "d", 0.6)], ids=["a", "b", "c", "d", "e"])
    with pytest.raises(RankingError, match=r"3 groups .* \{'a', 'b'\}, \{'c', 'd'\}, \{'e'\}"):
        method(c)
    with pytest.raises(RankingError, match="2 groups"):
        method(Comparisons.from_records([], ids=["a", "b"]))


def test_whoever_never_loses_or_never_wins_is_named():
    wins = [("a", "b", 1.0), ("b", "c", 1.0), ("c", "b", 1.0), ("c", "d", 1.0), ("c", "e", 1.0)]
    c = Comparisons.from_records(wins)
    for method in (soft, partial(hard, prior=None), bradley_terry_ties):
        with pytest.raises(RankingError, match=r"\{'a'\} never lost .* \{'d'\}, \{'e'\} never won"):
            method(c)


def test_a_soft_answer_among_certain_ones_is_enough_where_it_closes_the_circle():
    c = Comparisons.from_records([("a", "b", 1.0), ("b", "c", 1.0), ("c", "a", 0.2)])
    assert soft(c).converged
    with pytest.raises(RankingError, match="not finite"):
        soft(Comparisons.from_records([("a", "b", 1.0), ("b", "c", 1.0), ("c", "a", 0.0)]))


def test_a_prior_on_all_pairs_of_too_many_candidates_is_refused(monkeypatch):
    monkeypatch.setattr(graph_module, "MOST_DENSE", 7)
    c = linked(np.random.default_rng(12), 8, 20)
    with pytest.raises(RankingError, match=r"a prior on all pairs of 8 candidates .* expected at most 7. Take poe-bt"):
        bradley_terry(c, stderr=None)
    assert bradley_terry(c, prior="observed", stderr=None).converged
    with pytest.raises(RankingError, match="the errors of 8 candidates"):
        soft(c)


def test_what_does_not_converge_says_so(monkeypatch):
    monkeypatch.setattr(newton, "MAX_ITERATIONS", 1)
    c = linked(np.random.default_rng(12), 8, 20)
    with pytest.warns(SynthscoreWarning, match="poe-bt did not converge: 1 iterations leave a derivative of"):
        ranked = soft_bradley_terry(c)
    assert not ranked.converged
    assert ranked.iterations == 1
    assert ranked.gradient > 1e-6


def test_scores_far_out_on_the_tail_are_found_and_not_where_the_gradient_is_small():
    log_probs = np.array([[-np.exp(-40.0), -40.0, -np.inf]])
    c = Comparisons(("a", "b"), np.array([0]), np.array([1]), log_probs, np.ones(1))
    ranked = soft_bradley_terry(c)
    assert ranked.converged
    np.testing.assert_allclose(ranked.scores, [20, -20], atol=1e-4)


# ------------------------------------------------------------------------------------------------- derivatives


@pytest.mark.parametrize("kind", ["logistic", "gamma", "davidson"])
def test_slopes_are_the_differences_of_the_log_likelihood(kind):
    rng = np.random.default_rng(13)
    wins, losses, ties = rng.uniform(0, 3, (3, 7))
    d, theta, h = 2 * rng.normal(size=7), 0.4, 1e-5
    model = {
        "logistic": Logistic(wins, losses, 0.3),
        "gamma": Logistic(wins, losses, None),
        "davidson": Davidson(wins, losses, ties),
    }[kind]
    slopes = model.slopes(d, theta)
    unit = np.eye(7)

    def value(d, theta):
        return model.log_likelihood(d, theta)

    by_difference = [(value(d + h * e, theta) - value(d - h * e, theta)) / (2 * h) for e in unit]
    np.testing.assert_allclose(slopes.slope, by_difference, atol=1e-8)
    up, down = model.slopes(d + h, theta), model.slopes(d - h, theta)
    np.testing.assert_allclose(slopes.curvature, -(up.slope - down.slope) / (2 * h), atol=1e-8)
    if kind != "logistic":
        by_theta = (value(d, theta + h) - value(d, theta - h)) / (2 * h)
        assert slopes.slope_theta.sum() == pytest.approx(by_theta, abs=1e-7)
        up, down = model.slopes(d, theta + h), model.slopes(d, theta - h)
        np.testing.assert_allclose(slopes.curvature_mixed, -(up.slope - down.slope) / (2 * h), atol=1e-8)
        by_theta_twice = (up.slope_theta.sum() - down.slope_theta.sum()) / (2 * h)
        assert slopes.curvature_theta == pytest.approx(-by_theta_twice, abs=1e-7)


@settings(max_examples=10)
@given(st.integers(0, 2**32 - 1))
def test_a_step_never_lowers_the_likelihood(seed):
    """From a start far off, where a full Newton step would."""
    rng = np.random.default_rng(seed)
    c = linked(rng, 6, 10)
    pairs = c.pairs()
    graph, model, start = Graph(6, pairs.i, pairs.j), Logistic(pairs.wins, pairs.losses), 8 * rng.normal(size=6)
    start -= start.mean()
    values = []
    for most in range(12):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(newton, "MAX_ITERATIONS", most)
            fit, *_ = maximise(graph, model, start=start)
        values.append(model.log_likelihood(graph.differences(fit.scores), 0.0))
    assert (np.diff(values) >= -1e-9).all()
    np.testing.assert_allclose(maximise(graph, model, start=start)[0].scores, soft(c).scores, atol=1e-8)


# ------------------------------------------------------------------------------------------------- linear systems


@pytest.mark.parametrize("extra", ["none", "ridge", "border", "everyone"])
def test_dense_and_conjugate_gradients_solve_the_same_system(monkeypatch, extra):
    rng = np.random.default_rng(14)
    pairs = linked(rng, 40, 100).pairs()
    graph = Graph(40, pairs.i, pairs.j)
    options = {"ridge": {"ridge": 2.0}, "everyone": {"everyone": np.full((40, 40), 0.3)}}.get(extra, {})
    if extra == "border":
        options = {"column": graph.divergence(rng.normal(size=len(pairs.i))), "corner": 1e3}
    system = Information(graph, pairs.games, **options)
    b = system.dense() @ rng.normal(size=41 if extra == "border" else 40)
    dense = system.solve(b)
    np.testing.assert_allclose(system.dense() @ dense, b, atol=1e-9)
    np.testing.assert_allclose(system.covariance() @ b, dense, atol=1e-10)
    monkeypatch.setattr(graph_module, "SMALL", 0)
    np.testing.assert_allclose(system.solve(b), dense, atol=1e-8)


# ------------------------------------------------------------------------------------------------- other packages


def test_choix_and_evalica_agree():
    rng = np.random.default_rng(15)
    truth = rng.normal(size=12)
    first = rng.integers(0, 12, 600)
    second = (first + rng.integers(1, 12, 600)) % 12
    won = rng.random(600) < sigmoid(truth[first] - truth[second])
    ids = [str(k) for k in range(12)]
    c = Comparisons.from_probabilities(ids, first, second, won.astype(float))
    ours = hard(c, prior=None).scores
    data = [(i, j) if w else (j, i) for i, j, w in zip(first.tolist(), second.tolist(), won.tolist(), strict=True)]
    theirs = choix.opt_pairwise(12, data)
    np.testing.assert_allclose(ours, theirs - theirs.mean(), atol=1e-5)  # its own tolerance
    theirs = choix.ilsr_pairwise(12, data)
    np.testing.assert_allclose(ours, theirs - theirs.mean(), atol=1e-6)
    winners = [evalica.Winner.X if w else evalica.Winner.Y for w in won.tolist()]
    names = [ids[i] for i in first], [ids[j] for j in second]
    for solver in (evalica.bradley_terry, evalica.newman):
        theirs = np.log(solver(*names, winners, tolerance=1e-10, limit=10_000).scores[ids].to_numpy())
        np.testing.assert_allclose(ours, theirs - theirs.mean(), atol=1e-5)


def test_no_method_warns_on_ordinary_comparisons():
    c = full(np.random.default_rng(16), 8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for method in ALL_METHODS:
            method(c)
