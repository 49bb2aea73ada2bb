"""Is the mean of several judges, with equal weights, what one wants; and does its error hold?

    python -m benchmarks.jury [--repetitions 30] [--published FOLDER]

Simulated judges: 20 contexts of 16 texts, N(0, 1); each judge sees a text at slope times (that + an error of its own),
and answers about 24 pairs of each context in both orders, with a bias of 0.5 nats. hard: each answer is a coin's flip
(`bt`); soft: log-odds, with noise of 0.7 nats of the pair, and 0.7 of the answer (`poe-bt`).
    errors      standard deviations of the judges' own errors; all slopes 1
    copy        errors .7, .3, .3; and the first one's answers once more
    correlated  errors 1, 1, .4, of which the first two correlate .8
    slopes      log slopes drawn from N(0, 1), errors .3
    adversary   two or three of slope 1 and error .3, and one of slope -1
    constant    two of slope 1 and error .3, and one who always says the same
    noise       two of slope 1 and error .3, and one of slope 0 whose answers are noise
    stranger    two of slope 1 and error .3, and one who has an opinion of its own, N(0, 1), which is nobody else's
Errors: pairs of a context in the wrong order, percent. plain mean: of all judges' scores by the method, in its unit.
The best single judge is chosen by the truth. 90 %: the share of intervals that hold the truth, in the unit in which the
scores follow it (their slope on the truth over the run is 1).

Ladders: 25 contexts of 16 texts, 5 rungs, both orders (benchmarks/anchored.py), judges of 1.2 nats a rung and noise of
1 nat in every answer, but for what the name says. A copy is of the judge of 0.6 nats a rung; correlated: opinions of 1
nat about each text, of which the first two correlate .8; a better judge has opinions of 0.4 nats.

Published judges, where there is a folder of them (SummEval, 50 articles): ChatGPT's choices on a chain of 11 pairs;
GPT-4o (mean of 5 prompts) and Qwen2.5-72B, whose distributions of a score 1..5 say P(one text is better). Spearman with
the mean of three experts inside articles; the difference from the jury has a 95 % interval over articles.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from synthscore.evaluation.intervals import spread
from synthscore.ranking import Comparisons, ComparisonSets, Rankings, rank, rank_jury
from synthscore.ranking.designs import greedy
from synthscore.scoring.anchored.fit import fit
from synthscore.scoring.anchored.model import SoftAnswers
from synthscore.scoring.anchored.scale import Anchors, Scale
from synthscore.scoring.jury import score_together
from synthscore.scoring.scorer import Counts, Scored
from synthscore.signature import Signature
from synthscore.types import FloatArray, Score, Verdict

from .anchored import simulate

N_CONTEXTS, N, BIAS, NOISE = 20, 16, 0.5, 0.7
IDS = tuple(f"t{k}" for k in range(N))
BY = ("context_id", "attribute", "judge")
Orders = dict[tuple[str, ...], dict[str, float]]
Judge = list[Comparisons]
Ask = Callable[[FloatArray], Judge]


# ------------------------------------------------------------------------------------------------- comparisons


def asked(rng: np.random.Generator, soft: bool) -> Ask:
    """How a judge is asked, who sees texts where it is told: its calls about each context."""

    def ask(seen: FloatArray) -> Judge:
        judge = []
        for t in seen:
            first, second = greedy(N, 48, rng).T
            d = t[first] - t[second] + BIAS
            if soft:
                _, pair = np.unique(np.minimum(first, second) * N + np.maximum(first, second), return_inverse=True)
                of_pair = rng.normal(0, NOISE, pair.max() + 1)[pair] * np.sign(second - first)
                p = 1 / (1 + np.exp(-(d + of_pair + rng.normal(0, NOISE, len(d)))))
            else:
                p = (rng.random(len(d)) < 1 / (1 + np.exp(-d))).astype(float)
            judge.append(Comparisons.from_probabilities(IDS, first, second, p))
        return judge

    return ask


def designs(rng: np.random.Generator, truth: FloatArray, soft: bool) -> dict[str, list[Judge]]:
    """By name; a jury whose name begins with another one's is that one and somebody else."""
    ask = asked(rng, soft)

    def judge(error: float, slope: float = 1.0) -> Judge:
        return ask(slope * (truth + error * rng.normal(size=truth.shape)))

    three = [judge(0.7), judge(0.3), judge(0.3)]
    common = rng.normal(size=truth.shape)
    pair = [ask(truth + np.sqrt(0.8) * common + np.sqrt(0.2) * rng.normal(size=truth.shape)) for _ in range(2)]
    good = [judge(0.3), judge(0.3), judge(0.3)]
    constant = [
        Comparisons.from_probabilities(IDS, calls.first, calls.second, np.full(len(calls), 0.5)) for calls in good[0]
    ]
    return {
        "errors .7, .3, .3": three,
        "copy of the worst": [*three, three[0]],
        "errors .7, .3": three[:2],
        "errors .7, .3, and a copy of .7": [*three[:2], three[0]],
        "correlated": [*pair, judge(0.4)],
        "slopes": [judge(0.3, slope) for slope in np.exp(rng.normal(size=3))],
        "two good": good[:2],
        "two good, adversary": [*good[:2], judge(0.3, -1.0)],
        "two good, constant": [*good[:2], constant],
        "two good, noise": [*good[:2], judge(0.0, 0.0)],
        "two good, stranger": [*good[:2], ask(rng.normal(size=truth.shape))],
        "three good": good,
        "three good, adversary": [*good, judge(0.3, -1.0)],
    }


