"""Do certificates keep what they promise, and how much do they keep?

Simulated texts, of which everything is known: quality q ~ N(0, 1), score 3 + q + noise, good where q is above a line.

    clear    noise .4, half are good
    unclear  noise 1, half are good
    many     noise .7, 79 % are good
    spoilt   noise .5, half are good; of scores above 4.3, where texts please the judge too well, 15 % are bad

Each calibration draws n labelled texts, and its certificate is compared with 2 000 000 texts of the same kind. A
promise is broken where the true precision or recall is less, or the true false-positive rate more, than was promised.
Bar: in at most 1 - confidence = 10 % of 500 calibrations, + 2 standard errors of 500 draws. Kept: the mean share that
the certificates keep (where none could be given: nothing, for recall all), against that of the best threshold (oracle),
which only who knows all texts can choose.

Then: precision by other orders of testing, all with the same bar; and texts that come 10 to a context and are alike
there (half of the variance of quality and of noise is the context's), for which the promise is not made; and scores
made to break the order of testing, which begins where a share of the scores is kept.

    OMP_NUM_THREADS=1 python -m benchmarks.certificates [--draws 500]

Writes benchmarks/results/certificates.txt and .json.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from synthscore.errors import CertificateError
from synthscore.signature import Signature
from synthscore.thresholds.calibrate import by_chance, calibrate, needed
from synthscore.thresholds.certificate import Guarantee
from synthscore.thresholds.labels import Labelled
from synthscore.types import BoolArray, FloatArray

SIZES = (100, 300, 1000)
GUARANTEES = ("precision>=0.9", "precision>=0.8", "recall>=0.9", "fpr<=0.1")
CONFIDENCE = 0.9
N_KNOWN = 2_000_000
RESULTS = Path(__file__).parent / "results"
SIGNATURE = Signature.of(judge="simulated")
STEP = 0.01

Population = tuple[FloatArray, BoolArray]


def texts(kind: str, n: int, rng: np.random.Generator, per_context: int = 1) -> Population:
    """Scores, and whether each is good."""
    noise, line = {"clear": (0.4, 0.0), "unclear": (1.0, 0.0), "many": (0.7, -0.8), "spoilt": (0.5, 0.0)}[kind]
    q, e = (_alike(n, per_context, rng) for _ in range(2))
    score, good = 3 + q + noise * e, q > line
    if kind == "spoilt":
        good &= (score < 4.3) | (rng.random(n) > 0.15)
    return score, good


def _alike(n: int, per_context: int, rng: np.random.Generator) -> FloatArray:
    own = rng.normal(size=n)
    if per_context == 1:
        return own
    return math.sqrt(0.5) * (np.repeat(rng.normal(size=n // per_context), per_context) + own)


class Truth:
    """What each threshold does to a known population."""

    def __init__(self, population: Population) -> None:
        score, good = population
        self.good, self.bad = np.sort(score[good]), np.sort(score[~good])
        self.n = len(score)

    def at(self, kind: str, thresholds: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The share promised, and the share kept."""
        hits = len(self.good) - np.searchsorted(self.good, thresholds)
        misses = len(self.bad) - np.searchsorted(self.bad, thresholds)
        share = {
            "precision": hits / np.maximum(hits + misses, 1),
            "recall": hits / len(self.good),
            "fpr": misses / len(self.bad),
        }[kind]
        return share, (hits + misses) / self.n

    def oracle(self, guarantee: Guarantee) -> float:
        """The share kept by the best threshold: most, or for recall least. 0: none does what is promised."""
        thresholds = np.arange(-2, 8, STEP)
        share, kept = self.at(guarantee.kind, thresholds)
        holds = (share <= guarantee.bound) if guarantee.kind == "fpr" else (share >= guarantee.bound)
        holds &= kept > 1e-3
        if not holds.any():
            return 0.0
        return float(kept[holds].min() if guarantee.kind == "recall" else kept[holds].max())


