"""What a judge favours, found in verdicts that were made with it."""

import json

import numpy as np
import pytest

from synthscore.cli.scoring import bias_lines
from synthscore.ladders.references import References
from synthscore.scoring.bias import judge_bias
from synthscore.types import Score, Verdict
from tests import factories

N = 4


def ladder(context_id, words, model="writer@1"):
    texts = [f"r{k} {context_id} " + "w " * (n - 2) for k, n in enumerate(words)]
    return factories.ladder(context_id, texts=texts, context="An article.", provenance={"model": model})


def made(seed=0, contexts=30, each=6, position=0.0, trend=0.0, length=0.0, orders=2, similar=0.0):
    """Scores and references; margins are linear: 0.1 a rung."""
    rng = np.random.default_rng(seed)
    ladders, scores = [], []
    for c in range(contexts):
        words = rng.integers(4, 64, N)
        ladders.append(ladder(f"c{c}", words))
        for k in range(each):
            quality = rng.uniform(1, N)
            verdicts = []
            for level in range(1, N + 1):
                margin = 0.1 * (quality - level - length * np.log2(words[level - 1] / 16)) + 0.02 * rng.normal()
                for swapped in (False, True)[:orders]:
                    favour = (position + trend * (level - 2.5)) * (-1 if swapped else 1)
                    better = (1 - similar + margin + favour) / 2
                    verdicts.append(Verdict(level, swapped, better, 1 - similar - better, similar))
            scores.append(Score(f"{c}-{k}", f"c{c}", "coherence", quality, verdicts=tuple(verdicts)))
    return scores, References(tuple(ladders))


def found(**options):
    scores, references = made(**options)
    return judge_bias(scores, references, task="summarization")


def near(effect, value):
    assert abs(effect.value - value) <= 3 * effect.stderr + 1e-9
    assert effect.stderr < 0.15


def test_a_favour_of_the_text_asked_about_is_found_with_its_rise_over_the_rungs():
    bias = found(position=0.08, trend=0.02)
    near(bias.position, 0.08)
    near(bias.position_trend, 0.02)
    assert [effect.value for effect in bias.position_by_rung] == pytest.approx([0.05, 0.07, 0.09, 0.11])
    assert bias.position.n == 30 * 6 * N


def test_a_judge_without_a_favour_has_none():
    bias = found()
    for effect, value in ((bias.position, 0), (bias.position_trend, 0), (bias.length, 0)):
        near(effect, value)


def test_one_order_cannot_tell_a_position_bias():
    bias = found(orders=1, position=0.2)
    assert (bias.position, bias.position_trend, bias.position_by_rung) == (None, None, (None,) * N)
    assert "position" not in bias_lines({"coherence": bias})[0]


@pytest.mark.parametrize("length", [-0.5, 0.7])
def test_the_effect_of_length_at_equal_rung_is_in_rungs_for_twice_the_words(length):
    near(found(length=length).length, length)


def test_the_share_of_similar_is_by_rung():
    assert found(similar=0.25).similar_by_rung == pytest.approx([0.25] * N)
    assert found().similar_by_rung == ()


def test_the_standard_error_is_that_of_the_draws():
    values = [found(seed=seed, contexts=15, length=0.3).length for seed in range(30)]
    z = [(effect.value - 0.3) / effect.stderr for effect in values]
    assert 0.7 < np.std(z) < 1.5


def test_texts_without_verdicts_are_left_out_and_none_at_all_says_nothing():
    scores, references = made(contexts=4)
    lost = Score("x", "c0", "coherence", None, status="unscored", reason="no answer")
    less = judge_bias([*scores, lost], references, task="summarization")
    assert less == judge_bias(scores, references, task="summarization")
    nothing = judge_bias([lost], references, task="summarization")
    assert nothing.position is None
    assert bias_lines({"coherence": nothing}) == []


def test_two_contexts_have_no_standard_error():
    assert found(contexts=2).position.stderr is None


def test_what_was_found_is_plain_json_and_a_line():
    bias = found(position=0.08, similar=0.2)
    assert json.loads(json.dumps(bias.to_dict()))["position"]["value"] == pytest.approx(0.08)
    (line,) = bias_lines({"coherence": bias})
    assert line.startswith("coherence: bias of the judge: position +0.08 +- 0.00")
    assert "similar by rung 0.20 0.20 0.20 0.20; twice as long at equal rung" in line
