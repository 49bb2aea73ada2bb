import math

import numpy as np
import pytest

from papers.methods.unieval import LAYOUTS
from synthscore.degrade.reading import sentences
from synthscore.engine import Prompt
from synthscore.engines.seq2seq import Seq2SeqEngine
from synthscore.evaluation.methods import Tools, method
from synthscore.evaluation.methods.base import MethodError
from synthscore.evaluation.ratings import RatedText, Ratings
from synthscore.judging.asking import Asking
from synthscore.judging.templates import load_task
from synthscore.types import Context
from tests.fakes import CensoringEngine, FakeEngine

from ..engines.test_causal import one_thread  # noqa: F401
from ..engines.test_seq2seq import t5

ARTICLE = "A storm closed the harbour on Monday."
GOOD, MIXED = "The harbour is closed.", "The harbour is closed. It snowed. Nobody was hurt."


def ratings_of(texts, task="summarization", facts="", references=("Boats stay in port.", "No boats."), **more):
    contexts = {"c": Context("c", ARTICLE, facts, references)}
    rated = [RatedText(f"t{n}", "c", f"s{n}", text, {}) for n, text in enumerate(texts)]
    return Ratings("mine", tuple(rated), ("coherence",), contexts, task, **more)


def judge(prompt, labels):
    """Yes with 0.72 to 0.8 of 0.8, the less sure the more words; 0.2 where it snowed."""
    assert labels == ("Yes", "No")
    yes = 0.2 if "It snowed" in prompt.text else 0.8 - 0.001 * len(prompt.text.split())
    return [math.log(yes), math.log(0.8 - yes if yes > 0.2 else 0.6)]


def asked(texts, attribute, **more):
    engine = FakeEngine(judge)
    scores = method("unieval")(ratings_of(texts, **more), attribute, Tools(engine))
    assert len(engine.calls) == 1, "in one call"
    return scores, [prompt.text for prompt in engine.judged]


def test_a_score_is_the_share_of_yes_in_what_yes_and_no_have_together():
    scores, prompts = asked([GOOD, MIXED], "coherence")
    for score, prompt in zip(scores, prompts, strict=True):
        yes, no = map(math.exp, judge(Prompt(prompt), ("Yes", "No")))
        assert score.value == pytest.approx(yes / (yes + no))
        assert score.details == pytest.approx({"n_pieces": 1, "label_mass": yes + no})
    assert scores[0].value > scores[1].value == pytest.approx(0.25)


@pytest.mark.parametrize("attribute", ["consistency", "fluency"])
def test_sentences_are_asked_about_one_by_one_and_averaged(attribute):
    scores, prompts = asked([GOOD, MIXED], attribute)
    assert len(prompts) == 4
    pieces = [method("unieval")(ratings_of([s]), attribute, Tools(FakeEngine(judge)))[0] for s in sentences(MIXED)]
    assert scores[1].value == pytest.approx(np.mean([piece.value for piece in pieces]))
    assert scores[1].details["n_pieces"] == 3
    assert all("sentence below" in prompt for prompt in prompts)
    assert all((ARTICLE in prompt) == (attribute == "consistency") for prompt in prompts)


def test_the_engagingness_of_a_reply_adds_up_over_its_sentences():
    scores, prompts = asked([GOOD, MIXED], "engagingness", task="dialogue", facts="Harbours are old.")
    assert scores[1].value > 1
    assert scores[0].value < 1
    assert all(ARTICLE in prompt and "Harbours are old." in prompt for prompt in prompts)


@pytest.mark.parametrize(
    ("task", "attribute", "shown"),
    [
        ("summarization", "coherence", "source"),
        ("summarization", "relevance", "reference"),
        ("summarization", "fluency", ""),
        ("dialogue", "naturalness", ""),
        ("dialogue", "understandability", ""),
        ("dialogue", "coherence", "source"),
        ("dialogue", "groundedness", "facts"),
        ("dialogue", "overall", "source facts"),
        ("story", "surprise", "source facts"),
        ("data_to_text", "grammar", ""),
        ("data_to_text", "semantics", "source facts"),
    ],
)
@pytest.mark.parametrize("templates", ["default", "paper"])
def test_each_attribute_is_asked_about_beside_what_it_needs(task, attribute, shown, templates):
    engine = FakeEngine()
    ratings = ratings_of([GOOD], task, facts="Harbours are old.")
    method("unieval")(ratings, attribute, Tools(engine, asking=Asking(prompts=templates)))
    (prompt,) = engine.judged
    texts = {"source": ARTICLE, "reference": "Boats stay in port.", "facts": "Harbours are old."}
    assert {name for name, text in texts.items() if text in prompt.text} == set(shown.split())
    assert "No boats." not in prompt.text
    assert prompt.text.count(GOOD) == 1
    assert load_task(task).attribute(attribute).description in prompt.text


def test_every_layout_is_of_an_attribute_that_its_task_has():
    for task, attribute in LAYOUTS:
        load_task(task).attribute(attribute)


