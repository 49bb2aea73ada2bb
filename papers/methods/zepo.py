"""ZEPO: of several wordings of the A/B question, the fairest, chosen without labels; texts are then compared with it.

A wording is a template `choose`. Its fairness is - |mean P(A) - 1/2| over the pairs of texts of a few contexts, each in
both orders: 0 if under it the judge prefers no place.
Source: arXiv:2406.11370.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from synthscore.engine import Generation, Prompt, Sampling, generate
from synthscore.errors import InputError
from synthscore.evaluation.methods.base import SetMethod, task_of
from synthscore.evaluation.methods.comparing import Compared, group_rows
from synthscore.evaluation.ratings import Ratings
from synthscore.io.scores import Scores
from synthscore.io.settings import Count, Seed, Share
from synthscore.judging.asking import Asking
from synthscore.judging.templates import Templates
from synthscore.ranking import METHODS, Selection, pool
from synthscore.ranking.designs import all_pairs
from synthscore.scoring.method import MethodError, Tools, require_options
from synthscore.scoring.methods import MethodKind
from synthscore.types import Attribute, Context

from ..designs import symmetric
from .pairs import Sorted, sort_of

if TYPE_CHECKING:
    from synthscore.ranking.judge import Call, PairJudge

WRITING = Sampling(max_new_tokens=128, temperature=0.9, top_p=1.0)

REQUEST = """\
Put this question in other words, in one line. Keep what it asks about, and that the answer is A or B. \
Give nothing but the new question.

Question: {line}

