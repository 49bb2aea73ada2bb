"""The metric of deepeval, in deepeval."""

import asyncio
import os

import pytest

from .conftest import text

os.environ["DEEPEVAL_TELEMETRY_OPT_OUT"] = "YES"
deepeval = pytest.importorskip("deepeval", reason="deepeval is not installed: make test-integrations")

from deepeval.evaluate.configs import AsyncConfig, CacheConfig, DisplayConfig  # noqa: E402
from deepeval.test_case import LLMTestCase  # noqa: E402

import synthscore as ss  # noqa: E402
from synthscore.integrations.deepeval import SynthscoreMetric  # noqa: E402
from synthscore.integrations.mount import Mount  # noqa: E402


def case(quality, context_id="c1"):
    return LLMTestCase(input="q", actual_output=text(quality), metadata={"context_id": context_id})


def evaluate(cases, metric, run_async, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for index, each in enumerate(cases):
        each.name = str(index)
    found = deepeval.evaluate(
        cases,
        [metric],
        async_config=AsyncConfig(run_async=run_async),
        display_config=DisplayConfig(show_indicator=False, print_results=True),
        cache_config=CacheConfig(write_cache=False),
    )
    return [result.metrics_data[0] for result in sorted(found.test_results, key=lambda result: int(result.name))]


@pytest.mark.parametrize("run_async", [True, False])
def test_each_test_case_has_its_own_score_and_one_judge_is_loaded(judge, ladders, run_async, tmp_path, monkeypatch):
    metric = SynthscoreMetric(Mount(references=ladders, attribute="coherence"), threshold=0.5)
    qualities = [1 + k / 5 for k in range(20)]
    found = evaluate([case(quality) for quality in qualities], metric, run_async, tmp_path, monkeypatch)
    targets = [ss.Target(str(k), "c1", text(quality)) for k, quality in enumerate(qualities)]
    expected = ss.Scorer(ladders, "nano").score(targets)
    assert [data.score for data in found] == pytest.approx([(value - 1) / 4 for value in expected.values])
    assert [data.success for data in found] == [value >= 3 for value in expected.values]
    assert found[0].reason == f"{expected[0].value:.2f} on the scale of the ladder's rungs"
    assert found[0].name.startswith("synthscore (coherence)")


def test_what_cannot_be_scored_fails_with_an_error_and_without_a_number(judge, ladders, tmp_path, monkeypatch):
    cases = [case(4, "elsewhere"), LLMTestCase(input="q", actual_output=text(4)), case(4)]
    *unscored, good = evaluate(cases, SynthscoreMetric(Mount(references=ladders)), True, tmp_path, monkeypatch)
    assert [(data.score, data.success) for data in unscored] == [(None, False)] * 2
    assert all("there is no ladder" in data.error for data in unscored)
    assert good.success


def test_an_assertion_fails_below_its_threshold(judge, ladders, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    deepeval.assert_test(case(4), [SynthscoreMetric(Mount(references=ladders))])
    with pytest.raises(AssertionError, match="synthscore"):
        deepeval.assert_test(case(1), [SynthscoreMetric(Mount(references=ladders))])


def test_a_text_is_measured_where_an_event_loop_runs_as_in_a_notebook(judge, ladders):
    metric = SynthscoreMetric(Mount(references=ladders))

    async def cell():
        return metric.measure(case(4)), await metric.a_measure(case(4))

    now, later = asyncio.run(cell())
    assert now == later == metric.score
