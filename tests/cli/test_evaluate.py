"""`synthscore evaluate`: scores from files, methods on benchmarks, bad input, the store, the folder."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from synthscore import engines
from synthscore.cli import agreeing
from synthscore.cli.app import main
from synthscore.io.write import write_rows
from synthscore.ladders.references import References
from tests.cli.given import write
from tests.factories import ladders
from tests.fakes import FakeEngine, reading_judge

BENCHMARKS = Path(__file__).resolve().parents[3] / "shared" / "benchmarks"


def benchmark(name):
    return pytest.mark.skipif(
        not (BENCHMARKS / f"{name}.jsonl.gz").exists(), reason=f"{name} is not here, and is nothing to download"
    )


@pytest.fixture
def engine(monkeypatch):
    """Every model is the same judge, which reads quality from the text, but has its own name."""
    judge = FakeEngine(reading_judge())

    def open_engine(name, **options):
        judge.name = name
        return judge

    monkeypatch.setattr(engines, "open_engine", open_engine)
    return judge


QUALITIES = {"c1": (2.5, 1.0, 4.5, 3.0), "c2": (1.5, 4.0, 2.0, 3.5), "c3": (3.0, 2.0, 1.0, 4.0)}
OTHER = {"c1": (1, 2, 3, 4), "c2": (4, 3, 2, 1), "c3": (1, 2, 4, 3)}  # of fluency


def ratings_rows():
    return [
        {
            "id": f"{c}-{k}", "context_id": c, "system": f"s{k}", "context": f"An article, {c}.",
            "text": f"Text of q={q} .", "human": {"coherence": q, "fluency": OTHER[c][k]},
        }
        for c, values in QUALITIES.items()
        for k, q in enumerate(values)
    ]  # fmt: skip


def score_rows(attributes=("coherence", "fluency"), key="id"):
    """Coherence in the order of people, fluency in that of the systems."""
    for row in ratings_rows():
        name = {"id": row["id"]} if key == "id" else {"context_id": row["context_id"], "system": row["system"]}
        for attribute in attributes:
            score = row["human"]["coherence"] ** 2 if attribute == "coherence" else float(row["system"][1:])
            yield name | {"attribute": attribute, "score": score, "status": "ok", "signature": "model:m|scoring:x"}


@pytest.fixture
def files():
    write("ratings.jsonl", *ratings_rows())
    write("scores.jsonl", *score_rows())


def evaluate(*argv):
    return main(["evaluate", *map(str, argv)])


def said(capsys, *argv, code=0):
    """The JSON of a run."""
    capsys.readouterr()
    assert evaluate(*argv, "--json") == code
    return json.loads(capsys.readouterr().out)


FILES = ("scores.jsonl", "--human", "ratings.jsonl")


# ------------------------------------------------------------------------------------------------- scores and ratings


@pytest.mark.parametrize("key", ["id", "context_id and system"])
def test_rows_are_joined_on_id_or_on_context_and_system(files, capsys, key):
    write("scores.jsonl", *score_rows(key=key))
    found = said(capsys, *FILES)
    figure = found["coherence"]["per_context"]["spearman"]
    assert figure["value"] == pytest.approx(1)
    assert (figure["n"], figure["n_skipped"], figure["low"], figure["high"]) == (
        12,
        0,
        pytest.approx(1),
        pytest.approx(1),
    )
    # By hand: fluency is 1 2 3 4 / 4 3 2 1 / 1 2 4 3 where the scores are 0 1 2 3: Spearman 1, -1 and 0.8.
    assert found["fluency"]["per_context"]["spearman"]["value"] == pytest.approx(0.8 / 3)
    assert found["fluency"]["per_context"]["kendall"]["value"] == pytest.approx((1 - 1 + 2 / 3) / 3)
    # Means of the systems: 2, 7/3, 3, 8/3.
    assert found["fluency"]["system"]["spearman"]["value"] == pytest.approx(0.8)
    assert found["fluency"]["system"]["spearman"]["n"] == 4
    assert found["about"]["signature"]["fluency"] == "model:m|scoring:x"
    assert list(found["coherence"]) == ["per_context", "pooled", "system"]
    assert list(found["coherence"]["pooled"]) == ["spearman", "pearson", "kendall", "auc"]


def test_only_the_levels_and_statistics_that_are_asked_for_are_there(files, capsys):
    found = said(capsys, *FILES, "--level", "system", "--statistic", "pearson", "-a", "fluency")
    assert list(found) == ["fluency", "about"]
    assert list(found["fluency"]) == ["system"]
    assert list(found["fluency"]["system"]) == ["pearson"]


def test_scores_can_be_compared_with_floors_on_the_same_ratings(files, capsys):
    found = said(capsys, *FILES, "--methods", "length,constant", "--against", "length")
    assert list(found["methods"]) == ["scores", "length", "constant"]
    assert found["methods"]["scores"]["attributes"]["coherence"]["per_context"]["spearman"]["value"] == pytest.approx(1)
    assert {each["method"] for each in found["contrasts"]} == {"scores", "constant"}
    evaluate(*FILES, "--methods", "length,constant", "--against", "length")
    out = capsys.readouterr().out
    assert "More than length" in out
    assert "3 of 3 contexts where all scores are equal count 0 (length, constant)" in out


def test_scores_come_from_a_pipe(files, capsys, monkeypatch):
    with open("scores.jsonl", "rb") as stdin:
        monkeypatch.setattr(sys, "stdin", type("Stdin", (), {"buffer": stdin}))
        found = said(capsys, "-", "--human", "ratings.jsonl")
    assert found["about"]["method"] == "stdin"
    assert found["coherence"]["pooled"]["spearman"]["value"] == pytest.approx(1)


def test_columns_with_other_names_are_named_for_each_file(capsys):
    """In CSV, where it is an error if a column that was named is not there."""
    people = ({"doc": r["context_id"], "system": r["system"], "gold": r["human"]["coherence"]} for r in ratings_rows())
    write_rows(people, "r.csv")
    names = {"context_id": "context_id", "system": "system", "score": "mark"}
    write_rows(({to: row[name] for name, to in names.items()} for row in score_rows(["coherence"], "system")), "s.csv")
    fields = [f"--field={name}" for name in ("context_id=doc", "human=gold", "score=mark")]
    found = said(capsys, "s.csv", "--human", "r.csv", "-a", "coherence", *fields)
    assert found["coherence"]["per_context"]["spearman"]["value"] == pytest.approx(1)


def test_the_table_names_the_level_and_gives_intervals(files, capsys):
    assert evaluate(*FILES) == 0
    shown = capsys.readouterr()
    assert "Spearman, per_context" in shown.out
    assert "[95 % interval over 3 contexts]" in shown.out
    assert re.search(r"^scores +1\.00 \[1\.00, 1\.00\] +\.27 \[-\.99, 1\.00\] +\.63$", shown.out, re.MULTILINE)
    assert shown.err == "scores: model:m|scoring:x\n"


# ------------------------------------------------------------------------------------------------- bad input


def test_scores_of_texts_that_nobody_rated_are_counted_and_named(files, capsys):
    write("scores.jsonl", *score_rows(), {"id": "c9-0", "attribute": "coherence", "score": 1.0})
    assert evaluate(*FILES) == 3
    out = capsys.readouterr().out
    assert "left out:" in out
    assert "1 scores of texts that nobody rated: row 25, c9-0/coherence" in out
    assert "1.00 [1.00, 1.00]" in out


def test_ratings_without_a_score_are_counted_and_the_others_are_used(files, capsys):
    write("scores.jsonl", *[row for row in score_rows() if row["id"] != "c1-0"])
    found = said(capsys, *FILES, code=3)
    figure = found["fluency"]["pooled"]["spearman"]
    assert (figure["n"], figure["n_unscored"]) == (11, 1)
    evaluate(*FILES)
    assert "scores: 2 scores of 24 missing" in capsys.readouterr().out


def test_rows_that_rest_on_different_texts_say_on_how_many(files, capsys):
    write("scores.jsonl", *[row for row in score_rows() if row["id"] != "c1-0"])
    evaluate(*FILES, "--methods", "length")
    rows = {line.split()[0]: line.split()[-1] for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert (rows["scores"], rows["length"]) == ("91.7%", "100.0%")
    evaluate("--human", "ratings.jsonl", "--methods", "length,overlap")
    assert "scored" not in capsys.readouterr().out


def test_people_without_a_ceiling_and_methods_above_it_are_said(files, capsys):
    apart = {"coherence": (0.5, -0.5, 0.2, -0.2), "fluency": (9, -9, 9, -9)}  # two people, about the same mean
    rows = list(ratings_rows())
    for k, row in enumerate(rows):
        row["human"] = {name: [row["human"][name] + side * d[k % 4] for side in (-1, 1)] for name, d in apart.items()}
    write("ratings.jsonl", *rows)
    evaluate(*FILES)
    out = capsys.readouterr().out
    assert "people's ceiling, coherence: scores above it, interval and all: take it for no bound" in out
    assert "people's ceiling, fluency: no ceiling: people agree less than by chance, with -0.600" in out


def test_no_rating_with_a_score_is_an_error(files, capsys):
    write("scores.jsonl", {"id": "x", "attribute": "coherence", "score": 1.0})
    assert evaluate(*FILES) == 1
    assert "no score is about a text of ratings" in capsys.readouterr().err


def test_two_scores_of_one_text_are_an_error_that_names_both_rows(files, capsys):
    write("scores.jsonl", *score_rows(), next(score_rows()))
    assert evaluate(*FILES) == 1
    err = capsys.readouterr().err
    assert "row 25" in err
    assert "row 1" in err
    assert "'c1-0'" in err


def test_two_ratings_of_one_text_are_an_error_that_names_both_rows(files, capsys):
    write("ratings.jsonl", *ratings_rows(), ratings_rows()[0])
    assert evaluate(*FILES) == 1
    err = capsys.readouterr().err
    assert "row 13" in err
    assert "row 1" in err


def test_one_system_only_has_figures_over_texts_and_none_inside_contexts(files, capsys):
    write("ratings.jsonl", *[row for row in ratings_rows() if row["system"] == "s0"])
    write("scores.jsonl", *[row for row in score_rows() if row["id"].endswith("-0")])
    found = said(capsys, *FILES)
    inside, over = found["coherence"]["per_context"]["spearman"], found["coherence"]["pooled"]["spearman"]
    assert (inside["value"], inside["n_skipped"], inside["low"]) == (None, 3, None)
    assert over["value"] == pytest.approx(1)
    assert found["coherence"]["system"]["spearman"]["value"] is None
    assert evaluate(*FILES) == 0
    out = capsys.readouterr().out
    assert "3 of 3 contexts skipped, where fewer than two texts have both score and rating" in out
    assert re.search(r"^scores +- +-", out, re.MULTILINE)


def test_constant_ratings_are_skipped_and_counted(files, capsys):
    rows = ratings_rows()
    for row in rows[:4]:
        row["human"]["coherence"] = 3.0
    write("ratings.jsonl", *rows)
    figure = said(capsys, *FILES)["coherence"]["per_context"]["spearman"]
    assert (figure["value"], figure["n_skipped"], figure["n_contexts"]) == (pytest.approx(1), 1, 2)
    evaluate(*FILES)
    skipped = "coherence: 1 of 3 contexts skipped, where fewer than two texts have both score and rating"
    assert skipped in " ".join(capsys.readouterr().out.split())


def test_scores_that_are_null_are_unscored_with_their_reason(files, capsys):
    rows = list(score_rows())
    rows[0] |= {"score": None, "status": "unscored", "reason": "the text is empty"}
    write("scores.jsonl", *rows)
    found = said(capsys, *FILES, code=3)
    assert found["about"]["counts"]["coherence"] == {"scored": 11, "partial": 0, "unscored": 1}
    assert found["coherence"]["per_context"]["spearman"]["value"] == pytest.approx(1)
    evaluate(*FILES)
    assert "1 x the text is empty" in capsys.readouterr().out


def test_scores_that_are_all_null_are_an_error(files, capsys):
    write("scores.jsonl", *[row | {"score": None, "status": "unscored", "reason": "?"} for row in score_rows()])
    assert evaluate(*FILES) == 1
    assert "nothing could be scored" in capsys.readouterr().err


def test_a_broken_row_costs_itself_only(files, capsys):
    write("scores.jsonl", *score_rows(), "{")
    write("ratings.jsonl", *ratings_rows(), {"id": "c1-9", "human": {"coherence": "good"}})
    found = said(capsys, *FILES, code=3)
    assert found["coherence"]["pooled"]["spearman"]["n"] == 12
    left_out = "\n".join(found["about"]["left_out"])
    assert "scores.jsonl row 25: not JSON" in left_out
    assert "'good'" in left_out


def test_a_rating_that_cannot_be_read_gives_3(files, capsys):
    write("ratings.jsonl", *ratings_rows(), {"id": "c1-9", "human": {"coherence": "good"}})
    assert evaluate(*FILES) == 3
    assert "'good'" in capsys.readouterr().out


def test_scores_of_a_file_that_are_partial_are_used_counted_and_give_3(files, capsys):
    rows = list(score_rows())
    rows[0] |= {"status": "partial", "reason": "rung 3: too long"}
    write("scores.jsonl", *rows)
    found = said(capsys, *FILES, "-o", "run", code=3)
    assert found["about"]["counts"]["coherence"] == {"scored": 12, "partial": 1, "unscored": 0}
    row = json.loads(Path("run/scores/scores.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert (row["score"], row["status"], row["reason"]) == (6.25, "partial", "rung 3: too long")


def test_texts_without_a_verdict_on_some_rung_are_unscored_and_give_3(files, engine, capsys):
    rungs = ladders(contexts=("c1", "c2", "c3"))
    References(rungs).save("ladders")
    engine.judge = reading_judge()
    failing = "Rung of q=5.0 ."
    good = engine.judge

    def judge(prompt, labels):
        if failing in prompt.text and "q=2.5" in prompt.text:
            raise RuntimeError("too long")
        return good(prompt, labels)

    engine.judge = judge
    assert evaluate(*JUDGED, "ladder", "--references", "ladders") == 3
    assert "ladder: 1 score of 12 missing" in capsys.readouterr().out


def test_an_attribute_without_scores_is_named(files, capsys):
    write("scores.jsonl", *score_rows(["coherence"]))
    found = said(capsys, *FILES)
    assert list(found) == ["coherence", "about"]
    assert found["about"]["left_out"] == ["fluency: scores.jsonl holds no scores"]
    assert evaluate(*FILES, "-a", "fluency") == 1
    assert "scores.jsonl holds no scores on fluency, only on coherence" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        ([], "neither of --human and --benchmark"),
        (["s.jsonl"], "neither of --human and --benchmark"),
        (["s.jsonl", "--human", "r", "--benchmark", "summeval", "--data", "d"], "both of --human and --benchmark"),
        (["--benchmark", "summeval"], "go together"),
        (["s.jsonl", "--human", "r", "--data", "d"], "go together"),
        (["--benchmark", "summeval", "--data", "d", "--task", "story"], "--task story does nothing"),
        (["--benchmark", "summeval", "--data", "d", "--model", "m"], "--model does nothing"),
        (["s.jsonl", "--human", "r", "--references", "l"], "--references does nothing"),
        (["--human", "r", "--methods", "length", "--references", "l"], "--references does nothing"),
        (["--human", "r", "--methods", "length,ladder"], "ladder needs ladders"),
        (["--human", "r", "--prompts", "paper"], "--prompts paper does nothing"),
        (["a/length.jsonl", "--human", "r", "--methods", "length"], "are both called length"),
        (["--human", "r", "--level", "text"], "Choose from"),
    ],
)
def test_options_that_make_no_sense_together_give_2(argv, why, capsys):
    assert evaluate(*argv) == 2
    assert why in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (["--methods", "lenght"], "there is no method 'lenght'"),
        (["--methods", "length", "--against", "g-eval"], "cannot contrast methods with 'g-eval'"),
        (["-a", "grace"], "no attribute 'grace'"),
    ],
)
def test_names_that_are_not_there_give_1_and_say_what_is(files, argv, why, capsys):
    assert evaluate("--human", "ratings.jsonl", *argv) == 1
    assert why in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------- methods


def test_without_methods_the_floors_are_evaluated(files, capsys):
    found = said(capsys, "--human", "ratings.jsonl")
    assert list(found["methods"]) == ["length", "overlap", "copied-span", "type-token-ratio"]


def test_the_ladder_is_added_where_ladders_are_given(files, engine, capsys):
    References(ladders(contexts=("c1", "c2", "c3"))).save("ladders")
    argv = ("--human", "ratings.jsonl", "--task", "summarization", "-a", "coherence", "--references", "ladders")
    found = said(capsys, *argv)
    assert list(found["methods"]) == ["length", "overlap", "copied-span", "type-token-ratio", "ladder"]
    figure = found["methods"]["ladder"]["attributes"]["coherence"]["per_context"]["spearman"]
    assert figure["value"] == pytest.approx(1)
    assert "model:nano" in found["methods"]["ladder"]["signature"]["coherence"]


JUDGED = ("--human", "ratings.jsonl", "--task", "summarization", "-a", "coherence", "--methods")


def test_a_method_that_asks_a_judge_gives_its_agreement_and_signature(files, engine, capsys):
    assert evaluate(*JUDGED, "g-eval,length", "--model", "m", "-v") == 0
    shown = capsys.readouterr()
    assert re.search(r"^g-eval +1\.00", shown.out, re.MULTILINE)
    assert re.search(r"^g-eval: synthscore:.*model:m.*$", shown.err, re.MULTILINE)
    assert "questions asked now" in shown.err


def test_the_parts_in_which_signatures_of_attributes_differ_are_listed(files, capsys):
    rows = [row | {"signature": f"model:m|attribute:{row['attribute']}"} for row in score_rows()]
    write("scores.jsonl", *rows)
    assert evaluate(*FILES) == 0
    assert capsys.readouterr().err == "scores: model:m|attribute:coherence & fluency\n"
    for signature in ("by:hand", None):
        write("scores.jsonl", *[row | {"signature": signature} for row in score_rows()])
        assert evaluate(*FILES) == 0
        assert capsys.readouterr().err == f"scores: {signature or 'no signature'}\n"


def test_a_model_is_opened_once(files, engine, capsys, monkeypatch):
    opened = []
    monkeypatch.setattr(engines, "open_engine", lambda name, **options: opened.append(name) or engine)
    assert evaluate(*JUDGED, "g-eval,direct,length", "--model", "m") == 0
    assert opened == ["m"]
    assert evaluate(*JUDGED, "length") == 0
    assert opened == ["m"]


def test_a_difference_that_holds_after_correction_has_a_star(capsys):
    rng = np.random.default_rng(0)
    texts = [(f"c{c}", f"s{k}", float(x)) for c in range(12) for k, x in enumerate(rng.permutation(6))]
    people = ({"context_id": c, "system": s, "human": {"fluency": x}} for c, s, x in texts)
    write("ratings.jsonl", *people)
    for name, of in (("good", lambda x: x), ("same", lambda x: 2 * x), ("bad", lambda x: -x)):
        rows = [{"context_id": c, "system": s, "attribute": "fluency", "score": of(x)} for c, s, x in texts]
        write(f"{name}.jsonl", *rows)
    methods = "file:same.jsonl,file:bad.jsonl"
    assert evaluate("good.jsonl", "--human", "ratings.jsonl", "--methods", methods, "--against", "good") == 0
    out = capsys.readouterr().out.split("More than good")[1]
    assert "Holm's correction for 2" in out
    assert re.search(r"^file:same\.jsonl +\.00 \[\.00, \.00\]$", out, re.MULTILINE)
    assert re.search(r"^file:bad\.jsonl +-2\.00 \[-2\.00, -2\.00\]\*$", out, re.MULTILINE)


def test_a_second_run_asks_nothing(files, engine, capsys):
    first = said(capsys, *JUDGED, "g-eval,poe-bt")
    n_judged = engine.n_judged
    assert n_judged == 12 + 3 * 12
    assert said(capsys, *JUDGED, "g-eval,poe-bt") == first
    assert engine.n_judged == n_judged


def test_several_models_are_told_apart_and_methods_that_ask_none_run_once(files, engine, capsys):
    found = said(capsys, *JUDGED, "length,direct", "--model", "a", "--model", "b")
    assert list(found["methods"]) == ["length", "direct (a)", "direct (b)"]


def test_a_folder_holds_scores_ratings_and_figures(files, engine, capsys):
    first = said(capsys, *JUDGED, "g-eval,length", "-o", "run", "--store", "none")
    assert {str(path.relative_to("run")) for path in Path("run").rglob("*.json*")} == {
        "evaluation.json", "ratings.jsonl", "scores/g-eval.jsonl", "scores/length.jsonl",
    }  # fmt: skip
    assert json.loads(Path("run/evaluation.json").read_text(encoding="utf-8")) == first


def test_an_interrupted_run_keeps_what_was_answered(files, engine, capsys):
    engine.judge = None
    good = reading_judge()
    left = 20

    def stop(prompt, labels):
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt
        return good(prompt, labels)

    engine.judge = stop
    assert evaluate(*JUDGED, "g-eval,poe-bt", "-o", "run") == 130
    assert "Run the same command again" in capsys.readouterr().err
    engine.judge, before = good, engine.n_judged
    assert evaluate(*JUDGED, "g-eval,poe-bt", "-o", "run") == 0
    assert engine.n_judged - before == 36  # no text is graded a second time


def test_the_folder_of_a_run_makes_a_report(files, engine, capsys):
    References(ladders(contexts=("c1", "c2", "c3"))).save("ladders")
    assert evaluate(*JUDGED, "ladder,length", "--references", "ladders", "-o", "run") == 0
    assert main(["report", "run"]) == 0
    page = next(Path("run").glob("*.html")).read_text(encoding="utf-8")
    assert "type-token-ratio" not in page
    assert "per_context" in page or "inside" in page


def test_scores_of_a_file_are_in_the_folder_too(files):
    assert evaluate(*FILES, "-o", "run") == 0
    rows = [json.loads(line) for line in Path("run/scores/scores.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(rows) == 24
    assert (rows[0]["method"], rows[0]["system"], rows[0]["score"]) == ("scores", "s0", 6.25)
    assert "methods" in json.loads(Path("run/evaluation.json").read_text(encoding="utf-8"))


def test_a_method_without_what_it_needs_is_named_and_gives_3(files, capsys):
    assert evaluate("--human", "ratings.jsonl", "--methods", "length,rouge-l") == 3
    out = capsys.readouterr().out
    assert "rouge-l: 24 scores of 24 missing" in out
    assert "references" in out
    assert "(rouge-l)" not in out  # nothing more is said of contexts


def test_the_list_names_methods(capsys):
    assert evaluate("--list") == 0
    out = capsys.readouterr().out
    for name in ("ladder", "g-eval", "file:PATH"):
        assert re.search(rf"^{name}\b", out, re.MULTILINE), name
    assert max(map(len, out.splitlines())) <= agreeing.WIDTH


def test_columns_that_do_not_fit_come_below_each_other():
    heads = [f"attribute{k}" for k in range(9)]
    rows = [("a" * 50, [f".{k}0 [.10, .20]" for k in range(9)]), ("people's ceiling", ["1"] * 9)]
    lines = list(agreeing._blocks(heads, rows, 80))
    assert max(map(len, lines)) <= 80
    for head in heads:
        assert sum(head in line for line in lines) == 1
    assert sum(line.startswith("people's ceiling") for line in lines) == lines.count("")
    for k in range(9):
        assert sum(f".{k}0 [" in line for line in lines) == 1


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.244, ".24"), (-0.05, "-.05"), (1.0, "1.00"), (-1.0, "-1.00"), (-0.001, ".00"), (np.nan, "-")],
)
def test_numbers_have_two_decimals_and_no_zero_before_them(value, shown):
    assert agreeing._number(value) == shown
