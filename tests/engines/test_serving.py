"""`synthscore serve` from the other side of the socket, with plain HTTP."""

import http.client
import json
import math
import threading
import time
import urllib.error
import urllib.request
from urllib.parse import urlsplit

import pytest

from synthscore.cli.app import main
from synthscore.engine import Prompt, Sampling, generate, label_log_probs
from synthscore.engines import open_engine
from tests.model_server import ModelServer, _ModelThread
from tests.models import save_model
from tests.servers import LABELS, PROMPTS


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    return open_engine(save_model(tmp_path_factory.mktemp("models") / "tiny"))


@pytest.fixture(scope="module")
def url(engine):
    server = ModelServer(engine, "nowhere")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.url
    server.close()
    thread.join()


def post(url, path, **body):
    """The reply, or (status, message) of a refusal."""
    data = json.dumps({"model": "tiny"} | body).encode()
    request = urllib.request.Request(url + path, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            return json.load(reply)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)["error"]["message"]


def get(url):
    with urllib.request.urlopen(url, timeout=30) as reply:
        return json.load(reply)


def asked(prompts=PROMPTS):
    return [{"text": prompt.text, "prefill": prompt.prefill} for prompt in prompts]


def test_a_server_says_that_it_is_well_and_what_it_serves(url, engine):
    assert get(url.removesuffix("/v1") + "/health") == {"status": "ok"}
    (entry,) = get(url + "/models")["data"]
    assert (entry["id"], entry["owned_by"], entry["max_model_len"]) == ("tiny", "vllm", 256)


def test_requests_that_wait_are_asked_together():
    gate, calls = threading.Event(), []
    model = _ModelThread()

    def ask(items):
        calls.append(list(items))
        gate.wait(10)
        return [10 * item for item in items]

    answers = {}
    threads = [
        threading.Thread(target=lambda n=n: answers.setdefault(n, model.ask(("k", n == 4), [n, n], ask)))
        for n in range(5)
    ]
    threads[0].start()
    while not calls:
        time.sleep(0.001)
    for thread in threads[1:]:
        thread.start()
    while model._tasks.qsize() < 4:
        time.sleep(0.001)
    gate.set()
    for thread in threads:
        thread.join()
    model.close()
    assert answers == {n: [10 * n, 10 * n] for n in range(5)}
    assert sorted(map(len, calls)) == [2, 2, 6]  # the first; the one of another kind; the three that waited


def test_a_failure_of_the_model_reaches_all_who_asked_and_the_next_is_served():
    model = _ModelThread()

    def fail(items):
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        model.ask(("k",), [1], fail)
    assert model.ask(("k",), [1], lambda items: items) == [1]
    model.close()


def test_the_most_probable_tokens_of_a_chat_are_those_of_the_model(url, engine):
    messages = [{"role": "user", "content": PROMPTS[0].text}]
    reply = post(
        url, "/chat/completions", messages=messages, max_tokens=1, temperature=0, logprobs=True, top_logprobs=5
    )
    (content,) = reply["choices"][0]["logprobs"]["content"]
    told = [entry["logprob"] for entry in content["top_logprobs"]]
    assert len(told) == 5
    assert told == sorted(told, reverse=True)
    assert content["logprob"] == told[0]
    rival = label_log_probs(engine, PROMPTS[:1], LABELS).other_tokens[0]
    assert rival.log_prob == pytest.approx(told[0], abs=1e-5)
    assert content["top_logprobs"][0]["token"] == rival.token
    assert reply["usage"]["prompt_tokens"] == len(engine.prompts.encode(PROMPTS[0]))


