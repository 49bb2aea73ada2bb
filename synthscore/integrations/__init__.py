"""Rows of other tools -> scores in a form of their own: a file a tool. None is imported here."""
