"""A judge that answers in words is asked the same twice: does it contradict itself, and what are more votes worth?

`ask_twice` asks a dozen questions about pairs of rungs, each twice with another seed. How often the two answers differ,
compared with answers to different questions, gives their correlation rho, and n votes on one question then tell as much
as n / (1 + (n - 1) rho) questions. Read by `synthscore doctor`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ..engine import Progress, Question
from ..engines.words import InWords
from ..judging.asking import Asking, labels_of, prompt_of
from ..judging.templates import Templates
from ..ladders.references import References, find_task
from ..types import Ladder
from .pairs import in_turn, rung_pairs

N_QUESTIONS = 12


@dataclass(frozen=True, slots=True)
class Repeats:
    """Questions that were asked twice, each time with a seed of its own.

    n_asked : how many questions. n_read : those whose two answers were both labels
    n_differ : of these, the ones with two different labels
    label_counts : label -> how often it was the answer, of 2 n_read answers
    """

    n_asked: int
    n_read: int
    n_differ: int
    label_counts: Counter[str]

    @property
    def correlation(self) -> float | None:
        """The correlation of two answers to one question: 1 where they always agree, 0 where they agree no more than
        answers to two questions; None where nothing was read, or only one label was ever given.

            rho = 1 - P(two answers to one question differ) / P(two of all answers differ)
        """
        n = self.label_counts.total()
        if not n or not self.n_read:
            return None
        differ_by_chance = 1 - sum((count / n) ** 2 for count in self.label_counts.values())
        if not differ_by_chance:
            return None
        return max(1 - self.n_differ / self.n_read / differ_by_chance, 0.0)

    def worth(self, n_votes: int) -> float | None:
        """How many questions tell as much as n answers to one question: n / (1 + (n - 1) rho); None without rho."""
        rho = self.correlation
        if rho is None:
            return None
        return n_votes / (1 + (n_votes - 1) * rho)

    @property
    def words(self) -> str:
        """What to tell a user."""
        counts = f"{self.n_differ} of {self.n_read} questions that were asked twice got two different answers"
        three = self.worth(3)
        five = self.worth(5)
        if three is None or five is None:
            return f"{counts}; what more votes are worth cannot be told from that"
        return (
            f"{counts}: three votes tell as much as {three:.1f} questions, five as {five:.1f}, as far as so few tell. "
            "Other rungs and the other order come first (docs/servers.md)"
        )


def ask_twice(
    judge: InWords,
    ladders: References | Sequence[Ladder],
    asking: Asking,
    task: str | None = None,
    progress: Progress | None = None,
) -> Repeats:
    """Asks a dozen questions about pairs of rungs, of all attributes in turn, two samples of each.

    ladders : whose rungs are compared
    task : name of the task, or folder of one of your own; None: the task of each ladder
    raises : as Engine.answer
    """
    pairs = in_turn(rung_pairs(ladders).values())[:N_QUESTIONS]
    questions = []
    for pair in pairs:
        templates = Templates(find_task(ladders, task or pair.ladder.task), asking.prompts)
        prompt = prompt_of(pair.question(pair.ladder.attribute), templates, asking.protocol)
        questions.append(Question(prompt, labels_of(asking.protocol, templates.task)))
    answers = judge.ask_samples(questions, 2, progress)
    read = [(first, second) for first, second in answers if first is not None and second is not None]
    return Repeats(
        n_asked=len(questions),
        n_read=len(read),
        n_differ=sum(first != second for first, second in read),
        label_counts=Counter(label for both in read for label in both),
    )
