"""Anthropic's Messages API by a fake after its published types: what is sent, what of a reply is read, and whose key
goes where. The shapes are in tests/data/anthropic; where the package anthropic is installed, its types check them."""

import itertools
import json
import math
from pathlib import Path

import pytest

from synthscore.engine import Generation, Prompt, Question, Sampling, capabilities_of, label_log_probs
from synthscore.engines import open_engine, open_judge
from synthscore.engines.servers.anthropic import API, AnthropicServer
from synthscore.engines.servers.pool import Retry, ServerPool
from synthscore.engines.words import LONG, SHORT
from synthscore.errors import EngineError, LabelError, ServerError
from synthscore.types import Usage
from tests.servers import Liar

DATA = Path(__file__).parents[1] / "data" / "anthropic"
REPLIES = json.loads((DATA / "replies.json").read_text())
ERRORS = {name: (each["status"], each["body"]) for name, each in json.loads((DATA / "errors.json").read_text()).items()}
LABELS = ("Better", "Worse", "Similar")
PROMPT = Prompt("You judge summaries.\nA storm closed the harbour.\n\nIs it better?", n_shared=48)
OURS, OPENAIS, ANTHROPICS = "key-of-synthscore", "key-of-openai", "key-of-anthropic"
KEYS = {"SYNTHSCORE_API_KEY": OURS, "OPENAI_API_KEY": OPENAIS, "ANTHROPIC_API_KEY": ANTHROPICS}
OPENAIS_OTHERS = {
    "OPENAI_ORG_ID": "org-of-openai",
    "OPENAI_PROJECT_ID": "project-of-openai",
    "OPENAI_ADMIN_KEY": "admin-of-openai",
    "OPENAI_CUSTOM_HEADERS": "X-Gateway: gateway-of-openai",
}


@pytest.fixture(autouse=True)
def key(monkeypatch):
    for name in (*KEYS, *OPENAIS_OTHERS, "ANTHROPIC_BASE_URL", "ANTHROPIC_AUTH_TOKEN", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ANTHROPIC_API_KEY", ANTHROPICS)


class Claude:
    """Answers with a recorded reply. refuses : which part of a request it refuses -> the error's name"""

    def __init__(self, reply="label", **refuses):
        self.reply, self.refuses = reply, refuses

    def __call__(self, method, path, body):
        if (method, path) != ("POST", "/v1/messages"):
            return ERRORS["no_model"]
        output, thinking = body.get("output_config", {}), body.get("thinking", {})
        parts = {"format": "format" in output, "effort": "effort" in output, "thinking": thinking.get("type")}
        for part, error in self.refuses.items():
            if parts[part] in (True, "disabled"):
                return ERRORS[error]
        return REPLIES[self.reply]


def opened(server, **options):
    return AnthropicServer(server.url, "claude-sonnet-5-5", **options)


def asked(labels=LABELS, limit=SHORT):
    return Question(PROMPT, labels, Sampling(max_new_tokens=limit, temperature=1.0, top_p=1.0), seed=7)


def test_a_question_in_words_is_one_message_whose_shared_beginning_is_cached():
    with Liar(Claude()) as server:
        assert opened(server).answer(asked()) == Generation('{"verdict": "Better"}', "stop", 9)
        (_, body), headers = server.asked[-1], server.headers[-1]
    assert body == {
        "model": "claude-sonnet-5-5",
        "max_tokens": SHORT,
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": PROMPT.text[:48], "cache_control": {"type": "ephemeral"}},
                    {"type": "text", "text": PROMPT.text[48:]},
                ],
            }
        ],
        "output_config": {
            "format": {
                "type": "json_schema",
                "schema": {
                    "type": "object",
                    "properties": {"verdict": {"type": "string", "enum": list(LABELS)}},
                    "required": ["verdict"],
                    "additionalProperties": False,
                },
            }
        },
        "thinking": {"type": "disabled"},
    }
    assert headers["authorization"] == f"Bearer {ANTHROPICS}"
    assert headers["anthropic-version"] == "2026-10-21"


@pytest.mark.parametrize("prompt", [Prompt("all", n_shared=3), Prompt("  all", n_shared=2), Prompt("all")])
def test_no_block_of_a_message_is_empty(prompt):
    with Liar(Claude()) as server:
        opened(server).answer(Question(prompt, LABELS, Sampling()))
        assert server.asked[-1][1]["messages"][0]["content"] == [{"type": "text", "text": prompt.text}]


def test_the_answer_is_the_last_text_behind_what_was_thought():
    with Liar(Claude("thought")) as server:
        answer = opened(server, thinking=True, reasoning_effort="high").answer(asked(limit=LONG))
        body = server.asked[-1][1]
    assert answer == Generation("Both name the storm; only the first says when.\n\nBetter", "stop", 412)
    assert body["thinking"] == {"type": "adaptive"}
    assert body["output_config"]["effort"] == "high"


