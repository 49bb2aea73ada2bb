"""Which system is best, how sure that is, and of how many texts: the numbers, and the first screen of the page."""

import json
import math
import re
from html import escape, unescape

import numpy as np
import pytest

from synthscore.cli.overview import Overview
from synthscore.evaluation.intervals import holm, mean_over_contexts, mean_score, p_value
from synthscore.io.fields import Item
from synthscore.report import page, read_run
from synthscore.report.numbers import groups
from synthscore.report.systems import LEVEL, compare_systems
from synthscore.types import Score, Target
from tests.report.test_report import a_run, browse, make_run, needs_browser, row, section, visible


def rows_of(values, attribute="coherence"):
    """values : system -> its score in each context, None where unscored"""
    return [
        row(f"c{i}/{system}", value, system=system, reason="" if value is not None else "no answer")
        | {"context_id": f"c{i}", "attribute": attribute}
        for system, own in values.items()
        for i, value in enumerate(own)
    ]


def standings(tmp_path, *rows):
    run = read_run(a_run(tmp_path, [one for part in rows for one in part]))
    [found] = compare_systems(groups(run), run.systems)
    return found.standings


def test_the_best_has_the_highest_mean_and_its_lead_is_that_inside_contexts(tmp_path):
    """Contexts differ by far more than the systems, and that cancels."""
    rng = np.random.default_rng(0)
    hard = rng.normal(0, 2, 12)
    values = {"a": hard + rng.normal(0.5, 0.1, 12), "b": hard + rng.normal(0, 0.1, 12), "d": hard - 3}
    [found] = standings(tmp_path, rows_of({name: own.tolist() for name, own in values.items()}))
    assert (found.best, found.n_texts, found.n_scored, found.n_contexts) == ("a", 36, 36, 12)
    assert [rival.name for rival in found.rivals] == ["b", "d"]
    below = found.rivals[0].below
    more = values["a"] - values["b"]
    assert below.value == pytest.approx(more.mean())
    assert below.stderr == pytest.approx(more.std(ddof=1) / math.sqrt(12))  # the usual error of a mean
    assert found.rivals[0].apart
    assert found.alike == []


def test_systems_that_differ_by_chance_cannot_be_told_apart(tmp_path):
    rng = np.random.default_rng(1)
    values = {name: rng.normal(3, 1, 20).tolist() for name in ("a", "b", "d")}
    [found] = standings(tmp_path, rows_of(values))
    assert len(found.alike) == 2
    assert all(rival.below.low < 0 < rival.below.high for rival in found.alike)
    raw = [p_value(rival.below.value, rival.below.stderr, 20) for rival in found.rivals]
    assert [rival.p for rival in found.rivals] == pytest.approx(holm(raw).tolist())
    assert min(raw) > LEVEL


def test_few_contexts_tell_no_systems_apart_whatever_the_scores(tmp_path):
    values = {"a": [5.0, 4.9, 4.8, 5.0, 4.9], "b": [1.0, 1.1, 1.0, 0.9, 1.2]}
    [found] = standings(tmp_path, rows_of(values))
    assert found.least_p == found.rivals[0].p == 2 / 2**5
    assert not found.rivals[0].apart
    shown = re.sub(r" (?=[,:.])", "", visible(page(read_run(tmp_path))))
    assert "a 4.92 is the highest, above b by 3.88 [" in shown
    assert (
        "not surely better than b (≈) ; with 5 contexts and 2 systems p is at least 0.062, whatever the scores."
        in shown
    )


def test_only_contexts_that_two_systems_share_say_how_small_p_can_be(tmp_path):
    values = {"a": [5.0] * 6 + [None] * 4, "b": [1.0, 1.1, 0.9, 1.2, 1.0, 1.1] + [1.0] * 4, "d": [None] * 9 + [2.0]}
    [found] = standings(tmp_path, rows_of(values))
    assert (found.n_contexts, found.n_shared) == (10, 6)
    assert found.least_p == 2 / 2**6  # d shares no context with the best, and is not compared
    assert found.rivals[-1].p >= found.least_p


