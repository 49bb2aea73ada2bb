"""Answers against ladders -> positions on the rung scale, with errors: docs/anchored.md has the model."""

from .fit import fit
from .model import Answers, JudgeModel, Posterior
from .positions import positions

__all__ = ["Answers", "JudgeModel", "Posterior", "fit", "positions"]
