"""Damage: one worked example by hand for each kind, and what holds for all of them."""

import hashlib
import itertools
import json
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthscore.degrade.damage import REVISION, attributes, damage_path, damages, damages_for
from synthscore.degrade.damage import degrade as degrade_and_tell
from synthscore.degrade.edits import EDITS, Material
from synthscore.degrade.reading import names, sentences, to_ptb, word_pairs
from synthscore.errors import DegradeError
from synthscore.resources import read_toml, resource

ARTICLE = (
    "Anna Keller opened the bridge over the Orla on Monday. The bridge took four years to build and cost 12 million "
    "crowns. Mayor Tom Brandt thanked the workers, who had lived in tents near Velm. The old bridge fell in a storm in "
    "1987. Nobody was hurt when it fell, because the road was closed that night. A small band played during the meal. "
    "Farmers from Velm and Dorn can now reach the market in ten minutes. Some shops sold cake."
)
SUMMARY = (
    "Anna Keller opened a new bridge over the Orla on Monday. It took four years to build, because the old bridge "
    "was destroyed by a storm in 1987. Mayor Tom Brandt said that the farmers are happy with the large bridge."
)
FOREIGN = (
    "The comet Lyra was seen over Quito by Pedro Salas. It will return in the year 2061, said the observers there. "
    "Thousands of people watched the sky from their roofs that night.",
    "A: Have you seen the new film about whales?\nB: I have, and I cried at the end.\nA: The music was lovely.",
    "Lake Boga | located in | Nordland\nLake Boga | depth | 40",
)
HISTORY = "A: Do you like old films?\nB: I do, most of all the silent ones.\nA: Which one is your favourite?"
REPLY = "I love The General, because the train chase is so funny. My kids watched it 3 times last week."
STORY = (
    "Mara was afraid of the dark forest, and she wept when her brother slowly closed the heavy gate, which had no "
    "lock. He smiled at her. They ran along the narrow path until the light was gone. In the morning only the lantern "
    "came back."
)
TRIPLES = "Velm_Tower | builtBy | Ada_Moor\nVelm_Tower | openedIn | 1931\nVelm_Tower | height | 80 metres"
VERBALISED = "Velm Tower was built by Ada Moor and opened in 1931. It is 80 metres high."
QUESTION = "What explains the role of Anna Keller with regard to the storm?"

NOTHING = Material()
TEXTS = {
    "summarization": (SUMMARY, Material(ARTICLE, "", FOREIGN)),
    "dialogue": (REPLY, Material(HISTORY, "The General has a long train chase.", FOREIGN)),
    "story": (STORY, Material("Mara lives near a forest.", "", (ARTICLE, *FOREIGN))),
    "data_to_text": (VERBALISED, Material(TRIPLES, "", FOREIGN)),
    "question": (QUESTION, Material(ARTICLE, "", FOREIGN)),
}
ASKED = [(task, attribute) for task in attributes() for attribute in sorted(attributes()[task])]


def outcomes(kind, text, material=NOTHING, seeds=40):
    """All that one edit of this kind makes of the text, over many seeds."""
    edit = damages()[kind].apply
    return {edit(text, np.random.default_rng(seed), material) for seed in range(seeds)}


# ------------------------------------------------------------------------------- worked examples, one for each kind

