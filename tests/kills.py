"""Kill a process that writes to a store, again and again, and check after each time what is in the file.

The writer asks a StoredEngine over an engine whose answers follow from the question alone; so whatever is
stored can be compared with the truth, and whatever is asked again can be seen.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from synthscore.engine import Answers, Prompt, Question, Sampling, generate, label_log_probs
from synthscore.signature import Signature, text_hash
from synthscore.store.engine import answer_of
from synthscore.store.file import Store, Stored
from tests.fakes import stored_in_batches

LABELS = ("Better", "Worse", "Similar")
SAMPLING = Sampling(max_new_tokens=7)
CONTEXT = "An article that all questions share. " * 60
SIGNATURE = Signature.of(model="true@1", backend="arithmetic")
BATCH = 37


class TrueEngine:
    """Answers that follow from the question. asked : the prompts, in order."""

    signature = SIGNATURE

    def __init__(self, most: int | None = None) -> None:
        self.asked: list[Prompt] = []
        self.most = most

    def answer(self, questions, progress=None) -> Answers:
        self.asked += [question.prompt for question in questions]
        if self.most is not None and len(self.asked) > self.most:
            raise KeyboardInterrupt
        return Answers([answer_of(question.kind, truth(question)) for question in questions])


def truth(question: Question):
    """The value that is stored for a question."""
    digest = bytes.fromhex(text_hash(question.prompt.text, str(question.seed)))
    if question.sampling is not None:
        return [digest.hex() * 3, "stop", digest[0]]
    return {"log_probs": [-1.1 - byte / 7 for byte in digest[: len(question.labels)]], "rival": None}


def prompts(n: int) -> list[Prompt]:
    return [Prompt(f"{CONTEXT}Question {i}: {text_hash(str(i))}") for i in range(n)]


class _Telling(Store):
    """Prints how many answers were new, once they are stored."""

    def put_many(self, answers, run=None) -> int:
        n_new = super().put_many(answers, run)
        print(n_new, flush=True)
        return n_new


def write(path: str, n: int) -> None:
    """Ask n verdicts and n texts, in turns, and store them."""
    asked, part = prompts(n), 20 * BATCH
    with _Telling(path) as store:
        store._db.execute("PRAGMA wal_autocheckpoint=500")  # pages: so that a kill also falls into checkpoints
        engine = stored_in_batches(TrueEngine(), store, BATCH)
        for start in range(0, n, part):
            label_log_probs(engine, asked[start : start + part], LABELS)
            generate(engine, asked[start : start + part], SAMPLING, range(start, min(start + part, n)))


def check(path: Path, *, n_least: int = 0) -> int:
    """Every stored answer is true and has its question, and the file is sound. How many there are."""
    with Store(path, create=False) as store:
        assert store._db.execute("PRAGMA integrity_check").fetchall() == [(b"ok",)]
        answers = [answer for batch in store.batches() for answer in store.read(batch)]
        for answer in answers:
            _check_answer(answer)
        assert len(answers) == len(store) >= n_least, f"{len(answers)} stored, {n_least} were told"
        return len(answers)


def _check_answer(answer: Stored) -> None:
    assert answer.question is not None
    assert answer.question.key(str(SIGNATURE)) == answer.key
    assert answer.value == truth(answer.question)


def check_rerun(path: Path, asked: Sequence[Prompt], keys: Sequence[bytes], *, whole: bool = False) -> None:
    """A rerun asks what is missing, in order, and nothing else. whole : not only its first batch"""
    with Store(path, create=False) as store:
        found = store.get_many(keys)
        missing = [prompt for prompt, key in zip(asked, keys, strict=True) if key not in found]
        inner = TrueEngine(most=None if whole else 0)
        with suppress(KeyboardInterrupt):
            label_log_probs(stored_in_batches(inner, store, BATCH), asked, LABELS)
        assert inner.asked == (missing if whole else missing[:BATCH])


def kill_often(path: Path, n_kills: int, n: int, seed: int = 0) -> list[int]:
    """Start the writer and kill it at a random moment, n_kills times. Answers stored after each."""
    rng = np.random.default_rng(seed)
    asked = prompts(n)
    keys = [Question(prompt, LABELS).key(str(SIGNATURE)) for prompt in asked]
    counts: list[int] = []
    n_told = 0
    command = [sys.executable, "-c", f"from tests.kills import write; write({str(path)!r}, {n})"]
    for _ in range(n_kills):
        process = subprocess.Popen(  # no buffer here, or what it has read ahead is lost to communicate()
            command, bufsize=0, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=Path(__file__).parents[1]
        )
        assert process.stdout is not None
        first = process.stdout.readline()
        time.sleep(rng.uniform(0, 0.1))
        process.kill()
        rest, errors = process.communicate()
        assert first, errors.decode() or "the writer had nothing left to write: give it more"
        told = [first, *rest.splitlines(keepends=True)]
        n_told += sum(int(line) for line in told if line.endswith(b"\n"))
        counts.append(check(path, n_least=n_told))
        check_rerun(path, asked, keys)
    check_rerun(path, asked, keys, whole=True)
    return counts
