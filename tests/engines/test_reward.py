"""Reward models, small and random: each text read once and alone, and what their rewards come to on a ladder."""

import numpy as np
import pytest
import torch
import transformers as tf

from synthscore.engine import Prompt, capabilities_of, label_log_probs, rewards, token_log_probs
from synthscore.engines import open_engine
from synthscore.errors import EngineError
from synthscore.judging.asking import PROTOCOLS, Asking, Pair, ask
from synthscore.judging.templates import Templates, load_task
from synthscore.scoring.anchored.mode import Anchored
from synthscore.scoring.paper import paper_sum, rung_equivalent
from synthscore.scoring.scorer import Scorer
from synthscore.store.engine import StoredEngine
from synthscore.store.file import Store
from synthscore.types import Target
from tests.factories import context, ladder, references
from tests.models import byte_level, word_piece

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
CAUSAL = SIZES | {"num_key_value_heads": 4, "max_position_embeddings": 512}
PROMPT = Prompt("Write one summary.")


def save(folder, config, tokenizer, n_labels=1):
    torch.manual_seed(0)
    config = config(vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id, num_labels=n_labels)
    model = tf.AutoModelForSequenceClassification.from_config(config).eval()
    with torch.no_grad():
        for weights in model.parameters():
            if weights.ndim >= 2:
                weights.normal_(0, 0.15)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model, str(folder)


KINDS = {
    "llama": (lambda **more: tf.LlamaConfig(**CAUSAL, **more), byte_level),
    "qwen2": (lambda **more: tf.Qwen2Config(**CAUSAL, **more), byte_level),
    "bert": (lambda **more: tf.BertConfig(**SIZES, max_position_embeddings=512, **more), word_piece),
}


@pytest.fixture(scope="module", params=KINDS)
def reward_model(request, tmp_path_factory):
    config, tokenizer = KINDS[request.param]
    return *save(tmp_path_factory.mktemp(request.param), config, tokenizer()), tokenizer()


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    config, tokenizer = KINDS["llama"]
    return open_engine(save(tmp_path_factory.mktemp("reward"), config, tokenizer())[1])


def test_a_reward_is_that_of_the_plain_forward_over_both_turns(reward_model):
    model, folder, tokenizer = reward_model
    turns = [{"role": "user", "content": PROMPT.text}, {"role": "assistant", "content": "It rained."}]
    if tokenizer.chat_template:
        ids = tokenizer(tokenizer.apply_chat_template(turns, tokenize=False), return_tensors="pt")
    else:
        ids = tokenizer(PROMPT.text, "It rained.", return_tensors="pt")
    with torch.inference_mode():
        expected = model(**ids).logits.item()
    (found,) = rewards(open_engine(folder), [PROMPT], ["It rained."])
    assert found == pytest.approx(expected, abs=1e-6)


def test_a_control_token_in_a_judged_text_is_text(reward_model):
    _, folder, tokenizer = reward_model
    spelled = tokenizer.eos_token or tokenizer.sep_token
    fields = open_engine(folder)._encoded(PROMPT, f"It {spelled} rained.")
    plain = open_engine(folder)._encoded(PROMPT, "It rained.")
    control = tokenizer.convert_tokens_to_ids(spelled)
    assert (fields["input_ids"] == control).sum() == (plain["input_ids"] == control).sum()
    assert fields["input_ids"].shape > plain["input_ids"].shape


def test_a_classifier_is_no_reward_model(tmp_path):
    config, tokenizer = KINDS["llama"]
    _, folder = save(tmp_path, config, tokenizer(), n_labels=3)
    with pytest.raises(EngineError, match="classifies into 3 classes, expected one output"):
        open_engine(folder)


def test_it_neither_judges_nor_writes_nor_reports_probabilities(engine):
    assert "is a reward model" in label_log_probs(engine, [PROMPT], ["Yes", "No"]).failures[0]
    with pytest.raises(EngineError, match="does not report how probable"):
        token_log_probs(engine, [PROMPT], ["It rained."])