def test_the_mean_of_a_system_is_that_of_the_overview_of_score(tmp_path):
    """Texts of one context are not independent: seven texts in three contexts, and one in none."""
    values = np.array([1.0, 1.1, 4.0, 4.1, np.nan, 2.0, 2.2, 3.0])
    contexts = ["x", "x", "y", "y", "y", "z", "z", ""]
    rows = [
        row(f"t{i}", None if np.isnan(value) else value, system="a", reason="no answer" if np.isnan(value) else "")
        | {"context_id": context or None}
        for i, (value, context) in enumerate(zip(values.tolist(), contexts, strict=True))
    ]
    run = read_run(a_run(tmp_path, [*rows, row("other", 1.0, system="b")]))
    [found] = compare_systems(groups(run), run.systems)
    [mean] = next(system.means for system in found.systems if system.name == "a")
    scored = ~np.isnan(values)
    expected = mean_over_contexts(values[scored], ["x", "x", "y", "y", "z", "z", "none"])
    assert mean == expected == mean_score(values, contexts)
    overview = Overview()
    for i in np.flatnonzero(scored).tolist():
        item = Item(i + 1, Target(f"t{i}", contexts[i] or "c", "A text.", system="a"), f"t{i}")
        overview._add(item, Score(f"t{i}", contexts[i], "coherence", float(values[i])))
    [table, _] = overview.lines()
    assert f"{expected.low:.2f} to {expected.high:.2f}" in table


def test_only_contexts_with_scored_texts_of_both_count_and_a_row_without_a_context_is_in_none(tmp_path):
    rows = rows_of({"a": [4.0, 5.0, None, 3.0], "b": [3.0, None, 2.0, 2.5]})
    rows += [row("x", 9.0, system="b") | {"context_id": None}]
    [found] = standings(tmp_path, rows)
    assert found.best == "b"  # by the mean of all its texts
    assert found.rivals[0].below.n_contexts == 2
    assert found.rivals[0].below.value == pytest.approx(-0.75)
    assert not found.rivals[0].apart
    assert (found.n_texts, found.n_scored, found.n_contexts) == (9, 7, 4)


def test_systems_that_share_no_context_are_not_compared(tmp_path):
    others = [one | {"context_id": f"other {i}", "id": f"o{i}"} for i, one in enumerate(rows_of({"b": [1.0] * 8}))]
    rows = [*rows_of({"a": [4.0] * 8}), *others]
    [found] = standings(tmp_path, rows)
    assert found.rivals[0].below is None
    assert found.alike == [found.rivals[0]]
    assert "above b by (no context has texts of both)" in visible(page(read_run(tmp_path)))


def test_several_texts_of_a_system_in_a_context_count_as_their_mean(tmp_path):
    rows = [*rows_of({"a": [4.0, 5.0], "b": [1.0, 2.0]}), row("more", 2.0, system="a") | {"context_id": "c0"}]
    [found] = standings(tmp_path, rows)
    assert found.rivals[0].below.value == pytest.approx(((4 + 2) / 2 - 1 + 5 - 2) / 2)


def test_the_mean_difference_is_that_of_a_slow_jackknife():
    rng = np.random.default_rng(2)
    more, contexts = rng.normal(1, 1, 30), [f"c{i % 7}" for i in range(30)]
    found = mean_over_contexts(more, contexts)
    without = [more[[c != left for c in contexts]].mean() for left in dict.fromkeys(contexts)]
    stderr = math.sqrt(6 / 7 * sum((value - np.mean(without)) ** 2 for value in without))
    assert (found.value, found.stderr, found.n_contexts) == (pytest.approx(more.mean()), pytest.approx(stderr), 7)
    assert found.low < found.value < found.high


def test_the_page_answers_for_each_attribute_by_itself(tmp_path):
    rng = np.random.default_rng(3)
    good, poor = (5 + rng.normal(0, 0.1, 8)).tolist(), (2 + rng.normal(0, 0.1, 8)).tolist()
    a_run(tmp_path, rows_of({"a": good, "b": poor}) + rows_of({"a": poor, "b": good}, "fluency"))
    html = page(read_run(tmp_path))
    head = visible(html.partition("<main")[0])
    assert "No system is best on all 2 attributes." in head
    answer = r"coherence: a [45]\.\d\d is best; above b, the next, by [23]\.\d\d \[2\.\d\d, 3\.\d\d\]"
    assert re.search(answer + r" \. 16 of 16 texts scored, 8 contexts\.", head)
    assert "fluency: b" in head
    table = visible(section(html, "systems"))
    assert "system texts unscored coherence fluency" in table
    assert "mean" not in table.partition("system texts")[2].partition("Differences")[0]  # of both attributes together
    a_run(tmp_path, rows_of({"a": good, "b": poor}) + rows_of({"a": good, "b": poor}, "fluency"))
    assert "a is surely best on all 2 attributes." in visible(page(read_run(tmp_path)))


