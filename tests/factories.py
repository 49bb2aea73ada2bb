"""Nouns for tests, made in a line."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from synthscore.judging.asking import Asking


def asking(options: dict[str, Any]) -> Asking:
    """Made of the options that are fields of Asking, which are taken out."""
    return Asking(**{field.name: options.pop(field.name) for field in fields(Asking) if field.name in options})
