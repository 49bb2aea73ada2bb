"""`synthscore rank` and what stands around it: a judge that reads quality from the text, and files of comparisons."""

import json
import math
import re
from itertools import groupby, permutations
from pathlib import Path

import numpy as np
import pytest

from synthscore import engines, ranking
from synthscore.cli.app import main
from synthscore.engine import Prompt
from synthscore.judging.asking import Asking
from synthscore.judging.tasks import load_task, task_names
from synthscore.judging.templates import TEMPLATE_SETS, Templates
from synthscore.ranking import METHODS, newton
from synthscore.ranking.bradley_terry import soft_bradley_terry
from synthscore.ranking.comparisons import Comparisons
from synthscore.ranking.designs import all_pairs
from synthscore.ranking.gaussian import gaussian
from synthscore.ranking.judge import Judge, Problem
from synthscore.ranking.pairs import merge_sort, stored_merge_sort
from synthscore.types import Context
from tests.cli.given import read, write
from tests.fakes import CensoringEngine, FakeEngine

BENCHMARKS = Path(__file__).resolve().parents[3] / "shared" / "benchmarks"
BIAS = 1.0  # nats, for the text that is shown first


def biased_judge(prompt: Prompt, labels):
    """Log-odds: the difference of the numbers behind "quality", and BIAS for the text that is shown first."""
    first, second = (float(number) for number in re.findall(r"quality (-?[\d.]+\d|-?\d)", prompt.text))
    odds = first - second + BIAS
    one, two = -np.logaddexp(0, -odds), -np.logaddexp(0, odds)
    of = {"A": one, "B": two, "Worse": one, "Better": two, "No": one, "Yes": two, "Similar": -1.0}
    log_probs = np.array([of[label] for label in labels])
    return (log_probs - np.logaddexp.reduce(log_probs) + math.log(0.9)).tolist()


@pytest.fixture
def engine(monkeypatch):
    engine = FakeEngine(biased_judge)
    monkeypatch.setattr(engines, "open_engine", lambda name, **options: engine)
    return engine


QUALITIES = {"c1": (0.5, 2.5, 1.0, -1.0), "c2": (1.0, 0.0, 2.0, 3.0, -2.0)}


def candidates(qualities=QUALITIES):
    return [
        {"id": f"{c}-{k}", "context_id": c, "context": f"Article {c}.", "text": f"Text of quality {q}.", "human": q}
        for c, values in qualities.items()
        for k, q in enumerate(values)
    ]


def rank(*argv, task=True):
    return main(["rank", *argv, *(["--task", "summarization", "-a", "coherence"] if task else [])])


def compare(*argv):
    return main(["compare", *argv, "--task", "summarization", "-a", "coherence"])


def by_id(rows):
    return {row["id"]: row["score"] for row in rows}


def problem(context_id="c1", values=QUALITIES["c1"], attribute="coherence"):
    texts = tuple(f"Text of quality {q}." for q in values)
    return Problem(Context(context_id, "An article."), attribute, tuple(f"t{k}" for k in range(len(values))), texts)


def judge(problems, engine=None, protocol="choose", task="summarization", templates="default", **options):
    chosen = Templates(load_task(task), templates)
    return Judge(problems, engine or FakeEngine(biased_judge), chosen, Asking(protocol, **options))


# ------------------------------------------------------------------------------------------------- names


def test_every_method_has_a_function_and_every_public_name_is_there():
    assert list(ranking.METHODS) == [
        *("win-ratio", "average-probability", "colley", "bt", "poe-bt", "bt-ties", "poe-g", "poe-g-hard"),
        *("likelihood", "pairs"),
    ]
    comparisons = Comparisons.of([("a", "b", 0.8), ("b", "c", 0.7), ("a", "c", 0.6), ("c", "a", 0.5)])
    for name, method in ranking.METHODS.items():
        found = method(comparisons)
        assert found.method == name
        assert found.ids[found.order[0]] == "a"
    assert all(getattr(ranking, name) is not None for name in ranking.__all__)


# ------------------------------------------------------------------------------------------------- asking


@pytest.mark.parametrize("templates", TEMPLATE_SETS)
@pytest.mark.parametrize("task", task_names())
@pytest.mark.parametrize("protocol", ["choose", "compare", "yes_no"])
def test_the_first_text_is_shown_first_in_every_template(protocol, task, templates):
    engine = FakeEngine()
    attribute = next(iter(load_task(task).attributes))
    asked = judge(
        [Problem(Context("c", "C"), attribute, ("a", "b"), ("<ONE>", "<TWO>"))], engine, protocol, task, templates
    )
    asked([(0, 0, 1), (0, 1, 0)])
    first, second = (prompt.text for prompt in engine.judged)
    assert first.index("<ONE>") < first.index("<TWO>")
    assert second.index("<TWO>") < second.index("<ONE>")


@pytest.mark.parametrize("protocol", ["choose", "compare", "yes_no"])
def test_an_answer_is_about_the_first_text(protocol):
    asked = judge([problem(values=(0.5, 2.5))], protocol=protocol)
    answers = asked([(0, 0, 1), (0, 1, 0)])
    np.testing.assert_allclose(answers[:, 0] - answers[:, 1], [0.5 - 2.5 + BIAS, 2.5 - 0.5 + BIAS])
    np.testing.assert_allclose(np.exp(answers).sum(axis=1), 1)
    assert np.isneginf(answers[:, 2]).all() == (protocol != "compare")
    (comparisons,) = asked.comparisons()
    np.testing.assert_array_equal(comparisons.log_probs, answers)
    assert (comparisons.first.tolist(), comparisons.second.tolist()) == ([0, 1], [1, 0])
    assert f"protocol:{protocol}|" in str(comparisons.signature)
    assert "task:summarization" in str(comparisons.signature)


