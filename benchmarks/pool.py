"""Four servers as one pool, rows routed by context: all well, one killed half way, one three times slower.

    python -m benchmarks.pool

The servers are pretended: each takes DELAY for a request and does 4 at a time. Waits and tries are the pool's own.
"""

from __future__ import annotations

import threading
import time

from synthscore.engine import label_log_probs
from synthscore.engines.servers.pool import ServerPool
from tests.engines.test_pool import Pretended, contexts, fail

N_CONTEXTS, N_ROWS, IN_FLIGHT, DELAY = 60, 20, 4, 0.05


def server(name: str, *, slower: float = 1.0, dies_after: float = float("inf")) -> Pretended:
    def act(n: int, prompts: object) -> None:
        if n > dies_after:
            fail()
        time.sleep(DELAY * slower)

    return Pretended(name, act, (lambda: fail()) if dies_after < float("inf") else (lambda: None))


def main() -> None:
    pools = {
        "four servers": [server(name) for name in "abcd"],
        "three servers": [server(name) for name in "abc"],
        "four, one killed after 100 requests": [*(server(name) for name in "abc"), server("d", dies_after=100)],
        "four, one three times slower": [*(server(name) for name in "abc"), server("d", slower=3)],
    }
    asked = contexts(N_CONTEXTS, N_ROWS)
    each = f"{1000 * DELAY:.0f} ms each, {IN_FLIGHT} at a time to a server"
    print(f"{len(asked)} questions of {N_CONTEXTS} contexts, {each}")
    for name, servers in pools.items():
        times: list[float] = []
        start = time.perf_counter()
        lock = threading.Lock()

        def progress(n: int, times: list[float] = times, start: float = start, lock: threading.Lock = lock) -> None:
            with lock:
                times += [time.perf_counter() - start] * n

        told = label_log_probs(ServerPool(servers, in_flight=IN_FLIGHT), asked, ("A",), progress)
        shares = " ".join(f"{len(each.prompts) / len(asked):.0%}" for each in servers)
        vain = sum(each.n_asked - len(each.prompts) for each in servers)
        print(
            f"{name:36} {times[-1]:5.1f} s (90 % after {times[int(0.9 * len(times))]:4.1f} s), "
            f"{len(told.failures)} lost, answered by each: {shares}; asked in vain: {vain}"
        )


if __name__ == "__main__":
    main()
