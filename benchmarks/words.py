"""Are the errors of a judge that answers in words true, and do its scores agree with people better with more samples?

    python -m benchmarks.words intervals [--draws 8] [--only WORDS]
    python -m benchmarks.words paper [--draws 4]
    python -m benchmarks.words people --verdicts scores.jsonl --data FOLDER --store published.sqlite

intervals: anchored scores. Texts, ladders and rungs against rungs are those of benchmarks.misfits. What a judge holds
of a pair in one order is settled: a normal deviation of tau nats that all N samples of that question share. Given it,
samples are drawn from Better, Worse and Similar. "exact" is the settled opinion itself (n = infinity), at tau 3 one
that is sure and often wrong; "mixed" answers are by chance of 1, 3 or 10 samples, or exact; "both orders alike": the
two orders of a pair share their deviation. Errors are in rungs of N = 5, after the best line.
paper: the 90 % interval of the paper's sum, and whether the sum of the settled opinions is in it; beside it the share
that an interval with the true sampling variance holds, and how large the standard error is against the true one.
people: Spearman with people inside articles, of N answers drawn from exact probabilities: of verdicts on ladders (a
file of `score --verdicts --both-orders`), scored by the paper's sum of mean probabilities, and of published grades
(G-Eval; `python -m papers import` makes the store, docs/tables.md). The shape is that of arXiv:2509.05440, Table 2.
Each command's last line is JSON.
Ceiling: samples of one question do not tell what the judge is settled in; only other questions about the text do.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace

import numpy as np

from benchmarks.anchored_summeval import values as read_values
from benchmarks.misfits import Judge, off_line, simulate
from synthscore.evaluation.agreement import agreement
from synthscore.scoring.anchored import SoftAnswers, fit
from synthscore.scoring.frequencies import error_on_rungs, variance_of_sum
from synthscore.scoring.paper import paper_sum, rung_equivalent
from synthscore.types import FloatArray

TAUS = (0.0, 1.0, 2.0, 3.0)
SAMPLES = ("1", "3", "10", "exact", "mixed")
TRIALS = 5


def answer_in_words(rng: np.random.Generator, opinions: SoftAnswers, n_samples: FloatArray) -> SoftAnswers:
    """Frequencies of n_samples answers drawn from each opinion; the opinion itself where n_samples is inf."""
    exact = np.isinf(n_samples)
    n = np.where(exact, 1.0, n_samples)
    counts = rng.multinomial(n.astype(np.int64), opinions.probs)
    probs = np.where(exact[:, None], opinions.probs, counts / n[:, None])
    return replace(opinions, probs=probs, n_samples=n_samples)


def draw_samples(rng: np.random.Generator, name: str, n_answers: int) -> FloatArray:
    """How many samples each answer is of."""
    if name == "mixed":
        return rng.choice([1.0, 3.0, 10.0, np.inf], n_answers)
    return np.full(n_answers, np.inf if name == "exact" else float(name))


def run_anchored(seed: int, judge: Judge, samples: str) -> dict[str, float]:
    rng = np.random.default_rng(seed)
    opinions, truth = simulate(rng, judge)
    answers = answer_in_words(rng, opinions, draw_samples(rng, samples, len(opinions)))
    model, posterior = fit(answers)
    if not model.rungs_rise:
        return {"rises": 0.0}
    low, high = posterior.interval(0.9)
    holds = float(((low <= truth) & (truth <= high)).mean())
    return {"holds": holds, "error": off_line(posterior.mean, truth), "converged": float(model.converged), "rises": 1.0}


def intervals(draws: int, only: str) -> dict[str, object]:
    judges = {f"tau {tau:g}": Judge(call_noise=tau) for tau in TAUS}
    judges |= {f"tau {tau:g}, both orders alike": Judge(call_noise=0.0, pair_noise=tau) for tau in (2.0, 3.0)}
    print(f"anchored, {draws} draws of 30 contexts x 16 texts, 5 rungs, both orders; +- standard errors over draws")
    print(f"{'settled opinion':30} {'samples':>8} {'90 % holds':>15} {'error':>14} {'converged':>10} {'rises':>6}")
    rows = []
    for name, judge in judges.items():
        for samples in SAMPLES:
            if only not in f"{name}, {samples}":
                continue
            found = [run_anchored(seed, judge, samples) for seed in range(draws)]
            of = {key: np.array([row[key] for row in found if key in row]) for key in max(found, key=len)}
            mean = {key: float(each.mean()) for key, each in of.items()}
            error = {key: float(each.std(ddof=1) / len(each) ** 0.5) for key, each in of.items()}
            cells = [f"{mean[key]:.3f} +- {error[key]:.3f}" for key in ("holds", "error")]
            print(
                f"{name:30} {samples:>8} {cells[0]:>15} {cells[1]:>14} {mean['converged']:10.2f} {mean['rises']:6.2f}",
                flush=True,
            )
            rows.append({"judge": name, "samples": samples, "mean": mean, "standard_error": error})
    return {"draws": draws, "intervals": rows}


def by_rung(opinions: SoftAnswers) -> FloatArray:
    """What was answered about texts, shape (n_targets, 2, N, 3): both orders."""
    n = opinions.n_rungs
    table = np.full((opinions.n_targets, 2, n, 3), np.nan)
    about = opinions.first >= n
    order = (opinions.sign[about] < 0).astype(np.int64)
    table[opinions.first[about] - n, order, opinions.second[about]] = opinions.probs[about]
    return table


def sum_of(probs: FloatArray) -> FloatArray:
    """The paper's sum of the mean of both orders. probs : shape (n_targets, 2, N, 3)"""
    mean = np.minimum(probs.mean(axis=1), 1.0)
    return paper_sum(mean[..., 0], mean[..., 1])


