"""Apps count numbers of their own, which are summed over all processes."""

import django.contrib.postgres.fields
from django.db import migrations, models

import jobs.models.clock


class Migration(migrations.Migration):
    dependencies = [("jobs", "0041_preempt_queued")]

    operations = [
        migrations.CreateModel(
            name="Metric",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("name", models.TextField()),
                (
                    "labels",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.TextField(),
                        default=list,
                        size=None,
                    ),
                ),
                (
                    "bounds",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.FloatField(),
                        db_default=models.Value(
                            [],
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.FloatField(), size=None
                            ),
                        ),
                        default=list,
                        size=None,
                    ),
                ),
                (
                    "process",
                    models.TextField(db_default="", default=""),
                ),
                (
                    "value",
                    models.FloatField(db_default=0.0, default=0.0),
                ),
                (
                    "buckets",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.BigIntegerField(),
                        db_default=models.Value(
                            [],
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.BigIntegerField(), size=None
                            ),
                        ),
                        default=list,
                        size=None,
                    ),
                ),
                (
                    "seen_at",
                    models.DateTimeField(db_default=jobs.models.clock.Clock()),
                ),
            ],
            options={
                "db_table": "jobs_metric",
                "ordering": ["name", "id"],
                "default_permissions": (),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("name", "labels", "bounds", "process"), name="jobs_metric_once"
                    )
                ],
            },
        ),
    ]
