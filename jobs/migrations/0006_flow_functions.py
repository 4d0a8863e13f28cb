"""Flow control in the database: admission in one round trip, and what follows when a job moves."""

from importlib import import_module

from django.db import migrations

dispatch = import_module("jobs.migrations.0003_dispatch")
enqueue = import_module("jobs.migrations.0004_enqueue")

# A lane is a tenant and a kind: tenants take turns, and within a tenant's turn the lowest rank
# goes first. The separator is a control character, which neither may contain.
ENQUEUE = """
DROP FUNCTION jobs_enqueue(uuid, text, text, text, int, text, int, text, text[], timestamptz,
  float8, int, timestamptz, float8, int, float8, float8, text);
CREATE FUNCTION jobs_enqueue(
  job uuid, kind_ text, queue_ text, state_ text, priority_ int, payload_ text, version int,
  tenant_ text, tags_ text[], at timestamptz, delay float8, weight int, expires timestamptz,
  expires_in float8, attempts int, timeout_ float8, lease_ float8, correlation text,
  flow_ int, unique_ text, exclusive text, limit_ text, preempts_ boolean, preemptible_ boolean,
  batch uuid, parents int, parent uuid
) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  now_ timestamptz := jobs_clock();
  start timestamptz := now_;
BEGIN
  IF at IS NOT NULL THEN
    start := at;
  ELSIF delay > 0 THEN
    start := now_ + delay * interval '1 s';
  END IF;
  INSERT INTO jobs_job (id, kind, queue, state, priority, payload, payload_version, tenant, tags,
    lane, created_at, run_at, rank, wait, expires_at, queued_at, max_attempts, timeout, lease,
    correlation_id, flow, unique_key, exclusive_key, limit_key, preempts, preemptible, batch_id,
    open_parents, parent_id)
  VALUES (job, kind_, queue_, state_, priority_, payload_::jsonb, version, tenant_, tags_,
    tenant_ || E'\\x1f' || kind_, now_, start,
    (extract(epoch FROM start) * 1000)::bigint - priority_ * weight,
    CASE WHEN start > now_ THEN 1 ELSE 0 END,
    coalesce(expires, now_ + expires_in * interval '1 s'),
    CASE WHEN state_ = 'queued' THEN now_ END, attempts, timeout_, lease_, correlation,
    flow_, unique_, exclusive, limit_, preempts_, preemptible_, batch, parents, parent)
  ON CONFLICT DO NOTHING;
  RETURN FOUND;
END $$
"""

