"""What `import synthscore` offers."""

import subprocess
import sys

import pytest

import synthscore


@pytest.mark.parametrize("name", synthscore.__all__)
def test_every_name_of_the_package_is_there(name):
    assert getattr(synthscore, name) is not None


def test_another_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        synthscore.nonsense  # noqa: B018


def test_importing_the_package_loads_no_part_of_it():
    code = "import sys, synthscore; print([m for m in sys.modules if m.startswith('synthscore.')])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
