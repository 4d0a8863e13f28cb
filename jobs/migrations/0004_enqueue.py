"""The insert of one job as a function: its plan is made once per session, not once per job."""

from django.db import migrations

ENQUEUE = """
CREATE FUNCTION jobs_enqueue(
  job uuid, kind_ text, queue_ text, state_ text, priority_ int, payload_ text, version int,
  tenant_ text, tags_ text[], at timestamptz, delay float8, weight int, expires timestamptz,
  expires_in float8, attempts int, timeout_ float8, lease_ float8, correlation text
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
    correlation_id)
  VALUES (job, kind_, queue_, state_, priority_, payload_::jsonb, version, tenant_, tags_,
    kind_ || '|' || tenant_, now_, start,
    (extract(epoch FROM start) * 1000)::bigint - priority_ * weight,
    CASE WHEN start > now_ THEN 1 ELSE 0 END,
    coalesce(expires, now_ + expires_in * interval '1 s'),
    CASE WHEN state_ = 'queued' THEN now_ END, attempts, timeout_, lease_, correlation)
  ON CONFLICT (id) DO NOTHING;
  RETURN FOUND;
END $$
"""

UNENQUEUE = """
DROP FUNCTION jobs_enqueue(uuid, text, text, text, int, text, int, text, text[], timestamptz,
  float8, int, timestamptz, float8, int, float8, float8, text)
"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0003_dispatch")]

    operations = [migrations.RunSQL(ENQUEUE, UNENQUEUE)]
