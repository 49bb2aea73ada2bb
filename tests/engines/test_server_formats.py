"""What servers of each software say, word for word, and what is made of it. Each reply names where it is from.

Recorded: of servers that ran SmolLM2-135M-Instruct.Q4_1.gguf; numbers are the model's, ids its tokenizer's. Written by
a source: nobody ran that server here; form and limits are those of the file that is named.
"""

import math
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthscore.engine import Prompt, Question, label_log_probs
from synthscore.engines import open_engine
from synthscore.engines.servers.routes import Chat, ChosenIds, Generate, TopIds, number, usage_of
from synthscore.engines.servers.served import stable_name
from synthscore.engines.servers.server import Server
from synthscore.engines.servers.steps import unbiased
from synthscore.errors import EngineError, ServerError, SynthscoreWarning
from synthscore.types import Usage
from tests.servers import LABELS, PROMPTS, Liar, forward, refusal

pytestmark = pytest.mark.filterwarnings("ignore:.* reports neither its version nor its model's weights")

BETTER, WORSE, SIMILAR, THE, YES = 38169, 71, 14609, 504, 10539


def entry(token, text, **value):
    return {"id": token, "token": text, "bytes": list(text.encode()), **value}


# POST /completion of llama-server (llama.cpp of October 2026, in xllamacpp 2026.10.11549), with logit_bias 4 on Better,
# W and Similar, samplers ["temperature"], temperature 1, post_sampling_probs, n_probs 6.
LLAMA_SERVER_BIASED = {
    "index": 0,
    "content": "The",
    "tokens": [],
    "stop": True,
    "model": "models/SmolLM2-135M-Instruct.Q4_1.gguf",
    "tokens_predicted": 1,
    "tokens_evaluated": 22,
    "stop_type": "limit",
    "tokens_cached": 22,
    "timings": {"cache_n": 1, "prompt_n": 21, "predicted_n": 1},
    "completion_probabilities": [
        entry(THE, "The", prob=0.24759985506534576)
        | {
            "top_probs": [
                entry(BETTER, "Better", prob=0.41819411516189575),
                entry(THE, "The", prob=0.24759985506534576),
                entry(YES, "Yes", prob=0.04847600683569908),
                entry(57, "I", prob=0.043715305626392365),
                entry(5230, "No", prob=0.022103656083345413),
                entry(4182, "Is", prob=0.02001119591295719),
            ]
        }
    ],
}

# POST /v1/completions of the same server about the same prompt, logprobs 2, no bias.
LLAMA_SERVER_TOP = {
    "choices": [
        {
            "text": "The",
            "index": 0,
            "logprobs": {
                "content": [
                    entry(THE, "The", logprob=-0.8614083528518677)
                    | {
                        "top_logprobs": [
                            entry(THE, "The", logprob=-0.8614083528518677),
                            entry(YES, "Yes", logprob=-2.4921534061431885),
                        ]
                    }
                ]
            },
            "finish_reason": "length",
        }
    ],
    "model": "models/SmolLM2-135M-Instruct.Q4_1.gguf",
    "object": "text_completion",
    "usage": {"completion_tokens": 1, "prompt_tokens": 22, "prompt_tokens_details": {"cached_tokens": 21}},
}


def place(token, log_prob, **top):
    entries = [{"token": text, "logprob": value, "bytes": None} for text, value in top.items()]
    return {"token": token, "logprob": log_prob, "bytes": None, "top_logprobs": entries}


# POST /v1/chat/completions of llama_cpp.server 0.3.36, top_logprobs 2, max_tokens 2, grammar: root ::= "W" "\n"
LLAMA_CPP_PYTHON_SPELLED = {
    "object": "chat.completion",
    "model": "m",
    "choices": [
        {
            "index": 0,
            "message": {"content": "W\n", "role": "assistant"},
            "logprobs": {
                "content": [
                    place("W", -6.650807857513428, The=-1.035596489906311, I=-2.7497801780700684, W=-6.650807857513428),
                    place(
                        "\n",
                        -13.304814338684082,
                        **{"orse": -0.09895989298820496, "or": -3.223658561706543, "\n": -13.304814338684082},
                    ),
                ],
                "refusal": None,
            },
            "finish_reason": "length",
        }
    ],
    "usage": {"prompt_tokens": 43, "completion_tokens": 2, "total_tokens": 45},
}

