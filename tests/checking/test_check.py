"""The report on ladders, from Python."""

import math
from dataclasses import replace

import pytest

from synthscore.checking.check import check
from synthscore.errors import LadderError
from synthscore.ladders.references import References
from synthscore.resources import resource
from tests.checking.test_findings import TEXTS, judge_of, ladder, many


def test_a_folder_is_checked_by_its_texts_alone_where_there_is_no_judge(tmp_path):
    References((ladder(), ladder([*TEXTS[:4], None], context_id="c2"))).save(tmp_path / "ladders")
    report = check(tmp_path / "ladders")
    assert [row["flagged"] for row in report.to_rows()] == [False, True]
    assert "margins" not in report.to_rows()[0]
    assert (report.n_flagged, dict(report.counts(True)), report.signature) == (1, {"failed": 1}, None)
    assert [each.ladder.context_id for each in report.worst()] == ["c2"]
    with pytest.raises(LadderError, match="No judge was asked"):
        report.scales()


def test_a_summary_is_of_what_is_known():
    ladders, qualities = many((1, 2, 4, 3), 2)
    report = check(ladders, judge_of(qualities))
    (summary,) = report.summaries()
    assert (summary["ladders"], summary["flagged"], summary["rising"], summary["inverted"]) == (2, 2, 0, 2)
    assert summary["margin"] == pytest.approx(sum(report.to_rows()[0]["margins"]) / 3)
    assert summary["words"] == [6, 6, 6, 6]
    assert len(summary["gaps"]) == 3
    assert summary["gaps"][2] < 0 < summary["gaps"][0]
    (alone,) = check(ladders).summaries()
    assert math.isnan(alone["margin"])
    assert alone["gaps"] == []


def test_ladders_of_two_lengths_have_no_common_gaps():
    three, qualities = many((1, 2, 3), 1)
    four, more = many((1, 2, 3, 4), 1)
    report = check([three[0], replace(four[0], context_id="d")], judge_of(qualities | more))
    (summary,) = report.summaries()
    assert summary["gaps"] == []
    assert len(report.placed) == len(report.scales()) == 2


def test_the_length_of_a_task_of_ones_own_is_looked_at_without_a_judge_too(tmp_path):
    words = resource("prompts/summarization/task.toml").read_text().replace("[8, 120]", "[50, 120]")
    (tmp_path / "task.toml").write_text(words)
    assert check([ladder()]).n_flagged == 0
    (own,) = check([ladder()], task=str(tmp_path)).ladders
    assert [finding.kind for finding in own.flagged] == ["short"] * 5
