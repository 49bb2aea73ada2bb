"""Groups of texts of known damage -> the prompts that the embedded judge learns from."""

from dataclasses import replace

import numpy as np
import pytest
from transformers import AddedToken

from synthscore.judging.templates import Templates, load_task
from tests.models import word_piece
from training.examples import ALONE, BREAK, PROTOCOLS, SMOOTHING, alone, answer, example, prompts
from training.groups import Group

GROUP = Group(
    task="summarization",
    attribute="fluency",
    context="A ferry stopped near an island. Nobody was hurt.",
    facts="",
    texts=("A ferry stopped.", "A ferry ferry stopped.", "Ferry a stopped ferry."),
    severities=(0.0, 0.4, 1.0),
    kinds=("good", "doubled-word", "shuffled-window"),
)
TEMPLATES = Templates(load_task("summarization"))


@pytest.fixture(scope="module")
def tokenizer():
    made = word_piece()
    made.add_tokens([AddedToken(BREAK, normalized=False, special=False)])
    return made


def path(made, prompt):
    """The tokens of a prompt, as places in the plan."""
    spans = [range(made.plan.starts[p], made.plan.starts[p + 1]) for p in made.plan.paths[prompt]]
    return [i for span in spans for i in span]


def made_by(protocol, group, tokenizer):
    if protocol == ALONE:
        return alone(group, TEMPLATES, tokenizer)
    return example(group, protocol, TEMPLATES, tokenizer)


def test_the_right_answer_follows_the_severities_and_turns_with_the_question():
    assert np.argmax(answer(0.6, "compare")) == 0
    assert np.argmax(answer(-0.6, "compare")) == 1
    assert np.argmax(answer(0.0, "compare")) == 2
    assert answer(0.6, "yes_no") == [1 - SMOOTHING, SMOOTHING] == answer(-0.6, "yes_no", worse=True)
    assert answer(0.6, "choose") == answer(0.6, "yes_no")
    assert answer(0.0, "yes_no") == answer(0.0, "choose") == [0.5, 0.5]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_plan_holds_every_ordered_pair_in_its_whole_prompt(protocol, tokenizer):
    made = example(GROUP, protocol, TEMPLATES, tokenizer)
    triples = prompts(GROUP, protocol, TEMPLATES)
    assert len(triples) == 6
    for prompt, (_, _, text) in enumerate(triples):
        assert made.plan.ids[path(made, prompt)].tolist() == tokenizer(text, add_special_tokens=False)["input_ids"]
    np.testing.assert_allclose(made.answers.sum(axis=1), 1)
    assert made.gaps == pytest.approx([0.4, 1.0, -0.4, 0.6, -1.0, -0.6])


@pytest.mark.parametrize("protocol", [*PROTOCOLS, ALONE])
def test_the_end_of_every_text_is_told_how_damaged_it_is(protocol, tokenizer):
    made = made_by(protocol, GROUP, tokenizer)
    for text, severity in zip(GROUP.texts, GROUP.severities, strict=True):
        ids = tokenizer(f"{text}{BREAK}", add_special_tokens=False)["input_ids"]
        ends = made.ends[made.severities == severity]
        assert len(ends) == (1 if protocol == ALONE else 2)  # once as the first text, once as the second
        assert all(made.plan.ids[end + 1 - len(ids) : end + 1].tolist() == ids for end in ends)
    assert len(set(made.ends)) == len(made.ends)


def test_nothing_is_cut_a_group_that_does_not_fit_is_left_out(tokenizer):
    assert example(GROUP, "compare", TEMPLATES, tokenizer, max_tokens=50) is None


@pytest.mark.parametrize("protocol", [*PROTOCOLS, ALONE])
def test_every_token_is_told_whether_the_damage_is_at_its_word(protocol, tokenizer):
    marked = ((False,) * 3, (False, False, True, False), None)
    made = made_by(protocol, replace(GROUP, damaged=marked), tokenizer)
    told = dict(zip(made.nodes.tolist(), made.damaged, strict=True))
    n_told = 0
    for severity, words, text in zip(GROUP.severities, marked, GROUP.texts, strict=True):
        expected = [
            mark
            for word, mark in zip(text.split(), words or (np.nan,) * 4, strict=True)
            for _ in tokenizer(word, add_special_tokens=False)["input_ids"]
        ]
        for end in made.ends[made.severities == severity]:
            seen = [told[place] for place in range(end - len(expected), end)]
            np.testing.assert_array_equal(seen, expected)
            n_told += len(seen)
    assert n_told == len(told)  # and no other token is


def test_alone_nothing_is_asked_and_the_first_text_is_read_as_in_a_question(tokenizer):
    made, asked = made_by(ALONE, GROUP, tokenizer), made_by("compare", GROUP, tokenizer)
    assert made.answers.shape == (0, 3)
    assert len(made.gaps) == len(made.opposite) == 0
    texts = {tuple(made.plan.ids[path(made, k)]) for k in range(len(GROUP.texts))}
    firsts = {tuple(asked.plan.ids[path(asked, k)]) for k in range(len(asked.gaps))}
    assert len(texts) == 3
    assert all(any(whole[: len(text)] == text for whole in firsts) for text in texts)
    assert alone(GROUP, TEMPLATES, tokenizer, max_tokens=50) is None


def test_where_the_damage_is_may_be_unknown(tokenizer):
    assert np.isnan(example(GROUP, "compare", TEMPLATES, tokenizer).damaged).all()


def test_the_opposite_of_a_prompt_asks_about_the_other_text(tokenizer):
    made = example(GROUP, "compare", TEMPLATES, tokenizer)
    asked = [(i, j) for i, j, _ in prompts(GROUP, "compare", TEMPLATES)]
    assert [asked[place] for place in made.opposite] == [(j, i) for i, j in asked]


def test_each_token_is_told_whether_the_context_has_its_word_and_the_pair_with_the_word_before(tokenizer):
    texts = ("A ferry stopped.", "An island ferry, a ferry.")
    group = replace(GROUP, texts=texts, severities=(0.0, 0.0), kinds=("good", "good"))
    made = alone(group, TEMPLATES, tokenizer)
    found = dict(zip(made.nodes.tolist(), made.found.tolist(), strict=True))
    told = [found[token] for token in made.plan.places(made.plan.paragraphs_of(1, 1)).tolist() if token in found]
    words = ("An", "island", "ferry", ",", "a", "ferry", ".")
    right = [(1.0, np.nan), (1.0, 1.0), (1.0, 0.0), (np.nan, np.nan), (1.0, 0.0), (1.0, 1.0), (np.nan, np.nan)]
    expected = [pair for word, pair in zip(words, right, strict=True) for _ in tokenizer.tokenize(word)]
    np.testing.assert_equal(told, expected)
