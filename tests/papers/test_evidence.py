"""What ladders are worth: rows, figures, what cannot be measured, and the table made again from stored answers."""

import json
import lzma
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from papers import evidence
from papers.__main__ import main
from synthscore.engines import open_judge
from synthscore.evaluation.agreement import agreement, difference
from synthscore.evaluation.methods import Tools, method
from synthscore.evaluation.ratings import RatedText, Ratings
from synthscore.ladders.references import References
from synthscore.store.engine import StoredEngine
from synthscore.store.file import Store
from synthscore.types import Context
from tests import factories
from tests.evaluation.test_agreement import BENCHMARKS
from tests.fakes import FakeEngine
from tests.scoring.test_scorer import quality

REPOSITORY = Path(__file__).parents[2]
DATA = REPOSITORY / "tests" / "data"
CONTEXTS = [f"c{k}" for k in range(6)]


def judge(prompt, labels):
    """Knows the quality of a text; a rung's depends on its context, as damage comes out differently."""
    if "Better" not in labels:
        raise ValueError("it gives no grades")
    reference, target = quality(prompt)
    return np.log(np.array([1 / (1 + np.exp(reference - target)), 1 / (1 + np.exp(target - reference)), 0.1]) * 0.4)


def ratings():
    rng = np.random.default_rng(0)
    texts = [
        RatedText(f"{name}/{k}", name, f"s{k}", f"text q={level + rng.normal():.2f} .", {"coherence": float(level)})
        for name in CONTEXTS
        for k, level in enumerate((1, 2, 3, 4))
    ]
    contexts = {name: Context(name, f"Article {name}.") for name in CONTEXTS}
    return Ratings("toy", tuple(texts), ("coherence",), contexts, task="summarization", source="toy@1")


def ladders(shift=2.0):
    """Rungs that are better by k times the shift in the k-th context."""
    made = []
    for k, name in enumerate(CONTEXTS):
        levels = [level + shift * k for level in (1, 2, 3, 4, 5)]
        made.append(factories.ladder(name, text="rung of {context_id} q={quality} .", qualities=levels))
    return References(made)


def measured(engine=None, **options):
    counted = evidence.Counted(engine or FakeEngine(judge))
    sets = {"damaged": ladders(), "curated": References([factories.ladder("far", text="rung q={level} .")])}
    return evidence.measure_all([evidence.Measuring(ratings(), {"fake": counted}, sets)], **options), counted


def test_every_row_has_its_figures_or_the_reason_why_it_has_none():
    found, _ = measured()
    by_row = {cell.row: cell for cell in found.cells}
    assert len(found.cells) == len(by_row) == 2 * 3 * 3 + 2 + 3
    for row, cell in by_row.items():
        assert bool(cell.missing) == (cell.inside is None)
        is_own_of_others = (row.ladders, row.rungs) == ("curated", "own")
        if row.judge and row.method in ("place", "direct", "g-eval") and not is_own_of_others:
            assert "it gives no grades" in cell.missing
    own = by_row[evidence.Row("fake", "ladder", "curated", "own")]
    assert own.missing == "the curated ladders are of other contexts than the benchmark's"
    damaged = by_row[evidence.Row("fake", "ladder", "damaged", "own")]
    assert damaged.questions == 10
    assert (damaged.n_texts, damaged.n_scored, damaged.n_contexts) == (24, 24, 6)
    assert "shared@" in by_row[evidence.Row("fake", "ladder", "curated", "shared")].signature


def test_the_figures_are_those_of_the_method_and_the_gap_is_their_difference():
    found, _ = measured(methods=["ladder"])
    texts = ratings()
    human = texts.human("coherence")
    tools = Tools(judge=FakeEngine(judge), references=ladders())
    values = {
        rungs: method(f"ladder:both_orders=yes,ladders={rungs}")(texts, "coherence", tools).values
        for rungs in ("own", "foreign")
    }
    for cell in found.cells:
        if cell.row.ladders == "damaged" and cell.row.rungs in values:
            assert cell.pooled == agreement(
                values[cell.row.rungs], human, texts.context_ids, level="pooled", confidence=0.9
            )
    [gap] = [gap for gap in found.gaps if gap.other.rungs == "foreign"]
    assert gap.auc == difference(
        values["own"], values["foreign"], human, texts.context_ids, level="pooled", good_from=3, confidence=0.9
    )


def test_a_shared_ladder_wins_across_contexts_where_own_rungs_come_out_differently():
    found, _ = measured(methods=["ladder"])
    [gap] = [gap for gap in found.gaps if gap.other.rungs == "shared"]
    assert gap.pooled.high < 0
    assert abs(gap.inside.value) < 0.1


def test_the_table_is_made_again_to_the_last_bit_from_answers_without_questions(tmp_path):
    with Store(tmp_path / "all.sqlite") as store:
        first, counted = measured(StoredEngine(FakeEngine(judge), store))
        assert evidence.save_answers([counted], tmp_path / "shared.sqlite") == len(store)
    with Store(tmp_path / "shared.sqlite") as shared:
        assert not any(batch.has_questions for batch in shared.batches())
    again, _ = measured(open_judge(f"recorded:{tmp_path / 'shared.sqlite'}"))
    one, other = first.to_json(), again.to_json()
    for cell in (*one["cells"], *other["cells"]):
        cell["missing"] = bool(cell["missing"])  # what was not answered is not stored, and the reason neither
    assert json.dumps(one) == json.dumps(other)


