"""What operators ask on a table of a million jobs: lists, searches, details, the first page."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.bench import Bench
from benchmarks.result import Check, Figures, Result, spread

FILL = """
INSERT INTO jobs_job (id, kind, queue, state, priority, tenant, tags, payload, created_at, run_at,
  queued_at, started_at, finished_at, lane, rank, wait, attempt, failures, max_attempts, timeout,
  lease, owner, token, error, reason, correlation_id)
SELECT gen_random_uuid(), kind, queue, state, 0, tenant,
  CASE WHEN n %% 10 = 0 THEN ARRAY['tag-' || n %% 500] ELSE '{}' END,
  jsonb_build_object('order_id', n, 'customer', jsonb_build_object('id', n %% 50000),
    'region', 'region-' || (n / 4) %% 2,
    'note', repeat('x', 150)),
  at, at, CASE WHEN state IN ('queued', 'running', 'succeeded', 'failed') THEN at END,
  CASE WHEN state IN ('running', 'succeeded', 'failed') THEN at END,
  CASE WHEN state IN ('succeeded', 'failed', 'cancelled', 'expired') THEN at + interval '2 s' END,
  tenant || E'\\x1f' || kind, extract(epoch FROM at) * 1000,
  CASE WHEN state = 'pending' AND n %% 3 = 0 THEN 1 ELSE 0 END,
  CASE WHEN state IN ('running', 'succeeded', 'failed') OR (state = 'pending' AND n %% 6 = 0)
    THEN 1 ELSE 0 END,
  CASE WHEN state = 'failed' OR (state = 'pending' AND n %% 6 = 0) THEN 1 ELSE 0 END, 3, 300, 60,
  CASE WHEN state = 'running' THEN gen_random_uuid() END,
  CASE WHEN state = 'running' THEN gen_random_uuid() END,
  CASE WHEN state = 'failed' THEN 'ValueError: no such order' ELSE '' END,
  CASE WHEN state = 'failed' THEN 'exhausted' ELSE '' END,
  CASE WHEN n %% 20 = 0 THEN 'request-' || n / 40 ELSE '' END
FROM (SELECT n, now() - (%s - n) * interval '0.3 s' AS at, 'tenant-' || n %% 100 AS tenant,
  CASE WHEN n %% 4 = 0 THEN 'bench.order' ELSE 'bench.kind' || n %% 20 END AS kind,
  'queue-' || n %% 8 AS queue,
  CASE WHEN n > 0.98 * %s THEN CASE WHEN n %% 100 = 7 THEN 'running' WHEN n %% 100 = 8
      THEN 'queued' ELSE 'pending' END
    WHEN n %% 200 = 3 THEN 'failed' WHEN n %% 300 = 5 THEN 'cancelled'
    ELSE 'succeeded' END AS state
  FROM generate_series(1, %s) AS n) AS s
"""
DECLARED = """
INSERT INTO jobs_search (path, value, job_id, created_at)
SELECT 'payload.' || p, payload #>> string_to_array(p, '.'), id, created_at
FROM jobs_job, unnest(ARRAY['order_id', 'region']) p WHERE kind = 'bench.order'
"""
LETTERS = """
INSERT INTO jobs_deadletter (job_id, kind, queue, tenant, attempt, reason, fingerprint, summary,
  opened_at, expires_at)
SELECT id, kind, queue, tenant, 1, 'exhausted', md5(kind), error, finished_at,
  finished_at + interval '90 d' FROM jobs_job WHERE state = 'failed'
"""
MINUTES = """
INSERT INTO jobs_minute (kind, queue, outcome, minute, count, seconds, longest, buckets)
SELECT 'bench.kind' || k, 'queue-' || k %% 8, o, date_trunc('minute', now()) - m * interval '1 min',
  10, 5, 1, ARRAY[1,1,1,1,1,1,1,1,1,1,0,0,0,0,0,0,0]
