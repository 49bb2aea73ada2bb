"""Ladders to a released dataset and back: one row a rung, with all that is needed to make it again.

A release is a folder that `datasets.load_dataset` reads too: ladders.parquet, README.md (its card), manifest.json (its
hashes), and of each task that is not the package's tasks/NAME/task.toml. Equal ladders give equal bytes: no clock, a
fixed order of rows. Knows nothing of models or scoring.
"""

from __future__ import annotations

import logging
import os
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import cached_property
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any

from ..errors import InputError, LadderError, ReferencesError, did_you_mean, require_kind
from ..io.fields import shorten
from ..io.write import replacing, write_whole
from ..judging.task_files import task_hash
from ..judging.templates import is_built_in, is_task, load_task
from ..signature import text_hash, texts_hash
from ..types import Ladder, Task, context_key, grouped
from .card import card_text
from .carried import read_tasks, task_folder, write_tasks
from .release import DATA, FORMAT, Key, ladder_rows, write_table
from .tables import (
    ClosedLadder,
    LadderFile,
    RowRun,
    check_manifest,
    file_sha256,
    find_files,
    holds_ladders,
    key_of,
    read_about,
    read_index,
    read_ladder,
    write_manifest,
)

CARD = "README.md"
_LOG = logging.getLogger(__name__)


