"""Texts + a judge -> comparisons: chooses the questions, and keeps the answers. The one module of ranking that asks a
model.

    >>> sets = compare("candidates.jsonl", engine, task="summarization", attribute="coherence")
    >>> sets.save("comparisons.jsonl")

A `PairJudge` answers calls of many problems at a time.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ..engine import Engine
from ..errors import InputError, SynthscoreWarning
from ..io.contexts import add_context, read_contexts
from ..io.fields import Item, Row, make_row, row_error
from ..io.files import Source, read_items, some_contexts
from ..judging.asking import Asking, Pair, ask
from ..judging.templates import Templates, load_task
from ..signature import Signature, seeded_rng
from ..types import Context, FloatArray, IntArray, Target, Task, same_context
from .comparisons import Comparisons
from .designs import Selection
from .sets import GROUPS, ComparisonSets, Group, LeftOut, Unanswered

PROTOCOLS = ("choose", "compare", "yes_no")
"""Those whose answers about a pair are probabilities that sum to 1."""

Call = tuple[int, int, int]
"""Problem, text shown first, text shown second: indices."""

_PROBE = Context("probe", "<context>")


def compare(
    candidates: Source,
    judge: Engine | str,
    *,
    task: Task | str | Path,
    attribute: str | Sequence[str],
    selection: Selection = Selection(),
    contexts: Source | None = None,
    limit: int | None = None,
    only: Callable[[str], bool] | None = None,
    asking: Asking = Asking("choose"),
    encoding: str = "utf-8",
    fields: Mapping[str, str] | None = None,
) -> ComparisonSets:
    """A judge's comparisons of candidates for the same context, a set for each context and attribute.

    candidates : rows with context_id, text, and context unless `contexts` holds them; maybe id and system
    judge : an engine, or the name of a model (open_judge: behind the default store)
    limit : only candidates of so many contexts (io.contexts.some_contexts)
    only : whether a context, by its id, is wanted
    task : one of synthscore.task_names(), or a folder with a task.toml. attribute : one of its, or several
    warns : SynthscoreWarning for a row of `contexts` that holds none
    raises : TaskError, TemplateError, LabelError, EngineError; InputError for a source that cannot be read at all
    """
    from ..engines import open_judge

    if not isinstance(task, Task):
        task = load_task(task)
    if isinstance(attribute, str):
        attribute = [attribute]
    attributes = [task.attribute(name).name for name in dict.fromkeys(attribute)]
    known: dict[str, Context] = {}
    if contexts is not None:
        read, errors = read_contexts(contexts, encoding=encoding)
        known = {context.id: context for context in read}
        for error in errors:
            warnings.warn(str(error), SynthscoreWarning, stacklevel=2)
    by_context: dict[str, list[Target]] = {}
    left_out: list[LeftOut] = []
    for batch in read_items(candidates, encoding=encoding, fields=fields):
        for item in batch.items:
            try:
                target = _candidate(item, known, add=contexts is None, fields=fields)
                by_context.setdefault(target.context_id, []).append(target)
            except InputError as error:
                names = {"id": item.id, "context_id": item.context_id, "attribute": item.attribute}
                known_names = {name: value for name, value in names.items() if value}
                left_out.append(LeftOut(known_names, str(error)))
    problems = []
    taken = some_contexts(by_context, limit)
    wanted = [name for name in by_context if name in taken and (only is None or only(name))]
    for context_id in wanted:
        targets = by_context[context_id]
        for name in attributes:
            if len(targets) > 1:
                problem = Problem(
                    context=known[context_id],
                    attribute=name,
                    ids=tuple(target.id for target in targets),
                    texts=tuple(target.text for target in targets),
                )
                problems.append(problem)
            else:
                alone = {"id": targets[0].id, "context_id": context_id, "attribute": name}
                reason = "it is the only candidate of its context, expected at least 2 to compare"
                left_out.append(LeftOut(alone, reason))
    pair_judge = PairJudge(problems, open_judge(judge), Templates(task, asking.prompts), asking)
    return ask_judge(pair_judge, selection, left_out)


def _candidate(item: Item, known: dict[str, Context], *, add: bool, fields: Mapping[str, str] | None) -> Target:
    """The candidate that a row holds.

    known : contexts by id. add : the row holds the text of its context, which is added to these
    raises : InputError
    """
    target = item.require_target()
    row = item.row
    assert isinstance(row, Row)
    if add:
        renamed = make_row(row.number, row.values, row.source, fields or {})
        assert isinstance(renamed, Row)
        add_context(known, renamed)
    elif item.context_id not in known:
        problem = f"its context {item.context_id!r} is not in the file of contexts"
        raise row_error(row, "id", item.id, problem, "Mend or remove the row")
    elif item.context and not same_context(item.context, known[item.context_id].text):
        problem = f"its context {item.context_id!r} has another text in the file of contexts: {item.context[:40]!r}"
        raise row_error(row, "context", item.context, problem, "Give its context an id of its own")
    return target


def ask_judge(judge: PairJudge, selection: Selection, left_out: Sequence[LeftOut] = ()) -> ComparisonSets:
    """The judge's comparisons of the calls that are selected. A problem that the budget cannot connect is left out."""
    problems = judge.problems
    refused = list(left_out)
    chosen: dict[int, IntArray] = {}
    for index, problem in enumerate(problems):
        try:
            chosen[index] = selection.calls(len(problem.ids), problem.rng(selection.seed))
        except InputError as error:
            names = dict(zip(GROUPS, problem.group, strict=True))
            refused += [LeftOut({"id": text, **names}, str(error)) for text in problem.ids]
    all_calls: list[Call] = []
    for index, calls in chosen.items():
        all_calls += [(index, first, second) for first, second in calls.tolist()]
    judge(all_calls)
    signature = judge.signature.with_(selection=selection)
    answered = judge.comparisons()
    sets = {problems[index].group: replace(answered[index], signature=signature) for index in chosen}
    return ComparisonSets(by=GROUPS, sets=sets, left_out=tuple(refused), failures=tuple(judge.failures))


