"""Placing: which rung of its ladder a text is most like, all of them shown in one question."""

import re

import numpy as np
import pytest

from synthscore.engine import Capabilities, Prompt
from synthscore.evaluation.methods import MethodError, Tools, method
from synthscore.ladders.references import References
from synthscore.signature import Signature
from tests.factories import ladder, ladders, rated
from tests.fakes import FakeEngine, qualities

ONE = {"c1": (2.0,)}


def scores(spec, engine, ratings=None, references=None):
    return method(spec)(ratings or rated(ONE), "coherence", Tools(engine, references or ladders()))


def told(*probs):
    return FakeEngine(lambda prompt, labels: np.log(np.array(probs)).tolist())


def placing_judge(prompt, labels):
    """Sure of the rung whose quality is nearest to the new text's, which is named last."""
    *rungs, text = qualities(prompt)
    nearest = int(np.argmin(np.abs(np.array(rungs) - text)))
    return np.log(np.where(np.arange(len(labels)) == nearest, 0.9, 1e-3)).tolist()


def test_the_value_is_the_expected_level():
    (score,) = scores("place", told(0.1, 0.05, 0.15, 0.3, 0.2))
    assert score.value == pytest.approx((0.1 + 0.1 + 0.45 + 1.2 + 1.0) / 0.8)
    assert score.details == {"n_rungs": 5, "label_mass": pytest.approx(0.8)}


def test_a_text_costs_one_question_an_order_which_shows_all_rungs_and_then_the_text():
    engine = FakeEngine(placing_judge)
    (score,) = scores("place", engine)
    (prompt,) = engine.judged
    assert qualities(prompt) == [1, 2, 3, 4, 5, 2]
    assert "from the worst to the best" in prompt.text
    assert re.search("New summary:", prompt.text[prompt.n_shared :])
    assert score.value == pytest.approx(2, abs=0.02)


def test_orders_are_undone_so_that_a_judge_of_rungs_says_the_same_in_all():
    engine = FakeEngine(placing_judge)
    (score,) = scores("place:orders=5", engine)
    assert len({tuple(qualities(prompt)) for prompt in engine.judged}) == 5
    assert qualities(engine.judged[1])[:5] == [5, 4, 3, 2, 1]
    assert ["no order" in prompt.text for prompt in engine.judged] == [False, False, True, True, True]
    assert score.value == pytest.approx(2, abs=0.02)


def test_a_judge_that_goes_by_the_place_alone_comes_out_in_the_middle_with_two_orders():
    (score,) = scores("place:orders=2", told(0.7, 0.1, 0.1, 0.05, 0.05))
    assert score.value == pytest.approx(3)


def test_a_rung_that_failed_keeps_its_level():
    one = References((ladder(failed=(1,), context="An article, c1."),))
    (score,) = scores("place", told(0.7, 0.1, 0.1, 0.1), references=one)
    assert score.value == pytest.approx(0.7 * 2 + 0.1 * (3 + 4 + 5))


def test_a_judge_that_does_not_answer_with_a_number_leaves_the_text_unscored():
    with pytest.raises(MethodError, match=r"the labels 1, 2, 3, 4, 5 have probability 0\.005"):
        scores("place", told(*[0.001] * 5))


def test_each_text_is_placed_among_the_rungs_of_its_own_ladder_however_many_they_are():
    two = References((ladder("c1", context="An article, c1."), ladder("c2", n=3, context="An article, c2.")))
    engine = FakeEngine(placing_judge)
    found = scores("place", engine, rated({"c1": (4.0,), "c2": (2.0,)}), two)
    assert found.values == pytest.approx([4, 2], abs=0.05)
    assert [score.details["n_rungs"] for score in found] == [5, 3]
    assert [len(qualities(prompt)) for prompt in engine.judged] == [5 + 1, 3 + 1]


class Deciding(FakeEngine):
    capabilities = Capabilities(decides=True)
    signature = Signature.of(model="fake", backend="decision")

    def answer(self, questions, progress=None):
        self.questions = list(questions)
        return super().answer(questions, progress)


def test_a_decision_score_is_one_question_whose_levels_the_rungs_describe():
    engine = Deciding(lambda prompt, labels: np.log([0.1, 0.05, 0.15, 0.3, 0.2]).tolist())
    (score,) = scores("decision-score", engine)
    (question,) = engine.questions
    assert question.ordered
    assert [qualities(Prompt(label)) for label in question.labels] == [[1], [2], [3], [4], [5]]
    assert qualities(question.prompt) == [2]
    assert score.value == pytest.approx((0.1 + 0.1 + 0.45 + 1.2 + 1.0) / 0.8)
    assert dict(scores("decision-score", engine).signature.parts)["scoring"] == "decision-score"


def test_a_judge_that_does_not_decide_is_asked_no_levels():
    with pytest.raises(MethodError, match="asks a judge that decides"):
        scores("decision-score", told(*[0.18] * 5))


def test_the_signature_names_template_orders_and_seed():
    found = scores("place:orders=3,seed=7", told(*[0.18] * 5)).signature
    parts = dict(found.parts)
    assert parts["scoring"] == "place,orders=3,seed=7"
    assert parts["template"].startswith("default/place@")
    assert "references" in parts
