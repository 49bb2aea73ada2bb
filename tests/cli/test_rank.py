"""`synthscore rank` and `compare`: candidates, files of comparisons, and a judge that likes the first text."""

import json
import math
import re
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from synthscore import engines, ranking
from synthscore.cli.app import main
from synthscore.cli.messages import short_signature
from synthscore.ranking import METHODS
from synthscore.ranking import bradley_terry as newton
from synthscore.ranking.bradley_terry import soft_bradley_terry
from synthscore.ranking.closed_form import gaussian
from synthscore.ranking.comparisons import Comparisons
from synthscore.ranking.designs import all_pairs
from tests.cli.given import read, write
from tests.fakes import FakeEngine, reading_judge

BENCHMARKS = Path(__file__).resolve().parents[3] / "shared" / "benchmarks"
BIAS = 1.0  # nats, for the text that is shown first
biased_judge = reading_judge(BIAS)


@pytest.fixture
def engine(monkeypatch):
    engine = FakeEngine(biased_judge)
    monkeypatch.setattr(engines, "open_engine", lambda name, **options: engine)
    return engine


QUALITIES = {"c1": (0.5, 2.5, 1.0, -1.0), "c2": (1.0, 0.0, 2.0, 3.0, -2.0)}


def candidates(qualities=QUALITIES):
    return [
        {"id": f"{c}-{k}", "context_id": c, "context": f"Article {c}.", "text": f"Text of q={q} .", "human": q}
        for c, values in qualities.items()
        for k, q in enumerate(values)
    ]


def rank(*argv, task=True):
    return main(["rank", *argv, *(["--task", "summarization", "-a", "coherence"] if task else [])])


def compare(*argv):
    return main(["compare", *argv, "--task", "summarization", "-a", "coherence"])


def by_id(rows):
    return {row["id"]: row["score"] for row in rows}


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
    assert short_signature(signature) in err
    assert "2 rankings of 9 candidates: 32 calls" in err
    odds = [a - b + BIAS for values in QUALITIES.values() for a, b in permutations(values, 2)]
    wins = np.mean([0.5 if abs(x) < 1e-9 else float(x > 0) for x in odds])
    assert f"the first text wins {wins:.3f}" in err


@pytest.mark.parametrize(
    ("asking", "method", "told", "n_asked"),
    [
        (["--orders", "one"], [], [], 6 + 10),
        (["--budget", "8"], [], [], 16),
        (["--budget", "10"], ["--method", "poe-g"], [], 20),
        (["--budget", "5", "--orders", "one"], ["--method", "bt"], [], 10),
        (["--budget", "16"], ["--debias", "median"], [], 12 + 16),
        (["--budget", "10"], ["--method", "bt-ties"], ["--protocol", "compare"], 20),
    ],
)
def test_comparisons_that_were_saved_give_the_same_scores_without_a_model(engine, asking, method, told, n_asked):
    write("c.jsonl", *candidates())
    assert rank("c.jsonl", *asking, *method, "-o", "one.jsonl") == 0
    assert engine.n_judged == n_asked
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
    alone = {"id": "alone", "context_id": "c3", "context": "Article.", "text": "Text of q=1.0 ."}
    rows = candidates()
    empty, twice = rows[0] | {"id": "empty", "text": " "}, rows[1] | {"text": "Another of q=4.0 ."}
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


@pytest.mark.parametrize(("allowed", "code"), [("4", 3), ("5", 0), ("35%", 3), ("36%", 0)])
def test_so_many_open_candidates_as_are_allowed_do_not_stop_a_pipeline(engine, allowed, code):
    """Five of 14 rows: each counts once, though the sets leave it out and it has a row."""
    rows = candidates()
    alone = [
        {"id": f"alone {k}", "context_id": f"c{3 + k}", "context": "A.", "text": "Text of q=1.0 ."} for k in (0, 1)
    ]
    write("c.jsonl", *rows, rows[0] | {"id": "empty", "text": " "}, *alone, '{"id": ', rows[1] | {"text": "q=4.0 ."})
    assert rank("c.jsonl", "-o", "o.jsonl", "--allow-unscored", allowed) == code
    assert [row["status"] for row in read("o.jsonl")] == ["ok"] * 9 + ["unscored"] * 5


@pytest.mark.parametrize(("allowed", "code"), [("5", 3), ("6", 0), ("18%", 3), ("19%", 0)])
def test_so_many_questions_without_an_answer_as_are_allowed_do_not_stop_a_pipeline(engine, allowed, code):
    """Six of 32."""
    engine.judge = lambda prompt, labels: {}["q=2.5"] if "q=2.5 " in prompt.text else biased_judge(prompt, labels)
    write("c.jsonl", *candidates())
    assert compare("c.jsonl", "-o", "o.jsonl", "--allow-unscored", allowed) == code
    assert len(read("o.jsonl")) == 26