def measure(draws: int) -> Iterator[dict[str, Any]]:
    for kind in ("clear", "unclear", "many", "spoilt"):
        population = texts(kind, N_KNOWN, np.random.default_rng(0))
        truth = Truth(population)
        for text in GUARANTEES:
            for n in SIZES:
                yield _row(
                    kind, truth, Guarantee.parse(text), n, draws, _certificate, lambda n, rng, k=kind: texts(k, n, rng)
                )


def measure_orders(draws: int) -> Iterator[dict[str, Any]]:
    for kind in ("clear", "unclear", "spoilt"):
        truth = Truth(texts(kind, N_KNOWN, np.random.default_rng(0)))
        for n in SIZES:
            for name, order in ORDERS.items():
                row = _row(
                    kind, truth, Guarantee("precision", 0.8), n, draws, order, lambda n, rng, k=kind: texts(k, n, rng)
                )
                yield row | {"order": name}


def measure_crafted(draws: int) -> Iterator[dict[str, Any]]:
    """Scores 5, 4 and 1; of 5 fewer are good than of 4, and of both together just too few: no threshold holds."""
    guarantee = Guarantee("precision", 0.8)
    for five, four in ((0.02, 0.1), (0.05, 0.2), (0.1, 0.5)):
        for of_five in (0.0, 0.4, 0.75):
            of_four = min(1.0, (0.8 * (five + four) - five * of_five) / four) - 4e-3

            def draw(n: int, rng: np.random.Generator, a=five, b=four, good_a=of_five, good_b=of_four) -> Population:
                u = rng.random(n)
                score = np.where(u < a, 5.0, np.where(u < a + b, 4.0, 1.0))
                return score, rng.random(n) < np.where(u < a, good_a, np.where(u < a + b, good_b, 0.0))

            truth = Truth(draw(N_KNOWN, np.random.default_rng(0)))
            for n in SIZES:
                yield _row(f"{five:.0%} of 5, {of_five:.0%} good", truth, guarantee, n, draws, _certificate, draw)


def measure_alike(draws: int) -> Iterator[dict[str, Any]]:
    truth = Truth(texts("clear", N_KNOWN, np.random.default_rng(0)))
    for text in ("precision>=0.8", "recall>=0.9"):
        for n in SIZES:
            yield _row(
                "clear, 10 a context",
                truth,
                Guarantee.parse(text),
                n,
                draws,
                _certificate,
                lambda n, rng: texts("clear", n, rng, per_context=10),
            )


def _certificate(labelled: Labelled, guarantee: Guarantee) -> float | None:
    try:
        return calibrate(labelled, [guarantee], CONFIDENCE, step=STEP).certified[0].threshold
    except CertificateError:
        return None


def _row(
    kind: str,
    truth: Truth,
    guarantee: Guarantee,
    n: int,
    draws: int,
    certify: Callable[[Labelled, Guarantee], float | None],
    draw: Callable[[int, np.random.Generator], Population],
) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    found = [certify(Labelled(*draw(n, rng), SIGNATURE), guarantee) for _ in range(draws)]
    share, kept = truth.at(guarantee.kind, np.array([each for each in found if each is not None], dtype=np.float64))
    broken = (share > guarantee.bound) if guarantee.kind == "fpr" else (share < guarantee.bound)
    n_given = len(share)
    mean = kept.sum() / draws if guarantee.kind != "recall" else (kept.sum() + draws - n_given) / draws
    return {
        "texts": kind,
        "guarantee": str(guarantee),
        "n": n,
        "given": n_given / draws,
        "broken": int(broken.sum()) / draws,
        "kept": float(mean),
        "oracle": truth.oracle(guarantee),
    }


# ------------------------------------------------------------------------------------------------- other orders


def _precision(labelled: Labelled) -> tuple[FloatArray, np.ndarray, np.ndarray]:
    """Thresholds strictest first, with the kept and the good kept."""
    thresholds = np.unique(np.floor(labelled.value / STEP))[::-1] * STEP
    all_, good = np.sort(labelled.value), np.sort(labelled.value[labelled.good])
    return thresholds, len(all_) - np.searchsorted(all_, thresholds), len(good) - np.searchsorted(good, thresholds)


