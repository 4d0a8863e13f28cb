"""Companies and emails in every state, for the pages that show them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import connections

from emailgw import services, suppressions
from emailgw.models import EmailEvent, EmailLog, OutboxEmail, Suppression
from jobs.testing import freeze_clock, run_jobs
from tests.emailgw import factories
from tests.emailgw.sink import Sink

HTML = (
    "<h1>Your invoice of November</h1><p>Dear customer,</p><p>please pay <b>R$ 129,90</b> until "
    "the end of the month. <a href='https://pay.acme.test/'>Pay now</a></p>"
)


def answers(step: str, address: str, times: int) -> str | None:
    """What the server says to whom."""
    if step == "RCPT" and address.startswith("gone"):
        return "550 5.1.1 <gone@customers.test> no such mailbox here"
    if step == "END" and address.startswith("later"):
        return "451 4.7.1 greylisted, come back later"
    if step == "END" and address.startswith("doubt"):
        return "take and hang up"
    return None


def fill(sink: Sink) -> dict[str, Any]:
    """Ids of what the pages are about."""
    sink.script = answers
    acme = factories.company("Acme Indústria e Comércio Ltda")
    factories.company("Padaria do Bairro", is_suspended=True)
    made: dict[str, Any] = {}
    with freeze_clock() as clock:
        for number, name in enumerate(("sent", "gone", "doubt", "later", "ana", "rui")):
            asked = factories.request(
                to=f"{name}@customers.test", html=HTML, tags=["invoice", "november"][: number + 1],
                cc=["copy@customers.test"], externalId=f"order-{number}",
            )  # fmt: skip
            made[name] = services.accept(acme, asked, by="shop").outbox_id
        for _ in range(2):
            run_jobs()
            clock.tick(3)
        expired = services.accept(acme, factories.request(to="old@x.test"), by="shop", ttl=1000)
        services.accept(acme, factories.request(to="soon@x.test"), by="shop", delay=3_600_000)
        clock.tick(2)
        run_jobs()
    row = OutboxEmail.objects.get(pk=made["sent"])
    for kind, detail in (
        ("ACCEPTED", {"messageId": "0100-made-up"}),
        ("DELIVERED", {"recipient": "s***@c***.test", "answer": "250 2.0.0 OK"}),
    ):
        EmailEvent.objects.create(
            outbox=row, type=kind, source="Amazon SES", detail=detail,
            provider_event_id=f"{kind}-{row.pk}",
        )  # fmt: skip
    EmailLog.objects.filter(outbox=row).update(delivered_at=row.processed_at)
    services.add_suppression(acme.pk, "bob@customers.test", by="tests", reason="asked on the phone")
    entry = suppressions.suppress(
        acme.pk, "gone@customers.test", Suppression.Reason.HARD_BOUNCE, by="provider"
    )
    suppressions.suppress(
        None, "postmaster@everywhere.test", Suppression.Reason.SOFT_BOUNCE, by="provider",
        until=row.enqueued_at + timedelta(days=3),
    )  # fmt: skip
    connections.close_all()
    return {**made, "company": acme.pk, "entry": entry.pk, "expired": expired.outbox_id}


def screens(ids: dict[str, Any]) -> dict[str, str]:
    """Addresses below the admin, by name."""
    email = "emailgw/outboxemail"
    return {
        "emails": f"{email}/",
        "emails-narrowed": f"{email}/?status=SENT&company={ids['company']}&from=2020-01-01",
        "emails-none": f"{email}/?tag=nothing",
        "emails-find": f"{email}/do/find/",
        "email-sent": f"{email}/{ids['sent']}/change/",
        "email-failed": f"{email}/{ids['gone']}/change/",
        "email-doubt": f"{email}/{ids['doubt']}/change/",
        "email-later": f"{email}/{ids['later']}/change/",
        "email-resend": f"{email}/{ids['gone']}/do/resend/",
        "email-reveal": f"{email}/{ids['sent']}/do/reveal/",
        "companies": "emailgw/company/",
        "company": f"emailgw/company/{ids['company']}/change/",
        "company-suspend": f"emailgw/company/{ids['company']}/do/suspend/",
        "suppressions": "emailgw/suppression/",
        "suppression": f"emailgw/suppression/{ids['entry']}/change/",
        "suppression-new": "emailgw/suppression/do/add/",
        "job-of-email": f"jobs/job/{ids['sent']}/change/",
    }


NAMES = list(screens(dict.fromkeys(("company", "sent", "gone", "doubt", "later", "entry"), "")))
"""Every screen."""
DIFFERING = {"emails", "email-sent", "email-resend", "company", "suppression"}
"""One of each kind: enough where only the theme or the version of Django is another."""
