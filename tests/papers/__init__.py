"""Tests of papers/: importing it registers its methods and files with synthscore."""

import papers  # noqa: F401
