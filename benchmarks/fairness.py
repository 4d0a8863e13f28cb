"""One tenant floods the queue; how long does another wait for its turn?

The other tenant's latency runs from the call of ``enqueue`` until its handler starts. ``rate`` is
that of the flood meanwhile.
"""

from __future__ import annotations

import time

from benchmarks import bench, records
from benchmarks.bench import Bench
from benchmarks.drains import CHUNK, chunks
from benchmarks.result import Check, Figures, Result, spread

FLOOD_SECONDS = 0.002
EVERY = 0.05


def flood(b: Bench) -> Result:
    """A job every 50 ms beside 100 000 of another tenant, 2 ms each; and beside none."""
    seconds = 1.0 if b.quick else 10.0
    idle = _measure(b, 0, seconds / 2)
    ours = _measure(b, 15_000 if b.quick else 100_000, seconds)
    check = Check("start latency p95", ours["p95_ms"], 2000, 250, True, unit=" ms")
    return Result({"jobdesk": ours, "jobdesk_idle": idle}, [check])


def _measure(b: Bench, size: int, seconds: float) -> Figures:
    import jobs
    from benchmarks.specimens.handlers import Sleep, Stamp

    b.reset()
    made = (jobs.Draft(Sleep(seconds=FLOOD_SECONDS), tenant="flood") for _ in range(size))
    for chunk in chunks(made, CHUNK):
        jobs.enqueue_many(chunk)
    b.sql("VACUUM ANALYZE jobs_job")
    b.sql("CHECKPOINT")
    processes, out = b.stage()
    b.wait_quiet()
    with processes:
        processes.start(bench.dispatcher(), bench.worker())
        if size:
            out.wait_for(size // 100)
        else:
            processes.wait_idle()
        flooded, sent = out.count(), round(seconds / EVERY)
        with b.watching() as seen:
            began = time.monotonic()
            for turn in range(sent):
                time.sleep(max(0.0, began + turn * EVERY - time.monotonic()))
                jobs.enqueue(Stamp(sent=time.monotonic()), tenant="small")
            ran = len(out.times(records.SLEEP))
            took = time.monotonic() - began
        if size and ran > 0.99 * size:
            raise RuntimeError(f"the flood was over before {took:.1f} s were")
        out.wait_for_kind(records.STAMP, sent)
    waits = [started - at for at, started in out.times(records.STAMP)]
    figures: Figures = {**spread(waits), **seen}
    if size:
        figures["rate"] = round((ran - flooded) / took, 1)
    return figures
