"""Official releases of benchmarks -> rows of our own form. Each reader knows one layout, and nothing of counts.

A row has context_id, context (None where the release does not hold it), system, text, human_raw (attribute -> ratings
of single people) or human (attribute -> mean), and maybe facts and references. A column that is not there is a
BenchmarkError, which names it. Layouts were taken from the releases' own documents and files, except where a docstring
says otherwise; docs/benchmarks.md lists them.
"""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from synthscore.errors import BenchmarkError, InputError
from synthscore.io.fields import shorten
from synthscore.io.files import read_rows

OurRow = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Form:
    """A file that a benchmark may come in. file : its name; it may hold a *"""

    file: str
    read: Callable[[Path], Iterator[OurRow]]


_N_PROMPTS = 96  # of HANNA: stories are numbered system by system, each in the order of the prompts
_GRADES = {"B": 0, "F": 1, "G": 2, "E": 3}  # of the podcasts: bad, fair, good, excellent
_SUMMARY = ("coherence", "consistency", "fluency", "relevance")
_USR = {
    "understandability": "Understandable",
    "naturalness": "Natural",
    "coherence": "Maintains Context",
    "engagingness": "Engaging",
    "groundedness": "Uses Knowledge",
    "overall": "Overall",
}


def summeval(file: Path) -> Iterator[OurRow]:
    """model_annotations.aligned[.paired].jsonl of Yale-LILY/SummEval: the experts' ratings. "paired" has articles."""
    for row in _rows(file, "id", "model_id", "decoded", "references", "expert_annotations"):
        yield {
            "context_id": row["id"],
            "context": row.get("text"),
            "references": row["references"],
            "system": row["model_id"],
            "text": row["decoded"],
            "human_raw": _single(file, row["expert_annotations"], _SUMMARY),
        }


def dialsummeval(file: Path) -> Iterator[OurRow]:
    """annotation_campus/human_judgment.jsonl of kite99520/DialSummEval; turns are joined by " | "."""
    for row in _rows(file, "id", "dialogue", "summary", "annotations", "model_id"):
        yield {
            "context_id": row["id"],
            "context": "\n".join(row["dialogue"].removeprefix("| ").split(" | ")),
            "system": row["model_id"],
            "text": row["summary"],
            "human_raw": _single(file, row["annotations"], _SUMMARY),
        }


def usr(file: Path, prefix: str) -> Iterator[OurRow]:
    """tc_usr_data.json and pc_usr_data.json of the USR study. prefix : of context ids, which it does not have."""
    for number, row in enumerate(_rows(file, "context", "fact", "responses")):
        for response in row["responses"]:
            _require(file, response, "response", "model", *_USR.values())
            yield {
                "context_id": f"{prefix}-{number:03d}",
                "context": row["context"].strip(),
                "facts": facts(row["fact"]),
                "system": response["model"],
                "text": response["response"].strip(),
                "human_raw": {name: response[theirs] for name, theirs in _USR.items()},
            }


def unieval(
    file: Path, attributes: Sequence[str], prefix: str = "", plain: Callable[[str], str] = str.strip
) -> Iterator[OurRow]:
    """The JSON layout of maszhongming/UniEval, which others took over: means alone.

    prefix : of context ids that number the sources; without one, a row's doc_id is its context's id
    plain : what to make of a text
    """
    numbers: dict[str, int] = {}
    places = Counter[str]()
    for row in _rows(file, "source", "system_output", "scores", *(() if prefix else ("doc_id",))):
        _require(file, row["scores"], *attributes)
        number = numbers.setdefault(row["source"], len(numbers))
        context_id = f"{prefix}-{number:03d}" if prefix else str(row["doc_id"])
        system = row.get("system_id") or f"cand{places[context_id]}"
        places[context_id] += 1
        yield {
            "context_id": context_id,
            "context": plain(row["source"]),
            "facts": facts(row.get("context", "")),
            "references": [row["reference"]] if row.get("reference") else [],
            "system": system,
            "text": plain(row["system_output"]),
            "human": {name: row["scores"][name] for name in attributes},
        }


