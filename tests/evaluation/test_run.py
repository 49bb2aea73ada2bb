"""Methods compared with people: figures, contrasts, JSON, and the folder of a run."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthscore.errors import InputError, TemplateError
from synthscore.evaluation import Evaluation, FigureKey, Mean, Settings, evaluate
from synthscore.evaluation.agreement import agreement, even_split
from synthscore.evaluation.methods import MethodError
from synthscore.evaluation.people import reliability
from synthscore.evaluation.ratings import RatedText, Ratings
from synthscore.io.scores import Scores
from synthscore.signature import Signature
from synthscore.types import Context, Score, Verdict

N_CONTEXTS, N_SYSTEMS = 6, 5
ATTRIBUTES = ("coherence", "fluency")


def made_up(people=("coherence",), seed=0, **fields) -> Ratings:
    """30 texts with random ratings; single people's on some attributes."""
    rng = np.random.default_rng(seed)
    texts = []
    for c in range(N_CONTEXTS):
        for s in range(N_SYSTEMS):
            single = {a: tuple(rng.integers(1, 6, 3).astype(float).tolist()) for a in ATTRIBUTES}
            human = {a: sum(said) / 3 for a, said in single.items()}
            annotators = {a: single[a] for a in people}
            texts.append(RatedText(f"c{c}/s{s}", f"c{c}", f"s{s}", f"Text {c} {s}.", human, annotators))
    contexts = {f"c{c}": Context(f"c{c}", f"An article, c{c}.") for c in range(N_CONTEXTS)}
    made = {"name": "toy", "texts": tuple(texts), "attributes": ATTRIBUTES, "contexts": contexts}
    return Ratings(**(made | {"task": "summarization", "source": "toy@1", "left_out": ("2 texts: lost",)} | fields))


class Made:
    """A method of a function of (text, attribute) -> number, or the reason why there is none; counts its calls."""

    def __init__(self, of, signature="method:made|seed:1"):
        self.of, self.signature, self.calls = of, signature, []

    def __call__(self, ratings, attribute, tools):
        self.calls.append(attribute)
        rows = []
        for text in ratings:
            value = self.of(text, attribute)
            if isinstance(value, Score):
                rows.append(value)
            elif isinstance(value, str):
                rows.append(Score(text.id, text.context_id, attribute, None, status="unscored", reason=value))
            else:
                rows.append(Score(text.id, text.context_id, attribute, value))
        return Scores(tuple(rows), Signature.parse(self.signature))


def perfect(text, attribute):
    return text.human[attribute]


def reversed_(text, attribute):
    return -text.human[attribute]


def by_hash(text, attribute):
    """Nothing that people see, and different everywhere."""
    return float(np.random.default_rng([ord(c) for c in text.id + attribute]).random())


def made(**functions):
    return {name: Made(function) for name, function in functions.items()}


# ------------------------------------------------------------------------------------------------- figures


def test_a_perfect_method_agrees_fully_and_its_opposite_not_at_all():
    found = evaluate(made_up(), made(good=perfect, bad=reversed_))
    for place, figure in found.agreements.items():
        opposite = 0 if place.statistic == "auc" else -1
        assert figure.value == pytest.approx(1 if place.method == "good" else opposite)
        assert (figure.low, figure.high) == pytest.approx((figure.value, figure.value))


def test_every_figure_is_that_of_synthscore_agreement():
    ratings = made_up()
    found = evaluate(ratings, made(hash=by_hash))
    for place, figure in found.agreements.items():
        values, human = [by_hash(text, place.attribute) for text in ratings], ratings.human(place.attribute)
        how = {"statistic": place.statistic}
        if place.statistic == "auc":
            how = {"good_from": even_split(human)}
        assert figure == agreement(values, human, ratings.context_ids, ratings.systems, level=place.level, **how)
    assert len(found.agreements) == 2 * (3 * 3 + 1)
    assert found.to_json()["good_from"] == {name: even_split(ratings.human(name)) for name in ATTRIBUTES}
    assert (
        found.find_agreement("hash", "fluency")
        is found.agreements[FigureKey("hash", "fluency", "per_context", "spearman")]
    )


@pytest.mark.parametrize("good_from", [0.0, None])
def test_texts_are_good_from_a_rating_of_0_as_from_any_other(good_from):
    texts = []
    for number, text in enumerate(made_up(people=())):
        rating = (0.0, -1.0)[number % 2]
        texts.append(replace(text, human=dict.fromkeys(ATTRIBUTES, rating)))
    ratings = made_up(people=(), texts=tuple(texts))
    found = evaluate(ratings, made(good=perfect), settings=Settings(good_from=good_from))
    assert found.good_from == dict.fromkeys(ATTRIBUTES, 0.0)
    assert found.find_agreement("good", "fluency", "pooled", "auc").value == 1.0


