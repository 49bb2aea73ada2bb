import pytest

from synthscore.engine import EngineError
from tests.fakes import FakeEngine
from training.small_models import beginning, ideas, write


def test_an_article_begins_with_the_most_paragraphs_that_fit_and_ends_in_a_sentence():
    first, second, third = "a" * 949 + ".", "b" * 899 + ".", "c" * 299 + "."
    assert beginning("\n\n".join([first, second, third])) == f"{first}\n\n{second}"
    assert beginning("\n\n".join([first[:-1], third * 10])) == ""  # ends in no sentence
    assert beginning("\n\n".join([third, third])) == ""  # too short


def test_each_context_gets_its_own_texts_in_its_own_place():
    engine = FakeEngine(writer=lambda prompt, seed: f"of {prompt.text[-1]},\n drawn {seed}")
    rows = [{"task": "story", "context": "1"}, {"task": "story", "context": "2"}]
    found = list(write(engine, rows, 2, 0.9))
    assert found == [
        {"task": "story", "context": "1", "texts": ["of 1, drawn 0", "of 1, drawn 1"]},
        {"task": "story", "context": "2", "texts": ["of ., drawn 2", "of ., drawn 3"]},  # asked in other words
    ]


def test_a_prompt_that_fails_is_an_error_and_no_text_is_lost():
    def fails(prompt, seed):
        raise EngineError("no answer")

    with pytest.raises(EngineError, match="no answer"):
        list(write(FakeEngine(writer=fails), [{"task": "story", "context": "1"}], 1, 0.9))


def test_ideas_are_those_of_the_written_stories_once_each():
    found = [row["context"] for row in ideas()]
    assert len(found) > 50
    assert len(set(found)) == len(found)
