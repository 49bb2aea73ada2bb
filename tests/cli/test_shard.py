"""`--shard i/n`: all shards of a run together write what one machine would have written."""

from pathlib import Path

import pytest

from synthscore.cli.app import main
from synthscore.io.files import read_rows
from synthscore.io.shards import Shard
from synthscore.ladders.references import References
from synthscore.ladders.tables import key_of
from synthscore.resources import resource
from tests import factories
from tests.cli.given import CONTEXTS, parse, read, shown, target, write

MORE = [f"c{i}" for i in range(1, 10)]
N = pytest.mark.parametrize("n", [1, 2, 7])


@pytest.fixture
def many(engine, folder):
    """Nine contexts, and rows of them in no order: broken ones, without ids, of the same context far apart."""
    ladders = [
        factories.ladder(name, text="A text of quality {quality}, which is all of it.", context=f"Article {name}.")
        for name in MORE
    ]
    References([*ladders, *(factories.ladder(name, "fluency", text="Of quality {quality}.") for name in MORE)]).save(
        "ladders"
    )
    rows = [target(MORE[(5 * i) % 9], i % 6, note=f"é{i}") for i in range(40)]
    rows[3] |= {"attribute": "fluency"}
    write("targets.jsonl", *rows[:9], "not JSON", target("c99", 3), {"context_id": "c1"}, *rows[9:])


def run_shards(n, verb, *argv, out="out-{}.jsonl", **also):
    """Each shard by itself. also : option -> a further output"""
    for i in range(1, n + 1):
        outputs = [word for option, name in also.items() for word in (f"--{option}", name.format(i))]
        assert main([verb, *argv, "--shard", f"{i}/{n}", "-o", out.format(i), *outputs]) in (0, 1, 3)


def joined(n, name):
    """What `cat` makes of the files of all shards."""
    return b"".join(Path(name.format(i)).read_bytes() for i in range(1, n + 1))


def hold_the_same_rows(n, whole, name):
    """The shards' files together have the rows of one machine's, and each of them has its rows in its order."""
    lines = Path(whole).read_bytes().splitlines()
    parts = [Path(name.format(i)).read_bytes().splitlines() for i in range(1, n + 1)]
    in_order = all(part == [line for line in lines if line in part] for part in parts)
    return in_order and sorted(joined(n, name).splitlines()) == sorted(lines)


@N
def test_scores_of_all_shards_are_those_of_one_machine(many, n):
    argv = ["targets.jsonl", "--references", "ladders"]
    assert main(["score", *argv, "-o", "whole.jsonl"]) == 3
    run_shards(n, "score", *argv)
    assert hold_the_same_rows(n, "whole.jsonl", "out-{}.jsonl")
    assert len(read("whole.jsonl")) == 85  # 43 rows on two attributes, but for one that names its own


@pytest.mark.parametrize("ending", [".csv", ".jsonl.gz", ".parquet"])
@pytest.mark.parametrize("verb", [["score"], ["filter", "--min-score", "2.5"]])
def test_a_shard_writes_every_format(many, verb, ending):
    argv = [*verb, "targets.jsonl", "--references", "ladders", "-a", "coherence"]
    main([*argv, "--shard", "1/2", "-o", "part.jsonl"])
    main([*argv, "--shard", "1/2", "-o", f"part{ending}"])
    lines, written = ([row.values for row in read_rows(name)] for name in ("part.jsonl", f"part{ending}"))
    for column in ("context_id", "system"):
        assert [row.get(column) or None for row in written] == [row.get(column) or None for row in lines]
    assert 0 < len(lines) < 40


def test_a_shard_may_write_to_stdout(many, capsys):
    argv = ["score", "targets.jsonl", "--references", "ladders", "--shard", "1/2"]
    main([*argv, "-o", "part.jsonl"])
    capsys.readouterr()
    main(argv)
    assert capsys.readouterr().out == Path("part.jsonl").read_text(encoding="utf-8")


@N
def test_kept_dropped_and_unsure_rows_of_all_shards_are_those_of_one_machine(many, n):
    argv = ["targets.jsonl", "--references", "ladders", "-a", "coherence", "--min-score", "2.5"]
    main(["filter", *argv, "-o", "kept.jsonl", "--dropped", "dropped.jsonl", "--unsure", "unsure.jsonl"])
    run_shards(n, "filter", *argv, out="kept-{}.jsonl", dropped="dropped-{}.jsonl", unsure="unsure-{}.jsonl")
    for name in ("kept", "dropped", "unsure"):
        assert hold_the_same_rows(n, f"{name}.jsonl", f"{name}-{{}}.jsonl")
        assert len(read(f"{name}.jsonl")) > 2


@N
def test_a_filter_of_tables_is_shared_out(many, n):
    import datasets

    datasets.Dataset.from_list(parse(Path("targets.jsonl").read_text().replace("not JSON\n", ""))[:9]).to_parquet(
        "targets.parquet"
    )
    argv = ["targets.parquet", "--references", "ladders", "-a", "coherence", "--min-score", "2.5"]
    main(["filter", *argv, "-o", "whole.jsonl"])
    run_shards(n, "filter", *argv)
    assert hold_the_same_rows(n, "whole.jsonl", "out-{}.jsonl")


