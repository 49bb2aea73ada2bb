"""The folder that a page's commands run in: small files as a newcomer has them, and models that answer at once.

`nano` is itself; what it answered is remembered for all pages of a run, below each page's own store. Every other
model, on the hub or a server, is a stand-in.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from papers import benchmarks as released
from papers.benchmarks import BENCHMARKS
from synthscore.engine import (
    Answer,
    Answers,
    Capabilities,
    Engine,
    Generation,
    LabelAnswer,
    Progress,
    Question,
    capabilities_of,
)
from synthscore.engines import open_engine
from synthscore.evaluation.methods import METHODS
from synthscore.ladders.references import References
from synthscore.resources import resource
from synthscore.signature import Signature
from tests.plugins import papers_installed

from .shell import REPOSITORY, run

RELEASED = REPOSITORY.parent / "shared" / "benchmarks"
MADE_UP = ("summeval", "topicalchat")
PAIR = re.compile(r"\n[^\n]* [1A]:\n(.*)\n\n[^\n]* [2B]:\n(.*)\n\nVerdict:", re.DOTALL)
VERDICTS = {"Better": 1, "Worse": -1, "Similar": 0, "Yes": 1, "No": -1, "A": -1, "B": 1}  # of the second text
N_CONTEXTS = 4  # that nano is asked about: it reads no more in a few seconds
ATTRIBUTES = ("coherence", "fluency", "relevance")
N_FEW = 40  # that people rated, drawn at random
N_COPIES = 4  # of what is labelled, since few labels promise nothing
SENTENCE = "the ferry lost its power near an island and two tugs brought it home"
COMPARISONS = """\
first,second,probability
plain,careful,0.20
careful,plain,0.90
hasty,plain,0.35
plain,hasty,0.75
careful,hasty,0.95
hasty,careful,0.15
"""
QUALITY = {"careful": 4.5, "hasty": 3.0, "broken": 1.5}


class Remembering:
    """An engine that is asked each question once."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.known: dict[Question, Answer] = {}

    @property
    def signature(self) -> Signature:
        return self.engine.signature

    @property
    def capabilities(self) -> Capabilities:
        return capabilities_of(self.engine)

    def answer(self, questions: Sequence[Question], progress: Progress | None = None) -> Answers:
        new = list(dict.fromkeys(question for question in questions if question not in self.known))
        answers = self.engine.answer(new)
        self.known |= dict(zip(new, answers.rows, strict=True))
        if progress:
            progress(len(questions))
        return Answers([self.known[question] for question in questions])


class StandIn:
    """Answers like a model of this name, without it: it knows how good the texts are that it is shown.

    quality : text -> on the rung scale; of any other text it is made up
    """

    def __init__(self, name: str, quality: Mapping[str, float]) -> None:
        self.name, self.quality = name, quality

    @property
    def signature(self) -> Signature:
        return Signature.of(model=f"{self.name}@stand-in", backend="stand-in")

    def answer(self, questions: Sequence[Question], progress: Progress | None = None) -> Answers:
        return Answers([self.answer_one(question) for question in questions])

    def answer_one(self, question: Question) -> Answer:
        """The same for the same question."""
        draw = np.random.default_rng(list(question.key("")))
        if question.kind == "tokens":
            return np.array([-len(word) / 10 for word in (question.continuation or "").split()])
        if question.kind == "text":
            words = draw.permutation(SENTENCE.split())
            return Generation(f"{' '.join(words).capitalize()}.", "stop", len(words))
        pair = PAIR.search(question.prompt.text)
        labels = tuple(label for label in VERDICTS if label in question.labels)
        if pair is None or not labels:
            return LabelAnswer(np.log(0.9 * draw.dirichlet(np.ones(len(question.labels)))).tolist())
        first, second = (self.quality.get(text, 1 + 4 * draw.random()) for text in pair.groups())
        odds = {label: sign * (second - first + draw.normal(0, 0.3)) / 2 for label, sign in VERDICTS.items()}
        weights = np.exp([odds[label] for label in question.labels])
        return LabelAnswer(np.log(0.9 * weights / weights.sum()).tolist())


class Models:
    """Opens models by name, each once; recorded answers and folders as they are."""

    def __init__(self) -> None:
        self.nano: Remembering | None = None
        curated = References.load(
            resource("data/references/curated/summarization/test.parquet")
        )  # doctor asks about it
        self.quality = {rung.text: float(rung.level) for ladder in curated for rung in ladder.rungs}

    def open(self, name: str, **options: Any) -> Engine:
        if name.startswith(("recorded:", "batch:")) or Path(name).is_dir():
            return open_engine(name, **options)
        if name != "nano":
            return StandIn(name, self.quality)
        self.nano = self.nano or Remembering(open_engine("nano"))
        return self.nano


