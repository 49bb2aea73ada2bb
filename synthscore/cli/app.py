"""The frame of the command line: which verbs there are, and how errors become exit codes.

Each verb is a function in a module of its name; its arguments are its options, and its docstring is its help. A verb's
module imports cyclopts and nouns; what it works with is imported when it runs, so that --help is quick.
"""

from __future__ import annotations

import gc
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any

from cyclopts import App, CycloptsError, MissingArgumentError, Parameter, UnusedCliTokensError

from .._version import __version__
from ..errors import InputError, SynthscoreError, Unasked, in_plain_words
from ..io.assumed import ASSUMED, Assumed
from .costs import BUDGET, interrupted_line
from .messages import BROKEN_PIPE, ERROR, INTERRUPTED, OK, STOPPED, USAGE, Messages, UsageError, as_usage, visible
from .panels import ARGUMENTS, OPTIONS
from .register import require_outputs_apart

HELP = """
Absolute quality scores for generated texts: a judge model compares each text with a ladder of synthetic references;
or an order of texts that are compared with each other. Results go to stdout or -o; progress, counts, warnings and the
signature of the numbers go to stderr.

For example:
  $ synthscore demo
  $ synthscore generate contexts.jsonl --task summarization --attribute coherence -o ladders/
  $ synthscore score targets.jsonl --references ladders/ > scores.jsonl
  $ synthscore filter targets.jsonl --references ladders/ --min-score 3.5 > kept.jsonl
  $ synthscore rank candidates.jsonl --task summarization -a coherence --budget 48 > ranking.jsonl
"""

EXIT_CODES = """
exit codes:
  0    all well
  1    an error: nothing, or not everything, could be done
  2    the command line was not understood
  3    done, but some rows failed, or could be scored only in part or not at all
  4    stopped: questions are unasked. What was answered is in the store; the same command goes on
  130  interrupted (Ctrl-C): each answer that came is in the store, so run the command again to go on
  141  whoever read the output left early
"""

VERBS = {
    "demo": "The whole flow in a minute: start here.",
    "generate": "Contexts -> ladders of texts of rising quality.",
    "references": "Bring your own ladders, look at ladders, check them.",
    "score": "Texts -> scores on the rung scale.",
    "filter": "Texts -> those that score well enough.",
    "calibrate": "Scores with people's labels -> a threshold with a guarantee.",
    "estimate": "Many scores and few labels -> what the texts are worth.",
    "compare": "Texts compared with each other by a judge -> comparisons.",
    "rank": "Texts compared with each other -> an order.",
    "evaluate": "Scores or methods -> how far they agree with people.",
    "export": "Texts -> tasks for people to rate.",
    "drift": "Scores -> are judge and texts what they were?",
    "report": "Results -> one HTML page to look at.",
    "doctor": "What can this model judge?",
    "redteam": "What becomes of texts that tell the judge to score them high?",
    "store": "Look at stored answers, join them.",
}
"""In the order of the help, each with its line there. Each is a function of this name in a module of this name."""

HELPS = {"--help", "-h"}
EVERYTHING = "all"
"""After --help: every option, not only those that are most used."""
COMPLETE = "--install-completion"
GROUPS = ("references", "store")
"""Verbs that have actions: an App of this name in a module of this name."""


def build_app(argv: Sequence[str] | None = None) -> App:
    """The command line, each verb loaded when it is called.

    argv : its words. The help for no verb loads none; that for a verb shows all options where EVERYTHING is the last
    """
    words = list(argv or ())
    listing = argv is not None and HELPS.issuperset(words[:1])
    formatter = None
    if listing or HELPS.intersection(words):
        from .help import Flowing

        formatter = Flowing(everything=listing or words[-1:] == [EVERYTHING])
    app = App(
        name="synthscore",
        help=HELP,
        help_epilogue=EXIT_CODES,
        help_format="plaintext",
        help_formatter=formatter,
        version=f"synthscore {__version__}",
        version_flags=["--version"],
        group_arguments=ARGUMENTS,
        group_parameters=OPTIONS,
        default_parameter=Parameter(negative=(), show_default=lambda value: value if value else None),
    )
    app.register_install_completion_command(COMPLETE, add_to_startup=False, sort_key=len(VERBS))
    for index, (name, line) in enumerate(VERBS.items()):
        if listing:
            app.command(App(name=name, help=line, sort_key=index))
        else:
            settings: dict[str, Any] = {} if name in GROUPS else {"name": name, "help_epilogue": ""}
            app.command(f"{__package__}.{name}:{name}", **settings)
    return app


COLLECT_AFTER = (20_000, 50, 100)
"""Objects made until the garbage collector looks for cycles. Rows are many small objects without any: with Python's own
limit, 700, a tenth of the time of `filter` went into looking at them."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code (`synthscore --help` lists them)."""
    argv = sys.argv[1:] if argv is None else list(argv)
    messages = Messages()
    gc.set_threshold(*COLLECT_AFTER)
    BUDGET.set(None)
    ASSUMED.set(Assumed())
    try:
        try:
            words = argv
            if argv[-1:] == [EVERYTHING] and HELPS.intersection(argv[-2:]):
                words = argv[:-1]
            verb, given, _ = build_app(argv).parse_args(words, exit_on_error=False, print_error=False)
            messages = given.arguments.get("messages", messages)
            require_outputs_apart(verb.__name__, given.arguments)
            for group in given.arguments.values():
                if hasattr(group, "assume"):
                    group.assume()
        except CycloptsError as error:
            raise UsageError(_plain(error)) from error
        except InputError as error:  # of a noun of the library that is a group of options, or of two files that are one
            raise as_usage(error) from error
        with messages.logged():
            code = verb(*given.args, **given.kwargs)
        if HELPS.intersection(words[1:]) and words is argv:
            print(f"All options: {' '.join(['synthscore', *words])} {EVERYTHING}")
        sys.stdout.flush()
        if isinstance(code, int):
            return code
        return OK if {*argv} & {*HELPS, "--version", COMPLETE} else USAGE
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains once more when it ends
        return BROKEN_PIPE
    except KeyboardInterrupt:
        print(f"\n{interrupted_line()}", file=sys.stderr)
        return INTERRUPTED
    except Unasked as stop:
        print(visible(f"stopped: {stop}"), file=sys.stderr)
        return STOPPED
    except (SynthscoreError, OSError) as error:
        if messages.debug:
            traceback.print_exc()
        what = in_plain_words(error) if isinstance(error, OSError) else str(error)
        print(visible(f"{type(error).__name__}: {' '.join(what.split())}"), file=sys.stderr)
        return USAGE if isinstance(error, UsageError) else ERROR


def _plain(error: CycloptsError) -> str:
    """What is wrong with the command line, and where its help is."""
    if isinstance(error, MissingArgumentError) and error.app and error.argument and not error.argument.tokens:
        verb, missing = " ".join(error.command_chain or ()), error.argument.name
        known = error.app.assemble_argument_collection(parse_docstring=True)
        option = next(option for option in known if option.name == missing)
        among = f", one of {', '.join(choices)}" if (choices := option.get_choices()) else ""
        return f"{verb} needs {missing}: {option.parameter.help}{among}. See: synthscore {verb} --help"
    what = str(error) if str(error).endswith((".", "?")) else f"{error}."
    if isinstance(error, UnusedCliTokensError):
        unused = " ".join(error.unused_tokens or ())
        what = f"there is nothing that {' '.join(error.command_chain or ())} would do with {unused!r}."
    return f"{what} See: {' '.join(['synthscore', *(error.command_chain or ())])} --help"
