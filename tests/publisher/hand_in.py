"""Hands posts in, or opens what is closed, in a process of a fleet, as one JSON line says."""

from __future__ import annotations

import json
import sys
from datetime import time
from typing import Any

import django


def hand_in(wanted: dict[str, Any]) -> list[list[Any]]:
    """The ids of new posts; the brands take turns."""
    from jobs import flow
    from publisher import services
    from tests.publisher import factories

    first = wanted["first"]
    brands = [
        factories.accounts(services.create_brand(f"b{n}", f"B{n}"), wanted["url"], f"-{n}")
        for n in range(first, first + wanted["brands"])
    ]
    for number in wanted["closed"]:
        midnight = time(0)
        flow.create_blackout(f"tenant:brand:b{number}", midnight, midnight, by="t", reason="t")
    made = []
    for number, name in enumerate(wanted["channels"], first):
        of = number % len(brands)
        post = factories.unique(name, number, wanted["sizes"].get(name, 300_000))
        account = brands[of][name.partition(" ")[0]]
        row = services.enqueue(account, post, idempotency_key=f"k{number}").row
        made.append([str(row.pk), name, factories.mark_of(number), of])
    return made


def reopen() -> list[list[Any]]:
    """End every blackout."""
    from jobs import flow
    from jobs.models import Blackout

    for row in Blackout.objects.filter(enabled=True):
        flow.delete_blackout(row.pk, by="t", reason="t")
    return []


if __name__ == "__main__":
    django.setup()
    wanted = json.loads(sys.argv[1])
    sys.stdout.write(json.dumps(hand_in(wanted) if wanted else reopen()))
