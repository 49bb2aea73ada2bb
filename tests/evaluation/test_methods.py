"""The registry of methods, our ladders as one of them, and methods that compare texts with each other."""

import subprocess
import sys

import numpy as np
import pytest

from synthscore import ranking
from synthscore.errors import TaskError
from synthscore.evaluation.methods import (
    METHODS,
    MethodError,
    MethodKind,
    Tools,
    comparing,
    floors,
    method,
    method_kinds,
    overlap_metrics,
    register_method,
    split_methods,
    uses,
)
from synthscore.evaluation.methods.base import scored, task_of
from synthscore.judging.asking import Asking
from synthscore.judging.templates import Templates, load_task
from synthscore.ranking import bradley_terry as newton
from synthscore.ranking.designs import all_pairs, greedy
from synthscore.ranking.judge import PairJudge, Problem
from synthscore.scoring.ladder import LadderMethod
from synthscore.scoring.methods.grading import Direct
from synthscore.scoring.paper import Paper
from synthscore.scoring.scorer import Scorer
from synthscore.signature import Signature
from synthscore.store.engine import StoredEngine
from synthscore.store.file import Store
from synthscore.types import Context, Target
from tests.factories import BEST_FIRST, QUALITIES, ladders, places, rated
from tests.fakes import CensoringEngine, FakeEngine, qualities, reading_judge

RANKINGS = [*ranking.METHODS]


def scores(spec, ratings=None, engine=None, references=None, attribute="coherence", templates="default"):
    tools = Tools(engine or FakeEngine(reading_judge()), references or ladders(), Asking(prompts=templates))
    return method(spec)(ratings or rated(), attribute, tools)


# ------------------------------------------------------------------------------------------------- names


def test_names_are_listed_without_scipy_or_torch():
    code = (
        "import sys; from synthscore.evaluation.methods import METHODS, method; list(METHODS)\n"
        "for spec in ('ladder', 'g-eval', 'poe-bt', 'length'): method(spec)\n"
        "print([name for name in ('scipy', 'torch', 'transformers', 'sacrebleu', 'nltk') if name in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_kinds_of_all_modules_are_there_each_once_with_one_line_about_it():
    for_single_texts = ["ladder", "place", "decision-score", "direct", "g-eval"]
    names = [*for_single_texts, *comparing.KINDS, *overlap_metrics.KINDS, *floors.KINDS]
    assert names == [*METHODS]
    for kind in method_kinds().values():
        assert callable(kind.make)
        assert isinstance(kind, MethodKind)
        assert len(kind.summary.splitlines()) == 1
        assert set(kind.uses) <= {"judge", "references"}


def test_an_unknown_method_is_told_which_there_are():
    with pytest.raises(MethodError, match=r"no method 'geval'\. There are: ladder, .*g-eval, .*length"):
        method("geval")
    with pytest.raises(MethodError, match=r"no method ''"):
        method(" ")
    with pytest.raises(MethodError, match=r"no method 'geval:x=1'\. There are: ladder"):
        uses("geval:x=1")


def test_a_method_says_what_it_uses_and_a_file_uses_nothing():
    assert uses("ladder:samples=3") == {"judge", "references"}
    assert uses("g-eval") == {"judge"}
    assert uses("length") == uses("file:scores.jsonl") == set()


def test_a_registered_kind_is_a_method_and_no_name_is_taken_twice(monkeypatch):
    monkeypatch.setattr("synthscore.scoring.methods.METHODS", METHODS.copy())
    register_method("one", METHODS["constant"])
    assert method("one")(rated(), "coherence", Tools()).values[0] == 0
    for taken in ("length", "one"):
        with pytest.raises(MethodError, match=rf"cannot register {taken}: there is such a method"):
            register_method(taken, METHODS["constant"])


def test_what_a_registered_method_uses_is_what_the_method_itself_says(monkeypatch):
    monkeypatch.setattr("synthscore.scoring.methods.METHODS", METHODS.copy())
    register_method("number", Direct)
    register_method("rungs", lambda: LadderMethod(scoring=Paper()))
    assert method_kinds()["number"].uses == ("judge",)
    assert uses("number:scale=1-9") == {"judge"}
    assert uses("rungs") == {"judge", "references"}
    assert scores("rungs") == scores("ladder")


def test_a_method_registered_by_the_name_of_one_of_evaluation_gives_way_to_it_with_a_warning():
    code = (
        "import warnings; import synthscore as ss; from synthscore import plugins\n"
        "from synthscore.scoring.methods.grading import Direct\n"
        "plugins.entry_points = lambda group: []\n"
        "ss.register_method('length', Direct)\n"
        "with warnings.catch_warnings(record=True) as caught:\n"
        "    from synthscore.evaluation.methods import uses\n"
        "print([str(each.message) for each in caught], uses('length'))"
    )
    shown = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert "the method registered as length is left out: evaluation has one of that name. Choose" in shown
    assert shown.endswith("set()\n")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            "ladder:rungs=5",
            r"it says 'rungs=5'. Expected options as NAME=VALUE, each once, out of: scoring, samples, .*protocol",
        ),
        ("ladder:both_orders", r"it says 'both_orders'"),
        ("ladder:seed=1,samples=2,seed=1", r"it says 'seed' twice"),
        ("ladder:both_orders=true", r"both_orders is 'true', expected yes or no"),
        ("constant:x=1", r"out of: none"),
    ],
)
def test_an_unknown_option_is_told_which_there_are(spec, message):
    with pytest.raises(MethodError, match=message):
        method(spec)


