"""`synthscore evaluate`: scores or methods, and people's ratings -> how far they agree."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from ..errors import InputError
from ..judging.asking import Asking
from .messages import ERROR, OK, Messages, UsageError, Watched, exit_code
from .messages import table as as_table
from .options import (
    JUDGE,
    AnyTask,
    Attributes,
    DryRun,
    FileIn,
    Input,
    LaddersIn,
    Limit,
    Opening,
    Output,
    name_judges,
    warn_of_nano,
)
from .panels import FIRST

if TYPE_CHECKING:
    from ..evaluation import Evaluation, Settings
    from ..evaluation.join import Joined
    from ..evaluation.judges import JudgedMethod
    from ..evaluation.methods import SetMethod, Tools
    from ..evaluation.ratings import Ratings

Level = Literal["per_context", "pooled", "system"]
Statistic = Literal["spearman", "pearson", "kendall"]
"""As in evaluation/, which is not loaded where only help is shown."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class PeopleOptions:
    """The ratings that scores are compared with, and what is taken of them."""

    human: str | None = None
    "people's ratings: rows with id, or context_id and system; human"
    benchmark: str | None = None
    "its name; --list prints those that are installed"
    data: str | None = None
    "folder that the files of the benchmarks lie in"
    attribute: Attributes = None
    "may be repeated (default: all)"
    limit: Limit = None

    def load(self, reading: Input, task: str | None) -> Ratings:
        """The ratings of the benchmark, or of the file. task : of the texts of the file; None: none"""
        from ..evaluation.benchmarks import load_benchmark
        from ..evaluation.ratings import Ratings

        if self.benchmark:
            return load_benchmark(self.benchmark, self.data or "")
        fields = {name: column for name, column in reading.fields.items() if name != "score"}
        attribute = None
        if self.attribute and len(self.attribute) == 1:
            attribute = self.attribute[0]
        return Ratings.load(
            self.human or "",
            encoding=reading.encoding,
            fields=fields,
            task=task or "",
            attribute=attribute,
        )

    def join(self, ratings: Ratings, scores: str, reading: Input, attributes: Sequence[str]) -> Joined:
        """Rows of scores, beside the ratings; where there are ratings of one attribute, they are about that."""
        from ..evaluation.join import join

        columns = reading.fields
        if self.human:  # The other columns that were named belong to the ratings.
            columns = {field: column for field, column in columns.items() if field == "score"}
        only = attributes[0] if len(attributes) == 1 else None
        return join(ratings, scores, encoding=reading.encoding, fields=columns, attribute=only)


@Parameter(name="*", group="methods")
@dataclass(frozen=True, kw_only=True)
class EvaluatedMethods:
    """The methods that are run, and what they may ask for."""

    task: AnyTask = None
    "of the texts of --human, to run methods that ask a judge"
    names: Annotated[str | None, Parameter(name="--methods", group=FIRST)] = None
    """names, with commas between and options as NAME:OPTION=VALUE; see --list and docs/baselines.md (default
    without SCORES: length,overlap,copied-span,type-token-ratio, and with --references ladder)"""
    references: LaddersIn = None
    "the ladders, folder or hub id"
    revision: str | None = None
    "commit, tag or branch of a hub dataset"
    ladder: str | None = None
    """id of the context whose ladder methods with ladders=shared, or that say nothing of ladders, compare all texts
    with"""
    prompts: str = "default"
    "template set, or a folder of your own"

    def specs(self, scores: str | None) -> list[str]:
        """The methods, each once. raises : MethodError"""
        from ..evaluation.methods import split_methods
        from ..evaluation.methods.floors import FLOORS

        if self.names:
            return list(dict.fromkeys(split_methods(self.names)))
        if scores:
            return []
        return [*FLOORS, "ladder"] if self.references else list(FLOORS)

    def tools(self) -> Tools:
        """What methods may ask for besides a judge."""
        from ..evaluation.methods import Tools
        from ..ladders.references import References

        ladders = None
        if self.references:
            ladders = References.load(self.references, revision=self.revision)
            if self.ladder is not None:
                ladders = ladders.share(self.ladder)
        return Tools(references=ladders, asking=Asking(prompts=self.prompts))