def test_the_mean_is_that_of_the_attributes_and_its_interval_leaves_out_the_same_contexts():
    ratings = made_up()
    whole = evaluate(ratings, made(hash=by_hash))
    mean = whole.means["hash", "pooled", "kendall"]
    assert mean.value == pytest.approx(
        np.mean([whole.find_agreement("hash", a, "pooled", "kendall").value for a in ATTRIBUTES])
    )
    assert mean.low < mean.value < mean.high
    one = evaluate(ratings, made(hash=by_hash), attributes=["fluency"])
    figure = one.find_agreement("hash", "fluency", "pooled", "kendall")
    assert one.means["hash", "pooled", "kendall"] == Mean(figure.value, figure.low, figure.high)
    assert mean.high - mean.low < figure.high - figure.low  # two attributes with errors of their own


def test_a_mean_over_an_attribute_without_a_figure_is_none():
    constant = {"coherence": 3.0}
    ratings = made_up()
    ratings = replace(ratings, texts=tuple(replace(t, human=dict(t.human) | constant) for t in ratings))
    found = evaluate(ratings, made(hash=by_hash))
    assert np.isnan(found.find_agreement("hash", "coherence").value)
    assert np.isnan(found.means["hash", "per_context", "spearman"].value)
    assert found.means["hash", "per_context", "spearman"].low is None


def test_contrasts_are_of_every_other_method_with_the_one_named_and_corrected_together():
    methods = made(good=perfect, bad=reversed_, hash=by_hash, twin=perfect)
    found = evaluate(made_up(), methods, against="good", statistics=["spearman"])
    assert len(found.contrasts) == 3 * 2 * (3 + 1)
    assert not any(place.method == "good" for place in found.contrasts)
    bad = found.contrasts[FigureKey("bad", "fluency", "per_context", "spearman")]
    assert (bad.value, bad.low, bad.high) == pytest.approx((-2, -2, -2))
    twin = found.contrasts[FigureKey("twin", "fluency", "per_context", "spearman")]
    assert (twin.value, twin.p, twin.p_holm) == (0, 1, 1)
    for each in found.contrasts.values():
        if each.p is not None:
            assert each.p <= each.p_holm
    as_json = found.to_json()["contrasts"]
    assert [each["p_holm"] for each in as_json] == [each.p_holm for each in found.contrasts.values()]
    smallest = 2 / 2**6  # of six contexts
    assert bad.p == pytest.approx(smallest)
    assert bad.p_holm == pytest.approx(smallest * 6)  # three methods, two attributes
    assert not evaluate(made_up(), methods).contrasts


def test_a_method_that_is_not_there_is_no_baseline_and_nothing_is_run():
    methods = made(good=perfect)
    with pytest.raises(MethodError, match=r"'better', expected one of them: good"):
        evaluate(made_up(), methods, against="better")
    assert not methods["good"].calls


def test_people_are_compared_with_each_other_where_their_single_ratings_are_known():
    ratings = made_up(people=("coherence",))
    found = evaluate(ratings, made(good=perfect), levels=["pooled"], statistics=["pearson"])
    assert set(found.people) == {("coherence", "pooled", "pearson")}
    here = found.people["coherence", "pooled", "pearson"]
    assert here == reliability(ratings, "coherence", level="pooled", statistic="pearson")
    single = {"coherence": (3.0,)}
    alone = replace(ratings, texts=tuple(replace(text, annotators=single) for text in ratings))
    assert not evaluate(alone, made(good=perfect)).people


@settings(max_examples=15)
@given(st.integers(0, 2**32 - 1), st.floats(0.1, 5), st.floats(-3, 3))
def test_an_increasing_map_of_the_scores_changes_no_rank_correlation(seed, scale, shift):
    ratings = made_up(seed=seed)
    methods = made(hash=by_hash, mapped=lambda text, a: float(np.exp(scale * by_hash(text, a)) + shift))
    how = {"levels": ["per_context", "pooled"], "statistics": ["spearman", "kendall"]}
    found = evaluate(ratings, methods, **how)
    for place, figure in found.agreements.items():
        assert figure.value == pytest.approx(found.agreements[place._replace(method="hash")].value, abs=1e-12)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"levels": ["per_text"]}, "level is 'per_text', expected one of per_context, pooled, system"),
        ({"levels": []}, "level is ''"),
        ({"statistics": ["cosine"]}, "statistic is 'cosine'"),
    ],
)
def test_settings_that_make_no_sense_are_refused_before_anything_is_run(how, message):
    with pytest.raises(InputError, match=message):
        Settings(**how)


