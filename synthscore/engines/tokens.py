"""Prompt -> token ids, labels -> token ids. Knows tokenizers and chat templates; knows no model.

- The chat template is rendered around one user message, with the header of the answer (add_generation_prompt), with
  thinking switched off where the template has such a switch, and on one fixed day; then comes the prefill
  (settle_template). All of it is tokenised as one string, without adding special tokens: the template writes them.
  Without a chat template the text stands for itself, the prefill follows directly, and the beginning-of-sequence token
  is added iff the tokenizer adds one by default. Nothing is ever added at the end.
- The prompt's text and prefill are plain text. A string in them that is the name of a control token ("<|im_end|>",
  "</s>", "<think>") is cut inside that name and the pieces are tokenised one by one, so that the token does not arise;
  all other texts are tokenised exactly as the whole string is. What the template itself writes in plain text (Llama 2's
  "[INST]") has no token of its own, so a text can imitate it.
- A label stands for two surface forms, "Better" and " Better". The ids of a form are what it adds to the prompt's ids
  when both are tokenised as one string. Where the tokenizer merges across that border, the form is tokenised by itself,
  and `LabelForms.boundary` says so.
"""

from __future__ import annotations

import hashlib
import secrets
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import combinations, product
from threading import Lock
from types import SimpleNamespace
from typing import Any, ClassVar, Literal, TypeVar
from unittest.mock import patch

from ..engine import Generation, Prompt
from ..errors import EngineError, LabelError, PromptTooLongError, SynthscoreWarning, unusable

Ids = tuple[int, ...]
Form = TypeVar("Form", Ids, str)
Boundary = Literal["whole", "separate"]
Span = tuple[int, int]

_PROBE = 'Is "a < b" & {c}?\n\nYes: 100 %'  # a template that only inserts its message leaves this as it is

USUAL_DATE = "2024-07-26"
"""Of chat templates that print today's: the one that Llama's print where they are given none."""

_CLOCK = Lock()  # held while templates are shown another day

_USUAL_FORMS = ("Better", " Better")

_NO_THINKING: Mapping[str, Any] = {"enable_thinking": False}
_THINKING: Mapping[str, Any] = {"enable_thinking": True, "thinking": True}  # templates know one of the two


@dataclass(frozen=True, slots=True)
class LabelForms:
    """The token sequences that stand for each label after one prompt: all different, none a prefix of another.

    forms : for each label, in order, the ids of its surface forms
    boundary : "whole" if prompt and form were tokenised as one string; "separate" if, for any form, they could not be
    """

    forms: tuple[tuple[Ids, ...], ...]
    boundary: Boundary

    @property
    def all(self) -> tuple[Ids, ...]:
        """The forms of all labels."""
        return tuple(form for forms in self.forms for form in forms)

    @property
    def starts(self) -> frozenset[int]:
        """The tokens that a label can begin with."""
        return frozenset(form[0] for form in self.all)

    @property
    def n_longest(self) -> int:
        return max(map(len, self.all))


