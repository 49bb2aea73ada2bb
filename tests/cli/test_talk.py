"""How counts, reasons and tables read."""

import logging

from synthscore.cli.messages import Messages, clip, counted, reasons, table, visible


def test_reasons_that_differ_only_in_names_and_numbers_are_one():
    texts = ["row 3: 'a' is empty", "row 5: 'b' is empty", "row 9: too long", *["again"] * 3]
    assert reasons(texts) == ["  3 x again", "  2 x such as: row 3: 'a' is empty", "  1 x row 9: too long"]
    assert reasons(map(str.upper, "abcd"), most=2) == ["  1 x A", "  1 x B", "  2 x other reasons"]
    assert reasons([]) == []


def test_a_table_lines_up_and_cuts_its_last_column():
    lines = table([("a", 1.5, "x " * 80), ("bb", None, "y")], ("name", "score", "text"), width=40).splitlines()
    assert lines[0] == "name  score  text"
    assert lines[1].startswith("a      1.50  x x")
    assert lines[1].endswith("...")
    assert len(lines[1]) <= 40
    assert lines[2] == "bb        -  y"


def test_counts_read_as_words():
    assert [counted(n, "rung") for n in (0, 1, 12000)] == ["0 rungs", "1 rung", "12 000 rungs"]
    assert clip("one\n two  three", 9) == "one tw..."


def test_control_characters_are_shown_as_their_escapes():
    assert visible("a\x1b[31mb\rc\td\ne\x9b") == "a\\x1b[31mb\\rc\td\ne\\x9b"


def test_progress_is_a_line_now_and_then_where_stderr_is_no_terminal(capsys, monkeypatch):
    monkeypatch.setattr("synthscore.cli.messages.EVERY", 0.0)
    with Messages().bar(2000, "questions") as progress:
        progress(1200)
    assert capsys.readouterr().err == "1 200 of 2 000 questions\n"
    with Messages(quiet=True).bar(2000, "questions") as progress:
        progress(1200)
    assert capsys.readouterr().err == ""


def test_a_log_file_gets_what_is_said_and_more_each_once_on_stderr(tmp_path, capsys):
    log = logging.getLogger("synthscore.engines")
    for verbose in (False, True):
        messages = Messages(verbose=verbose, log_file=str(tmp_path / "log"))
        with messages.logged():
            messages.note("12 scored")
            log.debug("tried again")
            log.info("reading text")
            log.info("reading text")
        assert capsys.readouterr().err == "12 scored\n" + "tried again\n" * verbose + "reading text\n"
    assert [line.split(" ", 2)[2] for line in (tmp_path / "log").read_text().splitlines()] == [
        *["12 scored", "tried again", "reading text", "reading text"] * 2
    ]


def test_what_a_library_says_of_its_retries_is_for_verbose(capsys, monkeypatch):
    monkeypatch.setattr(logging.getLogger("huggingface_hub"), "level", logging.WARNING)  # whatever ran before
    hub = logging.getLogger("huggingface_hub.utils._http")
    before = logging.getLogger("huggingface_hub").level
    for verbose in (False, True):
        with Messages(verbose=verbose).logged():
            assert hub.isEnabledFor(logging.WARNING) == verbose
            assert hub.isEnabledFor(logging.ERROR)
    assert logging.getLogger("huggingface_hub").level == before
