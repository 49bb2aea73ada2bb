import pytest

from synthscore.engine import Prompt
from synthscore.engines.tokens import PromptTokenizer
from synthscore.errors import EngineError, LabelError, PromptTooLongError
from tests.models import TEXT, byte_level, metaspace, word_piece

FAMILIES = {
    "byte-level chat": byte_level,
    "byte-level": lambda: byte_level(chat=False),
    "WordPiece": word_piece,
    "metaspace chat": metaspace,
    "metaspace": lambda: metaspace(chat=False),
}
LOOKALIKES = ["<|im_end|>", "<|im_start|>", "</s>", "<s>", "[INST]", "[SEP]", "[CLS]", "[UNK]", "<think>", "<|im_end|"]


@pytest.fixture(params=FAMILIES)
def tokenizer(request):
    return FAMILIES[request.param]()


def whole(tokenizer, text):
    """The prompt's ids the plain way: one string, tokenised once."""
    if not tokenizer.chat_template:
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        return [tokenizer.bos_token_id, *ids] if tokenizer.bos_token else ids
    rendered = tokenizer.apply_chat_template(
        [{"role": "user", "content": text}], tokenize=False, add_generation_prompt=True, enable_thinking=False
    )
    return tokenizer(rendered, add_special_tokens=False)["input_ids"]


def controls(tokenizer, ids):
    control = {*tokenizer.all_special_tokens, "<think>", "</think>"} - {tokenizer.unk_token}
    return [token for token in tokenizer.convert_ids_to_tokens(ids) if token in control]


@pytest.mark.parametrize("text", [TEXT, "Is it a    b <c> harbours?", "  spaces at both ends \n", "ü, 世界 and 🙂"])
def test_ordinary_texts_are_tokenised_as_one_string(tokenizer, text):
    assert PromptTokenizer(tokenizer, 1000).encode(Prompt(text)) == whole(tokenizer, text)


def test_the_prefill_follows_the_header_of_the_answer():
    prompts = PromptTokenizer(byte_level(), 1000)
    prompt = Prompt("Which is better?", prefill="Summary")
    assert prompts.render(prompt).endswith("</think>\n\nSummary")
    assert byte_level().decode(prompts.encode(prompt)) == prompts.render(prompt)


def test_without_a_template_the_prefill_follows_the_text():
    assert PromptTokenizer(word_piece(), 100).render(Prompt("Which?", prefill=" Summary")) == "Which? Summary"


@pytest.mark.parametrize("family", ["metaspace chat", "metaspace"])
def test_there_is_one_beginning_of_sequence(family):
    ids = PromptTokenizer(FAMILIES[family](), 1000).encode(Prompt("The storm"))
    assert FAMILIES[family]().convert_ids_to_tokens(ids).count("<s>") == 1
    assert "</s>" not in FAMILIES[family]().convert_ids_to_tokens(ids)


def test_bert_gets_no_cls_and_no_sep():
    ids = PromptTokenizer(word_piece(), 100).encode(Prompt("The storm"))
    assert word_piece().convert_ids_to_tokens(ids) == ["the", "storm"]


@pytest.mark.parametrize("lookalike", LOOKALIKES)
@pytest.mark.parametrize("place", ["The storm {} closed", "{}", "{} closed", "The storm{}", "{}{}", "a {}b {} c"])
def test_control_tokens_come_from_the_template_alone(tokenizer, lookalike, place):
    prompts = PromptTokenizer(tokenizer, 1000)
    text = place.replace("{}", lookalike)
    template_only = controls(tokenizer, prompts.encode(Prompt("The storm closed")))
    for prompt in (Prompt(text), Prompt("The storm", prefill=text)):
        assert controls(tokenizer, prompts.encode(prompt)) == template_only


def test_a_lookalike_is_spelled_out_and_nothing_else_changes():
    tokenizer = byte_level(chat=False)
    ids = PromptTokenizer(tokenizer, 1000).encode(Prompt("The storm<|im_end|> closed the harbour"))
    assert tokenizer.decode(ids) == "The storm<|im_end|> closed the harbour"
    tail = tokenizer(" closed the harbour")["input_ids"]
    assert ids[-len(tail) :] == tail


def test_a_spelled_out_lookalike_brings_no_space_with_it():
    tokenizer = metaspace(chat=False)
    ids = PromptTokenizer(tokenizer, 1000).encode(Prompt("The storm</s>closed"))
    assert tokenizer.decode(ids[1:]) == "The storm</s>closed"


def test_spelled_unknown_is_not_the_unknown_token():
    tokenizer = word_piece()
    encode = PromptTokenizer(tokenizer, 100).encode
    assert tokenizer.unk_token_id not in encode(Prompt("the [UNK] storm"))
    assert tokenizer.unk_token_id in encode(Prompt("the 世 storm"))  # this one it really does not know


def test_a_thousand_lookalikes_are_no_trouble():
    ids = PromptTokenizer(byte_level(), 100_000).encode(Prompt("<|im_end|> and " * 1000))
    assert controls(byte_level(), ids) == controls(byte_level(), whole(byte_level(), "and"))


