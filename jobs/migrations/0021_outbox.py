"""Events: an outbox in the writer's transaction, a feed without gaps, and what tells by itself."""

import django.contrib.postgres.functions
from django.db import migrations, models

import jobs.models.clock

# Created by hand: Django knows no partitions.
FEED = """
CREATE TABLE jobs_feed (
  position bigint NOT NULL, event_id uuid NOT NULL, topic text NOT NULL, key text NOT NULL,
  tenant text NOT NULL, audience text NOT NULL, payload jsonb NOT NULL,
  occurred_at timestamptz NOT NULL, published_at timestamptz NOT NULL,
  PRIMARY KEY (position, published_at)
) PARTITION BY RANGE (published_at);

CREATE FUNCTION jobs_feed_fixed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'position % of the feed stays as it is', OLD.position
    USING ERRCODE = 'check_violation', CONSTRAINT = TG_NAME;
END $$;
CREATE TRIGGER jobs_feed_fixed BEFORE UPDATE OR DELETE ON jobs_feed FOR EACH ROW
  EXECUTE FUNCTION jobs_feed_fixed();

-- Made aside and attached, which does not wait for readers. The caller makes sure that nobody
-- else does the same.
CREATE FUNCTION jobs_feed_make(day date) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  name_ text := 'jobs_feed_' || to_char(day, 'YYYYMMDD');
BEGIN
  IF to_regclass(name_) IS NOT NULL THEN
    RETURN false;
  END IF;
  EXECUTE format('CREATE TABLE %I (LIKE jobs_feed INCLUDING ALL)', name_);
  EXECUTE format('ALTER TABLE jobs_feed ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', name_,
    day::timestamp AT TIME ZONE 'UTC', (day + 1)::timestamp AT TIME ZONE 'UTC');
  RETURN true;
END $$;

SELECT jobs_feed_make((jobs_clock() AT TIME ZONE 'UTC')::date + n) FROM generate_series(0, 3) n;
"""

UNFEED = """
DROP TABLE jobs_feed; DROP FUNCTION jobs_feed_fixed(); DROP FUNCTION jobs_feed_make(date);
"""

GUARD = """
CREATE TRIGGER jobs_outbox_guard BEFORE UPDATE ON jobs_outbox FOR EACH ROW
  WHEN (OLD.state IS DISTINCT FROM NEW.state) EXECUTE FUNCTION jobs_guard(
    'pending>published', 'pending>failed', 'failed>pending', 'pending>parked', 'failed>parked',
    'parked>pending', 'pending>discarded', 'failed>discarded', 'parked>discarded');
CREATE TRIGGER jobs_outbox_birth BEFORE INSERT ON jobs_outbox FOR EACH ROW
  WHEN (NEW.state NOT IN ('pending')) EXECUTE FUNCTION jobs_refuse();
CREATE TRIGGER jobs_outbox_death BEFORE DELETE ON jobs_outbox FOR EACH ROW
  WHEN (OLD.state NOT IN ('published', 'discarded')) EXECUTE FUNCTION jobs_refuse();
ALTER TABLE jobs_outbox SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 1);
INSERT INTO jobs_feed_head (id) VALUES (1);
"""

UNGUARD = """
DROP TRIGGER jobs_outbox_guard ON jobs_outbox; DROP TRIGGER jobs_outbox_birth ON jobs_outbox;
DROP TRIGGER jobs_outbox_death ON jobs_outbox;
"""

