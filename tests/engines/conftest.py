"""A small model in a folder, open here, and served on loopback by a thread of this process."""

import threading

import pytest

from synthscore.engines import open_engine
from tests.model_server import ModelServer
from tests.models import save_model


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def local(folder):
    return open_engine(folder)


@pytest.fixture(scope="session")
def url(local, folder):
    server = ModelServer(local, folder)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.url
    server.close()
    thread.join()
