"""`synthscore filter`: targets -> those that score well enough, unchanged, some rows at a time."""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from .._version import __version__
from ..engine import Engine
from ..errors import InputError
from ..io.fields import Row
from ..io.files import RowBatch, read_batches
from ..io.outputs import Outputs
from ..io.write import json_line
from ..ladders.references import References
from ..scoring.anchored.scale import save_scales
from ..signature import Signature, text_hash
from ..thresholds.certificate import Certificate
from ..thresholds.rules import AtLeast, Decision, MinScore, check_on_scale
from ..types import Score
from . import judging
from .common import (
    ERROR,
    INCOMPLETE,
    OK,
    Commands,
    Reasons,
    UsageError,
    add_command,
    add_judging,
    counted,
    note,
    number,
    open_model,
    rows_file,
    spaced,
    warn,
)

AnyRule = MinScore | AtLeast | Certificate
BATCH = 1024  # rows that are read, decided and written before the next

TEXT = """
Examples:
  $ synthscore filter targets.jsonl --references ladders/ --attribute coherence --min-score 3.5 > kept.jsonl
  $ synthscore filter - --references ladders/ --attribute fluency --min-score 3 --dropped dropped.jsonl
  $ synthscore filter targets.jsonl --references ladders/ --certificate certificate.json -o kept.jsonl

Keeps the rows whose text scores well enough on the rung scale (see `synthscore score --help`): as they
were, all their columns unchanged, in their order. What is well enough:

  --min-score X              a score of X or more
  --min-score X --alpha P    X or more with probability 1 - P, by the score's error (--scoring anchored)
  --certificate FILE         what `synthscore calibrate` has certified; other scores are refused

A row is unsure where the score does not decide it: the probability is neither high nor low; a
certificate has two thresholds, and it lies between them; or it is unscored, and where some rungs have no
verdict, what they had said matters. Unsure rows are not kept, and are counted apart.

--dropped gets the rows that are not kept (without the unsure ones, where --unsure gets them), each with
a column synthscore: its score, stderr, the low and high that it could have, decision (dropped or unsure),
why, status and reason. The exit code is 3 where a row is partial, unsure or unscored.

Rows are read, decided and written some at a time, in little memory. With -o FILE, a run that was killed goes
on where it was when the same command is run again; until the end, FILE is FILE.partial. With --scoring
anchored and no --scale, scores depend on each other: all rows are then read at once, and begun anew.
"""


def add(commands: Commands) -> None:
    parser = add_command(
        commands,
        "filter",
        run,
        "filter TARGETS --references FOLDER (--min-score X | --certificate FILE) [options]",
        "texts -> those that score well enough",
        TEXT,
    )
    parser.add_argument(
        "targets",
        metavar="TARGETS",
        help=".jsonl, .json, .csv, .tsv, .parquet, a datasets folder, or - for JSONL on stdin",
    )
    parser.add_argument(
        "--min-score",
        type=number(-math.inf),
        metavar="X",
        help="least score that is kept, in rungs: 1 as good as the worst, N as the best; 0 to sqrt(N(N+1)) with "
        "--scoring paper, 5.48 for 5 rungs",
    )
    parser.add_argument(
        "--alpha",
        type=number(0, 0.5),
        metavar="P",
        help="with --scoring anchored: keep where P(score >= X) >= 1 - P, drop where it is P or less",
    )
    parser.add_argument("--certificate", metavar="FILE", help="decide by a certificate of `synthscore calibrate`")
    parser.add_argument(
        "-o",
        "--output",
        type=rows_file,
        default="-",
        metavar="FILE",
        help=".jsonl, .csv or .parquet (default: JSONL on stdout)",
    )
    parser.add_argument(
        "--dropped", type=rows_file, metavar="FILE", help="where to write the rows that are not kept (default: nowhere)"
    )
    parser.add_argument(
        "--unsure", type=rows_file, metavar="FILE", help="where to write the unsure ones (default: with the dropped)"
    )
    judging.add_scoring(parser)
    add_judging(parser, "one; may be left out where the references hold only one")


