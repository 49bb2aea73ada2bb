"""Targets against ladders, with a judge that reads quality from the text: scores, statuses, and nothing made up."""

import numpy as np
import pytest

from synthscore.errors import InputError, LadderError, TaskError
from synthscore.references import References
from synthscore.scorer import Scorer
from synthscore.types import Context, Ladder, Rung, Target
from tests.fakes import FakeEngine


def quality(prompt):
    """Qualities of the reference (shown first) and of the target, written into their texts as q=NUMBER."""
    return [float(part.split()[0]) for part in prompt.text.split("q=")[1:]]


def ideal_judge(prompt, labels):
    reference, target = quality(prompt)
    right = 0 if target > reference else 1 if target < reference else 2
    return [0.0 if label == right else -1000.0 for label in range(len(labels))]


def soft_judge(prompt, labels):
    reference, target = quality(prompt)
    weights = np.exp([target - reference, reference - target, 0.0][: len(labels)])
    return np.log(0.9 * weights / weights.sum())


def ladder(context_id="c1", failed=(), n=5, attribute="coherence", carry=True):
    rungs = tuple(
        Rung(level, (level - 1) / (n - 1), "", "failed", "it is a refusal")
        if level in failed
        else Rung(level, (level - 1) / (n - 1), f"rung of q={level} .")
        for level in range(1, n + 1)
    )
    context = Context(context_id, "An article.") if carry else None
    return Ladder(context_id, "summarization", attribute, rungs, context)


def scorer(judge=ideal_judge, ladders=None, engine=None, **options):
    references = References(tuple(ladders or [ladder()]))
    return Scorer(references, engine or FakeEngine(judge), **options)


def target(q, name="t", context_id="c1"):
    return Target(f"{name}{q}", context_id, f"text of q={q} .")


def test_an_ideal_judge_puts_a_text_on_its_own_rung():
    scores = scorer().score([target(q) for q in (1, 2, 3, 4, 5)])
    assert scores.values == pytest.approx([1, 2, 3, 4, 5])
    assert [score.details["raw"] for score in scores] == pytest.approx([-14, -11, -6, 1, 10])
    assert {score.status for score in scores} == {"ok"}
    assert scores[0].n_comparisons == 5


def test_worse_and_better_than_all_rungs_are_the_ends_of_the_scale():
    scores = scorer().score([target(0), target(9)])
    assert scores.values == pytest.approx([0, np.sqrt(30)])
    assert [score.details["unit"] for score in scores] == pytest.approx([-1, 1])


def test_rows_come_back_in_the_order_given_whatever_their_context():
    ladders = [ladder("c1"), ladder("c2", n=3)]
    given = [target(2, context_id="c2"), target(5), target(1, context_id="c2"), target(2)]
    scores = scorer(ladders=ladders).score(given)
    assert [score.id for score in scores] == [text.id for text in given]
    assert scores.values == pytest.approx([2, 5, 1, 2])


def test_all_questions_go_to_the_engine_in_one_call():
    engine = FakeEngine(soft_judge)
    scorer(engine=engine, both_orders=True).score([target(1), target(2)])
    assert engine.calls == [("judge", 2 * 5 * 2)]


def test_a_target_without_a_ladder_is_unscored_and_says_what_to_do():
    scores = scorer().score([target(3), target(3, context_id="c9")])
    assert scores[0].status == "ok"
    assert scores[1].value is None
    assert scores[1].status == "unscored"
    assert "c9" in scores[1].reason
    assert "synthscore generate" in scores[1].reason
    assert scores.n_unscored == 1


def test_a_failed_rung_makes_the_score_partial_and_is_not_made_up_for():
    scores = scorer(ladders=[ladder(failed=(4,))]).score([target(5)])
    assert scores[0].status == "partial"
    assert scores[0].details["raw"] == pytest.approx(1 + 2 + 3)  # not the 10 of a whole ladder
    assert scores[0].n_comparisons == 4
    assert scores[0].reason == "rung 4 has no text: it is a refusal"


def test_rescaling_stretches_a_partial_sum_only_when_asked_to():
    rescaled = scorer(ladders=[ladder(failed=(4,))], partial="rescale").score([target(9)])
    assert rescaled[0].details["raw"] == pytest.approx(15)
    assert rescaled[0].status == "partial"
    assert "rescaled" in str(rescaled.signature)


def test_a_ladder_of_failures_or_without_its_context_scores_nothing():
    whole = scorer(ladders=[ladder(failed=(1, 2, 3, 4, 5))]).score([target(5)])
    assert "all rungs failed" in whole[0].reason
    bare = scorer(ladders=[ladder(carry=False)]).score([target(5)])
    assert "does not carry its context" in bare[0].reason


def test_a_prompt_that_does_not_fit_leaves_its_rung_out_with_the_reason():
    engine = FakeEngine(ideal_judge)
    made = scorer(engine=engine)
    made.score([target(3)])
    too_long = engine.judged[4].text
    engine.failures[too_long] = "the prompt has 5000 tokens, the model takes 1024"
    scores = made.score([target(3)])
    assert scores[0].status == "partial"
    assert scores[0].reason == "rung 5: the prompt has 5000 tokens, the model takes 1024"


def test_the_same_scores_come_from_both_orders_of_a_judge_without_position_bias():
    one = scorer(soft_judge).score([target(2), target(4)])
    both = scorer(soft_judge, both_orders=True).score([target(2), target(4)])
    assert both.values == pytest.approx(one.values)


@pytest.mark.parametrize("protocol", ["compare", "yes_no"])
def test_scores_from_samples_tend_to_the_exact_ones(protocol):
    exact = scorer(soft_judge, protocol=protocol).score([target(2)])
    few = scorer(soft_judge, protocol=protocol, n_samples=3).score([target(2)])
    many = scorer(soft_judge, protocol=protocol, n_samples=10**6).score([target(2)])
    assert many.values == pytest.approx(exact.values, abs=0.01)
    assert few.values != pytest.approx(exact.values, abs=1e-6)
    assert "samples=3,seed=0" in str(few.signature)


def test_samples_are_the_same_for_the_same_seed():
    drawn = [scorer(soft_judge, n_samples=2, seed=seed).score([target(2)]).values[0] for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_the_signature_holds_everything_that_can_change_the_number():
    line = str(scorer().signature)
    parts = "synthscore: model:fake template:default/compare@ labels: orders:1 attribute:coherence references:"
    for part in parts.split():
        assert part in line
    assert line == str(scorer().score([target(3)]).signature)
    assert line != str(scorer(ladders=[ladder(n=3)]).signature)


def test_the_attribute_must_be_named_where_the_references_hold_several():
    several = [ladder(), ladder(attribute="fluency")]
    with pytest.raises(LadderError, match=r"2 attributes.*say which"):
        scorer(ladders=several)
    assert scorer(ladders=several, attribute="fluency").attribute == "fluency"
    with pytest.raises(TaskError, match="no attribute 'humour'"):
        scorer(attribute="humour")


def test_mappings_are_taken_for_targets_and_bad_ones_are_named():
    scores = scorer().score([{"id": "a", "context_id": "c1", "text": "text of q=3 ."}])
    assert scores.values == pytest.approx([3])
    with pytest.raises(InputError, match="Expected id, context_id, text"):
        scorer().score([{"id": "a", "text": "t"}])
    with pytest.raises(InputError, match="text is '  '"):
        scorer().score([{"id": "a", "context_id": "c1", "text": "  "}])


def test_no_targets_give_no_scores():
    assert len(scorer().score([])) == 0
