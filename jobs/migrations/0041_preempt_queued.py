"""A job that is queued and has not begun gives up its exclusive key, too.

It used to keep it until a worker had a free slot, began it, and could be asked to stop.
"""

from importlib import import_module

from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.db import migrations, models
from django.db.models import Q

# Whether the limits of its key, and where asked those of its queue and kind, let a job be admitted
# now. Nothing is locked: the dispatcher counts again. The job that is to make way leaves its place.
ROOM = """
CREATE FUNCTION jobs_has_room(job uuid, leaving uuid, of_all boolean) RETURNS boolean
LANGUAGE sql STABLE COST 10000 AS $$
  SELECT NOT EXISTS (
    SELECT 1 FROM jobs_job w JOIN jobs_limiter m ON m.scope IN ('queue:' || w.queue,
      'kind:' || w.kind, 'key:' || w.kind || '|' || w.limit_key)
    WHERE w.id = job AND (of_all OR m.scope LIKE 'key:%') AND (m.closed_until > jobs_clock()
      OR m.per_second IS NOT NULL AND least(m.burst, m.tokens + m.per_second * greatest(0,
        extract(epoch FROM jobs_clock() - coalesce(m.refilled_at, jobs_clock())))) < 0.999999
      OR m.at_once <= CASE
        WHEN m.scope LIKE 'queue:%' THEN (SELECT count(*) FROM jobs_job j
          WHERE j.queue = w.queue AND j.state IN ('queued', 'running') AND j.id <> leaving)
        WHEN m.scope LIKE 'kind:%' THEN (SELECT count(*) FROM jobs_job j
          WHERE j.kind = w.kind AND j.state IN ('queued', 'running') AND j.id <> leaving)
        ELSE (SELECT count(*) FROM jobs_job j WHERE j.limit_key = w.limit_key
          AND j.kind = w.kind AND j.state IN ('queued', 'running') AND j.id <> leaving) END))
$$
"""

# Waiting jobs that may push others aside take the keys of those that may be preempted, matter less,
# and have not been preempted too often. A holder that runs is asked to stop. One that is queued is
# pending again at once, and the key goes to the job that waits: where no limit has a say it is
# queued in the holder's place, and its id is to be pushed.
# One that the limit of its key keeps back would have to give the exclusive key up again. One that its
# queue or kind keeps back would hold it and wait for its turn: a running holder stops for that, since
# others may use the limit up for ever, and a queued one does not, since it will run.
PREEMPT = """
CREATE FUNCTION jobs_preempt(most int, of_kinds jsonb, served text[])
RETURNS TABLE (holder uuid, heir uuid, queue text) LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
  closed text[] := jobs_closed();
  has_limits boolean := EXISTS (SELECT 1 FROM jobs_limiter);
  holders uuid[];
  heirs uuid[];
  withdrawn uuid[];
BEGIN
  -- Among those who matter more than the holder: an old one that does not hides no other.
  WITH rival AS MATERIALIZED (
    SELECT DISTINCT ON (h.id) h.id, w.id AS by, w.priority FROM jobs_job w
      JOIN jobs_slot s ON s.key = w.exclusive_key JOIN jobs_job h ON h.id = s.job_id
    WHERE w.state = 'pending' AND w.wait <> 1 AND w.preempts AND w.exclusive_key IS NOT NULL
      AND (served IS NULL OR w.queue = ANY (served))
      AND h.state IN ('queued', 'running') AND h.preemptible AND h.preempted_by IS NULL
      AND h.priority < w.priority
      AND h.preemptions < coalesce((of_kinds ->> h.kind)::int, most)
      AND NOT (closed <> '{}' AND ARRAY['queue:' || w.queue, 'kind:' || w.kind,
        'tenant:' || w.tenant, 'key:' || w.exclusive_key, 'limit_key:' || w.limit_key] && closed)
      AND (NOT has_limits OR jobs_has_room(w.id, h.id, h.state = 'queued'))
    ORDER BY h.id, w.rank, w.id),
  locked AS MATERIALIZED (
    SELECT h.id, r.by, h.state FROM rival r JOIN jobs_job h ON h.id = r.id
    WHERE h.state IN ('queued', 'running') AND h.preemptible AND h.preempted_by IS NULL
      AND h.priority < r.priority
      AND h.preemptions < coalesce((of_kinds ->> h.kind)::int, most)
    ORDER BY h.id FOR NO KEY UPDATE OF h SKIP LOCKED)
  SELECT array_agg(l.id), array_agg(l.by), array_agg(l.id) FILTER (WHERE l.state = 'queued')
    INTO holders, heirs, withdrawn FROM locked l;
  IF holders IS NULL THEN
    RETURN;
  END IF;
  UPDATE jobs_job j SET preempted_by = p.by, preempt_asked_at = jobs_clock()
    FROM unnest(holders, heirs) AS p(id, by) WHERE j.id = p.id;
  IF withdrawn IS NOT NULL THEN
    UPDATE jobs_job j SET state = 'pending', wait = 0, queued_at = NULL,
        preemptions = j.preemptions + 1, moved_by = 'dispatcher',
        move_reason = 'preempted before it started'
      WHERE j.id = ANY (withdrawn);
    PERFORM jobs_follow(withdrawn);
  END IF;
  RETURN QUERY
  WITH placed AS (
    UPDATE jobs_job w SET state = 'queued', queued_at = jobs_clock(), moved_by = 'dispatcher'
    FROM unnest(holders, heirs) AS p(id, by) JOIN jobs_slot s ON s.job_id = p.by
    WHERE p.id = ANY (withdrawn) AND w.id = p.by AND s.key = w.exclusive_key
      AND w.state = 'pending' AND w.wait = 0 AND w.cancel_requested_at IS NULL
      AND (w.expires_at IS NULL OR w.expires_at > jobs_clock()) AND NOT EXISTS (
        SELECT 1 FROM jobs_limiter m WHERE m.scope IN ('queue:' || w.queue, 'kind:' || w.kind,
          'key:' || w.kind || '|' || w.limit_key))
    RETURNING w.id, w.queue)
  SELECT p.id, p.by, placed.queue FROM unnest(holders, heirs) AS p(id, by)
    LEFT JOIN placed ON placed.id = p.by;
END $$
"""
_BEFORE = import_module("jobs.migrations.0006_flow_functions").PREEMPT
_UNPREEMPT = f"""
DROP FUNCTION jobs_preempt(int, jsonb, text[]);
{_BEFORE};
ALTER FUNCTION jobs_preempt(int) SET jit = off;
"""


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("jobs", "0040_expiry_of_started")]

    operations = [
        AddIndexConcurrently(
            model_name="job",
            index=models.Index(
                fields=["exclusive_key", "rank"],
                condition=Q(state="pending", preempts=True, exclusive_key__isnull=False),
                name="jobs_job_preempting",
            ),
        ),
        RemoveIndexConcurrently(model_name="job", name="jobs_job_rival"),
        migrations.RunSQL(ROOM, "DROP FUNCTION jobs_has_room(uuid, uuid, boolean)"),
        migrations.RunSQL(f"DROP FUNCTION jobs_preempt(int); {PREEMPT}", _UNPREEMPT),
    ]
