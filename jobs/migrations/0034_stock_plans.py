"""Plans that a stock server makes cheaply, too: an index for each read, and no compiling.

Functions that look jobs up by id forbid the planner to read whole tables. Two small tables had
no index for what was asked of them. Before PostgreSQL 18 a forbidden scan that cannot be avoided
has a cost of 1e10, and a statement that seems so expensive is compiled: some 50 to 170 ms per
session and statement.
"""

from importlib import import_module

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models import Q

# As it was, but for: a key's slot is found by the key; and where the row of a key was removed just
# now, nothing goes before it is there again ("kind" was the column of the wrong table).
LIMITS = """
CREATE OR REPLACE FUNCTION jobs_take_limits(picked uuid[]) RETURNS uuid[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  ids uuid[];
  scopes text[];
  nths int[];
  rooms int[];
BEGIN
  INSERT INTO jobs_limiter (scope, kind, key, at_once, per_second, burst, tokens, refilled_at,
      is_declared)
    SELECT DISTINCT ON (1) 'key:' || j.kind || '|' || j.limit_key, j.kind, j.limit_key, m.at_once,
      m.per_second, m.burst, m.burst, jobs_clock(), m.is_declared
    FROM jobs_job j JOIN jobs_limiter m ON m.scope = 'key:' || j.kind
    WHERE j.id = ANY (picked) AND j.limit_key IS NOT NULL ORDER BY 1
    ON CONFLICT (scope) DO NOTHING;
  SELECT array_agg(r.scope), array_agg(r.room) INTO scopes, rooms FROM jobs_rooms(ARRAY(
    SELECT DISTINCT 'key:' || kind || '|' || limit_key FROM jobs_job
    WHERE id = ANY (picked) AND limit_key IS NOT NULL)) r;
  SELECT array_agg(j.id), array_agg(j.nth) INTO ids, nths FROM (
    SELECT id, row_number() OVER (PARTITION BY kind, limit_key ORDER BY rank, id)
        -- A row that was removed just now will be there in the next round.
        - coalesce(rooms[array_position(scopes, 'key:' || kind || '|' || limit_key)], CASE
          WHEN EXISTS (SELECT 1 FROM jobs_limiter m WHERE m.scope = 'key:' || w.kind) THEN 0
          ELSE 1000000 END) AS nth
    FROM jobs_job w WHERE id = ANY (picked) AND limit_key IS NOT NULL) j;
  UPDATE jobs_limiter m SET tokens = m.tokens - u.n FROM (
    SELECT 'key:' || j.kind || '|' || j.limit_key AS scope, count(*) AS n
    FROM jobs_job j JOIN unnest(ids, nths) AS t(id, nth) USING (id) WHERE t.nth <= 0 GROUP BY 1) u
    WHERE m.scope = u.scope AND m.per_second IS NOT NULL;
  -- Where all were of one key that has no token left, the kind is not looked at before the next.
  -- Whoever changes limits now goes first: this row comes before its keys in the order of locks.
  WITH one AS MATERIALIZED (SELECT j.kind, min(j.limit_key) AS key, bool_or(t.nth > 0) AS in_vain
      FROM jobs_job j LEFT JOIN unnest(ids, nths) AS t(id, nth) USING (id)
      WHERE j.id = ANY (picked) GROUP BY j.kind
      HAVING count(*) = count(j.limit_key) AND count(DISTINCT j.limit_key) = 1),
    empty AS MATERIALIZED (SELECT k.scope, jobs_clock() + (1 - m.tokens) / m.per_second
          * interval '1 s' AS until
      FROM one JOIN jobs_limiter m ON m.scope = 'key:' || one.kind || '|' || one.key
        JOIN jobs_limiter k ON k.scope = 'key:' || one.kind
      WHERE m.per_second > 0 AND m.tokens < 1
        AND (one.in_vain OR k.held_at > jobs_clock() - interval '1 s')
      FOR NO KEY UPDATE OF k SKIP LOCKED)
  UPDATE jobs_limiter k SET held_at = empty.until FROM empty WHERE k.scope = empty.scope;
  UPDATE jobs_job j SET wait = CASE WHEN t.at IS NULL THEN 2 ELSE 1 END,
    run_at = coalesce(t.at, j.run_at)
    FROM (SELECT w.id, CASE WHEN m.closed_until > jobs_clock() THEN m.closed_until
        WHEN m.tokens < u.nth THEN jobs_clock() + (u.nth - m.tokens) / m.per_second
          * interval '1 s' END AS at
      FROM unnest(ids, nths) AS u(id, nth) JOIN jobs_job w USING (id)
        JOIN jobs_limiter m ON m.scope = 'key:' || w.kind || '|' || w.limit_key
      WHERE u.nth > 0) t
    WHERE t.id = j.id;
  -- Whoever has no place here must not keep an exclusive key from others.
  WITH given_up AS (
    DELETE FROM jobs_slot s USING unnest(ids, nths) AS u(id, nth) JOIN jobs_job w USING (id)
    WHERE u.nth > 0 AND s.key = w.exclusive_key AND s.job_id = w.id RETURNING s.key),
  best AS MATERIALIZED (
    SELECT w.id FROM given_up g CROSS JOIN LATERAL (SELECT j.id FROM jobs_job j
      WHERE j.exclusive_key = g.key AND j.state = 'pending' AND j.wait = 2
        AND NOT j.id = ANY (ids)
      ORDER BY j.preempts DESC, j.rank, j.id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) w)
  UPDATE jobs_job j SET wait = 0 FROM best WHERE j.id = best.id;
  RETURN ARRAY(SELECT p FROM unnest(picked) WITH ORDINALITY AS u(p, n)
    LEFT JOIN unnest(ids, nths) AS t(id, nth) ON t.id = p
    WHERE coalesce(t.nth, 0) <= 0 ORDER BY n);
END $$;
"""

# What processes call directly; what these call runs with their settings.
ENTRIES = (
    "jobs_claim(uuid[], text, uuid, uuid, text)",
    "jobs_succeed(uuid[], uuid[], jsonb, text)",
    "jobs_follow(uuid[])",
    "jobs_dispatch(text, int, int, jsonb)",
    "jobs_promote(int)",
    "jobs_next_round(text[])",
    "jobs_preempt(int)",
    "jobs_wake_keys(text[])",
    "jobs_resolve(uuid[])",
    "jobs_relay_pick(int)",
    "jobs_relay_publish(bigint[])",
)


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("jobs", "0033_places")]

    operations = [
        AddIndexConcurrently(
            model_name="closure",
            index=models.Index(fields=["until", "scope"], name="jobs_closure_until"),
        ),
        AddIndexConcurrently(
            model_name="limiter",
            index=models.Index(
                fields=["closed_until"],
                condition=Q(closed_until__isnull=False),
                name="jobs_limiter_closed",
            ),
        ),
        migrations.RunSQL(LIMITS, import_module("jobs.migrations.0033_places").LIMITS),
        *(
            migrations.RunSQL(
                f"ALTER FUNCTION {function} SET jit = off", f"ALTER FUNCTION {function} RESET jit"
            )
            for function in ENTRIES
        ),
        # Called within others and by themselves: their plans are those of whoever came first.
        *(
            migrations.RunSQL(
                f"ALTER FUNCTION {function} SET enable_seqscan = off",
                f"ALTER FUNCTION {function} RESET enable_seqscan",
            )
            for function in ("jobs_follow(uuid[])", "jobs_wake_keys(text[])")
        ),
    ]
