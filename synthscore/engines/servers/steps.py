"""What was reported of next tokens -> what is known of each label. Pure arithmetic: no network, no model.

A server reports the log-probabilities of chosen tokens, or of its k most probable ones. A token that is not among them
is *unknown*, never impossible: it is at most as probable as the last one reported, and all unknown ones together have
at most what the others left over.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from ...engine import MOST_LOG_PROB, MOST_MASS, LabelAnswer, OtherToken
from ...types import FloatArray
from ..tokens import Ids, LabelForms, check_distinct

Token = TypeVar("Token", int, str)
Path = tuple[str, ...]  # tokens as text, one after the other

_ROUNDING = 1e-5  # of a sum of float32 probabilities: what is left over is never less than this
_NOT_WORTH_ASKING = math.log(1e-6)
_MOST_MAGNIFIED = 20.0  # rounding of told probabilities: 2e-7 becomes 4e-6 nats
_MOST_BIAS = 60.0  # nats; what is not reported even so has a logit of -inf


@dataclass(frozen=True, slots=True)
class NextToken(Generic[Token]):
    """What was reported of the token at one place.

    reported : token -> log-probability, nats; the most probable first
    unseen : the most that one token that is not reported can have, nats; -inf where all that matter are reported
    rest : the most that all of those can have together, nats
    """

    reported: Mapping[Token, float]
    unseen: float = -math.inf
    rest: float = -math.inf

    @classmethod
    def of_top(cls, entries: Sequence[tuple[Token, float]], k: int) -> NextToken[Token]:
        """From the most probable tokens; those beyond the k-th (a sampled token that came along) are reported as well.

        Entries of the same token (two tokens that are spelled alike) are added up.
        raises : ValueError, for what cannot be log-probabilities
        """
        ordered = _checked(entries)
        unseen = ordered[: max(k, 1)][-1][1]
        total = math.fsum(math.exp(log_prob) for _, log_prob in ordered)
        rest = math.log(max(1.0 - total, 0.0) + _ROUNDING)
        return cls(_merged(ordered), unseen, rest)

    @classmethod
    def of_chosen(cls, entries: Mapping[Token, float], wanted: Sequence[Token]) -> NextToken[Token]:
        """From chosen tokens. raises : ValueError, where one is missing, or for what cannot be log-probabilities"""
        if missing := sorted(set(wanted) - set(entries)):
            raise ValueError(f"no log-probabilities of the tokens {missing}, which were asked for")
        return cls(dict(_checked(list(entries.items()))))

    def most(self, n: int) -> float:
        """The most that n tokens that are not reported can have together, nats."""
        return min(math.log(n) + self.unseen, self.rest)


def unbiased(
    entries: Sequence[tuple[int, float]], bias: Mapping[int, float]
) -> tuple[NextToken[int], dict[int, float]]:
    """From probabilities that were reported with biases on the logits of some tokens; exact.

        q_i = p_i e^(b_i) / Z,  sum p = 1    =>    p_i = Z q_i e^(-b_i),  Z = 1 / (1 - sum_b q_i + sum_b q_i e^(-b_i))

    where sum_b is over the biased tokens alone; their mass, sum_b p_i, comes with it.

    entries : token and q, the most probable ones of all. bias : token -> b, nats, for each token that matters
    returns : the step, and biases to ask with again: none where these were good, all biased tokens being reported, and
        Z, which magnifies the rounding of the q, being at most _MOST_MAGNIFIED
    raises : ValueError, for what cannot be probabilities
    """
    if any(not 0 <= q <= 1.01 for _, q in entries):
        raise ValueError("a probability is not from 0 to 1")
    told = _merged(_checked([(token, math.log(q)) for token, q in entries if q > 0]))
    inside = [(math.exp(told[token]), b) for token, b in bias.items() if token in told]
    left = 1.0 + math.fsum(q * math.expm1(-b) for q, b in inside)
    log_z = -math.log(max(left, 1e-9))
    reported = {token: min(log_q - bias.get(token, 0.0) + log_z, 0.0) for token, log_q in told.items()}
    missing = [token for token in bias if token not in told]
    unseen = max((min(told.values()) - bias[token] + log_z for token in missing), default=-math.inf)
    ordered = dict(sorted(reported.items(), key=lambda entry: -entry[1]))
    step = NextToken(ordered, unseen, math.log(max(len(missing), 1)) + unseen)
    if left * _MOST_MAGNIFIED >= 1 and all(bias[token] >= _MOST_BIAS for token in missing):
        return step, {}
    better = {token: max(round(-3.0 - reported[token]), 0) for token in bias if token in told}  # each has .05 or more
    return step, {**better, **{token: min(2 * bias[token] + 4, _MOST_BIAS) for token in missing}}


def _checked(entries: Sequence[tuple[Token, float]]) -> list[tuple[Token, float]]:
    if not entries:
        raise ValueError("no log-probabilities, expected at least one token")
    for token, log_prob in entries:
        if math.isnan(log_prob) or log_prob > MOST_LOG_PROB:
            raise ValueError(f"token {token!r} has the log-probability {log_prob}, expected at most 0")
    total = math.fsum(math.exp(log_prob) for _, log_prob in entries)
    if total > MOST_MASS:
        raise ValueError(f"the probabilities of {len(entries)} tokens add up to {total:.4g}, expected at most 1")
    return sorted(entries, key=lambda entry: -entry[1])


def _merged(ordered: Sequence[tuple[Token, float]]) -> dict[Token, float]:
    reported: dict[Token, float] = {}
    for token, log_prob in ordered:
        reported[token] = float(np.logaddexp(reported[token], log_prob)) if token in reported else log_prob
    return reported


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """What is known of the labels of one question: each log P(label | prompt) lies in [least, most], in nats.

    other : the most probable token reported that begins no label, and its log-probability; None: there is none
    """

    least: FloatArray
    most: FloatArray
    other: tuple[int | str, float] | None

    def answer(self, spell: Callable[[Any], str]) -> LabelAnswer:
        """As the answer to the question. spell : makes text of the other token"""
        other = None if self.other is None else OtherToken(spell(self.other[0]), self.other[1])
        answer = LabelAnswer(self.most.tolist(), other)
        censored = self.least < self.most
        if censored.any():
            answer = answer._replace(censored=censored.tolist(), floors=self.least.tolist())
        return answer


def known_from_ids(forms: LabelForms, step: Callable[[Ids], NextToken[int]]) -> Known:
    """Labels from steps in token ids.

        log P(label) = log sum_form exp( sum_t log p(form_t | prompt, form_<t) )

    step : the beginning of a form -> what was reported of the token after it; called once for each beginning, and only
        for those that are reported themselves
    """
    steps: dict[Ids, NextToken[int]] = {}
    rows = []
    for forms_of_label in forms.forms:
        reported: list[float] = []
        open_at: dict[Ids, tuple[float, int]] = {}  # beginning -> its log-probability, forms that go on unreported
        for form in forms_of_label:
            log_prob = 0.0
            for n, token in enumerate(form):
                start = form[:n]
                if start not in steps:
                    steps[start] = step(start)
                if token not in steps[start].reported:
                    open_at[start] = (log_prob, open_at.get(start, (0.0, 0))[1] + 1)
                    break
                log_prob += steps[start].reported[token]
            else:
                reported.append(log_prob)
        rows.append(_between(reported, [at + steps[start].most(n) for start, (at, n) in open_at.items()]))
    return _known(rows, steps[()], lambda token: token in forms.starts)


def next_tokens(forms: LabelForms, start: Ids) -> list[int]:
    """The tokens that may go on from the beginning of a form."""
    n = len(start)
    return sorted({form[n] for form in forms.all if len(form) > n and form[:n] == start})


def known_from_text(labels: Sequence[str], step: Callable[[Path], NextToken[str]], *, can_continue: bool) -> Known:
    """Labels from steps in text, where no tokenizer is at hand: token ids and borders are not known.

    A token that is spelled as the whole form is how the model writes the form. Where none is reported, a token that is
    spelled as its beginning ("Bet") may or may not be: what follows it is asked for (can_continue), and the form has
    the probability that the text begins with it, in whatever tokens. What was not asked is left open.

    step : the tokens that a form begins with -> what was reported of the token after them
    """
    check_distinct(labels, [[label] for label in labels], repr)
    forms = [(label, f" {label}") for label in labels]
    steps: dict[Path, NextToken[str]] = {(): step(())}

    rows = []
    for forms_of_label in forms:
        reported: list[float] = []
        left_open: list[float] = []
        open_at: dict[Path, tuple[float, int]] = {}
        for form in forms_of_label:
            places: list[tuple[Path, float]] = [((), 0.0)]
            while places:
                path, at = places.pop()
                if path not in steps:
                    steps[path] = step(path)
                here, rest = steps[path].reported, form[len("".join(path)) :]
                if rest in here:
                    reported.append(at + here[rest])
                    continue
                open_at[path] = (at, open_at.get(path, (0.0, 0))[1] + 1)
                for token, log_prob in here.items():
                    if not token or not rest.startswith(token):
                        continue
                    # A space at the end would not survive the chat template.
                    if can_continue and at + log_prob > _NOT_WORTH_ASKING and not token[-1].isspace():
                        places.append(((*path, token), at + log_prob))
                    else:
                        left_open.append(at + log_prob)
        left_open += [at + steps[path].most(n) for path, (at, n) in open_at.items()]
        rows.append(_between(reported, left_open))

    def begins(token: str) -> bool:
        return bool(token) and any(form.startswith(token) for pair in forms for form in pair)

    return _known(rows, steps[()], begins)


def _between(reported: list[float], left_open: list[float]) -> tuple[float, float]:
    least = float(np.logaddexp.reduce(reported)) if reported else -math.inf
    return least, min(float(np.logaddexp.reduce([least, *left_open])), 0.0) if left_open else least


def _known(rows: list[tuple[float, float]], first: NextToken[Token], begins: Callable[[Token], bool]) -> Known:
    other = next(((token, log_prob) for token, log_prob in first.reported.items() if not begins(token)), None)
    least, most = np.array(rows, dtype=np.float64).T
    return Known(least, most, other)
