"""Methods compared with people's ratings: what each says, and how far it agrees.

>>> from synthscore.evaluation.methods import Tools, method
>>> from synthscore.evaluation import evaluate
>>> methods = {name: method(name) for name in ("length", "g-eval")}
>>> evaluation = evaluate(ratings, methods, Tools(judge), against="length")
>>> evaluation.find_agreement("g-eval", "coherence").value
"""

from .result import Evaluation, FigureKey, Mean, Settings
from .run import evaluate

__all__ = ["Evaluation", "FigureKey", "Mean", "Settings", "evaluate"]
