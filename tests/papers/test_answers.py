"""Published answers of other people's judges: into a store, and out of it again as answers to our prompts."""

import gzip
import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from papers.__main__ import main
from papers.answers import FLOOR, import_answers, score_rows
from synthscore.engine import Prompt, label_log_probs
from synthscore.engines import open_engine
from synthscore.errors import BenchmarkError, InputError
from synthscore.evaluation.benchmarks import load_benchmark
from synthscore.evaluation.join import join
from synthscore.evaluation.ratings import RatedText, Ratings
from synthscore.io.write import write_rows
from synthscore.judging.templates import Templates, load_task
from synthscore.store.file import Store
from synthscore.types import Context

SHARED = Path(__file__).resolve().parents[3] / "shared" / "benchmarks"
needs_data = pytest.mark.skipif(not SHARED.is_dir(), reason="the benchmarks' files are not here")

FIVE = ("1", "2", "3", "4", "5")
CONTEXT = Context("c1", "An article.")
TEXTS = {"a": "One.", "b": "Two.", "same": "One."}
RATINGS = Ratings(
    "toy",
    (
        *(RatedText(f"c1/{system}", "c1", system, text, {"coherence": 1.0}) for system, text in TEXTS.items()),
        RatedText("c2/a", "c2", "a", "Alone.", {"coherence": 1.0}),
    ),
    ("coherence", "quality"),
    contexts={"c1": CONTEXT},
    task="summarization",
    asked_as={"quality": "relevance"},
)
TEMPLATES = Templates(load_task("summarization"))


def distribution(system="a", logprobs=None, **changes):
    row = {"kind": "score_distribution", "benchmark": "toy", "context_id": "c1", "system": system}
    row |= {"attribute": "coherence", "judge": "J", "prompt_index": 0}
    return row | {"logprobs": logprobs or {"1": -3.0, "2": -2.0, "3": -0.25, "4": None, "5": None}} | changes


def pairwise(first="a", second="b", choice="A", **changes):
    row = {"kind": "pairwise", "benchmark": "toy", "context_id": "c1", "system_a": first, "system_b": second}
    return row | {"attribute": "coherence", "judge": "J", "choice": choice} | changes


def rate(text="One.", attribute="coherence") -> Prompt:
    return TEMPLATES.rate(CONTEXT, TEMPLATES.task.attribute(attribute), text=text, low=1, high=5)


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "judges.sqlite") as store:
        yield store


@pytest.fixture
def written(tmp_path):
    """What writes rows into a file."""

    def write(*rows):
        file = tmp_path / "published.jsonl"
        file.write_text("\n".join(map(json.dumps, rows)))
        return file

    return write


def replayed(store, part=""):
    return open_engine(f"recorded:{store.path}{part and '#'}{part}")


# ------------------------------------------------------------------------------------------------- answers


def test_a_distribution_answers_our_prompt_and_what_is_not_told_is_censored_never_zero(store, written):
    imported = import_answers(written(distribution()), RATINGS, store)
    answers = label_log_probs(replayed(store), [rate()], FIVE)
    np.testing.assert_array_equal(answers.log_probs, [[-3.0, -2.0, -0.25, math.log(1e-5), math.log(1e-5)]])
    assert answers.censored.tolist() == [[False, False, False, True, True]]
    np.testing.assert_allclose(answers.label_mass, sum(map(math.exp, (-3.0, -2.0, -0.25))))
    assert imported.n_new == 1
    assert imported.repeated == imported.untold == imported.left_out == ()


def test_a_row_that_tells_all_labels_has_nothing_censored(store, written):
    import_answers(written(distribution(logprobs=dict.fromkeys(FIVE, -1.7))), RATINGS, store)
    assert label_log_probs(replayed(store), [rate()], FIVE).censored is None


def test_a_row_that_tells_no_label_is_no_answer_and_is_counted(store, written):
    imported = import_answers(written(distribution(logprobs=dict.fromkeys(FIVE))), RATINGS, store)
    assert imported.untold == ("row 1, c1/a/coherence",)
    answers = label_log_probs(replayed(store), [rate()], FIVE)
    assert answers.label_mass == pytest.approx([0], abs=1e-15)  # so that no method takes it for one
    assert answers.unreported == pytest.approx([1])


def test_an_attribute_is_asked_by_its_name_in_the_task(store, written):
    import_answers(written(distribution(attribute="quality")), RATINGS, store)
    answers = label_log_probs(replayed(store), [rate(attribute="relevance"), rate()], FIVE)
    assert list(answers.failures) == [1]