# POST /v1/completions of vLLM 0.33.0, logprob_token_ids and return_tokens_as_token_ids, as written by
# vllm/entrypoints/openai/completion/protocol.py (CompletionLogProbs) and serving.py; -9999 stands for -inf there.
VLLM_CHOSEN = {
    "id": "cmpl-1",
    "object": "text_completion",
    "model": "m",
    "choices": [
        {
            "index": 0,
            "text": "The",
            "logprobs": {
                "text_offset": [0],
                "token_logprobs": [-0.5],
                "tokens": ["token_id:504"],
                "top_logprobs": [{"token_id:504": -0.5, "token_id:38169": -1.25, "token_id:71": -9999.0}],
            },
            "finish_reason": "length",
            "stop_reason": None,
        }
    ],
    "usage": {"prompt_tokens": 22, "total_tokens": 23, "completion_tokens": 1, "prompt_tokens_details": None},
}

# POST /generate of SGLang 0.5.23, token_ids_logprob, as written by sglang/srt/managers/tokenizer_manager.py
# (detokenize_logprob_tokens: log-probability, id, None unless texts are asked for).
SGLANG_CHOSEN = {
    "text": "The",
    "output_ids": [504],
    "meta_info": {
        "id": "1",
        "finish_reason": {"type": "length", "length": 1},
        "prompt_tokens": 22,
        "completion_tokens": 1,
        "cached_tokens": 16,
        "input_token_logprobs": [],
        "output_token_logprobs": [[-0.5, 504, None]],
        "output_top_logprobs": [[[-0.5, 504, None]]],
        "output_token_ids_logprobs": [[[-1.25, 38169, None], [-9.5, 71, None]]],
    },
}

# POST /v1/chat/completions: OpenAI's reference of the chat object (openai 3.54.0: types/chat/), logprobs and
# top_logprobs; Ollama answers alike (openai/openai.go of August 2026).
OPENAI_TOP = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "model": "big-2026-08-06",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Better", "refusal": None},
            "logprobs": {
                "content": [
                    {
                        "token": "Better",
                        "logprob": -0.5,
                        "bytes": [66, 101, 116, 116, 101, 114],
                        "top_logprobs": [
                            {"token": "Better", "logprob": -0.5, "bytes": [66, 101, 116, 116, 101, 114]},
                            {"token": "Worse", "logprob": -1.25, "bytes": [87, 111, 114, 115, 101]},
                        ],
                    }
                ],
                "refusal": None,
            },
            "finish_reason": "length",
        }
    ],
    "usage": {"prompt_tokens": 22, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 0}},
}


def read(route, reply, wanted=(), top_k=2):
    return route.ask(lambda body, reads: reads(reply), {} if isinstance(route, Chat) else [1, 2], wanted, top_k)


@pytest.mark.parametrize(
    ("route", "reply", "wanted", "reported", "used"),
    [
        (TopIds(), LLAMA_SERVER_TOP, (), {THE: -0.8614083528518677, YES: -2.4921534061431885}, (22, 21)),
        (ChosenIds(), VLLM_CHOSEN, (BETTER, WORSE), {THE: -0.5, BETTER: -1.25, WORSE: -math.inf}, (22, None)),
        (Generate(), SGLANG_CHOSEN, (BETTER, WORSE), {THE: -0.5, BETTER: -1.25, WORSE: -9.5}, (22, 16)),
        (Chat(), OPENAI_TOP, (), {"Better": -0.5, "Worse": -1.25}, (22, 0)),
        (Chat(), LLAMA_CPP_PYTHON_SPELLED, ("W",), {"orse": -0.09896, "or": -3.22366, "\n": -13.3048}, (43, None)),
    ],
)
def test_each_form_of_a_reply_is_read(route, reply, wanted, reported, used):
    step = read(route, reply, wanted)
    assert step.reported == pytest.approx(reported, abs=1e-4)
    assert (usage_of(reply).n_in, usage_of(reply).n_cached) == (used[0], used[1] or 0)


