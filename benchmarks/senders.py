"""Companies that hand emails in: ``python -m benchmarks.senders keys|backlog COUNT``.

A process of its own, because this one knows the gateway, whose limits other workloads must not
meet. ``keys`` prints companies and the text of an API key of each, ``backlog`` leaves so many
emails of twenty companies to be sent.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import django

COMPANIES = 20
LIMIT = 1_000_000
HTML = "<h1>Your invoice</h1><p>Dear customer,</p>" + "<p>" + "Pay it <b>soon</b>. " * 60 + "</p>"
"""1.3 kB, as an invoice may have."""


def email(number: int) -> dict[str, Any]:
    """A request that nobody could object to."""
    return {
        "to": f"customer-{number}@customers.test",
        "subject": f"Your invoice {number}",
        "html": HTML,
        "tags": ["invoice"],
        "recipient": {
            "externalId": f"CUST-{number}", "cpfCnpj": "529.982.247-25", "nome": "Ana Souza",
        },
    }  # fmt: skip


def companies(count: int) -> list[Any]:
    """So many companies that may send as much as they like."""
    from emailgw.models import Company

    return [
        Company.objects.create(
            name=f"Company {n}", default_from="billing@acme.test", from_domains=["acme.test"],
            per_minute=LIMIT, per_hour=LIMIT, per_day=LIMIT,
        )
        for n in range(count)
    ]  # fmt: skip


def keys(count: int) -> list[list[str]]:
    """The ids of new companies, each with the text of its key."""
    from jobs.operate import apikeys

    return [
        [
            str(company.pk),
            apikeys.create(
                f"key {company.name}", ["enqueue_job"], by="ada", reason="to be measured",
                tenants=[str(company.pk)],
            ).text,
        ]
        for company in companies(count)
    ]  # fmt: skip


def backlog(count: int) -> list[list[str]]:
    """So many emails wait, of companies in turn."""
    from emailgw import services

    senders = companies(COMPANIES)
    for begin in range(0, count, 1000):
        share = range(begin, min(count, begin + 1000))
        for n, company in enumerate(senders):
            mine = [email(number) for number in share[n::COMPANIES]]
            if mine:
                services.accept_many(company, mine, by="shop")
    return []


if __name__ == "__main__":
    django.setup()
    made = {"keys": keys, "backlog": backlog}[sys.argv[1]](int(sys.argv[2]))
    sys.stdout.write(json.dumps(made))