def test_a_chat_goes_on_from_the_beginning_of_an_answer(url, engine):
    begun = [{"role": "user", "content": "Who?"}, {"role": "assistant", "content": "The"}]
    how = {"max_completion_tokens": 5, "temperature": 0, "stop": "zzz"}
    reply = post(url, "/chat/completions", messages=begun, continue_final_message=True, **how)
    (here,) = generate(engine, [Prompt("Who?", "The")], Sampling(5, 0), [0])
    choice = reply["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == (here.text, here.finish_reason)
    assert reply["usage"]["completion_tokens"] == here.n_tokens


def test_completions_take_text_or_token_ids_and_no_template(url, engine):
    ids = engine.prompts.tokenizer("Who is it?")["input_ids"]
    how = {"max_tokens": 4, "temperature": 0}
    a, b = (post(url, "/completions", prompt=prompt, **how) for prompt in ("Who is it?", ids))
    assert a["choices"] == b["choices"]
    assert a["usage"] == {"prompt_tokens": len(ids), "completion_tokens": 4, "total_tokens": len(ids) + 4}
    assert post(url.removesuffix("/v1"), "/tokenize", prompt="Who is it?") == {"tokens": ids}


def test_a_seed_draws_the_same_text_again(url):
    how = {"prompt": "Who?", "max_tokens": 12, "temperature": 1.5, "top_p": 0.9}
    first, again, other = (post(url, "/completions", seed=seed, **how)["choices"] for seed in (1, 1, 2))
    assert first == again != other


@pytest.mark.parametrize("temperature", [0, 1])
def test_chats_and_completions_write_the_same_whatever_the_model_prefers(url, engine, monkeypatch, temperature):
    monkeypatch.setattr(engine.model.generation_config, "repetition_penalty", 20.0)
    monkeypatch.setattr(engine.model.generation_config, "suppress_tokens", list(range(200)))
    how = {"max_tokens": 12, "temperature": temperature, "top_p": 0.9, "seed": 3}
    ids = engine.prompts.encode(Prompt("Who?"))
    chat = post(url, "/chat/completions", messages=[{"role": "user", "content": "Who?"}], **how)
    completion = post(url, "/completions", prompt=[int(i) for i in ids], **how)
    assert completion["choices"][0]["text"] == chat["choices"][0]["message"]["content"]
    assert completion["choices"][0]["finish_reason"] == chat["choices"][0]["finish_reason"]
    assert completion["usage"] == chat["usage"]


def test_chosen_tokens_are_told_beside_the_most_probable_one(url):
    how = {"max_tokens": 1, "temperature": 0, "return_tokens_as_token_ids": True}
    every = post(url, "/completions", prompt=[5, 6], logprobs=427, **how)["choices"][0]["logprobs"]["top_logprobs"][0]
    assert len(every) == 427
    assert sum(map(math.exp, every.values())) == pytest.approx(1, abs=1e-4)
    some = post(url, "/completions", prompt=[5, 6], logprobs=1, logprob_token_ids=[9, 400], **how)
    (told,) = some["choices"][0]["logprobs"]["top_logprobs"]
    assert set(told) == {max(every, key=every.get), "token_id:9", "token_id:400"}
    assert told["token_id:9"] == pytest.approx(every["token_id:9"], abs=1e-6)


USER = {"messages": [{"role": "user", "content": "x"}]}
REFUSED = {
    "another model": ("/completions", {"model": "other", "prompt": "x"}, 404, "is not here"),
    "another path": ("/embeddings", {}, 404, "There are: /v1/chat/completions"),
    "streams": ("/chat/completions", USER | {"stream": True}, 400, "stream is True"),
    "several texts": ("/chat/completions", USER | {"n": 2}, 400, "n is 2"),
    "tools": ("/chat/completions", USER | {"tools": []}, 400, "tools is"),
    "a system message": (
        "/chat/completions",
        {"messages": [{"role": "system", "content": "x"}, *USER["messages"]]},
        400,
        "expected one of the user's",
    ),
    "pictures": ("/chat/completions", {"messages": [{"role": "user", "content": []}]}, 400, "to be text"),
    "thinking": ("/chat/completions", USER | {"chat_template_kwargs": {}}, 400, "without thinking"),
    "no header": ("/chat/completions", USER | {"add_generation_prompt": False}, 400, "header of the answer"),
    "a hot logprob": ("/chat/completions", USER | {"logprobs": True, "max_tokens": 1}, 400, "temperature 0"),
    "late logprobs": ("/completions", {"prompt": "x", "logprobs": 1, "temperature": 0}, 400, "first token only"),
    "ids beyond the vocabulary": ("/completions", {"prompt": [5, 10**6]}, 400, "token ids below 427"),
    "chosen ids beyond it": (
        "/completions",
        {"prompt": "x", "logprobs": 1, "max_tokens": 1, "temperature": 0, "logprob_token_ids": [10**6]},
        400,
        "token ids below 427",
    ),
    "more tokens than there are": (
        "/completions",
        {"prompt": "x", "logprobs": 428, "max_tokens": 1, "temperature": 0},
        400,
        "expected a number from 0 to 427",
    ),
    "no tokens": ("/completions", {"prompt": "x", "max_tokens": 0}, 400, "max_new_tokens >= 1"),
    "a seed in words": ("/completions", {"prompt": "x", "seed": "one"}, 400, "whole number"),
    "too long": ("/completions", {"prompt": "storm " * 300}, 400, "the model takes 256"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_it_cannot_do_is_refused_and_not_ignored(what, url):
    path, body, status, words = REFUSED[what]
    got, message = post(url, path, **body)
    assert got == status
    assert words in message


@pytest.mark.parametrize(
    ("data", "headers", "status"),
    [
        (b"{", {}, 400),
        (b"[]", {}, 400),
        (None, {"Content-Length": "999999999999"}, 413),
        (None, {"Content-Length": "-1"}, 413),
    ],
)
def test_what_is_no_request_is_refused(data, headers, status, url):
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
    connection.request("POST", "/v1/completions", data, headers)
    reply = connection.getresponse()
    assert reply.status == status
    assert "message" in json.load(reply)["error"]
    connection.close()


def test_the_command_that_served_names_what_to_use_instead(capsys):
    for argv in (["serve"], ["serve", "--model", "m", "--port", "0"]):
        assert main(argv) == 2
        assert "any more: synthscore asks servers and is none. Start vLLM" in capsys.readouterr().err