@pytest.mark.parametrize(
    ("reply", "usage"),
    [
        (
            {
                "usage": {
                    "prompt_tokens": 100,
                    "prompt_tokens_details": {"cached_tokens": 60},
                    "completion_tokens": 50,
                    "completion_tokens_details": {"reasoning_tokens": 45},
                }
            },
            Usage(n_in=100, n_computed=40, n_out=50, n_reasoning=45),
        ),
        (  # Anthropic's input tokens leave out what is read from a cache, or written to it
            {
                "usage": {
                    "input_tokens": 10,
                    "cache_read_input_tokens": 60,
                    "cache_creation_input_tokens": 30,
                    "output_tokens": 50,
                    "output_tokens_details": {"thinking_tokens": 45},
                }
            },
            Usage(n_in=100, n_computed=40, n_out=50, n_reasoning=45),
        ),
        (
            {
                "usage": {
                    "input_tokens": 100,
                    "input_tokens_details": {"cached_tokens": 60},
                    "output_tokens": 50,
                    "output_tokens_details": {"reasoning_tokens": 45},
                }
            },
            Usage(n_in=100, n_computed=40, n_out=50, n_reasoning=45),
        ),
        (
            {"usage": {"prompt_tokens": 100, "prompt_cache_hit_tokens": 60, "completion_tokens": 5}},
            Usage(n_in=100, n_computed=40, n_out=5),
        ),
        (
            {"tokens_evaluated": 100, "timings": {"cache_n": 60}, "tokens_predicted": 1},
            Usage(n_in=100, n_computed=40, n_out=1),
        ),
        ({"usage": {"prompt_tokens": "100", "completion_tokens": -5}}, Usage()),
        ({"usage": {"prompt_tokens": True, "prompt_tokens_details": "none", "completion_tokens": 1e9}}, Usage()),
        ({"usage": None}, Usage()),
        ({"usage": [1]}, Usage()),
        ({}, Usage()),
    ],
)
def test_the_tokens_of_a_reply_are_read_in_the_words_of_any_server(reply, usage):
    assert usage_of(reply) == usage


def test_a_beginning_that_was_spelled_in_other_tokens_says_nothing():
    step = read(Chat(), LLAMA_CPP_PYTHON_SPELLED, ("Wo",))
    assert (dict(step.reported), step.unseen, step.rest) == ({}, 0.0, 0.0)
    assert read(Chat(), LLAMA_CPP_PYTHON_SPELLED, ("W", "\n")).unseen == 0.0  # nothing is behind it


@pytest.mark.parametrize("value", [-9999.0, -3.4028234663852886e38])
def test_what_stands_for_impossible_is_impossible(value):
    assert number(value) == -math.inf
    assert number(-9998.0) == -9998.0


# ------------------------------------------------------------------------------------------------- biases


def test_a_recorded_biased_reply_says_what_the_reply_without_a_bias_does():
    told = [(e["id"], e["prob"]) for e in LLAMA_SERVER_BIASED["completion_probabilities"][0]["top_probs"]]
    step, _ = unbiased(told, {BETTER: 4.0})
    # The two replies were a cold and a warm run, which this server's quantised arithmetic sets .02 nats apart.
    assert step.reported[THE] == pytest.approx(-0.8614083528518677, abs=0.03)
    assert step.reported[YES] == pytest.approx(-2.4921534061431885, abs=0.03)


