"""Is a judge linear? Lines through calls, curves of windows, and what cannot be said."""

import json
import math
from dataclasses import replace
from itertools import permutations
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy.stats import linregress

import papers.__main__ as commands
from papers.__main__ import main
from papers.linearity import N_DIFFERENCES, draw, linearity, to_json, to_markdown
from synthscore.errors import InputError
from synthscore.io.write import write_rows
from synthscore.ranking import Comparisons
from synthscore.store.engine import StoredEngine
from synthscore.store.file import Store
from tests.fakes import FakeEngine
from tests.papers.test_tables import judge, qualities

RATINGS = [np.array([1.0, 2.0, 3.0, 5.0]), np.array([1.0, 1.5, 4.0]), np.array([2.0, 2.5, 4.5, 5.0])]


def answers(probability, ratings=RATINGS):
    """All calls about each context. probability : of the difference of the ratings, first less second"""
    problems = []
    for human in ratings:
        calls = np.array(list(permutations(range(len(human)), 2)))
        gap = human[calls[:, 0]] - human[calls[:, 1]]
        names = [str(k) for k in range(len(human))]
        problems.append(Comparisons.from_probabilities(names, calls[:, 0], calls[:, 1], probability(gap)))
    return problems


def logistic(odds):
    return 1 / (1 + np.exp(-odds))


def noisy(seed=0, bias=0.4):
    rng = np.random.default_rng(seed)
    return lambda gap: logistic(bias + 0.8 * gap + rng.normal(size=gap.shape))


def pooled(problems, ratings=RATINGS):
    """p, log-odds and differences of all calls."""
    gaps = [human[calls.first] - human[calls.second] for calls, human in zip(problems, ratings, strict=True)]
    return (
        np.concatenate([calls.probabilities for calls in problems]),
        np.concatenate([calls.log_odds for calls in problems]),
        np.concatenate(gaps),
    )


# ------------------------------------------------------------------------------------------------- lines


def test_a_judge_as_bradley_terry_has_it_is_a_straight_line_in_log_odds_with_its_favour_at_zero():
    line = linearity(answers(lambda gap: logistic(0.7 * gap - 0.3)), RATINGS).log_odds
    assert line.slope == pytest.approx(0.7)
    assert line.at_zero == pytest.approx(-0.3)
    assert line.stderr == pytest.approx(0, abs=1e-9)
    assert (line.calls.value, line.curve.value) == pytest.approx((1, 1))
    assert (line.calls.low, line.calls.high) == pytest.approx((1, 1))


def test_a_judge_as_poe_g_has_it_is_a_straight_line_in_p_without_scatter():
    found = linearity(answers(lambda gap: 0.55 + gap / 10), RATINGS)
    line = found.difference
    assert (line.slope, line.zero_at, line.at_zero) == pytest.approx((10, 0.55, -5.5))
    assert (line.calls.value, line.curve.value) == pytest.approx((1, 1))
    assert line.sd == pytest.approx(0, abs=1e-6)
    assert found.log_odds.curve.value < 1


def test_a_judge_that_only_decides_is_no_straight_line_in_log_odds():
    found = linearity(answers(lambda gap: np.where(gap > 0, 0.9, 0.1)), RATINGS)
    assert found.log_odds.curve.value < 0.9
    assert found.difference.curve is None  # two windows always lie on a line, and three nearly so
    assert found.difference.slope == pytest.approx(
        linregress(*[pooled(answers(lambda gap: np.where(gap > 0, 0.9, 0.1)))[k] for k in (0, 2)]).slope
    )


def test_lines_are_those_of_least_squares_over_all_calls():
    problems = answers(noisy())
    p, odds, gap = pooled(problems)
    found = linearity(problems, RATINGS)
    for line, x, y in ((found.difference, p, gap), (found.log_odds, gap, odds)):
        expected = linregress(x, y)
        assert (line.slope, line.at_zero, line.calls.value) == pytest.approx(
            (expected.slope, expected.intercept, expected.rvalue**2)
        )
        assert line.sd == pytest.approx(np.std(y - expected.intercept - expected.slope * x))


