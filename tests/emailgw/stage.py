"""Does one thing in a process of a fleet, and prints JSON: ``people``, or ``feedback EVENTS``."""

from __future__ import annotations

import json
import sys
from typing import Any

import django


def people() -> dict[str, str]:
    """A company, the text of a key that may everything for it, and a viewer's session."""
    from django.contrib.auth.models import Permission, User
    from django.test import Client

    from jobs.operate import apikeys
    from jobs.principals import every_permission
    from tests.emailgw import factories

    company = factories.company("Acme")
    told = apikeys.create(
        "shop", [p for p in every_permission() if "reveal" not in p], by="tests", reason="a test",
        tenants=[str(company.pk)],
    )  # fmt: skip
    viewer = User.objects.create_user("viewer", is_staff=True)
    seen = Permission.objects.filter(content_type__app_label__in=["jobs", "emailgw"])
    hidden = Permission.objects.filter(codename__in=["view_payload"]) | seen.filter(
        codename__contains="reveal"
    )
    viewer.user_permissions.set(seen.exclude(pk__in=hidden))
    client = Client()
    client.force_login(viewer)
    return {
        "company": str(company.pk), "key": told.text, "session": client.cookies["sessionid"].value,
    }  # fmt: skip


def feedback(events: list[dict[str, Any]]) -> dict[str, str]:
    """Providers tell of mail, as anymail has understood them."""
    from anymail.signals import AnymailTrackingEvent, tracking

    for given in events:
        event = AnymailTrackingEvent(
            event_type=given["type"], event_id=given["id"], recipient=given["recipient"],
            metadata={"outbox_id": given["outbox"]}, description=given["description"],
            mta_response=given["answer"], message_id=given["id"],
        )  # fmt: skip
        tracking.send(sender="test", event=event, esp_name="Amazon SES")
    return {}


if __name__ == "__main__":
    django.setup()
    what: Any = {"people": people, "feedback": feedback}[sys.argv[1]]
    sys.stdout.write(json.dumps(what(*map(json.loads, sys.argv[2:]))))
