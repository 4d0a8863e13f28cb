"""Pauses of limit keys, rates that hold jobs back, and several breakers entered at once."""

from __future__ import annotations

from importlib import import_module

from django.db import migrations, models

flow = import_module("jobs.migrations.0006_flow_functions")
expiry = import_module("jobs.migrations.0040_expiry_of_started")
plans = import_module("jobs.migrations.0034_stock_plans")

# A rate holds jobs back from the first that finds no token until none has for a minute. Whoever
# calls this has the limits' rows locked.
NOTE = """
CREATE FUNCTION jobs_note_rates(scopes text[]) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  IF cardinality(scopes) = 0 THEN
    RETURN;
  END IF;
  UPDATE jobs_limiter m SET rated_at = jobs_clock(),
    rated_since = CASE WHEN m.rated_at > jobs_clock() - interval '1 minute' THEN m.rated_since
      ELSE jobs_clock() END
  WHERE m.scope = ANY (scopes)
    AND (m.rated_at IS NULL OR m.rated_at <= jobs_clock() - interval '1 s');
END $$;
CREATE FUNCTION jobs_tell_rate() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO jobs_outbox (topic, key, audience, payload)
  VALUES ('jobs.limit.rate_reached', 'limit:' || NEW.scope, 'staff',
    jsonb_build_object('scope', NEW.scope, 'per_second', NEW.per_second, 'burst', NEW.burst));
  RETURN NULL;
END $$;
CREATE TRIGGER jobs_limiter_tell_rate AFTER UPDATE ON jobs_limiter FOR EACH ROW
  WHEN (NEW.rated_since IS DISTINCT FROM OLD.rated_since AND NEW.rated_since IS NOT NULL)
  EXECUTE FUNCTION jobs_tell_rate();

-- Jobs that may not start give up the exclusive keys that they have just been given; the best of
-- the others is woken. Those whose limit key is closed are not: they would wake each other in turn.
CREATE FUNCTION jobs_yield_keys(losers uuid[]) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  closed text[];
BEGIN
  IF cardinality(losers) = 0 THEN
    RETURN;
  END IF;
  closed := jobs_closed();
  WITH given_up AS (
    DELETE FROM jobs_slot s USING jobs_job w
    WHERE w.id = ANY (losers) AND s.key = w.exclusive_key AND s.job_id = w.id RETURNING s.key),
  best AS MATERIALIZED (
    SELECT w.id FROM given_up g CROSS JOIN LATERAL (SELECT j.id FROM jobs_job j
      WHERE j.exclusive_key = g.key AND j.state = 'pending' AND j.wait = 2
        AND NOT j.id = ANY (losers)
        AND NOT coalesce('limit_key:' || j.limit_key = ANY (closed), false)
      ORDER BY j.preempts DESC, j.rank, j.id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) w)
  UPDATE jobs_job j SET wait = 0 FROM best WHERE j.id = best.id;
END $$;
"""
UNNOTE = """
DROP TRIGGER jobs_limiter_tell_rate ON jobs_limiter; DROP FUNCTION jobs_tell_rate();
DROP FUNCTION jobs_note_rates(text[]); DROP FUNCTION jobs_yield_keys(uuid[]);
"""

# All breakers of a block are entered by one statement. Where all of them are closed, which is usual,
# nothing is locked or written. Of those that are not, the due ones are probed only if none of the
# others forbids the call.
ENTER = """
CREATE FUNCTION jobs_enter_breakers(names text[], probes uuid[], lasting float8[])
RETURNS TABLE (name text, state text, is_probe boolean, wait float8, failures int)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
  probed text[] := '{}';
BEGIN
  IF EXISTS (SELECT 1 FROM jobs_breaker b WHERE b.name = ANY (names) AND b.state <> 'closed') THEN
    PERFORM 1 FROM jobs_breaker b WHERE b.name = ANY (names) ORDER BY b.name FOR NO KEY UPDATE;
    IF NOT EXISTS (SELECT 1 FROM jobs_breaker b WHERE b.name = ANY (names)
        AND b.state <> 'closed' AND b.retry_at > jobs_clock()) THEN
      WITH due AS (
        UPDATE jobs_breaker b SET state = 'half_open', probe_token = g.probe,
          retry_at = jobs_clock() + g.lasts * interval '1 s'
        FROM unnest(names, probes, lasting) AS g(name, probe, lasts)
        WHERE b.name = g.name AND b.state <> 'closed' RETURNING b.name)
      SELECT coalesce(array_agg(due.name), '{}') INTO probed FROM due;
    END IF;
  END IF;
  RETURN QUERY SELECT b.name, b.state, b.name = ANY (probed),
    extract(epoch FROM b.retry_at - jobs_clock())::float8, b.failures
    FROM jobs_breaker b WHERE b.name = ANY (names);
END $$;
"""
UNENTER = "DROP FUNCTION jobs_enter_breakers(text[], uuid[], float8[]);"

