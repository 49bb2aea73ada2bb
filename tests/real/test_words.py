"""A judge without log-probabilities, around a real model's own: its answers in words come to the exact scores."""

import numpy as np
import pytest

from benchmarks.routes import scored, texts
from synthscore.engine import Answers, Capabilities, Generation, Question
from synthscore.engines.words import InWords
from synthscore.judging.asking import Asking
from synthscore.signature import Signature

pytestmark = pytest.mark.slow


class Sayer:
    """Says a label that it draws by the model's exact probabilities, from the seed of the question alone."""

    signature = Signature.of(model="sayer")
    capabilities = Capabilities(judges=False)

    def __init__(self, model):
        self.model, self.probs = model, {}

    def answer(self, questions, progress=None):
        new = {q.prompt: Question(q.prompt, q.labels) for q in questions if q.prompt not in self.probs}
        for prompt, answer in zip(new, self.model.answer(list(new.values())).rows, strict=True):
            weights = np.exp(answer.log_probs)
            self.probs[prompt] = weights / weights.sum()
        return Answers([self.say(question) for question in questions])

    def say(self, question):
        draw = np.random.default_rng(question.seed).random()
        label = question.labels[int(np.searchsorted(self.probs[question.prompt].cumsum(), draw))]
        return Generation(label, "stop", 1)


def test_scores_of_answers_in_words_come_to_the_exact_ones_as_votes_grow(smollm):
    """In one order, for both are averaged otherwise in words; as one over the root of the number of votes."""
    asking, rows = Asking("yes_no", both_orders=False), texts(6)
    sayer = Sayer(smollm)
    exact = np.array([score.value for score in scored(smollm, rows, asking)])
    errors = {}
    for n_votes in (1, 10, 1000):
        scores = scored(InWords(sayer, n_votes), rows, asking)
        assert all(score.stderr is not None for score in scores)
        errors[n_votes] = np.sqrt(np.mean((np.array([score.value for score in scores]) - exact) ** 2))
    assert errors[1] > errors[10] > errors[1000]
    assert errors[1000] < 0.1
    assert errors[1000] < 3 * errors[1] / np.sqrt(1000)
