"""Two judges of this kind -> one between them: the weighted mean of their weights and of their counts'.

python -m training.mix runs/nano/v2 runs/nano/out --share .6 --out runs/nano/v3
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file


def mix(first: Path, second: Path, share: float, out: Path) -> None:
    """share : of the second judge, in [0, 1]; all that is neither weights nor counts is the second's, too."""
    out.mkdir(parents=True, exist_ok=True)
    for file in second.iterdir():
        shutil.copy(file, out / file.name)
    name = "model.safetensors"
    ours, theirs = load_file(first / name), load_file(second / name)
    mixed = {key: torch.lerp(ours[key].float(), value.float(), share).to(value.dtype) for key, value in theirs.items()}
    save_file(mixed, out / name, metadata={"format": "pt"})
    config = json.loads((out / "config.json").read_text(encoding="utf-8"))
    before = {row["begins"]: row["weights"] for row in _counts(first)}
    for row in config["synthscore"]["counts"]:
        pairs = zip(before[row["begins"]], row["weights"], strict=True)
        row["weights"] = [round((1 - share) * ours + share * theirs, 4) for ours, theirs in pairs]
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def _counts(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((folder / "config.json").read_text(encoding="utf-8"))["synthscore"][
        "counts"
    ]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    parser.add_argument("--share", type=float, required=True, help="of the second, in [0, 1]")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    mix(args.first, args.second, args.share, args.out)


if __name__ == "__main__":
    main()
