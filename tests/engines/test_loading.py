"""How a name becomes a model."""

import inspect
import os
import subprocess
import sys

import pytest
import transformers as tf

from synthscore import engines
from synthscore.engines.loading import load
from synthscore.engines.local import LocalEngine
from synthscore.engines.tree.causal import CausalEngine
from synthscore.errors import EngineError


def test_the_options_of_a_model_that_is_loaded_here_are_those_that_are_named():
    own, passed_on = (set(inspect.signature(each).parameters) for each in (LocalEngine.load, load))
    assert own - {"options"} | passed_on - {"auto_class", "kind", "unread"} == {"where", *engines._LOADED}


@pytest.mark.parametrize("device", ["mars", "cpu:x", "cuda:99"])
def test_a_device_that_is_not_here_is_an_error_of_the_engine(device):
    with pytest.raises(EngineError, match=rf"cannot use the device '{device}': .*; name one that is here, such as cpu"):
        engines.open_engine("nano", device=device)


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, "PASSIVE None 64"),
        ({"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE None 64"),
        ({"GOMP_SPINCOUNT": "7"}, "None 7 64"),
        ({"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "9"}, "PASSIVE None 9"),
    ],
)
def test_threads_that_wait_sleep_and_few_products_are_kept_unless_the_user_says_otherwise(given, found):
    code = """if True:
        import os, sys
        import synthscore.engines
        names = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "ONEDNN_PRIMITIVE_CACHE_CAPACITY")
        print(*map(os.environ.get, names), "torch" in sys.modules)
    """
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("OMP_WAIT", "GOMP_", "ONEDNN_"))
    }
    asked = subprocess.run(
        [sys.executable, "-c", code], env=environment | given, capture_output=True, text=True, check=True
    )
    assert asked.stdout == f"{found} False\n"


class _AsIfQuantised(tf.AutoModelForCausalLM):
    """Loads a model, and says of it what a quantising library would."""

    fields: dict

    @classmethod
    def from_pretrained(cls, *args, **options):
        model, info = super().from_pretrained(*args, **options)
        model.config.quantization_config = cls.fields
        return model, info


@pytest.mark.parametrize(
    ("fields", "signed"),
    [
        (tf.BitsAndBytesConfig(load_in_8bit=True), "bitsandbytes-8bit"),
        (tf.BitsAndBytesConfig(load_in_4bit=True), "bitsandbytes-4bit"),
        ({"quant_method": "awq", "bits": 4}, "awq-4bit"),
        ({"quant_method": "fp8"}, "fp8"),
    ],
)
def test_how_many_bits_quantised_weights_have_is_signed(folder, monkeypatch, fields, signed):
    plain = engines.open_engine(folder).signature
    assert plain.part("quantised") == ""
    monkeypatch.setattr(_AsIfQuantised, "fields", fields, raising=False)
    monkeypatch.setattr(CausalEngine, "auto_class", _AsIfQuantised)
    quantised = engines.open_engine(folder).signature
    assert quantised.differs(plain) == {"quantised": (signed, None)}
