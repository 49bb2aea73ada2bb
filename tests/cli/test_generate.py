"""`synthscore generate`: contexts in, a folder of ladders out."""

import math
from pathlib import Path

import pytest

from synthscore import engines
from synthscore.cli.app import main
from synthscore.degrade.damage import DamagedText
from synthscore.io.files import some_contexts
from synthscore.ladders.references import References
from synthscore.resources import resource
from tests.cli.given import CONTEXTS, read, score, shown, target, write


def many_words(prompt, seed):
    """A summary is not so short as seed_writer's texts."""
    return f"Text {seed} has {' '.join(f'word{seed * k % 9973}' for k in range(1, 8))}."


@pytest.fixture
def engine(engine):
    engine.writer = many_words
    return engine


@pytest.fixture
def damage(monkeypatch):
    """Damage that always finds something to damage."""
    monkeypatch.setattr(
        "synthscore.ladders.degraded.plan_damage",
        lambda good, **more: tuple(DamagedText(f"{good} Damage: {k / 8:g}.", "swap", k / 8) for k in range(1, 9)),
    )


def contexts(*ids):
    write("contexts.jsonl", *({"id": i, "text": CONTEXTS[i], "references": [reference(i)]} for i in ids))


def reference(context_id):
    sentence = "The council of {0} met on Monday. It spoke of the bridge, which is old. Nobody voted against the plan. "
    return sentence.format(context_id) + "Work begins in May and will take a year, says the mayor."


def generate(*argv, source="contexts.jsonl", attribute="coherence", task="summarization", output="ladders"):
    return main(["generate", source, "--task", task, "-a", attribute, "-o", output, *argv])


def test_generate_writes_ladders_that_score_can_read(engine, damage, capsys):
    contexts("c1", "c2")
    assert generate("--rungs", "3", "-a", "fluency") == 0
    shown(
        capsys.readouterr().err,
        "2 contexts x 2 attributes x 3 rungs: 12 rungs written, 0 failed",
        "now holds 4 ladders",
    )
    ladders = References.load("ladders")
    assert [(ladder.context_id, ladder.attribute, ladder.n_rungs) for ladder in ladders] == [
        *(("c1", "coherence", 3), ("c1", "fluency", 3), ("c2", "coherence", 3), ("c2", "fluency", 3)),
    ]
    assert ladders.find("c1", "coherence").rungs[-1].text == reference("c1")
    engine.judge = lambda prompt, labels: [math.log(0.3)] * 3
    write("targets.jsonl", {"context_id": "c1", "text": "A text."})
    assert score("--attribute", "fluency") == 0
    assert main(["references", "list", "ladders"]) == 0


def test_generate_asks_nothing_where_the_ladders_could_not_be_added(engine, damage, capsys):
    contexts("c1")
    assert generate("--rungs", "3") == 0
    Path("ladders/manifest.json").write_text("{")
    assert generate("--rungs", "3", "--model", "fake") == 1
    shown(capsys.readouterr().err, "cannot add ladders to ladders", "manifest.json is missing or is no JSON object")
    assert not engine.written


def test_generate_for_all_attributes_keeps_the_other_ladders_and_replaces_the_same(damage, capsys):
    contexts("c1")
    assert generate("--rungs", "3") == 0
    contexts("c2")
    assert generate("--rungs", "2", attribute="all") == 0
    sizes = {(ladder.context_id, ladder.attribute): ladder.n_rungs for ladder in References.load("ladders")}
    names = ("coherence", "consistency", "fluency", "relevance")
    assert sizes == {("c1", "coherence"): 3} | {("c2", name): 2 for name in names}
    contexts("c1")
    assert generate("--rungs", "2") == 0
    assert References.load("ladders").find("c1", "coherence").n_rungs == 2
    assert len(References.load("ladders")) == 5


