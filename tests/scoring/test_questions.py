"""What anchored scoring asks, in rounds on a scale that is kept."""

import json
import re
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from synthscore import Store, StoredEngine, engines
from synthscore.cli.app import main
from synthscore.cli.messages import Messages
from synthscore.engine import KEPT
from synthscore.errors import InputError
from synthscore.io.files import read_rows
from synthscore.judging.asking import PROTOCOLS, Asking, Inquiry, Pair, ask
from synthscore.judging.templates import Templates, load_task
from synthscore.ladders.references import References
from synthscore.scoring.anchored import Anchored, Scales, questions
from synthscore.scoring.anchored.adaptive import SameDecision, Sure, ask_in_rounds
from synthscore.scoring.paper import Paper
from synthscore.scoring.scorer import Scorer
from synthscore.types import Context
from tests.fakes import CensoringEngine, FakeEngine
from tests.scoring.test_scale import LADDERS, ladder, scorer, soft_judge, targets

NEVER = Sure(3.0, 1e-300)


def judge_of(protocol):
    if protocol == "compare":
        return soft_judge

    def judge(prompt, labels):
        numbers = [float(part.split()[0]) for part in prompt.text.split("q=")[1:]]
        better = 1 / (1 + np.exp(-1.5 * (numbers[1] - numbers[0])))
        if labels == ("A", "B") or "flow less" in prompt.text:
            better = 1 - better
        return np.log([0.9 * better, 0.9 * (1 - better)])

    return judge


def scales(ladders=LADDERS, judge=soft_judge, **options):
    made = scorer(ladders, FakeEngine(judge), both_orders=True, **options)
    made.score(targets())
    return made.scales


@pytest.fixture(scope="module")
def scale():
    return scales()[0]


def asked_of(judge=soft_judge, ladders=LADDERS, texts=None, **options):
    """Scores, and the texts of the prompts that were asked."""
    engine = FakeEngine(judge)
    scores = scorer(ladders, engine, **{"both_orders": True} | options).score(texts or targets())
    return scores, [prompt.text for prompt in engine.judged]


def without_questions(score):
    kept = {name: value for name, value in score.details.items() if name not in ("questions", "questions_full", "met")}
    return replace(score, details=kept)


# ------------------------------------------------------------------------------------------------- in several calls


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_questions_asked_in_several_calls_are_what_they_are_in_one(protocol):
    context = Context("c", "Article.")
    pairs = [Pair(context, "coherence", f"target q={k} .", "rung q=3 .") for k in range(1, 6)]
    templates = Templates(load_task("summarization"))

    def judge(prompt, labels):
        if "q=2 " in prompt.text and prompt.text.index("q=2 ") < prompt.text.index("q=3 "):
            raise ValueError("too long")
        return soft_judge(prompt, labels)

    how = Asking(protocol, both_orders=True)
    whole = ask(pairs, FakeEngine(judge), templates, how)
    asking = Inquiry(pairs, FakeEngine(judge), templates, how)
    first, second = (
        (np.array([4, 0]), np.array([True, False])),
        (np.array([0, 1, 1, 2]), np.array([True, True, False, True])),
    )
    said = np.concatenate([asking.ask(*each) for each in (first, second)])
    pair, order = (np.concatenate([one, other]) for one, other in zip(first, second, strict=True))
    np.testing.assert_array_equal(said, whole.by_order[order.astype(int), pair])
    part = asking.verdicts()
    assert np.isnan(whole.by_order).any()
    assert part.asked.sum() == 6
    np.testing.assert_array_equal(part.by_order[part.asked], whole.by_order[part.asked])
    assert np.isnan(part.by_order[~part.asked]).all()
    assert part.failures == whole.failures
    assert part.signature == whole.signature
    asking.ask(*(each[~part.asked.ravel()] for each in (np.tile(np.arange(5), 2), np.repeat([False, True], 5))))
    every = asking.verdicts()
    np.testing.assert_array_equal(every.by_order, whole.by_order)
    np.testing.assert_array_equal(every.answers.log_probs, whole.answers.log_probs)
    assert (every.answers.other_tokens, every.failures) == (whole.answers.other_tokens, whole.failures)


