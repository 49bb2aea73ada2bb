"""The single edits that damage a text: text + rng + material -> a slightly worse text, or None where nothing fits.

Which attributes an edit lowers, and by how much, stands in data/degrade/damages.toml, under its name.
"""

from . import claims, questions, replies, selection, stories, triples, wording
from .base import EDITS, Edit, Material

__all__ = ["EDITS", "Edit", "Material", "claims", "questions", "replies", "selection", "stories", "triples", "wording"]
