"""Where prompts/ and data/ are, inside the installed package or at the top of a checkout, and where the cache is."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

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
