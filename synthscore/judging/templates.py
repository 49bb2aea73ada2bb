"""What prompts/ holds: task.toml -> Task, and Task + texts -> Prompt. A user's own task is a folder with a task.toml,
maybe with templates.

Templates are Jinja, sandboxed and strict: an undefined name is an error, never empty.

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
from typing import Any

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from ..engine import Prompt
from ..errors import TaskError, TemplateError
from ..resources import read_toml, resource
from ..types import Attribute, Context, Task

PROMPTS = resource("prompts")
TEMPLATE_SETS = ("default", "paper")
_REQUIRED = ("name", "context_noun", "text_noun", "texts_noun", "length")
_OPTIONAL = ("facts_noun", "paper_context", "max_new_tokens", "words")


def task_names() -> list[str]:
    """The built-in tasks."""
    return list(_built_in_tasks())


def load_task(name: str | Path) -> Task:
    """A built-in task by name, or a user's own by the path of its folder.

    raises : TaskError for a name that is neither, a task.toml that does not parse, or a key that is missing or unknown.
    """
    if built_in := _built_in_tasks().get(str(name)):
        return built_in
    folder = Path(name)
    file = folder / "task.toml"
    if not os.path.isfile(file):  # also of a name that is longer than any file's
        raise TaskError(
            f"no task {str(name)!r}: it is neither one of {', '.join(task_names())} nor a folder with a task.toml",
            task=str(name),
        )
    return _read_task(file, str(folder.resolve()))


@cache
def _built_in_tasks() -> dict[str, Task]:
    return {file.parent.name: _read_task(file) for file in sorted(PROMPTS.glob("*/task.toml"))}


def _read_task(file: Path, folder: str = "") -> Task:
    """folder : where a user's own task keeps its templates"""
    try:
        table = read_toml(file)
    except ValueError as error:
        raise TaskError(f"{file} does not parse as TOML: {error}") from error
    attributes = table.pop("attributes", None)
    if not isinstance(attributes, dict):
        raise TaskError(f"{file}: expected at least one [attributes.NAME] table")
    _check_keys(table, _REQUIRED, _OPTIONAL, str(file))
    made = {}
    for name, fields in attributes.items():
        _check_keys(fields, ("description", "more", "better", "worse"), (), f"{file} [attributes.{name}]")
        made[name] = Attribute(name=name, **fields)
    return Task(attributes=made, folder=folder, **table)


def _check_keys(table: Any, required: tuple[str, ...], optional: tuple[str, ...], where: str) -> None:
    if not isinstance(table, dict):
        raise TaskError(f"{where}: expected a table, got {table!r}")
    missing = [key for key in required if key not in table]
    unknown = [key for key in table if key not in required + optional]
    if missing or unknown:
        raise TaskError(
            f"{where}: missing {missing}, unknown {unknown}. It must have {', '.join(required)}"
            + (f" and may have {', '.join(optional)}" if optional else "")
        )


