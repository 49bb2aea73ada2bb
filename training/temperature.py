"""A trained judge -> the same judge with verdicts that are as sure as they are right.

    python -m training.temperature --model runs/nano/out --corpora ../corpora --out data/nano

One temperature for all labels, fitted on held-out groups to choose on, and put into the head's own weights: what the
judge prefers does not change. source: Guo et al. (2017), section 4.2
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from transformers import BertForMaskedLM

from synthscore.engines import open_engine

from .evaluate import Judge, calibration_error, heldout_groups, labelled_pairs


def temperature_of(probs: np.ndarray, truth: np.ndarray) -> float:
    """The T that makes softmax(log p / T) most probable. probs : shape (n, n_labels). truth : shape (n,)"""
    logits = np.log(np.maximum(probs, 1e-12))

    def loss(log_t: float) -> float:
        scaled = logits / np.exp(log_t)
        log_probs = scaled - np.logaddexp.reduce(scaled, axis=1, keepdims=True)
        return -float(log_probs[np.arange(len(truth)), truth].mean())

    return float(np.exp(minimize_scalar(loss, bounds=(-1.5, 1.5), method="bounded").x))


def divide_logits(model: BertForMaskedLM, temperature: float) -> None:
    """logits = decoder(LayerNorm(h)) + bias + leaning: norm's output, bias and counts' weights are divided."""
    head = model.cls.predictions
    for attribute in getattr(model.config, "synthscore", {}).get("counts", []):
        attribute["weights"] = [round(weight / temperature, 4) for weight in attribute["weights"]]
    with torch.no_grad():
        for parameter in (head.transform.LayerNorm.weight, head.transform.LayerNorm.bias, head.bias):
            parameter.div_(temperature)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--corpora", type=Path, required=True)
    parser.add_argument("--groups", type=int, default=15, help="held-out groups an attribute")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    judge = Judge(open_engine(str(args.model), dtype="float32"))
    made = heldout_groups(args.corpora, args.groups, "choose")
    found = [labelled_pairs(judge, made, *key) for key in sorted({(group.task, group.attribute) for group in made})]
    probs, truth = (np.concatenate([getattr(each, name) for each in found]) for name in ("probs", "truth"))
    temperature = temperature_of(probs, truth)
    model = BertForMaskedLM.from_pretrained(args.model, dtype=torch.float32)
    divide_logits(model, temperature)
    args.out.mkdir(parents=True, exist_ok=True)
    for file in args.model.iterdir():
        if file.name != "model.safetensors" and file.resolve().parent != args.out.resolve():
            shutil.copy(file, args.out / file.name)
    model.to(torch.bfloat16).save_pretrained(args.out)
    (args.out / "model.safetensors").chmod(0o644)
    scaled = probs ** (1 / temperature)
    scaled /= scaled.sum(axis=1, keepdims=True)
    before, after = calibration_error(probs, truth), calibration_error(scaled, truth)
    print(f"temperature {temperature:.3f} on {len(truth)} questions; calibration error {before:.3f} -> {after:.3f}")


if __name__ == "__main__":
    main()
