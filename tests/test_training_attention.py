"""Attention with gradients by hand, against the package's own and autograd."""

import pytest
import torch

from synthscore.engines import apart_model

attention = pytest.importorskip("training.attention").attention


def test_values_and_gradients_are_those_of_autograd():
    torch.manual_seed(0)
    seen = torch.rand(7, 9) < 0.6
    seen[:, 0] = True
    bias = torch.zeros(7, 9).masked_fill_(~seen, -1e9)
    blocks = [
        (0, 5, torch.arange(5), torch.zeros(5, 5)),
        (5, 12, torch.tensor([0, 1, 3, 5, 6, 7, 8, 10, 11]), bias),
    ]
    query, key, value = (torch.randn(1, 3, 12, 4, requires_grad=True) for _ in range(3))
    weights = torch.randn(1, 12, 3, 4)
    found = []
    for way in (apart_model.attention, attention):
        output, _ = way(None, query, key, value, None, 0.5, blocks=blocks)
        gradients = torch.autograd.grad((output * weights).sum(), (query, key, value))
        found.append((output.detach(), *gradients))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)
