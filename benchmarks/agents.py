"""Agents of an ERP: ``python -m benchmarks.agents sync|rows|threads|backlog|memory COUNT``.

A process of its own, because this one knows the app. It prints JSON.
"""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import django

AGENTS = 60
SLOTS = 10


def order(number: int) -> dict[str, Any]:
    """An order that nobody could object to."""
    item = {"articleCode": "A-001", "quantity": "2", "price": "19.99"}
    return {
        "pendingOrderId": f"P-{number}", "customerId": "C-0001", "customerName": "Rossi",
        "items": [item], "discountPercent": "0",
    }  # fmt: skip


def agents(count: int) -> list[Any]:
    """So many agents, made unless they are there."""
    from operations.models import Agent

    return [
        Agent.objects.get_or_create(
            key=f"agent-{n}", defaults={"erp_login": f"agent-{n}", "password": "secret"}
        )[0]
        for n in range(count)
    ]


def _synced() -> float:
    """Seconds of one sync of the customers, from its enqueue to its end."""
    from jobs.testing import run_jobs
    from operations import verbs
    from operations.models import SyncRun

    began = time.perf_counter()
    made = verbs.sync_now("agent-0", "sync-customers", by="bench")
    run_jobs(["erp-sync"])
    took = time.perf_counter() - began
    assert SyncRun.objects.get(pk=made).outcome == "done"
    return took


def sync(count: int) -> dict[str, float]:
    """Sync that many customers, and sync again with nothing changed."""
    from operations.models import Customer

    agents(1)
    first, again = _synced(), _synced()
    assert Customer.objects.count() == count
    return {"first_s": first, "again_s": again}


def rows(count: int) -> dict[str, float]:
    """The same rows one by one, each looked for and inserted, without a download."""
    from operations import mirror
    from operations.models import Customer

    [agent] = agents(1)
    began = time.perf_counter()
    for n in range(count):
        values = {"customerProfile": f"C-{n:05}", "name": f"Customer {n}",
                  "vatNumber": f"IT{n:011}", "street": f"Via {n}", "postalCode": "37100",
                  "phone": f"+39 {n}", "email": f"c{n}@customers.test"}  # fmt: skip
        hashed = mirror.hash_of(agent.pk, values)
        Customer.objects.update_or_create(
            agent=agent, key=values["customerProfile"],
            defaults={"values": values, "row_hash": hashed, "deleted_at": None},
        )  # fmt: skip
    return {"first_s": time.perf_counter() - began}


def memory(count: int) -> dict[str, float]:
    """The most memory that this process has had, in which it synced."""
    agents(1)
    _synced()
    # Not ru_maxrss, which begins with that of the process that started this one.
    status = Path("/proc/self/status").read_text().splitlines()
    [peak] = [line.split()[1] for line in status if line.startswith("VmHWM:")]
    return {"peak_mb": int(peak) / 1024}


def backlog(count: int) -> dict[str, float]:
    """So many orders wait, of agents in turn."""
    from operations.services import accept

    known = agents(AGENTS)
    for number in range(count):
        agent = known[number % AGENTS].pk
        accept.enqueue("submit-order", order(number), by="bench", agent=agent)
    return {}


def threads(count: int) -> dict[str, float]:
    """The same calls by bare threads: log in, write, read back."""
    from operations import clients

    known = agents(AGENTS)

    def write(place: int) -> None:
        """Those of an agent come one after the other, as in the app."""
        for number in range(place, count, AGENTS):
            with clients.connect(known[place]) as erp:
                erp.login("secret")
                erp.read("orders", erp.write("submit-order", str(uuid4()), order(number)))

    began = time.perf_counter()
    with ThreadPoolExecutor(SLOTS) as pool:
        list(pool.map(write, range(AGENTS)))
    return {"rate": count / (time.perf_counter() - began)}


COMMANDS = {
    "sync": sync, "rows": rows, "threads": threads, "backlog": backlog, "memory": memory,
}  # fmt: skip

if __name__ == "__main__":
    django.setup()
    sys.stdout.write(json.dumps(COMMANDS[sys.argv[1]](int(sys.argv[2]))))
