"""Birds in every field, and real processes: none is heard in anything that they leave behind."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from config.embedded.ports import free as free_port
from tests.emailgw import factories
from tests.emailgw.sink import Sink
from tests.emailgw.test_canary import BIRDS, asked, heard
from tests.http.servers import Server, answer
from tests.integration.fleet import CHECKOUT, Fleet
from tests.privacy import vault
from tests.wait import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
BIRD = BIRDS[0]
LINK = re.compile(r'href="(/admin/(?:jobs|emailgw)/[^"#]*|\?[^"#]*)"')
PAGES = 400


class Stage:
    """A fleet with everything that a project runs, and a program and a person in front of it."""

    def __init__(self, fleet: Fleet, sink: Sink, hook: Server, folder: Path) -> None:
        self.fleet, self.sink, self.hook = fleet, sink, hook
        self.spans = folder / "spans.jsonl"
        sends = factories.providers(sink.port, BREAKER_THRESHOLD=50, BREAKER_OPEN_FOR=1)
        self.env = {
            "DJANGO_SETTINGS_MODULE": "tests.emailgw.canary_settings", "HTTPS": "off",
            "FLEET_APPS": "emailgw", "FLEET_EMAILGW": json.dumps(sends),
            "FLEET_SPANS": str(self.spans),
        }  # fmt: skip
        rates = {"read": "100000/m", "write": "100000/m", "refused": "100000/m"}
        self.jobs: dict[str, Any] = {
            **vault.KEYS, "WEBHOOKS": True, "HTTP_ALLOW": ["127.0.0.0/8"], "API_RATES": rates,
        }  # fmt: skip
        self.said: list[tuple[str, str]] = []
        people = self.run("people")
        self.company, self.session = people["company"], people["session"]
        port = free_port()
        options: dict[str, Any] = {"jobs": self.jobs, "env": self.env}
        fleet.manage("web", "jobs", "web", str(port), **options)
        fleet.manage("relay", "jobs", "relay", **options)
        fleet.dispatcher(**options)
        queues = "--queues=email:send,jobs.webhooks,email:sweep"
        worker = fleet.worker("--concurrency=4", queues, unready=True, **options)
        url = f"http://127.0.0.1:{port}"
        self.api = httpx.Client(
            base_url=f"{url}/api/v1", timeout=30,
            headers={"Authorization": f"Bearer {people['key']}"},
        )  # fmt: skip
        self.viewer = httpx.Client(base_url=url, timeout=30, cookies={"sessionid": self.session})
        wait_until(self._answers, 60, message="the web server answers")
        wait_until(lambda: fleet.executors(worker), 60, message="the worker opened a lease")

    def _answers(self) -> bool:
        try:
            return self.api.get("/health/live").status_code == 200
        except httpx.TransportError:
            return False

    def run(self, *arguments: str) -> Any:
        done = subprocess.run(
            [sys.executable, "-m", "tests.emailgw.stage", *arguments], cwd=CHECKOUT,
            env=self.fleet._environment(self.jobs, self.env), capture_output=True, text=True,
        )  # fmt: skip
        self.said.append(("a process", done.stderr))
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def call(self, method: str, path: str, body: Any = None, expected: int = 200) -> Any:
        once = {"Idempotency-Key": f"k{len(self.said)}"} if method == "POST" else {}
        answer = self.api.request(method, path, json=body, headers=once)
        self.said.append((f"{method} {path}", answer.text + str(answer.headers)))
        assert answer.status_code == expected, answer.text
        return answer.json() if answer.content else None

    def send(self, name: str) -> str:
        """The id of an email to the bird, on a branch of that name."""
        email = {**asked(), "to": f"{name}.{BIRD}"}
        made = self.call("POST", "/email/send", {"email": email}, 202)
        return str(made["outboxId"])

    def until(self, outbox: str, status: str, doubt: bool = False) -> None:
        wait_until(
            lambda: self.fleet.query(
                "SELECT status, in_doubt FROM emailgw_outbox WHERE id = %s", [outbox]
            ) == [(status, doubt)], 60, 0.05, f"the email is {status}",
        )  # fmt: skip

    def close(self) -> None:
        self.api.close()
        self.viewer.close()


@pytest.fixture
def stage(fleet: Fleet, server: Sink, tmp_path: Path) -> Iterator[Stage]:
    server.reset()
    fleet.query("TRUNCATE emailgw_company, jobs_breaker, jobs_apikey, auth_user CASCADE")
    hook = Server()
    made = Stage(fleet, server, hook, tmp_path)
    yield made
    made.close()
    fleet.end_programs()
    fleet.query("TRUNCATE emailgw_company, jobs_breaker, jobs_apikey, auth_user CASCADE")
    hook.close()
    server.reset()


def script(step: str, address: str, times: int) -> str | None:
    """The server's words have the address in them."""
    if step == "RCPT" and address.startswith("gone"):
        return f"550 5.1.1 <{address}> is unknown here"
    if step == "END" and address.startswith("later") and times == 1:
        return f"451 4.7.1 {address} may come back later"
    return "take and hang up" if step == "END" and address.startswith("doubt") else None


