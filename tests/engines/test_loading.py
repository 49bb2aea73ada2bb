"""How a name becomes a model."""

import inspect

from synthscore import engines
from synthscore.engines.loading import LocalEngine, load


def test_the_options_of_a_model_that_is_loaded_here_are_those_that_are_named():
    own, passed_on = (set(inspect.signature(each).parameters) for each in (LocalEngine.load, load))
    assert own - {"options"} | passed_on - {"auto_class", "kind", "unread"} == {"where", *engines._LOADED}