# Numbers are given in the order of writing, so that of events with one key, whose writers wait
# for each other, the earlier has the lower one.
EMIT = """
CREATE FUNCTION jobs_emit(event uuid, topic_ text, key_ text, tenant_ text, audience_ text,
  payload_ text) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  INSERT INTO jobs_outbox (event_id, topic, key, tenant, audience, payload)
    VALUES (event, topic_, key_, tenant_, audience_, payload_::jsonb);
END $$;

-- Successes, and what their handlers wanted told of them: of those that were refused, nothing.
CREATE FUNCTION jobs_succeed(ids uuid[], tokens uuid[], results jsonb, worker text, events jsonb)
RETURNS TABLE (refused uuid[], freed boolean) LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  SELECT s.refused, s.freed INTO refused, freed FROM jobs_succeed(ids, tokens, results, worker) s;
  INSERT INTO jobs_outbox (event_id, topic, key, tenant, audience, payload)
    SELECT e.id, e.topic, e.key, e.tenant, e.audience, e.payload
    FROM ROWS FROM (jsonb_to_recordset(events) AS (job uuid, id uuid, topic text, key text,
      tenant text, audience text, payload jsonb)) WITH ORDINALITY
      AS e(job, id, topic, key, tenant, audience, payload, n)
    WHERE NOT e.job = ANY (refused) ORDER BY e.n;
  RETURN NEXT;
END $$;
"""

UNEMIT = """
DROP FUNCTION jobs_emit(uuid, text, text, text, text, text);
DROP FUNCTION jobs_succeed(uuid[], uuid[], jsonb, text, jsonb);
"""

