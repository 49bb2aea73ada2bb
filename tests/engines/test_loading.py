"""How a name becomes a model."""

import inspect

from synthscore import engines
from synthscore.engines.loading import LocalEngine


def test_the_options_of_a_model_that_is_loaded_here_are_those_that_are_named():
    assert set(inspect.signature(LocalEngine.load).parameters) == {"path_or_id", *engines._LOADED}
