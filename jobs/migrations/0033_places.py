"""Rounds of dispatchers that look at what may go, and at little else.

Under a limit of its kind every tenant's best job was locked, though one place was free; and under
a rate per key each round put as many jobs aside as there were places, only to look at them again
at the next token: some twenty writes for each job that went.
"""

from django.db import migrations

# As it was, but for: fewer lanes and fewer jobs of each are looked at where there is little room;
# kinds whose only key has no token left rest until the next; a round in vain writes nothing.
DISPATCH = """
CREATE OR REPLACE FUNCTION jobs_dispatch(q text, budget int, max_lanes int, weights jsonb)
RETURNS TABLE (id uuid, timeout float8) LANGUAGE plpgsql VOLATILE
-- A plan cached while the table was empty must not scan it once it is full.
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  now_ timestamptz := jobs_clock();
  seen text;
  lanes text[];
  more text[];
  closed text[];
  tenants int;
  share int;
  scopes text[] := '{}';
  rooms int[] := '{}';
  has_rooms boolean;
  picked uuid[];
  keyed boolean;
  limited boolean;
  window_end text;
  last_tenant text;
  last_round timestamptz;
  held jobs_limiter;
  heaviest int;
BEGIN
  SELECT lane_cursor, dispatched_at INTO seen, last_round FROM jobs_queue WHERE name = q
    FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  SELECT coalesce(array_agg(c.scope), '{}') INTO closed FROM jobs_closure c
    WHERE c.until IS NULL OR c.until > now_;
  IF 'queue:' || q = ANY (closed) THEN
    RETURN;
  END IF;

  -- 1. The lanes that have something ready, from behind the last tenant served, round about.
  WITH RECURSIVE after AS (
    (SELECT j.lane, 1 AS n FROM jobs_job j
      WHERE j.queue = q AND j.state = 'pending' AND j.wait = 0 AND j.lane > seen
      ORDER BY j.lane LIMIT 1)
    UNION ALL
    SELECT (SELECT j.lane FROM jobs_job j
      WHERE j.queue = q AND j.state = 'pending' AND j.wait = 0 AND j.lane > a.lane
      ORDER BY j.lane LIMIT 1), a.n + 1
    FROM after a WHERE a.lane IS NOT NULL AND a.n < max_lanes)
  SELECT coalesce(array_agg(lane ORDER BY lane), '{}') INTO lanes FROM after WHERE lane IS NOT NULL;
  IF cardinality(lanes) < max_lanes AND seen <> '' THEN
    WITH RECURSIVE before AS (
      (SELECT j.lane, 1 AS n FROM jobs_job j
        WHERE j.queue = q AND j.state = 'pending' AND j.wait = 0 AND j.lane > ''
        ORDER BY j.lane LIMIT 1)
      UNION ALL
      SELECT (SELECT j.lane FROM jobs_job j
        WHERE j.queue = q AND j.state = 'pending' AND j.wait = 0 AND j.lane > b.lane
        ORDER BY j.lane LIMIT 1), b.n + 1
      FROM before b WHERE b.lane IS NOT NULL AND b.lane <= seen AND b.n < max_lanes)
    SELECT coalesce(array_agg(lane ORDER BY lane), '{}') INTO more FROM before WHERE lane <= seen;
    lanes := lanes || more[1:max_lanes - cardinality(lanes)];
  END IF;
  IF cardinality(lanes) = 0 THEN
    RETURN;
  END IF;
  window_end := split_part(lanes[cardinality(lanes)], E'\\x1f', 1);
  IF cardinality(closed) > 0 THEN
    lanes := ARRAY(SELECT l FROM unnest(lanes) WITH ORDINALITY AS u(l, n)
      WHERE NOT 'tenant:' || split_part(l, E'\\x1f', 1) = ANY (closed)
        AND NOT 'kind:' || split_part(l, E'\\x1f', 2) = ANY (closed) ORDER BY n);
  END IF;
  SELECT count(DISTINCT split_part(l, E'\\x1f', 1)) INTO tenants FROM unnest(lanes) AS u(l);

  -- 2. How many may start: the queue's limit and rate, and those of the lanes' kinds.
  has_rooms := EXISTS (SELECT 1 FROM jobs_limiter);
  IF has_rooms AND tenants > 0 THEN
    SELECT array_agg(r.scope), array_agg(r.room) INTO scopes, rooms FROM jobs_rooms(ARRAY(
      SELECT DISTINCT 'kind:' || split_part(l, E'\\x1f', 2) FROM unnest(lanes) AS u(l))
      || ('queue:' || q)) r;
    scopes := coalesce(scopes, '{}');
    rooms := coalesce(rooms, '{}');
    budget := least(budget, coalesce(rooms[array_position(scopes, 'queue:' || q)], budget));
    -- Of a kind whose only key is out of tokens, as many are looked at as tokens have come since;
    -- jobs of other keys are looked for as well, four times a second.
    IF floor(extract(epoch FROM last_round) * 4) = floor(extract(epoch FROM now_) * 4) THEN
      FOR held IN SELECT * FROM jobs_limiter m WHERE m.per_second > 0 AND m.held_at IS NOT NULL
        AND m.scope IN (SELECT 'key:' || split_part(l, E'\\x1f', 2) FROM unnest(lanes) AS u(l))
      LOOP
        scopes := 'kind:' || substr(held.scope, 5) || scopes;
        rooms := CASE WHEN held.held_at > now_ THEN 0 ELSE least(1 + floor(held.per_second
            * extract(epoch FROM now_ - held.held_at)), 1000000,
          rooms[array_position(scopes[2:], scopes[1])])::int END || rooms;
      END LOOP;
    END IF;
    -- A tenant's turn is at least one job: of more tenants than there is room for, the last would
    -- be looked at in vain.
    SELECT coalesce(array_agg(l ORDER BY n), '{}'), count(DISTINCT split_part(l, E'\\x1f', 1))
      INTO more, tenants
      FROM (SELECT l, n, split_part(l, E'\\x1f', 2) AS kind, row_number() OVER
          (PARTITION BY split_part(l, E'\\x1f', 2) ORDER BY n) AS nth
        FROM unnest(lanes) WITH ORDINALITY AS u(l, n)) k
      WHERE nth <= coalesce(rooms[array_position(scopes, 'kind:' || kind)], 1000000);
    IF cardinality(more) > 0 THEN
      window_end := split_part(more[cardinality(more)], E'\\x1f', 1);
    END IF;
    lanes := more;
  END IF;

  -- 3. Who: of each tenant in turn its best, as far as the kinds have room.
  IF tenants > 0 AND budget > 0 THEN
    heaviest := greatest(1, (SELECT max(value::int) FROM jsonb_each_text(weights)));
    share := greatest(1, ceil(budget::numeric / tenants)) * heaviest;
    WITH pick AS MATERIALIZED (
      SELECT p.id, p.rank, split_part(o.lane, E'\\x1f', 1) AS tenant,
        split_part(o.lane, E'\\x1f', 2) AS kind, o.n AS place, p.keyed, p.limited
      FROM (SELECT l AS lane, n, rooms[array_position(scopes, 'kind:' || split_part(l, E'\\x1f', 2))]
            * heaviest::float8 / count(*) OVER (PARTITION BY split_part(l, E'\\x1f', 2)) AS room
          FROM unnest(lanes) WITH ORDINALITY AS u(l, n)) o CROSS JOIN LATERAL (
        SELECT j.id, j.rank, j.exclusive_key IS NOT NULL AS keyed,
          j.limit_key IS NOT NULL AS limited
        FROM jobs_job j
        WHERE j.queue = q AND j.state = 'pending' AND j.wait = 0 AND j.lane = o.lane
        ORDER BY j.rank, j.id LIMIT least(share, ceil(o.room))::int
        FOR NO KEY UPDATE SKIP LOCKED) p),
    -- Also under a limit of their kind tenants take turns: a flood of one is older than the rest.
    ordered AS (
      SELECT pick.*, (row_number() OVER (PARTITION BY pick.tenant, pick.kind
          ORDER BY pick.rank, pick.id) - 1) / coalesce((weights ->> pick.tenant)::int, 1) AS lap
      FROM pick),
    fitting AS (
      SELECT * FROM (SELECT ordered.*, row_number() OVER (PARTITION BY ordered.kind
          ORDER BY ordered.lap, ordered.place, ordered.rank, ordered.id) AS nth_of_kind
        FROM ordered) k
      WHERE NOT has_rooms OR nth_of_kind
        <= coalesce(rooms[array_position(scopes, 'kind:' || k.kind)], 1000000)),
    turns AS (
      SELECT f.*, (row_number() OVER (PARTITION BY f.tenant ORDER BY f.rank, f.id) - 1)
        / coalesce((weights ->> f.tenant)::int, 1) AS turn,
        min(f.place) OVER (PARTITION BY f.tenant) AS tenant_place
      FROM fitting f),
    best AS (SELECT * FROM turns ORDER BY turn, tenant_place, rank, turns.id LIMIT budget)
    SELECT array_agg(b.id ORDER BY b.turn, b.tenant_place, b.rank, b.id),
      bool_or(b.keyed), bool_or(b.limited),
      (array_agg(b.tenant ORDER BY b.turn DESC, b.tenant_place DESC))[1]
      INTO picked, keyed, limited, last_tenant FROM best b;
  END IF;
  -- A space sorts behind the separator: behind all lanes of that tenant.
  UPDATE jobs_queue SET dispatched_at = now_, lane_cursor = coalesce(last_tenant, window_end) || ' '
    WHERE name = q AND (picked IS NOT NULL OR dispatched_at IS NULL
      OR dispatched_at < now_ - interval '0.1 s'
      OR lane_cursor <> coalesce(last_tenant, window_end) || ' ');
  IF picked IS NULL THEN
    RETURN;
  END IF;
  IF keyed THEN
    picked := jobs_take_slots(picked, closed);
  END IF;
  IF limited THEN
    picked := jobs_take_limits(picked);
  END IF;

  -- 4. They go.
  RETURN QUERY
  WITH moved AS (
    UPDATE jobs_job j SET state = 'queued', queued_at = now_, moved_by = 'dispatcher'
    WHERE j.id = ANY (picked) RETURNING j.id, j.timeout, j.kind),
  paid AS (
    UPDATE jobs_limiter m SET tokens = m.tokens - u.n FROM (
      SELECT 'kind:' || kind AS scope, count(*) AS n FROM moved WHERE has_rooms GROUP BY kind
      UNION ALL SELECT 'queue:' || q, count(*) FROM moved WHERE has_rooms) u
    WHERE m.scope = u.scope AND m.per_second IS NOT NULL)
  SELECT m.id, m.timeout FROM moved m JOIN unnest(picked) WITH ORDINALITY AS p(id, n)
    ON p.id = m.id ORDER BY p.n;
END $$;
"""

