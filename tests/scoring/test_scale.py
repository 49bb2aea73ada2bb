"""Anchored scores by the Scorer and the command line, and scales that are kept and used again."""

import importlib
import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest

from synthscore import engines
from synthscore.cli.app import main
from synthscore.cli.score import judge_lines
from synthscore.errors import InputError, SynthscoreWarning
from synthscore.ladders.references import References
from synthscore.scoring.anchored import Anchored, Anchors, JudgeModel, Scale, Scales
from synthscore.scoring.anchored.scores import UNSETTLED
from synthscore.scoring.scorer import Scorer
from synthscore.signature import Signature
from synthscore.types import Rung, Target
from tests import factories
from tests.fakes import CensoringEngine, FakeEngine

steps = importlib.import_module("synthscore.scoring.anchored.positions")

JUDGE = JudgeModel(3, 1.5, 0.5, 0.2, 0.05, 0.7, (0.3, 0.2, 0.3), 2.0, 1.0, n_ladders=50)


def soft_judge(prompt, labels):
    """1.5 nats a rung, half a nat for the text that is asked about, and noise that belongs to the prompt."""
    reference, target = (float(part.split()[0]) for part in prompt.text.split("q=")[1:])
    noise = np.random.default_rng(int.from_bytes(prompt.text.encode()[-400:], "big")).normal()
    d = 1.5 * (target - reference) + 0.5 + 0.3 * noise
    weights = np.exp([d / 2, -d / 2, 0.2][: len(labels)])
    return np.log(0.9 * weights / weights.sum())


def ladder(context_id, failed=(), n=5):
    return factories.ladder(context_id, n=n, failed=failed)


LADDERS = [ladder(f"c{i}") for i in range(6)]


def targets(contexts=6, each=5, top=5.0):
    rng = np.random.default_rng(0)
    return [
        Target(f"t{c}-{k}", f"c{c}", f"text {c} {k} of q={q:.2f} .")
        for c in range(contexts)
        for k, q in enumerate(rng.uniform(1, top, each))
    ]


def truth(texts):
    return [float(re.search(r"q=([\d.]+)", text.text).group(1)) for text in texts]


def scorer(ladders=LADDERS, engine=None, **options):
    engine = engine or FakeEngine(soft_judge)
    return factories.scorer(References(tuple(ladders)), engine, scoring="anchored", **options)


@pytest.fixture(scope="module")
def fitted():
    made = scorer(both_orders=True)
    return made.score(targets()), made.scales[0]


# ------------------------------------------------------------------------------------------------- the Scorer


@pytest.mark.parametrize("both_orders", [True, False])
def test_anchored_scores_are_positions_with_errors(both_orders):
    texts = targets()
    scores = scorer(both_orders=both_orders).score(texts)
    off = scores.values - truth(texts)
    stderr = np.array([score.stderr for score in scores])
    assert np.sqrt(np.mean(off**2)) < 0.35
    assert (np.abs(off) < 4 * stderr).all()
    for score in scores:
        assert score.low < score.value < score.high
        assert score.high - score.low == pytest.approx(2 * 1.6449 * score.stderr, rel=1e-4)
        assert (score.status, score.reason, score.n_comparisons) == ("ok", "", 5)
        assert score.details["n_rungs"] == 5
        assert score.details["extrapolated"] == float(not 1 <= score.value <= 5)
        assert score.details["label_mass"] == pytest.approx(0.9)
        assert len(score.verdicts) == 5 * (1 + both_orders)


def test_every_rung_is_asked_about_against_every_other_once_in_each_order():
    for both_orders in (True, False):
        engine = FakeEngine(soft_judge)
        scorer(engine=engine, both_orders=both_orders).score(targets())
        assert engine.n_judged == 6 * 5 * 5 * (1 + both_orders) + 6 * 20


def test_the_same_rungs_are_asked_about_in_one_order_and_in_both():
    asked = []
    for both_orders in (True, False):
        prompts = set()

        def judge(prompt, labels, prompts=prompts):
            prompts.add(prompt.text)
            return soft_judge(prompt, labels)

        scorer(engine=FakeEngine(judge), both_orders=both_orders).score(targets(contexts=1, each=1))
        asked.append({prompt for prompt in prompts if "text 0" not in prompt})
    assert asked[0] == asked[1]
    assert len(asked[0]) == 20


