"""A judge on pairs of known order: what it says whatever is shown, what of the texts, and whether it can judge."""

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest

from synthscore.checking.judge import choose, examine
from synthscore.errors import InputError, LadderError
from synthscore.judging.asking import PROTOCOLS, Asking
from synthscore.judging.templates import load_task
from synthscore.store.engine import StoredEngine
from synthscore.store.file import Store
from tests import factories
from tests.fakes import FakeEngine

WORSE = [attribute.worse for attribute in load_task("summarization").attributes.values()]


def reading_judge(prior=0.0, signal=1.0, hard=False):
    """Log-odds of prior + signal x the difference of the two qualities, for the text asked about (shown second)."""

    def judge(prompt, labels):
        reference, target = (int(number) for number in re.findall(r"quality (\d+)", prompt.text))
        worse = any(phrase in prompt.text for phrase in WORSE)
        odds = prior + signal * (target - reference) * (-1 if worse else 1)
        if labels == ("A", "B"):
            odds = -odds
        if hard:
            return [0.0 if (odds > 0) == (index == 0) else -math.inf for index in range(len(labels))]
        lse = np.logaddexp(0, odds)
        return [odds - lse - 0.1, -lse - 0.1, -4.0][: len(labels)]

    return judge


def ladders(n_contexts=3, attributes=("coherence", "fluency", "relevance", "consistency")):
    return [
        factories.ladder(f"c{i}", attribute, text=f"{attribute} c{i} quality {{quality}}.", context=f"Article {i}.")
        for i in range(n_contexts)
        for attribute in attributes
    ]


def examined(judge, asking=Asking(), limit=12, **options):
    return examine(FakeEngine(judge), ladders(), asking, limit=limit, **options)


@pytest.mark.parametrize("protocol", ["compare", "yes_no", "choose"])
def test_prior_and_signal_are_told_apart(protocol):
    report = examined(reading_judge(prior=-1.5, signal=0.5), Asking(protocol))
    assert report.prior == pytest.approx(-1.5)
    steps = [pair.higher.level - pair.lower.level for pair in report.pairs]
    assert report.signal == pytest.approx(0.5 * np.sqrt(np.mean(np.square(steps))))
    assert report.log_odds[0] - report.log_odds[1] == pytest.approx(np.array(steps, dtype=float))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_judge_that_sees_the_order_can_judge(protocol):
    report = examined(reading_judge(signal=2.0), Asking(protocol))
    assert report.usable
    assert report.verdict.startswith("It can judge: 12 of 12 pairs in order (prior ")
    assert report.n_questions == 12 * Asking(protocol, both_orders=True).n_questions


@pytest.mark.parametrize(("prior", "says"), [(8.0, "Better"), (-8.0, "Worse")])
@pytest.mark.parametrize("hard", [False, True])
def test_a_judge_that_always_says_the_same_has_one_half_and_cannot_judge(prior, says, hard):
    report = examined(reading_judge(prior, signal=0.0, hard=hard))
    assert not report.usable
    assert report.in_order.value == report.one_order.value == 0.5
    assert report.contradicts.value == 1
    assert f"It says {says} whatever is shown" in report.verdict
    assert "cannot be used as a judge" in report.verdict
    assert ("its answers are certain" if hard else f"prior {prior:+.1f} nats, signal 0.0") in report.verdict


def test_a_large_prior_over_a_clear_signal_calls_for_both_orders():
    report = examined(reading_judge(prior=8.0, signal=1.5))
    assert report.usable
    assert report.one_order.value < 2 / 3
    assert report.verdict.startswith("It can judge in both orders, not in one: use --both-orders. 12 of 12")


def test_a_prior_that_drowns_the_signal_needs_nearly_all_pairs_in_order():
    """As SmolLM2-135M: 10 of 12 in order by luck, each by a hair."""
    report = examined(reading_judge(prior=8.0, signal=0.1))
    turned = report.margins.copy()
    turned[:2] *= -1
    assert report.usable
    assert not replace(report, margins=turned).usable
    clear = examined(reading_judge(signal=1.0))
    assert replace(clear, margins=np.where(np.arange(12) < 2, -1, 1) * clear.margins).usable


