"""Findings: what texts alone, and a judge's comparisons, show of a ladder."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synthscore.checking import findings as module
from synthscore.checking.findings import MEANING, Finding, judged_findings, last_written
from synthscore.checking.rungs import ask_rungs, place_rungs
from synthscore.judging.asking import Asking
from synthscore.judging.templates import Templates, load_task
from synthscore.ladders.references import References
from synthscore.resources import resource
from synthscore.scoring.anchored import Anchored, Scales
from synthscore.scoring.scorer import Scorer
from tests import factories
from tests.fakes import FakeEngine

TEMPLATES = Templates(load_task("summarization"))
ANY_LENGTH = replace(TEMPLATES.task, words=())
ARTICLE = (
    "The town library of Aldham will open on Sundays from May. The council voted for the plan by nine votes to four. "
    "Volunteers will staff the desk, and two librarians will be on call. Visitors had asked for longer hours."
)
TEXTS = (
    "Libraries have books and so the council had a long and loud evening with everyone.",
    "The library of a town opens sometimes, says somebody who voted four times.",
    "Aldham plans Sunday hours, and nine visitors will sit at the desk in May.",
    "From May, volunteers staff Aldham's library on Sundays; the council was divided.",
    "Aldham's library will open on Sundays from May, with volunteers, as visitors asked.",
)


def ladder(texts=TEXTS, context_id="c1", writer="prompt", model=""):
    """None is a failed rung."""
    written_by = {"writer": writer, "model": model}
    return factories.ladder(context_id, texts=texts, reason="it is empty", context=ARTICLE, provenance=written_by)


def changed(level, text, **more):
    return ladder([text if place == level else each for place, each in enumerate(TEXTS, 1)], **more)


def text_findings(ladder, judge="", task=ANY_LENGTH):
    return module.text_findings(ladder, judge, task)


def kinds(findings):
    return [(finding.kind, finding.levels, finding.flagged) for finding in findings]


# ------------------------------------------------------------------------------------------------- texts alone


def test_nothing_is_found_in_a_ladder_that_is_as_it_should_be():
    assert text_findings(ladder()) == []


def test_a_failed_rung_is_found_with_its_reason_and_is_to_be_written_again():
    (found,) = text_findings(changed(3, None))
    assert (found.kind, found.levels, found.rewrite) == ("failed", (3,), (3,))
    assert "it is empty" in str(found)


def test_nearly_the_same_words_are_found_whatever_the_case_and_shuffled_ones_are_not():
    (found,) = text_findings(changed(2, TEXTS[4].upper().replace("VISITORS", "PEOPLE")))
    assert (found.kind, found.levels) == ("near-duplicate", (2, 5))
    assert found.rewrite == (2,)
    assert found.amount == pytest.approx(12 / 13)
    shuffled = " ".join(sorted(TEXTS[4].split(), key=str.lower)).replace(".", "") + "."
    assert not [x for x in text_findings(changed(2, shuffled)) if x.kind == "near-duplicate"]


def test_small_differences_are_only_noted_where_the_writer_makes_them_on_purpose():
    near = TEXTS[4].replace("visitors", "people")
    for writer, flagged in (("degrade", False), ("person", False), ("prompt", True), ("other", True)):
        assert kinds(text_findings(changed(4, near, writer=writer))) == [("near-duplicate", (4, 5), flagged)]


def test_a_copy_of_the_context_is_found_and_the_best_rung_may_be_made_of_its_sentences():
    sentence = ARTICLE.split(". ")[0] + "."
    assert kinds(text_findings(changed(2, sentence))) == [("copied", (2,), True)]
    assert kinds(text_findings(changed(2, sentence.upper(), writer="degrade"))) == [("copied", (2,), False)]
    assert text_findings(changed(5, sentence)) == []
    assert kinds(text_findings(changed(5, ARTICLE))) == [("copied", (5,), True)]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("I'm sorry, but I can't help with that.", "refusal"),
        ("As an AI language model, I have no view of Aldham.", "refusal"),
        ("Aldham's library opens. (This summary is intentionally vague.)", "meta-text"),
        ("The library opens soon.\n\nNote: I left out the vote.", "meta-text"),
        ("A worse summary has no dates at all, and no names.", "meta-text"),
        ("An improved rewrite has the dates of the vote, too.", "meta-text"),
        ("I have rewritten it so that Aldham opens.", "meta-text"),
        ("Here is the summary:\nAldham opens its library on Sundays.", "meta-text"),
        ("...", "failed"),
        ("Aldham opens its library on", "unfinished"),
        ("Aldham opens its library on Sundays,", "unfinished"),
    ],
)
def test_what_is_no_text_for_its_context_is_found(text, kind):
    found = text_findings(changed(2, text))
    assert kinds(found) == [(kind, (2,), True)]
    assert found[0].rewrite == (2,)


@pytest.mark.parametrize(
    "text",
    [
        "Well, I've tried to call them, and they said “Sundays!”",
        "He became a better version of himself, as you asked.",
        "It is a note: open on Sundays.",
        "Will it open on Sundays (from May)?",
        "Let me know if you'd like me to book a table!",
        "The bill as written would raise taxes.",
        "We sent the files, as requested.",
        "I've requested a table for two, and I have written to the council.",
        "They released an improved version of the game.",
        "A better version is due in May.",
        "Have a great trip 😊",
        "Have a great trip! ❤️",
        "सभा कल होगी।",
        "هل ستفتح المكتبة يوم الأحد؟",
    ],
)
def test_a_genuine_text_is_let_be(text):
    assert text_findings(changed(2, text)) == []


def test_only_lengths_that_rise_or_fall_throughout_and_by_much_are_found():
    words = [
        "word",
        "by",
        "word",
        "it",
        "goes",
        "on",
        "and",
        "on",
        "until",
        "it",
        "has",
        "all",
        "that",
        "it",
        "should",
        "have",
    ]

    def lengths(*numbers):
        texts = [" ".join(words[(i * 3) % 5 : (i * 3) % 5 + n]) + f" {i}." for i, n in enumerate(numbers)]
        return [finding for finding in text_findings(ladder(texts)) if finding.kind == "length"]

    for numbers in ((2, 3, 4, 6, 9), (9, 6, 4, 3, 2)):
        (found,) = lengths(*numbers)
        assert found.rewrite == ()
        assert found.levels == ()
        assert found.flagged
        assert str(found).endswith(f"{', '.join(str(n + 1) for n in numbers)} words")
    assert lengths(2, 3, 4, 3, 9) == []
    assert lengths(2, 2, 4, 6, 9) == []
    assert lengths(5, 6, 7, 8, 9) == []


def test_a_judge_that_wrote_the_rungs_is_noted_whatever_their_revisions():
    model = "model:Qwen/Qwen3-8B@1234|dtype:bfloat16"
    assert kinds(text_findings(ladder(model=model), "qwen/qwen3-8b@99")) == [("own-judge", (), False)]
    assert text_findings(ladder(model=model), "Qwen/Qwen3-0.6B") == []
    assert text_findings(ladder(model="")) == []


def test_every_kind_says_what_to_do():
    assert all(meaning and advice for meaning, advice in MEANING.values())
    assert Finding((), "length", "x").advice == MEANING["length"][1]


@given(st.integers(2, 40), st.data())
def test_of_several_rungs_the_one_written_last_is_written_again(n_rungs, data):
    levels = data.draw(st.lists(st.integers(1, n_rungs), min_size=1, max_size=3, unique=True))
    last = last_written(n_rungs, levels)
    assert last in levels
    if n_rungs == 5:
        assert last == max(levels, key=[1, 5, 3, 2, 4].index) or set(levels) == {1, 5}


def test_the_first_curated_ladders_have_no_flag_but_for_what_is_meant():
    from synthscore.ladders.references import References

    found = [x for each in References.load(resource("data/references/curated/first24")) for x in text_findings(each)]
    flagged = sorted(each.kind for each in found if each.flagged)
    assert flagged == ["near-duplicate"] * 3 + ["unfinished"] * 2


def test_a_ladder_of_failed_rungs_is_no_trouble():
    found = text_findings(ladder([None, None, "One text."]))
    assert kinds(found) == [("failed", (1,), True), ("failed", (2,), True)]


# ------------------------------------------------------------------------------------------------- a judge's view


def judge_of(qualities, nats=1.0, bias=0.0):
    """A judge of the model in docs/anchored.md. qualities : text -> position; bias : nats for what is asked about"""

    def judge(prompt, labels):
        reference, target = (q for _, q in sorted((prompt.text.index(t), q) for t, q in qualities.items()
                                                  if t in prompt.text))  # fmt: skip
        d = nats * (target - reference) + bias
        weights = np.array([math.exp(d / 2), math.exp(-d / 2), 0.5])
        return np.log(weights / weights.sum() * 0.9)

    return FakeEngine(judge)


def many(positions, n=6):
    """Ladders with rungs at these positions, and their judge's qualities."""
    qualities, ladders = {}, []
    for k in range(n):
        texts = [f"Context {k} has text number {level}." for level in range(1, len(positions) + 1)]
        qualities |= dict(zip(texts, positions, strict=True))
        ladders.append(ladder(texts, context_id=f"c{k}"))
    return ladders, qualities


