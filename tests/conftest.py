import gc
import os
import re
from collections.abc import Iterator
from contextlib import suppress

import pytest
import redis
from django.conf import settings
from django.db import ProgrammingError, connection
from django.utils import translation
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis
from pytest_django import DjangoDbBlocker

from jobs.engine import marks, pushes
from jobs.engine.outage import outage
from tests import flushing

# An example may take long on a busy machine. The gate repeats its examples from run to run, so
# that it judges the change before it; whoever runs the tests by hand looks at new ones each time.
hypothesis.register_profile(
    "patient",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=os.environ.get("EXAMPLES") == "same",
)
hypothesis.load_profile("patient")

PREFIX = "test_jobdesk_"
LONG = {"fleet", "servers"}
"""Fixtures of the tests that start processes, and therefore take longest."""


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Use one process more than there are processors: some are always waiting for something."""
    return min(len(os.sched_getaffinity(0)), 8) + 1


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, so that no process ends long after the others."""
    long = {item.path for item in items if LONG & set(getattr(item, "fixturenames", ()))}
    items.sort(key=lambda item: item.path not in long)


def pytest_collection_finish() -> None:
    """Look for garbage again, but not in modules and collected tests, which stay to the end."""
    gc.freeze()
    gc.enable()


def pytest_configure(config: pytest.Config) -> None:
    gc.disable()
    if redis.VERSION < (6,):  # does not close a unix socket to which it could not connect
        unclosed = "ignore:unclosed <socket.socket fd=.*, family=1, type=1:ResourceWarning"
        config.addinivalue_line("filterwarnings", unclosed)


@pytest.fixture(autouse=True)
def no_memory_of_outages(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one test does to Redis is forgotten in the next, and a busy machine is not slow."""
    outage.forget()
    pushes.open_queues._ask_at = 0.0
    monkeypatch.setattr(pushes, "_SLOW", 30.0)


@pytest.fixture(autouse=True)
def no_language() -> Iterator[None]:
    """A request leaves its language active, for the tests that follow in the thread."""
    yield
    translation.deactivate()


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Every run has a database of its own, so that two runs at a time are no trouble."""
    if settings.EMBEDDED:
        with django_db_blocker.unblock():
            drop_abandoned()
    connection.settings_dict["TEST"]["NAME"] = f"{PREFIX}{os.getpid()}"
    yield


@pytest.fixture(scope="session", autouse=True)
def quick_flush() -> None:
    flushing.install()


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> None:
    """The mark of the test database is known, so that no test counts the queries for it."""
    with django_db_blocker.unblock(), suppress(ProgrammingError):  # no test needs the database
        marks.refresh()


def drop_abandoned() -> None:
    """No test database of a run that ended is left on the embedded server."""
    with connection._nodb_cursor() as cursor:
        cursor.execute("SELECT datname FROM pg_database")
        for (name,) in cursor.fetchall():
            found = re.fullmatch(PREFIX + r"(\d+)", name)
            if found and not lives(int(found[1])):
                cursor.execute(f'DROP DATABASE IF EXISTS "{name}"')


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