def test_calls_without_an_answer_are_counted_and_what_they_leave_is_ranked(engine, monkeypatch, capsys):
    def picky(prompt, labels):
        if "q=2.5 " in prompt.text:
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


# ------------------------------------------------------------------------------------------------- several judges


@pytest.fixture
def three(monkeypatch):
    """Judges who read the numbers: two see quality, one of them with a bias, and one sees nothing."""
    judges = {"good": biased_judge, "fair": reading_judge(0.0), "blind": lambda prompt, labels: [-1.0] * len(labels)}
    found = {name: FakeEngine(judge, name=name) for name, judge in judges.items()}
    monkeypatch.setattr(engines, "open_engine", lambda name, **options: found[name])
    return found


MODELS = ("--model", "good", "--model", "fair", "--model", "blind")


def test_several_judges_make_one_order_and_who_has_no_vote_is_said(three, capsys):
    write("c.jsonl", *candidates())
    assert rank("c.jsonl", *MODELS, "-o", "one.jsonl") == 0
    err = capsys.readouterr().err
    assert "a jury of 3 on coherence, with equal weights: good, fair\n  blind is left out: it puts no text above" in err
    assert "nothing says which one errs" in err
    rows = read("one.jsonl")
    for context_id, qualities in QUALITIES.items():
        mine = [row["rank"] for row in rows if row["context_id"] == context_id]
        assert mine == [sorted(qualities, reverse=True).index(q) + 1 for q in qualities]
    assert "model:blind & fair & good|" in rows[0]["signature"]
    assert compare("c.jsonl", *MODELS, "-o", "calls.jsonl") == 0
    assert {row["judge"] for row in read("calls.jsonl")} == set(three)
    assert rank("--comparisons", "calls.jsonl", "-o", "two.jsonl", task=False) == 0
    assert by_id(read("two.jsonl")) == pytest.approx(by_id(rows), abs=1e-6)
    assert {engine.n_judged for engine in three.values()} == {32}  # the store has the answers
    alone = ("--by", "context_id", "--by", "attribute", "--by", "judge")
    assert rank("--comparisons", "calls.jsonl", *alone, "-o", "alone.jsonl", task=False) == 0
    assert len(read("alone.jsonl")) == 3 * len(rows)


@pytest.mark.parametrize("options", [["--debias", "median"], ["--method", "bt:prior=observed"], ["--method", "colley"]])
def test_each_judge_is_ranked_by_what_the_options_name(three, options):
    write("c.jsonl", *candidates())
    compare("c.jsonl", *MODELS, "-o", "calls.jsonl", "-q")
    assert rank("--comparisons", "calls.jsonl", *options, "-o", "o.jsonl", task=False) == 0
    rows = read("o.jsonl")
    for context_id, qualities in QUALITIES.items():
        mine = [row["rank"] for row in rows if row["context_id"] == context_id]
        assert mine == [sorted(qualities, reverse=True).index(q) + 1 for q in qualities]


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
    calls = Comparisons.from_records([(row["first"], row["second"], row["probability"]) for row in rows])
    expected = gaussian(calls, bias=beta)
    assert by_id(read("o.jsonl")) == pytest.approx(dict(zip(calls.ids, expected.scores, strict=True)))


