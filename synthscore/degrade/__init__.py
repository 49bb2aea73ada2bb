"""Controlled damage: a good text -> worse ones, by known kinds and degrees of damage."""
