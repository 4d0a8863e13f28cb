"""The pages of flow control: batches, schedules, effects, and what holds jobs back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from jobs.admin import show
from jobs.admin.bounded import ReadOnlyAdmin
from jobs.admin.filters import KindFilter, Known
from jobs.models import Batch, Blackout, Breaker, Effect, Limiter, Pause, Schedule, Slot
from jobs.operate.shown import public_data


class _StateFilter(Known):
    """The states are few and known, so that nobody looks for them in the table."""

    title = "state"
    parameter_name = "state"
    states: tuple[str, ...] = ()

    def values(self) -> Iterable[str]:
        return self.states


class BatchStateFilter(_StateFilter):
    states = ("open", "sealed", "done")


class EffectStateFilter(_StateFilter):
    states = ("intent", "done", "in_doubt", "failed")


class BreakerStateFilter(_StateFilter):
    states = ("closed", "open", "half_open")


class _NamedAdmin(ReadOnlyAdmin):
    """Rows that are found by their whole name instead of by an id."""

    search_help_text = "a whole name"

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        if not search_term:
            return queryset, False
        return queryset.filter(**{self.search_fields[0]: search_term.strip()}), False


def link_to_job(site: str, job_id: object) -> SafeString:
    """The page of the job."""
    url = reverse(f"{site}:jobs_job_change", args=[job_id])
    return format_html('<a href="{}">{}</a>', url, job_id)


@admin.register(Batch)
class BatchAdmin(ReadOnlyAdmin):
    """Jobs that belong together, and how many of them have ended how."""

    list_display = ("id", "name", "state", "tenant", "ended", "failed", "created_at", "finished_at")
    list_filter = (BatchStateFilter,)
    search_fields = ("id",)
    fields = (
        "id",
        "name",
        "state",
        "tenant",
        "total",
        "succeeded",
        "failed",
        "cancelled",
        "expired",
        "generation",
        "created_at",
        "sealed_at",
        "finished_at",
        "shown_callbacks",
        "called",
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        found: QuerySet[Any] = super().get_queryset(request)
        match = request.resolver_match
        if match is not None and str(match.url_name).endswith("_changelist"):
            return found.defer("callbacks", "called")
        return found

    @admin.display(description="ended")
    def ended(self, batch: Batch) -> str:
        count = batch.succeeded + batch.failed + batch.cancelled + batch.expired
        if batch.total is None:
            return _("%(count)d so far") % {"count": count}
        return _("%(count)d of %(total)d") % {"count": count, "total": batch.total}

    @admin.display(description="callbacks")
    def shown_callbacks(self, batch: Batch) -> SafeString:
        return show.pretty(public_data(batch.callbacks))


@admin.register(Schedule)
class ScheduleAdmin(_NamedAdmin):
    """Rules of the clock, and the slots that they come to next."""

    list_display = ("name", "kind", "rule", "enabled", "paused_at", "next_slot", "error")
    list_filter = ("enabled", KindFilter)
    search_fields = ("name",)
    fields = (
        "name",
        "kind",
        "rule",
        "missed",
        "overlap",
        "enabled",
        "is_declared",
        "last_slot",
        "next_slot",
        "error",
        "paused_at",
        "paused_by",
        "paused_reason",
        "paused_until",
        "shown_payload",
        "shown_options",
        "created_at",
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        found: QuerySet[Any] = super().get_queryset(request)
        match = request.resolver_match
        if match is not None and str(match.url_name).endswith("_changelist"):
            return found.defer("payload", "options")
        return found

    @admin.display(description="rule")
    def rule(self, schedule: Schedule) -> str:
        if schedule.interval is not None:
            return _("every %(seconds)g s") % {"seconds": schedule.interval}
        return f"{schedule.cron} {schedule.time_zone}"

    @admin.display(description="payload")
    def shown_payload(self, schedule: Schedule) -> SafeString:
        return show.pretty(public_data(schedule.payload))

    @admin.display(description="options")
    def shown_options(self, schedule: Schedule) -> SafeString:
        return show.pretty(schedule.options)


@admin.register(Effect)
class EffectAdmin(ReadOnlyAdmin):
    """What jobs have done to the world outside, and what nobody knows about it."""

    list_display = ("id", "key", "state", "its_job", "attempt", "intended_at", "settled_at")
    list_filter = (EffectStateFilter,)
    search_fields = ("job_id",)
    ordering = ("-id",)
    search_help_text = "the id of a job"
    fields = (
        "key",
        "state",
        "its_job",
        "attempt",
        "intended_at",
        "settled_at",
        "resolution",
        "shown_request",
        "shown_outcome",
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        found: QuerySet[Any] = super().get_queryset(request)
        match = request.resolver_match
        if match is not None and str(match.url_name).endswith("_changelist"):
            return found.defer("request", "outcome")
        return found

    @admin.display(description="job")
    def its_job(self, effect: Effect) -> SafeString:
        return link_to_job(self.admin_site.name, effect.job_id)

    @admin.display(description="request")
    def shown_request(self, effect: Effect) -> SafeString:
        return show.pretty(public_data(effect.request))

    @admin.display(description="outcome")
    def shown_outcome(self, effect: Effect) -> SafeString:
        return show.pretty(public_data(effect.outcome))


@admin.register(Pause)
class PauseAdmin(_NamedAdmin):
    """What somebody has stopped, why, and until when."""

    list_display = ("scope", "reason", "by", "created_at", "until")
    search_fields = ("scope",)


@admin.register(Blackout)
class BlackoutAdmin(_NamedAdmin):
    """Times of the week in which nothing of a scope starts."""

    list_display = ("scope", "weekdays", "start", "end", "time_zone", "enabled", "reason")
    list_filter = ("enabled",)
    search_fields = ("scope",)
    fields = ("scope", "weekdays", "start", "end", "time_zone", "enabled", "reason")

    @admin.display(description="days")
    def weekdays(self, window: Blackout) -> str:
        names = (_("Mon"), _("Tue"), _("Wed"), _("Thu"), _("Fri"), _("Sat"), _("Sun"))
        return ", ".join(names[day] for day in sorted(window.days)) or _("every day")


@admin.register(Limiter)
class LimiterAdmin(_NamedAdmin):
    """How many may run at once, and how often one may start."""

    list_display = ("scope", "at_once", "per_second", "burst", "closed_until", "is_declared")
    list_filter = ("is_declared",)
    search_fields = ("scope",)
    fields = (*list_display, "tokens", "refilled_at")


@admin.register(Slot)
class SlotAdmin(_NamedAdmin):
    """Exclusive keys, and who holds them now."""

    list_display = ("key", "its_job")
    search_fields = ("key",)
    fields = list_display

    @admin.display(description="job")
    def its_job(self, slot: Slot) -> SafeString:
        return link_to_job(self.admin_site.name, slot.job_id)


@admin.register(Breaker)
class BreakerAdmin(_NamedAdmin):
    """Circuit breakers: which are open, since when, and why."""

    list_display = ("name", "state", "failures", "threshold", "opened_at", "retry_at")
    list_filter = (BreakerStateFilter,)
    search_fields = ("name",)
    fields = (*list_display, "open_for", "last_error")
