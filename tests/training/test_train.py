"""Training's own machinery: attention with gradients by hand, workers that take the same steps."""

import argparse
import json
import lzma
from dataclasses import replace
from itertools import islice
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from numpy.random import default_rng
from torch import distributed
from transformers import AutoTokenizer, BertConfig, BertForMaskedLM

from synthscore.engine import Prompt, label_log_probs
from synthscore.engines import isolated, open_engine
from synthscore.engines.counts import Counted
from synthscore.resources import resource
from tests.training.test_groups import documents

pytest.importorskip("training")

from training import train, weak_replies
from training.attention import attention
from training.examples import ALONE, LABELS, example, prompts, templates_of_tasks
from training.good_texts import LIMITS
from training.groups import Group
from training.tiny_writer import tokenizer_of
from training.train import Examples, Lesson, Tally, keep, optimizer_of, read_replies, restored, share_gradients
from training.written import WRITTEN_FOR_THIS


@pytest.fixture(params=[torch.bfloat16, torch.float32], ids=["bfloat16", "float32"])
def dtype(request, monkeypatch):
    """What training computes in, whatever this machine would choose."""
    monkeypatch.setattr(train, "dtype_here", lambda: request.param)
    return request.param


def test_values_and_gradients_of_attention_are_those_of_autograd():
    torch.manual_seed(0)
    seen = torch.rand(7, 9) < 0.6
    seen[:, 0] = True
    bias = torch.zeros(7, 9).masked_fill_(~seen, -1e9)
    blocks = [
        (0, 5, torch.arange(5), torch.zeros(5, 5)),
        (5, 12, torch.tensor([0, 1, 3, 5, 6, 7, 8, 10, 11]), bias),
    ]
    query, key, value = (torch.randn(1, 3, 12, 4, requires_grad=True) for _ in range(3))
    weights = torch.randn(1, 12, 3, 4)
    found = []
    for way in (isolated.attention, attention):
        output, _ = way(None, query, key, value, None, 0.5, blocks=blocks)
        gradients = torch.autograd.grad((output * weights).sum(), (query, key, value))
        found.append((output.detach(), *gradients))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


def test_workers_share_the_mean_of_their_gradients(monkeypatch):
    """The other worker is played here: it has gradients of 3 for `both`, and of 4 for `other`."""
    model = torch.nn.ParameterDict({name: torch.zeros(2) for name in ("both", "frozen", "none", "other")})
    model["frozen"].requires_grad_(False)
    model["both"].grad = torch.ones(2)
    theirs = torch.tensor([1.0, 0.0, 1.0, 3.0, 3.0, 0.0, 0.0, 4.0, 4.0])  # which there are; gradients
    monkeypatch.setattr(distributed, "get_world_size", lambda: 2)
    monkeypatch.setattr(distributed, "all_reduce", lambda joined: joined.add_(theirs))
    share_gradients(model)
    assert model["both"].grad.tolist() == [2.0, 2.0]
    assert model["other"].grad.tolist() == [2.0, 2.0]
    assert model["none"].grad is None
    assert model["frozen"].grad is None


def test_each_worker_and_each_start_has_data_of_its_own(monkeypatch):
    rows = list(documents(60))
    monkeypatch.setattr(train, "documents", lambda _, seed: (rows[i] for i in default_rng(seed).permutation(len(rows))))

    def first(**options):
        return [group.texts for group, _ in islice(Examples(None, None, 0, **options).groups, 3)]

    assert first() == first()
    assert len({str(first(worker=worker, n_workers=2, start=start)) for worker in (0, 1) for start in (0, 900)}) == 4


def test_of_statements_about_reports_nothing_is_asked(monkeypatch):
    rows = list(documents(60))
    monkeypatch.setattr(train, "documents", lambda *_: iter(rows * 9))
    examples = Examples(None, None, 0, start=train.COMPARE_FIRST, relations=0.5)
    asked = {(group.kinds[0] in ("true", "false"), protocol) for group, protocol in islice(examples.groups, 100)}
    assert asked == {(True, ALONE), (False, "compare"), (False, "yes_no"), (False, "choose")}


