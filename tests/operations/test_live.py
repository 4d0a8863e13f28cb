"""`/ws/operations`: what happens is shown as it happens, again on request, and to nobody else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from asgiref.testing import ApplicationCommunicator
from channels.routing import URLRouter
from django.conf import settings as django_settings
from django.contrib.auth.models import User
from django.test import Client

import jobs
from config.standins.erp.server import Erp
from jobs.engine import outbox
from jobs.realtime import hub as hubs
from jobs.realtime.hub import hub
from jobs.testing import emitted, freeze_clock, run_jobs
from operations import payloads, states, verbs
from operations.models import Agent, Operation, Phase
from operations.progress import Progress
from operations.urls import websocket_urlpatterns
from tests.api.conftest import Caller, fresh_counts  # noqa: F401 - a fixture
from tests.docs.pages import text
from tests.jobs import factories as made
from tests.operations.factories import agent as new_agent
from tests.operations.factories import ask, fetch, order

pytestmark = pytest.mark.django_db(transaction=True)
EVERY_NAME = {
    "JOB_QUEUED", "JOB_STARTED", "JOB_PROGRESS", "JOB_RETRYING", "JOB_PREEMPTED",
    "JOB_DEDUPLICATED", "JOB_COMPLETED", "JOB_FAILED", "JOB_CANCELLED", "JOB_IN_DOUBT",
    "CIRCUIT_OPEN", "CIRCUIT_CLOSED",
}  # fmt: skip
QUEUES = ["erp-write", "erp-read", "erp-sync"]


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Sockets say every moment how far they are."""
    monkeypatch.setattr(hubs, "KEEP_ALIVE", 0.05)
    yield


class Closed(Exception):
    """The server has closed the socket, with this code."""


class Socket:
    """A client of ``/ws/operations``, logged in by a cookie or a key."""

    def __init__(self, since: int, cookie: str = "", key: str = "") -> None:
        headers = {"host": "testserver", "origin": "http://testserver"}
        if cookie:
            headers["cookie"] = f"{django_settings.SESSION_COOKIE_NAME}={cookie}"
        if key:
            headers["authorization"] = f"Bearer {key}"
        scope = {
            "type": "websocket", "path": "/ws/operations",
            "query_string": f"lastEventId={since}".encode(),
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        }  # fmt: skip
        make: Any = ApplicationCommunicator
        self._socket = make(URLRouter(websocket_urlpatterns), scope)

    async def open(self) -> Socket:
        await self._socket.send_input({"type": "websocket.connect"})
        assert (await self._socket.receive_output(10))["type"] == "websocket.accept"
        return self

    async def next(self) -> Any:
        """The next event, or None where it has shown all there is."""
        found = await self._socket.receive_output(10)
        if found["type"] == "websocket.close":
            raise Closed(found["code"])
        message = json.loads(found["text"])
        return None if message["type"] == "keep-alive" else message

    async def replay(self) -> list[Any]:
        """What it shows of the past."""
        await self.next()  # the first message says where it begins
        found = []
        while (event := await self.next()) is not None:
            found.append(event)
        return found

    async def close(self) -> None:
        await self._socket.send_input({"type": "websocket.disconnect", "code": 1000})
        await self._socket.wait(10)


def play(act: Callable[[], Any]) -> Any:
    async def played() -> Any:
        try:
            async with asyncio.timeout(60):
                return await act()
        finally:
            hub().end()

    return asyncio.run(played())


def replayed(since: int = 0, cookie: str = "", key: str = "") -> list[Any]:
    """What a new socket shows of the past."""

    async def story() -> list[Any]:
        socket = await Socket(since, cookie, key).open()
        try:
            return await socket.replay()
        finally:
            await socket.close()

    found: list[Any] = play(story)
    return found


def closing(**who: str) -> int:
    """The code with which the socket is closed."""
    with pytest.raises(Closed) as closed:
        replayed(**who)  # type: ignore[arg-type]
    code: int = closed.value.args[0]
    return code


def publish() -> int:
    """Publish what was emitted; return the last position."""
    while outbox.relay_once().moved:
        pass
    return jobs.events.feed_head()


def cookie_of(name: str, **fields: Any) -> str:
    user, _made = User.objects.get_or_create(username=name, defaults=fields)
    client = Client()
    client.force_login(user)
    return client.cookies[django_settings.SESSION_COOKIE_NAME].value


@pytest.fixture
def ada(agent: Agent) -> str:
    """The cookie of the agent's own user."""
    cookie = cookie_of("ada")
    Agent.objects.filter(pk=agent.pk).update(user=User.objects.get(username="ada"))
    return cookie


