"""`synthscore calibrate`: scores with people's labels -> a certificate that `filter` keeps by."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from .labels import LabelOptions
from .messages import Messages, UsageError, counted, exit_code
from .options import FileIn, Input, Output

if TYPE_CHECKING:
    from ..thresholds.certificate import Certificate, Certified
    from ..thresholds.labels import Labelled


def calibrate(
    scores: FileIn,
    /,
    *,
    guarantee: list[str],
    confidence: float = 0.9,
    output: Output = "-",
    labels: LabelOptions = LabelOptions(),
    attribute: Annotated[str | None, Parameter(name=["--attribute", "-a"], group="labels")] = None,
    one_per_context: Annotated[bool, Parameter(group="labels")] = False,
    start: float | None = None,
    input: Input = Input(),
    messages: Messages = Messages(),
) -> int:
    """Scores with people's labels -> a threshold with a guarantee.

    For example:
      $ synthscore calibrate labels.jsonl --guarantee "precision>=0.9" -o run/calibration.json
      $ synthscore calibrate scores.jsonl --labels people.csv --good-from 4 --guarantee "recall>=0.95"

    Finds the threshold that keeps most and still holds what was promised, with the confidence asked for:
    precision>=P (of the kept texts, at least the share P is good), recall>=R (of the good texts, at least
    R are not dropped) or fpr<=F (of the bad texts, at most F are kept). With recall beside another
    promise there are two thresholds, and what lies between them is unsure.

    The rows are those of `synthscore score` with a column label (true or 1 for good, false or 0 for bad), or
    human with --good-from; or the labels are in a file of their own, joined on id, or on context_id and
    system. The promise is about texts drawn as the labelled ones were, each by itself: label texts of many
    contexts, chosen at random. It needs labels enough; where there are too few, the error says how many.

    Writes the certificate, for `synthscore filter --certificate FILE`: JSON, with the signature of the
    scores, which filter checks. The exit code is 3 where rows could not be used, and 1 where the
    promise cannot be made.

    Args:
        scores: rows with score, signature and label (or human)
        guarantee: "precision>=P", "recall>=R" or "fpr<=F", in quotes; may be repeated: then all hold together
        confidence: probability that the guarantees hold, over draws of the labelled texts
        output: a .json file, or - for stdout
        attribute: which, where the scores are of several
        one_per_context: of several texts of a context take one, by a hash of its id
        start: strictest threshold tested for precision, chosen before seeing these scores (default: the one that keeps
            a twentieth of them, or as many as the test needs; docs/thresholds.md)
    """
    from ..thresholds.calibrate import calibrate as certify
    from ..thresholds.certificate import Guarantee
    from ..thresholds.labels import Labelled

    if not 0 < confidence < 1:
        raise UsageError(f"--confidence {confidence:g}: expected 0 < C < 1, such as 0.9")
    guarantees = [Guarantee.parse(text) for text in guarantee]
    labelled = Labelled.load(
        scores,
        labels.read(input.encoding),
        good_from=labels.good_from,
        attribute=attribute,
        one_per_context=one_per_context,
        encoding=input.encoding,
        fields=input.fields,
    )
    certificate = certify(labelled, guarantees, confidence, start=start)
    if output == "-":
        print(certificate.to_json(), end="", flush=True)
    else:
        certificate.save(output)
    messages.note(*_lines(labelled, certificate), signature=str(certificate.signature))
    return exit_code(not labelled.n_broken)


def _lines(labelled: Labelled, certificate: Certificate) -> Iterator[str]:
    from ..thresholds.drawn import NOT_KNOWN

    of = f" of {counted(labelled.n_contexts, 'context')}" if labelled.n_contexts else ""
    unscored = f", {certificate.n_unscored} of them unscored" if certificate.n_unscored else ""
    yield f"{counted(len(labelled), 'labelled text')}{of}, {certificate.n_good} good{unscored}"
    yield from labelled.left_out
    for each in certificate.certified:
        yield _line(each)
    n_kept = int((labelled.value >= certificate.keep_from).sum())
    n_dropped = int((labelled.value < certificate.drop_below).sum())
    yield (
        f"keeps from {certificate.keep_from:g}, drops below {certificate.drop_below:g}: of the labelled texts "
        f"{n_kept} kept, {n_dropped} dropped, {len(labelled) - n_kept - n_dropped} unsure"
    )
    yield (
        f"promised of texts drawn as these were, with as many good ones among them, at confidence "
        f"{certificate.confidence:g} for one draw of labels and one choice of guarantees, good and --start: to try "
        "others until a certificate is given voids it"
    )
    if labelled.drawn == "not known":
        yield f"{NOT_KNOWN}, and the certificate says so"
    if 0 < labelled.n_contexts < len(labelled):
        yield (
            f"note: {counted(len(labelled), 'text')} are of only {counted(labelled.n_contexts, 'context')}. Texts of "
            "one context are alike, and the confidence is as stated only for texts drawn each by itself. Take one text "
            "of each with --one-per-context"
        )


def _line(each: Certified) -> str:
    share = {"precision": "kept texts are good", "recall": "good texts are at or above it", "fpr": "bad texts are kept"}
    return (
        f"{each.guarantee} at {each.threshold:g}, confidence {each.level:g}: {each.n_hit} of {each.n} "
        f"{share[each.guarantee.kind]} ({100 * each.observed:.1f} %)"
    )
