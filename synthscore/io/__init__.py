"""Bytes -> rows -> nouns -> rows: every file that people bring, and every file that we write."""
