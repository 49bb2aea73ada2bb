"""Task + texts -> Prompt, by the tasks and templates of prompts/. A user's own task is a folder with a task.toml, maybe
with templates (task_files.py).

Templates are Jinja, sandboxed and strict: an undefined name is an error, never empty. A stranger's template can waste
time and memory, but it runs no code and opens no file.

A text from outside goes into a template as a value, once; it is never a template itself. A template set is a folder
of files: `extreme` and `between` write a ladder; `compare` (better / worse / similar), `yes_no`, `choose` (A / B),
`rate` (a number) and `boolean` (Yes / No, of one text) judge; `likelihood` and `paraphrase` ask for a text, to see how
probable a given one is. Two sets are built in: `default` (all that is constant before the texts, a one-word cue after
them, both texts named alike) and `paper` (the variables and block order of arXiv:2509.05440 and 2307.07889; `rate` is
laid out as in 2303.16634, `rate_s1` and `rate_s2` as the two prompts of 2307.07889, `likelihood` and `paraphrase` as in
2302.04166, `boolean` as in 2210.07197).
"""

from __future__ import annotations

import hashlib
import os
from copy import copy
from functools import cache, cached_property
from itertools import product
from pathlib import Path

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from ..engine import Prompt
from ..errors import InputError, TaskError, TemplateError, did_you_mean
from ..io.fields import shorten
from ..resources import resource
from ..signature import text_hash
from ..types import Attribute, Context, Task
from .task_files import TASK_FILE, parse_task, read_task_folder, task_hash

PROMPTS = resource("prompts")
TEMPLATE_SETS = ("default", "paper")


def task_names() -> list[str]:
    """The built-in tasks."""
    return list(_built_in_tasks())


def load_task(name: str | os.PathLike[str]) -> Task:
    """A built-in task by name, or a user's own by the path of its folder.

    raises : TaskError for a name that is neither, a task.toml that does not parse, or a key that is missing or unknown.
    """
    if built_in := _built_in_tasks().get(str(name)):
        return built_in
    if not is_task(name):
        raise TaskError(
            f"no task {str(name)!r}: it is neither one of {', '.join(task_names())} nor a folder with a task.toml. "
            f"Name the folder of a task of your own: --task FOLDER.{did_you_mean(name, task_names())}",
            task=str(name),
        )
    return read_task_folder(Path(name))


def is_task(name: str | os.PathLike[str]) -> bool:
    """Whether `load_task` finds one of this name, or in this folder."""
    return str(name) in _built_in_tasks() or os.path.isfile(Path(name) / TASK_FILE)


@cache
def _built_in_tasks() -> dict[str, Task]:
    files = sorted(PROMPTS.glob(f"*/{TASK_FILE}"))
    return {file.parent.name: parse_task(file.read_text(encoding="utf-8"), file) for file in files}


def is_built_in(task: Task) -> bool:
    """Whether it asks in the same words as the package's task of this name."""
    return _built_in_tasks().get(task.name) == task


