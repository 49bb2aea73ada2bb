"""Sequences of paragraphs -> the order in which isolated.py reads them, so that what they share is read seldom."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from ..types import IntArray

SHARED, CUE = 0, -1
"""Parts of a sequence beside text 1 and text 2: what both texts see, and what is read behind them."""

Pieces = list[tuple[int, IntArray]]
"""The paragraphs of a sequence, each behind what it is."""


def sizes_of(pieces: Pieces) -> dict[tuple[int, bytes], int]:
    """Tokens of each paragraph of a sequence, by its part, and what this part holds up to the paragraph's end; of the
    cue, which each sequence has for itself, what the sequence holds."""
    begun: dict[int, bytes] = {}
    sizes: dict[tuple[int, bytes], int] = {}
    for part, paragraph in pieces:
        before = b"".join(begun.values()) if part == CUE else begun.get(part, b"")
        begun[part] = before + paragraph.tobytes()
        sizes[part, begun[part]] = len(paragraph)
    return sizes


def reading_order(cut: Sequence[Pieces], n_band: int) -> list[list[int]]:
    """Indices of sequences, those with the same shared paragraphs in one list, in an order that may be cut anywhere and
    has few texts on both sides of a cut.

    Of a sequence's two texts, one is in more sequences: a rung, where few rungs are compared with many targets. Such
    texts are taken in bands of about n_band tokens. In a band, sequences with the same other text are neighbours: so
    the band alone is read again behind a cut, and the other texts once a band, however many they are.
    """
    alike: dict[tuple[bytes, ...], dict[int, Pieces]] = defaultdict(dict)
    for index, pieces in enumerate(cut):
        shared = tuple(paragraph.tobytes() for part, paragraph in pieces if part == SHARED)
        alike[shared][index] = pieces
    return [_in_bands(alike[shared], n_band) for shared in sorted(alike)]


def _in_bands(cut: Mapping[int, Pieces], n_band: int) -> list[int]:
    texts = {index: [(part, _text(pieces, part)) for part in (1, 2)] for index, pieces in cut.items()}
    uses = Counter(text for pair in texts.values() for text in pair)
    pairs = {index: sorted(pair, key=lambda text: (uses[text], text[0])) for index, pair in texts.items()}
    n_before: Counter[int] = Counter()  # tokens of each part
    bands: dict[tuple[int, tuple[int, ...]], tuple[int, int]] = {}
    for part, ids in sorted({common for _, common in pairs.values()}):
        bands[part, ids] = part, n_before[part] // n_band
        n_before[part] += len(ids)
    return sorted(cut, key=lambda index: (bands[pairs[index][1]], *pairs[index]))


def _text(pieces: Pieces, part: int) -> tuple[int, ...]:
    return tuple(token for its_part, paragraph in pieces if its_part == part for token in paragraph.tolist())
