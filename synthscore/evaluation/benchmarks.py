"""Benchmarks by name: ratings that were published, and that other installed packages know how to read.

Each is an entry point of the group `synthscore.benchmarks`; this package has none of its own.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, runtime_checkable

from ..errors import BenchmarkError, SynthscoreWarning
from ..plugins import load_plugins
from .ratings import Ratings

GROUP = "synthscore.benchmarks"
"""The group of entry points."""


@runtime_checkable
class Benchmark(Protocol):
    """Ratings that were published: known by a name, with files in a folder of the user's."""

    @property
    def task(self) -> str: ...

    @property
    def scales(self) -> Mapping[str, tuple[float, float] | None]: ...

    def load(self, folder: str | Path) -> Ratings: ...


def benchmarks() -> dict[str, Benchmark]:
    """The benchmarks that other installed packages read, by name: their entry points of the group
    `synthscore.benchmarks`.

    warns : SynthscoreWarning for an entry point that is no Benchmark; it is left out
    """
    installed: dict[str, Benchmark] = {}
    for name, plugin in load_plugins(GROUP).items():
        if isinstance(plugin, Benchmark):
            installed[name] = plugin
            continue
        message = f"the plug-in {name!r} ({GROUP}) is left out: it is {plugin!r:.60}, expected task, scales and load"
        warnings.warn(message, SynthscoreWarning, stacklevel=2)
    return installed


def load_benchmark(name: str, folder: str | Path) -> Ratings:
    """The ratings of an installed benchmark, whose files lie in this folder.

    raises : BenchmarkError for one that is not installed, and for files that it cannot read
    """
    installed = benchmarks()
    if name not in installed:
        raise BenchmarkError(
            f"there is no benchmark {name!r}. Installed are: {', '.join(installed) or 'none'}. Install the package "
            "that adds it, or give rows with people's ratings: --human FILE",
            benchmark=name,
        )
    return installed[name].load(folder)
