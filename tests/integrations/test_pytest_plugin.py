"""The pytest plugin, in sessions of pytest's own."""

import re
import subprocess
import sys
from importlib.metadata import entry_points

import pytest

pytest_plugins = ["pytester"]

MODULE = "synthscore.integrations.pytest_plugin"
PLUGIN = "synthscore" if "synthscore" in entry_points(group="pytest11").names else MODULE
TEST = """
def test_it(assert_score):
    score = assert_score("text q={quality} .", context_id="{context_id}", at_least=3)
    assert score.status == "ok"
"""


@pytest.fixture
def session(pytester, ladders):
    """The outcome of a test of a text of this quality."""

    def run(quality, context_id="c1", *options):
        pytester.makeini(f"[pytest]\nsynthscore_references = {ladders}\n")
        pytester.makepyfile(TEST.format(quality=quality, context_id=context_id))
        return pytester.runpytest_inprocess("-p", PLUGIN, *options)

    return run


def test_a_good_text_passes_and_its_score_is_in_the_report(judge, session, pytester):
    session(4, "c1", "--junitxml=out.xml").assert_outcomes(passed=1)
    assert '<property name="synthscore-coherence" value="4.' in (pytester.path / "out.xml").read_text()


def test_a_failure_names_the_rung_that_the_text_lost_to(judge, session):
    done = session(1.2)
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["coherence * < 3: it lost to rung 2 of 5 (worse with probability *):", "rung of q=2 ."])
    assert "def check" not in str(done.stdout)


def test_what_cannot_be_scored_fails_with_the_reason(judge, session):
    session(4, "elsewhere").stdout.fnmatch_lines(["coherence: unscored. there is no ladder*elsewhere*"])


def test_an_id_and_a_text_of_another_context_are_an_error(judge, session, pytester):
    session(4)
    pytester.makepyfile(
        TEST.format(quality=4, context_id='c1", context="Another text.').replace("def test_it", "def test_both")
    )
    done = pytester.runpytest_inprocess("-p", PLUGIN)
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["coherence: unscored. the ladder of context 'c1' was made for another text*"])


def test_an_option_goes_before_the_settings(judge, session, tmp_path):
    session(4, "c1", f"--synthscore-references={tmp_path / 'nowhere'}").stdout.fnmatch_lines(["*ReferencesError*"])


def test_without_ladders_it_says_what_to_set(pytester):
    pytester.makepyfile(TEST.format(quality=4, context_id="c1"))
    pytester.runpytest_inprocess("-p", PLUGIN).stdout.fnmatch_lines(["*synthscore_references in pytest's settings*"])


def test_nothing_of_ours_is_loaded_and_nothing_printed_until_a_test_asks(tmp_path):
    (tmp_path / "test_other.py").write_text(
        "import sys\n\ndef test_it():\n"
        "    ours = sorted(name for name in sys.modules if name.split('.')[0] == 'synthscore')\n"
        f"    assert ours == ['synthscore', 'synthscore._version', 'synthscore.integrations', '{MODULE}']\n"
        "    assert 'torch' not in sys.modules and 'numpy' not in sys.modules\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", PLUGIN, "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert re.fullmatch(r"\. +\[100%\]\n1 passed in [\d.]+s\n", done.stdout)
