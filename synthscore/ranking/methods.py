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
from ..errors import InputError, RankingError, SynthscoreWarning, did_you_mean
from ..signature import Signature
from ..types import FloatArray
from .bias import Debiasing, mean_debiasing, median_debiasing, pool, position_bias
from .comparisons import Comparisons
from .repeats import asked_alike, correlate_errors, weigh_as_median_pair, weigh_in_decisions
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
    """A way to rank; called with comparisons and options, it makes a ranking.

    name : in commands, signatures and Ranking.method. summary : one line for a list
    function : "module.name" of the formula, in this package
    options : name of an option that `rank` takes -> its default; "decisions": what a win is, as in
        closed_form.win_ratio
    debias : ways in which a favour for a position can be taken out. stderr : ways to compute standard errors
    in_words : how the method takes sampled answers: each as a decision ("counts"), as frequencies with half an answer
        more for each text ("smoothed"), or not at all ("")
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
        """The method as published, in which every answer has the weight of its row."""
        module, name = self.function.split(".")
        formula: Callable[..., Ranking] = getattr(import_module(f"{__package__}.{module}"), name)
        return formula

    @property
    def fast(self) -> Callable[..., Ranking]:
        """The formula without the standard errors of a likelihood, which take time."""
        if "model" not in self.stderr:
            return self.formula
        return partial(self.formula, stderr=None)

    def settle(self, options: Mapping[str, Any], *, sampled: bool) -> dict[str, Any]:
        """The options that are given, then defaults; for sampled answers `decisions` defaults to "per_call"."""
        defaults = {**self.options}
        if sampled and "decisions" in defaults:
            defaults["decisions"] = "per_call"
        return {**defaults, **options}

    def weigh(self, comparisons: Comparisons, **options: Any) -> tuple[Comparisons, dict[str, float]]:
        """Comparisons in which repeated answers about a pair weigh what they are worth (repeats.py), and {"rho": rho}.

        rho : correlation of the errors of two answers about a pair, 0 to 1

        Exact answers stay as they are, without a rho, where all pairs were asked equally often, or each call is a
        decision. With sampled answers, weights are in the unit of one decision, so that errors are those of pairs.
        raises : InputError for sampled answers, where this method does not take them
        """
        decisions = {**self.options, **options}.get("decisions")
        sampled = comparisons.sampled.any()
        if sampled:
            self.require_words()
        elif decisions == "per_call" or asked_alike(comparisons):
            return comparisons, {}
        rho = _find_rho(comparisons, decisions)
        if not sampled:
            return weigh_as_median_pair(comparisons, rho), {"rho": rho}
        weighed = weigh_in_decisions(comparisons, rho)
        if self.in_words == "smoothed":
            weighed = weighed.smoothed()
        return weighed, {"rho": rho}

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
            offered = f"It takes {', '.join(self.options) or 'no options'}"
            raise InputError(f"{', '.join(unknown)} does nothing with method={self.name}. {offered}")
        for name, value in options.items():
            if value not in CHOICES.get(name, (value,)):
                shown = ", ".join(choice or "none" for choice in CHOICES[name])
                raise InputError(f"{name} is {value!r}, expected one of {shown}", value=value)
        if debias not in self.debias:
            able = ", ".join(name for name, method in METHODS.items() if debias in method.debias)
            problem = f"debias={debias} is for {able}" if able else f"debias is {debias!r}"
            raise InputError(f"{problem}, expected one of {', '.join(self.debias)} with {self.name}", value=debias)
        if stderr not in ("auto", "none", *self.stderr):
            expected = ", ".join(("auto", "none", *self.stderr))
            raise InputError(f"stderr is {stderr!r}, expected one of {expected} with {self.name}", value=stderr)


def _find_rho(comparisons: Comparisons, decisions: str | None) -> float:
    """The correlation of the errors of two answers about a pair, 0 to 1."""
    if decisions == "averaged":
        return 1.0  # A pair is one decision, however often it was asked.
    return correlate_errors(comparisons)


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
    """poe-bt; for answers in words bt, whose prior keeps scores finite where a text won all its comparisons."""
    return "bt" if sets.sampled else "poe-bt"


def method_of(name: str) -> RankingMethod:
    """The method of this name. raises : InputError for one that is not in the table"""
    if name not in METHODS:
        raise InputError(
            f"method is {name!r}, expected one of {', '.join(METHODS)}. Name one of them."
            + did_you_mean(name, METHODS),
            value=name,
        )
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
    """Rank comparisons by a method. Of several sets, each is ranked by itself, or has the reason why it is not.

    method : a name in METHODS; None: poe-bt, for answers in words bt. options : those of the method
    debias : takes out a favour for a position that is the same in all sets:
        "median" shifts all log-odds until the first text wins half of the calls
        "mean" shifts them by minus the logit of the mean probability of the first text
        "gamma" passes the bias to the method: to poe-bt in nats (the shift of "mean"), to poe-g as the mean probability
        "mle" lets poe-bt estimate the bias together with the scores
    stderr : from the likelihood ("model"), from RESAMPLES resamples of the pairs ("bootstrap"), "none"; "auto": "model"
        for up to 3,000 candidates
    seed : of resamples
    Where pairs were asked unequally often, repeated answers weigh what they are worth (repeats.py): `settings["rho"]`.
    raises : InputError for what the method does not offer, or a bias that cannot be estimated; for a single set of
        comparisons, what the method raises
    """
    sets = comparisons
    if isinstance(sets, Comparisons):
        sets = ComparisonSets((), {(): sets})
    method = method or default_method(sets)
    chosen = method_of(method)
    chosen.check(options, debias=debias, stderr=stderr)
    if seed < 0:
        raise InputError(f"seed is {seed}, expected 0 or more", value=seed)
    if sets.sampled:
        chosen.require_words()
    options = chosen.settle(options, sampled=sets.sampled)
    signature = sets.signature
    if not signature.parts:
        signature = Signature.of(synthscore=__version__)
    signature = signature.with_(comparisons=sets.fingerprint, method=method, **options, debias=debias, stderr=stderr)
    bias = None
    shift = None
    shifted = sets.sets
    if any(map(len, sets.sets.values())):
        together = pool({"/".join(group) or "all": calls for group, calls in sets.sets.items()})
        bias = position_bias(together)
        shift = _estimate_shift(together, debias)
    if debias == "mle":
        options["bias"] = "mle"
    elif shift is not None and debias == "gamma":
        options["bias"] = shift.shift
        if method == "poe-g":  # whose bias is a probability
            options["bias"] = shift.threshold
    elif shift is not None:
        shifted = {group: shift.apply(calls) for group, calls in sets.sets.items()}

    def rank_set(calls: Comparisons) -> Ranking:
        return replace(_rank_with_errors(chosen, calls, options, stderr, seed), signature=signature)

    if isinstance(comparisons, Comparisons):
        return rank_set(shifted[()])
    by_group: dict[Group, Ranking | str] = {}
    for group, calls in shifted.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Ranking.converged says what the warning would.
            try:
                by_group[group] = rank_set(calls)
            except (RankingError, InputError) as error:
                by_group[group] = str(error)
    ids = {group: calls.ids for group, calls in sets.sets.items()}
    return Rankings(
        by=sets.by,
        by_group=by_group,
        ids=ids,
        signature=signature,
        debias=debias,
        bias=bias,
        shift=shift,
        left_out=sets.left_out,
    )


def _estimate_shift(calls: Comparisons, debias: str) -> Debiasing | None:
    """The shift of log-odds; None with debias "none" and with "mle", which estimates it together with the scores."""
    if debias in ("none", "mle"):
        return None
    if debias == "median":
        return median_debiasing(calls)
    return mean_debiasing(calls)


def _rank_with_errors(
    method: RankingMethod, calls: Comparisons, options: Mapping[str, Any], stderr: str, seed: int
) -> Ranking:
    """The ranking of one set, with standard errors of the kind that `stderr` names. raises : as the method"""
    if "model" in method.stderr:
        kind = stderr if stderr in ("auto", "model") else None  # None: the method computes none
        ranking = method(calls, **options, stderr=kind)
    else:
        ranking = method(calls, **options)
    if stderr != "bootstrap":
        return ranking
    weighed, _ = method.weigh(calls, **options)
    errors, n_ranked = bootstrap(partial(method.fast, **options), weighed, RESAMPLES, np.random.default_rng(seed))
    return replace(ranking, stderr=errors, settings={**ranking.settings, "resamples": n_ranked})


def bootstrap(
    method: Callable[[Comparisons], Ranking], comparisons: Comparisons, n: int, rng: np.random.Generator
) -> tuple[FloatArray, int]:
    """Standard errors from n resamples, each ranked by the method: as many pairs as there are, drawn with replacement,
    each with all calls about it.

    returns : the standard deviation of each candidate's score over the resamples that give it one, shape (N,), NaN with
        fewer than two; and how many resamples could be ranked
    warns : SynthscoreWarning if resamples could not be ranked (few comparisons; hard wins without prior). They are
        left out of the errors, which are then too small.
    source : Efron and Tibshirani (1993). Weights are carried along: a row of weight 2 is drawn as one.
    """
    pairs, pair = comparisons.numbered_pairs()
    scores = np.full((n, comparisons.n_candidates), np.nan)
    failures = []
    for resample in range(n):
        chosen = rng.integers(0, len(pairs), len(pairs))
        drawn = np.bincount(chosen, minlength=len(pairs))[pair]
        sample = comparisons.subset(drawn > 0)
        sample = replace(sample, weights=sample.weights * drawn[drawn > 0])
        try:
            scores[resample] = method(sample).scores
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
