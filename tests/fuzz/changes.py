"""Valid files, changed: bytes flipped, cut or put in, lines swapped, values of JSON replaced, dropped or doubled."""

from __future__ import annotations

import copy
import json
import math
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from synthscore.errors import SynthscoreError, SynthscoreWarning

ODD = (
    None, True, False, "", " ", "x", "nan", "1e999", "\ud800", "a\x00b", "​", "=1+1", "1,5", -1, 0, 1, 2, 0.5, -0.0,
    2**31, 2**63, 10**30, 10**400, -(10**400), 1e308, 1e-320, math.nan, math.inf, -math.inf, [], {}, [None], [[]], [1],
    ["a"], {"a": 1}, {"": None}, [1, 2, 3, 4, 5], "[" * 3000, "[1, 2", '{"a": 1, "a": 2}', "true", "-9999",
)  # fmt: skip
PIECES = (
    b"\xef\xbb\xbf", b"\xff\xfe", b"\x00", b"\r\n", b"\n", b"\r", b'"', b"'", b",", b"\t", b";", b"\\", b"\\ud800",
    b"NaN", b"-Infinity", b"1e999", b"-", b"9" * 400, b"9" * 5000, b"[" * 100_000, b'{"a":' * 20_000, b"{", b"}",
    b"]", b"\xe2\x80\x8b", b"\xf0\x9f\x98\x80", b"\xc3", b"null", b"{}", b"[]", b" ", "\u2028".encode(), b"=1+1",
)  # fmt: skip
ODD_VALUES = st.sampled_from(ODD).map(copy.deepcopy)


@st.composite
def changed_bytes(draw: st.DrawFn, data: bytes, most: int = 3) -> bytes:
    """Up to so many changes, one after the other."""
    for _ in range(draw(st.integers(1, most))):
        at, end = sorted((draw(st.integers(0, len(data))), draw(st.integers(0, len(data)))))
        lines = data.split(b"\n")
        one, other = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
        match draw(st.integers(0, 7)):
            case 0:
                data = data[:at]
            case 1:
                data = data[:at] + data[end:]
            case 2:
                data = data[:at] + bytes([draw(st.integers(0, 255))]) + data[at + 1 :]
            case 3:
                data = data[:at] + draw(st.sampled_from(PIECES)) + data[at:]
            case 4:
                lines[one], lines[other] = lines[other], lines[one]
                data = b"\n".join(lines)
            case 5:
                data = b"\n".join([*lines, lines[one]])
            case 6:
                data = data.replace(b"\n", b"\r\n")
            case 7:
                data = draw(st.sampled_from(PIECES)) + data
    return data


@st.composite
def changed_values(draw: st.DrawFn, value: Any, most: int = 3) -> Any:
    """JSON with up to so many of its values replaced, dropped, doubled, or under another name."""
    value = copy.deepcopy(value)
    for _ in range(draw(st.integers(1, most))):
        holder, key = draw(st.sampled_from(_places(value) or [([value], 0)]))
        match draw(st.integers(0, 5)):
            case 0 if isinstance(holder, dict):
                del holder[key]
            case 0 | 1 if isinstance(holder, list):
                holder.insert(key, copy.deepcopy(holder[key]))
            case 1:
                holder[draw(st.sampled_from(("", "x", "self", "cls", "id", "score", "\ud800")))] = holder.pop(key)
            case _:
                holder[key] = draw(ODD_VALUES)
    return value


def _places(value: Any) -> list[tuple[Any, Any]]:
    """(what holds it, its key) of each value."""
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [place for key in keys for place in [(value, key), *_places(value[key])]]


def as_json(value: Any) -> bytes:
    """As json writes it, NaN and half surrogate pairs, too."""
    return json.dumps(value).encode()


def settled(n: int) -> settings:
    """So many examples; SYNTHSCORE_FUZZ=100 makes them a hundred times as many, and draws others in each run."""
    more = int(os.environ.get("SYNTHSCORE_FUZZ") or "1")
    return settings(max_examples=n * more, suppress_health_check=list(HealthCheck), deadline=None)


def count_lines(data: bytes) -> int:
    """Lines that hold anything. A byte that is no UTF-8 makes its line unreadable, not the lines beside it."""
    lines = data.decode("utf-8-sig", errors="surrogateescape").split("\n")
    return sum(bool(line) and not line.isspace() for line in lines)


@contextmanager
def refused() -> Iterator[None]:
    """Errors of the tree are as it should be; others are not. So are our own warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SynthscoreWarning)
        with suppress(SynthscoreError):
            yield