@pytest.mark.parametrize(("choice", "expected"), [("A", [1, 0]), ("B", [0, 1]), ("tie", [0.5, 0.5])])
def test_a_choice_answers_our_prompt_of_two_texts_in_the_order_in_which_they_were_shown(
    store, choice, expected, written
):
    import_answers(written(pairwise("b", "a", choice)), RATINGS, store)
    attribute = TEMPLATES.task.attribute("coherence")
    asked = TEMPLATES.choose(CONTEXT, attribute, first="Two.", second="One.")
    other = TEMPLATES.choose(CONTEXT, attribute, first="One.", second="Two.")
    answers = label_log_probs(replayed(store), [asked, other], ("A", "B"))
    assert answers.probs[0].tolist() == expected
    assert list(answers.failures) == [1]


def test_the_signature_names_the_judge_its_prompt_the_benchmark_and_the_file(tmp_path, store):
    file = tmp_path / "rows.jsonl"
    rows = [distribution(prompt_index=index) for index in range(3)] + [distribution(judge="K"), pairwise()]
    file.write_text("\n".join(map(json.dumps, rows)))
    imported = import_answers(file, RATINGS, store)
    (digest,) = {engine.rpartition(":")[2] for engine in imported.engines}
    assert len(digest) == 12
    assert list(imported.engines) == [
        f"model:{judge}|prompt:theirs{index}|benchmark:toy|published:{digest}"
        for judge, index in (("J", "/0"), ("J", "/1"), ("J", "/2"), ("K", "/0"), ("J", ""))
    ]
    assert label_log_probs(replayed(store, "J|prompt:theirs/2"), [rate()], FIVE).failures == {}
    file.write_text(file.read_text() + "\n")
    assert digest not in next(iter(import_answers(file, RATINGS, store).engines))


def test_answers_that_are_there_are_not_new(store, written):
    assert import_answers(written(distribution(), pairwise()), RATINGS, store).n_new == 2
    assert import_answers(written(distribution(), pairwise()), RATINGS, store).n_new == 0


def test_of_two_systems_that_wrote_the_same_the_first_answer_counts_and_the_second_is_named(store, written):
    other = {"1": None, "2": None, "3": None, "4": None, "5": -0.0}
    imported = import_answers(written(distribution(), distribution("same", other)), RATINGS, store)
    assert imported.repeated == ("row 2, c1/same/coherence",)
    assert imported.engines.popitem()[1] == 1
    assert label_log_probs(replayed(store), [rate()], FIVE).log_probs[0, 2] == -0.25


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (distribution("z"), "toy has no text of 'z' for context 'c1'"),
        (distribution(context_id="c9"), "toy has no text of 'a' for context 'c9'"),
        (distribution(context_id="c2"), "the text of context 'c2' is not known"),
        (distribution(benchmark="summeval"), "it is about 'summeval', not about toy"),
        (distribution(attribute="style"), "toy has no attribute 'style', but coherence, quality"),
        (distribution(judge=None), "judge is None"),
        (distribution(logprobs={"1": 0.5, "2": -1}), "expected at most 0"),
        (distribution(logprobs={"1": -math.inf}), "logprobs is -inf, expected a number"),
        (distribution(logprobs={"1": -1, "3": -1}), "logprobs are of 1, 3, expected all whole numbers between"),
        (distribution(logprobs={"good": -1}), "expected whole numbers -> log-probabilities"),
        (pairwise("a", "z"), "toy has no text of 'z'"),
        (pairwise(choice="C"), "choice is 'C', expected A, B or tie"),
        ({"kind": "score"}, "kind is 'score', expected score_distribution. Scores go through score_rows"),
        ({"kind": "generated_reference"}, "kind is 'generated_reference'"),
    ],
)
def test_a_row_that_cannot_be_used_is_named_and_the_others_are_imported(store, row, said, written):
    imported = import_answers(written(row, pairwise()), RATINGS, store)
    assert imported.n_new == 1
    (line,) = imported.left_out
    assert "row 1" in line
    assert said in line


def test_a_file_without_a_usable_row_is_an_error(tmp_path, store, written):
    with pytest.raises(InputError, match=r"holds no answers about the texts of toy.*the first of 1 rows: .*no text of"):
        import_answers(written(distribution("z")), RATINGS, store)
    with pytest.raises(InputError, match="there is no such file"):
        import_answers(tmp_path / "nowhere.jsonl", RATINGS, store)


# ------------------------------------------------------------------------------------------------- scores


def score(system="a", value=4, method="rts", **changes):
    row = {"kind": "score", "context_id": "c1", "system": system, "attribute": "coherence", "judge": "J"}
    return row | {"method": method, "score": value} | changes


