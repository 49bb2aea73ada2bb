"""`synthscore doctor`: can this model judge, and how is it asked?"""

from __future__ import annotations

import math
import textwrap
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from ..engine import Engine, Prompt, capabilities_of
from ..errors import EngineError
from ..judging.asking import PROTOCOLS, Pair, ProtocolName, Verdicts, ask, prompt_of
from ..judging.templates import Templates
from ..types import Context
from .messages import ERROR, OK, Messages, counted, table
from .options import Answering, DryRun, JudgeOptions, Output, Positive

if TYPE_CHECKING:
    from ..checking.judge import JudgeReport
    from ..ladders.references import References

CONTEXT = Context(
    "example",
    "The library on Mill Street closes at noon on Friday, because its heating is being repaired. All other branches "
    "stay open as usual. Books can be returned through the slot at the front door. The library opens again on Monday.",
)
GOOD = (
    "The Mill Street library closes at noon on Friday so that its heating can be repaired, and opens again on Monday. "
    "Until then books can be returned through the slot at the door."
)
BAD = (
    "It opens at door. Slot heating Monday the, bananas are cheap because Friday, and at noon of it the library it "
    "repaired. Books is closing return and until it the slot."
)

N_PAIRS = 12  # of the first curated ladders, unless others are named


def doctor(
    *,
    task: str | None = None,
    attribute: Annotated[str | None, Parameter(name=["--attribute", "-a"])] = None,
    protocol: ProtocolName = "compare",
    ladders: str | None = None,
    limit: Positive | None = None,
    output: Output | None = None,
    dry_run: DryRun = False,
    answering: Annotated[Answering, Parameter(name="*")] = Answering(),
    judge: JudgeOptions = JudgeOptions(),
    messages: Messages = Messages(),
) -> int:
    """Can this model judge?

    For example:
      $ synthscore doctor
      $ synthscore doctor --model Qwen/Qwen3-0.6B --task dialogue --attribute naturalness
      $ synthscore doctor --model Qwen/Qwen3-0.6B --ladders ladders/

    Loads a model and shows how it judges one small example: the prompt as the model sees it, the labels as tokens, what
    it answers in both orders, what it would rather answer. Then asks, in both orders, about a dozen pairs of texts of
    which one is better, from curated ladders, and says whether it can judge:

      in order      pairs of which it finds the better text the better one; chance is half
      one order     the same without --both-orders
      contradicts   pairs of which it finds each text the better one (or each the worse), asked about it
      prior         what it says whatever is shown, in nats: log P(better) - log P(worse), mean of both orders
      signal        what it says about the texts: half the difference of the orders, root mean square

    With --ladders, about all pairs of rungs of any ladders, by task and attribute, and what it makes of each ladder's
    widest pair in another attribute, in which it is alike. The exit code is 1 where it cannot judge.

    Args:
        task: a task, or a folder with a task.toml (default: all that there are ladders of)
        attribute: which (default: all that there are ladders of)
        protocol: how the judge is asked
        ladders: references folder, or id of a hub dataset; answers are then kept (--store), so that a killed run goes
            on
        limit: the most pairs, spread over attributes and distances (default: 12; with --ladders: all)
        output: also write all figures, and each pair, to a JSON file
    """
    from ..checking.judge import examine
    from ..judging.templates import load_task

    known = load_task(task or "summarization")
    example = attribute or next(iter(known.attributes))
    known.attribute(example)
    chosen, own = _ladders(ladders, known.name if task else None, task, attribute)
    if ladders is None and judge.store is None:
        judge = replace(judge, store="none")  # whoever asks how a model is does not mean how it was
    templates = Templates(known, answering.prompts)
    asking = answering.asking(protocol)
    with judge.open(judge.model, messages, dry_run=dry_run) as watched:
        _print_model(judge.model, watched)
        pairs = [Pair(CONTEXT, example, GOOD, BAD), Pair(CONTEXT, example, BAD, GOOD)]
        prompt = prompt_of(pairs[0], templates, protocol)
        if capabilities_of(watched).gives_rewards:
            prompt = templates.reply_to(CONTEXT, example)
        _print_prompt(watched, prompt, f"{known.name}, {example}, template set {answering.prompts}", protocol)
        verdicts = ask(pairs, watched, templates, asking)
        if not dry_run:
            _print_answers(verdicts, protocol)
            _print("signature", str(verdicts.signature).split("|"))
            if verdicts.failures:
                why = next(iter(verdicts.failures.values()))
                print("\n" + textwrap.fill(f"This model cannot judge so: {why}", 100, break_on_hyphens=False))
                return ERROR
        limit = N_PAIRS if limit is None and ladders is None else limit
        start = time.perf_counter()
        report = examine(watched, chosen, asking, limit=limit, others=ladders is not None, task=own)
        if dry_run:
            _print("questions", watched.cost)
            return OK
    _print_report(report, time.perf_counter() - start, by_attribute=ladders is not None)
    if output:
        report.save(output)
    print("\n" + textwrap.fill(report.verdict, 100, break_on_hyphens=False))
    return OK if report.usable else ERROR


def _ladders(
    source: str | None, name: str | None, task: str | None, attribute: str | None
) -> tuple[References, str | None]:
    """Those named, or the first curated ones: of the task and attribute, or, where none are, all. And the task's
    folder, where it is theirs. raises : LadderError where those named hold none"""
    from ..ladders.references import References
    from ..resources import resource

    if source is not None:
        return References.load(source).select(task=task, attribute=attribute), task
    curated = References.load(resource("data/references/curated/first24"))
    own = curated.filter(task=name, attribute=attribute)
    return (own, task) if len(own) else (curated, None)


