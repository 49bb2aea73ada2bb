"""Kill a verb at a random moment and run it again: the same bytes, and nothing that was stored is asked twice."""

from __future__ import annotations

import importlib
import os
import pkgutil
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

import synthscore
from synthscore import engines
from synthscore.cli.app import main
from synthscore.cli.messages import STOPPED
from synthscore.engine import Prompt, label_log_probs
from synthscore.io.write import write_rows
from synthscore.signature import text_hash
from synthscore.store.file import Store
from tests import factories
from tests.batch_lines import lines_of, result
from tests.fakes import FakeEngine, reading_judge, stored_in_batches
from tests.kills import LABELS, TrueEngine, prompts

SIGNATURE = "model:true@1|backend:arithmetic"
N_OF_A_PART = 5000  # answers of a store that is merged
OPEN_ENGINE = engines.open_engine
VERBS: dict[str, tuple[list[str], list[str]]] = {
    "score": (
        ["score", "targets.jsonl", "--references", "ladders", "-o", "scores.jsonl", "--both-orders", "--verdicts"],
        ["scores.jsonl"],
    ),
    "filter": (
        [
            "filter",
            "targets.jsonl",
            "--references",
            "ladders",
            "--min-score",
            "3",
            "-o",
            "k.jsonl",
            "--dropped",
            "d.csv",
        ],
        ["k.jsonl", "d.csv"],
    ),
    "generate": (
        ["generate", "contexts.jsonl", "--task", "summarization", "-a", "coherence", "--model", "fake", "-o", "made"],
        ["made"],
    ),
    "compare": (
        ["compare", "candidates.jsonl", "--task", "summarization", "-a", "coherence", "-o", "compared.jsonl"],
        ["compared.jsonl"],
    ),
    "calibrate": (
        ["calibrate", "labels.jsonl", "--guarantee", "precision>=0.8", "-o", "certificate.json"],
        ["certificate.json"],
    ),
    "references import": (
        ["references", "import", "mine.jsonl", "--task", "summarization", "-a", "coherence", "-o", "added"],
        ["added"],
    ),
    "store add": (
        ["store", "add", "out.jsonl", "--questions", "q.jsonl.manifest", "--store", "answers.sqlite"],
        ["answers.sqlite"],
    ),
    "store merge": (
        ["store", "merge", "part-1.sqlite", "part-2.sqlite", "--store", "answers.sqlite"],
        ["answers.sqlite"],
    ),
}
"""A verb's command, in a folder that `prepare` made, and what it writes there."""
ASKS = ("score", "filter", "generate", "compare")


class _Slow(FakeEngine):
    """Takes its time, and writes down how much it was asked."""

    def answer_alike(self, questions, progress):
        time.sleep(0.0002 * len(questions))
        answers = super().answer_alike(questions, progress)
        with open("asked", "ab") as file:
            file.write(b"." * len(questions))
        return answers


def _write_text(prompt: Prompt, seed: int) -> str:
    return f"The text q={seed % 5 + 1} {text_hash(prompt.text, str(seed))[:8]} of the harbour is written to its end."


def prepare(folder: Path) -> None:
    """What the verbs read: 40 contexts, ladders of 5 rungs, 3 targets each; 400 labels; ladders written by hand; the
    results of a batch service to 600 questions, and two stores."""
    ids = [f"c{k}" for k in range(40)]
    ladders = factories.references(*(factories.ladder(name) for name in ids))
    ladders.save(folder / "ladders", licence="CC0-1.0")
    factories.references(*(factories.ladder(f"old{k}") for k in range(20))).save(folder / "added", licence="CC0-1.0")
    contexts = [{"context_id": name, "context": f"Article {name}, about a harbour and a storm."} for name in ids]
    targets = [
        {"id": f"{name}-{k}", "context_id": name, "text": f"text of q={quality} ."}
        for name in ids
        for k, quality in enumerate((1.5, 3.2, 4.5))
    ]
    made = {"attribute": "coherence", "status": "ok", "signature": SIGNATURE}
    labels = [{"id": f"t{k}", "context_id": f"c{k}", "score": k / 100, "label": k > 200, **made} for k in range(400)]
    mine = [
        {**context, "rungs": [f"Sentence {k} of {context['context_id']} is here." for k in range(5)]}
        for context in contexts
    ]
    articles = {context["context_id"]: context["context"] for context in contexts}
    files = {
        "contexts": contexts,
        "targets": targets,
        "candidates": [{**target, "context": articles[target["context_id"]]} for target in targets],
        "labels": labels,
        "mine": mine,
    }
    for name, rows in files.items():
        write_rows(rows, folder / f"{name}.jsonl")
    engines.open_engine = OPEN_ENGINE
    ask = ["--model", "batch:m", "--questions-to", "q.jsonl", "--store", "batch.sqlite", "--answers", "words"]
    code = main(["score", "targets.jsonl", "--references", "ladders", "--one-order", *ask])
    assert code == STOPPED
    write_rows([result(line, "Better") for line in lines_of("q.jsonl")], folder / "out.jsonl")
    asked = prompts(2 * N_OF_A_PART)
    for number in (1, 2):
        with Store(folder / f"part-{number}.sqlite") as store:
            part = asked[(number - 1) * N_OF_A_PART : number * N_OF_A_PART]
            label_log_probs(stored_in_batches(TrueEngine(), store, 500), part, LABELS)


