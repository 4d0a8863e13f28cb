"""A large batch is cancelled and retried by a bulk operation, whatever face asks for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client

import jobs
from jobs import flow
from jobs.errors import Denied, InvalidOption
from jobs.models import Audit, Bulk, Job
from jobs.operate import batchacts, bulkrun
from jobs.principals import Principal, Scope, every_permission
from tests.api.conftest import Caller, call
from tests.jobs.factories import claim_again, ended, settle
from tests.specimens.handlers import Noop

pytestmark = pytest.mark.django_db
MANY = batchacts.FEW + 1
WHY: dict[str, Any] = {"reason": "the file was wrong"}
Face = Callable[[UUID, str], None]


def a_batch(size: int) -> UUID:
    with jobs.batch("many") as made:
        made.add_many(Noop() for _ in range(size))
    return made.id


def by_code(batch: UUID, act: str) -> None:
    function: Any = flow.cancel_batch if act == "cancel" else flow.retry_batch
    assert isinstance(function(batch, by="ada", **WHY), Bulk)


def by_api(batch: UUID, act: str) -> None:
    path = {"cancel": "cancel", "retry": "retry-failed"}[act]
    caller = Caller(name="root", is_staff=True)
    answer = call(
        caller.client, "POST", f"/batches/{batch}/{path}", WHY,
        Authorization=f"Bearer {caller.secret}",
    )  # fmt: skip
    assert (answer.status_code, answer.data["action"]) == (202, act)


def by_command(batch: UUID, act: str) -> None:
    name = {"cancel": "cancel-rest", "retry": "retry-failed"}[act]
    call_command("jobs", "batches", name, str(batch), f"--reason={WHY['reason']}")


def by_admin(batch: UUID, act: str) -> None:
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    answer = client.post(f"/admin/jobs/batch/{batch}/do/{act}/", WHY)
    [made] = Bulk.objects.all()
    assert (answer.status_code, answer["Location"]) == (302, f"/admin/jobs/bulk/{made.pk}/change/")


FACES = [by_code, by_api, by_command, by_admin]


def carried_out() -> Bulk:
    [made] = Bulk.objects.all()
    while bulkrun.step(made.pk) is not None:
        pass
    made.refresh_from_db()
    return made


def members(batch: UUID, state: str) -> int:
    return Job.objects.filter(batch_id=batch, state=state).count()


@pytest.mark.parametrize("face", FACES, ids=lambda face: face.__name__)
def test_more_than_a_few_members_are_cancelled_in_bulk(face: Face) -> None:
    batch = a_batch(MANY)
    face(batch, "cancel")
    assert members(batch, "cancelled") == 0
    [row] = Audit.objects.filter(action="batch.cancel_rest")
    assert (row.outcome, row.target_id) == ("done", str(batch))
    made = carried_out()
    assert row.detail["bulk"] == str(made.pk)
    assert (made.state, made.done, members(batch, "cancelled")) == ("done", MANY, MANY)


@pytest.mark.parametrize("face", FACES, ids=lambda face: face.__name__)
def test_more_than_a_few_failures_are_retried_in_bulk(
    face: Face, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batchacts, "FEW", 2)
    batch = a_batch(4)
    failed = Job.objects.filter(batch_id=batch).values_list("pk", flat=True)
    for job_id in list(failed)[:3]:
        dead(job_id)
    face(batch, "retry")
    assert members(batch, "failed") == 3
    assert (carried_out().done, members(batch, "failed")) == (3, 0)


def dead(job_id: UUID) -> None:
    settle(ended(claim_again(job_id), "unrecoverable"))


def test_as_many_as_a_few_are_dealt_with_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batchacts, "FEW", 2)
    batch = a_batch(2)
    assert flow.cancel_batch(batch, by="ada") == 2
    assert not Bulk.objects.exists()


def test_members_out_of_sight_make_no_batch_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batchacts, "FEW", 2)
    with jobs.batch("mixed") as made:
        for queue in ("seen", "hidden", "hidden"):
            made.add(Noop(), queue=queue)
    mine = Principal("ann", "api", every_permission(), Scope(queues=frozenset({"seen"})))
    assert flow.cancel_batch(made.id, by=mine) == 1


def test_a_large_one_needs_a_reason_and_the_permission_of_bulks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batchacts, "FEW", 1)
    batch = a_batch(2)
    with pytest.raises(InvalidOption, match="reason"):
        flow.cancel_batch(batch, by="ada")
    ann: Any = Principal("ann", "api", frozenset({"cancel_job"}), Scope())
    with pytest.raises(Denied, match="run_bulk"):
        flow.cancel_batch(batch, by=ann, **WHY)
    outcomes = Audit.objects.filter(action="batch.cancel_rest").order_by("at", "id")
    assert list(outcomes.values_list("outcome", flat=True)) == ["refused", "denied"]
    assert (Bulk.objects.count(), members(batch, "cancelled")) == (0, 0)