def test_what_is_shared_comes_before_the_text_and_texts_of_a_context_one_after_another():
    engine = FakeEngine(judge)
    contexts = {name: Context(name, f"Article {name}.") for name in "xy"}
    texts = tuple(RatedText(f"{n}", name, f"s{n}", f"Text {n}.", {}) for n, name in enumerate("xyx"))
    ratings = Ratings("mine", texts, ("flow",), contexts, "summarization", asked_as={"flow": "coherence"})
    scores = method("unieval")(ratings, "flow", Tools(engine))
    prompts = [prompt.text for prompt in engine.judged]
    assert ["Article x" in prompt for prompt in prompts] == [True, True, False]
    assert prompts[0].removesuffix("Text 0.\n\nAnswer:") == prompts[1].removesuffix("Text 2.\n\nAnswer:")
    assert [score.id for score in scores] == ["0", "1", "2"]
    assert {score.attribute for score in scores} == {"flow"}
    assert dict(scores.signature.parts)["attribute"] == "coherence"


def test_an_encoder_decoder_model_is_asked_as_any_judge():
    engine = Seq2SeqEngine(*t5(), name="t5")
    scores = method("unieval:min_mass=0")(
        ratings_of([GOOD, MIXED]), "coherence", Tools(engine, asking=Asking(prompts="paper"))
    )
    assert ((scores.values > 0) & (scores.values < 1)).all()
    assert "model:t5@unknown" in str(scores.signature)
    assert "template:paper/boolean@" in str(scores.signature)


# ------------------------------------------------------------------------------------------------- faults


def test_a_text_of_which_one_sentence_has_no_answer_is_unscored_with_the_reason():
    def unsure(prompt, labels):
        return [-20.0, -20.0] if "It snowed" in prompt.text else judge(prompt, labels)

    scores = method("unieval")(ratings_of([GOOD, MIXED, " "]), "consistency", Tools(FakeEngine(unsure)))
    assert [score.status for score in scores] == ["ok", "unscored", "unscored"]
    assert "expected at least 0.01" in scores[1].reason
    assert scores[2].reason == "text is ' ', expected a text that is not empty. Fill it, or remove the row"
    kept = method("unieval:min_mass=0")(ratings_of([GOOD, MIXED]), "consistency", Tools(FakeEngine(unsure)))
    assert kept.n_unscored == 0
    assert kept[1].details["label_mass"] < 1e-8


@pytest.mark.parametrize(
    ("task", "attribute", "words"),
    [("summarization", "relevance", "no reference"), ("dialogue", "groundedness", "no background facts")],
)
def test_without_what_an_attribute_is_asked_beside_a_text_is_unscored(task, attribute, words):
    ratings = ratings_of([GOOD], task, references=())
    contexts = {**ratings.contexts, "d": Context("d", ARTICLE, "Harbours are old.", ("Boats.",))}
    ratings = Ratings("mine", (*ratings.texts, RatedText("u", "d", "s", GOOD, {})), ("x",), contexts, task)
    scores = method("unieval")(ratings, attribute, Tools(FakeEngine(judge)))
    assert words in scores[0].reason
    assert scores[1].status == "ok"


def test_labels_that_a_server_did_not_tell_leave_limits():
    engine = CensoringEngine(judge, lambda prompt: {1: 0.9} if "It snowed" in prompt.text else {})
    scores = method("unieval:max_unreported=0.2")(ratings_of([GOOD, MIXED]), "consistency", Tools(engine))
    assert (scores[0].low, scores[0].high, scores[0].reason) == (None, None, "")
    slack = 0.6 * 0.1 / 0.8 / 3  # of one sentence in three
    assert scores[1].low == pytest.approx(scores[1].value - slack)
    assert scores[1].high == pytest.approx(scores[1].value + slack)
    assert scores[1].reason.startswith("the server did not report all labels")
    strict = method("unieval")(ratings_of([GOOD, MIXED]), "consistency", Tools(engine))
    assert strict[1].status == "unscored"


def test_a_judge_and_a_task_are_needed():
    with pytest.raises(MethodError, match="asks a judge"):
        method("unieval")(ratings_of([GOOD]), "coherence", Tools())
    with pytest.raises(MethodError, match="name no task"):
        method("unieval")(ratings_of([GOOD], task=""), "coherence", Tools(FakeEngine(judge)))


def test_the_signature_says_how_pieces_are_added_up():
    engine = Tools(FakeEngine(judge))
    summary, reply = ratings_of([GOOD]), ratings_of([GOOD], "dialogue", facts="f")
    parts = [
        dict(method("unieval")(ratings, attribute, engine).signature.parts)["scoring"]
        for ratings, attribute in ((summary, "fluency"), (summary, "coherence"), (reply, "engagingness"))
    ]
    assert parts == [
        "unieval,mean of sentences beside nothing",
        "unieval,text beside source",
        "unieval,sum of sentences beside source+knowledge",
    ]
