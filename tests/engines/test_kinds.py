"""The kinds of checkpoints that people have: each opens and is right, or fails in one sentence."""

import json
import shutil
import sys
import warnings
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import transformers as tf
from huggingface_hub import constants
from safetensors.torch import load_file, save_file
from transformers.integrations import hub_kernels

from synthscore import resources
from synthscore.engine import Prompt, Question
from synthscore.engines import adapters, loading, open_engine
from synthscore.engines.tokens import PromptTokenizer, settle_template
from synthscore.errors import EngineError, SynthscoreWarning
from tests.models import CHATML, TEXT, byte_level

SAME = 5e-5  # nats, float32
LABELS = ("Better", "Worse", "Similar")
QUESTIONS = [Question(Prompt(f"Is summary {n} better? {TEXT[: 100 * n]}"), LABELS) for n in range(3)]

TEXT_SIZES = {
    "vocab_size": len(byte_level()),
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "intermediate_size": 64,
    "max_position_embeddings": 512,
    "eos_token_id": byte_level().eos_token_id,
}
IMAGE_SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
ROPE_3D = {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 10_000.0}
QWEN_IMAGES = {"depth": 1, "hidden_size": 16, "num_heads": 2, "intermediate_size": 16, "out_hidden_size": 32}


def siglip(name, text, **options):
    images = IMAGE_SIZES | {"image_size": 28, "patch_size": 14}
    return getattr(tf, name)(text_config=TEXT_SIZES | text, vision_config=images, **options)


WITH_IMAGES = {
    "qwen2_5_vl": lambda: tf.Qwen2_5_VLConfig(
        text_config=TEXT_SIZES | {"rope_parameters": ROPE_3D}, vision_config=QWEN_IMAGES, image_token_id=3
    ),
    "qwen3_vl": lambda: tf.Qwen3VLConfig(
        text_config=TEXT_SIZES | {"rope_parameters": ROPE_3D},
        vision_config=QWEN_IMAGES | {"deepstack_visual_indexes": [0]},
        image_token_id=3,
    ),
    "gemma3": partial(siglip, "Gemma3Config", {"sliding_window": 16}, image_token_index=3),
    "mistral3": lambda: tf.Mistral3Config(
        text_config=TEXT_SIZES | {"model_type": "mistral"},
        vision_config=IMAGE_SIZES | {"model_type": "pixtral", "image_size": 28, "patch_size": 14},
        image_token_index=3,
    ),
    "smolvlm": partial(siglip, "SmolVLMConfig", {"model_type": "llama"}, image_token_id=3),
    "idefics3": partial(siglip, "Idefics3Config", {"model_type": "llama"}, image_token_id=3),
    "internvl": lambda: tf.InternVLConfig(
        text_config=TEXT_SIZES | {"model_type": "qwen2"},
        vision_config=IMAGE_SIZES | {"image_size": [28, 28], "patch_size": [14, 14]},
        image_token_id=3,
    ),
}


def widened(model):
    """With weights so wide that what is attended to matters."""
    torch.manual_seed(0)
    with torch.no_grad():
        for weights in model.parameters():
            if weights.ndim >= 2:
                weights.normal_(0, 0.15)
    return model.eval()


def check(engine, model):
    """The engine's answers are those of plain forwards of a model, one a question and label."""
    for question, answer in zip(QUESTIONS, engine.answer(QUESTIONS).rows, strict=True):
        ids, forms = engine.prompts.question(question.prompt, question.labels)
        for found, ways in zip(answer.log_probs, forms.forms, strict=True):
            plain = []
            for way in ways:
                with torch.no_grad():
                    rows = model(input_ids=torch.tensor([[*ids, *way]])).logits[0].float().log_softmax(-1)
                plain.append(sum(float(rows[len(ids) - 1 + n, token]) for n, token in enumerate(way)))
            assert found == pytest.approx(np.logaddexp.reduce(plain), abs=SAME)


