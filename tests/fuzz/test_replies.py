"""What servers reply, changed: a question is answered with probabilities, or fails with an error of the tree."""

import json
import math
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synthscore.engine import LabelAnswer, Prompt, Question, Sampling
from synthscore.engines.servers.decisions import DecisionServer
from synthscore.engines.servers.http import Http
from synthscore.engines.servers.routes import Biased, Chat, ChosenIds, Generate, TopIds, usage_of
from synthscore.engines.servers.server import Server
from synthscore.errors import EngineError, ServerError
from tests.engines import test_server_formats as forms
from tests.engines.test_decisions import Decider
from tests.servers import Liar

from .changes import as_json, changed_bytes, changed_values, refused, settled

pytestmark = pytest.mark.filterwarnings("ignore:.* reports neither its version nor its model's weights")

ROUTES = [
    (TopIds(), forms.LLAMA_SERVER_TOP, ()),
    (ChosenIds(), forms.VLLM_CHOSEN, (forms.BETTER, forms.WORSE)),
    (Generate(), forms.SGLANG_CHOSEN, (forms.BETTER, forms.WORSE)),
    (Biased(), forms.LLAMA_SERVER_BIASED, (forms.BETTER, forms.WORSE)),
    (Chat(), forms.OPENAI_TOP, ()),
    (Chat(), forms.LLAMA_CPP_PYTHON_SPELLED, ("W",)),
]
NAMES = {"/models": {"data": [{"id": "tiny", "owned_by": "vllm", "root": "r", "max_model_len": 99}]}}
LABELS = ("Better", "Worse")
QUESTIONS = [Question(Prompt("Which?"), LABELS), Question(Prompt("Write."), (), Sampling(5), 7)]
TEXT = {"choices": [{"message": {"content": "A text."}, "finish_reason": "stop"}], "usage": {"completion_tokens": 2}}


class Replies(Http):
    """No network: what is said by path."""

    replies: ClassVar[dict] = {}

    def _opened(self):
        return self

    def close(self):
        pass

    def get(self, path):
        return self._said(path)

    def post(self, path, body):
        return self._said(f"{path} text" if body.get("temperature") == 0.7 or "seed" in body else path)

    def _said(self, path):
        path = path if path.startswith("/") else f"/{path.split('/', 3)[3]}"
        if path not in self.replies:
            raise ServerError(f"no {path}", status=404, fatal=True)
        reply = self.replies[path]
        if not isinstance(reply, dict):  # as `_send` says it
            raise ServerError("no JSON object", retryable=True)
        return json.loads(json.dumps(reply))


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    monkeypatch.setattr("synthscore.engines.servers.served.Http", Replies)


def sound(answer) -> bool:
    if isinstance(answer, EngineError):
        return True
    if not isinstance(answer, LabelAnswer):
        return isinstance(answer.text, str) and answer.n_tokens >= 0
    log_probs, floors = answer.log_probs, answer.floors or answer.log_probs
    return all(low <= p <= 1e-3 and not math.isnan(low) for low, p in zip(floors, log_probs, strict=True))


@pytest.mark.parametrize("at", range(len(ROUTES)))
@settled(50)
@given(data=st.data())
def test_a_changed_reply_of_any_form_is_a_step_or_a_failed_try(at, data):
    route, reply, wanted = ROUTES[at]
    changed = data.draw(changed_values(reply, 2))
    http = Replies("http://h/v1", 1)

    def post(body, read):
        with http.reading(changed):
            assert isinstance(changed, dict) or not hasattr(changed, "get")
            usage_of(changed)
            return read(changed)

    with refused():
        step = route.ask(post, {} if isinstance(route, Chat) else [1, 2], wanted, 2)
        assert all(log_prob <= 1e-3 for log_prob in step.reported.values())


@settled(100)
@given(data=st.data())
def test_a_server_whose_replies_change_answers_every_question_or_fails_it(data):
    Replies.replies = {**NAMES, "/chat/completions": forms.OPENAI_TOP, "/chat/completions text": TEXT}
    when = data.draw(st.sampled_from(["/models", "/chat/completions", "/chat/completions text", "/version"]))
    changed = data.draw(changed_values(Replies.replies.get(when, {"version": "1"})))
    opening = data.draw(st.booleans())
    with refused():
        if opening:
            Replies.replies = {**Replies.replies, when: changed}
        server = Server("http://h/v1", "tiny", method="chat", top_k=2)
        assert str(server.signature)
        Replies.replies = {**Replies.replies, when: changed}
        for question in QUESTIONS:
            with refused():
                (reply,) = server.answer_all([question])
                assert sound(reply)


@pytest.mark.parametrize("form", ["systemone", "decisions"])
@settled(80)
@given(data=st.data())
def test_changed_decisions_answer_every_question_or_fail_it(form, data):
    decider = Decider(path=f"/v1/{form}", mass=data.draw(st.sampled_from([None, 0.9])))
    asked = [Question(Prompt(f"An article.\n\nSummary {k}.", "", 11), LABELS, ordered=k == 2) for k in range(3)]
    changed = False

    class Deciding(Replies):
        def post(self, path, body):
            reply = decider("POST", f"/v1{path}", body)
            if isinstance(reply, tuple):
                raise ServerError("refused", status=reply[0], fatal=reply[0] == 404)
            return json.loads(json.dumps(data.draw(changed_values(reply)) if changed else reply))

        def _said(self, path):
            return NAMES["/models"]

    with pytest.MonkeyPatch.context() as patch, refused():
        patch.setattr("synthscore.engines.servers.served.Http", Deciding)
        server = DecisionServer("http://h/v1", "tiny", method=form)
        changed = True
        replies = server.answer_all(asked)
        assert len(replies) == len(asked)
        assert all(sound(reply) for reply in replies)


@settled(25)
@given(content=changed_bytes(as_json(forms.OPENAI_TOP)))
def test_changed_bytes_on_the_line_fail_the_try(content):
    said = {"/v1/models": NAMES["/models"], "/v1/chat/completions": forms.OPENAI_TOP}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("synthscore.engines.servers.served.Http", Http)
        with Liar(lambda method, path, body: said.get(path, (404, {}))) as liar:
            server = Server(liar.url, "tiny", method="chat", top_k=2)
            said["/v1/chat/completions"] = content.decode("latin-1").encode("latin-1")
            with refused():
                assert sound(server.answer(QUESTIONS[0]))


def test_what_is_changed_above_is_answered():
    Replies.replies = {**NAMES, "/chat/completions": forms.OPENAI_TOP, "/chat/completions text": TEXT}
    server = Server("http://h/v1", "tiny", method="chat", top_k=2)
    label, text = (server.answer_all([question])[0] for question in QUESTIONS)
    assert label.floors == pytest.approx([-0.5, -1.25])
    assert text.text == "A text."
