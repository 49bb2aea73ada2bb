"""pytest: `assert_score(text, context_id=..., at_least=3.5)`, a fixture. pytest loads this module in every session of
whoever has synthscore installed: it imports nothing but pytest, prints nothing, and changes no test that does not ask.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ..types import Score

_OPTIONS = {
    "references": "folder or hub id of the ladders that assert_score scores texts on",
    "ladder": "id of a context whose ladder texts of all contexts are compared with",
    "model": "the judge (default: nano)",
    "task": "where the references hold several",
    "store": "file that keeps the judge's answers, so that a test of an unchanged text asks nothing; none: nowhere",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("synthscore")
    for name, help in _OPTIONS.items():
        group.addoption(f"--synthscore-{name}", help=help)
        parser.addini(f"synthscore_{name}", help)


@pytest.fixture
def assert_score(request: pytest.FixtureRequest) -> Callable[..., Score]:
    """Scores a text on its ladder, and fails the test where the score is less than it must be, or there is none.

    context_id, or context : of which ladder, by its id or its text; of the two, both may be given where they agree
    at_least : on the rung scale. attribute : where the references hold several. both_orders : ask both ways round
    returns : the score; it is also a property of the test, for the JUnit report
    """

    def check(
        text: str,
        *,
        at_least: float,
        context_id: str | None = None,
        context: str | None = None,
        attribute: str | None = None,
        both_orders: bool = False,
    ) -> Score:
        __tracebackhide__ = True
        from .mount import Mount, row_of

        given: dict[str, Any] = {
            name: value
            for name in _OPTIONS
            if (value := request.config.getoption(f"synthscore_{name}") or request.config.getini(f"synthscore_{name}"))
        }
        if "references" not in given:
            pytest.fail("say where the ladders are: synthscore_references in pytest's settings", pytrace=False)
        mount = Mount(attribute=attribute, both_orders=both_orders, **given)
        [score] = mount.scores([row_of(request.node.nodeid, text, context_id=context_id, context=context)])
        request.node.user_properties.append((f"synthscore-{mount.scorer.attribute}", score.value))
        if score.value is None:
            pytest.fail(f"{mount.scorer.attribute}: unscored. {score.reason}", pytrace=False)
        if score.value < at_least:
            pytest.fail(
                f"{mount.scorer.attribute} {score.value:.2f} < {at_least:g}: {_lost(mount, score)}", pytrace=False
            )
        return score

    return check


def _lost(mount: Any, score: Score) -> str:
    """The worst rung that the text lost to, and what that says."""
    scorer = mount.scorer
    shared = scorer.references.shared(scorer.task.name, scorer.attribute)
    ladder = shared or scorer.references.find(score.context_id, scorer.attribute, scorer.task.name)
    lost = [verdict for verdict in score.verdicts if verdict.worse > max(verdict.better, verdict.similar)]
    if not lost:
        return f"it lost to no rung of {ladder.n_rungs} clearly"
    worst = min(lost, key=lambda verdict: verdict.level)
    rung = ladder.rungs[worst.level - 1].text
    return f"it lost to rung {worst.level} of {ladder.n_rungs} (worse with probability {worst.worse:.2f}):\n{rung}"
