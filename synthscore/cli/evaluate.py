"""`synthscore evaluate`: scores or methods, and people's ratings -> how far they agree."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from .exits import ERROR, INCOMPLETE, OK, UsageError
from .messages import Messages
from .options import JUDGE, Attributes, DryRun, FileIn, Input, Limit, Opening, Output
from .talk import table as as_table

if TYPE_CHECKING:
    from ..evaluation.methods import Method
    from ..evaluation.ratings import Ratings

FLOORS = ("length", "overlap", "copied-span", "type-token-ratio")
"""What is evaluated where no methods are named: what costs nothing, and any judge should be better than."""


def evaluate(
    scores: FileIn | None = None,
    /,
    *,
    output: Output | None = None,
    json_: Annotated[bool, Parameter(name="--json")] = False,
    list_: Annotated[bool, Parameter(name="--list")] = False,
    human: str | None = None,
    benchmark: str | None = None,
    data: str | None = None,
    attribute: Attributes = None,
    limit: Limit = None,
    dry_run: DryRun = False,
    task: str | None = None,
    methods: str | None = None,
    references: str | None = None,
    revision: str | None = None,
    prompts: str = "default",
    level: list[Literal["per_context", "pooled", "system"]] | None = None,
    statistic: list[Literal["spearman", "pearson", "kendall"]] | None = None,
    against: str | None = None,
    model: Annotated[list[str] | None, Parameter(name=["--model", "-m"], help=f"{JUDGE}; may be repeated")] = None,
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
    come from a file with id (or context_id and system) and human; or, with papers/ beside the package, are a
    benchmark's, whose files lie in a folder of yours.

    What a model answered is in its store, so that the same command run again asks nothing. The exit code is 3
    where a text could not be scored, or a row could not be used.

    Args:
        scores: rows with score, attribute, and id or context_id and system
        output: folder for scores, ratings and figures, of which `synthscore report` makes a page
        json_: print JSON instead of tables
        list_: print the methods and benchmarks there are
        human: people's ratings: rows with id, or context_id and system; human
        benchmark: its name, with papers/: python -m papers evaluate --list
        data: folder that the files of the benchmarks lie in
        attribute: may be repeated (default: all)
        task: of the texts of --human, to run methods that ask a judge
        methods: names, with commas between and options as NAME:OPTION=VALUE; see --list and docs/baselines.md (default
            without SCORES: length,overlap,copied-span,type-token-ratio, and with --references ladder)
        references: the ladders, folder or hub id
        revision: commit, tag or branch of a hub dataset
        prompts: template set, or a folder of your own
        level: may be repeated (default: per_context; in JSON and -o all)
        statistic: may be repeated (default: spearman; in JSON and -o all)
        against: the differences from this method, with intervals; SCORES go by their name
    """
    from ..errors import InputError
    from ..evaluation import Settings
    from ..evaluation import evaluate as evaluation_of
    from ..evaluation.agreement import LEVELS
    from ..evaluation.correlation import STATISTICS
    from ..evaluation.join import join
    from ..evaluation.methods import Tools, method, split_methods, uses
    from ..evaluation.ratings import Ratings
    from ..evaluation.run import attributes_of, require_method, run_methods
    from ..io.scores import Scores
    from ..ladders.references import References
    from ..store.engine import SAMPLE, Plan
    from . import agreeing

    if list_:
        print("\n".join(_list()))
        return OK
    specs = list(dict.fromkeys(split_methods(methods))) if methods else []
    if not specs and not scores:
        specs = [*FLOORS, *(["ladder"] if references else [])]
    name = "" if not scores else "stdin" if scores == "-" else Path(scores).name.split(".")[0]
    asking, climbing = ([spec for spec in specs if tool in uses(spec)] for tool in ("judge", "references"))
    nothing = "does nothing: none of the methods"
    for wrong, what in (
        (model and not asking, f"--model {nothing} asks a judge. Leave it out, or name one that does"),
        (references and not climbing, f"--references {nothing} uses ladders. Leave it out, or name one that does"),
        (climbing and not references, f"{', '.join(climbing)} needs ladders. Name them: --references FOLDER"),
        (prompts != "default" and not asking, f"--prompts {prompts} {nothing} asks a judge. Leave it out"),
        (human and benchmark, "both of --human and --benchmark are given. Name one of them"),
        (not human and not benchmark, "neither of --human and --benchmark is given. Name one of them"),
        (bool(benchmark) != bool(data), "--benchmark and --data go together. Name the folder that its files are in"),
        (task and benchmark, f"--task {task} does nothing with --benchmark {benchmark}, which has one. Leave it out"),
        (name in specs, f"{scores} and a method are both called {name}. Rename the file"),
    ):
        if wrong:
            raise UsageError(what)
    models = list(dict.fromkeys(model or ["nano"])) if asking else []
    plan = {  # label -> the method, and the judge that it asks
        f"{spec} ({judge})" if judge and len(models) > 1 else spec: (method(spec), judge)
        for spec in specs
        for judge in (models if spec in asking else [""])
    }
    levels, statistics = level or LEVELS[:1], statistic or STATISTICS[:1]
    every = bool(json_ or output)  # what is only shown has no more figures than are shown
    settings = Settings(
        LEVELS if every and not level else levels,
        STATISTICS if every and not statistic else statistics,
        against or "",
    )
    require_method(settings.against, [*filter(None, [name]), *plan])
    if benchmark:
        ratings = _benchmark(benchmark, data or "")
    else:
        fields = {ours: column for ours, column in reading.fields.items() if ours != "score"}
        only = attribute[0] if attribute and len(attribute) == 1 else None
        ratings = Ratings.load(human or "", encoding=reading.encoding, fields=fields, task=task or "", attribute=only)
    everything, ratings = ratings, ratings.limited(limit)
    attributes = attributes_of(ratings, attribute)
    columns: dict[str, Method] = {}
    left_out: list[str] = []
    silent: list[str] = []
    if scores:
        fields = {ours: column for ours, column in reading.fields.items() if benchmark or ours == "score"}
        only = attributes[0] if len(attributes) == 1 else None
        joined = join(everything, scores, encoding=reading.encoding, fields=fields, attribute=only)
        ids = {text.id for text in ratings}
        found = {
            attribute: Scores(tuple(score for score in each if score.id in ids), each.signature)
            for attribute, each in joined.scores.items()
        }
        columns[name], left_out = (lambda _, attribute, tools: found[attribute]), joined.left_out
        silent = [each for each in attributes if each not in joined.scores]
        if silent and attribute:
            seen = f"{scores} holds no scores on {silent[0]}, only on {', '.join(joined.scores)}"
            raise InputError(f"{seen}. Leave it out of --attribute", value=silent[0])
        attributes = tuple(each for each in attributes if each not in silent)
    complete = not left_out and not (human and ratings.left_out)
    n_taken, n_contexts = len(set(ratings.context_ids)), len(set(everything.context_ids))
    left_out += [f"{n_contexts - n_taken} of {n_contexts} contexts: --limit {limit}"] if n_taken < n_contexts else []
    left_out += [f"{', '.join(silent)}: {scores} holds no scores"] if silent else []
    ladders = References.load(references, revision=revision) if references else None
    with ExitStack() as stack:
        engines = {judge: stack.enter_context(opening.open(judge, messages, dry_run=dry_run)) for judge in models}
        tools = {judge: Tools(engine, ladders, prompts) for judge, engine in engines.items()}
        # Attributes are asked about alike, so that the first says what all will take; --dry-run looks at all.
        few = attributes if dry_run else attributes[:1]
        for judge, engine in engines.items() if dry_run or not messages.quiet else ():
            counting = engine.plan or Plan(engine.engine, SAMPLE)
            run_methods(
                ratings, [of for of, by in plan.values() if by == judge], Tools(counting, ladders, prompts), few
            )
            engine.announce(counting.of(counting.n_questions // len(few) * len(attributes)))
        if dry_run:
            print(*([line for engine in engines.values() for line in engine.cost] or ["no judge is asked"]), sep="\n")
            return OK
        for label, (of, judge) in plan.items():
            asked = tools.get(judge) or Tools(None, ladders, prompts)
            columns[label] = lambda ratings, attribute, _, of=of, asked=asked: of(ratings, attribute, asked)
        bar = stack.enter_context(messages.bar(len(columns) * len(attributes), "methods x attributes"))
        evaluation = evaluation_of(
            ratings, columns, attributes=attributes, settings=settings, left_out=left_out, progress=lambda *_: bar(1)
        )
        costs = [line for engine in engines.values() for line in engine.cost]
    if output:
        evaluation.save(output)
    if json_:
        figures = evaluation.to_json()
        if scores and not plan and "about" not in attributes:  # of one file: its attributes are at the top
            of_file = figures.pop("methods")[name]
            figures = {**of_file.pop("attributes"), "about": {"method": name, **of_file, **figures}}
        print(json.dumps(figures, ensure_ascii=False, allow_nan=False))
    else:
        print("\n".join(agreeing.lines(evaluation, levels, statistics)))
    messages.note(*costs, signature="\n".join(agreeing.signatures(evaluation)))
    status = {score.status for each in evaluation.scores.values() for score in each}
    if status <= {"unscored"}:
        messages.warn("nothing could be scored")
        return ERROR
    return OK if complete and status == {"ok"} else INCOMPLETE


def _list() -> Iterator[str]:
    from ..evaluation.methods import KINDS
    from ..evaluation.ratings import BENCHMARKS

    yield "methods (docs/baselines.md):"
    kinds = [(name, ", ".join(kind.uses), kind.summary) for name, kind in KINDS.items()]
    yield as_table(kinds, ("name", "needs", "what it is"))
    yield "file:PATH  scores out of a file"
    if BENCHMARKS:
        yield "\nbenchmarks (docs/benchmarks.md):"
        ratings = [(name, each.task, ", ".join(each.scales)) for name, each in BENCHMARKS.items()]
        yield as_table(ratings, ("name", "task", "attributes"))


def _benchmark(name: str, folder: str) -> Ratings:
    from ..errors import BenchmarkError
    from ..evaluation.ratings import BENCHMARKS

    if name not in BENCHMARKS:
        raise BenchmarkError(
            f"there is no benchmark {name!r} here: released ones are read by papers/, beside synthscore in its "
            "repository. In a checkout, say `python -m papers evaluate ...`; or give rows, with --human",
            benchmark=name,
        )
    return BENCHMARKS[name].load(folder)