def test_a_model_writes_and_a_killed_run_asks_only_for_the_rest(engine, capsys, monkeypatch):
    contexts("c1", "c2")
    answer = engine.answer

    def killed(questions, progress=None):
        if engine.n_written:
            raise KeyboardInterrupt
        return answer(questions, progress)

    monkeypatch.setattr(engine, "answer", killed)
    assert generate("--model", "fake", "--rungs", "3") == 130
    assert engine.n_written == 1  # the first batch is small, so that little is lost
    assert not Path("ladders").exists()
    monkeypatch.setattr(engine, "answer", answer)
    assert generate("--model", "fake", "--rungs", "3") == 0
    assert engine.n_written == 6
    first = References.load("ladders").hash
    assert generate("--model", "fake", "--rungs", "3", "-v") == 0
    assert engine.n_written == 6
    assert References.load("ladders").hash == first
    shown(capsys.readouterr().err, "2 contexts x 1 attribute x 3 rungs: 6 rungs written, 0 failed", "model:fake")


def test_the_options_of_writing_reach_the_writer(engine, damage):
    contexts("c1")
    options = ["--temperature", "0.5", "--max-new-tokens", "77", "--prompts", "paper"]
    assert generate("--model", "fake", "--rungs", "2", "--seed", "3", *options) == 0
    (model_ladder,) = References.load("ladders")
    for rung in model_ladder.rungs:
        found = {name: rung.provenance[name] for name in ("temperature", "max_new_tokens", "seed", "templates")}
        assert found == {"temperature": 0.5, "max_new_tokens": 77, "seed": 3, "templates": "paper"}
    assert generate("--rungs", "2", "--seed", "4") == 0
    (damaged,) = References.load("ladders")
    assert {rung.provenance["seed"] for rung in damaged.rungs} == {4}


def test_what_no_model_can_decode_with_is_a_usage_error_before_a_model_is_loaded(capsys, monkeypatch):
    monkeypatch.setattr(engines, "open_engine", lambda name, **options: pytest.fail("a model was loaded"))
    contexts("c1")
    for option, value in (
        *(("--temperature", "-1"), ("--temperature", "inf")),
        ("--max-new-tokens", "0"),
    ):
        assert generate("--model", "fake", option, value) == 2
        shown(capsys.readouterr().err, option)
    assert not Path("ladders").exists()


def test_options_that_only_a_model_would_use_are_refused_by_name_without_one(damage, capsys):
    contexts("c1")
    options = {
        "--prompts": "paper",
        "--temperature": "0.7",
        "--max-new-tokens": "9",
        "--dtype": "auto",
        "--device": "cpu",
        "--store": "none",
    }
    for option, value in options.items():
        assert generate(option, value) == 2
        shown(capsys.readouterr().err, "UsageError", f"{option} changes nothing without a model that writes")
    assert generate(*(word for pair in options.items() for word in pair)) == 2
    shown(capsys.readouterr().err, *options)
    assert not Path("ladders").exists()
    assert generate("--prompts", "default", "--rungs", "2", "--seed", "1") == 0


def test_a_file_of_targets_without_their_contexts_is_not_taken_for_one_of_contexts(damage, capsys):
    write("contexts.jsonl", target("c1", 3, system="s1"))
    assert generate() == 1
    shown(capsys.readouterr().err, "this row is a target", "holds no context")


@pytest.mark.parametrize("killed_in", ["manifest.json", "ladders.parquet", "README.md"])
def test_a_run_that_is_killed_while_it_saves_can_be_repeated(damage, monkeypatch, killed_in):
    from synthscore.io import write as io_write
    from synthscore.ladders import references

    def killed(path):
        if Path(path).name == killed_in:
            Path("ladders").mkdir(exist_ok=True)
            Path("ladders", f"{killed_in}.partial").write_text("half")
            raise KeyboardInterrupt
        return replacing(path)

    contexts("c1")
    replacing = references.replacing
    for module in (references, io_write):
        monkeypatch.setattr(module, "replacing", killed)
    assert generate("--rungs", "3") == 130
    for module in (references, io_write):
        monkeypatch.setattr(module, "replacing", replacing)
    assert generate("--rungs", "3") == 0
    assert main(["references", "list", "ladders"]) == 0


