"""Are the papers' tables made right, and does every cell say what it is, or why it is empty?"""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import spearmanr

from papers.layout import Cell
from papers.measures import Bench, Figure, with_options
from papers.published import published, table_ids
from papers.tables import make_table
from synthscore.errors import EngineError, InputError
from synthscore.evaluation.agreement import agreement
from synthscore.evaluation.methods import MethodError, Tools, method
from synthscore.evaluation.ratings import RatedText, Ratings
from synthscore.ladders.references import References
from synthscore.types import Context
from tests import factories
from tests.fakes import FakeEngine

ATTRIBUTES = {
    "summeval": ("summarization", ("coherence", "consistency", "fluency", "relevance")),
    "newsroom": ("summarization", ("coherence", "fluency", "informativeness", "relevance")),
    "topicalchat": ("dialogue", ("understandability", "naturalness", "coherence", "engagingness", "overall")),
    "hanna": ("story", ("coherence", "surprise", "complexity")),
    "webnlg": ("data_to_text", ("fluency", "grammar", "semantics")),
    "podcast": ("summarization", ("overall",)),
    "cmcqrd": ("question", ("difficulty",)),
}
ASKED_AS = {"informativeness": "relevance", "overall": "relevance"}
N_CONTEXTS, N_SYSTEMS = 4, 4


def made_up(name, n_contexts=N_CONTEXTS, n_systems=N_SYSTEMS, noise=0.5, empty=()):
    """Texts that say their quality <0..9>, and people who mostly see it."""
    task, attributes = ATTRIBUTES[name]
    rng = np.random.default_rng([len(name), n_contexts])
    texts = []
    for c in range(n_contexts):
        for s, quality in enumerate(rng.permutation(10)[:n_systems].tolist()):
            human = {attribute: float(quality + noise * 3 * rng.normal()) for attribute in attributes}
            words = "" if (c, s) in empty else f"A text <{quality}>" + " with more words" * int(rng.integers(4))
            texts.append(RatedText(f"{c}-{s}", f"{name}-{c}", f"s{s}", words, human))
    contexts = {
        f"{name}-{c}": Context(f"{name}-{c}", f"Context {c}.", references=("A text.",)) for c in range(n_contexts)
    }
    asked_as = {} if name in ("topicalchat", "hanna") else ASKED_AS
    return Ratings(name, tuple(texts), attributes, contexts, task, asked_as=asked_as if name != "summeval" else {})


def all_ratings():
    return {name: made_up(name) for name in ATTRIBUTES}


def ladders(ratings, n_rungs=9):
    found = {}
    for each in ratings.values():
        for attribute in each.attributes:
            asked = each.asked_as.get(attribute, attribute)
            for context in each.contexts.values():
                rungs = [f"Rung <{9 * level / (n_rungs - 1)}>" for level in range(n_rungs)]
                found[context.id, asked] = factories.ladder(context.id, asked, each.task, texts=rungs, context=context)
    return References(tuple(found.values()), "made-up")


def qualities(prompt):
    return [float(number) for number in re.findall(r"<(\d[\d.]*)>", prompt.text)]


def judge(favour=0.0, sign=1.0):
    """Knows the qualities; favour : nats for the text shown first. sign : -1 prefers the worse one."""

    def log_probs(prompt, labels):
        shown = qualities(prompt)
        if labels == ("A", "B"):
            odds = sign * (shown[0] - shown[1]) + favour
            logits = np.array([odds / 2, -odds / 2])
        elif len(shown) == 2:  # about the second: better or yes, worse or no, similar
            odds = sign * (shown[1] - shown[0])
            logits = np.array([odds / 2, -odds / 2, -1.0])[: len(labels)]
        elif labels[0].isdigit():
            logits = -((np.array(labels, dtype=float) - 1 - 4 * shown[-1] / 9) ** 2)
        else:
            logits = np.array([shown[-1] - 5, 0.0])
        return logits - np.logaddexp.reduce(logits)

    return log_probs


def writer(prompt, seed):
    return str(1 + round(qualities(prompt)[-1]))


def model(*args, references=None, **options):
    return Tools(FakeEngine(judge(*args, **options), writer), references)


def cell_of(table, line, column):
    """The one cell of these names: a row's, or section/row; a column's, or benchmark/column."""
    (found,) = [
        cell
        for there in table.lines
        for of, cell in zip(table.of.columns, there.cells, strict=True)
        if line in there.row.names and column in of.names
    ]
    return found


def cell_values(line):
    return [cell.value for cell in line.cells]


# ------------------------------------------------------------------------------------------------- end to end

LOADS_A_MODEL = {"BERTScore (bert-base-uncased)": "length", "BERTScore (roberta-large)": "length"}


