"""What files name is shown, compared and hashed, and never asked: no command opens a connection that nobody typed."""

import json
import re
import shutil
import socket
import sqlite3
from pathlib import Path

import pytest
from huggingface_hub.utils import build_hf_headers

from synthscore import engines
from synthscore.cli.app import main
from synthscore.engine import Prompt, Question
from synthscore.engines.batch.add import _Judge
from synthscore.engines.batch.manifest import Asked, Manifest, chunk_line, head_line
from synthscore.errors import EngineError, SynthscoreWarning
from synthscore.ladders.references import References
from synthscore.signature import Signature
from synthscore.store.engine import RecordedEngine, StoredEngine
from synthscore.store.file import Store
from synthscore.store.packing import crc
from tests import factories
from tests.cli.given import CONTEXTS, quality_judge, target, write
from tests.fakes import FakeEngine
from tests.servers import Liar

PAIRED = ["--task", "summarization", "-a", "coherence", "--contexts", "contexts.jsonl"]
JUDGED = ["--references", "ladders", "--model", "recorded:s.sqlite"]
COMMANDS = {
    "store": ["store info --store s.sqlite", "store show --store s.sqlite", "store merge s.sqlite --store m.sqlite"],
    "salvage": ["store salvage s.sqlite -o salvaged.sqlite"],
    "recorded answers": ["score targets.jsonl JUDGED", "filter targets.jsonl JUDGED --min-score 3"],
    "doctor": ["doctor --model recorded:s.sqlite --ladders ladders"],
    "scale": [
        "score targets.jsonl JUDGED --scoring anchored --scale scale.json",
        "drift scores.jsonl --scale scale.json",
    ],
    "certificate": [
        "calibrate scores.jsonl --labels labels.jsonl --guarantee precision>=0.1 --confidence 0.5 -o c.json",
        "filter targets.jsonl JUDGED --certificate c.json",
        "drift scores.jsonl --certificate c.json",
    ],
    "scores": [
        "evaluate scores.jsonl --human labels.jsonl",
        "estimate scores.jsonl --labels labels.jsonl",
        "report scores.jsonl --targets targets.jsonl",
        "export targets.jsonl --to argilla -o tasks.json",
    ],
    "ladders": [
        "references list ladders --contexts",
        "references show ladders c1 --history",
        "references check ladders --no-judge",
    ],
    "comparisons": ["rank --comparisons comparisons.jsonl"],
}


@pytest.fixture
def connections(monkeypatch):
    """Where somebody wanted to connect to, other than a file of this machine; none comes about."""
    wanted = []

    def refuse(self, address, *more):
        wanted.append(address)
        raise OSError("no connection in this test")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "connect_ex", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *address, **more: refuse(None, address))
    return wanted


class Addressed(FakeEngine):
    """Signs with an address, as a stranger's store may."""

    url = ""

    @property
    def signature(self):
        return Signature.parse(f"model:{self.url}#m|dtype:float32|server:{self.url}")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """What a stranger may send, made with a judge behind an address; and the server there, which counts who asks it."""
    folder = tmp_path_factory.mktemp("made")
    with Liar(lambda *request: (500, {})) as server, pytest.MonkeyPatch.context() as patch:
        patch.setattr(Addressed, "url", server.url)
        with pytest.MonkeyPatch.context() as opening:
            opening.chdir(folder)
            opening.setattr(engines, "open_engine", lambda name, **options: Addressed(quality_judge))
            text, writer = "A text of quality {quality}, which is all of it.", {"writer": f"{server.url}#m"}
            ladders = [factories.ladder(c, text=text, context=CONTEXTS[c], provenance=writer) for c in CONTEXTS]
            References(ladders).save("ladders")
            texts = [(c, quality) for c in CONTEXTS for quality in (1.5, 3.5, 4.5)]
            write("targets.jsonl", *(target(c, quality, system=f"s{quality}") for c, quality in texts))
            write("contexts.jsonl", *({"id": c, "text": text} for c, text in CONTEXTS.items()))
            rated = ({"context_id": c, "system": f"s{q}", "attribute": "coherence", "human": q} for c, q in texts)
            write("labels.jsonl", *(row | {"label": row["human"] > 3} for row in rated))
            named = ["--references", "ladders", "--store", "s.sqlite"]
            assert main(["score", "targets.jsonl", *named, "--scoring", "anchored", "--save-scale", "scale.json"]) == 0
            assert main(["score", "targets.jsonl", *named, "-o", "scores.jsonl"]) == 0
            assert main(["compare", "targets.jsonl", "--store", "s.sqlite", *PAIRED, "-o", "comparisons.jsonl"]) == 0
        for name in ("scores.jsonl", "scale.json", "comparisons.jsonl", "ladders/ladders.parquet"):
            assert server.url.encode() in (folder / name).read_bytes()
        yield folder, server