def test_scores_become_rows_that_join_with_ratings(written):
    rows = score_rows(
        written(score("a", 4), score("b", 2.5), score("a", 3, repeat=1), score("a", 1, "mcq")), "method:rts"
    )
    assert [(row["id"], row["score"], row["n_repeats"]) for row in rows] == [("c1/a", 3.5, 2), ("c1/b", 2.5, 1)]
    joined = join(RATINGS, rows)
    np.testing.assert_array_equal(joined.scores["coherence"].values, [3.5, 2.5, np.nan, np.nan])
    assert str(joined.scores["coherence"].signature).startswith("model:J|prompt:theirs|method:rts|published:")


def test_scores_of_several_methods_are_an_error_that_lists_them(written):
    with pytest.raises(InputError, match=r"2 judges, prompts and methods, expected one:\n  model:J.*rts.*\n  .*mcq"):
        score_rows(written(score(), score(method="mcq")))
    with pytest.raises(
        InputError, match=r"scores whose signature contains 'x' of 0 judges, prompts and methods.* none"
    ):
        score_rows(written(score()), "x")
    with pytest.raises(InputError, match="kind is 'pairwise', expected score"):
        score_rows(written(pairwise()))


def test_judges_and_prompts_are_told_apart_and_prompts_are_not_averaged(written):
    rows = [score(value=k, judge=judge, prompt_index=k) for judge in "JK" for k in (1, 2)]
    with pytest.raises(InputError, match="scores of 4 judges, prompts and methods"):
        score_rows(written(*rows))
    (row,) = score_rows(written(*rows), "model:K|prompt:theirs/2")
    assert (row["score"], row["n_repeats"]) == (2, 1)


def test_a_text_whose_score_cannot_be_read_is_unscored_and_the_others_are_scored(written):
    rows = score_rows(written(score("a", None), score("b", 2), score("c", 3), score("c", "?")))
    assert [(row["score"], row["status"]) for row in rows] == [(None, "unscored"), (2, "ok"), (3, "partial")]
    assert "score is None, expected a number" in rows[0]["reason"]


def test_published_scores_become_rows_on_the_command_line(tmp_path, capsys):
    write_rows([score("a", 4), score("a", 1, "mcq"), score("b", None)], tmp_path / "published.jsonl")
    file = str(tmp_path / "scores.jsonl")
    assert main(["scores", str(tmp_path / "published.jsonl"), "method:rts", "-o", file]) == 3
    assert "2 scores, 1 partial or unscored; model:J|prompt:theirs|method:rts" in capsys.readouterr().err
    assert join(RATINGS, file).scores["coherence"].values[0] == 4


# ------------------------------------------------------------------------------------------------- the command


def summeval_part(tmp_path):
    """A folder with a SummEval of 50 contexts of 16 systems, all of whose texts differ, and two rows about it."""
    human = dict.fromkeys(("coherence", "consistency", "fluency", "relevance"), 3)
    rows = [
        {"context_id": f"c{c}", "context": f"Article {c}.", "system": f"M{k}", "text": f"Text {k}.", "human": human}
        for c in range(50)
        for k in range(16)
    ]
    (tmp_path / "summeval.jsonl").write_text("\n".join(map(json.dumps, rows)))
    answers = [distribution("M1", benchmark="summeval"), pairwise("M1", "M2", benchmark="summeval", judge="K")]
    (tmp_path / "judges.jsonl").write_text("\n".join(map(json.dumps, answers)))
    return ["import", str(tmp_path / "judges.jsonl"), "--benchmark", "summeval", "--data", str(tmp_path)]


def test_the_command_prints_how_each_judge_is_replayed(tmp_path, capsys):
    command = [*summeval_part(tmp_path), "-o", str(tmp_path / "judges.sqlite")]
    assert main(command) == 0
    err = capsys.readouterr().err
    name = f"recorded:{tmp_path / 'judges.sqlite'}#model:J|prompt:theirs/0|benchmark:summeval"
    assert f"1 answer: --model '{name}'" in err
    assert "2 new answers" in err
    prompt = TEMPLATES.rate(
        Context("c1", "Article 1."), TEMPLATES.task.attribute("coherence"), text="Text 1.", low=1, high=5
    )
    assert label_log_probs(open_engine(name), [prompt], FIVE).failures == {}
    assert main(command) == 0
    assert "0 new answers" in capsys.readouterr().err


