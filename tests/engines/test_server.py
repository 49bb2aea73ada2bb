"""What one server tells, against the same model in this process; and what servers of each kind say, recorded."""

import builtins
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthscore.engine import LabelLogProbs, Prompt, Question, Sampling, generate, label_log_probs
from synthscore.engines import open_engine
from synthscore.engines.servers.http import _retry_after, access_of
from synthscore.engines.servers.server import Server
from synthscore.engines.servers.steps import NextToken, known_from_ids, known_from_text
from synthscore.engines.tokens import LabelForms
from synthscore.errors import EngineError, LabelError, ServerError, SynthscoreWarning
from tests.servers import LABELS, PROMPTS, Liar, forward, refusal

pytestmark = pytest.mark.filterwarnings("ignore:.* reports neither its version nor its model's weights")

SAME = 1e-6  # nats; the server sends float32 numbers as they are


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    for name in ("SYNTHSCORE_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def log(*probs):
    return [math.log(p) for p in probs]


# ------------------------------------------------------------------------------------------------- steps


def test_what_was_not_told_is_bounded_by_the_last_one_told_and_by_what_is_left():
    step = NextToken.of_top(list(zip((7, 3, 5), log(0.6, 0.2, 0.15), strict=True)), 3)
    assert step.unseen == pytest.approx(math.log(0.15))
    assert step.rest == pytest.approx(math.log(0.05), abs=1e-3)
    assert step.most(1) == step.most(2) == step.rest
    wide = NextToken.of_top(list(zip((7, 3), log(0.1, 0.05), strict=True)), 2)
    assert [wide.most(1), wide.most(2)] == pytest.approx(log(0.05, 0.1))


def test_a_sampled_token_that_came_along_does_not_tighten_the_bound():
    step = NextToken.of_top([(1, math.log(0.5)), (2, math.log(0.2)), (99, math.log(1e-9))], 2)
    assert step.unseen == pytest.approx(math.log(0.2))
    assert step.reported[99] == pytest.approx(math.log(1e-9))


def test_what_is_left_is_never_nothing():
    assert -13 < NextToken.of_top([(1, 0.0)], 1).rest < -11  # float32 sums are off by about 1e-6


@pytest.mark.parametrize("entries", [[], [("a", math.nan)], [("a", 0.1)], [("a", math.log(0.6)), ("b", math.log(0.6))]])
def test_numbers_that_are_no_log_probabilities_are_refused(entries):
    with pytest.raises(ValueError, match="expected"):
        NextToken.of_top(entries, 2)


FORMS = LabelForms((((0,), (1, 2)), ((3, 4, 5),), ((6,), (3, 7))), "whole")


@given(st.integers(0, 2**32 - 1), st.integers(1, 12))
@settings(max_examples=60)
def test_the_truth_lies_between_least_and_most_whatever_was_told(seed, k):
    rng = np.random.default_rng(seed)
    places = {}

    def next_probs(start):
        if start not in places:
            places[start] = rng.dirichlet(np.full(12, 0.4))
        return places[start]

    def step(start):
        top = np.argsort(-next_probs(start))[:k]
        return NextToken.of_top([(int(i), float(np.log(next_probs(start)[i]))) for i in top], k)

    known = known_from_ids(FORMS, step)
    for label, forms in enumerate(FORMS.forms):
        p = sum(np.prod([next_probs(form[:n])[token] for n, token in enumerate(form)]) for form in forms)
        assert known.least[label] - 1e-9 <= np.log(p) <= known.most[label] + 1e-9
        if k == 12:
            assert known.least[label] == pytest.approx(known.most[label])
    best = [i for i in np.argsort(-next_probs(()))[:k] if i not in FORMS.starts]
    assert (known.other[0] if known.other else None) == (best[0] if best else None)


def test_two_spellings_that_were_not_told_may_have_twice_what_one_may():
    forms = LabelForms((((0,), (1,)), ((2,), (3,))), "whole")
    told = [(0, math.log(0.3)), (9, math.log(0.2))]
    known = known_from_ids(forms, lambda start: NextToken.of_top(told, 2))
    assert np.exp(known.least) == pytest.approx([0.3, 0.0])
    assert np.exp(known.most) == pytest.approx([0.3 + 0.2, 2 * 0.2])


def told_in_text(places, labels=("Better", "Worse"), k=20, can_continue=True):
    asked = []

    def step(path):
        asked.append("".join(path))
        return NextToken.of_top([(token, math.log(p)) for token, p in places["".join(path)]], k)

    return known_from_text(labels, step, can_continue=can_continue), asked


def test_the_spellings_of_a_label_and_tokens_spelled_alike_are_added_up():
    top = [("Better", 0.3), (" Better", 0.2), ("Better", 0.1), ("Worse", 0.2), (" Worse", 0.1), ("The", 0.05)]
    known, asked = told_in_text({"": top})
    assert np.exp(known.most) == pytest.approx([0.6, 0.3])
    assert known.least == pytest.approx(known.most)
    assert known.other == ("The", pytest.approx(math.log(0.05)))
    assert asked == [""]


def test_a_beginning_of_a_label_is_followed_up():
    places = {"": [("Bet", 0.5), ("Worse", 0.3), (" Worse", 0.1)], "Bet": [("ter", 0.9), ("a", 0.1)]}
    known, asked = told_in_text(places)
    assert np.exp(known.least) == pytest.approx([0.45, 0.4])
    assert np.exp(known.most) == pytest.approx([0.45 + 0.1, 0.4], abs=1e-4)  # two spellings in what is left: 0.1
    assert asked == ["", "Bet"]


def test_a_beginning_that_cannot_be_followed_up_is_left_open():
    known, asked = told_in_text({"": [("Bet", 0.5), ("Worse", 0.3), (" Worse", 0.1)]}, can_continue=False)
    assert known.least[0] == -math.inf
    assert np.exp(known.most[0]) == pytest.approx(0.6, abs=1e-4)
    assert asked == [""]


def test_a_space_alone_is_left_open_because_templates_strip_it():
    known, asked = told_in_text({"": [(" ", 0.2), ("Better", 0.5), ("Worse", 0.2), ("x", 0.1)]})
    assert asked == [""]
    assert np.exp(known.most[0]) == pytest.approx(0.7, abs=1e-4)


def test_a_token_that_goes_beyond_a_label_is_not_the_label_and_an_empty_one_begins_none():
    known, _ = told_in_text({"": [("", 0.4), ("Better.", 0.3), ("Better", 0.2), ("Worse", 0.05)]})
    assert np.exp(known.least[0]) == pytest.approx(0.2)
    assert known.other == ("", pytest.approx(math.log(0.4)))


@pytest.mark.parametrize("labels", [("A", "About"), ("Yes", "Yes"), ("Yes", " ")])
def test_labels_of_which_one_begins_another_are_refused(labels):
    with pytest.raises(LabelError):
        told_in_text({"": [("A", 0.5)]}, labels)


# ------------------------------------------------------------------------------------------------- slack


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=60)
def test_no_probability_is_off_by_more_than_the_slack_and_no_difference_by_more_than_twice_that(seed):
    rng = np.random.default_rng(seed)
    most = rng.dirichlet(np.ones(3)) * 0.9
    censored = rng.random(3) < 0.5
    least = np.where(censored, most * rng.choice([0.0, 0.5, 0.99], 3), most)
    true = least + (most - least) * rng.random(3)
    with np.errstate(divide="ignore"):
        answers = LabelLogProbs(("a", "b", "c"), np.log([most]), censored=censored[None], floors=np.log([least]))
    if true.sum() == 0:
        return
    off = true / true.sum() - answers.probs[0]
    assert np.abs(off).max() <= answers.unreported[0] + 1e-12
    assert np.ptp(off) <= 2 * answers.unreported[0] + 1e-12
    assert answers.label_mass[0] == pytest.approx(least.sum())


