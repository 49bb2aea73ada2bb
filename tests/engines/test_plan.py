"""The plan of a tree against its mask: every token sees itself and its ancestors, each once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synthscore.engines.tree.plan import plan
from synthscore.engines.tree.trie import grow, pack

WORDS = st.lists(st.integers(0, 2), min_size=1, max_size=30)
LISTS = st.tuples(st.lists(st.integers(0, 1), max_size=40), st.lists(WORDS, min_size=1, max_size=12)).map(
    lambda drawn: [drawn[0] + end for end in drawn[1]]
)


def seen(tree, chunk, known):
    """How often each token of a chunk sees each token of the tree, shape (n_chunk, n_tree)."""
    by_path = {}
    for path in chunk.paths:
        for place, token in enumerate(path.tokens.tolist()):
            row = np.zeros(tree.n_tokens, dtype=int)
            row[path.tokens[: place + 1] + chunk.start] += 1
            for start, stop in path.stem:
                assert all(chunk.start <= token < chunk.stop or token in known for token in range(start, stop))
                row[start:stop] += 1
            by_path.setdefault(token, []).append(row)
    for rows in by_path.values():
        assert all(np.array_equal(row, rows[0]) for row in rows)
    return np.array([by_path[token][0] for token in range(len(chunk))])


def tokens(ranges):
    return {token for start, stop in ranges for token in range(start, stop)}


@given(LISTS, LISTS, st.integers(1, 70))
def test_every_token_sees_itself_and_its_ancestors_once(before, sequences, max_tokens):
    tree = grow(pack(before), sequences)
    mask = np.eye(tree.n_tokens, dtype=bool)
    for token, parent in enumerate(tree.parents):
        mask[token] |= parent >= 0 and mask[parent]
    end = pack(before).n_tokens
    read = set(range(end))
    needed = set()
    for chunk in plan(tree, max_tokens, end):
        assert chunk.start == end
        assert len(chunk) <= max_tokens
        assert np.array_equal(seen(tree, chunk, read | needed), mask[chunk.start : chunk.stop])
        end, needed = chunk.stop, tokens(chunk.needed)
    assert end == tree.n_tokens
    assert needed == set()


@given(LISTS, st.integers(1, 70))
def test_no_more_is_needed_than_the_way_to_the_next_chunk(sequences, max_tokens):
    tree = pack(sequences)
    for chunk in plan(tree, max_tokens):
        if chunk.needed:
            assert sum(b - a for a, b in chunk.needed) == tree.positions[chunk.stop]


def ladder(n_article=700, n_rung=90, n_target=110, n_rungs=3, n_targets=8):
    rng = np.random.default_rng(0)
    article = rng.integers(0, 1000, n_article).tolist()
    rungs = [article + rng.integers(0, 1000, n_rung).tolist() for _ in range(n_rungs)]
    return [rung + rng.integers(0, 1000, n_target).tolist() for rung in rungs for _ in range(n_targets)]


def test_what_many_prompts_share_is_a_stem_and_what_few_share_is_read_again():
    (chunk,) = plan(pack(ladder()), 10**6)
    stems = {path.stem for path in chunk.paths}
    assert sorted(sum(b - a for a, b in stem) for stem in stems) == [0, 700, 790, 790, 790]
    (chunk,) = plan(pack([[*sequence, label] for sequence in ladder() for label in (1, 2)]), 10**6)
    assert sorted({len(path.tokens) for path in chunk.paths}) == [90, 111, 700]  # two labels: no stem of 900 tokens


@pytest.mark.parametrize("max_tokens", [500, 1024, 2048])
def test_all_chunks_but_the_last_are_full(max_tokens):
    tree = pack(ladder(n_targets=40))
    sizes = [len(chunk) for chunk in plan(tree, max_tokens)]
    assert set(sizes[:-1]) == {max_tokens}
    assert sum(sizes) == tree.n_tokens
