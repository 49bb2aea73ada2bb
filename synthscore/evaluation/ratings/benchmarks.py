"""A folder with the files of a benchmark -> Ratings, checked against what its release holds. Nothing is downloaded.

A file is of our own form (NAME.jsonl or NAME.jsonl.gz, docs/benchmarks.md), or as its authors released it
(official.py). It lies in the folder, or in a folder NAME there.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from ...errors import BenchmarkError, InputError
from ...io.fields import Row
from ...io.files import read_rows
from . import official
from .official import OurRow
from .read import Found, collect
from .types import Ratings

Scale = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Form:
    """A file as its authors released it. file : its name; it may hold a *"""

    file: str
    read: Callable[[Path], Iterator[OurRow]]


@dataclass(frozen=True, slots=True)
class Benchmark:
    """What a benchmark is, and what its release holds.

    scales : attribute -> (lowest, highest) rating, or None where there are no bounds
    asked_as : attribute -> the task's attribute of the same meaning, where their names differ
    size : contexts and texts of the full release; None: not known, and not checked
    part : contexts and texts of a part that is in circulation
    not_read : what people said of these texts, too
    home, how, licence : where it is from, how to get it, what its source states; as of the writing of this table
    """

    name: str
    title: str
    task: str
    scales: Mapping[str, Scale | None]
    size: tuple[int, int] | None
    forms: tuple[Form, ...]
    home: str
    licence: str
    how: str = "Download it from there"
    asked_as: Mapping[str, str] = field(default_factory=dict)
    part: tuple[int, int] | None = None
    not_read: tuple[str, ...] = ()


_FIVE = (1.0, 5.0)
_SUMMARY = dict.fromkeys(("coherence", "consistency", "fluency", "relevance"), _FIVE)
_USR: dict[str, Scale] = {
    "understandability": (0, 1),
    "naturalness": (1, 3),
    "coherence": (1, 3),
    "engagingness": (1, 3),
    "groundedness": (0, 1),
    "overall": _FIVE,
}
_NEWSROOM = dict.fromkeys(("coherence", "fluency", "informativeness", "relevance"), _FIVE)
_SF = dict.fromkeys(("informativeness", "naturalness", "overall"), (1.0, 6.0))
_SF_ASKED = {"informativeness": "semantics", "naturalness": "fluency"}

_ALL = (
    Benchmark(
        name="summeval",
        title="SummEval (Fabbri et al. 2021): summaries of CNN/DailyMail articles by 16 systems",
        task="summarization",
        scales=_SUMMARY,
        size=(100, 1600),
        part=(50, 800),
        not_read=("ratings by crowd workers: SummEval's scores are those of its experts",),
        forms=(
            Form("model_annotations.aligned.paired.jsonl", official.summeval),
            Form("model_annotations.aligned.jsonl", official.summeval),
            Form("summeval.json", partial(official.unieval, attributes=tuple(_SUMMARY))),
        ),
        home="https://github.com/Yale-LILY/SummEval",
        how="Download model_annotations.aligned.jsonl, and put the articles in with its data_processing/pair_data.py",
        licence="MIT License",
    ),
    Benchmark(
        name="topicalchat",
        title="Topical-Chat responses with USR ratings (Mehri & Eskenazi 2020), 6 a conversation",
        task="dialogue",
        scales=_USR,
        size=(60, 360),
        forms=(
            Form("tc_usr_data.json", partial(official.usr, prefix="tc")),
            Form("topical_chat.json", partial(official.unieval, attributes=tuple(_USR), prefix="tc")),
        ),
        home="http://shikib.com/usr",
        how="Download tc_usr_data.json from there, or UniEval's reproduce/data/dialogue/topical_chat.json",
        licence="not stated (UniEval's copy: MIT License)",
    ),
    Benchmark(
        name="personachat",
        title="PersonaChat responses with USR ratings (same study), 5 a conversation",
        task="dialogue",
        scales=_USR,
        size=(60, 300),
        forms=(Form("pc_usr_data.json", partial(official.usr, prefix="pc")),),
        home="http://shikib.com/usr",
        how="Download pc_usr_data.json from there",
        licence="not stated (cambridgeltl/zepo's copy: MIT License)",
    ),
    Benchmark(
        name="hanna",
        title="HANNA (Chhun et al. 2022): stories for 96 prompts by 10 systems and a person",
        task="story",
        scales=dict.fromkeys(("relevance", "coherence", "empathy", "surprise", "engagement", "complexity"), _FIVE),
        size=(96, 1056),
        forms=(Form("hanna_stories_annotations.csv", official.hanna),),
        home="https://github.com/dig-team/hanna-benchmark-asg",
        how="Download hanna_stories_annotations.csv from there",
        licence="MIT License",
    ),
    Benchmark(
        name="newsroom",
        title="NewsRoom human evaluation (Grusky et al. 2018): summaries of 60 articles by 7 systems",
        task="summarization",
        scales=_NEWSROOM,
        asked_as={"informativeness": "relevance", "relevance": "consistency"},
        size=(60, 420),
        forms=(
            Form("newsroom-human-eval.csv", official.newsroom),
            Form(
                "newsroom.json",
                partial(official.unieval, attributes=tuple(_NEWSROOM), plain=official.plain_html),
            ),
        ),
        home="https://github.com/lil-lab/newsroom/tree/master/humaneval",
        how="Download newsroom-human-eval.csv from there, or data/newsroom/newsroom.json of cambridgeltl/PairS",
        licence="Apache License, Version 2.0",
    ),
    Benchmark(
        name="webnlg",
        title="WebNLG 2017 human evaluation (Gardent et al.): texts for 223 sets of triples by 9 systems and a person",
        task="data_to_text",
        scales=dict.fromkeys(("fluency", "grammar", "semantics"), (1.0, 3.0)),
        size=(223, 2230),
        forms=(Form("all_data_final_averaged.csv", official.webnlg),),
        home="https://gitlab.com/webnlg/webnlg-human-evaluation",
        how="Download all_data_final_averaged.csv from there, and all_data_final_scores_anonymised.csv beside it",
        licence="not stated",
    ),
    Benchmark(
        name="podcast",
        title="Podcast Summary Assessment (Manakul & Gales 2022): summaries of 179 podcasts by 20 systems",
        task="summarization",
        scales={"overall": (0.0, 3.0)},
        asked_as={"overall": "relevance"},
        size=(179, 3580),
        not_read=("answers to eight yes/no questions",),
        forms=(
            Form("podcast_summary_assessment.json", official.podcast),
            Form("evaluation*.parquet", official.podcast),
        ),
        home="https://github.com/potsawee/podcast_summary_assessment",
        how="Follow the link there; the transcripts are those of Spotify's podcast dataset, whose terms apply",
        licence="CC BY 4.0 (its page on the Hugging Face hub)",
    ),
    Benchmark(
        name="cmcqrd",
        title="Cambridge Multiple-Choice Questions Reading Dataset (Mullooly et al. 2023): exam questions by passage",
        task="question",
        scales={"difficulty": None},
        size=None,
        forms=(
            Form("CMCQRD.jsonl", official.cmcqrd),
            Form("Cambridge Multiple-Choice Questions Reading Dataset.jsonl", official.cmcqrd),
        ),
        home="https://englishlanguageitutoring.com/datasets/cambridge-multiple-choice-questions-reading-dataset",
        how="Ask for it there, and accept its licence",
        licence="an agreement of its own, for research",
    ),
    Benchmark(
        name="dialsummeval",
        title="DialSummEval (Gao & Wan 2022): summaries of 100 SAMSum dialogues by 14 systems",
        task="summarization",
        scales=_SUMMARY,
        size=(100, 1400),
        forms=(
            Form("human_judgment.jsonl", official.dialsummeval),
            Form("annotation_campus/human_judgment.jsonl", official.dialsummeval),
        ),
        home="https://github.com/kite99520/DialSummEval",
        how="Download annotation_campus/human_judgment.jsonl from there",
        licence="not stated",
    ),
    *(
        Benchmark(
            name=name,
            title=f"{name.upper()} (Wen et al. 2015): what a dialogue system says of {what}",
            task="data_to_text",
            scales=_SF,
            asked_as=_SF_ASKED,
            size=size,
            forms=(Form(f"{name}.json", partial(official.unieval, attributes=tuple(_SF), prefix=name)),),
            home="https://github.com/maszhongming/UniEval",
            how=f"Download reproduce/data/data2text/{name}.json from there",
            licence="MIT License (of UniEval's repository)",
        )
        for name, what, size in (("sfres", "restaurants", (580, 1181)), ("sfhot", "hotels", (398, 875)))
    ),
)

BENCHMARKS: Mapping[str, Benchmark] = {benchmark.name: benchmark for benchmark in _ALL}
"""Name -> benchmark."""


def load_benchmark(name: str, folder: str | Path) -> Ratings:
    """The ratings of a benchmark, whose files lie in this folder.

    Ids of texts are "context_id/system"; people's ratings are means that are never rounded. What the release holds and
    this file does not is in Ratings.left_out.
    raises : BenchmarkError for a benchmark that is not known, and for a file that is missing, in another layout, not
        whole (and not a part that is known), with a text twice, or with a rating that is missing or outside its scale
    """
    if name not in BENCHMARKS:
        raise BenchmarkError(f"there is no benchmark {name!r}, expected one of {', '.join(BENCHMARKS)}", benchmark=name)
    benchmark = BENCHMARKS[name]
    file, read = _find(benchmark, Path(folder))
    try:
        scales = {attribute: scale for attribute, scale in benchmark.scales.items() if scale}
        rows = (Row(number, row, str(file)) for number, row in enumerate(read(file), 1))
        found = collect(rows, scales=scales)
    except InputError as error:
        raise _error(benchmark, file, str(error)) from error
    except (AttributeError, KeyError, TypeError) as error:
        raise _error(benchmark, file, f"it is not in the layout that its name says ({error!r})") from error
    left_out = _check(benchmark, file, found)
    return Ratings(
        name=name,
        texts=tuple(found.texts),
        attributes=tuple(benchmark.scales),
        contexts=found.contexts,
        task=benchmark.task,
        scales=scales,
        asked_as=benchmark.asked_as,
        source=f"{file.name}@{hashlib.sha256(file.read_bytes()).hexdigest()[:12]}",
        left_out=left_out,
    )


def _find(benchmark: Benchmark, folder: Path) -> tuple[Path, Callable[[Path], Iterator[OurRow]]]:
    """The file to read, and how. Files of our own form come first, then those of the releases in the table's order."""
    ours = [
        Form(f"{benchmark.name}{end}", partial(_our_rows, benchmark=benchmark.name)) for end in (".jsonl", ".jsonl.gz")
    ]
    for form in (*ours, *benchmark.forms):
        for place in (folder, folder / benchmark.name):
            for file in sorted(place.glob(form.file)):
                return file, form.read
    names = [form.file for form in (*ours, *benchmark.forms)]
    raise BenchmarkError(
        f"there is no {benchmark.name} in {folder}{'' if folder.is_dir() else ', which is no folder'}: looked for "
        f"{', '.join(names)}, there and in {folder / benchmark.name}. {benchmark.how}: {benchmark.home} (licence: "
        f"{benchmark.licence}). synthscore downloads nothing",
        benchmark=benchmark.name,
        folder=folder,
        files=names,
    )


