"""The numbers of data/demo stand: scores, filters, rankings, an evaluation and a report, as tests/golden/ holds them.

What is run is named in `runs`, and `argv` alone knows how the command line says it: where a command or an option gets
another name, only `argv` changes. Signatures are not recorded, for they name versions and hashes.

The judge is nano, but its answers are recorded too (golden/answers.json.gz, to 5 decimals): by a hash of the prompt and
the labels, so that all that follows from them is the same on any machine: to the last digit where NumPy, SciPy and the
processor's vector instructions are those of the recording (golden/machine.json), else to 1e-6, without hashes of bytes.
Only the last test asks nano itself.

What is covered: the 102 targets of data/demo on coherence, and the 120 rungs of the first curated ladders, each on its
attribute, against the degraded ladders of tests/data/demo_with_gaps, some of which lack a rung; there, compare in both
orders, and the other protocols in one order (in both for the 30 rungs of coherence); paper and anchored scores; three
filters; all methods of ranking, on the texts of the 12 contexts of summarization; one evaluation; one page of a report.

Where a number is meant to change, run `python -m tests.record_numbers`: it prints what changed, records it anew, and
asks nano only what is not recorded. Say in the commit which numbers changed and why.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import platform
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy

from synthscore import engines
from synthscore.cli.app import main
from synthscore.engine import Prompt, label_log_probs
from synthscore.ladders.references import References
from synthscore.resources import resource
from tests.fakes import FakeEngine

GOLDEN = Path(__file__).parent / "golden"
LADDERS = str(Path(__file__).parent / "data/demo_with_gaps")


def argv(what: str, source: str, output: str, *, store: str = "none", **options: Any) -> list[str]:
    """The command line of a run: what is "score", "filter", "compare", "rank", "evaluate" or "report".

    options : by their names; True for those without a value
    """
    words = [what, source, "-o", output]
    if what == "rank":
        words = ["rank", "--comparisons", source, "-o", output]
    elif what != "report":
        words += ["--store", store]
    if what in ("score", "filter"):
        words += ["--references", LADDERS]
    if options.get("debias") == "threshold":
        options["debias"] = "median"
    for name, value in options.items():
        words += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    return [*words, "--quiet"]


class RecordedJudge:
    """The judge of a FakeEngine that gives recorded answers. answers : key -> log-probability of each label, nats

    asked : all prompts and labels so far, by their keys
    missing : those that are not recorded; labels are then alike, so that the run goes on and the others are seen too
    """

    def __init__(self, answers: dict[str, list[float]]) -> None:
        self.answers = answers
        self.asked: dict[str, tuple[Prompt, tuple[str, ...]]] = {}
        self.missing: dict[str, tuple[Prompt, tuple[str, ...]]] = {}

    def __call__(self, prompt: Prompt, labels: tuple[str, ...]) -> list[float]:
        key = key_of(prompt, labels)
        self.asked[key] = prompt, labels
        if key not in self.answers:
            self.missing[key] = prompt, labels
            return [-2.0] * len(labels)
        return self.answers[key]


def ask(engine: Any, questions: Iterable[tuple[Prompt, tuple[str, ...]]]) -> dict[str, list[float]]:
    """What an engine answers: key -> log-probability of each label, nats."""
    by_labels: dict[tuple[str, ...], list[Prompt]] = {}
    for prompt, labels in questions:
        by_labels.setdefault(labels, []).append(prompt)
    found: dict[str, list[float]] = {}
    for labels, prompts in by_labels.items():
        log_probs = label_log_probs(engine, prompts, labels).log_probs
        found |= {key_of(prompt, labels): row for prompt, row in zip(prompts, log_probs.tolist(), strict=True)}
    return found


def key_of(prompt: Prompt, labels: Sequence[str]) -> str:
    return hashlib.sha256("\0".join([prompt.text, prompt.prefill, *labels]).encode()).hexdigest()[:12]


# ------------------------------------------------------------------------------------------------- what is run


def runs() -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """What, the file that it reads, the name of its numbers, its options; a run may read what those before it wrote."""
    demo, both = {"attribute": "coherence"}, {"both_orders": True}
    yield "score", "targets.jsonl", "demo-both", demo | both | {"verdicts": True}
    yield "score", "targets.jsonl", "demo-one", demo
    yield "score", "targets.jsonl", "demo-min-mass", demo | {"min_mass": 0.9995}
    yield "score", "targets.jsonl", "demo-sampled", demo | both | {"samples": 4, "seed": 1}
    anchored = {"scoring": "anchored"}
    yield "score", "targets.jsonl", "demo-anchored-one", demo | anchored
    yield "score", "targets.jsonl", "demo-anchored-both", demo | both | anchored | {"save_scale": "scale.json"}
    yield "score", "targets.jsonl", "demo-anchored-scale", demo | both | anchored | {"scale": "scale.json"}
    adaptive = anchored | {"scale": "scale.json", "adaptive": True, "min_score": 4}
    yield "score", "targets.jsonl", "demo-anchored-adaptive", demo | both | adaptive

    for scoring in ("paper", "anchored"):
        yield "score", "written.jsonl", f"written-compare-both-{scoring}", both | {"scoring": scoring}
        for protocol in ("compare", "choose", "yes_no", "yes_no_two_sided"):
            options = {"protocol": protocol, "scoring": scoring}
            yield "score", "written.jsonl", f"written-{protocol}-one-{scoring}", options
            yield "score", "coherent.jsonl", f"coherent-{protocol}-both-{scoring}", options | both

    for name in ("filter-paper", "filter-paper-again"):  # the second from what the store holds
        yield "filter", "targets.jsonl", name, demo | both | {"min_score": 4, "store": "answers.sqlite"}
    likely = {"min_score": 4, "alpha": 0.2}
    yield "filter", "targets.jsonl", "filter-anchored", demo | both | anchored | likely
    yield "filter", "targets.jsonl", "filter-anchored-scale", demo | anchored | likely | {"scale": "scale.json"}

    asked = {"task": "summarization", "attribute": "coherence", "contexts": "summarization.jsonl"}
    yield "compare", "candidates.jsonl", "choose-both", asked | {"protocol": "choose"}
    yield "compare", "candidates.jsonl", "choose-one", asked | {"protocol": "choose", "orders": "one"}
    yield "compare", "candidates.jsonl", "compare-both", asked | {"protocol": "compare"}
    yield "compare", "candidates.jsonl", "yes_no-both", asked | {"protocol": "yes_no"}
    options = {"protocol": "choose", "budget": 6, "seed": 1}
    yield "compare", "candidates.jsonl", "choose-greedy", asked | options
    methods = ("win-ratio", "average-probability", "colley", "bt", "poe-bt", "bt-ties", "poe-g", "poe-g-hard")
    for method in (*methods, "likelihood"):
        for source in ("choose-both", "choose-one", "compare-both"):
            yield "rank", f"{source}.jsonl", f"{method}-of-{source}", {"method": method}
        for debias in ("threshold", "mean"):
            yield "rank", "choose-both.jsonl", f"{method}-{debias}", {"method": method, "debias": debias}
    for method, more in [
        *[(method, {"debias": "gamma"}) for method in ("poe-bt", "poe-g")],
        ("poe-bt", {"debias": "mle"}),
        *[(method, {"decisions": "per_call"}) for method in ("win-ratio", "colley", "bt", "poe-g-hard")],
        *[("bt", {"prior": prior}) for prior in ("observed", "none")],
        *[("win-ratio", {"stderr": "bootstrap", "seed": seed}) for seed in (1, 2)],
    ]:
        name = "-".join([method, *map(str, more.values())])
        of = ",".join(f"{option}={more.pop(option)}" for option in ("decisions", "prior") if option in more)
        yield "rank", "choose-both.jsonl", name, {"method": f"{method}:{of}" if of else method} | more
    yield "rank", "yes_no-both.jsonl", "poe-bt-of-yes_no-both", {"method": "poe-bt"}

    cheap = "length,overlap,type-token-ratio,ladder,poe-bt,bt"
    options = {"human": "ratings.jsonl", "methods": cheap, "references": LADDERS, "task": "summarization"}
    yield "evaluate", "demo-one.jsonl", "evaluation", options | {"against": "length"}
    yield "report", "page", "report", {"references": LADDERS, "min_score": 4}


def inputs(folder: Path) -> None:
    """Targets, the first curated rungs as targets, candidates, and what people might have said of them."""
    for name in ("targets", "summarization"):
        (folder / f"{name}.jsonl").write_bytes((resource("data/demo") / f"{name}.jsonl").read_bytes())
    targets = read_rows(folder / "targets.jsonl")
    written = [
        {
            "id": f"{ladder.context_id}/{ladder.attribute}/{rung.level}", "context_id": ladder.context_id,
            "task": ladder.task, "attribute": ladder.attribute, "text": rung.text,
        }
        for ladder in References.load(resource("data/references/curated/first24"))
        for rung in ladder.usable
    ]  # fmt: skip
    coherent = [row for row in written if row["attribute"] == "coherence"]
    candidates = [row for row in [*targets, *coherent] if row["task"] == "summarization"]
    quality = {"careful": 3, "hasty": 2, "broken": 1}
    ratings = [
        row
        | {
            "attribute": "coherence",
            "human": quality[row["system"]] + zlib.crc32(row["id"].encode()) % 5 / 2,
        }  # made up
        for row in targets
        if row["task"] == "summarization"
    ]
    rows = {"written": written, "coherent": coherent, "candidates": candidates, "ratings": ratings}
    for name, some in rows.items():
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in some), encoding="utf-8")


def numbers_of(folder: Path, judge: RecordedJudge, nano: Any = None) -> dict[str, dict[str, Any]]:
    """Run all; file of golden -> name of the run -> its numbers. nano : asked what is not recorded; None: an error"""
    engine = FakeEngine(judge, name="recorded")
    numbers: dict[str, dict[str, Any]] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engines, "open_engine", lambda name, **options: engine)
        patch.chdir(folder)
        inputs(folder)
        for what, source, name, options in runs():
            output = {"evaluate": name, "report": f"{name}.html"}.get(what, f"{name}.jsonl")
            if what == "filter":
                options = options | {other: f"{name}-{other}.jsonl" for other in ("dropped", "unsure")}
            if what == "report":
                _page(folder / source)
            line = argv(what, source, output, **options)
            code = main(line)
            while judge.missing and nano:  # adaptive ones ask further when they are answered
                judge.answers |= {
                    key: np.round(row, 5).tolist() for key, row in ask(nano, judge.missing.values()).items()
                }
                judge.missing.clear()
                code = main(line)
            assert not judge.missing, f"not recorded: {next(iter(judge.missing.values()))}"
            assert code in (0, 1, 3), f"synthscore {' '.join(line)}"  # 1: there are rows, and none could be scored
            numbers.setdefault(what, {})[name] = READERS[what](folder / output)
    return numbers


def _page(folder: Path) -> None:
    """What the report shows."""
    folder.mkdir()
    for name in ("targets", "demo-both", "ratings", "poe-bt-of-choose-both"):
        (folder / f"{name}.jsonl").write_bytes((folder.parent / f"{name}.jsonl").read_bytes())


# ------------------------------------------------------------------------------------------------- what is recorded


def read_rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def of_scores(file: Path) -> dict[str, list[Any]]:
    names = ("score", "stderr", "low", "high", "status")
    return {f"{row['id']} {row['attribute']}": [row[name] for name in names] for row in read_rows(file)}


def of_filter(file: Path) -> dict[str, Any]:
    """Hashes of the bytes, and the same as numbers: what the hash of other words hides."""
    files = {
        "kept": file,
        **{name: file.with_name(f"{file.stem}-{name}.jsonl") for name in ("dropped", "unsure")},
    }
    names = ("score", "stderr", "low", "high")
    found: dict[str, Any] = {f"sha256 {name}": hashlib.sha256(f.read_bytes()).hexdigest() for name, f in files.items()}
    for decision, one in files.items():
        for row in read_rows(one):
            found[row["id"]] = [decision, *([row["synthscore"][name] for name in names] if "synthscore" in row else [])]
    return found


def of_comparisons(file: Path) -> dict[str, list[Any]]:
    strings = ("first", "second", "context_id", "attribute", "signature")
    return {
        f"{index} {row['first']} {row['second']}": [value for name, value in row.items() if name not in strings]
        for index, row in enumerate(read_rows(file))
    }


def of_ranking(file: Path) -> dict[str, list[Any]]:
    names = ("score", "stderr", "rank", "n_comparisons", "status")
    return {row["id"]: [row[name] for name in names] for row in read_rows(file)}


def of_evaluation(folder: Path) -> dict[str, Any]:
    return dict(_leaves(json.loads((folder / "evaluation.json").read_text(encoding="utf-8"))))


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, float | None]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _leaves(inner, f"{path}/{name}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _leaves(inner, f"{path}/{index}")
    elif not isinstance(value, str):
        yield path, value


def of_page(file: Path) -> dict[str, list[str]]:
    """Section -> all numbers that can be read in it, as they are written, without those in the texts shown."""
    page = _Page()
    page.feed(file.read_text(encoding="utf-8"))
    return {
        title: re.findall(r"(?<![\w-])[-+−]?\d+(?: \d{3})*(?:\.\d+)?%?", " | ".join(words))
        for title, words in page.sections.items()
        if title not in ("Signature", "What this is made of")
    }


class _Page(HTMLParser):
    """Title of a section -> what can be read in it."""

    def __init__(self) -> None:
        super().__init__()
        self.sections: dict[str, list[str]] = {"": []}
        self._title, self._within = "", [("", "")]

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "link"):
            self._within.append((tag, dict(attributes).get("class") or ""))

    def handle_endtag(self, tag: str) -> None:
        self._within.pop()

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        pass

    def handle_data(self, data: str) -> None:
        tags, classes = zip(*self._within, strict=True)
        if tags[-1] == "h2":
            self._title = data
            self.sections[data] = []
        elif not {"style", "pre", "title", "footer", "nav"} & set(tags) and not {"whole", "first"} & set(classes):
            self.sections[self._title].append(data)


READERS = {
    "score": of_scores,
    "filter": of_filter,
    "compare": of_comparisons,
    "rank": of_ranking,
    "evaluate": of_evaluation,
    "report": of_page,
}


def machine() -> str:
    """What exp, log and sums follow in their last digit. The same: numbers are compared exactly."""
    cpu = Path("/proc/cpuinfo")  # BLAS chooses its sums by the processor's family and model
    lines = cpu.read_text(encoding="utf-8").splitlines() if cpu.is_file() else [platform.processor()]
    parts = ("vendor_id", "cpu family", "model")
    kind = dict.fromkeys(line.partition(":")[2].strip() for line in lines if line.startswith(parts))
    simd = np.show_config(mode="dicts")["SIMD Extensions"]["found"]
    return f"{platform.machine()} {' '.join(kind)} numpy {np.__version__} scipy {scipy.__version__} {' '.join(simd)}"


def changes(recorded: Mapping[str, Any], found: Mapping[str, Any], *, exact: bool = True) -> list[str]:
    """A line for each number of a run that is another, missing or new."""
    lines = []
    for name in dict.fromkeys([*recorded, *found]):
        before, now = (json.loads(json.dumps(each.get(name, "nothing"))) for each in (recorded, found))
        if before != now and (exact or not _close(before, now)):
            lines.append(f"{name}: {before} -> {now}")
    return lines


def _close(before: Any, now: Any) -> bool:
    """Up to what another processor may do to the last digits; bytes are not compared there."""
    if isinstance(before, list) and isinstance(now, list):
        return len(before) == len(now) and all(map(_close, before, now))
    if isinstance(before, float | int) and isinstance(now, float | int):
        return bool(np.isclose(before, now, rtol=1e-6, atol=1e-9))
    return bool(before == now or (isinstance(before, str) and re.fullmatch("[0-9a-f]{64}", before)))


def load(name: str) -> Any:
    return json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))


def load_answers() -> dict[str, list[float]]:
    return json.loads(gzip.decompress((GOLDEN / "answers.json.gz").read_bytes()))


# ------------------------------------------------------------------------------------------------- tests


@pytest.fixture(scope="module")
def judge():
    return RecordedJudge(load_answers())


@pytest.fixture(scope="module")
def found(judge, tmp_path_factory):
    return numbers_of(tmp_path_factory.mktemp("numbers"), judge)


@pytest.mark.slow
@pytest.mark.parametrize("what", READERS)
def test_numbers_stand_to_the_last_digit(what, found):
    recorded, exact = load(what), load("machine") == machine()
    lines = [
        f"{name}: {line}"
        for name in dict.fromkeys([*recorded, *found[what]])
        for line in changes(recorded.get(name, {}), found[what].get(name, {}), exact=exact)
    ]
    assert not lines, "\n".join([f"{len(lines)} numbers of {what} changed:", *lines[:20]])


@pytest.mark.slow
def test_a_filter_says_the_same_from_the_store(found):
    assert found["filter"]["filter-paper"] == found["filter"]["filter-paper-again"]


@pytest.mark.slow
def test_every_recorded_answer_is_asked_for(judge, found):
    assert set(judge.asked) == set(judge.answers)


@pytest.mark.slow
def test_nano_answers_as_recorded(judge, found):
    """One in 150 of the questions, to 1e-4 nats: float32 on another processor, and batches of other sizes."""
    nano = engines.open_engine("nano")
    keys = sorted(judge.asked)[::150]
    answers = ask(nano, [judge.asked[key] for key in keys])
    for key in keys:
        np.testing.assert_allclose(answers[key], judge.answers[key], rtol=0, atol=1e-4)