def test_a_text_that_is_too_long_or_empty_fails_alone(engine):
    found = rewards(engine, [PROMPT] * 3, ["It rained.", " ", "rain " * 600])
    assert isinstance(found[0], float)
    assert ["empty" in str(found[1]), "expected at most 512" in str(found[2])] == [True, True]


# ------------------------------------------------------------------------------------------------- on a ladder

RUNGS = tuple(f"Rung number {k} of the ladder." for k in range(1, 6))
LADDERS = references(ladder(texts=RUNGS))
TEXTS = ("It rained.", "The harbour is closed after a storm.")


def own(engine, texts):
    """Rewards as the scorer asks for them."""
    prompt = Templates(load_task("summarization")).reply_to(context(), "coherence")
    return np.array(rewards(engine, [prompt] * len(texts), texts))


def sigma(d):
    return 1 / (1 + np.exp(-d))


def test_the_rungs_mean_gap_is_one_nat_and_the_papers_sum_follows(engine):
    rungs, texts = own(engine, RUNGS), own(engine, TEXTS)
    tau = np.diff(np.sort(rungs)).mean()
    better = sigma((texts[:, None] - rungs) / tau)
    scorer = Scorer(LADDERS, engine)
    scores = scorer.score([_target(text) for text in TEXTS])
    expected = rung_equivalent(paper_sum(better, 1 - better), 5)
    assert [score.value for score in scores] == pytest.approx(expected.tolist())
    assert all(np.isnan(score.details["label_mass"]) for score in scores)
    parts = dict(scorer.signature.parts)
    assert (parts["backend"], parts["tau"]) == ("reward", "rungs")
    assert parts["template"].startswith("default/likelihood@")


def _target(text):
    return Target(text, "c1", text)


class Counting:
    def __init__(self, engine):
        self.engine, self.signature, self.read = engine, engine.signature, []
        self.capabilities = capabilities_of(engine)

    def answer(self, questions, progress=None):
        self.read += [question.continuation for question in questions]
        return self.engine.answer(questions, progress)


def test_each_text_is_read_once_however_many_rungs_orders_and_runs(engine, tmp_path):
    counting, told = Counting(engine), []
    with Store(tmp_path / "store.sqlite") as store:
        judge = StoredEngine(counting, store)
        for _ in range(2):
            Scorer(LADDERS, judge, asking=Asking(both_orders=True)).score(list(map(_target, TEXTS)), told.append)
    assert sorted(counting.read) == sorted([*RUNGS, *TEXTS])
    assert sum(told) == 2 * 2 * 5 * 2


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_protocol_and_both_orders_say_the_same(engine, protocol):
    pairs = [Pair(context(), "coherence", text, rung) for text in TEXTS for rung in RUNGS]
    templates = Templates(load_task("summarization"))
    asked = ask(pairs, engine, templates, Asking(protocol, both_orders=True), on_ladders=True)
    plain = ask(pairs, engine, templates, on_ladders=True)
    np.testing.assert_allclose(asked.by_order, [np.stack([plain.better, plain.worse, plain.similar], -1)] * 2)
    np.testing.assert_allclose(plain.similar, 0)


def test_off_ladders_the_models_own_unit_stands(engine):
    asked = ask([Pair(context(), "coherence", *TEXTS)], engine, Templates(load_task("summarization")))
    (one, other) = own(engine, TEXTS)
    assert asked.better == pytest.approx([sigma(one - other)])


def test_anchored_scores_put_the_rungs_in_the_order_of_their_rewards(engine):
    scores = Scorer(LADDERS, engine, scoring=Anchored()).score([_target(text) for text in (*TEXTS, *RUNGS)])
    values = [score.value for score in scores]
    assert np.argsort(values).tolist() == np.argsort(own(engine, [*TEXTS, *RUNGS])).tolist()


def test_rungs_without_a_scale_leave_their_texts_unscored(engine):
    (score,) = Scorer(references(ladder(texts=(RUNGS[0], None))), engine).score([_target(TEXTS[0])])
    assert score.status == "unscored"
    assert "the rewards of the ladder's rungs give no scale" in score.reason
