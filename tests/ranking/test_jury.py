"""Several judges, one order: what each is worth is found without labels."""

import numpy as np
import pytest

from synthscore.errors import InputError
from synthscore.ranking import Comparisons, ComparisonSets, jury, rank, rank_jury
from synthscore.ranking.designs import all_pairs
from synthscore.scoring import opinions

N = 12
IDS = tuple(f"t{k}" for k in range(N))
CALLS = all_pairs(N, both_orders=True).T


def judges(rng, truth, *kinds, n_contexts=None):
    """Comparisons of judges in contexts. A kind: slope, own, noise of log-odds (None: hard answers), bias"""
    first, second = CALLS
    sets = {}
    for c, s in enumerate(truth):
        for m, (slope, own, noise, bias) in enumerate(kinds):
            t = slope * s + own * rng.normal(size=N)
            d = t[first] - t[second] + bias
            if noise is None:
                p = (rng.random(len(d)) < 1 / (1 + np.exp(-d))).astype(float)
            else:
                p = 1 / (1 + np.exp(-(d + noise * rng.normal(size=len(d)))))
            sets[f"c{c}", f"judge {m}"] = Comparisons.from_probabilities(IDS, first, second, p)
    return ComparisonSets(("context_id", "judge"), sets)


def agreement(found, truth):
    return np.mean([np.corrcoef(each.scores, s)[0, 1] for each, s in zip(found.of.values(), truth, strict=True)])


@pytest.fixture
def rng():
    return np.random.default_rng(3)


@pytest.fixture
def truth(rng):
    return rng.normal(size=(12, N))


def test_a_jury_whose_rounds_run_out_says_so(rng, truth, monkeypatch):
    monkeypatch.setattr(jury, "_ROUNDS", 2)
    found = rank_jury(judges(rng, truth, (0.5, 0, None, 0.0), (1.0, 0, None, 0.8)), "bt")
    assert not any(each.converged for each in found.of.values())


@pytest.mark.parametrize("method", ["bt", "poe-bt", "poe-g", "poe-g-hard"])
def test_the_slopes_biases_and_shares_of_judges_are_found_without_labels(rng, truth, method):
    found = rank_jury(judges(rng, truth, (0.5, 0, None, 0.0), (1.0, 0, None, 0.8), (2.0, 0, None, 0.0)), method)
    jurors = found.jurors[()]
    assert [each.name for each in jurors] == ["judge 0", "judge 1", "judge 2"]
    slopes, shares = (np.array([getattr(each, name) for each in jurors]) for name in ("slope", "share"))
    assert sum(shares) == pytest.approx(1)
    assert shares @ slopes == pytest.approx(1)  # the scores' unit is the mean judge's
    assert sorted(shares) == shares.tolist()
    if method == "bt":
        np.testing.assert_allclose(slopes / slopes[1], [0.5, 1, 2], rtol=0.15)
        assert jurors[1].bias == pytest.approx(0.8, abs=0.12)
    assert jurors[1].bias > 5 * abs(jurors[0].bias)
    assert all(each.converged and each.scores.mean() == pytest.approx(0, abs=1e-12) for each in found.of.values())
    assert agreement(found, truth) > 0.95


def test_a_jury_is_better_than_each_of_its_judges(rng, truth):
    sets = judges(rng, truth, (0.6, 0, None, 0.5), (1.0, 0, None, -0.5), (1.2, 0, None, 0.2))
    alone = [
        agreement(rank(ComparisonSets(("c",), {(g[0],): c for g, c in sets.sets.items() if g[1] == name}), "bt"), truth)
        for name in sets.judges
    ]
    assert agreement(rank_jury(sets, "bt"), truth) > max(alone) + 0.005


@pytest.mark.parametrize("own", [0.0, 1.5])
def test_a_judge_of_noise_has_no_share_be_it_a_coin_or_sure_of_what_nobody_else_sees(rng, truth, own):
    good = [(1.0, 0.3, 0.5, 0.0), (1.0, 0.3, 0.5, 0.0), (0.8, 0.3, 0.5, 0.0)]
    two = rank_jury(judges(np.random.default_rng(5), truth, *good))
    bad = rank_jury(judges(np.random.default_rng(5), truth, *good, (0.0, own, 0.01, 0.0)))
    assert bad.jurors[()][3].share < 0.03
    assert bad.jurors[()][3].agreement < 0.35
    assert agreement(bad, truth) > agreement(two, truth) - 0.01


def test_a_judge_is_never_read_backwards(rng, truth):
    kinds = [(1.0, 0.3, 0.5, 0.0), (1.0, 0.3, 0.5, 0.0), (-1.0, 0.3, 0.5, 0.0)]
    found = rank_jury(judges(rng, truth, *kinds))
    assert (found.jurors[()][2].slope, found.jurors[()][2].share) == (0, 0)
    assert agreement(found, truth) > 0.9