def test_a_label_with_no_floor_can_be_anything_down_to_nothing():
    answers = LabelLogProbs(("a", "b"), np.log([[0.6, 0.2]]), censored=np.array([[False, True]]))
    assert answers.unreported == pytest.approx([0.25])
    assert answers.label_mass == pytest.approx([0.6])
    assert LabelLogProbs(("a",), np.array([[-1.0]])).unreported.tolist() == [0.0]


# ------------------------------------------------------------------------------------------------- our own server


@pytest.mark.parametrize("method", ["ids", "topk"])
def test_a_server_tells_what_the_model_here_does(method, url, folder, local):
    engine = open_engine(url, method=method, tokenizer=folder, top_k=400)
    there, here = label_log_probs(engine, PROMPTS, LABELS), label_log_probs(local, PROMPTS, LABELS)
    known = np.ones(here.log_probs.shape, bool) if there.censored is None else ~there.censored
    assert known.mean() > 0.9
    np.testing.assert_allclose(there.log_probs[known], here.log_probs[known], atol=SAME)
    assert there.usage.n_in > here.usage.n_in, "a label of several tokens is asked about in several requests"
    for ours, theirs in zip(here.other_tokens, there.other_tokens, strict=True):
        if method != "ids" or theirs is not None:  # of chosen tokens only: where the best begins no label
            assert (theirs.token, theirs.log_prob) == (ours.token, pytest.approx(ours.log_prob, abs=1e-5))


