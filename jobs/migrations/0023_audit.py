"""Who did what, written once; the permissions of people."""

from django.db import migrations, models

import jobs.ids
import jobs.models.clock

# The one who may delete says so for his transaction: retention.
FIXED = """
CREATE FUNCTION jobs_audit_fixed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' AND current_setting('jobs.retention', true) = 'on' THEN
    RETURN OLD;
  END IF;
  RAISE EXCEPTION 'row % of the audit stays as it is', OLD.id
    USING ERRCODE = 'check_violation', CONSTRAINT = TG_NAME;
END $$;
CREATE TRIGGER jobs_audit_fixed BEFORE UPDATE OR DELETE ON jobs_audit FOR EACH ROW
  EXECUTE FUNCTION jobs_audit_fixed();
"""
UNFIXED = "DROP TRIGGER jobs_audit_fixed ON jobs_audit; DROP FUNCTION jobs_audit_fixed();"


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0022_minutes"),
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
                ],
                "verbose_name": "job",
                "verbose_name_plural": "jobs",
            },
        ),
        migrations.CreateModel(
            name="Audit",
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
                (
                    "at",
                    models.DateTimeField(db_default=jobs.models.clock.Clock(), verbose_name="at"),
                ),
                ("actor", models.TextField(verbose_name="who")),
                ("via", models.TextField(verbose_name="via")),
                ("action", models.TextField(verbose_name="action")),
                ("target_kind", models.TextField(verbose_name="kind of target")),
                (
                    "target_id",
                    models.TextField(blank=True, db_default="", default="", verbose_name="target"),
                ),
                (
                    "tenant",
                    models.TextField(blank=True, db_default="", default="", verbose_name="tenant"),
                ),
                (
                    "queue",
                    models.TextField(blank=True, db_default="", default="", verbose_name="queue"),
                ),
                ("count", models.IntegerField(db_default=1, default=1, verbose_name="count")),
                (
                    "reason",
                    models.TextField(blank=True, db_default="", default="", verbose_name="reason"),
                ),
                (
                    "request_id",
                    models.TextField(
                        blank=True, db_default="", default="", verbose_name="request id"
                    ),
                ),
                (
                    "outcome",
                    models.TextField(
                        choices=[("done", "done"), ("denied", "denied"), ("refused", "refused")],
                        verbose_name="outcome",
                    ),
                ),
                ("detail", models.JSONField(default=dict, verbose_name="detail")),
            ],
            options={
                "verbose_name": "act",
                "verbose_name_plural": "audit",
                "db_table": "jobs_audit",
                "ordering": ["-at", "-id"],
                "default_permissions": ("view",),
                "indexes": [
                    models.Index(fields=["at", "id"], name="jobs_audit_at"),
                    models.Index(fields=["actor", "at", "id"], name="jobs_audit_actor"),
                    models.Index(fields=["action", "at", "id"], name="jobs_audit_action"),
                    models.Index(
                        fields=["target_kind", "target_id", "at", "id"], name="jobs_audit_target"
                    ),
                    models.Index(fields=["tenant", "at", "id"], name="jobs_audit_tenant"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("outcome__in", ("done", "denied", "refused"))),
                        name="jobs_audit_outcome_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("count__gte", 0)), name="jobs_audit_count"
                    ),
                ],
            },
        ),
        migrations.RunSQL(FIXED, UNFIXED),
    ]
