"""Keys: of jobs that count as the same, one enters; atomic under any race.

A key that is held while its job is unfinished lives on the row, under a partial unique index. A
key that is held for longer, or moves from job to job, lives in ``jobs_key``, whose row is locked by
the first that asks.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction

from jobs import sensitive
from jobs.engine import bulk, finds, sql
from jobs.engine.drafts import Entry
from jobs.engine.flow import PRIORITY_STEP_MS
from jobs.engine.pushes import after_commit
from jobs.errors import DuplicateJob, JobsError, KeyConflict
from jobs.limits import Unique

Insert = Callable[[Entry], bool]
"""Inserts the entry's row; False where its id or its unfinished key is taken."""
_TRIES = 20
_FORGOTTEN_AFTER = timedelta(days=1)


def admit(entry: Entry, insert: Insert) -> UUID | None:
    """None when the entry was inserted; otherwise the id of the job that has its key."""
    assert entry.unique is not None  # noqa: S101 - the caller has looked
    # Whoever asks has a transaction, which what is raised here rolls back: no savepoint.
    with transaction.atomic(using=sql.alias(), savepoint=False):
        if entry.unique.for_ == "unfinished":
            existing = _unfinished(entry, insert)
        elif entry.unique.for_ == "waiting":
            existing = _waiting(entry, insert)
        else:
            existing = _lasting(entry, entry.unique, insert)
    if existing is not None and entry.unique.on_conflict == "raise":
        _compare(entry, existing)
    return existing


def admit_many(entries: list[Entry], now: datetime) -> tuple[dict[UUID, UUID], list[Entry]]:
    """Which entries stand for earlier jobs, and which have to be looked at one by one.

    The rest is in. Looked at one by one is what may replace a waiting job, raises on another
    payload, has a chosen id, or met somebody who went away again.
    """
    first: dict[tuple[str, str, str], Entry] = {}
    for e in entries:
        assert e.unique is not None  # noqa: S101 - the caller has looked
        if e.unique.for_ != "waiting":
            first.setdefault((e.unique.key, e.kind, e.tenant), e)
    ours = _take_many([first[place] for place in sorted(first)])
    inserted = bulk.copy_new(ours, now) if ours else set()
    finds.write(e for e in ours if e.id in inserted)
    _give_back([e for e in ours if e.id not in inserted and e.unique_is_kept])
    left = [e for e in entries if e.id not in inserted]
    taken = _holders([e for e in left if _is_plain(e)])
    return taken, [e for e in left if e.id not in taken]


def _is_plain(e: Entry) -> bool:
    return e.unique is not None and e.unique.on_conflict == "return" and not e.chosen_id


_HOLDERS = """
SELECT t.id, coalesce(k.job_id, j.id)
FROM unnest(%s::text[], %s::text[], %s::text[], %s::uuid[], %s::boolean[])
  AS t(kind, tenant, key, id, kept)
LEFT JOIN jobs_key k ON t.kept AND (k.kind, k.tenant, k.key) = (t.kind, t.tenant, t.key)
  AND (k.expires_at IS NULL OR k.expires_at > jobs_clock())
LEFT JOIN jobs_job j ON NOT t.kept AND (j.kind, j.tenant, j.unique_key) = (t.kind, t.tenant, t.key)
  AND j.state IN ('blocked', 'pending', 'queued', 'running')
WHERE k.job_id IS NOT NULL OR j.id IS NOT NULL
"""


def _holders(entries: list[Entry]) -> dict[UUID, UUID]:
    """The jobs that have the entries' keys."""
    if not entries:
        return {}
    columns: list[list[object]] = [[], [], [], [], []]
    for e in entries:
        assert e.unique is not None  # noqa: S101
        row = (e.kind, e.tenant, e.unique.key, e.id, e.unique_is_kept)
        for column, value in zip(columns, row, strict=True):
            column.append(value)
    return dict(sql.bound_rows(_HOLDERS, columns))


_TAKE_MANY = """
INSERT INTO jobs_key AS k (kind, tenant, key, job_id, expires_at)
SELECT kind, tenant, key, id, jobs_clock() + keep * interval '1 s'
FROM unnest(%s::text[], %s::text[], %s::text[], %s::uuid[], %s::float8[])
  AS t(kind, tenant, key, id, keep)
ORDER BY key, kind, tenant
ON CONFLICT (kind, tenant, key) DO UPDATE SET job_id = EXCLUDED.job_id,
  expires_at = EXCLUDED.expires_at WHERE k.expires_at <= jobs_clock()
RETURNING job_id
"""