def test_with_few_tokens_told_the_truth_lies_between_floor_and_log_prob(url, folder, local):
    there = label_log_probs(open_engine(url, method="topk", tokenizer=folder, top_k=20), PROMPTS, LABELS)
    truth = label_log_probs(local, PROMPTS, LABELS).log_probs
    assert there.censored.any()
    assert (truth <= there.log_probs + SAME).all()
    assert (there.floors <= truth + SAME).all()
    assert (there.floors == there.log_probs)[~there.censored].all()


@pytest.mark.parametrize("top_k", [30, 427])
def test_through_the_chat_template_of_the_server_no_label_is_more_probable_than_was_told(top_k, url, local):
    there = label_log_probs(open_engine(url, method="chat", top_k=top_k), PROMPTS, LABELS)
    truth = label_log_probs(local, PROMPTS, LABELS).log_probs
    assert (truth <= there.log_probs + SAME).all()
    assert not there.failures


def test_prompts_reach_a_server_as_they_are_through_its_template(url, local):
    rare = {"method": "chat", "top_k": 427}
    there = label_log_probs(open_engine(url, **rare), PROMPTS, ("A", "B"))  # one token each, so nothing is ambiguous
    truth = label_log_probs(local, PROMPTS, ("A", "B")).log_probs
    np.testing.assert_allclose(np.exp(there.log_probs), np.exp(truth), atol=2e-4)
    assert np.ptp(truth[:, 0]) > 0.1  # prefill and text do matter


def test_a_signature_names_model_method_and_software_but_no_address(url, folder, local):
    found = open_engine(url).signature
    assert dict(found.parts) == {
        "model": "tiny",
        "backend": "server-ids",
        "chat": local.prompts.template_hash,
        "server": "vllm/0.0",
    }
    assert dict(Server(url, method="chat", top_k=7).signature.parts)["backend"] == "server-chat7"
    assert "127.0.0.1" not in f"{found}"


@pytest.mark.parametrize("method", ["ids", "topk"])
def test_a_prompt_that_is_too_long_fails_alone(method, url, folder):
    asked = [PROMPTS[0], Prompt("storm " * 300), PROMPTS[2]]
    there = label_log_probs(open_engine(url, method=method, tokenizer=folder), asked, LABELS)
    assert list(there.failures) == [1]
    assert "the model takes 256" in there.failures[1]


def test_labels_that_cannot_be_told_apart_are_the_callers_mistake(url):
    with pytest.raises(LabelError, match="cannot be told apart"):
        label_log_probs(open_engine(url), PROMPTS, ("Better", "Better"))


def test_a_server_writes_what_the_model_here_writes(url, folder, local):
    sampling, seeds = Sampling(12, temperature=1.5, stop=("zz",)), range(len(PROMPTS))
    here = generate(local, PROMPTS, sampling, seeds)
    assert generate(open_engine(url), PROMPTS, sampling, seeds) == here
    greedy = Sampling(6, temperature=0)
    there = generate(open_engine(url, method="ids", tokenizer=folder), PROMPTS, greedy, seeds)
    assert there == generate(local, PROMPTS, greedy, seeds)


# ------------------------------------------------------------------------------------------------- other servers


def models(owner, name="tiny", **more):
    return {"object": "list", "data": [{"id": name, "owned_by": owner, **more}]}