def test_the_table_has_a_sign_for_those_that_cannot_be_told_from_the_best(tmp_path):
    rng = np.random.default_rng(4)
    base = rng.normal(4, 0.5, 12)
    values = {"best": base, "near": base + rng.normal(-0.05, 0.5, 12), "far": base - 2 + rng.normal(0, 0.1, 12)}
    a_run(tmp_path, rows_of({name: own.tolist() for name, own in values.items()}))
    html = section(page(read_run(tmp_path)), "systems")
    rows = re.findall(r'<th scope="row" dir="auto">(\w+)</th>(.*?)</tr>', html, flags=re.S)
    cells = {name: re.findall(r'<td class="n">(.*?)</td>', cells)[-1] for name, cells in rows}
    best = max(values, key=lambda name: values[name].mean())
    assert cells[best].startswith("<b>")
    assert cells[({"best", "near"} - {best}).pop()].endswith("] ≈ best")
    assert cells["far"].endswith("]")


def test_systems_are_shown_with_the_mean_of_their_scored_texts(tmp_path):
    values = {"a": [1.0, 2.0, None], "b": [4.0, 5.0, 3.0], "": [9.0]}
    rows = [row(f"{s}{i}", v, system=s, reason="x") for s, own in values.items() for i, v in enumerate(own)]
    shown = visible(section(page(read_run(a_run(tmp_path, rows))), "systems"))
    assert "system texts unscored coherence b 3 0 4.00 a 3 1 1.50 ≈ best" in shown  # of one context: no interval
    alone = page(read_run(a_run(tmp_path, [row("a", system="a"), row("b", system="a")])))
    assert "Which system is best cannot be said: the texts do not name two of them" in visible(alone)


@pytest.mark.slow
@needs_browser
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("n_attributes", [2, 4])
def test_the_first_screen_says_which_system_is_best_how_sure_that_is_and_of_how_many_texts(
    tmp_path, width, n_attributes
):
    """In a frame, as a window is never narrower than 500 pixels; an element is found by its words."""
    rng = np.random.default_rng(5)
    rows = []
    for at in range(n_attributes):
        values = {f"system-{name}": (4 - k / 3 + rng.normal(0, 0.3, 12)).tolist() for k, name in enumerate("abdefg")}
        rows += rows_of(values, f"attribute-{at}")
    html = page(read_run(a_run(tmp_path, rows)), min_score=3.5)
    script = """<title></title><script>
      onload = () => {
        const page = document.querySelector('iframe').contentDocument;
        const ends = [...page.querySelectorAll('.lead, .answer li, .answer li .soft, .answer + .soft')];
        document.title = JSON.stringify(ends.map(e => [e.textContent.trim(), e.getBoundingClientRect().bottom]));
      };
    </script>"""
    frame = f'<iframe style="width: {width}px; height: 800px; border: 0" srcdoc="{escape(html)}"></iframe>'
    (tmp_path / "around.html").write_text(script + frame, encoding="utf-8")
    dom = browse(tmp_path / "around.html", tmp_path / "profile", "--window-size=1400,1000", "--dump-dom")
    found = json.loads(unescape(re.search("<title>(.+?)</title>", dom)[1]))
    assert max(bottom for _, bottom in found) < 800
    words = " ".join(" ".join(text.split()) for text, _ in found)
    assert re.search(r"system-a (is surely best|has the highest mean) on all \d attributes", words)
    assert len(re.findall(r"above system-\w(?:, the next,)? by 0\.\d\d \[", words)) == n_attributes
    assert words.count("72 of 72 texts scored, 12 contexts.") >= n_attributes


def test_a_run_of_the_library_itself_has_an_answer(tmp_path):
    """Of systems whose qualities are known: careful 4.6, plain 3.9."""
    make_run(tmp_path, 12)
    shown = visible(page(read_run(tmp_path)))
    assert "careful is surely best on all 2 attributes." in shown
