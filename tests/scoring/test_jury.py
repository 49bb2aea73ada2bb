"""Anchored scores of several judges: one score each, on the rung scale."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.anchored import simulate
from benchmarks.jury import scores_of_judge
from synthscore.errors import InputError
from synthscore.scoring.jury import score_together
from synthscore.scoring.ladder import unscored
from synthscore.types import Target

N_CONTEXTS, N_TEXTS = 12, 12
QUESTION = ("t", "a", 5)


def judged(name, slope, *, noise=1.0, seed=0, drawn=3):
    """A judge's scores of the same texts on the same ladders; and where the texts stand."""
    simulated = simulate(
        np.random.default_rng(seed), N_CONTEXTS, 5, n_texts=N_TEXTS, noise=0.0, discrimination=slope, inverted=0
    )
    scored = scores_of_judge(name, simulated.answers, noise, np.random.default_rng(drawn))
    return scored, simulated.truth


def values(scores):
    return np.array([score.value for score, _ in scores])


def inside(values, truth):
    """How far positions are off, inside contexts."""
    off = (values - truth).reshape(N_CONTEXTS, -1)
    return np.std(off - off.mean(1, keepdims=True))


def held(scores, truth):
    return np.mean([score.low <= x <= score.high for (score, _), x in zip(scores, truth, strict=True)])


@pytest.fixture(scope="module")
def three():
    found = {name: judged(name, slope, drawn=k) for k, (name, slope) in enumerate([("a", 0.8), ("b", 1.2), ("c", 1.6)])}
    return {name: scores for name, (scores, _) in found.items()}, found["a"][1]


def test_the_score_of_a_jury_is_the_mean_of_its_judges_on_the_rung_scale(three):
    scored, truth = three
    together = score_together(scored)
    jury = together.juries[QUESTION]
    assert (jury.votes, jury.left_out) == ((("a",), ("b",), ("c",)), {})
    assert all(abs(r) < 0.3 for r in jury.alike.values())
    assert values(together) == pytest.approx(np.mean([values(each) for each in scored.values()], axis=0))
    assert inside(values(together), truth) < np.median([inside(values(each), truth) for each in scored.values()])
    assert values(together) == pytest.approx(truth, abs=1.2)
    assert 0.85 <= held(together, truth) < 0.98
    score, signature = together.rows[0][0]
    assert (score.n_comparisons, score.status, str(signature)) == (15, "ok", "model:a & b & c|task:t")


def test_a_copy_of_the_worst_judge_has_no_vote_of_its_own(three):
    scored, truth = three
    with_copy = score_together({**scored, "again": scored["a"]})
    assert with_copy.juries[QUESTION].votes == (("b",), ("c",), ("a", "again"))
    assert values(with_copy) == pytest.approx(values(score_together(scored)))
    assert 0.85 <= held(with_copy, truth) < 0.98


@pytest.mark.parametrize(("slope", "noise"), [(-1.2, 1.0), (0.0, 0.0), (0.0, 2.0)])
def test_a_judge_that_does_not_see_the_ladders_rise_is_left_out_and_named(three, slope, noise):
    scored, _ = three
    bad = judged("d", slope, noise=noise, drawn=9)[0]
    with_it = score_together({**scored, "d": bad})
    assert list(with_it.juries[QUESTION].left_out) == ["d"]
    assert "does not see the ladders rise" in with_it.juries[QUESTION].left_out["d"]
    assert values(with_it) == pytest.approx(values(score_together(scored)))
    assert {score.reason for score, _ in with_it} == {""}
    alone = score_together({"a": bad, "b": bad})
    assert alone.counts.statuses["unscored"] == len(bad.rows)
    assert alone.rows[0][0][0].reason.startswith("a: the judge does not see")


def test_a_text_that_one_judge_has_not_scored_is_scored_by_the_others(three):
    scored, _ = three
    lacking = [list(row) for row in scored["c"].rows]
    target = Target("0", "0", "x")
    lacking[0] = [(unscored(target, "a", "rung 1 failed"), lacking[0][0][1])]
    together = score_together({**scored, "c": replace(scored["c"], rows=lacking)})
    first = together.rows[0][0][0]
    assert (first.status, first.reason, first.n_comparisons) == ("ok", "c: rung 1 failed", 10)
    assert first.value == pytest.approx(np.mean([scored[name].rows[0][0][0].value for name in "ab"]))
    assert first.stderr > score_together(scored).rows[0][0][0].stderr
    none = {name: replace(each, rows=[lacking[0], *each.rows[1:]]) for name, each in scored.items()}
    found = score_together(none)
    assert found.rows[0][0][0].reason == "a: rung 1 failed; b: rung 1 failed; c: rung 1 failed"
    assert (found.counts.statuses["unscored"], found.counts.n_targets) == (1, len(lacking))


def test_one_judge_is_no_jury(three):
    with pytest.raises(InputError, match="one judge, a, expected two"):
        score_together({"a": three[0]["a"]})
