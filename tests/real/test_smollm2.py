"""With a real model: the engine's numbers are plain transformers' numbers, and every verb goes through to its end."""

import copy
import json

import numpy as np
import pytest
import torch

from benchmarks.verify import draw, replay
from synthscore.cli.app import main
from synthscore.engine import Prompt, Question
from synthscore.engines.tree.causal import CausalEngine
from synthscore.judging.asking import PROTOCOLS, Pair, labels_of, prompt_of
from synthscore.judging.templates import Templates, load_task
from synthscore.ladders.references import References
from synthscore.resources import resource
from synthscore.store.file import Store
from synthscore.types import Context
from tests.factories import GERMAN
from tests.real.conftest import in_short

pytestmark = pytest.mark.slow

WAYS = [
    ("compare", {}),
    ("compare", {"swapped": True}),
    ("yes_no", {}),
    ("yes_no_two_sided", {"worse": True}),
    ("choose", {}),
]
GERMAN_ARTICLE = (
    "Die Fähre „Marrin Star“ verlor am Dienstagabend zwei Kilometer vor der Insel Tarn ihren Antrieb. Ein Schlauch der "
    "Kühlung war geplatzt. Zwei Schlepper brachten das Schiff noch in der Nacht in den Hafen."
)
GERMAN_RUNGS = [
    "Infolge kühlungsseitiger Leckage trat antriebsbedingt eine Manövrierunfähigkeit ein.",
    "Wegen einer Leckage der Kühlung war das Schiff manövrierunfähig und wurde verbracht.",
    "Ein Schlauch platzte, und die Fähre konnte nicht mehr fahren. Zwei Schlepper halfen ihr.",
]
REFERENCES = resource("data/references/curated/first24")


def questions():
    """40 of them, on eight curated ladders, of which only some words are shown, for time's sake."""
    templates = Templates(load_task("dialogue"))
    _, ladders = in_short(8)
    for n, ladder in enumerate(ladders.filter(task="dialogue")):
        pair = Pair(ladder.context, ladder.attribute, ladder.rungs[n % 5].text, ladder.rungs[(n + 2) % 5].text)
        for protocol, options in WAYS:
            yield Question(prompt_of(pair, templates, protocol, **options), PROTOCOLS[protocol])


def plainly(model, tokenizer, question, *, templated=True):
    """log P of each label by transformers alone, float32, no code of ours: the prompt in one forward, and what follows
    of a label from a copy of transformers' own cache."""
    text = question.prompt.text
    if templated:
        message = [{"role": "user", "content": text}]
        options = {"add_generation_prompt": True, "enable_thinking": False}
        text = tokenizer.apply_chat_template(message, tokenize=False, **options)
    text += question.prompt.prefill
    prompt = tuple(tokenizer(text, add_special_tokens=False)["input_ids"])
    with torch.inference_mode():
        read = model(torch.tensor([prompt]), use_cache=True, logits_to_keep=1)
    behind = {prompt: read.logits[0, -1].log_softmax(-1)}  # what follows a token does not change it

    def after(ids):
        if ids not in behind:
            assert ids[: len(prompt)] == prompt
            cache, new = copy.deepcopy(read.past_key_values), torch.tensor([ids[len(prompt) :]])
            with torch.inference_mode():
                behind[ids] = model(new, past_key_values=cache, logits_to_keep=1).logits[0, -1].log_softmax(-1)
        return behind[ids]

    def log_prob(ids):
        return sum(float(after(ids[:n])[ids[n]]) for n in range(len(prompt), len(ids)))

    found = []
    for label in question.labels:
        forms = {tuple(tokenizer(text + form, add_special_tokens=False)["input_ids"]) for form in (label, f" {label}")}
        found.append(np.logaddexp.reduce([log_prob(ids) for ids in forms]))
    return found


@pytest.fixture(scope="module")
def answers(smollm):
    return smollm.answer(list(questions()))


def test_label_log_probabilities_are_plain_transformers_to_a_twenty_thousandth_of_a_nat(smollm, answers):
    asked = list(questions())
    assert len(asked) >= 40
    assert {question.labels for question in asked} == {PROTOCOLS[protocol] for protocol, _ in WAYS}
    plain = [plainly(smollm.model, smollm.prompts.tokenizer, question) for question in asked]
    for row, expected in zip(answers.rows, plain, strict=True):
        np.testing.assert_allclose(row.log_probs, expected, rtol=0, atol=5e-5)
    assert np.ptp([row[0] for row in plain[::5]]) > 0.1  # the prompts are told apart by more than the tolerance


def test_they_are_also_without_a_chat_template(smollm):
    tokenizer = copy.deepcopy(smollm.prompts.tokenizer)
    tokenizer.chat_template = None
    engine = CausalEngine(smollm.model, tokenizer, name="base")
    asked = [Question(Prompt(f"{q.prompt.text}\nVerdict:"), q.labels) for q in list(questions())[:5]]
    for question, row in zip(asked, engine.answer(asked).rows, strict=True):
        expected = plainly(smollm.model, tokenizer, question, templated=False)
        np.testing.assert_allclose(row.log_probs, expected, rtol=0, atol=5e-5)


def test_it_shares_what_prompts_begin_with(smollm, answers):
    assert smollm.backend == "cascade"
    assert answers.usage.n_computed < 0.75 * answers.usage.n_in


def test_the_limit_of_a_prompt_is_the_models_where_the_tokenizer_has_none(smollm):
    assert smollm.prompts.tokenizer.model_max_length > 1e20
    assert smollm.prompts.max_length == 8192