# What happens to jobs, batches, limits, circuits and effects is told by triggers: whoever moves
# the row, in his transaction, after his write.
TELL = """
CREATE FUNCTION jobs_tell_job() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  what text := NEW.state;
BEGIN
  IF NEW.state = 'running' THEN
    what := 'claimed';
  ELSIF NEW.state = 'pending' AND OLD.state = 'running' THEN
    what := CASE WHEN NEW.failures > OLD.failures THEN 'retried' ELSE 'released' END;
  ELSIF NEW.state = 'pending' THEN
    what := 'reopened';
  END IF;
  INSERT INTO jobs_outbox (topic, key, tenant, audience, payload)
  VALUES ('jobs.job.' || what, 'job:' || NEW.id, NEW.tenant,
    CASE WHEN NEW.tenant = '' THEN 'staff' ELSE 'tenant' END,
    jsonb_strip_nulls(jsonb_build_object('job', NEW.id, 'kind', NEW.kind, 'queue', NEW.queue,
      'from', OLD.state, 'state', NEW.state, 'attempt', NEW.attempt, 'failures', NEW.failures,
      'batch', NEW.batch_id, 'reason', nullif(NEW.reason, ''),
      -- The class of the error and never its text, which may be about a person.
      'error', CASE WHEN what IN ('retried', 'failed') THEN nullif(split_part(NEW.error, ':', 1), '')
        END,
      'run_at', CASE WHEN NEW.state = 'pending' THEN NEW.run_at END)));
  RETURN NULL;
END $$;
CREATE TRIGGER jobs_job_tell AFTER UPDATE ON jobs_job FOR EACH ROW
  WHEN (OLD.state IS DISTINCT FROM NEW.state AND (NEW.state = 'failed' OR NEW.flow & 32 > 0
    AND NEW.state <> 'queued'
    AND NOT (NEW.state = 'pending' AND OLD.state IN ('blocked', 'queued'))))
  EXECUTE FUNCTION jobs_tell_job();

CREATE FUNCTION jobs_tell_lost() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO jobs_outbox (topic, key, tenant, audience, payload)
  SELECT 'jobs.job.lost', 'job:' || j.id, j.tenant,
    CASE WHEN j.tenant = '' THEN 'staff' ELSE 'tenant' END,
    jsonb_build_object('job', j.id, 'kind', j.kind, 'queue', j.queue, 'attempt', NEW.number,
      'how', NEW.outcome, 'state', j.state)
  FROM jobs_job j WHERE j.id = NEW.job_id;
  RETURN NULL;
END $$;
CREATE TRIGGER jobs_attempt_tell AFTER INSERT ON jobs_attempt FOR EACH ROW
  WHEN (NEW.outcome IN ('lost', 'crashed')) EXECUTE FUNCTION jobs_tell_lost();

-- Progress at most once a second; what is not told then is told by the relay.
CREATE FUNCTION jobs_batch_event(b jobs_batch, what text) RETURNS void LANGUAGE sql VOLATILE AS $$
  INSERT INTO jobs_outbox (topic, key, tenant, audience, payload)
  VALUES ('jobs.batch.' || what, 'batch:' || b.id, b.tenant,
    CASE WHEN b.tenant = '' THEN 'staff' ELSE 'tenant' END,
    jsonb_strip_nulls(jsonb_build_object('batch', b.id, 'name', b.name, 'state', b.state,
      'total', b.total, 'succeeded', b.succeeded, 'failed', b.failed, 'cancelled', b.cancelled,
      'expired', b.expired, 'generation', b.generation)))
$$;
CREATE FUNCTION jobs_tell_batch() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  now_ timestamptz := jobs_clock();
BEGIN
  IF NEW.state <> OLD.state THEN
    PERFORM jobs_batch_event(NEW, CASE WHEN NEW.state = 'done' THEN 'completed'
      WHEN OLD.state = 'done' THEN 'reopened' ELSE NEW.state END);
  ELSIF NEW.state = 'sealed'
      AND NEW.succeeded + NEW.failed + NEW.cancelled + NEW.expired = NEW.total THEN
    NULL; -- its completion follows at once
  ELSIF NEW.told_at > now_ - interval '1 s' AND NEW.told_at <= now_ THEN
    NEW.untold := true;
    RETURN NEW;
  ELSE
    PERFORM jobs_batch_event(NEW, 'progress');
  END IF;
  NEW.told_at := now_;
  NEW.untold := false;
  RETURN NEW;
END $$;
CREATE TRIGGER jobs_batch_tell BEFORE UPDATE ON jobs_batch FOR EACH ROW
  WHEN ((OLD.state, OLD.succeeded, OLD.failed, OLD.cancelled, OLD.expired)
    IS DISTINCT FROM (NEW.state, NEW.succeeded, NEW.failed, NEW.cancelled, NEW.expired))
  EXECUTE FUNCTION jobs_tell_batch();
CREATE FUNCTION jobs_tell_batches() RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  b jobs_batch;
BEGIN
  FOR b IN SELECT * FROM jobs_batch WHERE untold AND told_at <= jobs_clock() - interval '1 s'
      ORDER BY id LIMIT 200 FOR NO KEY UPDATE SKIP LOCKED LOOP
    PERFORM jobs_batch_event(b, 'progress');
    UPDATE jobs_batch SET untold = false, told_at = jobs_clock() WHERE id = b.id;
  END LOOP;
END $$;

-- Only the first of many that are held tells it.
CREATE FUNCTION jobs_tell_limit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'UPDATE' THEN
    IF OLD.closed_until > jobs_clock() THEN
      RETURN NULL;
    END IF;
  END IF;
  IF NEW.closed_until > jobs_clock() THEN
    INSERT INTO jobs_outbox (topic, key, audience, payload)
    VALUES ('jobs.limit.held', 'limit:' || NEW.scope, 'staff',
      jsonb_build_object('scope', NEW.scope, 'until', NEW.closed_until));
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER jobs_limiter_tell_new AFTER INSERT ON jobs_limiter FOR EACH ROW
  WHEN (NEW.closed_until IS NOT NULL) EXECUTE FUNCTION jobs_tell_limit();
CREATE TRIGGER jobs_limiter_tell AFTER UPDATE ON jobs_limiter FOR EACH ROW
  WHEN (NEW.closed_until IS DISTINCT FROM OLD.closed_until AND NEW.closed_until IS NOT NULL)
  EXECUTE FUNCTION jobs_tell_limit();

CREATE FUNCTION jobs_tell_breaker() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO jobs_outbox (topic, key, audience, payload)
  VALUES (CASE WHEN NEW.state = 'open' THEN 'jobs.circuit.opened' ELSE 'jobs.circuit.closed' END,
    'circuit:' || NEW.name, 'staff', jsonb_strip_nulls(jsonb_build_object('circuit', NEW.name,
      'failures', NEW.failures, 'probe_at', NEW.retry_at)));
  RETURN NULL;
END $$;
CREATE TRIGGER jobs_breaker_tell_new AFTER INSERT ON jobs_breaker FOR EACH ROW
  WHEN (NEW.state = 'open') EXECUTE FUNCTION jobs_tell_breaker();
CREATE TRIGGER jobs_breaker_tell AFTER UPDATE ON jobs_breaker FOR EACH ROW
  WHEN ((OLD.state = 'closed') <> (NEW.state = 'closed')) EXECUTE FUNCTION jobs_tell_breaker();

CREATE FUNCTION jobs_tell_effect() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO jobs_outbox (topic, key, tenant, audience, payload)
  SELECT 'jobs.effect.in_doubt', 'job:' || j.id, j.tenant,
    CASE WHEN j.tenant = '' THEN 'staff' ELSE 'tenant' END,
    jsonb_build_object('job', j.id, 'kind', j.kind, 'effect', NEW.id, 'attempt', NEW.attempt)
  FROM jobs_job j WHERE j.id = NEW.job_id;
  RETURN NULL;
END $$;
CREATE TRIGGER jobs_effect_tell AFTER UPDATE ON jobs_effect FOR EACH ROW
  WHEN (NEW.state = 'in_doubt' AND OLD.state <> 'in_doubt') EXECUTE FUNCTION jobs_tell_effect();
"""

