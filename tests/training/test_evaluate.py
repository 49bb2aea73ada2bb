"""The instrument that measures the embedded judge, on judges whose numbers are known."""

import json
import re

import numpy as np
import pytest

from tests.fakes import FakeEngine
from training.evaluate import Judge, begun, calibration_error, filter_part, lead, pairs_part, summaries
from training.groups import Group

TEXTS = {"q=5 .": 0.4, "q=9 .": 0.0, "q=1 .": 1.0, "q=9 , that is .": 0.0}
GROUPS = [
    Group("story", "surprise", f"idea {i}", "", tuple(TEXTS), tuple(TEXTS.values()), ("",) * len(TEXTS))
    for i in range(3)
]


def sharp_judge(favour):
    """Right about every pair; `favour` (log-odds) is added for whatever text it is asked about."""

    def judge(prompt, labels):
        reference, target = [float(part.split()[0]) for part in prompt.text.split("q=")[1:]]
        if target == reference:
            return np.log([0.05, 0.05, 0.8])
        p = 1 / (1 + np.exp(-np.sign(target - reference) * 3 - favour))
        return np.log([0.9 * p, 0.9 * (1 - p), 0.05])

    return judge


def test_a_judge_that_is_always_right_measures_as_such():
    found = pairs_part(Judge(FakeEngine(sharp_judge(0.0))), GROUPS)
    row = found["by_attribute"]["story/surprise"]
    assert row["n"] == 3 * 12
    assert row["sign"] == row["sign@0.3-0.6"] == row["sign@0.6-1.0"] == row["three_way"] == 1
    assert found["antisymmetry"] == pytest.approx(1)
    assert found["position"] == pytest.approx(0, abs=1e-12)
    assert found["label_mass_min"] == pytest.approx(0.9)


def test_a_favour_for_what_is_asked_about_shows_as_position():
    found = pairs_part(Judge(FakeEngine(sharp_judge(1.0))), GROUPS)
    assert found["position"] > 0.05
    assert found["by_attribute"]["story/surprise"]["sign"] == 1


def test_a_pair_that_cannot_be_asked_is_left_out_and_counted():
    engine = FakeEngine(sharp_judge(0.0))
    pairs_part(Judge(engine), GROUPS[:1])
    engine.failures[engine.judged[0].text] = "too long"
    found = pairs_part(Judge(engine), GROUPS[:1])
    assert found["by_attribute"]["story/surprise"]["failed"] == 1
    assert found["n"] == 10
    assert np.isfinite(found["antisymmetry"])


def test_calibration_error_is_the_gap_between_confidence_and_share_right():
    probs = np.array([[0.8, 0.2]] * 10)
    assert calibration_error(probs, np.array([0] * 8 + [1] * 2)) == pytest.approx(0)
    assert calibration_error(probs, np.array([0] * 5 + [1] * 5)) == pytest.approx(0.3)


def test_a_report_keeps_what_was_measured_before_and_is_of_one_judge(tmp_path):
    out = tmp_path / "nano.json"
    assert begun(out, "nano@1", "report") == {"model": "nano@1", "half": "report", "groups": {}}
    before = {"model": "nano@1", "half": "report", "groups": {"apart": 30}, "apart": {"story": {}}}
    out.write_text(json.dumps(before))
    assert begun(out, "nano@1", "report") == before
    for model, half in (("nano@2", "report"), ("nano@1", "choose")):
        with pytest.raises(SystemExit, match=r"nano\.json has .* expected '(nano@2|choose)': take another --out"):
            begun(out, model, half)


def test_a_lead_is_whole_sentences_as_long_as_it_is_asked_for():
    document = "Harwick closed its pool. Nine voted for it.\n\nThe roof leaks."
    assert lead(document, 4) == "Harwick closed its pool."
    assert lead(document, 5) == "Harwick closed its pool. Nine voted for it."
    assert lead(document, 100) == "Harwick closed its pool. Nine voted for it. The roof leaks."


def test_bad_summaries_are_as_long_as_the_good_one_and_made_of_the_article():
    row = {
        "document": "A pool is closed. The roof leaks.",
        "good": "pool closes now",
        "pairs": [{"true": "yes", "false": "no"}],
    }
    found = dict(summaries(row, {"good": "other"}, np.random.default_rng(0)))
    assert (found["good"], found["off topic"]) == ("pool closes now", "other")
    assert (found["copied lead"], found["true sentence"], found["false sentence"]) == ("A pool is closed.", "yes", "no")
    salad = found["word salad"].split()
    assert len(salad) == 3
    assert set(salad) < set(row["document"].split())


def test_filter_counts_what_the_threshold_keeps_and_leads_above_good_summaries(tmp_path):
    def likes_copies(prompt, labels):
        context, _, rest = re.split(r"\n\n\w+ [12]:\n", prompt.text)
        p = 0.98 if rest.split("\n")[0] in context else 0.01
        return np.log([p, 0.99 - p, 0.01])

    document = "The council of Harwick voted to close the swimming pool on Mill Lane in the autumn. " * 2
    document += "Denise Aldous said that the boiler of 1988 could no longer be repaired at all. The roof leaks."
    pairs = [{"true": "It closes.", "false": "It opens."}]
    rows = [
        {"id": f"f{i}", "document": f"Report {i}. {document}", "good": "Pool to close", "pairs": pairs} for i in (1, 2)
    ]
    file = tmp_path / "facts.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = filter_part(FakeEngine(likes_copies), file, threshold=3.0)
    assert found["threshold"] == 3.0
    for attribute in ("coherence", "consistency", "fluency", "relevance"):
        kinds = found[attribute]["kinds"]
        assert {kind: row["texts"] for kind, row in kinds.items()} == dict.fromkeys(kinds, 2)
        assert {kind for kind, row in kinds.items() if row["kept"] == 2} == {"copied lead"}
        assert {row["kept"] for row in kinds.values()} == {0, 2}
        assert found[attribute]["lead_above_good"] == [2, 2]
