"""Servers that decide: what they are asked in both wire forms, and what is read of their replies, as documented."""

import json
import time
import warnings

import numpy as np
import pytest
import torch
import transformers as tf
from safetensors.torch import load_file, save_file
from transformers.decision import DecisionConfig

from synthscore.engine import Generation, Prompt, Question, Sampling, label_log_probs
from synthscore.engines import open_engine
from synthscore.engines.servers.pool import Retry
from synthscore.errors import EngineError, ServerError
from synthscore.judging.asking import Asking
from synthscore.scoring.scorer import Scorer
from tests.factories import ladder, references, target
from tests.models import byte_level
from tests.servers import Liar, refusal

pytestmark = pytest.mark.filterwarnings("ignore:.* reports neither its version nor its model's weights")

LABELS = ("Better", "Worse", "Similar")
P = (0.5, 0.3, 0.2)


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    for name in ("SYNTHSCORE_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


class Decider:
    """A server of both forms, told how. refuses, breaks : a word of the instructions that it refuses; fails with 400"""

    def __init__(self, *, path="/v1/systemone", mass=None, where="diagnostics", refuses="!", breaks="!", named="tiny"):
        self.path, self.mass, self.where, self.refuses, self.breaks, self.named = (
            path,
            mass,
            where,
            refuses,
            breaks,
            named,
        )
        self.listed, self.unlisted, self.cuts = [{"id": "tiny", "owned_by": "someone"}], {}, 0

    def __call__(self, method, path, body):
        if path == "/v1/models":
            self.cuts -= 1
            if self.cuts >= 0:
                return "cut"
            return {"object": "list", "data": self.listed} if self.listed else self.unlisted
        if path != self.path:
            return refusal(404, f"no {path}")
        if self.breaks in json.dumps(body):
            return refusal(400, "cannot be rendered")
        reply = {"model": self.named, "usage": {"input_tokens": 100, "output_tokens": 0}}
        if path == "/v1/systemone":
            asked = body["questions"]
            answers = {name: self.one(question, list(question["criteria"])) for name, question in asked.items()}
            if self.mass is not None and self.where == "diagnostics":
                reply["diagnostics"] = {name: {"label_mass": self.mass, "argmax_is_label": True} for name in asked}
            return reply | {"answers": answers}
        answers = []
        for question in body["questions"]:
            if question["type"] == "score":
                told = [{"label": str(k), "value": k, "probability": p} for k, p in enumerate(P)]
                answers.append({"type": "score", "score": 0.7, "probabilities": told})
                continue
            told = self.one(question, [choice["value"] for choice in question["choices"]])
            if "probabilities" in told:
                told["probabilities"] = [{"value": v, "probability": p} for v, p in told["probabilities"].items()]
            answers.append(told | {"name": question["name"]})
        return reply | {"answers": answers}

    def one(self, question, options):
        if self.refuses in question["instructions"]:
            return {"type": "refusal"}
        if question["type"] == "score":
            return {"type": "score", "score": 0.7, "probabilities": {str(k): p for k, p in enumerate(P)}}
        told = {
            "type": "choice",
            "choice": options[0],
            "confidence": 0.5,
            "probabilities": dict(zip(options, P, strict=False)),
        }
        if len(options) == 2:
            told["probabilities"] = {options[0]: 0.9, options[1]: 0.1}
        return told | ({"x_label_mass": self.mass} if self.where == "answer" and self.mass is not None else {})


def prompts(n, context="An article."):
    return [Prompt(f"{context}\n\nSummary {k}.", "", len(context)) for k in range(n)]


def probs(engine, asked):
    return label_log_probs(engine, asked, LABELS)


@pytest.mark.parametrize("form", ["systemone", "decisions"])
def test_questions_about_one_context_go_in_one_request_over_one_state(form):
    with Liar(Decider(path=f"/v1/{form}")) as liar:
        engine = open_engine(f"{form}:{liar.url}")
        liar.asked.clear()
        answers = probs(engine, [*prompts(3), *prompts(2, "Another."), *prompts(1)])
        np.testing.assert_allclose(answers.probs, [P] * 6)
        assert answers.usage.n_in == 200
        states = [body["state" if form == "systemone" else "input"] for _, body in liar.asked]
        assert sorted(states) == ["An article.", "Another."]
        (body,) = [body for _, body in liar.asked if "Another." in body.values()]
    if form == "systemone":
        criteria = dict.fromkeys(LABELS)
        assert body["questions"] == {
            str(k): {"type": "choice", "instructions": f"Summary {k}.", "criteria": criteria} for k in range(2)
        }
    else:
        choices = [{"value": label} for label in LABELS]
        assert body["questions"] == [
            {"type": "choice", "name": str(k), "instructions": f"Summary {k}.", "choices": choices} for k in range(2)
        ]


@pytest.mark.parametrize("form", ["systemone", "decisions"])
def test_levels_are_asked_for_as_a_score(form):
    rungs = ("Bad text.", "Fair text.", "Good text.")
    with Liar(Decider(path=f"/v1/{form}")) as liar:
        engine = open_engine(f"{form}:{liar.url}")
        liar.asked.clear()
        (found,) = engine.answer([Question(prompts(1)[0], rungs, ordered=True)]).rows
        ((_, body),) = liar.asked
    assert found.log_probs == pytest.approx(np.log(P))
    (asked,) = body["questions"].values() if form == "systemone" else body["questions"]
    assert asked["type"] == "score"
    levels = asked["criteria"] if form == "systemone" else [each["description"] for each in asked["levels"]]
    assert tuple(levels) == rungs


def sizes(liar):
    return [len(body["questions"]) for _, body in liar.asked]


def test_a_request_holds_few_questions_at_first_and_never_more_than_servers_take():
    with Liar(Decider()) as liar:
        engine = open_engine(f"systemone:{liar.url}", in_flight=1)
        liar.asked.clear()
        probs(engine, prompts(8 + 64 + 3))
        assert sizes(liar) == [8, 64, 3]


def test_a_request_that_takes_too_long_is_halved_and_the_next_are_as_long_as_the_pace_allows():
    class Slow(Decider):
        def __call__(self, method, path, body):
            time.sleep(0.06 * len(body.get("questions", ())))
            return super().__call__(method, path, body)

    with Liar(Slow()) as liar:
        engine = open_engine(f"systemone:{liar.url}", in_flight=1, timeout_s=0.4)
        liar.asked.clear()
        answers = probs(engine, prompts(16))
        assert sizes(liar)[:2] == [8, 4]
        assert max(sizes(liar)[1:]) <= 4
    assert not answers.failures, "no server is set aside for what was asked of it at once"


def test_a_single_question_that_takes_too_long_fails_alone():
    class Slow(Decider):
        def __call__(self, method, path, body):
            if "Summary 2." in json.dumps(body):
                time.sleep(0.6)
            return super().__call__(method, path, body)

    with Liar(Slow()) as liar:
        engine = open_engine(f"systemone:{liar.url}", in_flight=1, timeout_s=0.3, retry=Retry(2, 0.001, aside_after=9))
        answers = probs(engine, prompts(4))
    assert list(answers.failures) == [2]
    assert "no answer within 0.3 s. If it is only slow, give it longer: --timeout" in answers.failures[2]


def test_a_prompt_that_does_not_say_where_its_texts_begin_is_a_state_of_its_own():
    with Liar(Decider()) as liar:
        engine = open_engine(f"systemone:{liar.url}")
        liar.asked.clear()
        probs(engine, [Prompt("One."), Prompt("Two.")])
        assert sorted(body["state"] for _, body in liar.asked) == ["One.", "Two."]


@pytest.mark.parametrize("listed", [None, {"object": "list", "data": []}, refusal(500, "no cache")])
def test_a_server_without_log_probabilities_is_asked_for_decisions_and_need_not_list_its_model(listed):
    decider = Decider()
    if listed is not None:
        decider.listed, decider.unlisted = [], listed
    with Liar(decider) as liar:
        engine = open_engine(f"{liar.url}#tiny")
    assert str(engine.signature) == (
        "model:tiny|backend:server-systemone|chat:server|format:unreported|mass:unreported|server:"
        + ("unknown" if listed else "someone")
    )


def test_a_server_that_hangs_up_when_it_is_opened_is_asked_again():
    decider = Decider()
    decider.cuts = 1
    with Liar(decider) as liar:
        assert open_engine(f"systemone:{liar.url}").signature


def test_a_server_that_neither_reports_nor_decides_is_refused_for_what_it_lacks_first():
    with Liar(Decider(path="/nowhere")) as liar, pytest.raises(EngineError, match="chat/completions"):
        open_engine(f"{liar.url}#tiny")


def test_where_mass_is_not_reported_it_refuses_nothing_and_the_row_says_so():
    with Liar(Decider()) as liar:
        scorer = Scorer(references(ladder()), open_engine(liar.url), asking=Asking(min_mass=1.0))
        (score,) = scorer.score([target(3)])
    assert score.status == "ok"
    assert np.isnan(score.details["label_mass"])
    assert "|mass:unreported|" in str(scorer.signature)


@pytest.mark.parametrize("where", ["diagnostics", "answer"])
def test_where_mass_is_reported_it_counts(where):
    with Liar(Decider(mass=0.005, where=where)) as liar:
        engine = open_engine(liar.url)
        assert "mass" not in dict(engine.signature.parts)
        answers = probs(engine, prompts(1))
        assert answers.label_mass == pytest.approx([0.005])
        np.testing.assert_allclose(answers.probs, [P])
        (score,) = Scorer(references(ladder()), engine).score([target(3)])
    assert score.status == "unscored"
    assert "have probability 0.005 together" in score.reason


@pytest.mark.parametrize("form", ["systemone", "decisions"])
def test_a_refusal_fails_its_question_alone(form):
    with Liar(Decider(path=f"/v1/{form}", refuses="Summary 1.")) as liar:
        answers = probs(open_engine(f"{form}:{liar.url}"), prompts(3))
    assert answers.failures == {1: "tiny refuses to answer this question"}


def test_a_question_that_a_request_fails_for_fails_alone():
    with Liar(Decider(breaks="Summary 2.")) as liar:
        engine = open_engine(liar.url)
        answers = probs(engine, prompts(5))
        assert list(answers.failures) == [2]
        assert "cannot be rendered" in answers.failures[2]
        np.testing.assert_allclose(answers.probs[[0, 1, 3, 4]], [P] * 4)


def test_a_model_that_answers_under_a_path_is_signed_by_its_last_part():
    decider = Decider()
    decider.named = "/srv/models/tiny-8b"
    with Liar(decider) as liar:
        engine = open_engine(liar.url)
        assert str(engine.signature).startswith("model:tiny-8b|")
        assert not label_log_probs(engine, [Prompt("Is ice cold?")], ("Yes", "No")).failures


def test_where_nothing_tells_the_weights_a_warning_says_so_once():
    with Liar(Decider()) as one, Liar(Decider()) as other, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        engine = open_engine(f"systemone:{one.url},{other.url}")
        assert not probs(engine, prompts(2)).failures
    (warning,) = caught
    assert "the store cannot tell other weights under the name 'tiny'" in str(warning.message)
    assert f"Name what it serves: {one.url}#tiny@REVISION" in str(warning.message)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("listed", [True, False])
def test_a_revision_behind_the_models_name_is_the_users_word_and_is_signed_not_sent(listed):
    decider = Decider()
    decider.listed = decider.listed if listed else []
    decider.unlisted = {"data": []}
    with Liar(decider) as liar:
        engine = open_engine(f"systemone:{liar.url}#tiny@of-monday")
        assert not probs(engine, prompts(2)).failures
        assert {body["model"] for _, body in liar.asked} == {"tiny"}
        assert str(engine.signature).startswith("model:tiny@of-monday|revision:given|backend:")
        engine._members[0].server.check()
        other = open_engine(f"systemone:{liar.url}#tiny@of-tuesday")
    assert other.signature.differs(engine.signature) == {"model": ("tiny@of-tuesday", "tiny@of-monday")}


@pytest.mark.parametrize("name", ["@cf/meta/tiny", "tiny@2026", "@", "tiny@"])
def test_an_at_sign_in_a_listed_name_or_at_its_end_is_the_names(name):
    decider = Decider()
    decider.listed, decider.named = [{"id": name, "owned_by": "someone"}], name
    with Liar(decider) as liar:
        engine = open_engine(f"systemone:{liar.url}#{name}")
        assert (liar.asked[-1][1]["model"], engine.signature.part("revision")) == (name, "")


def test_a_reply_of_another_model_is_no_answer():
    decider = Decider()
    with Liar(decider) as liar:
        engine = open_engine(liar.url, retry=None)
        decider.named = "other"
        member = engine._members[0].server
        with pytest.raises(ServerError, match="answered as 'other', and as 'tiny' before"):
            member.answer_all([Question(prompts(1)[0], LABELS)])


def test_a_model_that_replies_under_its_full_name_is_signed_so():
    with Liar(Decider(named="tiny-2026-11-01")) as liar:
        assert dict(open_engine(liar.url).signature.parts)["model"] == "tiny-2026-11-01"


@pytest.mark.parametrize(
    "told",
    [
        {"Better": 0.5, "Worse": 0.5},
        {"Better": 0.5, "Worse": 0.1, "Similar": 0.1},
        {"Better": 1.5, "Worse": -0.5, "Similar": 0},
    ],
)
def test_probabilities_that_cannot_be_are_a_failed_try(told):
    decider = Decider()
    with Liar(decider) as liar:
        member = open_engine(liar.url)._members[0].server
        decider.one = lambda question, options: {"type": "choice", "probabilities": told}
        with pytest.raises(ServerError, match="unusable answer") as caught:
            member.answer_all([Question(prompts(1)[0], LABELS)])
    assert caught.value.retryable


def test_an_option_that_is_impossible_has_no_probability_at_all():
    decider = Decider()
    with Liar(decider) as liar:
        engine = open_engine(liar.url)
        decider.one = lambda question, options: {
            "type": "choice",
            "probabilities": dict(zip(options, (1.0, 0, 0), strict=True)),
        }
        assert probs(engine, prompts(1)).log_probs.tolist() == [[0.0, -np.inf, -np.inf]]


def test_what_cannot_be_decided_fails_alone():
    with Liar(Decider()) as liar:
        engine = open_engine(liar.url)
        asked = [
            Question(prompts(1)[0], LABELS),
            Question(Prompt("a", "b"), LABELS),
            Question(Prompt("a"), (), Sampling()),
        ]
        found = engine.answer(asked).rows
    assert found[0].log_probs == pytest.approx(np.log(P))
    assert [type(each) for each in found[1:]] == [EngineError, EngineError]
    assert not isinstance(found[2], Generation)


def test_a_server_that_does_not_decide_in_a_form_is_refused_with_what_to_do():
    remedy = "offer /v1/systemone, write decisions: in the place of systemone:, or leave that out, so that the model is"
    with Liar(Decider(path="/v1/decisions")) as liar, pytest.raises(EngineError, match=remedy):
        open_engine(f"systemone:{liar.url}")
    decider = Decider()
    decider.one = lambda question, options: {"type": "choice", "chances": [1.0]}
    with Liar(decider) as liar, pytest.raises(ServerError, match=remedy):
        open_engine(f"systemone:{liar.url}")


@pytest.mark.parametrize("rest", ["", "tiny", "anthropic:tiny"])
def test_a_form_without_an_address_is_refused_with_one(rest):
    with pytest.raises(EngineError, match=r"no address .* Name one: systemone:http://HOST:PORT/v1#MODEL"):
        open_engine(f"systemone:{rest}")


def test_an_address_without_v1_is_refused_with_one_that_has_it():
    with Liar(Decider()) as liar, pytest.raises(ServerError, match=f"addresses end with /v1: try {liar.url}"):
        open_engine(f"systemone:{liar.url.removesuffix('/v1')}")


# ------------------------------------------------------------------------------------------------- that run here


def save_decider(folder, head):
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4}
    sizes |= {"vocab_size": len(byte_level()), "intermediate_size": 64, "max_position_embeddings": 512}
    if head:
        model = tf.JevForDecision(tf.JevConfig(hidden_size=32, text_config=tf.Qwen2Config(**sizes).to_dict()))
    else:
        model = tf.Qwen2ForCausalLM(tf.Qwen2Config(**sizes))
    with torch.no_grad():
        for weights in model.parameters():
            if weights.ndim >= 2:
                weights.normal_(0, 0.15)
    model.save_pretrained(folder)
    byte_level().save_pretrained(folder)
    if not head:
        DecisionConfig(temperature={"choice": 2.0}).save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize("head", [True, False])
