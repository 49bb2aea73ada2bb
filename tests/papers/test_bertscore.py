"""BERTScore against its definition, computed in loops over a plain forward of each text, on small random encoders."""

import copy
import json

import numpy as np
import pytest
import torch
import transformers as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from papers.encoder import Embedded, Encoder
from papers.methods.bertscore import _best, match
from synthscore.errors import EngineError
from synthscore.evaluation.methods import Tools, method
from synthscore.evaluation.methods.base import MethodError
from synthscore.evaluation.ratings import RatedText, Ratings
from synthscore.types import Context
from tests.models import word_piece

from ..engines.test_causal import SIZES, one_thread, wide  # noqa: F401
from ..engines.test_seq2seq import bart_like, t5

SAME = 1e-6  # of a cosine in float32
TEXTS = ["The storm closed the harbour.", "Nobody was hurt", "It rained on the mayor, in the end.", "A"]


def bert(**more):
    config = tf.BertConfig(vocab_size=len(word_piece()), max_position_embeddings=64, **SIZES | more)
    return wide(tf.BertModel, config), word_piece()


def roberta():
    tokenizer = copy.deepcopy(bart_like())
    config = tf.RobertaConfig(vocab_size=len(tokenizer), max_position_embeddings=50, pad_token_id=1, **SIZES)
    return wide(tf.RobertaModel, config), tokenizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "tiny-bert"
    model, tokenizer = bert()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def encoder(folder):
    return Encoder.load(folder)


def naive(encoder, text, reference):
    """Precision, recall and F, token by token; [CLS] first and [SEP] last in each text."""

    def vectors(of):
        ids = encoder._tokens.tokenizer((encoder._space + of), return_tensors="pt")["input_ids"]
        with torch.no_grad():
            states = encoder.model(ids, output_hidden_states=True).hidden_states[encoder.layer][0].double().numpy()
        return [state / np.sqrt((state**2).sum()) for state in states]

    mine, theirs = vectors(text), vectors(reference)
    p = np.mean([max(float(x @ y) for y in theirs) for x in mine[1:-1]])
    r = np.mean([max(float(x @ y) for x in mine) for y in theirs[1:-1]])
    return p, r, 2 * p * r / (p + r)


def ratings_of(texts, references=((),), **more):
    """One context for each tuple of references; texts : (context's number, system, text)"""
    contexts = {f"c{n}": Context(f"c{n}", "An article.", references=tuple(own)) for n, own in enumerate(references)}
    rated = [RatedText(f"{n}-{system}", f"c{n}", system, text, {"coherence": 1.0}) for n, system, text in texts]
    return Ratings("mine", tuple(rated), ("coherence", "fluency"), contexts, **more)


# ------------------------------------------------------------------------------------------------- vectors


@pytest.mark.parametrize("make", [bert, roberta])
@pytest.mark.parametrize("layer", [None, 0, 1, 3])
def test_it_is_what_its_definition_says(make, layer):
    encoder = Encoder(*make(), name="tiny", layer=layer)
    found = encoder.embed(TEXTS)
    for text in TEXTS:
        for reference in TEXTS:
            assert match(found[text], found[reference]) == pytest.approx(naive(encoder, text, reference), abs=SAME)


def test_the_first_word_is_that_of_words_behind_a_space_where_the_tokenizer_tells_them_apart():
    encoder = Encoder(*roberta(), name="tiny")
    read = []
    encoder._states = lambda rows: read.extend(rows) or np.ones((1, len(rows[0]), 2), dtype=np.float32)
    encoder.embed(["harbour "])
    (row,) = read
    assert row[1:-1] == encoder._tokens.tokenizer(" harbour", add_special_tokens=False)["input_ids"]
    assert Encoder(*bert(), name="tiny")._space == ""


