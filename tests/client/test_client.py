"""The client against a live server: what it asks for is done once, and errors have names."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import httpx
import pytest

import jobs
from jobs import client as desk
from jobs import testing
from jobs.client import Client
from jobs.operate import apikeys
from jobs.principals import ALL

pytestmark = pytest.mark.django_db(transaction=True)


def a_key(permissions: Any = ALL) -> str:
    return apikeys.create("program", permissions, by="tests", reason="a test").text


@pytest.fixture
def api(live_server: Any) -> Any:
    with Client(f"{live_server.url}/api/v1", key=a_key()) as client:
        yield client


def test_it_imports_without_settings() -> None:
    code = "import jobs.client, os; assert 'DJANGO_SETTINGS_MODULE' not in os.environ"
    subprocess.run([sys.executable, "-c", code], env={}, check=True, timeout=60)


def test_a_job_is_enqueued_seen_and_its_result_waited_for(api: Client) -> None:
    made = api.enqueue("test.echo", {"text": "hi"}, tags=["a"])
    assert api.job(made["id"], "payload")["payload"] == {"text": "hi"}
    with pytest.raises(desk.WaitTimeout):
        api.wait(made["id"], timeout=0.05, interval=0.01)
    testing.run_jobs()
    assert api.wait(made["id"]) == jobs.Job.objects.get().result
    assert api.replay(made["id"], reason="again") != made["id"]


def test_every_page_is_walked(api: Client) -> None:
    ids = api.enqueue_many([{"kind": "test.noop"}] * 5)
    assert [job["id"] for job in api.jobs(limit=2)] == ids[::-1]


def test_what_is_cancelled_has_failed_for_who_waits(api: Client) -> None:
    made = api.enqueue("test.noop", {})
    assert api.cancel(made["id"], reason="no")["state"] == "cancelled"
    with pytest.raises(desk.JobFailed):
        api.wait(made["id"])
    with pytest.raises(desk.Conflict) as caught:
        api.cancel(made["id"], reason="no")
    assert caught.value.code == "invalid-state" and caught.value.request_id
    assert api.retry(made["id"], reason="yes")["state"] == "pending"


def test_a_bulk_operation_is_previewed_begun_and_followed(api: Client) -> None:
    api.enqueue_many([{"kind": "test.noop"}] * 3)
    seen = api.preview("cancel", query="kind:test.noop state:pending")
    made = api.bulk(
        "cancel", query="kind:test.noop state:pending", token=seen["token"], reason="no use"
    )
    testing.run_jobs(["default"])
    assert api.bulk_progress(made["id"])["done"] == seen["eligible"] == 3


def test_a_bulk_operation_is_waited_for(api: Client) -> None:
    api.enqueue_many([{"kind": "test.noop"}] * 2)
    with pytest.raises(desk.WaitTimeout, match="gathering"):
        api.bulk_and_wait(
            "cancel", "kind:test.noop state:pending", reason="no use", timeout=0.05, interval=0.01
        )
    testing.run_jobs(["default"])
    [made] = api.request("GET", "/bulk-operations")
    assert api.wait_bulk(made["id"])["done"] == 2


def test_dead_letters_are_decided_upon(api: Client) -> None:
    api.enqueue_many([{"kind": "test.fail", "payload": {}, "max_attempts": 1}] * 2)
    testing.run_jobs()
    first, second = (letter["id"] for letter in api.dead_letters())
    new = api.replay_letter(first, reason="again")
    assert api.job(new)["state"] == "pending"
    assert api.discard_letter(second, reason="known")["state"] == "discarded"
    assert list(api.dead_letters()) == []


def test_what_is_to_be_told_is_seen(api: Client) -> None:
    jobs.emit("order.paid", {})
    assert [event["topic"] for event in api.outbox()] == ["order.paid"]


def test_errors_have_names(api: Client, live_server: Any) -> None:
    for error, call in (
        (desk.NotFound, lambda: api.job("0" * 32)),
        (desk.Invalid, lambda: api.enqueue("test.echo", {})),
    ):
        with pytest.raises(error):
            call()  # type: ignore[no-untyped-call]
    url = f"{live_server.url}/api/v1"
    with Client(url, key="wrong") as stranger, pytest.raises(desk.Unauthorized):
        list(stranger.jobs())
    with Client(url, key=a_key(["view_job"])) as reader, pytest.raises(desk.Denied):
        reader.enqueue("test.noop", {})


class Flaky(httpx.BaseTransport):
    """Lets the first requests through and loses the answers."""

    def __init__(self, lost: int, answer: Callable[[], httpx.Response] | None = None) -> None:
        self.lost, self.answer, self.seen = lost, answer, list[httpx.Request]()
        self._inner = httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.seen.append(request)
        if len(self.seen) > self.lost:
            return self._inner.handle_request(request)
        if self.answer is not None:
            return self.answer()
        self._inner.handle_request(request).read()
        raise httpx.ReadError("the answer was lost")

    def close(self) -> None:
        self._inner.close()


def test_a_lost_answer_makes_no_second_job(live_server: Any) -> None:
    flaky = Flaky(2)
    with Client(f"{live_server.url}/api/v1", key=a_key(), transport=flaky) as client:
        made = client.enqueue("test.noop", {})
    assert len({request.headers["Idempotency-Key"] for request in flaky.seen}) == 1
    assert len(flaky.seen) == 3
    assert [str(job.id) for job in jobs.Job.objects.all()] == [made["id"]]


def test_it_comes_back_when_it_is_told_to(
    live_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("jobs.client.time.sleep", pauses.append)
    flaky = Flaky(2, lambda: httpx.Response(429, headers={"Retry-After": "7"}))
    with Client(f"{live_server.url}/api/v1", key=a_key(), transport=flaky) as client:
        client.enqueue("test.noop", {})
    assert pauses == [7.0, 7.0]
    late = Flaky(99, lambda: httpx.Response(503, headers={"Retry-After": "9999"}))
    one = Client("http://x", key="k", transport=late, repeats=2, longest_pause=3)
    with one as client, pytest.raises(desk.Unavailable):
        client.enqueue("test.noop", {})
    assert pauses[2:] == [3.0, 3.0]
