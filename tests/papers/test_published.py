"""Are the published figures what the papers print, and is what is wrong with them said?"""

import re
from pathlib import Path

import numpy as np
import pytest

from papers.benchmarks import BENCHMARKS
from papers.published import Published, _table, published, table_ids
from synthscore.errors import InputError
from synthscore.evaluation.methods import method
from synthscore.judging.templates import Templates, load_task
from synthscore.types import Context

SIZES = {  # rows, columns
    "ds1": (13, 13), "ds2": (11, 1), "ds3": (8, 3), "ds4": (15, 5), "ds5": (4, 4), "ds6": (4, 4),
    "ca1": (27, 4), "ca2": (9, 2), "ca3": (16, 4), "ca4": (16, 3), "ca5": (8, 4), "ca6": (8, 11), "ca7": (8, 4),
    "ca8": (2, 7), "ca9": (8, 12), "ca10": (8, 12), "ca11": (2, 4),
    "poe1": (10, 5), "poe2": (5, 5), "poe3": (12, 8), "poe5": (10, 6), "poe6": (10, 6), "poe7": (10, 6),
    "poe8": (10, 6), "poe9": (6, 7),
}  # fmt: skip
PAPERS = Path(__file__).parents[3] / "shared" / "papers"
TEXTS = {
    "ds": "DS-direct-scoring-2509.05440.txt",
    "ca": "CA-comparative-assessment-2307.07889v3.txt",
    "poe": "PoE-product-of-experts-2405.05894.txt",
}


def figures(of: Published) -> np.ndarray:
    return np.array([[np.nan if value is None else value for value in row.values] for row in of.rows], dtype=float)


def figure(table: str, row: str, column: str) -> float | None:
    of = published(table)
    (found,) = (
        value
        for each in of.rows
        if row in each.names
        for there, value in zip(of.columns, each.values, strict=True)
        if column in there.names
    )
    return found


def notes(table: str, row: str, column: str) -> list[str]:
    """Of one cell; those about the whole table are left out."""
    of = published(table)
    (there,) = (each for each in of.rows if row in each.names)
    (at,) = (each for each in of.columns if column in each.names)
    return [note.text for note in of.notes if (note.rows or note.columns) and note.about(there, at)]


@pytest.mark.parametrize("table", SIZES)
def test_a_table_has_as_many_rows_and_columns_as_in_its_paper(table):
    of = published(table)
    assert (len(of.rows), len(of.columns)) == SIZES[table]
    for row in of.rows:
        assert len(row.values) == len(row.sd) == len(of.columns), row.name


def test_all_tables_are_there():
    assert table_ids() == tuple(SIZES)


def test_an_unknown_table_is_an_error_that_names_those_there_are():
    with pytest.raises(InputError, match=r"no table 'ds9'.*ds1, ds2.*poe9"):
        published("ds9")


@pytest.mark.parametrize("table", SIZES)
def test_rows_and_columns_of_a_table_can_be_told_apart(table):
    of = published(table)
    assert len({(row.section, row.name) for row in of.rows}) == len(of.rows)
    assert len({(column.benchmark, column.name) for column in of.columns}) == len(of.columns)


@pytest.mark.parametrize("table", SIZES)
def test_figures_are_possible_values_of_what_they_measure(table):
    of = published(table)
    lowest = {"first_wins": 0, "accuracy": 0, "self_consistency": 0}.get(of.asks["measure"], -of.unit)
    measured = figures(of)[:, [bool(column.of) for column in of.columns]]
    assert np.nanmin(measured, initial=of.unit) >= lowest
    assert np.nanmax(measured, initial=lowest) <= of.unit
    assert all(sd is None or 0 <= sd < 3 for row in of.rows for sd in row.sd)


