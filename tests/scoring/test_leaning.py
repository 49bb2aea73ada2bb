"""Is a judge that says the same whatever it is shown noticed, and no other?"""

from synthscore.scoring.run import Leaning
from synthscore.types import Score, Verdict


def scores(better, n=10, swapped=None):
    """swapped : p(better) of the text when asked about the rung"""
    said = [Verdict(level, False, better, 1 - better, 0.0) for level in range(1, 6)]
    said += [Verdict(level, True, swapped, 1 - swapped, 0.0) for level in range(1, 6) if swapped is not None]
    return [Score(f"t{i}", "c", "coherence", 3.0, verdicts=tuple(said)) for i in range(n)]


def leaning(scores):
    """Added a score at a time, as a run adds its batches."""
    counted = Leaning()
    for score in scores:
        counted.add([score])
    return counted.words


def test_verdicts_that_lean_are_noticed():
    assert "contradicts itself in 100% of 50 pairs" in leaning(scores(0.9, swapped=0.1))
    assert "100% of 50 verdicts find the text the better one" in leaning(scores(0.9))
    assert "the worse one" in leaning(scores(0.1))


def test_verdicts_that_differ_agree_or_are_few_are_not_said_to_lean():
    assert leaning(scores(0.9, swapped=0.8)) == ""
    assert leaning(scores(0.9) + scores(0.4, n=1)) == ""
    assert leaning(scores(0.9, n=5)) == ""
    assert leaning([]) == ""
