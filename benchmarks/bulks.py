"""100 000 jobs at once: how fast each is acted upon, and what everybody else notices of it.

The jobs belong to a queue without workers, so that what is retried does not run and only the
operation itself is measured. The operation is carried out by a job of the platform, on the
worker beside which 50 other jobs per second are enqueued and run. ``start`` is the time from the
call of ``enqueue`` until the handler begins, claim included; ``claim`` is that of the statement,
by PostgreSQL's log.
"""

from __future__ import annotations

import time
from typing import Any

from benchmarks import bench, records
from benchmarks.aged import durations_of, logged
from benchmarks.bench import Bench
from benchmarks.processes import Processes
from benchmarks.records import Records
from benchmarks.result import Check, Figures, Result, spread

PER_SECOND = 50
PATIENCE = 900.0
PLACE = "elsewhere"
ACTIONS = {
    "retry": "failed",
    "replay": "failed",
    "cancel": "pending",
    "discard_letter": "failed",
}
"""And the state of the jobs that each is about."""

FILL = """
INSERT INTO jobs_job (id, kind, queue, state, priority, tenant, tags, payload, created_at, run_at,
  queued_at, started_at, finished_at, lane, rank, attempt, failures, max_attempts, timeout, lease,
  token, error, reason)
SELECT gen_random_uuid(), 'bench.noop', %s, state, 0, '', '{}', '{"data": ""}', at, at,
  ended, ended, ended, E'\\x1fbench.noop', extract(epoch FROM at) * 1000, tried, tried, 3, 300, 60,
  CASE WHEN tried > 0 THEN gen_random_uuid() END, '', CASE WHEN tried > 0 THEN 'exhausted'
    ELSE '' END
FROM (SELECT now() - (%s - n) * interval '0.01 s' AS at, %s AS state,
    CASE WHEN %s THEN now() END AS ended, CASE WHEN %s THEN 3 ELSE 0 END AS tried
  FROM generate_series(1, %s) AS n) AS s
"""
LETTERS = """
INSERT INTO jobs_deadletter (job_id, kind, queue, attempt, reason, fingerprint, expires_at)
SELECT id, kind, queue, 3, 'exhausted', 'bench', now() + interval '30 d' FROM jobs_job
WHERE state = 'failed'
"""


def bulk(b: Bench) -> Result:
    """Each action in turn, on as many jobs, beside a light load; and the load alone."""
    size = 2000 if b.quick else 100_000
    found: dict[str, Figures] = {"load alone": _alone(b, 2 if b.quick else 20)}
    checks = []
    for action, state in ACTIONS.items():
        found[action] = figures = _measure(b, action, state, size)
        checks += [
            Check(f"{action}, items/s", figures["rate"], 1000, 3000),
            Check(f"{action}, enqueue p95", figures["enqueue"]["p95_ms"], 25, 5, True, unit=" ms"),
            Check(f"{action}, claim p95", figures["claim_p95_ms"], 25, 5, True, unit=" ms"),
        ]
    return Result(found, checks)


def fill(b: Bench, state: str, size: int) -> None:
    """So many jobs are in the state, with their open dead letters where they have failed."""
    dead = state == "failed"
    b.sql("SET session_replication_role = replica")
    b.sql(FILL, (PLACE, size, state, dead, dead, size))
    b.sql("RESET session_replication_role")
    b.sql(LETTERS)
    for table in ("jobs_job", "jobs_deadletter", "jobs_bulkitem"):
        b.sql(f"VACUUM ANALYZE {table}")
    b.sql("CHECKPOINT")


def _alone(b: Bench, seconds: int) -> Figures:
    b.reset()
    processes, out = b.stage()
    with processes:
        _ready(b, processes)
        with logged(b) as log_starts_at:
            began = time.monotonic()
            load = _Load(out)
            while time.monotonic() - began < seconds:
                load.send()
            load.finish()
        return {**load.figures(), **durations_of(b, log_starts_at, {"claim": "jobs_claim("})}


def _measure(b: Bench, action: str, state: str, size: int) -> Figures:
    from jobs.operate import bulk as operation

    b.reset()
    fill(b, state, size)
    processes, out = b.stage()
    with processes:
        _ready(b, processes)
        with logged(b) as log_starts_at, b.watching() as strangers:
            made = operation.start(
                action, query=f"state:{state} queue:{PLACE}", by="benchmark", reason="to measure"
            )
            load, deadline, looked = _Load(out), time.monotonic() + PATIENCE, time.monotonic()
            while True:
                load.send()
                if time.monotonic() - looked > 0.25:
                    looked = time.monotonic()
                    if operation.find(made.id, by="benchmark").is_over:
                        break
                if time.monotonic() > deadline:
                    raise RuntimeError(f"{action}: not over after {PATIENCE:g} s")
            load.finish()
        claims = durations_of(b, log_starts_at, {"claim": "jobs_claim("})
    row = operation.find(made.id, by="benchmark")
    if (row.state, row.done) != ("done", size):
        raise RuntimeError(f"{action}: {row.state} with {row.done} of {size} done: {row.note}")
    assert row.started_at is not None and row.finished_at is not None
    acted = (row.finished_at - row.started_at).total_seconds()
    gathered = (row.started_at - row.created_at).total_seconds()
    return {
        "rate": round(size / acted, 1),
        "gather_s": round(gathered, 2),
        "act_s": round(acted, 2),
        **load.figures(),
        **claims,
        **strangers,
    }


def _ready(b: Bench, processes: Processes) -> None:
    processes.start(bench.dispatcher(), bench.worker())
    processes.wait_idle()
    b.wait_quiet()


class _Load:
    """Other people's jobs, evenly."""

    def __init__(self, out: Records) -> None:
        self._out, self._began, self._took = out, time.monotonic(), list[float]()

    def send(self) -> None:
        """The next one is enqueued when its time has come."""
        import jobs
        from benchmarks.specimens.handlers import Stamp

        early = self._began + len(self._took) / PER_SECOND - time.monotonic()
        if early > 0:
            time.sleep(early)
        sent = time.monotonic()
        jobs.enqueue(Stamp(sent=sent))
        self._took.append(time.monotonic() - sent)

    def finish(self) -> None:
        """All of them have run."""
        self._out.wait_for_kind(records.STAMP, len(self._took))

    def figures(self) -> dict[str, Any]:
        started = [ran - sent for sent, ran in self._out.times(records.STAMP)]
        return {"enqueue": spread(self._took), "start": spread(started)}
