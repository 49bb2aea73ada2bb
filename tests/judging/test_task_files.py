"""A task as files: what a folder says, and a task in one file says the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synthscore.errors import TaskError
from synthscore.judging.task_files import parse_task, task_hash, task_toml
from synthscore.judging.templates import is_built_in, load_task, task_names
from synthscore.types import Attribute, Task
from tests.factories import GERMAN

TOML = (GERMAN / "task.toml").read_text(encoding="utf-8")
PHRASE = st.text(st.characters(codec="utf-8"), min_size=1).filter(lambda text: text[:1].isalnum())
SOURCE = st.text(st.one_of(st.characters(codec="utf-8"), st.sampled_from("'\"\\\n\t\r\x7f{}")))


def task(**fields):
    nouns = dict.fromkeys(("name", "context_noun", "text_noun", "texts_noun", "length"), "word")
    attributes = {"wit": Attribute("wit", "it is witty.", "wittier", "be wittier", "be less witty")}
    return Task(**{"attributes": attributes, **nouns, **fields})


def test_a_task_in_one_file_is_the_task_of_its_folder():
    of_folder = load_task(GERMAN)
    of_file = parse_task(task_toml(of_folder), GERMAN / "task.toml")
    assert of_file == of_folder
    assert set(of_file.templates) == {"compare", "yes_no", "extreme", "between"}
    assert of_file.labels == ("Besser", "Schlechter", "Gleich")
    assert task_hash(of_file) == task_hash(of_folder)


@pytest.mark.parametrize("name", task_names())
def test_the_packages_tasks_are_themselves_in_one_file(name):
    assert parse_task(task_toml(load_task(name)), "task.toml") == load_task(name)


@given(PHRASE, PHRASE, SOURCE, st.booleans())
def test_any_words_come_back_from_the_file_as_they_were(name, phrase, source, shorter):
    attribute = Attribute(name, f"{phrase}\nand more", phrase, phrase, phrase)
    made = task(attributes={name: attribute}, templates={"compare": source}, words=(3, 6) if shorter else ())
    assert parse_task(task_toml(made), "task.toml") == made


def test_the_hash_changes_with_each_word_and_with_each_template_and_with_nothing_else():
    before = parse_task(TOML, "task.toml")
    again = parse_task(f"# a remark\n{TOML}", "elsewhere.toml", folder="elsewhere", carried_by="x")
    assert task_hash(before) == task_hash(again)
    changed = [
        parse_task(TOML.replace("Gleich", "Ebenso"), "t"),
        parse_task(TOML.replace("verständlicher", "klarer"), "t"),
        parse_task(TOML.replace("[5, 60]", "[5, 61]"), "t"),
        parse_task(TOML, "t", beside={"compare": "{{ target }}"}),
        parse_task(TOML, "t", beside={"compare": "{{ reference }}"}),
    ]
    assert len({task_hash(each) for each in (before, *changed)}) == 6


def test_a_task_is_the_packages_own_only_in_its_words():
    summarization = load_task("summarization")
    assert is_built_in(parse_task(task_toml(summarization), "t", folder="a copy"))
    assert not is_built_in(parse_task(task_toml(summarization).replace("coherent", "clear"), "t"))
    assert not is_built_in(load_task(GERMAN))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('"Gleich"]', '"Gleich", "Egal"]'), r"labels is .*'Egal'.*expected the 3 words of better, worse and similar"),
        (('"Gleich"]', '"besser"]'), "expected 3 different words"),
        (('"Gleich"]', '" Gleich"]'), "expected the 3 words"),
        (('labels = ["Besser", "Schlechter", "Gleich"]', 'labels = "Besser"'), "labels is 'Besser'"),
        (('["Ja", "Nein"]', '["Ja", 5]'), "yes_no is .'Ja', 5.*expected the 2 words for yes and no"),
        (("[5, 60]", "5"), "words is 5"),
        (("[5, 60]", "[60, 5]"), r"words is \[60, 5\]"),
        (('"Artikel"', "7"), "context_noun is 7, expected a phrase on one line"),
        (('"Artikel"', '"a\\nb"'), "context_noun is .*expected a phrase on one line"),
        (('name = "zusammenfassung"', 'name = "../zusammenfassung"'), "expected one that a folder can have"),
        (('name = "zusammenfassung"', 'name = ".."'), "expected one that a folder can have"),
        (('[attributes."verständlichkeit"]', "[attributes.verständlichkeit]"), "needs quotes"),
        (('yes_no = ["Ja", "Nein"]', "templates = 3"), "templates is 3, expected a table"),
        (('yes_no = ["Ja", "Nein"]', 'templates = {"../x" = "y"}'), "expected the name of a template and its text"),
        (('yes_no = ["Ja", "Nein"]', "deep = " + "[" * 5000), "nested too deep|does not parse"),
    ],
)
def test_what_a_task_file_cannot_say_is_named(change, message):
    with pytest.raises(TaskError, match=message):
        parse_task(TOML.replace(*change), "task.toml")


def test_a_template_that_is_there_twice_is_refused(tmp_path):
    (tmp_path / "task.toml").write_text(f'{TOML}\n[templates]\ncompare = "x"\n', encoding="utf-8")
    (tmp_path / "compare.jinja").write_text("y")
    with pytest.raises(TaskError, match=r"the template compare is in \[templates\] and in compare\.jinja"):
        load_task(tmp_path)


def test_a_template_that_is_no_text_is_named(tmp_path):
    (tmp_path / "task.toml").write_text(TOML, encoding="utf-8")
    (tmp_path / "compare.jinja").write_bytes(b"\xff\xfe{")
    with pytest.raises(TaskError, match=r"compare\.jinja is not UTF-8"):
        load_task(tmp_path)