@pytest.mark.parametrize(("templates", "expected"), [("default", [0.1, 0.9]), ("paper", [0.9, 0.1])])
def test_yes_is_said_of_the_target_wherever_the_template_shows_it(templates, expected):
    yes = FakeEngine(lambda prompt, labels: [math.log(0.9), math.log(0.1)])
    (answer,) = judge([problem()], yes, "yes_no", templates=templates)([(0, 0, 1)])
    np.testing.assert_allclose(np.exp(answer[:2]), expected)


def test_an_answer_far_beyond_what_a_probability_can_hold_keeps_its_log_odds():
    asked = judge([problem(values=(60.0, 0.0))])
    (answer,) = asked([(0, 0, 1)])
    assert answer[0] - answer[1] == pytest.approx(61.0)


def test_questions_of_all_problems_go_to_the_engine_in_one_call_with_equal_beginnings_together():
    engine = FakeEngine(biased_judge)
    problems = [problem("c1"), problem("c2", (5.0, 6.0, 7.0))]
    asked = judge(problems, engine)
    calls = [(k, i, j) for k, p in enumerate(problems) for i, j in all_pairs(len(p.ids)).tolist()]
    rng = np.random.default_rng(0)
    shuffled = [calls[k] for k in rng.permutation(len(calls))]
    engine.calls.clear()
    answers = asked(shuffled)
    assert engine.calls == [("judge", 18)]
    firsts = [re.findall(r"quality (-?[\d.]+\d)", prompt.text)[0] for prompt in engine.judged[-18:]]
    assert len(list(groupby(firsts))) == 7  # each first text in one run
    for (k, i, j), answer in zip(shuffled, answers, strict=True):
        q = [float(re.findall(r"-?[\d.]+\d", text)[0]) for text in problems[k].texts]
        assert answer[0] - answer[1] == pytest.approx(q[i] - q[j] + BIAS)


def test_a_call_without_an_answer_is_left_out_and_named():
    def picky(prompt, labels):
        if "quality 2.5" in prompt.text and "quality 1.0" in prompt.text:
            raise RuntimeError("no words")
        return biased_judge(prompt, labels)

    asked = judge([problem()], FakeEngine(picky))
    answers = asked([(0, 0, 1), (0, 1, 2), (0, 2, 3)])
    assert np.isnan(answers).all(axis=1).tolist() == [False, True, False]
    (failure,) = asked.failures
    assert (failure.group, failure.first, failure.second) == (("c1", "coherence"), "t1", "t2")
    assert "no words" in failure.reason
    assert len(asked.comparisons()[0]) == 2


def test_labels_without_mass_and_untold_labels_are_no_answers():
    assert np.isnan(judge([problem()], min_mass=0.95)([(0, 0, 1)])).all()
    untelling = CensoringEngine(biased_judge, lambda prompt: {0: 0.0})
    asked = judge([problem(values=(0.0, 1.0))], untelling)
    assert np.isnan(asked([(0, 0, 1)])).all()
    assert "did not report" in asked.failures[0].reason
    assert not np.isnan(judge([problem(values=(0.0, 1.0))], untelling, max_unreported=1)([(0, 0, 1)])).any()


def test_a_sort_finds_the_order_of_all_problems_and_the_stored_answers_give_it_again():
    problems = [problem("c1", (3.0, -9.0, 7.0, 12.0, 0.0)), problem("c2", (9.0, 4.0))]
    asked = judge(problems)
    found = merge_sort([p.ids for p in problems], asked, seed=3)
    assert found[0].scores.tolist() == [0, -2, 1, 2, -1]
    assert found[1].scores.tolist() == [0.5, -0.5]
    for comparisons, before in zip(asked.comparisons(), found, strict=True):
        again = stored_merge_sort(comparisons, seed=3)
        assert again.scores.tolist() == before.scores.tolist()
        assert again.n_comparisons.tolist() == before.n_comparisons.tolist()
        assert again.settings == before.settings


def test_a_sort_does_not_depend_on_the_order_in_which_candidates_are_named():
    asked = judge([problem("c1", (0.2, 0.1, 0.3, 0.0))])  # all closer than the bias: the start decides
    asked([(0, int(i), int(j)) for i, j in all_pairs(4)])
    (calls,) = asked.comparisons()
    place = np.array([2, 0, 3, 1])
    other = Comparisons(
        tuple(calls.ids[k] for k in place),
        np.argsort(place)[calls.first],
        np.argsort(place)[calls.second],
        calls.log_probs,
        calls.weights,
    )
    one, two = stored_merge_sort(calls, seed=1), stored_merge_sort(other, seed=1)
    assert [two.scores[two.ids.index(name)] for name in one.ids] == one.scores.tolist()
    orders = {tuple(stored_merge_sort(calls, seed=seed).order.tolist()) for seed in range(10)}
    assert len(orders) > 1


