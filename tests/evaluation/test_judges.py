"""Methods with their judges, how much will be asked, and scores of a file as a method."""

import numpy as np
import pytest

from synthscore.evaluation import evaluate
from synthscore.evaluation.join import join
from synthscore.evaluation.judges import ask_nothing, pair_with_judges
from synthscore.evaluation.methods import MethodError, Tools
from synthscore.store.engine import QuestionCounter
from tests.evaluation.test_run import ATTRIBUTES, N_CONTEXTS, N_SYSTEMS, made_up
from tests.fakes import FakeEngine

RATINGS = made_up()


def rows(attributes=ATTRIBUTES, texts=RATINGS.texts):
    return [{"id": text.id, "attribute": name, "score": text.human[name]} for text in texts for name in attributes]


def test_each_method_that_asks_is_paired_with_each_judge_and_others_are_there_once():
    paired = pair_with_judges(["length", "g-eval"], ["a", "b"])
    assert [(label, each.judge) for label, each in paired.items()] == [
        ("length", ""),
        ("g-eval (a)", "a"),
        ("g-eval (b)", "b"),
    ]


def test_one_judge_alone_is_not_named():
    assert list(pair_with_judges(["g-eval", "length"], ["a"])) == ["g-eval", "length"]


def test_a_method_that_is_not_there_is_an_error_before_anything_is_read():
    with pytest.raises(MethodError, match="there is no method 'lenght'"):
        pair_with_judges(["length", "lenght"], [])


def test_questions_are_counted_and_nothing_is_asked():
    engine = FakeEngine()
    asking = [judged.method for judged in pair_with_judges(["g-eval", "length"], ["m"]).values()]
    counter = QuestionCounter(engine)
    ask_nothing(asking, RATINGS, ATTRIBUTES, Tools(judge=counter))
    assert counter.n_questions == len(ATTRIBUTES) * N_CONTEXTS * N_SYSTEMS
    assert engine.n_judged == 0


def test_each_method_asks_its_own_judge_whomever_the_tools_name():
    engines = {"a": FakeEngine(), "b": FakeEngine()}
    nobody = FakeEngine()
    methods = {label: judged.asking(engines) for label, judged in pair_with_judges(["g-eval"], list(engines)).items()}
    evaluation = evaluate(RATINGS, methods, Tools(judge=nobody), attributes=["fluency"])
    assert evaluation.methods == ("g-eval (a)", "g-eval (b)")
    n_texts = N_CONTEXTS * N_SYSTEMS
    assert [engine.n_judged for engine in (engines["a"], engines["b"], nobody)] == [n_texts, n_texts, 0]


def test_scores_of_a_file_are_a_method_also_of_some_contexts_of_the_ratings():
    joined = join(RATINGS, [*rows(), {"id": "x", "attribute": "fluency", "score": 1}])
    some = RATINGS.limited(2)
    evaluation = evaluate(some, {"file": joined}, left_out=joined.left_out)
    for name in ATTRIBUTES:
        scores = evaluation.scores["file", name]
        assert [score.id for score in scores] == [text.id for text in some]
        np.testing.assert_array_equal(scores.values, some.human(name))
    assert evaluation.left_out[1:] == (
        f"{N_CONTEXTS - 2} of {N_CONTEXTS} contexts: --limit 2",
        "1 scores of texts that nobody rated: row 61, x/fluency",
    )
