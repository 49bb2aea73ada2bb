import pytest

from tests.plugins import papers_installed


@pytest.fixture(scope="package", autouse=True)
def papers():
    """papers/ is installed as a plug-in, also where pip has not done it."""
    with papers_installed():
        yield
