"""Requests that come twice, one after the other or at once, with real transactions."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction

from jobs.api import idempotency
from jobs.models import Answer, Job
from tests.api.conftest import Caller
from tests.jobs import factories

pytestmark = pytest.mark.django_db(transaction=True)
NOOP = {"kind": "test.noop"}


def at_once(count: int, act: Callable[[int], Any]) -> list[Any]:
    """What the calls answer, which begin together, each in a thread of its own."""
    gate, answers = threading.Barrier(count), [None] * count

    def run(number: int) -> None:
        try:
            gate.wait(10)
            answers[number] = act(number)
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return answers


def repeated(root: Caller, key: str, _: int) -> Any:
    return root("POST", "/jobs", NOOP, Idempotency_Key=key)


def replayed(root: Caller, paths: list[str], number: int) -> Any:
    return root("POST", paths[number], {"reason": "again"})


def test_the_same_request_has_one_effect_and_one_answer() -> None:
    root = Caller()
    first = root("POST", "/jobs", NOOP, Idempotency_Key="k1")
    again = root("POST", "/jobs", NOOP, Idempotency_Key="k1")
    assert first.content == again.content
    assert (again.status_code, again["Idempotent-Replayed"]) == (201, "true")
    assert again["Location"] == first["Location"]
    assert Job.objects.count() == 1
    other = root("POST", "/jobs", {**NOOP, "priority": 1}, Idempotency_Key="k1")
    assert (other.status_code, other.data["code"]) == (422, "idempotency-key-reused")
    assert Caller()("POST", "/jobs", NOOP, Idempotency_Key="k1").status_code == 201
    assert root("POST", "/batches", {}, Idempotency_Key="k1").status_code == 201


def test_an_error_is_not_kept() -> None:
    root = Caller()
    body = {"kind": "test.noop", "batch": "00000000-0000-7000-8000-000000000000"}
    assert root("POST", "/jobs", body, Idempotency_Key="k").status_code == 404
    assert not Answer.objects.exists()
    assert root("POST", "/jobs", NOOP, Idempotency_Key="k").status_code == 201


def test_after_a_day_a_key_is_new() -> None:
    root = Caller()
    root("POST", "/jobs", NOOP, Idempotency_Key="k")
    factories.sql("UPDATE jobs_api_answer SET created_at = created_at - interval '25 hours'")
    assert "Idempotent-Replayed" not in root("POST", "/jobs", NOOP, Idempotency_Key="k")
    assert Job.objects.count() == 2
    assert datetime.now(UTC) - Answer.objects.get().created_at < timedelta(hours=1)


def test_a_key_may_be_demanded(settings: Any) -> None:
    settings.JOBS = {**settings.JOBS, "API_NEEDS_IDEMPOTENCY_KEY": True}
    root = Caller()
    response = root("POST", "/jobs", NOOP)
    assert (response.status_code, response.data["code"]) == (428, "idempotency-key-missing")
    for key in ("", "a b", "x" * 256, "ü"):
        assert root("POST", "/jobs", NOOP, Idempotency_Key=key).status_code == 400


def test_twins_at_once_have_one_effect() -> None:
    root = Caller()
    for n in range(5):
        answers = at_once(6, partial(repeated, root, f"t{n}"))
        told = [(a.status_code, a.data.get("code", "")) for a in answers]
        assert set(told) <= {(201, ""), (409, "idempotency-key-in-use")}, told
        assert (201, "") in told
        assert Job.objects.count() == n + 1


def test_whoever_comes_while_it_is_under_way_shall_come_again() -> None:
    root = Caller()
    place = [f"key:{root.key.prefix}", "POST", "/api/v1/jobs", "busy"]
    with transaction.atomic():
        factories.sql(
            "SELECT pg_advisory_xact_lock(hashtextextended(%s, %s))",
            ["\n".join(place), idempotency.LOCK],
        )
        [answer] = at_once(1, lambda _: root("POST", "/jobs", NOOP, Idempotency_Key="busy"))
    assert (answer.status_code, answer["Retry-After"]) == (409, "1")
    assert not Job.objects.exists()


def test_two_replays_of_a_dead_letter_give_one_new_job() -> None:
    root = Caller()
    for _ in range(5):
        claim = factories.a_claim(max_attempts=1)
        factories.settle(factories.ended(claim))
        [(letter,)] = factories.sql("SELECT id FROM jobs_deadletter WHERE job_id = %s", [claim.id])
        paths = [f"/dead-letters/{letter}/replay", f"/jobs/{claim.id}/replay"] * 2
        answers = at_once(4, partial(replayed, root, paths))
        assert sorted(a.status_code for a in answers) == [201, 409, 409, 409]
        assert Job.objects.filter(replay_of=claim.id).count() == 1
