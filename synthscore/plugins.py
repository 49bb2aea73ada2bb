"""What other installed packages add to synthscore: the objects that they name in a group of entry points."""

from __future__ import annotations

import warnings
from functools import cache
from importlib.metadata import entry_points

from .errors import SynthscoreWarning


@cache
def load_plugins(group: str) -> dict[str, object]:
    """The objects of a group of entry points, by name: "synthscore.engines", say. Read once in a process.

    warns : of each that cannot be loaded, or whose name another one has; it is left out
    """
    plugins: dict[str, object] = {}
    for entry in entry_points(group=group):
        package = entry.dist.name if entry.dist else "an unknown package"
        what = f"the plug-in {entry.name!r} of {package} ({group}: {entry.value})"
        if entry.name in plugins:
            message = f"{what} is left out: another installed package has one of that name. Uninstall one of the two"
            warnings.warn(message, SynthscoreWarning, stacklevel=2)
            continue
        try:
            plugins[entry.name] = entry.load()
        except Exception as error:  # it is code of others, and may raise anything
            message = f"{what} is left out, since it cannot be loaded: {type(error).__name__}: {error}. "
            message += f"Mend {package}, or uninstall it"
            warnings.warn(message, SynthscoreWarning, stacklevel=2)
    return plugins