def refusal(name, **options):
    """The sentence in which a model is refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(EngineError) as raised:
            open_engine(str(name), **options)
    said = str(raised.value)
    assert len(said) <= 200, said
    assert "\n" not in said
    assert ". " not in said, said
    return said


@pytest.fixture
def copied(folder, tmp_path):
    """The small model in a folder of this test's own, called "tiny"; and a way to change its config."""
    there = tmp_path / "tiny"
    shutil.copytree(folder, there)

    def change(**entries):
        config = json.loads((there / "config.json").read_text())
        (there / "config.json").write_text(json.dumps(config | entries))
        return str(there)

    return SimpleNamespace(folder=there, change=change)


# ------------------------------------------------------------------------------------------------ images


@pytest.mark.parametrize("name", WITH_IMAGES)
def test_of_a_model_that_reads_images_texts_reach_the_language_model(name, tmp_path):
    model = widened(tf.AutoModelForImageTextToText.from_config(WITH_IMAGES[name]()))
    model.save_pretrained(tmp_path)
    byte_level().save_pretrained(tmp_path)
    engine = open_engine(str(tmp_path))
    assert engine.backend == "cascade"
    check(engine, model)


def test_a_model_that_does_not_read_text_alone_is_refused_with_a_way(copied, monkeypatch):
    def forward(self, *args, **kwargs):
        raise ValueError("You must specify pixel_values")

    monkeypatch.setattr(tf.LlamaForCausalLM, "forward", forward)
    assert "does not read text alone here (You must specify pixel_values" in refusal(copied.folder)
    assert "vLLM" in refusal(copied.folder)


# ------------------------------------------------------------------------------------------------ chat templates

