"""Who is asked, how often, and what happens when a server fails: with real faults between us and a real server, and
with servers that are only pretended where the order of events matters. Waits are milliseconds."""

import json
import socketserver
import threading
import time
from contextlib import nullcontext

import numpy as np
import pytest

from synthscore.engine import Generation, LabelAnswer, Prompt, Sampling, generate, label_log_probs
from synthscore.engines import open_engine
from synthscore.engines.servers.pool import Retry, ServerPool, _Member
from synthscore.engines.servers.served import spend
from synthscore.engines.servers.server import Server
from synthscore.errors import EngineError, LabelError, ServerError, SynthscoreWarning
from synthscore.judging.asking import Asking, Pair, ask
from synthscore.judging.templates import Templates, load_task
from synthscore.signature import Signature
from synthscore.types import Context, Usage
from tests.servers import LABELS, PROMPTS, Liar, forward, refusal, served

FAST = Retry(tries=4, first_wait=0.001, longest_wait=0.02, aside_after=3, aside_for=0.005, asides=5)


@pytest.fixture(scope="module")
def truth(folder):
    return label_log_probs(open_engine(folder), PROMPTS, LABELS).log_probs


# ------------------------------------------------------------------------------------------------- real faults

FAULTS = {
    "busy": lambda: refusal(429, "too many requests", Retry_After="0.01"),
    "an error inside": lambda: refusal(500, "it broke"),
    "overloaded": lambda: refusal(503, "try later", Retry_After="0"),
    "cut off": lambda: "cut",
    "garbage": lambda: "<html>",
    "half of it": lambda: '{"choices": [',
    "no choices": lambda: {"choices": []},
    "nothing in time": lambda: time.sleep(3) or {"choices": []},
}


class Faulty:
    """The server at url, with a fault in place of the answers to the first n requests about prompts."""

    def __init__(self, url, fault, n):
        self.url, self.fault, self.n_left, self.begun = url, fault, n, False

    def opened(self, server, **options):
        """A pool of this server, whose faults begin now."""
        engine = open_engine(server.url, retry=FAST, **options)
        self.begun = True
        server.asked.clear()
        return engine

    def __call__(self, method, path, body):
        if path == "/v1/completions" and self.begun and self.n_left:
            self.n_left -= 1
            return self.fault()
        return forward(self.url, method, path, body)


@pytest.mark.slow
@pytest.mark.parametrize("what", FAULTS)
def test_a_fault_that_passes_costs_a_try_and_changes_no_number(what, url, truth):
    with Liar(faulty := Faulty(url, FAULTS[what], 2)) as server:
        engine = faulty.opened(server, timeout_s=1.5 if what == "nothing in time" else 60)
        told = label_log_probs(engine, [*PROMPTS[:4]] * 2, LABELS)
        assert not told.failures
        np.testing.assert_allclose(told.log_probs, np.tile(truth[:4], (2, 1)), atol=1e-6)
        assert faulty.n_left == 0


class OneReplyAConnection(socketserver.StreamRequestHandler):
    """The server at `url`; it promises to keep each connection, and cuts it when it is used again."""

    url = ""
    lock, n_cut = threading.Lock(), 0

    def handle(self):
        for n in range(2):
            if not (first := self.rfile.readline().split()):
                return
            length = 0
            while line := self.rfile.readline().strip():
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            body = self.rfile.read(length)
            if n:
                with self.lock:
                    type(self).n_cut += 1
                return
            data = json.dumps(
                forward(self.url, first[0].decode(), first[1].decode(), json.loads(body or "{}"))
            ).encode()
            head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
            self.wfile.write(head.encode() + data)


def test_connections_that_a_server_kept_and_then_gives_up_cost_no_try(url, truth, monkeypatch):
    monkeypatch.setattr(OneReplyAConnection, "url", url)
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), OneReplyAConnection) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        engine = open_engine(f"http://127.0.0.1:{server.server_address[1]}/v1", retry=Retry(tries=1))
        told = label_log_probs(engine, PROMPTS * 4, LABELS)
        server.shutdown()
    assert OneReplyAConnection.n_cut > 0
    assert not told.failures
    np.testing.assert_allclose(told.log_probs, np.tile(truth, (4, 1)), atol=1e-6)


def set_aside():
    """The user is told that a server is left alone."""
    return pytest.warns(
        SynthscoreWarning, match="failed 3 times in a row and is left alone for a while; the last time: "
    )


