"""Metrics that hold a text against references by people: BLEU, chrF and ROUGE, each as its package computes it.

References are the context's own (SummEval, WebNLG), or another system's texts (Topical-Chat: the reply that was really
given). Knows nothing of what the metrics compute; packages of the extra `evaluate` are imported when a method is made.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.metadata import version
from typing import Any

from ..._version import __version__
from ...degrade.reading import sentences
from ...signature import Signature
from ..ratings.types import RatedText, Ratings
from .base import Kind, Method, MethodError, switch
from .floors import WORDS, PerText

_ROUGE = {"rouge-1": "rouge1", "rouge-2": "rouge2", "rouge-l": "rougeL", "rouge-lsum": "rougeLsum"}

Metric = Callable[[str, Sequence[str]], float]  # a text and its references -> a number


def bleu(references: str = "first", system: str = "", own: bool = False, lowercase: bool = False) -> Method:
    """Sentence BLEU, 0 to 100: up to 4-grams, as many as the text has (effective order), exponential smoothing.

    Several references: n-grams are counted against all of them at once.
    """
    metric = package("sacrebleu.metrics", "bleu").BLEU(effective_order=True, lowercase=lowercase)
    return against_references("bleu", _sacrebleu(metric), references, system, own, **_signed(metric))


def chrf(
    references: str = "first", system: str = "", own: bool = False, lowercase: bool = False, word_order: int = 0
) -> Method:
    """chrF, 0 to 100: F-score of character 6-grams; with word_order=2, chrF++. Several references: the best."""
    metric = package("sacrebleu.metrics", "chrf").CHRF(lowercase=lowercase, word_order=word_order)
    return against_references("chrf", _sacrebleu(metric), references, system, own, **_signed(metric))


def rouge(kind: str, references: str = "first", system: str = "", own: bool = False, stem: bool = False) -> Method:
    """F-score of ROUGE, 0 to 1; kind: rouge-1, rouge-2, rouge-l, rouge-lsum. Several references: the best F-score.

    rouge-lsum takes the union of the longest common subsequences of sentences, which synthscore separates.
    """
    name = _ROUGE[kind]
    scorer = package("rouge_score.rouge_scorer", kind).RougeScorer([name], use_stemmer=stem)
    by_sentence = kind == "rouge-lsum"

    def metric(text: str, against: Sequence[str]) -> float:
        if by_sentence:
            text, against = _lines(text), [_lines(reference) for reference in against]
        return float(scorer.score_multi(against, text)[name].fmeasure)

    parts = {"rouge_score": version("rouge-score"), "stem": "yes" if stem else "no"}
    return against_references(
        kind, metric, references, system, own, **parts, **({"sentences": "synthscore"} if by_sentence else {})
    )


# ------------------------------------------------------------------------------------------------ references


def reference_texts(
    ratings: Ratings, references: str = "first", system: str = "", own: bool = False
) -> list[tuple[str, ...] | str]:
    """For each text the references that it is held against, or the reason why there is none.

    references : "first" or "all" of the context's. system : this system's texts are the references instead
    own : also of texts that would be held against themselves: those of `system`, or of a system all of whose texts,
        two or more, have the words of a reference of their context
    raises : MethodError where no context has a reference, or no text is of `system`
    """
    if references not in ("first", "all"):
        raise MethodError(
            f"cannot choose references: references is {references!r}, expected first or all", references=references
        )
    known: dict[str, tuple[str, ...]] = defaultdict(tuple)
    if system:
        for text in ratings:
            if text.system == system and text.text.strip():
                known[text.context_id] += (text.text,)
        authors, source = {system}, f"text by {system!r}"
    else:
        known.update({name: context.references for name, context in ratings.contexts.items()})
        authors, source = _authors(ratings, known), "reference"
    if not any(known.values()):
        raise MethodError(_nothing(ratings, system), system=system)

    def found(text: RatedText) -> tuple[str, ...] | str:
        if text.system in authors and not own:
            return f"the texts of {text.system!r} are references; with own=yes they are held against themselves"
        if not known[text.context_id]:
            return f"its context {text.context_id!r} has no {source} to hold it against"
        if not text.text.strip():
            return "the text is empty"
        return known[text.context_id] if references == "all" else known[text.context_id][:1]

    return [found(text) for text in ratings]


def _authors(ratings: Ratings, known: Mapping[str, tuple[str, ...]]) -> set[str]:
    """The systems all of whose texts, two or more, have the words of a reference of their context."""
    words = WORDS["letters"]
    is_reference: dict[str, list[bool]] = defaultdict(list)
    for text in ratings:
        theirs = [words(reference.lower()) for reference in known.get(text.context_id, ())]
        is_reference[text.system].append(words(text.text.lower()) in theirs)
    return {system for system, found in is_reference.items() if len(found) > 1 and all(found)}


def _nothing(ratings: Ratings, system: str) -> str:
    systems = ", ".join(sorted(set(ratings.systems)))
    if system:
        return f"cannot take the texts of {system!r} as references: {ratings.name} has none. Its systems: {systems}"
    return (
        f"cannot hold the texts of {ratings.name} against references: its contexts have none. Give them in a column "
        f"references, or take a system's texts, with the option system=NAME. Its systems: {systems}"
    )


# ------------------------------------------------------------------------------------------------ packages


def against_references(name: str, metric: Metric, references: str, system: str, own: bool, **parts: str) -> Method:
    """Gives each text the metric of it and its references (see reference_texts). parts : of the signature"""

    def compute(ratings: Ratings) -> Iterator[float | str]:
        for text, against in zip(ratings, reference_texts(ratings, references, system, own), strict=True):
            yield against if isinstance(against, str) else metric(text.text, against)

    chosen = {"references": f"system {system}" if system else references, **({"own": "yes"} if own else {})}
    return PerText(compute, Signature.of(synthscore=__version__, method=name, **chosen, **parts))


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


def _sacrebleu(metric: Any) -> Metric:
    return lambda text, against: float(metric.sentence_score(text, list(against)).score)


def _signed(metric: Any) -> dict[str, str]:
    """sacrebleu's own signature, without the number of references, which may differ from text to text."""
    metric.sentence_score("a", ["a"])  # it signs nothing before
    info = metric.get_signature().info
    options = {key: str(value) for key, value in info.items() if value is not None and key not in ("nrefs", "version")}
    return {"sacrebleu": info["version"], **options}


def _lines(text: str) -> str:
    return "\n".join(sentences(text))


# ------------------------------------------------------------------------------------------------ kinds


REFERENCES: Mapping[str, Callable[[str], object]] = {"references": str, "system": str, "own": switch}

KINDS: Mapping[str, Kind] = {
    "bleu": Kind(bleu, "sentence BLEU against references by people", options={**REFERENCES, "lowercase": switch}),
    "chrf": Kind(
        chrf, "chrF against references by people", options={**REFERENCES, "lowercase": switch, "word_order": int}
    ),
    **{
        kind: Kind(
            partial(rouge, kind),
            f"{kind.upper()} against references by people",
            options={**REFERENCES, "stem": switch},
        )
        for kind in _ROUGE
    },
}
