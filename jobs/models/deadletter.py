"""The entry that waits for somebody's decision about a failed job."""

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from jobs.models.clock import Clock
from jobs.models.guarded import Guarded
from jobs.models.job import Job
from jobs.states import DeadLetterState

STATE_CHOICES = [(state.value, _(state.value)) for state in DeadLetterState]


class DeadLetter(Guarded):
    """Points at a failed job; at most one entry per job is open."""

    id = models.BigAutoField(primary_key=True)
    job = models.ForeignKey(
        Job, on_delete=models.CASCADE, related_name="dead_letters", verbose_name=_("job")
    )
    state = models.TextField(_("state"), choices=STATE_CHOICES, default="open", db_default="open")
    # Repeated from the job, which never changes them, so that groups need no join.
    kind = models.TextField(_("kind"))
    queue = models.TextField(_("queue"))
    tenant = models.TextField(_("tenant"), default="", db_default="", blank=True)
    attempt = models.IntegerField(_("attempt"))
    reason = models.TextField(_("reason"))
    fingerprint = models.TextField(_("fingerprint"))
    summary = models.TextField(_("summary"), default="", db_default="")
    opened_at = models.DateTimeField(_("opened at"), db_default=Clock())
    closed_at = models.DateTimeField(_("closed at"), null=True)
    expires_at = models.DateTimeField(_("expires at"))

    class Meta:
        verbose_name = _("dead letter")
        verbose_name_plural = _("dead letters")
        db_table = "jobs_deadletter"
        ordering = ["-opened_at", "-id"]
        indexes = [
            models.Index(fields=["opened_at", "id"], name="jobs_dl_opened"),
            models.Index(
                fields=["fingerprint", "opened_at"], condition=Q(state="open"), name="jobs_dl_group"
            ),
            models.Index(fields=["expires_at"], condition=Q(state="open"), name="jobs_dl_expiry"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["job"], condition=Q(state="open"), name="jobs_dl_one_open_per_job"
            ),
            models.CheckConstraint(
                condition=Q(state__in=[str(s) for s in DeadLetterState]), name="jobs_dl_state_known"
            ),
            models.CheckConstraint(
                condition=Q(state="open", closed_at__isnull=True)
                | (~Q(state="open") & Q(closed_at__isnull=False)),
                name="jobs_dl_closed_has_time",
            ),
            models.CheckConstraint(
                condition=Q(moved_by__isnull=True, move_reason__isnull=True),
                name="jobs_dl_mover_consumed",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.job_id}: {self.reason}"
