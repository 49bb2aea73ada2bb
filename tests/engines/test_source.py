"""How a name becomes the files of a model: folders, GGUF files, the hub, and what is refused."""

import hashlib
import json
import shutil
from importlib import util

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from synthscore.engine import Prompt, Question
from synthscore.engines import open_engine, source
from synthscore.engines.source import Source, opened_gguf
from synthscore.errors import EngineError, SynthscoreWarning
from tests.models import save_gguf

QUESTIONS = [Question(Prompt(f"Is summary {n} better?"), ("Better", "Worse")) for n in range(3)]
READ_AS = "Q8_0 weights are read as float32, which takes .* GB"


@pytest.fixture(scope="module")
def gguf(tmp_path_factory):
    return save_gguf(tmp_path_factory.mktemp("gguf") / "tiny-Q8_0.gguf")


@pytest.fixture
def no_hub(monkeypatch):
    """Whoever asks the hub fails."""
    monkeypatch.setattr("socket.socket.connect", lambda *_: pytest.fail("asked the network"))


# ------------------------------------------------------------------------------------------------ names


@pytest.mark.parametrize("name", ["nanno", "Nano", "nao", "nano1"])
def test_a_misspelt_nano_is_no_question_to_the_hub(name, no_hub):
    with pytest.raises(EngineError, match=f"no model folder or file '{name}'.*Did you mean 'nano'"):
        open_engine(name)


@pytest.mark.parametrize("name", ["gpt2", "organisation/nano", "t5-small"])
def test_what_could_be_a_hub_id_is_one(name):
    assert Source.of(name, "main") == Source(name, name, "main")


