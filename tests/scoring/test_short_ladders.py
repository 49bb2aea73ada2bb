"""Ladders that are shorter than others of their set: what scores on them mean, in every way to score."""

from dataclasses import replace

import numpy as np
import pytest

from synthscore import Store, StoredEngine, engines
from synthscore.errors import LadderError
from synthscore.integrations.mount import Mount
from synthscore.io.files import read_rows
from synthscore.io.write import write_rows
from synthscore.ladders.references import References
from synthscore.report.ladders import LadderView
from synthscore.report.pictures import on_ladder
from synthscore.scoring.anchored.adaptive import SameDecision
from synthscore.scoring.ladder import LadderMethod, rescaled
from synthscore.scoring.paper import Paper, rung_top
from synthscore.scoring.scorer import Scorer
from synthscore.thresholds.filter import filter
from tests import factories
from tests.fakes import FakeEngine
from tests.scoring.test_scorer import ideal_judge, soft_judge

LENGTHS = {"c2": 2, "c3": 3, "c4": 4, "c5": 5, "c9": 9}


def ladder(context_id: str, n: int, wanted: int | None = 5):
    """Rungs of quality 1..5, evenly spaced."""
    text = "rung of " + context_id + " q={quality} ."
    made = factories.ladder(context_id, n=n, text=text, qualities=np.linspace(1, 5, n).tolist())
    return replace(made, wanted=wanted if wanted != n else None)


MIXED = References(tuple(ladder(context_id, n) for context_id, n in LENGTHS.items()))


def rows(qualities=(1.5, 2.5, 4.0, 4.6)):
    return [
        {"id": f"{context_id}/{q}", "context_id": context_id, "text": f"text of q={q} ."}
        for context_id in LENGTHS
        for q in qualities
    ]


@pytest.mark.parametrize(("context_id", "n"), LENGTHS.items())
def test_a_text_that_equals_a_rung_has_the_rungs_fraction_of_the_scale(context_id, n):
    made = Scorer(MIXED, FakeEngine(ideal_judge))
    texts = [{"context_id": context_id, "text": f"text of q={q} ."} for q in np.linspace(1, 5, n).tolist()]
    scores = made.score(texts)
    assert [score.value for score in scores] == pytest.approx(np.linspace(1, 5, n))
    assert {score.details["n_rungs"] for score in scores} == {n}
    assert {score.details.get("scale") for score in scores} == {None if n == 5 else 5}


@pytest.mark.parametrize("context_id", LENGTHS)
def test_worse_and_better_than_all_rungs_stay_within_the_scale(context_id):
    texts = [{"context_id": context_id, "text": f"text of q={q} ."} for q in (0, 6)]
    worst, best = Scorer(MIXED, FakeEngine(ideal_judge)).score(texts)
    assert worst.value == 0
    assert 5.4 < best.value <= rung_top(5) or LENGTHS[context_id] == 9


@pytest.mark.parametrize("pair", [(4, 5), (2, 5), (9, 5), (5, 5)])
def test_a_change_of_scale_keeps_the_order_and_can_be_undone(pair):
    values = np.linspace(-3, 12, 400).tolist()
    there = [rescaled(value, *pair) for value in values]
    assert there == sorted(set(there))
    assert [rescaled(value, *pair[::-1]) for value in there] == pytest.approx(values)


def test_one_threshold_holds_on_ladders_of_all_lengths_without_a_warning():
    found = filter(rows((2.0, 4.5)), MIXED, FakeEngine(soft_judge), 3.5)
    assert [row["id"] for row in found.kept] == [f"{context_id}/4.5" for context_id in LENGTHS]
    assert not found.unsure
    with pytest.warns(UserWarning, match="3, 5 rungs: 3.5 means another quality on each"):
        filter(rows((2.0,)), References((ladder("c3", 3, None), ladder("c5", 5))), FakeEngine(soft_judge), 3.5)


def test_limits_of_a_partial_score_are_on_the_scale_too():
    short = ladder("c4", 4)
    rung = replace(short.rungs[1], text="", status="failed", reason="refused")
    lacking = replace(short, rungs=(short.rungs[0], rung, *short.rungs[2:]))
    (score,) = Scorer(References((lacking,)), FakeEngine(ideal_judge)).score(
        [{"context_id": "c4", "text": "text of q=3.7 ."}]
    )
    on_four = [np.sqrt(10 + 1 + 3 - 4 + m) for m in (-2, 1, 2)]  # of rung 2: the least, in the middle, the most
    assert score.status == "partial"
    assert (score.low, score.high) == pytest.approx((rescaled(on_four[0], 4, 5), rescaled(on_four[2], 4, 5)))
    assert score.low <= score.value <= score.high


def test_what_a_store_holds_of_whole_texts_gives_the_same_scores(tmp_path):
    with Store(tmp_path / "store.sqlite") as store:
        first = Scorer(MIXED, StoredEngine(FakeEngine(soft_judge), store)).score(rows())
        mute = FakeEngine(lambda prompt, labels: pytest.fail("asked again"))
        again = Scorer(MIXED, StoredEngine(mute, store)).score(rows())
    assert [score.value for score in again] == [score.value for score in first]
    assert [score.details.get("scale") for score in again] == [score.details.get("scale") for score in first]


