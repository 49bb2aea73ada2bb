"""A question of the store <-> the id that its line has in a file: [A-Za-z0-9_-], at most 64 characters."""

from __future__ import annotations

import re
from base64 import b32encode

_N_BYTES = 25  # of the key: 40 characters, where the whole key as hex would leave no room for a number
_ID = re.compile(r"([A-Z2-7]{40})-(\d{1,4})")


def stem_of(key: bytes) -> str:
    """What the ids of all lines of one question begin with."""
    return b32encode(key[:_N_BYTES]).decode()


def custom_id(stem: str, part: int) -> str:
    """part : number of the request, of those that one question takes"""
    return f"{stem}-{part}"


def split_id(text: object) -> tuple[str, int]:
    """Stem and part. raises : ValueError for what is no id of ours"""
    if not isinstance(text, str) or not (found := _ID.fullmatch(text)):
        raise ValueError(f"the id {text!r:.80}, expected one that synthscore wrote")
    return found[1], int(found[2])
