"""A question on labels -> chats for vLLM that report the exact probabilities of the labels' tokens, and back.

One request for each beginning of a label's token sequences: the empty one, and those that go on. All of them are known
beforehand, so that one round is enough. A chat is made of text, and the server makes its tokens; here it is checked
that they will be the very tokens of the live route (engines/tokens.py), and what would be others is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...engine import LabelAnswer, Prompt
from ...errors import EngineError
from ..servers.routes import ChosenIds
from ..servers.steps import NextToken, known_from_ids, next_tokens
from ..tokens import Ids, LabelForms, PromptTokenizer

_MOST_IDS = 128  # that vLLM takes in one request


def requests_on_labels(
    prompt: Prompt, labels: Sequence[str], tokens: PromptTokenizer, how: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Bodies, one for each beginning of a label.

    how : of every body: the model, and what its chat template is given
    raises : EngineError where a chat would become other tokens; LabelError; PromptTooLongError
    """
    ids, forms = tokens.question(prompt, labels)
    bodies = []
    for start in starts_of(forms):
        wanted = next_tokens(forms, start)
        if len(wanted) > _MOST_IDS:
            raise EngineError(f"the labels have {len(wanted)} tokens, expected at most {_MOST_IDS}. Take fewer labels")
        body = {
            **how,
            **chat_of(prompt, tokens, ids, start, how),
            "max_tokens": 1,
            "temperature": 0,
            "logprobs": True,
            "logprob_token_ids": wanted,
            "return_tokens_as_token_ids": True,
        }
        bodies.append(body)
    return bodies


def chat_of(
    prompt: Prompt, tokens: PromptTokenizer, ids: list[int], start: Ids, how: Mapping[str, Any]
) -> dict[str, Any]:
    """The chat that a server's template turns into these tokens, and behind them the beginning of a label.

    raises : EngineError where it turns it into others
    """
    messages = [{"role": "user", "content": prompt.text}]
    if not tokens.has_template:
        raise EngineError("the model has no chat template, and questions for vLLM are chats. Ask it live")
    rendered = tokens.render(prompt)
    turn: dict[str, Any] = {}
    if begun := prompt.prefill + tokens.tokenizer.decode(list(start)):
        messages.append({"role": "assistant", "content": begun})
        turn = {"add_generation_prompt": False, "continue_final_message": True}
        asked = {**how.get("chat_template_kwargs", {}), **turn}
        rendered = str(tokens.tokenizer.apply_chat_template(messages, tokenize=False, **asked))
    there = tokens.tokenizer(rendered, add_special_tokens=False, verbose=False)["input_ids"]
    if list(there) != [*ids, *start]:
        why = f"the answer begins with {begun!r}" if begun else "its text holds the name of a control token"
        raise EngineError(
            f"a chat in a file would become other tokens than the question has, because {why}. Ask it live, or with "
            "--answers words"
        )
    return {"messages": messages, **turn}


def starts_of(forms: LabelForms) -> list[Ids]:
    """Beginnings of the labels' token sequences, the empty one first, each after which a token matters."""
    return sorted({form[:n] for form in forms.all for n in range(len(form))}, key=lambda start: (len(start), start))


def read_step(forms: LabelForms, start: Ids, body: Mapping[str, Any]) -> NextToken[int]:
    """What a reply says of the token behind the beginning of a label, as the live route reads it.

    raises : ValueError and its like for what cannot be true of a reply
    """
    return ChosenIds().ask(lambda _, read: read(body), (), next_tokens(forms, start), 0)


def answer_on_labels(forms: LabelForms, steps: Sequence[NextToken[int]], tokens: PromptTokenizer) -> LabelAnswer:
    """From all steps, in the order of `starts_of`; the answer of the live route to the last bit."""
    behind = dict(zip(starts_of(forms), steps, strict=True))
    return known_from_ids(forms, behind.__getitem__).answer(tokens.spell)
