"""The embedded judge: it is what its card says, on texts that were written one at a time and it has never seen."""

import json
from pathlib import Path

import numpy as np
import pytest

from synthscore.engines import open_engine
from synthscore.evaluation.agreement import agreement
from synthscore.judging.asking import PROTOCOLS, Asking, Pair, ask
from synthscore.judging.templates import Templates, load_task
from synthscore.ladders.references import References
from synthscore.resources import resource
from synthscore.scoring.scorer import Scorer
from synthscore.types import Context, Target
from tests.fakes import FakeEngine
from tests.models import one_fast
from tests.test_numbers_stand import LADDERS, RecordedJudge, load_answers


@pytest.fixture(scope="module")
def nano():
    return open_engine("nano")


@pytest.fixture(scope="module")
def first24():
    return References.load(resource("data/references/curated/first24"))


def pairs(references, attribute, step):
    """Rung against rung, `step` apart, both ways round."""
    ladders = [ladder for ladder in references if ladder.attribute == attribute and ladder.task == "summarization"]
    return [
        Pair(ladder.context, attribute, one.text, other.text)
        for ladder in ladders
        for low, high in zip(ladder.rungs, ladder.rungs[step:], strict=False)
        for one, other in ((low, high), (high, low))
    ]


def test_nano_is_a_checkpoint_of_at_most_50_mb():
    folder = resource("data/nano")
    assert sum(file.stat().st_size for file in folder.iterdir()) <= 50e6
    config = json.loads((folder / "config.json").read_text())
    assert config["architectures"] == ["BertForMaskedLM"]
    assert config["synthscore"]["paragraph_end"] == "\n\n"
    assert config["max_position_embeddings"] == 1024


def test_nano_reads_texts_apart(nano):
    assert "backend:together" in str(nano.signature)


@pytest.mark.parametrize("protocol", one_fast(PROTOCOLS))
def test_nano_prefers_the_best_rung_to_the_worst_and_says_so_with_the_labels_of_the_protocol(nano, first24, protocol):
    asked = ask(pairs(first24, "fluency", 4), nano, Templates(load_task("summarization")), Asking(protocol))
    assert asked.label_mass.min() > 0.95
    assert not asked.failures
    if protocol != "yes_no_two_sided":  # it has not learnt that "worse" turns the question round
        worst, best = (asked.better - asked.worse).reshape(-1, 2).T
        assert worst.max() < 0 < best.min()


@pytest.mark.slow
def test_nano_turns_its_verdict_round_when_the_texts_change_places(nano, first24):
    margins = []
    for attribute in ("fluency", "relevance"):
        asked = ask(pairs(first24, attribute, 2), nano, Templates(load_task("summarization")))
        margins.append((asked.better - asked.worse).reshape(-1, 2))
    low, high = np.concatenate(margins).T
    assert np.corrcoef(low, -high)[0, 1] > 0.95  # 0.99 measured


@pytest.mark.slow
def test_nano_reads_contexts_of_any_length(nano):
    text = (Path(__file__).parent / "data" / "facts.jsonl").read_text(encoding="utf-8")
    articles = [json.loads(line)["document"] for line in text.splitlines()]
    context = Context("long", "\n\n".join(articles * 2).replace("\n", " "))  # one paragraph of 8,000 tokens and more
    said = ask(
        [Pair(context, "relevance", one, other) for one in articles[:1] for other in articles[1:3]],
        nano,
        Templates(load_task("summarization")),
        Asking("compare"),
    )
    assert not said.failures
    assert len(nano.prompts.tokenizer(context.text, verbose=False)["input_ids"]) > 8_000
    assert said.label_mass.min() > 0.95


def test_nano_ranks_the_rungs_of_ladders_that_were_written_one_at_a_time(first24):
    recorded = RecordedJudge(load_answers())  # of nano: test_numbers_stand holds it to them
    nano = FakeEngine(recorded)
    ladders = References.load(LADDERS)
    values, levels, names = [], [], []
    for task in first24.tasks:
        for attribute in first24.filter(task=task).attributes:
            scorer = Scorer(ladders, nano, task=task, attribute=attribute)
            for ladder in first24.filter(task=task, attribute=attribute):
                targets = [Target(f"{rung.level}", ladder.context_id, rung.text) for rung in ladder.rungs]
                # Some of these ladders lack a rung: then the middle of what the score could be.
                found = scorer.score(targets)
                values += [(s.low + s.high) / 2 if s.value is None else s.value for s in found]
                levels += [rung.level for rung in ladder.rungs]
                names += [f"{task}/{attribute}/{ladder.context_id}"] * ladder.n_rungs
    assert not recorded.missing
    found = agreement(values, levels, names)
    assert found.n_contexts == 24
    assert found.value > 0.5
