"""`synthscore demo`: the whole way on the data that comes along."""

import math
import re
import shlex
from pathlib import Path

import pytest

from synthscore.cli.app import main
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
    steps = ["generate", "generate", "generate", "references", "score", "filter", "score"]
    steps += ["evaluate", "report"]
    assert [command[1] for command in commands] == steps
    assert Path("out/report.html").is_file()
    asked = engine.n_judged
    before = Path("out/scores.jsonl").read_bytes()
    for command in commands:
        assert main(command[1:]) in (0, 3)
    assert engine.n_judged == asked
    assert Path("out/scores.jsonl").read_bytes() == before
    assert len(read("out/kept.jsonl")) + len(read("out/dropped.jsonl")) == len(read("out/targets.jsonl"))
    shown(out, "Spearman", "summarization", "dialogue", "story", "all")


@pytest.mark.slow
def test_the_demo_goes_on_over_texts_without_a_score_and_leaves_them_out_of_its_means(engine, capsys):
    def often_mute(prompt, labels):
        if len(prompt.text) % 3 == 0:
            raise ValueError("no answer")
        return words_judge(prompt, labels)

    engine.judge = often_mute
    assert main(["demo", "-o", "out"]) == 0
    out, err = capsys.readouterr()
    scores = read("out/scores.jsonl")
    n_left_out = sum(row["status"] != "ok" for row in scores)
    assert {"ok", "unscored"} <= {row["status"] for row in scores}
    shown(out, f"by system ({n_left_out} unscored texts left out)", "Done in")
    about = [row["synthscore"] for row in read("out/dropped.jsonl")]
    n_open = sum(row["status"] == "unscored" and row["decision"] == "unsure" for row in about)
    assert n_open
    shown(err, f"{n_open} unscored;")
    careful = [row["score"] for row in scores if row["status"] == "ok" and re.match("sto.*careful", row["id"])]
    assert re.search(rf"^    careful .* {sum(careful) / len(careful):.2f}$", out, re.M)
