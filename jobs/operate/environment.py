"""The surroundings: servers, settings and processes on which the jobs depend. Reads only."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from django.db import Error
from django.db.migrations.loader import MigrationLoader

from jobs import conf, registry
from jobs.engine import rq, sql

Level = Literal["ok", "warning", "error"]

OLDEST_SERVER = 140000
OLD_TRANSACTION = 60.0
"""Seconds after which an open transaction slows the queue down: nothing it could still see is
vacuumed."""
CLOCK_TOLERANCE = 5.0


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found about one part of the surroundings."""

    name: str
    level: Level
    detail: str
    remedy: str = ""


def findings() -> Iterator[Finding]:
    """Every part of the surroundings, looked at one after another."""
    yield from _server()
    yield from _migrations()
    yield _oldest_transaction()
    yield _clock()
    yield from _redis()
    yield from _processes()


def _server() -> Iterator[Finding]:
    [(number, name, fsync, commit)] = sql.rows(
        "SELECT current_setting('server_version_num')::int, current_setting('server_version'), "
        "current_setting('fsync'), current_setting('synchronous_commit')"
    )
    if number < OLDEST_SERVER:
        yield Finding("postgresql", "error", f"version {name}", "PostgreSQL 14 or newer is needed")
    else:
        yield Finding("postgresql", "ok", f"version {name}")
    detail = f"fsync {fsync}, synchronous_commit {commit}"
    if "off" in (fsync, commit):
        remedy = "a crash of the server may forget committed jobs: switch both on"
        yield Finding("durability", "warning", detail, remedy)
    else:
        yield Finding("durability", "ok", detail)


def _migrations() -> Iterator[Finding]:
    loader = MigrationLoader(sql.connection())
    known = sorted(name for app, name in loader.disk_migrations if app == "jobs")
    missing = [name for name in known if ("jobs", name) not in loader.applied_migrations]
    if missing:
        yield Finding("migrations", "error", f"not applied: {', '.join(missing)}", "run migrate")
    else:
        yield Finding("migrations", "ok", "all applied")


def _oldest_transaction() -> Finding:
    found = sql.rows(
        "SELECT pid, coalesce(application_name, ''), "
        "extract(epoch FROM clock_timestamp() - xact_start)::float8 FROM pg_stat_activity "
        "WHERE xact_start IS NOT NULL AND pid <> pg_backend_pid() AND backend_type = "
        "'client backend' AND datname = current_database() ORDER BY xact_start LIMIT 1"
    )
    if not found or found[0][2] < OLD_TRANSACTION:
        age = f"{found[0][2]:.1f} s" if found else "none open"
        return Finding("oldest_transaction", "ok", age)
    pid, program, age = found[0]
    remedy = (
        "it keeps dead rows from being vacuumed and slows every claim: end it, and set "
        "idle_in_transaction_session_timeout"
    )
    detail = f"{age:.0f} s, process {pid} {program}".strip()
    return Finding("oldest_transaction", "warning", detail, remedy)


def _clock() -> Finding:
    before = time.time()
    [(theirs,)] = sql.rows("SELECT extract(epoch FROM clock_timestamp())::float8")
    ahead = theirs - (before + time.time()) / 2
    detail = f"the database's clock is {ahead:+.3f} s off this machine's"
    if abs(ahead) > CLOCK_TOLERANCE:
        remedy = "only the database's clock counts, but people will misread times: synchronise both"
        return Finding("clock", "warning", detail, remedy)
    return Finding("clock", "ok", detail)


def _redis() -> Iterator[Finding]:
    try:
        info = rq.server_info()
    except (*rq.Unavailable, KeyError) as error:
        remedy = "jobs wait until it answers; none is lost"
        yield Finding("redis", "error", f"cannot be reached: {error}", remedy)
        return
    yield Finding("redis", "ok", f"version {info.version}, {info.used}")
    if info.policy == "noeviction":
        yield Finding("redis_policy", "ok", "noeviction")
    else:
        remedy = "set maxmemory-policy noeviction: an evicted list delays its jobs"
        yield Finding("redis_policy", "warning", info.policy or "unknown", remedy)
    serializer = rq.serializer()
    if "JSON" in serializer:
        yield Finding("rq_serializer", "ok", serializer)
    else:
        remedy = "name rq.serializers.JSONSerializer in RQ_QUEUES: the default unpickles"
        yield Finding("rq_serializer", "warning", serializer or "pickle", remedy)
    names = rq.live_dispatchers()
    if names:
        yield Finding("dispatchers", "ok", f"{len(names)} live")
    else:
        yield Finding("dispatchers", "warning", "none live", "start manage.py jobs run or dispatch")


_UNHEARD = """
SELECT q FROM unnest(%s::text[]) AS q
WHERE EXISTS (SELECT 1 FROM jobs_job WHERE queue = q AND state = 'pending' AND wait = 0
  UNION ALL SELECT 1 FROM jobs_job WHERE queue = q AND state = 'queued')
AND NOT EXISTS (SELECT 1 FROM jobs_lease WHERE q = ANY (queues) AND dead_at IS NULL
  AND until > jobs_clock())
ORDER BY q
"""


def _processes() -> Iterator[Finding]:
    try:
        [(executors, slots)] = sql.rows(
            "SELECT count(*), coalesce(sum(slots), 0)::int FROM jobs_lease "
            "WHERE dead_at IS NULL AND until > jobs_clock() AND NOT draining"
        )
        names = {name for (name,) in sql.rows("SELECT name FROM jobs_queue LIMIT 10000")}
        names |= {handler.queue for handler in registry.handlers()}
        names.add(conf.settings().DEFAULT_QUEUE)
        unheard = [name for (name,) in sql.rows(_UNHEARD, [sorted(names)])]
    except Error as error:
        yield Finding("executors", "error", f"cannot be counted: {error}", "run migrate")
        return
    if executors:
        yield Finding("executors", "ok", f"{executors} live with {slots} slots")
    else:
        yield Finding("executors", "warning", "none live", "start manage.py jobs run or worker")
    if unheard:
        remedy = "start a worker that listens to them: manage.py jobs worker --queues …"
        yield Finding("queues", "warning", f"work and no executor: {', '.join(unheard)}", remedy)
    else:
        yield Finding("queues", "ok", "no work waits where nobody listens")