def test_an_attribute_that_the_ratings_do_not_have_is_refused():
    with pytest.raises(InputError, match=r"have no attribute 'grace'\. They have: coherence, fluency"):
        evaluate(made_up(), made(good=perfect), attributes=["grace"])


# ------------------------------------------------------------------------------------------------- unscored


def test_a_method_that_can_score_nothing_says_why_and_the_others_go_on():
    def refuse(ratings, attribute, tools):
        raise TemplateError("there is no template") if attribute == "fluency" else MethodError("there is no judge")

    found = evaluate(made_up(), {"bad": refuse, **made(good=perfect)}, against="good")
    column = found.scores["bad", "fluency"]
    assert column.n_unscored == len(column) == 30
    assert {score.reason for score in column} == {"there is no template"}
    assert np.isnan(found.find_agreement("bad", "fluency").value)
    assert found.find_agreement("bad", "fluency").n_unscored == 30
    assert found.find_agreement("good", "fluency").value == pytest.approx(1)
    assert all(each.p_holm is None for each in found.contrasts.values())


def test_other_errors_stop_the_run():
    def broken(ratings, attribute, tools):
        raise InputError("two rows are about one text")

    with pytest.raises(InputError):
        evaluate(made_up(), {"broken": broken})


def test_texts_without_a_score_are_counted_and_their_reasons_kept():
    methods = made(some=lambda text, a: "it is empty" if text.system == "s0" else perfect(text, a))
    found = evaluate(made_up(), methods)
    column = found.scores["some", "coherence"]
    assert (column.n_unscored, {score.reason for score in column}) == (6, {"it is empty", ""})
    assert np.isnan(column.values).sum() == 6
    assert found.find_agreement("some", "coherence").n == 24
    assert found.to_json()["methods"]["some"]["counts"]["coherence"] == {"scored": 24, "partial": 0, "unscored": 6}


def test_scores_that_are_partial_are_used_and_counted():
    def some(text, attribute):
        row = Score(text.id, text.context_id, attribute, perfect(text, attribute), status="partial", reason="rung 3")
        return row if text.system == "s0" else perfect(text, attribute)

    found = evaluate(made_up(), made(some=some))
    assert found.find_agreement("some", "coherence").value == pytest.approx(1)
    assert found.to_json()["methods"]["some"]["counts"]["coherence"] == {"scored": 30, "partial": 6, "unscored": 0}


# ------------------------------------------------------------------------------------------------- JSON


def test_the_json_of_several_methods_has_method_attribute_level_statistic():
    found = evaluate(made_up(), made(good=perfect, hash=by_hash), against="good")
    said = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert list(said["methods"]) == ["good", "hash"]
    figure = said["methods"]["hash"]["attributes"]["coherence"]["system"]["kendall"]
    here = found.find_agreement("hash", "coherence", "system", "kendall")
    assert list(figure)[:4] == ["value", "low", "high", "n"]
    assert (figure["value"], figure["low"], figure["high"]) == (here.value, here.low, here.high)
    assert (figure["n"], figure["n_skipped"], figure["n_unscored"], figure["n_unrated"]) == (5, 0, 0, 0)
    assert said["methods"]["good"]["signature"] == dict.fromkeys(ATTRIBUTES, "method:made|seed:1")
    assert (
        said["methods"]["hash"]["mean"]["pooled"]["pearson"]["value"] == found.means["hash", "pooled", "pearson"].value
    )
    assert said["people"]["coherence"]["pooled"]["spearman"]["ceiling"] <= 1
    contrast = said["contrasts"][0]
    assert (contrast["method"], contrast["attribute"], contrast["level"]) == ("hash", "coherence", "per_context")
    assert {"value", "low", "high", "p", "p_holm", "n"} <= contrast.keys()
    assert said["settings"]["against"] == "good"
    assert (said["ratings"]["n_texts"], said["ratings"]["n_contexts"], said["ratings"]["n_systems"]) == (30, 6, 5)
    assert said["left_out"] == ["2 texts: lost"]


def test_a_figure_that_is_not_there_is_null():
    one = made_up()
    one = replace(one, texts=tuple(text for text in one if text.context_id == "c0" and text.system < "s2"))
    said = evaluate(one, made(hash=by_hash)).to_json()["methods"]["hash"]["attributes"]["coherence"]
    assert said["system"]["spearman"]["value"] is None
    assert "2 systems" in said["system"]["spearman"]["note"]
    assert said["pooled"]["spearman"]["low"] is None