PARTS = (  # as SmolVLM and Idefics 3 have it: a text, iterated over, is letters, which are of no type
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{% for part in message['content'] %}"
    "{% if part['type'] == 'text' %}{{ part['text'] }}{% endif %}{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
STRICT = PARTS.replace(
    "{% for part in",
    "{% if message['content'] is string %}{{ raise_exception('a list of parts') }}{% endif %}{% for part in",
    1,
)


def with_template(template):
    tokenizer = tf.PreTrainedTokenizerFast(
        tokenizer_object=byte_level().backend_tokenizer, eos_token="<|im_end|>", chat_template=template
    )
    settle_template(tokenizer, None)
    return PromptTokenizer(tokenizer, 256)


@pytest.mark.parametrize("template", [PARTS, STRICT])
def test_a_template_that_wants_a_list_of_parts_shows_the_text_as_one_that_takes_texts_does(template):
    plain, parts = with_template(CHATML.rpartition("{% if")[0]), with_template(template)
    for prompt in (Prompt("Which is better?\n\nYes."), Prompt("  a <|im_end|> b ", prefill="It is")):
        assert parts.render(prompt) == plain.render(prompt)
        assert parts.encode(prompt) == plain.encode(prompt)
    assert parts.template_hash == plain.template_hash


def test_a_template_that_takes_both_is_given_texts():
    both = PARTS.replace(
        "{% for part in", "{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for part in"
    ).replace("{% endfor %}<|im_end|>", "{% endfor %}{% endif %}<|im_end|>")
    seen = with_template(both).tokenizer.apply_chat_template([{"role": "user", "content": "a"}], tokenize=False)
    assert seen == "<|im_start|>user\na<|im_end|>\n"


def test_the_template_of_a_models_processor_is_its_own_where_it_has_no_other(copied):
    tokenizer = tf.AutoTokenizer.from_pretrained(copied.folder)
    tokenizer.chat_template = None
    (copied.folder / "chat_template.jinja").unlink(missing_ok=True)
    tokenizer.save_pretrained(copied.folder)
    assert not open_engine(str(copied.folder)).prompts.has_template
    (copied.folder / "chat_template.json").write_text(json.dumps({"chat_template": PARTS}))
    rendered = open_engine(str(copied.folder)).prompts.render(Prompt("Which?"))
    assert rendered == "<|im_start|>user\nWhich?<|im_end|>\n<|im_start|>assistant\n"


# ------------------------------------------------------------------------------------------------ adapters


@pytest.fixture
def adapted(folder, tmp_path):
    """A LoRA of the small model, which lies beside it; and a way to change its config."""
    shutil.copytree(folder, tmp_path / "base")
    there = tmp_path / "lora"
    there.mkdir()
    torch.manual_seed(1)
    weights = {}
    for layer in range(2):
        for name, n_in, n_out in (("self_attn.q_proj", 32, 32), ("mlp.down_proj", 64, 32)):
            start = f"base_model.model.model.layers.{layer}.{name}"
            weights[f"{start}.lora_A.weight"] = torch.randn(4, n_in) * 0.3
            weights[f"{start}.lora_B.weight"] = torch.randn(n_out, 4) * 0.3
    save_file(weights, there / "adapter_model.safetensors")

    def change(**entries):
        config = {
            "peft_type": "LORA",
            "task_type": "CAUSAL_LM",
            "base_model_name_or_path": "/home/someone/models/base",
            "r": 4,
            "lora_alpha": 8,
            "target_modules": ["q_proj", "down_proj"],
            "megatron_core": "megatron.core",
            "loftq_config": {},
            "lora_dropout": 0.1,
        }
        (there / "adapter_config.json").write_text(json.dumps(config | entries))

    change()
    return SimpleNamespace(folder=there, base=tmp_path / "base", weights=weights, change=change)


@pytest.fixture(scope="session")
def peft():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what it imports
        return pytest.importorskip("peft", exc_type=ImportError)


@pytest.fixture
def as_if_peft(monkeypatch):
    """As where peft is installed; of what is refused before it is asked for."""
    monkeypatch.setattr(adapters, "find_spec", lambda name: name)


def test_without_peft_an_adapter_is_refused_with_what_to_install(adapted, monkeypatch):
    monkeypatch.setattr(adapters, "find_spec", lambda name: None)
    assert "pip install 'synthscore[peft]'" in refusal(adapted.folder)


def test_an_adapter_is_added_to_its_base_as_peft_does_and_both_are_signed(adapted, peft):
    engine = open_engine(str(adapted.folder))
    base = tf.AutoModelForCausalLM.from_pretrained(adapted.base)
    plain = open_engine(str(adapted.base))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # peft's
        beside = peft.PeftModel.from_pretrained(base, str(adapted.folder)).eval()
    check(engine, beside)
    with_it, without = (np.array(each.answer(QUESTIONS).rows[0].log_probs) for each in (engine, plain))
    assert np.abs(with_it - without).max() > 0.1
    signed = dict(engine.signature.parts)
    assert signed["base"] == plain.signature.part("model")
    assert signed["model"].startswith("lora@")
    assert not plain.signature.part("base")
    adapted.change(lora_alpha=16)
    assert open_engine(str(adapted.folder)).signature.part("model") != signed["model"]


def test_the_equation_of_lora_holds(adapted, peft):
    """W + alpha / r B A, by itself."""
    model = tf.AutoModelForCausalLM.from_pretrained(adapted.base)
    for name, weights in model.named_parameters():
        ways = [adapted.weights.get(f"base_model.model.{name[:-7]}.lora_{way}.weight") for way in "BA"]
        if ways[0] is not None:
            weights.data += 8 / 4 * ways[0] @ ways[1]
    check(open_engine(str(adapted.folder)), model.eval())


def test_an_adapter_brings_its_own_tokenizer_where_it_has_one(adapted, peft):
    tokenizer = tf.AutoTokenizer.from_pretrained(adapted.base)
    tokenizer.chat_template = PARTS
    tokenizer.save_pretrained(adapted.folder)
    assert open_engine(str(adapted.folder)).prompts.render(Prompt("a")).startswith("<|im_start|>user\na<|im_end|>")


def test_the_base_of_an_adapter_may_be_a_model_that_was_downloaded(adapted, peft, tmp_path, monkeypatch):
    downloaded(monkeypatch, tmp_path, adapted.base)
    adapted.base.rename(tmp_path / "elsewhere")
    adapted.change(base_model_name_or_path="organisation/tiny")
    engine = open_engine(str(adapted.folder))
    assert engine.signature.part("base").startswith("organisation/tiny@")


@pytest.mark.parametrize(
    "named",
    ["organisation/tiny", "/net/evil.example/base", "../../base", "..", "\\\\evil\\share\\base2", "a/b/c", "C:x"],
)
def test_an_adapters_word_on_its_base_fetches_nothing_and_looks_nowhere_else(adapted, as_if_peft, monkeypatch, named):
    monkeypatch.setattr("socket.socket.connect", lambda *_: pytest.fail("asked the network"))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(adapted.folder / "none"))
    adapted.base.rename(adapted.base.parent / "elsewhere")
    adapted.change(base_model_name_or_path=named)
    assert "is not here: put its folder beside the adapter's" in refusal(adapted.folder)


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"peft_type": "PREFIX_TUNING"}, "of the kind PREFIX_TUNING"),
        ({"task_type": "SEQ_CLS"}, "trained for SEQ_CLS"),
        ({"init_lora_weights": "pissa_niter_4"}, "begun as pissa_niter_4"),
        ({"megatron_config": {"a": 1}, "megatron_core": "evil"}, "with megatron_config"),
        ({"alora_invocation_tokens": [1]}, "with alora_invocation_tokens"),
        ({"layer_replication": [[0, 2]]}, "with layer_replication"),
        ({"base_model_name_or_path": ""}, "without the name of its base model"),
    ],
)
def test_an_adapter_that_is_no_plain_lora_is_refused(adapted, as_if_peft, entries, said):
    adapted.change(**entries)
    assert f"'lora' is {said}" in refusal(adapted.folder)


