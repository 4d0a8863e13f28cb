"""The contract of a client of the ERP, against the stand-in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from config.standins.erp.server import PDF, Erp
from operations import clients
from operations.errors import (
    ErpRefused,
    ErpUnreachable,
    ErpUnreadable,
    LoginRefused,
    SessionEnded,
)
from operations.models import Agent
from tests.operations.factories import order

pytestmark = pytest.mark.django_db


@pytest.fixture
def client(erp: Erp, agent: Agent) -> Iterator[clients.Erp]:
    with clients.connect(agent) as found:
        found.login("secret")
        yield found


def body() -> dict[str, Any]:
    items = [{"articleCode": "A-001", "quantity": "2", "price": "3"}]
    return {**order(), "items": items, "discountPercent": "0"}


def test_a_write_is_found_by_its_reference_and_read_back(client: clients.Erp) -> None:
    assert client.find("r-1") is None
    id = client.write("submit-order", "r-1", body())
    assert client.find("r-1") == clients.Found(id)
    seen = client.read("orders", id)
    assert seen is not None and seen["total"] == "6.00"
    assert client.read("orders", "none") is None


def test_a_reference_is_used_once(client: clients.Erp) -> None:
    client.write("submit-order", "r-1", body())
    with pytest.raises(ErpUnreadable, match="status_409"):
        client.write("submit-order", "r-1", body())


def test_a_newer_login_ends_the_session(client: clients.Erp, agent: Agent) -> None:
    with clients.connect(agent) as newer:
        newer.login("secret")
        with pytest.raises(SessionEnded):
            client.write("submit-order", "r-1", body())
        assert newer.find("r-1") is None


def test_a_password_is_refused(erp: Erp, agent: Agent) -> None:
    with clients.connect(agent) as found:
        found.login("secret")
        with pytest.raises(LoginRefused):
            found.login("wrong")


@pytest.mark.parametrize(
    ("fault", "error", "is_saved"),
    [
        ("drop_after_save", ErpUnreachable, True),
        ("drop_before_save", ErpUnreachable, False),
        ("500", ErpUnreachable, False),
        ("500_after_save", ErpUnreachable, True),
        ("garbage", ErpUnreadable, False),
        ("garbage_after_save", ErpUnreadable, True),
        ("no_id", ErpUnreadable, True),
        ("redirect", ErpUnreadable, False),
    ],
)
def test_an_answer_that_proves_nothing_is_no_refusal(
    client: clients.Erp, erp: Erp, fault: str, error: type[Exception], is_saved: bool
) -> None:
    erp.script("ada", fault)
    with pytest.raises(error):
        client.write("submit-order", "r-1", body())
    assert (client.find("r-1") is not None) == is_saved


def test_only_documented_codes_are_refusals(client: clients.Erp) -> None:
    with pytest.raises(ErpRefused) as refused:
        client.write("submit-order", "r-1", {**body(), "customerId": "X"})
    assert (refused.value.code, str(refused.value)) == ("unknown_customer", "unknown_customer")


@pytest.mark.parametrize(
    ("id", "code"),
    [("", "no_id"), ("a\x00", "no_id"), ("1" * 81, "no_id"), (4711, "no_id"),
     ("\ud800", "unreadable_answer")],
)  # fmt: skip
def test_a_number_that_cannot_be_stored_is_none(
    client: clients.Erp, erp: Erp, monkeypatch: pytest.MonkeyPatch, id: Any, code: str
) -> None:
    monkeypatch.setattr(erp.book, "find", lambda reference: {"found": True, "id": id})
    with pytest.raises(ErpUnreadable, match=code):
        client.find("r-1")


def test_a_document_is_a_pdf(client: clients.Erp, erp: Erp) -> None:
    id = client.write("submit-order", "r-1", body())
    assert client.document("ddt", id, f"D-{id}") == PDF
    erp.script("ada", "html_as_pdf")
    with pytest.raises(ErpUnreadable, match="not_a_pdf"):
        client.document("ddt", id, f"D-{id}")
    with pytest.raises(ErpRefused, match="unknown_document"):
        client.document("ddt", id, "D-0")


def test_an_export_is_streamed(client: clients.Erp) -> None:
    lines = b"".join(client.export("sync-customers")).splitlines()
    assert len(lines) == 32 and b"sha256" in lines[-1]


def test_an_erp_that_is_away_is_unreachable(agent: Agent, erp: Erp) -> None:
    erp.is_down = True
    with clients.connect(agent) as found, pytest.raises(ErpUnreachable, match="status_503"):
        found.login("secret")
