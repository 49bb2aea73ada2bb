"""Questions to a judge that reads quality from the text itself: what it says must come out the right way round."""

from itertools import product
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from synthscore.engine import Capabilities, LabelLogProbs
from synthscore.errors import InputError
from synthscore.judging.asking import PROTOCOLS, Asking, Pair, ask
from synthscore.judging.labels import TURNED, OrdersMean, both_in_one, margin_limits
from synthscore.judging.templates import Templates, load_task
from synthscore.types import Context
from tests.fakes import CensoringEngine, FakeEngine

STORY = Context("s", "A cat finds a key.")
TEMPLATES = Templates(load_task("story"))
LOW, HIGH = "quality=0.2", "quality=0.9"


def qualities(prompt):
    """The two texts' qualities, in the order in which they are shown."""
    return [float(part.split()[0]) for part in prompt.text.split("quality=")[1:]]


def position_judge(favour=0.0):
    """Prefers the better text by its margin, and the text shown second by `favour` (log-odds)."""

    def judge(prompt, labels):
        first, second = qualities(prompt)
        odds = 3 * (second - first) + favour
        p = 1 / (1 + np.exp(-odds))
        if labels == ("A", "B"):
            return np.log([0.9 * (1 - p), 0.9 * p])
        if labels == ("Yes", "No"):
            asked = 1 - p if "take less" in prompt.text or "less surprising" in prompt.text else p
            return np.log([0.9 * asked, 0.9 * (1 - asked)])
        return np.log([0.9 * p * 0.8, 0.9 * (1 - p) * 0.8, 0.9 * 0.2])

    return judge


def verdict(target, reference, **options):
    engine = FakeEngine(position_judge(options.pop("favour", 0.0)))
    return ask([Pair(STORY, "surprise", target, reference)], engine, TEMPLATES, Asking(**options))


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("both_orders", [False, True])
def test_the_better_text_is_called_better_whatever_the_protocol(protocol, both_orders):
    good = verdict(HIGH, LOW, protocol=protocol, both_orders=both_orders)
    bad = verdict(LOW, HIGH, protocol=protocol, both_orders=both_orders)
    assert good.better[0] > 0.6 > 0.3 > good.worse[0]
    assert bad.better == pytest.approx(good.worse)
    assert bad.worse == pytest.approx(good.better)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_both_orders_take_a_favour_for_a_position_out(protocol):
    equal = {"target": "quality=0.5", "reference": "quality=0.5", "protocol": protocol, "favour": 1.0}
    one, both = verdict(**equal), verdict(**equal, both_orders=True)
    assert one.better[0] - one.worse[0] > 0.3
    assert both.better[0] == pytest.approx(both.worse[0])


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_each_order_said_is_said_of_the_target_and_the_verdict_lies_between(protocol):
    verdicts = verdict(HIGH, LOW, protocol=protocol, both_orders=True, favour=0.5)
    assert verdicts.by_order.shape == (2, 1, 3)
    assert (verdicts.by_order[:, 0, 0] > verdicts.by_order[:, 0, 1]).all()  # better than worse, in both
    assert abs(verdicts.by_order[0, 0, 0] - verdicts.by_order[1, 0, 0]) > 0.02  # but the favour shows
    assert verdicts.by_order[0, 0, 0] > verdicts.better[0] > verdicts.by_order[1, 0, 0]


@pytest.mark.parametrize("protocol", ["compare", "yes_no", "choose"])
@pytest.mark.parametrize("favour", [-8.0, 2.0, 12.0])
def test_in_both_orders_the_verdict_is_that_of_a_judge_without_a_favour_however_large_it_is(protocol, favour):
    fair = verdict(HIGH, LOW, protocol=protocol)
    both = verdict(HIGH, LOW, protocol=protocol, both_orders=True, favour=favour)
    odds = (np.log(each.better[0] / each.worse[0]) for each in (both, fair))
    assert next(odds) == pytest.approx(next(odds), abs=1e-6)
    assert both.better[0] + both.worse[0] + both.similar[0] == pytest.approx(1)


@given(
    hnp.arrays(np.float64, (2, 4, 3), elements=st.floats(1e-6, 1)),
    st.sampled_from(list(PROTOCOLS)),
    st.sampled_from(get_args(OrdersMean)),
)
def test_turning_a_pair_round_turns_the_verdict_of_both_orders_round(weights, protocol, mean):
    by_order = weights / weights.sum(axis=-1, keepdims=True)
    turned = both_in_one(by_order[::-1][:, :, TURNED], protocol, mean)
    np.testing.assert_allclose(turned, both_in_one(by_order, protocol, mean)[:, TURNED], atol=1e-12)


