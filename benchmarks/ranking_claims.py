"""Do the papers' claims about ranking hold, on a judge that can be checked, and on a real one?

A simulated judge: 100 contexts of 16 texts; quality q ~ N(0, 1);

    log-odds that the first is better = q_i - q_j + pair noise + call noise + bias

pair noise ~ N(0, 1) is what the judge thinks of the pair, the same in both orders; call noise ~ N(0, 0.5); bias 1 nat
for the first text (0 for the unbiased judge, with the same noise). Truth: q. K calls in each context are drawn from all
240; 20 draws, the same ones for all methods; Spearman's correlation inside each context, mean over contexts. Ceiling:
all 240 calls, where every method does the same.

The real one: ChatGPT's choices between 11 pairs of SummEval's systems, both orders, 50 articles, 4 attributes. The
pairs are a chain over 12 systems, so that one inconsistent answer decides where half of them go: agreement with people
is far below what a judge can do.

    OMP_NUM_THREADS=1 python -m benchmarks.ranking_claims [--draws 20] [--real FOLDER]

FOLDER holds summeval.jsonl.gz and judge_outputs/summeval_pairwise_chatgpt.jsonl.gz; without it, the results of the last
run with one are kept.
Writes benchmarks/results/ranking_claims.txt and .json, and docs/figures/ranking-claims.svg.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from scipy.stats import sem, t

from papers.designs import connecting, thinned
from papers.plot import Line, Panel, draw_curves
from synthscore.errors import RankingError
from synthscore.evaluation.agreement import Agreement, agreement
from synthscore.io.files import read_rows
from synthscore.ranking import METHODS, pool
from synthscore.ranking.bias import mean_debiasing, median_debiasing
from synthscore.ranking.bradley_terry import bradley_terry, soft_bradley_terry
from synthscore.ranking.closed_form import average_probability, gaussian, hard_gaussian, win_ratio
from synthscore.ranking.comparisons import Comparisons
from synthscore.ranking.result import Ranking
from synthscore.ranking.sets import ComparisonSets
from synthscore.types import FloatArray, IntArray

N, N_CONTEXTS, BIAS = 16, 100, 1.0
BUDGETS = (32, 48, 64, 96, 144, 192, 240)
RESULTS = Path(__file__).parent / "results"
FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "ranking-claims.svg"
FIRST, SECOND = np.nonzero(~np.eye(N, dtype=bool))
IDS = tuple(f"c{place}" for place in range(N))

poe_bt = partial(soft_bradley_terry, stderr=None)
poe_g = partial(gaussian, stderr=None)
METHODS_COMPARED: Mapping[str, Callable[[Comparisons], Ranking]] = {
    "win-ratio": win_ratio,
    "bt": partial(bradley_terry, stderr=None),
    "poe-g-hard": partial(hard_gaussian, stderr=None),
    "average-probability": average_probability,
    "poe-g": poe_g,
    "poe-bt": poe_bt,
}


def contexts(bias: float) -> tuple[list[Comparisons], list[np.ndarray]]:
    """All calls of each context, and the qualities. The noise does not depend on the bias."""
    rng = np.random.default_rng(0)
    judged, truth = [], []
    for _ in range(N_CONTEXTS):
        q = rng.normal(size=N)
        pair = np.triu(rng.normal(size=(N, N)), 1)
        pair -= pair.T
        call = 0.5 * rng.normal(size=len(FIRST))
        odds = q[FIRST] - q[SECOND] + pair[FIRST, SECOND] + call + bias
        judged.append(Comparisons.from_probabilities(IDS, FIRST, SECOND, 1 / (1 + np.exp(-odds))))
        truth.append(q)
    return judged, truth


def efficiency_curves(
    judged: Sequence[Comparisons],
    truth: Sequence[FloatArray],
    methods: Mapping[str, Callable[[Comparisons], Ranking]],
    n_draws: int,
    design: str = "symmetric",
    budgets: Sequence[int] = BUDGETS,
) -> dict[str, FloatArray]:
    """Agreement of each method with the truth, by budget and draw, shape (n_budgets, n_draws); all see the same draws.

    judged : all calls of each context. truth : of each, the qualities of its candidates
    budgets : calls in a context, a multiple of the candidates
    design : "symmetric" or "greedy" (papers.designs.thinned); or "random", any calls
    """
    values = {name: np.empty((len(budgets), n_draws)) for name in methods}
    names = [str(context) for context, qualities in enumerate(truth) for _ in qualities]
    for row, n_calls in enumerate(budgets):
        for draw in range(n_draws):
            rng = np.random.default_rng([n_calls, draw])
            drawn = [calls.subset(_drawn(calls, n_calls, design, rng)) for calls in judged]
            for name, method in methods.items():
                scores = np.concatenate([_scores(method, calls) for calls in drawn])
                values[name][row, draw] = agreement(scores, np.concatenate(truth), names).value
    return values


def _drawn(calls: Comparisons, n_calls: int, design: str, rng: np.random.Generator) -> IntArray:
    n = calls.n_candidates
    if design != "random":
        return thinned(calls, f"{n_calls // n}N", design, rng)
    order = rng.permutation(len(calls))
    return order[connecting(n, calls.first[order], calls.second[order], n_calls)]


# ------------------------------------------------------------------------------------------------- a real judge


def real(folder: Path) -> dict[str, dict[str, dict[str, float]]]:
    """Method -> attribute -> agreement inside articles, and of all articles together (system level)."""
    source = folder / "judge_outputs" / "summeval_pairwise_chatgpt.jsonl.gz"
    fields = {"first": "system_a", "second": "system_b", "outcome": "choice"}
    human: dict[tuple[str, str], dict[str, float]] = {}
    for row in read_rows(folder / "summeval.jsonl.gz"):
        human[row.values["context_id"], row.values["system"]] = row.values["human"]  # type: ignore[union-attr]
    apart = ComparisonSets.load(source, fields=fields).sets
    together = ComparisonSets.load(source, fields=fields, by=("attribute",)).sets
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name in METHODS:
        found[name] = {}
        for attribute in sorted({group[1] for group in apart}):
            groups = {group[0]: calls for group, calls in apart.items() if group[1] == attribute}
            scores = {context: _scores(METHODS[name], calls) for context, calls in groups.items()}
            people = [human[context, system][attribute] for context, calls in groups.items() for system in calls.ids]
            names = [context for context, calls in groups.items() for _ in calls.ids]
            inside = agreement(np.concatenate(list(scores.values())), people, names)
            calls = together[attribute,]
            means = [np.mean([r[attribute] for (_, s), r in human.items() if s == system]) for system in calls.ids]
            systems: Agreement = agreement(_scores(METHODS[name], calls), means, ["all"] * len(calls.ids))
            found[name][attribute] = {
                "inside": inside.value, "stderr": inside.stderr, "n_contexts": inside.n_contexts,
                "n_not_ranked": sum(bool(np.isnan(s).all()) for s in scores.values()), "system": systems.value,
            }  # fmt: skip
    return found


def _scores(method: Callable[[Comparisons], Ranking], calls: Comparisons) -> np.ndarray:
    try:
        return np.round(method(calls).scores, 9)
    except RankingError:
        return np.full(calls.n_candidates, np.nan)


# ------------------------------------------------------------------------------------------------- report


def difference(one: np.ndarray, other: np.ndarray) -> str:
    """Mean difference over draws, with its 95 % interval."""
    low, high = interval(one - other)
    return f"{(one - other).mean():+.3f} ({low:+.3f} to {high:+.3f})"


def interval(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """95 %, by Student's t, of the mean over draws, the last axis."""
    reach = t.ppf(0.975, values.shape[-1] - 1) * sem(values, axis=-1)
    return values.mean(axis=-1) - reach, values.mean(axis=-1) + reach