def test_errors_are_those_of_leaving_each_context_out():
    problems = answers(noisy())
    found = linearity(problems, RATINGS)
    parts = [[0, 1], [0, 2], [1, 2]]
    for name in ("difference", "log_odds"):
        slopes = [
            getattr(linearity([problems[k] for k in part], [RATINGS[k] for k in part]), name).slope for part in parts
        ]
        assert getattr(found, name).stderr == pytest.approx(np.std(slopes) * math.sqrt(len(parts) - 1))


def test_in_both_orders_people_see_no_difference_at_the_mean_probability():
    found = linearity(answers(noisy(bias=1.5)), RATINGS)
    assert found.mean_probability > 0.6
    assert found.difference.zero_at == pytest.approx(found.mean_probability)


def test_shown_the_other_way_round_a_judge_is_as_linear_with_the_other_favour():
    problems = answers(noisy())
    turned = [
        Comparisons.from_probabilities(calls.ids, calls.second, calls.first, 1 - calls.probabilities)
        for calls in problems
    ]
    one, other = linearity(problems, RATINGS), linearity(turned, RATINGS)
    assert other.difference.slope == pytest.approx(one.difference.slope)
    assert other.difference.zero_at == pytest.approx(1 - one.difference.zero_at)
    assert other.log_odds.at_zero == pytest.approx(-one.log_odds.at_zero)
    assert other.log_odds.curve.value == pytest.approx(one.log_odds.curve.value)


def test_a_call_of_weight_two_is_two_calls():
    problems = answers(noisy())
    heavy = [replace(calls, weights=np.where(calls.first == 0, 2.0, 1.0)) for calls in problems]
    rows = [np.repeat(np.arange(len(calls)), np.where(calls.first == 0, 2, 1)) for calls in problems]
    twice = [calls.subset(row) for calls, row in zip(problems, rows, strict=True)]
    one, other = linearity(heavy, RATINGS), linearity(twice, RATINGS)
    assert one.difference.slope == pytest.approx(other.difference.slope)
    assert one.difference.n_calls == other.difference.n_calls
    assert one.log_odds.curve == pytest.approx(other.log_odds.curve)
    assert (one.joint, one.mean_probability) == (other.joint, pytest.approx(other.mean_probability))


# ------------------------------------------------------------------------------------------------- windows


def test_windows_hold_the_mean_and_the_spread_of_the_calls_near_their_middle():
    problems = answers(noisy())
    p, _, gap = pooled(problems)
    line = linearity(problems, RATINGS).difference
    middles = (np.array(line.edges[1:]) + line.edges[:-1]) / 2
    for middle, n, mean, sd in zip(middles, line.n_calls, line.y, line.y_sd, strict=True):
        near = gap[np.abs(p - middle) < 0.025]
        assert n == len(near)
        if len(near):
            assert (mean, sd) == pytest.approx((near.mean(), near.std()))
        else:
            assert math.isnan(mean)
    assert (line.least_sd, line.greatest_sd) == (None, None)  # of so few calls


def test_the_spread_is_shown_of_the_windows_that_hold_enough_calls():
    p = np.repeat([0.11, 0.52, 0.93], [40, 40, 5])
    gap = np.concatenate([np.tile([-3.0, 1.0], 20), np.tile([0.0, 1.0], 20), np.full(5, 2.0)])
    calls = Comparisons.from_probabilities([str(k) for k in range(170)], np.arange(85), np.arange(85, 170), p)
    found = linearity([calls], [np.concatenate([gap, np.zeros(85)])])
    assert (found.difference.least_sd, found.difference.greatest_sd) == pytest.approx((0.5, 2.0))
    assert "(0.50 to 2.00)" in to_markdown([found])


def test_the_curve_is_as_straight_as_the_means_of_the_windows_are():
    problems = answers(noisy())
    line = linearity(problems, RATINGS).log_odds
    assert len(line.edges) == N_DIFFERENCES + 1
    assert line.edges[5] == pytest.approx(-line.edges[6])  # one of the windows lies around 0
    there = np.array(line.n_calls) > 0
    x, y, n = (np.array(column)[there] for column in (line.x, line.y, line.n_calls))
    covariance = np.cov(x, y, fweights=n.astype(int))
    assert line.curve.value == pytest.approx(covariance[0, 1] ** 2 / covariance[0, 0] / covariance[1, 1])


