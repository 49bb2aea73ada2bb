"""Methods that people compare with, by name, as evaluation calls them. What they are: docs/baselines.md.

>>> from synthscore.evaluation.methods import Tools, method
>>> scores = method("g-eval:samples=20,seed=1")(ratings, "coherence", Tools(judge))

NAME                        a kind with its defaults
NAME:option=value,...       with options
file:PATH                   a column of scores out of a file; :option=value,... may follow

Importing this adds the methods that need a whole set of texts to the table of scoring/methods/.
"""

from __future__ import annotations

import warnings

from ...errors import SynthscoreWarning
from ...scoring.method import Method, MethodError, Tools
from ...scoring.methods import (
    METHODS,
    MethodKind,
    find_kind,
    make_named,
    method_kinds,
    register_method,
    split_methods,
)
from . import comparing, floors, overlap_metrics
from .base import OnRatings, SetMethod
from .columns import file_column

__all__ = [
    "METHODS",
    "MethodError",
    "MethodKind",
    "SetMethod",
    "Tools",
    "method",
    "method_kinds",
    "register_method",
    "split_methods",
    "uses",
]

for _module in (comparing, overlap_metrics, floors):
    for _name in METHODS.keys() & _module.KINDS.keys():
        _message = f"the method registered as {_name} is left out: evaluation has one of that name. Choose another name"
        warnings.warn(_message, SynthscoreWarning, stacklevel=2)
    METHODS.update(_module.KINDS)


def method(spec: str) -> SetMethod:
    """The method of a name; its spec is the name that tables show.

    raises : MethodError for a name or an option that is not there, or a value that an option does not take
    """
    name, _, settings = spec.strip().partition(":")
    if name == "file":
        return file_column(settings)
    made = make_named(spec)
    set_method: SetMethod = OnRatings(made) if isinstance(made, Method) else made
    return set_method


def uses(spec: str) -> set[str]:
    """What the method needs of Tools: some of "judge" and "references". raises : as method"""
    if spec.strip().partition(":")[0] == "file":
        return set()
    made = make_named(spec)
    return set(made.uses if isinstance(made, Method) else find_kind(spec).uses)