@pytest.mark.slow
@pytest.mark.parametrize("table", table_ids())
def test_every_table_is_made_from_a_model_and_ratings(table):
    of = published(table)
    ratings = {name: made_up(name, 2 if table[:3] in ("ds2", "poe") else N_CONTEXTS) for name in of.benchmarks}
    references = ladders(ratings)
    papers = [row.ask["judge"] for row in of.rows if row.ask.get("judge") and "fixed" not in row.ask]
    others = ["ours"] if papers and table != "ds2" else []  # whose 1000 samples of everything take long enough once
    made = make_table(
        table,
        ratings,
        {name: model(1.0, references=references) for name in [*papers[:1], *others]},
        methods={name: spec for name, spec in LOADS_A_MODEL.items() if any(name in row.names for row in of.rows)},
        n_draws=2,
    )
    theirs = [(row.section, row.name) for row in of.rows]
    assert [key for line in made.lines if (key := (line.row.section, line.row.name)) in theirs] == theirs
    assert [cell.published for line in made.lines for cell in line.cells if cell.published is not None] == [
        value for row in of.rows for value in row.values if value is not None
    ]
    measured = [line for line in made.lines if any(value is not None for value in cell_values(line))]
    assert measured
    assert {*papers[:1], *others} <= {line.row.ask.get("judge") for line in measured}
    for cell in (cell for line in measured for cell in line.cells if cell.value is not None):
        if cell.low is not None:  # or no context changes it
            assert cell.low - 1e-9 <= cell.value <= cell.high + 1e-9
        assert -of.unit <= cell.value <= of.unit
    assert json.loads(json.dumps(made.to_json(), allow_nan=False))["rows"]
    assert made.to_markdown().count("\n|") >= len(made.lines) + 2
    refused = [note for note in made.footnotes if note.startswith("Not measured (")]
    expected = (
        "cannot draw",
        "cannot choose a wording",
    )  # more texts or calls than there are; the writer is a poor one
    assert not [note for note in refused if not any(why in note for why in expected)]


def test_a_table_without_models_and_ratings_shows_what_was_published_and_says_what_is_missing():
    made = make_table("ds1", {}, {})
    assert cell_of(made, "Llama-3-8B/Ours", "hanna/AVG") == Cell(
        published=0.43, missing=("no ratings are given of", "hanna")
    )
    assert "Not measured: no ratings are given of summeval, topicalchat, hanna" in made.footnotes
    assert re.search(r"\| - \(0\.43 \w\) \|$", made.to_markdown(), re.MULTILINE)


def test_a_table_without_the_model_says_which():
    made = make_table("ca7", {"summeval": made_up("summeval")}, {"FlanT5-3B": model()})
    assert "Not measured: no model is given as FlanT5-11B, Llama2-chat-7B, Llama2-chat-13B" in made.footnotes


def test_ratings_without_an_attribute_leave_its_cells_empty():
    ratings = replace(made_up("summeval"), attributes=("coherence", "fluency"))
    made = make_table("ca7", {"summeval": ratings}, {"FlanT5-3B": model()})
    assert cell_of(made, "FlanT5-3B/As asked", "CON").missing == ("no ratings are given of", "summeval/consistency")
    assert cell_of(made, "FlanT5-3B/As asked", "FLU").value is not None


def test_an_error_of_a_method_stands_below_the_table():
    made = make_table("ds3", {"summeval": made_up("summeval")}, {"Llama-3-8B": model()})
    assert cell_of(made, "Judge/Llama-3-8B", "Direct").value is not None
    assert cell_of(made, "Judge/Llama-3-8B", "Ours").value is None
    assert any(note.startswith("Not measured (Llama-3-8B Ours): this method needs ladders") for note in made.footnotes)


# ------------------------------------------------------------------------------------------------- values


def test_an_agreement_is_that_of_the_method_with_people():
    ratings = made_up("summeval")
    made = make_table("ca1", {"summeval": ratings}, {}, methods={"QuestEval": "length"})
    scores = method("length")(ratings, "fluency", Tools()).values
    found = agreement(scores, ratings.human("fluency"), ratings.context_ids)
    assert cell_of(made, "QuestEval", "FLU").value == pytest.approx(100 * found.value)
    assert cell_of(made, "QuestEval", "FLU").n_contexts == found.n_contexts


def test_levels_that_a_column_names_are_its_own():
    ratings = made_up("podcast", n_systems=5)
    made = make_table("ca2", {"podcast": ratings}, {}, methods={"MQAG": "length"})
    scores, human = method("length")(ratings, "overall", Tools()).values, ratings.human("overall")
    for column, level in (("System-lvl", "system"), ("Summary-lvl", "per_context")):
        found = agreement(scores, human, ratings.context_ids, ratings.systems, level=level)
        assert cell_of(made, "MQAG", column).value == pytest.approx(100 * found.value)


def test_contexts_with_equal_scores_count_as_the_papers_code_counts_them(tmp_path):
    ratings = made_up("summeval")
    rows = [
        {"id": text.id, "score": 1.0 if text.context_id == "summeval-0" else float(text.text[8])} for text in ratings
    ]
    (tmp_path / "scores.jsonl").write_text("\n".join(map(json.dumps, rows)))
    bench = Bench({"summeval": ratings}, {})
    ask = {"measure": "agreement", "method": f"file:{tmp_path / 'scores.jsonl'}", "level": "per_context"}
    found = {
        policy: bench.figure(ask | {"statistic": "spearman", "nan_policy": policy}, [("summeval", "fluency")])
        for policy in ("zero", "skip", "unknown")
    }
    assert found["zero"].value == found["unknown"].value == pytest.approx(found["skip"].value * 3 / 4)
    assert [each.n_contexts for each in found.values()] == [4, 3, 4]


