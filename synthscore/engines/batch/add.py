"""Files of answers and manifests -> rows of a store. Every line has one fate, and all are counted.

Files are taken in any order, partial, doubled, and damaged. An answer is stored where its id is that of a question of a
manifest, a reply of the model that was asked, and readable as an answer to that question; of several, the first that
is. What is in no file is unasked, and is written again the next time. Replies lie on disk meanwhile: memory is flat.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from ...engine import Capabilities, Generation, LabelAnswer, Question, find_fault
from ...errors import EngineError, InputError, Reasons, SynthscoreWarning
from ...io.fields import parse_json
from ...signature import Signature
from ...store.engine import look_up, stored_value
from ...store.file import Store, Stored
from ..servers.anthropic import ended_at
from ..servers.steps import NextToken
from ..tokens import Ids, LabelForms, PromptTokenizer
from .engine import BatchEngine
from .exact import answer_on_labels, read_step, starts_of
from .manifest import Manifest, ManifestBlock
from .replies import Reason, Reply, Shape, read_reply, read_text, same_model

Fate = Literal["stored", "known", "doubled", "error", "other model", "unreadable", "incomplete", "unknown", "damaged"]
"""What becomes of a line: its answer is stored; was in the store before; is an answer that another line gave; is the
service's error; another model's; no answer to its question; a part of an answer whose other parts are missing; has an
id of no question here; is no line of a results file."""

_WORDS: Mapping[Fate, str] = {
    "stored": "stored",
    "known": "in the store before",
    "doubled": "doubled",
    "error": "errors of the service",
    "other model": "of another model, refused",
    "unreadable": "no answers to their questions",
    "incomplete": "parts of answers",
    "unknown": "to no question of the manifests",
    "damaged": "damaged",
}
_MOST_LINE = 1 << 27  # bytes; no answer comes near
_AT_ONCE = 2000  # replies put on disk together

_JSON = json.JSONEncoder(separators=(",", ":"))


@dataclass(slots=True)
class Added:
    """What became of lines and questions.

    fates : of lines. why : of those that gave no answer, in words
    n_questions, n_unasked : of the manifests, and those of them that the store has no answer to by now
    models : by which the replies named who answered
    """

    fates: Counter[Fate] = field(default_factory=Counter)
    why: Reasons = field(default_factory=Reasons)
    n_questions: int = 0
    n_unasked: int = 0
    models: Counter[str] = field(default_factory=Counter)

    @property
    def complete(self) -> bool:
        """Whether every line gave an answer, or one that was there."""
        return not self.fates.keys() - {"stored", "known", "doubled"}

    @property
    def words(self) -> str:
        """What became of the lines, by number."""
        told = ", ".join(
            f"{self.fates[fate]:,} {words}".replace(",", " ") for fate, words in _WORDS.items() if self.fates[fate]
        )
        return f"{self.fates.total():,} lines: ".replace(",", " ") + (told or "nothing")


def add_answers(
    store: Store,
    answers: Sequence[str | Path],
    manifests: Sequence[str | Path],
    *,
    served_as: str | None = None,
    tokenizer: str | None = None,
) -> Added:
    """Put the answers of files into the store.

    served_as : the name by which replies name the model, where that is another than was asked for
    tokenizer : instead of the one that a manifest names
    raises : InputError for a file that cannot be read, or is no manifest, or a tokenizer that is not the one that the
        questions were made with; StoreError
    warns : of what cannot be read of a manifest, and of replies by several models' names
    """
    if not manifests:
        raise InputError(
            "there is no manifest, which says what was asked: it lies beside the file of questions. Name it: "
            "--questions FILE"
        )
    added = Added()
    with tempfile.TemporaryDirectory() as folder, closing(_Replies(Path(folder) / "replies")) as replies:
        asked = [Manifest(Path(path)) for path in manifests]
        judges = [_Judge(each, served_as, tokenizer) for each in asked]
        places = _places(asked)
        for path in answers:
            _sort_in(Path(path), places, judges, replies, added)
        for number, judge in enumerate(judges):
            for at, chunk in enumerate(judge.manifest.chunks()):
                ours = {place for place, stem in enumerate(chunk.stems) if places[stem] == (number, at, place)}
                _store_chunk(store, judge, chunk, ours, replies.of_chunk(number, at), added)
    for manifest in asked:
        if manifest.n_damaged:
            warnings.warn(
                f"{manifest.n_damaged} lines of the manifest {manifest.path} cannot be read: answers to their "
                "questions are to none here. Write the questions again, with the command that wrote them",
                SynthscoreWarning,
                stacklevel=2,
            )
    if len(added.models) > 1:
        warnings.warn(
            f"the replies name {len(added.models)} models: {', '.join(sorted(added.models))}. Ask for one by its dated "
            "name, so that all answers are of one model",
            SynthscoreWarning,
            stacklevel=2,
        )
    return added


Place = tuple[int, int, int]
"""Of a question: number of its manifest, of the chunk in it, and its place in that."""


def _places(manifests: Sequence[Manifest]) -> dict[str, Place]:
    """By stems of ids; the first manifest that has it."""
    places: dict[str, Place] = {}
    for number, manifest in enumerate(manifests):
        for at, chunk in enumerate(manifest.chunks()):
            for place, stem in enumerate(chunk.stems):
                places.setdefault(stem, (number, at, place))
    return places


class _Judge:
    """Whom a manifest's questions are for, as replies name it, and its tokenizer, loaded when an answer needs it."""

    def __init__(self, manifest: Manifest, served_as: str | None, tokenizer: str | None) -> None:
        self.manifest = manifest
        self.asked = manifest.asked
        self.model = served_as or self.asked.model
        self._named = tokenizer or self.asked.tokenizer
        self._by_user = bool(tokenizer)
        self._tokens: PromptTokenizer | None = None

    @property
    def tokens(self) -> PromptTokenizer:
        if self._tokens is None:
            printed = Signature.parse(self.asked.signature).part("date_string")
            date = datetime.strptime(printed, "%d %b %Y").strftime("%Y-%m-%d") if printed else None
            signed = Signature.parse(self.asked.signature)
            engine = BatchEngine(
                self.asked.model,
                wire=self.asked.wire,
                tokenizer=self._named or None,
                date=date,
                thinking=bool(signed.part("thinking")),
                reasoning_effort=signed.part("effort"),
                download=self._by_user,  # a manifest may be a stranger's
            )
            if str(engine.signature) != self.asked.signature or engine.tokens is None:
                raise InputError(
                    f"the tokenizer {self._named!r} makes the judge {engine.signature} of the questions, and the "
                    f"manifest {self.manifest.path} is of {self.asked.signature}. Name the right one with --tokenizer"
                )
            self._tokens = engine.tokens
        return self._tokens


