"""`synthscore doctor`: what can this model judge, and how is it asked?"""

from __future__ import annotations

import math
import textwrap
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from ..engine import Engine, Prompt, capabilities_of
from ..errors import EngineError
from ..judging.asking import Pair, ProtocolName, Verdicts, ask, labels_of, prompt_of
from ..judging.templates import Templates
from ..types import Context
from .messages import ERROR, INCOMPLETE, OK, Messages, counted, exit_code, format_number, table
from .options import Answering, AnyTask, Attributes, DryRun, JudgeOptions, Output, Positive

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ..checking.judge import JudgeReport
    from ..ladders.references import References
    from ..types import Task

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


def doctor(
    *,
    task: AnyTask = None,
    attribute: Attributes = None,
    protocol: ProtocolName = "compare",
    ladders: str | None = None,
    pairs: Positive | None = None,
    output: Output | None = None,
    dry_run: DryRun = False,
    answering: Annotated[Answering, Parameter(name="*")] = Answering(),
    judge: JudgeOptions = JudgeOptions(),
    messages: Messages = Messages(),
) -> int:
    """What can this model judge?

    For example:
      $ synthscore doctor
      $ synthscore doctor --model Qwen/Qwen3-0.6B --task dialogue --attribute naturalness
      $ synthscore doctor --model Qwen/Qwen3-0.6B --ladders ladders/

    Loads a model and shows how it judges one small example: the prompt as the model sees it, the labels as tokens, what
    it answers in both orders, what it would rather answer. Then asks, in both orders, about pairs of texts of which one
    is better, from curated ladders, and says by attribute whether it can judge, cannot, or cannot be told yet. It asks
    about 12 pairs of each attribute, and about 24, then 48 of those that are not decided:

      in order      pairs of which it finds the better text the better one; chance is half
      counts        the same by counts of characters and words alone: what a judge is to be better than
      one order     in order without --both-orders
      contradicts   pairs of which it finds each text the better one (or each the worse), asked about it
      prior         what it says whatever is shown, in nats: log P(better) - log P(worse), mean of both orders
      signal        what it says about the texts: half the difference of the orders, root mean square

    With --ladders, about pairs of rungs of any ladders, and what it makes of each ladder's widest pair in another
    attribute, in which it is alike. The exit code is 0 where it can judge all attributes, 1 where it can judge none,
    else 3.

    Args:
        task: a task, or a folder with a task.toml (default: summarization; with --ladders: all that there are)
        attribute: which; may be repeated (default: all that there are ladders of)
        protocol: how the judge is asked
        ladders: references folder, or id of a hub dataset; answers are then kept (--store), so that a killed run goes
            on
        pairs: so many of each attribute at once, or as many as there are (default: 12, 24, 48 while it is not decided)
        output: also write all figures, and each pair, to a JSON file
    """
    from ..checking.judge import examine
    from ..checking.rates import LOOKS
    from ..checking.repeats import ask_twice
    from ..engines.words import find_in_words
    from ..ladders.references import References

    references = References() if ladders is None else References.load(ladders)
    here = references.tasks[0] if len(references.tasks) == 1 else "summarization"
    known = references.find_task(task or here)
    for name in attribute or ():
        known.attribute(name)
    example = next(iter(attribute or known.attributes))
    chosen = _curated(known, attribute) if ladders is None else references.select(task=task, attribute=attribute)
    if ladders is None and judge.store is None:
        judge = replace(judge, store="none")  # whoever asks how a model is does not mean how it was
    templates = Templates(known, answering.prompts)
    asking = answering.asking(protocol)
    name = judge.named(messages)
    with judge.open(name, messages, dry_run=dry_run) as watched:
        _print_model(name, watched)
        shown = [Pair(CONTEXT, example, GOOD, BAD), Pair(CONTEXT, example, BAD, GOOD)]
        prompt = prompt_of(shown[0], templates, protocol)
        if capabilities_of(watched).gives_rewards:
            prompt = templates.reply_to(CONTEXT, example)
        what = f"{known.name}, {example}, template set {answering.prompts}"
        if known.name != "summarization":
            what += " (about an example of summarization)"
        _print_prompt(watched, prompt, what, labels_of(protocol, known))
        verdicts = ask(shown, watched, templates, asking)
        looks = LOOKS if pairs is None else (pairs,)
        if dry_run:
            if chosen:
                examine(watched, chosen, asking, looks=looks[-1:], others=ladders is not None, task=task)
            _print("questions", [f"at most {line}" for line in watched.cost])
            return OK
        _print_answers(verdicts, protocol)
        _print("signature", str(verdicts.signature).split("|"))
        if verdicts.failures:
            why = next(iter(verdicts.failures.values()))
            _print_wrapped(f"This model cannot judge so: {why}")
            return ERROR
        if not chosen:
            what = ", ".join([known.name, *(attribute or ())])
            _print_wrapped(
                f"What it can judge is not known: there are no curated ladders of {what}, so that no pair was asked. "
                "Name ladders of yours with --ladders."
            )
            return INCOMPLETE
        start = time.perf_counter()
        report = examine(watched, chosen, asking, looks=looks, others=ladders is not None, task=task)
        in_words = find_in_words(watched)
        repeats = ask_twice(in_words, chosen, asking, task) if in_words else None
    wanted: Collection[str] = attribute or ()
    if attribute is None and (task or not ladders):
        wanted = known.attributes
    without = [name for name in wanted if name not in chosen.attributes]
    _print_report(report, time.perf_counter() - start, without)
    if output:
        report.save(output)
    if repeats is not None:
        _print_wrapped(f"In words: {repeats.words}.")
    _print_wrapped(report.verdict)
    decisions = set(report.decisions.values())
    if decisions == {"cannot"}:
        return ERROR
    return exit_code(decisions == {"can"} and not (attribute and without))