def test_neighbours_do_not_change_a_vector_and_each_text_is_read_once(encoder, monkeypatch):
    read = []
    states = encoder._states
    monkeypatch.setattr(encoder, "_states", lambda rows: read.extend(rows) or states(rows))
    together = encoder.embed([*TEXTS, *TEXTS])
    assert len(read) == len(TEXTS)
    encoder._max_tokens = 1
    for text in TEXTS:
        np.testing.assert_allclose(together[text].vectors, encoder.embed([text])[text].vectors, atol=SAME)
    encoder._max_tokens = 4096
    assert list(encoder.embed([])) == []


@pytest.mark.parametrize(("make", "n_most"), [(bert, 64), (roberta, 48)])
def test_a_text_is_cut_where_the_model_ends_and_the_cut_tokens_are_counted(make, n_most):
    encoder = Encoder(*make(), name="tiny")
    assert encoder.max_length == n_most
    ordinary = encoder._tokens.tokenizer(encoder._space + "A " * 99 + "A", add_special_tokens=False)["input_ids"]
    found = encoder.embed(["A " * 100, "A"])
    long = found["A " * 100]
    assert len(long.vectors) == n_most
    assert (int(long.is_text.sum()), long.n_cut) == (n_most - 2, len(ordinary) - (n_most - 2))
    assert not long.is_text[0]
    assert not long.is_text[-1]
    assert found["A"].n_cut == 0


def test_a_tokenizer_may_take_less_than_the_table_of_positions_holds():
    model, tokenizer = bert()
    tokenizer = copy.deepcopy(tokenizer)
    tokenizer.model_max_length = 10
    assert len(Encoder(model, tokenizer, name="tiny").embed(["A " * 100])["A " * 100].vectors) == 10


def test_names_of_control_tokens_stay_plain_text_and_space_around_a_text_counts_for_nothing(encoder):
    found = encoder.embed(["It [SEP] rained", "  It [SEP] rained\n"])
    one, other = found.values()
    np.testing.assert_array_equal(one.vectors, other.vectors)
    assert one.is_text.sum() > 3, "[SEP] is spelled out"


@pytest.mark.parametrize(("model_type", "n_layers", "layer"), [("bert", 12, 9), ("bert", 24, 18), ("bert", 6, 5)])
def test_three_quarters_of_the_layers_are_read(model_type, n_layers, layer):
    config = {"num_hidden_layers": n_layers, "hidden_size": 8, "intermediate_size": 8, "num_attention_heads": 1}
    assert Encoder(*bert(**config), name="tiny").layer == layer


@pytest.mark.parametrize(("n_layers", "layer"), [(24, 17), (12, 10), (4, 3)])
def test_a_roberta_is_read_where_its_paper_found_it_best(n_layers, layer):
    model, tokenizer = roberta()
    model.config.num_hidden_layers = n_layers
    assert Encoder(model, tokenizer, name="tiny").layer == layer


@pytest.mark.parametrize("layer", [-1, 4])
def test_a_layer_that_is_not_there_is_refused(layer):
    with pytest.raises(EngineError, match=f"no layer {layer}: expected 0 to 3"):
        Encoder(*bert(), name="tiny", layer=layer)


def test_an_encoder_with_a_decoder_is_refused():
    with pytest.raises(EngineError, match="expected an encoder"):
        Encoder(*t5(), name="t5")


def test_a_checkpoint_may_lack_what_is_not_read_and_nothing_else(folder, tmp_path):
    model, tokenizer = bert()
    state = model.state_dict()
    tokenizer.save_pretrained(tmp_path)
    model.save_pretrained(tmp_path, state_dict={k: v for k, v in state.items() if not k.startswith("pooler.")})
    found, whole = Encoder.load(tmp_path).embed(TEXTS), Encoder.load(folder).embed(TEXTS)
    np.testing.assert_array_equal(found["A"].vectors, whole["A"].vectors)
    model.save_pretrained(tmp_path, state_dict={k: v for k, v in state.items() if "layer.1." not in k})
    with pytest.raises(EngineError, match=r"lacks weights of BertModel \(encoder.layer.1"):
        Encoder.load(tmp_path)


