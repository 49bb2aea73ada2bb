"""Labelled scores -> certificates: exact tests, promises over simulated calibrations, labels, the command."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from synthscore.cli.app import main
from synthscore.errors import CertificateError, InputError
from synthscore.signature import Signature
from synthscore.thresholds.calibrate import (
    by_chance,
    calibrate,
    needed,
)
from synthscore.thresholds.certificate import Certificate, Guarantee, lower_limit
from synthscore.thresholds.labels import Labelled

SIGNATURE = Signature.of(synthscore="0.1.0", model="nano@1f2e", attribute="coherence")
PRECISION, RECALL, FPR = Guarantee("precision", 0.9), Guarantee("recall", 0.9), Guarantee("fpr", 0.1)


def labelled(value, good, **more):
    return Labelled(np.array(value, dtype=float), np.array(good, dtype=bool), SIGNATURE, **more)


def texts(n, seed, noise=0.4):
    rng = np.random.default_rng(seed)
    q = rng.normal(size=n)
    return labelled(3 + q + noise * rng.normal(size=n), q > 0)


# ------------------------------------------------------------------------------------------------- exact binomials


@given(st.integers(0, 60), st.integers(0, 60), st.floats(0.01, 0.99))
@settings(max_examples=100)
def test_the_p_value_is_the_binomial_tail(hits, more, share):
    found = by_chance(np.array([hits]), np.array([hits + more]), share)
    assert found == pytest.approx([stats.binom.sf(hits - 1, hits + more, share)], rel=1e-9, abs=1e-300)


@given(st.integers(1, 60), st.integers(0, 60), st.floats(0.01, 0.5))
@settings(max_examples=50)
def test_at_the_lower_limit_the_p_value_is_alpha(hits, more, alpha):
    limit = lower_limit(hits, hits + more, alpha)
    assert stats.binom.sf(hits - 1, hits + more, limit) == pytest.approx(alpha, rel=1e-6)


@pytest.mark.parametrize(
    ("guarantee", "confidence", "n"),
    [
        (PRECISION, 0.9, 22),
        (Guarantee("precision", 0.5), 0.75, 2),
        (FPR, 0.95, 29),
        (Guarantee("recall", 0.99), 0.9, 230),
    ],
)
def test_the_labels_needed_are_the_fewest_that_could_pass(guarantee, confidence, n):
    least = 1 - guarantee.bound if guarantee.kind == "fpr" else guarantee.bound
    assert needed(guarantee, confidence) == n
    assert least**n <= (1 - confidence) * (1 + 1e-9) < least ** (n - 1)


# ------------------------------------------------------------------------------------------------- calibrate


def test_precision_is_certified_down_to_the_last_threshold_that_passes():
    # From the top: 30 good, then every second one is bad. 30 of 30 passes; and so on until .9^n-like evidence is gone.
    value = np.arange(60, 0, -1) / 10
    good = np.array([True] * 30 + [False, True] * 15)
    found = calibrate(labelled(value, good), [PRECISION], 0.9)
    hits, n = np.cumsum(good), np.arange(1, 61)
    passes = stats.binom.sf(hits - 1, n, 0.9) <= 0.1
    last = int(np.flatnonzero(~passes[29:])[0]) + 29  # kept by the lowest threshold that passes
    [row] = found.certified
    assert (row.n, row.n_hit) == (last, hits[last - 1])
    assert (value >= row.threshold).sum() == last
    assert found.keep_from == found.drop_below == row.threshold == pytest.approx(value[last - 1])
    assert row.limit == pytest.approx(stats.binomtest(row.n_hit, row.n).proportion_ci(0.8, method="exact").low)


def test_recall_is_certified_up_to_the_last_threshold_that_passes():
    data = texts(300, 1)
    [row] = calibrate(data, [RECALL], 0.9, step=1e-6).certified
    good = np.sort(data.value[data.good])
    n_missed = max(k for k in range(len(good)) if stats.binom.sf(len(good) - k - 1, len(good), 0.9) <= 0.1)
    assert row.n - row.n_hit == n_missed
    assert good[n_missed - 1] < row.threshold <= good[n_missed]
    assert row.n_hit == (good >= row.threshold).sum()


def test_a_false_positive_rate_is_certified_down_to_the_last_threshold_that_passes():
    data = texts(300, 2)
    [row] = calibrate(data, [FPR], 0.9, step=1e-6).certified
    bad = np.sort(data.value[~data.good])[::-1]
    n_kept = max(k for k in range(len(bad)) if stats.binom.cdf(k, len(bad), 0.1) <= 0.1)
    assert row.n_hit == n_kept == (bad >= row.threshold).sum()
    assert row.limit <= 0.1
    assert row.limit == pytest.approx(stats.binomtest(n_kept, len(bad)).proportion_ci(0.8, method="exact").high)


def share(data, kind, threshold):
    """What a guarantee of this kind is about."""
    kept = data.value >= threshold
    return data.good[kept].mean() if kind == "precision" else kept[data.good if kind == "recall" else ~data.good].mean()


@pytest.mark.parametrize("guarantee", [Guarantee("precision", 0.8), RECALL, FPR])
def test_a_promise_is_broken_in_no_more_calibrations_than_it_says(guarantee):
    truth = texts(400_000, 0)
    n_draws = 200
    thresholds = [calibrate(texts(200, seed), [guarantee], 0.8).keep_from for seed in range(1, n_draws + 1)]
    shares = np.array([share(truth, guarantee.kind, threshold) for threshold in thresholds])
    n_broken = (shares > guarantee.bound).sum() if guarantee.kind == "fpr" else (shares < guarantee.bound).sum()
    assert n_broken <= 0.2 * n_draws + 3 * math.sqrt(0.2 * 0.8 * n_draws)
    assert n_broken > 0  # it is not kept by keeping nothing


def test_two_guarantees_share_the_error_and_leave_some_unsure():
    data = texts(400, 3)
    both = calibrate(data, [PRECISION, RECALL], 0.9)
    precision, recall = both.certified
    assert [each.level for each in both.certified] == pytest.approx([0.95, 0.95])
    assert (both.keep_from, both.drop_below) == (precision.threshold, recall.threshold)
    assert both.drop_below < both.keep_from
    assert precision == calibrate(data, [PRECISION], 0.95).certified[0]
    assert (data.value < both.drop_below).any()
    assert (data.value >= both.keep_from).any()


def test_where_one_threshold_serves_both_nothing_is_unsure():
    found = calibrate(texts(2000, 4, noise=0.05), [Guarantee("precision", 0.6), Guarantee("recall", 0.6)], 0.9)
    assert found.certified[1].threshold > found.keep_from == found.drop_below


def test_of_two_guarantees_on_what_is_kept_the_stricter_threshold_counts():
    found = calibrate(texts(600, 5), [Guarantee("precision", 0.6), Guarantee("fpr", 0.05)], 0.9)
    assert found.keep_from == max(each.threshold for each in found.certified) == found.drop_below


def test_a_threshold_too_strict_to_test_precision_is_not_certified():
    # Two bad texts score almost best: fpr allows neither, and of the few above them nothing is known of precision.
    value = np.concatenate([np.linspace(4, 5, 300), [4.98, 4.99], np.linspace(0, 1, 58)])
    data = labelled(value, [True] * 300 + [False] * 60)
    with pytest.raises(
        CertificateError, match=r"cannot certify all of .*too few labelled texts are kept to test precision"
    ):
        calibrate(data, [Guarantee("precision", 0.6), Guarantee("fpr", 0.05)], 0.7)


def test_unscored_texts_are_not_kept_and_good_ones_among_them_are_missed():
    data = texts(300, 6)
    value = data.value.copy()
    value[np.flatnonzero(data.good)[:10]] = np.nan
    value[np.flatnonzero(~data.good)[:10]] = np.nan
    holed = Labelled(value, data.good, SIGNATURE)
    found = calibrate(holed, [RECALL], 0.9)
    assert found.n_unscored == 20
    assert found.certified[0].n == data.good.sum()
    assert found.certified[0].n_hit == (value[data.good] >= found.keep_from).sum()
    assert found.keep_from < calibrate(data, [RECALL], 0.9).keep_from  # ten misses are spent already
    assert calibrate(holed, [FPR], 0.9).certified[0].n == (~data.good).sum()


def test_thresholds_are_multiples_of_the_step():
    data = texts(300, 7)
    for step in (0.01, 0.25):
        threshold = calibrate(data, [PRECISION], 0.9, step=step).keep_from
        assert threshold / step == pytest.approx(round(threshold / step), abs=1e-9)


def test_a_start_chosen_beforehand_is_where_testing_for_precision_begins():
    # A judge that likes the worst texts best: from the top nothing can be certified, from 3 on it can.
    value = np.concatenate([np.linspace(4, 5, 30), np.linspace(2, 3.9, 300), np.linspace(0, 1, 100)])
    data = labelled(value, [False] * 25 + [True] * 305 + [False] * 100)
    with pytest.raises(CertificateError, match=r"where testing begins, 5 of|where testing begins, 0 of"):
        calibrate(data, [Guarantee("precision", 0.8)], 0.9)
    assert calibrate(data, [Guarantee("precision", 0.8)], 0.9, start=3.0).keep_from < 3.0
    with pytest.raises(
        CertificateError, match=r"at a threshold of 5.5, where testing begins, 0 of 0 kept texts are good"
    ):
        calibrate(data, [Guarantee("precision", 0.8)], 0.9, start=5.5)


def test_a_guarantee_that_the_judge_cannot_give_is_refused_with_what_was_seen():
    rng = np.random.default_rng(0)
    data = labelled(rng.normal(3, 1, 400), rng.random(400) < 0.5)
    with pytest.raises(
        CertificateError, match=r"cannot certify precision>=0.9 at confidence 0.9: .* kept texts are good"
    ):
        calibrate(data, [PRECISION], 0.9)


@pytest.mark.parametrize(("guarantee", "noun"), [(PRECISION, "scored"), (RECALL, "good"), (FPR, "bad")])
def test_too_few_labels_say_how_many_are_needed(guarantee, noun):
    data = labelled([4.0] * 10 + [2.0] * 10, [True] * 10 + [False] * 10)
    with pytest.raises(CertificateError, match=rf"{noun}, expected at least 22.*Label more texts") as caught:
        calibrate(data, [guarantee], 0.9)
    assert caught.value.needed == 22
    assert caught.value.seen == (20 if noun == "scored" else 10)


@pytest.mark.parametrize("n", [21, 22])
def test_one_label_too_few_is_too_few(n):
    data = labelled([*np.linspace(3, 5, n), *np.linspace(0, 1, 40)], [True] * n + [False] * 40)
    if n == 22:
        assert calibrate(data, [RECALL], 0.9).certified[0].n == 22
    else:
        with pytest.raises(CertificateError, match="21 labelled texts are good, expected at least 22"):
            calibrate(data, [RECALL], 0.9)


def test_the_labels_needed_are_enough_where_rounding_decides():
    rare = Guarantee("precision", 0.1)
    assert needed(rare, 0.9) == 1
    assert calibrate(labelled([5.0, 1.0], [True, False]), [rare], 0.9).keep_from == 5.0


def test_where_the_best_score_is_of_a_bad_text_only_keeping_none_holds_a_strict_bound():
    data = labelled([*np.linspace(3, 4, 40), *np.linspace(4, 5, 30)], [True] * 40 + [False] * 30)
    found = calibrate(data, [FPR], 0.9)
    assert found.keep_from == 5.01
    assert found.certified[0].n_hit == 0


def test_where_all_can_be_kept_the_threshold_is_no_higher_than_the_least_score():
    data = labelled(np.linspace(2.1, 4.9, 100), [False] + [True] * 99)
    assert calibrate(data, [PRECISION], 0.9, step=0.25).keep_from == 2.0


def test_with_one_text_more_than_needed_less_can_be_certified():
    data = labelled([*np.linspace(3, 5, 22).tolist(), 1.0], [True] * 22 + [False])
    assert calibrate(data, [PRECISION], 0.9).certified[0].n == 22
    with pytest.raises(CertificateError):
        calibrate(labelled(data.value[1:], data.good[1:]), [PRECISION], 0.9)


@pytest.mark.parametrize("good", [True, False])
def test_labels_of_one_kind_calibrate_nothing(good):
    with pytest.raises(
        CertificateError, match=f"of 50 labelled texts {50 * good} are good, expected some good and some bad"
    ):
        calibrate(labelled(np.linspace(1, 5, 50), [good] * 50), [PRECISION], 0.9)


def test_nothing_is_certified_where_nothing_is_scored():
    with pytest.raises(CertificateError, match="0 labelled texts are scored"):
        calibrate(labelled([np.nan] * 60, [True] * 30 + [False] * 30), [PRECISION], 0.9)
    with pytest.raises(CertificateError):
        calibrate(labelled([np.nan] * 60, [True] * 30 + [False] * 30), [RECALL], 0.9)


@pytest.mark.parametrize("confidence", [0.0, 1.0, 90.0, math.nan])
def test_a_confidence_is_a_probability(confidence):
    with pytest.raises(InputError, match=r"expected confidence in \(0, 1\)"):
        calibrate(texts(100, 1), [PRECISION], confidence)


@pytest.mark.parametrize("guarantees", [[], [PRECISION, Guarantee("precision", 0.8)]])
def test_guarantees_are_some_and_of_different_kinds(guarantees):
    with pytest.raises(InputError, match="expected one or more, each of another kind"):
        calibrate(texts(100, 1), guarantees, 0.9)


# ------------------------------------------------------------------------------------------------- rows


def rows(n=4, **more):
    return [
        {"id": f"t{k}", "context_id": f"c{k}", "attribute": "coherence", "score": k / 2, "stderr": None,
         "status": "ok", "label": k % 2 == 0, "signature": str(SIGNATURE)} | more
        for k in range(n)
    ]  # fmt: skip


def test_of_each_context_one_text_can_be_taken_whatever_the_order_and_the_scores():
    several = [{**row, "context_id": f"c{k // 3}"} for k, row in enumerate(rows(12))]
    taken = Labelled.load(several, one_per_context=True)
    assert (len(taken), taken.n_contexts) == (4, 4)
    assert taken.left_out == ("8 texts are further ones of their context",)
    again = Labelled.load([{**row, "score": 9 - row["score"]} for row in several[::-1]], one_per_context=True)
    assert sorted(again.value) == sorted(9 - taken.value)
    with pytest.raises(InputError, match=r"no score has a label.*context_id is None, expected"):
        Labelled.load(rows(2, context_id=None), one_per_context=True)


def test_of_contexts_that_only_labels_name_one_text_can_be_taken():
    bare = [{**row, "context_id": None, "label": None} for row in rows(12)]
    labels = [{"id": f"t{k}", "context_id": f"c{k // 3}", "label": k % 2} for k in range(12)]
    taken = Labelled.load(bare, labels, one_per_context=True)
    assert (len(taken), taken.n_contexts, taken.left_out) == (4, 4, ("8 texts are further ones of their context",))


def test_rows_with_labels_are_read():
    data = Labelled.load(rows())
    assert data.value.tolist() == [0.0, 0.5, 1.0, 1.5]
    assert data.good.tolist() == [True, False, True, False]
    assert (str(data.signature), data.n_contexts, data.left_out) == (str(SIGNATURE), 4, ())


@pytest.mark.parametrize(
    ("label", "good"),
    [
        (True, True),
        (1, True),
        (1.0, True),
        ("True", True),
        ("1", True),
        (0, False),
        ("false", False),
        (np.False_, False),
    ],
)
def test_a_label_is_true_or_false_or_a_number_for_it(label, good):
    assert Labelled.load(rows(1, label=label)).good.tolist() == [good]


@pytest.mark.parametrize("label", [2, "yes", "good", 0.5, [True]])
def test_any_other_label_is_named_and_left_out(label):
    data = Labelled.load([*rows(2), *rows(1, id="odd", label=label)])
    assert len(data) == 2
    assert "1 row could not be used" in data.left_out[0]
    assert "label is" in data.left_out[0]


@pytest.mark.parametrize("line", [math.nan, math.inf, -math.inf, "4", True])
def test_the_line_between_good_and_bad_is_a_finite_number(line):
    with pytest.raises(InputError, match=rf"good_from is {line!r}, expected a finite number") as error:
        Labelled.load(rows(), good_from=line)
    assert error.value.field == "good_from"


def test_ratings_are_good_from_a_rating_on():
    given_rows = [row | {"human": rating} for row, rating in zip(rows(), [4, 3.9, 5, None], strict=True)]
    data = Labelled.load(given_rows, good_from=4)
    assert data.good.tolist() == [True, False, True]
    assert data.left_out == ("1 score has no label",)


def test_ratings_without_a_line_between_good_and_bad_are_refused():
    given_rows = [{name: value for name, value in row.items() if name != "label"} | {"human": 4} for row in rows()]
    with pytest.raises(InputError, match=r"no score has a label: 4 rows could not be used.*--good-from"):
        Labelled.load(given_rows)


def test_labels_of_a_file_of_their_own_are_joined_on_id_or_context_and_system():
    scores = [{**row, "label": None} for row in rows()] + rows(1, id="c9/s1")
    labels = [{"id": "t2", "label": 1}, {"id": "t0", "label": 0}, {"context_id": "c9", "system": "s1", "label": 1}]
    data = Labelled.load(scores, [*labels, {"id": "t99", "label": 1}])
    assert data.value.tolist() == [0.0, 1.0, 0.0]
    assert data.good.tolist() == [False, True, True]
    assert data.left_out == ("2 scores have no label", "1 label is of a text without a score; the first is 't99'")


def test_a_column_of_another_name_is_read_from_the_file_of_labels():
    data = Labelled.load(rows(), [{"id": "t1", "stars": 5}], good_from=4, fields={"human": "stars"})
    assert data.good.tolist() == [True]


def rated(*given_rows, key="human"):
    """Rows of labels: (text, rater, rating)."""
    return [{"id": text, "rater": rater, key: rating} for text, rater, rating in given_rows]


def test_of_several_raters_the_mean_rating_and_the_label_of_most_count():
    ratings = rated(("t0", "ann", 5), ("t0", "bob", 2), ("t1", "ann", 5), ("t1", "bob", 4), ("t2", "ann", 3))
    assert Labelled.load(rows(3), ratings, good_from=4).good.tolist() == [False, True, False]
    assert Labelled.load(rows(3), ratings, good_from=3.5).good.tolist() == [True, True, False]
    flags = rated(
        ("t0", "ann", 1), ("t0", "bob", 0), ("t0", "eve", 1), ("t1", "ann", None), ("t1", "bob", 0), key="label"
    )
    assert Labelled.load(rows(2), flags).good.tolist() == [True, False]


def test_a_label_that_as_many_raters_gave_as_did_not_is_left_out_and_named():
    flags = rated(("t0", "ann", 1), ("t0", "bob", 0), ("t1", "ann", 1), key="label")
    found = Labelled.load(rows(2), flags)
    assert found.good.tolist() == [True]
    assert any("text 't0' is good by 1 of its raters, and bad by as many" in line for line in found.left_out)


@pytest.mark.parametrize("second", ["ann", None])
def test_a_rater_counts_once_and_stands_beside_no_row_without_one(second):
    with pytest.raises(InputError, match=r"text 't0' has a second label, after row 1\. .* a column rater"):
        Labelled.load(rows(2), rated(("t0", "ann", 5), ("t0", second, 4)), good_from=4)


def test_unscored_rows_stay_with_their_labels():
    data = Labelled.load([*rows(2), *rows(1, id="empty", score=None, status="unscored", reason="empty")])
    assert np.isnan(data.value).tolist() == [False, False, True]
    assert data.good.tolist() == [True, False, True]


def test_an_unscored_row_may_have_the_signature_of_the_judge_alone():
    unscored = {"score": None, "status": "unscored", "reason": "empty", "signature": "model:nano@1f2e"}
    for row in (rows(1, id="empty", **unscored), rows(1, id="empty", label=None, **unscored)):
        assert Labelled.load([*rows(2), *row]).signature == SIGNATURE
    assert str(Labelled.load(rows(3, **unscored)).signature) == "model:nano@1f2e"


def test_only_rows_of_the_attribute_count():
    both = [*rows(2), *rows(2, attribute="fluency")]
    with pytest.raises(InputError, match=r"of 2 attributes, coherence, fluency, expected one.*--attribute"):
        Labelled.load(both)
    assert len(Labelled.load(both, attribute="fluency")) == 2
    labels = [{"id": "t1", "attribute": "coherence", "label": 1}, {"id": "t1", "attribute": "fluency", "label": 0}]
    assert Labelled.load(both, labels, attribute="coherence").good.tolist() == [True]


def test_a_second_row_about_a_text_is_refused():
    with pytest.raises(InputError, match="text 't0' has a second score, after row 1"):
        Labelled.load([*rows(2), *rows(1)])
    with pytest.raises(InputError, match="text 't0' has a second label, after row 1"):
        Labelled.load(rows(2), [{"id": "t0", "label": 1}, {"id": "t0", "label": 0}])


def test_scores_of_two_judges_are_refused_with_what_differs():
    other = str(SIGNATURE.with_(model="qwen@3"))
    with pytest.raises(InputError, match=r"2 signatures: model is nano@1f2e and qwen@3. Expected one"):
        Labelled.load([*rows(2), *rows(1, id="other", signature=other)])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"signature": ""}, "there is no signature"),
        ({"score": "high"}, "score is 'high', expected a number"),
        ({"score": math.inf}, "score is inf, expected a number"),
        ({"id": None, "context_id": None}, "nothing says which text it is about"),
    ],
)
def test_a_row_that_cannot_be_used_is_counted_and_named(change, said):
    data = Labelled.load([*rows(2), *rows(1, **({"id": "odd"} | change))])
    assert len(data) == 2
    assert said in data.left_out[0]


def test_no_labels_at_all_are_refused():
    with pytest.raises(
        InputError, match=r"no score has a label: 4 scores have no label. Expected rows with score and label"
    ):
        Labelled.load(rows(label=None))
    with pytest.raises(InputError, match="there are no rows"):
        Labelled.load([])


# ------------------------------------------------------------------------------------------------- the command


@pytest.fixture
def labels_file(tmp_path):
    data = texts(300, 1)
    path = tmp_path / "labels.jsonl"
    lines = [
        {"id": f"t{k}", "context_id": f"c{k}", "attribute": "coherence", "score": s, "status": "ok", "label": g,
         "signature": str(SIGNATURE)}
        for k, (s, g) in enumerate(zip(data.value.tolist(), data.good.tolist(), strict=True))
    ]  # fmt: skip
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_the_command_writes_a_certificate_that_filter_can_read(labels_file, tmp_path, capsys):
    out = tmp_path / "run" / "calibration.json"
    args = [
        "calibrate",
        str(labels_file),
        "--guarantee",
        "precision>=0.9",
        "--guarantee",
        "recall>=0.9",
        "-o",
        str(out),
    ]
    assert main(args) == 0
    found = Certificate.load(out)
    assert replace(found, statistics={}) == calibrate(texts(300, 1), [PRECISION, RECALL], 0.9)
    content = json.loads(out.read_text())
    assert set(content) == {"certificate"}
    said = capsys.readouterr().err
    assert "300 labelled texts of 300 contexts" in said
    assert f"precision>=0.9 at {found.keep_from:g}, confidence 0.95: " in said
    assert str(SIGNATURE) in said
    assert "note:" not in said


def test_the_command_prints_json_and_says_what_was_left_out(labels_file, capsys):
    with labels_file.open("a") as file:
        file.write("not json\n")
    assert main(["calibrate", str(labels_file), "--guarantee", "fpr<=0.1", "--confidence", "0.8"]) == 3
    out, err = capsys.readouterr()
    assert json.loads(out)["certificate"]["confidence"] == 0.8
    assert "1 row could not be used" in err


def test_the_command_notes_texts_of_one_context_and_takes_one_where_asked(labels_file, capsys):
    labels_file.write_text(labels_file.read_text().replace('"context_id": "c1', '"context_id": "c2'))
    args = ["calibrate", str(labels_file), "--guarantee", "fpr<=0.1"]
    assert main(args) == 0
    assert "note: 300 texts are of only" in capsys.readouterr().err
    assert main([*args, "--one-per-context", "--confidence", "0.8"]) == 0
    said = capsys.readouterr().err
    assert "texts are further ones of their context" in said
    assert "note:" not in said


def test_the_options_of_the_command_reach_the_calibration(tmp_path, capsys):
    data, folder = texts(300, 1), tmp_path
    scores = [row | {"score": s, "stderr": 0.4} for row, s in zip(rows(300), data.value.tolist(), strict=True)]
    people = [{"id": f"t{k}", "stars": 4 + g} for k, g in enumerate(data.good.tolist())]
    for name, of in (("scores", scores), ("people", people)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in of))
    args = ["calibrate", str(folder / "scores.jsonl"), "--labels", str(folder / "people.jsonl"), "--good-from", "4.5"]
    args += ["--field", "human=stars", "--guarantee", "precision>=0.9", "--start", "3.6"]
    assert main(args) == 0
    content = json.loads(capsys.readouterr().out)
    expected = calibrate(data, [PRECISION], 0.9, start=3.6)
    assert content["certificate"]["keep_from"] == expected.keep_from
    assert content["certificate"]["n_good"] == data.good.sum()


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        (["--guarantee", "precision>=0.999"], 1, "CertificateError: cannot certify precision>=0.999"),
        (["--guarantee", "precision>=0.9", "--start", "9"], 1, "at a threshold of 9, where testing begins"),
        (["--guarantee", "precision>0.9"], 1, "InputError: cannot read the guarantee"),
        (["--guarantee", "fpr<=0.1", "--confidence", "1"], 2, "expected 0 < C < 1"),
        (["--guarantee", "fpr<=0.1", "--labels", "missing.csv"], 1, "missing.csv"),
        ([], 2, "--guarantee"),
    ],
)
def test_the_command_refuses_what_it_cannot_certify(more, code, said, labels_file, capsys):
    assert main(["calibrate", str(labels_file), *more]) == code
    assert said in capsys.readouterr().err
