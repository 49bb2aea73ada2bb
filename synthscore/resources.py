"""Where prompts/ and data/ are: inside the installed package, or at the top of a checkout."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def resource(name: str) -> Path:
    """Path of a shipped folder or file, such as "prompts" or "data/nano"."""
    installed = _PACKAGE / "_resources" / name
    return installed if installed.exists() else _PACKAGE.parent / name
