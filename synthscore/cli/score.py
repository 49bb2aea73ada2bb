"""`synthscore score`: targets -> scores."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from cyclopts import Parameter

from ..integrations import ScoresTo, Texts
from ..judging.asking import Asking
from ..signature import Signature
from .exits import ERROR, INCOMPLETE, OK, UsageError
from .jury import disagreement_lines, jury_lines
from .messages import Messages
from .options import AskingOptions, DryRun, Input, Judges, Limit, On, OneShard, RowsIn, RowsOut
from .scoring import Scoring, asked_line, judge_lines, tell_drift
from .talk import reasons


def score(
    targets: RowsIn,
    /,
    *,
    on: On,
    output: RowsOut = "-",
    from_: Annotated[Texts | None, Parameter(name="--from")] = None,
    to: ScoresTo | None = None,
    verdicts: bool = False,
    limit: Limit = None,
    shard: OneShard = None,
    dry_run: DryRun = False,
    asking: AskingOptions = Asking(),
    scoring: Scoring = Scoring(),
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
    0 is worse than all, sqrt(N(N+1)) better than all (5.48 for N = 5). A row needs the columns context_id
    and text, and may have id and system. A row with a column task or attribute is judged on that, unless
    --task or --attribute overrules it.

    Writes one row for each target and attribute, in the order of the targets: score, status (ok or
    unscored), reason, raw (the paper's sum, within +-N(N+1)/2), unit (raw / its bound), label_mass,
    signature. Where some rungs have no verdict, there is no score, but it lies between low and high
    whatever they had been. A row that cannot be read or scored stays in its place, with a reason and no
    score. The exit code is 3 where a row is unscored.

    With --scoring anchored the score is a position on the rung scale, by a model of the judge that is fitted
    to all answers, with a stderr and a 90 % interval (docs/anchored.md); with --scale FILE --adaptive each
    text is asked about only until it is clear enough (docs/adaptive.md). Several judges (--model A
    --model B) score together, with --scoring anchored, each weighing what it is worth (docs/jury.md).

    Args:
        from_: the rows are a log of inspect, or samples that lm-eval wrote with --log_samples (docs/integrations.md)
        to: write records for inspect's precomputed_scores, or OpenTelemetry's events gen_ai.evaluation.result
        verdicts: also write a column verdicts: of every rung and order asked, [level, swapped, better, worse, similar]
        min_score: with --adaptive: the threshold
    """
    from ..io.scores import score_row
    from ..io.write import write_rows
    from ..ladders.references import References
    from ..scoring.anchored import Scales
    from ..scoring.anchored.drift import Watch
    from ..scoring.items import read_items
    from ..scoring.jury import score_together
    from ..scoring.rows import RowScorer, held_attributes, leaning
    from ..thresholds.rules import check_on_scale

    if min_score is not None and not scoring.adaptive:
        raise UsageError("--min-score changes nothing without --adaptive. Leave it out, or add that")
    if to and verdicts:
        raise UsageError(f"--verdicts is for rows of our own, and --to {to} writes others. Leave one of them out")
    several = len(judge.models) > 1
    if several and verdicts:
        raise UsageError("--verdicts are of one judge. Leave them out, or name one --model")
    mode = scoring.mode(min_score, jury=several, shard=shard is not None)
    ladders = References.load(on.references, revision=on.revision)
    held_attributes(ladders, on.task, on.attribute)
    if min_score is not None:
        check_on_scale(min_score, max(ladder.n_rungs for ladder in ladders), scoring.scoring)
    rows: Any = targets
    if from_:
        from ..integrations.formats import read_form

        rows = list(read_form(targets, from_, input.encoding))
    only = shard.owns if shard else None
    items = read_items(rows, encoding=input.encoding, fields=input.fields, limit=limit, only=only)
    if not items and not shard:
        messages.warn(f"{targets} holds no rows")
    by_judge, cost = {}, []
    for model in judge.models:
        with judge.open(model, messages, dry_run=dry_run) as engine:
            scorer = RowScorer(ladders, engine, task=on.task, attributes=on.attribute, scoring=mode, asking=asking)
            plan = scorer.plan(items)
            engine.expected = plan.n_questions
            with messages.bar(plan.n_questions, "questions") as progress:
                by_judge[model] = plan.score(progress)
            cost += engine.cost
    if dry_run:
        print(*cost, sep="\n")
        return OK
    scored, worth = score_together(by_judge) if several else (by_judge[model], {})
    made: Iterable[Mapping[str, Any]] = (score_row(score, signature, verdicts=verdicts) for score, signature in scored)
    if to:
        from ..integrations.formats import scores_to

        made = scores_to(made, to)
    write_rows(made, output)
    if warning := leaning(score for score, _ in scored):
        messages.warn(warning)
    watches = [Watch.scale(scale) for scale in scored.scales] if scoring.scale else []
    for watch in watches:
        watch.add(scored)
    tell_drift([watch.drift() for watch in watches], messages)
    if scoring.save_scale:
        Scales(scored.scales).save(scoring.save_scale)
    statuses = scored.counts.statuses
    why = reasons(reason for score, _ in scored if score.status == "unscored" for reason in score.reasons)
    lines = [asked_line(asking, scored.counts), *(["unscored:", *why] if statuses["unscored"] else [])]
    for model, each in by_judge.items():
        lines += [f"{model}:"] * several + judge_lines(each.scales)
    for (_, attribute, n_rungs), jurors in worth.items():
        lines += jury_lines(f"{attribute}, {n_rungs} rungs", jurors)
    if several:
        known = {f"{score.id} on {score.attribute}": score.details.get("disagreement", math.nan) for score, _ in scored}
        lines += disagreement_lines(known)
    lines += cost
    messages.note(*lines, signature=str(Signature.merged(scored.used)))
    if statuses["unscored"] == statuses.total() > 0:
        messages.warn("nothing could be scored")
        return ERROR
    return OK if statuses["ok"] == statuses.total() else INCOMPLETE
