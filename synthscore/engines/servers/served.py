"""A model behind a server's address, however it is asked: found, checked, and named for signatures."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ClassVar

from ...errors import ServerError
from ...types import Usage
from .http import Access, Http, root_of
from .routes import ANONYMOUS, SOFTWARE, Software, usage_of

_SPENT: ContextVar[list[Usage] | None] = ContextVar("synthscore_spent", default=None)


@contextmanager
def metered() -> Iterator[list[Usage]]:
    """The tokens of every reply that comes inside, in this thread, usable or not."""
    spent: list[Usage] = []
    mark = _SPENT.set(spent)
    try:
        yield spent
    finally:
        _SPENT.reset(mark)


def spend(usage: Usage) -> None:
    """Count tokens, where somebody meters this thread."""
    if (spent := _SPENT.get()) is not None:
        spent.append(usage)


class Served:
    """A model on a server that is up. Safe to use from several threads.

    Its name is the one that the first reply gives it (`sent`), a path's last part; a reply under another name fails.

    url : up to and with "/v1". model : its name there; may be left out where the server has one only. "MODEL@REVISION"
        where no model is listed under that name: the user's word on the weights, which the server is not sent
    server : software and version, as far as they are reported; for signatures
    most_together : questions in a request; one_by_one : it is sent one request at a time
    version, revision : what the server reports of itself, and what the user says of its weights; "" for nothing
    access : whose keys it is given; None: by its address (http.access_of)
    raises : ServerError when it is not to be reached
    """

    access: ClassVar[Access | None] = None
    most_together = 1

    def __init__(self, url: str, model: str | None, timeout_s: float) -> None:
        self.url = url.rstrip("/")
        self.http = Http(self.url, timeout_s, self.access)
        self.entry, self.revision = self._find_model(model)
        self.model = str(self.entry["id"])
        self.owner = str(self.entry.get("owned_by", "unknown"))
        if self.owner == ANONYMOUS and self._describes_llama_cpp():
            self.owner = "llama-cpp-python"
        self.software = SOFTWARE.get(self.owner, Software())
        self.one_by_one = self.software.one_by_one
        self.version = self._find_version()
        self.server = f"{self.owner}/{self.version}" if self.version else self.owner
        self._named = ""

    @property
    def signed_model(self) -> dict[str, str]:
        """The parts of a signature that name the model. revision:given marks one that the user, not a hash, vouches
        for."""
        name = stable_name(self._named or self.model)
        return {"model": f"{name}@{self.revision}", "revision": "given"} if self.revision else {"model": name}

    def check(self) -> None:
        """raises : ServerError, unless the server answers and has the model."""
        self._find_model(self.model)

    def sent(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The reply to a request. raises : ServerError, also where it is of another model than those before."""
        reply = self.http.post(path, body)
        spend(usage_of(reply))
        named = reply.get("model")
        if isinstance(named, str) and named:
            if named != (self._named or named):
                raise ServerError(
                    f"the server {self.url} answered as {named!r}, and as {self._named!r} before. Expected one model: "
                    "ask for it by its full name",
                    retryable=True,
                )
            self._named = named
        return reply

    def _find_model(self, wanted: str | None) -> tuple[Mapping[str, Any], str]:
        """What the server says of its model, and the revision that was named with it. One that is named need not be
        listed where nothing is, or there is no list (transformers serve without a hub cache: HTTP 500).

        raises : ServerError
        """
        try:
            reply = self.http.get("/models")
        except ServerError as error:
            if wanted is None or error.status not in (404, 405, 500):
                raise
            reply = {"data": []}
        with self.http.reading(reply):
            entries = {str(entry["id"]): entry for entry in reply["data"]}
        if wanted is None and len(entries) == 1:
            (wanted,) = entries
        revision = ""
        if wanted is not None and wanted not in entries:
            wanted, revision = split_revision(wanted)
        if wanted is not None and (wanted in entries or not entries):
            return dict(entries.get(wanted, {"id": wanted})), revision
        names = ", ".join(list(entries)[:10]) + (", ..." if len(entries) > 10 else "")
        what = "several models" if wanted is None else f"no model {wanted!r}"
        raise ServerError(
            f"the server {self.url} has {what if entries else 'no models'}; it has: {names or 'none'}. "
            f"Name one of them: {self.url}#MODEL",
            fatal=True,
            model=wanted,
        )

    def _describes_llama_cpp(self) -> bool:
        """Whether the server calls itself llama.cpp's, in the description that FastAPI makes of it."""
        try:
            info = self.http.get(root_of(self.url) + SOFTWARE["llama-cpp-python"].version_at).get("info")
        except ServerError:
            return False
        return isinstance(info, Mapping) and "llama.cpp" in str(info.get("title"))

    def _find_version(self) -> str:
        if not self.software.version_at:
            return ""
        try:
            reply = self.http.get(root_of(self.url) + self.software.version_at)
        except ServerError:
            return ""
        told = reply.get("info") or reply  # of an API's description, in which its version is the server's
        return str(told.get("version") or told.get("build_info") or "") if isinstance(told, dict) else ""


def split_revision(model: str) -> tuple[str, str]:
    """MODEL@REVISION -> both; the revision is "" where none is named. An "@" at either end is the name's (@cf/...)."""
    name, _, revision = model.rpartition("@")
    return (name, revision) if name and revision and "/" not in revision else (model, "")


def stable_name(model: str) -> str:
    """A model's name; of a file's or folder's path, which is another on each machine, the last part."""
    path = re.match(r"[/~]|[.]{1,2}/|[A-Za-z]:[\\/]", model) or model.endswith(".gguf")
    return re.split(r"[\\/]", model.rstrip("/"))[-1] if path else model
