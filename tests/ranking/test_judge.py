"""Asking a judge about pairs of candidates: what is shown, what is taken for an answer."""

import math
import re
from itertools import groupby

import numpy as np
import pytest

from synthscore.errors import InputError
from synthscore.judging.asking import Asking
from synthscore.judging.templates import TEMPLATE_SETS, Templates, load_task, task_names
from synthscore.ranking.designs import all_pairs
from synthscore.ranking.judge import PairJudge, Problem
from synthscore.types import Context
from tests.fakes import CensoringEngine, FakeEngine, reading_judge

BIAS = 1.0  # nats, for the text that is shown first
biased_judge = reading_judge(BIAS)
QUALITIES = {"c1": (0.5, 2.5, 1.0, -1.0), "c2": (1.0, 0.0, 2.0, 3.0, -2.0)}


def problem(context_id="c1", values=QUALITIES["c1"], attribute="coherence"):
    texts = tuple(f"Text of q={q} ." for q in values)
    return Problem(Context(context_id, "An article."), attribute, tuple(f"t{k}" for k in range(len(values))), texts)


def judge(problems, engine=None, protocol="choose", task="summarization", templates="default", **options):
    chosen = Templates(load_task(task), templates)
    return PairJudge(problems, engine or FakeEngine(biased_judge), chosen, Asking(protocol, **options))


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
    firsts = [re.findall(r"q=(\S+)", prompt.text)[0] for prompt in engine.judged[-18:]]
    assert len(list(groupby(firsts))) == 7  # each first text in one run
    for (k, i, j), answer in zip(shuffled, answers, strict=True):
        q = [float(re.findall(r"-?[\d.]+\d", text)[0]) for text in problems[k].texts]
        assert answer[0] - answer[1] == pytest.approx(q[i] - q[j] + BIAS)


def test_a_call_without_an_answer_is_left_out_and_named():
    def picky(prompt, labels):
        if "q=2.5 " in prompt.text and "q=1.0 " in prompt.text:
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


def test_a_protocol_whose_answers_do_not_sum_to_1_is_refused():
    with pytest.raises(InputError, match="protocol='yes_no_two_sided'"):
        judge([problem()], protocol="yes_no_two_sided")