class PromptTokenizer:
    """Turns prompts and labels into token ids for one model.

    tokenizer : a tokenizer of transformers
    max_length : tokens that the model takes, prompt and answer together
    framed : the chat template, or the token that texts begin with, is put around a prompt
    boundary : how labels are tokenised where a prompt ends; see LabelForms
    raises : EngineError, when the chat template does not take one user message
    """

    template_options: ClassVar[Mapping[str, Any]] = _NO_THINKING

    def __init__(self, tokenizer: Any, max_length: int, *, framed: bool = True) -> None:
        self.tokenizer = tokenizer
        self.max_length = max_length
        n_tokens = f"{max_length:,}".replace(",", " ")
        self.takes = f"takes {n_tokens} tokens, question and answer together"
        self._head, self._tail, self._strips = "", "", (False, False)
        self.has_template = framed and bool(tokenizer.chat_template)
        if self.has_template:
            self._head, self._tail, self._strips = _skeleton(tokenizer, self.template_options)
        self._unk: int | None = tokenizer.unk_token_id
        self._control = _control_ids(tokenizer) - {self._unk}
        self._bos: list[int] = []
        if framed and not self.has_template and tokenizer.bos_token_id is not None:
            self._bos = [i for i in tokenizer("a")["input_ids"][:1] if i == tokenizer.bos_token_id]
        self._skeleton_control = self._controls(self._ids(self._head + "a" + self._tail))
        self._break = self._ids("\n")
        self._forms: dict[object, LabelForms] = {}
        asked = self._head + "a:" + self._tail  # without a chat template, prompts end on a cue such as "Verdict:"
        start = self._ids(asked)
        whole = all(self._ids(asked + form)[: len(start)] == start for form in _USUAL_FORMS)
        self.boundary: Boundary = "whole" if whole else "separate"

    @property
    def template_hash(self) -> str:
        """8 hex digits that change with the rendered chat template and the date in it, or "none"."""
        if not self.has_template:
            return "none"
        return hashlib.sha256(f"{self._head}\0{self._tail}\0{self._strips}".encode()).hexdigest()[:8]

    def render(self, prompt: Prompt) -> str:
        """The string that is tokenised: the chat template around the text, then the prefill."""
        return self._render(prompt)[0]

    def encode(self, prompt: Prompt, room: int = 1) -> list[int]:
        """Token ids of the prompt. Never truncates.

        room : tokens that must still fit behind it
        raises : PromptTooLongError, with `n_tokens` and `max_tokens`
        """
        ids = self._encode(*self._render(prompt))
        self.check_room(len(ids), room)
        return ids

    def check_room(self, n_tokens: int, room: int) -> None:
        """raises : PromptTooLongError, unless room tokens fit behind a prompt of n_tokens."""
        if n_tokens + room > self.max_length:
            raise PromptTooLongError(
                f"the prompt has {n_tokens} tokens, expected at most {self.max_length - room}: the model takes "
                f"{self.max_length}, and {room} must be left for the answer. "
                "Shorten the text or its context, or take a model with a longer one",
                n_tokens=n_tokens,
                max_tokens=self.max_length - room,
            )

    def decode(self, ids: Iterable[int]) -> str:
        """The text of generated tokens, without special tokens."""
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=True))

    def spell(self, token: int) -> str:
        """The text of one token."""
        return str(self.tokenizer.decode([token]))

    def label_forms(self, prompt: Prompt, labels: Sequence[str], ids: Sequence[int] | None = None) -> LabelForms:
        """The token sequences of each label behind this prompt.

        They depend on how the prompt ends, which a template keeps constant: they are worked out once for each
        different ending, which is the last 16 characters together with the last 4 tokens.

        ids : encode(prompt), if the caller has it
        raises : LabelError, when labels collide or hold an unknown token
        """
        text, untrusted = self._render(prompt)
        ids = list(ids) if ids is not None else self._encode(text, untrusted)
        ending = (tuple(labels), text[-16:], tuple(ids[-4:]))
        if ending not in self._forms:
            if len(self._forms) >= 10_000:  # endings that all differ: no template, and no fixed last line
                self._forms.clear()
            self._forms[ending] = self._make_forms(text, untrusted, ids, tuple(labels))
        return self._forms[ending]

    def question(self, prompt: Prompt, labels: Sequence[str]) -> tuple[list[int], LabelForms]:
        """A prompt and what may follow it. raises : PromptTooLongError, unless the longest label fits; LabelError"""
        ids = self.encode(prompt)
        forms = self.label_forms(prompt, labels, ids)
        self.check_room(len(ids), forms.n_longest)
        return ids, forms

    def continuation(self, prompt: Prompt, text: str) -> tuple[list[int], Ids, Boundary]:
        """Ids of a prompt, those that a text adds to them as its answer, and how the two were tokenised (LabelForms).

        raises : EngineError, where prompt or text has no tokens; PromptTooLongError, unless both fit
        """
        ids = self._encode(*self._render(prompt))
        if not ids:
            raise EngineError("the prompt has no tokens, expected at least one. Give it a text")
        added, boundary = self.added(prompt, text, ids)
        self.check_room(len(ids), len(added))
        return ids, added, boundary

    def added(self, prompt: Prompt, text: str, ids: list[int]) -> tuple[Ids, Boundary]:
        """What a text adds to the ids of a prompt. It is plain text, as the prompt's is; a character that the tokenizer
        does not know is its unknown token."""
        before, untrusted = self._render(prompt)
        span = (len(before), len(before) + len(text))
        added, boundary = self._added(before, [*untrusted, span], ids, text)
        if boundary == "separate" and (self._controls(added) or self._spells_unknown(text)):
            added = self._encode_cut(text, [span], len(before))
        if not added:
            raise EngineError(f"the continuation {text!r:.60} has no tokens, expected at least one. Give it a text")
        return tuple(added), boundary

    # -------------------------------------------------------------------------------------------- prompts

    def _render(self, prompt: Prompt) -> tuple[str, list[Span]]:
        """The string to tokenise, and the spans of it that are plain text whatever they look like."""
        text = prompt.text.lstrip() if self._strips[0] else prompt.text
        text = text.rstrip() if self._strips[1] else text
        start, stop = len(self._head), len(self._head) + len(text)
        rendered = self._head + text + self._tail
        return rendered + prompt.prefill, [(start, stop), (len(rendered), len(rendered) + len(prompt.prefill))]

    def _encode(self, text: str, untrusted: list[Span]) -> list[int]:
        ids = self._ids(text)
        spelled = any(self._spells_unknown(text[start:stop]) for start, stop in untrusted)
        if spelled or self._controls(ids) != self._skeleton_control:
            ids = self._encode_cut(text, untrusted)
        return self._bos + ids

    def _spells_unknown(self, text: str) -> bool:
        return self._unk is not None and self.tokenizer.unk_token in text

    def _added(self, before: str, untrusted: list[Span], ids: list[int], text: str) -> tuple[list[int], Boundary]:
        """What a text adds to the ids of what stands before it, and how it was tokenised (LabelForms)."""
        whole = self._encode(before + text, untrusted)
        if whole[: len(ids)] == ids:
            return whole[len(ids) :], "whole"
        return self._ids_behind(text), "separate"

    def _encode_cut(self, text: str, untrusted: list[Span], offset: int = 0) -> list[int]:
        """Ids of text (which starts at offset of the whole string), with no control token out of an untrusted span."""
        ids, places = self._ids_and_places(text, behind=offset > 0)
        cuts = [0]
        for index, (start, stop) in zip(ids, places, strict=True):
            name = text[start:stop].strip()
            if index not in self._control and (index != self._unk or name != self.tokenizer.unk_token):
                continue
            start += len(text[start:stop]) - len(text[start:stop].lstrip())
            stop = start + len(name)
            if any(a < stop + offset and start + offset < b for a, b in untrusted):
                if len(name) < 2:
                    raise EngineError(f"the text holds {name!r}, which is a control token of the model. Remove it")
                cuts.append(start + 1)
        if len(cuts) == 1:
            return ids
        pieces = zip(cuts, [*cuts[1:], len(text)], strict=True)
        return [i for a, b in pieces for i in self._encode_cut(text[a:b], untrusted, offset + a)]

    def _controls(self, ids: Iterable[int]) -> list[int]:
        return [i for i in ids if i in self._control]

    def _ids(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])

    def _ids_and_places(self, text: str, *, behind: bool) -> tuple[list[int], list[Span]]:
        """As `_ids`, or as `_ids_behind`; and where each of them stands in the text."""
        if not self.tokenizer.is_fast:
            raise EngineError(
                "the text holds the name of a control token of the model, and this tokenizer does not tell where. "
                "Remove it, or install the model's fast tokenizer (tokenizer.json)"
            )
        whole = "\n" + text if behind else text
        encoding = self.tokenizer(whole, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        ids, places = list(encoding["input_ids"]), list(encoding["offset_mapping"])
        if not behind:
            return ids, places
        n = len(self._break)
        if ids[:n] != self._break:
            return self._ids_and_places(text, behind=False)
        return ids[n:], [(max(start - 1, 0), max(stop - 1, 0)) for start, stop in places[n:]]

    def _ids_behind(self, text: str) -> list[int]:
        """Ids of text as it stands behind something else: no space that a tokenizer puts before a beginning.

        Behind a line break, whose own ids are then removed; as a beginning, where the line break does not come off.
        """
        n = len(self._break)
        ids = self._ids("\n" + text)
        return ids[n:] if ids[:n] == self._break else self._ids(text)

    # -------------------------------------------------------------------------------------------- labels

    def _make_forms(self, text: str, untrusted: list[Span], ids: list[int], labels: tuple[str, ...]) -> LabelForms:
        boundaries: set[Boundary] = set()
        forms: list[tuple[Ids, ...]] = []
        for label in labels:
            distinct: dict[Ids, None] = {}
            for surface in (label, " " + label):
                added, boundary = self._added(text, untrusted, ids, surface)
                distinct[tuple(added)] = None
                boundaries.add(boundary)
            for form in distinct:
                if not form or self._unk in form:
                    raise LabelError(
                        f"the model's tokenizer cannot write the label {label!r}: its tokens are {self.spelled(form)}, "
                        "with an unknown one among them. Take labels whose letters the model knows, or another model",
                        label=label,
                    )
            shortest = [form for form in distinct if not any(_begins(form, o) for o in distinct if o != form)]
            forms.append(tuple(shortest))
        check_distinct(labels, forms, lambda form: repr(self.spelled(form)))
        return LabelForms(tuple(forms), "separate" if "separate" in boundaries else "whole")

    def spelled(self, form: Ids) -> list[str]:
        return list(self.tokenizer.convert_ids_to_tokens(list(form)))


class ThinkingTokenizer(PromptTokenizer):
    """For texts that a model thinks before: the chat template is rendered with thinking on.

    Where thinking begins and ends, the template itself says: an answer is rendered with reasoning, and what stands
    between the two, white space aside, is the end.

    raises : EngineError, where the template shows no reasoning, or nothing between it and the answer
    """

    template_options = _THINKING

    def __init__(self, tokenizer: Any, max_length: int) -> None:
        super().__init__(tokenizer, max_length)
        self._begin, self._end = self._markers()

    def encode(self, prompt: Prompt, room: int = 1) -> list[int]:
        if prompt.prefill:
            raise EngineError(f"a model that thinks first cannot go on from {prompt.prefill!r}. Leave thinking off")
        return super().encode(prompt, room)

    def decode(self, ids: Iterable[int]) -> str:
        """With special tokens, for some models mark their thinking by these."""
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=False))

    def answer(self, written: Generation, stop: Sequence[str]) -> Generation:
        """What follows the last end of thinking, up to a stop string; the whole text where the model did not begin to
        think. A chain of thought that does not end is a text that was cut, without an answer."""
        _, end, text = written.text.rpartition(self._end)
        thinks = not self._begin or self._begin in written.text
        if not end and (thinks or written.finish_reason != "stop"):
            return Generation("", "length", written.n_tokens)
        for token in self.tokenizer.all_special_tokens:
            text = text.replace(token, "")
        text, reason = text.strip(), written.finish_reason
        if places := [place for word in stop if (place := text.find(word)) >= 0]:
            text, reason = text[: min(places)], "stop"
        return Generation(text, reason, written.n_tokens)

    def _markers(self) -> tuple[str, str]:
        """What begins and what ends thinking. The beginning is "" where the prompt ends with it already."""
        asked, thought, said = ("s" + secrets.token_hex(8) for _ in range(3))
        reasoning = dict.fromkeys(("reasoning_content", "reasoning", "thinking"), thought)  # templates know one of them
        turns = [{"role": "user", "content": asked}, {"role": "assistant", "content": said, **reasoning}]
        shown = ""
        if self.has_template:
            with suppress(Exception):  # of a template that takes no answers
                shown = str(self.tokenizer.apply_chat_template(turns, tokenize=False, **self.template_options))
        before, _, rest = shown.rpartition(thought)
        end, found, _ = rest.partition(said)
        if not before or not found or not end.strip():
            raise EngineError(
                "the model's chat template has no thinking: it shows no reasoning before an answer. Leave thinking "
                "off, or take a model that thinks"
            )
        begin = before.partition(asked)[2].strip()  # a prompt may end in the beginning, and white space besides
        return begin.removeprefix(self._tail.strip()).strip(), end.strip()


