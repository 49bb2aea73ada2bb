"""Which ladder a text is compared with: its context's own, another context's, or one that all texts share."""

from dataclasses import replace

import pytest

from synthscore.errors import LadderError, ReferencesError
from synthscore.integrations.mount import Mount
from synthscore.ladders.references import References
from synthscore.report.read import Run, ScoreRow
from synthscore.scoring.anchored import Anchored
from synthscore.scoring.ladder import LadderMethod
from synthscore.scoring.method import MethodError
from synthscore.scoring.methods import open_method
from synthscore.scoring.paper import Paper
from synthscore.scoring.scorer import Scorer, ladder_scales
from synthscore.store.file import Store
from tests import factories
from tests.fakes import FakeEngine

from .test_scorer import soft_judge

CONTEXTS = ("c1", "c2", "c3", "c4")


def own_ladders(*more):
    text = "rung of {context_id} q={level} ."
    return References([*(factories.ladder(name, text=text) for name in CONTEXTS), *more])


def rows(*names, q=3.5):
    return [{"context_id": name, "context": f"Article {name}.", "text": f"text q={q} ."} for name in names]


def shown(engine):
    """Of every prompt, the articles whose text it holds and the contexts whose rungs."""
    names = (*CONTEXTS, "new")
    return {
        (
            tuple(name for name in names if f"Article {name}." in prompt.text),
            tuple(name for name in names if f"rung of {name} " in prompt.text),
        )
        for prompt in engine.judged
    }


def test_every_text_is_compared_with_the_shared_rungs_and_its_own_context_is_shown():
    engine = FakeEngine(soft_judge)
    scores = Scorer(own_ladders().share("c2"), engine).score(rows("c1", "c2", "new"))
    assert shown(engine) == {(("c1",), ("c2",)), (("c2",), ("c2",)), (("new",), ("c2",))}
    assert len(set(scores.values.tolist())) == 1  # the judge looks at texts alone
    assert [score.context_id for score in scores] == ["c1", "c2", "new"]


def test_the_signature_names_the_shared_ladder_and_no_others():
    references = own_ladders().share("c2")
    scores = Scorer(references, FakeEngine(soft_judge)).score(rows("c1"))
    ladder = references.shared("summarization", "coherence")
    assert scores.signature.part("ladder") == f"shared@{ladder.hash[:12]}"
    assert scores.signature.part("references") == ""
    alone = References([replace(ladder, shared=True)])
    assert Scorer(alone, FakeEngine(soft_judge)).score(rows("c1")).signature == scores.signature


def test_a_text_whose_context_nobody_knows_is_unscored_on_a_shared_ladder():
    [known, unknown] = Scorer(own_ladders().share("c2"), FakeEngine(soft_judge)).score(
        [{"context_id": "c3", "text": "text q=2 ."}, {"context_id": "new", "text": "text q=2 ."}]
    )
    assert known.status == "ok"  # its own ladder carries the context's text
    assert unknown.status == "unscored"
    assert "'new' is not known" in unknown.reason


def test_a_ladder_to_share_must_be_there_and_be_one():
    with pytest.raises(LadderError, match=r"no ladder of context 'c9'.*the nearest are"):
        own_ladders().share("c9")
    marked = References([factories.ladder(name) for name in CONTEXTS])
    two = References(replace(ladder, shared=ladder.context_id in ("c1", "c3")) for ladder in marked)
    with pytest.raises(LadderError, match=r"2 shared ladders .* of the contexts c1, c3.*--ladder ID"):
        Scorer(two, FakeEngine(soft_judge)).score(rows("c1"))
    assert two.share("c2").shared("summarization", "coherence").context_id == "c2"


def test_only_the_questions_of_the_shared_ladder_are_scored():
    references = own_ladders(factories.ladder("c1", "fluency", n=3)).share("c2")
    scorer = Scorer(references, FakeEngine(soft_judge))
    assert scorer.criteria == {"summarization": ("coherence",)}
    assert ladder_scales(own_ladders(factories.ladder("c5", n=3)).share("c1"), scorer.criteria) == [5]


def test_a_set_keeps_which_ladder_is_shared(tmp_path):
    own_ladders().share("c2").save(tmp_path / "ladders")
    loaded = References.load(tmp_path / "ladders")
    assert loaded.shared("summarization", "coherence").context_id == "c2"
    assert [ladder.context_id for ladder in loaded if ladder.shared] == ["c2"]
    assert loaded.hash == own_ladders().hash
    assert loaded.share("c3").shared("summarization", "coherence").context_id == "c3"


