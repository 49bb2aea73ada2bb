"""Benchmarks: the same texts and ratings from files of our own form and as their authors released them."""

import csv
import gzip
import hashlib
import html
import json
import random
import re
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest

from papers.benchmarks import BENCHMARKS
from papers.official import _USR, FORMS
from synthscore.errors import BenchmarkError
from synthscore.evaluation.benchmarks import load_benchmark
from synthscore.judging.templates import load_task

SHARED = Path(__file__).resolve().parents[3] / "shared" / "benchmarks"
AT_HAND = ("summeval", "topicalchat", "personachat", "webnlg", "dialsummeval", "sfres", "sfhot")
needs_data = pytest.mark.skipif(not SHARED.is_dir(), reason="the benchmarks' files are not here")


# ------------------------------------------------------------------------------------------------- made-up releases

CONTEXT_ID = {
    "topicalchat": "tc-{:03d}",
    "personachat": "pc-{:03d}",
    "hanna": "hanna-{:02d}",
    "webnlg": "webnlg-{:03d}",
    "sfres": "sfres-{:03d}",
    "sfhot": "sfhot-{:03d}",
}


def our_rows(name):
    """Rows of our own form, as many as the release holds, with the ids that readers of releases give."""
    rng = random.Random(name)
    benchmark = BENCHMARKS[name]
    n_contexts, n_texts = benchmark.size or (3, 9)
    each, rest = divmod(n_texts, n_contexts)
    for c in range(n_contexts):
        for k in range(each + (rest if c == n_contexts - 1 else 0)):
            raw = {
                attribute: [rng.randint(*map(int, scale or (40, 90))) for _ in range(3)]
                for attribute, scale in benchmark.scales.items()
            }
            yield {
                "benchmark": name,
                "context_id": CONTEXT_ID.get(name, "c{}").format(c),
                "context": f"Context & {c}.\nSecond line.",
                "facts": f"Fact {c}." if "chat" in name and c else "",
                "references": [f"Reference {c}."],
                "system": {"sfres": "cand{}", "sfhot": "cand{}"}.get(name, "M{}").format(k),
                "text": f"Text {k} for <{c}>.",
                "human": {attribute: sum(values) / len(values) for attribute, values in raw.items()},
                "human_raw": raw,
            }


def people(row, names=None):
    """An object a person."""
    return [
        dict(zip(names or row["human_raw"], values, strict=True))
        for values in zip(*row["human_raw"].values(), strict=True)
    ]


