"""The report: what a folder of results becomes, number by number, and how the page behaves in a browser."""

import gzip
import json
import math
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from html import escape, unescape
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthscore.cli.app import main
from synthscore.errors import InputError
from synthscore.evaluation import Evaluation, FigureKey, Mean, Settings
from synthscore.evaluation.agreement import Agreement
from synthscore.evaluation.people import Reliability
from synthscore.evaluation.ratings import RatedText, Ratings
from synthscore.io.fields import Row
from synthscore.io.scores import Scores, read_score, score_row
from synthscore.io.write import write_rows
from synthscore.ladders.references import References
from synthscore.report import page, read_run, side_by_side
from synthscore.report.changes import changes
from synthscore.report.ladders import extremes, interval, ladder_views
from synthscore.report.numbers import ScoreGroup, failures, groups, length_effect, n_rungs_of
from synthscore.report.read import ScoreRow
from synthscore.report.verdicts import overall
from synthscore.report.words import within
from synthscore.scoring.paper import paper_bound, paper_sum, rung_equivalent
from synthscore.signature import Signature
from synthscore.thresholds.rules import MinScore
from synthscore.types import Context, Ladder, Rung, Score, Verdict
from tests import factories

N_RUNGS = 5
SYSTEMS = ("careful", "plain", "hasty", "broken")
NASTY = '<script>alert(1)</script> "><img src=x onerror=alert(2)> </style></title> {{ 7 * 7 }} &lt;b&gt;'


# ------------------------------------------------------------------------------------------------- a run


def ladder(context_id, attribute="coherence", failed=()):
    texts = [f"Rung {level} for {context_id}. " + "It goes on. " * level for level in range(1, N_RUNGS + 1)]
    about = f"The article of {context_id}."
    return factories.ladder(
        context_id, attribute, texts=texts, failed=failed, reason="the model refused", context=about
    )


def verdict(quality, level, swapped, favour=0.0):
    """Of a judge that knows the quality, and adds `favour` to the text that it is asked about."""
    better = 0.9 / (1 + math.exp(-1.5 * (quality - level))) + (-favour if swapped else favour)
    better = min(max(better, 0.0), 0.95)
    return Verdict(level, swapped, better, 0.95 - better, 0.05)


def scored(text_id, context_id, verdicts, attribute="coherence", levels=range(1, N_RUNGS + 1)):
    """The Score of these verdicts, as Scorer makes it."""
    missing, bound = [level for level in range(1, N_RUNGS + 1) if level not in levels], paper_bound(N_RUNGS)
    sums = []
    for open_ in (-1.0, 0.0, 1.0):  # what the missing verdicts could be
        better, worse = np.full((1, N_RUNGS), max(open_, 0.0)), np.full((1, N_RUNGS), max(-open_, 0.0))
        for level in levels:
            at = [v for v in verdicts if v.level == level]
            better[0, level - 1] = np.mean([v.better for v in at])
            worse[0, level - 1] = np.mean([v.worse for v in at])
        sums.append(float(paper_sum(better, worse)[0]))
    low, value, high = rung_equivalent(sums, N_RUNGS).tolist()
    return Score(
        text_id, context_id, attribute, None if missing else value,
        low=low if missing else None, high=high if missing else None,
        n_comparisons=len(levels), status="unscored" if missing else "ok",
        reason="; ".join(f"rung {level} has no text: the model refused" for level in missing),
        details={"n_rungs": N_RUNGS, "label_mass": 0.9, "raw": sums[1], "unit": sums[1] / bound},
        verdicts=tuple(verdicts),
    )  # fmt: skip


def make_run(folder, n_contexts=8, favour=0.05, hash_=None):
    """A folder as commands leave it: scores on two attributes, texts, ladders, ratings, filtered rows."""
    rng = np.random.default_rng(0)
    ladders = [
        ladder(f"c{i}", attribute, failed=(2,) if i == 1 else ())
        for i in range(n_contexts)
        for attribute in ("coherence", "fluency")
    ]
    references = References(ladders).save(folder / "ladders")
    targets, scores, ratings = [], [], []
    for i in range(n_contexts):
        for quality, system in zip((4.6, 3.9, 2.4, 1.3), SYSTEMS, strict=True):
            text_id, context_id = f"c{i}/{system}", f"c{i}"
            text = f"{system.capitalize()} text. " + "The ferry stopped near the island. " * int(rng.integers(1, 9))
            targets.append({"id": text_id, "context_id": context_id, "system": system, "text": text})
            human = {}
            for attribute in ("coherence", "fluency"):
                own = quality + rng.normal(0, 0.4)
                levels = [level for level in range(1, N_RUNGS + 1) if not (i == 1 and level == 2)]
                said = [verdict(own, level, swapped, favour) for level in levels for swapped in (False, True)]
                score = scored(text_id, context_id, said, attribute, levels)
                signature = Signature.of(
                    synthscore="0", model="fake", task="summarization", attribute=attribute,
                    references=hash_ or references.hash[:12],
                )  # fmt: skip
                scores.append(score_row(score, signature, verdicts=True))
                human[attribute] = float(np.clip(round(quality + rng.normal(0, 0.7)), 1, 5))
            ratings.append({**targets[-1], "human": human})
    broken = Score("x/plain", "x", "coherence", None, status="unscored", reason="context 'x' has no ladder")
    scores.append(score_row(broken, Signature.of(model="fake")))
    write_rows(scores, folder / "scores.jsonl")
    write_rows(targets, folder / "targets.jsonl")
    write_rows(ratings, folder / "ratings.jsonl")
    write_rows(targets[:9], folder / "kept.jsonl")
    about = {"score": 2.0, "low": None, "high": None, "status": "ok", "reason": ""}
    dropped = [{**row, "synthscore": {**about, "decision": "dropped"}} for row in targets[9:]]
    write_rows(dropped, folder / "dropped.jsonl")
    return folder


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def run(run_folder):
    return read_run(run_folder)


def a_run(folder, rows, **files):
    """A folder with these rows of scores, and other files."""
    folder.mkdir(exist_ok=True)
    write_rows(rows, folder / "scores.jsonl")
    for name, content in files.items():
        write_rows(content, folder / f"{name}.jsonl")
    return folder


def row(text_id="t", score=3.0, **more):
    status = "unscored" if score is None else "ok"
    return {"id": text_id, "context_id": "c", "attribute": "coherence", "score": score, "status": status, **more}


