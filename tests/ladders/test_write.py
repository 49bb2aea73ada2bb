"""Ladders: which rung is written from which, what an answer must be to become a rung, and keys that repeat."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from synthscore.degrade.damage import DamagedText
from synthscore.engine import Answers, Generation, Prompt, Question, Sampling
from synthscore.errors import EngineError, InputError, LadderError, TaskError
from synthscore.judging.templates import load_task
from synthscore.ladders import degraded as module
from synthscore.ladders.degraded import DegradedWriter
from synthscore.ladders.prompted import PromptedWriter
from synthscore.ladders.write import Draft, Job, draft_ladders, generate_ladders, schedule, write_rungs
from synthscore.signature import text_hash
from synthscore.types import Context, Rung
from tests.fakes import FakeEngine, seed_writer

TASK = replace(load_task("summarization"), words=())
FERRY = Context(
    "ferry",
    "The car ferry Marrin Star lost power on Tuesday evening with 212 passengers on board. The captain said that a "
    "fire alarm in the engine room had sounded and that the crew had shut both engines down. No fire was found. "
    "A cooling hose had burst and filled the engine room with steam, which set off the alarm. The ferry dropped anchor "
    "while two tugs were called from Hesker. They brought the ferry and its passengers into the harbour at night. "
    "Nobody was hurt, and the ferry company has cancelled all sailings until Friday.",
    references=(
        "The ferry Marrin Star lost power on Tuesday evening near Tarn Island. A cooling hose had burst, and its steam "
        "set off a fire alarm. The crew shut both engines down at once. Two tugs then brought the 212 passengers into "
        "harbour, all unhurt. Sailings are cancelled until Friday, while hoses on two ships are replaced.",
    ),
)
LIBRARY = Context(
    "library",
    "The town library of Aldham will open on Sundays from May. The council voted for the plan by nine votes to four. "
    "Volunteers will staff the desk, and two librarians will be on call. Visitors had asked for longer hours in a "
    "survey that 800 people answered. The change costs 14,000 pounds a year, most of it for heating and light.",
    references=(
        "Aldham's library will open on Sundays from May. Volunteers will staff the desk while two librarians are on "
        "call. Visitors had asked for longer hours in a survey. It costs 14,000 pounds a year.",
    ),
)
CONTEXTS = (FERRY, LIBRARY)
ATTRIBUTES = ("coherence", "fluency")
GREEDY = Sampling(temperature=0.0)
GOOD_ONE = "The ferry lost power, and two tugs came. Nobody was hurt."


def ladders(engine, contexts=CONTEXTS, attributes=ATTRIBUTES, n_rungs=5, task=TASK, **options):
    return generate_ladders(contexts, task, attributes, PromptedWriter(engine, **options), n_rungs=n_rungs)


def texts(made):
    return [[rung.text for rung in ladder.rungs] for ladder in made]


def steps(n_rungs):
    """Each level, in order, with the levels that it is written between: the nearest of the waves before it."""
    found = {}
    for wave in schedule(n_rungs):
        there = sorted(found)
        for level in wave:
            below = [other for other in there if other < level]
            above = [other for other in there if other > level]
            found[level] = (below[-1], above[0]) if there else ()
    return list(found.items())


# ---------------------------------------------------------------------------------------------------- the schedule


@pytest.mark.parametrize(
    ("n_rungs", "expected"),
    [
        (2, "1 2"),
        (3, "1 3 2(1,3)"),
        (4, "1 4 2(1,4) 3(2,4)"),
        (5, "1 5 3(1,5) 2(1,3) 4(3,5)"),
        (6, "1 6 3(1,6) 2(1,3) 4(3,6) 5(4,6)"),
        (9, "1 9 5(1,9) 3(1,5) 7(5,9) 2(1,3) 4(3,5) 6(5,7) 8(7,9)"),
    ],
)
def test_the_schedule_is_breadth_first_halving(n_rungs, expected):
    shown = ["{}({},{})".format(level, *parents) if parents else f"{level}" for level, parents in steps(n_rungs)]
    assert " ".join(shown) == expected


@pytest.mark.parametrize("n_rungs", [1, 0, -3])
def test_fewer_than_two_rungs_are_no_ladder(n_rungs):
    with pytest.raises(LadderError, match=f"{n_rungs} rungs"):
        schedule(n_rungs)


@given(st.integers(2, 300))
def test_every_rung_is_written_once_in_the_first_wave_after_its_parents(n_rungs):
    waves, parents = schedule(n_rungs), dict(steps(n_rungs))
    wave_of = {level: number for number, wave in enumerate(waves) for level in wave}
    assert sorted(level for wave in waves for level in wave) == list(range(1, n_rungs + 1))
    assert all(number == 1 + max(map(wave_of.get, parents[level]), default=-1) for level, number in wave_of.items())


@given(st.integers(2, 300))
def test_parents_strictly_bracket_their_rung_and_depth_is_logarithmic(n_rungs):
    assert schedule(n_rungs)[0] == [1, n_rungs]
    assert all(parents[0] < level < parents[1] for level, parents in steps(n_rungs)[2:])
    assert len(schedule(n_rungs)) == math.ceil(math.log2(n_rungs - 1)) + 1


@given(st.integers(0, 7))
def test_schedules_for_powers_of_two_plus_one_are_nested(power):
    def fractions(n_rungs):
        every = steps(n_rungs)
        return [tuple((each - 1) / (n_rungs - 1) for each in (level, *parents)) for level, parents in every]

    coarse, fine = fractions(2**power + 1), fractions(2 ** (power + 1) + 1)
    assert fine[: len(coarse)] == coarse


# ---------------------------------------------------------------------------------------------------- ladders


@pytest.mark.parametrize("n_rungs", [2, 4, 5, 9])
def test_each_wave_is_one_call_whatever_the_number_of_contexts_and_each_rung_one_prompt(n_rungs):
    engine = FakeEngine()
    made = ladders(engine, n_rungs=n_rungs)
    assert engine.calls == [("write", 4 * len(wave)) for wave in schedule(n_rungs)]
    assert engine.n_written == 4 * n_rungs
    assert [(ladder.context_id, ladder.attribute) for ladder in made] == [
        (context.id, attribute) for context in CONTEXTS for attribute in ATTRIBUTES
    ]
    assert all(len(ladder.usable) == n_rungs and ladder.task == "summarization" for ladder in made)
    assert [ladder.context for ladder in made] == [FERRY, FERRY, LIBRARY, LIBRARY]


@given(st.integers(2, 12))
@settings(max_examples=11)
def test_a_rung_between_is_asked_for_with_the_texts_of_its_parents_and_records_them(n_rungs):
    engine = FakeEngine()
    [made] = ladders(engine, [FERRY], ["fluency"], n_rungs)
    text = {rung.level: rung.text for rung in made.rungs}
    for (level, parents), prompt in zip(steps(n_rungs), engine.written, strict=True):
        rung = made.rungs[level - 1]
        assert rung.parents == tuple(text_hash(text[parent]) for parent in parents)
        assert rung.fraction == (level - 1) / (n_rungs - 1)
        if parents:
            assert prompt.text.index(text[parents[0]]) < prompt.text.index(text[parents[1]])
        else:
            assert (f"the {'best' if level == n_rungs else 'worst'} possible") in prompt.text


def drawn_alike(*ladders: Sequence[Rung]) -> bool:
    """Whether rungs were made by the same draw of damage. Whole sentences of so short a text may not allow nine rungs
    by the draw that allows five; words always do."""
    draws = {(rung.provenance.get("source"), rung.provenance.get("draw", 0)) for rungs in ladders for rung in rungs}
    kinds = {kind for rungs in ladders for rung in rungs for kind in rung.provenance.get("kinds", ())}
    assert len(draws) == 1 or kinds & {"swapped-neighbours", "dropped-central-sentence", "foreign-sentence"}
    return len(draws) == 1


@pytest.mark.parametrize("write", [PromptedWriter(FakeEngine()), DegradedWriter()], ids=["prompt", "degrade"])
def test_ladders_are_nested(write):
    fine = generate_ladders(CONTEXTS, TASK, ATTRIBUTES, write, n_rungs=9)
    for power in (0, 1, 2):
        coarse = generate_ladders(CONTEXTS, TASK, ATTRIBUTES, write, n_rungs=2**power + 1)
        for one, other in zip(coarse, fine, strict=True):
            shared = other.rungs[:: 8 >> power]
            if not drawn_alike(one.rungs, shared):
                continue
            assert [(r.text, r.parents, r.provenance["key"]) for r in one.rungs] == [
                (r.text, r.parents, r.provenance["key"]) for r in shared
            ]


def test_a_run_repeated_gives_the_same_ladders_and_another_seed_other_ones():
    assert texts(ladders(FakeEngine())) == texts(ladders(FakeEngine()))
    first, second = texts(ladders(FakeEngine())), texts(ladders(FakeEngine(), seed=1))
    assert not {text for rungs in first for text in rungs} & {text for rungs in second for text in rungs}


def test_a_ladder_does_not_depend_on_the_others_of_the_run():
    alone = ladders(FakeEngine(), [LIBRARY], ["fluency"])
    assert texts(alone)[0] == texts(ladders(FakeEngine()))[3]


def test_a_context_or_attribute_given_twice_gets_one_ladder():
    engine = FakeEngine()
    assert len(ladders(engine, [FERRY, LIBRARY, FERRY], ["fluency", "fluency"])) == 2
    assert engine.n_written == 10
    assert len(ladders(engine, [FERRY], "fluency")) == 1


@pytest.mark.parametrize("change", [{"text": "Another."}, {"facts": "More."}, {"references": ()}])
def test_two_different_contexts_of_one_id_are_an_error(change):
    with pytest.raises(InputError, match="'ferry'") as caught:
        ladders(FakeEngine(), [FERRY, replace(FERRY, **change)])
    assert caught.value.value == "ferry"


def test_an_unknown_attribute_no_attribute_and_one_rung_are_errors_before_anything_is_asked():
    engine = FakeEngine()
    with pytest.raises(TaskError, match="coherence"):
        ladders(engine, attributes=["coherense"])
    with pytest.raises(InputError, match="coherence"):
        ladders(engine, attributes=[])
    with pytest.raises(LadderError):
        ladders(engine, n_rungs=1)
    assert engine.calls == []
    assert ladders(engine, contexts=[]) == []


@pytest.mark.parametrize("failing", [False, True])
@pytest.mark.parametrize("degraded", [False, True])
def test_progress_counts_every_rung_once(degraded, failing):
    told: list[int] = []
    engine = FakeEngine(writer=lambda prompt, seed: "" if failing else seed_writer(prompt, seed))
    writer = DegradedWriter() if degraded else PromptedWriter(engine)
    generate_ladders(CONTEXTS, TASK, ATTRIBUTES, writer, n_rungs=9, progress=told.append)
    assert sum(told) == 4 * 9


# ---------------------------------------------------------------------------------------------------- failed rungs


def test_only_rejected_rungs_are_asked_again_together_and_with_new_seeds():
    seeds: dict[str, list[int]] = {}

    def write(prompt: Prompt, seed: int) -> str:
        seeds.setdefault(prompt.text, []).append(seed)
        return "" if "worst possible" in prompt.text and len(seeds[prompt.text]) < 3 else seed_writer(prompt, seed)

    engine = FakeEngine(writer=write)
    made = ladders(engine, n_rungs=2)
    assert engine.calls == [("write", 8), ("write", 4), ("write", 4)]
    assert all(len(set(asked)) == len(asked) for asked in seeds.values())
    assert len({seed for asked in seeds.values() for seed in asked}) == 16
    for ladder in made:
        assert [rung.provenance["attempt"] for rung in ladder.rungs] == [3, 1]
        assert all(str(rung.provenance["sampling_seed"]) in rung.text for rung in ladder.rungs)


@given(st.sets(st.integers(0, 15)), st.integers(1, 4))
@example(set(range(16)), 3)
@settings(max_examples=30)
def test_a_rung_that_fails_holds_no_text_but_a_reason_and_is_between_no_others(bad, max_attempts):
    def write(prompt: Prompt, seed: int) -> str:
        return "I'm sorry, but I can't." if seed % 16 in bad else seed_writer(prompt, seed)

    engine = FakeEngine(writer=write)
    [made] = ladders(engine, [FERRY], ["fluency"], 9, max_attempts=max_attempts)
    lost = [f"rung {end}" for end in (1, 9) if made.rungs[end - 1].status == "failed"]
    for rung in made.rungs:
        if lost and rung.level not in (1, 9):
            assert rung.reason == f"it would be written between two rungs, and {' and '.join(lost)} failed"
        elif rung.status == "failed":
            assert rung.reason == f"it is a refusal (attempt {max_attempts}, the last)"
            assert rung.provenance["attempt"] == max_attempts
        elif rung.parents:
            level = {text_hash(other.text): other.level for other in made.usable}
            assert level[rung.parents[0]] < rung.level < level[rung.parents[1]]
        assert (rung.status == "failed") == (rung.text == "")
        assert "sorry" not in repr(rung)
    if len(bad) == 16:
        assert engine.n_written == 2 * max_attempts


def test_a_rung_whose_middle_failed_is_written_between_the_nearest_that_exist():
    def write(prompt: Prompt, seed: int) -> str:
        return "" if len(engine.written) in (3, 4) else seed_writer(prompt, seed)

    engine = FakeEngine(writer=write)
    [made] = ladders(engine, [FERRY], ["fluency"], 5, max_attempts=2)
    assert [rung.status for rung in made.rungs] == ["ok", "ok", "failed", "ok", "ok"]
    hashes = [text_hash(rung.text) for rung in made.rungs]
    assert made.rungs[1].parents == (hashes[0], hashes[4])
    assert made.rungs[3].parents == (hashes[1], hashes[4]), "one after the other, or the two would be asked for alike"


class Spied(FakeEngine):
    """Keeps the questions of each call."""

    def __init__(self, **options):
        super().__init__(**options)
        self.rounds: list[Sequence[Question]] = []

    def answer(self, questions, progress=None):
        self.rounds.append(questions)
        return super().answer(questions, progress)


def test_a_text_that_is_asked_for_again_does_not_hold_up_other_ladders():
    def write(prompt: Prompt, seed: int) -> str:
        late = "Aldham" in prompt.text and "worst possible" in prompt.text and len(engine.rounds) < 4
        return "" if late else seed_writer(prompt, seed)

    engine = Spied(writer=write)
    made = ladders(engine, attributes=["fluency"])
    assert all(len(ladder.usable) == 5 for ladder in made)
    ferry = [sum("Marrin" in question.prompt.text for question in asked) for asked in engine.rounds]
    library = [sum("Aldham" in question.prompt.text for question in asked) for asked in engine.rounds]
    assert (ferry, library) == ([2, 1, 2, 0, 0, 0], [2, 1, 1, 1, 1, 2])


def test_a_text_is_asked_for_again_warmer_and_in_other_words():
    engine = Spied(
        writer=lambda prompt, seed: GOOD_ONE if "between" in prompt.text or "best" in prompt.text else "Bad."
    )
    [made] = ladders(engine, [FERRY], ["fluency"], 3, max_attempts=3)
    assert made.rungs[1].reason.startswith("it is the same as another rung")
    middle = [question for asked in engine.rounds for question in asked if "between" in question.prompt.text]
    assert [question.sampling.temperature for question in middle] == [0.7, 0.85, 1.0]
    assert "other words" not in middle[0].prompt.text
    assert all("other words" in question.prompt.text for question in middle[1:])
    assert made.rungs[1].provenance["warmed_to"] == 1.0
    assert made.rungs[1].provenance["temperature"] == 0.7
    assert made.rungs[1].provenance["prompt_sha256"] == text_hash(middle[2].prompt.text, "")


def test_greedy_decoding_is_asked_once_and_says_so():
    engine = FakeEngine(writer=lambda prompt, seed: "...")
    [made] = ladders(engine, [FERRY], ["fluency"], 2, sampling=GREEDY)
    assert engine.n_written == 2
    assert "empty" in made.rungs[0].reason
    assert "greedy" in made.rungs[0].reason


def test_a_row_that_the_engine_cannot_answer_fails_alone_without_another_attempt():
    def write(prompt: Prompt, seed: int) -> str:
        if "Aldham" in prompt.text and "worst possible" in prompt.text:
            raise EngineError("the prompt has 9000 tokens, the model takes 1024")
        return seed_writer(prompt, seed)

    engine = FakeEngine(writer=write)
    ferry, library = ladders(engine, attributes=["fluency"])
    assert engine.calls == [("write", 4), ("write", 1), ("write", 2)]
    assert len(ferry.usable) == 5
    assert [rung.status for rung in library.rungs] == ["failed", "failed", "failed", "failed", "ok"]
    assert library.rungs[0].reason == "the prompt has 9000 tokens, the model takes 1024"
    assert library.rungs[3].reason == "it would be written between two rungs, and rung 1 failed"


def test_two_rungs_of_a_ladder_are_never_the_same_text():
    engine = FakeEngine(writer=lambda prompt, seed: "Always the same.")
    for made in ladders(engine, max_attempts=2):
        assert [rung.status for rung in made.rungs] == ["ok", "failed", "failed", "failed", "failed"]
        assert "same as another rung" in made.rungs[4].reason
    [made] = ladders(
        FakeEngine(writer=lambda prompt, seed: "abcde"[seed % 5]), [FERRY], ["fluency"], 5, max_attempts=99
    )
    assert len(set(texts([made])[0])) == 5


# ---------------------------------------------------------------------------------------------------- keys

MIDDLE = 1  # the index of a rung with parents, in a ladder of three


def prompted_key(folder: Path, level=MIDDLE, contexts=(FERRY,), attribute="fluency", task=TASK, n_rungs=3, **options):
    engine = options.pop("engine", FakeEngine())
    made = ladders(engine, contexts, [attribute], n_rungs, task, **{"templates": folder, **options})
    return made[0].rungs[level].provenance["key"]


def degraded_key(_folder: Path, level=MIDDLE, contexts=(FERRY,), attribute="fluency", task=TASK, n_rungs=3, seed=0):
    made = generate_ladders(contexts, task, [attribute], DegradedWriter(seed=seed), n_rungs=n_rungs)
    return made[0].rungs[level].provenance["key"]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "extreme.jinja").write_text("{{ extreme }} {{ context }}")
    (tmp_path / "between.jinja").write_text("{{ worse }} {{ better }} {{ context }}")
    return tmp_path


def with_attribute(key="fluency", **change):
    attribute = TASK.attributes.get(key, TASK.attributes["fluency"])
    return replace(TASK, attributes={**TASK.attributes, key: replace(attribute, **change)})


SHARED_INPUTS = {
    "context id": {"contexts": (replace(FERRY, id="boat"),)},
    "context text": {"contexts": (replace(FERRY, text=FERRY.text + " It rained."),)},
    "facts": {"contexts": (replace(FERRY, facts="It is blue."),)},
    "attribute": {"attribute": "coherence"},
    "attribute name": {
        "attribute": "ease",
        "task": replace(TASK, attributes={"ease": replace(TASK.attributes["fluency"], name="ease")}),
    },
    "description": {"task": with_attribute(description="reads well.")},
    "more": {"task": with_attribute(more="smoother")},
    "better": {"task": with_attribute(better="run better")},
    "worse": {"task": with_attribute(worse="run worse")},
    "task name": {"task": replace(TASK, name="news")},
    "context noun": {"task": replace(TASK, context_noun="report")},
    "text noun": {"task": replace(TASK, text_noun="short summary")},
    "texts noun": {"task": replace(TASK, texts_noun="short summaries")},
    "facts noun": {"task": replace(TASK, facts_noun="notes")},
    "length": {"task": replace(TASK, length="one sentence")},
    "seed": {"seed": 1},
    "fraction": {"n_rungs": 4},
}
PROMPTED_INPUTS = {
    "model": {"engine": FakeEngine(name="other")},
    "max_new_tokens": {"sampling": Sampling(max_new_tokens=255)},
    "task's max_new_tokens": {"task": replace(TASK, max_new_tokens=100)},
    "temperature": {"sampling": Sampling(temperature=0.8)},
    "top_p": {"sampling": Sampling(top_p=0.8)},
    "stop strings": {"sampling": Sampling(stop=("\n\n",))},
    "texts of the parents": {"engine": FakeEngine(writer=lambda prompt, seed: f"Other {seed}.")},
}


@pytest.mark.parametrize("change", SHARED_INPUTS.values(), ids=SHARED_INPUTS)
@pytest.mark.parametrize("key", [prompted_key, degraded_key], ids=["prompt", "degrade"])
def test_a_key_changes_with_every_input(key, change, folder):
    assert key(folder, **change) != key(folder)


@pytest.mark.parametrize("change", PROMPTED_INPUTS.values(), ids=PROMPTED_INPUTS)
def test_a_prompted_key_changes_with_the_model_the_decoding_and_the_parents(change, folder):
    assert prompted_key(folder, **change) != prompted_key(folder)


def test_a_prompted_key_changes_with_its_template_and_not_with_another(folder):
    middle, worst = prompted_key(folder), prompted_key(folder, level=0)
    (folder / "between.jinja").write_text("{{ worse }} / {{ better }}")
    assert prompted_key(folder) != middle
    assert prompted_key(folder, level=0) == worst


def test_a_prompted_key_changes_with_what_a_template_includes(folder):
    (folder / "part.jinja").write_text("Write well.")
    (folder / "between.jinja").write_text("{% include 'part.jinja' %}{{ worse }} {{ better }}")
    middle = prompted_key(folder)
    (folder / "part.jinja").write_text("Write better.")
    assert prompted_key(folder) != middle


def test_a_prompted_key_changes_with_a_parent_that_its_template_does_not_show(folder):
    (folder / "between.jinja").write_text("{{ better }}")
    other = FakeEngine(writer=lambda prompt, seed: "Worst." if "worst" in prompt.text else seed_writer(prompt, seed))
    assert prompted_key(folder, engine=other) != prompted_key(folder)


def test_a_prompted_key_does_not_change_with_the_wording_of_another_attribute(folder):
    other = with_attribute("coherence", description="something else.")
    assert prompted_key("default", task=other) == prompted_key("default")


def test_a_degraded_key_changes_with_the_good_text_and_the_foreign_material(folder):
    other = replace(FERRY, references=("A ferry lost power near Tarn Island. Nobody was hurt in the end.",))
    keys = [degraded_key(folder, contexts=contexts) for contexts in ([FERRY], [other], [FERRY, LIBRARY])]
    assert len(set(keys)) == 3


@pytest.mark.parametrize(
    "same",
    [
        {"contexts": (FERRY, LIBRARY)},
        {"contexts": (replace(FERRY, references=()),)},
        {"max_attempts": 2},
        {"n_rungs": 5, "level": 2},
        {"sampling": Sampling(max_new_tokens=TASK.max_new_tokens)},
    ],
)
def test_a_prompted_key_does_not_change_with_anything_else(same, folder):
    assert prompted_key(folder, **same) == prompted_key(folder)


@pytest.mark.parametrize("level", [0, 1])
def test_a_writers_name_is_in_its_keys(level, folder):
    assert prompted_key(folder, level) != degraded_key(folder, level)


def test_all_keys_and_all_first_seeds_of_a_run_are_different():
    rungs = [rung for ladder in ladders(FakeEngine(), n_rungs=17) for rung in ladder.rungs]
    assert len({rung.provenance["key"] for rung in rungs}) == len(rungs)
    assert len({rung.provenance["sampling_seed"] for rung in rungs}) == len(rungs)
    assert all(0 <= rung.provenance["sampling_seed"] < 2**31 for rung in rungs)


# ---------------------------------------------------------------------------------------------------- resuming


class Stored:
    """An engine above a dict of answers: what a store does. Asks for missing answers one by one, in order."""

    def __init__(self, engine: FakeEngine, answers: dict):
        self.engine, self.answers = engine, answers

    @property
    def signature(self):
        return self.engine.signature

    def answer(self, questions: Sequence[Question], progress=None):
        for question in questions:
            if question not in self.answers:
                [self.answers[question]] = self.engine.answer([question], progress).rows
        return Answers([self.answers[question] for question in questions])


def often_empty(prompt, seed):
    return "" if seed % 3 == 0 else seed_writer(prompt, seed)


def test_a_run_repeated_over_stored_answers_asks_nothing():
    answers: dict = {}
    first = ladders(Stored(FakeEngine(writer=often_empty), answers))
    engine = FakeEngine(writer=often_empty)
    assert texts(ladders(Stored(engine, answers))) == texts(first)
    assert engine.n_written == 0
    assert len(answers) > 20  # retries among them


@pytest.mark.parametrize("killed_at", [3, 9, 13, 19])
def test_a_killed_run_repeated_asks_only_what_is_missing(killed_at):
    whole = FakeEngine(writer=often_empty)
    expected = ladders(Stored(whole, {}))
    answers: dict = {}

    def write(prompt, seed):
        if len(answers) == killed_at:
            raise KeyboardInterrupt
        return often_empty(prompt, seed)

    with pytest.raises(KeyboardInterrupt):
        ladders(Stored(FakeEngine(writer=write), answers))
    assert len(answers) == killed_at
    engine = FakeEngine(writer=often_empty)
    assert texts(ladders(Stored(engine, answers))) == texts(expected)
    assert engine.written == whole.written[killed_at:]


# ---------------------------------------------------------------------------------------------------- provenance


def test_a_prompted_rung_says_all_that_it_was_made_with():
    engine = FakeEngine(writer=lambda prompt, seed: Generation(seed_writer(prompt, seed), "stop", 7))
    sampling = Sampling(max_new_tokens=50, temperature=1, top_p=0.5)
    [made] = ladders(engine, [FERRY], ["fluency"], 3, sampling=sampling, seed=4, templates="paper")
    for rung, template, prompt in zip(
        made.rungs, ("extreme", "between", "extreme"), [engine.written[i] for i in (0, 2, 1)], strict=True
    ):
        provenance = dict(rung.provenance)
        assert len(provenance.pop("key")) == 64
        assert len(provenance.pop("template_hash")) == 12
        assert str(provenance.pop("sampling_seed")) in rung.text
        assert isinstance(provenance["temperature"], float)
        assert provenance == {
            "writer": "prompt",
            "model": str(engine.signature),
            "templates": "paper",
            "template": template,
            "prompt_sha256": text_hash(prompt.text, prompt.prefill),
            "max_new_tokens": 50,
            "temperature": 1.0,
            "top_p": 0.5,
            "seed": 4,
            "attempt": 1,
            "finish_reason": "stop",
            "n_tokens": 7,
            "context_sha256": text_hash(FERRY.text),
        }


# ---------------------------------------------------------------------------------------------------- the damager


def degraded(contexts=CONTEXTS, attributes=tuple(TASK.attributes), n_rungs=5, task=TASK, seed=0):
    return generate_ladders(contexts, task, attributes, DegradedWriter(seed=seed), n_rungs=n_rungs)


@pytest.mark.slow
@given(st.integers(0, 10**6))
@settings(max_examples=10)
def test_degraded_ladders_are_nested_and_rise_away_from_the_damage(seed):
    def pairs(text):
        words = text.split()
        return Counter(zip(["", *words], [*words, ""], strict=True))

    fine = degraded(n_rungs=9, seed=seed)
    for one, other in zip(degraded(n_rungs=5, seed=seed), fine, strict=True):
        if drawn_alike(one.rungs, other.rungs[::2]):
            assert [rung.text for rung in one.rungs] == [rung.text for rung in other.rungs[::2]]
    for made in fine:
        best = pairs(made.rungs[-1].text)
        damage = [(pairs(rung.text) - best).total() + (best - pairs(rung.text)).total() for rung in made.usable]
        assert damage == sorted(damage, reverse=True)
        assert len(set(damage)) == len(damage)


def test_the_best_degraded_rung_is_the_first_reference():
    for made in degraded():
        assert made.rungs[-1].text == made.context.references[0]
        assert made.rungs[-1].provenance["source"] == "reference"
        assert [rung.provenance["severity"] for rung in made.rungs] == [1.0, 0.75, 0.5, 0.25, 0.0]
        n_edits = [len(rung.provenance["kinds"]) for rung in made.rungs]
        assert n_edits == sorted(n_edits, reverse=True)
        assert n_edits[-1] == 0 < n_edits[-2]
        assert all(rung.parents == () for rung in made.rungs)


def test_equal_inputs_give_equal_degraded_ladders_in_any_order_of_contexts():
    forward, backward = degraded(CONTEXTS, ["fluency"]), degraded(CONTEXTS[::-1], ["fluency"])
    assert texts(forward) == texts(backward)[::-1]
    assert texts(forward) != texts(degraded(CONTEXTS, ["fluency"], seed=1))


def test_a_summary_without_reference_is_made_of_central_sentences_of_the_article():
    aside = "Gulls screamed above empty beaches yesterday, as always."
    [made] = degraded([replace(FERRY, text=f"{aside} {FERRY.text}", references=())], ["fluency"])
    best = made.rungs[-1]
    assert best.provenance["source"] == "central sentences"
    kept = [sentence for sentence in module.sentences(FERRY.text) if sentence in best.text]
    assert " ".join(kept) == best.text
    assert len(kept) == 3
    assert aside not in best.text


def test_of_a_short_article_a_summary_has_two_sentences():
    short = " ".join(module.sentences(FERRY.text)[:5])
    [made] = degraded([replace(FERRY, text=short, references=())], ["fluency"])
    assert len(module.sentences(made.rungs[-1].text)) == 2


@pytest.mark.parametrize("name", ["dialogue", "story", "question", "data_to_text"])
def test_without_a_reference_other_tasks_fail_and_say_that_one_is_needed(name):
    task = load_task(name)
    attribute = next(iter(task.attributes))
    bare, full = degraded([replace(FERRY, references=()), LIBRARY], [attribute], task=task)
    assert bare.usable == ()
    assert all("reference is needed" in rung.reason for rung in bare.rungs)
    assert full.rungs[-1].status == "ok"


def test_an_article_of_one_sentence_needs_a_reference():
    [made] = degraded([Context("short", "A ferry lost power on Tuesday evening.")], ["fluency"])
    assert all("reference is needed" in rung.reason for rung in made.rungs)


def stand_in(damaged):
    """A plan_damage() of eight edits that gives what damaged(severity) says."""
    return lambda text, **more: tuple(DamagedText(damaged(k / 8), "swap", k / 8) for k in range(1, 9))


def test_of_two_degraded_rungs_that_are_alike_the_one_on_fewer_ladders_fails(monkeypatch):
    monkeypatch.setattr(
        module, "plan_damage", stand_in(lambda severity: "Half." if severity >= 0.5 else f"At {severity}.")
    )
    [made] = degraded([FERRY], ["fluency"])
    assert [rung.status for rung in made.rungs] == ["ok", "failed", "failed", "ok", "ok"]
    assert "too short for 5 rungs; ask for fewer (--rungs)" in made.rungs[1].reason


def test_when_nothing_is_damaged_the_worse_of_the_extremes_fails(monkeypatch):
    monkeypatch.setattr(module, "plan_damage", stand_in(lambda severity: FERRY.references[0]))
    [made] = degraded([FERRY], ["fluency"], n_rungs=2)
    assert [rung.status for rung in made.rungs] == ["failed", "ok"]


DIALOGUE = load_task("dialogue")


def short_ladder(*references, attribute="coherence", task=TASK, text=FERRY.text, n_rungs="auto"):
    context = Context("short", text, references=references)
    return degraded([context, LIBRARY], [attribute], n_rungs=n_rungs, task=task)[0]


def drawn_from(made):
    return {(rung.provenance["source"], rung.provenance.get("draw", 0)) for rung in made.rungs}


@pytest.mark.parametrize("n_rungs", [5, "auto"])
def test_where_the_first_draw_of_damage_allows_too_few_rungs_another_is_taken(n_rungs):
    made = short_ladder("A ferry lost power.", n_rungs=n_rungs)
    assert len(made.usable) == 5
    assert made.wanted is None
    ((source, draw),) = drawn_from(made)  # one for all rungs: each is part of the damage of the next
    assert (source, draw > 0) == ("reference", True)
    assert made == short_ladder("A ferry lost power.", n_rungs=n_rungs)


def test_a_ladder_that_the_first_draw_allows_is_the_one_of_former_versions():
    made = short_ladder(*FERRY.references, attribute="fluency")
    assert drawn_from(made) == {("reference", 0)}
    assert all("draw" not in rung.provenance for rung in made.rungs)
    digest = text_hash(*(rung.text for rung in made.rungs), *(rung.provenance["key"] for rung in made.rungs))
    assert digest[:12] == "be779fce8c23"


def test_a_reference_that_is_too_short_gives_way_to_the_next_and_at_last_to_central_sentences():
    first, second, none = (
        short_ladder("Yes.", *more, attribute="fluency") for more in (FERRY.references, ("No.", *FERRY.references), ())
    )
    assert [made.rungs[-1].text for made in (first, second)] == [FERRY.references[0]] * 2
    assert [drawn_from(made) for made in (first, second)] == [{("reference 2", 0)}, {("reference 3", 0)}]
    assert drawn_from(none) == {("central sentences", 0)}
    assert {len(made.usable) for made in (first, second, none)} == {5}


def test_a_text_that_allows_no_more_damage_has_the_longest_ladder_that_it_can():
    made = short_ladder("I like music, do you?", attribute="engagingness", task=DIALOGUE)
    assert (made.n_rungs, len(made.usable), made.wanted, made.scale) == (4, 4, 5, 5)
    assert [rung.fraction for rung in made.rungs] == [0, 1 / 3, 2 / 3, 1]
    strict = short_ladder("I like music, do you?", attribute="engagingness", task=DIALOGUE, n_rungs=5)
    assert (strict.n_rungs, len(strict.usable), strict.wanted) == (5, 4, None)
    assert [made.rungs[k].text for k in (0, 3)] == [strict.rungs[k].text for k in (0, 4)]


def test_where_no_damage_is_known_a_ladder_is_not_shortened():
    task = with_attribute("rhythm", name="rhythm")
    [made] = degraded([FERRY], ["rhythm"], task=task, n_rungs="auto")
    assert [rung.status for rung in made.rungs] == ["failed"] * 4 + ["ok"]


def test_of_a_conversation_of_three_short_turns_a_summary_is_made_of_these_and_lent_to_nobody():
    turns = Context("talk", "A: Hi Hannah.\nB: Hey! Are you there?\nA: Yes I am.")
    alone = Context("talk", "A: Hi Hannah, it is me.")
    for made in degraded([turns, FERRY], n_rungs="auto")[:4]:
        assert drawn_from(made).pop()[0] == "sentences"
        assert len(made.usable) == made.n_rungs
    with_turns = degraded([turns, replace(FERRY, text=f"{FERRY.text} ")], ["relevance"])[1]
    assert with_turns.usable[-1].text == FERRY.references[0]
    lent = module._lent(module._good_texts(turns, TASK))
    seen = module._neighbours([turns, FERRY], {"ferry": FERRY}, lambda name: lent)
    assert seen == {"ferry": (turns.text,)}
    assert module._good_texts(alone, TASK) == ()


def test_a_rung_that_is_written_again_comes_from_the_good_text_of_its_ladder():
    context = Context("short", FERRY.text, references=("Yes.", *FERRY.references))
    draft = draft_ladders([context], TASK, ["fluency"])[0]
    write_rungs(TASK, [draft], DegradedWriter(lenders=[LIBRARY]))
    made = draft.ladder(TASK)
    assert drawn_from(made) == {("reference 2", 0)}
    others = {rung.level: rung for rung in made.rungs if rung.level != 2}
    again = Draft(context, draft.attribute, 5, [2], others, replaced={2: made.rungs[1]}, reasons={2: "bad"})
    write_rungs(TASK, [again], DegradedWriter(lenders=[LIBRARY]))
    new = again.ladder(TASK).rungs[1]
    assert (new.provenance["source"], new.provenance["attempt"]) == ("reference 2", 2)
    assert new.text not in {rung.text for rung in made.rungs}


def test_a_text_with_nothing_to_damage_fails_with_the_reason_and_keeps_its_best_rung():
    task = with_attribute("rhythm", name="rhythm")  # no damage is known for it
    [made] = degraded([FERRY], ["rhythm"], task=task)
    assert [rung.status for rung in made.rungs] == ["failed"] * 4 + ["ok"]
    assert "cannot damage 'rhythm'" in made.rungs[0].reason


def test_damage_may_borrow_from_other_contexts_of_the_run_and_never_from_its_own(monkeypatch):
    seen = {}

    def spy(text, *, material, **more):
        seen[text] = material
        return (DamagedText(f"Worse: {text}", "swap", 1.0),)

    monkeypatch.setattr(module, "plan_damage", spy)
    many = [replace(FERRY, id=str(i), text=f"Article {i}.", references=(f"Summary {i}.",)) for i in range(12)]
    degraded(many, ["fluency"], n_rungs=2)
    before = dict(seen)
    for i in range(12):
        material = before[f"Summary {i}."]
        assert material.context == f"Article {i}."
        assert len(material.foreign) == 8
        assert not {f"Article {i}.", f"Summary {i}."} & set(material.foreign)
    degraded([many[0], replace(many[0], id="copy"), many[1]], ["fluency"], n_rungs=2)
    assert seen["Summary 0."].foreign == ("Summary 1.", "Article 1.")
    near = "Summary 1.", "Summary 7.", "Summary 9.", "Summary 11."
    assert before["Summary 0."].foreign[::2] == near  # or ladders of another version would differ
    degraded(many[::-1], ["fluency"], n_rungs=2)
    assert seen == before  # whatever the order of the contexts
    degraded([*many, LIBRARY], ["fluency"], n_rungs=2)
    assert sum(seen[text] != before[text] for text in before) == 4  # one more context: new neighbours for four


# ---------------------------------------------------------------------------------------------------- own writers


def test_a_writer_of_ones_own_needs_only_the_three_members():
    class Halves:
        name, needs_parents = "halves", True

        def write(self, task, jobs: Sequence[Job], progress=None):
            return [Rung(job.level, job.fraction, f"{job.fraction} of {len(job.others)}") for job in jobs]

    [made] = generate_ladders([FERRY], TASK, ["fluency"], Halves(), n_rungs=5)
    assert texts([made]) == [["0.0 of 0", "0.25 of 3", "0.5 of 2", "0.75 of 3", "1.0 of 0"]]


def test_a_writer_that_loses_a_rung_is_found_out():
    class Lossy:
        name, needs_parents = "lossy", False

        def write(self, task, jobs: Sequence[Job], progress=None):
            return [Rung(job.level, job.fraction, f"At {job.fraction}") for job in jobs[1:]]

    with pytest.raises(ValueError, match="argument"):
        generate_ladders([FERRY], TASK, ["fluency"], Lossy())
