"""What must be so after the blocks of a document have run, given the names that they have made."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

from django.conf import settings
from django.core import mail
from django.test import override_settings
from django.utils import timezone

import jobs
from jobs import testing
from publisher import services
from publisher.content import Content
from publisher.models import Account
from tests.publisher.plugging import distribution, plugged

Names = dict[str, Any]


class Blog(BaseHTTPRequestHandler):
    """The other side: it stores what is posted, and returns it by its tag."""

    stored: ClassVar[list[dict[str, Any]]] = []

    def do_POST(self) -> None:
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.stored.append({"id": len(self.stored) + 1, **sent})
        self._return(self.stored[-1])

    def do_GET(self) -> None:
        tag = self.path.partition("tag=")[2]
        self._return([post for post in self.stored if post.get("tag") == tag])

    def log_message(self, format: str, *arguments: Any) -> None:
        pass

    def _return(self, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def blog() -> Iterator[str]:
    """Serve the blog; its URL."""
    with HTTPServer(("127.0.0.1", 0), Blog) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        allowed = {**settings.JOBS, "HTTP_ALLOW": ["127.0.0.0/8"]}
        with override_settings(JOBS=allowed):
            yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def effects(names: Names) -> None:
    with blog() as url:
        names["POSTS"] = url
        jobs.enqueue(names["SendMail"](to="ada@example.com", subject="Your order"))
        first = jobs.enqueue(names["Publish"](text="hello"))
        jobs.enqueue(names["Announce"](text="again"))
        assert testing.run_jobs().succeeded == 3
    assert [one.subject for one in mail.outbox] == ["Your order"]
    assert [post["text"] for post in Blog.stored] == ["hello", "again"]
    assert jobs.get(first.id).result == Blog.stored[0]


def events(names: Names) -> None:
    jobs.enqueue(names["ImportOrders"](companies=["acme", "globex"]))
    names["pay_all"](names["Order"].objects.all())
    assert len(testing.emitted("order.paid")) == 2  # by the test of the page, and by pay_all
    assert testing.run_jobs().succeeded == 3  # the import, and a notification of each payment
    assert len(testing.emitted("import.stored")) == 2


def flow_control(names: Names) -> None:
    with testing.freeze_clock() as clock:
        for _ in range(20):
            testing.run_jobs()
            clock.tick(1)
    assert names["flow"].batch_progress(names["batch"].id).state == "done"
    assert {job.state for job in testing.enqueued(names["Summarise"])} == {"succeeded"}


def http(names: Names) -> None:
    with blog() as url:
        names["API"] = url
        assert names["rates"]() == []
        names["send"]([{"number": 1}], "key")
        jobs.enqueue(names["PlaceOrder"](number=2))
        assert testing.run_jobs().succeeded == 1
        assert names["deliver"](url, b"{}").status_code == 200
    assert [one.get("number") for one in Blog.stored] == [1, 2, None]


def machines(names: Names) -> None:
    plan, plans = names["plan"], names["plans"]
    plans.move(plan, "published", by="ada")
    assert names["Move"].objects.get().status == "published"
    assert set(names["Plan"].objects.values_list("status", flat=True)) == {"published"}


def privacy(names: Names) -> None:
    testing.check_handler(names["RegisterCustomer"](customer_id=1, cpf="529.982.247-25"))
    greeted = jobs.enqueue(names["GreetCustomer"](customer_id=1, name="Sent"))
    testing.run_jobs()
    assert jobs.get(greeted.id).result == {"status": "sent"}
    [event] = testing.emitted("crm.greeted")
    assert event.payload == {"customer": 1, "status": "sent"}
    recipient = names["Recipient"]
    assert recipient.check() == []
    made = recipient.objects.create(company="acme", cpf="529.982.247-25")
    assert list(names["recipient_of"]("acme", "52998224725")) == [made]
    assert not names["recipient_of"]("other", "52998224725")


def publisher(names: Names) -> None:
    """The connector of the page is registered as that of an installed distribution, and used."""
    with blog() as url, TemporaryDirectory() as folder:
        distribution(Path(folder), {"pager": "shop.pager:Pager"})
        with plugged(Path(folder)) as found:
            assert not found.problems
            brand = services.create_brand("acme", "Acme")
            account = Account.objects.create(
                brand=brand, tenant=brand.tenant, channel="pager", name="Ours", base_url=url,
                remote_account="7", token="t",
            )  # fmt: skip
            made = services.enqueue(account, Content(caption="hello pager"))
            assert testing.run_jobs(["publisher"]).succeeded == 1
    assert Blog.stored[-1]["text"] == "hello pager"
    assert Blog.stored[-1]["tag"] == str(made.row.pk)


def retention(names: Names) -> None:
    parcels = names["Parcel"].objects
    for days in (1, 91, 92, 93):
        parcels.create(arrived_at=timezone.now() - timedelta(days=days))
    assert list(names["old_parcels"](True, 2)) == [{"parcels": 3}]
    assert list(names["old_parcels"](False, 2)) == [{"parcels": 2}, {"parcels": 1}]
    assert parcels.count() == 1


def verbs(names: Names) -> None:
    names["ShopConfig"]("shop", import_module("shop")).ready()
    parcel = names["Parcel"].objects.create(shop="acme", carrier="van")
    names["post"](parcel.pk, by="nightly", reason="late")
    parcel.refresh_from_db()
    assert parcel.carrier == "bike"


def writing_jobs(names: Names) -> None:
    assert names["SendInvoice"].from_text('{"id": 7, "number": 7}', 1).number == "7"
    names["Receipt"].objects.create(month="2026-05")
    closing = jobs.enqueue(names["CloseMonth"](month="2026-05"))
    testing.run_jobs()
    assert jobs.get(closing.id).state == "succeeded"
    assert names["Statement"].objects.get().receipts == 1


OF: dict[str, Callable[[Names], None]] = {
    "docs/effects.md": effects,
    "docs/events.md": events,
    "docs/flow-control.md": flow_control,
    "docs/http.md": http,
    "docs/machines.md": machines,
    "docs/privacy.md": privacy,
    "docs/publisher.md": publisher,
    "docs/retention.md": retention,
    "docs/verbs.md": verbs,
    "docs/writing-jobs.md": writing_jobs,
}
