"""Is a jury better than its judges, and does it find out without labels whom to believe?

    python -m benchmarks.jury [--repetitions 30] [--published FOLDER]

Simulated judges: 20 contexts of 16 texts, N(0, 1); each judge sees a text at slope times that, and answers about
24 pairs of each context (or all 120) in both orders, with a bias of 0.5 nats. hard: each answer is a coin's flip; soft:
log-odds, with noise of 0.7 nats of the pair, and 0.7 of the answer.
    three   log slopes drawn from N(0, 1)
    noise   two judges of slope 1; two and one of slope 0, whose answers are coins (hard) or noise (soft); two and one
            who has an opinion of its own of each text, N(0, 1), which is nobody else's
Errors: pairs of a context in the wrong order; rms of positions after the best affine map of the run. `knows` is told
slopes, biases, and how noisy each judge is. The best single judge is chosen by the truth. Relative: mean over
repetitions of error / error of the jury - 1, and its standard error. 90 %: share of intervals that hold the truth,
in the unit that suits it best.

Ladders: 25 contexts of 16 texts, 5 rungs, both orders (benchmarks/anchored.py); slopes are 1.2 nats a rung times
exp(N(0, 1)), noise of 1 nat in every answer. `best weights`: the linear combination of the judges' scores that
regression on the truth finds.

Published judges, where there is a folder of them (SummEval, 50 articles): ChatGPT's choices on a chain of 11 pairs;
GPT-4o (mean of 5 prompts) and Qwen2.5-72B, whose distributions of a score 1..5 say P(one text is better). Spearman with
the mean of three experts inside articles; the difference from the jury has a 95 % interval over articles.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from synthscore.evaluation.intervals import spread
from synthscore.ranking import Comparisons, ComparisonSets, rank, rank_jury
from synthscore.ranking.designs import all_pairs, greedy
from synthscore.scoring.anchored.fit import fit
from synthscore.scoring.anchored.scale import Anchors, Scale
from synthscore.scoring.jury import score_together
from synthscore.scoring.rows import Counts, RowScores
from synthscore.signature import Signature
from synthscore.types import FloatArray, Score

from .anchored import simulate

N_CONTEXTS, N, BIAS, NOISE = 20, 16, 0.5, 0.7
IDS = tuple(f"t{k}" for k in range(N))
BY = ("context_id", "attribute", "judge")
Orders = dict[tuple[str, ...], dict[str, float]]


# ------------------------------------------------------------------------------------------------- simulated judges


def draw(rng: np.random.Generator, truth: FloatArray, slope: float, own: float, n_calls: int, soft: bool) -> list:
    """A judge's calls about each context: first, second, P(first)."""
    found = []
    for s in truth:
        t = slope * s + own * rng.normal(size=N)
        calls = greedy(N, n_calls, rng) if n_calls < N * (N - 1) else all_pairs(N, both_orders=True)
        first, second = calls.T
        d = t[first] - t[second] + BIAS
        if soft:
            _, pair = np.unique(np.minimum(first, second) * N + np.maximum(first, second), return_inverse=True)
            of_pair = rng.normal(0, NOISE, pair.max() + 1)[pair] * np.sign(second - first)
            p = 1 / (1 + np.exp(-(d + of_pair + rng.normal(0, NOISE, len(d)))))
        else:
            p = (rng.random(len(d)) < 1 / (1 + np.exp(-d))).astype(float)
        found.append((first, second, p))
    return found


def sets_of(judges: list) -> ComparisonSets:
    return ComparisonSets(
        BY,
        {
            (str(c), "a", f"judge {m}"): Comparisons.from_probabilities(IDS, *calls)
            for m, judge in enumerate(judges)
            for c, calls in enumerate(judge)
        },
    )


def knows(judges: list, truth: FloatArray, slopes: FloatArray) -> FloatArray:
    """Positions of greatest posterior probability under the slopes, biases and noise that judges have."""
    scores = np.zeros_like(truth)
    noise = []
    for judge, slope in zip(judges, slopes, strict=True):
        off = variance = 0.0
        for s, (first, second, p) in zip(truth, judge, strict=True):
            expected = 1 / (1 + np.exp(-(slope * (s[first] - s[second]) + BIAS)))
            _, pair = np.unique(np.minimum(first, second) * N + np.maximum(first, second), return_inverse=True)
            off += (np.bincount(pair, (p - expected) / 2) ** 2).sum()
            variance += (expected * (1 - expected)).sum() / 2
        noise.append(off / variance)
    for c in range(len(truth)):
        s = scores[c]
        for _ in range(30):
            gradient, hessian = -s, np.eye(N)
            for judge, slope, phi in zip(judges, slopes, noise, strict=True):
                first, second, p = judge[c]
                side = np.zeros((len(p), N))
                side[np.arange(len(p)), first], side[np.arange(len(p)), second] = slope, -slope
                expected = 1 / (1 + np.exp(-(side @ s + BIAS)))
                gradient = gradient + side.T @ (p - expected) / 2 / phi
                hessian = hessian + (side.T * (expected * (1 - expected) / 2 / phi)) @ side
            step = np.linalg.solve(hessian, gradient)
            s = s + step * min(1.0, 2 / np.abs(step).max())
        scores[c] = s
    return scores


