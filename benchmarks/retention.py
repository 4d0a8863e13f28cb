"""A million finished jobs whose time is over are deleted while others run.

They are copies of jobs that really ran here, the youngest of them ten days old. The same table is
drained three times: with a policy that keeps them, the rate to compare with; while
``manage.py jobs retention`` deletes them as fast as it can, beside what dispatchers delete anyway;
and once more so, while PostgreSQL logs how long each statement took.
"""

from __future__ import annotations

import time

from benchmarks import bench, records
from benchmarks.aged import STATEMENTS, age, durations_of, logged
from benchmarks.bench import Bench
from benchmarks.drains import STARTUP, drain_engine, fill, watch
from benchmarks.result import Check, Figures, Result

KEPT = {"BENCH_KEEP_DAYS": "36500"}
MARKS = {**STATEMENTS, "delete": "DELETE FROM jobs_job"}
OLD = "SELECT count(*) FROM jobs_job WHERE state = 'succeeded' AND finished_at < %s"


def deleting(b: Bench) -> Result:
    """A drain of 100 000 jobs beside the deletion of 1 000 000, and without it."""
    backlog, copies, window = (1000, 150, 3.0) if b.quick else (100_000, 10, 30.0)
    drain_engine(b, backlog, 120.0, variables=KEPT)
    age(b, copies, "10 d")
    kept = drain_engine(b, backlog, window, reset=False, variables=KEPT)
    swept = _drain_swept(b, backlog, window)
    with logged(b) as log_starts_at:
        logged_run = _drain_swept(b, backlog, min(window, 10.0))
    swept |= durations_of(b, log_starts_at, MARKS)
    swept["deleted_while_logged"] = logged_run["deleted"]
    ratio = round(swept["rate"] / kept["rate"], 2)
    checks = [
        Check("rows deleted per second", swept["deleted_per_s"], 1000, 5000),
        Check("x rate without deletion", ratio, 0.6, 0.8),
        *(
            Check(f"{name} statement p99", swept[f"{name}_p99_ms"], must, aim, True, unit=" ms")
            for name, must, aim in (("dispatch", 20, 5), ("claim", 20, 5), ("delete", 250, 100))
        ),
    ]
    return Result({"jobdesk": swept, "jobdesk_kept": kept}, checks, ratio)


def _drain_swept(b: Bench, backlog: int, window: float) -> Figures:
    """The drain's figures, and how many rows went while it lasted."""
    fill(b, backlog)
    processes, out = b.stage()
    b.wait_quiet()
    limit = b.sql("SELECT now() - interval '8 d'")
    with processes:
        processes.start(
            bench.dispatcher(), bench.worker(), bench.manage("jobs", "retention", "--json")
        )
        _wait_for_first(b, out)
        began, before = time.monotonic(), b.sql(OLD, (limit,))
        # Not asked whether all live: the deletion may have come to its end.
        figures = watch(b, processes, out, backlog, window, records.NOOP)
        took, left = time.monotonic() - began, b.sql(OLD, (limit,))
        if not b.quick and not left:
            raise RuntimeError("the deletion was over before the drain was")
    deleted = before - left
    return {**figures, "deleted": deleted, "deleted_per_s": round(deleted / took, 1)}


def _wait_for_first(b: Bench, out: records.Records) -> None:
    deadline = time.monotonic() + STARTUP
    while not out.count():
        if time.monotonic() > deadline:
            raise RuntimeError(f"no job ran within {STARTUP:g} s\n{b.last_words()}")
        time.sleep(0.005)