# ------------------------------------------------------------------------------------------------- the match


def embedded(seed, n, d=4):
    vectors = np.random.default_rng(seed).normal(size=(n + 2, d)).astype(np.float32)
    is_text = np.array([False, *[True] * n, False])
    return Embedded(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), is_text, 0)


@settings(max_examples=50)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 6))
def test_precision_of_one_is_recall_of_the_other(seed, n, m):
    text, reference = embedded(seed, n), embedded(seed + 1, m)
    p, r, f = match(text, reference)
    assert match(reference, text) == pytest.approx((r, p, f))
    assert match(text, text) == pytest.approx((1, 1, 1))
    assert max(p, r) <= 1 + SAME


def test_what_stands_around_a_text_may_be_matched_but_is_not_counted():
    up, right, down = np.eye(3, dtype=np.float32)
    text = Embedded(np.stack([down, up, right]), np.array([False, True, False]), 0)
    reference = Embedded(np.stack([up, right, right]), np.array([False, True, False]), 0)
    assert match(text, reference) == (1, 1, 1)
    across = Embedded(np.stack([down, right, down]), np.array([False, True, False]), 0)
    alone = Embedded(np.stack([down, up, down]), np.array([False, True, False]), 0)
    assert match(across, alone) == (0, 0, 0)


def test_of_several_references_that_with_the_highest_f_counts_not_with_the_highest_precision():
    up, right, down = np.eye(3, dtype=np.float32)
    text = Embedded(np.stack([up, right]), np.array([True, True]), 1)
    precise = Embedded(np.stack([up, right, down, down]), np.array([True] * 4), 0)  # P 1, R 1/2, F 2/3
    near = Embedded(np.stack([up, (right + down) / np.sqrt(2)]), np.array([True, True]), 5)  # P = R = F = 0.85
    value, details = _best(text, [precise, near])
    assert value == pytest.approx((1 + np.sqrt(0.5)) / 2)
    assert (details["reference"], details["n_cut"]) == (2, 6)


# ------------------------------------------------------------------------------------------------- the method


def test_texts_are_compared_with_the_first_reference_of_their_context(folder, encoder):
    texts = [(0, "a", TEXTS[0]), (1, "a", TEXTS[1]), (0, "b", TEXTS[2]), (1, "b", "  ")]
    ratings = ratings_of(texts, [(TEXTS[1], TEXTS[0]), (TEXTS[3],)])
    scores = method(f"bertscore:model={folder}")(ratings, "coherence", Tools())
    assert [row.id for row in scores] == ["0-a", "1-a", "0-b", "1-b"]
    for row, (text, reference) in zip(scores, [(0, 1), (1, 3), (2, 1)], strict=False):
        p, r, f = naive(encoder, TEXTS[text], TEXTS[reference])
        assert row.value == pytest.approx(f, abs=SAME)
        assert row.details == pytest.approx({"precision": p, "recall": r}, abs=SAME)
        assert (row.attribute, row.status) == ("coherence", "ok")
    assert (scores[3].status, scores[3].reason) == ("unscored", "the text is empty")


def test_of_several_references_the_nearest_counts_and_is_named(folder, encoder):
    ratings = ratings_of([(0, "a", TEXTS[0])], [(TEXTS[1], TEXTS[2], TEXTS[3])])
    (score,) = method(f"bertscore:model={folder},references=all")(ratings, "coherence", Tools())
    each = [naive(encoder, TEXTS[0], reference)[2] for reference in TEXTS[1:]]
    assert score.value == pytest.approx(max(each), abs=SAME)
    assert score.details["reference"] == 1 + int(np.argmax(each))