def _take_many(entries: list[Entry]) -> list[Entry]:
    """The entries that need no lasting key, or now have it."""
    kept = [e for e in entries if e.unique_is_kept]
    if not kept:
        return entries
    columns: list[list[object]] = [[], [], [], [], []]
    for e in kept:
        assert e.unique is not None  # noqa: S101
        window = e.unique.for_
        keep = window.total_seconds() if isinstance(window, timedelta) else None
        for column, value in zip(
            columns, (e.kind, e.tenant, e.unique.key, e.id, keep), strict=True
        ):
            column.append(value)
    taken = {row[0] for row in sql.bound_rows(_TAKE_MANY, columns)}
    return [e for e in entries if not e.unique_is_kept or e.id in taken]


def _give_back(entries: list[Entry]) -> None:
    """Keys taken for rows that could not be inserted are free again, for this transaction."""
    if entries:
        sql.run("DELETE FROM jobs_key WHERE job_id = ANY(%s)", [[e.id for e in entries]])


def holder(kind: str, tenant: str, key: str) -> UUID | None:
    """The unfinished job that holds the key on its row."""
    found = sql.bound_rows(
        "SELECT id FROM jobs_job WHERE kind = %s AND tenant = %s AND unique_key = %s "
        "AND state IN ('blocked', 'pending', 'queued', 'running')",
        [kind, tenant, key],
    )
    return found[0][0] if found else None


def is_there(job_id: UUID) -> bool:
    """Return whether the job has not been deleted."""
    return bool(sql.bound_rows("SELECT 1 FROM jobs_job WHERE id = %s", [job_id]))


def _unfinished(entry: Entry, insert: Insert) -> UUID | None:
    assert entry.unique is not None  # noqa: S101
    for _ in range(_TRIES):
        if insert(entry):
            return None
        if existing := holder(entry.kind, entry.tenant, entry.unique.key):
            return existing
        if entry.chosen_id and (found := _with_this_id(entry)):
            return found
        # The winner ended between our insert and our look.
    raise JobsError(f"the key {entry.unique.key!r} is contended without end")


_TAKE = """
INSERT INTO jobs_key AS k (kind, tenant, key, job_id, expires_at)
VALUES (%s, %s, %s, %s, jobs_clock() + %s)
ON CONFLICT (kind, tenant, key) DO UPDATE SET job_id = EXCLUDED.job_id,
  expires_at = EXCLUDED.expires_at WHERE k.expires_at <= jobs_clock()
RETURNING job_id
"""


def _lasting(entry: Entry, unique: Unique, insert: Insert) -> UUID | None:
    """The key is ours for its time or for ever; insert and key commit together."""
    window = unique.for_ if isinstance(unique.for_, timedelta) else None
    place = [entry.kind, entry.tenant, unique.key]
    if not sql.bound_rows(_TAKE, [*place, entry.id, window]):
        return _key_job(place)
    if insert(entry):
        return None
    # A job from before the key was kept, or an id that is taken: nothing new may be kept.
    existing = holder(*place) or _with_this_id(entry)
    if existing is None:
        raise JobsError(f"the key {unique.key!r} is contended without end")
    sql.run(
        "UPDATE jobs_key SET job_id = %s WHERE kind = %s AND tenant = %s AND key = %s",
        [existing, *place],
    )
    return existing


def _key_job(place: list[str]) -> UUID:
    [(job_id,)] = sql.bound_rows(
        "SELECT job_id FROM jobs_key WHERE kind = %s AND tenant = %s AND key = %s", place
    )
    found: UUID = job_id
    return found


def _with_this_id(entry: Entry) -> UUID | None:
    """The job with the entry's id, if there is one and it was enqueued with the same key."""
    assert entry.unique is not None  # noqa: S101
    found = sql.bound_rows(
        "SELECT (kind, tenant, unique_key) = (%s, %s, %s) FROM jobs_job WHERE id = %s",
        [entry.kind, entry.tenant, entry.unique.key, entry.id],
    )
    if not found:
        return None
    if not found[0][0]:
        raise DuplicateJob(entry.id)
    return entry.id


