"""Direct scoring and G-Eval: how a judge's number is asked for and read."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthscore.errors import LabelError
from synthscore.evaluation.methods import MethodError, Tools, method
from synthscore.evaluation.ratings import RatedText, Ratings
from synthscore.judging.asking import Asking
from synthscore.judging.templates import Templates, load_task
from synthscore.store.engine import StoredEngine
from synthscore.store.file import Store
from synthscore.types import Context
from tests.factories import QUALITIES, rated
from tests.fakes import CensoringEngine, FakeEngine, qualities, reading_judge

BENCHMARKS = Path(__file__).resolve().parents[3] / "shared" / "benchmarks"


def scores(spec, ratings=None, engine=None, templates="default"):
    engine = engine or FakeEngine(reading_judge())
    return method(spec)(ratings or rated(), "coherence", Tools(engine, asking=Asking(prompts=templates)))


def told(*probs):
    """A judge that says these probabilities, whatever it is asked."""
    return FakeEngine(lambda prompt, labels: np.log(np.array(probs)).tolist())


ONE = {"c1": (2.0,)}


# ------------------------------------------------------------------------------------------------- from probabilities


def test_g_eval_is_the_expected_number_and_direct_the_most_probable():
    engine = told(0.1, 0.05, 0.15, 0.3, 0.2)  # label mass 0.8
    (score,) = scores("g-eval", rated(ONE), engine)
    assert score.value == pytest.approx((0.1 + 0.1 + 0.45 + 1.2 + 1.0) / 0.8)
    assert score.details == {"label_mass": pytest.approx(0.8), "expectation": score.value, "argmax": 4.0}
    assert (score.low, score.high, score.status, score.reason) == (None, None, "ok", "")
    (score,) = scores("direct", rated(ONE), engine)
    assert (score.value, score.details["argmax"]) == (4.0, 4.0)
    assert score.details["expectation"] == pytest.approx(2.85 / 0.8)


def test_of_equally_probable_numbers_the_lowest_is_taken():
    assert scores("direct", rated(ONE), told(0.1, 0.3, 0.1, 0.3, 0.1)).values == [2.0]


@pytest.mark.parametrize("spec", ["direct", "g-eval", "g-eval:samples=500"])
def test_better_texts_get_higher_scores_in_the_order_of_the_ratings(spec):
    ratings = rated({c: QUALITIES[c] for c in ("c2", "c1")})  # not sorted, as it is asked
    found = scores(spec, ratings)
    assert [score.id for score in found] == [text.id for text in ratings]
    assert [score.context_id for score in found] == list(ratings.context_ids)
    assert np.corrcoef(found.values, ratings.human("coherence"))[0, 1] > 0.9


def test_all_texts_of_all_contexts_are_one_call_by_context():
    engine = FakeEngine(reading_judge())
    mixed = rated()
    mixed = rated(texts=tuple(mixed.texts[k] for k in (0, 4, 1, 5, 2, 6, 3, 7)))
    scores("g-eval", mixed, engine)
    assert engine.calls == [("judge", 8)]
    assert ["article, c1" in prompt.text for prompt in engine.judged] == [True] * 4 + [False] * 4
    assert [qualities(prompt)[0] for prompt in engine.judged] == [*QUALITIES["c1"], *QUALITIES["c2"]]


def test_the_scale_is_asked_for_and_read():
    engine = FakeEngine(lambda prompt, labels: np.log([0.2, 0.3, 0.5]))
    (score,) = scores("g-eval:scale=1-3", rated(ONE), engine)
    assert score.value == pytest.approx(0.2 + 0.6 + 1.5)
    assert "from 1 (lowest) to 3 (highest)" in engine.judged[0].text
    (score,) = scores("g-eval:scale=0-2", rated(ONE), engine)
    assert score.value == pytest.approx(0.3 + 1.0)


def test_labels_that_are_improbable_together_are_no_answer():
    engine = told(*[0.001] * 5)
    with pytest.raises(MethodError, match=r"labels 1, 2, 3, 4, 5 have probability 0.005 together"):
        scores("g-eval", rated(ONE), engine)
    assert scores("g-eval:min_mass=0.001", rated(ONE), engine).values == pytest.approx([3.0])


def test_what_cannot_be_asked_is_unscored_with_its_reason_and_not_asked():
    ratings = rated({"c1": (2.0, None, 4.0), "c2": (3.0,)})
    ratings = rated(texts=ratings.texts, contexts={"c1": Context("c1", "An article.")})
    engine = FakeEngine(reading_judge())
    found = scores("g-eval", ratings, engine)
    assert [score.status for score in found] == ["ok", "unscored", "ok", "unscored"]
    assert found[1].reason == "text is '', expected a text that is not empty. Fill it, or remove the row"
    assert "context 'c2' is not known" in found[3].reason
    assert engine.n_judged == 2


def test_a_question_that_fails_fails_its_text_alone():
    engine = FakeEngine(reading_judge())
    scores("g-eval", engine=engine)
    failing = FakeEngine(reading_judge(), failures={engine.judged[1].text: "the prompt has 9 tokens, expected 8"})
    found = scores("g-eval", engine=failing)
    assert [score.status for score in found] == ["ok", "unscored", *["ok"] * 6]
    assert found[1].reason == "the prompt has 9 tokens, expected 8"


def test_where_no_text_can_be_scored_the_method_fails():
    with pytest.raises(
        MethodError, match=r"cannot score any of the 2 texts of toy on coherence; 2 of them: text is ''"
    ):
        scores("direct", rated({"c1": (None, None)}))


def test_untold_labels_give_limits_that_hold_the_value():
    probs = np.array([0.2, 0.1, 0.305, 0.295, 0.1])
    engine = CensoringEngine(lambda prompt, labels: np.log(probs).tolist(), lambda prompt: {4: 0.9})
    (score,) = scores("g-eval:max_unreported=0.02", rated(ONE), engine)
    lower = probs * [1, 1, 1, 1, 0.9]
    least = lower @ np.arange(1, 6) / lower.sum()
    assert score.low <= least < score.value == score.high - 4 * 0.01 == pytest.approx(2.995)
    assert score.status == "ok"
    assert score.reason == "the server did not report all labels, so that probabilities may be off by 0.01"
    (score,) = scores("direct", rated(ONE), engine)
    assert (score.value, score.low, score.high) == (3.0, 3.0, 4.0)  # either may be the most probable
    (score,) = scores("g-eval:samples=3", rated(ONE), engine)
    assert (score.low, score.high) == (None, None)
    assert "did not report all labels" in score.reason
    with pytest.raises(MethodError, match=r"did not report the probability of 5 .* \(docs/servers\.md\)"):
        scores("g-eval:max_unreported=0.001", rated(ONE), engine)


def test_limits_stay_on_the_scale():
    engine = CensoringEngine(lambda prompt, labels: np.log([1e-9] * 4 + [0.9]).tolist(), lambda prompt: {4: 0.99})
    (score,) = scores("g-eval", rated(ONE), engine)
    assert score.high == 5.0
    assert score.low == pytest.approx(5 - 4 * 0.01)


# ------------------------------------------------------------------------------------------------- draws


def test_draws_are_the_same_for_a_seed_and_do_not_depend_on_other_texts():
    one = scores("g-eval:samples=5,seed=3")
    assert one.values.tolist() == scores("g-eval:samples=5,seed=3").values.tolist()
    assert one.values.tolist() != scores("g-eval:samples=5,seed=4").values.tolist()
    alone = rated({"c2": QUALITIES["c2"]})
    assert scores("g-eval:samples=5,seed=3", alone).values.tolist() == one.values.tolist()[4:]
    assert all(value * 5 == pytest.approx(round(value * 5)) for value in one.values)
    assert "|scoring:expectation,samples=5,seed=3" in str(one.signature)


def test_draws_on_another_attribute_are_others():
    ratings = rated(attributes=("coherence", "relevance"))
    tools = Tools(told(*[0.2] * 5))
    drawn = [method("g-eval:samples=9")(ratings, name, tools).values.tolist() for name in ratings.attributes]
    assert drawn[0] != drawn[1]


@given(st.lists(st.floats(0.01, 1.0), min_size=5, max_size=5))
@settings(max_examples=20)
def test_draws_converge_to_the_expectation(weights):
    probs = np.array(weights) / sum(weights)
    ratings = rated({"c1": (2.0,) * 50})
    expected = float(probs @ np.arange(1, 6))
    variance = float(probs @ (np.arange(1, 6) - expected) ** 2)
    drawn = scores("g-eval:samples=400", ratings, told(*probs)).values
    assert abs(drawn.mean() - expected) < 5 * np.sqrt(variance / (400 * 50)) + 1e-12
    assert drawn.std() < 2 * np.sqrt(variance / 400) + 1e-12


def test_drawing_and_reading_otherwise_ask_no_more_questions(tmp_path):
    engine = FakeEngine(reading_judge())
    tools = Tools(StoredEngine(engine, Store(tmp_path / "answers.sqlite")))
    for spec in ("g-eval", "g-eval:samples=20", "g-eval:samples=20,seed=1", "direct"):
        method(spec)(rated(), "coherence", tools)
    assert engine.n_judged == 8


def test_numbers_that_begin_with_each_other_are_refused_not_guessed():
    def refuse(questions, progress=None):
        labels = questions[0].labels
        raise LabelError(f"labels {labels[0]!r} and {labels[9]!r} cannot be told apart")

    engine = FakeEngine()
    engine.answer = refuse
    with pytest.raises(MethodError, match=r"from 1-10 .*'1' and '10' cannot be told apart; such as scale=1-9"):
        scores("direct:scale=1-10", engine=engine)


# ------------------------------------------------------------------------------------------------- prompts, options


def test_in_the_default_set_all_that_is_constant_stands_before_the_text():
    templates = Templates(load_task("dialogue"))
    context, attribute = Context("c", "Hello.", "A fact."), templates.task.attribute("overall")
    one, two = (templates.rate(context, attribute, text=text, low=1, high=5).text for text in ("<one>", "<two>"))
    assert one.split("<one>")[0] == two.split("<two>")[0]
    assert one.endswith("<one>\n\nRating:")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("g-eval:scale=5", r"scale is '5', expected two whole numbers such as 1-5"),
        ("g-eval:scale=5-1", r"scale is '5-1'"),
        ("g-eval:samples=0", r"samples is '0', expected a whole number of 1 or more"),
        ("g-eval:samples=many", r"samples is 'many', expected a whole number"),
        ("g-eval:samples=3,seed=-1", r"seed is '-1', expected"),
        ("g-eval:seed=1", r"seed=1 does nothing where nothing is drawn"),
        ("g-eval:min_mass=nan", r"min_mass is 'nan', expected a number from 0 to 1"),
        ("g-eval:max_unreported=2", r"max_unreported is '2', expected a number from 0 to 1"),
        ("direct:samples=3", r"it says 'samples=3'. Expected options as NAME=VALUE, each once, out of: scale, "),
    ],
)
def test_options_that_mean_nothing_are_refused(spec, message):
    with pytest.raises(MethodError, match=message):
        method(spec)


# ------------------------------------------------------------------------------------------------- a published judge


def published():
    """SummEval's texts, and what Qwen2.5-72B said of their relevance: log P of 1..5, NaN where it was not told."""
    answers = BENCHMARKS / "judge_outputs" / "summeval_score_distributions.jsonl.gz"
    if not answers.is_file():
        pytest.skip("the published judges are not at hand")
    with gzip.open(BENCHMARKS / "summeval.jsonl.gz", "rt") as file:
        rows = [json.loads(line) for line in file]
    texts = tuple(
        RatedText(f"{r['context_id']}/{r['system']}", r["context_id"], r["system"], r["text"], r["human"]) for r in rows
    )
    contexts = {r["context_id"]: Context(r["context_id"], r["context"]) for r in rows}
    with gzip.open(answers, "rt") as file:
        said = [row for row in map(json.loads, file) if row["attribute"] == "relevance" and "Qwen" in row["judge"]]
    numbers = {f"{r['context_id']}/{r['system']}": [r["logprobs"][str(k)] for k in range(1, 6)] for r in said}
    return Ratings("summeval", texts, ("relevance",), contexts, "summarization"), numbers