def test_methods_in_one_text_are_told_apart():
    assert split_methods("length, g-eval:samples=20,seed=1 ,poe-bt:calls=8, orders=one,file:a.jsonl") == [
        *("length", "g-eval:samples=20,seed=1", "poe-bt:calls=8, orders=one", "file:a.jsonl")
    ]
    assert split_methods("length") == ["length"]
    for broken in ("", "length,,overlap", "length,"):
        with pytest.raises(MethodError, match=r"a name is empty"):
            split_methods(broken)


def test_a_file_is_a_method(tmp_path):
    with pytest.raises(MethodError, match=r"there is no file"):
        method(f"file:{tmp_path / 'none.jsonl'}")


# ------------------------------------------------------------------------------------------------- what methods share


def test_what_a_method_lacks_is_named():
    ratings = rated()
    for spec in ("g-eval", "ladder", "poe-bt"):
        with pytest.raises(MethodError, match=r"asks a judge, and there is none"):
            method(spec)(ratings, "coherence", Tools())
    with pytest.raises(MethodError, match=r"needs ladders, and there are none"):
        method("ladder")(ratings, "coherence", Tools(FakeEngine()))
    with pytest.raises(MethodError, match=r"the ratings toy name no task"):
        task_of(rated(task=""), "coherence")
    with pytest.raises(TaskError, match=r"has no attribute 'wit'"):
        task_of(ratings, "wit")


def test_an_attribute_may_be_asked_as_another_and_keeps_its_name():
    ratings = rated(attribute="flow", asked_as={"flow": "coherence"})
    for spec in ("g-eval", "ladder", "poe-bt"):
        engine = FakeEngine(reading_judge())
        found = scores(spec, ratings, engine, attribute="flow")
        assert {score.attribute for score in found} == {"flow"}
        assert "|attribute:coherence" in str(found.signature)
        assert all("Coherence: the sentences" in prompt.text for prompt in engine.judged)
        assert places(found, ratings) == BEST_FIRST


def test_scores_where_nothing_has_a_number_are_an_error():
    with pytest.raises(
        MethodError, match=r"cannot score any of the 8 texts of toy on coherence; 7 of them: why"
    ) as error:
        scored(rated(), "coherence", ["other", *["why"] * 7], Signature(()))
    assert error.value.reasons == {"why": 7, "other": 1}
    found = scored(rated(), "coherence", [1.0, *["why"] * 7], Signature(()))
    assert (found[0].value, found[7].status, found[7].reason, found.n_unscored) == (1.0, "unscored", "why", 7)