# What a finished, retried or withdrawn job owes to others, in the transaction that moves it.
# ``moved`` are jobs whose row has its new state already. flow: 1 exclusive key, 8 batch,
# 16 has children, 64 limit key.
FOLLOW = """
CREATE FUNCTION jobs_follow(moved uuid[]) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  bits int;
  all_bits int;
  frontier uuid[];
BEGIN
  SELECT bit_or(flow) INTO bits FROM jobs_job WHERE id = ANY (moved);
  IF bits & 1 > 0 THEN
    PERFORM jobs_pass_on_slots(moved);
  END IF;
  IF bits & 64 > 0 THEN
    PERFORM jobs_pass_on_limits(moved);
  END IF;
  -- From parents to children as long as any are cancelled: a chain may be longer than the stack.
  -- They were blocked, so that they held no key and no place.
  frontier := moved;
  all_bits := bits;
  WHILE bits & 16 > 0 LOOP
    frontier := jobs_resolve(frontier);
    EXIT WHEN frontier IS NULL;
    moved := moved || frontier;
    SELECT bit_or(flow) INTO bits FROM jobs_job WHERE id = ANY (frontier);
    all_bits := all_bits | bits;
  END LOOP;
  IF all_bits & 8 > 0 THEN
    PERFORM jobs_count(moved);
  END IF;
END $$;

CREATE FUNCTION jobs_closed() RETURNS text[] LANGUAGE sql VOLATILE AS $$
  SELECT coalesce(array_agg(scope), '{}') FROM jobs_closure
    WHERE until IS NULL OR until > jobs_clock()
$$;

-- An exclusive key goes to the job that preempted its holder, or is freed for the best that
-- waits. The waiter is looked for by a second statement, whose snapshot sees what a dispatcher
-- has put aside while this one waited for the slot.
CREATE FUNCTION jobs_pass_on_slots(moved uuid[]) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  closed text[] := jobs_closed();
  freed text[];
  heirs uuid[];
BEGIN
  -- An heir that is being cancelled at this moment must not get the key any more.
  PERFORM 1 FROM jobs_job heir WHERE heir.id IN (
    SELECT preempted_by FROM jobs_job WHERE id = ANY (moved)) ORDER BY heir.id FOR NO KEY UPDATE;
  WITH handed AS (
    UPDATE jobs_slot s SET job_id = heir.id FROM jobs_job j JOIN jobs_job heir
      ON heir.id = j.preempted_by AND heir.state = 'pending'
      AND heir.exclusive_key = j.exclusive_key
      AND NOT (closed <> '{}' AND ARRAY['queue:' || heir.queue, 'kind:' || heir.kind,
        'tenant:' || heir.tenant, 'key:' || heir.exclusive_key] && closed)
    WHERE j.id = ANY (moved) AND s.key = j.exclusive_key AND s.job_id = j.id
      AND j.state NOT IN ('queued', 'running')
    RETURNING s.job_id)
  SELECT array_agg(job_id) INTO heirs FROM handed;
  WITH gone AS (
    DELETE FROM jobs_slot s USING jobs_job j
    WHERE j.id = ANY (moved) AND s.key = j.exclusive_key AND s.job_id = j.id
      AND j.state NOT IN ('queued', 'running')
    RETURNING s.key)
  SELECT array_agg(key) INTO freed FROM gone;
  -- A waiter that was woken and ends before it starts had no slot, and leaves its turn to others.
  freed := freed || ARRAY(SELECT DISTINCT j.exclusive_key FROM jobs_job j
    WHERE j.id = ANY (moved) AND j.exclusive_key IS NOT NULL
      AND j.state IN ('cancelled', 'expired')
      AND NOT EXISTS (SELECT 1 FROM jobs_slot s WHERE s.key = j.exclusive_key)
      AND NOT j.exclusive_key = ANY (coalesce(freed, '{}')));
  UPDATE jobs_job SET preempted_by = NULL, preempt_asked_at = NULL
    WHERE id = ANY (moved) AND preempted_by IS NOT NULL AND state <> 'running';
  IF heirs IS NOT NULL THEN
    UPDATE jobs_job SET wait = 0 WHERE id = ANY (heirs) AND state = 'pending' AND wait = 2;
  END IF;
  IF freed IS NOT NULL THEN
    PERFORM jobs_wake_keys(freed);
  END IF;
END $$;

-- Waiters that may not start now come last, so that a pause holds nobody else up; they come all
-- the same, so that one of them goes as soon as it may.
CREATE FUNCTION jobs_wake_keys(freed text[]) RETURNS int LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  closed text[] := jobs_closed();
  woken int;
BEGIN
  -- Materialized: asked again for each row, the locking query below would pass by what it has
  -- taken before, and wake more than one.
  WITH best AS MATERIALIZED (
    SELECT w.id FROM unnest(freed) AS k(key) CROSS JOIN LATERAL (
      SELECT j.id FROM jobs_job j
      WHERE j.exclusive_key = k.key AND j.state = 'pending' AND j.wait = 2
      ORDER BY closed <> '{}' AND ARRAY['queue:' || j.queue, 'kind:' || j.kind,
          'tenant:' || j.tenant] && closed,
        j.preempts DESC, j.rank, j.id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) w)
  UPDATE jobs_job j SET wait = 0 FROM best WHERE j.id = best.id;
  GET DIAGNOSTICS woken = ROW_COUNT;
  RETURN woken;
END $$;

-- The limiter's row is the lock between the job that leaves and the dispatcher that puts one
-- aside: whoever comes second sees what the first has written.
CREATE FUNCTION jobs_pass_on_limits(moved uuid[]) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  PERFORM 1 FROM jobs_limiter WHERE scope IN (
    SELECT 'key:' || kind || '|' || limit_key FROM jobs_job
    WHERE id = ANY (moved) AND limit_key IS NOT NULL) ORDER BY scope FOR UPDATE;
  WITH best AS MATERIALIZED (
    SELECT w.id FROM (
      SELECT kind, limit_key, count(*) AS n FROM jobs_job
      WHERE id = ANY (moved) AND limit_key IS NOT NULL AND state NOT IN ('queued', 'running')
      GROUP BY kind, limit_key) k CROSS JOIN LATERAL (
      SELECT j.id FROM jobs_job j
      WHERE j.limit_key = k.limit_key AND j.kind = k.kind AND j.state = 'pending' AND j.wait = 2
      ORDER BY j.rank, j.id LIMIT k.n FOR NO KEY UPDATE SKIP LOCKED) w)
  UPDATE jobs_job j SET wait = 0 FROM best WHERE j.id = best.id;
END $$;

-- Each edge is turned once, whatever number of parents end together; the children are locked in
-- the order of their ids before they change. A parent that did not succeed counts only where the
-- edge says "run"; "cancel" takes the child with it. Answers the children that it took.
CREATE FUNCTION jobs_resolve(moved uuid[]) RETURNS uuid[] LANGUAGE plpgsql VOLATILE
-- A plan that was made while the tables were small is kept for as long as nobody analyzes them: a
-- long chain that is entered and falls meanwhile would read the whole table twice at every link.
SET enable_seqscan = off AS $$
DECLARE
  turned uuid[];
  doomed uuid[];
BEGIN
  WITH flipped AS (
    UPDATE jobs_dependency d SET done = true FROM jobs_job p
    WHERE d.parent_id = ANY (moved) AND NOT d.done AND p.id = d.parent_id
      AND (p.state = 'succeeded'
        OR d.policy = 'run' AND p.state IN ('failed', 'cancelled', 'expired'))
    RETURNING d.child_id)
  SELECT array_agg(child_id) INTO turned FROM flipped;
  IF turned IS NOT NULL THEN
    PERFORM 1 FROM jobs_job WHERE id = ANY (turned) ORDER BY id FOR NO KEY UPDATE;
    UPDATE jobs_job c SET open_parents = c.open_parents - t.n,
      state = CASE WHEN c.state = 'blocked' AND c.open_parents - t.n = 0 THEN 'pending'
        ELSE c.state END,
      wait = CASE WHEN c.run_at > jobs_clock() THEN 1 ELSE c.wait END,
      moved_by = CASE WHEN c.state = 'blocked' AND c.open_parents - t.n = 0
        THEN 'its last parent' END
    FROM (SELECT child, count(*) AS n FROM unnest(turned) AS u(child) GROUP BY child) t
    WHERE c.id = t.child;
  END IF;
  SELECT array_agg(DISTINCT d.child_id) INTO doomed FROM jobs_dependency d
    JOIN jobs_job p ON p.id = d.parent_id JOIN jobs_job c ON c.id = d.child_id
    WHERE d.parent_id = ANY (moved) AND NOT d.done AND d.policy = 'cancel'
      AND p.state IN ('failed', 'cancelled', 'expired') AND c.state = 'blocked';
  IF doomed IS NOT NULL THEN
    PERFORM 1 FROM jobs_job WHERE id = ANY (doomed) ORDER BY id FOR NO KEY UPDATE;
    -- Only what we have taken ourselves: whoever took the others follows them.
    WITH taken AS (
      UPDATE jobs_job SET state = 'cancelled', finished_at = jobs_clock(),
        cancel_reason = 'a parent did not succeed', moved_by = 'its parent',
        move_reason = 'a parent did not succeed'
      WHERE id = ANY (doomed) AND state = 'blocked' RETURNING id)
    SELECT array_agg(id) INTO doomed FROM taken;
  END IF;
  RETURN doomed;
END $$;

-- The ended members are added to their batches' counters; last of all locks, in the order of the
-- batches' ids. Seal and last end meet at the batch's row, so that its callbacks are made once.
CREATE FUNCTION jobs_count(moved uuid[]) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  touched uuid[];
  one uuid;
BEGIN
  -- By their ids, whatever the planner believes of how many have ended: it would walk the index
  -- of all that have, or the whole batch.
  WITH m AS MATERIALIZED (SELECT batch_id, finished_at FROM jobs_job WHERE id = ANY (moved))
  SELECT array_agg(DISTINCT batch_id ORDER BY batch_id) INTO touched FROM m
    WHERE batch_id IS NOT NULL AND finished_at IS NOT NULL;
  IF touched IS NULL THEN
    RETURN;
  END IF;
  PERFORM 1 FROM jobs_batch WHERE id = ANY (touched) ORDER BY id FOR NO KEY UPDATE;
  WITH m AS MATERIALIZED (SELECT batch_id, state FROM jobs_job WHERE id = ANY (moved)),
  n AS MATERIALIZED (SELECT batch_id,
      count(*) FILTER (WHERE state = 'succeeded') AS succeeded,
      count(*) FILTER (WHERE state = 'failed') AS failed,
      count(*) FILTER (WHERE state = 'cancelled') AS cancelled,
      count(*) FILTER (WHERE state = 'expired') AS expired
    FROM m WHERE batch_id IS NOT NULL GROUP BY batch_id)
  UPDATE jobs_batch b SET succeeded = b.succeeded + n.succeeded, failed = b.failed + n.failed,
    cancelled = b.cancelled + n.cancelled, expired = b.expired + n.expired
  FROM n WHERE b.id = n.batch_id AND b.id = ANY (touched);
  FOREACH one IN ARRAY touched LOOP
    PERFORM jobs_conclude(one);
  END LOOP;
END $$;

-- Calls back whoever asked to be called, once per generation, and closes a batch whose last
-- member has ended. The batch's row is locked by the caller.
CREATE FUNCTION jobs_conclude(one uuid) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  b jobs_batch;
  due text[] := '{}';
  name_ text;
  c jsonb;
  made uuid;
BEGIN
  SELECT * INTO b FROM jobs_batch WHERE id = one;
  IF b.failed > 0 THEN
    due := due || 'on_failure'::text;
  END IF;
  IF b.state = 'sealed' AND b.succeeded + b.failed + b.cancelled + b.expired = b.total THEN
    UPDATE jobs_batch SET state = 'done', finished_at = jobs_clock() WHERE id = one;
    due := due || 'on_complete'::text;
    IF b.succeeded = b.total THEN
      due := due || 'on_success'::text;
    END IF;
  END IF;
  FOREACH name_ IN ARRAY due LOOP
    c := b.callbacks -> name_;
    CONTINUE WHEN c IS NULL OR (b.called ->> name_)::int = b.generation;
    made := gen_random_uuid();
    PERFORM jobs_enqueue(made, c->>'kind', c->>'queue', 'pending', (c->>'priority')::int,
      (c->'payload')::text, (c->>'version')::int, b.tenant, '{}', NULL, 0, (c->>'weight')::int,
      NULL, (c->>'expires_in')::float8, (c->>'max_attempts')::int, (c->>'timeout')::float8,
      (c->>'lease')::float8, b.id::text, (c->>'flow')::int, NULL, NULL, NULL, false, false,
      NULL, 0, NULL);
    UPDATE jobs_batch SET called = called || jsonb_build_object(name_, b.generation)
      WHERE id = one;
  END LOOP;
END $$;
"""

