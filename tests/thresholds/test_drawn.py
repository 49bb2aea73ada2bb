"""How labelled texts were drawn: by what their rows say, and by their scores."""

import json
import warnings

import numpy as np
import pytest
from scipy import stats

from synthscore.errors import CertificateError, InputError, SynthscoreWarning
from synthscore.signature import Signature
from synthscore.thresholds.calibrate import calibrate
from synthscore.thresholds.certificate import Certificate, Guarantee
from synthscore.thresholds.drawn import compare_scores, require_like_scores
from synthscore.thresholds.labels import Labelled

SIGNATURE = str(Signature.of(synthscore="0.1.0", model="nano@1f2e", attribute="coherence"))


def score_rows(n, seed=0):
    values = np.random.default_rng(seed).normal(3, 1, n).tolist()
    return [{"id": f"t{k}", "context_id": f"c{k}", "score": s, "signature": SIGNATURE} for k, s in enumerate(values)]


def label_rows(places, **stamps):
    return [{"id": f"t{k}", "label": k % 2} | stamps for k in places]


# ------------------------------------------------------------------------------------------------- what rows say


@pytest.mark.parametrize(
    ("stamps", "drawn"),
    [
        ({"drawn": "random", "drawn_from": 100}, "random"),
        ({"drawn": "random", "drawn_from": "250"}, "random"),  # as a spreadsheet says it
        ({"drawn": " Random", "drawn_from": 100}, "random"),
        ({}, "not known"),
        ({"drawn": "random"}, "not known"),
        ({"drawn": "all", "drawn_from": 100}, "not known"),  # 60 of them are labelled: by whose choice?
        ({"drawn": "by hand", "drawn_from": 100}, "not known"),
    ],
)
def test_rows_say_how_texts_were_drawn(stamps, drawn):
    assert Labelled.load(score_rows(100), label_rows(range(60), **stamps)).drawn == drawn


def test_all_that_were_exported_and_labelled_were_drawn():
    assert Labelled.load(score_rows(60), label_rows(range(60), drawn="all", drawn_from=60)).drawn == "all"
    mixed = label_rows(range(30), drawn="random", drawn_from=60) + label_rows(range(30, 60))
    assert Labelled.load(score_rows(60), mixed).drawn == "not known"


def test_texts_drawn_from_a_part_of_those_that_are_scored_are_refused():
    labels = label_rows(range(60), drawn="random", drawn_from=99)
    with pytest.raises(
        InputError, match=r"text 't0' was drawn from 99 texts, but 100 have a score.*--sample N"
    ) as error:
        Labelled.load(score_rows(100), labels)
    assert (error.value.field, error.value.value) == ("drawn_from", 99)
    unscored = {"id": "t100", "score": None, "status": "unscored", "reason": "empty", "signature": SIGNATURE}
    assert Labelled.load([*score_rows(99), unscored], labels).drawn == "random"


@pytest.mark.parametrize("chosen", ["chosen", "Chosen ", " CHOSEN"])
def test_chosen_texts_are_refused_however_it_is_written(chosen):
    with pytest.raises(InputError, match="text 't3', as 1 of 60, was chosen by its score"):
        Labelled.load(score_rows(100), [row | {"drawn": chosen} if row["id"] == "t3" else row
                                        for row in label_rows(range(60))])  # fmt: skip


def test_the_certificate_keeps_how_rows_were_drawn(tmp_path):
    rows = [{**row, "label": row["score"] > 3} for row in score_rows(100)]
    for stamps, drawn in (({"drawn": "random", "drawn_from": 100}, "random"), ({}, "not known")):
        made = calibrate(Labelled.load([{**row, **stamps} for row in rows]), [Guarantee("recall", 0.8)])
        made.save(tmp_path / "c.json")
        assert Certificate.load(tmp_path / "c.json").drawn == made.drawn == drawn
    content = json.loads((tmp_path / "c.json").read_text())
    del content["certificate"]["drawn"]  # of a certificate that was made before
    (tmp_path / "c.json").write_text(json.dumps(content))
    assert Certificate.load(tmp_path / "c.json").drawn == "not known"
    content["certificate"]["drawn"] = "luck"
    (tmp_path / "c.json").write_text(json.dumps(content))
    with pytest.raises(CertificateError):
        Certificate.load(tmp_path / "c.json")


