"""TRL: completions -> rewards, for GRPOTrainer, RLOOTrainer and whatever else takes `reward_funcs`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from ..errors import unusable
from ..types import blank, grouped
from .mount import Mount, row_of

UNSCORED = ("none", "mean")
EMPTY = 0.0  # of a completion without a word, or the least of its call where that is less: to say nothing must not pay


@dataclass(frozen=True, kw_only=True)
class Reward(Mount):
    """A reward function: the score on the rung scale, and None where there is none, which TRL leaves out.

    context_key : column of the dataset that holds ids of contexts; without it, the prompt is the context
    unit_scale : rewards from 0 (the worst rung, or worse) to 1 (the best, or better), not on the rung scale
    unscored : what a completion without a score is paid. "none": nothing, so that TRL leaves it out where no other
        function rewards it, and counts 0 for it where one does. "mean": the mean of the scored completions of the same
        prompt, or of the call where there are none, which makes no difference to what is learnt from the others
    """

    context_key: str = "context_id"
    unit_scale: bool = False
    unscored: str = "none"

    def __post_init__(self) -> None:
        if self.unscored not in UNSCORED:
            raise unusable("unscored", self.unscored, f"one of {', '.join(UNSCORED)}")

    @property
    def __name__(self) -> str:
        """What TRL calls the reward in its logs."""
        return f"synthscore-{self.attribute}" if self.attribute else "synthscore"

    def __call__(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        log_extra: Callable[[str, list[Any]], None] | None = None,
        **columns: Any,
    ) -> list[float | None]:
        """One reward a completion. prompts, completions : texts, or lists of messages. log_extra : of TRL"""
        texts = [_text(completion) for completion in completions]
        contexts = columns.get(self.context_key) or [None] * len(texts)
        rows = [
            row_of(index, text, context_id=context_id, prompt=prompt)
            for index, (text, context_id, prompt) in enumerate(zip(texts, contexts, prompts, strict=True))
            if not blank(text)
        ]
        scores = {int(row["id"]): score for row, score in zip(rows, self.scores(rows), strict=True)}
        if log_extra is not None:
            words = {index: score.reason or score.status for index, score in scores.items()}
            log_extra("synthscore", [words.get(index, "empty") for index in range(len(texts))])
        found = {index: self.unit(score) if self.unit_scale else score.value for index, score in scores.items()}
        least = min([EMPTY, *(value for value in found.values() if value is not None)])
        rewards = [found.get(index, least) for index in range(len(texts))]
        if self.unscored == "none":
            return rewards
        groups = [repr(about) for about in zip(prompts, contexts, strict=True)]
        return _with_means(rewards, groups)


def reward(**columns: Any) -> list[float | None]:
    """For `trl grpo --reward_funcs synthscore.integrations.trl.reward`: Reward.from_environment()."""
    return Reward.from_environment()(**columns)


reward.__name__ = "synthscore"


def _with_means(rewards: Sequence[float | None], groups: Sequence[str]) -> list[float | None]:
    """In the place of None the mean of the group, or of all where the group has none; None where nothing has one."""
    of_all = [value for value in rewards if value is not None]
    pairs = zip(rewards, groups, strict=True)
    of_group = grouped((group, value) for value, group in pairs if value is not None)
    found: list[float | None] = []
    for value, group in zip(rewards, groups, strict=True):
        known = of_group.get(group, of_all)
        found.append(value if value is not None or not known else fmean(known))
    return found


def _text(completion: Any) -> str:
    """What the model said last: of messages, the last one's content, which may be in blocks."""
    content = completion
    if not isinstance(completion, str):
        content = completion[-1]["content"] if completion else ""
    if isinstance(content, list):
        content = "\n".join(str(block["text"]) for block in content if "text" in block)
    return content or ""
