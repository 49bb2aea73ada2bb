"""`python -m papers`, and what its plug-in adds to `synthscore evaluate`."""

import gzip
import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest

import papers.__main__ as commands
import papers.methods
from papers.__main__ import main
from papers.benchmarks import BENCHMARKS
from synthscore.cli.app import main as synthscore
from synthscore.evaluation.agreement import agreement
from synthscore.evaluation.benchmarks import benchmarks, load_benchmark
from synthscore.evaluation.methods import MethodError, MethodKind, method_kinds
from synthscore.io.write import write_rows
from synthscore.ladders.references import References
from synthscore.scoring.methods import open_method
from tests.factories import ladders
from tests.fakes import FakeEngine, reading_judge
from tests.plugins import only_installed, papers_entry_points

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "benchmarks"


def benchmark(name):
    return pytest.mark.skipif(not (FOLDER / f"{name}.jsonl.gz").exists(), reason=f"{name} is not here")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SYNTHSCORE_STORE", str(tmp_path / "store.sqlite"))
    return tmp_path


def evaluate(*argv):
    return synthscore(["evaluate", *map(str, argv)])


def evaluated(capsys, *argv):
    assert evaluate(*argv, "--json") == 0
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def engine(monkeypatch):
    made = FakeEngine(reading_judge())
    monkeypatch.setattr(commands, "open_judge", lambda name, store, **options: made)
    return made


