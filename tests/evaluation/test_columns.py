"""Columns of scores out of files."""

import json

import pytest

from synthscore.errors import InputError
from synthscore.evaluation.methods import MethodError, Tools, method
from synthscore.evaluation.ratings import RatedText, Ratings
from synthscore.io.scores import score_row
from synthscore.io.write import write_rows
from synthscore.signature import Signature
from synthscore.types import Score

CONTEXTS = ("c", "c", "c", "d", "d", "e")


def ratings(contexts=CONTEXTS, attributes=("fluency", "coherence")):
    human = dict.fromkeys(attributes, 1.0)
    texts = tuple(RatedText(f"t{i}", context, f"s{i}", "some text", human) for i, context in enumerate(contexts))
    return Ratings("made up", texts, attributes)


def saved(path, rows):
    write_rows(rows, path)
    return path


def said(path, attribute="fluency", options="", made=None):
    return method(f"file:{path}{options}")(made or ratings(), attribute, Tools())


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet", ".jsonl.gz"])
def test_a_column_is_found_by_id_or_by_context_and_system(tmp_path, suffix):
    made = ratings(("c", "c", "d"))
    by_id = saved(tmp_path / f"a{suffix}", [{"id": f"t{i}", "score": i / 2} for i in (2, 0, 1)])
    assert said(by_id, made=made).values.tolist() == [0, 0.5, 1]
    rows = [{"context_id": c, "system": f"s{i}", "score": i / 2} for i, c in enumerate("ccd")]
    assert said(saved(tmp_path / f"b{suffix}", rows), made=made).values.tolist() == [0, 0.5, 1]


def test_what_synthscore_score_writes_is_a_column_with_its_signature(tmp_path):
    signature = Signature.of(synthscore="0.1", model="nano@1", protocol="compare")
    scores = [Score(f"t{i}", CONTEXTS[i], "fluency", float(i)) for i in range(5)]
    scores.append(Score("t5", "e", "fluency", None, status="unscored", reason="too long"))
    found = said(saved(tmp_path / "scores.jsonl", [score_row(score, signature) for score in scores]))
    assert found.values[:5].tolist() == [0, 1, 2, 3, 4]
    assert found[5].reason == "too long"
    assert dict(found.signature.parts)["file.model"] == "nano@1"
    assert Signature.parse(str(found.signature)) == found.signature


def test_columns_of_other_names_are_named_in_the_spec(tmp_path):
    path = saved(tmp_path / "a.jsonl", [{"doc": f"t{i}", "score": "high", "align": i} for i in range(6)])
    found = said(path, options=":score=align,id=doc")
    assert found.values.tolist() == [0, 1, 2, 3, 4, 5]
    assert dict(found.signature.parts)["score"] == "align"
    for options in (":mark=align", ":score=", ":score=a,score=b"):
        with pytest.raises(MethodError, match="each once, out of: score, id, context_id, system, attribute"):
            said(path, options=options)


def test_rows_without_an_attribute_count_on_every_one_and_others_on_their_own(tmp_path):
    every = saved(tmp_path / "a.jsonl", [{"id": f"t{i}", "score": i} for i in range(6)])
    assert said(every, "fluency").values.tolist() == said(every, "coherence").values.tolist()
    rows = [{"id": f"t{i}", "score": i, "attribute": "fluency"} for i in range(6)]
    own = saved(tmp_path / "b.jsonl", rows)
    assert said(own, "fluency").values.tolist() == [0, 1, 2, 3, 4, 5]
    with pytest.raises(MethodError, match="holds no scores on coherence, only on fluency"):
        said(own, "coherence")


def test_what_does_not_match_is_unscored_and_counted_in_the_reason(tmp_path):
    path = tmp_path / "a.jsonl"
    rows = [{"id": "t0", "score": 1}, {"id": "t1", "score": None}, {"id": "other", "score": 3}, {"id": "t3"}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + "not json\n")
    found = said(path)
    assert [row.value for row in found] == [1, None, None, None, None, None]
    assert found[1].reason == "no score"
    assert "it has no row of scores; 1 scores of texts that nobody rated: row 3, other" in found[2].reason
    assert "2 rows that hold no score, such as: " in found[2].reason


def test_two_scores_of_one_text_are_an_error_that_names_both_rows(tmp_path):
    path = saved(tmp_path / "a.jsonl", [{"id": f"t{i}", "score": i} for i in (0, 1, 0)])
    with pytest.raises(InputError, match=r"row 3: .*'t0' .* after row 1"):
        said(path)


def test_a_file_that_is_not_there_or_about_other_texts_says_so(tmp_path):
    with pytest.raises(MethodError, match="there is no file"):
        method(f"file:{tmp_path / 'none.jsonl'}")
    path = saved(tmp_path / "a.jsonl", [{"id": "x", "score": 1}])
    with pytest.raises(InputError, match="no score is about a text of made up"):
        said(path)


def test_a_changed_file_has_another_signature(tmp_path):
    path = saved(tmp_path / "a.jsonl", [{"id": f"t{i}", "score": i} for i in range(6)])
    before = said(path).signature
    assert said(path).signature == before
    saved(path, [{"id": f"t{i}", "score": i + 1} for i in range(6)])
    assert said(path).signature != before
