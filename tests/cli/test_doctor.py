"""`synthscore doctor`: whether a model can judge."""

import json
import math
import signal
import subprocess
import sys

import pytest

from synthscore.cli.app import main
from synthscore.engine import Capabilities
from synthscore.engines.tokens import PromptTokenizer
from synthscore.judging.templates import load_task, task_names
from synthscore.ladders.references import References
from synthscore.resources import resource
from tests import factories
from tests.cli.given import quality_judge, shown
from tests.engines.test_decisions import Decider
from tests.engines.test_reward import KINDS, save
from tests.models import byte_level
from tests.servers import Liar, refusal

pytestmark = pytest.mark.filterwarnings("ignore:.* reports neither its version nor its model's weights")
CURATED = resource("data/references/curated")


@pytest.fixture
def knowing(engine):
    """An engine that knows which of the curated texts is better, and of the example's two."""
    levels = {"so that its heating": 2, "bananas": 1}
    for file in CURATED.glob("*/test.parquet"):
        for ladder in References.load(file):
            levels |= {rung.text: rung.level for rung in ladder.rungs}

    def judge(prompt, labels):
        shown = sorted((prompt.text.rindex(text), level) for text, level in levels.items() if text in prompt.text)
        (_, reference), (_, target) = shown
        worse = any(each.worse in prompt.text for name in task_names() for each in load_task(name).attributes.values())
        better = 0.8 if (target > reference) != worse else 0.1
        if labels[0] == "A":
            better = 0.9 - better
        return [math.log(p) for p in (better, 0.9 - better, 0.01)[: len(labels)]]

    engine.judge = judge
    return engine


OWN_TASK = """
name = "recipe"
context_noun = "list of ingredients"
text_noun = "recipe"
texts_noun = "recipes"
length = "five short steps"
[attributes.clarity]
description = "a beginner can follow it."
more = "clearer"
better = "say more clearly what to do"
worse = "say less clearly what to do"
"""


def even(prompt, labels):
    return [math.log(0.3)] * len(labels)


def test_doctor_shows_what_a_judge_says_and_that_it_is_always_the_same(engine, capsys):
    engine.judge = lambda prompt, labels: [math.log(p) for p in (0.5, 0.2, 0.1)]
    assert main(["doctor", "--task", "dialogue", "-a", "naturalness"]) == 1
    out = capsys.readouterr().out
    shown(out, "fake", "dialogue, naturalness, template set default", "Mill Street", "Better, Worse, Similar")
    shown(out, "good text asked about 0.500 0.200 0.100 0.800 'The' (0.050)", "12 pairs of rungs from 1 task")
    shown(
        out,
        "contradicts prior signal judges dialogue naturalness 12 50%",
        "50% 100% 0.92 0.00 cannot",
        "It says Better whatever is shown: in 100% of the pairs it contradicts itself (prior +0.9 nats, signal 0.0)",
    )
    assert engine.n_judged == 26
    engine.judge = lambda prompt, labels: [math.log(0.001)] * 3
    assert main(["doctor"]) == 1
    shown(capsys.readouterr().out, "cannot judge", "0.003 together")
    assert engine.n_judged == 28, "a model that does not answer is asked no more"


@pytest.mark.parametrize("protocol", ["compare", "yes_no", "yes_no_two_sided", "choose"])
def test_doctor_knows_every_protocol(knowing, capsys, protocol):
    assert main(["doctor", "--protocol", protocol]) == 0
    shown(capsys.readouterr().out, "48 pairs of rungs from 1 task", "It can judge coherence (100% of 12 pairs), cons")


@pytest.mark.parametrize(
    ("task", "n_attributes"),
    [("data_to_text", 3), ("dialogue", 5), ("story", 4), ("support_replies", 2), ("product_descriptions", 2)],
)
def test_doctor_has_ladders_of_tasks_of_ours_and_names_the_attributes_without(knowing, capsys, task, n_attributes):
    assert main(["doctor", "--task", task]) == 0
    out = capsys.readouterr().out
    shown(out, f"{12 * n_attributes} pairs of rungs from 1 task")
    assert out.count("(100% of 12") == n_attributes
    without = len(load_task(task).attributes) - n_attributes
    assert ("no ladders, so not asked about: " in out) == (without > 0)


