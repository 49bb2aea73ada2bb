"""Where prompts/ and data/ are, inside the installed package or at the top of a checkout, where the cache is, and
whether the Hugging Face Hub can be reached."""

from __future__ import annotations

import os
import socket
import sys
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_PACKAGE = Path(__file__).resolve().parent


def resource(name: str) -> Path:
    """Path of a shipped folder or file, such as "prompts" or "data/nano"."""
    installed = _PACKAGE / "_resources" / name
    return installed if installed.exists() else _PACKAGE.parent / name


def read_toml(file: Path) -> dict[str, Any]:
    """raises : OSError; ValueError where it is not TOML in UTF-8"""
    return parse_toml(file.read_text(encoding="utf-8"))


def parse_toml(text: str) -> dict[str, Any]:
    """raises : ValueError where it is not TOML, or nested too deep"""
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error


def cache_folder() -> Path:
    """synthscore's own folder in the user's cache folder; it may not be there yet."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "synthscore"


def default_store() -> Path:
    """The file of answers where none is named: $SYNTHSCORE_STORE, or one in the cache folder."""
    return Path(os.environ.get("SYNTHSCORE_STORE") or cache_folder() / "answers.sqlite")


@cache
def hub_is_reachable() -> bool:
    """One short look for the whole process: without a network the hub's client would try each file for minutes."""
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return False
    address = urlsplit(constants.ENDPOINT)
    if address.scheme in getproxies():
        return True
    try:
        socket.create_connection((address.hostname or "", address.port or 443), timeout=3).close()
    except OSError:
        return False
    return True
