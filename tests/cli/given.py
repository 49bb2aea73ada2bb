"""What the verbs are given: ladders and rows whose quality can be read, in files; and how to read what they write."""

import json
import math
import re
from pathlib import Path

from synthscore.cli.app import main
from tests import factories

CONTEXTS = {f"c{i}": f"Article {i}. It has a second sentence, and that is about something else." for i in (1, 2, 3)}


def quality_judge(prompt, labels):
    """Compares the numbers behind "quality" in the two texts; the reference is shown first."""
    reference, target = (float(number) for number in re.findall(r"quality (-?[\d.]+\d|-?\d)", prompt.text))
    better = 1 / (1 + math.exp(-8 * (target - reference)))
    probs = {"Better": better, "Worse": 1 - better, "Similar": 1e-4, "Yes": better, "No": 1 - better}
    probs |= {"A": 1 - better, "B": better}
    return [math.log(max(0.95 * probs[label], 1e-12)) for label in labels]


def ladder(context_id, attribute="coherence", task="summarization", n_rungs=5, failed=(), order=None):
    """order : the qualities of the rungs, worst first"""
    return factories.ladder(
        context_id,
        attribute,
        task,
        n=n_rungs,
        text="A text of quality {quality}, which is all of it.",
        qualities=order,
        failed=failed,
        reason="the model refused",
        context=CONTEXTS[context_id],
        provenance={"writer": "test"},
    )


def target(context_id, quality, **more):
    return {"context_id": context_id, "text": f"Text of quality {quality}.", **more}


def write(name, *rows):
    """A JSONL file; a row that is a text is written as it is."""
    lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
    Path(name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def read(name):
    return parse(Path(name).read_text(encoding="utf-8"))


def parse(text):
    return [json.loads(line) for line in text.splitlines()]


def score(*argv, targets="targets.jsonl"):
    return main(["score", targets, "--references", "ladders", *argv])


def shown(text, *words):
    """All of the words are in the text, however it was wrapped."""
    flat = " ".join(text.split())
    missing = [word for word in words if word not in flat]
    assert not missing, f"{missing} not in: {flat}"
