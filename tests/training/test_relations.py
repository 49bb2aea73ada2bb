"""Statements about reports: which of them are true, which words are false, and that nothing else tells."""

import re
from collections import defaultdict
from itertools import permutations, product, repeat

import numpy as np
import pytest

from training import relations
from training.relations import FALSE, FILLINGS, HALF_FALSE, of_file, of_relations

NAMES = ["Ada", "Bo", "Cy", "Dot", "Eli", "Fay"]
BEAT = {
    "kind": "roles",
    "slots": {"a": NAMES, "b": NAMES},
    "swap": ["a", "b"],
    "context": ["{a} beat {b}.", "{b} was beaten by {a}."],
    "says": ["{a} won against {b}.", "{b} lost to {a}.", "{a} was the winner."],
}
TOWNS = ["Ulm", "Rye", "Ayr", "Ems", "Pau", "Hel"]
RAIN = {
    "kind": "polarity",
    "slots": {"t": TOWNS},
    "context": ["In {t} it rained.", "{t} had rain."],
    "says": ["{t} got wet.", "Umbrellas were of use in {t}."],
    "context_not": ["In {t} it stayed dry.", "{t} had no rain."],
    "says_not": ["{t} did not get wet.", "Nobody in {t} needed an umbrella."],
}
PARAGRAPH = " ".join(["A paragraph of some document or other."] * 6)


def groups(n, every=(BEAT, RAIN), seed=0, text=f"{PARAGRAPH}\n\n{PARAGRAPH}"):
    stream = of_relations(every, repeat({"text": text}), np.random.default_rng(seed))
    return [next(stream) for _ in range(n)]


def followed(context):
    """All statements that follow from a report, by trying all names."""
    found = set()
    for a, b in permutations(NAMES, 2):
        if any(wording.format(a=a, b=b) in context for wording in BEAT["context"]):
            found |= {wording.format(a=a, b=b) for wording in (*BEAT["context"], *BEAT["says"])}
    for town, side in product(TOWNS, ("", "_not")):
        if any(wording.format(t=town) in context for wording in RAIN[f"context{side}"]):
            found |= {wording.format(t=town) for wording in (*RAIN[f"context{side}"], *RAIN[f"says{side}"])}
    return found


@pytest.fixture(autouse=True)
def two_at_most(monkeypatch):
    monkeypatch.setattr(relations, "MOST", 2)


def test_a_text_is_the_worse_the_more_of_its_statements_the_report_contradicts():
    seen = set()
    for group in groups(300):
        follows = followed(group.context)
        for text, severity, kind in zip(group.texts, group.severities, group.kinds, strict=True):
            false = [one not in follows for one in text.replace(". ", ".\n").splitlines()]
            assert severity == (0.0 if not any(false) else FALSE if all(false) else HALF_FALSE), (text, group.context)
            assert kind == ("false" if any(false) else "true")
            seen.add((len(false), sum(false)))
    assert seen == {  # statements of a text, and how many of them are false
        (1, 0),
        (1, 1),
        (2, 0),
        (2, 1),
        (2, 2),
    }


def test_false_words_are_the_names_that_were_moved_and_not_known_where_no_name_was():
    n_known = 0
    for group in groups(200):
        for text, severity, marks in zip(group.texts, group.severities, group.damaged, strict=True):
            if marks is None:
                assert severity > 0
                continue
            assert len(marks) == len(text.split())
            marked = [word.strip(".") for word, false in zip(text.split(), marks, strict=True) if false]
            assert bool(marked) == (severity > 0)
            assert set(marked) <= set(NAMES)
            n_known += bool(marked)
    assert n_known > 100


def test_the_words_of_a_statement_do_not_tell_whether_it_is_true(monkeypatch):
    monkeypatch.setattr(relations, "INVENTED", 0.0)
    monkeypatch.setattr(relations, "MOST", 1)
    monkeypatch.setattr(relations, "LOOKED_UP", 0.0)
    false = defaultdict(list)
    for group in groups(4000, every=(BEAT,), seed=3):
        for text, severity in zip(group.texts, group.severities, strict=True):
            false[re.sub("|".join(NAMES), "_", text)].append(severity > 0)
            false["a name of the first three" if NAMES.index(text.split()[0]) < 3 else "of the others"].append(
                severity > 0
            )
    shares = [np.mean(found) for found in false.values()]
    assert len(shares) == 5
    assert np.ptp(shares) < 0.05


def test_a_relation_without_two_ends_is_denied_as_often_as_it_is_said(monkeypatch):
    monkeypatch.setattr(relations, "MOST", 1)
    false = defaultdict(list)
    for group in groups(2000, every=(RAIN,), seed=4):
        for text, severity in zip(group.texts, group.severities, strict=True):
            false[re.sub("|".join(TOWNS), "_", text)].append(severity > 0)
    assert len(false) >= 4
    assert all(abs(np.mean(found) - 0.5) < 0.06 for found in false.values())


def test_some_statements_are_the_reports_own_words_and_some_name_what_it_does_not(monkeypatch):
    monkeypatch.setattr(relations, "MOST", 1)
    made = list(groups(200, every=(BEAT,), seed=5))
    own = [text in group.context for group in made for text in group.texts]
    assert 0.05 < np.mean(own) < 0.2
    named = [
        set(NAMES) & set(re.findall(r"\w+", text)) <= set(re.findall(r"\w+", group.context))
        for group in made
        for text, severity in zip(group.texts, group.severities, strict=True)
        if severity > 0
    ]
    assert 0 < np.mean(np.logical_not(named)) < 0.25


def test_every_relation_that_a_report_tells_may_be_asked_about(monkeypatch):
    monkeypatch.setattr(relations, "MOST", 4)
    monkeypatch.setattr(relations, "AMID", 0.0)
    asked = set()
    for group in groups(200, every=(RAIN,) * 4, seed=6):
        told = re.split(r"(?<=\.) ", group.context)
        asked |= {i for i, one in enumerate(told) if one in group.texts}
    assert asked == {0, 1, 2, 3}


def test_some_reports_stand_between_paragraphs_of_a_document_that_has_two():
    amid = [PARAGRAPH in group.context for group in groups(300)]
    assert 0.2 < np.mean(amid) < 0.4
    assert not any("A line." in group.context for group in groups(100, text="A line."))


def test_every_relation_has_its_slots_filled_turns_round_and_is_said_in_several_ways():
    every = of_file()
    assert len(every) > 1500
    for relation in every:
        slots = relation["slots"]
        assert all(len(set(kind)) >= 4 if isinstance(kind, list) else kind in FILLINGS for kind in slots.values())
        sides = ["context", "says"] if "swap" in relation else ["context", "says", "context_not", "says_not"]
        for side in sides:
            wordings = relation[side]
            assert len(wordings) == len(set(wordings)) >= 2, wordings
            for wording in wordings:
                named = set(re.findall(r"{(\w+)}", wording))
                assert named <= set(slots), wording
                assert "swap" not in relation or named & set(relation["swap"]), wording
        if "swap" in relation:
            a, b = relation["swap"]
            assert slots[a] == slots[b]
