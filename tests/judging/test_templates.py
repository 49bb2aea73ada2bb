"""Tasks and templates: what goes into a prompt, and what can never get out of a text."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synthscore.errors import TaskError, TemplateError
from synthscore.judging.asking import PROTOCOLS, labels_of
from synthscore.judging.task_files import task_hash
from synthscore.judging.templates import TEMPLATE_SETS, Templates, load_task, task_names
from synthscore.resources import resource
from synthscore.types import Context

ARTICLE = Context("a1", "The mayor of Aldham opened a bridge on Monday.")
TOML = """
name = "recipe"
context_noun = "list of ingredients"
text_noun = "recipe"
texts_noun = "recipes"
length = "five steps"
[attributes.clarity]
description = "one can follow it."
more = "clearer"
better = "say more clearly what to do"
worse = "say less clearly what to do"
"""

EXPECTED = {
    "summarization": "coherence consistency fluency relevance",
    "dialogue": "naturalness engagingness coherence continuity understandability groundedness overall",
    "story": "relevance coherence empathy surprise engagement complexity",
    "data_to_text": "fluency grammar semantics overall",
    "question": "difficulty",
    "response": "helpfulness correctness clarity conciseness overall",
    "support_replies": "politeness resolution",
    "product_descriptions": "accuracy appeal",
}


def test_the_built_in_tasks_have_these_attributes():
    found = {name: " ".join(load_task(name).attributes) for name in task_names()}
    assert found == found | EXPECTED


@pytest.mark.parametrize("templates", TEMPLATE_SETS)
@pytest.mark.parametrize("task", sorted(EXPECTED))
def test_every_template_renders_for_every_attribute_and_holds_each_text_once(task, templates):
    templates = Templates(load_task(task), templates)
    for attribute in templates.task.attributes.values():
        shown = {"source": "<S>", "knowledge": "", "reference": "<R>"}
        rendered = {
            "extreme": templates.extreme(ARTICLE, attribute, best=False),
            "between": templates.between(ARTICLE, attribute, worse="<W>", better="<B>"),
            "again": templates.extreme(ARTICLE, attribute, best=False, again="copied"),
            "compare": templates.compare(ARTICLE, attribute, target="<T>", reference="<R>"),
            "yes_no": templates.yes_no(ARTICLE, attribute, target="<T>", reference="<R>"),
            "choose": templates.choose(ARTICLE, attribute, first="<F>", second="<S>"),
            "rate": templates.rate(ARTICLE, attribute, text="<X>", low=1, high=5),
            "likelihood": templates.render("likelihood", ARTICLE, attribute),
            "paraphrase": templates.render("paraphrase", ARTICLE, attribute, given="<G>"),
            "boolean": templates.render("boolean", ARTICLE, attribute, text="<X>", noun="claim", **shown),
        }
        if templates.name == "default":  # these three are ours alone
            rungs = {"n": 2, "how": "in no order", "rungs": ["<W>", "<B>"]}
            rendered["place"] = templates.render("place", ARTICLE, attribute, text="<X>", **rungs)
            rendered["level"] = templates.render("level", ARTICLE, attribute, text="<X>")
            rendered["why"] = templates.render("why", ARTICLE, attribute, worse="<W>", text="<X>", better="<B>")
            assert set(rendered) == {file.stem for file in resource("prompts").glob("_shared/default/*.jinja")}
            for name in ("place", "why"):
                assert all(rendered[name].text.count(mark) == 1 for mark in ("<X>", "<W>", "<B>"))
            assert rendered["level"].text.count("<X>") == 1
        marks_of = {"between": "WB", "compare": "TR", "yes_no": "TR", "choose": "FS", "rate": "X"}
        for name, marks in (marks_of | {"paraphrase": "G", "boolean": "XSR"}).items():
            assert all(rendered[name].text.count(f"<{mark}>") == 1 for mark in marks), name
        assert "worst" in rendered["extreme"].text
        assert "best" not in rendered["extreme"].text
        assert attribute.description in rendered["compare"].text
        assert attribute.better in rendered["yes_no"].text


def test_the_default_set_puts_all_that_is_constant_before_the_target():
    templates = Templates(load_task("dialogue"))
    attribute = templates.task.attribute("overall")
    one = templates.compare(ARTICLE, attribute, target="first answer", reference="rung").text
    two = templates.compare(ARTICLE, attribute, target="another", reference="rung").text
    assert one.endswith("first answer\n\nVerdict:")
    assert one.removesuffix("first answer\n\nVerdict:") == two.removesuffix("another\n\nVerdict:")


@pytest.mark.parametrize("name", ["compare", "choose", "yes_no", "rate"])
def test_a_prompt_says_where_the_texts_begin(name):
    templates = Templates(load_task("summarization"))
    attribute = templates.task.attribute("coherence")
    context = Context("c", "An article with <target> and <text> in it.")
    asked = {
        "compare": lambda text: templates.compare(context, attribute, target="T", reference=text),
        "choose": lambda text: templates.choose(context, attribute, first=text, second="T"),
        "yes_no": lambda text: templates.yes_no(context, attribute, target="T", reference=text),
        "rate": lambda text: templates.rate(context, attribute, text=text, low=1, high=5),
    }[name]
    one, other = asked("one"), asked("another")
    assert one.n_shared == other.n_shared > 0
    assert one.text[: one.n_shared] == other.text[: other.n_shared]
    assert one.text[one.n_shared :].startswith("\nSummary")


def test_the_context_comes_before_the_attribute_so_that_attributes_share_it():
    templates = Templates(load_task("summarization"))
    prompts = [
        templates.compare(ARTICLE, attribute, target="t", reference="r").text
        for attribute in templates.task.attributes.values()
    ]
    assert all(prompt.startswith(prompts[0][: prompts[0].index("Coherence:")]) for prompt in prompts)


def test_the_two_sides_of_a_yes_no_question_differ_in_the_phrase_alone():
    templates = Templates(load_task("story"))
    attribute = templates.task.attribute("surprise")
    better = templates.yes_no(ARTICLE, attribute, target="t", reference="r").text
    worse = templates.yes_no(ARTICLE, attribute, target="t", reference="r", worse=True).text
    assert better.replace(attribute.better, attribute.worse) == worse != better


def test_the_paper_set_keeps_the_block_order_of_each_task():
    def text(task, name):
        templates = Templates(load_task(task), "paper")
        attribute = next(iter(templates.task.attributes.values()))
        if name == "between":
            return templates.between(ARTICLE, attribute, worse="<W>", better="<B>").text
        return templates.yes_no(ARTICLE, attribute, target="<T>", reference="<R>").text

    assert text("summarization", "between").index("<W>") < text("summarization", "between").index(ARTICLE.text)
    assert text("dialogue", "between").index(ARTICLE.text) < text("dialogue", "between").index("<W>")
    assert text("summarization", "yes_no").index("<T>") < text("summarization", "yes_no").index("<R>")
    assert ARTICLE.text not in text("story", "yes_no")


@given(st.text(min_size=1).filter(lambda text: text.strip()))
def test_any_text_goes_in_as_it_is_and_is_never_a_template(text):
    templates = Templates(load_task("summarization"))
    attribute = templates.task.attribute("fluency")
    prompt = templates.compare(Context("c", "{{ target }}"), attribute, target=text, reference="{% raw %}").text
    assert text in prompt
    assert "{{ target }}" in prompt
    assert "{% raw %}" in prompt


def test_a_template_with_an_undefined_name_says_which_and_what_there_is(tmp_path):
    (tmp_path / "compare.jinja").write_text("{{ taget }}")
    templates = Templates(load_task("story"), tmp_path)
    with pytest.raises(TemplateError, match=r"'taget' is undefined.*article|'taget' is undefined.*target"):
        templates.compare(ARTICLE, templates.task.attribute("empathy"), target="t", reference="r")


@pytest.mark.parametrize("source", ["{{ range(999999999) }}", "{{ 1 / 0 }}", "{{ 'a'.encode('x', 3) }}"])
def test_a_template_that_cannot_be_computed_is_named(tmp_path, source):
    (tmp_path / "compare.jinja").write_text(source)
    templates = Templates(load_task("story"), tmp_path)
    with pytest.raises(TemplateError, match=r"compare.jinja .* failed: "):
        templates.compare(ARTICLE, templates.task.attribute("empathy"), target="t", reference="r")


def test_one_template_of_a_set_can_be_replaced(tmp_path):
    own = Templates(load_task("story"))
    other = own.replaced("choose", own.source("choose").replace("Verdict:", "{{ target }}"), "mine")
    attribute = own.task.attribute("empathy")
    assert (own.name, other.name) == ("default", "default+mine")
    assert own.choose(ARTICLE, attribute, first="f", second="s").text.endswith("Verdict:")
    assert own.hash("choose") != other.hash("choose")
    assert other.yes_no(ARTICLE, attribute, target="t", reference="r") == own.yes_no(
        ARTICLE, attribute, target="t", reference="r"
    )
    with pytest.raises(TemplateError, match=r"template default\+mine/choose.jinja .* 'target' is undefined"):
        other.choose(ARTICLE, attribute, first="f", second="s")
    with pytest.raises(TemplateError, match=r"has no choose.jinja for task 'story'"):
        Templates(load_task("story"), tmp_path).source("choose")


def test_a_template_cannot_leave_its_sandbox(tmp_path):
    (tmp_path / "compare.jinja").write_text("{{ target.__class__.__mro__ }}")
    templates = Templates(load_task("story"), tmp_path)
    with pytest.raises(TemplateError, match="unsafe"):
        templates.compare(ARTICLE, templates.task.attribute("empathy"), target="t", reference="r")


def test_a_set_of_ones_own_takes_nothing_from_another(tmp_path):
    (tmp_path / "compare.jinja").write_text("{{ target }} or {{ reference }}?")
    templates = Templates(load_task("story"), tmp_path)
    attribute = templates.task.attribute("empathy")
    assert templates.compare(ARTICLE, attribute, target="t", reference="r").text == "t or r?"
    with pytest.raises(TemplateError, match=r"has no choose\.jinja"):
        templates.choose(ARTICLE, attribute, first="f", second="s")
    with pytest.raises(TemplateError, match="no template set"):
        Templates(load_task("story"), tmp_path / "nowhere")


def test_the_hash_changes_with_the_wording_and_with_an_attribute(tmp_path):
    file = tmp_path / "task.toml"
    file.write_text(TOML)
    before = Templates(load_task(tmp_path)).hash("compare")
    assert before == Templates(load_task(tmp_path)).hash("compare")
    file.write_text(TOML.replace("one can follow it.", "one can follow it well."))
    described = Templates(load_task(tmp_path)).hash("compare")
    (tmp_path / "compare.jinja").write_text("{{ reference }} {{ target }} {{ attribute.more }}")
    assert len({before, described, Templates(load_task(tmp_path)).hash("compare")}) == 3


@pytest.mark.parametrize("phrase", ["better", "worse"])
def test_the_hash_of_yes_no_changes_with_the_phrases_that_its_question_is_made_of(tmp_path, phrase):
    file = tmp_path / "task.toml"
    file.write_text(TOML)
    before = {name: Templates(load_task(tmp_path)).hash(name) for name in ("yes_no", "compare", "choose")}
    file.write_text(TOML.replace(f'{phrase} = "say', f'{phrase} = "tell'))
    after = {name: Templates(load_task(tmp_path)).hash(name) for name in before}
    assert {name for name in before if before[name] != after[name]} == {"yes_no"}


def test_a_template_that_names_a_phrase_itself_has_it_in_its_hash(tmp_path):
    (tmp_path / "compare.jinja").write_text("{{ reference }} {{ target }} {{ attribute.better }}")
    hashes = set()
    for toml in (TOML, TOML.replace('better = "say', 'better = "tell')):
        (tmp_path / "task.toml").write_text(toml)
        hashes.add(Templates(load_task(tmp_path)).hash("compare"))
    assert len(hashes) == 2


def test_a_task_of_ones_own_is_a_folder(tmp_path):
    (tmp_path / "task.toml").write_text(TOML)
    (tmp_path / "choose.jinja").write_text("{{ first }}|{{ second }}")
    templates = Templates(load_task(tmp_path))
    clarity = templates.task.attribute("clarity")
    assert "recipe 2 clearer than recipe 1" in templates.compare(ARTICLE, clarity, target="t", reference="r").text
    assert templates.choose(ARTICLE, clarity, first="f", second="s").text == "f|s"


@pytest.mark.parametrize("templates", TEMPLATE_SETS)
def test_a_prompt_asks_for_the_answers_of_its_task(tmp_path, templates):
    (tmp_path / "task.toml").write_text(f'labels = ["Plus", "Moins", "Pareil"]\nyes_no = ["Oui", "Non"]\n{TOML}')
    asked = Templates(load_task(tmp_path), templates)
    clarity = asked.task.attribute("clarity")
    compared = asked.compare(ARTICLE, clarity, target="t", reference="r").text
    agreed = asked.yes_no(ARTICLE, clarity, target="t", reference="r").text
    assert all(label in compared for label in ("Plus", "Moins", "Pareil"))
    assert all(label in agreed for label in ("Oui", "Non"))
    assert not {"Better", "Worse", "Similar", "Yes"} & set(re.findall(r"\w+", compared + agreed))
    labels = {protocol: labels_of(protocol, asked.task) for protocol in PROTOCOLS}
    assert labels == {
        "compare": ("Plus", "Moins", "Pareil"),
        "yes_no": ("Oui", "Non"),
        "yes_no_two_sided": ("Oui", "Non"),
        "choose": ("A", "B"),
    }


def test_the_labels_of_a_task_in_english_are_those_of_the_protocols():
    assert {name: labels_of(name, load_task("story")) for name in PROTOCOLS} == PROTOCOLS


def test_a_signature_names_a_task_that_is_not_the_packages_and_no_other(tmp_path):
    (tmp_path / "task.toml").write_text(TOML)
    own = load_task(tmp_path)
    assert Templates(own).signature_parts("compare") == {
        "template": f"default/compare@{Templates(own).hash('compare')}",
        "own_task": f"recipe@{task_hash(own)}",
    }
    assert list(Templates(load_task("story")).signature_parts("compare")) == ["template"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('more = "clearer"', ""), "missing 'more'"),
        (('more = "clearer"', 'more = " "'), "not empty"),
        (("length", "lenght"), "unknown 'lenght'"),
        (("[attributes.clarity]", "[atributes.clarity]"), r"\[attributes.NAME\]"),
        (('name = "recipe"', "name = recipe"), "does not parse"),
        (('length = "five steps"', 'length = "five steps"\nmax_new_tokens = "many"'), "max_new_tokens is 'many'"),
    ],
)
def test_a_task_file_that_lacks_something_says_what(tmp_path, change, message):
    (tmp_path / "task.toml").write_text(TOML.replace(*change))
    with pytest.raises(TaskError, match=message):
        load_task(tmp_path)


def test_an_unknown_task_or_attribute_names_those_that_exist():
    with pytest.raises(TaskError, match=r"no task 'summarisation'.*summarization"):
        load_task("summarisation")
    with pytest.raises(TaskError, match=r"no attribute 'humour'.*coherence"):
        load_task("story").attribute("humour")


@pytest.mark.parametrize(
    ("name", "template", "seen"),
    [
        ("compare", "{{ context }} fixed", "shows the target 0 times"),
        ("compare", "", "shows the target 0 times"),
        ("compare", "{{ target }} {{ reference }} {{ reference }}", "shows the reference 2 times"),
        ("choose", "{{ first }} {% if facts %}{{ second }}{% endif %}", "shows the second 0 times"),
        ("yes_no", "{{ target }} {{ prediction }}", "shows the reference 0 times"),
    ],
)
def test_a_question_shows_each_text_exactly_once_or_is_refused(name, template, seen, tmp_path):
    (tmp_path / f"{name}.jinja").write_text(template)
    with pytest.raises(TemplateError, match=f"{seen}.*expected exactly once"):
        Templates(load_task("summarization"), tmp_path).require_texts(name)
    for templates in TEMPLATE_SETS:
        Templates(load_task("summarization"), templates).require_texts(name)


@pytest.mark.parametrize(
    "shown",
    [
        "target | truncate(30)",
        "target[:2000]",
        "target[:50000]",
        "target[-2000:]",
        "target | trim",
        "target | lower",
        "target | e",
        "target | striptags",
        "target | wordwrap(80)",
        "target | replace('{', '')",
        "target.split() | join(' ')",
        "target if target | wordcount > 1 else 'too short'",
        "target if target | wordcount < 300 else 'too long'",
        "target if target | length > reference | length else 'the shorter one'",
        "target if target | length < reference | length else 'the longer one'",
    ],
)
@pytest.mark.parametrize("swapped", [False, True])
def test_a_question_that_does_not_show_every_text_whole_is_refused(shown, swapped, tmp_path):
    template = f"{{{{ {shown} }}}} and {{{{ reference }}}}"
    if swapped:
        names = {"target": "reference", "reference": "target"}
        template = re.sub("target|reference", lambda found: names[found[0]], template)
    (tmp_path / "compare.jinja").write_text(template)
    with pytest.raises(TemplateError, match=r"shows the (target|reference) 0 times.*expected exactly once, and whole"):
        Templates(load_task("summarization"), tmp_path).require_texts("compare")


def test_a_question_may_say_more_about_a_text_that_it_shows_whole(tmp_path):
    (tmp_path / "compare.jinja").write_text("{{ target }} ({{ target | wordcount }} words) and {{ reference }}")
    Templates(load_task("summarization"), tmp_path).require_texts("compare")
