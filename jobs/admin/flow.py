"""Plain lists: effects, pauses, limits, exclusive keys and breakers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobs.admin import show
from jobs.admin.access import principal
from jobs.admin.actions import Act, Reason
from jobs.admin.bounded import ReadOnlyAdmin
from jobs.admin.filters import Known
from jobs.admin.jobforms import JsonText
from jobs.models import Breaker, Effect, Limiter, Pause, Slot
from jobs.operate import breakers, doubts, pauses
from jobs.operate.shown import public_data

if TYPE_CHECKING:
    from django.utils.functional import _StrOrPromise as StrOrPromise


class _StateFilter(Known):
    """The states are few and known, so that nobody looks for them in the table."""

    title = "state"
    parameter_name = "state"
    states: tuple[str, ...] = ()

    def values(self) -> Iterable[str]:
        return self.states


class DoubtForm(Reason):
    """What a person has found out about a call."""

    how = forms.ChoiceField(
        label=gettext_lazy("What happened"), widget=forms.RadioSelect,
        choices=[("resend", gettext_lazy("It did not happen: make the call again")),
                 ("assume_done", gettext_lazy("It did happen: go on as if it had answered"))],
    )  # fmt: skip
    outcome = JsonText(
        label=gettext_lazy("Its answer, as JSON"), required=False,
        help_text=gettext_lazy("What the call would have answered; only if it did happen."),
    )  # fmt: skip


def _resolve(request: HttpRequest, effect: Any, given: dict[str, Any]) -> str:
    done = doubts.resolve(
        effect.pk, given["how"], by=principal(request), reason=given["reason"],
        outcome=given["outcome"],
    )  # fmt: skip
    if done.retried:
        return _("The doubt is gone; its job runs again.")
    return _("The doubt is gone.")


def _no_doubt(request: HttpRequest, effect: Any) -> str:
    return "" if effect.state in ("in_doubt", "intent") else _("It is not in doubt.")


class OpenForm(Reason):
    seconds = forms.IntegerField(
        label=gettext_lazy("Seconds"), initial=60, min_value=1, max_value=int(breakers.LONGEST),
        help_text=gettext_lazy("So long nobody may call; then one caller tries."),
    )  # fmt: skip


def _open(request: HttpRequest, row: Any, given: dict[str, Any]) -> str:
    breakers.force_open(
        row.pk, by=principal(request), reason=given["reason"], seconds=given["seconds"]
    )
    return _("The circuit is open.")


def _close(request: HttpRequest, row: Any, given: dict[str, Any]) -> str:
    breakers.reset(row.pk, by=principal(request), reason=given["reason"])
    return _("The circuit is closed.")


def _resume(request: HttpRequest, row: Any, given: dict[str, Any]) -> str:
    pauses.resume(row.scope, by=principal(request), reason=given["reason"])
    return _("It goes on.")


PAUSE_ACTS = (
    Act("resume", gettext_lazy("Resume…"), "pause_queue", _resume, tone="primary",
        consequences=lambda r, p: [_("Waiting jobs start again, by their priority."),
                                   _("A blackout window would stay in force.")],
        verb="scope.resume"),
)  # fmt: skip


class EffectStateFilter(_StateFilter):
    states = ("intent", "done", "in_doubt", "failed")


class BreakerStateFilter(_StateFilter):
    states = ("closed", "open", "half_open")


class _NamedAdmin(ReadOnlyAdmin):
    """Rows that are found by their whole name instead of by an id."""

    whole_platform = True

    search_help_text: ClassVar[StrOrPromise] = gettext_lazy("a whole name")

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


@admin.register(Effect)
class EffectAdmin(ReadOnlyAdmin):
    """What jobs have done to the world outside, and what nobody knows about it."""

    list_display = ("id", "key", "state", "its_job", "attempt", "intended_at", "settled_at")
    list_filter = (EffectStateFilter,)
    search_fields = ("job_id",)
    ordering = ("-id",)
    acts = (
        Act("resolve", gettext_lazy("Decide…"), "resolve_doubt", _resolve, _no_doubt,
            lambda r, e: [_("Look at the other side first: at the mailbox, the bank, the feed."),
                          _("A failed job runs again once none of its effects is in doubt.")],
            DoubtForm, "primary", verb="effect.resolve"),
    )  # fmt: skip
    search_help_text: ClassVar[StrOrPromise] = gettext_lazy("the id of a job")
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
        scope = principal(request).scope
        if scope.tenants is not None:
            found = found.filter(job__tenant__in=sorted(scope.tenants))
        if scope.queues is not None:
            found = found.filter(job__queue__in=sorted(scope.queues))
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
    acts = PAUSE_ACTS
    search_fields = ("scope",)


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
    acts = (
        Act("open", gettext_lazy("Open…"), "edit_queue", _open, form=OpenForm, tone="danger",
            consequences=lambda r, b: [_("Nobody calls through it for so long."),
                                       _("Jobs that would call wait, and lose no attempt.")],
            verb="breaker.open"),
        Act("close", gettext_lazy("Close…"), "edit_queue", _close, tone="primary",
            consequences=lambda r, b: [_("Everybody may call again; no failure is counted."),
                                       _("Jobs that it has delayed keep their time.")],
            verb="breaker.close"),
    )  # fmt: skip
    search_fields = ("name",)
    fields = (*list_display, "open_for", "last_error")
