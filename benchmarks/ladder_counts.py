"""Can counts of words tell the rungs of released ladders apart? Of a good set they cannot.

    python -m benchmarks.ladder_counts data/references/curated/first24 ... [--corpora DIR] [--json FILE]

For each ladder and each count, Spearman's correlation of the count with the rung; then its mean over the ladders of a
task and attribute, and of a task. A count that is equal on all rungs of a ladder tells nothing of it: 0 there.
`together` is what the counts know jointly: a ridge regression of the rung on all, fitted on ladders of other contexts.
`pairs in order`: the share of pairs of rungs that the 21 counts of `synthscore doctor` order, most of which are about
style (length of words and sentences, punctuation, function words), fitted in the same way, attribute by attribute; .5
is chance. Ceiling: 0 for every count (.5 for pairs), but where the attribute is about it. By chance alone the mean of n
ladders of five strays by .5 / sqrt(n).
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise
from pathlib import Path
from zlib import crc32

import numpy as np
from scipy.stats import spearmanr

from synthscore.checking.counts import FUNCTION_WORDS, count_quality, words_of
from synthscore.evaluation.methods.floors import source_overlap
from synthscore.ladders.references import References
from synthscore.types import Ladder

NEAR_THE_END = 40  # words of the context that count as its end
IN_ORDER = "pairs in order"


def pairs_of(words: Sequence[str]) -> list[tuple[str, str]]:
    return list(pairwise(words))


def copied_runs(words: Sequence[str], source: Sequence[str]) -> list[tuple[int, int]]:
    """(length, start in the source) of the maximal runs of two or more words that the source holds, left to right.

    Greedy: at each word the longest run that begins there; where the source holds it twice, its first place.
    """
    starts: dict[tuple[str, str], list[int]] = defaultdict(list)
    for place, pair in enumerate(pairs_of(source)):
        starts[pair].append(place)
    runs, at = [], 0
    while at < len(words) - 1:
        best = (1, 0)
        for start in starts.get((words[at], words[at + 1]), ()):
            size = 2
            while at + size < len(words) and start + size < len(source) and words[at + size] == source[start + size]:
                size += 1
            best = max(best, (size, start), key=lambda run: run[0])
        if best[0] > 1:
            runs.append(best)
        at += best[0]
    return runs


def seen_pairs(texts: Sequence[str]) -> np.ndarray:
    """The word pairs of a background corpus, as sorted 32-bit hashes; of six million words, one unseen pair in
    2,600 is taken for seen."""
    return np.unique(np.array([_hash(pair) for text in texts for pair in pairs_of(words_of(text))], np.uint32))


def _hash(pair: tuple[str, str]) -> int:
    return crc32(" ".join(pair).encode())


def counts_of(text: str, source: str, seen: np.ndarray | None = None) -> dict[str, float]:
    """What can be counted of a text beside its source (the context with its facts), by name.

    seen : the word pairs of a corpus; without them one count is left out
    """
    words, origin = words_of(text), words_of(source)
    pairs, known = pairs_of(words), set(origin)
    content = [word for word in words if word not in FUNCTION_WORDS]
    runs = copied_runs(words, origin)
    sizes = [size for size, _ in runs] or [0]
    starts = [start for _, start in runs]
    forward = [later > sooner for sooner, later in pairwise(starts)]
    ending = set(pairs_of(origin[-NEAR_THE_END:]))
    n = max(1, len(words))
    counts = {
        "length": float(len(words)),
        "type-token ratio": len(set(words)) / n,
        "overlap of pairs": source_overlap(text, source, 2, "letters") if pairs else 0.0,
        "overlap of content words": sum(word in known for word in content) / max(1, len(content)),
        "copied span": max(sizes) / n,
        "longest run": float(np.log1p(max(sizes))),
        "density of runs": float(np.log1p(sum(size**2 for size in sizes) / n)),
        "unsupported numbers": sum(word[0].isdigit() and word not in known for word in words) / n,
        "unsupported words": sum(word not in known for word in content) / n,
        "runs in the source's order": float(np.mean(forward)) if forward else 0.0,
        "repeated pairs": (len(pairs) - len(set(pairs))) / max(1, len(pairs)),
        "ends on a full stop": float(text.rstrip().endswith((".", '"', "”", "'"))),
        "pairs of the source's end": sum(pair in ending for pair in pairs) / max(1, len(pairs)),
        "place of the runs": float(np.mean(starts)) / max(1, len(origin)) if starts else 0.0,
    }
    if seen is not None and len(seen):
        hashes = np.array([_hash(pair) for pair in pairs], np.uint32)
        at = np.minimum(np.searchsorted(seen, hashes), len(seen) - 1)
        counts["unseen pairs"] = float(np.mean(seen[at] != hashes)) if pairs else 0.0
    return counts


def ladder_table(ladder: Ladder, seen: np.ndarray | None = None) -> dict[str, np.ndarray]:
    """Each count of a ladder's usable rungs, worst first."""
    context = ladder.context
    source = f"{context.text} {context.facts}" if context else ""
    rows = [counts_of(rung.text, source, seen) for rung in ladder.usable]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def spearman(values: np.ndarray) -> float:
    """Correlation of a count with the rung; 0 where it is the same on all."""
    return float(spearmanr(np.arange(len(values)), values).statistic) if np.ptp(values) > 0 else 0.0


