import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from papers.methods.gptscore import DIRECTIONS, Likelihood
from synthscore.engine import Prompt
from synthscore.engines.seq2seq import Seq2SeqEngine
from synthscore.engines.tree.causal import CausalEngine
from synthscore.errors import EngineError, TaskError
from synthscore.evaluation.methods import Tools, method
from synthscore.evaluation.methods.base import MethodError
from synthscore.evaluation.ratings import RatedText, Ratings
from synthscore.judging.templates import Templates, load_task
from synthscore.store.engine import StoredEngine
from synthscore.store.file import Store
from synthscore.types import Context
from tests.fakes import FakeEngine

from ..engines.test_causal import llama, one_thread  # noqa: F401
from ..engines.test_seq2seq import t5
from ..engines.test_token_log_probs import plain

ARTICLES = ("A storm closed the harbour on Monday.", "The mayor opened a school.")
REFERENCES = (("The harbour is closed.", "Boats stay in port."), ("A school has opened.",))


def ratings_of(texts, references=REFERENCES, task="summarization", **more):
    """texts : (context's number, system, text)"""
    contexts = {f"c{n}": Context(f"c{n}", ARTICLES[n], references=own) for n, own in enumerate(references)}
    rated = [RatedText(f"{n}-{system}", f"c{n}", system, text, {"coherence": 1.0}) for n, system, text in texts]
    return Ratings("mine", tuple(rated), ("coherence",), contexts, task, **more)


TEXTS = [(0, "a", "The harbour closed."), (1, "a", "A school."), (0, "b", "It rained all day.")]


def reader(prompt, text):
    """Log-probabilities that differ with the prompt and the words."""
    return [-(len(word) + len(prompt.text) % 7) / 10 for word in text.split()]


def templates_of(attribute="coherence", name="default"):
    templates = Templates(load_task("summarization"), name)
    return templates, templates.task.attribute(attribute)


# ------------------------------------------------------------------------------------------------- from its context


@pytest.mark.parametrize("make", [lambda: CausalEngine(*llama(), name="m"), lambda: Seq2SeqEngine(*t5(), name="m")])
@pytest.mark.parametrize("kind", ["gptscore", "bartscore"])
def test_a_score_is_the_mean_log_probability_of_the_texts_tokens_behind_its_prompt(make, kind):
    engine, ratings = make(), ratings_of(TEXTS)
    scores = method(kind)(ratings, "coherence", Tools(engine))
    templates, attribute = templates_of()
    for score, text in zip(scores, ratings, strict=True):
        context = ratings.contexts[text.context_id]
        prompt = templates.render("likelihood", context, attribute) if kind == "gptscore" else Prompt(context.text)
        log_probs = plain(engine, prompt, text.text)
        assert score.value == pytest.approx(log_probs.mean(), abs=5e-5)
        assert score.details == pytest.approx({"n_tokens": len(log_probs), "sum": log_probs.sum()}, abs=1e-3)
        assert (score.id, score.context_id, score.attribute, score.status) == (
            text.id,
            text.context_id,
            "coherence",
            "ok",
        )


def test_the_context_comes_first_and_the_text_right_behind_the_prompt():
    engine = FakeEngine()
    ratings = ratings_of(TEXTS, asked_as={"flow": "fluency"})
    scores = method("gptscore")(ratings, "flow", Tools(engine))
    assert engine.calls == [("read", 3)], "in one call"
    templates, attribute = templates_of("fluency")
    prompts = [templates.render("likelihood", ratings.contexts[name], attribute) for name in ("c0", "c1")]
    # texts of one context one after another
    assert engine.read == [(prompts[0], TEXTS[0][2]), (prompts[0], TEXTS[2][2]), (prompts[1], TEXTS[1][2])]
    assert all(prompt.text.endswith("\nSummary:\n") for prompt in prompts)
    assert [score.attribute for score in scores] == ["flow"] * 3
    assert dict(scores.signature.parts)["attribute"] == "fluency"


@pytest.mark.parametrize("name", ["default", "paper"])
def test_a_prompt_ends_on_a_line_of_its_own_so_that_a_text_begins_as_texts_do(name):
    templates, attribute = templates_of(name=name)
    context = Context("c", "An article.", facts="Facts.")
    for prompt in (
        templates.render("likelihood", context, attribute),
        templates.render("paraphrase", context, attribute, given="It."),
    ):
        assert prompt.text.endswith(":\n")
        assert not prompt.text.endswith("\n\n")
        assert attribute.description in prompt.text


# ------------------------------------------------------------------------------------------------- and references


