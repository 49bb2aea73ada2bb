"""A tiny `vllm run-batch`: answers a file of questions with a ModelServer, by the very code that answers live.

python -m tests.batch_runner IN.jsonl OUT.jsonl MODEL
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from synthscore.engines import open_engine
from synthscore.errors import EngineError
from tests.model_server import ModelServer, Refused


def run_batch(questions: str | Path, answers: str | Path, server: ModelServer) -> int:
    """Answer each line, in order, as vLLM's file has it. How many."""
    lines = Path(questions).read_text("utf-8").splitlines()
    with open(answers, "w", encoding="utf-8") as out:
        for n, line in enumerate(lines):
            out.write(json.dumps({"id": f"vllm-{n}", **answered(json.loads(line), server)}) + "\n")
    return len(lines)


def answered(line: dict, server: ModelServer) -> dict:
    row = {"custom_id": line["custom_id"], "response": None, "error": None}
    try:
        body = server.post(line["url"], line["body"] | {"model": server.engine.name})
    except (Refused, EngineError) as error:
        return row | {"response": {"status_code": 400, "body": None}, "error": {"error": {"message": str(error)}}}
    return row | {"response": {"status_code": 200, "request_id": "r", "body": body | {"model": line["body"]["model"]}}}


if __name__ == "__main__":
    source, output, model = sys.argv[1:]
    run_batch(source, output, ModelServer(open_engine(model, dtype="float32"), model))
