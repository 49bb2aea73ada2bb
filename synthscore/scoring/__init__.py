"""Verdicts against a ladder -> scores: the paper's sum, or positions with errors."""
