"""Events of tenants take turns: many of one tenant hold up nobody else's."""

from __future__ import annotations

import re
from importlib import import_module

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models

# As it was, but for which events are picked and in which order: of every tenant that has some the
# oldest five, then of every one the next five, and so on. Where more tenants wait than a portion has room
# for, the next portion goes on behind the last of them.
PICK = """
CREATE OR REPLACE FUNCTION jobs_relay_pick(most int) RETURNS bigint[] LANGUAGE plpgsql VOLATILE
-- A plan cached while the table was empty must not scan it once it is full.
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
  ids bigint[];
  behind bigint[];
  tenants text[];
  begun text;
  share int := 5;
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
      ORDER BY o.id LIMIT most + 1);
    EXIT WHEN cardinality(ids) = 0;
    IF cardinality(ids) > most THEN
      SELECT h.turn INTO begun FROM jobs_feed_head h WHERE h.id = 1;
      WITH RECURSIVE lanes (tenant, n) AS (
        (SELECT o.tenant, 0 FROM jobs_outbox o WHERE o.state = 'pending' AND NOT o.held
          AND o.tenant >= coalesce(begun, '') ORDER BY o.tenant LIMIT 1)
        UNION ALL
        SELECT (SELECT o.tenant FROM jobs_outbox o WHERE o.state = 'pending' AND NOT o.held
          AND o.tenant > l.tenant ORDER BY o.tenant LIMIT 1), l.n + 1
        FROM lanes l WHERE l.tenant IS NOT NULL AND l.n < most)
      SELECT array_agg(l.tenant ORDER BY l.n) INTO tenants FROM lanes l
        WHERE l.tenant IS NOT NULL;
      UPDATE jobs_feed_head h SET turn = coalesce(tenants[most + 1], '')
        WHERE h.id = 1 AND h.turn <> coalesce(tenants[most + 1], '');
      tenants := tenants[:most];
      share := most / cardinality(tenants);
      ids := ARRAY(SELECT p.id FROM unnest(tenants) AS t (tenant) CROSS JOIN LATERAL (
        SELECT o.id FROM jobs_outbox o
        WHERE o.state = 'pending' AND NOT o.held AND o.tenant = t.tenant
        ORDER BY o.id LIMIT share) p);
    END IF;
    ids := ARRAY(SELECT u.id FROM (
        SELECT o.id, (row_number() OVER (PARTITION BY o.tenant ORDER BY o.id) - 1) / least(share, 5) AS n
        FROM jobs_outbox o WHERE o.id = ANY (ids)) u
      ORDER BY u.n, u.id LIMIT most);
    PERFORM 1 FROM jobs_outbox o WHERE o.id = ANY (ids) ORDER BY o.id FOR UPDATE;
    EXIT WHEN NOT EXISTS (
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
    EXIT WHEN cardinality(ids) > 0;
  END LOOP;
  RETURN ids;
END $$;
"""
_BEFORE = import_module("jobs.migrations.0021_outbox").RELAY
UNPICK = "CREATE OR REPLACE" + re.split(r"^CREATE", _BEFORE, flags=re.MULTILINE)[1]


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("jobs", "0037_webhook_topics")]

    operations = [
        migrations.AddField(
            model_name="feedhead",
            name="turn",
            field=models.TextField(db_default="", default="", editable=False),
        ),
        AddIndexConcurrently(
            model_name="outbox",
            index=models.Index(
                fields=["tenant", "id"],
                condition=models.Q(state="pending", held=False),
                name="jobs_outbox_turns",
            ),
        ),
        migrations.RunSQL(PICK, UNPICK),
    ]