def names(events: list[Any]) -> list[str]:
    return [event["type"] for event in events]


def of(row: Operation, events: list[Any]) -> list[str]:
    return names([one for one in events if one["payload"].get("jobId") == str(row.pk)])


def test_an_order_is_followed_as_it_happens_and_again_later(ada: str, erp: Erp) -> None:
    start = publish()
    row = ask("submit-order", order(customerName="Kanarienvogel"))
    again = ask("submit-order", order(customerName="Kanarienvogel"))
    assert again.pk == row.pk
    publish()

    async def story() -> list[Any]:
        socket = await Socket(start, ada).open()
        seen = await socket.replay()
        await sync_to_async(run_jobs)(["erp-write"])
        await sync_to_async(publish)()
        while of(row, seen)[-1:] != ["JOB_COMPLETED"]:
            if event := await socket.next():
                seen.append(event)
        await socket.close()
        return seen

    seen = play(story)
    whole = ["JOB_QUEUED", "JOB_DEDUPLICATED", "JOB_STARTED", "JOB_PROGRESS", "JOB_COMPLETED"]
    assert of(row, seen) == whole
    queued, deduplicated, started, progressed, completed = [
        one["payload"] for one in seen if one["payload"].get("jobId") == str(row.pk)
    ]
    assert (queued["entityName"], queued["type"], queued["priority"], queued["agent"]) == (
        "Pending order P-1", "submit-order", 100, "ada",
    )  # fmt: skip
    assert set(deduplicated) == {"jobId", "deduplicationId"} and deduplicated["deduplicationId"]
    assert started["entityId"] == "P-1"
    assert (progressed["progress"], progressed["label"]) == (10.0, "create")
    assert completed["result"] == {"orderId": "4711"}
    assert "Kanarien" not in json.dumps(seen) and "secret" not in json.dumps(seen)
    later = [one for one in replayed(start, ada) if one["payload"].get("jobId") == str(row.pk)]
    assert names(later) == [name for name in whole if name != "JOB_PROGRESS"]
    middle = next(one for one in later if one["type"] == "JOB_STARTED")["eventId"]
    assert of(row, replayed(middle, ada)) == ["JOB_COMPLETED"]


def test_every_end_has_its_event(ada: str, erp: Erp) -> None:
    start = publish()
    erp.script("ada", "500", "drop_after_save")
    with freeze_clock() as clock:
        retried = ask("submit-order", order("P-1"))
        for _ in range(2):
            run_jobs(["erp-write"])
            clock.tick(11)
        refused = ask("submit-order", order("P-2", customerId="C-9999"))
        cancelled = ask("submit-order", order("P-3"))
        verbs.cancel(cancelled.pk, by="tests", reason="changed their mind")
        run_jobs(["erp-write"])
        clock.tick(11)
        run_jobs(["erp-write"])
        erp.script("ada", "drop_after_save")
        doubtful = ask("submit-order", order("P-4"))
        jobs.flow.edit(doubtful.pk, max_attempts=1, by="tests", reason="a test")
        run_jobs(["erp-write"])
        clock.tick(400)
        run_jobs(["erp-write"])
    publish()
    seen = replayed(start, ada)
    assert of(retried, seen) == [
        "JOB_QUEUED", "JOB_STARTED", "JOB_RETRYING", "JOB_STARTED", "JOB_RETRYING", "JOB_STARTED",
        "JOB_COMPLETED",
    ]  # fmt: skip
    assert of(refused, seen) == ["JOB_QUEUED", "JOB_STARTED", "JOB_FAILED"]
    [failed] = [one for one in seen if one["type"] == "JOB_FAILED"]
    assert failed["payload"]["error"] == "unknown_customer"
    assert of(cancelled, seen) == ["JOB_QUEUED", "JOB_CANCELLED"]
    found = of(doubtful, seen)
    assert found[:3] == ["JOB_QUEUED", "JOB_STARTED", "JOB_IN_DOUBT"]
    assert found[-1] == "JOB_COMPLETED"


def test_a_circuit_is_told_to_its_agent(ada: str, erp: Erp) -> None:
    start = publish()
    erp.script("ada", *["500"] * 3)
    with freeze_clock() as clock:
        row = ask("submit-order", order())
        for _ in range(3):
            run_jobs(["erp-write"])
            clock.tick(61)
        assert fetch(row.pk).phase == Phase.QUEUED
        publish()
        clock.tick(301)
        run_jobs(["erp-write"])
    publish()
    seen = replayed(start, ada)
    circuits = [one for one in seen if one["type"].startswith("CIRCUIT")]
    assert names(circuits) == ["CIRCUIT_OPEN", "CIRCUIT_CLOSED"]
    assert circuits[0]["payload"] == {"agent": "ada"}
    assert of(row, seen)[-1] == "JOB_COMPLETED"


