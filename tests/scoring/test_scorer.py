"""Targets against ladders, with a judge that reads quality from the text: scores, statuses, and nothing made up."""

import numpy as np
import pytest

from synthscore import engines
from synthscore.errors import InputError, LadderError
from synthscore.io.files import ItemBatch, list_items
from synthscore.io.write import write_rows
from synthscore.judging.asking import PROTOCOLS
from synthscore.ladders.references import References
from synthscore.scoring.scorer import Scorer
from synthscore.signature import Signature
from synthscore.thresholds.rules import MinScore
from synthscore.types import Target
from tests import factories
from tests.fakes import CensoringEngine, FakeEngine


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
    context = "An article." if carry else None
    return factories.ladder(context_id, attribute, n=n, text="rung of q={level} .", failed=failed, context=context)


def scorer(judge=ideal_judge, ladders=None, engine=None, **options):
    return factories.scorer(References(tuple(ladders or [ladder()])), engine or FakeEngine(judge), **options)


def target(q, name="t", context_id="c1"):
    return Target(f"{name}{q}", context_id, f"text of q={q} .")


def test_an_ideal_judge_puts_a_text_on_its_own_rung():
    scores = scorer().score([target(q) for q in (1, 2, 3, 4, 5)])
    assert scores.values == pytest.approx([1, 2, 3, 4, 5])
    assert [score.details["raw"] for score in scores] == pytest.approx([-14, -11, -6, 1, 10])
    assert {score.status for score in scores} == {"ok"}
    assert scores[0].n_comparisons == 5


def test_the_score_can_be_computed_again_from_the_verdicts_that_it_carries():
    score = scorer(soft_judge, both_orders=True).score([target(3.5)])[0]
    assert [(verdict.level, verdict.swapped) for verdict in score.verdicts] == [
        (level, swapped) for level in (1, 2, 3, 4, 5) for swapped in (False, True)
    ]
    raw = sum(verdict.level * (verdict.better - verdict.worse) / 2 for verdict in score.verdicts)
    assert raw == pytest.approx(score.details["raw"])


def test_worse_and_better_than_all_rungs_are_the_ends_of_the_scale():
    scores = scorer().score([target(0), target(9)])
    assert scores.values == pytest.approx([0, np.sqrt(30)])
    assert [score.details["unit"] for score in scores] == pytest.approx([-1, 1])


def test_rows_come_back_in_the_order_given_whatever_their_context():
    ladders = [ladder("c1"), ladder("c2", n=3)]
    given = [target(2, "a", context_id="c2"), target(5), target(1, context_id="c2"), target(2)]
    scores = scorer(ladders=ladders).score(given)
    assert [score.id for score in scores] == [text.id for text in given]
    assert scores.values == pytest.approx([2, 5, 1, 2])


def test_all_questions_go_to_the_engine_in_one_call():
    engine = FakeEngine(soft_judge)
    scorer(engine=engine, both_orders=True).score([target(1), target(2)])
    assert engine.calls == [("judge", 2 * 5 * 2)]


def test_a_target_without_a_ladder_is_unscored_and_says_what_to_do():
    scores = scorer().score([target(3), target(3, "t9", context_id="c9")])
    assert scores[0].status == "ok"
    assert scores[1].value is None
    assert scores[1].status == "unscored"
    assert "c9" in scores[1].reason
    assert "synthscore generate" in scores[1].reason
    assert scores.n_unscored == 1


def test_a_text_without_a_verdict_on_one_inner_rung_scores_the_middle_of_what_its_neighbours_leave_open():
    (score,) = scorer(ladders=[ladder(failed=(4,))]).score([target(5)])
    assert score.status == "partial"
    assert score.value == pytest.approx((np.sqrt(15 + 1 + 2 + 3 + 4) + np.sqrt(15 + 1 + 2 + 3)) / 2)  # 1 to 0 of rung 4
    assert score.value == pytest.approx(5, abs=0.21)
    assert (score.low, score.high) == pytest.approx((np.sqrt(15 + 6 - 4), np.sqrt(15 + 6 + 4)))  # whatever it had been
    assert not {"raw", "unit"} & score.details.keys()
    assert len(score.verdicts) == 4
    assert score.n_comparisons == 4
    assert score.reason == "rung 4 has no text: it is a refusal"


