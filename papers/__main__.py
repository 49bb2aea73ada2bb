"""`python -m papers`: tables, published judges, what ladders are worth, and whether a judge is linear."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import product
from pathlib import Path

from synthscore.cli.messages import counted
from synthscore.engines import open_judge
from synthscore.errors import BenchmarkError, InputError, SynthscoreError
from synthscore.evaluation.methods import MethodError, Tools, method_kinds
from synthscore.evaluation.ratings import Ratings
from synthscore.io.write import write_rows, write_whole
from synthscore.judging.asking import Asking
from synthscore.ladders.references import References
from synthscore.signature import Signature
from synthscore.store.engine import store_of
from synthscore.store.file import Store

from . import evidence, linearity
from .answers import import_answers, score_rows
from .benchmarks import BENCHMARKS
from .measures import Bench
from .published import published, table_ids
from .tables import make_table

OK, ERROR, INCOMPLETE = 0, 1, 3


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit code: 3 where something could not be measured, or imported."""
    argv = sys.argv[1:] if argv is None else list(argv)
    verb = argv[0] if argv else "--help"
    if verb == "import":
        run, args = import_, _import_parser().parse_args(argv[1:])
    elif verb == "scores":
        run, args = scores, _scores_parser().parse_args(argv[1:])
    elif verb == "evidence":
        run, args = evidence_, _evidence_parser().parse_args(argv[1:])
    elif verb == "linearity":
        run, args = linearity_, _linearity_parser().parse_args(argv[1:])
    elif verb == "list":
        print("\n".join(f"{name:<5}  {published(name).title}" for name in table_ids()))
        return OK
    elif verb in ("-h", "--help"):
        print(sys.modules["papers"].__doc__)
        return OK
    else:
        run, args = tables, _tables_parser().parse_args(argv)
    try:
        return run(args)
    except (SynthscoreError, OSError) as error:
        print(f"{type(error).__name__}: {' '.join(str(error).split())}", file=sys.stderr)
        return ERROR


# ------------------------------------------------------------------------------------------------- tables


def _tables_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("papers", description="Tables of the papers, measured for the models given.")
    parser.add_argument("table", nargs="+", choices=table_ids(), metavar="TABLE", help="ds1, ca3, poe5, ...")
    parser.add_argument("--data", required=True, metavar="DIR", help="folder that the files of the benchmarks lie in")
    parser.add_argument("--benchmark", choices=tuple(BENCHMARKS), help="this one alone (default: the table's)")
    parser.add_argument(
        "--limit", type=int, metavar="N", help="contexts of each benchmark, as `evaluate --limit` takes"
    )
    _add_judges(parser)
    parser.add_argument("--references", metavar="LADDERS", help="the ladders of ladder methods")
    parser.add_argument("--writer", type=_named, action="append", default=[], metavar="NAME=LADDERS",
                        help="ladders by this generator; may be repeated")  # fmt: skip
    parser.add_argument("--row", type=_named, action="append", default=[], metavar="NAME=METHOD",
                        help="what measures a row: QuestEval=file:questeval.jsonl; may be repeated")  # fmt: skip
    parser.add_argument("--prompts", default="default", metavar="SET,SET", help="a paper's first and second prompt")
    parser.add_argument("--draws", type=int, metavar="N", help="of curves and subsets (default: the paper's number)")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("-o", "--output", metavar="FOLDER", help="write tables/ID.md and .json there, too")
    return parser


def _add_judges(parser: argparse.ArgumentParser, *, required: bool = False) -> None:
    """The options that _opened reads."""
    parser.add_argument(
        "-m", "--model", action="append", default=[], required=required, metavar="M", help="may be repeated"
    )
    parser.add_argument("--store", metavar="FILE", help='of answers (default: that of synthscore); "none" for none')
    parser.add_argument("--dtype", help="of a model that runs here")
    parser.add_argument("--device", help="of a model that runs here")