# ------------------------------------------------------------------------------------------------- in rounds


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("both_orders", [True, False])
def test_a_stop_that_is_never_met_asks_everything_and_scores_to_the_last_bit_as_without(both_orders, protocol):
    ladders = [ladder("c0", failed=(2,)), *LADDERS[1:5]]  # c5 has none
    judge = judge_of(protocol)
    kept = scales(ladders[:4], judge, protocol=protocol)  # and c4 is not on the scale
    options = {"judge": judge, "ladders": ladders, "scale": kept, "both_orders": both_orders, "protocol": protocol}
    whole, prompts = asked_of(**options)
    scores, in_rounds = asked_of(**options, stop=NEVER)
    assert [without_questions(score) for score in scores] == list(whole)
    assert Counter(in_rounds) == Counter(prompts)
    sides = 2 if protocol == "yes_no_two_sided" else 1
    for score in scores[:25]:
        n = (4 if score.context_id == "c0" else 5) * (1 + both_orders) * sides
        assert score.details["questions"] == score.details["questions_full"] == n
    assert "rung 2 has no text" in scores[0].reason
    assert "no ladder" in scores[-1].reason


def test_fewer_questions_are_asked_all_of_them_of_the_whole_ladder_and_none_twice(scale):
    _, whole = asked_of(scale=scale)
    scores, prompts = asked_of(scale=scale, stop=SameDecision(3.0))
    assert set(prompts) < set(whole)
    assert len(set(prompts)) == len(prompts) < 0.7 * len(whole)
    assert sum(score.details["questions"] for score in scores) == len(prompts)
    assert {score.details["questions_full"] for score in scores} == {10}
    for score in scores:
        assert (score.status, score.reason) == ("ok", "")
        assert score.details["questions"] == len(score.verdicts)
        assert score.n_comparisons == len({verdict.level for verdict in score.verdicts})
    full = asked_of(scale=scale)[0]
    assert [s.value >= 3 for s in scores] == [s.value >= 3 for s in full]


def test_a_store_that_has_seen_the_whole_ladders_has_all_that_is_asked_in_rounds(scale, tmp_path):
    engine = FakeEngine(soft_judge)
    with Store(tmp_path / "one.sqlite") as store:
        stored = StoredEngine(engine, store)
        scorer(engine=stored, both_orders=True, scale=scale).score(targets())
        n_judged = engine.n_judged
        first = scorer(engine=stored, both_orders=True, scale=scale, stop=Sure(3.0)).score(targets())
        assert engine.n_judged == n_judged
    with Store(tmp_path / "two.sqlite") as store:
        stored = StoredEngine(engine, store)
        again = [
            scorer(engine=stored, both_orders=True, scale=scale, stop=Sure(3.0)).score(targets()) for _ in range(2)
        ]
        assert engine.n_judged == n_judged + sum(score.details["questions"] for score in first)
    assert list(first) == list(again[0]) == list(again[1])


def test_scores_in_rounds_do_not_depend_on_the_other_texts_nor_on_batches(scale, monkeypatch):
    whole = asked_of(scale=scale, stop=Sure(3.0))[0]
    monkeypatch.setattr(questions, "MOST_CHARACTERS", 60)
    batches = asked_of(scale=scale, stop=Sure(3.0), texts=targets()[::-1])[0]
    for score, other in zip(whole, list(batches)[::-1], strict=True):
        assert score.value == pytest.approx(other.value, abs=1e-9)
        assert score.verdicts == other.verdicts


def test_questions_of_a_round_that_share_a_prompts_beginning_lie_together(scale, monkeypatch):
    mixed = [text for k in range(5) for text in targets()[k::5]]
    engine = FakeEngine(soft_judge)
    scorer(engine=engine, both_orders=True, scale=scale, stop=Sure(3.0)).score(mixed)
    first = [prompt.text.split("Article c")[1][0] for prompt in engine.judged[:30]]
    assert first == sorted(first)
    monkeypatch.setattr(questions, "MOST_CHARACTERS", 60)
    engine = FakeEngine(soft_judge)
    scorer(engine=engine, both_orders=True, scale=scale, stop=Sure(3.0)).score(mixed)
    assert {prompt.text.split("Article c")[1][0] for prompt in engine.judged[:10]} == {"0", "1"}