@pytest.mark.parametrize(
    ("orders", "log_odds", "probabilities"),
    [
        (([1, 0, 0], [1, 0, 0]), [1, 0, 0], [1, 0, 0]),
        (([1, 0, 0], [0, 1, 0]), [np.nan] * 3, [0.5, 0.5, 0]),  # nothing is possible in both
        (([0.75, 0.25, 0], [0.5, 0, 0.5]), [1, 0, 0], [0.625, 0.125, 0.25]),
        (([0.8, 0.2, 0], [0.5, 0.5, 0]), [2 / 3, 1 / 3, 0], [0.65, 0.35, 0]),  # odds 4 and 1: 2 together
    ],
)
def test_both_orders_are_one_by_the_mean_that_is_named(orders, log_odds, probabilities):
    by_order = np.array(orders, dtype=float)[:, None]
    np.testing.assert_allclose(both_in_one(by_order, "compare", "log-odds")[0], log_odds, atol=1e-12)
    np.testing.assert_allclose(both_in_one(by_order, "compare", "probabilities")[0], probabilities, atol=1e-12)


def says_the_first(prompt, labels):
    """Chooses the text that is shown first, whatever it is; so certain that the other is impossible."""
    return [0.0 if label in ("A", "Worse", "No") else -np.inf for label in labels]


@pytest.mark.parametrize("protocol", ["compare", "yes_no", "choose"])
def test_orders_that_exclude_each_other_are_no_verdict_and_the_reason_says_so(protocol):
    engine = FakeEngine(says_the_first)
    asked = ask([Pair(STORY, "surprise", HIGH, LOW)], engine, TEMPLATES, Asking(protocol, both_orders=True))
    assert np.isnan([asked.better[0], asked.worse[0], asked.similar[0]]).all()
    assert (asked.margin_low[0], asked.margin_high[0]) == (-1, 1)
    assert "the two orders exclude each other: better, worse and similar have the prob" in asked.failures[0]
    assert "0, 1, 0 in one and 1, 0, 0 in the other" in asked.failures[0]
    assert not ask([Pair(STORY, "surprise", HIGH, LOW)], engine, TEMPLATES, Asking(protocol)).failures


@pytest.mark.parametrize("protocol", ["compare", "yes_no", "choose"])
def test_choices_in_both_orders_are_averaged_in_probability_and_the_signature_says_so(protocol):
    engine = FakeEngine(says_the_first, capabilities=Capabilities(answers="choices"))
    asked = ask([Pair(STORY, "surprise", HIGH, LOW)], engine, TEMPLATES, Asking(protocol, both_orders=True))
    assert (asked.better[0], asked.worse[0], asked.failures) == (0.5, 0.5, {})
    assert (asked.margin_low[0], asked.margin_high[0]) == (0, 0)
    assert dict(asked.signature.parts)["orders"] == "2,probabilities"
    one = ask([Pair(STORY, "surprise", HIGH, LOW)], engine, TEMPLATES, Asking(protocol))
    assert dict(one.signature.parts)["orders"] == "1"


def test_the_reference_is_worse_says_what_the_target_is_better_says():
    """Of yes_no_two_sided in both orders: four answers that need not agree."""
    attribute = TEMPLATES.task.attribute("surprise")
    shown = {"target": HIGH, "reference": LOW}, {"target": LOW, "reference": HIGH}
    said = {
        TEMPLATES.yes_no(STORY, attribute, **texts, worse=worse): p
        for texts, answers in zip(shown, ((0.7, 0.2), (0.1, 0.6)), strict=True)
        for worse, p in zip((False, True), answers, strict=True)
    }
    engine = CensoringEngine(lambda prompt, labels: np.log([said[prompt], 1 - said[prompt]]), lambda prompt: {1: 0.999})
    asked = ask([Pair(STORY, "surprise", HIGH, LOW)], engine, TEMPLATES, Asking("yes_no_two_sided", both_orders=True))
    np.testing.assert_allclose(asked.by_order[:, 0], [[0.7, 0.2, 0], [0.6, 0.1, 0]])
    odds = np.sqrt([0.7 / 0.3 * 0.6 / 0.4, 0.2 / 0.8 * 0.1 / 0.9])
    better, worse = odds / (1 + odds)
    assert (asked.better[0], asked.worse[0]) == pytest.approx((better, worse))
    assert asked.margin_low[0] <= better - worse <= asked.margin_high[0]
    assert asked.margin_high[0] - asked.margin_low[0] < 1e-3


