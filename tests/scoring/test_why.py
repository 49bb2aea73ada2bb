"""Reasons on demand: which rungs a text is shown between, and that a score does not depend on them."""

import pytest

from synthscore.errors import EngineError
from synthscore.io.files import read_items
from synthscore.ladders.references import References
from synthscore.scoring.scorer import ScoredBatch, Scorer
from synthscore.scoring.why import Explainer, rungs_around
from synthscore.types import Context, Ladder, Rung
from tests.fakes import FakeEngine

CONTEXT = Context("c1", "The ferry lost power near the island, and tugs brought it in.")
RUNGS = tuple(Rung(level, (level - 1) / 4, f"Rung {level} of the ladder.") for level in range(1, 6))
LADDER = Ladder("c1", "summarization", "coherence", RUNGS, CONTEXT)


def text_of(level):
    return f"Rung {level} of the ladder."


@pytest.mark.parametrize(
    ("value", "worse", "better"),
    [(0.4, 0, 1), (1.0, 1, 2), (2.9, 2, 3), (3.0, 3, 4), (5.0, 5, 0), (5.48, 5, 0)],
)
def test_a_score_stands_between_the_best_rung_that_is_no_better_and_the_worst_that_is(value, worse, better):
    around = rungs_around(LADDER, value)
    assert around == (text_of(worse) if worse else "", text_of(better) if better else "")


def test_a_rung_without_a_text_is_passed_over():
    failed = Rung(3, 0.5, "", status="failed", reason="it was cut")
    ladder = Ladder("c1", "summarization", "coherence", (*RUNGS[:2], failed, *RUNGS[3:]), CONTEXT)
    assert rungs_around(ladder, 3.2) == (text_of(2), text_of(4))


def explained(engine, rows):
    references = References((LADDER,))
    batches = list(read_items(rows))
    scored = Scorer(references, engine).plan([item for batch in batches for item in batch.items]).score()
    return scored, Explainer(references, engine).explain(ScoredBatch(batches, scored))


def test_each_scored_text_has_a_reason_and_one_that_has_no_score_has_none():
    engine = FakeEngine(writer=lambda prompt, seed: "It names\nthe island.")
    rows = [{"id": "a", "context_id": "c1", "text": "A text."}, {"id": "b", "context_id": "c1", "text": " "}]
    scored, reasons = explained(engine, rows)
    assert [score.status for score, _ in scored] == ["ok", "unscored"]
    assert reasons == [["It names the island."], [None]]
    (prompt,) = engine.written
    assert all(shown in prompt.text for shown in (CONTEXT.text, "Summary 2:\nA text.", "what 2 does better than 1"))


def test_a_judge_that_writes_nothing_is_an_error_that_says_so():
    engine = FakeEngine(writer=lambda prompt, seed: EngineError("it only judges"))
    with pytest.raises(EngineError, match="no reason could be written: it only judges"):
        explained(engine, [{"id": "a", "context_id": "c1", "text": "A text."}])