def test_all_pairs_are_asked_about_in_both_orders():
    ladders, qualities = many((1, 2, 3, 4), 2)
    engine = judge_of(qualities)
    assert [len(check.pairs) for check in ask_rungs(ladders, engine, TEMPLATES).checks()] == [6, 6]
    assert engine.n_judged == 24


def test_an_inversion_between_any_two_rungs_is_found_and_the_later_written_one_to_be_written_again():
    ladders, qualities = many((1, 2, 3.5, 3, 5), 1)
    (check,) = ask_rungs(ladders, judge_of(qualities), TEMPLATES).checks()
    (found,) = judged_findings(ladders[0], check)
    assert (found.kind, found.levels, found.rewrite) == ("inverted", (3, 4), (4,))
    assert found.amount == pytest.approx(-check.pairs[3, 4])
    ladders, qualities = many((2.2, 2.1, 2, 4, 5), 1)
    (check,) = ask_rungs(ladders, judge_of(qualities), TEMPLATES).checks()
    assert {finding.levels for finding in judged_findings(ladders[0], check)} == {(1, 2), (2, 3), (1, 3)}


@pytest.mark.parametrize("third", [2, 2.03, 1.97])
def test_neighbours_that_are_nearly_equally_good_are_only_noted(third):
    ladders, qualities = many((1, 2, third), 1)
    (check,) = ask_rungs(ladders, judge_of(qualities), TEMPLATES).checks()
    assert kinds(judged_findings(ladders[0], check)) == [("level", (2, 3), False)]
    qualities[ladders[0].rungs[1].text] = 1.5  # now 1 and 3 are as far apart as 2 and 3
    qualities[ladders[0].rungs[2].text] = 1.01
    (check,) = ask_rungs(ladders, judge_of(qualities), TEMPLATES).checks()
    assert kinds(judged_findings(ladders[0], check)) == [("inverted", (2, 3), True)]


