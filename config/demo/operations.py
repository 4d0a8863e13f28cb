"""Operations in the demo: an ERP on loopback, and what happens when it misbehaves."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from django.conf import settings
from django.test.utils import override_settings

import jobs
from config.standins.erp.server import Erp
from jobs import demo
from operations import payloads, verbs
from operations.clients import chromium
from operations.models import Agent, ClientKind, Operation, Phase, SyncRun
from operations.services import accept
from operations.table import OPERATIONS

SLOW = 4.0


class OperationAct(demo.Act):
    """Operations of an agent of its own, and how they are to end."""

    queues = ("erp-write", "erp-read", "erp-sync")
    agent: ClassVar[str]
    client: ClassVar[ClientKind] = ClientKind.HTTP
    faults: ClassVar[tuple[str, ...]] = ()
    _erp: ClassVar[Erp | None] = None
    _configured: ClassVar[override_settings | None] = None

    def prepare(self) -> Mapping[str, str]:
        if OperationAct._erp is not None:
            return {}
        OperationAct._erp = Erp(Path(tempfile.mkdtemp(prefix="demo-erp-")))
        OperationAct._erp.slow = SLOW
        OperationAct._erp.start()
        url = OperationAct._erp.url
        # Operations are enqueued here, in a process that has read its environment already.
        OperationAct._configured = override_settings(
            OPERATIONS={**settings.OPERATIONS, "ERP_URL": url}
        )
        OperationAct._configured.enable()
        return {"ERP_URL": url, "HTTP_ALLOW": "127.0.0.0/8"}

    @property
    def key(self) -> str:
        """Return the key of the agent of this showing."""
        return f"{self.agent}-{self.mark}".lower()

    def begin(self) -> None:
        Agent.objects.get_or_create(
            key=self.key,
            defaults={"erp_login": self.key, "password": "secret", "client": self.client},
        )
        if self._erp is not None:
            self._erp.script(self.key, *self.faults)
        self.start()

    def start(self) -> None:
        """Enqueue the operations."""
        self.ids = [self.order()]

    def order(self) -> Any:
        """Submit an order and return its id."""
        data = {
            "pendingOrderId": f"P-{self.mark}", "customerId": "C-0001", "customerName": "Rossi",
            "items": [{"articleCode": "A-001", "quantity": 3, "price": "19.99"}],
        }  # fmt: skip
        return self._accept("submit-order", data)

    def sync(self) -> Any:
        """Sync the customers and return the id of the operation."""
        return self._accept("sync-customers", {})

    def _accept(self, type: str, data: Any) -> Any:
        agent = Agent.objects.get(pk=self.key)
        return accept.accept(OPERATIONS[type], payloads.parse(type, data), agent, "demo").id

    def rows(self) -> list[Operation]:
        """Return its operations."""
        return [Operation.objects.get(pk=id) for id in self.ids]

    def orders(self) -> int:
        """Return how many orders of this act the ERP has."""
        found = self._erp.book.data["references"] if self._erp is not None else {}
        return sum(str(id) in found for id in self.ids)

    def leave(self) -> None:
        if OperationAct._erp is not None:
            OperationAct._erp.stop()
            OperationAct._erp = None


@demo.shown
class AnOrder(OperationAct):
    title = "an order in the ERP"
    agent = "ada"

    def verdict(self) -> demo.Verdict:
        [row] = self.rows()
        words = f"number {row.erp_id or 'unknown'}, once"
        return (row.phase, self.orders()) == (Phase.COMPLETED, 1), row.phase, words


class AnOrderByPages(AnOrder):
    """The same by the pages of the ERP."""

    title = "an order by the pages of the ERP"
    agent = "gil"
    client = ClientKind.BROWSER


if not chromium.problem():
    demo.shown(AnOrderByPages)


@demo.shown
class ALostAnswer(OperationAct):
    title = "an order whose answer is lost"
    agent = "bea"
    faults = ("drop_after_save",)

    def is_over(self) -> bool:
        return all(row.phase == Phase.COMPLETED for row in self.rows())

    def verdict(self) -> demo.Verdict:
        [row] = self.rows()
        words = f"found by its reference, {self.orders()} in the ERP"
        return (row.phase, self.orders()) == (Phase.COMPLETED, 1), row.phase, words


@demo.shown
class APreemptedSync(OperationAct):
    title = "an order during a sync"
    agent = "cleo"
    faults = ("slow_export",)
    _has_ordered = False

    def start(self) -> None:
        self.ids = [self.sync()]

    def step(self) -> str:
        [sync, *orders] = self.rows()
        if orders or sync.phase != Phase.IN_PROGRESS:
            return ""
        self.ids.append(self.order())
        return "an order arrives during a sync, which steps aside"

    def is_over(self) -> bool:
        return len(self.ids) == 2 and super().is_over()

    def verdict(self) -> demo.Verdict:
        rows = self.rows()
        has_stepped = rows[0].steps.filter(why="preempted").exists()
        is_done = [row.phase for row in rows] == [Phase.COMPLETED] * 2
        return is_done and has_stepped, rows[-1].phase, "the sync continued after the order"


@demo.shown
class ATruncatedExport(OperationAct):
    title = "a truncated export"
    agent = "dora"
    faults = ("truncated",)

    def start(self) -> None:
        self.ids = [self.sync()]

    def verdict(self) -> demo.Verdict:
        [row] = self.rows()
        run = SyncRun.objects.filter(pk=row.pk).first()
        code = run.error_code if run else ""
        return code == "export_truncated", row.phase, "the mirror is untouched"


@demo.shown
class ASlowLogin(OperationAct):
    title = "an order behind a hanging login"
    agent = "eva"
    faults = ("slow_login",)

    def verdict(self) -> demo.Verdict:
        [row] = self.rows()
        return row.phase == Phase.COMPLETED, row.phase, "delayed nobody else"


@demo.shown
class ACancelledSync(OperationAct):
    title = "a sync that is cancelled"
    agent = "fay"
    faults = ("slow_export",)

    def start(self) -> None:
        self.ids = [self.sync()]

    def step(self) -> str:
        [row] = self.rows()
        [job] = self.jobs()
        if job.state != jobs.JobState.RUNNING or row.phase != Phase.IN_PROGRESS:
            return ""
        if job.cancel_requested_at is not None:
            return ""
        try:
            verbs.cancel(row.pk, by="demo", reason="not needed")
        except jobs.JobsError:  # it has just ended, or steps aside
            return ""
        return "a sync is cancelled, and stops at its next check"

    def verdict(self) -> demo.Verdict:
        [job] = self.jobs()
        return job.state == jobs.JobState.CANCELLED, str(job.state), "stopped at a check"
