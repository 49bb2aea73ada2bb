"""Many scores and few labels -> a number about what wrote the texts, with an interval."""

from .estimate import Estimate, Estimates, estimate

__all__ = ["Estimate", "Estimates", "estimate"]