def test_a_mean_rests_on_as_many_contexts_as_the_attribute_with_the_fewest():
    ratings = made_up("summeval")
    texts = tuple(
        replace(text, human={**text.human, "fluency": 3.0}) if text.context_id == "summeval-0" else text
        for text in ratings
    )
    made = make_table(
        "ds1", {"summeval": replace(ratings, texts=texts)}, {}, methods={"GPTScore": "length", **LOADS_A_MODEL}
    )
    assert [cell_of(made, "GPTScore", f"summeval/{name}").n_contexts for name in ("COH", "FLU", "AVG")] == [4, 3, 3]


def test_axes_are_rank_correlations_of_people_with_people_inside_contexts():
    ratings = made_up("newsroom")
    made = make_table("ds6", {"newsroom": ratings}, {})
    one, other = (ratings.human(name).reshape(N_CONTEXTS, N_SYSTEMS) for name in ("informativeness", "coherence"))
    expected = np.mean([spearmanr(*rows).statistic for rows in zip(one, other, strict=True)])
    assert cell_of(made, "INF", "COH").value == pytest.approx(expected)
    assert cell_of(made, "COH", "INF").value == pytest.approx(expected)
    assert cell_of(made, "REL", "REL").value == pytest.approx(1.0)


def test_axes_are_the_same_both_ways_where_ratings_of_a_context_are_equal():
    ratings = made_up("newsroom")
    texts = tuple(
        replace(t, human={**t.human, "fluency": 1.0}) if t.context_id[-1] == "0" else t for t in ratings.texts
    )
    made = make_table("ds6", {"newsroom": replace(ratings, texts=texts)}, {})
    assert cell_of(made, "FLU", "COH").value == cell_of(made, "COH", "FLU").value
    assert cell_of(made, "FLU", "COH").left_out == {"contexts without two different ratings, or scores": 1}


def test_a_judge_that_always_takes_the_first_text_has_p_a_of_one_and_one_that_never_does_of_zero():
    ratings = {"summeval": made_up("summeval")}
    models = {"FlanT5-3B": model(50.0), "FlanT5-11B": model(-50.0), "Llama2-chat-7B": model()}
    made = make_table("ca5", ratings, models)
    assert cell_values(made.lines[0]) == [1.0] * 4
    assert cell_values(made.lines[2]) == [0.0] * 4
    assert cell_values(made.lines[4]) == [0.5] * 4


def test_p_a_is_the_share_of_all_calls_of_all_contexts():
    ratings = made_up("summeval", n_contexts=2, empty=[(0, 0)])  # 3 texts have 6 calls, 4 have 12
    said = {"summeval-0": 1.0, "summeval-1": 0.0}
    engine = FakeEngine(
        lambda p, _: np.log([0.9, 0.1] if said[f"summeval-{'1' if 'Context 1.' in p.text else '0'}"] else [0.1, 0.9])
    )
    made = make_table("ca5", {"summeval": ratings}, {"FlanT5-3B": Tools(engine)})
    cell = cell_of(made, "FlanT5-3B/Prompt 1", "COH")
    assert cell.value == pytest.approx(6 / 18)
    assert (cell.low, cell.high) == pytest.approx((0.0, 1.0))  # two contexts that differ say nothing
    assert cell.left_out == {"texts not compared": 1}
    assert "Left out: texts not compared: 1 to 1 in each of 4 cells" in made.footnotes


def test_a_share_without_a_context_counts_the_calls_of_the_others():
    ratings = made_up("summeval", n_contexts=2, empty=[(0, 0)])
    engine = FakeEngine(lambda p, _: np.log([0.9, 0.1] if "Context 0." in p.text else [0.1, 0.9]))
    bench = Bench({"summeval": ratings}, {"m": Tools(engine)})
    found = bench.figure({"measure": "first_wins", "judge": "m"}, [("summeval", "coherence")])
    assert found.value == pytest.approx(6 / 18)
    assert found.without["summeval"].tolist() == [0, 1]
    assert 0 <= found.interval[0] < found.value < found.interval[1] <= 1


@pytest.mark.parametrize(("sign", "expected"), [(1.0, 100.0), (-1.0, 0.0)])
def test_a_perfect_judge_has_accuracy_100_and_its_opposite_0(sign, expected):
    ratings = {"summeval": made_up("summeval", noise=0.0)}
    made = make_table("ca7", ratings, {"FlanT5-3B": model(sign=sign)})
    assert cell_values(made.lines[0]) == [expected] * 4


def test_debiasing_makes_up_for_a_favour_for_the_first_text():
    ratings = {"summeval": made_up("summeval", noise=0.0)}
    made = make_table("ca7", ratings, {"FlanT5-3B": model(3.0)})
    assert cell_of(made, "FlanT5-3B/As asked", "COH").value < 90
    assert cell_of(made, "FlanT5-3B/Debiased", "COH").value == 100


def test_debiased_agreement_is_that_of_the_debiased_method():
    ratings = {name: made_up(name) for name in ("summeval", "topicalchat", "webnlg")}
    made = make_table("ca6", ratings, {"FlanT5-3B": model(4.0)})
    for row, debias in (("As asked", "none"), ("Debiased", "median")):
        wins = method(f"win-ratio:decisions=per_call,debias={debias}")
        scores = wins(ratings["webnlg"], "grammar", model(4.0)).values
        found = agreement(scores, ratings["webnlg"].human("grammar"), ratings["webnlg"].context_ids)
        assert cell_of(made, f"FlanT5-3B/{row}", "GRA").value == pytest.approx(100 * found.value)


