"""`--shard i/n` and `synthscore merge`: together, shards write what one machine would have written, to the byte."""

import json
import shutil
from pathlib import Path

import pytest

from synthscore.cli.app import main
from synthscore.io.shards import Shard
from synthscore.ladders.references import References
from synthscore.resources import resource
from tests import factories
from tests.cli.given import CONTEXTS, ladder, parse, read, shown, target, write

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


def shared(n, verb, *argv, out="out-{}.jsonl", order=1, **also):
    """Each shard by itself, then all together. also : option -> a further output"""
    names = [out, *also.values()]
    for i in range(1, n + 1)[::order]:
        outputs = [word for option, name in also.items() for word in (f"--{option}", name.format(i))]
        assert main([verb, *argv, "--shard", f"{i}/{n}", "-o", out.format(i), *outputs]) in (0, 1, 3)
    for name in names:
        parts = [name.format(i) for i in range(1, n + 1)]
        assert main(["merge", *parts, "-o", name.format("all")]) == 0


def same(one, other):
    assert Path(one).read_bytes() == Path(other).read_bytes()


@N
def test_scores_of_shards_merged_are_those_of_one_machine(many, n):
    argv = ["targets.jsonl", "--references", "ladders"]
    assert main(["score", *argv, "-o", "whole.jsonl"]) == 3
    shared(n, "score", *argv, order=-1)
    same("whole.jsonl", "out-all.jsonl")
    assert len(read("whole.jsonl")) == 85  # 43 rows on two attributes, but for one that names its own
    parts = [f"out-{i}.jsonl" for i in range(1, n + 1)]
    for ending in (".csv", ".jsonl.gz"):
        main(["score", *argv, "-o", f"whole{ending}"])
        assert main(["merge", *parts, "-o", f"merged{ending}"]) == 0
        same(f"whole{ending}", f"merged{ending}")


@N
def test_kept_dropped_and_unsure_rows_of_shards_merged_are_those_of_one_machine(many, n):
    argv = ["targets.jsonl", "--references", "ladders", "-a", "coherence", "--min-score", "2.5"]
    main(["filter", *argv, "-o", "whole.jsonl", "--dropped", "dropped.jsonl", "--unsure", "unsure.jsonl"])
    shared(n, "filter", *argv, dropped="dropped-{}.jsonl", unsure="unsure-{}.jsonl")
    for name in ("dropped", "unsure"):
        same(f"{name}.jsonl", f"{name}-all.jsonl")
    same("whole.jsonl", "out-all.jsonl")
    assert min(len(read(f"{name}.jsonl")) for name in ("whole", "dropped", "unsure")) > 2


@N
def test_a_filter_of_tables_shared_out_writes_lines(many, n):
    import datasets

    datasets.Dataset.from_list(parse(Path("targets.jsonl").read_text().replace("not JSON\n", ""))[:9]).to_parquet(
        "targets.parquet"
    )
    argv = ["targets.parquet", "--references", "ladders", "-a", "coherence", "--min-score", "2.5"]
    main(["filter", *argv, "-o", "whole.jsonl"])
    shared(n, "filter", *argv)
    same("whole.jsonl", "out-all.jsonl")
    main(["filter", *argv, "-o", "whole.csv"])
    assert main(["merge", *(f"out-{i}.jsonl" for i in range(1, n + 1)), "-o", "merged.csv"]) == 0
    same("whole.csv", "merged.csv")


@N
def test_degraded_ladders_of_shards_merged_are_those_of_one_machine(folder, n):
    """Their foreign sentences are those of contexts that other shards write."""
    argv = [str(resource("data/demo/summarization.jsonl")), "--task", "summarization", "-a", "relevance"]
    main(["generate", *argv, "-a", "consistency", "-o", "whole"])
    shared(n, "generate", *argv, "-a", "consistency", out="out-{}/")
    for path in Path("whole").iterdir():
        same(path, Path("out-all") / path.name)
    kinds = {kind for each in References.load("whole") for rung in each.rungs for kind in rung.provenance["kinds"]}
    assert any("foreign" in kind for kind in kinds)


def test_prompted_ladders_of_shards_merged_are_those_of_one_machine(engine):
    engine.writer = lambda prompt, seed: f"Text {seed} has {' '.join(f'word{seed * k % 9973}' for k in range(1, 8))}."
    write("contexts.jsonl", *({"id": name, "text": text} for name, text in CONTEXTS.items()))
    argv = ["contexts.jsonl", "--task", "summarization", "-a", "coherence", "--model", "any"]
    main(["generate", *argv, "-o", "whole"])
    shared(7, "generate", *argv, "--store", "none", out="out-{}")
    for path in Path("whole").iterdir():
        same(path, Path("out-all") / path.name)


@N
@pytest.mark.parametrize("models", [[], ["--model", "one", "--model", "two"]])
def test_comparisons_of_shards_merged_are_those_of_one_machine_and_rank_alike(many, n, models):
    rows = [
        target(name, quality, id=f"{name}/{quality}", context=f"On {name}.") for quality in (1, 4, 2) for name in MORE
    ]
    write("candidates.jsonl", *rows)
    argv = ["candidates.jsonl", "--task", "summarization", "-a", "coherence", "-a", "fluency", "--budget", "4", *models]
    main(["compare", *argv, "-o", "whole.jsonl"])
    shared(n, "compare", *argv)
    same("whole.jsonl", "out-all.jsonl")
    if not models:
        main(["rank", *argv, "-o", "ranked.jsonl"])
        assert main(["rank", "--comparisons", "out-all.jsonl", "-o", "ranked-too.jsonl"]) == 0
        ranks = [[(row["id"], row["rank"]) for row in read(name)] for name in ("ranked.jsonl", "ranked-too.jsonl")]
        assert sorted(ranks[0]) == sorted(ranks[1])