@pytest.mark.parametrize("what", ["busy", "an error inside", "garbage"])
def test_a_fault_that_stays_fails_its_rows_with_the_servers_words_and_no_number(what, url):
    with Liar(faulty := Faulty(url, FAULTS[what], 10**9)) as server:
        engine = faulty.opened(server)
        with nullcontext() if what == "busy" else set_aside():
            told = label_log_probs(engine, PROMPTS[:2] * 2, LABELS)
    assert sorted(told.failures) == [0, 1, 2, 3]
    assert np.isnan(told.log_probs).all()
    words = {"busy": "429: too many", "an error inside": "500: it broke", "garbage": "no JSON"}[what]
    assert words in told.failures[0]
    assert "(tried 4 times)" in told.failures[0]


def test_a_bad_request_is_not_tried_again(url):
    with Liar(faulty := Faulty(url, lambda: refusal(400, "this prompt offends"), 10**9)) as server:
        told = label_log_probs(faulty.opened(server), [PROMPTS[0]], LABELS)
        assert "this prompt offends" in told.failures[0]
        assert len(server.asked) == 1


def test_a_server_that_loses_its_model_is_given_up_at_once(url):
    with Liar(faulty := Faulty(url, lambda: refusal(404, "no model tiny"), 10**9)) as server:
        engine = faulty.opened(server)
        with pytest.raises(EngineError, match=r"no server is left, and nothing was answered.*no model tiny"):
            label_log_probs(engine, [PROMPTS[0]], LABELS)
        assert len(server.asked) == 1


@pytest.mark.slow
def test_when_one_server_dies_for_good_the_other_answers_the_rest(url, folder, truth):
    with served(folder) as (mortal, process), Liar(lambda *asked: forward(url, *asked)) as other:
        pool = ServerPool.open(f"{mortal},{other.url}", retry=FAST)
        before = label_log_probs(pool, PROMPTS, LABELS)
        process.kill()
        process.wait()
        with set_aside():
            after = label_log_probs(pool, PROMPTS, LABELS)
        np.testing.assert_allclose(before.log_probs, truth, atol=1e-6)
        np.testing.assert_allclose(after.log_probs, truth, atol=1e-6)
        alone = ServerPool(pool_servers(pool)[:1], retry=FAST)
        with pytest.raises(EngineError, match="nothing was answered"), pytest.warns(SynthscoreWarning):
            label_log_probs(alone, PROMPTS, LABELS)


def pool_servers(pool):
    return [member.server for member in pool._members]


def test_a_server_that_is_not_there_when_the_pool_is_opened_is_left_out_with_a_warning(url):
    with Liar(lambda *asked: {}) as gone:
        pass
    with pytest.warns(SynthscoreWarning, match="connection failed.*Going on without it"):
        pool = ServerPool.open(f"{gone.url},{url}", retry=FAST)
    assert [server.url for server in pool_servers(pool)] == [url]
    with pytest.raises(EngineError, match="none of 2 servers answers"):
        ServerPool.open(f"{gone.url},{gone.url}", retry=FAST)


def test_a_server_that_dies_while_the_pool_is_opened_is_left_out_with_a_warning(url):
    def mortal(method, path, body):
        return forward(url, method, path, body) if method == "GET" and not dying.asked else "cut"

    with Liar(mortal) as dying, Liar(lambda *asked: forward(url, *asked)) as well:
        with pytest.warns(SynthscoreWarning, match="the connection failed.*Going on without it"):
            pool = ServerPool.open(f"{dying.url},{well.url}", retry=FAST)
        assert [server.url for server in pool_servers(pool)] == [well.url]


def test_a_server_that_is_busy_when_the_pool_is_opened_is_waited_for(url):
    replies = [refusal(503, "loading the model"), refusal(429, "busy")]
    with Liar(lambda *asked: replies.pop() if replies else forward(url, *asked)) as server:
        assert open_engine(server.url, retry=FAST).signature == open_engine(url).signature


def test_verdicts_through_a_server_are_those_of_the_model_here(url, folder):
    task = load_task("story")
    pairs = [Pair(Context("c", "A cat."), "surprise", f"It sat {n} times.", "It sat.") for n in range(4)]
    there = ask(pairs, open_engine(url), Templates(task), Asking(min_mass=0))
    here = ask(pairs, open_engine(folder), Templates(task), Asking(min_mass=0))
    np.testing.assert_allclose(there.better, here.better, atol=1e-6)


# ------------------------------------------------------------------------------------------------- pretended servers


