"""A pair of texts -> Better, Worse or Similar: tasks, templates, and how a judge is asked."""