# ------------------------------------------------------------------------------------------------- what scores say


def test_the_labels_of_what_a_filter_kept_are_refused_without_any_stamp():
    rows = score_rows(600)
    kept = [k for k, row in enumerate(rows) if row["score"] >= 3.5]
    with pytest.raises(InputError, match=r"labelled texts score otherwise than the \d+ others .*mean 4.*--sample N"):
        Labelled.load(rows, label_rows(kept))
    assert len(Labelled.load([rows[k] for k in kept], label_rows(kept))) == len(kept)  # nothing is there to compare


def test_texts_that_may_have_been_chosen_are_doubted():
    values = np.arange(200.0)
    labelled = values % 4 == 0
    labelled[:40] = False
    p = compare_scores(values, labelled, np.arange(200))
    assert 1e-3 < p < 0.05
    with pytest.warns(SynthscoreWarning, match="were they drawn at random"):
        require_like_scores(values, labelled, np.arange(200))
    systems = {f"s{k}": np.repeat(np.arange(60), 200) == k for k in range(60)}
    drawn = np.concatenate([labelled, *[values % 4 == 0] * 59])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        require_like_scores(np.tile(values, 60), drawn, np.arange(12_000), systems)  # of 60, one differs so by chance
    with pytest.warns(SynthscoreWarning, match="of system 's0' the 40 labelled texts"):
        require_like_scores(values, labelled, np.arange(200), {"s0": systems["s0"][:200]})


def test_where_each_text_is_a_context_the_test_is_about_that_of_mann_and_whitney():
    rng = np.random.default_rng(4)
    for shift in (0.0, 0.1, 0.2, 0.4):
        values = np.concatenate([rng.normal(shift, 1, 200), rng.normal(0, 1, 400)])
        labelled = np.arange(600) < 200
        p = compare_scores(values, labelled, np.arange(600))
        assert p == pytest.approx(stats.mannwhitneyu(values[labelled], values[~labelled]).pvalue, rel=0.1, abs=1e-3)


def test_whole_contexts_drawn_at_random_are_not_doubted_too_often():
    rng = np.random.default_rng(5)
    contexts = np.repeat(np.arange(100), 8)
    doubted, by_texts = 0, 0
    for _ in range(400):
        values = np.repeat(rng.normal(size=100), 8) + rng.normal(size=800)
        labelled = np.isin(contexts, rng.choice(100, 15, False))
        doubted += compare_scores(values, labelled, contexts) < 0.05
        by_texts += stats.mannwhitneyu(values[labelled], values[~labelled]).pvalue < 0.05
    assert doubted / 400 < 0.05 + 3 * 0.011
    assert by_texts / 400 > 0.2  # as if texts of one context were not alike


@pytest.mark.parametrize(("n", "n_others", "p"), [(2, 2, 1 / 6), (2, 4, 1 / 15), (2, 8, 1 / 45), (60, 3000, 0.0)])
def test_where_each_side_has_one_score_and_another_it_is_by_drawing_just_these(n, n_others, p):
    values = np.repeat([5.0, 1.0], [n, n_others])
    labelled = values > 3
    assert compare_scores(values, labelled, np.arange(len(values))) == pytest.approx(p, abs=1e-50)
    assert np.isnan(compare_scores(np.ones(len(values)), labelled, np.arange(len(values))))


def test_labels_of_all_that_a_judge_of_two_scores_likes_are_refused():
    rows = [{**row, "score": float(k < 40)} for k, row in enumerate(score_rows(200))]
    with pytest.raises(InputError, match="the 40 labelled texts score otherwise than the 160 others"):
        Labelled.load(rows, label_rows(range(40)))


def test_unscored_texts_take_no_part_and_too_few_say_nothing():
    values = np.array([1.0, 2, np.nan, 3, 4, np.nan])
    labelled = np.array([True, True, True, False, False, False])
    assert compare_scores(values, labelled, np.arange(6)) == compare_scores(
        values[[0, 1, 3, 4]], labelled[[0, 1, 3, 4]], np.arange(4)
    )
    assert np.isnan(compare_scores(values, labelled, np.zeros(6, dtype=int)))
    assert np.isnan(compare_scores(values, np.ones(6, dtype=bool), np.arange(6)))
    require_like_scores(values, np.ones(6, dtype=bool), np.arange(6))
