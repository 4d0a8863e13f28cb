"""The job: its row is the truth, whatever Redis says."""

from django.db import models
from django.db.models import F, Q, Value
from django.db.models.functions import Abs, Least
from django.db.models.lookups import (
    Exact,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThanOrEqual,
)
from django.utils.translation import gettext_lazy as _

from jobs.ids import uuid7
from jobs.models.arrays import ArrayField
from jobs.models.clock import Clock
from jobs.models.guarded import Guarded
from jobs.models.lookups import JobQuerySet
from jobs.principals import PERMISSIONS
from jobs.states import FINAL_STATES, JobState

STATE_CHOICES = [(state.value, _(state.value)) for state in JobState]
_FINAL = sorted(str(state) for state in FINAL_STATES)


class Job(Guarded):
    """One piece of work, from its enqueue to its end."""

    id = models.UUIDField(_("id"), primary_key=True, default=uuid7, editable=False)
    kind = models.TextField(_("kind"))
    queue = models.TextField(_("queue"))
    state = models.TextField(_("state"), choices=STATE_CHOICES, default="pending")
    priority = models.SmallIntegerField(_("priority"), default=0, db_default=0)
    tenant = models.TextField(_("tenant"), default="", db_default="", blank=True)
    tags = ArrayField(
        models.TextField(),
        verbose_name=_("tags"),
        default=list,
        db_default=Value([], ArrayField(models.TextField())),
    )

    payload = models.JSONField(_("payload"))
    payload_version = models.SmallIntegerField(default=1, db_default=1)
    result = models.JSONField(_("result"), null=True)
    progress = models.JSONField(_("progress"), null=True)
    error = models.TextField(_("error"), default="", db_default="", blank=True)
    reason = models.TextField(_("reason of the failure"), default="", db_default="", blank=True)

    created_at = models.DateTimeField(_("created at"), db_default=Clock())
    run_at = models.DateTimeField(_("run at"), db_default=Clock())
    expires_at = models.DateTimeField(_("expires at"), null=True)
    queued_at = models.DateTimeField(_("queued at"), null=True)
    started_at = models.DateTimeField(_("started at"), null=True)
    finished_at = models.DateTimeField(_("finished at"), null=True)

    # Order of dispatch: lanes take turns, rank decides within a lane. ``wait`` 1 keeps a job
    # that is not due out of the ready index.
    lane = models.TextField(editable=False, db_collation="C")
    rank = models.BigIntegerField(editable=False)
    wait = models.SmallIntegerField(default=0, db_default=0, editable=False)

    attempt = models.IntegerField(_("attempt"), default=0, db_default=0)
    failures = models.IntegerField(_("failures"), default=0, db_default=0)
    crashes = models.IntegerField(_("crashes"), default=0, db_default=0)
    releases = models.IntegerField(_("releases"), default=0, db_default=0)
    max_attempts = models.IntegerField(_("max attempts"))
    timeout = models.FloatField(_("timeout in seconds"))
    lease = models.FloatField(_("lease in seconds"))

    token = models.UUIDField(_("claim token"), null=True, editable=False)
    owner = models.UUIDField(_("executor"), null=True, editable=False)
    cancel_requested_at = models.DateTimeField(_("cancel requested at"), null=True)
    cancel_reason = models.TextField(_("cancel reason"), default="", db_default="", blank=True)
    cancel_by = models.TextField(_("cancelled by"), default="", db_default="", blank=True)

    unique_key = models.TextField(_("unique key"), null=True, blank=True)  # noqa: DJ001
    batch_id = models.UUIDField(_("batch"), null=True, editable=False)
    parent_id = models.UUIDField(_("parent"), null=True, editable=False)
    replay_of = models.UUIDField(_("replay of"), null=True, editable=False)
    replayed_by = models.UUIDField(_("replayed by"), null=True, editable=False)
    correlation_id = models.TextField(_("correlation id"), default="", db_default="", blank=True)
    trace_context = models.TextField(default="", db_default="", editable=False)

    # ``flow`` says by its bits which of the rest concern this job, so that a job without any pays
    # for none: see ``jobs.engine.flow``.
    flow = models.SmallIntegerField(default=0, db_default=0, editable=False)
    exclusive_key = models.TextField(_("exclusive key"), null=True, blank=True)  # noqa: DJ001
    limit_key = models.TextField(_("limit key"), null=True, blank=True)  # noqa: DJ001
    preempts = models.BooleanField(_("preempts"), default=False, db_default=False)
    preemptible = models.BooleanField(_("preemptible"), default=False, db_default=False)
    preempted_by = models.UUIDField(_("preempted by"), null=True, editable=False)
    preempt_asked_at = models.DateTimeField(_("preemption asked at"), null=True)
    preemptions = models.IntegerField(_("preemptions"), default=0, db_default=0)
    open_parents = models.IntegerField(_("open parents"), default=0, db_default=0)
    lineage = models.UUIDField(_("lineage"), null=True, editable=False)
    schedule_id = models.BigIntegerField(_("schedule"), null=True, editable=False)
    slot_at = models.DateTimeField(_("slot of the schedule"), null=True, editable=False)
    cancel_forced = models.BooleanField(_("cancel forced"), default=False, db_default=False)

    objects = JobQuerySet.as_manager()

    class Meta:
        verbose_name = _("job")
        verbose_name_plural = _("jobs")
        db_table = "jobs_job"
        ordering = ["-created_at", "-id"]
        permissions = list(PERMISSIONS.items())
        indexes = [
            models.Index(fields=["created_at", "id"], name="jobs_job_created"),
            models.Index(
                fields=["queue", "lane", "rank", "id"],
                condition=Q(state="pending", wait=0),
                name="jobs_job_lane",
            ),
            models.Index(
                fields=["run_at"], condition=Q(state="pending", wait=1), name="jobs_job_due"
            ),
            models.Index(
                fields=["queue", "queued_at"],
                condition=Q(state__in=["queued", "running"]),
                name="jobs_job_live",
            ),
            models.Index(
                fields=["expires_at"],
                condition=Q(state__in=["blocked", "pending", "queued"], expires_at__isnull=False),
                name="jobs_job_expiry",
            ),
            models.Index(
                fields=["exclusive_key", "rank"],
                condition=Q(state="pending", exclusive_key__isnull=False),
                name="jobs_job_key_waiting",
            ),
            models.Index(
                fields=["exclusive_key", "rank"],
                condition=Q(state="pending", preempts=True, exclusive_key__isnull=False),
                name="jobs_job_preempting",
            ),
            models.Index(
                fields=["lineage"], condition=Q(lineage__isnull=False), name="jobs_job_lineage"
            ),
            models.Index(
                fields=["limit_key", "rank"],
                condition=Q(state__in=["pending", "queued", "running"], limit_key__isnull=False),
                name="jobs_job_limit_key",
            ),
            models.Index(
                fields=["batch_id", "state"],
                condition=Q(batch_id__isnull=False),
                name="jobs_job_batch",
            ),
            models.Index(
                fields=["schedule_id"],
                condition=Q(
                    state__in=["blocked", "pending", "queued", "running"],
                    schedule_id__isnull=False,
                ),
                name="jobs_job_of_schedule",
            ),
            models.Index(
                fields=["created_at", "id"], condition=Q(state="blocked"), name="jobs_job_blocked"
            ),
            models.Index(
                fields=["state", "finished_at"],
                condition=Q(state__in=_FINAL),
                name="jobs_job_finished",
            ),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["kind", "tenant", "unique_key"],
                condition=Q(
                    state__in=["blocked", "pending", "queued", "running"], unique_key__isnull=False
                ),
                name="jobs_job_unique_unfinished",
            ),
            models.UniqueConstraint(
                fields=["exclusive_key"],
                condition=Q(state__in=["queued", "running"], exclusive_key__isnull=False),
                name="jobs_job_exclusive",
            ),
            models.UniqueConstraint(
                fields=["schedule_id", "slot_at"],
                condition=Q(schedule_id__isnull=False),
                name="jobs_job_one_per_slot",
            ),
            models.CheckConstraint(
                condition=~Q(state="blocked") | Q(open_parents__gt=0),
                name="jobs_job_blocked_has_parents",
            ),
            # PostgreSQL reads each condition again for every statement: short ones are cheap.
            models.CheckConstraint(
                condition=Q(
                    Exact(IsNull(F("owner"), False), Exact(F("state"), Value("running"))),
                    Q(owner__isnull=True) | Q(token__isnull=False),
                ),
                name="jobs_job_running_has_owner",
            ),
            models.CheckConstraint(
                condition=Q(Exact(IsNull(F("finished_at"), False), In(F("state"), _FINAL))),
                name="jobs_job_final_has_end",
            ),
            models.CheckConstraint(
                condition=~Q(state="queued") | Q(queued_at__isnull=False),
                name="jobs_job_queued_has_time",
            ),
            models.CheckConstraint(
                condition=Q(LessThanOrEqual(Abs(F("priority")), 100)),
                name="jobs_job_priority_range",
            ),
            # No failures without attempts, no counter below zero, at least one attempt allowed.
            models.CheckConstraint(
                condition=Q(
                    GreaterThanOrEqual(
                        Least(
                            F("attempt") - F("failures"),
                            *(F("failures"), F("crashes"), F("releases")),
                            F("max_attempts") - 1,
                        ),
                        0,
                    )
                ),
                name="jobs_job_counters",
            ),
            models.CheckConstraint(
                condition=Q(GreaterThan(Least(F("timeout"), F("lease")), 0.0)),
                name="jobs_job_durations",
            ),
            models.CheckConstraint(
                condition=Q(moved_by__isnull=True, move_reason__isnull=True),
                name="jobs_job_mover_consumed",
            ),
            models.CheckConstraint(
                condition=~Q(state="succeeded") | Q(reason=""), name="jobs_job_success_no_reason"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.id}"
