"""Groups for training: what their severities promise, and that length does not tell which text is better."""

import json
import lzma
import os
import subprocess
import sys
from collections import Counter
from itertools import combinations, islice, pairwise
from pathlib import Path

import numpy as np
import pytest

from synthscore.degrade.damage import attributes, damages, damages_for
from synthscore.degrade.edits import Material
from synthscore.degrade.reading import sentences
from training.good_texts import LIMITS
from training.groups import LONGER_WINS, WEIGHTS, Group, groups
from training.machine_text import (
    MACHINES,
    DamageSource,
    chained,
    chopped,
    fragment,
    fused,
    machine_path,
    machines_for,
    scattered,
    spliced,
    weakly_said,
)
from training.phrases import damaged_words, exchanged, replaced_phrase
from training.rewording import EDITS
from training.sides import TURNED, neutral_for

CORPORA = Path(__file__).resolve().parents[3] / "shared" / "corpora"

TOWNS = ("Velm", "Dorn", "Orla", "Tarn", "Molde", "Sarn")
PEOPLE = ("Anna Keller", "Tom Brandt", "Ida Moor", "Karl Lund", "Rosa Vey", "Jan Holt")


def _article(n: int) -> str:
    person, other, town, next_town = PEOPLE[n % 6], PEOPLE[(n + 1) % 6], TOWNS[n % 6], TOWNS[(n + 2) % 6]
    year = 1900 + 7 * n
    return (
        f"{person} was an engineer from {town} who built the first iron bridge over the river in {year}. The "
        f"bridge made the market of {next_town} grow and brought many farmers to the town.\n\n"
        f"{person} was born in {town} and studied in {next_town} with the engineer {other}. The plans for an iron "
        f"bridge over the river were refused for nine years, because the council of {town} feared the cost.\n\n"
        f"The bridge was opened in {year}. It carried the road to the market of {next_town}, and the farmers of "
        f"{town} could reach the town within an hour. {other} praised the iron arches in a letter. The "
        f"market of {next_town} "
        f"doubled within {n + 3} years. Bakers sold their bread there on Monday.\n\n"
        f"The iron bridge was damaged by a flood. {person} came back and repaired the arches with two helpers. A "
        f"small museum in {town} shows the tools. {person} moved to {next_town} in {year + 9}. It is closed on "
        "Sunday. Some visitors also come for the cake."
    )


def _dialogue(n: int) -> str:
    town, person = TOWNS[n % 6], PEOPLE[n % 6]
    return (
        f"A: Have you ever been to {town} in the summer?\nB: Yes, I went there twice with my brother, it "
        f"was so hot.\n"
        "A: What did you like most about the place?\n"
        f"B: I think the old market was great, we ate {n + 2} plates of fish.\n"
        f"A: I love fish too, especially when it's cooked outside.\nB: Then you should meet {person}, "
        f"because she cooks "
        f"by the river every Friday.\nA: That sounds like fun. Does she sing as well?\nB: She does, and "
        f"people come from "
        "far away to hear her old songs."
    )


def _story(n: int) -> str:
    person, town = PEOPLE[n % 6], TOWNS[n % 6]
    return (
        f"{person} was afraid of the dark road to {town}. The old lamp had gone out at noon, and nobody had oil.\n\n"
        f"The wind rose slowly over the hills. {person} smiled at the frightened horse and walked on, "
        f"although the snow "
        "was deep. Behind the last house a small light was burning, which nobody had seen before. A "
        "woman wept at the "
        f"window. She asked for the child that was lost in the autumn. {person} took her cold hand and "
        f"said nothing. Then "
        f"the horse stopped, and the bells of {town} began to ring. In the morning the house was gone, "
        f"and only a child's "
        "red shoe was lying in the snow. The old horse would not cross the bridge again. Years later "
        "the shoe was still "
        "hanging over the door. Nobody dared to touch it."
    )