UNFOLLOW = """
DROP FUNCTION jobs_follow(uuid[]); DROP FUNCTION jobs_closed(); DROP FUNCTION jobs_pass_on_slots(uuid[]);
DROP FUNCTION jobs_wake_keys(text[]); DROP FUNCTION jobs_pass_on_limits(uuid[]);
DROP FUNCTION jobs_resolve(uuid[]); DROP FUNCTION jobs_count(uuid[]);
DROP FUNCTION jobs_conclude(uuid);
"""

# A batch of claims. The rows are locked in the order of their ids before their state is asked.
# An empty text behind the state keeps the planner from walking the index of all that is queued
# instead of looking the ids up. An admission at a rate goes stale after two seconds: tokens must
# not pile up in Redis. flow: 4 paced, 70 limited, paced or with a limit key.
_CLAIM_SET = """
    UPDATE jobs_job j SET state = 'running', attempt = j.attempt + 1, token = token_,
      owner = owner_, started_at = now_, moved_by = worker
    WHERE j.id = ANY (ids) AND j.queue = q AND j.state || '' = 'queued' AND j.run_at <= now_
      AND (j.expires_at IS NULL OR j.expires_at > now_) AND j.cancel_requested_at IS NULL
      AND (j.flow & 4 = 0 OR j.queued_at > now_ - interval '2 s')"""