def mean(prompt, text):
    return float(np.mean(reader(prompt, text)))


def paraphrased(given, read, kind="gptscore"):
    templates, attribute = templates_of()
    context = Context("c", "An article.")
    return mean(
        Prompt(given) if kind == "bartscore" else templates.render("paraphrase", context, attribute, given=given), read
    )


@pytest.mark.parametrize("kind", ["gptscore", "bartscore"])
def test_each_direction_gives_one_side_and_reads_the_other(kind):
    ratings, engine = ratings_of(TEXTS), FakeEngine(reader=reader)

    def scores(direction):
        return method(f"{kind}:direction={direction}")(ratings, "coherence", Tools(engine))

    recall = np.array([paraphrased(text, REFERENCES[n][0], kind) for n, _, text in TEXTS])
    precision = np.array([paraphrased(REFERENCES[n][0], text, kind) for n, _, text in TEXTS])
    np.testing.assert_allclose(scores("text-to-reference").values, recall)
    np.testing.assert_allclose(scores("reference-to-text").values, precision)
    np.testing.assert_allclose(scores("f").values, (recall + precision) / 2)
    np.testing.assert_allclose(scores("harmonic").values, 2 / (1 / recall + 1 / precision))
    assert scores("f")[1].details == pytest.approx({"text_to_reference": recall[1], "reference_to_text": precision[1]})
    assert scores("text-to-reference")[2].details["n_tokens"] == 4, "of the reference"
    assert engine.calls[2] == ("read", 6)


def test_of_several_references_the_best_counts_and_is_named():
    ratings, engine = ratings_of(TEXTS), FakeEngine(reader=reader)
    scores = method("gptscore:direction=f,references=all")(ratings, "coherence", Tools(engine))
    for score, (n, _, text) in zip(scores, TEXTS, strict=True):
        each = [(paraphrased(text, other) + paraphrased(other, text)) / 2 for other in REFERENCES[n]]
        assert score.value == pytest.approx(max(each))
        assert score.details.get("reference") == (1 + int(np.argmax(each)) if len(each) > 1 else None)
        best = REFERENCES[n][int(np.argmax(each))]
        assert score.details["text_to_reference"] == pytest.approx(paraphrased(text, best))


def test_what_is_said_of_several_references_is_of_the_best_one():
    engine = FakeEngine(reader=lambda prompt, text: [-1.0] * 5 if text == REFERENCES[0][1] else [-2.0] * 4)
    spec = "gptscore:direction=text-to-reference,references=all"
    scores = method(spec)(ratings_of(TEXTS), "coherence", Tools(engine))
    assert (scores[0].value, scores[0].details) == (-1.0, {"n_tokens": 5, "sum": -5, "reference": 2})
    assert (scores[1].value, scores[1].details) == (-2.0, {"n_tokens": 4, "sum": -8})


def test_a_systems_texts_may_be_the_references():
    ratings = ratings_of([*TEXTS, (0, "people", "The port is shut.")], references=((), ()))
    spec = "bartscore:direction=reference-to-text,system=people"
    scores = method(spec)(ratings, "coherence", Tools(FakeEngine(reader=reader)))
    assert scores[0].value == pytest.approx(mean(Prompt("The port is shut."), TEXTS[0][2]))
    assert [score.status for score in scores] == ["ok", "unscored", "ok", "unscored"]
    own = method(f"{spec},own=yes")(ratings, "coherence", Tools(FakeEngine(reader=reader)))
    assert own[3].status == "ok"
    assert "references=system people" in str(scores.signature)
    ratings = Ratings("mine", ratings.texts, ("x",), {"c1": ratings.contexts["c1"]}, "summarization")
    with pytest.raises(MethodError, match="the text of its context 'c0' is not known"):
        method(spec)(ratings, "coherence", Tools(FakeEngine(reader=reader)))


@settings(max_examples=50)
@given(st.lists(st.floats(-20, -1e-3), min_size=2, max_size=2), st.floats(0.1, 5))
def test_means_of_both_directions_lie_between_them_and_scale_with_them(pair, factor):
    for direction in ("f", "harmonic"):
        value = Likelihood(True, direction)._score([np.array([v]) for v in pair])["value"]
        assert min(pair) - 1e-9 <= value <= max(pair) + 1e-9
        scaled = Likelihood(True, direction)._score([np.array([factor * v]) for v in pair])["value"]
        assert scaled == pytest.approx(factor * value)
        assert value == pytest.approx(Likelihood(True, direction)._score([np.array([v]) for v in pair[::-1]])["value"])