@pytest.mark.parametrize(
    ("protocol", "both_orders", "n_questions"),
    [("compare", False, 1), ("compare", True, 2), ("yes_no_two_sided", False, 2), ("yes_no_two_sided", True, 4)],
)
def test_each_pair_costs_what_the_protocol_says(protocol, both_orders, n_questions):
    engine = FakeEngine(position_judge())
    pairs = [Pair(STORY, "surprise", HIGH, LOW)] * 3
    asked = ask(pairs, engine, TEMPLATES, Asking(protocol, both_orders))
    assert engine.n_judged == 3 * n_questions
    assert len(engine.calls) == 1  # one call: the engine sees everything that can be shared
    assert len(asked) == 3


def test_a_pair_that_cannot_be_asked_fails_alone_and_keeps_its_reason():
    failing = TEMPLATES.compare(STORY, TEMPLATES.task.attribute("surprise"), target=LOW, reference=HIGH)
    engine = FakeEngine(position_judge(), failures={failing.text: "the prompt has 900 tokens, at most 512 fit"})
    pairs = [Pair(STORY, "surprise", HIGH, LOW), Pair(STORY, "surprise", LOW, HIGH)]
    asked = ask(pairs, engine, TEMPLATES)
    assert asked.failures == {1: "the prompt has 900 tokens, at most 512 fit"}
    assert np.isnan(asked.better).tolist() == [False, True]
    assert asked.label_mass[0] == pytest.approx(0.9)
    # Swapping the two texts of pair 0 gives the prompt of pair 1: in both orders neither pair is whole.
    assert set(ask(pairs, engine, TEMPLATES, Asking(both_orders=True)).failures) == {0, 1}


def test_labels_that_the_judge_would_not_say_are_no_answer():
    engine = FakeEngine(lambda prompt, labels: [-20.0] * len(labels))
    asked = ask([Pair(STORY, "surprise", HIGH, LOW)], engine, TEMPLATES)
    assert "rather answer 'The'" in asked.failures[0]
    assert np.isnan(asked.better[0])
    assert not ask([Pair(STORY, "surprise", HIGH, LOW)], engine, TEMPLATES, Asking(min_mass=0)).failures


def test_the_signature_names_template_protocol_labels_and_orders():
    line = str(verdict(HIGH, LOW, protocol="choose", both_orders=True).signature)
    assert f"template:default/choose@{TEMPLATES.hash('choose')}|protocol:choose|labels:A,B|orders:2,log-odds" in line


def test_no_pairs_are_asked_nothing():
    assert len(ask([], FakeEngine(), TEMPLATES)) == 0


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"protocol": "better"}, "protocol is 'better', expected one of compare"),
        ({"both_orders": "yes"}, "both_orders is 'yes', expected True, False or None"),
        ({"min_mass": float("nan")}, "min_mass is nan, expected a number from 0 to 1"),
        ({"max_unreported": 2}, "max_unreported is 2, expected a number from 0 to 1"),
    ],
)
def test_a_way_of_asking_that_cannot_be_is_refused(options, expected):
    with pytest.raises(InputError, match=expected):
        Asking(**options)


def test_one_answer_of_two_is_no_verdict():
    def judge(prompt, labels):
        if "less surprising" in prompt.text or "take less" in prompt.text:
            raise ValueError("too long")
        return np.log([0.9, 0.1])

    asked = ask([Pair(STORY, "surprise", HIGH, LOW)], FakeEngine(judge), TEMPLATES, Asking("yes_no_two_sided"))
    assert asked.failures == {0: "too long"}
    assert np.isnan([asked.better[0], asked.worse[0], asked.similar[0]]).all()
    assert np.isnan(asked.by_order).all()


LOG_PROBS = hnp.arrays(np.float64, (4, 3), elements=st.floats(-800, -2))


@given(LOG_PROBS, st.floats(-700, 0))
def test_probabilities_over_the_labels_sum_to_one_and_do_not_depend_on_a_constant(log_probs, constant):
    answers = LabelLogProbs(("Better", "Worse", "Similar"), log_probs)
    assert (answers.probs >= 0).all()
    assert (answers.label_mass <= 1).all()
    np.testing.assert_allclose(answers.probs.sum(axis=1), 1)
    shifted = LabelLogProbs(("Better", "Worse", "Similar"), log_probs + constant)
    np.testing.assert_allclose(shifted.probs, answers.probs, rtol=1e-9, atol=1e-12)


