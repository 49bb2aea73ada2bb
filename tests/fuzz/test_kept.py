"""What is kept in files, changed: ladders, stores, scales, certificates, evaluations, tasks and templates."""

import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import synthscore as ss
from synthscore.engine import Question, generate, label_log_probs
from synthscore.judging.templates import Templates
from synthscore.ladders.references import References
from synthscore.ladders.release import DATA, MANIFEST
from synthscore.resources import resource
from synthscore.scoring.anchored import Anchors, Scale, Scales
from synthscore.scoring.anchored.scale import Statistic
from synthscore.signature import Signature
from synthscore.store.engine import RecordedEngine
from synthscore.store.file import Store
from synthscore.thresholds.certificate import Certificate
from tests import factories, kills
from tests.fakes import stored_in_batches
from tests.scoring.test_scale import JUDGE
from tests.thresholds.test_rules import certificate

from .changes import as_json, changed_bytes, changed_values, refused, settled

LADDERS = References((factories.ladder(), factories.ladder("c2", failed=(2,), provenance={"writer": "x", "odd": [1]})))
PROMPTS = kills.prompts(12)
TRUTH = {
    question.key(str(kills.SIGNATURE)): kills.truth(question)
    for question in [
        *(Question(prompt, kills.LABELS) for prompt in PROMPTS),
        *(Question(prompt, (), kills.SAMPLING, seed) for seed, prompt in enumerate(PROMPTS[:4])),
    ]
}


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A valid one of each."""
    folder = tmp_path_factory.mktemp("kept")
    LADDERS.save(folder / "ladders")
    with Store(folder / "store.sqlite") as store:
        engine = stored_in_batches(kills.TrueEngine(), store, 5)
        label_log_probs(engine, PROMPTS, kills.LABELS)
        generate(engine, PROMPTS[:4], kills.SAMPLING, range(4))
    anchors = JUDGE.prior(1)
    held = {"c1": Anchors(anchors.rungs[0], 0.1 * anchors.precision[0])}
    scale = Scale(JUDGE, held, "t", "a", kills.SIGNATURE, {"rungs": Statistic(1.0, 0.1, 6.0)})
    Scales([scale]).save(folder / "scale.json")
    certificate().save(folder / "certificate.json")
    return folder


@pytest.fixture(scope="module")
def changed(tmp_path_factory):
    return tmp_path_factory.mktemp("changed")


def test_what_is_changed_below_is_valid(kept):
    assert len(References.load(kept / "ladders")) == 2
    with Store(kept / "store.sqlite") as store:
        assert store.get_many(TRUTH) == TRUTH
    assert Scales.load(kept / "scale.json")
    assert Certificate.load(kept / "certificate.json") == certificate()


@pytest.mark.parametrize("name", ["scale.json", "certificate.json"])
@settled(60)
@given(data=st.data())
def test_a_changed_file_is_used_as_it_is_or_refused(name, data, kept, changed):
    sound = (kept / name).read_bytes()
    if data.draw(st.booleans()):
        content = data.draw(changed_bytes(sound))
    else:
        content = as_json(data.draw(changed_values(json.loads(sound))))
    file = changed / name
    file.write_bytes(content)
    with refused():
        if name == "certificate.json":
            found = Certificate.load(file)
            assert 0 < found.confidence < 1
            assert found.to_json()
        else:
            for scale in Scales.load(file):
                assert scale.hash
                scale.prior(["c1", "c9"])


@settled(80)
@given(data=st.data())
def test_changed_ladders_are_refused(data, kept, changed):
    folder = changed / "ladders"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(kept / "ladders", folder)
    how = data.draw(st.sampled_from(["rows", "bytes", "manifest", "manifest bytes"]))
    sound = (folder / (MANIFEST if "manifest" in how else DATA)).read_bytes()
    if how == "rows":
        rows = data.draw(changed_values(pq.read_table(kept / "ladders" / DATA).to_pylist()))
        (folder / MANIFEST).unlink()
        try:
            pq.write_table(pa.Table.from_pylist([row for row in rows if isinstance(row, dict)]), folder / DATA)
        except (pa.ArrowException, OverflowError, UnicodeEncodeError, AttributeError):
            return
    elif how == "manifest":
        (folder / MANIFEST).write_bytes(as_json(data.draw(changed_values(json.loads(sound)))))
    else:
        (folder / (MANIFEST if "manifest" in how else DATA)).write_bytes(data.draw(changed_bytes(sound)))
    with refused():
        found = References.load(folder)
        assert found.hash
        assert found.tasks
        found.save(changed / "again", overwrite=True)
    with refused():
        LADDERS.save(folder, merge=True)


@settled(60)
@given(data=st.data())
def test_a_changed_store_gives_true_answers_or_none(data, kept, changed):
    folder = changed / "stores"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    file, sound = folder / "store.sqlite", (kept / "store.sqlite").read_bytes()
    content = bytearray(sound)
    for _ in range(data.draw(st.integers(0, 12))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    end = data.draw(st.sampled_from([None, None, None, 100, 4096, 5000, len(content) - 1]))
    file.write_bytes(content[:end] + data.draw(st.sampled_from([b"", b"", b"\x00", b"x" * 5000])))
    shutil.copy(file, folder / "wreck.sqlite")
    with refused(), Store(folder / "new.sqlite") as new:
        new.salvage(folder / "wreck.sqlite")
        assert all(TRUTH[key] == value for key, value in new.get_many(TRUTH).items())
        assert len(new) <= len(TRUTH)
    with refused(), Store(file) as store:
        assert all(TRUTH[key] == value for key, value in store.get_many(TRUTH).items())
        assert all(TRUTH[answer.key] == answer.value for batch in store.batches() for answer in store.read(batch))
        assert list(store.rows()) is not None
        store.put_many([])
    with refused():
        RecordedEngine(str(file)).answer([Question(PROMPTS[0], kills.LABELS)])


TASK = (resource("prompts") / "summarization" / "task.toml").read_bytes()
COMPARE = (resource("prompts") / "_shared" / "default" / "compare.jinja").read_bytes()
JINJA = tuple(
    piece.encode()
    for piece in (
        "{{ target }}",
        "{{ reference }}",
        "{{ context }}",
        "{{",
        "}}",
        "{%",
        "%}",
        "{% if %}",
        "{% for x in target %}",
        "{% endfor %}",
        "{{ 1 / 0 }}",
        "{{ target.__class__ }}",
        "{{ x() }}",
        "{{ target | nothing }}",
        "{% include 'x' %}",
        "{% extends 'compare.jinja' %}",
        "{% include 'compare.jinja' %}",
        "{% import 'compare.jinja' as a %}",
        "{% set prefill = 3 %}",
        "{% set shared = none %}",
        "{{ range(999999999) }}",
        "{{ [].append(1) }}",
        "{{ target[99] }}",
        "{{ '%d' | format(target) }}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{{ target + 1 }}",
        "{{ (1).real.imag }}",
        "{{ dict(a=1).b.c }}",
        "\x00",
    )
)


@settled(60)
@given(task=changed_bytes(TASK), cut=st.integers(0, 3))
def test_a_changed_task_is_a_task_or_refused(task, cut, changed):
    folder = changed / "task"
    folder.mkdir(exist_ok=True)
    (folder / "task.toml").write_bytes(task if cut else TASK)
    with refused():
        found = ss.load_task(folder)
        assert Templates(found).hash("compare")


@settled(80)
@given(data=st.data())
def test_a_changed_template_shows_each_text_once_or_is_refused(data, changed):
    folder = changed / "prompts"
    folder.mkdir(exist_ok=True)
    template = COMPARE
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(template)))
        template = (
            template[:at] + data.draw(st.sampled_from(JINJA)) + template[data.draw(st.integers(at, len(template))) :]
        )
    if data.draw(st.integers(0, 3)) == 0:
        template = data.draw(changed_bytes(COMPARE))
    (folder / "compare.jinja").write_bytes(template)
    task = ss.load_task("summarization")
    templates = Templates(task, folder)
    with refused():
        templates.require_texts("compare")
        prompt = templates.compare(factories.context(), task.attribute("coherence"), target="<T>", reference="<R>")
        assert (prompt.text + prompt.prefill).count("<T>") == 1
        assert templates.hash("compare")
    with refused():
        templates.source("compare")


@settled(100)
@given(line=st.text() | st.sampled_from([str(certificate().signature), "a:b|c", "|", ":", "a:%7C|b:%25"]))
def test_any_line_is_a_signature_that_prints_alike_or_is_refused(line):
    with refused():
        signature = Signature.parse(line)
        assert Signature.parse(str(signature)) == signature
    assert str(Signature.of_any(line)) is not None