def errors(found: FloatArray, truth: FloatArray) -> tuple[float, float]:
    """Pairs in the wrong order; rms after the best affine map."""
    i, j = np.triu_indices(N, 1)
    found, truth = (x - x.mean(axis=1, keepdims=True) for x in (found, truth))
    wrong = np.sign(found[:, i] - found[:, j]) - np.sign(truth[:, i] - truth[:, j])
    unit = (found * truth).sum() / max((found * found).sum(), 1e-300)
    return float(np.abs(wrong).mean() / 2), float(np.sqrt(((unit * found - truth) ** 2).mean()))


def scores(rankings: object, name: str = "scores") -> FloatArray:
    return np.stack([getattr(each, name) for each in rankings.of.values()])  # type: ignore[attr-defined]


def three(rng: np.random.Generator, n_calls: int, soft: bool) -> tuple[dict, float]:
    """Errors by method; and the share of 90 % intervals that hold."""
    truth, slopes = rng.normal(size=(N_CONTEXTS, N)), np.exp(rng.normal(size=3))
    judges = [draw(rng, truth, slope, 0.0, n_calls, soft) for slope in slopes]
    sets = sets_of(judges)
    alone = "poe-bt" if soft else "bt"
    found = {method: rank_jury(sets, method) for method in (("poe-bt", "poe-g") if soft else ("bt", "poe-g"))}
    single = []
    for m in range(3):
        own = ComparisonSets(("c",), {(g[0],): calls for g, calls in sets.sets.items() if g[2] == f"judge {m}"})
        single.append(scores(rank(own, alone, stderr="none")))
    pooled = {(str(c),): pool([judge[c] for judge in judges]) for c in range(N_CONTEXTS)}
    together = ComparisonSets(("c",), pooled)
    result = {f"jury, {method}": errors(scores(each), truth) for method, each in found.items()}
    result["knows"] = errors(knows(judges, truth, slopes), truth)
    result["best single judge"] = min(errors(each, truth) for each in single)
    z = [(each - each.mean(1, keepdims=True)) / each.std(1, keepdims=True) for each in single]
    result["mean of z-scores"] = errors(np.mean(z, axis=0), truth)
    result["mean of scores"] = errors(np.mean(single, axis=0), truth)
    result["mean probability"] = errors(scores(rank(together, "average-probability")), truth)
    result[f"all as one judge, {alone}"] = errors(scores(rank(together, alone, stderr="none")), truth)
    mine, centred = scores(found[alone]), truth - truth.mean(1, keepdims=True)
    unit = (mine * centred).sum() / (mine * mine).sum()
    held = np.abs(unit * mine - centred) < 1.645 * unit * scores(found[alone], "stderr")
    return result, float(held.mean())


def pool(calls: list) -> Comparisons:
    return Comparisons.from_probabilities(IDS, *(np.concatenate(column) for column in zip(*calls, strict=True)))


def noise(rng: np.random.Generator, n_calls: int, soft: bool) -> dict:
    truth = rng.normal(size=(N_CONTEXTS, N))
    good = [draw(rng, truth, 1.0, 0.0, n_calls, soft) for _ in range(2)]
    method = "poe-bt" if soft else "bt"
    result = {"two good": errors(scores(rank_jury(sets_of(good), method)), truth)}
    for name, own in (("and a coin", 0.0), ("and a stranger", 1.0)):
        third = draw(rng, truth, 0.0, own, n_calls, soft)
        result[name] = errors(scores(rank_jury(sets_of([*good, third]), method)), truth)
    return result


