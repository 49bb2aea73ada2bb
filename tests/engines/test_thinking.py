"""Models that think before they write: where their thinking ends is read off their chat template, and the answer is
what follows. The models are random; what they say is put into their mouths, token by token."""

import json
import shutil
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from synthscore.engine import Generation, Prompt, Question, Sampling, capabilities_of, generate, label_log_probs
from synthscore.engines import open_engine
from synthscore.engines.tokens import ThinkingTokenizer
from synthscore.engines.tree import writing
from synthscore.engines.words import LONG, InWords
from synthscore.errors import EngineError

USER = "<|im_start|>user\n{{ message.content }}<|im_end|>\n"
QWEN3 = (
    "{% for message in messages %}{% if message.role == 'user' %}" + USER + "{% else %}<|im_start|>assistant\n"
    "{% if message.reasoning_content %}<think>\n{{ message.reasoning_content }}\n</think>\n\n{% endif %}"
    "{{ message.content }}<|im_end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}{% endif %}"
)
OPENED = QWEN3.replace("</think>\n\n{% endif %}{% endif %}", "</think>\n\n{% else %}<think>\n{% endif %}{% endif %}")
CHANNELS = (
    "{% for message in messages %}{% if message.role == 'user' %}" + USER + "{% else %}"
    "{% if message.thinking %}<|im_start|>analysis: {{ message.thinking }}<|end|>{% endif %}"
    "<|im_start|>final: {{ message.content }}<|im_end|>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{% if thinking %}{% else %}<|im_start|>final: {% endif %}{% endif %}"
)
PLAIN = (
    "{% for message in messages %}"
    + USER
    + "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LABELS = ("Better", "Worse")
PROMPT = Prompt("Which is better?")


@pytest.fixture
def thinker(folder, tmp_path):
    """thinker(template, **options): the small model with this chat template."""

    def opened(template, **options):
        copy = Path(shutil.copytree(folder, tmp_path / str(abs(hash(template))), dirs_exist_ok=True))
        for path in copy.glob("chat_template*"):
            path.unlink()
        config = json.loads((copy / "tokenizer_config.json").read_text())
        (copy / "tokenizer_config.json").write_text(json.dumps(config | {"chat_template": template}))
        return open_engine(str(copy), **options)

    return opened


def say(monkeypatch, engine, text):
    """What the model writes next, whatever it is asked."""
    tokenizer = engine.prompts.tokenizer
    ids = [*tokenizer(text, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
    written = []

    def draw(logits, sampling, uniform):
        written.append(ids[len(written) % len(ids)])
        return [written[-1]] * len(logits)

    monkeypatch.setattr(writing, "draw", draw)


def ask(engine, n_tokens=200):
    (answer,) = engine.answer([Question(PROMPT, LABELS, Sampling(max_new_tokens=n_tokens), seed=1)]).rows
    return answer


@pytest.mark.parametrize(
    ("template", "written"),
    [
        (QWEN3, "<think>\nWorse? No.\n</think>\n\nBetter"),
        (QWEN3, "<think>\nIt says </think> itself.\n</think>\n\nBetter"),
        (OPENED, "Worse? No.\n</think>\n\nBetter"),
        (CHANNELS, "<|im_start|>analysis: Worse? No.<|end|><|im_start|>final: Better"),
    ],
)
def test_the_answer_is_what_follows_the_last_end_of_thinking(thinker, monkeypatch, template, written):
    engine = thinker(template, thinking=True)
    say(monkeypatch, engine, written)
    answer = ask(engine)
    assert (answer.text, answer.finish_reason) == ("Better", "stop")
    assert answer.n_tokens > 5  # what was thought counts


@pytest.mark.parametrize(
    ("template", "written"),
    [(QWEN3, "<think>\nBetter"), (OPENED, "Better"), (CHANNELS, "<|im_start|>analysis: Better")],
)
def test_a_chain_that_does_not_end_is_a_failed_sample(thinker, monkeypatch, template, written):
    engine = thinker(template, thinking=True)
    say(monkeypatch, engine, written)
    assert ask(engine).finish_reason == "length"
    assert ask(engine).text == ""
    say(monkeypatch, engine, written * 9)
    answer = ask(engine, n_tokens=5)
    assert answer == Generation("", "length", 5)


def test_a_model_that_answers_without_thinking_has_answered(thinker, monkeypatch):
    engine = thinker(QWEN3, thinking=True)
    say(monkeypatch, engine, "Better")
    assert ask(engine) == Generation("Better", "stop", ask(engine).n_tokens)


def test_a_text_ends_at_a_stop_string_behind_the_thoughts_and_has_its_tokens_for_itself(thinker, monkeypatch):
    engine = thinker(QWEN3, thinking=True)
    say(monkeypatch, engine, "<think>\nOne.\n\nTwo.\n</think>\n\nIt rained.\n\nIt snowed.")
    limits = []
    write = writing.write
    monkeypatch.setattr(writing, "write", lambda *args: limits.append(args[3].max_new_tokens) or write(*args))
    (text,) = generate(engine, [PROMPT], Sampling(max_new_tokens=5, stop=("\n\n",)), [1])
    assert (text.text, text.finish_reason) == ("It rained.", "stop")
    ask(engine, n_tokens=77)
    assert limits == [5 + LONG, 77]


def test_it_is_asked_in_words_with_room_to_think_and_signed_so(thinker, monkeypatch):
    engine, plain = thinker(QWEN3, thinking=True), thinker(QWEN3)
    assert capabilities_of(engine).reasons
    assert InWords(engine).sampling.max_new_tokens == LONG
    assert "|thinking:on|" in str(engine.signature)
    assert "thinking" not in str(plain.signature)
    say(monkeypatch, engine, "<think>\nWorse? No.\n</think>\n\nBetter")
    assert label_log_probs(InWords(engine, 2), [PROMPT], LABELS).probs.tolist() == [[1.0, 0.0]]
    exact = [label_log_probs(each, [PROMPT], LABELS).log_probs.tolist() for each in (engine, plain)]
    assert exact[0] == exact[1]  # probabilities are asked for without thinking


def test_the_prompt_has_thinking_switched_on(thinker):
    engine = thinker(CHANNELS, thinking=True)
    assert engine.prompts.render(PROMPT).endswith("<|im_start|>final: ")
    assert engine.thinking.render(PROMPT).endswith("Which is better?<|im_end|>\n")
    assert thinker(OPENED, thinking=True).thinking.render(PROMPT).endswith("<|im_start|>assistant\n<think>\n")


@pytest.mark.parametrize("template", [PLAIN, QWEN3.replace("message.reasoning_content", "message.hidden")])
def test_a_template_without_thinking_is_refused(thinker, template):
    with pytest.raises(EngineError, match="the model's chat template has no thinking"):
        thinker(template, thinking=True)


def test_a_model_without_a_template_has_no_thinking(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = None
    with pytest.raises(EngineError, match="has no thinking"):
        ThinkingTokenizer(tokenizer, 256)


def test_an_answer_that_is_begun_cannot_be_thought_about(thinker):
    engine = thinker(QWEN3, thinking=True)
    question = Question(Prompt("Which?", "Verdict:"), LABELS, Sampling())
    (answer,) = engine.answer([question]).rows
    assert "a model that thinks first cannot go on from 'Verdict:'" in str(answer)


def test_models_that_write_no_thoughts_are_refused():
    with pytest.raises(EngineError, match="cannot open 'nano' with thinking"):
        open_engine("nano", thinking=True)