@pytest.mark.parametrize("table", ["ds1", "ds4", "ca6"])
def test_printed_averages_are_those_of_the_printed_columns(table):
    of = published(table)
    values = figures(of)
    checked = 0
    for place, column in enumerate(of.columns):
        parts = [k for k, each in enumerate(of.columns) if len(each.of) == 1 and each.of[0] in column.of]
        if len(parts) == 1:
            continue
        means = values[:, parts].mean(axis=1)
        rounding = 10.0 ** -of.asks["decimals"]  # half a digit of the columns', half a digit of the average's
        np.testing.assert_array_less(np.abs(means - values[:, place])[~np.isnan(means)], rounding + 1e-9)
        checked += (~np.isnan(means)).sum()
    assert checked == {"ds1": 13 + 12 + 11, "ds4": 14, "ca6": 8}[table]


@pytest.mark.parametrize("table", ["ds5", "ds6"])
def test_axis_tables_are_symmetric_with_ones_on_the_diagonal(table):
    of = published(table)
    values = figures(of)
    np.testing.assert_array_equal(values, values.T)
    np.testing.assert_array_equal(np.diag(values), np.ones(4))
    assert [row.ask["attribute"] for row in of.rows] == [column.of[0][1] for column in of.columns]


def test_tables_1_and_5_of_poe_have_the_same_figures():
    small, large = published("poe1"), published("poe5")
    places = [[column.name for column in large.columns].index(column.name) for column in small.columns]
    np.testing.assert_array_equal(figures(small), figures(large)[:, places])
    assert [row.ask for row in small.rows] == [row.ask for row in large.rows]


@pytest.mark.parametrize("table", ["poe5", "poe6", "poe7", "poe8"])
def test_nothing_varies_where_all_calls_are_made(table):
    for row in published(table).rows:
        assert (set(row.sd) == {0.0}) == (row.ask["calls"] == "all")


@pytest.mark.parametrize(
    ("table", "row", "expected"),
    [
        ("ca1", "Comparative assessment/FlanT5-3B", [51.2, 47.1, 32.5, 44.8]),
        ("ca1", "Comparative assessment/FlanT5-770M", [29.8, 26.3, 20.6, 35.1]),
        ("ca6", "FlanT5-3B/Debiased", [51.8, 46.9, 33.0, 45.3]),
        ("ca7", "FlanT5-3B/As asked", [68.6, 82.0, 68.2, 67.2]),
        ("ca7", "FlanT5-3B/Debiased", [69.8, 82.1, 68.8, 67.8]),
        ("ca8", "FlanT5-3B/Final", [84.0, 88.3, 90.7, 93.7, 95.5, 98.0, 100]),
        ("ca10", "FlanT5-3B/As asked", [68.6, 82.0, 68.2, 67.2]),
        ("ca11", "FlanT5-3B/Win-loss", [51.4, 46.4, 31.9, 45.0]),
        ("ca9", "FlanT5-3B/Prompt 1", [0.37, 0.46, 0.41, 0.42]),
        ("ca9", "FlanT5-3B/Prompt 2", [0.43, 0.47, 0.42, 0.44]),
        ("poe5", "FlanT5-3B/48", [34.1, 36.6, 34.9, 38.4, 42.6, 42.4]),
        ("poe5", "FlanT5-3B/240", [43.6, 43.6, 43.4, 44.3, 44.3, 44.3]),
        ("poe7", "FlanT5-3B/18", [41.3, 41.8, 41.6, 43.4, 45.4, 45.2]),
        ("poe7", "FlanT5-3B/30", [45.3, 44.8, 45.3, 44.7, 44.7, 44.7]),
        ("ds1", "Llama-3-8B/Ours", [0.44, 0.41, 0.26, 0.36, 0.37, 0.43, 0.50, 0.43, 0.46, 0.42, 0.37, 0.49, 0.43]),
        ("ds1", "Llama-3-8B/Direct Scoring", [0.35, 0.32, 0.23, 0.46]),
        ("ds1", "Llama-3-8B/G-Eval", [0.34, 0.29, 0.22, 0.42]),
    ],
)
def test_rows_that_were_copied_out_a_second_time_are_the_same(table, row, expected):
    (there,) = (each for each in published(table).rows if row in each.names)
    assert list(there.values[: len(expected)]) == expected


