"""What `synthscore calibrate` wrote -> the section that shows it: the promise, thresholds, how often texts are good."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ..errors import CertificateError, InputError
from ..thresholds.calibrate import At, Bin
from ..thresholds.certificate import Certificate
from . import figures as draw
from .layout import Card, Section, Table, counted, number, percent, spaced

CALIBRATION = "calibration.json"
_SHARE = {"precision": "kept texts are good", "recall": "good texts are not dropped", "fpr": "bad texts are kept"}
T = TypeVar("T", At, Bin)


@dataclass(frozen=True, slots=True)
class Calibration:
    """As the file holds it; see synthscore.thresholds.calibrate.looked_at."""

    certificate: Certificate
    counts: Sequence[At]
    good_by_score: Sequence[Bin]
    reliability: Sequence[Bin]


def read_calibration(path: Path) -> Calibration:
    """raises : InputError for a file that `synthscore calibrate` did not write"""
    try:
        certificate = Certificate.load(path)
        content = json.loads(path.read_text(encoding="utf-8"))
        return Calibration(
            certificate,
            _rows(At, content["counts"]),
            _bins(content["good_by_score"]),
            _bins(content["reliability"]) if "reliability" in content else [],
        )
    except (CertificateError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"cannot read {path.name}: {type(error).__name__}: {error}. Run `synthscore calibrate` again",
            source=str(path),
        ) from error


def _rows(kind: type[T], rows: Sequence[Mapping[str, Any]]) -> list[T]:
    for row in rows:
        if not all(
            value is None or (isinstance(value, int | float) and math.isfinite(value)) for value in row.values()
        ):
            raise TypeError(f"{dict(row)} holds what is no number")
    return [kind(**row) for row in rows]


def _bins(rows: Sequence[Mapping[str, Any]]) -> list[Bin]:
    bins = _rows(Bin, rows)
    if not bins or not all(each.n for each in bins):
        raise ValueError(f"{len(bins)} bins, expected one or more, each with texts")
    return bins


def calibration(found: Calibration) -> Section:
    certificate = found.certificate
    section = Section("calibration", "Thresholds with a guarantee", [])
    for each in certificate.certified:
        section.intro.append(
            f"{each.guarantee} at {each.threshold:g}: {spaced(each.n_hit)} of {spaced(each.n)} "
            f"{_SHARE[each.guarantee.kind]} ({percent(each.n_hit, each.n)}), confidence {each.level:g}."
        )
    unsure = ", and is unsure between" if certificate.drop_below < certificate.keep_from else ""
    section.intro.append(
        f"Of {counted(certificate.n_rows, 'labelled text')} {spaced(certificate.n_good)} are good. The certificate "
        f"keeps from {certificate.keep_from:g}, drops below {certificate.drop_below:g}{unsure}. It holds for scores of "
        "its signature alone."
    )
    section.cards.append(_card(found.good_by_score, "Good texts by score", "score"))
    if found.reliability:
        section.cards.append(_card(found.reliability, "Reliability", "P(score reaches the threshold)"))
    headers = ("score from", "kept", "good", "precision", "at least", "at most", "recall", "bad texts kept")
    rows = [
        (
            f"{at.threshold:g}", spaced(at.n_kept), spaced(at.n_good_kept), _percent(at.precision),
            percent(at.precision_low), percent(at.precision_high), _percent(at.recall), _percent(at.fpr),
        )
        for at in found.counts
    ]  # fmt: skip
    caption = "What each threshold keeps of the labelled texts; precision with its 90 % interval"
    section.tables.append(Table(headers, rows, caption, words=0))
    return section


def _percent(share: float | None) -> str:
    return "–" if share is None else percent(share)


def _card(bins: Sequence[Bin], title: str, label: str) -> Card:
    """The share of good texts over what was predicted, with its 90 % interval."""
    x = [row.predicted for row in bins]
    share = [row.n_good / row.n for row in bins]
    line = draw.Curve("good", x, share, [row.share_low for row in bins], [row.share_high for row in bins])
    figure = draw.curves([line], x_label=f"{label}, mean in each bin", title=title)
    rows = [
        (
            f"{row.low:g} to {row.high:g}",
            spaced(row.n),
            spaced(row.n_good),
            percent(row.n_good, row.n),
            number(row.predicted),
        )
        for row in bins
    ]
    table = Table(("bin", "texts", "good", "share", "mean"), rows, "Numbers", words=1, folded=True)
    return Card(title, "share of good texts, 90 % interval", figure, (), table)