@pytest.mark.parametrize("spec", ["ladder", "g-eval", "direct", "poe-bt", "bt:calls=6"])
def test_a_method_gives_the_same_numbers_again_and_asks_nothing_twice(spec, tmp_path):
    engine = FakeEngine(reading_judge(bias=1.0))
    stored = StoredEngine(engine, Store(tmp_path / "answers.sqlite"))
    first, second = scores(spec, engine=stored), scores(spec, engine=stored)
    assert first == second
    assert len(set(engine.judged)) == engine.n_judged


# ------------------------------------------------------------------------------------------------- ladders


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"both_orders": "yes"},
        {"protocol": "yes_no"},
        {"protocol": "yes_no_two_sided", "both_orders": "yes"},
        {"protocol": "choose"},
        {"samples": "30", "seed": "2"},
    ],
)
def test_ladder_is_the_scorer_with_its_options(options):
    spec = "ladder:" + ",".join(f"{name}={value}" for name, value in options.items())
    found = scores(spec.rstrip(":"))
    same = {
        "asking": Asking(options.get("protocol", "compare"), options.get("both_orders") == "yes"),
        "scoring": Paper(int(options["samples"]) if "samples" in options else None, int(options.get("seed", 0))),
    }
    targets = [Target(text.id, text.context_id, text.text) for text in rated()]
    assert found == Scorer(ladders(), FakeEngine(reading_judge()), **same).score(targets)
    if "samples" not in options and options.get("protocol") != "yes_no_two_sided":  # which this judge does not read
        assert places(found, rated()) == BEST_FIRST


def test_ladder_scores_mixed_contexts_in_the_order_of_the_ratings_and_asks_by_context():
    texts = rated().texts
    mixed = rated(texts=tuple(texts[k] for k in (4, 0, 5, 1, 6, 2, 7, 3)))
    engine = FakeEngine(reading_judge())
    found = scores("ladder", mixed, engine)
    assert [score.id for score in found] == [text.id for text in mixed]
    assert ["article, c1" in prompt.text for prompt in engine.judged] == [False] * 20 + [True] * 20
    assert places(found, rated(texts=texts)) == {"c1": BEST_FIRST["c1"], "c2": BEST_FIRST["c2"]}


def test_fewer_rungs_are_those_of_the_larger_ladder():
    for n_rungs in (2, 3, 5, 9):
        engine = FakeEngine(reading_judge())
        nested = scores(f"ladder:n_rungs={n_rungs}", engine=engine, references=ladders(9))
        assert nested.values.tolist() == scores("ladder", references=ladders(n_rungs)).values.tolist()
        assert {qualities(prompt)[0] for prompt in engine.judged} == set(np.linspace(1, 5, n_rungs).tolist())
    for n_rungs in (4, 6, 17):
        with pytest.raises(
            MethodError, match=rf"cannot take {n_rungs} rungs, evenly spaced, out of the 9 of ladder c1/"
        ):
            scores(f"ladder:n_rungs={n_rungs}", references=ladders(9))


def test_texts_without_words_or_ladder_are_unscored_with_the_reason():
    ratings = rated({"c1": (2.0, None), "c2": (3.0,)})
    found = scores("ladder", ratings, references=ladders(contexts=("c1",)))
    assert [score.status for score in found] == ["ok", "unscored", "unscored"]
    assert "text is '', expected a text that is not empty" in found[1].reason
    assert "there is no ladder summarization/c2/coherence" in found[2].reason


def test_a_ladder_of_another_context_with_the_same_id_is_not_used():
    found = scores(
        "ladder", references=type(ladders())((*ladders(contexts=("c1",)), *ladders(contexts=("c2",), text="News.")))
    )
    assert [score.status for score in found] == ["ok"] * 4 + ["unscored"] * 4
    why = found[7].reason
    assert "was made for another text of that id" in why
    assert "it is 'News.', the row's is 'An article, c2.'" in why
    spaced = ladders(text="An\narticle, {}. ")
    assert scores("ladder", references=spaced).n_unscored == 0  # white space makes no other context