def _sort_in(path: Path, places: dict[str, Place], judges: Sequence[_Judge], replies: _Replies, added: Added) -> None:
    """Each line of a file to the question that it answers, or to its fate."""
    try:
        with path.open("rb") as file:
            while line := file.readline(_MOST_LINE):
                if not line.strip():
                    continue
                try:
                    reply = read_reply(parse_json(line.decode("utf-8-sig")))
                except (ValueError, RecursionError) as error:
                    added.fates["damaged"] += 1
                    added.why.add(f"a line cannot be read: {error!s:.300}")
                    continue
                if fate := _refusal(reply, places, judges, added):
                    added.fates[fate] += 1
                    continue
                number, chunk, place = places[reply.stem]
                replies.add(number, chunk, place, reply)
    except OSError as error:
        raise InputError(
            f"cannot read the answers {path}: {error.strerror}. Check the path", source=str(path)
        ) from error


def _refusal(reply: Reply, places: dict[str, Place], judges: Sequence[_Judge], added: Added) -> Fate | None:
    """Why a reply is no answer to a question here; None where it may be one."""
    if reply.stem not in places:
        added.why.add(f"the id {reply.stem}-{reply.part} is of no question of the manifests")
        return "unknown"
    if reply.body is None:
        added.why.add(f"the service: {reply.error}")
        return "error"
    judge = judges[places[reply.stem][0]]
    if (reply.model or reply.shape != "gemini") and not same_model(judge.model, reply.model):
        added.why.add(
            f"{reply.model!r:.80} answered, and {judge.model!r:.80} was asked. If it goes by that name, "
            "say so with --served-as"
        )
        return "other model"
    if reply.model:
        added.models[reply.model] += 1
    return None


def _store_chunk(
    store: Store, judge: _Judge, chunk: ManifestBlock, ours: set[int], replies: _ByPlace, added: Added
) -> None:
    """Store the answers to a chunk's questions. ours : places of those that no chunk before it has"""
    added.n_questions += len(ours)
    signature = judge.asked.signature
    try:
        keyed = chunk.questions(signature)
    except ValueError as error:
        added.why.add(f"questions of the manifest {judge.manifest.path} cannot be read: {error}")
        keyed = [None] * len(chunk.stems)
    known = [keyed[place] for place in sorted(ours) if keyed[place] is not None]
    pairs = cast("list[tuple[bytes, Question]]", known)
    held = look_up(store, [key for key, _ in pairs], [question for _, question in pairs], Capabilities())
    rows: dict[bytes, Stored] = {}
    for place, parts in replies.items():
        pair = keyed[place]
        n_lines = sum(map(len, parts.values()))
        if pair is None:
            added.fates["unknown"] += n_lines
            added.why.add(f"the question {chunk.stems[place]} of the manifest does not have the key that its id is of")
        elif pair[0] in held:
            added.fates["known"] += n_lines
        elif (answer := _answer(pair[1], judge, parts, added)) is not None:
            rows[pair[0]] = Stored(pair[0], pair[1].kind, stored_value(answer), signature, pair[1])
    store.put_many(rows.values())
    added.n_unasked += len(ours) - len(held) - len(rows)


