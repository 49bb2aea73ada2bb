"""A task that is not the package's lies with its ladders, and what a stranger put there cannot do harm."""

import json
import os
import pickle
import shutil
from dataclasses import replace

import pytest

from synthscore.errors import InputError, ReferencesError, TaskError, TemplateError
from synthscore.judging.templates import Templates, load_task
from synthscore.ladders.carried import MOST_BYTES, write_tasks
from synthscore.ladders.references import References
from synthscore.signature import file_hash
from tests.factories import GERMAN, ladder

TASK = load_task(GERMAN)
NAME, ATTRIBUTE = TASK.name, "verständlichkeit"
OTHER = replace(TASK, length="ein Satz")


def german(*context_ids, task=TASK):
    return References([ladder(name, ATTRIBUTE, NAME) for name in context_ids or ("c1",)], tasks=[task])


@pytest.fixture
def saved(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    german().save("lad")
    return tmp_path / "lad"


def manifest(folder, change):
    """Read, changed and written."""
    stated = json.loads((folder / "manifest.json").read_text())
    change(stated)
    (folder / "manifest.json").write_text(json.dumps(stated))


def unsigned(folder):
    manifest(folder, lambda stated: stated.pop("sha256"))


def test_the_task_comes_back_with_the_ladders_wherever_they_are_put(saved, tmp_path):
    shutil.move(saved, tmp_path / "elsewhere")
    loaded = References.load(tmp_path / "elsewhere")
    task = loaded.find_task(NAME)
    assert task == TASK
    assert task.folder == str(tmp_path / "elsewhere/tasks" / NAME)
    assert load_task(task.folder) == TASK
    assert task.carried_by == str(tmp_path / "elsewhere")


def test_the_packages_tasks_are_not_kept_nor_those_of_no_ladder(tmp_path):
    tasks = [load_task("summarization"), TASK]
    saved = References([ladder("c1")], tasks=tasks).save(tmp_path / "lad")
    assert saved.carried_tasks == {}
    assert {file.name for file in (tmp_path / "lad").iterdir()} == {"ladders.parquet", "manifest.json", "README.md"}


def test_a_task_of_a_name_of_the_packages_is_kept_where_its_words_are_others(tmp_path):
    changed = replace(load_task("summarization"), length="one line", folder="mine")
    References([ladder("c1")], tasks=[changed]).save(tmp_path / "lad")
    loaded = References.load(tmp_path / "lad")
    with pytest.raises(InputError, match=r"there are two tasks 'summarization'.*and that of synthscore"):
        loaded.find_task("summarization")
    assert loaded.find_task(tmp_path / "lad/tasks/summarization") == changed


def test_what_is_made_of_the_references_has_their_task(saved):
    loaded = References.load(saved)
    made = [
        loaded.filter(attribute=ATTRIBUTE),
        loaded.select(context_id="c1"),
        loaded.share("c1"),
        loaded.share("c1").compared(NAME, ATTRIBUTE),
        pickle.loads(pickle.dumps(loaded)),
    ]
    assert all(each.carried_tasks == {NAME: TASK} for each in made)


def test_it_is_the_card_that_names_the_task(saved):
    assert f"| {NAME} |" in (saved / "README.md").read_text()


def test_a_merge_keeps_other_tasks_and_replaces_the_task_of_the_same_name(saved):
    wit = replace(TASK, name="witz")
    References([ladder("c1", ATTRIBUTE, "witz")], tasks=[wit]).save(saved, merge=True)
    assert References.load(saved).carried_tasks == {NAME: TASK, "witz": wit}
    german("c2", task=OTHER).save(saved, merge=True)
    assert References.load(saved).carried_tasks == {NAME: OTHER, "witz": wit}
    german("c3").save(saved, overwrite=True)
    assert References.load(saved).carried_tasks == {NAME: TASK}
    assert [entry.name for entry in (saved / "tasks").iterdir()] == [NAME]


def test_equal_references_give_equal_files(saved, tmp_path):
    german().save(tmp_path / "again")
    for name in ("manifest.json", f"tasks/{NAME}/task.toml", "README.md"):
        assert (saved / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_two_folders_with_one_task_are_loaded_together_and_with_two_tasks_of_one_name_are_not(tmp_path):
    german("c1").save(tmp_path / "parts/1")
    german("c2").save(tmp_path / "parts/2")
    assert References.load(tmp_path / "parts").carried_tasks == {NAME: TASK}
    german("c2", task=OTHER).save(tmp_path / "parts/2", overwrite=True)
    with pytest.raises(ReferencesError, match=rf"1/tasks/{NAME} \(\w+\) and .*2/tasks/{NAME} \(\w+\) are two tasks"):
        References.load(tmp_path / "parts")


# ------------------------------------------------------------------------------------------------- what is here


def test_what_is_here_is_taken_where_it_is_the_same(saved):
    loaded = References.load(saved)
    assert loaded.find_task(GERMAN).carried_by == ""
    shutil.copytree(GERMAN, NAME)  # in the working folder
    assert loaded.find_task(NAME).carried_by == ""
    assert loaded.find_task(NAME) == TASK


def test_what_is_here_in_other_words_is_an_error_that_names_both(saved, tmp_path):
    shutil.copytree(GERMAN, NAME)
    (tmp_path / NAME / "compare.jinja").write_text("{{ target }} {{ reference }}")
    loaded = References.load("lad")
    for named in (NAME, f"./{NAME}"):
        with pytest.raises(InputError) as caught:
            loaded.find_task(named)
        for part in (f"lad/tasks/{NAME} (", f"{tmp_path / NAME} (", f"--task lad/tasks/{NAME}", "references import"):
            assert part in str(caught.value)
    assert loaded.find_task(f"lad/tasks/{NAME}") == TASK


def test_a_folder_that_only_happens_to_be_called_so_is_none(saved, tmp_path):
    shutil.copytree(GERMAN, NAME)
    file = tmp_path / NAME / "task.toml"
    file.write_text(file.read_text("utf-8").replace(f'name = "{NAME}"', 'name = "witz"'), "utf-8")
    assert References.load(saved).find_task(NAME) == TASK


def test_a_template_set_in_other_words_than_the_kept_ones_wants_the_task_named(saved, tmp_path):
    loaded = References.load("lad")
    own = tmp_path / "prompts"
    own.mkdir()
    (own / "choose.jinja").write_text("{{ first }} {{ second }}")
    (own / "compare.jinja").write_text(TASK.templates["compare"])
    assert Templates(loaded.find_task(NAME), own).source("compare") == TASK.templates["compare"]
    (own / "compare.jinja").write_text("{{ target }} {{ reference }}")
    with pytest.raises(InputError) as caught:
        Templates(loaded.find_task(NAME), own)
    for part in ("a template compare of its own", f"lad/tasks/{NAME}", str(own), f"--task lad/tasks/{NAME}"):
        assert part in str(caught.value)
    assert Templates(loaded.find_task(f"lad/tasks/{NAME}"), own).source("compare") == "{{ target }} {{ reference }}"


def test_references_without_a_task_say_that_its_folder_is_wanted(tmp_path):
    References([ladder("c1", ATTRIBUTE, NAME)]).save(tmp_path / "lad")
    with pytest.raises(TaskError, match="Name the folder of a task of your own: --task FOLDER"):
        References.load(tmp_path / "lad").find_task(NAME)


# ------------------------------------------------------------------------------------------------- damage, strangers


def _edit(folder):
    file = folder / "tasks" / NAME / "task.toml"
    file.write_text(file.read_text("utf-8").replace("Gleich", "Besser!"), "utf-8")


def _secret(folder):
    """A link to a file of the reader's, whose hash nobody outside knows."""
    (folder.parent / "secret").write_text('password = "hunter2"\n')
    file = folder / "tasks" / NAME / "task.toml"
    file.unlink()
    file.symlink_to(folder.parent / "secret")


def _unsigned_secret(folder):
    unsigned(folder)
    _secret(folder)


def _unsigned_folder_of_the_readers(folder):
    unsigned(folder)
    shutil.rmtree(folder / "tasks" / NAME)
    (folder / "tasks" / NAME).symlink_to(GERMAN)


def _pipe(folder):
    file = folder / "tasks" / NAME / "task.toml"
    file.unlink()
    os.mkfifo(file)


def _large(folder):
    unsigned(folder)
    file = folder / "tasks" / NAME / "task.toml"
    file.write_bytes(b"#" * (MOST_BYTES + 1))


def _of_another_name(folder):
    unsigned(folder)
    (folder / "tasks" / NAME).rename(folder / "tasks" / "witz")


def _no_utf8(folder):
    unsigned(folder)
    (folder / "tasks" / NAME / "task.toml").write_bytes(b'name = "\xff"')


def _no_toml(folder):
    unsigned(folder)
    (folder / "tasks" / NAME / "task.toml").write_text("[[[[")


def _outside(folder):
    manifest(folder, lambda stated: stated["sha256"].update({"tasks/../../secret/task.toml": "0" * 64}))


def _one_more(folder):
    shutil.copytree(folder / "tasks" / NAME, folder / "tasks" / "witz")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_edit, "its sha256 is .*manifest.json says"),
        (lambda folder: shutil.rmtree(folder / "tasks"), "it is not there, and manifest.json states its hash"),
        (_secret, "its sha256 is"),
        (_unsigned_secret, "it is a link, and manifest.json states no hash of it"),
        (_unsigned_folder_of_the_readers, "it is a link"),
        (_pipe, "it is no file of at most"),
        (_large, "it is no file of at most 1,048,576 bytes"),
        (_of_another_name, "it is a task 'zusammenfassung', expected 'witz'"),
        (_no_utf8, "it is not UTF-8"),
        (_no_toml, "does not parse as TOML"),
        (_outside, "secret/task.toml of .*it is not there"),
        (_one_more, "witz/task.toml of .*manifest.json states no hash of it"),
    ],
    ids=lambda case: getattr(case, "__name__", "").strip("_"),
)
def test_a_damaged_or_malicious_task_is_one_clear_error(saved, damage, message):
    damage(saved)
    with pytest.raises(ReferencesError, match=f"cannot load the task tasks/.*{message}") as caught:
        References.load(saved)
    assert "hunter2" not in str(caught.value)
    assert "--task FOLDER" in str(caught.value)