In other words:"""


@dataclass(frozen=True, slots=True)
class Wording:
    """A way to ask. fairness : -1/2 to 0, the best. line : its question, where the judge reworded it"""

    templates: Templates
    fairness: float
    line: str = ""


@dataclass(frozen=True, slots=True)
class Zepo:
    """compare : with the fairest wording, the first of equally fair ones

    folder : of template sets, one a wording. None: the judge rewords its question, `paraphrases` times in each of
        `rounds` rounds, always the fairest so far
    n_contexts : that fairness is measured on. calls : about each; None: all pairs
    """

    compare: Compared
    folder: Path | None = None
    rounds: int = 5
    paraphrases: int = 5
    n_contexts: int = 10
    calls: int | None = None
    seed: int = 0

    def __call__(self, ratings: Ratings, attribute: str, tools: Tools) -> Scores:
        found, refused = self.wordings(ratings, attribute, tools)
        best = _fairest(found)
        scores = self.compare.scores(ratings, attribute, tools.require_judge(), best.templates)
        tried = f"contexts={self.n_contexts},seed={self.seed},wordings={len(found)},refused={len(refused)}"
        return replace(
            scores, signature=scores.signature.with_(zepo=f"{tried},fairness={round(best.fairness, 6) + 0.0:g}")
        )

    def wordings(self, ratings: Ratings, attribute: str, tools: Tools) -> tuple[list[Wording], list[str]]:
        """All that were tried, the template set's own first; and why others that were written were not.

        raises : MethodError where there is none but the set's own
        """
        task, asked = task_of(ratings, attribute, tools.references)
        judge, own = tools.require_judge(), Templates(task, tools.asking.prompts)
        groups, _ = group_rows(ratings)
        rng = np.random.default_rng(self.seed)
        sample = [groups[place] for place in rng.permutation(len(groups))[: self.n_contexts]]

        def fairness(templates: Templates) -> float:
            return self._fairness(self.compare.judge(ratings, attribute, sample, judge, templates))

        found, refused = [Wording(own, fairness(own))], list[str]()
        if self.folder is not None:
            sets = [Templates(task, folder) for folder in _sets(self.folder)]
            return [*found, *(Wording(templates, fairness(templates)) for templates in sets)], refused
        source, slot, first = _question(own, asked)
        for _ in range(self.rounds):
            prompt = Prompt(REQUEST.format(line=_fairest(found).line or first))
            seeds = rng.integers(2**31, size=self.paraphrases).tolist()
            for written in generate(judge, [prompt] * len(seeds), WRITING, seeds):
                try:
                    line = _line(written, {first, *(wording.line for wording in found)})
                    templates = own.replaced("choose", source.replace(slot, line), f"zepo{len(found)}")
                    found.append(Wording(templates, fairness(templates), line))
                except MethodError as error:
                    refused.append(str(error))
        if len(found) == 1:
            raise MethodError(
                f"cannot choose a wording: none of the {len(refused)} that the judge wrote can be used, such as: "
                f"{refused[0]}. Write some: zepo:templates=FOLDER, with a template set in each of its folders"
            )
        return found, refused

    def _fairness(self, judge: PairJudge) -> float:
        """raises : MethodError where no call was answered"""
        chosen: list[Call] = []
        refused: list[str] = []
        for k, problem in enumerate(judge.problems):
            n, rng = len(problem.ids), problem.rng(self.seed)
            try:
                calls = all_pairs(n) if self.calls is None else symmetric(n, min(self.calls, n * (n - 1)), rng)
                chosen += [(k, i, j) for i, j in calls.tolist()]
            except InputError as error:
                refused.append(str(error))
        judge(chosen)
        answered = [calls for calls in judge.comparisons() if len(calls)]
        if not answered:
            reasons = [*(each.reason for each in judge.failures), *refused, "no context has two texts"]
            raise MethodError(f"cannot measure how fair the template set {judge.templates.name!r} is: {reasons[0]}")
        run = pool({str(k): calls for k, calls in enumerate(answered)})
        mean = run.weights @ run.probabilities / run.weights.sum()
        return -abs(float(mean) - 0.5)


def _fairest(found: Sequence[Wording]) -> Wording:
    return max(found, key=lambda wording: wording.fairness)


def _sets(folder: Path) -> list[Path]:
    found = sorted(path for path in folder.glob("*") if path.is_dir()) if folder.is_dir() else []
    if not found:
        raise MethodError(f"cannot choose a wording: {str(folder)!r} holds no folders, expected a template set in each")
    return found


def _question(templates: Templates, attribute: Attribute) -> tuple[str, str, str]:
    """The template `choose`, the one line of it that says what to look at, and this line as it is asked."""
    source = templates.source("choose")
    lines = [line for line in source.splitlines() if re.search(r"\battribute\.(more|better)\b", line)]
    if len(lines) != 1:
        raise MethodError(
            f"cannot reword the template choose of set {templates.name!r}: {len(lines)} of its lines use "
            "attribute.more or attribute.better, expected 1. Write wordings: zepo:templates=FOLDER"
        )
    alone = templates.replaced("choose", lines[0], "line")
    return source, lines[0], alone.choose(Context("probe", "-"), attribute, first="-", second="-").text


def _line(written: Generation | Exception, known: Collection[str]) -> str:
    """A new question of one line, without a brace, which would be code. raises : MethodError for anything else"""
    if isinstance(written, Exception):
        raise MethodError(str(written))
    line = written.text.strip()
    if "\n" in line or line in known or re.search(r"[{}]", line) or not {"A", "B"} <= {*re.findall(r"\w+", line)}:
        raise MethodError(f"the judge wrote {line!r:.80}, expected a new question of one line that names A and B")
    return line


def zepo(
    *,
    method: str = "pairs",
    templates: Path | None = None,
    rounds: Count | None = None,
    paraphrases: Count | None = None,
    contexts: Count = 10,
    calls: Count | None = None,
    seed: Seed = 0,
    min_mass: Share = 0.01,
    max_unreported: Share = 0.02,
) -> SetMethod:
    """Greedy PairS, or a method of ranking over all pairs, with the fairest wording."""
    wrong = {
        f"method is {method!r}, expected one of {', '.join(METHODS)}, pairs": method not in (*METHODS, "pairs"),
        "rounds and paraphrases do nothing with templates=FOLDER: leave them out": templates
        and (rounds or paraphrases),
    }
    require_options("zepo", wrong)
    sorts = method == "pairs"
    selection = Selection(orders="one" if sorts else "both", seed=seed)
    asking = Asking("choose", min_mass=min_mass, max_unreported=max_unreported)
    about = {"selection": sort_of(selection) if sorts else selection, "method": method}
    compare = (Sorted if sorts else Compared)(selection, method, about, asking)
    return Zepo(
        compare,
        folder=templates,
        rounds=rounds or 5,
        paraphrases=paraphrases or 5,
        n_contexts=contexts,
        calls=calls,
        seed=seed,
    )


ZEPO = MethodKind(zepo, "PairS or a ranking, with the wording under which no place is preferred", ("judge",))
