"""A run -> one HTML page, and pages with its rows: `read_run` finds what is there, `page` and `row_pages` show it."""

from .changes import side_by_side
from .page import page
from .read import read_run
from .rows import row_pages, rows_folder, write_pages

__all__ = ["page", "read_run", "row_pages", "rows_folder", "side_by_side", "write_pages"]