def test_a_stored_sort_reads_the_other_order_where_it_must_and_ends_where_nothing_is_known():
    chain = Comparisons.of([("a", "b", 0.9), ("b", "c", 0.9), ("a", "c", 0.9)])
    assert [stored_merge_sort(chain, seed=seed).order.tolist() for seed in range(6)] == [[0, 1, 2]] * 6
    gap = Comparisons.of([("a", "b", 0.9)], ids=["a", "b", "c"])
    found = stored_merge_sort(gap)
    assert np.isnan(found.scores).all()
    assert "c" in found.settings["failed"]


# ------------------------------------------------------------------------------------------------- rank CANDIDATES


def test_rank_asks_a_judge_and_puts_the_better_texts_first(engine, capsys):
    write("c.jsonl", *candidates())
    assert rank("c.jsonl") == 0
    out, err = capsys.readouterr()
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["id"] for row in rows] == [row["id"] for row in candidates()]
    for context_id, qualities in QUALITIES.items():
        mine = [row for row in rows if row["context_id"] == context_id]
        np.testing.assert_allclose([row["score"] for row in mine], np.array(qualities) - np.mean(qualities), atol=0.4)
        assert [row["rank"] for row in mine] == [sorted(qualities, reverse=True).index(q) + 1 for q in qualities]
        assert {row["attribute"] for row in mine} == {"coherence"}
        assert all(row["stderr"] > 0 and row["status"] == "ok" for row in mine)
    assert {row["n_comparisons"] for row in rows} == {6.0, 8.0}
    assert engine.n_judged == 12 + 20
    signature = rows[0]["signature"]
    for part in ("model:fake", "protocol:choose", "selection:all,both-orders,seed=0", "method:poe-bt", "debias:none"):
        assert part in signature
    assert signature in err
    assert "2 rankings of 9 candidates: 32 calls" in err
    odds = [a - b + BIAS for values in QUALITIES.values() for a, b in permutations(values, 2)]
    wins = np.mean([0.5 if abs(x) < 1e-9 else float(x > 0) for x in odds])
    assert f"the first text wins {wins:.3f}" in err


SORT = ("--orders", "both", "--gap", "0.2", "--beam-size", "4", "--seed", "5")


@pytest.mark.parametrize(
    ("asking", "method", "told", "n_asked"),
    [
        (["--orders", "one"], [], [], 6 + 10),
        (["--budget", "8"], [], [], 16),
        (["--budget", "6", "--selection", "random"], [], [], 12),
        (["--budget", "5", "--selection", "no-repeat"], [], [], 10),
        (["--budget", "10", "--selection", "symmetric"], ["--method", "poe-g"], [], 20),
        (["--budget", "5", "--orders", "one"], ["--method", "bt"], [], 10),
        (["--budget", "16"], ["--debias", "median"], [], 12 + 16),
        (["--budget", "10"], ["--method", "bt-ties"], ["--protocol", "compare"], 20),
        ([], ["--method", "pairs"], ["--selection", "sort"], None),
        (
            [],
            ["--method", "pairs", *SORT],
            ["--selection", "sort", *SORT],
            None,
        ),
    ],
)
def test_comparisons_that_were_saved_give_the_same_scores_without_a_model(engine, asking, method, told, n_asked):
    write("c.jsonl", *candidates())
    assert rank("c.jsonl", *asking, *method, "-o", "one.jsonl") == 0
    assert n_asked is None or engine.n_judged == n_asked
    n_asked = engine.n_judged
    assert compare("c.jsonl", *asking, *told, "-o", "calls.jsonl") == 0
    assert engine.n_judged == n_asked  # the store has the answers
    assert len(read("calls.jsonl")) == n_asked
    assert rank("--comparisons", "calls.jsonl", *method, "-o", "two.jsonl", task=False) == 0
    assert engine.n_judged == n_asked
    one, two = read("one.jsonl"), read("two.jsonl")
    assert by_id(one) == pytest.approx(by_id(two), abs=1e-9)
    assert {row["signature"] for row in one + two} == {one[0]["signature"]}


def test_both_orders_are_asked_unless_one_is_wanted(engine):
    write("c.jsonl", *candidates())
    for options, both in (([], True), (["--budget", "8"], True), (["--orders", "one"], False)):
        assert compare("c.jsonl", *options, "-q", "-o", "calls.jsonl") == 0
        calls = {(row["first"], row["second"]) for row in read("calls.jsonl")}
        assert all(((j, i) in calls) == both for i, j in calls)


def test_what_is_asked_in_a_context_depends_on_the_seed_and_not_on_the_other_contexts(engine):
    def asked(rows, *options):
        write("c.jsonl", *rows)
        compare("c.jsonl", "--budget", "8", *options, "-o", "calls.jsonl", "-q")
        return [(row["first"], row["second"]) for row in read("calls.jsonl") if row["context_id"] == "c2"]

    rows = candidates()
    assert asked(rows) == asked(rows[4:]) == asked(rows, "--seed", "0")
    assert len({str(sorted(asked(rows, "--seed", str(seed)))) for seed in range(4)}) > 1
    write("c.jsonl", *candidates({f"c{k}": QUALITIES["c2"] for k in range(4)}))
    compare("c.jsonl", "--budget", "8", "-o", "calls.jsonl", "-q")
    designs = {
        c: str([r["first"][3:] for r in read("calls.jsonl") if r["context_id"] == c]) for c in ("c0", "c1", "c2")
    }
    assert len(set(designs.values())) > 1