WORKED = {  # kind: text, material, all outcomes there can be
    "dropped-word": ("He sat in a chair.", Material(), {"He sat a chair.", "He sat in chair."}),
    "doubled-word": ("Dogs bark loudly.", Material(), {"Dogs dogs bark loudly.", "Dogs bark bark loudly."}),
    "repeated-phrase": (
        "We left, then rain came.",
        Material(),
        {"We left, then rain then rain came.", None},
    ),
    "shuffled-window": (
        "we did go .",
        Material(),
        {f"{words} ." for words in ("we go did", "did we go", "go did we", "did go we", "go we did")} | {None},
    ),
    "wrong-function-word": ("Lions and bears.", Material(), {f"Lions {w} bears." for w in ("because", "than", "if")}),
    "agreement": ("They were late.", Material(), {"They was late."}),
    "wrong-inflection": ("She walked home.", Material(), {"She walking home."}),
    "cut-off-ending": ("We came to the end of it.", Material(), {"We came to", "We came to the"}),
    "swapped-neighbours": ("One came. Two left.", Material(), {"Two left. One came."}),
    "reversed-sentences": ("Ann ran. Bo sat. Cy fell.", Material(), {"Cy fell. Bo sat. Ann ran."}),
    "shuffled-sentences": (
        "Ann ran. Bo sat. Cy fell.",
        Material(),
        {f"{order}." for order in ("Cy fell. Bo sat. Ann ran", "Ann ran. Cy fell. Bo sat", "Bo sat. Ann ran. Cy fell")}
        | {"Cy fell. Ann ran. Bo sat.", "Bo sat. Cy fell. Ann ran.", None},
    ),
    "repeated-sentence": (
        "One came. Two left.",
        Material(),
        {"One came. One came. Two left.", "One came. Two left. One came.", "One came. Two left. Two left."},
    ),
    "foreign-sentence": (
        "One came. Two left.",
        Material(foreign=("Rain fell all day.",)),
        {
            "Rain fell all day. Two left.",
            "One came. Rain fell all day.",
            "One came. Rain fell all day. Two left.",
            "One came. Two left. Rain fell all day.",
        },
    ),
    "dangling-reference": ("Bob Ray sat. He said no.", Material(), {"He sat. He said no."}),
    "entity-same-document": (
        "They met in Velm.",
        Material("They met in Velm. They ate in Dorn."),
        {"They met in Dorn."},
    ),
    "entity-other-document": (
        "They met in Velm.",
        Material("They met in Velm.", "", ("It rained in Quito.",)),
        {"They met in Quito."},
    ),
    "number-changed": ("It has two legs.", Material(), None),
    "negation": ("He can not swim.", Material(), {"He can swim."}),
    "content-word-replaced": (
        "The bridge is there.",
        Material("They took the train. The bridge is there."),
        {"The train is there."},
    ),
    "swapped-roles": (
        "Then Ann Lee hired Bob Ray.",
        Material(),
        {"Then Bob Ray hired Ann Lee."},
    ),
    "peripheral-sentences": ("Anna Keller opened the bridge over the Orla on Monday.", Material(ARTICLE), None),
    "dropped-central-sentence": (
        "The bridge took years. Some ate cake.",
        Material("The bridge took years. The bridge cost money. Years went by."),
        {"Some ate cake."},
    ),
    "generic-filler": (SUMMARY, Material(), None),
    "generic-reply": (REPLY, Material(), None),
    "wrong-next-turn": (
        REPLY,
        Material(HISTORY, "", ("A: I bought three red boats.\nB: Ok.",)),
        {"I bought three red boats."},
    ),
    "echoed-turn": (
        REPLY,
        Material("A: Hi.\nB: I do like the silent ones."),
        {"I do like the silent ones."},
    ),
    "stilted": ("I like dogs.", Material(), {"I have a preference for dogs.", "I like canines."}),
    "shortened-reply": (REPLY, Material(), {"I love The General, because the train chase is so funny."}),
    "ungrounded-fact": ("He won 7 cups.", Material("", "He won 7 cups."), None),
    "dropped-facts": (
        "Yes. The red lake froze.",
        Material("", "The red lake froze early."),
        None,
    ),
    "flattened-emotion": ("He loved it.", Material(), {"He knew it."}),
    "spoiled-ending": (STORY, Material(), None),
    "predictable-ending": (STORY, Material(), None),
    "dull-sentence": (STORY, Material(), None),
    "plain-words": ("He took a very old lamp.", Material(), {"He took an old lamp.", "He took a very lamp."}),
    "dropped-clause": ("Mara, who had no lamp, went out.", Material(), {"Mara went out."}),
    "other-story": (
        "Ann ran home. Bo sat down. Cy fell.",
        Material(foreign=("It was hot. They slept all day.",)),
        None,
    ),
    "dropped-triple": (VERBALISED, Material(TRIPLES), None),
    "wrong-value": (
        "Velm Tower was built by Ada Moor.",
        Material("Velm_Tower | builtBy | Ada_Moor", "", ("Hut | builtBy | Jo_Lind",)),
        {"Velm Tower was built by Jo Lind.", "Velm Tower was built by Velm Tower."},
    ),
    "joined-fragments": (
        "The tower was built by Ada Moor.",
        Material("Velm_Tower | builtBy | Ada_Moor"),
        {"Velm Tower built by Ada Moor."},
    ),
    "simple-lookup": (QUESTION, Material(ARTICLE), None),
    "quoted-source": (
        "Why did it fall?",
        Material("The bridge did fall in 1987."),
        {
            'The passage says: "The bridge did fall in 1987." Why did it fall?',
            'Why did it fall? The passage says: "The bridge did fall in 1987."',
        },
    ),
    "yes-no": (
        "Why did it fall?",
        Material("The bridge did fall in 1987."),
        {"Is it true that the bridge did fall in 1987?"},
    ),
    "given-answer": (
        "When did it fall?",
        Material("The bridge did fall in 1987."),
        {"When did it fall? The answer is 1987.", "When did it fall? Is the answer 1987?"},
    ),
}