@pytest.mark.parametrize("judge", [ideal_judge, soft_judge])
@pytest.mark.parametrize("quality", range(1, 6))
def test_a_partial_score_is_between_its_limits_and_near_that_of_the_whole_ladder(judge, quality):
    (whole,) = scorer(judge).score([target(quality)])
    for level in (2, 3, 4):
        (score,) = scorer(judge, ladders=[ladder(failed=(level,))]).score([target(quality)])
        assert score.status == "partial"
        assert score.low <= score.value <= score.high
        assert score.low <= whole.value <= score.high
        assert score.value == pytest.approx(whole.value, abs=0.5)


@pytest.mark.parametrize("failed", [(1,), (5,), (2, 4), (2, 3), (1, 3)])
def test_without_the_worst_or_the_best_rung_or_two_others_a_text_has_limits_alone(failed):
    (score,) = scorer(ladders=[ladder(failed=failed)]).score([target(3)])
    assert (score.status, score.value) == ("unscored", None)
    assert score.low <= 3 <= score.high
    assert score.reason.endswith("no text: it is a refusal")


@pytest.mark.parametrize(("threshold", "decision"), [(4.0, "kept"), (5.1, "dropped"), (4.5, "unsure")])
def test_a_threshold_decides_a_partial_score_by_its_limits(threshold, decision):
    (score,) = scorer(ladders=[ladder(failed=(4,))]).score([target(5)])
    found, why = MinScore(threshold).decide(score)
    assert found == decision
    assert ("rung 4 has no text" in why) == (decision == "unsure")


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
    assert scores[0].status == "unscored"
    assert scores[0].reason == "rung 5: the prompt has 5000 tokens, the model takes 1024"


def test_the_same_scores_come_from_both_orders_of_a_judge_without_position_bias():
    one = scorer(soft_judge).score([target(2), target(4)])
    both = scorer(soft_judge, both_orders=True).score([target(2), target(4)])
    assert both.values == pytest.approx(one.values)


def two_minded_judge(prompt, labels):
    """Says Yes with .6 to "better?" and .7 to "worse?": the two sides of a question need not add up."""
    if labels != ("Yes", "No"):
        return soft_judge(prompt, labels)
    yes = 0.7 if "less coherently" in prompt.text else 0.6
    return np.log([0.9 * yes, 0.9 * (1 - yes)])


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("both_orders", [False, True])
def test_scores_from_samples_tend_to_the_exact_ones(protocol, both_orders):
    how = {"protocol": protocol, "both_orders": both_orders}
    exact = scorer(two_minded_judge, **how).score([target(2)])
    few = scorer(two_minded_judge, n_samples=3, **how).score([target(2)])
    many = scorer(two_minded_judge, n_samples=10**6, **how).score([target(2)])
    assert many.values == pytest.approx(exact.values, abs=0.01)
    assert few.values != pytest.approx(exact.values, abs=1e-6)
    assert "samples=3,seed=0" in str(few.signature)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_judge_that_cannot_tell_scores_zero_in_every_protocol(protocol):
    scores = scorer(engine=FakeEngine(), protocol=protocol).score([target(1), target(5)])
    assert [score.details["raw"] for score in scores] == pytest.approx([0, 0])


def test_a_sampled_score_does_not_depend_on_its_neighbours():
    alone = scorer(soft_judge, n_samples=3).score([target(2)])
    among = scorer(soft_judge, n_samples=3).score([target(5), target(2), target(1)])
    assert among[1].value == alone[0].value


def sampled(*rows):
    """Text -> its score from three samples, of rows as a file holds them."""
    targets = [{"context_id": "c1", **row} for row in rows]
    values = scorer(soft_judge, n_samples=3).score(targets).values.tolist()
    return dict(zip((row["text"] for row in targets), values, strict=True))


@pytest.mark.parametrize("own", [{}, {"id": "t{}"}, {"system": "s{}"}])
def test_a_sampled_score_depends_on_the_words_and_not_on_what_the_text_is_called(own):
    rows = [{"text": f"text {k} of q=2 ."} for k in range(20)]
    named = sampled(*(row | {name: value.format(k) for name, value in own.items()} for k, row in enumerate(rows)))
    assert named == sampled(*reversed(rows))
    assert len(set(named.values())) > 1


