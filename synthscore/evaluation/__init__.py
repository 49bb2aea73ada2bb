"""Methods compared with people's ratings: what each says, and how far it agrees.

>>> from synthscore.evaluation.methods import Tools, method
>>> from synthscore.evaluation import evaluate
>>> found = evaluate(ratings, {name: method(name) for name in ("length", "g-eval")}, Tools(judge), against="length")
>>> found.at("g-eval", "coherence").value
"""

from .result import Evaluation, Mean, Place, Settings
from .run import evaluate, evaluate_scores

__all__ = ["Evaluation", "Mean", "Place", "Settings", "evaluate", "evaluate_scores"]