def test_self_consistency_is_whole_where_all_texts_are_there():
    ratings = {"summeval": made_up("summeval", 2, 4, noise=0.0)}
    made = make_table("ca8", ratings, {"FlanT5-3B": model()}, n_draws=20)
    assert cell_of(made, "Final", "4").value == 100
    assert cell_of(made, "Gold", "4").value == 100
    assert cell_of(made, "Final", "6").missing[0] == "InputError:"


def test_self_consistency_with_people_is_that_of_pairs_where_all_texts_are_there():
    ratings = {"summeval": made_up("summeval", noise=2.0)}
    made = make_table("ca8", ratings, {"FlanT5-3B": model()}, n_draws=20)
    accuracy = cell_of(make_table("ca7", ratings, {"FlanT5-3B": model()}), "FlanT5-3B/As asked", "COH")
    assert cell_of(made, "Final", "4").value == 100
    assert cell_of(made, "Gold", "4").value == pytest.approx(accuracy.value) != 100


def test_an_average_is_over_its_columns_and_so_is_its_interval():
    ratings = {name: made_up(name, 6, 5, noise=1.5) for name in ATTRIBUTES}
    line = make_table("ca6", ratings, {"FlanT5-3B": model(2.0)}).lines[0]
    assert line.cells[-1].value == pytest.approx(np.mean(cell_values(line)[:-1]))
    spans = [cell.high - cell.low for cell in line.cells]
    assert 0 < spans[-1] < np.mean(spans[:-1])


def test_averages_over_attributes_leave_out_the_same_contexts():
    ratings = made_up("summeval", n_contexts=8)
    same = replace(
        ratings,
        texts=tuple(replace(t, human=dict.fromkeys(t.human, t.human["coherence"])) for t in ratings.texts),
    )
    made = make_table("ds1", {"summeval": same}, {}, methods={"GPTScore": "length", **LOADS_A_MODEL})
    one, mean = (cell_of(made, "GPTScore", f"summeval/{name}") for name in ("COH", "AVG"))
    assert (one.low, one.high) == pytest.approx((mean.low, mean.high))


def test_trials_with_other_seeds_have_a_mean_and_a_spread():
    ratings = {"summeval": made_up("summeval")}
    bench = Bench(ratings, {"m": model(references=ladders(ratings, 5))})
    ask = {"measure": "agreement", "judge": "m", "level": "per_context", "statistic": "spearman", "nan_policy": "zero"}
    found = bench.figure(ask | {"method": "ladder:samples=1", "trials": 3}, [("summeval", "coherence")])
    alone = [
        bench.figure(ask | {"method": f"ladder:samples=1,seed={seed}"}, [("summeval", "coherence")])
        for seed in range(3)
    ]
    assert found.draws.tolist() == [each.value for each in alone]
    assert found.sd == pytest.approx(np.std([each.value for each in alone], ddof=1))
    assert found.sd > 0
    assert alone[0].sd is None


def test_more_rungs_than_the_ladders_have_leave_the_cell_empty():
    ratings = {"summeval": made_up("summeval", 2, 3)}
    bench = Bench(ratings, {"m": model(references=ladders(ratings, 5))})
    with pytest.raises(MethodError, match="cannot take 9 rungs"):
        bench.scores("ladder:n_rungs=9", bench.models["m"], ("summeval", "coherence"))


def test_two_prompts_have_rows_of_their_own_or_are_averaged(tmp_path):
    ratings = {"summeval": made_up("summeval")}
    favours = FakeEngine(lambda p, _: judge(50.0 if "Verdict:" in p.text else -50.0)(p, _))
    default_only = make_table("ca5", ratings, {"FlanT5-3B": Tools(favours)})
    assert cell_of(default_only, "FlanT5-3B/Prompt 2", "COH").missing == ("no template set is given for", "prompt 2")
    for prompts, expected in ((("default", "paper"), [1.0, 0.0]), (("paper", "default"), [0.0, 1.0])):
        both = make_table("ca5", ratings, {"FlanT5-3B": Tools(favours)}, prompts=prompts)
        assert [cell_of(both, f"FlanT5-3B/Prompt {n}", "COH").value for n in (1, 2)] == expected


def test_where_the_paper_averages_over_prompts_so_does_the_table():
    ratings = {"summeval": made_up("summeval", noise=0.0)}
    right_by_default = FakeEngine(lambda p, _: judge(sign=1.0 if "Verdict:" in p.text else -1.0)(p, _))
    for prompts, expected in (
        (["default"], 100),
        (["paper"], 0),
        (["default", "paper"], 50),
        (["paper", "default"], 50),
    ):
        made = make_table("ca7", ratings, {"FlanT5-3B": Tools(right_by_default)}, prompts=prompts)
        assert cell_of(made, "FlanT5-3B/As asked", "COH").value == pytest.approx(expected)


def test_nothing_is_asked_twice_for_one_table():
    engine = FakeEngine(judge())
    make_table("ca7", {"summeval": made_up("summeval")}, {"FlanT5-3B": Tools(engine)})
    assert engine.n_judged == 4 * N_CONTEXTS * N_SYSTEMS * (N_SYSTEMS - 1)


