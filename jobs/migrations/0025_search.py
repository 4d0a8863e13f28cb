"""Values by which jobs are found, beside the job table, and the marks of deploys."""

from django.db import migrations, models

import jobs.models.clock

# Where a job has neither tags nor a correlation id the trigger is not even called.
REMEMBER = """
CREATE FUNCTION jobs_remember() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO jobs_search (path, value, job_id, created_at)
  SELECT 'tag', t, NEW.id, NEW.created_at FROM (SELECT DISTINCT unnest(NEW.tags) AS t) AS s
  UNION ALL SELECT 'correlation', NEW.correlation_id, NEW.id, NEW.created_at
    WHERE NEW.correlation_id <> '';
  RETURN NULL;
END $$;
CREATE TRIGGER jobs_job_remember AFTER INSERT ON jobs_job FOR EACH ROW
  WHEN (NEW.correlation_id <> '' OR NEW.tags <> '{}') EXECUTE FUNCTION jobs_remember();
INSERT INTO jobs_search (path, value, job_id, created_at)
SELECT 'tag', t, id, created_at FROM jobs_job
  CROSS JOIN LATERAL (SELECT DISTINCT unnest(tags) AS t) AS s
UNION ALL SELECT 'correlation', correlation_id, id, created_at FROM jobs_job
  WHERE correlation_id <> ''
"""
FORGET = "DROP TRIGGER jobs_job_remember ON jobs_job; DROP FUNCTION jobs_remember()"


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0024_webhooks"),
    ]

    operations = [
        migrations.CreateModel(
            name="Search",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("path", models.TextField(verbose_name="path")),
                ("value", models.TextField(verbose_name="value")),
                ("job_id", models.UUIDField(verbose_name="job")),
                ("created_at", models.DateTimeField(verbose_name="created at")),
            ],
            options={
                "verbose_name": "search value",
                "verbose_name_plural": "search values",
                "db_table": "jobs_search",
                "ordering": ["id"],
                "indexes": [
                    models.Index(
                        fields=["path", "value", "created_at", "job_id"], name="jobs_search_found"
                    ),
                    models.Index(fields=["job_id"], name="jobs_search_job"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Deploy",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                (
                    "at",
                    models.DateTimeField(db_default=jobs.models.clock.Clock(), verbose_name="at"),
                ),
                ("version", models.TextField(verbose_name="version")),
                (
                    "by",
                    models.TextField(blank=True, db_default="", default="", verbose_name="by"),
                ),
            ],
            options={
                "verbose_name": "deploy",
                "verbose_name_plural": "deploys",
                "db_table": "jobs_deploy",
                "ordering": ["-at", "-id"],
                "indexes": [models.Index(fields=["at"], name="jobs_deploy_at")],
            },
        ),
        migrations.CreateModel(
            name="Quarter",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("queue", models.TextField(verbose_name="queue")),
                ("outcome", models.TextField(verbose_name="outcome")),
                ("at", models.DateTimeField(verbose_name="from")),
                ("count", models.BigIntegerField(verbose_name="attempts")),
            ],
            options={
                "verbose_name": "quarter of an hour",
                "verbose_name_plural": "statistics by the quarter of an hour",
                "db_table": "jobs_quarter",
                "ordering": ["at", "id"],
                "default_permissions": (),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("at", "queue", "outcome"), name="jobs_quarter_once"
                    )
                ],
            },
        ),
        migrations.RunSQL(REMEMBER, FORGET),
    ]