class Pretended:
    """A server whose `act(n, rows)` is called for its n-th request: it returns, or raises."""

    def __init__(self, name, act=lambda n, prompts: None, check=lambda: None, model="m"):
        self.url, self.act, self.health = f"http://{name}/v1", act, check
        self.signature = Signature.of(model=model)
        self.one_by_one, self.most_together = False, 1
        self.prompts, self.n_checks, self.n_asked = [], 0, 0
        self.n_now = self.n_most = 0
        self.lock = threading.Lock()

    def answer(self, question):
        if question.sampling is not None:
            return self.write(question)
        prompts = [question.prompt]
        with self.lock:
            self.n_asked += 1
            self.n_now += 1
            self.n_most = max(self.n_most, self.n_now)
            n = self.n_asked
        try:
            self.act(n, prompts)
        finally:
            with self.lock:
                self.n_now -= 1
        self.prompts += prompts
        spend(Usage(n_in=3, n_computed=2))
        return LabelAnswer([-float(len(question.prompt.text))] * len(question.labels))

    def write(self, question):
        if question.seed == 13:
            raise EngineError("filtered")
        return Generation(f"{question.prompt.text} {question.seed}", "stop", 1)

    together, answer_all = Server.together, Server.answer_all

    def check(self):
        self.n_checks += 1
        self.health()


def fail(retryable=True, status=None, **data):
    raise ServerError("down", retryable=retryable, status=status, **data)


def contexts(n_contexts, n_rows):
    return [Prompt(f"{context} " * 600 + str(row)) for row in range(n_rows) for context in range(n_contexts)]


def test_results_keep_the_order_of_their_rows():
    servers = [Pretended(name, lambda n, prompts: time.sleep(0.001 * (n % 3))) for name in "ab"]
    asked = [Prompt("x" * n) for n in range(1, 40)]
    counts = []
    told = label_log_probs(ServerPool(servers, in_flight=4, retry=FAST), asked, ("A",), counts.append)
    assert told.log_probs[:, 0].tolist() == [-len(prompt.text) for prompt in asked]
    assert sum(counts) == len(asked)
    assert (told.usage.n_in, told.usage.n_computed) == (3 * 39, 2 * 39)
    assert told.censored is None


def test_rows_of_one_context_go_to_one_server_and_contexts_to_all():
    servers = [Pretended(name) for name in "abc"]
    label_log_probs(ServerPool(servers, retry=FAST), contexts(12, 4), ("A",))
    homes = {}
    for server in servers:
        assert server.prompts
        for prompt in server.prompts:
            homes.setdefault(prompt.text.split()[0], set()).add(server.url)
    assert all(len(urls) == 1 for urls in homes.values())


def test_a_context_stays_where_it_was_when_another_server_joins_or_leaves():
    def homes(names):
        servers = [Pretended(name) for name in names]
        label_log_probs(ServerPool(servers, retry=FAST), contexts(12, 1), ("A",))
        return {prompt.text.split()[0]: server.url for server in servers for prompt in server.prompts}

    all_three, two = homes("abc"), homes("ab")
    for context, url in all_three.items():
        assert two[context] == url or url == "http://c/v1"


def test_rows_move_on_when_their_server_is_down_and_it_is_asked_for_its_health_until_it_is_given_up():
    ill = Pretended("a", lambda n, prompts: fail(), fail)
    well = Pretended("b", lambda n, prompts: time.sleep(0.002))
    pool = ServerPool([ill, well], in_flight=2, retry=FAST)
    with set_aside():
        told = label_log_probs(pool, contexts(20, 4), ("A",))
    assert not told.failures
    assert ill.n_asked < 10  # three failures set it aside; not one for each of its rows

    def ask_until_it_is_given_up():
        while ill.n_checks < FAST.asides:
            told = label_log_probs(pool, contexts(20, 4), ("A",))
            assert not told.failures

    with pytest.warns(SynthscoreWarning, match=r"asked nothing more: down \(it was set aside 5 times\)"):
        ask_until_it_is_given_up()
    n_asked, n_checks = ill.n_asked, ill.n_checks
    label_log_probs(pool, contexts(20, 1), ("A",))
    assert (ill.n_asked, ill.n_checks) == (n_asked, n_checks)


def test_a_server_that_recovers_is_asked_again():
    ill = Pretended("a", lambda n, prompts: fail() if n <= 3 else None)
    pool = ServerPool([ill], in_flight=1, retry=FAST)
    with set_aside():
        told = label_log_probs(pool, contexts(5, 1), ("A",))
    assert not told.failures
    assert ill.n_checks >= 1


def test_when_all_servers_die_half_way_what_was_answered_stays():
    mortal = Pretended("a", lambda n, prompts: fail() if n > 5 else None, fail)
    with pytest.warns(SynthscoreWarning, match="asked nothing more"), set_aside():
        told = label_log_probs(ServerPool([mortal], in_flight=1, retry=FAST), contexts(10, 1), ("A",))
    assert len(told.failures) == 5
    assert all("no server is left: down" in reason or "down (tried" in reason for reason in told.failures.values())