class Templates:
    """The prompts of one task.

    templates : "default", "paper", or the path of a folder with own templates. In such a folder, FOLDER/<task>/ is
        looked at before FOLDER itself; nothing is taken from another set in place of a template that is missing. The
        task's own templates stand in for those of the two sets.
    raises : TemplateError where there is no such set; InputError where a task that came with references asks in other
        words than the folder

    Every template sees `task`, `attribute`, `context` and `facts`, and the task's answers `labels` and `yes_no`;
    `compare` and `yes_no` see `target` (the text that is asked about) and `reference`; `choose` sees `first` and
    `second`; `between` sees `worse` and `better`; `extreme` sees `extreme` ("best" or "worst"); both see `again`, the
    kind of fault for which a text is asked for again, or ""; `yes_no` sees `prediction`; `rate` sees `text`, `low` and
    `high`; `place` sees `text`, `n`, `how` and `rungs`; `paraphrase` sees `given`; `boolean` sees `text`, `noun`,
    `source`, `knowledge` and `reference`. The papers' names (article, col_title, ...) hold the same values.
    A template may set `prefill`: how the answer starts; and `shared`: what it begins with and shares with other texts
    of the context.
    """

    def __init__(self, task: Task, templates: str | Path = "default") -> None:
        self.task = task
        self.name = str(templates)
        self._folders = _folders(task, templates)
        self._own = task.templates if self.name in TEMPLATE_SETS else {}
        self._checked: set[str] = set()
        task_templates = jinja2.DictLoader({f"{name}.jinja": source for name, source in self._own.items()})
        set_templates = jinja2.FileSystemLoader(self._folders)
        self._environment = ImmutableSandboxedEnvironment(
            loader=jinja2.ChoiceLoader([task_templates, set_templates]),
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            autoescape=False,  # prompts are plain text, not markup
            auto_reload=False,  # or each prompt looks whether the file has changed
        )
        if self.name not in TEMPLATE_SETS and task.carried_by:
            self._require_words_of(task)

    def _require_words_of(self, task: Task) -> None:
        """raises : InputError where the folder has other words for a template that came with the task's references"""
        for name, theirs in task.templates.items():
            try:
                ours = self.source(name)
            except TemplateError:
                continue
            if ours != theirs:
                raise InputError(
                    f"the task {task.name!r} of {task.carried_by} has a template {name} of its own "
                    f"({task.folder}, {text_hash(theirs)[:12]}), and {self.name} has another ({text_hash(ours)[:12]}), "
                    f"expected one. Leave --prompts out, or, to ask in its words, also name the task's folder: "
                    f"--task {task.folder}",
                    field="prompts",
                    value=self.name,
                )

    def extreme(self, context: Context, attribute: Attribute, *, best: bool, again: str = "") -> Prompt:
        """Asks for the best or the worst text for the context. again : the fault of one that was refused"""
        word = "best" if best else "worst"
        return self.render("extreme", context, attribute, extreme=word, worst_best=word, again=again)

    def between(self, context: Context, attribute: Attribute, *, worse: str, better: str, again: str = "") -> Prompt:
        """Asks for a text between two others. again : the fault of one that was refused"""
        texts = {"worse": worse, "better": better, "worse_summary": worse, "better_summary": better}
        return self.render("between", context, attribute, **texts, again=again)

    def compare(self, context: Context, attribute: Attribute, *, target: str, reference: str) -> Prompt:
        """Asks whether the target is better than, worse than, or similar to the reference."""
        return self.render("compare", context, attribute, **_pair(target, reference))

    def yes_no(
        self, context: Context, attribute: Attribute, *, target: str, reference: str, worse: bool = False
    ) -> Prompt:
        """Asks whether the target is better (with `worse`: worse) than the reference."""
        prediction = attribute.worse if worse else attribute.better
        return self.render("yes_no", context, attribute, prediction=prediction, **_pair(target, reference))

    def choose(self, context: Context, attribute: Attribute, *, first: str, second: str) -> Prompt:
        """Asks which of two texts is better, A (shown first) or B."""
        return self.render("choose", context, attribute, first=first, second=second)

    def reply_to(self, context: Context, attribute: str) -> Prompt:
        """Asks for as good a text as can be: what a reward model is shown each text as the reply to."""
        return self.render("likelihood", context, self.task.attribute(attribute))

    def rate(
        self, context: Context, attribute: Attribute, *, text: str, low: int, high: int, template: str = "rate"
    ) -> Prompt:
        """Asks for a whole number from `low` to `high`, the best. template : "rate", or another file of the set."""
        return self.render(template, context, attribute, text=text, low=str(low), high=str(high))

    def require_texts(self, name: str) -> None:
        """raises : TemplateError for a question about two texts that does not show each of them whole, exactly once,
        whether they are short or long, and whatever they hold"""
        if name in self._checked:
            return
        shown = ("target", "reference")
        if name == "choose":
            shown = ("first", "second")
        for attribute, facts, probes in product(self.task.attributes.values(), ("", "<facts>"), _probes(*shown)):
            texts: dict[str, str] = probes
            if name != "choose":
                texts = _pair(**probes)
            if name == "yes_no":
                texts = texts | {"prediction": attribute.better}
            prompt = self.render(name, Context("probe", "<context>", facts), attribute, **texts)
            whole = prompt.text + prompt.prefill
            for text, probe in probes.items():
                n = whole.count(probe)
                if n != 1:
                    raise self._wrong(
                        name,
                        f" shows the {text} {n} times in a prompt about {attribute.name}, expected exactly once, and "
                        f"whole (tried with a text of {len(probe):,} characters, {shorten(probe)}). Write "
                        f"{{{{ {text} }}}} where the text is to stand, without a condition or a filter",
                    )
        self._checked.add(name)

    def hash(self, name: str) -> str:
        """12 hex digits that change when any prompt of this template would: wording, nouns, attribute phrases."""
        digest = hashlib.sha256()
        for attribute in self.task.attributes.values():
            # What `yes_no` is given as its prediction is the task's own wording, not a text from outside.
            predictions = (attribute.better, attribute.worse) if name == "yes_no" else ("<prediction>",)
            for facts, prediction in product(("", "<facts>"), predictions):
                probe = Context("probe", "<context>", facts)
                texts = {key: f"<{key}>" for key in _TEXTS} | {"prediction": prediction, "again": ""}
                prompt = self.render(name, probe, attribute, **texts)
                digest.update(repr((prompt.text, prompt.prefill)).encode())
        return digest.hexdigest()[:12]

    def signature_parts(self, name: str) -> dict[str, str]:
        """What a signature says of the words of this template: its set and hash, and the task, where that is not one of
        the package's."""
        parts = {"template": f"{self.name}/{name}@{self.hash(name)}"}
        if not is_built_in(self.task):
            parts["own_task"] = f"{self.task.name}@{task_hash(self.task)}"
        return parts

    def source(self, name: str) -> str:
        """A template as it was written. raises : TemplateError where there is none"""
        loader = self._environment.loader
        assert loader is not None
        try:
            return loader.get_source(self._environment, f"{name}.jinja")[0]
        except jinja2.TemplateNotFound as error:
            raise self._missing(name) from error
        except ValueError as error:
            raise TemplateError(f"template {self.name}/{name}.jinja is not UTF-8: {error}", template=name) from error

    def replaced(self, name: str, source: str, label: str) -> Templates:
        """The same set with another template of this name. label : is added to the set's name"""
        other = copy(self)
        other._checked = set()
        other.name = f"{self.name}+{label}"
        assert self._environment.loader is not None
        instead = jinja2.DictLoader({f"{name}.jinja": source})
        other._environment = self._environment.overlay(loader=jinja2.ChoiceLoader([instead, self._environment.loader]))
        return other

    @cached_property
    def _nouns(self) -> dict[str, str]:
        names = ("context_noun", "text_noun", "texts_noun", "facts_noun", "length")
        nouns: dict[str, str] = {name: getattr(self.task, name) for name in names}
        for name in ("Context", "Text", "Facts"):
            noun = nouns[f"{name.lower()}_noun"]
            nouns[name] = noun[:1].upper() + noun[1:]
        return nouns

    def render(self, name: str, context: Context, attribute: Attribute, **texts: object) -> Prompt:
        """A template of this name. texts : what it sees besides task, attribute, context and facts"""
        values: dict[str, object] = {
            "task": self._nouns,
            "attribute": attribute,
            "context": context.text,
            "facts": context.facts,
            "labels": self.task.labels,
            "yes_no": self.task.yes_no,
            "col": attribute.name,
            "col_title": attribute.title,
            "col_description": attribute.description,
            self.task.paper_context: context.text,
            **texts,
        }
        try:
            module = self._environment.get_template(f"{name}.jinja").make_module(values)
            text = str(module)
            prefill = str(getattr(module, "prefill", ""))
            shared = str(getattr(module, "shared", ""))
            n_shared = len(shared) if text.startswith(shared) else 0
            return Prompt(text, prefill, n_shared)
        except jinja2.TemplateNotFound as error:
            raise self._missing(str(error.name).removesuffix(".jinja")) from error
        except jinja2.UndefinedError as error:
            raise self._wrong(name, f": {error.message}. It may use: {', '.join(sorted(values))}") from error
        except Exception as error:  # a template is code of others, and may raise anything
            raise self._wrong(name, f" {_fault(error)}") from error

    def _wrong(self, name: str, what: str) -> TemplateError:
        where = self.task.folder if name in self._own else self.name
        return TemplateError(f"template {where}/{name}.jinja (task {self.task.name!r}){what}", template=name)

    def _missing(self, name: str) -> TemplateError:
        looked_in = self._folders
        if self._own:
            looked_in = [self.task.folder, *self._folders]
        return TemplateError(
            f"template set {self.name!r} has no {name}.jinja for task {self.task.name!r}. Looked in: "
            f"{', '.join(looked_in)}. Copy one from {PROMPTS / '_shared' / 'default'}",
            template=name,
        )


