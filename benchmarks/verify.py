"""Do stored answers still hold? Asks a sample of the questions in a store again, and tells how far the answers differ.

    python -m benchmarks.verify STORE --model MODEL [--sample 100] [--seed 0] [--tolerance 0.001]

MODEL is the only model that is asked, by whatever name or address you give; nothing that the store names is contacted.
It must be the model that the stored signatures name, or nothing is asked. Other parts of the signatures (dtype,
versions of libraries) may differ, and are listed. Ceiling: no difference at all. For each stored signature and kind of
answer:

    replayed  answers that were drawn at random and asked again; failed: those that could not be answered now
    beyond    answers with a label or token beyond the tolerance, and texts that are not the same
    max       largest |difference| of the log-probabilities of labels or tokens, nats, of those that a server reported

The exit code is 3 where an answer is beyond the tolerance or could not be given.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from itertools import groupby
from operator import itemgetter

import numpy as np

from synthscore import engines
from synthscore.engine import Answer, Engine, Generation, LabelAnswer
from synthscore.signature import Signature
from synthscore.store.engine import answer_of
from synthscore.store.file import Batch, Store, Stored


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store")
    parser.add_argument("--model", required=True, help="a hub model, a folder, a GGUF file, or http://HOST:PORT/v1")
    parser.add_argument("--sample", type=int, default=100, help="answers of each signature and kind")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--tolerance", type=float, default=1e-3, help="nats")
    args = parser.parse_args(argv)
    good = True
    with Store(args.store, create=False) as store:
        engine = engines.open_engine(args.model)
        kinds: dict[tuple[str, str], list[Batch]] = {}
        for batch in store.batches():
            if batch.has_questions and _model(Signature.parse(batch.engine)) == _model(engine.signature):
                kinds.setdefault((batch.engine, batch.kind), []).append(batch)
        if not kinds:
            named = ", ".join(dict.fromkeys(batch.engine for batch in store.batches())) or "none"
            raise SystemExit(
                f"{args.store} holds no answers with their questions by the model {_model(engine.signature)!r}, as "
                f"which {args.model} opens: nothing was asked. It has answers of: {named}. Name their model"
            )
        for (stored_by, kind), batches in kinds.items():
            drawn = draw(store, batches, args.sample, args.seed)
            differences = replay(drawn, engine)
            failed = sum(math.isnan(difference) for difference in differences)
            beyond = sum(difference > args.tolerance for difference in differences)
            largest = max((abs(difference) for difference in differences if not math.isnan(difference)), default=0.0)
            print(stored_by)
            for name, (was, now) in Signature.parse(stored_by).differs(engine.signature).items():
                print(f"  {name}: {was or 'none'} is now {now or 'none'}")
            print(f"  {kind}: {len(drawn)} replayed, {failed} failed, {beyond} beyond, max {largest:.1e}")
            good = good and not failed and not beyond
    return 0 if good else 3


def _model(signature: Signature) -> str:
    return dict(signature.parts).get("model", "")


def draw(store: Store, batches: list[Batch], n: int, seed: int) -> list[Stored]:
    """Up to n answers that have their question, without repetition, in stored order."""
    places = [(index, place) for index, batch in enumerate(batches) for place in range(batch.n_answers)]
    chosen = sorted(random.Random(seed).sample(places, min(n, len(places))))
    drawn: list[Stored] = []
    for index, group in groupby(chosen, key=itemgetter(0)):
        answers = store.read(batches[index])
        drawn += [answers[place] for _, place in group if place < len(answers)]  # fewer, if some are damaged on disk
    return [answer for answer in drawn if answer.question is not None]


def replay(stored: list[Stored], engine: Engine) -> list[float]:
    """How far each answer differs from the one that the engine gives now; NaN where it gives none."""
    questions = [answer.question for answer in stored if answer.question is not None]
    before = [answer_of(question.kind, answer.value) for question, answer in zip(questions, stored, strict=True)]
    return [difference(was, now) for was, now in zip(before, engine.answer(questions).rows, strict=True)]


def difference(was: Answer, now: Answer) -> float:
    """Largest |difference| in nats; of texts, and of other numbers of tokens, 0 or infinity; NaN for a failure."""
    if isinstance(now, Exception):
        return math.nan
    if isinstance(was, Generation):
        return 0.0 if was == now else math.inf
    if isinstance(was, LabelAnswer) and isinstance(now, LabelAnswer):
        hidden = [answer.censored or [False] * len(answer.log_probs) for answer in (was, now)]
        shown = ~np.any(hidden, axis=0)
        was, now = np.array(was.log_probs)[shown], np.array(now.log_probs)[shown]
    before, after = np.asarray(was), np.asarray(now)
    if before.shape != after.shape:
        return math.inf
    with np.errstate(invalid="ignore"):  # a label that stays impossible is no difference
        gaps = np.where(before == after, 0.0, np.abs(before - after))
    return float(gaps.max(initial=0.0))


if __name__ == "__main__":
    sys.exit(main())
