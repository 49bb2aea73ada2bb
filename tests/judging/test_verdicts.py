"""Questions to a judge that reads quality from the text itself: what it says must come out the right way round."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from synthscore.engine import LabelLogProbs
from synthscore.errors import InputError
from synthscore.judging.asking import PROTOCOLS, TURNED, Asking, Pair, ask, both_in_one
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


@given(hnp.arrays(np.float64, (2, 4, 3), elements=st.floats(1e-6, 1)), st.sampled_from(list(PROTOCOLS)))
def test_turning_a_pair_round_turns_the_verdict_of_both_orders_round(weights, protocol):
    by_order = weights / weights.sum(axis=-1, keepdims=True)
    turned = both_in_one(by_order[::-1][:, :, TURNED], protocol)
    np.testing.assert_allclose(turned, both_in_one(by_order, protocol)[:, TURNED], atol=1e-12)


@pytest.mark.parametrize(
    ("orders", "verdict"),
    [
        (([1, 0, 0], [1, 0, 0]), [1, 0, 0]),
        (([1, 0, 0], [0, 1, 0]), [0.5, 0.5, 0]),
        (([0.75, 0.25, 0], [0.5, 0, 0.5]), [0.625, 0.125, 0.25]),
        (([0.8, 0.2, 0], [0.5, 0.5, 0]), [2 / 3, 1 / 3, 0]),  # odds 4 and 1: 2 together
    ],
)
def test_labels_that_are_impossible_in_one_order_alone_are_averaged_in_probability(orders, verdict):
    np.testing.assert_allclose(both_in_one(np.array(orders)[:, None], "compare")[0], verdict, atol=1e-12)


def test_what_a_server_does_not_report_is_averaged_in_probability_so_that_its_bounds_hold():
    engine = CensoringEngine(position_judge(2.0), lambda prompt: {2: 0.5})
    verdicts = ask([Pair(STORY, "surprise", HIGH, LOW)], engine, TEMPLATES, Asking(both_orders=True, max_unreported=1))
    assert verdicts.unreported[0] > 0
    assert verdicts.better[0] == verdicts.by_order[:, 0, 0].mean()


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
        ({"both_orders": "yes"}, "both_orders is 'yes', expected True or False"),
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
    assert asked.unreported == pytest.approx([0.009 / 0.909])
    assert asked.label_mass == pytest.approx([0.9])
    assert ask([Pair(STORY, "surprise", HIGH, LOW)], FakeEngine(), TEMPLATES).unreported.tolist() == [0.0]


def test_much_that_was_not_told_fails_the_pair_and_names_the_labels():
    asked = told_in_part([0.6, 0.2, 0.05], {1: 0.5, 2: 0.0})
    assert np.isnan(asked.better[0])
    assert "did not report the probability of Worse (at most 0.2), Similar (at most 0.05)" in asked.failures[0]
    assert "off by 0.18, expected at most 0.02" in asked.failures[0]
    assert asked.failures[0].endswith("or raise max_unreported (--max-unreported)"), "options that exist"
    assert told_in_part([0.6, 0.2, 0.05], {1: 0.5, 2: 0.0}, max_unreported=0.2).failures == {}


def test_labels_that_can_be_no_answer_fail_for_that_reason():
    asked = told_in_part([0.001, 0.001, 0.001], {0: 0.0, 1: 0.0, 2: 0.0})
    assert "tells no label: Better, Worse, Similar have probability 0.001 at most" in asked.failures[0]


def test_slack_is_the_mean_over_the_questions_about_a_pair():
    first = TEMPLATES.compare(STORY, TEMPLATES.task.attribute("surprise"), target=HIGH, reference=LOW)
    engine = CensoringEngine(constant(0.8, 0.1, 0.01), lambda prompt: {2: 0.0} if prompt == first else {})
    asked = ask([Pair(STORY, "surprise", HIGH, LOW)], engine, TEMPLATES, Asking(both_orders=True))
    assert asked.unreported == pytest.approx([0.01 / 0.91 / 2])
