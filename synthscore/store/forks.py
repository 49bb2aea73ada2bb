"""What becomes of threads, locks and open files in a process that was forked: there they are not its own."""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class Renewable(Protocol):
    """What works on in a forked process, once it has begun anew there."""

    def begin_anew(self) -> None: ...


_RENEWED: WeakSet[Renewable] = WeakSet()


def renew_after_fork(one: Renewable) -> None:
    """Have it begin anew in every process that is forked from this one, before anything else runs there."""
    _RENEWED.add(one)


def _renew() -> None:
    for one in list(_RENEWED):
        one.begin_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