def documents(n):
    """Original texts of each kind, mixed."""
    for i in range(n):
        yield {"kind": "article", "source": "own", "licence": "own", "text": _article(i)}
        yield {"kind": "dialogue", "source": "own", "licence": "own", "text": _dialogue(i)}
        yield {"kind": "story", "source": "own", "licence": "own", "text": _story(i)}


def corpus(seed):
    """Held-out documents of the corpora, in a random order."""
    path = CORPORA / "heldout.jsonl.xz"
    if not path.is_file():
        pytest.skip(f"the training corpora are not part of the repository, and there is no {path}")
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return (rows[i] for i in np.random.default_rng(seed).permutation(len(rows)))


@pytest.fixture(scope="module")
def made():
    return list(groups(documents(60), np.random.default_rng(5), per_document=8))


@pytest.fixture(scope="module")
def real():
    return list(islice(groups(corpus(1), np.random.default_rng(1), per_document=8), 400))


def pairs(some):
    for group in some:
        for i, j in combinations(range(len(group.texts)), 2):
            yield group, i, j


def test_every_attribute_of_every_task_is_asked(made):
    asked = {(group.task, group.attribute) for group in made}
    assert asked == {(task, attribute) for task in attributes() for attribute in attributes()[task]}


def test_groups_come_in_the_proportions_asked_for(made):
    counts = Counter(group.task for group in made)
    for task, weight in WEIGHTS.items():
        assert counts[task] / len(made) == pytest.approx(weight, abs=0.05)


def test_only_the_tasks_asked_for_are_made():
    tasks = {group.task for group in groups(documents(12), np.random.default_rng(0), tasks={"story": 1.0})}
    assert tasks == {"story"}


def check(group):
    low, high = LIMITS[group.task]
    assert 3 <= len(group.texts) <= 5
    assert all(0 <= severity <= 1 for severity in group.severities)
    assert len(set(group.severities)) > 1
    for text, severity, kinds in zip(group.texts, group.severities, group.kinds, strict=True):
        assert low - 1 <= len(text.replace(" ,", ",").replace(" .", ".").split()) <= high * 1.5  # in any look
        names = kinds.split("+")
        assert set(names) <= {"good", *EDITS, *damages(), *MACHINES}
        lowering = {
            *damages_for(group.task, group.attribute),
            *machines_for(group.task, group.attribute, DamageSource(Material(""), WEAK)),
        }
        hurting = set(names) & lowering
        assert bool(hurting) == (severity > 0)
        others = set(names) & {*damages(), *MACHINES} - hurting
        assert others <= set(neutral_for(group.task, group.attribute))


def test_severity_is_damage_to_the_attribute_asked_about_and_to_no_other(made):
    for group in made:
        check(group)


def test_severity_is_damage_to_the_attribute_asked_about_on_real_texts(real):
    for group in real:
        check(group)


def test_contexts_are_no_longer_than_asked():
    for group in groups(documents(20), np.random.default_rng(1), max_words=60):
        assert len(group.context.replace(" .", ".").replace(" ,", ",").split()) <= 60 * 1.3  # in any look


def some_groups(seed):
    return list(groups(documents(8), np.random.default_rng(seed), per_document=8))


