"""ZEPO: wordings are measured without labels, and the fairest asks."""

import numpy as np
import pytest

from synthscore.engine import Engine
from synthscore.errors import EngineError, TemplateError
from synthscore.evaluation.methods import MethodError, Tools, method
from synthscore.judging.asking import Asking
from synthscore.judging.templates import TEMPLATE_SETS, Templates, load_task
from synthscore.store.engine import StoredEngine
from synthscore.store.file import Store
from synthscore.types import Context
from tests.factories import BEST_FIRST, places, rated
from tests.fakes import FakeEngine, reading_judge

FAIR = "Is it A that is more coherent, or B?"
BIASES = {FAIR: 0.0, "A or B, which is more coherent?": 1.0}  # of a question; of any other 2


def judge(prompt, labels):
    bias = next((bias for line, bias in BIASES.items() if line in prompt.text), 2.0)
    return reading_judge(bias)(prompt, labels)


def engine(*lines: str | Exception):
    """Writes these questions in turn, whatever it is asked."""
    left = iter(lines)
    return FakeEngine(judge, writer=lambda prompt, seed: next(left))


def choose(spec, asked: Engine, ratings=None, templates="default"):
    return method(spec).wordings(ratings or rated(), "coherence", Tools(asked, asking=Asking(prompts=templates)))


def mean_first(bias):
    """Mean P(A) over all pairs of the texts of `rated`, both orders, by hand."""
    values = [[2.5, 1.0, 4.5, 3.0], [1.5, 4.0, 2.0, 3.5]]
    odds = [a - b + bias for group in values for a in group for b in group if a != b]
    return np.mean(1 / (1 + np.exp(-np.array(odds))))


def test_the_fairest_wording_is_chosen_and_asks():
    asked = engine("A or B, which is more coherent?", FAIR)
    found = method("zepo:rounds=1,paraphrases=2")(rated(), "coherence", Tools(asked))
    assert places(found, rated()) == BEST_FIRST
    sort = asked.judged[3 * 24 :]
    assert sort
    assert all(FAIR in prompt.text for prompt in sort)
    assert str(found.signature).endswith("|zepo:contexts=10,seed=0,wordings=3,refused=0,fairness=0")
    assert "|template:default+zepo2/choose@" in str(found.signature)


def test_fairness_is_how_far_the_mean_probability_of_the_first_place_is_from_a_half():
    found, refused = choose("zepo:rounds=1,paraphrases=2", engine("A or B, which is more coherent?", FAIR))
    assert refused == []
    assert [wording.line for wording in found] == ["", "A or B, which is more coherent?", FAIR]
    expected = [-abs(mean_first(bias) - 0.5) for bias in (2.0, 1.0, 0.0)]
    np.testing.assert_allclose([wording.fairness for wording in found], expected, atol=1e-12)


def test_the_sets_own_wording_stays_where_none_is_fairer():
    asked = engine("Choose A or B.", "Take A or B.")
    found = method("zepo:rounds=1,paraphrases=2")(rated(), "coherence", Tools(asked))
    assert "|template:default/choose@" in str(found.signature)


def test_each_round_rewords_the_fairest_so_far():
    asked = engine("A or B, which is more coherent?", "Is A better, or B?", FAIR, "Do you like A or B?")
    found, _ = choose("zepo:rounds=2,paraphrases=2", asked)
    assert len(found) == 5
    first, second = asked.written[0].text, asked.written[2].text
    assert "Question: Which summary is more coherent, A or B? Answer with one letter: A or B.\n" in first
    assert "Question: A or B, which is more coherent?\n" in second
    assert asked.calls.count(("write", 2)) == 2


@pytest.mark.parametrize("templates", TEMPLATE_SETS)
def test_only_the_question_of_a_prompt_changes(templates):
    found, _ = choose("zepo:rounds=1,paraphrases=1", engine(FAIR), templates=templates)
    task = load_task("summarization")
    texts = {"first": "Which summary is more coherent, A or B?", "second": "{{ context }}"}
    ask = [w.templates.choose(Context("c", "News."), task.attribute("coherence"), **texts) for w in found]
    own = Templates(task, templates)
    assert ask[0] == own.choose(Context("c", "News."), task.attribute("coherence"), **texts)
    before, after = (prompt.text.splitlines() for prompt in ask)
    ((old, new),) = [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]]
    assert new == FAIR
    assert "more coherent" in old
    assert ask[0].prefill == ask[1].prefill
    assert own.hash("choose") == found[0].templates.hash("choose") != found[1].templates.hash("choose")
    assert found[1].templates.hash("compare") == own.hash("compare")  # the rest of the set is as it was


def test_what_is_no_new_question_is_refused_and_counted():
    written = [
        *(
            "Which one? A or B.\nThanks!",
            "Which is better?",
            "{{ first }} A or B?",
            FAIR,
            FAIR,
            EngineError("it broke"),
        ),
        *("An A-level? Bah.", "Which summary is more coherent, A or B? Answer with one letter: A or B.", "", "{% A B"),
    ]
    asked = engine(*written)
    found, refused = choose("zepo:rounds=1,paraphrases=10", asked)
    assert [wording.line for wording in found[1:]] == [FAIR]
    assert len(refused) == 9
    assert refused[4] == "it broke"
    assert refused[0].startswith("the judge wrote 'Which one?")
    scores = method("zepo:rounds=1,paraphrases=10")(rated(), "coherence", Tools(engine(*written)))
    assert "wordings=2,refused=9" in str(scores.signature)


