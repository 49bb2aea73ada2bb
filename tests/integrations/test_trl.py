"""A reward function for TRL: alone, and in GRPO of a tiny model where TRL is installed."""

import itertools
import pickle

import pytest

from synthscore.errors import InputError
from synthscore.integrations.mount import row_of
from synthscore.integrations.trl import Reward, _text, reward
from synthscore.types import Score

from .conftest import text


def said(quality):
    return [{"role": "assistant", "content": text(quality)}]


def test_one_reward_a_completion_plain_and_conversational(judge, ladders):
    rewards = Reward(references=ladders)
    plain = rewards(prompts=["p"] * 2, completions=[text(2), text(4)], context_id=["c1", "c2"], other=[1, 2])
    chats = rewards(prompts=[[]] * 2, completions=[said(2), said(4)], context_id=["c1", "c2"], trainer_state=None)
    rows = [row_of(0, text(2), context_id="c1"), row_of(1, text(4), context_id="c2")]
    assert plain == chats == [score.value for score in rewards.scores(rows)]
    assert plain[0] < plain[1]


def test_an_empty_completion_is_the_worst_and_an_unscored_one_is_none(judge, ladders):
    logged = {}
    rewards = Reward(references=ladders)(
        prompts=["p"] * 4,
        completions=[text(1), " \n", [], text(5)],
        context_id=["c1", "c1", "c1", "elsewhere"],
        log_extra=logged.__setitem__,
    )
    assert rewards[0] > rewards[1] == rewards[2] == 0.0
    assert rewards[3] is None
    assert logged["synthscore"][:3] == ["ok", "empty", "empty"]
    assert "there is no ladder summarization/elsewhere" in logged["synthscore"][3]
    assert Reward(references=ladders)(prompts=["p"], completions=[""]) == [0.0]


def test_below_the_ladder_nothing_is_cut_off_and_silence_does_not_pay(ladders, monkeypatch):
    low = [Score(str(k), "c1", "coherence", value) for k, value in enumerate((-2.0, -0.5))]
    monkeypatch.setattr(Reward, "scores", lambda self, rows: low)
    assert Reward(references=ladders)(prompts=["p"] * 3, completions=["bad", "", "poor"]) == [-2.0, -2.0, -0.5]


def test_beside_a_second_reward_an_unscored_text_is_paid_the_mean_of_its_group_if_told_to(ladders, monkeypatch):
    """TRL adds up what all functions pay, with None as 0: below the worst rung, where another function pays too."""
    values = [2.0, 4.0, None, 5.0, 1.0, None]

    def one(value, k):
        status, reason = ("unscored", "no label has mass") if value is None else ("ok", "")
        return Score(str(k), "c1", "coherence", value, status=status, reason=reason)

    monkeypatch.setattr(Reward, "scores", lambda self, rows: [one(value, k) for k, value in enumerate(values)])
    given = {"prompts": [*"pppqqr"], "completions": ["a b"] * 6, "context_id": ["c1", "c1", "c1", "c2", "c2", "c3"]}

    def summed(reward):
        """As GRPOTrainer does."""
        of_each = zip(reward(**given), [0.5] * 6, strict=True)
        return [sum(value for value in pair if value is not None) for pair in of_each]

    assert summed(Reward(references=ladders)) == [2.5, 4.5, 0.5, 5.5, 1.5, 0.5]
    assert summed(Reward(references=ladders, unscored="mean")) == [2.5, 4.5, 3.5, 5.5, 1.5, 3.5]
    monkeypatch.setattr(Reward, "scores", lambda self, rows: [one(None, k) for k in range(6)])
    assert Reward(references=ladders, unscored="mean")(**given) == [None] * 6
    with pytest.raises(InputError, match="unscored is 'zero', expected one of none, mean"):
        Reward(references=ladders, unscored="zero")


def test_no_text_is_worth_less_than_none_and_units_are_between_0_and_1(judge, ladders):
    rewards = Reward(references=ladders, unit_scale=True)
    worst, middle, best = rewards(prompts=["p"] * 3, completions=[text(-30), text(3), text(30)], context_id=["c1"] * 3)
    assert (worst, best) == (0.0, 1.0)
    assert 0.4 < middle < 0.6


