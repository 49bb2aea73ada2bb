"""JSON to and from one server, by the openai client: what fails is a ServerError, and no message holds the key."""

from __future__ import annotations

import json
import math
import os
import re
import sys
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

from ...errors import EngineError, ServerError, why_unreadable


@dataclass(frozen=True, slots=True)
class Access:
    """How one kind of server is given a key. It is sent to the server that is asked, and nowhere else.

    keys : variables of the environment in which it is looked for; the first that is set is taken
    headers : sent beside it with each request
    is_openai : whether what the client itself takes from the environment for OpenAI (organisation, project, headers of
        the user's) is sent, too
    """

    keys: tuple[str, ...]
    headers: Mapping[str, str] = field(default_factory=dict)
    is_openai: bool = False

    @property
    def key(self) -> str:
        """The key; "" where none is set."""
        return next((key for name in self.keys if (key := os.environ.get(name, "").strip())), "")


COMPATIBLE = Access(("SYNTHSCORE_API_KEY",))
"""Of servers that speak as OpenAI's does, whoever runs them: they are given the key that is meant for them."""

OPENAI = Access(("SYNTHSCORE_API_KEY", "OPENAI_API_KEY"), is_openai=True)


def access_of(url: str) -> Access:
    """Of a server that speaks as OpenAI's does: what is set for OpenAI goes to OpenAI's own address, and to the one
    that OPENAI_BASE_URL names beside it."""
    parts, named = urlsplit(url), urlsplit(os.environ.get("OPENAI_BASE_URL", ""))
    is_own = parts.scheme == "https" and f".{parts.hostname}".endswith(".api.openai.com")
    is_named = bool(named.netloc) and (parts.scheme, parts.netloc) == (named.scheme, named.netloc)
    return OPENAI if is_own or is_named else COMPATIBLE


_OF_ANY_REQUEST = {"host", "accept", "accept-encoding", "connection", "content-type", "content-length", "user-agent"}

_LATER = {408, 409, 425, 429}  # and 5xx: the same request may succeed later
_NEVER = {401, 403, 404, 405}  # no request will: a wrong key, model or path