class References:
    """Ladders by task, context and attribute, in that order; each once.

    Those that `load` finds are opened when they are asked for, and closed again when many others were since: memory
    holds an index, which has no texts.

    source : where they came from
    tasks : that the ladders are of; those that are not the package's are carried along (`carried_tasks`)
    raises : ReferencesError for two ladders of one task, context and attribute
    """

    def __init__(
        self, ladders: Iterable[Ladder | ClosedLadder] = (), source: str = "memory", tasks: Iterable[Task] = ()
    ) -> None:
        self.source = source
        self._index: dict[Key, Ladder | ClosedLadder] = {}
        for ladder in sorted(ladders, key=key_of):
            key = key_of(ladder)
            if key in self._index:
                raise ReferencesError(
                    f"{source} holds two ladders {'/'.join(key)}, expected one. Remove one, or keep the two in folders "
                    "of their own",
                    source=source,
                )
            self._index[key] = ladder
        self.carried_tasks: dict[str, Task] = {}
        for task in tasks:
            if task.name in self.tasks and not is_built_in(task):
                self.carried_tasks[task.name] = task
        self._by_hash: dict[tuple[str, str], list[tuple[str, Key]]] = {}  # of `foreign`, once they are asked for

    def __len__(self) -> int:
        return len(self._index)

    def __iter__(self) -> Iterator[Ladder]:
        """All ladders in turn; few are in memory at a time. raises : ReferencesError as `find`"""
        return map(_open_ladder, self._index.values())

    def __contains__(self, key: Key) -> bool:
        """Whether there is a ladder of this task, context and attribute."""
        return key in self._index

    def __repr__(self) -> str:
        n_by_task = Counter(task for task, _, _ in self._index)
        counts = ", ".join(f"{n} of {task}" for task, n in n_by_task.items())
        held = f"{len(self)} ladders"
        if counts:
            held += f": {counts}"
        return f"References({self.source!r}, {held})"

    def __reduce__(self) -> tuple[Any, ...]:
        return References, (self.ladders, self.source, tuple(self.carried_tasks.values()))

    @property
    def ladders(self) -> tuple[Ladder, ...]:
        """All of them, in memory together."""
        return tuple(self)

    @cached_property
    def tasks(self) -> tuple[str, ...]:
        return tuple(sorted({task for task, _, _ in self._index}))

    @cached_property
    def attributes(self) -> tuple[str, ...]:
        return tuple(sorted({attribute for _, _, attribute in self._index}))

    @cached_property
    def context_ids(self) -> tuple[str, ...]:
        return tuple(sorted({context_id for _, context_id, _ in self._index}))

    @cached_property
    def attributes_by_task(self) -> dict[str, tuple[str, ...]]:
        """Task -> the attributes that it has ladders for, in the order in which they first appear."""
        names: dict[str, dict[str, None]] = {task: {} for task in self.tasks}
        for task, _, attribute in self._index:
            names[task][attribute] = None
        return {task: tuple(attributes) for task, attributes in names.items()}

    @cached_property
    def lengths(self) -> dict[int, int]:
        """How many ladders there are of each number of rungs, the shortest first."""
        return dict(sorted(Counter(ladder.n_rungs for ladder in self._index.values()).items()))

    @cached_property
    def scales(self) -> tuple[int, ...]:
        """The scales that scores on these ladders are on, each once, rising: see Ladder.scale."""
        return tuple(sorted({ladder.scale for ladder in self._index.values()}))

    @cached_property
    def hash(self) -> str:
        """Hex sha256; changes when any rung changes, or a context that the ladders carry. Opens all ladders in turn."""
        texts = ((*key_of(ladder), *_hashed_texts(ladder)) for ladder in self)
        return texts_hash(chain.from_iterable(texts))

    @cached_property
    def _keys_by_text(self) -> dict[str, list[Key]]:
        """context_key of a context's text -> its ladders. Opens all ladders in turn."""
        return grouped((context_key(ladder.context.text), key_of(ladder)) for ladder in self if ladder.context)

    # ------------------------------------------------------------------------------------------------- finding

    def find(self, context_id: str, attribute: str, task: str | None = None) -> Ladder:
        """The ladder of a context and an attribute.

        raises : LadderError, which names the nearest that there are; ReferencesError where the ladder's texts are not
            those that were hashed
        """
        (ladder,) = self.find_all([(context_id, attribute, task)])
        if isinstance(ladder, LadderError):
            raise ladder
        return ladder

    def find_all(self, wanted: Iterable[tuple[str, str, str | None]]) -> list[Ladder | LadderError]:
        """The ladder of each, or why there is none. Faster than to find one after the other where they come in any
        order.

        wanted : context ids, attributes and tasks, as `find` takes them
        raises : ReferencesError as `find`
        """
        results = [self._look_up(*names) for names in wanted]
        ladders = iter(_open_all([result for result in results if not isinstance(result, LadderError)]))
        return [result if isinstance(result, LadderError) else next(ladders) for result in results]

    def find_by_text(self, text: str, attribute: str, task: str | None = None) -> Ladder:
        """The ladder whose context's text is this one, whatever id it was made under; white space does not count.

        raises : LadderError where there is none, or where the ladders of this text are of several tasks, or have other
            rungs; ReferencesError as `find`
        """
        closed = []
        for key in self._keys_by_text.get(context_key(text), ()):
            its_task, _, its_attribute = key
            if its_attribute == attribute and task in (None, its_task):
                closed.append(self._index[key])
        ladders = _open_all(closed)
        question = attribute if task is None else f"{task}/{attribute}"
        wanted = f"{question} for the context {shorten(text)}"
        tasks = sorted({ladder.task for ladder in ladders})
        if not ladders:
            message = f"there is no ladder {wanted} in {self.source}. Make it with: synthscore generate"
        elif len(tasks) > 1:
            names = ", ".join(tasks)
            message = f"{self.source} holds ladders {wanted}, for the tasks {names}. Say which with task="
        elif len({ladder.hash for ladder in ladders}) > 1:
            ids = ", ".join(repr(ladder.context_id) for ladder in ladders)
            message = (
                f"{self.source} holds ladders {wanted} with other rungs under the ids {ids}. Name the context's id"
            )
        else:
            return ladders[0]
        raise LadderError(message, attribute=attribute, task=task)

    def share(self, context_id: str) -> References:
        """With the ladders of this context as those that texts of all contexts are compared with; of their tasks and
        attributes alone. The other ladders stay, for their contexts.

        raises : LadderError, which names the nearest that there are
        """
        questions = {(task, attribute) for task, name, attribute in self._index if name == context_id}
        if not questions:
            message = (
                f"there is no ladder of context {context_id!r} in {self.source}: {self._describe_nearest(context_id)}"
            )
            raise LadderError(f"{message}. Name one of its contexts", context_id=context_id)
        ladders = []
        for (task, name, attribute), ladder in self._index.items():
            if (task, attribute) in questions:
                ladders.append(replace(ladder, shared=name == context_id))
        return self._of_these(ladders)

    def shared(self, task: str, attribute: str) -> Ladder | None:
        """The ladder that texts of all contexts are compared with; None where texts have ladders of their own.

        raises : LadderError where there are several; ReferencesError as `find`
        """
        keys = self._shared_keys.get((task, attribute), ())
        if len(keys) > 1:
            names = ", ".join(context_id for _, context_id, _ in keys)
            raise LadderError(
                f"{self.source} holds {len(keys)} shared ladders for {task}/{attribute}, of the contexts {names}. Say "
                "which texts are compared with: --ladder ID; in Python References.share(ID)",
                attribute=attribute,
                task=task,
            )
        if not keys:
            return None
        return _open_ladder(self._index[keys[0]])

    def shares(self, task: str, attribute: str) -> bool:
        """Whether texts of all contexts are compared with the same ladder."""
        return (task, attribute) in self._shared_keys

    def compared(self, task: str, attribute: str) -> References:
        """The ladders that texts are compared with: the shared one, or all. raises : as `shared`"""
        shared = self.shared(task, attribute)
        if shared is None:
            return self.filter(task=task, attribute=attribute)
        return self._of_these([shared])

    @cached_property
    def _shared_keys(self) -> dict[tuple[str, str], list[Key]]:
        """Task and attribute -> the keys of the shared ladders."""
        shared = [key for key, ladder in self._index.items() if ladder.shared]
        return grouped(((task, attribute), (task, name, attribute)) for task, name, attribute in shared)

    def foreign(self, context_id: str, attribute: str, task: str) -> Ladder | LadderError:
        """The ladder of another context, as a control that shows what a ladder of the text's own context is worth.

        It is that of the next context in the order of the hashes of their ids, which is always the same.
        """
        if (task, attribute) not in self._by_hash:
            keys = (key for key in self._index if (key[0], key[2]) == (task, attribute))
            self._by_hash[task, attribute] = sorted((text_hash(key[1]), key) for key in keys)
        ring = self._by_hash[task, attribute]
        key = None
        if ring:
            index = bisect_right(ring, text_hash(context_id), key=itemgetter(0))
            _, key = ring[index % len(ring)]
        if key is None or key[1] == context_id:
            message = f"{self.source} holds no ladder {task}/{attribute} of another context than {context_id!r}"
            return LadderError(message, context_id=context_id, attribute=attribute, task=task)
        return _open_ladder(self._index[key])

    def _look_up(self, context_id: str, attribute: str, task: str | None) -> Ladder | ClosedLadder | LadderError:
        """The ladder, or an error that names the nearest that there are."""
        tasks = self.tasks if task is None else (task,)
        held = [name for name in tasks if (name, context_id, attribute) in self._index]
        if len(held) == 1:
            return self._index[held[0], context_id, attribute]
        wanted = f"{context_id}/{attribute}"
        if task is not None:
            wanted = f"{task}/{wanted}"
        if held:
            names = ", ".join(held)
            message = f"{self.source} holds {len(held)} ladders {wanted}, for the tasks {names}. Say which with task="
        else:
            near = self._describe_nearest(context_id)
            message = f"there is no ladder {wanted} in {self.source}: {near}. Make it with: synthscore generate"
        return LadderError(message, context_id=context_id, attribute=attribute, task=task)

    def _describe_nearest(self, context_id: str) -> str:
        """What there is instead of a ladder."""
        ids = self.context_ids
        if not ids:
            return "it holds none at all"
        index = bisect_left(ids, context_id)
        if ids[index : index + 1] == (context_id,):
            names = sorted({f"{task}/{attribute}" for task, name, attribute in self._index if name == context_id})
            return f"this context has ladders for {', '.join(names[:5])}"
        near = ids[max(0, index - 100) : index + 100]  # not all of many: each target may fail to find one
        close = get_close_matches(context_id, near, n=5) or near[:5]
        return f"of its {len(ids)} contexts the nearest are {', '.join(map(repr, close))}"

    def filter(
        self,
        *,
        task: str | None = None,
        attribute: str | Collection[str] | None = None,
        context_id: str | None = None,
    ) -> References:
        """The ladders of one task, one attribute or any of several, one context."""
        attributes = [attribute] if isinstance(attribute, str) else attribute
        chosen = []
        for (its_task, its_context, its_attribute), ladder in self._index.items():
            if (
                task in (None, its_task)
                and context_id in (None, its_context)
                and (attributes is None or its_attribute in attributes)
            ):
                chosen.append(ladder)
        return self._of_these(chosen)

    def _of_these(self, ladders: Iterable[Ladder | ClosedLadder]) -> References:
        return References(ladders, self.source, self.carried_tasks.values())

    def select(
        self,
        *,
        task: str | None = None,
        attribute: str | Collection[str] | None = None,
        context_id: str | None = None,
    ) -> References:
        """As `filter`; task may be a folder with a task.toml.

        raises : LadderError where there are none, or none of one of the attributes; as `find_task`
        """
        named = self.find_task(task).name if task else None
        chosen = self.filter(task=named, attribute=attribute, context_id=context_id)
        attributes = [attribute] if isinstance(attribute, str) else attribute or ()
        missing = [name for name in attributes if name not in chosen.attributes]
        if len(chosen) and not missing:
            return chosen
        wanted = {"context": context_id, "attribute": ", ".join(missing), "task": task}
        names = ", ".join(f"{name} {value!r}" for name, value in wanted.items() if value) or "any kind"
        advice = "".join(did_you_mean(name, self.attributes) for name in missing[:1])
        raise LadderError(
            f"{self.source} holds no ladder of {names}. It has the tasks {', '.join(self.tasks)}, the attributes "
            f"{', '.join(self.attributes)}, and the contexts {shorten(list(self.context_ids))}.{advice}"
        )

    def find_task(self, name: str | os.PathLike[str]) -> Task:
        """The task of this name, or of the folder with a task.toml: what is here, or else what the ladders carry.

        raises : TaskError where there is none; InputError where what is here asks in other words than what they carry
        """
        carried = self.carried_tasks.get(str(name))
        if carried is not None and not is_task(name):
            return self._carried(carried)
        task = load_task(name)
        if carried is not None and task.name != carried.name:  # a folder that happens to be called so
            return self._carried(carried)
        carried = self.carried_tasks.get(task.name)
        if carried is None or carried == task:
            return task
        theirs = carried.folder or self.source
        ours = task.folder or "that of synthscore"
        raise InputError(
            f"there are two tasks {task.name!r}: {theirs} ({task_hash(carried)}), which the ladders of {self.source} "
            f"came with, and {ours} ({task_hash(task)}), expected one: scores in the words of one are not scores in "
            f"those of the other. To ask as the ladders came: --task {theirs}. To ask as the other does, bring the "
            "ladders in with it: synthscore references import, or generate",
            field="task",
            value=str(name),
        )

    def _carried(self, task: Task) -> Task:
        named = ""
        if task.templates:
            named = f", with the templates {', '.join(sorted(task.templates))}"
        _LOG.info("task %s (%s%s): as the ladders of %s came with it", task.name, task_hash(task), named, self.source)
        return task

    def n_differing(self, ladders: Iterable[Ladder]) -> int:
        """How many of these stand here with other texts, for the same task, context and attribute."""
        n = 0
        for ladder in ladders:
            held = self._index.get(key_of(ladder))
            if held is not None and _open_ladder(held).hash != ladder.hash:
                n += 1
        return n

    # --------------------------------------------------------------------------------------------- load and save

    @classmethod
    def load(cls, source: str | os.PathLike[str], *, revision: str | None = None) -> References:
        """The ladders of a release: a folder, its ladders.parquet, or the id of a dataset on the Hugging Face Hub; or
        of all the releases in a folder's folders, as the shards of a run leave them.

        The file's hash is checked here, where its manifest has one; the texts of a file without one are, all of them.
        Each text is checked again when its ladder is opened.

        revision : branch, tag or commit of a Hub dataset; pin one for a number that others should get too.
        raises : ReferencesError, also where a text, or the file, is not the one that was hashed; where two folders hold
            one ladder with other texts
        """
        require_kind("references", source, (str, os.PathLike), "a folder, a file or a hub id")
        name = str(Path(source))
        if revision is not None:
            name = f"{source}@{revision}"
        paths = find_files(source, revision)
        index: dict[Key, ClosedLadder] = {}
        tasks: dict[str, Task] = {}
        for path in paths:
            release = name if len(paths) == 1 else str(path.parent)
            is_signed = check_manifest(path, release)
            for ladder in read_index(LadderFile(path, release)):
                if not is_signed:
                    _open_ladder(ladder)  # raises
                first = index.setdefault(key_of(ladder), ladder)
                if first is not ladder:
                    _require_equal(first, ladder)
            for task in read_tasks(path, release):
                if (other := tasks.setdefault(task.name, task)) != task:
                    message = (
                        f"{other.folder} ({task_hash(other)}) and {task.folder} ({task_hash(task)}) are two tasks "
                        f"{task.name!r}, expected one. Load the folders apart"
                    )
                    raise ReferencesError(message, source=name)
        return cls(index.values(), name, tasks.values())

    def save(
        self,
        folder: str | os.PathLike[str],
        *,
        licence: str = "",
        description: str = "",
        release: str = "",
        overwrite: bool = False,
        merge: bool = False,
    ) -> References:
        """Write the ladders as a release, with the tasks that they carry; returns all that the folder then holds.

        overwrite : replace the release that is there. merge : keep its other ladders and tasks, replace ladders with
        the same task, context and attribute, and tasks of the same name; licence, description and release stay
        what they were unless given, and where they cannot be read, nothing is saved. A folder that holds anything else
        is refused either way. Each file appears whole or not at all, the manifest last.
        raises : ReferencesError
        """
        path = Path(folder)
        about = {"release": release, "licence": licence, "description": description}
        there = holds_ladders(path)
        if there and not overwrite and not merge:
            message = f"cannot save ladders in {path}: it holds some already. Pass overwrite=True or merge=True"
            raise ReferencesError(message, source=str(path))
        ladders = {key_of(ladder): ladder for ladder in self}
        tasks = self.carried_tasks
        if merge and there:
            old = read_about(path)
            loaded = References.load(path)
            ladders = {key_of(ladder): ladder for ladder in loaded} | ladders
            tasks = loaded.carried_tasks | tasks
            about = {name: value or old[name] for name, value in about.items()}
        moved = (replace(task, folder=str(task_folder(path, task)), carried_by=str(path)) for task in tasks.values())
        references = References(ladders.values(), str(path), moved)
        references._write(path, about)
        return references

    def _write(self, path: Path, about: dict[str, str]) -> None:
        rows = (row for ladder in self for row in ladder_rows(ladder, about["release"]))
        with replacing(path / DATA) as file:
            write_table(rows, file)
            write_manifest(path, {"format": FORMAT, **about})  # unsigned: a save that is killed can be repeated
            task_hashes = write_tasks(path, self.carried_tasks.values())
        tasks = [(name, task_hash(task)) for name, task in sorted(self.carried_tasks.items())]
        write_whole(path / CARD, card_text(self.ladders, self.hash, **about, tasks=tasks).encode())
        n_rows = sum(ladder.n_rungs for ladder in self)
        counts = {"hash": self.hash, "n_ladders": len(self), "n_rows": n_rows}
        signed = {"sha256": {DATA: file_sha256(path / DATA), **task_hashes}}
        write_manifest(path, {"format": FORMAT, **about, **counts, **signed})


