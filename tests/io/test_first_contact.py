"""Files as people have them, each read and given a verdict (benchmarks/first_contact.py)."""

from benchmarks import first_contact
from synthscore.io.separated import CsvLines


def sums(found):
    return {name: sum(by[name] for by in found.values()) for name in ("good", "poor", "bad")}


def test_of_200_inputs_none_is_bad_and_few_are_poor():
    found = sums(first_contact.main())
    assert sum(found.values()) >= 200
    assert found["bad"] == 0
    assert found["poor"] <= 0.05 * sum(found.values())


def test_rows_that_are_lost_are_a_bad_verdict(monkeypatch, tmp_path):
    monkeypatch.setattr(CsvLines, "again_from_second", lambda self: None)
    found = [first_contact.verdict(case, tmp_path)[0] for case in first_contact.quotes()]
    assert found.count("bad") >= 5
