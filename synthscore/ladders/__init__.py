"""Contexts -> ladders of texts from the worst to the best -> a released dataset."""
