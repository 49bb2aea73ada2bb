import json
from itertools import cycle

import numpy as np
import pytest

from training.entailment import LABELS, SEVERITY, Premise, hypothesis_only, of_premises, of_snli

TELLING = ("outdoors", "waiting", "asleep")  # a word that gives away each label


def _rows(n, telling):
    """Captions with a sentence of each label; in a share `telling` of the sentences a word gives the label away."""
    rng = np.random.default_rng(0)
    for i in range(n):
        for label in rng.permutation(3):
            word = TELLING[label] if rng.random() < telling else TELLING[rng.integers(3)]
            yield f"Person {i} walks on a road.", f"Person {i} is {word} at {i * 7}.", LABELS[label]


def _file(folder, rows):
    names = ("sentence1", "sentence2", "gold_label")
    file = folder / "snli.jsonl"
    file.write_text("\n".join(json.dumps(dict(zip(names, row, strict=True))) for row in rows), encoding="utf-8")
    return file


def test_what_words_give_away_is_a_calibrated_probability():
    rows = list(_rows(1000, 0.7))
    given = hypothesis_only([said for _, said, _ in rows], np.array([LABELS.index(label) for *_, label in rows]))
    told = np.array([TELLING[LABELS.index(label)] in said for _, said, label in rows])
    assert told.mean() == pytest.approx(0.8, abs=0.03)
    assert given[told].mean() == pytest.approx(0.8, abs=0.1)
    assert given[~told].mean() == pytest.approx(0.1, abs=0.05)


def test_no_hypothesis_is_judged_by_what_was_fitted_on_it():
    labels = np.random.default_rng(0).integers(3, size=600)
    assert hypothesis_only([f"word{i}" for i in range(600)], labels) == pytest.approx(1 / 3)


def test_a_hypothesis_of_two_premises_is_not_in_a_group_of_both():
    every = [Premise(f"Premise {i}.", {"It rains.": i % 3, f"It is {i}.": (i + 1) % 3}) for i in range(4)]
    stream = of_premises(every, cycle([{"text": ""}]), np.random.default_rng(0))
    assert {len(next(stream).texts) for _ in range(30)} == {2}


def test_what_is_kept_is_hardly_given_away(tmp_path):
    rows = list(_rows(3000, 0.5))
    every = of_snli(_file(tmp_path, rows), np.random.default_rng(1))
    kept = [(text, label) for premise in every for text, label in premise.hypotheses.items()]
    assert np.mean([TELLING[LABELS.index(label)] in said for _, said, label in rows]) == pytest.approx(2 / 3, abs=0.03)
    assert np.mean([TELLING[label] in said for said, label in kept]) == pytest.approx(0.4, abs=0.07)


def test_sentences_without_a_label_and_premises_without_a_difference_are_left_out(tmp_path):
    class KeepsAll:
        random = staticmethod(np.zeros)

    rows = [
        ("A dog runs.", "An animal moves.", "entailment"),
        ("A dog runs.", "A cat sleeps.", "contradiction"),
        ("A dog runs.", "It is his dog.", "-"),
        ("A man sings.", "A person sings.", "entailment"),
    ]
    assert of_snli(_file(tmp_path, rows), KeepsAll) == [
        Premise("A dog runs.", {"An animal moves.": 0, "A cat sleeps.": 2})
    ]


def test_a_group_ranks_what_follows_above_what_may_be_above_what_cannot_be():
    every = [Premise(f"Premise {i}.", {f"follows {i}": 0, f"may be {i}": 1, f"cannot {i}": 2}) for i in range(5)]
    document = "A paragraph of a document. " * 10
    stream = of_premises(every, cycle([{"text": f"{document}\n\n{document}"}]), np.random.default_rng(0))
    several = amid = 0
    for group in (next(stream) for _ in range(50)):
        n = group.context.count("Premise")
        several += n > 1
        amid += group.context.startswith(document.strip())
        assert len(group.texts) == 3 * n
        for text, severity in zip(group.texts, group.severities, strict=True):
            assert f"Premise {text.split()[-1]}." in group.context
            assert (
                severity
                == SEVERITY[{"follows": "entailment", "may": "neutral", "cannot": "contradiction"}[text.split()[0]]]
            )
    assert 10 < several < 30
    assert 10 < amid < 30
