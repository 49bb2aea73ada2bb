"""Methods held against people's ratings: what each says, and how far it agrees.

>>> from synthscore.evaluation.methods import Tools, method
>>> from synthscore.evaluation import evaluate
>>> found = evaluate(ratings, {name: method(name) for name in ("length", "g-eval")}, Tools(judge), against="length")
>>> found.at("g-eval", "coherence").value
"""

from .folder import RunFolder
from .result import Column, Contrast, Evaluation, Mean, Place, Settings
from .run import evaluate, evaluate_columns

__all__ = [
    "Column",
    "Contrast",
    "Evaluation",
    "Mean",
    "Place",
    "RunFolder",
    "Settings",
    "evaluate",
    "evaluate_columns",
]