def test_an_adapter_in_a_models_folder_is_refused(adapted, as_if_peft):
    shutil.copytree(adapted.folder, adapted.base, dirs_exist_ok=True)
    assert "holds a model and an adapter" in refusal(adapted.base)


def test_a_base_that_is_an_adapter_itself_is_refused(adapted, as_if_peft):
    shutil.copytree(adapted.folder, adapted.base, dirs_exist_ok=True)
    assert "holds an adapter" in refusal(adapted.folder)


def test_a_damaged_adapter_is_refused(adapted, as_if_peft):
    (adapted.folder / "adapter_model.safetensors").rename(adapted.folder / "other.safetensors")
    assert "has no adapter_model.safetensors" in refusal(adapted.folder)
    (adapted.folder / "adapter_config.json").write_text('{"peft_type": ')
    assert "is damaged" in refusal(adapted.folder)


def test_an_adapter_that_does_not_fit_is_refused(adapted, peft):
    file = adapted.folder / "adapter_model.safetensors"
    weights = load_file(file)
    save_file(dict(list(weights.items())[1:]), file)
    assert "does not fit its base 'base'" in refusal(adapted.folder)
    save_file({name.replace("layers.1", "layers.7"): each for name, each in weights.items()}, file)
    assert "does not fit its base 'base'" in refusal(adapted.folder)
    save_file({name: torch.zeros(3, 3) for name in weights}, file)
    assert "does not fit its base 'base' (Error(s) in loading state_dict" in refusal(adapted.folder)
    adapted.change(target_modules=["nonesuch"])
    assert "does not fit its base 'base' (Target modules" in refusal(adapted.folder)


# ------------------------------------------------------------------------------------------------ the hub


def downloaded(monkeypatch, tmp_path, model, commit="0123456789abcdef0123456789abcdef01234567"):
    """A model in the cache of the hub's client, which is not reachable."""
    place = tmp_path / "hub" / "models--organisation--tiny"
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text(commit)
    shutil.copytree(model, place / "snapshots" / commit)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    resources.hub_is_reachable.cache_clear()


@pytest.fixture(autouse=True)
def look_again():
    yield
    resources.hub_is_reachable.cache_clear()


