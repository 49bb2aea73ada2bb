"""The temperature that makes verdicts as sure as they are right, and its place in the head's weights."""

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForMaskedLM

from training.temperature import divide_logits, temperature_of


@pytest.mark.parametrize("true_t", [0.6, 1.0, 1.8])
def test_the_temperature_that_made_the_labels_is_found(true_t):
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 2, (20000, 3))
    probs = np.exp(logits / true_t)
    probs /= probs.sum(axis=1, keepdims=True)
    truth = (probs.cumsum(axis=1) > rng.random((len(probs), 1))).argmax(axis=1)
    said = np.exp(logits)
    said /= said.sum(axis=1, keepdims=True)
    assert temperature_of(said, truth) == pytest.approx(true_t, rel=0.03)


def test_the_head_divides_all_logits():
    torch.manual_seed(0)
    config = BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32)
    model = BertForMaskedLM(config).eval()
    with torch.no_grad():
        model.cls.predictions.bias.normal_()
        ids = torch.tensor([[1, 7, 3]])
        before = model(ids).logits
        model.config.synthscore = {"counts": [{"weights": [3.4, -1.7]}]}
        divide_logits(model, 1.7)
        assert torch.allclose(model(ids).logits, before / 1.7, atol=1e-6)
        assert model.config.synthscore["counts"] == [{"weights": [2.0, -1.0]}]