def jsonl(file, rows):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def table(file, rows):
    with file.open("w", encoding="utf-8", newline="") as out:
        writer = csv.DictWriter(out, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def in_html(text):
    return html.escape(text).replace("\n", "</p><p>")


def write_summeval(file, rows):
    texts = [
        {
            "id": row["context_id"],
            "model_id": row["system"],
            "decoded": row["text"],
            "references": row["references"],
            "expert_annotations": people(row),
            "turker_annotations": [dict.fromkeys(row["human"], 1)],
            "filepath": "a.story",
        }
        | ({"text": row["context"]} if "paired" in file.name else {})
        for row in rows
    ]
    jsonl(file, texts)


def write_dialsummeval(file, rows):
    texts = [
        {
            "id": row["context_id"],
            "dialogue": "| " + row["context"].replace("\n", " | "),
            "summary": row["text"],
            "annotations": people(row),
            "model_id": row["system"],
        }
        for row in rows
    ]
    jsonl(file, texts)


def write_usr(file, rows):
    groups = [list(group) for _, group in groupby(rows, key=lambda row: row["context_id"])]
    contexts = [
        {
            "context": group[0]["context"] + "\n\n",
            "fact": (group[0].get("facts") or "_nofact") + "\n",
            "annotators": ["a", "b", "c"],
            "responses": [
                {"response": row["text"] + "\n", "model": row["system"]}
                | {theirs: row["human_raw"][name] for name, theirs in _USR.items()}
                for row in group
            ],
        }
        for group in groups
    ]
    file.write_text(json.dumps(contexts), encoding="utf-8")


def write_unieval(file, rows):
    named = "sf" not in file.name and "newsroom" not in file.name
    hide = in_html if "newsroom" in file.name else str
    texts = [
        {
            "doc_id": number if "sf" in file.name else row["context_id"],
            "source": hide(row["context"]),
            "context": row.get("facts") or "",
            "reference": row["references"][0] if row["references"] else "",
            "system_output": hide(row["text"]),
            "scores": row["human"] | {"overall": row["human"].get("overall", 0)},
        }
        | ({"system_id": row["system"]} if named else {})
        for number, row in enumerate(rows)
    ]
    file.write_text(json.dumps(texts), encoding="utf-8")


def write_hanna(file, rows):
    lines = [
        {
            "Story ID": int(row["system"][1:]) * 96 + int(row["context_id"][-2:]),
            "Prompt": row["context"],
            "Human": row["references"][0],
            "Story": row["text"],
            "Model": row["system"],
            **{name.capitalize(): value for name, value in person.items()},
            "Worker ID": "w",
        }
        for row in rows
        for person in people(row)
    ]
    table(file, lines)


def write_newsroom(file, rows):
    lines = [
        {
            "ArticleID": row["context_id"],
            "System": row["system"],
            "ArticleText": in_html(row["context"]),
            "SystemSummary": in_html(row["text"]),
            "ArticleTitle": "Title",
            **{f"{name.capitalize()}Rating": value for name, value in person.items()},
        }
        for row in rows
        for person in people(row)
    ]
    table(file, lines)


def write_webnlg(file, rows):
    common = [{"mr": row["context"].replace("\n", "<br>"), "team": row["system"], "text": row["text"]} for row in rows]
    table(file, [{"id": 1, **known, **row["human"]} for known, row in zip(common, rows, strict=True)])
    theirs = ("fluency", "grammaticality", "semantic_adequacy")
    lines = [
        {"": 1, **known, **person} for known, row in zip(common, rows, strict=True) for person in people(row, theirs)
    ]
    table(file.with_name("all_data_final_scores_anonymised.csv"), lines)


def write_podcast(file, rows):
    texts = [
        {
            "transcript": row["context"],
            "summary": row["text"],
            "score": "BFGE"[row["human_raw"]["overall"][0]],
            "attributes": [1] * 8,
            "episode_id": row["context_id"],
            "system_id": row["system"],
        }
        for row in rows
    ]
    file.write_text(json.dumps(texts), encoding="utf-8")


def write_cmcqrd(file, rows):
    passages = [
        {
            "id": name,
            "level": "B2",
            "title": "Context & " + name[1:] + ".",
            "text": "Second line.",
            "questions": {
                row["system"]: {
                    "text": row["text"],
                    "options": {letter: {"text": f"option {letter}", "fac": 0.25} for letter in "dcba"},
                    "answer": "a",
                    "diff": row["human_raw"]["difficulty"][0] if k else None,
                }
                for k, row in enumerate(group)
            },
        }
        for name, group in groupby(rows, key=lambda row: row["context_id"])
    ]
    jsonl(file, passages)


RELEASES = [
    ("summeval", "model_annotations.aligned.paired.jsonl", write_summeval),
    ("summeval", "summeval.json", write_unieval),
    ("topicalchat", "tc_usr_data.json", write_usr),
    ("topicalchat", "topical_chat.json", write_unieval),
    ("personachat", "pc_usr_data.json", write_usr),
    ("hanna", "hanna_stories_annotations.csv", write_hanna),
    ("newsroom", "newsroom-human-eval.csv", write_newsroom),
    ("newsroom", "newsroom.json", write_unieval),
    ("webnlg", "all_data_final_averaged.csv", write_webnlg),
    ("dialsummeval", "human_judgment.jsonl", write_dialsummeval),
    ("dialsummeval", "annotation_campus/human_judgment.jsonl", write_dialsummeval),
    ("sfres", "sfres.json", write_unieval),
    ("sfhot", "sfhot.json", write_unieval),
]
ALL = [
    *RELEASES,
    ("podcast", "podcast_summary_assessment.json", write_podcast),
    ("cmcqrd", "CMCQRD.jsonl", write_cmcqrd),
]


def said(ratings, *, by_text=False, names=True):
    """What the ratings say of each text. by_text : contexts go by their text, not by their id"""
    return {
        (
            ratings.contexts[text.context_id].text if by_text else text.context_id,
            text.system if names else text.text,
        ): (text.text, {name: round(value, 9) for name, value in text.human.items()}, text.annotators)
        for text in ratings
    }


@pytest.mark.parametrize(("name", "file", "write"), RELEASES, ids=[f"{name}-{file}" for name, file, _ in RELEASES])
def test_a_release_reads_as_the_same_texts_in_our_own_form(tmp_path, name, file, write):
    rows = list(our_rows(name))
    jsonl(tmp_path / "ours" / f"{name}.jsonl", rows)
    ours = load_benchmark(name, tmp_path / "ours")
    (tmp_path / file).parent.mkdir(exist_ok=True)
    write(tmp_path / file, rows)
    theirs = load_benchmark(name, tmp_path)
    assert theirs.source == f"{Path(file).name}@{hashlib.sha256((tmp_path / file).read_bytes()).hexdigest()[:12]}"
    assert len(theirs) == len(rows)
    named = file != "newsroom.json"
    if write is write_unieval:  # means alone
        expected = {key: (*value[:2], {}) for key, value in said(ours, names=named).items()}
        assert said(theirs, names=named) == expected
    else:
        assert said(theirs) == said(ours)
        assert theirs.texts[0].annotators
    assert {name: context.text for name, context in theirs.contexts.items()} == {
        name: context.text for name, context in ours.contexts.items()
    }
    assert {name: context.facts for name, context in theirs.contexts.items()} == {
        name: context.facts for name, context in ours.contexts.items()
    }
    if write not in (write_usr, write_dialsummeval, write_newsroom, write_webnlg) and named:
        assert theirs.contexts == ours.contexts  # with their references


@pytest.mark.slow
def test_podcasts_are_graded_from_0_to_3(tmp_path):
    rows = list(our_rows("podcast"))
    write_podcast(tmp_path / "podcast_summary_assessment.json", rows)
    ratings = load_benchmark("podcast", tmp_path)
    assert ratings.human("overall").tolist() == [row["human_raw"]["overall"][0] for row in rows]
    assert ratings.left_out == ("answers to eight yes/no questions",)
    rows = json.loads((tmp_path / "podcast_summary_assessment.json").read_text())
    rows[5]["score"] = "A"
    (tmp_path / "podcast_summary_assessment.json").write_text(json.dumps(rows))
    with pytest.raises(BenchmarkError, match="the score of c0/M5 is 'A', expected one of B, F, G, E"):
        load_benchmark("podcast", tmp_path)


def test_questions_without_a_difficulty_are_left_out_and_counted(tmp_path):
    write_cmcqrd(tmp_path / "CMCQRD.jsonl", list(our_rows("cmcqrd")))
    ratings = load_benchmark("cmcqrd", tmp_path)
    assert len(ratings) == 6
    assert ratings.left_out == ("3 texts: nobody rated them, such as 'c0/M0', 'c1/M0', 'c2/M0'",)
    assert ratings.texts[0].text == "Text 1 for <0>.\na) option a\nb) option b\nc) option c\nd) option d"
    assert ratings.contexts["c0"].text == "Context & 0.\nSecond line."


def test_the_means_alone_of_webnlg_do(tmp_path):
    write_webnlg(tmp_path / "all_data_final_averaged.csv", list(our_rows("webnlg")))
    (tmp_path / "all_data_final_scores_anonymised.csv").unlink()
    assert not any(text.annotators for text in load_benchmark("webnlg", tmp_path))


def test_the_human_text_of_webnlg_is_its_reference(tmp_path):
    rows = [row | {"system": "webnlg" if row["system"] == "M9" else row["system"]} for row in our_rows("webnlg")]
    write_webnlg(tmp_path / "all_data_final_averaged.csv", rows)
    assert load_benchmark("webnlg", tmp_path).contexts["webnlg-007"].references == ("Text 9 for <7>.",)


def test_summeval_without_its_articles_is_read_and_says_so(tmp_path):
    rows = list(our_rows("summeval"))
    write_summeval(tmp_path / "model_annotations.aligned.jsonl", rows)
    ratings = load_benchmark("summeval", tmp_path)
    assert len(ratings) == 1600
    assert not ratings.contexts
    assert (
        "100 contexts, and their references: their texts are not in model_annotations.aligned.jsonl" in ratings.left_out
    )
    write_summeval(tmp_path / "model_annotations.aligned.paired.jsonl", rows)  # taken first, where it is there
    assert len(load_benchmark("summeval", tmp_path).contexts) == 100


def test_only_experts_count_in_summeval(tmp_path):
    rows = list(our_rows("summeval"))
    jsonl(
        tmp_path / "summeval.jsonl",
        (row | {"human_raw": {"expert": row["human_raw"], "turker": {"coherence": [1]}}} for row in rows),
    )
    ratings = load_benchmark("summeval", tmp_path)
    assert ratings.texts[0].annotators == {name: tuple(values) for name, values in rows[0]["human_raw"].items()}
    assert ratings.left_out == ("ratings by crowd workers: SummEval's scores are those of its experts",)


def test_a_file_of_our_own_form_comes_before_a_release(tmp_path):
    rows = list(our_rows("topicalchat"))
    write_usr(tmp_path / "tc_usr_data.json", rows)
    assert load_benchmark("topicalchat", tmp_path).source.startswith("tc_usr_data.json@")
    jsonl(tmp_path / "topicalchat" / "topicalchat.jsonl", rows)
    assert load_benchmark("topicalchat", tmp_path).source.startswith("topicalchat.jsonl@")


def test_a_part_is_read_and_says_so(tmp_path):
    rows = list(our_rows("summeval"))
    jsonl(tmp_path / "summeval.jsonl", rows[:800])
    said = "50 of 100 contexts, 800 of 1600 texts: not in summeval.jsonl"
    assert load_benchmark("summeval", tmp_path).left_out[-1] == said
    jsonl(tmp_path / "summeval.jsonl", rows[1:800])
    said = "50 of 100 contexts, 801 of 1600 texts: not in summeval.jsonl; 1 contexts do not have 16 texts: c0 (15)"
    assert load_benchmark("summeval", tmp_path).left_out[-1] == said
    jsonl(tmp_path / "sfres.jsonl", list(our_rows("sfres"))[:-1])
    assert "1 of 1181 texts: not in sfres.jsonl" in load_benchmark("sfres", tmp_path).left_out[-1]


# ------------------------------------------------------------------------------------------------- what is wrong


def wrong(tmp_path, change, name="topicalchat"):
    """What is said of a file whose rows were changed."""
    rows = list(our_rows(name))
    jsonl(tmp_path / f"{name}.jsonl", change(rows))
    with pytest.raises(BenchmarkError) as caught:
        load_benchmark(name, tmp_path)
    assert BENCHMARKS[name].home in str(caught.value)
    assert caught.value.benchmark == name
    return str(caught.value)


def test_a_benchmark_that_is_not_known_is_an_error_that_lists_them():
    with pytest.raises(BenchmarkError, match=r"no benchmark 'sumeval'\. Installed are: summeval, topicalchat, "):
        load_benchmark("sumeval", "nowhere")


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_missing_file_is_an_error_that_says_where_to_get_it(tmp_path, name):
    with pytest.raises(BenchmarkError) as caught:
        load_benchmark(name, tmp_path)
    benchmark = BENCHMARKS[name]
    for part in (f"{name}.jsonl.gz", *(form.file for form in FORMS[name]), benchmark.home, benchmark.licence):
        assert part in str(caught.value)


def test_a_folder_that_is_not_there_is_said_to_be_none(tmp_path):
    with pytest.raises(BenchmarkError, match="which is no folder"):
        load_benchmark("hanna", tmp_path / "nowhere")


def test_more_texts_than_the_release_has_are_an_error(tmp_path):
    said = wrong(tmp_path, lambda rows: [*rows, rows[0] | {"system": "another", "id": "tc-000/another"}])
    assert "it holds 361 texts of 60 contexts, expected 360 texts of 60 contexts" in said


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"text": "again"}, "text 'tc-000/M0' has another text, context or system in row 1"),
        ({}, "is rated on understandability a second time, after row 1"),
    ],
)
def test_a_text_that_is_there_twice_is_an_error(tmp_path, change, expected):
    assert expected in wrong(tmp_path, lambda rows: [*rows, rows[0] | change])


