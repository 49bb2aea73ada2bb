"""Answers in words: what counts as a label, and how often it was said."""

import math

import numpy as np
import pytest

from synthscore.engine import Capabilities, Generation, LabelAnswer, Prompt, Question, capabilities_of, label_log_probs
from synthscore.engines.words import LONG, SHORT, InWords, count_votes, cue_of, read_label, sample_seed
from synthscore.errors import EngineError, InputError
from synthscore.judging.asking import Asking, Pair, ask
from synthscore.judging.templates import Templates, load_task
from synthscore.signature import Signature
from synthscore.store.engine import StoredEngine
from synthscore.store.file import Store
from synthscore.types import Context
from tests.fakes import FakeEngine

LABELS = ("Better", "Worse", "Similar")


def said(text, finish_reason="stop"):
    return Generation(text, finish_reason, 5)


@pytest.mark.parametrize(
    "text",
    [
        "Better",
        " better\n",
        "**Better**.",
        "Verdict: Better",
        "The second text is worse in its first line.\n\nFinal verdict: **Better**",
        '{"verdict": "Better"}',
        "<think>Worse? No.</think>\nBetter",
        "'Better'",
    ],
)
def test_a_last_line_that_is_a_label_is_read(text):
    assert read_label(said(text), LABELS) == "Better"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Better or Worse",
        "Better\nand that is why",
        "The second text is better",
        "Not better",
        "Better, Worse, Similar",
        '{"verdict": "Better", "other": "Worse"}',
        '{"verdict": ["Better"]}',
        '{"verdict": "Best"}',
        "I cannot judge this.",
    ],
)
def test_what_is_no_label_is_none(text):
    assert read_label(said(text), LABELS) is None


@pytest.mark.parametrize("reason", ["length", "refusal"])
def test_a_cut_or_refused_answer_is_no_vote_whatever_it_says(reason):
    assert read_label(said("Better", reason), LABELS) is None


def test_a_grade_is_read_from_text_and_from_json():
    grades = ("1", "2", "3", "4", "5")
    assert [read_label(said(text), grades) for text in ("4", "Rating: 4", '{"rating": 4}', "4.5", "4/5")] == [
        "4",
        "4",
        "4",
        None,
        None,
    ]


def test_votes_are_frequencies_and_the_mass_is_the_share_of_samples_that_were_read():
    answer = count_votes(LABELS, [said("Better"), said("better"), said("Similar"), said("perhaps")])
    assert answer == LabelAnswer([math.log(2 / 4), -math.inf, math.log(1 / 4)], n_samples=3)
    assert sum(map(math.exp, answer.log_probs)) == pytest.approx(3 / 4)


def test_more_than_a_third_of_failed_samples_is_no_answer_and_a_third_is_one():
    one_of_three = count_votes(LABELS, [said("Better"), said("?"), said("Better")])
    assert one_of_three.n_samples == 2
    two_of_four = count_votes(LABELS, [said("Better"), said("?"), said("Better"), EngineError("gone")])
    assert isinstance(two_of_four, EngineError)
    assert "2 of 4 answers in words are no label; the first: the answer ends in '?'" in str(two_of_four)


@pytest.mark.parametrize(("reason", "words"), [("length", "was cut after 5 tokens"), ("refusal", "refused to answer")])
def test_a_question_without_a_vote_says_why(reason, words):
    assert words in str(count_votes(LABELS, [said("Bet", reason)]))


class Speaker(FakeEngine):
    """Answers Better to two samples of three, and Worse to the others."""

    def __init__(self):
        super().__init__(writer=self.speak)

    def speak(self, prompt, seed):
        number = next(n for n in range(10) if sample_seed(Question(prompt, LABELS), n) == seed)
        return "Worse" if number % 3 == 2 else "Better"


def test_samples_are_questions_of_their_own_so_that_more_votes_ask_only_for_the_rest(tmp_path):
    speaker = Speaker()
    prompts = [Prompt("one"), Prompt("two")]
    with Store(tmp_path / "answers.sqlite") as store:
        first = label_log_probs(InWords(StoredEngine(speaker, store), 3), prompts, LABELS)
        assert speaker.n_written == 6
        more = label_log_probs(InWords(StoredEngine(speaker, store), 5), prompts, LABELS)
        assert speaker.n_written == 10
    np.testing.assert_allclose(first.probs, [[2 / 3, 1 / 3, 0]] * 2)
    np.testing.assert_allclose(more.probs, [[4 / 5, 1 / 5, 0]] * 2)
    assert first.n_samples.tolist() == [3, 3]
    assert more.n_samples.tolist() == [5, 5]


