"""What the corpora hold, and that the list of their sources names all that the code reads by name."""

import re
from pathlib import Path

import pytest

from training.corpora import holdings, shared
from training.weak_replies import READ

SOURCES = Path(__file__).resolve().parents[2] / "training/SOURCES.md"


def test_documents_are_counted_by_kind_source_and_licence_the_largest_first():
    rows = [
        {"kind": "story", "source": "a/b", "licence": "MIT", "text": "é" * 500_000},
        {"kind": "story", "source": "c/d", "licence": "MIT", "text": "e" * 2_000_000},
        {"kind": "article", "source": "a/b", "licence": "MIT", "text": "x"},
        {"kind": "story", "source": "a/b", "licence": "MIT", "text": "é" * 5_000},
    ]
    assert holdings(rows) == [
        ("article", "a/b", "MIT", 1, 0.0),
        ("story", "c/d", "MIT", 1, 2.0),
        ("story", "a/b", "MIT", 2, 1.01),
    ]


def test_a_run_of_eight_words_is_shared_whatever_its_case_and_seven_are_not():
    contexts = {"same": "Hi! One two three four five six seven eight.", "near": "One two three four five six seven."}
    assert shared(contexts, ["zero one TWO three four, five six seven eight nine"]) == {"same": 1, "near": 0}


def test_the_list_of_sources_adds_up_and_names_what_is_read_by_name():
    text = SOURCES.read_text(encoding="utf-8")
    rows = re.findall(r"^\| (article|dialogue|story) \| (\S+) \|.*\| ([\d,]+) \| ([\d.]+) \|$", text, re.M)
    n_documents = sum(int(n.replace(",", "")) for *_, n, _ in rows)
    assert f"{n_documents:,} documents" in text
    megabytes = sum(float(size) for *_, size in rows)
    assert float(re.search(r"([\d.]+) MB of text", text)[1]) == pytest.approx(megabytes, abs=0.01 * len(rows))
    assert set(READ) <= {source for _, source, *_ in rows}
