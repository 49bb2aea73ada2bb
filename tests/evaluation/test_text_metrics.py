"""Floors and metrics against references: what they compute, what they leave unscored, and known figures."""

import gzip
import json
import sys
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synthscore.evaluation.agreement import agreement
from synthscore.evaluation.methods import MethodError, Tools, method
from synthscore.evaluation.methods.floors import KINDS as FLOORS
from synthscore.evaluation.methods.floors import WORDS, overlap, source_overlap
from synthscore.evaluation.methods.overlap_metrics import KINDS as METRICS
from synthscore.evaluation.methods.overlap_metrics import reference_texts
from synthscore.evaluation.ratings import RatedText, Ratings
from synthscore.signature import Signature
from synthscore.types import Context

BENCHMARKS = Path(__file__).resolve().parents[3] / "shared" / "benchmarks"
KINDS = {**FLOORS, **METRICS}
TEXT = st.text(st.sampled_from("ab cd's.é"), max_size=30)


FERRY = Context("c", "The old ferry was late.")


def ratings(*texts, contexts=(FERRY,)):
    """Texts as (context id, system, text)."""
    rows = tuple(RatedText(f"{c}/{s}", c, s, text, {"fluency": 1.0}) for c, s, text in texts)
    return Ratings("made up", rows, ("fluency",), {context.id: context for context in contexts})


def of(*texts, facts="", references=("The cat sat.",), source="The old ferry was late."):
    """Texts of one context, each by a system of its own."""
    context = Context("c", source, facts, tuple(references))
    return ratings(*(("c", f"s{i}", text) for i, text in enumerate(texts)), contexts=[context])


def scores(kind, made, attribute="fluency", **options):
    words = {True: "yes", False: "no"}
    said = ",".join(f"{name}={words[value] if isinstance(value, bool) else value}" for name, value in options.items())
    return method(f"{kind}:{said}")(made, attribute, Tools())


# ------------------------------------------------------------------------------------------------ floors


def test_floors_by_hand():
    made = of("The old ferry sank, the old ferry!", "It's late late.")
    assert scores("length", made).values.tolist() == [7, 4]  # It, s
    assert scores("length", made, words="english").values.tolist() == [7, 3]
    assert scores("length", made, words="spaces").values.tolist() == [7, 3]
    assert scores("type-token-ratio", made).values.tolist() == [4 / 7, 3 / 4]
    # Pairs: the old, old ferry, ferry sank, sank the, the old, old ferry; in the source all but two.
    assert scores("overlap", made).values == pytest.approx([4 / 6, 0])
    assert scores("overlap", made, words="spaces").values == pytest.approx([3 / 6, 0])  # "ferry!" is no "ferry"
    assert scores("overlap", made, n=1).values == pytest.approx([6 / 7, 2 / 3])
    assert scores("overlap", made, n=3).values == pytest.approx([2 / 5, 0])
    assert scores("copied-span", made).values == pytest.approx([3 / 7, 1 / 4])
    assert scores("constant", made).values.tolist() == [0, 0]


def test_the_facts_are_part_of_the_source():
    made = of("The ferry sank.", facts="A ferry sank.")
    assert scores("overlap", made).values == pytest.approx([1 / 2])
    assert scores("copied-span", made).values == pytest.approx([2 / 3])


@given(TEXT, TEXT, st.integers(1, 3), st.sampled_from(sorted(WORDS)))
def test_overlap_is_the_share_counted_one_by_one(text, source, n, words):
    mine, theirs = ([*WORDS[words](side.lower())] for side in (text, source))
    runs = [mine[i : i + n] for i in range(len(mine) - n + 1)]
    inside = [any(theirs[j : j + n] == run for j in range(len(theirs))) for run in runs]
    found = source_overlap(text, source, n, words)
    assert found == pytest.approx(sum(inside) / len(runs) if runs else np.nan, nan_ok=True)


@given(TEXT.filter(lambda text: len(text.split()) > 1))
def test_a_text_overlaps_wholly_with_a_source_that_quotes_it(text):
    assert source_overlap(text, f"Here: {text} .", words="spaces") == 1


