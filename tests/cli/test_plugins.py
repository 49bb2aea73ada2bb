"""Methods and benchmarks that other installed packages add, on the command line."""

import re

import pytest

from synthscore.cli.app import main
from synthscore.evaluation.ratings import Ratings
from synthscore.scoring.methods import MethodKind
from synthscore.scoring.methods.grading import Direct
from tests.cli.given import read, score, target, write
from tests.plugins import only_installed

NINE = MethodKind(Direct, "a number from 1 to 9", ("judge",), fixed={"scale": "1-9"})
NO_METHOD = NO_BENCHMARK = ("what", "it", "is")


def says_eight(prompt, labels):
    return [-0.1 if label == "8" else -9.0 for label in labels]


def count_words(ratings, attribute, tools):
    """Another package's method of whole sets of texts."""
    from synthscore.evaluation.methods import method

    return method("length")(ratings, attribute, tools)


WORDS = MethodKind(lambda: count_words, "number of words, again")


class Toy:
    """A benchmark of another package."""

    task = "summarization"

    @property
    def scales(self):
        return {"coherence": (1.0, 5.0)}

    def load(self, folder):
        return Ratings.load(f"{folder}/ratings.jsonl")


TOY = Toy()


@pytest.fixture
def installed(request):
    """What installed packages add: of each group NAME=OBJECT of this module, or NAME=MODULE:OBJECT."""
    groups = {}
    for group, entries in getattr(request, "param", {}).items():
        values = {name: value if ":" in value else f"{__name__}:{value}" for name, value in entries.items()}
        groups[f"synthscore.{group}"] = values
    with only_installed(groups):
        yield


@pytest.fixture
def rated():
    rows = [
        {"id": f"{c}-{k}", "context_id": c, "text": "word " * k, "human.coherence": k}
        for c in ("c1", "c2")
        for k in (1, 2, 3)
    ]
    write("ratings.jsonl", *rows)


def evaluate(*argv):
    return main(["evaluate", *argv])


def adding(**groups):
    return pytest.mark.parametrize("installed", [groups], indirect=True, ids=[""])


told_of_warnings = pytest.mark.filterwarnings("default::synthscore.errors.SynthscoreWarning")  # elsewhere raised


# ------------------------------------------------------------------------------------------------- methods


def test_score_tells_of_an_unknown_method_which_there_are(installed, engine, references, capsys):
    write("targets.jsonl", target("c1", 2))
    assert score("--method", "nope") != 0
    assert (
        "there is no method 'nope'. There are: ladder, place, decision-score, direct, g-eval" in capsys.readouterr().err
    )
    assert engine.n_judged == 0


@adding(methods={"nine": "NINE"})
def test_score_lists_and_runs_a_method_of_an_installed_package(installed, engine, references, capsys):
    write("targets.jsonl", target("c1", 2))
    assert score("--method", "nope") != 0
    assert re.search(r"There are: ladder, .*, nine$", capsys.readouterr().err, re.MULTILINE)
    engine.judge = says_eight
    assert score("--method", "nine", "-o", "scores.jsonl") == 0
    assert [row["score"] for row in read("scores.jsonl")] == [8.0]


@told_of_warnings
@adding(methods={"broken": "no_such_module:KIND", "text": "NO_METHOD", "direct": "NINE", "nine": "NINE"})
def test_a_broken_plug_in_costs_a_warning_and_not_the_verb(installed, engine, references, capsys):
    write("targets.jsonl", target("c1", 2))
    engine.judge = says_eight
    assert score("--method", "nine", "-o", "scores.jsonl") == 0
    warned = capsys.readouterr().err
    assert warned.count("warning: ") == 3
    assert "'broken' of an unknown package (synthscore.methods: no_such_module:KIND) is left out, since it" in warned
    assert "'text' (synthscore.methods) is left out: it is ('what', 'it', 'is'), expected a synthscore" in warned
    assert "'direct' (synthscore.methods) is left out: there is a method of that name" in warned
    assert score("--method", "direct:scale=1-9", "-o", "scores.jsonl") == 0
    assert "warning" not in capsys.readouterr().err, "ours asks for no plug-in: no warning"


def test_evaluate_tells_of_an_unknown_method_which_there_are(installed, rated, capsys):
    assert evaluate("--human", "ratings.jsonl", "--methods", "nope") == 1
    assert "there is no method 'nope'. There are: ladder, place, decision-score, direct, " in capsys.readouterr().err


@told_of_warnings
@adding(methods={"words": "WORDS", "broken": "no_such_module:KIND"})
def test_evaluate_lists_and_runs_a_method_of_an_installed_package(installed, rated, capsys):
    assert evaluate("--human", "ratings.jsonl", "--methods", "length,nope:x=1", "--model", "m") == 1
    err = capsys.readouterr().err
    assert re.search(r"^warning: .*'broken' of .* is left out, since it cannot be loaded: ModuleNotFound", err, re.M)
    assert re.search(r"no method 'nope:x=1'\. There are: ladder, .*, random, words$", err, re.M)
    assert evaluate("--human", "ratings.jsonl", "--methods", "words") == 0
    assert re.search(r"^words +1\.00 ", capsys.readouterr().out, re.MULTILINE)


@adding(methods={"words": "WORDS"})
def test_a_method_of_whole_sets_is_refused_by_score_with_the_verb_that_takes_it(installed, engine, references, capsys):
    write("targets.jsonl", target("c1", 2))
    assert score("--method", "words") != 0
    assert "words needs a whole set of texts and works in `synthscore evaluate` alone" in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------- benchmarks


def test_a_benchmark_that_is_not_installed_is_told_that_there_are_none(installed, capsys):
    assert evaluate("--benchmark", "summeval", "--data", ".") == 1
    assert "there is no benchmark 'summeval'. Installed are: none. Install the package" in capsys.readouterr().err
    assert evaluate("--list") == 0
    assert "benchmarks" not in capsys.readouterr().out


@adding(benchmarks={"toy": "TOY", "tiny": "TOY"})
def test_a_benchmark_of_an_installed_package_is_listed_and_evaluated(installed, rated, capsys):
    assert evaluate("--benchmark", "summeval", "--data", ".") == 1
    assert "there is no benchmark 'summeval'. Installed are: toy, tiny. Install" in capsys.readouterr().err
    assert evaluate("--list") == 0
    assert re.search(r"^toy +summarization +coherence$", capsys.readouterr().out, re.MULTILINE)
    assert evaluate("--benchmark", "toy", "--data", ".", "--methods", "length") == 0
    assert re.search(r"^length +1\.00 ", capsys.readouterr().out, re.MULTILINE)


@told_of_warnings
@adding(benchmarks={"none": "NO_BENCHMARK", "toy": "TOY"})
def test_an_entry_point_that_is_no_benchmark_costs_a_warning_and_not_the_verb(installed, rated, capsys):
    assert evaluate("--benchmark", "toy", "--data", ".", "--methods", "length") == 0
    warned = capsys.readouterr().err
    assert re.search(r"^warning: .*'none' \(synthscore.benchmarks\) is left out: it is \('what', ", warned, re.M)
