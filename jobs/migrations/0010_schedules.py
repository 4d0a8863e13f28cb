"""Schedules: who paused one, why one makes no jobs, and which of its jobs are unfinished."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0006_flow_functions")]

    operations = [
        migrations.AddField(
            model_name="schedule",
            name="payload_version",
            field=models.SmallIntegerField(db_default=1, default=1, editable=False),
        ),
        migrations.AddField(
            model_name="schedule",
            name="paused_at",
            field=models.DateTimeField(editable=False, null=True, verbose_name="paused since"),
        ),
        migrations.AddField(
            model_name="schedule",
            name="paused_by",
            field=models.TextField(blank=True, db_default="", default="", verbose_name="paused by"),
        ),
        migrations.AddField(
            model_name="schedule",
            name="error",
            field=models.TextField(
                blank=True, db_default="", default="", verbose_name="why it makes no jobs"
            ),
        ),
        migrations.AddConstraint(
            model_name="schedule",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("paused_at__isnull", False),
                    models.Q(
                        ("paused_by", ""), ("paused_reason", ""), ("paused_until__isnull", True)
                    ),
                    _connector="OR",
                ),
                name="jobs_schedule_pause",
            ),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                condition=models.Q(
                    ("schedule_id__isnull", False),
                    ("state__in", ["blocked", "pending", "queued", "running"]),
                ),
                fields=["schedule_id"],
                name="jobs_job_of_schedule",
            ),
        ),
    ]
