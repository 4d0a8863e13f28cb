"""The operations for programs: every answer, and what nobody else may see."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

import jobs
from config.standins.erp.server import PDF, Erp
from jobs.models import Audit
from jobs.testing import run_jobs
from operations import verbs
from operations.models import Agent, Customer, Operation
from tests.api.conftest import Caller, call
from tests.operations.factories import agent as new_agent
from tests.operations.factories import ask, order

pytestmark = pytest.mark.django_db


@pytest.fixture
def caller(agent: Agent) -> Caller:
    return Caller(tenants=["agent:ada"])


@pytest.fixture
def stranger(agent: Agent) -> Caller:
    new_agent("bob")
    return Caller(name="stranger", tenants=["agent:bob"])


def enqueue(caller: Caller, type: str, data: Any, **more: Any) -> Any:
    return caller("POST", "/operations/enqueue", {"type": type, "data": data, **more})


def test_an_order_is_submitted_and_followed(caller: Caller, erp: Erp) -> None:
    answer = enqueue(caller, "submit-order", order())
    assert answer.status_code == 202, answer.content
    assert (answer.data["success"], answer.data["deduplicated"]) == (True, False)
    again = enqueue(caller, "submit-order", order())
    assert (again.data["jobId"], again.data["deduplicated"]) == (answer.data["jobId"], True)
    status = caller("GET", f"/operations/{answer.data['jobId']}/status").data
    assert status["phase"] == "queued" and status["waits"]
    run_jobs(["erp-write"])
    status = caller("GET", f"/operations/{answer.data['jobId']}/status").data
    assert (status["phase"], status["erpId"], status["result"]) == (
        "completed", "4711", {"orderId": "4711"},
    )  # fmt: skip
    assert [step["phase"] for step in status["steps"]][-1] == "completed"
    [listed] = caller("GET", "/operations?phase=completed").data["data"]
    assert listed["id"] == answer.data["jobId"]
    assert len(caller("GET", "/operations/user/ada").data["data"]) == 2
    stats = caller("GET", "/operations/stats").data
    assert (stats["completed"], stats["waiting"]) == (1, 1)
    board = caller("GET", "/operations/dashboard").data
    assert board["agentStatus"][0]["waiting"] == 1 and board["recentHistory"][0]["erpId"] == "4711"


def test_documents_and_lines_are_fetched(caller: Caller, erp: Erp) -> None:
    enqueue(caller, "submit-order", order())
    run_jobs(["erp-write"])
    made = enqueue(caller, "download-ddt-pdf", {"orderId": "4711", "ddtNumber": "D-4711"}).data
    assert caller("GET", f"/operations/{made['jobId']}/document").status_code == 404
    run_jobs(["erp-read"])
    answer = caller("GET", f"/operations/{made['jobId']}/document")
    assert b"".join(answer.streaming_content) == PDF
    assert answer["Content-Disposition"] == 'attachment; filename="D-4711.pdf"'
    erp.script("ada", "html_as_pdf")
    data = {"orderId": "4711", "invoiceNumber": "I-4711"}
    html = enqueue(caller, "download-invoice-pdf", data).data["jobId"]
    run_jobs(["erp-read"])
    status = caller("GET", f"/operations/{html}/status").data
    assert (status["phase"], status["errorCode"]) == ("failed", "not_a_pdf")
    lines = enqueue(caller, "sync-order-articles", {"orderId": "4711"}).data["jobId"]
    run_jobs(["erp-read"])
    result = caller("GET", f"/operations/{lines}/status").data["result"]
    assert result == {"articlesCount": 2, "totalVatAmount": "12.69", "totalWithVat": "70.38"}
    mirror = caller("GET", "/operations/mirror/sync-orders/ada").data
    assert mirror["data"][0]["values"]["total"] == "57.69"


def test_held_deletions_are_looked_at_and_allowed(
    caller: Caller, stranger: Caller, erp: Erp
) -> None:
    """Which rows would go is shown before somebody decides, to nobody else."""
    verbs.sync_now("ada", "sync-customers", by="tests")
    run_jobs(["erp-sync"])
    erp.script("ada", "bad_row")
    verbs.sync_now("ada", "sync-customers", by="tests")
    run_jobs(["erp-sync"])
    rejected = caller("GET", "/operations/runs").data["data"][0]
    shown = caller("GET", f"/operations/runs/{rejected['id']}").data
    assert [one["number"] for one in shown["rejectedRows"]] == [1]
    assert "name" in shown["rejectedRows"][0]["columns"]
    erp.script("ada", "empty")
    verbs.sync_now("ada", "sync-customers", by="tests")
    run_jobs(["erp-sync"])
    [held] = [r for r in caller("GET", "/operations/runs").data["data"] if r["outcome"] == "held"]
    path = f"/operations/runs/{held['id']}"
    keys = caller("GET", path).data["heldKeys"]
    assert len(keys) == held["held"] == Customer.objects.filter(deleted_at=None).count() == 30
    assert stranger("GET", path).status_code == 404
    answer = caller("POST", f"{path}/allow", {"reason": "they moved to another agent"})
    assert answer.status_code in (200, 204), answer.content
    assert not Customer.objects.filter(deleted_at=None).exists()
    assert caller("GET", path).data["outcome"] == "allowed"


@pytest.mark.parametrize(
    ("type", "data", "pointers"),
    [
        ("submit-ordr", {}, {"/type"}),
        ("submit-order", {}, {"/data/pendingOrderId", "/data/customerId", "/data/customerName",
                              "/data/items"}),
        ("submit-order", order(customerId="TEMP-1"), {"/data/customerId"}),
        ("submit-order", order(items=[{"articleCode": "A", "quantity": -1, "price": "-1"}]),
         {"/data/items/0/quantity", "/data/items/0/price"}),
        ("submit-order", order(items=[{"articleCode": "A", "quantity": 1, "price": "1.00001"}]),
         {"/data/items/0/price"}),
        ("submit-order", order(items=[{"articleCode": "A", "quantity": 1, "price": 1}] * 501),
         {"/data/items"}),
        ("submit-order", order(items=[{"articleCode": "A", "quantity": 1, "price": 1,
            "warehouseSources": [{"warehouseItemId": "W", "boxName": "B", "quantity": 2}]}]),
         {"/data/items/0"}),
        ("send-to-verona", {"orderId": "1", "items": []}, {"/data/items"}),
        ("sync-customers", {"orderId": "1"}, {"/data/orderId"}),
    ],
)  # fmt: skip
def test_all_problems_are_named_at_once(
    caller: Caller, erp: Erp, type: str, data: Any, pointers: set[str]
) -> None:
    answer = enqueue(caller, type, data)
    assert answer.status_code == 422
    assert {one["pointer"] for one in answer.data["errors"]} == pointers
    if type == "submit-ordr":
        assert "submit-order" in answer.data["detail"]
    assert not Operation.objects.exists()


def test_without_an_erp_nothing_is_accepted(caller: Caller, settings: Any) -> None:
    settings.OPERATIONS = {}
    assert enqueue(caller, "submit-order", order()).status_code == 503


def test_another_agent_does_not_exist(caller: Caller, stranger: Caller, erp: Erp) -> None:
    row = ask("submit-order", order())
    assert enqueue(stranger, "submit-order", order(), agent="ada").status_code == 404
    assert enqueue(stranger, "submit-order", order(), agent="nobody").status_code == 404
    for path in ("status", "document"):
        assert stranger("GET", f"/operations/{row.pk}/{path}").status_code == 404
    for act in ("cancel", "retry", "resolve"):
        body = {"reason": "mine", **({"how": "saved"} if act == "resolve" else {})}
        assert stranger("POST", f"/operations/{row.pk}/{act}", body).status_code == 404
    for act in ("pause", "resume", "test-login"):
        answer = stranger("POST", f"/operations/agents/ada/{act}", {"reason": "mine"})
        assert answer.status_code == 404, answer.content
    assert stranger("GET", "/operations/user/ada").status_code == 404
    assert stranger("GET", "/operations/mirror/sync-orders/ada").status_code == 404
    assert stranger("GET", "/operations").data["data"] == []
    assert [one["key"] for one in stranger("GET", "/operations/agents").data] == ["bob"]
    assert caller("GET", f"/operations/{row.pk}/status").data["phase"] == "queued"


def test_a_key_of_another_queue_sees_and_changes_nothing(agent: Agent, erp: Erp) -> None:
    row = ask("submit-order", order())
    reader = Caller(name="reader", tenants=["agent:ada"], queues=["erp-read"])
    assert enqueue(reader, "submit-order", order("P-2")).status_code == 404
    assert reader("GET", f"/operations/{row.pk}/status").status_code == 404
    answer = reader("POST", f"/operations/{row.pk}/cancel", {"reason": "mine"})
    assert answer.status_code == 404


def test_every_step_needs_its_permission(agent: Agent, erp: Erp) -> None:
    row = ask("submit-order", order())
    viewer = Caller(name="viewer", tenants=["agent:ada"], permissions=["view_job"])
    assert enqueue(viewer, "submit-order", order("P-2")).status_code == 403
    assert viewer("GET", "/operations").status_code == 403
    assert viewer("POST", f"/operations/{row.pk}/cancel", {"reason": "x"}).status_code == 403
    root = Caller(name="office", permissions=["enqueue_job"], is_staff=True)
    assert enqueue(root, "submit-order", order("P-2"), agent="ada").status_code == 403


def test_a_wrong_state_is_named_and_a_verb_is_audited(caller: Caller, erp: Erp) -> None:
    row = ask("submit-order", order())
    answer = caller("POST", f"/operations/{row.pk}/retry", {"reason": "impatient"})
    assert (answer.status_code, answer.data["detail"]) == (409, "it is queued")
    answer = caller("POST", f"/operations/{row.pk}/cancel", {"reason": "changed"})
    assert (answer.status_code, answer.data) == (200, {"state": "cancelled"})
    answer = caller("POST", f"/operations/{row.pk}/cancel", {"reason": "changed"})
    assert (answer.status_code, answer.data["detail"]) == (409, "it is cancelled")
    assert caller("POST", f"/operations/{row.pk}/cancel", {"reason": " "}).status_code == 422
    assert Audit.objects.filter(action="operation.cancel", target_id=str(row.pk)).exists()
    Agent.objects.update(is_active=False)
    assert enqueue(caller, "submit-order", order("P-9")).status_code == 409


def test_an_agents_own_user_needs_no_key_and_counts_as_seen(agent: Agent, erp: Erp) -> None:
    user = User.objects.create_user("ada")
    user.user_permissions.set(
        Permission.objects.filter(codename__in=["enqueue_job", "view_operation"])
    )
    Agent.objects.update(user=user)
    client = Client()
    client.force_login(user)
    answer = call(client, "POST", "/operations/enqueue", {"type": "submit-order", "data": order()})
    assert answer.status_code == 202, answer.content
    assert Operation.objects.get().agent_id == "ada"
    assert Agent.objects.get().last_seen_at is not None


def test_a_key_of_one_agent_counts_as_seen_and_others_do_not(agent: Agent, erp: Erp) -> None:
    Caller(name="office")("GET", "/operations")
    Caller(name="both", tenants=["agent:ada", "agent:bea"])("GET", "/operations")
    assert Agent.objects.get().last_seen_at is None
    Caller(tenants=["agent:ada"])("GET", "/operations")
    assert Agent.objects.get().last_seen_at is not None


def test_the_office_has_to_name_the_agent(agent: Agent, erp: Erp) -> None:
    answer = enqueue(Caller(name="office"), "submit-order", order())
    assert answer.status_code == 422
    assert answer.data["errors"][0]["pointer"] == "/agent"


def test_canaries_appear_nowhere(caller: Caller, erp: Erp, caplog: Any) -> None:
    """Neither names, nor passwords, nor the words of the ERP leave their encrypted columns."""
    from django.db import connection

    from jobs.testing import emitted

    Agent.objects.all()
    data = order(customerName="Kanarienvogel", customerId="C-9999")
    made = enqueue(caller, "submit-order", data).data
    run_jobs(["erp-write"])
    topics = str([event.payload for event in emitted("*")])
    with connection.cursor() as cursor:
        cursor.execute("SELECT payload::text || history::text FROM jobs_job")
        rows = str(cursor.fetchall())
        cursor.execute("SELECT operations_operation::text FROM operations_operation")
        rows += str(cursor.fetchall())
        cursor.execute("SELECT operations_agent::text FROM operations_agent")
        rows += str(cursor.fetchall())
    status = caller("GET", f"/operations/{made['jobId']}/status")
    assert status.data["errorCode"] == "unknown_customer"
    told = topics + rows + caplog.text + status.content.decode()
    for canary in ("Kanarienvogel", "Via Segreta", "'secret'"):
        assert canary not in told


def test_no_job_of_another_tenant_holds_the_key_of_an_agent(stranger: Caller, erp: Erp) -> None:
    """Its key is its own, however it is spelled, so the agent's work does not wait for it."""
    body = {"kind": "example.greet", "payload": {"name": "x"}, "exclusive": "agent:ada"}
    made = stranger("POST", "/jobs", {**body, "tenant": "agent:bob"})
    assert made.status_code in (200, 201, 202), made.content
    key = jobs.get(made.data["job"]["id"] if "job" in made.data else made.data["id"]).exclusive_key
    assert key not in ("", None, "agent:ada")
    for unlimited in (Caller(name="office"), Caller(name="whole", queues=["default"])):
        answer = unlimited("POST", "/jobs", {**body, "queue": "default"})
        assert (answer.status_code, answer.data["code"]) == (422, "invalid-option")
    row = ask("submit-order", order())
    assert jobs.get(row.pk).exclusive_key == "agent:ada"
    run_jobs(["erp-write"])
    assert Operation.objects.get(pk=row.pk).phase == "completed"
    for kind in ("erp.submit-order", "erp.check", "erp.login-test"):
        answer = stranger("POST", "/jobs", {"kind": kind, "payload": {}, "tenant": "agent:bob"})
        assert answer.status_code in (403, 404, 422), answer.content