def run(args: argparse.Namespace) -> int:
    rule = _rule(args)
    references, held = judging.load(args)
    _check_attribute(args, held)
    _check_threshold(args, rule, references, held)
    paths = {"kept": args.output, "dropped": args.dropped, "unsure": args.unsure}
    paths = {name: path for name, path in paths.items() if path}
    if len({os.path.realpath(path) for path in paths.values()}) < len(paths):
        raise UsageError("-o, --dropped and --unsure name one file twice. Give each a file of its own")
    alone = args.scoring == "paper" or (args.scale and not args.save_scale)  # each row's score is its own
    with open_model(args) as engine:
        run_ = _run(args, references, engine) if alone and args.targets != "-" else ""
        with Outputs(paths, run_) as outputs:
            if outputs.discarded:
                warn(f"{spaced(outputs.discarded)} rows of a run of other options or rows were there: begun anew")
            done = outputs.n_rows
            tally = Tally.of(outputs.state)
            judged_by = judging.Judging(args, references, held, engine, brief=True)
            size = BATCH if alone else None
            for batch in read_batches(args.targets, size, encoding=args.encoding, skip=done):
                items = [judging.read_item(row, args) for row in batch.rows]
                judged = judged_by.judge(items)
                if isinstance(rule, Certificate):
                    for signature in judged.used:
                        rule.check(signature)
                scores = [score for [score] in judged.scores]
                decisions = _decide(rule, scores)
                for name in paths:
                    outputs.write(name, _data(name, outputs, batch, scores, decisions, rule))
                tally.add(judged, scores, decisions, rule)
                outputs.commit(tally.n_rows, tally.state)
                if args.save_scale:
                    save_scales(judged.scales, args.save_scale)
            if not tally.n_rows:
                warn(f"{args.targets} holds no rows")
            outputs.finish()
        cost = [engine.meter.cost] if engine.meter.cost else []
    note(
        args,
        *([f"went on after {counted(done, 'row')} of an earlier run"] if done else []),
        *tally.lines(args, rule),
        *cost,
        signature=judging.merged(map(Signature.parse, tally.signatures)),
    )
    if tally.n_rows and tally.n_open == tally.n_rows:
        warn("nothing could be scored, so nothing was kept")
        return ERROR
    return OK if tally.statuses["ok"] == tally.n_rows and not tally.n_unsure else INCOMPLETE


@dataclass
class Tally:
    """What came of the rows so far. All of it is JSON, so that another run can go on with it.

    n_open : unscored rows that their low and high do not decide. unsure, unscored : reasons
    """

    n_rows: int = 0
    n_questions: int = 0
    shape: judging.Shape = (0, 0, 0)
    saved: tuple[int, int] = (0, 0)
    n_unmet: int = 0
    n_open: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    decisions: Counter[str] = field(default_factory=Counter)
    signatures: dict[str, None] = field(default_factory=dict)
    unsure: Reasons = field(default_factory=Reasons)
    unscored: Reasons = field(default_factory=Reasons)

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> Tally:
        if not state:
            return cls()
        values = dict(state)
        values |= {name: tuple(state[name]) for name in ("shape", "saved")}
        values |= {name: Counter(state[name]) for name in ("statuses", "decisions")}
        values |= {name: Reasons(state[name]) for name in ("unsure", "unscored")}
        return cls(**values | {"signatures": dict.fromkeys(state["signatures"])})

    @property
    def state(self) -> dict[str, Any]:
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        values |= {name: values[name].groups for name in ("unsure", "unscored")}
        return values | {"signatures": list(self.signatures)}

    @property
    def n_unsure(self) -> int:
        """Without what is unscored."""
        return self.decisions["unsure"] - self.n_open

    def add(
        self, judged: judging.Judged, scores: Sequence[Score], decisions: Sequence[Decision], rule: AnyRule
    ) -> None:
        self.n_rows += len(scores)
        self.n_questions += judged.n_questions
        self.shape = judging.joined(self.shape, judged.shape)
        self.saved = self.saved[0] + judged.saved[0], self.saved[1] + judged.saved[1]
        self.n_unmet += judged.n_unmet
        self.statuses.update(score.status for score in scores)
        self.decisions.update(decisions)
        self.signatures |= dict.fromkeys(map(str, judged.used))
        for score, decision in zip(scores, decisions, strict=True):
            if score.status == "unscored":
                self.n_open += decision == "unsure"
                for reason in judging.reasons_of(score):
                    self.unscored.add(reason)
            elif decision == "unsure":
                for reason in judging.reasons_of(score) if score.reason else [_why(rule, score, decision)]:
                    self.unsure.add(reason)

    def lines(self, args: argparse.Namespace, rule: AnyRule) -> list[str]:
        decided = self.statuses["unscored"] - self.n_open
        return [
            judging.summed_up(args, self.shape, self.n_questions, self.statuses, self.saved, self.n_unmet),
            *(["unsure:", *lines] if (lines := self.unsure.lines()) else []),
            *(["unscored:", *lines] if (lines := self.unscored.lines()) else []),
            f"kept {self.decisions['kept']} of {self.n_rows} {rule.words}; {self.decisions['dropped']} dropped, "
            + (f"{self.n_unsure} unsure, " if self.n_unsure else "")
            + f"{self.n_open} unscored"
            + (f"; {decided} unscored by what they can be at least or most" if decided else ""),
        ]