def wrong(found: FloatArray, truth: FloatArray) -> float:
    """Share of pairs of a context in the wrong order; a tie is half."""
    i, j = np.triu_indices(N, 1)
    off = np.sign(found[:, i] - found[:, j]) - np.sign(truth[:, i] - truth[:, j])
    return float(np.abs(off).mean() / 2)


def held(found: FloatArray, stderr: FloatArray, truth: FloatArray) -> float:
    """Share of 90 % intervals that hold the truth."""
    found, truth = (x - x.mean(axis=1, keepdims=True) for x in (found, truth))
    slope = (found * truth).sum() / (truth * truth).sum()
    return float((np.abs(found - slope * truth) < 1.645 * stderr).mean())


def numbers(rankings: Rankings, name: str = "scores") -> FloatArray:
    return np.stack([getattr(rankings.by_group[str(c), "a"], name) for c in range(N_CONTEXTS)])


def compared(rng: np.random.Generator, soft: bool) -> dict[str, list[float]]:
    """Of each design: pairs in the wrong order by the jury, by the plain mean, by the best judge; and what holds."""
    truth = rng.normal(size=(N_CONTEXTS, N))
    method, result = "poe-bt" if soft else "bt", {}
    for name, judges in designs(rng, truth, soft).items():
        alone = []
        for judge in judges:
            own = ComparisonSets(BY[:2], {(str(c), "a"): calls for c, calls in enumerate(judge)})
            alone.append(numbers(rank(own, method, stderr="none")))
        sets = {(str(c), "a", f"judge {m}"): calls for m, judge in enumerate(judges) for c, calls in enumerate(judge)}
        together = rank_jury(ComparisonSets(BY, sets), method)
        scores, stderr = numbers(together), numbers(together, "stderr")
        best = min(wrong(each, truth) for each in alone)
        result[name] = [wrong(scores, truth), wrong(np.mean(alone, 0), truth), best, held(scores, stderr, truth)]
    return result


# ------------------------------------------------------------------------------------------------- ladders


def scores_of_judge(
    name: str, answers: SoftAnswers, noise: float, rng: np.random.Generator, opinion: FloatArray | None = None
) -> Scored:
    """What a judge who answers so, but for noise of its own, makes of the texts: on a scale fitted to them.

    answers : as simulated, to ladders of five rungs. noise : of its log-odds, nats
    opinion : what it thinks of each text beyond the truth, nats, shape (n_targets,)
    """
    d = noise * rng.normal(size=len(answers)) / 2
    if opinion is not None:
        d += np.where(answers.first < 5, 0.0, opinion[np.maximum(answers.first - 5, 0)]) / 2
    probs = answers.probs * np.exp(np.stack([d, -d, 0 * d], axis=1))
    answers = replace(answers, probs=probs / probs.sum(axis=1, keepdims=True))
    model, posterior = fit(answers)
    anchors = {str(c): Anchors(posterior.rungs[c], posterior.rung_cov[c]) for c in range(answers.n_ladders)}
    scale = Scale(model, anchors, "t", "a", Signature.of(model=name, task="t"))
    verdicts: dict[int, list[Verdict]] = defaultdict(list)
    for first, second, sign, p in zip(answers.first, answers.second, answers.sign, answers.probs, strict=True):
        if first >= 5:
            verdicts[first - 5].append(Verdict(int(second) + 1, bool(sign < 0), *p.tolist()))
    details = {"n_rungs": 5.0, "label_mass": 1.0}
    texts = zip(answers.target_ladder.tolist(), posterior.mean.tolist(), posterior.sd.tolist(), strict=True)
    rows = []
    for i, (context, x, sd) in enumerate(texts):
        score = Score(
            str(i), str(context), "a", x, stderr=sd, n_comparisons=5, details=details, verdicts=tuple(verdicts[i])
        )
        if scale.useless:
            score = replace(score, value=None, stderr=None, status="unscored", reason=scale.useless)
        rows.append([(score, scale.signature)])
    return Scored(rows, Counts(n_targets=len(rows)), [scale])