def test_doctor_says_of_a_task_without_ladders_that_no_pair_was_asked_about(knowing, capsys, tmp_path):
    (tmp_path / "task.toml").write_text(OWN_TASK)
    assert main(["doctor", "--task", str(tmp_path), "-a", "clarity"]) == 3
    out = capsys.readouterr().out
    shown(out, "recipe, clarity, template set default (about an example of summarization)")
    shown(out, "there are no curated ladders of recipe, clarity, so that no pair was asked. Name ladders of yours with")
    assert "It can" not in out
    assert knowing.n_judged == 2


def test_doctor_asks_about_ladders_of_a_task_of_ones_own(engine, capsys, tmp_path):
    (tmp_path / "task.toml").write_text(OWN_TASK)
    engine.judge = lambda prompt, labels: (quality_judge if "quality" in prompt.text else even)(prompt, labels)
    made = [
        factories.ladder(f"c{i}", "clarity", "recipe", text="As of quality {quality}.", context="x") for i in range(4)
    ]
    References(made).save(tmp_path / "ladders")
    named = ["--ladders", str(tmp_path / "ladders"), "--store", str(tmp_path / "a.sqlite")]
    assert main(["doctor", "--task", str(tmp_path), *named]) == 0
    shown(capsys.readouterr().out, "recipe clarity 12 100%", "It can judge clarity (100% of 12 pairs)")


def test_doctor_tells_what_is_decided_and_its_exit_code_too(knowing, capsys):
    known = knowing.judge

    def judge(prompt, labels):
        return (even if "Fluency:" in prompt.text else known)(prompt, labels)

    knowing.judge = judge
    assert main(["doctor"]) == 3
    shown(capsys.readouterr().out, "relevance (100% of 12 pairs). It cannot judge fluency (50% of 12 pairs).")
    assert main(["doctor", "-a", "coherence"]) == 0
    assert main(["doctor", "-a", "fluency"]) == 1
    assert main(["doctor", "-a", "coherence", "--pairs", "4"]) == 3
    shown(capsys.readouterr().out, "Not yet to be told: coherence (100% of 4 pairs)")


def test_doctor_asks_about_each_attribute_that_is_named_and_names_those_it_has_no_ladders_of(knowing, capsys):
    assert main(["doctor", "-a", "coherence", "-a", "fluency"]) == 0
    out = capsys.readouterr().out
    shown(out, "24 pairs of rungs from 1 task", "It can judge coherence (100% of 12 pairs), fluency (100% of 12 pairs)")
    assert "no ladders" not in out
    assert main(["doctor", "--task", "dialogue", "-a", "naturalness", "-a", "continuity"]) == 3
    shown(capsys.readouterr().out, "12 pairs of rungs from 1 task", "no ladders, so not asked about: continuity")
    assert main(["doctor", "-a", "coherence", "-a", "clarity"]) == 1
    shown(capsys.readouterr().err, "'clarity'")
    story = ["--ladders", str(CURATED / "story" / "test.parquet"), "--store", "none"]
    assert main(["doctor", *story, "-a", "coherence", "-a", "empathy"]) == 1
    shown(capsys.readouterr().err, "holds no ladder of attribute 'empathy'. It has the tasks story")


def test_doctor_says_before_it_asks_how_much_it_would_at_most(knowing, capsys):
    assert main(["doctor", "--dry-run"]) == 0
    shown(capsys.readouterr().out, f"at most {2 + 4 * 48 * 2} questions")
    assert knowing.n_judged == 0