@Parameter(name="*", group="figures")
@dataclass(frozen=True, kw_only=True)
class FigureOptions:
    """The figures that are computed."""

    level: list[Level] | None = None
    "may be repeated (default: per_context and pooled; in JSON and -o all)"
    statistic: list[Statistic] | None = None
    "may be repeated (default: spearman; in JSON and -o all)"
    good_from: float | None = None
    """the least rating of a good text, for AUC at the level pooled: the probability that a good text scores higher than
    another, of any context (default: of each attribute the rating that splits its texts most evenly)"""
    against: str | None = None
    "the differences from this method, with intervals; SCORES go by their name"

    @property
    def shown_levels(self) -> Sequence[Level]:
        """Those that tables are printed of."""
        return self.level or ["per_context", "pooled"]

    @property
    def shown_statistics(self) -> Sequence[Statistic]:
        return self.statistic or ["spearman"]

    def settings(self, *, every_figure: bool) -> Settings:
        """every_figure : compute all levels and statistics where none are chosen; or else those that are shown"""
        from ..evaluation import Settings
        from ..evaluation.agreement import LEVELS
        from ..evaluation.correlation import STATISTICS

        levels, statistics = self.shown_levels, self.shown_statistics
        if every_figure:
            levels = self.level or LEVELS
            statistics = self.statistic or STATISTICS
        if self.good_from is not None and "pooled" not in levels:
            raise UsageError("--good-from changes nothing without --level pooled. Leave it out, or add that")
        return Settings(levels=levels, statistics=statistics, against=self.against or "", good_from=self.good_from)


