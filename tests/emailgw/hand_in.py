"""Hands emails in, in a process of a fleet: one JSON line says how many of how many companies."""

from __future__ import annotations

import json
import sys

import django

if __name__ == "__main__":
    django.setup()
    from emailgw import services
    from tests.emailgw import factories

    wanted = json.loads(sys.argv[1])
    companies = [factories.company(f"c{n}") for n in range(wanted["companies"])]
    ids = []
    for number in range(wanted["emails"]):
        to = f"{wanted['names'][number % len(wanted['names'])]}{number}@x.test"
        asked = factories.request(to=to, recipient={"externalId": f"E{number}"})
        made = services.accept(companies[number % len(companies)], asked, by="test")
        ids.append(str(made.outbox_id))
    sys.stdout.write(json.dumps(ids))