def test_label_mass_is_the_probability_of_any_label():
    assert LabelLogProbs(("a", "b", "c"), np.log([[0.5, 0.2, 0.1]])).label_mass == pytest.approx([0.8])


def test_labels_that_are_impossible_are_no_answer_even_if_any_mass_will_do():
    engine = FakeEngine(lambda prompt, labels: [-np.inf] * len(labels))
    asked = ask([Pair(STORY, "surprise", HIGH, LOW)], engine, TEMPLATES, Asking(min_mass=0))
    assert "probability 0 together" in asked.failures[0]
    assert np.isnan(asked.better[0])


def test_a_row_without_an_answer_must_say_why():
    with pytest.raises(ValueError, match="failures name"):
        LabelLogProbs(("A", "B"), np.array([[np.nan, np.nan]]))
    with pytest.raises(ValueError, match="at most 0"):
        LabelLogProbs(("A", "B"), np.array([[0.1, -1.0]]))


# ------------------------------------------------------------------------------------------------- labels not told


def constant(*probs):
    return lambda prompt, labels: np.log(probs)


def told_in_part(probs, untold, **options):
    engine = CensoringEngine(constant(*probs), lambda prompt: untold)
    return ask([Pair(STORY, "surprise", HIGH, LOW)], engine, TEMPLATES, Asking(**options))


def test_a_little_that_was_not_told_passes_and_is_carried_along():
    asked = told_in_part([0.8, 0.1, 0.009], {2: 0.0})
    assert asked.failures == {}
    assert asked.margin_low == pytest.approx([0.7 / 0.909])
    assert asked.margin_high == pytest.approx([0.7 / 0.9])
    assert asked.better - asked.worse == pytest.approx(asked.margin_low)  # what is not told counts as its most
    assert asked.unreported == pytest.approx(np.array([[0.009 / 0.909]]))
    assert asked.label_mass == pytest.approx([0.9])


def test_of_what_was_told_whole_both_limits_are_the_verdict():
    asked = verdict(HIGH, LOW, both_orders=True, favour=1.0)
    np.testing.assert_array_equal(asked.margin_low, asked.better - asked.worse)
    np.testing.assert_array_equal(asked.margin_high, asked.better - asked.worse)
    assert asked.unreported.tolist() == [[0.0], [0.0]]


def test_much_that_was_not_told_fails_the_pair_names_the_labels_and_keeps_the_limits():
    asked = told_in_part([0.6, 0.2, 0.05], {1: 0.5, 2: 0.0})
    assert np.isnan(asked.better[0])
    assert "did not report the probability of Worse (at most 0.2), Similar (at most 0.05)" in asked.failures[0]
    low, high = 0.4 / 0.85, 0.5 / 0.7
    assert (asked.margin_low[0], asked.margin_high[0]) == pytest.approx((low, high))
    assert f"off by {(high - low) / 2:.2g}, expected at most 0.02" in asked.failures[0]
    assert asked.failures[0].endswith("or raise max_unreported (--max-unreported)"), "options that exist"
    assert told_in_part([0.6, 0.2, 0.05], {1: 0.5, 2: 0.0}, max_unreported=0.13).failures == {}


def test_of_a_judge_that_says_something_else_nothing_is_known():
    asked = told_in_part([0.003, 0.002, 0.001], {2: 0.5})
    assert "have probability 0.0055 together" in asked.failures[0]
    assert (asked.margin_low[0], asked.margin_high[0]) == (-1, 1)


def in_both_orders(untold, favour=2.0, **options):
    """untold : order -> label -> share of it that is told."""
    first = TEMPLATES.compare(STORY, TEMPLATES.task.attribute("surprise"), target=HIGH, reference=LOW)
    engine = CensoringEngine(position_judge(favour), lambda prompt: untold.get(int(prompt != first), {}))
    return ask([Pair(STORY, "surprise", HIGH, LOW)], engine, TEMPLATES, Asking(both_orders=True, **options))


def test_a_bound_of_a_millionth_changes_a_verdict_by_no_more_than_that():
    whole = verdict(HIGH, LOW, both_orders=True, favour=2.0)
    bounded = in_both_orders({0: {2: 1 - 1e-6}, 1: {0: 1 - 1e-6}})
    assert bounded.failures == {}
    assert bounded.better == pytest.approx(whole.better, abs=1e-6)
    assert bounded.signature == whole.signature
    assert bounded.margin_low[0] < whole.margin_low[0] < bounded.margin_high[0]
    assert bounded.margin_high[0] - bounded.margin_low[0] < 2e-6
    averaged = whole.by_order[:, 0].mean(axis=0)
    assert abs(averaged[0] - whole.better[0]) > 0.02, "the two means differ by much more"


