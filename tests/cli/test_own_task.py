"""A task of one's own, in its own language: brought in once with its ladders, it is asked in from anywhere."""

import math
import re
import shutil
from pathlib import Path

import pytest

from synthscore.cli.app import main
from synthscore.judging.asking import Asking
from synthscore.ladders.references import References
from synthscore.scoring.scorer import Scorer
from synthscore.thresholds.filter import filter as keep
from tests.cli.given import parse, shown, write
from tests.factories import GERMAN
from tests.fakes import FakeEngine

ATTRIBUTE = "verständlichkeit"
ARTICLES = ("Die Fähre fuhr nicht, weil ein Schlauch geplatzt war.", "Die Bücherei schließt am Freitag schon mittags.")
ROWS = [{"context": article, "text": f"Ein Text der Güte {quality}."} for article in ARTICLES for quality in (1.6, 4.4)]


def qualities(prompt):
    """Of the two texts, the reference first; those of doctor's example say none."""
    return [float(number) for number in re.findall(r"Güte (-?[\d.]+\d|-?\d)", prompt.text)] or (1.0, 1.0)


def german_judge(prompt, labels):
    """Compares the numbers behind "Güte" in the two texts; knows German answers alone."""
    assert "Antworte mit einem Wort" in prompt.text
    assert prompt.text.endswith("Urteil:")
    reference, target = qualities(prompt)
    better = 1 / (1 + math.exp(-8 * (target - reference)))
    probs = {"Besser": better, "Schlechter": 1 - better, "Gleich": 1e-4, "Ja": better, "Nein": 1 - better}
    return [math.log(max(0.95 * probs[label], 1e-12)) for label in labels]


@pytest.fixture
def engine(monkeypatch):
    from synthscore import engines

    engine = FakeEngine(german_judge)
    monkeypatch.setattr(engines, "open_engine", lambda name, **options: engine)
    return engine


@pytest.fixture
def home(folder, monkeypatch):
    """Where the task's folder is, and ladders and rows beside it."""
    home = folder / "home"
    shutil.copytree(GERMAN, home / GERMAN.name)
    monkeypatch.chdir(home)
    rungs = [f"Ein Text der Güte {level}, und sonst nichts." for level in (1, 2, 3, 4, 5)]
    write("mine.jsonl", *({"context": article, "rungs": rungs} for article in ARTICLES))
    write("rows.jsonl", *ROWS)
    return home


def bring_in(*argv):
    return main(["references", "import", "mine.jsonl", "--task", f"{GERMAN.name}/", "-a", ATTRIBUTE, "-o", *argv])


@pytest.fixture
def ladders(home, folder, capsys):
    """Imported, then put elsewhere, with the rows."""
    assert bring_in("ladders") == 0
    shown(capsys.readouterr().err, "2 ladders of 10 rungs imported", "the task zusammenfassung (", "is kept with the")
    return shutil.move(home / "ladders", folder / "moved")


@pytest.fixture(params=["beside the task", "in an empty folder", "in a folder of another task"])
def place(request, home, folder, monkeypatch):
    """Three folders to work in."""
    if request.param != "beside the task":
        (folder / "work").mkdir()
        monkeypatch.chdir(folder / "work")
    if request.param == "in a folder of another task":
        shutil.copytree(GERMAN, GERMAN.name)
        (Path(GERMAN.name) / "compare.jinja").write_text("Which? {{ target }} {{ reference }}")
    return request.param


def test_it_is_imported_and_scored_from_three_folders(home, ladders, place, engine, capsys):
    rows = str(home / "rows.jsonl")
    named = ["--task", str(Path(ladders) / "tasks" / GERMAN.name)] if "another" in place else []
    on = ["--references", str(ladders), *named]

    def run(*argv):
        code = main([*argv, *named])
        return code, capsys.readouterr()

    if named:
        assert main(["score", rows, "--references", str(ladders)]) == 1
        err = capsys.readouterr().err
        shown(err, "InputError: there are two tasks 'zusammenfassung'", f"{ladders}/tasks", f"{Path.cwd()}/zusammen")
        assert engine.n_judged == 0
        assert main(["filter", rows, "--references", str(ladders), "--min-score", "3"]) == 1
        shown(capsys.readouterr().err, "InputError: there are two tasks", f"--task {named[1]}")
    code, (out, err) = run("score", rows, "--references", str(ladders), "--verdicts")
    assert code == 0
    scores = parse(out)
    assert [row["score"] > 3 for row in scores] == [False, True, False, True]
    assert "labels:Besser,Schlechter,Gleich|" in scores[0]["signature"]
    assert "own_task:zusammenfassung@" in scores[0]["signature"]
    line = "task zusammenfassung ("
    assert err.count(line) == (1 if place == "in an empty folder" else 0)
    code, (out, err) = run("filter", rows, "--references", str(ladders), "--min-score", "3")
    assert code == 0
    assert [row["text"] for row in parse(out)] == [ROWS[1]["text"], ROWS[3]["text"]]
    assert run("references", "check", str(ladders))[0] == 0
    assert run("references", "show", str(ladders), scores[0]["context_id"])[0] == 0
    code, (out, _) = run("doctor", "--ladders", str(ladders), "-a", ATTRIBUTE)
    assert code == 3  # two ladders are too few to be sure
    shown(out, "Zwei Zusammenfassungen desselben Artikels", "zusammenfassung", f"{ATTRIBUTE} (100% of 20 pairs)")
    assert run("redteam", "--ladders", str(ladders), "--limit", "1")[0] in (0, 3)
    rated_rows = (
        {**row, "id": f"r{k}", "context_id": scores[k]["context_id"], "human": k} for k, row in enumerate(ROWS)
    )
    write("ratings.jsonl", *rated_rows)
    rated = ["evaluate", "--human", "ratings.jsonl", *on, "--methods", "ladder", "-a", ATTRIBUTE]
    assert main([*rated, *([] if named else ["--task", GERMAN.name])]) == 0
    capsys.readouterr()
    task = named[1] if named else None
    scorer = Scorer(References.load(ladders), engine, task=task, asking=Asking(both_orders=True))
    assert [score.value > 3 for score in scorer.score(ROWS)] == [False, True, False, True]
    assert len(keep(ROWS, References.load(ladders), engine, 3.0, attribute=ATTRIBUTE, task=task).kept) == 2


