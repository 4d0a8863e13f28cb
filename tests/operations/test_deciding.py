"""A person decides what no program can find out: by the API, the admin and the command line.

Each decision is followed to its end: what the ERP has, what is stored here, what can be done next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client

from config.standins.erp.server import Erp
from jobs.models import Audit, Effect
from jobs.testing import freeze_clock, run_jobs
from operations import verbs
from operations.models import MIRROR, Agent, Operation, Order, Phase
from tests.api.conftest import Caller, fresh_counts  # noqa: F401 - a fixture
from tests.operations.factories import ask, fetch, order, steps

pytestmark = pytest.mark.django_db
Decide = Callable[..., None]


def by_api(row: Operation, how: str, number: str = "") -> None:
    body = {"how": how, "reason": "asked them", **({"erpId": number} if number else {})}
    answer = Caller(tenants=["agent:ada"])("POST", f"/operations/{row.pk}/resolve", body)
    assert answer.status_code == 200, answer.content


def by_admin(row: Operation, how: str, number: str = "") -> None:
    client = Client()
    client.force_login(User.objects.get_or_create(username="root", is_superuser=True,
                                                  is_staff=True)[0])  # fmt: skip
    page = f"/admin/operations/operation/{row.pk}"
    name = how.replace("_", "-")
    assert f"do/{name}/" in client.get(f"{page}/change/").content.decode()
    fields = {"reason": "asked them", **({"erp_id": number} if number else {})}
    answer = client.post(f"{page}/do/{name}/", fields)
    assert answer.status_code == 302, answer.content


def by_command(row: Operation, how: str, number: str = "") -> None:
    more = [f"--erp-id={number}"] if number else []
    call_command(
        "jobs", "operations", "operation-resolve", str(row.pk), how, "--reason=asked them", *more
    )


FACES = pytest.mark.parametrize("decide", [by_api, by_admin, by_command])


def work(clock: Any, rounds: int = 6) -> None:
    for _ in range(rounds):
        run_jobs(["erp-write"])
        clock.tick(400)


def doubtful(erp: Erp, clock: Any, fault: str) -> Operation:
    """A write whose answer was lost, at an ERP that cannot search."""
    erp.can_search = False
    erp.script("ada", fault)
    row = ask("submit-order", order())
    work(clock)
    assert fetch(row.pk).phase == Phase.IN_DOUBT
    return row


def writes(erp: Erp) -> int:
    return sum((c["what"], c["step"]) == ("operations", "begin") for c in erp.book.log)


@FACES
def test_the_erp_has_it(erp: Erp, agent: Agent, decide: Decide) -> None:
    with freeze_clock() as clock:
        row = doubtful(erp, clock, "drop_after_save")
        decide(row, "saved", "4711")
        work(clock)
    row = fetch(row.pk)
    assert (row.phase, row.erp_id, row.result) == (Phase.COMPLETED, "4711", {"orderId": "4711"})
    assert steps(row)[-4:] == ["in_doubt", "erp_save_done", "db_committed", "completed"]
    assert (writes(erp), len(erp.book.data["orders"])) == (1, 1)
    assert Order.objects.get(deleted_at=None).key == "4711"
    assert Effect.objects.get(job_id=row.pk).state == "done"
    assert Audit.objects.get(action="operation.resolve").reason == "asked them"


@FACES
def test_the_erp_does_not_have_it(erp: Erp, agent: Agent, decide: Decide) -> None:
    with freeze_clock() as clock:
        row = doubtful(erp, clock, "drop_before_save")
        decide(row, "not_saved")
        work(clock)
        row = fetch(row.pk)
        assert (row.phase, row.erp_id, writes(erp)) == (Phase.FAILED, "", 1)
        last = row.steps.latest("id")
        assert (row.error_code, last.phase, last.why) == ("not_saved", "failed", "asked them")
        assert last.by not in ("", "jobs", "check")  # a person's decision, not a finding
        assert not Order.objects.filter(deleted_at=None).exists()
        assert Audit.objects.get(action="operation.resolve").reason == "asked them"
        # Nothing was saved, so it may be submitted once more.
        again = ask("submit-order", order())
        work(clock)
    assert again.pk != row.pk and fetch(again.pk).phase == Phase.COMPLETED
    assert (writes(erp), len(erp.book.data["orders"])) == (2, 1)


@FACES
def test_a_number_that_the_erp_does_not_know_is_corrected(
    erp: Erp, agent: Agent, decide: Decide
) -> None:
    with freeze_clock() as clock:
        row = doubtful(erp, clock, "drop_after_save")
        decide(row, "saved", "4117")
        work(clock)
        found = fetch(row.pk)
        assert (found.phase, found.error_code) == (Phase.ERP_SAVE_DONE, "verification_mismatch")
        assert found.mismatch == [{"field": "id", "sent": "4117", "erp": ""}]
        decide(row, "saved", "4711")
        work(clock)
    found = fetch(row.pk)
    assert (found.phase, found.erp_id, found.mismatch) == (Phase.COMPLETED, "4711", [])
    assert (writes(erp), len(erp.book.data["orders"])) == (1, 1)


@FACES
@pytest.mark.parametrize("how", ["accept", "recheck"])
def test_values_that_differ(erp: Erp, agent: Agent, decide: Decide, how: str) -> None:
    with freeze_clock() as clock:
        row = ask("submit-order", order())
        erp.script("ada", "wrong_total")
        work(clock, 2)
        assert fetch(row.pk).error_code == "verification_mismatch"
        erp.script("ada", *["wrong_total"] * (how == "accept"))
        decide(row, how)
        work(clock)
    row = fetch(row.pk)
    assert (row.phase, row.error_code, writes(erp)) == (Phase.COMPLETED, "", 1)
    assert [one["field"] for one in row.mismatch] == ["total"] * (how == "accept")
    total = Order.objects.get(key="4711").values["total"]
    assert total == ("0.01" if how == "accept" else "57.69")


def test_a_comparison_that_finds_the_erp_away_goes_on_by_itself(erp: Erp, agent: Agent) -> None:
    with freeze_clock() as clock:
        row = ask("submit-order", order())
        erp.script("ada", "wrong_total")
        work(clock, 2)
        by_api(row, "recheck")
        erp.is_down = True
        work(clock, 12)
        assert fetch(row.pk).phase == Phase.ERP_SAVE_DONE
        erp.is_down = False
        work(clock, 6)
    assert (fetch(row.pk).phase, writes(erp)) == (Phase.COMPLETED, 1)


CUSTOMER = {"name": "Neri", "vatNumber": "IT00000000012"}


@pytest.mark.parametrize(
    ("type", "data", "sync"),
    [("submit-order", order(), "sync-orders"), ("create-customer", CUSTOMER, "sync-customers")],
)
def test_a_sync_that_sees_the_reference_decides(
    erp: Erp, agent: Agent, type: str, data: Any, sync: str
) -> None:
    erp.can_search = False
    erp.script("ada", "drop_after_save")
    with freeze_clock() as clock:
        row = ask(type, data)
        work(clock)
        other = ask("submit-order", order("P-2"))
        erp.script("ada", "drop_before_save")
        work(clock)
        assert {fetch(one.pk).phase for one in (row, other)} == {Phase.IN_DOUBT}
        verbs.sync_now("ada", sync, by="tests")
        run_jobs(["erp-sync"])
        work(clock)
    found = fetch(row.pk)
    assert (found.phase, found.erp_id) == (
        Phase.COMPLETED,
        erp.book.data["references"][str(row.pk)],
    )
    [decided] = found.steps.filter(why="seen in an export")
    assert (decided.phase, decided.by) == (Phase.ERP_SAVE_DONE, sync)
    # An export that does not show a reference may be older than the write: it says nothing.
    assert fetch(other.pk).phase == Phase.IN_DOUBT
    assert writes(erp) == 2
    model = MIRROR[sync]
    assert not model.objects.filter(key=row.temporary_id).exists()
    assert model.objects.filter(key=found.erp_id, deleted_at=None).count() == 1


def test_a_decision_is_made_once(erp: Erp, agent: Agent) -> None:
    with freeze_clock() as clock:
        row = doubtful(erp, clock, "drop_before_save")
        by_api(row, "not_saved")
        with pytest.raises(CommandError, match="it is"):
            by_command(row, "saved", "4711")
        caller = Caller(name="other", tenants=["agent:ada"])
        body = {"how": "not_saved", "reason": "too"}
        assert caller("POST", f"/operations/{row.pk}/resolve", body).status_code == 409
        work(clock)
    assert fetch(row.pk).phase == Phase.FAILED


def test_a_step_says_what_went_wrong(erp: Erp, agent: Agent) -> None:
    row = ask("submit-order", order(customerId="C-9999"))
    run_jobs(["erp-write"])
    last = fetch(row.pk).steps.latest("id")
    assert (last.phase, last.why) == ("failed", "unknown_customer")
