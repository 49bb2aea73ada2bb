"""Groups of texts of known damage -> the trees of prompts that the embedded judge learns from."""

from dataclasses import replace

import numpy as np
import pytest

from synthscore.prompts import Templates
from synthscore.tasks import load_task
from tests.tokenizers_for_tests import word_piece
from training.examples import PROTOCOLS, SMOOTHING, answer, example, prompts
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
    return word_piece()


def read_back(made, node, n):
    """The n tokens that end at a node of the tree."""
    ids = []
    for _ in range(n):
        ids.append(int(made.packed.ids[node]))
        node = made.packed.parents[node]
    return ids[::-1]


def test_the_right_answer_follows_the_severities_and_turns_with_the_question():
    assert np.argmax(answer(0.6, "compare")) == 0
    assert np.argmax(answer(-0.6, "compare")) == 1
    assert np.argmax(answer(0.0, "compare")) == 2
    assert answer(0.6, "yes_no") == [1 - SMOOTHING, SMOOTHING] == answer(-0.6, "yes_no", worse=True)
    assert answer(0.6, "choose") == answer(0.6, "yes_no")
    assert answer(0.0, "yes_no") == answer(0.0, "choose") == [0.5, 0.5]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_tree_holds_every_ordered_pair_in_its_whole_prompt(protocol, tokenizer):
    made = example(GROUP, protocol, TEMPLATES, tokenizer)
    triples = prompts(GROUP, protocol, TEMPLATES)
    assert len(triples) == 6
    for end, (_, _, text) in zip(made.packed.ends, triples, strict=True):
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        assert read_back(made, end, len(ids)) == ids
    np.testing.assert_allclose(made.answers.sum(axis=1), 1)
    assert made.gaps == pytest.approx([0.4, 1.0, -0.4, 0.6, -1.0, -0.6])


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_token_of_a_text_is_told_how_damaged_its_text_is(protocol, tokenizer):
    made = example(GROUP, protocol, TEMPLATES, tokenizer)
    whole = np.flatnonzero(made.weights == 1)  # a text has been read to its end
    for text, severity in zip(GROUP.texts, GROUP.severities, strict=True):
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        nodes = [made.nodes[i] for i in whole if made.severities[i] == severity]
        assert len(nodes) == 3  # once as the first text, twice as the second
        assert all(read_back(made, node, len(ids)) == ids for node in nodes)
    assert len(set(made.nodes)) == len(made.nodes)


def test_nothing_is_cut_a_group_that_does_not_fit_is_left_out(tokenizer):
    assert example(GROUP, "compare", TEMPLATES, tokenizer, max_tokens=50) is None


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_token_is_told_whether_the_damage_is_at_its_word(protocol, tokenizer):
    marked = ((False,) * 3, (False, False, True, False), None)
    made = example(replace(GROUP, damaged=marked), protocol, TEMPLATES, tokenizer)
    for severity, words, text in zip(GROUP.severities, marked, GROUP.texts, strict=True):
        expected = [
            mark
            for word, mark in zip(text.split(), words or (np.nan,) * 4, strict=True)
            for _ in tokenizer(word, add_special_tokens=False)["input_ids"]
        ]
        for end in np.flatnonzero((made.weights == 1) & (made.severities == severity)):
            node, seen = made.nodes[end], []
            for _ in expected:
                seen.append(made.damaged[list(made.nodes).index(node)])
                node = made.packed.parents[node]
            # a text that begins as another one does shares its first tokens, and what is said of them
            np.testing.assert_array_equal(seen[: len(expected) - 2], expected[:1:-1])


def test_where_the_damage_is_may_be_unknown(tokenizer):
    assert np.isnan(example(GROUP, "compare", TEMPLATES, tokenizer).damaged).all()


def test_the_opposite_of_a_prompt_asks_about_the_other_text(tokenizer):
    made = example(GROUP, "compare", TEMPLATES, tokenizer)
    asked = [(i, j) for i, j, _ in prompts(GROUP, "compare", TEMPLATES)]
    assert [asked[place] for place in made.opposite] == [(j, i) for i, j in asked]