def test_scores_are_the_same_whether_the_task_came_with_the_ladders_or_was_named(home, ladders, engine, capsys):
    on = ["score", "rows.jsonl", "--references", str(ladders)]
    shutil.move(home / GERMAN.name, home / "renamed")
    assert main(on) == 0
    carried = capsys.readouterr()
    assert main([*on, "--task", "renamed"]) == 0
    named = capsys.readouterr()
    assert carried.out == named.out
    assert "task zusammenfassung (" in carried.err
    assert "task zusammenfassung (" not in named.err


@pytest.mark.parametrize("protocol", ["compare", "yes_no", "yes_no_two_sided"])
def test_the_answers_are_those_of_the_task(home, ladders, engine, capsys, protocol):
    if protocol == "yes_no_two_sided":
        engine.judge = lambda prompt, labels: [math.log(0.4)] * len(labels)
    assert main(["score", "rows.jsonl", "--references", str(ladders), "--protocol", protocol]) == 0
    labels = {"compare": "Besser,Schlechter,Gleich"}.get(protocol, "Ja,Nein")
    assert f"|labels:{labels}|" in capsys.readouterr().out


def test_answers_in_words_and_files_of_questions_hold_the_tasks_words(home, ladders, engine, capsys):
    def says(prompt, seed):
        reference, target = qualities(prompt)
        return f"Ich vergleiche.\nUrteil: {'Besser' if target > reference else 'schlechter'}."

    engine.writer = says
    assert main(["score", "rows.jsonl", "--references", str(ladders), "--answers", "words"]) == 0
    assert all(row["status"] == "ok" for row in parse(capsys.readouterr().out))


def test_another_task_of_the_same_name_takes_the_place_of_the_one_that_was_kept(home, capsys):
    assert bring_in("ladders") == 0
    before = References.load("ladders").carried_tasks[GERMAN.name]
    file = home / GERMAN.name / "task.toml"
    file.write_text(file.read_text("utf-8").replace("ein Kind", "jedes Kind"), "utf-8")
    capsys.readouterr()
    assert bring_in("ladders") == 0
    shown(capsys.readouterr().err, "is kept with the ladders, in place of another (")
    assert References.load("ladders").carried_tasks[GERMAN.name] != before
    assert bring_in("ladders") == 0
    assert "is kept with" not in capsys.readouterr().err


def test_ladders_that_a_model_writes_in_the_tasks_words_keep_it_too(home, folder, engine, capsys, monkeypatch):
    prompts = []

    def write_text(prompt, seed):
        prompts.append(prompt.text)
        return f"Die Fähre Nummer {len(prompts)} fuhr wegen eines Schlauches von {7 ** len(prompts)} Metern nicht."

    engine.writer = write_text
    write("contexts.jsonl", {"id": "a1", "text": ARTICLES[0]})
    argv = ["generate", "contexts.jsonl", "--task", f"./{GERMAN.name}", "-a", "all", "--rungs", "3", "--model", "m"]
    assert main([*argv, "-o", "ladders"]) == 0
    assert all(prompt.startswith("Schreibe eine Zusammenfassung des folgenden Artikels.") for prompt in prompts)
    moved = shutil.move("ladders", folder / "moved")
    (folder / "empty").mkdir()
    monkeypatch.chdir(folder / "empty")
    engine.judge = lambda prompt, labels: [math.log(0.3)] * len(labels)
    write("rows.jsonl", {"context_id": "a1", "text": "Eine Fähre fuhr nicht."})
    assert main(["score", "rows.jsonl", "--references", str(moved), "--why"]) == 0
    assert main(["references", "check", str(moved), "--no-judge"]) in (0, 3)