def test_published_distributions_give_their_expectations_with_what_was_not_told_bounded():
    ratings, numbers = published()
    templates = Templates(load_task("summarization"))
    attribute, floor = templates.task.attribute("relevance"), np.log(1e-5)
    asked = [
        templates.rate(ratings.contexts[t.context_id], attribute, text=t.text, low=1, high=5).text for t in ratings
    ]
    said = {
        prompt: numbers[text.id] for prompt, text in zip(asked, ratings, strict=True)
    }  # equal texts: the last one's
    engine = CensoringEngine(
        lambda prompt, labels: [floor if value is None else min(value, 0.0) for value in said[prompt.text]],
        lambda prompt: {k: 0.0 for k, value in enumerate(said[prompt.text]) if value is None},
    )
    found = method("g-eval")(ratings, "relevance", Tools(engine))
    assert found.n_unscored == 0
    for prompt, score in zip(asked, found, strict=True):
        told = {k: np.exp(value) for k, value in enumerate(said[prompt], 1) if value is not None}
        plain = sum(k * p for k, p in told.items()) / sum(told.values())
        assert score.value == pytest.approx(plain, abs=4 * 5e-5)
        if len(told) < 5:
            assert score.low <= plain <= score.high
    direct = method("direct")(ratings, "relevance", Tools(engine)).values
    assert np.abs(direct - found.values).mean() < 0.5
    assert np.corrcoef(found.values, ratings.human("relevance"))[0, 1] > 0.4
