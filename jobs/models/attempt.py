"""What is remembered of an attempt that did not succeed."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from jobs.models.job import Job


class Attempt(models.Model):
    """A failed, timed-out, crashed or lost attempt. A success leaves none."""

    class Outcome(models.TextChoices):
        FAILED = "failed", _("failed")
        TIMEOUT = "timeout", _("timed out")
        CRASHED = "crashed", _("crashed")
        LOST = "lost", _("lost")

    id = models.BigAutoField(primary_key=True)
    job = models.ForeignKey(
        Job, on_delete=models.CASCADE, related_name="attempts", verbose_name=_("job")
    )
    number = models.IntegerField(_("number"))
    outcome = models.TextField(_("outcome"), choices=Outcome.choices)
    error_class = models.TextField(_("error class"), default="", db_default="")
    message = models.TextField(_("message"), default="", db_default="")
    traceback = models.TextField(_("traceback"), default="", db_default="")
    lines = models.TextField(_("last lines of its log"), default="", db_default="")
    worker = models.TextField(_("worker"), default="", db_default="")
    started_at = models.DateTimeField(_("started at"), null=True)
    ended_at = models.DateTimeField(_("ended at"))

    class Meta:
        verbose_name = _("attempt")
        verbose_name_plural = _("attempts")
        db_table = "jobs_attempt"
        ordering = ["job_id", "number"]
        constraints = [
            models.UniqueConstraint(fields=["job", "number"], name="jobs_attempt_once"),
            models.CheckConstraint(
                condition=models.Q(outcome__in=["failed", "timeout", "crashed", "lost"]),
                name="jobs_attempt_outcome_known",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.job_id} #{self.number}: {self.outcome}"
