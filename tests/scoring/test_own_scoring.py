"""A scoring of one's own, written as one file, works in every verb by its name, without another line changed."""

import json

import pytest

import synthscore as ss
import synthscore.integrations.mount as mount
from synthscore import engines
from synthscore.cli.app import main
from synthscore.integrations.batches import ScoreBatch
from synthscore.scoring.ladder import LadderMethod, TextScoring
from synthscore.scoring.method import Limits
from synthscore.scoring.methods import METHODS
from synthscore.types import Score
from tests.factories import ladder, references
from tests.fakes import FakeEngine
from tests.scoring.test_scorer import soft_judge


class ShareBeaten(TextScoring):
    """The share of its ladder's rungs that a text beats: rungs on which Better is more probable than Worse."""

    name = "share-beaten"

    def limits(self, n_rungs):
        return Limits(low=0.0, high=1.0, words="outside the shares, which are 0 to 1")

    def score_text(self, text, verdicts):
        beaten = verdicts.better[text.pairs] > verdicts.worse[text.pairs]
        return Score(
            id=text.target.id,
            context_id=text.target.context_id,
            attribute=text.attribute,
            value=float(beaten.mean()),
            n_comparisons=len(beaten),
            verdicts=text.verdicts(verdicts),
        )


QUALITIES = (0.5, 2.5, 4.5, 6)
SHARES = {f"t{quality}": sum(quality > level for level in range(1, 6)) / 5 for quality in QUALITIES}
ROWS = [{"id": f"t{quality}", "context_id": "c1", "text": f"text of q={quality} ."} for quality in QUALITIES]


@pytest.fixture
def registered(monkeypatch, tmp_path):
    monkeypatch.setattr(engines, "open_engine", lambda name, **options: FakeEngine(soft_judge))
    monkeypatch.setattr(mount, "_LOADED", {})
    monkeypatch.setattr("synthscore.scoring.methods.METHODS", dict(METHODS))
    ss.register_method("share-beaten", lambda: LadderMethod(ShareBeaten()))
    references(ladder("c1")).save(tmp_path / "ladders")
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_score(registered):
    argv = ["score", "rows.jsonl", "--references", "ladders", "--method", "share-beaten", "-o", "scores.jsonl"]
    assert main(argv) == 0
    rows = lines(registered / "scores.jsonl")
    assert {row["id"]: row["score"] for row in rows} == SHARES
    assert all(row["signature"].endswith("scoring:share-beaten|scale:0..1") for row in rows)


def test_filter_checks_the_threshold_by_the_scale_of_the_scores(registered, capsys):
    argv = ["filter", "rows.jsonl", "--references", "ladders", "--method", "share-beaten", "-o", "kept.jsonl"]
    assert main([*argv, "--min-score", "0.4"]) == 0
    assert [row["id"] for row in lines(registered / "kept.jsonl")] == ["t2.5", "t4.5", "t6"]
    assert main([*argv, "--min-score", "3.5"]) == 1
    assert "the threshold 3.5 is outside the shares, which are 0 to 1" in capsys.readouterr().err
    assert [row["id"] for row in ss.filter(ROWS, "ladders", "j", 0.9, method="share-beaten").kept] == ["t6"]


def test_evaluate(registered):
    rated = [{**row, "human": {"coherence": quality}} for row, quality in zip(ROWS, QUALITIES, strict=True)]
    (registered / "ratings.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rated))
    argv = ["evaluate", "--human", "ratings.jsonl", "--task", "summarization", "--references", "ladders"]
    assert main([*argv, "--methods", "share-beaten", "-o", "run"]) == 0
    rows = lines(registered / "run" / "scores" / "share-beaten.jsonl")
    assert {row["id"]: row["score"] for row in rows} == SHARES


def test_a_mount_and_python(registered):
    made = mount.Mount(references="ladders", method="share-beaten")
    assert {score.id: score.value for score in made.scores(ROWS)} == SHARES
    assert [made.unit(score) for score in made.scores(ROWS)] == list(SHARES.values())
    columns = {"text": [row["text"] for row in ROWS], "context_id": ["c1"] * 4}
    done = ScoreBatch(references="ladders", method="share-beaten")(columns)
    assert done["synthscore"] == list(SHARES.values())
    assert list(ss.Scorer("ladders", "j", scoring=ShareBeaten()).score(ROWS).values) == list(SHARES.values())