# As it was, but for the note where a rate leaves no room.
ROOMS = """
CREATE OR REPLACE FUNCTION jobs_rooms(wanted text[]) RETURNS TABLE (scope text, room int)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  now_ timestamptz := jobs_clock();
  r jobs_limiter;
  live int;
BEGIN
  FOR r IN SELECT * FROM jobs_limiter m WHERE m.scope = ANY (wanted) ORDER BY m.scope FOR UPDATE
  LOOP
    scope := r.scope;
    room := 1000000;
    IF r.closed_until > now_ THEN
      room := 0;
    END IF;
    IF r.at_once IS NOT NULL THEN
      IF r.scope LIKE 'queue:%' THEN
        SELECT count(*) INTO live FROM jobs_job j
          WHERE j.queue = substr(r.scope, 7) AND j.state IN ('queued', 'running');
      ELSIF r.scope LIKE 'kind:%' THEN
        SELECT count(*) INTO live FROM jobs_job j
          WHERE j.kind = substr(r.scope, 6) AND j.state IN ('queued', 'running');
      ELSE
        SELECT count(*) INTO live FROM jobs_job j
          WHERE j.limit_key = r.key AND j.kind = r.kind AND j.state IN ('queued', 'running');
      END IF;
      room := least(room, greatest(0, r.at_once - live));
    END IF;
    IF r.per_second IS NOT NULL THEN
      -- Whoever waited for the lock has an older moment than who had it: time never goes back.
      UPDATE jobs_limiter m SET refilled_at = greatest(m.refilled_at, now_),
          tokens = least(m.burst, m.tokens + m.per_second
          * greatest(0, extract(epoch FROM now_ - coalesce(m.refilled_at, now_))))
        WHERE m.scope = r.scope RETURNING m.tokens INTO r.tokens;
      IF r.tokens < 0.999999 AND room > 0 THEN
        PERFORM jobs_note_rates(ARRAY[r.scope]);
      END IF;
      room := least(room, floor(r.tokens + 0.000001)::int);
    END IF;
    RETURN NEXT;
  END LOOP;
END $$;
"""

# As it was, but for: jobs whose limit key is closed are put aside until it is open again; a rate
# that holds jobs back is noted; exclusive keys are given up by a function of their own.
LIMITS = """
CREATE OR REPLACE FUNCTION jobs_take_limits(picked uuid[]) RETURNS uuid[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  ids uuid[];
  scopes text[];
  nths int[];
  rooms int[];
  barred uuid[];
BEGIN
  IF EXISTS (SELECT 1 FROM jobs_closure c WHERE starts_with(c.scope, 'limit_key:')) THEN
    -- Whoever opens the key again waits for this lock, and then sees the jobs put aside.
    WITH still AS MATERIALIZED (SELECT c.scope FROM jobs_closure c WHERE c.scope IN (
        SELECT 'limit_key:' || limit_key FROM jobs_job WHERE id = ANY (picked))
        AND (c.until IS NULL OR c.until > jobs_clock())
      ORDER BY c.scope FOR SHARE)
    SELECT array_agg(j.id) INTO barred FROM jobs_job j JOIN still
      ON still.scope = 'limit_key:' || j.limit_key WHERE j.id = ANY (picked);
    IF barred IS NOT NULL THEN
      UPDATE jobs_job SET wait = 2 WHERE id = ANY (barred);
      PERFORM jobs_yield_keys(barred);
      picked := ARRAY(SELECT p FROM unnest(picked) WITH ORDINALITY AS u(p, n)
        WHERE NOT p = ANY (barred) ORDER BY n);
    END IF;
  END IF;
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
  PERFORM jobs_note_rates(ARRAY(SELECT DISTINCT m.scope
    FROM unnest(ids, nths) AS u(id, nth) JOIN jobs_job w USING (id)
      JOIN jobs_limiter m ON m.scope = 'key:' || w.kind || '|' || w.limit_key
    WHERE u.nth > 0 AND m.tokens < u.nth AND m.per_second > 0
      AND (m.closed_until IS NULL OR m.closed_until <= jobs_clock())));
  PERFORM jobs_yield_keys(ARRAY(SELECT u.id FROM unnest(ids, nths) AS u(id, nth) WHERE u.nth > 0));
  RETURN ARRAY(SELECT p FROM unnest(picked) WITH ORDINALITY AS u(p, n)
    LEFT JOIN unnest(ids, nths) AS t(id, nth) ON t.id = p
    WHERE coalesce(t.nth, 0) <= 0 ORDER BY n);
END $$;
"""

# As it was, but for closed limit keys.
_EXCLUSIVE = "'key:' || j.exclusive_key)"
CLAIM = expiry.replaced(expiry._SET).replace(
    _EXCLUSIVE, "'key:' || j.exclusive_key, 'limit_key:' || j.limit_key)"
)


def _former_rooms() -> str:
    start = flow.DISPATCH.index("CREATE FUNCTION jobs_rooms")
    end = flow.DISPATCH.index("END $$;", start)
    text: str = flow.DISPATCH[start:end]
    return text.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION") + "END $$;"


class Migration(migrations.Migration):
    dependencies = [("jobs", "0043_meters")]

    operations = [
        migrations.AddField(
            model_name="limiter",
            name="rated_at",
            field=models.DateTimeField(null=True, verbose_name="rate held jobs back at"),
        ),
        migrations.AddField(
            model_name="limiter",
            name="rated_since",
            field=models.DateTimeField(null=True, verbose_name="rate holds jobs back since"),
        ),
        migrations.RunSQL(NOTE, UNNOTE),
        migrations.RunSQL(ROOMS, _former_rooms()),
        migrations.RunSQL(LIMITS, plans.LIMITS),
        migrations.RunSQL(CLAIM, expiry.replaced(expiry._SET)),
        migrations.RunSQL(ENTER, UNENTER),
    ]
