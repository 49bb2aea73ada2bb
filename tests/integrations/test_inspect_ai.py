"""The scorer of Inspect, in Inspect: an eval, a log that is scored afterwards, and what its command line finds."""

import math
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import text

inspect_ai = pytest.importorskip("inspect_ai", reason="Inspect is not installed: make test-integrations")

from inspect_ai.dataset import Sample  # noqa: E402
from inspect_ai.model import ModelOutput, ModelUsage, get_model  # noqa: E402

import synthscore as ss  # noqa: E402
from synthscore.cli.app import main  # noqa: E402
from synthscore.integrations.inspect_ai import score  # noqa: E402


@pytest.fixture
def log(tmp_path):
    """Of four samples: a poor text, a good one, none, and one of a context that has no ladder."""
    samples = [Sample(input="q", id=k, metadata={"context_id": f"c{k}"}) for k in (1, 2)]
    samples += [Sample(input="q", id=3, metadata={"context_id": "c1"}), Sample(input="no ladder", id=4)]
    said = iter([text(2), text(4), " ", text(4)])

    def make(scorer=None):
        outputs = [ModelOutput.from_content("m", each) for each in said]
        for output in outputs:
            output.usage = ModelUsage()  # else it counts tokens, by a table that it downloads
        model = get_model("mockllm/model", custom_outputs=outputs)
        task = inspect_ai.Task(dataset=samples, scorer=scorer)
        [done] = inspect_ai.eval(task, model=model, log_dir=str(tmp_path), display="none", max_samples=1)
        assert done.status == "success", done.error
        return done

    return make


def check(log, ladders):
    found = {sample.id: sample.scores["score"] for sample in log.samples}
    expected = ss.Scorer(ladders, "nano").score([ss.Target(str(k), f"c{k}", text(2 * k)) for k in (1, 2)])
    assert [found[k].value for k in (1, 2)] == pytest.approx(list(expected.values))
    assert found[1].metadata["signature"] == str(expected.signature)
    assert [math.isnan(found[k].value) for k in (3, 4)] == [True, True]
    assert [found[k].reason for k in (3, 4)] == ["no_response", "scoring_failed"]
    assert "there is no ladder" in found[4].explanation
    [results] = log.results.scores
    assert results.metrics["mean"].value == pytest.approx(expected.values.mean())
    assert results.unscored_samples == 2


def test_an_eval_is_scored_while_it_runs(judge, ladders, log):
    check(log(score(ladders)), ladders)


def test_a_log_is_scored_afterwards(judge, ladders, log):
    check(inspect_ai.score(log(), score(ladders, attribute="coherence"), display="none"), ladders)


def test_scores_of_a_log_by_our_own_command_come_back_as_precomputed_ones(judge, ladders, log, tmp_path, monkeypatch):
    from inspect_ai.scorer import mean, precomputed_scores

    monkeypatch.chdir(tmp_path)
    done = log()
    command = ["score", done.location.removeprefix("file://"), "--from", "inspect", "--references", ladders]
    assert main([*command, "--to", "inspect", "-o", "scores.jsonl"]) == 3  # two of four cannot be scored
    scored = inspect_ai.score(done, precomputed_scores("scores.jsonl", metrics=[mean()]), display="none")
    expected = ss.Scorer(ladders, "nano").score([ss.Target(str(k), f"c{k}", text(2 * k)) for k in (1, 2)])
    [results] = scored.results.scores
    assert results.metrics["mean"].value == pytest.approx(expected.values.mean())
    assert results.scored_samples == 2


@pytest.mark.slow
def test_the_command_line_finds_the_scorer_by_its_name(tmp_path, log):
    from tests import factories
    from tests.scoring.test_scorer import ladder

    factories.references(ladder("c1"), ladder("c2")).save(tmp_path / "ladders")
    done = log()
    arguments = ["-S", f"references={tmp_path / 'ladders'}", "-S", "store=none", "--output-file", "scored.eval"]
    inspect = Path(sys.executable).with_name("inspect")
    subprocess.run(
        [inspect, "score", done.location, "--scorer", "synthscore/score", *arguments, "--display", "plain"],
        cwd=tmp_path,
        check=True,
    )
    from inspect_ai.log import read_eval_log

    [first, second, *_] = read_eval_log(str(tmp_path / "scored.eval")).samples
    assert all(1 <= sample.scores["score"].value <= 5.5 for sample in (first, second))