def test_a_template_that_rejects_the_prompt_says_so():
    tokenizer = metaspace()
    tokenizer.chat_template = "{{ raise_exception('only with a system message') }}"
    try:
        with pytest.raises(EngineError, match="only with a system message"):
            PromptTokenizer(tokenizer, 100)
    finally:
        metaspace.cache_clear()


@pytest.mark.parametrize(
    "template",
    ["no message", "{{ messages[0]['content'] }}{{ messages[0]['content'] }}", "{{ messages[0]['content'] | upper }}"],
)
def test_a_template_that_changes_the_message_is_refused(template):
    tokenizer = metaspace()
    tokenizer.chat_template = template
    try:
        with pytest.raises(EngineError, match="changes, drops or repeats"):
            PromptTokenizer(tokenizer, 100)
    finally:
        metaspace.cache_clear()


def test_the_template_hash_changes_with_the_template():
    hashes = {PromptTokenizer(make(), 100).template_hash for make in (byte_level, metaspace, word_piece)}
    assert len(hashes) == 3
    assert "none" in hashes


def test_a_prompt_that_is_too_long_is_refused_with_its_length():
    prompts = PromptTokenizer(word_piece(), 10)
    assert len(prompts.encode(Prompt("storm " * 9))) == 9
    with pytest.raises(PromptTooLongError, match="10 tokens, expected at most 9") as error:
        prompts.encode(Prompt("storm " * 10))
    assert (error.value.n_tokens, error.value.max_tokens) == (10, 9)


@pytest.mark.parametrize("unit", ["storm ", "x", *LOOKALIKES[:3]])
def test_a_text_that_is_too_long_is_refused_in_time_linear_in_it(tokenizer, unit, monkeypatch):
    prompts = PromptTokenizer(tokenizer, 10)
    n_read = 0

    def counting(plain):
        def read(text, **how):
            nonlocal n_read
            n_read += len(text)
            return plain(text, **how)

        return read

    for name in ("_ids", "_ids_and_places"):
        monkeypatch.setattr(prompts, name, counting(getattr(prompts, name)))
    text = unit * (20_000 // len(unit))
    with pytest.raises(PromptTooLongError):
        prompts.encode(Prompt(text + " storm" * 10))
    assert n_read <= 4 * len(text)  # once, once more for the places of control tokens, and then in pieces


# ------------------------------------------------------------------------------------------------- labels


def test_a_label_is_what_it_adds_to_the_prompt(tokenizer):
    prompts = PromptTokenizer(tokenizer, 1000)
    prompt = Prompt("Which is better? Answer:")
    forms = prompts.label_forms(prompt, ["Better", "Worse"])
    assert forms.boundary == "whole"
    for label, ids in zip(("Better", "Worse"), forms.forms, strict=True):
        texts = {tokenizer.decode([*prompts.encode(prompt), *form], skip_special_tokens=True) for form in ids}
        assert all(text.lower().endswith(label.lower()) for text in texts)
        assert len(ids) == (1 if tokenizer.unk_token == "[UNK]" else 2)  # BERT drops the space


def test_forms_are_shown_as_tokens():
    tokens = PromptTokenizer(byte_level(), 1000)
    forms = tokens.label_forms(Prompt("Which?"), ["Better", "A"]).forms
    shown = [[tokens.spelled(form) for form in each] for each in forms]
    assert shown == [[["B", "etter"], ["ĠBetter"]], [["A"], ["ĠA"]]]


@pytest.mark.parametrize("labels", [["A", "A"], ["Better", "Better than"], ["1", "1 2"]])
def test_labels_that_begin_with_one_another_collide(labels):
    with pytest.raises(LabelError, match="cannot be told apart") as error:
        PromptTokenizer(byte_level(), 1000).label_forms(Prompt("Which?"), labels)
    assert error.value.labels == tuple(labels)


def test_labels_that_differ_in_case_only_collide_for_a_lowercase_model():
    with pytest.raises(LabelError, match="cannot be told apart"):
        PromptTokenizer(word_piece(), 100).label_forms(Prompt("Which?"), ["yes", "Yes"])


@pytest.mark.parametrize("label", ["世界", " "])
def test_a_label_that_cannot_be_said_is_refused(label):
    with pytest.raises(LabelError):
        PromptTokenizer(word_piece(), 100).label_forms(Prompt("Which?"), ["Better", label])


def test_a_label_that_merges_with_the_prompt_is_tokenised_by_itself_and_noted():
    prompts = PromptTokenizer(byte_level(chat=False), 1000)
    merged = prompts.label_forms(Prompt("Answer: B"), ["etter", "x"])
    assert merged.boundary == "separate"
    assert prompts.tokenizer.convert_ids_to_tokens(list(merged.forms[0][0])) == ["etter"]
    assert prompts.label_forms(Prompt("Answer:"), ["Better", "x"]).boundary == "whole"


def test_forms_depend_on_how_the_prompt_ends_and_not_on_what_came_before():
    prompts = PromptTokenizer(byte_level(chat=False), 1000)
    first = prompts.label_forms(Prompt("A storm. Which is better? Answer:"), ["Better", "Worse"])
    assert prompts.label_forms(Prompt("No storm. Which is better? Answer:"), ["Better", "Worse"]) is first
    assert prompts.label_forms(Prompt("A storm. Which is better? Answer: B"), ["Better", "Worse"]) is not first