def test_a_model_of_the_hub_is_signed_with_its_commit(folder, tmp_path, monkeypatch):
    downloaded(monkeypatch, tmp_path, folder)
    assert open_engine("organisation/tiny").signature.part("model") == "organisation/tiny@0123456789ab"


# ------------------------------------------------------------------------------------------------ code


@pytest.mark.parametrize(
    "entries",
    [
        {"attn_implementation": "evil/kernel"},
        {"_attn_implementation": "evil/kernel"},
        {"attn_implementation": {"": "evil/kernel"}},
        {"attn_implementation": "flash_attention_2"},
        {"attn_implementation": "no such thing"},
    ],
)
def test_a_config_does_not_choose_the_attention_and_fetches_no_kernel(copied, monkeypatch, entries):
    fetched = []
    kernels = SimpleNamespace(get_kernel=lambda *args, **_: fetched.append(args))
    monkeypatch.setattr(loading, "computes_in_bfloat16", lambda on_gpu: True)  # so that its parameters are counted
    monkeypatch.setitem(sys.modules, "kernels", kernels)
    monkeypatch.setattr(hub_kernels, "get_kernel", kernels.get_kernel)
    for module in (hub_kernels, tf.modeling_utils):
        monkeypatch.setattr(module, "is_kernels_available", lambda *_, **__: True)
    engine = open_engine(copied.change(dtype="bfloat16", **entries))
    assert engine.model.config._attn_implementation == "sdpa"
    assert not fetched


# ------------------------------------------------------------------------------------------------ what does not open


def test_a_kind_that_transformers_does_not_know_is_named(copied):
    assert "of the kind nonesuch, which transformers" in refusal(copied.change(model_type="nonesuch"))
    assert "cannot read config.json of 'tiny': The checkpoint" in refusal(copied.change(model_type=None))
    (copied.folder / "config.json").write_text("{}")
    assert "cannot read config.json of 'tiny': there is none that names a kind" in refusal(copied.folder)


def test_a_model_of_another_kind_is_no_language_model(copied):
    said = refusal(copied.change(model_type="clip", architectures=["CLIPModel"]))
    why = "transformers opens clip as no such model; name one that writes text"
    assert said == f"cannot load 'tiny' as a causal language model: {why}"


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("num_hidden_layers", -1, "1 to 1000"),
        ("num_hidden_layers", 0, "1 to 1000"),
        ("num_hidden_layers", 10**7, "1 to 1000"),  # else it would make them all
        ("num_hidden_layers", 10**80, "1 to 1000"),
        ("num_attention_heads", -4, "1 or more"),
    ],
)
def test_a_size_that_no_model_has_is_refused(copied, name, value, expected):
    said = refusal(copied.change(**{name: value}))
    assert said.startswith(f"cannot load 'tiny': its config says {name} {str(value)[:17]}")
    assert f", expected {expected}; download" in said


def test_sizes_of_experts_windows_and_decoders_are_looked_at_where_they_are_used():
    source = SimpleNamespace(name="tiny")

    def refused(config):
        with pytest.raises(EngineError, match="cannot load 'tiny': its config says") as raised:
            loading._refuse_sizes(config, source)
        return str(raised.value).split("says ")[1].split(",")[0]

    assert refused(tf.Qwen3MoeConfig(num_experts_per_tok=0)) == "num_experts_per_tok 0"
    loading._refuse_sizes(tf.GraniteMoeHybridConfig(num_local_experts=0, num_experts_per_tok=0), source)
    assert refused(tf.MistralConfig(sliding_window=-1)) == "sliding_window -1"
    loading._refuse_sizes(tf.Gemma2Config(sliding_window=0, layer_types=["full_attention"] * 26), source)
    assert refused(tf.T5Config(num_decoder_layers=0)) == "num_decoder_layers 0"
    assert refused(tf.Gemma3Config(text_config={"num_hidden_layers": 0})) == "num_hidden_layers 0"


