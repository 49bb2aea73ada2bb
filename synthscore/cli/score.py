"""`synthscore score`: targets -> scores. Its options and its words are also those of whatever scores."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from cyclopts import Parameter

from ..integrations import ScoresTo, Texts
from ..judging.asking import Asking
from ..scoring.votes import SAME, Jury
from .messages import ERROR, OK, Messages, UsageError, counted, spaced, usage, visible
from .options import (
    AskingOptions,
    Count,
    DryRun,
    Input,
    Judges,
    Limit,
    On,
    OneShard,
    OpenJudges,
    Positive,
    RowsIn,
    RowsOut,
    Tolerance,
    given,
)
from .overview import Overview, is_terminal

if TYPE_CHECKING:
    from ..engine import Engine
    from ..scoring.anchored import Scale
    from ..scoring.anchored.model import JudgeModel
    from ..scoring.ladder import Scoring
    from ..scoring.method import Method
    from ..scoring.run import Tally
    from ..scoring.scorer import Counts, ScoredBatch, Scorer


@Parameter(name="*", group="scoring")
@dataclass(frozen=True, kw_only=True)
class ScoringOptions:
    """How verdicts become scores."""

    scoring: Literal["paper", "anchored"] = "paper"
    "the paper's sum, or positions on the rung scale with errors, by a model of the judge"
    samples: Positive | None = None
    "with paper: score from so many labels drawn from the probabilities (default: from the exact probabilities)"
    scale: str | None = None
    "with anchored: file that --save-scale wrote; each text is placed alone (default: fitted to the texts at hand)"
    save_scale: str | None = None
    "with anchored: file to write the judge and ladders to, JSON"
    seed: Count | None = None
    "of --samples (default: 0)"
    adaptive: bool = False
    """with --scale and --min-score: ask about each text in rounds, until the rest of its ladder would hardly take its
    score to the other side (docs/adaptive.md)"""

    def make_scoring(self, min_score: float | None = None, alpha: float | None = None) -> Scoring:
        """The scoring that the options name.

        min_score : with --adaptive, the threshold whose side each text's score is to be known for
        alpha : with --adaptive, the probability that a text's score is on the other side, below which nothing more is
            asked about it; None: ask until the rest of its ladder would hardly change the side (docs/adaptive.md)
        raises : UsageError for options that do nothing together; InputError for a file that holds no scales
        """
        from ..scoring.anchored import Anchored
        from ..scoring.anchored.adaptive import SameDecision, Sure
        from ..scoring.paper import Paper

        for option in given(self):
            scoring = _SCORING_OF.get(option, self.scoring)
            if scoring != self.scoring:
                raise UsageError(f"{option} changes nothing without --scoring {scoring}. Leave it out, or add that")
        if self.seed is not None and self.samples is None:
            raise UsageError(f"--seed {self.seed} changes nothing without --samples N. Leave it out, or add that")
        if self.save_scale and self.scale:
            raise UsageError("--save-scale would write what --scale names. Leave one of them out")
        if self.adaptive and not self.scale:
            raise UsageError(
                "--adaptive needs to know the judge and the ladders: --scoring anchored --scale FILE. Make the file "
                "from some of the texts, asked in full: synthscore score SOME --scoring anchored --save-scale FILE"
            )
        if self.scoring == "paper":
            with usage():
                return Paper(self.samples, self.seed or 0)
        if not self.adaptive:
            return Anchored(self.scale)
        if min_score is None:
            raise UsageError("--adaptive needs a threshold, on one side of which each text is. Give --min-score X")
        with usage():
            stop = SameDecision(min_score) if alpha is None else Sure(min_score, alpha)
        return Anchored(self.scale, stop=stop)


@Parameter(name="*", group="scoring")
@dataclass(frozen=True, kw_only=True)
class MethodOptions(ScoringOptions):
    """How texts get their scores."""

    method: str = "ladder"
    """how texts get their scores, NAME or NAME:OPTION=VALUE,...: ladder, place, decision-score, direct, g-eval, or one
    that is installed (docs/methods.md); the other options here are of ladder. To order texts: rank --method"""

    def make_method(
        self,
        asking: Asking,
        min_score: float | None = None,
        alpha: float | None = None,
        *,
        n_judges: int,
        sharded: bool,
    ) -> Method:
        """The method that the options name.

        min_score, alpha : as of `make_scoring`
        n_judges : that score together
        sharded : whether only some of the contexts are scored here, and others elsewhere
        raises : UsageError for options that do nothing together; InputError; MethodError
        """
        from ..scoring.jury import require_fitted_errors
        from ..scoring.scorer import make_method

        own = [option for option in given(self) if option != "--method"]
        if own and self.method.partition(":")[0] != "ladder":
            raise UsageError(f"{own[0]} changes nothing with --method {self.method}. Leave one of them out")
        method = make_method(self.method, self.make_scoring(min_score, alpha))
        if not method.asks_pairs and (asking.both_orders or asking.protocol != Asking().protocol):
            option = "--both-orders" if asking.both_orders else f"--protocol {asking.protocol}"
            raise UsageError(f"{option} changes nothing with --method {self.method}, which compares no two texts")
        if self.save_scale and n_judges > 1:
            raise UsageError("--save-scale is of one judge, and several are named. Leave one of them out")
        with usage():
            if n_judges > 1:
                require_fitted_errors(method)
            if sharded:
                method.require_alone()
        return method


_SCORING_OF = {"--samples": "paper", "--scale": "anchored", "--save-scale": "anchored"}
"""Options that change nothing with another scoring."""


def score(
    targets: RowsIn,
    /,
    *,
    on: On = On(),
    output: RowsOut | None = None,
    from_: Annotated[Texts | None, Parameter(name="--from")] = None,
    to: ScoresTo | None = None,
    verdicts: bool = False,
    why: bool = False,
    limit: Limit = None,
    shard: OneShard = None,
    dry_run: DryRun = False,
    asking: AskingOptions = AskingOptions(),
    scoring: MethodOptions = MethodOptions(),
    min_score: Annotated[float | None, Parameter(group="scoring")] = None,
    judge: Judges = Judges(),
    input: Input = Input(),
    tolerance: Tolerance = Tolerance(),
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

    Writes one row for each target and attribute, in the order of the targets: score, status (ok, partial or
    unscored), reason, raw (the paper's sum, within +-N(N+1)/2), unit (raw / its bound), n_rungs (with scale, of a
    ladder shorter than the others: its scores are on 1..scale), label_mass, signature. Where one rung between the
    worst and the best has no verdict, the score is partial: the middle of what its neighbours leave open. Where more
    have none, there is no score. In both cases low and high are the limits of what the score would be with all
    verdicts; they are given, too, where a server does not report all labels. A row that cannot be read or scored stays
    in its place, with a reason and no score. The exit code is 3 where a row is partial or unscored, and more are than
    --allow-unscored allows.

    With --scoring anchored the score is a position on the rung scale, by a model of the judge that is fitted
    to all answers, with a stderr and a 90 % interval (docs/anchored.md); with --scale FILE --adaptive each
    text is asked about only until it is clear enough (docs/adaptive.md). Several judges (--model A
    --model B) score together, with --scoring anchored: the mean of theirs (docs/jury.md).

    --method takes another way to a number: place asks about all rungs at once, direct and g-eval ask for a
    grade and need no ladders (docs/methods.md). The signature then says which scale the scores are on.

    Rows go to -o, or to stdout where that is a pipe or a file; on a terminal a table takes their place, of systems and
    attributes, with means, their 95 % intervals over contexts and counts (-o - prints rows there, too).
    Rows are read, scored and written some at a time, in little memory; with --scoring anchored and no
    --scale, and with several judges, all rows are held at once.

    Args:
        from_: the rows are a log of inspect, or samples that lm-eval wrote with --log_samples (docs/integrations.md)
        to: write records for inspect's precomputed_scores, or OpenTelemetry's events gen_ai.evaluation.result
        verdicts: also write a column verdicts: of every rung and order asked, [level, swapped, better, worse, similar]
        why: also ask, of each text, what it does better than the rung below it, and the rung above better than it, and
            write a column why: one question more, of a judge that writes; the score does not depend on it
        min_score: with --adaptive: the threshold
    """
    from ..integrations.formats import read_form, scores_to
    from ..io.files import read_items
    from ..io.scores import score_row
    from ..io.write import write_rows
    from ..scoring.run import Tally, score_rows
    from ..scoring.scorer import Scorer, find_criteria, ladder_scales
    from ..scoring.why import Explainer
    from ..thresholds.rules import check_threshold

    if min_score is not None and not scoring.adaptive:
        raise UsageError("--min-score changes nothing without --adaptive. Leave it out, or add that")
    if to and verdicts:
        raise UsageError(f"--verdicts is for rows of our own, and --to {to} writes others. Leave one of them out")
    for option, is_given in (("--verdicts", verdicts), ("--why", why)):
        if is_given and len(judge.models) > 1:
            raise UsageError(f"{option} is of one judge. Leave it out, or name one --model")
    if why and (to or on.references is None):
        raise UsageError("--why is about ladders, in rows of our own. Name --references, and leave --to out")
    method = scoring.make_method(asking, min_score, n_judges=len(judge.models), sharded=shard is not None)
    ladders = on.load_references("score", method)
    criteria = find_criteria(ladders, on.task, on.attribute)
    if min_score is not None and ladders is not None:
        check_threshold(min_score, method.limits(max(ladder_scales(ladders, criteria))))
    rows: Any = list(read_form(targets, from_, input.encoding)) if from_ else targets
    only = shard.owns if shard else None
    batches = read_items(rows, encoding=input.encoding, fields=input.fields, limit=limit, only=only)
    tally = Tally()
    overview = None
    if output is None and not (to or verdicts or why or dry_run) and is_terminal():
        overview = Overview()

    scorers: list[Scorer] = []  # one a judge, from when `score_rows` makes it

    def make_scorer(engine: Engine) -> Scorer:
        scorers.append(Scorer(ladders, engine, task=on.task, attribute=on.attribute, asking=asking, method=method))
        return scorers[-1]

    def explain(part: ScoredBatch, judges: OpenJudges) -> Iterator[str | None]:
        """The column why: of each score of a part. Only once the part was scored."""
        assert ladders is not None
        (scorer,) = scorers
        reasons = Explainer(ladders, scorer.judge, on.task).explain(part, judges.progress)
        return chain.from_iterable(reasons)

    def make_rows(judges: OpenJudges) -> Iterator[Mapping[str, Any]]:
        """Score part after part, and count them in the tally; the rows to write, none where there is an overview."""
        parts = score_rows(batches, judges.judges, make_scorer, planned=judges.planned, progress=judges.progress)
        for part in parts:
            tally.add(part.scored, method)
            if overview is not None:
                overview.add(part)
                continue
            rows = (score_row(score, signature, verdicts=verdicts) for score, signature in part.scored)
            if why:
                rows = ({**row, "why": reason} for row, reason in zip(rows, explain(part, judges), strict=True))
            yield from rows

    with OpenJudges(judge, messages, dry_run=dry_run) as asked:
        if dry_run:
            exhaust(make_rows(asked))
            print(*asked.cost, sep="\n")
            return OK
        if overview is not None:
            exhaust(make_rows(asked))
        else:
            made = make_rows(asked)
            write_rows(scores_to(made, to) if to else made, output or "-")
    if overview is not None:
        print(*map(visible, overview.lines()), sep="\n", flush=True)
    statuses = tally.counts.statuses
    if not statuses and not shard:
        messages.warn(f"{targets} holds no rows")
    tell_scores(tally, asking, scoring, asked, messages)
    if statuses["unscored"] == statuses.total() > 0:
        messages.warn("nothing could be scored")
        return ERROR
    return tolerance.exit_code(statuses.total() - statuses["ok"], statuses.total())


