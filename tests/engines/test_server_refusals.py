"""Servers that refuse parameters, one in each refusal: what is sent to them then, what the signature says of it, and
what is said where no way to ask brings log-probabilities."""

import math

import pytest

from synthscore.engine import Prompt, Sampling, generate, label_log_probs
from synthscore.engines import open_engine, open_judge
from synthscore.engines.servers.parameters import Parameters, named_parameters
from synthscore.engines.servers.server import Server
from synthscore.engines.words import LONG, InWords
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
def test_a_judge_without_log_probabilities_is_refused_in_one_sentence_that_says_what_to_do(model):
    with Liar(model) as server:
        engine = open_engine(server.url)  # it can write
        assert len(server.asked) <= 25
        with pytest.raises(EngineError) as caught:
            label_log_probs(engine, PROMPTS, ("Yes", "No"))
        (text,) = generate(engine, PROMPTS[:1], Sampling(5), [0])
    assert str(caught.value).endswith("reports no log-probabilities. Ask it in words: --answers words")
    assert str(caught.value).startswith(f"the model big on {server.url}")
    assert text.text.startswith("It is cold.")


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


# ------------------------------------------------------------------------------------------------- in words


class Speaking(Hosted):
    """A hosted model without log-probabilities, which says Yes; and what it takes to make it say a label.

    constrains : the fields by which it is held to labels; others are refused. thinks : reasoning that it shows, unless
    the effort is none and it takes that
    """

    def __init__(self, *, constrains=("response_format",), thinks=False, says="Yes", ends="stop", **options):
        options.setdefault("while_reasoning", ("logprobs", "top_logprobs"))
        super().__init__(**options)
        self.constrains, self.thinks, self.says, self.ends = constrains, thinks, says, ends

    def __call__(self, method, path, body):
        fields = {"response_format", "structured_outputs", "regex", "grammar"} & set(body)
        if refused := sorted(fields - set(self.constrains)):
            return self.refuse(refused[0])
        reply = super().__call__(method, path, body)
        if "choices" not in reply:
            return reply
        thinking = self.thinks and body.get("reasoning_effort") != "none"
        message = {"content": self.says, **({"reasoning": "Let me see."} if thinking else {})}
        if thinking and (body.get("max_completion_tokens") or body.get("max_tokens", 0)) < 1000:
            message["content"], ends = None, "length"
        else:
            ends = self.ends
        reply["choices"] = [{"message": message, "finish_reason": ends}]
        return reply


def in_words(server, **options):
    return InWords(open_engine(server.url, method="words", **options), 2)


def test_a_model_without_log_probabilities_judges_in_words_held_to_the_labels_by_a_schema():
    with Liar(Speaking(never=("max_tokens", "logprobs"), says='{"verdict": "Yes"}')) as server:
        engine = in_words(server)
        answers = label_log_probs(engine, PROMPTS[:2], ("Yes", "No"))
        asked = [body for path, body in server.asked if path == "/v1/chat/completions"][-1]
    assert answers.probs.tolist() == [[1, 0], [1, 0]]
    assert answers.n_samples.tolist() == [2, 2]
    assert asked["response_format"]["json_schema"]["schema"]["properties"]["verdict"]["enum"] == ["Yes", "No"]
    assert "logprobs" not in asked
    assert parts(engine) | {"backend": "server-words", "constrained": "response_format", "votes": "2"} == parts(engine)


def test_a_server_that_takes_no_schema_is_asked_without_and_its_last_line_is_read():
    with Liar(Speaking(constrains=(), says="I would say:\nYes.")) as server:
        engine = in_words(server)
        answers = label_log_probs(engine, PROMPTS[:1], ("Yes", "No"))
    assert answers.probs.tolist() == [[1, 0]]
    assert parts(engine)["constrained"] == "no"


def test_a_model_that_reasons_by_itself_is_asked_not_to_and_where_it_does_all_the_same_it_has_room():
    with Liar(Speaking(thinks=True, while_reasoning=())) as server:
        assert parts(in_words(server))["effort"] == "none"
    with Liar(Speaking(thinks=True, while_reasoning=(), efforts=("low", "high"))) as server:
        engine = in_words(server)
        answers = label_log_probs(engine, PROMPTS[:1], ("Yes", "No"))
        assert server.asked[-1][1].get("max_completion_tokens") == LONG
    assert not answers.failures
    assert "effort" not in parts(engine)


def test_the_effort_that_the_user_asks_for_is_sent_with_every_question_and_signed():
    with Liar(Speaking(thinks=True, while_reasoning=("temperature", "top_p"))) as server:
        engine = in_words(server, reasoning_effort="medium")
        label_log_probs(engine, PROMPTS[:1], ("Yes", "No"))
        asked = server.asked[-1][1]
    assert asked["reasoning_effort"] == "medium"
    assert "temperature" not in asked
    assert parts(engine)["effort"] == "medium"
    assert parts(engine)["judging_without"] == "temperature,top_p"


def test_an_effort_that_the_server_does_not_know_is_an_error_and_not_left_out():
    with Liar(Speaking()) as server, pytest.raises(ServerError, match="reasoning_effort"):
        in_words(server, reasoning_effort="enormous")


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (Speaking(says="I cannot help with that."), "the answer ends in 'I cannot help with that.'"),
        (Speaking(says="Yes", ends="length"), "the answer was cut after"),
        (Speaking(says="", ends="content_filter"), "the model or its provider refused"),
    ],
)
def test_what_is_no_label_fails_its_question_with_the_reason(model, why):
    with Liar(model) as server:
        answers = label_log_probs(in_words(server), PROMPTS[:1], ("Yes", "No"))
    assert why in answers.failures[0]


def test_auto_takes_words_where_a_server_offers_nothing_else(tmp_path):
    with Liar(Speaking(never=("max_tokens", "logprobs", "top_logprobs"))) as server:
        judge = open_judge(server.url, tmp_path / "answers.sqlite", answers="auto", n_votes=3)
        assert parts(judge)["votes"] == "3"
    with Liar(Hosted(while_reasoning=())) as server:
        judge = open_judge(server.url, tmp_path / "answers.sqlite", answers="auto", n_votes=3)
        assert parts(judge)["backend"].startswith("server-chat")


def test_a_question_in_words_has_the_types_of_openais_own_package():
    from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
    from pydantic import ConfigDict, TypeAdapter

    with Liar(Hosted()) as server:
        judge = open_judge(f"{server.url}#big", "none", answers="words")
        label_log_probs(judge, [Prompt("Which?")], ("Better", "Worse"))
        (body,) = [body for path, body in server.asked][-1:]
    typed = CompletionCreateParamsNonStreaming
    typed.__pydantic_config__ = ConfigDict(extra="forbid")
    assert body["response_format"]["json_schema"]["schema"]["properties"]["verdict"]["enum"] == ["Better", "Worse"]
    TypeAdapter(typed).validate_python(body)
    with pytest.raises(ValueError, match="verdicts"):
        TypeAdapter(typed).validate_python(body | {"verdicts": 1})