def test_contexts_may_come_from_a_file_of_their_own(engine, capsys):
    write("contexts.jsonl", {"id": "c1", "text": "An article about the first."})
    rows = [{name: value for name, value in row.items() if name != "context"} for row in candidates()]
    write("c.jsonl", *rows)
    assert rank("c.jsonl", "--contexts", "contexts.jsonl", "-o", "o.jsonl") == 3
    assert "An article about the first." in engine.judged[0].text
    assert [row["status"] for row in read("o.jsonl")] == ["ok"] * 4 + ["unscored"] * 5
    assert "its context 'c2' is not in the file" in read("o.jsonl")[-1]["reason"]


def test_every_candidate_has_a_row_and_what_cannot_be_ranked_says_why(engine, capsys):
    alone = {"id": "alone", "context_id": "c3", "context": "Article.", "text": "Text of quality 1.0"}
    rows = candidates()
    empty, twice = rows[0] | {"id": "empty", "text": " "}, rows[1] | {"text": "Another of quality 4.0"}
    other = rows[1] | {"id": "other", "context": "Another article."}
    write("c.jsonl", *rows, empty, twice, other, alone, '{"id": ')
    assert rank("c.jsonl", "-o", "o.jsonl") == 3
    found = read("o.jsonl")
    assert [row["status"] for row in found] == ["ok"] * 9 + ["unscored"] * 5
    assert all(row["score"] is None and row["rank"] is None for row in found[9:])
    reasons = {row["id"]: row["reason"] for row in found[9:]}
    assert "expected a text that is not empty" in reasons["empty"]
    assert "'c1-1' was already used by row 2" in reasons["c1-1"]
    assert "context 'c1' has another text" in reasons["other"]
    assert "only candidate of its context" in reasons["alone"]
    assert "not JSON" in reasons["row 14"]
    assert "9 candidates of 14 ranked" in capsys.readouterr().err


def test_calls_without_an_answer_are_counted_and_what_they_leave_is_ranked(engine, monkeypatch, capsys):
    def picky(prompt, labels):
        if "quality 2.5" in prompt.text:
            raise RuntimeError("too long")
        return biased_judge(prompt, labels)

    engine.judge = picky
    write("c.jsonl", *candidates())
    assert rank("c.jsonl", "--method", "win-ratio", "-o", "o.jsonl") == 3
    err = capsys.readouterr().err
    assert "32 calls" in err
    assert "26 answered" in err
    assert "6 x" in err
    rows = {row["id"]: row for row in read("o.jsonl")}
    assert rows["c1-1"]["status"] == "unscored"
    assert rows["c1-1"]["reason"] == "it was not compared with any other"
    assert rows["c1-0"]["rank"] == 2
    assert rank("c.jsonl", "-o", "o.jsonl", "-q") == 3  # poe-bt cannot tell where it is
    assert [row["status"] for row in read("o.jsonl")] == ["unscored"] * 4 + ["ok"] * 5
    assert "groups that no comparison links" in read("o.jsonl")[0]["reason"]


def test_a_budget_that_is_too_small_is_a_reason_and_one_that_is_too_large_is_told(engine, capsys):
    write("c.jsonl", *candidates())
    assert rank("c.jsonl", "--budget", "6", "-o", "o.jsonl") == 3
    assert [row["status"] for row in read("o.jsonl")] == ["ok"] * 4 + ["unscored"] * 5
    assert "cannot choose 6 calls for 5 candidates" in read("o.jsonl")[-1]["reason"]
    assert rank("c.jsonl", "--budget", "3", "--orders", "one", "-o", "o.jsonl") == 3
    assert "cannot choose 3 calls for 5 candidates" in read("o.jsonl")[-1]["reason"]
    capsys.readouterr()
    assert rank("c.jsonl", "--budget", "14", "-o", "o.jsonl") == 0
    assert "1 ranking cannot have 14 calls: all there are were asked" in capsys.readouterr().err
    assert rank("c.jsonl", "--budget", "2", "-o", "o.jsonl") == 1
    assert "nothing could be ranked" in capsys.readouterr().err


def test_ties_are_asked_for_where_the_method_uses_them(engine, capsys):
    write("c.jsonl", *candidates())
    assert rank("c.jsonl", "--method", "bt-ties", "-o", "o.jsonl") == 0
    assert "protocol:compare|" in read("o.jsonl")[0]["signature"]
    assert re.search(r"nu 0\.\d+ to 0\.\d+", capsys.readouterr().err)
    assert rank("c.jsonl", "--protocol", "yes_no", "-o", "o.jsonl") == 0
    assert "protocol:yes_no|" in read("o.jsonl")[0]["signature"]


# ------------------------------------------------------------------------------------------------- the place


def one_order(n=8, bias=BIAS, seed=0):
    rng = np.random.default_rng(seed)
    q = np.linspace(-1, 1, n)
    calls = all_pairs(n, both_orders=False)
    calls = np.where(rng.random(len(calls))[:, None] < 0.5, calls, calls[:, ::-1])
    p = 1 / (1 + np.exp(-(q[calls[:, 0]] - q[calls[:, 1]] + bias)))
    return [
        {"first": f"t{i}", "second": f"t{j}", "probability": x} for (i, j), x in zip(calls.tolist(), p, strict=True)
    ]