def forked(folder: Path, work: Callable[[], object], kill_after: float | None = None) -> tuple[bool, float]:
    """Run it in a process of its own, in this folder; whether it was killed before it ended, and seconds.

    A fork: what is imported is there at once, so that a kill meets the work.
    """
    start = time.perf_counter()
    if not (pid := os.fork()):
        os.chdir(folder)
        silent = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(silent, number)
        engines.open_engine = lambda name, **options: _Slow(reading_judge(), _write_text)  # type: ignore[assignment]
        code = 1
        try:
            code = work() or 0
        finally:
            os._exit(code)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    killed = os.WIFSIGNALED(status)
    assert killed or os.waitstatus_to_exitcode(status) in (0, 3), f"exit code {os.waitstatus_to_exitcode(status)}"
    return killed, time.perf_counter() - start


def written(folder: Path, names: Sequence[str]) -> dict[str, bytes]:
    """What the verb wrote; temporary files of a process that was killed are none of it."""
    files = [
        file for name in names for path in [folder / name] for file in ([path] if path.is_file() else path.glob("*"))
    ]
    return {
        str(file.relative_to(folder)): stored(file) if file.suffix == ".sqlite" else file.read_bytes()
        for file in files
        if file.name[0] != "."
    }


def stored(path: Path) -> bytes:
    """All answers of a store, in the order of their keys: SQLite's own pages depend on how often it was opened."""
    with Store(path, create=False) as store:
        answers = [answer for batch in store.batches() for answer in store.read(batch)]
    return "\n".join(sorted(f"{answer.key.hex()} {answer}" for answer in answers)).encode()


def kill_verb(verb: str, folder: Path, n_kills: int, seed: int = 0) -> tuple[int, int]:
    """Run a verb, kill it at a random moment, run it again; so many times. How many were killed before they ended, and
    how many answers they had stored, all together.

    raises : AssertionError where a rerun fails, gives other bytes than a run that was never killed, or asks what was
        stored already
    """
    for module in pkgutil.walk_packages(synthscore.__path__, "synthscore."):  # what a fork need not import
        if not module.name.startswith(("synthscore.engines.", "synthscore.integrations.", "synthscore.__main__")):
            importlib.import_module(module.name)
    rng = np.random.default_rng(seed)
    command, names = VERBS[verb]
    forked(folder, lambda: prepare(Path()))
    kept = {path.name for path in folder.iterdir()}
    shutil.copytree(folder, given := folder / ".given")

    def anew() -> None:
        for path in folder.iterdir():
            if path != given:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.copytree(given, folder, dirs_exist_ok=True)

    def run(kill_after: float | None = None) -> tuple[bool, float]:
        (folder / "asked").write_bytes(b"")
        store = ["--store", "store.sqlite"] if verb in ASKS else []
        return forked(folder, lambda: main([*command, *store]), kill_after)

    _, seconds = run()
    truth, n_all = written(folder, names), (folder / "asked").stat().st_size
    assert truth
    assert (n_all > 0) == (verb in ASKS)
    n_killed = n_stored = 0
    while n_killed < n_kills:
        anew()
        killed, _ = run(rng.uniform(0, seconds))
        n_killed += killed
        n_kept = 0
        if (folder / "store.sqlite").exists():
            with Store(folder / "store.sqlite") as store:
                n_kept = sum(batch.n_answers for batch in store.batches() if batch.kind in ("labels", "text"))
        run()
        assert written(folder, names) == truth, f"{verb}: other bytes after a kill"
        assert (folder / "asked").stat().st_size == n_all - n_kept, f"{verb}: stored answers were asked again"
        n_stored += n_kept
    assert kept <= {path.name for path in folder.iterdir()}
    return n_killed, n_stored