def test_the_list_names_all_tables(capsys):
    assert main(["list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()][:2] == ["ds1", "ds2"]


def test_the_entry_points_are_every_benchmark_and_every_method_of_this_folder():
    groups = papers_entry_points()
    assert groups.keys() == {"synthscore.methods", "synthscore.benchmarks"}
    assert benchmarks() == BENCHMARKS
    modules = [import_module(f"papers.methods.{module.name}") for module in iter_modules(papers.methods.__path__)]
    kinds = [value for module in modules for value in vars(module).values() if isinstance(value, MethodKind)]
    installed = method_kinds()
    assert sorted(map(id, kinds)) == sorted(id(installed[name]) for name in groups["synthscore.methods"])


def test_synthscore_lists_the_methods_and_benchmarks_of_the_papers(capsys):
    assert synthscore(["evaluate", "--list"]) == 0
    out = capsys.readouterr().out
    for name in ("ladder", "bertscore", "gptscore", "bartscore", "unieval", "zepo", "meteor", "summeval", "sfhot"):
        assert f"\n{name} " in out, name


def test_a_method_of_the_plug_in_is_evaluated_by_its_name_and_options(capsys):
    texts = {"a": "A ferry lost power near an island.", "b": "A ferry sank.", "c": "None."}
    common = {"context_id": "c1", "context": "An article.", "references": ["A ferry lost its power near an island."]}
    rows = [{"id": id_, "text": text, "human.fluency": len(text), **common} for id_, text in texts.items()]
    write_rows(rows, "ratings.jsonl")
    assert evaluate("--human", "ratings.jsonl", "--methods", "meteor:x=1") == 1
    assert "Expected options as NAME=VALUE, each once, out of: references, system, own" in capsys.readouterr().err
    found = evaluated(capsys, "--human", "ratings.jsonl", "--methods", "meteor:references=all,length")
    figures = found["methods"]["meteor:references=all"]["attributes"]["fluency"]["per_context"]
    assert figures["spearman"]["value"] == pytest.approx(1)


def test_a_method_of_the_plug_in_scores_no_single_texts_and_says_so():
    with pytest.raises(MethodError, match=r"meteor needs a whole set of texts .* `synthscore evaluate` alone"):
        open_method("meteor")


def test_methods_of_ours_are_opened_and_verbs_are_run_without_importing_papers():
    code = "import sys, synthscore.cli, synthscore.evaluation.run\n"
    code += "from synthscore.evaluation.methods import method, uses\n"
    code += "method('length'), uses('ladder'); print('papers' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_a_verb_of_synthscore_is_none_of_papers(capsys):
    with pytest.raises(SystemExit):
        main(["evaluate", "--list"])
    assert "invalid choice: 'evaluate' (choose from" in capsys.readouterr().err


def test_a_table_without_its_benchmark_shows_what_is_published_and_says_what_is_missing(folder, capsys):
    assert main(["ds5", "--data", str(folder), "-o", "run"]) == 3
    shown = capsys.readouterr()
    assert "ds5: " in shown.out
    assert "(0.787)" in shown.out
    assert "not measured: there is no summeval" in shown.err
    assert {path.name for path in Path("run/tables").iterdir()} == {"ds5.md", "ds5.json"}


@benchmark("topicalchat")
def test_what_is_said_of_a_table_reaches_it(engine, capsys, monkeypatch):
    asked = []

    def make_table(*said, **more):
        asked.append((*said, more))
        return original(*said, **more | {"methods": {}})

    original = commands.make_table
    monkeypatch.setattr(commands, "make_table", make_table)
    References(ladders()).save("ladders")
    argv = ["ds5", "--data", str(FOLDER), "--benchmark", "topicalchat", "--model", "http://x/v1#org/m"]
    argv += ["--references", "ladders", "--writer", "w=ladders", "--row", "A=length", "--draws", "7", "--seed", "5"]
    assert main([*argv, "--prompts", "paper,default"]) == 0
    ((name, ratings, models, more),) = asked
    assert (name, list(ratings), list(models), list(more["writers"])) == ("ds5", ["topicalchat"], ["org/m"], ["w"])
    assert (models["org/m"].asking.prompts, more["prompts"]) == ("paper", ["paper", "default"])
    assert models["org/m"].references.hash == more["writers"]["w"].hash
    assert (more["methods"], more["n_draws"], more["seed"]) == ({"A": "length"}, 7, 5)


def test_tables_are_not_made_where_the_plug_in_is_not_installed(folder, capsys):
    with only_installed({}):
        assert main(["ds5", "--data", str(folder)]) == 1
    assert "papers/ is not installed, so its methods have no names. Say: pip install" in capsys.readouterr().err


def test_a_table_that_is_not_there_names_those_that_are(folder, capsys):
    with pytest.raises(SystemExit):
        main(["ds1", "ds7", "--data", str(folder)])
    assert "invalid choice: 'ds7' (choose from" in capsys.readouterr().err


@benchmark("summeval")
def test_a_table_shows_measured_beside_published_figures(capsys):
    assert main(["ds5", "--data", str(FOLDER), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    cells = [cell for row in found["ds5"]["rows"] for cell in row["cells"]]
    assert all(cell["value"] is not None and cell["published"] is not None for cell in cells)


@benchmark("summeval")
def test_a_table_says_what_a_benchmarks_file_does_not_hold(folder, capsys):
    lines = gzip.decompress((FOLDER / "summeval.jsonl.gz").read_bytes()).splitlines(keepends=True)
    (folder / "summeval.jsonl").write_bytes(b"".join(lines[1:]))
    assert main(["ds5", "--data", str(folder), "--limit", "2"]) == 0
    assert "summeval, left out: 50 of 100 contexts, 801 of 1600 texts: not in summeval.jsonl" in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------- benchmarks


@benchmark("summeval")
def test_a_benchmark_is_evaluated_with_its_ceiling_and_what_it_lacks(capsys):
    assert evaluate("--benchmark", "summeval", "--data", FOLDER, "--methods", "overlap", "-a", "consistency") == 0
    out = capsys.readouterr().out
    assert "summeval: 800 texts of 50 contexts by 16 systems" in out
    assert re.search(r"^overlap +\.37 \[\.\d\d, \.\d\d\]$", out, re.MULTILINE)  # as docs/benchmarks.md and nano's card
    assert re.search(r"^people's ceiling +\.\d\d \[", out, re.MULTILINE)
    assert "consistency: " not in out
    assert "2 of 50 contexts skipped, where fewer than two texts have both score and rating" in out
    assert "50 of 100 contexts, 800 of 1600 texts: not in summeval.jsonl.gz" in out


@benchmark("summeval")
def test_scores_of_a_benchmarks_texts_are_compared_with_it(capsys):
    ratings = load_benchmark("summeval", FOLDER)
    write_rows(
        [
            {"context_id": t.context_id, "system": t.system, "attribute": "fluency", "score": float(len(t.text))}
            for t in ratings
        ],
        "mine.jsonl",
    )
    found = evaluated(capsys, "mine.jsonl", "--benchmark", "summeval", "--data", FOLDER)
    expected = agreement([len(t.text) for t in ratings], ratings.human("fluency"), ratings.context_ids)
    figure = found["fluency"]["per_context"]["spearman"]
    assert (figure["value"], figure["n"], figure["n_skipped"]) == (expected.value, expected.n, expected.n_skipped)
    assert figure["low"] < figure["value"] < figure["high"]
    assert list(found) == ["fluency", "about"]


def test_a_benchmark_folder_with_a_file_missing_says_which_and_where_to_get_it(folder, capsys):
    assert evaluate("--benchmark", "topicalchat", "--data", folder) == 1
    err = capsys.readouterr().err
    assert "topicalchat.jsonl" in err
    assert "http://shikib.com/usr" in err


@benchmark("topicalchat")
def test_a_benchmark_with_a_row_short_says_which_context(folder, capsys):
    lines = gzip.decompress((FOLDER / "topicalchat.jsonl.gz").read_bytes()).splitlines(keepends=True)
    (folder / "topicalchat.jsonl").write_bytes(b"".join(lines[:7] + lines[8:]))
    assert evaluate("--benchmark", "topicalchat", "--data", folder) == 0
    out = capsys.readouterr().out
    assert "1 of 360 texts: not in topicalchat.jsonl" in out
    assert json.loads(lines[7])["context_id"] in out
