"""`synthscore merge`: what the shards of a run wrote -> what one machine would have written."""

from __future__ import annotations

from pathlib import Path

from .exits import OK
from .messages import Messages
from .options import Output
from .talk import counted


def merge(*shards: str, output: Output, messages: Messages = Messages()) -> int:
    """Files or folders of all shards -> one.

    For example:
      $ synthscore merge scores-1.jsonl scores-2.jsonl -o scores.jsonl
      $ synthscore merge ladders-1/ ladders-2/ -o ladders/

    Puts together what a verb wrote with --shard 1/n to --shard n/n: scores, kept, dropped or unsure rows, comparisons,
    or folders of ladders. All shards must be there, each once, of the same input, by the same judge, with the same
    options; FILE.shard, beside each FILE, says so. The output is, byte for byte, what one machine would have written
    without --shard: a .jsonl, .jsonl.gz, .csv or .tsv file, or a folder of ladders, which keeps others that it has.

    Args:
        shards: the files, or the folders, of all shards of one run, in any order
        output: the file or folder to write
    """
    from ..io.shards import merge_rows
    from ..ladders.references import merge_ladders

    if shards and all(map(Path.is_dir, map(Path, shards))):
        found = f"{output} now holds {counted(len(merge_ladders(shards, output)), 'ladder')}"
    else:
        found = counted(merge_rows(shards, output), "row")
    messages.note(f"{counted(len(shards), 'shard')}: {found}")
    return OK
