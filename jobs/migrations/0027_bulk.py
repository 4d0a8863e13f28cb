"""Bulk operations: what was asked for, and what became of each job."""

import django.db.models.deletion
import django.db.models.expressions
from django.db import migrations, models

import jobs.ids
import jobs.models.clock


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0026_apikeys"),
    ]

    operations = [
        migrations.CreateModel(
            name="Bulk",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=jobs.ids.uuid7,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                        verbose_name="id",
                    ),
                ),
                ("action", models.TextField(verbose_name="action")),
                ("options", models.JSONField(default=dict, verbose_name="options")),
                (
                    "query",
                    models.TextField(blank=True, db_default="", default="", verbose_name="query"),
                ),
                ("before", models.DateTimeField(verbose_name="jobs created until")),
                ("by", models.TextField(verbose_name="by")),
                ("via", models.TextField(db_default="code", default="code", verbose_name="via")),
                ("reason", models.TextField(verbose_name="reason")),
                ("scope", models.JSONField(default=dict, verbose_name="scope")),
                (
                    "state",
                    models.TextField(
                        choices=[
                            ("gathering", "gathering its jobs"),
                            ("running", "running"),
                            ("canary", "waiting for the first ones"),
                            ("done", "done"),
                            ("stopped", "stopped by failures"),
                            ("aborted", "aborted"),
                        ],
                        db_default="gathering",
                        default="gathering",
                        verbose_name="state",
                    ),
                ),
                (
                    "note",
                    models.TextField(
                        blank=True, db_default="", default="", verbose_name="why it ended"
                    ),
                ),
                (
                    "per_minute",
                    models.IntegerField(blank=True, null=True, verbose_name="at most per minute"),
                ),
                (
                    "canary",
                    models.IntegerField(
                        db_default=0, default=0, verbose_name="first ones to wait for"
                    ),
                ),
                (
                    "stop_at",
                    models.FloatField(
                        blank=True, null=True, verbose_name="stops at this share of failures"
                    ),
                ),
                ("total", models.IntegerField(db_default=0, default=0, verbose_name="items")),
                ("done", models.IntegerField(db_default=0, default=0, verbose_name="done")),
                ("skipped", models.IntegerField(db_default=0, default=0, verbose_name="skipped")),
                ("failed", models.IntegerField(db_default=0, default=0, verbose_name="failed")),
                ("gathered_at", models.DateTimeField(editable=False, null=True)),
                ("gathered_id", models.UUIDField(editable=False, null=True)),
                ("next_at", models.DateTimeField(editable=False, null=True)),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=jobs.models.clock.Clock(), verbose_name="created at"
                    ),
                ),
                ("started_at", models.DateTimeField(null=True, verbose_name="started at")),
                ("finished_at", models.DateTimeField(null=True, verbose_name="finished at")),
            ],
            options={
                "verbose_name": "bulk operation",
                "verbose_name_plural": "bulk operations",
                "db_table": "jobs_bulk",
                "ordering": ["-created_at", "-id"],
                "indexes": [models.Index(fields=["created_at", "id"], name="jobs_bulk_created")],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "state__in",
                                ["gathering", "running", "canary", "done", "stopped", "aborted"],
                            )
                        ),
                        name="jobs_bulk_state_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("finished_at__isnull", False),
                                ("state__in", ["aborted", "done", "stopped"]),
                            ),
                            models.Q(
                                models.Q(
                                    ("state__in", ["aborted", "done", "stopped"]), _negated=True
                                ),
                                ("finished_at__isnull", True),
                            ),
                            _connector="OR",
                        ),
                        name="jobs_bulk_ended_has_time",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("done__gte", 0),
                            ("failed__gte", 0),
                            ("skipped__gte", 0),
                            (
                                "total__gte",
                                django.db.models.expressions.CombinedExpression(
                                    django.db.models.expressions.CombinedExpression(
                                        models.F("done"), "+", models.F("skipped")
                                    ),
                                    "+",
                                    models.F("failed"),
                                ),
                            ),
                        ),
                        name="jobs_bulk_counters",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="BulkItem",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("job_id", models.UUIDField(verbose_name="job")),
                ("letter_id", models.BigIntegerField(null=True, verbose_name="dead letter")),
                ("created_at", models.DateTimeField(verbose_name="job created at")),
                (
                    "state",
                    models.TextField(
                        choices=[
                            ("waiting", "waiting"),
                            ("done", "done"),
                            ("skipped", "skipped"),
                            ("failed", "failed"),
                        ],
                        db_default="waiting",
                        default="waiting",
                        verbose_name="outcome",
                    ),
                ),
                (
                    "detail",
                    models.TextField(blank=True, db_default="", default="", verbose_name="detail"),
                ),
                ("result", models.UUIDField(null=True, verbose_name="new job")),
                ("is_canary", models.BooleanField(db_default=False, default=False, editable=False)),
                ("decided_at", models.DateTimeField(null=True, verbose_name="decided at")),
                (
                    "bulk",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="items",
                        to="jobs.bulk",
                        verbose_name="bulk operation",
                    ),
                ),
            ],
            options={
                "verbose_name": "item of a bulk operation",
                "verbose_name_plural": "items of bulk operations",
                "db_table": "jobs_bulkitem",
                "ordering": ["created_at", "job_id"],
                "indexes": [
                    models.Index(
                        condition=models.Q(("state", "waiting")),
                        fields=["bulk", "created_at", "job_id"],
                        name="jobs_bulkitem_waiting",
                    ),
                    models.Index(fields=["bulk", "state", "id"], name="jobs_bulkitem_outcome"),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("bulk", "job_id"), name="jobs_bulkitem_once"),
                    models.CheckConstraint(
                        condition=models.Q(("state__in", ["waiting", "done", "skipped", "failed"])),
                        name="jobs_bulkitem_state_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("decided_at__isnull", True), ("state", "waiting")),
                            models.Q(
                                models.Q(("state", "waiting"), _negated=True),
                                ("decided_at__isnull", False),
                            ),
                            _connector="OR",
                        ),
                        name="jobs_bulkitem_decided_has_time",
                    ),
                ],
            },
        ),
    ]