def visible(html):
    """The text that a browser shows, each run of blanks as one."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", re.sub(r"<style>.*?</style>", "", html, flags=re.S))).split())


# ------------------------------------------------------------------------------------------------- reading


def test_files_are_known_by_their_columns(run):
    assert {file.name: (file.holds, file.n_rows) for file in run.files} == {
        "scores.jsonl": ("scores", 65),
        "targets.jsonl": ("texts", 32),
        "ratings.jsonl": ("ratings by people", 32),
        "kept.jsonl": ("texts", 9),
        "dropped.jsonl": ("texts", 23),
        "ladders/": ("ladders", 16),
    }
    assert (run.left_out, run.unused) == ([], [])
    assert set(run.scores) == {"scores"}
    assert len(run.texts) == 32


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".jsonl.gz", ".NDJSON.GZ", ".csv.gz"])
def test_scores_are_the_same_from_every_format(run_folder, run, tmp_path, suffix):
    rows = [json.loads(line) for line in (run_folder / "scores.jsonl").read_text().splitlines()]
    if suffix == ".parquet":  # which has no lists of numbers and truth values
        rows = [row | {"verdicts": json.dumps(row.get("verdicts", []))} for row in rows]
    write_rows(rows, tmp_path / f"scores{suffix}")
    assert read_run(tmp_path / f"scores{suffix}").scores == run.scores


@pytest.mark.parametrize(
    "name", ["rows.json", "rows.json.gz", "rows.ndjson.gz", "rows.jsonl.gz", "rows.tsv", "rows.CSV"]
)
def test_a_folder_is_searched_for_every_format_that_can_be_read(tmp_path, name):
    if ".json" in name and ".jsonl" not in name:  # an array, which is not written
        array = json.dumps([row("a"), row("b")]).encode()
        (tmp_path / name).write_bytes(gzip.compress(array) if name.endswith(".gz") else array)
    else:
        write_rows([row("a"), row("b")], tmp_path / name)
    (tmp_path / "notes.txt").write_text("no rows")
    run = read_run(tmp_path)
    assert {name: len(rows) for name, rows in run.scores.items()} == {"rows": 2}
    assert (run.unused, run.left_out) == ([], [])


def test_a_json_file_that_holds_nothing_of_a_report_is_named_as_unused(tmp_path):
    write_rows([row("a")], tmp_path / "scores.jsonl")
    (tmp_path / "certificate.json").write_text('{"threshold": 3.5}')
    run = read_run(tmp_path)
    assert (run.unused, run.left_out) == (["certificate.json"], [])


def test_rows_that_name_their_method_are_of_it_whatever_their_file_is_called(tmp_path):
    (tmp_path / "scores").mkdir()
    rows = [row("a", method="g-eval:samples=20"), row("b", method="g-eval:samples=20")]
    write_rows(rows, tmp_path / "scores" / "g-eval_samples_20-1f2e3d.jsonl")
    write_rows([row("a")], tmp_path / "scores" / "length.jsonl")
    run = read_run(tmp_path)
    assert {name: len(rows) for name, rows in run.scores.items()} == {"g-eval:samples=20": 2, "length": 1}


def test_files_of_one_name_stay_apart(tmp_path):
    (tmp_path / "scores").mkdir()
    write_rows([row("a", 1.0)], tmp_path / "scores.jsonl")
    write_rows([row("a", 2.0)], tmp_path / "scores" / "scores.jsonl")
    values = {name: rows[0].score.value for name, rows in read_run(tmp_path).scores.items()}
    assert values == {"scores": 1.0, "scores (scores/scores.jsonl)": 2.0}


@pytest.mark.parametrize(
    ("broken", "named"),
    [
        ({"score": None, "status": "ok"}, "its score is None and its status 'ok'"),
        ({"score": 2.0, "status": "unscored"}, "its score is 2.0 and its status 'unscored'"),
        ({"score": "high"}, "score is 'high'"),
        ({"score": True}, "score is True"),
        ({"score": 1e400}, "score is inf"),
        ({"verdicts": [[1, False, 0.5, 0.5]]}, "verdicts is"),
        ({"verdicts": [[0, False, 0.5, 0.5, 0.0]]}, "levels from 1"),
        ({"verdicts": [[1, False, 1.5, 0.5, 0.0]]}, "probabilities"),
        ({"verdicts": "[["}, "verdicts is '[['"),
        ({"verdicts": 3}, "verdicts is 3"),
    ],
)
def test_a_row_that_holds_no_score_is_left_out_and_named(tmp_path, broken, named):
    lines = [json.dumps(row("good")), json.dumps(row("bad") | broken), json.dumps(row("fine"))]
    (tmp_path / "scores.jsonl").write_text("\n".join(lines))
    run = read_run(tmp_path)
    assert [row.score.id for row in run.scores["scores"]] == ["good", "fine"]
    [line] = run.left_out
    assert "row 2" in line
    assert named in line
    assert run.files[0].n_left_out == 1


def test_a_line_that_is_not_json_and_a_file_in_another_encoding_leave_the_rest(tmp_path):
    a_run(tmp_path, [row()])
    with (tmp_path / "scores.jsonl").open("a") as file:
        file.write("{broken\n")
    (tmp_path / "targets.jsonl").write_bytes(b'{"id": "t", "context_id": "c", "text": "caf\xe9"}\n')
    run = read_run(tmp_path)
    assert len(run.scores["scores"]) == 1
    assert [("not JSON" in line, "byte" in line) for line in sorted(run.left_out)] == [(True, False), (False, True)]


def test_a_folder_without_results_says_what_is_there(tmp_path):
    write_rows([{"id": "c", "text": "An article."}], tmp_path / "contexts.jsonl")
    with pytest.raises(InputError, match=r"no scores or evaluation \(seen: contexts.jsonl\). Expected rows"):
        read_run(tmp_path)


def test_a_text_under_an_id_that_is_taken_is_named_and_the_first_is_shown(tmp_path):
    text = {"id": "t", "context_id": "c"}
    a_run(tmp_path, [row()], targets=[{**text, "text": "First."}], another=[{**text, "text": "Second."}])
    run = read_run(tmp_path)
    assert run.texts["t"].text == "First."
    assert run.left_out == [
        "another.jsonl: 1 of its texts have an id under which another text was read: 't'. The one read first is shown"
    ]


def test_of_two_sets_of_ladders_the_one_is_taken_that_the_signatures_name(tmp_path):
    others = References([ladder("other")]).save(tmp_path / "a-ladders")
    mine = References([ladder("c0")]).save(tmp_path / "b-ladders")
    a_run(tmp_path, [row(signature=f"model:fake|references:{mine.hash[:12]}")])
    run = read_run(tmp_path)
    assert run.references.hash == mine.hash != others.hash
    assert run.unused == ["a-ladders/"]


def test_files_named_beside_a_folder_count_before_its_own(run_folder, tmp_path):
    text = {"id": "c0/plain", "context_id": "c0", "text": "Another text."}
    write_rows([text], tmp_path / "texts.jsonl")
    write_rows([{**text, "human": {"coherence": 1}}], tmp_path / "human.jsonl")
    References([ladder("c0")]).save(tmp_path / "one")
    run = read_run(
        run_folder, targets=tmp_path / "texts.jsonl", human=tmp_path / "human.jsonl", references=tmp_path / "one"
    )
    assert run.texts["c0/plain"].text == "Another text."
    assert (len(run.ratings), len(run.references)) == (1, 1)
    assert "ratings.jsonl" in run.unused


def test_a_row_that_filter_could_not_read_is_no_text_and_no_fault(tmp_path):
    text = {"id": "t", "context_id": "c", "text": "A."}
    a_run(tmp_path, [row()], dropped=[text, {"context_id": "c", "text": "", "unreadable": "row 2: text is ''"}])
    run = read_run(tmp_path)
    assert (list(run.texts), run.left_out) == (["t"], [])


# ------------------------------------------------------------------------------------------------- numbers

SCORES = st.floats(0, 5.47)


@st.composite
def score_rows(draw):
    """Whole, partial with and without ends, anchored, and unscored with and without ends."""
    kind = draw(st.sampled_from(("ok", "untold", "partial", "open", "anchored", "unscored", "bounded")))
    value = None if kind in ("unscored", "bounded") else draw(SCORES)
    low, high = (
        (draw(st.floats(0, value)), draw(st.floats(value, 5.47)))
        if kind in ("untold", "partial", "anchored")
        else (None,) * 2
    )
    if kind == "bounded":
        low, high = sorted((draw(SCORES), draw(SCORES)))
    status = {"untold": "ok", "anchored": "ok", "open": "partial", "bounded": "unscored"}.get(kind, kind)
    stderr = 0.5 if kind == "anchored" else None  # low and high are then an interval
    reason = "" if status == "ok" else "why"
    return Score("t", "c", "a", value, stderr, low, high, status=status, reason=reason)


@given(st.lists(score_rows(), min_size=1, max_size=8), SCORES)
@settings(max_examples=60)
def test_a_threshold_decides_as_filter_does(tmp_path_factory, rows, threshold):
    found = group_of(*rows).decide(threshold)
    slow = [(MinScore(threshold).decide(score)[0], score.value is None) for score in rows]
    either = [slow.count((decision, True)) + slow.count((decision, False)) for decision in ("kept", "dropped")]
    assert [found.kept, found.below, found.undecided] == [*either, slow.count(("unsure", False))]


def group_of(*rows):
    return ScoreGroup("scores", "a", tuple(ScoreRow(score, Signature(())) for score in rows), 5)


def test_thresholds_are_every_half_rung_and_keep_ever_fewer(run):
    at = groups(run)[0].thresholds
    assert [one.threshold for one in at] == [0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5]
    assert all(one.kept >= other.kept for one, other in pairwise(at))
    assert at[0].kept + at[0].undecided + at[0].below == 32  # of 33: of one, nothing is known


@pytest.mark.parametrize(("details", "n_rungs"), [({"n_rungs": 9.0}, 9), ({}, None), ({"raw": 3.0, "unit": 0.2}, None)])
def test_a_score_says_how_many_rungs_its_scale_has_or_is_on_no_scale_of_rungs(details, n_rungs):
    score, _ = read_score(Row(1, row(score=3.0, **details)))
    assert n_rungs_of(score) == n_rungs


def test_a_score_that_does_not_say_its_rungs_stands_on_no_ladder(tmp_path):
    References([ladder("c")]).save(tmp_path / "ladders")
    signature = "task:summarization|attribute:coherence|references:1f|scoring:paper"
    run = read_run(a_run(tmp_path, [row("a", 3.1, signature=signature), row("b", 2.2, signature=signature)]))
    assert groups(run)[0].n_rungs is None
    assert not ladder_views(run, groups(run))


def test_scores_of_one_file_whose_signatures_name_two_scales_are_refused(tmp_path):
    rows = [row("a", 3.0, signature="method:direct|scale:1..5"), row("b", 7.0, signature="method:direct|scale:1..10")]
    with pytest.raises(InputError, match=r"scores, coherence: the scores are on 2 scales, 1\.\.5 and 1\.\.10"):
        groups(read_run(a_run(tmp_path, rows)))
    rows[1] |= {"attribute": "fluency"}
    assert [group.scale for group in groups(read_run(a_run(tmp_path, rows)))] == ["1..5", "1..10"]


def test_anchored_scores_tell_their_scale_and_may_lie_beyond_it(tmp_path):
    about = {"n_rungs": 7.0, "stderr": 0.4, "signature": "model:fake|scoring:anchored,scale=1f"}
    run = read_run(a_run(tmp_path, [row("a", -0.3, **about), row("b", 8.9, **about)]))
    [group] = groups(run)
    assert group.n_rungs == 7
    assert group.span == (-0.3, 8.9)
    assert "A score of 1 is as good as the worst rung of the ladder, 7 as the best. coherence" in visible(page(run))


def test_scores_on_two_scales_are_not_drawn_on_one(tmp_path):
    [group] = groups(read_run(a_run(tmp_path, [row("a", n_rungs=5), row("b", n_rungs=9)])))
    assert group.n_rungs is None


def test_a_threshold_in_rungs_is_for_scores_in_rungs(tmp_path):
    rows = [row("a", 4.0, n_rungs=5), row("b", 2.0, n_rungs=5), row("c", 70.0, method="length")]
    run = read_run(a_run(tmp_path, rows))
    assert [group.min_score for group in groups(run, 3.0)] == [3.0, None]
    shown = visible(page(run, min_score=3.0))
    assert "3 is reached by: coherence, scores 50 % (1 of 2)." in shown
    assert "median ≥ 3 coherence scores 2 2 0 0 3.00 50 % coherence length 1 1 0 0 70.00 –" in shown
    alone = read_run(a_run(tmp_path, rows[2:]))
    assert [group.min_score for group in groups(alone, 3.0)] == [3.0]


def test_verdicts_by_rung_are_those_of_a_slow_count(run):
    group = groups(run)[0]
    for found in group.by_rung:
        at = [(score.id, v) for score, _ in group.rows for v in score.verdicts if v.level == found.level]
        assert found.n == len({text_id for text_id, _ in at})
        assert found.better == pytest.approx(np.mean([v.better for _, v in at]))
        assert found.worse == pytest.approx(np.mean([v.worse for _, v in at]))
        assert found.ties == np.mean([v.similar > max(v.better, v.worse) for _, v in at])
        orders = [{text_id: v for text_id, v in at if v.swapped == swapped} for swapped in (False, True)]
        assert orders[0].keys() == orders[1].keys()
        changed = [
            (v.better > v.worse) != (orders[1][text_id].better > orders[1][text_id].worse)
            for text_id, v in orders[0].items()
        ]
        assert (found.n_both, found.changed) == (len(changed), np.mean(changed))
        assert found.as_asked == pytest.approx(np.mean([v.better for v in orders[0].values()]))


def test_the_favour_is_what_the_judge_gives_to_the_text_that_it_is_asked_about(tmp_path):
    """Qualities in the middle, so that no probability is cut at 0."""
    said = [verdict(3.0, level, swapped, favour=0.07) for level in (2, 3, 4) for swapped in (False, True)]
    rows = [row(verdicts=[[v.level, v.swapped, v.better, v.worse, v.similar] for v in said])]
    [group] = groups(read_run(a_run(tmp_path, rows)))
    favour, changed = overall(group.by_rung)
    assert favour == pytest.approx(7)
    assert changed == pytest.approx(1 / 3)  # of its equal, rung 3


def test_verdicts_in_one_order_show_no_favour(tmp_path):
    [group] = groups(read_run(a_run(tmp_path, [row(verdicts=[[1, False, 0.6, 0.3, 0.1]])])))
    assert [rung.n_both for rung in group.by_rung] == [0]


def test_only_texts_answered_in_both_orders_tell_of_the_favour(tmp_path):
    rows = [
        row("a", verdicts=[[1, False, 0.6, 0.3, 0.1], [1, True, 0.4, 0.5, 0.1]]),
        row("b", verdicts=[[1, False, 0.0, 0.9, 0.1]]),
    ]
    [rung] = groups(read_run(a_run(tmp_path, rows)))[0].by_rung
    assert (rung.n, rung.n_both, rung.as_asked, rung.swapped, rung.changed) == (2, 1, 0.6, 0.4, 1.0)
    assert rung.better == pytest.approx((0.6 + 0.4 + 0.0) / 3)


def test_the_effect_of_length_is_told_inside_contexts_too(tmp_path):
    """Longer is better inside both contexts, but the context with the longer texts has the lower scores."""
    rows, texts = [], []
    for context, start, base in (("c1", 10, 3.0), ("c2", 100, 1.0)):
        for step in range(6):
            rows.append({**row(f"{context}/{step}", base + step / 10), "context_id": context})
            texts.append({"id": f"{context}/{step}", "context_id": context, "text": "word " * (start + step)})
    run = read_run(a_run(tmp_path, rows, targets=texts))
    effect = length_effect(groups(run)[0], run.texts)
    assert effect.inside == pytest.approx(1)
    assert effect.pooled < 0
    assert [words for words, _ in effect.bins] == [12.5, 102.5]


def test_texts_of_one_length_are_in_one_part(tmp_path):
    rows = [row(f"t{i}", float(i % 7)) for i in range(60)]
    texts = [{"id": f"t{i}", "context_id": "c", "text": "word " * (5 if i < 50 else 6)} for i in range(60)]
    run = read_run(a_run(tmp_path, rows, targets=texts))
    effect = length_effect(groups(run)[0], run.texts)
    assert [words for words, _ in effect.bins] == [5, 6]


def test_reasons_that_differ_only_in_names_are_one_and_a_row_may_have_several(tmp_path):
    both = "rung 2 has no text: cut; rung 4: the prompt is too long"
    rows = [
        row("a", None, reason="context 'x' has no ladder"),
        row("b", None, reason="context 'y' has no ladder"),
        row("d") | {"status": "partial", "reason": both},
        row("e") | {"status": "partial", "reason": "rung 3 has no text: cut; rung 5 has no text: cut"},
    ]
    found = failures(read_run(a_run(tmp_path, rows)))
    assert [(one.n, one.status, one.reason, one.ids) for one in found] == [
        (2, "unscored", "context 'x' has no ladder", ("a", "b")),
        (2, "partial", "rung 2 has no text: cut", ("d", "e")),
        (1, "partial", "rung 4: the prompt is too long", ("d",)),
    ]


def test_the_ladder_shown_is_whole_and_has_the_most_texts(run):
    [view] = ladder_views(run, groups(run))
    assert view.ladder.context_id != "c1"  # a rung of it failed
    values = [score.value for score in view.scores]
    assert values == sorted(values, reverse=True)
    assert len(view.scores) == 4
    assert {score.context_id for score in view.scores} == {view.ladder.context_id}


def test_a_ladder_whose_texts_are_all_scored_comes_before_one_with_more_texts(tmp_path):
    References([ladder("few"), ladder("many"), ladder("most", failed=(2,))]).save(tmp_path / "ladders")
    rows = []
    for context_id, n in (("few", 2), ("many", 3), ("most", 4)):
        for i in range(n):
            score = scored(f"{context_id}{i}", context_id, [verdict(2.0 + i, level, False) for level in range(1, 6)])
            rows.append(score_row(score, Signature.of(task="summarization", attribute="coherence"), verdicts=True))
    rows[4] |= {"score": None, "status": "unscored", "reason": "no answer"}
    run = read_run(a_run(tmp_path, rows))
    assert [view.ladder.context_id for view in ladder_views(run, groups(run))] == ["few"]


def test_a_text_is_shown_on_the_ladder_of_its_own_task(tmp_path):
    mine, other = ladder("c"), replace(ladder("c"), task="dialogue", rungs=ladder("another").rungs)
    References([mine, other]).save(tmp_path / "ladders")
    score = scored("t", "c", [verdict(3.0, level, False) for level in range(1, 6)])
    line = score_row(score, Signature.of(task="dialogue", attribute="coherence"), verdicts=True)
    run = read_run(a_run(tmp_path, [line]))
    assert [view.ladder.task for view in ladder_views(run, groups(run))] == ["dialogue"]
    undecided = read_run(a_run(tmp_path, [line | {"signature": "model:fake"}]))
    assert ladder_views(undecided, groups(undecided)) == []


def test_a_text_without_a_signature_stands_with_the_others_of_its_context(tmp_path):
    """An empty text is unscored before anything is known of it: it opens no second view of the same ladder."""
    References([ladder("c")]).save(tmp_path / "ladders")
    score = scored("t", "c", [verdict(3.0, level, False) for level in range(1, 6)])
    whole = score_row(score, Signature.of(task="summarization", attribute="coherence"), verdicts=True)
    run = read_run(a_run(tmp_path, [whole, row("empty", None, reason="text is ''")]))
    [view] = ladder_views(run, groups(run), "c")
    assert [score.id for score in view.scores] == ["t", "empty"]


def test_a_context_that_is_named_shows_its_ladders(run):
    views = ladder_views(run, groups(run), "c1")
    assert {(view.ladder.context_id, view.ladder.attribute) for view in views} == {
        ("c1", "coherence"),
        ("c1", "fluency"),
    }
    assert ladder_views(run, groups(run), "nowhere") == []


# ------------------------------------------------------------------------------------------------- the page


class Elements(HTMLParser):
    """All elements of a page, with their attributes."""

    def __init__(self, html):
        super().__init__()
        self.found = []
        self.feed(html)

    def handle_starttag(self, name, attributes):
        self.found.append((name, dict(attributes)))

    def of(self, *names):
        return [attributes for name, attributes in self.found if name in names]


def section(html, name):
    return html[html.index(f'aria-labelledby="{name}"') :].partition("</section>")[0]


def first_figure(html, name):
    return section(html, name).partition('<figure class="card">')[2].partition("</svg>")[0]


def test_the_page_says_in_short_what_it_shows(run_folder, run):
    shown = visible(page(run, min_score=3.5))
    reached = []
    for attribute, n in (("coherence", 33), ("fluency", 32)):
        own = [score for score, _ in run.scores["scores"] if score.attribute == attribute]
        kept = [MinScore(3.5).decide(score)[0] for score in own].count("kept")
        undecided = [score.value is not None and MinScore(3.5).decide(score)[0] == "unsure" for score in own].count(
            True
        )
        assert (len(own), undecided) == (n, 0)
        reached.append(f"{attribute} {100 * kept / n:.0f} % ({kept} of {n})")
    assert "65 scores on 2 attributes: 56 whole, 0 partial (some verdicts are missing), 9 unscored." in shown
    assert f"3.5 is reached by: {', '.join(reached)}." in shown  # attributes are not pooled
    assert re.search(r"is about changes the probability of Better by \+4\.\d percentage points", shown)
    assert "1 is as good as the worst rung and 5 as the best" in shown
    assert "8 unscored rung 2 has no text: the model refused c1/careful, c1/plain, c1/hasty, c1/broken, …" in shown


def test_the_numbers_behind_a_figure_can_be_read(tmp_path):
    rows = [
        row("a", label_mass=0.4, verdicts=[[1, 0, 0.7, 0.2, 0.1], [1, 1, 0.5, 0.4, 0.1], [2, 0, 0.3, 0.1, 0.6]]),
        row("b", label_mass=0.2, verdicts=[[1, 0, 0.9, 0.1, 0.0], [1, 1, 0.3, 0.7, 0.0]]),
        row("d", label_mass=0.3),
    ]
    shown = visible(page(read_run(a_run(tmp_path, rows))))
    assert "rung texts better similar worse ties 1 2 60 % 5 % 35 % 0 % 2 1 30 % 60 % 10 % 100 %" in shown
    assert "33 % ties" in shown  # of three texts against rungs
    assert "rung pairs text asked rung asked favour, points another verdict 1 2 80 % 40 % +20.0 50 %" in shown
    assert "least 0.2, median 0.3; 3 below 0.5" in shown
    assert "b coherence 0.2 3.00 d coherence 0.3 3.00 a coherence 0.4 3.00" in shown


def test_every_section_is_there_and_what_is_missing_is_named(run, tmp_path):
    whole = page(run)
    names = ["Systems", "Scores", "Texts to read", "One ladder", "Verdicts by rung", "Position bias", "Label mass"]
    names += ["Length", "What failed", "Agreement with people", "Signature", "What this is made of"]
    assert re.findall(r"<h2 id=\"[a-z-]+\">(.*?)</h2>", whole) == names
    assert "Not in this report" not in whole
    assert "These are not the ladders" not in whole
    bare = page(read_run(a_run(tmp_path, [row("a", 3.0), row("b", 4.0)])))
    assert re.findall(r"<h2 id=\"[a-z-]+\">(.*?)</h2>", bare) == ["Scores", "Texts to read", "What this is made of"]
    for missing in (
        "No ladders in the run", "No verdicts in the run", "No verdicts in both orders", "No label mass", "No texts",
        "Nothing failed", "No ratings in the run: agreement with people is not shown", "No signature",
    ):  # fmt: skip
        assert missing in visible(bare)


def test_the_histogram_holds_every_text_and_the_threshold_stands_at_its_score(tmp_path):
    rows = [row(f"t{i}", score) for i, score in enumerate([1.0, 1.1, 3.0, 3.05, 5.0])]
    html = page(read_run(a_run(tmp_path, rows)), min_score=3.0)
    svg = first_figure(html, "scores")
    bars = [{name: float(value) for name, value in bar.items() if name != "class"} for bar in Elements(svg).of("rect")]
    assert [round(bar["height"] / bars[-1]["height"]) for bar in bars] == [2, 2, 1]
    cut = float(re.search(r'd="M([\d.]+) [\d.]+V[\d.]+" class="cut"', svg)[1])
    first, last = bars[0]["x"], bars[-1]["x"] + bars[-1]["width"]
    assert cut == pytest.approx((first + last) / 2, abs=0.6)  # 3 is halfway from 1 to 5


def test_a_place_on_a_scale_is_linear_from_its_low_end():
    from synthscore.report.figures import Dot, dots

    svg = dots([Dot("a", -1), Dot("b", 0), Dot("c", 1)], (-1, 1), [], label="", title="", class_="grid", cut=0.5)
    low, middle, high = (float(circle["cx"]) for circle in Elements(svg).of("circle"))
    assert (low, high) == (pytest.approx(20.8), 306)  # after a name of one letter, before the value
    assert middle - low == pytest.approx(high - middle)
    cut = float(re.search(r'd="M([\d.]+) [\d.]+V[\d.]+" class="cut"', svg)[1])
    assert cut == pytest.approx((middle + high) / 2, abs=0.06)


def test_an_element_escapes_what_is_in_it_and_what_its_attributes_are():
    from synthscore.report.figures import tag

    assert tag("g", "<b>", tag("i", "&"), class_='"><c>', r=None, x=1.25) == (
        '<g class="&#34;&gt;&lt;c&gt;" x="1.2">&lt;b&gt;<i>&amp;</i></g>'
    )


def test_answers_to_two_questions_that_sum_to_more_than_one_fill_the_bar(tmp_path):
    html = page(read_run(a_run(tmp_path, [row(verdicts=[[1, False, 0.9, 0.6, 0.0]])])))
    bars = Elements(first_figure(html, "verdicts")).of("rect")
    better, similar, worse = (float(bar["width"]) for bar in bars)
    assert (better / worse, similar) == (pytest.approx(1.5, abs=0.01), 0)
    assert float(bars[0]["x"]) + better + worse == pytest.approx(330, abs=0.1)
    assert "rung texts better similar worse ties 1 1 90 % 0 % 60 %" in visible(html)


def test_lengths_have_a_row_each_with_their_median_score(tmp_path):
    texts = [{"id": f"t{n}", "context_id": "c", "text": "word " * n} for n in range(10, 20)]
    run = read_run(a_run(tmp_path, [row(f"t{n}", n / 10) for n in range(10, 20)], targets=texts))
    svg = first_figure(page(run), "length")
    assert re.findall(r'class="name">([^<]+)<', svg) == ["12 words", "17 words"]
    assert re.findall(r'class="strong"[^>]*>([^<]+)<', svg) == ["1.20", "1.70"]


def test_an_error_is_drawn_as_its_90_per_cent_interval(tmp_path):
    References([ladder("c")]).save(tmp_path / "ladders")
    said = [[level, False, 0.5, 0.4, 0.1] for level in range(1, 6)]
    signature = "task:summarization|attribute:coherence"
    a_run(tmp_path, [row("a", 3.0, stderr=0.5, n_rungs=5, verdicts=said, signature=signature)])
    assert "90 % interval: between 2.18 and 3.82" in visible(page(read_run(tmp_path)))


@pytest.mark.parametrize("context_id", ["c0", "c1"])
def test_a_text_stands_on_the_ladder_at_its_score_or_what_that_can_be(run, context_id):
    html = page(run, context_id=context_id, min_score=2.5)
    view = html[html.index('<div class="view">') :].partition("</svg>")[0]
    rungs = {
        label: float(x)
        for x, label in re.findall(r'<text x="([\d.]+)" y="[\d.]+" text-anchor="middle">(\d)</text>', view)
    }
    step = (rungs["5"] - rungs["1"]) / 4
    found = ladder_views(run, groups(run), context_id)[0].scores
    assert [r.value is None for r in found] == [context_id == "c1"] * 4
    circles = [float(circle["cx"]) for circle in Elements(view).of("circle")]
    assert circles == pytest.approx([rungs["1"] + step * (r.value - 1) for r in found if r.value], abs=0.1)
    cut = float(re.search(r'd="M([\d.]+) [\d.]+V[\d.]+" class="cut"', view)[1])
    assert cut == pytest.approx(rungs["1"] + 1.5 * step, abs=0.11)
    intervals = re.findall(r'd="M([\d.]+) [\d.]+H([\d.]+)" class="bar"', view)
    if context_id == "c0":
        assert not intervals
        return
    expected = [(rungs["1"] + step * (r.low - 1), rungs["1"] + step * (r.high - 1)) for r in found]
    assert np.array(intervals, dtype=float) == pytest.approx(np.array(expected), abs=0.1)
    shown = visible(html)
    assert "rung 2 the model refused" in shown
    assert f"between {found[0].low:.2f} and {found[0].high:.2f}; rung 2 has no text: the model refused" in shown


def test_the_page_says_which_interval_the_line_of_a_text_is(run, tmp_path):
    shown = visible(page(run, context_id="c1"))
    assert "without an error goes from the least to the greatest score" in shown
    assert "90 % interval" not in shown
    assert interval(Score("t", "c", "a", 3.0, 0.5, 1.0, 5.0))[:2] == pytest.approx(
        (3 - 1.6449 * 0.5, 3 + 1.6449 * 0.5), abs=1e-4
    )
    References([ladder("c")]).save(tmp_path / "ladders")
    about = {"n_rungs": 5, "signature": "task:summarization|attribute:coherence"}
    anchored, unreported = row("a", 3.0, stderr=0.5, **about), row("b", 3.0, low=2.9, high=3.1, **about)
    likely, possible = "The line of a text is the 90 % interval of its score", "The line of a text without an error"
    for rows, said in (
        ([anchored], [likely]),
        ([unreported], [possible]),
        ([anchored, unreported], [likely, possible]),
    ):
        shown = visible(page(read_run(a_run(tmp_path, rows))))
        assert [sentence for sentence in (likely, possible) if sentence in shown] == said


def test_marks_of_a_narrow_figure_do_not_run_into_each_other():
    from synthscore.report.figures import Dot, Mark, dots

    marks = [Mark(at / 10, f"0.{at}") for at in range(10)]
    svg = dots([Dot("a name of some length, cut", 0.5)], (0, 0.9), marks, label="", title="", class_="grid")
    at = [float(x) for x in re.findall(r'<text x="([\d.]+)" y="[\d.]+" text-anchor="middle">0.\d<', svg)]
    assert len(at) > 2
    assert min(np.diff(at)) >= 24


def test_texts_and_rungs_are_in_one_order_the_best_first(run):
    html = section(page(run), "ladder")
    places = [float(place) for place in re.findall(r'<span class="place">([\d.]+)</span>', html)]
    assert len(places) == 4 + N_RUNGS
    assert places == sorted(places, reverse=True)


def test_the_columns_beside_a_text_are_its_verdicts_with_a_gap_for_a_rung_that_has_none(run):
    found = ladder_views(run, groups(run), "c1")[0].scores[0]
    html = section(page(run, context_id="c1"), "ladder")
    columns = html[html.index('class="verdicts"') :].partition("</svg>")[0]
    bars = [
        {name: float(value) for name, value in bar.items() if name != "class"} for bar in Elements(columns).of("rect")
    ]
    assert [bar["x"] for bar in bars[::3]] == [0, 18, 27, 36]
    for level, three in zip((1, 3, 4, 5), zip(bars[::3], bars[1::3], bars[2::3], strict=True), strict=True):
        at = [v for v in found.verdicts if v.level == level]
        means = [np.mean([getattr(v, name) for v in at]) for name in ("better", "similar", "worse")]
        assert [bar["height"] / 24 for bar in three] == pytest.approx(means, abs=0.003)
        assert three[0]["y"] + three[0]["height"] == pytest.approx(24, abs=0.11)
        assert three[2]["y"] == pytest.approx(0, abs=0.06)


def test_ladders_that_are_not_those_of_the_scores_are_named(tmp_path):
    make_run(tmp_path, n_contexts=2, hash_="0123456789ab")
    shown = visible(page(read_run(tmp_path)))
    assert re.search(
        r"These are not the ladders of the scores: their hash is \w{12}, the signatures name 0123456789ab", shown
    )


def test_agreement_is_that_of_the_library(run):
    from synthscore.evaluation.agreement import agreement

    shown = visible(page(run))
    ids = [text.id for text in run.ratings]
    for attribute in ("coherence", "fluency"):
        values = {score.id: score.value for score, _ in run.scores["scores"] if score.attribute == attribute}
        column = [values[text_id] for text_id in ids]
        human = run.ratings.human(attribute)
        for level, n in (("per_context", 32), ("pooled", 32), ("system", 4)):
            found = agreement(column, human, run.ratings.context_ids, run.ratings.systems, level=level)
            assert f"scores {attribute} {level} spearman {found.value:.2f}" in shown
            assert f"{n} {'systems' if level == 'system' else 'texts'}" in shown
    assert "per_context : inside each context, then the mean." in shown
    assert "1 scores of texts that nobody rated" in shown


def figure(value=0.4, attribute="coherence", method="ladder", level="per_context", statistic="spearman"):
    low, high = (None, None) if value is None else (value - 0.1, value + 0.1)
    value = float("nan") if value is None else value
    return FigureKey(method, attribute, level, statistic), Agreement(value, low, high, 32, 0.1, 8, 1)


def save_evaluation(folder, *figures, people=(), left_out=()):
    """Of one rated text, and these figures."""
    ratings = Ratings("mine", (RatedText("a", "c", "s", "A text.", {"coherence": 1.0}),), ("coherence",))
    scores = {
        place[:2]: Scores((Score("a", "c", place.attribute, 1.0),), Signature.of(scoring="x")) for place, _ in figures
    }
    means = {(place.method, *place[2:]): Mean(0.4, None, None) for place, _ in figures}
    Evaluation(
        ratings, scores, Settings(), dict(figures), means,
        people=dict(people), left_out=left_out,
    ).save(folder)  # fmt: skip


def test_an_evaluation_is_shown_as_it_was_written(tmp_path):
    people = Reliability(0.5, 0.6, 0.77, None, None, 32, 0, 3.0, 8)
    save_evaluation(
        a_run(tmp_path, [row()]),
        figure(),
        figure(0.2, statistic="kendall"),
        people={("coherence", "per_context", "spearman"): people},
        left_out=("3 texts: nobody rated them",),
    )
    shown = visible(page(read_run(tmp_path)))
    assert "ladder coherence per_context spearman 0.40 0.30 0.50 32 1" in shown
    assert "ladder coherence per_context kendall 0.20" in shown
    assert "a method without error: 0.77" in shown
    assert "Left out: 3 texts: nobody rated them." in shown


def test_a_report_of_an_evaluation_begins_with_all_methods_and_the_differences(tmp_path):
    names, ratings, scores = ("coherence", "fluency"), [], []
    for i in range(48):
        text = {"id": f"t{i}", "context_id": f"c{i // 4}", "system": f"s{i % 4}"}
        ratings.append({**text, "text": "word " * (i + 1), "human": dict.fromkeys(names, i % 4 + 1)})
        scores += [row(f"t{i}", float(i % 4)) | {"attribute": name, "context_id": text["context_id"]} for name in names]
    write_rows(ratings, tmp_path / "ratings.jsonl")
    write_rows(scores, tmp_path / "mine.jsonl")
    files = [str(tmp_path / "mine.jsonl"), "--human", str(tmp_path / "ratings.jsonl"), "-o", str(tmp_path / "run")]
    assert main(["evaluate", *files, "--methods", "length,random", "--against", "mine"]) == 0
    run = read_run(tmp_path / "run")
    html = page(run)
    assert re.findall(r"<h2 id=\"([a-z-]+)\">", html)[:2] == ["agreement", "systems"]
    shown, e = visible(section(html, "agreement")), Evaluation.load(tmp_path / "run")
    assert "method coherence fluency mean mine 1.00 [1.00, 1.00] 1.00 [1.00, 1.00] 1.00 [1.00, 1.00] length" in shown
    cell = within(*(getattr(e.means["random", "per_context", "spearman"], name) for name in ("value", "low", "high")))
    assert f"{cell} More than mine, over texts that both score" in shown
    star = {place: each.p_holm < 0.05 for place, each in e.contrasts.items() if each.p_holm is not None}
    for place, each in e.contrasts.items():
        if place[2:] == ("per_context", "spearman") and each.low is not None:
            assert within(each.value, each.low, each.high) + "*" * star.get(place, False) in shown
    assert any(star.values())


def test_the_best_the_worst_and_the_most_uncertain_texts_can_be_read(tmp_path):
    rows = [row(f"t{i:02}", float(i), stderr=abs(i - 7) / 10) for i in range(13)] + [row("u", None, reason="x")]
    texts = [{"id": f"t{i:02}", "context_id": "c", "text": f"The words of {i}."} for i in range(13)]
    html = section(page(read_run(a_run(tmp_path, rows, targets=texts))), "texts")
    lists = [re.findall(r'<b dir="auto">(\w+)<', part) for part in html.split("<ol")[1:]]
    assert lists[0] == ["t12", "t11", "t10", "t09", "t08"]
    assert lists[1] == ["t00", "t01", "t02", "t03", "t04"]
    assert lists[2] == ["t00", "t01", "t12", "t02", "t11"]
    assert "The words of 12." in html


def test_a_reason_in_words_stands_with_its_text_and_changes_nothing_else(tmp_path):
    rows = [row(f"t{i}", float(i)) for i in range(3)]
    texts = [{"id": f"t{i}", "context_id": "c", "text": f"The words of {i}."} for i in range(3)]
    rows[2]["why"] = "It names the <island>."
    html = section(page(read_run(a_run(tmp_path, rows, targets=texts))), "texts")
    assert html.count("It names the &lt;island&gt;.") >= 1
    assert read_run(tmp_path).why == {("t2", "coherence"): "It names the <island>."}


def test_without_errors_the_least_decided_verdicts_are_the_most_uncertain():
    sure, torn = (Verdict(1, False, better, 0.9 - better, 0.1) for better in (0.9, 0.45))
    scores = [Score(str(i), "c", "a", float(i), verdicts=(torn if i == 2 else sure,)) for i in range(4)]
    found = extremes(group_of(*scores))
    assert found.unsure[0].id == "2"
    assert extremes(group_of(*(replace(score, verdicts=()) for score in scores))).unsure == []


@pytest.mark.parametrize("text", ["[]", "{", '{"methods": 3}', '{"coherence": {"pooled": {"spearman": {"value": 1}}}}'])
def test_an_evaluation_that_is_not_one_is_left_out_and_named(tmp_path, text):
    a_run(tmp_path, [row()])
    (tmp_path / "evaluation.json").write_text(text)
    run = read_run(tmp_path)
    assert "evaluation.json" in visible(page(run))
    assert len(run.left_out) == 1


def test_the_best_method_comes_first_and_one_without_a_figure_last(tmp_path):
    values = {"middling": 0.4, "best": 0.9, "unknown": None}
    save_evaluation(tmp_path, *(figure(value, method=name) for name, value in values.items()))
    html = page(read_run(tmp_path))
    assert re.findall(r'class="name">(\w+)<', html) == ["best", "middling", "unknown"]


def test_equal_runs_give_equal_pages(run_folder, run):
    assert page(run, min_score=3) == page(read_run(run_folder), min_score=3)


def test_a_score_that_is_on_no_scale_of_rungs_has_no_rungs(tmp_path):
    shown = visible(page(read_run(a_run(tmp_path, [row("a", 120.0), row("b", 340.0)]))))
    assert "rung" not in shown.partition("Not in this report")[0]


def test_nothing_scored_is_said_and_not_drawn(tmp_path):
    shown = visible(page(read_run(a_run(tmp_path, [row("a", None, reason="no answer")]))))
    assert "1 text, none of them scored." in shown
    assert "No text has a score: no distribution is shown." in shown
    assert "1 unscored no answer a" in shown


def test_a_constant_score_is_drawn(tmp_path):
    texts = [{"id": f"t{i}", "context_id": "c", "text": "word"} for i in range(3)]
    a_run(tmp_path, [row(f"t{i}", 2.0) for i in range(3)], targets=texts)
    assert "all texts –, inside contexts –" in visible(page(read_run(tmp_path)))


@pytest.mark.slow
def test_a_long_run_stays_a_small_page_and_says_what_it_cuts(tmp_path):
    rng = np.random.default_rng(1)
    References([ladder("c")]).save(tmp_path / "ladders")
    rows, texts = [], []
    for i in range(1500):
        score = scored(f"t{i}", "c", [verdict(rng.uniform(0, 6), level, False) for level in range(1, 6)])
        line = score_row(score, Signature.of(task="summarization", attribute="coherence"), verdicts=True)
        rows.append(line | {"label_mass": (i + 1) / 1500, "attribute": "coherence" if i % 3 else f"a{i % 90}"})
        texts.append({"id": f"t{i}", "context_id": "c", "text": "word " * int(rng.integers(1, 2000))})
    for i in range(30):
        reason = "why " + "very " * i
        rows.append(row(f"u{i}", None, reason=reason) | {"context_id": "other"})
    html = page(read_run(a_run(tmp_path, rows, targets=texts)))
    assert len(html) < 800_000
    assert html.count('<figure class="card">') == 24 + 24 + 1 + 24  # scores, verdicts, mass, length
    shown = visible(html)
    for cut in (
        "The lowest 20 of 1 500 scores", "the first 20 of 30 reasons", "the first 24 of 31 groups",
        "the best and worst, 40 of 1 000 texts", "(4 000 of",
    ):  # fmt: skip
        assert cut in shown.replace("\N{NO-BREAK SPACE}", " ")


def nasty_run(folder):
    """All that comes from outside is hostile."""
    folder.mkdir()
    said = [[level, swapped, 0.5, 0.4, 0.1] for level in range(1, 6) for swapped in (False, True)]
    raw = sum(level * 0.1 for level in range(1, 6))
    about = {
        "attribute": NASTY, "context_id": NASTY, "verdicts": said, "label_mass": 0.3, "n_rungs": 5,
        "signature": f"model:{NASTY}|task:summarization|attribute:{NASTY}|references:{NASTY}",
    }  # fmt: skip
    rows = [row(f"{i}{NASTY}", math.sqrt(raw + 15)) | about | {"method": NASTY} for i in range(4)]
    rows[0] |= {"status": "partial", "reason": NASTY}
    rows.append(row("u", None, reason=NASTY) | {"method": NASTY})
    texts = [{"id": f"{i}{NASTY}", "context_id": NASTY, "text": NASTY * 3, "system": NASTY} for i in range(4)]
    rungs = tuple(Rung(level, (level - 1) / 4, f"{level} {NASTY}") for level in range(1, 5))
    rungs += (Rung(5, 1.0, "", "failed", NASTY),)
    References([Ladder(NASTY, "summarization", NASTY, rungs, Context(NASTY, NASTY))]).save(folder / "ladders")
    a_run(folder, rows, targets=texts)
    write_rows([{"id": "c", "text": NASTY}], folder / "a<img src=x>b.jsonl")
    (folder / "broken<img src=x>.jsonl").write_text(NASTY)
    nasty = figure(0.1, NASTY, NASTY, NASTY, NASTY)
    save_evaluation(folder, nasty, left_out=(NASTY,))
    return folder


def check_harmless(html, links=frozenset()):
    """No element and no attribute that anything from outside could have made. links : of ours, beside the sections"""
    elements = Elements(html)
    assert not elements.of("script", "img", "iframe", "object", "embed", "b:", "base", "form", "image", "foreignobject")
    assert {attributes.get("href") for attributes in elements.of("a")} <= {
        "#changes", "#scores", "#systems", "#texts", "#ladder", "#verdicts", "#bias", "#mass", "#length", "#failures",
        "#agreement", "#signature", "#made-of",
    } | links  # fmt: skip
    assert [attributes["href"] for attributes in elements.of("link")] == ["data:,"]
    policies = [attributes["content"] for attributes in elements.of("meta") if "http-equiv" in attributes]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'; img-src data:"]
    for name, attributes in elements.found:
        assert not [key for key in attributes if key.startswith("on") or key in ("src", "style", "xlink:href")], name


def test_everything_from_outside_is_escaped(tmp_path):
    html = page(read_run(nasty_run(tmp_path / "run")), title=NASTY, context_id=NASTY)
    check_harmless(html)
    assert html.count("</style>") == 1
    assert html.count("</title>") == 1 + html.count("<svg") - html.count('aria-hidden="true"')
    shown = visible(html)
    assert shown.count("<script>alert(1)</script>") > 40
    assert "{{ 7 * 7 }}" in shown
    assert "&lt;b&gt;" in shown
    for section in ("One ladder", "Position bias", "Length", "What failed", "Agreement with people"):
        assert f">{section}</h2>" in html


# ------------------------------------------------------------------------------------------------- two runs


def two_runs(tmp_path, **more):
    """Eight texts of four contexts; the second run scores text i by i / 10 more, and lacks one of them."""
    for name, step in (("old", 0.0), ("new", 0.1)):
        about = {"n_rungs": 5, "signature": f"model:{name}|scoring:anchored"} | more
        rows = [row(f"t{i}", 2 + i / 4 + step * i, **about) | {"context_id": f"c{i // 2}"} for i in range(8)]
        a_run(tmp_path / name, rows if step else [*rows, row("alone", 5.0, **about)])
    return side_by_side(read_run(tmp_path / "old"), read_run(tmp_path / "new"))


def test_of_two_runs_the_page_says_what_changed_and_shows_both(tmp_path):
    run = two_runs(tmp_path)
    [change] = changes(run, 3.5)
    assert (change.name, change.n, change.n_alone, change.rank) == ("coherence", 8, 1, pytest.approx(1))
    assert change.means == (pytest.approx(2.875), pytest.approx(3.225))
    assert change.crossed == (1, 0)  # text 5: 3.25 and 3.75
    assert [after.id for _, after in change.moved] == ["t7", "t6", "t5", "t4", "t3"]
    mean, low, high = change.difference
    means = np.array([0.05, 0.25, 0.45, 0.65])  # of the contexts: all of two texts
    reach = 3.1824 * means.std(ddof=1) / 2  # Student's t, 3 degrees of freedom
    assert (mean, low, high) == pytest.approx((0.35, 0.35 - reach, 0.35 + reach), abs=1e-3)
    html = page(run, min_score=3.5)
    shown = visible(section(html, "changes"))
    assert "coherence 8 1 2.88 3.23 0.35 [−0.06, 0.76] 1.00 1 0" in shown
    assert "part of the signature old new model old new" in shown
    assert visible(section(html, "scores")).count("coherence old") == 2  # in the table, and a figure
    assert re.findall(r"<h2 id=\"([a-z-]+)\">", html)[:2] == ["changes", "scores"]


def test_scores_on_two_scales_have_no_difference(tmp_path):
    a_run(tmp_path / "a", [row(n_rungs=5)])
    a_run(tmp_path / "b", [row(n_rungs=9)])
    [change] = changes(side_by_side(read_run(tmp_path / "a"), read_run(tmp_path / "b")))
    assert np.isnan(change.difference).all()


def test_runs_of_one_name_and_runs_without_a_common_attribute_are_told_apart(tmp_path):
    a_run(tmp_path / "a", [row()])
    a_run(tmp_path / "b", [row(attribute="fluency")])
    run = side_by_side(read_run(tmp_path / "a" / "scores.jsonl"), read_run(tmp_path / "b" / "scores.jsonl"))
    assert list(run.scores) == ["A", "B"]
    assert "No attribute of the same method is in both." in visible(page(run))


def test_the_command_takes_two_runs(tmp_path, monkeypatch):
    two_runs(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["report", "old", "new", "-o", "both.html"]) == 0
    assert ">What changed</h2>" in Path("both.html").read_text(encoding="utf-8")


# ------------------------------------------------------------------------------------------------- the command


def test_the_command_writes_the_page_into_the_folder(run_folder, tmp_path, capsys, monkeypatch):
    folder = tmp_path / "run"
    shutil.copytree(run_folder, folder)
    monkeypatch.chdir(tmp_path)
    assert main(["report", "run", "--title", "A & B", "--min-score", "3.5"]) == 0
    html = (folder / "report.html").read_text(encoding="utf-8")
    assert "<title>A &amp; B</title>" in html
    assert re.search(r"run/report.html: \d+ kB, from 6 files", capsys.readouterr().err)
    assert main(["report", "run", "--title", "A & B", "--min-score", "3.5", "-q"]) == 0  # over the one that is there
    assert (folder / "report.html").read_text(encoding="utf-8") == html
    assert capsys.readouterr().err == ""


def test_files_may_be_named_one_by_one(run_folder, run, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = ["--targets", "targets.jsonl", "--references", "ladders", "--human", "ratings.jsonl"]
    files = [word if word.startswith("--") else str(run_folder / word) for word in files]
    assert main(["report", str(run_folder / "scores.jsonl"), *files, "--context", "c2"]) == 0
    html = Path("report.html").read_text(encoding="utf-8")
    assert "c2, coherence" in html
    assert ">Agreement with people</h2>" in html
    assert main(["report", str(run_folder / "scores.jsonl"), "-o", "-"]) == 0
    assert capsys.readouterr().out.startswith("<!DOCTYPE html>")


def test_what_was_left_out_is_told_and_the_exit_code_says_so(tmp_path, capsys):
    a_run(tmp_path, [row(), *(row(f"b{i}") | {"score": "high"} for i in range(7))])
    assert main(["report", str(tmp_path)]) == 3
    err = capsys.readouterr().err
    assert "left out while reading:" in err
    assert "7 x such as: " in err
    assert visible((tmp_path / "report.html").read_text()).count("score is 'high'") == 7


def test_a_folder_without_results_is_an_error(tmp_path, capsys):
    assert main(["report", str(tmp_path)]) == 1
    assert "it holds no scores or evaluation (seen: nothing)" in capsys.readouterr().err
    assert not (tmp_path / "report.html").exists()


def test_half_a_surrogate_pair_does_not_stop_the_page(tmp_path):
    lines = [json.dumps(row()), '{"id": "\\ud800", "score": 1, "status": "ok"}', json.dumps(row(reason="\ud800"))]
    (tmp_path / "scores.jsonl").write_text("\n".join(lines))
    assert main(["report", str(tmp_path)]) == 3
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "row 2: id is &#39;\\ud800&#39;" in html
    assert "\\ud800" in html[html.index("What failed") :]


def test_importing_the_command_line_imports_no_page():
    script = "import sys, synthscore.cli; raise SystemExit('synthscore.report' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


# ------------------------------------------------------------------------------------------------- a browser

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium")


def browse(path, profile, *options, clean=True):
    """What a headless browser prints on stdout of the page. clean : it must have met no error"""
    command = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
        "--disable-component-update", "--disable-sync", "--host-resolver-rules=MAP * ~NOTFOUND",
        f"--user-data-dir={profile}", "--enable-logging=stderr", "--v=0", "--hide-scrollbars", *options, path.as_uri(),
    ]  # fmt: skip
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120, check=True)
    assert ("CONSOLE" not in done.stderr and "Refused to" not in done.stderr) or not clean, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """A page with all sections, and a hostile one."""
    folder = tmp_path_factory.mktemp("pages")
    (folder / "whole.html").write_text(page(read_run(make_run(folder / "a")), min_score=3.5), encoding="utf-8")
    (folder / "nasty.html").write_text(page(read_run(nasty_run(folder / "b")), title=NASTY), encoding="utf-8")
    return folder


@pytest.mark.slow
@needs_browser
@pytest.mark.parametrize("name", ["whole", "nasty"])
def test_a_browser_finds_no_error_and_nothing_that_came_from_outside(pages, tmp_path, name):
    log = tmp_path / "net.json"
    dom = browse(pages / f"{name}.html", tmp_path / "profile", f"--log-net-log={log}", "--dump-dom")
    check_harmless(dom)
    assert asked_for(log) == []
    if name == "nasty":
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in dom


def asked_for(log):
    """What a page, not the browser itself, asked the network for."""
    events = [event.get("params", {}) for event in json.loads(log.read_text(encoding="utf-8"))["events"]]
    return sorted({event["url"] for event in events if event.get("initiator") not in (None, "not an origin")})


@pytest.mark.slow
@needs_browser
@pytest.mark.parametrize("policy", [True, False])
def test_even_an_element_that_got_in_could_do_nothing(pages, tmp_path, policy):
    """And without the page's policy it could: the log would show it."""
    html = (pages / "whole.html").read_text(encoding="utf-8")
    html = html.replace(
        "</body>", "<img src=http://outside.invalid/a.png><script>document.title = 'ran'</script></body>"
    )
    copy, log = tmp_path / "copy.html", tmp_path / "net.json"
    copy.write_text(html if policy else re.sub("<meta http-equiv=[^>]*>", "", html), encoding="utf-8")
    options = (f"--log-net-log={log}", "--dump-dom")
    dom = browse(copy, tmp_path / "profile", *options, clean=False)
    assert asked_for(log) == ([] if policy else ["http://outside.invalid/a.png"])
    assert ("<title>ran</title>" in dom) != policy


