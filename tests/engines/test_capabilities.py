"""What an engine can do is a value on it: kept by whatever stands around it, and known of recorded answers."""

from dataclasses import replace

import numpy as np
import pytest

from synthscore.cli.messages import Messages, Watched
from synthscore.engine import Capabilities, Prompt, Question, capabilities_of, label_log_probs
from synthscore.engines import open_engine
from synthscore.engines.servers.decisions import WIRES, SystemOne
from synthscore.errors import InputError
from synthscore.scoring.scorer import Scorer
from synthscore.signature import Signature
from synthscore.store.engine import QuestionCounter, StoredEngine, recorded_capabilities, store_of
from synthscore.store.file import Store
from synthscore.types import Target
from tests.engines.test_decisions import Decider, prompts, save_decider
from tests.engines.test_reward import KINDS, LADDERS, TEXTS, save
from tests.fakes import FakeEngine
from tests.servers import Liar

pytestmark = pytest.mark.filterwarnings("ignore:.* reports neither its version nor its model's weights")

LABELS = ("Better", "Worse", "Similar")
ODD = Capabilities(decides=True, reports_mass=False, description="asked by letter")


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "answers.sqlite") as store:
        yield store


@pytest.fixture(scope="module")
def reward(tmp_path_factory):
    config, tokenizer = KINDS["llama"]
    return open_engine(save(tmp_path_factory.mktemp("reward"), config, tokenizer())[1])


def kept(capabilities):
    """Without what only the model itself, or its server, can do or say."""
    return replace(capabilities, served=False, tokenizer=None, description="")


class Odd(FakeEngine):
    capabilities = ODD


class Plain:
    """As little as an engine needs."""

    signature = Signature.of(model="plain", backend="reward", mass="unreported")

    def answer(self, questions, progress=None):
        return FakeEngine().answer(questions, progress)


def test_an_engine_that_says_nothing_is_a_language_model_whatever_it_is_signed_as():
    assert capabilities_of(Plain()) == Capabilities()
    assert label_log_probs(Plain(), prompts(2), LABELS).label_mass == pytest.approx([0.9, 0.9])


def test_capabilities_of_another_type_are_an_error_that_says_what_they_are_to_be():
    engine = FakeEngine()
    engine.capabilities = {"decides"}
    with pytest.raises(InputError, match=r"capabilities of FakeEngine is \{'decides'\}, expected .*Capabilities"):
        capabilities_of(engine)


@pytest.mark.parametrize("around", ["store", "plan", "watched", "watched plan", "all"])
def test_whatever_stands_around_an_engine_can_do_what_the_engine_can(around, store):
    stored = StoredEngine(Odd(), store)
    made = {
        "store": lambda: stored,
        "plan": lambda: QuestionCounter(Odd()),
        "watched": lambda: Watched(Odd(), Messages()),
        "watched plan": lambda: Watched(Odd(), Messages(), dry_run=True),
        "all": lambda: Watched(stored, Messages(), dry_run=True),
    }
    assert capabilities_of(made[around]()) is ODD


def test_a_mass_that_an_engine_does_not_report_is_not_known():
    assert np.isnan(label_log_probs(Odd(), prompts(2), LABELS).label_mass).all()


def test_a_model_here_shows_its_tokens_and_how_it_is_run(local):
    can = local.capabilities
    assert kept(can) == Capabilities()
    assert can.tokenizer is local.prompts
    assert not can.served
    assert can.description.startswith(f"run as {local.backend}, checked")


def test_a_server_shows_its_tokens_only_where_they_are_made_here(url):
    routes = {method: open_engine(url, method=method).capabilities for method in ("ids", "chat")}
    assert [can.served for can in routes.values()] == [True, True]
    assert [can.tokenizer is None for can in routes.values()] == [False, True]
    assert "reports" in routes["chat"].description


# ------------------------------------------------------------------------------------------------- recorded answers


