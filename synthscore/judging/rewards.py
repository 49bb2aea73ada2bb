"""Rewards of texts -> answers about pairs, as a judge that is asked for labels gives them.

    P(Better) = sigma((r(target) - r(reference)) / tau)

A reward model reads each text by itself, so no order favours any, and its rewards have no scale of their own: the
rungs give them one. On a ladder, tau is the mean gap between its rungs' rewards in order of reward, so that
neighbouring rungs are one nat apart on average, P(Better) = 0.73; elsewhere (ranking, `doctor`) tau is 1, the unit in
which such models are trained (Bradley & Terry 1952). It never answers Similar.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..engine import Answers, Engine, LabelAnswer, Progress, Prompt, rewards
from ..errors import EngineError
from ..types import FloatArray

Place = tuple[Prompt, str, str]
"""What both texts of a pair are to be the reply to, target, reference."""


class Rewards:
    """Of the texts of some pairs: each text is read once, when a pair that needs it is first asked about.

    on_ladders : each reference is a rung, and all references with the same prompt are its ladder
    """

    def __init__(self, places: Sequence[Place], engine: Engine, *, on_ladders: bool) -> None:
        self.places = places
        self.engine = engine
        self._rungs: dict[Prompt, dict[str, None]] = {}
        if on_ladders:
            for prompt, _, rung in places:
                self._rungs.setdefault(prompt, {})[rung] = None  # a set that keeps the order
        self._found: dict[tuple[Prompt, str], float | Exception] = {}

    def answer(self, n_labels: int, asked: Sequence[tuple[int, bool]], progress: Progress | None = None) -> Answers:
        """As an engine answers questions on labels. The first stands for the lead of a pair's target, the second for
        that of its reference, a third has no probability.

        asked : pair, and whether the first label stands for the lead of the reference instead
        """
        self._read([place for place, _ in asked])
        if progress:
            progress(len(asked))
        return Answers([self._answer(n_labels, self.places[place], turned) for place, turned in asked])

    def _answer(self, n_labels: int, place: Place, turned: bool) -> LabelAnswer | EngineError:
        prompt, target, reference = place
        try:
            tau = self._tau(prompt) if prompt in self._rungs else 1.0
            ahead = (self._reward(prompt, target) - self._reward(prompt, reference)) / tau
            if turned:
                ahead = -ahead
        except EngineError as error:
            return error
        better = -np.logaddexp(0, -ahead)  # log sigma(ahead)
        worse = -np.logaddexp(0, ahead)
        if n_labels == 2:
            return LabelAnswer([better, worse])
        return LabelAnswer([better, worse, -np.inf])

    def _read(self, places: Sequence[int]) -> None:
        """Ask for what is missing."""
        needed: dict[tuple[Prompt, str], None] = {}
        for place in places:
            prompt, target, reference = self.places[place]
            for text in (target, reference, *self._rungs.get(prompt, ())):
                needed[prompt, text] = None
        missing = [question for question in needed if question not in self._found]
        prompts = [prompt for prompt, _ in missing]
        texts = [text for _, text in missing]
        self._found.update(zip(missing, rewards(self.engine, prompts, texts), strict=True))

    def _reward(self, prompt: Prompt, text: str) -> float:
        """raises : EngineError, where it is missing; as _tau, where there is no scale"""
        reward = self._found[prompt, text]
        if isinstance(reward, Exception):
            raise EngineError(str(reward))
        return reward

    def _tau(self, prompt: Prompt) -> float:
        """The mean gap between the rewards of the ladder's rungs, in order of reward. raises : EngineError"""
        known: FloatArray = np.array([self._reward(prompt, rung) for rung in self._rungs[prompt]])
        if np.ptp(known) == 0:
            raise EngineError(
                f"the rewards of the ladder's rungs give no scale: they are {known.tolist()}, expected two that "
                "differ. Take another reward model, or mend the ladder"
            )
        return float(np.ptp(known)) / (len(known) - 1)
