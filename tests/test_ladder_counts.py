"""benchmarks/ladder_counts.py: what can be counted of a rung, and whether it tells the rungs of a ladder apart."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest

from benchmarks import ladder_counts
from benchmarks.ladder_counts import (
    copied_runs,
    counts_of,
    figures,
    pairs_in_order,
    seen_pairs,
    spearman,
    together,
    words_of,
)
from synthscore.ladders.references import References
from synthscore.types import Context, Ladder, Rung

SOURCE = "The pipe cost 310 pounds, of which the county paid 180. The kindergarten next to the school has to wait."


def ladder(context_id, texts, attribute="consistency"):
    context = Context(context_id, SOURCE)
    rungs = tuple(Rung(i, (i - 1) / (len(texts) - 1), text) for i, text in enumerate(texts, 1))
    return Ladder(context_id, "summarization", attribute, rungs, context)


def test_copied_runs_are_the_longest_ones_from_left_to_right():
    source = words_of("a b c d e a b x")
    assert copied_runs(words_of("z a b x q c d e"), source) == [(3, 5), (3, 2)]
    assert copied_runs(words_of("a b c"), source) == [(3, 0)]
    assert copied_runs(words_of("a q c"), source) == []


def test_the_counts_of_a_text_are_those_counted_by_hand():
    counts = counts_of("The county paid 310 pounds, and the county waited 9 years.", SOURCE)
    assert counts["length"] == 11
    assert counts["type-token ratio"] == pytest.approx(9 / 11)
    # the county, county paid, 310 pounds, the county again
    assert counts["overlap of pairs"] == pytest.approx(4 / 10)
    assert counts["overlap of content words"] == pytest.approx(5 / 8)  # county paid 310 pounds county, of eight
    assert counts["copied span"] == pytest.approx(3 / 11)
    assert counts["longest run"] == pytest.approx(np.log(4))
    assert counts["density of runs"] == pytest.approx(np.log1p((9 + 4 + 4) / 11))
    assert counts["unsupported numbers"] == pytest.approx(1 / 11)
    assert counts["unsupported words"] == pytest.approx(3 / 11)
    assert counts["runs in the source's order"] == pytest.approx(1 / 2)
    assert counts["repeated pairs"] == pytest.approx(1 / 10)
    assert counts["ends on a full stop"] == 1
    assert counts["place of the runs"] == pytest.approx(np.mean([7, 3, 7]) / 20)
    assert "unseen pairs" not in counts


def test_a_pair_of_words_that_the_corpus_has_is_seen():
    assert counts_of("the pipe sang", SOURCE, seen_pairs(["The pipe cost much."]))["unseen pairs"] == 0.5


def test_only_words_near_the_end_of_the_context_count_as_its_end():
    source = "red kite " + "word " * 50 + "blue kite"
    assert counts_of("blue kite", source)["pairs of the source's end"] == 1
    assert counts_of("red kite", source)["pairs of the source's end"] == 0


def test_a_count_that_all_rungs_share_tells_nothing():
    assert spearman(np.array([2.0, 2.0, 2.0])) == 0
    assert spearman(np.array([1.0, 2.0, 5.0])) == pytest.approx(1)


def test_means_are_over_the_ladders_of_an_attribute_and_of_a_task():
    rising = ladder("a", ["One.", "One two.", "One two three."])
    falling = ladder("b", ["One two three.", "One two.", "One."])
    other = ladder("a", ["One.", "One two.", "One two three."], "relevance")
    found = figures([rising, falling, other])
    assert found["summarization", "consistency"]["length"] == pytest.approx(0)
    assert found["summarization", "relevance"]["length"] == pytest.approx(1)
    assert found["summarization", ""]["length"] == pytest.approx(1 / 3)
    assert found["summarization", ""]["ladders"] == 3


def test_the_counts_together_are_weighed_on_other_contexts_alone():
    up, down = {"n": np.array([1.0, 2.0, 3.0])}, {"n": np.array([3.0, 2.0, 1.0])}
    assert together([up, up], ["a", "b"]) == pytest.approx([1, 1])
    assert together([up, down], ["a", "b"]) == pytest.approx([-1, -1])  # what one teaches is wrong for the other
    assert together([up, up], ["a", "a"]) == [0, 0]


def test_pairs_in_order_is_what_counts_order_that_other_contexts_taught():
    texts = ["One.", "One two.", "One two three.", "One two three four."]
    swapped = [texts[1], texts[0], *texts[2:]]
    rising = [ladder(context_id, texts) for context_id in "abcdefgh"]
    assert pairs_in_order(rising) == [1] * len(rising)
    assert pairs_in_order([*rising, ladder("z", swapped)])[-1] == pytest.approx(5 / 6)
    assert pairs_in_order([*rising, ladder("z", texts[::-1])])[-1] == 0


def test_pairs_in_order_is_chance_for_a_single_context_and_unknown_without_contexts():
    one = ladder("a", ["One.", "One two.", "One two three."])
    assert pairs_in_order([one, one]) == [0.5, 0.5]
    assert np.isnan(pairs_in_order([replace(one, context=None)])).all()


def test_the_script_reads_releases_and_writes_its_figures(tmp_path, monkeypatch, capsys):
    References((ladder("a", ["One.", "One two.", "One two three."]),)).save(tmp_path / "refs")
    out = tmp_path / "figures.json"
    monkeypatch.setattr(sys, "argv", ["ladder_counts", str(tmp_path / "refs"), "--json", str(out)])
    ladder_counts.main()
    assert "+1.00*" in capsys.readouterr().out
    rows = json.loads(out.read_text())
    assert {(row["attribute"], row["length"]) for row in rows} == {("consistency", 1.0), ("", 1.0)}