def test_weights_of_more_layers_than_the_config_names_are_told(copied):
    said = r"'tiny' has weights of more layers or experts than its config \(model\.layers\.1\."
    with pytest.warns(SynthscoreWarning, match=said):
        open_engine(copied.change(num_hidden_layers=1), device="cpu")


def test_a_folder_without_weights_is_refused(copied):
    (copied.folder / "model.safetensors").unlink()
    assert "no file named model.safetensors" in refusal(copied.folder)


@pytest.mark.parametrize("weights", ["pytorch_model.bin", "model.pt", "pytorch_model-00001-of-00002.bin"])
def test_pickled_weights_are_refused(copied, weights):
    (copied.folder / "model.safetensors").unlink()
    torch.save({}, copied.folder / weights)
    assert f"'tiny': its weights are pickled ({weights})" in refusal(copied.folder)


OWN_CODE = {"AutoConfig": "own.Config", "AutoModelForCausalLM": "own.Model", "AutoTokenizer": ["own.Tokenizer", None]}


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"model_type": "own"}, "of the kind own, which transformers"),
        ({"model_type": "own", "trust_remote_code": True}, "and code that comes with a model is not run"),
        ({"model_type": None}, "cannot read config.json of 'tiny': "),
        ({"model_type": "clip"}, "transformers opens clip as no such model"),
    ],
)
def test_a_model_of_code_that_comes_with_it_is_refused_and_the_code_is_not_run(copied, entries, said):
    was_run = copied.folder / "was_run"
    (copied.folder / "own.py").write_text(f"open({str(was_run)!r}, 'w')\nclass Config: pass\nclass Model: pass\n")
    assert said in refusal(copied.change(auto_map=OWN_CODE, **entries))
    assert not was_run.exists()


def test_a_tokenizer_of_code_that_comes_with_a_model_is_refused_and_the_code_is_not_run(copied):
    was_run = copied.folder / "was_run"
    (copied.folder / "own.py").write_text(f"open({str(was_run)!r}, 'w')\nclass Tokenizer: pass\n")
    (copied.folder / "tokenizer.json").unlink()
    settings = {"tokenizer_class": "OwnTokenizer", "auto_map": {"AutoTokenizer": ["own.Tokenizer", None]}}
    (copied.folder / "tokenizer_config.json").write_text(json.dumps(settings))
    refusal(copied.folder)
    assert not was_run.exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"metadata": {}, "weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}, "2 of the files of"),
        ({"metadata": {}, "weight_map": {"a": "../other/model.safetensors"}}, "names the weights '../other"),
        ({"metadata": {}, "weight_map": {"a": f"/mnt/{'deep/' * 40}model.safetensors"}}, "names the weights '/mnt"),
        ({"weight_map": {}}, "it is damaged, or of another form"),
        ({"metadata": {}, "weight_map": {}}, "'tiny'"),
        ([], "'tiny'"),
    ],
)
def test_weights_that_do_not_lie_where_an_index_names_them_are_refused(copied, content, said):
    (copied.folder / "model.safetensors").unlink()
    (copied.folder / "model.safetensors.index.json").write_text(json.dumps(content))
    assert said in refusal(copied.folder)


def test_an_index_of_files_that_nobody_needs_is_no_matter(copied):
    index = {"metadata": {}, "weight_map": {"a": "model-1.safetensors"}}
    for name in ("model.safetensors.index.json", "pytorch_model.bin.index.json"):
        (copied.folder / name).write_text(json.dumps(index))
    assert open_engine(str(copied.folder)).answer(QUESTIONS).rows


def test_weights_that_the_config_names_and_that_are_not_there_are_refused(copied):
    (copied.folder / "model.safetensors").unlink()
    assert "elsewhere.safetensors" in refusal(copied.change(transformers_weights="elsewhere.safetensors"))
    assert "names the weights" in refusal(copied.change(transformers_weights="weights/model.safetensors"))


def test_a_damaged_file_of_weights_is_refused(copied):
    (copied.folder / "model.safetensors").write_bytes(b"no weights")
    assert "cannot load 'tiny' as a causal language model: " in refusal(copied.folder)