def live(stage: Stage) -> dict[str, str]:
    """Everything that can happen to an email happens; answers the emails by name."""
    stage.call("POST", "/webhooks", {
        "url": f"http://127.0.0.1:{stage.hook.port}/told", "topics": ["email.*"], "reason": "test",
        "tenant": stage.company,
    }, 201)  # fmt: skip
    stage.hook.replies["/told"] = answer()
    stage.sink.script = script
    made = {name: stage.send(name) for name in ("sent", "later", "gone", "doubt", "bounced")}
    for name in ("sent", "later", "bounced"):
        stage.until(made[name], "SENT")
    stage.until(made["gone"], "FAILED")
    stage.until(made["doubt"], "SENT_ATTEMPT", doubt=True)
    stage.sink.script = lambda step, address, times: None
    stage.call("POST", f"/emails/{made['gone']}/resend", {"reason": "the box is back"})
    stage.until(made["gone"], "SENT")
    stage.call("POST", f"/emails/{made['doubt']}/resend", {"reason": "asked", "evenIfSent": True})
    stage.until(made["doubt"], "SENT")
    told = [
        {"type": "bounced", "id": "b1", "outbox": made["bounced"], "recipient": f"bounced.{BIRD}",
         "description": f"Permanent: <bounced.{BIRD}> is gone", "answer": f"550 {BIRD} unknown"},
        {"type": "complained", "id": "c1", "outbox": made["sent"], "recipient": f"sent.{BIRD}",
         "description": f"abuse by {BIRD}", "answer": ""},
    ]  # fmt: skip
    stage.run("feedback", json.dumps(told))
    stage.call("POST", "/email/send", {"email": {**asked(), "to": f"bounced.{BIRD}"}}, 422)
    return made


def ask(stage: Stage) -> None:
    """What programs ask, right and wrong."""
    for wrong in ({"to": f"{BIRD}, {BIRD}"}, {"subject": f"{BIRDS[4]}\nBcc: {BIRD}"},
                  {"headers": {f"X-{BIRDS[10]}": BIRDS[5]}}, {"html": 7, "nome": BIRDS[10]},
                  {"recipient": {"cpfCnpj": BIRDS[8][:-1] + "0", "nome": BIRDS[10]}}):  # fmt: skip
        stage.call("POST", "/email/send", {"email": {**asked(), **wrong}}, 422)
    stage.call("POST", "/email/batches", {"emails": [asked(), {**asked(), "to": BIRDS[10]}]}, 202)
    assert stage.call("POST", "/emails/search", {"to": f"sent.{BIRD}"})["data"]
    assert stage.call("POST", "/emails/search", {"cpfCnpj": BIRDS[7]})["data"]
    entry = stage.call(
        "POST", "/email/suppressions", {"email": f"x.{BIRD}", "reason": "asked"}, 201
    )
    stage.call("POST", f"/email/suppressions/{entry['id']}/lift", {"reason": "again"}, 204)
    shown = stage.api.post("/email/preview", json={"html": f"<p>{BIRDS[6]}</p>"})
    assert BIRDS[6] in shown.json()["document"]  # who asks has it; it must not stay anywhere


