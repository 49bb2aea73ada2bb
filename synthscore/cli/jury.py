"""What is said of a jury: what each judge is worth, and about what they disagree."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from .talk import counted, spaced

if TYPE_CHECKING:
    from ..scoring.opinions import Juror

RARE = 0.01  # chance below which a disagreement is reported


def jury_lines(question: str, jurors: Sequence[Juror]) -> Iterator[str]:
    """question : what they were asked on"""
    yield f"a jury of {len(jurors)}" + f" on {question}" * bool(question)
    for juror in sorted(jurors, key=lambda each: -each.share):
        answers = "" if math.isnan(juror.bias) else f", bias {juror.bias:+.2f}, noise {juror.noise:.2f}"
        yield (
            f"  {juror.name}: {100 * juror.share:.0f} % of what is known, alone r = {juror.agreement:.2f}; slope "
            f"{juror.slope:.2f}{answers}" + "; IT AGREES WITH THE OTHERS ON NOTHING" * (juror.slope == 0)
        )


def disagreement_lines(chances: Mapping[str, float]) -> Iterator[str]:
    """chances : of each text, Ranking.disagreement"""
    known = {name: chance for name, chance in chances.items() if not math.isnan(chance)}
    rare = sorted((name for name in known if known[name] < RARE), key=known.__getitem__)
    if known:
        shown = "".join(f"\n  {name}: {known[name]:.1g}" for name in rare[:3])
        yield (
            f"judges disagree more than their errors explain (chance below {RARE:g}) about {spaced(len(rare))} of "
            f"{counted(len(known), 'text')}; by chance about {RARE * len(known):.0f}{shown}"
        )
