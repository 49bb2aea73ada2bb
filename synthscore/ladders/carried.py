"""The tasks that a references folder carries: tasks/NAME/task.toml, each one file with its templates in it -> Task.

The folder may be a stranger's. A file is used where its hash stands in the manifest, so that a link to a file of the
reader's own, whose hash a stranger does not know, is refused; in a folder without hashes no link is followed.
"""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..errors import ReferencesError, TaskError
from ..io.write import write_whole
from ..judging.task_files import TASK_FILE, parse_task, task_toml
from ..types import Task
from .release import DATA, MANIFEST, TASKS
from .tables import read_manifest

MOST_BYTES = 1 << 20
"""Of a task; one with ten templates has some 10,000."""
MOST_TASKS = 1000


def task_folder(folder: Path, task: Task) -> Path:
    """Where a references folder keeps a task: it is named by its own name, which Task has checked."""
    return folder / TASKS / task.name


def read_tasks(data: Path, release: str) -> Iterator[Task]:
    """The tasks beside a file of ladders. release : for messages

    raises : ReferencesError for a file that is not the one that was hashed, is no task, or none that can be read
    """
    folder = data.parent
    if data.name != DATA:
        return
    hashes = read_manifest(folder).get("sha256")
    is_signed = isinstance(hashes, dict)
    all_stated: dict[str, object] = hashes if isinstance(hashes, dict) else {}
    stated = {name: digest for name, digest in all_stated.items() if name.startswith(f"{TASKS}/")}
    entries = {f"{TASKS}/{entry.name}/{TASK_FILE}": entry for entry in _entries(folder / TASKS, release)}
    for name in sorted(stated.keys() - entries.keys()):
        raise _unusable(release, name, f"it is not there, and {MANIFEST} states its hash")
    for name, entry in sorted(entries.items()):
        if is_signed and name not in stated:
            raise _unusable(release, name, f"{MANIFEST} states no hash of it")
        data_bytes = _read(entry, name, release, follow_links=is_signed)
        digest = hashlib.sha256(data_bytes).hexdigest()
        if is_signed and digest != stated[name]:
            raise _unusable(release, name, f"its sha256 is {digest}, {MANIFEST} says {stated[name]!r:.80}")
        yield _task(data_bytes, entry, name, release)


def _entries(tasks: Path, release: str) -> list[Path]:
    """The folders of tasks. raises : ReferencesError where there are too many"""
    if not tasks.is_dir():
        return []
    entries = []
    for entry in tasks.iterdir():
        if entry.name.startswith("."):
            continue
        entries.append(entry)
        if len(entries) > MOST_TASKS:
            raise _unusable(release, TASKS, f"it holds more than {MOST_TASKS:,} tasks")
    return entries


def _read(entry: Path, name: str, release: str, *, follow_links: bool) -> bytes:
    """raises : ReferencesError for what is no plain file, or too large"""
    file = entry / TASK_FILE
    if not follow_links and any(path.is_symlink() for path in (entry.parent, entry, file)):
        raise _unusable(release, name, f"it is a link, and {MANIFEST} states no hash of it")
    try:
        status = file.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_BYTES:
            raise _unusable(release, name, f"it is no file of at most {MOST_BYTES:,} bytes")
        with file.open("rb") as opened:
            return opened.read(MOST_BYTES)
    except OSError as error:
        raise _unusable(release, name, error.strerror or "it cannot be read") from error


def _task(data: bytes, entry: Path, name: str, release: str) -> Task:
    """raises : ReferencesError"""
    try:
        task = parse_task(data.decode(), entry / TASK_FILE, folder=str(entry), carried_by=release)
    except UnicodeDecodeError as error:
        raise _unusable(release, name, "it is not UTF-8") from error
    except TaskError as error:
        raise _unusable(release, name, str(error)) from error
    if task.name != entry.name:
        raise _unusable(release, name, f"it is a task {task.name!r}, expected {entry.name!r}")
    return task


def _unusable(release: str, name: str, why: str) -> ReferencesError:
    remedy = (
        "Make or download the references again; to do without it, remove it and its hash, and name a task of yours: "
        "--task FOLDER"
    )
    return ReferencesError(f"cannot load the task {name} of {release}: {why}. {remedy}", source=release)


def write_tasks(folder: Path, tasks: Iterable[Task]) -> dict[str, str]:
    """Write each task into a file, and remove the files of other tasks.

    returns : path in the folder -> sha256, of each file
    A link is removed rather than followed: nothing outside the folder is written to.
    """
    files = {task_folder(folder, task) / TASK_FILE: task_toml(task).encode() for task in tasks}
    # From the outside in, so that a link is removed before anything behind it is looked at.
    for pattern in (TASKS, f"{TASKS}/*", f"{TASKS}/*/{TASK_FILE}"):
        for path in list(folder.glob(pattern)):
            if path.is_symlink() or (path.name == TASK_FILE and path not in files):
                path.unlink()
    for file, data in files.items():
        write_whole(file, data)
    for entry in folder.glob(f"{TASKS}/*"):
        if entry.is_dir() and not any(entry.iterdir()):
            entry.rmdir()
    return {file.relative_to(folder).as_posix(): hashlib.sha256(data).hexdigest() for file, data in files.items()}
