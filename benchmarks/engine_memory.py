"""Does memory grow with the number of targets?

    python -m benchmarks.engine_memory --shape 0.1b --dtype bfloat16
    python -m benchmarks.engine_memory --shape lfm2 --dtype float32 --targets 16 256

Peak resident memory above that of the loaded model and the prompts, of one process for each number of targets, in the
work of benchmarks/engine.py; shapes are also the kinds of benchmarks/branches.py. The floor is the activations of one
chunk of 2,048 tokens.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import torch

from benchmarks.branches import KINDS, make_kind
from benchmarks.engine import SHAPES, make_model, make_prompts
from synthscore.engines.tree.causal import CausalEngine
from tests.models import byte_level


def resident(field: str) -> float:
    """MB: VmRSS is now, VmHWM the peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))


def measure(shape: str, dtype: str, n_targets: int) -> dict[str, float]:
    if shape in KINDS:
        model = make_kind(shape).to(getattr(torch, dtype))
    else:
        model = make_model(shape, getattr(torch, dtype), "cpu")
    prompts = make_prompts(n_targets, model.config.vocab_size)
    engine = CausalEngine(model, byte_level(), name="random", max_tokens=2048)
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = resident("VmRSS")
    start, kept = time.perf_counter(), []
    for group, log_probs, _ in engine.run(prompts, engine.backend):
        kept.append((group, log_probs[:, :3].tolist()))
    seconds = time.perf_counter() - start
    return {"before": before, "above": resident("VmHWM") - before, "seconds": seconds, "prompts": len(prompts)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=[*SHAPES, *KINDS], default="0.1b")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="bfloat16")
    parser.add_argument("--targets", type=int, nargs="+", default=[16, 64, 256])
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measure(args.shape, args.dtype, args.one)))
        return
    found = {}
    for n in args.targets:
        command = [sys.executable, "-m", "benchmarks.engine_memory", "--shape", args.shape, "--dtype", args.dtype]
        output = subprocess.run([*command, "--one", str(n)], check=True, capture_output=True, text=True).stdout
        found[n] = json.loads(output.splitlines()[-1])
    lines = [
        f"{args.shape} {args.dtype}, one process each; MB resident",
        f"{'targets':>8}{'prompts':>9}{'above model':>13}",
    ]
    for n, row in found.items():
        ratio = row["above"] / found[args.targets[0]]["above"]
        rate = row["prompts"] / row["seconds"]
        lines.append(f"{n:>8}{row['prompts']:>9}{row['above']:>10.0f} MB   {ratio:.2f} x   {rate:.1f} prompts/s")
    text = "\n".join([*lines, json.dumps(found)])
    print(text)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / f"engine-memory-{args.shape}-{args.dtype}.txt").write_text(text + "\n")


if __name__ == "__main__":
    main()