_CLAIM_RETURNS = """
    RETURNING j.id, j.kind, j.queue, j.payload::text, j.payload_version, j.attempt, j.failures,
      j.crashes, j.releases, j.max_attempts, j.timeout, j.tenant, j.correlation_id, j.priority,
      j.token, j.flow, j.limit_key;"""

CLAIM = f"""
CREATE FUNCTION jobs_claim(ids uuid[], q text, token_ uuid, owner_ uuid, worker text)
RETURNS TABLE (id uuid, kind text, queue text, payload text, payload_version smallint,
  attempt int, failures int, crashes int, releases int, max_attempts int, timeout float8,
  tenant text, correlation_id text, priority smallint, token uuid, flow smallint, limit_key text)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
  now_ timestamptz;
BEGIN
  PERFORM 1 FROM jobs_job j WHERE j.id = ANY (ids) ORDER BY j.id FOR NO KEY UPDATE;
  now_ := jobs_clock();
  IF EXISTS (SELECT 1 FROM jobs_closure) OR EXISTS (
      SELECT 1 FROM jobs_limiter m WHERE m.closed_until > now_) THEN
    RETURN QUERY{_CLAIM_SET}
      AND (j.flow & 70 = 0 OR NOT EXISTS (
        SELECT 1 FROM jobs_limiter m WHERE m.scope IN ('queue:' || j.queue, 'kind:' || j.kind,
          'key:' || j.kind || '|' || j.limit_key) AND m.closed_until > now_))
      AND NOT EXISTS (SELECT 1 FROM jobs_closure c
        WHERE c.scope IN ('queue:' || j.queue, 'kind:' || j.kind, 'tenant:' || j.tenant,
          'key:' || j.exclusive_key) AND (c.until IS NULL OR c.until > now_)){_CLAIM_RETURNS}
  ELSE
    RETURN QUERY{_CLAIM_SET}{_CLAIM_RETURNS}
  END IF;
END $$
"""  # noqa: S608 - constant parts

