"""A running job is cancelled: how long from the call of ``cancel`` until its handler sees it.

A handler in a thread looks every millisecond, a coroutine that sleeps is
woken by being cancelled. The moments of the
calls are spread over the engine's ticks.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from benchmarks import bench, records
from benchmarks.bench import Bench
from benchmarks.result import Check, Figures, Result, spread

TICKS = 0.25


def seen(b: Bench) -> Result:
    """Cancels of running jobs, one after the other."""
    from benchmarks.specimens.handlers import AsyncObey, Obey

    threads, coroutines = _measure(b, Obey), _measure(b, AsyncObey)
    checks = [
        Check("in a thread, p50", threads["p50_ms"], 300, 150, True, unit=" ms"),
        Check("in a thread, slowest", threads["max_ms"], 300, 200, True, unit=" ms"),
        Check("in a coroutine, p50", coroutines["p50_ms"], 300, 200, True, unit=" ms"),
        Check("in a coroutine, slowest", coroutines["max_ms"], 300, 250, True, unit=" ms"),
    ]
    return Result({"jobdesk": threads, "jobdesk_async": coroutines}, checks)


def _measure(b: Bench, payload: Callable[[], Any]) -> Figures:
    import jobs

    b.reset()
    processes, out = b.stage()
    turns = 3 if b.quick else 40
    called = []
    with processes:
        processes.start(bench.dispatcher(), bench.worker())
        processes.wait_idle()
        b.wait_quiet()
        with b.watching() as strangers:
            for turn in range(turns):
                job = jobs.enqueue(payload())
                out.wait_for_kind(records.BEGUN, turn + 1)
                time.sleep(TICKS + TICKS * turn / turns)
                called.append(time.monotonic())
                jobs.cancel(job.id, by="benchmark", reason="to see how long it takes")
                out.wait_for_kind(records.TOLD, turn + 1)
    told = [moment for _, moment in out.times(records.TOLD)]
    waits = [saw - asked for asked, saw in zip(called, told, strict=True)]
    return {**spread(waits), **strangers}
