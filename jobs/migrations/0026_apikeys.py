import django.contrib.postgres.fields
from django.db import migrations, models

import jobs.models.clock


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0025_search"),
    ]

    operations = [
        migrations.CreateModel(
            name="Answer",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("principal", models.TextField(verbose_name="principal")),
                ("method", models.TextField(verbose_name="method")),
                ("path", models.TextField(verbose_name="path")),
                ("key", models.TextField(verbose_name="key")),
                ("fingerprint", models.TextField(verbose_name="fingerprint of the request")),
                ("status", models.SmallIntegerField(verbose_name="status")),
                ("headers", models.JSONField(default=dict, verbose_name="headers")),
                ("body", models.TextField(db_default="", default="", verbose_name="body")),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=jobs.models.clock.Clock(), verbose_name="created at"
                    ),
                ),
            ],
            options={
                "verbose_name": "kept answer",
                "verbose_name_plural": "kept answers",
                "db_table": "jobs_api_answer",
                "ordering": ["id"],
                "indexes": [models.Index(fields=["created_at", "id"], name="jobs_answer_created")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("principal", "method", "path", "key"), name="jobs_answer_once"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="ApiKey",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("name", models.TextField(verbose_name="name")),
                ("prefix", models.TextField(unique=True, verbose_name="public part")),
                ("secret_hash", models.TextField(editable=False)),
                ("previous_hash", models.TextField(db_default="", default="", editable=False)),
                (
                    "previous_until",
                    models.DateTimeField(
                        editable=False, null=True, verbose_name="previous secret until"
                    ),
                ),
                (
                    "permissions",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.TextField(),
                        default=list,
                        size=None,
                        verbose_name="permissions",
                    ),
                ),
                (
                    "tenants",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.TextField(), null=True, size=None, verbose_name="tenants"
                    ),
                ),
                (
                    "queues",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.TextField(), null=True, size=None, verbose_name="queues"
                    ),
                ),
                (
                    "addresses",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.TextField(),
                        db_default=models.Value(
                            [],
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.TextField(), size=None
                            ),
                        ),
                        default=list,
                        size=None,
                        verbose_name="allowed addresses",
                    ),
                ),
                (
                    "is_staff",
                    models.BooleanField(
                        db_default=False, default=False, verbose_name="sees events of staff"
                    ),
                ),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=jobs.models.clock.Clock(), verbose_name="created at"
                    ),
                ),
                (
                    "created_by",
                    models.TextField(db_default="", default="", verbose_name="created by"),
                ),
                ("expires_at", models.DateTimeField(null=True, verbose_name="expires at")),
                ("last_used_at", models.DateTimeField(null=True, verbose_name="last used at")),
                ("rotated_at", models.DateTimeField(null=True, verbose_name="rotated at")),
                ("revoked_at", models.DateTimeField(null=True, verbose_name="revoked at")),
                (
                    "revoked_by",
                    models.TextField(db_default="", default="", verbose_name="revoked by"),
                ),
            ],
            options={
                "verbose_name": "API key",
                "verbose_name_plural": "API keys",
                "db_table": "jobs_apikey",
                "ordering": ["-created_at", "-id"],
                "indexes": [models.Index(fields=["created_at", "id"], name="jobs_apikey_created")],
            },
        ),
    ]
