"""Indexes by which rows are found again."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("jobs", "0030_lighter"),
    ]

    operations = [
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
