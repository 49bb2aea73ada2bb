"""Tokens that answers take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that answers took, as far as known. one + other: of both.

    n_in : in all prompts, each as long as it is
    n_computed : of these, what the model ran over; the rest it shared with other prompts or found in a cache. With
        padding it may be more
    n_out : written, reasoning included
    n_reasoning : of these, the reasoning
    """

    n_in: int = 0
    n_computed: int = 0
    n_out: int = 0
    n_reasoning: int = 0

    @property
    def n_cached(self) -> int:
        """Tokens of prompts that were not run over again."""
        return max(self.n_in - self.n_computed, 0)

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            n_in=self.n_in + other.n_in,
            n_computed=self.n_computed + other.n_computed,
            n_out=self.n_out + other.n_out,
            n_reasoning=self.n_reasoning + other.n_reasoning,
        )