# A batch of successes; answers the ids that were refused because somebody else holds them, and
# whether a place became free for which a dispatcher may wait.
SUCCEED = """
CREATE FUNCTION jobs_succeed(ids uuid[], tokens uuid[], results jsonb, worker text)
RETURNS TABLE (refused uuid[], freed boolean) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  done uuid[];
  following uuid[];
  bits int;
BEGIN
  PERFORM 1 FROM jobs_job j WHERE j.id = ANY (ids) ORDER BY j.id FOR NO KEY UPDATE;
  -- Only a running job has an owner. Said this way, the planner looks the rows up by their ids
  -- instead of walking the index of everything that runs.
  WITH m AS (UPDATE jobs_job j SET state = 'succeeded', finished_at = jobs_clock(), owner = NULL,
      result = d.result, error = '', reason = '', moved_by = worker
    FROM ROWS FROM (unnest(ids), unnest(tokens), jsonb_array_elements(results))
      AS d(id, token, result)
    WHERE j.id = d.id AND j.owner IS NOT NULL AND j.token = d.token RETURNING j.id, j.flow)
  SELECT array_agg(m.id), array_agg(m.id) FILTER (WHERE m.flow & 89 > 0), bit_or(m.flow)
    INTO done, following, bits FROM m;
  IF following IS NOT NULL THEN
    PERFORM jobs_follow(following);
  END IF;
  IF cardinality(done) = cardinality(ids) THEN
    refused := '{}';
  ELSE
    refused := ARRAY(SELECT unnest(ids) EXCEPT SELECT unnest(done));
  END IF;
  freed := coalesce(bits & 91 > 0, false);
  RETURN NEXT;
END $$
"""