@pytest.mark.skipif(not PAPERS.is_dir(), reason="the papers' texts are not there")
@pytest.mark.parametrize("table", [table for table in SIZES if table != "poe2"])
def test_every_row_stands_in_the_text_of_its_paper_in_this_order(table):
    text = (PAPERS / TEXTS[table.rstrip("0123456789")]).read_text()
    lines = [
        re.findall(r"-?\d+\.\d+|-?\d+", line.replace("\\pm", " ")) for line in re.sub("</?u>", "", text).split("\n")
    ]
    numbers = [[float(number) for number in line] for line in lines]
    start = 0
    for row in published(table).rows:
        pairs = zip(row.values, row.sd, strict=True)
        wanted = [number for pair in pairs for number in pair if number is not None]
        if not wanted:  # a row of dashes
            continue
        start = 1 + next(
            place
            for place, line in enumerate(numbers)
            if place >= start and any(line[k : k + len(wanted)] == wanted for k in range(len(line)))
        )


# ------------------------------------------------------------------------------------------------- what is wrong


def test_the_ablation_figure_that_the_main_table_rules_out_says_so():
    columns = [figure("ds1", "Llama-3-8B/Ours", f"summeval/{name}") for name in ("COH", "CON", "FLU", "REL")]
    assert 100 * (sum(columns) + 4 * 0.005) / 4 == pytest.approx(37.25)
    assert figure("ds2", "Prediction/Better, Worse, Similar", "SummEval") == 37.43
    assert "37.43" in " ".join(notes("ds1", "Llama-3-8B/Ours", "summeval/AVG"))
    assert "36.25 to 37.25" in " ".join(notes("ds2", "Rungs/N = 5", "SummEval"))


@pytest.mark.parametrize("judge", ["Llama-3-8B", "Mistral-v0.1-7B"])
def test_figures_that_differ_between_tables_of_a_paper_name_the_other_one(judge):
    main, ablation = ("ds1", f"{judge}/Direct Scoring", "summeval/AVG"), ("ds3", f"Judge/{judge}", "Direct")
    for here, there in ((main, ablation), (ablation, main)):
        assert figure(*here) != figure(*there)
        assert any(f"{figure(*there):.2f}" in note for note in notes(*here))


def test_the_row_that_was_copied_by_mistake_says_so():
    rows = ["Prompt scoring/FlanT5-220M", "Comparative assessment/FlanT5-220M"]
    scored, compared = ([figure("ca1", row, column) for column in ("COH", "CON", "FLU", "REL")] for row in rows)
    assert scored == compared
    assert "copying" in " ".join(notes("ca1", rows[1], "FLU"))
    assert not notes("ca1", rows[0], "FLU")


def test_rows_that_mix_levels_are_marked_as_not_comparable():
    assert "Not to be compared" in " ".join(notes("ca3", "Other metrics/UniEval (continual)", "NAT"))


def test_the_two_tables_of_first_positions_differ_by_as_much_as_their_notes_say():
    short, long = figures(published("ca5")), figures(published("ca9"))[:, :4]
    assert np.abs(short - long).max() == pytest.approx(0.07)
    assert "0.07" in notes("ca9", "Llama2-chat-13B/Prompt 2", "summeval/CON")[0]


def test_the_accuracies_of_the_short_table_are_those_of_the_long_one():
    short, long = published("ca7"), published("ca10")
    np.testing.assert_array_equal(figures(short), figures(long)[:, :4])
    assert [row.ask for row in short.rows] == [row.ask for row in long.rows]
    assert "means Table 7" in " ".join(note.text for note in long.notes)


@pytest.mark.parametrize(
    ("row", "column", "slip"),
    [
        ("Llama-3-8B/Ours", "topicalchat/NAT", "word for word Table 15"),
        ("Mistral-v0.1-7B/Ours", "hanna/SUR", "announces a news article"),
        ("Llama-3-8B/Ours", "summeval/COH", "example summary"),
    ],
)
def test_slips_in_the_papers_prompts_stand_beside_what_was_asked_with_them(row, column, slip):
    assert any(slip in note for note in notes("ds1", row, column))
    assert not any("prompts" in note for note in notes("ds1", row.replace("Ours", "G-Eval"), column))


