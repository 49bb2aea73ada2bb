"""`synthscore verify`: do stored answers still hold?"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from .exits import INCOMPLETE, OK, UsageError
from .messages import Messages
from .options import Running, Whole
from .talk import clip, counted, reasons, table

if TYPE_CHECKING:
    from ..engines.verify import Drift


def verify(
    path: str,
    /,
    *,
    engine: Annotated[str, Parameter(group="sample")] = "",
    kind: Annotated[Literal["labels", "text", "tokens"] | None, Parameter(group="sample")] = None,
    sample: Annotated[Whole, Parameter(group="sample")] = 100,
    seed: Annotated[Whole, Parameter(group="sample")] = 0,
    tolerance: Annotated[float, Parameter(group="sample")] = 1e-3,
    model: Annotated[str | None, Parameter(group="model")] = None,
    revision: Annotated[str | None, Parameter(group="model")] = None,
    backend: Annotated[str | None, Parameter(group="model")] = None,
    opening: Running = Running(),
    messages: Messages = Messages(),
) -> int:
    """Ask stored answers again: have they drifted?

    For example:
      $ synthscore verify answers.sqlite
      $ synthscore verify run/ --sample 500 --backend exact
      $ synthscore verify answers.sqlite --engine exact --model models/judge

    Asks a sample of what is stored again, of the model itself, and prints how far its answers have drifted:

      stored       answers of that kind that are kept with their question, so that they can be asked again
      replayed     how many were, drawn at random; failed: how many could not be answered now
      beyond       answers with a label or token beyond the tolerance; texts that are not identical
      max          largest |difference| of the log-probabilities of labels or tokens, nats

    The model is the one that the stored signature names, in its dtype and backend; --model, --dtype and --backend
    replace them, and the parts of the signatures that then differ are listed. The exit code is 3 where something is
    beyond the tolerance or could not be answered.

    Args:
        path: a store, or a folder with one or more *.sqlite
        engine: only answers whose signature contains this
        kind: only verdicts (labels), texts, or texts that were read (tokens)
        sample: answers of each engine and kind
        seed: of the sample
        tolerance: most that the log-probability of a label or token may differ, nats
        model: asked instead of the model that the signature names
        revision: commit, tag or branch of a model on the hub
        backend: how the model is run (default: as the signature says)
    """
    from ..engine import KINDS
    from ..engines.verify import verify as verified
    from ..errors import InputError

    named = {name: value for name, value in (("backend", backend), ("revision", revision)) if value is not None}
    try:
        drifts = verified(
            path,
            engine=engine,
            kinds=[kind] if kind else KINDS,
            n_sample=sample,
            seed=seed,
            tolerance=tolerance,
            model=model,
            options=opening.options | named,
            watch=lambda n: messages.bar(n, "answers"),
        )
    except InputError as error:  # such as one --model in place of several
        raise UsageError(str(error)) from error
    print("\n\n".join(_shown(drift) for drift in drifts))
    replayed = counted(sum(drift.n_replayed for drift in drifts), "answer")
    beyond, failed = sum(drift.n_beyond for drift in drifts), sum(len(drift.failures) for drift in drifts)
    messages.note(f"{replayed} replayed: {beyond} beyond {tolerance:g} nats, {failed} failed")
    return OK if all(drift.ok for drift in drifts) else INCOMPLETE


def _shown(drift: Drift) -> str:
    lines = [str(drift.stored)]
    lines += [f"  {name}: {was or 'none'} is now {now or 'none'}" for name, (was, now) in drift.changed.items()]
    headers = ("kind", "stored", "replayed", "failed", "beyond", "max")
    largest = "-" if math.isnan(drift.max_diff) else f"{drift.max_diff:.1e}"
    row = (drift.kind, drift.n_stored, drift.n_replayed, len(drift.failures), drift.n_beyond, largest)
    lines += [f"  {line}" for line in table([row], headers).split("\n")]
    if drift.n_censored:
        lines.append(f"  left out, because a server did not report them: {counted(drift.n_censored, 'label')}")
    if drift.n_beyond and drift.worst:
        lines.append(f"  furthest: {drift.worst[:12]}")
    lines += [f"  {clip(text, 140)}" for text in drift.texts[:5]]
    if len(drift.texts) > 5:
        lines.append(f"  and {len(drift.texts) - 5} other texts")
    return "\n".join([*lines, *reasons(drift.failures)])
