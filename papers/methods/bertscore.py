"""Texts + references + encoder -> BERTScore (arXiv:1904.09675): how well the tokens of each find a match in the other.

    P = 1/|x| sum_i max_j x_i . y_j      R = 1/|y| sum_j max_i x_i . y_j      F = 2 P R / (P + R)

x, y are the vectors, of length 1, that one layer of the encoder gives to the tokens of text and reference. [CLS] and
[SEP] may be matched, but are not counted. No weights by rarity (idf), no rescaling: both leave the ranks nearly or
wholly as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from synthscore.evaluation.methods.base import scored, signed
from synthscore.evaluation.methods.overlap_metrics import Which, reference_texts
from synthscore.evaluation.ratings import Ratings
from synthscore.io.scores import Scores
from synthscore.scoring.method import MethodError, Tools
from synthscore.scoring.methods import MethodKind
from synthscore.signature import Signature, text_hash
from synthscore.types import Score

if TYPE_CHECKING:
    from ..encoder import Embedded, Encoder

_TEXTS = 256  # whose vectors are held at once, with those of their references

Found = tuple[float, dict[str, float]] | str
"""Value and details, or why there is none."""


@dataclass
class BERTScore:
    """F of each text against its reference; of several, the reference with the highest F counts.

    model : of an encoder, a folder or hub id. revision, layer : see Encoder
    references, system, own : see reference_texts

    `details` hold precision and recall; `n_cut`, the tokens of text and reference beyond what the encoder takes, where
    there are any; and where there were several references, `reference`: the number of the one that counts, from 1.
    The attribute changes nothing: all is computed once for the ratings last asked about.
    """

    model: str = ""
    revision: str | None = None
    layer: int | None = None
    references: Which = "first"
    system: str = ""
    own: bool = False

    def __post_init__(self) -> None:
        self._encoder: Encoder | None = None
        self._last: tuple[Ratings, list[Found]] | None = None
        if not self.model:
            raise MethodError(
                "cannot make bertscore: it names no encoder. Expected a folder or hub id, such as "
                "bertscore:model=bert-base-uncased"
            )

    def __call__(self, ratings: Ratings, attribute: str, tools: Tools) -> Scores:
        if self._encoder is None:
            from ..encoder import Encoder  # imports torch

            self._encoder = Encoder.load(self.model, revision=self.revision, layer=self.layer)
        if self._last is None or self._last[0] is not ratings:
            self._last = ratings, self._compute(self._encoder, ratings)
        rows = (
            found if isinstance(found, str) else Score(text.id, text.context_id, attribute, found[0], details=found[1])
            for text, found in zip(ratings, self._last[1], strict=True)
        )
        return scored(ratings, attribute, rows, self._signed(self._encoder))

    def _compute(self, encoder: Encoder, ratings: Ratings) -> list[Found]:
        found: list[Found] = []
        against: dict[int, tuple[str, ...]] = {}
        for row, texts in enumerate(reference_texts(ratings, self.references, self.system, self.own)):
            found.append(texts if isinstance(texts, str) else "")
            if not isinstance(texts, str):
                against[row] = texts
        rows = sorted(against, key=lambda row: ratings.texts[row].context_id)  # whose references are the same
        for start in range(0, len(rows), _TEXTS):
            part = {row: (ratings.texts[row].text, *against[row]) for row in rows[start : start + _TEXTS]}
            embedded = encoder.embed(text for texts in part.values() for text in texts)
            for row, (text, *others) in part.items():
                found[row] = _best(embedded[text], [embedded[other] for other in others])
        return found

    def _signed(self, encoder: Encoder) -> Signature:
        signature = signed(method="bertscore").with_(
            **dict(encoder.signature.parts),
            references=f"system {self.system}" if self.system else self.references,
            **({"own": "yes"} if self.own else {}),
            idf="no",
            rescaled="no",
        )
        return signature.with_(config=text_hash(str(signature))[:8])


def _best(text: Embedded, references: Sequence[Embedded]) -> Found:
    """Of several references, that with the highest F."""
    for what, side in (("text", text), *(("reference", reference) for reference in references)):
        if not side.is_text.any():
            return f"the {what} has no tokens"
    matched = [match(text, reference) for reference in references]
    best = max(range(len(matched)), key=lambda index: matched[index][2])
    precision, recall, f = matched[best]
    details = {"precision": precision, "recall": recall}
    if n_cut := text.n_cut + references[best].n_cut:
        details["n_cut"] = float(n_cut)
    if len(references) > 1:
        details["reference"] = best + 1.0
    return f, details


def match(text: Embedded, reference: Embedded) -> tuple[float, float, float]:
    """Precision, recall and F, see above; F is 0 where the other two add up to 0."""
    similarity = text.vectors @ reference.vectors.T
    precision = float(similarity[text.is_text].max(axis=1).mean())
    recall = float(similarity[:, reference.is_text].max(axis=0).mean())
    total = precision + recall
    return precision, recall, 2 * precision * recall / total if total else 0.0


BERTSCORE = MethodKind(BERTScore, "match of token vectors with those of a reference")