class Kind:
    """A server of another kind: what it says of itself, what it does not know, the rest from our own."""

    def __init__(self, url, owner, *, lacks=(), change=lambda path, body, reply: reply, **entry):
        self.url, self.owner, self.lacks, self.change, self.entry = url, owner, lacks, change, entry

    def __call__(self, method, path, body):
        if path == "/v1/models":
            return models(self.owner, **self.entry)
        if path == "/version":
            return {"version": "0.12"}
        if path in self.lacks:
            return refusal(404, f"no {path}")
        return self.change(path, body, forward(self.url, method, path, body))


def test_vllm_is_asked_for_chosen_tokens_by_the_tokenizer_that_it_names(url, folder, local):
    with Liar(Kind(url, "vllm", root=folder, max_model_len=256)) as vllm:
        server = Server(vllm.url)
        assert str(server.signature).split("|")[1:] == [
            "backend:server-ids",
            f"chat:{local.prompts.template_hash}",
            "server:vllm/0.12",
        ]
        told = server.answer(Question(PROMPTS[0], LABELS))
        assert told.log_probs == pytest.approx(label_log_probs(local, PROMPTS[:1], LABELS).log_probs[0], abs=SAME)


def test_an_older_vllm_that_ignores_chosen_tokens_is_asked_for_the_most_probable(url, folder):
    def ignore(path, body, reply):
        if body.get("logprob_token_ids"):
            body = {name: value for name, value in body.items() if name != "logprob_token_ids"}
            return forward(url, "POST", path, body)
        return reply

    with Liar(Kind(url, "vllm", change=ignore, root=folder)) as vllm:
        assert Server(vllm.url).method == "topk"


def test_without_the_models_tokenizer_vllm_is_asked_through_its_template_with_a_warning(url, tmp_path):
    with Liar(Kind(url, "vllm", root=str(tmp_path / "elsewhere"))) as vllm:
        with pytest.warns(SynthscoreWarning, match="cannot be loaded here"):
            server = Server(vllm.url)
        assert server.method == "chat"


def test_another_models_tokenizer_is_refused(url, folder):
    def shift(path, body, reply):
        return {"tokens": [token + 1 for token in reply["tokens"]]} if path == "/tokenize" else reply

    with (
        Liar(Kind(url, "vllm", change=shift)) as vllm,
        pytest.raises(EngineError, match=r"is not that of tiny.*Name the right one"),
    ):
        Server(vllm.url, tokenizer=folder)


def test_sglang_is_asked_for_chosen_tokens_at_its_own_address(url, folder, local):
    def chosen(ids, tokens):
        asked = {"model": "tiny", "prompt": ids, "max_tokens": 1, "temperature": 0, "logprobs": 1}
        asked |= {"logprob_token_ids": tokens, "return_tokens_as_token_ids": True}
        top = forward(url, "POST", "/v1/completions", asked)["choices"][0]["logprobs"]["top_logprobs"][0]
        return {int(token.split(":")[1]): log_prob for token, log_prob in top.items()}

    def sglang(method, path, body):
        if path == "/generate":
            told = [[p, token, None] for token, p in chosen(body["input_ids"], body["token_ids_logprob"]).items()]
            wanted = [entry for entry in told if entry[1] in body["token_ids_logprob"]]
            meta = {"prompt_tokens": len(body["input_ids"]), "cached_tokens": 5}
            meta |= {"output_top_logprobs": [told[:1]], "output_token_ids_logprobs": [wanted]}
            return {"text": "", "meta_info": meta}
        if path == "/v1/completions" and "logprob_token_ids" in body:
            return refusal(400, "unknown field logprob_token_ids")
        return Kind(url, "sglang", root=folder)(method, path, body)

    with Liar(sglang) as server:
        engine = open_engine(server.url)
        there, here = label_log_probs(engine, PROMPTS, LABELS), label_log_probs(local, PROMPTS, LABELS)
    assert dict(engine.signature.parts)["backend"] == "server-generate"
    np.testing.assert_allclose(there.log_probs, here.log_probs, atol=SAME)
    assert there.censored is None


