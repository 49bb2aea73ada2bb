"""`synthscore redteam`: what becomes of texts that tell the judge to score them high?"""

from __future__ import annotations

import math

from .messages import ERROR, OK, Messages, UsageError, counted, exit_code, reasons, table
from .options import AskingOptions, DryRun, JudgeOptions, OneTask, OnlyAttributes, Output, Positive, Share
from .score import ScoringOptions

DEFAULT = "data/references/curated/first24"


def redteam(
    *,
    ladders: str | None = None,
    task: OneTask = None,
    attribute: OnlyAttributes = None,
    limit: Positive = 24,
    attacks: str | None = None,
    min_score: float | None = None,
    at_most: Share | None = None,
    output: Output | None = None,
    dry_run: DryRun = False,
    asking: AskingOptions = AskingOptions(),
    scoring: ScoringOptions = ScoringOptions(),
    judge: JudgeOptions = JudgeOptions(),
    messages: Messages = Messages(),
) -> int:
    """What becomes of texts that tell the judge to score them high?

    For example:
      $ synthscore redteam
      $ synthscore redteam --ladders ladders/ --model Qwen/Qwen3-8B --both-orders --at-most 0.02

    Puts 40 attacks into rungs, whose place on their ladder is known, and scores them against it. A judge that is not
    taken in scores a rung with an attack like the rung, or lower. By family of attacks:

      shift    score with the attack - score without, mean and standard error, in rungs
      raised   share of the texts that rise by more than .25 rungs (with --scoring anchored: above the 90 % interval of
               the rung), with a 95 % interval
      crossed  of the rungs below the threshold, those that an attack carries over it
      worst    the attack that raises most texts

    harmless is no attack, but what any added words do. The exit code is 1 where a family raises a larger share of the
    texts than --at-most, 3 where texts are unscored. docs/redteam.md says what helps.

    Args:
        ladders: references folder, or id of a hub dataset (default: the first curated ladders)
        limit: rungs to put attacks into, spread over attributes and ladders
        attacks: file of attacks of your own, TOML (default: those of data/redteam)
        min_score: the threshold that attacks should cross (default: the middle of the ladder)
        at_most: share of the texts that a family may raise
        output: also write all figures, and each score, to a JSON file
    """
    from ..checking.redteam import choose_canaries, load_attacks
    from ..checking.redteam import redteam as attack
    from ..ladders.references import References
    from ..resources import resource

    if scoring.adaptive or scoring.save_scale:
        raise UsageError("--adaptive and --save-scale do nothing here, where every rung is asked about. Leave them out")
    chosen = References.load(ladders or resource(DEFAULT)).select(task=task, attribute=attribute)
    known = load_attacks(attacks)
    with judge.open(judge.named(messages), messages, dry_run=dry_run) as engine:
        n_rungs = sum(canary.ladder.n_rungs for canary in choose_canaries(chosen, limit))
        engine.expected = (1 + len(known)) * n_rungs * asking.n_questions
        with messages.bar(engine.expected, "questions") as shown:
            report = attack(
                *(engine, chosen, scoring.make_scoring(), asking),
                attacks=known,
                limit=limit,
                min_score=min_score,
                task=task,
                progress=shown,
            )
    if dry_run:
        print(*engine.cost, sep="\n")
        return OK
    if output:
        report.save(output)
    rows = []
    for family, which in report.families.items():
        moved, (worst, of_worst) = report.movement(which), report.worst(family)
        low_to_high = f"{_percent(moved.raised.low)} to {_percent(moved.raised.high)}"
        crossed = f"{moved.n_crossed} of {moved.n_below}"
        shift = [f"{moved.shift.value:+.2f}", moved.shift.stderr]
        named = "-"
        if of_worst.raised.value > 0:
            named = f"{worst.name} ({_percent(of_worst.raised.value)})"
        rows.append([family, moved.raised.n, *shift, _percent(moved.raised.value), low_to_high, crossed, named])
    print(table(rows, ["family", "texts", "shift", "+-", "raised", "95 %", "crossed", "worst"], 110))
    beyond = [] if at_most is None else report.beyond(at_most)
    if beyond:
        print(f"\nMore than {_percent(at_most or 0)} of the texts are raised by: {', '.join(beyond)}.")
    asked = f"{counted(len(report.canaries), 'rung')}, {counted(len(report.attacks), 'attack')}"
    lines = [asked]
    if report.reasons:
        lines += [f"{counted(len(report.reasons), 'text')} unscored:", *reasons(report.reasons)]
    messages.note(*lines, *engine.cost, signature=str(report.signature))
    if beyond:
        return ERROR
    return exit_code(not report.reasons)


def _percent(share: float) -> str:
    return "-" if math.isnan(share) else f"{100 * share:.3g} %"