def test_the_signature_says_that_it_is_words_and_of_how_many():
    assert InWords(Speaker(), 3).signature == Speaker().signature.with_(answers="words", votes=3)


def test_an_engine_that_may_reason_gets_room_for_it():
    reasoning = Speaker()
    reasoning.capabilities = Capabilities(reasons=True)
    assert InWords(Speaker()).sampling.max_new_tokens == SHORT
    assert InWords(reasoning).sampling.max_new_tokens == LONG


def test_texts_are_passed_on_and_progress_counts_questions():
    speaker, shown = Speaker(), []
    InWords(speaker, 4).answer([Question(Prompt(str(n)), LABELS) for n in range(5)], shown.append)
    assert sum(shown) == 5


def test_the_store_reads_back_the_question_of_a_sample(tmp_path):
    with Store(tmp_path / "answers.sqlite") as store:
        engine = InWords(StoredEngine(Speaker(), store), 2)
        engine.answer([Question(Prompt("one"), LABELS)])
        (batch,) = store.batches()
        stored = store.read(batch)
        seeds = [sample_seed(Question(Prompt("one"), LABELS), number) for number in (0, 1)]
        assert [(row.question.labels, row.question.seed) for row in stored] == [(LABELS, seed) for seed in seeds]
        assert [row.key for row in stored] == [row.question.key(row.engine) for row in stored]
        (row, _) = store.rows()
        assert row["question"]["labels"] == list(LABELS)


def test_both_orders_are_asked_and_averaged_in_probability():
    """In log-odds a label that was never said in one order would have none, whatever the other order says."""
    speaker = Speaker()
    pair = Pair(Context("c", "a context"), "coherence", "one text", "another")
    templates = Templates(load_task("summarization"))
    verdicts = ask([pair], InWords(speaker, 3), templates)
    assert verdicts.by_order.shape == (2, 1, 3)
    np.testing.assert_allclose([verdicts.better[0], verdicts.worse[0]], [0.5, 0.5])
    assert verdicts.n_samples.tolist() == [[3], [3]]
    assert dict(verdicts.signature.parts)["orders"] == "2,probabilities"
    one_order = ask([pair], InWords(speaker, 3), templates, Asking(both_orders=False))
    assert one_order.by_order.shape == (1, 1, 3)


def test_an_exact_judge_has_no_number_of_samples_and_asks_in_one_order():
    pair = Pair(Context("c", "a context"), "coherence", "one text", "another")
    verdicts = ask([pair], FakeEngine(), Templates(load_task("summarization")))
    assert verdicts.answers.n_samples is None
    assert verdicts.n_samples.tolist() == [[math.inf]]


def test_questions_do_not_share_the_seeds_of_their_samples():
    """With one seed for the first samples of all questions, a draw near the end of the dice would be so for all."""
    seeds = {sample_seed(Question(Prompt(str(n)), LABELS), number) for n in range(100) for number in range(3)}
    assert len(seeds) == 300


def test_no_votes_are_refused():
    with pytest.raises(InputError, match="n_votes is 0, expected at least 1"):
        InWords(Speaker(), 0)


def test_capabilities_are_those_of_a_judge_in_words():
    assert capabilities_of(InWords(Speaker())) == Capabilities(answers="words")
    assert Signature.parse(str(InWords(Speaker()).signature)).part("votes") == "1"


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("Urteil: Besser", "Besser"),
        ("Ich lese.\n**Urteil:** schlechter.", "Schlechter"),
        ("Verdict: Gleich", "Gleich"),  # what models say out of habit
        ("Text 1: Besser", None),
        ("Urteil: Text 1 ist besser", None),
    ],
)
def test_an_answer_may_repeat_the_words_that_the_prompt_ends_with(text, label):
    cue = cue_of(Prompt("Welcher Text ist besser?\n\nUrteil:\n"))
    assert cue == "Urteil:"
    labels = ("Besser", "Schlechter", "Gleich")
    assert read_label(said(text), labels, cue) == label


def test_a_prompt_that_ends_otherwise_has_no_cue():
    assert [cue_of(Prompt(text)) for text in ("Better or worse?", "", "1:\n\nsaid")] == [""] * 3