def as_llama_cpp(path, body, reply):
    """llama.cpp gives /v1/completions its log-probabilities in the form of the chat's, with ids."""
    if path != "/v1/completions" or not isinstance(reply, dict) or body.get("logprobs") is None:
        return reply
    choice = reply["choices"][0]
    told = choice["logprobs"]["top_logprobs"][0].items()
    top = [{"id": int(token.split(":")[1]), "token": "?", "logprob": log_prob} for token, log_prob in told]
    choice["logprobs"] = {"content": [top[0] | {"top_logprobs": top}]}
    return reply


def test_llama_cpp_with_a_tokenizer_is_asked_behind_token_ids(url, folder, local):
    def llama_cpp(method, path, body):
        body = {name: value for name, value in body.items() if name not in ("logprob_token_ids", "content")}
        if path == "/v1/completions":
            body["return_tokens_as_token_ids"] = True
        return Kind(url, "llamacpp", change=as_llama_cpp)(method, path, body)

    with Liar(llama_cpp) as server:
        engine = open_engine(server.url, tokenizer=folder, top_k=427)
        there = label_log_probs(engine, PROMPTS, LABELS)
    assert dict(engine.signature.parts)["backend"] == "server-topk427"
    np.testing.assert_allclose(there.log_probs, label_log_probs(local, PROMPTS, LABELS).log_probs, atol=SAME)


def hosted(method, path, body):
    """Chat only, 20 tokens at most, and a limit of tokens by its new name."""
    if path == "/v1/models":
        return models("someone", "big")
    if path != "/v1/chat/completions":
        return refusal(404, f"no {path}")
    if "max_tokens" in body:
        return refusal(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
    if not body.get("logprobs"):
        choice = {"message": {"content": "a text"}, "finish_reason": "content_filter" if body["seed"] == 13 else "stop"}
        return {"choices": [choice], "usage": {"completion_tokens": 2, "prompt_tokens": 9}}
    if body["top_logprobs"] > 5:
        return refusal(400, "top_logprobs: at most 5")
    probs = (("Yes", 0.6), ("No", 0.3), ("Well", 0.05))  # with ids, as llama.cpp gives them, which are not text
    top = [{"token": token, "id": 7, "logprob": math.log(p), "bytes": []} for token, p in probs]
    return {
        "choices": [{"message": {"content": "Yes"}, "logprobs": {"content": [top[0] | {"top_logprobs": top}]}}],
        "usage": {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 4}},
    }


def test_a_hosted_model_is_asked_for_as_many_tokens_as_it_gives():
    with Liar(hosted) as server:
        engine = open_engine(f"{server.url}#big")
        told = label_log_probs(engine, [Prompt("Is ice cold?")], ("Yes", "No", "Maybe"))
        assert "backend:server-chat5" in str(engine.signature)
        assert np.exp(told.floors[0]) == pytest.approx([0.6, 0.3, 0.0])
        assert np.exp(told.log_probs[0]) == pytest.approx([0.65, 0.35, 0.05], abs=1e-4)
        assert told.censored.tolist() == [[True, True, True]]
        assert (told.usage.n_in, told.usage.n_computed) == (9, 5)
        assert told.other_tokens[0].token == "Well"
        assert not set(server.asked[-1][1]) & {"chat_template_kwargs", "continue_final_message", "top_k"}


def test_a_hosted_model_writes_and_a_filtered_text_fails_its_row():
    with Liar(hosted) as server:
        texts = generate(open_engine(server.url), [Prompt("Write.")] * 2, Sampling(5), [1, 13])
    assert (texts[0].text, texts[0].finish_reason, texts[0].n_tokens) == ("a text", "stop", 2)
    assert isinstance(texts[1], EngineError)
    assert "content_filter" in str(texts[1])


def test_a_prefill_that_a_server_cannot_go_on_from_is_refused():
    with Liar(hosted) as server:
        asked = label_log_probs(open_engine(server.url), [Prompt("Is ice cold?", "Answer:")], ("Yes", "No"))
    assert "cannot go on with an answer that begins with 'Answer:'" in asked.failures[0]


# ------------------------------------------------------------------------------------------------- what goes wrong


def test_a_model_that_the_server_does_not_have_is_refused_with_those_it_has(url):
    with pytest.raises(EngineError, match=r"no model 'tony'; it has: tiny\. Name one of them"):
        open_engine(f"{url}#tony")


