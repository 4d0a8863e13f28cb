"""Functions as jobs: their payloads, calls, options and mistakes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Any
from uuid import UUID

import pytest

import jobs
from jobs import registry
from jobs.errors import HandlerError, InvalidPayload
from jobs.testing import run_jobs
from tests.specimens.tasks import receipt, remind, sent, told

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def emptied() -> Iterator[None]:
    sent.clear()
    yield


def test_a_call_becomes_a_job() -> None:
    made = receipt.enqueue(order=7, day=date(2026, 5, 1))
    receipt.enqueue(8, copy=True)
    job = jobs.get(made.id)
    assert (job.kind, job.queue, job.max_attempts) == ("specimens.receipt", "mail", 2)
    assert job.payload == {"order": 7, "day": "2026-05-01", "copy": False}
    assert run_jobs().succeeded == 2
    assert sorted(sent) == [(7, date(2026, 5, 1), False), (8, None, True)]
    assert jobs.get(made.id).result == "receipt 7"


def test_calling_it_is_calling_the_function() -> None:
    assert receipt(7, copy=True) == "receipt 7" and sent == [(7, None, True)]
    assert not jobs.Job.objects.exists()
    assert getattr(receipt, "__name__") == "receipt"  # noqa: B009 - types know no name of it


def test_the_context_is_passed_to_whom_names_it() -> None:
    made = remind.enqueue(name="ann")
    assert run_jobs().succeeded == 1
    assert sent == [(made.id, "ann")]


def test_options_of_a_job_stand_among_the_arguments_or_before() -> None:
    late = receipt.enqueue(order=1, delay=60, priority=5)  # type: ignore[call-arg]
    mine = receipt.using(tenant="acme", priority=-5).using(tags=["x"]).enqueue(2)
    assert (jobs.get(late.id).priority, jobs.get(late.id).state) == (5, "pending")
    found = jobs.get(mine.id)
    assert (found.tenant, found.priority, list(found.tags)) == ("acme", -5, ["x"])


def test_many_calls_are_enqueued_together() -> None:
    ids = receipt.enqueue_many([{"order": n} for n in range(3)], tenant="acme")
    assert [jobs.get(job).payload["order"] for job in ids] == [0, 1, 2]
    assert set(jobs.Job.objects.values_list("tenant", flat=True)) == {"acme"}


def test_calls_are_members_of_batches_and_links_of_chains() -> None:
    with jobs.batch("receipts") as batch:
        batch.add_many([receipt.draft(1)])
    jobs.chain(receipt.draft(2), receipt.draft(3))
    assert run_jobs().succeeded == 3


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"order": "7"}, "order"),
        ({"order": 7, "day": "2026-05-01"}, "day"),
        ({}, "order"),
        ({"order": 7, "colour": "red"}, "colour"),
    ],
)
def test_a_wrong_call_is_refused_at_once(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises((TypeError, ValueError), match=problem):
        receipt.enqueue(**arguments)
    assert not jobs.Job.objects.exists()


def test_a_sensitive_argument_is_sealed() -> None:
    made = told.enqueue(token="canary4711")
    assert "canary4711" not in str(jobs.get(made.id).payload)
    assert run_jobs().succeeded == 1 and sent == ["canary4711"]


def test_a_task_can_change_its_parameters() -> None:
    def older(data: dict[str, Any], version: int) -> dict[str, Any]:
        return {"order": data["id"]} if version == 1 else data

    try:

        @jobs.task(kind="shop.renamed", aliases=["shop.old"], version=2, upcast=older)
        def renamed(order: int) -> None:
            sent.append(order)

        made = renamed.enqueue(1)
        jobs.Job.objects.filter(pk=made.id).update(
            kind="shop.old", payload={"id": 9}, payload_version=1
        )
        assert run_jobs().succeeded == 1 and sent == [9]
    finally:
        registry.unregister("shop.renamed")


def untyped(order) -> None: ...  # type: ignore[no-untyped-def]
def many(*orders: int) -> None: ...
def first_only(order: int, /) -> None: ...
def with_option(delay: int) -> None: ...
def late_context(order: int, ctx: jobs.Context) -> None: ...
def unknown(order: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821
def called_kind(kind: str) -> None: ...


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (untyped, "'order' needs a type"), (many, "orders"), (first_only, "order"),
        (with_option, "'delay' is an option of enqueue"), (late_context, "ctx must be its first"),
        (unknown, "'Nowhere' is not known"), (called_kind, "'kind'"), ("kind", "a function"),
        (print, "a function"),
    ],
)  # fmt: skip
def test_what_cannot_be_a_task_is_named(function: Any, problem: str) -> None:
    with pytest.raises(HandlerError, match=problem):
        jobs.task(function)


def test_the_kind_is_that_of_the_app_wherever_the_module() -> None:
    from jobs.tasks import _kind

    def send() -> None: ...

    for module, kind in (
        ("shop.tasks", "shop.send"), ("project.shop.handlers", "shop.send"), ("shop", "shop.send"),
        ("shop.mail", "mail.send"), ("tasks", "tasks.send"),
    ):  # fmt: skip
        send.__module__ = module
        assert _kind(send) == kind


def test_a_payload_too_large_is_refused(settings: Any) -> None:
    settings.JOBS = {**settings.JOBS, "PAYLOAD_LIMIT": 1024}
    with pytest.raises(InvalidPayload):
        told.enqueue(token="x" * 5000)
    assert isinstance(receipt.enqueue(1).id, UUID)
