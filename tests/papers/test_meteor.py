"""METEOR, against a worked example and as every metric that compares with references."""

from importlib.metadata import version

import pytest

from synthscore.evaluation.methods import MethodError, Tools, method
from synthscore.evaluation.ratings import RatedText, Ratings
from synthscore.types import Context


def of(*texts, references=()):
    rated = tuple(RatedText(f"c/s{k}", "c", f"s{k}", text, {}) for k, text in enumerate(texts))
    return Ratings("made up", rated, ("coherence",), {"c": Context("c", "x", references=tuple(references))})


def scores(spec, ratings):
    return method(spec)(ratings, "coherence", Tools())


def test_meteor_by_hand():
    found = scores("meteor", of("The cats sat.", "Dogs bark", references=["The cat sat down."]))
    # 4 words (the, cats by stem, sat, .) match in 2 chunks; precision 1, recall 4/5; F = 10PR / (R + 9P).
    f, penalty = 10 * 0.8 / (0.8 + 9), 0.5 * (2 / 4) ** 3
    assert found.values == pytest.approx([f * (1 - penalty), 0])
    assert ("synonyms", "none") in found.signature.parts
    assert ("nltk", version("nltk")) in found.signature.parts


def test_of_several_references_the_best_counts_where_all_are_asked_for():
    made = of("The cat sat on a mat.", references=["A dog barked at them.", "The cat sat on a mat."])
    assert scores("meteor:references=all", made).values > 0.9
    assert scores("meteor", made).values < 0.5


def test_a_missing_package_is_named_with_what_installs_it(monkeypatch):
    def without(name, *args, **options):
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr("synthscore.evaluation.methods.overlap_metrics.import_module", without)
    with pytest.raises(MethodError, match=r"the package 'nltk' is not installed"):
        method("meteor")
