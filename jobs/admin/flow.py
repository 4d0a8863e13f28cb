"""What holds jobs back: pauses, limits, exclusive keys and circuit breakers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobs import registry
from jobs.admin.actions import Act, Reason
from jobs.admin.components import duration, time_tag
from jobs.admin.fields import Words
from jobs.admin.plain import Column, Fact, PlainAdmin, Tab, job_link, moment
from jobs.admin.words import LOOKS
from jobs.models import Breaker, Limiter, Meter, Pause, Slot
from jobs.templatetags.jobs_admin import jd_number


class OpenForm(Reason):
    words = {
        "duration": Words(
            gettext_lazy("Seconds"),
            gettext_lazy("Calls are blocked for this long; then one caller tries."),
        )
    }


def _is_closed(request: HttpRequest, row: Any) -> str:
    is_sound = row.state == "closed" and not row.failures
    return _("It is closed, with no failure counted.") if is_sound else ""


PAUSE_ACTS = (
    Act("resume", gettext_lazy("Resume…"), target=lambda row: row.scope, tone="primary",
        consequences=lambda r, p: [_("Waiting jobs start again, by their priority."),
                                   _("A blackout window would stay in force.")],
        verb="scope.resume", many=True, done=gettext_lazy("It continues.")),
)  # fmt: skip


@admin.register(Pause)
class PauseAdmin(PlainAdmin):
    """What somebody has stopped, why, and until when."""

    order = ("scope",)
    search = "scope"
    acts = PAUSE_ACTS
    audit_kind = "scope"
    nothing = (
        gettext_lazy("Nothing is paused"),
        gettext_lazy("A queue is paused on its page, anything else on the page of queues."),
    )

    def columns(self, request: HttpRequest) -> Sequence[Column]:
        return (
            Column(_("Scope"), lambda p: p.scope),
            Column(_("By"), lambda p: p.by),
            Column(_("Reason"), lambda p: p.reason, "jd-reason", is_bare=True),
            Column(_("Since"), moment("created_at"), "jd-quiet"),
            Column(_("Until"), _until, "jd-quiet"),
        )

    def facts(self, request: HttpRequest, row: Any) -> Sequence[Fact]:
        return [(column.label, column.draw(row)) for column in self.columns(request)[1:]]

    def look(self, row: Pause) -> str:
        return "paused"


def _until(pause: Pause) -> Any:
    return time_tag(pause.until) if pause.until else _("resumed by hand")


def _is_open(request: HttpRequest, row: Limiter | Meter) -> str:
    is_closed = row.closed_until is not None and row.closed_until > timezone.now()
    return "" if is_closed else _("Nothing is closed for a time.")


@admin.register(Limiter)
class LimiterAdmin(PlainAdmin):
    """How many may run at once, and how often one may start."""

    order = ("scope",)
    search = "scope"
    tabs = (
        Tab("code", gettext_lazy("Set in code"), {"is_declared": True}),
        Tab("hand", gettext_lazy("Set by hand"), {"is_declared": False}),
    )
    acts = (
        Act("reopen", gettext_lazy("Reopen…"), None, _is_open, tone="primary",
            verb="limit.reopen", many=True, target=lambda row: row.scope,
            done=gettext_lazy("It starts again.")),
    )  # fmt: skip
    nothing = (
        gettext_lazy("Nothing is limited"),
        gettext_lazy("Declare a limit with its handler, or set one on the page of a queue."),
    )
    audit_kind = "scope"

    def columns(self, request: HttpRequest) -> Sequence[Column]:
        return (
            Column(_("Scope"), lambda m: m.scope),
            Column(_("At once"), lambda m: _number(m.at_once), "jd-num"),
            Column(_("Per second"), lambda m: _number(m.per_second), "jd-num"),
            Column(_("Burst"), lambda m: _number(m.burst), "jd-num"),
            Column(_("Closed until"), moment("closed_until"), "jd-quiet"),
            Column(_("Set"), _set_by),
        )

    def facts(self, request: HttpRequest, row: Any) -> Sequence[Fact]:
        return (
            *((column.label, column.draw(row)) for column in self.columns(request)[1:]),
            (_("Until"), time_tag(row.override_until)),
            (_("Left of the burst"), _number(round(row.tokens, 1))),
            *([(_("Its rate held jobs back"), time_tag(row.rated_at))] if row.rated_at else []),
            *([(_("Queue"), self._queue(row))] if _queue_of(row) else []),
        )

    def _queue(self, limit: Limiter) -> Any:
        name = _queue_of(limit)
        url = reverse(f"{self.admin_site.name}:jobs_queue_change", args=[name])
        return format_html('<a href="{}">{}</a>', url, name)


def _queue_of(limit: Limiter) -> str:
    """The queue on whose page the limit is changed."""
    sort, _colon, name = limit.scope.partition(":")
    if sort == "queue":
        return name
    kind = name.partition("|")[0]
    return next((str(h.queue) for h in registry.handlers() if h.kind == kind), "")


def _set_by(limit: Limiter) -> Any:
    where = _("in code") if limit.is_declared else _("by hand")
    if not limit.set_by:
        return where
    return format_html(
        '{} <span class="jd-quiet">{}: {}</span>', where, limit.set_by, limit.set_reason
    )


def _number(value: float | None) -> Any:
    if value is None:
        return "—"
    return jd_number(int(value) if value == int(value) else value)


@admin.register(Meter)
class MeterAdmin(PlainAdmin):
    """How much handlers may call, and which meters are closed."""

    order = ("name",)
    search = "name"
    acts = (
        Act("reopen", gettext_lazy("Reopen…"), None, _is_open,
            lambda r, m: [_("Jobs that it has put off are due at once.")], tone="primary",
            verb="meter.reopen", many=True, done=gettext_lazy("It starts again.")),
    )  # fmt: skip
    nothing = (
        gettext_lazy("Nothing was metered in the last day"),
        gettext_lazy("A meter is listed here from its first call on."),
    )
    audit_kind = "meter"

    def columns(self, request: HttpRequest) -> Sequence[Column]:
        return (
            Column(_("Meter"), lambda m: m.name),
            Column(_("Calls"), lambda m: _number(m.amount), "jd-num"),
            Column(_("In seconds"), lambda m: _number(m.span), "jd-num"),
            Column(_("Burst"), lambda m: _number(m.burst), "jd-num"),
            Column(_("Last call"), moment("taken_until"), "jd-quiet"),
            Column(_("Closed until"), moment("closed_until"), "jd-quiet"),
        )

    def facts(self, request: HttpRequest, row: Any) -> Sequence[Fact]:
        return [(column.label, column.draw(row)) for column in self.columns(request)[1:]]


@admin.register(Slot)
class SlotAdmin(PlainAdmin):
    """Exclusive keys, and who holds them now."""

    order = ("key",)
    search = "key"
    nothing = (
        gettext_lazy("No exclusive key is held"),
        gettext_lazy("A key is held from when its job is dispatched until the job ends."),
    )

    def columns(self, request: HttpRequest) -> Sequence[Column]:
        site = self.admin_site.name
        return (
            Column(_("Key"), lambda s: s.key),
            Column(_("Held by"), lambda s: job_link(site, s.job_id), "jd-key"),
        )

    def facts(self, request: HttpRequest, row: Any) -> Sequence[Fact]:
        held = self.columns(request)[1]
        return [(held.label, held.draw(row), True)]


@admin.register(Breaker)
class BreakerAdmin(PlainAdmin):
    """Circuit breakers: which are open, since when, and why."""

    order = ("name",)
    search = "name"
    tabs = tuple(
        Tab(state, LOOKS[look].label, {"state": state})
        for state, look in (("open", "open"), ("half_open", "half_open"), ("closed", "closed"))
    )
    nothing = (
        gettext_lazy("No circuit breaker has counted a failure yet"),
        gettext_lazy("They come with the first call that fails, and close by themselves."),
    )
    audit_kind = "breaker"
    acts = (
        Act("open", gettext_lazy("Open…"), form=OpenForm, tone="danger",
            done=gettext_lazy("The circuit is open."),
            consequences=lambda r, b: [_("All calls through it are blocked for this long."),
                                       _("Jobs that would call wait, and lose no attempt.")],
            verb="breaker.open"),
        Act("close", gettext_lazy("Close…"), None, _is_closed,
            lambda r, b: [_("Calls are allowed again; no failure is counted."),
                                       _("Jobs that it has delayed are due at once.")],
            verb="breaker.close", many=True,
            done=gettext_lazy("The circuit is closed.")),
    )  # fmt: skip

    def columns(self, request: HttpRequest) -> Sequence[Column]:
        return (
            Column(_("Circuit breaker"), lambda b: b.name),
            Column(_("Failures in a row"), _failures, "jd-num"),
            Column(_("Since"), moment("opened_at"), "jd-quiet"),
            Column(_("Next try"), moment("retry_at"), "jd-quiet"),
        )

    def facts(self, request: HttpRequest, row: Any) -> Sequence[Fact]:
        return (
            *((column.label, column.draw(row)) for column in self.columns(request)[1:]),
            (_("Stays open for"), duration(row.open_for)),
        )

    def look(self, row: Breaker) -> str:
        return row.state

    def told(self, row: Breaker) -> str:
        return row.last_error


def _failures(breaker: Breaker) -> str:
    return _("%(n)d of %(most)d") % {"n": breaker.failures, "most": breaker.threshold}