def test_every_call_is_in_the_joint_distribution_once_also_at_the_ends():
    found = linearity(answers(lambda gap: np.clip(0.5 + gap / 4, 0, 1)), RATINGS)
    assert np.sum(found.joint) == found.n_calls == 12 + 6 + 12
    assert np.sum(found.joint, axis=1).tolist() == list(found.difference.n_calls)
    assert (
        min(found.difference.n_calls[0], found.difference.n_calls[5], found.difference.n_calls[-1]) > 0
    )  # p = 0, 1/4, 1
    assert found.joint[0][0] > 0
    assert found.joint[0][-1] == 0


# ------------------------------------------------------------------------------------------------- what cannot be said


def test_certain_answers_have_no_log_odds_and_the_reason_says_how_many():
    found = linearity(answers(lambda gap: np.clip(0.5 + gap / 4, 0, 1)), RATINGS)
    assert found.log_odds.missing == "the log-odds of 20 of 30 calls are infinite: p is 0 or 1"
    assert found.difference.slope > 0
    assert "| - (1) | - | - (1) | - (1) |" in to_markdown([found])
    assert "\n1. the log-odds of 20 of 30" in to_markdown([found])
    assert to_json([found])[0]["log_odds"]["slope"] is None


def test_a_judge_that_always_says_the_same_has_no_line_of_differences():
    found = linearity(answers(lambda gap: np.full(gap.shape, 0.6)), RATINGS)
    assert found.difference.missing == "all calls have the same p"
    assert found.log_odds.missing == "all calls have the same log-odds"
    assert not draw([found])


def test_people_who_rate_all_texts_alike_give_no_line():
    same = [np.full(len(human), 3.0) for human in RATINGS]
    found = linearity(answers(noisy()), same)
    assert found.difference.missing == found.log_odds.missing == "all calls have the same difference"


def test_calls_about_texts_that_nobody_rated_are_left_out_and_counted():
    ratings = [human.copy() for human in RATINGS]
    ratings[0][3] = np.nan
    problems = answers(noisy())
    found = linearity(problems, ratings, left_out={"calls without an answer": 2, "texts not compared": 0})
    assert found.n_calls == 30 - 6
    assert found.left_out == {"calls without an answer": 2, "calls about a text that nobody rated": 6}
    assert "left out: calls about a text that nobody rated: 6" in to_markdown([found])
    with pytest.raises(InputError, match="cannot say how linear m is: no call is about two texts with ratings"):
        linearity(problems, [human * np.nan for human in RATINGS], judge="m")


def test_where_the_sign_is_not_certain_the_interval_of_a_square_begins_at_0():
    rng = np.random.default_rng(2)
    found = linearity(answers(lambda gap: rng.uniform(0.1, 0.9, gap.shape)), RATINGS).difference.calls
    assert 0 == found.low < found.value < found.high
    sure = linearity(answers(noisy()), RATINGS).difference.calls
    assert 0 < sure.low < sure.value < sure.high < 1


def test_one_context_has_no_error_and_no_interval():
    found = linearity(answers(noisy())[:1], RATINGS[:1])
    assert found.difference.stderr is None
    assert (found.difference.calls.low, found.difference.calls.high) == (None, None)
    assert "±" not in to_markdown([found])


def test_a_favour_that_rounds_to_nothing_has_no_minus():
    assert "| +0.00 |" in to_markdown([linearity(answers(lambda gap: logistic(gap - 1e-4)), RATINGS)])


# ------------------------------------------------------------------------------------------------- the command


