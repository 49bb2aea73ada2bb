"""One judge gives one score, however it is asked: in process, by each route of a server, and by a server that decides.

The bars are in rungs, of scores: a probability that is off by little says nothing of them, where both orders nearly
cancel.
"""

import numpy as np
import pytest

from synthscore.engine import stacked
from synthscore.engines import open_engine
from synthscore.judging.asking import Asking
from synthscore.scoring.scorer import Scorer
from tests import factories
from tests.engines.test_decisions import Decider
from tests.engines.test_server_formats import LlamaServer
from tests.models import one_fast
from tests.servers import Liar

pytestmark = pytest.mark.filterwarnings("ignore:.* reports neither its version nor its model's weights")

SAME = 1e-3  # rungs
TEXTS = ("The storm closed the harbour.", "Nobody was hurt in it.", "It rained.", "Boats boats boats.")
RUNGS = (
    "It.",
    "Storm storm.",
    "A storm came.",
    "The storm came on Monday.",
    "The storm closed the harbour for a week.",
)
LADDERS = [
    factories.ladder(name, "surprise", "story", texts=RUNGS, context=context)
    for name, context in (("c1", "A storm."), ("c2", "A cat."))
]
ROWS = [
    {"id": f"{place}/{k}", "context_id": place, "text": text} for place in ("c1", "c2") for k, text in enumerate(TEXTS)
]


def scored(engine, protocol="compare", **asking):
    asking = Asking(protocol, both_orders=True, min_mass=0.0, **asking)
    return Scorer(factories.references(*LADDERS), engine, asking=asking).score(ROWS)


@pytest.fixture(scope="module")
def here(local):
    """Protocol -> the scores of the model in this process."""
    found = {protocol: scored(local, protocol) for protocol in ("compare", "choose")}
    for scores in found.values():
        assert np.ptp(scores.values) > 50 * SAME, "texts are told apart by much more than the bar"
    return found


@pytest.mark.parametrize("method", one_fast(["ids", "topk"]))
def test_exact_routes_give_the_scores_of_the_model_here(method, url, folder, here):
    there = scored(open_engine(url, method=method, tokenizer=folder, top_k=427))
    np.testing.assert_allclose(there.values, here["compare"].values, atol=SAME)


@pytest.mark.slow
def test_biases_give_the_scores_of_the_model_here(url, folder, here):
    with Liar(LlamaServer(url)) as server:
        there = scored(open_engine(server.url, method="bias", tokenizer=folder))
    np.testing.assert_allclose(there.values, here["compare"].values, atol=SAME)


def test_chats_give_the_scores_of_the_model_here_where_labels_are_one_token(url, here):
    there = scored(open_engine(url, method="chat", top_k=427), "choose")
    np.testing.assert_allclose(there.values, here["choose"].values, atol=SAME)


@pytest.mark.parametrize("max_unreported", [0.02, 1.0])
@pytest.mark.parametrize("protocol", ["compare", "choose"])
def test_with_labels_that_are_not_reported_the_score_of_the_model_here_is_between_low_and_high(
    protocol, max_unreported, url, folder, here
):
    engine = open_engine(url, method="topk", tokenizer=folder, top_k=200)
    there = scored(engine, protocol, max_unreported=max_unreported)
    assert all("did not report" in score.reason for score in there)
    assert {score.value is None for score in there} == {max_unreported < 1}
    for bounded, exact in zip(there, here[protocol], strict=True):
        assert bounded.low - SAME <= exact.value <= bounded.high + SAME
        assert bounded.value is None or bounded.low <= bounded.value <= bounded.high
    assert there[2].high - there[2].low < 2, "which says something"


def test_a_server_that_decides_gives_these_scores_if_it_asks_the_same(local, here):
    """Servers put their own words around ours: their prompt is another, and so are their scores and their signature."""
    said = {}  # state and instructions -> probabilities of the labels

    class Remembering:
        signature, capabilities = local.signature, local.capabilities

        def answer(self, questions, progress=None):
            answers = local.answer(questions, progress)
            probs = stacked(questions[0].labels, answers).probs.tolist()
            said.update(zip((question.prompt.divided for question in questions), probs, strict=True))
            return answers

    scored(Remembering())

    class SamePrompt(Decider):
        def __call__(self, method, path, body):
            asked = {name: {**each, "state": body["state"]} for name, each in body.get("questions", {}).items()}
            return super().__call__(method, path, {**body, "questions": asked})

        def one(self, question, options):
            probs = said.get((question["state"], question["instructions"]), [1 / len(options)] * len(options))
            return {"type": "choice", "probabilities": dict(zip(options, probs, strict=True))}

    with Liar(SamePrompt()) as server:
        there = scored(open_engine(f"systemone:{server.url}"))
    np.testing.assert_allclose(there.values, here["compare"].values, atol=SAME)
    assert "backend:server-systemone|chat:server|" in str(there.signature)
