"""What the search found once, each by its example."""

import json

import pytest

import synthscore as ss
from synthscore.errors import CertificateError, InputError, TaskError, TemplateError
from synthscore.evaluation.ratings import Ratings
from synthscore.io.contexts import read_contexts
from synthscore.io.files import read_rows
from synthscore.io.scores import Scores
from synthscore.io.write import write_rows
from synthscore.judging.templates import Templates
from synthscore.ladders.release import MANIFEST
from synthscore.scoring.anchored import Scale, Scales
from synthscore.signature import Signature
from synthscore.thresholds.certificate import Certificate
from tests import factories
from tests.scoring.test_scale import JUDGE
from tests.thresholds.test_rules import certificate

from .changes import count_lines
from .test_rows import ROWS, written

DEEP, HUGE = "[" * 3000, 10**400


@pytest.mark.parametrize("text", [DEEP, "[" * 101 + "]" * 101, '{"a":' * 101 + "1" + "}" * 101])
def test_what_is_nested_deep_is_a_row_that_cannot_be_read(text, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"id": {text}}}\n{{"id": {"[" * 98}{"]" * 98}}}\n')
    error, row = read_rows(path)
    assert "nested" in str(error)
    assert row.number == 2
    (context,), _ = read_contexts([{"id": "a", "text": "b", "references": text}])
    assert context.references == (text,)  # a text that is no list
    with pytest.raises(InputError, match="human is"):
        Ratings.load([{"id": "a", "human": DEEP, "text": "b"}])


def test_a_byte_that_is_no_utf_8_before_a_row_costs_that_row_alone(tmp_path):
    changed = b"\x80" + written(ROWS["targets"], ".jsonl")
    (tmp_path / "a.jsonl").write_bytes(changed)
    error, *rows = read_rows(tmp_path / "a.jsonl")
    assert "byte 0x80 is not of the file's encoding" in str(error)
    assert [row.number for row in rows] == [2, 3, 4]
    assert count_lines(changed) == 4


def test_a_header_that_is_not_csv_is_named(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"\rid,text\r\na,b\r\n")
    with pytest.raises(InputError, match="its header is not CSV"):
        list(read_rows(tmp_path / "a.csv"))


def test_numbers_that_no_float_holds_are_refused(tmp_path):
    with pytest.raises(InputError, match="verdicts is"):
        Scores.load([ROWS["scores"][0] | {"verdicts": [[1, 0, HUGE, 0, 0]]}])
    with pytest.raises(InputError, match="cannot write column 'id' as Parquet"):
        write_rows([{"id": 2**63}], tmp_path / "a.parquet")
    content = json.loads(certificate().to_json())
    content["certificate"]["certified"][0]["threshold"] = HUGE
    (tmp_path / "a.json").write_text(json.dumps(content))
    with pytest.raises(CertificateError, match="cannot read the certificate"):
        Certificate.load(tmp_path / "a.json")


@pytest.mark.parametrize(
    "change",
    [{"n_rungs": 10**9}, {"n_rungs": 3.0}, {"log_tie": -HUGE}, {"spread": HUGE}, {"n_ladders": "5"}, {"rung_sd": [1]}],
)
def test_a_scale_whose_judge_cannot_be_is_refused_before_anything_is_made_of_it(change, tmp_path):
    Scales([Scale(JUDGE, {}, "t", "a", Signature.of(model="m"))]).save(tmp_path / "a.json")
    content = json.loads((tmp_path / "a.json").read_text())
    content["scales"][0]["judge"] |= change
    (tmp_path / "a.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match="cannot read the scale"):
        Scales.load(tmp_path / "a.json")


@pytest.mark.parametrize(
    "change",
    [
        {"mean": [1.0, 2.0]},
        {"mean": [1.0, None, 3.0]},
        {"cov": [[0.0] * 3] * 3},
        {"ladder": "\ud800"},
        {"sharpness": [1]},
    ],
)
def test_a_scale_whose_ladders_cannot_be_is_refused(change, tmp_path):
    ladder = {"mean": [1.0, 2.0, 3.0], "cov": [[1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]], "ladder": "", "sharpness": 0.0}
    Scales([Scale(JUDGE, {}, "t", "a", Signature.of(model="m"))]).save(tmp_path / "a.json")
    content = json.loads((tmp_path / "a.json").read_text())
    for changed in ({}, change):
        content["scales"][0]["ladders"] = {"c1": ladder | changed}
        (tmp_path / "a.json").write_text(json.dumps(content))
        if not changed:
            assert Scales.load(tmp_path / "a.json")
    with pytest.raises(InputError, match="cannot read the scale"):
        Scales.load(tmp_path / "a.json")


def test_a_manifest_with_half_a_character_is_none_and_ladders_can_be_saved_over_it(tmp_path):
    factories.references().save(tmp_path)
    (tmp_path / MANIFEST).write_text('{"licence": "\\ud800"}')
    assert factories.references().save(tmp_path, overwrite=True)


@pytest.mark.parametrize("template", [b"{% include 'compare.jinja' %}", b"{{ '%(a)s' | format }}", b"\xff"])
def test_a_template_that_cannot_be_rendered_is_refused(template, tmp_path):
    (tmp_path / "compare.jinja").write_bytes(template)
    with pytest.raises(TemplateError):
        Templates(ss.load_task("summarization"), tmp_path).require_texts("compare")


def test_a_template_that_is_not_utf_8_has_no_source(tmp_path):
    (tmp_path / "compare.jinja").write_bytes(b"\xff")
    with pytest.raises(TemplateError, match="is not UTF-8"):
        Templates(ss.load_task("summarization"), tmp_path).source("compare")


def test_a_task_whose_name_is_longer_than_a_files_is_unknown():
    with pytest.raises(TaskError, match="no task"):
        ss.load_task("x" * 400)