LIMITS = """
-- The same for limits per key. Where a rate is to blame, the job gets the moment at which its
-- turn comes; where too many run, it waits until one ends.
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
          WHEN EXISTS (SELECT 1 FROM jobs_limiter m WHERE m.scope = 'key:' || kind) THEN 0
          ELSE 1000000 END) AS nth
    FROM jobs_job WHERE id = ANY (picked) AND limit_key IS NOT NULL) j;
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
    DELETE FROM jobs_slot s USING unnest(ids, nths) AS u(id, nth)
    WHERE u.nth > 0 AND s.job_id = u.id RETURNING s.key),
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

# What every round asks, with a plan that lasts: thinking about it took longer than doing it.
ROUND = """
CREATE FUNCTION jobs_promote(most int) RETURNS int LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  promoted int := 0;
BEGIN
  IF EXISTS (SELECT 1 FROM jobs_job WHERE state = 'pending' AND wait = 1
      AND run_at <= jobs_clock()) THEN
    WITH due AS MATERIALIZED (SELECT id FROM jobs_job
      WHERE state = 'pending' AND wait = 1 AND run_at <= jobs_clock()
      ORDER BY run_at LIMIT most FOR NO KEY UPDATE SKIP LOCKED)
    UPDATE jobs_job j SET wait = 0 FROM due WHERE j.id = due.id;
    GET DIAGNOSTICS promoted = ROW_COUNT;
  END IF;
  RETURN promoted;
