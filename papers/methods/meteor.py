"""METEOR, as nltk computes it, of a text and its references."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import Any

from synthscore.degrade.reading import sentences
from synthscore.evaluation.methods.base import SetMethod
from synthscore.evaluation.methods.overlap_metrics import Which, against_references, package
from synthscore.scoring.methods import MethodKind


def meteor(references: Which = "first", system: str = "", own: bool = False) -> SetMethod:
    """METEOR of nltk, 0 to 1: words matched as written, by stem and, where nltk's WordNet is there, by synonym.

    Without it the signature says synonyms:none. Several references: the best.
    """
    score = package("nltk.translate.meteor_score", "meteor").meteor_score
    split = package("nltk.tokenize", "meteor").NLTKWordTokenizer().tokenize
    wordnet = package("nltk.corpus", "meteor").wordnet
    try:
        wordnet.ensure_loaded()
        synonyms = f"wordnet-{wordnet.get_version()}"
    except LookupError:  # it is a download of its own
        wordnet, synonyms = NoSynonyms(), "none"

    def words(text: str) -> list[str]:
        return [word for sentence in sentences(text) for word in split(sentence)]

    def metric(text: str, against: Sequence[str]) -> float:
        return float(score([words(reference) for reference in against], words(text), wordnet=wordnet))

    return against_references("meteor", metric, references, system, own, nltk=version("nltk"), synonyms=synonyms)


class NoSynonyms:
    """What nltk asks of WordNet."""

    def synsets(self, word: str) -> Iterable[Any]:
        return ()


METEOR = MethodKind(meteor, "METEOR against references by people")
