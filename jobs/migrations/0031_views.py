"""What people keep of their work in the admin."""

from django.db import migrations, models

import jobs.models.clock


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0030_found"),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="job",
            options={
                "ordering": ["-created_at", "-id"],
                "permissions": [
                    ("enqueue_job", "Can enqueue jobs"),
                    ("edit_job", "Can edit waiting jobs"),
                    ("retry_job", "Can retry jobs and run them now"),
                    ("replay_job", "Can replay jobs"),
                    ("cancel_job", "Can cancel jobs"),
                    ("view_payload", "Can see payloads and results"),
                    ("reveal_payload", "Can see protected fields of payloads in clear"),
                    ("run_bulk", "Can act on many jobs at once"),
                    ("resolve_deadletter", "Can decide about dead letters"),
                    ("resolve_doubt", "Can decide about effects in doubt"),
                    ("publish_outbox", "Can park, publish and discard events"),
                    ("pause_queue", "Can pause and resume"),
                    ("edit_queue", "Can change limits of queues, kinds and keys"),
                    ("view_worker", "Can see workers"),
                    ("manage_worker", "Can drain and stop workers"),
                    ("manage_schedule", "Can manage schedules"),
                    ("manage_blackout", "Can manage blackout windows"),
                    ("manage_webhook", "Can manage webhook endpoints"),
                    ("manage_apikey", "Can create and revoke API keys"),
                    ("save_view", "Can save views of the list of jobs"),
                    ("share_view", "Can share saved views"),
                ],
                "verbose_name": "job",
                "verbose_name_plural": "jobs",
            },
        ),
        migrations.CreateModel(
            name="SavedView",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("name", models.TextField(verbose_name="name")),
                (
                    "query",
                    models.TextField(blank=True, db_default="", default="", verbose_name="query"),
                ),
                ("tab", models.TextField(db_default="all", default="all", verbose_name="tab")),
                (
                    "tenant",
                    models.TextField(blank=True, db_default="", default="", verbose_name="tenant"),
                ),
                (
                    "is_shared",
                    models.BooleanField(db_default=False, default=False, verbose_name="shared"),
                ),
                ("owner", models.TextField(verbose_name="owner")),
                ("keeper", models.TextField(editable=False)),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=jobs.models.clock.Clock(), verbose_name="created at"
                    ),
                ),
            ],
            options={
                "verbose_name": "saved view",
                "verbose_name_plural": "saved views",
                "db_table": "jobs_savedview",
                "ordering": ["name", "id"],
                "default_permissions": (),
                "indexes": [
                    models.Index(
                        condition=models.Q(("is_shared", True)),
                        fields=["tenant", "name"],
                        name="jobs_savedview_shared",
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("keeper", "name"), name="jobs_savedview_once")
                ],
            },
        ),
    ]
