"""Comparisons -> rankings: the one table of methods, and `rank`, which applies one of them to each set of comparisons.

SciPy is loaded when a method is called, not when it is named.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from typing import Any, Literal, overload

import numpy as np

from .._version import __version__
from ..errors import InputError, RankingError, SynthscoreWarning
from ..signature import Signature
from ..types import FloatArray
from .bias import Debiasing, mean_debiasing, median_debiasing, pool, position_bias
from .comparisons import Comparisons
from .repeats import asked_alike, correlate_errors, weigh_repeats, weigh_samples
from .result import Ranking, Rankings
from .sets import ComparisonSets, Group

DEBIAS = ("none", "median", "mean", "gamma", "mle")
"""How a judge's favour for the first or second position is taken out (see `rank`)."""

STDERR = ("auto", "model", "bootstrap", "none")
RESAMPLES = 200
CHOICES: Mapping[str, tuple[str | None, ...]] = {
    "decisions": ("averaged", "per_call"),
    "prior": ("all", "observed", None),
}
"""Options of methods -> what they can be."""


@dataclass(frozen=True, slots=True)
class RankingMethod:
    """A way to make a ranking of comparisons; called with them, and with options, it makes one.

    name : in commands, signatures and Ranking.method. summary : one line for a list
    function : module and name, in this package
    options : name -> default, of those that `rank` takes; "decisions": what a win is, as in closed_form.win_ratio
    debias : how a favour for a position can be taken out. stderr : how standard errors can be found
    in_words : what it takes of sampled answers: each of them as a decision ("counts"), their frequencies with half an
        answer more for each text ("smoothed"), or nothing ("")
    """

    name: str
    summary: str
    function: str
    options: Mapping[str, Any] = field(default_factory=dict)
    debias: tuple[str, ...] = ("none", "median", "mean")
    stderr: tuple[str, ...] = ("bootstrap",)
    in_words: Literal["counts", "smoothed", ""] = ""

    def __call__(self, comparisons: Comparisons, **options: Any) -> Ranking:
        options = self.settle(options, sampled=bool(comparisons.sampled.any()))
        weighed, settings = self.weigh(comparisons, **options)
        ranking = self.formula(weighed, **options)
        return replace(
            ranking,
            n_comparisons=comparisons.n_comparisons,
            settings={**ranking.settings, **settings},
            signature=comparisons.signature,
        )

    @property
    def formula(self) -> Callable[..., Ranking]:
        """The method as published: every answer has the weight that its row has."""
        module, name = self.function.split(".")
        formula: Callable[..., Ranking] = getattr(import_module(f"{__package__}.{module}"), name)
        return formula

    @property
    def fast(self) -> Callable[..., Ranking]:
        """The formula without standard errors, where they would take time."""
        return partial(self.formula, stderr=None) if "model" in self.stderr else self.formula

    def settle(self, options: Mapping[str, Any], *, sampled: bool) -> dict[str, Any]:
        """The options, and the defaults of those that are not given. Of sampled answers each is a decision."""
        defaults = {**self.options}
        if sampled and "decisions" in defaults:
            defaults["decisions"] = "per_call"
        return {**defaults, **options}

    def weigh(self, comparisons: Comparisons, **options: Any) -> tuple[Comparisons, dict[str, float]]:
        """Comparisons in which a pair that was asked more often weighs what its answers are worth (repeats.py), and the
        rho that says how much; as they are where all pairs were asked equally often, or each call is a decision.

        Of sampled answers every pair does, in the unit of one decision: errors are then those of the pairs.
        raises : InputError for sampled answers, where this method does not take them
        """
        decisions = {**self.options, **options}.get("decisions")
        if comparisons.sampled.any():
            self.require_words()
            rho = 1.0 if decisions == "averaged" else correlate_errors(comparisons)
            weighed = weigh_samples(comparisons, rho)
            return weighed.smoothed() if self.in_words == "smoothed" else weighed, {"rho": rho}
        if decisions == "per_call" or asked_alike(comparisons):
            return comparisons, {}
        rho = 1.0 if decisions == "averaged" else correlate_errors(comparisons)
        return weigh_repeats(comparisons, rho), {"rho": rho}

    def require_words(self) -> None:
        """raises : InputError where this method does not take sampled answers"""
        if not self.in_words:
            able = ", ".join(name for name, method in METHODS.items() if method.in_words)
            raise InputError(
                f"{self.name} does not take answers in words, which are frequencies of a few samples: expected one of "
                f"{able}. Take bt, the default for them",
                field="method",
                value=self.name,
            )

    def check(self, options: Mapping[str, Any], *, debias: str = "none", stderr: str = "auto") -> None:
        """raises : InputError for what this method does not offer"""
        if unknown := sorted(options.keys() - self.options.keys()):
            offered = f"It takes {', '.join(self.options)}" if self.options else "It takes no options"
            raise InputError(f"{', '.join(unknown)} does nothing with method={self.name}. {offered}")
        for name, value in options.items():
            if value not in CHOICES.get(name, (value,)):
                shown = ", ".join(choice or "none" for choice in CHOICES[name])
                raise InputError(f"{name} is {value!r}, expected one of {shown}", value=value)
        if debias not in self.debias:
            able = ", ".join(name for name, method in METHODS.items() if debias in method.debias)
            seen = f"debias={debias} is for {able}" if able else f"debias is {debias!r}"
            raise InputError(f"{seen}, expected one of {', '.join(self.debias)} with {self.name}", value=debias)
        if stderr not in ("auto", "none", *self.stderr):
            expected = ", ".join(("auto", "none", *self.stderr))
            raise InputError(f"stderr is {stderr!r}, expected one of {expected} with {self.name}", value=stderr)