def _named(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not (name and separator and value):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def tables(args: argparse.Namespace) -> int:
    if "zepo" not in method_kinds():
        raise MethodError("papers/ is not installed, so its methods have no names. Say: pip install --editable papers")
    benchmarks = [args.benchmark] if args.benchmark else [b for name in args.table for b in published(name).benchmarks]
    ratings, absent = _benchmarks(args.data, dict.fromkeys(benchmarks))
    ratings = {name: each.limited(args.limit) for name, each in ratings.items()}
    prompts = args.prompts.split(",")
    references = References.load(args.references) if args.references else None
    with _opened(args, Tools(None, references, Asking(prompts=prompts[0]))) as models:
        made = [
            make_table(
                name,
                ratings,
                models,
                writers={writer: References.load(folder) for writer, folder in args.writer},
                methods=dict(args.row),
                prompts=[] if args.prompts == "default" else prompts,
                n_draws=args.draws,
                seed=args.seed,
            )
            for name in dict.fromkeys(args.table)
        ]
    if args.output:
        for each in made:
            for suffix, text in ((".md", each.to_markdown()), (".json", json.dumps(each.to_json(), indent=1) + "\n")):
                write_whole(Path(args.output) / "tables" / f"{each.of.id}{suffix}", text.encode())
    if args.json:
        print(json.dumps({each.of.id: each.to_json() for each in made}, ensure_ascii=False, allow_nan=False))
    else:
        print("\n".join(each.to_markdown() for each in made), end="")
    _note_left_out(ratings)
    for error in absent:
        print(f"not measured: {error}", file=sys.stderr)
    return INCOMPLETE if absent else OK


def _note_left_out(ratings: Mapping[str, Ratings]) -> None:
    for name, of in ratings.items():
        for line in of.left_out:
            _note(f"{name}, left out: {line}")


def _benchmarks(folder: str, names: Iterable[str]) -> tuple[dict[str, Ratings], list[BenchmarkError]]:
    """Those that lie there, and why the others do not. raises : BenchmarkError for one that cannot be used"""
    found: dict[str, Ratings] = {}
    absent: list[BenchmarkError] = []
    for name in names:
        try:
            found[name] = BENCHMARKS[name].load(folder)
        except BenchmarkError as error:
            if not hasattr(error, "files"):
                raise
            absent.append(error)
    return found, absent


@contextmanager
def _opened(args: argparse.Namespace, tools: Tools) -> Iterator[dict[str, Tools]]:
    """The model's name -> what methods that ask it work with."""
    options = {name: value for name in ("dtype", "device") if (value := getattr(args, name))}
    with ExitStack() as stack:
        models: dict[str, Tools] = {}
        for name in dict.fromkeys(args.model):
            engine = open_judge(name, args.store, **options)
            if store := store_of(engine):
                stack.enter_context(store)
            models[name.rpartition("#")[2]] = replace(tools, judge=engine)
        yield models


def _by_signature(models: Mapping[str, Tools]) -> dict[str, Tools]:
    """By the model's name in the judge's signature, which a store of its answers has, too.

    raises : InputError for two of the same name
    """
    judges: dict[str, Tools] = {}
    for given, tools in models.items():
        name = tools.require_judge().signature.part("model").partition("@")[0]
        if name in judges:
            raise InputError(f"two of {', '.join(models)} are {name}. Measure them one at a time", value=given)
        judges[name] = tools
    return judges


# ------------------------------------------------------------------------------------------------- evidence


def _evidence_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("papers evidence", description="What ladders are worth, by any judge.")
    parser.add_argument("--data", required=True, metavar="DIR", help="folder that the files of the benchmarks lie in")
    parser.add_argument("--benchmark", action="append", choices=tuple(BENCHMARKS), help="may be repeated "
                        "(default: summeval and topicalchat)")  # fmt: skip
    parser.add_argument("--attribute", action="append", metavar="A", help="may be repeated (default: all)")
    parser.add_argument("--method", action="append", choices=evidence.METHODS, metavar="NAME", help="may be repeated: "
                        + "; ".join(evidence.METHODS) + " (default: all)")  # fmt: skip
    _add_judges(parser)
    parser.add_argument("--ladders", type=_named, action="append", default=[], metavar="NAME=LADDERS",
                        help="damaged=FOLDER, generated=FOLDER, ...; curated is the package's own")  # fmt: skip
    parser.add_argument("--shared", type=_named, action="append", default=[], metavar="NAME=ID",
                        help="whose ladder of a set is shared (default: the first whole one by hash)")  # fmt: skip
    parser.add_argument("--limit", type=int, metavar="N", help="contexts of each benchmark")
    parser.add_argument("--whole", action="store_true", help="all contexts, not only those with generated ladders")
    parser.add_argument("--answers", metavar="FILE", help="write the answers used there, without their questions")
    parser.add_argument("-o", "--output", metavar="FOLDER", help="write evidence.md and evidence.json there")
    return parser


def evidence_(args: argparse.Namespace) -> int:
    benchmarks = args.benchmark or ["summeval", "topicalchat"]
    ratings, absent = _benchmarks(args.data, benchmarks)
    sets = {name: References.load(folder) for name, folder in args.ladders}
    with _opened(args, Tools()) as models:
        judges = {}
        for name, tools in _by_signature(models).items():
            judges[name] = evidence.Counted(tools.require_judge())
        measuring = []
        for each in ratings.values():
            known = {"curated": evidence.curated(evidence.task_name(each)), **sets}
            of_task = {name: evidence.of_task(ladders, each) for name, ladders in known.items()}
            if "generated" in of_task and not args.whole:
                each = each.of_contexts(of_task["generated"].context_ids, "without generated ladders")
            shared = dict(args.shared)
            measuring.append(evidence.Measuring(each.limited(args.limit), judges, of_task, shared))
        found = evidence.measure_all(measuring, args.attribute, args.method or evidence.METHODS)
        if args.answers:
            _note(f"{args.answers}: {counted(evidence.save_answers(judges.values(), args.answers), 'new answer')}")
    markdown = evidence.to_markdown(found)
    if args.output:
        as_json = json.dumps(found.to_json(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        for name, text in (("evidence.md", markdown), ("evidence.json", as_json)):
            write_whole(Path(args.output) / name, text.encode())
    print(markdown, end="")
    for error in absent:
        print(f"not measured: {error}", file=sys.stderr)
    return INCOMPLETE if absent else OK


# ------------------------------------------------------------------------------------------------- linearity


def _linearity_parser() -> argparse.ArgumentParser:
    what = "Whether a judge's probabilities are linear in how far apart people rate two texts."
    parser = argparse.ArgumentParser("papers linearity", description=what)
    parser.add_argument("--data", required=True, metavar="DIR", help="folder that the files of the benchmarks lie in")
    parser.add_argument("--benchmark", action="append", choices=tuple(BENCHMARKS), help="may be repeated "
                        "(default: summeval and topicalchat)")  # fmt: skip
    parser.add_argument("--attribute", action="append", metavar="A", help="may be repeated (default: all)")
    parser.add_argument("--limit", type=int, metavar="N", help="contexts of each benchmark")
    parser.add_argument("--prompts", default="default", metavar="SET", help="template set that asks")
    _add_judges(parser, required=True)
    parser.add_argument("-o", "--output", metavar="FOLDER", help="write linearity.md, linearity.json and figures there")
    return parser


def linearity_(args: argparse.Namespace) -> int:
    ratings, absent = _benchmarks(args.data, dict.fromkeys(args.benchmark or ["summeval", "topicalchat"]))
    ratings = {name: benchmark.limited(args.limit) for name, benchmark in ratings.items()}
    known = {attribute for benchmark in ratings.values() for attribute in benchmark.attributes}
    if ratings and (unknown := sorted(set(args.attribute or ()) - known)):
        raise InputError(
            f"nobody rated {', '.join(unknown)} of {', '.join(ratings)}. There are: {', '.join(sorted(known))}"
        )
    rows, failed = [], []
    with _opened(args, Tools(asking=Asking(prompts=args.prompts))) as models:
        judges = _by_signature(models)
        bench = Bench(ratings, judges)
        wanted = args.attribute or known
        asked = [(name, attribute) for name in ratings for attribute in ratings[name].attributes if attribute in wanted]
        for judge, about in product(judges, asked):
            try:
                rows.append(bench.linearity(judge, about))
            except SynthscoreError as error:
                failed.append(f"{judge}, {' '.join(about)}: {error}")
    markdown = linearity.to_markdown(rows)
    if args.output:
        as_json = json.dumps(linearity.to_json(rows), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        written = {"linearity.md": markdown, "linearity.json": as_json, **linearity.draw(rows)}
        for name, text in written.items():
            write_whole(Path(args.output) / name, text.encode())
    print(markdown, end="")
    _note_left_out(ratings)
    for why in (*failed, *absent):
        print(f"not measured: {why}", file=sys.stderr)
    return INCOMPLETE if failed or absent or not rows else OK


# ------------------------------------------------------------------------------------------------- published judges


def _import_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("papers import", description="Answers of published judges -> a store.")
    parser.add_argument("rows", metavar="ROWS", help="the published answers: .jsonl, .jsonl.gz, .json, .parquet")
    parser.add_argument("--benchmark", choices=tuple(BENCHMARKS), required=True, help="whose texts they are about")
    parser.add_argument("--data", required=True, metavar="DIR", help="where the benchmark's files are")
    parser.add_argument("-o", "--store", required=True, metavar="FILE", help="the store; made where there is none")
    parser.add_argument("--prompts", default="default", metavar="SET", help="template set that they are answers to")
    return parser


def import_(args: argparse.Namespace) -> int:
    ratings = BENCHMARKS[args.benchmark].load(args.data)
    with Store(args.store) as store:
        imported = import_answers(args.rows, ratings, store, templates=args.prompts)
    for engine, n_answers in imported.engines.items():
        part = "|".join(f"{name}:{value}" for name, value in Signature.parse(engine).parts[:3])
        _note(f"{counted(n_answers, 'answer')}: --model 'recorded:{args.store}#{part}'")
    _note(f"{args.store}: {counted(imported.n_new, 'new answer')}")
    for rows, what in (
        (imported.repeated, "with the question of an earlier row; the first answer counts"),
        (imported.untold, "without any label that is told; no method scores their texts"),
    ):
        if rows:
            _note(f"{counted(len(rows), 'row')} {what}, such as {'; '.join(rows[:3])}")
    if imported.left_out:
        _note(f"warning: {counted(len(imported.left_out), 'row')} could not be used:")
        for reason, n in Counter(imported.left_out).most_common(5):
            _note(f"  {n} x {reason}")
        return INCOMPLETE
    return OK


def _scores_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("papers scores", description="Published scores -> rows of scores.")
    parser.add_argument("rows", metavar="ROWS", help="the published scores: .jsonl, .jsonl.gz, .json, .parquet")
    parser.add_argument("part", nargs="?", default="", metavar="PART", help="of the signature of those that are taken")
    parser.add_argument("-o", "--output", default="-", metavar="FILE", help="of rows (default: JSONL on stdout)")
    return parser


def scores(args: argparse.Namespace) -> int:
    rows = score_rows(args.rows, args.part)
    write_rows(rows, args.output)
    open_ = sum(row["status"] != "ok" for row in rows)
    _note(f"{counted(len(rows), 'score')}, {open_} partial or unscored; {rows[0]['signature']}")
    return INCOMPLETE if open_ else OK


def _note(line: str) -> None:
    print(line, file=sys.stderr)


if __name__ == "__main__":
    raise SystemExit(main())
