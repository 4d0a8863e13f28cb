"""Nothing that a key sends keeps the web server, the relay or an executor from answering others.

Beside each attack, with inputs as large as they may be, another tenant asks, emits and enqueues.
"""

from __future__ import annotations

import http.client
import itertools
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode
from uuid import UUID, uuid4

import psycopg
import pytest

from jobs import events
from jobs.principals import ALL
from jobs.realtime.questions import MOST_OF_ONE
from tests.attack.slow import MOMENT
from tests.http.servers import Server, answer
from tests.integration.fleet import Fleet
from tests.integration.realtime.site import Site
from tests.privacy import vault
from tests.wait import wait_until

MEGABYTE = 1024 * 1024
PROMISED = 0.25
"""Seconds for which nobody else waits, on a quiet machine."""
RATES = dict.fromkeys(("read", "write", "refused"), "1000000/m")
JOBS: dict[str, Any] = {
    **vault.KEYS, "WEBHOOKS": True, "HTTP_ALLOW": ["127.0.0.0/8"], "API_RATES": RATES,
}  # fmt: skip
REASON = {"reason": "an attack"}


class Caller:
    """A key, and one connection to the server."""

    def __init__(self, port: int, secret: str = "") -> None:
        self.line = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.headers = {"Content-Type": "application/json"}
        if secret:
            self.headers["Authorization"] = f"Bearer {secret}"

    def __call__(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        raw = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        self.line.request(method, f"/api/v1{path}", raw, self.headers)
        told = self.line.getresponse()
        text = told.read()
        return told.status, json.loads(text) if text else None


@dataclass
class Town:
    """A server, a relay, a dispatcher and an executor; two tenants with a key each."""

    fleet: Fleet
    site: Site
    receiver: Server
    secrets: Mapping[str, str]
    callers: list[Caller] = field(default_factory=list)

    def caller(self, tenant: str = "") -> Caller:
        made = Caller(self.site.port, self.secrets.get(tenant, ""))
        self.callers.append(made)
        return made


@pytest.fixture
def town(fleet: Fleet) -> Iterator[Town]:
    secrets = {tenant: _key(fleet, tenant) for tenant in ("evil", "good")}
    plant(fleet)
    fleet.manage("relay", "jobs", "relay", jobs=JOBS)
    fleet.dispatcher(jobs=JOBS)
    fleet.worker("--queues=default,jobs.webhooks", jobs=JOBS)
    site = Site(fleet, JOBS, {"FLEET_APPS": "emailgw"})
    receiver = Server()
    receiver.replies["/hook"] = answer()
    made = Town(fleet, site, receiver, secrets)
    try:
        yield made
    finally:
        fleet.end_programs()
        for caller in made.callers:
            caller.line.close()
        receiver.close()


def _key(fleet: Fleet, tenant: str) -> str:
    made = fleet.manage(
        f"key-{tenant}", "jobs", "api-keys", "create", tenant, ",".join(sorted(ALL)),
        f"--tenants={tenant}", "--reason=test", "--json", jobs=JOBS,
    )  # fmt: skip
    assert made.ended(30) == 0, made.logged()
    told = json.loads(made.logged())
    return str(told.get("text") or told.get("secret"))


def plant(fleet: Fleet, count: int = 10_000) -> None:
    """So many jobs of the attacker, whose searches have something to look through."""
    wanted = ("test.echo", {"text": "some words " * 20}, {"queue": "elsewhere", "tenant": "evil"})
    for _ in range(0, count, 1000):
        fleet.enqueue_all([wanted] * 1000)
    fleet.query("ANALYZE jobs_job")


# ---- what others see


class Probers:
    """Another tenant, and how long each of its acts takes."""

    def __init__(self, town: Town) -> None:
        self.town = town
        self.over = threading.Event()
        self.worst: dict[str, float] = {}
        self.counts: Counter[str] = Counter()
        self.errors: list[BaseException] = []
        self.arrived: dict[str, float] = {}
        self.threads = [
            threading.Thread(target=self._guarded, args=(act,), daemon=True)
            for act in (self._ask_alive, self._ask_known, self._enqueue, self._emit, self._listen)
        ]

    def begin(self) -> None:
        for thread in self.threads:
            thread.start()
        wait_until(lambda: len(self.counts) == 6 or self.errors, 60, message="all have an answer")

    def end(self) -> None:
        self.over.set()
        for thread in self.threads:
            thread.join(60)
        assert not self.errors, self.errors

    def during(self, act: Callable[[], object], seconds: float) -> dict[str, float]:
        """The worst of each, beside an act that is repeated for so long."""
        self.worst, self.counts = {}, Counter()
        end = time.monotonic() + seconds
        while time.monotonic() < end or len(self.counts) < 6:
            act()
            assert not self.errors, self.errors
            assert time.monotonic() < end + 60, f"no answer but {sorted(self.counts)}"
        return self.worst

    def _guarded(self, act: Callable[[], None]) -> None:
        try:
            act()
        except BaseException as error:
            self.errors.append(error)

    def _note(self, name: str, seconds: float) -> None:
        self.worst[name] = max(self.worst.get(name, 0.0), seconds)
        self.counts[name] += 1

    def _ask(self, name: str, caller: Caller, path: str) -> None:
        while not self.over.wait(0.02):
            begun = time.monotonic()
            status, _ = caller("GET", path)
            self._note(name, time.monotonic() - begun)
            assert status == 200

    def _ask_alive(self) -> None:
        self._ask("alive", self.town.caller(), "/health/live")

    def _ask_known(self) -> None:
        caller = self.town.caller("good")
        status, made = caller("POST", "/jobs", {"kind": "test.noop", "delay_ms": 86_400_000})
        assert status == 201
        self._ask("known", caller, f"/jobs/{made['id']}")

    def _enqueue(self) -> None:
        caller = self.town.caller("good")
        with psycopg.connect(self.town.fleet.postgres.direct_url, autocommit=True) as connection:
            while not self.over.wait(0.02):
                begun = time.monotonic()
                status, made = caller("POST", "/jobs", {"kind": "test.noop"})
                answered = time.monotonic()
                assert status == 201
                self._note("enqueued", answered - begun)
                self._await(
                    connection, "SELECT 1 FROM jobs_job WHERE id = %s AND state = 'succeeded'",
                    UUID(made["id"]),
                )  # fmt: skip
                self._note("run", time.monotonic() - answered)

    def _emit(self) -> None:
        with psycopg.connect(self.town.fleet.postgres.direct_url, autocommit=True) as connection:
            while not self.over.wait(0.02):
                event = uuid4()
                begun = time.monotonic()
                connection.execute(
                    "SELECT jobs_emit(%s, 'probe', '', 'good', 'tenant', '{}')", [event]
                )
                self._await(connection, "SELECT 1 FROM jobs_feed WHERE event_id = %s", event)
                published = time.monotonic()
                self._note("relayed", published - begun)
                while str(event) not in self.arrived and not self.over.wait(0.002):
                    assert time.monotonic() < published + 60, "the stream does not tell it"
                if str(event) in self.arrived:
                    self._note("streamed", self.arrived.pop(str(event)) - published)

    def _await(self, connection: psycopg.Connection[Any], statement: str, value: UUID) -> None:
        end = time.monotonic() + 60
        while not connection.execute(statement.encode(), [value]).fetchall():
            assert time.monotonic() < end, f"not within a minute: {statement}"
            time.sleep(0.005)

    def _listen(self) -> None:
        caller = self.town.caller("good")
        with closing(caller.line) as line, suppress(TimeoutError):
            line.request("GET", "/api/v1/events/stream?topics=probe", headers=caller.headers)
            told = line.getresponse()
            assert told.status == 200
            while not self.over.is_set():
                text = told.readline()
                assert text, "the stream has ended"
                if text.startswith(b"data:") and b'"id"' in text:
                    self.arrived[json.loads(text[5:])["id"]] = time.monotonic()


# ---- attacks


def full(
    part: str | bytes,
    head: str = '{"kind":"test.noop","payload":{"data":[',
    tail: str = "1]}}",
    size: int = MEGABYTE,
) -> bytes:
    """A body of this size, most of it the same part again and again."""
    told = part.encode() if isinstance(part, str) else part
    count = (size - len(head) - len(tail)) // len(told)
    return head.encode() + told * count + tail.encode()


def counted(part: str, count: int) -> bytes:
    return full(part, size=len(part) * count + 60)


BODIES: dict[str, bytes] = {
    "empty lists": full("[],"),
    "empty objects": full("{},"),
    "numbers": full("1,"),
    "empty texts": full('"",'),
    "lists in lists": full("[" * 28 + "]" * 28 + ","),
    "objects in objects": full('{"a":{"a":{"a":{}}}},'),
    "endless depth": full("["),
    "members": b'{"kind":"test.noop","payload":{%s}}'
    % ",".join(f'"{n:x}":1' for n in range(100_000)).encode(),
    "unknown members": b"{%s}" % ",".join(f'"{n:x}":1' for n in range(45_000)).encode(),
    "as many lists as may be": counted("[],", 29_000),
    "as many numbers as may be": counted("1,", 95_000),
    "as many texts as may be": counted('"a",', 95_000),
    "long numbers": full("1" * 4299 + ","),
    "fractions": counted("1.7976931348623157e308,", 45_000),
    "escapes": full("\\u0041", '{"kind":"test.echo","payload":{"text":"', '"}}'),
    "one text": full("x", '{"kind":"test.echo","payload":{"text":"', '"}}'),
    "many tags": full('"a",', '{"kind":"test.noop","tags":[', '"a"]}'),
    "long tags": b'{"kind":"test.noop","tags":[%s]}'
    % b",".join(b'"' + b"a" * 50_000 + b'"' for _ in range(20)),
    "many parents": full(f'"{uuid4()}",', '{"kind":"test.noop","after":[', f'"{uuid4()}"]}}'),
    "no jobs": full("{},", '{"jobs":[', "{}]}"),
    "a thousand wrong jobs": full('{"kind":"test.noop","x":1},', '{"jobs":[', "{}]}", 27_000),
}
"""Of a request to enqueue."""
LARGEST_EMAILS = {
    "empty lists of an email": full("[],", '{"email":{"a":[', "1]}}", 2_500_000),
    "members of an email": full('"a":{},', '{"email":{', '"b":1}}', 2_500_000),
}
TEXT = "-eyJ" * 15_000
JOBS_AT_ONCE = {
    "small jobs": [{"kind": "test.noop", "tags": [f"t{n}" for n in range(20)]}] * 1000,
    "jobs that are refused": [{"kind": "test.noop", "payload": {"other": n}} for n in range(1000)],
    "jobs with payloads": [{"kind": "test.echo", "payload": {"text": "x" * 950}}] * 1000,
    "large jobs": [{"kind": "test.echo", "payload": {"text": TEXT}}] * 16,
}
QUERIES = {
    "fifty conditions": " ".join(f"-payload.text:a{n}" for n in range(45)),
    "no index": "error:Nothing* attempts>3 runtime>3h priority<-50 -kind:test.n*",
    "payloads": 'payload.text:"nothing of this kind"',
    "quotes": '"a\\"' * 240,
    "brackets": "(" * 990,
    "stars": " ".join(["kind:*a*a*a*a*a*a*a*"] * 45),
    "tags": " ".join(f"tag:{'a' * 10}{n}" for n in range(45)),
    "alternatives": "kind:" + ",".join(f"a{n}" for n in range(100)),
}
GLOBS = [f"*{n}*a*a*a*a*a*a*{'a' * 60}" for n in range(events.PATTERN_LIMIT)]
RULES = ["*/1 * * * *", "0-59/1,1-58/1,2-57/2,3-56/3 0-23/1 1-31/1 1-12/1 0-6/1", "0 0 29 2 *",
         "59 23 31 12 6", "0 0 30 2 *", ",".join(map(str, range(60))) + " * * * *"]  # fmt: skip
Attack = Callable[["Attacker"], None]


class Attacker:
    """An ordinary key of another tenant, which does the same again and again."""

    def __init__(self, town: Town) -> None:
        self.town, self.ask = town, town.caller("evil")
        self.statuses: Counter[int] = Counter()
        self.numbers = itertools.count()

    def __call__(self, method: str, path: str, body: Any = None) -> Any:
        status, told = self.ask(method, path, body)
        self.statuses[status] += 1
        assert status < 500 and status not in (401, 403, 404, 429), (path[:100], told)
        return told

    def send(self, path: str, body: bytes) -> None:
        self("POST", path, body)

    def search(self, query: str) -> None:
        for include in ("", "&include=count&include=payload"):
            self("GET", f"/jobs?limit=200&query={quote(query)}{include}")

    def many(self, wanted: list[dict[str, Any]]) -> None:
        for partial in ("", "?partial=true"):
            self("POST", f"/jobs/batch{partial}", {"jobs": wanted})

    def match(self) -> None:
        """Pages and streams with the costliest globs, and events for them to be matched with."""
        topics = ",".join(GLOBS)[:1900].rpartition(",")[0]
        for topic in (topics, "*" * 200 + "x", ",".join(["*a" * 8] * 40)):
            self("GET", "/events?" + urlencode({"topics": topic, "since": 0, "limit": 1000}))
        lines = []
        for number in range(20):
            caller = self.town.caller("evil")
            asked = urlencode({"topics": f"{topics},a{number}"})
            caller.line.request("GET", f"/api/v1/events/stream?{asked}", headers=caller.headers)
            assert caller.line.getresponse().status == 200
            lines.append(caller.line)
        self.flood(200, f"{'a' * 100}.{next(self.numbers)}")
        for line in lines:
            line.close()

    def flood(self, count: int = 1000, topic: str = "flood", size: int = 16_000) -> None:
        """Events as a handler of this tenant may emit them."""
        self.town.fleet.query(
            "SELECT jobs_emit(gen_random_uuid(), %s::text, '', 'evil', 'tenant', "
            "jsonb_build_object('text', repeat('x', %s))::text) FROM generate_series(1, %s)",
            [topic, size, count],
        )

    def webhooks(self) -> None:
        """As many webhooks as may be, all of them for every event."""
        if not self("GET", "/webhooks"):
            url = f"http://127.0.0.1:{self.town.receiver.port}/hook"
            for number in range(20):
                body = {"url": url, "topics": [*GLOBS[:49], "flood"], "name": f"{number}"}
                self("POST", "/webhooks", {**body, **REASON})
        self.flood(20, size=1000)
        time.sleep(0.3)

    def no_webhooks(self) -> None:
        for one in self("GET", "/webhooks"):
            self("POST", f"/webhooks/{one['id']}/delete", REASON)

    def rules(self) -> None:
        for cron in RULES:
            self("POST", "/schedules/preview", {"cron": cron, "count": 100})
            after = {"after": "0001-01-02T00:00:00Z", "time_zone": "America/Sao_Paulo"}
            self("POST", "/schedules/preview", {"cron": cron, "count": 100, **after})

    def fail(self) -> None:
        """A few at a time: what counts is the text, and not how many jobs there are."""
        for _ in range(5):
            self("POST", "/jobs", {"kind": "test.fail", "payload": {"message": TEXT}})
        time.sleep(0.3)

    def listen(self) -> None:
        """More streams than one principal may have, and events for all of them."""
        callers = [self.town.caller("evil") for _ in range(MOST_OF_ONE + 10)]
        told = []
        for caller in callers:
            caller.line.request("GET", "/api/v1/events/stream", headers=caller.headers)
            told.append(caller.line.getresponse().status)
        self.statuses.update(told)
        assert told[-1] == 503, told  # some may have been ended meanwhile, and made room
        self.flood(50, "listened", 1000)
        for caller in callers:
            caller.line.close()

    def numbers_of(self) -> None:
        since = "since=2026-01-01T00:00:00Z"
        for path in ("/stats/overview", f"/stats/throughput?{since}&step_ms=60000",
                     "/stats/kinds", "/failures", "/limits", "/workers"):  # fmt: skip
            status, told = self.ask("GET", path)
            assert status < 500, told

    def address(self) -> None:
        for path in ("/jobs?query=" + "a" * 60_000, "/jobs/" + "-eyJ" * 15_000):
            with suppress(ConnectionError):  # it closes before it has read all of it
                status, _ = self.ask("GET", path)
                assert status in (400, 404, 414, 422), status
            self.ask.line.close()


def single_requests() -> dict[str, Attack]:
    """Return the attacks that leave next to nothing in the tables."""
    found: dict[str, Attack] = {"nothing": lambda _: time.sleep(0.1)}
    for name, body in BODIES.items():
        path = "/jobs/batch" if "jobs" in name else "/jobs"
        found[f"body: {name}"] = lambda who, path=path, body=body: who.send(path, body)  # type: ignore[misc]
    for name, body in LARGEST_EMAILS.items():
        found[f"body: {name}"] = lambda who, body=body: who.send("/email/send", body)  # type: ignore[misc]
    for name, query in QUERIES.items():
        found[f"query: {name}"] = lambda who, query=query: who.search(query)  # type: ignore[misc]
    return found | {
        "numbers": Attacker.numbers_of,
        "addresses": Attacker.address,
        "rules of the clock": Attacker.rules,
        "globs": Attacker.match,
    }


def floods() -> dict[str, Attack]:
    """Return the attacks by number."""
    found: dict[str, Attack] = {}
    for name, wanted in JOBS_AT_ONCE.items():
        found[f"together: {name}"] = lambda who, wanted=wanted: who.many(wanted)  # type: ignore[misc]
    return found | {
        "listeners": Attacker.listen,
        "texts of errors": Attacker.fail,
        "events": Attacker.flood,
        "webhooks": Attacker.webhooks,
        "after the webhooks": Attacker.no_webhooks,
    }


def worst_of(
    town: Town, attacks: Mapping[str, Attack], seconds: float, bound: float
) -> dict[str, dict[str, float]]:
    """The longest wait of each prober beside each attack.

    A wait that is too long is looked for twice more: one that the attack makes comes again.
    """
    probers, attacker = Probers(town), Attacker(town)
    found: dict[str, dict[str, float]] = {}
    probers.begin()
    for name, attack in attacks.items():
        attacker.statuses.clear()
        attacker.ask.line.close()  # the server has, where it was idle for some seconds
        for _ in range(3):
            now = probers.during(lambda attack=attack: attack(attacker), seconds)  # type: ignore[misc]
            known = found.get(name, now)
            found[name] = {what: min(known[what], now[what]) for what in now}
            if max(found[name].values()) < bound:
                break
        shown = "  ".join(f"{what} {1000 * t:4.0f}" for what, t in sorted(found[name].items()))
        print(f"{name:32} {shown} ms  {dict(attacker.statuses)}")  # noqa: T201 - shown on failure
        settle(town)
    probers.end()
    return found


def settle(town: Town) -> None:
    """What an attack has left to do is not the next one's."""
    town.fleet.query(
        "UPDATE jobs_job SET state = 'cancelled', finished_at = jobs_clock() "
        "WHERE tenant = 'evil' AND state IN ('blocked', 'pending') AND queue <> 'elsewhere'"
    )
    wait_until(
        lambda: not town.fleet.value(
            "SELECT (SELECT count(*) FROM jobs_outbox) + (SELECT count(*) FROM jobs_job "
            "WHERE state IN ('queued', 'running') AND tenant = 'evil' AND queue <> 'elsewhere')"
        ),
        120, 0.05, message="the attack is over",
    )  # fmt: skip


def too_long(found: Mapping[str, Mapping[str, float]], bound: float) -> list[str]:
    return [
        f"{name}: {what} {seconds:.3f} s"
        for name, waits in found.items()
        for what, seconds in waits.items()
        if seconds >= bound
    ]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_no_request_of_a_key_keeps_others_waiting(town: Town) -> None:
    assert too_long(worst_of(town, single_requests(), 0.5, MOMENT), MOMENT) == []


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_nobody_waits_longer_than_promised(town: Town) -> None:
    found = worst_of(town, single_requests() | floods(), 5.0, PROMISED)
    assert too_long(found, PROMISED) == []