@given(st.integers(0, 2**32 - 1), st.floats(-6, 8))
@settings(max_examples=60)
def test_a_bias_is_taken_out_to_the_rounding_of_float32(seed, size):
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 4, 300)
    bias = {token: size + float(rng.normal()) for token in range(4)}
    p = np.exp(logits - np.logaddexp.reduce(logits))
    q = p * np.exp([bias.get(token, 0.0) for token in range(300)])
    q = (q / q.sum()).astype(np.float32)
    step, better = unbiased([(token, float(q[token])) for token in np.argsort(-q)], bias)
    if not better:
        assert [step.reported[token] for token in range(300)] == pytest.approx(np.log(p).tolist(), abs=5e-5)
        assert (step.unseen, step.rest) == (-math.inf, -math.inf)


def test_a_token_that_is_not_among_those_told_asks_for_a_larger_bias_and_has_a_bound_until_then():
    step, better = unbiased([(9, 0.7), (1, 0.2), (8, 0.05)], {1: 2.0, 2: 2.0})
    assert better[2] == 8.0
    z = 1 / (1 - 0.2 + 0.2 * math.exp(-2))
    assert step.reported[1] == pytest.approx(math.log(0.2 * math.exp(-2) * z))
    assert step.reported[9] == pytest.approx(math.log(0.7 * z))
    assert step.most(1) == pytest.approx(math.log(0.05 * math.exp(-2) * z))


class LlamaServer:
    """llama-server around the numbers of our own server: /completion with biases, /v1/completions by id."""

    def __init__(self, url, *, suppressed=()):
        self.url, self.suppressed = url, suppressed

    def top(self, ids):
        asked = {"model": "tiny", "prompt": ids, "max_tokens": 1, "temperature": 0, "logprobs": 427}
        reply = forward(self.url, "POST", "/v1/completions", asked | {"return_tokens_as_token_ids": True})
        told = reply["choices"][0]["logprobs"]["top_logprobs"][0]
        return {int(token.split(":")[1]): log_prob for token, log_prob in told.items()}

    def __call__(self, method, path, body):
        if path == "/v1/models":
            return {"data": [{"id": "/srv/models/tiny.gguf", "owned_by": "llamacpp", "meta": {"n_vocab": 427}}]}
        if path == "/props":
            return {"build_info": "b7000-abc"}
        if path == "/tokenize":
            return forward(self.url, method, path, {"model": "tiny", "prompt": body["content"]})
        if path == "/v1/completions":
            told = sorted(self.top(body["prompt"]).items(), key=lambda one: -one[1])[: body["logprobs"]]
            entries = [entry(token, "?", logprob=log_prob) for token, log_prob in told]
            choice = {"logprobs": {"content": [entries[0] | {"top_logprobs": entries}]}}
            return {"choices": [choice], "model": "/srv/models/tiny.gguf", "usage": {"prompt_tokens": 1}}
        if path != "/completion":
            return refusal(404, "File Not Found")
        told = self.top(body["prompt"])
        bias = dict(map(tuple, body["logit_bias"])) | dict.fromkeys(self.suppressed, -math.inf)
        q = np.exp([log_prob + bias.get(token, 0.0) for token, log_prob in told.items()])
        q = (q / q.sum()).astype(np.float32)
        best = sorted(zip(told, q.tolist(), strict=True), key=lambda one: -one[1])[: body["n_probs"]]
        entries = [entry(token, "?", prob=prob) for token, prob in best]
        probs = [entries[0] | {"top_probs": entries}]
        return {"completion_probabilities": probs, "tokens_evaluated": 5, "timings": {"cache_n": 4}}


def test_llama_server_with_a_tokenizer_tells_every_label_exactly(url, folder, local):
    with Liar(LlamaServer(url)) as server:
        engine = open_engine(server.url, tokenizer=folder)
        n_before = len(server.asked)
        there, here = label_log_probs(engine, PROMPTS, LABELS), label_log_probs(local, PROMPTS, LABELS)
        biased = [body for path, body in server.asked[n_before:] if path == "/completion"]
    assert str(engine.signature).split("|")[:2] == ["model:tiny.gguf", "backend:server-bias"]
    np.testing.assert_allclose(there.log_probs, here.log_probs, atol=5e-5)
    assert there.censored is None
    assert all(body["samplers"] == ["temperature"] and body["post_sampling_probs"] for body in biased)