def test_a_server_of_several_models_wants_a_name():
    several = {"data": [{"id": "one", "owned_by": "x"}, {"id": "two", "owned_by": "x"}]}
    with Liar(lambda *asked: several) as server, pytest.raises(EngineError, match=r"several models; it has: one, two"):
        Server(server.url)


def test_a_server_without_log_probabilities_is_refused_with_what_each_method_lacks():
    def mute(method, path, body):
        if path == "/v1/models":
            return models("someone")
        return {"choices": [{"message": {"content": "Yes"}, "text": "Yes", "logprobs": None}], "usage": {}}

    with Liar(mute) as server, pytest.raises(EngineError, match=r"chat: .*no log-prob.*docs/servers\.md"):
        Server(server.url)


def test_nobody_there_is_an_engine_error():
    with Liar(hosted) as server:
        address = server.url
    with pytest.raises(EngineError, match="the connection failed"):
        open_engine(address)


@pytest.mark.parametrize(
    "name", ["http://me:secret@host/v1", "http://host/v1?key=secret", "http:///v1", "http://a/v1#x,http://b/v1#y"]
)
def test_addresses_that_hold_keys_or_contradict_each_other_are_refused_unread(name):
    with pytest.raises(EngineError) as caught:
        open_engine(name)
    assert "secret" not in str(caught.value)


def test_options_of_a_model_that_runs_here_are_refused(url):
    with pytest.raises(EngineError, match="device, dtype"):
        open_engine(url, dtype="float32", device="cpu")
    with pytest.raises(EngineError, match="method is 'best'"):
        open_engine(url, method="best")


def test_without_the_openai_package_the_error_names_the_extra(monkeypatch):
    real = builtins.__import__

    def without(name, *rest):
        if name == "openai":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(EngineError, match=r"pip install 'synthscore\[server\]'"):
        Server("http://127.0.0.1:9/v1")


def chat_reply(**changes):
    top = [{"token": "Yes", "logprob": -0.5}, {"token": "No", "logprob": -2.0}]
    choice = {"message": {"content": "Yes"}, "logprobs": {"content": [top[0] | {"top_logprobs": top}]}}
    return {"choices": [choice], "usage": {"prompt_tokens": 3}} | changes


def top(*entries):
    content = [{"token": "Yes", "logprob": 0, "top_logprobs": [{"token": t, "logprob": v} for t, v in entries]}]
    return {"choices": [{"message": {}, "logprobs": {"content": content}}]}


def in_turn(replies):
    """A hosted model that answers so when it is asked for log-probabilities, and writes."""

    def answer(method, path, body):
        if method == "GET":
            return models("x")
        return replies.pop(0) if body.get("logprobs") else chat_reply()

    return answer


GARBAGE = {
    "no JSON": "<html>Bad gateway</html>",
    "half of it": '{"choices": [',
    "a list": "[]",
    "no choices": chat_reply(choices=[]),
    "two choices": chat_reply(choices=chat_reply()["choices"] * 2),
    "no log-probabilities": chat_reply(choices=[{"message": {"content": "Yes"}, "logprobs": None}]),
    "no tokens": top(),
    "NaN": top(("Yes", math.nan), ("No", -1.0)),
    "more than certain": top(("Yes", 0.5), ("No", -1.0)),
    "more than certain together": top(("Yes", -0.1), ("No", -0.1)),
    "text for a number": top(("Yes", "-0.5"), ("No", -1.0)),
    "true for a number": top(("Yes", True), ("No", -1.0)),
    "a missing field": {"choices": [{"message": {}, "logprobs": {"content": [{"token": "Yes"}]}}]},
}


@pytest.mark.parametrize("what", GARBAGE)
def test_garbage_is_a_failed_try_and_never_a_number(what):
    said = {"now": chat_reply()}
    with Liar(lambda method, path, body: models("someone") if method == "GET" else said["now"]) as server:
        client = Server(server.url, method="chat", top_k=2)
        said["now"] = GARBAGE[what]
        with pytest.raises(ServerError) as caught:
            client.answer(Question(Prompt("Is ice cold?"), ("Yes", "No")))
    assert caught.value.retryable
    assert not caught.value.fatal


