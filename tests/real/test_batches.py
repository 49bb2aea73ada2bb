"""With a real model: a whole job by files alone, answered by a tiny runner; its scores are those of the live route."""

import json
from pathlib import Path

import pytest

from synthscore.cli.app import main
from synthscore.engines import open_engine
from synthscore.ladders.references import References
from synthscore.resources import resource
from tests.batch_runner import run_batch
from tests.real.conftest import MODEL

pytestmark = pytest.mark.slow


def rounds(server, *argv):
    """The same command until it is done, its questions answered in between. How many rounds, and its exit code."""
    questions = f"{argv[0]}-questions.jsonl"  # who writes is another judge, as it needs no tokenizer
    files = ("--questions-to", questions, "--questions-format", "vllm", "--store", "answers.sqlite")
    for n in range(12):
        print(f"$ synthscore {' '.join(argv)} --questions-to {questions}")
        code = main([*argv, "--model", f"batch:{MODEL.stem}", *files])
        print(f"exit code {code}", flush=True)
        if code != 4:
            return n, code
        assert not Path("scores.jsonl").exists()
        run_batch(questions, "out.jsonl", server)
        assert main(["store", "add", "out.jsonl", "--store", "answers.sqlite"]) == 0
    raise AssertionError("it does not come to an end")


def test_a_whole_job_by_files_alone_gives_the_scores_of_the_live_route(server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = resource("data/demo/summarization.jsonl").read_text("utf-8").splitlines()
    first = json.loads(rows[0])
    Path("contexts.jsonl").write_text(json.dumps({"id": first["id"], "text": first["text"][:400]}), "utf-8")
    rows = map(json.loads, resource("data/demo/targets.jsonl").read_text("utf-8").splitlines())
    targets = [row for row in rows if row["context_id"] == first["id"]][:2]  # for time's sake
    Path("targets.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in targets), "utf-8")
    curated = References.load(resource("data/references/curated/first24")).select(attribute="coherence")
    References([ladder for ladder in curated if ladder.context_id == first["id"]]).save("ladders")

    about = ("--task", "summarization", "-a", "coherence")
    n_rounds, _ = rounds(server, "generate", "contexts.jsonl", *about, "-o", "written", "--max-new-tokens", "24")
    assert n_rounds >= 2  # the extremes, and, of texts that this small model wrote well enough, what lies between
    on = ("--references", "ladders", *about, "--tokenizer", server.root)  # curated, for its own may have gaps
    assert rounds(server, "score", "targets.jsonl", *on, "-o", "scores.jsonl")[0] == 1
    by_file = [json.loads(line) for line in Path("scores.jsonl").read_text("utf-8").splitlines()]
    assert [row["status"] for row in by_file] == ["ok", "ok"]
    Path("scores.jsonl").unlink()
    assert rounds(server, "filter", "targets.jsonl", *on, "--min-score", "2", "-o", "kept.jsonl")[0] == 0

    live = open_engine(server.url, method="ids", tokenizer=server.root)
    monkeypatch.setattr("synthscore.engines.open_engine", lambda name, **options: live)
    assert main(["score", "targets.jsonl", *on[:-2], "--model", "live", "--store", "none", "-o", "live.jsonl"]) in (
        0,
        3,
    )
    rows = [json.loads(line) for line in Path("live.jsonl").read_text("utf-8").splitlines()]
    numbers = [[row[name] for name in ("id", "score", "raw", "unit", "label_mass")] for row in rows]
    assert numbers == [[row[name] for name in ("id", "score", "raw", "unit", "label_mass")] for row in by_file]
