"""The pages: jobs with their attempts, dead letters, executors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from jobs.admin import show
from jobs.admin.bounded import ReadOnlyAdmin
from jobs.admin.filters import KindFilter, QueueFilter
from jobs.models import Attempt, DeadLetter, Job, Lease
from jobs.operate.shown import public_data, public_payload

if TYPE_CHECKING:
    TabularInline = admin.TabularInline[Attempt, Job]
else:  # at run time Django's classes take no parameters
    TabularInline = admin.TabularInline


class AttemptInline(TabularInline):
    model = Attempt
    fields = ("number", "outcome", "error", "started_at", "ended_at", "worker")
    readonly_fields = fields
    ordering = ("number",)
    extra = max_num = 0
    can_delete = False
    verbose_name_plural = "attempts that did not succeed"

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    @admin.display(description="error")
    def error(self, attempt: Attempt) -> SafeString:
        text = f"{attempt.error_class}: {attempt.message}" if attempt.error_class else ""
        return show.folded(
            text[:200], f"{attempt.traceback or attempt.message}\n\n{attempt.lines}".rstrip()
        )


@admin.register(Job)
class JobAdmin(ReadOnlyAdmin):
    """A list of jobs, and a job with its whole life."""

    list_display = (
        "id",
        "kind",
        "state",
        "queue",
        "tenant",
        "created_at",
        "run_at",
        "tries",
    )
    list_filter = ("state", KindFilter, QueueFilter)
    search_fields = ("id",)
    inlines = (AttemptInline,)
    fieldsets = (
        (None, {"fields": ("id", "kind", "state", "reason", "error", "life")}),
        ("what", {"fields": ("shown_payload", "shown_result", "progress")}),
        (
            "when",
            {
                "fields": (
                    "created_at",
                    "run_at",
                    "expires_at",
                    "queued_at",
                    "started_at",
                    "finished_at",
                )
            },
        ),
        (
            "how",
            {
                "fields": (
                    "queue",
                    "priority",
                    "tenant",
                    "tags",
                    "tries",
                    "crashes",
                    "releases",
                    "timeout",
                    "owner",
                    "correlation_id",
                )
            },
        ),
        ("cancelling", {"fields": ("cancel_requested_at", "cancel_by", "cancel_reason")}),
        (
            "with whom",
            {
                "fields": (
                    "unique_key",
                    "exclusive_key",
                    "limit_key",
                    "preemptions",
                    "preempted_by",
                    "batch_id",
                    "parent_id",
                    "open_parents",
                    "replay_of",
                    "replayed_by",
                    "schedule_id",
                    "slot_at",
                )
            },
        ),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        found: QuerySet[Any] = super().get_queryset(request)
        match = request.resolver_match
        if match is not None and str(match.url_name).endswith("_changelist"):
            return found.defer("payload", "result", "history", "progress")
        return found

    @admin.display(description="failures")
    def tries(self, job: Job) -> str:
        return _("%(failures)d of %(budget)d, begun %(begun)d times") % {
            "failures": job.failures,
            "budget": job.max_attempts,
            "begun": job.attempt,
        }

    @admin.display(description="life")
    def life(self, job: Job) -> SafeString:
        return show.timeline(job)

    @admin.display(description="payload")
    def shown_payload(self, job: Job) -> SafeString:
        return show.pretty(public_payload(job))

    @admin.display(description="result")
    def shown_result(self, job: Job) -> SafeString:
        return show.pretty(public_data(job.result))


@admin.register(DeadLetter)
class DeadLetterAdmin(ReadOnlyAdmin):
    """Failed jobs that wait, or waited, for somebody's decision."""

    list_display = ("id", "kind", "reason", "state", "queue", "tenant", "opened_at", "its_job")
    list_filter = ("state", KindFilter, QueueFilter)
    search_fields = ("job__id",)
    fields = (
        "its_job",
        "state",
        "kind",
        "reason",
        "summary",
        "fingerprint",
        "attempt",
        "queue",
        "tenant",
        "opened_at",
        "closed_at",
        "expires_at",
        "life",
    )

    @admin.display(description="job")
    def its_job(self, letter: DeadLetter) -> SafeString:
        url = reverse(f"{self.admin_site.name}:jobs_job_change", args=[letter.job_id])
        return format_html('<a href="{}">{}</a>', url, letter.job_id)

    @admin.display(description="life")
    def life(self, letter: DeadLetter) -> SafeString:
        return show.timeline(letter)


@admin.register(Lease)
class LeaseAdmin(ReadOnlyAdmin):
    """Executors: who lives, and who lately did."""

    list_display = (
        "worker",
        "host",
        "pid",
        "queues",
        "slots",
        "started_at",
        "until",
        "draining",
        "dead_at",
    )
    list_filter = (("dead_at", admin.EmptyFieldListFilter), "draining")
    search_fields = ("owner",)