def exhaust(rows: Iterable[Any]) -> None:
    """Go through rows that are made on the way, for what making them does."""
    for _ in rows:
        pass


# ------------------------------------------------------------------------------------------------- what is reported


def tell_scores(
    tally: Tally, asking: Asking, scoring: ScoringOptions, asked: OpenJudges, messages: Messages, *decided: str
) -> None:
    """What became of the rows, and of the judges' scales, which are saved where that is asked for.

    decided : lines on what was made of the scores
    """
    from ..scoring.anchored import Scales

    if scoring.save_scale:
        Scales(tally.scales).save(scoring.save_scale)
    if tally.leaning.words:
        messages.warn(tally.leaning.words)
    for drift in tally.drifts:
        if drift.holds or drift.verdict == "unknown":
            messages.note(drift.words)
        else:
            messages.warn(drift.words)
    lines = [asked_line(asking, tally.counts)]
    for status, why in (("partial", tally.why_partial), ("unscored", tally.why_unscored)):
        if tally.counts.statuses[status]:
            lines += [f"{status}:", *why.lines()]
    lines += [*decided, *judge_lines(tally.scales)]
    lines += jury_lines({(attribute, f"{n} rungs"): jury for (_, attribute, n), jury in tally.juries.items()})
    messages.note(*lines, *asked.cost, signature=str(tally.signature))


