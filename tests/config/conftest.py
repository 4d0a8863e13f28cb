import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from config.embedded import choice, client, places
from tests.config.users import processes_of
from tests.wait import wait_until


@pytest.fixture(autouse=True)
def embedded_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests are about the embedded servers, whichever the run itself has."""
    monkeypatch.delenv("SERVERS", raising=False)


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty folder that root's servers can reach, unlike pytest's own."""
    path = Path(tempfile.mkdtemp(prefix="jobdesk-test-")).resolve()
    path.chmod(0o711)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def data(folder: Path) -> Iterator[Path]:
    """A data folder whose shared servers, if any were started, are gone in the end."""
    yield from shared(folder / "data")


def shared(data: Path) -> Iterator[Path]:
    yield data
    client.call({"do": "stop"}, data)
    wait_until(lambda: not processes_of(data), message="the servers are gone")
    shutil.rmtree(places.sockets(data), ignore_errors=True)
    for server in choice.pair(data).values():
        server.remove()