def run_paper(seed: int, tau: float, n: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Of each text: held by the interval, held by that of the true variance, and stderr^2 and the true variance."""
    rng = np.random.default_rng(seed)
    opinions = by_rung(simulate(rng, Judge(call_noise=tau))[0])
    said = rng.multinomial(n, opinions) / n
    aim, raw = sum_of(opinions), sum_of(said)
    better, worse = opinions[..., 0], opinions[..., 1]
    levels = np.arange(1.0, 6.0)
    true = ((better + worse - (better - worse) ** 2).sum(axis=1) * levels**2).sum(axis=1) / (4 * n)
    counts = np.full(said.shape[1:3], float(n))
    ours = np.array([variance_of_sum(one[..., 0], one[..., 1], counts, two_sided=False) for one in said])
    held = []
    for variances in (ours, true):
        ends = [error_on_rungs(s, v, 5)[1:] for s, v in zip(raw.tolist(), variances.tolist(), strict=True)]
        low, high = np.array(ends).T
        aims = rung_equivalent(aim, 5)
        held.append((low - 1e-9 <= aims) & (aims <= high + 1e-9))
    return held[0], held[1], np.stack([ours, true])


def paper(draws: int) -> dict[str, object]:
    print(f"the paper's sum, {draws} draws of 480 texts, 5 rungs, both orders: share of 90 % intervals that hold")
    print(f"{'settled opinion':16} {'samples':>8} {'holds':>8} {'true variance':>14} {'stderr / true':>14}")
    rows = []
    for tau in TAUS:
        for n in (1, 3, 10):
            found = [run_paper(seed, tau, n) for seed in range(draws)]
            ours, known, variances = (np.concatenate([row[k] for row in found], axis=-1) for k in range(3))
            ratio = float(np.sqrt(variances[0].mean() / variances[1].mean()))
            print(f"{f'tau {tau:g}':16} {n:8d} {ours.mean():8.3f} {known.mean():14.3f} {ratio:14.2f}", flush=True)
            rows.append({"tau": tau, "n": n, "holds": ours.mean(), "known": known.mean(), "ratio": ratio})
    return {"draws": draws, "paper": rows}


def people(verdicts: str, data: str, store: str) -> dict[str, object]:
    from benchmarks.sampled_judges import mean_agreement
    from synthscore.engines import open_engine
    from synthscore.evaluation.benchmarks import load_benchmark
    from synthscore.evaluation.methods.base import Tools

    ns = (1, 3, 10, 100)
    print(f"Spearman with people inside articles, mean and standard deviation of {TRIALS} trials")
    print(f"{'judge':44}" + "".join(f"{f'N = {n}':>15}" for n in ns) + f"{'exact':>8}")
    rows: dict[str, object] = {}

    def row(name: str, means: list[list[float]], exact: float) -> None:
        cells = "".join(f"{f'{np.mean(each):.3f} +- {np.std(each, ddof=1):.3f}':>15}" for each in means)
        print(f"{name:44}{cells}{exact:8.3f}", flush=True)
        rows[name] = {"n": ns, "trials": means, "exact": exact}

    ratings = load_benchmark("summeval", data)
    rated = {f"{row['context_id']}/{row['system']}": row["human"] for row in read_values(f"{data}/summeval.jsonl.gz")}
    found = ladder_verdicts(verdicts)
    exact, means = [], [[[] for _ in range(TRIALS)] for _ in ns]
    for attribute, (contexts, texts, probs) in found.items():
        wanted = np.array([rated[text][attribute] for text in texts])
        exact.append(agreement(sum_of(probs), wanted, contexts).value)
        for k, n in enumerate(ns):
            for trial in range(TRIALS):
                rng = np.random.default_rng(trial)
                drawn = sum_of(rng.multinomial(n, probs) / n)
                means[k][trial].append(agreement(drawn, wanted, contexts).value)
    name = f"nano, ladders, {len({c for of in found.values() for c in of[0]})} articles, {', '.join(found)}"
    row(name, [[float(np.mean(trial)) for trial in each] for each in means], float(np.mean(exact)))
    tools = Tools(judge=open_engine(f"recorded:{store}#model:Qwen2.5-72B-Instruct|prompt:theirs/0"))
    drawn = [[mean_agreement(ratings, f"g-eval:samples={n},seed={k}", tools) for k in range(TRIALS)] for n in ns]
    row("Qwen2.5-72B-Instruct, published grades", drawn, mean_agreement(ratings, "g-eval", tools))
    return {"people": rows}


def ladder_verdicts(path: str) -> dict[str, tuple[list[str], list[str], FloatArray]]:
    """Attribute -> contexts, ids and verdicts of the scored texts with all rungs, shape (n, 2, N, 3)."""
    tables: dict[str, tuple[list[str], list[str], list[FloatArray]]] = {}
    for row in read_values(path):
        if row["score"] is None:
            continue
        table = np.array([each[2:5] for each in sorted(row["verdicts"], key=lambda v: (v[1], v[0]))])
        probs = table.reshape(2, -1, 3)
        contexts, texts, found = tables.setdefault(row["attribute"], ([], [], []))
        contexts.append(row["context_id"])
        texts.append(row["id"])
        found.append(probs / probs.sum(axis=-1, keepdims=True))
    return {name: (contexts, texts, np.stack(found)) for name, (contexts, texts, found) in tables.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    of_intervals = verbs.add_parser("intervals")
    of_intervals.add_argument("--draws", type=int, default=8)
    of_intervals.add_argument("--only", default="", help="rows whose name holds these words")
    verbs.add_parser("paper").add_argument("--draws", type=int, default=4)
    of_people = verbs.add_parser("people")
    for name in ("verdicts", "data", "store"):
        of_people.add_argument(f"--{name}", required=True)
    args = vars(parser.parse_args())
    print(json.dumps({"intervals": intervals, "paper": paper, "people": people}[args.pop("verb")](**args)))


if __name__ == "__main__":
    main()