@pytest.mark.parametrize("name", ["no/such/folder", "missing.gguf", "~/none here", "", "data/none.gguf"])
def test_what_can_be_no_hub_id_is_said_to_be_nothing(name, no_hub, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(EngineError, match=r"no model folder or file .* no hub id either\. Expected 'nano', a folder"):
        Source.of(name)


def test_a_file_of_another_kind_is_no_hub_id(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    with pytest.raises(EngineError, match=r"no model folder or file 'model.safetensors'"):
        Source.of("model.safetensors")


# ------------------------------------------------------------------------------------------------ what is refused


@pytest.mark.parametrize("weights", ["pytorch_model.bin", "model.pt", "consolidated.00.pth"])
def test_pickled_weights_are_not_read(folder, tmp_path, weights):
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(f"{folder}/{name}", tmp_path)
    torch.save({}, tmp_path / weights)
    with pytest.raises(EngineError, match=f"pickled .{weights}.*expected safetensors; if you trust it, convert it"):
        open_engine(str(tmp_path))


def test_weights_that_are_there_both_ways_are_read_as_safetensors(folder, tmp_path):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    (tmp_path / "pytorch_model.bin").write_bytes(b"no weights at all")
    assert open_engine(str(tmp_path)).answer(QUESTIONS).rows


def test_code_that_comes_with_a_model_is_not_run(folder, tmp_path):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    config = (tmp_path / "config.json").read_text()
    own = '"auto_map": {"AutoConfig": "own.Config", "AutoModelForCausalLM": "own.Model"}, "model_type": "own"'
    (tmp_path / "config.json").write_text(config.replace('"model_type": "llama"', own))
    (tmp_path / "own.py").write_text(
        f"open({str(tmp_path / 'was_run')!r}, 'w')\nclass Config: pass\nclass Model: pass\n"
    )
    with pytest.raises(EngineError, match=r"of the kind own, .* code that comes with a model is not run"):
        open_engine(str(tmp_path))
    assert not (tmp_path / "was_run").exists()


@pytest.fixture
def sharded(local, folder, tmp_path):
    """The model with its weights in several files, in a folder beside others."""
    shutil.copytree(folder, tmp_path / "model", ignore=shutil.ignore_patterns("*.safetensors"))
    local.model.save_pretrained(tmp_path / "model", max_shard_size="50KB")
    return tmp_path / "model"


@pytest.mark.parametrize("where", ["../{}", "{root}/{}", "weights/{}", "./{}"])
def test_weights_outside_the_folder_are_refused(sharded, where):
    index = sharded / "model.safetensors.index.json"
    content = json.loads(index.read_text())
    before = open_engine(str(sharded)).answer(QUESTIONS)
    assert len(before.rows) == len(QUESTIONS)
    moved = max(content["weight_map"].values())
    there = where.format(moved, root=sharded.parent)
    (sharded / there).parent.mkdir(exist_ok=True)
    shutil.move(sharded / moved, sharded / there)
    content["weight_map"] = {key: there if name == moved else name for key, name in content["weight_map"].items()}
    index.write_text(json.dumps(content))
    with pytest.raises(EngineError, match=r"index\.json names the weights '.*, expected files in the folder itself"):
        open_engine(str(sharded))


def test_weights_that_the_config_names_in_another_folder_are_refused(folder, tmp_path):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    (tmp_path / "weights").mkdir()
    shutil.move(tmp_path / "model.safetensors", tmp_path / "weights")
    config = json.loads((tmp_path / "config.json").read_text())
    changed = config | {"transformers_weights": "weights/model.safetensors"}
    (tmp_path / "config.json").write_text(json.dumps(changed))
    with pytest.raises(EngineError, match=r"config\.json names the weights 'weights/model\.safetensors'"):
        open_engine(str(tmp_path))


# ------------------------------------------------------------------------------------------------ GGUF files


def test_a_gguf_file_answers_as_plain_transformers_does(gguf):
    with pytest.warns(SynthscoreWarning, match=READ_AS):
        engine = open_engine(gguf)
    with opened_gguf(Source.of(gguf)):
        model = AutoModelForCausalLM.from_pretrained("/", gguf_file=gguf, dtype=torch.float32)
    assert engine.prompts.max_length == 256
    for question, answer in zip(QUESTIONS, engine.answer(QUESTIONS).rows, strict=True):
        ids, forms = engine.prompts.question(question.prompt, question.labels)
        for found, ways in zip(answer.log_probs, forms.forms, strict=True):
            with torch.no_grad():
                each = [model(torch.tensor([[*ids, *way]])).logits[0].log_softmax(-1) for way in ways]
            said = [
                sum(float(row[len(ids) - 1 + n, token]) for n, token in enumerate(way))
                for row, way in zip(each, ways, strict=True)
            ]
            assert found == pytest.approx(np.logaddexp.reduce(said), abs=1e-5)


def test_its_signature_has_the_hash_of_the_file_and_how_its_weights_were_quantised(gguf):
    with pytest.warns(SynthscoreWarning, match=READ_AS):
        signed = dict(open_engine(gguf).signature.parts)
    with open(gguf, "rb") as file:
        assert signed["model"] == f"tiny-Q8_0@{hashlib.sha256(file.read()).hexdigest()[:12]}"
    assert (signed["gguf"], signed["dtype"]) == ("Q8_0", "float32")


def test_a_folder_with_one_gguf_file_is_that_file(gguf, tmp_path):
    shutil.copy(gguf, tmp_path / "a.gguf")
    assert Source.of(tmp_path) == Source.of(tmp_path / "a.gguf")
    shutil.copy(gguf, tmp_path / "b.gguf")
    with pytest.raises(EngineError, match=r"2 models: a.gguf, b.gguf. Name one"):
        Source.of(tmp_path)


def test_a_file_of_the_same_name_in_the_working_folder_is_not_read_instead(gguf, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny-Q8_0.gguf").write_bytes(b"another")
    with pytest.warns(SynthscoreWarning, match=READ_AS):
        assert open_engine(gguf).answer(QUESTIONS).rows


def test_the_file_is_parsed_once(gguf, monkeypatch):
    import gguf as package

    parsed, read = [], package.GGUFReader.__init__
    monkeypatch.setattr(package.GGUFReader, "__init__", lambda self, path: parsed.append(path) or read(self, path))
    with pytest.warns(SynthscoreWarning, match=READ_AS):
        open_engine(gguf)
    assert parsed == [gguf]


@pytest.mark.parametrize("n_bytes", [0, 3, 20, 200, 5000, -100])
def test_a_broken_file_is_an_error_of_ours(gguf, tmp_path, n_bytes):
    broken = tmp_path / "broken.gguf"
    with open(gguf, "rb") as file:
        broken.write_bytes(file.read()[:n_bytes])
    with pytest.raises(EngineError, match=r"cannot load 'broken\.gguf' as a causal language model: "):
        open_engine(str(broken))


def test_one_part_of_several_is_not_a_model(tmp_path):
    (tmp_path / "big-00001-of-00003.gguf").write_bytes(b"GGUF")
    with pytest.raises(EngineError, match=r"one of 3 parts.*--merge"):
        open_engine(str(tmp_path / "big-00001-of-00003.gguf"))


def test_without_the_package_the_error_says_what_to_install(gguf, monkeypatch):
    found = util.find_spec
    monkeypatch.setattr(source, "find_spec", lambda name: None if name == "gguf" else found(name))
    with pytest.raises(EngineError, match=r"pip install 'synthscore\[gguf\]'"):
        open_engine(gguf)