@pytest.mark.parametrize(
    ("reply", "answer"),
    [("cut", Generation("", "length", 4096)), ("refused", Generation("It may not judge this.", "refusal", 1))],
)
def test_a_cut_and_a_refused_answer_are_kept_as_such(reply, answer):
    with Liar(Claude(reply)) as server:
        assert opened(server).answer(asked()) == answer


@pytest.mark.parametrize("reply", ["refused", "paused"])
def test_a_text_that_was_refused_or_broken_off_is_an_error_with_its_reason(reply):
    with Liar(Claude(reply)) as server, pytest.raises(EngineError, match=REPLIES[reply]["stop_reason"]):
        opened(server).answer(Question(PROMPT, (), Sampling()))


def test_a_text_ends_before_a_stop_string_which_is_not_sent():
    with Liar(Claude("thought")) as server:
        text = opened(server).answer(Question(PROMPT, (), Sampling(max_new_tokens=99, stop=("\n\n",))))
        body = server.asked[-1][1]
    assert text == Generation("Both name the storm; only the first says when.", "stop", 412)
    assert set(body) == {"model", "max_tokens", "messages", "thinking"}
    assert body["max_tokens"] == 99


def test_what_a_model_refuses_is_left_out_and_the_signature_says_so():
    with Liar(Claude(format="no_format")) as server:
        plain = opened(server)
        plain.answer(asked())
        assert "output_config" not in server.asked[-1][1]
    with Liar(Claude(thinking="no_thinking")) as server:
        thinks = opened(server)
        thinks.answer(Question(PROMPT, (), Sampling(max_new_tokens=50)))
        assert "thinking" not in server.asked[-1][1]
        assert server.asked[-1][1]["max_tokens"] == 50 + LONG
    with Liar(Claude(format="no_format", thinking="no_thinking")) as server:
        both = opened(server)
    model = "model:claude-sonnet-5-5-20260930|backend:server-messages|chat:server"
    api = "server:anthropic/2026-10-21"
    assert str(plain.signature) == f"{model}|constrained:no|thinking:off|{api}"
    assert str(thinks.signature) == f"{model}|constrained:output_config|thinking:default|{api}"
    assert str(both.signature) == f"{model}|constrained:no|thinking:default|{api}"
    assert [server.capabilities.reasons for server in (plain, thinks, both)] == [False, True, True]


def test_an_effort_that_the_user_asks_for_is_not_given_up():
    with Liar(Claude(effort="no_effort")) as server, pytest.raises(ServerError, match="does not support the effort"):
        opened(server, reasoning_effort="high")
    with Liar(Claude()) as server:
        assert "|effort:high|" in str(opened(server, reasoning_effort="high").signature)


def test_it_judges_in_words_alone():
    with Liar(Claude()) as server:
        name = f"anthropic:{server.url}#claude-sonnet-5-5"
        engine = open_engine(name)
        assert not capabilities_of(engine).judges
        with pytest.raises(LabelError, match="Ask it in words: --answers words"):
            label_log_probs(engine, [PROMPT], LABELS)
        judge = open_judge(name, "none", answers="auto", n_votes=3)
        answers = label_log_probs(judge, [PROMPT], LABELS)
        assert answers.log_probs.tolist() == [[0.0, -math.inf, -math.inf]]
        assert answers.n_samples.tolist() == [3]
        assert {path for path, _ in server.asked} == {"/v1/messages"}


def test_tokens_from_the_cache_are_counted_as_read_but_not_run_over():
    with Liar(Claude()) as server:
        pool = ServerPool([opened(server)])
        assert pool.answer([asked()]).usage == Usage(n_in=61 + 2048, n_computed=61, n_out=9)
    with Liar(Claude("thought")) as server:
        pool = ServerPool([opened(server, thinking=True)])
        assert pool.answer([asked()]).usage == Usage(n_in=61 + 2048, n_computed=61 + 2048, n_out=412, n_reasoning=398)


def test_an_overloaded_or_busy_server_is_asked_again():
    replies = iter([REPLIES["label"], ERRORS["overloaded"], (*ERRORS["busy"], {"retry-after": "0.01"})])
    with Liar(lambda *request: next(replies, REPLIES["label"])) as server:
        pool = ServerPool([opened(server)], retry=Retry(first_wait=0.01))
        (answer,) = pool.answer([asked()]).rows
        assert answer.text == '{"verdict": "Better"}'
        assert len(server.asked) == 4


