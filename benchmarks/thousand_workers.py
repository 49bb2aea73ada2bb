"""A thousand workers share a run: how long it takes, how well they are used, and where more of them stop helping.

    python -m benchmarks.thousand_workers

A simulation. Shards wait in a queue; a worker takes one, starts a process (START), reads all rows to find its own (READ
a row), judges these (its GPU's seconds a text, times how slow this worker is), and takes the next; at the end one
machine merges (MERGE a row). Workers fail at random (MTBF): the shard goes on after RESTART and START, reads again, and
asks again what was in progress (BATCH), the rest is in its store. 1 of 100 workers is a straggler, 3 times slower.

READ and MERGE are measured, and so are the tokens a text (benchmarks/results/cost.txt) and what a kill loses; START,
MTBF, RESTART, the stragglers and the tokens that a GPU reads in a second are assumed, and stand below.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace

import numpy as np

TOKENS = 661  # a text: 10 questions with shared prefixes, cost.txt (qwen)
TOKENS_PER_SECOND = 25_000  # of a GPU, with an 8B model: assumed, 40 % of 990 TFLOP/s at 16 GFLOP a token
START = 90.0  # seconds until a model answers: assumed
READ = 12e-6  # seconds a row: measured on this machine
MERGE = 1e-6  # seconds a row: measured on this machine
MTBF = 2_000 * 3600.0  # seconds of one worker: assumed; preempted machines fail more often
RESTART = 300.0  # seconds until another machine is there: assumed
BATCH = 15.0  # seconds of work that a kill loses: docs/store.md
STRAGGLERS, SLOWER = 0.01, 3.0  # assumed


@dataclass(frozen=True)
class Run:
    """per_worker : shards a worker. files : whether every shard has an input file of its own, and does not read all"""

    n_rows: float
    workers: int
    per_worker: int = 4
    files: bool = False
    seed: int = 0

    def hours(self) -> tuple[float, float, int]:
        """(hours until merged, share of the workers' time in which a GPU judges, failures)"""
        draw = np.random.default_rng([self.seed, self.workers])
        slow = np.where(draw.random(self.workers) < STRAGGLERS, SLOWER, 1.0) * draw.uniform(0.95, 1.05, self.workers)
        n_shards = self.workers * self.per_worker
        rows = draw.multinomial(int(self.n_rows), np.full(n_shards, 1 / n_shards))
        free = [(0.0, k) for k in range(self.workers)]
        heapq.heapify(free)
        ends, failures = [], 0
        for n in rows.tolist():
            start, k = heapq.heappop(free)
            before = START + READ * (n if self.files else self.n_rows)
            seconds = before + n * TOKENS / TOKENS_PER_SECOND * slow[k]
            lost = draw.poisson(seconds / MTBF)
            failures += lost
            end = start + seconds + lost * (RESTART + before + BATCH)
            heapq.heappush(free, (end, k))
            ends.append(end)
        whole = max(ends) + MERGE * self.n_rows
        judged = self.n_rows * TOKENS / TOKENS_PER_SECOND
        return whole / 3600, judged / (whole * self.workers), failures


def main() -> None:
    runs = {
        "10^6 texts, every shard reads all": Run(1e6, 1),
        "10^9 texts, every shard reads all": Run(1e9, 1),
        "10^9 texts, an input file a shard": Run(1e9, 1, files=True),
    }
    for title, run in runs.items():
        print(f"{title}\nworkers  1 shard a worker: hours  used   4 shards: hours  used   16: hours  used  failures")
        for workers in (1, 10, 100, 1_000, 10_000):
            found = [replace(run, workers=workers, per_worker=per).hours() for per in (1, 4, 16)]
            cells = "   ".join(f"{hours:12,.2f} {used:6.1%}" for hours, used, _ in found)
            print(f"{workers:7,}  {cells}  {found[-1][2]:6,}")
        print()


if __name__ == "__main__":
    main()
