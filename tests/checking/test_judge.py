"""A judge on pairs of known order: what it says whatever is shown, what of the texts, and whether it can judge."""

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest

from synthscore.checking.judge import examine
from synthscore.checking.pairs import rung_pairs
from synthscore.engine import Capabilities
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
            return [0.0 if index == (odds <= 0) else -math.inf for index in range(len(labels))]
        lse = np.logaddexp(0, odds)
        return [odds - lse - 0.1, -lse - 0.1, -4.0][: len(labels)]

    return judge


def ladders(n_contexts=5, attributes=("coherence", "fluency", "relevance", "consistency")):
    return [
        factories.ladder(f"c{i}", attribute, text=f"{attribute} c{i} quality {{quality}}.", context=f"Article {i}.")
        for i in range(n_contexts)
        for attribute in attributes
    ]


def examined(judge, asking=Asking(), answers="probabilities", **options):
    return examine(FakeEngine(judge, capabilities=Capabilities(answers=answers)), ladders(), asking, **options)


def decisions(report):
    return {attribute: decision for (_, attribute), decision in report.decisions.items()}


@pytest.mark.parametrize("protocol", ["compare", "yes_no", "choose"])
def test_prior_and_signal_are_told_apart(protocol):
    report = examined(reading_judge(prior=-1.5, signal=0.5), Asking(protocol))
    assert report.prior == pytest.approx(-1.5)
    steps = [each.pair.n_steps for each in report.judged]
    assert report.signal == pytest.approx(0.5 * np.sqrt(np.mean(np.square(steps))))
    assert report.log_odds[0] - report.log_odds[1] == pytest.approx(np.array(steps, dtype=float))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_judge_that_sees_the_order_can_judge_after_a_dozen_pairs_of_each_attribute(protocol):
    report = examined(reading_judge(signal=2.0), Asking(protocol))
    assert set(report.decisions.values()) == {"can"}
    assert report.verdict.startswith("It can judge coherence (100% of 12 pairs), consistency (100% of 12 pairs), flu")
    assert report.n_questions == 4 * 12 * Asking(protocol, both_orders=True).n_questions


@pytest.mark.parametrize(("prior", "says"), [(8.0, "Better"), (-8.0, "Worse")])
@pytest.mark.parametrize("hard", [False, True])
def test_a_judge_that_always_says_the_same_has_one_half_and_cannot_judge(prior, says, hard):
    answers = "choices" if hard else "probabilities"
    report = examined(reading_judge(prior, signal=0.0, hard=hard), answers=answers)
    assert set(report.decisions.values()) == {"cannot"}
    assert len(report) == 4 * 12, "it is asked no more"
    assert report.in_order.value == report.one_order.value == 0.5
    assert report.contradicts.value == 1
    assert report.verdict.startswith("It cannot judge coherence (50% of 12 pairs), ")
    assert f"It says {says} whatever is shown: in 100% of the pairs it contradicts itself (" in report.verdict
    assert ("its answers are certain" if hard else f"prior {prior:+.1f} nats, signal 0.0") in report.verdict
    assert "Take another model" in report.verdict
    assert "--both-orders" not in report.verdict


def test_a_judge_that_finds_all_texts_similar_has_ties_and_no_habit():
    report = examined(lambda prompt, labels: [-math.inf, -math.inf, 0.0])
    assert set(report.decisions.values()) == {"cannot"}
    assert np.all(report.log_odds == 0)
    assert (report.in_order.value, report.one_order.value, report.contradicts.value) == (0.5, 0.5, 0)
    assert "whatever is shown" not in report.verdict


def test_a_large_prior_over_a_clear_signal_calls_for_both_orders():
    report = examined(reading_judge(prior=8.0, signal=1.5))
    assert set(report.decisions.values()) == {"can"}
    assert report.one_order.value < 2 / 3
    assert "What it can judge it can in both orders: use --both-orders." in report.verdict