@N
def test_a_filter_of_tables_keeps_the_types_of_their_columns_in_every_shard(many, n):
    import datetime

    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = parse(Path("targets.jsonl").read_text().replace("not JSON\n", ""))[:9]
    rows = [{**row, "small": index, "day": datetime.date(2024, 1, 1)} for index, row in enumerate(rows)]
    kinds = {"context_id": pa.string(), "text": pa.string(), "small": pa.int8(), "day": pa.date32()}
    table = pa.Table.from_pylist(rows, pa.schema(list(kinds.items()), metadata={"made": "for a test"}))
    pq.write_table(table, "targets.parquet", row_group_size=2)
    argv = ["targets.parquet", "--references", "ladders", "-a", "coherence", "--min-score", "2.5"]
    main(["filter", *argv, "-o", "whole.parquet"])
    run_shards(n, "filter", *argv, out="out-{}.parquet", dropped="dropped-{}.parquet")
    parts = [pq.read_table(f"out-{i}.parquet") for i in range(1, n + 1)]
    assert all(part.schema.equals(table.schema, check_metadata=True) for part in parts)  # also of a shard without rows
    together = [row for part in parts for row in part.to_pylist()]
    assert sorted(together, key=lambda row: row["small"]) == pq.read_table("whole.parquet").to_pylist()
    dropped = [row for i in range(1, n + 1) for row in pq.read_table(f"dropped-{i}.parquet").to_pylist()]
    assert len(together) + len(dropped) == 9
    assert all(row["synthscore"]["decision"] == "dropped" for row in dropped)


def all_ladders(n):
    """Of the folders of all shards."""
    return sorted((each for i in range(1, n + 1) for each in References.load(f"out-{i}")), key=key_of)


@N
def test_degraded_ladders_of_all_shards_are_those_of_one_machine(folder, n):
    """Their foreign sentences are those of contexts that other shards write."""
    argv = [str(resource("data/demo/summarization.jsonl")), "--task", "summarization", "-a", "relevance"]
    main(["generate", *argv, "-a", "consistency", "-o", "whole"])
    run_shards(n, "generate", *argv, "-a", "consistency", out="out-{}/")
    assert all_ladders(n) == list(References.load("whole"))
    kinds = {kind for each in References.load("whole") for rung in each.rungs for kind in rung.provenance["kinds"]}
    assert any("foreign" in kind for kind in kinds)


def test_prompted_ladders_of_all_shards_are_those_of_one_machine(engine):
    engine.writer = lambda prompt, seed: f"Text {seed} has {' '.join(f'word{seed * k % 9973}' for k in range(1, 8))}."
    write("contexts.jsonl", *({"id": name, "text": text} for name, text in CONTEXTS.items()))
    argv = ["contexts.jsonl", "--task", "summarization", "-a", "coherence", "--model", "any"]
    main(["generate", *argv, "-o", "whole"])
    run_shards(7, "generate", *argv, "--store", "none", out="out-{}")
    assert all_ladders(7) == list(References.load("whole"))


@N
@pytest.mark.parametrize("models", [[], ["--model", "one", "--model", "two"]])
def test_comparisons_of_all_shards_are_those_of_one_machine_and_rank_alike(many, n, models):
    rows = [
        target(name, quality, id=f"{name}/{quality}", context=f"On {name}.") for quality in (1, 4, 2) for name in MORE
    ]
    write("candidates.jsonl", *rows)
    argv = ["candidates.jsonl", "--task", "summarization", "-a", "coherence", "-a", "fluency", "--budget", "4", *models]
    main(["compare", *argv, "-o", "whole.jsonl"])
    run_shards(n, "compare", *argv)
    assert hold_the_same_rows(n, "whole.jsonl", "out-{}.jsonl")
    if not models:
        Path("joined.jsonl").write_bytes(joined(n, "out-{}.jsonl"))
        main(["rank", *argv, "-o", "ranked.jsonl"])
        assert main(["rank", "--comparisons", "joined.jsonl", "-o", "ranked-too.jsonl"]) == 0
        ranks = [[(row["id"], row["rank"]) for row in read(name)] for name in ("ranked.jsonl", "ranked-too.jsonl")]
        assert sorted(ranks[0]) == sorted(ranks[1])


def test_an_order_is_not_shared_out(many, capsys):
    assert main(["rank", "targets.jsonl", "--task", "story", "-a", "coherence", "--shard", "1/2"]) == 2
    shown(capsys.readouterr().err, "compare --shard", "rank --comparisons")


@pytest.mark.parametrize("text", ["0/2", "3/2", "2", "a/b", "1/2/3", "1/0"])
def test_a_shard_is_one_of_n(many, capsys, text):
    assert main(["score", "targets.jsonl", "--references", "ladders", "--shard", text, "-o", "x.jsonl"]) == 2
    shown(capsys.readouterr().err, "shard is")


@pytest.mark.parametrize("verb", [["score"], ["filter", "--min-score", "3", "-a", "fluency"]])
def test_scores_that_are_fitted_to_all_texts_are_not_shared_out(many, engine, capsys, verb):
    argv = ["targets.jsonl", "--references", "ladders", "--shard", "1/2", "-o", "x.jsonl", "--scoring", "anchored"]
    assert main([*verb, *argv]) == 2
    shown(capsys.readouterr().err, "here not all are there at once")
    assert not engine.calls


@pytest.mark.parametrize("n", [2, 7, 100])
def test_shards_are_of_about_the_same_size_and_every_context_is_in_one(n):
    owners = [[i for i in range(1, n + 1) if Shard(i, n).owns(f"context {k}")] for k in range(60 * n)]
    assert {len(each) for each in owners} == {1}
    counts = [owners.count([i]) for i in range(1, n + 1)]
    assert min(counts) > 20
    assert max(counts) < 110


def test_a_context_belongs_to_the_same_shard_in_every_version():
    """Or a run that one version began could not be ended by the next."""
    assert [next(i for i in range(1, 8) if Shard(i, 7).owns(name)) for name in MORE] == [3, 5, 1, 2, 1, 6, 6, 1, 1]