def test_rows_that_could_not_be_used_show_in_the_exit_code(tmp_path, capsys):
    command = [*summeval_part(tmp_path), "-o", str(tmp_path / "judges.sqlite")]
    with (tmp_path / "judges.jsonl").open("a") as file:
        file.write("\n" + json.dumps(distribution("M99", benchmark="summeval")))
        file.write("\n" + json.dumps(distribution("M1", benchmark="summeval")))
        file.write("\n" + json.dumps(distribution("M3", dict.fromkeys(FIVE), benchmark="summeval")))
    assert main(command) == 3
    err = capsys.readouterr().err
    assert "1 row could not be used" in err
    assert "summeval has no text of 'M99'" in err
    assert "1 row with the question of an earlier row; the first answer counts, such as row 4, c1/M1/coherence" in err
    assert "1 row without any label that is told; no method scores their texts, such as row 5, c1/M3/coherence" in err


def test_the_command_needs_to_be_told_the_store(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(summeval_part(tmp_path))
    assert "-o" in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------- data at hand


def published(name):
    with gzip.open(SHARED / "judge_outputs" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@pytest.mark.slow
@needs_data
@pytest.mark.parametrize(
    ("name", "benchmark", "n_rows", "n_judges", "n_untold"),
    [
        ("summeval_score_distributions", "summeval", 19200, 6, 634),
        ("dialsummeval_score_distributions", "dialsummeval", 8400, 2, 0),
        ("summeval_pairwise_chatgpt", "summeval", 4400, 1, 0),
    ],
)
def test_every_published_row_is_an_answer_or_is_counted(store, name, benchmark, n_rows, n_judges, n_untold):
    ratings = load_benchmark(benchmark, SHARED)
    imported = import_answers(SHARED / "judge_outputs" / f"{name}.jsonl.gz", ratings, store)
    assert imported.left_out == ()
    assert len(imported.engines) == n_judges
    assert imported.n_new + len(imported.repeated) == n_rows
    assert len(imported.untold) == n_untold


@pytest.mark.slow
@needs_data
def test_every_first_answer_comes_back_as_it_was_published(store, written):
    ratings = load_benchmark("summeval", SHARED)
    rows = [row for row in published("summeval_score_distributions") if row["judge"].startswith("Qwen")]
    import_answers(written(*rows), ratings, store)
    texts = {(text.context_id, text.system): text.text for text in ratings}
    prompts, first = [], {}
    for row in rows:
        prompt = TEMPLATES.rate(
            ratings.contexts[row["context_id"]],
            TEMPLATES.task.attribute(row["attribute"]),
            text=texts[row["context_id"], row["system"]],
            low=1,
            high=5,
        )
        prompts.append(prompt)
        first.setdefault(prompt.text, row["logprobs"])
    answers = label_log_probs(replayed(store), prompts, FIVE)
    expected = [[FLOOR if (told := first[p.text][label]) is None else told for label in FIVE] for p in prompts]
    np.testing.assert_array_equal(answers.log_probs, expected)


@pytest.mark.slow
@needs_data
def test_the_positions_of_chatgpts_choices_come_back(store, written):
    ratings = load_benchmark("summeval", SHARED)
    rows = published("summeval_pairwise_chatgpt")
    import_answers(written(*rows), ratings, store)
    texts = {(text.context_id, text.system): text.text for text in ratings}
    prompts = [
        TEMPLATES.choose(
            ratings.contexts[row["context_id"]],
            TEMPLATES.task.attribute(row["attribute"]),
            first=texts[row["context_id"], row["system_a"]],
            second=texts[row["context_id"], row["system_b"]],
        )
        for row in rows
    ]
    probs = label_log_probs(replayed(store), prompts, ("A", "B")).probs[:, 0]
    said = Counter({1.0: 0, 0.5: 0, 0.0: 0})
    said.update(probs.tolist())
    theirs = Counter(row["choice"] for row in rows)
    assert abs(said[1.0] - theirs["A"]) + abs(said[0.0] - theirs["B"]) <= 2 * 24  # but for 24 repeated questions


@pytest.mark.slow
@needs_data
@pytest.mark.parametrize("method", ["rts", "altrts", "mcq", "altmcq", "stareval"])
def test_chatgpts_scores_join_with_the_ratings_of_12_systems(method):
    ratings = load_benchmark("summeval", SHARED)
    file = SHARED / "judge_outputs" / "summeval_scores_chatgpt.jsonl.gz"
    joined = join(ratings, score_rows(file, f"method:{method}"))
    assert not joined.unmatched
    assert not joined.errors
    for attribute in ratings.attributes:
        assert np.isfinite(joined.scores[attribute].values).sum() == 600


def test_a_benchmark_that_is_not_there_is_an_error(tmp_path, capsys):
    assert main(["import", "x.jsonl", "--benchmark", "hanna", "--data", str(tmp_path), "-o", "s.sqlite"]) == 1
    assert BenchmarkError.__name__ in capsys.readouterr().err
