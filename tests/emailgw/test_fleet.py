"""Real workers and a real SMTP server: each email once, or a person is asked."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.emailgw import factories
from tests.emailgw.sink import Sink
from tests.integration.fleet import CHECKOUT, Fleet, Program
from tests.wait import wait_until

pytestmark = pytest.mark.slow


class Post:
    """A fleet whose workers send to the sink."""

    def __init__(self, fleet: Fleet, sink: Sink) -> None:
        self.fleet, self.sink = fleet, sink
        settings = factories.providers(sink.port, BREAKER_THRESHOLD=50, BREAKER_OPEN_FOR=1)
        self.env = {"FLEET_APPS": "emailgw", "FLEET_EMAILGW": json.dumps(settings)}

    def hand_in(self, emails: int, companies: int, names: list[str]) -> list[str]:
        """The ids of so many new emails."""
        asked = json.dumps({"emails": emails, "companies": companies, "names": names})
        done = subprocess.run(
            [sys.executable, "-m", "tests.emailgw.hand_in", asked],
            cwd=CHECKOUT, env=self.fleet._environment({}, self.env), capture_output=True,
            text=True, check=True,
        )  # fmt: skip
        return list(json.loads(done.stdout))

    def worker(self, crash: str = "") -> Program:
        env = {**self.env, "FLEET_CRASH": crash}
        return self.fleet.worker("--concurrency=5", "--queues=email:send", env=env)

    def statuses(self) -> Counter[tuple[str, bool]]:
        rows = self.fleet.query(
            "SELECT status, in_doubt, count(*) FROM emailgw_outbox GROUP BY 1, 2"
        )
        return Counter({(status, doubt): n for status, doubt, n in rows})

    def await_end(self, timeout: float = 30) -> None:
        wait_until(lambda: not self.unfinished(), timeout, 0.05, "every email has come to an end")

    def unfinished(self) -> int:
        return int(
            self.fleet.value(
                "SELECT count(*) FROM jobs_job WHERE kind = 'email:send' AND state NOT IN "
                "('succeeded', 'failed', 'cancelled', 'expired')"
            )
        )


@pytest.fixture
def post(fleet: Fleet, server: Sink) -> Iterator[Post]:
    server.reset()
    fleet.query("TRUNCATE emailgw_company, jobs_breaker CASCADE")
    yield Post(fleet, server)
    fleet.end_programs()
    server.reset()


SENT, PARKED = ("SENT", False), ("SENT_ATTEMPT", True)


@pytest.mark.parametrize(
    ("point", "when", "status", "accepted"),
    [
        ("emailgw.pipeline.run", "before", SENT, 1),
        ("emailgw.pipeline._prepare", "before", SENT, 1),
        ("emailgw.pipeline._prepare", "after", SENT, 1),
        ("emailgw.clients.deliver", "before", SENT, 1),
        ("emailgw.clients.smtp._check_reply", "after", SENT, 1),
        ("emailgw.pipeline._begin", "before", SENT, 1),
        ("emailgw.pipeline._begin", "after", PARKED, 0),
        ("emailgw.clients.smtp.transmit", "after", PARKED, 1),
        ("emailgw.clients.deliver", "after", PARKED, 1),
        ("emailgw.pipeline._finish", "before", SENT, 1),
        ("emailgw.pipeline.write_log", "after", SENT, 1),
        ("emailgw.pipeline._finish", "after", SENT, 1),
        ("emailgw.pipeline.run", "after", SENT, 1),
    ],
)
def test_a_worker_that_dies_anywhere_sends_once_or_asks(
    post: Post, tmp_path: Path, point: str, when: str, status: tuple[str, bool], accepted: int
) -> None:
    mark = tmp_path / "mark"
    post.fleet.dispatcher(env=post.env)
    post.worker(f"{point}|{when}|{mark}")
    [outbox] = post.hand_in(1, 1, ["ana"])
    post.await_end()
    assert mark.exists()
    assert post.statuses() == {status: 1}
    wait_until(lambda: post.sink.count() == ({outbox: 1} if accepted else {}))


def run_through(post: Post, emails: int, companies: int, kills: int) -> None:
    """Emails whose servers answer as they like, on workers that are killed meanwhile."""

    def script(step: str, address: str, times: int) -> str | None:
        if step == "RCPT" and times == 1:
            if address.startswith("stall"):
                return "stall"
            if address.startswith("busy"):
                return "421 busy"
        if (step, times) == ("END", 1) and address.startswith("later"):
            return "451 later"
        return "550 no" if step == "RCPT" and address.startswith("gone") else None

    post.sink.script = script
    names = ["ana"] * 12 + ["busy", "later", "gone", "ana"]
    chance = random.Random(7)
    post.fleet.dispatcher(env=post.env)
    ids = post.hand_in(emails - 4, companies, names) + post.hand_in(4, 1, ["stall"])
    workers = [post.worker(), post.worker()]
    killed = 0

    def is_over() -> bool:
        """Kills an executor that has something to do, as long as there are kills left."""
        nonlocal killed
        if killed < kills and post.fleet.value(
            "SELECT count(*) FROM jobs_job WHERE state = 'running'"
        ):
            for pid in post.fleet.executors(chance.choice(workers)):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            killed += 1
        return not post.unfinished()

    wait_until(is_over, 200, 0.4, "every email has come to an end")
    count = post.sink.count()
    assert max(count.values()) == 1  # nobody got anything twice
    rows = post.fleet.query("SELECT id::text, status, in_doubt FROM emailgw_outbox")
    assert {row[0] for row in rows} == set(ids)
    for outbox, status, in_doubt in rows:
        if in_doubt:
            assert killed and status == "SENT_ATTEMPT"
        elif status == "SENT":
            assert count[outbox] == 1
        else:
            assert (status, count[outbox]) == ("FAILED", 0)
    gone = len([n for n in range(emails - 4) if names[n % len(names)] == "gone"])
    by_status = post.statuses()
    parked = by_status[PARKED]
    # An executor has at most five emails under way when it dies.
    assert parked <= 5 * killed
    assert by_status["FAILED", False] == gone
    assert by_status[SENT] == emails - gone - parked
    print(f"{emails} emails, {killed} kills, {parked} parked")  # noqa: T201


def test_a_few_emails_of_several_companies_without_a_kill(post: Post) -> None:
    run_through(post, 60, 5, kills=0)


@pytest.mark.timeout(300)
def test_a_thousand_emails_of_twenty_companies_with_kills(post: Post) -> None:
    run_through(post, 1000, 20, kills=8)
