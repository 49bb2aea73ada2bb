"""A folder of ladders -> the same with fewer faults, saved after every round: who finds them, and who writes again."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from ..engine import Engine, Sampling
from ..errors import LadderError, ReferencesError, SynthscoreError
from ..judging.asking import Asking
from ..ladders.degraded import DegradedWriter
from ..ladders.prompted import PromptedWriter
from ..ladders.references import References, read_manifest
from ..ladders.release import DATA, Key, key_of
from ..ladders.write import Writer
from ..signature import Signature
from ..types import Ladder, Rung
from .check import by_task, check
from .findings import Finding, flagged
from .mending import Repair, mend

ENOUGH = 5  # ladders by which a judge that sees none of them rise is known for it
_WRITTEN_WITH = ("model", "templates", "max_new_tokens", "temperature", "top_p", "seed")


@dataclass(frozen=True, slots=True)
class RepairReport:
    """What was tried, what is still flagged, by ladder, and what the folder holds now."""

    repairs: tuple[Repair, ...]
    left: Mapping[Key, Sequence[Finding]]
    n_ladders: int
    references: References
    warnings: tuple[str, ...] = ()


def repair(
    folder: str | os.PathLike[str],
    judge: Engine | None,
    open_writer: Callable[[str], Engine],
    asking: Asking = Asking(),
    *,
    writer_model: str | None = None,
    task: str | None = None,
    attribute: str | None = None,
    attempts: int = 3,
) -> RepairReport:
    """Have every rung at fault written again by its own writer, and save after each round.

    judge : None: what the texts alone show is mended. asking, task : as of `check`
    open_writer : name -> the model that wrote, opened. writer_model : one to write instead
    attempts : how often a rung is written again, at most
    raises : ReferencesError for a folder that is not what its hashes say; LadderError where a writer cannot be opened
    """
    if not (Path(folder) / DATA).exists():
        message = f"cannot repair {folder}: it is no references folder here. Download it first, or name the folder"
        raise ReferencesError(message, source=str(folder))
    everything = References.load(folder)
    if not read_manifest(Path(folder)).get("sha256"):  # a save was killed
        everything.save(folder, merge=True)
    chosen = everything.select(task=task, attribute=attribute)
    writers = Writers(open_writer, writer_model, everything.ladders)
    repairs: list[Repair] = []
    warnings: list[str] = []
    left: dict[Key, list[Finding]] = {}

    def find(judge: Engine | None, some: Sequence[Ladder]) -> list[list[Finding]]:
        report = check(some, judge, asking, task=task, place=False)
        return [each.findings for each in report.ladders]

    for own, ladders in by_task(chosen.ladders, task):
        placed = check(ladders, judge, asking, task=task).placed
        blind = set()
        for scale in (each.scale for each in placed):
            if not scale.judge.rungs_rise and len(scale.ladders) >= ENOUGH:
                blind.add((scale.attribute, scale.n_rungs))
                warnings.append(
                    f"the judge does not see the ladders of {own.name}/{scale.attribute} ({scale.n_rungs} rungs) rise: "
                    "they are mended only where their texts alone show a fault. Take another judge"
                )
        for trusted in (True, False):
            group = [each for each in ladders if ((each.attribute, each.n_rungs) not in blind) == trusted]
            mended, tried = mend(
                group,
                own,
                partial(find, judge if trusted else None),
                writers,
                attempts=attempts,
                save=lambda changed: References(tuple(changed)).save(folder, merge=True),
            )
            repairs += tried
            for ladder, findings in zip(mended, find(judge, mended), strict=True):
                if bad := flagged(findings):
                    left[key_of(ladder)] = bad
    return RepairReport(tuple(repairs), left, len(chosen), References.load(folder), tuple(warnings))


@dataclass
class Writers:
    """Who wrote a rung, opened when first needed: ladder, rung -> its writer, or why nobody can write it again.

    open : name -> the model of this name. instead : one that writes whatever a model wrote
    among : ladders, from whose contexts damage may borrow
    """

    open: Callable[[str], Engine]
    instead: str | None = None
    among: Sequence[Ladder] = ()
    _engines: dict[str, Engine] = field(default_factory=dict)
    _made: dict[tuple[object, ...], Writer] = field(default_factory=dict)

    def __call__(self, ladder: Ladder, rung: Rung) -> Writer | str:
        """raises : LadderError where the model that wrote does not open"""
        name = rung.provenance.get("writer")
        same = (each.provenance for each in (rung, *ladder.rungs) if each.provenance.get("writer") == name)
        wrote = next((provenance for provenance in same if provenance.get("model")), rung.provenance)
        if name == "degrade":
            if rung.fraction == 1:
                return "it is the good text itself, which no seed changes: give the context another reference"
            seed = int(wrote.get("seed") or 0)
            key: tuple[object, ...] = (name, seed, ladder.task)
            if key not in self._made:
                lenders = [each.context for each in self.among if each.task == ladder.task and each.context]
                self._made[key] = DegradedWriter(seed=seed, lenders=lenders)
            return self._made[key]
        if name != "prompt":
            return f"its writer is {str(name or 'not known')!r}: edit the text by hand"
        if missing := [part for part in _WRITTEN_WITH if wrote.get(part) is None]:
            return f"nothing says with what {', '.join(missing)} it was written"
        model, templates, max_new_tokens, temperature, top_p, seed = (wrote[part] for part in _WRITTEN_WITH)
        sampling = Sampling(max_new_tokens, temperature, top_p, tuple(wrote.get("stop") or ()))
        key = (model, templates, sampling, seed)
        if key not in self._made:
            engine = self._engine(str(model))
            self._made[key] = PromptedWriter(engine, templates=templates, sampling=sampling, seed=seed)
        return self._made[key]

    def _engine(self, wrote: str) -> Engine:
        """The model with this signature, or the one that writes instead."""
        written_by = dict(Signature.parse(wrote).parts).get("model", "")
        name = self.instead or written_by.partition("@")[0]
        if name not in self._engines:
            try:
                self._engines[name] = self.open(name)
            except SynthscoreError as error:
                raise LadderError(
                    f"cannot write rungs again: they are by {written_by!r}, and {name!r} does not open: {error}. "
                    "Say where it is with --writer-model (a folder, or http://HOST:PORT/v1#MODEL)"
                ) from error
        opened = dict(self._engines[name].signature.parts).get("model", "")
        if not self.instead and opened != written_by:
            raise LadderError(
                f"cannot write rungs again: they are by {written_by!r}, and what opens as {name!r} is {opened!r}, "
                "expected the same. Name a model with --writer-model to have it write instead"
            )
        return self._engines[name]
