import os
import re
from collections.abc import Iterator

import pytest
from django.conf import settings
from django.db import connection
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis
from pytest_django import DjangoDbBlocker

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


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Every run has a database of its own, so that two runs at a time are no trouble."""
    if settings.EMBEDDED:
        with django_db_blocker.unblock():
            drop_abandoned()
    connection.settings_dict["TEST"]["NAME"] = f"{PREFIX}{os.getpid()}"
    yield


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
