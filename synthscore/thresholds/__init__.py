"""Scores -> kept, dropped or unsure."""