def test_a_ladder_that_does_not_carry_its_context_gets_it_from_the_ratings():
    assert scores("ladder", references=ladders(text="")).values.tolist() == scores("ladder").values.tolist()
    found = scores("ladder", rated(contexts={}), references=ladders())
    assert found.n_unscored == 0


def test_references_without_a_ladder_for_the_attribute_say_what_they_hold():
    with pytest.raises(
        MethodError, match=r"memory holds no ladder for summarization/coherence, but for summarization/fluency"
    ):
        scores("ladder", references=ladders(attribute="fluency"))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("ladder:protocol=chose", r"protocol is 'chose', expected one of compare, yes_no"),
        ("ladder:samples=0", r"samples is '0', expected a whole number of 1 or more"),
        ("ladder:seed=1", r"seed is 1, expected with samples=N"),
        ("ladder:n_rungs=1", r"n_rungs is '1', expected a whole number of 2 or more"),
    ],
)
def test_options_of_ladder_that_mean_nothing_are_refused(spec, message):
    with pytest.raises(MethodError, match=message):
        method(spec)


# ------------------------------------------------------------------------------------------------- comparing


def test_every_method_of_ranking_is_a_kind():
    assert set(RANKINGS) < set(METHODS)


@pytest.mark.parametrize("name", RANKINGS)
@pytest.mark.parametrize("protocol", ["choose", "compare", "yes_no"])
def test_every_method_puts_clearly_different_texts_in_order(name, protocol):
    spec = f"{name}{',' if ':' in name else ':'}protocol={protocol}"
    found = scores(spec)
    assert places(found, rated()) == BEST_FIRST
    assert {score.status for score in found} == {"ok"}
    assert [score.id for score in found] == [text.id for text in rated()]
    ranks = {score.id: score.details["rank"] for score in found}
    assert [ranks[f"c1-{place}"] for place in BEST_FIRST["c1"]] == [1, 2, 3, 4]


@pytest.mark.parametrize("name", RANKINGS)
def test_a_kind_is_its_method_of_ranking_on_the_answers_to_all_calls(name):
    engine = FakeEngine(reading_judge(bias=0.7))
    found = scores(name, engine=engine)
    protocol = "compare" if name == "bt-ties" else "choose"
    texts = [text for text in rated() if text.context_id == "c1"]
    problem = Problem(
        Context("c1", "An article, c1."), "coherence", tuple(t.id for t in texts), tuple(t.text for t in texts)
    )
    judge = PairJudge(
        [problem], FakeEngine(reading_judge(bias=0.7)), Templates(load_task("summarization")), Asking(protocol)
    )
    judge([(0, i, j) for i, j in all_pairs(4).tolist()])
    expected = ranking.METHODS[name](judge.comparisons()[0])
    np.testing.assert_allclose(found.values[:4], expected.scores, atol=1e-9)
    stderr = [np.nan if score.stderr is None else score.stderr for score in found][:4]
    np.testing.assert_array_equal(stderr, expected.stderr)
    assert engine.n_judged == 24
    assert [score.n_comparisons for score in found] == [6] * 8
    assert f"|protocol:{protocol}|" in str(found.signature)
    assert (
        found.values.tolist()
        == scores(f"pairwise:method={name}", engine=FakeEngine(reading_judge(0.7))).values.tolist()
    )


def test_methods_over_the_same_calls_share_their_answers(tmp_path):
    engine = FakeEngine(reading_judge())
    stored = StoredEngine(engine, Store(tmp_path / "answers.sqlite"))
    for spec in (*(name for name in RANKINGS if name != "bt-ties"), "poe-bt:debias=median", "poe-g:calls=8"):
        scores(spec, engine=stored)
    assert engine.n_judged == 24


