"""Prompt scoring: the number that a judge writes."""

import pytest

from papers.methods.prompt_scoring import first_number
from synthscore.errors import EngineError
from synthscore.evaluation.methods import MethodError, Tools, method
from synthscore.judging.asking import Asking
from tests.factories import rated
from tests.fakes import FakeEngine, reading_judge

ONE = {"c1": (2.0,)}


def scores(spec, ratings=None, engine=None, templates="default"):
    engine = engine or FakeEngine(reading_judge())
    return method(spec)(ratings or rated(), "coherence", Tools(engine, asking=Asking(prompts=templates)))


def writing(*texts):
    """A judge that writes these, one a text."""
    left = iter(texts)
    return FakeEngine(writer=lambda prompt, seed: next(left))


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *[
            ("8", 8),
            ("Score: 8", 8),
            (" 8.", 8),
            ("8/10", 8),
            ("10/10", 10),
            ("10", 10),
            ("9 out of 10", 9),
            ("7-8", 7),
        ],
        *[("On a scale of 1 to 10, I say 6", 6), ("between 1 and 10: 7", 7), ("(1-10) 3", 3), ("In 2023: 4", 4)],
        *[("8.5 out of 10", None), ("8,5", None), ("-8", None), ("0", None), ("11", None), ("eight", None), ("", None)],
    ],
)
def test_the_first_whole_number_on_the_scale_is_read(text, number):
    assert first_number(text, 1, 10) == number


def test_prompt_scoring_reads_what_is_written_greedily_and_nothing_is_made_of_the_rest():
    engine = writing("7", "I would say 9.", "good", EngineError("it broke"))
    found = scores("prompt-scoring", rated({"c1": (1.0, 2.0, 3.0, 4.0)}), engine)
    assert [score.value for score in found] == [7.0, 9.0, None, None]
    assert found[2].reason == "the judge wrote 'good', expected a whole number from 1 to 10"
    assert found[3].reason == "it broke"
    assert found.n_unscored == 2
    assert engine.calls == [("write", 4)]
    assert "from 1 (lowest) to 10 (highest)" in engine.written[0].text


def test_what_is_written_is_short_and_not_drawn():
    seen = []

    class Watched(FakeEngine):
        def answer_alike(self, questions, progress):
            seen.append(questions[0].sampling)
            return super().answer_alike(questions, progress)

    scores("prompt-scoring", engine=Watched(writer=lambda prompt, seed: "5"))
    assert [(sampling.temperature, sampling.max_new_tokens) for sampling in seen] == [(0.0, 10)]


def test_prompt_scoring_takes_probabilities_only_when_told_to():
    engine = FakeEngine(reading_judge(), writer=lambda prompt, seed: "4")
    assert set(scores("prompt-scoring", engine=engine).values) == {4.0}
    assert engine.n_judged == 0
    expected = scores("prompt-scoring:score_mode=expectation", engine=engine).values
    assert expected.tolist() == scores("g-eval:scale=1-10", engine=engine).values.tolist()


def test_the_papers_prompts_are_templates_of_the_paper_set():
    engine = writing(*["5"] * 16)
    seen = {}
    for name in ("rate", "rate_s1", "rate_s2"):
        found = scores(f"prompt-scoring:template={name}", rated(ONE), engine, "paper")
        assert f"|template:paper/{name}@" in str(found.signature)
        seen[name] = engine.written[-1].text
        assert all(text in seen[name] for text in ("Text of q=2.0 .", "An article, c1.", "1", "10"))
    assert len(set(seen.values())) == 3
    assert seen["rate"].index("well-organised") < seen["rate"].index("An article")
    assert seen["rate_s1"].startswith("An article, c1.\n\nSummary: Text")
    assert "the more coherent it is, the higher" in seen["rate_s2"]


@pytest.mark.parametrize("option", ["min_mass=0.1", "samples=2", "seed=1"])
def test_options_of_probabilities_are_refused_where_none_is_read(option):
    with pytest.raises(MethodError, match="nothing with score_mode=text"):
        method(f"prompt-scoring:{option}")