@pytest.fixture
def files(made, folder, monkeypatch):
    """A copy of them in the current folder, and the server."""
    shutil.copytree(made[0], folder, dirs_exist_ok=True)
    for name in ("OPENAI_API_KEY", "SYNTHSCORE_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, "sk-secret")
    monkeypatch.delenv("HF_HUB_OFFLINE")
    return made[1]


@pytest.mark.parametrize("kind", COMMANDS)
def test_no_command_contacts_what_a_file_names(kind, files, connections, capsys):
    for command in COMMANDS[kind]:
        argv = [word for each in command.split() for word in (JUDGED if each == "JUDGED" else [each])]
        codes = (0, 1, 3) if kind == "doctor" else (0, 3)  # the store has no answer to its questions
        assert main(argv) in codes, (command, capsys.readouterr().err)
    assert (connections, files.asked, files.headers) == ([], [], [])


@pytest.mark.parametrize("named", ["URL", "evil/tokenizer"])
def test_a_tokenizer_that_a_manifest_names_is_taken_from_this_machine_alone(named, tmp_path, connections):
    asked = Asked("model:m|backend:batch-ids|wire:vllm", "m", "vllm", named.replace("URL", "http://127.0.0.1:9/v1"))
    file = tmp_path / "q.jsonl.manifest"
    file.write_bytes(head_line(asked) + chunk_line(["0" * 16], [Question(Prompt("?"), ("Yes", "No"))]))
    build_hf_headers()  # for which the hub's library looks something up once in a process, whatever is loaded
    connections.clear()
    with pytest.raises(EngineError, match="--tokenizer"):
        _ = _Judge(Manifest(file), None, None).tokens
    assert connections == []


def test_control_characters_of_a_store_change_nothing_on_the_terminal(files, capsys):
    with sqlite3.connect("s.sqlite") as db:
        db.execute("UPDATE batches SET engine = ?", ("model:\x1b[31mred\x9b2J|dtype:float32",))
    main(["store", "info", "--store", "s.sqlite"])
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", "".join(capsys.readouterr()))


SHOWN = pytest.mark.filterwarnings("default::synthscore.errors.SynthscoreWarning")
POISON = ["null", "{}", "[]", "[[[]]]", "[" * 5000 + "]" * 5000, "no JSON", '"text"', "1e999", "NaN", "-1"] + [
    json.dumps({"log_probs": log_probs, "rival": None})
    for log_probs in (
        [-0.05] * 3,
        [1.0] * 3,
        [1e308] * 3,
        [None] * 3,
        ["a"] * 3,
        [-1.0] * 2,
        {},
        [[-1.0]] * 3,
        [True] * 3,
    )
]


@SHOWN
@pytest.mark.parametrize("value", POISON, ids=lambda value: value[:40])
def test_a_stored_answer_that_is_none_counts_as_missing_and_a_warning_says_so(value, tmp_path):
    """With its right checksum."""
    question = Question(Prompt("?"), ("Better", "Worse", "Similar"))
    with Store(tmp_path / "s.sqlite") as store:
        StoredEngine(FakeEngine(lambda prompt, labels: [-1.0, -2.0, -3.0]), store).answer([question])
    poison(tmp_path / "s.sqlite", value)
    with pytest.warns(SynthscoreWarning, match="cannot be used and count as missing"):
        [answer] = RecordedEngine(str(tmp_path / "s.sqlite")).answer([question]).rows
    assert isinstance(answer, EngineError)


@SHOWN
def test_a_score_is_made_of_no_poisoned_answer(files, capsys):
    poison("s.sqlite", json.dumps({"log_probs": [-0.05] * 3, "rival": None}))
    assert main(["score", "targets.jsonl", *JUDGED, "-o", "again.jsonl"]) == 1
    assert "add up to 2.854, expected at most 1" in " ".join(capsys.readouterr().err.split())
    rows = [json.loads(line) for line in Path("again.jsonl").read_text().splitlines()]
    assert {row["score"] for row in rows} == {None}


def poison(file, value):
    """Every answer of a store, with the checksum that it then has."""
    with sqlite3.connect(file) as db:
        for batch, place, key in db.execute("SELECT batch, place, key FROM answers").fetchall():
            new = (value, crc(batch, place, key, value.encode()), batch, place)
            db.execute("UPDATE answers SET value = ?, checksum = ? WHERE batch = ? AND place = ?", new)
