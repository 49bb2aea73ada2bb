"""`synthscore compare`: candidates and a judge -> comparisons of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from cyclopts import Parameter

from ..ranking import ComparisonSets, Selection
from .messages import ERROR, OK, Messages, UsageError, counted, reasons, usage
from .options import (
    Answering,
    AnyTask,
    Attributes,
    DryRun,
    Input,
    Judges,
    Limit,
    OneShard,
    RowsIn,
    RowsOut,
    Seed,
    Tolerance,
    Whole,
    warn_of_nano,
)


@Parameter(name="*", group="judging")
@dataclass(frozen=True, kw_only=True)
class ComparingOptions(Answering):
    """What a judge is asked about candidates."""

    task: AnyTask = None
    "task, or folder with a task.toml"
    attribute: Attributes = None
    "what texts are compared on; may be repeated"
    contexts: str | None = None
    "file of the contexts (default: column context of the candidates)"
    limit: Limit = None
    shard: OneShard = None
    dry_run: DryRun = False
    protocol: Literal["choose", "compare", "yes_no"] | None = None
    "choose: A or B; compare: Better, Worse or Similar (default: compare for --method bt-ties, else choose)"
    budget: Whole | None = None
    "questions about each context and attribute, on pairs that tell most; a pair in both orders is two (default: all)"
    orders: Literal["both", "one"] = "both"
    "ask about a pair in both, or in one that a coin decides"

    def ask(
        self,
        candidates: str,
        judges: Judges,
        seed: int,
        input: Input,
        messages: Messages,
    ) -> tuple[ComparisonSets, list[str]]:
        """The answers of one or more judges about the candidates of a file; and in words, what was asked, or would be.

        raises : UsageError for options that contradict each other
        """
        from ..ranking import compare

        if not self.task or not self.attribute:
            raise UsageError("a judge has to be told what to compare texts on. Add --task TASK and --attribute NAME")
        with usage():
            selection = Selection(self.budget, self.orders, seed)
            asking = self.asking(self.protocol or "choose")
        asked_of: dict[str, ComparisonSets] = {}
        cost: list[str] = []
        warn_of_nano(judges.model, messages)
        for model in judges.models:
            with judges.open(model, messages, dry_run=self.dry_run) as engine:
                asked_of[model] = compare(
                    candidates,
                    engine,
                    task=self.task,
                    attribute=self.attribute,
                    selection=selection,
                    contexts=self.contexts,
                    limit=self.limit,
                    only=self.shard.owns if self.shard else None,
                    asking=asking,
                    encoding=input.encoding,
                    fields=input.fields,
                )
                cost += engine.cost
        if self.dry_run:
            return asked_of[model], cost
        sets = ComparisonSets.of_judges(asked_of) if len(asked_of) > 1 else asked_of[model]
        n_candidates = sum(calls.n_candidates for calls in sets.sets.values())
        n_calls = sum(len(calls) for calls in sets.sets.values())
        asked = f"{counted(len(sets.sets), 'ranking')} of {counted(n_candidates, 'candidate')}"
        lines = [f"{asked}: {counted(n_calls + len(sets.failures), 'call')} ({selection}), {n_calls} answered"]
        lost = Counter(failure.group for failure in sets.failures)
        budget = self.budget or 0
        n_small = sum(len(calls) + lost[group] < budget for group, calls in sets.sets.items())
        if n_small:
            lines.append(f"{counted(n_small, 'ranking')} cannot have {self.budget} calls: all there are were asked")
        if sets.failures:
            lines += ["not answered:", *reasons(failure.reason for failure in sets.failures)]
        return sets, [*lines, *cost]


def compare(
    candidates: RowsIn,
    /,
    *,
    output: RowsOut = "-",
    judging: ComparingOptions = ComparingOptions(),
    seed: Seed = 0,
    judge: Judges = Judges(),
    input: Input = Input(),
    tolerance: Tolerance = Tolerance(),
    messages: Messages = Messages(),
) -> int:
    """Texts compared with each other by a judge -> comparisons.

    For example:
      $ synthscore compare candidates.jsonl --task summarization -a coherence -o comparisons.jsonl
      $ synthscore compare candidates.jsonl --task summarization -a coherence --budget 48 > comparisons.jsonl

    Asks a judge which of two candidates is better: rows with context_id, text and context (or
    --contexts FILE), and maybe id and system; those of one context are compared with each other.
    Writes one row for each answer: context_id, attribute, of several judges judge, first and second
    (ids, in the order shown), the natural-log probabilities log_p_first, log_p_second and log_p_tie,
    weight, signature: what `synthscore rank --comparisons` takes. The exit code is
    3 where more rows could not be read, or questions were not answered, than --allow-unscored allows.
    """
    sets, lines = judging.ask(candidates, judge, seed, input, messages)
    if judging.dry_run:
        print(*lines, sep="\n")
        return OK
    sets.save(output)
    if sets.left_out:
        lines += ["left out:", *reasons(each.reason for each in sets.left_out)]
    messages.note(*lines, signature=str(sets.signature))
    if not sets.sets and not judging.shard:
        messages.warn("nothing could be compared")
        return ERROR
    return tolerance.exit_code(sets.n_open, sets.n_open + sets.n_answers)
