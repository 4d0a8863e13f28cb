"""Light load: how long from the call of ``enqueue`` until the handler starts."""

from __future__ import annotations

import time
from collections.abc import Callable

from benchmarks import bench, records
from benchmarks.bench import Bench
from benchmarks.processes import Processes
from benchmarks.records import Records
from benchmarks.result import Check, Figures, Result, quantile
from benchmarks.stage import fsync_ms

PER_SECOND = 50
WARM_UP = 20


def latency(b: Bench) -> Result:
    """50 jobs per second into idle workers, of the engine and of plain rq."""
    seconds = 2 if b.quick else 10
    plain = _measure_rq(b, seconds)
    ours = measure_engine(b, seconds)
    ratio = round(ours["p50_ms"] / plain["p50_ms"], 2)
    ours["fsync_ms"] = fsync_ms(b.postgres.folder)
    checks = [
        Check("p50", ours["p50_ms"], 2 * ours["fsync_ms"] + 1, lower_is_better=True, unit=" ms"),
        Check("p50 x rq SimpleWorker", ratio, 1.5, 1.1, lower_is_better=True),
        Check("p99", ours["p99_ms"], 5, round(2 * plain["p99_ms"], 2), True, unit=" ms"),
    ]
    return Result({"jobdesk": ours, "rq_simple": plain}, checks, ratio)


def measure_engine(b: Bench, seconds: int) -> Figures:
    """Return how long jobs of light load wait for their start."""
    import jobs
    from benchmarks.specimens.handlers import Stamp

    b.reset()
    processes, out = b.stage()
    states: list[str] = []

    def send() -> None:
        states.append(str(jobs.enqueue(Stamp(sent=time.monotonic())).state))

    with processes:
        processes.start(bench.dispatcher(), bench.worker())
        figures = _pace(b, processes, out, send, seconds)
    figures["born_queued"] = states.count("queued")
    return figures


def _measure_rq(b: Bench, seconds: int) -> Figures:
    from rq import Queue

    b.reset()
    processes, out = b.stage()
    queue = Queue(bench.QUEUE, connection=b.plain_redis)

    def send() -> None:
        queue.enqueue("benchmarks.plain.stamp", time.monotonic())

    with processes:
        processes.start(*[bench.rq_worker(b)] * 2)
        return _pace(b, processes, out, send, seconds)


def _pace(
    b: Bench, processes: Processes, out: Records, send: Callable[[], None], seconds: int
) -> Figures:
    processes.wait_idle()
    b.wait_quiet()
    _send_all(send, WARM_UP)
    out.wait_for(WARM_UP)
    cpu = processes.cpu_seconds()
    with b.watching() as seen:
        _send_all(send, PER_SECOND * seconds)
        out.wait_for(WARM_UP + PER_SECOND * seconds)
    cpu = processes.cpu_seconds() - cpu
    times = [1000 * (ran - sent) for sent, ran in out.times(records.STAMP)][WARM_UP:]
    shares = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99}
    return {
        **{name: round(quantile(times, share), 3) for name, share in shares.items()},
        "max_ms": round(max(times), 3),
        "jobs": len(times),
        "cpu_percent": round(100 * cpu / seconds, 1),
        **seen,
    }


def _send_all(send: Callable[[], None], count: int) -> None:
    began = time.monotonic()
    for turn in range(count):
        early = began + turn / PER_SECOND - time.monotonic()
        if early > 0:
            time.sleep(early)
        send()