UNTELL = """
DROP TRIGGER jobs_job_tell ON jobs_job; DROP TRIGGER jobs_attempt_tell ON jobs_attempt;
DROP TRIGGER jobs_batch_tell ON jobs_batch; DROP TRIGGER jobs_limiter_tell_new ON jobs_limiter;
DROP TRIGGER jobs_limiter_tell ON jobs_limiter; DROP TRIGGER jobs_breaker_tell_new ON jobs_breaker;
DROP TRIGGER jobs_breaker_tell ON jobs_breaker; DROP TRIGGER jobs_effect_tell ON jobs_effect;
DROP FUNCTION jobs_tell_job(); DROP FUNCTION jobs_tell_lost(); DROP FUNCTION jobs_tell_batch();
DROP FUNCTION jobs_tell_batches(); DROP FUNCTION jobs_batch_event(jobs_batch, text);
DROP FUNCTION jobs_tell_limit(); DROP FUNCTION jobs_tell_breaker(); DROP FUNCTION jobs_tell_effect();
"""

# One relay at a time, for as long as its transaction: whoever comes meanwhile is told NULL.
# The number is the text "jobs_rel".
RELAY = """
CREATE FUNCTION jobs_relay_pick(most int) RETURNS bigint[] LANGUAGE plpgsql VOLATILE
-- A plan cached while the table was empty must not scan it once it is full.
SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
  ids bigint[];
  behind bigint[];
  found_ int;
BEGIN
  IF NOT pg_try_advisory_xact_lock(x'6A6F62735F72656C'::bigint) THEN
    RETURN NULL;
  END IF;
  PERFORM jobs_tell_batches();
  UPDATE jobs_outbox SET state = 'pending', due_at = NULL, moved_by = 'relay',
      move_reason = 'its time has come'
    WHERE state = 'failed' AND due_at <= jobs_clock();
  LOOP
    ids := ARRAY(SELECT o.id FROM jobs_outbox o WHERE o.state = 'pending' AND NOT o.held
      ORDER BY o.id LIMIT most FOR UPDATE);
    found_ := cardinality(ids);
    EXIT WHEN found_ = 0 OR NOT EXISTS (
        SELECT 1 FROM jobs_outbox s WHERE s.state IN ('failed', 'parked'))
      AND NOT EXISTS (SELECT 1 FROM jobs_outbox s WHERE s.held);
    -- What comes behind an event that cannot go, or behind one that waits for such a one, waits
    -- and is not looked at again.
    WITH put_aside AS (
      UPDATE jobs_outbox o SET held = true WHERE o.id = ANY (ids) AND o.key <> '' AND (EXISTS (
          SELECT 1 FROM jobs_outbox s WHERE s.state IN ('failed', 'parked')
            AND s.tenant = o.tenant AND s.key = o.key AND s.id < o.id)
        OR EXISTS (SELECT 1 FROM jobs_outbox s WHERE s.held
            AND s.tenant = o.tenant AND s.key = o.key AND s.id < o.id))
      RETURNING o.id)
    SELECT coalesce(array_agg(p.id), '{}') INTO behind FROM put_aside p;
    ids := ARRAY(SELECT i FROM unnest(ids) WITH ORDINALITY AS u(i, n)
      WHERE NOT i = ANY (behind) ORDER BY n);
    EXIT WHEN cardinality(ids) > 0 OR found_ < most;
  END LOOP;
  RETURN ids;
END $$;

-- The head's row is locked until the commit, so that positions appear in their order.
CREATE FUNCTION jobs_relay_publish(ids bigint[]) RETURNS bigint LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off AS $$
DECLARE
  now_ timestamptz := jobs_clock();
  last_ bigint;
  gone int;
BEGIN
  PERFORM jobs_feed_make((now_ AT TIME ZONE 'UTC')::date);
  SELECT h.position INTO last_ FROM jobs_feed_head h WHERE h.id = 1 FOR UPDATE;
  IF NOT FOUND THEN
    SELECT coalesce(max(f.position), 0) INTO last_ FROM jobs_feed f;
    INSERT INTO jobs_feed_head (id, position) VALUES (1, last_);
  END IF;
  IF cardinality(ids) = 0 THEN
    RETURN last_;
  END IF;
  WITH p AS (
    UPDATE jobs_outbox o SET state = 'published', position = last_ + u.n, closed_at = now_,
      moved_by = 'relay'
    FROM unnest(ids) WITH ORDINALITY AS u(id, n) WHERE o.id = u.id
    RETURNING o.position, o.event_id, o.topic, o.key, o.tenant, o.audience, o.payload,
      o.occurred_at)
  INSERT INTO jobs_feed (position, event_id, topic, key, tenant, audience, payload, occurred_at,
      published_at)
    SELECT p.*, now_ FROM p;
  GET DIAGNOSTICS gone = ROW_COUNT;
  IF gone <> cardinality(ids) THEN
    RAISE EXCEPTION 'of % events % could be published', cardinality(ids), gone
      USING ERRCODE = 'serialization_failure';
  END IF;
  IF EXISTS (SELECT 1 FROM jobs_outbox o WHERE o.held) THEN
    UPDATE jobs_outbox o SET held = false WHERE o.held AND (o.tenant, o.key) IN (
      SELECT d.tenant, d.key FROM jobs_outbox d WHERE d.id = ANY (ids) AND d.key <> '');
  END IF;
  DELETE FROM jobs_outbox o WHERE o.id = ANY (ids);
  UPDATE jobs_feed_head SET position = last_ + cardinality(ids) WHERE id = 1;
  RETURN last_ + cardinality(ids);
END $$;

CREATE FUNCTION jobs_relay(most int) RETURNS TABLE (moved int, head bigint)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  ids bigint[] := jobs_relay_pick(most);
BEGIN
  moved := cardinality(ids);
  IF moved > 0 THEN
    head := jobs_relay_publish(ids);
  END IF;
  RETURN NEXT;
END $$;
"""