def evaluate(
    scores: FileIn | None = None,
    /,
    *,
    output: Output | None = None,
    json_: Annotated[bool, Parameter(name="--json")] = False,
    list_: Annotated[bool, Parameter(name="--list")] = False,
    people: PeopleOptions = PeopleOptions(),
    dry_run: DryRun = False,
    methods: EvaluatedMethods = EvaluatedMethods(),
    figures: FigureOptions = FigureOptions(),
    model: Annotated[
        list[str] | None, Parameter(name=["--model", "-m"], group=FIRST, help=f"{JUDGE}; may be repeated")
    ] = None,
    reading: Input = Input(),
    opening: Opening = Opening(),
    messages: Messages = Messages(),
) -> int:
    """Scores or methods -> how far they agree with people.

    For example:
      $ synthscore evaluate scores.jsonl --human ratings.jsonl
      $ synthscore evaluate scores.jsonl --human ratings.jsonl --methods length,overlap --against scores --json
      $ synthscore evaluate --human ratings.jsonl --task summarization --methods length,g-eval --model M -o run/
      $ synthscore evaluate --list

    How far scores agree with people: rank correlations inside each context, over all texts and over systems,
    each with its interval over contexts. Scores come from a file, as `synthscore score` writes it, whose rows
    are joined to the ratings on id, or on context_id and system; or from methods, which are run here. Ratings
    come from a file with id (or context_id and system) and human; or are those of a benchmark that an installed
    package reads, whose files lie in a folder of yours.

    What a model answered is in its store, so that the same command run again asks nothing. The exit code is 3
    where a text could not be scored, or a row could not be used.

    Args:
        scores: rows with score, attribute, and id or context_id and system
        output: folder for scores, ratings and figures, of which `synthscore report` makes a page
        json_: print JSON instead of tables
        list_: print the methods and benchmarks there are
    """
    from ..evaluation import evaluate as evaluate_methods
    from ..evaluation.judges import pair_with_judges
    from ..evaluation.methods import uses
    from ..evaluation.run import choose_attributes, require_method
    from . import agreeing

    if list_:
        print("\n".join(_list()))
        return OK
    specs = methods.specs(scores)
    scores_name = _name_of_scores(scores)
    _refuse_contradictions(specs, scores_name, scores, people, methods, model)

    asks_a_judge = any("judge" in uses(spec) for spec in specs)
    judges = name_judges(model) if asks_a_judge else ()
    judged = pair_with_judges(specs, judges)
    settings = figures.settings(every_figure=bool(json_ or output))
    require_method(settings.against, [scores_name, *judged] if scores_name else judged)

    all_ratings = people.load(reading, methods.task)
    ratings = all_ratings.limited(people.limit)
    attributes = choose_attributes(ratings, people.attribute)
    compared: dict[str, SetMethod] = {}
    left_out: list[str] = []
    some_rows_unused = bool(people.human and all_ratings.left_out)
    if scores:
        joined = people.join(all_ratings, scores, reading, attributes)
        some_rows_unused |= bool(joined.left_out)
        left_out = list(joined.left_out)
        without = [attribute for attribute in attributes if attribute not in joined.scores]
        if without and people.attribute:
            there = ", ".join(joined.scores)
            raise InputError(
                f"{scores} holds no scores on {without[0]}, only on {there}. Leave it out of --attribute",
                value=without[0],
            )
        if without:
            left_out.append(f"{', '.join(without)}: {scores} holds no scores")
        # Never empty: join() refuses rows of which none is about a rated attribute.
        attributes = tuple(attribute for attribute in attributes if attribute in joined.scores)
        compared[scores_name] = joined

    tools = methods.tools()
    if judges:
        warn_of_nano(model, messages)
    with ExitStack() as stack:
        engines = {judge: stack.enter_context(opening.open(judge, messages, dry_run=dry_run)) for judge in judges}
        if dry_run or not messages.quiet:
            _announce_questions(ratings, attributes, judged, tools, engines, dry_run=dry_run)
        if dry_run:
            print(*(_costs(engines) or ["no judge is asked"]), sep="\n")
            return OK
        compared |= {label: method.asking(engines) for label, method in judged.items()}
        bar = stack.enter_context(messages.bar(len(compared) * len(attributes), "methods x attributes"))
        evaluation = evaluate_methods(
            ratings,
            compared,
            tools,
            attributes=attributes,
            left_out=left_out,
            settings=settings,
            progress=lambda *_: bar(1),
        )
        costs = _costs(engines)

    if output:
        evaluation.save(output)
    if json_:
        print(json.dumps(_as_json(evaluation, scores_name), ensure_ascii=False, allow_nan=False))
    else:
        print("\n".join(agreeing.lines(evaluation, figures.shown_levels, figures.shown_statistics)))
    messages.note(*costs, signature="\n".join(agreeing.signatures(evaluation)))
    return _exit_code(evaluation, messages, all_rows_used=not some_rows_unused)


# ------------------------------------------------------------------------------------------------- options


def _name_of_scores(scores: str | None) -> str:
    """What a file of scores is called in tables; "" where there is none."""
    if not scores:
        return ""
    return "stdin" if scores == "-" else Path(scores).name.split(".")[0]