def test_the_position_bias_is_that_of_the_judge_whichever_orders_are_asked():
    for both_orders in (True, False):
        made = scorer(both_orders=both_orders)
        made.score(targets())
        assert made.scales[0].judge.position_bias == pytest.approx(0.5, abs=0.15)
        assert made.scales[0].judge.discrimination == pytest.approx(1.5, rel=0.15)


def test_a_rung_without_a_verdict_leaves_the_score_ok_less_sure_and_named(fitted):
    ladders = [ladder("c0", failed=(2, 3)), *LADDERS[1:]]
    scores = scorer(ladders, both_orders=True).score(targets())
    assert scores[0].status == "ok"
    assert scores[0].n_comparisons == 3
    assert "rungs 2,3 have no text: it is a refusal" in scores[0].reason
    assert scores[0].stderr > fitted[0][0].stderr
    assert scores[0].value == pytest.approx(fitted[0][0].value, abs=0.5)


def test_a_text_without_any_answer_is_unscored():
    def refusing(prompt, labels):
        if "text 0 0" in prompt.text:
            raise ValueError("the prompt is too long")
        return soft_judge(prompt, labels)

    texts = [*targets(), Target("lost", "c99", "text of q=1 .")]
    scores = scorer(engine=FakeEngine(refusing)).score(texts)
    assert [score.status for score in scores] == ["unscored", *["ok"] * 29, "unscored"]
    assert "the prompt is too long" in scores[0].reason
    assert "no ladder" in scores[-1].reason
    assert scores[0].value is None


def test_one_order_of_a_rung_is_used_where_the_other_failed():
    def refusing(prompt, labels):
        if "text 0 0" in prompt.text.split("rung of")[0]:
            raise ValueError("too long")
        return soft_judge(prompt, labels)

    scores = scorer(engine=FakeEngine(refusing), both_orders=True).score(targets())
    assert scores[0].status == "ok"
    assert len(scores[0].verdicts) == 5


def test_ladders_of_different_lengths_have_scales_of_their_own():
    ladders = [ladder(f"c{i}", n=3 if i % 2 else 5) for i in range(6)]
    made = scorer(ladders)
    scores = made.score(targets(top=3.0))
    assert [scale.n_rungs for scale in made.scales] == [3, 5]
    assert [set(scale.ladders) for scale in made.scales] == [{"c1", "c3", "c5"}, {"c0", "c2", "c4"}]
    assert {score.details["n_rungs"] for score in scores} == {3.0, 5.0}
    assert np.corrcoef(scores.values, truth(targets(top=3.0)))[0, 1] > 0.8


def test_a_judge_that_sees_the_ladder_upside_down_scores_nothing_and_says_why():
    def upside_down(prompt, labels):
        log_probs = soft_judge(prompt, labels)
        return log_probs[[1, 0, 2]]

    made = scorer(engine=FakeEngine(upside_down), both_orders=True)
    scores = made.score(targets())
    assert scores.n_unscored == len(scores)
    assert "the judge does not see the ladders rise: over 6 ladders of 5 rungs" in scores[0].reason


@pytest.mark.parametrize("protocol", ["choose", "yes_no", "yes_no_two_sided"])
def test_other_protocols_are_anchored_too(protocol):
    def judge(prompt, labels):
        numbers = [float(part.split()[0]) for part in prompt.text.split("q=")[1:]]
        better = 1 / (1 + math.exp(-1.5 * (numbers[1] - numbers[0])))
        if labels == ("A", "B") or "flow less" in prompt.text:
            better = 1 - better
        return [math.log(0.9 * better), math.log(0.9 * (1 - better))]

    texts = targets()
    scores = scorer(engine=FakeEngine(judge), protocol=protocol).score(texts)
    assert {score.status for score in scores} == {"ok"}
    assert np.corrcoef(scores.values, truth(texts))[0, 1] > 0.95


def test_labels_that_a_server_did_not_tell_are_named():
    engine = CensoringEngine(soft_judge, lambda prompt: {2: 0.99})
    assert "the server did not report all labels" in scorer(engine=engine).score(targets())[0].reason


# ------------------------------------------------------------------------------------------------- a scale that is kept


def test_a_scale_of_the_format_before_is_refused_with_what_to_do(fitted, tmp_path):
    _, scale = fitted
    path = tmp_path / "scale.json"
    Scales([scale]).save(path)
    path.write_text(path.read_text().replace('"format": 2', '"format": 1'))
    with pytest.raises(InputError, match=r"both orders of a question as two answers\. Fit it anew \(--save") as refused:
        Anchored(path)
    assert (refused.value.source, refused.value.field, refused.value.value) == (str(path), "format", 1)


