"""Causes of failures: what died of the same error, and what was decided about it."""

from django.db import migrations, models

import jobs.models.clock


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0027_bulk"),
    ]

    operations = [
        migrations.CreateModel(
            name="Cause",
            fields=[
                (
                    "fingerprint",
                    models.TextField(primary_key=True, serialize=False, verbose_name="fingerprint"),
                ),
                (
                    "state",
                    models.TextField(
                        choices=[
                            ("open", "open"),
                            ("ignored", "ignored"),
                            ("resolved", "resolved"),
                        ],
                        db_default="open",
                        default="open",
                        verbose_name="state",
                    ),
                ),
                (
                    "ignored_until",
                    models.DateTimeField(blank=True, null=True, verbose_name="ignored until"),
                ),
                (
                    "note",
                    models.TextField(blank=True, db_default="", default="", verbose_name="note"),
                ),
                (
                    "decided_by",
                    models.TextField(
                        blank=True, db_default="", default="", verbose_name="decided by"
                    ),
                ),
                ("decided_at", models.DateTimeField(null=True, verbose_name="decided at")),
                (
                    "sample",
                    models.TextField(db_default="", default="", verbose_name="an error of it"),
                ),
                (
                    "first_at",
                    models.DateTimeField(
                        db_default=jobs.models.clock.Clock(), verbose_name="first seen"
                    ),
                ),
                (
                    "reopened",
                    models.IntegerField(
                        db_default=0, default=0, verbose_name="how often it came back"
                    ),
                ),
            ],
            options={
                "verbose_name": "cause of failures",
                "verbose_name_plural": "causes of failures",
                "db_table": "jobs_cause",
                "ordering": ["-first_at", "fingerprint"],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("state__in", ["open", "ignored", "resolved"])),
                        name="jobs_cause_state_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("ignored_until__isnull", True), ("state", "ignored"), _connector="OR"
                        ),
                        name="jobs_cause_until_ignored",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="CauseSeen",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("fingerprint", models.TextField(verbose_name="fingerprint")),
                ("kind", models.TextField(verbose_name="kind")),
                ("queue", models.TextField(verbose_name="queue")),
                (
                    "tenant",
                    models.TextField(blank=True, db_default="", default="", verbose_name="tenant"),
                ),
                (
                    "count",
                    models.BigIntegerField(db_default=0, default=0, verbose_name="how often"),
                ),
                (
                    "first_at",
                    models.DateTimeField(
                        db_default=jobs.models.clock.Clock(), verbose_name="first seen"
                    ),
                ),
                (
                    "last_at",
                    models.DateTimeField(
                        db_default=jobs.models.clock.Clock(), verbose_name="last seen"
                    ),
                ),
            ],
            options={
                "verbose_name": "occurrence of a cause",
                "verbose_name_plural": "occurrences of causes",
                "db_table": "jobs_causeseen",
                "ordering": ["fingerprint", "kind", "queue", "tenant"],
                "indexes": [models.Index(fields=["last_at"], name="jobs_causeseen_last")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("fingerprint", "kind", "queue", "tenant"),
                        name="jobs_causeseen_once",
                    )
                ],
            },
        ),
    ]