_HARD = {"decisions": "averaged"}
_MODELS = ("model", "bootstrap")

METHODS: Mapping[str, RankingMethod] = {
    method.name: method
    for method in (
        RankingMethod(
            "win-ratio", "share of comparisons won", "closed_form.win_ratio", _HARD, in_words="counts"
        ),
        RankingMethod("average-probability", "mean probability to win a comparison", "closed_form.average_probability"),
        RankingMethod("colley", "share of comparisons won, minding against whom", "closed_form.colley", _HARD),
        RankingMethod(
            "bt", "Bradley-Terry on who won", "bradley_terry.bradley_terry", {**_HARD, "prior": "all"}, stderr=_MODELS,
            in_words="counts",
        ),
        RankingMethod(
            "poe-bt", "Bradley-Terry on probabilities", "bradley_terry.soft_bradley_terry", debias=DEBIAS,
            stderr=_MODELS, in_words="smoothed",
        ),
        RankingMethod(
            "bt-ties", "Bradley-Terry on probabilities, with ties", "bradley_terry.bradley_terry_ties",
            stderr=_MODELS, in_words="counts",
        ),
        RankingMethod(
            "poe-g", "least squares on probabilities", "closed_form.gaussian",
            debias=("none", "median", "mean", "gamma"), stderr=_MODELS,
        ),
        RankingMethod(
            "poe-g-hard", "least squares on who won", "closed_form.hard_gaussian", _HARD, stderr=_MODELS,
            in_words="counts",
        ),
        RankingMethod(
            "likelihood", "the order under which the answers are most probable", "likelihood.likelihood_ranking"
        ),
    )
}  # fmt: skip
"""Methods by name."""


def default_method(sets: ComparisonSets) -> str:
    """poe-bt, but of answers in words bt, whose prior lets texts separate."""
    return "bt" if sets.sampled else "poe-bt"


def method_of(name: str) -> RankingMethod:
    """raises : InputError for one that is not in the table"""
    if name not in METHODS:
        raise InputError(f"method is {name!r}, expected one of {', '.join(METHODS)}", value=name)
    return METHODS[name]


