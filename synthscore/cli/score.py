"""`synthscore score`: targets -> scores."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from ..integrations import ScoresTo, Texts
from ..judging.asking import Asking
from .exits import ERROR, INCOMPLETE, OK, UsageError
from .messages import Messages
from .options import AskingOptions, DryRun, Input, Judges, Limit, On, OneShard, RowsIn, RowsOut
from .scoring import MethodOptions, asked_line, judge_lines, ladder_jury_lines, tell_drift

if TYPE_CHECKING:
    from ..engine import Engine


def score(
    targets: RowsIn,
    /,
    *,
    on: On = On(),
    output: RowsOut = "-",
    from_: Annotated[Texts | None, Parameter(name="--from")] = None,
    to: ScoresTo | None = None,
    verdicts: bool = False,
    limit: Limit = None,
    shard: OneShard = None,
    dry_run: DryRun = False,
    asking: AskingOptions = Asking(),
    scoring: MethodOptions = MethodOptions(),
    min_score: Annotated[float | None, Parameter(group="scoring")] = None,
    judge: Judges = Judges(),
    input: Input = Input(),
    messages: Messages = Messages(),
) -> int:
    """Texts -> scores on the rung scale.

    For example:
      $ synthscore score targets.jsonl --references ladders/ > scores.jsonl
      $ synthscore score summaries.csv --references ladders/ --attribute coherence --field text=summary -o scores.csv

    Scores every text on the scale of its ladder's rungs: 1 is as good as the worst rung, N as the best;
    0 is worse than all, sqrt(N(N+1)) better than all (5.48 for N = 5). A row needs text, and context_id or
    context (the text itself), and may have id and system. A row with a column task or attribute is judged on
    that, unless --task or --attribute overrules it.

    Writes one row for each target and attribute, in the order of the targets: score, status (ok or
    unscored), reason, raw (the paper's sum, within +-N(N+1)/2), unit (raw / its bound), n_rungs,
    label_mass, signature. Where some rungs have no verdict, there is no score, but it lies between low and high
    whatever they had been. A row that cannot be read or scored stays in its place, with a reason and no
    score. The exit code is 3 where a row is unscored.

    With --scoring anchored the score is a position on the rung scale, by a model of the judge that is fitted
    to all answers, with a stderr and a 90 % interval (docs/anchored.md); with --scale FILE --adaptive each
    text is asked about only until it is clear enough (docs/adaptive.md). Several judges (--model A
    --model B) score together, with --scoring anchored: the mean of theirs (docs/jury.md).

    --method takes another way to a number: place asks about all rungs at once, direct and g-eval ask for a
    grade and need no ladders (docs/methods.md). The signature then says which scale the scores are on.

    Rows are read, scored and written some at a time, in little memory; with --scoring anchored and no
    --scale, and with several judges, all rows are held at once.

    Args:
        from_: the rows are a log of inspect, or samples that lm-eval wrote with --log_samples (docs/integrations.md)
        to: write records for inspect's precomputed_scores, or OpenTelemetry's events gen_ai.evaluation.result
        verdicts: also write a column verdicts: of every rung and order asked, [level, swapped, better, worse, similar]
        min_score: with --adaptive: the threshold
    """
    from ..integrations.formats import read_form, scores_to
    from ..io.files import read_items
    from ..io.scores import score_row
    from ..io.write import write_rows
    from ..scoring.anchored import Scales
    from ..scoring.run import Tally, score_rows
    from ..scoring.scorer import Scorer, find_questions, ladder_lengths
    from ..thresholds.rules import check_threshold

    if min_score is not None and not scoring.adaptive:
        raise UsageError("--min-score changes nothing without --adaptive. Leave it out, or add that")
    if to and verdicts:
        raise UsageError(f"--verdicts is for rows of our own, and --to {to} writes others. Leave one of them out")
    if verdicts and len(judge.models) > 1:
        raise UsageError("--verdicts are of one judge. Leave them out, or name one --model")
    method = scoring.make_method(asking, min_score, n_judges=len(judge.models), sharded=shard is not None)
    ladders = on.load_references("score", method)
    questions = find_questions(ladders, on.task, on.attribute)
    if min_score is not None and ladders is not None:
        check_threshold(min_score, method.limits(max(ladder_lengths(ladders, questions))))
    rows: Any = list(read_form(targets, from_, input.encoding)) if from_ else targets
    only = shard.owns if shard else None
    batches = read_items(rows, encoding=input.encoding, fields=input.fields, limit=limit, only=only)
    tally = Tally()

    def make_scorer(engine: Engine) -> Scorer:
        return Scorer(ladders, engine, task=on.task, attribute=on.attribute, asking=asking, method=method)

    def made() -> Iterator[Mapping[str, Any]]:
        parts = score_rows(batches, asked.judges, make_scorer, planned=asked.planned, progress=asked.progress)
        for part in parts:
            tally.add(part.scored, method)
            for score, signature in part.scored:
                yield score_row(score, signature, verdicts=verdicts)

    with judge.open_all(messages, alone=method.alone, dry_run=dry_run) as asked:
        if dry_run:
            deque(made(), maxlen=0)
            print(*asked.cost, sep="\n")
            return OK
        write_rows(scores_to(made(), to) if to else made(), output)
    statuses = tally.counts.statuses
    if not statuses and not shard:
        messages.warn(f"{targets} holds no rows")
    if tally.leaning.words:
        messages.warn(tally.leaning.words)
    tell_drift(tally.drifts, messages)
    if scoring.save_scale:
        Scales(tally.scales).save(scoring.save_scale)
    lines = [asked_line(asking, tally.counts)]
    if statuses["unscored"]:
        lines += ["unscored:", *tally.why_unscored.lines()]
    lines += [*judge_lines(tally.scales), *ladder_jury_lines(tally.juries)]
    messages.note(*lines, *asked.cost, signature=str(tally.signature))
    if statuses["unscored"] == statuses.total() > 0:
        messages.warn("nothing could be scored")
        return ERROR
    return OK if statuses["ok"] == statuses.total() else INCOMPLETE