def hanna(file: Path) -> Iterator[OurRow]:
    """hanna_stories_annotations.csv of dig-team/hanna-benchmark-asg: one rating of a story a row."""
    attributes = ("relevance", "coherence", "empathy", "surprise", "engagement", "complexity")
    columns = {name: name.capitalize() for name in attributes}
    prompts: dict[int, tuple[str, str]] = {}
    stories = _grouped(file, ("Story ID", "Model"), columns, "Prompt", "Human", "Story")
    for story, ratings in stories.items():
        row = ratings[0]
        number = int(story[0]) % _N_PROMPTS if story[0].isdecimal() else -1
        first, prompt = prompts.setdefault(number, (story[0], row["Prompt"]))
        if number < 0 or prompt.split() != row["Prompt"].split():
            raise BenchmarkError(
                f"{file}: the prompts of the stories {first!r} and {story[0]!r} differ, expected that stories are "
                f"numbered system by system, {_N_PROMPTS} a system, each in the order of the prompts. Take the file as "
                "released",
                file=file,
            )
        yield {
            "context_id": f"hanna-{number:02d}",
            "context": prompt,
            "references": [row["Human"]],
            "system": row["Model"],
            "text": row["Story"],
            "human_raw": _columns(ratings, columns),
        }


def newsroom(file: Path) -> Iterator[OurRow]:
    """newsroom-human-eval.csv of lil-lab/newsroom: one rating a row, texts in HTML. The raters saw the title, too."""
    columns = {name: f"{name.capitalize()}Rating" for name in ("coherence", "fluency", "informativeness", "relevance")}
    groups = _grouped(file, ("ArticleID", "System"), columns, "ArticleText", "SystemSummary")
    for (article, system), ratings in groups.items():
        yield {
            "context_id": article,
            "context": plain_html(ratings[0]["ArticleText"]),
            "system": system,
            "text": plain_html(ratings[0]["SystemSummary"]),
            "human_raw": _columns(ratings, columns),
        }


def webnlg(file: Path) -> Iterator[OurRow]:
    """all_data_final_averaged.csv of webnlg/webnlg-human-evaluation, with its means; and, where it lies beside,
    all_data_final_scores_anonymised.csv, with the ratings that they are the means of.

    The human text (team "webnlg") is the one reference: further ones are in files that are not read.
    """
    names = ("fluency", "grammar", "semantics")
    theirs = dict(zip(names, ("fluency", "grammaticality", "semantic_adequacy"), strict=True))
    raw_file = file.with_name("all_data_final_scores_anonymised.csv")
    raw = _grouped(raw_file, ("mr", "team"), theirs) if raw_file.exists() else {}
    rows = list(_rows(file, "mr", "team", "text", *names))
    human = {row["mr"]: row["text"].strip() for row in rows if row["team"] == "webnlg"}
    numbers: dict[str, int] = {}
    for row in rows:
        known = raw.get((row["mr"], row["team"]))
        yield {
            "context_id": f"webnlg-{numbers.setdefault(row['mr'], len(numbers)):03d}",
            "context": row["mr"].replace("<br>", "\n"),
            "references": [human[row["mr"]]] if row["mr"] in human else [],
            "system": row["team"],
            "text": row["text"],
            "human": {name: row[name] for name in names},
            "human_raw": _columns(known, theirs) if known else None,
        }


def podcast(file: Path) -> Iterator[OurRow]:
    """podcast_summary_assessment.json of potsawee/podcast_summary_assessment, or its Parquet file; grades B, F, G and E
    become 0 to 3. The eight yes/no questions (`attributes`) are not read."""
    for row in _rows(file, "transcript", "summary", "score", "episode_id", "system_id"):
        if row["score"] not in _GRADES:
            raise BenchmarkError(
                f"{file}: the score of {row['episode_id']}/{row['system_id']} is {shorten(row['score'])}, expected "
                f"one of {', '.join(_GRADES)}. Take the file as released",
                file=file,
            )
        yield {
            "context_id": row["episode_id"],
            "context": row["transcript"],
            "system": row["system_id"],
            "text": row["summary"],
            "human": {"overall": _GRADES[row["score"]]},
        }


def cmcqrd(file: Path) -> Iterator[OurRow]:
    """The JSONL file of the Cambridge Multiple-Choice Questions Reading Dataset: a passage a row, with its questions.

    Its layout is known from programs that read it, not from its own documents: id, title, text, and questions, an
    object of id -> text, options (letter -> text) and diff, the difficulty; null where it was not measured.
    """
    for row in _rows(file, "id", "title", "text", "questions"):
        for number, question in row["questions"].items():
            _require(file, question, "text", "options", "diff")
            options = (f"{letter}) {option['text']}" for letter, option in sorted(question["options"].items()))
            yield {
                "context_id": row["id"],
                "context": f"{row['title']}\n{row['text']}",
                "system": str(number),
                "text": "\n".join((question["text"], *options)),
                "human": {"difficulty": question["diff"]},
            }


