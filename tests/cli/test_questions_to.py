"""Commands whose questions go to files: they stop with exit code 4, and the same command, run again, ends well."""

import json
import math
import random
from pathlib import Path

import pytest

from synthscore.cli.app import main
from synthscore.cli.messages import INCOMPLETE, OK, STOPPED, USAGE
from synthscore.engine import Prompt
from synthscore.ladders.references import References
from tests.batch_lines import chosen, lines_of, result
from tests.cli.given import CONTEXTS, quality_judge, read, shown, target, write
from tests.models import byte_level, save_without_thinking

TOKENIZER = byte_level()
LABELS = (("Better", "Worse", "Similar"), ("A", "B"), ("Yes", "No"))


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return save_without_thinking(tmp_path_factory.mktemp("tokens") / "tiny")


@pytest.fixture
def asked(tokenizer):
    return ("--model", "batch:m", "--tokenizer", tokenizer, "--questions-to", "q.jsonl", "--questions-format", "vllm")


def judged(line):
    """What the judge by quality would say to a line that asks for the tokens of labels."""
    messages = line["body"]["messages"]
    begun = messages[1]["content"] if len(messages) > 1 else ""
    texts = {token: begun + TOKENIZER.decode([token]) for token in line["body"]["logprob_token_ids"]}
    labels = next(
        each for each in LABELS if all(any(form.startswith(text) for form in forms(each)) for text in texts.values())
    )
    shares = forms(labels, messages[0]["content"])
    here = sum(share for form, share in shares.items() if form.startswith(begun))

    def log_prob_of(token):
        if token not in texts:
            return -9.0
        told = sum(share for form, share in shares.items() if form.startswith(texts[token]))
        return math.log(max(0.99 * told / here, 1e-9))

    return chosen(line, log_prob_of)


def forms(labels, text="quality 1 quality 1"):
    """The forms of labels and their probabilities; of texts without a quality nearly as of equal ones."""
    if "quality" not in text:
        text = f"quality 1 quality {1 + random.Random(text).uniform(-0.2, 0.2)}"
    probs = [math.exp(log_prob) / 2 for log_prob in quality_judge(Prompt(text), labels)]
    return {f"{space}{label}": p for label, p in zip(labels, probs, strict=True) for space in ("", " ")}


def rounds(*argv, answer=judged, most=12):
    """Exit codes of the same command, until it does not stop; its questions answered in between."""
    codes = []
    while len(codes) < most:
        codes.append(main([*argv]))
        if codes[-1] != STOPPED:
            return codes
        write("out.jsonl", *map(answer, lines_of("q.jsonl")))
        assert main(["store", "add", "out.jsonl"]) == OK
    raise AssertionError(codes)


@pytest.fixture
def targets(references):
    write("targets.jsonl", *(target(context_id, quality) for context_id in CONTEXTS for quality in (1.5, 3.5)))