def benchmark(folder, n_contexts=3):
    """SummEval with a few texts that say their quality <0..9>, and people who see it."""
    rng = np.random.default_rng(1)
    rows = []
    for c in range(n_contexts):
        for s, quality in enumerate(rng.permutation(10)[:4].tolist()):
            human = dict.fromkeys(("coherence", "consistency", "fluency", "relevance"), 1 + quality * 4 / 9)
            context = {"context_id": f"c{c}", "context": f"Article {c}.", "references": ["A text."]}
            rows.append({**context, "system": f"s{s}", "text": f"A text <{quality}>", "human": human})
    write_rows(rows, str(folder / "summeval.jsonl"))


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Runs the command with a judge that knows the qualities; what it is asked is stored."""
    benchmark(tmp_path)
    engine = FakeEngine(judge(0.5))

    def run(*argv):
        status = main(["linearity", "--data", str(tmp_path), "-m", "m", *argv])
        return status, capsys.readouterr(), engine.n_judged

    with Store(tmp_path / "store.sqlite") as store:
        monkeypatch.setattr(commands, "open_judge", lambda name, path, **options: StoredEngine(engine, store))
        monkeypatch.setattr(commands, "store_of", lambda engine: None)  # which the command would close
        yield run


def test_the_command_measures_any_judge_and_writes_table_numbers_and_figures(run, tmp_path):
    status, shown, _ = run("--benchmark", "summeval", "--attribute", "coherence", "-o", str(tmp_path / "run"))
    assert status == 0
    assert (tmp_path / "run/linearity.md").read_text() == shown.out
    (row,) = json.loads((tmp_path / "run/linearity.json").read_text())
    assert (row["judge"], row["benchmark"], row["attribute"], row["n_calls"]) == ("fake", "summeval", "coherence", 36)
    assert row["log_odds"]["slope"] == pytest.approx(9 / 4)  # a nat a quality, 9 of which are 4 points
    assert row["log_odds"]["at_zero"] == pytest.approx(0.5)
    assert row["signature"].startswith("synthscore:")
    root = ElementTree.fromstring((tmp_path / "run/linearity-summeval-fake.svg").read_text())
    words = {element.text for element in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"summeval, coherence", "mean ± sd", "line"} <= words
    assert "| fake | summeval coherence | 36 |" in shown.out
    assert "2.25 ± 0.00 | +0.50 | 1.00 [1.00, 1.00] |" in shown.out


def test_what_was_asked_is_not_asked_again(run):
    *_, n_first = run("--benchmark", "summeval", "--attribute", "fluency", "--limit", "2")
    assert n_first == 2 * 12
    assert run("--benchmark", "summeval", "--attribute", "fluency")[2] == 3 * 12


def test_the_command_says_what_it_did_not_measure(run, tmp_path, monkeypatch):
    status, shown, _ = run("--limit", "1", "--attribute", "coherence")
    assert status == 3
    assert "not measured: there is no topicalchat in" in shown.err
    assert "summeval, left out: 2 of 3 contexts: --limit 1" in shown.err
    monkeypatch.setattr(commands, "open_judge", lambda name, path, **options: FakeEngine(lambda prompt, labels: 1 / 0))
    status, shown, _ = run("--benchmark", "summeval", "--attribute", "coherence")
    assert status == 3
    assert "not measured: fake, summeval coherence: cannot say how linear fake is: no call" in shown.err
    status, shown, _ = run("--benchmark", "summeval", "--attribute", "wit")
    assert status == 1
    assert "nobody rated wit of summeval. There are: coherence, consistency" in shown.err


def test_the_prompts_that_ask_are_a_template_set(run, monkeypatch):
    seen = []
    engine = FakeEngine(lambda prompt, labels: seen.append(prompt.text) or judge()(prompt, labels))
    monkeypatch.setattr(commands, "open_judge", lambda name, path, **options: engine)
    for prompts in ("default", "paper"):
        run("--benchmark", "summeval", "--attribute", "fluency", "--limit", "1", "--prompts", prompts)
    assert len(seen) == 24
    assert seen[0] != seen[12]
    assert qualities(engine.judged[0]) == qualities(engine.judged[12])


def test_two_judges_of_one_name_are_refused_and_none_is_dropped(run):
    status, shown, n_asked = run("--benchmark", "summeval", "-m", "other")
    assert (status, n_asked) == (1, 0)
    assert "two of m, other are fake. Measure them one at a time" in shown.err


def test_a_model_must_be_named(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["linearity", "--data", str(tmp_path)])
    assert "required: -m/--model" in capsys.readouterr().err
