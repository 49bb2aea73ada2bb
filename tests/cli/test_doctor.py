"""`synthscore doctor`: whether a model can judge."""

import math

import pytest

from synthscore.cli.app import main
from tests.cli.given import shown
from tests.engines.test_decisions import Decider
from tests.engines.test_reward import KINDS, save
from tests.servers import Liar, refusal


def test_doctor_shows_what_a_judge_says(engine, capsys):
    engine.judge = lambda prompt, labels: [math.log(p) for p in (0.5, 0.2, 0.1)]
    assert main(["doctor", "--task", "dialogue", "-a", "naturalness"]) == 0
    out = capsys.readouterr().out
    shown(out, "fake", "dialogue, naturalness, template set default", "Mill Street", "Better, Worse, Similar")
    shown(out, "good text asked about 0.500 0.200 0.100 0.800 'The' (0.050)", "questions/s", "does not find the good")
    engine.judge = lambda prompt, labels: [math.log(0.001)] * 3
    assert main(["doctor"]) == 1
    shown(capsys.readouterr().out, "cannot judge", "0.003 together")


@pytest.mark.parametrize("protocol", ["compare", "yes_no", "yes_no_two_sided", "choose"])
def test_doctor_knows_every_protocol(engine, capsys, protocol):
    def judge(prompt, labels):
        good_first = prompt.text.index("so that its heating") < prompt.text.index("bananas")
        if "less coherently" in prompt.text:
            good_first = not good_first
        first = 0.8 if good_first == (labels[0] == "A") else 0.1
        return [math.log(p) for p in (first, 0.9 - first, 0.01)[: len(labels)]]

    engine.judge = judge
    assert main(["doctor", "--protocol", protocol]) == 0
    shown(capsys.readouterr().out, "It can judge")


def test_doctor_says_what_a_server_reports_and_marks_what_is_only_a_bound(capsys):
    def hosted(method, path, body):
        if path != "/v1/chat/completions":
            return {"data": [{"id": "big", "owned_by": "someone"}]} if path == "/v1/models" else refusal(404, path)
        if body["top_logprobs"] > 20:
            return refusal(400, "at most 20")
        filler = [(f"x{i}", 0.002) for i in range(18)]
        top = [{"token": t, "logprob": math.log(p)} for t, p in [("Better", 0.8), ("Worse", 0.1), *filler]]
        return {"choices": [{"logprobs": {"content": [{"top_logprobs": top}]}}], "usage": {"prompt_tokens": 9}}

    with Liar(hosted) as server:
        assert main(["doctor", "--model", server.url]) == 0
        out = capsys.readouterr().out
        shown(
            out, "reports its 20 most probable tokens", "before the server's chat template", "<=0.802 <=0.102 <=0.004"
        )
        assert main(["doctor", "--model", server.url, "--max-unreported", "0.001"]) == 1
        shown(capsys.readouterr().out, "or raise max_unreported (--max-unreported)")


def test_doctor_shows_a_reward_model_what_each_text_is_the_reply_to(tmp_path, capsys):
    config, tokenizer = KINDS["llama"]
    _, folder = save(tmp_path, config, tokenizer())
    assert main(["doctor", "--model", folder]) == 0
    out = capsys.readouterr().out
    shown(out, "to which each text is shown as the reply", "as good as can be", "backend:reward", "tau:rungs")
    assert "Verdict:" not in out
    assert "How probable they are together is not reported" in out


def test_doctor_shows_what_a_decision_model_is_given_not_what_it_reads(capsys):
    with Liar(Decider()) as server:
        assert main(["doctor", "--model", server.url]) == 0
    shown(capsys.readouterr().out, "which puts its own words around it", "0.500 0.300 0.200 ?", "mass:unreported")