def _answer(question: Question, judge: _Judge, parts: _Parts, added: Added) -> Generation | LabelAnswer | None:
    """Of the replies to one question; None where they are none. Their fates are counted."""
    try:
        requests = _requests(question, judge)
    except EngineError as error:
        added.fates["unreadable"] += sum(map(len, parts.values()))
        added.why.add(str(error))
        return None
    read: dict[int, Any] = {}
    for part, candidates in parts.items():
        for shape, body in candidates:
            if part in read:
                added.fates["doubled"] += 1
                continue
            try:
                read[part] = requests[part](shape, body)
            except (ValueError, LookupError, TypeError, AttributeError) as error:
                added.fates["unreadable"] += 1
                added.why.add(f"{type(error).__name__}: {error!s:.300}")
    if not read:
        return None
    if len(read) < len(requests):
        added.fates["incomplete"] += len(read)
        added.why.add(f"{len(read)} of the {len(requests)} replies that make an answer are there")
        return None
    answer = read[0] if question.kind == "text" else _on_labels(question, judge, read)
    if fault := find_fault(answer, question):
        added.fates["unreadable"] += len(read)
        added.why.add(fault)
        return None
    added.fates["stored"] += len(read)
    return cast("Generation | LabelAnswer", answer)


def _requests(question: Question, judge: _Judge) -> list[Callable[[Shape, Any], Any]]:
    """How the reply to each request of a question is read. raises : EngineError for one that is not asked so"""
    if question.kind == "text":
        return [lambda shape, body: generation(question, *read_text(shape, body))]
    if question.kind != "labels":
        raise EngineError("a file cannot ask how probable a given text is")
    _, forms = judge.tokens.question(question.prompt, question.labels)
    return [partial(_step, forms, start) for start in starts_of(forms)]


def _step(forms: LabelForms, start: Ids, _: Shape, body: Any) -> NextToken[int]:
    return read_step(forms, start, body)


def _on_labels(question: Question, judge: _Judge, steps: Mapping[int, Any]) -> LabelAnswer:
    _, forms = judge.tokens.question(question.prompt, question.labels)
    return answer_on_labels(forms, [steps[part] for part in sorted(steps)], judge.tokens)


def generation(question: Question, text: str, reason: Reason, n_tokens: int) -> Generation:
    """A text as the answer to a question. Where no label is asked for, one that was refused is a text that ended: who
    writes ladders sees that it is none, and asks again."""
    if question.labels or question.sampling is None:
        return Generation(text, reason, n_tokens)
    return ended_at(Generation(text, "stop" if reason == "refusal" else reason, n_tokens), question.sampling)


_Parts: TypeAlias = "Mapping[int, list[tuple[Shape, Any]]]"
"""Part of a question's requests -> shapes and bodies of the replies to it."""
_ByPlace: TypeAlias = "Mapping[int, _Parts]"


class _Replies:
    """Replies on disk, by the questions that they may answer."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        for pragma in ("journal_mode=OFF", "synchronous=OFF", "locking_mode=EXCLUSIVE"):
            self._db.execute(f"PRAGMA {pragma}")
        self._db.execute(
            "CREATE TABLE replies (manifest INTEGER, chunk INTEGER, place INTEGER, part INTEGER, number INTEGER,"
            " shape TEXT, body TEXT, PRIMARY KEY (manifest, chunk, place, part, number)) WITHOUT ROWID"
        )
        self._waiting: list[tuple[Any, ...]] = []
        self._n = 0

    def add(self, manifest: int, chunk: int, place: int, reply: Reply) -> None:
        self._n += 1
        body = _JSON.encode(reply.body)
        self._waiting.append((manifest, chunk, place, reply.part, self._n, reply.shape, body))
        if len(self._waiting) >= _AT_ONCE:
            self._write()

    def _write(self) -> None:
        self._db.execute("BEGIN")
        self._db.executemany("INSERT INTO replies VALUES (?, ?, ?, ?, ?, ?, ?)", self._waiting)
        self._db.execute("COMMIT")
        self._waiting.clear()

    def of_chunk(self, manifest: int, chunk: int) -> _ByPlace:
        """Place -> part -> shapes and bodies, in the order in which they came."""
        self._write()
        query = (
            "SELECT place, part, shape, body FROM replies WHERE manifest = ? AND chunk = ? ORDER BY place, part, number"
        )
        found: dict[int, dict[int, list[tuple[Shape, Any]]]] = {}
        for place, part, shape, body in self._db.execute(query, (manifest, chunk)):
            found.setdefault(place, {}).setdefault(part, []).append((shape, json.loads(body)))
        return found

    def close(self) -> None:
        self._db.close()