def error_of(*options, expected=0):
    assert rank("--comparisons", "calls.jsonl", *options, "-o", "o.jsonl", task=False) == expected
    scores = by_id(read("o.jsonl"))
    return max(abs(scores[f"t{k}"] - q) for k, q in enumerate(np.linspace(-1, 1, 8)))


def test_the_bias_for_a_place_is_taken_out_when_asked_and_only_then(capsys):
    write("calls.jsonl", *one_order())
    plain = error_of()
    assert plain > 0.1
    assert error_of("--debias", "mle") < 1e-6
    err = capsys.readouterr().err
    assert "gamma -1;" in err
    assert error_of("--debias", "gamma") < plain / 3
    assert re.search(r"gamma -0\.\d+ nats", capsys.readouterr().err)
    assert error_of("--debias", "median") < plain / 2
    assert re.search(r"shifted by -\d\.\d+ nats \(threshold 0\.\d+\): they now win 0\.464", capsys.readouterr().err)
    assert error_of("--debias", "mean") < plain / 2
    assert "debias:mean" in read("o.jsonl")[0]["signature"]


def test_the_gaussian_expert_takes_the_mean_probability_as_its_beta(capsys):
    rows = one_order()
    write("calls.jsonl", *rows)
    error_of("--method", "poe-g", "--debias", "gamma")
    beta = np.mean([row["probability"] for row in rows])
    assert f"from the mean probability {beta:.4f} of the first text" in capsys.readouterr().err
    calls = Comparisons.of([(row["first"], row["second"], row["probability"]) for row in rows])
    expected = gaussian(calls, bias=beta)
    assert by_id(read("o.jsonl")) == pytest.approx(dict(zip(calls.ids, expected.scores, strict=True)))


def test_the_shift_is_estimated_over_all_groups():
    rows = [row | {"context_id": c} for c, seed in (("c1", 0), ("c2", 1)) for row in one_order(seed=seed)]
    write("calls.jsonl", *rows)
    assert rank("--comparisons", "calls.jsonl", "--debias", "mean", "-o", "o.jsonl", task=False) == 0
    p = np.array([row["probability"] for row in rows])
    shift = -math.log(p.mean() / (1 - p.mean()))
    logit = np.log(p / (1 - p)) + shift
    calls = Comparisons.of(
        [(r["first"], r["second"], 1 / (1 + math.exp(-x))) for r, x in zip(rows[:28], logit[:28], strict=True)]
    )
    expected = dict(zip(calls.ids, soft_bradley_terry(calls).scores, strict=True))
    assert by_id(read("o.jsonl")[:8]) == pytest.approx(expected)


# ------------------------------------------------------------------------------------------------- rank --comparisons


CYCLE = [("a", "b", 0.9), ("b", "c", 0.7), ("c", "a", 0.4), ("b", "a", 0.2), ("a", "c", 0.7), ("c", "b", 0.4)]


def write_csv(rows=CYCLE, name="calls.csv"):
    lines = ["first,second,probability", *(f"{i},{j},{p}" for i, j, p in rows)]
    Path(name).write_text("\n".join(lines) + "\n")


def test_a_file_of_comparisons_is_ranked_by_each_method(capsys):
    write_csv()
    expected = Comparisons.of(CYCLE)
    for name, method in ranking.METHODS.items():
        assert rank("--comparisons", "calls.csv", "--method", name, "-o", "o.jsonl", task=False) == 0
        rows, found = read("o.jsonl"), method(expected)
        assert [row["id"] for row in rows] == ["a", "b", "c"]
        assert [row["score"] for row in rows] == pytest.approx(found.scores.tolist())
        assert [row["rank"] for row in rows] == found.ranks.tolist()
        assert [row["stderr"] for row in rows] == [None if math.isnan(s) else pytest.approx(s) for s in found.stderr]
        err = capsys.readouterr().err
        assert "6 comparisons of 3 candidates in 1 group" in err
        assert f"{name}: 3 candidates of 3 ranked, 1 of 1 ranking converged" in err
        assert f"|method:{name}|" in err


def test_options_reach_the_method(capsys):
    rows = [("a", "b", 0.9), ("b", "a", 0.6), ("b", "c", 0.8), ("c", "a", 0.45), ("c", "b", 0.7)]
    write_csv(rows)
    calls = Comparisons.of(rows)
    for options, expected in (
        (["--method", "bt", "--prior", "observed"], METHODS["bt"](calls, prior="observed")),
        (["--method", "win-ratio", "--decisions", "per_call"], METHODS["win-ratio"](calls, decisions="per_call")),
        (["--method", "bt", "--decisions", "per_call"], METHODS["bt"](calls, decisions="per_call")),
        (["--method", "poe-g", "--stderr", "sandwich"], gaussian(calls, stderr="sandwich")),
    ):
        assert rank("--comparisons", "calls.csv", *options, "-o", "o.jsonl", task=False) == 0
        assert [row["score"] for row in read("o.jsonl")] == pytest.approx(expected.scores.tolist())
        known = [row["stderr"] for row in read("o.jsonl")]
        assert known == [None if math.isnan(s) else pytest.approx(s) for s in expected.stderr]
        assert f"{options[2][2:]}:{options[3]}" in read("o.jsonl")[0]["signature"]
    assert rank("--comparisons", "calls.csv", "--method", "bt", "--prior", "none", "-o", "o.jsonl", task=False) == 1
    assert "scores are not finite" in read("o.jsonl")[0]["reason"]


