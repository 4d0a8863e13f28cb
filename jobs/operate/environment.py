"""The surroundings: servers, settings and processes on which the jobs depend.

Nothing is written but keys of its own in Redis, which are removed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from django.db import Error
from django.db.migrations.loader import MigrationLoader

from jobs import conf, versions
from jobs.engine import capacity, presence, rq, sql
from jobs.operate import depths

Level = Literal["ok", "warning", "error"]

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
    yield _connections()
    yield from _migrations()
    yield _oldest_transaction()
    yield _clock()
    yield from _redis()
    yield from _processes()
    yield from _circuits()


def _server() -> Iterator[Finding]:
    [(version, fsync, commit)] = sql.rows(
        "SELECT current_setting('server_version'), "
        "current_setting('fsync'), current_setting('synchronous_commit')"
    )
    yield _version("postgresql", "PostgreSQL", version, versions.POSTGRESQL)
    detail = f"fsync {fsync}, synchronous_commit {commit}"
    if "off" in (fsync, commit):
        remedy = "a crash of the server may forget committed jobs: switch both on"
        yield Finding("durability", "warning", detail, remedy)
    else:
        yield Finding("durability", "ok", detail)
    yield from _rights()


def _rights() -> Iterator[Finding]:
    [(recovers, read_only, temporary)] = sql.rows(
        "SELECT pg_is_in_recovery(), current_setting('transaction_read_only')::boolean, "
        "has_database_privilege(current_database(), 'TEMP')"
    )
    if recovers:
        remedy = "jobs wait until it is promoted, or until DATABASES names the primary"
        yield Finding("writable", "error", "the server is a standby", remedy)
    elif read_only:
        remedy = "jobs wait until default_transaction_read_only is off"
        yield Finding("writable", "error", "transactions are read-only", remedy)
    else:
        yield Finding("writable", "ok", "transactions can write")
    if not temporary:
        remedy = "GRANT TEMPORARY ON DATABASE …: enqueue_many of unique jobs needs it"
        yield Finding("temporary_tables", "error", "the role may not create them", remedy)


_CONNECTIONS = """
SELECT least(current_setting('max_connections')::int
    - current_setting('superuser_reserved_connections')::int
    - coalesce(current_setting('reserved_connections', true)::int, 0),
  (SELECT nullif(datconnlimit, -1) FROM pg_database WHERE datname = current_database()),
  (SELECT nullif(rolconnlimit, -1) FROM pg_roles WHERE rolname = session_user)),
  count(*) FILTER (WHERE a.application_name IS NULL OR a.application_name NOT LIKE %s),
  count(DISTINCT a.application_name) FILTER (WHERE a.application_name LIKE %s
    AND a.application_name NOT LIKE %s), pg_backend_pid()
FROM pg_stat_activity a WHERE datname IS NOT NULL AND pid <> pg_backend_pid()
  AND coalesce(backend_type, 'client backend') = 'client backend'
"""
_EXECUTORS = """
SELECT coalesce(sum(slots), 0)::int, count(*)::int, count(DISTINCT worker)::int FROM jobs_lease
WHERE dead_at IS NULL AND until > jobs_clock() AND NOT draining
"""


def _connections() -> Finding:
    """Compare what the live processes may hold with what the server has."""
    ours, workers = f"{presence.PREFIX}%", f"{presence.PREFIX}worker:%"
    [(available, others, services, pid)] = sql.rows(_CONNECTIONS, [ours, ours, workers])
    try:
        [(slots, executors, keepers)] = sql.rows(_EXECUTORS)
    except Error as error:
        return Finding("connections", "error", f"cannot be counted: {error}", "run migrate")
    fleet = services + slots + executors * capacity.of_executor(0) + keepers
    needed = fleet + others + 1
    detail = f"workers and dispatchers need {fleet}, others hold {others + 1}"
    if _backend_pid() != pid:
        return _through_pooler(detail)
    detail += f", {available} are available"
    if needed <= available:
        return Finding("connections", "ok", detail)
    remedy = (
        f"raise max_connections by {needed - available} or more, or lower --processes and "
        "--concurrency: a worker needs processes * (concurrency + 2) + 1"
    )
    return Finding("connections", "error", detail, remedy)


def _through_pooler(detail: str) -> Finding:
    detail += ", through a pooler"
    options = sql.connection().settings_dict["OPTIONS"]
    prepares = [
        name
        for name, is_on in (
            ("JOBS['PREPARE']", conf.settings().PREPARE),
            ("OPTIONS['prepare_threshold']", options.get("prepare_threshold") is not None),
        )
        if is_on
    ]
    if not prepares:
        return Finding("connections", "ok", detail)
    remedy = (
        f"unset {' and '.join(prepares)}, unless it pools sessions: prepared statements get lost"
    )
    return Finding("connections", "warning", detail, remedy)


def _backend_pid() -> int:
    """Return the process that serves us, as named when we connected; a pooler names another."""
    return int(sql.connection().connection.info.backend_pid)


def old_postgresql() -> str:
    """Return what is wrong with the server's version; nothing where all is well."""
    [(version,)] = sql.rows("SELECT current_setting('server_version')")
    return versions.too_old("PostgreSQL", version, versions.POSTGRESQL)