def test_a_rating_outside_its_scale_is_an_error(tmp_path):
    def change(rows):
        rows[3]["human"]["naturalness"], rows[3]["human_raw"]["naturalness"] = 4, [4, 4, 4]
        return rows

    assert re.search("naturalness of .* is 4, expected 1 to 3", wrong(tmp_path, change))


def test_a_mean_that_is_not_that_of_its_annotators_is_an_error(tmp_path):
    def change(rows):
        rows[3]["human"]["naturalness"] += 0.01
        return rows

    assert "row 4: naturalness is" in wrong(tmp_path, change)


def test_a_rating_that_is_missing_is_an_error_that_names_the_text(tmp_path):
    def change(rows):
        for part in ("human", "human_raw"):
            del rows[7][part]["overall"]
        return rows

    assert "1 texts have no rating of overall, such as tc-001/M1" in wrong(tmp_path, change)


def test_an_attribute_that_the_benchmark_does_not_have_is_an_error(tmp_path):
    def change(rows):
        rows[0]["human"]["style"] = 1
        return rows

    assert "it rates style, which topicalchat does not" in wrong(tmp_path, change)


def test_the_file_of_another_benchmark_is_an_error(tmp_path):
    assert "row 1 is of summeval" in wrong(tmp_path, lambda rows: [row | {"benchmark": "summeval"} for row in rows])