def test_what_a_check_would_find_is_said_with_the_attempts(engine, damage, capsys):
    texts = iter(("", *(f"{many_words(None, seed)[:-1]}," for seed in range(3))))
    engine.writer = lambda prompt, seed: next(texts)
    contexts("c1")
    assert generate("--model", "fake", "--rungs", "3") == 0
    shown(
        capsys.readouterr().err,
        "3 rungs written, 0 failed, in 4 attempts",
        "findings in 1 of 1 ladder: unfinished in 1",
        "references check ladders --no-judge",
    )
    contexts("c2")
    assert generate("--rungs", "2") == 0
    told = capsys.readouterr().err
    assert "attempts" not in told
    assert "findings" not in told


def test_ladders_of_short_texts_are_shorter_and_it_is_said_how_many(capsys):
    talks = {"t1": ["I like music, do you?"], "t2": ["Ok."], "t3": [reference("t3")]}
    said = "A: Hello {}.\nB: What do you like?"
    write("contexts.jsonl", *({"id": k, "text": said.format(k), "references": r} for k, r in talks.items()))
    on = {"task": "dialogue", "attribute": "engagingness"}
    assert generate(**on) == 0
    found = References.load("ladders")
    assert found.scales == (5,)
    assert min(found.lengths) < 5
    assert all(len(ladder.usable) == ladder.n_rungs for ladder in found)
    n_short = sum(n for length, n in found.lengths.items() if length < 5)
    err = capsys.readouterr().err
    assert f": {sum(ladder.n_rungs for ladder in found)} rungs written, 0 failed" in err
    assert f"{n_short} of 3 ladders have fewer than 5 rungs, because their texts allow no more damage: " in err
    assert generate("--rungs", "5", **on) == 3
    shown(capsys.readouterr().err, "3 contexts x 1 attribute x 5 rungs", "ask for fewer (--rungs), or for auto")
    for wrong in ("1", "few", "2.5"):
        assert generate("--rungs", wrong, **on) == 2
        shown(capsys.readouterr().err, "--rungs")


def test_an_empty_ladder_is_not_written_and_the_exit_code_says_so(capsys):
    bare = {"id": "t1", "text": "A: Hello."}
    write("contexts.jsonl", bare, {"id": "t2", "text": "A: Hi.", "references": ["Hi, you."]})
    assert generate(task="dialogue", attribute="naturalness") == 3
    assert [ladder.context_id for ladder in References.load("ladders")] == ["t2"]
    shown(capsys.readouterr().err, "1 ladder of 2 left out: not one", "a reference is needed", "now holds 1 ladder")
    write("contexts.jsonl", bare)
    assert generate(task="dialogue", attribute="naturalness", output="other") == 1
    shown(capsys.readouterr().err, "1 ladder of 1 left out", "not one rung could be written")
    assert not Path("other").exists()


def test_a_model_writes_five_rungs_where_their_number_is_left_to_it(engine, capsys):
    contexts("c1")
    assert generate("--model", "fake", "--rungs", "auto") == 0
    assert [(each.n_rungs, each.wanted) for each in References.load("ladders")] == [(5, None)]


def test_failed_rungs_are_counted_with_their_reasons(engine, capsys):
    engine.writer = lambda prompt, seed: "" if "best" in prompt.text else many_words(prompt, seed)
    contexts("c1", "c2")
    assert generate("--model", "fake", "--rungs", "2") == 3
    shown(capsys.readouterr().err, "2 rungs written, 2 failed", "2 x ")
    assert {rung.status for ladder in References.load("ladders") for rung in ladder.rungs} == {"ok", "failed"}