def _refuse_contradictions(
    specs: Sequence[str],
    scores_name: str,
    scores: str | None,
    people: PeopleOptions,
    methods: EvaluatedMethods,
    model: Sequence[str] | None,
) -> None:
    """raises : UsageError for the first options that contradict each other"""
    from ..evaluation.methods import uses

    asking = [spec for spec in specs if "judge" in uses(spec)]
    using_ladders = [spec for spec in specs if "references" in uses(spec)]
    if model and not asking:
        raise UsageError("--model does nothing: none of the methods asks a judge. Leave it out, or name one that does")
    if methods.references and not using_ladders:
        raise UsageError(
            "--references does nothing: none of the methods uses ladders. Leave it out, or name one that does"
        )
    if methods.ladder and not methods.references:
        raise UsageError(f"--ladder {methods.ladder} names one of --references, and there are none. Name them, too")
    if using_ladders and not methods.references:
        raise UsageError(f"{', '.join(using_ladders)} needs ladders. Name them: --references FOLDER")
    if methods.prompts != "default" and not asking:
        raise UsageError(f"--prompts {methods.prompts} does nothing: none of the methods asks a judge. Leave it out")
    if people.human and people.benchmark:
        raise UsageError("both of --human and --benchmark are given. Name one of them")
    if not people.human and not people.benchmark:
        raise UsageError("neither of --human and --benchmark is given. Name one of them")
    if bool(people.benchmark) != bool(people.data):
        raise UsageError("--benchmark and --data go together. Name the folder that its files are in")
    if methods.task and people.benchmark:
        raise UsageError(
            f"--task {methods.task} does nothing with --benchmark {people.benchmark}, which has one. Leave it out"
        )
    if scores_name in specs:
        raise UsageError(f"{scores} and a method are both called {scores_name}. Rename the file")


# ------------------------------------------------------------------------------------------------- judges


def _announce_questions(
    ratings: Ratings,
    attributes: Sequence[str],
    judged: Mapping[str, JudgedMethod],
    tools: Tools,
    engines: Mapping[str, Watched],
    *,
    dry_run: bool,
) -> None:
    """Announce how many questions each judge will be asked. Nothing is asked yet.

    The questions about the first attribute, times the number of attributes, stand for all, since every attribute has as
    many. A dry run, which also plans the costs, counts those about each.

    attributes : one or more
    """
    from ..evaluation.judges import ask_nothing
    from ..store.engine import QuestionCounter

    sample = attributes if dry_run else attributes[:1]
    for judge, engine in engines.items():
        asking = [method.method for method in judged.values() if method.judge == judge]
        counter = engine.plan or QuestionCounter.replacing(engine.engine)
        ask_nothing(asking, ratings, sample, replace(tools, judge=counter.front))
        n_an_attribute = counter.n_questions // len(sample)
        engine.announce(counter.scaled_to(n_an_attribute * len(attributes)))


def _costs(engines: Mapping[str, Watched]) -> list[str]:
    return [line for engine in engines.values() for line in engine.cost]


# ------------------------------------------------------------------------------------------------- printing


def _exit_code(evaluation: Evaluation, messages: Messages, *, all_rows_used: bool) -> int:
    """ERROR, with a warning, where no text has a score; else whether all rows were used and all texts scored."""
    statuses = {score.status for column in evaluation.scores.values() for score in column}
    if statuses <= {"unscored"}:
        messages.warn("nothing could be scored")
        return ERROR
    return exit_code(all_rows_used and statuses == {"ok"})


def _as_json(evaluation: Evaluation, scores_name: str) -> dict[str, Any]:
    """The figures. Of a file of scores alone, its attributes are at the top, and "about" has all else."""
    figures = evaluation.to_json()
    if evaluation.methods != (scores_name,) or "about" in evaluation.attributes:  # an attribute of the name of our key
        return figures
    figures_of_file = figures.pop("methods")[scores_name]
    attributes = figures_of_file.pop("attributes")
    return {**attributes, "about": {"method": scores_name, **figures_of_file, **figures}}


def _list() -> Iterator[str]:
    from ..evaluation.benchmarks import benchmarks
    from ..evaluation.methods import method_kinds

    yield "methods (docs/baselines.md):"
    kinds = [(name, ", ".join(kind.uses), kind.summary) for name, kind in method_kinds().items()]
    yield as_table(kinds, ("name", "needs", "what it is"))
    yield "file:PATH  scores out of a file"
    if installed := benchmarks():
        yield "\nbenchmarks (docs/benchmarks.md):"
        rows = [(name, benchmark.task, ", ".join(benchmark.scales)) for name, benchmark in installed.items()]
        yield as_table(rows, ("name", "task", "attributes"))
