"""A threshold with a promise: what is guaranteed, where, how surely, and of whose scores. One JSON file."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

from ..errors import CertificateError, InputError, SynthscoreError
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
                "each of P, R, F more than 0 and less than 1",
                field="guarantee",
                value=(self.kind, self.bound),
            )

    @classmethod
    def parse(cls, text: str) -> Guarantee:
        """From "precision>=0.9", "recall>=0.9" or "fpr<=0.05"."""
        for kind in get_args(Kind):
            sign = "<=" if kind == "fpr" else ">="
            name, found, bound = text.replace(" ", "").partition(sign)
            if found and name == kind:
                try:
                    return cls(kind, float(bound))
                except ValueError:
                    break
        raise InputError(
            f"cannot read the guarantee {text!r}: expected precision>=P, recall>=R or fpr<=F, such as precision>=0.9 "
            "(in quotes, or the shell takes > for itself)",
            field="guarantee",
            value=text,
        )

    def __str__(self) -> str:
        return f"{self.kind}{'<=' if self.kind == 'fpr' else '>='}{self.bound:g}"


@dataclass(frozen=True, slots=True)
class Certified:
    """A guarantee, the threshold at which it holds, and what was seen there.

    n : labelled texts that the share is of (the kept, the good or the bad). n_hit : of these, the good, not dropped
    or kept ones. observed : n_hit / n. limit : what the true share is beyond, at least (fpr: at most), at `level`
    (Clopper-Pearson)
    level : the confidence of this guarantee alone; with several, they hold together with the certificate's
    """

    guarantee: Guarantee
    threshold: float
    n: int
    n_hit: int
    level: float

    def __post_init__(self) -> None:
        sure = 0 <= self.n_hit <= self.n and 0 < self.level < 1 and math.isfinite(self.threshold)
        bound = self.guarantee.bound
        sign = -1 if self.guarantee.kind == "fpr" else 1
        if not sure or (self.limit - bound) * sign < -1e-6:
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
    def of(cls, values: Mapping[str, Any]) -> Certified:
        """From `to_dict`. raises : CertificateError where observed or limit is not what follows"""
        own = {**values, "guarantee": Guarantee.parse(values["guarantee"])}
        seen = own.pop("observed"), own.pop("limit")
        made = cls(**own)
        if not all(map(partial(math.isclose, abs_tol=1e-6), seen, (made.observed, made.limit))):
            raise CertificateError(
                f"{made.guarantee} has observed and limit {seen}, expected {made.observed:g} and {made.limit:g}, which "
                f"follow from {made.n_hit} of {made.n}. Calibrate anew"
            )
        return made


def thresholds_of(certified: Sequence[Certified]) -> tuple[float, float]:
    """keep_from, where all that is promised of the kept holds, and drop_below, where recall does too."""
    recalling = [each.threshold for each in certified if each.guarantee.kind == "recall"]
    keep_from = max([each.threshold for each in certified if each.guarantee.kind != "recall"] or recalling)
    return keep_from, min([keep_from, *recalling])


def lower_limit(hits: int, n: int, alpha: float) -> float:
    """The share that is exceeded with confidence 1 - alpha, of one threshold looked at alone (Clopper-Pearson)."""
    from scipy.special import betaincinv

    return float(betaincinv(hits, n - hits + 1, alpha)) if hits else 0.0


@dataclass(frozen=True, slots=True)
class Certificate(Rule):
    """Keeps from `keep_from` up, drops below `drop_below`; between them it is unsure. A rule, made by `calibrate`.

    signature : of the scores that were labelled; with others nothing is promised (`check`)
    confidence : probability, over draws of the labelled texts, that no certificate is given or all its guarantees hold,
        of texts drawn like them: of the one that several draws, or settings, have given, nothing is promised
    drawn : how the labelled texts were drawn, as far as their rows say; the promise is of texts drawn alike
    seen, judge : what drift is told by (`watch`); judge : fitted to the labelled texts' verdicts, None without them
    """

    certified: tuple[Certified, ...]
    confidence: float
    keep_from: float
    drop_below: float
    n_rows: int
    n_good: int
    n_unscored: int
    signature: Signature
    seen: Mapping[str, Statistic] = field(default_factory=dict)
    judge: JudgeModel | None = None
    drawn: Drawn = "not known"

    def __post_init__(self) -> None:
        level = 1 - (1 - self.confidence) / max(len(self.certified), 1)
        n_bad = self.n_rows - self.n_good
        n_scored = self.n_rows - self.n_unscored
        seen = {"precision": range(n_scored + 1), "recall": (self.n_good,), "fpr": (n_bad,)}
        follows = (
            0 < self.confidence < 1
            and self.n_good > 0 < n_bad
            and self.n_unscored >= 0
            and self.drawn in get_args(Drawn)
            and all(math.isclose(each.level, level) and each.n in seen[each.guarantee.kind] for each in self.certified)
        )
        if not follows or not self.certified or (self.keep_from, self.drop_below) != thresholds_of(self.certified):
            raise CertificateError(
                f"a certificate of {len(self.certified)} guarantees keeps from {self.keep_from} and drops below "
                f"{self.drop_below} with confidence {self.confidence}, expected at least one guarantee, and what "
                "follows from the thresholds, levels and counts of all. Make it with calibrate"
            )

    def decide(self, score: Score) -> tuple[Decision, str]:
        """By the value alone, as the labelled texts were counted."""
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
        """To tell whether judge and texts are still those that were labelled."""
        return Watch(
            origin="the certificate",
            remedy="label some of these texts, and calibrate anew",
            signature=self.signature,
            judge=self.judge,
            seen=self.seen,
            keep_from=self.keep_from,
        )

    def to_json(self) -> str:
        """Equal certificates give equal texts."""
        content = asdict(self) | {"format": FORMAT, "signature": dict(self.signature.parts)}
        content["judge"] = None if self.judge is None else self.judge.to_dict()
        content["certified"] = [each.to_dict() for each in self.certified]
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
            values["certified"] = tuple(map(Certified.of, values["certified"]))
            judge = values.pop("judge", None)
            values["judge"] = None if judge is None else JudgeModel.of(judge)
            values["seen"] = Statistic.of(values.pop("seen", {}))
            return cls(**{**values, "signature": Signature.of(**values["signature"])})
        except (OSError, LookupError, TypeError, ValueError, AttributeError, OverflowError, SynthscoreError) as error:
            raise CertificateError(
                f"cannot read the certificate {path}: {type(error).__name__}: {error}. Expected a file that "
                "`synthscore calibrate` wrote. Calibrate anew"
            ) from error