def test_ladders_that_were_released_without_their_contexts_get_them_from_the_benchmark():
    bare = References(replace(ladder, context=None) for ladder in ladders())
    assert {ladder.context.text for ladder in evidence.of_task(bare, ratings())} == {
        f"Article {name}." for name in CONTEXTS
    }


@pytest.mark.skipif(not BENCHMARKS.exists(), reason="the benchmarks' texts are not in this repository")
def test_the_command_says_why_cells_are_empty_and_takes_the_contexts_of_generated_ladders(tmp_path, capsys):
    argv = ["evidence", "--data", str(BENCHMARKS), "--benchmark", "summeval", "--attribute", "coherence"]
    folder = tmp_path / "generated"
    name = "cnn-test-404f859482d47c127868964a9a39d1a7645dd2e9"
    References([factories.ladder(name, context=None)]).save(folder)
    argv += ["--ladders", f"generated={folder}", "--method", "ladder", "--method", "length", "-o", str(tmp_path)]
    assert main(argv) == 0
    printed = capsys.readouterr().out
    assert "16 texts of 1 contexts" in printed
    assert (tmp_path / "evidence.md").read_text() == printed
    assert json.loads((tmp_path / "evidence.json").read_text())["confidence"] == 0.9


@pytest.mark.slow
@pytest.mark.skipif(not BENCHMARKS.exists(), reason="the benchmarks' texts are not in this repository")
def test_a_table_of_real_texts_is_made_again_to_the_last_bit_from_stored_answers(tmp_path, capsys):
    """nano on TopicalChat, curated and generated rungs, as docs/evidence.md shows it. To record it anew, after a change
    of prompts or of these ladders (then xz ANSWERS, and take OUT/evidence.json):

    python -m papers evidence --data BENCHMARKS --benchmark topicalchat -m nano --limit 15 --method ladder \
        --attribute naturalness --attribute coherence --attribute engagingness --attribute groundedness \
        --ladders generated=data/references/generated/topicalchat --answers ANSWERS -o OUT
    """
    store = tmp_path / "answers.sqlite"
    store.write_bytes(lzma.decompress((DATA / "evidence_topicalchat.sqlite.xz").read_bytes()))
    argv = ["evidence", "--data", str(BENCHMARKS), "--benchmark", "topicalchat", "-m", f"recorded:{store}"]
    argv += ["--limit", "15", "--method", "ladder", "-o", str(tmp_path)]
    argv += ["--ladders", f"generated={REPOSITORY / 'data/references/generated/topicalchat'}"]
    for attribute in ("naturalness", "coherence", "engagingness", "groundedness"):
        argv += ["--attribute", attribute]
    assert main(argv) == 0
    printed = capsys.readouterr().out.splitlines()
    assert (tmp_path / "evidence.json").read_bytes() == (DATA / "evidence_topicalchat.json").read_bytes()
    rows = [line for line in printed if line.startswith("| nano | ladder |") and "- (1)" not in line]
    page = (REPOSITORY / "docs/evidence.md").read_text().splitlines()
    assert len(rows) == 5 + 8, "rows of scores, and of differences"
    assert [row for row in rows if row not in page] == []


@pytest.mark.slow
@pytest.mark.skipif(not BENCHMARKS.exists(), reason="the benchmarks' texts are not in this repository")
@pytest.mark.parametrize(("judge", "part", "limit"), [("smol", "SmolLM2", 15), ("qwen", "qwen", 8)])
def test_rows_of_small_language_models_are_made_again_to_the_last_bit(judge, part, limit, tmp_path, capsys):
    """The answers about generated rungs are those of Q4 GGUF files, asked in float32 in this process."""
    store = tmp_path / "answers.sqlite"
    store.write_bytes(lzma.decompress((DATA / "evidence_two_judges.sqlite.xz").read_bytes()))
    argv = ["evidence", "--data", str(BENCHMARKS), "--benchmark", "topicalchat", "--attribute", "coherence"]
    argv += ["-m", f"recorded:{store}#{part}", "--limit", str(limit), "--method", "ladder", "-o", str(tmp_path)]
    argv += ["--ladders", f"generated={REPOSITORY / 'data/references/generated/topicalchat'}"]
    assert main(argv) == 0
    again = json.loads((tmp_path / "evidence.json").read_text())
    recorded = json.loads((DATA / "evidence_two_judges.json").read_text())[judge]
    for kind, rows in recorded.items():
        assert [row for row in again[kind] if row["row"]["ladders"] == "generated"] == rows
    printed = [line for line in capsys.readouterr().out.splitlines() if "| ladder | generated |" in line]
    assert len(printed) == 3 + 2
    assert set(printed) <= set((REPOSITORY / "docs/evidence.md").read_text().splitlines())
