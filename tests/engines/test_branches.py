"""Branching the model's own cache, against one plain forward a label: models whose attention is their own business."""

import numpy as np
import pytest
import torch
import transformers as tf
from hypothesis import given
from hypothesis import strategies as st

from synthscore.engine import Prompt, label_log_probs
from synthscore.engines.tree import check
from synthscore.engines.tree.branches import BLOCK, MOST_ATTENDED, Kept, Passing, steps
from synthscore.engines.tree.causal import CausalEngine
from synthscore.engines.tree.trie import pack
from synthscore.errors import EngineError, SynthscoreWarning
from tests.engines.test_causal import ENDS, LABELS, SAME, SIZES, ladder_prompts, llama, other, plain
from tests.models import one_fast

GQA = SIZES | {"num_hidden_layers": 4, "num_key_value_heads": 2}
DELTA = {"linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8}
MIXED = ["linear_attention", "full_attention"] * 2
HYBRIDS = {
    "lfm2": other(  # short convolutions
        "Lfm2ForCausalLM", "Lfm2Config", **GQA, layer_types=["conv", "full_attention"] * 2, **ENDS
    ),
    "qwen3_5": other(  # gated delta rule
        "Qwen3_5ForCausalLM", "Qwen3_5TextConfig", **GQA | DELTA, head_dim=8, layer_types=MIXED
    ),
    "qwen3_next": other(  # the same, with experts
        "Qwen3NextForCausalLM",
        "Qwen3NextConfig",
        **GQA | DELTA | {"head_dim": 8, "layer_types": MIXED, "num_experts": 4, "num_experts_per_tok": 2},
        moe_intermediate_size=16,
        shared_expert_intermediate_size=16,
    ),
    "mamba2": other(  # no attention
        "Mamba2ForCausalLM",
        "Mamba2Config",
        hidden_size=32,
        num_hidden_layers=3,
        num_heads=8,
        head_dim=8,
        state_size=16,
        n_groups=1,
        chunk_size=16,
        **ENDS,
    ),
    "falcon_h1": other(  # both in each layer
        "FalconH1ForCausalLM",
        "FalconH1Config",
        **GQA | {"mamba_d_ssm": 32, "mamba_n_heads": 4, "mamba_d_head": 8, "mamba_d_state": 8, "mamba_chunk_size": 16},
        **ENDS,
    ),
    "llama4": other(  # chunks shorter than the prompts
        "Llama4ForCausalLM",
        "Llama4TextConfig",
        **GQA | {"head_dim": 8, "intermediate_size_mlp": 64, "num_local_experts": 2, "attention_chunk_size": 16},
    ),
    "phimoe": other(  # a window shorter than the prompts, in the mask alone
        "PhimoeForCausalLM", "PhimoeConfig", **GQA, num_local_experts=4, sliding_window=16, **ENDS
    ),
}


OLDER = tuple(map(int, tf.__version__.split(".")[:2])) < (5, 23)
"""Releases whose states begin anew at each forward of several tokens: the check finds them."""
HYBRIDS = {name: make for name, make in HYBRIDS.items() if name != "qwen3_5" or hasattr(tf, "Qwen3_5TextConfig")}
SHARED = "from the model's own cache .* because as cascade, "


@pytest.mark.parametrize("name", one_fast(HYBRIDS))
@pytest.mark.parametrize("max_tokens", [50, 4096])
def test_a_model_whose_attention_cannot_be_replaced_goes_on_from_its_cache(name, max_tokens):
    with pytest.warns(SynthscoreWarning, match="because as cascade, "):
        engine = CausalEngine(*HYBRIDS[name](), name=name, max_tokens=max_tokens)
    assert engine.backend == "branches" or (OLDER and engine.backend == "exact")
    assert f"backend:{engine.backend}" in str(engine.signature)
    prompts = ladder_prompts()
    answers = label_log_probs(engine, prompts, LABELS)
    np.testing.assert_allclose(answers.log_probs, plain(engine, prompts, LABELS), atol=SAME, rtol=0)
    assert answers.log_probs.std(axis=0).max() > 20 * SAME  # the prompts matter
    one_token = label_log_probs(engine, prompts, ["A", "B"])
    np.testing.assert_allclose(one_token.log_probs, plain(engine, prompts, ["A", "B"]), atol=SAME, rtol=0)
    if engine.backend == "branches" and engine._block == 1:
        assert one_token.usage.n_computed < 0.35 * one_token.usage.n_in


@pytest.mark.skipif(OLDER, reason="it has no such models, or others")
def test_prompts_of_which_sparse_attention_leaves_tokens_out_are_read_alone():
    """Which tokens are left out is open where their scores are equal, which many are, of exactly 0."""
    sizes = GQA | {"num_key_value_heads": 4, "kv_lora_rank": 16, "q_lora_rank": 16, "num_experts_per_tok": 2}
    sizes |= {"qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 8, "n_routed_experts": 4, "n_group": 1}
    sizes |= {"topk_group": 1, "moe_intermediate_size": 16, "first_k_dense_replace": 1}
    indexer = {"index_topk": 50, "index_head_dim": 16, "index_n_heads": 4}
    make = other("DeepseekV32ForCausalLM", "DeepseekV32Config", **sizes, **indexer, **ENDS)
    with pytest.warns(SynthscoreWarning, match="because as cascade, "):
        engine = CausalEngine(*make(), name="sparse", max_tokens=600)
    assert check.n_same(engine.model.config, 10_000) == 50
    rng = np.random.default_rng(0)
    start = rng.integers(3, 400, 44)
    sequences = [np.append(start, rng.integers(3, 400, n)).astype(np.int32) for n in (3, 4, 5, 6, 7, 21, 34)]
    with pytest.warns(SynthscoreWarning, match="chooses among equal tokens"):
        found = engine._table(sequences, "branches")
    alone = engine._table(sequences, "exact")
    np.testing.assert_allclose(found, alone, atol=SAME, rtol=0)

    def n_read(sequences):
        return sum(n for _, _, n in engine.run(sequences, "branches"))

    assert n_read(sequences[:4]) == 44 + 3 + 4 + 5 + 6
    with pytest.warns(SynthscoreWarning, match="chooses among equal tokens"):
        assert n_read(sequences[4:]) == sum(map(len, sequences[4:]))


@pytest.mark.parametrize("max_tokens", [7, 30, 1000])
def test_every_distinct_prefix_is_run_over_once_where_nothing_is_read_again(max_tokens):
    engine = CausalEngine(*llama(), name="llama", max_tokens=max_tokens, backend="branches")
    engine._most_reread = 0
    answers = label_log_probs(engine, ladder_prompts(), LABELS)
    np.testing.assert_allclose(answers.log_probs, plain(engine, ladder_prompts(), LABELS), atol=SAME, rtol=0)
    one_token = label_log_probs(engine, ladder_prompts(), ["A", "B"])
    ids = [engine.prompts.encode(prompt) for prompt in ladder_prompts()]
    assert one_token.usage.n_computed == len({tuple(row[:n]) for row in ids for n in range(1, len(row) + 1)})


def test_a_model_that_begins_anew_instead_of_going_on_is_found():
    make = other("MambaForCausalLM", "MambaConfig", hidden_size=32, num_hidden_layers=3, **ENDS)
    with pytest.raises(
        EngineError, match=r"mamba cannot be run right as branches, (log-probabilities differ by|its cache is)"
    ):
        CausalEngine(*make(), name="mamba", backend="branches")


class Forgetful(tf.LlamaForCausalLM):
    """Keeps a cache of a kind that nobody knows."""

    def forward(self, **arguments):
        output = super().forward(**arguments)
        if output.past_key_values is not None:
            output.past_key_values = tuple(output.past_key_values)
        return output


def test_a_cache_of_an_unknown_kind_is_refused():
    model, tokenizer = llama()
    model.__class__ = Forgetful
    with pytest.raises(EngineError, match="its cache is a tuple, expected one of transformers' classes"):
        CausalEngine(model, tokenizer, name="llama", backend="branches")


@pytest.mark.parametrize("name", one_fast(["llama4", *(name for name in HYBRIDS if not OLDER and name != "llama4")]))
@pytest.mark.parametrize("n_rows", [1, 3])
def test_a_branch_shares_no_memory_with_its_stem(name, n_rows):
    model, _ = HYBRIDS[name]()
    with torch.inference_mode():
        stem = Kept.of(model(torch.arange(3, 40)[None], use_cache=True))
        following = torch.arange(40, 60)[None]

        def read(kept):
            rows = following.expand(n_rows, -1)
            return model(rows, use_cache=True, **{kept.name: kept.cache}).logits

        first = read(stem.branched(n_rows))
        again = read(stem.branched(n_rows))
    assert torch.equal(first, again)


@pytest.mark.skipif(OLDER, reason="its states begin anew")
@pytest.mark.parametrize("name", one_fast(["qwen3_next", "qwen3_5"]))
def test_a_recurrence_without_a_named_chunk_goes_on_from_whole_blocks(name):
    model, tokenizer = HYBRIDS[name]()
    engine = CausalEngine(model, tokenizer, name=name, backend="branches")
    assert engine._block == BLOCK
    text = ladder_prompts()[0].text * 3
    prompts = [Prompt(text + end) for end in ("", " The mayor.", " Nobody was hurt.", " It rained.")]
    n = len(engine.prompts.encode(prompts[0]))
    read = []
    hook = model.register_forward_pre_hook(lambda _, __, given: read.append(given["input_ids"].shape), with_kwargs=True)
    answers = label_log_probs(engine, prompts, ["A", "B"])
    hook.remove()
    assert read[0] == (1, n // BLOCK * BLOCK)
    assert sum(rows for rows, _ in read[1:]) == len(prompts)
    np.testing.assert_allclose(answers.log_probs, plain(engine, prompts, ["A", "B"]), atol=SAME, rtol=0)


@pytest.mark.parametrize("name", ["llama4", *([] if OLDER else ["lfm2", "mamba2"])])
def test_all_others_go_on_from_any_token(name):
    assert CausalEngine(*HYBRIDS[name](), name=name, backend="branches")._block == 1


def test_keys_and_values_of_leaves_share_memory_unless_somebody_holds_them():
    before, after = torch.arange(12.0).view(1, 2, 3, 2).expand(4, -1, -1, -1), torch.ones(4, 2, 5, 2)
    update = Passing().joining(before, -before)
    keys, values = update(after, after)
    assert torch.equal(keys, torch.cat([before, after], dim=2))
    assert torch.equal(values, torch.cat([-before, after], dim=2))
    further, _ = update(2 * after, after)  # keys are held: they stay as they are
    assert torch.equal(keys, torch.cat([before, after], dim=2))
    place = further.data_ptr()
    del further
    assert update(after, after)[0].data_ptr() == place


SEQUENCES = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=12), min_size=1, max_size=12)


@given(SEQUENCES, st.integers(1, 20), st.integers(1, 4), st.sampled_from([0, 3, 128]), st.sampled_from([1, 2, 4]))
def test_steps_read_every_end_once_from_a_cache_that_is_there(sequences, max_tokens, max_rows, reread, block):
    tree = pack(sequences)
    kept, read = {-1: []}, []  # stem -> the tokens on the way to it
    for step in steps(tree, max_tokens, max_rows, reread, block):
        way = kept[step.stem] if step.stem < 0 or not step.last else kept.pop(step.stem)
        for row in step.rows:
            whole = [*way, *row.tolist()]
            assert tree.parents[whole].tolist() == [-1, *whole[:-1]]
        width = max(map(len, step.rows))
        assert len(step.rows) == 1 or (len(step.rows) <= max_rows and width * len(step.rows) <= max_tokens)
        read += [int(step.rows[row][place]) for row, place in step.reads]
        if step.keeps:
            assert len(step.rows) == 1
            assert (len(way) + len(step.rows[0])) % block == 0
            kept[int(step.rows[0][-1])] = [*way, *step.rows[0].tolist()]
    assert sorted(read) == sorted(set(tree.ends.tolist()))
    assert list(kept) == [-1]  # nothing is kept longer than it is needed


def test_rows_beside_each_other_have_few_keys_and_values_however_many_they_are():
    beginning = [1] * 96
    tree = pack([[*beginning, first, 2, 2, 2] for first in range(10, 40)])
    read = list(steps(tree, max_tokens=100, max_rows=16, most_reread=0))
    assert max(len(step.rows) for step in read) == int(MOST_ATTENDED)  # of 100 tokens each; 16 would be allowed else


# ------------------------------------------------------------------------------------------------- the check at load

LONG = {"max_position_embeddings": 1024}
WINDOWED = {
    "llama4": (
        "Llama4ForCausalLM",
        "Llama4TextConfig",
        {"head_dim": 8, "intermediate_size_mlp": 64, "num_local_experts": 2},
    ),
    "phimoe": ("PhimoeForCausalLM", "PhimoeConfig", ENDS | {"num_local_experts": 4}),
}


def windowed(name, n_tokens, **sizes):
    """A model whose window is in the mask alone, which a cascade does not get."""
    model, config, more = WINDOWED[name]
    return other(model, config, **GQA | LONG | more | sizes, sliding_window=n_tokens, attention_chunk_size=n_tokens)()


@pytest.mark.parametrize("name", WINDOWED)
def test_a_window_that_short_prompts_do_not_reach_is_found(name):
    with pytest.warns(SynthscoreWarning, match=SHARED + "in prompts of 360 tokens log-probabilities differ by"):
        engine = CausalEngine(*windowed(name, 128), name=name)
    prompts = [Prompt(ladder_prompts()[0].text * 4 + end) for end in ("", " The mayor.", " Nobody was hurt.")]
    assert len(engine.prompts.encode(prompts[0])) > 256
    answers = label_log_probs(engine, prompts, LABELS)
    np.testing.assert_allclose(answers.log_probs, plain(engine, prompts, LABELS), atol=SAME, rtol=0)


def test_prompts_beyond_a_window_that_is_too_wide_to_check_are_run_one_at_a_time(monkeypatch):
    monkeypatch.setattr(check, "MOST_LONG", 200)
    engine = CausalEngine(*windowed("llama4", 128), name="llama4")
    assert engine.backend == "cascade"
    prompts = [ladder_prompts()[0], *(Prompt(ladder_prompts()[0].text * 3 + end) for end in ("", " The mayor."))]
    assert len(engine.prompts.encode(prompts[0])) < 128 < len(engine.prompts.encode(prompts[1]))
    with pytest.warns(SynthscoreWarning, match="more than 128 tokens are run one at a time"):
        answers = label_log_probs(engine, prompts, LABELS)
    np.testing.assert_allclose(answers.log_probs, plain(engine, prompts, LABELS), atol=SAME, rtol=0)


class Short(tf.LlamaForCausalLM):
    """Given positions, it reads no long prompt."""

    def forward(self, input_ids, position_ids=None, **arguments):
        if position_ids is not None and position_ids.max() > 100:
            raise IndexError("positions end here")
        return super().forward(input_ids, position_ids=position_ids, **arguments)


def test_a_model_that_fails_at_its_first_long_prompt_falls_back():
    model, tokenizer = llama(max_position_embeddings=1024)
    model.__class__ = Short
    with pytest.warns(
        SynthscoreWarning, match=SHARED + r"its forward fails on cascade input \(IndexError: positions end"
    ):
        assert CausalEngine(model, tokenizer, name="llama").backend == "branches"


@pytest.mark.parametrize(
    ("config", "found"),
    [
        (tf.Gemma3TextConfig(sliding_window=512), 512),
        (tf.Llama4TextConfig(attention_chunk_size=8192), 8192),
        (tf.Mamba2Config(chunk_size=256), 256),
        (tf.GPTNeoConfig(window_size=256), 256),
        (tf.MistralConfig(sliding_window=4096), 4096),
    ],
)
def test_windows_and_chunks_are_found_by_their_names(config, found):
    assert check.windows(config)[-1] == found
    ids = list(range(100))
    lengths = [len(ids) for ids in check.long_sequences(ids, config, 100_000)]
    assert min(lengths[:3]) > (found if found < check.MOST_LONG else check.LEAST_LONG)
    assert max(lengths) <= check.MOST_LONG
    assert check.n_same(config, 100_000) == (10**9 if found < check.MOST_LONG else found)
    assert max(map(len, check.long_sequences(ids, config, 250))) <= 250


def test_few_layers_hold_one_of_each_kind_and_all_are_there_again():
    types = ["conv"] * 4 + ["full_attention"] + ["conv"] * 3
    model, _ = other("Lfm2ForCausalLM", "Lfm2Config", **GQA | ENDS | {"num_hidden_layers": 8, "layer_types": types})()
    ids = torch.arange(3, 20)[None]
    before = model(ids).logits
    with check.few_layers(model, 8) as n:
        assert n == len(model.model.layers) == 5  # the first that attends
        assert not torch.allclose(model(ids).logits, before)
    assert torch.equal(model(ids).logits, before)


def test_the_long_check_is_of_few_layers():
    with pytest.warns(SynthscoreWarning, match=SHARED):
        engine = CausalEngine(*windowed("phimoe", 128, num_hidden_layers=6), name="phimoe")
    read = []
    hooks = [layer.register_forward_hook(lambda *_: read.append(1)) for layer in engine.model.model.layers[4:]]
    assert engine._long_problem("branches") == ""
    assert not read
    for hook in hooks:
        hook.remove()