def test_all_contexts_are_asked_about_in_one_call():
    engine = FakeEngine(reading_judge())
    scores("poe-bt", engine=engine)
    assert engine.calls == [("judge", 24)]


@pytest.mark.parametrize(
    ("spec", "n_calls", "orders"),
    [
        ("poe-g:calls=8", 8, "greedy,budget=8,both-orders"),
        ("poe-g:calls=3,orders=one", 3, "greedy,budget=3,one-order"),
        ("poe-g:orders=one", 6, "all,one-order"),
        ("poe-g:calls=99", 12, "greedy,budget=99,both-orders"),
    ],
)
def test_a_design_asks_for_its_calls_about_each_context(spec, n_calls, orders):
    engine = FakeEngine(reading_judge())
    found = scores(spec, engine=engine)
    assert engine.n_judged == 2 * n_calls
    assert f"|selection:{orders},seed=0|" in str(found.signature)
    assert sum(score.n_comparisons for score in found) == 4 * n_calls


def test_a_design_is_drawn_by_seed_context_and_attribute_as_by_the_rank_command():
    engine = FakeEngine(reading_judge())
    scores("poe-g:calls=6,orders=one,seed=5", rated({"c1": QUALITIES["c1"]}), engine)
    problem = Problem(Context("c1", "x"), "coherence", tuple("abcd"), tuple("abcd"))
    calls = greedy(4, 6, problem.rng(5), both_orders=False)
    shown = {tuple(qualities(prompt)) for prompt in engine.judged}
    assert shown == {(QUALITIES["c1"][i], QUALITIES["c1"][j]) for i, j in calls.tolist()}


def test_too_few_calls_leave_a_context_unscored_and_not_asked():
    ratings = rated({"c1": QUALITIES["c1"], "c2": QUALITIES["c2"][:2]})
    engine = FakeEngine(reading_judge())
    found = scores("poe-g:calls=2,orders=one", ratings, engine)
    assert [score.status for score in found] == ["unscored"] * 4 + ["ok"] * 2
    assert "cannot choose 2 calls for 4 candidates" in found[0].reason
    assert engine.n_judged == 2


def test_a_favour_for_a_place_is_taken_out():
    fair = scores("poe-bt:orders=one").values
    for spec in ("poe-bt:debias=mle,orders=one", "poe-bt:debias=median", "poe-bt"):
        found = scores(spec, engine=FakeEngine(reading_judge(bias=1.5)))
        assert places(found, rated()) == BEST_FIRST
    mle = scores("poe-bt:debias=mle", engine=FakeEngine(reading_judge(bias=1.5))).values
    np.testing.assert_allclose(mle, fair, atol=1e-6)
    biased = scores("poe-bt:orders=one", engine=FakeEngine(reading_judge(bias=1.5))).values
    assert np.abs(biased - fair).max() > 0.3


@pytest.mark.parametrize(("debias", "shift"), [("median", "median_debiasing"), ("mean", "mean_debiasing")])
def test_a_shift_is_estimated_over_the_calls_of_all_contexts(debias, shift):
    engine = FakeEngine(reading_judge(bias=1.5))
    found = scores(f"average-probability:debias={debias}", engine=engine)
    p = np.array([1 / (1 + np.exp(-(a - b + 1.5))) for a, b in map(qualities, engine.judged)])
    gamma = -np.median(np.log(p / (1 - p))) if debias == "median" else np.log(1 - p.mean()) - np.log(p.mean())
    shifted = 1 / (1 + np.exp(-(np.log(p / (1 - p)) + gamma)))
    of_first = [(a, b, q) for (a, b), q in zip(map(qualities, engine.judged), shifted, strict=True)][:12]
    expected = [np.mean([q if a == x else 1 - q for a, b, q in of_first if x in (a, b)]) for x in QUALITIES["c1"]]
    np.testing.assert_allclose(found.values[:4], expected, atol=1e-9)