def test_a_judge_at_chance_is_not_told_to_be_usable():
    report = examined(reading_judge(signal=1.0))
    signs = np.where(np.arange(12) % 4 == 0, -1, 1)  # 9 of 12: one judge in 14 that draws lots has as many
    assert not replace(report, margins=signs * report.margins, log_odds=signs * report.log_odds).usable
    assert not examined(lambda prompt, labels: [-1.5] * len(labels)).usable


def test_what_is_not_answered_is_counted_and_its_reason_told():
    def judge(prompt, labels):
        if "fluency" in prompt.text:
            raise ValueError("too long")
        return reading_judge(signal=2.0)(prompt, labels)

    report = examined(judge)
    assert report.in_order.n == 9
    assert "3 of 12 pairs have no answer: too long" in report.verdict
    nothing = examined(lambda prompt, labels: [-20.0] * len(labels))
    assert not nothing.usable
    assert "It cannot be used as a judge. 12 of 12 pairs have no answer: the labels" in nothing.verdict
    assert math.isnan(nothing.prior)


def test_the_beginning_of_the_pairs_is_spread_over_attributes_distances_and_stays_as_more_are_asked():
    pairs = choose(ladders(), 12)
    assert sorted({pair.ladder.attribute for pair in pairs}) == ["coherence", "consistency", "fluency", "relevance"]
    assert [sum(pair.distance == distance for pair in pairs) for distance in range(3)] == [4, 4, 4]
    assert {pair.distance for pair in pairs[:4]} == {0, 1, 2}  # one pair an attribute, and not all alike
    assert choose(reversed(ladders()), 30)[:12] == pairs
    assert len(choose(ladders())) == len({pair.hash for pair in choose(ladders())}) == 12 * 10


def test_the_other_attribute_is_asked_about_where_it_is_wanted():
    def judge(prompt, labels):  # sees no difference but in the ladder's own attribute
        own = re.search(r"(\w+) c\d quality", prompt.text)[1]
        description = {"coherence": "coheren", "fluency": "fluen", "relevance": "relevan", "consistency": "consisten"}
        question = re.sub(r"\w+ c\d quality", "quality", prompt.text)
        return reading_judge(signal=2.0 * (description[own] in question.lower()))(prompt, labels)

    report = examined(judge, others=True)
    n_ladders = len({id(pair.ladder) for pair in report.pairs})
    assert report.n_questions == 2 * (12 + n_ladders), "the widest pair of each ladder again"
    assert report.tells > 0.7
    assert report.tells_other == pytest.approx(0)
    assert math.isnan(examined(judge).tells_other)


def test_the_error_is_over_ladders():
    few = examine(FakeEngine(reading_judge()), ladders(1, ("coherence", "fluency")), limit=None)
    right = np.repeat([1.0, -1.0], 10)[np.argsort([pair.ladder.attribute == "fluency" for pair in few.pairs]).argsort()]
    half = replace(few, margins=right * np.abs(few.margins))
    assert half.in_order == pytest.approx((0.5, 0.5, 20))  # two ladders, one wholly right


def test_a_report_has_its_parts_and_is_kept_as_json(tmp_path):
    report = examined(reading_judge(signal=2.0), limit=40)
    parts = report.by_attribute()
    assert sum(len(part) for part in parts.values()) == 40
    assert all(pair.ladder.attribute == key[1] for key, part in parts.items() for pair in part.pairs)
    report.save(tmp_path / "r.json")
    kept = json.loads((tmp_path / "r.json").read_text())
    assert kept["verdict"] == report.verdict
    assert kept["in_order"] == [1.0, 0.0, 40]
    assert kept["each"][0]["levels"] == [report.pairs[0].lower.level, report.pairs[0].higher.level]
    assert kept["tells_other"] is None


def test_a_run_goes_on_where_it_was_killed(tmp_path):
    engine = FakeEngine(reading_judge())
    with Store(tmp_path / "a.sqlite") as store:
        examine(StoredEngine(engine, store), ladders(), limit=12)
        examine(StoredEngine(engine, store), ladders(), limit=20)
    assert engine.n_judged == 40


def test_what_cannot_be_asked_about_is_refused():
    with pytest.raises(InputError, match="limit is 0, expected at least 1"):
        choose(ladders(), 0)
    with pytest.raises(LadderError, match="no ladders with two rungs"):
        examine(FakeEngine(), [])
    with pytest.raises(LadderError, match="c1/coherence does not carry its context"):
        choose([factories.ladder("c1", context=None)])
