"""A new project that has the jobs and what the page of an app says, and no more, is sound."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import connection

from tests.docs import pages

KEY = "dDUOFYZzHIOnkmDTnGmrJ4NGvFxQWUgQZsPjCVmXv6k="
SERVERS = """
import os
DATABASES = {{"default": {{"ENGINE": "django.db.backends.postgresql", **{database!r}}}}}
RQ_QUEUES = {{"jobs": {{"URL": {redis!r}}}}}
ALLOWED_HOSTS = ["testserver"]
"""
SET_UP = """
import sys
import django
django.setup()
from django.core.management import call_command
from django.test import Client
call_command("migrate", verbosity=0)
call_command("check", fail_level="WARNING", databases=["default"])
print(Client().get(sys.argv[1]).status_code)
"""
ADDRESSES = {
    "emailgw": ("/api/v1/emails", 401),
    "fileproc": ("/uploads/", 302),
    "operations": ("/api/v1/operations", 401),
    "publisher": ("/fp-publisher/v1/jobs", 401),
    "trading": ("/internal/events?since=0", 401),
}
"""An address of each app, and what a stranger gets there."""


@pytest.fixture
def database(django_db_setup: None, django_db_blocker: object) -> Iterator[str]:
    """A database without any table."""
    name = f"{connection.settings_dict['NAME']}_host"
    with django_db_blocker.unblock(), connection._nodb_cursor() as cursor:  # type: ignore[attr-defined]
        cursor.execute(f'CREATE DATABASE "{name}"')
    yield name
    with django_db_blocker.unblock(), connection._nodb_cursor() as cursor:  # type: ignore[attr-defined]
        cursor.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def make_host(folder: Path, app: str, database: str) -> dict[str, str]:
    """Create a project by the page of the app; return the environment of its programs."""
    call_command("startproject", "host", str(folder))
    blocks = [pages.install(), *pages.python(f"docs/{app}.md")]
    code = "".join(block.code for block in blocks if block.file == "settings.py")
    given = connection.settings_dict
    place = {key: given[key] for key in ("USER", "PASSWORD", "HOST", "PORT")}
    redis = settings.RQ_QUEUES["default"]["URL"]
    with (folder / "host" / "settings.py").open("a") as file:
        file.write(code + SERVERS.format(database={**place, "NAME": database}, redis=redis))
    [urls] = [block.code for block in blocks if block.file == "urls.py"]
    (folder / "host" / "urls.py").write_text(urls)
    keys = dict.fromkeys(re.findall(r'"env:(\w+)"', code), KEY)
    return {
        **os.environ, **keys, "DJANGO_SETTINGS_MODULE": "host.settings",
        "PYTHONPATH": f"{folder}{os.pathsep}{pages.ROOT}",
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.django_db
@pytest.mark.parametrize("app", ADDRESSES)
def test_a_project_made_by_the_page_is_sound(app: str, database: str, tmp_path: Path) -> None:
    environment = make_host(tmp_path, app, database)
    address, status = ADDRESSES[app]
    done = subprocess.run(
        [sys.executable, "-c", SET_UP, address], cwd=tmp_path, env=environment,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "no issues" in done.stdout
    assert done.stdout.splitlines()[-1] == str(status)
