"""Every workload by name, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from benchmarks import (
    admin,
    aged,
    batches,
    bulks,
    cancels,
    documents,
    drains,
    emails,
    enqueues,
    events,
    fairness,
    handovers,
    jit,
    keys,
    latency,
    limits,
    listeners,
    memory,
    operate,
    operations,
    overhttp,
    posts,
    retention,
    trading,
    waits,
)
from benchmarks.bench import Bench
from benchmarks.result import Result


@dataclass(frozen=True, slots=True)
class Workload:
    name: str
    about: str
    run: Callable[[Bench], Result]
    variables: Mapping[str, str] = field(default_factory=dict)
    """Variables of the environment of all its processes, its own included."""


OPERATIONS = {"BENCH_OPERATIONS": "1"}
TRADING = {"BENCH_TRADING": "1"}
PUBLISHER = {"BENCH_PUBLISHER": "1", "HTTP_ALLOW": "127.0.0.0/8"}


WORKLOADS = [
    Workload("enqueue_single", "one job per call, in autocommit", enqueues.single),
    Workload("enqueue_single_atomic", "one job per atomic()", enqueues.single_atomic),
    Workload("enqueue_atomic_1000", "1 000 jobs in one atomic()", enqueues.atomic_1000),
    Workload("enqueue_bulk_10k", "10 000 jobs in one call", enqueues.bulk),
    Workload("drain_10k", "10 000 jobs that do nothing", partial(drains.drain, size=10_000)),
    Workload("drain_100k", "100 000 jobs that do nothing", partial(drains.drain, size=100_000)),
    Workload("failing", "3 000 jobs that fail and are to run again", drains.failing),
    Workload("latency_50", "50 jobs per second into idle workers", latency.latency),
    Workload("jit", "latency and drain with jit on and off", jit.on_and_off),
    Workload("io_500_sync", "500 jobs that wait 100 ms, in 2 x 25 threads", waits.io_sync),
    Workload("io_500_async", "500 coroutines that wait 100 ms, in 1 process", waits.io_async),
    Workload("memory", "idle workers", memory.memory),
    *(
        Workload(f"backlog_{name}", f"{size:,} jobs waiting", partial(drains.backlog, size=size))
        for name, size in {"1k": 1000, "10k": 10_000, "100k": 100_000, "1m": 1_000_000}.items()
    ),
    Workload("finished_1m", "100 000 jobs behind 1 000 000 finished ones", aged.finished),
    Workload("batch_100k", "100 000 jobs of one batch", batches.drain),
    Workload("drain_events", "20 000 jobs that tell an event each", events.drain),
    Workload("events_500", "1 000 events per second to 500 sockets", listeners.fan_out),
    Workload("limits_cost", "limits and keys that hold nothing back", limits.cost),
    Workload("drain_limited", "10,400 jobs, of which eight may run at once", limits.drain),
    Workload("fairness_flood", "one tenant beside another's 100 000 jobs", fairness.flood),
    Workload("wake_100ms", "jobs that wait for each other's key or place", handovers.wake),
    Workload("cancel_300ms", "running jobs that are cancelled", cancels.seen),
    Workload("preempt", "jobs that take a key from a running one", handovers.preempt),
    Workload("preempt_queued", "jobs that take a key from a queued one", handovers.preempt_queued),
    Workload("retention_1m", "1 000 000 jobs deleted during a drain", retention.deleting),
    Workload("keys_contended", "enqueuing with unique keys", keys.contended),
    Workload("bulk_100k", "acting on 100 000 jobs at once, beside others", bulks.bulk),
    Workload("operate_1m", "what operators ask about 1 000 000 jobs", operate.operate),
    Workload("api_1m", "the API on 1 000 000 jobs, through the server", overhttp.api),
    Workload("admin_1m", "every screen of the admin on 1 000 000 jobs", admin.screens_1m),
    Workload("email_send", "100 emails per second handed in over HTTP", emails.send),
    Workload("email_drain", "2 000 emails at a provider's limit of 100/s", emails.drain),
    *(
        Workload(f"trading_{name}", about, run, TRADING)
        for name, about, run in (
            ("import", "imports of 500 fills", trading.imports),
            ("store", "pages of 250 fills, beside row by row", trading.storing),
            ("reflect", "from a label to the socket", trading.reflections),
            ("simulate", "a trade compared with holding, for a week", trading.simulations),
            ("indicators", "figures of 1 000 candles", trading.indicators),
            ("digest", "1 000 digests of 200 trades", trading.digests),
        )
    ),
    Workload("fileproc_confirm", "confirmed documents, and when they are read", documents.confirm),
    Workload("fileproc_stages", "what is read, cut and embedded in a second", documents.stages),
    Workload("fileproc_search", "searches among 40 000 chunks", documents.search),
    Workload("fileproc_relevance", "how far above the right section is", documents.relevance),
    Workload("fileproc_pipeline", "files beside chains of three jobs", documents.pipeline),
    Workload("operations_mirror", "a sync of 5,000 rows of an ERP", operations.mirror, OPERATIONS),
    Workload("operations_memory", "a sync of 50,000 rows of an ERP", operations.memory, OPERATIONS),
    Workload(
        "operations_writes", "600 orders of 60 agents to an ERP", operations.writes, OPERATIONS
    ),
    Workload("publisher_due", "1,200 due posts on 40 accounts", posts.due, PUBLISHER),
    Workload(
        "publisher_late", "240 posts, from their moment to the request", posts.late, PUBLISHER
    ),
    Workload("publisher_calendar", "week and month among 100,000 posts", posts.calendar, PUBLISHER),
]
BY_NAME = {workload.name: workload for workload in WORKLOADS}