@pytest.mark.parametrize(
    ("ending", "name"),
    [("preempted", "JOB_PREEMPTED"), ("crashed", "JOB_RETRYING"), ("released", "JOB_RETRYING")],
)
def test_an_attempt_that_was_killed_is_told(ada: str, erp: Erp, ending: Any, name: str) -> None:
    """Its handler could tell nothing, and the operation would seem to run."""
    row = ask("sync-customers", {})
    claim = made.claim_again(row.pk)
    states.operation.move(row.pk, Phase.IN_PROGRESS, by="worker")
    start = publish()
    made.settle(made.ended(claim, ending))
    publish()
    assert fetch(row.pk).phase == Phase.QUEUED
    [told] = replayed(start, ada)
    assert (told["type"], told["payload"]["reason"]) == (name, ending)


def test_progress_comes_once_a_second(ada: str, erp: Erp, monkeypatch: Any) -> None:
    moment = [0.0]
    monkeypatch.setattr("operations.progress.time.monotonic", lambda: moment[0])
    row = ask("sync-customers", {})
    claim = made.claim_again(row.pk)

    class Attempt:
        """What an attempt is asked for."""

        def progress(self, done: int, total: int, label: str) -> None:
            moment[0] += 0.25

        def fence(self) -> None:
            assert claim

    report = Progress(Attempt(), row)  # type: ignore[arg-type]
    for done in range(1, 41):
        report(done, 40)
    told = [event.payload["progress"] for event in emitted("operations.JOB_PROGRESS")]
    assert len(told) == 10 and told == sorted(told)


def test_a_sync_says_how_far_it_is(ada: str, erp: Erp) -> None:
    row = ask("sync-customers", {})
    run_jobs(["erp-sync"])
    found = emitted("operations.JOB_PROGRESS")
    assert found and found[0].payload["jobId"] == str(row.pk)
    assert found[0].payload["label"] == "rows" and 0 < found[0].payload["progress"] <= 100


def test_nobody_else_is_shown_anything(ada: str, erp: Erp) -> None:
    start = publish()
    other = new_agent("bob")
    cookie = cookie_of("bob")
    Agent.objects.filter(pk=other.pk).update(user=User.objects.get(username="bob"))
    row = ask("submit-order", order())
    publish()
    assert of(row, replayed(start, ada)) == ["JOB_QUEUED"]
    assert replayed(start, cookie) == []
    key = Caller(name="bob", tenants=["agent:bob"])
    assert replayed(start, key=key.secret) == []
    own = Caller(name="ada", tenants=["agent:ada"], queues=QUEUES)
    assert of(row, replayed(start, key=own.secret)) == ["JOB_QUEUED"]
    office = cookie_of("root", is_superuser=True, is_staff=True)
    assert of(row, replayed(start, office)) == ["JOB_QUEUED"]


def test_who_may_not_look_is_turned_away(ada: str, erp: Erp) -> None:
    assert closing() == 4401
    blind = Caller(name="blind", tenants=["agent:ada"], permissions=["view_job"])
    assert closing(key=blind.secret) == 4403
    reader = Caller(name="reader", tenants=["agent:ada"], queues=["erp-read"])
    assert closing(key=reader.secret) == 4404


def test_a_socket_counts_as_seen(ada: str, erp: Erp) -> None:
    Agent.objects.update(last_seen_at=datetime.now(UTC) - timedelta(days=9))
    replayed(cookie=ada)
    seen = Agent.objects.get().last_seen_at
    assert seen is not None and datetime.now(UTC) - seen < timedelta(minutes=5)


def test_the_documents_name_every_event() -> None:
    section = text("docs/operations.md").partition("## Live events")[2].partition("\n## ")[0]
    assert {name for name in EVERY_NAME if f"`{name}`" in section} == EVERY_NAME


def test_a_job_that_is_not_an_operation_moves_none(ada: str, erp: Erp) -> None:
    row = ask("submit-order", order())
    states.operation.move(row.pk, Phase.IN_PROGRESS, by="worker")
    kind = payloads.TASKS["submit-order"].kind
    for told in ({"job": str(row.pk), "kind": "erp.forged"}, {"job": str(row.pk), "kind": kind}):
        jobs.emit("operations.test", told, tenant="agent:ada")
    publish()
    assert fetch(row.pk).phase == Phase.IN_PROGRESS