_HOLD = """
INSERT INTO jobs_key AS k (kind, tenant, key, job_id, expires_at)
VALUES (%s, %s, %s, %s, coalesce(%s::timestamptz, jobs_clock()) + %s)
ON CONFLICT (kind, tenant, key) DO UPDATE SET expires_at = EXCLUDED.expires_at
RETURNING job_id, xmax::text <> '0' AS was_there
"""

# Only a job that nobody has begun may be changed under the caller's hands. It is not put off for
# longer than the key allows from the moment at which it was made.
_REPLACE = """
WITH s AS MATERIALIZED (SELECT id, least(created_at + %s * interval '1 s',
    coalesce(%s::timestamptz, jobs_clock() + %s * interval '1 s')) AS at FROM jobs_job
  WHERE id = %s AND kind = %s AND tenant = %s AND state IN ('blocked', 'pending') AND attempt = 0
  FOR NO KEY UPDATE)
UPDATE jobs_job j SET payload = %s::jsonb, payload_version = %s, priority = %s, run_at = s.at,
  rank = (extract(epoch FROM s.at) * 1000)::bigint - %s,
  wait = CASE WHEN s.at > jobs_clock() THEN 1 ELSE 0 END
FROM s WHERE j.id = s.id RETURNING j.exclusive_key, j.wait
"""


def _waiting(entry: Entry, insert: Insert) -> UUID | None:
    """The job that waits under this key takes payload and time over; otherwise a new one."""
    assert entry.unique is not None  # noqa: S101
    place = [entry.kind, entry.tenant, entry.unique.key]
    keep = _FORGOTTEN_AFTER + timedelta(seconds=entry.delay)
    [(job_id, was_there)] = sql.bound_rows(_HOLD, [*place, entry.id, entry.run_at, keep])
    if was_there and _replace(entry, job_id):
        found: UUID = job_id
        return found
    if job_id != entry.id:
        sql.run(
            "UPDATE jobs_key SET job_id = %s WHERE kind = %s AND tenant = %s AND key = %s",
            [entry.id, *place],
        )
    if not insert(entry):
        raise DuplicateJob(entry.id)
    return None


def _replace(entry: Entry, job_id: UUID) -> bool:
    assert entry.unique is not None  # noqa: S101 - the caller has looked
    most = entry.unique.at_most
    latest = None if most is None else most.total_seconds()
    weight = entry.priority * PRIORITY_STEP_MS
    text = _text_for(entry, job_id)
    place = [latest, entry.run_at, entry.delay, job_id, entry.kind, entry.tenant]
    values = [text, entry.version, entry.priority, weight]
    found = sql.bound_rows(_REPLACE, [*place, *values])
    if found and found[0][0] is not None and found[0][1] > 0:
        _make_way(job_id, found[0][0])
    if found:
        finds.rewrite(entry, job_id)
    return bool(found)


def _make_way(job_id: UUID, exclusive: str) -> None:
    """It may have been the next to get its exclusive key; those who wait longer must not wait."""
    sql.run("DELETE FROM jobs_slot WHERE key = %s AND job_id = %s", [exclusive, job_id])
    if not sql.rows("SELECT 1 FROM jobs_slot WHERE key = %s", [exclusive]):
        sql.rows("SELECT jobs_wake_keys(%s)", [[exclusive]])
        after_commit(None)


def _text_for(entry: Entry, job_id: UUID) -> str:
    """The entry's payload as the row of another job may hold it."""
    source = sensitive.place_of(entry.text, entry.id, entry.tenant)
    target = sensitive.place_of(entry.text, job_id, entry.tenant)
    return sensitive.moved(entry.text, source, target) if source and target else entry.text


def _compare(entry: Entry, existing: UUID) -> None:
    found = sql.bound_rows("SELECT payload::text FROM jobs_job WHERE id = %s", [existing])
    if found and _clear(found[0][0], existing, entry.tenant) != _clear(
        entry.text, entry.id, entry.tenant
    ):
        assert entry.unique is not None  # noqa: S101
        raise KeyConflict(entry.unique.key, existing)


def _clear(text: str, job_id: UUID, tenant: str) -> object:
    """The payload for a comparison: sealed twice, the same value looks different."""
    return json.loads(sensitive.opened(text, sensitive.place_of(text, job_id, tenant)))