def test_a_systems_texts_serve_as_references_and_are_their_own_only_where_asked_for(folder):
    ratings = ratings_of([(0, "a", TEXTS[0]), (0, "people", TEXTS[1])])
    spec = f"bertscore:model={folder},system=people"
    scores = method(spec)(ratings, "coherence", Tools())
    assert [score.status for score in scores] == ["ok", "unscored"]
    assert scores[0].value < 0.99
    assert dict(scores.signature.parts)["references"] == "system people"
    scores = method(f"{spec},own=yes")(ratings, "coherence", Tools())
    assert scores[1].value == pytest.approx(1, abs=SAME)


def test_what_was_cut_is_counted_in_the_details(folder, encoder):
    long = "The storm closed the harbour. " * 20
    ratings = ratings_of([(0, "a", long), (0, "b", TEXTS[0])], [(long,)])
    scores = method(f"bertscore:model={folder}")(ratings, "coherence", Tools())
    n_cut = encoder.embed([long])[long].n_cut
    assert n_cut > 0
    assert [score.details["n_cut"] for score in scores] == [2 * n_cut, n_cut]


def test_a_text_without_tokens_is_unscored(folder):
    ratings = ratings_of([(0, "a", "\ufffd"), (0, "b", TEXTS[0]), (1, "b", TEXTS[0])], [(TEXTS[1],), ("\ufffd",)])
    scores = method(f"bertscore:model={folder}")(ratings, "coherence", Tools())
    reasons = [score.reason for score in scores]
    assert reasons == ["the text has no tokens", "", "the reference has no tokens"]


def test_many_texts_are_read_in_parts_and_none_again_for_another_attribute(folder, monkeypatch):
    monkeypatch.setattr("papers.methods.bertscore._TEXTS", 2)
    texts = [(n % 2, f"s{n}", text) for n, text in enumerate(TEXTS)]
    ratings = ratings_of(texts, [(TEXTS[1],), (TEXTS[3],)])
    scorer = method(f"bertscore:model={folder}")
    scores = scorer(ratings, "coherence", Tools())
    n_read = []
    monkeypatch.setattr(Encoder, "embed", lambda self, texts: n_read.append(texts))
    again = scorer(ratings, "fluency", Tools())
    assert again.values.tolist() == scores.values.tolist()
    assert again[0].attribute == "fluency"
    assert n_read == []
    with pytest.raises(TypeError):
        scorer(ratings_of(texts, [(TEXTS[1],), (TEXTS[3],)]), "fluency", Tools())
    assert len(n_read) == 1, "other ratings are other texts"


def test_the_signature_holds_all_that_can_change_a_number_and_its_hash(folder):
    ratings = ratings_of([(0, "a", TEXTS[0])], [(TEXTS[1],)])

    def parts(**options):
        said = "".join(f",{name}={value}" for name, value in options.items())
        return dict(method(f"bertscore:model={folder}{said}")(ratings, "coherence", Tools()).signature.parts)

    first = parts()
    assert (first["method"], first["layer"], first["max_length"], first["dtype"]) == (
        "bertscore",
        "3/3",
        "64",
        "float32",
    )
    assert first["model"].startswith("tiny-bert@")
    others = [parts(), parts(layer=1), parts(references="all"), parts(own="yes")]
    assert [other["config"] == first["config"] for other in others] == [True, False, False, False]
    json.dumps(first)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("bertscore", "names no encoder"),
        ("bertscore:layer=one", "expected a whole number"),
        ("bertscore:model=x,idf=yes", "out of: model, revision, layer"),
    ],
)
def test_what_cannot_be_made_is_refused_with_what_to_do(spec, words):
    with pytest.raises(MethodError, match=words):
        method(spec)


def test_without_any_reference_nothing_can_be_scored(folder):
    with pytest.raises(MethodError, match="option system=NAME"):
        method(f"bertscore:model={folder}")(ratings_of([(0, "a", TEXTS[0])]), "coherence", Tools())