def test_a_copied_span_is_found_in_a_long_source_that_repeats_its_words():
    made = of("So the hill on the", source="on the hill " * 100)
    assert scores("copied-span", made).values == pytest.approx([4 / 5])


def test_what_a_floor_cannot_measure_is_unscored_with_the_reason():
    made = ratings(("c", "one", "Ferry."), ("c", "none", ""), ("lost", "two", "The old ferry."))
    found = scores("length", made)
    assert found.values.tolist() == [1, 0, 3]  # words of an empty text can be counted
    lost = "the text of its context 'lost' is not known"
    assert [row.reason for row in scores("copied-span", made)] == ["", "the text has no words", lost]
    assert [row.reason for row in scores("type-token-ratio", made)] == ["", "the text has no words", ""]
    assert [row.value for row in scores("overlap", made, n=1)] == [1, None, None]
    with pytest.raises(MethodError, match="any of the 3 texts") as none:
        scores("overlap", made)
    few = "the text has {} words, and a share of runs of 2 needs at least 2"
    assert none.value.reasons == {few.format(1): 1, few.format(0): 1, lost: 1}


def test_a_text_that_is_not_written_in_a_to_z_is_not_read_as_if_it_were():
    made = of("Паром опоздал ok ok", "The old ferry", source="Паром опоздал, the old ferry.")
    found = scores("overlap", made)
    assert [row.status for row in found] == ["unscored", "ok"]
    assert "words=letters" in found[0].reason
    assert scores("overlap", made, words="letters").values == pytest.approx([1 / 3, 1])


def test_a_random_score_depends_on_seed_text_and_attribute_and_not_on_its_neighbours():
    whole = of(*"abcdefgh")
    alone = ratings(("c", "s3", "d"))
    found = scores("random", whole).values
    assert scores("random", alone).values[0] == found[3]
    assert len({*found, *scores("random", whole, seed=1).values, *scores("random", whole, "coherence").values}) == 24
    assert ((found >= 0) & (found < 1)).all()


def test_what_does_not_depend_on_the_attribute_is_computed_once_for_given_ratings():
    calls = Counter()
    method = overlap()
    inner, method.compute = method.compute, lambda made: calls.update(n=1) or inner(made)
    made, other = of("The old ferry sank."), of("It was late, was it?")
    assert method(made, "fluency", Tools())[0].value == method(made, "coherence", Tools())[0].value
    assert method(made, "coherence", Tools())[0].attribute == "coherence"
    assert calls["n"] == 1
    assert method(other, "fluency", Tools())[0].value != method(made, "fluency", Tools())[0].value