def _version(
    name: str, title: str, version: str, oldest: versions.Version, more: str = ""
) -> Finding:
    problem = versions.too_old(title, version, oldest)
    return Finding(name, "error" if problem else "ok", f"version {version}{more}", problem)


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
    except rq.Refused as error:
        remedy = "allow its user the command INFO, to have version and memory policy looked at"
        yield Finding("redis", "warning", f"reports nothing about itself: {error}", remedy)
    except (*rq.Unavailable, KeyError) as error:
        remedy = "jobs wait until it answers; none is lost"
        yield Finding("redis", "error", f"cannot be reached: {error}", remedy)
        return
    else:
        yield _version("redis", "Redis", info.version, versions.REDIS, f", {info.used}")
        yield _memory(info.policy)
    try:
        rq.rehearse()
        names = rq.live_dispatchers()
        yield Finding("redis_commands", "ok", "what moves ids runs")
        yield _stock_workers()
        yield _unknown_ids()
    except rq.Unavailable as error:
        detail = f"{type(error).__name__}: {error}"
        remedy = "no job is handed out: allow its user EVAL, EVALSHA, SCRIPT, keys jobs:* and rq:*"
        yield Finding("redis_commands", "error", detail, remedy)
        return
    except Error as error:
        yield Finding("redis_commands", "error", f"cannot be tried: {error}", "run migrate")
        return
    if names:
        yield Finding("dispatchers", "ok", f"{len(names)} live")
    else:
        yield Finding("dispatchers", "warning", "none live", "start manage.py jobs run or dispatch")


def _memory(policy: str) -> Finding:
    if policy == "noeviction":
        return Finding("redis_policy", "ok", policy)
    remedy = "set maxmemory-policy noeviction: an evicted list delays its jobs"
    return Finding("redis_policy", "warning", policy or "unknown", remedy)


def _stock_workers() -> Finding:
    """Look for workers of RQ itself, which run whatever stands in Redis."""
    names = rq.stock_workers()
    if not names:
        return Finding("rq_workers", "ok", "none of RQ's own workers beside ours")
    shown = ", ".join(name[:60] for name in names[:5]) + (", …" if len(names) > 5 else "")
    remedy = (
        "they run no job of ours, but call, and by default unpickle, what anybody writes into this "
        "Redis: name a Redis of its own in RQ_QUEUES[JOBS['CONNECTION']]"
    )
    return Finding("rq_workers", "warning", f"{len(names)} of RQ's own workers: {shown}", remedy)


_LISTS = 100
"""Lists, and ids of each, that are looked at."""
_UNKNOWN = """
SELECT i FROM unnest(%s::uuid[]) i WHERE NOT EXISTS (SELECT 1 FROM jobs_job WHERE id = i)
"""


def _unknown_ids() -> Finding:
    """Look for ids that another database has pushed into our lists."""
    names = [name for (name,) in sql.rows("SELECT name FROM jobs_queue LIMIT %s", [_LISTS])]
    found = {job_id for name in names for job_id in rq.listed(name, _LISTS)}
    unknown = sql.rows(_UNKNOWN, [list(found)])
    if not unknown:
        return Finding("redis_ids", "ok", "all are of jobs that are here")
    remedy = (
        "a copy of this database uses the same Redis, and each delays the jobs of the other: name "
        "a Redis of its own in RQ_QUEUES[JOBS['CONNECTION']]"
    )
    return Finding("redis_ids", "warning", f"{len(unknown)} are of no job that is here", remedy)


def _processes() -> Iterator[Finding]:
    try:
        [(executors, slots)] = sql.rows(
            "SELECT count(*), coalesce(sum(slots), 0)::int FROM jobs_lease "
            "WHERE dead_at IS NULL AND until > jobs_clock() AND NOT draining"
        )
        found = depths.by_queue(None)
        unheard = [d.name for d in found if d.waiting.value and not d.workers]
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


_OPEN = """
SELECT name, coalesce(to_char(opened_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI'), ''), last_error
FROM jobs_breaker WHERE state <> 'closed' ORDER BY length(name), name LIMIT 20
"""


def _circuits() -> Iterator[Finding]:
    try:
        found = sql.rows(_OPEN)
    except Error as error:
        yield Finding("circuits", "error", f"cannot be read: {error}", "run migrate")
        return
    if not found:
        yield Finding("circuits", "ok", "none is open")
    for name, since, why in found:
        remedy = (
            "mend what the error says: the jobs that wait go on when a probe passes, or at once "
            f"after manage.py jobs breakers close {name}"
        )
        yield Finding("circuits", "warning", f"{name} is open since {since} UTC: {why}", remedy)
