"""`synthscore evaluate`: scores or methods, and what people said -> how far they agree."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from .messages import Messages
from .options import ERROR, INCOMPLETE, OK, Attributes, Input, Opening, UsageError
from .talk import table as columns

if TYPE_CHECKING:
    from ..evaluation.join import Joined
    from ..evaluation.methods import Tools
    from ..evaluation.ratings import Ratings

FLOORS = ("length", "overlap", "type-token-ratio")
"""What is evaluated where no methods are named: what costs nothing, and any judge should be better than."""


def evaluate(
    scores: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    /,
    *,
    output: Annotated[str | None, Parameter(name=["--output", "-o"])] = None,
    json_: Annotated[bool, Parameter(name="--json")] = False,
    list_: Annotated[bool, Parameter(name="--list")] = False,
    human: str | None = None,
    benchmark: str | None = None,
    data: str | None = None,
    attribute: Attributes = None,
    task: str | None = None,
    methods: str | None = None,
    references: str | None = None,
    revision: str | None = None,
    prompts: str = "default",
    level: list[Literal["per_context", "pooled", "system"]] | None = None,
    statistic: list[Literal["spearman", "pearson", "kendall"]] | None = None,
    nan_policy: Literal["zero", "skip", "one", "all-zero", "undefined"] = "zero",
    resamples: int = 1000,
    seed: int = 0,
    against: str | None = None,
    model: Annotated[list[str] | None, Parameter(name=["--model", "-m"])] = None,
    table: Annotated[list[str] | None, Parameter(show=False)] = None,
    reading: Input = Input(),
    opening: Opening = Opening(),
    messages: Messages = Messages(),
) -> int:
    """Scores or methods -> how far they agree with people.

    Examples:
      $ synthscore evaluate scores.jsonl --human ratings.jsonl
      $ synthscore evaluate scores.jsonl --human ratings.jsonl --methods length,overlap --against scores --json
      $ synthscore evaluate --human ratings.jsonl --task summarization --methods length,g-eval --model M -o run/
      $ synthscore evaluate --list

    How far scores agree with people: rank correlations inside each context, over all texts and over systems,
    each with its interval over contexts. Scores come from a file, as `synthscore score` writes it, whose rows
    are joined to the ratings on id, or on context_id and system; or from methods, which are run here. Ratings
    come from a file with id (or context_id and system) and human; or, with papers/ beside the package, are a
    benchmark's, whose files lie in a folder of yours.

    What a model answered is in its store, so that the same command run again asks nothing. The exit code is 3
    where a text could not be scored, or a row could not be used.

    Parameters
    ----------
    scores
        rows with score, attribute, and id or context_id and system
    output
        folder for scores, ratings and figures, of which `synthscore report` makes a page
    json_
        print JSON instead of tables
    list_
        print the methods and benchmarks there are
    human
        people's ratings: rows with id, or context_id and system; human
    benchmark
        its name, with papers/: python -m papers evaluate --list
    data
        folder that the files of the benchmarks lie in
    attribute
        may be repeated (default: all)
    task
        of the texts of --human, to run methods that ask a judge
    methods
        names, with commas between and options as NAME:OPTION=VALUE; see --list and docs/baselines.md (default without
        SCORES: length,overlap,type-token-ratio, and with --references ladder)
    references
        the ladders, folder or hub id
    revision
        commit, tag or branch of a hub dataset
    prompts
        template set, or a folder of your own
    level
        may be repeated (default: per_context; in JSON and -o all)
    statistic
        may be repeated (default: spearman; in JSON and -o all)
    nan_policy
        what a correlation counts as in a context whose ratings or scores are all equal (docs/evaluation.md)
    resamples
        of contexts, for intervals
    seed
        of --resamples
    against
        the differences from this method, with intervals; SCORES go by their name
    model
        the judge: nano, a model on the hub, a folder, http://HOST:PORT/v1#MODEL, or recorded:STORE; may be repeated
    table
        moved to papers/
    """
    from ..evaluation import Settings
    from ..evaluation import evaluate as evaluation_of
    from ..evaluation.agreement import LEVELS
    from ..evaluation.correlation import STATISTICS
    from ..evaluation.methods import Method, method, split_methods
    from ..evaluation.methods.derived import Given, With
    from ..evaluation.run import attributes_of, require_method
    from . import agreeing

    if list_:
        print("\n".join(_list()))
        return OK
    if table:
        raise UsageError(
            "the papers' tables are made by papers/, which lies beside synthscore in its repository. In a checkout, "
            f"say: python -m papers {' '.join(table)} --data DIR --model M"
        )
    if bool(human) == bool(benchmark):
        given = "both" if human else "neither"
        raise UsageError(
            f"{given} of --human and --benchmark is given, expected one: whose ratings are the scores compared with?"
        )
    specs = list(dict.fromkeys(split_methods(methods))) if methods else []
    if not specs and not scores:
        specs = [*FLOORS, *(["ladder"] if references else [])]
    name = "" if not scores else "stdin" if scores == "-" else Path(scores).name.split(".")[0]
    asked = _uses(specs, bool(references), model, prompts)
    for wrong, what in (
        (
            bool(benchmark) != bool(data),
            "--benchmark NAME and --data DIR go together: where are the benchmark's files?",
        ),
        (task and benchmark, f"--task {task} does nothing with --benchmark {benchmark}, which has one. Leave it out"),
        (resamples < 0 or seed < 0, "--resamples and --seed are whole numbers of at least 0. Mend them"),
        (against and not resamples, "--against needs resamples, and --resamples is 0. Raise it"),
        (name in specs, f"{scores} and a method are both called {name}. Rename the file"),
    ):
        if wrong:
            raise UsageError(what)
    models = list(dict.fromkeys(model or ["nano"]))
    plan = {
        f"{spec} ({judge})" if judge and len(models) > 1 else spec: (spec, judge)
        for spec in specs
        for judge in (models if spec in asked else [""])
    }
    made = {spec: method(spec) for spec in specs}
    kept = json_ or output  # what is only shown has no more figures than are shown
    levels, statistics = level or LEVELS[:1], statistic or STATISTICS[:1]
    settings = Settings(
        level or (LEVELS if kept else levels), statistic or (STATISTICS if kept else statistics), nan_policy,
        against or "", resamples, seed,
    )  # fmt: skip
    require_method(settings.against, [*filter(None, [name]), *plan])
    ratings = _ratings(human, benchmark, data, attribute, task, reading)
    attributes = attributes_of(ratings, attribute)
    columns_of: dict[str, Method] = {}
    left_out: list[str] = []
    if scores:
        joined = _joined(scores, ratings, attribute, reading, all_fields=bool(benchmark))
        left_out += joined.left_out
        columns_of[name] = Given(joined.scores)
        if silent := [each for each in attributes if each not in joined.scores]:
            left_out.append(f"{', '.join(silent)}: {scores} holds no scores")
            attributes = tuple(joined.scores)
    complete = not (human and ratings.left_out) and not (scores and joined.left_out)
    judges = dict.fromkeys(judge for _, judge in plan.values() if judge)
    with (
        _tools(judges, references, revision, prompts, opening, messages) as tools,
        messages.bar((len(plan) + bool(scores)) * len(attributes), "methods x attributes") as shown,
    ):
        columns_of |= {label: With(made[spec], tools[judge]) for label, (spec, judge) in plan.items()}
        evaluation = evaluation_of(
            ratings,
            columns_of,
            attributes=attributes,
            settings=settings,
            left_out=left_out,
            progress=lambda *_: shown(1),
        )
        costs = [each.judge.meter.cost for each in tools.values() if each.judge]  # type: ignore[attr-defined]
    if output:
        evaluation.save(output)
    if json_:
        figures = evaluation.of_one_method() if scores and not plan else evaluation.to_json()
        print(json.dumps(figures, ensure_ascii=False, allow_nan=False))
    else:
        print("\n".join(agreeing.lines(evaluation, levels, statistics, agreeing.width())))
    messages.note(*filter(None, costs), *agreeing.signatures(evaluation))
    status = {score.status for each in evaluation.scores.values() for score in each}
    if status <= {"unscored"}:
        messages.warn("nothing could be scored")
        return ERROR
    return OK if complete and status == {"ok"} else INCOMPLETE


def _uses(specs: list[str], references: bool, model: list[str] | None, prompts: str) -> set[str]:
    """The methods that ask a judge. raises : UsageError for options that no method uses, or ladders that one lacks"""
    from ..evaluation.methods import uses

    asking = {spec for spec in specs if "judge" in uses(spec)}
    climbing = [spec for spec in specs if "references" in uses(spec)]
    for option, given, used in (("model", model, asking), ("references", references, climbing)):
        if given and not used:
            raise UsageError(
                f"--{option} does nothing: none of the methods uses it. Leave it out, or name one that does"
            )
    if climbing and not references:
        raise UsageError(f"{', '.join(climbing)} needs ladders. Name them: --references FOLDER")
    if prompts != "default" and not asking:
        raise UsageError(f"--prompts {prompts} does nothing: none of the methods asks a judge. Leave it out")
    return asking


def _list() -> Iterator[str]:
    from ..evaluation.methods import KINDS
    from ..evaluation.ratings import BENCHMARKS
    from .agreeing import width

    yield "methods (docs/baselines.md):"
    kinds = [(name, ", ".join(kind.uses), kind.summary) for name, kind in KINDS.items()]
    yield columns(kinds, ("name", "needs", "what it is"), width())
    yield "zsum(A,B), ranksum(A,B)  methods added up\nfile:PATH                scores out of a file"
    if not BENCHMARKS:
        return
    yield "\nbenchmarks (docs/benchmarks.md):"
    ratings = [(name, each.task, ", ".join(each.scales)) for name, each in BENCHMARKS.items()]
    yield columns(ratings, ("name", "task", "attributes"), width())


def _ratings(
    human: str | None,
    benchmark: str | None,
    data: str | None,
    attribute: list[str] | None,
    task: str | None,
    reading: Input,
) -> Ratings:
    from ..errors import BenchmarkError
    from ..evaluation.ratings import BENCHMARKS, Ratings

    if benchmark:
        if benchmark not in BENCHMARKS:
            raise BenchmarkError(
                f"there is no benchmark {benchmark!r} here: released ones are read by papers/, beside synthscore in "
                "its repository. In a checkout, say `python -m papers evaluate ...`; or give rows, with --human",
                benchmark=benchmark,
            )
        return BENCHMARKS[benchmark].load(data or "")
    only = attribute[0] if attribute and len(attribute) == 1 else None
    fields = {name: column for name, column in reading.fields.items() if name != "score"}
    return Ratings.load(human or "", encoding=reading.encoding, fields=fields, task=task or "", attribute=only)


def _joined(scores: str, ratings: Ratings, asked: list[str] | None, reading: Input, *, all_fields: bool) -> Joined:
    from ..errors import InputError
    from ..evaluation.join import join

    fields = {name: column for name, column in reading.fields.items() if all_fields or name == "score"}
    names = asked or ratings.attributes
    joined = join(
        ratings, scores, encoding=reading.encoding, fields=fields, attribute=names[0] if len(names) == 1 else None
    )
    if silent := [name for name in asked or () if name not in joined.scores]:
        raise InputError(
            f"{scores} holds no scores on {silent[0]}, only on {', '.join(joined.scores)}. Leave it out of --attribute",
            value=silent[0],
        )
    return joined


@contextmanager
def _tools(
    models: Mapping[str, None],
    references: str | None,
    revision: str | None,
    prompts: str,
    opening: Opening,
    messages: Messages,
) -> Iterator[dict[str, Tools]]:
    """Model -> what methods that ask it work with; "" is no model."""
    from ..evaluation.methods import Tools
    from ..ladders.references import References

    ladders = References.load(references, revision=revision) if references else None
    with ExitStack() as stack:
        none = Tools(None, ladders, prompts)
        judges = {model: replace(none, judge=stack.enter_context(opening.open(model, messages))) for model in models}
        yield {"": none, **judges}