def test_a_judge_that_cannot_write_is_an_error():
    with pytest.raises(MethodError, match=r"none of the 4 that the judge wrote can be used, such as: it broke"):
        choose("zepo:rounds=2,paraphrases=2", engine(*[EngineError("it broke")] * 4))


def test_a_wording_under_which_nothing_is_answered_is_refused():
    def shy(prompt, labels):
        return [-20.0, -20.0] if FAIR in prompt.text else judge(prompt, labels)

    lines = iter([FAIR, "A or B, which is more coherent?"])
    found, refused = choose("zepo:rounds=1,paraphrases=2", FakeEngine(shy, writer=lambda prompt, seed: next(lines)))
    assert [wording.line for wording in found[1:]] == ["A or B, which is more coherent?"]
    assert "cannot measure how fair the template set 'default+zepo1' is: the labels A, B have probability" in refused[0]
    with pytest.raises(MethodError, match=r"how fair the template set 'default' is: the labels A, B"):
        choose("zepo", FakeEngine(lambda prompt, labels: [-20.0, -20.0]))
    with pytest.raises(MethodError, match=r"is: cannot choose 2 calls for 4 candidates"):
        choose("zepo:calls=2", FakeEngine(judge))
    with pytest.raises(MethodError, match=r"is: no context has two texts"):
        choose("zepo", FakeEngine(judge), rated({"c1": (1.0,)}))


def test_wordings_can_be_given_as_template_sets(tmp_path):
    for name, line in (("b-fair", FAIR), ("a-other", "A or B?")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "choose.jinja").write_text(line + "\n\nA: {{ first }}\n\nB: {{ second }}\n\nVerdict:")
    (tmp_path / "notes.txt").write_text("no set")
    asked = engine()
    found, refused = choose(f"zepo:templates={tmp_path}", asked)
    assert [wording.templates.name for wording in found] == [
        "default",
        str(tmp_path / "a-other"),
        str(tmp_path / "b-fair"),
    ]
    assert (asked.n_written, refused) == (0, [])
    scores = method(f"zepo:templates={tmp_path}")(rated(), "coherence", Tools(asked))
    assert f"|template:{tmp_path / 'b-fair'}/choose@" in str(scores.signature)
    (tmp_path / "c-broken").mkdir()
    with pytest.raises(TemplateError, match=r"has no choose.jinja"):
        choose(f"zepo:templates={tmp_path}", asked)
    with pytest.raises(MethodError, match=r"holds no folders, expected a template set in each"):
        choose(f"zepo:templates={tmp_path / 'a-other'}", asked)


def test_a_template_whose_question_cannot_be_found_is_not_guessed_at(tmp_path):
    (tmp_path / "choose.jinja").write_text("A: {{ first }}\nB: {{ second }}\nWhich, A or B?")
    with pytest.raises(MethodError, match=r"0 of its lines use attribute.more or attribute.better, expected 1"):
        choose("zepo", engine(), templates=str(tmp_path))


def test_fairness_is_measured_on_some_contexts_and_calls():
    ratings = rated({f"c{k}": (1.0, 2.0, 3.0, 4.0) for k in range(6)})
    asked = engine(FAIR)
    choose("zepo:rounds=1,paraphrases=1,contexts=2,calls=8", asked, ratings)
    assert asked.n_judged == 2 * 2 * 8
    contexts = [prompt.text.split("An article, ")[1][:2] for prompt in asked.judged]
    assert len(set(contexts)) == 2
    other = engine(FAIR)
    choose("zepo:rounds=1,paraphrases=1,contexts=2,calls=8,seed=3", other, ratings)
    assert {prompt.text for prompt in other.judged} != {prompt.text for prompt in asked.judged}


@pytest.mark.parametrize("how", ["pairs", "poe-bt", "win-ratio"])
def test_texts_are_then_sorted_or_compared(how, tmp_path):
    asked = engine(FAIR)
    found = method(f"zepo:rounds=1,paraphrases=1,method={how}")(
        rated(), "coherence", Tools(StoredEngine(asked, Store(tmp_path / "answers.sqlite")))
    )
    assert places(found, rated()) == BEST_FIRST
    assert asked.n_judged == 2 * 24  # fairness needed all that is asked after it
    assert f"|method:{how}|" in str(found.signature)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("zepo:method=elo", r"method is 'elo', expected one of win-ratio"),
        ("zepo:rounds=0", r"rounds is '0', expected a whole number of 1 or more"),
        ("zepo:paraphrases=0", r"paraphrases is '0'"),
        ("zepo:contexts=0", r"contexts is '0'"),
        ("zepo:calls=0", r"calls is '0'"),
        ("zepo:seed=-1", r"seed is '-1'"),
        ("zepo:templates=x,rounds=2", r"do nothing with templates=FOLDER"),
    ],
)
def test_options_that_mean_nothing_are_refused(spec, message):
    with pytest.raises(MethodError, match=message):
        method(spec)