def test_a_gguf_file_of_an_unknown_kind_is_refused(tmp_path):
    gguf = pytest.importorskip("gguf")
    writer = gguf.GGUFWriter(tmp_path / "tiny.gguf", "nonesuch")
    writer.add_block_count(1)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert "nonesuch" in refusal(tmp_path / "tiny.gguf")


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"quant_method": "gptq", "bits": 4}, "gptq"),
        ({"quant_method": "awq", "bits": 4}, "gptq|awq"),
        ({"quant_method": "compressed-tensors", "config_groups": {}}, "compressed-tensors"),
    ],
)
def test_quantised_weights_that_no_library_here_reads_are_refused(copied, config, named):
    said = refusal(copied.change(quantization_config=config)).lower()
    assert any(name in said for name in named.split("|"))


@pytest.mark.parametrize("bits", [4, 8])
def test_weights_of_bitsandbytes_are_refused_without_it(copied, monkeypatch, bits):
    monkeypatch.setattr(tf.quantizers.quantizer_bnb_4bit, "is_bitsandbytes_available", lambda: False)
    monkeypatch.setattr(tf.quantizers.quantizer_bnb_8bit, "is_bitsandbytes_available", lambda: False)
    how = {"quant_method": "bitsandbytes", f"load_in_{bits}bit": True}
    assert "bitsandbytes" in refusal(copied.change(quantization_config=how))


@pytest.mark.parametrize("bits", [4, 8])
def test_weights_of_bitsandbytes_answer_as_in_transformers_and_are_signed_with_their_bits(copied, tmp_path, bits):
    pytest.importorskip("bitsandbytes", exc_type=ImportError)
    how = tf.BitsAndBytesConfig(**{f"load_in_{bits}bit": True})
    tf.AutoModelForCausalLM.from_pretrained(copied.folder, quantization_config=how).save_pretrained(tmp_path / "bits")
    byte_level().save_pretrained(tmp_path / "bits")
    engine = open_engine(str(tmp_path / "bits"))
    check(engine, tf.AutoModelForCausalLM.from_pretrained(tmp_path / "bits").eval())
    assert engine.signature.part("quantised") == f"bitsandbytes-{bits}bit"


def test_a_devices_essay_is_cut(monkeypatch):
    def fails(*args, device, **kwargs):
        raise RuntimeError("Could not run it " + 50 * "here or there ")

    monkeypatch.setattr(loading.torch, "empty", fails)
    assert "Could not run it here" in refusal("nano", device="mps")


# ------------------------------------------------------------------------------------------------ devices


@pytest.mark.parametrize("has_gpu", [False, True])
def test_the_dtype_of_a_spread_model_is_that_of_where_it_landed(copied, monkeypatch, has_gpu):
    tf.AutoModelForCausalLM.from_pretrained(copied.folder, dtype=torch.bfloat16).save_pretrained(copied.folder)
    monkeypatch.setattr(loading, "computes_in_bfloat16", lambda on_gpu: True)
    monkeypatch.setattr(loading, "_on_gpu", lambda model: has_gpu)
    with monkeypatch.context() as patched:
        patched.setattr(torch.cuda, "is_available", lambda: False)
        signed = open_engine(str(copied.folder), device_map="auto").signature
    assert signed.part("dtype") == ("bfloat16" if has_gpu else "float32")


def test_a_model_that_is_parted_between_places_answers_the_same(copied):
    """Its second layer stays on the disk, and is brought where it is run."""
    places = {"model.embed_tokens": "cpu", "model.layers.0": "cpu", "model.layers.1": "disk"}
    places |= {"model.norm": "cpu", "model.rotary_emb": "cpu", "lm_head": "cpu"}
    engine = open_engine(str(copied.folder), device_map=places)
    assert engine.backend == "cascade"
    check(engine, tf.AutoModelForCausalLM.from_pretrained(copied.folder).eval())