def test_without_ids_the_prompt_is_the_context(judge, tmp_path):
    from synthscore.io.fields import id_of_text
    from tests import factories
    from tests.scoring.test_scorer import ladder

    factories.references(ladder(id_of_text("An article."))).save(tmp_path / "by_text")
    rewards = Reward(references=str(tmp_path / "by_text"))
    chat = [{"role": "user", "content": "An article."}]
    assert None not in rewards(prompts=["An article.", chat], completions=[text(2), said(2)])
    assert rewards(prompts=["Another."], completions=[text(2)]) == [None]


def test_it_has_a_name_and_survives_pickling(ladders):
    made = Reward(references=ladders, attribute="coherence")
    assert made.__name__ == "synthscore-coherence"
    assert pickle.loads(pickle.dumps(made)) == made
    assert _text([{"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "image"}]}]) == "a"


def test_the_function_of_the_module_is_made_from_the_environment(judge, ladders, monkeypatch):
    monkeypatch.setenv("SYNTHSCORE_REFERENCES", ladders)
    monkeypatch.setenv("SYNTHSCORE_UNIT_SCALE", "1")
    [value] = reward(prompts=["p"], completions=[text(3)], context_id=["c1"])
    assert 0.4 < value < 0.6
    assert reward.__name__ == "synthscore"


# ------------------------------------------------------------------------------------------------- the real one

WORDS = ["bad", "poor", "plain", "fine", "good", "great"]


def tokenizer():
    """Words, which are worth more from first to last."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: place for place, word in enumerate(["<pad>", "<eos>", "<unk>", "write", *WORDS])}
    words = Tokenizer(models.WordLevel(vocabulary, "<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>", padding_side="left"
    )


def tiny_model(n_tokens):
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    return GPT2LMHeadModel(
        GPT2Config(vocab_size=n_tokens, n_positions=32, n_embd=32, n_layer=1, n_head=2, eos_token_id=1, pad_token_id=0)
    )


def worth(prompt, labels):
    """A judge of words: how many good ones more the text has than the rung, or bad ones fewer."""
    import re

    import numpy as np

    rung, written = (
        np.mean([WORDS.index(word) for word in re.findall(r"\w+", part.split(".")[0]) if word in WORDS] or [-1])
        for part in re.findall(r"Summary [12]:\n(.*)", prompt.text)
    )
    weights = np.exp([written - rung, rung - written, 0.0][: len(labels)])
    return np.log(0.9 * weights / weights.sum())


def test_grpo_learns_what_the_ladder_shows(judge, tmp_path):
    trl = pytest.importorskip("trl", reason="TRL is not installed: make test-integrations")
    datasets = pytest.importorskip("datasets")
    from tests import factories

    judge.judge = worth
    rungs = [f"{low} {high}." for low, high in itertools.pairwise(WORDS)]
    factories.references(factories.ladder("c1", texts=rungs)).save(tmp_path / "words")
    made = Reward(references=str(tmp_path / "words"), attribute="coherence")
    words = tokenizer()
    arguments = trl.GRPOConfig(
        output_dir=str(tmp_path / "out"), max_steps=50, per_device_train_batch_size=16, num_generations=16,
        max_completion_length=6, learning_rate=3e-3, logging_steps=1, beta=0.0, use_cpu=True, report_to=[], seed=1,
        save_strategy="no", disable_tqdm=True, bf16=False,
    )  # fmt: skip
    trainer = trl.GRPOTrainer(
        model=tiny_model(len(words)),
        reward_funcs=[made],
        args=arguments,
        train_dataset=datasets.Dataset.from_list([{"prompt": "write", "context_id": "c1"}] * 64),
        processing_class=words,
    )
    trainer.train()
    means = [row["rewards/synthscore-coherence/mean"] for row in trainer.state.log_history if "reward" in row]
    print("mean rewards:", [round(mean, 2) for mean in means])
    assert len(means) == 50
    assert sum(means[-10:]) / 10 > sum(means[:10]) / 10 + 1.0
