"""The pages: each shows its rows, within the scope of who looks."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from config.standins.erp.server import PDF, Erp
from jobs.testing import run_jobs
from operations.models import Agent
from operations.verbs import PERMISSIONS
from tests.operations.factories import agent as new_agent
from tests.operations.factories import ask, fetch, order

pytestmark = pytest.mark.django_db
PAGES = (
    "operation", "agent", "syncrun", "document", "customer", "order", "orderarticle", "orderstate",
    "ddt", "invoice", "product", "price",
)  # fmt: skip


@pytest.fixture
def staff(client: Client) -> Client:
    client.force_login(User.objects.create_superuser("root"))
    return client


@pytest.mark.parametrize("page", PAGES)
def test_an_empty_list_says_what_to_do(staff: Client, page: str) -> None:
    answer = staff.get(f"/admin/operations/{page}/")
    assert answer.status_code == 200


def test_a_whole_life_is_shown(staff: Client, erp: Erp, agent: Agent) -> None:
    erp.script("ada", "wrong_total")
    row = ask("submit-order", order())
    page = f"/admin/operations/operation/{row.pk}/change/"
    assert b"Why it waits" in staff.get(page).content
    run_jobs(["erp-write"])
    shown = staff.get(page).content.decode()
    assert "a person decides" in shown and "57.69 → 0.01" in shown and "Rossi" not in shown
    assert "Operation" in staff.get(f"/admin/jobs/job/{row.pk}/change/").content.decode()
    answer = staff.post(f"/admin/operations/operation/{row.pk}/do/recheck/",
                        {"reason": "corrected"})  # fmt: skip
    assert answer.status_code in (200, 302)
    run_jobs(["erp-write"])
    assert fetch(row.pk).phase == "completed"
    read = ask("download-ddt-pdf", {"orderId": "4711", "ddtNumber": "D-4711"})
    run_jobs(["erp-read"])
    got: Any = staff.get(f"/admin/operations/document/{read.pk}/download/")
    assert b"".join(got.streaming_content) == PDF
    for name, key in (("document", read.pk), ("agent", "ada")):
        assert staff.get(f"/admin/operations/{name}/{key}/change/").status_code == 200
    listed = staff.get("/admin/operations/order/").content.decode()
    assert "4711" in listed


def test_an_agents_user_sees_nobody_else(client: Client, erp: Erp, agent: Agent) -> None:
    user = User.objects.create_user("bob", is_staff=True)
    names = [name.partition(".")[2] for name in PERMISSIONS]
    user.user_permissions.set(Permission.objects.filter(codename__in=names))
    other = new_agent("bob", user=user)
    row = ask("submit-order", order())
    own = ask("submit-order", order(), agent=other.pk)
    client.force_login(user)
    listed = client.get("/admin/operations/operation/").content.decode()
    assert str(own.pk) in listed and str(row.pk) not in listed
    assert client.get(f"/admin/operations/operation/{row.pk}/change/").status_code in (302, 404)
    agents = client.get("/admin/operations/agent/").content.decode()
    assert "/bob/change/" in agents and "/ada/change/" not in agents
    assert f"TEMP-{row.pk}" not in client.get("/admin/operations/order/").content.decode()


def test_a_user_is_chosen_for_an_agent(staff: Client, agent: Agent) -> None:
    User.objects.create_user("ada.rossi")
    page = "/admin/operations/agent/ada"
    assert "do/link-user/" in staff.get(f"{page}/change/").content.decode()
    answer = staff.post(f"{page}/do/link-user/", {"username": "nobody", "reason": "a mistake"})
    assert "no such user" in answer.content.decode() and Agent.objects.get().user is None
    answer = staff.post(f"{page}/do/link-user/", {"username": "ada.rossi", "reason": "new"})
    assert answer.status_code == 302
    assert Agent.objects.get(user__username="ada.rossi") == agent
    assert 'value="ada.rossi"' in staff.get(f"{page}/do/link-user/").content.decode()
    staff.post(f"{page}/do/link-user/", {"username": "", "reason": "has left"})
    assert Agent.objects.get().user is None


def test_all_operations_of_a_type_are_stopped(staff: Client, erp: Erp, agent: Agent) -> None:
    row, other = ask("submit-order", order()), ask("sync-customers", {})
    page = "/admin/operations/operation"
    assert "do/stop-type/" in staff.get(f"{page}/").content.decode()
    answer = staff.post(f"{page}/do/stop-type/", {"type": "submit-order", "reason": "wrong prices"})
    assert answer.status_code == 302
    assert (fetch(row.pk).phase, fetch(other.pk).phase) == ("cancelled", "queued")