def _print_model(name: str, engine: Engine) -> None:
    signature = engine.signature
    lines = [", ".join(filter(None, (signature.part("model") or name, signature.part("dtype"))))]
    can = capabilities_of(engine)
    if can.description:
        lines.append(can.description)
    if can.tokenizer is not None:
        lines.append(can.tokenizer.takes)
        chat = "asked through its chat template"
        lines.append(chat if can.tokenizer.has_template else "has no chat template: asked in plain text")
    _print("model", lines)


def _print_prompt(engine: Engine, prompt: Prompt, what: str, protocol: ProtocolName) -> None:
    can = capabilities_of(engine)
    in_words = not can.gives_rewards and not can.decides
    tokens = can.tokenizer if in_words else None
    text = tokens.render(prompt) if tokens is not None else prompt.text + prompt.prefill
    lines = [part for line in text.split("\n") for part in textwrap.wrap(line, 84) or [""]]
    seen = "as the model sees it"
    if can.gives_rewards:
        seen = "to which each text is shown as the reply"
    elif can.decides:
        seen = "as the judge is given it, which puts its own words around it"
    elif can.served and tokens is None:
        seen = "before the server's chat template"
    _print("prompt", [f"{what}, {seen}:", *(f"| {line}" for line in lines)])
    labels = PROTOCOLS[protocol]
    if tokens is None:
        _print("labels", [", ".join(labels)])
        return
    try:
        n_tokens = len(tokens.encode(prompt))
        found = tokens.label_forms(prompt, labels)
    except EngineError:  # the answers, or rather their failure, say why
        return
    _print("", [f"({counted(n_tokens, 'token')})"])
    alone = "by themselves: they would change the prompt's last token"
    how = "as they follow the prompt" if found.boundary == "whole" else alone
    lines = [f"tokens, tokenised {how}; the forms of a label are added up"]
    for label, forms in zip(labels, found.forms, strict=True):
        shown = (f"{' '.join(tokens.spelled(ids))} ({' '.join(map(str, ids))})" for ids in forms)
        lines.append(f"{label:<8} {'  or  '.join(shown)}")
    _print("labels", lines)


def _print_answers(verdicts: Verdicts, protocol: ProtocolName) -> None:
    labels, answers = PROTOCOLS[protocol], verdicts.answers
    rounds = ["good text asked about", "bad text asked about"]
    if protocol == "yes_no_two_sided":
        rounds = [f"{text}, {side}" for side in ("better?", "worse?") for text in rounds]
    lines = [f"{'':<22}" + "".join(f"{label:>9}" for label in labels) + f"{'together':>10}   would rather answer"]
    for row, name in enumerate(rounds):
        if row in answers.failures:
            lines.append(f"{name:<22}   not answered, see below")
            continue
        other = answers.other_tokens[row] if answers.other_tokens else None
        instead = f"{other.token!r} ({math.exp(other.log_prob):.3f})" if other else "-"
        censored = [False] * len(labels) if answers.censored is None else answers.censored[row]
        told = zip(answers.log_probs[row], censored, strict=True)
        probs = "".join(f"{f'<={math.exp(most):.3f}' if open_ else f'{math.exp(most):.3f}':>9}" for most, open_ in told)
        mass = f"{answers.label_mass[row]:.3f}" if answers.mass_reported else "?"
        lines.append(f"{name:<22}{probs}{mass:>10}   {instead}")
    if not answers.mass_reported:
        lines.append("How probable they are together is not reported: the judge chooses among the answers it is given.")
    _print("answers", lines)


def _print_report(report: JudgeReport, seconds: float, *, by_attribute: bool) -> None:
    """Shares as percentages."""
    from ..checking.judge import DISTANCES

    n_tasks = len({pair.ladder.task for pair in report.pairs})
    _print("pairs", [f"{counted(len(report), 'pair')} of rungs from {counted(n_tasks, 'task')}, in both orders"])
    groups = report.by_attribute() if by_attribute else {}
    columns = ["task", "attribute", "pairs", "in order", "+-", *DISTANCES, "one order", "contradicts"]
    columns += ["prior", "signal"]
    rows: list[list[object]] = []
    for key, each in (groups | ({("all", ""): report} if len(groups) != 1 else {})).items():
        shares = [each.in_order.value, each.in_order.stderr, *(each.at(place).value for place in range(3))]
        shares += [each.one_order.value, each.contradicts.value]
        row = [*key, len(each), *map(_percent, shares), each.prior, each.signal]
        rows.append([*row, each.tells, each.tells_other] if by_attribute else row[2:])
    if by_attribute:
        print("\n" + table(rows, [*columns, "tells", "other"], 140))
        print("tells, other: mean size of p(better) - p(worse), in the attribute and in one in which all are alike\n")
    else:
        _print("", table(rows, columns[2:]).split("\n"))
    cost = f"{counted(report.n_questions, 'question')} in {seconds:.1f} s"
    if 0 < report.tokens_computed < report.tokens_naive:
        run, naive = counted(report.tokens_computed, "token"), counted(report.tokens_naive, "token")
        cost += f"; beginnings that they share are run once: {run} instead of {naive}"
    _print("cost", [cost])


def _percent(share: float) -> str:
    return "-" if math.isnan(share) else f"{share:.0%}"


def _print(name: str, lines: list[str]) -> None:
    for line in lines:
        print(f"{name:<10}  {line}")
        name = ""
