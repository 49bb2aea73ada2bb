"""What a model's forward gives -> the numbers that are asked for, and which way to run it gives the right ones.

Shared by all engines whose model runs here. Log-probabilities are of float32: neighbouring bfloat16 logits near 20 are
0.125 apart.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import TypeVar, cast

import torch

from ..errors import EngineError, SynthscoreWarning
from ..types import FloatArray, IntArray

MAX_ROWS = 16  # sequences side by side: bounds the logits, (rows, places, vocabulary)
MOST_LOGITS = 2**25  # at once, where they are read at many places: 128 MiB in float32
_BLOCK = 64  # rows

Backend = TypeVar("Backend", bound=str)


def log_softmax(logits: torch.Tensor) -> torch.Tensor:
    """Log-probabilities of logits, nats, over the last axis, in float32."""
    return logits.float().log_softmax(-1)


def chosen(logits: torch.Tensor, rows: IntArray, tokens: IntArray) -> FloatArray:
    """log P of tokens[i] by logits[rows[i]], nats. In blocks: the logits in float32 would take as much memory again."""
    found = []
    for start in range(0, len(rows), _BLOCK):
        row, token = (torch.from_numpy(all_[start : start + _BLOCK]).to(logits.device) for all_ in (rows, tokens))
        found.append(log_softmax(logits[row]).gather(-1, token[:, None])[:, 0])
    values: FloatArray = torch.cat(found).double().cpu().numpy()
    return values


def disagreement(found: torch.Tensor, plain: torch.Tensor, dtype: torch.dtype) -> str:
    """In words, if log-probabilities differ by more than rounding; "" if they do not.

    Looks at the 50 most probable tokens of each row. Rounding is below 1e-4 nats in float32. Below float32 it grows
    with the numbers, 5 % of the largest at most; a wrong mask or position changes log-probabilities by nats.
    """
    top = plain.topk(min(50, plain.shape[-1])).indices
    found, plain = found.gather(-1, top), plain.gather(-1, top)
    difference = float((found - plain).abs().max())
    tolerance = 1e-4 if dtype == torch.float32 else max(0.1, 0.05 * float(plain.abs().max()))
    if difference <= tolerance:
        return ""
    return f"log-probabilities differ by {difference:.2g} nats from the plain forward, expected {tolerance:.2g}"


def choose_backend(
    name: str, wanted: str, backends: Mapping[Backend, str], problem_of: Callable[[Backend], str]
) -> Backend:
    """The first way to run a model that gives the numbers of its plain forward; or the one that is wanted, if it does.

    backends : in the order in which they are tried -> how prompts are then run, in words
    problem_of : why a backend is wrong, "" if it is not; it may raise whatever a forward raises
    raises : EngineError. warns : where the first backend is not the one that is taken
    """
    if wanted != "auto" and wanted not in backends:
        raise EngineError(f"{name}: backend is {wanted!r}, expected one of {', '.join(backends)}, or auto", model=name)
    problems: list[str] = []
    for backend in backends if wanted == "auto" else (cast("Backend", wanted),):
        try:
            problem = problem_of(backend)
        except Exception as error:  # a forward that does not take our arguments fails in its own way
            problem = f"its forward fails on {backend} input ({type(error).__name__}: {str(error)[:200]})"
        if not problem:
            if problems:
                words = f"{name}: prompts are run {backends[backend]}, because as {', '.join(problems)}"
                warnings.warn(words, SynthscoreWarning, stacklevel=6)
            return backend
        problems.append(f"{backend}, {problem}")
    remedy = "Take another model" if wanted == "auto" else "Try backend 'auto'"
    raise EngineError(f"{name} cannot be run right as {'; as '.join(problems)}. {remedy}", model=name)
