"""TRL: completions -> rewards, for GRPOTrainer, RLOOTrainer and whatever else takes `reward_funcs`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import unusable
from ..ladders.references import References
from ..scoring.scorer import Scorer, read_targets
from ..types import Ladder, Score, Target, blank
from .mount import Mount, row_of

EMPTY = 0.0  # of a completion without a word, or the least of its call where that is less: to say nothing must not pay


@dataclass(frozen=True, slots=True)
class Drawn:
    """Some rungs of each ladder, by chance: the same levels of all ladders of a length. n : how many. seed : whole
    numbers from 0"""

    n: int
    seed: tuple[int, ...]

    def levels(self, n_rungs: int) -> list[int]:
        """Rising, from 1."""
        drawn = np.random.default_rng([*self.seed, n_rungs]).permutation(n_rungs)[: self.n]
        return sorted(int(index) + 1 for index in drawn)

    def ladder(self, ladder: Ladder) -> Ladder:
        """Of these rungs alone, numbered from 1."""
        rungs = [ladder.rungs[level - 1] for level in self.levels(ladder.n_rungs)]
        return replace(ladder, rungs=tuple(replace(rung, level=new) for new, rung in enumerate(rungs, 1)))

    def value(self, among: float, n_rungs: int) -> float:
        """A score among these rungs, as good as which -> on the scale of the whole ladder."""
        levels = self.levels(n_rungs)
        beyond = min(among - 1, 0.0) + max(among - len(levels), 0.0)
        return float(np.interp(among, range(1, len(levels) + 1), levels)) + beyond


@dataclass(frozen=True, kw_only=True)
class Reward(Mount):
    """A reward function: the score on the rung scale, and None where there is none, which TRL leaves out.

    context_key : column of the dataset that holds ids of contexts; without it, the prompt is the context
    unit_scale : rewards from 0 (the worst rung, or worse) to 1 (the best, or better), not on the rung scale
    rungs_per_step : at each step of the trainer, compare with so many rungs, the same in all contexts and on all ranks,
        drawn anew for the next step; a text as good as one of them still gets that rung's number. None: with all
    seed : of what is drawn
    raises : InputError for less than 2 rungs, or together with a scale, which is of whole ladders
    """

    context_key: str = "context_id"
    unit_scale: bool = False
    rungs_per_step: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.rungs_per_step is not None and (self.rungs_per_step < 2 or self.scale is not None):
            expected = "2 or more, or None" if self.scale is None else "None beside a scale, which is of whole ladders"
            raise unusable("rungs_per_step", self.rungs_per_step, expected)

    @property
    def __name__(self) -> str:
        """What TRL calls the reward in its logs."""
        return f"synthscore-{self.attribute}" if self.attribute else "synthscore"

    def __call__(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        log_extra: Callable[[str, list[Any]], None] | None = None,
        trainer_state: Any = None,
        **columns: Any,
    ) -> list[float | None]:
        """One reward a completion. prompts, completions : texts, or lists of messages. trainer_state : of TRL, as
        log_extra; rungs are drawn by its global_step"""
        texts = [_text(completion) for completion in completions]
        contexts = columns.get(self.context_key) or [None] * len(texts)
        rows = [
            row_of(index, text, context_id, prompt)
            for index, (text, context_id, prompt) in enumerate(zip(texts, contexts, prompts, strict=True))
        ]
        written = [index for index, text in enumerate(texts) if not blank(text)]
        found = self._scores([rows[index] for index in written], trainer_state) if written else []
        scores = dict(zip(written, found, strict=True))
        if log_extra is not None:
            said = {index: score.reason or score.status for index, score in scores.items()}
            log_extra("synthscore", [said.get(index, "empty") for index in range(len(texts))])
        rewards = {index: self.unit(score) if self.unit_scale else score.value for index, score in scores.items()}
        least = min([EMPTY, *(value for value in rewards.values() if value is not None)])
        return [rewards.get(index, least) for index in range(len(texts))]

    def _scores(self, rows: Sequence[Mapping[str, Any]], trainer_state: Any) -> list[Score]:
        if self.rungs_per_step is None:
            return self.scores(rows)
        if trainer_state is None:
            expected = "the state of a trainer, by whose step rungs are drawn. Take GRPOTrainer or RLOOTrainer of TRL"
            raise unusable("trainer_state", None, expected)
        whole, drawn = self.scorer, Drawn(self.rungs_per_step, (self.seed, int(trainer_state.global_step)))
        wanted = {target.context_id for target in read_targets(rows) if isinstance(target, Target)}
        ladders = {
            each.context_id: each
            for each in whole.references.filter(task=whole.task.name, attribute=whole.attribute)
            if each.context_id in wanted
        }
        # Of its own, so that another mount's rungs stay; kept, so that who is late is not asked about beside the next.
        scorer = self._kept(lambda: _own(whole), self.rungs_per_step, self.seed)
        scorer.references = References(tuple(map(drawn.ladder, ladders.values())), whole.references.source)
        return [
            score
            if score.value is None
            else replace(score, value=drawn.value(score.value, ladders[score.context_id].n_rungs))
            for score in self._in_time(scorer, rows)
        ]


def reward(**columns: Any) -> list[float | None]:
    """For `trl grpo --reward_funcs synthscore.integrations.trl.reward`: Reward.from_environment()."""
    return Reward.from_environment()(**columns)


reward.__name__ = "synthscore"


def _own(scorer: Scorer) -> Scorer:
    """Of the same judge, with calls of its own."""
    own = copy(scorer)
    vars(own).pop("_batcher", None)
    return own


def _text(completion: Any) -> str:
    """What the model said last: of messages, the last one's content, which may be in blocks."""
    said = completion if isinstance(completion, str) else completion[-1]["content"] if completion else ""
    if isinstance(said, list):
        said = "\n".join(str(block["text"]) for block in said if "text" in block)
    return said or ""
