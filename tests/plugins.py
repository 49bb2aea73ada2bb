"""Distributions that are installed for a while: a folder on the path, with the metadata that pip would leave."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import EntryPoint
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from synthscore import plugins
from synthscore.plugins import load_plugins
from synthscore.resources import read_toml

PAPERS = Path(__file__).resolve().parents[1] / "papers" / "pyproject.toml"


def write_metadata(site: Path, name: str, groups: Mapping[str, Mapping[str, str]]) -> None:
    """What says in a folder of the path that a distribution is installed there. groups : of entry points"""
    info = site / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    lines = []
    for group, entries in groups.items():
        lines += [f"[{group}]", *(f"{entry} = {value}" for entry, value in entries.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


@contextmanager
def only_installed(groups: Mapping[str, Mapping[str, str]]) -> Iterator[None]:
    """Installed packages have these entry points and no others. groups : as of write_metadata"""
    entries = [EntryPoint(*entry, group) for group, named in groups.items() for entry in named.items()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plugins, "entry_points", lambda group: [entry for entry in entries if entry.group == group])
        load_plugins.cache_clear()
        try:
            yield
        finally:
            load_plugins.cache_clear()


def papers_entry_points() -> dict[str, dict[str, str]]:
    """Group -> name -> object, of papers/pyproject.toml."""
    groups: dict[str, dict[str, str]] = read_toml(PAPERS)["project"]["entry-points"]
    return groups


@contextmanager
def papers_installed() -> Iterator[None]:
    """Plug-ins are those of papers/pyproject.toml, whatever pip has installed."""
    with TemporaryDirectory() as site:
        write_metadata(Path(site), "synthscore-papers", papers_entry_points())
        sys.path.insert(0, site)
        load_plugins.cache_clear()
        try:
            yield
        finally:
            sys.path.remove(site)
            load_plugins.cache_clear()