FROM generate_series(0, %s) m, generate_series(0, 19) k, unnest(ARRAY['succeeded', 'retried']) o
"""


def operate(b: Bench) -> Result:
    """Lists, searches, a job and the first page, each many times over a million jobs."""
    size, turns = (5000, 3) if b.quick else (1_000_000, 40)
    b.reset()
    fill(b, size)
    figures: Figures = {}
    checks = []
    for name, ask in questions(b, size).items():
        figures[name] = found = timed(ask, turns)
        checks.append(Check(f"{name} p95", found["p95_ms"], 100, 50, True, unit=" ms"))
    return Result({"jobdesk": figures}, checks)


def timed(ask: Callable[[], Any], turns: int) -> dict[str, Any]:
    """How long it takes, warm, so many times."""
    ask()
    times = []
    for _ in range(turns):
        began = time.perf_counter()
        ask()
        times.append(time.perf_counter() - began)
    return spread(times)


def fill(b: Bench, size: int) -> None:
    """The table holds so many jobs in a realistic mix, with all that is found beside them."""
    from jobs.engine import arrivals

    b.sql("SET session_replication_role = replica")
    b.sql(FILL, (size, size, size))
    b.sql("RESET session_replication_role")
    b.sql(DECLARED)
    b.sql(
        "INSERT INTO jobs_search (path, value, job_id, created_at) "
        "SELECT 'tag', unnest(tags), id, created_at FROM jobs_job WHERE tags <> '{}' UNION ALL "
        "SELECT 'correlation', correlation_id, id, created_at FROM jobs_job "
        "WHERE correlation_id <> ''"
    )
    b.sql(LETTERS)
    b.sql("TRUNCATE jobs_minute, jobs_quarter")
    b.sql(MINUTES, (10 if b.quick else 10_080,))
    while arrivals.tally() != (0, 0):
        pass
    b.sql("INSERT INTO jobs_queue (name) SELECT 'queue-' || n FROM generate_series(0, 7) n")
    for table in ("jobs_job", "jobs_search", "jobs_deadletter", "jobs_minute", "jobs_quarter"):
        b.sql(f"VACUUM ANALYZE {table}")
    b.sql("CHECKPOINT")


def questions(b: Bench, size: int) -> dict[str, Callable[[], Any]]:
    from jobs.operate import overview, search
    from jobs.principals import Principal, Scope

    me = "benchmark"
    tenant = Principal("tenant", scope=Scope(tenants=frozenset({"tenant-7"})))
    job = b.sql("SELECT id FROM jobs_job ORDER BY created_at LIMIT 1 OFFSET 1000")

    def ask(query: str, by: Any = me) -> Callable[[], Any]:
        return lambda: search.jobs(query, by=by)

    order = size // 2 // 4 * 4
    deep = search.jobs(by=me, limit=200).next
    return {
        "list": ask(""),
        "list_page": lambda: search.jobs(by=me, after=deep),
        **{
            f"tab_{tab}": partial(search.jobs, by=me, tab=tab)
            for tab in search.TABS
            if tab != "all"
        },
        "tab_counts": lambda: search.counts(by=me),
        "tenant_list": ask("", tenant),
        "tenant_dead": ask("state:failed", tenant),
        "declared_value": ask(f"payload.order_id:{order}"),
        "declared_common": ask("payload.region:region-1"),
        "declared_common_dead": ask("payload.region:region-1 state:failed"),
        "declared_common_rare": ask("payload.region:region-1 tenant:tenant-0 priority>3"),
        "declared_of_kind": ask(f"kind:bench.order payload.order_id:{order}"),
        "tag": ask("tag:tag-40"),
        "correlation": ask("correlation:request-77"),
        "bounded_payload": ask("payload.note:nothing"),
        "bounded_payload_deep": ask("payload.customer.id:7"),
        "bounded_kind": ask("kind:bench.kind1 payload.order_id:1"),
        "bounded_nothing": ask("error:KeyError -queue:queue-1"),
        "fingerprint": ask("is:dead error:ValueError"),
        "detail": lambda: search.one(job, by=me),
        "overview": lambda: overview.overview(by=me),
        "throughput_7d": lambda: overview.throughput("7d", by=me),
        "kind": lambda: overview.kind_stats("bench.kind3", by=me),
    }
