"""Four servers as one pool, rows routed by context: all well, one killed half way, one slower, one that lies.

    python -m benchmarks.pool [--http]

The servers are pretended: each takes DELAY for a request and does 4 at a time. Waits and tries are the pool's own.

--http: four servers on loopback around a small model with random weights, in processes of their own: one is killed
(-9) after 50 of its replies, one takes .2 s more for a reply, one lies: it answers with HTML, with no choices,
or with log-probabilities above 0, in turns. What the pool answers is compared with the model in this process.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import threading
import time
import warnings
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from synthscore.engine import Prompt, label_log_probs
from synthscore.engines import open_engine
from synthscore.engines.servers.pool import ServerPool
from tests.engines.test_pool import Pretended, contexts, fail
from tests.models import save_model
from tests.servers import LABELS, Liar, forward, served

N_CONTEXTS, N_ROWS, IN_FLIGHT, DELAY = 60, 20, 4, 0.05


def server(name: str, *, slower: float = 1.0, dies_after: float = float("inf")) -> Pretended:
    def act(n: int, prompts: object) -> None:
        if n > dies_after:
            fail()
        time.sleep(DELAY * slower)

    return Pretended(name, act, (lambda: fail()) if dies_after < float("inf") else (lambda: None))


def above_zero(reply: Any) -> Any:
    """The reply, with every number that is below 0 made 1 above it: log-probabilities that there cannot be."""
    if isinstance(reply, dict):
        return {name: above_zero(value) for name, value in reply.items()}
    if isinstance(reply, list):
        return [above_zero(value) for value in reply]
    return 1.0 if isinstance(reply, float) and reply < 0 else reply


def over_http(n_prompts: int = 400) -> None:
    """A killed, a slow and a lying server beside one that is well."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = save_model(Path(name) / "tiny")
        article = "The storm closed the harbour. " * 20
        asked = [Prompt(f"Article {n % 40}. {article}Text {n}?") for n in range(n_prompts)]
        truth = label_log_probs(open_engine(folder), asked, LABELS).log_probs
        behind = [stack.enter_context(served(folder)) for _ in range(4)]
        begun = threading.Event()
        lies = itertools.cycle(("<html>", {"choices": []}, above_zero))

        def well(*request: Any) -> object:
            return forward(behind[0][0], *request)

        def mortal(*request: Any) -> object:
            if begun.is_set() and len(servers["killed"].asked) == 50:
                behind[1][1].kill()
            return forward(behind[1][0], *request) if behind[1][1].poll() is None else "cut"

        def slow(*request: Any) -> object:
            time.sleep(0.2 * begun.is_set())
            return forward(behind[2][0], *request)

        def lying(method: str, path: str, body: dict[str, Any]) -> object:
            if not begun.is_set() or method == "GET":
                return forward(behind[3][0], method, path, body)
            lie = next(lies)
            return lie(forward(behind[3][0], method, path, body)) if callable(lie) else lie

        acts = {"well": well, "killed": mortal, "slow": slow, "lying": lying}
        servers = {name: stack.enter_context(Liar(act)) for name, act in acts.items()}
        pool = ServerPool.open(",".join(server.url for server in servers.values()), in_flight=IN_FLIGHT)
        for server in servers.values():
            server.asked.clear()
        begun.set()
        start = time.perf_counter()
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            found = label_log_probs(pool, asked, LABELS)
        seconds = time.perf_counter() - start
        answered = ~np.isnan(found.log_probs).any(axis=1)
        error = float(abs(found.log_probs[answered] - truth[answered]).max())
        print(
            f"{n_prompts} questions over HTTP to four servers: {seconds:.0f} s, {answered.sum()} answered, "
            f"{len(found.failures)} lost, farthest from the model here {error:.1g} nats"
        )
        print("requests: " + ", ".join(f"{name} {len(server.asked)}" for name, server in servers.items()))
        print(*(f"warned: {str(one.message)[:150]}" for one in told), sep="\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--http", action="store_true")
    if parser.parse_args().http:
        over_http()
        return
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