def test_what_models_here_are_signed_as_says_what_they_can_do(reward, local, tmp_path):
    deciding = open_engine(save_decider(tmp_path / "decider", True))
    for engine in (reward, deciding, local, open_engine("nano")):
        assert recorded_capabilities(engine.signature) == kept(engine.capabilities), engine.signature
    assert reward.capabilities.gives_rewards
    assert deciding.capabilities.decides


@pytest.mark.parametrize("form", ["systemone", "decisions"])
@pytest.mark.parametrize("mass", [None, 0.9])
def test_what_servers_that_decide_are_signed_as_says_what_they_can_do(form, mass):
    with Liar(Decider(path=f"/v1/{form}", mass=mass)) as liar:
        engine = open_engine(f"{form}:{liar.url}")
    assert recorded_capabilities(engine.signature) == kept(engine.capabilities)
    assert engine.capabilities.decides
    assert engine.capabilities.reports_mass == (mass is not None and form == "systemone")


@pytest.mark.parametrize(
    ("line", "capabilities"),
    [
        ("model:m@1|dtype:float32|backend:reward|chat:none", Capabilities(gives_rewards=True, reports_mass=False)),
        ("model:m@1|backend:decision|mass:unreported", Capabilities(decides=True, reports_mass=False)),
        ("model:m|prompt:theirs/0|benchmark:b|published:0123456789ab", Capabilities(answers="choices")),
        ("model:m|answers:choices", Capabilities(answers="choices")),
        (
            "model:m|backend:server-systemone|chat:server|format:unreported|mass:unreported|server:vllm",
            Capabilities(decides=True, reports_mass=False),
        ),
        ("model:m|backend:server-decisions|chat:server|format:2|server:vllm", Capabilities(decides=True)),
        ("model:m@1|dtype:float32|backend:cascade|chat:x", Capabilities()),
    ],
)
def test_answers_recorded_long_ago_say_what_their_engine_could_do(line, capabilities, tmp_path):
    class Signed(FakeEngine):
        signature = Signature.parse(line)

    with Store(tmp_path / "old.sqlite") as store:
        StoredEngine(Signed(), store).answer([Question(Prompt("a"), LABELS)])
    recorded = open_engine(f"recorded:{tmp_path / 'old.sqlite'}")
    assert capabilities_of(recorded) == capabilities


def test_a_recorded_reward_model_scores_as_the_model_did(reward, tmp_path):
    targets = [Target(text, "c1", text) for text in TEXTS]
    with Store(tmp_path / "rewards.sqlite") as store:
        asked = Scorer(LADDERS, StoredEngine(reward, store)).score(targets)
    replayed = Scorer(LADDERS, open_engine(f"recorded:{tmp_path / 'rewards.sqlite'}")).score(targets)
    assert [score.value for score in replayed] == [score.value for score in asked]
    assert None not in [score.value for score in replayed]


# ------------------------------------------------------------------------------------------------- one more wire


def test_a_new_wire_in_the_table_of_wires_is_opened_decides_and_is_recorded(monkeypatch, tmp_path):
    class Newest(SystemOne):
        name = "newest"

    def answer(method, path, body):
        path = "/v1/nowhere" if path == "/v1/systemone" else path
        return Decider()(method, path.replace("newest", "systemone"), body)

    monkeypatch.setitem(WIRES, "newest", Newest())
    with Liar(answer) as liar:
        for name in (f"newest:{liar.url}", liar.url):
            engine = open_engine(name)
            assert dict(engine.signature.parts)["backend"] == "server-newest"
            assert engine.capabilities.decides
    assert recorded_capabilities(engine.signature) == kept(engine.capabilities)


# ------------------------------------------------------------------------------------------------- stores


def test_an_engine_has_a_store_where_it_keeps_its_answers_and_uses_it(store):
    stored = StoredEngine(FakeEngine(), store)
    assert store_of(stored) is store
    assert store_of(Watched(stored, Messages())) is store
    assert store_of(Watched(stored, Messages(), dry_run=True)) is None
    assert store_of(FakeEngine()) is None
    assert store_of(Watched(FakeEngine(), Messages())) is None