def test_the_same_seed_gives_the_same_groups():
    one = some_groups(3)
    assert one == some_groups(3)
    assert one != some_groups(4)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_groups_in_another_process():
    code = "from tests.training.test_groups import some_groups; print([group.texts for group in some_groups(3)])"
    root = Path(__file__).resolve().parents[2]
    for seed in ("0", "1"):  # of the hashes, which the order of sets follows
        told = subprocess.run(
            [sys.executable, "-c", code],
            cwd=root,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert told == f"{[group.texts for group in some_groups(3)]}\n"


def test_a_group_of_equal_texts_is_refused():
    with pytest.raises(ValueError, match="must differ"):
        Group("story", "empathy", "c", "", ("a", "a"), (0.0, 1.0), ("good", "negation"))
    with pytest.raises(ValueError, match="2 texts, 1 severities"):
        Group("story", "empathy", "c", "", ("a", "b"), (0.0,), ("good", "negation"))


def test_what_gives_no_group_is_counted():
    reasons = Counter()
    rows = [{"kind": "article", "text": "Too short."}] * 5 + [{"kind": "story", "text": _story(1)}] * 5
    rows += [{"kind": "dialogue", "source": "RasaHQ/STAR", "text": _dialogue(1)}]
    list(groups(iter(rows), np.random.default_rng(0), reasons=reasons))
    assert reasons["article: first documents"] == 3
    assert reasons["summarization: article too short"] > 0
    assert reasons["dialogue: carelessly written source"] == 1


def length_shares(some):
    """(task, attribute) -> share of pairs whose better text is the longer one, by characters and by words; pairs."""
    longer, total = Counter(), Counter()
    for group, i, j in pairs(some):
        better = group.severities[j] - group.severities[i]
        lengths = [(len(text), len(text.split())) for text in (group.texts[i], group.texts[j])]
        for unit in range(2):
            difference = lengths[0][unit] - lengths[1][unit]
            if better and difference:
                key = (group.task, group.attribute, unit)
                longer[key] += (difference > 0) == (better > 0)
                total[key] += 1
    return {key: (longer[key] / total[key], total[key]) for key in total}


def test_length_tells_the_better_text_no_more_than_it_may(made, real):
    for some in (made, real):
        for key, (share, total) in length_shares(some).items():
            if total >= 100:
                most = 0.5 + LONGER_WINS.get(key[:2], 0.0) / 2
                assert 0.45 <= share <= most + 0.05, (key, share, total)


def test_the_words_marked_as_damaged_are_those_that_the_sound_text_does_not_have():
    assert damaged_words("a b c d", "a b x d") == (False, False, True, False)
    assert damaged_words("a b c d", "a c d") == (False, True, False)  # what is missing shows at the next word
    assert damaged_words("a b c", "a b") == (False, True)  # or at the last one
    assert damaged_words("a b", "a b") == (False, False)


def test_marks_are_there_for_whole_texts_and_for_damaged_ones_alone(made, real):
    for group in [*made, *real]:
        assert len(group.damaged) == len(group.texts)
        for text, severity, marks in zip(group.texts, group.severities, group.damaged, strict=True):
            if marks is not None:
                assert len(marks) == len(text.split())
                assert any(marks) == (severity > 0)
    known = [marks is not None for group in real for marks in group.damaged]
    assert np.mean(known) > 0.7 if known else True


def twice(some):
    """Neighbouring groups of the same texts."""
    return [(one, other) for one, other in pairwise(some) if one.texts == other.texts]


def test_texts_asked_about_twice_under_one_context_are_damaged_in_one_attribute_alone(made, real):
    both = [(one, other) for some in (made, real) for one, other in twice(some) if one.attribute != other.attribute]
    assert len(both) > 20
    for one, other in both:
        assert (one.context, one.kinds) == (other.context, other.kinds)
        assert any(one.severities)
        assert any(other.severities)
        assert all(a == 0 or b == 0 for a, b in zip(one.severities, other.severities, strict=True))


def test_where_a_word_is_exchanged_in_the_context_as_well_the_wrong_texts_are_the_right_ones(made, real):
    both = [(one, other) for some in (made, real) for one, other in twice(some) if one.attribute == other.attribute]
    assert len(both) >= 15
    for one, other in both:
        assert (one.task, one.attribute) in TURNED
        assert (one.context, one.facts) != (other.context, other.facts)
        assert len({*one.severities, *other.severities}) == 2
        assert all((a == 0) != (b == 0) for a, b in zip(one.severities, other.severities, strict=True))


def test_a_replaced_phrase_is_found_if_nothing_else_differs():
    assert replaced_phrase("Anna Keller built it.", "Tom Brandt built it.") == ("Anna Keller", "Tom Brandt")
    assert replaced_phrase("It was in Velm, they say.", "It was in Dorn, they say.") == ("Velm", "Dorn")
    assert replaced_phrase("It was in Velm.", "It was not in Velm.") is None
    assert replaced_phrase("She saw Velm and Dorn.", "She saw Orla and Tarn.") is None
    assert replaced_phrase("It stood in Velm.", "It stood in Velm!") is None


def test_phrases_are_exchanged_as_whole_words_in_triples_too():
    assert exchanged("Ann met Tom. Anna did not.", "Ann", "Tom") == "Tom met Ann. Anna did not."
    assert exchanged("Tom_Brandt | bornIn | Velm", "Tom Brandt", "Ida Moor") == "Ida_Moor | bornIn | Velm"


SOURCE = "The mayor opened the bridge and praised the workers. The council refused the plan and raised the tax."


def test_two_sentences_are_fused_at_the_same_word():
    source = DamageSource(Material(SOURCE))
    made = fused("The mayor opened the bridge and praised the workers.", np.random.default_rng(0), source)
    assert made == "The mayor opened the bridge and raised the tax."
    assert fused("Nothing to cut here.", np.random.default_rng(0), source) is None


def test_a_chain_takes_each_word_from_behind_the_one_before():
    source = DamageSource(Material(SOURCE))
    words = SOURCE.split()
    follow = set(pairwise(words))
    for seed in range(20):
        made = chained("The mayor opened the bridge.", np.random.default_rng(seed), source)
        assert made is not None
        assert made.startswith("The mayor ")
        inner = made.split()[:-1]  # a full stop may have been put at the end
        jumps = [pair for pair in pairwise(inner) if pair not in follow]
        assert all(before == "tax." for before, _ in jumps)  # the only word that nothing follows


def test_a_path_of_machines_damages_a_sentence_a_step():
    text = "The mayor opened the bridge and praised the workers. She spoke to them for an hour and went home then."
    steps = list(
        machine_path(text, ("fused-sentences", "word-chain"), np.random.default_rng(1), DamageSource(Material(SOURCE)))
    )
    assert [step.severity for step in steps] == [0.6, 1.0]
    assert {step.kind for step in steps} <= set(MACHINES)
    assert len({text, *(step.text for step in steps)}) == 3


FAR = " ".join(
    f"Sentence number {word} stands in its own place here." for word in ("one", "two", "three", "four", "five")
)


def test_a_scattered_sentence_comes_from_three_or_more_sentences_away():
    source = DamageSource(Material(FAR))
    first = sentences(FAR)[0]
    assert {scattered(first, np.random.default_rng(seed), source) for seed in range(20)} == set(sentences(FAR)[3:])
    assert scattered("Short.", np.random.default_rng(0), DamageSource(Material("One sentence alone."))) is None


def test_a_spliced_sentence_breaks_behind_a_word_that_wants_more():
    source = DamageSource(Material(SOURCE + " He was blamed for the noise of the saws."))
    for seed in range(20):
        made = spliced("They walked with the children of the town to a fair.", np.random.default_rng(seed), source)
        assert made is not None
        assert made.startswith("They walked with")
        assert made.split()[-1] in {"workers.", "tax.", "saws."}


def test_chopped_sentences_are_the_first_clauses_of_others():
    source = DamageSource(Material(SOURCE + " He was blamed for the noise, which nobody liked."))
    for seed in range(10):
        made = chopped("They walked with the children to a fair.", np.random.default_rng(seed), source)
        whole = {"The mayor opened the bridge.", "The council refused the plan.", "He was blamed for the noise."}
        assert len({*sentences(made)} & whole) == 2


def test_a_fragment_has_no_verb():
    sentence = "Ann Lee, the owner of the mill, was seen in the small harbour of Velm."
    made = {fragment(sentence, np.random.default_rng(seed), DamageSource(Material(""))) for seed in range(20)}
    assert made == {"Ann Lee, the owner of the mill.", "In the small harbour of Velm."}
    assert fragment("He was there.", np.random.default_rng(0), DamageSource(Material(""))) is None


WEAK = ("I think it is a good movie.", "I like to read about the old harbour of Velm.", "That is a lot of people!")


def test_half_of_the_weak_replies_are_the_nearest_to_the_context():
    source = DamageSource(Material("A: Do you know the harbour of Velm?\nB: It is very old."), WEAK)
    made = [weakly_said("I do.", np.random.default_rng(seed), source) for seed in range(60)]
    assert set(made) == set(WEAK)
    assert 30 <= made.count(WEAK[1]) <= 50  # half, and a third of the rest
    assert weakly_said("I do.", np.random.default_rng(0), DamageSource(Material("Velm."))) is None


@pytest.mark.slow
def test_weak_replies_are_damage_in_what_they_surely_lower():
    told = list(groups(documents(60), np.random.default_rng(5), per_document=8, weak_replies=WEAK))
    weak = [
        (group.attribute, severity)
        for group in told
        for text, severity, kinds in zip(group.texts, group.severities, group.kinds, strict=True)
        if "weak-reply" in kinds
    ]
    assert len(weak) >= 20
    assert all(severity > 0 for _, severity in weak)
    assert {attribute for attribute, _ in weak} <= MACHINES["weak-reply"].lowers["dialogue"]
    assert not any(
        "weak-reply" in kinds for group in groups(documents(60), np.random.default_rng(5)) for kinds in group.kinds
    )


def test_length_does_not_tell_the_better_text_of_real_groups(real):
    big = [key for key, (_, total) in length_shares(real).items() if total >= 100]
    assert len(big) >= 3


def test_a_fair_share_of_pairs_is_similar(real):
    similar = [group.severities[i] == group.severities[j] for group, i, j in pairs(real)]
    assert 0.15 <= np.mean(similar) <= 0.40


def test_as_many_good_texts_are_edited_as_are_left_alone(real):
    both = [pair for group in real for pair in zip(group.kinds, group.severities, strict=True)]
    good = [kinds for kinds, severity in both if not severity]
    edited = np.mean([kinds != "good" for kinds in good])
    assert 0.35 <= edited <= 0.70


def test_good_texts_are_whole_sentences(real):
    for group in real:
        for text, kinds in zip(group.texts, group.kinds, strict=True):
            if kinds == "good" and group.task != "dialogue":  # people chat without full stops
                assert sentences(text)[-1][-1] in ".!?\"'", text


def test_replies_may_lack_their_full_stop_and_have_facts_beside_them(real):
    replies = [group for group in real if group.task == "dialogue"]
    ends = [text.rstrip()[-1] in ".!?\"'" for group in replies for text in group.texts]
    assert 0.55 <= np.mean(ends) <= 0.95
    facts = [bool(group.facts) for group in replies if group.attribute != "groundedness"]
    assert 0.3 <= np.mean(facts) <= 0.8


def test_most_documents_of_some_sources_are_left_out_and_counted():
    rows = [{"kind": "dialogue", "source": "facebookresearch/accentor", "text": _dialogue(n)} for n in range(60)]
    reasons = Counter()
    list(groups(iter(rows), np.random.default_rng(0), reasons=reasons))
    assert 40 <= reasons["dialogue: enough of this source"] <= 60


def test_summaries_come_in_all_looks(real):
    looks = Counter()
    for group in real:
        if group.task == "summarization":
            spaced = [" ," in text or text.endswith(" .") for text in group.texts]
            looks["spaced" if all(spaced) else "mixed" if any(spaced) else "raw or lower"] += 1
    assert all(looks[look] >= 0.10 * sum(looks.values()) for look in ("spaced", "mixed", "raw or lower")), looks


@pytest.mark.parametrize("task", list(attributes()))
def test_no_damage_is_both_sure_and_neutral_for_an_attribute(task):
    for attribute in attributes()[task]:
        assert not set(damages_for(task, attribute)) & set(neutral_for(task, attribute))
        assert damages_for(task, attribute)