def test_calls_without_an_answer_are_counted():
    ratings = made_up("summeval", n_contexts=2)

    def sometimes(prompt, labels):
        if "Context 0." in prompt.text and qualities(prompt)[0] > qualities(prompt)[1]:
            raise ValueError("no answer")
        return judge()(prompt, labels)

    made = make_table("ca7", {"summeval": ratings}, {"FlanT5-3B": Tools(FakeEngine(sometimes))})
    assert made.lines[0].cells[0].left_out == {"calls without an answer": 6}
    assert "Left out: calls without an answer: 6 to 6 in each of 8 cells" in made.footnotes


def test_what_is_left_out_is_said_from_the_least_to_the_most_of_a_cell():
    def sometimes(prompt, labels):
        if any(
            f"Context {c}." in prompt.text and name in prompt.text for c, name in ((0, "Coh"), (0, "Flu"), (1, "Flu"))
        ):
            raise ValueError("no answer")
        return judge()(prompt, labels)

    made = make_table("ca5", {"summeval": made_up("summeval")}, {"FlanT5-3B": Tools(FakeEngine(sometimes))})
    assert "Left out: calls without an answer: 12 to 24 in each of 2 cells" in made.footnotes


def test_texts_without_a_score_are_counted():
    ratings = made_up("summeval", empty=[(1, 1), (2, 3)])
    made = make_table("ca1", {"summeval": ratings}, {"FlanT5-3B": model()})
    assert cell_of(made, "G-Eval/FlanT5-3B", "COH").left_out == {"texts without a score": 2}


def test_texts_without_a_verdict_on_some_rung_have_no_score_and_are_counted():
    ratings = {"summeval": made_up("summeval")}

    def sometimes(prompt, labels):
        if "Context 1." in prompt.text and "Rung <0.0>" in prompt.text:
            raise ValueError("no answer")
        return judge()(prompt, labels)

    tools = Tools(FakeEngine(sometimes), ladders(ratings, 5))
    made = make_table("ds3", ratings, {"Llama-3-8B": tools})
    assert cell_of(made, "Judge/Llama-3-8B", "Ours").left_out == {
        "contexts without two different ratings, or scores": 4,
        "texts without a score": 4 * N_SYSTEMS,
    }


def test_a_context_without_any_answer_takes_no_part_in_a_share():
    def sometimes(prompt, labels):
        if "Context 0." in prompt.text:
            raise ValueError("no answer")
        return judge(50.0)(prompt, labels)

    made = make_table("ca5", {"summeval": made_up("summeval")}, {"FlanT5-3B": Tools(FakeEngine(sometimes))})
    cell = cell_of(made, "FlanT5-3B/Prompt 1", "COH")
    assert (cell.value, cell.n_contexts) == (1.0, N_CONTEXTS - 1)
    assert cell.left_out == {"calls without an answer": N_SYSTEMS * (N_SYSTEMS - 1)}


# ------------------------------------------------------------------------------------------------- fewer calls


@pytest.mark.slow
def test_with_all_calls_a_curve_is_the_agreement_of_the_method():
    ratings = {"summeval": made_up("summeval", 3, 6)}
    made = make_table("poe5", ratings, {"FlanT5-3B": model(1.0)}, n_draws=3)
    found = [
        agreement(
            method("average-probability")(ratings["summeval"], attribute, model(1.0)).values,
            ratings["summeval"].human(attribute),
            ratings["summeval"].context_ids,
        ).value
        for attribute in ratings["summeval"].attributes
    ]
    cell = cell_of(made, "FlanT5-3B/240", "avg-prob")
    assert cell.value == pytest.approx(100 * np.mean(found))
    assert cell.sd is None
    of = published("poe5")
    (row,) = (row for row in of.rows if "FlanT5-3B/48" in row.names)
    bench = Bench(ratings, {"FlanT5-3B": model(1.0)}, n_draws=3)
    fewer = bench.figure(of.ask(row, of.columns[0]), of.columns[0].of)
    assert cell_of(made, "FlanT5-3B/48", "win-ratio").sd == pytest.approx(100 * fewer.sd)
    assert fewer.sd > 0


def test_a_curve_is_the_mean_of_its_draws_with_their_spread():
    ratings = made_up("summeval")
    bench = Bench({"summeval": ratings}, {"m": model(1.0)})
    ask = {"measure": "curve", "judge": "m", "method": "win-ratio", "calls": "2N", "design": "symmetric", "draws": 7}
    found = bench.figure(
        ask | {"level": "per_context", "statistic": "pearson", "nan_policy": "skip"}, [("summeval", "fluency")]
    )
    assert found.draws.shape == (7,)
    assert len(set(found.draws.tolist())) > 1
    assert found.value == pytest.approx(found.draws.mean())
    assert found.sd == pytest.approx(found.draws.std(ddof=1))
    assert found.without["summeval"].shape == (len(set(ratings.context_ids)),)