def wrong_once_in(n, attribute="fluency"):
    """A judge that knows the order, but takes every n-th pair of an attribute for the other way round."""
    known = reading_judge(signal=2.0)
    asked = {}

    def judge(prompt, labels):
        log_probs = known(prompt, labels)
        texts = tuple(sorted(re.findall(r"(\w+ c\d quality \d+)", prompt.text)))
        place = asked.setdefault(texts, sum(attribute in before[0] for before in asked))
        turned = attribute in texts[0] and place % n == 0
        return [log_probs[1], log_probs[0], *log_probs[2:]] if turned else log_probs

    return judge


def test_an_attribute_that_is_not_decided_is_asked_on_and_the_others_are_not():
    engine = FakeEngine(wrong_once_in(3))
    report = examine(engine, ladders())
    counts = {attribute: len(each) for (_, attribute), each in report.by_attribute().items()}
    assert counts == {"coherence": 12, "consistency": 12, "fluency": 48, "relevance": 12}
    assert engine.n_judged == 2 * sum(counts.values()) == report.n_questions, "no pair is asked about twice"
    assert decisions(report) == dict.fromkeys(counts, "can") | {"fluency": "cannot tell yet"}
    assert "Not yet to be told: fluency (67% of 48 pairs); more pairs (--pairs) or more ladders" in report.verdict


def test_each_attribute_has_its_answer():
    report = examined(wrong_once_in(2))
    assert decisions(report) == dict.fromkeys(("coherence", "consistency", "relevance"), "can") | {"fluency": "cannot"}
    assert "relevance (100% of 12 pairs). It cannot judge fluency (50% of" in report.verdict


def test_ladders_that_are_too_few_leave_it_open():
    report = examine(FakeEngine(reading_judge(signal=2.0)), ladders(3, ("coherence",)))
    assert (len(report), report.in_order.value) == (30, 1.0)
    assert decisions(report) == {"coherence": "cannot tell yet"}


def test_as_many_pairs_as_are_named_are_asked_about_at_once():
    report = examined(reading_judge(signal=2.0), looks=[20])
    assert [len(each) for each in report.by_attribute().values()] == [20] * 4
    assert len(examined(reading_judge(), looks=[1000])) == 4 * 5 * 10
    few = examined(reading_judge(signal=2.0), looks=[5])
    assert set(few.decisions.values()) == {"cannot tell yet"}


def test_what_is_not_answered_is_counted_and_its_reason_told():
    def judge(prompt, labels):
        if "fluency" in prompt.text:
            raise ValueError("too long")
        return reading_judge(signal=2.0)(prompt, labels)

    report = examined(judge)
    assert report.in_order.n == 36
    assert decisions(report)["fluency"] == "cannot"
    assert "It cannot judge fluency (no answer)." in report.verdict
    assert "12 of 48 pairs have no answer: too long" in report.verdict
    nothing = examined(lambda prompt, labels: [-20.0] * len(labels))
    assert set(nothing.decisions.values()) == {"cannot"}
    assert len(nothing) == 48, "it is asked no more"
    assert "48 of 48 pairs have no answer: the labels" in nothing.verdict
    assert math.isnan(nothing.prior)


def test_any_beginning_of_the_pairs_is_spread_over_ladders_and_distances_whatever_order_they_come_in():
    found = rung_pairs(ladders(9))
    assert [attribute for _, attribute in found] == ["coherence", "consistency", "fluency", "relevance"]
    for pairs in found.values():
        assert len({pair.ladder.context_id for pair in pairs[:9]}) == 9
        assert [sum(pair.distance == distance for pair in pairs[:12]) for distance in range(3)] == [4, 4, 4]
        assert len({pair.hash for pair in pairs}) == len(pairs) == 9 * 10
        assert all(pair.higher.level > pair.lower.level for pair in pairs)
    assert rung_pairs(reversed(ladders(9))) == found