@contextmanager
def entered(folder: Path, models: Models) -> Iterator[None]:
    """The working folder is this one, with a store of its own; papers/ is installed; models are opened by `models`."""
    with pytest.MonkeyPatch.context() as patch, papers_installed(), mock.patch.dict(METHODS):
        patch.chdir(folder)
        patch.setenv("SYNTHSCORE_STORE", str(folder / ".answers.sqlite"))
        patch.setenv("COLUMNS", "120")
        patch.setattr("synthscore.cli.messages.EVERY", float("inf"))
        for name in MADE_UP:  # which have a dozen texts here
            small = replace(BENCHMARKS[name], size=None)
            patch.setitem(BENCHMARKS, name, small)
            patch.setattr(released.RELEASED, name, small)
        patch.setattr("synthscore.engines.open_engine", models.open)
        yield


def fill(folder: Path, models: Models) -> None:
    """Files as a newcomer has them, and ladders for them; the folder must have been entered."""
    contexts = _demo_rows("summarization")
    of = {row["id"]: row for row in contexts}
    targets = [row for row in _demo_rows("targets") if row["context_id"] in of]
    few = [row for row in targets if row["context_id"] in list(of)[:N_CONTEXTS]]
    rated = [
        {
            **row,
            "context": of[row["context_id"]]["text"],
            "references": of[row["context_id"]]["references"],
            "human": {name: QUALITY[row["system"]] - (at + k) % 4 / 4 for k, name in enumerate(ATTRIBUTES)},
        }
        for at, row in enumerate(targets)
    ]
    labelled = [{**row, "id": f"{row['id']}/{copy}"} for copy in range(N_COPIES) for row in targets]
    files: dict[str, Sequence[Mapping[str, Any]]] = {
        "contexts": contexts,
        **dict.fromkeys(("targets", "rows", "texts", "some", "more"), few),
        "candidates": [{**row, "context": of[row["context_id"]]["text"]} for row in few],
        "labelled": labelled,
        "labels": [{"id": row["id"], "label": row["system"] == "careful"} for row in labelled],
        "ratings": rated[: len(few)],
        "summeval": rated[: len(few)],
    }
    for name, rows in files.items():
        _write(folder / f"{name}.jsonl", rows)
    rated_rows = [f"{row['id']},{QUALITY[row['system']]}\n" for row in labelled]
    drawn = np.random.default_rng(0).choice(rated_rows, N_FEW, replace=False)
    (folder / "people.csv").write_text("id,human\n" + "".join(rated_rows), encoding="utf-8")
    (folder / "few.csv").write_text("id,human\n" + "".join(drawn), encoding="utf-8")
    (folder / "comparisons.csv").write_text(COMPARISONS, encoding="utf-8")
    code, printed = run("synthscore generate contexts.jsonl --task summarization -a coherence -o ladders/")
    assert code == 0, printed
    rungs = [rung for ladder in References.load(folder / "ladders") for rung in ladder.usable]
    models.quality |= {rung.text: float(rung.level) for rung in rungs if rung.text}
    models.quality |= {row["text"]: QUALITY[row["system"]] for row in targets}


def link_benchmarks(folder: Path) -> None:
    """The benchmarks' own files, and published answers. raises : FileNotFoundError, where they are not at hand"""
    (folder / "benchmarks").mkdir()
    for path in RELEASED.glob("*.jsonl.gz"):
        (folder / "benchmarks" / path.name).symlink_to(path)
    for path in (RELEASED / "judge_outputs").glob("*.jsonl.gz"):
        (folder / path.name).symlink_to(path)


def make_benchmarks(folder: Path) -> None:
    """Files of the benchmarks' names in synthscore's own form, with a dozen texts, and published answers about them."""
    (folder / "benchmarks").mkdir()
    for name in MADE_UP:
        benchmark = BENCHMARKS[name]
        contexts = {row["id"]: row for row in _demo_rows(benchmark.task)[:N_CONTEXTS]}
        scales = {attribute: scale or (1.0, 5.0) for attribute, scale in benchmark.scales.items()}
        rows = [
            {
                **{field: row[field] for field in ("context_id", "system", "text")},
                "context": contexts[row["context_id"]]["text"],
                "facts": contexts[row["context_id"]].get("facts", ""),
                "references": contexts[row["context_id"]]["references"],
                "human": {
                    attribute: low + (high - low) * (QUALITY[row["system"]] - at % 4 / 8 - 1) / 4
                    for attribute, (low, high) in scales.items()
                },
            }
            for at, row in enumerate(row for row in _demo_rows("targets") if row["context_id"] in contexts)
        ]
        _write(folder / "benchmarks" / f"{name}.jsonl", rows)
        answers = [
            {
                **{field: row[field] for field in ("context_id", "system")},
                "kind": "score_distribution",
                "benchmark": name,
                "attribute": attribute,
                "judge": "Qwen2.5-72B-Instruct",
                "logprobs": dict(zip("12345", np.log(np.full(5, 0.2)) - abs(np.arange(1, 6) - rating), strict=True)),
            }
            for row in rows
            for attribute, rating in row["human"].items()
        ]
        _write(folder / f"{name}_score_distributions.jsonl.gz", answers)


def _write(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    with gzip.open(path, "wt", encoding="utf-8") if path.suffix == ".gz" else path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def _demo_rows(name: str) -> list[dict[str, Any]]:
    path = resource("data/demo") / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
