"""Ask a judge what `benchmarks.cost` needs, once: verdicts on whole ladders in both orders, and how long prompts are.

    synthscore generate texts.jsonl --task summarization -a all -o ladders
    python -m benchmarks.cost_record JUDGE benchmarks/answers/NAME.npz --texts texts.jsonl --references ladders
        --tokenizer FOLDER [--contexts 20] [--attribute coherence ...] [--dtype bfloat16] [--place]

JUDGE : nano, or a folder or hub id
--texts : rows with context_id and text. Contexts whose ladder has not all five rungs are left out
--place : ask, too, which of all rungs shown at once a text is most like

No text is kept, and no token: of prompts in the order of their tokens, how many each has, and with how many it begins
like the one before. That is enough to count what any of them share (`benchmarks.cost.Prompts`). What is done is kept
after each context.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
from transformers import AutoTokenizer

from synthscore.engine import Engine, Prompt, Question, label_log_probs
from synthscore.engines import open_engine
from synthscore.engines.local import Questions
from synthscore.engines.tokens import PromptTokenizer
from synthscore.io.fields import Row
from synthscore.io.files import read_rows
from synthscore.judging.asking import PROTOCOLS, Pair, prompt_of
from synthscore.judging.templates import Templates, load_task
from synthscore.ladders.references import References
from synthscore.types import Ladder

N_RUNGS = 5
LEVELS = tuple("12345")


def ladders_of(references: str, attributes: Sequence[str], n_contexts: int) -> list[Ladder]:
    found: dict[str, list[Ladder]] = {}
    for ladder in References.load(references):
        if len(ladder.usable) == N_RUNGS and ladder.attribute in attributes:
            found.setdefault(ladder.context_id, []).append(ladder)
    whole = [own for own in found.values() if len(own) == len(attributes)]
    return [ladder for own in whole[:n_contexts] for ladder in own]


def placing(ladder: Ladder, templates: Templates, text: str) -> Prompt:
    """All rungs at once."""
    assert ladder.context is not None
    attribute = templates.task.attribute(ladder.attribute)
    shown = "\n\n".join(f"Summary {rung.level}:\n{rung.text}" for rung in ladder.usable)
    return Prompt(
        f"A summary of an article is placed on a scale of five others, from the worst, 1, to the best, 5.\n\n"
        f"Article:\n{ladder.context.text}\n\n{attribute.title}: {attribute.description}\n\n{shown}\n\n"
        f"The summary to be placed:\n{text}\n\n"
        f"Which of the summaries 1 to 5 is it most like in {attribute.name}? Answer with one number.\n\nNumber:"
    )


def lengths(sequences: Sequence[Sequence[int]]) -> dict[str, np.ndarray]:
    """What `benchmarks.cost.Prompts` reads: order, shared (by place in that order) and length."""
    order = sorted(range(len(sequences)), key=lambda k: list(sequences[k]))
    shared = [0] * len(order)
    for place in range(1, len(order)):
        pair = zip(sequences[order[place - 1]], sequences[order[place]], strict=False)
        shared[place] = sum(1 for _ in takewhile(lambda both: both[0] == both[1], pair))
    return {
        "order": np.array(order, dtype=np.int32),
        "shared": np.array(shared, dtype=np.int16),
        "length": np.array([len(each) for each in sequences], dtype=np.int16),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("judge")
    parser.add_argument("output")
    parser.add_argument("--texts", required=True)
    parser.add_argument("--references", required=True)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--contexts", type=int, default=20)
    parser.add_argument("--attribute", nargs="+", default=["coherence"])
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--place", action="store_true")
    args = parser.parse_args()
    texts: dict[str, list[str]] = {}
    for row in read_rows(args.texts):
        if isinstance(row, Row):
            texts.setdefault(row.values["context_id"], []).append(row.values["text"])
    judge = open_engine(args.judge, dtype=args.dtype)
    tokenizer = AutoTokenizer.from_pretrained(args.tokenizer)
    recorder = Recorder(judge, PromptTokenizer(tokenizer, 32768), tokenizer)
    began = time.monotonic()
    for ladder in ladders_of(args.references, args.attribute, args.contexts):
        recorder.ask(ladder, texts[ladder.context_id], place=args.place)
        recorder.save(Path(args.output))
        print(f"{ladder.context_id} {ladder.attribute}: {time.monotonic() - began:.0f} s", flush=True)


class Recorder:
    def __init__(self, judge: Engine, prompts: PromptTokenizer, tokenizer: Any) -> None:
        self.judge, self.prompts, self.tokenizer = judge, prompts, tokenizer
        self.templates = Templates(load_task("summarization"))
        self.ladder: list[int] = []  # of each text
        self.names: list[str] = []  # of each ladder: its attribute
        self.log_probs: list[np.ndarray] = []
        self.places: list[np.ndarray] = []
        self.sequences: dict[str, list[Any]] = {"compare": [], "place": [], "reward": []}
        self.n_computed = 0

    def ask(self, ladder: Ladder, texts: Sequence[str], *, place: bool) -> None:
        assert ladder.context is not None
        pairs = [Pair(ladder.context, ladder.attribute, text, rung.text) for text in texts for rung in ladder.usable]
        prompts = [prompt_of(p, self.templates, "compare", swapped=swapped) for p in pairs for swapped in (False, True)]
        answers = label_log_probs(self.judge, prompts, PROTOCOLS["compare"])
        self.n_computed += answers.usage.n_computed
        self.log_probs.append(answers.log_probs.reshape(len(texts), N_RUNGS, 2, 3))
        self.sequences["compare"] += self._encoded(prompts, PROTOCOLS["compare"])
        placings = [placing(ladder, self.templates, text) for text in texts]
        self.sequences["place"] += self._encoded(placings, LEVELS)
        if place:
            self.places.append(label_log_probs(self.judge, placings, LEVELS).log_probs)
        for text in texts:
            said = [{"role": "user", "content": ladder.context.text}, {"role": "assistant", "content": text}]
            self.sequences["reward"].append(self.tokenizer.apply_chat_template(said, return_dict=True)["input_ids"])
        self.ladder += [len(self.names)] * len(texts)
        self.names.append(ladder.attribute)

    def _encoded(self, prompts: Sequence[Prompt], labels: tuple[str, ...]) -> list[Any]:
        """Of each prompt the one sequence that holds all that is run for it: a label of two tokens takes one more."""
        encoded = []
        for prompt in prompts:
            *shorter, longest = sorted(Questions([Question(prompt, labels)], self.prompts, "").sequences, key=len)
            assert all(np.array_equal(each, longest[: len(each)]) for each in shorter)
            encoded.append(longest.tolist())
        return encoded

    def save(self, output: Path) -> None:
        arrays = {"log_probs": np.concatenate(self.log_probs).astype(np.float32)}
        if self.places:
            arrays["places"] = np.concatenate(self.places).astype(np.float32)
        for name, sequences in self.sequences.items():
            arrays |= {f"{name}_{key}": values for key, values in lengths(sequences).items()}
        np.savez_compressed(
            output,
            ladder=np.array(self.ladder, dtype=np.int16),
            attributes=np.array(self.names),
            signature=str(self.judge.signature),
            n_computed=self.n_computed,
            **arrays,
        )


if __name__ == "__main__":
    main()