@pytest.mark.slow
def test_at_all_calls_methods_that_count_wins_are_equal_and_ties_stay_ties():
    ratings = {"summeval": made_up("summeval", 8, 8, noise=2.0)}
    unsure = FakeEngine(lambda p, _: judge()(p, _) if sum(qualities(p)) % 3 else np.log([0.5, 0.5]))
    made = make_table("poe5", ratings, {"FlanT5-3B": Tools(unsure)}, n_draws=2)
    wins, squares = (cell_of(made, "FlanT5-3B/240", column).value for column in ("win-ratio", "PoE-g-hard"))
    assert wins == pytest.approx(squares, abs=1e-9)


def test_rankings_that_fail_are_counted_and_left_out():
    ratings = {"summeval": made_up("summeval", 3)}
    certain = FakeEngine(
        lambda p, _: (
            [0.0, -np.inf][:: 1 if np.diff(qualities(p)) < 0 else -1] if "Context 0." in p.text else judge()(p, _)
        )
    )
    made = make_table("poe1", ratings, {"FlanT5-3B": Tools(certain)}, n_draws=3)
    cell = cell_of(made, "FlanT5-3B/48", "PoE-BT")
    assert cell.left_out["rankings that failed, of all draws"] == 4 * 3  # attributes, draws
    assert cell.n_contexts == 2
    assert cell_of(made, "FlanT5-3B/48", "PoE-g").n_contexts == 3


def test_all_methods_see_the_same_draws_and_attributes_different_ones():
    bench = Bench({"summeval": made_up("summeval", 2, 6)}, {"m": model(1.0)}, n_draws=4)
    ask = {"measure": "curve", "judge": "m", "calls": "3N", "design": "symmetric", "level": "per_context"}
    ask |= {"statistic": "spearman", "nan_policy": "skip"}
    for name in ("poe-bt", "poe-g"):
        bench.figure(ask | {"method": name}, [("summeval", "fluency"), ("summeval", "coherence")])
    drawn = [value for key, value in bench._kept.items() if key[0] == "drawn"]
    assert len(drawn) == 2
    assert any((one != other).any() for one, other in zip(drawn[0][0], drawn[1][0], strict=True))


def test_where_all_texts_are_one_problem_only_so_many_calls_are_asked():
    engine = FakeEngine(judge())
    bench = Bench({"hanna": made_up("hanna", 3, 4)}, {"m": Tools(engine)})
    calls = bench.calls(Tools(engine), ("hanna", "surprise"), most=60)
    assert [len(each) for each in calls.problems] == [60] == [engine.n_judged]
    assert calls.problems[0].n_candidates == 12


def test_a_sort_of_all_texts_as_one_problem_compares_texts_of_different_contexts():
    engine = FakeEngine(judge())
    bench = Bench({"hanna": made_up("hanna", 2, 3)}, {"m": Tools(engine)})
    ask = {"measure": "agreement", "judge": "m", "method": "pairs-beam", "statistic": "spearman", "nan_policy": "zero"}
    bench.figure(ask | {"level": "per_context"}, [("hanna", "surprise")])
    assert not [prompt for prompt in engine.judged if "Context 0." in prompt.text and "Context 1." in prompt.text]
    bench.figure(ask | {"level": "pooled"}, [("hanna", "surprise")])
    assert [prompt for prompt in engine.judged if "Context 0." in prompt.text and "Context 1." in prompt.text]


def test_a_budget_that_is_more_than_all_calls_leaves_the_cell_empty():
    made = make_table("poe3", {"hanna": made_up("hanna", 3, 4)}, {"Llama2-7B": model()}, n_draws=2)
    assert cell_of(made, "Llama2-7B/5N", "hanna/COH PoE-BT").value is not None
    missing = cell_of(made, "Llama2-7B/50N", "hanna/COH PoE-BT").missing
    assert missing[0] == "InputError:"
    assert missing[1].startswith("cannot draw 50N = 600 calls about 12 texts")


# ------------------------------------------------------------------------------------------------- rows


def test_a_model_of_the_paper_is_measured_in_its_rows_and_another_gets_rows_like_them():
    ratings = {"summeval": made_up("summeval")}
    made = make_table("ca1", ratings, {"google/flan-t5-xl": model(), "nano": model()})
    compared = [line.row.name for line in made.lines if line.row.section == "Comparative assessment"]
    assert compared == [*(r.name for r in published("ca1").rows if r.section == "Comparative assessment"), "nano"]
    sections = [line.row.section for line in made.lines]
    assert [one for one, other in zip(sections, [*sections[1:], ""], strict=True) if one != other] == [
        "Other metrics",
        "Prompt scoring",
        "G-Eval",
        "Comparative assessment",
    ]
    assert cell_of(made, "Comparative assessment/FlanT5-3B", "COH").published == 51.2
    assert cell_of(made, "Comparative assessment/FlanT5-3B", "COH").value is not None
    assert cell_of(made, "Comparative assessment/nano", "COH").published is None
    assert [(line.row.section, line.row.name) for line in made.lines if line.row.ask.get("judge") == "nano"] == [
        ("Other metrics", "GPTScore nano"),  # and no row like UniEval's, which is a model of its own
        ("Prompt scoring", "nano"),
        ("G-Eval", "nano"),
        ("Comparative assessment", "nano"),
    ]


