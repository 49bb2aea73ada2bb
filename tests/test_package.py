"""What `import synthscore` offers."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import synthscore
from synthscore.resources import read_toml


@pytest.mark.parametrize("name", synthscore.__all__)
def test_every_name_of_the_package_is_there(name):
    assert getattr(synthscore, name) is not None


def test_there_are_no_more_names_than_one_can_know():
    assert len(synthscore.__all__) <= 37


def test_another_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        synthscore.nonsense  # noqa: B018


EXTRAS = ("evaluate", "excel", "gguf", "peft", "server")
TOOLS = (
    "datatrove",
    "deepeval",
    "inspect_ai",
    "mlflow",
    "ray",
    "trl",
)  # which import synthscore, not the other way round
MODULES = {"rouge-score": "rouge_score"}  # where the package has another name


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_installs_only_what_the_package_imports(extra):
    root = Path(synthscore.__file__).parents[1]
    if not (root / "pyproject.toml").is_file():
        pytest.skip("pyproject.toml is not there")
    declared = read_toml(root / "pyproject.toml")["project"]["optional-dependencies"]
    tools = {tool.replace("_", "-") for tool in TOOLS}  # or pip before 23.3 would not find them
    assert set(declared) == {*EXTRAS, *tools, "dev", "docs", "release"}  # the last three are for whoever works on it
    code = "\n".join(path.read_text(encoding="utf-8") for path in (root / "synthscore").rglob("*.py"))
    imported = set(
        re.findall(r"""^ *(?:import|from) (\w+)|\b(?:package|import_module)\("(\w+)""", code, flags=re.MULTILINE)
    )
    names = {name for either in imported for name in either}
    packages = [re.match(r"[\w-]+", line)[0] for line in declared[extra]]
    assert [package for package in packages if MODULES.get(package, package) not in names] == []


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_has_a_file_of_its_own_an_environment_and_a_test_in_it(tool):
    root = Path(synthscore.__file__).parents[1]
    if not (root / "Makefile").is_file():
        pytest.skip("Makefile is not there")
    assert re.search(rf"^TOOLS = .*\b{tool}\b", (root / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert (root / f"tests/integrations/test_{tool}.py").is_file()


def test_importing_the_package_loads_nothing_but_its_version():
    code = "import sys, synthscore; print([m for m in sys.modules if m.startswith('synthscore.')])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "['synthscore._version']\n"
    )
