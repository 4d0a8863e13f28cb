import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from django.conf import settings
from psycopg import sql

PREFIX = "test_jobdesk_"


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings_parallel_suffix: None,
) -> Iterator[None]:
    """Every run has a database of its own, so that two runs at a time are no trouble."""
    _drop_abandoned()
    settings.DATABASES["default"]["TEST"]["NAME"] = f"{PREFIX}{os.getpid()}"
    yield


def _drop_abandoned() -> None:
    """No test database of an ended run is left."""
    database: dict[str, Any] = settings.DATABASES["default"]
    with psycopg.connect(
        host=database["HOST"],
        port=database["PORT"] or None,
        user=database["USER"] or None,
        password=database["PASSWORD"] or None,
        dbname="postgres",
        autocommit=True,
    ) as connection:
        found = connection.execute(
            "SELECT datname FROM pg_database WHERE datname ~ %s", [f"^{PREFIX}[0-9]+$"]
        ).fetchall()
        for (name,) in found:
            if not _lives(int(name.removeprefix(PREFIX))):
                with suppress(psycopg.errors.InvalidCatalogName):
                    connection.execute(
                        sql.SQL("DROP DATABASE IF EXISTS {}").format(sql.Identifier(name))
                    )


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