@dataclass(frozen=True, slots=True)
class Problem:
    """Two texts or more, for one context, to be put in order on one attribute."""

    context: Context
    attribute: str
    ids: tuple[str, ...]
    texts: tuple[str, ...]

    @property
    def group(self) -> Group:
        """The values of the columns GROUPS, by which its comparisons are told from other problems'."""
        return self.context.id, self.attribute

    def rng(self, seed: int) -> np.random.Generator:
        """For random choices about this problem, which do not depend on other problems."""
        return seeded_rng(seed, self.context.id, self.attribute)


class PairJudge:
    """Answers calls about problems by asking an engine, and keeps what was answered.

    asking : its protocol is "choose" (which text is better?), "compare" (better, worse or similar, which bt-ties uses)
        or "yes_no". The template decides whether the target of synthscore.judging.asking is the text shown first or
        second. Each call has its own order, so that both_orders is False
    failures : calls without an answer, so far
    """

    def __init__(
        self,
        problems: Sequence[Problem],
        engine: Engine,
        templates: Templates,
        asking: Asking = Asking("choose"),
    ) -> None:
        if asking.protocol not in PROTOCOLS or asking.both_orders:
            raise InputError(
                f"cannot ask about pairs of candidates with {asking}: expected both_orders=False, since each call says "
                f"its order, and one of the protocols {', '.join(PROTOCOLS)}. Take one of them",
                field="asking",
                value=asking,
            )
        self.problems = tuple(problems)
        asking = replace(asking, both_orders=False)
        self.engine = engine
        self.templates = templates
        self.asking = asking
        self.failures: list[Unanswered] = []
        self._answered: list[list[tuple[int, int, FloatArray, float]]] = [[] for _ in problems]
        self._target_first = _target_first(templates, asking.protocol)
        self.signature: Signature = asking.signature(engine, templates, task=templates.task.name)

    def __call__(self, calls: Sequence[Call]) -> FloatArray:
        """log P(first is better), log P(second is better), log P(similar), nats, shape (k, 3); NaN: no answer.

        raises : TemplateError, TaskError, LabelError
        """
        # Sorted, so that neighbouring prompts share their beginning: the context, then the text that is shown first.
        order = sorted(range(len(calls)), key=calls.__getitem__)
        pairs = [self._pair(*calls[row]) for row in order]
        verdicts = ask(pairs, self.engine, self.templates, self.asking)
        first_better = verdicts.better
        second_better = verdicts.worse
        if not self._target_first:
            first_better, second_better = second_better, first_better
        probs = np.stack([first_better, second_better, verdicts.similar], axis=1)
        answers = np.empty((len(calls), 3))
        with np.errstate(divide="ignore"):
            answers[order] = np.log(probs)
        n_samples = np.empty(len(calls))
        n_samples[order] = verdicts.n_samples[0]
        reasons = {order[pair]: reason for pair, reason in verdicts.failures.items()}
        answers[list(reasons)] = np.nan
        for row, (index, first, second) in enumerate(calls):
            if row in reasons:
                problem = self.problems[index]
                failure = Unanswered(problem.group, problem.ids[first], problem.ids[second], reasons[row])
                self.failures.append(failure)
            else:
                self._answered[index].append((first, second, answers[row], float(n_samples[row])))
        return answers

    def _pair(self, index: int, first: int, second: int) -> Pair:
        problem = self.problems[index]
        target = second
        reference = first
        if self._target_first:
            target, reference = reference, target
        return Pair(problem.context, problem.attribute, problem.texts[target], problem.texts[reference])

    def comparisons(self) -> list[Comparisons]:
        """The answers so far, one set for each problem, in the order in which they were asked."""
        sets = []
        for problem, answered in zip(self.problems, self._answered, strict=True):
            firsts = [first for first, _, _, _ in answered]
            seconds = [second for _, second, _, _ in answered]
            log_probs = [answer for _, _, answer, _ in answered]
            counts = np.array([n_samples for _, _, _, n_samples in answered], dtype=np.float64)
            sampled = np.isfinite(counts)
            calls = Comparisons(
                ids=problem.ids,
                first=np.array(firsts, dtype=np.int64),
                second=np.array(seconds, dtype=np.int64),
                log_probs=np.array(log_probs).reshape(-1, 3),
                weights=np.where(sampled, counts, 1.0),
                signature=self.signature,
                n_samples=counts if sampled.any() else None,
            )
            sets.append(calls)
        return sets


def _target_first(templates: Templates, protocol: str) -> bool:
    """Whether the template shows the target before the reference."""
    attribute = next(iter(templates.task.attributes.values()))
    texts = {"target": "<target>", "reference": "<reference>"}
    if protocol == "choose":
        prompt = templates.choose(_PROBE, attribute, first=texts["reference"], second=texts["target"])
    else:
        make_prompt = templates.compare if protocol == "compare" else templates.yes_no
        prompt = make_prompt(_PROBE, attribute, **texts)
    return prompt.text.find(texts["target"]) < prompt.text.find(texts["reference"])