def test_what_the_judge_could_not_answer_is_found_with_its_reason():
    ladders, qualities = many((1, 2, 3), 1)
    engine = judge_of(qualities)
    answered = engine.judge

    def picky(prompt, labels):
        if "text number 2" in prompt.text:
            raise RuntimeError("too long")
        return answered(prompt, labels)

    engine.judge = picky
    (check,) = ask_rungs(ladders, engine, TEMPLATES).checks()
    assert list(check.pairs) == [(1, 3)]
    assert [(f.kind, f.evidence, f.amount) for f in judged_findings(ladders[0], check)] == [
        ("unanswered", "too long", 2)]  # fmt: skip


# ------------------------------------------------------------------------------------------------- positions


@pytest.mark.parametrize("bias", [0.0, 1.0])
def test_estimated_positions_are_those_that_the_judge_goes_by(bias):
    positions = (1, 1.5, 3, 4.5, 5)
    ladders, qualities = many(positions)
    (placed,) = place_rungs(ask_rungs(ladders, judge_of(qualities, 1.5, bias), TEMPLATES)).values()
    assert placed.scale.judge.rungs_rise
    at = placed.scale.ladders["c0"].mean
    true = np.array(positions)
    assert np.corrcoef(at, true)[0, 1] > 0.99
    slope = np.polyfit(true, at, 1)[0]
    assert placed.scale.judge.discrimination * slope == pytest.approx(1.5, abs=0.25)
    assert placed.gaps["c0"] == pytest.approx(1.5 * np.diff(true), abs=0.4)


