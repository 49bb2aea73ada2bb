"""A judge, and the same judge trained on -> one between the two.

    python -m training.average data/nano runs/nano/out --share 0.3 --out runs/nano/between

Trained on, a judge learns one thing and forgets another; between the two weights it keeps more of both.
source: Wortsman et al. (2022), "Robust fine-tuning of zero-shot models"
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from transformers import AutoTokenizer, BertForMaskedLM

from .train import save


def average(one: torch.nn.Module, other: torch.nn.Module, share: float) -> None:
    """Move the weights of one towards those of the other, by so much of the way."""
    theirs = other.state_dict()
    one.load_state_dict(
        {
            name: value.lerp(theirs[name], share) if value.is_floating_point() else value
            for name, value in one.state_dict().items()
        }
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("judge", type=Path)
    parser.add_argument("trained_on", type=Path, help="what training.train --start JUDGE made")
    parser.add_argument("--share", type=float, default=0.3, help="of the way towards the second")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    one, other = (
        BertForMaskedLM.from_pretrained(folder, dtype=torch.float32) for folder in (args.judge, args.trained_on)
    )
    average(one, other, args.share)
    save(one, AutoTokenizer.from_pretrained(args.trained_on), args.out)


if __name__ == "__main__":
    main()