def asked_line(asking: Asking, counts: Counts) -> str:
    """What was asked and what came of it.

    "20 targets x 5 rungs = 100 questions" where the product explains the number, else "20 targets, 2 attributes: 180
    questions"; then how many scores there are.
    """
    factors = {"target": counts.n_targets, "attribute": counts.n_attributes, "rung": counts.n_rungs}
    factors |= {"order": asking.n_orders, "side": asking.n_sides}
    asked = counted(counts.n_questions, "question")
    targets = counted(counts.n_targets, "target")
    if counts.n_targets < counts.n_rows:  # the others could not be asked about
        targets = f"{spaced(counts.n_targets)} of {counted(counts.n_rows, 'target')}"
    if counts.n_questions and math.prod(factors.values()) == counts.n_questions:
        others = [counted(n, noun) for noun, n in factors.items() if noun == "rung" or (n > 1 and noun != "target")]
        asked = f"{' x '.join([targets, *others])} = {asked}"
    else:
        asked = f"{targets}, {counted(counts.n_attributes, 'attribute')}: {asked}"
    if full := counts.n_full:
        saved = f"{100 - 100 * counts.n_in_rounds / full:.0f} % saved"
        asked += f", {spaced(counts.n_in_rounds)} of {spaced(full)} about texts ({saved})"
    line = f"{asked}; {spaced(counts.statuses['ok'])} scored"
    for status in ("partial", "unscored"):
        if counts.statuses[status]:
            line += f", {spaced(counts.statuses[status])} {status}"
    if counts.n_unmet:
        line += f"; the rule is not met by {counted(counts.n_unmet, 'score')} on which all was asked"
    return line


