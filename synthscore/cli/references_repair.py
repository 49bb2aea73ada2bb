"""`synthscore references repair`: rungs that are at fault, written again by their own writer."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from ..checking.findings import Finding, flagged, text_findings
from ..checking.repair import Repair, repair
from ..engine import Engine, Sampling
from ..errors import LadderError, ReferencesError, SynthscoreError
from ..ladders.compare import verify
from ..ladders.degraded import DegradedWriter
from ..ladders.prompted import PromptedWriter
from ..ladders.references import References
from ..ladders.release import DATA
from ..ladders.write import Writer
from ..signature import Signature
from ..types import Ladder, Rung, Task
from .common import (
    INCOMPLETE,
    OK,
    Commands,
    add_command,
    counted,
    note,
    open_model,
    reasons,
    spaced,
    table,
    warn,
    whole,
)
from .references_check import add_asking, by_task, check_options, chosen_ladders, judge_ladders

_ENOUGH = 5  # ladders by which a judge that sees none of them rise is known for it

TEXT = """
Examples:
  $ synthscore references repair ladders/
  $ synthscore references repair ladders/ --model Qwen/Qwen3-8B --attempts 5

Checks the ladders, and has every rung at fault written again by its own writer, with the same model and
decoding and the next seed; and the rungs that are written from it. A new text is taken only if what was
wrong is gone and nothing else of the ladder has become worse; otherwise the old one stays. What was
replaced or refused is kept with the rung ("history"). Saves after each round; a killed run is simply
repeated. The exit code is 3 where something is still flagged.
"""


def add(actions: Commands) -> None:
    parser = add_command(
        actions, "repair", run_repair, "references repair REFERENCES [options]", "have bad rungs written again", TEXT
    )
    parser.add_argument(
        "--attempts",
        type=whole(1),
        default=3,
        metavar="N",
        help="how often a rung is written again, at most (default: 3)",
    )
    parser.add_argument(
        "--writer-model", metavar="M", help="who writes the rungs that a model wrote (default: that model)"
    )
    add_asking(parser)


def run_repair(args: argparse.Namespace) -> int:
    check_options(args, writes=True)
    _check_folder(args.references)
    everything = References.load(args.references)
    args.revision = None
    chosen = chosen_ladders(args)
    repairs: list[Repair] = []
    left: list[Finding] = []
    with ExitStack() as stack:
        engine = None if args.no_judge else stack.enter_context(open_model(args))
        for task, ladders in by_task(chosen, args.task):
            found = _Findings(args, task, engine, ladders)
            contexts = {r.context.id: r.context for r in everything if r.context and r.task == task.name}
            mended, tried = repair(
                ladders,
                task,
                found.to_mend,
                _Writers(args, engine, stack),
                attempts=args.attempts,
                contexts=contexts.values(),
                save=lambda changed: _save(changed, args.references),
            )
            repairs += tried
            left += [finding for findings in found.all(mended) for finding in flagged(findings)]
    _print_repairs(repairs, left)
    taken = [each for each in repairs if not each.refused]
    also = sum(len(each.also) for each in taken)
    note(
        args,
        f"{counted(len(chosen), 'ladder')}: {counted(len(taken), 'rung')} written again and taken"
        f"{f', and {spaced(also)} that are written from them' if also else ''}; "
        f"{counted(len({_place(finding) for finding in left}), 'ladder')} still flagged",
        signature=f"references:{References.load(args.references).hash[:12]}",
    )
    return INCOMPLETE if left else OK


def _save(changed: Sequence[Ladder], folder: str) -> None:
    References(tuple(changed)).save(folder, merge=True)


def _check_folder(folder: str) -> None:
    """Texts that are not what their hashes say are not signed anew. raises : ReferencesError"""
    path = Path(folder)
    if not (path.is_dir() and (path / DATA).exists()):
        raise ReferencesError(
            f"cannot repair {folder}: it is no references folder here, which repair would write to. Download it "
            "first, or name the folder",
            source=folder,
        )
    problems = verify(folder)
    # A run that is killed between two files has changed texts, and neither their number nor what a manifest is.
    stale = [problem for problem in problems if problem.startswith(f"sha256 of {DATA} is")]
    if len(stale) < len(problems):
        other = next(problem for problem in problems if problem not in stale)
        raise ReferencesError(
            f"cannot repair {folder}: it is not what its hashes say ({counted(len(problems), 'problem')}, such as: "
            f"{other}). See all of them: synthscore references verify {folder}",
            source=folder,
        )
    if stale:
        warn(f"{folder}: {stale[0]}. An earlier run was killed while it saved: the manifest is written anew")
        References(()).save(folder, merge=True)


class _Findings:
    """What is wrong with ladders; and what of it is to be mended: a judge that sees no ladder of an attribute rise is
    no judge of single rungs either."""

    def __init__(self, args: argparse.Namespace, task: Task, engine: Engine | None, ladders: Sequence[Ladder]) -> None:
        self.args, self.task, self.engine = args, task, engine
        self.blind: set[tuple[str, int]] = set()
        placed = [] if engine is None else judge_ladders(args, ladders, task, engine)[1]
        for scale in (each.scale for each in placed):
            if not scale.judge.rungs_rise and len(scale.ladders) >= _ENOUGH:
                self.blind.add((scale.attribute, scale.n_rungs))
                warn(
                    f"the judge does not see the ladders of {task.name}/{scale.attribute} ({scale.n_rungs} rungs) "
                    "rise: they are mended only where their texts alone show a fault. Take another judge"
                )

    def all(self, ladders: Sequence[Ladder]) -> list[list[Finding]]:
        if self.engine is None:
            return [text_findings(ladder) for ladder in ladders]
        checked, *_ = judge_ladders(self.args, ladders, self.task, self.engine, place=False)
        return [each.findings for each in checked]

    def to_mend(self, ladders: Sequence[Ladder]) -> list[list[Finding]]:
        blind = [(ladder.attribute, ladder.n_rungs) in self.blind for ladder in ladders]
        seen = iter(self.all([ladder for ladder, no in zip(ladders, blind, strict=True) if not no]))
        return [text_findings(each) if no else next(seen) for each, no in zip(ladders, blind, strict=True)]


class _Writers:
    """Who wrote a rung, opened when first needed."""

    def __init__(self, args: argparse.Namespace, judge: Engine | None, stack: ExitStack) -> None:
        self.args, self.judge, self.stack = args, judge, stack
        self.engines: dict[str, Engine] = {}
        self.made: dict[str, Writer] = {}

    def __call__(self, ladder: Ladder, rung: Rung) -> Writer | str:
        writer = rung.provenance.get("writer")
        same = (r.provenance for r in (rung, *ladder.rungs) if r.provenance.get("writer") == writer)
        told = next((provenance for provenance in same if provenance.get("model")), rung.provenance)
        if writer == "degrade":
            if rung.fraction == 1:
                return "it is the good text itself, which no seed changes: give the context another reference"
            key = f"degrade {told.get('seed')}"
            return self.made.setdefault(key, DegradedWriter(seed=int(told.get("seed") or 0)))
        if writer != "prompt":
            return f"its writer is {str(writer or 'not known')!r}: edit the text by hand"
        names = ("model", "templates", "max_new_tokens", "temperature", "top_p", "seed")
        if missing := [name for name in names if told.get(name) is None]:
            return f"nothing says with what {', '.join(missing)} it was written"
        key = " ".join(str(told[name]) for name in names)
        if key not in self.made:
            self.made[key] = PromptedWriter(
                self._open(str(told["model"])),
                templates=told["templates"],
                sampling=Sampling(told["max_new_tokens"], told["temperature"], told["top_p"]),
                seed=told["seed"],
            )
        return self.made[key]

    def _open(self, wrote: str) -> Engine:
        """The model with this signature, or the one that --writer-model names instead."""
        written_by = dict(Signature.parse(wrote).parts).get("model", "")
        name = self.args.writer_model or written_by.partition("@")[0]
        if name not in self.engines:
            if self.judge is not None and name == self.args.model:
                self.engines[name] = self.judge
            else:
                own = argparse.Namespace(**{**vars(self.args), "model": name, "engine": None})
                if "://" not in name:
                    own.tokenizer = own.in_flight = None  # they are the judge's server's
                try:
                    self.engines[name] = self.stack.enter_context(open_model(own))
                except SynthscoreError as error:
                    raise LadderError(
                        f"cannot write rungs again: they are by {written_by!r}, and {name!r} does not open: {error}. "
                        "Say where it is with --writer-model (a folder, or http://HOST:PORT/v1#MODEL)"
                    ) from error
        engine = self.engines[name]
        opened = dict(engine.signature.parts).get("model", "")
        if not self.args.writer_model and opened != written_by:
            raise LadderError(
                f"cannot write rungs again: they are by {written_by!r}, and what opens as {name!r} is {opened!r}, "
                "expected the same. Name a model with --writer-model to have it write instead"
            )
        return engine


def _place(finding: Finding) -> tuple[str, str, str]:
    return finding.task, finding.context_id, finding.attribute


def _print_repairs(repairs: Sequence[Repair], left: Sequence[Finding]) -> None:
    groups: dict[tuple[str, str], list[Repair]] = {}
    for each in repairs:
        groups.setdefault((each.task, each.attribute), []).append(each)
    rows = []
    for (task, attribute), group in groups.items():
        taken = {(each.context_id, each.level) for each in group if not each.refused}
        tried = {(each.context_id, each.level) for each in group}
        still = sum((finding.task, finding.attribute) == (task, attribute) for finding in left)
        rows.append((task, attribute, len(tried), len(taken), len(tried - taken), still))
    if not rows:
        print("No rung is to be written again.")
        return
    print(table(rows, ("task", "attribute", "rungs at fault", "mended", "kept as they were", "findings left")))
    refused = [each.refused for each in repairs if each.refused]
    if refused:
        print("\nWhy new texts were not taken:")
        print("\n".join(reasons(refused)))