def warn_of_boundary(name: str, what: str) -> None:
    """Where LabelForms.boundary is "separate"."""
    warnings.warn(
        f"{name}: the tokenizer merges {what} with the end of a prompt, so they are tokenised by themselves",
        SynthscoreWarning,
        stacklevel=5,
    )


def check_distinct(labels: Sequence[str], forms: Sequence[Sequence[Form]], spelled: Callable[[Form], str]) -> None:
    """raises : LabelError, for an empty label, or one of which a form (token ids, or text) begins another's."""
    for label in labels:
        if not label.strip():
            raise LabelError(f"label {label!r} is empty, expected a word")
    for (first, ours), (second, theirs) in combinations(zip(labels, forms, strict=True), 2):
        for a, b in product(ours, theirs):
            if _begins(a, b) or _begins(b, a):
                raise LabelError(
                    f"labels {first!r} and {second!r} cannot be told apart: they are written "
                    f"{spelled(a)} and {spelled(b)}, and one begins with the other. "
                    "Take labels of which none is the beginning of another",
                    labels=(first, second),
                )


def _begins(form: Form, start: Form) -> bool:
    return form[: len(start)] == start


def _control_ids(tokenizer: Any) -> set[int]:
    """Ids of all special and added tokens, but not of added words and white space, which are ordinary vocabulary."""
    control = set(tokenizer.all_special_ids)
    for index, token in tokenizer.added_tokens_decoder.items():
        name = token.content.replace("\u2581", " ").strip()  # sentencepiece writes a space as U+2581
        if token.special or (len(name) > 1 and not name.isalnum()):
            control.add(index)
    return control


