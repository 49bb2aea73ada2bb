"""What is said of juries: who votes, who is left out, and who errs like whom."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from ..scoring.votes import SAME, Jury


def jury_lines(juries: Mapping[tuple[str, ...], Jury]) -> Iterator[str]:
    """juries : by what they were asked on"""
    for question, jury in juries.items():
        yield from _lines("/".join(question), jury)


def _lines(question: str, jury: Jury) -> Iterator[str]:
    n_judges = sum(map(len, jury.votes)) + len(jury.left_out)
    named = ", ".join(" + ".join(vote) for vote in jury.votes)
    about = f" on {question}" if question else ""
    yield f"a jury of {n_judges}{about}, with equal weights: {named}"
    for vote in jury.votes:
        if len(vote) > 1:
            yield f"  {' and '.join(vote)} have one vote: their residuals correlate above {SAME:g}"
    for name, reason in jury.left_out.items():
        yield f"  {name} is left out: {reason}"
    for name, words in jury.lacking.items():
        yield f"  {name} {words}"
    if len(jury.votes) == 2:
        yield "  of two, nothing says which one errs: both count alike"
    shown = [f"{one} and {other} {r:.2f}" for (one, other), r in jury.alike.items() if not math.isnan(r)]
    if shown:
        yield f"  correlation of residuals: {', '.join(shown)}"
