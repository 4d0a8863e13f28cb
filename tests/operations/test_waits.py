"""Why an operation waits, for people who do not know the program."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
from django.test import Client

from config.standins.erp.server import Erp
from jobs.testing import run_jobs
from operations import waits
from operations.errors import ErpUnreachable
from operations.models import Agent
from tests.api.conftest import Caller
from tests.operations.factories import ask, order

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ("drop_read", "the ERP does not answer (unreachable)"),
        ("500", "the ERP is out of order (status_500)"),
        ("expire_session", "another login has ended the session (session_ended)"),
        ("garbage", "the answer of the ERP cannot be read (unreadable_answer)"),
    ],
)
def test_why_it_is_tried_again_is_a_sentence(
    erp: Erp, agent: Agent, admin_client: Client, fault: str, sentence: str
) -> None:
    """And no path of a class, in the API, on the page of the operation and of its agent."""
    erp.can_search = False
    ask("submit-order", order("P-0"))
    run_jobs(["erp-write"])
    data = {"orderId": "4711", "updatedItems": [{"articleCode": "A-003", "quantity": 2,
            "unitPrice": 5, "lineAmount": 10}]}  # fmt: skip
    erp.script("ada", *[fault] * 3)
    row = ask("edit-order", data)
    run_jobs(["erp-write"])
    waits = Caller(tenants=["agent:ada"])("GET", f"/operations/{row.pk}/status").data["waits"]
    assert sentence in waits and "operations." not in waits
    for page in (f"operation/{row.pk}", "agent/ada"):
        text = admin_client.get(f"/admin/operations/{page}/change/").content.decode()
        assert sentence in text and "operations.errors" not in text


def test_an_error_of_this_program_is_called_that(
    erp: Erp, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("operations.verify.differences", lambda *given: 1 / 0)
    row = ask("submit-order", order())
    run_jobs(["erp-write"])
    found = waits.why(row)
    assert "an error in this program" in found and "Zero" not in found


def test_who_has_the_agent_is_named(erp: Erp, agent: Agent) -> None:
    found: dict[str, str] = {}

    def look(*given: Any) -> Any:
        """While one runs, another one is asked for."""
        for type, data in (("submit-order", order()), ("sync-orders", {})):
            if type not in found:
                found[type] = waits.why(ask(type, data)).splitlines()[0]
        raise ErpUnreachable("unreachable")

    with patch("operations.clients.connect", look):
        ask("sync-customers", {})
        run_jobs(["erp-sync"])
    assert found == {
        "submit-order": "the agent is busy with sync-customers, which steps aside",
        "sync-orders": "the agent is busy with sync-customers",
    }
