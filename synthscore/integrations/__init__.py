"""Rows of other tools -> scores in a form of their own: a file a tool. None is imported here."""

from typing import Literal

Texts = Literal["inspect", "lm-eval"]
Labels = Literal["argilla", "label-studio"]
ScoresTo = Literal["inspect", "otel"]
"""Formats by name: of texts that are read, of tasks for people and what they answer, of scores that are written."""
