"""Options that verbs share."""

from pathlib import Path

import pytest

from synthscore.cli.app import main
from tests.cli.given import CONTEXTS, score, shown, target, write


@pytest.mark.parametrize("name", ["scores.xlsx", "scores", "scores.gz"])
def test_a_file_that_no_rows_can_be_written_to_is_refused_before_anything_is_read(folder, capsys, name):
    assert main(["score", "missing.jsonl", "--references", "missing", "-o", name]) == 2
    shown(capsys.readouterr().err, f"cannot write {name}", ".jsonl, .ndjson, .csv, .tsv (each also .gz), .parquet")


@pytest.mark.parametrize("verb", ["score", "filter", "rank", "compare", "doctor", "references check"])
def test_what_a_server_may_leave_unreported_is_an_option_of_every_verb_that_asks_a_judge(verb, capsys):
    main([*verb.split(), "--help", "all"])
    assert "--max-unreported" in capsys.readouterr().out


@pytest.mark.parametrize(
    "argv",
    [
        ["rank", "rows.jsonl", "--seed", "1.5"],
        ["compare", "rows.jsonl", "--task", "summarization", "-a", "coherence", "--budget", "1.5"],
        ["generate", "rows.jsonl", "--task", "summarization", "-a", "coherence", "-o", "out", "--rungs", "1.5"],
        ["score", "rows.jsonl", "--references", "ladders", "--samples", "1.5"],
        ["doctor", "--pairs", "1.5"],
        ["doctor", "--in-flight", "1.5"],
    ],
    ids=lambda argv: f"{argv[0]} {argv[-2]}",
)
def test_a_whole_number_is_not_rounded(argv, capsys):
    assert main(argv) == 2
    shown(capsys.readouterr().err, f"Invalid value for {argv[-2]}: 1.5 is no whole number")


# ------------------------------------------------------------------------------------------------- --dry-run


def test_no_command_asks_or_writes_anything_with_dry_run(engine, references, capsys):
    rows = [target(c, k, id=f"{c}-{k}", context=CONTEXTS[c], human=k) for c in CONTEXTS for k in (1, 3)]
    write("targets.jsonl", *rows)
    on = ["targets.jsonl", "--references", "ladders"]
    compared = ["targets.jsonl", "--task", "summarization", "-a", "coherence"]
    files = sorted(Path().rglob("*"))
    for argv, said in (
        (["score", *on], "30 questions, of which 30 are to be asked: about "),
        (["score", *on, "--both-orders", "--scoring", "anchored", "--save-scale", "s.json"], "120 questions"),
        (["filter", *on, "--min-score", "3", "--dropped", "low.jsonl"], "30 questions"),
        (["score", *on, "--scoring", "anchored", "--model", "m", "--model", "n"], "90 questions, of which"),
        (["filter", *on, "--min-score", "3", "--scoring", "anchored", "--model", "m", "--model", "n"], "90 questions"),
        (["rank", *compared, "--model", "m", "--model", "n"], "6 questions"),
        (["rank", *compared], "6 questions"),
        (["compare", *compared], "6 questions"),
        (["generate", *compared, "--model", "m"], "15 questions"),
        (["generate", *compared], "15 rungs by damage, which asks nothing"),
        (["evaluate", "--human", *compared, "--methods", "length,g-eval,ladder", *on[1:]], "36 questions"),
        (["doctor", "--ladders", "ladders"], "questions, of which"),
    ):
        output = [] if argv[0] == "doctor" else ["-o", "out.jsonl"]
        assert main([*argv, *output, "--dry-run"]) == 0, argv
        assert said in " ".join(capsys.readouterr().out.split()), argv
        assert engine.n_judged == 0, argv
    assert sorted(path for path in Path().rglob("*") if "answers.sqlite" not in path.name) == files


@pytest.mark.parametrize(
    "argv",
    [
        ["score", "--references", "ladders", "--scoring", "anchored"],
        ["filter", "--references", "ladders", "--scoring", "anchored", "--min-score", "3"],
        ["rank", "--task", "summarization", "-a", "coherence", "--limit", "2"],
        ["evaluate", "--task", "summarization", "--methods", "g-eval,ladder,poe-bt", "--references", "ladders"],
    ],
    ids=lambda argv: argv[0],
)
def test_as_many_are_asked_as_were_counted(argv, engine, references, capsys):
    rows = [target(c, k, id=f"{c}-{k}", context=CONTEXTS[c], human={"coherence": k}) for c in CONTEXTS for k in (1, 3)]
    write("targets.jsonl", *rows)
    verb, *more = argv
    given = ["--human", "targets.jsonl"] if verb == "evaluate" else ["targets.jsonl"]
    assert main([verb, *given, *more, "--dry-run"]) == 0
    counted = capsys.readouterr().out
    main([verb, *given, *more])
    assert counted.startswith(f"{engine.n_judged} questions, of which {engine.n_judged} are to be asked")


def test_what_the_store_holds_is_not_to_be_asked(engine, references, capsys):
    write("targets.jsonl", *(target(c, 2) for c in CONTEXTS))
    score("--limit", "1", "-o", "scores.jsonl")
    capsys.readouterr()
    assert score("--dry-run") == 0
    assert "15 questions, of which 10 are to be asked" in capsys.readouterr().out


def test_before_many_questions_it_is_said_what_they_take(engine, references, capsys):
    write("targets.jsonl", *(target("c1", k, id=str(k)) for k in range(201)))
    score("-o", "scores.jsonl", "--model", "nano")
    said = "1 005 questions, of which 1 005 are to be asked: about "
    assert capsys.readouterr().err.startswith(said)
    score("-o", "scores.jsonl", "--quiet", "--store", "none")
    assert "questions" not in capsys.readouterr().err
    argv = ["filter", "targets.jsonl", "--references", "ladders", "--min-score", "3", "-o", "f.jsonl"]
    assert main([*argv, "--model", "nano"]) == 0
    assert capsys.readouterr().err.startswith("1 005 questions, of which 0 are to be asked\n")


def test_evaluate_says_what_all_methods_and_attributes_take(engine, references, capsys):
    rows = [
        target("c1", k, id=str(k), context=CONTEXTS["c1"], human={"coherence": k, "fluency": -k}) for k in range(300)
    ]
    write("ratings.jsonl", *rows)
    argv = ["evaluate", "--human", "ratings.jsonl", "--task", "summarization", "--methods", "g-eval,direct"]
    main([*argv, "--model", "nano"])
    assert capsys.readouterr().err.startswith("600 questions (1 200 with equal ones), of which 600 are to be asked")
