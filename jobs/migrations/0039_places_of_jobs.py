"""Jobs are found by queue, tenant and kind: one index of the three, newest last in each."""

from django.db import migrations

# An expression, so that no statement of the engine, which names the columns, may take this index
# for the smaller ones that it needs.
INDEX = """
CREATE INDEX CONCURRENTLY jobs_job_place ON jobs_job
  (((queue || E'\\x1f' || lane) COLLATE "C"), created_at, id)
"""


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("jobs", "0038_turns_of_events")]

    operations = [
        migrations.RunSQL(INDEX, "DROP INDEX CONCURRENTLY IF EXISTS jobs_job_place"),
    ]