def test_rows_of_another_model_name_it_whatever_the_paper_puts_its_models_into():
    models = {"nano": model()}
    ours = {
        table: [
            (line.row.section, line.row.name)
            for line in make_table(table, {}, models).lines
            if line.row.ask.get("judge") == "nano"
        ]
        for table in ("ds1", "ds2", "ds3", "ca7", "poe1")
    }
    assert ours["ds1"] == [
        ("Other metrics", "GPTScore nano"),
        *[("nano", name) for name in ("ZEPO", "PairS-beam", "Direct Scoring", "G-Eval", "Ours")],
    ]
    assert ours["ds2"][0] == ("nano: Prediction", "Sample, n = 1")
    assert ours["ds3"] == [("Judge", "nano")]
    assert ours["ca7"] == [("nano", "As asked"), ("nano", "Debiased")]
    assert ours["poe1"] == [("nano", "3N"), ("nano", "all")]


def test_where_the_paper_names_no_model_each_model_has_a_row_also_those_that_it_has_elsewhere():
    ratings = {"newsroom": made_up("newsroom")}
    models = {"nano": model(), "meta-llama/Meta-Llama-3-8B-Instruct": model()}
    made = make_table("ds4", ratings, models, methods=LOADS_A_MODEL)
    unnamed = [line for line in made.lines if line.row.name.startswith("GPTScore")]
    assert [line.row.name for line in unnamed] == ["GPTScore", "GPTScore nano", "GPTScore Llama-3-8B"]
    assert [cell.text() for cell in unnamed[0].cells][:2] == ["- (0.31)", "- (0.35)"]
    assert any(
        note.startswith("Not measured: which model was asked is not stated") and note.endswith(": gptscore")
        for note in made.footnotes
    )
    scores = method("gptscore")(ratings["newsroom"], "coherence", model())
    found = agreement(scores.values, ratings["newsroom"].human("coherence"), ratings["newsroom"].context_ids)
    assert [cell_of(made, line.row.name, "COH").value for line in unnamed[1:]] == pytest.approx([found.value] * 2)
    assert made.to_json()["rows"][2]["judge"] is None


def test_a_model_without_probabilities_of_tokens_has_a_dash_and_the_reason():
    class Mute(FakeEngine):
        def answer_alike(self, questions, progress):
            if questions[0].kind == "tokens":
                raise EngineError("it does not report how probable a text is")
            return super().answer_alike(questions, progress)

    made = make_table("ds1", {"summeval": made_up("summeval")}, {"nano": Tools(Mute(judge()))}, methods=LOADS_A_MODEL)
    assert cell_of(made, "GPTScore nano", "summeval/COH").text() == "-"
    (why,) = [note for note in made.footnotes if "how probable a text is" in note]
    assert why.startswith("Not measured (GPTScore nano COH and 4 more): ")


def test_a_method_of_ones_own_is_put_into_rows_of_any_model():
    ratings = {"summeval": made_up("summeval")}
    spec = "prompt-scoring:temperature=1,max_new_tokens=5"
    made = make_table("ca1", ratings, {"nano": model()}, methods={"Prompt scoring/nano": spec})
    (line,) = [line for line in made.lines if line.row.section == "Prompt scoring" and line.row.name == "nano"]
    assert (line.row.ask["method"], line.row.ask["judge"]) == (spec, "nano")
    assert all(value is not None for value in cell_values(line))
    assert "Added" not in [line.row.section for line in made.lines]


def test_the_most_probable_order_stands_beside_win_ratios():
    ratings = {"summeval": made_up("summeval", noise=2.0)}
    made = make_table("ca11", ratings, {"FlanT5-3B": model(2.0)})
    for row, spec in (("Win-loss", "win-ratio:decisions=per_call"), ("Likelihood", "likelihood")):
        scores = method(spec)(ratings["summeval"], "relevance", model(2.0)).values
        found = agreement(scores, ratings["summeval"].human("relevance"), ratings["summeval"].context_ids)
        assert cell_of(made, f"FlanT5-3B/{row}", "REL").value == pytest.approx(100 * found.value)


def test_accuracy_on_all_benchmarks_is_that_of_each():
    ratings = {name: made_up(name, noise=2.0) for name in ("summeval", "topicalchat", "webnlg", "podcast")}
    made = make_table("ca10", ratings, {"Llama2-chat-7B": model()})
    assert all(cell.value is not None for cell in made.lines[4].cells)
    calls = Bench(ratings, {}).calls(model(), ("webnlg", "grammar"))
    human = ratings["webnlg"].human("grammar")
    right = [
        (calls_of.decisions[k] > 0.5) == (human[rows][i] > human[rows][j])
        for calls_of, rows in zip(calls.problems, calls.rows, strict=True)
        for k, (i, j) in enumerate(zip(calls_of.first, calls_of.second, strict=True))
        if human[rows][i] != human[rows][j]
    ]
    assert cell_of(made, "Llama2-chat-7B/As asked", "webnlg/GRA").value == pytest.approx(100 * np.mean(right))
    assert "podcast OVE" in made.to_markdown()


def test_ladders_of_other_writers_are_judged_by_the_papers_judge_or_the_first_model():
    ratings = {"summeval": made_up("summeval", noise=0.0)}
    held = ladders(ratings, 5)
    for models in ({"nano": model(sign=-1.0), "Llama-3-8B": model()}, {"nano": model()}):
        made = make_table("ds3", ratings, models, writers={"ours": held, "OLMo-2-7B": held})
        assert cell_of(made, "Writer of the ladders/ours", "Ours").value > 0.5
        assert cell_of(made, "Writer of the ladders/ours", "Direct").value is None
        papers = cell_of(made, "Writer of the ladders/OLMo-2-7B", "Ours")
        assert (papers.value is None) == ("Llama-3-8B" not in models)
    assert "Not measured: no ladders are given by Mistral-v0.1-7B" not in " ".join(made.footnotes)