def test_judges_who_contradict_each_other_make_no_order(rng, truth):
    found = rank_jury(judges(rng, truth, (1.0, 0, 0.5, 0.0), (-1.0, 0, 0.5, 0.0)))
    assert found.jurors == {}
    for reason in found.of.values():
        assert "judge 0, judge 1 do not agree on any order" in reason
    assert {row["status"] for row in found.to_rows()} == {"unscored"}


def test_where_judges_disagree_more_than_their_errors_explain_is_marked(rng, truth):
    sets = judges(rng, truth, *[(1.0, 0.1, 0.5, 0.0)] * 3)
    calls = sets.sets["c2", "judge 1"]
    turned = (calls.first == 4) | (calls.second == 4)  # this judge has all answers about one text the wrong way round
    p = np.where(turned, 1 - calls.probabilities, calls.probabilities)
    truth[2, 4] = 2.5
    odd = Comparisons.from_probabilities(IDS, calls.first, calls.second, p)
    found = rank_jury(ComparisonSets(sets.by, {**sets.sets, ("c2", "judge 1"): odd}))
    chances = np.concatenate([each.disagreement for each in found.of.values()])
    assert np.argmin(chances) == 2 * N + 4
    rows = list(found.to_rows())
    assert rows[2 * N + 4]["disagreement"] == chances.min() < 1e-3
    assert np.mean(chances < 0.1) < 0.2


def test_disagreement_beyond_errors_is_as_rare_as_it_says(rng):
    truth = rng.normal(size=(60, N))
    found = rank_jury(judges(rng, truth, (1.0, 0.4, 0.5, 0.0), (0.7, 0.4, 0.5, 0.0), (1.2, 0.4, 0.5, 0.0)), "poe-bt")
    chances = np.concatenate([each.disagreement for each in found.of.values()])
    assert np.mean(chances < 0.1) == pytest.approx(0.1, abs=0.035)  # 720 texts, three errors


def test_the_names_and_places_of_judges_and_texts_do_not_matter(rng, truth):
    sets = judges(rng, truth[:3], (1.0, 0.3, 0.5, 0.2), (0.5, 0.3, 0.5, 0.0), (2.0, 0.6, 0.5, 0.0))
    turned = {
        (c, name): Comparisons.from_probabilities(IDS[::-1], N - 1 - of.first, N - 1 - of.second, of.probabilities)
        for (c, name), of in reversed(sets.sets.items())
    }
    one, two = rank_jury(sets), rank_jury(ComparisonSets(sets.by, turned))
    for group, ranking in one.of.items():
        np.testing.assert_allclose(two.of[group].scores[::-1], ranking.scores, atol=1e-3)


def test_judges_need_not_have_seen_the_same_texts(rng, truth):
    sets = dict(judges(rng, truth, (1.0, 0.2, 0.5, 0.0), (1.0, 0.2, 0.5, 0.0)).sets)
    some = sets["c0", "judge 1"]
    kept = (some.first < 6) & (some.second < 6)
    sets["c0", "judge 1"] = Comparisons.from_probabilities(
        IDS[:6], some.first[kept], some.second[kept], some.probabilities[kept]
    )
    del sets["c1", "judge 0"]
    found = rank_jury(ComparisonSets(("context_id", "judge"), sets))
    assert [each.n_texts for each in found.jurors[()]] == [11 * N, 11 * N + 6]
    assert np.isnan(found.of["c0",].disagreement[6:]).all()
    assert not np.isnan(found.of["c0",].disagreement[:6]).any()
    assert agreement(found, truth) > 0.9