def at(values: FloatArray, budget: int) -> FloatArray:
    return values[BUDGETS.index(budget)]


def line(name: str, values: FloatArray) -> Line:
    return Line(name, BUDGETS, values.mean(axis=-1), *interval(values))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--real", type=Path, metavar="FOLDER")
    args = parser.parse_args()
    biased, truth = contexts(BIAS)
    unbiased, _ = contexts(0.0)

    draw = partial(efficiency_curves, truth=truth, n_draws=args.draws)
    symmetric = draw(biased, methods=METHODS_COMPARED)
    greedy = draw(biased, methods={"poe-bt": poe_bt, "poe-g": poe_g}, design="greedy")
    single = partial(draw, design="random")  # hardly a pair in both orders
    tau = median_debiasing(pool({str(k): calls for k, calls in enumerate(biased)}))
    ordered = {
        **single(unbiased, methods={"unbiased judge": poe_bt, "unbiased judge, poe-g": poe_g}),
        **single([tau.apply(calls) for calls in biased], methods={"biased, threshold": poe_bt}),
        **single(
            biased,
            methods={
                "biased, gamma": lambda calls: poe_bt(calls, bias=mean_debiasing(calls).shift),
                "biased, mle": partial(poe_bt, bias="mle"),
                "biased, nothing done": poe_bt,
                "biased, beta, poe-g": lambda calls: poe_g(calls, bias=mean_debiasing(calls).threshold),
                "biased, nothing done, poe-g": poe_g,
            },
        ),
    }
    of_poe_bt = {name: values for name, values in ordered.items() if not name.endswith("poe-g")}

    lines = [
        f"simulated judge: {N} candidates, {N_CONTEXTS} contexts, bias {BIAS:g} nat; Spearman inside contexts, mean",
        f"and sd of {args.draws} draws of K calls",
        "",
        f"{'random pairs, both orders':30s}" + "".join(f"{f'K = {k}':>16s}" for k in (48, 96, 240)),
    ]

    def table(curves: Mapping[str, FloatArray]) -> list[str]:
        return [
            f"  {name:28s}"
            + "".join(f"{at(values, k).mean():9.3f} ± {at(values, k).std(ddof=1):.3f}" for k in (48, 96, 240))
            for name, values in curves.items()
        ]

    lines += [*table(symmetric), "greedy pairs, both orders", *table(greedy)]
    lines += ["any calls, mostly in one order", *table(ordered)]
    few = {name: at(values, 48) for name, values in symmetric.items()}
    full = {name: at(values, 240).mean() for name, values in symmetric.items()}
    recovered = {}
    for name, best, nothing in (
        ("gamma", "unbiased judge", "biased, nothing done"),
        ("mle", "unbiased judge", "biased, nothing done"),
        ("threshold", "unbiased judge", "biased, nothing done"),
        ("beta, poe-g", "unbiased judge, poe-g", "biased, nothing done, poe-g"),
    ):
        least, most = at(ordered[nothing], 48).mean(), at(ordered[best], 48).mean()
        recovered[name] = f"{(at(ordered[f'biased, {name}'], 48).mean() - least) / (most - least):.0%}"
    lines += ["", "differences at K = 48, with 95 % intervals over draws"]
    claims = {
        "poe-bt - average-probability": difference(few["poe-bt"], few["average-probability"]),
        "poe-g - average-probability": difference(few["poe-g"], few["average-probability"]),
        "average-probability - win-ratio": difference(few["average-probability"], few["win-ratio"]),
        "poe-bt - poe-g": difference(few["poe-bt"], few["poe-g"]),
        "greedy - random pairs, poe-bt": difference(at(greedy["poe-bt"], 48), few["poe-bt"]),
        "greedy - random pairs, poe-g": difference(at(greedy["poe-g"], 48), few["poe-g"]),
        "K = 240: poe-bt - average-probability": f"{full['poe-bt'] - full['average-probability']:+.3f}",
        "K = 240: poe-bt - win-ratio": f"{full['poe-bt'] - full['win-ratio']:+.3f}",
        "of what the bias costs poe-bt, recovered by gamma": recovered["gamma"],
        "by mle": recovered["mle"],
        "by threshold": recovered["threshold"],
        "of what it costs poe-g, by beta": recovered["beta, poe-g"],
    }
    lines += [f"  {name:50s} {value}" for name, value in claims.items()]

    stored = RESULTS / "ranking_claims.json"
    before = json.loads(stored.read_text())["chatgpt"] if stored.exists() else {}
    chatgpt = real(args.real) if args.real else before
    if chatgpt:
        attributes = list(next(iter(chatgpt.values())))
        lines += [
            "",
            "ChatGPT on SummEval, 12 systems, 22 calls an article, against experts: Spearman inside 50 articles",
        ]
        lines += ["± standard error [articles that the method could not rank], and of systems over all articles"]
        lines.append(f"  {'':20s}" + "".join(f"{attribute:>26s}" for attribute in attributes))
        for name, row in chatgpt.items():
            cells = [
                ("-" if not cell["n_contexts"] else f"{cell['inside']:.2f} ± {cell['stderr']:.2f}")
                + (f" [{cell['n_not_ranked']}]" if cell["n_not_ranked"] else "")
                + (f"  {cell['system']:.2f}" if cell["system"] == cell["system"] else "     -")
                for cell in row.values()
            ]
            lines.append(f"  {name:20s}" + "".join(f"{cell:>26s}" for cell in cells))
    print("\n".join(lines))

    FIGURE.parent.mkdir(exist_ok=True)
    which_pairs = {"greedy pairs": greedy["poe-bt"], "random pairs": symmetric["poe-bt"]}
    panels = [
        Panel(title, [line(*each) for each in curves.items()], "calls in a context (K)", label)
        for title, curves, label in (
            ("Random pairs, both orders", symmetric, "Spearman with the truth"),
            ("poe-bt: which pairs", which_pairs, ""),
            ("poe-bt: calls mostly in one order", of_poe_bt, ""),
        )
    ]
    FIGURE.write_text(draw_curves(panels))
    curves = {
        f"{what}: {name}": {"k": BUDGETS, "mean": at_k.mean(axis=-1).tolist(), "sd": at_k.std(axis=-1, ddof=1).tolist()}
        for what, some in (("symmetric", symmetric), ("greedy", greedy), ("one order", ordered))
        for name, at_k in some.items()
    }
    result = {"draws": args.draws, "claims": claims, "curves": curves, "chatgpt": chatgpt}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "ranking_claims.txt").write_text("\n".join(lines) + "\n")
    stored.write_text(json.dumps(result) + "\n")
    print(json.dumps({"claims": claims}))


if __name__ == "__main__":
    main()
