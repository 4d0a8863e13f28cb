"""Agents and operations in every state, for the pages that show them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import connections

import jobs
from config.standins.erp.server import Erp
from jobs.testing import freeze_clock, run_jobs
from operations import states, verbs
from operations.clock import now
from operations.models import Agent, Customer, Phase
from tests.operations.factories import agent, ask, order

QUEUES = ["erp-write", "erp-read"]


def fill(erp: Erp) -> dict[str, Any]:
    """Ids of what the pages are about."""
    for key in ("ada", "bruno", "carla", "service-account"):
        agent(key)
    Agent.objects.filter(key__in=["ada", "bruno"]).update(last_seen_at=now() - timedelta(minutes=7))
    made: dict[str, Any] = {}
    with freeze_clock() as clock:

        def settle(rounds: int = 2) -> None:
            for _ in range(rounds):
                run_jobs(QUEUES)
                clock.tick(61)

        made["done"] = ask("submit-order", order("P-2026-0411")).pk
        settle()
        made["read"] = ask("download-ddt-pdf", {"orderId": "4711", "ddtNumber": "D-4711"}).pk
        settle(1)
        erp.script("ada", "wrong_total")
        made["mismatch"] = ask("submit-order", order("P-2026-0412")).pk
        settle()
        made["failed"] = ask("submit-order", order("P-2026-0413", customerId="C-9999")).pk
        settle()
        erp.can_search = False
        erp.script("ada", "drop_after_save")
        made["doubt"] = ask("submit-order", order("P-2026-0414")).pk
        jobs.flow.edit(made["doubt"], max_attempts=1, by="tests", reason="a test")
        settle()
        for one in erp.book.data["orders"].values():
            one.pop("reference")  # otherwise a sync would decide
        erp.script("ada", "drop_before_save")
        made["lost"] = ask("submit-order", order("P-2026-0415")).pk
        jobs.flow.edit(made["lost"], max_attempts=1, by="tests", reason="a test")
        settle()
        verbs.sync_now("ada", "sync-customers", by="ada")
        run_jobs(["erp-sync"])
        erp.script("ada", "bad_row")
        made["rejected"] = verbs.sync_now("ada", "sync-customers", by="ada")
        run_jobs(["erp-sync"])
        erp.script("ada", "empty")
        made["held"] = verbs.sync_now("ada", "sync-customers", by="ada")
        run_jobs(["erp-sync"])
        erp.script("ada", "truncated")
        made["truncated"] = verbs.sync_now("ada", "sync-orders", by="ada")
        run_jobs(["erp-sync"])
        erp.book.data["passwords"]["carla"] = "another"
        ask("submit-order", order("P-2026-0001"), agent="carla")
        settle(1)
    made["running"] = ask("submit-order", order("P-2026-0100"), agent="bruno").pk
    states.operation.move(made["running"], Phase.IN_PROGRESS, by="worker", started_at=now())
    made["queued"] = ask("delete-order", {"orderId": "4710"}, agent="bruno").pk
    ask("sync-orders", {}, agent="bruno")
    verbs.pause("bruno", by="office", reason="on holiday until Monday")
    verbs.cancel(
        ask("send-to-verona", {"orderId": "4709"}, agent="bruno").pk, by="bruno",
        reason="the customer called",
    )  # fmt: skip
    made["customer"] = str(Customer.objects.earliest("key").pk)
    connections.close_all()
    return made


def screens(ids: dict[str, Any]) -> dict[str, str]:
    """Addresses below the admin, by name."""
    operation, agent, run = "operations/operation", "operations/agent", "operations/syncrun"
    return {
        "index": "operations/",
        "operations": f"{operation}/",
        "operations-doubts": f"{operation}/?state=in_doubt",
        "operation-done": f"{operation}/{ids['done']}/change/",
        "operation-doubt": f"{operation}/{ids['doubt']}/change/",
        "operation-mismatch": f"{operation}/{ids['mismatch']}/change/",
        "operation-failed": f"{operation}/{ids['failed']}/change/",
        "operation-queued": f"{operation}/{ids['queued']}/change/",
        "operation-cancel": f"{operation}/{ids['queued']}/do/cancel/",
        "operation-saved": f"{operation}/{ids['doubt']}/do/saved/",
        "operation-not-saved": f"{operation}/{ids['doubt']}/do/not-saved/",
        "operation-stop-type": f"{operation}/do/stop-type/",
        "operation-accept": f"{operation}/{ids['mismatch']}/do/accept/",
        "agents": f"{agent}/",
        "agent": f"{agent}/ada/change/",
        "agent-paused": f"{agent}/bruno/change/",
        "agent-refused": f"{agent}/carla/change/",
        "agent-new": f"{agent}/do/create/",
        "agent-choose-client": f"{agent}/ada/do/choose-client/",
        "agent-link-user": f"{agent}/ada/do/link-user/",
        "agent-sync": f"{agent}/ada/do/sync-now/",
        "agent-login": f"{agent}/carla/do/change-login/",
        "runs": f"{run}/",
        "run-held": f"{run}/{ids['held']}/change/",
        "run-rejected": f"{run}/{ids['rejected']}/change/",
        "run-allow": f"{run}/{ids['held']}/do/allow/",
        "documents": "operations/document/",
        "document": f"operations/document/{ids['read']}/change/",
        "customers": "operations/customer/",
        "customer": f"operations/customer/{ids['customer']}/change/",
        "job-of-operation": f"jobs/job/{ids['done']}/change/",
    }


KEYS = (
    "done", "doubt", "mismatch", "failed", "queued", "held", "rejected", "read", "customer",
)  # fmt: skip
NAMES = list(screens(dict.fromkeys(KEYS, "")))
"""Every screen."""
DIFFERING = {"operations", "operation-doubt", "operation-saved", "agents", "run-held"}
"""One of each kind: enough where only the theme or the version of Django is another."""