@overload
def rank(comparisons: Comparisons, method: str | None = ..., **options: Any) -> Ranking: ...
@overload
def rank(comparisons: ComparisonSets, method: str | None = ..., **options: Any) -> Rankings: ...
def rank(
    comparisons: Comparisons | ComparisonSets,
    method: str | None = None,
    *,
    debias: str = "none",
    stderr: str = "auto",
    seed: int = 0,
    **options: Any,
) -> Ranking | Rankings:
    """What a method makes of comparisons: of sets of them, each by itself, rankings or the reasons why there are none.

    method : a name in METHODS; None: poe-bt, of answers in words bt. options : its own, as listed there
    debias : takes out a favour for a position that is the same in all sets. "median", "mean": shifts all log-odds, by
        what lets the first text win half of the calls, or by the logit of the mean probability; "gamma": gives poe-bt
        or poe-g that mean as their bias; "mle": poe-bt estimates it with the scores
    stderr : from the likelihood ("model"), from RESAMPLES resamples of the pairs ("bootstrap"), "none"; "auto": "model"
        for up to 3,000 candidates
    seed : of resamples
    Where pairs were asked unequally often, answers about one weigh what they are worth (repeats.py): `settings["rho"]`.
    raises : InputError for what the method does not offer, or a bias that cannot be estimated; for a single set of
        comparisons, what the method raises
    """
    sets = comparisons if isinstance(comparisons, ComparisonSets) else ComparisonSets((), {(): comparisons})
    method = method or default_method(sets)
    chosen = method_of(method)
    chosen.check(options, debias=debias, stderr=stderr)
    if seed < 0:
        raise InputError(f"seed is {seed}, expected 0 or more", value=seed)
    if sets.sampled:
        chosen.require_words()
    options = chosen.settle(options, sampled=sets.sampled)
    judge = sets.signature
    signature = (judge if judge.parts else Signature.of(synthscore=__version__)).with_(
        comparisons=sets.fingerprint, method=method, **options, debias=debias, stderr=stderr
    )
    bias, shift, shifted = None, None, sets.sets
    if any(map(len, sets.sets.values())):
        together = pool({"/".join(group) or "all": calls for group, calls in sets.sets.items()})
        bias = position_bias(together)
        shift = _estimate_shift(together, debias)
    if debias == "mle":
        options["bias"] = "mle"
    elif shift is not None and debias == "gamma":
        options["bias"] = shift.threshold if method == "poe-g" else shift.shift
    elif shift is not None:
        shifted = {group: shift.apply(calls) for group, calls in sets.sets.items()}

    def ranked(calls: Comparisons) -> Ranking:
        return replace(_with_errors(chosen, calls, options, stderr, seed), signature=signature)

    if isinstance(comparisons, Comparisons):
        return ranked(shifted[()])
    found: dict[Group, Ranking | str] = {}
    for group, calls in shifted.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it did not converge is in the result
            try:
                found[group] = ranked(calls)
            except (RankingError, InputError) as error:
                found[group] = str(error)
    ids = {group: calls.ids for group, calls in sets.sets.items()}
    return Rankings(
        by=sets.by,
        of=found,
        ids=ids,
        signature=signature,
        debias=debias,
        bias=bias,
        shift=shift,
        left_out=sets.left_out,
    )


def _estimate_shift(calls: Comparisons, debias: str) -> Debiasing | None:
    """Of log-odds, where one is estimated before scores are."""
    if debias in ("none", "mle"):
        return None
    return median_debiasing(calls) if debias == "median" else mean_debiasing(calls)


def _with_errors(
    method: RankingMethod, calls: Comparisons, options: Mapping[str, Any], stderr: str, seed: int
) -> Ranking:
    """raises : as the method"""
    if "model" in method.stderr:
        found = method(calls, **options, stderr=stderr if stderr in ("auto", "model") else None)
    else:
        found = method(calls, **options)
    if stderr != "bootstrap":
        return found
    weighed, _ = method.weigh(calls, **options)
    errors, n_ranked = bootstrap(partial(method.fast, **options), weighed, RESAMPLES, np.random.default_rng(seed))
    return replace(found, stderr=errors, settings={**found.settings, "resamples": n_ranked})


def bootstrap(
    method: Callable[[Comparisons], Ranking], comparisons: Comparisons, n: int, rng: np.random.Generator
) -> tuple[FloatArray, int]:
    """Ranks n resamples: as many pairs as there are, with replacement, each with all calls about it.

    returns : the standard deviation of each score over the replicates that have one, shape (N,), NaN with fewer than
        two; and how many replicates could be ranked
    warns : SynthscoreWarning if replicates could not be ranked (few comparisons; hard wins without prior). They are
        left out of errors, which are then too small.
    source : Efron and Tibshirani (1993). Weights are carried along: a row of weight 2 is drawn as one.
    """
    pairs, pair = comparisons.numbered_pairs()
    scores = np.full((n, comparisons.n_candidates), np.nan)
    failures = []
    for replicate in range(n):
        chosen = rng.integers(0, len(pairs), len(pairs))
        drawn = np.bincount(chosen, minlength=len(pairs))[pair]
        sample = comparisons.subset(drawn > 0)
        sample = replace(sample, weights=sample.weights * drawn[drawn > 0])
        try:
            scores[replicate] = method(sample).scores
        except RankingError as error:
            failures.append(str(error))
    if failures:
        warnings.warn(
            f"{len(failures)} of {n} resamples could not be ranked, and are left out: {failures[0]}",
            SynthscoreWarning,
            stacklevel=2,
        )
    known = np.count_nonzero(~np.isnan(scores), axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.nansum(scores, axis=0) / known
        squares = np.nansum((scores - mean) ** 2, axis=0)
        stderr = np.where(known > 1, np.sqrt(squares / (known - 1)), np.nan)
    return stderr, n - len(failures)