def test_ladders_that_fall_are_named_and_not_the_judge():
    def lines(ladders):
        fitting = scorer(ladders)
        fitting.score(targets())
        (scale,) = fitting.scales
        assert scale.judge.rungs_rise
        return scale.falling, list(judge_lines([scale]))

    texts = [rung.text for rung in LADDERS[0].rungs]
    turned = [replace(rung, text=text) for rung, text in zip(LADDERS[0].rungs, reversed(texts), strict=True)]
    falling, said = lines([replace(LADDERS[0], rungs=tuple(turned)), *LADDERS[1:]])
    assert falling == ("c0",)
    assert any("puts 1 of them (context 'c0') upside down: look at" in line for line in said)
    falling, said = lines(LADDERS)
    assert falling == ()
    assert not any("upside down" in line for line in said)


def test_where_too_many_ladders_fall_for_a_scale_they_are_named():
    anchors = {f"c{k}": Anchors(np.array([1.0, 2, 3])[:: -1 if k < 7 else 1], 0.01 * np.eye(3)) for k in range(16)}
    scale = Scale(replace(JUDGE, rungs_rise=False, n_ladders=16), anchors, "t", "a", Signature.of(model="m"))
    assert "it puts 7 of them (contexts 'c0', 'c1', 'c2', 'c3', 'c4' and 2 more) upside down" in scale.useless


def test_a_scale_survives_the_file_bit_for_bit_and_equal_scales_are_equal_bytes(fitted, tmp_path):
    _, scale = fitted
    Scales([scale]).save(tmp_path / "one.json")
    (again,) = Scales.load(tmp_path / "one.json")
    Scales([again]).save(tmp_path / "two.json")
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
    assert again.hash == scale.hash
    assert again.judge == scale.judge
    assert again.ladders["c3"].cov == pytest.approx(scale.ladders["c3"].cov, abs=0)
    other = replace(scale, judge=replace(scale.judge, position_bias=0.0))
    assert other.hash != scale.hash


def test_a_text_is_placed_on_a_scale_as_it_was_when_the_scale_was_fitted_and_alone(fitted):
    scores, scale = fitted
    engine = FakeEngine(soft_judge)
    again = scorer(engine=engine, both_orders=True, scale=scale).score(targets())
    assert engine.n_judged == 300  # the rungs are on the scale: none is asked about again
    assert again.values == pytest.approx(scores.values, abs=0.1)
    for index in (0, 7, 29):
        alone = scorer(both_orders=True, scale=scale).score([targets()[index]])[0]
        assert (alone.value, alone.stderr) == (again[index].value, again[index].stderr)


def test_the_signature_names_the_scale(fitted):
    scores, scale = fitted
    assert f"scoring:anchored,scale={scale.hash[:12]}" in str(scores.signature)
    assert f"scoring:anchored,scale={scale.hash[:12]}" in str(scorer(scale=scale).signature)
    assert "scoring:paper" in str(Scorer(References(tuple(LADDERS)), FakeEngine(soft_judge)).signature)


def test_a_ladder_that_the_scale_lacks_is_placed_by_its_rungs_alone(fitted):
    scale = replace(fitted[1], ladders={name: each for name, each in fitted[1].ladders.items() if name != "c0"})
    engine = FakeEngine(soft_judge)
    made = scorer(engine=engine, both_orders=True, scale=scale)
    scores = made.score(targets(contexts=2))
    assert engine.n_judged == 2 * 5 * 5 * 2 + 20
    assert set(made.scales[0].ladders) == set(fitted[1].ladders)
    assert scores.values == pytest.approx(fitted[0].values[:10], abs=0.5)
    alone = scorer(both_orders=True, scale=scale).score(targets()[:1])[0]
    assert alone.value == scores[0].value


@pytest.mark.parametrize("kept", [True, False])
def test_a_score_says_that_its_position_did_not_come_to_rest(fitted, monkeypatch, kept):
    monkeypatch.setattr(steps, "_STEPS_REWEIGHTED", 1)
    made = scorer(both_orders=True, scale=fitted[1] if kept else None)
    scores = made.score(targets())
    assert all(score.reason == UNSETTLED and score.status == "ok" for score in scores)
    assert ("the fit did NOT converge" in "".join(judge_lines(made.scales))) == (not kept)