def test_gamma_and_beta_are_the_runs_mean():
    judge = reading_judge(bias=1.5)
    for name in ("poe-bt", "poe-g"):
        engine = FakeEngine(judge)
        found = scores(f"{name}:debias=gamma,orders=one", engine=engine)
        p = np.array([1 / (1 + np.exp(-(a - b + 1.5))) for a, b in map(qualities, engine.judged)]).mean()
        bias = np.log((1 - p) / p) if name == "poe-bt" else p
        names = {q: str(k) for k, q in enumerate(QUALITIES["c1"])}
        calls = ranking.Comparisons.from_records(
            [(names[a], names[b], 1 / (1 + np.exp(-(a - b + 1.5)))) for a, b in map(qualities, engine.judged[:6])],
            "0123",
        )
        np.testing.assert_allclose(found.values[:4], ranking.METHODS[name](calls, bias=bias).scores, atol=1e-8)


def test_a_bias_that_cannot_be_estimated_is_an_error():
    certain = FakeEngine(lambda prompt, labels: [0.0, -np.inf])
    with pytest.raises(MethodError, match=r"debias=median: cannot estimate a threshold"):
        scores("poe-g:debias=median", engine=certain)


def test_hard_decisions_and_the_prior_are_options():
    engine = FakeEngine(reading_judge(bias=1.5))
    averaged, per_call = (
        scores(f"win-ratio:decisions={how}", engine=engine).values for how in ("averaged", "per_call")
    )
    assert averaged.tolist() != per_call.tolist()
    few = "calls=6"  # on all pairs the two are the same
    everyone, observed = (scores(f"bt:{few},prior={prior}", engine=engine).values for prior in ("all", "observed"))
    assert scores(f"bt:{few}", engine=engine).values.tolist() == everyone.tolist() != observed.tolist()
    with pytest.raises(MethodError, match=r"cannot score any of the 8 texts"):
        scores("bt:prior=none", engine=engine)  # the best text never lost


def test_a_ranking_without_finite_scores_leaves_its_context_unscored():
    def judge(prompt, labels):
        a, b = qualities(prompt)
        hard = "article, c1" in prompt.text
        p = float(a > b) if hard else 1 / (1 + np.exp(b - a))
        return [np.log(p) if p else -np.inf, np.log(1 - p) if p < 1 else -np.inf]

    found = scores("poe-bt", engine=FakeEngine(judge))
    assert [score.status for score in found] == ["unscored"] * 4 + ["ok"] * 4
    assert "c1-" in found[0].reason


def test_a_text_about_which_a_call_failed_is_partial():
    engine = FakeEngine(reading_judge())
    scores("poe-bt", engine=engine)
    lost = next(p for p in engine.judged if qualities(p) == [2.5, 1.0])  # c1-0 and c1-1
    failing = FakeEngine(reading_judge(), failures={lost.text: "too long"})
    found = scores("poe-bt", engine=failing)
    assert [score.status for score in found] == ["partial", "partial", *["ok"] * 6]
    assert found[0].reason == "no answer to 1 of the calls about it: too long"
    assert [score.n_comparisons for score in found] == [5, 5, *[6] * 6]


def test_a_text_of_which_no_call_was_answered_is_unscored_with_the_reason():
    def judge(prompt, labels):
        if 4.5 in qualities(prompt):
            raise ValueError("too long")
        return reading_judge()(prompt, labels)

    for spec in ("average-probability", "win-ratio"):
        found = scores(spec, engine=FakeEngine(judge))
        assert [score.status for score in found] == ["partial", "partial", "unscored", "partial", *["ok"] * 4]
        assert found[2].reason == "too long"


def test_a_text_alone_in_its_context_or_without_words_is_not_compared():
    found = scores("poe-bt", rated({"c1": (1.0, None, 2.0), "c2": (3.0, None)}))
    assert [score.status for score in found] == ["ok", "unscored", "ok", "unscored", "unscored"]
    assert found[1].reason == "text is '', expected a text that is not empty. Fill it, or remove the row"
    assert found[3].reason == "it is the only text of its context, expected at least 2 to compare"
    with pytest.raises(MethodError, match=r"cannot score any of the 1 texts"):
        scores("poe-bt", rated({"c1": (1.0,)}))


