"""How a command ends: its exit codes, and the error of a command line that means nothing."""

from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import InputError, SynthscoreError

OK, ERROR, USAGE, INCOMPLETE, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 3, 130, 141


class UsageError(SynthscoreError):
    """Options that contradict each other, or that mean nothing. Exit code 2."""


@contextmanager
def usage() -> Iterator[None]:
    """Nouns made of options. raises : UsageError for what they refuse"""
    try:
        yield
    except InputError as error:
        raise as_usage(error) from error


def as_usage(error: InputError) -> UsageError:
    """What a noun refuses, by the name that the option has."""
    field = error.field
    option = field.removeprefix("n_").replace("_", "-")
    return UsageError(str(error).replace(f"{field} is", f"--{option} is", 1) if field else str(error))