def _fixed(first: Callable[[int, Guarantee], int]) -> Callable[[Labelled, Guarantee], float | None]:
    """In a fixed order from where so many texts are kept."""

    def certify(labelled: Labelled, guarantee: Guarantee) -> float | None:
        thresholds, n, hits = _precision(labelled)
        at = int(np.argmax(n >= first(len(labelled), guarantee)))
        failed = np.flatnonzero(by_chance(hits[at:], n[at:], guarantee.bound) > 1 - CONFIDENCE)
        passed = int(failed[0]) if len(failed) else len(n) - at
        return float(thresholds[at + passed - 1]) if passed else None

    return certify


def _bonferroni(labelled: Labelled, guarantee: Guarantee, cells: int = 20) -> float | None:
    """The lowest of 20 thresholds, spread evenly from 1 to 5, at a twentieth of the error each."""
    thresholds = np.linspace(1, 5, cells)
    all_, good = np.sort(labelled.value), np.sort(labelled.value[labelled.good])
    n, hits = len(all_) - np.searchsorted(all_, thresholds), len(good) - np.searchsorted(good, thresholds)
    passed = np.flatnonzero(by_chance(hits, n, guarantee.bound) <= (1 - CONFIDENCE) / cells)
    return float(thresholds[passed[0]]) if len(passed) else None


def _no_test(labelled: Labelled, guarantee: Guarantee) -> float | None:
    """The lowest threshold that keeps the promise on the labelled texts: what is done without a certificate."""
    thresholds, n, hits = _precision(labelled)
    held = np.flatnonzero(hits >= guarantee.bound * n)
    return float(thresholds[held[-1]]) if len(held) else None


ORDERS: dict[str, Callable[[Labelled, Guarantee], float | None]] = {
    "fixed order, from a twentieth": _certificate,
    "fixed order, from the least n": _fixed(lambda n, guarantee: needed(guarantee, CONFIDENCE)),
    "fixed order, from a third": _fixed(lambda n, guarantee: max(n // 3, needed(guarantee, CONFIDENCE))),
    "Bonferroni, 20 thresholds": _bonferroni,
    "no test: what held on the labels": _no_test,
}


def lines(measured: dict[str, list[dict[str, Any]]], draws: int) -> Iterator[str]:
    limit = 0.1 + 2 * math.sqrt(0.09 / draws)
    yield f"{draws} calibrations a row, confidence {CONFIDENCE}; a promise may be broken in {limit:.3f} of them"
    for title, rows in measured.items():
        yield from (
            "",
            title,
            f"{'texts':20} {'guarantee':16} {'n':>5} {'given':>6} {'broken':>7} {'kept':>5} {'oracle':>7}",
        )
        for row in rows:
            mark = " *" if row["broken"] > limit else ""
            yield (
                f"{row['texts']:20} {row['guarantee']:16} {row['n']:5} {row['given']:6.2f} {row['broken']:7.3f} "
                f"{row['kept']:5.2f} {row['oracle']:7.2f}  {row.get('order', '')}{mark}"
            ).rstrip()
    yield ""
    yield "* broken too often"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=500)
    draws = parser.parse_args().draws
    measured = {
        "certificates": list(measure(draws)),
        "orders of testing": list(measure_orders(draws)),
        "no threshold holds, and the best scores are the worse ones": list(measure_crafted(draws)),
        "texts that are alike": list(measure_alike(draws)),
    }
    text = "\n".join(lines(measured, draws)) + "\n"
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "certificates.txt").write_text(text)
    (RESULTS / "certificates.json").write_text(json.dumps({"draws": draws, **measured}, indent=1) + "\n")
    print(text, end="")
    broken = max(row["broken"] for row in measured["certificates"])
    print(json.dumps({"most_broken": broken, "allowed": 1 - CONFIDENCE}))


if __name__ == "__main__":
    main()