def test_methods_can_be_put_in_rows_and_rows_added():
    ratings = {"summeval": made_up("summeval")}
    made = make_table("ca1", ratings, {}, methods={"QuestEval": "overlap", "length": "length"})
    assert cell_of(made, "QuestEval", "COH").published == 18.2
    assert cell_of(made, "QuestEval", "COH").value is not None
    assert made.lines[-1].row.section == "Added"
    assert cell_of(made, "length", "COH").published is None


@pytest.mark.parametrize("table", ["ca5", "poe1", "ds3"])
def test_a_table_whose_rows_are_no_methods_takes_no_new_one(table):
    with pytest.raises(InputError, match="cannot add the row 'length'"):
        make_table(table, {}, {}, methods={"length": "length"})


# ------------------------------------------------------------------------------------------------- as text


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (Cell(0.443, 0.402, 0.484, published=0.46), "0.44 [0.40, 0.48] (0.46)"),
        (Cell(0.443, 0.402, 0.484, published=0.5), "0.44 [0.40, 0.48] (0.50*)"),
        (Cell(4.3, 4.2, 4.4, sd=0.61, published=4, published_sd=0.7, decimals=1), "4.3 ± 0.6 [4.2, 4.4] (4.0 ± 0.7*)"),
        (Cell(0.443, published=0.46), "0.44 (0.46)"),
        (Cell(published=0.46), "(0.46)"),
        (Cell(0.443, 0.402, 0.484), "0.44 [0.40, 0.48]"),
        (Cell(missing=("no model is given as", "x")), "-"),
        (Cell(published=0.46, missing=("no model is given as", "x")), "- (0.46)"),
    ],
)  # fmt: skip
def test_a_cell_shows_what_it_has(cell, text):
    assert cell.text() == text


def test_a_published_figure_counts_as_rounded():
    assert Cell(0.44, 0.40, 0.484, published=0.49).within is False
    assert Cell(0.44, 0.40, 0.485, published=0.49).within is True
    assert Cell(0.44, 0.495, 0.6, published=0.49).within is True
    assert Cell(0.44, 0.4951, 0.6, published=0.49).within is False


def test_notes_stand_beside_their_figures_and_below_the_table():
    text = make_table("ca1", {}, {}).to_markdown()
    assert "| FlanT5-220M | - (4.0 c) |" in text
    assert "| QuestEval | (18.2) |" in text
    assert re.search(r"^- c: Equal to the row of prompt scoring", text, re.MULTILINE)
    assert "| FlanT5-770M | - (29.8) |" in text
    assert "\n- Rows of prompt scoring and comparative assessment are means over two prompts.\n" in text


def test_a_cell_without_a_published_figure_has_no_notes_about_one():
    cells = make_table("ds1", {}, {}).to_json()["rows"][2]["cells"]  # GPTScore has none on TopicalChat
    assert [len(cell["notes"]) for cell in cells] == [1] * 5 + [0] * 4 + [1] * 4


def test_columns_name_their_benchmark_where_there_are_several():
    assert "| summeval COH |" in make_table("ds1", {}, {}).to_markdown()
    assert "summeval" not in make_table("ca7", {}, {}).to_markdown().split("\n\n")[2]


def test_the_legend_names_the_level_as_the_paper_does():
    assert "per_context (there: sample-level)" in make_table("ds1", {}, {}).legend
    assert (
        "system (there: system-level) and per_context (there: summary-level, context-level)"
        in make_table("ca2", {}, {}).legend
    )
    assert "pooled;" in make_table("poe3", {}, {}).legend
    assert "Spearman" not in make_table("ca5", {}, {}).legend


def test_markdown_and_json_hold_the_same_figures():
    made = make_table("ca7", {"summeval": made_up("summeval")}, {"FlanT5-3B": model()})
    cell = cell_of(made, "FlanT5-3B/Debiased", "REL")
    assert f"| Debiased | {' | '.join(c.text() for c in made.lines[1].cells)} |" in made.to_markdown()
    row = made.to_json()["rows"][1]
    assert (row["section"], row["name"], row["judge"]) == ("FlanT5-3B", "Debiased", "FlanT5-3B")
    assert row["cells"][3]["value"] == cell.value
    assert row["cells"][3]["within"] is cell.within
    assert row["cells"][3]["published"] == 67.8


# ------------------------------------------------------------------------------------------------- parts


def test_options_are_added_to_a_method_with_and_without_some():
    assert with_options("win-ratio", debias="median") == "win-ratio:debias=median"
    assert with_options("ladder:samples=3", seed=1) == "ladder:samples=3,seed=1"


def test_one_context_has_no_interval():
    assert Figure(np.array([0.5]), {"summeval": np.array([np.nan, np.nan])}, 1).interval is None
    low, high = Figure(np.array([0.5]), {"summeval": np.array([0.4, 0.6])}, 2).interval
    assert -1 < low < 0.5 < high < 1