@pytest.mark.slow
def test_sampled_scores_are_unbiased_and_spread_as_one_over_root_n():
    exact = scorer(soft_judge).score([target(3)])[0].details["raw"]
    spread = {}
    for n in (4, 64):
        texts = [Target(f"copy-{i}", "c1", f"text {i} of q=3 .") for i in range(2000)]
        raw = np.array([score.details["raw"] for score in scorer(soft_judge, n_samples=n).score(texts)])
        spread[n] = raw.std()
        assert raw.mean() == pytest.approx(exact, abs=5 * raw.std() / np.sqrt(len(raw)))  # five standard errors
    assert spread[4] / spread[64] == pytest.approx(4, rel=0.1)


def test_a_text_without_all_verdicts_says_what_the_missing_ones_could_make_of_its_score():
    scores = scorer(ladders=[ladder(failed=(2, 3, 4, 5))]).score([target(0)])
    assert scores[0].low == pytest.approx(0)  # worse than all
    assert scores[0].high == pytest.approx(np.sqrt(15 - 1 + 14))
    assert scorer().score([target(0)])[0].low is None


def test_an_option_that_is_none_is_refused():
    with pytest.raises(InputError, match="expected 1 to"):
        scorer(n_samples=0)


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


def test_a_text_is_scored_on_all_attributes_that_the_references_hold_unless_one_is_named():
    several = [ladder(), ladder(attribute="fluency")]
    scores = scorer(ladders=several).score([target(3)])
    assert [score.attribute for score in scores] == ["coherence", "fluency"]
    assert dict(scores.signature.parts)["attribute"] == "coherence & fluency"
    signatures = [dict(Signature.parse(row["signature"]).parts)["attribute"] for row in scores.to_rows()]
    assert signatures == ["coherence", "fluency"]
    (score,) = scorer(ladders=several, attribute="fluency").score([target(3)])
    assert score.attribute == "fluency"


def test_the_attributes_of_all_batches_are_counted():
    several = scorer(ladders=[ladder(), ladder(attribute="fluency")])
    row = {"context_id": "c1", "text": "text of q=3 .", "system": "s"}
    batches = [ItemBatch(list_items([{**row, "attribute": name}])) for name in ("coherence", "fluency", "coherence")]
    coherence, fluency, again = [batch.scored.counts for batch in several.score_batches(batches)]
    assert [counts.n_attributes for counts in (coherence, coherence + again, coherence + fluency)] == [1, 1, 2]
    assert (coherence + fluency).n_targets == 2


def test_one_text_at_a_time_has_one_score_so_that_the_attribute_must_be_named():
    several = [ladder(), ladder(attribute="fluency")]
    with pytest.raises(LadderError, match=r"2 attributes.*say which"):
        scorer(ladders=several).submit([target(3)])
    assert scorer(ladders=several, attribute="fluency").attribute == "fluency"
    with pytest.raises(LadderError, match="no ladders for attribute 'humour', but for: coherence"):
        scorer(attribute="humour")


def test_mappings_are_taken_for_targets():
    scores = scorer().score([{"id": "a", "context_id": "c1", "text": "text of q=3 ."}])
    assert scores.values == pytest.approx([3])


def one_sided_judge(mute):
    """Answers whether a text is better; whether it is worse, not of rungs whose quality is in `mute`."""

    def judge(prompt, labels):
        reference, target = quality(prompt)
        if "flow less" in prompt.text:
            if reference in mute:
                raise ValueError("the prompt is too long")
            target, reference = reference, target
        better = 1 / (1 + np.exp(reference - target))
        return np.log([0.9 * better, 0.9 * (1 - better)])

    return judge


@pytest.mark.parametrize("n_samples", [None, 3])
def test_a_rung_with_one_answer_of_two_has_no_verdict_and_is_no_tie(n_samples):
    options = {"protocol": "yes_no_two_sided", "n_samples": n_samples}
    (score,) = scorer(one_sided_judge({2.0}), **options).score([target(3)])
    assert score.reason == "rung 2: the prompt is too long"
    assert (score.status, score.n_comparisons) == ("partial", 4)
    assert score.low < score.value < score.high
    assert {verdict.level for verdict in score.verdicts} == {1, 3, 4, 5}
    (none,) = scorer(one_sided_judge({1.0, 2.0, 3.0, 4.0, 5.0}), **options).score([target(3)])
    assert (none.status, none.n_comparisons, none.verdicts) == ("unscored", 0, ())


