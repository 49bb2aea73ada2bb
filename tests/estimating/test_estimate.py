"""Many scores and few labels -> means, shares, differences: others' numbers, intervals, limits, rows, the command."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import synthscore as ss
from synthscore.cli.app import main
from synthscore.errors import InputError
from synthscore.estimating.prediction_powered import mean_labels, share_interval, t_interval
from synthscore.io.write import write_rows
from synthscore.signature import Signature
from synthscore.thresholds.clustered import ClusteredMean

SIGNATURE = str(Signature.of(synthscore="0.1.0", model="nano@1f2e", attribute="coherence"))


def means(labels, scores, contexts=None):
    """The first texts are labelled."""
    labels, scores = np.asarray(labels, dtype=float), np.asarray(scores, dtype=float)
    contexts = np.arange(len(scores)) if contexts is None else np.asarray(contexts)
    padded = np.concatenate([labels, np.full(len(scores) - len(labels), np.nan)])
    return mean_labels(padded, scores, contexts, int(contexts.max()) + 1)


# ------------------------------------------------------------------------------------------------- others' numbers


def waves(n_texts, slope, offset):
    """Ratings and scores without chance in them."""
    k = np.arange(n_texts)
    quality = np.sin(1.7 * k) + np.cos(0.6 * k)
    return np.round(3 + quality), 3 + slope * quality + np.sin(5.1 * k + offset)


WAVES = [
    (30, 200, 0.8, 0, 3.018655475919922, 0.5472479668039513),
    (30, 200, 0, 1, 2.966891098077925, 0.007274081770407375),
    (30, 200, -0.5, 0, 2.966666666666667, 0.0),
    (12, 5, 0.9, 2, 3.102424603391234, 0.16952385650469295),
]
"""Labels, other texts, slope, offset; and of ppi-python 0.2.3 ppi_mean_pointestimate, and the lambda that it tunes."""


@pytest.mark.parametrize(("n", "n_others", "slope", "offset", "value", "weight"), WAVES)
def test_value_and_lambda_are_those_of_ppi_python(n, n_others, slope, offset, value, weight):
    ratings, scores = waves(n + n_others, slope, offset)
    found = means(ratings[:n], scores)
    assert found.corrected.value == pytest.approx(value, abs=1e-12)
    assert found.weight == pytest.approx(weight, abs=1e-12)


def test_value_is_that_of_the_installed_ppi_python():
    ppi = pytest.importorskip("ppi_py")
    rng = np.random.default_rng(0)
    for _ in range(50):
        n, n_others = rng.integers(5, 60, 2)
        scores = rng.normal(size=n + n_others)
        ratings = rng.uniform(-0.5, 1.5) * scores + rng.normal(size=n + n_others)
        expected = ppi.ppi_mean_pointestimate(ratings[:n], scores[:n], scores[n:])
        assert means(ratings[:n], scores).corrected.value == pytest.approx(float(np.squeeze(expected)), abs=1e-9)


def test_scores_on_a_narrow_scale_have_the_greatest_weight():
    ratings, _ = waves(440, 0, 0)
    found = means(ratings[:40], 3 + 0.1 * (ratings - 3))
    assert (found.weight, found.corrected.value) == (1.0, pytest.approx(3.0015, abs=1e-12))


# ------------------------------------------------------------------------------------------------- intervals


def test_labels_of_a_context_each_have_students_interval():
    ratings, scores = waves(230, 0.8, 0)
    found = t_interval(means(ratings[:30], scores).labels_alone, 0.95)
    expected = stats.ttest_1samp(ratings[:30], 0).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx(tuple(expected))


def test_the_error_is_that_of_sums_over_contexts():
    rng = np.random.default_rng(1)
    contexts = rng.integers(0, 25, 200)
    scores = rng.normal(size=200)
    ratings = 0.7 * scores + rng.normal(size=200)
    found = means(ratings[:60], scores, contexts)
    own, others = contexts[:60], contexts[60:]
    n_contexts, n_others = len(set(own.tolist())), len(set(others.tolist()))
    square = 0.0
    for context in range(25):
        a = sum((ratings[:60] - ratings[:60].mean())[own == context])
        b = sum((scores[:60] - scores[:60].mean())[own == context])
        c = sum((scores[60:] - scores[60:].mean())[others == context]) / sum(others != context)
        labelled = math.sqrt((n_contexts - 1) / n_contexts) * (a - found.weight * b) / sum(own != context)
        square += (labelled + math.sqrt((n_others - 1) / n_others) * found.weight * c) ** 2
    assert 0 < found.weight < 1
    assert found.corrected.stderr == pytest.approx(math.sqrt(square))
    assert found.corrected.n_contexts == min(n_contexts, n_others)


def test_the_difference_of_systems_with_the_same_contexts_is_paired():
    rng = np.random.default_rng(2)
    hardness = rng.normal(0, 3, 40)
    one, other = 0.5 + hardness + rng.normal(size=40), hardness + rng.normal(size=40)
    difference = means(one, one).minus(means(other, other))
    found = t_interval(difference.labels_alone, 0.9)
    expected = stats.ttest_rel(one, other).confidence_interval(0.9)
    assert (found.low, found.high) == pytest.approx(tuple(expected))


def test_the_ends_of_a_share_are_as_far_from_it_as_t_allows():
    mean = ClusteredMean.estimate(np.repeat([1.0, 0.0], [4, 26]), np.arange(30), 30)
    found = share_interval(mean, 0.9, mean.value * (1 - mean.value))
    t = stats.t.ppf(0.95, 29)
    for end in (found.low, found.high):
        assert (mean.value - end) ** 2 == pytest.approx(t**2 * end * (1 - end) / 29)
    assert 0 < found.low < mean.value < found.high < 1


@pytest.mark.parametrize("r", [0.8, 0.0, -0.8])
@pytest.mark.parametrize("per_context", [1, 2])
def test_intervals_hold_the_truth_as_often_as_they_say(r, per_context):
    rng = np.random.default_rng(3)
    n_contexts, n, n_draws = 300, 40, 600
    contexts = np.repeat(np.arange(n_contexts), per_context)
    held, widths = 0, []
    for _ in range(n_draws):
        q, noise = (
            (np.repeat(rng.normal(size=n_contexts), per_context) + rng.normal(size=len(contexts))) / math.sqrt(2)
            for _ in range(2)
        )
        found = means(q[:n], r * q + math.sqrt(1 - r * r) * noise, contexts)
        corrected, alone = (t_interval(mean, 0.9) for mean in (found.corrected, found.labels_alone))
        held += corrected.low <= 0 <= corrected.high
        widths.append(corrected.width / alone.width)
    assert abs(held / n_draws - 0.9) < 0.025 + 0.015
    assert np.mean(widths) < (0.75 if r > 0 else 1.0 + 1e-9)


@pytest.mark.parametrize(("n_large", "large"), [(0, 3), (6, 60)])
def test_intervals_hold_the_truth_where_contexts_differ_in_size(n_large, large):
    rng = np.random.default_rng(6)
    n_contexts, n_draws = 60, 600
    sizes = np.full(n_contexts, 3)
    sizes[:n_large] = large
    contexts = np.repeat(np.arange(n_contexts), sizes)
    held = np.zeros(2)
    for _ in range(n_draws):
        q, noise = (rng.normal(size=n_contexts)[contexts] + rng.normal(size=len(contexts)) for _ in range(2))
        labelled = np.isin(contexts, rng.choice(n_contexts, 20, False))
        found = mean_labels(np.where(labelled, q, np.nan), 0.8 * q + 0.6 * noise, contexts, n_contexts)
        for k, mean in enumerate((found.corrected, found.labels_alone)):
            interval = t_interval(mean, 0.9)
            held[k] += interval.low <= 0 <= interval.high
    assert np.all(np.abs(held / n_draws - 0.9) < 0.04)  # by sums over n alone, .70 where some are large


def test_a_context_adds_to_the_error_what_the_mean_moves_without_it():
    values, contexts = np.array([1.0, 2, 4, 8, 5, 5]), np.array([0, 0, 0, 1, 2, 2])
    found = ClusteredMean.estimate(values, contexts, 4)
    moved = [values.mean() - values[contexts != context].mean() for context in range(3)]
    assert found.influence == pytest.approx([*(math.sqrt(2 / 3) * np.array(moved)), 0.0])
    assert found.freedom == pytest.approx(36 / (9 + 1 + 4) - 1)
    assert ClusteredMean.estimate(values, np.arange(6), 6).freedom == pytest.approx(5)


@pytest.mark.parametrize("alike", [0.1, 3.7, 4.0])
@pytest.mark.parametrize("n", [7, 30, 37])
def test_rounding_is_no_error(alike, n):
    mean = ClusteredMean.estimate(np.full(n, alike), np.arange(n) % 5, 5)
    assert (mean.stderr, t_interval(mean, 0.9).width) == (0, pytest.approx(math.nan, nan_ok=True))


@pytest.mark.parametrize("value", [-0.2, -0.01, 0.0, 0.01, 0.5, 1.0, 1.01])
@pytest.mark.parametrize("n", [5, 30, 1000])
def test_a_share_is_inside_its_interval_or_has_none(value, n):
    mean = replace(ClusteredMean.estimate(np.arange(n) % 5 < 1, np.arange(n), n), value=value)
    found = share_interval(mean, 0.9, 0.16)
    if 0 <= value <= 1:
        assert 0 <= found.low <= value <= found.high <= 1
    else:
        assert math.isnan(found.width)


@pytest.mark.parametrize("per_context", [1, 2])
def test_where_no_text_or_every_one_is_good_contexts_say_how_far_the_share_may_be(per_context):
    contexts = np.arange(30 * per_context) // per_context
    t = stats.t.ppf(0.95, 29)
    for value in (0.0, 1.0):
        found = share_interval(ClusteredMean.estimate(np.full(len(contexts), value), contexts, 30), 0.9, 0.0)
        assert abs(value - found.low) + abs(value - found.high) == pytest.approx(t**2 / (30 + t**2))
        assert 0 <= found.low <= value <= found.high <= 1
    two = ClusteredMean.estimate(np.tile([0.0, 1.0], 30), np.arange(60) // 2, 30)
    assert math.isnan(share_interval(two, 0.9, 0.25).low)  # one of each two: how contexts vary is not seen


# ------------------------------------------------------------------------------------------------- rows


def score_rows(n, system="", **more):
    rng = np.random.default_rng(len(system) + n)
    q = rng.normal(size=n) + (0.8 if system == "good" else 0)
    scores = [
        {"id": f"c{k}/{system or 'x'}", "context_id": f"c{k}", "attribute": "coherence", "score": 3 + value,
         "status": "ok", "signature": SIGNATURE} | more
        for k, value in enumerate(q + 0.5 * rng.normal(size=n))
    ]  # fmt: skip
    return scores, [{"id": row["id"], "human": float(rating)} for row, rating in zip(scores, 3 + q, strict=True)]


def test_labels_of_a_few_correct_the_scores_of_all():
    scores, ratings = score_rows(400)
    [found] = ss.estimate(scores, ratings[:50])
    assert (found.name, found.n_labels, found.n_contexts, found.n_texts) == ("all", 50, 50, 400)
    values = [row["score"] for row in scores]
    assert found.labels_alone.value == pytest.approx(np.mean([row["human"] for row in ratings[:50]]))
    assert found.scores_alone.value == pytest.approx(np.mean(values))
    moved = found.weight * (np.mean(values[50:]) - np.mean(values[:50]))
    assert found.value.value == pytest.approx(found.labels_alone.value + moved)
    assert found.value.width < 0.8 * found.labels_alone.width


def test_by_system_there_is_each_the_best_first_and_the_difference_of_each_two():
    both = [score_rows(200, system) for system in ("bad", "good")]
    scores = [row for rows, _ in both for row in rows]
    labels = [row for _, ratings in both for row in ratings[:40]]
    found = ss.estimate(scores, labels, by="system")
    assert [row.name for row in found] == ["good", "bad", "good - bad"]
    good, bad, difference = found
    assert difference.value.value == pytest.approx(good.value.value - bad.value.value)
    assert difference.value.low > 0
    assert math.isnan(difference.weight)
    alone = ss.estimate(both[1][0], both[1][1][:40])[0]
    assert alone.value == good.value
    named = [{**row, "id": f"t{k}", "system": row["id"].split("/")[1]} for k, row in enumerate(scores)]
    ids = {row["id"]: new["id"] for row, new in zip(scores, named, strict=True)}
    again = ss.estimate(named, [{**row, "id": ids[row["id"]]} for row in labels], by="system")
    assert [row.value for row in again] == [row.value for row in found]
    with pytest.raises(InputError, match="cannot estimate by system: 400 of 400 texts name none, such as 't0'"):
        ss.estimate([{**row, "system": ""} for row in named], [{"id": "t0", "human": 3}], by="system")


def test_a_share_is_that_of_good_texts_by_people_and_by_score():
    scores, ratings = score_rows(400)
    [found] = ss.estimate(scores, ratings[:60], min_score=3.5, good_from=3.2)
    assert found.labels_alone.value == np.mean([row["human"] >= 3.2 for row in ratings[:60]])
    assert found.scores_alone.value == np.mean([row["score"] >= 3.5 for row in scores])
    assert 0 < found.value.low < found.value.high < 1
    flags = [{"id": row["id"], "label": row["human"] >= 3.2} for row in ratings[:60]]
    assert ss.estimate(scores, flags, min_score=3.5)[0] == found
    with pytest.raises(InputError, match=r"no score has a label.*but label is .*--min-score"):
        ss.estimate(scores, flags)
    with pytest.raises(InputError, match=r"good_from is 3\.2, but there is no min_score"):
        ss.estimate(scores, ratings[:60], good_from=3.2)


def test_a_text_without_a_score_counts_by_its_label():
    scores, ratings = score_rows(300)
    holed = [{**row, "score": None, "status": "unscored", "reason": "empty"} if k % 10 == 0 else row
             for k, row in enumerate(scores)]  # fmt: skip
    found = ss.estimate(holed, ratings[:50])
    [row] = found
    assert (row.n_texts, row.n_labels) == (300, 50)
    assert row.labels_alone.value == pytest.approx(np.mean([each["human"] for each in ratings[:50]]))
    assert found.left_out == ("30 texts are unscored: each is taken to have the mean score",)
    filled = np.mean([each["score"] for each in holed if each["score"] is not None])
    expected = ss.estimate([{**row, "score": filled, "status": "ok"} if row["score"] is None else row for row in holed],
                           ratings[:50])[0]  # fmt: skip
    assert row.value.value == pytest.approx(expected.value.value)
    assert row.weight == pytest.approx(expected.weight)


@given(st.integers(0, 10_000), st.sampled_from([None, 3.0]))
def test_no_interval_is_wider_than_by_labels_alone_by_more_than_a_fiftieth(seed, min_score):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(6, 60))
    scores, ratings = score_rows(n)
    contexts = [f"c{k}" for k in rng.integers(0, max(n // 3, 2), n)]
    scores = [
        {**row, "id": f"t{k}", "context_id": context, "score": rng.choice([-1, 0, 1]) * row["score"] + rng.normal()}
        for k, (row, context) in enumerate(zip(scores, contexts, strict=True))
    ]
    chosen = rng.choice(n, int(rng.integers(2, n)), False)
    labels = [{"id": f"t{k}", "human": ratings[k]["human"]} for k in chosen]
    try:
        [found] = ss.estimate(scores, labels, min_score=min_score, good_from=min_score)
    except (InputError, ss.SynthscoreError, UserWarning):  # labelled texts do not look drawn at random
        return
    if not math.isnan(found.labels_alone.low):
        assert found.value.width <= 1.02 * found.labels_alone.width * (1 + 1e-12)


@pytest.mark.parametrize("unit", [1.0, 0.1])
def test_scores_that_would_widen_the_interval_get_no_weight(unit):
    # Inside contexts scores agree with labels, between them they say the opposite: over texts, they seem to help.
    contexts = np.repeat(np.arange(40), 6)
    inside = np.tile([-1.0, 1, -1, 1, -1, 1], 40)
    between = np.repeat(np.where(np.arange(40) % 2, 1.0, -1.0), 6)
    scores = [
        {"id": f"t{k}", "context_id": f"c{c}", "score": 3 + unit * (i - b), "signature": SIGNATURE}
        for k, (c, i, b) in enumerate(zip(contexts, inside, between, strict=True))
    ]
    labels = [{"id": f"t{k}", "human": 3 + 2 * inside[k] + between[k]} for k in range(132)]
    [found] = ss.estimate(scores, labels)
    assert means([row["human"] for row in labels], [row["score"] for row in scores], contexts).weight > 0.1
    assert (found.value, found.weight) == (found.labels_alone, 0.0)
    assert found.note == "labels alone: with the scores the interval would be longer"  # not that lambda is 1


@pytest.mark.parametrize(
    ("ratings", "note"),
    [
        ([4.0] * 40, "no interval: labels do not differ between contexts"),
        ([4.0], "no interval: labels are of 1 context, expected 2 or more"),
        ([4.0, 2.0, 3.0], "few labels: intervals were checked from 30 labels of 20 contexts on"),
    ],
)
def test_labels_that_say_too_little_are_noted(ratings, note):
    scores, _ = score_rows(100)
    [found] = ss.estimate(scores, [{"id": f"c{k}/x", "human": rating} for k, rating in enumerate(ratings)])
    assert found.note.startswith(note)
    assert math.isnan(found.value.low) == note.startswith("no interval")
    assert found.labels_alone.value == np.mean(ratings)


def test_labels_that_differ_inside_contexts_alone_have_no_interval():
    scores, _ = score_rows(100)
    scores = [{**row, "context_id": f"c{k // 2}"} for k, row in enumerate(scores)]
    [found] = ss.estimate(scores, [{"id": f"c{k}/x", "human": 2 + 2 * (k % 2)} for k in range(40)])
    assert (found.value.value, math.isnan(found.value.low)) == (3, True)
    assert found.note == "no interval: labels do not differ between contexts, and do not say how they vary"


def test_contexts_that_only_labels_name_are_theirs():
    scores, ratings = score_rows(300)
    scores = [{**row, "id": f"t{k}", "context_id": f"c{k // 4}"} for k, row in enumerate(scores)]
    labels = [{**ratings[k], "id": f"t{k}", "context_id": f"c{k // 4}"} for k in range(60)]
    bare = [{name: value for name, value in row.items() if name != "context_id"} for row in scores]
    found = ss.estimate(bare, labels)
    assert (found[0].n_labels, found[0].n_contexts) == (60, 15)
    assert found[0].labels_alone == ss.estimate(scores, labels)[0].labels_alone
    assert found.left_out == ("240 texts name no context: each is taken for one of its own",)
    one = [{**row, "context_id": None} if k == 0 else row for k, row in enumerate(scores)]
    assert ss.estimate(one, labels[1:]).left_out == ("1 text names no context: each is taken for one of its own",)
    assert ss.estimate(scores, [{**row, "context_id": "another"} for row in labels])[0].n_contexts == 15


def test_where_all_texts_are_labelled_scores_add_nothing():
    scores, ratings = score_rows(50)
    [found] = ss.estimate(scores, ratings)
    assert (found.weight, found.value) == (0.0, found.labels_alone)


def test_labels_of_the_best_by_score_are_refused_and_a_text_without_a_context_is_one():
    scores, ratings = score_rows(300)
    best = sorted(range(300), key=lambda k: -scores[k]["score"])[:60]
    with pytest.raises(InputError, match="the 60 labelled texts score otherwise than the 240 others"):
        ss.estimate(scores, [ratings[k] for k in best])
    more, their_ratings = score_rows(200, "good")
    seen = r"of system 'x' the 60 labelled texts score otherwise than the 240 others \(mean 4\.\d+ and 2\.\d+, p = "
    with pytest.raises(InputError, match=seen):
        ss.estimate([*more, *scores], [*their_ratings[:40], *(ratings[k] for k in best)], by="system")
    bare = [{name: value for name, value in row.items() if name != "context_id"} for row in scores]
    found = ss.estimate(bare, ratings[:60])
    assert found[0].value == ss.estimate(scores, ratings[:60])[0].value
    assert found.left_out == ("300 texts name no context: each is taken for one of its own",)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ({"confidence": 90}, "confidence is 90"),
        ({"by": "judge"}, "by is"),
        ({"min_score": math.nan, "good_from": 3}, "min_score is nan, expected a finite number"),
        ({"min_score": -math.inf, "good_from": 3}, "min_score is -inf"),
        ({"min_score": "3", "good_from": 3}, "min_score is '3'"),
        ({"min_score": 3, "good_from": math.nan}, "good_from is nan, expected a finite number"),
        ({"min_score": 3, "good_from": math.inf}, "good_from is inf"),
        ({"good_from": math.inf}, "good_from is inf"),
    ],
)
def test_options_that_cannot_be_are_refused(option, said):
    with pytest.raises(InputError, match=said) as error:
        ss.estimate(*score_rows(10), **option)
    assert error.value.field in option


# ------------------------------------------------------------------------------------------------- the command


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    both = [score_rows(200, system) for system in ("bad", "good")]
    write_rows([row for scores, _ in both for row in scores], tmp_path / "scores.jsonl")
    write_rows([row for _, ratings in both for row in ratings[:40]], tmp_path / "labels.jsonl")
    return tmp_path


def test_the_command_prints_a_table_and_writes_rows(files, capsys):
    command = ["estimate", "scores.jsonl", "--labels", "labels.jsonl", "--by", "system"]
    assert main(command) == 0
    out, err = capsys.readouterr()
    good, bad, difference = ss.estimate("scores.jsonl", "labels.jsonl", by="system")
    lines = out.splitlines()
    assert lines[0].startswith("mean        90 % interval")
    assert lines[1].startswith(f"good        {good.value.value:.2f} [{good.value.low:.2f}, {good.value.high:.2f}]")
    assert lines[3].startswith(f"good - bad  {difference.value.value:.2f} [")
    assert "how rows were drawn is not known" in err
    assert SIGNATURE in err
    assert main([*command, "--confidence", "0.95", "-o", "estimates.jsonl"]) == 0
    rows = [json.loads(line) for line in (files / "estimates.jsonl").read_text().splitlines()]
    assert [(row["system"], row["minus"]) for row in rows] == [("good", ""), ("bad", ""), ("good", "bad")]
    assert rows[0]["value"] == good.value.value
    assert rows[0]["low"] < good.value.low
    assert rows[1]["lambda"] == bad.weight
    assert rows[2]["lambda"] is None
    assert {(row["confidence"], row["drawn"], row["signature"]) for row in rows} == {(0.95, "not known", SIGNATURE)}


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        (["--good-from", "4"], 2, "--min-score"),
        (["--confidence", "1"], 2, "expected 0 < C < 1"),
        (["--by", "judge"], 2, "system"),
        (["--attribute", "fluency"], 1, "no score has a label"),
        (["--min-score", "3", "--good-from", "9"], 0, "not known"),
        (["--min-score", "nan"], 1, "min_score is nan, expected a finite number"),
        (["--min-score", "3", "--good-from", "inf"], 1, "good_from is inf, expected a finite number"),
    ],
)
def test_the_command_says_what_it_cannot_do(more, code, said, files, capsys):
    assert main(["estimate", "scores.jsonl", "--labels", "labels.jsonl", *more]) == code
    assert said in capsys.readouterr().err