def settle_template(tokenizer: Any, date: str | None) -> str:
    """Makes the chat template take messages that are texts, where it shows lists of parts alone; and print one date,
    whatever day it is. Gives that date, or "" where it prints none.

    Templates take today from strftime_now, and some another from date_string. The latter, which a template has a date
    of its own for where nobody gives one, is given with a named date alone.

    date : YYYY-MM-DD; None: USUAL_DATE
    raises : InputError, for another form; EngineError, where a date is named for a template that prints none
    """
    from transformers.utils import chat_template_utils

    plain = tokenizer.apply_chat_template
    if tokenizer.chat_template and _shows_parts_alone(plain):
        plain = _taking_texts(plain)
    try:
        day = datetime.strptime(date or USUAL_DATE, "%Y-%m-%d")
    except ValueError as error:
        raise unusable("date", date, "a day as YYYY-MM-DD, such as 2026-11-24") from error

    def on(day: datetime) -> Callable[..., Any]:
        fields = {"date_string": day.strftime("%d %b %Y")} if date else {}
        clock = SimpleNamespace(now=lambda: day)  # transformers makes text of a strftime_now that it is given

        def apply_chat_template(*args: Any, **options: Any) -> Any:
            with _CLOCK, patch.object(chat_template_utils, "datetime", clock):
                return plain(*args, **fields, **options)

        return apply_chat_template

    def rendered(day: datetime) -> Any:
        turns = [{"role": "user", "content": "a"}]
        return on(day)(turns, tokenize=False, add_generation_prompt=True, **_NO_THINKING)

    tokenizer.apply_chat_template = on(day)
    prints = False
    if tokenizer.chat_template:
        with suppress(Exception):  # of a template that takes no user message, which is said where prompts are made
            prints = rendered(day) != rendered(day + timedelta(days=1000))
    if date and not prints:
        raise EngineError(f"the date {date} changes nothing: the model's chat template prints none. Leave it out")
    return day.strftime("%Y-%m-%d") if prints else ""