def test_the_rounds_of_a_block_keep_what_engines_read_and_no_other_block_does(scale, monkeypatch):
    places = []

    def judge(prompt, labels):
        places.append(KEPT.get())
        return soft_judge(prompt, labels)

    monkeypatch.setattr(questions, "MOST_CHARACTERS", 60)
    asked_of(judge, scale=scale, stop=Sure(3.0))
    assert all(place is not None for place in places)  # all of them live, so that each has an id of its own
    changes = sum(one is not other for one, other in pairwise(places))
    assert changes == len(set(map(id, places))) - 1 > 1  # one block after the other
    asked_of(judge, scale=scale)
    assert places[-1] is None


def test_rungs_of_a_ladder_that_the_scale_lacks_are_asked_about_first(scale):
    lacking = replace(scale, ladders={name: scale.ladders[name] for name in ("c0", "c1", "c2", "c3", "c4")})
    made = scorer(both_orders=True, scale=lacking, stop=SameDecision(3.0))
    engine = made.judge
    made.score(targets())
    assert engine.calls[0] == ("judge", 20)
    assert all(
        "rung of c5" in prompt.text and "text" not in prompt.text.split("rung of c5")[1]
        for prompt in engine.judged[:20]
    )
    assert set(made.scales[0].ladders) == {f"c{k}" for k in range(6)}


def test_what_is_not_asked_is_not_missing_and_what_failed_is_named(scale):
    def refusing(prompt, labels):
        if "text 0 0" in prompt.text or ("text 0 1" in prompt.text and "q=3 " in prompt.text):
            raise ValueError("the prompt is too long")
        if "text 0 2" in prompt.text:
            return np.log([1e-4] * 3)
        return soft_judge(prompt, labels)

    options = {"judge": refusing, "scale": scale}
    scores = asked_of(**options, stop=SameDecision(2.9))[0]
    whole = asked_of(**options)[0]
    for k in (0, 2):
        assert without_questions(scores[k]) == whole[k]
        assert scores[k].status == "unscored"
        assert scores[k].details["questions"] == 10  # asked, all in vain
    assert "too long" in scores[0].reason
    assert "expected at least 0.01" in scores[2].reason
    assert scores[1].status == "ok"
    assert scores[1].reason == whole[1].reason == "rung 3: the prompt is too long"
    assert scores[1].details["questions"] > len(scores[1].verdicts)
    assert {score.reason for score in list(scores)[3:]} == {""}


def test_labels_that_a_server_did_not_tell_are_named_though_one_order_was_asked(scale):
    engine = CensoringEngine(soft_judge, lambda prompt: {2: 0.99})
    scores = scorer(engine=engine, both_orders=True, scale=scale, stop=SameDecision(3.0)).score(targets())
    assert min(score.details["questions"] for score in scores) < 5
    assert all("did not report all labels" in score.reason for score in scores)


def test_each_length_of_ladder_is_asked_about_on_its_own_scale():
    ladders = [*LADDERS[:4], ladder("c4", n=3), ladder("c5", n=3)]
    kept = scales(ladders)
    scores = asked_of(ladders=ladders, scale=kept, stop=SameDecision(2.0))[0]
    assert {score.details["questions_full"] for score in scores} == {10, 6}
    assert {score.status for score in scores} == {"ok"}
    with_one = asked_of(ladders=ladders, scale=[kept[1]], stop=SameDecision(2.0))[0]
    assert "only a scale for 5" in with_one[29].reason


@pytest.mark.parametrize("protocol", ["compare", "yes_no_two_sided"])
def test_progress_goes_to_the_end_though_not_all_is_asked(protocol):
    judge = judge_of(protocol)
    kept = scales(LADDERS[:5], judge, protocol=protocol)
    told = []
    options = {"both_orders": True, "scale": kept, "stop": SameDecision(3.0), "protocol": protocol}
    scorer(engine=FakeEngine(judge), **options).score(targets(), told.append)
    assert sum(told) == (30 * 10 + 20) * (1 + (protocol == "yes_no_two_sided"))