UNRELAY = """
DROP FUNCTION jobs_relay(int); DROP FUNCTION jobs_relay_publish(bigint[]);
DROP FUNCTION jobs_relay_pick(int);
"""


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0011_effects"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunSQL(FEED, UNFEED)],
            state_operations=[
                migrations.CreateModel(
                    name="Feed",
                    fields=[
                        (
                            "position",
                            models.BigIntegerField(
                                primary_key=True, serialize=False, verbose_name="position"
                            ),
                        ),
                        ("event_id", models.UUIDField(verbose_name="event")),
                        ("topic", models.TextField(verbose_name="topic")),
                        ("key", models.TextField(default="", verbose_name="key")),
                        ("tenant", models.TextField(default="", verbose_name="tenant")),
                        ("audience", models.TextField(default="tenant", verbose_name="audience")),
                        ("payload", models.JSONField(verbose_name="payload")),
                        ("occurred_at", models.DateTimeField(verbose_name="occurred at")),
                        ("published_at", models.DateTimeField(verbose_name="published at")),
                    ],
                    options={
                        "verbose_name": "event",
                        "verbose_name_plural": "feed",
                        "db_table": "jobs_feed",
                        "ordering": ["-position"],
                    },
                )
            ],
        ),
        migrations.CreateModel(
            name="FeedHead",
            fields=[
                ("id", models.SmallIntegerField(default=1, primary_key=True, serialize=False)),
                (
                    "position",
                    models.BigIntegerField(db_default=0, default=0, verbose_name="last position"),
                ),
                (
                    "floor",
                    models.BigIntegerField(
                        db_default=0, default=0, verbose_name="last pruned position"
                    ),
                ),
            ],
            options={
                "verbose_name": "head of the feed",
                "verbose_name_plural": "heads of the feed",
                "db_table": "jobs_feed_head",
            },
        ),
        migrations.CreateModel(
            name="Outbox",
            fields=[
                (
                    "history",
                    models.JSONField(
                        db_default=models.Value([], models.JSONField()),
                        default=list,
                        verbose_name="history",
                    ),
                ),
                (
                    "history_dropped",
                    models.IntegerField(
                        db_default=0, default=0, verbose_name="history entries dropped"
                    ),
                ),
                ("moved_by", models.TextField(editable=False, null=True)),
                ("move_reason", models.TextField(editable=False, null=True)),
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                (
                    "event_id",
                    models.UUIDField(
                        db_default=django.contrib.postgres.functions.RandomUUID(),
                        editable=False,
                        verbose_name="event",
                    ),
                ),
                ("topic", models.TextField(verbose_name="topic")),
                (
                    "key",
                    models.TextField(blank=True, db_default="", default="", verbose_name="key"),
                ),
                (
                    "tenant",
                    models.TextField(blank=True, db_default="", default="", verbose_name="tenant"),
                ),
                (
                    "audience",
                    models.TextField(
                        db_default="tenant", default="tenant", verbose_name="audience"
                    ),
                ),
                ("payload", models.JSONField(verbose_name="payload")),
                (
                    "state",
                    models.TextField(
                        choices=[
                            ("pending", "pending"),
                            ("failed", "failed"),
                            ("parked", "parked"),
                            ("published", "published"),
                            ("discarded", "discarded"),
                        ],
                        db_default="pending",
                        default="pending",
                        verbose_name="state",
                    ),
                ),
                (
                    "held",
                    models.BooleanField(db_default=False, default=False, verbose_name="held back"),
                ),
                (
                    "tries",
                    models.IntegerField(db_default=0, default=0, verbose_name="failed tries"),
                ),
                (
                    "error",
                    models.TextField(
                        blank=True, db_default="", default="", verbose_name="last error"
                    ),
                ),
                ("due_at", models.DateTimeField(null=True, verbose_name="next try at")),
                ("position", models.BigIntegerField(null=True, verbose_name="position")),
                (
                    "occurred_at",
                    models.DateTimeField(
                        db_default=jobs.models.clock.Clock(), verbose_name="occurred at"
                    ),
                ),
                ("closed_at", models.DateTimeField(null=True, verbose_name="closed at")),
            ],
            options={
                "verbose_name": "event in the outbox",
                "verbose_name_plural": "outbox",
                "db_table": "jobs_outbox",
                "ordering": ["id"],
            },
        ),
        migrations.AddField(
            model_name="batch",
            name="told_at",
            field=models.DateTimeField(editable=False, null=True),
        ),
        migrations.AddField(
            model_name="batch",
            name="untold",
            field=models.BooleanField(db_default=False, default=False, editable=False),
        ),
        migrations.AddIndex(
            model_name="batch",
            index=models.Index(
                condition=models.Q(("untold", True)), fields=["told_at"], name="jobs_batch_untold"
            ),
        ),
        migrations.AddConstraint(
            model_name="feedhead",
            constraint=models.CheckConstraint(
                condition=models.Q(("id", 1)), name="jobs_feed_one_head"
            ),
        ),
        migrations.AddConstraint(
            model_name="feedhead",
            constraint=models.CheckConstraint(
                condition=models.Q(("floor__gte", 0), ("position__gte", models.F("floor"))),
                name="jobs_feed_head_above_floor",
            ),
        ),
        migrations.AddIndex(
            model_name="outbox",
            index=models.Index(
                condition=models.Q(("held", False), ("state", "pending")),
                fields=["id"],
                name="jobs_outbox_ready",
            ),
        ),
        migrations.AddIndex(
            model_name="outbox",
            index=models.Index(
                condition=models.Q(("state__in", ["failed", "parked"])),
                fields=["tenant", "key", "id"],
                name="jobs_outbox_stuck",
            ),
        ),
        migrations.AddIndex(
            model_name="outbox",
            index=models.Index(
                condition=models.Q(("held", True)),
                fields=["tenant", "key", "id"],
                name="jobs_outbox_held",
            ),
        ),
        migrations.AddIndex(
            model_name="outbox",
            index=models.Index(
                condition=models.Q(("state", "discarded")),
                fields=["closed_at"],
                name="jobs_outbox_closed",
            ),
        ),
        migrations.AddConstraint(
            model_name="outbox",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("state__in", ["pending", "failed", "parked", "published", "discarded"])
                ),
                name="jobs_outbox_state_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="outbox",
            constraint=models.CheckConstraint(
                condition=models.Q(("audience__in", ["tenant", "staff"])),
                name="jobs_outbox_audience_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="outbox",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("position__isnull", False), ("state", "published")),
                    models.Q(
                        models.Q(("state", "published"), _negated=True), ("position__isnull", True)
                    ),
                    _connector="OR",
                ),
                name="jobs_outbox_published_has_position",
            ),
        ),
        migrations.AddConstraint(
            model_name="outbox",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("due_at__isnull", False), ("state", "failed")),
                    models.Q(
                        models.Q(("state", "failed"), _negated=True), ("due_at__isnull", True)
                    ),
                    _connector="OR",
                ),
                name="jobs_outbox_failed_has_time",
            ),
        ),
        migrations.AddConstraint(
            model_name="outbox",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("closed_at__isnull", False), ("state__in", ["published", "discarded"])
                    ),
                    models.Q(
                        models.Q(("state__in", ["published", "discarded"]), _negated=True),
                        ("closed_at__isnull", True),
                    ),
                    _connector="OR",
                ),
                name="jobs_outbox_closed_has_time",
            ),
        ),
        migrations.AddConstraint(
            model_name="outbox",
            constraint=models.CheckConstraint(
                condition=models.Q(("held", False), ("state", "pending"), _connector="OR"),
                name="jobs_outbox_held_waits",
            ),
        ),
        migrations.AddConstraint(
            model_name="outbox",
            constraint=models.CheckConstraint(
                condition=models.Q(("move_reason__isnull", True), ("moved_by__isnull", True)),
                name="jobs_outbox_mover_consumed",
            ),
        ),
        migrations.RunSQL(GUARD, UNGUARD),
        migrations.RunSQL(EMIT, UNEMIT),
        migrations.RunSQL(TELL, UNTELL),
        migrations.RunSQL(RELAY, UNRELAY),
    ]
