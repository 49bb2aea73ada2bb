"""Files of other tools, as those tools write them, read and written."""

import json
import math

import numpy as np
import pytest

from synthscore.cli.app import main
from synthscore.errors import InputError
from synthscore.integrations.formats import read_form, tasks
from synthscore.io.fields import id_of_text
from synthscore.io.files import read_rows
from synthscore.io.scores import score_row
from synthscore.io.write import write_rows
from synthscore.scoring.scorer import Scorer
from synthscore.thresholds.certificate import Certificate
from synthscore.thresholds.labels import Labelled
from tests import factories
from tests.scoring.test_scorer import ladder

from .conftest import text


def sample(doc_id, answer, doc, filter="none"):
    """As lm-eval 0.4.13 writes one."""
    return {
        "doc_id": doc_id, "doc": doc, "target": "", "arguments": {"gen_args_0": {"arg_0": "An article.", "arg_1": {}}},
        "resps": [[f"<think>{answer}"]], "filtered_resps": [answer], "filter": filter, "metrics": ["exact_match"],
        "doc_hash": "d", "prompt_hash": "p", "target_hash": "t", "exact_match": 0.0,
    }  # fmt: skip


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_samples_of_lm_eval_are_scored_by_the_command(judge, tmp_path):
    factories.references(ladder("c1"), ladder(id_of_text("An article."))).save(tmp_path / "ladders")
    rows = [
        sample(0, text(2), {"context_id": "c1", "topic": "sea"}),
        sample(0, text(4), {"context_id": "c1"}, "strict"),
        sample(1, text(4), {"question": "the prompt is the context"}),
        sample(2, [-1.5, True], {"context_id": "c1"}),
        {"doc_id": 3},
    ]
    write_rows(rows, tmp_path / "samples.jsonl")
    command = ["score", "samples.jsonl", "--from", "lm-eval", "--references", "ladders", "-o", "scores.jsonl"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        assert main(command) == 3
    scores = lines(tmp_path / "scores.jsonl")
    assert [row["id"] for row in scores[:3]] == ["0/none", "0/strict", "1/none"]
    expected = Scorer(tmp_path / "ladders", judge).score(
        [{"id": str(k), "context_id": "c1", "text": text(quality)} for k, quality in enumerate((2, 4, 4))]
    )
    assert [row["score"] for row in scores[:3]] == pytest.approx(list(expected.values))
    assert [row["status"] for row in scores[3:]] == ["unscored"] * 2
    assert "it is no row of lm-eval" in scores[4]["reason"]


def test_scores_are_written_as_records_of_inspect_and_events_of_open_telemetry(judge, ladders, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [{"id": "a", "context_id": "c1", "text": text(2)}, {"id": "b", "context_id": "nowhere", "text": text(2)}]
    write_rows(rows, "targets.jsonl")
    for form in ("inspect", "otel"):
        assert main(["score", "targets.jsonl", "--references", ladders, "--to", form, "-o", f"{form}.jsonl"]) == 3
    [score, _] = Scorer(ladders, judge).score(rows)
    [record] = lines(tmp_path / "inspect.jsonl")  # one without a score is left out: Inspect leaves it unscored
    assert (record["id"], record["value"]) == ("a", score.value)
    good, bad = (event["attributes"] for event in lines(tmp_path / "otel.jsonl"))
    assert good["gen_ai.evaluation.name"] == "synthscore coherence"
    assert good["gen_ai.evaluation.score.value"] == score.value
    assert good["synthscore.signature"].startswith("synthscore:")
    assert bad["error.type"] == "unscored"
    assert "gen_ai.evaluation.score.value" not in bad
    assert "no ladder" in bad["gen_ai.evaluation.explanation"]
    assert main(["score", "targets.jsonl", "--references", ladders, "--to", "otel", "--verdicts"]) == 2


# ------------------------------------------------------------------------------------------------- people

ROWS = [{"id": f"t{k}", "context_id": "c1", "text": text(k)} for k in range(1, 21)]


def rated(made, form, rating):
    """What people made of the tasks: as the tool exports them."""
    if form == "argilla":
        answers = [{"user_id": f"u{k}", "value": rating + k, "status": "submitted"} for k in (0, 1)]
        return [{**each, "responses": {"quality": answers}, "status": "completed"} for each in made]
    results = [[{"type": "rating", "from_name": "quality", "value": {"rating": rating + k}}] for k in (0, 1)]
    annotations = [{"result": result, "was_cancelled": False} for result in results]
    annotations.append({"result": [], "was_cancelled": True})
    return [{"id": 7, **each, "annotations": annotations} for each in made]


@pytest.mark.parametrize("form", ["argilla", "label-studio"])
def test_labels_come_back_as_means_joined_by_id(form, judge, ladders, tmp_path):
    made = tasks(read_rows(ROWS), form, n=12, seed=3, contexts={"c1": "An article."})
    assert len(made) == 12
    assert json.dumps(made).count("An article.") == 12
    exported = rated(made[:6], form, 2) + rated(made[6:11], form, 4) + [
        {**made[11], "annotations": [], "responses": None}
    ]  # fmt: skip
    write_rows([score_row(s, Scorer(ladders, judge).signature) for s in Scorer(ladders, judge).score(ROWS)],
               tmp_path / "scores.jsonl")  # fmt: skip
    (tmp_path / "export.json").write_text(json.dumps(exported))
    labels = list(read_form(tmp_path / "export.json", form))
    assert [row["human"] for row in labels] == [2.5] * 6 + [4.5] * 5 + [None]
    labelled = Labelled.load(tmp_path / "scores.jsonl", labels, good_from=4)
    assert (len(labelled), int(labelled.good.sum()), labelled.n_broken) == (11, 5, 0)


@pytest.mark.parametrize("form", ["argilla", "label-studio"])
def test_a_certificate_of_texts_that_were_chosen_is_refused(form, judge, ladders, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_rows(ROWS, "targets.jsonl")
    assert main(["score", "targets.jsonl", "--references", ladders, "-o", "scores.jsonl"]) == 0
    filtered = ["filter", "targets.jsonl", "--references", ladders, "--min-score", "3", "-o", "kept.jsonl"]
    main([*filtered, "--dropped", "dropped.jsonl"])
    chosen, part = "was chosen by its score, expected only texts drawn at random", "texts, but 20 have a score"
    for source, options, said in (
        ("targets.jsonl", ["--sample", "18"], ""),
        ("dropped.jsonl", [], chosen),
        ("kept.jsonl", [], part),  # as they were before they were filtered: nothing in them says it
        ("kept.jsonl", ["--sample", "10"], part),
    ):
        assert main(["export", source, "--to", form, "--references", ladders, *options, "-o", "tasks.json"]) == 0
        made = json.loads((tmp_path / "tasks.json").read_text())
        assert "score" not in str(made).replace("synthscore", "")
        half = len(made) // 2  # the worse ones: rows are in order
        (tmp_path / "export.json").write_text(json.dumps(rated(made[:half], form, 1) + rated(made[half:], form, 4)))
        labels = ["--labels", "export.json", "--labels-from", form, "--good-from", "4", "--confidence", "0.6"]
        capsys.readouterr()
        calibrated = ["calibrate", "scores.jsonl", *labels, "--guarantee", "precision>=0.5", "-o", "c.json"]
        assert main(calibrated) == (1 if said else 0)
        assert said in capsys.readouterr().err
        assert main(["estimate", "scores.jsonl", *labels, "--min-score", "3"]) == (1 if said else 3)  # of one context
        assert said in capsys.readouterr().err
    assert Certificate.load("c.json").drawn == "random"


def test_texts_are_drawn_by_the_seed_and_say_so():
    def drawn(**options):
        made = tasks(read_rows(ROWS), "label-studio", **options)
        return [each["data"]["id"] for each in made], {each["data"]["drawn"] for each in made}

    assert drawn(n=5) == drawn(n=5) != drawn(n=5, seed=1)
    assert drawn(n=5)[1] == {"random"}
    assert drawn() == ([row["id"] for row in ROWS], {"all"})
    counts = np.bincount([int(id[1:]) for seed in range(400) for id in drawn(n=5, seed=seed)[0]], minlength=21)[1:]
    assert abs(counts - 100).max() < 4 * math.sqrt(100)
    with pytest.raises(InputError, match="cannot draw 21 texts: there are 20"):
        drawn(n=21)
