"""The revision of a model folder: it follows the content, and is cheap for large folders."""

import hashlib
import os
import time

import pytest

from synthscore.engines import source
from synthscore.engines.source import revision_of
from synthscore.resources import resource


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder that counts as large, with files that count as settled."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(source, "_LARGE", 10)
    monkeypatch.setattr(source, "_SETTLED_NS", 0)
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    (model / "model.safetensors").write_bytes(b"weights of one model")
    return model


@pytest.fixture
def hashed(monkeypatch):
    """How often files were read: one entry a time."""
    read, times = source._content_hash, []
    monkeypatch.setattr(source, "_content_hash", lambda files: times.append(len(files)) or read(files))
    return times


def test_nano_has_the_revision_that_its_stored_answers_are_signed_with():
    assert revision_of(resource("data/nano")) == "8610af063e8f"


@pytest.mark.parametrize("large", [10, 10**9])
def test_a_revision_is_the_hash_of_names_sizes_and_content_for_small_and_large_folders(folder, monkeypatch, large):
    monkeypatch.setattr(source, "_LARGE", large)
    (folder / "notes.md").write_text("not read by any model")
    expected = hashlib.sha256(b"config.json:2:{}model.safetensors:20:weights of one model").hexdigest()[:12]
    assert [revision_of(folder) for _ in range(2)] == [expected] * 2


def test_a_large_folder_is_read_once(folder, hashed):
    assert revision_of(folder) == revision_of(folder)
    assert hashed == [2]


def test_a_small_folder_is_read_each_time_and_leaves_nothing_behind(folder, hashed, monkeypatch, tmp_path):
    monkeypatch.setattr(source, "_LARGE", 23)
    assert revision_of(folder) == revision_of(folder)
    assert hashed == [2, 2]
    assert not (tmp_path / "cache").exists()


def test_other_weights_in_the_same_place_are_another_revision_even_with_the_old_times(folder):
    weights = folder / "model.safetensors"
    before, times = revision_of(folder), weights.stat()
    time.sleep(0.05)  # coarser file systems tick every 10 ms; _SETTLED_NS is there for that
    weights.write_bytes(b"weights of two model")
    os.utime(weights, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert revision_of(folder) != before


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_another_config_or_one_more_file_is_another_revision(folder, name):
    before = revision_of(folder)
    (folder / name).write_text('{"a": 1}')
    assert revision_of(folder) != before


def test_files_that_were_changed_a_moment_ago_are_not_taken_for_settled(folder, hashed, monkeypatch):
    monkeypatch.setattr(source, "_SETTLED_NS", 3600 * 10**9)
    assert revision_of(folder) == revision_of(folder)
    assert hashed == [2, 2]


def test_files_that_change_while_they_are_read_are_read_again(folder, hashed, monkeypatch):
    count = source._content_hash

    def meanwhile(files):
        found = count(files)
        (folder / "config.json").write_text('{"a": 1}')
        return found

    monkeypatch.setattr(source, "_content_hash", meanwhile)
    first = revision_of(folder)
    assert revision_of(folder) != first
    assert hashed == [2, 2]


@pytest.mark.parametrize("damaged", ["", "{", "[]", "{}", "3", '{"files": []}'])
def test_a_damaged_note_is_made_again(folder, hashed, tmp_path, damaged):
    before = revision_of(folder)
    (note,) = (tmp_path / "cache/synthscore/revisions").iterdir()
    note.write_text(damaged)
    assert [revision_of(folder) for _ in range(2)] == [before] * 2
    assert hashed == [2, 2]


def test_without_a_cache_folder_it_is_hashed_each_time(folder, hashed, tmp_path):
    (tmp_path / "cache").write_text("a file is in the way")
    assert revision_of(folder) == revision_of(folder)
    assert hashed == [2, 2]


def test_the_revision_of_a_gguf_file_is_the_beginning_of_its_hash(tmp_path):
    for name in ("one.gguf", "two.gguf"):
        (tmp_path / name).write_bytes(b"a model in one file")
    assert {revision_of(tmp_path / name) for name in ("one.gguf", "two.gguf")} == {
        hashlib.sha256(b"a model in one file").hexdigest()[:12]
    }
