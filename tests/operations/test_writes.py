"""Writes happen once, and say truly what became of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import jobs
from config.standins.erp.server import Erp
from jobs.testing import emitted, freeze_clock, run_jobs
from operations import payloads, verbs
from operations.errors import Refused
from operations.models import Agent, Customer, Login, Operation, Order, OrderArticle, Phase
from operations.services import accept
from tests.http.servers import PEM
from tests.operations.factories import ask, fetch, order, steps

pytestmark = pytest.mark.django_db
WHOLE = ["queued", "in_progress", "erp_save_done", "db_committed", "completed"]


def finish(clock: Any, seconds: int = 400, rounds: int = 12) -> None:
    for _ in range(rounds):
        run_jobs(["erp-write", "erp-read"])
        clock.tick(seconds)


def submitted(erp: Erp) -> int:
    return len(erp.book.data["orders"])


def test_an_order_is_followed_to_its_number(erp: Erp, agent: Agent) -> None:
    row = ask("submit-order", order())
    assert Order.objects.get().key == f"TEMP-{row.pk}"
    assert run_jobs(["erp-write"]).succeeded == 1
    row = fetch(row.pk)
    assert (row.phase, row.erp_id, steps(row)) == (Phase.COMPLETED, "4711", WHOLE)
    stored = Order.objects.get()
    assert (stored.key, stored.values["total"]) == ("4711", "57.69")
    assert OrderArticle.objects.count() == 2
    topics = [event.topic for event in emitted("operations.*")]
    assert topics == [
        "operations.JOB_QUEUED", "operations.JOB_STARTED", "operations.JOB_PROGRESS",
        "operations.JOB_COMPLETED", "operations.JOB_QUEUED",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "fault", ["drop_after_save", "500_after_save", "garbage_after_save", "no_id"]
)
def test_a_lost_answer_is_found_and_not_repeated(erp: Erp, agent: Agent, fault: str) -> None:
    erp.script("ada", fault)
    row = ask("submit-order", order())
    with freeze_clock() as clock:
        finish(clock, 20, 4)
    assert (fetch(row.pk).phase, submitted(erp)) == (Phase.COMPLETED, 1)


@pytest.mark.parametrize("fault", ["drop_before_save", "500", "garbage", "redirect"])
def test_what_was_not_saved_is_tried_again_once_it_is_known(
    erp: Erp, agent: Agent, fault: str
) -> None:
    erp.script("ada", fault)
    row = ask("submit-order", order())
    with freeze_clock() as clock:
        finish(clock, 20, 4)
    assert (fetch(row.pk).phase, submitted(erp)) == (Phase.COMPLETED, 1)


def test_an_expired_session_asks_before_it_writes(erp: Erp, agent: Agent) -> None:
    erp.script("ada", "expire_session")
    row = ask("submit-order", order())
    assert run_jobs(["erp-write"]).succeeded == 1
    assert (fetch(row.pk).phase, submitted(erp)) == (Phase.COMPLETED, 1)
    assert (erp.calls["login"], erp.calls["find"]) == (2, 1)


def test_a_documented_refusal_is_final(erp: Erp, agent: Agent) -> None:
    items = [{"articleCode": "X-1", "quantity": 1, "price": 1}]
    row = ask("submit-order", order(items=items))
    run_jobs(["erp-write"])
    row = fetch(row.pk)
    assert (row.phase, row.error_code) == (Phase.FAILED, "unknown_article")
    assert row.error_words == "Refused: Via Segreta 1"
    assert "Segreta" not in str(jobs.Job.objects.values_list("reason", flat=True)[0])
    assert Order.objects.get().deleted_at is not None
    again = accept.enqueue("submit-order", order(), by="tests", agent="ada")
    assert not again.deduplicated


def test_a_double_click_makes_one_order(erp: Erp, agent: Agent) -> None:
    first = accept.enqueue("submit-order", order(), by="tests", agent="ada")
    second = accept.enqueue("submit-order", order(), by="tests", agent="ada")
    assert (second.id, second.deduplicated) == (first.id, True)
    [told] = emitted("operations.JOB_DEDUPLICATED")
    assert told.payload["jobId"] == str(first.id)
    with pytest.raises(Refused, match="other data") as refused:
        accept.enqueue("submit-order", order("P-2"), by="tests", agent="ada",
                       idempotency_key="k")  # fmt: skip
        accept.enqueue("submit-order", order("P-3"), by="tests", agent="ada",
                       idempotency_key="k")  # fmt: skip
    assert refused.value.status == 409


@pytest.mark.parametrize("end", [Phase.FAILED, Phase.CANCELLED])
def test_the_same_request_after_nothing_was_saved_runs_it_again(
    erp: Erp, agent: Agent, end: Phase
) -> None:
    """Within the seconds of a double click; a key of the caller returns what became of it."""

    def submit(key: str) -> accept.Accepted:
        return accept.enqueue(
            "submit-order", order(f"P-{key}"), by="tests", agent="ada", idempotency_key=key
        )

    first, keyed = submit(""), submit("theirs")
    if end == Phase.CANCELLED:
        for one in (first, keyed):
            verbs.cancel(one.id, by="tests", reason="changed their mind")
    else:
        customers, erp.book.data["customers"] = erp.book.data["customers"], {}
        run_jobs(["erp-write"])
        erp.book.data["customers"] = customers
    assert {fetch(one.id).phase for one in (first, keyed)} == {end}
    assert submit("") == first
    assert emitted("operations.JOB_DEDUPLICATED") == []
    assert submit("") == accept.Accepted(first.id, True)
    assert submit("theirs") == accept.Accepted(keyed.id, True)
    run_jobs(["erp-write"])
    assert (fetch(first.id).phase, fetch(keyed.id).phase) == (Phase.COMPLETED, end)
    assert ("queued", "submitted again") in fetch(first.id).steps.values_list("phase", "why")
    assert submitted(erp) == 1 and Order.objects.filter(deleted_at=None).count() == 1


def test_a_pending_order_is_submitted_once(erp: Erp, agent: Agent) -> None:
    ask("submit-order", order())
    with freeze_clock() as clock:
        clock.tick(31)
        with pytest.raises(Refused, match="submitted") as refused:
            ask("submit-order", order())
    assert refused.value.code == "already-submitted"


def test_a_mismatch_waits_for_a_person(erp: Erp, agent: Agent) -> None:
    erp.script("ada", "wrong_total")
    row = ask("submit-order", order())
    run_jobs(["erp-write"])
    row = fetch(row.pk)
    assert (row.phase, row.error_code) == (Phase.ERP_SAVE_DONE, "verification_mismatch")
    assert row.mismatch == [{"field": "total", "sent": "57.69", "erp": "0.01"}]
    assert (submitted(erp), row.erp_id) == (1, "4711")


def test_the_total_with_vat_must_be_met(erp: Erp, agent: Agent) -> None:
    row = ask("submit-order", order(targetTotalWithVAT="70.37"))
    run_jobs(["erp-write"])
    assert fetch(row.pk).error_code == "verification_mismatch"
    assert fetch(row.pk).mismatch[0]["field"] == "targetTotalWithVAT"


def test_an_order_from_the_warehouse_is_none_of_the_erp(erp: Erp, agent: Agent) -> None:
    item = {"articleCode": "A-001", "quantity": 2, "price": 1, "warehouseQuantity": 2}
    row = ask("submit-order", order(items=[item]))
    run_jobs(["erp-write"])
    row = fetch(row.pk)
    assert (row.phase, row.result) == (Phase.COMPLETED, {"orderId": f"warehouse-{row.pk}"})
    assert erp.calls["operations"] == 0


def test_every_write_changes_the_erp_and_the_mirror(erp: Erp, agent: Agent) -> None:
    ask("submit-order", order())
    run_jobs(["erp-write"])
    customer = {"name": "Bianchi", "vatNumber": "IT1", "street": "Via Roma"}
    made = ask("create-customer", customer)
    assert Customer.objects.get().key == f"TEMP-{made.pk}"
    run_jobs(["erp-write"])
    made = fetch(made.pk)
    assert made.erp_id == "C-4712" and Customer.objects.get().key == "C-4712"
    ask("update-customer", {**customer, "customerProfile": "C-4712", "name": "Neri"})
    item = {"articleCode": "A-003", "quantity": 2, "unitPrice": 5, "lineAmount": 10}
    ask("edit-order", {"orderId": "4711", "updatedItems": [item]})
    ask("send-to-verona", {"orderId": "4711"})
    run_jobs(["erp-write"])
    assert erp.book.data["customers"]["C-4712"]["name"] == "Neri"
    assert Customer.objects.get().values["name"] == "Neri"
    assert erp.book.data["orders"]["4711"]["state"] == "inviato_verona"
    stored = Order.objects.get()
    assert stored.values["state"] == "inviato_verona" and "sent_to_verona_at" in stored.values
    assert OrderArticle.objects.get().values["articleCode"] == "A-003"
    row = ask("delete-order", {"orderId": "4711"})
    run_jobs(["erp-write"])
    assert fetch(row.pk).error_code == "order_closed"
    erp.book.data["orders"]["4711"]["state"] = "open"
    row = ask("delete-order", {"orderId": "4711"}, idempotency_key="again")
    run_jobs(["erp-write"])
    assert fetch(row.pk).phase == Phase.COMPLETED
    assert "4711" not in erp.book.data["orders"]
    assert Order.objects.get().deleted_at is not None and not OrderArticle.objects.exists()


def test_an_edit_of_an_old_version_is_a_conflict(erp: Erp, agent: Agent) -> None:
    ask("submit-order", order())
    run_jobs(["erp-write"])
    item = {"articleCode": "A-003", "quantity": 2, "unitPrice": 5, "lineAmount": 10}
    row = ask("edit-order", {"orderId": "4711", "updatedItems": [item], "version": 7})
    run_jobs(["erp-write"])
    assert (fetch(row.pk).phase, fetch(row.pk).error_code) == (Phase.FAILED, "conflict")


def test_a_refused_password_is_tried_once(erp: Erp, agent: Agent) -> None:
    erp.book.data["passwords"]["ada"] = "another"
    rows = [ask("submit-order", order(f"P-{n}")) for n in range(3)]
    with freeze_clock() as clock:
        finish(clock, 60, 5)
    assert erp.calls["login"] == 1
    assert Agent.objects.get().login == Login.REFUSED
    assert {fetch(row.pk).phase for row in rows} == {"queued"}
    assert "paused" in jobs.explain(rows[1].pk).codes


def test_an_outage_of_two_hours_fails_no_write(erp: Erp, agent: Agent) -> None:
    rows = [ask("submit-order", order(f"P-{n}")) for n in range(3)]
    erp.is_down = True
    with freeze_clock() as clock:
        for _ in range(24):
            run_jobs(["erp-write"])
            clock.tick(300)
        erp.is_down = False
        finish(clock, 400, 8)
    assert {fetch(row.pk).phase for row in rows} == {"completed"}
    assert submitted(erp) == 3


def test_ten_edits_arrive_in_order_and_cause_one_resync(erp: Erp, agent: Agent) -> None:
    base = {"customerProfile": "C-0001", "vatNumber": "IT1"}
    with freeze_clock() as clock:
        rows = [ask("update-customer", {**base, "name": f"N{n}"}) for n in range(10)]
        for _ in range(12):
            run_jobs(["erp-write"])
        assert erp.book.data["customers"]["C-0001"]["name"] == "N9"
        assert {fetch(row.pk).phase for row in rows} == {"completed"}
        clock.tick(11)
        run_jobs(["erp-sync"])
    assert Operation.objects.filter(type="sync-customers").count() == 1


def test_a_forged_job_changes_no_row(erp: Erp, agent: Agent) -> None:
    row = ask("submit-order", order())
    task = payloads.TASKS["submit-order"](agent="ada", type="submit-order", digest="0" * 64)
    forged = jobs.enqueue(task, tenant="agent:other")
    run_jobs(["erp-write"])
    job = jobs.get(forged.id)
    assert (job.state, erp.calls["operations"]) == ("failed", 1)
    assert fetch(row.pk).phase == Phase.COMPLETED


def test_a_certificate_that_nobody_trusts_is_an_outage(
    erp: Erp, agent: Agent, tmp_path: Path, settings: Any
) -> None:
    """Nothing is sent to who cannot prove to be the ERP, so no outcome is in doubt either."""
    impostor = Erp(tmp_path / "impostor", certificate=PEM)
    impostor.start()
    ours = settings.OPERATIONS
    settings.OPERATIONS = {**ours, "ERP_URL": impostor.url}
    try:
        row = ask("submit-order", order())
        with freeze_clock() as clock:
            run_jobs(["erp-write"])
            assert (fetch(row.pk).phase, fetch(row.pk).error_code) == (Phase.QUEUED, "unreachable")
            assert dict(impostor.attempts) == {} and impostor.calls == {}
            settings.OPERATIONS = ours
            clock.tick(400)
            run_jobs(["erp-write"])
        assert fetch(row.pk).phase == Phase.COMPLETED
    finally:
        impostor.stop()