def test_the_harmonic_mean_of_two_certainties_is_certainty():
    assert Likelihood(True, "harmonic")._score([np.zeros(3), np.zeros(2)])["value"] == 0


# ------------------------------------------------------------------------------------------------- faults


def test_what_cannot_be_read_is_unscored_with_the_reason_and_the_rest_is_scored():
    def fails(prompt, text):
        if text == "long":
            raise EngineError("the prompt is too long")
        return [-1.0, -math.inf, -2.0] if text == "impossible" else [-1.0]

    texts = [(0, "a", " "), (0, "b", "long"), (0, "c", "impossible"), (0, "d", "fine"), (1, "a", "fine")]
    ratings = ratings_of(texts)
    contexts = {"c0": ratings.contexts["c0"]}
    ratings = Ratings("mine", ratings.texts, ("coherence",), contexts, "summarization")
    scores = method("gptscore")(ratings, "coherence", Tools(FakeEngine(reader=fails)))
    assert [score.reason for score in scores] == [
        "text is ' ', expected a text that is not empty. Fill it, or remove the row",
        "the prompt is too long",
        "the model holds token 2 of 3 for impossible, so that they have no mean",
        "",
        "the text of its context 'c1' is not known",
    ]
    assert scores.values[3] == -1


def test_a_text_of_which_one_reference_cannot_be_read_is_unscored():
    def fails(prompt, text):
        if text == REFERENCES[0][1]:
            raise EngineError("the prompt is too long")
        return [-1.0]

    spec = "gptscore:direction=f,references=all"
    scores = method(spec)(ratings_of(TEXTS), "coherence", Tools(FakeEngine(reader=fails)))
    assert [score.reason for score in scores] == ["the prompt is too long", "", "the prompt is too long"]


def test_a_context_without_references_leaves_its_texts_unscored():
    ratings = ratings_of(TEXTS, references=(REFERENCES[0], ()))
    scores = method("gptscore:direction=harmonic")(ratings, "coherence", Tools(FakeEngine(reader=reader)))
    assert [score.status for score in scores] == ["ok", "unscored", "ok"]
    assert "'c1' has no reference" in scores[1].reason


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("gptscore:direction=both", "'both', expected one of source-to-text, text-to-reference"),
        ("gptscore:references=all", "with references, system or own"),
        ("bartscore:system=x", "with references, system or own"),
        ("gptscore:mean=yes", "out of: direction, references"),
    ],
)
def test_what_cannot_be_made_is_refused_with_what_to_do(spec, words):
    with pytest.raises(MethodError, match=words):
        method(spec)


def test_a_judge_a_task_and_its_attribute_are_needed_as_far_as_they_are_asked_for():
    ratings, bare = ratings_of(TEXTS), ratings_of(TEXTS, task="")
    with pytest.raises(MethodError, match="asks a judge, and there is none"):
        method("gptscore")(ratings, "coherence", Tools())
    with pytest.raises(MethodError, match="name no task"):
        method("gptscore")(bare, "coherence", Tools(FakeEngine()))
    with pytest.raises(TaskError, match="no attribute 'overall'"):
        method("gptscore")(ratings, "overall", Tools(FakeEngine()))
    assert method("bartscore")(bare, "overall", Tools(FakeEngine())).n_unscored == 0


# ------------------------------------------------------------------------------------------------- signature and store


def test_the_signature_tells_methods_directions_and_references_apart():
    specs = ["gptscore", "bartscore"]
    specs += [f"gptscore:direction={name}" for name in list(DIRECTIONS)[1:]]
    specs += ["gptscore:direction=f,references=all"]
    signatures = [
        str(method(spec)(ratings_of(TEXTS), "coherence", Tools(FakeEngine(reader=reader))).signature) for spec in specs
    ]
    assert len(set(signatures)) == len(specs)
    assert "|template:default/likelihood@" in signatures[0]
    assert "|template:none|" in signatures[1]
    assert "|template:default/paraphrase@" in signatures[2]
    assert all("model:fake" in signature for signature in signatures)


def test_attributes_and_runs_ask_only_what_was_not_asked_before(tmp_path):
    inner, ratings = FakeEngine(reader=reader), ratings_of(TEXTS)
    with Store(tmp_path / "answers.sqlite") as store:
        judge = StoredEngine(inner, store)
        first = method("bartscore")(ratings, "coherence", Tools(judge))
        again = method("bartscore")(ratings, "fluency", Tools(judge))
    assert len(inner.read) == 3, "what does not depend on the attribute is read once"
    assert first.values.tolist() == again.values.tolist()