def test_scores_are_those_by_which_the_rounds_ended(monkeypatch):
    ladders, texts = [ladder(f"c{i}") for i in range(20)], targets(contexts=20, each=3)
    kept = scales(ladders[:15], soft_judge)
    rounds = []

    def asking(*args, **options):
        rounds.append(ask_in_rounds(*args, **options))
        return rounds[-1]

    monkeypatch.setattr(questions, "ask_in_rounds", asking)
    options = {"judge": soft_judge, "ladders": ladders, "scale": kept, "texts": texts}
    scores = asked_of(**options, stop=SameDecision(3.0))[0]
    np.testing.assert_allclose(rounds[0].posterior.mean, scores.values, atol=1e-6)
    assert rounds[0].n_asked.tolist() == [score.details["questions"] for score in scores]
    assert rounds[0].n_asked.sum() < 0.7 * rounds[0].n_full.sum()
    in_full = asked_of(**options, stop=NEVER)[0]
    assert [without_questions(score) for score in in_full] == list(asked_of(**options)[0])


def test_the_signature_says_how_it_was_asked(scale):
    names = {Sure(3.0): "Sure(threshold=3.0,alpha=0.05)", SameDecision(3.0): "SameDecision(threshold=3.0,eps=0.02)"}
    for stop, name in names.items():
        signature = str(asked_of(scale=scale, stop=stop)[0].signature)
        assert f"scoring:anchored,adaptive={name},scale={scale.hash[:12]}" in signature
        assert "orders:2" in signature


@pytest.mark.parametrize("protocol", ["compare", "yes_no_two_sided"])
def test_a_judge_that_does_not_see_the_rungs_rise_is_asked_nothing_and_scores_nothing(protocol):
    judge = judge_of(protocol)
    scale = scales(judge=judge, protocol=protocol)[0]
    blind = replace(scale, ladders={}, judge=replace(scale.judge, rungs_rise=False))
    engine, told = FakeEngine(judge), []
    options = {"both_orders": True, "scale": blind, "protocol": protocol}
    made = scorer(engine=engine, stop=Sure(3.0), **options)
    scores = made.score(targets(), told.append)
    assert engine.n_judged == 0
    assert sum(told) == (30 * 10 + 6 * 20) * (1 + (protocol == "yes_no_two_sided"))
    assert made.scales == (blind,)
    assert list(scores) == list(scorer(engine=FakeEngine(judge), **options).score(targets()))
    assert {score.status for score in scores} == {"unscored"}


def test_a_length_of_ladder_whose_rungs_do_not_rise_leaves_the_others_as_they_are():
    ladders = [*LADDERS[:4], ladder("c4", n=3), ladder("c5", n=3)]
    kept = scales(ladders)
    blind = [replace(each, judge=replace(each.judge, rungs_rise=each.n_rungs == 5)) for each in kept]
    scores = asked_of(ladders=ladders, scale=blind, stop=SameDecision(2.0))[0]
    assert list(scores)[:20] == list(asked_of(ladders=ladders, scale=kept, stop=SameDecision(2.0))[0])[:20]
    assert all("over 2 ladders of 3 rungs" in score.reason and not score.details for score in list(scores)[20:])


def test_scores_say_whether_the_rule_is_met_and_count_questions_in_whole_numbers(scale):
    for stop, met in ((NEVER, {0.0}), (Sure(3.0), {0.0, 1.0}), (SameDecision(3.0), {1.0})):
        scores = asked_of(scale=scale, stop=stop)[0]
        assert {score.details["met"] for score in scores} == met
        assert all(score.details["met"] or score.details["questions"] == 10 for score in scores)
        assert {type(score.details[name]) for score in scores for name in ("questions", "questions_full")} == {int}
        low, high = (np.array([getattr(score, name) for score in scores]) for name in ("low", "high"))
        if stop == Sure(3.0):  # the 90 % interval is beyond the threshold on one side
            assert [bool(score.details["met"]) for score in scores] == ((low >= 3) | (high <= 3)).tolist()