def test_what_counts_of_words_know_of_the_same_pairs_stands_beside_the_judge():
    """The better texts are longer in coherence alone."""
    longer = [
        factories.ladder(
            f"c{i}", texts=[f"quality {level}" + " and more" * level for level in range(5)], context=f"A {i}"
        )
        for i in range(5)
    ]
    alike = [factories.ladder(f"c{i}", "fluency", text="quality {quality}.", context="An article.") for i in range(5)]
    report = examine(FakeEngine(reading_judge(signal=2.0)), [*longer, *alike])
    (_, coherence), (_, fluency) = report.by_attribute().items()
    assert coherence.by_counts == (1.0, 0.0, 12)
    assert fluency.by_counts.value == 0.5, "no count differs"
    assert "Counts of characters and words alone have as many pairs in order: coherence." in report.verdict


def test_the_other_attribute_is_asked_about_where_it_is_wanted():
    def judge(prompt, labels):  # sees no difference but in the ladder's own attribute
        own = re.search(r"(\w+) c\d quality", prompt.text)[1]
        description = {"coherence": "coheren", "fluency": "fluen", "relevance": "relevan", "consistency": "consisten"}
        question = re.sub(r"\w+ c\d quality", "quality", prompt.text)
        return reading_judge(signal=2.0 * (description[own] in question.lower()))(prompt, labels)

    report = examined(judge, others=True)
    n_ladders = len({id(each.pair.ladder) for each in report.judged})
    assert report.n_questions == 2 * (len(report) + n_ladders), "the widest pair of each ladder again"
    again = [each.pair.n_steps for each in report.judged if not math.isnan(each.other_margin)]
    assert len(again) == n_ladders
    widest = {}
    for each in report.judged:
        widest[id(each.pair.ladder)] = max(widest.get(id(each.pair.ladder), 0), each.pair.n_steps)
    assert sorted(again) == sorted(widest.values())
    assert report.tells > 0.7
    assert report.tells_other == pytest.approx(0)
    assert math.isnan(examined(judge).tells_other)


def test_a_report_has_its_parts_and_is_kept_as_json(tmp_path):
    report = examined(reading_judge(signal=2.0), looks=[10])
    parts = report.by_attribute()
    assert sum(len(part) for part in parts.values()) == 40
    assert all(each.pair.key == key for key, part in parts.items() for each in part.judged)
    report.save(tmp_path / "r.json")
    kept = json.loads((tmp_path / "r.json").read_text())
    assert kept["verdict"] == report.verdict
    assert kept["in_order"] == [1.0, 0.0, 40]
    assert [group["decision"] for group in kept["groups"]] == ["cannot tell yet"] * 4
    pair = report.judged[0].pair
    assert kept["each"][0]["levels"] == [pair.lower.level, pair.higher.level]
    assert kept["tells_other"] is None


def test_shares_are_of_all_pairs_and_of_each_distance():
    report = examined(reading_judge(signal=2.0), looks=[1000])
    assert [report.in_order_at(distance).n for distance in range(3)] == [80, 60, 60]
    turned = [replace(each, margin=-each.margin) if each.pair.distance == 0 else each for each in report.judged]
    half = replace(report, judged=tuple(turned))
    assert [half.in_order_at(distance).value for distance in range(3)] == [0, 1, 1]
    assert half.in_order.value == 120 / 200


def test_a_run_goes_on_where_it_was_killed(tmp_path):
    engine = FakeEngine(reading_judge())
    with Store(tmp_path / "a.sqlite") as store:
        examine(StoredEngine(engine, store), ladders(), looks=[3])
        examine(StoredEngine(engine, store), ladders(), looks=[5])
    assert engine.n_judged == 2 * 4 * 5


def test_what_cannot_be_asked_about_is_refused():
    with pytest.raises(InputError, match=r"looks is \(12, 0\), expected numbers of pairs, each at least 1"):
        examine(FakeEngine(), ladders(), looks=(12, 0))
    with pytest.raises(LadderError, match="no ladders with two rungs"):
        examine(FakeEngine(), [])
    with pytest.raises(LadderError, match="c1/coherence does not carry its context"):
        rung_pairs([factories.ladder("c1", context=None)])
