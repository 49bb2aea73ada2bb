"""Servers that refuse parameters, one in each refusal: what is sent to them then, what the signature says of it, and
what is said where no way to ask brings log-probabilities."""

import math

import pytest

from synthscore.engine import Prompt, Sampling, generate, label_log_probs
from synthscore.engines import open_engine
from synthscore.engines.servers.parameters import Parameters, named_parameters
from synthscore.engines.servers.server import Server
from synthscore.errors import EngineError, ServerError
from tests.servers import Liar

pytestmark = pytest.mark.filterwarnings("ignore:.* reports neither its version nor its model's weights")

REASONING = ("temperature", "top_p", "logprobs", "top_logprobs")  # not while the model reasons


class Hosted:
    """A hosted model that refuses as OpenAI's do: one parameter in each refusal, the first that it comes upon.

    never : parameters that it takes under no effort. while_reasoning : those that it takes with the effort "none" only
    efforts : those that it knows; without one, the first of them. words : of a refusal. param : whether the refusal
    names the parameter in its field, too. silent : it leaves out log-probabilities that it was asked for
    """

    def __init__(
        self,
        *,
        never=("max_tokens",),
        while_reasoning=REASONING,
        efforts=("medium", "none"),
        words="Unsupported parameter: '{}' is not supported with this model.",
        param=True,
        silent=False,
        status=400,
    ):
        self.never, self.while_reasoning, self.efforts, self.silent = never, while_reasoning, efforts, silent
        self.words, self.param, self.status = words, param, status
        self.said = "It is cold.\n\nIt is ice. And more."

    def refuse(self, name):
        error = {"message": self.words.format(name), "type": "invalid_request_error"}
        return self.status, {"error": error | ({"param": name} if self.param else {})}

    def __call__(self, method, path, body):
        if path == "/v1/models":
            return {"data": [{"id": "big", "owned_by": "openai"}]}
        if path != "/v1/chat/completions":
            return 404, {"error": {"message": f"no {path}"}}
        effort = body.get("reasoning_effort", next(iter(self.efforts), "none"))
        if "reasoning_effort" in body and effort not in self.efforts:
            return self.refuse("reasoning_effort")
        refused = [*self.never, *(self.while_reasoning if effort != "none" else ())]
        if found := [name for name in refused if name in body]:
            return self.refuse(found[0])
        if body.get("top_logprobs", 0) > 20:
            return self.refuse("top_logprobs")
        choice = {"message": {"content": self.said}, "finish_reason": "length"}
        if body.get("logprobs") and not self.silent:
            top = [{"token": token, "logprob": math.log(p)} for token, p in (("Yes", 0.6), ("No", 0.3))]
            top += [{"token": f"word{n}", "logprob": math.log(0.005)} for n in range(18)]
            choice["logprobs"] = {"content": [top[0] | {"top_logprobs": top}]}
        return {"model": "big", "choices": [choice], "usage": {"prompt_tokens": 9, "completion_tokens": 7}}


OF_GPT_5_5 = ("max_tokens", "stop", "seed")
PROMPTS = [Prompt(f"Is it {k}?") for k in range(5)]
SEEDS = range(len(PROMPTS))


def parts(engine):
    return dict(engine.signature.parts)


def test_a_model_that_reasons_is_asked_without_and_then_judges_and_writes():
    with Liar(Hosted(never=OF_GPT_5_5)) as server:
        engine = open_engine(server.url)
        n_before = len(server.asked)
        judged = label_log_probs(engine, PROMPTS, ("Yes", "No"))
        written = generate(engine, PROMPTS, Sampling(50, stop=("ice", "\n\n")), SEEDS)
        asked = [body for _, body in server.asked[n_before:]]
    assert judged.floors[0] == pytest.approx([math.log(0.6), math.log(0.3)])
    assert not judged.failures
    assert len(asked) == 2 * len(PROMPTS)  # what is refused was learnt when the server was opened
    assert all(body["reasoning_effort"] == "none" and "max_completion_tokens" in body for body in asked)
    texts = [body for body in asked if "logprobs" not in body]
    assert all(body["temperature"] == 0.7 and body["top_p"] == 0.9 for body in texts)
    assert {name for body in texts for name in OF_GPT_5_5 if name in body} == set()
    assert {(text.text, text.finish_reason) for text in written} == {("It is cold.", "stop")}
    assert parts(engine) == {
        "model": "big",
        "backend": "server-chat20",
        "chat": "server",
        "effort": "none",
        "server": "unknown",
    }


def test_what_a_writer_takes_under_no_effort_is_left_out_and_named():
    with Liar(Hosted(never=("max_tokens", "top_p", "temperature", "seed"))) as server:
        engine = open_engine(server.url)
        judged, written = label_log_probs(engine, PROMPTS, ("Yes", "No")), generate(engine, PROMPTS, Sampling(5), SEEDS)
        assert not {"top_p", "temperature", "seed"} & set(server.asked[-1][1])
    assert not judged.failures
    assert written[0].text == "It is cold.\n\nIt is ice. And more."  # no stop was asked for
    assert parts(engine)["effort"] == "none"
    assert parts(engine)["judging_without"] == "temperature"
    assert parts(engine)["writing_without"] == "temperature,top_p"


@pytest.mark.parametrize(
    ("never", "named"),
    [
        ((), {}),
        (("max_tokens",), {}),
        (("stop", "seed"), {}),
        (("top_p",), {"writing_without": "top_p"}),
    ],
)
def test_a_signature_changes_only_where_texts_or_answers_would(never, named):
    with Liar(Hosted(never=never, while_reasoning=())) as server:
        engine = open_engine(server.url)
        assert not label_log_probs(engine, PROMPTS, ("Yes", "No")).failures
        texts = generate(engine, PROMPTS, Sampling(50, stop=("\n\n",)), SEEDS)
        assert "reasoning_effort" not in server.asked[-1][1]  # as it was asked to judge
    assert all(text.text for text in texts)
    assert {name: value for name, value in parts(engine).items() if "without" in name or name == "effort"} == named