def _run(args: argparse.Namespace, references: References, engine: Engine) -> str:
    """A hash of all that the outputs follow from: the options, and the files that they name, by their size, time and
    first bytes."""
    free = ("run", "engine", "quiet", "debug", "store", "in_flight", "within_demo")
    options = {name: value for name, value in sorted(vars(args).items()) if name not in free}
    files = [args.targets, args.scale, args.certificate, args.prompts, args.task]
    known = [_of_file(Path(path)) for path in files if path and Path(path).exists()]
    return text_hash(__version__, json.dumps(options, default=str), references.hash, str(engine.signature), repr(known))


def _of_file(path: Path) -> list[tuple[str, int, int, str]]:
    files = sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]
    found = []
    for file in files:
        status = file.stat()
        with file.open("rb") as data:
            head = hashlib.sha256(data.read(1 << 16)).hexdigest() if file.is_file() else ""
        found.append((os.path.realpath(file), status.st_size, status.st_mtime_ns, head))
    return found


def _decide(rule: AnyRule, scores: Sequence[Score]) -> list[Decision]:
    """As rule.decide of each; those without limits, which are most, together."""
    plain = [index for index, score in enumerate(scores) if score.status == "ok" and score.low is None]
    value = np.array([scores[index].value for index in plain], dtype=np.float64)
    together = dict(zip(plain, rule.decide_many(value).tolist(), strict=True)) if plain else {}
    return [together[index] if index in together else rule.decide(score)[0] for index, score in enumerate(scores)]


def _why(rule: AnyRule, score: Score, decision: Decision) -> str:
    return rule.decide(score)[1] if score.value is None else rule.why(score, decision)


def _data(
    name: str,
    outputs: Outputs,
    batch: RowBatch,
    scores: Sequence[Score],
    decisions: Sequence[Decision],
    rule: AnyRule,
) -> bytes:
    """What an output gets of a batch: kept rows as they were read, others with the column synthscore."""
    which = {"kept"} if name == "kept" else {name} if "unsure" in outputs.paths else {"dropped", "unsure"}
    chosen = [index for index, decision in enumerate(decisions) if decision in which]
    about = [_about(scores[i], decisions[i], rule) for i in chosen] if name != "kept" else []
    if batch.table is not None and outputs.paths[name].lower().endswith(".parquet"):
        return outputs.arrow(name, batch.table, chosen, None if name == "kept" else ("synthscore", _ABOUT, about))
    if name == "kept":
        if batch.lines:
            lines = [batch.lines[index] for index in chosen]
            return "".join([line if line.endswith("\n") else f"{line}\n" for line in lines]).encode()
        return b"".join(json_line(row.values) for i in chosen if isinstance(row := batch.rows[i], Row))
    data = []
    for index, one in zip(chosen, about, strict=True):
        row = batch.rows[index]
        values = row.values if isinstance(row, Row) else {"unreadable": vars(row).get("value")}
        data.append(json_line({**values, "synthscore": one}))
    return b"".join(data)


_ABOUT = dict.fromkeys(("score", "stderr", "low", "high"), float) | dict.fromkeys(
    ("decision", "why", "status", "reason"), str
)


def _about(score: Score, decision: Decision, rule: AnyRule) -> dict[str, Any]:
    why = _why(rule, score, decision)
    values = (score.value, score.stderr, score.low, score.high, decision, why, score.status, score.reason)
    return dict(zip(_ABOUT, values, strict=True))


def _rule(args: argparse.Namespace) -> AnyRule:
    if (args.min_score is None) == (args.certificate is None):
        raise UsageError("filter decides by --min-score X or by --certificate FILE: give one of them")
    if args.certificate is not None:
        if args.alpha is not None:
            raise UsageError("--alpha goes with --min-score: a certificate has its own confidence. Leave it out")
        return Certificate.load(args.certificate)
    if args.alpha is None:
        return MinScore(args.min_score)
    if args.scoring != "anchored":
        raise UsageError("--alpha needs the error of each score: add --scoring anchored")
    try:
        return AtLeast(args.min_score, args.alpha)
    except InputError as error:  # which names alpha
        raise UsageError(f"--{error}") from error


def _check_attribute(args: argparse.Namespace, held: judging.Held) -> None:
    names = list(dict.fromkeys(name for attributes in held.values() for name in attributes))
    names = args.attribute or names
    if len(names) != 1:
        raise UsageError(
            f"filter decides by one attribute, and there are {len(names)}: {', '.join(names)}. Say which with one "
            "--attribute NAME; for several, filter the result again"
        )


def _check_threshold(args: argparse.Namespace, rule: AnyRule, references: References, held: judging.Held) -> None:
    sizes = sorted({ladder.n_rungs for ladder in references if ladder.attribute in held.get(ladder.task, ())})
    if isinstance(rule, Certificate):
        return
    if len(sizes) > 1:
        warn(f"the ladders have {', '.join(map(str, sizes))} rungs: {args.min_score:g} means another quality on each")
    check_on_scale(args.min_score, sizes[-1], args.scoring)