class Templates:
    """The prompts of one task.

    templates : "default", "paper", or the path of a folder with own templates. In such a folder, FOLDER/<task>/ is
        looked at before FOLDER itself; nothing is taken from another set in place of a template that is missing.

    Every template sees `task`, `attribute`, `context` and `facts`; `compare` and `yes_no` see `target` (the text that
    is asked about) and `reference`; `choose` sees `first` and `second`; `between` sees `worse` and `better`; `extreme`
    sees `extreme` ("best" or "worst"); both see `again`, the kind of fault for which a text is asked for again, or "";
    `yes_no` sees `prediction`; `rate` sees `text`, `low` and `high`; `place` sees `text`, `n`, `how` and `rungs`;
    `paraphrase` sees `given`; `boolean` sees `text`, `noun`, `source`, `knowledge` and `reference`. The papers' names
    (article, col_title, ...) hold the same values. A template may set `prefill`: how the answer starts; and `shared`:
    what it begins with and shares with other texts of the context.
    """

    def __init__(self, task: Task, templates: str | Path = "default") -> None:
        self.task = task
        self.name = str(templates)
        self._folders = _folders(task, templates)
        self._checked: set[str] = set()
        self._environment = ImmutableSandboxedEnvironment(
            loader=jinja2.FileSystemLoader(self._folders),
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            autoescape=False,  # prompts are plain text, not markup
            auto_reload=False,  # or each prompt looks whether the file has changed
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
        """raises : TemplateError for a question about two texts that does not show each of them exactly once"""
        if name in self._checked:
            return
        shown = ("first", "second") if name == "choose" else ("target", "reference")
        marks = {text: f"<the {text}, a text to judge>" for text in shown}
        for attribute, facts in product(self.task.attributes.values(), ("", "<facts>")):
            texts: dict[str, str] = marks if name == "choose" else _pair(**marks)
            more = {"prediction": attribute.better} if name == "yes_no" else {}
            prompt = self.render(name, Context("probe", "<context>", facts), attribute, **texts, **more)
            for text, mark in marks.items():
                if (n := (prompt.text + prompt.prefill).count(mark)) != 1:
                    raise self._wrong(
                        name,
                        f" shows the {text} {n} times in a prompt about {attribute.name}, expected exactly once. Write "
                        f"{{{{ {text} }}}} where the text is to stand",
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
        """The same set with another template of this name. label : what its own name gets added"""
        other = copy(self)
        other._checked = set()
        other.name = f"{self.name}+{label}"
        own = jinja2.DictLoader({f"{name}.jinja": source})
        other._environment = self._environment.overlay(
            loader=jinja2.ChoiceLoader([own, jinja2.FileSystemLoader(self._folders)])
        )
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
            "col": attribute.name,
            "col_title": attribute.title,
            "col_description": attribute.description,
            self.task.paper_context: context.text,
            **texts,
        }
        try:
            module = self._environment.get_template(f"{name}.jinja").make_module(values)
            text = str(module)
            shared = str(getattr(module, "shared", ""))
            return Prompt(text, str(getattr(module, "prefill", "")), len(shared) if text.startswith(shared) else 0)
        except jinja2.TemplateNotFound as error:
            raise self._missing(str(error.name).removesuffix(".jinja")) from error
        except jinja2.UndefinedError as error:
            raise self._wrong(name, f": {error.message}. It may use: {', '.join(sorted(values))}") from error
        except (jinja2.TemplateError, TypeError, ValueError, ArithmeticError, LookupError, RecursionError) as error:
            raise self._wrong(name, f" failed: {error}") from error

    def _wrong(self, name: str, what: str) -> TemplateError:
        return TemplateError(f"template {self.name}/{name}.jinja (task {self.task.name!r}){what}", template=name)

    def _missing(self, name: str) -> TemplateError:
        return TemplateError(
            f"template set {self.name!r} has no {name}.jinja for task {self.task.name!r}. Looked in: "
            f"{', '.join(self._folders)}. Copy one from {PROMPTS / '_shared' / 'default'}",
            template=name,
        )


_TEXTS = (
    *("target", "reference", "target_summary", "icl_summary", "first", "second", "prediction"),
    *("worse", "better", "worse_summary", "better_summary", "extreme", "worst_best", "text", "low", "high"),
    *("given", "noun", "source", "knowledge", "n", "how", "rungs"),
)


def _pair(target: str, reference: str) -> dict[str, str]:
    return {"target": target, "reference": reference, "target_summary": target, "icl_summary": reference}


def _folders(task: Task, templates: str | Path) -> list[str]:
    if str(templates) in TEMPLATE_SETS:
        roots = [Path(task.folder)] if task.folder else []
        roots += [PROMPTS / task.name / templates] if not task.folder else []
        folders = [*roots, PROMPTS / "_shared" / templates]
    else:
        folders = [Path(templates) / task.name, Path(templates)]
        if not Path(templates).is_dir():
            raise TemplateError(
                f"no template set {str(templates)!r}: it is neither one of {', '.join(TEMPLATE_SETS)} nor a folder",
                template=str(templates),
            )
    return [str(folder) for folder in folders if folder.is_dir()]
