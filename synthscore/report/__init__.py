"""A run -> one HTML page: `read_run` finds what is there, `page` shows it."""

from .changes import side_by_side
from .page import page
from .read import read_run

__all__ = ["page", "read_run", "side_by_side"]