def test_what_is_told_of_a_judge_says_whether_its_noise_was_found(fitted):
    open_noise = replace(fitted[1], judge=replace(fitted[1].judge, noise_known=False))
    said = "too few to tell how noisy they are"
    assert [said in "".join(judge_lines([scale])) for scale in (fitted[1], open_noise)] == [False, True]


def test_a_new_ladder_that_does_not_come_to_rest_is_warned_of(fitted, monkeypatch):
    monkeypatch.setattr(steps, "_STEPS_REWEIGHTED", 1)
    without = replace(fitted[1], ladders={k: v for k, v in fitted[1].ladders.items() if k != "c0"})
    with pytest.warns(SynthscoreWarning, match="of 1 ladders that it lacked, 1 .the first: context 'c0'"):
        scorer(both_orders=True, scale=without).score(targets(contexts=1))


def test_a_ladder_that_has_changed_is_not_placed_on_the_old_scale(fitted):
    other = replace(LADDERS[0], rungs=(*LADDERS[0].rungs[:4], Rung(5, 1.0, "another rung q=6 .")))
    scores = scorer([other, *LADDERS[1:]], both_orders=True, scale=fitted[1]).score(targets(contexts=2))
    assert [score.status for score in scores] == ["unscored"] * 5 + ["ok"] * 5
    assert "is not the one that the scale was fitted on" in scores[0].reason


def test_a_ladder_of_another_length_than_the_scales_is_not_placed(fitted):
    scores = scorer([ladder("c0", n=3)], both_orders=True, scale=fitted[1]).score(targets(contexts=1))
    assert scores.n_unscored == 5
    assert "has 3 rungs, and there is only a scale for 5" in scores[0].reason


def test_questions_that_are_put_in_another_way_are_refused(fitted):
    with pytest.raises(InputError, match=r"is of template '.*', and template is now '.*', expected the same"):
        scorer(scale=fitted[1], protocol="yes_no").score(targets())
    scorer(scale=fitted[1], both_orders=False).score(targets())  # the bias is known: one order will do
    unknown = replace(fitted[1], judge=replace(fitted[1].judge, bias_known=False))
    with pytest.raises(InputError, match="is of orders '2,log-odds', and orders is now '1'"):
        scorer(scale=unknown, both_orders=False).score(targets())


def test_a_scale_of_another_attribute_is_refused(fitted):
    with pytest.raises(InputError, match=r"no scale of summarization/coherence among .* of: summarization/fluency"):
        scorer(scale=replace(fitted[1], attribute="fluency"))


def place(scale, contexts, verdicts):
    """verdicts : (target, level, probabilities), in the usual order"""
    target, level, probs = (list(column) for column in zip(*verdicts, strict=True))
    swapped = np.zeros(len(verdicts), dtype=bool)
    return scale.place(contexts, np.array(target), np.array(level), swapped, np.array(probs))


def test_targets_without_verdicts_are_where_texts_are_expected():
    apart = replace(JUDGE, target_sd=0.6, context_sd=0.8)
    scale = Scale(apart, {}, "summarization", "coherence", Signature.of(model="m"))
    posterior = place(scale, ["x", "y"], [(1, 2, (0.9, 0.05, 0.05))])
    assert posterior.mean[0] == pytest.approx(2.0)
    assert posterior.mean[1] > 2.3
    assert posterior.n_answers.tolist() == [0, 1]
    assert posterior.sd[0] == pytest.approx(np.hypot(1.0, np.sqrt(JUDGE.scale_variance(np.array(2.0)))))
    assert posterior.sd[1] < posterior.sd[0]


def test_an_anchor_that_stands_elsewhere_moves_its_texts():
    near = Anchors(np.array([1.0, 2.0, 3.0]), 0.01 * np.eye(3))
    far = Anchors(np.array([2.0, 3.0, 4.0]), 0.01 * np.eye(3))
    scale = Scale(replace(JUDGE, target_sd=50.0), {"a": near, "b": far}, "t", "a", Signature.of(model="m"))
    verdicts = [(1, (0.8, 0.1, 0.1)), (2, (0.4, 0.4, 0.2))]
    posterior = place(scale, ["a", "b"], [(target, *verdict) for target in (0, 1) for verdict in verdicts])
    assert posterior.mean[1] - posterior.mean[0] == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("level", [0, 4])
