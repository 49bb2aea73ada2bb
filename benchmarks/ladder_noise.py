"""Why do own ladders of damaged text add noise across contexts, and does it help to know where their rungs stand?

    python -m benchmarks.ladder_noise --data BENCHMARKS --ladders DAMAGED --store FILE --limit 8 -a consistency

The rungs of each article's ladder are scored as texts on one shared, curated ladder, with the article shown. How far
a rung's place varies over articles is the noise. Then the texts are scored on their own ladders, and these scores
are mended by what was learnt: by the mean place of the ladder's rungs (shift), or read off the places of its rungs.
Beside them: anchored positions, and the shared ladder. Spearman inside / pooled / AUC, and pooled less own [90 %].
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np

from papers import evidence
from papers.benchmarks import BENCHMARKS
from synthscore.engines import open_judge
from synthscore.evaluation.agreement import agreement, difference, even_split
from synthscore.evaluation.methods import Tools, method
from synthscore.evaluation.ratings import RatedText
from synthscore.ladders.references import References

OWN = "ladder:both_orders=yes,ladders=own"
ANCHORED = "ladder:scoring=anchored,both_orders=yes,ladders=own"
SHARED = "ladder:both_orders=yes,ladders=shared"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--ladders", required=True)
    parser.add_argument("--store", required=True)
    parser.add_argument("--model", default="nano")
    parser.add_argument("--limit", type=int)
    parser.add_argument("-a", "--attribute", action="append", required=True)
    args = parser.parse_args()
    ratings = BENCHMARKS["summeval"].load(args.data).limited(args.limit)
    judge = open_judge(args.model, args.store)
    damaged = evidence.of_task(References.load(args.ladders), ratings)
    for attribute in args.attribute:
        with_own = Tools(judge=judge, references=damaged)
        with_shared = Tools(judge=judge, references=evidence.with_shared(evidence.curated("summarization"), attribute))
        rungs = [
            RatedText(f"{name}/{rung.level}", name, "", rung.text, {attribute: float(rung.level)})
            for name in ratings.contexts
            for rung in damaged.find(name, attribute, "summarization").usable
        ]
        placed = method(SHARED)(replace(ratings, texts=tuple(rungs)), attribute, with_shared).values
        places: dict[str, dict[int, float]] = {name: {} for name in ratings.contexts}
        for text, place in zip(rungs, placed.tolist(), strict=True):
            places[text.context_id][int(text.human[attribute])] = place
        table = np.array([[places[name].get(level, np.nan) for level in range(1, 6)] for name in places])
        print(f"{attribute}: rungs on the shared scale, mean {np.nanmean(table, axis=0).round(2)}, "
              f"sd over articles {np.nanstd(table, axis=0).round(2)}")  # fmt: skip
        own = method(OWN)(ratings, attribute, with_own).values
        shift = {name: float(np.nanmean(row)) for name, row in zip(places, table, strict=True)}
        middle = np.mean(list(shift.values()))

        def read_off(score: float, name: str, places: dict[str, dict[int, float]] = places) -> float:
            levels = sorted(places[name])
            heights = np.maximum.accumulate([places[name][level] for level in levels])
            return float(np.interp(score, levels, heights)) if not np.isnan(score) else np.nan

        scored = list(zip(own.tolist(), ratings.context_ids, strict=True))
        columns = {
            "own": own,
            "own, anchored": method(ANCHORED)(ratings, attribute, with_own).values,
            "own, shifted": np.array([score + shift[name] - middle for score, name in scored]),
            "own, read off": np.array([read_off(score, name) for score, name in scored]),
            "shared": method(SHARED)(ratings, attribute, with_shared).values,
        }
        human, contexts = ratings.human(attribute), ratings.context_ids
        for name, values in columns.items():
            inside = agreement(values, human, contexts).value
            pooled = agreement(values, human, contexts, level="pooled")
            auc = agreement(values, human, contexts, level="pooled", good_from=even_split(human)).value
            gap = difference(values, own, human, contexts, level="pooled", confidence=0.9)
            ends = "" if gap.low is None or gap.high is None else f" [{gap.low:+.2f}, {gap.high:+.2f}]"
            print(f"  {name:14} {inside:.2f} / {pooled.value:.2f} / {auc:.2f}  n {pooled.n}  {gap.value:+.2f}{ends}")


if __name__ == "__main__":
    main()
