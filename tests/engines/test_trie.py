import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synthscore.engines.tree.trie import grow, pack

SEQUENCES = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=8), max_size=12)


def prefixes(sequences):
    return {tuple(sequence[:n]) for sequence in sequences for n in range(1, len(sequence) + 1)}


def path_to(packed, index):
    path = []
    while index >= 0:
        path.append(int(index))
        index = packed.parents[index]
    return path[::-1]


def test_a_shared_beginning_is_one_branch():
    packed = pack([[5, 6, 7], [5, 6, 8, 9], [5]])
    assert packed.ids.tolist() == [5, 6, 7, 8, 9]
    assert packed.positions.tolist() == [0, 1, 2, 2, 3]
    assert packed.parents.tolist() == [-1, 0, 1, 1, 3]
    assert packed.ends.tolist() == [2, 4, 0]


@given(SEQUENCES)
def test_there_is_one_token_for_every_distinct_prefix(sequences):
    assert pack(sequences).n_tokens == len(prefixes(sequences))


@given(SEQUENCES)
def test_each_sequence_is_read_back_along_its_parents(sequences):
    packed = pack(sequences)
    for sequence, end in zip(sequences, packed.ends, strict=True):
        path = path_to(packed, end)
        assert packed.ids[path].tolist() == sequence
        assert packed.positions[path].tolist() == list(range(len(sequence)))


@given(SEQUENCES)
def test_parents_come_before_their_children_and_subtrees_are_unbroken(sequences):
    packed = pack(sequences)
    assert (packed.parents < np.arange(packed.n_tokens)).all()
    for index in range(packed.n_tokens):
        inside = [index in path_to(packed, other) for other in range(index, packed.n_tokens)]
        assert inside == sorted(inside, reverse=True)


@given(SEQUENCES, SEQUENCES)
def test_a_tree_grows_by_what_it_does_not_have(before, sequences):
    first = pack(before)
    grown = grow(first, sequences)
    for name in ("ids", "positions", "parents"):
        assert getattr(grown, name)[: first.n_tokens].tolist() == getattr(first, name).tolist()
    for sequence, end in zip(sequences, grown.ends, strict=True):
        path = path_to(grown, end)
        assert grown.ids[path].tolist() == sequence
        assert grown.positions[path].tolist() == list(range(len(sequence)))
        assert end >= first.n_tokens  # it is read now
    known = prefixes(before)
    again = {tuple(s) for s in sequences} & known  # read once more, for what follows them
    assert grown.n_tokens - first.n_tokens == len(prefixes(sequences) - known) + len(again)


@pytest.mark.parametrize("sequences", [[[]], [[1], []], [[-1]]])
def test_what_is_not_a_token_sequence_is_refused(sequences):
    with pytest.raises(ValueError, match="expected token ids"):
        pack(sequences)