@pytest.mark.parametrize("scoring", ["paper", "anchored"])
def test_the_signature_is_known_before_anything_is_asked(scale, scoring, monkeypatch):
    mode = Anchored(scale, stop=Sure(3.0)) if scoring == "anchored" else Paper()
    asking = Asking(both_orders=True)
    made = Scorer(References(tuple(LADDERS)), FakeEngine(soft_judge), scoring=mode, asking=asking)
    said = str(made.score(targets()).signature)
    monkeypatch.delattr(Inquiry, "verdicts")
    assert str(made.signature) == said


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stop": Sure(3.0)}, "expected a scale with it: .* --save-scale"),
        ({"stop": "fast"}, "stop is 'fast', expected a stop rule"),
    ],
)
def test_ways_to_ask_that_do_not_exist_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        Anchored(**options)


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


ANCHORED = ["texts.jsonl", "--references", "ladders", "--both-orders", "--scoring", "anchored"]
ADAPTIVE = [*ANCHORED, "--scale", "scale.json", "--adaptive"]


def code(argv):
    """Of the exit, argparse's own as well."""
    try:
        return main(argv)
    except SystemExit as stopped:
        return stopped.code


def test_the_command_says_what_was_asked_and_saved(engine, tmp_path, capsys):
    assert main(["score", *ANCHORED, "--save-scale", "scale.json", "-o", "whole.jsonl"]) == 0
    n_judged = engine.n_judged
    for options, name in (
        (["--min-score", "3"], "SameDecision(threshold=3.0,eps=0.02)"),
        (["--min-score", "4"], "SameDecision(threshold=4.0,eps=0.02)"),
    ):
        capsys.readouterr()
        assert main(["score", *ADAPTIVE, *options, "-o", "some.jsonl"]) == 0
        rows = [json.loads(line) for line in (tmp_path / "some.jsonl").read_text().splitlines()]
        n = int(sum(row["questions"] for row in rows))
        said = capsys.readouterr().err
        assert f"30 targets, 1 attribute: {n} questions, {n} of 300 about texts ({100 - n / 3:.0f} % saved)" in said
        assert name in rows[0]["signature"]
        assert n < 250
    assert engine.n_judged == n_judged  # the store had them all