def test_a_server_that_suppresses_a_label_is_not_asked_through_biases(url, folder):
    yes = Server(url, tokenizer=folder).tokens.question(Prompt("Ice?"), ("Yes",))[1].forms[0][0][0]
    with Liar(LlamaServer(url, suppressed=[yes])) as server:
        assert Server(server.url, tokenizer=folder, top_k=427).method == "topk"
        with pytest.raises(EngineError, match=r"bias: its log-probabilities .* are not those of topk"):
            Server(server.url, tokenizer=folder, top_k=427, method="bias")


def test_biases_that_were_good_for_one_prompt_are_tried_first_with_the_next(url, folder):
    with Liar(LlamaServer(url)) as server:
        client = Server(server.url, tokenizer=folder)
        client.answer(Question(PROMPTS[0], ("A", "B")))
        n_before = len(server.asked)
        client.answer(Question(PROMPTS[0], ("A", "B")))
        assert len(server.asked) == n_before + 1


# ------------------------------------------------------------------------------------------------- llama_cpp.server


def llama_cpp_python(method, path, body):
    """Text alone; as many tokens as one likes; a grammar that the log-probabilities know nothing of."""
    if path == "/v1/models":
        return {"object": "list", "data": [{"id": "/models/x.gguf", "object": "model", "owned_by": "me"}]}
    if path == "/openapi.json":
        return {"info": {"title": "llama.cpp Python API", "version": "0.3.36"}}
    if path != "/v1/chat/completions":
        return 404, {"detail": "Not Found"}
    first = {"Better": 0.5, " Better": 0.1, "W": 0.3, "The": 0.05, "Similar": 0.02}
    places = [("W" if "grammar" in body else "Better", first), ("\n", {"orse": 0.9, "or": 0.05})]
    filler = {f"x{i}": 0.03 / 995 for i in range(995)}
    content = [
        place(token, -1.0, **{text: math.log(p) for text, p in (probs | filler).items()}) for token, probs in places
    ]
    choice = {"message": {"content": "?"}, "logprobs": {"content": content[: body["max_tokens"]]}}
    return {"model": body["model"], "choices": [choice], "usage": {"prompt_tokens": 9}}


def test_llama_cpp_server_is_asked_for_a_thousand_tokens_and_spells_what_labels_begin_with():
    with Liar(llama_cpp_python) as server:
        engine = open_engine(server.url)
        told = label_log_probs(engine, [Prompt("Which?")], ("Better", "Worse", "Similar"))
        assert [body.get("grammar") for _, body in server.asked[-2:]] == [None, 'root ::= "W" "\\n"']
    assert str(engine.signature) == "model:x.gguf|backend:server-chat1000|chat:server|server:llama-cpp-python/0.3.36"
    assert np.exp(told.floors[0]) == pytest.approx([0.6, 0.27, 0.02])
    assert told.unreported[0] < 3e-4


def test_a_model_that_is_owned_by_me_need_not_be_llama_cpp_servers():
    def other(method, path, body):
        if path == "/openapi.json":
            return {"info": {"title": "My judge", "version": "1"}}
        return llama_cpp_python(method, path, body)

    with Liar(other) as server, pytest.warns(SynthscoreWarning, match="reports neither its version"):
        (member,) = open_engine(server.url)._members
    assert (member.server.server, member.in_flight) == ("me", 16)


def test_llama_cpp_server_takes_no_tokenizer(folder):
    with (
        Liar(llama_cpp_python) as server,
        pytest.raises(EngineError, match=r"takes text alone.*Leave the tokenizer out"),
    ):
        open_engine(server.url, tokenizer=folder)


# ------------------------------------------------------------------------------------------------- who answers


