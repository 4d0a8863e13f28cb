"""A fleet whose workers call the ERP, and what its rows and the ERP's log tell afterwards."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from config import workers
from config.standins.erp.server import Erp
from tests.integration.fleet import CHECKOUT, Fleet, Program
from tests.operations.factories import order
from tests.wait import wait_until

TABLES = "operations_agent, operations_operation, jobs_breaker, jobs_pause"
OURS, SYNCS = "erp-write,erp-read", "erp-sync"
STEADY = {"LEASE": 20.0, "HEARTBEAT": 1.0, "DRAIN": 5.0}
"""No busy machine takes a lease from a worker that lives; faults are scripted for one attempt."""
PATIENCE = 120.0
"""Seconds to wait for what must come true; what is promised of its duration is asserted apart."""
Wanted = tuple[str, str, Any]


class Stage:
    """A process that enqueues and stops operations, for all tests on the same servers."""

    def __init__(self, servers: Fleet) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.operations.stage"], cwd=CHECKOUT, text=True,
            env=servers._environment({}, {"FLEET_APPS": "operations"}), stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )  # fmt: skip

    def tell(self, request: dict[str, Any]) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def end(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()


class Office:
    """A fleet with an ERP."""

    def __init__(self, fleet: Fleet, stage: Stage, folder: Path) -> None:
        self.fleet, self.stage, self.folder = fleet, stage, folder
        self.erp, self.client = Erp(folder / "erp"), "http"
        self.jobs: dict[str, Any] = {
            **STEADY, "HTTP_ALLOW": ["127.0.0.0/8"],
            "BLOBS": {"STORE": "local", "ROOT": str(folder / "blobs")},
        }  # fmt: skip
        self.settings: dict[str, Any] = {
            "ERP_URL": self.erp.url, "EXPORTS": str(folder / "exports"), "CALL_TIMEOUT": 60,
        }  # fmt: skip

    @property
    def env(self) -> dict[str, str]:
        return {"FLEET_APPS": "operations", "FLEET_OPERATIONS": json.dumps(self.settings)}

    # ---- processes

    def dispatcher(self) -> Program:
        return self.fleet.dispatcher(env=self.env, jobs=self.jobs)

    def worker(self, queues: str = OURS, crash: str = "", concurrency: int = 4) -> Program:
        return self.fleet.worker(
            f"--concurrency={concurrency}", f"--queues={queues}",
            env={**self.env, "FLEET_CRASH": crash}, jobs=self.jobs,
        )  # fmt: skip

    def group(self, name: str, crash: str = "") -> Program:
        """A worker of one of the project's own groups."""
        return self.fleet.worker(
            f"--group={name}", env={**self.env, "FLEET_CRASH": crash},
            jobs={**self.jobs, "WORKERS": workers.OF_OPERATIONS},
        )  # fmt: skip

    def tell(self, request: dict[str, Any]) -> Any:
        """The answer of the process that enqueues and stops operations."""
        return self.stage.tell({**request, "jobs": self.jobs, "operations": self.settings})

    def ask(self, *wanted: Wanted) -> list[str]:
        """The ids of new operations: agent, type and data of each."""
        made = self.tell({"ask": wanted, "client": self.client})
        assert isinstance(made, list), made
        return made

    def do(self, verb: str, target: str, *given: Any, **options: Any) -> Any:
        """The answer to a verb."""
        return self.tell({"verb": verb, "target": target, "given": given, "options": options})

    def end(self) -> None:
        self.fleet.end_programs()
        self.erp.stop()

    # ---- rows

    def phase(self, id: str) -> str:
        found = self.fleet.value("SELECT phase FROM operations_operation WHERE id = %s", [id])
        return str(found)

    def told(self, id: str) -> tuple[str, str, str]:
        """The phase, the code of the error, and the reason of the job's end."""
        [found] = self.fleet.query(
            "SELECT o.phase, o.error_code, j.reason FROM operations_operation o "
            "JOIN jobs_job j USING (id) WHERE id = %s", [id],
        )  # fmt: skip
        return found[0], found[1], found[2]

    def await_phase(self, id: str, *phases: str) -> str:
        def reached() -> str:
            phase = self.phase(id)
            return phase if phase in phases else ""

        try:
            return wait_until(reached, PATIENCE, 0.05, f"{id} is {' or '.join(phases)}")
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.steps(id)}") from None

    def seconds(self, id: str, since: str, until: str) -> float:
        """How long it took from one moment of its job to another, which no other process delays."""
        between = f"SELECT extract(epoch FROM {until} - {since}) FROM jobs_job WHERE id = %s"  # noqa: S608
        return float(self.fleet.value(between, [id]))

    def steps(self, id: str) -> list[tuple[str, str]]:
        return self.fleet.query(
            "SELECT phase, why FROM operations_step WHERE operation_id = %s ORDER BY id", [id]
        )

    def job(self, id: str, *names: str) -> tuple[Any, ...]:
        columns = ", ".join(names)
        return self.fleet.query(f"SELECT {columns} FROM jobs_job WHERE id = %s", [id])[0]  # noqa: S608

    def await_call(self, what: str, count: int = 1) -> None:
        """The ERP has begun to serve so many calls of a kind."""
        wait_until(
            lambda: sum(c["what"] == what and c["step"] == "begin" for c in self.erp.book.log)
            >= count,
            PATIENCE, message=f"{what} is called",
        )  # fmt: skip

    def seconds_of(self, agents: list[str], each: int) -> float:
        """How long orders of these agents take, which need half a second each."""
        for agent in agents:
            self.erp.script(agent, *["slow_write"] * each)
        ids = self.ask(
            *((a, "submit-order", order(f"{a}-{n}")) for n in range(each) for a in agents)
        )
        for id in ids:
            self.await_phase(id, "completed")
        return float(
            self.fleet.value(
                "SELECT extract(epoch FROM max(ended_at) - min(started_at)) "
                "FROM operations_operation WHERE id = ANY(%s::uuid[])", [ids],
            )
        )  # fmt: skip

    # ---- the ERP

    @property
    def orders(self) -> int:
        return len(self.erp.book.data["orders"])

    def is_saved(self, id: str) -> bool:
        return id in self.erp.book.data["references"]

    def refused(self) -> int:
        return sum(call["step"] == "refused" for call in self.erp.book.log)

    def overlaps(self) -> list[tuple[str, str, str]]:
        return overlaps(self.erp.book.log)

    def files(self) -> list[str]:
        """The exports that are left."""
        folder = self.folder / "exports"
        return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def overlaps(log: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    """The accepted calls of an agent that began before another one of that agent had ended."""
    by_agent: dict[str, list[dict[str, Any]]] = {}
    for call in log:
        if call["step"] != "refused":
            by_agent.setdefault(call["agent"], []).append(call)
    return [
        (agent, one["what"], two["what"])
        for agent, calls in by_agent.items()
        for one, two in pairwise(calls)
        if one["step"] == two["step"] == "begin"
    ]


@contextmanager
def opened(fleet: Fleet, stage: Stage, folder: Path) -> Iterator[Office]:
    """An office without agents; nothing of it is left."""
    fleet.query(f"TRUNCATE {TABLES} CASCADE")
    found = Office(fleet, stage, folder)
    found.erp.start()
    try:
        yield found
    finally:
        found.end()