def _curated(known: Task, attributes: Collection[str] | None) -> References:
    """The curated ladders of the task, of the half that nothing was trained on; none where there are none."""
    from ..ladders.references import References
    from ..resources import resource

    file = resource("data/references/curated") / known.name / "test.parquet"
    if not file.exists():
        return References()
    curated = References.load(file).filter(attribute=attributes)
    return References([ladder for ladder in curated if ladder.attribute in known.attributes])


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


def _print_prompt(engine: Engine, prompt: Prompt, what: str, labels: Sequence[str]) -> None:
    can = capabilities_of(engine)
    in_words = not can.gives_rewards and not can.decides
    tokens = can.tokenizer if in_words else None
    text = tokens.render(prompt) if tokens is not None else prompt.text + prompt.prefill
    lines = [part for line in text.split("\n") for part in textwrap.wrap(line, 84) or [""]]
    stage = "as the model sees it"
    if can.gives_rewards:
        stage = "to which each text is shown as the reply"
    elif can.decides:
        stage = "as the judge is given it, which puts its own words around it"
    elif can.served and tokens is None:
        stage = "before the server's chat template"
    _print("prompt", [f"{what}, {stage}:", *(f"| {line}" for line in lines)])
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
    answers = verdicts.answers
    labels = answers.labels
    rounds = ["good text asked about", "bad text asked about"]
    if protocol == "yes_no_two_sided":
        rounds = [f"{text}, {side}" for side in ("better?", "worse?") for text in rounds]
    heads = "".join(f"{label:>9}" for label in labels)
    lines = [f"{'':<22}{heads}{'together':>10}   would rather answer"]
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


def _print_report(report: JudgeReport, seconds: float, without: Sequence[str]) -> None:
    """A row an attribute, shares as percentages. without : attributes that there are no ladders of"""
    n_tasks = len({task for task, _ in report.decisions})
    lines = [f"{counted(len(report), 'pair')} of rungs from {counted(n_tasks, 'task')}, in both orders"]
    if without:
        lines.append(f"no ladders, so not asked about: {', '.join(without)}")
    _print("pairs", lines)
    columns = ["task", "attribute", "pairs", "in order", "+-", "counts", "one order", "contradicts", "prior", "signal"]
    others = not math.isnan(report.tells_other)
    rows: list[list[object]] = []
    for key, each in report.by_attribute().items():
        shares = [each.in_order.value, each.in_order.stderr, each.by_counts.value]
        shares += [each.one_order.value, each.contradicts.value]
        row = [*key, len(each), *map(_percent, shares), each.prior, each.signal]
        if others:
            row += [each.tells, each.tells_other]
        rows.append([*row, report.decisions[key]])
    if others:
        columns += ["tells", "other"]
    print("\n" + table(rows, [*columns, "judges"], 140) + "\n")
    if others:
        print("tells, other: mean size of p(better) - p(worse), in the attribute and in one in which all are alike\n")
    cost = f"{counted(report.n_questions, 'question')} in {seconds:.1f} s"
    if 0 < report.tokens_computed < report.tokens_naive:
        run, naive = counted(report.tokens_computed, "token"), counted(report.tokens_naive, "token")
        cost += f"; beginnings that they share are run once: {run} instead of {naive}"
    _print("cost", [cost])


def _print_wrapped(text: str) -> None:
    print("\n" + textwrap.fill(text, 100, break_on_hyphens=False))


def _percent(share: float) -> str:
    return format_number(share, ".0%")


def _print(name: str, lines: list[str]) -> None:
    for line in lines:
        print(f"{name:<10}  {line}")
        name = ""
