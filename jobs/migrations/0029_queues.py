"""Workers on a roll, limits that people set, notes on batches."""

import django.contrib.postgres.fields
from django.db import migrations, models

import jobs.models.clock


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0028_causes"),
    ]

    operations = [
        migrations.CreateModel(
            name="Worker",
            fields=[
                ("name", models.TextField(primary_key=True, serialize=False, verbose_name="name")),
                ("host", models.TextField(db_default="", default="", verbose_name="host")),
                ("pid", models.IntegerField(db_default=0, default=0, verbose_name="process id")),
                (
                    "version",
                    models.TextField(blank=True, db_default="", default="", verbose_name="version"),
                ),
                (
                    "queues",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.TextField(), size=None, verbose_name="queues"
                    ),
                ),
                ("slots", models.IntegerField(db_default=1, default=1, verbose_name="slots")),
                (
                    "memory",
                    models.FloatField(db_default=0, default=0, verbose_name="memory in MiB"),
                ),
                (
                    "started_at",
                    models.DateTimeField(
                        db_default=jobs.models.clock.Clock(), verbose_name="started at"
                    ),
                ),
                (
                    "seen_at",
                    models.DateTimeField(
                        db_default=jobs.models.clock.Clock(), verbose_name="seen at"
                    ),
                ),
                ("ended_at", models.DateTimeField(null=True, verbose_name="ended at")),
                (
                    "asked",
                    models.TextField(
                        blank=True, db_default="", default="", verbose_name="asked to"
                    ),
                ),
                (
                    "asked_by",
                    models.TextField(
                        blank=True, db_default="", default="", verbose_name="asked by"
                    ),
                ),
                ("asked_at", models.DateTimeField(null=True, verbose_name="asked at")),
            ],
            options={
                "verbose_name": "worker",
                "verbose_name_plural": "workers",
                "db_table": "jobs_worker",
                "ordering": ["name"],
                "default_permissions": (),
            },
        ),
        migrations.AddField(
            model_name="batch",
            name="note",
            field=models.TextField(blank=True, db_default="", default="", verbose_name="note"),
        ),
        migrations.AddField(
            model_name="limiter",
            name="override_until",
            field=models.DateTimeField(blank=True, null=True, verbose_name="until"),
        ),
        migrations.AddField(
            model_name="limiter",
            name="set_by",
            field=models.TextField(blank=True, db_default="", default="", verbose_name="set by"),
        ),
        migrations.AddField(
            model_name="limiter",
            name="set_reason",
            field=models.TextField(blank=True, db_default="", default="", verbose_name="reason"),
        ),
        migrations.AddField(
            model_name="limiter",
            name="standing",
            field=models.JSONField(editable=False, null=True, verbose_name="before the override"),
        ),
        migrations.AddIndex(
            model_name="limiter",
            index=models.Index(
                condition=models.Q(("override_until__isnull", False)),
                fields=["override_until"],
                name="jobs_limiter_override",
            ),
        ),
        migrations.AddConstraint(
            model_name="worker",
            constraint=models.CheckConstraint(
                condition=models.Q(("asked__in", ["", "drain", "stop"])),
                name="jobs_worker_asked_known",
            ),
        ),
    ]