def test_errors_may_be_bootstrapped_for_any_method(capsys):
    write_csv()
    for method in ("average-probability", "poe-bt"):
        options = ("--method", method, "--stderr", "bootstrap", "--seed", "1")
        assert rank("--comparisons", "calls.csv", *options, "-o", "o.jsonl", task=False) == 0
        one = [row["stderr"] for row in read("o.jsonl")]
        assert all(value > 0 for value in one)
        assert "resamples " in capsys.readouterr().err
        assert rank("--comparisons", "calls.csv", *options[:-1], "2", "-o", "o.jsonl", task=False) == 0
        assert one != [row["stderr"] for row in read("o.jsonl")]
    assert rank("--comparisons", "calls.csv", "--stderr", "none", "-o", "o.jsonl", task=False) == 0
    assert {row["stderr"] for row in read("o.jsonl")} == {None}


def test_a_broken_row_is_told_and_the_others_are_ranked(capsys):
    write_csv([*CYCLE, ("a", "a", 0.5), ("a", "b", 1.5)])
    assert rank("--comparisons", "calls.csv", "-o", "o.jsonl", task=False) == 3
    err = capsys.readouterr().err
    assert "2 rows left out" in err
    assert "row 7: 'a' is compared with itself" in err
    assert "row 8: probability is 1.5, expected 0 to 1" in err
    assert [row["score"] for row in read("o.jsonl")] == pytest.approx(soft_bradley_terry(Comparisons.of(CYCLE)).scores)


def test_groups_are_ranked_apart_and_one_that_cannot_be_says_why(capsys):
    rows = [{"first": i, "second": j, "probability": p, "context_id": "x"} for i, j, p in CYCLE]
    rows += [{"first": "a", "second": "b", "outcome": "win", "context_id": "y"}]
    write("calls.jsonl", *rows)
    assert rank("--comparisons", "calls.jsonl", "-o", "o.jsonl", task=False) == 3
    found = read("o.jsonl")
    assert [(row["context_id"], row["status"]) for row in found] == [("x", "ok")] * 3 + [("y", "unscored")] * 2
    assert "scores are not finite" in found[3]["reason"]
    assert "poe-bt: 3 candidates of 5 ranked, 1 of 2 rankings converged" in capsys.readouterr().err
    assert rank("--comparisons", "calls.jsonl", "--by", "none", "-o", "o.jsonl", task=False) == 0
    assert len(read("o.jsonl")) == 3


def test_a_method_that_does_not_converge_is_a_warning_and_its_rows_say_so(monkeypatch, capsys):
    monkeypatch.setattr(newton, "MAX_ITERATIONS", 1)
    write_csv()
    assert rank("--comparisons", "calls.csv", "-o", "o.jsonl", task=False) == 3
    err = capsys.readouterr().err
    assert "warning: poe-bt did not converge: 1 iterations leave a derivative of" in err
    assert "0 of 1 ranking converged" in err
    assert [(row["status"], row["reason"]) for row in read("o.jsonl")] == [
        ("unconverged", "stopped after 1 iterations")
    ] * 3


def test_comparisons_are_ranked_without_a_file_of_candidates(capsys):
    write_csv()
    write("all.jsonl", *[{"id": name} for name in "abcd"])
    assert rank("--comparisons", "calls.csv", "all.jsonl", "-o", "o.jsonl", task=False) == 2
    assert "leave the file of candidates out" in capsys.readouterr().err


def test_agreement_with_people_is_printed(engine, capsys):
    write("c.jsonl", *candidates())
    assert rank("c.jsonl", "--human", "c.jsonl", "-o", "o.jsonl") == 0
    assert "agreement with people, coherence: Spearman 1.000 ± 0.000, 2 groups" in capsys.readouterr().err


@pytest.mark.parametrize(
    "ratings",
    [
        [{"id": name, "human": h} for name, h in zip("abc", (2, 1, 3), strict=True)],
        [
            {"system": name, "context_id": "any", "human": {"fluency": h}}
            for name, h in zip("abc", (2, 1, 3), strict=True)
        ],
        [{"id": n, "human": h} for n, h in (("a", 1), ("a", 3), ("b", 0), ("b", 2), ("c", 3))],  # means
        [{"id": n, "human": f'{{"fluency": {h}}}'} for n, h in zip("abc", (2, 1, 3), strict=True)],
    ],
)
def test_ratings_are_found_by_id_or_system(ratings, capsys):
    write_csv()
    write("human.jsonl", *ratings)
    assert rank("--comparisons", "calls.csv", "--human", "human.jsonl", "-o", "o.jsonl", task=False) == 0
    assert "agreement with people: Spearman -0.500, 1 group" in capsys.readouterr().err


def with_contexts(**winners):
    """Comparisons of a, b and c in each context, whose names come best first."""
    return [
        {"context_id": context, "first": one, "second": other, "probability": 0.8}
        for context, order in winners.items()
        for one, other in (order[:2], order[1:], order[::2])
    ]


