"""Anchored scores of several judges: one score each, on the rung scale."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.anchored import simulate
from synthscore.errors import InputError
from synthscore.scoring.anchored.fit import fit
from synthscore.scoring.anchored.scale import Anchors, Scale
from synthscore.scoring.jury import score_together
from synthscore.scoring.paper import unscored
from synthscore.scoring.rows import Counts, RowScores
from synthscore.signature import Signature
from synthscore.types import Score, Target

N_CONTEXTS, N_TEXTS = 12, 12
QUESTION = ("t", "a", 5)


def judged(name, slope, *, noise=1.0, seed=0, drawn=3):
    """A judge's scores of the same texts on the same ladders; and where the texts stand."""
    simulated = simulate(
        np.random.default_rng(seed), N_CONTEXTS, 5, n_texts=N_TEXTS, noise=0.0, discrimination=slope, inverted=0
    )
    answers, rng = simulated.answers, np.random.default_rng(drawn)
    d = noise * rng.normal(size=len(answers)) / 2
    probs = answers.probs * np.exp(np.stack([d, -d, 0 * d], axis=1))
    judge, posterior = fit(replace(answers, probs=probs / probs.sum(axis=1, keepdims=True)))
    anchors = {str(c): Anchors(posterior.rungs[c], posterior.rung_cov[c]) for c in range(N_CONTEXTS)}
    scale = Scale(judge, anchors, "t", "a", Signature.of(model=name, task="t"))
    rows = [
        [(Score(str(i), str(i // N_TEXTS), "a", x, sd, n_comparisons=5, details={"n_rungs": 5.0, "label_mass": 1.0}),
          scale.signature)]
        for i, (x, sd) in enumerate(zip(posterior.mean.tolist(), posterior.sd.tolist(), strict=True))
    ]  # fmt: skip
    return RowScores(rows, Counts(n_targets=len(rows)), [scale]), simulated.truth


def values(scores):
    return np.array([score.value for score, _ in scores])


@pytest.fixture(scope="module")
def three():
    found = {name: judged(name, slope, drawn=k) for k, (name, slope) in enumerate([("a", 0.5), ("b", 1.2), ("c", 2.5)])}
    return {name: scores for name, (scores, _) in found.items()}, found["a"][1]


def test_a_sharper_judge_weighs_more_and_the_jury_is_better_than_each(three):
    scored, truth = three
    together, worth = score_together(scored)
    jurors = worth[QUESTION]
    assert [each.name for each in jurors] == ["a", "b", "c"]
    shares = [each.share for each in jurors]
    assert sorted(shares) == shares
    assert sum(shares) == pytest.approx(1)
    assert [each.n_texts for each in jurors] == [len(truth)] * 3

    def inside(values):
        off = (values - truth).reshape(N_CONTEXTS, -1)
        return np.std(off - off.mean(1, keepdims=True))

    assert inside(values(together)) < min(inside(values(each)) for each in scored.values())
    assert values(together) == pytest.approx(truth, abs=1.2)  # on the rung scale
    held = [score.low <= x <= score.high for (score, _), x in zip(together, truth, strict=True)]
    assert 0.8 < np.mean(held) < 0.98
    score, signature = together.rows[0][0]
    assert (score.n_comparisons, score.status, str(signature)) == (15, "ok", "model:a & b & c|task:t")
    assert 0 <= score.details["disagreement"] <= 1


def test_a_judge_of_noise_costs_next_to_nothing(three):
    scored, truth = three
    blind = judged("d", 0.35, noise=4.0, drawn=9)[0]
    with_it, worth = score_together({**scored, "d": blind})
    assert worth[QUESTION][3].share < 0.03
    plain = values(score_together(scored)[0])
    assert np.corrcoef(values(with_it), truth)[0, 1] > np.corrcoef(plain, truth)[0, 1] - 0.003


def test_a_text_that_one_judge_has_not_scored_is_scored_by_the_others(three):
    scored, _ = three
    lacking = [list(row) for row in scored["c"].rows]
    target = Target("0", "0", "x")
    lacking[0] = [(unscored(target, "a", "rung 1 failed"), lacking[0][0][1])]
    some = {**scored, "c": replace(scored["c"], rows=lacking)}
    together, worth = score_together(some)
    first = together.rows[0][0][0]
    assert (first.status, first.reason, first.n_comparisons) == ("ok", "c: rung 1 failed", 10)
    assert first.stderr > together.rows[1][0][0].stderr
    assert worth[QUESTION][2].n_texts == len(lacking) - 1
    none = {name: replace(each, rows=[lacking[0], *each.rows[1:]]) for name, each in scored.items()}
    found = score_together(none)[0]
    assert found.rows[0][0][0].reason == "a: rung 1 failed; b: rung 1 failed; c: rung 1 failed"
    assert (found.counts.statuses["unscored"], found.counts.n_targets) == (1, len(lacking))


def test_a_text_about_which_one_judge_is_far_off_is_marked(three):
    scored, _ = three
    rows = [list(row) for row in scored["b"].rows]
    score, signature = rows[7][0]
    rows[7] = [(replace(score, value=score.value + (2.5 if score.value < 3 else -2.5)), signature)]
    together = score_together({**scored, "b": replace(scored["b"], rows=rows)})[0]
    chances = [score.details["disagreement"] for score, _ in together]
    assert np.argmin(chances) == 7
    assert chances[7] < 1e-3


def test_judges_who_contradict_each_other_score_nothing(three):
    scored, _ = three
    turned = [[(replace(score, value=6 - score.value), signature)] for score, signature in scored["b"]]
    together, worth = score_together({"a": scored["a"], "b": replace(scored["b"], rows=turned)})
    assert worth[QUESTION] == ()
    assert {score.status for score, _ in together} == {"unscored"}
    assert "the judges a, b do not agree" in together.rows[0][0][0].reason
    with pytest.raises(InputError, match="one judge, a, expected two"):
        score_together({"a": scored["a"]})