def test_a_data_frame_is_scored_as_its_rows_are(tmp_path):
    pandas = pytest.importorskip("pandas")
    rows = [{"id": f"t{q}", "context_id": "c1", "text": f"text of q={q} ."} for q in (1, 3)]
    made = scorer(soft_judge)
    scores = made.score(rows)
    assert made.score(pandas.DataFrame(rows)) == scores == made.score([Target(**row) for row in rows])
    with pytest.raises(InputError, match="expected a file, or rows"):
        made.score(3)


def test_references_may_be_a_folder_and_the_judge_a_name_which_is_asked_nothing_twice(tmp_path, monkeypatch):
    References((ladder(),)).save(tmp_path / "ladders")
    judge = FakeEngine(soft_judge, name="mine")
    monkeypatch.setattr(engines, "open_engine", lambda name: judge)
    for _ in range(2):
        made = Scorer(tmp_path / "ladders", "mine")
        assert made.score([target(3)]).values == scorer(soft_judge).score([target(3)]).values
    assert judge.n_judged == made.references.ladders[0].n_rungs
    assert "model:mine" in str(made.signature)


def test_no_targets_give_no_scores():
    assert len(scorer().score([])) == 0


# ------------------------------------------------------------------------------------------------- labels not told


@pytest.mark.parametrize("both_orders", [False, True])
def test_a_score_with_labels_not_told_lies_between_low_and_high_whatever_they_were(both_orders):
    how = {"both_orders": both_orders}
    rng = np.random.default_rng(0)
    probs = {}  # prompt -> the most that each label can be

    def judge(prompt, labels):
        if prompt.text not in probs:
            probs[prompt.text] = rng.dirichlet(np.ones(3)) * 0.9
        return np.log(probs[prompt.text])

    untold = {0: 0.9, 1: 0.5, 2: 0.0}
    engine = CensoringEngine(judge, lambda prompt: untold)
    (score,) = scorer(engine=engine, max_unreported=1.0, **how).score([target(3)])
    assert score.status == "ok"
    assert "did not report all labels, so that probabilities may be off by 0." in score.reason
    assert score.low < score.value < score.high
    for _ in range(50):
        true = {text: p * (1 - (1 - np.array([0.9, 0.5, 0.0])) * rng.random(3)) for text, p in probs.items()}
        (other,) = scorer(lambda prompt, labels, true=true: np.log(true[prompt.text]), **how).score([target(3)])
        assert other.low is None
        assert score.low - 1e-9 <= other.value <= score.high + 1e-9


def test_a_rare_spelling_that_was_not_told_is_not_said_to_be_a_label():
    engine = CensoringEngine(lambda prompt, labels: np.log([0.5, 0.3, 0.1]), lambda prompt: {0: 0.9995})
    (score,) = scorer(engine=engine).score([target(3)])
    assert (score.status, score.reason) == ("ok", "")
    assert score.low < score.value <= score.high


def test_low_and_high_are_the_sums_of_what_each_rung_could_say():
    engine = CensoringEngine(lambda prompt, labels: np.log([0.5, 0.39, 0.01]), lambda prompt: {2: 0.0})
    (score,) = scorer(engine=engine).score([target(3)])
    assert score.details["raw"] == pytest.approx(15 * 0.11 / 0.9)
    assert score.low == score.value, "what is not told counts as its most"
    assert score.high == pytest.approx(np.sqrt(15 * 0.11 / 0.89 + 15))


def test_low_and_high_never_leave_the_scale():
    engine = CensoringEngine(lambda prompt, labels: np.log([0.98, 0.005, 0.005]), lambda prompt: {1: 0.0, 2: 0.0})
    (score,) = scorer(engine=engine).score([target(3)])
    assert score.low <= score.value < score.high == np.sqrt(30)


def test_a_text_of_which_no_verdict_is_known_well_enough_is_bounded_by_what_is_known():
    engine = CensoringEngine(lambda prompt, labels: np.log([0.6, 0.2, 0.1]), lambda prompt: {1: 0.5})
    (score,) = scorer(engine=engine).score([target(3)])
    assert (score.value, score.status, score.n_comparisons) == (None, "unscored", 0)
    assert score.reason.startswith("rung 1: the server did not report the probability of Worse (at most 0.2)")
    assert len(score.reasons) == 5
    low, high = 0.4 / 0.9, 0.5 / 0.8
    assert (score.low, score.high) == pytest.approx((np.sqrt(15 * low + 15), np.sqrt(15 * high + 15)))
    assert "raw" not in score.details
    (whole,) = scorer(engine=engine, max_unreported=0.1).score([target(3)])
    assert (whole.low, whole.high) == (score.low, score.high)
    assert whole.value == pytest.approx(score.low)


