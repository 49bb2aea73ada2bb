"""Models that read isolated segments: what is read together is what each prompt gives alone, and text stays text."""

import copy
import json
import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AddedToken, BertConfig, BertForMaskedLM

from synthscore.engine import Prompt, Sampling, generate, label_log_probs, token_log_probs
from synthscore.engines import isolated, open_engine
from synthscore.engines.isolated import (
    ATTENTION,
    CUE,
    SHARED,
    IsolatedEngine,
    KeptStates,
    Marks,
    chunks,
    last_hidden,
    plan,
    split_paragraphs,
)
from synthscore.engines.loading import read_as
from synthscore.engines.source import Source
from synthscore.errors import EngineError, LabelError, SynthscoreWarning
from tests.models import word_piece

END, COLON = 9, 8
MARKS = Marks(END, (frozenset({1, 3}), frozenset({2, 4})), COLON, 128)
LABELS = ("Better", "Worse", "Similar")
WORDS = st.lists(st.integers(10, 13), min_size=1, max_size=4)


@st.composite
def sequences(draw):
    """Paragraphs that both texts share, two texts of one or two paragraphs under headings, a cue; or a part of that."""
    shared = draw(st.lists(WORDS, min_size=0, max_size=2))
    texts = [[[10, n, COLON, *draw(WORDS)], *draw(st.lists(WORDS, max_size=1))] for n in (1, 2)]
    parts = [*shared, *texts[0], *texts[1], [12]]
    parts = parts[: draw(st.integers(1, len(parts)))]
    return [i for part in parts[:-1] for i in (*part, END)] + parts[-1]


MANY = st.lists(sequences(), min_size=1, max_size=8)


def split(many, marks=MARKS):
    return [split_paragraphs(sequence, marks) for sequence in many]


def tokens_of(planned, sequence, part):
    return planned.places(planned.paragraphs_of(sequence, part))


def seen_by(planned, token):
    """Indices of the tokens that it sees, from the blocks."""
    for start, stop, keys, seen in planned.blocks(4):
        if start <= token < stop:
            return set(keys[seen[token - start]].tolist())
    raise AssertionError("no block has the token")


def path_of(planned, sequence):
    """The tokens of a sequence, in its order, and the number of each one's paragraph within it."""
    spans = [range(planned.starts[p], planned.starts[p + 1]) for p in planned.paths[sequence]]
    return [i for span in spans for i in span], [k for k, span in enumerate(spans) for _ in span]


@given(MANY)
@settings(max_examples=60)
def test_a_sequence_reads_back_and_its_texts_do_not_see_each_other(many):
    planned = plan(split(many))
    assert planned.n_tokens <= sum(map(len, many))
    for index, sequence in enumerate(many):
        path, paragraph = path_of(planned, index)
        assert planned.ids[path].tolist() == sequence
        assert planned.ends[index] == path[-1]
        parts = [planned.paragraphs[number].part for number in planned.paths[index]]
        for token, own in zip(path, paragraph, strict=True):
            expected = {
                other
                for other, its in zip(path, paragraph, strict=True)
                if its <= own and (its == own or CUE in (parts[own],) or parts[its] in (SHARED, parts[own]))
            }
            assert seen_by(planned, token) == expected
            assert planned.positions[token] == paragraph[: path.index(token)].count(own)
            assert planned.kinds[token] == (parts[own] == 2)


@given(MANY, st.integers(4, 60))
@settings(max_examples=60)
def test_chunks_hold_every_sequence_once_and_no_more_tokens_than_asked_or_twice_a_long_one(many, max_tokens):
    groups = chunks(split(many), max_tokens)
    assert sorted(place for group in groups for place in group) == list(range(len(many)))
    for group in groups:
        n = plan(split([many[place] for place in group])).n_tokens
        assert n <= max(max_tokens, 2 * max(len(many[place]) for place in group))