@pytest.mark.parametrize(("name", "file", "write"), ALL, ids=[f"{name}-{file}" for name, file, _ in ALL])
def test_a_column_that_a_release_lacks_is_named_with_the_file(tmp_path, name, file, write):
    (tmp_path / file).parent.mkdir(exist_ok=True)
    write(tmp_path / file, list(our_rows(name)))
    text = (tmp_path / file).read_text(encoding="utf-8")
    column = {
        ".csv": "grammar" if name == "webnlg" else "CoherenceRating" if name == "newsroom" else "Story",
        ".jsonl": "diff" if name == "cmcqrd" else "coherence",
        ".json": "Natural" if "usr" in file else "summary" if name == "podcast" else "scores",
    }[Path(file).suffix]
    renamed = f",{column},", f'"{column}"'
    for mark in renamed:
        text = text.replace(mark, mark.replace(column, "else"))
    (tmp_path / file).write_text(text, encoding="utf-8")
    with pytest.raises(
        BenchmarkError, match=rf"{Path(file).name}.*there is no '{column}', but .*expected .*'{column}'"
    ):
        load_benchmark(name, tmp_path)


def test_a_file_of_another_layout_is_an_error_not_a_crash(tmp_path):
    (tmp_path / "tc_usr_data.json").write_text('[{"context": "c", "fact": "f", "responses": 3}]')
    with pytest.raises(BenchmarkError, match="it is not in the layout that its name says"):
        load_benchmark("topicalchat", tmp_path)
    (tmp_path / "tc_usr_data.json").write_text("[1]")
    with pytest.raises(BenchmarkError, match="it is 1, expected an object"):
        load_benchmark("topicalchat", tmp_path)