@pytest.mark.parametrize(
    ("kind", "options", "seen"),
    [
        ("length", {"words": "bytes"}, "'bytes', expected one of letters, english, spaces"),
        ("overlap", {"n": 0}, "n is '0'"),
        ("random", {"seed": -1}, "seed is '-1'"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(kind, options, seen):
    with pytest.raises(MethodError, match=seen):
        scores(kind, of("x"), **options)


# ------------------------------------------------------------------------------------------------ metrics


def test_metrics_by_hand():
    made = of("The cat sat.", "The cat sat down here.", "Dogs bark.", references=["The cat sat on the mat."])
    rouge_1 = scores("rouge-1", made).values
    assert rouge_1 == pytest.approx([2 / (1 + 6 / 3), 2 * (3 / 5) * (3 / 6) / (3 / 5 + 3 / 6), 0])
    assert scores("rouge-2", made).values == pytest.approx([2 * 1 * (2 / 5) / (1 + 2 / 5), 2 * 0.5 * 0.4 / 0.9, 0])
    assert scores("rouge-l", made).values == pytest.approx(rouge_1)
    # 13a sets the full stop apart: 4 tokens against 7. Precisions 4/4, 2/3, 1/2 and 0 of 1, smoothed to 1/2.
    brevity = np.exp(1 - 7 / 4)
    assert scores("bleu", made).values[0] == pytest.approx(100 * brevity * (1 * 2 / 3 * 1 / 2 * 1 / 2) ** (1 / 4))
    short = of("Two words", references=["Two words"])  # has no 3-grams or 4-grams, which then do not count
    assert scores("bleu", short).values == pytest.approx([100])
    assert scores("chrf", short).values == pytest.approx([100])


def test_rouge_lsum_separates_sentences_and_rouge_l_does_not():
    made = of("Dogs bark here. Cats sleep there.", references=["Cats sleep there. Dogs bark here."])
    assert scores("rouge-lsum", made).values == pytest.approx([1])
    assert scores("rouge-l", made).values == pytest.approx([0.5])


def test_stems_and_case_are_options():
    made = of("THE CATS SAT.", references=["The cat sits."])
    assert scores("rouge-1", made, stem=True).values > scores("rouge-1", made).values
    for kind in ("bleu", "chrf"):
        assert scores(kind, made, lowercase=True).values > scores(kind, made).values
        assert ("case", "lc") in scores(kind, made, lowercase=True).signature.parts
    assert scores("chrf", made, word_order=2).values != scores("chrf", made).values


@pytest.mark.parametrize("kind", sorted(METRICS))
def test_with_all_references_the_best_counts_and_with_the_first_the_first(kind):
    made = of("The cat sat on a mat.", references=["A dog barked at them.", "The cat sat on a mat."])
    perfect = scores(kind, of("The cat sat on a mat.", references=["The cat sat on a mat."])).values
    assert scores(kind, made, references="all").values == pytest.approx(perfect)
    assert scores(kind, made, references="first").values < 0.6 * perfect
    assert scores(kind, made).values == scores(kind, made, references="first").values


@pytest.mark.parametrize("kind", sorted(METRICS))
def test_an_empty_text_and_a_context_without_a_reference_are_unscored(kind):
    contexts = [Context("c", "x", references=("The cat sat.",)), Context("d", "x")]
    made = ratings(("c", "a", "The cat sat."), ("c", "b", " "), ("d", "a", "The cat sat."), contexts=contexts)
    found = scores(kind, made)
    assert [row.status for row in found] == ["ok", "unscored", "unscored"]
    assert [row.reason for row in found][1:] == [
        "the text is empty",
        "its context 'd' has no reference to compare it with",
    ]
    assert found[0].value > 0.9


def test_a_systems_texts_serve_as_references_and_are_not_compared_with_themselves():
    made = ratings(
        ("c", "people", "The cat sat."), ("c", "model", "The cat sat."), ("d", "model", "A dog."),
        ("e", "people", ""), ("e", "model", "A dog."),
    )  # fmt: skip
    found = scores("rouge-1", made, system="people")
    assert [row.value for row in found] == [None, 1, None, None, None]
    assert found[0].reason == "the texts of 'people' are references; with own=yes they are compared with themselves"
    assert "'d' has no text by 'people'" in found[2].reason
    assert "'e' has no text by 'people'" in found[4].reason  # what is empty is no reference
    assert ("references", "system people") in found.signature.parts
    own = scores("rouge-1", made, system="people", own=True)
    assert [row.value for row in own] == [1, 1, None, None, None]
    assert ("own", "yes") in own.signature.parts


def test_the_texts_of_whoever_wrote_the_references_are_unscored():
    contexts = [Context(c, "x", references=(f"Odd. {c}.", f"The cat, {c}.")) for c in "cd"]
    texts = [(c, s, f"the cat , {c} ." if s == "author" else f"A dog, {c}.") for c in "cd" for s in ("author", "model")]
    lucky = ("c", "lucky", "The cat, c.")  # one text that is a reference makes no author
    found = reference_texts(ratings(*texts, lucky, contexts=contexts))
    assert [isinstance(against, str) for against in found] == [True, False, True, False, False]
    assert all(isinstance(against, tuple) for against in reference_texts(ratings(*texts, contexts=contexts), own=True))


def test_a_text_is_compared_with_the_references_of_its_own_row():
    row = {"context_id": "c", "context": "Article.", "human.c": 1}
    texts = {"one": ("the cat", ["the dog"]), "two": ("the dog", ["the cat"]), "model": ("the cat", ["the cat"])}
    rows = [row | {"system": name, "text": text, "references": own} for name, (text, own) in texts.items()]
    scores = method("rouge-1")(Ratings.load(rows), "c", Tools())
    np.testing.assert_allclose(scores.values, [0.5, 0.5, 1.0])


def test_without_references_the_error_says_what_to_do():
    made = of("The cat sat.", "A dog.", references=())
    with pytest.raises(MethodError, match=r"column references, or .* system=NAME\. Its systems: s0, s1"):
        scores("bleu", made)
    with pytest.raises(MethodError, match=r"'people' as references: made up has none\. Its systems: s0, s1"):
        scores("bleu", made, system="people")
    with pytest.raises(MethodError, match="'best', expected one of first, all"):
        scores("bleu", of("x"), references="best")


@pytest.mark.parametrize("kind", sorted(METRICS))
def test_a_missing_package_is_named_with_what_installs_it(kind, monkeypatch):
    def without(name, *args, **options):
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr("synthscore.evaluation.methods.overlap_metrics.import_module", without)
    with pytest.raises(MethodError, match=r"pip install 'synthscore\[evaluate\]'"):
        method(kind)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_signature_names_the_method_its_options_and_the_packages_version(kind):
    signature = scores(kind, of("The cat sat.", "Another cat.")).signature
    assert Signature.parse(str(signature)) == signature
    parts = dict(signature.parts)
    assert parts["method"] == kind
    package = {"bleu": "sacrebleu", "chrf": "sacrebleu"}.get(kind, "rouge_score")
    assert parts.get(package) == (version(package) if kind in METRICS else None)
    assert "version" not in parts


def test_listing_the_kinds_imports_none_of_the_packages():
    import subprocess

    code = "import sys, synthscore.evaluation.methods.overlap_metrics, synthscore.evaluation.methods.floors as f; "
    code += "print([m for m in ('scipy', 'torch', 'sacrebleu', 'rouge_score', 'nltk', 'transformers', 'pyarrow') "
    code += "if m in sys.modules])"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


# ------------------------------------------------------------------------------------------------ known figures


def benchmark(name, n_contexts):
    path = BENCHMARKS / f"{name}.jsonl.gz"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    chosen = sorted({row["context_id"] for row in rows})[:n_contexts]
    rows = [row for row in rows if row["context_id"] in chosen]
    contexts = [
        Context(row["context_id"], row["context"], row.get("facts") or "", tuple(row["references"])) for row in rows
    ]
    made = ratings(*((row["context_id"], row["system"], row["text"]) for row in rows), contexts=contexts)
    return made, {name: [row["human"][name] for row in rows] for name in rows[0]["human"]}


SUMMEVAL = ("fluency", "coherence", "consistency", "relevance")


def agreements(values, human, made, attributes, digits):
    return [round(agreement(values, human[attribute], made.context_ids).value, digits) for attribute in attributes]


@pytest.mark.parametrize(
    ("kind", "n_contexts", "printed"),
    [
        ("overlap", 50, [0.28, 0.24, 0.37, 0.24]),
        ("overlap", 10, [0.19, 0.28, 0.35, 0.24]),
        ("length", 10, [0.02, 0.08, 0.11, 0.24]),
    ],
)
def test_the_floors_of_summeval_are_those_known_since_nano_was_tried_out(kind, n_contexts, printed):
    made, human = benchmark("summeval", n_contexts)
    assert agreements(scores(kind, made).values, human, made, SUMMEVAL, 2) == printed


@pytest.mark.parametrize("name", ["summeval", "topicalchat"])
@pytest.mark.parametrize(("kind", "floor"), [("overlap", "floor: bigram overlap"), ("length", "floor: length")])
def test_the_floors_are_those_of_the_card_of_nano_v0(name, kind, floor):
    card = json.loads((Path(__file__).parents[2] / "training" / "nano-v0.json").read_text())["people"][name]
    made, human = benchmark(name, card["n_contexts"])
    values = scores(kind, made, words="spaces").values
    assert agreements(values, human, made, human, 3) == [card[attribute][floor]["spearman"] for attribute in human]


def test_the_human_texts_of_webnlg_are_found_to_be_references():
    made, _ = benchmark("webnlg", None)
    found = reference_texts(made, "all")
    reasons = Counter(
        (text.system, against) for text, against in zip(made, found, strict=True) if isinstance(against, str)
    )
    assert {key[0]: count for key, count in reasons.items()} == {"webnlg": 223, "tilburg-pipe": 25}