@pytest.mark.parametrize("error", ["no_model", "no_key"])
def test_a_wrong_model_or_key_is_said_at_once(error):
    with Liar(lambda *request: ERRORS[error]) as server, pytest.raises(ServerError) as caught:
        open_engine(f"anthropic:{server.url}#claude-none")
    assert caught.value.fatal
    assert ERRORS[error][1]["error"]["message"] in str(caught.value)
    assert ANTHROPICS not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [("anthropic:", "Name one: anthropic:MODEL"), (f"{API}#claude", "Name it anthropic:claude")],
)
def test_a_name_that_misses_something_is_refused_before_anything_is_sent(name, words):
    with pytest.raises(EngineError, match=words):
        open_engine(name)


def test_without_its_key_nothing_is_sent_to_anthropic(monkeypatch):
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    monkeypatch.setenv("OPENAI_API_KEY", OPENAIS)
    with pytest.raises(EngineError, match=r"no key is set\. Put yours in the environment: ANTHROPIC_API_KEY"):
        open_engine("anthropic:claude-sonnet-5-5")


def test_what_makes_no_sense_for_anthropic_is_refused():
    with Liar(Claude()) as server, pytest.raises(EngineError, match="with tokenizer: it takes none"):
        open_engine(f"anthropic:{server.url}#claude", tokenizer="folder")
    with Liar(Claude()) as server:
        engine = opened(server)
        for question in (Question(Prompt("a", "b"), LABELS, Sampling()), Question(PROMPT, continuation="text")):
            with pytest.raises(EngineError, match="cannot"):
                engine.answer(question)


@pytest.mark.parametrize("names", [names for n in range(4) for names in itertools.combinations(KEYS, n)], ids="+".join)
@pytest.mark.filterwarnings("ignore:.* reports neither its version nor its model's weights")
def test_no_key_goes_to_another_address_than_its_own(names, monkeypatch):
    """Of all keys that are set, Anthropic's alone goes to Anthropic, and to nobody else; and what else is in the
    environment for OpenAI does not go to Anthropic either."""
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    for name, value in ({name: KEYS[name] for name in names} | OPENAIS_OTHERS).items():
        monkeypatch.setenv(name, value)

    def compatible(method, path, body):
        if method == "GET":
            return {"data": [{"id": "big"}]}
        choice = {"message": {"content": "Better"}, "finish_reason": "stop"}
        return {"choices": [choice], "usage": {"completion_tokens": 1}}

    with Liar(Claude()) as claude, Liar(compatible) as other:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", other.url)  # not asked for in a command, so it is not followed
        monkeypatch.setenv("OPENAI_BASE_URL", claude.url)
        open_engine(f"anthropic:{claude.url}#claude-sonnet-5-5")
        open_engine(f"{other.url}#big", method="words")
        assert len(claude.headers) == 1
        sent_to_claude, sent_to_other = json.dumps(claude.headers), json.dumps(other.headers)
    not_for_anthropic = (OURS, OPENAIS, "of-openai")
    assert not any(secret in sent_to_claude for secret in not_for_anthropic)
    assert (ANTHROPICS in sent_to_claude) == ("ANTHROPIC_API_KEY" in names)
    assert ANTHROPICS not in sent_to_other
    assert "of-openai" not in sent_to_other
    first = OURS if "SYNTHSCORE_API_KEY" in names else "none"
    assert f"Bearer {first}" in sent_to_other


def test_a_redirect_does_not_carry_the_key_to_another_host():
    with Liar(Claude()) as thief:
        elsewhere = thief.url.replace("127.0.0.1", "localhost") + "/messages"
        with Liar(lambda *request: (307, {}, {"location": elsewhere})) as server:
            opened(server)
        assert thief.headers
        assert ANTHROPICS not in json.dumps(thief.headers)


def test_the_shapes_are_those_of_anthropics_own_types():
    """Run where `pip install anthropic` was; not part of the usual environment."""
    anthropic = pytest.importorskip("anthropic")
    from anthropic.types import Message
    from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
    from anthropic.types.shared import ErrorResponse
    from pydantic import ConfigDict, TypeAdapter

    for reply in REPLIES.values():
        Message.model_validate(reply, strict=True)
    for _, body in ERRORS.values():
        assert ErrorResponse.model_validate(body).error.type == body["error"]["type"]
    with Liar(Claude("thought")) as server:
        for options in ({}, {"thinking": True, "reasoning_effort": "max"}):
            engine = opened(server, **options)
            engine.answer(asked())
            engine.answer(Question(PROMPT, (), Sampling()))
        bodies = [body for _, body in server.asked]
    typed = MessageCreateParamsNonStreaming
    typed.__pydantic_config__ = ConfigDict(extra="forbid")
    for body in bodies:
        TypeAdapter(typed).validate_python(body)
        with pytest.raises(ValueError, match="temperature"):
            TypeAdapter(typed).validate_python(body | {"temperature": 1.0})
    assert AnthropicServer.access.headers["anthropic-version"] == anthropic._constants.ANTHROPIC_API_VERSION