DISPATCH = """
DROP FUNCTION jobs_dispatch(text, int, int);

-- How many jobs of each scope may start now, under the lock of the scopes' rows. Limits count
-- what is queued or running; rates have their tokens refilled.
CREATE FUNCTION jobs_rooms(wanted text[]) RETURNS TABLE (scope text, room int)
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
      room := least(room, floor(r.tokens + 0.000001)::int);
    END IF;
    RETURN NEXT;
  END LOOP;
END $$;

CREATE FUNCTION jobs_dispatch(q text, budget int, max_lanes int, weights jsonb)
RETURNS TABLE (id uuid, timeout float8) LANGUAGE plpgsql VOLATILE
-- A plan cached while the table was empty must not scan it once it is full.
SET enable_seqscan = off SET enable_bitmapscan = off AS $$
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
BEGIN
  SELECT lane_cursor INTO seen FROM jobs_queue WHERE name = q FOR UPDATE SKIP LOCKED;
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
    lanes := ARRAY(SELECT l FROM unnest(lanes) WITH ORDINALITY AS u(l, n)
      WHERE coalesce(rooms[array_position(scopes, 'kind:' || split_part(l, E'\\x1f', 2))], 1) > 0
      ORDER BY n);
    SELECT count(DISTINCT split_part(l, E'\\x1f', 1)) INTO tenants FROM unnest(lanes) AS u(l);
  END IF;

  -- 3. Who: of each tenant in turn its best, as far as the kinds have room.
  IF tenants > 0 AND budget > 0 THEN
    share := greatest(1, ceil(budget::numeric / tenants))
      * greatest(1, (SELECT max(value::int) FROM jsonb_each_text(weights)));
    WITH pick AS MATERIALIZED (
      SELECT p.id, p.rank, split_part(o.lane, E'\\x1f', 1) AS tenant,
        split_part(o.lane, E'\\x1f', 2) AS kind, o.n AS place, p.keyed, p.limited
      FROM unnest(lanes) WITH ORDINALITY AS o(lane, n) CROSS JOIN LATERAL (
        SELECT j.id, j.rank, j.exclusive_key IS NOT NULL AS keyed,
          j.limit_key IS NOT NULL AS limited
        FROM jobs_job j
        WHERE j.queue = q AND j.state = 'pending' AND j.wait = 0 AND j.lane = o.lane
        ORDER BY j.rank, j.id LIMIT share FOR NO KEY UPDATE SKIP LOCKED) p),
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
    WHERE name = q;
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

-- Of the picked jobs, those that now hold their exclusive key or need none; the rest is put
-- aside until the key is freed. The slot that is in the way stays locked until then, so that its
-- holder cannot leave unseen in between.
CREATE FUNCTION jobs_take_slots(picked uuid[], closed text[]) RETURNS uuid[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  barred uuid[];
  losers uuid[];
  winners uuid[];
BEGIN
  SELECT array_agg(j.id) INTO barred FROM jobs_job j
    WHERE j.id = ANY (picked) AND 'key:' || j.exclusive_key = ANY (closed);
  IF barred IS NOT NULL THEN
    -- Whoever opens the key again waits for this lock, and then sees the jobs put aside.
    -- A key that was opened in between bars nobody.
    WITH still AS MATERIALIZED (SELECT c.scope FROM jobs_closure c WHERE c.scope IN (
        SELECT 'key:' || exclusive_key FROM jobs_job WHERE id = ANY (barred))
      ORDER BY c.scope FOR SHARE)
    SELECT array_agg(j.id) INTO barred FROM jobs_job j JOIN still
      ON still.scope = 'key:' || j.exclusive_key WHERE j.id = ANY (barred);
    UPDATE jobs_job SET wait = 2 WHERE id = ANY (barred);
    picked := ARRAY(SELECT p FROM unnest(picked) WITH ORDINALITY AS u(p, n)
      WHERE NOT p = ANY (coalesce(barred, '{}')) ORDER BY n);
  END IF;
  INSERT INTO jobs_slot (key, job_id)
    SELECT DISTINCT ON (j.exclusive_key) j.exclusive_key, j.id FROM jobs_job j
    WHERE j.id = ANY (picked) AND j.exclusive_key IS NOT NULL
    ORDER BY j.exclusive_key, j.preempts DESC, j.rank, j.id
    ON CONFLICT (key) DO NOTHING;
  WITH held AS MATERIALIZED (
    SELECT s.key, s.job_id FROM jobs_slot s WHERE s.key IN (
      SELECT exclusive_key FROM jobs_job WHERE id = ANY (picked)) ORDER BY s.key FOR SHARE)
  SELECT array_agg(j.id) FILTER (WHERE held.job_id = j.id),
    array_agg(j.id) FILTER (WHERE held.job_id <> j.id)
    INTO winners, losers FROM jobs_job j JOIN held ON held.key = j.exclusive_key
    WHERE j.id = ANY (picked);
  UPDATE jobs_job SET wait = 2 WHERE id = ANY (losers);
  RETURN ARRAY(SELECT p FROM unnest(picked) WITH ORDINALITY AS u(p, n) JOIN jobs_job j ON j.id = p
    WHERE j.exclusive_key IS NULL OR p = ANY (winners) ORDER BY n);
END $$;

-- The same for limits per key. Where a rate is to blame, the job gets the moment at which its
-- turn comes; where too many run, it waits until one ends.
CREATE FUNCTION jobs_take_limits(picked uuid[]) RETURNS uuid[]
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

UNDISPATCH = f"""
DROP FUNCTION jobs_dispatch(text, int, int, jsonb); DROP FUNCTION jobs_rooms(text[]);
DROP FUNCTION jobs_take_slots(uuid[], text[]); DROP FUNCTION jobs_take_limits(uuid[]);
{dispatch.DISPATCH}
"""

# Waiting jobs that may push others aside ask the holders of their keys to stop: those that run,
# may be preempted, matter less, and have not been preempted too often already.
PREEMPT = """
CREATE FUNCTION jobs_preempt(most int) RETURNS int LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  closed text[] := jobs_closed();
  asked int;
