"""`synthscore drift`: are judge and texts still those that a scale was fitted on, or a certificate made of?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .messages import Messages, UsageError, counted, exit_code, table
from .options import FileIn, Input

if TYPE_CHECKING:
    from ..scoring.anchored.drift import Drift


def drift(
    scores: FileIn,
    /,
    *,
    scale: str | None = None,
    certificate: str | None = None,
    input: Input = Input(),
    messages: Messages = Messages(),
) -> int:
    """Scores -> are judge and texts what they were?

    For example:
      $ synthscore drift scores.jsonl --scale scale.json
      $ synthscore drift scores.jsonl --certificate calibration.json

    Compares scores with what was seen when a scale was fitted (score --save-scale), or a certificate made
    (calibrate), and prints each statistic then and now, with its standard error over contexts, and the
    probability p of such a difference where nothing has changed, all statistics taken together:

      sharpness   nats a rung that the judge tells, or the length of the ladders; 1 is that of the fit's median
      bias        nats for the text that is asked about, where both orders were asked
      noise       squared residuals of the answers, over those that the fit expects
      ties        how much is Similar, over what the fit expects
      texts       where they stand, in rungs (score, kept: the mean score of a certificate, the share kept)
      rung 1..N   where the rungs are seen, off the line through all of them

    The rows are those of `synthscore score --verdicts`. Without verdicts only scores are compared, which a
    certificate knows. It asks nobody. The exit code is 3 where p is below 0.05 for any statistic, or where
    nothing could be compared.

    Args:
        scores: rows with score, verdicts and signature
        scale: file that score --save-scale wrote
        certificate: file that calibrate wrote
    """
    from ..errors import InputError
    from ..io.files import each_row, read_rows
    from ..io.scores import one_scale, read_score
    from ..scoring.anchored import Scales
    from ..scoring.anchored.drift import Watch
    from ..thresholds.certificate import Certificate

    if (scale is None) == (certificate is None):
        raise UsageError("drift compares with --scale FILE or with --certificate FILE: give one of them")
    if certificate:
        watches = [Certificate.load(certificate).watch]
    else:
        watches = [Watch.scale(each) for each in Scales.load(scale or "")]
    errors: list[InputError] = []
    rows = read_rows(scores, encoding=input.encoding, fields=input.fields)
    scored = list(each_row(rows, read_score, errors))
    one_scale(scores, [*(watch.signature for watch in watches), *(signature for _, signature in scored)])
    for watch in watches:
        watch.add(scored)
    drifts = [watch.drift() for watch in watches]
    print("\n\n".join(_shown(each) for each in drifts))
    if errors:
        messages.note(f"{counted(len(errors), 'row')} could not be used: {errors[0]}")
    return exit_code(not errors and all(each.verdict == "none" for each in drifts))


def _shown(drift: Drift) -> str:
    rows = [
        (c.name, *(f"{seen.value:.2f} +- {seen.stderr:.2f}" for seen in (c.was, c.now)), f"{c.p:.2g}")
        for c in drift.changes
    ]
    if not rows:
        return drift.words
    return f"{table(rows, ('', 'was', 'is', 'p'))}\n{drift.words}"
