"""A judge without log-probabilities, around a real model's own: its answers in words come to the exact scores."""

import numpy as np
import pytest

from benchmarks.routes import scored
from synthscore.engine import Answers, Capabilities, EngineAround, Generation, Question
from synthscore.engines.words import InWords
from synthscore.judging.asking import Asking
from synthscore.signature import Signature
from tests.real.conftest import in_short

pytestmark = pytest.mark.slow


class Reading(EngineAround):
    """Reads each prompt once."""

    def __init__(self, engine):
        super().__init__(engine)
        self.read = {}

    def answer(self, questions, progress=None):
        new = [question for question in questions if question.prompt not in self.read]
        if new:
            answers = self.engine.answer(new).rows
            self.read |= {question.prompt: answer for question, answer in zip(new, answers, strict=True)}
        return Answers([self.read[question.prompt] for question in questions])


class Sayer:
    """Says a label that it draws by the exact probabilities of a model, from the seed of the question alone."""

    signature = Signature.of(model="sayer")
    capabilities = Capabilities(judges=False)

    def __init__(self, model):
        self.model = model

    def answer(self, questions, progress=None):
        exact = self.model.answer([Question(question.prompt, question.labels) for question in questions]).rows
        return Answers([self.say(*pair) for pair in zip(questions, exact, strict=True)])

    def say(self, question, exact):
        probs = np.exp(exact.log_probs)
        draw = np.random.default_rng(question.seed).random()
        label = question.labels[int(np.searchsorted((probs / probs.sum()).cumsum(), draw))]
        return Generation(label, "stop", 1)


def test_scores_of_answers_in_words_come_to_the_exact_ones_as_votes_grow(smollm):
    """In one order, for both are averaged otherwise in words; the error falls as one over the root of the votes."""
    model, asking, short = Reading(smollm), Asking("yes_no", both_orders=False), in_short(4)
    exact = np.array([score.value for score in scored(model, *short, asking)])
    errors = {}
    for n_votes in (1, 10, 1000):
        scores = scored(InWords(Sayer(model), n_votes), *short, asking)
        assert all(score.stderr is not None for score in scores)
        errors[n_votes] = np.sqrt(np.mean((np.array([score.value for score in scores]) - exact) ** 2))
    assert errors[1] > errors[10] > errors[1000]
    assert errors[1000] < 0.1
