"""Tests of papers/, which is installed as a plug-in while they run (conftest.py)."""
