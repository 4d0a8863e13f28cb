"""A test for each pattern, anti-pattern and pitfall of the operations' specification, quoted.

Those that need real workers are in ``test_stopping.py``, quoted as well.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

import jobs
from config.standins.erp.server import Erp
from jobs import registry
from jobs.context import Signal
from jobs.testing import emitted, run_jobs
from operations import handlers, sync, verbs
from operations.config import settings as configured
from operations.models import Agent, Operation, Phase
from operations.services import accept
from operations.sync import Result
from operations.table import OPERATIONS, SERVICE_ACCOUNT, SYNCS, Family
from tests.operations.factories import agent as new_agent
from tests.operations.factories import ask, fetch, order
from tests.operations.test_syncs import Memory, rows, run

PATTERNS = pytest.mark.django_db


@PATTERNS
def test_sync_jobs_are_deduplicated_while_active(erp: Erp, agent: Agent) -> None:
    """ "Per sync schedulati — deduplica finché il job è attivo (Simple mode)"."""
    first = verbs.sync_now("ada", "sync-orders", by="tests")
    assert verbs.sync_now("ada", "sync-orders", by="tests") == first
    run_jobs(["erp-sync"])
    assert verbs.sync_now("ada", "sync-orders", by="tests") != first


@PATTERNS
def test_a_deduplicated_enqueue_is_told(erp: Erp, agent: Agent) -> None:
    """ "Evento nativo con jobId e deduplicationId"."""
    for _ in range(2):
        ask("submit-order", order(), idempotency_key="mine")
    [event] = emitted("operations.JOB_DEDUPLICATED")
    assert event.payload["deduplicationId"] == "mine"
    assert event.payload["jobId"] == str(Operation.objects.get().pk)


@PATTERNS
def test_a_key_is_no_timestamp(erp: Erp, agent: Agent) -> None:
    """ "Timestamp come idempotencyKey: […] rendendo la deduplicazione inutile"."""
    assert ask("submit-order", order()).pk == ask("submit-order", order()).pk


@pytest.mark.parametrize("type", OPERATIONS)
def test_every_handler_has_a_timeout(type: str) -> None:
    """ "Nessun timeout su handler: […] il worker si blocca per sempre"."""
    assert 0 < configured().timeout(type) <= 300


@pytest.mark.parametrize("type", OPERATIONS)
def test_a_timeout_is_final(type: str) -> None:
    """ "UnrecoverableError — utile per timeout dove ritentare è inutile"."""
    found = registry.find(OPERATIONS[type].kind)
    assert found is not None and found.on_timeout == "fail"
    assert found.timeout == OPERATIONS[type].timeout


def test_a_stop_is_looked_for_within_the_loop(tmp_path: Path) -> None:
    """ "`shouldStop()` […] ogni N iterazioni (es. ogni 10-20 item) dentro i loop"."""
    asked: list[int] = []
    deps = Memory(tmp_path, rows(100))

    def look() -> bool:
        asked.append(1)
        return False

    from operations.sync import sync_customers

    sync_customers(deps, "ada", lambda done, total: None, look)
    assert len(asked) >= 4 + 9


@PATTERNS
def test_a_failure_releases_the_agent(erp: Erp, agent: Agent) -> None:
    """ "Lock non rilasciato dopo cancellazione: […] nessun job parte"."""
    items = [{"articleCode": "X", "quantity": 1, "price": 1}]
    first = ask("submit-order", order(items=items))
    second = ask("submit-order", order("P-2"))
    third = ask("submit-order", order("P-3"))
    verbs.cancel(second.pk, by="tests", reason="a test")
    run_jobs(["erp-write"])
    phases = [fetch(row.pk).phase for row in (first, second, third)]
    assert phases == [Phase.FAILED, Phase.CANCELLED, Phase.COMPLETED]


@PATTERNS
def test_a_retry_does_not_meet_its_own_key(erp: Erp, agent: Agent) -> None:
    """ "Deduplication e retry in conflitto: […] Job falliti che non vengono mai ritentati"."""
    erp.script("ada", "truncated")
    made = verbs.sync_now("ada", "sync-customers", by="tests")
    run_jobs(["erp-sync"])
    assert fetch(made).phase == Phase.FAILED
    verbs.retry(made, by="tests", reason="a test")
    run_jobs(["erp-sync"])
    assert fetch(made).phase == Phase.COMPLETED


@PATTERNS
def test_a_write_may_be_retried_because_it_is_marked(erp: Erp, agent: Agent) -> None:
    """ "Il submit-order potrebbe creare ordini duplicati con retry"."""
    erp.script("ada", "wrong_total")
    row = ask("submit-order", order())
    run_jobs(["erp-write"])
    verbs.retry(row.pk, by="tests", reason="a test")
    run_jobs(["erp-write"])
    assert (fetch(row.pk).phase, erp.calls["operations"]) == (Phase.COMPLETED, 1)


def test_writes_and_reads_preempt_and_syncs_yield() -> None:
    """ "ogni handler DEVE collegare shouldStop all'AbortSignal"; preemption by priority."""
    assert handlers._BY_FAMILY[Family.SYNC]["preemptible"]
    assert handlers._BY_FAMILY[Family.SYNC]["preemptions"] == 20
    assert all(handlers._BY_FAMILY[one]["preempts"] for one in (Family.WRITE, Family.READ))


def test_no_file_is_left_after_a_stop(tmp_path: Path) -> None:
    """ "Browser context leak durante cancellazione": here, what a download leaves behind."""
    from operations.sync import SyncStopped

    deps = Memory(tmp_path, rows(100))
    with pytest.raises(SyncStopped):
        run(deps, iter([False, True]))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.django_db(transaction=True)
def test_fifty_threads_with_one_key_make_one_job(erp: Erp) -> None:
    new_agent("ada")
    found: list[accept.Accepted] = []

    def click() -> None:
        try:
            found.append(
                accept.enqueue(
                    "submit-order", order(), by="tests", agent="ada", idempotency_key="k"
                )
            )
        finally:
            connection.close()

    threads = [threading.Thread(target=click) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({one.id for one in found}) == 1
    assert sum(one.deduplicated for one in found) == 49
    assert len(emitted("operations.JOB_DEDUPLICATED")) == 49


@PATTERNS
def test_every_sync_is_given_the_stop_of_its_own_attempt(
    erp: Erp, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ "AbortSignal nel Worker Processor", "Conversione AbortSignal → shouldStop()", and

    "shouldStop hardcoded a `() => false`: Rende la preemption impossibile".
    """
    seen: dict[str, Any] = {}

    def record(deps: Any, agent: str, on_progress: Any, should_stop: Any) -> Result:
        seen[agent] = should_stop
        return Result()

    new_agent(SERVICE_ACCOUNT)
    for spec in SYNCS:
        monkeypatch.setitem(sync.SYNCS, spec.type, record)
        owner = SERVICE_ACCOUNT if spec.is_shared else "ada"
        made = verbs.sync_now(owner, spec.type, by="tests")
        run_jobs(["erp-sync"])
        assert fetch(made).phase == Phase.COMPLETED
        assert seen[owner].__func__ is jobs.Context.should_stop
        assert seen.pop(owner).__self__.job_id == made


