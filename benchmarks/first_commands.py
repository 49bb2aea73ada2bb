"""What becomes of commands as people type them, with what is wrong in one place: in the line, or in what it names.

    python -m benchmarks.first_commands [PART ...]

Each input (first_commands_inputs.py) is a command in a folder of good files, of which some are made or changed before.
A verdict follows from what came of it, not from its words:

    good   refused, in a message that names what is wrong and says what to do; or done, where it can be done
    poor   a message that does not, that is long, or that has the words of another library
    bad    an exception that leaves the command; what should be refused is done, or the other way round; a file of the
           user's that is changed; more than 20 seconds of CPU

The judge is a function of the texts, but where the model or the server is what is tried. About three minutes of
CPU. The last line is JSON, by part.
"""

from __future__ import annotations

import collections
import io
import json
import logging
import os
import re
import resource
import shlex
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

os.environ["HF_HUB_OFFLINE"] = "1"  # is read when huggingface_hub is imported

from benchmarks.first_commands_inputs import INPUTS, SERVERS, Input, change, make_given
from synthscore import engines
from synthscore.cli.app import main as synthscore
from synthscore.engines.servers.pool import Retry
from synthscore.store import file as store_file
from tests.cli.given import quality_judge
from tests.fakes import FakeEngine
from tests.servers import Liar

LONGEST_S = 20.0  # of CPU: the machine may be busy
MOST_CHARACTERS = 600
REMEDY = re.compile(
    r"[.?)] (See: synthscore|Did you mean|[A-Z][a-z]+\b)|; [a-z]+ |Usage: "
    r"|: (pass|give|make|save|take|ask|name|download) "
)
RAW = re.compile(
    r"Traceback|\[Errno|sqlite3\.|object at 0x|<class |NoneType|KeyError|TypeError|AttributeError|ValueError|Exception"
    r"|disk I/O error|jinja2\.|pyarrow|HFValidation|\bNone\b|(?<!\": )(?<!answers with )\[\]"  # not what a server wrote
)
FAST = Retry(tries=3, first_wait=0.001, longest_wait=0.01, aside_after=3, aside_for=0.002, asides=2)


def verdict(tried: Input, given: Path) -> tuple[str, str, str]:
    """good, poor or bad; why; and what was shown. given : the folder of good files, which is copied"""
    with tempfile.TemporaryDirectory() as place, Server(tried.server) as server:
        folder = Path(place) / "given"
        shutil.copytree(given, folder)
        change(folder, tried.changes)
        before = contents(folder)
        words = [word.replace("URL", server.url) for word in shlex.split(tried.command)]
        began = time.process_time()
        code, shown = run(words, folder, server, tried.limit)
        seconds = time.process_time() - began
        after = contents(folder)
    lost = [name for name, data in before.items() if after.get(name) != data and not tried.may_change(name)]
    if code is None:
        return "bad", "an exception left the command", shown
    if lost:
        return "bad", f"changed: {', '.join(lost)}", shown
    if seconds > LONGEST_S:
        return "bad", f"took {seconds:.0f} s", shown
    if code not in tried.codes:
        return "bad", f"ended with {code}, expected one of {tried.codes}", shown
    if raw := RAW.search(shown):
        return "poor", f"has the words {raw[0]!r}", shown
    if tried.names not in shown.replace("\n", " "):
        return "poor", f"does not name {tried.names!r}", shown
    if code in (1, 2):
        error = told(shown).splitlines()[-1]
        if not REMEDY.search(told(shown)):
            return "poor", "says nothing to do", shown
        if len(error) > MOST_CHARACTERS:
            return "poor", f"has {len(error)} characters", shown
    return "good", "", shown


def told(shown: str) -> str:
    """The last lines of what was printed, without rows of results."""
    lines = [line for line in shown.splitlines() if line.strip() and not line.startswith('{"')]
    return "\n".join(f"    {line:.900}" for line in lines[-6:])


def contents(folder: Path) -> Mapping[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


class Server:
    """One that answers as it should until it is open, and then has a fault; or has it from the beginning."""

    def __init__(self, name: str) -> None:
        self.is_open = False
        self._fault = None if name == "none" else SERVERS[name]
        self._liar = Liar(self._answer)
        self.url = self._liar.url

    def _answer(self, method: str, path: str, body: dict) -> object:  # type: ignore[type-arg]
        if self._fault is not None and (self.is_open or self._fault.at_once):
            return self._fault.reply
        if method == "GET":
            return {"data": [{"id": "m", "owned_by": "someone"}]}
        return SERVERS["none"].reply

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *error: object) -> None:
        self._liar.__exit__()


def run(words: list[str], folder: Path, server: Server, limit: int) -> tuple[int | None, str]:
    """The exit code, None for an exception; and what was printed. limit : bytes that a file may have, or 0"""
    opened = engines.open_engine

    def open_engine(name: str, **options: object) -> object:
        if name == "nano":
            return FakeEngine(quality_judge)
        if name.startswith("http"):
            options = {"retry": FAST, **options}
        engine = opened(name, **options)
        server.is_open = True
        return engine

    shown = io.StringIO()
    surroundings = {
        "HOME": str(folder), "SYNTHSCORE_STORE": str(folder / "cache.sqlite"), "COLUMNS": "100"
    }  # fmt: skip
    with (
        patch.object(engines, "open_engine", open_engine), patch.object(store_file, "_BUSY_S", 0.2),
        patch.dict(os.environ, surroundings), patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO())),
        redirect_stdout(shown), redirect_stderr(shown), inside(folder), file_limit(limit),
    ):  # fmt: skip
        try:
            return synthscore(words), shown.getvalue()
        except BaseException:  # what this is about
            return None, shown.getvalue() + traceback.format_exc()


@contextmanager
def inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@contextmanager
def file_limit(n_bytes: int) -> Iterator[None]:
    """As on a disk that is full at so many bytes a file; 0: without a limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        if n_bytes:
            resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def main(parts: list[str], verbose: bool = False) -> Mapping[str, Mapping[str, int]]:
    logging.getLogger("httpx").setLevel(logging.ERROR)
    counts: dict[str, collections.Counter[str]] = {}
    with tempfile.TemporaryDirectory() as place:
        given = Path(place)
        make_given(given)
        for part, inputs in INPUTS.items():
            if parts and part not in parts:
                continue
            counts[part] = collections.Counter()
            for tried in inputs:
                found, why, shown = verdict(tried, given)
                counts[part][found] += 1
                if found != "good" or verbose:
                    changed = f" [{', '.join(tried.changes)}]" if tried.changes else ""
                    server = f" [{tried.server}]" if tried.server != "none" else ""
                    print(f"{found}: {part}: {tried.command}{changed}{server}: {why}\n{told(shown)}\n", flush=True)
    total: collections.Counter[str] = sum(counts.values(), collections.Counter())
    print(f"\n{'part':<14}{'tried':>7}{'good':>7}{'poor':>7}{'bad':>7}")
    for name, n in [*counts.items(), ("sum", total)]:
        print(f"{name:<14}{n.total():>7}{n['good']:>7}{n['poor']:>7}{n['bad']:>7}")
    result = {name: {kind: n[kind] for kind in ("good", "poor", "bad")} for name, n in counts.items()}
    print(json.dumps(result))
    return result


if __name__ == "__main__":
    words = sys.argv[1:]
    found = main([word for word in words if word != "-v"], verbose="-v" in words)
    sys.exit(any(n["bad"] for n in found.values()))