def test_doctor_asks_about_any_ladders_by_attribute_and_goes_on_where_it_was(knowing, capsys, tmp_path):
    command = ["doctor", "--ladders", str(CURATED / "story" / "test.parquet"), "--task", "story"]
    command += ["--store", str(tmp_path / "a.sqlite"), "-o", str(tmp_path / "r.json")]
    assert main([*command, "--pairs", "12"]) == 0
    n = knowing.n_judged
    assert main([*command, "--pairs", "20"]) == 0
    shown(capsys.readouterr().out, "80 pairs of rungs from 1 task", "surprise 20 100% 0%", "tells other judges")
    again = knowing.n_judged - n - 2 * (80 - 48)
    assert 0 <= again <= 2 * 40, "in another attribute: the widest pair of each of 40 ladders, where it was not before"
    kept = json.loads((tmp_path / "r.json").read_text())
    assert [group["decision"] for group in kept["groups"]] == ["can"] * 4


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs kill -9")
def test_doctor_that_is_killed_goes_on_with_what_a_server_has_not_answered(capsys, tmp_path):
    process = None

    def hosted(method, path, body):
        if path != "/v1/chat/completions":
            return {"data": [{"id": "big", "owned_by": "someone"}]} if path == "/v1/models" else refusal(404, path)
        if process and len(server.asked) > 300:  # past the first batch of 256
            process.kill()
        if body["top_logprobs"] > 20:
            return refusal(400, "at most 20")
        said = [("Better", 0.5), ("Worse", 0.3), ("Similar", 0.15), *((f"x{i}", 0.001) for i in range(17))]
        top = [{"token": token, "logprob": math.log(p)} for token, p in said]
        return {"choices": [{"logprobs": {"content": [{"top_logprobs": top}]}}], "usage": {"prompt_tokens": 9}}

    with Liar(hosted) as server:
        ladders = resource("data/references/curated/story/test.parquet")
        command = ["doctor", "--ladders", str(ladders), "--task", "story", "--model", server.url]
        command += ["--store", str(tmp_path / "a.sqlite"), "--pairs", "50"]
        process = subprocess.Popen([sys.executable, "-m", "synthscore", *command], stdout=subprocess.DEVNULL)
        assert process.wait() == -signal.SIGKILL
        process = None
        n = len(server.asked)
        assert main(command) == 1, "it says Better whatever is shown"
        shown(capsys.readouterr().out, "200 pairs of rungs from 1 task")
        assert 0 < len(server.asked) - n < 480 - 200, "of which some twenty are asked when the server is opened"


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
        assert main(["doctor", "--model", server.url]) == 1, "it says Better whatever is shown"
        out = capsys.readouterr().out
        shown(
            out, "reports its 20 most probable tokens", "before the server's chat template", "<=0.802 <=0.102 <=0.004"
        )
        assert main(["doctor", "--model", server.url, "--max-unreported", "0.001"]) == 1
        shown(capsys.readouterr().out, "or raise max_unreported (--max-unreported)")


def test_doctor_says_of_any_engine_how_it_says_that_it_is_run(knowing, capsys, tmp_path):
    knowing.capabilities = Capabilities(description="run by hand, on paper")
    assert main(["doctor", "--store", str(tmp_path / "a.sqlite")]) == 0
    shown(capsys.readouterr().out, "fake", "run by hand, on paper", "as the model sees it")


@pytest.mark.parametrize(("here", "shows"), [(True, "as the model sees it"), (False, "before the server's chat")])
def test_doctor_shows_the_prompt_of_a_server_as_the_model_sees_it_where_its_tokens_are_made_here(
    knowing, capsys, here, shows
):
    tokenizer = PromptTokenizer(byte_level(), 4096) if here else None
    knowing.capabilities = Capabilities(served=True, tokenizer=tokenizer)
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    shown(out, shows)
    assert ("takes 4 096 tokens, question and answer together" in out) == here


def test_doctor_shows_a_reward_model_what_each_text_is_the_reply_to(tmp_path, capsys):
    config, tokenizer = KINDS["llama"]
    _, folder = save(tmp_path, config, tokenizer())
    main(["doctor", "--model", folder])  # of random weights: it may see the order or not
    out = capsys.readouterr().out
    shown(out, "to which each text is shown as the reply", "as good as can be", "backend:reward", "tau:1")
    assert "Verdict:" not in out
    assert "How probable they are together is not reported" in out


def test_doctor_shows_what_a_decision_model_is_given_not_what_it_reads(capsys):
    with Liar(Decider()) as server:
        assert main(["doctor", "--model", server.url]) == 1, "it says Better whatever is shown"
    shown(capsys.readouterr().out, "which puts its own words around it", "0.500 0.300 0.200 ?", "mass:unreported")