def test_each_kind_of_damage_has_a_worked_example():
    assert set(WORKED) == set(damages()) == set(EDITS)


@pytest.mark.parametrize("kind", [kind for kind, (_, _, expected) in WORKED.items() if expected is not None])
def test_one_edit_does_what_its_name_says(kind):
    text, material, expected = WORKED[kind]
    found = outcomes(kind, text, material)
    assert found <= expected
    assert found - {None}


def test_a_changed_number_is_another_number_of_the_same_kind():
    words = outcomes("number-changed", "It has two legs.")
    assert all(re.fullmatch(r"It has (?!two)\w+ legs\.", made) for made in words)
    years = outcomes("number-changed", "It fell in 1987.")
    assert all(re.fullmatch(r"It fell in (?!1987)(?:19|20)\d\d\.", made) for made in years)
    sums = outcomes("number-changed", "It cost $300,000.")
    assert all(re.fullmatch(r"It cost \$(?!3)\d{3},\d{3}\.", made) for made in sums)


def test_the_central_sentence_gives_way_to_one_that_hardly_matters():
    kind = "peripheral-sentences"
    found = outcomes(kind, *WORKED[kind][:2])
    assert found
    minor = ("A small band played during the meal.", sentences(ARTICLE)[2])
    assert found <= {None, *minor}


@pytest.mark.parametrize(
    ("kind", "n_sentences"), [("generic-filler", (3, 4)), ("dull-sentence", (4, 5)), ("predictable-ending", (4, 5))]
)
def test_a_stock_sentence_comes_in(kind, n_sentences):
    text, material, _ = WORKED[kind]
    for made in outcomes(kind, text, material):
        assert len(sentences(made)) in n_sentences
        assert len(set(sentences(made)) - set(sentences(text))) == 1


def test_a_generic_reply_has_nothing_of_the_reply():
    assert all("General" not in made for made in outcomes("generic-reply", REPLY))
    assert outcomes("generic-reply", "I don't know.") == {None}


def test_an_ungrounded_fact_is_one_that_the_facts_had_right():
    found = outcomes("ungrounded-fact", "He won 7 cups.", Material("", "He won 7 cups."))
    assert all(re.fullmatch(r"He won (?!7)\d cups\.", made) for made in found)
    assert outcomes("ungrounded-fact", "He won 7 cups.", Material("", "Rain fell.")) == {None}


def test_the_sentence_with_the_facts_goes():
    text, material, _ = WORKED["dropped-facts"]
    found = outcomes("dropped-facts", text, material)
    assert "Yes." in found
    assert all("lake" not in made and made.startswith("Yes.") for made in found)