def test_score_writes_its_questions_and_no_scores_then_scores(targets, asked, capsys):
    score = ("score", "targets.jsonl", "--references", "ladders", *asked)
    assert main([*score, "-o", "scores.jsonl"]) == STOPPED
    said = capsys.readouterr()
    assert said.err.splitlines()[-1].startswith("stopped: 30 questions in q.jsonl; have them answered")
    assert not list(Path().glob("scores*"))
    lines = lines_of("q.jsonl")
    assert len({line["custom_id"].partition("-")[0] for line in lines}) == 30

    write("out.jsonl", *map(judged, lines[: len(lines) // 2]))  # half is answered
    main(["store", "add", "out.jsonl"])
    capsys.readouterr()
    assert main([*score]) == STOPPED
    said = capsys.readouterr()
    assert said.out == ""
    assert 0 < len(lines_of("q.jsonl")) < len(lines)

    assert rounds(*score, "-o", "scores.jsonl") == [STOPPED, OK]
    first = Path("scores.jsonl").read_bytes()
    assert {row["status"] for row in read("scores.jsonl")} == {"ok"}
    capsys.readouterr()
    assert main([*score]) == OK
    assert capsys.readouterr().out.encode() == first
    without = [each for each in score if each not in ("--questions-to", "q.jsonl")]
    assert main([*without, "-o", "again.jsonl"]) == OK  # all is in the store
    assert Path("again.jsonl").read_bytes() == first


@pytest.mark.parametrize(
    "argv",
    [
        ("filter", "targets.jsonl", "--references", "ladders", "--min-score", "2", "-o", "o.jsonl"),
        ("score", "targets.jsonl", "--references", "ladders", "--scoring", "anchored", "-o", "o.jsonl"),
        ("compare", "candidates.jsonl", "--task", "summarization", "-a", "coherence", "-o", "o.jsonl"),
        ("rank", "candidates.jsonl", "--task", "summarization", "-a", "coherence", "-o", "o.jsonl"),
        (
            "evaluate", "--human", "people.jsonl", "--task", "summarization", "-a", "coherence", "--methods", "ladder",
            "--references", "ladders", "-o", "o.jsonl",
        ),
    ],
)  # fmt: skip
def test_every_verb_that_asks_stops_once_and_then_comes_to_its_end(argv, targets, asked):
    rows = [target(context_id, quality) for context_id in CONTEXTS for quality in (1.5, 2.5, 3.5)]
    named = [row | {"id": str(n), "context": CONTEXTS[row["context_id"]]} for n, row in enumerate(rows)]
    write("candidates.jsonl", *named)
    write("people.jsonl", *(row | {"human": n % 3, "system": f"s{n % 3}"} for n, row in enumerate(named)))
    codes = rounds(*argv, *asked)
    assert codes[0] == STOPPED
    assert len(codes) == 2
    assert codes[1] in (OK, INCOMPLETE)
    assert Path("o.jsonl").exists()


def test_doctor_asks_on_only_about_what_the_answers_leave_open(asked, capsys):
    codes = rounds("doctor", *asked, "--store", "answers.sqlite", "-o", "doctor.json")
    assert codes.count(STOPPED) == 4  # its example, then 12, 24 and 48 pairs
    report = json.loads(Path("doctor.json").read_text())
    assert report["pairs"] > 0
    assert report["unanswered"] == 0


def test_adaptive_questions_go_in_rounds_and_are_those_of_one_run(targets, asked, tokenizer, capsys):
    full = ("score", "targets.jsonl", "--references", "ladders", "--scoring", "anchored", "--both-orders", *asked)
    assert rounds(*full, "--save-scale", "scale.json", "-o", "full.jsonl") == [STOPPED, OK]
    write("new.jsonl", *(target(context_id, quality) for context_id in CONTEXTS for quality in (2.1, 4.4)))
    argv = ["score", "new.jsonl", *full[2:], "--scale", "scale.json", "--adaptive", "--min-score", "3"]
    codes = rounds(*argv, "-o", "rounds.jsonl", most=40)
    assert len(codes) > 2
    n_asked = {row["id"]: row["questions"] for row in read("rounds.jsonl")}
    again = [each for each in argv if each not in ("--questions-to", "q.jsonl")]
    assert main([*again, "-o", "at-once.jsonl"]) == OK
    assert {row["id"]: row["questions"] for row in read("at-once.jsonl")} == n_asked
    assert main([*[each for each in argv if each != "--adaptive"][:-2], "-o", "o.jsonl"]) == STOPPED  # all the others


def test_ladders_are_written_in_rounds(capsys):
    write("contexts.jsonl", *({"id": name, "text": text} for name, text in CONTEXTS.items()))
    asked = ("--model", "batch:m", "--questions-to", "q.jsonl", "--questions-format", "vllm")
    generate = ("generate", "contexts.jsonl", "--task", "summarization", "-a", "coherence", "-o", "ladders", *asked)
    refused = set()

    def write_text(line):
        draw = random.Random(line["custom_id"])
        if not refused:
            refused.add(line["custom_id"])
            return result(line, "Sorry, I cannot", "refusal")
        words = ["town", "river", "boats", "harbour", "storm", "people", "winter", "mayor", "bridge", "market"]
        return result(line, " ".join([*draw.choices(words, k=20), "again."]).capitalize())

    codes = rounds(*generate, answer=write_text)
    assert codes == [STOPPED] * 4 + [OK]  # three waves, and one ladder is a round behind
    references = References.load("ladders")
    assert [ladder.n_rungs for ladder in references] == [5] * 3
    assert all(rung.status == "ok" for ladder in references for rung in ladder.rungs)
    shown(capsys.readouterr().err, "15 rungs written, 0 failed, in 16 attempts")


def test_the_options_are_of_models_that_are_asked_through_files(targets, capsys):
    score = ("score", "targets.jsonl", "--references", "ladders")
    assert main([*score, "--questions-to", "q.jsonl"]) == USAGE
    shown(capsys.readouterr().err, "--questions-to does nothing with --model nano")
    assert main([*score, "--model", "recorded:a.sqlite", "--questions-format", "vllm"]) == USAGE
    assert main([*score, "--model", "batch:m", "--dry-run", "--questions-to", "q.jsonl"]) == OK
    assert not Path("q.jsonl").exists()
    assert main([*score, "--model", "batch:m"]) == 1
    assert "asked through files alone" in capsys.readouterr().err


def test_store_add_needs_answers_and_a_manifest(folder, capsys):
    assert main(["store", "add"]) == USAGE
    write("out.jsonl", "{}")
    assert main(["store", "add", "out.jsonl"]) == 1
    shown(capsys.readouterr().err, "there is no manifest, which says what was asked")
    assert main(["store", "add", "nothing.jsonl"]) == 1