def on_ladders(rng: np.random.Generator, seed: int) -> dict[str, list[float]]:
    """As `compared`; held: in the rung scale's own unit."""

    def judge(
        name: str, slope: float, noise: float = 1.0, opinion: FloatArray | None = None
    ) -> tuple[Scored, FloatArray]:
        drawn = simulate(np.random.default_rng(seed), 25, 5, noise=0.0, discrimination=slope, position_bias=0.5)
        return scores_of_judge(name, drawn.answers, noise, rng, opinion), drawn.truth

    (poor, truth), one, two = judge("poor", 0.6), judge("one", 1.2)[0], judge("two", 1.2)[0]
    own = rng.normal(size=(3, len(truth)))
    own[:2] = np.sqrt(0.8) * rng.normal(size=len(truth)) + np.sqrt(0.2) * own[:2]
    sharing = [judge(f"{k}", 1.2, opinion=own[k])[0] for k in range(3)]
    result = {}
    juries = {
        "slopes .6, 1.2, 1.2": [poor, one, two],
        "copy of the worst": [poor, one, two, poor],
        "correlated": sharing,
        "correlated, and the third is better": [*sharing[:2], judge("2", 1.2, opinion=0.4 * own[2])[0]],
        "correlated, the first two alone": sharing[:2],
        "slopes drawn": [judge(f"{k}", 1.2 * np.exp(rng.normal()))[0] for k in range(3)],
        "two good": [one, two],
        "two good, adversary": [one, two, judge("adversary", -1.2)[0]],
        "two good, noise": [one, two, judge("noise", 0.0, 2.0)[0]],
    }
    for name, judges in juries.items():
        together = score_together({f"judge {k}": scored for k, scored in enumerate(judges)})
        stacked = [[score.value for score, _ in scored] for scored in judges]
        values = np.array([row for row in stacked if row[0] is not None], dtype=float)
        low, high = (np.array([getattr(score, end) for score, _ in together]) for end in ("low", "high"))
        found = np.array([score.value for score, _ in together])
        of = truth.reshape(-1, N)
        singles = [wrong(row.reshape(-1, N), of) for row in values]
        holds = float(((low <= truth) & (truth <= high)).mean())
        result[name] = [wrong(found.reshape(-1, N), of), wrong(values.mean(0).reshape(-1, N), of), min(singles), holds]
    return result


# ------------------------------------------------------------------------------------------------- published judges


def read(path: Path) -> list[dict]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def beats(first: FloatArray, second: FloatArray) -> float:
    both = np.outer(first, second)
    return float(np.clip(np.tril(both, -1).sum() + np.trace(both) / 2, 0, 1))


def judges_of(folder: Path) -> ComparisonSets:
    sets, chain, scored = {}, defaultdict(list), defaultdict(lambda: defaultdict(list))
    for row in read(folder / "judge_outputs" / "summeval_score_distributions.jsonl.gz"):
        p = np.array([0.0 if row["logprobs"][k] is None else np.exp(row["logprobs"][k]) for k in "12345"])
        if p.sum() > 0:  # a prompt to which none of the five scores was an answer
            scored[row["context_id"], row["attribute"], row["judge"]][row["system"]].append(p / p.sum())
    for group, of in scored.items():
        mean = {name: np.mean(each, axis=0) for name, each in of.items()}
        pairs = itertools.permutations(mean, 2)
        sets[group] = Comparisons.from_records([(a, b, beats(mean[a], mean[b])) for a, b in pairs], ids=list(mean))
    for row in read(folder / "judge_outputs" / "summeval_pairwise_chatgpt.jsonl.gz"):
        answer = {"A": 1.0, "B": 0.0, "tie": 0.5}[row["choice"]]
        chain[row["context_id"], row["attribute"], "ChatGPT"].append((row["system_a"], row["system_b"], answer))
    return ComparisonSets(BY, sets | {group: Comparisons.from_records(calls) for group, calls in chain.items()})


