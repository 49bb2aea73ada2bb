"""`synthscore doctor`: can this model judge, and how is it asked?"""

from __future__ import annotations

import math
import textwrap
import time
from typing import Annotated, Any

from cyclopts import Parameter

from ..engine import Engine, Prompt, decides, gives_rewards
from ..errors import EngineError
from ..judging.asking import PROTOCOLS, Asking, Pair, ProtocolName, Verdicts, ask, prompt_of
from ..judging.templates import Templates
from ..types import Context
from .messages import Messages
from .options import ERROR, JUDGE, OK, Answering, Running
from .talk import counted

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

N_SPEED = 32  # questions on one context


def doctor(
    *,
    task: str = "summarization",
    attribute: Annotated[str | None, Parameter(name=["--attribute", "-a"])] = None,
    protocol: ProtocolName = "compare",
    answering: Annotated[Answering, Parameter(name="*")] = Answering(),
    model: Annotated[str, Parameter(group="model", help=JUDGE)] = "nano",
    opening: Running = Running(),
    messages: Messages = Messages(),
) -> int:
    """Can this model judge, and how fast?

    For example:
      $ synthscore doctor
      $ synthscore doctor --model Qwen/Qwen3-0.6B --task dialogue --attribute naturalness

    Loads a model and shows how it judges one small example: the prompt as the model sees it, the labels as tokens, what
    it answers in both orders, what it would rather answer, and how fast it is. The exit code is 1 where it cannot
    judge.

    Parameters
    ----------
    task
        a task, or a folder with a task.toml
    attribute
        which (default: the task's first)
    protocol
        how the judge is asked
    """
    from .. import engines
    from ..judging.tasks import load_task

    known = load_task(task)
    attribute = attribute or next(iter(known.attributes))
    known.attribute(attribute)
    templates = Templates(known, answering.prompts)
    engine = engines.open_engine(model, **opening.options)
    _print_model(model, engine)
    pairs = [Pair(CONTEXT, attribute, GOOD, BAD), Pair(CONTEXT, attribute, BAD, GOOD)]
    prompt = prompt_of(pairs[0], templates, protocol)
    if gives_rewards(engine):
        prompt = templates.reply_to(CONTEXT, attribute)
    _print_prompt(engine, prompt, f"{known.name}, {attribute}, template set {answering.prompts}", protocol)
    verdicts = ask(pairs, engine, templates, answering.asking(protocol))
    _print_answers(verdicts, protocol)
    _print_speed(engine, templates, attribute, protocol)
    _print("signature", str(verdicts.signature).split("|"))
    print()
    if verdicts.failures:
        print(textwrap.fill(f"This model cannot judge so: {next(iter(verdicts.failures.values()))}", 100))
        return ERROR
    good, bad = (verdicts.better - verdicts.worse).tolist()
    if good > bad:
        print("It can judge: it answers with the labels, and finds the good text the better one.")
    else:
        print("It answers with the labels, so it can be used; but it does not find the good text the better one.")
    return OK


def _print_model(name: str, engine: Engine) -> None:
    parts = dict(engine.signature.parts)
    lines = [", ".join(part for part in (parts.get("model", name), parts.get("dtype")) if part)]
    tokens: Any = getattr(engine, "prompts", None)
    if backend := getattr(engine, "backend", None):
        lines.append(f"run as {backend}, checked against the plain forward when it was loaded")
    if reports := getattr(engine, "reports", None):
        lines.append(reports)
    if tokens is not None:
        together = f"takes {counted(tokens.max_length, 'token')}, question and answer together"
        lines.append(getattr(tokens, "takes", together))
        chat = "asked through its chat template"
        lines.append(chat if tokens.has_template else "has no chat template: asked in plain text")
    _print("model", lines)


def _print_prompt(engine: Engine, prompt: Prompt, what: str, protocol: ProtocolName) -> None:
    in_words = not gives_rewards(engine) and not decides(engine)
    tokens: Any = getattr(engine, "prompts", None) if in_words else None
    text = tokens.render(prompt) if tokens is not None else prompt.text + prompt.prefill
    lines = [part for line in text.split("\n") for part in textwrap.wrap(line, 84) or [""]]
    bare = tokens is None and hasattr(engine, "reports")
    seen = "before the server's chat template" if bare else "as the model sees it"
    if not in_words:
        own = "as the judge is given it, which puts its own words around it"
        seen = "to which each text is shown as the reply" if gives_rewards(engine) else own
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


def _print_speed(engine: Engine, templates: Templates, attribute: str, protocol: ProtocolName) -> None:
    pairs = [Pair(CONTEXT, attribute, f"{GOOD} It is the {n}th time this year.", BAD) for n in range(4, 4 + N_SPEED)]
    start = time.perf_counter()
    answers = ask(pairs, engine, templates, Asking(protocol, min_mass=0)).answers
    seconds = time.perf_counter() - start
    if answers.failures:
        return
    lines = [f"{len(answers) / seconds:.3g} questions/s ({len(answers)} on one context in {seconds:.1f} s)"]
    if 0 < answers.tokens_computed < answers.tokens_naive:
        run, naive = counted(answers.tokens_computed, "token"), counted(answers.tokens_naive, "token")
        lines.append(f"beginnings that questions share are run once: {run} instead of {naive}")
    _print("speed", lines)


def _print(name: str, lines: list[str]) -> None:
    for line in lines:
        print(f"{name:<10}  {line}")
        name = ""