@pytest.mark.slow
@needs_browser
@pytest.mark.parametrize("width", [1280, 375])
@pytest.mark.parametrize("name", ["whole", "nasty"])
def test_nothing_is_wider_than_the_screen_but_tables_in_their_own_scroller(pages, tmp_path, name, width):
    """Measured from around it: a window is never narrower than 500 pixels, a frame is."""
    html = (pages / f"{name}.html").read_text(encoding="utf-8")
    script = """<title></title><script>
      onload = () => {
        const page = document.querySelector('iframe').contentDocument;
        const wide = [...page.querySelectorAll('body *')].filter(e => !e.closest('.scroll table, svg') &&
          e.getBoundingClientRect().right > page.documentElement.clientWidth + 1);
        document.title = JSON.stringify([page.documentElement.scrollWidth, page.querySelectorAll('h2').length,
          wide.map(e => e.tagName + '.' + e.className)]);
      };
    </script>"""
    around = tmp_path / "around.html"
    frame = f'<iframe style="width: {width}px; height: 900px; border: 0" srcdoc="{escape(html)}"></iframe>'
    around.write_text(script + frame, encoding="utf-8")
    dom = browse(around, tmp_path / "profile", "--window-size=1400,1000", "--dump-dom")
    scrolled, n_sections, wide = json.loads(unescape(re.search("<title>(.+?)</title>", dom)[1]))
    assert scrolled <= width
    assert n_sections >= 10
    assert wide == []


@pytest.mark.slow
@needs_browser
@pytest.mark.parametrize("width", [1280, 375])
def test_a_screenshot_shows_the_page(pages, tmp_path, width):
    shot = tmp_path / "shot.png"
    browse(pages / "whole.html", tmp_path / "profile", f"--window-size={width},3000", f"--screenshot={shot}")
    data = shot.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(data[16:20], "big") == width
    assert len(data) > 60_000  # an empty page is a tenth of that


@pytest.mark.slow
@needs_browser
def test_a_printed_page_opens_the_texts_of_the_ladder(pages, tmp_path):
    if shutil.which("pdftotext") is None:
        pytest.skip("no pdftotext here: apt-get install poppler-utils")
    pdf = tmp_path / "page.pdf"
    browse(pages / "whole.html", tmp_path / "profile", "--no-pdf-header-footer", f"--print-to-pdf={pdf}")
    text = subprocess.run(["pdftotext", "-layout", pdf, "-"], capture_output=True, text=True, check=True).stdout
    assert "Rung 5 for" in text
    assert text.count("It goes on.") >= 15
    assert "Sections" not in text
