"""Filtering in batches: nothing but the batch in memory, kills, resuming, formats, and verdicts on whole texts."""

import gzip
import itertools
import json
import math
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthscore import engines
from synthscore.cli.app import main
from synthscore.errors import InputError, Reasons, SynthscoreWarning
from synthscore.io import files
from synthscore.io.files import read_batches, read_rows
from synthscore.io.write import sorted_into
from synthscore.judging import asking as asking_module
from synthscore.judging.asking import PROTOCOLS, Asking
from synthscore.judging.labels import both_in_one
from synthscore.judging.templates import load_task
from synthscore.ladders.references import References
from synthscore.scoring.scorer import Scorer
from synthscore.store.engine import StoredVerdicts
from synthscore.store.file import Store, Stored
from synthscore.thresholds import filter as filtering
from synthscore.thresholds.rules import AtLeast
from synthscore.types import Context, Ladder
from tests import factories
from tests.fakes import FakeEngine

WORSE = load_task("summarization").attribute("coherence").worse
CONTEXTS = [f"c{i}" for i in range(4)]
HARD = {"odd": [{"deep": "é", "more": None}], "when": "2026-01-01"}


def judge(prompt, labels):
    """Compares the numbers behind "quality"; not symmetric, so that orders differ."""
    reference, target = (float(number) for number in re.findall(r"quality (-?[\d.]+\d|-?\d)", prompt.text))
    better = 1 / (1 + math.exp(-3 * (target - reference) * (-1 if WORSE in prompt.text else 1) - 0.3))
    probs = {"Better": better * 0.9, "Worse": (1 - better) * 0.9, "Similar": 0.1, "Yes": better, "No": 1 - better}
    probs |= {"A": 1 - better, "B": better}
    return [math.log(0.95 * probs[label]) for label in labels]


def ladder(context_id, n_rungs=5, failed=()):
    text = "A text of quality {level} for {context_id}."
    return factories.ladder(context_id, n=n_rungs, text=text, failed=failed, reason="the model refused")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("SYNTHSCORE_STORE", str(tmp_path / "answers.sqlite"))
    monkeypatch.chdir(tmp_path)
    References([ladder(name) for name in CONTEXTS]).save(tmp_path / "ladders")
    return tmp_path


@pytest.fixture
def engine(monkeypatch):
    engine = FakeEngine(judge)
    monkeypatch.setattr(engines, "open_engine", lambda name, **options: engine)
    return engine


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(files, "BATCH", 7)


def quality(i):
    return 7 * i % 50 / 10


def rows(n):
    return [
        {"id": f"t{i}", "context_id": CONTEXTS[i % 4], "text": f"Text {i} of quality {quality(i)}.", "n": i, **HARD}
        for i in range(n)
    ]


