"""Which parameters of a chat a server takes: learnt from what it refuses when it is opened, from no list of models.

A model that reasons may report no log-probabilities, and take no temperature, until it is asked with the reasoning
effort "none"; some name the limit of tokens otherwise, or take no stop strings. Pure: no network here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...errors import ServerError

OF_LOG_PROBS = {"logprobs", "top_logprobs"}
CONSTRAINTS = {"response_format", "structured_outputs", "regex", "grammar"}
"""What makes an answer in words one of the labels: a server takes one of these, or none."""
_OPTIONAL = {"temperature", "top_p", "seed", "stop", *CONSTRAINTS}  # what a request can do without
_CHANGES_TEXTS = {"temperature", "top_p"}
_REFUSALS = {400, 403, 422}  # 403: how o4-mini refuses log-probabilities
_NAMES = re.compile(
    r"\b(temperature|top_p|seed|stop|(?:top_)?logprobs|max_(?:completion_)?tokens|reasoning(?:_effort)?"
    r"|response_format|structured_outputs|regex|grammar)\b"
)


@dataclass(slots=True)
class Parameters:
    """How requests of one purpose, judging or writing, are sent to one server.

    limit : the name of the limit of tokens. effort : sent as reasoning_effort; "": not sent, None: nor to be tried
    wanted : the effort that the user asks for, which is not given up; "": none
    without : parameters that are left out
    """

    limit: str = "max_tokens"
    effort: str | None = ""
    wanted: str = ""
    without: set[str] = field(default_factory=set)

    @classmethod
    def asked_for(cls, effort: str) -> Parameters:
        """With the reasoning effort that the user asks for; "": none."""
        return cls(effort=effort, wanted=effort)

    def sent(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The body of a request as this server takes it."""
        taken = {name: value for name, value in body.items() if name not in self.without}
        if "max_tokens" in taken:
            taken[self.limit] = taken.pop("max_tokens")
        return taken | ({"reasoning_effort": self.effort} if self.effort else {})

    def learn(self, error: ServerError) -> bool:
        """Ask otherwise from now on, as a failed request wants it; False where that names nothing that can be changed.

        First the reasoning effort "none" is tried, for with that a server may take the rest.
        """
        named = named_parameters(error)
        if "max_tokens" in named and self.limit == "max_tokens":
            self.limit = "max_completion_tokens"  # OpenAI's newer models; others know max_tokens only
        elif self.effort == "" and named & {"temperature", "top_p", "reasoning", *OF_LOG_PROBS}:
            self.effort = "none"
        elif new := (named & _OPTIONAL) - self.without:
            self.without |= new
        elif "reasoning_effort" in named and self.effort and not self.wanted:
            self.effort = None
        else:
            return False
        return True

    @property
    def changes_texts(self) -> str:
        """The parameters left out without which other texts are drawn, for signatures. A limit has another name only, a
        text is ended at its stop strings here, and what a server makes of a seed is its affair anyway."""
        return ",".join(sorted(self.without & _CHANGES_TEXTS))


def named_parameters(error: ServerError) -> set[str]:
    """The parameters that a request failed for: that which the server reports as such, else those in its words."""
    if reported := _NAMES.fullmatch(error.parameter.replace(".", "_")):
        return {reported[0]}
    return set(_NAMES.findall(str(error))) if error.status in _REFUSALS else set()