def test_the_end_is_told_at_the_start():
    end = "In the morning only the lantern came back."
    for made in outcomes("spoiled-ending", STORY):
        assert end in sentences(made)[0]


def test_another_story_has_nothing_of_this_one():
    text, material, _ = WORKED["other-story"]
    assert outcomes("other-story", text, material) <= {"It was hot. They slept all day.", "They slept all day.", None}


def test_a_dropped_triple_is_no_longer_said():
    for made in outcomes("dropped-triple", VERBALISED, Material(TRIPLES)):
        assert sum(value in made for value in ("Ada Moor", "1931", "80 metres")) < 3


def test_a_simple_question_asks_for_one_sentence_only():
    found = outcomes("simple-lookup", QUESTION, Material(ARTICLE)) - {None}
    assert all(made.startswith(("How does this sentence go on", "Which word fills the gap")) for made in found)
    for made in found:
        assert outcomes("simple-lookup", made, Material(ARTICLE), seeds=5) == {None}


@pytest.mark.parametrize("kind", list(damages()))
def test_nothing_to_damage_is_none_and_no_error(kind):
    for text in ("Hm", "a", "...", '"', "42"):
        made = damages()[kind].apply(text, np.random.default_rng(0), Material())
        assert made is None or made.strip()


# ---------------------------------------------------------------------------------------- what holds for all damage


def degrade(text, **options):
    """The text alone."""
    return degrade_and_tell(text, **options)[0]


@pytest.mark.parametrize(("task", "attribute"), ASKED)
def test_every_attribute_of_every_task_can_be_damaged(task, attribute):
    text, material = TEXTS[task]
    for seed in range(10):
        assert (
            degrade(
                text, task=task, attribute=attribute, severity=1.0, rng=np.random.default_rng(seed), material=material
            )
            != text
        )


@given(st.sampled_from(ASKED), st.integers(0, 99))
@settings(max_examples=20)
def test_it_tells_the_edits_that_were_made_and_no_others(asked, seed):
    (task, attribute), (text, material) = asked, TEXTS[asked[0]]
    told = [
        degrade_and_tell(
            text, task=task, attribute=attribute, severity=severity, rng=np.random.default_rng(seed), material=material
        )[1]
        for severity in (0, 0.25, 0.5, 1)
    ]
    assert told[0] == ()
    assert all(more[: len(fewer)] == fewer for fewer, more in itertools.pairwise(told))
    kinds, n = damages_for(task, attribute), len(text.split())
    path = damage_path(text, kinds, np.random.default_rng(seed), material, least=8, longest=int(max(1.3 * n, n + 15)))
    if all(damages()[kind].unit != "text" for kind in kinds):
        assert told[-1] == tuple(step.kind for step in path)


SEEDS = st.integers(0, 2**32 - 1)
SEVERITY = st.floats(0, 1)


@given(st.sampled_from(ASKED), SEEDS)
@settings(max_examples=40)
def test_severity_zero_is_the_text_itself(asked, seed):
    text, material = TEXTS[asked[0]]
    rng = np.random.default_rng(seed)
    assert degrade(text, task=asked[0], attribute=asked[1], severity=0, rng=rng, material=material) == text


@given(st.sampled_from(ASKED), SEEDS, SEVERITY, SEVERITY)
@settings(max_examples=60)
def test_more_severity_is_never_nearer_to_the_text(asked, seed, one, other):
    (task, attribute), (low, high) = asked, sorted((one, other))
    text, material = TEXTS[task]

    def made(severity):
        rng = np.random.default_rng(seed)
        return degrade(text, task=task, attribute=attribute, severity=severity, rng=rng, material=material)

    def distance(worse):
        return (word_pairs(worse) - word_pairs(text)).total() + (word_pairs(text) - word_pairs(worse)).total()

    assert made(low) == made(low)
    assert made(low).strip()
    assert distance(made(low)) <= distance(made(high))
    assert made(high) != text or high == 0


