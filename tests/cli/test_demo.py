"""`synthscore demo`: the whole way on the data that comes along."""

import math
import re
import shlex
from pathlib import Path

import pytest

from synthscore.cli.app import main
from synthscore.ladders.references import References
from tests.cli.given import read, shown


def words_judge(prompt, labels):
    """Likes the text with more of the context's words in it."""
    context, first, second = re.split(r"\n\n\w+ 1:\n|\n\n\w+ 2:\n", prompt.text)

    def known(text):
        words = re.findall(r"\w+", text.lower())
        return sum(word in context.lower() for word in words) / max(len(words), 1)

    better = 1 / (1 + math.exp(-10 * (known(second) - known(first))))
    return [math.log(0.9 * p) for p in (better, 0.99 - 0.99 * better + 1e-3, 0.01)]


@pytest.mark.slow
def test_the_demo_runs_to_its_end_and_prints_commands_that_work(engine, capsys, folder):
    engine.judge = words_judge
    assert main(["demo", "-o", "out"]) == 0
    out, err = capsys.readouterr()
    assert err.count("model:") == 0
    assert max(map(len, out.splitlines())) <= 100
    commands = [shlex.split(line) for line in re.findall(r"^  \$ (.*)$", re.sub(r" \\\n +", " ", out), re.M)]
    steps = ["references", "generate", "references", "score", "filter", "score", "evaluate", "report"]
    assert [command[1] for command in commands] == steps
    assert Path("out/report.html").is_file()
    asked = engine.n_judged
    before = Path("out/scores.jsonl").read_bytes()
    for command in commands:
        assert main(command[1:]) in (0, 3)
    assert engine.n_judged == asked
    assert Path("out/scores.jsonl").read_bytes() == before
    assert len(read("out/kept.jsonl")) + len(read("out/dropped.jsonl")) == len(read("out/targets.jsonl"))
    shown(out, "Spearman", "system texts unscored mean careful 6 0")


@pytest.mark.slow
def test_the_demo_scores_against_curated_ladders_and_checks_with_others_of_known_order(engine, folder):
    engine.judge = words_judge
    assert main(["demo", "-o", "out"]) == 0
    ladders, others = References.load("out/ladders"), read("out/others.jsonl")
    assert {rung.provenance["model"] for ladder in ladders for rung in ladder.rungs} == {"a large language model"}
    assert {row["human"] for row in others} == {1, 2, 3, 4, 5}
    assert {row["context_id"] for row in others}.isdisjoint(row["context_id"] for row in read("out/targets.jsonl"))
    scored_with = {rung.text for ladder in ladders for rung in ladder.rungs}
    assert scored_with.isdisjoint(row["text"] for row in others)


@pytest.mark.slow
def test_the_demo_goes_on_over_texts_without_a_score_and_leaves_them_out_of_its_means(engine, capsys):
    def often_mute(prompt, labels):
        if len(prompt.text) % 11 == 0:
            raise ValueError("no answer")
        return words_judge(prompt, labels)

    engine.judge = often_mute
    assert main(["demo", "-o", "out"]) == 0
    out, err = capsys.readouterr()
    scores = read("out/scores.jsonl")
    assert {"ok", "unscored"} <= {row["status"] for row in scores}
    shown(out, "by system; unscored texts are left out", "Done in")
    about = [row["synthscore"] for row in read("out/dropped.jsonl")]
    n_open = sum(row["status"] == "unscored" and row["decision"] == "unsure" for row in about)
    assert n_open
    shown(err, f"{n_open} unscored;")
    careful = [row["score"] for row in scores if row["id"].endswith("/careful")]
    known = [score for score in careful if score is not None]
    n_unscored = len(careful) - len(known)
    assert re.search(rf"^    careful +{len(careful)} +{n_unscored} +{sum(known) / len(known):.2f}$", out, re.M)
