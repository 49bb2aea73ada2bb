"""Kinds of engine that other installed packages add, by entry points."""

import os
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from synthscore import plugins
from synthscore.engines import open_engine, split_kind
from synthscore.errors import EngineError, InputError, LabelError, SynthscoreWarning
from synthscore.integrations.mount import Mount
from synthscore.plugins import load_plugins
from tests import factories
from tests.cli.given import parse, write
from tests.fakes import FakeEngine
from tests.plugins import write_metadata

GROUP = "synthscore.engines"
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def fresh():
    """What is installed is read again in every test, and after it."""
    load_plugins.cache_clear()
    yield
    load_plugins.cache_clear()


@pytest.fixture
def install(monkeypatch):
    """Pretend that packages have these entry points: pairs of name and value."""

    def install(*named):
        entries = [EntryPoint(name, value, GROUP) for name, value in named]
        monkeypatch.setattr(plugins, "entry_points", lambda group: entries if group == GROUP else [])

    return install


def open_fake(rest, **options):
    engine = FakeEngine(name=rest)
    engine.options = options
    return engine


def open_nothing(rest):
    return None


def fail(rest, how="plainly"):
    if rest == "ours":
        raise LabelError("these labels are not for it")
    raise OSError("the disk is full")


def here(name):
    return f"{__name__}:{name}"


# ------------------------------------------------------------------------------------------------- reading a group


def test_a_group_is_read_once_and_by_name(install, monkeypatch):
    install(("fake", here("open_fake")), ("none", here("open_nothing")))
    assert load_plugins(GROUP) == {"fake": open_fake, "none": open_nothing}
    monkeypatch.setattr(plugins, "entry_points", lambda group: pytest.fail("read again"))
    assert set(load_plugins(GROUP)) == {"fake", "none"}


@pytest.mark.parametrize(
    ("value", "why"),
    [("no_such_module:open", "ModuleNotFoundError"), (here("no_such_name"), "AttributeError"), ("x y", "")],
)
def test_a_broken_plug_in_costs_a_warning_that_names_it_and_the_others_work(install, value, why):
    install(("broken", value), ("fake", here("open_fake")))
    with pytest.warns(SynthscoreWarning, match=rf"(?s)'broken' of .*{GROUP}: {value}.*cannot be loaded: {why}"):
        engine = open_engine("fake:x")
    assert engine.name == "x"
    assert open_engine("fake:y").name == "y", "and it is said once: a second warning would be an error here"


def test_of_two_plug_ins_of_one_name_the_second_is_left_out_and_said_to_be(install):
    install(("fake", here("open_fake")), ("fake", here("open_nothing")))
    with pytest.warns(SynthscoreWarning, match=r"another installed package has one of that name"):
        assert load_plugins(GROUP) == {"fake": open_fake}


# ------------------------------------------------------------------------------------------------- opening engines


def test_what_stands_behind_the_colon_and_the_options_are_the_plug_ins(install):
    install(("fake", here("open_fake")))
    engine = open_engine("fake:a:b/c#d", dtype="float32", depth=3)
    assert (engine.name, engine.options) == ("a:b/c#d", {"dtype": "float32", "depth": 3})


def test_an_unknown_kind_lists_what_is_installed(install):
    install(("fake", here("open_fake")), ("another", here("open_fake")))
    with pytest.raises(EngineError, match=r"'fale:x': .*systemone:http.*there are: another, fake\. Install"):
        open_engine("fale:x")
    load_plugins.cache_clear()
    install()
    with pytest.raises(EngineError, match=r"of which there are: none\. Install the package that adds 'fale'"):
        open_engine("fale:x")


def test_a_wire_without_an_address_is_no_kind(install):
    install()
    with pytest.raises(EngineError, match=r"cannot open 'systemone:tiny': no address .*systemone:http://"):
        open_engine("systemone:tiny")


@pytest.mark.parametrize("name", ["nano", "organisation/model", "./fake:x", "C:\\models\\tiny", "a/b:c", ""])
def test_a_name_without_a_kind_loads_no_plug_in(name, install, monkeypatch):
    monkeypatch.setattr(plugins, "entry_points", lambda group: pytest.fail("asked for plug-ins"))
    assert split_kind(name) == ("", name)


def test_kinds_that_come_with_the_package_cannot_be_taken_over(install):
    install(("recorded", here("open_fake")), ("http", here("open_fake")))
    with pytest.raises(Exception, match="no such file"):
        open_engine("recorded:nowhere.sqlite")
    with pytest.raises(EngineError, match="nowhere"):
        open_engine("http://nowhere.invalid/v1#m", retry=None, timeout_s=1)


def test_what_a_plug_in_raises_is_an_engine_error_that_says_whose_it_is(install):
    install(("bad", here("fail")), ("none", here("open_nothing")), ("text", "string:ascii_letters"))
    with pytest.raises(EngineError, match=r"cannot open 'bad:x': its plug-in raised OSError: the disk is full"):
        open_engine("bad:x")
    with pytest.raises(EngineError, match=r"raised TypeError: .*unexpected keyword argument 'depth'"):
        open_engine("bad:x", depth=3)
    with pytest.raises(EngineError, match=r"raised TypeError: 'str' object is not callable"):
        open_engine("text:x")
    with pytest.raises(LabelError, match="these labels are not for it"):
        open_engine("bad:ours")
    with pytest.raises(InputError, match=r"the engine of 'none:x' is None, expected an engine"):
        open_engine("none:x")


def test_a_mount_is_told_apart_by_its_plug_in_without_opening_it(install, tmp_path):
    install(("bad", here("fail")))
    factories.references().save(tmp_path / "ladders")
    made = [Mount(references=str(tmp_path / "ladders"), model=name).fingerprint for name in ("bad:x", "bad:y")]
    assert made[0] != made[1]


# ------------------------------------------------------------------------------------------------- really installed

PACKAGE = """
from tests.cli.given import quality_judge
from tests.fakes import FakeEngine

def open_engine(rest, **options):
    return FakeEngine(quality_judge, name=f"own-{rest}")
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A distribution whose folder is on the path, with a kind of engine and a broken one; and ladders and rows."""
    site = tmp_path / "site"
    write_metadata(site, "own-engine", {GROUP: {"own": "own_engine:open_engine", "broken": "own_engine:nothing"}})
    (site / "own_engine.py").write_text(PACKAGE, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), str(ROOT)]))
    monkeypatch.chdir(tmp_path)
    ladder = factories.ladder("c1", text="A text of quality {quality}.")
    factories.references(ladder).save(tmp_path / "ladders")
    write("targets.jsonl", {"id": "a", "context_id": "c1", "text": "Text of quality 4."})


def test_an_installed_package_gives_the_command_line_its_engine_and_its_broken_one_costs_a_warning(installed):
    command = [sys.executable, "-m", "synthscore", "score", "targets.jsonl", "--references", "ladders"]
    done = subprocess.run([*command, "--model", "own:judge"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (row,) = parse(done.stdout)
    assert row["status"] == "ok"
    assert "model:own-judge" in row["signature"]
    warning = "warning: the plug-in 'broken' of own-engine (synthscore.engines: own_engine:nothing) is left out"
    assert done.stderr.count(warning) == 1
    done = subprocess.run([*command, "--model", "broken:judge"], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "of which there are: own." in done.stderr
