"""The stage of the trading workloads: the venue, traders with fills, and the processes."""

from __future__ import annotations

import secrets
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from benchmarks import bench
from benchmarks.bench import Bench, manage
from benchmarks.listeners import await_answer
from benchmarks.processes import Processes
from benchmarks.stage import free_port

AI_KEY, AI_SECRET = "bench", secrets.token_hex(16)
FILLS = 500
"""Fills of a trader with thirty busy days."""


@dataclass
class Desk:
    """A venue on loopback, a web server with the AI service, and a worker."""

    venue: Any
    port: int = field(default_factory=free_port)
    processes: Processes | None = None

    def variables(self) -> dict[str, str]:
        return {
            "COINBASE_URL": self.venue.url, "AI_BASE_URL": f"http://127.0.0.1:{self.port}/ai",
            "AI_HMAC_KEY_ID": AI_KEY, "AI_HMAC_SECRET": AI_SECRET, "HTTPS": "off",
            "HTTP_ALLOW": "127.0.0.0/8",
        }  # fmt: skip

    def trader(self, per_order: int) -> Any:
        """Return the link of a new trader, each of whose twelve orders has so many fills."""
        from config.standins.trading import new_account
        from trading.models import BrokerConnection

        name = f"bench-{uuid.uuid4().hex[:12]}"
        account = self.venue.add(new_account(name))
        account.fills = self.venue.market.fills(per_order)[:FILLS]
        return BrokerConnection.objects.create(
            id=uuid.uuid4(), user_id=new_user(name), broker="coinbase", key_name=account.name,
            secret=account.secret, is_daily=False,
        )  # fmt: skip


@contextmanager
def venue() -> Iterator[Any]:
    """Serve the venue in a thread."""
    from config.standins.trading import Coinbase

    found = Coinbase().start()
    try:
        yield found
    finally:
        found.stop()


@contextmanager
def desk(b: Bench, *queues: str, slots: int = 2) -> Iterator[Desk]:
    """Run a web server, a dispatcher, a relay and one worker of these queues."""
    with venue() as served:
        made = Desk(served)
        processes, _ = b.stage(made.variables())
        made.processes = processes
        with processes:
            sizes = ["--processes", "1", "--concurrency", str(slots)]
            processes.start(
                manage("jobs", "web", str(made.port)), bench.dispatcher(), manage("jobs", "relay"),
                manage("jobs", "worker", "--queues", ",".join(queues), *sizes),
            )  # fmt: skip
            await_answer(made.port)
            processes.wait_idle()
            b.wait_quiet()
            yield made


def new_user(name: str) -> int:
    from django.contrib.auth.models import User

    return int(User.objects.create_user(name).pk)


def until(what: Callable[[], Any], b: Bench, patience: float = 120.0) -> Any:
    """Ask until there is an answer; return it."""
    deadline = time.monotonic() + patience
    while not (found := what()):
        if time.monotonic() > deadline:
            raise RuntimeError(f"nothing came of it\n{b.last_words()}")
        time.sleep(0.005)
    return found


def live(port: int, user: int) -> Any:
    """Return a socket that follows the events of the user."""
    from websockets.sync.client import connect
    from websockets.typing import Origin

    found = connect(
        f"ws://127.0.0.1:{port}/ws/coach", origin=Origin(f"http://127.0.0.1:{port}"),
        additional_headers={"Cookie": _cookie(user)}, proxy=None, max_size=None,
    )  # fmt: skip
    found.recv(30)  # says where it begins
    found.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return found


def _cookie(user: int) -> str:
    from importlib import import_module

    from django.conf import settings
    from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
    from django.contrib.auth.models import User

    person = User.objects.get(pk=user)
    store = import_module(settings.SESSION_ENGINE).SessionStore()
    store[SESSION_KEY] = str(user)
    store[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
    store[HASH_SESSION_KEY] = person.get_session_auth_hash()
    store.save()
    return f"{settings.SESSION_COOKIE_NAME}={store.session_key}"
