"""Draining a full queue: the workers start on it, the rate leaves out the first 5 %."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from benchmarks import bench, records
from benchmarks.bench import NO_VARIABLES, Bench
from benchmarks.processes import Processes
from benchmarks.records import Records
from benchmarks.result import Check, Figures, Result, median_run, paired_ratio

T = TypeVar("T")

CHUNK = 20_000
STARTUP = 120.0
SIMPLE, FORKING = "rq.worker.SimpleWorker", "rq.worker.Worker"
RQ_SIZE, RQ_WINDOW = 4000, 3.0
"""The baseline beside each run: jobs queued, seconds of draining."""
BACKLOG_WINDOW = 5.0


def drain_engine(
    b: Bench,
    size: int,
    window: float,
    *,
    kind: int = records.NOOP,
    reset: bool = True,
    enqueue: Callable[[int], None] | None = None,
    variables: Mapping[str, str] = NO_VARIABLES,
) -> Figures:
    """Fills the queue with ``size`` jobs and drains it, for at most ``window`` seconds.

    ``enqueue`` fills it with other than plain jobs; the processes are given the variables.
    """
    if reset:
        b.reset()
    fill(b, size, kind, enqueue)
    processes, out = b.stage(variables)
    b.wait_quiet()
    with processes:
        processes.start(bench.dispatcher(), bench.worker())
        figures = watch(b, processes, out, size, window, kind)
        if figures["jobs"] >= size:
            figures["settled_s"] = _settled(b, kind)
    return figures


def quietest(b: Bench, run: Callable[[], Figures]) -> Figures:
    """The run, or the quieter of two where strangers disturbed the first."""
    first = run()
    if b.quick or first["others_cores"] <= bench.QUIET:
        return first
    return min(first, run(), key=lambda figures: float(figures["others_cores"]))


def drain_rq(
    b: Bench, size: int, window: float, worker_class: str, *, kind: int = records.NOOP
) -> Figures:
    """The same for two plain rq workers."""
    b.plain_redis.flushdb()
    fill_rq(b, size, kind)
    processes, out = b.stage()
    b.wait_quiet()
    with processes:
        processes.start(*[bench.rq_worker(b, worker_class)] * 2)
        figures = watch(b, processes, out, size, window, kind)
    b.plain_redis.flushdb()
    return figures


def fill(
    b: Bench, size: int, kind: int = records.NOOP, enqueue: Callable[[int], None] | None = None
) -> None:
    """The queue holds ``size`` more jobs, written out, and the planner knows it.

    Without VACUUM and CHECKPOINT, what filling a large queue leaves to be done in the background
    would be measured instead of the queue.
    """
    import jobs
    from benchmarks.specimens.handlers import Fail, Noop

    if enqueue is not None:
        enqueue(size)
    else:
        made = (Fail() if kind == records.FAIL else Noop() for _ in range(size))
        for chunk in chunks(made, CHUNK):
            jobs.enqueue_many(chunk)
    b.sql("VACUUM ANALYZE jobs_job")
    b.sql("CHECKPOINT")


def fill_rq(b: Bench, size: int, kind: int = records.NOOP) -> None:
    from rq import Queue, Retry

    queue = Queue(bench.QUEUE, connection=b.plain_redis)
    failing = kind == records.FAIL
    name = "benchmarks.plain.fail" if failing else "benchmarks.plain.noop"
    retry = Retry(max=9, interval=3600) if failing else None
    made = (queue.prepare_data(name, retry=retry) for _ in range(size))
    for chunk in chunks(made, 1000):
        queue.enqueue_many(chunk)


def chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    rest = iter(items)
    while chunk := list(itertools.islice(rest, size)):
        yield chunk


def watch(
    b: Bench, processes: Processes, out: Records, size: int, window: float, kind: int
) -> Figures:
    """Waits for all the jobs, or ``window`` seconds after the first; answers the figures."""
    while not out.count():
        waited = time.monotonic() - processes.started_at
        if waited > STARTUP or not processes.alive():
            raise RuntimeError(f"no job ran within {waited:.0f} s\n{b.last_words()}")
        time.sleep(0.005)
    with b.watching() as seen:
        began, cpu = time.monotonic(), processes.cpu_seconds()
        while out.count() < size and time.monotonic() - began < window:
            time.sleep(0.01)
        cpu = processes.cpu_seconds() - cpu
    ran = [moment for _, moment in out.times(kind)]
    skipped = len(ran) // 20
    if len(ran) - skipped < 2:
        raise RuntimeError(f"only {len(ran)} jobs ran in {window} s\n{b.last_words()}")
    return {
        "rate": round((len(ran) - 1 - skipped) / (ran[-1] - ran[skipped]), 1),
        "jobs": len(ran),
        "cpu_ms_per_job": round(1000 * cpu / len(ran), 4),
        "boot_s": round(ran[0] - processes.started_at, 2),
        **seen,
    }


_UNSETTLED = {
    records.NOOP: "SELECT EXISTS (SELECT 1 FROM jobs_job WHERE state <> 'succeeded')",
    records.FAIL: "SELECT EXISTS (SELECT 1 FROM jobs_job WHERE state <> 'pending' OR failures = 0)",
}


def _settled(b: Bench, kind: int, patience: float = 10.0) -> float:
    """Seconds after the last job ran until its row said so too."""
    began = time.monotonic()
    while b.sql(_UNSETTLED[kind]):
        if time.monotonic() - began > patience:
            raise RuntimeError(f"jobs ran, but their rows do not say so\n{b.last_words()}")
        time.sleep(0.01)
    return round(time.monotonic() - began, 3)


def drain(b: Bench, size: int) -> Result:
    """The engine beside two SimpleWorkers, several times; once two forking Workers."""
    size = size // 10 if b.quick else size
    repeats = 1 if b.quick else 3 if size <= 10_000 else 2
    plain, ours = [], []
    for _ in range(repeats):
        plain.append(quietest(b, lambda: drain_rq(b, RQ_SIZE, _rq_window(b), SIMPLE)))
        ours.append(quietest(b, lambda: drain_engine(b, size, window=30.0)))
    figures = {
        "jobdesk": median_run(ours),
        "rq_simple": median_run(plain),
        "rq_worker": drain_rq(b, RQ_SIZE // 4, _rq_window(b), FORKING),
    }
    ratio = paired_ratio(ours, plain)
    return Result(figures, [Check("x rq SimpleWorker", ratio, must=18, aim=28)], ratio)


def backlog(b: Bench, size: int) -> Result:
    """How fast jobs run with so many waiting, beside the same with 10 000 waiting."""
    size = size // 10 if b.quick else size
    repeats = 1 if b.quick or size > 100_000 else 2 if size > 10_000 else 3
    reference, ours = [], []
    for _ in range(repeats):
        reference.append(quietest(b, lambda: drain_engine(b, 10_000, BACKLOG_WINDOW)))
        ours.append(quietest(b, lambda: drain_engine(b, size, BACKLOG_WINDOW)))
    figures = {"jobdesk": median_run(ours), "jobdesk_10k": median_run(reference)}
    ratio = paired_ratio(ours, reference)
    return Result(figures, [Check("x rate with 10 000 waiting", ratio, 0.8, 0.95)], ratio)


def failing(b: Bench) -> Result:
    """Jobs that raise: each failure is an attempt on record and a job that waits again."""
    size = 300 if b.quick else 3000
    plain = drain_rq(b, size, _rq_window(b), SIMPLE, kind=records.FAIL)
    ours = drain_engine(b, size, window=30.0, kind=records.FAIL)
    written = b.sql("SELECT count(*) FROM jobs_attempt WHERE outcome = 'failed'")
    if written != size:
        raise RuntimeError(f"{size} jobs failed, but {written} failures are on record")
    ratio = round(ours["rate"] / plain["rate"], 2)
    check = Check("failures written per second", ours["rate"], must=300, aim=1000)
    return Result({"jobdesk": ours, "rq_simple": plain}, [check], ratio)


def _rq_window(b: Bench) -> float:
    return 1.0 if b.quick else RQ_WINDOW