def test_a_label_that_may_be_impossible_in_one_order_leaves_a_verdict_of_both_open_and_the_reason_names_the_order():
    untold = {1: {2: 0.0}}
    asked = in_both_orders(untold, max_unreported=0.05)
    assert np.isnan(asked.better[0])
    assert "the probability of Similar (at most 0.18) in the second order, by which" in asked.failures[0]
    low, high = asked.margin_low[0], asked.margin_high[0]
    assert not np.isnan(asked.by_order).any(), "each order knows well enough"
    whole = verdict(HIGH, LOW, both_orders=True, favour=2.0)
    assert low == pytest.approx(whole.margin_low[0])
    assert high == pytest.approx((whole.better / (whole.better + whole.worse) * 2 - 1)[0])  # no Similar at all
    assert in_both_orders(untold, max_unreported=(high - low) / 2 + 1e-9).failures == {}


BOXES = hnp.arrays(np.float64, (2, 3), elements=st.floats(-12, 0) | st.just(-np.inf))


@given(BOXES, hnp.arrays(np.float64, (20, 3), elements=st.floats(0, 1)))
def test_limits_of_a_margin_hold_whatever_is_between_the_ends_and_are_reached(ends, within):
    least, most = np.sort(ends, axis=0)
    if np.isneginf(most).all():
        assert np.isnan(margin_limits(least, most)).all()
        return
    low, high = margin_limits(least, most)
    weights = np.exp(least) + within * (np.exp(most) - np.exp(least))
    corners = np.exp([[(least, most)[bit][k] for k, bit in enumerate(bits)] for bits in product((0, 1), repeat=3)])
    possible = np.concatenate([weights, np.maximum(corners, np.where(np.isneginf(most), 0, 1e-12))])
    total = possible.sum(axis=1)
    margins = ((possible[:, 0] - possible[:, 1]) / np.where(total == 0, np.nan, total))[total > 0]
    assert (margins >= low - 1e-9).all()
    assert (margins <= high + 1e-9).all()
    assert margins.min() == pytest.approx(low, abs=1e-5)
    assert margins.max() == pytest.approx(high, abs=1e-5)


@pytest.mark.parametrize("answers", ["probabilities", "choices"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("both_orders", [False, True])
def test_what_a_server_would_have_said_is_within_the_limits_by_any_protocol(protocol, both_orders, answers):
    rng = np.random.default_rng(0)
    pairs = [Pair(STORY, "surprise", f"quality={k / 9}", "quality=0.5") for k in range(10)]
    asking = Asking(protocol, both_orders, max_unreported=1.0)

    def told(prompt):
        return {0: 0.5, len(PROTOCOLS[protocol]) - 1: 0.0}

    def truth(prompt, labels):
        shares = np.ones(len(labels))
        for label, share in told(prompt).items():
            shares[label] = rng.uniform(share, 1)
        return position_judge(1.5)(prompt, labels) + np.log(shares)

    can = Capabilities(answers=answers)
    engine = CensoringEngine(position_judge(1.5), told)
    engine.capabilities = can
    bounded = ask(pairs, engine, TEMPLATES, asking)
    margin = bounded.better - bounded.worse
    assert (bounded.margin_low < bounded.margin_high).all()
    assert (bounded.margin_low <= margin).all()
    assert (margin <= bounded.margin_high).all()
    found = []
    for _ in range(30):
        true = ask(pairs, FakeEngine(truth, capabilities=can), TEMPLATES, asking)
        assert true.signature == bounded.signature
        found.append(true.better - true.worse)
    assert (found >= bounded.margin_low - 1e-9).all()
    assert (found <= bounded.margin_high + 1e-9).all()
    assert (np.ptp(found, axis=0) > 0.2 * (bounded.margin_high - bounded.margin_low)).all(), "nor are they wide"


def test_labels_that_can_be_no_answer_fail_for_that_reason():
    asked = told_in_part([0.001, 0.001, 0.001], {0: 0.0, 1: 0.0, 2: 0.0})
    assert "tells no label: Better, Worse, Similar have probability 0.001 at most" in asked.failures[0]