def test_a_mark_that_is_no_truth_value_is_refused(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    own_ladders().save(tmp_path / "ladders")
    table = pq.read_table(tmp_path / "ladders" / "ladders.parquet")
    column = table.schema.get_field_index("shared")
    words = pa.array(["perhaps"] * table.num_rows)
    pq.write_table(table.set_column(column, "shared", words), tmp_path / "marked.parquet")
    with pytest.raises(ReferencesError, match="shared is 'perhaps', expected true or false"):
        References.load(tmp_path / "marked.parquet")


def test_foreign_ladders_are_another_contexts_the_same_for_everybody():
    references = own_ladders()
    ring = {name: references.foreign(name, "coherence", "summarization").context_id for name in CONTEXTS}
    assert sorted(ring.values()) == sorted(CONTEXTS)  # each once
    assert all(name != other for name, other in ring.items())
    method = open_method("ladder:ladders=foreign")
    for engine in (FakeEngine(soft_judge), FakeEngine(soft_judge, name="other")):
        scores = Scorer(references, engine, method=method).score(rows(*CONTEXTS))
        assert shown(engine) == {((name,), (other,)) for name, other in ring.items()}
        assert scores.signature.part("ladders") == "foreign"
    [only] = Scorer(References([factories.ladder("c1")]), FakeEngine(soft_judge), method=method).score(rows("c1"))
    assert "of another context than 'c1'" in only.reason


def test_own_ladders_are_used_where_they_are_asked_for_though_one_is_shared():
    engine = FakeEngine(soft_judge)
    Scorer(own_ladders().share("c2"), engine, method="ladder:ladders=own").score(rows("c1", "c3"))
    assert shown(engine) == {(("c1",), ("c1",)), (("c3",), ("c3",))}


def test_shared_asked_for_where_none_is_marked_is_an_error():
    with pytest.raises(MethodError, match=r"none of the ladders summarization/coherence.*is shared.*--ladder ID"):
        Scorer(own_ladders(), FakeEngine(soft_judge), method=LadderMethod(Paper(), ladders="shared")).score(rows("c1"))


def test_place_shows_the_shared_rungs_with_the_texts_context():
    engine = FakeEngine(lambda prompt, labels: [-1.6] * len(labels))
    Scorer(own_ladders().share("c2"), engine, method="place").score(rows("c1"))
    assert shown(engine) == {(("c1",), ("c2",))}


def test_anchored_compares_two_rungs_with_the_ladders_own_context_shown():
    engine = FakeEngine(soft_judge)
    scores = Scorer(own_ladders().share("c2"), engine, scoring=Anchored()).score(
        [{**row, "text": f"text q={q} ."} for q in (1.2, 2.5, 4.4) for row in rows("c1", "c3", "new")]
    )
    assert {score.status for score in scores} == {"ok"}
    two_rungs = [prompt for prompt in engine.judged if prompt.text.count("rung of c2 ") == 2]
    assert len(two_rungs) == 20  # every rung against every other: one ladder, however many contexts
    assert all("Article c2." in prompt.text for prompt in two_rungs)
    assert scores.values[0] < scores.values[3] < scores.values[6]


def test_verdicts_on_whole_texts_are_found_again_by_the_context_that_was_shown(tmp_path):
    references = own_ladders().share("c2")
    same_id = [{"context_id": "x", "context": text, "text": "text q=2 ."} for text in ("One.", "Another.")]
    with Store(tmp_path / "answers.sqlite") as store:
        engine = FakeEngine(soft_judge)
        first = Scorer(references, engine, whole_texts=store).score(same_id)
        n_asked = len(engine.judged)
        again = Scorer(references, engine, whole_texts=store).score(same_id)
        assert len(engine.judged) == n_asked == 10
        assert again.values.tolist() == first.values.tolist()
        Scorer(references, engine, whole_texts=store).score([{**same_id[0], "context": "A third."}])
        assert len(engine.judged) == n_asked + 5


def test_a_mount_and_a_report_know_the_shared_ladder(tmp_path, monkeypatch):
    own_ladders().save(tmp_path / "ladders")
    engine = FakeEngine(soft_judge)
    monkeypatch.setattr("synthscore.integrations.mount.open_judge", lambda *_: engine)
    mount = Mount(references=str(tmp_path / "ladders"), ladder="c2", store="none")
    [score] = mount.scores(rows("new"))
    assert score.status == "ok"
    assert shown(engine) == {(("new",), ("c2",))}
    assert mount.fingerprint != replace(mount, ladder="c3").fingerprint
    run = Run("run", references=References.load(tmp_path / "ladders"))
    assert run.ladder(ScoreRow(score, mount.scorer.signature)).context_id == "c2"


def test_a_scale_that_was_fitted_on_a_shared_ladder_knows_that_ladder_and_places_others():
    many = [{**row, "text": f"text q={q} ."} for q in (1.2, 2.5, 4.4) for row in rows("c1", "c3")]
    fitted = Scorer(own_ladders().share("c2"), FakeEngine(soft_judge), scoring=Anchored())
    values = fitted.score(many).values
    with_scale = Anchored(fitted.scales)
    for shared, n_asked in (("c2", 30), ("c3", 30 + 20)):  # of a ladder that it does not know, rungs against rungs too
        engine = FakeEngine(soft_judge)
        again = Scorer(own_ladders().share(shared), engine, scoring=with_scale).score(many)
        assert again.values == pytest.approx(values, abs=0.1)
        assert len(engine.judged) == n_asked