# ------------------------------------------------------------------------------------------------- what they share


def _rows(file: Path, *columns: str) -> Iterator[Mapping[str, Any]]:
    for row in read_rows(file):
        if isinstance(row, InputError):
            raise BenchmarkError(f"{row}. Take the file as released", file=file) from row
        _require(f"{file} row {row.number}", row.values, *columns)
        yield row.values


def _require(where: object, values: Mapping[str, Any], *columns: str) -> None:
    if missing := [column for column in columns if column not in values]:
        raise BenchmarkError(
            f"{where}: there is no {', '.join(map(repr, missing))}, but {', '.join(map(repr, values)) or 'nothing'}; "
            f"expected {', '.join(map(repr, columns))}. Is it the file of another release? See docs/benchmarks.md",
            file=where,
            columns=missing,
        )


def _single(file: Path, annotations: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, list[Any]]:
    """One object of ratings a person -> attribute -> ratings."""
    for annotation in annotations:
        _require(file, annotation, *names)
    return {name: [annotation[name] for annotation in annotations] for name in names}


def _grouped(
    file: Path, keys: tuple[str, str], columns: Mapping[str, str], *more: str
) -> dict[tuple[str, str], list[Mapping[str, Any]]]:
    """The rows of each text, where a row is the rating of one person."""
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in _rows(file, *keys, *columns.values(), *more):
        groups.setdefault((row[keys[0]], row[keys[1]]), []).append(row)
    return groups


def _columns(ratings: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> dict[str, list[Any]]:
    return {name: [rating[theirs] for rating in ratings] for name, theirs in columns.items()}


def facts(text: str) -> str:
    """Without the mark with which the USR study says that a speaker was given none."""
    return "" if text.strip() == "_nofact" else text.strip()


def plain_html(text: str) -> str:
    """Paragraphs and entities of HTML, which NewsRoom was shown in, as plain text."""
    return html.unescape(text.replace("</p><p>", "\n")).strip()


# ------------------------------------------------------------------------------------------------- which file is what


_NEWSROOM = ("coherence", "fluency", "informativeness", "relevance")
_SF = ("informativeness", "naturalness", "overall")


def _unieval(file: str, attributes: Iterable[str], prefix: str = "", **more: Any) -> Form:
    return Form(file, partial(unieval, attributes=tuple(attributes), prefix=prefix, **more))


FORMS: Mapping[str, Sequence[Form]] = {
    "summeval": (
        Form("model_annotations.aligned.paired.jsonl", summeval),
        Form("model_annotations.aligned.jsonl", summeval),
        _unieval("summeval.json", _SUMMARY),
    ),
    "topicalchat": (
        Form("tc_usr_data.json", partial(usr, prefix="tc")),
        _unieval("topical_chat.json", _USR, "tc"),
    ),
    "personachat": (Form("pc_usr_data.json", partial(usr, prefix="pc")),),
    "hanna": (Form("hanna_stories_annotations.csv", hanna),),
    "newsroom": (
        Form("newsroom-human-eval.csv", newsroom),
        _unieval("newsroom.json", _NEWSROOM, plain=plain_html),
    ),
    "webnlg": (Form("all_data_final_averaged.csv", webnlg),),
    "podcast": (Form("podcast_summary_assessment.json", podcast), Form("evaluation*.parquet", podcast)),
    "cmcqrd": (
        Form("CMCQRD.jsonl", cmcqrd),
        Form("Cambridge Multiple-Choice Questions Reading Dataset.jsonl", cmcqrd),
    ),
    "dialsummeval": (
        Form("human_judgment.jsonl", dialsummeval),
        Form("annotation_campus/human_judgment.jsonl", dialsummeval),
    ),
    "sfres": (_unieval("sfres.json", _SF, "sfres"),),
    "sfhot": (_unieval("sfhot.json", _SF, "sfhot"),),
}
"""Benchmark -> the files that it may come in, in the order in which they are looked for."""
