"""A judge -> the same judge, whose verdicts lean to the text that counts of words are for (engines/counts.py).

    python -m training.weights --model runs/nano/out --corpora CORPORA --out runs/nano/counted

For each attribute one weight a count, by logistic regression on the differences of two texts' counts, better minus
worse: so the verdict turns round with the texts. Fitted on groups of known damage and on what was written by hand
(written.py), where copying says little: WRITTEN is its share of the whole. SALAD of the summaries' groups have a text
of the article's words in no order. No human rating is looked at.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize
from transformers import AutoTokenizer

from synthscore.engines.counts import COUNTS, SourceText, Vocabulary
from synthscore.judging.templates import load_task
from synthscore.types import FloatArray

from .corpora import documents
from .groups import Group, groups
from .written import with_salad, written

WRITTEN = 0.5
SALAD = 0.5
RIDGE = 10.0
STRENGTH = 0.5  # of what was fitted: with all of it, a text that copies well beats one that says it well (LOG.md)
SURE = 0.3  # weight of a pair whose severities hardly differ; a pair counts the more, the more they do


def differences(made: Sequence[Group], tokenizer: Any) -> tuple[FloatArray, FloatArray]:
    """Counts of the better text minus those of the worse, of all pairs of different severity, shape
    (n_pairs, n_counts), and what each pair weighs."""
    vocabulary = Vocabulary.of(tokenizer)

    def ids(text: str) -> np.ndarray:
        return np.array(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"], dtype=np.int64)

    rows, weights = [np.empty((0, len(COUNTS)))], [np.empty(0)]
    for group in made:
        source = SourceText(ids(f"{group.context}\n{group.facts}"), vocabulary)
        counts = np.array([source.counts(ids(text)) for text in group.texts])
        severities = np.array(group.severities)
        better, worse = np.nonzero(severities[:, None] < severities)
        rows.append(counts[better] - counts[worse])
        weights.append(SURE + severities[worse] - severities[better])
    return np.concatenate(rows), np.concatenate(weights)


def fitted(rows: FloatArray, weights: FloatArray, ridge: float = RIDGE) -> FloatArray:
    """The weights under which the better texts are most probably preferred, shape (n_counts,)."""

    def loss(found: FloatArray) -> tuple[float, FloatArray]:
        log_odds = rows @ found
        slope = ridge * found - (weights / (1 + np.exp(log_odds))) @ rows
        return float((weights * np.logaddexp(0, -log_odds)).sum() + ridge / 2 * (found @ found)), slope

    return np.asarray(minimize(loss, np.zeros(rows.shape[1]), jac=True, method="L-BFGS-B").x)


def damaged(corpora: Path, n: int, seed: int) -> list[Group]:
    """n groups of each attribute, from training documents."""
    made: dict[tuple[str, str], list[Group]] = defaultdict(list)
    keys: set[tuple[str, str]] = set()
    for seen, group in enumerate(groups(documents(corpora, seed), np.random.default_rng(seed))):
        keys.add((group.task, group.attribute))
        made[group.task, group.attribute].append(group)
        if seen > 40 * n and all(len(made[key]) >= n for key in keys):
            break
    return [group for key in sorted(made) for group in made[key][:n]]


def of_attributes(found: Sequence[Group], by_hand: Sequence[Group], tokenizer: Any) -> list[dict[str, Any]]:
    """As a judge's config.json has them (counts.Counted)."""
    every, _ = differences([*found, *by_hand], tokenizer)
    spread = np.sqrt((every**2).mean(axis=0))  # so that the ridge takes counts alike
    spread[spread == 0] = 1.0
    out = []
    for task, name in sorted({(group.task, group.attribute) for group in (*found, *by_hand)}):
        parts = []
        for made in (found, by_hand):
            rows, weights = differences([g for g in made if (g.task, g.attribute) == (task, name)], tokenizer)
            parts.append((rows / spread, weights))
        (rows, weights), (own, own_weights) = parts
        if len(rows) and len(own):
            own_weights = own_weights * (WRITTEN / (1 - WRITTEN) * weights.sum() / own_weights.sum())
        weights = fitted(np.concatenate([rows, own]), np.concatenate([weights, own_weights])) / spread * STRENGTH
        out.append(
            {
                "begins": begins(task, name),
                "worse": load_task(task).attribute(name).worse,
                "weights": [round(float(w), 4) for w in weights],
            }
        )
    return out


def begins(task: str, name: str) -> str:
    """What a question about an attribute begins with: by that its weights are found."""
    attribute = load_task(task).attribute(name)
    return f"{attribute.title}: {attribute.description}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--corpora", type=Path, required=True)
    parser.add_argument("--groups", type=int, default=400, help="of known damage, an attribute")
    parser.add_argument("--keep", nargs="*", default=[], help="tasks whose weights stay the model's, such as dialogue")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    rng = np.random.default_rng(1)
    found, by_hand = (
        [with_salad(g, rng) if g.task == "summarization" and rng.random() < SALAD else g for g in made]
        for made in (damaged(args.corpora, args.groups, seed=5), written(args.corpora))
    )
    weights = of_attributes(found, by_hand, tokenizer)
    args.out.mkdir(parents=True, exist_ok=True)
    for file in args.model.iterdir():
        shutil.copy(file, args.out / file.name)
    config = json.loads((args.out / "config.json").read_text(encoding="utf-8"))
    kept = {begins(task, name) for task in args.keep for name in load_task(task).attributes}
    before = {row["begins"]: row for row in config["synthscore"]["counts"] if row["begins"] in kept}
    config["synthscore"]["counts"] = [before.get(row["begins"], row) for row in weights]
    (args.out / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