END $$;

-- Seconds until the next job's time comes, until a bucket that was emptied holds what one round
-- may take, and until a kind whose key was out of tokens is looked at again: the shortest of them.
CREATE FUNCTION jobs_next_round(rated_keys text[]) RETURNS float8 LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  now_ timestamptz := jobs_clock();
BEGIN
  RETURN least(
    (SELECT extract(epoch FROM min(run_at) - now_)::float8 FROM jobs_job
      WHERE state = 'pending' AND wait = 1),
    (SELECT min((enough - have) / per_second) FROM (
      SELECT per_second, greatest(1, least(burst, per_second * 0.02)) AS enough,
        tokens + per_second * extract(epoch FROM now_ - refilled_at)::float8 AS have
      FROM jobs_limiter WHERE scope >= 'kind' AND per_second > 0
        AND (closed_until IS NULL OR closed_until <= now_)) AS bucket WHERE have < enough),
    (SELECT extract(epoch FROM min(held_at) - now_)::float8 FROM jobs_limiter
      WHERE scope = ANY (rated_keys) AND held_at > now_));
END $$;
"""
UNROUND = "DROP FUNCTION jobs_promote(int); DROP FUNCTION jobs_next_round(text[]);"


class Migration(migrations.Migration):
    dependencies = [("jobs", "0032_plans")]

    operations = [
        migrations.RunSQL(DISPATCH, migrations.RunSQL.noop),
        migrations.RunSQL(LIMITS, migrations.RunSQL.noop),
        migrations.RunSQL(ROUND, UNROUND),
    ]