def test_stories_that_are_not_numbered_by_prompt_are_an_error(tmp_path):
    write_hanna(tmp_path / "hanna_stories_annotations.csv", list(our_rows("hanna")))
    text = (tmp_path / "hanna_stories_annotations.csv").read_text().replace("\n97,", "\n98,")
    (tmp_path / "hanna_stories_annotations.csv").write_text(text)
    with pytest.raises(BenchmarkError, match="the prompts of the stories '98' and '2' differ"):
        load_benchmark("hanna", tmp_path)


# ------------------------------------------------------------------------------------------------- the table


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_attribute_can_be_asked_about(name):
    benchmark = BENCHMARKS[name]
    task = load_task(benchmark.task)
    for attribute in benchmark.scales:
        task.attribute(benchmark.asked_as.get(attribute, attribute))
    assert set(benchmark.asked_as) <= set(benchmark.scales)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_is_documented_with_its_home_and_licence(name):
    docs = (Path(__file__).parents[2] / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    benchmark = BENCHMARKS[name]
    for part in (f"`{name}`", benchmark.home, *(form.file for form in FORMS[name])):
        assert part in docs
    if benchmark.size:
        assert f"{benchmark.size[0]} × " in docs or f"{benchmark.size[1]} texts" in docs


# ------------------------------------------------------------------------------------------------- data at hand


@needs_data
@pytest.mark.parametrize("name", AT_HAND)
def test_the_files_at_hand_are_read_whole(name):
    benchmark, ratings = BENCHMARKS[name], load_benchmark(name, SHARED)
    assert (len(ratings.contexts), len(ratings)) == ((50, 800) if name == "summeval" else benchmark.size)
    assert ratings.attributes == tuple(benchmark.scales)
    for attribute, (low, high) in ((name, scale) for name, scale in benchmark.scales.items() if scale):
        human = ratings.human(attribute)
        assert not np.isnan(human).any()
        assert (human.min(), human.max()) >= (low, low)
        assert human.max() <= high
    digest = hashlib.sha256((SHARED / f"{name}.jsonl.gz").read_bytes()).hexdigest()
    assert ratings.source == f"{name}.jsonl.gz@{digest[:12]}"


@needs_data
def test_known_facts_of_the_data_at_hand_hold():
    summeval = load_benchmark("summeval", SHARED)
    assert summeval.left_out[-1] == "50 of 100 contexts, 800 of 1600 texts: not in summeval.jsonl.gz"
    assert sum(bool(text.annotators) for text in summeval) == 600  # the abstractive systems
    assert all(len(context.references) == 11 for context in summeval.contexts.values())
    webnlg = load_benchmark("webnlg", SHARED)
    assert sum(not text.text for text in webnlg) == 25
    assert sum(text.text == "null" for text in webnlg) == 168
    silent = [name for name, context in load_benchmark("topicalchat", SHARED).contexts.items() if not context.facts]
    assert len(silent) == 8


@needs_data
@pytest.mark.parametrize(
    ("name", "file", "write"),
    [
        release
        for release in RELEASES
        if release[0] in ("topicalchat", "personachat", "webnlg", "dialsummeval", "sfres", "sfhot")
        and "annotation_campus" not in release[1]
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_real_texts_come_through_a_release_unchanged(tmp_path, name, file, write):
    with gzip.open(SHARED / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    write(tmp_path / file, rows)
    ours, theirs = load_benchmark(name, SHARED), load_benchmark(name, tmp_path)
    if write is write_unieval:
        expected = {key: (*value[:2], {}) for key, value in said(ours, by_text=True).items()}
        assert said(theirs, by_text=True) == expected
    else:
        assert said(theirs, by_text=True) == said(ours, by_text=True)
