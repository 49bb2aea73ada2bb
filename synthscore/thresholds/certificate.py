"""A threshold with a promise: what is guaranteed, where, how surely, and of whose scores. One JSON file."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from ..errors import CertificateError, InputError, SynthscoreError, why_unreadable
from ..io.fields import parse_json
from ..io.write import write_whole
from ..scoring.anchored.drift import Watch
from ..scoring.anchored.model import JudgeModel
from ..scoring.anchored.scale import Statistic
from ..signature import Signature
from ..types import Score
from .drawn import Drawn
from .rules import Decision, Rule

Kind = Literal["precision", "recall", "fpr"]
FORMAT = 1
_SIGNS: Mapping[Kind, str] = {"precision": ">=", "recall": ">=", "fpr": "<="}
_NAMES_IN_FILE = {"statistics": "seen"}


@dataclass(frozen=True, slots=True)
class Guarantee:
    """What is promised: precision or recall of at least `bound`, or a false-positive rate (fpr) of at most `bound`.

    precision : of the kept, the share that is good
    recall : of the good, the share that is not dropped. What is unscored counts as missed
    fpr : of the bad, the share that is kept
    """

    kind: Kind
    bound: float

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind) or not 0 < self.bound < 1:
            raise InputError(
                f"the guarantee {self.kind} {self.bound:g} is not known, expected precision>=P, recall>=R or fpr<=F, "
                "each of P, R, F more than 0 and less than 1, such as precision>=0.9. Write it so",
                field="guarantee",
                value=(self.kind, self.bound),
            )

    @classmethod
    def parse(cls, text: str) -> Guarantee:
        """From "precision>=0.9", "recall>=0.9" or "fpr<=0.05"."""
        for kind in get_args(Kind):
            sign = _SIGNS[kind]
            name, sign_in_text, bound = text.replace(" ", "").partition(sign)
            if sign_in_text and name == kind:
                try:
                    return cls(kind, float(bound))
                except ValueError:
                    break
        raise InputError(
            f"cannot read the guarantee {text!r}: expected precision>=P, recall>=R or fpr<=F, such as precision>=0.9. "
            "Write it so, in quotes, or the shell takes > for itself; each guarantee into an option of its own",
            field="guarantee",
            value=text,
        )

    def __str__(self) -> str:
        return f"{self.kind}{_SIGNS[self.kind]}{self.bound:g}"


@dataclass(frozen=True, slots=True)
class Certified:
    """A guarantee, the threshold at which it holds, and the counts that show it.

    n : labelled texts of which the share is taken: the kept, the good or the bad
    n_hit : of these, the good (precision), not dropped (recall) or kept ones (fpr)
    observed : n_hit / n. limit : the least that the true share can be at `level`, of fpr the most (Clopper-Pearson)
    level : the confidence of this guarantee alone; together, several hold with the certificate's confidence
    """

    guarantee: Guarantee
    threshold: float
    n: int
    n_hit: int
    level: float

    def __post_init__(self) -> None:
        possible = 0 <= self.n_hit <= self.n and 0 < self.level < 1 and math.isfinite(self.threshold)
        margin = self.limit - self.guarantee.bound
        if self.guarantee.kind == "fpr":
            margin = -margin
        if not possible or margin < -1e-6:
            raise CertificateError(
                f"{self.guarantee} does not follow at {self.threshold} from {self.n_hit} of {self.n} labelled texts at "
                f"level {self.level}, expected counts and a level that show it. Calibrate anew"
            )

    @property
    def observed(self) -> float:
        return self.n_hit / self.n

    @property
    def limit(self) -> float:
        if self.guarantee.kind == "fpr":
            return 1 - lower_limit(self.n - self.n_hit, self.n, 1 - self.level)
        return lower_limit(self.n_hit, self.n, 1 - self.level)

    def to_dict(self) -> dict[str, object]:
        """Plain values, and what follows from them."""
        follows = {"guarantee": str(self.guarantee), "observed": self.observed, "limit": self.limit}
        return asdict(self) | follows

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Certified:
        """From `to_dict`. raises : CertificateError where observed or limit do not follow from the counts"""
        fields = {**values, "guarantee": Guarantee.parse(values["guarantee"])}
        stated = fields.pop("observed"), fields.pop("limit")
        made = cls(**fields)
        follows = [made.observed, made.limit]
        if not all(math.isclose(one, other, abs_tol=1e-6) for one, other in zip(stated, follows, strict=True)):
            raise CertificateError(
                f"{made.guarantee} has observed and limit {stated}, expected {made.observed:g} and {made.limit:g}, "
                f"which follow from {made.n_hit} of {made.n}. Calibrate anew"
            )
        return made


def thresholds_of(certified: Sequence[Certified]) -> tuple[float, float]:
    """keep_from, where all that is promised of the kept holds, and drop_below, where recall does too."""
    recalling = [one.threshold for one in certified if one.guarantee.kind == "recall"]
    keep_from = max([one.threshold for one in certified if one.guarantee.kind != "recall"] or recalling)
    return keep_from, min([keep_from, *recalling])


def lower_limit(hits: int, n: int, alpha: float) -> float:
    """The share that is exceeded with confidence 1 - alpha, at a single threshold (Clopper-Pearson)."""
    from scipy.special import betaincinv

    if not hits:
        return 0.0
    return float(betaincinv(hits, n - hits + 1, alpha))


@dataclass(frozen=True, slots=True)
class Certificate(Rule):
    """Keeps from `keep_from` up, drops below `drop_below`; between them it is unsure. A rule, made by `calibrate`.

    signature : of the scores that were labelled; nothing is promised of scores with another one (`check`)
    confidence : probability, over draws of the labelled texts, that no certificate is given or that all its guarantees
        hold of texts drawn like them. It says nothing of a certificate that is the best of several draws or settings
    drawn : how the labelled texts were drawn, as far as their rows say; the promise is about texts drawn alike
    statistics, judge : what drift is measured against (`watch`), "seen" in a file; the judge is fitted to the verdicts
        of the labelled texts, None where there are none
    """

    certified: tuple[Certified, ...]
    confidence: float
    keep_from: float
    drop_below: float
    n_rows: int
    n_good: int
    n_unscored: int
    signature: Signature
    statistics: Mapping[str, Statistic] = field(default_factory=dict)
    judge: JudgeModel | None = None
    drawn: Drawn = "not known"

    def __post_init__(self) -> None:
        level = 1 - (1 - self.confidence) / max(len(self.certified), 1)
        n_bad = self.n_rows - self.n_good
        n_scored = self.n_rows - self.n_unscored
        possible = {"precision": range(n_scored + 1), "recall": (self.n_good,), "fpr": (n_bad,)}
        sound = 0 < self.confidence < 1 and self.n_good > 0 < n_bad and self.n_unscored >= 0
        levels_follow = all(math.isclose(one.level, level) for one in self.certified)
        counts_follow = all(one.n in possible[one.guarantee.kind] for one in self.certified)
        follows = sound and self.drawn in get_args(Drawn) and levels_follow and counts_follow
        if not follows or not self.certified or (self.keep_from, self.drop_below) != thresholds_of(self.certified):
            raise CertificateError(
                f"a certificate of {len(self.certified)} guarantees keeps from {self.keep_from} and drops below "
                f"{self.drop_below} with confidence {self.confidence}, expected at least one guarantee, and what "
                "follows from the thresholds, levels and counts of all. Make it with calibrate"
            )

    def decide(self, score: Score) -> tuple[Decision, str]:
        """By the value alone, as `calibrate` counted the labelled texts."""
        if score.value is None:
            return "unsure", f"unscored: {score.reason}"
        if score.value >= self.keep_from:
            return "kept", f"score {score.value:.2f}, at least {self.keep_from:g}"
        if score.value < self.drop_below:
            return "dropped", f"score {score.value:.2f}, below {self.drop_below:g}"
        return "unsure", f"score {score.value:.2f}, between {self.drop_below:g} and {self.keep_from:g}"

    @property
    def words(self) -> str:
        promised = " and ".join(str(one.guarantee) for one in self.certified)
        return f"with {promised}, confidence {self.confidence:g}"

    def check(self, signature: Signature) -> None:
        """raises : CertificateError naming the parts that differ (`.differs`: part -> (certified, now))"""
        if differs := self.signature.differs(signature):
            parts = "; ".join(
                f"{part} was {was or 'absent'}, is {now or 'absent'}" for part, (was, now) in differs.items()
            )
            raise CertificateError(
                f"the certificate does not hold for these scores: {parts}. Expected the judge, templates, ladders and "
                "scoring that were certified. Use those, or score the labelled texts again and calibrate anew",
                differs=differs,
            )

    @property
    def watch(self) -> Watch:
        """Tells whether the judge and the texts are still like those that were labelled."""
        return Watch(
            origin="the certificate",
            remedy="label some of these texts, and calibrate anew",
            signature=self.signature,
            judge=self.judge,
            statistics=self.statistics,
            keep_from=self.keep_from,
        )

    def to_json(self) -> str:
        """Equal certificates give equal texts."""
        content = {_NAMES_IN_FILE.get(name, name): value for name, value in asdict(self).items()}
        content |= {"format": FORMAT, "signature": dict(self.signature.parts)}
        content["judge"] = self.judge and self.judge.to_dict()
        content["certified"] = [one.to_dict() for one in self.certified]
        return json.dumps({"certificate": content}, indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    def save(self, path: str | os.PathLike[str]) -> None:
        """One JSON file."""
        write_whole(path, self.to_json().encode())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Certificate:
        """raises : CertificateError for a file that is missing or holds no certificate"""
        try:
            values = dict(parse_json(Path(path).read_text(encoding="utf-8"))["certificate"])
            if (format_ := values.pop("format")) != FORMAT:
                raise InputError(f"its format is {format_!r}, expected {FORMAT}")
            values["certified"] = tuple(map(Certified.from_dict, values["certified"]))
            if values.setdefault("judge", None) is not None:
                values["judge"] = JudgeModel.from_dict(values["judge"])
            values["statistics"] = Statistic.from_json(values.pop("seen", {}))
            return cls(**{**values, "signature": Signature.of(**values["signature"])})
        except (OSError, LookupError, TypeError, ValueError, AttributeError, OverflowError, SynthscoreError) as error:
            raise CertificateError(
                f"cannot read the certificate {path}: {why_unreadable(error)}. Expected a file that "
                "`synthscore calibrate` wrote. Calibrate anew"
            ) from error
