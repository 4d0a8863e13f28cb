"""Effects: what jobs have done to the world outside, and what nobody knows about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobs.admin.access import missing, principal
from jobs.admin.actions import Act, Reason
from jobs.admin.base import as_uuid
from jobs.admin.components import pretty, time_tag
from jobs.admin.fields import Words
from jobs.admin.plain import Column, Fact, PlainAdmin, Tab, job_link, moment
from jobs.admin.words import LOOKS
from jobs.models import Effect
from jobs.operate import doubts
from jobs.operate.permissions import VIEW_PAYLOAD
from jobs.operate.shown import public_data
from jobs.templatetags.jobs_admin import jd_short

_DIGITS = 18


class DoubtForm(Reason):
    """What a person has found out about a call."""

    field_order = ("how",)
    words = {
        "how": Words(
            gettext_lazy("What happened"), widget=forms.RadioSelect,
            choices={"resend": gettext_lazy("It did not happen: make the call again"),
                     "did_not_happen": gettext_lazy("It did not happen: leave the job failed"),
                     "assume_done": gettext_lazy("It did happen: go on as if it had answered")},
        ),
        "outcome": Words(
            gettext_lazy("Its answer, as JSON"),
            gettext_lazy("What the call would have answered; only if it did happen."),
        ),
    }  # fmt: skip


def _resolve(request: HttpRequest, effect: Any, given: dict[str, Any]) -> str:
    done = doubts.resolve(
        effect.pk, given["how"], by=principal(request), reason=given["reason"],
        outcome=given["outcome"],
    )  # fmt: skip
    if done.retried:
        return _("The doubt is gone; its job runs again.")
    if given["how"] == "did_not_happen":
        return _("The doubt is gone; nothing is run again.")
    return _("The doubt is gone.")


def _no_doubt(request: HttpRequest, effect: Any) -> str:
    return "" if effect.state in ("in_doubt", "intent") else _("It is not in doubt.")


@admin.register(Effect)
class EffectAdmin(PlainAdmin):
    """Each call that cannot be taken back, beside its job."""

    is_of_platform = False
    order = ("-id",)
    search = "job_id"
    search_words = gettext_lazy("The id of a job")
    tabs = tuple(
        Tab(state, LOOKS[state].label, {"state": state})
        for state in ("in_doubt", "intent", "done", "failed")
    )
    nothing = (
        gettext_lazy("No job has had an effect yet"),
        gettext_lazy("A call within ctx.effect() is written down here before it is made."),
    )
    long = ("request", "outcome")
    audit_kind = "effect"
    nouns = ("effect",)
    acts = (
        Act("resolve", gettext_lazy("Decide…"), _resolve, _no_doubt,
            lambda r, e: [_("Look at the other side first: at the mailbox, the bank, the feed."),
                          _("A failed job runs again once none of its effects is in doubt, "
               "unless you leave it failed.")],
            DoubtForm, "primary", verb="effect.resolve"),
    )  # fmt: skip

    def columns(self, request: HttpRequest) -> Sequence[Column]:
        return (
            Column(_("Effect"), lambda e: e.key),
            Column(_("Job"), self._job_in_short),
            Column(_("Attempt"), lambda e: e.attempt, "jd-num"),
            Column(_("Intended"), moment("intended_at"), "jd-quiet"),
            Column(_("Settled"), moment("settled_at"), "jd-quiet"),
        )

    def _job(self, effect: Effect) -> str:
        return job_link(self.admin_site.name, effect.job_id)

    def _job_in_short(self, effect: Effect) -> str:
        return job_link(self.admin_site.name, effect.job_id, jd_short(effect.job_id))

    def look(self, row: Effect) -> str:
        return row.state

    def wanted(self, text: str) -> UUID | None:
        return as_uuid(text)

    def rows(self, request: HttpRequest) -> QuerySet[Any]:
        found = super().rows(request)
        scope = principal(request).scope
        if scope.tenants is not None:
            found = found.filter(job__tenant__in=sorted(scope.tenants))
        if scope.queues is not None:
            found = found.filter(job__queue__in=sorted(scope.queues))
        return found

    def find(self, request: HttpRequest, key: str) -> Any:
        if not key.isascii() or not key.isdigit() or len(key) > _DIGITS:
            return None
        return self.rows(request).filter(pk=int(key)).first()

    def facts(self, request: HttpRequest, row: Any) -> Sequence[Fact]:
        return (
            (_("Job"), self._job(row), True),
            (_("Attempt"), row.attempt),
            (_("Intended"), time_tag(row.intended_at)),
            (_("Settled"), time_tag(row.settled_at)),
            *([(_("Decided"), row.resolution)] if row.resolution else []),
        )

    def parts(self, request: HttpRequest, row: Any) -> Sequence[tuple[Any, str]]:
        if why_not := missing(request, VIEW_PAYLOAD):
            return [(_("Request"), why_not)]
        shown = [(_("Request"), row.request), (_("Answer"), row.outcome)]
        return [(label, pretty(public_data(value))) for label, value in shown if value is not None]