def test_a_context_is_not_rated_by_what_people_said_in_another(capsys):
    write("calls.jsonl", *with_contexts(c1="abc", c2="cba"))
    rated = [{"id": name, "context_id": "c1", "human": h} for name, h in zip("abc", (3, 2, 1), strict=True)]
    write("human.jsonl", *rated, {"id": "a", "context_id": "c2", "human": 1})
    assert rank("--comparisons", "calls.jsonl", "--human", "human.jsonl", "-o", "o.jsonl", task=False) == 0
    assert "agreement with people: Spearman 1.000, 1 group, 1 skipped" in capsys.readouterr().err


@pytest.mark.parametrize("nothing", [{}, {"context_id": None}, {"context_id": ""}])
def test_a_rating_that_names_no_context_counts_in_all_that_have_none_of_their_own(nothing, capsys):
    write("calls.jsonl", *with_contexts(c1="abc", c2="cba"))
    rated = [{"id": name, "human": h} | nothing for name, h in zip("abc", (3, 2, 1), strict=True)]
    own = [{"id": name, "context_id": "c2", "human": h} for name, h in zip("abc", (1, 2, 3), strict=True)]
    write("human.jsonl", *rated)
    assert rank("--comparisons", "calls.jsonl", "--human", "human.jsonl", "-o", "o.jsonl", task=False) == 0
    assert "Spearman 0.000 ± 1.000, 2 groups" in capsys.readouterr().err
    write("human.jsonl", *rated, *own)
    assert rank("--comparisons", "calls.jsonl", "--human", "human.jsonl", "-o", "o.jsonl", task=False) == 0
    assert "Spearman 1.000 ± 0.000, 2 groups" in capsys.readouterr().err


@pytest.mark.parametrize("contexts", [("x", "x"), ("x", "y")])  # both in one group, and a group each
def test_an_order_by_two_judges_is_signed_by_both(contexts, capsys):
    judges = ("synthscore:0.1|model:m|orders:2", "synthscore:0.1|model:n|orders:2")
    calls = [
        {"context_id": c, "first": "a", "second": "b", "probability": 0.8, "signature": judge}
        for c, judge in zip(contexts, judges, strict=True)
    ]
    write("calls.jsonl", *calls)
    assert rank("--comparisons", "calls.jsonl", "-o", "o.jsonl", task=False) == 0
    (signature,) = {row["signature"] for row in read("o.jsonl")}
    assert signature.startswith("synthscore:0.1|model:m & n|orders:2|comparisons:")
    warned = "the comparisons are not all by one judge: they differ in model (m & n)"
    assert warned in " ".join(capsys.readouterr().err.split())


def test_an_order_by_one_judge_warns_of_nothing(capsys):
    write("calls.jsonl", *[{"first": "a", "second": "b", "probability": p, "signature": "model:m"} for p in (0.8, 0.7)])
    assert rank("--comparisons", "calls.jsonl", "-o", "o.jsonl", task=False) == 0
    assert "judge" not in capsys.readouterr().err
    assert read("o.jsonl")[0]["signature"].startswith("model:m|comparisons:")


def test_a_rating_that_is_none_is_an_error(capsys):
    write_csv()
    write("human.jsonl", {"id": "a", "human": None})
    assert rank("--comparisons", "calls.csv", "--human", "human.jsonl", task=False) == 1
    assert "row 1: human is None, expected a number" in capsys.readouterr().err
    write("human.jsonl", {"id": "a", "human": {"x": 1, "y": 2}})
    assert rank("--comparisons", "calls.csv", "--human", "human.jsonl", task=False) == 1
    assert "rates 'x', 'y', and None was asked for" in capsys.readouterr().err


@pytest.mark.parametrize(
    "argv",
    [
        "rank",
        "rank c.jsonl",
        "rank c.jsonl --task summarization",
        "compare c.jsonl --task summarization",
        "rank --comparisons x.csv --budget 5",
        "rank --comparisons x.csv --model m",
        "rank --comparisons x.csv --prompts paper",
        "rank --comparisons x.csv --selection greedy",
        "rank --comparisons x.csv --method poe-g --prior all",
        "rank --comparisons x.csv --method bt --debias gamma",
        "rank --comparisons x.csv --method poe-g --debias mle",
        "rank --comparisons x.csv --method pairs --debias mean",
        "rank --comparisons x.csv --method colley --stderr sandwich",
        "rank --comparisons x.csv --method bt-ties --stderr sandwich",
        "rank --comparisons x.csv --method pairs --stderr bootstrap",
        "rank --comparisons x.csv --orders both",
        "curve calls.csv --json -o -",
        "curve calls.csv --methods elo",
        "curve calls.csv --methods pairs",
        "curve calls.csv --budgets many",
        "rank c.jsonl --task summarization -a coherence --by context_id",
        "rank c.jsonl --task summarization -a coherence --selection greedy",
        "rank c.jsonl --task summarization -a coherence --selection all --budget 5",
        "rank c.jsonl --task summarization -a coherence --selection random --budget 9 --orders both",
        "rank c.jsonl --task summarization -a coherence --method pairs --budget 9",
        "compare c.jsonl --task summarization -a coherence --gap 0.1",
    ],
)
def test_options_that_do_nothing_together_are_refused(argv, capsys):
    write_csv()
    assert main(argv.split()) == 2
    assert "UsageError" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "new"),
    [
        ("rank --comparisons x.csv --curve", "synthscore curve COMPARISONS"),
        ("rank c.jsonl --save-comparisons x.jsonl", "synthscore compare CANDIDATES ... -o FILE"),
        ("rank --comparisons x.csv --debias threshold", "median"),
    ],
)
def test_an_option_that_moved_says_where(argv, new, capsys):
    assert main(argv.split()) == 2
    assert new in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------- curve