@pytest.mark.skipif(not PAPERS.is_dir(), reason="the papers' texts are not there")
def test_the_slips_in_the_papers_prompts_are_there():
    text = " ".join((PAPERS / TEXTS["ds"]).read_text().split())

    def prompt(number):
        """The words before a table's caption."""
        end = re.search(rf"Table {number}: (SummEval|TopicalChat|HANNA) ", text).start()
        return re.sub(r"[^a-z]+", " ", text[:end].rpartition("Prompt Template.")[2].lower())

    stories = prompt(15)
    assert prompt(14) == stories
    assert "conversation" not in stories
    assert "news article one target summary" in stories
    assert "story idea" in stories
    assert "read the target summary and example summary" in prompt(13)
    assert "summary must be non empty and directly summarize the article" in text.lower().replace("-", " ")
    assert "story idea" not in prompt(18)


@pytest.mark.parametrize(
    ("task", "attribute", "other_nouns"),
    [
        ("story", "surprise", r"article|summar|conversation|respon"),
        ("dialogue", "engagingness", r"article|summar|story"),
    ],
)
def test_our_prompts_in_the_papers_layout_have_none_of_its_slips(task, attribute, other_nouns):
    templates = Templates(load_task(task), "paper")
    context, asked = Context("c", "THE CONTEXT"), templates.task.attribute(attribute)
    pair = {"target": "THE TARGET", "reference": "THE REFERENCE"}
    shown = templates.compare(context, asked, **pair).text
    assert all(words in shown for words in ("THE CONTEXT", "THE TARGET", "THE REFERENCE"))
    prompts = [templates.extreme(context, asked, best=best).text for best in (True, False)]
    prompts += [templates.between(context, asked, worse="A", better="B").text, shown]
    prompts += [templates.yes_no(context, asked, **pair).text]
    for prompt in prompts:
        assert not re.search(other_nouns, prompt.replace("Reply with", "").lower()), prompt


def test_figures_that_are_missing_from_the_text_are_none_and_noted():
    assert np.isnan(figures(published("poe2"))).all()
    assert figure("poe9", "Llama2-7B/G-Eval", "summeval/FLU") is None
    assert "missing" in notes("poe9", "Llama2-7B/G-Eval", "summeval/COH")[0]


@pytest.mark.parametrize("table", SIZES)
def test_notes_are_about_cells_that_are_there(table):
    of = published(table)
    for note in of.notes:
        for names, there in ((note.rows, of.rows), (note.columns, of.columns)):
            assert all(any(name in each.names for each in there) for name in names), note


# ------------------------------------------------------------------------------------------------- as questions


@pytest.mark.parametrize("table", SIZES)
def test_every_cell_asks_for_a_method_and_attributes_that_there_are(table):
    of = published(table)
    for column in of.columns:
        assert all(attribute in BENCHMARKS[benchmark].scales for benchmark, attribute in column.of)
        for row in of.rows:
            if (spec := of.ask(row, column).get("method")) is not None:
                method(spec)


def test_a_row_asks_more_than_its_table_and_a_column_more_than_its_row():
    of = _table(
        {
            "id": "x1", "table": "1", "title": "", "unit": 1, "calls": "table", "level": "table", "method": "table",
            "columns": [{"name": "c", "of": [], "method": "column"}],
            "rows": [{"name": "r", "level": "row", "method": "row", "values": [1.0]}],
            "notes": [],
        },
        "", {},
    )  # fmt: skip
    assert of.ask(of.rows[0], of.columns[0]) == {"calls": "table", "level": "row", "method": "column"}
    assert of.rows[0].sd == (None,)


def test_a_model_has_the_name_that_the_paper_gives_it():
    assert published("ca1").judge("google/flan-t5-xl") == "FlanT5-3B"
    assert published("ca1").judge("FlanT5-3B") == "FlanT5-3B"
    assert published("ca1").judge("nano") == "nano"