def simulated(repetitions: int) -> dict:
    kept = {}
    for soft, n_calls in itertools.product((False, True), (48, 240)):
        name = f"{'soft' if soft else 'hard'}, {n_calls} calls"
        rng, begun = np.random.default_rng(1), time.process_time()
        runs, held = zip(*(three(rng, n_calls, soft) for _ in range(repetitions)), strict=True)
        lines = {method: np.array([run[method] for run in runs]) for method in runs[0]}
        print(f"\nthree judges, {name}; 90 %: {np.mean(held):.3f} +- {np.std(held) / repetitions**0.5:.3f}")
        kept |= table(lines, "jury, poe-bt" if soft else "jury, bt", name, begun)
        runs = [noise(rng, n_calls, soft) for _ in range(repetitions)]
        right = {which: 1 - np.array([run[which][0] for run in runs]) for which in runs[0]}
        for which in ("and a coin", "and a stranger"):
            cost = 1 - right[which] / right["two good"]
            print(
                f"two good {which}: {right[which].mean():.4f} of pairs right, two alone {right['two good'].mean():.4f};"
                f" cost {100 * cost.mean():+.2f} +- {100 * cost.std() / repetitions**0.5:.2f} %"
            )
            kept[f"{name}: {which}"] = [cost.mean(), cost.std() / repetitions**0.5]
    return kept


def table(lines: dict[str, FloatArray], jury: str, name: str, begun: float) -> dict:
    kept = {}
    print(f"{'':28s} {'wrong':>7s} {'rms':>6s}   relative to the jury: wrong, rms")
    for method, each in lines.items():
        ratio = each / lines[jury] - 1
        mean, error = ratio.mean(0), ratio.std(0) / len(each) ** 0.5
        print(
            f"{method:28s} {each[:, 0].mean():7.4f} {each[:, 1].mean():6.3f}   "
            + ", ".join(f"{100 * m:+6.1f} +- {100 * e:.1f} %" for m, e in zip(mean, error, strict=True))
        )
        kept[f"{name}: {method}"] = [*each.mean(0), *mean, *error]
    print(f"({time.process_time() - begun:.0f} s)", flush=True)
    return kept


# ------------------------------------------------------------------------------------------------- ladders