_TEXTS = (
    *("target", "reference", "target_summary", "icl_summary", "first", "second", "prediction"),
    *("worse", "better", "worse_summary", "better_summary", "extreme", "worst_best", "text", "low", "high"),
    *("given", "noun", "source", "knowledge", "n", "how", "rungs"),
)


_PROBES = (
    "<the {}, a text to judge>",
    "¤{}",  # a text of one word
    " \n\tThe {}:\n\n  its  white space,\u00a0its & and < > \" ' \\,\r\nits Capitals ÄßΩ. \n",
    "{{{{ {} }}}} {{% raw %}} {{# {{0}} %s #}} [[{}]]",
    "The {}. " + "One sentence of seven words stands here. " * 20,
    "The {}. " + "One sentence of seven words stands here.\n" * 2500,  # 100,000 characters
)
"""Texts that a template must show whole: short and long ones, and with what a filter would change."""


def _probes(one: str, other: str) -> list[dict[str, str]]:
    """Pairs of texts, of two kinds: each kind stands in the place of the one text and of the other."""
    other_kinds = (*_PROBES[1:], _PROBES[0])
    pairs = []
    for kind, other_kind in zip(_PROBES, other_kinds, strict=True):
        pairs.append({one: kind.format(one, one), other: other_kind.format(other, other)})
    return pairs