def test_a_server_that_has_nothing_left_takes_what_a_slow_one_has_not_begun():
    slow = Pretended("a", lambda n, prompts: time.sleep(1.5))
    fast = Pretended("b")
    pool = ServerPool([slow, fast], in_flight=2, retry=FAST)
    told = label_log_probs(pool, contexts(20, 2), ("A",))
    assert not told.failures
    assert slow.n_asked <= 6, (
        "two when it begins, two that are under way when the other has none, two that were waiting"
    )
    assert slow.n_asked + fast.n_asked == 40


def test_being_busy_is_not_being_ill():
    busy = Pretended("a", lambda n, prompts: fail(status=429) if n <= 3 else None, fail)
    told = label_log_probs(ServerPool([busy], in_flight=1, retry=FAST), contexts(10, 1), ("A",))
    assert not told.failures
    assert busy.n_checks == 0


def test_failures_set_a_server_aside_only_in_a_row():
    flaky = Pretended("a", lambda n, prompts: fail() if n <= 9 and n % 3 else None, fail)
    told = label_log_probs(ServerPool([flaky], in_flight=1, retry=FAST), contexts(10, 1), ("A",))
    assert not told.failures
    assert flaky.n_checks == 0


def test_no_server_has_more_requests_than_the_limit():
    server = Pretended("a", lambda n, prompts: time.sleep(0.005))
    label_log_probs(ServerPool([server], in_flight=3, retry=FAST), contexts(15, 1), ("A",))
    assert server.n_most == 3


def test_waits_grow_are_random_and_honour_retry_after_up_to_a_limit():
    retry = Retry(first_wait=1.0, longest_wait=30.0)
    for n, most in ((1, 1.0), (2, 2.0), (4, 8.0), (20, 30.0)):
        waits = {retry.wait(n, None) for _ in range(20)}
        assert most / 2 <= min(waits) < max(waits) <= most
    assert retry.wait(1, 12.0) == 12.0
    assert retry.wait(1, 3600.0) == 30.0
    assert retry.wait(3, 0.0) >= 2.0


def test_a_wait_that_the_server_asks_for_is_kept():
    times = []

    def busy_once(n, prompts):
        times.append(time.monotonic())
        if n == 1:
            fail(status=429, retry_after=0.2)

    label_log_probs(ServerPool([Pretended("a", busy_once)], retry=Retry(first_wait=0.001)), [Prompt("x")], ("A",))
    assert times[1] - times[0] >= 0.2


def test_labels_that_cannot_be_asked_stop_everything_at_once():
    def refuse(n, prompts):
        raise LabelError("these labels")

    server = Pretended("a", refuse)
    with pytest.raises(LabelError, match="these labels"):
        label_log_probs(ServerPool([server], in_flight=1, retry=FAST), contexts(50, 1), ("A",))
    assert server.n_asked < 50


def test_an_interrupt_leaves_at_once_though_requests_are_under_way():
    release = threading.Event()
    server = Pretended("a", lambda n, prompts: release.wait(20) if n > 1 else None)
    start = time.monotonic()

    def interrupt(n):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        label_log_probs(ServerPool([server], in_flight=4, retry=FAST), contexts(30, 1), ("A",), interrupt)
    assert time.monotonic() - start < 10
    release.set()
    time.sleep(0.05)
    assert server.n_asked <= 8  # those under way; no new ones


def test_texts_are_written_one_a_request_with_their_own_seeds_and_fail_alone():
    texts = generate(
        ServerPool([Pretended("a"), Pretended("b")], retry=FAST),
        [Prompt("p"), Prompt("q"), Prompt("p")],
        Sampling(),
        [1, 13, 2],
    )
    assert [text.text for text in (texts[0], texts[2])] == ["p 1", "p 2"]
    assert isinstance(texts[1], EngineError)


def test_servers_of_different_models_are_no_pool():
    with pytest.raises(EngineError, match=r"are not alike: model:m and model:n\. Expected the same"):
        ServerPool([Pretended("a"), Pretended("b", model="n")])


def test_nothing_asked_is_nothing_answered():
    pool = ServerPool([Pretended("a")])
    assert len(label_log_probs(pool, [], ("A", "B"))) == 0
    assert generate(pool, [], Sampling(), []) == []


def test_a_server_that_is_healthy_and_always_fails_is_given_up():
    class Healthy:
        one_by_one, most_together = False, 1

        def check(self):
            return None

    member, retry = _Member(Healthy(), 1), Retry(aside_for=0.0, aside_after=2, asides=3)
    for n_aside in range(1, 5):
        assert not member.gone
        for _ in range(2):
            member.failed(ServerError("it said 500", status=500, retryable=True), retry)
        assert member.asides == n_aside
        member.check(retry)
    assert member.gone == "it said 500 (it was set aside 3 times)"