@pytest.mark.parametrize(
    ("status", "retryable", "fatal"),
    [(400, False, False), (401, False, True), (404, False, True), (429, True, False), (503, True, False)],
)
def test_what_can_succeed_later_is_told_from_what_cannot(status, retryable, fatal):
    replies = [chat_reply(), refusal(status, "these are its words", Retry_After="7")]
    with Liar(in_turn(replies)) as server:
        client = Server(server.url, method="chat", top_k=2)
        with pytest.raises(ServerError, match="these are its words") as caught:
            client.answer(Question(Prompt("?"), ("Yes", "No")))
    error = caught.value
    assert (error.status, error.retryable, error.fatal, error.retry_after) == (status, retryable, fatal, 7.0)


def test_retry_after_is_read_as_seconds():
    assert _retry_after("2.5") == 2.5
    assert _retry_after("-3") == 0.0
    assert [_retry_after(header) for header in (None, "soon", "inf")] == [None, None, None]


KEY = "sk-very-secret-key"


@pytest.mark.parametrize("name", ["SYNTHSCORE_API_KEY", "OPENAI_API_KEY"])
def test_a_key_is_sent_to_the_server_and_shown_to_nobody(name, monkeypatch):
    monkeypatch.setenv(name, KEY)
    replies = [chat_reply(), refusal(401, f"the key {KEY} is wrong"), f"your key: {KEY}", chat_reply(choices=[KEY])]
    with Liar(in_turn(replies)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/")
        client = Server(server.url, method="chat", top_k=2)
        assert KEY not in str(client.signature)
        for _ in range(3):
            with pytest.raises(ServerError) as caught:
                client.answer(Question(Prompt("?"), ("Yes", "No")))
            assert KEY not in str(caught.value)
            assert caught.value.__cause__ is None
            assert caught.value.__suppress_context__
        assert {headers["authorization"] for headers in server.headers} == {f"Bearer {KEY}"}


def test_our_own_key_goes_before_openais(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "other")
    monkeypatch.setenv("SYNTHSCORE_API_KEY", KEY)
    with Liar(lambda method, path, body: models("x") if method == "GET" else chat_reply()) as server:
        Server(server.url, method="chat", top_k=2)
        assert {headers["authorization"] for headers in server.headers} == {f"Bearer {KEY}"}


@pytest.mark.parametrize(
    ("url", "base", "expected"),
    [
        ("https://api.openai.com/v1", "", "of-openai"),
        ("https://eu.api.openai.com/v1", "", "of-openai"),
        ("http://gpu:8000/v1", "http://gpu:8000/v1/", "of-openai"),
        ("http://api.openai.com/v1", "", ""),
        ("https://api.openai.com.evil.org/v1", "", ""),
        ("https://evil-api.openai.com/v1", "", ""),
        ("https://evil.org/api.openai.com/v1", "", ""),
        ("http://gpu:8001/v1", "http://gpu:8000/v1", ""),
        ("http://127.0.0.1:8000/v1", "", ""),
    ],
)
def test_openais_key_goes_to_openai_and_to_the_address_set_beside_it(url, base, expected, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "of-openai")
    monkeypatch.setenv("OPENAI_BASE_URL", base)
    assert access_of(url).key == expected


def test_a_server_that_wants_a_key_is_not_given_openais_and_the_message_says_which_is_sent(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_ORG_ID", "org-secret")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with Liar(in_turn([chat_reply(), refusal(401, "no key")])) as server:
        client = Server(server.url, method="chat", top_k=2)
        with pytest.raises(ServerError, match="put the key of this server into SYNTHSCORE_API_KEY"):
            client.answer(Question(Prompt("?"), ("Yes", "No")))
        sent = str(server.headers)
    assert KEY not in sent
    assert "org-secret" not in sent


def test_a_server_without_a_key_serves_whoever_has_set_a_placeholder_for_openai(monkeypatch):
    """As vLLM's documentation has it: OPENAI_API_KEY=EMPTY."""
    monkeypatch.setenv("OPENAI_API_KEY", "EMPTY")
    with Liar(lambda method, path, body: models("x") if method == "GET" else chat_reply()) as server:
        Server(server.url, method="chat", top_k=2)
        assert {headers["authorization"] for headers in server.headers} == {"Bearer none"}
