"""The rooms of the house (docs/architecture.md): what lint-imports does not check."""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "synthscore"
MODULES = sorted(PACKAGE.rglob("*.py"))
PAPERS = sorted((ROOT / "papers").rglob("*.py"))


def imported(path):
    """(absolute module, name) of every name that a module imports from this package."""
    package = path.relative_to(ROOT).with_suffix("").parts[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*base, *([node.module] if node.module else [])])
            if module.startswith("synthscore"):
                yield from ((module, alias.name) for alias in node.names)


def room(module):
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and (PACKAGE / parts[1]).is_dir() else ""


def test_no_private_name_crosses_the_wall_of_a_room():
    private = []
    for path in [*MODULES, *PAPERS]:
        own = room(".".join(path.relative_to(ROOT).with_suffix("").parts)) if PACKAGE in path.parents else "papers"
        private += [
            f"{path.relative_to(ROOT)}: {module}.{name}"
            for module, name in imported(path)
            if name.startswith("_") and room(module) != own and name != "__version__"
        ]
    assert private == []


def test_only_nouns_stand_at_the_root():
    assert len(list(PACKAGE.glob("*.py"))) <= 9


def test_no_module_is_longer_than_a_reader_can_hold():
    long = {str(path.relative_to(ROOT)): n for path in MODULES if (n := len(path.read_text().splitlines())) > 560}
    assert long == {}