def published(folder: Path) -> dict[str, list[float]]:
    human = {
        (row["context_id"], attribute, row["system"]): value
        for row in read(folder / "summeval.jsonl.gz")
        for attribute, value in row["human"].items()
    }
    sets = judges_of(folder)

    def orders(rankings: Rankings) -> Orders:
        return {
            g: dict(zip(r.ids, r.scores, strict=True)) for g, r in rankings.by_group.items() if not isinstance(r, str)
        }

    juries = {method: rank_jury(sets, method) for method in ("poe-g", "poe-bt", "bt", "average-probability")}
    methods = {f"jury, {method}": orders(rankings) for method, rankings in juries.items()}
    good = ComparisonSets(BY, {group: calls for group, calls in sets.sets.items() if group[2] != "ChatGPT"})
    methods["jury of GPT-4o and Qwen, poe-g"] = orders(rank_jury(good, "poe-g"))
    probability: Orders = {}
    pooled = defaultdict(list)
    for group, calls in sets.sets.items():
        for i, j, p in zip(calls.first, calls.second, calls.probabilities, strict=True):
            pooled[group[:2]].append((calls.ids[i], calls.ids[j], p))
    for group, rows in pooled.items():
        ranking = rank(Comparisons.from_records(rows), "average-probability")
        probability[group] = dict(zip(ranking.ids, ranking.scores, strict=True))
    for name in sets.judges:
        own = ComparisonSets(BY[:2], {g[:2]: calls for g, calls in sets.sets.items() if g[2] == name})
        methods[name] = orders(rank(own, "poe-g", stderr="none"))
    methods["mean probability"] = probability

    attributes = sorted({group[1] for group in probability})
    contexts = sorted({group[0] for group in probability})

    def inside(order: Orders) -> FloatArray:
        table = np.full((len(attributes), len(contexts)), np.nan)
        for (context, attribute), of in order.items():
            names = [name for name, value in of.items() if not np.isnan(value)]
            people = [human[context, attribute, name] for name in names]
            mine = [round(of[name], 9) for name in names]
            if len(set(people)) > 1:
                value = spearmanr(mine, people)[0] if len(set(mine)) > 1 else 0.0
                table[attributes.index(attribute), contexts.index(context)] = value
        return table

    tables = {name: inside(order) for name, order in methods.items()}
    jury, kept = tables["jury, poe-g"], {}
    print("\nSummEval, Spearman inside articles; and by how much the jury (poe-g) is above, mean of the attributes")
    print(f"{'':32s} " + "".join(f"{name:>13s}" for name in attributes) + f"{'mean':>8s}   above [95 %]")
    for name, table in tables.items():
        means = np.nanmean(table, axis=1)
        off = np.nanmean(jury, axis=1).mean() - means.mean()
        keep = ~np.eye(len(contexts), dtype=bool)
        without = np.array([np.mean(np.nanmean(jury[:, k], axis=1) - np.nanmean(table[:, k], axis=1)) for k in keep])
        interval = spread(float(off), without, (-2.0, 2.0)) if name != "jury, poe-g" else None
        shown = f"{off:+.3f} [{interval.low:+.3f}, {interval.high:+.3f}]" if interval else ""
        print(f"{name:32s} " + "".join(f"{value:13.3f}" for value in means) + f"{means.mean():8.3f}   {shown}")
        kept[f"published: {name}"] = [*means, off, *([interval.low, interval.high] if interval else [])]
    for attribute, said in juries["poe-g"].juries.items():
        alike = ", ".join(f"{one} and {other} {r:.2f}" for (one, other), r in said.alike.items())
        print(f"{'/'.join(attribute)}: left out {dict(said.left_out) or 'nobody'}; residuals: {alike}")
    return kept


# ------------------------------------------------------------------------------------------------- tables


def table(title: str, runs: list[dict[str, list[float]]]) -> dict[str, list[float]]:
    print(f"\n{title:32s} {'jury':>14s} {'plain mean':>14s} {'best single':>12s}    90 %")
    kept = {}
    for name in runs[0]:
        values = np.array([run[name] for run in runs])
        mean, error = values.mean(axis=0), values.std(axis=0) / len(runs) ** 0.5
        shown = " ".join(f"{100 * m:6.2f} +- {100 * e:4.2f}" for m, e in zip(mean[:3], error[:3], strict=True))
        print(f"{name:32s} {shown}   {mean[3]:.3f} +- {error[3]:.3f}", flush=True)
        kept[f"{title}: {name}"] = [*mean, *error]
    return kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=30)
    parser.add_argument("--published", type=Path)
    options = parser.parse_args()
    n = options.repetitions
    print(f"{n} repetitions; pairs in the wrong order, percent")
    kept = published(options.published) if options.published else {}
    if n:
        for soft in (False, True):
            rng = np.random.default_rng(1)
            kept |= table("soft answers" if soft else "hard answers", [compared(rng, soft) for _ in range(n)])
        rng = np.random.default_rng(2)
        kept |= table("ladders", [on_ladders(rng, seed) for seed in range(n)])
    print(json.dumps({name: [round(float(x), 5) for x in values] for name, values in kept.items()}))


if __name__ == "__main__":
    main()