def together(tables: Sequence[Mapping[str, np.ndarray]], contexts: Sequence[str], ridge: float = 10.0) -> list[float]:
    """Spearman with the rung, ladder by ladder, of the counts weighed on the ladders of the other contexts.

    Counts and rungs are centred within each ladder, and counts scaled by their spread over all; a single context: 0.
    """
    centred = [np.column_stack([values - values.mean() for values in table.values()]) for table in tables]
    spread = np.concatenate(centred).std(axis=0)
    scaled = [rows / np.where(spread > 0, spread, 1.0) for rows in centred]
    rungs = [np.arange(len(rows)) - (len(rows) - 1) / 2 for rows in scaled]
    found = []
    for context, own in zip(contexts, scaled, strict=True):
        others = [i for i, other in enumerate(contexts) if other != context]
        if not others:
            found.append(0.0)
            continue
        x, y = np.concatenate([scaled[i] for i in others]), np.concatenate([rungs[i] for i in others])
        weights = np.linalg.solve(x.T @ x + ridge * np.eye(x.shape[1]), x.T @ y)
        found.append(spearman(own @ weights))
    return found


def pairs_in_order(ladders: Sequence[Ladder]) -> list[float]:
    """Share of each ladder's pairs of rungs that doctor's counts order as written; a pair that they find equal is half
    in order. .5 where a single context is all there is; NaN where a ladder lacks its context.

    ladders : of one task and attribute
    """
    if any(ladder.context is None for ladder in ladders):
        return [np.nan] * len(ladders)
    found = []
    for quality in count_quality(ladders):
        values = [quality[level] for level in sorted(quality)]
        if np.isnan(values).any():
            found.append(0.5)
            continue
        steps = [better - worse for worse, better in combinations(values, 2)]
        found.append(float(np.mean((np.sign(steps) + 1) / 2)))
    return found


def figures(ladders: Sequence[Ladder], seen: np.ndarray | None = None) -> dict[tuple[str, str], dict[str, float]]:
    """(task, attribute) -> count -> mean Spearman over its ladders, and how many; attribute "" is the task."""
    groups: dict[tuple[str, str], list[Ladder]] = defaultdict(list)
    for ladder in ladders:
        groups[ladder.task, ladder.attribute].append(ladder)
    found: dict[tuple[str, str], dict[str, float]] = {}
    of_task: dict[str, list[dict[str, float]]] = defaultdict(list)
    for key, group in sorted(groups.items()):
        tables = [ladder_table(ladder, seen) for ladder in group]
        jointly = together(tables, [ladder.context_id for ladder in group])
        shares = pairs_in_order(group)
        rows = [
            {name: spearman(values) for name, values in table.items()} | {"together": joint, IN_ORDER: share}
            for table, joint, share in zip(tables, jointly, shares, strict=True)
        ]
        found[key] = _mean(rows)
        of_task[key[0]] += rows
    return found | {(task, ""): _mean(rows) for task, rows in of_task.items()}


def _mean(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {"ladders": len(rows)} | {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}


def background(corpora: Path, n_words: int = 6_000_000) -> np.ndarray:
    """The word pairs of the first documents of each kind in the training corpora, n_words in all."""
    from training.corpora import training_documents

    texts: list[str] = []
    for kind in ("article", "dialogue", "story"):
        left = n_words // 3
        for row in training_documents(corpora, kind):
            texts.append(row["text"])
            left -= len(row["text"].split())
            if left < 0:
                break
    return seen_pairs(texts)


def table_text(found: Mapping[tuple[str, str], Mapping[str, float]]) -> str:
    """A row a count, a column a task and attribute; means beyond .15 are starred."""
    columns = sorted(found)
    names = list(next(iter(found.values())))
    width = max(map(len, names))
    lines = []
    for task in sorted({task for task, _ in columns}):
        own = [key for key in columns if key[0] == task]
        lines.append(f"{task:{width}}  " + "  ".join(f"{key[1] or 'all':>17}" for key in own))
        for name in names:
            lines.append(f"{name:{width}}  " + "  ".join(f"{_cell(name, found[key][name]):>17}" for key in own))
        lines.append("")
    return "\n".join(lines)


def _cell(name: str, value: float) -> str:
    if name in ("ladders", IN_ORDER):
        return f"{value:.0f}" if name == "ladders" else f"{value:.2f} "
    return f"{value:+.2f}{'*' if abs(value) > 0.15 else ' '}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("releases", nargs="+", help="references folders or parquet files")
    parser.add_argument("--corpora", type=Path, help="the training corpora, for the count of unseen word pairs")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    args = parser.parse_args()
    ladders = [ladder for release in args.releases for ladder in References.load(release)]
    found = figures(ladders, background(args.corpora) if args.corpora else None)
    print(table_text(found))
    if args.json:
        rows = [{"task": task, "attribute": attribute, **values} for (task, attribute), values in found.items()]
        args.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
