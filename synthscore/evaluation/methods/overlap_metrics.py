"""Metrics that compare a text with references by people: BLEU, chrF and ROUGE, each as its package computes it.

References are the context's own (SummEval, WebNLG), or another system's texts (Topical-Chat: the reply that was really
given). Knows nothing of what the metrics compute; packages of the extra `evaluate` are imported when a method is made.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.metadata import version
from typing import Any, Literal

from ...degrade.reading import sentences
from ...scoring.method import MethodError
from ...scoring.methods import MethodKind
from ...types import blank
from ..ratings import RatedText, Ratings
from .base import SetMethod, signed
from .floors import WORDS, PerText

Which = Literal["first", "all"]

Metric = Callable[[str, Sequence[str]], float]  # a text and its references -> a number

ROUGE = {"rouge-1": "rouge1", "rouge-2": "rouge2", "rouge-l": "rougeL", "rouge-lsum": "rougeLsum"}


def bleu(references: Which = "first", system: str = "", own: bool = False, lowercase: bool = False) -> SetMethod:
    """Sentence BLEU, 0 to 100: up to 4-grams, as many as the text has (effective order), exponential smoothing.

    Several references: n-grams are counted against all of them at once.
    """
    metric = package("sacrebleu.metrics", "bleu").BLEU(effective_order=True, lowercase=lowercase)
    return _sacrebleu("bleu", metric, references, system, own)


def chrf(
    references: Which = "first", system: str = "", own: bool = False, lowercase: bool = False, word_order: int = 0
) -> SetMethod:
    """chrF, 0 to 100: F-score of character 6-grams; with word_order=2, chrF++. Several references: the best."""
    metric = package("sacrebleu.metrics", "chrf").CHRF(lowercase=lowercase, word_order=word_order)
    return _sacrebleu("chrf", metric, references, system, own)


def rouge(kind: str, references: Which = "first", system: str = "", own: bool = False, stem: bool = False) -> SetMethod:
    """F-score of ROUGE, 0 to 1; kind: rouge-1, rouge-2, rouge-l, rouge-lsum. Several references: the best F-score.

    rouge-lsum takes the union of the longest common subsequences of sentences, which synthscore separates.
    """
    name = ROUGE[kind]
    by_sentence = kind == "rouge-lsum"
    scorer = package("rouge_score.rouge_scorer", kind).RougeScorer([name], use_stemmer=stem)

    def metric(text: str, against: Sequence[str]) -> float:
        if by_sentence:
            text = "\n".join(sentences(text))
            against = ["\n".join(sentences(reference)) for reference in against]
        return float(scorer.score_multi(against, text)[name].fmeasure)

    parts = {"rouge_score": version("rouge-score"), "stem": "yes" if stem else "no"}
    if by_sentence:
        parts["sentences"] = "synthscore"
    return against_references(kind, metric, references, system, own, **parts)


def _sacrebleu(name: str, metric: Any, references: Which, system: str, own: bool) -> SetMethod:
    """Signed as sacrebleu signs, without the number of references, which may differ from text to text."""
    metric.sentence_score("a", ["a"])  # Before its first score, a metric has no signature.
    info = metric.get_signature().info
    options = {key: str(value) for key, value in info.items() if value is not None and key not in ("nrefs", "version")}

    def score(text: str, against: Sequence[str]) -> float:
        return float(metric.sentence_score(text, list(against)).score)

    return against_references(name, score, references, system, own, sacrebleu=info["version"], **options)


def package(name: str, method: str) -> Any:
    """A module of an optional package. raises : MethodError where it is not installed"""
    try:
        return import_module(name)
    except ImportError as error:
        raise MethodError(
            f"cannot make {method}: the package {name.split('.')[0]!r} is not installed ({error}). "
            "pip install 'synthscore[evaluate]'",
            package=name,
        ) from error


# ------------------------------------------------------------------------------------------------ references


def against_references(name: str, metric: Metric, references: Which, system: str, own: bool, **parts: str) -> SetMethod:
    """Scores each text by a metric of it and its references (see reference_texts). parts : of the signature"""

    def compute(ratings: Ratings) -> Iterator[float | str]:
        for text, against in zip(ratings, reference_texts(ratings, references, system, own), strict=True):
            yield against if isinstance(against, str) else metric(text.text, against)

    chosen = {"references": f"system {system}" if system else references}
    if own:
        chosen["own"] = "yes"
    return PerText(compute, signed(method=name, **chosen, **parts))


def reference_texts(
    ratings: Ratings, references: Which = "first", system: str = "", own: bool = False
) -> list[tuple[str, ...] | str]:
    """For each text the references that it is compared with, or the reason why there is none.

    references : "first" or "all" of the context's. system : this system's texts are the references instead
    own : also of texts that would be compared with themselves: those of `system`, or of a system all of whose texts,
        two or more, have the words of a reference of their context
    raises : MethodError where no context has a reference, or no text is of `system`
    """
    if system:
        theirs: dict[str, tuple[str, ...]] = defaultdict(tuple)
        for text in ratings:
            if text.system == system and not blank(text.text):
                theirs[text.context_id] += (text.text,)
        known = [theirs[text.context_id] for text in ratings]
        authors = {system}
        source = f"text by {system!r}"
    else:
        known = [ratings.references(text) for text in ratings]
        authors = _authors(ratings, known)
        source = "reference"
    if not any(known):
        problem = (
            f"cannot compare the texts of {ratings.name} with references: its contexts have none. Give them in a "
            "column references, or take a system's texts, with the option system=NAME"
        )
        if system:
            problem = f"cannot take the texts of {system!r} as references: {ratings.name} has none"
        systems = ", ".join(sorted(set(ratings.systems)))
        raise MethodError(f"{problem}. Its systems: {systems}", system=system)

    def choose(text: RatedText, known: tuple[str, ...]) -> tuple[str, ...] | str:
        if text.system in authors and not own:
            return f"the texts of {text.system!r} are references; with own=yes they are compared with themselves"
        if not known:
            return f"its context {text.context_id!r} has no {source} to compare it with"
        if blank(text.text):
            return "the text is empty"
        return known if references == "all" else known[:1]

    return [choose(text, references_known) for text, references_known in zip(ratings, known, strict=True)]


def _authors(ratings: Ratings, known: Sequence[tuple[str, ...]]) -> set[str]:
    """The systems all of whose texts, two or more, have the words of one of their references. known : of each text"""
    words = WORDS["letters"]
    is_reference: dict[str, list[bool]] = defaultdict(list)
    for text, references in zip(ratings, known, strict=True):
        theirs = [words(reference.lower()) for reference in references]
        is_reference[text.system].append(words(text.text.lower()) in theirs)
    return {system for system, matches in is_reference.items() if len(matches) > 1 and all(matches)}


KINDS: Mapping[str, MethodKind] = {
    "bleu": MethodKind(bleu, "sentence BLEU against references by people"),
    "chrf": MethodKind(chrf, "chrF against references by people"),
    **{kind: MethodKind(rouge, f"{kind.upper()} against references by people", fixed={"kind": kind}) for kind in ROUGE},
}