def test_a_hub_download_is_links_and_is_read_by_its_hashes(saved, tmp_path):
    """A snapshot of the Hub is links to files that are named by their content."""
    file = saved / "tasks" / NAME / "task.toml"
    blob = tmp_path / "blobs" / file_hash(file)
    blob.parent.mkdir()
    shutil.move(file, blob)
    file.symlink_to(blob)
    assert References.load(saved).find_task(NAME) == TASK


def test_what_is_changed_on_purpose_is_read_without_hashes(saved):
    unsigned(saved)
    _edit(saved)
    assert References.load(saved).find_task(NAME).labels[2] == "Besser!"


def test_a_save_writes_nothing_through_a_strangers_link(saved, tmp_path):
    outside = tmp_path / "outside"
    shutil.copytree(GERMAN, outside)
    before = (outside / "task.toml").read_bytes()
    shutil.rmtree(saved / "tasks" / NAME)
    (saved / "tasks" / NAME).symlink_to(outside)
    (saved / "tasks" / "alt").symlink_to(outside)
    german(task=OTHER).save(saved, overwrite=True)
    assert (outside / "task.toml").read_bytes() == before
    assert References.load(saved).find_task(NAME) == OTHER


def stopped(*parts, **more):
    raise KeyboardInterrupt


def write_tasks_and_stop(*parts):
    write_tasks(*parts)
    raise KeyboardInterrupt