@given(st.sampled_from([pair for pair in ASKED if pair[0] == "summarization"]), SEEDS)
@settings(max_examples=20)
def test_a_summary_has_a_text_of_its_own_for_nearly_every_rung_of_five_and_no_long_one(asked, seed):
    text, material = TEXTS["summarization"]
    rungs = [
        degrade(
            text,
            task=asked[0],
            attribute=asked[1],
            severity=severity,
            rng=np.random.default_rng(seed),
            material=material,
        )
        for severity in (0, 0.25, 0.5, 0.75, 1)
    ]
    least = {"coherence": 3, "relevance": 4}.get(asked[1], 5)  # three sentences can be reordered in few ways
    assert len(set(rungs)) >= least
    assert max(len(rung.split()) for rung in rungs) <= max(1.3 * len(text.split()), len(text.split()) + 15)


@given(st.sampled_from(ASKED), SEEDS)
@settings(max_examples=60)
def test_a_path_grows_step_by_step_and_never_repeats_a_text(asked, seed):
    task, attribute = asked
    text, material = TEXTS[task]
    path = list(damage_path(text, damages_for(task, attribute), np.random.default_rng(seed), material))
    severities = [step.severity for step in path]
    assert severities == sorted(set(severities))
    assert severities[-1] <= 1
    assert len({text, *(step.text for step in path)}) == len(path) + 1
    assert {step.kind for step in path} <= set(damages_for(task, attribute))


@given(st.text(max_size=120), st.sampled_from(list(damages())), SEEDS)
@settings(max_examples=150)
def test_no_text_breaks_an_edit_and_none_becomes_empty(text, kind, seed):
    made = damages()[kind].apply(text, np.random.default_rng(seed), Material(ARTICLE, text, FOREIGN))
    assert made is None or made.strip() or not text.strip()


def test_longer_texts_take_more_edits():
    def n_edits(text):
        path = damage_path(text, damages_for("summarization", "fluency"), np.random.default_rng(1))
        return len(list(path))

    assert n_edits(SUMMARY) < n_edits(f"{SUMMARY} {ARTICLE}")


def test_what_cannot_be_damaged_is_a_typed_error():
    rng = np.random.default_rng(0)
    with pytest.raises(DegradeError, match=r"lower the fluency of the summarization text 'Hm\.'"):
        degrade("Hm.", task="summarization", attribute="fluency", severity=1, rng=rng)
    with pytest.raises(DegradeError, match="no kind of damage is known"):
        degrade(SUMMARY, task="summarization", attribute="beauty", severity=1, rng=rng)
    with pytest.raises(DegradeError, match=r"expected a number in \[0, 1\]"):
        degrade(SUMMARY, task="summarization", attribute="fluency", severity=1.5, rng=rng)


def test_damage_to_text_in_benchmark_look_keeps_that_look():
    text, material = to_ptb(SUMMARY).lower(), Material(ARTICLE, "", FOREIGN)
    for attribute in sorted(attributes()["summarization"]):
        for seed in range(5):
            rng = np.random.default_rng(seed)
            made = degrade(text, task="summarization", attribute=attribute, severity=1, rng=rng, material=material)
            assert made == made.lower()
            assert not re.search(r"\w[,?!](?: |$)", made)


# ------------------------------------------------------------------------------------- the revision of the damage

# Rungs are keyed by the revision, and a key must name one text for good. What the damage of this revision makes:
RECORDED = {
    "revision": "2cd5176fbea6",
    "edits": "d721772a06680ee6",
    "texts": "311a1e877de1017a",
    "tables": "7998ee663f3f6039",
}
CHANGED = "the damage changed: raise REVISION and record the new digest"


