"""Indexes by which rows are found again, and the queue of an effect in doubt."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models import Q

TELL = """
CREATE OR REPLACE FUNCTION jobs_tell_effect() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO jobs_outbox (topic, key, tenant, audience, payload)
  SELECT 'jobs.effect.in_doubt', 'job:' || j.id, j.tenant,
    CASE WHEN j.tenant = '' THEN 'staff' ELSE 'tenant' END,
    jsonb_build_object('job', j.id, 'kind', j.kind, {queue}'effect', NEW.id,
      'attempt', NEW.attempt)
  FROM jobs_job j WHERE j.id = NEW.job_id;
  RETURN NULL;
END $$;
"""


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("jobs", "0029_queues"),
    ]

    operations = [
        migrations.RunSQL(
            TELL.replace("{queue}", "'queue', j.queue, "), TELL.replace("{queue}", "")
        ),
        AddIndexConcurrently(
            model_name="jobkey",
            index=models.Index(fields=["job_id"], name="jobs_key_job"),
        ),
        AddIndexConcurrently(
            model_name="job",
            index=models.Index(
                fields=["created_at", "id"], condition=Q(state="blocked"), name="jobs_job_blocked"
            ),
        ),
    ]