def test_an_interrupted_run_goes_on_with_what_it_knew_and_the_rate_it_is_given(tmp_path):
    def run(lr):
        torch.manual_seed(0)
        model = torch.nn.ModuleDict({"bert": torch.nn.Linear(2, 2), "merit": torch.nn.Linear(2, 1)})
        return model, optimizer_of(model, lr)

    def step(model, optimizer):
        model["merit"](model["bert"](torch.ones(2))).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    first = run(0.1)
    step(*first)
    keep(tmp_path / "checkpoint.pt", *first, step=1, n_seen=7)
    again = run(0.02)
    assert restored(tmp_path / "checkpoint.pt", *again) == (1, 7)
    assert [parameters["base"] for parameters in again[1].param_groups] == [0.02, 0.1]
    for _, optimizer in (first, again):
        for parameters in optimizer.param_groups:
            parameters["lr"] = 0.01
    step(*first)
    step(*again)
    for one, other in zip(first[0].parameters(), again[0].parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def test_a_row_of_the_log_has_losses_since_the_last_and_tokens_since_the_start():
    group = SimpleNamespace(task="dialogue", attribute="overall")
    made = SimpleNamespace(plan=SimpleNamespace(n_tokens=100), gaps=[0.5, 0.0])
    tally = Tally()
    tally.add(
        [(group, made), (group, made)], Lesson(None, [{"merit": 0.5}, {"merit": 0.7, "even": 0.1}], [1, 0], [1, 2])
    )
    first = tally.row(50)
    tally.add([(group, made)], Lesson(None, [{"merit": 0.2}], [0], [0]))
    second = tally.row(100)
    assert (first["loss"], first["sign"]) == ({"merit": 0.6, "even": 0.1}, {"dial/overa": 0.33})
    assert (first["tokens"], first["labels"]) == (200, 4)
    assert (second["loss"], second["sign"]) == ({"merit": 0.2}, {})
    assert (second["step"], second["tokens"], second["labels"]) == (100, 300, 6)


def test_weak_replies_are_read_from_a_file(tmp_path):
    file = tmp_path / "replies.jsonl"
    file.write_text("".join(json.dumps({"text": text}) + "\n" for text in ("I think so.", "It is a good movie.")))
    assert read_replies(file) == ["I think so.", "It is a good movie."]
    assert read_replies(None) == []


SAID = "That is what I have read as well.\nAnd who was it that found the harbour?\nI do not know who it was.\n"


class Parrot:
    """Writes the same things to any history, and all but the first and the last, which are equal, are no good."""

    def __init__(self, tokenizer, last="I like it there.\n"):
        long = " ".join(["it"] * LIMITS["dialogue"][1])
        texts = ["I like it there.\nAnd", "I like it there. And", "I like it and\n", "Yes.\n", f"I like {long}.\n"]
        texts += ["I like it there.\n"] * 2 + [last]
        rows = [tokenizer(text)["input_ids"] for text in texts]
        longest = max(map(len, rows))
        self.rows = [[*row, *[tokenizer.eos_token_id] * (longest - len(row))] for row in rows]

    def generate(self, histories, **_):
        return torch.cat([histories, torch.tensor(self.rows * (len(histories) // 8))], dim=1)


def test_weak_replies_are_whole_and_not_too_short():
    tokenizer = tokenizer_of([SAID])
    long = SAID * (2 + weak_replies.N_HISTORY // len(tokenizer(SAID)["input_ids"]))
    found = list(weak_replies.replies(Parrot(tokenizer), tokenizer, [long], 200))
    assert found == ["I like it there."] * len(weak_replies.TOP_P)  # once in each way of drawing words
    assert len(list(weak_replies.replies(Parrot(tokenizer), tokenizer, [long], 4))) == 4
    parrot = Parrot(tokenizer, last="And who was it?\n")  # it has two good ones, of which one is wanted
    assert len(list(weak_replies.replies(parrot, tokenizer, [long], 4))) == 4


def test_conversations_are_turns_without_names(tmp_path):
    rows = [
        {"kind": "dialogue", "source": source, "text": f"A: Hello {n}.\nB: Hi there."}
        for n, source in enumerate(("alexa/Topical-Chat", "another", *["jfainberg/self_dialogue_corpus"] * 2))
    ]
    with lzma.open(tmp_path / "dialogue-00.jsonl.xz", "wt", encoding="utf-8") as lines:
        lines.write("".join(json.dumps(row) + "\n" for row in rows))
    assert weak_replies.conversations(tmp_path) == ["Hello 0.\nHi there.\n", "Hello 3.\nHi there.\n"]


def test_a_teacher_answers_for_its_tasks_as_the_engine_does_and_leaves_the_others(dtype):
    nano = resource("data/nano")
    teacher = train.Teacher(nano, ["dialogue"])
    model, tokenizer, _ = train.further(nano)
    counted = Counted(model.config.synthscore["counts"], tokenizer)
    texts = ("Yes, and it was built in 1912 by two brothers.", "I like it, too.")
    context = "A: Have you seen the old pier?\nB: Which one do you mean?"
    group = Group("dialogue", "engagingness", context, "It dates from 1912.", texts, (0.0, 0.5), ("", ""))
    templates = templates_of_tasks()["dialogue"]
    made = example(group, "compare", templates, tokenizer, counted=counted)
    taught = teacher(group, made)
    asked = [Prompt(text) for _, _, text in prompts(group, "compare", templates)]
    said = label_log_probs(open_engine("nano", dtype="float32"), asked, LABELS["compare"])
    right = np.exp(said.log_probs) / np.exp(said.log_probs).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(taught.answers, right, atol=1e-3)
    assert np.isnan(taught.severities).all()
    assert teacher(replace(group, task="summarization"), made) is made
    assert teacher(replace(group, kinds=(WRITTEN_FOR_THIS, WRITTEN_FOR_THIS)), made) is made
    unasked = replace(made, protocol=ALONE)
    assert teacher(group, unasked) is unasked


def save_smallest_judge(folder):
    """A judge of nano's kind, with its words, of one layer that has learnt nothing."""
    nano = resource("data/nano")
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1}
    torch.manual_seed(0)
    BertForMaskedLM(BertConfig.from_pretrained(nano, **sizes)).float().save_pretrained(folder)
    AutoTokenizer.from_pretrained(nano).save_pretrained(folder)


def test_three_steps_are_taken_and_change_what_is_trained_alone(dtype, tmp_path, monkeypatch):
    rows = list(documents(60))
    monkeypatch.setattr(train, "documents", lambda *_: iter(rows * 9))
    monkeypatch.setattr(train, "written", lambda _: [])
    computed_in = set()
    states = train.last_hidden

    def watched(model, plans, of):
        computed_in.add((of, torch.is_autocast_enabled("cpu")))
        return states(model, plans, of)

    monkeypatch.setattr(train, "last_hidden", watched)
    start, work = tmp_path / "start", tmp_path / "work"
    save_smallest_judge(start)
    work.mkdir()
    chosen = {"start": start, "teacher": start, "teach": ["dialogue", "summarization", "story"], "work": work}
    numbers = {"steps": 3, "tokens": 300, "lr": 1e-3, "seed": 0, "workers": 1, "written": 0.0, "relations": 0.0}
    unused = {"corpora": tmp_path, "weak_replies": None, "snli": None, "entailment": 0.0, "without": [], "out": None}
    train.train(0, argparse.Namespace(**chosen, **numbers, **unused))
    in_bfloat16 = dtype is torch.bfloat16
    assert computed_in == {(torch.float32, False), (dtype, in_bfloat16)}  # the teacher; the steps
    before, after = (BertForMaskedLM.from_pretrained(each, dtype=torch.float32) for each in (start, work / "out"))
    words = "bert.embeddings.word_embeddings.weight"
    same = {name for name, value in before.named_parameters() if torch.equal(value, after.get_parameter(name))}
    assert all(value.isfinite().all() for value in after.parameters())
    assert "bert.encoder.layer.0.attention.self.query.weight" not in same
    torch.testing.assert_close(after.get_parameter(words), before.get_parameter(words).bfloat16().float())
