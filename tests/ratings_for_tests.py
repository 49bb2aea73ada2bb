"""Texts that say how good they are, ladders for them, and a judge that reads it: for tests of methods."""

import numpy as np

from synthscore.evaluation.ratings import RatedText, Ratings
from synthscore.ladders.references import References
from synthscore.types import Context, Ladder, Rung

QUALITIES = {"c1": (2.5, 1.0, 4.5, 3.0), "c2": (1.5, 4.0, 2.0, 3.5)}
BEST_FIRST = {"c1": [2, 3, 0, 1], "c2": [1, 3, 2, 0]}


def rated(qualities=QUALITIES, attribute="coherence", task="summarization", **fields) -> Ratings:
    """One text a quality, which is its rating; None: an empty text."""
    texts = tuple(
        RatedText(f"{c}-{k}", c, f"s{k}", "" if q is None else f"Text of q={q} .", {attribute: q or 1.0})
        for c, values in qualities.items()
        for k, q in enumerate(values)
    )
    contexts = {c: Context(c, f"An article, {c}.") for c in qualities}
    return Ratings(
        **({"name": "toy", "texts": texts, "attributes": (attribute,), "contexts": contexts} | {"task": task} | fields)
    )


def ladders(n=5, contexts=("c1", "c2"), attribute="coherence", text="An article, {}.") -> References:
    """Rungs of quality 1..5, evenly spaced."""
    values = np.linspace(1, 5, n).tolist()
    return References(
        tuple(
            Ladder(
                c,
                "summarization",
                attribute,
                tuple(Rung(k + 1, k / (n - 1), f"Rung of q={q} .") for k, q in enumerate(values)),
                Context(c, text.format(c)) if text else None,
            )
            for c in contexts
        )
    )


def qualities(prompt) -> list[float]:
    """Of the texts shown, in order."""
    return [float(part.split()[0]) for part in prompt.text.split("q=")[1:]]


def reading_judge(bias=0.0, mass=0.9):
    """Of two texts the better, by their difference in nats plus bias for the first; of one, numbers near it."""

    def judge(prompt, labels):
        shown = qualities(prompt)
        if len(shown) == 1:
            log_odds = [-((float(label) - shown[0]) ** 2) for label in labels]
        else:
            odds = shown[0] - shown[1] + bias
            first, second = -np.logaddexp(0, -odds), -np.logaddexp(0, odds)
            said = {
                "A": first,
                "B": second,
                "Worse": first,
                "Better": second,
                "No": first,
                "Yes": second,
                "Similar": -2.0,
            }
            log_odds = [said[label] for label in labels]
        log_odds = np.array(log_odds, dtype=float)
        return log_odds - np.logaddexp.reduce(log_odds) + np.log(mass)

    return judge


def places(scores, ratings) -> dict[str, list[int]]:
    """Context -> places of its texts in it, best first."""
    found = {}
    for context_id in ratings.contexts:
        values = [-score.value for score in scores if score.context_id == context_id]
        found[context_id] = np.argsort(values, kind="stable").tolist()
    return found