def test_equal_texts_get_equal_scores_whatever_rounding_says():
    ratings = rated({"c1": (1.0, 2.0, 2.0, 3.0, 2.0)})
    ratings = rated(texts=tuple(t for t in ratings.texts), contexts=ratings.contexts)
    for name in ("poe-bt", "poe-g", "poe-g-hard", "bt", "win-ratio", "average-probability", "colley"):
        values = scores(name, ratings).values
        assert values[1] == values[2] == values[4]


def test_a_judge_that_cannot_tell_texts_apart_gives_ties():
    for name in ("poe-bt", "poe-g", "win-ratio", "average-probability", "bt", "colley", "poe-g-hard"):
        found = scores(name, engine=FakeEngine())
        assert len(set(found.values.tolist())) == 1, name
        assert {score.details["rank"] for score in found} == {1.0}


def test_a_ranking_that_did_not_converge_says_so(monkeypatch):
    monkeypatch.setattr(newton, "MAX_ITERATIONS", 1)
    monkeypatch.setattr(newton, "TOLERANCE", 1e-15)
    found = scores("poe-bt", engine=FakeEngine(reading_judge(bias=3.0)))
    assert {score.status for score in found} == {"partial"}
    assert "not converged: a derivative of" in found[0].reason


def test_pooled_texts_are_one_problem_each_shown_with_its_context():
    engine = FakeEngine(reading_judge())
    found = scores("poe-bt:pool=yes", engine=engine)
    assert engine.n_judged == 8 * 7
    order = np.argsort([-q for values in QUALITIES.values() for q in values], kind="stable")
    assert np.argsort(-found.values, kind="stable").tolist() == order.tolist()
    assert "|pool:yes|" in str(found.signature)
    (prompt,) = [p.text for p in engine.judged if qualities(p) == [2.5, 1.5]]
    assert "Article: An article, c1.\nSummary: Text of q=2.5" in prompt
    assert "Article: An article, c2.\nSummary: Text of q=1.5" in prompt
    with_facts = rated(contexts={c: Context(c, f"{c}.", f"Facts {c}.") for c in QUALITIES}, task="dialogue")
    scores("poe-bt:pool=yes", with_facts, engine)
    assert "Conversation: c2.\nBackground facts: Facts c2.\nResponse: Text" in engine.judged[-1].text


def test_what_a_server_did_not_tell_fails_a_call():
    engine = CensoringEngine(reading_judge(), lambda prompt: {0: 0.9} if 4.5 in qualities(prompt) else {})
    assert {score.status for score in scores("poe-bt:max_unreported=0.2", engine=engine)} == {"ok"}
    found = scores("average-probability:max_unreported=0", engine=engine)
    assert [score.status for score in found][:4] == ["partial", "partial", "unscored", "partial"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("pairwise:method=elo", r"method is 'elo', expected one of win-ratio, average-probability"),
        ("poe-bt:protocol=rate", r"protocol is 'rate', expected one of choose, compare, yes_no"),
        ("poe-bt:orders=two", r"orders is 'two', expected one of both, one"),
        ("poe-bt:debias=some", r"debias is 'some', expected one of none, median"),
        ("poe-bt:calls=0", r"budget is 0, expected 1 or more"),
        ("poe-bt:seed=-1", r"seed is -1, expected 0 or more"),
        ("bt:debias=mle", r"debias=mle is for poe-bt"),
        ("bt:debias=gamma", r"debias=gamma is for poe-bt, poe-g"),
        ("bt:decisions=all", r"decisions is 'all', expected one of averaged, per_call"),
        ("pairwise:method=poe-bt,prior=all", r"prior does nothing with method=poe-bt"),
        ("poe-bt:method=bt", r"it says 'method=bt'"),
    ],
)
def test_options_of_comparing_that_mean_nothing_are_refused(spec, message):
    with pytest.raises(MethodError, match=message):
        method(spec)