def test_a_ladder_without_a_rung_has_no_gap_there():
    ladders, qualities = many((1, 2, 3, 4, 5))
    ladders[0] = ladder([None, *(rung.text for rung in ladders[0].rungs[1:])], context_id="c0")
    (placed,) = place_rungs(ask_rungs(ladders, judge_of(qualities), TEMPLATES)).values()
    assert math.isnan(placed.gaps["c0"][0])
    assert not np.isnan(placed.gaps["c0"][1:]).any()


def test_where_the_judge_sees_the_ladders_upside_down_there_are_no_gaps():
    ladders, qualities = many((5, 4, 3, 2, 1))
    (placed,) = place_rungs(ask_rungs(ladders, judge_of(qualities), TEMPLATES)).values()
    assert not placed.scale.judge.rungs_rise
    assert np.isnan(placed.gaps["c0"]).all()


def silent(prompt, labels):
    raise RuntimeError("no answer")


def test_a_judge_that_answers_nothing_gives_no_gaps_and_no_positions():
    ladders, _ = many((1, 2, 3))
    (placed,) = place_rungs(ask_rungs(ladders, FakeEngine(silent), TEMPLATES)).values()
    assert "answered nothing" in placed.trouble
    assert np.isnan(placed.gaps["c0"]).all()


def test_a_ladder_of_which_nothing_was_answered_has_no_gaps_beside_others_that_have():
    ladders, qualities = many((1, 2, 3))
    engine = judge_of(qualities)
    answered = engine.judge
    engine.judge = lambda prompt, labels: (silent if "Context 1 " in prompt.text else answered)(prompt, labels)
    (placed,) = place_rungs(ask_rungs(ladders, engine, TEMPLATES)).values()
    assert placed.trouble == ""
    assert np.isnan(placed.gaps["c1"]).all()
    assert not np.isnan(placed.gaps["c0"]).any()


def test_bias_and_distance_are_separated_by_both_orders():
    ladders, qualities = many((1, 2, 3, 4))
    judge = judge_of(qualities, bias=1.0)
    (placed,) = place_rungs(ask_rungs(ladders, judge, TEMPLATES, Asking(both_orders=False))).values()
    assert placed.gaps["c0"] == pytest.approx(np.ones(3), abs=0.4)


def test_attributes_and_lengths_have_scales_of_their_own_and_nothing_asked_is_no_trouble():
    three, qualities = many((1, 2, 3), 2)
    four, more = many((1, 2, 3, 4), 1)
    fluency = [replace(each, attribute="fluency") for each in three]
    engine = judge_of(qualities | more)
    found = place_rungs(ask_rungs([*three, replace(four[0], context_id="d"), *fluency], engine, TEMPLATES))
    assert [(p.scale.attribute, p.scale.n_rungs, len(p.gaps)) for p in found.values()] == [
        ("coherence", 3, 2), ("coherence", 4, 1), ("fluency", 3, 2)]  # fmt: skip
    assert place_rungs(ask_rungs([], engine, TEMPLATES)) == {}
    alone = place_rungs(ask_rungs([ladder([None, None, "One text."])], engine, TEMPLATES))
    (only,) = alone.values()
    assert np.isnan(only.gaps["c1"]).all()


def test_the_scale_is_one_that_texts_can_be_scored_on(tmp_path):
    ladders, qualities = many((1, 2, 3, 4, 5))
    engine = judge_of(qualities | {"A text to judge.": 3.6}, 1.5)
    placed = place_rungs(ask_rungs(ladders, engine, TEMPLATES))
    Scales([each.scale for each in placed.values()]).save(tmp_path / "scale.json")
    scale = Scales.load(tmp_path / "scale.json")
    scorer = Scorer(References(tuple(ladders)), engine, scoring=Anchored(scale), asking=Asking(both_orders=True))
    asked = engine.n_judged
    (score,) = scorer.score([{"id": "t", "context_id": "c0", "text": "A text to judge."}])
    assert engine.n_judged == asked + 10, "the rungs are placed: they are not asked about again"
    assert score.value == pytest.approx(3.6, abs=0.4)
    (single,) = Scorer(References(tuple(ladders)), engine, scoring=Anchored(scale)).score(
        [{"id": "t", "context_id": "c0", "text": "A text to judge."}]
    )
    assert single.value == pytest.approx(score.value, abs=0.3)