BEGIN
  -- Among those who matter more than the holder: an old one that does not hides no other.
  WITH rival AS MATERIALIZED (
    SELECT DISTINCT ON (h.id) h.id, w.id AS by, w.priority FROM jobs_job w
      JOIN jobs_slot s ON s.key = w.exclusive_key JOIN jobs_job h ON h.id = s.job_id
    WHERE h.state = 'running' AND h.preemptible AND h.preempted_by IS NULL
      AND h.priority < w.priority AND h.preemptions < most AND w.state = 'pending' AND w.exclusive_key IS NOT NULL AND w.wait = 2 AND w.preempts
      AND NOT (closed <> '{}' AND ARRAY['queue:' || w.queue, 'kind:' || w.kind,
        'tenant:' || w.tenant, 'key:' || w.exclusive_key] && closed)
    ORDER BY h.id, w.rank, w.id),
  holder AS MATERIALIZED (
    SELECT h.id, r.by FROM rival r JOIN jobs_job h ON h.id = r.id
    WHERE h.state = 'running' AND h.preemptible AND h.preempted_by IS NULL
      AND h.priority < r.priority AND h.preemptions < most
    ORDER BY h.id FOR NO KEY UPDATE OF h SKIP LOCKED)
  UPDATE jobs_job j SET preempted_by = holder.by,
      preempt_asked_at = jobs_clock() FROM holder WHERE j.id = holder.id;
  GET DIAGNOSTICS asked = ROW_COUNT;
  RETURN asked;
END $$
"""


UNENQUEUE = f"""
DROP FUNCTION jobs_enqueue(uuid, text, text, text, int, text, int, text, text[], timestamptz,
  float8, int, timestamptz, float8, int, float8, float8, text, int, text, text, text, boolean,
  boolean, uuid, int, uuid);
{enqueue.ENQUEUE}
"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0005_flow")]

    operations = [
        migrations.RunSQL(ENQUEUE, UNENQUEUE),
        migrations.RunSQL(FOLLOW, UNFOLLOW),
        migrations.RunSQL(CLAIM, "DROP FUNCTION jobs_claim(uuid[], text, uuid, uuid, text)"),
        migrations.RunSQL(SUCCEED, "DROP FUNCTION jobs_succeed(uuid[], uuid[], jsonb, text)"),
        migrations.RunSQL(DISPATCH, UNDISPATCH),
        migrations.RunSQL(PREEMPT, "DROP FUNCTION jobs_preempt(int)"),
    ]
