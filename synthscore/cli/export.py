"""`synthscore export`: texts -> tasks for people, in the form that a tool for labels imports."""

from __future__ import annotations

import json

from ..integrations import Labels
from .messages import OK, Messages, counted
from .options import Input, LaddersIn, Output, Positive, RowsIn, Seed


def export(
    texts: RowsIn,
    /,
    *,
    to: Labels,
    output: Output = "-",
    sample: Positive | None = None,
    seed: Seed = 0,
    references: LaddersIn = None,
    input: Input = Input(),
    messages: Messages = Messages(),
) -> int:
    """Texts -> tasks for people to rate.

    For example:
      $ synthscore export targets.jsonl --to label-studio --sample 300 -o tasks.json
      $ synthscore export unsure.jsonl --to argilla --references ladders/ -o records.json

    Writes a JSON array that Label Studio, or Argilla, imports: the text, and its context where the rows or
    the ladders have it; no score, which would lead whoever rates. Their ratings come back with
    `synthscore calibrate scores.jsonl --labels export.json --labels-from label-studio --good-from 4`.

    Labels speak for all texts only if they are of texts drawn at random from all: --sample N. Each task says
    how it was drawn, and from how many texts; calibrate and estimate refuse texts that `filter` did not
    keep, and those drawn from fewer than are scored, as from what it kept.

    Args:
        to: whose form
        output: a .json file, or - for stdout
        sample: so many texts, drawn at random (default: all)
        references: folder or hub id of the ladders, which hold the contexts' texts
    """
    from ..integrations.formats import tasks
    from ..io.files import read_rows
    from ..io.write import plain, write_whole
    from ..ladders.references import References

    ladders = References.load(references) if references else ()
    contexts = {ladder.context_id: ladder.context.text for ladder in ladders if ladder.context}
    rows = list(read_rows(texts, encoding=input.encoding, fields=input.fields))
    made = tasks(rows, to, sample, seed, contexts)
    write_whole(output, json.dumps(plain(made), ensure_ascii=False, indent=1).encode() + b"\n")
    messages.note(f"{counted(len(made), 'text')} of {len(rows)}")
    return OK
