"""The pages with every row: what is on them, where they lead, and what comes from outside."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from synthscore.cli.app import main
from synthscore.errors import InputError
from synthscore.io.write import write_rows
from synthscore.ladders.references import References
from synthscore.report import page, read_run, row_pages, rows_folder, write_pages
from synthscore.report import rows as rows_module
from synthscore.resources import resource
from tests.report.test_report import (
    NASTY,
    Elements,
    a_run,
    asked_for,
    browse,
    check_harmless,
    make_run,
    nasty_run,
    needs_browser,
    row,
    visible,
)


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("run"))


def pages_of(run, **more):
    return dict(row_pages(run, **more))


def links_of(html):
    return {attributes["href"] for attributes in Elements(html).of("a")}


def test_every_row_is_on_a_list_once_the_highest_score_first(run_folder):
    run = read_run(run_folder)
    pages = pages_of(run)
    assert next(iter(pages)) == "index.html"
    index = visible(pages["index.html"])
    assert "65 scores of 33 texts" in index
    lists = [html for name, html in pages.items() if name.startswith("list")]
    assert len(lists) == 2 * 5 + 2  # all, four systems, and those that are not whole
    for attribute, n in (("coherence", 33), ("fluency", 32)):
        html = next(html for html in lists if f"{attribute}: all" in html)
        shown = re.findall(r'<td class="n">(.*?)</td>', html)
        scores = [score for score, _ in run.scores["scores"] if score.attribute == attribute]
        values = sorted((score.value for score in scores if score.value is not None), reverse=True)
        assert shown == [f"{value:.2f}" for value in values] + ["–"] * (n - len(values))


def test_each_link_leads_to_a_page_and_an_anchor_that_are_there(run_folder):
    pages = pages_of(read_run(run_folder), report="../report.html")
    anchors = {name: {a["id"] for _, a in Elements(html).found if "id" in a} for name, html in pages.items()}
    n_checked = 0
    for name, html in pages.items():
        for link in links_of(html) - {"../report.html"}:
            file, _, anchor = link.partition("#")
            assert (file or name) in pages, link
            assert not anchor or anchor in anchors[file or name], link
            n_checked += 1
    assert n_checked > 100
    assert sum(len(ids) for ids in anchors.values()) == 33  # a text each


def test_a_text_stands_with_all_its_scores_and_the_others_of_its_context(run_folder):
    run = read_run(run_folder)
    html = pages_of(run)["texts-1.html"]
    [article] = re.findall(r'<article id="t\d+">(?:(?!</article>).)*c0/careful.*?</article>', html, flags=re.S)[:1]
    shown = visible(article)
    for score, _ in run.scores["scores"]:
        if score.id == "c0/careful":
            assert f"{score.attribute}: {score.value:.2f}" in shown
            better = [np.mean([v.better for v in score.verdicts if v.level == level]) for level in range(1, 6)]
            assert f"P(better), worst rung first: {', '.join(f'{p:.2f}' for p in better)}" in shown
    assert run.texts["c0/careful"].text in shown
    headings = re.findall(r'<h2 dir="auto">(.*?)</h2>', html)
    assert headings == [f"c{i}" for i in range(8)] + ["x"]


def test_long_lists_and_many_texts_are_on_several_pages(tmp_path, monkeypatch):
    monkeypatch.setattr(rows_module, "LISTED", 10)
    monkeypatch.setattr(rows_module, "TEXTS", 7)
    values = np.random.default_rng(0).normal(3, 1, 33).tolist()
    run = read_run(a_run(tmp_path, [row(f"t{i}", value) for i, value in enumerate(values)]))
    pages = pages_of(run)
    names = [f"list-1-{n}" for n in range(1, 5)] + [f"texts-{n}" for n in range(1, 6)]
    assert list(pages) == ["index.html", *(f"{name}.html" for name in names)]
    listed: list[float] = []
    for number in range(1, 5):
        listed += map(float, re.findall(r'<td class="n">([\d.]+)</td>', pages[f"list-1-{number}.html"]))
    assert listed == [round(value, 2) for value in sorted(values, reverse=True)]
    ranges = re.findall(r">([\d.]+ to [\d.]+)<", pages["list-1-2.html"])
    assert len(ranges) == 8  # four pages, named above and below
    assert ranges[1] == f"{listed[10]:.2f} to {listed[19]:.2f}"


def test_everything_from_outside_is_escaped_on_every_page(tmp_path):
    run = read_run(nasty_run(tmp_path / "run"))
    pages = pages_of(run, title=NASTY, report="../report.html")
    ours = re.compile(r"(index|list-\d+-\d+|texts-\d+)\.html(#t\d+)?|#t\d+|\.\./report\.html")
    for html in pages.values():
        links = {link for link in links_of(html) if ours.fullmatch(link)}
        check_harmless(html, links)
        assert html.count("</style>") == html.count("</title>") == 1
    assert sum(visible(html).count("<script>alert(1)</script>") for html in pages.values()) > 20


@pytest.mark.slow
@needs_browser
@pytest.mark.parametrize("name", ["index.html", "list-1-1.html", "texts-1.html"])
def test_a_browser_asks_nothing_of_the_network_for_a_page_of_rows(tmp_path, name):
    write_pages(tmp_path / "x-rows", row_pages(read_run(nasty_run(tmp_path / "run")), title=NASTY))
    log = tmp_path / "net.json"
    browse(tmp_path / "x-rows" / name, tmp_path / "profile", f"--log-net-log={log}", "--dump-dom")
    assert asked_for(log) == []


# ------------------------------------------------------------------------------------------------- exchanges


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    """A run of `score` with nano, and its store."""
    folder = tmp_path_factory.mktemp("scored")
    References.load(resource("data/references/curated/first24")).filter(attribute="coherence").save(folder / "ladders")
    lines = resource("data/demo/targets.jsonl").read_text(encoding="utf-8").splitlines()
    write_rows([one for one in map(json.loads, lines) if one["context_id"] == "sum-01"], folder / "targets.jsonl")
    files = [str(folder / "targets.jsonl"), "--references", str(folder / "ladders"), "-o", str(folder / "scores.jsonl")]
    assert main(["score", *files, "--both-orders", "--verdicts", "--store", str(folder / "store.sqlite"), "-q"]) == 0
    return folder


def test_what_the_judge_was_asked_and_answered_stands_with_the_row(scored):
    run = read_run(scored)
    html = pages_of(run, store=str(scored / "store.sqlite"))["texts-1.html"]
    assert visible(html).count("10 questions and answers") == 3
    [score, *_] = [score for score, _ in run.scores["scores"]]
    about = html[html.index(f">{score.id}<") :].partition("</article>")[0]
    shown = visible(about)
    for verdict in score.verdicts:
        way = ", the other way round" if verdict.swapped else ""
        asked = rf"rung {verdict.level}{way}: Better (\d\.\d\d), Worse (\d\.\d\d), Similar (\d\.\d\d)"
        probs = list(map(float, re.search(asked, shown).groups()))
        expected = [verdict.better, verdict.worse, verdict.similar]
        if verdict.swapped:  # answered about the rung
            expected[:2] = expected[1::-1]
        assert [p / sum(probs) for p in probs] == pytest.approx(expected, abs=0.02)
    assert shown.count(run.texts[score.id].text) == 11  # the text itself, and in ten prompts
    assert "questions and answers" not in visible(pages_of(run)["texts-1.html"])


def test_a_store_is_only_read_and_one_of_another_engine_shows_nothing(scored, tmp_path):
    from synthscore.engine import Prompt, Question
    from synthscore.store.file import Store, Stored

    before = (scored / "store.sqlite").read_bytes()
    pages_of(read_run(scored), store=str(scored / "store.sqlite"))
    assert (scored / "store.sqlite").read_bytes() == before
    question = Question(Prompt("?"), ("Better",))
    value = {"log_probs": [-0.1], "rival": None}
    with Store(tmp_path / "other.sqlite") as store:
        store.put_many([Stored(question.key("model:other"), "labels", value, "model:other", question)])
    pages = pages_of(read_run(scored), store=str(tmp_path / "other.sqlite"))
    assert "questions and answers" not in pages["texts-1.html"]


def test_a_template_folder_that_a_row_names_is_not_opened(scored, tmp_path):
    """Rows are somebody else's: whatever they name, only the package's own templates are read."""
    folder = tmp_path / "evil"
    folder.mkdir()
    (folder / "compare.jinja").write_text("{{ context }} {{ reference }} {{ target }}")
    lines = (scored / "scores.jsonl").read_text().replace("template:default/", f"template:{folder}/")
    shutil.copytree(scored, tmp_path / "run")
    (tmp_path / "run" / "scores.jsonl").write_text(lines)
    html = pages_of(read_run(tmp_path / "run"), store=str(scored / "store.sqlite"))["texts-1.html"]
    assert "questions and answers" not in html


def test_of_many_rows_those_that_are_not_whole_and_the_ends_have_their_exchanges(scored, monkeypatch):
    monkeypatch.setattr(rows_module, "MOST_EXCHANGES", 2)
    run = read_run(scored)
    pages = pages_of(run, store=str(scored / "store.sqlite"))
    assert "with 2 of them, those that are not whole, then the lowest and the highest" in visible(pages["index.html"])
    assert visible(pages["texts-1.html"]).count("10 questions and answers") == 2


# ------------------------------------------------------------------------------------------------- files


def test_the_command_writes_the_rows_beside_the_page_and_both_lead_to_each_other(scored, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = str(scored / "store.sqlite")
    assert main(["report", str(scored), "-o", "a #1.html", "--store", store]) == 0
    assert re.search(r"a #1-rows/: \d+ kB, every row", capsys.readouterr().err)
    html = Path("a #1.html").read_text(encoding="utf-8")
    assert "a%20%231-rows/index.html" in links_of(html)
    assert "../a%20%231.html" in links_of(Path("a #1-rows/index.html").read_text(encoding="utf-8"))
    first = {path.name: path.read_bytes() for path in Path("a #1-rows").iterdir()}
    Path("a #1-rows/list-9-9.html").write_text("of a longer run before")
    assert main(["report", str(scored), "-o", "a #1.html", "--store", store, "-q"]) == 0
    assert {path.name: path.read_bytes() for path in Path("a #1-rows").iterdir()} == first
    assert not Path("a #1-rows.partial").exists()


def test_a_page_on_stdout_has_no_rows_beside_it(scored, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["report", str(scored), "-o", "-"]) == 0
    assert "All rows" not in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []
    assert main(["report", str(scored), "-o", "-", "--store", str(scored / "store.sqlite")]) == 2
    assert "--store is for the pages of rows" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["file in it", "is a file", "is a link", "ladders", "partial"])
def test_a_folder_that_holds_anything_else_stays_as_it_is(scored, tmp_path, kind, capsys):
    out = tmp_path / "ladders.html"
    folder = tmp_path / ("ladders-rows.partial" if kind == "partial" else "ladders-rows")
    if kind == "ladders":
        shutil.copytree(scored / "ladders", folder)
    elif kind == "is a file":
        folder.write_text("mine")
    elif kind == "is a link":
        (tmp_path / "mine").mkdir()
        folder.symlink_to(tmp_path / "mine")
    else:
        folder.mkdir()
        (folder / "notes.html").write_text("mine")
    before = sorted(path.name for path in tmp_path.rglob("*"))
    assert main(["report", str(scored), "-o", str(out)]) == 1
    assert "cannot write pages of rows to" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.rglob("*")) == before


def test_a_page_that_cannot_be_made_leaves_the_pages_before_it(tmp_path):
    write_pages(tmp_path / "r-rows", [("index.html", "first")])

    def broken():
        yield "index.html", "second"
        raise InputError("no")

    with pytest.raises(InputError, match="no"):
        write_pages(tmp_path / "r-rows", broken())
    assert (tmp_path / "r-rows" / "index.html").read_text() == "first"
    write_pages(tmp_path / "r-rows", [("index.html", "third")])  # over what was left half done
    assert [path.name for path in tmp_path.iterdir()] == ["r-rows"]
    assert rows_folder(tmp_path / "r.html") == tmp_path / "r-rows"


def test_equal_runs_give_equal_pages_of_rows(run_folder):
    assert pages_of(read_run(run_folder)) == pages_of(read_run(run_folder))
    assert "All rows" not in page(read_run(run_folder))