def test_a_ladder_that_is_too_short_for_the_rungs_that_are_wanted_costs_its_own_texts_alone():
    method = LadderMethod(Paper(), n_rungs=3)
    scores = Scorer(MIXED, FakeEngine(ideal_judge), method=method).score(rows((5.0,)))
    found = {score.context_id: score.value for score in scores}
    assert [found[name] for name in ("c3", "c5", "c9")] == pytest.approx([3, 3, 3])
    assert found["c2"] is found["c4"] is None
    assert "cannot take 3 rungs, evenly spaced, out of the 4" in scores[2].reason


def many(n_contexts=12):
    """Contexts whose ladders have five and four rungs in turn."""
    made = References(tuple(ladder(f"m{k}", 4 + k % 2) for k in range(n_contexts)))
    texts = [
        {"id": f"m{k}/{q}", "context_id": f"m{k}", "text": f"text of q={q} ."}
        for k in range(n_contexts)
        for q in (1.4, 2.6, 3.4, 4.8)
    ]
    return made, texts


def test_anchored_scores_of_short_ladders_are_on_the_scale_with_their_errors():
    references, texts = many()
    made = factories.scorer(references, FakeEngine(soft_judge), scoring="anchored")
    scores = made.score(texts)
    short, whole = ([score for k, score in enumerate(scores) if (k // 4) % 2 == odd] for odd in (0, 1))
    means = [np.mean([[s.value for s in group][i::4] for i in range(4)], axis=1) for group in (short, whole)]
    assert means[0] == pytest.approx(means[1], abs=0.35)
    for score in short:
        assert score.low < score.value < score.high
        assert score.high - score.low == pytest.approx(2 * 1.645 * score.stderr, rel=0.2)
    stop = SameDecision(3.0)
    adaptive = factories.scorer(references, FakeEngine(soft_judge), scoring="anchored", scale=made.scales, stop=stop)
    sides = [score.value > 3 for score in adaptive.score(texts)]
    assert sides == [score.value > 3 for score in scores]


def test_places_among_fewer_rungs_are_on_the_scale():
    def last(prompt, labels):
        return [0.0 if label == len(labels) - 1 else -50.0 for label in range(len(labels))]

    scores = Scorer(MIXED, FakeEngine(last), method="place").score(rows((5.0,)))
    assert [score.value for score in scores] == pytest.approx([5.0] * 5)


def test_a_mount_gives_the_best_of_a_short_ladder_one(tmp_path, monkeypatch):
    monkeypatch.setattr(engines, "open_engine", lambda name, **options: FakeEngine(ideal_judge))
    MIXED.save(tmp_path / "ladders")
    mount = Mount(references=str(tmp_path / "ladders"), store=str(tmp_path / "store.sqlite"))
    texts = [{"context_id": name, "text": f"text of q={q} ."} for name in LENGTHS for q in (1.0, 5.0)]
    assert [mount.unit(score) for score in mount.scores(texts)] == pytest.approx([0, 1] * 5)


def test_the_scale_survives_the_folder_and_is_part_of_the_hash(tmp_path):
    MIXED.save(tmp_path / "ladders")
    back = References.load(tmp_path / "ladders")
    assert back.scales == MIXED.scales == (5,)
    assert back.lengths == MIXED.lengths == dict.fromkeys((2, 3, 4, 5, 9), 1)
    assert [each.wanted for each in back] == [each.wanted for each in MIXED]
    assert back.hash == MIXED.hash
    assert ladder("c4", 4).hash != ladder("c4", 4, None).hash
    assert ladder("c5", 5).hash == replace(ladder("c5", 5), wanted=5).hash


@pytest.mark.parametrize("wanted", [1, 0, 4.5, True, "5"])
def test_a_scale_that_is_none_is_refused(wanted):
    with pytest.raises(LadderError, match="rungs were wanted, expected a whole number from 2"):
        replace(ladder("c4", 4), wanted=wanted)


def test_rows_say_the_scale_where_it_is_not_the_number_of_rungs(tmp_path):
    scores = Scorer(MIXED, FakeEngine(ideal_judge)).score(rows((3.0,)))
    write_rows(scores.to_rows(), tmp_path / "s.csv")
    found = [row.values.get("scale") for row in read_rows(tmp_path / "s.csv")]
    assert [value and float(value) for value in found] == [5, 5, 5, "", 5]


def test_a_report_draws_rungs_where_they_stand():
    (short,) = Scorer(MIXED, FakeEngine(ideal_judge)).score(rows((3.0,))[2:3])
    view = LadderView("paper", MIXED.find("c4", "coherence"), (short,))
    assert [view.place(level) for level in range(1, 5)] == pytest.approx([1, 7 / 3, 11 / 3, 5])
    assert [getattr(step, "level", "text") for step in view.steps] == [4, 3, "text", 2, 1]
    assert "1 worst, 5 best" in on_ladder(view, 3.5)
