"""What servers of each software say, word for word, and what is made of it. Each reply names where it is from.

Recorded: of servers that ran SmolLM2-135M-Instruct.Q4_1.gguf; numbers are the model's, ids its tokenizer's. Written by
a source: nobody ran that server here; form and limits are those of the file that is named.
"""

import math
import os

import numpy as np
import pytest

from synthscore.engine import Prompt, Question, label_log_probs
from synthscore.engines import open_engine
from synthscore.engines.servers.routes import Chat, ChosenIds, Generate, TopIds, number
from synthscore.engines.servers.served import stable_name
from synthscore.engines.servers.server import Server
from synthscore.errors import EngineError, ServerError
from tests.servers import Liar, refusal

BETTER, WORSE, SIMILAR, THE, YES = 38169, 71, 14609, 504, 10539


def entry(token, text, **value):
    return {"id": token, "token": text, "bytes": list(text.encode()), **value}


# POST /v1/completions of llama-server (llama.cpp of October 2026, in xllamacpp 2026.10.11549), logprobs 2.
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
    step = route.step(reply, wanted, 2)
    assert step.reported == pytest.approx(reported, abs=1e-4)
    assert route.used(reply) == used


def test_a_beginning_that_was_spelled_in_other_tokens_says_nothing():
    step = Chat().step(LLAMA_CPP_PYTHON_SPELLED, ("Wo",), 2)
    assert (dict(step.reported), step.unseen, step.rest) == ({}, 0.0, 0.0)
    assert Chat().step(LLAMA_CPP_PYTHON_SPELLED, ("W", "\n"), 2).unseen == 0.0  # nothing is behind it


@pytest.mark.parametrize("value", [-9999.0, -3.4028234663852886e38])
def test_what_stands_for_impossible_is_impossible(value):
    assert number(value) == -math.inf
    assert number(-9998.0) == -9998.0


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
        if body["top_logprobs"] > most:
            return refusal(status, f"Invalid value for 'top_logprobs': must be less than or equal to {most}.")
        return OPENAI_TOP | {"model": name() if callable(name) else name}

    return answer


@pytest.mark.parametrize("status", [400, 422, 500])
def test_as_many_tokens_are_asked_for_as_a_hosted_model_gives(status):
    with Liar(hosted(status=status)) as server:
        told = label_log_probs(open_engine(f"{server.url}#big"), [Prompt("?")], ("Better", "Worse", "Similar"))
        assert {body["top_logprobs"] for _, body in server.asked} == {1000, 100, 20, 5}  # it tells 2
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
