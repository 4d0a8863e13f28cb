"""Web servers of a test fleet, and what their clients hear."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlencode

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.integration.fleet import CHECKOUT, Fleet, Program
from tests.jobs.ports import free_port
from tests.wait import wait_until

_numbers = itertools.count()


SESSIONS = """
import sys
from importlib import import_module
from django.conf import settings
import django; django.setup()
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import Permission, User
user, _ = User.objects.get_or_create(username=sys.argv[1], is_staff=sys.argv[1] == "staff")
if user.is_staff:
    user.user_permissions.set(Permission.objects.filter(codename__startswith="view_"))
store = import_module(settings.SESSION_ENGINE).SessionStore()
store[SESSION_KEY] = str(user.pk)
store[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
store[HASH_SESSION_KEY] = user.get_session_auth_hash()
store.save()
print(user.pk, store.session_key)
"""


class Site:
    """A web server of the fleet, and its visitors."""

    def __init__(
        self, fleet: Fleet, jobs: dict[str, Any] | None = None, env: dict[str, str] | None = None
    ) -> None:
        self.fleet, self.port = fleet, free_port()
        self._jobs, self._env = jobs, {"HTTPS": "off", **(env or {})}
        self.program = self.start()

    def start(self) -> Program:
        self.program = self.fleet.manage(
            f"web{next(_numbers)}", "jobs", "web", str(self.port), jobs=self._jobs, env=self._env
        )
        wait_until(self._answers, 30, message="the server answers")
        return self.program

    def _answers(self) -> bool:
        try:
            return self.get("/api/v1/events", "")[0] == 401
        except OSError:
            return False

    def visitor(self, name: str) -> tuple[int, str]:
        """The primary key of a user, and the cookie with which he is logged in."""
        said = subprocess.run(
            [sys.executable, "-c", SESSIONS, name],
            env=self.fleet._environment({}),
            cwd=CHECKOUT,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        key, session = said.split()
        return int(key), f"sessionid={session}"

    def get(self, path: str, cookie: str, **headers: str) -> tuple[int, Any]:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", headers={"Cookie": cookie, **headers}
        )
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def socket(
        self, cookie: str, origin: str | None = "", *, path: str = "/ws/events", **options: Any
    ) -> ClientConnection:
        return connect(
            f"ws://127.0.0.1:{self.port}{path}?{urlencode(options)}",
            additional_headers={"Cookie": cookie} if cookie else {},
            origin=(origin or f"http://127.0.0.1:{self.port}") if origin is not None else None,  # type: ignore[arg-type]
            proxy=None,
            max_size=None,
        )


def emit(
    fleet: Fleet, topic: str, tenant: str = "", audience: str = "tenant", **payload: Any
) -> None:
    fleet.query(
        "SELECT jobs_emit(gen_random_uuid(), %s, '', %s, %s, %s)",
        [topic, tenant, audience, json.dumps(payload)],
    )


def head(fleet: Fleet) -> int:
    found = fleet.query("SELECT position FROM jobs_feed_head")
    return int(found[0][0]) if found else 0


def received(socket: ClientConnection, count: int) -> list[dict[str, Any]]:
    """The next so many events."""
    found: list[dict[str, Any]] = []
    while len(found) < count:
        found += json.loads(socket.recv(10))["events"]
    return found


def closed(socket: ClientConnection) -> tuple[int, str]:
    """The code and the reason with which it is closed."""
    with socket, pytest.raises(ConnectionClosed) as error:
        while True:
            socket.recv(15)
    assert error.value.rcvd is not None
    return error.value.rcvd.code, error.value.rcvd.reason
