"""`synthscore filter`: targets -> those that score well enough, unchanged, some rows at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import InputError
from .messages import ERROR, OK, Messages, UsageError, usage
from .options import (
    AskingOptions,
    DryRun,
    Input,
    Judges,
    MoreRows,
    On,
    OneShard,
    OpenJudges,
    RowsIn,
    RowsOut,
    Tolerance,
)
from .score import MethodOptions, tell_scores

if TYPE_CHECKING:
    from ..thresholds.filter import Filtered
    from ..thresholds.rules import Rule


def filter(
    targets: RowsIn,
    /,
    *,
    on: On = On(),
    min_score: float | None = None,
    alpha: float | None = None,
    certificate: str | None = None,
    output: RowsOut = "-",
    dropped: MoreRows = None,
    unsure: MoreRows = None,
    shard: OneShard = None,
    dry_run: DryRun = False,
    asking: AskingOptions = AskingOptions(),
    scoring: MethodOptions = MethodOptions(),
    judge: Judges = Judges(),
    input: Input = Input(),
    tolerance: Tolerance = Tolerance(),
    messages: Messages = Messages(),
) -> int:
    """Texts -> those that score well enough.

    For example:
      $ synthscore filter targets.jsonl --references ladders/ -a coherence --min-score 3.5 > kept.jsonl
      $ synthscore filter - --references ladders/ -a fluency --min-score 3 --dropped low.jsonl
      $ synthscore filter targets.jsonl --references ladders/ --certificate c.json -o kept.jsonl

    Keeps the rows whose text scores well enough on the rung scale (see `synthscore score --help`): as they
    were, in their order. What is well enough: a score of --min-score X or more; with --alpha P and --scoring
    anchored, X or more with probability 1 - P, by the score's error; or what `synthscore calibrate` has
    certified (--certificate FILE). A row that none of this decides is unsure: it is not kept, and counted by
    itself (docs/filter.md).

    --dropped gets the rows that are not kept (without the unsure ones, where --unsure gets them), each with
    a column synthscore: its score, stderr, the low and high that it could have, decision (dropped or unsure),
    why, status and reason. The exit code is 3 where a row is partial, unsure or unscored, and
    more are than --allow-unscored allows.

    Several judges (--model A --model B) score together, with --scoring anchored (docs/jury.md). With
    --method the scores, and so the threshold, may be on another scale (docs/methods.md).

    Rows are read, decided and written some at a time, in little memory; until the end, FILE is FILE.partial. A
    run that was killed is run again by the same command: what the judge answered is in the store. With
    --scoring anchored and no --scale, scores depend on each other: all rows are then read at once.

    Args:
        min_score: least score that is kept, in rungs: 1 as good as the worst, N as the best; 0 to sqrt(N(N+1)) with
            --scoring paper, 5.48 for 5 rungs
        alpha: with --scoring anchored: keep where P(score >= X) is at least 1 - this, drop where it is this or less
        certificate: decide by a certificate of `synthscore calibrate`
        dropped: where to write the rows that are not kept (default: nowhere)
        unsure: where to write the unsure ones (default: with the dropped)
    """
    from ..thresholds import filter as thresholds

    rule = _rule(min_score, alpha, certificate)
    method = scoring.make_method(asking, min_score, alpha, n_judges=len(judge.models), sharded=shard is not None)
    ladders = on.load_references("filter", method)
    if len(on.attribute or ()) > 1:
        raise UsageError(f"filter decides by one attribute, and {on.attribute} are named. Say which with one -a")
    attribute = on.attribute[0] if on.attribute else None
    paths: dict[str, Any] = {} if dry_run else {"kept": output, "dropped": dropped, "unsure": unsure}
    with OpenJudges(judge, messages, dry_run=dry_run) as asked:
        try:
            filtered = thresholds.filter(
                targets,
                ladders,
                asked.judges,
                rule,
                task=on.task,
                attribute=attribute,
                asking=asking,
                method=method,
                encoding=input.encoding,
                fields=input.fields,
                shard=shard,
                planned=asked.planned,
                progress=asked.progress,
                **paths,
            )
        except InputError as error:
            if error.field in ("attribute", "alpha"):
                raise UsageError(str(error)) from error
            raise
    if dry_run:
        print(*asked.cost, sep="\n")
        return OK
    if not filtered.n_rows and not shard:
        messages.warn(f"{targets} holds no rows")
    tell_scores(filtered.tally, asking, scoring, asked, messages, *_lines(filtered, rule))
    if filtered.n_rows and filtered.n_unscored_unsure == filtered.n_rows:
        messages.warn("nothing could be scored, so nothing was kept")
        return ERROR
    return tolerance.exit_code(filtered.n_incomplete, filtered.n_rows)


def _rule(min_score: float | None, alpha: float | None, certificate: str | None) -> Rule:
    from ..thresholds.certificate import Certificate
    from ..thresholds.rules import AtLeast, MinScore

    if (min_score is None) == (certificate is None):
        raise UsageError("filter decides by --min-score X or by --certificate FILE: give one of them")
    if certificate is not None:
        if alpha is not None:
            raise UsageError("--alpha goes with --min-score: a certificate has its own confidence. Leave it out")
        return Certificate.load(certificate)
    assert min_score is not None
    with usage():
        return MinScore(min_score) if alpha is None else AtLeast(min_score, alpha)


def _lines(found: Filtered, rule: Rule) -> list[str]:
    decided = found.tally.counts.statuses["unscored"] - found.n_unscored_unsure
    lines = found.why_unsure.lines()
    if lines:
        lines = ["unsure:", *lines]
    counts = f"{found.decisions['dropped']} dropped, "
    if found.n_scored_unsure:
        counts += f"{found.n_scored_unsure} unsure, "
    counts += f"{found.n_unscored_unsure} unscored"
    if decided:
        counts += f"; {decided} unscored by what they can be at least or most"
    return [*lines, f"kept {found.decisions['kept']} of {found.n_rows} {rule.words}; {counts}"]
