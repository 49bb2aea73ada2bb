"""Ladders -> what is wrong with them, by their texts and by a judge; and rungs written again."""