def test_the_shift_is_estimated_over_all_groups():
    rows = [row | {"context_id": c} for c, seed in (("c1", 0), ("c2", 1)) for row in one_order(seed=seed)]
    write("calls.jsonl", *rows)
    assert rank("--comparisons", "calls.jsonl", "--debias", "mean", "-o", "o.jsonl", task=False) == 0
    p = np.array([row["probability"] for row in rows])
    shift = -math.log(p.mean() / (1 - p.mean()))
    logit = np.log(p / (1 - p)) + shift
    calls = Comparisons.from_records(
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
    expected = Comparisons.from_records(CYCLE)
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
        assert f"|method:{name}|" in rows[0]["signature"]


def test_options_reach_the_method(capsys):
    rows = [("a", "b", 0.9), ("b", "a", 0.6), ("b", "c", 0.8), ("c", "a", 0.45), ("c", "b", 0.7)]
    write_csv(rows)
    calls = Comparisons.from_records(rows)
    for options, expected in (
        (["--method", "bt:prior=observed"], METHODS["bt"](calls, prior="observed")),
        (["--method", "win-ratio:decisions=per_call"], METHODS["win-ratio"](calls, decisions="per_call")),
        (["--method", "bt:decisions=per_call,prior=all"], METHODS["bt"](calls, decisions="per_call")),
        (["--method", "poe-g", "--stderr", "model"], gaussian(calls, stderr="model")),
    ):
        assert rank("--comparisons", "calls.csv", *options, "-o", "o.jsonl", task=False) == 0
        assert [row["score"] for row in read("o.jsonl")] == pytest.approx(expected.scores.tolist())
        known = [row["stderr"] for row in read("o.jsonl")]
        assert known == [None if math.isnan(s) else pytest.approx(s) for s in expected.stderr]
        said = options[-1].partition(":")[2].partition(",")[0].replace("=", ":") or f"stderr:{options[-1]}"
        assert said in read("o.jsonl")[0]["signature"]
    assert rank("--comparisons", "calls.csv", "--method", "bt:prior=none", "-o", "o.jsonl", task=False) == 1
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
    assert [row["score"] for row in read("o.jsonl")] == pytest.approx(
        soft_bradley_terry(Comparisons.from_records(CYCLE)).scores
    )


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


def test_many_rankings_that_do_not_converge_are_one_warning(monkeypatch, capsys):
    monkeypatch.setattr(newton, "MAX_ITERATIONS", 1)
    rows = [{"first": i, "second": j, "probability": p, "context_id": c} for c in "xyz" for i, j, p in CYCLE]
    write("calls.jsonl", *rows, {"first": "a", "second": "b", "probability": 0.5, "context_id": "even"})
    assert rank("--comparisons", "calls.jsonl", "-o", "o.jsonl", task=False) == 3
    err = capsys.readouterr().err
    assert err.count("did not converge") == 1
    assert "warning: poe-bt did not converge in 3 of 4 rankings, x the first: 1 iterations leave" in err
    assert [row["status"] for row in read("o.jsonl")] == ["unconverged"] * 9 + ["ok"] * 2


def test_comparisons_are_ranked_without_a_file_of_candidates(capsys):
    write_csv()
    write("all.jsonl", *[{"id": name} for name in "abcd"])
    assert rank("--comparisons", "calls.csv", "all.jsonl", "-o", "o.jsonl", task=False) == 2
    assert "Leave out the candidates" in capsys.readouterr().err
    assert rank("--comparisons", "calls.csv", "--attribute", "coherence", "-o", "o.jsonl", task=False) == 2
    assert "options of judge, model and attribute" in capsys.readouterr().err


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
        "rank --comparisons x.csv --method poe-g:prior=all",
        "rank --comparisons x.csv --method bt:prior",
        "rank --comparisons x.csv --method bt:prior=all,prior=observed",
        "rank --comparisons x.csv --method bt --prior all",
        "rank --comparisons x.csv --method bt --debias gamma",
        "rank --comparisons x.csv --method poe-g --debias mle",
        "rank --comparisons x.csv --method colley --stderr model",
        "rank --comparisons x.csv --stderr sandwich",
        "rank --comparisons x.csv --orders one",
        "rank c.jsonl --task summarization -a coherence --by context_id",
        "rank c.jsonl --task summarization -a coherence --budget 0",
    ],
)
def test_options_that_do_nothing_together_are_refused(argv, capsys):
    write_csv()
    assert main(argv.split()) == 2
    assert "UsageError" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        ("rank --comparisons x.csv --debias threshold", "median"),
        ("rank --comparisons x.csv --method pairs", "expected one of win-ratio, "),
    ],
)
def test_a_value_that_there_is_not_is_told_which_there_are(argv, told, capsys):
    assert main(argv.split()) == 2
    assert told in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------- real verdicts


@pytest.mark.slow
@pytest.mark.skipif(not BENCHMARKS.is_dir(), reason="the published judge outputs are not here")
def test_rankings_of_chatgpts_verdicts_agree_with_people_as_documented(capsys):
    """docs/ranking.md: a chain of 11 pairs in both orders an article, against the means of three experts."""
    columns = ("--field", "first=system_a", "--field", "second=system_b", "--field", "outcome=choice")
    source = ("--comparisons", str(BENCHMARKS / "judge_outputs" / "summeval_pairwise_chatgpt.jsonl.gz"), *columns)
    human = str(BENCHMARKS / "summeval.jsonl.gz")
    for method, figures in {
        "poe-g": {"coherence": (0.271, 0.056, 50), "relevance": (0.431, 0.048, 50)},
        "win-ratio": {"coherence": (0.234, 0.037, 50), "consistency": (0.129, 0.043, 48)},
    }.items():
        assert rank(*source, "-o", "o.jsonl", "--method", method, task=False) == 0
        assert "4 400 comparisons of 2 400 candidates in 200 groups" in capsys.readouterr().err
        main(["evaluate", "o.jsonl", "--human", human, "--json"])
        found = json.loads(capsys.readouterr().out)
        for attribute, expected in figures.items():
            of = found[attribute]["per_context"]["spearman"]
            assert (round(of["value"], 3), round(of["stderr"], 3), of["n_contexts"]) == expected
