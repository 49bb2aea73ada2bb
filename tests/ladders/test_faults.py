"""What a model wrote becomes a text or a fault: what is taken off, and what is refused."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synthscore.errors import TaskError
from synthscore.judging.templates import load_task
from synthscore.ladders.faults import Fault, clean, faults
from synthscore.ladders.references import References
from synthscore.resources import resource
from synthscore.types import Context

SUMMARY = replace(load_task("summarization"), words=())
RESPONSE = replace(load_task("dialogue"), words=())


def fault(text, *args, **options):
    found = clean(text, *args, **options)
    assert isinstance(found, Fault), found
    return found.kind


GOOD = "The ferry lost power. Nobody was hurt."


@pytest.mark.parametrize(
    "text",
    [
        f"  {GOOD}\n\n",
        f"Here is the summary:\n{GOOD}",
        f"Here’s a new summary of the article, halfway in quality:\n\n{GOOD}",
        f"**Here are two sentences of text:**\n{GOOD}",
        f"Sure! Here is the worst possible summary:\n{GOOD}",
        f"Sure:\n{GOOD}",
        f"Certainly, this is a summary between the two:\r\n{GOOD}",
        f"Of course! Here you go:\n{GOOD}",
        f"The worst possible summary:\n{GOOD}",
        f"The summary between them:\n{GOOD}",
        f"## Summary:\n{GOOD}",
        f'"{GOOD}"',
        f"“{GOOD}”",
        f"'{GOOD}'",
        f'Here is the summary:\n\n"{GOOD}"',
    ],
)
def test_what_surrounds_a_text_is_taken_off(text):
    assert clean(text, SUMMARY) == GOOD


@pytest.mark.parametrize(
    "text",
    [
        "Sure, I would love to go!",
        "Sure, bring these:\nbread, cheese and a knife.",
        "Okay, one question:\nwhy an octopus?",
        "Here is what she packed:\nA rope. A lamp.",
        "Here is my summary: the ferry lost power.",
        "Listen:\nI was there.",
        "Here is a story.\nIt ended.",
        "The best of it:\nthe sea.",
        "Here is the summary:",
        "Here is the summary:\nHere is the story:\nIt ended."[21:],
        '"Run," she said. "Now."',
        '"Run!" she said.',
        'She said "run".',
        "'Tis the season, they say, of the 'best' stories'",
        "“One” and “two”",
        "I'm sorry to hear that! How is he?",
        "I cannot believe that you met an octopus.",
        "I can't help but wonder what it thinks.",
        "As an artist she was unknown.",
        "A robot said: I cannot help with that.",
    ],
)
def test_a_text_that_only_looks_like_an_announcement_a_quotation_or_a_refusal_is_left_as_it_is(text):
    expected = "It ended." if text.startswith("Here is the story:\n") else text
    assert clean(text, RESPONSE) == expected


def test_an_apostrophe_is_not_a_quotation_mark():
    assert clean("'It's late.'") == "It's late."


def test_only_one_announcing_line_is_dropped():
    assert clean("Here is the text:\nHere is the text:\nIt ended.") == "Here is the text:\nIt ended."


@pytest.mark.parametrize("text", ["", " \n", "...", '""', "“ ”", "Here is the summary:\n\n—"])
def test_an_empty_text_is_rejected(text):
    assert clean(text, SUMMARY) == Fault("failed", "it is empty")


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, but this goes against my guidelines.",
        "I’m sorry, but I can’t help with that.",
        "I am very sorry, but no.",
        "I'm sorry, I can't assist with that request.",
        "I cannot write a bad summary.",
        "I can't help with that.",
        "I am not able to provide one.",
        "I cannot.",
        "As an AI, I have no opinion.",
        "as an AI language model I must not.",
        "I apologize, but I cannot fulfill this request.",
        '"I cannot do that."',
        "Here is the summary:\nI'm sorry, but I won't.",
    ],
)
def test_a_refusal_is_rejected(text):
    assert clean(text, SUMMARY) == Fault("refusal", "it is a refusal")


@pytest.mark.parametrize(
    "parent",
    [GOOD, f" {GOOD.upper()}\n", "The ferry  lost power.\nNobody was hurt.", "The ferry lost power; nobody was hurt"],
)
def test_a_copy_of_a_parent_is_rejected(parent):
    assert fault(f'"{GOOD}"', others=["Another.", parent]) == "near-duplicate"
    assert clean(GOOD, others=["Another.", f"{GOOD} So it was."]) == GOOD


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("The ferry lost power. Nobody", False),
        ("It lost power,", False),
        ("“No!” he", False),
        ("It lost power.", True),
        ("(It lost power.)", True),
        ("He said “no!”", True),
        ("And then…", True),
    ],
)
def test_a_cut_text_is_kept_only_if_it_ends_with_a_sentence(text, kept):
    assert (clean(text, finish_reason="length") == text) is kept
    assert clean(text) == text


@given(st.text(max_size=60), st.sampled_from(["stop", "length"]), st.lists(st.text(max_size=5), max_size=2))
def test_cleaning_gives_a_stripped_part_of_the_text_or_a_reason(text, finish_reason, parents):
    made = clean(text, finish_reason=finish_reason, others=parents)
    assert isinstance(made, Fault) or (made in text and made == made.strip() and made not in parents)


# ---------------------------------------------------------------------------------------------------- the text itself

TALK = Context("talk", "A: I went to the aquarium.\nB: Was it worth the queue?\nA: The octopus stared back at me.")
NAMED = Context("named", "Ana Pruss: I went out.\nKees: Why?\nAna Pruss: It rained.")
FACTS = Context("facts", "name: The Vaults\narea: riverside\nfood: Italian")
ARTICLE = Context(
    "ferry",
    "The ferry lost power on Tuesday evening. A cooling hose had burst and filled the engine room with steam. "
    "Two tugs brought the ship into the harbour at night. Nobody was hurt, and all sailings are off until Friday. "
    "The company has ordered new hoses for both of its ships, which were built in the same year and the same yard. "
    "A second boat will take those who have to see a doctor on the mainland, and it leaves each morning at seven.",
)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("<think>Bad, so: no order.</think>\n\nIt ended.", "It ended."),
        ("Bad, so: no order.\n</think>\nIt ended.", "It ended."),
        ("<thinking>\nHm.\n</thinking> It ended.", "It ended."),
        ("Summary: It ended.", "It ended."),
        ("**The worst possible summary:** It ended.", "It ended."),
        ("It ended.\n\nThe summary between them:", "It ended."),
        ("It ended.\n**Summary:**", "It ended."),
        ('Summary: "It ended."', "It ended."),
    ],
)
def test_thinking_labels_and_cues_are_taken_off(text, kept):
    assert clean(text, SUMMARY) == kept


@pytest.mark.parametrize("text", ["<think>First I must", "It ended. <think>Or did it?", "One.\n</think>\n<think>Two."])
def test_thinking_without_an_end_is_refused(text):
    assert fault(text, SUMMARY) == "meta-text"


@pytest.mark.parametrize(
    ("text", "context"),
    [
        ("B: Did you stare back?", TALK),
        ("**B:** Did you stare back?", TALK),
        ('B: "Did you stare back?"', TALK),
        ("Kees: Did you stare back?", NAMED),
        ("Ana Pruss: Did you stare back?", NAMED),
        ("Assistant: Did you stare back?", None),
        ("Speaker 2: Did you stare back?", FACTS),
    ],
)
def test_the_name_of_who_speaks_is_taken_off(text, context):
    assert clean(text, RESPONSE, context) == "Did you stare back?"


@pytest.mark.parametrize("text", ["B: No.\nA: Yes!", "No.\n\nA: Yes!", "B: “No.” A: “Yes!”", "No.\nUser: And you?"])
def test_a_second_turn_is_refused(text):
    assert fault(text, RESPONSE, TALK) == "second-turn"


@pytest.mark.parametrize(
    ("text", "context"),
    [
        ("Plan A: we go. Plan B: we stay.", TALK),
        ("area: riverside, and nothing else.", FACTS),
        ("I said: B is better.", TALK),
        ("He had one rule: never look back.", NAMED),
    ],
)
def test_a_colon_makes_no_speaker(text, context):
    assert clean(text, RESPONSE, context) == text


@pytest.mark.parametrize(
    "text",
    [
        "The article contains numerous details that are not supported by the original text.",
        "A summary of the entire piece would need a full sentence about the captain.",
        "The ship's hoses can be added to the summary for better clarity.",
        "The main point of the conversation is that the octopus stared.",
        "It ended.\n\nThe summary between them: No heading, no introduction, no remark about its quality.",
        "To make the response even more engaging, you could refine it.",
        "The response between them is quite exotic, and the octopus stared.",
        "Two to four sentences, ending on a full sentence.",
        "It ended. Here's the corrected version: it went on.",
        "Dear [Customer Name], the jacket is on its way.",
    ],
)
def test_a_remark_about_the_task_is_refused(text):
    assert fault(text, SUMMARY) == "meta-text"


def test_a_copy_of_the_context_is_refused_unless_it_is_the_best_rung_and_is_not_most_of_it():
    lead = ". ".join(ARTICLE.text.split(". ")[:2]) + "."
    assert fault(lead, SUMMARY, ARTICLE) == "copied"
    assert clean(lead, SUMMARY, ARTICLE, best=True) == lead
    assert fault(ARTICLE.text.upper(), SUMMARY, ARTICLE, best=True) == "copied"
    own = "Steam from a hose stopped the ferry on Tuesday; tugs had it in the harbour by night."
    assert clean(own, SUMMARY, ARTICLE) == own


@pytest.mark.parametrize(("n", "kind"), [(2, "short"), (3, None), (6, None), (7, "long")])
def test_a_text_has_as_many_words_as_its_task_allows(n, kind):
    task, text = replace(SUMMARY, words=(3, 6)), " ".join(f"word{k}" for k in range(n)) + "."
    assert (fault(text, task) if kind else clean(text, task)) == (kind or text)


@pytest.mark.parametrize("words", [(3,), (0, 6), (7, 6), ("3", "6")])
def test_lengths_that_are_none_are_an_error_of_the_task(words):
    with pytest.raises(TaskError, match="least and the most"):
        replace(SUMMARY, words=words)


@pytest.mark.parametrize("folder", ["curated/first24", "degraded"])
def test_no_rung_that_is_released_is_refused_for_more_than_what_was_done_on_purpose(folder):
    references = References.load(resource("data/references") / folder)
    kinds = {
        found.kind
        for ladder in references
        for rung in ladder.usable
        for found in faults(rung.text, load_task(ladder.task), ladder.context, best=rung.level == ladder.n_rungs)
    }
    assert kinds <= ({"copied", "short"} if folder == "degraded" else set())
