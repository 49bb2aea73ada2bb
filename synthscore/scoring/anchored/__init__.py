"""Answers against ladders -> positions on the rung scale, with errors: docs/anchored.md has the model."""

from .fit import fit
from .mode import Anchored
from .model import Answers, JudgeModel, Posterior, Prior
from .positions import positions
from .scale import Anchors, Scale, Scales, three_way

__all__ = [
    "Anchored",
    "Anchors",
    "Answers",
    "JudgeModel",
    "Posterior",
    "Prior",
    "Scale",
    "Scales",
    "fit",
    "positions",
    "three_way",
]