def find_task(ladders: Iterable[Ladder] | None, name: str | os.PathLike[str]) -> Task:
    """The task of ladders, by name or by its folder: as References.find_task, where they are References."""
    return ladders.find_task(name) if isinstance(ladders, References) else load_task(name)


def held_by(folder: str | os.PathLike[str]) -> References:
    """The ladders that are there, perhaps none. raises : ReferencesError where `save(folder, merge=True)` could not add
    others"""
    path = Path(folder)
    if not holds_ladders(path):
        return References((), str(folder))
    read_about(path)
    return References.load(folder)


def _open_ladder(ladder: Ladder | ClosedLadder) -> Ladder:
    """raises : as read_ladder"""
    return ladder if isinstance(ladder, Ladder) else read_ladder(ladder)


def _open_all(ladders: Sequence[Ladder | ClosedLadder]) -> list[Ladder]:
    """The ladders, in the order given; each file is read from its beginning to its end. raises : as read_ladder"""
    opened = {id(ladder): _open_ladder(ladder) for ladder in sorted(ladders, key=_place)}
    return [opened[id(ladder)] for ladder in ladders]


def _place(ladder: Ladder | ClosedLadder) -> tuple[str, Sequence[RowRun]]:
    return ("", ()) if isinstance(ladder, Ladder) else (ladder.file.name, ladder.runs)


def _hashed_texts(ladder: Ladder) -> tuple[str, str, str]:
    """The parts of a ladder, besides its names, on which the hash of a set depends."""
    if ladder.context is None:
        return "", "", ladder.hash
    return ladder.context.text, ladder.context.facts, ladder.hash


def _require_equal(one: ClosedLadder, other: ClosedLadder) -> None:
    """raises : ReferencesError for two ladders of one name with other texts"""
    if _hashed_texts(_open_ladder(one)) != _hashed_texts(_open_ladder(other)):
        message = (
            f"{one.file.name} and {other.file.name} both hold a ladder {'/'.join(key_of(one))}, with other texts, "
            "expected one. Remove one of the two folders, or load them apart"
        )
        raise ReferencesError(message, source=other.file.name)