def test_an_order_is_not_shared_out(many, capsys):
    assert main(["rank", "targets.jsonl", "--task", "story", "-a", "coherence", "--shard", "1/2"]) == 2
    shown(capsys.readouterr().err, "compare --shard", "rank --comparisons")


@pytest.mark.parametrize("text", ["0/2", "3/2", "2", "a/b", "1/2/3", "1/0"])
def test_a_shard_is_one_of_n(many, capsys, text):
    assert main(["score", "targets.jsonl", "--references", "ladders", "--shard", text, "-o", "x.jsonl"]) == 2
    shown(capsys.readouterr().err, "shard is")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["-o", "-"], "a shard cannot be written to -"),
        (["-o", "x.csv"], "a shard cannot be written to x.csv"),
        (["-o", "x.jsonl", "--scoring", "anchored"], "a shard has not all"),
    ],
)
@pytest.mark.parametrize("verb", [["score"], ["filter", "--min-score", "3", "-a", "fluency"]])
def test_what_would_not_be_one_machines_is_refused_before_anything_is_asked(many, engine, capsys, verb, argv, message):
    assert main([*verb, "targets.jsonl", "--references", "ladders", "--shard", "1/2", *argv]) == 2
    shown(capsys.readouterr().err, message)
    assert not engine.calls


def scored(i, n=2, *more, out="out-{}.jsonl"):
    argv = ["score", "targets.jsonl", "--references", "ladders", "-a", "coherence", *more]
    return main([*argv, "--shard", f"{i}/{n}", "-o", out.format(i)])


def other_judge(engine):
    engine.name = "another"
    scored(2)


def other_input(engine):
    write("targets.jsonl", *map(json.dumps, read_lines()[:-1]))
    scored(2)


def read_lines():
    lines = Path("targets.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


def other_ladders(engine):
    References([ladder("c1")]).save("ladders", overwrite=True)
    scored(2)


def cut(engine):
    whole = Path("out-2.jsonl").read_bytes().splitlines(keepends=True)
    Path("out-2.jsonl").write_bytes(b"".join(whole[:-1]))


FAULTS = {
    "there is no out-2.jsonl.shard": lambda engine: Path("out-2.jsonl.shard").unlink(),
    "there is no out-2.jsonl. Run": lambda engine: Path("out-2.jsonl").unlink(),
    "the shards are 1/2, 1/2, expected": lambda engine: (
        shutil.copy("out-1.jsonl", "out-2.jsonl"),
        shutil.copy("out-1.jsonl.shard", "out-2.jsonl.shard"),
    ),
    "the shards are 1/2, 2/3, expected": lambda engine: scored(2, 3),
    "was not made as out-1.jsonl was: {'verdicts'": lambda engine: scored(2, 2, "--verdicts"),
    "'model': ('another', 'fake')": other_judge,
    "expected 43 of the same contexts": other_input,
    "{'references': ": other_ladders,
    "holds 0, expected": lambda engine: Path("out-2.jsonl").write_bytes(b""),
    "out-2.jsonl holds": cut,
    "cannot read out-2.jsonl.shard": lambda engine: Path("out-2.jsonl.shard").write_text("{}"),
}


@pytest.mark.parametrize("message", FAULTS)
def test_shards_that_are_not_all_of_one_run_are_not_merged(many, engine, capsys, message):
    scored(1), scored(2)
    FAULTS[message](engine)
    capsys.readouterr()
    assert main(["merge", "out-2.jsonl", "out-1.jsonl", "-o", "all.jsonl"]) == 1
    shown(capsys.readouterr().err, message)
    assert not list(Path().glob("all*"))


def test_one_shard_alone_and_a_parquet_file_are_refused(many, capsys):
    scored(1), scored(2)
    assert main(["merge", "out-2.jsonl", "-o", "all.jsonl"]) == 1
    assert main(["merge", "out-1.jsonl", "out-2.jsonl", "-o", "all.parquet"]) == 1
    assert main(["merge", "-o", "all.jsonl"]) == 1
    shown(capsys.readouterr().err, "the shards are 2/2", "cannot merge into all.parquet", "the shards are none")


def test_a_shard_that_begins_anew_is_not_done_until_its_end(many, engine, capsys):
    scored(1), scored(2)
    engine.judge = lambda prompt, labels: (_ for _ in ()).throw(KeyboardInterrupt)
    assert scored(2, 2, "--store", "none") == 130
    assert Path("out-2.jsonl").exists()  # of before
    assert main(["merge", "out-1.jsonl", "out-2.jsonl", "-o", "all.jsonl"]) == 1


def test_a_folder_with_other_ladders_is_not_a_shards(engine, damage_free, capsys):
    assert main(["merge", "one", "two", "-o", "all"]) == 1
    shown(capsys.readouterr().err, "two holds", "with an output of its own")


@pytest.fixture
def damage_free(folder):
    argv = ["generate", str(resource("data/demo/summarization.jsonl")), "--task", "summarization", "-a", "fluency"]
    References([ladder("c1")]).save("two")
    for i, out in ((1, "one"), (2, "two")):
        main([*argv, "--limit", "3", "--shard", f"{i}/2", "-o", out])


@pytest.mark.parametrize("n", [2, 7, 100])
def test_shards_are_of_about_the_same_size_and_every_context_is_in_one(n):
    owners = [[i for i in range(1, n + 1) if Shard(i, n).owns(f"context {k}")] for k in range(60 * n)]
    assert {len(each) for each in owners} == {1}
    counts = [owners.count([i]) for i in range(1, n + 1)]
    assert min(counts) > 20
    assert max(counts) < 110