class Http:
    """JSON in, JSON out, by the openai client; what fails is a ServerError. The key is in no message."""

    def __init__(self, url: str, timeout_s: float, access: Access | None = None) -> None:
        """access : None for a server that speaks as OpenAI's does"""
        access = access or access_of(url)
        try:
            import openai
        except ImportError:
            raise EngineError(
                f"cannot open {url}: the openai package is not installed. Run: pip install 'synthscore[server]'"
            ) from None
        parts = urlsplit(url)
        if not parts.hostname or not _has_port(url) or parts.username or parts.password or parts.query:
            raise EngineError(
                "a server's address is not http://HOST:PORT/v1, or holds a key. Keys belong in the environment: "
                + " or ".join(access.keys)
            )
        self._openai: Any = openai
        self._url, self._timeout_s = url, timeout_s
        self._access, self._key = access, access.key
        self._client = self._opened()
        weakref.finalize(self, self._client.close)

    def _opened(self) -> Any:
        """A client, with no connection yet."""
        timeout = self._openai.Timeout(self._timeout_s, connect=min(self._timeout_s, 10.0))
        hooks = {"request": [self._sign], "response": [self._bound]}
        http = self._openai.DefaultHttpxClient(timeout=timeout, event_hooks=hooks)
        return self._openai.OpenAI(
            base_url=self._url, api_key=self._key or "none", max_retries=0, timeout=timeout, http_client=http
        )

    def _sign(self, request: Any) -> None:
        """Give a request to another than OpenAI its headers, and take away all that is meant for OpenAI."""
        if self._access.is_openai:
            return
        key = request.headers.get("authorization")  # none, where a redirect leads to another host
        for name in set(request.headers) - _OF_ANY_REQUEST:
            del request.headers[name]
        request.headers.update(self._access.headers)
        if key and (self._key or self._access is COMPATIBLE):  # some take no request without one, whatever it is
            request.headers["authorization"] = f"Bearer {self._key or 'none'}"

    def _bound(self, response: Any) -> None:
        """A timeout is of each read. Of the whole reply, too, or one that drips would never end."""
        http: Any = sys.modules[type(response).__module__.partition(".")[0]]  # httpx, or what a newer client has
        stream, until = response.stream, time.monotonic() + self._timeout_s

        class Bounded(http.SyncByteStream):  # type: ignore[misc]
            def __iter__(self) -> Iterator[bytes]:
                for part in stream:
                    if time.monotonic() > until:
                        raise http.ReadTimeout("the reply does not end")
                    yield part

            def close(self) -> None:
                stream.close()

        response.stream = Bounded()

    def get(self, path: str) -> dict[str, Any]:
        return self._send(lambda client: client.get(path, cast_to=object))

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return self._send(lambda client: client.post(path, body=dict(body), cast_to=object))

    @contextmanager
    def reading(self, reply: Mapping[str, Any], remedy: str = "Is this the address of its API?") -> Iterator[None]:
        """What is not as expected in a reply makes that try fail; nothing is made up for it.

        remedy : a sentence, what to do where the reply lacks a field
        """
        try:
            yield
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, ArithmeticError) as error:
            what = f"unusable answer ({why_unreadable(error)}): {_excerpt(reply)}"
            if isinstance(error, KeyError):
                what += f". {remedy}"
            raise self._error(what, retryable=True, parameter=getattr(error, "parameter", "")) from None

    def _send(self, send: Callable[[Any], object]) -> dict[str, Any]:
        # "from None": what the client raises may hold the request, and so the key.
        try:
            try:
                reply = send(self._client)
            except self._openai.APIConnectionError as error:
                if not _cut(error):
                    raise
                # A busy server gives up connections that it kept, one after the other, as they are used again.
                with self._opened() as client:
                    reply = send(client)
        except self._openai.APITimeoutError:
            what = f"no answer within {self._timeout_s:g} s. If it is only slow, give it longer: --timeout (timeout_s)"
            raise self._error(what, retryable=True, timed_out=True) from None
        except self._openai.APIStatusError as error:
            raise self._refused(error) from None
        except self._openai.APIConnectionError as error:
            cause = error.__cause__ or error
            why = re.sub(r"^\[Errno -?\d+\] ", "", str(cause)) or type(cause).__name__
            what = f"the connection failed: {why}. Is it running, and is this its address?"
            raise self._error(what, retryable=True, cut=_cut(error)) from None
        except (self._openai.OpenAIError, ValueError, RecursionError) as error:
            what = f"it answers with what is no JSON: {error}. Is this the address of its API?"
            raise self._error(what, retryable=True) from None
        if not isinstance(reply, dict):
            what = f"it answers with {_excerpt(reply)}, expected a JSON object. Is this the address of its API?"
            raise self._error(what, retryable=True)
        return reply

    def _refused(self, error: Any) -> ServerError:
        body = error.body if isinstance(error.body, dict) else {}
        words = str(body.get("message") or error.body or error.message)
        status: int = error.status_code
        return self._error(
            f"HTTP {status}: {words:.500}{self._remedy(status)}",
            status=status,
            fatal=status in _NEVER,
            retryable=status in _LATER or status >= 500,
            retry_after=_retry_after(error.response.headers.get("retry-after")),
            parameter=str(body.get("param") or ""),
        )

    def _remedy(self, status: int) -> str:
        """What to do about a status of HTTP that says it."""
        is_compatible = self._access is COMPATIBLE
        if status == 401 and not self._key and is_compatible and os.environ.get("OPENAI_API_KEY"):
            return ". OPENAI_API_KEY is for OpenAI: put the key of this server into SYNTHSCORE_API_KEY"
        if status in (401, 403):
            return f". Is the key of this server in {' or '.join(self._access.keys)}?"
        if status == 404 and not self._url.endswith("/v1"):
            return f". Most servers' addresses end with /v1: try {self._url}/v1"
        if status in _LATER or status >= 500:
            return ". Run the same command again later; what was answered is stored"
        return ""

    def _error(self, what: str, **data: Any) -> ServerError:
        message = f"asking the server {self._url} failed: {what}"
        return ServerError(message.replace(self._key, "***") if self._key else message, **data)


def _has_port(url: str) -> bool:
    """Whether what an address has as a port, if it has one, can be one."""
    try:
        return urlsplit(url).port != 0
    except ValueError:
        return False


def _cut(error: Exception) -> bool:
    """Whether a connection that was there broke off: neither a time that ran out nor nobody who listens."""
    return type(error.__cause__).__name__ in ("RemoteProtocolError", "ReadError", "WriteError", "CloseError")


def _retry_after(header: str | None) -> float | None:
    """Seconds to wait; None where they are not reported."""
    try:
        seconds = float(header or "nan")
    except ValueError:
        return None
    return max(seconds, 0.0) if math.isfinite(seconds) else None


def root_of(url: str) -> str:
    return url.removesuffix("/v1")


def _excerpt(reply: object) -> str:
    """The beginning of a reply, as the JSON that it came as; no more of it is encoded than is shown."""
    parts = json.JSONEncoder(ensure_ascii=False, default=str).iterencode(reply)
    text = "".join(islice(parts, _MOST_SHOWN))
    if len(text) <= _MOST_SHOWN:
        return text
    return text[: _MOST_SHOWN - 3] + "..."


_MOST_SHOWN = 200
"""Characters of a reply. Each part that the encoder yields has at least one."""