def read_api(stage: Stage, emails: dict[str, str]) -> int:
    """Whatever can be asked without changing anything is asked; answers how many there were."""
    paths = json.loads((CHECKOUT / "docs" / "openapi.json").read_text())["paths"]
    asked = 0
    for path, methods in paths.items():
        if "get" not in methods or path.endswith("/events/stream"):
            continue
        for outbox in emails.values() if "{" in path else [""]:
            url = re.sub(r"\{\w+\}", outbox, path).removeprefix("/api/v1")
            with stage.api.stream("GET", url) as answer:
                if "event-stream" in answer.headers.get("content-type", ""):
                    continue
                answer.read()
            stage.said.append((f"GET {url}", answer.text + str(answer.headers)))
            asked += answer.status_code == 200
    return asked


def read_pages(stage: Stage) -> set[str]:
    """Every page of the admin that somebody reaches who may see all but what is revealed."""
    waiting = ["/admin/jobs/overview/", "/admin/emailgw/outboxemail/", "/admin/emailgw/company/",
               "/admin/emailgw/suppression/"]  # fmt: skip
    seen: set[str] = set()
    while waiting and len(seen) < PAGES:
        path = waiting.pop(0)
        plain = path.partition("?")[0]
        if path in seen or sum(one.startswith(plain + "?") for one in seen) > 8:
            continue
        seen.add(path)
        answer = stage.viewer.get(path)
        assert answer.status_code in (200, 302, 403, 404), path
        stage.said.append((f"page {path}", answer.text + str(answer.headers)))
        for link in LINK.findall(answer.text):
            found = link.replace("&amp;", "&")
            waiting.append(plain + found if found.startswith("?") else found)
    return seen


def listen_to_tables(stage: Stage) -> set[str]:
    """Nothing is heard in any table; answers those that have rows."""
    full = set()
    for (name,) in stage.fleet.query("SELECT tablename FROM pg_tables WHERE schemaname = 'public'"):
        rows = stage.fleet.query(f'SELECT t::text FROM "{name}" t')  # noqa: S608
        heard("\n".join(text for (text,) in rows), f"the table {name}")
        if rows:
            full.add(name)
    return full


def test_no_bird_gets_out_of_a_fleet(stage: Stage) -> None:
    emails = live(stage)
    ask(stage)
    full = listen_to_tables(stage)  # before retention takes what was sent
    wait_until(lambda: len(stage.hook.seen) >= 5, 60, message="webhooks have been told")
    assert read_api(stage, emails) > 20
    pages = read_pages(stage)
    assert {f"/admin/emailgw/outboxemail/{one}/change/" for one in emails.values()} <= pages
    assert any(page.startswith("/admin/jobs/deadletter/") for page in pages)
    metrics = stage.viewer.get("/metrics")
    assert metrics.status_code == 200 and "jobs_" in metrics.text
    stage.said.append(("the metrics", metrics.text))
    for where, text in stage.said:
        heard(text, where)
    for number, request in enumerate(stage.hook.seen):
        heard(request.decode("utf-8", "replace"), f"webhook {number}")
    full |= listen_to_tables(stage)
    # An empty table would be silent in any case.
    assert full >= {
        "jobs_job",
        "jobs_attempt",
        "jobs_effect",
        "jobs_feed",
        "jobs_deadletter",
        "jobs_audit",
        "jobs_api_answer",
        "jobs_webhookdelivery",
        "emailgw_event",
    }
    redis = stage.fleet.redis
    heard(repr([(key, redis.dump(key)) for key in redis.scan_iter()]), "Redis")
    spans = stage.spans.read_text()
    assert "email:send" in spans
    heard(spans, "the spans")
    stage.fleet.end_programs()
    for log in stage.fleet.folder.glob("*.log"):
        heard(log.read_text(errors="replace"), log.name)
    got = "".join(str(one.message["Subject"]) for one in stage.sink.taken)
    assert BIRDS[4] in got  # in the mail itself it is