def kill(save, monkeypatch, place, instead):
    """The save is killed in this step of it."""
    with monkeypatch.context() as patch:
        patch.setattr(f"synthscore.ladders.references.{place}", instead)
        with pytest.raises(KeyboardInterrupt):
            save()


@pytest.mark.parametrize(
    ("place", "instead"),
    [("write_tasks", stopped), ("write_tasks", write_tasks_and_stop), ("card_text", stopped)],
    ids=["before the tasks", "before the ladders", "before the hashes"],
)
def test_a_save_that_was_killed_is_repeated(saved, tmp_path, monkeypatch, place, instead):
    for folder, there in ((saved, ("c1", "c2")), (tmp_path / "new", ("c2",))):

        def save(folder=folder):
            german("c2", task=OTHER).save(folder, merge=True)

        kill(save, monkeypatch, place, instead)
        save()
        loaded = References.load(folder)
        assert loaded.context_ids == there
        assert loaded.find_task(NAME) == OTHER


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{% include '/etc/passwd' %}",
        "{% include '../../secret' %}",
        "{{ target.__init__.__globals__ }}",
        "{{ target | xmlattr }}",
        "{{ range(10 ** 9) | list }}",
        "{% for",
    ],
)
def test_a_strangers_template_runs_in_the_sandbox_and_its_fault_is_one_error(tmp_path, source):
    task = replace(TASK, templates={"compare": source})
    german(task=task).save(tmp_path / "lad")
    templates = Templates(References.load(tmp_path / "lad").find_task(NAME))
    context = ladder("c1").context
    with pytest.raises(TemplateError, match=r"compare|has no [./]+.*(passwd|secret)"):
        templates.compare(context, templates.task.attribute(ATTRIBUTE), target="t", reference="r")