def on_ladders(rng: np.random.Generator, seed: int) -> tuple[dict, float, list[float]]:
    """Errors by method; the share of 90 % intervals that hold; and slopes of the judges with their shares."""
    scored, slopes = {}, 1.2 * np.exp(rng.normal(size=3))
    for m, slope in enumerate(slopes):
        drawn = simulate(np.random.default_rng(seed), 25, 5, noise=0.0, discrimination=slope, position_bias=0.5)
        d = np.log(drawn.answers.probs[:, 0] / drawn.answers.probs[:, 1])
        logits = np.stack([d / 2, -d / 2, np.full(len(d), 0.3)], axis=1)
        noise = rng.normal(size=len(d)) / 2
        probs = np.exp(logits + np.stack([noise, -noise, 0 * noise], axis=1))
        answers = replace(drawn.answers, probs=probs / probs.sum(axis=1, keepdims=True))
        judge, posterior = fit(answers)
        anchors = {str(c): Anchors(posterior.rungs[c], posterior.rung_cov[c]) for c in range(25)}
        scale = Scale(judge, anchors, "t", "a", Signature.of(model=f"judge {m}", task="t"))
        of = {"n_rungs": 5.0, "label_mass": 1.0}
        rows = [
            [(Score(str(i), str(i // N), "a", x, stderr=sd, n_comparisons=5, details=of), scale.signature)]
            for i, (x, sd) in enumerate(zip(posterior.mean.tolist(), posterior.sd.tolist(), strict=True))
        ]
        scored[f"judge {m}"] = RowScores(rows, Counts(), [scale])
    together, worth = score_together(scored)
    values = np.array([[score.value for score, _ in each] for each in (*scored.values(), together)])
    stderr = np.array([score.stderr for score, _ in together])
    truth = drawn.truth
    singles, jury = values[:-1], values[-1]
    design = np.column_stack([singles.T, np.ones(len(truth))])
    best = design @ np.linalg.lstsq(design, truth, rcond=None)[0]
    z = [(each - each.mean()) / each.std() for each in singles]
    methods = {"jury": jury, "best weights": best, "mean of z-scores": sum(z), "mean of scores": singles.mean(0)}
    result = {name: errors(each.reshape(-1, N), truth.reshape(-1, N)) for name, each in methods.items()}
    result["best single judge"] = min(errors(each.reshape(-1, N), truth.reshape(-1, N)) for each in singles)
    held = np.abs(jury - truth) < 1.645 * stderr
    return result, float(held.mean()), [each.share for each in worth["t", "a", 5]]


def ladders_simulated(repetitions: int) -> dict:
    rng, begun = np.random.default_rng(2), time.process_time()
    runs, held, _ = zip(*(on_ladders(rng, seed) for seed in range(repetitions)), strict=True)
    print(f"\nladders; 90 %: {np.mean(held):.3f} +- {np.std(held) / repetitions**0.5:.3f}")
    return table({name: np.array([run[name] for run in runs]) for name in runs[0]}, "jury", "ladders", begun)


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
        sets[group] = Comparisons.of([(a, b, beats(mean[a], mean[b])) for a, b in pairs], ids=list(mean))
    for row in read(folder / "judge_outputs" / "summeval_pairwise_chatgpt.jsonl.gz"):
        answer = {"A": 1.0, "B": 0.0, "tie": 0.5}[row["choice"]]
        chain[row["context_id"], row["attribute"], "ChatGPT"].append((row["system_a"], row["system_b"], answer))
    return ComparisonSets(BY, sets | {group: Comparisons.of(calls) for group, calls in chain.items()})


def published(folder: Path) -> dict:
    human = {
        (row["context_id"], attribute, row["system"]): value
        for row in read(folder / "summeval.jsonl.gz")
        for attribute, value in row["human"].items()
    }
    sets, kept = judges_of(folder), {}

    def orders(rankings: object) -> Orders:
        of = rankings.of.items()  # type: ignore[attr-defined]
        return {g: dict(zip(r.ids, r.scores, strict=True)) for g, r in of if not isinstance(r, str)}

    methods = {f"jury, {method}": orders(rank_jury(sets, method)) for method in ("poe-bt", "poe-g", "bt")}
    singles = {}
    for name in sets.judges:
        own = ComparisonSets(BY[:2], {g[:2]: calls for g, calls in sets.sets.items() if g[2] == name})
        singles[name] = orders(rank(own, "poe-g", stderr="none"))
    z, probability = {}, {}
    for group in methods["jury, poe-g"]:
        each = [single[group] for single in singles.values()]
        scaled = [
            {k: (v - np.nanmean([*of.values()])) / np.nanstd([*of.values()]) for k, v in of.items()} for of in each
        ]
        z[group] = {name: np.mean([of[name] for of in scaled if name in of]) for name in scaled[0]}
        rows = [
            (calls.ids[i], calls.ids[j], p)
            for g, calls in sets.sets.items()
            if g[:2] == group
            for i, j, p in zip(calls.first, calls.second, calls.probabilities, strict=True)
        ]
        found = rank(Comparisons.of(rows), "average-probability")
        probability[group] = dict(zip(found.ids, found.scores, strict=True))
    methods |= singles | {"mean of z-scores": z, "mean probability": probability}

    attributes = sorted({group[1] for group in z})
    contexts = sorted({group[0] for group in z})

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

    found = {name: inside(order) for name, order in methods.items()}
    jury = found["jury, poe-g"]
    print("\nSummEval, Spearman inside articles; and by how much the jury (poe-g) is above, mean of the attributes")
    print(f"{'':24s} " + "".join(f"{name:>13s}" for name in attributes) + f"{'mean':>8s}   above [95 %]")
    for name, table in found.items():
        means = np.nanmean(table, axis=1)
        off = np.nanmean(jury, axis=1).mean() - means.mean()
        keep = ~np.eye(len(contexts), dtype=bool)
        without = np.array([np.mean(np.nanmean(jury[:, k], axis=1) - np.nanmean(table[:, k], axis=1)) for k in keep])
        interval = spread(float(off), without, (-2.0, 2.0)) if name != "jury, poe-g" else None
        shown = f"{off:+.3f} [{interval.low:+.3f}, {interval.high:+.3f}]" if interval else ""
        print(f"{name:24s} " + "".join(f"{value:13.3f}" for value in means) + f"{means.mean():8.3f}   {shown}")
        kept[f"published: {name}"] = [*means, off, *([interval.low, interval.high] if interval else [])]
    for attribute, jurors in rank_jury(sets, "poe-g").jurors.items():
        print(f"{'/'.join(attribute)}: " + ", ".join(f"{each.name} {each.share:.2f}" for each in jurors))
    return kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=30)
    parser.add_argument("--published", type=Path)
    options = parser.parse_args()
    print(f"{options.repetitions} repetitions, seed 1")
    kept = published(options.published) if options.published else {}
    if options.repetitions:
        kept |= ladders_simulated(options.repetitions) | simulated(options.repetitions)
    print(json.dumps({name: [round(float(x), 5) for x in values] for name, values in kept.items()}))


if __name__ == "__main__":
    main()
