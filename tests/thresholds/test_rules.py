"""Rules: scores -> kept, dropped or unsure; guarantees and certificates as text and JSON."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthscore.errors import CertificateError, InputError, SynthscoreWarning
from synthscore.scoring.anchored import Anchored
from synthscore.scoring.paper import Paper
from synthscore.signature import Signature
from synthscore.thresholds.certificate import Certificate, Certified, Guarantee
from synthscore.thresholds.rules import AtLeast, MinScore, check_threshold
from synthscore.types import Score

SIGNATURE = Signature.of(synthscore="0.1.0", model="nano@1f2e", template="compare@9f3c", references="77ab", orders=2)


def score(value, **more):
    return Score("t1", "c1", "coherence", value, **more)


UNSCORED = score(None, status="unscored", reason="the text is empty")


def certificate(keep_from=3.5, drop_below=2.5, signature=SIGNATURE):
    return Certificate(
        certified=(
            Certified(Guarantee("precision", 0.9), keep_from, 108, 103, 0.95),
            Certified(Guarantee("recall", 0.9), drop_below, 140, 133, 0.95),
        ),
        confidence=0.9,
        keep_from=keep_from,
        drop_below=drop_below,
        n_rows=300,
        n_good=140,
        n_unscored=2,
        signature=signature,
    )


# ------------------------------------------------------------------------------------------------- MinScore


def test_min_score_keeps_from_the_threshold_up():
    rule = MinScore(3.0)
    assert [rule.decide(score(value))[0] for value in (2.999, 3.0, 3.001)] == ["dropped", "kept", "kept"]
    assert rule.decide(score(2.5))[1] == "score 2.50, below 3"


@pytest.mark.parametrize(
    ("low", "high", "decision"),
    [(3.0, 4.0, "kept"), (2.9, 3.5, "unsure"), (2.0, 2.99, "dropped"), (2.0, 3.0, "unsure")],
)
def test_min_score_decides_where_nothing_that_is_missing_could_change_it(low, high, decision):
    partial = score(3.2 if low > 2.5 else 2.5, low=low, high=high, status="partial", reason="rung 2 failed")
    assert MinScore(3.0).decide(partial)[0] == decision


@pytest.mark.parametrize(
    ("low", "high", "decision", "why"),
    [
        (3.0, 4.0, "kept", "unscored, but at least 3.00: rung 2 failed"),
        (2.0, 2.99, "dropped", "unscored, but at most 2.99: rung 2 failed"),
        (2.9, 3.5, "unsure", "unscored: rung 2 failed"),
    ],
)
def test_min_score_decides_what_is_unscored_where_its_limits_do(low, high, decision, why):
    bounded = score(None, low=low, high=high, status="unscored", reason="rung 2 failed")
    assert MinScore(3.0).decide(bounded) == (decision, why)
    assert AtLeast(3.0, 0.1).decide(bounded)[0] == certificate().decide(bounded)[0] == "unsure"


def test_a_partial_score_without_limits_is_unsure():
    decision, reason = MinScore(3.0).decide(score(4.0, status="partial", reason="rung 2 failed"))
    assert decision == "unsure"
    assert reason == "score 4.00, but it could be anything, so 3 does not decide: rung 2 failed"


def test_the_interval_of_a_score_with_an_error_is_no_limit():
    assert MinScore(3.0).decide(score(3.2, stderr=0.3, low=2.7, high=3.7))[0] == "kept"
    assert MinScore(3.0).decide(score(3.2, stderr=0.9, status="partial", reason="rung 2 failed"))[0] == "kept"


@pytest.mark.parametrize("rule", [MinScore(3.0), AtLeast(3.0, 0.1), certificate()])
def test_what_is_unscored_is_unsure_by_every_rule(rule):
    assert rule.decide(UNSCORED) == ("unsure", "unscored: the text is empty")


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_threshold_is_finite(value):
    with pytest.raises(InputError, match=f"threshold is {value}, expected a finite number"):
        MinScore(value)


# ------------------------------------------------------------------------------------------------- AtLeast


def test_at_least_keeps_and_drops_where_the_probability_is_high_and_low_enough():
    rule = AtLeast(3.0, 0.1)  # Phi(1.2816) = 0.9
    values = (3.0 + 1.2817 * 0.5, 3.0 + 1.2815 * 0.5, 3.0, 3.0 - 1.2815 * 0.5, 3.0 - 1.2817 * 0.5)
    decided = [rule.decide(score(value, stderr=0.5))[0] for value in values]
    assert decided == ["kept", "unsure", "unsure", "unsure", "dropped"]


def test_at_least_says_the_probability():
    assert AtLeast(3.0, 0.1).decide(score(3.3, stderr=0.3)) == ("unsure", "P(score >= 3) = 0.841, score 3.30 +- 0.30")


@given(st.floats(0, 5), st.floats(0.01, 2), st.floats(0.001, 0.5), st.floats(0, 5))
@settings(max_examples=100)
def test_at_least_decides_as_its_probability_says(value, stderr, alpha, threshold):
    rule = AtLeast(threshold, alpha)
    prob = rule.prob(value, stderr)
    if min(abs(prob - alpha), abs(prob - 1 + alpha)) < 1e-9:
        return  # the rounding of the quantile and of the probability may differ
    expected = "kept" if prob >= 1 - alpha else "dropped" if prob <= alpha else "unsure"
    assert rule.decide(score(value, stderr=stderr))[0] == expected


def test_without_an_error_at_least_decides_as_min_score_does():
    values = (2.0, 3.0, 4.0)
    assert [AtLeast(3.0, 0.1).decide(score(value, stderr=0.0))[0] for value in values] == ["dropped", "kept", "kept"]
    assert [AtLeast(3.0, 0.1).prob(value, 0.0) for value in values] == [0.0, 1.0, 1.0]


def test_a_smaller_alpha_decides_less():
    scores = [score(value, stderr=0.5) for value in np.linspace(0, 6, 200)]
    rules = [AtLeast(3.0, alpha) for alpha in (0.5, 0.2, 0.05, 0.001)]
    unsure = [sum(rule.decide(each)[0] == "unsure" for each in scores) for rule in rules]
    assert unsure == sorted(unsure)
    assert unsure[0] == 0


def test_at_least_needs_an_error_of_each_score():
    with pytest.raises(
        InputError, match=r"cannot decide 't1' with alpha = 0.1: its score has no stderr.*--scoring anch"
    ):
        AtLeast(3.0, 0.1).decide(score(3.0))


@pytest.mark.parametrize("alpha", [0.0, -0.1, 0.51, 1.0, math.nan])
def test_alpha_is_a_probability_of_error_up_to_a_half(alpha):
    with pytest.raises(InputError, match=f"alpha is {alpha}, expected more than 0 and at most 0.5"):
        AtLeast(3.0, alpha)


# ------------------------------------------------------------------------------------------------- guarantees


@pytest.mark.parametrize(
    ("text", "kind", "bound"),
    [("precision>=0.9", "precision", 0.9), (" recall >= .95", "recall", 0.95), ("fpr<=0.05", "fpr", 0.05)],
)
def test_a_guarantee_is_read(text, kind, bound):
    assert Guarantee.parse(text) == Guarantee(kind, bound)
    assert Guarantee.parse(str(Guarantee(kind, bound))) == Guarantee(kind, bound)


@pytest.mark.parametrize(
    "text", ["precision", "precision<=0.9", "fpr>=0.1", "precision>=x", "accuracy>=0.9", "", ">=0.9"]
)
def test_a_guarantee_that_is_none_is_refused(text):
    with pytest.raises(InputError, match=r"cannot read the guarantee .*: expected precision>=P, recall>=R or fpr<=F"):
        Guarantee.parse(text)


@pytest.mark.parametrize("text", ["precision>=0", "recall>=1", "fpr<=90", "fpr<=nan"])
def test_a_guarantee_that_promises_all_or_nothing_is_refused(text):
    with pytest.raises(InputError, match=r"expected precision>=P.*more than 0 and less than 1"):
        Guarantee.parse(text)


# ------------------------------------------------------------------------------------------------- certificates


def test_a_certificate_is_unsure_between_its_thresholds():
    rule = certificate(keep_from=3.5, drop_below=2.5)
    decided = [rule.decide(score(value))[0] for value in (2.49, 2.5, 3.49, 3.5)]
    assert decided == ["dropped", "unsure", "unsure", "kept"]
    assert rule.decide(score(3.0))[1] == "score 3.00, between 2.5 and 3.5"


def test_a_certificate_comes_back_from_its_file(tmp_path):
    certificate().save(tmp_path / "a.json")
    assert Certificate.load(tmp_path / "a.json") == certificate()
    certificate().save(tmp_path / "c.json")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "c.json").read_bytes()


@pytest.mark.parametrize(
    "content",
    ["not json", "[]", "{}", '{"certificate": 3}', '{"certificate": {"format": 1}}', '{"certificate": {"format": 2}}'],
)
def test_a_file_that_holds_no_certificate_is_refused(content, tmp_path):
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(CertificateError, match=r"[Cc]alibrate anew"):
        Certificate.load(tmp_path / "a.json")
    with pytest.raises(CertificateError, match="cannot read the certificate"):
        Certificate.load(tmp_path / "missing.json")


def test_a_certificate_with_a_changed_guarantee_or_an_unknown_field_is_refused(tmp_path):
    file, whole = tmp_path / "a.json", json.loads(certificate().to_json())
    whole["certificate"]["note"] = "x"
    file.write_text(json.dumps(whole))
    with pytest.raises(CertificateError, match="unexpected"):
        Certificate.load(file)
    file.write_text(certificate().to_json().replace("precision>=0.9", "precision>=2"))
    with pytest.raises(CertificateError, match="cannot read the certificate"):
        Certificate.load(file)


@pytest.mark.parametrize(
    "change",
    [
        {"keep_from": 0.1},
        {"drop_below": 0.1},
        {"confidence": 5},
        {"confidence": 0.95},
        {"n_rows": 100},
        {"n_good": 0},
        {"n_good": 300},
        {"n_unscored": 200},
        {"n_unscored": -1},
        {"certified": []},
        {"n_hit": 9999},
        {"n_hit": 99, "observed": 99 / 108},
        {"n": 10_800, "n_hit": 10_300},
        {"limit": 0.93},
        {"observed": 0.99},
        {"observed": math.nan},
        {"level": 0.5},
        {"guarantee": "precision>=0.99"},
        {"threshold": 0.1},
    ],
)
def test_a_certificate_that_was_edited_by_hand_is_refused(change, tmp_path):
    whole = json.loads(certificate().to_json())["certificate"]
    edited = whole if change.keys() <= whole.keys() else whole["certified"][0]
    assert change.keys() <= edited.keys()
    edited |= change
    (tmp_path / "a.json").write_text(json.dumps({"certificate": whole}))
    with pytest.raises(CertificateError, match=r"cannot read the certificate .*expected"):
        Certificate.load(tmp_path / "a.json")


def test_a_certificate_keeps_no_less_than_it_does_not_drop():
    with pytest.raises(
        CertificateError,
        match=r"keeps from 2.0 and drops below 3.0 .* expected at least one guarantee, and what follows",
    ):
        certificate(keep_from=2.0, drop_below=3.0)


def test_a_certificate_holds_for_its_own_signature_alone():
    certificate().check(Signature.parse(str(SIGNATURE)))
    with pytest.raises(
        CertificateError, match=r"model was nano@1f2e, is qwen@3; scoring was absent, is anchored"
    ) as caught:
        certificate().check(SIGNATURE.with_(model="qwen@3", scoring="anchored"))
    assert caught.value.differs == {"model": ("nano@1f2e", "qwen@3"), "scoring": (None, "anchored")}


@pytest.mark.parametrize("part", [name for name, _ in SIGNATURE.parts])
def test_a_change_of_any_part_makes_a_certificate_stale(part):
    with pytest.raises(CertificateError, match=f"{part} was"):
        certificate().check(SIGNATURE.with_(**{part: "other"}))
    without = Signature(tuple(each for each in SIGNATURE.parts if each[0] != part))
    with pytest.raises(CertificateError, match=f"{part} was .*, is absent"):
        certificate().check(without)


# ------------------------------------------------------------------------------------------------- the scale


@pytest.mark.parametrize("threshold", [0.0, 3.5, 5.477])
def test_a_threshold_on_the_scale_is_accepted(threshold):
    check_threshold(threshold, Paper().limits(5))


@pytest.mark.parametrize("threshold", [-0.5, 0.9, 5.1, 5.6])
def test_a_threshold_beyond_the_rungs_is_warned_of_on_the_anchored_scale_which_has_no_ends(threshold):
    with pytest.warns(SynthscoreWarning, match=r"outside 1\.\.5, where anchored scores are extrapolated"):
        check_threshold(threshold, Anchored().limits(5))


def test_a_threshold_between_the_rungs_is_accepted_on_the_anchored_scale():
    check_threshold(1.0, Anchored().limits(5))
    check_threshold(5.0, Anchored().limits(5))


@pytest.mark.parametrize("threshold", [-4.1, 10.1, math.nan])
def test_a_threshold_a_ladders_length_beyond_the_rungs_is_refused_on_the_anchored_scale(threshold):
    with pytest.raises(InputError, match=r"far outside the anchored scale, whose rungs stand at 1\.\.5"):
        check_threshold(threshold, Anchored().limits(5))


@pytest.mark.parametrize("threshold", [-0.01, 5.48, 90.0, math.nan])
def test_a_threshold_outside_the_scale_is_refused(threshold):
    with pytest.raises(InputError, match=r"outside the rung scale, which for ladders of 5 rungs is 0 .* = 5.48"):
        check_threshold(threshold, Paper().limits(5))