def test_its_signature_names_the_file_and_how_its_weights_were_quantised(smollm):
    signed = dict(smollm.signature.parts)
    assert signed["model"].startswith("SmolLM2-135M-Instruct.Q4_1@")
    assert (signed["gguf"], signed["dtype"], signed["backend"]) == ("Q4_1", "float32", "cascade")
    assert signed["chat"] != "none"


def test_german_answers_are_plain_transformers_too(smollm):
    templates = Templates(load_task(GERMAN))
    context = Context("a1", GERMAN_ARTICLE)
    pair = Pair(context, "verständlichkeit", GERMAN_RUNGS[2], GERMAN_RUNGS[0])
    asked = [
        Question(prompt_of(pair, templates, protocol), labels_of(protocol, templates.task))
        for protocol in ("compare", "yes_no")
    ]
    assert [question.labels for question in asked] == [("Besser", "Schlechter", "Gleich"), ("Ja", "Nein")]
    for question, row in zip(asked, smollm.answer(asked).rows, strict=True):
        expected = plainly(smollm.model, smollm.prompts.tokenizer, question)
        np.testing.assert_allclose(row.log_probs, expected, rtol=0, atol=5e-5)


# ------------------------------------------------------------------------------------------------ verbs


def test_a_german_task_is_imported_and_scored_from_elsewhere(run, tmp_path, monkeypatch):
    rows = tmp_path / "rows.jsonl"
    text = "Die Fähre blieb stehen, weil ein Schlauch platzte."
    rows.write_text(json.dumps({"context": GERMAN_ARTICLE, "rungs": GERMAN_RUNGS, "text": text}), "utf-8")
    # What judges is of no concern to an import, which takes no --model.
    assert main(["references", "import", str(rows), "--task", str(GERMAN), "-a", "verständlichkeit", "-o", "lad"]) == 0
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    on = ("--references", tmp_path / "lad", "--store", tmp_path / "answers.sqlite", "--min-mass", 0.001)
    code, out, said = run("score", rows, *on)
    assert code == 0, said
    (score,) = map(json.loads, out.splitlines())
    assert score["status"] == "ok"
    assert "|own_task:zusammenfassung@" in score["signature"]
    assert "|labels:Besser,Schlechter,Gleich|" in score["signature"]
    assert "task zusammenfassung (" in said
    code, out, _ = run("filter", rows, *on, "--min-score", score["score"] - 0.1)
    assert code == 0
    assert len(out.splitlines()) == 1
    code, out, _ = run("doctor", "--ladders", tmp_path / "lad", "--min-mass", 0.001, "--pairs", 2, *on[2:4])
    assert code in (1, 3)
    assert "Zwei Zusammenfassungen desselben Artikels werden verglichen." in out


@pytest.fixture
def rows(tmp_path):
    ladder = next(ladder for ladder in References.load(REFERENCES) if ladder.context_id == "dia-02")
    texts = [ladder.rungs[place].text for place in (0, 2, 4)]
    targets = [
        {"id": f"t{n}", "context_id": ladder.context_id, "context": ladder.context.text, "text": f"{text} Right?"}
        for n, text in enumerate(texts)
    ]
    path = tmp_path / "texts.jsonl"
    path.write_text("\n".join(map(json.dumps, targets)), "utf-8")
    return path


def test_doctor_says_what_it_is_and_whether_it_can_judge(run):
    code, out, _ = run("doctor", "--task", "dialogue", "-a", "naturalness")
    for part in ("SmolLM2-135M-Instruct.Q4_1@", "<|im_start|>user", "8 192 tokens"):
        assert part in out
    assert code == 1
    assert "It cannot judge naturalness" in out
    assert "It says Better whatever is shown" in " ".join(out.split())


def test_score_asks_once_and_the_model_asked_again_gives_the_same_answers(run, rows, tmp_path, smollm, monkeypatch):
    asked, answer = [], smollm.answer
    monkeypatch.setattr(smollm, "answer", lambda given, progress=None: asked.extend(given) or answer(given, progress))
    store = tmp_path / "answers.sqlite"
    score = ("score", rows, "--references", REFERENCES, "--task", "dialogue", "-a", "coherence", "--store", store)
    code, first, _ = run(*score)
    assert code == 0
    scores = [json.loads(line) for line in first.splitlines()]
    assert [row["status"] for row in scores] == ["ok"] * 3
    assert len({row["score"] for row in scores}) == 3
    n_asked = len(asked)
    assert n_asked % 15 == 0
    assert run(*score)[:2] == (0, first)
    assert len(asked) == n_asked
    with Store(store) as answers:
        drawn = draw(answers, answers.batches(), 5, seed=0)
    assert max(replay(drawn, smollm)) < 5e-5


def test_rank_orders_texts(run, rows):
    code, out, _ = run("rank", rows, "--task", "dialogue", "-a", "coherence", "--budget", 6)
    assert code == 0
    assert sorted(json.loads(line)["rank"] for line in out.splitlines()) == [1, 2, 3]


def test_generate_writes_texts_or_says_which_it_could_not(run, tmp_path):
    contexts = tmp_path / "contexts.jsonl"
    text = References.load(REFERENCES).find("dia-02", "coherence").context.text
    contexts.write_text(json.dumps({"id": "c1", "text": text}), "utf-8")
    options = ("--rungs", 2, "--max-new-tokens", 24)
    code, _, said = run("generate", contexts, "--task", "dialogue", "-a", "coherence", "-o", "lad", *options)
    if (tmp_path / "lad").exists():
        (ladder,) = References.load(tmp_path / "lad")
        texts = [rung.text for rung in ladder.rungs if rung is not None and rung.text]
        assert all("<|im" not in text for text in texts)
    else:  # a model of this size may fail at both texts
        assert code != 0
        assert said