def test_the_mean_over_attributes_of_one_context_has_no_interval():
    one = made_up()
    one = replace(one, texts=tuple(text for text in one if text.context_id == "c0"))
    found = evaluate(one, made(hash=by_hash)).means["hash", "per_context", "spearman"]
    assert not np.isnan(found.value)
    assert (found.low, found.high) == (None, None)


# ------------------------------------------------------------------------------------------------- the folder of a run


def saved(methods, tmp_path, ratings=None, **how):
    evaluate(ratings or made_up(), methods, **how).save(tmp_path)


def test_the_folder_holds_the_figures_and_what_is_there_already_is_replaced(tmp_path):
    saved(made(some=lambda text, a: "the server is down" if text.id == "c0/s0" else perfect(text, a)), tmp_path)
    again = evaluate(made_up(), made(some=perfect))
    again.save(tmp_path)
    assert json.loads((tmp_path / "evaluation.json").read_text(encoding="utf-8")) == again.to_json()
    assert '"unscored"' not in (tmp_path / "scores" / "some.jsonl").read_text(encoding="utf-8")


def test_methods_whose_names_are_no_file_names_have_files_of_their_own(tmp_path):
    names = ["g-eval:samples=2", "g-eval:samples:2", "zsum(a,b)", "file:a/b.jsonl", "x" * 300, "x" * 301]
    saved({name: Made(by_hash) for name in names}, tmp_path)
    files = list((tmp_path / "scores").iterdir())
    assert len(files) == len(names)
    rows = [json.loads(file.read_text(encoding="utf-8").splitlines()[0]) for file in files]
    assert {row["method"] for row in rows} == set(names)


def test_rows_of_scores_say_method_system_and_signature(tmp_path):
    saved(made(hash=by_hash), tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "scores" / "hash.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(rows) == 60
    row = rows[31]
    assert (row["method"], row["id"], row["context_id"], row["system"]) == ("hash", "c0/s1", "c0", "s1")
    assert (row["attribute"], row["status"], row["signature"]) == ("fluency", "ok", "method:made|seed:1")
    assert row["score"] == by_hash(made_up().texts[1], "fluency")


def test_verdicts_are_in_the_file_so_that_a_report_can_show_them(tmp_path):
    def judged(text, attribute):
        verdicts = (Verdict(1, False, 0.5, 0.25, 0.25),)
        return Score(text.id, text.context_id, attribute, perfect(text, attribute), verdicts=verdicts)

    saved(made(judged=judged), tmp_path)
    row = json.loads((tmp_path / "scores" / "judged.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert row["verdicts"] == [[1, False, 0.5, 0.25, 0.25]]


def test_the_ratings_of_a_run_can_be_read_again(tmp_path):
    context = Context("c0", "An article.", "A fact.", ("A reference.",))
    ratings = replace(made_up(), contexts={"c0": context})
    saved(made(hash=by_hash), tmp_path, ratings)
    again = Ratings.load(tmp_path / "ratings.jsonl", task="summarization")
    assert (again.texts, again.attributes, again.contexts) == (ratings.texts, ratings.attributes, ratings.contexts)


def test_an_evaluation_is_loaded_as_it_was_saved(tmp_path):
    methods = made(good=perfect, hash=by_hash, some=lambda text, a: "it is empty" if text.system == "s0" else 1.0)
    ratings = replace(made_up(), left_out=("2 texts: lost",))
    found = evaluate(ratings, methods, against="good", statistics=["spearman"])
    found.save(tmp_path)
    again = Evaluation.load(tmp_path)
    assert again.to_json() == found.to_json()
    assert again.scores == found.scores
    assert again.contrasts == found.contrasts
    assert again.find_agreement("hash", "fluency") == found.find_agreement("hash", "fluency")
    assert again.agreements == found.agreements
    assert again.ratings.texts == ratings.texts


def test_a_folder_that_no_evaluation_was_saved_to_is_refused(tmp_path):
    saved(made(hash=by_hash), tmp_path)
    for name in ("ratings.jsonl", "scores/hash.jsonl", "evaluation.json"):
        text = (tmp_path / name).read_text(encoding="utf-8")
        (tmp_path / name).unlink()
        with pytest.raises(InputError):
            Evaluation.load(tmp_path)
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "evaluation.json").write_text("{}", encoding="utf-8")
    with pytest.raises(InputError, match="not as `synthscore evaluate` writes it"):
        Evaluation.load(tmp_path)