def test_a_verdict_about_a_rung_that_the_scale_lacks_is_refused(level):
    scale = Scale(JUDGE, {}, "t", "a", Signature.of(model="m"))
    with pytest.raises(InputError, match=rf"about rung {level}, expected 1\.\.3"):
        place(scale, ["x"], [(0, level, (0.9, 0.05, 0.05))])


@pytest.mark.parametrize("content", ["", "{}", '{"format": 9, "scales": []}', '{"format": 2, "scales": [{}]}'])
def test_a_file_that_is_no_scale_is_refused(tmp_path, content):
    (tmp_path / "scale.json").write_text(content)
    with pytest.raises(InputError, match=r"scale\.json"):
        Scales.load(tmp_path / "scale.json")
    with pytest.raises(InputError, match="cannot read the scale"):
        Scales.load(tmp_path / "missing.json")


@pytest.mark.parametrize(
    "change",
    [{"discrimination": -3.0}, {"discrimination": "NaN"}, {"noise": 0.0}, {"target_sd": -1.0}, {"target_mean": "NaN"}],
)
def test_a_scale_of_a_judge_that_cannot_be_is_refused(tmp_path, change):
    Scales([Scale(JUDGE, {}, "t", "a", Signature.of(model="m"))]).save(tmp_path / "scale.json")
    content = json.loads((tmp_path / "scale.json").read_text())
    content["scales"][0]["judge"] |= change
    (tmp_path / "scale.json").write_text(json.dumps(content).replace('"NaN"', "NaN"))
    with pytest.raises(InputError, match=r"cannot read the scale .*scale.json: its judge is"):
        Scales.load(tmp_path / "scale.json")


def test_a_file_of_two_scales_is_not_one(fitted, tmp_path):
    Scales([fitted[1], replace(fitted[1], attribute="fluency")]).save(tmp_path / "scales.json")
    assert [scale.attribute for scale in Scales.load(tmp_path / "scales.json")] == ["coherence", "fluency"]


# ------------------------------------------------------------------------------------------------- the command line


@pytest.fixture
def engine(tmp_path, monkeypatch):
    monkeypatch.setenv("SYNTHSCORE_STORE", str(tmp_path / "answers.sqlite"))
    monkeypatch.chdir(tmp_path)
    References(LADDERS).save(tmp_path / "ladders")
    rows = [{"id": t.id, "context_id": t.context_id, "text": t.text} for t in targets()]
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    engine = FakeEngine(soft_judge)
    monkeypatch.setattr(engines, "open_engine", lambda name, **options: engine)
    return engine


SCORE = ["score", "texts.jsonl", "--references", "ladders", "--both-orders"]


def test_the_command_scores_keeps_the_scale_and_uses_it_again(engine, tmp_path, capsys):
    assert main([*SCORE, "--scoring", "anchored", "--save-scale", "scale.json", "-o", "one.jsonl"]) == 0
    said = capsys.readouterr().err
    assert "420 questions" in said
    assert re.search(r"coherence, 5 rungs: judge tells 1\.\d\d nats a rung, \d+ % similar for equal texts", said)
    assert re.search(r"position bias \+0\.\d\d nats \(better 0\.\d\d, worse 0\.\d\d for equal texts\)", said)
    again = [*SCORE, "--scoring", "anchored", "--scale", "scale.json", "-o", "two.jsonl"]
    assert main(again) == 0
    one, two = (
        [json.loads(line) for line in (tmp_path / f"{name}.jsonl").read_text().splitlines()] for name in ("one", "two")
    )
    assert [row["score"] for row in two] == pytest.approx([row["score"] for row in one], abs=0.1)
    assert one[0]["stderr"] > 0
    assert one[0]["extrapolated"] in (0.0, 1.0)
    assert one[0]["low"] < one[0]["score"] < one[0]["high"]
    assert "scoring:anchored,scale=" in one[0]["signature"]
    assert engine.n_judged == 420  # the second time, the store and the scale held all


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--scale", "scale.json"], "--scale changes nothing without --scoring anchored"),
        (["--save-scale", "scale.json"], "--save-scale changes nothing without --scoring anchored"),
        (["--scoring", "anchored", "--samples", "3"], "--samples changes nothing without --scoring paper"),
        (["--scoring", "anchored", "--scale", "none.json"], "cannot read the scale none.json"),
    ],
)
def test_options_of_the_command_that_do_not_go_together_are_refused(engine, capsys, options, message):
    assert main([*SCORE, *options]) == 2 or "none.json" in message
    assert message in " ".join(capsys.readouterr().err.split())