def write_full(n=5, contexts=3):
    rows = []
    for c in range(contexts):
        rng = np.random.default_rng(c)
        q = rng.normal(size=n)
        for i, j in all_pairs(n).tolist():
            p = 1 / (1 + math.exp(-(q[i] - q[j] + rng.normal())))
            rows.append({"context_id": f"c{c}", "first": f"t{i}", "second": f"t{j}", "probability": p})
        write(f"human{c}.jsonl", *[{"id": f"t{i}", "context_id": f"c{c}", "human": x} for i, x in enumerate(q)])
    write("calls.jsonl", *rows)
    write("human.jsonl", *[row for c in range(contexts) for row in read(f"human{c}.jsonl")])


def curve(*options):
    return main(["curve", "calls.jsonl", "--draws", "4", *options])


def test_a_curve_is_a_table_rows_json_and_a_picture(capsys):
    write_full()
    options = ("--human", "human.jsonl", "--methods", "win-ratio,poe-bt", "--plot", "c.svg", "-o", "curve.csv")
    assert curve(*options) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0].split() == ["calls", "win-ratio", "poe-bt"]
    assert [line.split()[0] for line in out.splitlines()[1:]] == ["10", "12", "14", "16", "18", "20"]
    assert out.splitlines()[-1].count("± 0.000") == 2
    assert "Spearman with the ratings of human.jsonl, mean over 3 contexts; mean and sd of 4 draws" in err
    assert ">win-ratio</text>" in Path("c.svg").read_text()
    assert Path("curve.csv").read_text().splitlines()[0].startswith("method,n_calls,mean,sd,low,high")
    assert curve(*options[:4], "--json", "-q") == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == 12
    assert rows[0]["low"] < rows[0]["mean"] < rows[0]["high"]
    assert rows[0]["n_contexts"] == 3


def test_a_curve_without_ratings_says_what_it_is_compared_with(capsys):
    write_full()
    assert curve("--methods", "poe-g", "--budgets", "20,10", "--selection", "greedy") == 0
    out, err = capsys.readouterr()
    assert "Spearman with what the same method says of the full set" in err
    assert out.splitlines()[2].split() == ["20", "1.000", "±", "0.000"]
    found = []
    for selection in ("greedy", "symmetric", "random", "no-repeat"):
        assert curve("--methods", "poe-g", "--budgets", "10", "--selection", selection, "--json", "-q") == 0
        found.append(json.loads(capsys.readouterr().out)[0]["mean"])
    assert len(set(found)) == 4


def test_a_curve_in_which_something_could_not_be_ranked_says_so(capsys):
    rows = [{"first": i, "second": j, "outcome": o} for i, j, o in (("a", "b", 1), ("b", "a", 0), ("a", "c", 1))]
    rows += [{"first": i, "second": j, "outcome": o} for i, j, o in (("c", "a", 0), ("b", "c", 1), ("c", "b", 0))]
    write("calls.jsonl", *rows)
    write("human.jsonl", *[{"id": name, "human": h} for name, h in zip("abc", (3, 2, 1), strict=True)])
    assert curve("--methods", "poe-bt,bt", "--human", "human.jsonl", "--budgets", "6") == 3
    out, err = capsys.readouterr()
    assert "poe-bt could not rank 4 contexts (of all draws)" in err
    assert out.splitlines()[1].split() == ["6", "nan", "±", "nan", "1.000", "±", "0.000"]


# ------------------------------------------------------------------------------------------------- real verdicts


@pytest.mark.skipif(not BENCHMARKS.is_dir(), reason="the published judge outputs are not here")
def test_rankings_of_chatgpts_verdicts_agree_with_people_as_documented(capsys):
    """docs/ranking.md: a chain of 11 pairs in both orders an article, against the means of three experts."""
    columns = ("--field", "first=system_a", "--field", "second=system_b", "--field", "outcome=choice")
    source = ("--comparisons", str(BENCHMARKS / "judge_outputs" / "summeval_pairwise_chatgpt.jsonl.gz"), *columns)
    human = ("--human", str(BENCHMARKS / "summeval.jsonl.gz"), "-o", "o.jsonl")
    assert rank(*source, *human, "--method", "poe-g", task=False) == 0
    err = capsys.readouterr().err
    assert "4 400 comparisons of 2 400 candidates in 200 groups" in err
    assert "agreement with people, coherence: Spearman 0.271 ± 0.056, 50 groups" in err
    assert "agreement with people, relevance: Spearman 0.431 ± 0.048, 50 groups" in err
    assert rank(*source, *human, "--method", "win-ratio", task=False) == 0
    err = capsys.readouterr().err
    assert "agreement with people, coherence: Spearman 0.234 ± 0.037, 50 groups" in err
    assert "agreement with people, consistency: Spearman 0.129 ± 0.043, 48 groups, 2 skipped" in err
    assert rank(*source, *human, "--by", "attribute", task=False) == 0
    assert "agreement with people, relevance: Spearman 0.951, 1 group" in capsys.readouterr().err