def write(name, lines):
    Path(name).write_text("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines))


def read(name):
    return [json.loads(line) for line in Path(name).read_text().splitlines()]


def keep(*argv, targets="targets.jsonl", out="kept.jsonl"):
    return main(["filter", targets, "--references", "ladders", "--min-score", "3.5", "-o", out, *argv])


def left_over():
    return sorted(path.name for path in Path().iterdir() if ".partial" in path.name or path.name.endswith(".tmp"))


# ------------------------------------------------------------------------------------------------- batches


def test_kept_lines_are_the_bytes_that_were_read(engine, small):
    odd = '{ "text":"Text of quality 5.",  "context_id" :"c1", "x": 1.0e2, "u": "\\u00e9" }'
    write("targets.jsonl", [odd + "\r\n", "\n", odd.replace("5", "1") + "\n", odd])
    assert keep() == 0
    assert Path("kept.jsonl").read_bytes() == f"{odd}\r\n{odd}\n".encode()


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_the_size_of_a_batch_changes_nothing(engine, monkeypatch, capsys, size):
    write(
        "targets.jsonl", [*rows(40), "not JSON\n", {"context_id": "c9", "text": "x"}, {"context_id": "c1", "text": ""}]
    )
    monkeypatch.setattr(files, "BATCH", size)
    assert keep("--dropped", "dropped.jsonl", "--unsure", "unsure.jsonl") == 3
    err = capsys.readouterr().err
    expected = [row for row in rows(40) if quality(row["n"]) > 3.35]
    assert [row["id"] for row in read("kept.jsonl")] == [row["id"] for row in expected]
    assert len(read("dropped.jsonl")) == 40 - len(expected)
    assert [row["synthscore"]["decision"] for row in read("unsure.jsonl")] == ["unsure"] * 3
    assert "40 of 43 targets x 5 rungs = 200 questions; 40 scored, 3 unscored" in err
    assert f"kept {len(expected)} of 43 at a score of 3.5 or more; {40 - len(expected)} dropped, 3 unscored" in err
    assert "1 x row 41: not JSON" in err
    assert left_over() == []


def test_no_more_than_a_batch_of_rows_is_in_memory(engine, small, monkeypatch):
    sizes = []
    whole = Scorer.plan
    monkeypatch.setattr(Scorer, "plan", lambda self, items: sizes.append(len(items)) or whole(self, items))
    write("targets.jsonl", rows(20))
    assert keep() == 0
    assert sizes == [7, 7, 6]


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz", ".csv", ".tsv", ".parquet", ".json"])
def test_batches_hold_the_rows_of_the_whole_file(suffix):
    name = f"rows{suffix}"
    table = [{key: value for key, value in row.items() if key != "odd"} for row in rows(23)]
    if suffix == ".json":
        Path(name).write_text(json.dumps(table))
    else:
        from synthscore.io.write import write_rows

        write_rows(table, name)
    whole = [(row.number, dict(row.values)) for row in read_rows(name)]
    batches = list(read_batches(name, 5))
    assert all(len(batch.rows) <= 5 for batch in batches)
    assert [(row.number, dict(row.values)) for batch in batches for row in batch.rows] == whole
    [batch] = read_batches(name, 100)
    assert len(batch.rows) == 23


# ------------------------------------------------------------------------------------------------- formats


@pytest.mark.parametrize("out", ["kept.csv", "kept.tsv", "kept.parquet", "kept.jsonl.gz"])
def test_formats_hold_the_same_rows_whatever_the_batches(engine, monkeypatch, out):
    write("targets.jsonl", rows(40))
    assert keep() == 0
    contents = []
    for size in (7, 1000):
        monkeypatch.setattr(files, "BATCH", size)
        assert keep(out=out) == 0
        contents.append(Path(out).read_bytes())
    assert contents[0] == contents[1]
    kept = [dict(row.values) for row in read_rows(out)]
    assert [row["id"] for row in kept] == [row["id"] for row in read("kept.jsonl")]
    if out.endswith((".parquet", ".gz")):
        assert [json.loads(json.dumps(row)) for row in kept] == read("kept.jsonl")
    else:
        assert [int(row["n"]) for row in kept] == [row["n"] for row in read("kept.jsonl")]


def test_columns_that_begin_late_are_written_too(engine, small):
    late = [*rows(10), {**rows(1)[0], "id": "late", "late": 2.5, "n": None}]
    write("targets.jsonl", [{**row, "text": "Text of quality 5."} for row in late])
    assert keep(out="kept.parquet") == 0
    assert pq.read_table("kept.parquet").column("late").to_pylist() == [None] * 10 + [2.5]
    assert keep(out="kept.csv") == 0
    assert Path("kept.csv").read_text().splitlines()[0].split(",")[-1] == "late"


def test_a_column_of_several_types_cannot_be_parquet_and_nothing_stays_behind(engine, small, capsys):
    mixed = [{**row, "text": "Text of quality 5.", "n": "text" if row["n"] == 9 else 1} for row in rows(10)]
    write("targets.jsonl", mixed)
    assert keep(out="kept.parquet") == 1
    assert "column 'n'" in capsys.readouterr().err
    assert left_over() == []
    assert not Path("kept.parquet").exists()


def parquet(n=40):
    table = pa.table(
        {
            "context_id": pa.array([CONTEXTS[i % 4] for i in range(n)]).dictionary_encode(),
            "text": [f"Text {i} of quality {quality(i)}." for i in range(n)],
            "small": pa.array(range(n), pa.int8()),
            "when": pa.array([1_000_000 * i for i in range(n)], pa.timestamp("us")),
            "raw": pa.array([b"\xff\x00"] * n, pa.binary()),
        }
    ).replace_schema_metadata({"made": "for a test"})
    pq.write_table(table, "targets.parquet", row_group_size=11)
    return table


def test_parquet_keeps_the_types_of_its_columns(engine, small):
    table = parquet()
    out = ["--dropped", "dropped.parquet", "--unsure", "unsure.parquet"]
    assert keep(*out, targets="targets.parquet", out="kept.parquet") == 0
    kept, dropped = pq.read_table("kept.parquet"), pq.read_table("dropped.parquet")
    expected = table.filter(pa.array([quality(i) > 3.35 for i in range(40)]))
    assert kept.to_pylist() == expected.to_pylist()
    assert kept.schema.field("small").type == pa.int8()
    assert kept.schema.metadata[b"made"] == b"for a test"
    assert kept.num_rows + dropped.num_rows == 40
    assert dropped.column("synthscore").to_pylist()[0]["decision"] == "dropped"
    unsure = pq.read_table("unsure.parquet")  # of no rows, but of all columns
    assert unsure.schema == dropped.schema
    assert unsure.num_rows == 0


def test_rows_that_were_dropped_before_can_be_filtered_again(engine, small):
    parquet()
    assert keep("--dropped", "dropped.parquet", targets="targets.parquet", out="kept.parquet") == 0
    first = pq.read_table("dropped.parquet")
    assert keep("--dropped", "again.parquet", targets="dropped.parquet", out="none.parquet") == 0
    assert pq.read_table("again.parquet").to_pylist() == first.to_pylist()


def test_parquet_can_become_csv_and_csv_parquet(engine, small):
    table = parquet().drop_columns(["raw"])
    pq.write_table(table, "targets.parquet")
    assert keep(targets="targets.parquet", out="kept.csv") == 0
    kept = [dict(row.values) for row in read_rows("kept.csv")]
    assert [int(row["small"]) for row in kept] == [i for i in range(40) if quality(i) > 3.35]
    assert keep(targets="kept.csv", out="kept.parquet") == 0
    assert pq.read_table("kept.parquet").to_pylist() == kept


def test_no_rows_make_files_of_no_rows(engine):
    write("targets.jsonl", [])
    for out in ("kept.jsonl", "kept.csv", "kept.parquet"):
        assert keep(out=out) == 0
        assert list(read_rows(out)) == []


def test_a_pipe_is_written_to_and_stays_a_pipe(engine):
    write("targets.jsonl", rows(40))
    assert keep() == 0
    os.mkfifo("pipe.jsonl")
    reader = subprocess.Popen(["cat", "pipe.jsonl"], stdout=subprocess.PIPE)
    assert keep(out="pipe.jsonl") == 0
    assert reader.communicate()[0] == Path("kept.jsonl").read_bytes()
    assert Path("pipe.jsonl").is_fifo()


# ------------------------------------------------------------------------------------------------- run again


BROKEN = {20: "not JSON\n", 33: json.dumps({"context_id": "c9", "text": "x"}) + "\n"}


def broken_rows(n):
    return [BROKEN.get(i, row) for i, row in enumerate(rows(n))]


def interrupted(monkeypatch, after, *argv, targets="targets.jsonl", out="kept.jsonl"):
    """Run, and break off before batch number `after`, counted from 0."""
    whole, count = Scorer.plan, itertools.count()

    def stop(self, items):
        if next(count) == after:
            raise KeyboardInterrupt
        return whole(self, items)

    with monkeypatch.context() as patched:
        patched.setattr(Scorer, "plan", stop)
        assert keep(*argv, targets=targets, out=out) == 130


@pytest.mark.parametrize("out", ["kept.jsonl", "kept.csv", "kept.parquet"])
def test_an_interrupted_run_is_run_again_from_the_store_and_gives_the_same_bytes(
    engine, small, monkeypatch, capsys, out
):
    suffix = Path(out).suffix
    also = ("--dropped", f"dropped{suffix}")
    write("targets.jsonl", broken_rows(40))
    keep(*also, "--store", "other.sqlite", out=out)
    expected = [Path(name).read_bytes() for name in (out, f"dropped{suffix}")]
    for name in (out, f"dropped{suffix}"):
        os.remove(name)
    interrupted(monkeypatch, 3, *also, out=out)
    assert left_over() == []
    assert not Path(out).exists()
    capsys.readouterr()
    assert keep(*also, out=out) == 3
    assert [Path(name).read_bytes() for name in (out, f"dropped{suffix}")] == expected
    n_left = 40 - 2 - (3 * 7 - 1)  # row 20 of the first three batches holds no target, and one of the rest
    assert f"{5 * n_left} questions asked now" in capsys.readouterr().err


def test_what_a_killed_run_left_is_written_over(engine):
    write("targets.jsonl", rows(40))
    assert keep() == 0
    expected = Path("kept.jsonl").read_bytes()
    Path("kept.jsonl.partial").write_bytes(b"half a line" * 10_000)
    assert keep() == 0
    assert Path("kept.jsonl").read_bytes() == expected
    assert left_over() == []


def test_a_run_that_fails_before_its_first_batch_leaves_nothing(engine, small, monkeypatch):
    write("targets.jsonl", rows(40))
    Path("kept.jsonl").write_text("what was there")
    interrupted(monkeypatch, 0)
    assert left_over() == []
    assert Path("kept.jsonl").read_text() == "what was there"


def test_two_processes_cannot_write_one_file(engine, capsys):
    write("targets.jsonl", rows(4))
    with sorted_into({"kept": "kept.jsonl"}):
        assert keep() == 1
        assert "another process is writing it" in capsys.readouterr().err


def test_two_outputs_cannot_be_one_file(engine, capsys):
    write("targets.jsonl", rows(4))
    assert keep("--dropped", "./kept.jsonl") == 2
    assert "are both" in capsys.readouterr().err


def test_stdout_streams_and_nothing_stays_behind(engine, small, monkeypatch, capsys):
    write("targets.jsonl", rows(40))
    interrupted(monkeypatch, 2, "--dropped", "dropped.jsonl", out="-")
    n_first = len(capsys.readouterr().out.splitlines())
    assert n_first == sum(quality(i) > 3.35 for i in range(14)) > 0
    assert left_over() == []
    assert keep("--dropped", "dropped.jsonl", out="-") == 0
    assert len(capsys.readouterr().out.splitlines()) + len(read("dropped.jsonl")) == 40


KILLED = """
import sys, time
from synthscore import engines
from synthscore.cli.app import main
from synthscore.io import files
from synthscore.scoring.scorer import Scorer
from tests.fakes import FakeEngine
from tests.thresholds.test_filter import judge
engines.open_engine = lambda name, **options: FakeEngine(judge)
files.BATCH = 16
whole = Scorer.plan
def slow(self, items):
    print("batch", flush=True)
    time.sleep(0.002)
    return whole(self, items)
Scorer.plan = slow
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("out", ["kept.jsonl", "kept.parquet"])
def test_a_run_killed_at_random_moments_and_run_again_gives_the_same_file(folder, out):
    suffix = Path(out).suffix
    write("targets.jsonl", broken_rows(400))
    argv = ["filter", "targets.jsonl", "--references", "ladders", "--min-score", "3.5", "-o", out]
    argv += ["--dropped", f"dropped{suffix}"]
    root = Path(__file__).parents[2]
    run = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(root)!r})\n{KILLED}", *argv]
    rng = np.random.default_rng(7)

    def kill():
        process = subprocess.Popen(run, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
        for _ in range(1 + int(rng.integers(20))):  # of 25 batches
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        killed = process.wait() == -signal.SIGKILL
        process.communicate()
        return killed

    assert sum(kill() for _ in range(3)) >= 2
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr
    found = [Path(name).read_bytes() for name in (out, f"dropped{suffix}")]
    assert left_over() == []
    again = subprocess.run([*run, "--store", "none"], capture_output=True, text=True, check=False)
    assert again.returncode == 3
    assert [Path(name).read_bytes() for name in (out, f"dropped{suffix}")] == found
    assert len(list(read_rows(out))) + len(list(read_rows(f"dropped{suffix}"))) == 400


# ------------------------------------------------------------------------------------------------- whole texts


def explained():
    return {row["id"]: row["synthscore"] for row in read("dropped.jsonl")}


@pytest.mark.parametrize("protocol", ["compare", "yes_no", "yes_no_two_sided", "choose"])
@pytest.mark.parametrize("orders", [(), ("--both-orders",)])
def test_scores_from_stored_verdicts_are_those_of_the_scorer_to_the_last_bit(engine, capsys, protocol, orders):
    write("targets.jsonl", rows(40))
    argv = ["--protocol", protocol, *orders, "--dropped", "dropped.jsonl"]
    assert keep(*argv) == 0
    files = [Path(name).read_bytes() for name in ("kept.jsonl", "dropped.jsonl")]
    told = capsys.readouterr().err
    scorer = Scorer(References.load("ladders"), engine, asking=Asking(protocol, bool(orders)))
    truth = {
        score.id: score.value
        for score in scorer.score([{k: r[k] for k in ("id", "context_id", "text")} for r in rows(40)])
    }
    n_asked, whole = engine.n_judged, Scorer.score

    def never(self, targets, progress=None):
        assert not targets
        return whole(self, targets, progress)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Scorer, "score", never)
        assert keep(*argv) == 0
    assert engine.n_judged == n_asked
    assert [Path(name).read_bytes() for name in ("kept.jsonl", "dropped.jsonl")] == files
    assert capsys.readouterr().err == re.sub(r"\n\d+ questions asked now.*", "", told)
    shown = explained()
    assert len(shown) > 20
    assert all(row["score"] == truth[name] for name, row in shown.items())


@given(
    st.lists(st.lists(st.floats(-20, 0), min_size=15, max_size=15), min_size=1, max_size=4),
    st.booleans(),
    st.sampled_from(list(PROTOCOLS)),
)
@settings(max_examples=50)
def test_any_verdicts_give_the_same_score_from_the_store(log_probs, both_orders, protocol):
    from synthscore.ladders.references import References
    from synthscore.scoring.paper import Paper

    numbers = iter(itertools.cycle(itertools.chain.from_iterable(log_probs)))
    engine = FakeEngine(lambda prompt, labels: [next(numbers) - math.log(3) for _ in labels])
    scorer = Scorer(References((ladder("c0"),)), engine, asking=Asking(protocol, both_orders, min_mass=0.0))
    texts = [{"id": str(i), "context_id": "c0", "text": f"Text {i}, quality 1."} for i in range(len(log_probs))]
    for score in scorer.score(texts):
        said = np.array([(v.better, v.worse, v.similar) for v in score.verdicts]).reshape(1, 5, 1 + both_orders, 3)
        together = both_in_one(np.ascontiguousarray(np.moveaxis(said, 2, 0)), protocol, "log-odds")
        assert Paper().whole_values(together).tolist() == [score.value]


def kinds():
    with Store(os.environ["SYNTHSCORE_STORE"]) as store:
        found = {}
        for batch in store.batches():
            found[batch.kind] = found.get(batch.kind, 0) + batch.n_answers
        return found


def test_whole_texts_are_kept_beside_their_answers_and_shown(engine, capsys):
    write("targets.jsonl", [*rows(8), {**rows(8)[0], "id": "the same text again"}])
    assert keep() == 0
    assert kinds() == {"labels": 40, "verdicts": 8}
    capsys.readouterr()
    assert main(["store", "show", "--kind", "verdicts"]) == 0
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["question"] for row in shown] == [None] * 8


@pytest.mark.parametrize(
    "change", ["text", "context", "ladder", "min_mass", "protocol", "orders", "prompts", "engine", "samples"]
)
def test_a_whole_text_is_only_found_as_it_was_asked(engine, folder, change, monkeypatch):
    write("targets.jsonl", rows(4))
    assert keep() == 0
    argv, asked = [], []
    if change == "text":
        write("targets.jsonl", [{**row, "text": row["text"] + " "} for row in rows(4)])
    elif change == "context":
        new = [
            Ladder(x.context_id, x.task, x.attribute, x.rungs, Context(x.context_id, "Other."))
            for x in map(ladder, CONTEXTS)
        ]
        References(new).save(folder / "ladders", overwrite=True)
    elif change == "ladder":
        References([ladder(name, 4) for name in CONTEXTS]).save(folder / "ladders", overwrite=True)
    elif change == "engine":
        engine.name = "another"
    else:
        more = {"min_mass": ["--min-mass", "0.02"], "protocol": ["--protocol", "choose"], "orders": ["--both-orders"]}
        more |= {"prompts": ["--prompts", "paper"], "samples": ["--samples", "5"]}
        argv = more[change]
    whole = Scorer.plan
    monkeypatch.setattr(Scorer, "plan", lambda self, targets: asked.extend(targets) or whole(self, targets))
    assert keep(*argv) == 0
    assert len(asked) == 4


def test_what_is_not_whole_is_scored_from_its_answers_each_time(engine, folder, capsys):
    References([ladder("c0", failed=(2,)), *map(ladder, CONTEXTS[1:])]).save(folder / "ladders", overwrite=True)
    rung = "A text of quality 3 for c1."
    whole = judge

    def mute(prompt, labels):
        return [-30.0] * len(labels) if rung in prompt.text else whole(prompt, labels)

    engine.judge = mute
    write("targets.jsonl", broken_rows(40))
    results = []
    for _ in range(2):
        assert keep("--dropped", "dropped.jsonl") == 3
        err = re.sub(r"\n\d+ questions asked now.*", "", capsys.readouterr().err)
        results.append((Path("kept.jsonl").read_bytes(), Path("dropped.jsonl").read_bytes(), err))
    assert results[0] == results[1]
    assert kinds()["verdicts"] == 39 - 10 - 9  # all but those of c0, c1, broken and lost rows
    assert "20 scored, 18 partial, 2 unscored\npartial:\n" in err
    assert {row["status"] for row in explained_by_row()} == {"ok", "partial", "unscored"}


def explained_by_row():
    return [row["synthscore"] for row in read("dropped.jsonl")]


def test_a_row_with_another_text_of_its_context_is_not_found(engine):
    write("targets.jsonl", rows(4))
    assert keep() == 0
    write("targets.jsonl", [{**rows(4)[0], "context": "Another article."}])
    assert keep() == 1


def test_verdicts_of_a_wrong_size_count_as_missing(engine, folder):
    with Store(folder / "other.sqlite") as store:
        stored = StoredVerdicts(store, engine.signature, "asked")
        key = stored.key(stored.begun(ladder("c0"), ladder("c0").context), "text")
        store.put_many([Stored(key, "verdicts", "AAAA", "engine")])
        with pytest.warns(SynthscoreWarning, match="cannot be used and count as missing"):
            assert not stored.get_many([key], 5, 1)


def test_verdicts_of_which_a_server_did_not_tell_all_are_not_kept(engine, folder):
    scorer = Scorer(References.load("ladders"), engine)
    [score] = scorer.score([{"id": "a", "context_id": "c0", "text": "Text of quality 2."}])
    untold = replace(score, low=1.0, high=3.0)
    with Store(folder / "other.sqlite") as store:
        stored = StoredVerdicts(store, engine.signature, "asked")
        assert stored.put_many({b"1": untold, b"2": replace(score, verdicts=score.verdicts[:4])}, 5, 1) == 0
        assert stored.put_many({b"3": score}, 5, 1) == 1


def test_stored_verdicts_whose_orders_exclude_each_other_are_no_score(folder):
    """As a version that averaged such verdicts left them in stores."""
    choice = FakeEngine(lambda prompt, labels: [0.0, -math.inf, -math.inf])
    row, asking = {"id": "a", "context_id": "c0", "text": "Text of quality 2."}, Asking(both_orders=True)
    with Store(folder / "other.sqlite") as store, pytest.MonkeyPatch.context() as patched:
        scorer = Scorer(References.load("ladders"), choice, asking=asking, whole_texts=store)
        patched.setattr(asking_module, "both_in_one", lambda by_order, protocol, mean: by_order.mean(axis=0))
        (averaged,) = scorer.score([row])
        assert averaged.status == "ok"
        patched.undo()
        (score,) = scorer.score([row])
    assert score.value is None
    assert "the two orders exclude each other" in score.reason


def test_without_a_store_all_is_asked(engine):
    write("targets.jsonl", rows(4))
    for n in (20, 40):
        assert keep("--store", "none") == 0
        assert engine.n_judged == n


# ------------------------------------------------------------------------------------------------- anchored, reasons


def test_on_a_scale_rows_stream_and_alone_they_are_read_at_once(engine, small, monkeypatch):
    write("targets.jsonl", rows(30))
    anchored = ["--scoring", "anchored", "--dropped", "dropped.jsonl"]
    assert keep(*anchored, "--save-scale", "scale.json") == 0
    sizes = []
    whole = Scorer.plan
    monkeypatch.setattr(Scorer, "plan", lambda self, items: sizes.append(len(items)) or whole(self, items))
    assert keep(*anchored) == 0
    assert sizes == [30]
    assert keep(*anchored, "--scale", "scale.json") == 0
    assert sizes[1:] == [7, 7, 7, 7, 2]
    files = [Path(name).read_bytes() for name in ("kept.jsonl", "dropped.jsonl")]
    interrupted(monkeypatch, 2, *anchored, "--scale", "scale.json")
    assert keep(*anchored, "--scale", "scale.json") == 0
    assert [Path(name).read_bytes() for name in ("kept.jsonl", "dropped.jsonl")] == files


def test_reasons_stay_few():
    counted = Reasons()
    counted.add(*("".join(chr(97 + int(digit)) for digit in str(i)) for i in range(3000)))
    assert counted.lines()[0] == "  2000 x many other reasons"
    assert len(counted.lines(5000)) == Reasons.MOST + 1


def test_a_parquet_file_that_ends_early_is_an_error(engine, capsys):
    parquet()
    os.truncate("targets.parquet", 100)
    assert keep(targets="targets.parquet") == 1
    assert "not a whole Parquet file" in capsys.readouterr().err
    assert left_over() == []


def test_gzipped_lines_have_no_time_in_them(engine):
    write("targets.jsonl", rows(40))
    assert keep() == 0
    assert keep(out="kept.jsonl.gz") == 0
    assert gzip.decompress(Path("kept.jsonl.gz").read_bytes()) == Path("kept.jsonl").read_bytes()


# ------------------------------------------------------------------------------------------------- as a function


def sort(source, rule=3.5, **options):
    return filtering.filter(source, "ladders", FakeEngine(judge), rule, **options)


def test_rows_are_returned_where_no_file_is_named():
    found = sort([*rows(40), {"context_id": "c9", "text": "x"}])
    assert found.kept == [row for row in rows(40) if quality(row["n"]) > 3.35]
    assert [row["id"] for row in found.dropped] == [row["id"] for row in rows(40) if quality(row["n"]) <= 3.35]
    assert {row["synthscore"]["decision"] for row in found.dropped} == {"dropped"}
    [row] = found.unsure
    assert "no ladder" in row["synthscore"]["why"]
    assert (found.n_rows, found.n_unscored_unsure, found.n_scored_unsure, found.complete) == (41, 1, 0, False)
    assert [dict(signature.parts)["attribute"] for signature in found.tally.signatures] == ["coherence"]


def test_the_function_and_the_verb_write_the_same_bytes(engine, small):
    write("targets.jsonl", broken_rows(40))
    assert keep("--dropped", "dropped.jsonl") == 3
    files = [Path(name).read_bytes() for name in ("kept.jsonl", "dropped.jsonl")]
    found = sort("targets.jsonl", kept="again.jsonl", dropped="others.jsonl")
    assert [Path(name).read_bytes() for name in ("again.jsonl", "others.jsonl")] == files
    assert (found.kept, found.dropped, found.unsure) == ([], [], [])


def test_rows_may_be_a_table_of_pandas():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame([{key: row[key] for key in ("id", "context_id", "text", "n")} for row in rows(40)])
    assert [row["n"] for row in sort(table).kept] == [row["n"] for row in sort(rows(40)).kept]


def test_a_judge_by_name_answers_through_the_store(engine):
    found = filtering.filter(rows(8), "ladders", "fake", 3.5)
    n_judged = engine.n_judged
    assert n_judged == 40
    assert filtering.filter(rows(8), "ladders", "fake", 3.5).kept == found.kept
    assert engine.n_judged == n_judged


@pytest.mark.parametrize(
    ("options", "field", "seen"),
    [({"rule": 9.0}, "threshold", "the threshold 9 is outside"), ({"rule": AtLeast(3, 0.1)}, "alpha", "alpha needs"),
     ({"kept": "a.jsonl", "dropped": "./a.jsonl"}, "paths", "are both")],
)  # fmt: skip
def test_what_cannot_be_is_refused_before_anything_is_asked(options, field, seen):
    engine = FakeEngine(judge)
    with pytest.raises(InputError, match=seen) as caught:
        filtering.filter(rows(4), "ladders", engine, **{"rule": 3.5, **options})
    assert caught.value.field == field
    assert engine.n_judged == 0


def test_several_attributes_have_to_be_told_apart(folder):
    References([ladder("c0"), replace(ladder("c0"), attribute="fluency")]).save(folder / "both")
    with pytest.raises(InputError, match=r"there are 2: coherence, fluency\. Say which") as caught:
        filtering.filter(rows(4), "both", FakeEngine(judge), 3.5)
    assert caught.value.field == "attribute"
    assert filtering.filter(rows(1), "both", FakeEngine(judge), 3.5, attribute="coherence").n_rows == 1