def demo_texts():
    """(task, good text, material): the shipped demo contexts, and for tasks without one the texts above."""
    rows = []
    for task in ("summarization", "dialogue", "story"):
        lines = (resource("data/demo") / f"{task}.jsonl").read_text("utf-8").splitlines()
        rows += [json.loads(line) for line in lines]
    for i, row in enumerate(rows):
        others = (*rows[max(0, i - 2) : i], *rows[i + 1 : i + 3])
        foreign = tuple(text for other in others for text in (other["text"], other["references"][0]))
        yield row["task"], row["references"][0], Material(row["text"], row.get("facts", ""), foreign)
    for task in ("data_to_text", "question"):
        yield task, *TEXTS[task]


def digest(made):
    return hashlib.sha256(json.dumps(made, default=sorted).encode()).hexdigest()[:16]  # a set becomes a sorted list


def test_each_edit_makes_what_it_made_when_the_revision_was_set():
    made = {}
    for kind, damage in damages().items():
        texts = [
            damage.apply(text, np.random.default_rng(seed), material)
            for _, text, material in demo_texts()
            for seed in range(3)
        ]
        assert any(texts), f"{kind} finds nothing to damage in these texts"
        made[kind] = texts, [damage.severity(text, material) for _, text, material in demo_texts()]
    assert {"revision": REVISION, "edits": digest(made)}.items() <= RECORDED.items(), CHANGED


def test_degraded_texts_are_what_they_were_when_the_revision_was_set():
    made = [
        degrade(
            text,
            task=task,
            attribute=attribute,
            severity=severity,
            rng=np.random.default_rng([seed, 7]),
            material=material,
        )
        for task, text, material in demo_texts()
        for attribute in sorted(attributes()[task])
        for seed, severity in enumerate((0.25, 0.5, 1.0))
    ]
    assert {"revision": REVISION, "texts": digest(made)}.items() <= RECORDED.items(), CHANGED


def test_the_tables_of_the_damage_are_those_of_its_revision():
    tables = {name: read_toml(resource("data/degrade") / f"{name}.toml") for name in ("damages", "words")}
    assert {"revision": REVISION, "tables": digest(tables)}.items() <= RECORDED.items(), CHANGED


# ------------------------------------------------------------------------------------------------ reading text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Mr. Low left. He ran.", ["Mr. Low left.", "He ran."]),
        ("The U.S. Army won. It was 3.5 to 1.", ["The U.S. Army won.", "It was 3.5 to 1."]),
        ("He lives in the U.S. The army left.", ["He lives in the U.S.", "The army left."]),
        ('"Stop!" he cried. "I see."', ['"Stop!" he cried.', '"I see."']),
        ("John F. Low sang. Why?", ["John F. Low sang.", "Why?"]),
        ("it ca n't be . he left ! why ?", ["it ca n't be .", "he left !", "why ?"]),
        ("`` no . '' he left . mr. low sat .", ["`` no . ''", "he left .", "mr. low sat ."]),
        ("one line\nand another", ["one line", "and another"]),
        ("well... maybe not. ok", ["well...", "maybe not.", "ok"]),
        ("", []),
    ],
)
def test_sentences_end_where_a_reader_would_end_them(text, expected):
    assert list(sentences(text)) == expected


@given(st.text(alphabet="aB1 .!?'\"\n", max_size=60))
@settings(max_examples=100)
def test_sentences_lose_nothing_but_space(text):
    assert "".join("".join(sentences(text)).split()) == "".join(text.split())


def test_names_are_found_with_their_kind():
    found = {name.text: name.kind for name in names("In May the German Karl Lund, of New York, left for tea in Rome.")}
    assert found == {"May": "month", "German Karl Lund": "other", "New York": "other", "Rome": "place"}
    assert [name.text for name in names("then karl lund left .", "Today Karl Lund left.")] == ["karl lund"]


def test_the_look_of_benchmark_outputs():
    text = 'He can\'t pay $2.5 million (now), said "Bob" of the U.S. Army.'
    assert to_ptb(text).lower() == "he ca n't pay $ 2.5 million -lrb- now -rrb- , said `` bob '' of the u.s. army ."