def test_a_temperature_that_is_refused_by_a_server_without_efforts_is_left_out():
    with Liar(Hosted(never=("temperature",), while_reasoning=(), efforts=())) as server:
        engine = open_engine(server.url)
        assert not label_log_probs(engine, PROMPTS, ("Yes", "No")).failures
        assert "reasoning_effort" not in server.asked[-1][1]
    assert "effort" not in parts(engine)
    assert parts(engine)["judging_without"] == parts(engine)["writing_without"] == "temperature"


def test_a_judge_that_takes_no_temperature_of_0_writes_at_its_temperature():
    model = Hosted(while_reasoning=(), efforts=())

    def warm(method, path, body):
        return model.refuse("temperature") if body.get("temperature") == 0 else model(method, path, body)

    with Liar(warm) as server:
        engine = open_engine(server.url)
        assert not label_log_probs(engine, PROMPTS, ("Yes", "No")).failures
        generate(engine, PROMPTS, Sampling(5), SEEDS)
        assert server.asked[-1][1]["temperature"] == 0.7
    assert parts(engine)["judging_without"] == "temperature"
    assert "writing_without" not in parts(engine)


@pytest.mark.parametrize(
    "model",
    [
        {"words": "{} cannot be used with this model", "param": False},
        {"words": "[{{'type': 'extra_forbidden', 'loc': ['body', '{}']}}]", "param": False, "status": 422},
        {"words": "Something is not supported.", "param": True},
    ],
)
def test_a_parameter_is_found_in_the_field_of_a_refusal_or_in_its_words(model):
    with Liar(Hosted(never=OF_GPT_5_5, **model)) as server:
        engine = open_engine(server.url)
        assert not label_log_probs(engine, PROMPTS, ("Yes", "No")).failures
        assert all(text.text for text in generate(engine, PROMPTS, Sampling(50), SEEDS))


@pytest.mark.parametrize(
    "model",
    [
        Hosted(efforts=("medium", "high")),
        Hosted(efforts=("medium",), words="You are not allowed to request {} from this model", param=False, status=403),
        Hosted(never=("logprobs",)),
        Hosted(while_reasoning=(), silent=True),
        Hosted(while_reasoning=(), silent=True, efforts=()),
    ],
    ids=["no effort none", "as o4-mini", "whatever the effort", "silently", "silently, no efforts"],
)
def test_a_server_without_log_probabilities_is_refused_in_one_sentence_that_says_what_to_do(model):
    with Liar(model) as server, pytest.raises(EngineError) as caught:
        open_engine(server.url)
    words = str(caught.value)
    assert "about big: chat: it reports no log-probabilities" in words
    assert "take another server, or a model that runs here (docs/servers.md)" in words
    assert "KeyError" not in words
    assert len(server.asked) <= 20


def test_log_probabilities_that_are_left_out_while_a_model_reasons_are_there_with_the_effort_none():
    model = Hosted(while_reasoning=())

    def quiet(method, path, body):
        model.silent = body.get("reasoning_effort") != "none"
        return model(method, path, body)

    with Liar(quiet) as server:
        engine = open_engine(server.url)
        assert not label_log_probs(engine, PROMPTS, ("Yes", "No")).failures
    assert parts(engine)["effort"] == "none"


def test_a_text_that_is_refused_later_fails_alone_with_the_servers_words():
    model = Hosted(while_reasoning=())
    with Liar(model) as server:
        engine = open_engine(server.url)
        model.never = ("max_tokens", "temperature")
        (text,) = generate(engine, PROMPTS[:1], Sampling(5, temperature=1.9), [0])
    assert isinstance(text, EngineError)
    assert "temperature" in str(text)
    assert "writing_without" not in parts(engine)


def test_a_busy_server_is_not_opened_as_one_that_takes_every_parameter():
    model = Hosted(while_reasoning=())

    def busy(method, path, body):
        return (429, {"error": {"message": "later"}}) if "seed" in body else model(method, path, body)

    with Liar(busy) as server, pytest.raises(ServerError, match="later"):
        Server(server.url)


def test_a_server_that_writes_nothing_judges_all_the_same():
    model = Hosted(while_reasoning=())

    def mute(method, path, body):
        return (500, {"error": {"message": "no texts"}}) if "seed" in body else model(method, path, body)

    with Liar(mute) as server:
        assert not label_log_probs(open_engine(server.url), PROMPTS, ("Yes", "No")).failures


@pytest.mark.parametrize(
    ("error", "named"),
    [
        (ServerError("'top_logprobs': at most 20", status=400), {"top_logprobs"}),
        (ServerError("no temperature, no top_p", status=422), {"temperature", "top_p"}),
        (ServerError("Use 'max_completion_tokens'", status=400, parameter="max_tokens"), {"max_tokens"}),
        (ServerError("refused", status=400, parameter="reasoning.effort"), {"reasoning_effort"}),
        (ServerError("stopped: unseeded", status=400, parameter="messages[0].content"), set()),
        (ServerError("temperature of the machine room: high", status=500), set()),
    ],
)
def test_only_whole_names_in_a_refusal_are_parameters(error, named):
    assert named_parameters(error) == named


def test_each_parameter_is_learnt_once():
    parameters = Parameters()
    refused = ServerError("temperature", status=400)
    assert [parameters.learn(refused) for _ in range(4)] == [True, True, False, False]
    assert parameters.sent({"temperature": 0, "max_tokens": 1}) == {"max_tokens": 1, "reasoning_effort": "none"}