def _shows_parts_alone(apply: Callable[..., Any]) -> bool:
    """Whether a chat template leaves out a message that is a text, and shows one that is a list of parts."""
    mark = "s" + secrets.token_hex(8)

    def shows(content: Any) -> bool:
        with suppress(Exception):  # templates raise whatever they like
            turns = [{"role": "user", "content": content}]
            return mark in str(apply(turns, tokenize=False, add_generation_prompt=True, **_NO_THINKING))
        return False

    return not shows(mark) and shows([{"type": "text", "text": mark}])


def _taking_texts(apply: Callable[..., Any]) -> Callable[..., Any]:
    """A way to apply a chat template that makes a list of one part of each text."""

    def as_parts(turn: Mapping[str, Any]) -> Mapping[str, Any]:
        text = turn["content"]
        return {**turn, "content": [{"type": "text", "text": text}]} if isinstance(text, str) else turn

    def apply_chat_template(conversation: Sequence[Mapping[str, Any]], *args: Any, **options: Any) -> Any:
        return apply([as_parts(turn) for turn in conversation], *args, **options)

    return apply_chat_template


def _skeleton(tokenizer: Any, options: Mapping[str, Any]) -> tuple[str, str, tuple[bool, bool]]:
    """What the chat template puts before and after the user's message, and whether it strips its left and right end."""

    def render(content: str) -> str:
        try:
            return str(
                tokenizer.apply_chat_template(
                    [{"role": "user", "content": content}],
                    tokenize=False,
                    add_generation_prompt=True,
                    **options,
                )
            )
        except Exception as error:  # templates raise whatever they like
            raise EngineError(
                f"the model's chat template rejects a conversation of one user message: {error}. "
                "Set a template that takes one in the tokenizer's chat_template, or take another model"
            ) from error

    mark = "s" + secrets.token_hex(8)
    head, *rest = render(mark).split(mark)
    padded = render(f" {mark} ")
    left, *_ = padded.split(mark)
    strips = (left == head, padded.endswith(mark + "".join(rest)))
    if len(rest) != 1 or render(_PROBE) != head + _PROBE + rest[0]:
        raise EngineError(
            "the model's chat template changes, drops or repeats the user's message; expected the message as it is, "
            "once. Set another template in the tokenizer's chat_template, or take another model"
        )
    return head, rest[0], strips