FINAL = {"timeout": ("failed", "timeout"), "cancelled": ("cancelled", "")}
REASONS = ["timeout", "cancelled", "preempted", "shutdown", "lease_lost"]
OF_EACH = {
    "submit-order": order(),
    "sync-order-articles": {"orderId": "4711"},
    "sync-customers": {},
}


@PATTERNS
@pytest.mark.parametrize("type", OF_EACH)
@pytest.mark.parametrize("reason", REASONS)
def test_every_reason_to_stop_has_its_own_end(
    erp: Erp, agent: Agent, monkeypatch: pytest.MonkeyPatch, type: str, reason: str
) -> None:
    """ "Timeout con AbortController", and "Preemption con cancelJob", which share an AbortError

    there: "Lock non rilasciato dopo cancellazione". Here a preempted sync never reads "timeout",
    costs no attempt, is put back without a delay ("Un wait fisso è sempre sbagliato"), and the
    agent is free.
    """
    erp.book.data["orders"]["4711"] = {"lines": [], "total": "0", "totalWithVat": "0"}
    row = ask(type, OF_EACH[type])
    first: list[Signal] = []

    def told(signal: Signal) -> str:
        first.append(signal)
        return reason if signal is first[0] else ""

    monkeypatch.setattr(Signal, "reason", property(told))
    monkeypatch.setattr(Signal, "aborted", property(lambda signal: told(signal) != ""))
    run_jobs([row.spec.queue])
    row = fetch(row.pk)
    if reason in FINAL:
        assert (row.phase, row.error_code) == FINAL[reason]
        assert erp.calls["operations"] == 0
    else:
        assert row.phase == Phase.COMPLETED and row.error_code == ""
        assert jobs.get(row.pk).failures == 0
        why = {"preempted": "preempted", "shutdown": "released"}.get(reason)
        found = list(row.steps.order_by("id").values_list("phase", "why"))
        assert ("queued", why) in found[1:] or why is None
        assert "timeout" not in str(found)
    follows = ask("submit-order", order("P-2"))
    run_jobs(["erp-write"])
    assert fetch(follows.pk).phase == Phase.COMPLETED