def judge_lines(scales: Sequence[Scale]) -> Iterator[str]:
    """What each judge is like, by the scales that it was fitted for."""
    models = {scale.signature.part("model") for scale in scales}
    for scale in scales:
        name = f"{scale.attribute}, {scale.n_rungs} rungs"
        if len(models) > 1:
            name = f"{scale.signature.part('model')}: {name}"
        if scale.useless:
            yield f"{name}: {scale.useless}"
        else:
            yield from _describe_judge(name, scale)


def _describe_judge(name: str, scale: Scale) -> Iterator[str]:
    judge = scale.judge
    sharpness = f"judge tells {judge.discrimination:.2f} nats a rung"
    yield f"{name}: {sharpness}, {_describe_ties(judge)}; {_describe_bias(judge)}"
    shift, stretch, uneven = judge.rung_sd
    ladders = (
        f"  {judge.n_ladders} ladders: single rungs are off by {uneven:.2f}; their lengths differ by "
        f"{100 * stretch:.0f} %, or the judge's sharpness by {100 * judge.sharpness_sd:.0f} % (texts tell one from "
        f"the other to {100 * judge.sharpness_told:.0f} %, the rest is shared); what sets contexts apart: ladders "
        f"{shift:.2f}, texts {judge.context_sd:.2f} rungs"
    )
    if not judge.converged:
        ladders += "; the fit did NOT converge"
    yield ladders
    if not judge.noise_known:
        yield "  the answers are too few to tell how noisy they are: the usual noise is assumed"
    yield (
        f"  correlation of the noise: {judge.pair_correlation:.2f} between answers about the same two texts, "
        f"{judge.rung_correlation:.2f} between those about neighbouring rungs"
    )
    if scale.falling:
        yield (
            f"  the judge puts {scale.falling_words} upside down: look at these ladders (references check). "
            "Texts are placed on them as they are seen"
        )
    bias_in_rungs = judge.bias_sd / judge.discrimination
    if scale.signature.part("orders") == "1" and bias_in_rungs >= 0.1:
        yield (
            f"  the position bias differs by {judge.bias_sd:.2f} nats from text to text, in one order a score "
            f"by {bias_in_rungs:.2f} rungs: the errors count that, and --both-orders takes it out"
        )


def _describe_ties(judge: JudgeModel) -> str:
    similar = judge.probs(np.array(0.0))[2]
    if not similar:
        return "no ties"
    return f"{100 * similar:.0f} % similar for equal texts"


def _describe_bias(judge: JudgeModel) -> str:
    if not judge.bias_known:
        return "position bias not known (one order, no rungs against rungs), taken as 0"
    better, worse, _ = judge.probs(np.array(judge.position_bias))
    return f"position bias {judge.position_bias:+.2f} nats (better {better:.2f}, worse {worse:.2f} for equal texts)"


def jury_lines(juries: Mapping[tuple[str, ...], Jury]) -> Iterator[str]:
    """juries : by what they were asked on"""
    for question, jury in juries.items():
        n_judges = sum(map(len, jury.votes)) + len(jury.left_out)
        named = ", ".join(" + ".join(vote) for vote in jury.votes)
        about = f" on {'/'.join(question)}" if question else ""
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
