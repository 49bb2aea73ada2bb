"""Prompt scoring: the number that a judge writes."""

import pytest

from papers.methods.prompt_scoring import first_number
from synthscore.engine import Sampling
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


class Watched(FakeEngine):
    """Notes the questions."""

    def answer_alike(self, questions, progress):
        self.questions = list(questions)
        return super().answer_alike(questions, progress)


def watched(spec, **options):
    """What is asked, and the scores."""
    engine = Watched(writer=lambda prompt, seed: str(1 + seed % 10))
    found = scores(spec, engine=engine, **options)
    return engine.questions, found


def test_what_is_written_is_short_and_not_drawn():
    questions, found = watched("prompt-scoring")
    assert {(each.sampling.temperature, each.sampling.max_new_tokens) for each in questions} == {(0.0, 10)}
    assert {each.seed for each in questions} == {0}
    assert str(found.signature).endswith("|scoring:text")


def test_the_papers_own_settings_are_options_and_draw_from_all_tokens():
    questions, found = watched("prompt-scoring:temperature=1,max_new_tokens=5")
    assert {each.sampling for each in questions} == {Sampling(5, 1.0, top_p=1.0)}
    assert str(found.signature).endswith("|scoring:text,temperature=1,seed=0,max_new_tokens=5")
    assert str(watched("prompt-scoring:max_new_tokens=5")[1].signature).endswith("|scoring:text,max_new_tokens=5")


def test_what_is_drawn_for_a_text_depends_on_the_seed_and_its_ids_and_not_on_the_other_texts():
    two, one = rated({"c1": (1.0, 2.0), "c2": (3.0, 4.0)}), rated({"c2": (3.0, 4.0)})
    drawn = {seed: watched(f"prompt-scoring:temperature=1,seed={seed}", ratings=two) for seed in (0, 1)}
    assert len({each.seed for questions, _ in drawn.values() for each in questions}) == 8
    alone, found = watched("prompt-scoring:temperature=1", ratings=one)
    assert [each.seed for each in alone] == [each.seed for each in drawn[0][0]][2:]
    assert found.values.tolist() == drawn[0][1].values.tolist()[2:]


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


@pytest.mark.parametrize("option", ["min_mass=0.1", "samples=2"])
def test_options_of_probabilities_are_refused_where_none_is_read(option):
    with pytest.raises(MethodError, match="nothing with score_mode=text"):
        method(f"prompt-scoring:{option}")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("seed=1", "seed=1 does nothing where nothing is drawn. Say temperature=T"),
        ("seed=1,temperature=0", "seed=1 does nothing where nothing is drawn"),
        ("temperature=1,score_mode=argmax", "temperature and max_new_tokens do nothing with score_mode=argmax"),
        ("max_new_tokens=10,score_mode=expectation", "temperature and max_new_tokens do nothing"),
        ("temperature=-1", "temperature is '-1', expected a number of 0 or more"),
        ("max_new_tokens=0", "max_new_tokens is '0', expected a whole number of 1 or more"),
    ],
)
def test_options_that_do_nothing_are_refused(options, why):
    with pytest.raises(MethodError, match=why):
        method(f"prompt-scoring:{options}")