def _pair(target: str, reference: str) -> dict[str, str]:
    return {"target": target, "reference": reference, "target_summary": target, "icl_summary": reference}


def _fault(error: Exception) -> str:
    """What a template did that it should not, and what to do."""
    if isinstance(error, RecursionError):
        return "includes or calls itself without an end. Take that out"
    if isinstance(error, UnicodeDecodeError):
        return "is not UTF-8. Save it as UTF-8"
    if isinstance(error, jinja2.TemplateSyntaxError):
        message = (error.message or "").rstrip(".")
        return f"does not parse as Jinja: line {error.lineno}: {message}. Mend it"
    return f"failed: {str(error).rstrip('.')}. Mend it"


def _folders(task: Task, templates: str | Path) -> list[str]:
    if str(templates) in TEMPLATE_SETS:
        folders = [PROMPTS / "_shared" / templates]
        if not task.folder:
            folders = [PROMPTS / task.name / templates, *folders]
    else:
        folders = [Path(templates) / task.name, Path(templates)]
        if not Path(templates).is_dir():
            raise TemplateError(
                f"no template set {str(templates)!r}: it is neither one of {', '.join(TEMPLATE_SETS)} nor a folder. "
                f"Name one of these.{did_you_mean(templates, TEMPLATE_SETS)}",
                template=str(templates),
            )
    return [str(folder) for folder in folders if folder.is_dir()]
