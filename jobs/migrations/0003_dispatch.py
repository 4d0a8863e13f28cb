"""The dispatch round: one function, so that lock, count and move share one round trip."""

from django.db import migrations

# Lanes (kind|tenant) take turns, starting behind the lane where the last round ended; within a
# lane the lowest rank goes first. The walk from lane to lane reads one index entry per lane,
# whatever the backlog. SKIP LOCKED on the queue's row lets a second dispatcher pass by at once.
DISPATCH = """
CREATE FUNCTION jobs_dispatch(q text, budget int, max_lanes int)
RETURNS TABLE (id uuid, timeout float8) LANGUAGE plpgsql VOLATILE
-- A plan cached while the table was empty must not scan it once it is full.
SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
  seen text;
  lanes text[];
  room int := greatest(1, least(max_lanes, budget));
  share int;
BEGIN
  SELECT lane_cursor INTO seen FROM jobs_queue WHERE name = q FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  WITH RECURSIVE after AS (
    (SELECT j.lane, 1 AS n FROM jobs_job j
      WHERE j.queue = q AND j.state = 'pending' AND j.wait = 0 AND j.lane > seen
      ORDER BY j.lane LIMIT 1)
    UNION ALL
    SELECT (SELECT j.lane FROM jobs_job j
      WHERE j.queue = q AND j.state = 'pending' AND j.wait = 0 AND j.lane > a.lane
      ORDER BY j.lane LIMIT 1), a.n + 1
    FROM after a WHERE a.lane IS NOT NULL AND a.n < room)
  SELECT coalesce(array_agg(lane ORDER BY lane), '{}') INTO lanes FROM after WHERE lane IS NOT NULL;
  IF cardinality(lanes) < room AND seen <> '' THEN
    WITH RECURSIVE before AS (
      (SELECT j.lane, 1 AS n FROM jobs_job j
        WHERE j.queue = q AND j.state = 'pending' AND j.wait = 0 AND j.lane > ''
        ORDER BY j.lane LIMIT 1)
      UNION ALL
      SELECT (SELECT j.lane FROM jobs_job j
        WHERE j.queue = q AND j.state = 'pending' AND j.wait = 0 AND j.lane > b.lane
        ORDER BY j.lane LIMIT 1), b.n + 1
      FROM before b WHERE b.lane IS NOT NULL AND b.lane <= seen AND b.n <= room)
    SELECT lanes || coalesce(array_agg(lane ORDER BY lane), '{}') INTO lanes FROM (
      SELECT lane FROM before WHERE lane <= seen ORDER BY lane
      LIMIT room - cardinality(lanes)) wrapped;
  END IF;
  IF cardinality(lanes) = 0 THEN
    RETURN;
  END IF;
  share := greatest(1, budget / cardinality(lanes));
  UPDATE jobs_queue SET lane_cursor = lanes[cardinality(lanes)], dispatched_at = jobs_clock()
    WHERE name = q;
  RETURN QUERY
  WITH pick AS MATERIALIZED (
    SELECT p.id, o.lane, p.rank FROM unnest(lanes) AS o(lane) CROSS JOIN LATERAL (
      SELECT j.id, j.rank FROM jobs_job j
      WHERE j.queue = q AND j.state = 'pending' AND j.wait = 0 AND j.lane = o.lane
      ORDER BY j.rank, j.id LIMIT share FOR NO KEY UPDATE SKIP LOCKED) p),
  moved AS (
    UPDATE jobs_job j SET state = 'queued', queued_at = jobs_clock(), moved_by = 'dispatcher'
    FROM pick p WHERE j.id = p.id RETURNING j.id, j.timeout, p.lane, p.rank)
  SELECT m.id, m.timeout FROM (
    SELECT moved.*, row_number() OVER (PARTITION BY moved.lane ORDER BY moved.rank, moved.id) AS n
    FROM moved) m
  ORDER BY m.n, m.rank, m.id;
END $$
"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0002_guard")]

    operations = [
        migrations.RunSQL(DISPATCH, "DROP FUNCTION jobs_dispatch(text, int, int)"),
    ]
