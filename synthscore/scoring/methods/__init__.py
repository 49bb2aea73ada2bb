"""Methods by name: the table that every verb looks into, and the options of each.

    NAME                        a kind with its defaults
    NAME:option=value,...       with options: "g-eval:samples=20,seed=1"

Those of other installed packages come in by the entry-point group `synthscore.methods`: a MethodKind by its name.
"""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from ...errors import InputError, SynthscoreWarning
from ...io.settings import Count, Seed, Share, Span, given_options, read_option
from ...judging.asking import ProtocolName
from ...plugins import load_plugins
from ..ladder import LadderChoice, LadderMethod, Scoring
from ..method import Method, MethodError, require_options
from ..paper import Paper
from . import grading, placing

GROUP = "synthscore.methods"
"""The group of entry points."""


@dataclass(frozen=True, slots=True)
class MethodKind:
    """A kind of method, as it is listed and made: "g-eval", or "g-eval:samples=20" with an option.

    make : options -> the method; its parameters are the options, and their types say which texts they take
    summary : one line for a list. uses : what of Tools it needs
    fixed : arguments of make that are no options
    """

    make: Callable[..., Any]
    summary: str
    uses: tuple[str, ...] = ()
    fixed: Mapping[str, object] = field(default_factory=dict)

    @property
    def options(self) -> Mapping[str, Any]:
        """Name -> type."""
        parameters = inspect.signature(self.make, eval_str=True).parameters
        return {name: parameter.annotation for name, parameter in parameters.items() if name not in self.fixed}

    def make_method(self, spec: str, settings: str) -> Any:
        """The method of the options that a spec holds: "samples=20,seed=1". raises : MethodError"""
        types = self.options
        try:
            given = given_options(settings, types)
            options = {name: read_option(name, types[name], text) for name, text in given.items()}
            return self.make(**self.fixed, **options)
        except InputError as error:
            raise MethodError(f"cannot make the method {spec!r}: {error}", spec=spec) from error


def make_ladder(
    *,
    base: Scoring,
    scoring: Literal["paper", "anchored"] | None = None,
    samples: Count | None = None,
    seed: Seed = 0,
    scale: str | None = None,
    n_rungs: Annotated[int, Span(2)] | None = None,
    ladders: LadderChoice | None = None,
    both_orders: bool | None = None,
    protocol: ProtocolName | None = None,
    min_mass: Share | None = None,
    max_unreported: Share | None = None,
) -> LadderMethod:
    """The method of ladders. base : the scoring where no option names another. What is None is as Tools.asking says"""
    wrong = {
        f"seed is {seed}, expected with samples=N": seed and samples is None,
        "samples are drawn with scoring=paper. Leave one out": samples is not None and scoring == "anchored",
        "a scale is for scoring=anchored. Say that, too": scale is not None and scoring != "anchored",
    }
    require_options("ladder", wrong)
    chosen = base
    if scoring == "anchored":
        from ..anchored import Anchored

        chosen = Anchored(scale)
    elif scoring == "paper" or samples is not None:
        chosen = Paper(samples, seed)
    named = {
        "both_orders": both_orders,
        "protocol": protocol,
        "min_mass": min_mass,
        "max_unreported": max_unreported,
    }
    asking = {name: value for name, value in named.items() if value is not None}
    return LadderMethod(scoring=chosen, n_rungs=n_rungs, ladders=ladders, asking=asking)


METHODS: dict[str, MethodKind] = {
    "ladder": MethodKind(
        make_ladder, "compared with a ladder's rungs, on the rung scale", ("judge", "references"), {"base": Paper()}
    ),
    "place": MethodKind(
        placing.Place, "which rung of its ladder a text is most like, all shown at once", ("judge", "references")
    ),
    "decision-score": MethodKind(
        placing.DecisionScore, "the level that a judge decides, described by rungs", ("judge", "references")
    ),
    "direct": MethodKind(grading.Direct, "the most probable number from 1 to 5", ("judge",)),
    "g-eval": MethodKind(grading.GEval, "the expected number from 1 to 5", ("judge",)),
}
"""Name -> kind, of those of this package; `evaluation.methods` has more, which compare whole sets of texts."""


def method_kinds() -> dict[str, MethodKind]:
    """All kinds by name: this package's, those that were registered, and other installed packages'.

    warns : SynthscoreWarning for an entry point that is no MethodKind, or that has the name of a method of this package
    """
    kinds = dict(METHODS)
    for name, plugin in load_plugins(GROUP).items():
        if isinstance(plugin, MethodKind) and kinds.setdefault(name, plugin) is plugin:
            continue
        why = "there is a method of that name" if isinstance(plugin, MethodKind) else f"it is {plugin!r:.60}"
        message = f"the plug-in {name!r} ({GROUP}) is left out: {why}, expected a synthscore MethodKind of its own name"
        warnings.warn(message, SynthscoreWarning, stacklevel=2)
    return kinds


def register_method(name: str, kind: MethodKind | Callable[..., Method]) -> None:
    """Give a method a name, by which every verb takes it.

    kind : a MethodKind; or what makes the method: a class, or a function whose parameters are the method's options
    raises : MethodError for a name that is taken
    """
    if name in method_kinds():
        raise MethodError(f"cannot register {name}: there is such a method. Choose another name")
    if not isinstance(kind, MethodKind):
        summary = (kind.__doc__ or "").partition("\n")[0]
        kind = MethodKind(kind, summary, getattr(kind, "uses", ()))
    METHODS[name] = kind


def open_method(spec: str, scoring: Scoring = Paper()) -> Method:
    """The method of a name. scoring : of `ladder`, where no option names another

    raises : MethodError for a name or an option that is not there, a value that an option does not take, or a method
        that compares whole sets of texts, for `evaluate` alone
    """
    made = make_named(spec, scoring)
    if isinstance(made, Method):
        return made
    raise MethodError(
        f"the method {spec} needs a whole set of texts and works in `synthscore evaluate` alone. Name one that gives "
        "each text a number, such as ladder",
        spec=spec,
    )


def make_named(spec: str, scoring: Scoring = Paper()) -> Any:
    """What the kind of this name makes: a Method, or one of evaluation's. raises : as open_method"""
    name, _, settings = spec.strip().partition(":")
    kind = find_kind(spec)
    if name == "ladder":
        kind = replace(kind, fixed={"base": scoring})
    return kind.make_method(spec, settings)


def find_kind(spec: str) -> MethodKind:
    """The kind that a spec names. Other installed packages are looked at where this one has none of the name.

    raises : MethodError for a name that is not there
    """
    name = spec.strip().partition(":")[0]
    kinds = METHODS if name in METHODS else method_kinds()
    if name not in kinds:
        raise MethodError(f"there is no method {spec.strip()!r}. There are: {', '.join(kinds)}", spec=spec)
    return kinds[name]


def split_methods(specs: str) -> list[str]:
    """The specs in a text with commas between; a comma between options is none of them.

    >>> split_methods("length,g-eval:samples=20,seed=1,overlap")
    ['length', 'g-eval:samples=20,seed=1', 'overlap']
    """
    names = [spec.strip() for spec in re.split(r",(?!\s*\w+=)", specs)]
    if not all(names):
        raise MethodError(
            f"cannot tell the methods in {specs!r}: a name is empty. Expected names with commas between, such as "
            "length,overlap"
        )
    return names
