"""What stands beside the package goes with it: every module imports, in the order of nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["benchmarks", "papers", "training"])
def test_every_module_beside_the_package_imports(folder):
    names = [f"{folder}.{path.stem}" for path in sorted((ROOT / folder).glob("*.py")) if path.stem[0] != "_"]
    code = f"import importlib\nfor name in {names}: importlib.import_module(name)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
