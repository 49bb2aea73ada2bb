"""Answers against ladders -> positions on the rung scale, with errors: docs/anchored.md has the model."""

from .fit import fit
from .mode import Anchored
from .model import JudgeModel, Posterior, Prior, SoftAnswers
from .positions import positions
from .scale import Anchors, Scale, Scales, three_way

__all__ = [
    "Anchored",
    "Anchors",
    "JudgeModel",
    "Posterior",
    "Prior",
    "Scale",
    "Scales",
    "SoftAnswers",
    "fit",
    "positions",
    "three_way",
]