def test_a_decision_model_here_says_what_its_pipeline_says(head, tmp_path):
    folder = save_decider(tmp_path, head)
    engine = open_engine(folder)
    asked = [Prompt("An article.\n\nSummary 1.", "", 11), Prompt("An article.\n\nSummary 2.", "", 11), Prompt("Whole.")]
    answers = probs(engine, asked)
    kind = tf.JevForDecision if head else tf.Qwen2ForCausalLM
    decide = tf.DecisionPipeline(model=kind.from_pretrained(folder), tokenizer=tf.AutoTokenizer.from_pretrained(folder))
    parts = [("An article.", "Summary 1."), ("An article.", "Summary 2."), ("Whole.", "Choose the answer.")]
    for row, (state, instructions) in enumerate(parts):
        choice = {"type": "choice", "instructions": instructions, "criteria": dict.fromkeys(LABELS)}
        told = decide({"state": state, "questions": {"0": choice}})["0"]["probabilities"]
        np.testing.assert_allclose(answers.probs[row], list(told.values()), atol=1e-6)
    assert not np.allclose(answers.probs[0], answers.probs[2], atol=1e-4)
    assert "backend:decision" in str(engine.signature)
    assert "mass:unreported" in str(engine.signature)
    assert np.isnan(answers.label_mass).all()


def test_a_decision_model_here_fails_what_it_cannot_decide_alone(tmp_path):
    engine = open_engine(save_decider(tmp_path, True))
    asked = [
        Question(Prompt("a"), LABELS),
        Question(Prompt("a", "b"), LABELS),
        Question(Prompt("a"), tuple(map(str, range(30)))),
        Question(Prompt("rain " * 600), LABELS),
        Question(Prompt("a"), (), Sampling()),
    ]
    found = [str(each) if isinstance(each, EngineError) else each for each in engine.answer(asked).rows]
    assert found[0].log_probs == pytest.approx(found[0].log_probs)
    assert ["go on from" in found[1], "at most 26 options" in found[2]] == [True, True]
    assert ["expected at most 512" in found[3], "is a decision model" in found[4]] == [True, True]


def test_a_head_without_its_weights_is_refused(tmp_path):
    folder = save_decider(tmp_path, True)
    weights = load_file(tmp_path / "model.safetensors")
    save_file(
        {n: w for n, w in weights.items() if not n.startswith("proj")}, tmp_path / "model.safetensors", {"format": "pt"}
    )
    with pytest.raises(EngineError, match="lacks weights of JevForDecision"):
        open_engine(folder)