def test_rows_that_hold_no_context_are_left_out_and_named(damage, capsys):
    contexts("c1")
    with Path("contexts.jsonl").open("a") as file:
        file.write('{"id": "c7"\n{"id": "c8", "text": ""}\n')
    assert generate("--rungs", "2") == 3
    shown(capsys.readouterr().err, "2 rows of contexts.jsonl left out", "row 2", "row 3", "1 context x 1 attribute")
    assert len(References.load("ladders")) == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"attribute": "wit"}, ["TaskError", "'wit'", "coherence, consistency"]),
        ({"task": "cooking"}, ["TaskError", "'cooking'", "story"]),
    ],
)
def test_an_unknown_task_or_attribute_is_named_with_those_that_there_are(capsys, options, words):
    contexts("c1")
    assert generate(**options) == 1
    shown(capsys.readouterr().err, *words)
    assert not Path("ladders").exists()


def test_a_folder_that_holds_something_else_is_refused_before_anything_is_asked(engine, capsys):
    contexts("c1")
    write("ladders.jsonl")
    Path("ladders").mkdir()
    assert generate("--model", "fake", "--rungs", "2") == 0
    Path("other").mkdir()
    Path("other/thesis.tex").touch()
    asked = engine.n_written
    assert generate("--model", "fake", "--seed", "1", output="other") == 1
    shown(capsys.readouterr().err, "ReferencesError", "other")
    assert engine.n_written == asked


def test_a_file_without_contexts_is_an_error(capsys):
    write("contexts.jsonl", {"id": "c1"})
    assert generate() == 1
    shown(capsys.readouterr().err, "holds no context")


def test_all_commands_take_the_same_contexts_of_a_limit(engine, references, damage, capsys):
    taken = some_contexts(CONTEXTS, 2)
    rows = [target(c, k, id=f"{c}-{k}", context=CONTEXTS[c], human=k) for c in CONTEXTS for k in (1, 3, 4)]
    write("targets.jsonl", *rows)
    limit = ("--limit", "2")
    assert score(*limit, "-o", "scores.jsonl") == 0
    assert (
        main(["rank", "targets.jsonl", "--task", "summarization", "-a", "coherence", *limit, "-o", "ranks.jsonl"]) == 0
    )
    human = ["--human", "targets.jsonl", "-a", "coherence", *limit]
    assert main(["evaluate", "scores.jsonl", *human, "--methods", "length", "-o", "run"]) == 0
    assert {row["context_id"] for name in ("scores", "ranks", "run/ratings") for row in read(f"{name}.jsonl")} == taken
    assert len(read("scores.jsonl")) == len(read("ranks.jsonl")) == len(read("run/ratings.jsonl")) == 6
    assert "1 of 3 contexts: --limit 2" in capsys.readouterr().out
    contexts(*CONTEXTS)
    assert generate(*limit, output="own") == 0
    assert {ladder.context_id for ladder in References.load("own")} == taken
    score("-o", "all.jsonl")
    assert main(["evaluate", "all.jsonl", *human]) == 0, "scores of other contexts are left out as meant"


def test_a_row_that_names_no_context_is_not_lost_to_a_limit(engine, references):
    write("targets.jsonl", *(target(c, 2) for c in CONTEXTS), "{")
    assert score("--limit", "1", "-o", "scores.jsonl") == 3
    assert [row["status"] for row in read("scores.jsonl")] == ["ok", "unscored"]


@pytest.mark.parametrize("n", [2, 7])
def test_the_folder_that_shards_write_into_is_the_set_that_one_machine_writes(folder, n):
    """Degraded ladders' foreign sentences are those of contexts that other shards write."""
    argv = [str(resource("data/demo/summarization.jsonl")), "--task", "summarization", "-a", "relevance"]
    argv += ["-a", "consistency"]
    assert main(["generate", *argv, "-o", "whole"]) in (0, 3)  # some texts are too short
    for i in range(1, n + 1):
        assert main(["generate", *argv, "--shard", f"{i}/{n}", "-o", f"ladders/shard-{i}"]) in (0, 1, 3)
    together, whole = References.load("ladders"), References.load("whole")
    assert together.ladders == whole.ladders
    assert together.hash == whole.hash
    kinds = {kind for each in whole for rung in each.rungs for kind in rung.provenance["kinds"]}
    assert any("foreign" in kind for kind in kinds)