def _our_rows(file: Path, benchmark: str) -> Iterator[OurRow]:
    for row in read_rows(file):
        if isinstance(row, InputError):
            raise row
        values = dict(row.values)
        if values.get("benchmark", benchmark) != benchmark:
            raise InputError(
                f"row {row.number} is of {values['benchmark']}. Give each benchmark a file of its own name"
            )
        raw = values.get("human_raw")
        if isinstance(raw, Mapping) and "expert" in raw:  # SummEval: the turkers' ratings are no part of its means
            values["human_raw"] = raw["expert"]
        yield values | {"facts": official.facts(values.get("facts") or "")}


def _check(benchmark: Benchmark, file: Path, found: Found) -> tuple[str, ...]:
    """raises : BenchmarkError where it is not what the table says. returns : what is left out, for Ratings"""
    if found.errors:
        n = len(found.errors)
        raise _error(benchmark, file, f"{n} of {found.n_rows} rows cannot be used; the first says: {found.errors[0]}")
    for attribute in benchmark.scales:
        unrated = [text.id for text in found.texts if attribute not in text.human]
        if unrated:
            named = ", ".join(unrated[:3])
            raise _error(benchmark, file, f"{len(unrated)} texts have no rating of {attribute}, such as {named}")
    if more := [name for name in found.attributes if name not in benchmark.scales]:
        raise _error(benchmark, file, f"it rates {', '.join(more)}, which {benchmark.name} does not")
    counts = Counter(text.context_id for text in found.texts)
    size = len(counts), len(found.texts)
    left_out = [*found.unrated, *benchmark.not_read]
    if benchmark.size and size == benchmark.part:
        left_out.append(f"{benchmark.size[0] - size[0]} of {benchmark.size[0]} contexts: not in {file.name}")
    elif benchmark.size and size != benchmark.size:
        part = f", or the {_sizes(benchmark.part)} that are in circulation" if benchmark.part else ""
        short = _short(benchmark.size, counts)
        raise _error(benchmark, file, f"it holds {_sizes(size)}{short}", f"{_sizes(benchmark.size)}{part}")
    if unknown := len(counts.keys() - found.contexts.keys()):
        left_out.append(f"{unknown} contexts, and their references: their texts are not in {file.name}")
    return tuple(left_out)


def _sizes(size: tuple[int, int]) -> str:
    return f"{size[1]} texts of {size[0]} contexts"


def _short(size: tuple[int, int], counts: Mapping[str, int]) -> str:
    """Which contexts do not have as many texts as each should; "" where contexts differ in that."""
    a_context, odd = divmod(size[1], size[0])
    short = [] if odd else [f"{name} ({n})" for name, n in counts.items() if n != a_context]
    more = ", ..." if len(short) > 5 else ""
    return f"; {len(short)} contexts do not have {a_context} texts: {', '.join(short[:5])}{more}" if short else ""


def _error(benchmark: Benchmark, file: Path, seen: str, expected: str = "") -> BenchmarkError:
    return BenchmarkError(
        f"cannot use {file} as {benchmark.name}: {seen}{f', expected {expected}' if expected else ''}. "
        f"{benchmark.how}: {benchmark.home}",
        benchmark=benchmark.name,
        file=file,
    )