def test_each_text_is_read_once_in_each_place_and_cues_alone_are_read_for_every_pair():
    texts = [[20 + k, 21, 22, END] for k in range(5)]
    many = [[10, 11, END, 12, 1, COLON, *one, 12, 2, COLON, *other, 13, 14] for one in texts for other in texts]
    planned = plan(split(many))
    assert planned.n_tokens == 3 + 2 * 5 * 7 + 25 * 2
    assert [planned.paragraphs[number].part for number in planned.paths[0]] == [SHARED, 1, 2, CUE]
    assert tokens_of(planned, 0, 1).tolist() != tokens_of(planned, 0, 2).tolist()
    assert planned.ids[tokens_of(planned, 7, 2)].tolist() == many[7][10:17]
    assert [sorted(group) for group in chunks(split(many), planned.n_tokens)] == [[*range(25)]]


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("max_tokens", [200, 400])
def test_texts_that_do_not_fit_into_one_group_are_read_once_and_what_they_share_once_a_group(max_tokens, swapped):
    """100 targets of 9 tokens beside 4 rungs of 9, behind 12 shared tokens; a cue of 2 behind each pair."""
    targets, rungs = ([[start + k, 7, 7, 7, 7, END] for k in range(n)] for start, n in ((200, 100), (20, 4)))
    pairs = [(rung, target) if swapped else (target, rung) for target in targets for rung in rungs]
    shared = [10] * 11 + [END]
    many = [[*shared, 12, 1, COLON, *one, 12, 2, COLON, *other, 13, 14] for one, other in pairs]
    groups = chunks(split(many), max_tokens)
    n_read = sum(plan(split([many[place] for place in group])).n_tokens for group in groups)
    read_once = 100 * 9 + 400 * 2
    read_in_each = 12 + 4 * 9
    cut = 9  # of a target whose pairs stand in two groups
    assert len(groups) <= 1 + read_once // (max_tokens - read_in_each - 9)
    assert read_once < n_read <= read_once + len(groups) * (read_in_each + cut)


def test_all_pairs_of_many_texts_are_read_in_bands():
    """60 texts of 9 tokens, each beside each: read one by one beside all others, 60 x 60 x 9 tokens."""
    texts = [[20 + k, 7, 7, 7, 7, END] for k in range(60)]
    many = [[10, END, 12, 1, COLON, *one, 12, 2, COLON, *other, 13] for one in texts for other in texts]
    groups = chunks(split(many), 400)
    n_read = sum(plan(split([many[place] for place in group])).n_tokens for group in groups)
    n_bands = 3  # of up to 200 tokens
    assert n_read < 60 * 60 + n_bands * 60 * 9 + len(groups) * (200 + 9 + 9 + 2)


