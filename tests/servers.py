"""Servers on loopback: ours in its own process (model_server.py), around a small model; and one that lies at will."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from synthscore.engine import Prompt

LABELS = ("Better", "Worse", "Similar", "No")  # 1 to 4 tokens
PROMPTS = [
    Prompt(f"The storm closed {what}. Which of the two summaries is {how}?", prefill)
    for what in ("the harbour", "a school")
    for how in ("better", "worse")
    for prefill in ("", "Answer:")
]


@contextmanager
def served(folder: str) -> Iterator[tuple[str, subprocess.Popen]]:
    """model_server.py in a process: its URL, and the process."""
    command = [sys.executable, "-m", "tests.model_server", folder]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        yield process.stdout.readline().strip(), process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


class Liar:
    """An HTTP server whose `answer(method, path, body)` decides what is said.

    returns : a dict (JSON), (status, dict), (status, dict, headers), text or bytes as they are, "cut": the connection
        breaks off; or what to do with the handler of the request
    """

    def __init__(self, answer: Callable[[str, str, dict], object]) -> None:
        self.answer = answer
        self.asked: list[tuple[str, dict]] = []  # path and body of every POST
        self.headers: list[dict[str, str]] = []
        liar = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self.reply(liar.answer("GET", self.path, {}))

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                liar.asked.append((self.path, body))
                liar.headers.append({name.lower(): value for name, value in self.headers.items()})
                self.reply(liar.answer("POST", self.path, body))

            def reply(self, said):
                if callable(said):
                    said(self)
                    return
                if said == "cut":
                    self.send_response(200)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", "1000")
                    self.end_headers()
                    self.wfile.write(b'{"choices": [')
                    self.wfile.flush()
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                status, value, more = said if isinstance(said, tuple) and len(said) == 3 else (200, said, {})
                if isinstance(said, tuple) and len(said) == 2:
                    status, value = said
                data = value.encode() if isinstance(value, str) else value
                data = data if isinstance(data, bytes) else json.dumps(data).encode()
                self.send_response(status)
                for name, text in ({"Content-Type": "application/json"} | more).items():
                    self.send_header(name, text)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args):
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request, address):  # a client that timed out has left
                pass

        self._http = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/v1"
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()

    def __enter__(self) -> Liar:
        return self

    def __exit__(self, *exception: object) -> None:
        self._http.shutdown()
        self._http.server_close()


def forward(url: str, method: str, path: str, body: dict) -> object:
    """What the server at url says."""
    data = json.dumps(body).encode() if method == "POST" else None
    request = urllib.request.Request(url.removesuffix("/v1") + path, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            return json.load(reply)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def refusal(status: int, message: str, **headers: str) -> tuple[int, dict, dict[str, str]]:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return status, {"error": {"message": message, "type": "Error", "code": status}}, names
