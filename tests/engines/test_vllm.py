"""The vLLM adapter against vLLM's interface, as it was read from its source: requests and replies have its names and
shapes; a small random model stands behind them. vLLM itself is not run."""

import sys
import types
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch

from synthscore.engine import Generation, Prompt, Sampling
from synthscore.engines import open_engine
from synthscore.engines.vllm import VLLMEngine
from synthscore.errors import EngineError, LabelError

from ..servers_for_tests import LABELS, PROMPTS, save_model


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    return open_engine(save_model(tmp_path_factory.mktemp("models") / "tiny"))


@dataclass
class OldParams:
    """vllm.SamplingParams, as far as it is used."""

    max_tokens: int = 16
    temperature: float = 1.0
    top_p: float = 1.0
    seed: int | None = None
    stop: list | None = None
    logprobs: int | None = None


@dataclass
class Params(OldParams):
    logprob_token_ids: list | None = None


@dataclass
class Logprob:
    logprob: float
    rank: int | None = None
    decoded_token: str | None = None


@dataclass
class Reply:
    outputs: list = field(default_factory=list)


class FakeLLM:
    def __init__(self, local, finish="stop"):
        self.local, self.finish, self.asked = local, finish, []
        config = types.SimpleNamespace(dtype=torch.float32, max_model_len=256, revision="c189")
        self.llm_engine = types.SimpleNamespace(model_config=config)

    def get_tokenizer(self):
        return self.local.prompts.tokenizer

    def generate(self, prompts, params, use_tqdm):
        assert use_tqdm is False
        assert len(params) == len(prompts)
        self.asked += [(prompt["prompt_token_ids"], one) for prompt, one in zip(prompts, params, strict=True)]
        return [self._reply(prompt["prompt_token_ids"], one) for prompt, one in zip(prompts, params, strict=True)]

    def _reply(self, ids, params):
        wanted = getattr(params, "logprob_token_ids", None)
        if wanted is None and params.logprobs is None:
            text = f"{len(ids)} {params.seed} {params.top_p}"
            output = types.SimpleNamespace(text=text, finish_reason=self.finish, token_ids=[1, 2])
            return Reply([output])
        with torch.inference_mode():
            log_probs = self.local.model(torch.tensor([ids])).logits[0, -1].log_softmax(-1)
        chosen = {int(log_probs.argmax()), *(wanted or log_probs.topk(params.logprobs).indices.tolist())}
        told = {i: Logprob(float(log_probs[i])) for i in chosen}
        return Reply([types.SimpleNamespace(logprobs=[told])])


def engine_of(local, params=Params, **options):
    return VLLMEngine(FakeLLM(local, **options), params, name="org/tiny", version="0.20")


def test_labels_are_as_probable_as_in_the_model_itself(local):
    counts = []
    there = engine_of(local).label_log_probs(PROMPTS, LABELS, counts.append)
    here = local.label_log_probs(PROMPTS, LABELS)
    np.testing.assert_allclose(there.log_probs, here.log_probs, atol=5e-5)
    assert there.censored is None
    assert sum(counts) == len(PROMPTS)
    assert there.tokens_naive == here.tokens_naive
    for rival, ours in zip(there.rivals, here.rivals, strict=True):
        assert rival is None or rival.token == ours.token


def test_an_older_vllm_tells_the_most_probable_tokens_and_censors_the_rest(local):
    engine = engine_of(local, OldParams)
    told, truth = engine.label_log_probs(PROMPTS, LABELS), local.label_log_probs(PROMPTS, LABELS).log_probs
    assert told.censored.any()
    assert (truth <= told.log_probs + 5e-5).all()
    assert (told.floors <= truth + 5e-5).all()
    assert "backend:vllm-topk20" in str(engine.signature)


def test_each_place_is_asked_once_for_the_tokens_that_matter_there(local):
    engine = engine_of(local)
    engine.label_log_probs([PROMPTS[0]] * 3, LABELS)
    places = [tuple(ids) for ids, _ in engine._llm.asked]
    assert len(places) == len(set(places))
    assert all(params.max_tokens == 1 and params.temperature == 0 for _, params in engine._llm.asked)


def test_a_version_that_ignores_chosen_tokens_is_noticed(local):
    engine = engine_of(local)
    reply = engine._llm._reply
    engine._llm._reply = lambda ids, params: reply(ids, OldParams(logprobs=1))
    with pytest.raises(EngineError, match="did not tell the tokens"):
        engine.label_log_probs(PROMPTS, LABELS)


def test_nan_is_no_log_probability(local):
    engine = engine_of(local)
    nan = {i: Logprob(float("nan")) for i in range(len(local.prompts.tokenizer))}
    engine._llm._reply = lambda ids, params: Reply([types.SimpleNamespace(logprobs=[nan])])
    with pytest.raises(EngineError, match="cannot be used"):
        engine.label_log_probs(PROMPTS, LABELS)


def test_a_prompt_that_is_too_long_fails_alone(local):
    told = engine_of(local).label_log_probs([PROMPTS[0], Prompt("storm " * 300)], LABELS)
    assert list(told.failures) == [1]
    texts = engine_of(local).generate([Prompt("storm " * 300), PROMPTS[0]], Sampling(5), [1, 2])
    assert isinstance(texts[0], EngineError)
    assert isinstance(texts[1], Generation)
    with pytest.raises(LabelError):
        engine_of(local).label_log_probs(PROMPTS, ("Yes", "Yes"))


def test_texts_are_asked_for_with_their_seeds_and_all_that_decides_them(local):
    engine = engine_of(local)
    texts = engine.generate(PROMPTS[:2], Sampling(300, 0.5, 0.8, stop=("x",)), [7, 8])
    assert [text.text.split()[1:] for text in texts] == [["7", "0.8"], ["8", "0.8"]]
    ids, params = engine._llm.asked[0]
    assert (params.temperature, params.stop) == (0.5, ["x"])
    assert params.max_tokens == 256 - len(ids)
    failed = engine_of(local, finish="abort").generate(PROMPTS[:1], Sampling(), [1])
    assert "'abort'" in str(failed[0])


def test_the_signature_names_what_can_change_an_answer(local):
    assert str(engine_of(local).signature) == (
        f"model:org/tiny@c189|dtype:float32|backend:vllm-ids|chat:{local.prompts.template_hash}|vllm:0.20"
    )


def test_it_is_opened_by_name_and_its_absence_is_told(local, monkeypatch):
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(EngineError, match=r"pip install 'synthscore\[vllm\]'"):
        open_engine("vllm:org/tiny")
    options = []

    def llm(**given):
        options.append(given)
        if given["model"] == "org/none":
            raise ValueError("no such model")
        return FakeLLM(local)

    module = types.SimpleNamespace(LLM=llm, SamplingParams=Params, __version__="0.20")
    monkeypatch.setitem(sys.modules, "vllm", module)
    assert "vllm:0.20" in str(open_engine("vllm:org/tiny", dtype="float32").signature)
    assert options == [{"model": "org/tiny", "dtype": "float32"}]
    with pytest.raises(EngineError, match="no such model"):
        open_engine("vllm:org/none")