def test_the_gaussian_jury_is_where_the_likelihood_is_greatest(rng, monkeypatch):
    """Against the density of all answers, written down in full; priors taken out."""
    monkeypatch.setattr(opinions, "_FEW", 0.0)
    truth = rng.normal(size=(30, 6))
    kinds, noise = [(0.10, 0.05), (0.06, 0.05), (0.12, 0.08)], 0.05
    i, j = np.triu_indices(6, 1)
    side = np.zeros((15, 6))
    side[np.arange(15), i], side[np.arange(15), j] = 1, -1
    sets, answers = {}, []
    for c, s in enumerate(truth):
        per = []
        for m, (slope, own) in enumerate(kinds):
            d = side @ (slope * s + own * rng.normal(size=6)) + noise * rng.normal(size=15)
            p = np.clip(0.5 + d, 0, 1)
            both = np.concatenate([i, j]), np.concatenate([j, i]), np.concatenate([p, 1 - p])
            sets[f"c{c}", str(m)] = Comparisons.from_probabilities(IDS[:6], *both)
            per.append(p - 0.5)
        answers.append(np.concatenate(per))

    def density(slope, own, sigma2):
        covariance = np.kron(np.outer(slope, slope) + np.diag(own), side @ side.T) + np.kron(
            np.diag(sigma2), np.eye(15)
        )
        _, size = np.linalg.slogdet(covariance)
        return -sum(size + y @ np.linalg.solve(covariance, y) for y in answers) / 2

    found = rank_jury(ComparisonSets(("context_id", "judge"), sets), "poe-g")
    jurors = found.jurors[()]
    slope, own = (np.array([getattr(each, name) for each in jurors]) for name in ("slope", "own"))
    sigma2 = np.array([each.noise for each in jurors]) / 4

    def at(unit, slope=slope, own=own, sigma2=sigma2):
        return density(unit * slope, own**2, sigma2)

    units = np.linspace(0.05, 0.2, 301)
    unit = units[np.argmax([at(u) for u in units])]
    best = at(unit)
    for m in range(3):
        for factor in (0.94, 1.06):
            change = np.where(np.arange(3) == m, factor, 1.0)
            assert at(unit, slope=slope * change) < best + 0.02
            assert at(unit, own=own * change) < best + 0.02
            assert at(unit, sigma2=sigma2 * change) < best + 0.02


def test_what_is_no_jury_is_refused(rng, truth):
    sets = judges(rng, truth[:1], (1.0, 0.2, 0.5, 0.0))
    with pytest.raises(InputError, match="of one judge, 'judge 0', expected two judges"):
        rank_jury(sets)
    with pytest.raises(InputError, match="method is 'colley', expected one of bt, poe-bt"):
        rank_jury(sets, "colley")
    with pytest.raises(InputError, match="without a column judge"):
        rank_jury(ComparisonSets(("context_id",), {("c",): sets.sets["c0", "judge 0"]}))


# ------------------------------------------------------------------------------------------------- the core, slowly


def test_positions_are_those_of_one_large_normal_distribution(rng):
    n, m = 4, 3
    bench = opinions.Bench(np.array([1.0, 0.3, 2.0]), np.array([0.5, 0.2, 1e-6]))
    root = rng.normal(size=(m, 1, n, n))
    seen = opinions.Seen(root @ np.swapaxes(root, -1, -2), rng.normal(size=(m, 1, n)))
    belief = opinions.believe(seen, bench)
    prior = np.kron(bench.covariance, np.eye(n))
    precision = np.linalg.inv(prior)
    for k in range(m):
        precision[k * n : (k + 1) * n, k * n : (k + 1) * n] += seen.information[k, 0]
    covariance = np.linalg.inv(precision)
    mean = covariance @ seen.pull.ravel()
    np.testing.assert_allclose(belief.at.ravel(), mean, atol=1e-9)
    blocks = covariance.reshape(m, n, m, n)
    np.testing.assert_allclose(belief.at_cov[:, 0], np.einsum("mimj->mij", blocks), atol=1e-9)
    moments = np.einsum("mi,li->ml", belief.at[:, 0], belief.at[:, 0]) + np.einsum("mili->ml", blocks)
    np.testing.assert_allclose(belief.moments, moments, atol=1e-9)
    gain = np.kron(bench.slope, np.eye(n)) @ np.linalg.inv(prior)  # E(s | t)
    np.testing.assert_allclose(belief.mean[0], gain @ mean, atol=1e-6)


def test_refit_finds_the_judges_whose_moments_these_are(monkeypatch):
    monkeypatch.setattr(opinions, "_FEW", 0.0)
    truth = opinions.Bench(np.array([1.0, 0.4, 2.0, 0.7]), np.array([0.5, 0.2, 1.0, 0.1]))
    bench = opinions.Bench(np.ones(4), np.ones(4))
    for _ in range(50):
        bench = opinions.refit(bench, 900 * truth.covariance, 900)
    np.testing.assert_allclose(bench.slope, truth.slope, rtol=1e-3)
    np.testing.assert_allclose(bench.own, truth.own, rtol=1e-2)


def test_two_judges_are_taken_to_be_equally_good():
    moments = 100 * np.array([[4.0, 1.2], [1.2, 1.0]])
    bench = opinions.refit(opinions.Bench(np.ones(2), np.ones(2)), moments, 100)
    np.testing.assert_allclose(bench.covariance, moments / 100)
    assert bench.slope[0] ** 2 / bench.own[0] == pytest.approx(bench.slope[1] ** 2 / bench.own[1])