def test_filter_asks_until_its_own_threshold_is_decided(engine, tmp_path, capsys):
    assert main(["score", *ANCHORED, "--save-scale", "scale.json", "-o", "whole.jsonl"]) == 0
    kept = {}
    for name, options in (("whole", ADAPTIVE[:-1]), ("some", ADAPTIVE)):
        capsys.readouterr()
        assert main(["filter", *options, "--min-score", "3", "-o", f"{name}.jsonl"]) == 0
        kept[name] = (tmp_path / f"{name}.jsonl").read_text()
    assert kept["some"] == kept["whole"]
    assert "about texts (" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([*ANCHORED, "--adaptive", "--min-score", "1"], "--scoring anchored --scale FILE. Make the file from some"),
        (ADAPTIVE, "--adaptive needs a threshold, on one side of which each text is. Give --min-score X"),
        ([*ANCHORED, "--seed", "3"], "--seed 3 changes nothing without --samples N"),
        ([*ANCHORED[:4], "--seed", "3"], "--seed 3 changes nothing without --samples N"),
        ([*ANCHORED, "--min-score", "1"], "--min-score changes nothing without --adaptive"),
    ],
)
def test_options_that_do_not_go_together_are_refused(engine, capsys, options, message):
    assert code(["score", *options]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert engine.n_judged == 0


@pytest.mark.parametrize("options", [ANCHORED, ADAPTIVE])
def test_filter_refuses_an_alpha_that_no_probability_meets(engine, capsys, options):
    assert code(["filter", *options, "--min-score", "3", "--alpha", "0"]) == 2
    assert "--alpha is 0.0, expected" in capsys.readouterr().err


def test_a_threshold_that_is_on_no_scale_is_refused(engine, scale, capsys):
    Scales([scale]).save("scale.json")
    assert main(["score", *ADAPTIVE, "--min-score", "30"]) == 1
    assert "far outside the anchored scale" in capsys.readouterr().err
    assert engine.n_judged == 0


def test_the_commands_say_how_many_texts_do_not_meet_the_rule(engine, tmp_path, capsys):
    assert main(["score", *ANCHORED, "--save-scale", "scale.json", "-o", "whole.jsonl"]) == 0
    capsys.readouterr()
    for alpha, least, most in (("1e-9", 30, 30), ("0.1", 2, 29)):
        assert main(["filter", *ADAPTIVE, "--min-score", "3", "--alpha", alpha, "-o", "kept.jsonl"]) == 3
        said = re.search(r"the rule is not met by (\d+) scores on which all was asked", capsys.readouterr().err)
        assert said
        assert least <= int(said[1]) <= most
    assert main(["score", *ADAPTIVE, "--min-score", "3", "-o", "some.jsonl"]) == 0
    assert "the rule" not in capsys.readouterr().err
    assert all('"met": 1.0' in line for line in (tmp_path / "some.jsonl").read_text().splitlines())


def test_a_text_that_is_unscored_is_not_told_again_as_one_that_does_not_meet_the_rule(engine, capsys):
    assert main(["score", *ANCHORED, "--save-scale", "scale.json", "-o", "whole.jsonl"]) == 0

    def refusing(prompt, labels):
        if "text 0 0" in prompt.text:
            raise ValueError("the prompt is too long")
        return soft_judge(prompt, labels)

    engine.judge = refusing
    assert main(["filter", *ADAPTIVE, "--min-score", "3", "--alpha", "1e-9", "--store", "none", "-o", "k.jsonl"]) == 3
    assert "29 scored, 1 unscored; the rule is not met by 29 scores" in capsys.readouterr().err


@pytest.fixture
def two_attributes(engine, tmp_path):
    """Ladders of two attributes, and a scale of each."""
    fluent = [replace(each, attribute="fluency") for each in LADDERS]
    References(fluent).save(tmp_path / "ladders", merge=True)
    assert main(["score", *ANCHORED, "--save-scale", "scale.json", "-o", "whole.jsonl"]) == 0
    return engine


def test_a_scale_that_is_missing_is_missed_before_other_attributes_are_asked_about(two_attributes, tmp_path, capsys):
    kept = [each for each in Scales.load(tmp_path / "scale.json") if each.attribute == "coherence"]
    Scales(kept).save(tmp_path / "scale.json")
    n_judged = two_attributes.n_judged
    assert main(["score", *ADAPTIVE[:-1], "--store", "none", "-o", "some.jsonl"]) == 1
    assert "there is no scale of summarization/fluency" in capsys.readouterr().err
    assert two_attributes.n_judged == n_judged


def test_an_attribute_whose_rungs_do_not_rise_is_unscored_alone(two_attributes, tmp_path, capsys):
    one, other = Scales.load(tmp_path / "scale.json")
    Scales([replace(one, judge=replace(one.judge, rungs_rise=False)), other]).save(tmp_path / "scale.json")
    for name in ("some.csv", "some.parquet", "some.jsonl"):
        assert main(["score", *ADAPTIVE, "--min-score", "3", "-o", name]) == 3
        found = [row.values for row in read_rows(tmp_path / name)]
        assert {str(row["questions_full"]) for row in found if row["status"] == "ok"} == {"10"}
    rows = [json.loads(line) for line in (tmp_path / "some.jsonl").read_text().splitlines()]
    assert {(row["attribute"], row["status"]) for row in rows} == {(one.attribute, "unscored"), (other.attribute, "ok")}
    assert all("does not see the ladders rise" in row["reason"] for row in rows if row["status"] == "unscored")
    assert "of 300 about texts" in capsys.readouterr().err


@pytest.mark.parametrize(
    "options",
    [
        ["--both-orders"],
        ["--both-orders", "--protocol", "yes_no_two_sided"],
        [],
    ],
)
def test_progress_counts_the_rows_of_all_questions(engine, monkeypatch, options, capsys):
    totals, told = [], []

    @contextmanager
    def bar(self, total, unit):
        totals.append(total)
        yield told.append

    monkeypatch.setattr(Messages, "bar", bar)
    engine.judge = judge_of(options[2] if "--protocol" in options else "compare")
    anchored = [each for each in ANCHORED if each != "--both-orders"]
    assert main(["score", *anchored, *options, "--store", "none", "-o", "scores.jsonl"]) == 0
    assert totals == [sum(told)] == [30]
    assert f": {engine.n_judged} questions; 30 scored" in capsys.readouterr().err