def test_low_and_high_are_one_pair_of_limits_over_all_that_is_missing():
    """Of rung 5 the answer failed; of rung 4 a label is not told, too much for a verdict; of rung 1 a little."""

    def judge(prompt, labels):
        if "q=5" in prompt.text:
            raise ValueError("too long")
        return np.log([0.6, 0.3, 0.1])

    def untold(prompt):
        return {1: 0.5} if "q=4" in prompt.text else {2: 0.99} if "q=1" in prompt.text else {}

    (score,) = scorer(engine=CensoringEngine(judge, untold)).score([target(2)])
    assert score.value is None
    assert [reason.split(":")[0] for reason in score.reasons] == ["rung 4", "rung 5"]
    least = 0.3 / 1 + (2 + 3) * 0.3 + 4 * 0.3 - 5
    most = 0.3 / 0.999 + (2 + 3) * 0.3 + 4 * 0.45 / 0.85 + 5
    assert (score.low, score.high) == pytest.approx((np.sqrt(least + 15), np.sqrt(most + 15)))


@pytest.mark.parametrize("n_samples", [1, 1000])
def test_what_is_drawn_for_a_text_lies_between_its_limits(n_samples):
    engine = CensoringEngine(lambda prompt, labels: np.log([0.5, 0.39, 0.01]), lambda prompt: {2: 0.0})
    (score,) = scorer(engine=engine, n_samples=n_samples).score([target(3)])
    assert score.low <= score.value <= score.high
    assert score.high - score.low < 0.1


@pytest.mark.parametrize("kind", ["mappings", "targets", "DataFrame", "Dataset", "file", "generator"])
def test_targets_come_from_whatever_holds_them(tmp_path, kind):
    def read_targets(rows):
        return [item.target for item in list_items(rows)]

    rows = [{"id": "a", "context_id": "c", "text": "A.", "system": None}, {"id": 7, "context_id": "c", "text": "B."}]
    expected = [Target("a", "c", "A."), Target("7", "c", "B.")]
    match kind:
        case "mappings":
            found = read_targets(rows)
        case "targets":
            found = read_targets(expected)
        case "generator":
            found = read_targets(row for row in (rows[0], expected[1]))
        case "DataFrame":
            found = read_targets(pytest.importorskip("pandas").DataFrame(rows))
        case "Dataset":
            found = read_targets(pytest.importorskip("datasets").Dataset.from_list([rows[0], rows[1] | {"id": "7"}]))
        case "file":
            write_rows(rows, tmp_path / "t.jsonl")
            found = read_targets(tmp_path / "t.jsonl")
    assert found == expected


def test_a_row_that_holds_no_target_is_unscored_with_its_reason_and_the_others_are_scored():
    good, lost = {"id": "a", "context_id": "c1", "text": "text of q=0.5 ."}, {"id": "b", "context_id": "c1", "text": ""}
    scores = scorer().score([good, lost, "A text.", {"id": "d"}])
    assert [score.status for score in scores] == ["ok", "unscored", "unscored", "unscored"]
    names = [("a", "c1"), ("b", "c1"), ("row 3", ""), ("row 4", "")]
    assert [(score.id, score.context_id) for score in scores] == names
    assert "text is '', expected a text that is not empty" in scores[1].reason
    assert "it is 'A text.', expected an object" in scores[2].reason
    assert scores[3].reason.startswith("row 4: there is no 'context_id'")


@pytest.mark.parametrize(
    ("rows", "seen"),
    [(3, "cannot read rows from 3, expected a file, or rows"), ("missing.jsonl", "no such file"),
     ({"id": "a", "text": "A."}, "cannot read rows from {'id': 'a', 'text': 'A.'}")],
)  # fmt: skip
def test_what_holds_no_rows_at_all_is_an_error(rows, seen):
    with pytest.raises(InputError) as caught:
        scorer().score(rows)
    assert seen in str(caught.value)
