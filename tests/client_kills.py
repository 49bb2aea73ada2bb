"""A client of a slow server that is interrupted or killed: what of the replies that had come is in its store?

The server says when each reply left. What it had sent and the store lacks is lost, and paid for once more.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

from synthscore.engine import Prompt, Question
from synthscore.engines.servers.pool import ServerPool
from synthscore.store.engine import StoredEngine
from synthscore.store.file import Store

from .servers import Liar

LABELS = ("Yes", "No")
IN_FLIGHT = 16


class Lost(NamedTuple):
    """n_sent : replies that had left the server when the client was stopped. n_stored : answers in the store. n_again :
    answers that were stored, and asked for again by the same call. line : the last one that the client said"""

    n_sent: int
    n_stored: int
    n_again: int
    line: str

    @property
    def n_lost(self) -> int:
        return max(self.n_sent - self.n_stored, 0)


def questions(n: int) -> list[Question]:
    return [Question(Prompt(f"Is {number} even?"), LABELS) for number in range(n)]


def ask(url: str, path: str, n: int) -> None:
    """What the client does."""
    from synthscore.cli.app import BUDGET, interrupted_line
    from synthscore.cli.costs import command_budget

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job would not hear it
    with Store(path) as store:
        engine = StoredEngine(ServerPool.open(f"{url}#slow@1", in_flight=IN_FLIGHT), store)
        BUDGET.set(None)
        command_budget(None, None, None).watch(engine)
        print("ready", flush=True)
        try:
            engine.answer(questions(n))
        except KeyboardInterrupt:
            print(interrupted_line(), flush=True)


class _SlowServer(Liar):
    """Takes its time for a reply. sent : when each left, by its prompt"""

    def __init__(self, seconds: tuple[float, float], seed: int) -> None:
        self.sent: dict[str, float] = {}
        self.started = threading.Event()
        draw = random.Random(seed)

        def reply(method: str, path: str, body: dict) -> object:
            if method == "GET":
                return {"data": [{"id": "slow", "owned_by": "someone"}]}
            text = body["messages"][0]["content"]
            if text.endswith("even?"):
                time.sleep(draw.uniform(*seconds))
                self.sent[text] = time.monotonic()
                self.started.set()
            top = [{"token": token, "logprob": -0.7 - k} for k, token in enumerate(("Yes", "No", "Well", "a", "b"))]
            content = [top[0] | {"top_logprobs": top[: body.get("top_logprobs", 5)]}]
            choice = {"message": {"content": "Yes"}, "logprobs": {"content": content}, "finish_reason": "stop"}
            return {"model": "slow", "choices": [choice], "usage": {"prompt_tokens": 9, "completion_tokens": 1}}

        super().__init__(reply)


def stop_client(
    path: Path, how: signal.Signals, n: int = 200, seconds: tuple[float, float] = (0.1, 0.5), seed: int = 0
) -> Lost:
    """Stop a client at a random moment of its run, and let another go on."""
    code = f"from tests.client_kills import ask; import sys; ask(sys.argv[1], {str(path)!r}, {n})"
    with _SlowServer(seconds, seed) as server:
        process = subprocess.Popen(
            [sys.executable, "-c", code, server.url], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1]
        )
        assert server.started.wait(120), "the client asked nothing"
        time.sleep(random.Random(seed).uniform(0.2, 0.7 * n * sum(seconds) / 2 / IN_FLIGHT))
        stopped_at = time.monotonic()
        process.send_signal(how)
        out, _ = process.communicate(timeout=60)
        sent = [at for at in list(server.sent.values()) if at < stopped_at]
        with Store(path, create=False) as store:
            stored = {answer.question.prompt.text for batch in store.batches() for answer in store.read(batch)}
        time.sleep(seconds[1])  # what was on its way has left
        server.asked.clear()
        with Store(path) as store:
            StoredEngine(ServerPool.open(f"{server.url}#slow@1", in_flight=64), store).answer(questions(n))
            assert len(store) == n
        asked = {body["messages"][0]["content"] for _, body in server.asked}
    return Lost(len(sent), len(stored), len(asked & stored), out.strip().splitlines()[-1])
