"""Each id's first row: as a dict of all ids finds it, over any number of batches, and in no more memory for it."""

import random
import tracemalloc
from contextlib import closing

import pytest

from synthscore.errors import InputError
from synthscore.io import files
from synthscore.io.files import IdRegister, read_items
from synthscore.types import Target


def reasons(rows):
    items = [item for batch in read_items(rows) for item in batch.items]
    return ["" if isinstance(item.target, Target) else item.target.of_row for item in items]


def row(id_, attribute="fluency"):
    return {"id": id_, "context_id": "c1", "text": "A text.", "attribute": attribute}


@pytest.mark.parametrize("batch", [1, 3, 1024])
def test_the_second_row_of_an_id_is_refused_whichever_batch_holds_the_first(batch, monkeypatch):
    monkeypatch.setattr(files, "BATCH", batch)
    rng = random.Random(batch)
    rows = [row(f"t{rng.randrange(40)}", rng.choice(["fluency", "coherence", ""])) for _ in range(200)]
    expected = []
    first_rows = {}
    for number, one in enumerate(rows, 1):
        attribute, id_ = one["attribute"], one["id"]
        first = first_rows.setdefault((attribute, id_), number)
        reason = f"row {number}: target id {id_!r} was already used by row {first}"
        expected.append("" if first == number else reason)
    assert [reason.partition(". ")[0] for reason in reasons(rows)] == expected


def test_ids_that_differ_in_what_a_database_might_take_for_one_are_two(monkeypatch):
    monkeypatch.setattr(files, "BATCH", 1)
    ids = ["1", "01", "1.0", "a", "A", "a ", "a\x00", "a\x00b", "é", "e\u0301"]
    rows = [*(row(id_) for id_ in ids), row("1", "half a pair \ud800"), row("1", "half a pair \ud801")]
    assert reasons(rows) == [""] * len(rows)
    assert all(reasons(rows + rows)[len(rows) :])


def test_memory_does_not_grow_with_the_ids():
    def peak(n_batches):
        with closing(IdRegister()) as register:
            tracemalloc.start()
            for start in range(0, n_batches * 1024, 1024):
                register.first_rows({("", f"id {number}"): number for number in range(start, start + 1024)})
            _, most = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        return most

    assert peak(40) < peak(10) + 200_000  # bytes; a dict of all ids would take 5 MB more


def test_a_full_disk_is_said_with_what_to_do():
    with closing(IdRegister()) as register:
        for start in (1, 2):
            register.first_rows({("", f"id {start}"): start})
        register._db.execute("PRAGMA max_page_count=2")
        with pytest.raises(InputError, match=r"ids of the rows .* is full\. Make room there, or .* TMPDIR"):
            register.first_rows({("", f"id {number}"): number for number in range(10_000)})