def hosted(name="big-2026-08-06", most=20, listed=True, status=400):
    def answer(method, path, body):
        if path == "/v1/models":
            if listed is not True:
                return listed
            return {"data": [{"id": "big", "owned_by": "openai"}, {"id": "small", "owned_by": "openai"}]}
        if path != "/v1/chat/completions":
            return refusal(404, f"no {path}")
        if body.get("top_logprobs", 0) > most:
            return refusal(status, f"Invalid value for 'top_logprobs': must be less than or equal to {most}.")
        return OPENAI_TOP | {"model": name() if callable(name) else name}

    return answer


@pytest.mark.parametrize("status", [400, 422, 500])
def test_as_many_tokens_are_asked_for_as_a_hosted_model_gives(status):
    with Liar(hosted(status=status)) as server:
        told = label_log_probs(open_engine(f"{server.url}#big"), [Prompt("?")], ("Better", "Worse", "Similar"))
        sizes = {body["top_logprobs"] for _, body in server.asked if "logprobs" in body}
        assert sizes == {1000, 100, 20, 5}  # it tells 2
    most = np.exp(told.log_probs[0])
    rest = 1 - math.exp(-0.5) - math.exp(-1.25)
    assert most[2] == pytest.approx(rest, abs=1e-4)  # no more than is left over, whatever the last one told
    assert np.exp(told.floors[0])[2] == 0


def test_a_model_that_answers_under_another_name_is_signed_as_that_one():
    with Liar(hosted()) as server:
        assert str(Server(f"{server.url}", "big").signature).startswith("model:big-2026-08-06|")


def test_a_server_that_changes_its_model_fails_the_question():
    names = ["big-2026-08-06"]
    with Liar(hosted(lambda: names[0])) as server:
        client = Server(server.url, "big")
        names[0] = "big-2026-11-20"
        with pytest.raises(ServerError, match="answered as 'big-2026-11-20', and as 'big-2026-08-06' before"):
            client.answer(Question(Prompt("?"), ("Better", "Worse")))


@pytest.mark.parametrize("listed", [{"data": []}, refusal(500, "no cache"), refusal(404, "no such path")])
def test_a_named_model_needs_no_list_of_models(listed):
    with Liar(hosted(listed=listed)) as server:
        client = Server(server.url, "big")
        client.check()
        with pytest.raises(EngineError):
            Server(server.url)
    with pytest.raises(ServerError):
        client.check()  # nobody is there


def test_a_refused_key_is_not_taken_for_a_missing_list():
    with Liar(hosted(listed=refusal(401, "wrong key"))) as server, pytest.raises(ServerError, match="wrong key"):
        Server(server.url, "big")


@pytest.mark.parametrize(
    ("name", "stable"),
    [
        ("Qwen/Qwen3-8B", "Qwen/Qwen3-8B"),
        ("gpt-4o", "gpt-4o"),
        ("/srv/models/Qwen3-8B/", "Qwen3-8B"),
        ("~/models/x.gguf", "x.gguf"),
        ("models/x.gguf", "x.gguf"),
        ("C:\\models\\x.gguf", "x.gguf"),
    ],
)
def test_a_path_in_a_signature_is_its_last_part(name, stable):
    assert stable_name(name) == stable


# ------------------------------------------------------------------------------------------------- a real one

REAL = os.environ.get("SYNTHSCORE_TEST_SERVER", "")


@pytest.mark.skipif(not REAL, reason="no server is named in SYNTHSCORE_TEST_SERVER (http://HOST:PORT/v1#MODEL)")
def test_a_real_server_tells_every_label_of_every_question():
    asked = [
        Prompt(f"{n} ships sail. Is that better than {m}? Answer Better, Worse or Similar.")
        for n in range(8)
        for m in range(10)
    ]
    told = label_log_probs(open_engine(REAL), asked, ("Better", "Worse", "Similar"))
    assert not told.failures
    assert (told.unreported < 0.02).all()