def test_sequences_with_the_same_beginning_stay_together_where_they_fit():
    many = [
        [10 + k, *[11] * 20, END, 12, 1, COLON, 20 + n, END, 12, 2, COLON, 13, END, 14]
        for k in range(3)
        for n in range(4)
    ]
    assert [sorted(group) for group in chunks(split(many), 80)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


def test_a_context_longer_than_what_is_run_together_is_read_once():
    many = [[10, *[11] * 50, END, 12, 1, COLON, 20 + k, END, 12, 2, COLON, 13, END, 14] for k in range(8)]
    assert len(chunks(split(many), 30)) == 1


def test_a_heading_is_a_word_a_name_and_a_colon():
    assert MARKS.text(np.array([10, 1, COLON, 11])) == MARKS.text(np.array([10, 3, COLON])) == 1
    assert MARKS.text(np.array([10, 2, COLON, 11])) == 2
    assert MARKS.text(np.array([1, COLON, 11])) == MARKS.text(np.array([10, 1, 11])) == MARKS.text(np.array([10])) == 0


def test_an_empty_sequence_is_an_error():
    with pytest.raises(ValueError, match="empty"):
        split([[1], []])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tiny random model that reads isolated segments."""
    torch.manual_seed(0)
    tokenizer = word_piece()
    tokenizer.add_tokens([AddedToken("\n\n", normalized=False, special=False)])
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        max_position_embeddings=128, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    config.synthscore = {"paragraph_end": "\n\n", "texts": [["1", "a"], ["2", "b"]]}
    model = BertForMaskedLM(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.3)
    path = tmp_path_factory.mktemp("paragraphs")
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def engine(folder):
    return open_engine(str(folder))


TEXTS = ("A ferry stopped.", "A ferry ferry stopped.", "Ferry a stopped ferry.", "Nobody was hurt.")
PROMPTS = [
    Prompt(f"A ferry stopped near an island.\n\nA 1:\n{one}\n\nA 2:\n{other}\n\nVerdict:")
    for one in TEXTS
    for other in TEXTS
]


def plainly(engine, prompt):
    """Log-probabilities after a prompt: plain softmax attention over a mask made paragraph by paragraph."""
    ids = engine.prompts.encode(prompt)
    paragraph = np.cumsum([0] + [i == engine._marks.end for i in ids[:-1]])
    assert paragraph[-1] == 3  # instructions, text 1, text 2, cue
    places = [int(k - np.flatnonzero(paragraph == paragraph[k])[0]) for k in range(len(ids))]
    unseen = paragraph[:, None] < paragraph[None, :]
    unseen |= (paragraph[:, None] == 2) & (paragraph[None, :] == 1)
    mask = torch.zeros(1, 1, len(ids), len(ids))
    mask[0, 0, torch.from_numpy(unseen)] = -1e9
    engine.model.set_attn_implementation("eager")
    try:
        with torch.inference_mode():
            logits = engine.model(
                input_ids=torch.tensor([ids]),
                position_ids=torch.tensor([places]),
                token_type_ids=torch.from_numpy((paragraph == 2).astype(np.int64))[None],
                attention_mask=mask,
            ).logits
    finally:
        engine.model.set_attn_implementation(ATTENTION)
    return logits[0, -1].log_softmax(-1)


def test_the_numbers_are_those_of_plain_attention_under_a_mask(engine):
    found = label_log_probs(engine, PROMPTS, LABELS)
    for row, prompt in enumerate(PROMPTS):
        forms = engine.prompts.label_forms(prompt, LABELS).forms
        plain = plainly(engine, prompt)
        if all(len(form) == 1 for group in forms for form in group):
            expected = [float(torch.logsumexp(plain[[form[0] for form in group]], 0)) for group in forms]
            np.testing.assert_allclose(found.log_probs[row], expected, atol=2e-5)
        else:
            first = [float(plain[group[0][0]]) for group in forms]
            assert (found.log_probs[row] <= np.array(first) + 1e-5).all()
    assert not found.failures
    assert found.usage.n_computed < found.usage.n_in / 2


@pytest.mark.parametrize("max_tokens", [30, 64, 4096])
def test_reading_together_gives_what_each_prompt_gives_alone(folder, engine, max_tokens):
    alone = IsolatedEngine.load(folder, exact=True)
    assert "backend:single" in str(alone.signature)
    together = IsolatedEngine.load(folder, max_tokens=max_tokens)
    assert "backend:together" in str(together.signature)
    np.testing.assert_allclose(
        label_log_probs(together, PROMPTS, LABELS).log_probs,
        label_log_probs(alone, PROMPTS, LABELS).log_probs,
        atol=2e-5,
    )
    few = [label_log_probs(alone, [prompt], LABELS).log_probs[0] for prompt in PROMPTS[:3]]
    np.testing.assert_array_equal(few, label_log_probs(alone, PROMPTS, LABELS).log_probs[:3])


@given(st.integers(0, 40), st.integers(0, 40))
def test_a_long_paragraph_is_cut_into_equal_pieces_that_are_read_behind_one_another(n_context, n_text):
    marks = Marks(END, MARKS.names, COLON, 8)
    sequence = [10, END, *[11] * n_context, END, 12, 1, COLON, *[13] * n_text, END, 12, 2, COLON, 13, END, 14]
    planned = plan(split([sequence], marks))
    sizes = np.diff(planned.starts)
    assert planned.positions.max() < 8 >= sizes.max()
    path, _ = path_of(planned, 0)
    assert planned.ids[path].tolist() == sequence
    assert planned.ids[tokens_of(planned, 0, 1)].tolist() == [12, 1, COLON, *[13] * n_text, END]
    assert seen_by(planned, planned.ends[0]) == set(range(len(sequence)))
    last = tokens_of(planned, 0, 1)[-1]
    assert seen_by(planned, last) == {*tokens_of(planned, 0, SHARED).tolist(), *tokens_of(planned, 0, 1).tolist()}


def test_a_piece_sees_the_instructions_and_what_is_near_so_that_time_does_not_grow_with_the_square(monkeypatch):
    monkeypatch.setattr(isolated, "REACH", 16)
    marks = Marks(END, MARKS.names, COLON, 8)
    planned = plan(split([[10, END, *[11] * 63, END, 12, 1, COLON, 13, END, 12, 2, COLON, 13, END, 14]], marks))
    context = planned.starts[1 + 7]  # of its eight pieces, the last
    assert seen_by(planned, context) == {0, 1, *range(context - 16, context + 8)}
    assert len(seen_by(planned, tokens_of(planned, 0, 1)[0])) == 2 + 64 + 5


COUNTED = [
    {"begins": "a better", "worse": "worse", "weights": [1.0, 0.5, *[0.0] * 11]},
    {"begins": "the storm", "worse": "repaired", "weights": [0.0] * 8 + [2.0, 0.0, 0.0, 0.0, 0.0]},
]


@pytest.fixture(scope="module")
def leaning(folder, tmp_path_factory):
    """The same model, with weights of counts."""
    path = tmp_path_factory.mktemp("counted")
    shutil.copytree(folder, path, dirs_exist_ok=True)
    config = json.loads((path / "config.json").read_text())
    config["synthscore"]["counts"] = COUNTED
    (path / "config.json").write_text(json.dumps(config))
    return open_engine(str(path))


def asked_about(question, one, other):
    article = "Article:\nA ferry stopped near an island. Nobody was hurt."
    return Prompt(f"Two texts.\n\n{article}\n\n{question}\n\nA 1:\n{one}\n\nA 2:\n{other}\n\nVerdict:")


@pytest.mark.parametrize(
    ("question", "labels", "sign"),
    [
        ("A better text", ("Better", "Worse"), 1),
        ("A better text", ("B", "A"), 1),
        ("A better or worse text", ("Better", "Worse"), -1),
        ("The better text", ("Better", "Worse"), 0),
    ],
)
def test_counts_lean_to_the_text_that_they_are_for(engine, leaning, question, labels, sign):
    """Weights 1 and .5 of the shares of pairs and of words held: the log-odds move by their difference, no more."""
    prompts = [asked_about(question, one, other) for one in TEXTS for other in TEXTS]
    said, plain = (label_log_probs(each, prompts, labels).log_probs for each in (leaning, engine))
    moved = ((said[:, 0] - said[:, 1]) - (plain[:, 0] - plain[:, 1])).reshape(len(TEXTS), len(TEXTS))
    np.testing.assert_allclose(moved, -moved.T, atol=1e-4)
    assert np.sign(moved[2, 0]) == sign  # the first text is copied, the third is not
    alone = IsolatedEngine(leaning.model, leaning.prompts.tokenizer, name="x", backend="single")
    np.testing.assert_allclose(label_log_probs(alone, prompts, labels).log_probs, said, atol=2e-5)
    assert sign or not moved.any()


def test_weights_are_part_of_the_signature(engine, leaning):
    with_, without = (dict(each.signature.parts)["model"].partition("@")[2] for each in (leaning, engine))
    assert with_ != without


def test_a_text_is_read_the_same_whatever_stands_in_the_other_place(engine):
    read = []
    for prompt in PROMPTS[:2]:  # the same first text, two second ones
        planned = plan(split([engine.prompts.encode(prompt)], engine._marks))
        with torch.inference_mode():
            read.append((planned, last_hidden(engine.model.base_model, [planned], torch.float32)))
    (one, first), (other, second) = read
    for part in (SHARED, 1):
        np.testing.assert_allclose(first[tokens_of(one, 0, part)], second[tokens_of(other, 0, part)], atol=1e-5)
    assert (first[one.ends] - second[other.ends]).abs().max() > 1e-3


def test_a_text_cannot_write_a_control_token(engine):
    ids = engine.prompts.encode(Prompt("a [SEP] b [CLS]\n\n[MASK]"))
    tokenizer = engine.prompts.tokenizer
    assert not {tokenizer.sep_token_id, tokenizer.cls_token_id, tokenizer.mask_token_id} & set(ids)


def test_a_prompt_that_is_too_long_fails_alone(engine, monkeypatch):
    monkeypatch.setattr(engine.prompts, "max_length", 100)
    found = label_log_probs(engine, [PROMPTS[0], Prompt("ferry " * 200)], LABELS)
    assert list(found.failures) == [1]
    assert "expected at most" in found.failures[1]
    assert not np.isnan(found.log_probs[0]).any()


def test_what_it_cannot_do_is_said(engine):
    (written,) = generate(engine, PROMPTS[:1], Sampling(), [0])
    assert isinstance(written, EngineError)
    assert "cannot write a text" in str(written)
    (read,) = token_log_probs(engine, PROMPTS[:1], ["a"])
    assert isinstance(read, EngineError)
    assert "cannot say how probable" in str(read)
    with pytest.raises(LabelError):
        label_log_probs(engine, PROMPTS[:1], ("Better", "Better"))
    with pytest.raises(EngineError, match="expected one of together, single, or auto"):
        IsolatedEngine(engine.model, engine.prompts.tokenizer, name="x", backend="padded")


def test_reading_together_that_gives_other_numbers_is_found_out(folder, monkeypatch):
    def wrong(sequences, known):
        planned = plan(sequences, known)
        if len(sequences) > 1:
            planned.positions[:] = 0
        return planned

    monkeypatch.setattr(isolated, "plan", wrong)
    with pytest.warns(SynthscoreWarning, match="one at a time, .* because as together, log-probabilities differ by"):
        assert IsolatedEngine.load(folder).backend == "single"
    with pytest.raises(EngineError, match="cannot be run right as together, log-probabilities differ"):
        IsolatedEngine.load(folder, backend="together")


def test_what_is_no_such_model_is_not_taken_for_one(tmp_path, folder):
    assert read_as(Source.of(folder)) == "isolated"
    with pytest.raises(EngineError, match=r"cannot read config\.json"):
        read_as(Source.of(tmp_path))
    BertConfig().save_pretrained(tmp_path)
    assert read_as(Source.of(tmp_path)) != "isolated"


# ------------------------------------------------------------------------------------------------ what is kept


def fresh(engine):
    return IsolatedEngine(copy.deepcopy(engine.model), engine.prompts.tokenizer, name="x")


def alone(engine, sequences):
    return torch.cat([engine._run([sequence])[0] for sequence in sequences])


@given(st.lists(MANY, min_size=3, max_size=5))
@settings(max_examples=25, deadline=None)
def test_states_of_former_calls_give_the_numbers_of_each_prompt_alone(engine, calls):
    kept = KeptStates(engine.model)
    for many in [*calls, *calls]:
        sequences = split(many)
        found, n_read = engine._run(sequences, kept)
        assert (found - alone(engine, sequences)).abs().max() < 2e-5
        assert len(sequences) > 0 < n_read <= plan(sequences).n_tokens


def test_what_is_read_a_second_time_is_not_read_a_third_time(engine):
    engine, labels = fresh(engine), ("yes", "no")
    cue = len(engine.prompts.encode(Prompt("Verdict:")))
    n_read = [label_log_probs(engine, PROMPTS, labels).usage.n_computed for _ in range(3)]
    assert n_read[0] == n_read[1] > n_read[2] == len(PROMPTS) * cue


def test_a_new_text_beside_known_ones_costs_its_own_tokens_and_a_cue_for_each(engine):
    engine = fresh(engine)
    for _ in range(2):
        label_log_probs(engine, PROMPTS[:4], LABELS)  # one first text, four second ones
    new = [Prompt(prompt.text.replace(f"A 1:\n{TEXTS[0]}", "A 1:\nferry was hurt.")) for prompt in PROMPTS[:4]]
    sequences = split([engine.prompts.encode(prompt) for prompt in new], engine._marks)
    of_text, of_cue = (sum(len(one.ids) for one in sequences[0] if one.part == part) for part in (1, CUE))
    assert engine._run(sequences, engine.kept)[1] == of_text + 4 * of_cue


def test_what_is_kept_takes_no_more_memory_than_is_said(engine, monkeypatch):
    sequences = split([engine.prompts.encode(prompt) for prompt in PROMPTS], engine._marks)
    per_token = 2 * 2 * 32 * 4  # layers, key and value, hidden size, bytes
    monkeypatch.setattr(isolated, "KEPT_BYTES", 60 * per_token)
    monkeypatch.setattr(isolated, "KEPT_KEYS", 9)
    kept = KeptStates(engine.model)
    for _ in range(3):
        for start in range(0, len(sequences), 3):
            part = sequences[start : start + 3]
            assert (engine._run(part, kept)[0] - alone(engine, part)).abs().max() < 2e-5
            states_there = [state for state in kept._by_key.values() if state is not None]
            assert sum(state.untyped_storage().nbytes() for state in states_there) == kept.n_bytes <= 60 * per_token
            assert len(kept._by_key) <= 9
    assert kept.n_bytes > 0


def test_the_least_lately_met_is_given_up_first(engine, monkeypatch):
    one, other, third = (split([[k, END, 12, 1, COLON, 11, END, 12, 2, COLON, 11, END, 14]])[0] for k in (10, 11, 12))
    monkeypatch.setattr(isolated, "KEPT_KEYS", 2 * (len(one) - 1))
    kept = KeptStates(engine.model)
    for sequence in (one, one, other, other, one, third):
        engine._run([sequence], kept)
    assert len(kept.look_up([one])[0]) == len(one) - 1
    assert not kept.look_up([other])[0]


def test_calls_of_several_threads_do_not_disturb_each_other(engine, monkeypatch):
    monkeypatch.setattr(isolated, "KEPT_BYTES", 40 * 512)  # so that much is given up on the way
    engine = fresh(engine)
    sets = [PROMPTS[start::4] for start in range(4)]
    expected = [label_log_probs(fresh(engine), prompts, LABELS).log_probs for prompts in sets]

    def ask(n):
        return [
            np.abs(label_log_probs(engine, sets[n % 4], LABELS).log_probs - expected[n % 4]).max() for _ in range(5)
        ]

    with ThreadPoolExecutor(4) as pool:
        assert max(max(row) for row in pool.map(ask, range(8))) < 2e-5


@pytest.mark.parametrize(
    "change",
    [
        lambda model: model.get_input_embeddings().weight.mul_(1.5),
        lambda model: model.load_state_dict({name: each * 0.5 for name, each in model.state_dict().items()}),
        lambda model: model.to(torch.bfloat16).to(torch.float32),
        lambda model: model.to(torch.bfloat16),
    ],
    ids=["a weight", "all weights", "rounded", "dtype"],
)
def test_states_of_a_model_that_was_changed_are_not_used(engine, change):
    engine = fresh(engine)
    for _ in range(3):
        label_log_probs(engine, PROMPTS, LABELS)
    with torch.no_grad():
        change(engine.model)
    found = label_log_probs(engine, PROMPTS, LABELS).log_probs
    np.testing.assert_array_equal(found, label_log_probs(fresh(engine), PROMPTS, LABELS).log_probs)


def test_nothing_is_kept_where_a_number_is_to_depend_on_its_prompt_alone_or_rounding_is_large(engine):
    single = IsolatedEngine(engine.model, engine.prompts.tokenizer, name="x", backend="single")
    rounded = fresh(engine)
    rounded.model.to(torch.bfloat16)
    for each in (single, rounded):
        n_read = {label_log_probs(each, PROMPTS[:4], LABELS).usage.n_computed for _ in range(3)}
        assert len(n_read) == 1
    assert rounded.kept is None
    assert not single.kept.n_bytes


def test_states_that_give_other_numbers_are_found_out_at_loading(folder, monkeypatch):
    plainly = isolated.Carried.update

    def wrong(carried, key, value, layer):
        n_read = key.shape[2]
        keys, values = plainly(carried, key, value, layer)
        values[:, :, : values.shape[2] - n_read] = 0  # of what is known
        return keys, values

    monkeypatch.setattr(isolated.Carried, "update", wrong)
    with pytest.warns(SynthscoreWarning, match="one at a time, .* because as together, log-probabilities differ by"):
        assert IsolatedEngine.load(folder).backend == "single"


def test_a_long_paragraph_at_the_end_is_read_to_its_beginning(engine):
    marks = Marks(END, MARKS.names, COLON, 4)
    sequence = [10, END, 12, 1, COLON, 11, END, 12, 2, COLON, 11, END, *[13] * 9, 14]
    planned = plan(split([sequence], marks))
    assert path_of(planned, 0)[0] == [*range(len(sequence))]
    assert seen_by(planned, planned.ends[0]) == set(range(len(sequence)))
