"""The contract of a client of the ERP, against the stand-in, for both clients."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from config.standins.erp.server import PDF, Erp
from operations import clients
from operations.clients import chromium
from operations.errors import (
    ErpRefused,
    ErpUnreachable,
    ErpUnreadable,
    LoginRefused,
    SessionEnded,
)
from operations.models import Agent, ClientKind, Customer
from operations.sync import ExportInvalid
from operations.sync.exports import read, save
from tests.http.servers import PEM
from tests.operations.factories import order

pytestmark = pytest.mark.django_db
BROWSER = pytest.param(ClientKind.BROWSER, marks=pytest.mark.slow)


@pytest.fixture(scope="module", autouse=True)
def no_browser_is_left() -> Iterator[None]:
    yield
    chromium.close()


@pytest.fixture(params=[ClientKind.HTTP, BROWSER])
def agent(request: pytest.FixtureRequest, agent: Agent, settings: Any) -> Agent:
    """An agent who works by JSON, and one who works by pages."""
    agent.client = request.param
    agent.save()
    if agent.client == ClientKind.BROWSER:
        settings.OPERATIONS = {**settings.OPERATIONS, "CALL_TIMEOUT": 15}
    return agent


@pytest.fixture
def client(erp: Erp, agent: Agent) -> Iterator[clients.Client]:
    with clients.connect(agent) as found:
        found.login("secret")
        yield found


def body() -> dict[str, Any]:
    items = [{"articleCode": "A-001", "quantity": "2", "price": "3"}]
    return {**order(), "items": items, "discountPercent": "0"}


def test_a_write_is_found_by_its_reference_and_read_back(client: clients.Client) -> None:
    assert client.find("r-1") is None
    id = client.write("submit-order", "r-1", body())
    assert client.find("r-1") == clients.Found(id)
    seen = client.read("orders", id)
    assert seen is not None
    line = {"articleCode": "A-001", "quantity": "2", "lineAmount": "6.00"}
    assert (seen["id"], seen["total"], seen["lines"]) == (id, "6.00", [line])
    assert client.read("orders", "none") is None


def test_every_write_is_made(client: clients.Client, erp: Erp) -> None:
    id = client.write("submit-order", "r-1", body())
    seen = client.read("orders", id)
    assert seen is not None and seen["version"] == 1
    line = {"articleCode": "A-002", "quantity": "1", "unitPrice": "5", "discountPercent": "0"}
    edit = {"orderId": id, "version": seen["version"], "updatedItems": [line]}
    assert client.write("edit-order", "r-2", edit) == id
    with pytest.raises(ErpRefused, match="conflict"):
        client.write("edit-order", "r-3", edit)
    assert client.write("send-to-verona", "r-4", {"orderId": id}) == id
    with pytest.raises(ErpRefused, match="order_closed"):
        client.write("delete-order", "r-5", {"orderId": id})
    odd = 'Añé & "Söhne" <b>'
    made = client.write("create-customer", "r-6", {"name": odd, "vatNumber": "IT1"})
    shown = client.read("customers", made)
    assert shown is not None and shown["name"] == odd
    change = {"customerProfile": made, "name": odd, "street": "Via 2"}
    assert client.write("update-customer", "r-7", change) == made
    assert erp.book.data["customers"][made]["street"] == "Via 2"


def test_a_reference_is_used_once(client: clients.Client) -> None:
    client.write("submit-order", "r-1", body())
    with pytest.raises(ErpUnreadable, match="status_409"):
        client.write("submit-order", "r-1", body())


def test_a_newer_login_ends_the_session(client: clients.Client, agent: Agent) -> None:
    with clients.connect(agent) as newer:
        newer.login("secret")
        with pytest.raises(SessionEnded):
            client.write("submit-order", "r-1", body())
        assert newer.find("r-1") is None


def test_a_session_that_ends_is_renewed(client: clients.Client, erp: Erp) -> None:
    erp.script("ada", "expire_session")
    with pytest.raises(SessionEnded):
        client.read("orders", "4711")
    client.login("secret")
    assert client.read("orders", "4711") is None


def test_a_password_is_refused(erp: Erp, agent: Agent) -> None:
    with clients.connect(agent) as found:
        found.login("secret")
        with pytest.raises(LoginRefused):
            found.login("wrong")


def test_a_login_may_take_its_time_but_not_hang(erp: Erp, agent: Agent) -> None:
    erp.slow = 0.3
    erp.script("ada", "slow_login")
    with clients.connect(agent) as found:
        found.login("secret")
        assert found.find("r-1") is None
    erp.script("ada", "hang_login")
    with clients.connect(agent, 1) as found, pytest.raises(ErpUnreachable):
        found.login("secret")


def test_nothing_is_sent_to_who_cannot_prove_to_be_the_erp(
    tmp_path: Path, erp: Erp, agent: Agent, settings: Any
) -> None:
    impostor = Erp(tmp_path / "impostor", certificate=PEM)
    impostor.start()
    settings.OPERATIONS = {**settings.OPERATIONS, "ERP_URL": impostor.url}
    try:
        with clients.connect(agent) as found, pytest.raises(ErpUnreachable):
            found.login("secret")
        assert impostor.calls == {} and dict(impostor.attempts) == {}
    finally:
        impostor.stop()


@pytest.mark.parametrize(
    ("fault", "error", "is_saved"),
    [
        ("500", ErpUnreachable, False),
        ("500_after_save", ErpUnreachable, True),
        ("garbage", ErpUnreadable, False),
        ("garbage_after_save", ErpUnreadable, True),
        ("no_id", ErpUnreadable, True),
        ("redirect", ErpUnreadable, False),
    ],
)
def test_an_answer_that_proves_nothing_is_no_refusal(
    client: clients.Client, erp: Erp, fault: str, error: type[Exception], is_saved: bool
) -> None:
    erp.script("ada", fault)
    with pytest.raises(error):
        client.write("submit-order", "r-1", body())
    assert (client.find("r-1") is not None) == is_saved


@pytest.mark.parametrize("fault", ["drop_after_save", "drop_before_save"])
def test_a_line_that_is_cut_leaves_one_write_or_none(
    client: clients.Client, agent: Agent, erp: Erp, fault: str
) -> None:
    """Chromium may send a form again by itself; the ERP refuses it by its reference."""
    made = ""
    erp.script("ada", fault)
    with suppress(ErpUnreachable, ErpUnreadable):
        made = client.write("submit-order", "r-1", body())
    found = client.find("r-1")
    assert len(erp.book.data["orders"]) == (found is not None)
    if made:
        assert agent.client == ClientKind.BROWSER and found == clients.Found(made)
    elif agent.client == ClientKind.HTTP:
        assert (found is not None) == (fault == "drop_after_save")


def test_only_documented_codes_are_refusals(client: clients.Client) -> None:
    with pytest.raises(ErpRefused) as refused:
        client.write("submit-order", "r-1", {**body(), "customerId": "X"})
    assert (refused.value.code, str(refused.value)) == ("unknown_customer", "unknown_customer")
    assert refused.value.words == "Refused: Via Segreta 1"


@pytest.mark.parametrize(
    ("id", "code"),
    [("", "no_id"), ("a\x7f", "no_id"), ("1" * 81, "no_id"), (4711, "no_id"),
     ("\ud800", "unreadable_answer")],
)  # fmt: skip
def test_a_number_that_cannot_be_stored_is_none(
    client: clients.Client, agent: Agent, erp: Erp, monkeypatch: pytest.MonkeyPatch, id: Any,
    code: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(erp.book, "find", lambda reference: {"found": True, "id": id})
    if agent.client == ClientKind.BROWSER and id in (4711, "\ud800"):
        return  # a page has text only, and no halves of characters
    with pytest.raises(ErpUnreadable, match=code):
        client.find("r-1")


def test_a_document_is_a_pdf(client: clients.Client, erp: Erp) -> None:
    id = client.write("submit-order", "r-1", body())
    assert client.document("ddt", id, f"D-{id}") == PDF
    erp.script("ada", "html_as_pdf")
    with pytest.raises(ErpUnreadable, match="not_a_pdf"):
        client.document("ddt", id, f"D-{id}")
    with pytest.raises(ErpRefused, match="unknown_document"):
        client.document("ddt", id, "D-0")


def test_an_export_is_streamed(client: clients.Client) -> None:
    lines = b"".join(client.export("sync-customers")).splitlines()
    assert len(lines) == 32 and b"sha256" in lines[-1]


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ("truncated", "export_truncated"),
        ("wrong_trailer", "export_wrong_trailer"),
        ("changed_columns", "export_columns_changed"),
    ],
)
def test_an_export_that_is_not_whole_is_not_used(
    client: clients.Client, erp: Erp, tmp_path: Path, fault: str, code: str
) -> None:
    erp.script("ada", fault)
    path = tmp_path / "customers.export"
    with pytest.raises(ExportInvalid, match=code):
        save(client.export("sync-customers"), path, time.time())
        list(read(path, Customer.columns, ()))
    assert path.exists() == (fault == "changed_columns")


def test_an_export_that_is_too_large_is_given_up(erp: Erp, agent: Agent) -> None:
    erp.script("ada", "one_line")  # of 2 MB
    with clients.connect(agent, limit=500_000) as found:
        found.login("secret")
        with pytest.raises(ErpUnreadable, match="export_too_large"):
            list(found.export("sync-customers"))


def test_an_erp_that_is_away_is_unreachable(agent: Agent, erp: Erp) -> None:
    erp.is_down = True
    with clients.connect(agent) as found, pytest.raises(ErpUnreachable, match="status_503"):
        found.login("secret")
