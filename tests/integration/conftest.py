from collections.abc import Iterator

import pytest

from tests.integration.fleet import Fleet


@pytest.fixture(scope="session")
def servers() -> Iterator[Fleet]:
    """Private servers for all integration tests of the session."""
    fleet = Fleet()
    try:
        fleet.start()
        yield fleet
    finally:
        fleet.stop()


@pytest.fixture
def fleet(servers: Fleet) -> Iterator[Fleet]:
    """An empty fleet. In the end no rule of the tables may be broken."""
    servers.reset()
    yield servers
    # Shown by pytest when the test has failed.
    print(servers.log_tails())  # noqa: T201
    servers.end_programs()
    for server in (servers.postgres, servers.valkey):
        if not server.alive:
            server.start()
    assert servers.violations() == []
