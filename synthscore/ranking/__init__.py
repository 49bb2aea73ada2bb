"""Comparisons -> scores and an order. NumPy and SciPy: no model, no files."""
